/* src/serve/relay/relay_test.c: between support/fakeexchange, whose peer is the test, and support/fakeupstream. */
#include "serve/relay/relay.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

#include <cmocka.h>

#include "net/tls_test_keys.h"
#include "serve/relay/relay_turns.h"
#include "support/fakeexchange.h"
#include "support/fakeshares.h"
#include "support/uplinkbed.h"
#include "wire/rpc.pb-c.h"
#include "wire/write.h"

#define RANGE     "/etcdserverpb.KV/Range"
#define PUT       "/etcdserverpb.KV/Put"
#define MEMBERS   "/etcdserverpb.Cluster/MemberList"
#define KEEPALIVE "/etcdserverpb.Lease/LeaseKeepAlive"
#define MUCH      (3u * 1024 * 1024)

static struct test_keys keys;
static struct belfry_tls *tls; /* of the bed; NULL: plain */
static struct relay *relay;
static struct permit *permit;
static struct fakeexchange fake;

static int make_keys(void **state)
{
    (void)state;
    keys_make(&keys);
    return 0;
}

static int remove_keys(void **state)
{
    (void)state;
    keys_remove(&keys);
    return 0;
}

static enum belfry_err open_relay(const struct relay_opts *opts)
{
    enum belfry_err err =
        permit_create(&(struct permit_opts){.uplink = bed.uplink, .loop = belfry_loop_uv(bed.loop)}, &permit);
    struct relay_opts with = opts != NULL ? *opts : (struct relay_opts){0};
    with.uplink = bed.uplink;
    with.permit = permit;
    return err == BELFRY_OK ? relay_create(&with, &relay) : err;
}

/* What all calls of the test may hold together, on connections of one client. */
static struct fakeshares held;

static void hold_at_most(size_t bytes)
{
    fakeshares_init(&held, SHARES_CALL_BYTES, bytes, 100);
}

static void join(struct fakeexchange *peer)
{
    fakeshares_join(&held, &peer->conn, "a");
}

static void make_relay(const struct relay_opts *opts, const struct upstream_opts *upstream)
{
    make(upstream, 1);
    assert_int_equal(open_relay(opts), BELFRY_OK);
    fakeexchange_init(&fake, EXCHANGE_ROOM);
}

/* The tier gets a certificate with a common name. */
static enum belfry_err make_tls(void)
{
    char why[256];
    struct belfry_tls_opts opts = {.cacert = keys.ca, .cert = keys.client, .key = keys.client_key};
    enum belfry_err err = belfry_tls_create(&opts, &tls, why, sizeof(why));
    bed.tls = tls;
    return err;
}

static void make_named_relay(struct upstream_opts upstream)
{
    assert_int_equal(make_tls(), BELFRY_OK);
    upstream.cert = keys.server;
    upstream.key = keys.server_key;
    make_relay(NULL, &upstream);
}

static void close_relay(void)
{
    relay_destroy(relay);
    permit_destroy(permit);
    relay = NULL;
    permit = NULL;
    close_bed();
    belfry_tls_destroy(tls);
    tls = NULL;
    fakeexchange_fini(&fake);
}

static int teardown(void **state)
{
    (void)state;
    close_relay();
    return refuse_held() == 0 ? 0 : -1;
}

static void begin_with(const char *path, const char *const *fields, enum relay_rights rights)
{
    struct fakeexchange_head head;
    fakeexchange_head(&head, "POST", path, fields);
    relay_begin(relay, &fake.x, &head.head, rights);
}

static void begin(const char *path)
{
    begin_with(path, (const char *const[]){"content-type: application/grpc", "te: trailers", NULL}, RELAY_ALL);
}

/* With an empty message, for upstream hears of a call with the first of its body. */
static void ask(const char *path)
{
    begin(path);
    fakeexchange_send_message(&fake, "", 0);
}

/* Until upstream has its n-th request, from 1. */
static void reach(size_t n)
{
    drive_until(upstream_count(bed.members[0]) == n);
}

static const char *const plain_head[] = {":status", "200", "content-type", "application/grpc", NULL};
static const char *const ok_trailers[] = {"grpc-status", "0", "grpc-message", "", NULL};

static struct relay_stats counted(void)
{
    struct relay_stats out;
    relay_stats(relay, &out);
    return out;
}

static void ended_with(const char *code, const char *message)
{
    assert_int_equal(fake.state, FAKEEXCHANGE_ENDED);
    assert_string_equal(fakeexchange_field(&fake, "grpc-status"), code);
    if (message != NULL)
        assert_string_equal(fakeexchange_field(&fake, "grpc-message"), message);
    assert_int_equal(counted().running, 0);
}

/* ---- as it came ---- */

static void what_is_relayed_says_through_whom(void **state)
{
    (void)state;
    bed.via = "edge-7";
    make_relay(NULL, NULL);
    begin_with(RANGE, (const char *const[]){"content-type: application/grpc", "belfry-via: leaf, b", "x: y", NULL},
               RELAY_ALL);
    fakeexchange_half_close(&fake);
    drive_until(upstream_count(bed.members[0]) == 1);
    assert_non_null(
        strstr(upstream_request(bed.members[0], 0)->fields, "belfry-via: leaf, b\nx: y\nbelfry-via: edge-7\n"));
    fakeexchange_gone(&fake);
}

static void a_request_goes_up_and_its_response_comes_down_as_they_are(void **state)
{
    (void)state;
    make_relay(NULL, NULL);
    begin_with(RANGE,
               (const char *const[]){"content-type: application/grpc+proto", "te: trailers",
                                     "user-agent: grpc-go/1.81.1", "grpc-timeout: 4985928u", "grpc-encoding: gzip",
                                     "token: a.1", "token: b.2", "authorization: c", "hasleader: true",
                                     "client-api-version: 3.5", "trace-bin: AAE", "connection: close",
                                     "origin: https://app.example", "sec-fetch-site: same-origin", "host: elsewhere",
                                     "upgrade: h2c", "keep-alive: 1", NULL},
               RELAY_ALL);
    fakeexchange_send(&fake, "\0\0\0\0\2ab", 7);
    fakeexchange_half_close(&fake);
    drive_until(upstream_count(bed.members[0]) == 1 && upstream_request(bed.members[0], 0)->ended);
    const struct upstream_request *request = upstream_request(bed.members[0], 0);
    char expected[600];
    snprintf(expected, sizeof(expected),
             ":method: POST\n:scheme: http\n:path: " RANGE "\n:authority: %s\ncontent-type: application/grpc+proto\n"
             "te: trailers\nuser-agent: grpc-go/1.81.1\ngrpc-timeout: 4985928u\ngrpc-encoding: gzip\ntoken: a.1\n"
             "token: b.2\nauthorization: c\nhasleader: true\nclient-api-version: 3.5\ntrace-bin: AAE\n",
             upstream_url(bed.members[0]) + strlen("http://"));
    assert_string_equal(request->fields, expected);
    assert_int_equal(request->body_len, 7);
    assert_memory_equal(request->body, "\0\0\0\0\2ab", 7);
    assert_int_equal(fake.taken, 7);

    upstream_head(bed.members[0], 0,
                  (const char *const[]){":status", "200", "content-type", "application/grpc+proto", "trailer",
                                        "Grpc-Status", "access-control-allow-origin", "*", NULL},
                  false);
    upstream_data(bed.members[0], 0, "\1\0\0\0\1z", 6);
    upstream_trailers(bed.members[0], 0,
                      (const char *const[]){"grpc-status", "0", "grpc-message", "%E2%82%AC", "x", "1", "x", "2", NULL});
    drive_until(fake.state == FAKEEXCHANGE_ENDED);
    assert_int_equal(fake.status, 200);
    assert_false(fake.whole);
    assert_string_equal(fake.fields, "content-type: application/grpc+proto\ntrailer: Grpc-Status\n"
                                     "access-control-allow-origin: *\ngrpc-status: 0\ngrpc-message: %E2%82%AC\nx: 1\n"
                                     "x: 2\n");
    assert_int_equal(belfry_buf_len(&fake.body), 6);
    assert_memory_equal(belfry_buf_bytes(&fake.body).data, "\1\0\0\0\1z", 6);
    assert_int_equal(counted().bytes_up, 7);
    assert_int_equal(counted().bytes_down, 6);
    assert_int_equal(counted().running, 0);
}

static void trailers_only_stays_trailers_only(void **state)
{
    (void)state;
    make_relay(NULL, NULL);
    ask(RANGE);
    reach(1);
    upstream_head(bed.members[0], 0,
                  (const char *const[]){":status", "200", "content-type", "application/grpc", "grpc-status", "11",
                                        "grpc-message", "etcdserver: mvcc: required revision has been compacted", NULL},
                  true);
    drive_until(fake.state == FAKEEXCHANGE_ENDED);
    assert_true(fake.whole);
    ended_with("11", "etcdserver: mvcc: required revision has been compacted");
    drive_until(upstream_request(bed.members[0], 0)->closed); /* although the request never ended */
    assert_int_equal(upstream_request(bed.members[0], 0)->code, 0);
}

