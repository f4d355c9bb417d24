/* src/serve/rights/asker.h
 *
 * asker: how upstream is asked the questions of rights.h. permit.h has one: of etcd (rights_call.h), or of Kubernetes
 * (reviews.h).
 *
 * Thread: owner (the loop's; unchecked: an interface). The answer comes from the loop, never from inside the call that
 * asks.
 */
#ifndef BELFRY_SERVE_RIGHTS_ASKER_H
#define BELFRY_SERVE_RIGHTS_ASKER_H

#include "base/list.h"
#include "serve/rights/rights.h"

/* What a bearer of rights.h is known by (rights_who.kind): its token, in the field that it came in; or a certificate's
 * user, by name. */
enum credential { CREDENTIAL_NONE, CREDENTIAL_TOKEN, CREDENTIAL_AUTHORIZATION, CREDENTIAL_USER };

struct asking;

struct asking_answer {
    enum rights_answer answer;
    uint64_t age_ms;
    bool timed_out;      /* UNREACHABLE: upstream let the deadline pass */
    const char *message; /* upstream's, or why it could not be asked; lent */
};

/* The asking is gone when it returns. */
typedef void (*asking_fn)(struct asking *asking, const struct asking_answer *answer);

/* A question on its way, embedded in what the asker knows of it. */
struct asking {
    struct belfry_list node; /* the owner's, and so are the next three */
    struct rights_question *question;
    void *user;
    uint64_t tried_ms; /* when a member was asked last */
};

struct asking_opts {
    uint32_t timeout_ms;
    asking_fn fn;
    void *user;
    char *why; /* the owner's; holds the reason when it cannot be asked */
    size_t why_len;
};

struct asker;

struct asker_api {
    /* Errors: BELFRY_ERR_INVALID, BELFRY_ERR_AUTH: the bearer is refused; any other: upstream cannot be asked. */
    enum belfry_err (*open)(struct asker *asker, struct rights_question *question, const struct asking_opts *opts,
                            struct asking **out);
    void (*cancel)(struct asking *asking); /* no answer will come */
    /* Asks the next member, because the one that was asked does not answer. If there is none, nothing changes. */
    void (*ask_elsewhere)(struct asking *asking);
};

/* Embedded in whatever asks. */
struct asker {
    const struct asker_api *api;
};

#endif
