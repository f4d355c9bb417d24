/* src/serve/sse/sse_bed_test.h: for suites of Server-Sent Events: the service on a real core, with exchanges, rights,
 * fence and store that the test plays. Nothing of the bed allocates but the core, the service and bodies of responses.
 */
#ifndef BELFRY_SERVE_SSE_SSE_BED_TEST_H
#define BELFRY_SERVE_SSE_SSE_BED_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "serve/sse/sse.h"
#include "serve/sse/sse_forms.h"
#include "serve/sse/sse_store_test.h"
#include "support/fakeexchange.h"
#include "support/fakeshares.h"
#include "support/refuse.h"
#include "wire/write.h"

#define PEERS     40
#define NOW       100000
#define FIRST_REV 10 /* after which the log begins */
#define CLUSTER   0x51
#define TAG       "00000051"
#define QUESTIONS 64

/* ---- rights, as the test says ---- */

struct permit_question {
    permit_fn fn; /* NULL: it was cancelled, or refused */
    void *user;
    char key[32], end[32], token[32];
};

struct permit {
    bool closed;               /* auth is on, or not known to be off */
    enum permit_regime regime; /* UNSURE: as OPEN */
    bool paused;
    struct permit_party *party; /* the newest */
    void (*listener)(void *user);
    void *listener_user;
    struct permit_question questions[QUESTIONS];
    size_t n;
    size_t most; /* questions at once; 0: all */
};

bool permit_is_open_to(struct permit *permit, const struct identity *who, uint64_t now_ms)
{
    (void)who;
    assert_true(now_ms >= NOW);
    return !permit->closed;
}

enum permit_auth permit_auth(struct permit *permit, uint64_t now_ms)
{
    assert_true(now_ms >= NOW);
    return permit->closed ? PERMIT_AUTH_ON : PERMIT_AUTH_OFF;
}

static void bed_copy(char *to, size_t room, struct belfry_bytes bytes)
{
    snprintf(to, room, "%.*s", (int)bytes.len, bytes.len == 0 ? "" : bytes.data);
}

enum belfry_err permit_hold(struct permit *permit, struct permit_party *party, struct belfry_bytes key,
                            struct belfry_bytes range_end, uint64_t now_ms, permit_fn fn, void *user,
                            struct permit_question **out)
{
    assert_non_null(party->fn);
    assert_true(now_ms >= NOW && permit->n < QUESTIONS);
    if (permit->most != 0 && permit->n >= permit->most)
        return BELFRY_ERR_LIMIT;
    struct permit_question *question = &permit->questions[permit->n++];
    *question = (struct permit_question){.fn = fn, .user = user};
    bed_copy(question->key, sizeof(question->key), key);
    bed_copy(question->end, sizeof(question->end), range_end);
    bed_copy(question->token, sizeof(question->token), party->who->text);
    *out = question;
    return BELFRY_OK;
}

void permit_cancel(struct permit_question *question)
{
    assert_non_null(question->fn);
    question->fn = NULL;
}

void permit_join(struct permit *permit, struct permit_party *party, const struct identity *who, permit_party_fn fn)
{
    *party = (struct permit_party){.who = who, .fn = fn};
    permit->party = party;
}

void permit_leave(struct permit *permit, struct permit_party *party)
{
    (void)permit;
    assert_non_null(party->fn);
    party->fn = NULL;
}

bool permit_may_deliver(const struct permit *permit, const struct permit_party *party, uint64_t now_ms)
{
    assert_true(now_ms >= NOW && party->fn != NULL);
    return !permit->paused;
}

enum permit_regime permit_regime(const struct permit *permit, const struct permit_party *party)
{
    (void)party;
    return permit->regime == PERMIT_ASKS ? PERMIT_ASKS : PERMIT_OPEN;
}

void permit_listen(struct permit *permit, void (*fn)(void *user), void *user)
{
    permit->listener = fn;
    permit->listener_user = user;
}

void permit_unlisten(struct permit *permit, const void *user)
{
    assert_ptr_equal(permit->listener_user, user);
    permit->listener = NULL;
}

/* Answers question number i, as upstream would. */
static inline void permit_answer(struct permit *permit, size_t i, enum permit_verdict verdict, const char *reason)
{
    struct permit_question *question = &permit->questions[i];
    permit_fn fn = question->fn;
    assert_true(i < permit->n && fn != NULL);
    if (verdict != PERMIT_HELD)
        question->fn = NULL;
    fn(verdict, reason, question->user);
}

/* Upstream begins to ask for rights. */
static inline void permit_close(struct permit *permit)
{
    permit->closed = true;
    permit->regime = PERMIT_ASKS;
}

/* ---- the fence ---- */

struct played_wait {
    struct fence_wait base;
    fence_fn fn;
    void *user;
};

