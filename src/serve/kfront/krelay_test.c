/* src/serve/kfront/krelay_test.c: between support/fakeexchange, whose peer is the test, and support/fakeupstream. */
#include "serve/kfront/krelay.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/fakeexchange.h"
#include "support/fakeshares.h"
#include "support/uplinkbed.h"

#define NODES "/api/v1/nodes"
#define MUCH  (3u * 1024 * 1024)
#define KIB   1024

static struct krelay *krelay;
static struct fakeexchange fake;
static struct fakeshares held;

static const struct kfront_judgement a_read = {.way = KFRONT_PASS, .kind = KFRONT_OTHER};
static const struct kfront_judgement a_write = {.way = KFRONT_PASS, .kind = KFRONT_WRITE};
static const struct kfront_judgement a_watch = {.way = KFRONT_PASS, .kind = KFRONT_WATCH, .lasts = true};
static const struct kfront_judgement a_document = {.way = KFRONT_PASS, .kind = KFRONT_DOCUMENT};

static enum belfry_err open_krelay(const struct krelay_opts *opts)
{
    struct krelay_opts with = opts != NULL ? *opts : (struct krelay_opts){0};
    with.uplink = bed.uplink;
    return krelay_create(&with, &krelay);
}

static void make_krelay(const struct krelay_opts *opts, const struct upstream_opts *upstream)
{
    bed.is_kube = true;
    make(upstream, 1);
    assert_int_equal(open_krelay(opts), BELFRY_OK);
    fakeexchange_init(&fake, EXCHANGE_ROOM);
}

static void close_krelay(void)
{
    krelay_destroy(krelay);
    krelay = NULL;
    close_bed();
    fakeexchange_fini(&fake);
}

static int teardown(void **state)
{
    (void)state;
    close_krelay();
    return refuse_held() == 0 ? 0 : -1;
}

static void begin_on(struct fakeexchange *peer, const char *method, const char *path, const char *const *fields,
                     const struct kfront_judgement *judged)
{
    struct fakeexchange_head head;
    fakeexchange_head(&head, method, path, fields);
    krelay_begin(krelay, &peer->x, &head.head, judged);
}

static void get_on(struct fakeexchange *peer, const struct kfront_judgement *judged)
{
    begin_on(peer, "GET", NODES, (const char *const[]){"authorization: Bearer t", NULL}, judged);
    fakeexchange_half_close(peer);
}

static void get(void)
{
    get_on(&fake, &a_read);
}

static void begin_write(void)
{
    begin_on(&fake, "POST", NODES, (const char *const[]){"content-type: application/json", NULL}, &a_write);
}

/* Until upstream has its n-th request, from 1. */
static void reach(size_t n)
{
    drive_until(upstream_count(bed.members[0]) == n);
}

static const char *const plain_head[] = {":status", "200", "content-type", "application/json", NULL};

static struct krelay_stats counted(void)
{
    struct krelay_stats out;
    krelay_stats(krelay, &out);
    return out;
}

static void ended_with(struct fakeexchange *peer, int status, const char *retry_after)
{
    assert_int_equal(peer->state, FAKEEXCHANGE_ENDED);
    assert_int_equal(peer->status, status);
    const char *seconds = fakeexchange_field(peer, "retry-after");
    if (retry_after == NULL)
        assert_null(seconds);
    else
        assert_string_equal(seconds, retry_after);
}

static void body_is(const struct fakeexchange *peer, const char *text)
{
    assert_int_equal(belfry_buf_len(&peer->body), strlen(text));
    if (text[0] != '\0')
        assert_memory_equal(belfry_buf_bytes(&peer->body).data, text, strlen(text));
}

/* ---- as it came ---- */

