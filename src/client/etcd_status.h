/* src/client/etcd_status.h: what a gRPC status of etcd means to us. Thread: any. Pure. */
#ifndef BELFRY_CLIENT_ETCD_STATUS_H
#define BELFRY_CLIENT_ETCD_STATUS_H

#include <stdbool.h>

#include "base/err.h"
#include "net/grpc.h"

/* Maps code and text to an error of ours. */
enum belfry_err belfry_status_err(const struct belfry_grpc_status *status);

/* The token was not accepted: a new one may help. */
bool belfry_status_is_auth(const struct belfry_grpc_status *status);

/* The member has no leader; nothing was done. */
bool belfry_status_is_no_leader(const struct belfry_grpc_status *status);

/* What becomes of the watches on a Watch stream that ended with this status. belfry/belfry.h and docs/library.md list it
 * for users. */
enum belfry_status_fate {
    BELFRY_FATE_RETRY,   /* time or another endpoint will mend it */
    BELFRY_FATE_DOUBT,   /* etcd says it for what time seldom mends: worth a few tries */
    BELFRY_FATE_FOREIGN, /* no etcd there, or not yet */
    BELFRY_FATE_END      /* no endpoint and no time will mend it */
};
enum belfry_status_fate belfry_status_fate(const struct belfry_grpc_status *status);

#endif