static void what_is_not_grpc_passes_too(void **state)
{
    (void)state;
    make_relay(NULL, NULL);
    ask(RANGE);
    reach(1);
    upstream_head(bed.members[0], 0, (const char *const[]){":status", "404", "content-type", "text/plain", NULL},
                  false);
    upstream_data(bed.members[0], 0, "not here", 8);
    upstream_trailers(bed.members[0], 0, NULL);
    drive_until(fake.state == FAKEEXCHANGE_ENDED);
    assert_int_equal(fake.status, 404);
    assert_string_equal(fake.fields, "content-type: text/plain\n");
    assert_int_equal(belfry_buf_len(&fake.body), 8);
}

static void both_directions_stay_open_until_each_side_ends_its_own(void **state)
{
    (void)state;
    make_relay(NULL, NULL);
    begin(KEEPALIVE);
    for (size_t i = 1; i <= 3; i++) {
        fakeexchange_send(&fake, "ping", 4);
        reach(1);
        drive_until(upstream_request(bed.members[0], 0)->body_len == 4 * i);
        if (i == 1)
            upstream_head(bed.members[0], 0, plain_head, false);
        upstream_data(bed.members[0], 0, "pong!", 5);
        drive_until(belfry_buf_len(&fake.body) == 5 * i);
    }
    assert_false(upstream_request(bed.members[0], 0)->ended);
    fakeexchange_half_close(&fake);
    drive_until(upstream_request(bed.members[0], 0)->ended);
    upstream_trailers(bed.members[0], 0, ok_trailers);
    drive_until(fake.state == FAKEEXCHANGE_ENDED);
    ended_with("0", "");
}

/* ---- pace ---- */

static void a_reader_that_stands_still_holds_one_window_and_gets_every_byte_later(void **state)
{
    (void)state;
    make_relay(NULL, NULL);
    ask("/etcdserverpb.Maintenance/Snapshot");
    reach(1);
    uint8_t *much = test_malloc(MUCH);
    for (size_t i = 0; i < MUCH; i++)
        much[i] = (uint8_t)(i * 131 >> 5);
    fake.room = 1000;
    upstream_head(bed.members[0], 0, plain_head, false);
    upstream_data(bed.members[0], 0, much, MUCH);
    upstream_trailers(bed.members[0], 0, ok_trailers);
    drive_until(upstream_unsent(bed.members[0], 0) <= MUCH - UPLINK_WINDOW);
    drive_for(100);
    assert_int_equal(belfry_buf_len(&fake.body), 1000);
    assert_in_range(upstream_unsent(bed.members[0], 0), MUCH - UPLINK_WINDOW - 1000, MUCH - UPLINK_WINDOW);
    uint64_t end = belfry_clock_ms() + SOON_MS;
    while (fake.state == FAKEEXCHANGE_OPEN && belfry_clock_ms() < end) {
        fakeexchange_make_room(&fake, 50000);
        turn();
    }
    ended_with("0", "");
    assert_int_equal(belfry_buf_len(&fake.body), MUCH);
    assert_memory_equal(belfry_buf_bytes(&fake.body).data, much, MUCH);
    test_free(much);
}

static void an_upstream_that_takes_nothing_holds_the_clients_window(void **state)
{
    (void)state;
    make_relay(NULL, &(struct upstream_opts){.hold = true});
    begin(PUT);
    static uint8_t part[EXCHANGE_WINDOW];
    fakeexchange_send(&fake, part, sizeof(part));
    drive_until(fake.taken > 0);
    while (fake.came - fake.taken < EXCHANGE_WINDOW)
        fakeexchange_send(&fake, part, EXCHANGE_WINDOW - (fake.came - fake.taken));
    drive_for(50);
    /* upstream's window is 65,535: what was taken went there, and the rest is untaken and bounded */
    assert_int_equal(fake.taken, 65535);
    assert_int_equal(fake.came - fake.taken, EXCHANGE_WINDOW);
    assert_int_equal(upstream_request(bed.members[0], 0)->body_len, 65535);
}

/* ---- memory ---- */

static const char *const over_memory = "belfry: memory limit reached; try again";

static void begin_on(struct fakeexchange *peer, const char *path)
{
    struct fakeexchange_head head;
    fakeexchange_head(&head, "POST", path, (const char *const[]){"content-type: application/grpc", NULL});
    relay_begin(relay, &peer->x, &head.head, RELAY_ALL);
    fakeexchange_send_message(peer, "", 0);
}

static void answer_much(size_t i, size_t len)
{
    uint8_t *much = test_calloc(1, len);
    upstream_head(bed.members[0], i, plain_head, false);
    upstream_data(bed.members[0], i, much, len);
    test_free(much);
}

static void over_the_bound_the_call_whose_client_took_nothing_for_longest_is_ended(void **state)
{
    (void)state;
    enum { KIB = 1024 };
    struct fakeexchange peers[3];
    make_relay(NULL, NULL);
    hold_at_most(700 * KIB);
    for (size_t i = 0; i < 3; i++) {
        fakeexchange_init(&peers[i], 0);
        join(&peers[i]);
        begin_on(&peers[i], RANGE);
        reach(i + 1);
        if (i < 2) {
            answer_much(i, 200 * KIB);
            drive_until(counted().held_bytes > (i + 1) * 200 * KIB);
        }
    }
    fakeexchange_make_room(&peers[0], 10); /* so that the second has waited longest */
    answer_much(2, 240 * KIB);
    drive_until(counted().over_memory == 1);
    drive_for(50);
    assert_int_equal(counted().over_memory, 1);
    assert_int_equal(peers[1].state, FAKEEXCHANGE_ENDED);
    assert_string_equal(fakeexchange_field(&peers[1], "grpc-status"), "14");
    assert_string_equal(fakeexchange_field(&peers[1], "grpc-message"), over_memory);
    assert_int_equal(peers[0].state, FAKEEXCHANGE_OPEN);
    assert_in_range(counted().held_bytes, 400 * KIB, 1000 * KIB);
    fakeexchange_make_room(&peers[2], 1000 * KIB);
    assert_int_equal(belfry_buf_len(&peers[2].body), 240 * KIB);
    fakeexchange_gone(&peers[0]);
    fakeexchange_gone(&peers[2]);
    assert_int_equal(counted().held_bytes, 0);
    assert_in_range(counted().held_peak, 400 * KIB, 1000 * KIB); /* stays */
    for (size_t i = 0; i < 3; i++) {
        shares_leave(&peers[i].conn.share);
        fakeexchange_fini(&peers[i]);
    }
    shares_fini(&held.shares);
}

static void a_call_that_alone_is_over_the_bound_is_ended(void **state)
{
    (void)state;
    make_relay(NULL, NULL);
    hold_at_most(64 * 1024);
    join(&fake);
    fake.room = 0;
    ask(RANGE);
    reach(1);
    answer_much(0, 200 * 1024);
    drive_until(fake.state == FAKEEXCHANGE_ENDED);
    ended_with("14", over_memory);
    assert_int_equal(counted().over_memory, 1);
    assert_int_equal(counted().held_bytes, 0);
    drive_until(upstream_request(bed.members[0], 0)->closed);
    shares_leave(&fake.conn.share);
    shares_fini(&held.shares);
}

static void requests_count_against_the_bound(void **state)
{
    (void)state;
    static uint8_t part[60000];
    make_relay(NULL, &(struct upstream_opts){.hold = true});
    hold_at_most(32 * 1024);
    join(&fake);
    begin(PUT);
    assert_in_range(counted().held_bytes, 1, 1024); /* its fields */
    fakeexchange_send(&fake, part, sizeof(part));
    ended_with("14", over_memory);
    assert_int_equal(counted().held_bytes, 0);
    shares_leave(&fake.conn.share);
    shares_fini(&held.shares);
}

static void a_call_beyond_the_share_of_its_client_is_refused(void **state)
{
    (void)state;
    struct fakeexchange peers[3];
    make_relay(NULL, NULL);
    fakeshares_init(&held, SHARES_CALLS, 4, 50);
    for (size_t i = 0; i < 3; i++) {
        fakeexchange_init(&peers[i], EXCHANGE_ROOM);
        join(&peers[i]);
        begin_on(&peers[i], RANGE);
    }
    assert_int_equal(peers[1].state, FAKEEXCHANGE_OPEN);
    assert_int_equal(peers[2].state, FAKEEXCHANGE_ENDED);
    assert_string_equal(fakeexchange_field(&peers[2], "grpc-status"), "8");
    fakeshares_join(&held, &fake.conn, "another");
    begin(RANGE);
    assert_int_equal(fake.state, FAKEEXCHANGE_OPEN);
    fakeexchange_gone(&fake);
    shares_leave(&fake.conn.share);
    for (size_t i = 0; i < 3; i++) {
        fakeexchange_gone(&peers[i]);
        assert_int_equal(peers[i].conn.share.held[SHARES_CALLS], 0);
        shares_leave(&peers[i].conn.share);
        fakeexchange_fini(&peers[i]);
    }
    shares_fini(&held.shares);
}

