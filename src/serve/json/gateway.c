/* src/serve/json/gateway.c */
#include "serve/json/gateway.h"

#include <assert.h>
#include <stdlib.h>

#include "base/owner.h"
#include "net/grpc.h"
#include "serve/json/gateway_call.h"

struct gateway {
    struct gateway_calls calls;
    BELFRY_OWNER;
};

bool gateway_is(struct belfry_bytes path)
{
    const struct gateway_path *found;
    return gateway_paths_is(path, &found);
}

void gateway_begin(struct gateway *gateway, struct exchange *x, const struct exchange_head *head)
{
    BELFRY_OWNER_CHECK(gateway);
    struct gateway_calls *calls = &gateway->calls;
    const struct gateway_path *path;
    struct belfry_bytes query;
    (void)gateway_paths_is(exchange_path(head, &query), &path);
    if (path == NULL)
        gateway_call_answer_error(calls, x, false, 404, BELFRY_GRPC_NOT_FOUND, "Not Found");
    else if (!belfry_bytes_equal(head->method, belfry_bytes_str("POST")))
        gateway_call_answer_error(calls, x, false, 501, BELFRY_GRPC_UNIMPLEMENTED, "Method Not Allowed");
    else
        gateway_call_begin(calls, path, x, head);
}

enum belfry_err gateway_create(uv_loop_t *loop, struct gateway **out)
{
    struct gateway *gateway = calloc(1, sizeof(*gateway));
    if (gateway == NULL)
        return BELFRY_ERR_NOMEM;
    gateway_calls_init(&gateway->calls, loop);
    BELFRY_OWNER_INIT(gateway);
    *out = gateway;
    return BELFRY_OK;
}

void gateway_set_methods(struct gateway *gateway, exchange_begin_fn begin, void *user)
{
    BELFRY_OWNER_CHECK(gateway);
    gateway->calls.begin = begin;
    gateway->calls.user = user;
}

static void on_timer_closed(uv_handle_t *timer)
{
    struct gateway_calls *calls = timer->data;
    belfry_buf_fini(&calls->scratch);
    free(belfry_container(calls, struct gateway, calls));
}

void gateway_destroy(struct gateway *gateway)
{
    if (gateway == NULL)
        return;
    BELFRY_OWNER_CHECK(gateway);
    gateway_calls_end_broken(&gateway->calls);
    assert(gateway->calls.n == 0);
    uv_close((uv_handle_t *)&gateway->calls.timer, on_timer_closed);
}

void gateway_stats(const struct gateway *gateway, struct gateway_stats *out)
{
    *out = gateway->calls.stats;
}
