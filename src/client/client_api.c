/* src/client/client_api.c: the public calls: each has a request, a path and a kind of reply. */
#include <stdlib.h>

#include "base/clock.h"
#include "base/owner.h"
#include "client/etcd_request.h"
#include "client/opts.h"
#include "client/range_bytes.h"
#include "client/reply.h"
#include "client/session.h"
#include "client/txn.h"

/* The state between a public call and its reply. */
struct pending {
    struct belfry *b;
    enum belfry_reply_kind kind;
    belfry_reply_fn fn;
    void *user;
};

static void reply(const struct pending *p, struct belfry_reply_view *view, const struct belfry_answer *answer)
{
    view->reply.err = answer->err;
    view->reply.why = answer->why;
    view->reply.endpoint = answer->endpoint;
    p->fn(&view->reply, p->user);
}

static void on_answer(const struct belfry_answer *answer, void *user)
{
    struct pending *p = user;
    struct belfry_reply_view view = {.kind = p->kind};
    struct belfry_answer told = *answer;
    if (answer->err == BELFRY_OK)
        told.err = belfry_reply_init(&view, p->kind, answer->message);
    if (told.err == BELFRY_OK && p->kind == BELFRY_REPLY_KEEPALIVE && view.reply.ttl_s <= 0)
        told.err = BELFRY_ERR_NOT_FOUND;
    if (told.err != answer->err)
        told.why = belfry_strerror(told.err);
    reply(p, &view, &told);
    belfry_reply_fini(&view);
    free(p);
}

void belfry_call_cancel(struct belfry_call *call)
{
    if (call == NULL)
        return;
    struct pending *p = belfry_calls_user(call);
    BELFRY_OWNER_ENTER(p->b);
    if (!belfry_calls_cancel(call))
        return;
    belfry_session_poke(p->b); /* sends the cancellation */
    free(p);
}

/* The path of a request and the kind of its reply. */
struct method {
    const char *path;
    enum belfry_call_kind call;
    enum belfry_reply_kind reply;
    unsigned opts; /* that are valid for it */
};

struct caller {
    struct belfry *b;
    const struct belfry_opts *opts;
    belfry_reply_fn fn;
    void *user;
    struct belfry_call **out;
};

static enum belfry_err start(const struct caller *c, const struct method *method, struct belfry_bytes request)
{
    BELFRY_OWNER_ENTER(c->b);
    int64_t timeout = belfry_opts_is_set(c->opts, BELFRY_OPT_COMMAND_TIMEOUT)
                          ? belfry_opts_number(c->opts, BELFRY_OPT_COMMAND_TIMEOUT)
                          : (int64_t)c->b->command_timeout_ms;
    enum belfry_err refused = belfry_session_refuses(c->b, c->fn != NULL, c->opts, method->opts | BELFRY_FOR_CALL);
    if (refused != BELFRY_OK)
        return refused;
    struct pending *p = malloc(sizeof(*p));
    if (p == NULL)
        return belfry_why_note(c->b, BELFRY_ERR_NOMEM, NULL);
    *p = (struct pending){.b = c->b, .kind = method->reply, .fn = c->fn, .user = c->user};
    enum belfry_err err = belfry_calls_start(c->b->calls, method->call, method->path, request,
                                             belfry_clock_ms() + (uint64_t)timeout, on_answer, p, c->out);
    if (err != BELFRY_OK) {
        free(p);
        return belfry_why_note(c->b, err, err == BELFRY_ERR_LIMIT ? "too many calls are under way: 10,000" : NULL);
    }
    belfry_session_poke(c->b);
    return BELFRY_OK;
}

/* Sends `request` (unless `err` is set) and frees it. */
static enum belfry_err send_buf(const struct caller *c, const struct method *method, enum belfry_err err,
                                struct belfry_buf *request)
{
    enum belfry_err result =
        err == BELFRY_OK ? start(c, method, belfry_buf_bytes(request)) : belfry_why_note(c->b, err, NULL);
    belfry_buf_fini(request);
    return result;
}

int belfry_get(struct belfry *b, struct belfry_range range, const struct belfry_opts *opts, belfry_reply_fn fn,
               void *user, struct belfry_call **out)
{
    struct method method = {BELFRY_PATH_RANGE, BELFRY_CALL_READ, BELFRY_REPLY_RANGE, BELFRY_FOR_GET};
    struct caller c = {b, opts, fn, user, out};
    struct belfry_wire_range *wire;
    struct belfry_buf request = {0};
    enum belfry_err err = belfry_range_wire(range, &wire);
    if (err != BELFRY_OK)
        return belfry_why_note(b, err, belfry_range_why(err));
    if (belfry_opts_number(opts, BELFRY_OPT_SERIALIZABLE) != 0)
        method.call = BELFRY_CALL_LOCAL;
    err = belfry_request_range(&request, wire, opts);
    free(wire);
    return send_buf(&c, &method, err, &request);
}

int belfry_put(struct belfry *b, struct belfry_bytes key, struct belfry_bytes value, const struct belfry_opts *opts,
               belfry_reply_fn fn, void *user, struct belfry_call **out)
{
    static const struct method method = {BELFRY_PATH_PUT, BELFRY_CALL_WRITE, BELFRY_REPLY_PUT, BELFRY_FOR_PUT};
    struct caller c = {b, opts, fn, user, out};
    struct belfry_buf request = {0};
    if (key.len == 0)
        return belfry_why_note(b, BELFRY_ERR_INVALID, "the key of a put is empty");
    return send_buf(&c, &method, belfry_request_put(&request, key, value, opts), &request);
}

