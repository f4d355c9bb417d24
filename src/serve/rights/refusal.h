/* src/serve/rights/refusal.h: why a client may not read, as the gRPC status that etcd answers it with. Thread: any. */
#ifndef BELFRY_SERVE_RIGHTS_REFUSAL_H
#define BELFRY_SERVE_RIGHTS_REFUSAL_H

struct refusal_status {
    int code;
    const char *message; /* static, or a part of the reason */
};

/* Of the reason that comes with PERMIT_REFUSED (permit.h). */
struct refusal_status refusal_status(const char *reason);

#endif