struct played_fence {
    struct fence base;
    struct played_wait wait; /* fn NULL: nobody waits */
    enum belfry_err err;
};

static enum belfry_err played_fence_ask(struct fence *base, const struct identity *who, struct belfry_bytes key,
                                        fence_fn fn, void *user, struct fence_wait **out)
{
    struct played_fence *fence = (struct played_fence *)base;
    (void)who;
    assert_true(key.len > 0 && fence->wait.fn == NULL);
    if (fence->err != BELFRY_OK)
        return fence->err;
    fence->wait = (struct played_wait){{base->api}, fn, user};
    *out = &fence->wait.base;
    return BELFRY_OK;
}

static void played_fence_cancel(struct fence_wait *wait)
{
    ((struct played_wait *)wait)->fn = NULL;
}

static const struct fence_api played_fence_api = {.ask = played_fence_ask, .cancel = played_fence_cancel};

static inline void fence_answer(struct played_fence *fence, enum belfry_err err, int64_t rev)
{
    struct played_wait wait = fence->wait;
    fence->wait.fn = NULL;
    assert_non_null(wait.fn);
    wait.fn(err, rev, wait.user);
}

/* ---- the bed ---- */

struct bed {
    struct evlog *log;
    struct worker *worker;
    struct sse *sse;
    struct permit permit;
    struct played_fence fence;
    struct fakestore store;
    struct fakeexchange peers[PEERS];
    size_t n_peers;
    bool leaving;              /* requests come on connections that were told to leave */
    struct fakeshares *shares; /* that their connections join as `client`; NULL: none */
    const char *client;
    uint64_t now;
    int64_t head;
    size_t work;
    bool is_extent;       /* the next revision is one */
    struct batch *extent; /* the rows of a revision that the log has as an extent; NULL: none */
};

static inline uint64_t bed_now(void *user)
{
    return ((struct bed *)user)->now;
}

static inline void bed_work(void *user)
{
    ((struct bed *)user)->work++;
}

static inline enum belfry_err bed_make_core(struct bed *bed)
{
    struct evlog_opts log_opts = {.capacity_log2 = 6, .max_bytes = (size_t)1 << 30, .n_workers = 1};
    enum belfry_err err = evlog_create(&log_opts, &bed->log);
    if (err == BELFRY_OK)
        err = evlog_cut(bed->log, bed->head, EVLOG_CUT_START, 0);
    struct worker_opts opts = {.log = bed->log,
                               .seed = 1,
                               .fragment_bytes = 2 << 20,
                               .response_bytes = 1 << 20,
                               .response_revs = 1000,
                               .segment_bytes = 8 << 20};
    return err != BELFRY_OK ? err : worker_create(&opts, &bed->worker);
}

static inline void bed_close(struct bed *bed)
{
    sse_destroy(bed->sse);
    worker_destroy(bed->worker);
    evlog_destroy(bed->log);
    batch_unref(bed->extent);
    for (size_t i = 0; i < bed->n_peers; i++) {
        shares_leave(&bed->peers[i].conn.share); /* it asserts that nothing is held */
        fakeexchange_fini(&bed->peers[i]);
    }
}

struct bed_opts {
    const char *scope;
    struct cors_origins origins;
    size_t memory_max;
    struct tickets *tickets;
    int64_t (*now_s)(void);
};

static inline enum belfry_err bed_open_as(struct bed *bed, const struct bed_opts *opts)
{
    *bed = (struct bed){.now = NOW, .head = FIRST_REV, .fence.base.api = &played_fence_api};
    fakestore_init(&bed->store, FIRST_REV, CLUSTER);
    struct sse_opts sse_opts = {.streams = {.permit = &bed->permit,
                                            .fence = &bed->fence.base,
                                            .store = &bed->store.store,
                                            .now = bed_now,
                                            .work = bed_work,
                                            .user = bed,
                                            .seed = 5,
                                            .memory_max = opts->memory_max,
                                            .tickets = opts->tickets,
                                            .now_s = opts->now_s},
                                .scope = belfry_bytes_str(opts->scope),
                                .origins = opts->origins};
    enum belfry_err err = sse_create(&sse_opts, &bed->sse);
    if (err == BELFRY_OK)
        err = bed_make_core(bed);
    if (err != BELFRY_OK)
        return err;
    sse_streams_set_worker(sse_streams(bed->sse), bed->worker);
    sse_streams_set_cluster(sse_streams(bed->sse), CLUSTER);
    sse_stand(bed->sse, true);
    worker_turn(bed->worker, bed->now, 100);
    return worker_position(bed->worker) == 0 ? BELFRY_ERR_NOMEM : BELFRY_OK;
}

static inline enum belfry_err bed_open(struct bed *bed)
{
    return bed_open_as(bed, &(struct bed_opts){.scope = ""});
}

