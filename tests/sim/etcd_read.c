/* tests/sim/etcd_read.c: Range at a member of the model of etcd. */
#include <assert.h>
#include <stdlib.h>

#include "base/buf.h"
#include "sim/etcd_private.h"
#include "wire/write.h"

#define NO_LEADER_ODDS 48 /* a linearizable read in so many fails although there is a quorum */

static struct belfry_bytes copy(struct belfry_bytes bytes)
{
    char *to = etcd_alloc(bytes.len + 1);
    if (bytes.len > 0)
        memcpy(to, bytes.data, bytes.len);
    return belfry_bytes_of(to, bytes.len);
}

struct etcd_read *etcd_read_begin(struct etcd *etcd, unsigned member, const struct etcd_range *range)
{
    assert(member < etcd->opts.members);
    struct etcd_read *read = etcd_alloc(sizeof(*read));
    read->etcd = etcd;
    read->member = &etcd->members[member];
    read->key = copy(range->key);
    read->range_end = copy(range->range_end);
    read->range = *range;
    read->index = range->serializable ? 0 : history_head(etcd->history, history_now(etcd->history));
    read->err = read->member->up ? BELFRY_ERR_AGAIN : BELFRY_ERR_UNAVAILABLE;
    belfry_list_append(&etcd->reads, &read->node);
    etcd->counts.reads++;
    return read;
}

void etcd_read_end(struct etcd_read *read)
{
    if (read == NULL)
        return;
    belfry_list_remove(&read->node);
    belfry_blob_unref(read->message);
    free((void *)(uintptr_t)read->key.data);
    free((void *)(uintptr_t)read->range_end.data);
    free(read);
}

void etcd_read_fail(struct etcd_read *read, enum belfry_err err)
{
    read->err = err;
    read->etcd->counts.reads_failed += err == BELFRY_ERR_UNAVAILABLE;
    read->etcd->counts.reads_compacted += err == BELFRY_ERR_COMPACTED;
}

enum belfry_err etcd_read_poll(const struct etcd_read *read, struct belfry_bytes *message,
                               struct belfry_wire_header *header)
{
    if (read->err == BELFRY_OK) {
        *message = belfry_blob_bytes(read->message);
        *header = read->header;
    }
    return read->err;
}

/* ---- RangeResponse ---- */

static void append(struct belfry_buf *buf, const void *data, size_t len)
{
    if (belfry_buf_append(buf, data, len) != BELFRY_OK)
        abort();
}

static void append_varint(struct belfry_buf *buf, uint8_t tag, uint64_t value)
{
    append(buf, &tag, 1);
    do {
        uint8_t byte = (uint8_t)((value & 0x7f) | (value > 0x7f ? 0x80 : 0));
        append(buf, &byte, 1);
        value >>= 7;
    } while (value > 0);
}

/* The header of a RangeResponse is its field 1, as in a WatchResponse that has nothing else. */
static void append_header(struct belfry_buf *buf, const struct belfry_wire_header *header)
{
    struct belfry_wire_watch only = {.header = *header};
    uint8_t *to;
    size_t size = belfry_write_watch_head_size(&only);
    if (belfry_buf_reserve(buf, size, &to) != BELFRY_OK)
        abort();
    belfry_write_watch_head(&only, to);
    belfry_buf_grown(buf, size);
}

static void append_kvs(struct belfry_buf *buf, const struct etcd_read *read, int64_t rev)
{
    const struct history *history = read->etcd->history;
    uint64_t keys = history_range_keys(history, read->key, read->range_end);
    int64_t count = 0, given = 0;
    for (unsigned key = 0; key < history_keys(history); key++) {
        const struct history_event *event = NULL;
        if (keys >> key & 1)
            event = history_state(history, history_now(history), rev, key);
        if (event == NULL)
            continue;
        count++;
        if (read->range.count_only || (read->range.limit > 0 && given == read->range.limit))
            continue;
        append_varint(buf, 0x12, event->kv.len);
        append(buf, event->kv.data, event->kv.len);
        given++;
    }
    if (!read->range.count_only && count > given)
        append_varint(buf, 0x18, 1);
    if (count > 0)
        append_varint(buf, 0x20, (uint64_t)count);
}

static void respond(struct etcd_read *read, int64_t rev)
{
    struct belfry_buf buf;
    belfry_buf_init(&buf);
    read->header = etcd_header(read->member, read->member->visible);
    append_header(&buf, &read->header);
    append_kvs(&buf, read, rev);
    if (belfry_blob_copy(belfry_buf_bytes(&buf), &read->message) != BELFRY_OK)
        abort();
    belfry_buf_fini(&buf);
    read->err = BELFRY_OK;
}

static void respond_at(struct etcd_read *read)
{
    const struct member *member = read->member;
    int64_t rev = read->range.revision;
    if (rev > member->visible)
        etcd_read_fail(read, BELFRY_ERR_FUTURE);
    else if (rev > 0 && rev < member->compacted)
        etcd_read_fail(read, BELFRY_ERR_COMPACTED);
    else
        respond(read, rev > 0 ? rev : member->visible);
}

bool etcd_read_answer(struct etcd_read *read)
{
    struct etcd *etcd = read->etcd;
    if (read->range.serializable) {
        etcd->counts.lagging_headers += read->member->visible < history_head(etcd->history, history_now(etcd->history));
        respond_at(read);
        return true;
    }
    if (!etcd_has_quorum(etcd) || read->member->cut_off || belfry_rng_below(etcd->rng, NO_LEADER_ODDS) == 0)
        etcd_read_fail(read, BELFRY_ERR_UNAVAILABLE);
    else if (read->member->visible >= read->index)
        respond_at(read);
    else
        return false;
    return true;
}
