/* tests/support/fakeexchange.c */
#include "support/fakeexchange.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define PREFIX 5

static struct fakeexchange *fake_of(struct exchange *x)
{
    return belfry_container(x, struct fakeexchange, x);
}

/* ---- what the handler does ---- */

static void on_taken(struct exchange *x, size_t n)
{
    struct fakeexchange *fake = fake_of(x);
    assert_int_equal(fake->state, FAKEEXCHANGE_OPEN);
    fake->taken += n;
    assert_true(fake->taken <= fake->came);
}

static void keep_fields(struct fakeexchange *fake, const struct belfry_http_field *fields, size_t n)
{
    size_t len = strlen(fake->fields);
    for (size_t i = 0; i < n; i++) {
        int more = snprintf(fake->fields + len, sizeof(fake->fields) - len, "%.*s: %.*s\n", (int)fields[i].name.len,
                            fields[i].name.data, (int)fields[i].value.len,
                            fields[i].value.len == 0 ? "" : fields[i].value.data);
        assert_true(more > 0 && (size_t)more < sizeof(fake->fields) - len);
        len += (size_t)more;
    }
}

static void on_respond(struct exchange *x, int status, const struct belfry_http_field *fields, size_t n)
{
    struct fakeexchange *fake = fake_of(x);
    assert_int_equal(fake->state, FAKEEXCHANGE_OPEN);
    assert_int_equal(fake->status, 0);
    fake->status = status;
    keep_fields(fake, fields, n);
}

static size_t on_room(struct exchange *x)
{
    struct fakeexchange *fake = fake_of(x);
    assert_int_equal(fake->state, FAKEEXCHANGE_OPEN);
    fake->asked++;
    fake->told = fake->room < EXCHANGE_ROOM ? fake->room : EXCHANGE_ROOM;
    return fake->told;
}

static void append(struct fakeexchange *fake, const void *data, size_t len)
{
    if (belfry_buf_append(&fake->body, data, len) != BELFRY_OK)
        fake->lost = true;
}

static void on_write(struct exchange *x, const void *data, size_t len)
{
    struct fakeexchange *fake = fake_of(x);
    fake->writes++;
    assert_int_equal(fake->state, FAKEEXCHANGE_OPEN);
    assert_int_not_equal(fake->status, 0);
    fake->room -= len < fake->room ? len : fake->room;
    append(fake, data, len);
}

static void on_end(struct exchange *x, const struct belfry_http_field *trailers, size_t n)
{
    struct fakeexchange *fake = fake_of(x);
    assert_int_equal(fake->state, FAKEEXCHANGE_OPEN);
    assert_int_not_equal(fake->status, 0);
    fake->state = FAKEEXCHANGE_ENDED;
    exchange_holds(&fake->x, 0);
    keep_fields(fake, trailers, n);
}

static void on_answer(struct exchange *x, int status, const struct belfry_http_field *fields, size_t n,
                      struct belfry_bytes body)
{
    struct fakeexchange *fake = fake_of(x);
    on_respond(x, status, fields, n);
    append(fake, body.data, body.len);
    fake->whole = true;
    fake->state = FAKEEXCHANGE_ENDED;
    exchange_holds(&fake->x, 0);
}

static void on_reset(struct exchange *x, uint32_t h2_code)
{
    struct fakeexchange *fake = fake_of(x);
    assert_int_equal(fake->state, FAKEEXCHANGE_OPEN);
    fake->state = FAKEEXCHANGE_RESET;
    exchange_holds(&fake->x, 0);
    fake->reset_code = h2_code;
}

static const struct exchange_ops fake_ops = {
    .taken = on_taken,
    .respond = on_respond,
    .room = on_room,
    .write = on_write,
    .end = on_end,
    .answer = on_answer,
    .reset = on_reset,
};

/* ---- what the test does ---- */

