/* src/kapi/kube_client.h: struct belfry_kube for the other files of this folder. Thread: owner. */
#ifndef BELFRY_KAPI_KUBE_CLIENT_H
#define BELFRY_KAPI_KUBE_CLIENT_H

#include <belfry/kube.h>

#include "client/session.h"
#include "kapi/api_calls.h"
#include "kapi/bearer.h"
#include "kapi/settings.h"
#include "kapi/warning.h"

#define BELFRY_KUBE_REQUESTS 10000 /* in progress at the same time */

/* An object on a client other than a request (an informer), which must end before the client. */
struct belfry_kube_user {
    struct belfry_list node; /* in belfry_kube.users */
    void (*closing)(struct belfry_kube_user *user);
};

struct belfry_kube {
    struct belfry_guest guest;
    /* fixed */
    struct belfry *b;
    struct belfry_kube_settings settings;
    struct belfry_tls *tls; /* NULL: plain http */
    struct belfry_api_calls *calls;
    uint32_t timeout_ms;
    size_t max_bytes; /* of one object */
    /* owner */
    struct belfry_bearer bearer;
    struct belfry_list requests; /* by belfry_kube_request.node */
    struct belfry_list users;
    size_t n_requests;
    struct belfry_warnings warnings;
    belfry_kube_warning_fn warning_fn;
    void *warning_user;
    bool closing;
    struct belfry_kube_stats stats;
};

#endif
