/* src/serve/relay/relay_check.h
 *
 * relay_check: whether a call may go upstream, and which field speaks for its user. relay.h has the rules.
 *
 * A check is valid for about a second, so it comes as late as possible. Most calls need none: their token speaks for
 * them, or auth is known to be off.
 *
 * Thread: owner (the loop's). The answer comes from the loop, or from inside permit or vouch, never from inside
 *         relay_check_begin().
 * Memory: fixed; calls embed it. It waits as one question of permit.h or one wait of vouch.h.
 */
#ifndef BELFRY_SERVE_RELAY_RELAY_CHECK_H
#define BELFRY_SERVE_RELAY_RELAY_CHECK_H

#include "serve/rights/permit.h"
#include "serve/rights/vouch.h"
#include "serve/uplink/uplink.h"

/* What etcd says, with 3, to a call without a user. */
#define RELAY_CHECK_NO_USER "etcdserver: user name is empty"

/* Who is asked. */
struct relay_checks {
    struct uplink *uplink;
    struct permit *permit;
    struct vouch *vouch; /* NULL: users of client certificates are refused */
};

enum relay_check_verdict {
    RELAY_CHECK_PASSED,
    RELAY_CHECK_REFUSED, /* with `code` and `why` */
    RELAY_CHECK_FAILED   /* likewise: upstream cannot be asked, or the tier cannot log in */
};

struct relay_checked {
    enum relay_check_verdict verdict;
    struct belfry_http_field field; /* PASSED: it goes upstream with this; an empty name: there is none. Lent */
    int code;                       /* gRPC's */
    const char *why;                /* lent */
};

typedef void (*relay_check_fn)(const struct relay_checked *with, void *user);

struct relay_check {
    /* fixed at creation */
    const struct relay_checks *all;
    struct belfry_bytes name; /* of the user of a certificate, who is vouched for; lent. NULL: there is none */
    bool tokenless;
    bool needs_auth; /* of a listener that serves only while upstream has auth on */
    bool needs_user; /* with auth on etcd refuses its method to a caller without a user */
    bool logs_in;    /* Auth/Authenticate */
    /* owner */
    struct permit_question *question; /* this or the next: */
    struct vouch_wait wait;
    uint64_t revision; /* of the token that was made for it; 0: none was */
    relay_check_fn fn;
    void *user;
};

/* Of a call of `who` for the method `path`. The text of `who` is lent for the check's life. */
void relay_check_init(struct relay_check *check, const struct relay_checks *all, const struct identity *who,
                      struct belfry_bytes path);
void relay_check_end(struct relay_check *check); /* no answer will come; twice is fine */

/* With auth on, upstream could take the call for the tier's own, or has to know its user. With auth off, it would carry
 * out whatever a listener with rights=upstream passes on. */
bool relay_check_is_needed(const struct relay_check *check, uint64_t now_ms);

/* Errors: as permit_ask(). */
BELFRY_NODISCARD enum belfry_err relay_check_begin(struct relay_check *check, uint64_t now_ms, relay_check_fn fn,
                                                   void *user);

/* Upstream has answered the call with VOUCH_OLD: if the token was made here, newer ones are made. */
void relay_check_is_old(const struct relay_check *check);

/* Asks for a caller without a token. PERMIT_REFUSED: auth is on. Errors: as permit_ask(). */
BELFRY_NODISCARD enum belfry_err relay_check_auth(const struct relay_checks *all, uint64_t now_ms, permit_fn fn,
                                                  void *user, struct permit_question **out);

#endif