static void a_request_goes_up_and_its_answer_comes_down_as_they_are(void **state)
{
    (void)state;
    bed.via = "edge-7";
    make_krelay(NULL, NULL);
    fake.conn.address = (struct client_address){.family = CLIENT_IPV4, .bytes = {10, 0, 0, 9}};
    begin_on(&fake, "PATCH", NODES "/a?force=true",
             (const char *const[]){"authorization: Bearer t.1", "content-type: application/apply-patch+yaml",
                                   "impersonate-user: u", "host: tier", "connection: keep-alive", "belfry-via: leaf",
                                   "content-length: 6", NULL},
             &a_write);
    fakeexchange_send(&fake, "abc", 3);
    drive_for(30);
    assert_int_equal(upstream_count(bed.members[0]), 0); /* it waits until it is whole */
    fakeexchange_send(&fake, "def", 3);
    fakeexchange_half_close(&fake);
    drive_until(upstream_count(bed.members[0]) == 1 && upstream_request(bed.members[0], 0)->ended);
    char expected[600];
    snprintf(expected, sizeof(expected),
             ":method: PATCH\n:scheme: http\n:path: " NODES "/a?force=true\n:authority: %s\nauthorization: Bearer t.1\n"
             "content-type: application/apply-patch+yaml\nimpersonate-user: u\nbelfry-via: leaf\ncontent-length: 6\n"
             "x-forwarded-for: 10.0.0.9\nbelfry-via: edge-7\n",
             upstream_url(bed.members[0]) + strlen("http://"));
    assert_string_equal(upstream_request(bed.members[0], 0)->fields, expected);
    assert_memory_equal(upstream_request(bed.members[0], 0)->body, "abcdef", 6);
    assert_int_equal(fake.taken, 6);

    upstream_head(bed.members[0], 0,
                  (const char *const[]){":status", "409", "content-type", "application/json", "audit-id", "7",
                                        "content-length", "3", NULL},
                  false);
    upstream_data(bed.members[0], 0, "{.}", 3);
    upstream_trailers(bed.members[0], 0, (const char *const[]){"x", "1", NULL});
    drive_until(fake.state == FAKEEXCHANGE_ENDED);
    ended_with(&fake, 409, NULL);
    assert_string_equal(fake.fields, "content-type: application/json\naudit-id: 7\ncontent-length: 3\nx: 1\n");
    body_is(&fake, "{.}");
    assert_int_equal(counted().running, 0);
    assert_int_equal(counted().passed[KFRONT_WRITE], 1);
    assert_int_equal(counted().bytes_up, 6);
    assert_int_equal(counted().bytes_down, 3);
}

static void a_request_without_a_body_ends_with_its_head(void **state)
{
    (void)state;
    make_krelay(NULL, NULL);
    begin_on(&fake, "GET", NODES, (const char *const[]){NULL}, &a_read);
    fakeexchange_half_close(&fake);
    drive_until(upstream_count(bed.members[0]) == 1 && upstream_request(bed.members[0], 0)->ended);
    assert_null(upstream_field(bed.members[0], 0, "authorization")); /* nobody's stays nobody's */
    upstream_head(bed.members[0], 0, (const char *const[]){":status", "204", NULL}, true);
    drive_until(fake.state == FAKEEXCHANGE_ENDED);
    ended_with(&fake, 204, NULL);
}

static void a_watch_streams_through_until_either_side_ends_it(void **state)
{
    (void)state;
    make_krelay(NULL, NULL);
    get_on(&fake, &a_watch);
    reach(1);
    upstream_head(bed.members[0], 0, plain_head, false);
    for (size_t i = 1; i <= 3; i++) {
        upstream_data(bed.members[0], 0, "line\n", 5);
        drive_until(belfry_buf_len(&fake.body) == 5 * i);
    }
    fakeexchange_gone(&fake);
    drive_until(upstream_request(bed.members[0], 0)->closed);
    assert_int_equal(upstream_request(bed.members[0], 0)->code, 8); /* CANCEL */
    assert_int_equal(counted().running, 0);
}

/* ---- pace ---- */

static void a_reader_that_stands_still_holds_one_window_and_gets_every_byte_later(void **state)
{
    (void)state;
    make_krelay(NULL, NULL);
    struct fakeexchange other;
    fakeexchange_init(&other, EXCHANGE_ROOM);
    get();
    reach(1);
    uint8_t *much = test_malloc(MUCH);
    for (size_t i = 0; i < MUCH; i++)
        much[i] = (uint8_t)(i * 131 >> 5);
    fake.room = 1000;
    upstream_head(bed.members[0], 0, plain_head, false);
    upstream_data(bed.members[0], 0, much, MUCH);
    upstream_trailers(bed.members[0], 0, NULL);
    drive_until(upstream_unsent(bed.members[0], 0) <= MUCH - UPLINK_WINDOW);
    drive_for(50);
    assert_int_equal(belfry_buf_len(&fake.body), 1000);
    get_on(&other, &a_read); /* on the same connection upstream */
    reach(2);
    upstream_head(bed.members[0], 1, plain_head, false);
    upstream_data(bed.members[0], 1, much, MUCH);
    upstream_trailers(bed.members[0], 1, NULL);
    uint64_t end = belfry_clock_ms() + SOON_MS;
    for (; other.state == FAKEEXCHANGE_OPEN && belfry_clock_ms() < end; turn())
        fakeexchange_make_room(&other, 50000);
    assert_int_equal(other.state, FAKEEXCHANGE_ENDED);
    assert_int_equal(fake.state, FAKEEXCHANGE_OPEN);
    for (; fake.state == FAKEEXCHANGE_OPEN && belfry_clock_ms() < end; turn())
        fakeexchange_make_room(&fake, 50000);
    assert_int_equal(fake.state, FAKEEXCHANGE_ENDED);
    assert_int_equal(belfry_buf_len(&fake.body), MUCH);
    assert_memory_equal(belfry_buf_bytes(&fake.body).data, much, MUCH);
    assert_true(counted().held_peak < 2 * UPLINK_WINDOW + 64 * KIB);
    test_free(much);
    fakeexchange_fini(&other);
}

