/* src/serve/etcd/watch_test.c: watch streams on a real core, with exchanges and rights that the test plays. */
#include "serve/etcd/watch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "core/watcher.h"
#include "serve/etcd/watch_input.h"
#include "server/pace.h"
#include "support/fakeexchange.h"
#include "support/fakeshares.h"
#include "support/gzipped.h"
#include "support/refuse.h"
#include "wire/binary.h"
#include "wire/rpc.pb-c.h"
#include "wire/write.h"

#define BYTES(literal) belfry_bytes_of(literal, sizeof(literal) - 1)
#define PATH           "/etcdserverpb.Watch/Watch"
#define PEERS          8
#define NOW            100000
#define QUESTIONS      (2 * WATCH_QUEUE_MAX)

/* ---- rights, as the test says ---- */

struct permit_question {
    permit_fn fn;
    void *user;
    char key[64], token[64];
    bool canceled;
};

struct permit {
    bool closed;               /* creates are asked about */
    enum permit_regime regime; /* UNSURE: as OPEN */
    bool paused;
    size_t n_parties;
    struct permit_party *party; /* the newest */
    void (*listener)(void *user);
    void *listener_user;
    struct permit_question questions[QUESTIONS]; /* in the order of asking */
    size_t n;
    enum belfry_err err;
};

bool permit_is_open(struct permit *permit, uint64_t now_ms)
{
    assert_true(now_ms >= NOW);
    return !permit->closed;
}

bool permit_is_open_to(struct permit *permit, const struct identity *who, uint64_t now_ms)
{
    (void)who;
    return permit_is_open(permit, now_ms);
}

void permit_join(struct permit *permit, struct permit_party *party, const struct identity *who, permit_party_fn fn)
{
    *party = (struct permit_party){.who = who, .fn = fn};
    permit->party = party;
    permit->n_parties++;
}

void permit_leave(struct permit *permit, struct permit_party *party)
{
    assert_non_null(party->fn);
    party->fn = NULL;
    permit->n_parties--;
}

