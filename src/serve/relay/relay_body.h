/* src/serve/relay/relay_body.h
 *
 * relay_body: the body of a request on its way up: the bytes that were received and not sent, and where in a message
 * the client is.
 *
 * Thread: owner. Pure; `now` is given.
 * Memory: at most EXCHANGE_WINDOW bytes, because what is not sent is not taken from the exchange.
 */
#ifndef BELFRY_SERVE_RELAY_RELAY_BODY_H
#define BELFRY_SERVE_RELAY_RELAY_BODY_H

#include "base/buf.h"
#include "serve/relay/grpc_walk.h"
#include "serve/relay/relay_rights.h"
#include "server/pace.h"

struct relay_body {
    enum relay_request kind; /* fixed */
    struct belfry_buf bytes; /* received and not sent */
    struct grpc_walk walk;   /* over all bytes that were received */
    struct pace pace;        /* of the message that the client has begun */
    bool ended;
};

static inline void relay_body_init(struct relay_body *body, enum relay_request kind)
{
    *body = (struct relay_body){.kind = kind};
    belfry_buf_init(&body->bytes);
    pace_init(&body->pace);
}

static inline void relay_body_fini(struct relay_body *body)
{
    belfry_buf_fini(&body->bytes);
}

/* Is no message of the client's incomplete? */
bool relay_body_is_whole(const struct relay_body *body);

/* May it set out for upstream? A request of one message may when it is whole, or too large to be kept: one that is sent
 * slowly takes no turn from others. */
bool relay_body_may_set_out(const struct relay_body *body);

/* Is all of it sent? */
bool relay_body_is_sent(const struct relay_body *body);

/* `n` more bytes were received, or the end, or the head before it. Sets the pace: span_ms for what is expected. */
void relay_body_set_pace(struct relay_body *body, size_t n, uint64_t now_ms, uint64_t span_ms);

/* Moves up to `cap` bytes to `to`; returns how many. *out_end: nothing follows. */
size_t relay_body_read(struct relay_body *body, uint8_t *to, size_t cap, bool *out_end);

#endif
