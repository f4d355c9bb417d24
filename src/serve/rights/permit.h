/* src/serve/rights/permit.h
 *
 * permit: may this client read this range? Upstream decides, by the client's own token. rights.h keeps its answers and
 * says what to ask; here they are asked and told.
 *
 * A question is a Range, or a Txn of Ranges, with the client's token (identity.h): the keys and ends of up to
 * RIGHTS_BATCH warrants, at a revision that never comes. etcd looks at no key: it answers 11 (future revision) to a
 * token that may read all of them and 7 to any other, after it has caught up with the cluster, and proposes nothing to
 * raft. Questions of one token go to one member after another, because each use keeps the token alive on that member
 * alone. Claims that are made while the loop reads are asked about together, when it is done. A token that one member
 * does not know is asked about at the others. For the user of a client certificate the tier vouches (vouch.h): such a
 * question waits for a token, and "too old" is never an answer to it. Any other client without a token is refused
 * immediately: the tier's own certificate must not count for it.
 *
 * Is auth on? An Authenticate without a name says so: 9 when it is off, another error when it is on; this too is
 * linearizable and no proposal. regime.h says how long that is believed, and what holds for watches that run.
 *
 * In front of Kubernetes the caller brings an asker of its own (asker.h, reviews.h). Then auth is always on, a listener
 * is never open, and users of certificates are refused. A "range" is whatever that asker reads, and a refusal may be a
 * sentence of its own (permit_sentence()).
 *
 * A listener may say otherwise (listen_policy.h): on an open one a client without a token is granted everything; on one
 * with rights=upstream nothing is granted or delivered while auth is off: PERMIT_UNAVAILABLE with PERMIT_AUTH_IS_OFF.
 *
 * Thread: owner (the loop's). Answers come from the loop or from permit_turn(), never from inside permit_ask().
 */
#ifndef BELFRY_SERVE_RIGHTS_PERMIT_H
#define BELFRY_SERVE_RIGHTS_PERMIT_H

#include <string.h>

#include "serve/rights/answers.h"
#include "serve/rights/asker.h"
#include "serve/rights/identity.h"
#include "serve/rights/regime.h"
#include "serve/rights/rights.h"
#include "serve/rights/vouch.h"
#include "serve/uplink/uplink.h"

#define PERMIT_OFF_MS     REGIME_OFF_MS
#define PERMIT_TIMEOUT_MS 5000
#define PERMIT_IDLE_BYTES (16 * 1024 * 1024) /* of rights_stats.idle_bytes, unless idle_max says otherwise */
#define PERMIT_HOLD_BYTES 1024 /* about what a held question and its part of the table count for, without keys */
#define PERMIT_HOLDER     96   /* bytes that a question counts for, besides its own: its asker's */
#define PERMIT_PERIOD_MS  10000
#define PERMIT_LISTENERS  204 /* a service of each of 200 followed resources, and those of etcd's dialects */

struct permit;
struct permit_question;

enum permit_verdict {
    PERMIT_GRANTED,
    PERMIT_HELD,       /* granted, and the question stays: it may be refused later. Ends with permit_cancel() */
    PERMIT_REFUSED,    /* reason is for cancel_reason, as etcd formats it: "rpc error: code = ... desc = ..." */
    PERMIT_UNAVAILABLE /* upstream cannot be asked; the reason says why */
};

/* The reasons of a refusal, all of them but those that begin with VOUCH_PREFIX "belfry: " (permit_explains()) and those
 * with a sentence (permit_sentence()). */
#define PERMIT_NO_USER      "rpc error: code = InvalidArgument desc = etcdserver: user name is empty"
#define PERMIT_OLD_REVISION "rpc error: code = InvalidArgument desc = etcdserver: revision of auth store is old"
#define PERMIT_BAD_TOKEN    "rpc error: code = Unauthenticated desc = etcdserver: invalid auth token"
#define PERMIT_DENIED       PERMIT_DENIED_PREFIX "etcdserver: permission denied"

/* What every refusal that is about the range begins with. */
#define PERMIT_DENIED_PREFIX "rpc error: code = PermissionDenied desc = "

