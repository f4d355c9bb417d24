#include "core/response.h"

#include <assert.h>
#include <endian.h>
#include <string.h>

#include "wire/write.h"

#define UNFRAMED     ((uint64_t)UINT32_MAX + 1) /* the first length that does not fit in the prefix */
#define WATCH_ID_TAG 0x10

static inline uint32_t n_picked(const struct response_pick *pick)
{
    return pick->events != NULL ? pick->n : pick->batch->n_events;
}

static inline const struct batch_event *event_picked(const struct response_pick *pick, uint32_t i)
{
    return &pick->batch->events[pick->events != NULL ? pick->events[i] : i];
}

static inline uint32_t run_len(uint8_t flags, const struct batch_event *event)
{
    return event->len + ((flags & WATCHER_PREV_KV) != 0 ? event->prev_len : 0);
}

/* Bytes of the picked events that pass, as fields, and their number. */
static inline size_t events_size(const struct response_opts *opts, const struct response_pick *pick,
                                 uint32_t *n_passing)
{
    size_t size = 0;
    uint32_t n = 0;
    for (uint32_t i = 0, end = n_picked(pick); i < end; i++) {
        const struct batch_event *event = event_picked(pick, i);
        if (!response_passes(opts->flags, event))
            continue;
        size_t len = run_len(opts->flags, event);
        size += belfry_write_event_field_size(len) + len;
        n++;
    }
    *n_passing = n;
    return size;
}

static inline uint8_t *put_events(const struct response_opts *opts, const struct response_pick *pick, uint8_t *to)
{
    for (uint32_t i = 0, end = n_picked(pick); i < end; i++) {
        const struct batch_event *event = event_picked(pick, i);
        if (!response_passes(opts->flags, event))
            continue;
        size_t len = run_len(opts->flags, event);
        to = belfry_write_event_field(len, to);
        memcpy(to, pick->batch->data + event->at, len);
        to += len;
    }
    return to;
}

uint64_t response_cut_bytes(const struct response_opts *opts)
{
    bool asked = (opts->flags & WATCHER_FRAGMENT) != 0 && opts->fragment_bytes != 0;
    return asked && opts->fragment_bytes < UNFRAMED ? opts->fragment_bytes : UNFRAMED;
}

struct belfry_wire_watch response_head(const struct response_identity *identity, const struct response_opts *opts,
                                       bool fragment)
{
    return (struct belfry_wire_watch){.header = {.cluster_id = identity->cluster_id,
                                                 .member_id = identity->member_id,
                                                 .raft_term = identity->raft_term,
                                                 .revision = opts->header_rev},
                                      .watch_id = opts->watch_id,
                                      .fragment = fragment};
}

uint8_t *response_prefix(uint8_t *to, uint32_t message_bytes)
{
    uint32_t length = htobe32(message_bytes);
    to[0] = 0; /* not compressed */
    memcpy(to + 1, &length, sizeof(length));
    return to + RESPONSE_PREFIX;
}

/* A response of id 0 with nothing in it is its header alone. */
static struct belfry_wire_watch bare_head(const struct response_identity *identity, int64_t rev)
{
    return response_head(identity, &(struct response_opts){.header_rev = rev}, false);
}

void response_header_make(const struct response_identity *identity, int64_t rev, struct response_header *out)
{
    struct belfry_wire_watch head = bare_head(identity, rev);
    out->len = (size_t)(belfry_write_watch_head(&head, out->bytes) - out->bytes);
}

static const struct response_header *header_of(const struct response_identity *identity,
                                               const struct response_opts *opts, struct response_header *own)
{
    if (opts->header != NULL)
        return opts->header;
    response_header_make(identity, opts->header_rev, own);
    return own;
}

static size_t header_bytes(const struct response_identity *identity, const struct response_opts *opts)
{
    if (opts->header != NULL)
        return opts->header->len;
    struct belfry_wire_watch head = bare_head(identity, opts->header_rev);
    return belfry_write_watch_head_size(&head);
}

static size_t id_size(int64_t watch_id)
{
    return watch_id == 0 ? 0 : 1 + (70 - (size_t)__builtin_clzll((uint64_t)watch_id)) / 7;
}

static uint8_t *put_id(uint8_t *to, int64_t watch_id)
{
    uint64_t left = (uint64_t)watch_id;
    if (left == 0)
        return to;
    for (*to++ = WATCH_ID_TAG; left >= 0x80; left >>= 7)
        *to++ = (uint8_t)(left | 0x80);
    *to++ = (uint8_t)left;
    return to;
}

size_t response_size(const struct response_identity *identity, const struct response_opts *opts,
                     const struct response_pick *pick, bool *cut)
{
    uint32_t n;
    size_t events = events_size(opts, pick, &n);
    *cut = false;
    if (n == 0)
        return 0;
    size_t message = header_bytes(identity, opts) + id_size(opts->watch_id) + events;
    *cut = n >= 2 && message >= response_cut_bytes(opts);
    return RESPONSE_PREFIX + message;
}

uint8_t *response_write(const struct response_identity *identity, const struct response_opts *opts,
                        const struct response_pick *pick, size_t size, uint8_t *to)
{
    struct response_header own;
    const struct response_header *header = header_of(identity, opts, &own);
    uint8_t *end = response_prefix(to, (uint32_t)(size - RESPONSE_PREFIX));
    memcpy(end, header->bytes, header->len);
    end = put_id(end + header->len, opts->watch_id);
    end = put_events(opts, pick, end);
    assert(end == to + size);
    return end;
}

size_t response_more_size(const struct response_opts *opts, const struct response_pick *pick)
{
    uint32_t n;
    return events_size(opts, pick, &n);
}

uint8_t *response_more(const struct response_opts *opts, const struct response_pick *pick, uint8_t *message,
                       uint8_t *end)
{
    end = put_events(opts, pick, end);
    assert((uint64_t)(end - message) < UNFRAMED);
    response_prefix(message, (uint32_t)(end - message - RESPONSE_PREFIX));
    return end;
}

size_t response_control_size(const struct belfry_wire_watch *watch)
{
    return RESPONSE_PREFIX + belfry_write_watch_head_size(watch);
}

uint8_t *response_control(const struct belfry_wire_watch *watch, uint8_t *to)
{
    to = response_prefix(to, (uint32_t)belfry_write_watch_head_size(watch));
    return belfry_write_watch_head(watch, to);
}
