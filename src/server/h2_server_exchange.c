/* src/server/h2_server_exchange.c: what a handler says, and the DATA frames made of it.
 *
 * Whatever a handler calls only queues: nghttp2 runs no callback from inside, so that any of them may be called from
 * any event, for any exchange of the connection.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "server/h2_server_private.h"

#define FRAME_HEAD  9
#define KEEP_BYTES  1024         /* an empty buffer up to this is kept: most deliveries then allocate nothing */
#define SHARED_MOST (512 * 1024) /* of it: a window is a promise of the peer, who may not read all the same */
#define SHARE_LEAST 1024         /* of the connection's window: room that everybody has whatever the others do */
#define FEW_FIELDS  16           /* response fields that need no allocation */

static struct h2_exchange *of(struct exchange *x)
{
    return (struct h2_exchange *)(void *)x;
}

static bool is_down(const struct h2_exchange *x)
{
    return x->h2->state == H2_SERVER_DOWN;
}

static void free_buf(struct h2_exchange *x)
{
    exchange_memory_count(x->h2->memory, x->buf.cap, 0);
    belfry_buf_fini(&x->buf);
}

static void drop_buf(struct h2_exchange *x)
{
    x->h2->bytes -= belfry_buf_len(&x->buf);
    free_buf(x);
}

/* ---- what is sent ---- */

struct h2_trailers {
    size_t n;
    nghttp2_nv fields[]; /* their bytes follow */
};

static nghttp2_nv nv_of(struct belfry_bytes name, struct belfry_bytes value)
{
    /* nghttp2 does not write there */
    return (nghttp2_nv){.name = (uint8_t *)(uintptr_t)name.data,
                        .value = (uint8_t *)(uintptr_t)value.data,
                        .namelen = name.len,
                        .valuelen = value.len};
}

static uint8_t *copy_bytes(uint8_t **at, const uint8_t *from, size_t len)
{
    uint8_t *to = *at;
    if (len > 0)
        memcpy(to, from, len);
    *at = to + len;
    return to;
}

/* NULL: no memory. */
static struct h2_trailers *trailers_create(const struct exchange_field *fields, size_t n)
{
    size_t bytes = 0;
    for (size_t i = 0; i < n; i++)
        bytes += fields[i].name.len + fields[i].value.len;
    struct h2_trailers *trailers = malloc(sizeof(*trailers) + n * sizeof(trailers->fields[0]) + bytes);
    if (trailers == NULL)
        return NULL;
    trailers->n = n;
    uint8_t *at = (uint8_t *)(trailers->fields + n);
    for (size_t i = 0; i < n; i++) {
        nghttp2_nv *field = &trailers->fields[i];
        *field = nv_of(fields[i].name, fields[i].value);
        field->name = copy_bytes(&at, field->name, field->namelen);
        field->value = copy_bytes(&at, field->value, field->valuelen);
    }
    return trailers;
}

/* The last of the body is about to be framed: the trailers follow it. */
static int queue_trailers(struct h2_exchange *x, uint32_t *flags)
{
    if (x->trailers == NULL)
        return 0;
    *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
    int rc = nghttp2_submit_trailer(x->h2->session, x->id, x->trailers->fields, x->trailers->n);
    free(x->trailers);
    x->trailers = NULL;
    return rc;
}

/* How much of the buffer becomes the next DATA frame; its bytes are asked for by send_data at once. */
static ssize_t on_read(nghttp2_session *session, int32_t id, uint8_t *buf, size_t cap, uint32_t *flags,
                       nghttp2_data_source *source, void *user)
{
    (void)session, (void)id, (void)buf, (void)user;
    struct h2_exchange *x = source->ptr;
    size_t waits = belfry_buf_len(&x->buf);
    x->deferred = waits == 0 && x->said != H2_SAID_END;
    if (x->deferred)
        return NGHTTP2_ERR_DEFERRED;
    *flags |= NGHTTP2_DATA_FLAG_NO_COPY;
    if (waits > cap)
        return (ssize_t)cap;
    if (x->said == H2_SAID_END) {
        *flags |= NGHTTP2_DATA_FLAG_EOF;
        if (queue_trailers(x, flags) != 0) {
            h2_server_note(x->h2, BELFRY_ERR_NOMEM);
            return NGHTTP2_ERR_CALLBACK_FAILURE;
        }
    }
    return (ssize_t)waits;
}