/* Why a client without a token is refused in front of Kubernetes, though it has a certificate. */
#define PERMIT_NO_CERTIFICATES                                                                                         \
    VOUCH_PREFIX "belfry: this tier cannot pass a client certificate on to the API server: use a bearer "              \
                 "token (kubectl create token NAME)"

/* Why a tier below receives no answer (permit_ask_below()) about a token for which upstream does not answer, though it
 * answers others. For clients here the reason is PERMIT_BAD_TOKEN. */
#define PERMIT_SILENT "upstream does not answer for this token"

/* Why a client is not let in, though upstream allowed it: the answer came when its period was over. */
#define PERMIT_TOO_LATE "belfry: upstream's answer about the rights to this came too late; try again"

/* Why a listener with rights=upstream grants nothing. */
#define PERMIT_AUTH_IS_OFF "belfry: not ready: auth is off upstream, and this listener has rights=upstream"

/* True when the reason says in our own words why the user of a certificate is refused. */
static inline bool permit_explains(const char *reason)
{
    static const char own[] = VOUCH_PREFIX "belfry: ";
    return strncmp(reason, own, sizeof(own) - 1) == 0;
}

/* What a Kubernetes client reads with 401. */
static inline const char *permit_unauthorized(const char *reason)
{
    return permit_explains(reason) ? vouch_message(reason) : "Unauthorized";
}

/* True when a refusal is about the token (missing or invalid) and not about the range. */
static inline bool permit_is_about_token(const char *reason)
{
    return strncmp(reason, PERMIT_DENIED_PREFIX, sizeof(PERMIT_DENIED_PREFIX) - 1) != 0;
}

/* Upstream's own sentence about the range, for a client to read with 403; NULL: the reason has none. */
static inline const char *permit_sentence(const char *reason)
{
    bool has_one = !permit_is_about_token(reason) && strcmp(reason, PERMIT_DENIED) != 0;
    return has_one ? reason + sizeof(PERMIT_DENIED_PREFIX) - 1 : NULL;
}

/* `reason` is lent. Unless the verdict is HELD, the question is gone when it returns. */
typedef void (*permit_fn)(enum permit_verdict verdict, const char *reason, void *user);

struct permit_opts {
    struct uplink *uplink; /* outlives it, and learns from it whether auth is known to be off (uplink_ask_auth()) */
    uv_loop_t *loop;
    struct asker *asker; /* in front of Kubernetes; outlives it; NULL: of etcd */
    struct vouch *vouch; /* for users of client certificates; outlives it; NULL: they are refused */
    size_t n_members;    /* endpoints of the uplink; 0: one */
    uint64_t period_ms;  /* 0: PERMIT_PERIOD_MS, and at most that with an asker */
    size_t idle_max;     /* of rights_stats.idle_bytes; 0: PERMIT_IDLE_BYTES */
    uint64_t seed;
    struct answers *answers; /* of all workers (answers.h); outlives it. NULL: none */
    const struct belfry_log *log;
};

BELFRY_NODISCARD enum belfry_err permit_create(const struct permit_opts *opts, struct permit **out);
void permit_destroy(struct permit *permit); /* questions are dropped without an answer; NULL is fine */

/* True when auth is known to be off. */
bool permit_is_open(struct permit *permit, uint64_t now_ms);

/* True when no question is needed: auth is known to be off and the listener serves then; or the listener is open, and
 * the client has no token. */
bool permit_is_open_to(struct permit *permit, const struct identity *who, uint64_t now_ms);

/* For a read that may be old, and that has got no answer from upstream in time: was auth off when it was last asked
 * about (regime.h), and does the listener serve then? Asks again in the background. */
bool permit_was_open(struct permit *permit, uint64_t now_ms);
bool permit_serves_off(const struct permit *permit, const struct identity *who);

/* Upstream has been silent since heard_ms; or it is not. */
void permit_cut_off(struct permit *permit, uint64_t heard_ms);
void permit_reach(struct permit *permit);

