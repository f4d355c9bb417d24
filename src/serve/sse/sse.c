/* src/serve/sse/sse.c */
#include "serve/sse/sse.h"

#include <stdlib.h>
#include <string.h>

#include "base/owner.h"

#define PATH_EVENTS   "/v1/events"
#define TEXT_OUTSIDE  "the range is outside of what this tier follows (its scope)\n"
#define TEXT_BAD_ID   "Last-Event-ID must be the id of a message of this stream, or a revision\n"
#define TEXT_METHOD   "use GET, with Accept: text/event-stream\n"
#define TEXT_NO_ROOM  "out of memory: try again\n"
#define CORS_FIELDS   3
#define PREFLIGHT_AGE "600"

struct sse {
    struct sse_opts opts;
    struct sse_streams *streams;
    bool serves;
    BELFRY_OWNER;
};

enum belfry_err sse_create(const struct sse_opts *opts, struct sse **out)
{
    struct sse *sse = calloc(1, sizeof(*sse));
    if (sse == NULL)
        return BELFRY_ERR_NOMEM;
    sse->opts = *opts;
    enum belfry_err err = sse_streams_create(&opts->streams, &sse->streams);
    if (err != BELFRY_OK) {
        free(sse);
        return err;
    }
    BELFRY_OWNER_INIT(sse);
    *out = sse;
    return BELFRY_OK;
}

void sse_destroy(struct sse *sse)
{
    if (sse == NULL)
        return;
    BELFRY_OWNER_CHECK(sse);
    sse_streams_destroy(sse->streams);
    free(sse);
}

struct sse_streams *sse_streams(struct sse *sse)
{
    return sse->streams;
}

void sse_stand(struct sse *sse, bool serves)
{
    BELFRY_OWNER_CHECK(sse);
    sse->serves = serves;
}

bool sse_attribute(const struct batch *batch, uint32_t event, struct belfry_bytes name, struct belfry_bytes *before,
                   struct belfry_bytes *after)
{
    *before = (struct belfry_bytes){0};
    *after = sse_pin_value(name, batch_key(batch, &batch->events[event]));
    return true;
}

bool sse_is(struct belfry_bytes path)
{
    return belfry_bytes_equal(path, belfry_bytes_str(PATH_EVENTS));
}

/* ---- other origins ---- */

/* What a page of the head's origin may read; the fields are lent by the head. Returns how many. */
static size_t cors_fields(const struct sse *sse, const struct exchange_head *head,
                          struct belfry_http_field fields[CORS_FIELDS])
{
    struct belfry_bytes origin = exchange_field(head, "origin");
    const struct listen_names *origins = &sse->opts.origins;
    size_t n = 0;
    if (origins->n > 0) /* a cache must not show one origin's answer to another */
        fields[n++] = (struct belfry_http_field){belfry_bytes_str("vary"), belfry_bytes_str("Origin")};
    for (size_t i = 0; i < origins->n; i++) {
        if (origin.len > 0 && belfry_bytes_equal(origin, belfry_bytes_str(origins->list[i])))
            fields[n++] = (struct belfry_http_field){belfry_bytes_str("access-control-allow-origin"), origin};
    }
    return n;
}

static void answer_preflight(struct sse *sse, struct exchange *x, const struct exchange_head *head)
{
    struct belfry_http_field fields[CORS_FIELDS + 3];
    size_t n = cors_fields(sse, head, fields);
    fields[n++] = (struct belfry_http_field){belfry_bytes_str("access-control-allow-methods"),
                                             belfry_bytes_str("GET, POST, OPTIONS")};
    fields[n++] = (struct belfry_http_field){belfry_bytes_str("access-control-allow-headers"),
                                             belfry_bytes_str("authorization, content-type, last-event-id")};
    fields[n++] =
        (struct belfry_http_field){belfry_bytes_str("access-control-max-age"), belfry_bytes_str(PREFLIGHT_AGE)};
    exchange_answer(x, 204, fields, n, (struct belfry_bytes){0});
}

/* ---- a request ---- */