int h2_exchange_send_data(nghttp2_session *session, nghttp2_frame *frame, const uint8_t *head, size_t len,
                          nghttp2_data_source *source, void *user)
{
    (void)session, (void)frame, (void)user;
    struct h2_exchange *x = source->ptr;
    struct h2_server *h2 = x->h2;
    uint8_t *to;
    enum belfry_err err = belfry_buf_reserve(h2->out, FRAME_HEAD + len, &to);
    if (err != BELFRY_OK) {
        h2_server_note(h2, err);
        return NGHTTP2_ERR_CALLBACK_FAILURE;
    }
    memcpy(to, head, FRAME_HEAD);
    if (len > 0)
        memcpy(to + FRAME_HEAD, belfry_buf_bytes(&x->buf).data, len);
    belfry_buf_grown(h2->out, FRAME_HEAD + len);
    belfry_buf_take(&x->buf, len);
    h2->bytes -= len;
    if (belfry_buf_len(&x->buf) == 0 && x->buf.cap > KEEP_BYTES)
        free_buf(x);
    h2_exchange_look_again(x);
    /* Full only now: a frame that was begun could not be taken back when its stream is reset meanwhile. */
    return belfry_buf_len(h2->out) < h2->enough ? 0 : NGHTTP2_ERR_PAUSE;
}

static void submit_head(struct h2_exchange *x, int status, const struct exchange_field *fields, size_t n,
                        const nghttp2_data_provider *body)
{
    nghttp2_nv few[FEW_FIELDS], *all = few;
    if (n >= FEW_FIELDS) {
        all = calloc(n + 1, sizeof(*all));
        if (all == NULL) {
            h2_server_note(x->h2, BELFRY_ERR_NOMEM);
            return;
        }
    }
    char text[16];
    snprintf(text, sizeof(text), "%03d", status);
    all[0] = nv_of(belfry_bytes_str(":status"), belfry_bytes_str(text));
    for (size_t i = 0; i < n; i++)
        all[i + 1] = nv_of(fields[i].name, fields[i].value);
    h2_server_note_rc(x->h2, nghttp2_submit_response(x->h2->session, x->id, all, n + 1, body));
    if (all != few)
        free(all);
}

static void submit_head_and_body(struct h2_exchange *x, int status, const struct exchange_field *fields, size_t n)
{
    nghttp2_data_provider body = {.source.ptr = x, .read_callback = on_read};
    submit_head(x, status, fields, n, &body);
}

/* There is something to send again. */
static void wake(struct h2_exchange *x)
{
    if (x->deferred) {
        x->deferred = false;
        /* that its stream is about to be closed is no error of ours */
        if (nghttp2_session_resume_data(x->h2->session, x->id) == NGHTTP2_ERR_NOMEM)
            h2_server_note(x->h2, BELFRY_ERR_NOMEM);
    }
    h2_server_tell(x->h2);
}

static void append(struct h2_exchange *x, const void *data, size_t len)
{
    size_t before = x->buf.cap;
    enum belfry_err err = belfry_buf_append(&x->buf, data, len);
    exchange_memory_count(x->h2->memory, before, x->buf.cap);
    if (err == BELFRY_OK)
        x->h2->bytes += len;
    else
        h2_server_note(x->h2, err);
}

static void give_back(struct h2_exchange *x, size_t n)
{
    n = n < x->untaken ? n : x->untaken;
    x->untaken -= n;
    if (n > 0 && !is_down(x))
        h2_server_note_rc(x->h2, nghttp2_session_consume_stream(x->h2->session, x->id, n));
}

/* Common to all last words. */
static void finish(struct h2_exchange *x, enum h2_said said)
{
    x->said = said;
    belfry_list_remove(&x->of_waiting);
    if (x->base.held > 0)
        exchange_holds(&x->base, H2_SERVER_EXCHANGE); /* the handler keeps nothing, and the request is not whole */
    give_back(x, x->untaken);
}

/* ---- room ---- */

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

size_t h2_server_share(const struct h2_server *h2)
{
    if (!exchange_memory_has(h2->memory, 1))
        return SHARE_LEAST;
    int32_t window = nghttp2_session_get_remote_window_size(h2->session);
    size_t shared = least(window > 0 ? (size_t)window : 0, SHARED_MOST), share = shared / h2->n_exchanges;
    return share > SHARE_LEAST ? share : SHARE_LEAST;
}

/* *out_wait: where to wait for more. What holds it up is the smaller of the two: only its own window, or only the
 * share, can make it more, apart from what it has written being sent. */
static size_t room_now(const struct h2_exchange *x, struct belfry_list **out_wait)
{
    struct h2_server *h2 = x->h2;
    *out_wait = &h2->short_of_share;
    if (h2->held || h2->state >= H2_SERVER_ENDING)
        return 0;
    int32_t own = nghttp2_session_get_stream_remote_window_size(h2->session, x->id);
    size_t window = own > 0 ? (size_t)own : 0, share = h2_server_share(h2), most = least(share, EXCHANGE_ROOM);
    h2->share = least(h2->share, share); /* whatever is more than this is news */
    if (window <= most) {
        *out_wait = &h2->short_of_window;
        most = window;
    }
    size_t waits = belfry_buf_len(&x->buf);
    return most > waits ? most - waits : 0;
}

static void wait_in(struct h2_exchange *x, struct belfry_list *list)
{
    belfry_list_remove(&x->of_waiting);
    belfry_list_append(list, &x->of_waiting);
}

void h2_exchange_look_again(struct h2_exchange *x)
{
    if (!belfry_list_empty(&x->of_waiting))
        wait_in(x, &x->h2->due);
}