/* Its answers do not come, or are not read. */
static void a_client_with_half_of_the_turns_waits_for_itself_and_others_do_not(void **state)
{
    (void)state;
    enum { CALLS = RELAY_TURNS / 2 + 2 };
    static struct fakeexchange peers[CALLS];
    make_relay(&(struct relay_opts){.turn_ms = 1500}, NULL);
    fakeshares_init(&held, SHARES_CALLS, 0, 50);
    for (size_t i = 0; i < CALLS; i++) {
        fakeexchange_init(&peers[i], EXCHANGE_ROOM);
        join(&peers[i]);
        begin_on(&peers[i], RANGE);
        fakeexchange_half_close(&peers[i]);
    }
    reach(RELAY_TURNS / 2);
    fakeshares_join(&held, &fake.conn, "another");
    fake.conn.id = 2;
    ask(RANGE);
    reach(RELAY_TURNS / 2 + 1);
    fakeexchange_gone(&peers[0]); /* its place is the next one's */
    reach(RELAY_TURNS / 2 + 2);
    drive_until(peers[CALLS - 1].state == FAKEEXCHANGE_ENDED); /* nobody else ended in time */
    assert_string_equal(fakeexchange_field(&peers[CALLS - 1], "grpc-status"), "14");
    assert_int_equal(peers[CALLS - 2].state, FAKEEXCHANGE_OPEN);
    struct fakeexchange lasting;
    fakeexchange_init(&lasting, EXCHANGE_ROOM);
    join(&lasting);
    begin_on(&lasting, KEEPALIVE); /* it takes no such turn */
    reach(RELAY_TURNS / 2 + 3);
    fakeexchange_gone(&lasting);
    shares_leave(&lasting.conn.share);
    fakeexchange_fini(&lasting);
    for (size_t i = 0; i < CALLS; i++) {
        if (peers[i].state == FAKEEXCHANGE_OPEN)
            fakeexchange_gone(&peers[i]);
        shares_leave(&peers[i].conn.share);
        fakeexchange_fini(&peers[i]);
    }
    fakeexchange_gone(&fake);
    shares_leave(&fake.conn.share);
    shares_fini(&held.shares);
    assert_int_equal(counted().running, 0);
}

/* Upstream says nothing to any of them. */
static void calls_that_last_set_out_half_of_the_turns_at_a_time(void **state)
{
    (void)state;
    enum { CALLS = RELAY_OPENINGS / 2 + 2 };
    static struct fakeexchange peers[CALLS];
    make_relay(NULL, NULL);
    fakeshares_init(&held, SHARES_CALLS, 0, 50);
    uint64_t began = belfry_clock_ms();
    for (size_t i = 0; i < CALLS; i++) {
        fakeexchange_init(&peers[i], EXCHANGE_ROOM);
        join(&peers[i]);
        begin_on(&peers[i], KEEPALIVE);
    }
    fakeshares_join(&held, &fake.conn, "another");
    fake.conn.id = 2;
    ask(RANGE);
    drive_until(upstream_count(bed.members[0]) == CALLS + 1); /* the last two when others are not new any more: */
    assert_true(belfry_clock_ms() >= began + RELAY_OPENING_MS);
    for (size_t i = 0; i < CALLS; i++) {
        assert_int_equal(peers[i].state, FAKEEXCHANGE_OPEN);
        fakeexchange_gone(&peers[i]);
        shares_leave(&peers[i].conn.share);
        fakeexchange_fini(&peers[i]);
    }
    fakeexchange_gone(&fake);
    shares_leave(&fake.conn.share);
    shares_fini(&held.shares);
    assert_int_equal(counted().running, 0);
}

static void a_head_counts_until_it_was_sent_and_once(void **state)
{
    (void)state;
    char big[40 * 1024] = "x: ";
    make_relay(NULL, NULL);
    memset(big + 3, 'a', sizeof(big) - 4);
    begin_with(KEEPALIVE, (const char *const[]){"content-type: application/grpc", big, NULL}, RELAY_ALL);
    assert_in_range(counted().held_bytes, sizeof(big), 2 * sizeof(big)); /* a buffer that doubles */
    fakeexchange_send_message(&fake, "a", 1);
    assert_in_range(counted().held_bytes, sizeof(big), sizeof(big) + 1024);
    drive_until(upstream_count(bed.members[0]) == 1 && upstream_request(bed.members[0], 0)->body_len == 6);
    assert_int_equal(counted().held_bytes, 0); /* although upstream has not answered */
    fakeexchange_gone(&fake);
}

/* ---- requests that are not whole ---- */

static void upstream_hears_of_a_call_when_its_message_is_whole_or_a_stream_begins(void **state)
{
    (void)state;
    static const char *const grpc[] = {"content-type: application/grpc", NULL};
    make_relay(NULL, NULL);
    begin(RANGE);
    drive_for(50);
    assert_int_equal(upstream_count(bed.members[0]), 0);
    fakeexchange_send(&fake, "\0\0\0\0\2a", 6);
    drive_for(50);
    assert_int_equal(upstream_count(bed.members[0]), 0);
    fakeexchange_send(&fake, "b", 1);
    reach(1);
    fakeexchange_gone(&fake);
    fakeexchange_init(&fake, EXCHANGE_ROOM);
    begin(KEEPALIVE);
    fakeexchange_send(&fake, "\0", 1);
    reach(2);
    fakeexchange_gone(&fake);
    fakeexchange_init(&fake, EXCHANGE_ROOM);
    begin_with("/new.Service/Speaks", grpc, RELAY_ALL); /* it may be one whose server speaks first */
    reach(3);
    fakeexchange_gone(&fake);
    fakeexchange_init(&fake, EXCHANGE_ROOM);
    static const char large[EXCHANGE_WINDOW / 2] = "\0\0\1"; /* 64 KiB are announced: too large to be kept */
    begin(PUT);
    fakeexchange_send(&fake, large, sizeof(large) - 1);
    drive_for(50);
    assert_int_equal(upstream_count(bed.members[0]), 3);
    fakeexchange_send(&fake, "", 1);
    reach(4);
    fakeexchange_gone(&fake);
}

#define SHORT_MS 60

static void a_call_without_its_body_ends_and_upstream_never_hears_of_it(void **state)
{
    (void)state;
    make_relay(&(struct relay_opts){.pace_ms = SHORT_MS}, NULL);
    uint64_t began = belfry_clock_ms();
    begin(RANGE);
    drive_until(fake.state == FAKEEXCHANGE_ENDED);
    assert_true(belfry_clock_ms() - began >= SHORT_MS);
    ended_with("14", "belfry: the request was not complete in time");
    assert_int_equal(counted().late, 1);
    assert_int_equal(counted().held_bytes, 0);
    assert_int_equal(upstream_count(bed.members[0]), 0);
}

static void a_request_of_one_message_is_late_until_its_end(void **state)
{
    (void)state;
    make_relay(&(struct relay_opts){.pace_ms = SHORT_MS}, NULL);
    ask(RANGE);
    reach(1);
    drive_until(fake.state == FAKEEXCHANGE_ENDED);
    ended_with("14", "belfry: the request was not complete in time");
    fakeexchange_init(&fake, EXCHANGE_ROOM);
    ask(RANGE);
    fakeexchange_half_close(&fake);
    reach(2);
    drive_for(3 * SHORT_MS);
    assert_int_equal(fake.state, FAKEEXCHANGE_OPEN);
    fakeexchange_gone(&fake);
}

/* What a request costs its connection (exchange_holds()) says whether the relay takes it for whole. */
static void a_request_of_one_message_is_held_to_be_whole_at_its_end(void **state)
{
    (void)state;
    make_relay(NULL, NULL);
    begin(PUT);
    assert_true(fake.x.held > EXCHANGE_COST); /* with its head */
    fakeexchange_send(&fake, "\0\0\0\0\3abc", 8);
    assert_true(fake.x.held > EXCHANGE_COST);
    drive_until(upstream_count(bed.members[0]) == 1 && upstream_request(bed.members[0], 0)->body_len == 8);
    assert_int_equal(fake.x.held, EXCHANGE_COST); /* nothing is kept, but there may be more of it */
    fakeexchange_half_close(&fake);
    assert_int_equal(fake.x.held, 0);
    fakeexchange_gone(&fake);
}

static void a_stream_is_held_to_be_whole_between_messages(void **state)
{
    (void)state;
    make_relay(NULL, NULL);
    begin(KEEPALIVE);
    assert_true(fake.x.held > EXCHANGE_COST); /* no message has come */
    fakeexchange_send(&fake, "\0\0\0\0\3ab", 7);
    drive_until(upstream_count(bed.members[0]) == 1 && upstream_request(bed.members[0], 0)->body_len == 7);
    assert_int_equal(fake.x.held, EXCHANGE_COST);
    fakeexchange_send(&fake, "c", 1);
    assert_int_equal(fake.x.held, 0);
    drive_until(upstream_request(bed.members[0], 0)->body_len == 8);
    assert_int_equal(fake.x.held, 0);
    fakeexchange_send(&fake, "\0", 1);
    assert_true(fake.x.held >= EXCHANGE_COST);
    fakeexchange_half_close(&fake);
    assert_int_equal(fake.x.held, 0); /* no more of it will come */
    fakeexchange_gone(&fake);
}

