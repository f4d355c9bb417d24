/* src/client/etcd_status.c */
#include "client/etcd_status.h"

#include <string.h>

static bool says(const struct belfry_grpc_status *status, const char *words)
{
    return strstr(status->message, words) != NULL;
}

bool belfry_status_is_auth(const struct belfry_grpc_status *status)
{
    return (status->code == BELFRY_GRPC_UNAUTHENTICATED && says(status, "invalid auth token")) ||
           (status->code == BELFRY_GRPC_INVALID_ARGUMENT &&
            (says(status, "revision of auth store is old") || says(status, "user name is empty")));
}

bool belfry_status_is_no_leader(const struct belfry_grpc_status *status)
{
    return status->code == BELFRY_GRPC_UNAVAILABLE && says(status, "etcdserver: no leader");
}

static enum belfry_err invalid_argument(const struct belfry_grpc_status *status)
{
    if (says(status, "request is too large"))
        return BELFRY_ERR_TOO_LARGE;
    if (says(status, "authentication failed") || belfry_status_is_auth(status))
        return BELFRY_ERR_AUTH;
    return BELFRY_ERR_REFUSED;
}

static enum belfry_err out_of_range(const struct belfry_grpc_status *status)
{
    if (says(status, "required revision has been compacted"))
        return BELFRY_ERR_COMPACTED;
    return says(status, "required revision is a future revision") ? BELFRY_ERR_FUTURE : BELFRY_ERR_REFUSED;
}

enum belfry_err belfry_status_err(const struct belfry_grpc_status *status)
{
    switch (status->code) {
    case BELFRY_GRPC_OK:
        return BELFRY_OK;
    case BELFRY_GRPC_INVALID_ARGUMENT:
        return invalid_argument(status);
    case BELFRY_GRPC_DEADLINE_EXCEEDED:
        return BELFRY_ERR_TIMEOUT;
    case BELFRY_GRPC_NOT_FOUND:
        return BELFRY_ERR_NOT_FOUND;
    case BELFRY_GRPC_PERMISSION_DENIED:
        return BELFRY_ERR_DENIED;
    case BELFRY_GRPC_RESOURCE_EXHAUSTED:
        if (status->too_large || (status->from_server && says(status, "larger than max")))
            return BELFRY_ERR_TOO_LARGE;
        return status->from_server ? BELFRY_ERR_REFUSED : BELFRY_ERR_UNAVAILABLE; /* a proxy's rate limit */
    case BELFRY_GRPC_OUT_OF_RANGE:
        return out_of_range(status);
    case BELFRY_GRPC_UNIMPLEMENTED:
        return BELFRY_ERR_UNSUPPORTED;
    case BELFRY_GRPC_INTERNAL:
        return status->from_server ? BELFRY_ERR_REFUSED : BELFRY_ERR_PROTOCOL;
    case BELFRY_GRPC_CANCELLED: /* not by us: a server or proxy that shuts down */
    case BELFRY_GRPC_UNAVAILABLE:
        return BELFRY_ERR_UNAVAILABLE;
    case BELFRY_GRPC_UNAUTHENTICATED:
        return BELFRY_ERR_AUTH;
    default: /* an unknown number from the server */
        return BELFRY_ERR_REFUSED;
    }
}

enum belfry_status_fate belfry_status_fate(const struct belfry_grpc_status *status)
{
    switch (status->code) {
    case BELFRY_GRPC_OK:        /* a proxy that limits the life of a stream */
    case BELFRY_GRPC_CANCELLED: /* not by us: a server or proxy that shuts down */
    case BELFRY_GRPC_DEADLINE_EXCEEDED:
    case BELFRY_GRPC_ABORTED:
    case BELFRY_GRPC_INTERNAL:
    case BELFRY_GRPC_UNAVAILABLE:
        return BELFRY_FATE_RETRY;
    case BELFRY_GRPC_RESOURCE_EXHAUSTED: /* our own limit: it would fail again; a server's limit may not */
        return status->too_large ? BELFRY_FATE_END : BELFRY_FATE_RETRY;
    case BELFRY_GRPC_INVALID_ARGUMENT:
    case BELFRY_GRPC_PERMISSION_DENIED:
    case BELFRY_GRPC_UNAUTHENTICATED:
        return BELFRY_FATE_END;
    case BELFRY_GRPC_NOT_FOUND:
    case BELFRY_GRPC_UNIMPLEMENTED:
        return BELFRY_FATE_FOREIGN;
    default: /* UNKNOWN, ALREADY_EXISTS, FAILED_PRECONDITION, OUT_OF_RANGE, DATA_LOSS, and unknown numbers */
        return status->from_server ? BELFRY_FATE_DOUBT : BELFRY_FATE_RETRY; /* a proxy's HTTP 500 is UNKNOWN, too */
    }
}
