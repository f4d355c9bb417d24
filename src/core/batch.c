/* src/core/batch.c: header, event table and bytes in one allocation.
 *
 *     | struct shared | struct batch_event x room | struct chains, if there are many events | bytes |
 *
 * A delete finds the put of its key (batch_put_before()) in a chain of puts: of all puts if there are few events, else
 * of those whose keys have the same hash.
 */
#include "core/batch.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/sim.h"

#define TAG_TYPE 0x08
#define TAG_KV   0x12
#define TAG_PREV 0x1a
#define PREV_KV  3 /* field of Event */

#define FEW 16 /* events with one chain */

struct chains {
    struct belfry_hash_key hash_key;
    uint32_t n;        /* a power of two */
    uint32_t newest[]; /* put of each, by the hash of its key; the place as in batch_event.put_before */
};

struct shared {
    struct batch batch; /* first: a pointer to it is a pointer to the allocation */
    atomic_size_t refs; /* release on unref, acquire before free: the last holder frees it after all other reads */
    uint32_t room;      /* events that fit */
    uint32_t newest;    /* few events: as in struct chains */
    size_t data_bytes;
    size_t filled;
    uint8_t *data; /* what batch.data and batch.events show read-only */
    struct batch_event events[];
};
static_assert(sizeof(struct batch_event) == 24, "the table is dense");

/* An event without its prev_kv: a part of what came, or, when prev_kv is not the last field, type and kv put together
 * again around the KeyValue as it came. */
struct bare {
    struct belfry_bytes head; /* of raw; what is left when head_only */
    bool head_only;
    size_t len;
};

static struct shared *batch_shared(const struct batch *batch)
{
    union {
        const struct batch *in;
        struct shared *out;
    } cast = {.in = batch};
    return cast.out;
}

static size_t varint_size(size_t value)
{
    size_t size = 1;
    while (value >>= 7)
        size++;
    return size;
}

static size_t field_size(size_t len)
{
    return 1 + varint_size(len) + len;
}

static uint8_t *put_bytes(uint8_t *to, struct belfry_bytes bytes)
{
    if (bytes.len > 0)
        memcpy(to, bytes.data, bytes.len);
    return to + bytes.len;
}

static uint8_t *put_field(uint8_t *to, uint8_t tag, struct belfry_bytes bytes)
{
    *to++ = tag;
    size_t len = bytes.len;
    for (; len >= 0x80; len >>= 7)
        *to++ = (uint8_t)(len | 0x80);
    *to++ = (uint8_t)len;
    return put_bytes(to, bytes);
}

/* Is prev_kv the last field of the event and in no other place? Then the bytes before it are the event without it. */
static bool head_before_prev(const struct belfry_wire_event *event, struct belfry_bytes *head)
{
    size_t at = 0;
    struct belfry_bytes prev;
    if (belfry_scan_field(event->raw, PREV_KV, &at, &prev) != BELFRY_OK || at != event->raw.len)
        return false;
    size_t field = field_size(prev.len);
    if (field > event->raw.len || (uint8_t)event->raw.data[event->raw.len - field] != TAG_PREV)
        return false; /* the tag or the length is not in its shortest form */
    *head = belfry_bytes_of(event->raw.data, event->raw.len - field);
    return true;
}

static struct bare bare_event(const struct belfry_wire_event *event)
{
    struct bare bare = {.head = event->raw, .head_only = true};
    if (event->has_prev)
        bare.head_only = head_before_prev(event, &bare.head);
    bare.len = bare.head_only ? bare.head.len : (event->is_delete ? 2 : 0) + field_size(event->kv.raw.len);
    return bare;
}

/* Where they are if there are many events, behind the events. */
static struct chains *chains_of(struct shared *shared)
{
    static_assert(_Alignof(struct chains) <= _Alignof(struct shared), "they follow one another");
    static_assert(sizeof(struct batch_event) % _Alignof(struct chains) == 0, "they follow one another");
    return (struct chains *)(void *)&shared->events[shared->room];
}