static void half_a_message_ends_and_a_stream_between_messages_waits(void **state)
{
    (void)state;
    make_relay(&(struct relay_opts){.pace_ms = SHORT_MS}, NULL);
    begin(KEEPALIVE); /* its first message comes when a lease is there to be kept */
    drive_for(3 * SHORT_MS);
    fakeexchange_send_message(&fake, "abc", 3);
    reach(1);
    drive_for(3 * SHORT_MS);
    assert_int_equal(fake.state, FAKEEXCHANGE_OPEN);
    fakeexchange_send(&fake, "\0\0\0\0\3a", 6);
    drive_until(fake.state == FAKEEXCHANGE_ENDED);
    ended_with("14", "belfry: the request was not complete in time");
    drive_until(upstream_request(bed.members[0], 0)->closed);
}

static void a_request_that_upstream_does_not_take_is_not_late(void **state)
{
    (void)state;
    static uint8_t part[EXCHANGE_WINDOW];
    make_relay(&(struct relay_opts){.pace_ms = SHORT_MS}, &(struct upstream_opts){.hold = true});
    begin(PUT);
    fakeexchange_send(&fake, part, sizeof(part));
    drive_until(fake.taken > 0);
    while (fake.came - fake.taken < EXCHANGE_WINDOW)
        fakeexchange_send(&fake, part, EXCHANGE_WINDOW - (fake.came - fake.taken));
    drive_for(3 * SHORT_MS);
    assert_int_equal(fake.state, FAKEEXCHANGE_OPEN);
    fakeexchange_gone(&fake);
}

/* Every deadline makes the relay look at all calls: who chooses many of them must not make it look all the time. */
static void deadlines_that_follow_each_other_closely_are_looked_at_together(void **state)
{
    (void)state;
    enum { CALLS = 10, APART_MS = 8 };
    struct fakeexchange peers[CALLS];
    size_t looks = 0;
    make_relay(&(struct relay_opts){.pace_ms = SHORT_MS}, NULL);
    for (size_t i = 0; i < CALLS; i++) {
        struct fakeexchange_head head;
        fakeexchange_head(&head, "POST", RANGE, (const char *const[]){"content-type: application/grpc", NULL});
        fakeexchange_init(&peers[i], EXCHANGE_ROOM);
        relay_begin(relay, &peers[i].x, &head.head, RELAY_ALL);
        drive_for(APART_MS);
    }
    for (; counted().running > 0; looks++) {
        uint64_t late = counted().late;
        drive_until(counted().late > late);
    }
    assert_int_equal(counted().late, CALLS);
    assert_in_range(looks, 0, 3);
    for (size_t i = 0; i < CALLS; i++)
        fakeexchange_fini(&peers[i]);
}

/* As headbomb2 of old did: large heads, and never a body. */
static void over_the_bound_the_connection_with_most_unfinished_requests_is_ended(void **state)
{
    (void)state;
    enum { HEADS = 20 };
    char big[40 * 1024] = "x: ";
    static struct fakeexchange heads[HEADS];
    struct fakeexchange_head head;
    struct exchange_conn hostile = {0};
    memset(big + 3, 'a', sizeof(big) - 4);
    make_relay(NULL, NULL);
    hold_at_most(1024 * 1024);
    fakeshares_join(&held, &hostile, "a");
    join(&fake);
    ask(KEEPALIVE); /* in good order, and the oldest */
    reach(1);
    fakeexchange_head(&head, "POST", RANGE, (const char *const[]){"content-type: application/grpc", big, NULL});
    size_t n = 0;
    for (; n < HEADS && held.ended == NULL; n++) {
        fakeexchange_init(&heads[n], EXCHANGE_ROOM);
        heads[n].x.conn = &hostile;
        relay_begin(relay, &heads[n].x, &head.head, RELAY_ALL);
    }
    assert_ptr_equal(held.ended, &hostile.share);
    assert_int_equal(heads[n - 1].state, FAKEEXCHANGE_ENDED); /* it asked for more; the others go with the connection */
    fakeexchange_send_message(&fake, "abc", 3);
    drive_until(upstream_request(bed.members[0], 0)->body_len == 13);
    assert_int_equal(fake.state, FAKEEXCHANGE_OPEN);
    for (size_t i = 0; i < n; i++) {
        fakeexchange_gone(&heads[i]);
        fakeexchange_fini(&heads[i]);
    }
    fakeexchange_gone(&fake);
    assert_int_equal(counted().held_bytes, 0);
    assert_int_equal(held.n_ended, 1);
    shares_leave(&hostile.share);
    shares_leave(&fake.conn.share);
    shares_fini(&held.shares);
}

/* Clients that do not read fill what is held: a connection that sends much, as a tier below does, is not ended for
 * them. */
static void over_the_bound_by_responses_the_slowest_reader_is_ended(void **state)
{
    (void)state;
    enum { HEADS = 5, READERS = 4, KIB = 1024 };
    char big[40 * KIB] = "x: ";
    static struct fakeexchange heads[HEADS], readers[READERS];
    struct fakeexchange_head head;
    struct exchange_conn sender = {0};
    memset(big + 3, 'a', sizeof(big) - 4);
    make_relay(NULL, NULL);
    hold_at_most(1024 * KIB);
    fakeshares_join(&held, &sender, "a");
    fakeexchange_head(&head, "POST", PUT, (const char *const[]){"content-type: application/grpc", big, NULL});
    for (size_t i = 0; i < HEADS; i++) {
        fakeexchange_init(&heads[i], EXCHANGE_ROOM);
        heads[i].x.conn = &sender;
        relay_begin(relay, &heads[i].x, &head.head, RELAY_ALL);
    }
    assert_in_range(sender.share.unfinished, SHARES_UNFINISHED, 512 * KIB);
    for (size_t i = 0; i < READERS; i++) {
        fakeexchange_init(&readers[i], 0);
        join(&readers[i]);
        begin_on(&readers[i], RANGE);
        fakeexchange_half_close(&readers[i]);
        reach(i + 1);
        answer_much(i, 240 * KIB);
        drive_for(50);
    }
    drive_until(counted().over_memory > 0);
    assert_int_equal(readers[0].state, FAKEEXCHANGE_ENDED);
    assert_null(held.ended);
    for (size_t i = 0; i < HEADS; i++) {
        assert_int_equal(heads[i].state, FAKEEXCHANGE_OPEN);
        fakeexchange_gone(&heads[i]);
        fakeexchange_fini(&heads[i]);
    }
    for (size_t i = 0; i < READERS; i++) {
        if (readers[i].state == FAKEEXCHANGE_OPEN)
            fakeexchange_gone(&readers[i]);
        shares_leave(&readers[i].conn.share);
        fakeexchange_fini(&readers[i]);
    }
    assert_int_equal(counted().held_bytes, 0);
    shares_leave(&sender.share);
    shares_fini(&held.shares);
}

/* ---- ends ---- */

static void a_client_that_goes_cancels_upstream(void **state)
{
    (void)state;
    make_relay(NULL, NULL);
    ask(KEEPALIVE);
    reach(1);
    fakeexchange_gone(&fake);
    assert_int_equal(counted().running, 0);
    drive_until(upstream_request(bed.members[0], 0)->closed);
    assert_int_equal(upstream_request(bed.members[0], 0)->code, 8);
}

static void a_lost_upstream_is_unavailable_and_says_which_and_the_pin_is_gone(void **state)
{
    (void)state;
    make_relay(NULL, NULL);
    ask(RANGE);
    reach(1);
    assert_int_equal(fake.conn.pin, 1);
    upstream_drop(bed.members[0], false);
    drive_until(fake.state == FAKEEXCHANGE_ENDED);
    assert_true(fake.whole);
    ended_with("14", NULL);
    assert_non_null(strstr(fakeexchange_field(&fake, "grpc-message"), "127.0.0.1"));
    assert_int_equal(counted().failed, 1);
    assert_int_equal(fake.conn.pin, 0);
}

static void an_upstream_lost_in_the_middle_ends_with_trailers_behind_what_came(void **state)
{
    (void)state;
    make_relay(NULL, NULL);
    ask(KEEPALIVE);
    reach(1);
    fake.room = 3;
    upstream_head(bed.members[0], 0, plain_head, false);
    upstream_data(bed.members[0], 0, "abcdef", 6);
    drive_until(belfry_buf_len(&fake.body) == 3);
    upstream_drop(bed.members[0], false);
    drive_until(counted().failed == 1);
    assert_int_equal(fake.state, FAKEEXCHANGE_OPEN);
    fakeexchange_send(&fake, "late", 4); /* is taken and goes nowhere */
    assert_int_equal(fake.taken, fake.came);
    fakeexchange_make_room(&fake, 100);
    ended_with("14", NULL);
    assert_false(fake.whole);
    assert_memory_equal(belfry_buf_bytes(&fake.body).data, "abcdef", 6);
}