static void an_upstream_that_takes_nothing_holds_the_clients_window(void **state)
{
    (void)state;
    make_krelay(NULL, &(struct upstream_opts){.hold = true});
    static uint8_t part[EXCHANGE_WINDOW];
    begin_write();
    fakeexchange_send(&fake, part, sizeof(part)); /* large enough to set out */
    drive_until(fake.taken > 0);
    while (fake.came - fake.taken < EXCHANGE_WINDOW)
        fakeexchange_send(&fake, part, EXCHANGE_WINDOW - (fake.came - fake.taken));
    drive_for(50);
    assert_int_equal(fake.taken, 65535); /* upstream's window */
    assert_int_equal(fake.came - fake.taken, EXCHANGE_WINDOW);
}

static void a_reader_that_reads_nothing_for_too_long_is_cut_when_calls_are_short(void **state)
{
    (void)state;
    make_krelay(&(struct krelay_opts){.unread_ms = 300}, NULL);
    fakeshares_init(&held, SHARES_CALLS, 1, 100);
    fakeshares_join(&held, &fake.conn, "a");
    get_on(&fake, &a_watch);
    reach(1);
    fake.room = 0;
    upstream_head(bed.members[0], 0, plain_head, false);
    upstream_data(bed.members[0], 0, "line\n", 5);
    drive_until(fake.state == FAKEEXCHANGE_RESET);
    assert_int_equal(counted().unread, 1);
    drive_until(upstream_request(bed.members[0], 0)->closed);
    shares_leave(&fake.conn.share);
    shares_fini(&held.shares);
}

static void a_reader_that_reads_nothing_is_waited_for_while_nothing_is_short(void **state)
{
    (void)state;
    make_krelay(&(struct krelay_opts){.unread_ms = 100}, NULL);
    fakeshares_init(&held, SHARES_CALLS, 100, 100);
    fakeshares_join(&held, &fake.conn, "a");
    get_on(&fake, &a_watch);
    reach(1);
    fake.room = 0;
    upstream_head(bed.members[0], 0, plain_head, false);
    upstream_data(bed.members[0], 0, "line\n", 5);
    drive_for(500);
    assert_int_equal(fake.state, FAKEEXCHANGE_OPEN);
    fakeexchange_make_room(&fake, 100);
    body_is(&fake, "line\n");
    fakeexchange_gone(&fake);
    shares_leave(&fake.conn.share);
    shares_fini(&held.shares);
}

static void a_quiet_watch_is_not_cut_for_being_quiet(void **state)
{
    (void)state;
    make_krelay(&(struct krelay_opts){.unread_ms = 100, .head_ms = 100, .pace_ms = 100, .turn_ms = 100}, NULL);
    get_on(&fake, &a_watch);
    reach(1);
    upstream_head(bed.members[0], 0, plain_head, false);
    upstream_data(bed.members[0], 0, "line\n", 5);
    drive_for(500);
    assert_int_equal(fake.state, FAKEEXCHANGE_OPEN);
    fakeexchange_gone(&fake);
}

static void a_request_that_is_not_complete_in_time_ends(void **state)
{
    (void)state;
    make_krelay(&(struct krelay_opts){.pace_ms = 200}, NULL);
    begin_write();
    fakeexchange_send(&fake, "{", 1);
    drive_until(fake.state == FAKEEXCHANGE_ENDED);
    ended_with(&fake, 504, NULL);
    assert_int_equal(counted().late, 1);
    assert_int_equal(upstream_count(bed.members[0]), 0);
}

static void an_answer_that_does_not_begin_in_time_is_not_waited_for(void **state)
{
    (void)state;
    make_krelay(&(struct krelay_opts){.head_ms = 200}, NULL);
    get();
    drive_until(fake.state == FAKEEXCHANGE_ENDED);
    ended_with(&fake, 504, NULL);
    assert_int_equal(counted().failed, 1);
}

/* ---- upstream is lost ---- */

static void what_was_lost_before_its_answer_may_be_repeated_if_it_reads(void **state)
{
    (void)state;
    make_krelay(NULL, NULL);
    get();
    reach(1);
    upstream_drop(bed.members[0], false);
    drive_until(fake.state == FAKEEXCHANGE_ENDED);
    ended_with(&fake, 503, "1");
    assert_int_equal(upstream_count(bed.members[0]), 1); /* it may have been processed: it is not sent again */
}

