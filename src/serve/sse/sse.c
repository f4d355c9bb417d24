/* src/serve/sse/sse.c */
#include "serve/sse/sse.h"

#include <stdlib.h>
#include <string.h>

#include "base/owner.h"
#include "serve/sse/page_data.h"

#define PATH_EVENTS   "/v1/events"
#define PATH_TICKET   "/v1/ticket"
#define PATH_SCRIPT   "/belfry.js"
#define TEXT_OUTSIDE  "the range is outside of what this tier follows (its scope)\n"
#define TEXT_BAD_ID   "Last-Event-ID must be the id of a message of this stream, or a revision\n"
#define TEXT_NO_KEY   "this tier has no key for tickets: its option ticket-key-file names the file\n"
#define TEXT_BOTH     "a request has a ticket or an Authorization, not both\n"
#define TEXT_TICKET   "the ticket is not one of this tier's keys\n"
#define TEXT_EXPIRED  "the ticket has expired: ask for another with POST " PATH_TICKET "\n"
#define TEXT_NOBODY   "a ticket is for a credential: send an Authorization with the token, or a client certificate\n"
#define TEXT_LONG     "the token is too long for a ticket\n"
#define TEXT_NO_ROOM  "out of memory: try again\n"
#define CORS_FIELDS   2
#define SCRIPT_AGE    "max-age=600"
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

bool sse_is(struct belfry_bytes path)
{
    return belfry_bytes_equal(path, belfry_bytes_str(PATH_EVENTS)) ||
           belfry_bytes_equal(path, belfry_bytes_str(PATH_TICKET)) ||
           belfry_bytes_equal(path, belfry_bytes_str(PATH_SCRIPT));
}

/* ---- other origins ---- */

/* What a page of the head's origin may read; the fields are lent by the head. Returns how many. */
static size_t cors_fields(const struct sse *sse, const struct exchange_head *head,
                          struct belfry_http_field fields[CORS_FIELDS])
{
    struct belfry_bytes origin = exchange_field(head, "origin");
    size_t n = 0;
    if (sse->opts.origins.n > 0) /* a cache must not show one origin's answer to another */
        fields[n++] = (struct belfry_http_field){belfry_bytes_str("vary"), belfry_bytes_str("Origin")};
    if (cors_origins_have(&sse->opts.origins, origin))
        fields[n++] = (struct belfry_http_field){belfry_bytes_str("access-control-allow-origin"), origin};
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
    struct belfry_http_field fields[CORS_FIELDS + 1];
    size_t n = cors_fields(sse, head, fields);
    fields[n++] =
        (struct belfry_http_field){belfry_bytes_str("content-type"), belfry_bytes_str("text/plain; charset=utf-8")};
    exchange_answer(x, status, fields, n, belfry_bytes_str(why));
}

static bool has_method(const struct exchange_head *head, const char *method)
{
    return belfry_bytes_equal(head->method, belfry_bytes_str(method));
}

/* There is no memory: an EventSource would give up for good on any status but 200. */
static void answer_later(struct sse *sse, struct exchange *x, const struct exchange_head *head)
{
    struct belfry_http_field fields[CORS_FIELDS];
    sse_answer_later(sse->streams, x, fields, cors_fields(sse, head, fields), NULL);
}

/* False: it was refused. `method` is the only one besides OPTIONS. */
static bool check_method(struct sse *sse, struct exchange *x, const struct exchange_head *head, const char *method)
{
    struct belfry_http_field fields[CORS_FIELDS + 2];
    bool is_post = strcmp(method, "POST") == 0;
    if (has_method(head, method))
        return true;
    size_t n = cors_fields(sse, head, fields);
    fields[n++] =
        (struct belfry_http_field){belfry_bytes_str("content-type"), belfry_bytes_str("text/plain; charset=utf-8")};
    fields[n++] = (struct belfry_http_field){belfry_bytes_str("allow"),
                                             belfry_bytes_str(is_post ? "POST, OPTIONS" : "GET, OPTIONS")};
    exchange_answer(x, 405, fields, n, belfry_bytes_str(is_post ? "use POST\n" : "use GET\n"));
    return false;
}

