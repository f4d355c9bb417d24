/* src/serve/rights/refusal.c */
#include "serve/rights/refusal.h"

#include "net/grpc.h"
#include "serve/rights/permit.h"

struct refusal_status refusal_status(const char *reason)
{
    static const struct {
        const char *reason;
        struct refusal_status status;
    } table[] = {{PERMIT_DENIED, {BELFRY_GRPC_PERMISSION_DENIED, "etcdserver: permission denied"}},
                 {PERMIT_BAD_TOKEN, {BELFRY_GRPC_UNAUTHENTICATED, "etcdserver: invalid auth token"}},
                 {PERMIT_OLD_REVISION, {BELFRY_GRPC_INVALID_ARGUMENT, "etcdserver: revision of auth store is old"}},
                 {PERMIT_NO_USER, {BELFRY_GRPC_INVALID_ARGUMENT, "etcdserver: user name is empty"}}};
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        if (strcmp(reason, table[i].reason) == 0)
            return table[i].status;
    }
    if (permit_explains(reason))
        return (struct refusal_status){BELFRY_GRPC_UNAUTHENTICATED, vouch_message(reason)};
    return (struct refusal_status){BELFRY_GRPC_PERMISSION_DENIED, reason};
}
