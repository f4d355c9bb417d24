/* src/client/etcd_status.h: the meaning of etcd's gRPC statuses. Thread: any. Pure. */
#ifndef BELFRY_CLIENT_ETCD_STATUS_H
#define BELFRY_CLIENT_ETCD_STATUS_H

#include <stdbool.h>

#include "base/err.h"
#include "net/grpc.h"

/* Maps code and text to our error. */
enum belfry_err belfry_status_err(const struct belfry_grpc_status *status);

/* The token was not accepted: a new one may help. */
bool belfry_status_is_auth(const struct belfry_grpc_status *status);

/* The member has no leader; nothing was done. */
bool belfry_status_is_no_leader(const struct belfry_grpc_status *status);

/* What happens to the watches on a Watch stream that ended with this status. belfry/belfry.h and docs/library.md
 * explain it to users. */
enum belfry_status_fate {
    BELFRY_FATE_RETRY,   /* retry: waiting or another endpoint helps */
    BELFRY_FATE_DOUBT,   /* waiting seldom helps: retry a few times */
    BELFRY_FATE_FOREIGN, /* the server is not etcd, or not yet */
    BELFRY_FATE_END      /* neither waiting nor another endpoint helps */
};
enum belfry_status_fate belfry_status_fate(const struct belfry_grpc_status *status);

#endif