static void a_reset_becomes_the_code_it_stands_for(void **state)
{
    (void)state;
    static const struct {
        uint32_t h2;
        const char *grpc, *name;
    } cases[] = {{1, "13", "PROTOCOL_ERROR"}, {2, "13", "INTERNAL_ERROR"},    {7, "14", "REFUSED_STREAM"},
                 {8, "1", "CANCEL"},          {11, "8", "ENHANCE_YOUR_CALM"}, {12, "7", "INADEQUATE_SECURITY"}};
    make_relay(NULL, NULL);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        fakeexchange_fini(&fake);
        fakeexchange_init(&fake, EXCHANGE_ROOM);
        ask(RANGE);
        reach(i + 1);
        upstream_reset(bed.members[0], i, cases[i].h2);
        drive_until(fake.state == FAKEEXCHANGE_ENDED);
        char message[100];
        snprintf(message, sizeof(message), "stream terminated by RST_STREAM with error code: %s", cases[i].name);
        ended_with(cases[i].grpc, message); /* in the words of Go's client, and without the address of upstream */
    }
}

/* etcd from 3.5.28 and 3.6.9 on may do so with a call whose time is over. */
static void a_stream_that_is_cancelled_after_its_deadline_has_exceeded_it(void **state)
{
    static const char *const soon[] = {"content-type: application/grpc", "grpc-timeout: 50m", NULL};
    static const char *const later[] = {"content-type: application/grpc", "grpc-timeout: 50S", NULL};
    static const struct {
        const char *const *fields;
        bool has_begun; /* the head of the response was passed on */
        uint32_t h2;
        const char *grpc, *message;
        unsigned failed;
    } cases[] = {{soon, false, 8, "4", "context deadline exceeded", 0},
                 {soon, true, 8, "4", "context deadline exceeded", 0},
                 {soon, false, 2, "13", "stream terminated by RST_STREAM with error code: INTERNAL_ERROR", 1},
                 {later, false, 8, "1", "stream terminated by RST_STREAM with error code: CANCEL", 1},
                 {later, true, 8, "1", "stream terminated by RST_STREAM with error code: CANCEL", 1}};
    (void)state;
    make_relay(NULL, NULL);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        fakeexchange_fini(&fake);
        fakeexchange_init(&fake, EXCHANGE_ROOM);
        unsigned failed = (unsigned)counted().failed;
        begin_with(KEEPALIVE, cases[i].fields, RELAY_ALL);
        uint64_t began = belfry_clock_ms(); /* the deadline is not after this and 50 ms */
        fakeexchange_send_message(&fake, "", 0);
        reach(i + 1);
        if (cases[i].has_begun) {
            upstream_head(bed.members[0], i, plain_head, false);
            drive_until(fake.status == 200);
        }
        if (cases[i].fields == soon)
            drive_until(belfry_clock_ms() >= began + 50);
        upstream_reset(bed.members[0], i, cases[i].h2);
        drive_until(fake.state == FAKEEXCHANGE_ENDED);
        ended_with(cases[i].grpc, cases[i].message);
        assert_int_equal(counted().failed, failed + cases[i].failed);
    }
}

static void a_silent_upstream_is_given_a_second_over_the_deadline(void **state)
{
    (void)state;
    make_relay(NULL, NULL);
    uint64_t began = belfry_clock_ms();
    begin_with(RANGE, (const char *const[]){"content-type: application/grpc", "grpc-timeout: 100m", NULL}, RELAY_ALL);
    fakeexchange_half_close(&fake);
    drive_until(fake.state == FAKEEXCHANGE_ENDED);
    assert_in_range(belfry_clock_ms() - began, 1090, 3000);
    ended_with("4", "context deadline exceeded");
    drive_until(upstream_request(bed.members[0], 0)->closed);
}

static void ending_all_says_why_and_destroying_resets(void **state)
{
    (void)state;
    make_relay(NULL, NULL);
    ask(KEEPALIVE);
    reach(1);
    relay_end_all(relay, "belfry: draining");
    ended_with("14", "belfry: draining");
    fakeexchange_init(&fake, EXCHANGE_ROOM);
    ask(KEEPALIVE);
    reach(2);
    relay_destroy(relay);
    relay = NULL;
    assert_int_equal(fake.state, FAKEEXCHANGE_RESET);
}

static void an_unavailable_answer_unpins_the_client(void **state)
{
    (void)state;
    make_relay(NULL, NULL);
    ask(RANGE);
    reach(1);
    upstream_head(bed.members[0], 0,
                  (const char *const[]){":status", "200", "content-type", "application/grpc", "grpc-status", "14",
                                        "grpc-message", "etcdserver: no leader", NULL},
                  true);
    drive_until(fake.state == FAKEEXCHANGE_ENDED);
    ended_with("14", "etcdserver: no leader");
    assert_int_equal(fake.conn.pin, 0);
}

/* ---- exceptions ---- */

/* A server that decodes paths would carry out what was judged as another method, or as none. */
static void a_path_with_a_query_or_an_escape_is_refused(void **state)
{
    (void)state;
    make_relay(NULL, NULL);
    static const char *const refused[] = {PUT "?x", PUT "?", "/etcdserverpb.KV/%54xn", "/etcdserverpb%2eKV/Txn",
                                          "/etcdserverpb.Watch/Watch?x"};
    static const char *const grpc[] = {"content-type: application/grpc", NULL};
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        fakeexchange_init(&fake, EXCHANGE_ROOM);
        begin_with(refused[i], grpc, RELAY_ALL);
        assert_true(fake.whole);
        ended_with("12", "belfry: unknown method: a path of gRPC has no query, and nothing is escaped in it");
    }
    assert_int_equal(counted().refused, sizeof(refused) / sizeof(refused[0]));
}

static void a_read_only_listener_passes_what_is_known_to_read(void **state)
{
    (void)state;
    make_relay(NULL, NULL);
    static const char *const refused[] = {PUT,
                                          "/etcdserverpb.KV/Txn",
                                          KEEPALIVE,
                                          "/etcdserverpb.Auth/AuthEnable",
                                          "/etcdserverpb.Maintenance/Snapshot",
                                          "/new.Service/Get",
                                          RANGE "x"};
    static const char *const grpc[] = {"content-type: application/grpc", NULL};
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        fakeexchange_init(&fake, EXCHANGE_ROOM);
        begin_with(refused[i], grpc, RELAY_READS);
        assert_true(fake.whole);
        ended_with("7", "belfry: this listener is read-only");
    }
    fakeexchange_init(&fake, EXCHANGE_ROOM);
    begin_with(RANGE, grpc, RELAY_READS);
    fakeexchange_half_close(&fake);
    reach(1);
    assert_int_equal(counted().refused, sizeof(refused) / sizeof(refused[0]));
}

static void say_auth_is(struct upstream *upstream, size_t i, bool on)
{
    upstream_head(upstream, i,
                  (const char *const[]){":status", "200", "content-type", "application/grpc", "grpc-status",
                                        on ? "3" : "9", "grpc-message",
                                        on ? "etcdserver: authentication failed, invalid user ID or password"
                                           : "etcdserver: authentication is not enabled",
                                        NULL},
                  true);
}

/* Answers Authenticate: with auth as `user` says. */
static void serve_auth(struct upstream *upstream, size_t i, void *user)
{
    bool *auth_on = user;
    if (strcmp(upstream_field(upstream, i, ":path"), "/etcdserverpb.Auth/Authenticate") == 0)
        say_auth_is(upstream, i, *auth_on);
}

static void the_tiers_certificate_does_not_speak_for_who_has_no_token(void **state)
{
    (void)state;
    bool auth_on = true;
    make_named_relay((struct upstream_opts){.serve = serve_auth, .user = &auth_on});
    begin(RANGE);
    fakeexchange_send_message(&fake, "abc", 3);
    assert_int_equal(fake.state, FAKEEXCHANGE_OPEN);
    drive_until(fake.state == FAKEEXCHANGE_ENDED);
    ended_with("3", "etcdserver: user name is empty");
    assert_int_equal(upstream_count(bed.members[0]), 1); /* whether auth is on */
    assert_int_equal(counted().refused, 1);
    static const char *const with_token[] = {"content-type: application/grpc", "token: t.1", NULL};
    fakeexchange_init(&fake, EXCHANGE_ROOM);
    begin_with(RANGE, with_token, RELAY_ALL);
    fakeexchange_half_close(&fake);
    reach(2);
    fakeexchange_gone(&fake);
    fakeexchange_init(&fake, EXCHANGE_ROOM);
    ask("/etcdserverpb.Auth/Authenticate");
    reach(3);
}

