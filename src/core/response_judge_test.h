/* src/core/response_judge_test.h: batches for the suites of response and rest, and what etcd would send for them, put
 * together and cut by protobuf-c's sizes, with nothing of ours but the events' bytes. */
#ifndef BELFRY_CORE_RESPONSE_JUDGE_TEST_H
#define BELFRY_CORE_RESPONSE_JUDGE_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "core/key_range.h"
#include "core/response.h"
#include "wire/rpc.pb-c.h"
#include "wire/write.h"

#define JUDGE_EVENTS_MAX 64

static const struct response_identity judge_identity = {
    .cluster_id = 0x1cf5e9c1c12248eau, .member_id = 0x61f97220ab052a12u, .raft_term = 2};
static const struct range judge_all = {.kind = RANGE_PREFIX};

/* An event of a made-up batch: sizes are enough to tell one from another. */
struct judge_event {
    const char *key;
    size_t value_len;
    bool is_delete;
    size_t prev_len; /* 0: no previous value */
};

static inline struct belfry_bytes judge_written(struct belfry_buf *buf, const struct belfry_wire_kv *kv)
{
    uint8_t *to;
    size_t len = belfry_write_kv_size(kv);
    assert_int_equal(belfry_buf_reserve(buf, len, &to), BELFRY_OK);
    belfry_write_kv(kv, to);
    return belfry_bytes_of(to, len);
}

/* `events` as a batch of revision `rev`. */
static inline struct batch *judge_batch(int64_t rev, enum batch_kind kind, const struct judge_event *events, uint32_t n)
{
    static char text[1 << 16];
    memset(text, 'v', sizeof(text));
    struct belfry_buf bufs[2 * JUDGE_EVENTS_MAX];
    struct belfry_wire_event scanned[JUDGE_EVENTS_MAX];
    struct belfry_bytes prevs[JUDGE_EVENTS_MAX] = {{0}};
    size_t bytes = 0;
    assert_in_range(n, 0, JUDGE_EVENTS_MAX);
    for (uint32_t i = 0; i < n; i++) {
        struct belfry_bytes key = belfry_bytes_str(events[i].key);
        struct belfry_wire_event fields = {
            .is_delete = events[i].is_delete,
            .kv = {.key = key, .mod_rev = rev, .value = belfry_bytes_of(text, events[i].value_len)}};
        struct belfry_wire_kv prev = {
            .key = key, .mod_rev = rev - 1, .value = belfry_bytes_of(text, events[i].prev_len)};
        uint8_t *to;
        belfry_buf_init(&bufs[2 * i]);
        belfry_buf_init(&bufs[2 * i + 1]);
        size_t len = belfry_write_event_size(&fields);
        assert_int_equal(belfry_buf_reserve(&bufs[2 * i], len, &to), BELFRY_OK);
        belfry_write_event(&fields, to);
        assert_int_equal(belfry_scan_event(belfry_bytes_of(to, len), &scanned[i]), BELFRY_OK);
        if (events[i].prev_len > 0)
            prevs[i] = judge_written(&bufs[2 * i + 1], &prev);
        bytes += batch_event_bytes(&scanned[i], prevs[i]);
    }
    struct batch *batch;
    assert_int_equal(batch_create(rev, kind, n, bytes, &batch), BELFRY_OK);
    for (uint32_t i = 0; i < n; i++)
        batch_add(batch, &scanned[i], prevs[i]);
    for (uint32_t i = 0; i < 2 * n; i++)
        belfry_buf_fini(&bufs[i]);
    return batch;
}

static inline bool judge_passes(uint8_t flags, const struct range *range, const struct batch *batch,
                                const struct batch_event *event)
{
    if (event->is_delete ? flags & WATCHER_NO_DELETE : flags & WATCHER_NO_PUT)
        return false;
    return range_has(range, batch_key(batch, event));
}

static inline void judge_pack(struct belfry_buf *out, const Etcdserverpb__WatchResponse *response)
{
    size_t len = etcdserverpb__watch_response__get_packed_size(response);
    uint8_t *to;
    assert_int_equal(belfry_buf_reserve(out, 5 + len, &to), BELFRY_OK);
    to[0] = 0;
    to[1] = (uint8_t)(len >> 24);
    to[2] = (uint8_t)(len >> 16);
    to[3] = (uint8_t)(len >> 8);
    to[4] = (uint8_t)len;
    assert_int_equal(etcdserverpb__watch_response__pack(response, to + 5), len);
    belfry_buf_grown(out, 5 + len);
}

/* Pieces: each takes events until one more would make it reach the limit, measured with `fragment` set. */
static inline size_t judge_cut(struct belfry_buf *out, Etcdserverpb__WatchResponse whole, size_t limit)
{
    size_t n_pieces = 0, idx = 0;
    while (idx < whole.n_events) {
        Etcdserverpb__WatchResponse piece = whole;
        piece.events = whole.events + idx;
        piece.n_events = 0;
        piece.fragment = 1;
        while (idx < whole.n_events) {
            piece.n_events++;
            if (piece.n_events > 1 && etcdserverpb__watch_response__get_packed_size(&piece) >= limit) {
                piece.n_events--;
                break;
            }
            idx++;
        }
        piece.fragment = idx < whole.n_events;
        judge_pack(out, &piece);
        n_pieces++;
    }
    return n_pieces;
}

/* Appends to `out` what etcd sends; returns how many messages that is. */
static inline size_t judge_response(struct belfry_buf *out, const struct response_opts *opts, const struct range *range,
                                    const struct batch *batch)
{
    Mvccpb__Event *events[JUDGE_EVENTS_MAX];
    Etcdserverpb__ResponseHeader header;
    etcdserverpb__response_header__init(&header);
    header.cluster_id = judge_identity.cluster_id;
    header.member_id = judge_identity.member_id;
    header.raft_term = judge_identity.raft_term;
    header.revision = opts->header_rev;
    Etcdserverpb__WatchResponse response;
    etcdserverpb__watch_response__init(&response);
    response.header = &header;
    response.watch_id = opts->watch_id;
    response.events = events;
    for (uint32_t i = 0; i < batch->n_events; i++) {
        if (!judge_passes(opts->flags, range, batch, &batch->events[i]))
            continue;
        struct belfry_bytes run = batch_bytes(batch, &batch->events[i], (opts->flags & WATCHER_PREV_KV) != 0);
        Mvccpb__Event *event = mvccpb__event__unpack(NULL, run.len, (const uint8_t *)run.data);
        assert_non_null(event);
        events[response.n_events++] = event;
    }
    size_t n = 0;
    bool asked = (opts->flags & WATCHER_FRAGMENT) != 0 && opts->fragment_bytes > 0;
    if (asked && response.n_events >= 2 &&
        etcdserverpb__watch_response__get_packed_size(&response) >= opts->fragment_bytes) {
        n = judge_cut(out, response, opts->fragment_bytes);
    } else if (response.n_events > 0) {
        judge_pack(out, &response);
        n = 1;
    }
    for (size_t i = 0; i < response.n_events; i++)
        mvccpb__event__free_unpacked(events[i], NULL);
    return n;
}

#endif