static void a_write_that_may_have_been_carried_out_is_not_to_be_repeated(void **state)
{
    (void)state;
    make_krelay(NULL, NULL);
    begin_write();
    fakeexchange_half_close(&fake);
    reach(1);
    upstream_drop(bed.members[0], false);
    drive_until(fake.state == FAKEEXCHANGE_ENDED);
    ended_with(&fake, 504, NULL);
}

static void a_write_that_nobody_took_may_be_repeated(void **state)
{
    (void)state;
    make_krelay(NULL, NULL);
    upstream_drop(bed.members[0], true);
    begin_write();
    fakeexchange_half_close(&fake);
    drive_until(fake.state == FAKEEXCHANGE_ENDED);
    ended_with(&fake, 503, "1");
    assert_int_equal(counted().failed, 1);
}

static void what_was_not_processed_is_sent_again_with_its_whole_body(void **state)
{
    (void)state;
    make_krelay(NULL, NULL);
    get();
    reach(1);
    upstream_reset(bed.members[0], 0, 7); /* REFUSED_STREAM */
    reach(2);
    assert_string_equal(upstream_field(bed.members[0], 1, ":path"), NODES);
    assert_string_equal(upstream_field(bed.members[0], 1, "authorization"), "Bearer t");
    upstream_head(bed.members[0], 1, plain_head, true);
    drive_until(fake.state == FAKEEXCHANGE_ENDED);
    ended_with(&fake, 200, NULL);
    assert_int_equal(counted().repeated, 1);

    fakeexchange_fini(&fake);
    fakeexchange_init(&fake, EXCHANGE_ROOM);
    begin_write();
    fakeexchange_send(&fake, "{body}", 6);
    fakeexchange_half_close(&fake);
    drive_until(upstream_count(bed.members[0]) == 3 && upstream_request(bed.members[0], 2)->ended);
    upstream_reset(bed.members[0], 2, 7);
    drive_until(upstream_count(bed.members[0]) == 4 && upstream_request(bed.members[0], 3)->ended);
    assert_string_equal(upstream_field(bed.members[0], 3, ":method"), "POST");
    assert_int_equal(upstream_request(bed.members[0], 3)->body_len, 6);
    assert_memory_equal(upstream_request(bed.members[0], 3)->body, "{body}", 6);
    upstream_head(bed.members[0], 3, (const char *const[]){":status", "201", NULL}, true);
    drive_until(fake.state == FAKEEXCHANGE_ENDED);
    ended_with(&fake, 201, NULL);
    assert_int_equal(fake.taken, 6);
    assert_int_equal(counted().held_bytes, 0);
}

static void a_long_body_is_not_kept_and_its_request_not_sent_again(void **state)
{
    (void)state;
    make_krelay(NULL, NULL);
    static uint8_t body[KRELAY_KEPT_BYTES + 1];
    begin_write();
    fakeexchange_send(&fake, body, sizeof(body));
    fakeexchange_half_close(&fake);
    drive_until(upstream_count(bed.members[0]) == 1 && upstream_request(bed.members[0], 0)->ended);
    upstream_reset(bed.members[0], 0, 7);
    drive_until(fake.state == FAKEEXCHANGE_ENDED);
    ended_with(&fake, 503, "1");
    assert_int_equal(upstream_count(bed.members[0]), 1);
}

static void an_api_server_that_refuses_forever_is_not_asked_forever(void **state)
{
    (void)state;
    make_krelay(NULL, NULL);
    get();
    uint64_t end = belfry_clock_ms() + SOON_MS;
    for (size_t n = 0; fake.state == FAKEEXCHANGE_OPEN && belfry_clock_ms() < end;) {
        if (upstream_count(bed.members[0]) > n)
            upstream_reset(bed.members[0], n++, 7);
        turn();
    }
    ended_with(&fake, 503, "1");
    assert_int_equal(upstream_count(bed.members[0]), 1 + KRELAY_REPEATS);
}

static void an_answer_that_is_cut_is_cut_and_never_ended(void **state)
{
    (void)state;
    make_krelay(NULL, NULL);
    get();
    reach(1);
    upstream_head(bed.members[0], 0, plain_head, false);
    upstream_data(bed.members[0], 0, "half", 4);
    drive_until(belfry_buf_len(&fake.body) == 4);
    upstream_drop(bed.members[0], false);
    drive_until(fake.state == FAKEEXCHANGE_RESET);
    assert_int_equal(counted().cut, 1);

    fakeexchange_fini(&fake);
    fakeexchange_init(&fake, 0); /* bytes of it wait */
    get();
    reach(2);
    upstream_head(bed.members[0], 1, plain_head, false);
    upstream_data(bed.members[0], 1, "half", 4);
    drive_until(fake.status == 200 && counted().held_bytes > 0);
    upstream_reset(bed.members[0], 1, 2);
    drive_until(fake.state == FAKEEXCHANGE_RESET);
    assert_int_equal(counted().held_bytes, 0);
}