void fakeexchange_init(struct fakeexchange *fake, size_t room)
{
    *fake = (struct fakeexchange){.room = room};
    fake->x = (struct exchange){.ops = &fake_ops, .conn = &fake->conn};
    snprintf(fake->conn.peer, sizeof(fake->conn.peer), "127.0.0.1:40000");
    belfry_buf_init(&fake->body);
}

void fakeexchange_fini(struct fakeexchange *fake)
{
    belfry_buf_fini(&fake->body);
}

void fakeexchange_head(struct fakeexchange_head *head, const char *method, const char *path, const char *const *fields)
{
    size_t n = 0;
    for (; fields != NULL && fields[n] != NULL; n++) {
        const char *colon = strstr(fields[n], ": ");
        assert_true(colon != NULL && n < sizeof(head->fields) / sizeof(head->fields[0]));
        head->fields[n].name = belfry_bytes_of(fields[n], (size_t)(colon - fields[n]));
        head->fields[n].value = belfry_bytes_str(colon + 2);
    }
    head->head = (struct exchange_head){.method = belfry_bytes_str(method),
                                        .scheme = belfry_bytes_str("http"),
                                        .path = belfry_bytes_str(path),
                                        .authority = belfry_bytes_str("localhost:23790"),
                                        .fields = head->fields,
                                        .n_fields = n};
}

void fakeexchange_send(struct fakeexchange *fake, const void *data, size_t len)
{
    if (fake->x.events == NULL)
        return;
    fake->came += len;
    assert_true(fake->came - fake->taken <= EXCHANGE_WINDOW);
    fake->x.events->body(&fake->x, belfry_bytes_of(data, len), fake->x.user);
}

void fakeexchange_send_message(struct fakeexchange *fake, const void *data, size_t len)
{
    uint8_t message[8192] = {0, 0, 0, (uint8_t)(len >> 8), (uint8_t)len};
    assert_true(len <= sizeof(message) - PREFIX);
    if (len > 0)
        memcpy(message + PREFIX, data, len);
    fakeexchange_send(fake, message, PREFIX + len);
}

void fakeexchange_half_close(struct fakeexchange *fake)
{
    if (fake->x.events != NULL)
        fake->x.events->body_end(&fake->x, fake->x.user);
}

void fakeexchange_make_room(struct fakeexchange *fake, size_t room)
{
    fake->room = room;
    if (fake->x.events != NULL)
        fake->x.events->writable(&fake->x, fake->x.user);
}

void fakeexchange_gone(struct fakeexchange *fake)
{
    const struct exchange_events *events = fake->x.events;
    fake->x.events = NULL;
    if (events == NULL)
        return;
    fake->state = FAKEEXCHANGE_GONE;
    exchange_holds(&fake->x, 0);
    events->gone(&fake->x, fake->x.user);
}

const char *fakeexchange_field(const struct fakeexchange *fake, const char *name)
{
    static char value[FAKEEXCHANGE_TEXT];
    size_t len = strlen(name);
    for (const char *line = fake->fields; *line != '\0'; line = strchr(line, '\n') + 1) {
        if (strncmp(line, name, len) != 0 || strncmp(line + len, ": ", 2) != 0)
            continue;
        snprintf(value, sizeof(value), "%.*s", (int)strcspn(line + len + 2, "\n"), line + len + 2);
        return value;
    }
    return NULL;
}

bool fakeexchange_message(const struct fakeexchange *fake, struct belfry_bytes *out)
{
    struct belfry_bytes body = belfry_buf_bytes(&fake->body);
    const uint8_t *p = (const uint8_t *)body.data;
    if (body.len < PREFIX)
        return false;
    size_t len = (size_t)p[1] << 24 | (size_t)p[2] << 16 | (size_t)p[3] << 8 | p[4];
    if (body.len < PREFIX + len)
        return false;
    *out = belfry_bytes_of(p + PREFIX, len);
    return true;
}

void fakeexchange_next(struct fakeexchange *fake)
{
    struct belfry_bytes message;
    if (fakeexchange_message(fake, &message))
        belfry_buf_take(&fake->body, PREFIX + message.len);
}