#define BED(name)                                                                                                      \
    static struct bed name;                                                                                            \
    assert_int_equal(bed_open(&name), BELFRY_OK)

/* A slice of two events of the extent. */
static inline void bed_answer_slice(struct bed *bed, const struct worker_fetch *fetch)
{
    struct segment_builder builder;
    struct segment *segment;
    struct batch *slice;
    uint32_t left = bed->extent->n_events - fetch->sub, n = left < 2 ? left : 2;
    assert_int_equal(batch_create(fetch->from, BATCH_SLICE, n, 4096, &slice), BELFRY_OK);
    for (uint32_t i = fetch->sub; i < fetch->sub + n; i++) {
        const struct batch_event *event = &bed->extent->events[i];
        batch_add_stored(slice, batch_bytes(bed->extent, event, false), (struct belfry_bytes){0},
                         batch_key(bed->extent, event), event->is_delete);
    }
    batch_set_slice(slice, fetch->sub, n < left);
    segment_begin(&builder);
    assert_int_equal(segment_add(&builder, slice), BELFRY_OK);
    assert_int_equal(segment_finish(&builder, fetch->past, fetch->from, fetch->from, &segment), BELFRY_OK);
    worker_fetched(bed->worker, fetch, BELFRY_OK, segment, 0, 0);
}

/* What has left the log is compacted. */
static inline bool bed_answer_fetch(struct bed *bed)
{
    struct worker_fetch fetch;
    if (!worker_wants_fetch(bed->worker, &fetch))
        return false;
    if (fetch.slice && bed->extent != NULL && bed->extent->rev == fetch.from) {
        bed_answer_slice(bed, &fetch);
        return true;
    }
    int64_t oldest = evlog_oldest(bed->log);
    worker_fetched(bed->worker, &fetch, BELFRY_ERR_COMPACTED, NULL, oldest, oldest);
    return true;
}

static inline bool bed_turn(struct bed *bed)
{
    bed->work = 0;
    bool more = worker_turn(bed->worker, bed->now, 100000) || bed_answer_fetch(bed);
    sse_streams_after_turn(sse_streams(bed->sse), bed->now);
    return more || bed->work > 0 || sse_streams_due(sse_streams(bed->sse)) <= bed->now ||
           worker_due(bed->worker) <= bed->now;
}

/* Turns until there is nothing to do. */
static inline void bed_run(struct bed *bed)
{
    int turns = 0;
    while (bed_turn(bed))
        assert_true(++turns < 10000);
}

/* Time passes, and whatever is due in it happens when it is. */
static inline void bed_pass(struct bed *bed, uint64_t ms)
{
    uint64_t end = bed->now + ms;
    bed_run(bed);
    for (;;) {
        uint64_t due = belfry_min_time(sse_streams_due(sse_streams(bed->sse)), worker_due(bed->worker));
        if (due > end)
            break;
        bed->now = due;
        bed_run(bed);
    }
    bed->now = end;
    bed_run(bed);
}

/* ---- requests ---- */

static inline struct fakeexchange *bed_ask(struct bed *bed, const char *method, const char *path,
                                           const char *const *fields)
{
    struct fakeexchange *fake = &bed->peers[bed->n_peers++];
    struct fakeexchange_head head;
    assert_true(bed->n_peers <= PEERS);
    fakeexchange_init(fake, EXCHANGE_ROOM);
    fake->conn.leaving = bed->leaving;
    if (bed->shares != NULL)
        fakeshares_join(bed->shares, &fake->conn, bed->client);
    fakeexchange_head(&head, method, path, fields);
    sse_begin(bed->sse, &fake->x, &head.head, bed->now);
    return fake;
}

/* The query of a GET. */
static inline struct fakeexchange *bed_get(struct bed *bed, const char *query)
{
    char path[512];
    snprintf(path, sizeof(path), "/v1/events?%s", query);
    return bed_ask(bed, "GET", path, NULL);
}

/* ---- changes ---- */

#define EVENTS_MAX 8192

