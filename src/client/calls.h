/* src/client/calls.h
 *
 * calls: the unary requests of a session: queued until a connection and a token are available, sent, retried where that
 * is safe, answered exactly once.
 *
 *     QUEUED --sent--> SENT --answer--> (gone)
 *       ^                |
 *       `- try again ----'   reads: until the deadline, elsewhere. Writes: only if no server can have seen it.
 *
 * Each try of a read gets at most half of the remaining time, so that the call leaves a hanging member in time.
 *
 * Thread: owner (the loop's). The answer comes from belfry_calls_pump() or from the connection, never from inside
 * start.
 */
#ifndef BELFRY_CLIENT_CALLS_H
#define BELFRY_CLIENT_CALLS_H

#include "base/blob.h"
#include "client/auth.h"
#include "client/cluster_identity.h"
#include "client/link.h"

#define BELFRY_CALLS_MAX 10000 /* in progress at the same time */

struct belfry_calls;
struct belfry_call;

enum belfry_call_kind {
    BELFRY_CALL_READ,   /* may be repeated */
    BELFRY_CALL_WRITE,  /* must not be repeated */
    BELFRY_CALL_LOCAL,  /* a read of this one member, with or without a leader: sent without `hasleader` */
    BELFRY_CALL_STREAM, /* a read over a bidirectional stream: done with the first message */
};

struct belfry_answer {
    enum belfry_err err;
    const char *why;             /* "" if OK; otherwise names the endpoint */
    struct belfry_bytes message; /* if OK; lent for the callback */
    const char *endpoint;
};

/* The call is freed when it returns. */
typedef void (*belfry_answer_fn)(const struct belfry_answer *answer, void *user);

struct belfry_calls_opts {
    struct belfry_pool_opts link;
    struct belfry_auth *auth;                 /* shared with the stream; outlives this */
    struct belfry_cluster_identity *identity; /* likewise */
    bool hasleader;
    /* Something changed: call belfry_calls_pump() (and other users of link and token) from the loop soon. */
    void (*changed)(void *user);
    /* An answer had this header. */
    void (*header)(const struct belfry_wire_header *header, void *user);
    /* Every endpoint has failed since the last success; `why` says how. May be NULL. */
    void (*exhausted)(const char *why, void *user);
    /* Logging in failed permanently. */
    void (*auth_failed)(enum belfry_err err, const char *why, void *user);
    void *user;
};

BELFRY_NODISCARD enum belfry_err belfry_calls_create(const struct belfry_calls_opts *opts, struct belfry_calls **out);

/* Answers every call with BELFRY_ERR_CANCELED. NULL is fine. */
void belfry_calls_abort(struct belfry_calls *calls);
void belfry_calls_destroy(struct belfry_calls *calls);

/* Starts a call with `request` (copied), to be answered by deadline_ms.
 * Errors: BELFRY_ERR_LIMIT, BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err belfry_calls_start(struct belfry_calls *calls, enum belfry_call_kind kind,
                                                    const char *path, struct belfry_bytes request, uint64_t deadline_ms,
                                                    belfry_answer_fn fn, void *user, struct belfry_call **out);

/* Frees the call; no answer comes. False from inside its own answer, where it is too late. */
bool belfry_calls_cancel(struct belfry_call *call);
void *belfry_calls_user(const struct belfry_call *call);

/* Answers every call except a log-in with `err`: a requirement of them failed. */
void belfry_calls_fail_all(struct belfry_calls *calls, enum belfry_err err, const char *why);

/* Requests a token although no call waits for one (to open a stream). Each caller also withdraws it, once. */
void belfry_calls_want_token(struct belfry_calls *calls, bool wanted);

void belfry_calls_pump(struct belfry_calls *calls, uint64_t now_ms);
uint64_t belfry_calls_due(const struct belfry_calls *calls); /* when to pump if nothing else happens */

struct belfry_pool *belfry_calls_link(struct belfry_calls *calls);
size_t belfry_calls_count(const struct belfry_calls *calls);

#endif