/* ---- the operations ---- */

static void op_taken(struct exchange *x, size_t n)
{
    give_back(of(x), n);
    h2_server_tell(of(x)->h2);
}

static void op_respond(struct exchange *base, int status, const struct exchange_field *fields, size_t n)
{
    struct h2_exchange *x = of(base);
    assert(x->said == H2_SAID_NOTHING);
    x->said = H2_SAID_HEAD;
    if (is_down(x))
        return;
    submit_head_and_body(x, status, fields, n);
    h2_server_tell(x->h2);
}

static size_t op_room(struct exchange *base)
{
    struct h2_exchange *x = of(base);
    struct belfry_list *list;
    size_t room = room_now(x, &list);
    if (room < EXCHANGE_ROOM_LOW)
        wait_in(x, list);
    return room;
}

static void op_write(struct exchange *base, const void *data, size_t len)
{
    struct h2_exchange *x = of(base);
    assert(x->said == H2_SAID_HEAD);
    if (is_down(x) || x->is_head)
        return;
    append(x, data, len);
    wake(x);
}

static void op_end(struct exchange *base, const struct exchange_field *trailers, size_t n)
{
    struct h2_exchange *x = of(base);
    assert(x->said == H2_SAID_HEAD);
    finish(x, H2_SAID_END);
    if (is_down(x))
        return;
    if (n > 0) {
        x->trailers = trailers_create(trailers, n);
        if (x->trailers == NULL)
            h2_server_note(x->h2, BELFRY_ERR_NOMEM);
    }
    wake(x);
}

static void op_answer(struct exchange *base, int status, const struct exchange_field *fields, size_t n,
                      struct belfry_bytes body)
{
    struct h2_exchange *x = of(base);
    assert(x->said == H2_SAID_NOTHING);
    finish(x, H2_SAID_END);
    if (is_down(x))
        return;
    if (body.len == 0 || x->is_head) {
        submit_head(x, status, fields, n, NULL);
    } else {
        submit_head_and_body(x, status, fields, n);
        append(x, body.data, body.len);
    }
    h2_server_tell(x->h2);
}

static void op_reset(struct exchange *base, uint32_t h2_code)
{
    struct h2_exchange *x = of(base);
    finish(x, H2_SAID_RESET);
    drop_buf(x);
    if (is_down(x))
        return;
    h2_server_note_rc(x->h2, nghttp2_submit_rst_stream(x->h2->session, NGHTTP2_FLAG_NONE, x->id, h2_code));
    h2_server_tell(x->h2);
}

static const struct exchange_ops ops = {.taken = op_taken,
                                        .respond = op_respond,
                                        .room = op_room,
                                        .write = op_write,
                                        .end = op_end,
                                        .answer = op_answer,
                                        .reset = op_reset};

/* ---- from the connection ---- */

struct h2_exchange *h2_exchange_create(struct h2_server *h2, int32_t id)
{
    struct h2_exchange *x = calloc(1, sizeof(*x));
    if (x == NULL)
        return NULL;
    x->base.ops = &ops;
    x->base.conn = h2->opts.conn;
    x->h2 = h2;
    x->id = id;
    belfry_list_init(&x->of_all);
    belfry_list_init(&x->of_waiting);
    belfry_list_append(&h2->exchanges, &x->of_all);
    h2->n_exchanges++;
    exchange_memory_count(h2->memory, 0, H2_SERVER_EXCHANGE);
    exchange_holds(&x->base, H2_SERVER_EXCHANGE);
    return x;
}

void h2_exchange_destroy(struct h2_exchange *x)
{
    belfry_list_remove(&x->of_all);
    belfry_list_remove(&x->of_waiting);
    x->h2->n_exchanges--;
    exchange_memory_count(x->h2->memory, H2_SERVER_EXCHANGE, 0);
    exchange_holds(&x->base, 0);
    drop_buf(x);
    free(x->trailers);
    free(x);
}

void h2_exchange_gone(struct h2_exchange *x)
{
    const struct exchange_events *events = x->base.events;
    if (events == NULL)
        return;
    x->base.events = NULL;
    belfry_list_remove(&x->of_waiting);
    events->gone(&x->base, x->base.user);
}

void h2_exchange_body(struct h2_exchange *x, struct belfry_bytes bytes)
{
    x->untaken += bytes.len;
    if (x->base.events != NULL)
        x->base.events->body(&x->base, bytes, x->base.user);
    else
        give_back(x, x->untaken);
}

void h2_exchange_body_end(struct h2_exchange *x)
{
    exchange_holds(&x->base, 0);
    if (x->base.events != NULL)
        x->base.events->body_end(&x->base, x->base.user);
}

void h2_exchange_offer_room(struct h2_exchange *x)
{
    struct belfry_list *list;
    size_t room = room_now(x, &list);
    if (room < EXCHANGE_ROOM_LOW && (room == 0 || belfry_buf_len(&x->buf) > 0))
        wait_in(x, list);
    else
        x->base.events->writable(&x->base, x->base.user);
}