/* One revision of n events; values NULL: deletes. Texts are kept by the caller. */
static inline enum belfry_err bed_commit(struct bed *bed, const char *const *keys, const char *const *values,
                                         uint32_t n)
{
    static struct belfry_wire_event scanned[EVENTS_MAX];
    static uint8_t raw[8 << 20];
    uint8_t *to = raw;
    size_t bytes = 0;
    struct batch *batch;
    int64_t rev = bed->head + 1;
    assert_true(n <= EVENTS_MAX);
    for (uint32_t i = 0; i < n; i++) {
        struct belfry_wire_event wire = {.is_delete = values[i] == NULL, .kv = {.key = belfry_bytes_str(keys[i])}};
        wire.kv.mod_rev = rev;
        if (!wire.is_delete)
            wire.kv.value = belfry_bytes_str(values[i]);
        uint8_t *end = belfry_write_event(&wire, to);
        assert_true(end < raw + sizeof(raw));
        assert_int_equal(belfry_scan_event(belfry_bytes_of(to, (size_t)(end - to)), &scanned[i]), BELFRY_OK);
        bytes += batch_event_bytes(&scanned[i], (struct belfry_bytes){0});
        to = end;
    }
    enum belfry_err err = batch_create(rev, BATCH_EVENTS, n, bytes, &batch);
    if (err != BELFRY_OK)
        return err;
    for (uint32_t i = 0; i < n; i++)
        batch_add(batch, &scanned[i], (struct belfry_bytes){0});
    if (bed->is_extent) {
        bed->extent = batch;
        assert_int_equal(batch_create(rev, BATCH_EXTENT, 0, 0, &batch), BELFRY_OK);
        batch_set_extent(batch, n, bytes);
        bed->is_extent = false;
    }
    evlog_committed(bed->log, rev - 1);
    err = evlog_append(bed->log, batch);
    if (err != BELFRY_OK)
        return err;
    evlog_committed(bed->log, rev);
    bed->head = rev;
    for (uint32_t i = 0; i < n; i++)
        fakestore_put(&bed->store, rev, keys[i], values[i]);
    bed->store.rev = rev;
    return BELFRY_OK;
}

static inline void bed_put(struct bed *bed, const char *key, const char *value)
{
    assert_int_equal(bed_commit(bed, &key, &value, 1), BELFRY_OK);
}

/* etcd was restored from a backup: it is at `rev` now, and has what the store is given afterwards. */
static inline void bed_restore(struct bed *bed, int64_t rev)
{
    bed->head = rev;
    bed->store.past++;
    bed->store.n_rows = 0;
    bed->store.rev = rev;
    assert_int_equal(evlog_cut(bed->log, rev, EVLOG_CUT_REWRITTEN, 0), BELFRY_OK);
}

/* ---- what is said ---- */

static inline struct belfry_bytes bed_body(const struct fakeexchange *fake)
{
    return belfry_buf_bytes(&fake->body);
}

/* The body begins with this text, which is then taken. `#` in it stands for any digits. */
static inline void assert_says(struct fakeexchange *fake, const char *text)
{
    struct belfry_bytes body = bed_body(fake);
    size_t at = 0;
    for (const char *c = text; *c != '\0'; c++) {
        if (*c == '#') {
            while (at < body.len && body.data[at] >= '0' && body.data[at] <= '9')
                at++;
        } else if (at == body.len || body.data[at++] != *c) {
            fail_msg("\"%s\" is not what \"%.*s\" begins with", text, (int)(body.len < 600 ? body.len : 600),
                     body.len == 0 ? "" : body.data);
        }
    }
    belfry_buf_take(&fake->body, at);
}

#define RETRY                "retry: #\n\n"
#define RESET(r)             "event: reset\nid: 0\ndata: {\"reason\":\"" r "\"}\n\n"
#define PUT(k, v)            "{\"op\":\"put\",\"key\":\"" k "\",\"value\":\"" v "\"}"
#define DELETE(k)            "{\"op\":\"delete\",\"key\":\"" k "\"}"
#define STATE(events)        "event: state\ndata: {\"events\":[" events "]}\n\n"
#define SYNCED(rev, n)       "event: synced\nid: " rev "-" TAG "\ndata: {\"rev\":" rev ",\"n\":" n "}\n\n"
#define PROGRESS(rev)        "event: progress\nid: " rev "-" TAG "\ndata: {\"rev\":" rev "}\n\n"
#define LOST(rev, r)         "event: reset\nid: " rev "-" TAG "\ndata: {\"rev\":" rev ",\"reason\":\"" r "\"}\n\n"
#define CHANGES(rev, events) "id: " rev "-" TAG "\ndata: {\"rev\":" rev ",\"events\":[" events "]}\n\n"
#define PART(rev, events)    "data: {\"rev\":" rev ",\"more\":true,\"events\":[" events "]}\n\n"

static inline void assert_silent(const struct fakeexchange *fake)
{
    struct belfry_bytes body = bed_body(fake);
    assert_int_equal(fake->state, FAKEEXCHANGE_OPEN);
    if (body.len > 0)
        fail_msg("it says %.*s", (int)body.len, body.data);
}

/* It has ended, and said no more than when to come again. */
static inline void assert_ended(struct fakeexchange *fake)
{
    assert_says(fake, RETRY);
    assert_int_equal(fake->state, FAKEEXCHANGE_ENDED);
    assert_int_equal(bed_body(fake).len, 0);
}

static inline struct sse_stats bed_stats(const struct bed *bed)
{
    struct sse_stats stats;
    sse_streams_stats(sse_streams(bed->sse), &stats);
    return stats;
}

#endif