bool permit_may_deliver(const struct permit *permit, const struct permit_party *party, uint64_t now_ms)
{
    assert_non_null(party->fn);
    assert_true(now_ms >= NOW);
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

enum belfry_err permit_hold(struct permit *permit, struct permit_party *party, struct belfry_bytes key,
                            struct belfry_bytes range_end, uint64_t now_ms, permit_fn fn, void *user,
                            struct permit_question **out)
{
    const struct identity *who = party->who;
    (void)range_end;
    assert_true(now_ms >= NOW && permit->n < QUESTIONS && party->fn != NULL);
    if (permit->err != BELFRY_OK)
        return permit->err;
    struct permit_question *question = &permit->questions[permit->n++];
    *question = (struct permit_question){.fn = fn, .user = user};
    snprintf(question->key, sizeof(question->key), "%.*s", (int)key.len, key.len == 0 ? "" : key.data);
    snprintf(question->token, sizeof(question->token), "%.*s", (int)who->text.len,
             who->kind != IDENTITY_TOKEN ? "" : who->text.data);
    *out = question;
    return BELFRY_OK;
}

void permit_cancel(struct permit_question *question)
{
    question->canceled = true;
}

static void answer(struct permit_question *question, enum permit_verdict verdict, const char *reason)
{
    assert_false(question->canceled);
    question->fn(verdict, reason, question->user);
}

/* ---- the bed ---- */

struct bed {
    struct evlog *log;
    struct worker *worker;
    struct watch_service *service;
    struct permit permit;
    struct fakeexchange peers[PEERS];
    size_t n_peers;
    bool leaving;               /* streams come on connections that were told to leave */
    struct exchange_conn *conn; /* streams come on this one; NULL: each on its own */
    uint64_t now;
    int64_t head;
    size_t work; /* how often it was said to be there */
};

static uint64_t bed_now(void *user)
{
    return ((struct bed *)user)->now;
}

static void bed_work(void *user)
{
    ((struct bed *)user)->work++;
}

static enum belfry_err bed_open_in(struct bed *bed, size_t memory_max, const char *scope)
{
    *bed = (struct bed){.now = NOW, .head = 10};
    struct evlog_opts log_opts = {.capacity_log2 = 8, .max_bytes = (size_t)1 << 30, .n_workers = 1};
    enum belfry_err err = evlog_create(&log_opts, &bed->log);
    if (err == BELFRY_OK)
        err = evlog_cut(bed->log, bed->head, EVLOG_CUT_START, 0);
    struct worker_opts opts = {.log = bed->log,
                               .identity = {.cluster_id = 7, .member_id = 8, .raft_term = 2},
                               .seed = 1,
                               .fragment_bytes = 2 << 20,
                               .response_bytes = 1 << 20,
                               .response_revs = 1000,
                               .segment_bytes = 8 << 20,
                               .memory_max = memory_max,
                               .write = watch_write};
    if (err == BELFRY_OK)
        err = worker_create(&opts, &bed->worker);
    struct watch_service_opts watch_opts = {.permit = &bed->permit,
                                            .now = bed_now,
                                            .scope = belfry_bytes_str(scope),
                                            .seed = 5,
                                            .memory_max = memory_max,
                                            .work = bed_work,
                                            .user = bed};
    if (err == BELFRY_OK)
        err = watch_create(&watch_opts, &bed->service);
    if (err != BELFRY_OK)
        return err;
    watch_set_worker(bed->service, bed->worker);
    watch_stand(bed->service, WATCH_READY, "");
    worker_turn(bed->worker, bed->now, 100);
    return BELFRY_OK;
}

static enum belfry_err bed_open(struct bed *bed, size_t memory_max)
{
    return bed_open_in(bed, memory_max, "");
}

static void bed_close(struct bed *bed)
{
    watch_destroy(bed->service);
    worker_destroy(bed->worker);
    evlog_destroy(bed->log);
    for (size_t i = 0; i < bed->n_peers; i++)
        fakeexchange_fini(&bed->peers[i]);
}

#define BED(name)                                                                                                      \
    struct bed name;                                                                                                   \
    assert_int_equal(bed_open(&name, 0), BELFRY_OK)

static void turn(struct bed *bed)
{
    if (!watch_is_going_round(bed->service))
        worker_turn(bed->worker, bed->now, 100000);
    watch_after_turn(bed->service, bed->now);
}

/* Turns until there is nothing to do. */
static void run(struct bed *bed)
{
    for (int turns = 0; turns < 10000; turns++) {
        bed->work = 0;
        turn(bed);
        if (bed->work == 0 && watch_due(bed->service) > bed->now)
            return;
    }
    fail_msg("there is always work");
}

static struct fakeexchange *begin_with(struct bed *bed, size_t room, const char *const *more)
{
    const char *fields[12] = {"content-type: application/grpc", "user-agent: grpc-go/1.81.1"};
    for (size_t i = 0; more != NULL && more[i] != NULL; i++)
        fields[2 + i] = more[i];
    struct fakeexchange *fake = &bed->peers[bed->n_peers++];
    struct fakeexchange_head head;
    fakeexchange_init(fake, room);
    if (bed->conn != NULL)
        fake->x.conn = bed->conn;
    fake->conn.leaving = bed->leaving;
    fakeexchange_head(&head, "POST", PATH, fields);
    watch_begin(bed->service, &fake->x, &head.head, bed->now);
    return fake;
}

static struct fakeexchange *begin(struct bed *bed)
{
    return begin_with(bed, EXCHANGE_ROOM, NULL);
}

/* One revision: a put of the key. */
static void put(struct bed *bed, const char *key, size_t value_len)
{
    char *value = calloc(1, value_len + 1);
    uint8_t *raw = malloc(value_len + 256);
    int64_t rev = ++bed->head;
    struct belfry_wire_event event = {
        .kv = {.key = belfry_bytes_str(key), .mod_rev = rev, .create_rev = 2, .version = 2}};
    event.kv.value = belfry_bytes_of(value, value_len);
    uint8_t *end = belfry_write_event(&event, raw);
    struct belfry_wire_event scanned;
    assert_int_equal(belfry_scan_event(belfry_bytes_of(raw, (size_t)(end - raw)), &scanned), BELFRY_OK);
    struct belfry_bytes none = {0};
    struct batch *batch;
    assert_int_equal(batch_create(rev, BATCH_EVENTS, 1, batch_event_bytes(&scanned, none), &batch), BELFRY_OK);
    batch_add(batch, &scanned, none);
    evlog_committed(bed->log, rev - 1);
    assert_int_equal(evlog_append(bed->log, batch), BELFRY_OK);
    evlog_committed(bed->log, rev);
    free(value);
    free(raw);
}

/* ---- requests ---- */

static void send_request(struct fakeexchange *fake, const Etcdserverpb__WatchRequest *request)
{
    uint8_t packed[1024];
    assert_true(etcdserverpb__watch_request__get_packed_size(request) <= sizeof(packed));
    fakeexchange_send_message(fake, packed, etcdserverpb__watch_request__pack(request, packed));
}

static void send_create(struct fakeexchange *fake, const char *key, const char *end, int64_t start, int64_t id)
{
    Etcdserverpb__WatchCreateRequest create = ETCDSERVERPB__WATCH_CREATE_REQUEST__INIT;
    Etcdserverpb__WatchRequest request = ETCDSERVERPB__WATCH_REQUEST__INIT;
    create.key = belfry_binary(belfry_bytes_str(key));
    create.range_end = belfry_binary(belfry_bytes_str(end));
    create.start_revision = start;
    create.watch_id = id;
    request.request_union_case = ETCDSERVERPB__WATCH_REQUEST__REQUEST_UNION_CREATE_REQUEST;
    request.create_request = &create;
    send_request(fake, &request);
}

static void send_cancel(struct fakeexchange *fake, int64_t id)
{
    Etcdserverpb__WatchCancelRequest cancel = ETCDSERVERPB__WATCH_CANCEL_REQUEST__INIT;
    Etcdserverpb__WatchRequest request = ETCDSERVERPB__WATCH_REQUEST__INIT;
    cancel.watch_id = id;
    request.request_union_case = ETCDSERVERPB__WATCH_REQUEST__REQUEST_UNION_CANCEL_REQUEST;
    request.cancel_request = &cancel;
    send_request(fake, &request);
}

static void send_progress(struct fakeexchange *fake)
{
    fakeexchange_send_message(fake, "\x1a\0", 2);
}

/* ---- responses ---- */

static struct belfry_wire_watch next(struct fakeexchange *fake, char reason[128])
{
    struct belfry_bytes message;
    struct belfry_wire_watch watch;
    assert_true(fakeexchange_message(fake, &message));
    assert_int_equal(belfry_scan_watch(message, &watch), BELFRY_OK);
    snprintf(reason, 128, "%.*s", (int)watch.cancel_reason.len,
             watch.cancel_reason.len == 0 ? "" : watch.cancel_reason.data);
    fakeexchange_next(fake);
    return watch;
}

static void assert_created(struct fakeexchange *fake, int64_t id)
{
    char reason[128];
    struct belfry_wire_watch watch = next(fake, reason);
    assert_true(watch.created && !watch.canceled);
    assert_int_equal(watch.watch_id, id);
}

static void assert_refused(struct fakeexchange *fake, const char *text)
{
    char reason[128];
    struct belfry_wire_watch watch = next(fake, reason);
    assert_true(watch.created && watch.canceled);
    assert_int_equal(watch.watch_id, -1);
    assert_string_equal(reason, text);
}

static void assert_events(struct fakeexchange *fake, int64_t id, size_t n)
{
    char reason[128];
    struct belfry_wire_watch watch = next(fake, reason);
    assert_false(watch.created || watch.canceled);
    assert_int_equal(watch.watch_id, id);
    assert_int_equal(watch.n_events, n);
}

static void assert_silent(const struct fakeexchange *fake)
{
    struct belfry_bytes message;
    assert_int_equal(fake->state, FAKEEXCHANGE_OPEN);
    assert_false(fakeexchange_message(fake, &message));
}

static void assert_ended(const struct fakeexchange *fake, const char *code, const char *text)
{
    assert_int_equal(fake->state, FAKEEXCHANGE_ENDED);
    assert_string_equal(fakeexchange_field(fake, "grpc-status"), code);
    assert_string_equal(fakeexchange_field(fake, "grpc-message"), text);
}

static uint64_t closed(const struct bed *bed, enum watch_close why)
{
    struct watch_stats stats;
    watch_stats(bed->service, &stats);
    return stats.closed[why];
}

static struct watch_stats stats_of(const struct bed *bed)
{
    struct watch_stats stats;
    watch_stats(bed->service, &stats);
    return stats;
}

/* ---- what etcd does ---- */

static void watcher_is_created_and_given_events(void **state)
{
    (void)state;
    BED(bed);
    struct fakeexchange *peer = begin(&bed);
    turn(&bed);
    assert_int_equal(peer->status, 0); /* no head before the first message */
    send_create(peer, "a", "b", 0, 0);
    assert_true(bed.work > 0);
    run(&bed);
    assert_int_equal(peer->status, 200);
    assert_string_equal(fakeexchange_field(peer, "content-type"), "application/grpc");
    assert_created(peer, 0);
    put(&bed, "a1", 10);
    put(&bed, "c", 10);
    run(&bed);
    assert_events(peer, 0, 1);
    assert_silent(peer);
    assert_int_equal(peer->taken, peer->came);
    bed_close(&bed);
    assert_ended(peer, "14", "belfry: draining; connect anew");
}

static void subtype_of_the_request_comes_back(void **state)
{
    (void)state;
    BED(bed);
    static const char *const fields[] = {"content-type: application/grpc+proto", NULL};
    struct fakeexchange *peer = &bed.peers[bed.n_peers++];
    struct fakeexchange_head head;
    fakeexchange_init(peer, EXCHANGE_ROOM);
    fakeexchange_head(&head, "POST", PATH, fields);
    watch_begin(bed.service, &peer->x, &head.head, bed.now);
    send_create(peer, "a", "", 0, 0);
    run(&bed);
    assert_string_equal(fakeexchange_field(peer, "content-type"), "application/grpc+proto");
    bed_close(&bed);
}

static void refusals_have_etcds_texts_and_the_stream_goes_on(void **state)
{
    (void)state;
    BED(bed);
    struct fakeexchange *peer = begin(&bed);
    send_create(peer, "a", "", -5, 0);
    send_create(peer, "b", "a", 0, 0);
    send_create(peer, "a", "", 0, 9);
    send_create(peer, "a", "", 0, 9);
    run(&bed);
    assert_refused(peer, "etcdserver: mvcc: required revision has been compacted");
    assert_refused(peer, "mvcc: watcher range is empty");
    assert_created(peer, 9);
    assert_refused(peer, "mvcc: duplicate watch ID provided on the WatchStream");
    assert_silent(peer);
    bed_close(&bed);
}

static void cancel_is_acknowledged_once(void **state)
{
    (void)state;
    BED(bed);
    char reason[128];
    struct fakeexchange *peer = begin(&bed);
    send_create(peer, "a", "", 0, 0);
    send_cancel(peer, 0);
    send_cancel(peer, 0);
    send_cancel(peer, 4);
    run(&bed);
    assert_created(peer, 0);
    struct belfry_wire_watch watch = next(peer, reason);
    assert_true(watch.canceled && !watch.created);
    assert_silent(peer);
    bed_close(&bed);
}

static void progress_is_answered_for_all(void **state)
{
    (void)state;
    BED(bed);
    char reason[128];
    struct fakeexchange *peer = begin(&bed);
    send_progress(peer);
    run(&bed);
    assert_silent(peer); /* no watchers: no answer */
    send_create(peer, "a", "", 0, 0);
    run(&bed);
    assert_created(peer, 0);
    send_progress(peer);
    run(&bed);
    struct belfry_wire_watch watch = next(peer, reason);
    assert_int_equal(watch.watch_id, -1);
    assert_int_equal(watch.header.revision, bed.head);
    assert_int_equal(watch.n_events, 0);
    bed_close(&bed);
}

static void filters_and_unknown_fields_are_understood(void **state)
{
    (void)state;
    BED(bed);
    struct fakeexchange *peer = begin(&bed);
    /* key "a"; filters packed: NOPUT and one that is not known; field 15 */
    fakeexchange_send_message(peer, "\x0a\x09\x0a\x01\x61\x2a\x02\x00\x07\x78\x01", 11);
    run(&bed);
    assert_created(peer, 0);
    put(&bed, "a", 10);
    run(&bed);
    assert_silent(peer);
    bed_close(&bed);
}

static void empty_request_is_ignored_and_an_empty_create_watches_the_zero_key(void **state)
{
    (void)state;
    BED(bed);
    struct fakeexchange *peer = begin(&bed);
    fakeexchange_send_message(peer, NULL, 0);
    run(&bed);
    assert_silent(peer);
    fakeexchange_send_message(peer, "\x0a\0", 2);
    run(&bed);
    assert_created(peer, 0);
    bed_close(&bed);
}

static void half_closed_stream_is_still_given_events(void **state)
{
    (void)state;
    BED(bed);
    struct fakeexchange *peer = begin(&bed);
    send_create(peer, "a", "", 0, 0);
    fakeexchange_half_close(peer);
    run(&bed);
    assert_created(peer, 0);
    put(&bed, "a", 10);
    run(&bed);
    assert_events(peer, 0, 1);
    assert_silent(peer);
    bed_close(&bed);
}

static void half_close_inside_a_message_ends_it(void **state)
{
    (void)state;
    BED(bed);
    struct fakeexchange *peer = begin(&bed);
    fakeexchange_send(peer, "\0\0\0\0\x07\x0a\x05", 7);
    fakeexchange_half_close(peer);
    assert_ended(peer, "13", "unexpected EOF");
    assert_int_equal(closed(&bed, WATCH_CLOSE_BAD_REQUEST), 1);
    bed_close(&bed);
}

static void requests_cut_into_single_bytes_are_read_the_same(void **state)
{
    (void)state;
    BED(bed);
    static const uint8_t bytes[] = {0, 0, 0, 0, 7, 0x0a, 5, 0x0a, 3, 'f', 'o', 'o', /* create */
                                    0, 0, 0, 0, 0,                                  /* nothing */
                                    0, 0, 0, 0, 2, 0x1a, 0,                         /* progress */
                                    0, 0, 0, 0, 2, 0x12, 0};                        /* cancel 0 */
    char reason[128];
    struct fakeexchange *peer = begin(&bed);
    for (size_t i = 0; i < sizeof(bytes); i++) {
        fakeexchange_send(peer, bytes + i, 1);
        assert_int_equal(peer->taken, peer->came);
    }
    run(&bed);
    assert_created(peer, 0);
    assert_true(next(peer, reason).canceled);
    assert_int_equal(stats_of(&bed).requests, 4);
    assert_int_equal(stats_of(&bed).held_bytes, 0);
    bed_close(&bed);
}

/* ---- bad requests ---- */

static void request_that_cannot_be_read_ends_the_stream(void **state)
{
    (void)state;
    BED(bed);
    struct fakeexchange *peer = begin(&bed);
    fakeexchange_send_message(peer, "\x0a\x7f", 2);
    assert_ended(peer, "13", "grpc: failed to unmarshal the received message: proto: malformed WatchRequest");
    assert_true(peer->whole);
    bed_close(&bed);
}

static void message_over_two_mebibytes_ends_the_stream(void **state)
{
    (void)state;
    BED(bed);
    struct fakeexchange *peer = begin(&bed);
    fakeexchange_send(peer, "\0\x00\x20\x00\x01", 5);
    assert_ended(peer, "8", "grpc: received message larger than max (2097153 vs. 2097152)");
    bed_close(&bed);
}

static void message_of_two_mebibytes_is_put_together(void **state)
{
    (void)state;
    BED(bed);
    static char part[32 * 1024];
    struct fakeexchange *peer = begin(&bed);
    /* a create whose field 15 is nearly all of it */
    static const uint8_t front[] = {0, 0, 0x20, 0, 0, 0x0a, 0xfc, 0xff, 0x7f, 0x7a, 0xf8, 0xff, 0x7f};
    fakeexchange_send(peer, front, sizeof(front));
    for (size_t left = WATCH_REQUEST_BYTES - (sizeof(front) - 5); left > 0;) {
        size_t n = left < sizeof(part) ? left : sizeof(part);
        fakeexchange_send(peer, part, n);
        left -= n;
        assert_int_equal(peer->taken, peer->came);
    }
    run(&bed);
    assert_created(peer, 0);
    assert_int_equal(stats_of(&bed).held_bytes, 0);
    bed_close(&bed);
}

static void flags_and_encodings_are_judged(void **state)
{
    (void)state;
    BED(bed);
    static const char *const snappy[] = {"grpc-encoding: snappy", NULL};
    static const char *const gzip[] = {"grpc-encoding: gzip", NULL};
    struct fakeexchange *peer = begin(&bed);
    fakeexchange_send(peer, "\1\0\0\0\0", 5);
    assert_ended(peer, "13", "grpc: compressed flag set with identity or empty encoding");
    peer = begin(&bed);
    fakeexchange_send(peer, "\2\0\0\0\0", 5);
    assert_ended(peer, "13", "grpc: received unexpected payload format 2");
    peer = begin_with(&bed, EXCHANGE_ROOM, snappy);
    assert_ended(peer, "12", "grpc: Decompressor is not installed for grpc-encoding \"snappy\"");
    peer = begin_with(&bed, EXCHANGE_ROOM, gzip);
    fakeexchange_send(peer, "\1\0\0\0\4junk", 9);
    assert_ended(peer, "13", "grpc: failed to decompress the received message: it is not whole gzip");
    assert_int_equal(closed(&bed, WATCH_CLOSE_BAD_REQUEST), 4);
    bed_close(&bed);
}

static void gzipped_requests_are_read_up_to_the_limit(void **state)
{
    (void)state;
    BED(bed);
    static const char *const gzip[] = {"grpc-encoding: gzip", NULL};
    static uint8_t message[8192], zeros[WATCH_REQUEST_BYTES + 1];
    struct fakeexchange *peer = begin_with(&bed, EXCHANGE_ROOM, gzip);
    size_t len = gzipped("\x0a\x05\x0a\x03"
                         "foo",
                         7, 9, message + 5, sizeof(message) - 5);
    memcpy(message, (uint8_t[]){1, 0, 0, 0, (uint8_t)len}, 5);
    fakeexchange_send(peer, message, 5 + len);
    send_create(peer, "plain", "", 0, 0);
    run(&bed);
    assert_created(peer, 0);
    assert_created(peer, 1);
    len = gzipped(zeros, sizeof(zeros), 9, message + 5, sizeof(message) - 5);
    memcpy(message, (uint8_t[]){1, 0, 0, (uint8_t)(len >> 8), (uint8_t)len}, 5);
    fakeexchange_send(peer, message, 5 + len);
    assert_ended(peer, "8", "grpc: received message after decompression larger than max (65537 vs. 65536)");
    bed_close(&bed);
}

static void unpacking_counts_against_the_turn(void **state)
{
    (void)state;
    BED(bed);
    static const char *const gzip[] = {"grpc-encoding: gzip", NULL};
    static const char request[] = "\x0a\x05\x0a\x03"
                                  "foo\x7a\xf0\xff\x03"; /* and a field that no one knows */
    static uint8_t plain[11 + 0xfff0], message[8192];
    const size_t cost = 1 + sizeof(plain) / WATCH_UNPACK_BYTES, at_once = WATCH_TURN_REQUESTS / cost;
    memcpy(plain, request, 11);
    struct fakeexchange *peer = begin_with(&bed, EXCHANGE_ROOM, gzip), *other = begin(&bed);
    size_t len = gzipped(plain, sizeof(plain), 9, message + 5, sizeof(message) - 5);
    memcpy(message, (uint8_t[]){1, 0, 0, (uint8_t)(len >> 8), (uint8_t)len}, 5);
    for (size_t i = 0; i < 3 * at_once; i++)
        fakeexchange_send(peer, message, 5 + len);
    assert_int_equal(stats_of(&bed).creates, at_once); /* as much work as a turn may be */
    send_create(other, "plain", "", 0, 0);
    turn(&bed); /* the end of that turn, and what waits has the next one */
    assert_int_equal(stats_of(&bed).creates, 2 * at_once + 1); /* the other stream had its turn in between */
    run(&bed);
    assert_int_equal(stats_of(&bed).creates, 3 * at_once + 1);
    assert_created(other, 0);
    assert_int_equal(peer->taken, peer->came);
    bed_close(&bed);
}

/* ---- how it stands ---- */

static void stream_is_refused_while_not_ready(void **state)
{
    (void)state;
    BED(bed);
    static const char *const hasleader[] = {"hasleader: true", NULL};
    watch_stand(bed.service, WATCH_NOT_READY, "12 s behind (limit 5 s)");
    struct fakeexchange *peer = begin_with(&bed, EXCHANGE_ROOM, hasleader);
    assert_true(peer->whole);
    assert_ended(peer, "14", "belfry: not ready: 12 s behind (limit 5 s)");
    watch_stand(bed.service, WATCH_STALE, "no news from upstream");
    assert_ended(begin_with(&bed, EXCHANGE_ROOM, hasleader), "14", "etcdserver: no leader");
    assert_ended(begin(&bed), "14", "belfry: not ready: no news from upstream");
    assert_int_equal(closed(&bed, WATCH_CLOSE_NOT_READY), 2);
    assert_int_equal(closed(&bed, WATCH_CLOSE_NO_LEADER), 1);
    assert_int_equal(stats_of(&bed).opened, 3);
    bed_close(&bed);
}

static void stale_ends_those_who_asked_for_a_leader(void **state)
{
    (void)state;
    BED(bed);
    static const char *const hasleader[] = {"hasleader: true", NULL};
    struct fakeexchange *wants = begin_with(&bed, EXCHANGE_ROOM, hasleader), *other = begin(&bed);
    send_create(wants, "a", "", 0, 0);
    run(&bed);
    watch_stand(bed.service, WATCH_STALE, "no news");
    assert_int_equal(watch_due(bed.service), 0);
    run(&bed);
    assert_ended(wants, "14", "etcdserver: no leader");
    assert_false(wants->whole);
    assert_silent(other);
    assert_int_equal(closed(&bed, WATCH_CLOSE_NO_LEADER), 1);
    bed_close(&bed);
}

static void deadline_ends_the_stream(void **state)
{
    (void)state;
    BED(bed);
    static const char *const timeout[] = {"grpc-timeout: 2S", NULL};
    struct fakeexchange *peer = begin_with(&bed, EXCHANGE_ROOM, timeout);
    assert_int_equal(watch_due(bed.service), NOW + 2000);
    bed.now += 1999;
    run(&bed);
    assert_silent(peer);
    bed.now += 1;
    run(&bed);
    assert_ended(peer, "4", "context deadline exceeded");
    assert_int_equal(watch_due(bed.service), BELFRY_NEVER);
    assert_int_equal(closed(&bed, WATCH_CLOSE_DEADLINE), 1);
    bed_close(&bed);
}

static void malformed_timeout_is_answered_with_400(void **state)
{
    (void)state;
    BED(bed);
    static const char *const timeout[] = {"grpc-timeout: soon", NULL};
    struct fakeexchange *peer = begin_with(&bed, EXCHANGE_ROOM, timeout);
    assert_int_equal(peer->status, 400);
    assert_int_equal(stats_of(&bed).opened, 0);
    bed_close(&bed);
}

static void streams_of_tiers_below_are_known_by_name_and_position(void **state)
{
    (void)state;
    BED(bed);
    assert_null(watch_tiers(bed.service));
    begin(&bed);
    struct fakeexchange *live =
        begin_with(&bed, EXCHANGE_ROOM, (const char *const[]){"belfry-via: edge-1", "hasleader: true", NULL});
    send_create(live, "a", "", 0, 0);
    run(&bed);
    for (int i = 0; i < 5; i++)
        put(&bed, "a", 10);
    run(&bed);
    struct tree_below *below = watch_tiers(bed.service);
    assert_non_null(below);
    assert_int_equal(below->n, 1);
    assert_string_equal(below->tiers[0].name, "edge-1");
    assert_int_equal(below->tiers[0].streams, 1);
    assert_int_equal(below->tiers[0].position, bed.head);
    free(below);
    fakeexchange_gone(live);
    run(&bed);
    assert_null(watch_tiers(bed.service));
    bed_close(&bed);
}

static void send_create_with_progress(struct fakeexchange *fake)
{
    Etcdserverpb__WatchCreateRequest create = ETCDSERVERPB__WATCH_CREATE_REQUEST__INIT;
    Etcdserverpb__WatchRequest request = ETCDSERVERPB__WATCH_REQUEST__INIT;
    create.key = belfry_binary(belfry_bytes_str("a"));
    create.progress_notify = true;
    request.request_union_case = ETCDSERVERPB__WATCH_REQUEST__REQUEST_UNION_CREATE_REQUEST;
    request.create_request = &create;
    send_request(fake, &request);
}

static void a_new_term_is_told_to_tiers_alone(void **state)
{
    (void)state;
    char reason[128];
    BED(bed);
    watch_tell_tiers(bed.service);
    struct fakeexchange *client = begin(&bed);
    struct fakeexchange *tier =
        begin_with(&bed, EXCHANGE_ROOM, (const char *const[]){"belfry-via: edge-1", "hasleader: true", NULL});
    send_create_with_progress(client);
    send_create_with_progress(tier);
    run(&bed);
    assert_created(client, 0);
    assert_created(tier, 0);
    worker_set_identity(bed.worker, &(struct response_identity){.cluster_id = 7, .member_id = 8, .raft_term = 5});
    watch_tell_tiers(bed.service);
    run(&bed);
    struct belfry_wire_watch told = next(tier, reason);
    assert_int_equal(told.watch_id, 0);
    assert_int_equal(told.n_events, 0);
    assert_int_equal(told.header.raft_term, 5);
    assert_silent(tier);
    assert_silent(client);
    bed_close(&bed);
}

/* Whoever says that it is a tier: what a scrape costs does not grow with how many there are. */
static void tiers_below_are_listed_and_looked_at_up_to_a_bound(void **state)
{
    enum { N = TREE_STREAMS + 10, EACH = 5 };
    static struct fakeexchange many[N];
    static const char *const fields[] = {"content-type: application/grpc", "belfry-via: edge", NULL};
    (void)state;
    BED(bed);
    for (size_t i = 0; i < N; i++) {
        struct fakeexchange_head head;
        fakeexchange_init(&many[i], EXCHANGE_ROOM);
        fakeexchange_head(&head, "POST", PATH, fields);
        watch_begin(bed.service, &many[i].x, &head.head, bed.now);
        for (size_t k = 0; k < EACH; k++)
            send_create(&many[i], "a", "", 0, 0);
        run(&bed);
    }
    struct tree_below *below = watch_tiers(bed.service);
    assert_non_null(below);
    assert_int_equal(below->n, TREE_STREAMS);
    assert_int_equal(below->more, N - TREE_STREAMS);
    size_t known = 0;
    for (size_t i = 0; i < below->n; i++)
        known += below->tiers[i].position > 0;
    assert_in_range(known, 1000, TREE_STREAMS - 1); /* each has a name, the last ones no position */
    assert_int_equal(below->tiers[0].position, bed.head);
    free(below);
    for (size_t i = 0; i < N; i++)
        fakeexchange_gone(&many[i]);
    run(&bed);
    assert_null(watch_tiers(bed.service));
    for (size_t i = 0; i < N; i++)
        fakeexchange_fini(&many[i]);
    bed_close(&bed);
}

static void drain_ends_everybody_within_the_period(void **state)
{
    (void)state;
    BED(bed);
    size_t ended_early = 0;
    bed.leaving = true;
    for (int i = 0; i < 6; i++)
        begin(&bed);
    watch_drain(bed.service, bed.now, 1000);
    run(&bed);
    bed.now += 500;
    run(&bed);
    for (int i = 0; i < 6; i++)
        ended_early += bed.peers[i].state == FAKEEXCHANGE_ENDED;
    assert_in_range(ended_early, 1, 5); /* spread, with this seed */
    assert_ended(begin(&bed), "14", "belfry: draining; connect anew");
    bed.now += 500;
    run(&bed);
    for (int i = 0; i < 6; i++)
        assert_ended(&bed.peers[i], "14", "belfry: draining; connect anew");
    assert_int_equal(closed(&bed, WATCH_CLOSE_DRAIN), 7);
    assert_int_equal(stats_of(&bed).streams, 0);
    bed_close(&bed);
}

static void drain_leaves_connections_alone_that_were_not_told_to_leave(void **state)
{
    (void)state;
    BED(bed);
    struct fakeexchange *early = begin(&bed);
    bed.leaving = true;
    struct fakeexchange *told = begin(&bed);
    watch_drain(bed.service, bed.now, 1000);
    bed.now += 1000;
    run(&bed);
    assert_ended(told, "14", "belfry: draining; connect anew");
    assert_ended(begin(&bed), "14", "belfry: draining; connect anew");
    bed.leaving = false;
    struct fakeexchange *late = begin(&bed);
    bed.now += 100000;
    run(&bed);
    assert_silent(early);
    assert_silent(late);
    early->conn.leaving = late->conn.leaving = true;
    watch_drain(bed.service, bed.now, 0);
    run(&bed);
    assert_ended(early, "14", "belfry: draining; connect anew");
    assert_ended(late, "14", "belfry: draining; connect anew");
    assert_int_equal(closed(&bed, WATCH_CLOSE_DRAIN), 4);
    bed_close(&bed);
}

static void second_drain_can_be_shorter(void **state)
{
    (void)state;
    BED(bed);
    bed.leaving = true;
    struct fakeexchange *peer = begin(&bed);
    watch_drain(bed.service, bed.now, 1000000);
    run(&bed);
    assert_silent(peer);
    watch_drain(bed.service, bed.now, 0);
    run(&bed);
    assert_ended(peer, "14", "belfry: draining; connect anew");
    bed_close(&bed);
}

#define MANY 700

/* Opens many streams, of which every one asks for a leader. */
static void open_many(struct bed *bed, struct fakeexchange *many)
{
    static const char *const fields[] = {"content-type: application/grpc", "hasleader: true", NULL};
    struct fakeexchange_head head;
    fakeexchange_head(&head, "POST", PATH, fields);
    for (size_t i = 0; i < MANY; i++) {
        fakeexchange_init(&many[i], EXCHANGE_ROOM);
        many[i].conn.leaving = true;
        watch_begin(bed->service, &many[i].x, &head.head, bed->now);
    }
    assert_int_equal(stats_of(bed).streams, MANY);
}

static void nobody_ends_too_many_streams_in_one_turn(void **state)
{
    (void)state;
    static struct fakeexchange many[MANY];
    for (int drain = 0; drain < 2; drain++) {
        BED(bed);
        open_many(&bed, many);
        if (drain)
            watch_drain(bed.service, bed.now, 0);
        else
            watch_stand(bed.service, WATCH_STALE, "no news");
        size_t turns = 0, before;
        do {
            before = stats_of(&bed).streams;
            assert_int_equal(watch_due(bed.service) <= bed.now, before > 0);
            turn(&bed);
            assert_true(before - stats_of(&bed).streams <= 512);
            turns++;
        } while (stats_of(&bed).streams < before);
        assert_int_equal(stats_of(&bed).streams, 0);
        assert_in_range(turns, 3, 6);
        assert_int_equal(closed(&bed, drain ? WATCH_CLOSE_DRAIN : WATCH_CLOSE_NO_LEADER), MANY);
        bed_close(&bed);
    }
}

/* ---- rights ---- */

static void requests_wait_in_order_while_rights_are_asked_about(void **state)
{
    (void)state;
    BED(bed);
    static const char *const token[] = {"token: abc.12", NULL};
    char reason[128];
    bed.permit.closed = true;
    struct fakeexchange *peer = begin_with(&bed, EXCHANGE_ROOM, token);
    send_create(peer, "first", "", 0, 0);
    send_create(peer, "second", "", 0, 0);
    send_cancel(peer, 0);
    run(&bed);
    assert_silent(peer);
    assert_int_equal(bed.permit.n, 2); /* together */
    assert_int_equal(stats_of(&bed).asking, 1);
    assert_true(stats_of(&bed).held_bytes > 0);
    assert_string_equal(bed.permit.questions[0].key, "first");
    assert_string_equal(bed.permit.questions[0].token, "abc.12");
    assert_string_equal(bed.permit.questions[1].key, "second");
    struct watch_view view;
    uint64_t number;
    assert_true(watch_next(bed.service, 0, &number, &view) && !view.who->accepted);
    answer(&bed.permit.questions[1], PERMIT_REFUSED,
           "rpc error: code = PermissionDenied desc = etcdserver: permission denied");
    run(&bed);
    assert_silent(peer);
    answer(&bed.permit.questions[0], PERMIT_HELD, "");
    assert_true(watch_next(bed.service, 0, &number, &view) && view.who->accepted);
    run(&bed);
    assert_created(peer, 0);
    assert_refused(peer, "rpc error: code = PermissionDenied desc = etcdserver: permission denied");
    assert_true(next(peer, reason).canceled);
    assert_silent(peer);
    assert_int_equal(peer->taken, peer->came);
    assert_int_equal(stats_of(&bed).asking, 0);
    assert_int_equal(stats_of(&bed).refused, 1);
    assert_int_equal(stats_of(&bed).held_bytes, 0);
    assert_true(bed.permit.questions[0].canceled);  /* its watch was cancelled */
    assert_false(bed.permit.questions[1].canceled); /* it was answered */
    bed_close(&bed);
}

static void creates_that_are_asked_about_together_are_bounded(void **state)
{
    (void)state;
    BED(bed);
    bed.permit.closed = true;
    struct fakeexchange *peer = begin(&bed);
    for (int i = 0; i < WATCH_QUEUE_MAX + 10; i++)
        send_create(peer, "a", "", 0, 0);
    run(&bed);
    assert_int_equal(bed.permit.n, WATCH_QUEUE_MAX);
    assert_true(peer->taken < peer->came); /* the others are not read: the client's window closes */
    for (int i = 0; i < WATCH_QUEUE_MAX; i++)
        answer(&bed.permit.questions[i], PERMIT_HELD, "");
    run(&bed);
    assert_int_equal(bed.permit.n, WATCH_QUEUE_MAX + 10);
    assert_int_equal(peer->taken, peer->came);
    for (int i = 0; i < 10; i++)
        answer(&bed.permit.questions[WATCH_QUEUE_MAX + i], PERMIT_HELD, "");
    run(&bed);
    for (int i = 0; i < WATCH_QUEUE_MAX + 10; i++)
        assert_created(peer, i);
    assert_int_equal(stats_of(&bed).held_bytes, 0);
    bed_close(&bed);
}

static void requests_that_wait_are_bounded_by_their_bytes(void **state)
{
    (void)state;
    BED(bed);
    static uint8_t key[WATCH_QUEUE_BYTES / 8], message[BELFRY_GRPC_PREFIX_BYTES + sizeof(key) + 100];
    Etcdserverpb__WatchCreateRequest create = ETCDSERVERPB__WATCH_CREATE_REQUEST__INIT;
    Etcdserverpb__WatchRequest request = ETCDSERVERPB__WATCH_REQUEST__INIT;
    create.key = (ProtobufCBinaryData){sizeof(key), key};
    request.request_union_case = ETCDSERVERPB__WATCH_REQUEST__REQUEST_UNION_CREATE_REQUEST;
    request.create_request = &create;
    assert_true(etcdserverpb__watch_request__get_packed_size(&request) <= sizeof(message) - BELFRY_GRPC_PREFIX_BYTES);
    size_t len = etcdserverpb__watch_request__pack(&request, message + BELFRY_GRPC_PREFIX_BYTES);
    belfry_grpc_frame_prefix(message, len);
    bed.permit.closed = true;
    struct fakeexchange *peer = begin(&bed);
    for (int i = 0; i <= 8; i++) {
        fakeexchange_send(peer, message, BELFRY_GRPC_PREFIX_BYTES + len);
        run(&bed);
    }
    assert_int_equal(bed.permit.n, 8); /* the eighth makes them as large */
    assert_true(peer->taken < peer->came);
    for (int i = 0; i < 8; i++)
        answer(&bed.permit.questions[i], PERMIT_REFUSED, PERMIT_DENIED);
    run(&bed);
    assert_int_equal(bed.permit.n, 9);
    assert_int_equal(peer->taken, peer->came);
    bed_close(&bed);
}

static void a_right_that_is_lost_before_the_watch_is_made_refuses_it(void **state)
{
    (void)state;
    BED(bed);
    bed.permit.closed = true;
    struct fakeexchange *peer = begin(&bed);
    send_create(peer, "first", "", 0, 0);
    send_create(peer, "second", "", 0, 0);
    answer(&bed.permit.questions[1], PERMIT_HELD, "");
    char lent[] = PERMIT_DENIED;
    answer(&bed.permit.questions[1], PERMIT_REFUSED, lent);
    memset(lent, 'x', sizeof(lent) - 1); /* whoever gave the reason uses its memory again */
    answer(&bed.permit.questions[0], PERMIT_HELD, "");
    run(&bed);
    assert_created(peer, 0);
    assert_refused(peer, PERMIT_DENIED);
    put(&bed, "second", 10);
    run(&bed);
    assert_silent(peer);
    bed_close(&bed);
}

static void creates_that_find_too_many_questions_are_asked_about_later(void **state)
{
    (void)state;
    BED(bed);
    bed.permit.closed = true;
    struct fakeexchange *peer = begin(&bed);
    send_create(peer, "first", "", 0, 0);
    bed.permit.err = BELFRY_ERR_LIMIT;
    send_create(peer, "second", "", 0, 0);
    send_create(peer, "third", "", 0, 0);
    answer(&bed.permit.questions[0], PERMIT_HELD, "");
    run(&bed);
    assert_created(peer, 0);
    bed.now += 2000;
    run(&bed); /* still too many */
    assert_silent(peer);
    bed.permit.err = BELFRY_OK;
    bed.now += 2000;
    run(&bed);
    answer(&bed.permit.questions[1], PERMIT_HELD, "");
    run(&bed);
    assert_created(peer, 1);
    assert_int_equal(bed.permit.n, 3);
    assert_string_equal(bed.permit.questions[2].key, "third");
    bed_close(&bed);
}

static void negative_start_is_refused_without_asking(void **state)
{
    (void)state;
    BED(bed);
    bed.permit.closed = true;
    struct fakeexchange *peer = begin(&bed);
    send_create(peer, "a", "", -1, 0);
    run(&bed);
    assert_int_equal(bed.permit.n, 0);
    assert_refused(peer, "etcdserver: mvcc: required revision has been compacted");
    bed_close(&bed);
}

static void upstream_that_cannot_be_asked_ends_the_stream(void **state)
{
    (void)state;
    BED(bed);
    bed.permit.closed = true;
    struct fakeexchange *peer = begin(&bed), *other = begin(&bed);
    send_create(peer, "a", "", 0, 0);
    send_create(other, "a", "", 0, 0);
    send_create(other, "b", "", 0, 0);
    answer(&bed.permit.questions[0], PERMIT_UNAVAILABLE, "belfry: upstream cannot be reached");
    assert_ended(peer, "14", "belfry: upstream cannot be reached");
    answer(&bed.permit.questions[2], PERMIT_UNAVAILABLE, "etcdserver: no leader"); /* not the first of its stream */
    answer(&bed.permit.questions[1], PERMIT_UNAVAILABLE, "etcdserver: no leader");
    assert_ended(other, "14", "belfry: upstream has no leader"); /* the other text would be final for a Go client */
    assert_int_equal(closed(&bed, WATCH_CLOSE_UPSTREAM), 2);
    bed_close(&bed);
}

static void question_is_dropped_with_its_stream(void **state)
{
    (void)state;
    BED(bed);
    bed.permit.closed = true;
    struct fakeexchange *peer = begin(&bed);
    send_create(peer, "a", "", 0, 0);
    fakeexchange_gone(peer);
    assert_true(bed.permit.questions[0].canceled);
    assert_int_equal(stats_of(&bed).asking, 0);
    assert_int_equal(closed(&bed, WATCH_CLOSE_PEER), 1);
    bed.permit.err = BELFRY_ERR_LIMIT;
    peer = begin(&bed);
    send_create(peer, "a", "", 0, 0);
    assert_ended(peer, "14", "belfry: memory limit reached; try again");
    bed_close(&bed);
}

/* ---- rights that end ---- */

/* Auth is on, and the stream has a watch of `a` (id 0) and one of `b` (id 1). */
static struct fakeexchange *begin_with_rights(struct bed *bed, size_t room)
{
    bed->permit.closed = true;
    bed->permit.regime = PERMIT_ASKS;
    struct fakeexchange *peer = begin_with(bed, room, NULL);
    send_create(peer, "a", "", 0, 0);
    send_create(peer, "b", "", 0, 0);
    answer(&bed->permit.questions[0], PERMIT_HELD, "");
    answer(&bed->permit.questions[1], PERMIT_HELD, "");
    run(bed);
    return peer;
}

static void say_to_party(struct bed *bed, enum permit_event event)
{
    bed->permit.party->fn(bed->permit.party, event, "");
}

static void a_watch_that_loses_its_right_is_cancelled_and_others_go_on(void **state)
{
    (void)state;
    BED(bed);
    char reason[128];
    struct fakeexchange *peer = begin_with_rights(&bed, EXCHANGE_ROOM);
    assert_created(peer, 0);
    assert_created(peer, 1);
    answer(&bed.permit.questions[0], PERMIT_REFUSED, PERMIT_DENIED);
    put(&bed, "a", 10);
    put(&bed, "b", 10);
    run(&bed);
    struct belfry_wire_watch watch = next(peer, reason);
    assert_true(watch.canceled && !watch.created && watch.watch_id == 0);
    assert_string_equal(reason, PERMIT_DENIED);
    assert_events(peer, 1, 1);
    send_cancel(peer, 0); /* known no more */
    send_cancel(peer, 1);
    run(&bed);
    assert_true(next(peer, reason).watch_id == 1);
    assert_silent(peer);
    assert_true(bed.permit.questions[1].canceled);
    assert_int_equal(stats_of(&bed).expelled, 1);
    bed_close(&bed);
    assert_int_equal(bed.permit.n_parties, 0);
}

static void a_right_that_is_lost_inside_a_message_ends_the_stream(void **state)
{
    (void)state;
    BED(bed);
    struct fakeexchange *peer = begin_with_rights(&bed, 300);
    put(&bed, "a", 1000);
    run(&bed);
    assert_int_equal(stats_of(&bed).inside, 1);
    answer(&bed.permit.questions[0], PERMIT_REFUSED, PERMIT_DENIED);
    assert_ended(peer, "14", "belfry: a right was revoked; resume");
    assert_int_equal(closed(&bed, WATCH_CLOSE_RIGHTS), 1);
    bed_close(&bed);
}

static void rights_in_doubt_park_the_stream_at_its_position(void **state)
{
    (void)state;
    BED(bed);
    struct fakeexchange *peer = begin_with_rights(&bed, EXCHANGE_ROOM);
    assert_created(peer, 0);
    assert_created(peer, 1);
    bed.permit.paused = true;
    say_to_party(&bed, PERMIT_PAUSED);
    put(&bed, "a", 10);
    put(&bed, "b", 10);
    fakeexchange_make_room(peer, EXCHANGE_ROOM); /* room alone does not help */
    run(&bed);
    assert_silent(peer);
    bed.permit.paused = false;
    say_to_party(&bed, PERMIT_RESUMED);
    run(&bed);
    assert_events(peer, 0, 1);
    assert_events(peer, 1, 1);
    assert_silent(peer);
    bed_close(&bed);
}

static void a_token_that_is_known_no_more_ends_the_stream_so_that_its_client_logs_in(void **state)
{
    (void)state;
    BED(bed);
    struct fakeexchange *peer = begin_with_rights(&bed, EXCHANGE_ROOM);
    say_to_party(&bed, PERMIT_ENDED);
    assert_ended(peer, "14", "belfry: the token is not valid any more; log in again");
    assert_true(bed.permit.questions[0].canceled && bed.permit.questions[1].canceled);
    bed_close(&bed);
}

static void one_more_watch_waits_for_upstream_and_the_others_run_on(void **state)
{
    (void)state;
    BED(bed);
    struct fakeexchange *peer = begin_with_rights(&bed, EXCHANGE_ROOM);
    assert_created(peer, 0);
    assert_created(peer, 1);
    send_create(peer, "c", "", 0, 0);
    answer(&bed.permit.questions[2], PERMIT_UNAVAILABLE, "belfry: upstream cannot be reached");
    put(&bed, "a", 10);
    run(&bed);
    assert_events(peer, 0, 1);
    assert_silent(peer);
    assert_int_equal(stats_of(&bed).asking, 1);
    bed.now += 2000;
    run(&bed);
    assert_int_equal(bed.permit.n, 4);
    assert_string_equal(bed.permit.questions[3].key, "c");
    answer(&bed.permit.questions[3], PERMIT_HELD, "");
    run(&bed);
    assert_created(peer, 2);
    assert_silent(peer);
    bed_close(&bed);
}

static void watches_that_run_are_asked_about_when_auth_is_turned_on(void **state)
{
    (void)state;
    BED(bed);
    char reason[128];
    struct fakeexchange *peer = begin(&bed);
    send_create(peer, "a", "", 0, 0);
    send_create(peer, "p", "q", 0, -7);
    send_create(peer, "b", "", 0, 0);
    run(&bed);
    assert_created(peer, 0);
    assert_created(peer, -7);
    assert_created(peer, 1);
    bed.permit.closed = true;
    bed.permit.regime = PERMIT_ASKS;
    bed.permit.listener(bed.permit.listener_user);
    run(&bed);
    put(&bed, "a", 10);
    put(&bed, "b", 10);
    run(&bed);
    assert_int_equal(bed.permit.n, 3);
    assert_string_equal(bed.permit.questions[0].key, "p"); /* in the order of their ids */
    assert_string_equal(bed.permit.questions[1].key, "a");
    assert_silent(peer); /* nothing before all are answered */
    answer(&bed.permit.questions[0], PERMIT_HELD, "");
    answer(&bed.permit.questions[0], PERMIT_HELD, ""); /* it counts once */
    answer(&bed.permit.questions[1], PERMIT_REFUSED, PERMIT_DENIED);
    run(&bed);
    assert_silent(peer);
    assert_false(bed.permit.questions[1].canceled); /* it was answered */
    answer(&bed.permit.questions[2], PERMIT_HELD, "");
    run(&bed);
    assert_true(next(peer, reason).canceled);
    assert_string_equal(reason, PERMIT_DENIED);
    assert_events(peer, 1, 1);
    assert_silent(peer);
    bed_close(&bed);
}

static void an_event_that_waits_when_auth_is_found_on_is_not_delivered(void **state)
{
    (void)state;
    BED(bed);
    struct fakeexchange *peer = begin(&bed);
    send_create(peer, "a", "", 0, 0);
    run(&bed);
    assert_created(peer, 0);
    put(&bed, "a", 10);
    bed.permit.closed = true;
    bed.permit.regime = PERMIT_ASKS;
    bed.permit.listener(bed.permit.listener_user);
    assert_true(watch_is_going_round(bed.service));
    run(&bed);
    assert_false(watch_is_going_round(bed.service));
    assert_silent(peer);
    answer(&bed.permit.questions[0], PERMIT_HELD, "");
    run(&bed);
    assert_events(peer, 0, 1);
    bed_close(&bed);
}

static void a_stream_without_a_token_ends_when_auth_is_turned_on(void **state)
{
    (void)state;
    BED(bed);
    struct fakeexchange *peer = begin(&bed), *empty = begin(&bed);
    send_create(peer, "a", "", 0, 0);
    run(&bed);
    bed.permit.closed = true;
    bed.permit.regime = PERMIT_ASKS;
    bed.permit.listener(bed.permit.listener_user);
    run(&bed);
    answer(&bed.permit.questions[0], PERMIT_REFUSED, PERMIT_NO_USER);
    assert_ended(peer, "14", "belfry: the token is not valid any more; log in again");
    assert_silent(empty); /* it has no watch to ask about */
    bed_close(&bed);
}

static void auth_turned_on_and_off_again_leaves_every_watch_running(void **state)
{
    (void)state;
    BED(bed);
    struct fakeexchange *peer = begin(&bed);
    send_create(peer, "a", "", 0, 0);
    run(&bed);
    assert_created(peer, 0);
    bed.permit.regime = PERMIT_ASKS;
    bed.permit.listener(bed.permit.listener_user);
    run(&bed);
    answer(&bed.permit.questions[0], PERMIT_UNAVAILABLE, "belfry: upstream cannot be reached");
    put(&bed, "a", 10);
    run(&bed);
    assert_silent(peer);
    bed.now += 2000;
    run(&bed); /* asked again */
    assert_int_equal(bed.permit.n, 2);
    bed.permit.regime = PERMIT_OPEN;
    bed.permit.listener(bed.permit.listener_user);
    run(&bed);
    assert_events(peer, 0, 1);
    answer(&bed.permit.questions[1], PERMIT_GRANTED, "");
    put(&bed, "a", 10);
    run(&bed);
    assert_events(peer, 0, 1);
    assert_silent(peer);
    bed_close(&bed);
}

static void an_id_that_cannot_be_claimed_is_refused(void **state)
{
    (void)state;
    BED(bed);
    struct fakeexchange *peer = begin(&bed);
    send_create(peer, "a", "", 0, INT64_MIN);
    run(&bed);
    assert_refused(peer, "belfry: this watch id cannot be used");
    assert_int_equal(stats_of(&bed).refused_id, 1);
    bed_close(&bed);
}

static void a_range_outside_of_the_scope_is_refused(void **state)
{
    (void)state;
    struct bed bed;
    assert_int_equal(bed_open_in(&bed, 0, "a/"), BELFRY_OK);
    struct fakeexchange *peer = begin(&bed);
    send_create(peer, "a/b", "", 0, 0);
    send_create(peer, "b", "", 0, 0);
    run(&bed);
    assert_created(peer, 0);
    assert_refused(peer, "belfry: the range is outside of what this tier follows (its scope)");
    assert_true(stats_of(&bed).refused_scope == 1 && stats_of(&bed).refused == 0);
    bed_close(&bed);
}

/* ---- bounds ---- */

static void slow_reader_is_parked_and_resumed(void **state)
{
    (void)state;
    BED(bed);
    struct fakeexchange *peer = begin_with(&bed, 100, NULL), *other = begin(&bed);
    struct worker_stats core;
    send_create(peer, "a", "", 0, 0);
    send_create(other, "a", "", 0, 0);
    run(&bed);
    for (int i = 0; i < 20; i++)
        put(&bed, "a", 1000);
    run(&bed);
    worker_stats(bed.worker, &core);
    assert_int_equal(core.parked, 1);
    assert_int_equal(belfry_buf_len(&peer->body), 100); /* never more than there was room for */
    assert_int_equal(stats_of(&bed).inside, 1);
    for (int i = 0; i < 40; i++) {
        fakeexchange_make_room(peer, 1000);
        run(&bed);
    }
    assert_created(peer, 0);
    for (int i = 0; i < 20; i++)
        assert_events(peer, 0, 1);
    assert_silent(peer);
    assert_int_equal(stats_of(&bed).inside, 0);
    worker_stats(bed.worker, &core);
    assert_int_equal(core.parked, 0);
    bed_close(&bed);
}

static void room_is_asked_for_only_when_little_is_left(void **state)
{
    (void)state;
    BED(bed);
    struct fakeexchange *peer = begin(&bed);
    send_create(peer, "a", "", 0, 0);
    run(&bed);
    size_t asked = peer->asked;
    put(&bed, "a", 100);
    run(&bed);
    assert_int_equal(peer->asked, asked);
    put(&bed, "a", EXCHANGE_ROOM - EXCHANGE_ROOM_LOW);
    run(&bed);
    assert_int_equal(peer->asked, asked + 1);
    bed_close(&bed);
}

static void slow_stream_is_ended_only_over_the_memory_limit(void **state)
{
    (void)state;
    for (int over = 0; over < 2; over++) {
        struct bed bed;
        assert_int_equal(bed_open(&bed, 1 << 20), BELFRY_OK);
        struct fakeexchange *peer = begin_with(&bed, 100, NULL);
        send_create(peer, "a", "", 0, 0);
        run(&bed);
        put(&bed, "a", over ? 2 << 20 : 10 << 10);
        run(&bed);
        assert_int_equal(stats_of(&bed).inside, 1);
        bed.now += WATCH_INSIDE_MS - 1000;
        run(&bed);
        assert_int_equal(peer->state, FAKEEXCHANGE_OPEN);
        bed.now += 2000;
        run(&bed);
        assert_int_equal(peer->state, over ? FAKEEXCHANGE_ENDED : FAKEEXCHANGE_OPEN);
        assert_int_equal(closed(&bed, WATCH_CLOSE_SLOW), over);
        if (over)
            assert_string_equal(fakeexchange_field(peer, "grpc-status"), "14");
        bed_close(&bed);
    }
}

/* A revision of two events that is too large for the log: its rows are asked for one after another. */
static void put_extent(struct bed *bed, const struct belfry_bytes rows[2])
{
    struct batch *extent;
    assert_int_equal(evlog_cut(bed->log, bed->head, EVLOG_CUT_START, 0), BELFRY_OK);
    assert_int_equal(batch_create(++bed->head, BATCH_EXTENT, 0, 0, &extent), BELFRY_OK);
    batch_set_extent(extent, 2, rows[0].len + rows[1].len);
    assert_int_equal(evlog_append(bed->log, extent), BELFRY_OK);
}

static void give_row(struct bed *bed, const struct belfry_bytes rows[2])
{
    struct worker_fetch fetch;
    struct segment_builder builder;
    struct segment *segment;
    struct batch *slice;
    if (!worker_wants_fetch(bed->worker, &fetch))
        return;
    assert_true(fetch.slice && fetch.sub < 2);
    struct belfry_bytes row = rows[fetch.sub], none = {0};
    assert_int_equal(batch_create(bed->head, BATCH_SLICE, 1, batch_stored_bytes(row.len, 0) + 64, &slice), BELFRY_OK);
    struct belfry_wire_event event;
    assert_int_equal(belfry_scan_event(row, &event), BELFRY_OK);
    batch_add_stored(slice, row, none, event.kv.key, false);
    batch_set_slice(slice, fetch.sub, fetch.sub == 0);
    segment_begin(&builder);
    assert_int_equal(segment_add(&builder, slice), BELFRY_OK);
    assert_int_equal(segment_finish(&builder, fetch.past, fetch.from, fetch.from, &segment), BELFRY_OK);
    worker_fetched(bed->worker, &fetch, BELFRY_OK, segment, 0, 0);
}

static void stream_whose_rest_is_gone_is_ended(void **state)
{
    (void)state;
    BED(bed);
    static uint8_t raw[2][1024];
    static const char value[900];
    struct belfry_bytes rows[2];
    for (int i = 0; i < 2; i++) {
        struct belfry_wire_event event = {.kv = {.key = belfry_bytes_str("a"), .mod_rev = 11, .create_rev = 2}};
        event.kv.value = belfry_bytes_of(value, sizeof(value));
        rows[i] = belfry_bytes_of(raw[i], (size_t)(belfry_write_event(&event, raw[i]) - raw[i]));
    }
    struct fakeexchange *peer = begin_with(&bed, 200, NULL);
    send_create(peer, "a", "", 0, 0);
    run(&bed);
    put_extent(&bed, rows);
    for (int i = 0; i < 10; i++) {
        run(&bed);
        give_row(&bed, rows);
    }
    assert_int_equal(belfry_buf_len(&peer->body), 200); /* in the middle of it */
    assert_int_equal(stats_of(&bed).inside, 1);
    assert_int_equal(evlog_cut(bed.log, bed.head + 5, EVLOG_CUT_REWRITTEN, 0), BELFRY_OK);
    turn(&bed);
    bed.now += 1000;
    run(&bed);
    assert_ended(peer, "14", "belfry: the rest of a message is gone; resume");
    assert_int_equal(closed(&bed, WATCH_CLOSE_BROKEN), 1);
    bed_close(&bed);
}

static void creates_over_the_memory_limit_end_the_stream_with_14(void **state)
{
    (void)state;
    struct bed bed;
    assert_int_equal(bed_open(&bed, 1 << 20), BELFRY_OK);
    struct fakeexchange *peer = begin(&bed);
    for (int i = 0; i < 20000 && peer->state == FAKEEXCHANGE_OPEN; i++) {
        char key[32];
        snprintf(key, sizeof(key), "key-%d", i);
        send_create(peer, key, "", 0, 0);
        run(&bed);
        peer->room = EXCHANGE_ROOM;
    }
    assert_ended(peer, "14", "belfry: memory limit reached; try again");
    assert_int_equal(closed(&bed, WATCH_CLOSE_MEMORY), 1);
    run(&bed); /* its watchers are taken down, and there is room again */
    assert_silent(begin(&bed));
    bed_close(&bed);
}

static void requests_that_wait_are_bounded_for_all_streams_together(void **state)
{
    (void)state;
    static char part[60 * 1024];
    struct bed bed;
    struct exchange_conn conn = {0};
    struct fakeshares fake;
    fakeshares_init(&fake, SHARES_REQUESTS, 150 << 10, 100);
    fakeshares_join(&fake, &conn, "a");
    assert_int_equal(bed_open(&bed, 0), BELFRY_OK);
    bed.conn = &conn;
    struct fakeexchange *a = begin(&bed), *b = begin(&bed);
    fakeexchange_send(a, "\0\0\x10\0\0", 5);
    fakeexchange_send(b, "\0\0\x10\0\0", 5);
    fakeexchange_send(a, part, sizeof(part));
    fakeexchange_send(b, part, sizeof(part));
    assert_in_range(stats_of(&bed).held_bytes, 2 * sizeof(part), 150 << 10);
    fakeexchange_send(b, part, sizeof(part));
    assert_ended(b, "14", "belfry: memory limit reached; try again");
    assert_silent(a);
    assert_in_range(stats_of(&bed).held_bytes, sizeof(part), 2 * sizeof(part));
    assert_in_range(stats_of(&bed).held_peak, 2 * sizeof(part), 5 * sizeof(part)); /* stays; what was refused counts */
    bed_close(&bed);
    shares_leave(&conn.share);
    shares_fini(&fake.shares);
}

static void half_a_request_ends_after_ten_seconds_and_a_stream_between_requests_waits(void **state)
{
    (void)state;
    BED(bed);
    struct fakeexchange *half = begin(&bed), *idle = begin(&bed), *slow = begin(&bed), *served = begin(&bed);
    static char window[EXCHANGE_WINDOW];
    send_create(served, "a", "", 0, 0);
    fakeexchange_send(half, "\0\0\0\0\x10", 5);
    fakeexchange_send(slow, "\0\0\x10\0\0", 5); /* 1 MiB, a window of it in each step */
    run(&bed);
    assert_int_equal(watch_due(bed.service), NOW + PACE_MS);
    assert_created(served, 0);
    for (int i = 0; i < 9; i++) {
        bed.now += 1000;
        fakeexchange_send(half, "x", 1); /* that it is alive is not enough */
        run(&bed);
    }
    fakeexchange_send(slow, window, sizeof(window));
    assert_silent(half);
    bed.now += 1000;
    run(&bed);
    assert_ended(half, "14", "belfry: the request was not complete in time");
    assert_int_equal(closed(&bed, WATCH_CLOSE_LATE), 1);
    assert_silent(slow);
    bed.now += PACE_MS;
    run(&bed);
    assert_ended(slow, "14", "belfry: the request was not complete in time");
    bed.now += 100 * PACE_MS;
    run(&bed);
    assert_silent(idle);
    assert_silent(served);
    bed_close(&bed);
}

static void a_request_that_waits_for_rights_is_not_late(void **state)
{
    (void)state;
    BED(bed);
    bed.permit.closed = true;
    struct fakeexchange *peer = begin(&bed);
    send_create(peer, "a", "", 0, 0);
    bed.permit.err = BELFRY_ERR_LIMIT;
    send_create(peer, "b", "", 0, 0);
    fakeexchange_send(peer, "\0\0\0\0\x10", 5); /* unread: the one before it could not be asked about */
    bed.now += 2 * PACE_MS;
    run(&bed);
    assert_silent(peer);
    bed.permit.err = BELFRY_OK;
    bed.now += 2000;
    run(&bed);
    answer(&bed.permit.questions[0], PERMIT_HELD, "");
    answer(&bed.permit.questions[1], PERMIT_HELD, "");
    run(&bed);
    assert_created(peer, 0);
    assert_created(peer, 1);
    assert_int_equal(closed(&bed, WATCH_CLOSE_LATE), 0);
    bed.now += PACE_MS;
    run(&bed);
    assert_int_equal(closed(&bed, WATCH_CLOSE_LATE), 1);
    bed_close(&bed);
}

/* As watchhold of old did: half a request on each of many streams. */
static void over_the_bound_the_connection_with_most_half_requests_is_ended(void **state)
{
    (void)state;
    static char part[60 * 1024];
    struct bed bed;
    struct exchange_conn hostile = {0}, healthy = {0};
    struct fakeshares fake;
    fakeshares_init(&fake, SHARES_REQUESTS, 400 << 10, 100);
    fakeshares_join(&fake, &hostile, "a");
    fakeshares_join(&fake, &healthy, "a"); /* even if it is of the same address */
    assert_int_equal(bed_open(&bed, 0), BELFRY_OK);
    struct fakeexchange *half[6];
    bed.conn = &hostile;
    for (size_t i = 0; i < 6; i++) {
        half[i] = begin(&bed);
        fakeexchange_send(half[i], "\0\0\x10\0\0", 5);
        fakeexchange_send(half[i], part, sizeof(part));
    }
    assert_null(fake.ended);
    bed.conn = &healthy;
    struct fakeexchange *peer = begin(&bed);
    fakeexchange_send(peer, "\0\0\1\0\0", 5); /* 64 KiB, of which most is here: it needs room, and gets it */
    fakeexchange_send(peer, part, sizeof(part));
    assert_ptr_equal(fake.ended, &hostile.share);
    assert_silent(peer);
    for (size_t i = 0; i < 6; i++)
        fakeexchange_gone(half[i]);
    assert_int_equal(fake.shares.pools[SHARES_REQUESTS].leaving, 0);
    bed_close(&bed);
    shares_leave(&hostile.share);
    shares_leave(&healthy.share);
    shares_fini(&fake.shares);
}

static void a_watcher_beyond_the_share_of_its_client_is_canceled_with_the_reason(void **state)
{
    (void)state;
    struct bed bed;
    struct exchange_conn greedy = {0}, other = {0};
    struct fakeshares fake;
    fakeshares_init(&fake, SHARES_WATCHERS, 4, 50);
    fakeshares_join(&fake, &greedy, "10.0.0.1");
    fakeshares_join(&fake, &other, "10.0.0.2");
    assert_int_equal(bed_open(&bed, 0), BELFRY_OK);
    bed.conn = &greedy;
    struct fakeexchange *peer = begin(&bed);
    for (int i = 0; i < 3; i++)
        send_create(peer, "a", "", 0, 0);
    run(&bed);
    assert_created(peer, 0);
    assert_created(peer, 1);
    assert_refused(peer, "belfry: this client has as many watchers as it may; see --client-share");
    assert_true(stats_of(&bed).refused_share == 1 && stats_of(&bed).refused == 0);
    assert_int_equal(greedy.share.held[SHARES_WATCHERS], 2);
    bed.conn = &other;
    struct fakeexchange *healthy = begin(&bed);
    send_create(healthy, "a", "", 0, 0);
    run(&bed);
    assert_created(healthy, 0);
    send_cancel(peer, 0);
    run(&bed);
    assert_int_equal(greedy.share.held[SHARES_WATCHERS], 1);
    bed_close(&bed);
    assert_int_equal(fake.shares.pools[SHARES_WATCHERS].used, 0);
    shares_leave(&greedy.share);
    shares_leave(&other.share);
    shares_fini(&fake.shares);
}

static void watches_that_hold_more_than_the_share_of_their_client_are_canceled_with_the_reason(void **state)
{
    (void)state;
    struct bed bed;
    struct exchange_conn greedy = {0}, other = {0};
    struct fakeshares fake;
    static char key[900];
    memset(key, 'k', sizeof(key) - 1);
    fakeshares_init(&fake, SHARES_WATCH_BYTES, 10000, 50);
    fakeshares_join(&fake, &greedy, "10.0.0.1");
    fakeshares_join(&fake, &other, "10.0.0.2");
    assert_int_equal(bed_open(&bed, 0), BELFRY_OK);
    bed.conn = &greedy;
    struct fakeexchange *peer = begin(&bed);
    size_t idle = greedy.share.held[SHARES_WATCH_BYTES];
    assert_true(idle > 500);
    for (int i = 0; i < 4; i++)
        send_create(peer, key, "", 0, 0); /* the same range: each counts for it */
    run(&bed);
    for (int i = 0; i < 3; i++)
        assert_created(peer, i);
    assert_refused(peer, "belfry: the watches of this client hold as much memory as they may; see --client-share");
    size_t full = greedy.share.held[SHARES_WATCH_BYTES];
    assert_in_range(full, 3900, 5000);
    bed.conn = &other;
    struct fakeexchange *healthy = begin(&bed);
    send_create(healthy, "a", "", 0, 0);
    run(&bed);
    assert_created(healthy, 0);
    assert_in_range(other.share.held[SHARES_WATCH_BYTES], idle + 1, idle + 500);
    send_cancel(peer, 0);
    run(&bed);
    assert_in_range(full - greedy.share.held[SHARES_WATCH_BYTES], 900, 1300);
    send_create(peer, key, "", 0, 0);
    run(&bed);
    assert_int_equal(greedy.share.held[SHARES_WATCH_BYTES], full);
    fakeexchange_gone(peer);
    assert_int_equal(greedy.share.held[SHARES_WATCH_BYTES], 0);
    bed_close(&bed);
    assert_int_equal(fake.shares.pools[SHARES_WATCH_BYTES].used, 0);
    shares_leave(&greedy.share);
    shares_leave(&other.share);
    shares_fini(&fake.shares);
}

static void a_stream_beyond_the_share_of_its_client_is_refused(void **state)
{
    (void)state;
    struct bed bed;
    struct exchange_conn greedy = {0};
    struct fakeshares fake;
    fakeshares_init(&fake, SHARES_WATCH_BYTES, 6000, 50);
    fakeshares_join(&fake, &greedy, "10.0.0.1");
    assert_int_equal(bed_open(&bed, 0), BELFRY_OK);
    bed.conn = &greedy;
    struct fakeexchange *peer = NULL;
    for (int i = 0; i < 4; i++)
        peer = begin(&bed);
    assert_string_equal(fakeexchange_field(peer, "grpc-status"), "14");
    assert_non_null(strstr(fakeexchange_field(peer, "grpc-message"), "hold as much memory as they may"));
    assert_int_equal(stats_of(&bed).closed[WATCH_CLOSE_MEMORY], fake.shares.pools[SHARES_WATCH_BYTES].refused);
    bed_close(&bed);
    shares_leave(&greedy.share);
    shares_fini(&fake.shares);
}

static void no_more_requests_are_read_than_there_are_answers_to_wait(void **state)
{
    (void)state;
    BED(bed);
    struct fakeexchange *peer = begin_with(&bed, 0, NULL);
    for (int i = 0; i < 3000; i++)
        send_create(peer, "a", "", 0, 0);
    run(&bed);
    assert_int_equal(stats_of(&bed).creates, STREAM_ANSWERS_MAX);
    assert_true(peer->taken < peer->came);
    for (int i = 0; i < 100; i++) {
        fakeexchange_make_room(peer, EXCHANGE_ROOM);
        run(&bed);
    }
    assert_int_equal(stats_of(&bed).creates, 3000);
    for (int i = 0; i < 3000; i++)
        assert_created(peer, i);
    assert_int_equal(peer->taken, peer->came);
    assert_int_equal(stats_of(&bed).held_bytes, 0);
    bed_close(&bed);
}

static void streams_of_one_connection_share_its_turns(void **state)
{
    (void)state;
    BED(bed);
    static uint8_t many[EXCHANGE_WINDOW];
    size_t n = sizeof(many) / 12;
    for (size_t i = 0; i < n; i++)
        memcpy(many + 12 * i,
               "\0\0\0\0\x07\x0a\x05\x0a\x03"
               "foo",
               12);
    struct fakeexchange *all[6], *other = begin(&bed);
    for (size_t i = 0; i < 6; i++) {
        all[i] = begin(&bed);
        all[i]->conn.id = 1;
        fakeexchange_send(all[i], many, n * 12);
    }
    other->conn.id = 2;
    send_create(other, "other", "", 0, 0);
    turn(&bed); /* one of the six, then this */
    turn(&bed); /* its answer is written */
    assert_created(other, 0);
    assert_int_equal(all[5]->taken, 0); /* there is much to do for the others yet */
    run(&bed);
    bed_close(&bed);
}

static void requests_are_handled_a_quantum_at_a_time(void **state)
{
    (void)state;
    BED(bed);
    static uint8_t many[EXCHANGE_WINDOW];
    size_t n = sizeof(many) / 12;
    for (size_t i = 0; i < n; i++)
        memcpy(many + 12 * i,
               "\0\0\0\0\x07\x0a\x05\x0a\x03"
               "foo",
               12);
    struct fakeexchange *a = begin(&bed), *b = begin(&bed);
    fakeexchange_send(a, many, n * 12);
    assert_int_equal(stats_of(&bed).creates, WATCH_QUANTUM);
    fakeexchange_send(b, many, 12);
    assert_int_equal(stats_of(&bed).creates, WATCH_QUANTUM + 1); /* one does not hold up another */
    assert_int_equal(watch_due(bed.service), 0);
    turn(&bed);
    assert_int_equal(stats_of(&bed).creates, WATCH_QUANTUM + 1 + WATCH_TURN_REQUESTS);
    for (int i = 0; i < 100; i++) {
        fakeexchange_make_room(a, EXCHANGE_ROOM);
        run(&bed);
    }
    assert_int_equal(stats_of(&bed).creates, n + 1);
    assert_int_equal(a->taken, a->came);
    bed_close(&bed);
}

/* ---- numbers ---- */

static void streams_are_walked_in_the_order_of_opening(void **state)
{
    (void)state;
    BED(bed);
    struct watch_view view;
    uint64_t number = 0;
    struct fakeexchange *a = begin(&bed), *b = begin(&bed), *c = begin(&bed);
    send_create(a, "a", "", 0, 0);
    run(&bed);
    assert_true(watch_next(bed.service, 0, &number, &view));
    assert_ptr_equal(view.conn, &a->conn);
    assert_int_equal(view.who->kind, IDENTITY_NONE);
    assert_string_equal(view.client, "grpc-go/1.81.1");
    assert_int_equal(view.opened_ms, NOW);
    assert_int_equal(view.sent_bytes, belfry_buf_len(&a->body));
    assert_true(view.sent_bytes > 0);
    fakeexchange_gone(b);
    assert_true(watch_next(bed.service, number, &number, &view));
    assert_ptr_equal(view.conn, &c->conn);
    assert_false(watch_next(bed.service, number, &number, &view));
    bed_close(&bed);
}

static void long_user_agent_is_cut(void **state)
{
    (void)state;
    BED(bed);
    struct watch_view view;
    uint64_t number;
    char agent[200] = "user-agent: ";
    memset(agent + 12, 'x', sizeof(agent) - 13);
    agent[sizeof(agent) - 1] = '\0';
    const char *const fields[] = {"content-type: application/grpc", agent, NULL};
    struct fakeexchange_head head;
    fakeexchange_init(&bed.peers[0], EXCHANGE_ROOM);
    bed.n_peers = 1;
    fakeexchange_head(&head, "POST", PATH, fields);
    watch_begin(bed.service, &bed.peers[0].x, &head.head, bed.now);
    assert_true(watch_next(bed.service, 0, &number, &view));
    assert_int_equal(strlen(view.client), 63);
    bed_close(&bed);
}

static void every_close_has_a_name(void **state)
{
    (void)state;
    for (int i = 0; i < WATCH_CLOSES; i++) {
        for (int k = 0; k < i; k++)
            assert_string_not_equal(watch_close_name((enum watch_close)i), watch_close_name((enum watch_close)k));
    }
}

/* ---- memory ---- */

static enum belfry_err scenario(void)
{
    static const char *const fields[] = {"token: abc", "grpc-timeout: 9S", NULL};
    static struct bed bed;
    enum belfry_err err = bed_open(&bed, 0);
    if (err == BELFRY_OK) {
        struct fakeexchange *peer = begin_with(&bed, EXCHANGE_ROOM, fields);
        send_create(peer, "a", "b", 0, 0);
        fakeexchange_send(peer, "\0\0\0\0\x07\x0a\x05\x0a\x03", 9);
        fakeexchange_send(peer, "foo", 3);
        bed.permit.closed = true;
        send_create(peer, "c", "", 0, 0);
        send_create(peer, "d", "", 0, 0);
        turn(&bed);
        if (bed.permit.n > 0 && !bed.permit.questions[0].canceled)
            answer(&bed.permit.questions[0], PERMIT_REFUSED, "no");
        for (int i = 0; i < 5; i++)
            turn(&bed);
        bool whole = peer->state == FAKEEXCHANGE_OPEN && !peer->lost;
        err = whole ? BELFRY_OK : BELFRY_ERR_NOMEM;
        if (peer->lost)
            fakeexchange_gone(peer);
    }
    bed_close(&bed);
    return err;
}

static void every_refused_allocation_is_survived(void **state)
{
    (void)state;
    assert_true(refuse_sweep(scenario) > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(watcher_is_created_and_given_events),
        cmocka_unit_test(subtype_of_the_request_comes_back),
        cmocka_unit_test(refusals_have_etcds_texts_and_the_stream_goes_on),
        cmocka_unit_test(cancel_is_acknowledged_once),
        cmocka_unit_test(progress_is_answered_for_all),
        cmocka_unit_test(filters_and_unknown_fields_are_understood),
        cmocka_unit_test(empty_request_is_ignored_and_an_empty_create_watches_the_zero_key),
        cmocka_unit_test(half_closed_stream_is_still_given_events),
        cmocka_unit_test(half_close_inside_a_message_ends_it),
        cmocka_unit_test(requests_cut_into_single_bytes_are_read_the_same),
        cmocka_unit_test(request_that_cannot_be_read_ends_the_stream),
        cmocka_unit_test(message_over_two_mebibytes_ends_the_stream),
        cmocka_unit_test(message_of_two_mebibytes_is_put_together),
        cmocka_unit_test(flags_and_encodings_are_judged),
        cmocka_unit_test(gzipped_requests_are_read_up_to_the_limit),
        cmocka_unit_test(unpacking_counts_against_the_turn),
        cmocka_unit_test(stream_is_refused_while_not_ready),
        cmocka_unit_test(stale_ends_those_who_asked_for_a_leader),
        cmocka_unit_test(deadline_ends_the_stream),
        cmocka_unit_test(malformed_timeout_is_answered_with_400),
        cmocka_unit_test(streams_of_tiers_below_are_known_by_name_and_position),
        cmocka_unit_test(a_new_term_is_told_to_tiers_alone),
        cmocka_unit_test(tiers_below_are_listed_and_looked_at_up_to_a_bound),
        cmocka_unit_test(drain_ends_everybody_within_the_period),
        cmocka_unit_test(drain_leaves_connections_alone_that_were_not_told_to_leave),
        cmocka_unit_test(second_drain_can_be_shorter),
        cmocka_unit_test(nobody_ends_too_many_streams_in_one_turn),
        cmocka_unit_test(requests_wait_in_order_while_rights_are_asked_about),
        cmocka_unit_test(creates_that_are_asked_about_together_are_bounded),
        cmocka_unit_test(requests_that_wait_are_bounded_by_their_bytes),
        cmocka_unit_test(a_right_that_is_lost_before_the_watch_is_made_refuses_it),
        cmocka_unit_test(creates_that_find_too_many_questions_are_asked_about_later),
        cmocka_unit_test(a_watch_that_loses_its_right_is_cancelled_and_others_go_on),
        cmocka_unit_test(a_right_that_is_lost_inside_a_message_ends_the_stream),
        cmocka_unit_test(rights_in_doubt_park_the_stream_at_its_position),
        cmocka_unit_test(a_token_that_is_known_no_more_ends_the_stream_so_that_its_client_logs_in),
        cmocka_unit_test(one_more_watch_waits_for_upstream_and_the_others_run_on),
        cmocka_unit_test(watches_that_run_are_asked_about_when_auth_is_turned_on),
        cmocka_unit_test(an_event_that_waits_when_auth_is_found_on_is_not_delivered),
        cmocka_unit_test(a_stream_without_a_token_ends_when_auth_is_turned_on),
        cmocka_unit_test(auth_turned_on_and_off_again_leaves_every_watch_running),
        cmocka_unit_test(an_id_that_cannot_be_claimed_is_refused),
        cmocka_unit_test(a_range_outside_of_the_scope_is_refused),
        cmocka_unit_test(negative_start_is_refused_without_asking),
        cmocka_unit_test(upstream_that_cannot_be_asked_ends_the_stream),
        cmocka_unit_test(question_is_dropped_with_its_stream),
        cmocka_unit_test(slow_reader_is_parked_and_resumed),
        cmocka_unit_test(room_is_asked_for_only_when_little_is_left),
        cmocka_unit_test(slow_stream_is_ended_only_over_the_memory_limit),
        cmocka_unit_test(stream_whose_rest_is_gone_is_ended),
        cmocka_unit_test(creates_over_the_memory_limit_end_the_stream_with_14),
        cmocka_unit_test(requests_that_wait_are_bounded_for_all_streams_together),
        cmocka_unit_test(half_a_request_ends_after_ten_seconds_and_a_stream_between_requests_waits),
        cmocka_unit_test(a_request_that_waits_for_rights_is_not_late),
        cmocka_unit_test(over_the_bound_the_connection_with_most_half_requests_is_ended),
        cmocka_unit_test(a_watcher_beyond_the_share_of_its_client_is_canceled_with_the_reason),
        cmocka_unit_test(watches_that_hold_more_than_the_share_of_their_client_are_canceled_with_the_reason),
        cmocka_unit_test(a_stream_beyond_the_share_of_its_client_is_refused),
        cmocka_unit_test(no_more_requests_are_read_than_there_are_answers_to_wait),
        cmocka_unit_test(requests_are_handled_a_quantum_at_a_time),
        cmocka_unit_test(streams_of_one_connection_share_its_turns),
        cmocka_unit_test(streams_are_walked_in_the_order_of_opening),
        cmocka_unit_test(long_user_agent_is_cut),
        cmocka_unit_test(every_close_has_a_name),
        cmocka_unit_test(every_refused_allocation_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