static void at_the_end_of_a_drain_everything_ends(void **state)
{
    (void)state;
    make_krelay(NULL, NULL);
    struct fakeexchange watch;
    fakeexchange_init(&watch, EXCHANGE_ROOM);
    get_on(&watch, &a_watch);
    reach(1);
    upstream_head(bed.members[0], 0, plain_head, false);
    drive_until(watch.status == 200);
    get();
    krelay_end_all(krelay, "belfry: draining");
    ended_with(&fake, 503, "1");
    assert_int_equal(watch.state, FAKEEXCHANGE_RESET);
    assert_int_equal(counted().running, 0);
    fakeexchange_fini(&watch);
}

/* ---- bounds ---- */

#define CALLS 80

static void one_client_gets_half_of_the_turns_and_others_the_rest(void **state)
{
    (void)state;
    make_krelay(&(struct krelay_opts){.turn_ms = 400}, NULL);
    static struct fakeexchange peers[CALLS];
    fakeshares_init(&held, SHARES_CALLS, 10000, 100);
    for (size_t i = 0; i < CALLS; i++) {
        fakeexchange_init(&peers[i], EXCHANGE_ROOM);
        fakeshares_join(&held, &peers[i].conn, "a");
        peers[i].conn.id = 1;
        get_on(&peers[i], &a_read);
    }
    reach(KRELAY_TURNS / 2);
    drive_for(20);
    assert_int_equal(upstream_count(bed.members[0]), KRELAY_TURNS / 2);
    fakeshares_join(&held, &fake.conn, "another");
    fake.conn.id = 2;
    get();
    reach(KRELAY_TURNS / 2 + 1);
    upstream_head(bed.members[0], 0, plain_head, false); /* whose answer begins gives its turn back */
    reach(KRELAY_TURNS / 2 + 2);
    drive_until(peers[CALLS - 1].state == FAKEEXCHANGE_ENDED);
    ended_with(&peers[CALLS - 1], 429, "1");
    fakeexchange_gone(&fake);
    shares_leave(&fake.conn.share);
    for (size_t i = 0; i < CALLS; i++) {
        fakeexchange_gone(&peers[i]);
        assert_int_equal(peers[i].conn.share.held[SHARES_CALLS], 0);
        shares_leave(&peers[i].conn.share);
        fakeexchange_fini(&peers[i]);
    }
    shares_fini(&held.shares);
}

static void watches_that_upstream_is_slow_to_begin_take_their_turns(void **state)
{
    (void)state;
    make_krelay(&(struct krelay_opts){.turn_ms = 100}, NULL); /* they wait longer than that */
    static struct fakeexchange peers[KRELAY_OPENINGS + 4];
    for (size_t i = 0; i < KRELAY_OPENINGS + 4; i++) {
        fakeexchange_init(&peers[i], EXCHANGE_ROOM);
        peers[i].conn.id = i + 1;
        get_on(&peers[i], &a_watch);
    }
    drive_for(100);
    size_t first = upstream_count(bed.members[0]);
    assert_in_range(first, 1, KRELAY_OPENINGS);
    get(); /* short ones do not wait for them */
    reach(first + 1);
    drive_until(upstream_count(bed.members[0]) == KRELAY_OPENINGS + 5); /* no answer began, but time went on */
    for (size_t i = 0; i < KRELAY_OPENINGS + 4; i++) {
        fakeexchange_gone(&peers[i]);
        fakeexchange_fini(&peers[i]);
    }
    fakeexchange_gone(&fake);
}

static void a_request_beyond_the_share_of_its_client_is_refused(void **state)
{
    (void)state;
    make_krelay(NULL, NULL);
    struct fakeexchange peers[3];
    fakeshares_init(&held, SHARES_CALLS, 4, 50);
    for (size_t i = 0; i < 3; i++) {
        fakeexchange_init(&peers[i], EXCHANGE_ROOM);
        fakeshares_join(&held, &peers[i].conn, "a");
        get_on(&peers[i], &a_read);
    }
    assert_int_equal(peers[1].state, FAKEEXCHANGE_OPEN);
    ended_with(&peers[2], 429, "1");
    assert_int_equal(counted().refused, 1);
    for (size_t i = 0; i < 3; i++) {
        fakeexchange_gone(&peers[i]);
        shares_leave(&peers[i].conn.share);
        fakeexchange_fini(&peers[i]);
    }
    shares_fini(&held.shares);
}