/* `Bearer TOKEN`, or TOKEN as etcd's gateway reads it. */
static struct identity read_identity(struct exchange *x, const struct exchange_head *head)
{
    static const char bearer[] = "bearer ";
    struct belfry_bytes value = exchange_field(head, "authorization");
    bool is_bearer = value.len >= sizeof(bearer) - 1 && strncasecmp(value.data, bearer, sizeof(bearer) - 1) == 0;
    return identity_read(x, head, is_bearer ? IDENTITY_OF_KUBE : IDENTITY_OF_GRPC);
}

/* ---- tickets ---- */

static int64_t unix_s(const struct sse *sse)
{
    return sse_unix_s(&sse->opts.streams);
}

static void answer_ticket(struct sse *sse, struct exchange *x, const struct exchange_head *head,
                          struct belfry_bytes ticket, int64_t expires_in_s)
{
    struct belfry_http_field fields[CORS_FIELDS + 2];
    struct belfry_buf body;
    size_t n = cors_fields(sse, head, fields);
    fields[n++] = (struct belfry_http_field){belfry_bytes_str("content-type"), belfry_bytes_str("application/json")};
    fields[n++] = (struct belfry_http_field){belfry_bytes_str("cache-control"), belfry_bytes_str("no-store")};
    belfry_buf_init(&body);
    if (sse_text_ticket_data(ticket, (uint64_t)expires_in_s, &body) == BELFRY_OK)
        exchange_answer(x, 200, fields, n, belfry_buf_bytes(&body));
    else
        refuse(sse, x, head, 503, TEXT_NO_ROOM);
    belfry_buf_fini(&body);
}

/* Without a credential there is nothing to seal, unless nobody needs one. While that is not known, a ticket does no
 * harm: it has no rights. */
static bool may_have_ticket(const struct sse *sse, const struct identity *who, uint64_t now_ms)
{
    if (who->kind != IDENTITY_NONE || who->rights == LISTEN_RIGHTS_OPEN)
        return true;
    return who->rights == LISTEN_RIGHTS_ASKED && permit_auth(sse->opts.streams.permit, now_ms) != PERMIT_AUTH_ON;
}

/* The credential is not checked here: a ticket has its rights, and upstream judges them when the ticket is used. */
static void begin_ticket(struct sse *sse, struct exchange *x, const struct exchange_head *head, uint64_t now_ms)
{
    struct tickets *tickets = sse->opts.streams.tickets;
    struct identity who = read_identity(x, head);
    struct belfry_buf ticket;
    int64_t now_s = unix_s(sse), expires_s = 0;
    belfry_buf_init(&ticket);
    if (!check_method(sse, x, head, "POST"))
        return;
    enum belfry_err err = BELFRY_ERR_UNSUPPORTED;
    if (tickets != NULL && tickets_has_keys(tickets))
        err = may_have_ticket(sse, &who, now_ms) ? tickets_seal(tickets, &who, now_s, now_s, &ticket, &expires_s)
                                                 : BELFRY_ERR_AUTH;
    if (err == BELFRY_OK)
        answer_ticket(sse, x, head, belfry_buf_bytes(&ticket), expires_s - now_s);
    else if (err == BELFRY_ERR_UNSUPPORTED)
        refuse(sse, x, head, 404, TEXT_NO_KEY);
    else if (err == BELFRY_ERR_AUTH)
        refuse(sse, x, head, 401, TEXT_NOBODY);
    else if (err == BELFRY_ERR_TOO_LARGE)
        refuse(sse, x, head, 400, TEXT_LONG);
    else
        refuse(sse, x, head, 503, TEXT_NO_ROOM);
    belfry_buf_fini(&ticket);
}

/* Opens the ticket of a query. On BELFRY_OK the caller ends *out; otherwise the request was answered. */
static enum belfry_err open_ticket(struct sse *sse, struct exchange *x, const struct exchange_head *head,
                                   struct belfry_bytes text, struct ticket *out)
{
    struct tickets *tickets = sse->opts.streams.tickets;
    if (exchange_field(head, "authorization").data != NULL) {
        refuse(sse, x, head, 400, TEXT_BOTH);
        return BELFRY_ERR_INVALID;
    }
    enum belfry_err err = tickets == NULL ? BELFRY_ERR_UNSUPPORTED : tickets_open(tickets, text, unix_s(sse), out);
    if (err == BELFRY_ERR_UNSUPPORTED)
        refuse(sse, x, head, 400, TEXT_NO_KEY);
    else if (err == BELFRY_ERR_NOMEM)
        answer_later(sse, x, head);
    else if (err != BELFRY_OK)
        refuse(sse, x, head, 401, err == BELFRY_ERR_TIMEOUT ? TEXT_EXPIRED : TEXT_TICKET);
    return err;
}

