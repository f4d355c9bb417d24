/* fuzz/scan.c: any bytes as a WatchResponse.
 *
 * Nothing may be read outside the message. Where protobuf-c accepts the message too, both must have read the same. The
 * two may differ in what they accept: we skip a known field of a foreign wire type, where protobuf-c gives up; we give
 * up at field number 0, at numbers beyond 2^29 and at varints beyond 64 bits, where it goes on; and we do not look into
 * events that nobody asks for. Of a header or kv that appears twice we take the last, where protobuf-c merges: those
 * are left out of the comparison, and so are flags of a foreign wire type, which it takes for flags all the same. Last,
 * what we write of what we read must read the same again.
 */
#include <stdint.h>
#include <stdlib.h>

#include "fuzz/check.h"
#include "wire/rpc.pb-c.h"
#include "wire/write.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool appears_twice(struct belfry_bytes message, uint32_t number)
{
    size_t at = 0;
    struct belfry_bytes field;
    return belfry_scan_field(message, number, &at, &field) == BELFRY_OK &&
           belfry_scan_field(message, number, &at, &field) == BELFRY_OK;
}

static uint64_t varint_at(const uint8_t **at)
{
    uint64_t value = 0;
    unsigned shift = 0;
    do
        value |= (uint64_t)(**at & 0x7f) << shift, shift += 7;
    while (*(*at)++ >= 0x80);
    return value;
}

/* Whether a WatchResponse known to be well-formed has created, canceled or fragment as something else than a varint. */
static bool has_foreign_flag(struct belfry_bytes message)
{
    const uint8_t *at = (const uint8_t *)message.data, *end = at + message.len;
    while (at < end) {
        uint64_t tag = varint_at(&at), number = tag >> 3;
        if ((tag & 7) != 0 && (number == 3 || number == 4 || number == 7))
            return true;
        if ((tag & 7) == 0)
            varint_at(&at);
        else if ((tag & 7) == 2) {
            uint64_t len = varint_at(&at);
            at += len;
        } else
            at += (tag & 7) == 1 ? 8 : 4;
    }
    return false;
}

static void same_data(struct belfry_bytes ours, ProtobufCBinaryData theirs)
{
    check(belfry_bytes_equal(ours, belfry_bytes_of(theirs.data, theirs.len)));
}

static void same_kv(const struct belfry_wire_kv *ours, const Mvccpb__KeyValue *theirs)
{
    static const Mvccpb__KeyValue none = MVCCPB__KEY_VALUE__INIT;
    if (theirs == NULL)
        theirs = &none;
    same_data(ours->key, theirs->key);
    same_data(ours->value, theirs->value);
    check(ours->create_rev == theirs->create_revision);
    check(ours->mod_rev == theirs->mod_revision);
    check(ours->version == theirs->version);
    check(ours->lease == theirs->lease);
}

static void same_event(const struct belfry_wire_event *ours, const Mvccpb__Event *theirs)
{
    check(ours->is_delete == (theirs->type == MVCCPB__EVENT__EVENT_TYPE__DELETE));
    if (!appears_twice(ours->raw, 2))
        same_kv(&ours->kv, theirs->kv);
    check(ours->has_prev == (theirs->prev_kv != NULL));
    if (!appears_twice(ours->raw, 3))
        same_kv(&ours->prev, theirs->prev_kv);
}

static void same_header(const struct belfry_wire_header *ours, const Etcdserverpb__ResponseHeader *theirs)
{
    static const Etcdserverpb__ResponseHeader none = ETCDSERVERPB__RESPONSE_HEADER__INIT;
    if (theirs == NULL)
        theirs = &none;
    check(ours->cluster_id == theirs->cluster_id);
    check(ours->member_id == theirs->member_id);
    check(ours->revision == theirs->revision);
    check(ours->raft_term == theirs->raft_term);
}

