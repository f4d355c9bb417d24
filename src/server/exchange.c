/* src/server/exchange.c: passes a dialect's calls to the protocol of the exchange. */
#include "server/exchange.h"

#include <assert.h>

void exchange_handle(struct exchange *x, const struct exchange_events *events, void *user)
{
    x->events = events;
    x->user = user;
}

void exchange_drop_body(struct exchange *x, struct belfry_bytes bytes, void *user)
{
    (void)user;
    exchange_taken(x, bytes.len);
}

void exchange_ignore(struct exchange *x, void *user)
{
    (void)x, (void)user;
}

const struct exchange_conn *exchange_conn(const struct exchange *x)
{
    return x->conn;
}

unsigned *exchange_pin(struct exchange *x)
{
    return &x->conn->pin;
}

uint64_t *exchange_watched_past(struct exchange *x)
{
    return &x->conn->watched_past;
}

void exchange_set_probes(struct exchange *x, bool probes)
{
    x->conn->probes = probes && x->conn->http1;
}

void exchange_taken(struct exchange *x, size_t n)
{
    assert(x->events != NULL);
    if (n > 0)
        x->ops->taken(x, n);
}

void exchange_holds(struct exchange *x, size_t bytes)
{
    shares_count_unfinished(&x->conn->share, x->held, bytes);
    x->held = bytes;
}

struct shares_conn *exchange_share(const struct exchange *x)
{
    return &x->conn->share;
}

bool exchange_is_ending(const struct exchange *x)
{
    return x->conn->share.ending;
}

void exchange_respond(struct exchange *x, int status, const struct belfry_http_field *fields, size_t n)
{
    assert(x->events != NULL);
    x->ops->respond(x, status, fields, n);
}

void exchange_lasts(struct exchange *x)
{
    x->lasts = true;
}

size_t exchange_room(struct exchange *x)
{
    assert(x->events != NULL);
    return x->ops->room(x);
}

void exchange_write(struct exchange *x, const void *data, size_t len)
{
    assert(x->events != NULL);
    if (len > 0)
        x->ops->write(x, data, len);
}

/* The last words remove the handler first, so that the protocol cannot send it events. A request that is answered from
 * inside begin() has no handler yet. */

size_t exchange_pour(struct exchange *x, struct belfry_bytes bytes)
{
    size_t written = 0, room;
    while (written < bytes.len && (room = exchange_room(x)) > 0) {
        size_t n = bytes.len - written < room ? bytes.len - written : room;
        exchange_write(x, bytes.data + written, n);
        written += n;
    }
    return written;
}

void exchange_end(struct exchange *x, const struct belfry_http_field *trailers, size_t n)
{
    x->events = NULL;
    x->ops->end(x, trailers, n);
}

void exchange_answer(struct exchange *x, int status, const struct belfry_http_field *fields, size_t n,
                     struct belfry_bytes body)
{
    x->events = NULL;
    x->ops->answer(x, status, fields, n, body);
}

void exchange_reset(struct exchange *x, uint32_t h2_code)
{
    x->events = NULL;
    x->ops->reset(x, h2_code);
}

struct belfry_bytes exchange_path(const struct exchange_head *head, struct belfry_bytes *query)
{
    struct belfry_bytes path = head->path;
    const char *mark = path.len == 0 ? NULL : memchr(path.data, '?', path.len);
    *query = (struct belfry_bytes){0};
    if (mark == NULL)
        return path;
    path.len = (size_t)(mark - path.data);
    *query = belfry_bytes_of(mark + 1, head->path.len - path.len - 1);
    return path;
}

struct belfry_bytes exchange_field(const struct exchange_head *head, const char *name)
{
    struct belfry_bytes wanted = belfry_bytes_str(name);
    for (size_t i = 0; i < head->n_fields; i++) {
        if (belfry_bytes_equal(head->fields[i].name, wanted))
            return head->fields[i].value;
    }
    return (struct belfry_bytes){0};
}
