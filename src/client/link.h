/* src/client/link.h
 *
 * link: how a session uses a pool (net/pool.h): for gRPC, with one endpoint at a time, while it is wanted.
 *
 * Thread: owner (the loop's).
 */
#ifndef BELFRY_CLIENT_LINK_H
#define BELFRY_CLIENT_LINK_H

#include "net/grpc.h"
#include "net/pool.h"

/* `opts`: without what is the same for every link: words, nonsense, policy; http is of belfry_grpc_http_opts().
 * `events`: up and down. Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err belfry_link_create(const struct belfry_pool_opts *opts,
                                                    const struct belfry_pool_events *events, void *user,
                                                    struct belfry_pool **out);

#endif