/* Asks once. Everything is copied. An answer that is younger than a period is used again. Questions that wait count as
 * SHARES_WATCH_BYTES of their client. Errors: BELFRY_ERR_NOMEM, BELFRY_ERR_LIMIT (the token or user has
 * RIGHTS_PER_BEARER ranges), BELFRY_ERR_REFUSED (what the client of `who` may hold is used up). */
BELFRY_NODISCARD enum belfry_err permit_ask(struct permit *permit, const struct identity *who, struct belfry_bytes key,
                                            struct belfry_bytes range_end, uint64_t now_ms, permit_fn fn, void *user,
                                            struct permit_question **out);
void permit_cancel(struct permit_question *question); /* no answer will come */

/* Asks once for a tier below, which keeps the answer for clients of its own (inquiry.h, rights.h). */
struct permit_below {
    struct rights_range range;
    bool is_part;       /* it asks about other ranges, too: DENIED may be about one of them */
    uint64_t within_ms; /* how old the answer may be; over 40 percent of a period it is asked for again in any case */
    uint64_t now_ms;
};
BELFRY_NODISCARD enum belfry_err permit_ask_below(struct permit *permit, const struct identity *who,
                                                  const struct permit_below *below, permit_fn fn, void *user,
                                                  struct permit_question **out);

/* From inside the function of such a question, GRANTED: the time from which the answer is. */
uint64_t permit_since(const struct permit_question *question);

/* ---- streams that run ---- */

enum permit_event {
    PERMIT_PAUSED,  /* the last answer has ended: nothing may be delivered */
    PERMIT_RESUMED, /* it may again */
    PERMIT_ENDED    /* upstream does not know its token any more: end it, so that the client logs in again */
};

struct permit_party;
typedef void (*permit_party_fn)(struct permit_party *party, enum permit_event event, const char *reason);

/* A stream, embedded in what it is; all its questions are of one client. */
struct permit_party {
    struct rights_party rights;
    const struct identity *who;
    permit_party_fn fn; /* NULL: it has not joined */
};

/* `who` is lent until it leaves. */
void permit_join(struct permit *permit, struct permit_party *party, const struct identity *who, permit_party_fn fn);
void permit_leave(struct permit *permit, struct permit_party *party); /* after its questions are cancelled */

/* As permit_ask(), for a range that the party's client reads as long as it runs. With auth off the verdict is GRANTED,
 * and the question gone; otherwise HELD. Then it may be REFUSED once more, at any time, with PERMIT_DENIED. */
BELFRY_NODISCARD enum belfry_err permit_hold(struct permit *permit, struct permit_party *party, struct belfry_bytes key,
                                             struct belfry_bytes range_end, uint64_t now_ms, permit_fn fn, void *user,
                                             struct permit_question **out);

/* May it be sent what its held questions are about? Compares times: true is valid at now_ms. */
bool permit_may_deliver(const struct permit *permit, const struct permit_party *party, uint64_t now_ms);

enum permit_regime permit_regime(const struct permit *permit, const struct permit_party *party); /* for this party */

/* `fn` is called when the regime has changed. At most PERMIT_LISTENERS. */
void permit_listen(struct permit *permit, void (*fn)(void *user), void *user);
void permit_unlisten(struct permit *permit, const void *user);

/* Before anything is written at now_ms: tells parties that are paused from now on. */
void permit_turn(struct permit *permit, uint64_t now_ms);

/* ---- auth ---- */

/* Auth may have changed (an Auth call was relayed). Questions that wait take the second answer that comes, even after
 * further doubts: it was requested after them. */
void permit_doubt(struct permit *permit);

/* As known now; when it is not known, asks in the background. */
enum permit_auth permit_auth(struct permit *permit, uint64_t now_ms);

struct permit_stats {
    uint64_t asked, granted, refused, unavailable; /* asked: calls upstream; the others: questions */
    uint64_t shared;                               /* calls upstream that another worker's answer made needless */
    uint64_t status_calls;
    struct rights_stats rights;
};
void permit_stats(const struct permit *permit, struct permit_stats *out);

#endif