int belfry_del(struct belfry *b, struct belfry_range range, const struct belfry_opts *opts, belfry_reply_fn fn,
               void *user, struct belfry_call **out)
{
    static const struct method method = {BELFRY_PATH_DELETE_RANGE, BELFRY_CALL_WRITE, BELFRY_REPLY_DELETE,
                                         BELFRY_FOR_DEL};
    struct caller c = {b, opts, fn, user, out};
    struct belfry_wire_range *wire;
    struct belfry_buf request = {0};
    enum belfry_err err = belfry_range_wire(range, &wire);
    if (err != BELFRY_OK)
        return belfry_why_note(b, err, belfry_range_why(err));
    err = belfry_request_delete(&request, wire, opts);
    free(wire);
    return send_buf(&c, &method, err, &request);
}

int belfry_txn_commit(struct belfry *b, const struct belfry_txn *txn, const struct belfry_opts *opts,
                      belfry_reply_fn fn, void *user, struct belfry_call **out)
{
    struct method method = {BELFRY_PATH_TXN, BELFRY_CALL_WRITE, BELFRY_REPLY_TXN, 0};
    struct caller c = {b, opts, fn, user, out};
    struct belfry_bytes request;
    enum belfry_err err = belfry_txn_request(txn, &request);
    if (err == BELFRY_OK && !belfry_txn_needs_leader(txn))
        method.call = BELFRY_CALL_LOCAL;
    return err == BELFRY_OK ? start(&c, &method, request) : belfry_why_note(b, err, belfry_txn_why(txn));
}

int belfry_compact(struct belfry *b, int64_t rev, const struct belfry_opts *opts, belfry_reply_fn fn, void *user,
                   struct belfry_call **out)
{
    static const struct method method = {BELFRY_PATH_COMPACT, BELFRY_CALL_WRITE, BELFRY_REPLY_HEADER,
                                         BELFRY_FOR_COMPACT};
    struct caller c = {b, opts, fn, user, out};
    struct belfry_buf request = {0};
    bool physical = belfry_opts_number(opts, BELFRY_OPT_PHYSICAL) != 0;
    return send_buf(&c, &method, belfry_request_compact(&request, rev, physical), &request);
}

int belfry_lease_grant(struct belfry *b, int64_t ttl_s, int64_t id, const struct belfry_opts *opts, belfry_reply_fn fn,
                       void *user, struct belfry_call **out)
{
    static const struct method method = {BELFRY_PATH_LEASE_GRANT, BELFRY_CALL_WRITE, BELFRY_REPLY_GRANT, 0};
    struct caller c = {b, opts, fn, user, out};
    struct belfry_buf request = {0};
    return send_buf(&c, &method, belfry_request_lease_grant(&request, ttl_s, id), &request);
}

int belfry_lease_revoke(struct belfry *b, int64_t id, const struct belfry_opts *opts, belfry_reply_fn fn, void *user,
                        struct belfry_call **out)
{
    static const struct method method = {BELFRY_PATH_LEASE_REVOKE, BELFRY_CALL_WRITE, BELFRY_REPLY_HEADER, 0};
    struct caller c = {b, opts, fn, user, out};
    struct belfry_buf request = {0};
    return send_buf(&c, &method, belfry_request_lease_id(&request, id), &request);
}

int belfry_lease_keepalive(struct belfry *b, int64_t id, const struct belfry_opts *opts, belfry_reply_fn fn, void *user,
                           struct belfry_call **out)
{
    static const struct method method = {BELFRY_PATH_LEASE_KEEPALIVE, BELFRY_CALL_STREAM, BELFRY_REPLY_KEEPALIVE, 0};
    struct caller c = {b, opts, fn, user, out};
    struct belfry_buf request = {0};
    return send_buf(&c, &method, belfry_request_lease_id(&request, id), &request);
}

int belfry_lease_ttl(struct belfry *b, int64_t id, const struct belfry_opts *opts, belfry_reply_fn fn, void *user,
                     struct belfry_call **out)
{
    static const struct method method = {BELFRY_PATH_LEASE_TTL, BELFRY_CALL_READ, BELFRY_REPLY_TTL,
                                         BELFRY_FOR_LEASE_TTL};
    struct caller c = {b, opts, fn, user, out};
    struct belfry_buf request = {0};
    bool keys = belfry_opts_number(opts, BELFRY_OPT_KEYS) != 0;
    return send_buf(&c, &method, belfry_request_lease_ttl(&request, id, keys), &request);
}

int belfry_lease_list(struct belfry *b, const struct belfry_opts *opts, belfry_reply_fn fn, void *user,
                      struct belfry_call **out)
{
    static const struct method method = {BELFRY_PATH_LEASES, BELFRY_CALL_READ, BELFRY_REPLY_LEASES, 0};
    struct caller c = {b, opts, fn, user, out};
    return start(&c, &method, (struct belfry_bytes){NULL, 0});
}

int belfry_status(struct belfry *b, const struct belfry_opts *opts, belfry_reply_fn fn, void *user,
                  struct belfry_call **out)
{
    static const struct method method = {BELFRY_PATH_STATUS, BELFRY_CALL_LOCAL, BELFRY_REPLY_STATUS, 0};
    struct caller c = {b, opts, fn, user, out};
    return start(&c, &method, (struct belfry_bytes){NULL, 0});
}

int belfry_member_list(struct belfry *b, const struct belfry_opts *opts, belfry_reply_fn fn, void *user,
                       struct belfry_call **out)
{
    static const struct method method = {BELFRY_PATH_MEMBER_LIST, BELFRY_CALL_READ, BELFRY_REPLY_MEMBERS, 0};
    struct caller c = {b, opts, fn, user, out};
    struct belfry_buf request = {0};
    return send_buf(&c, &method, belfry_request_member_list(&request), &request);
}