static void refuse(struct sse *sse, struct exchange *x, const struct exchange_head *head, int status, const char *why)
{
    struct belfry_http_field fields[CORS_FIELDS + 2];
    size_t n = cors_fields(sse, head, fields);
    fields[n++] =
        (struct belfry_http_field){belfry_bytes_str("content-type"), belfry_bytes_str("text/plain; charset=utf-8")};
    if (status == 405)
        fields[n++] = (struct belfry_http_field){belfry_bytes_str("allow"), belfry_bytes_str("GET, OPTIONS")};
    exchange_answer(x, status, fields, n, belfry_bytes_str(why));
}

/* `Bearer TOKEN`, or TOKEN as etcd's gateway reads it. */
static struct identity read_identity(struct exchange *x, const struct exchange_head *head)
{
    static const char bearer[] = "bearer ";
    struct belfry_bytes value = exchange_field(head, "authorization");
    bool is_bearer = value.len >= sizeof(bearer) - 1 && strncasecmp(value.data, bearer, sizeof(bearer) - 1) == 0;
    return identity_read(x, head, is_bearer ? IDENTITY_OF_KUBE : IDENTITY_OF_GRPC);
}

static bool is_within_scope(const struct sse *sse, const struct sse_query *query)
{
    for (size_t i = 0; i < query->n_ranges; i++)
        if (!range_within(&query->ranges[i].range, sse->opts.scope))
            return false;
    return true;
}

/* Of a query that was read. NULL: it may be served. */
static const char *why_not(const struct sse *sse, const struct exchange_head *head, const struct sse_query *query,
                           struct sse_ask *ask)
{
    struct belfry_bytes last = exchange_field(head, "last-event-id");
    ask->has_id = query->has_id || last.len > 0;
    ask->id = query->id;
    if (last.len > 0 && !sse_id_read(last, &ask->id))
        return TEXT_BAD_ID;
    return is_within_scope(sse, query) ? NULL : TEXT_OUTSIDE;
}

static void begin_stream(struct sse *sse, struct exchange *x, const struct exchange_head *head,
                         const struct sse_query *query, uint64_t now_ms)
{
    struct belfry_http_field fields[CORS_FIELDS];
    struct belfry_bytes agent = exchange_field(head, "user-agent");
    struct identity who = read_identity(x, head);
    char client[64];
    size_t len = agent.len < sizeof(client) - 1 ? agent.len : sizeof(client) - 1;
    struct sse_ask ask = {.query = query, .who = &who, .client = client, .fields = fields};
    const char *why = why_not(sse, head, query, &ask);
    memcpy(client, len == 0 ? "" : agent.data, len);
    client[len] = '\0';
    ask.n_fields = cors_fields(sse, head, fields);
    if (why != NULL)
        refuse(sse, x, head, 400, why);
    else if (!sse->serves || exchange_conn(x)->leaving)
        sse_answer_later(sse->streams, x, fields, ask.n_fields);
    else
        sse_stream_open(sse->streams, x, &ask, now_ms);
}

void sse_begin(struct sse *sse, struct exchange *x, const struct exchange_head *head, uint64_t now_ms)
{
    BELFRY_OWNER_CHECK(sse);
    struct belfry_bytes text;
    struct sse_query query;
    const char *why;
    (void)exchange_path(head, &text);
    if (belfry_bytes_equal(head->method, belfry_bytes_str("OPTIONS"))) {
        answer_preflight(sse, x, head);
        return;
    }
    if (!belfry_bytes_equal(head->method, belfry_bytes_str("GET"))) {
        refuse(sse, x, head, 405, TEXT_METHOD);
        return;
    }
    enum belfry_err err = sse_query_read(text, &query, &why);
    if (err == BELFRY_OK)
        begin_stream(sse, x, head, &query, now_ms);
    else
        refuse(sse, x, head, err == BELFRY_ERR_INVALID ? 400 : 503, err == BELFRY_ERR_INVALID ? why : TEXT_NO_ROOM);
    sse_query_fini(&query);
}