/* About as many as there are events. */
static uint32_t chains_for(uint32_t n_events)
{
    uint32_t n = 1;
    while (n <= n_events / 2)
        n *= 2;
    return n;
}

static size_t chains_bytes(uint32_t n_events)
{
    return n_events > FEW ? sizeof(struct chains) + chains_for(n_events) * sizeof(uint32_t) : 0;
}

enum belfry_err batch_create(int64_t rev, enum batch_kind kind, uint32_t n_events, size_t data_bytes,
                             struct batch **out)
{
    if (data_bytes > UINT32_MAX) /* offsets have 32 bits */
        return BELFRY_ERR_TOO_LARGE;
    size_t head = sizeof(struct shared) + (size_t)n_events * sizeof(struct batch_event) + chains_bytes(n_events);
    struct shared *shared = malloc(head + data_bytes);
    if (shared == NULL)
        return BELFRY_ERR_NOMEM;
    *shared = (struct shared){.room = n_events, .data_bytes = data_bytes, .data = (uint8_t *)shared + head};
    if (n_events > FEW) {
        struct chains *chains = chains_of(shared);
        memset(chains, 0, chains_bytes(n_events));
        chains->hash_key = belfry_hash_key_draw();
        chains->n = chains_for(n_events);
    }
    atomic_init(&shared->refs, 1);
    shared->batch = (struct batch){
        .rev = rev, .kind = kind, .bytes = head + data_bytes, .data = shared->data, .events = shared->events};
    *out = &shared->batch;
    return BELFRY_OK;
}

size_t batch_event_bytes(const struct belfry_wire_event *event, struct belfry_bytes prev_kv)
{
    return batch_stored_bytes(bare_event(event).len, prev_kv.len);
}

size_t batch_stored_bytes(size_t event_len, size_t prev_kv_len)
{
    return event_len + (prev_kv_len > 0 ? field_size(prev_kv_len) : 0);
}

/* Takes the next place in the table and `bytes` bytes. Upstream's bytes follow: a caller that counted them wrongly must
 * not write behind the batch, in a release either. */
static struct batch_event *take_event(struct shared *shared, size_t bytes, bool is_delete)
{
    assert(atomic_load_explicit(&shared->refs, memory_order_relaxed) == 1);
    if (shared->batch.n_events >= shared->room || bytes > shared->data_bytes - shared->filled)
        abort();
    struct batch_event *event = &shared->events[shared->batch.n_events++];
    *event = (struct batch_event){.at = (uint32_t)shared->filled, .is_delete = is_delete};
    shared->filled += bytes;
    return event;
}

/* The newest event has its key. */
static void chain_put(struct shared *shared, struct batch_event *event)
{
    uint32_t *newest = &shared->newest;
    if (shared->room > FEW) {
        struct chains *chains = chains_of(shared);
        uint64_t hash = belfry_hash(chains->hash_key, batch_key(&shared->batch, event));
        newest = &chains->newest[hash & (chains->n - 1)];
    }
    event->put_before = *newest & INT32_MAX;
    if (!event->is_delete)
        *newest = shared->batch.n_events;
}

static void put_prev(struct batch_event *event, uint8_t *to, struct belfry_bytes prev_kv)
{
    if (prev_kv.len == 0)
        return;
    event->prev_len = (uint32_t)field_size(prev_kv.len);
    put_field(to, TAG_PREV, prev_kv);
}

/* Where `key` is after `whole`, which contains it, was copied to `at`. */
static void place_key(struct batch_event *event, struct belfry_bytes key, struct belfry_bytes whole, size_t at)
{
    event->key_len = (uint32_t)key.len;
    event->key_at = (uint32_t)(key.len > 0 ? at + (size_t)(key.data - whole.data) : at);
}