static void an_answer_for_which_there_is_no_room_is_cut(void **state)
{
    (void)state;
    make_krelay(NULL, NULL);
    fakeshares_init(&held, SHARES_CALL_BYTES, 64 * KIB, 100);
    fakeshares_join(&held, &fake.conn, "a");
    fake.room = 0;
    get();
    reach(1);
    uint8_t *much = test_calloc(1, MUCH);
    upstream_head(bed.members[0], 0, plain_head, false);
    upstream_data(bed.members[0], 0, much, MUCH);
    drive_until(fake.state == FAKEEXCHANGE_RESET);
    assert_int_equal(counted().over_memory, 1);
    assert_int_equal(counted().held_bytes, 0);
    test_free(much);
    shares_leave(&fake.conn.share);
    shares_fini(&held.shares);
}

static void a_head_that_is_too_long_is_refused(void **state)
{
    (void)state;
    make_krelay(NULL, NULL);
    static char line[60 * KIB];
    memset(line, 'a', sizeof(line) - 1);
    line[1] = ':';
    line[2] = ' ';
    begin_on(&fake, "GET", NODES, (const char *const[]){line, NULL}, &a_read);
    fakeexchange_half_close(&fake);
    ended_with(&fake, 400, NULL);
    assert_int_equal(counted().held_bytes, 0);
}

/* ---- documents ---- */

static void get_document_with(const char *const *fields, const char *body)
{
    fakeexchange_fini(&fake);
    fakeexchange_init(&fake, EXCHANGE_ROOM);
    begin_on(&fake, "GET", "/apis", fields, &a_document);
    if (body != NULL)
        fakeexchange_send(&fake, body, strlen(body));
    fakeexchange_half_close(&fake);
}

static void get_document(const char *const *fields)
{
    get_document_with(fields, NULL);
}

static void answer_document(size_t n, const char *etag, const char *body)
{
    reach(n + 1);
    upstream_head(bed.members[0], n,
                  (const char *const[]){":status", "200", "content-type", "application/json", "etag", etag, "audit-id",
                                        "7", NULL},
                  false);
    upstream_data(bed.members[0], n, body, strlen(body));
    upstream_trailers(bed.members[0], n, NULL);
    drive_until(fake.state == FAKEEXCHANGE_ENDED);
    ended_with(&fake, 200, NULL);
    body_is(&fake, body);
}

static void answer_304(size_t n)
{
    reach(n + 1);
    upstream_head(
        bed.members[0], n,
        (const char *const[]){":status", "304", "etag", "\"1\"", "audit-id", "8", "content-length", "0", NULL}, true);
    drive_until(fake.state == FAKEEXCHANGE_ENDED);
}

static const char *const alice[] = {"authorization: Bearer alice", NULL};
static const char *const bob[] = {"authorization: Bearer bob", NULL};

static void a_copy_is_sent_when_upstream_says_to_this_client_that_it_is_still_right(void **state)
{
    (void)state;
    make_krelay(NULL, NULL);
    get_document(alice);
    answer_document(0, "\"1\"", "{old}");
    assert_null(upstream_field(bed.members[0], 0, "if-none-match"));
    assert_int_equal(counted().documents, 1);

    get_document(bob);
    answer_304(1);
    assert_string_equal(upstream_field(bed.members[0], 1, "if-none-match"), "\"1\"");
    assert_string_equal(upstream_field(bed.members[0], 1, "authorization"), "Bearer bob");
    ended_with(&fake, 200, NULL);
    body_is(&fake, "{old}");
    assert_string_equal(fake.fields, "content-length: 5\ncontent-type: application/json\netag: \"1\"\naudit-id: 8\n");
    assert_int_equal(counted().copies_sent, 1);

    get_document(alice);
    answer_document(2, "\"2\"", "{new}");
    get_document(bob);
    answer_304(3);
    assert_string_equal(upstream_field(bed.members[0], 3, "if-none-match"), "\"2\"");
    body_is(&fake, "{new}");
    assert_int_equal(counted().documents, 1);
}

/* Otherwise it could choose what others read, if upstream looks at the body. */
static void a_request_with_a_body_neither_makes_nor_gets_a_copy(void **state)
{
    (void)state;
    make_krelay(NULL, NULL);
    get_document_with(alice, "body");
    answer_document(0, "\"1\"", "{poison}");
    assert_int_equal(counted().documents, 0);
    get_document(bob);
    answer_document(1, "\"1\"", "{good}");
    assert_null(upstream_field(bed.members[0], 1, "if-none-match"));
    assert_int_equal(counted().documents, 1);

    get_document_with((const char *const[]){"if-none-match: \"1\"", NULL}, "body");
    answer_document(2, "\"1\"", "{poison}");
    assert_null(upstream_field(bed.members[0], 2, "if-none-match"));
    get_document(bob);
    answer_304(3);
    body_is(&fake, "{good}");
}

