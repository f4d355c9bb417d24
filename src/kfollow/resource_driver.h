/* src/kfollow/resource_driver.h
 *
 * resource_driver: resource_follow on real API servers: the requests that the machine wants become requests of
 * libbelfry's Kubernetes client, and their answers go back into the machine.
 *
 * A watch and a list are those of client-go. A probe is a list of one name in one namespace without a resourceVersion:
 * the server reads one key of etcd for it. A list of versions is a consistent one, metadata only, in pages. A link is
 * the number of connections to the server that have ended.
 *
 * A request that breaks before its answer is not retried here: the machine chooses the next server.
 *
 * Thread: owner (that of the session which the clients are on). No callback comes from inside resource_driver_open().
 */
#ifndef BELFRY_KFOLLOW_RESOURCE_DRIVER_H
#define BELFRY_KFOLLOW_RESOURCE_DRIVER_H

#include <belfry/kube.h>

#include "base/list.h"
#include "core/evlog.h"
#include "core/store.h"
#include "kfollow/resource_follow.h"

struct resource_driver;

struct resource_driver_opts {
    struct belfry_kube *const *servers; /* on one session; lent, as all of this; they outlive the driver */
    unsigned n_servers;
    const char *group_version, *plural;
    bool is_namespaced;
    struct store *store; /* of this resource alone, like the log */
    struct evlog *evlog;
    uint32_t watch_s; /* 0: RESOURCE_WATCH_S */
    bool no_initial;  /* lists, and no watch that sends the state first */
    uint64_t seed;
    struct resource_pulse *pulse; /* of all drivers on these clients; NULL: there is no other */
    const struct belfry_log *log;
};

/* The log has more, a past began, or what resource_driver_status() says of readiness changed. */
typedef void (*resource_driver_fn)(void *user);

/* Opens ingest on the store (so call it before there is a reader thread) and starts to follow.
 * Errors: BELFRY_ERR_INVALID (a name), BELFRY_ERR_NOMEM, BELFRY_ERR_IO. */
BELFRY_NODISCARD enum belfry_err resource_driver_open(const struct resource_driver_opts *opts,
                                                      resource_driver_fn changed, void *user,
                                                      struct resource_driver **out);

/* Commits what can be committed, and ends its requests. Not from inside `changed`. NULL is fine. */
void resource_driver_close(struct resource_driver *driver);

/* A question whether we have everything that etcd has now. The caller's storage. */
struct resource_proof {
    struct belfry_list node; /* in the driver, until it is answered */
    size_t n;                /* how many wait for it; 0 counts as 1 */
    uint64_t number;         /* of the proof that answers it */
    void (*fn)(struct resource_proof *proof, int64_t rv);
};

/* proof->fn() is called later, once: with a version at which we have everything that etcd had when this was called, or
 * with 0 if that cannot be shown. Many questions share a proof. resource_driver_close() answers all with 0. */
void resource_driver_prove(struct resource_driver *driver, struct resource_proof *proof);
void resource_proof_cancel(struct resource_proof *proof); /* no answer will come */

struct resource_driver_status {
    enum resource_state state;
    bool is_ready, is_stale;
    int64_t version, committed; /* ours: published, in the store */
    uint64_t past;
    unsigned server;  /* that is asked now */
    const char *why;  /* why it listed anew; "": it never did */
    char failed[256]; /* why the last request failed; "": none did */
    int failed_code;  /* HTTP's; 0: there was none */
    struct resource_stats stats;
};
void resource_driver_status(const struct resource_driver *driver, struct resource_driver_status *out);

#endif
