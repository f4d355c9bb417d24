/* src/serve/rights/listen_policy.h: what a listener allows. Thread: any; fixed once the listener is open. */
#ifndef BELFRY_SERVE_RIGHTS_LISTEN_POLICY_H
#define BELFRY_SERVE_RIGHTS_LISTEN_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

enum dialect { DIALECT_GRPC = 1, DIALECT_JSON = 2, DIALECT_KUBE = 4, DIALECT_SSE = 8 };

/* Which rights the clients of a listener have (docs/decisions/0048-the-deputy-rule.md). */
enum listen_rights {
    LISTEN_RIGHTS_ASKED,    /* their own, while upstream has auth on; all of the tier's while it is off */
    LISTEN_RIGHTS_UPSTREAM, /* their own; while upstream has auth off, the listener serves nothing */
    LISTEN_RIGHTS_OPEN      /* whatever the tier may read; a client with a token has the rights of its user */
};

/* Where reads are answered, and how new the answers are (docs/reads.md). */
enum listen_reads {
    LISTEN_READS_REPLICA, /* here, where that is possible */
    LISTEN_READS_RELAY    /* by upstream */
};
enum listen_consistency {
    LISTEN_CONSISTENCY_ASKED,
    LISTEN_CONSISTENCY_SERIALIZABLE /* each read counts as serializable, except those of tiers below */
};

struct listen_names { /* lent */
    const char *const *list;
    size_t n;
};

/* exchange_conn.policy points at one. */
struct listen_policy {
    unsigned dialects; /* enum dialect, ored */
    bool read_only;
    enum listen_rights rights;
    bool open_writes; /* OPEN: writes, too */
    enum listen_reads reads;
    enum listen_consistency consistency;
    /* Names in the certificates of tiers below; users_from: of those that may say for which user they ask
     * (identity.h). */
    struct listen_names tiers, users_from;
};

static inline bool listen_names_have(const struct listen_names *names, const char *name)
{
    for (size_t i = 0; i < names->n; i++)
        if (strcmp(names->list[i], name) == 0)
            return true;
    return false;
}

/* Is the user of a certificate a tier below? As inbound_opts.is_tier. */
static inline bool listen_policy_is_tier(const void *listen_policy, const char *user)
{
    const struct listen_policy *policy = listen_policy;
    return policy != NULL && (listen_names_have(&policy->tiers, user) || listen_names_have(&policy->users_from, user));
}

/* May more than methods that read be relayed? */
static inline bool listen_policy_writes(const struct listen_policy *policy)
{
    return !policy->read_only && (policy->rights != LISTEN_RIGHTS_OPEN || policy->open_writes);
}

#endif