static void a_client_that_has_the_document_gets_no_copy(void **state)
{
    (void)state;
    make_krelay(NULL, NULL);
    get_document(alice);
    answer_document(0, "\"1\"", "{old}");
    get_document((const char *const[]){"if-none-match: \"0\"", "if-none-match: \"1\"", NULL});
    answer_304(1);
    ended_with(&fake, 304, NULL);
    body_is(&fake, "");
    get_document((const char *const[]){"if-none-match: \"0\"", NULL});
    answer_304(2);
    ended_with(&fake, 200, NULL);
    body_is(&fake, "{old}");
}

static void a_copy_is_not_for_a_client_that_upstream_refuses(void **state)
{
    (void)state;
    make_krelay(NULL, NULL);
    get_document(alice);
    answer_document(0, "\"1\"", "{secret}");
    get_document(bob);
    reach(2);
    upstream_head(bed.members[0], 1, (const char *const[]){":status", "403", NULL}, true);
    drive_until(fake.state == FAKEEXCHANGE_ENDED);
    ended_with(&fake, 403, NULL);
    body_is(&fake, "");
    get_document(bob);
    reach(3);
    upstream_drop(bed.members[0], false);
    drive_until(fake.state == FAKEEXCHANGE_ENDED);
    ended_with(&fake, 503, "1");
}

static void other_forms_are_other_documents(void **state)
{
    (void)state;
    make_krelay(NULL, NULL);
    get_document(alice);
    answer_document(0, "\"1\"", "{old}");
    get_document((const char *const[]){"accept: application/x", NULL});
    reach(2);
    assert_null(upstream_field(bed.members[0], 1, "if-none-match"));
    fakeexchange_gone(&fake);
    get_document((const char *const[]){"range: bytes=1-2", NULL});
    reach(3);
    assert_null(upstream_field(bed.members[0], 2, "if-none-match"));
    fakeexchange_gone(&fake);
}

static void half_a_document_is_no_copy(void **state)
{
    (void)state;
    make_krelay(NULL, NULL);
    get_document(alice);
    reach(1);
    upstream_head(bed.members[0], 0, (const char *const[]){":status", "200", "etag", "\"1\"", NULL}, false);
    upstream_data(bed.members[0], 0, "{ol", 3);
    drive_until(belfry_buf_len(&fake.body) == 3);
    upstream_reset(bed.members[0], 0, 2);
    drive_until(fake.state == FAKEEXCHANGE_RESET);
    assert_int_equal(counted().documents, 0);
    assert_int_equal(counted().document_bytes, 0);
}

static void a_copy_waits_for_its_reader_and_counts_once_for_all(void **state)
{
    (void)state;
    make_krelay(NULL, NULL);
    static char body[200 * KIB];
    memset(body, 'b', sizeof(body) - 1);
    get_document(alice);
    fake.room = 4 * sizeof(body);
    answer_document(0, "\"1\"", body);
    size_t bytes = counted().document_bytes;
    get_document(bob);
    fake.room = 1000;
    reach(2);
    upstream_head(bed.members[0], 1, (const char *const[]){":status", "304", NULL}, true);
    drive_until(fake.status == 200);
    assert_int_equal(belfry_buf_len(&fake.body), 1000);
    assert_true(counted().held_bytes < 64 * KIB);
    assert_int_equal(counted().document_bytes, bytes);
    while (fake.state == FAKEEXCHANGE_OPEN)
        fakeexchange_make_room(&fake, 50000);
    assert_int_equal(fake.state, FAKEEXCHANGE_ENDED);
    body_is(&fake, body);
}

/* ---- memory ---- */

static bool has_ended(void)
{
    return fake.state != FAKEEXCHANGE_OPEN;
}

static void serve(size_t n, const char *const *head, const char *body)
{
    uint64_t end = belfry_clock_ms() + SOON_MS;
    bool answered = false;
    while (!has_ended() && belfry_clock_ms() < end) {
        turn();
        if (!answered && upstream_count(bed.members[0]) > n) {
            answered = true;
            upstream_head(bed.members[0], n, head, body == NULL);
            if (body == NULL)
                continue;
            upstream_data(bed.members[0], n, body, strlen(body));
            upstream_trailers(bed.members[0], n, NULL);
        }
        if (fake.lost)
            fakeexchange_gone(&fake);
    }
    assert_true(has_ended());
}