static void with_auth_off_who_has_no_token_is_passed_on_whole(void **state)
{
    (void)state;
    bool auth_on = false;
    make_named_relay((struct upstream_opts){.serve = serve_auth, .user = &auth_on});
    begin(RANGE);
    fakeexchange_send(&fake, "abc", 3);
    fakeexchange_half_close(&fake);
    drive_until(upstream_count(bed.members[0]) == 2 && upstream_request(bed.members[0], 1)->ended);
    assert_string_equal(upstream_field(bed.members[0], 1, ":path"), RANGE);
    assert_string_equal(upstream_field(bed.members[0], 1, "te"), "trailers");
    assert_memory_equal(upstream_request(bed.members[0], 1)->body, "abc", 3);
    fakeexchange_gone(&fake);
    fakeexchange_init(&fake, EXCHANGE_ROOM);
    ask(RANGE); /* known to be off: no question */
    reach(3);
    assert_string_equal(upstream_field(bed.members[0], 2, ":path"), RANGE);
    for (size_t i = 0; i < 3; i++) /* a name gives no rights now, and etcd would log a warning for each */
        assert_null(upstream_field(bed.members[0], i, "grpcgateway-accept"));
}

static void listener_that_needs_auth_passes_nothing_on_while_it_is_off(void **state)
{
    (void)state;
    static const struct listen_policy guarded = {.rights = LISTEN_RIGHTS_UPSTREAM};
    static const char *const with_token[] = {"content-type: application/grpc", "token: t.1", NULL};
    bool auth_on = false;
    make_relay(NULL, &(struct upstream_opts){
                         .serve = serve_auth,
                         .user = &auth_on}); /* its certificate has no name: another listener would ask nothing */
    fake.conn.policy = &guarded;
    begin_with(PUT, with_token, RELAY_ALL);
    fakeexchange_send_message(&fake, "abc", 3);
    drive_until(fake.state == FAKEEXCHANGE_ENDED);
    ended_with("14", PERMIT_AUTH_IS_OFF);
    assert_int_equal(upstream_count(bed.members[0]), 1); /* the question */
    fakeexchange_fini(&fake);
    auth_on = true;
    drive_for(PERMIT_OFF_MS + 100);
    fakeexchange_init(&fake, EXCHANGE_ROOM);
    fake.conn.policy = &guarded;
    begin_with(PUT, with_token, RELAY_ALL);
    fakeexchange_send_message(&fake, "abc", 3);
    reach(3); /* another question, and the call */
    assert_string_equal(upstream_field(bed.members[0], 2, ":path"), PUT);
    fakeexchange_gone(&fake);
    fakeexchange_fini(&fake);
    fakeexchange_init(&fake, EXCHANGE_ROOM);
    fake.conn.policy = &guarded;
    ask(PUT); /* known to be on: no question; etcd answers whom it does not know */
    reach(4);
    assert_string_equal(upstream_field(bed.members[0], 3, ":path"), PUT);
}

static void what_etcd_may_answer_to_anyone_goes_up_as_nobodys(void **state)
{
    (void)state;
    static const char *const paths[] = {KEEPALIVE,
                                        MEMBERS,
                                        "/etcdserverpb.Maintenance/Status",
                                        "/v3lockpb.Lock/Lock",
                                        "/etcdserverpb.Maintenance/Snapshot",
                                        "/no.such/Method"};
    bool auth_on = true;
    make_named_relay((struct upstream_opts){.serve = serve_auth, .user = &auth_on});
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        fakeexchange_init(&fake, EXCHANGE_ROOM);
        ask(paths[i]);
        reach(i + 2); /* the first was whether auth is on */
        assert_string_equal(upstream_field(bed.members[0], i + 1, ":path"), paths[i]);
        assert_string_equal(upstream_field(bed.members[0], i + 1, "grpcgateway-accept"), "belfry");
        fakeexchange_gone(&fake);
    }
}

static void what_acts_later_ends_when_auth_is_turned_on(void **state)
{
    (void)state;
    static const char *const with_token[] = {"content-type: application/grpc", "token: t.1", NULL};
    static const char *const no_token[] = {"content-type: application/grpc", NULL};
    bool auth_on = false;
    struct fakeexchange others[3];
    make_named_relay((struct upstream_opts){.serve = serve_auth, .user = &auth_on});
    ask("/v3electionpb.Election/Observe");
    reach(2);
    static const char *const paths[] = {"/v3electionpb.Election/Observe", KEEPALIVE, RANGE};
    for (int i = 0; i < 3; i++) {
        struct fakeexchange_head head;
        fakeexchange_init(&others[i], EXCHANGE_ROOM);
        fakeexchange_head(&head, "POST", paths[i], i == 0 ? with_token : no_token);
        relay_begin(relay, &others[i].x, &head.head, RELAY_ALL);
        fakeexchange_send_message(&others[i], "", 0);
    }
    fakeexchange_send(&others[2], "abc", 3);
    fakeexchange_half_close(&others[2]); /* etcd has it all, and answers when it likes */
    drive_for(RELAY_RECHECK_MS + PERMIT_OFF_MS + 300);
    assert_int_equal(fake.state, FAKEEXCHANGE_OPEN); /* it was asked again, and is still off */
    auth_on = true;
    drive_until(fake.state == FAKEEXCHANGE_ENDED);
    assert_string_equal(fakeexchange_field(&fake, "grpc-status"), "3");
    assert_string_equal(fakeexchange_field(&fake, "grpc-message"), "etcdserver: user name is empty");
    for (int i = 0; i < 3; i++) {
        assert_int_equal(others[i].state, FAKEEXCHANGE_OPEN);
        fakeexchange_gone(&others[i]);
        fakeexchange_fini(&others[i]);
    }
}

static void a_request_that_is_held_back_until_auth_is_on_is_refused(void **state)
{
    (void)state;
    static char half[EXCHANGE_WINDOW / 2]; /* of a message that is too large to be kept */
    bool auth_on = false;
    make_named_relay((struct upstream_opts){.serve = serve_auth, .user = &auth_on});
    begin(PUT);
    fakeexchange_send(&fake, "\0\0\x10\0\0", 5);
    fakeexchange_send(&fake, half, sizeof(half));
    drive_until(upstream_count(bed.members[0]) == 2 && upstream_request(bed.members[0], 1)->body_len > 4);
    assert_null(upstream_field(bed.members[0], 1, "grpcgateway-accept"));
    auth_on = true;
    drive_until(fake.state == FAKEEXCHANGE_ENDED);
    ended_with("3", "etcdserver: user name is empty");
    drive_until(upstream_request(bed.members[0], 1)->closed);
    assert_false(upstream_request(bed.members[0], 1)->ended);
}

static void a_client_may_go_while_it_is_checked(void **state)
{
    (void)state;
    make_named_relay((struct upstream_opts){0});
    ask(RANGE);
    reach(1);
    fakeexchange_gone(&fake);
    assert_int_equal(counted().running, 0);
}

#define OBSERVE "/v3electionpb.Election/Observe"

/* Two calls with a token, one of which may go on for ever. True: that one has ended after a period. */
static bool observing_ends(bool with_auth, bool is_silent, uint64_t periods)
{
    static bool auth_on; /* upstream lives longer than this call */
    struct fakeexchange lock;
    auth_on = with_auth;
    make_relay(&(struct relay_opts){.period_ms = 1000},
               &(struct upstream_opts){.serve = is_silent ? NULL : serve_auth, .user = &auth_on});
    const char *const fields[] = {"content-type: application/grpc", "token: a.1", NULL};
    struct fakeexchange_head head;
    fakeexchange_init(&lock, EXCHANGE_ROOM);
    fakeexchange_head(&head, "POST", "/v3lockpb.Lock/Lock", fields);
    relay_begin(relay, &lock.x, &head.head, RELAY_ALL);
    fakeexchange_send_message(&lock, "", 0);
    begin_with(OBSERVE, fields, RELAY_ALL);
    fakeexchange_send_message(&fake, "", 0);
    uint64_t began = belfry_clock_ms();
    while (fake.state != FAKEEXCHANGE_ENDED && belfry_clock_ms() < began + periods * 1000)
        drive_for(20);
    bool has_ended = fake.state == FAKEEXCHANGE_ENDED;
    assert_int_equal(lock.state, FAKEEXCHANGE_OPEN);
    fakeexchange_gone(&lock);
    fakeexchange_fini(&lock);
    if (has_ended) {
        assert_in_range(belfry_clock_ms() - began, 800, 1000);
        ended_with("14", "belfry: the right to this call is judged once in a period: repeat the call");
    } else {
        fakeexchange_gone(&fake);
    }
    return has_ended;
}

static void whoever_observes_is_judged_again_after_a_period(void **state)
{
    (void)state;
    assert_true(observing_ends(true, false, 2));
}

static void while_auth_is_unknown_whoever_observes_is_judged_in_time(void **state)
{
    (void)state;
    assert_true(observing_ends(false, true, 2));
}

static void with_auth_off_whoever_observes_goes_on(void **state)
{
    (void)state;
    assert_false(observing_ends(false, false, 2));
}

