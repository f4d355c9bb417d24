/* tests/storm/messages.h
 *
 * messages: gRPC's messages in a stream of bytes: a byte of flags, four of length, then the message (none is packed).
 *
 * Thread: any.
 */
#ifndef BELFRY_STORM_MESSAGES_H
#define BELFRY_STORM_MESSAGES_H

#include <stdbool.h>

#include "base/buf.h"

#define MESSAGES_PREFIX 5

/* The first message, if it is whole; lent until it is dropped. */
bool messages_first(const struct belfry_buf *in, struct belfry_bytes *out);
void messages_drop(struct belfry_buf *in, struct belfry_bytes first);

void messages_append(struct belfry_buf *to, struct belfry_bytes message);

#endif