static enum belfry_err scenario(void)
{
    bed.is_kube = true;
    bed.members[0] = upstream_create(NULL);
    fakeexchange_init(&fake, EXCHANGE_ROOM);
    enum belfry_err err = open_bed();
    if (err == BELFRY_OK)
        err = open_krelay(NULL);
    if (err == BELFRY_OK) {
        get_document(alice);
        serve(0, (const char *const[]){":status", "200", "etag", "\"1\"", NULL}, "body");
        bool first = fake.state == FAKEEXCHANGE_ENDED && fake.status == 200 && counted().documents == 1;
        size_t n = upstream_count(bed.members[0]);
        get_document(bob);
        serve(n, (const char *const[]){":status", "304", NULL}, NULL);
        err = first && fake.state == FAKEEXCHANGE_ENDED && fake.status == 200 ? BELFRY_OK : BELFRY_ERR_NOMEM;
    }
    close_krelay();
    return err;
}

static enum belfry_err write_scenario(void)
{
    bed.is_kube = true;
    bed.members[0] = upstream_create(NULL);
    fakeexchange_init(&fake, 2);
    enum belfry_err err = open_bed();
    if (err == BELFRY_OK)
        err = open_krelay(NULL);
    if (err == BELFRY_OK) {
        begin_write();
        fakeexchange_send(&fake, "{}", 2);
        fakeexchange_half_close(&fake);
        uint64_t end = belfry_clock_ms() + SOON_MS;
        bool answered = false;
        while (!has_ended() && belfry_clock_ms() < end) {
            turn();
            if (!answered && upstream_count(bed.members[0]) > 0) {
                answered = true;
                upstream_head(bed.members[0], 0, plain_head, false);
                upstream_data(bed.members[0], 0, "{made}", 6);
                upstream_trailers(bed.members[0], 0, (const char *const[]){"x", "1", NULL});
            }
            if (fake.lost)
                fakeexchange_gone(&fake);
            else if (!has_ended() && fake.status != 0)
                fakeexchange_make_room(&fake, 2);
        }
        err = fake.state == FAKEEXCHANGE_ENDED && fake.status == 200 ? BELFRY_OK : BELFRY_ERR_NOMEM;
    }
    close_krelay();
    return err;
}

static void without_memory_a_request_ends_and_nothing_leaks(void **state)
{
    (void)state;
    assert_true(refuse_sweep(scenario) > 10);
    assert_true(refuse_sweep(write_scenario) > 10);
}

#define TEST(name) cmocka_unit_test_teardown(name, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_request_goes_up_and_its_answer_comes_down_as_they_are),
        TEST(a_request_without_a_body_ends_with_its_head),
        TEST(a_watch_streams_through_until_either_side_ends_it),
        TEST(a_reader_that_stands_still_holds_one_window_and_gets_every_byte_later),
        TEST(an_upstream_that_takes_nothing_holds_the_clients_window),
        TEST(a_reader_that_reads_nothing_for_too_long_is_cut_when_calls_are_short),
        TEST(a_reader_that_reads_nothing_is_waited_for_while_nothing_is_short),
        TEST(a_quiet_watch_is_not_cut_for_being_quiet),
        TEST(a_request_that_is_not_complete_in_time_ends),
        TEST(an_answer_that_does_not_begin_in_time_is_not_waited_for),
        TEST(what_was_lost_before_its_answer_may_be_repeated_if_it_reads),
        TEST(a_write_that_may_have_been_carried_out_is_not_to_be_repeated),
        TEST(a_write_that_nobody_took_may_be_repeated),
        TEST(what_was_not_processed_is_sent_again_with_its_whole_body),
        TEST(a_long_body_is_not_kept_and_its_request_not_sent_again),
        TEST(an_api_server_that_refuses_forever_is_not_asked_forever),
        TEST(an_answer_that_is_cut_is_cut_and_never_ended),
        TEST(at_the_end_of_a_drain_everything_ends),
        TEST(one_client_gets_half_of_the_turns_and_others_the_rest),
        TEST(watches_that_upstream_is_slow_to_begin_take_their_turns),
        TEST(a_request_beyond_the_share_of_its_client_is_refused),
        TEST(an_answer_for_which_there_is_no_room_is_cut),
        TEST(a_head_that_is_too_long_is_refused),
        TEST(a_copy_is_sent_when_upstream_says_to_this_client_that_it_is_still_right),
        TEST(a_request_with_a_body_neither_makes_nor_gets_a_copy),
        TEST(a_client_that_has_the_document_gets_no_copy),
        TEST(a_copy_is_not_for_a_client_that_upstream_refuses),
        TEST(other_forms_are_other_documents),
        TEST(half_a_document_is_no_copy),
        TEST(a_copy_waits_for_its_reader_and_counts_once_for_all),
        TEST(without_memory_a_request_ends_and_nothing_leaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