static void same_watch(struct belfry_bytes message, const struct belfry_wire_watch *ours,
                       const Etcdserverpb__WatchResponse *theirs)
{
    if (!appears_twice(message, 1))
        same_header(&ours->header, theirs->header);
    check(ours->watch_id == theirs->watch_id);
    if (!has_foreign_flag(message)) {
        check(ours->created == theirs->created);
        check(ours->canceled == theirs->canceled);
        check(ours->fragment == theirs->fragment);
    }
    check(ours->compact_revision == theirs->compact_revision);
    check(ours->n_events == theirs->n_events);
    /* protobuf-c hands out strings without their length: all that can be compared is up to the first zero. */
    size_t len = strlen(theirs->cancel_reason);
    check(len <= ours->cancel_reason.len);
    check(len == 0 || memcmp(theirs->cancel_reason, ours->cancel_reason.data, len) == 0);
    check(len == ours->cancel_reason.len || ours->cancel_reason.data[len] == '\0');
}

static void rewrites(const struct belfry_wire_event *event)
{
    size_t size = belfry_write_event_size(event);
    uint8_t *data = malloc(size);
    check(data != NULL && belfry_write_event(event, data) == data + size);
    struct belfry_wire_event again;
    check(belfry_scan_event(belfry_bytes_of(data, size), &again) == BELFRY_OK);
    check(again.is_delete == event->is_delete && again.has_prev == event->has_prev);
    check(belfry_bytes_equal(again.kv.key, event->kv.key) && belfry_bytes_equal(again.kv.value, event->kv.value));
    check(again.kv.mod_rev == event->kv.mod_rev && again.prev.mod_rev == event->prev.mod_rev);
    check(again.kv.lease == event->kv.lease && again.kv.version == event->kv.version);
    free(data);
}

/* Walks the events; `theirs` is NULL if protobuf-c did not accept the message. */
static void walk(struct belfry_bytes message, size_t n_events, const Etcdserverpb__WatchResponse *theirs)
{
    size_t at = 0, i = 0;
    struct belfry_bytes raw;
    enum belfry_err err;
    for (; (err = belfry_scan_field(message, BELFRY_WATCH_EVENTS, &at, &raw)) == BELFRY_OK; i++) {
        struct belfry_wire_event event;
        int64_t rev;
        enum belfry_err quick = belfry_scan_event_rev(raw, &rev);
        if (belfry_scan_event(raw, &event) != BELFRY_OK)
            continue;
        check(quick == BELFRY_OK && rev == event.kv.mod_rev);
        rewrites(&event);
        if (theirs != NULL)
            same_event(&event, theirs->events[i]);
    }
    check(err == BELFRY_ERR_AGAIN && i == n_events);
}

static void rewrites_head(const struct belfry_wire_watch *watch)
{
    size_t size = belfry_write_watch_head_size(watch);
    uint8_t *data = malloc(size);
    check(data != NULL && belfry_write_watch_head(watch, data) == data + size);
    struct belfry_wire_watch again;
    check(belfry_scan_watch(belfry_bytes_of(data, size), &again) == BELFRY_OK);
    check(again.header.revision == watch->header.revision && again.header.raft_term == watch->header.raft_term);
    check(again.header.cluster_id == watch->header.cluster_id && again.header.member_id == watch->header.member_id);
    check(again.watch_id == watch->watch_id && again.compact_revision == watch->compact_revision);
    check(again.created == watch->created && again.canceled == watch->canceled && again.fragment == watch->fragment);
    check(belfry_bytes_equal(again.cancel_reason, watch->cancel_reason));
    free(data);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct belfry_bytes message = belfry_bytes_of(data, size);
    struct belfry_wire_watch watch;
    if (belfry_scan_watch(message, &watch) != BELFRY_OK)
        return 0;
    rewrites_head(&watch);
    Etcdserverpb__WatchResponse *theirs = etcdserverpb__watch_response__unpack(NULL, size, data);
    if (theirs != NULL)
        same_watch(message, &watch, theirs);
    walk(message, watch.n_events, theirs);
    if (theirs != NULL)
        etcdserverpb__watch_response__free_unpacked(theirs, NULL);
    return 0;
}