void batch_add(struct batch *batch, const struct belfry_wire_event *event, struct belfry_bytes prev_kv)
{
    struct shared *shared = batch_shared(batch);
    struct bare bare = bare_event(event);
    struct batch_event *place = take_event(shared, batch_stored_bytes(bare.len, prev_kv.len), event->is_delete);
    uint8_t *to = shared->data + place->at;
    place->len = (uint32_t)bare.len;

    if (bare.head_only) {
        place_key(place, event->kv.key, bare.head, place->at);
        to = put_bytes(to, bare.head);
    } else {
        if (event->is_delete) {
            *to++ = TAG_TYPE;
            *to++ = 1;
        }
        to = put_field(to, TAG_KV, event->kv.raw);
        place_key(place, event->kv.key, event->kv.raw, (size_t)(to - shared->data) - event->kv.raw.len);
    }
    put_prev(place, to, prev_kv);
    chain_put(shared, place);
}

void batch_add_stored(struct batch *batch, struct belfry_bytes event, struct belfry_bytes prev_kv,
                      struct belfry_bytes key, bool is_delete)
{
    struct shared *shared = batch_shared(batch);
    assert(key.len == 0 || (key.data >= event.data && key.data + key.len <= event.data + event.len));
    struct batch_event *place = take_event(shared, batch_stored_bytes(event.len, prev_kv.len), is_delete);
    place->len = (uint32_t)event.len;
    place_key(place, key, event, place->at);
    put_prev(place, put_bytes(shared->data + place->at, event), prev_kv);
    chain_put(shared, place);
}

void batch_set_slice(struct batch *batch, uint32_t first_sub, bool more)
{
    assert(batch->kind == BATCH_SLICE);
    batch->first_sub = first_sub;
    batch->more = more;
}

void batch_set_extent(struct batch *batch, uint64_t n_events, uint64_t bytes)
{
    assert(batch->kind == BATCH_EXTENT);
    batch->extent_events = n_events;
    batch->extent_bytes = bytes;
}

struct batch *batch_ref(const struct batch *batch)
{
    struct shared *shared = batch_shared(batch);
    size_t before = atomic_fetch_add_explicit(&shared->refs, 1, memory_order_relaxed);
    assert(before > 0);
    (void)before;
    return &shared->batch;
}

void batch_unref(const struct batch *batch)
{
    if (batch == NULL)
        return;
    struct shared *shared = batch_shared(batch);
    if (atomic_fetch_sub_explicit(&shared->refs, 1, memory_order_acq_rel) != 1)
        return;
    if (BELFRY_MUTANT(free_early)) { /* not freed, so that a worker that reads it does the same in every run */
        shared->batch.n_events = 0;
        return;
    }
    free(shared);
}

struct belfry_bytes batch_prev_kv(const struct batch *batch, const struct batch_event *event)
{
    if (event->prev_len == 0)
        return (struct belfry_bytes){0};
    const uint8_t *field = batch->data + event->at + event->len;
    size_t head = 2;
    while (field[head - 1] >= 0x80)
        head++;
    return belfry_bytes_of(field + head, event->prev_len - head);
}

const struct batch_event *batch_put_before(const struct batch *batch, const struct batch_event *event)
{
    if (!event->is_delete)
        return NULL;
    for (uint32_t at = event->put_before; at > 0; at = batch->events[at - 1].put_before) {
        const struct batch_event *put = &batch->events[at - 1];
        if (belfry_bytes_equal(batch_key(batch, put), batch_key(batch, event)))
            return put;
    }
    return NULL;
}

bool batch_prev_lost(const struct batch *batch, const struct batch_event *event)
{
    struct belfry_wire_event scanned;
    if (event->is_delete)
        return (event->prev_len == 0 || batch->first_sub > 0) && batch_put_before(batch, event) == NULL;
    if (event->prev_len > 0)
        return false;
    return belfry_scan_event(batch_bytes(batch, event, false), &scanned) == BELFRY_OK && scanned.kv.version > 1;
}
