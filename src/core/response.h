/* src/core/response.h
 *
 * response: a watcher's WatchResponse for a batch as a ready gRPC message.
 *
 *     | 0 | length, 4 bytes, big endian | header | watch_id | ... | fragment | 5a len event | 5a len event | ...
 *
 * Events go out as the runs of bytes that the batch has; only the head is encoded. A response that must be cut into
 * several messages, or that is larger than the space at hand, is the rest's to write (rest.h).
 *
 * Thread: owner. Pure.
 */
#ifndef BELFRY_CORE_RESPONSE_H
#define BELFRY_CORE_RESPONSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "core/batch.h"
#include "core/watcher.h"
#include "wire/scan.h"

#define RESPONSE_PREFIX 5 /* gRPC's */

/* What every header says besides the revision. */
struct response_identity {
    uint64_t cluster_id, member_id, raft_term;
};

/* A header as bytes, tag and length included. It is the same for all responses to one revision, and encoding it costs
 * as much as the rest of a small response: make it once and name it in the options. */
#define RESPONSE_HEADER_MAX (2 + 4 * 11)
struct response_header {
    size_t len; /* not a byte: for a bounded copy gcc 12 emits `rep movs`, which takes longer than all the rest */
    uint8_t bytes[RESPONSE_HEADER_MAX];
};
void response_header_make(const struct response_identity *identity, int64_t rev, struct response_header *out);

/* Which of a batch's events: those of `events` (indices into the batch, ascending), or all when events is NULL. */
struct response_pick {
    const struct batch *batch;
    const uint32_t *events;
    uint32_t n;
};

struct response_opts {
    int64_t watch_id;
    int64_t header_rev;
    uint8_t flags;                        /* enum watcher_flags: PREV_KV, NO_PUT, NO_DELETE, FRAGMENT are looked at */
    size_t fragment_bytes;                /* 0: never cut */
    const struct response_header *header; /* of this identity and header_rev, lent; NULL: encoded where it is needed */
};

/* Bytes of the one message that holds the picked events that pass the filters, prefix included; 0: none passes.
 * When the response must be cut, *cut is set, and only a rest can write it. */
size_t response_size(const struct response_identity *identity, const struct response_opts *opts,
                     const struct response_pick *pick, bool *cut);

/* Writes that message; returns the byte behind. `size` is what response_size() said. */
uint8_t *response_write(const struct response_identity *identity, const struct response_opts *opts,
                        const struct response_pick *pick, size_t size, uint8_t *to);

/* Adds the picked events that pass to the message that starts at `message` and ends at `end`, and mends its length:
 * a catch-up response grows by whole revisions while it is still in the buffer. Returns the byte behind the last; the
 * caller has made room for response_more_size() bytes. */
size_t response_more_size(const struct response_opts *opts, const struct response_pick *pick);
uint8_t *response_more(const struct response_opts *opts, const struct response_pick *pick, uint8_t *message,
                       uint8_t *end);

/* A response without events: created, canceled, progress, refusals. Prefix included. */
size_t response_control_size(const struct belfry_wire_watch *watch);
uint8_t *response_control(const struct belfry_wire_watch *watch, uint8_t *to);

/* ---- what the rest shares ---- */

/* Does the event get past the filters in `flags`? */
static inline bool response_passes(uint8_t flags, const struct batch_event *event)
{
    return (flags & (event->is_delete ? WATCHER_NO_DELETE : WATCHER_NO_PUT)) == 0;
}

/* A response whose message has this many bytes or more (without prefix), and two or more events, is cut, and so is each
 * piece before it would reach them: fragment_bytes for watchers that asked for fragments. For all others it is the
 * first length that gRPC's prefix cannot hold: a message of 4 GiB cannot be sent at all, so it is cut in any case. */
uint64_t response_cut_bytes(const struct response_opts *opts);

/* Everything of a response but its events. */
struct belfry_wire_watch response_head(const struct response_identity *identity, const struct response_opts *opts,
                                       bool fragment);

/* gRPC's prefix for a message of so many bytes. */
uint8_t *response_prefix(uint8_t *to, uint32_t message_bytes);

#endif
