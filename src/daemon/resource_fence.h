/* src/daemon/resource_fence.h
 *
 * resource_fence: the fence (serve/rights/fence.h) of a worker for a resource of Kubernetes' API servers. It asks
 * ingest's thread, by mail, to prove that the resource has what etcd has (kfollow/resource_driver.h).
 *
 *     worker: fence_ask() --mail--> ingest: prove() --proven--> mail --> worker: the answers
 *
 * One question of a worker is away at a time, for all who waited when it was sent; who comes later waits for the next.
 * Who asks, and for what, does not matter: rights were asked before.
 *
 * Thread: owner (the worker's).
 * Memory: it lives until the mail that is away has come back, on whatever thread finds the worker's mailbox closed.
 */
#ifndef BELFRY_DAEMON_RESOURCE_FENCE_H
#define BELFRY_DAEMON_RESOURCE_FENCE_H

#include <stddef.h>
#include <uv.h>

#include "kfollow/resource_driver.h"
#include "serve/rights/fence.h"
#include "thread/mail.h"

#define RESOURCE_FENCE_MS 30000 /* a wait; a list of all versions may be long */

struct resource_fence_opts {
    uv_loop_t *loop; /* the worker's */
    size_t number;   /* of the resource */
    /* Thread: any. Open the mail on ingest's thread, and on the worker's; with owner NULL if that has ended. */
    void (*to_ingest)(struct mail *mail, void *user);
    void (*to_worker)(struct mail *mail, void *user);
    /* On ingest's thread, whose mail has this owner: resource_driver_prove() of the resource. proof->fn() must come,
     * later. False: the resource is not followed. */
    bool (*prove)(void *owner, size_t number, struct resource_proof *proof);
    void *user;
};

/* Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err resource_fence_create(const struct resource_fence_opts *opts, struct fence **out);

#endif
