/* src/serve/rights/rights_call.h
 *
 * rights_call: one question of rights.h on its way: a Range at a revision that never comes, or a Txn of several
 * (permit.h says why), and what upstream's answer means.
 *
 *     11 future revision                     allowed; from a tier above with the age of the answer (rights_request.h)
 *     7                                      forbidden
 *     16 "invalid auth token"                the next member is asked; from all of them: no such token
 *     3 "revision of auth store is old"      the token is old
 *     3 "too many operations"                fewer ranges are to be asked for; the same if a tier above has a read-only
 *                                            listener, which passes no Txn on
 *     4, 8, 14, 1, nothing                   upstream could not be asked
 *     any other                              as if forbidden, if somebody waits for it; otherwise as if it did not come
 *
 * The user of a client certificate has no token of its own: vouch.h says which field speaks for it. While there is none
 * the call waits, and when upstream says that a token which this tier has made is old, it waits for a newer one and is
 * sent again. Any 16 means that upstream does not take the tier's word for the user.
 *
 * Thread: owner (the loop's). The answer comes from the loop, never from inside rights_call_open().
 */
#ifndef BELFRY_SERVE_RIGHTS_RIGHTS_CALL_H
#define BELFRY_SERVE_RIGHTS_RIGHTS_CALL_H

#include "base/owner.h"
#include "serve/rights/rights.h"
#include "serve/rights/vouch.h"
#include "serve/uplink/uplink.h"

#define RIGHTS_CALL_NO_USER "etcdserver: user name is empty"

struct rights_call;

struct rights_call_answer {
    enum rights_answer answer;
    uint64_t age_ms;
    bool timed_out;      /* UNREACHABLE: upstream let the deadline pass */
    const char *message; /* upstream's, or why it could not be asked; lent */
};

/* The call is gone when it returns. */
typedef void (*rights_call_fn)(struct rights_call *call, const struct rights_call_answer *answer);

struct rights_call {
    struct belfry_list node; /* the owner's */
    struct rights_question *question;
    void *user;        /* the owner's, and so is this: */
    uint64_t tried_ms; /* when a member was asked last */
    /* private */
    struct uplink *uplink;
    size_t n_members, n_tried;
    const char *field;
    struct vouch *vouch;
    uint32_t timeout_ms;
    rights_call_fn fn;
    struct unary *unary;    /* NULL: it waits to be vouched for */
    struct vouch_wait wait; /* this and the next: for a certificate's user */
    uint64_t revision;
    char *why;
    size_t why_len;
    BELFRY_OWNER;
};

struct rights_call_opts {
    struct uplink *uplink;
    size_t n_members;
    const char *field;   /* that carries the secret; static. NULL: the secret is the name of a certificate's user */
    struct vouch *vouch; /* for such a user */
    uint32_t timeout_ms;
    rights_call_fn fn;
    void *user;
    char *why; /* the owner's; holds the reason when the call cannot be opened */
    size_t why_len;
};

/* Errors: as unary_open(); BELFRY_ERR_INVALID: the secret cannot be sent in a header; BELFRY_ERR_AUTH: the user is
 * refused; BELFRY_ERR_UNAVAILABLE: it cannot be vouched for now. */
BELFRY_NODISCARD enum belfry_err rights_call_open(const struct rights_call_opts *opts, struct rights_question *question,
                                                  struct rights_call **out);
void rights_call_cancel(struct rights_call *call); /* no answer will come */

/* Asks the next member, because the one that was asked does not answer. Without another, or without memory, the call
 * stays as it is. */
void rights_call_ask_elsewhere(struct rights_call *call);

#endif
