/* src/serve/rights/vouch.h
 *
 * vouch: how upstream learns that a call is of the user of a client certificate (docs/decisions/0050). It is a field of
 * the request:
 *
 *     with a key         token: JWT              upstream is etcd; mint.h signs the token
 *     with pass_users    belfry-user: "NAME"     upstream is a tier, which believes it by this tier's certificate
 *     with neither       none: the user is refused
 *
 * A token has the newest revision of the auth store that etcd has told this tier (auth_revision.h). Until there is one
 * the call waits. When etcd says that a token is too old (vouch_outdate()), the tier logs in again, and calls wait
 * meanwhile. Tokens are kept per user, VOUCH_USERS of them, and made anew after half of their life and for each new
 * revision.
 *
 * Thread: owner (the loop's); auth_revision is shared. A wait ends from the loop, never from inside vouch_ask().
 */
#ifndef BELFRY_SERVE_RIGHTS_VOUCH_H
#define BELFRY_SERVE_RIGHTS_VOUCH_H

#include "base/list.h"
#include "serve/rights/auth_revision.h"
#include "serve/rights/mint.h"
#include "serve/uplink/uplink.h"

#define VOUCH_LIFE_S     300 /* of a token: much more than a period of rights, and little enough to lose */
#define VOUCH_USERS      4096
#define VOUCH_TIMEOUT_MS 5000 /* of a log-in */
#define VOUCH_PASS_MS    250  /* pass_users: until a call is repeated that the tier above sent with an old token */

#define VOUCH_OLD "etcdserver: revision of auth store is old" /* what etcd says of an old token, with 3 */

/* Why a user is refused, as etcd formats the reason of a cancelled watch. */
#define VOUCH_PREFIX "rpc error: code = Unauthenticated desc = "
#define VOUCH_NO_KEY                                                                                                   \
    VOUCH_PREFIX "belfry: this tier cannot tell etcd the user of a client certificate: give the tier next to etcd "    \
                 "--upstream-token-key and tiers below it --pass-users, or log in with a password"
#define VOUCH_NO_ROOT                                                                                                  \
    VOUCH_PREFIX "belfry: the user root cannot be used by a client certificate here: use another user, or give the "   \
                 "tier next to etcd --allow-root"
#define VOUCH_NO_JWT                                                                                                   \
    VOUCH_PREFIX "belfry: etcd's tokens are no JWTs, so this tier can sign none for the user of a client "             \
                 "certificate: start etcd with --auth-token=jwt,..., or log in with a password"
#define VOUCH_NOT_ACCEPTED                                                                                             \
    VOUCH_PREFIX "belfry: etcd does not accept the token that this tier has signed for the user of a client "          \
                 "certificate: compare --upstream-token-key and --upstream-token-method with etcd's --auth-token, "    \
                 "and the clocks"

/* A reason of the above without its prefix: the message of a status 16. */
static inline const char *vouch_message(const char *reason)
{
    return reason + sizeof(VOUCH_PREFIX) - 1;
}

struct vouch;

struct vouch_opts {
    struct uplink *uplink; /* outlives it */
    uv_loop_t *loop;
    const struct mint *mint;          /* NULL: no key. Lent, as are: */
    struct auth_revision *revision;   /* with a key */
    const char *user, *password_file; /* with a key: the tier's own */
    bool pass_users;                  /* not with a key */
    bool allow_root;
    const struct belfry_log *log;
    int64_t (*now_s)(void); /* NULL: Unix time */
};

BELFRY_NODISCARD enum belfry_err vouch_create(const struct vouch_opts *opts, struct vouch **out);
void vouch_destroy(struct vouch *vouch); /* waits are dropped; NULL is fine */

/* Does it pass the names of users to a tier above? */
bool vouch_passes(const struct vouch *vouch);

/* The reason why this user is refused whatever upstream says; NULL: it is not. A vouch of NULL refuses every user. */
const char *vouch_refuses(const struct vouch *vouch, struct belfry_bytes user);

enum vouch_verdict {
    VOUCH_GIVEN,
    VOUCH_LATER,      /* the wait has begun: its fn is called once, and then the holder asks again */
    VOUCH_REFUSED,    /* reason, static */
    VOUCH_UNAVAILABLE /* reason, lent until the next call: the tier cannot log in */
};

struct vouch_wait {
    struct belfry_list node;
    void (*fn)(struct vouch_wait *wait);
};

static inline void vouch_wait_init(struct vouch_wait *wait, void (*fn)(struct vouch_wait *wait))
{
    belfry_list_init(&wait->node);
    wait->fn = fn;
}

static inline void vouch_wait_end(struct vouch_wait *wait)
{
    belfry_list_remove(&wait->node);
}

struct voucher {
    struct belfry_http_field field; /* lent until the next call */
    uint64_t revision;              /* for vouch_outdate() */
    const char *reason;
};

/* `user` is a name that tls_name.h allows. */
enum vouch_verdict vouch_ask(struct vouch *vouch, struct belfry_bytes user, struct vouch_wait *wait,
                             struct voucher *out);

/* Upstream says that the auth store has changed since this revision. */
void vouch_outdate(struct vouch *vouch, uint64_t revision);

struct vouch_stats {
    size_t users; /* with a token that is kept */
    uint64_t signed_tokens;
    uint64_t log_ins, failed_log_ins; /* of this worker */
};
void vouch_stats(const struct vouch *vouch, struct vouch_stats *out); /* a vouch of NULL has none */

#endif
