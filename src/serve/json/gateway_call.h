/* src/serve/json/gateway_call.h
 *
 * gateway_call: one call of the JSON gateway: the exchange of its client, that of those who serve gRPC, and the
 * translation between the two (gateway.h).
 *
 * It lives until both have had their last word. When a response cannot go on, those who serve it are told from the
 * loop, as of any client that is gone, and then the client's exchange ends: until then its connection must be there.
 *
 * Thread: owner.
 */
#ifndef BELFRY_SERVE_JSON_GATEWAY_CALL_H
#define BELFRY_SERVE_JSON_GATEWAY_CALL_H

#include <uv.h>

#include "base/buf.h"
#include "base/list.h"
#include "serve/json/gateway.h"
#include "serve/json/gateway_paths.h"

/* What all calls of a gateway share. */
struct gateway_calls {
    exchange_begin_fn begin; /* who serves gRPC */
    void *user;
    uv_timer_t timer;          /* runs out at once when `broken` has one */
    struct belfry_list broken; /* of gateway_call.node: their clients are gone, and those who serve them do not know */
    struct belfry_buf scratch; /* of one translation */
    struct gateway_stats stats;
    size_t n;
};

void gateway_calls_init(struct gateway_calls *calls, uv_loop_t *loop);
void gateway_calls_end_broken(struct gateway_calls *calls);

/* Begins one, or refuses it. */
void gateway_call_begin(struct gateway_calls *calls, const struct gateway_path *path, struct exchange *x,
                        const struct exchange_head *head);

/* A whole response that is an error. */
void gateway_call_answer_error(struct gateway_calls *calls, struct exchange *x, bool is_line, int status, int code,
                               const char *message);

#endif