static void whoever_observes_is_judged_a_period_after_auth_was_off(void **state)
{
    (void)state;
    bool auth_on = false;
    make_relay(&(struct relay_opts){.period_ms = 1000}, &(struct upstream_opts){.serve = serve_auth, .user = &auth_on});
    begin_with(OBSERVE, (const char *const[]){"content-type: application/grpc", "token: a.1", NULL}, RELAY_ALL);
    fakeexchange_send_message(&fake, "", 0);
    drive_for(1200);
    assert_int_equal(fake.state, FAKEEXCHANGE_OPEN);
    auth_on = true;
    uint64_t began = belfry_clock_ms();
    drive_until(fake.state == FAKEEXCHANGE_ENDED);
    assert_in_range(belfry_clock_ms() - began, 1, PERMIT_OFF_MS + 1000);
    ended_with("14", "belfry: the right to this call is judged once in a period: repeat the call");
}

static void a_change_of_auth_makes_doubt_before_and_after(void **state)
{
    (void)state;
    bool auth_on = false;
    make_relay(NULL, &(struct upstream_opts){.serve = serve_auth, .user = &auth_on});
    permit_auth(permit, belfry_clock_ms());
    drive_until(permit_is_open(permit, belfry_clock_ms()));
    begin("/etcdserverpb.Auth/AuthEnable");
    assert_false(permit_is_open(permit, belfry_clock_ms()));
    permit_auth(permit, belfry_clock_ms());
    drive_until(permit_is_open(permit, belfry_clock_ms())); /* upstream has not done it yet */
    fakeexchange_half_close(&fake);
    drive_until(upstream_count(bed.members[0]) == 3);
    size_t enable = strstr(upstream_field(bed.members[0], 1, ":path"), "AuthEnable") != NULL ? 1 : 2;
    upstream_grpc(bed.members[0], enable, "", 0, "0");
    drive_until(fake.state == FAKEEXCHANGE_ENDED);
    assert_false(permit_is_open(permit, belfry_clock_ms()));
}

static size_t pack_members(uint8_t *to)
{
    char *first[] = {(char *)(uintptr_t) "http://10.0.0.1:2379", (char *)(uintptr_t) "http://10.1.0.1:2379"};
    char *peers[] = {(char *)(uintptr_t) "http://10.0.0.1:2380"};
    Etcdserverpb__MemberListResponse response = ETCDSERVERPB__MEMBER_LIST_RESPONSE__INIT;
    Etcdserverpb__Member one, two, *members[] = {&one, &two};
    etcdserverpb__member__init(&one);
    etcdserverpb__member__init(&two);
    one.id = two.id = 7;
    one.name = (char *)(uintptr_t) "one";
    one.n_clienturls = 2;
    one.clienturls = first;
    one.n_peerurls = two.n_peerurls = 1;
    one.peerurls = two.peerurls = peers;
    response.n_members = 2;
    response.members = members;
    return etcdserverpb__member_list_response__pack(&response, to);
}

static void member_lists_name_the_tier(void **state)
{
    (void)state;
    make_relay(&(struct relay_opts){.advertise = "http://tier:23790"}, NULL);
    ask(MEMBERS);
    reach(1);
    uint8_t message[400];
    upstream_grpc(bed.members[0], 0, message, pack_members(message), "0");
    drive_until(fake.state == FAKEEXCHANGE_ENDED);
    ended_with("0", "");
    struct belfry_bytes body;
    assert_true(fakeexchange_message(&fake, &body));
    assert_int_equal(belfry_buf_len(&fake.body), body.len + 5);
    Etcdserverpb__MemberListResponse *response =
        etcdserverpb__member_list_response__unpack(NULL, body.len, (const uint8_t *)body.data);
    assert_non_null(response);
    assert_int_equal(response->n_members, 2);
    assert_int_equal(response->members[0]->n_clienturls, 1);
    assert_string_equal(response->members[0]->clienturls[0], "http://tier:23790");
    assert_string_equal(response->members[0]->peerurls[0], "http://10.0.0.1:2380");
    assert_int_equal(response->members[1]->n_clienturls, 0); /* it has not started */
    etcdserverpb__member_list_response__free_unpacked(response, NULL);
}

static void a_member_list_that_cannot_be_rewritten_passes_as_it_is(void **state)
{
    (void)state;
    make_relay(&(struct relay_opts){.advertise = "http://tier:23790"}, NULL);
    ask(MEMBERS);
    reach(1);
    static uint8_t big[200 * 1024];
    upstream_grpc(bed.members[0], 0, big, sizeof(big), "0");
    uint64_t end = belfry_clock_ms() + SOON_MS;
    while (fake.state == FAKEEXCHANGE_OPEN && belfry_clock_ms() < end) {
        if (fake.room == 0)
            fakeexchange_make_room(&fake, EXCHANGE_ROOM);
        turn();
    }
    ended_with("0", "");
    assert_int_equal(belfry_buf_len(&fake.body), sizeof(big) + 5);
}

static void heads_that_cannot_be_passed_on_are_refused(void **state)
{
    (void)state;
    make_relay(NULL, NULL);
    char big[50 * 1024] = "x: ";
    memset(big + 3, 'a', sizeof(big) - 4);
    begin_with(RANGE, (const char *const[]){"content-type: application/grpc", big, NULL}, RELAY_ALL);
    fakeexchange_half_close(&fake);
    ended_with("13", "belfry: these request headers cannot be passed on");
    fakeexchange_init(&fake, EXCHANGE_ROOM);
    begin_with(RANGE, (const char *const[]){"content-type: application/grpc", "grpc-timeout: soon", NULL}, RELAY_ALL);
    assert_int_equal(fake.status, 400);
    assert_int_equal(counted().running, 0);
}

/* ---- questions of tiers below ---- */

#define TXN    "/etcdserverpb.KV/Txn"
#define FUTURE "etcdserver: mvcc: required revision is a future revision"

static const char *const inquiry_head[] = {"content-type: application/grpc", "token: t.1", "belfry-rights: 4000", NULL};

/* Auth is on, and every token may read everything. */
static void serve_rights(struct upstream *upstream, size_t i, void *user)
{
    (void)user;
    if (strstr(upstream_field(upstream, i, ":path"), "Authenticate") != NULL) {
        say_auth_is(upstream, i, true);
        return;
    }
    upstream_head(upstream, i,
                  (const char *const[]){":status", "200", "content-type", "application/grpc", "grpc-status", "11",
                                        "grpc-message", FUTURE, NULL},
                  true);
}

/* Sends a Txn of two ranges, with `more` behind it. */
static void send_inquiry(const char *more, size_t more_len)
{
    struct belfry_buf message;
    belfry_buf_init(&message);
    for (int i = 0; i < 2; i++)
        assert_int_equal(
            belfry_write_txn_range(&message, belfry_bytes_str(i == 0 ? "a" : "b"), belfry_bytes_str(""), INT64_MAX),
            BELFRY_OK);
    assert_int_equal(belfry_buf_append(&message, more, more_len), BELFRY_OK);
    fakeexchange_send_message(&fake, belfry_buf_bytes(&message).data, belfry_buf_len(&message));
    belfry_buf_fini(&message);
}

static void the_question_of_a_tier_below_is_answered_here(void **state)
{
    (void)state;
    make_relay(NULL, &(struct upstream_opts){.serve = serve_rights});
    for (int i = 0; i < 3; i++) {
        fakeexchange_init(&fake, EXCHANGE_ROOM);
        begin_with(TXN, inquiry_head, i == 0 ? RELAY_ALL : RELAY_READS);
        send_inquiry("", 0);
        fakeexchange_half_close(&fake);
        drive_until(fake.state == FAKEEXCHANGE_ENDED);
        assert_true(fake.whole);
        ended_with("11", FUTURE);
        assert_non_null(fakeexchange_field(&fake, "belfry-rights-age"));
        assert_int_equal(counted().held_bytes, 0);
    }
    assert_int_equal(upstream_count(bed.members[0]), 2); /* whether auth is on, and one question */
    assert_int_equal(counted().inquiries, 3);
    assert_int_equal(counted().relayed + counted().refused, 0);
}

static void a_request_that_is_no_such_question_is_relayed_as_it_came(void **state)
{
    (void)state;
    make_relay(NULL, NULL);
    begin_with(TXN, inquiry_head, RELAY_ALL);
    send_inquiry("\x0a\x00", 2); /* a comparison */
    assert_int_equal(upstream_count(bed.members[0]), 0);
    fakeexchange_half_close(&fake);
    drive_until(upstream_count(bed.members[0]) == 1 && upstream_request(bed.members[0], 0)->ended);
    assert_int_equal(upstream_request(bed.members[0], 0)->body_len, fake.came);
    assert_string_equal(upstream_field(bed.members[0], 0, "belfry-rights"), "4000");
    assert_int_equal(counted().inquiries_relayed, 1);
    assert_int_equal(counted().relayed, 1);
    fakeexchange_gone(&fake);
    fakeexchange_init(&fake, EXCHANGE_ROOM);
    begin_with(TXN, inquiry_head, RELAY_READS);
    send_inquiry("\x0a\x00", 2);
    fakeexchange_half_close(&fake);
    ended_with("7", "belfry: this listener is read-only");
}

