/* src/serve/rights/permit.h
 *
 * permit: may this client watch this range? Upstream decides, by the client's own token.
 *
 * Is auth on? AuthStatus says so. "Off" is valid for PERMIT_OFF_MS from the time the AuthStatus was sent, but not
 * beyond a relayed AuthEnable (permit_doubt()). etcd does not check existing watches again when auth is turned on, so
 * a watch created within that second is like one created just before. Any answer but a clear "off" is "on", which is
 * valid for PERMIT_ON_MS. An upstream without AuthStatus (before 3.5) receives an Authenticate without a name, whose
 * error tells when auth is off.
 *
 * While auth is on, each question is a Range: same key and range_end (an empty key is "\0"), limit 1, keys only,
 * serializable, with the client's token (identity.h). A client without one is refused
 * immediately: the tier's own certificate must not count for it. Equal questions that are under way share
 * one call; answers are never kept.
 *
 * A listener may say otherwise (listen_policy.h): on an open one a client without a token is granted everything; on one
 * with rights=upstream nothing is granted while auth is off: PERMIT_UNAVAILABLE with PERMIT_AUTH_IS_OFF.
 *
 * Thread: owner (the loop's). The answer comes from the loop, never from inside permit_ask().
 */
#ifndef BELFRY_SERVE_RIGHTS_PERMIT_H
#define BELFRY_SERVE_RIGHTS_PERMIT_H

#include <string.h>

#include "serve/rights/identity.h"
#include "serve/uplink/uplink.h"

#define PERMIT_OFF_MS     1000
#define PERMIT_ON_MS      10000
#define PERMIT_TIMEOUT_MS 5000
#define PERMIT_QUESTIONS  10000              /* that wait for an answer at once */
#define PERMIT_BYTES      (32 * 1024 * 1024) /* of keys and tokens in them */

struct permit;
struct permit_question;

enum permit_auth { PERMIT_AUTH_UNKNOWN, PERMIT_AUTH_OFF, PERMIT_AUTH_ON };

enum permit_verdict {
    PERMIT_GRANTED,
    PERMIT_REFUSED,    /* reason is for cancel_reason, as etcd formats it: "rpc error: code = ... desc = ..." */
    PERMIT_UNAVAILABLE /* upstream cannot be asked: end the stream with 14 and this reason */
};

/* The reasons of a refusal, all of them. */
#define PERMIT_NO_USER      "rpc error: code = InvalidArgument desc = etcdserver: user name is empty"
#define PERMIT_OLD_REVISION "rpc error: code = InvalidArgument desc = etcdserver: revision of auth store is old"
#define PERMIT_BAD_TOKEN    "rpc error: code = Unauthenticated desc = etcdserver: invalid auth token"
#define PERMIT_DENIED       "rpc error: code = PermissionDenied desc = etcdserver: permission denied"

/* Why a listener with rights=upstream grants nothing. */
#define PERMIT_AUTH_IS_OFF "belfry: not ready: auth is off upstream, and this listener has rights=upstream"

/* True when a refusal is about the token (missing or invalid) and not about the range. */
static inline bool permit_is_about_token(const char *reason)
{
    return strcmp(reason, PERMIT_DENIED) != 0;
}

/* `reason` is lent. The question is gone when it returns. */
typedef void (*permit_fn)(enum permit_verdict verdict, const char *reason, void *user);

/* `uplink` outlives it, and learns from it whether auth is known to be off (uplink_ask_auth()). */
BELFRY_NODISCARD enum belfry_err permit_create(struct uplink *uplink, uv_loop_t *loop, const struct belfry_log *log,
                                               struct permit **out);
void permit_destroy(struct permit *permit); /* questions are dropped without an answer; NULL is fine */

/* True when auth is known to be off. */
bool permit_is_open(struct permit *permit, uint64_t now_ms);

/* True when no question is needed: auth is known to be off and the listener serves then; or the listener is open, and
 * the client has no token. */
bool permit_is_open_to(struct permit *permit, const struct identity *who, uint64_t now_ms);

/* Asks. Everything is copied. Errors: BELFRY_ERR_NOMEM, BELFRY_ERR_LIMIT (too many questions wait). */
BELFRY_NODISCARD enum belfry_err permit_ask(struct permit *permit, const struct identity *who, unsigned *pin,
                                            struct belfry_bytes key, struct belfry_bytes range_end, uint64_t now_ms,
                                            permit_fn fn, void *user, struct permit_question **out);
void permit_cancel(struct permit_question *question); /* no answer will come */

/* Auth may have changed (an Auth call was relayed, a token was refused). Questions that wait take the second answer
 * that comes, even after further doubts: it was requested after them. */
void permit_doubt(struct permit *permit);

/* As known now; when it is not known, asks in the background. */
enum permit_auth permit_auth(struct permit *permit, uint64_t now_ms);

struct permit_stats {
    uint64_t asked, granted, refused, unavailable, status_calls;
};
void permit_stats(const struct permit *permit, struct permit_stats *out);

#endif
