/* src/client/status.h: what a gRPC status of etcd means to us. Thread: any. Pure. */
#ifndef BELFRY_CLIENT_STATUS_H
#define BELFRY_CLIENT_STATUS_H

#include <stdbool.h>

#include "base/err.h"
#include "net/grpc.h"

/* Maps code and text to an error of ours. */
enum belfry_err belfry_status_err(const struct belfry_grpc_status *status);

/* The token was not accepted: a new one may help. */
bool belfry_status_is_auth(const struct belfry_grpc_status *status);

/* The member has no leader; nothing was done. */
bool belfry_status_is_no_leader(const struct belfry_grpc_status *status);

#endif