static void a_long_request_does_not_wait_for_its_end(void **state)
{
    (void)state;
    static uint8_t part[EXCHANGE_WINDOW];
    make_relay(NULL, NULL);
    begin_with(TXN, inquiry_head, RELAY_ALL);
    fakeexchange_send(&fake, part, sizeof(part));
    reach(1);
    fakeexchange_gone(&fake);
}

static void half_a_question_ends_in_time(void **state)
{
    (void)state;
    make_relay(&(struct relay_opts){.pace_ms = SHORT_MS}, NULL);
    begin_with(TXN, inquiry_head, RELAY_ALL);
    fakeexchange_send(&fake, "\0\0\0\0\3a", 6);
    drive_until(fake.state == FAKEEXCHANGE_ENDED);
    ended_with("14", "belfry: the request was not complete in time");
    assert_int_equal(upstream_count(bed.members[0]), 0);
}

static void a_question_whose_tier_has_gone_is_dropped(void **state)
{
    (void)state;
    make_relay(NULL, NULL); /* upstream answers nothing */
    begin_with(TXN, inquiry_head, RELAY_ALL);
    send_inquiry("", 0);
    fakeexchange_half_close(&fake);
    reach(1);
    fakeexchange_gone(&fake);
    assert_int_equal(counted().running, 0);
    struct permit_stats stats;
    permit_stats(permit, &stats);
    assert_int_equal(stats.rights.waiting, 0);
}

/* ---- memory ---- */

static void run_scenario(void)
{
    uint64_t end = belfry_clock_ms() + SOON_MS;
    size_t answered = 0;
    fakeexchange_send(&fake, "abc", 3);
    fakeexchange_half_close(&fake);
    while (fake.state == FAKEEXCHANGE_OPEN && belfry_clock_ms() < end) {
        turn();
        if (fake.lost)
            fakeexchange_gone(&fake);
        uint8_t message[400];
        for (; answered < upstream_count(bed.members[0]); answered++) {
            if (strstr(upstream_field(bed.members[0], answered, ":path"), "Authenticate") != NULL)
                say_auth_is(bed.members[0], answered, false);
            else
                upstream_grpc(bed.members[0], answered, message, pack_members(message), "0");
        }
    }
}

static enum belfry_err scenario(void)
{
    enum belfry_err err = make_tls();
    bed.members[0] = upstream_create(&(struct upstream_opts){.cert = keys.server, .key = keys.server_key});
    fakeexchange_init(&fake, 20);
    if (err == BELFRY_OK)
        err = open_bed();
    if (err == BELFRY_OK)
        err = open_relay(&(struct relay_opts){.advertise = "http://tier:1"});
    if (err == BELFRY_OK) {
        fake.room = EXCHANGE_ROOM;
        begin(MEMBERS);
        run_scenario();
        assert_int_not_equal(fake.state, FAKEEXCHANGE_OPEN);
        bool good = fake.state == FAKEEXCHANGE_ENDED && strcmp(fakeexchange_field(&fake, "grpc-status"), "0") == 0;
        err = good ? BELFRY_OK : BELFRY_ERR_NOMEM;
    }
    close_relay();
    return err;
}

static void without_memory_a_call_ends_and_nothing_leaks(void **state)
{
    (void)state;
    assert_true(refuse_sweep(scenario) > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(what_is_relayed_says_through_whom, teardown),
        cmocka_unit_test_teardown(a_request_goes_up_and_its_response_comes_down_as_they_are, teardown),
        cmocka_unit_test_teardown(trailers_only_stays_trailers_only, teardown),
        cmocka_unit_test_teardown(what_is_not_grpc_passes_too, teardown),
        cmocka_unit_test_teardown(both_directions_stay_open_until_each_side_ends_its_own, teardown),
        cmocka_unit_test_teardown(a_reader_that_stands_still_holds_one_window_and_gets_every_byte_later, teardown),
        cmocka_unit_test_teardown(an_upstream_that_takes_nothing_holds_the_clients_window, teardown),
        cmocka_unit_test_teardown(over_the_bound_the_call_whose_client_took_nothing_for_longest_is_ended, teardown),
        cmocka_unit_test_teardown(a_call_that_alone_is_over_the_bound_is_ended, teardown),
        cmocka_unit_test_teardown(requests_count_against_the_bound, teardown),
        cmocka_unit_test_teardown(a_call_beyond_the_share_of_its_client_is_refused, teardown),
        cmocka_unit_test_teardown(a_client_with_half_of_the_turns_waits_for_itself_and_others_do_not, teardown),
        cmocka_unit_test_teardown(calls_that_last_set_out_half_of_the_turns_at_a_time, teardown),
        cmocka_unit_test_teardown(a_head_counts_until_it_was_sent_and_once, teardown),
        cmocka_unit_test_teardown(upstream_hears_of_a_call_when_its_message_is_whole_or_a_stream_begins, teardown),
        cmocka_unit_test_teardown(a_call_without_its_body_ends_and_upstream_never_hears_of_it, teardown),
        cmocka_unit_test_teardown(a_request_of_one_message_is_late_until_its_end, teardown),
        cmocka_unit_test_teardown(a_request_of_one_message_is_held_to_be_whole_at_its_end, teardown),
        cmocka_unit_test_teardown(a_stream_is_held_to_be_whole_between_messages, teardown),
        cmocka_unit_test_teardown(half_a_message_ends_and_a_stream_between_messages_waits, teardown),
        cmocka_unit_test_teardown(whoever_observes_is_judged_again_after_a_period, teardown),
        cmocka_unit_test_teardown(while_auth_is_unknown_whoever_observes_is_judged_in_time, teardown),
        cmocka_unit_test_teardown(with_auth_off_whoever_observes_goes_on, teardown),
        cmocka_unit_test_teardown(whoever_observes_is_judged_a_period_after_auth_was_off, teardown),
        cmocka_unit_test_teardown(a_request_that_upstream_does_not_take_is_not_late, teardown),
        cmocka_unit_test_teardown(deadlines_that_follow_each_other_closely_are_looked_at_together, teardown),
        cmocka_unit_test_teardown(over_the_bound_the_connection_with_most_unfinished_requests_is_ended, teardown),
        cmocka_unit_test_teardown(over_the_bound_by_responses_the_slowest_reader_is_ended, teardown),
        cmocka_unit_test_teardown(a_client_that_goes_cancels_upstream, teardown),
        cmocka_unit_test_teardown(a_lost_upstream_is_unavailable_and_says_which_and_the_pin_is_gone, teardown),
        cmocka_unit_test_teardown(an_upstream_lost_in_the_middle_ends_with_trailers_behind_what_came, teardown),
        cmocka_unit_test_teardown(a_reset_becomes_the_code_it_stands_for, teardown),
        cmocka_unit_test_teardown(a_stream_that_is_cancelled_after_its_deadline_has_exceeded_it, teardown),
        cmocka_unit_test_teardown(a_silent_upstream_is_given_a_second_over_the_deadline, teardown),
        cmocka_unit_test_teardown(ending_all_says_why_and_destroying_resets, teardown),
        cmocka_unit_test_teardown(an_unavailable_answer_unpins_the_client, teardown),
        cmocka_unit_test_teardown(a_path_with_a_query_or_an_escape_is_refused, teardown),
        cmocka_unit_test_teardown(a_read_only_listener_passes_what_is_known_to_read, teardown),
        cmocka_unit_test_teardown(the_tiers_certificate_does_not_speak_for_who_has_no_token, teardown),
        cmocka_unit_test_teardown(with_auth_off_who_has_no_token_is_passed_on_whole, teardown),
        cmocka_unit_test_teardown(listener_that_needs_auth_passes_nothing_on_while_it_is_off, teardown),
        cmocka_unit_test_teardown(what_etcd_may_answer_to_anyone_goes_up_as_nobodys, teardown),
        cmocka_unit_test_teardown(what_acts_later_ends_when_auth_is_turned_on, teardown),
        cmocka_unit_test_teardown(a_request_that_is_held_back_until_auth_is_on_is_refused, teardown),
        cmocka_unit_test_teardown(a_client_may_go_while_it_is_checked, teardown),
        cmocka_unit_test_teardown(a_change_of_auth_makes_doubt_before_and_after, teardown),
        cmocka_unit_test_teardown(member_lists_name_the_tier, teardown),
        cmocka_unit_test_teardown(a_member_list_that_cannot_be_rewritten_passes_as_it_is, teardown),
        cmocka_unit_test_teardown(heads_that_cannot_be_passed_on_are_refused, teardown),
        cmocka_unit_test_teardown(the_question_of_a_tier_below_is_answered_here, teardown),
        cmocka_unit_test_teardown(a_request_that_is_no_such_question_is_relayed_as_it_came, teardown),
        cmocka_unit_test_teardown(a_long_request_does_not_wait_for_its_end, teardown),
        cmocka_unit_test_teardown(half_a_question_ends_in_time, teardown),
        cmocka_unit_test_teardown(a_question_whose_tier_has_gone_is_dropped, teardown),
        cmocka_unit_test_teardown(without_memory_a_call_ends_and_nothing_leaks, teardown),
    };
    return cmocka_run_group_tests(tests, make_keys, remove_keys);
}