/* ---- belfry.js ---- */

static void begin_script(struct sse *sse, struct exchange *x, const struct exchange_head *head)
{
    struct belfry_http_field fields[CORS_FIELDS + 3];
    if (!check_method(sse, x, head, "GET"))
        return;
    size_t n = cors_fields(sse, head, fields);
    fields[n++] = (struct belfry_http_field){belfry_bytes_str("content-type"),
                                             belfry_bytes_str("text/javascript; charset=utf-8")};
    fields[n++] = (struct belfry_http_field){belfry_bytes_str("cache-control"), belfry_bytes_str(SCRIPT_AGE)};
    fields[n++] = (struct belfry_http_field){belfry_bytes_str("x-content-type-options"), belfry_bytes_str("nosniff")};
    exchange_answer(x, 200, fields, n, belfry_bytes_of(page_belfry_js, sizeof(page_belfry_js)));
}

/* ---- events ---- */

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

/* `ticket` NULL: there is none. */
static void begin_stream(struct sse *sse, struct exchange *x, const struct exchange_head *head,
                         const struct sse_query *query, const struct ticket *ticket, uint64_t now_ms)
{
    struct belfry_http_field fields[CORS_FIELDS];
    struct belfry_bytes agent = exchange_field(head, "user-agent");
    struct identity of_head = read_identity(x, head), who = ticket != NULL ? ticket->who : of_head;
    char client[64];
    size_t len = agent.len < sizeof(client) - 1 ? agent.len : sizeof(client) - 1;
    struct sse_ask ask = {.query = query, .who = &who, .ticket = ticket, .client = client, .fields = fields};
    const char *why = why_not(sse, head, query, &ask);
    who.rights = of_head.rights; /* of the listener and the connection, whoever comes */
    who.source = of_head.source;
    who.share = of_head.share;
    memcpy(client, len == 0 ? "" : agent.data, len);
    client[len] = '\0';
    ask.n_fields = cors_fields(sse, head, fields);
    if (why != NULL)
        refuse(sse, x, head, 400, why);
    else if (!sse->serves || exchange_conn(x)->leaving)
        sse_answer_later(sse->streams, x, fields, ask.n_fields, NULL);
    else
        sse_stream_open(sse->streams, x, &ask, now_ms);
}

static void begin_events(struct sse *sse, struct exchange *x, const struct exchange_head *head,
                         struct belfry_bytes text, uint64_t now_ms)
{
    struct sse_query query;
    struct ticket ticket;
    const char *why;
    if (!check_method(sse, x, head, "GET"))
        return;
    enum belfry_err err = sse_query_read(text, &query, &why);
    if (err == BELFRY_ERR_INVALID) {
        refuse(sse, x, head, 400, why);
    } else if (err != BELFRY_OK) {
        answer_later(sse, x, head);
    } else if (query.ticket.len == 0) {
        begin_stream(sse, x, head, &query, NULL, now_ms);
    } else if (open_ticket(sse, x, head, query.ticket, &ticket) == BELFRY_OK) {
        begin_stream(sse, x, head, &query, &ticket, now_ms);
        ticket_fini(&ticket);
    }
    sse_query_fini(&query);
}

void sse_begin(struct sse *sse, struct exchange *x, const struct exchange_head *head, uint64_t now_ms)
{
    BELFRY_OWNER_CHECK(sse);
    struct belfry_bytes query, path = exchange_path(head, &query);
    if (has_method(head, "OPTIONS"))
        answer_preflight(sse, x, head);
    else if (belfry_bytes_equal(path, belfry_bytes_str(PATH_EVENTS)))
        begin_events(sse, x, head, query, now_ms);
    else if (belfry_bytes_equal(path, belfry_bytes_str(PATH_TICKET)))
        begin_ticket(sse, x, head, now_ms);
    else
        begin_script(sse, x, head);
}
