/* tests/sim/gateway.h
 *
 * gateway: what etcd's JSON gateway makes of a stream, and what its client reads: messages become lines of JSON piece
 * by piece, as they come (json_pour), and lines become messages again (json_read). So the checker judges what a client
 * of the gateway has.
 *
 * Thread: the one thread of the simulator.
 */
#ifndef BELFRY_SIM_GATEWAY_H
#define BELFRY_SIM_GATEWAY_H

#include "base/buf.h"
#include "serve/json/json_pour.h"

struct gateway {
    struct json_pour pour;
    struct belfry_buf line;
    uint8_t head[5]; /* gRPC's prefix of the message under way */
    size_t head_len;
};

void gateway_init(struct gateway *gateway);
void gateway_fini(struct gateway *gateway);

/* The next bytes of the stream. Messages that are whole are appended to `out`, with gRPC's prefix. */
void gateway_pass(struct gateway *gateway, struct belfry_bytes bytes, struct belfry_buf *out);

#endif
