/* src/serve/rights/permit.h
 *
 * permit: may this client watch this range? Upstream decides, asked with the client's own token.
 *
 * Whether auth is on is asked with AuthStatus, and "off" is believed for PERMIT_OFF_MS from the time the question was
 * sent, and not beyond a relayed AuthEnable (permit_doubt()): etcd itself does not look again at watches that were there
 * when auth was turned on, so one created within that second is as one created just before. Anything but a clear "off" is
 * "on", and "on" is asked anew only after PERMIT_ON_MS. While it is on, each create is a Range: same key and range_end (an
 * empty key is "\0"), limit 1, keys only, serializable, with the client's `token` or `authorization` field, whichever etcd
 * would take. One without either is refused at once: the tier's own certificate must not speak for it. Equal questions
 * that are under way share one call; answers are never kept. An upstream without AuthStatus (before 3.5) is asked with an
 * Authenticate of nobody, which says so when auth is off.
 *
 * Thread: owner (the loop's). The answer comes from the loop, never from inside permit_ask().
 */
#ifndef BELFRY_SERVE_RIGHTS_PERMIT_H
#define BELFRY_SERVE_RIGHTS_PERMIT_H

#include <string.h>

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
    PERMIT_REFUSED, /* reason is what goes into cancel_reason, as etcd formats it: "rpc error: code = ... desc = ..." */
    PERMIT_UNAVAILABLE /* upstream cannot be asked: end the stream with 14 and this reason */
};

/* The reasons of a refusal, all of them. */
#define PERMIT_NO_USER      "rpc error: code = InvalidArgument desc = etcdserver: user name is empty"
#define PERMIT_OLD_REVISION "rpc error: code = InvalidArgument desc = etcdserver: revision of auth store is old"
#define PERMIT_BAD_TOKEN    "rpc error: code = Unauthenticated desc = etcdserver: invalid auth token"
#define PERMIT_DENIED       "rpc error: code = PermissionDenied desc = etcdserver: permission denied"

/* True when a refusal is about who asks and not about what for: there was no token, or it is none. Another may do. */
static inline bool permit_is_about_token(const char *reason)
{
    return strcmp(reason, PERMIT_DENIED) != 0;
}

/* `reason` is lent. The question is gone when it returns. */
typedef void (*permit_fn)(enum permit_verdict verdict, const char *reason, void *user);

struct permit_who {
    struct belfry_bytes token, authorization; /* the fields of the stream's head; {NULL, 0}: not there */
};

/* `uplink` outlives it, and learns from it whether auth is known to be off (uplink_ask_auth()). */
BELFRY_NODISCARD enum belfry_err permit_create(struct uplink *uplink, uv_loop_t *loop, const struct belfry_log *log,
                                               struct permit **out);
void permit_destroy(struct permit *permit); /* questions are dropped without an answer; NULL is fine */

/* True when auth is known to be off: no question is needed. */
bool permit_is_open(struct permit *permit, uint64_t now_ms);

/* Asks. Everything is copied. Errors: BELFRY_ERR_NOMEM, BELFRY_ERR_LIMIT (too many questions wait). */
BELFRY_NODISCARD enum belfry_err permit_ask(struct permit *permit, const struct permit_who *who, unsigned *pin,
                                            struct belfry_bytes key, struct belfry_bytes range_end, uint64_t now_ms,
                                            permit_fn fn, void *user, struct permit_question **out);
void permit_cancel(struct permit_question *question); /* no answer will come */

/* What is known of auth may not hold any more (an Auth call was relayed, a token was refused). Questions that wait take the
 * second answer that comes, even if there were doubts again: it was asked for after them. */
void permit_doubt(struct permit *permit);

/* As known now; asks in the background when it is not. */
enum permit_auth permit_auth(struct permit *permit, uint64_t now_ms);

struct permit_stats {
    uint64_t asked, granted, refused, unavailable, status_calls;
};
void permit_stats(const struct permit *permit, struct permit_stats *out);

#endif
