/* src/net/pool_test.c: pools of each policy over real sockets on loopback, against support/fakeupstream. Pins, ranks
 * and full connections: serve/uplink/uplink_test.c; HTTP/1.1: kapi/kube_client_test.c. */
#include "net/pool.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "net/fetch.h"
#include "net/loop.h"
#include "support/fakeupstream.h"
#include "support/refuse.h"

#define SOON_MS 10000

static struct bed {
    struct upstream *members[2];
    struct belfry_loop *loop;
    struct belfry_dns *dns;
    struct belfry_endpoint *endpoints;
    bool barred[2];
    struct belfry_pool *pool;
    enum belfry_err place_err; /* what `place` returns instead of placing */
    size_t n_up, n_down, n_gone;
    bool enqueuing;
    bool over; /* what callbacks would write to is gone with the test's stack */
    char lines[4000];
} bed;

struct call {
    struct belfry_waiter waiter;
    struct belfry_fetch *fetch; /* NULL: it waits, or is over */
    size_t member;              /* it was placed on */
    bool placed, ended;
    enum belfry_err refused, failed;
    char why[200];
};

/* ---- a call ---- */

static void on_head(struct belfry_fetch *fetch, const struct belfry_fetch_head *head, void *user)
{
    (void)fetch, (void)head, (void)user;
}

static void on_body(struct belfry_fetch *fetch, struct belfry_bytes bytes, void *user)
{
    (void)fetch, (void)bytes, (void)user;
}

static void on_end(struct belfry_fetch *fetch, void *user)
{
    struct call *call = user;
    (void)fetch;
    call->fetch = NULL;
    call->ended = true;
}

static void on_failed(struct belfry_fetch *fetch, enum belfry_err err, const char *why, bool unprocessed, void *user)
{
    struct call *call = user;
    (void)fetch, (void)unprocessed;
    if (bed.over)
        return;
    call->fetch = NULL;
    call->failed = err;
    snprintf(call->why, sizeof(call->why), "%s", why);
}

static const struct belfry_fetch_events fetch_events = {
    .head = on_head, .body = on_body, .end = on_end, .failed = on_failed};

static enum belfry_err open_on(struct call *call, struct belfry_carrier *conn)
{
    const struct belfry_fetch_request request = {.method = "GET", .target = "/"};
    for (size_t i = 0; i < 2 && bed.members[i] != NULL; i++) {
        if (strcmp(belfry_carrier_endpoint(conn)->url, upstream_url(bed.members[i])) == 0)
            call->member = i;
    }
    return belfry_fetch_open(belfry_carrier_http(conn), &request, &fetch_events, call, &call->fetch);
}

static void answer(size_t member, size_t request)
{
    upstream_head(bed.members[member], request, (const char *const[]){":status", "200", NULL}, true);
}

/* ---- the pool ---- */

static void on_up(struct belfry_pool *pool, struct belfry_carrier *conn, void *user)
{
    (void)pool, (void)conn, (void)user;
    bed.n_up++;
}

static void on_down(struct belfry_pool *pool, enum belfry_err err, void *user)
{
    (void)pool, (void)user;
    assert_int_not_equal(err, BELFRY_OK);
    bed.n_down++;
}

static enum belfry_err on_place(struct belfry_waiter *waiter, struct belfry_carrier *conn, void *user)
{
    struct call *call = belfry_container(waiter, struct call, waiter);
    (void)user;
    call->placed = true;
    return bed.place_err != BELFRY_OK ? bed.place_err : open_on(call, conn);
}

static void on_refuse(struct belfry_waiter *waiter, enum belfry_err err, const char *why, void *user)
{
    struct call *call = belfry_container(waiter, struct call, waiter);
    (void)user;
    if (bed.over)
        return;
    assert_false(bed.enqueuing);
    call->refused = err;
    snprintf(call->why, sizeof(call->why), "%s", why);
}

static void on_gone(void *user)
{
    (void)user;
    bed.n_gone++;
}

static const struct belfry_pool_events events = {
    .up = on_up, .down = on_down, .place = on_place, .refuse = on_refuse, .gone = on_gone};

static const struct belfry_pool_words words = {
    .up = "it_up", .lost = "it_lost", .failed = "it_failed", .full = "it_full", .again = BELFRY_LOG_DEBUG};

static void on_line(enum belfry_log_level level, const char *event, const char *text, void *user)
{
    size_t used = strlen(bed.lines);
    (void)user;
    snprintf(bed.lines + used, sizeof(bed.lines) - used, "%d %s %s\n", (int)level, event, text);
}

static const struct belfry_log bed_log = {.line = on_line, .level = BELFRY_LOG_DEBUG};

/* `opts`: the policy. */
static enum belfry_err open_bed(struct belfry_pool_opts opts)
{
    char list[200], why[200];
    snprintf(list, sizeof(list), "%s%s%s", upstream_url(bed.members[0]), bed.members[1] != NULL ? "," : "",
             bed.members[1] != NULL ? upstream_url(bed.members[1]) : "");
    enum belfry_err err = belfry_endpoint_parse_list(list, &bed.endpoints, &opts.n_endpoints, why, sizeof(why));
    if (err == BELFRY_OK)
        err = belfry_loop_create(&bed.loop);
    if (err == BELFRY_OK)
        err = belfry_dns_create(belfry_loop_uv(bed.loop), &bed.dns);
    if (err != BELFRY_OK)
        return err;
    opts.loop = belfry_loop_uv(bed.loop);
    opts.dns = bed.dns;
    opts.endpoints = bed.endpoints;
    opts.barred = bed.barred;
    opts.dial_timeout_ms = 2000;
    opts.http = (struct belfry_http_opts){.window = BELFRY_FETCH_WINDOW};
    opts.seed = 1;
    opts.log = &bed_log;
    opts.words = &words;
    return belfry_pool_create(&opts, &events, NULL, &bed.pool);
}

static void make(const struct upstream_opts *upstream, size_t n, struct belfry_pool_opts opts)
{
    for (size_t i = 0; i < n; i++)
        bed.members[i] = upstream_create(upstream);
    assert_int_equal(open_bed(opts), BELFRY_OK);
}

static const struct belfry_pool_opts serial = {.one_at_a_time = true, .wait_ms = BELFRY_POOL_FOREVER, .name = "test"};
static const struct belfry_pool_opts impatient = {.idle_ms = 60000, .max_conns = 10};

static void close_bed(void)
{
    bool had_pool = bed.pool != NULL;
    bed.over = true;
    belfry_pool_destroy(bed.pool, "the test is over");
    belfry_dns_destroy(bed.dns);
    belfry_loop_destroy(bed.loop);
    assert_int_equal(bed.n_gone, had_pool ? 1 : 0);
    free(bed.endpoints);
    for (int i = 0; i < 2; i++)
        upstream_destroy(bed.members[i]);
    memset(&bed, 0, sizeof(bed));
}

static int teardown(void **state)
{
    (void)state;
    close_bed();
    return refuse_held() == 0 ? 0 : -1;
}

static void turn(void)
{
    for (int i = 0; i < 2; i++) {
        if (bed.members[i] != NULL)
            upstream_turn(bed.members[i]);
    }
    belfry_ignore(belfry_loop_wait(bed.loop, 1));
    assert_int_equal(belfry_loop_dispatch(bed.loop), BELFRY_OK);
}

#define drive_until(condition)                                                                                         \
    do {                                                                                                               \
        uint64_t end_ = belfry_clock_ms() + SOON_MS;                                                                   \
        while (!(condition) && belfry_clock_ms() < end_)                                                               \
            turn();                                                                                                    \
        assert_true(condition);                                                                                        \
    } while (0)

static void drive_for(uint64_t ms)
{
    uint64_t end = belfry_clock_ms() + ms;
    while (belfry_clock_ms() < end)
        turn();
}

static void enqueue(struct call *call)
{
    *call = (struct call){0};
    bed.enqueuing = true;
    belfry_pool_enqueue(bed.pool, &call->waiter);
    bed.enqueuing = false;
}

static size_t n_lines(const char *event)
{
    size_t n = 0;
    for (const char *at = bed.lines; (at = strstr(at, event)) != NULL; at++)
        n++;
    return n;
}

/* Opens a call on the connection of a pool without waiters, and waits until the peer has it. */
static void send_call(struct call *call)
{
    struct belfry_carrier *conn = belfry_pool_conn(bed.pool);
    *call = (struct call){0};
    assert_non_null(conn);
    assert_int_equal(open_on(call, conn), BELFRY_OK);
    belfry_carrier_flush(conn);
    size_t n = upstream_count(bed.members[call->member]);
    drive_until(upstream_count(bed.members[call->member]) == n + 1);
}

/* ---- one endpoint at a time ---- */

static void pool_that_is_wanted_connects_and_one_that_is_not_stays_as_it_is(void **state)
{
    (void)state;
    make(NULL, 1, serial);
    drive_for(30);
    assert_null(belfry_pool_conn(bed.pool));
    belfry_pool_want(bed.pool, true);
    assert_null(belfry_pool_conn(bed.pool));
    drive_until(belfry_pool_conn(bed.pool) != NULL);
    char line[200];
    snprintf(line, sizeof(line), "%d it_up link=test endpoint=%s\n", BELFRY_LOG_INFO, upstream_url(bed.members[0]));
    assert_string_equal(bed.lines, line);
    belfry_pool_want(bed.pool, false);
    drive_for(30);
    assert_non_null(belfry_pool_conn(bed.pool));
    upstream_drop(bed.members[0], false);
    drive_until(bed.n_down == 1);
    drive_for(100);
    assert_int_equal(bed.n_up, 1);
    assert_null(belfry_pool_conn(bed.pool));
    assert_int_equal(belfry_pool_counts(bed.pool).losses, 1);
    belfry_pool_want(bed.pool, true);
    drive_until(bed.n_up == 2);
}

static void endpoint_that_refuses_is_left_for_the_next(void **state)
{
    (void)state;
    make(NULL, 2, serial);
    upstream_drop(bed.members[0], true);
    belfry_pool_want(bed.pool, true);
    drive_until(bed.n_up == 1);
    assert_int_equal(belfry_pool_at(bed.pool), 1);
    assert_false(belfry_pool_exhausted(bed.pool));
    char why[400];
    belfry_pool_describe(bed.pool, why, sizeof(why));
    assert_non_null(strstr(why, upstream_url(bed.members[0])));
    assert_non_null(strstr(why, "connection refused"));
    belfry_pool_good(bed.pool, belfry_pool_conn(bed.pool));
    belfry_pool_describe(bed.pool, why, sizeof(why));
    assert_string_equal(why, "");
}

static void rounds_of_failures_have_growing_rests_between_them(void **state)
{
    (void)state;
    make(NULL, 2, serial);
    upstream_drop(bed.members[0], true);
    upstream_drop(bed.members[1], true);
    belfry_pool_want(bed.pool, true);
    drive_for(400); /* rounds at 0, 0, 50, 126, 241, 415 ms, each rest shortened by up to a half */
    assert_in_range(bed.n_down, 6, 18);
    assert_true(belfry_pool_exhausted(bed.pool));
    assert_int_equal(n_lines("it_failed"), bed.n_down);
    assert_int_equal(belfry_pool_counts(bed.pool).losses, 0);
    upstream_listen(bed.members[1]);
    drive_until(bed.n_up == 1);
    belfry_pool_good(bed.pool, belfry_pool_conn(bed.pool));
    assert_false(belfry_pool_exhausted(bed.pool));
}

static void calls_go_on_at_an_endpoint_that_was_left(void **state)
{
    (void)state;
    make(NULL, 2, serial);
    belfry_pool_want(bed.pool, true);
    drive_until(bed.n_up == 1);
    struct call call;
    send_call(&call);
    belfry_pool_leave(bed.pool, BELFRY_ERR_CLUSTER, "of no use");
    assert_null(belfry_pool_conn(bed.pool));
    assert_int_equal(bed.n_down, 1);
    assert_non_null(strstr(bed.lines, "it_lost link=test endpoint="));
    assert_non_null(strstr(bed.lines, "why=\"of no use\""));
    drive_until(bed.n_up == 2);
    assert_int_equal(belfry_pool_at(bed.pool), 1);
    assert_int_equal(upstream_n_conns(bed.members[0]), 1);
    answer(0, 0);
    drive_until(call.ended);
    drive_until(upstream_n_conns(bed.members[0]) == 0);
    assert_int_equal(bed.n_down, 1);
}

static void peer_that_goes_away_is_replaced_and_ends_its_calls(void **state)
{
    (void)state;
    make(NULL, 1, serial);
    belfry_pool_want(bed.pool, true);
    drive_until(bed.n_up == 1);
    struct call call;
    send_call(&call);
    upstream_goaway(bed.members[0], false);
    drive_until(bed.n_up == 2);
    assert_non_null(strstr(bed.lines, "why=\"the server is going away\""));
    drive_until(upstream_n_conns(bed.members[0]) == 2);
    answer(0, 0);
    drive_until(call.ended);
    drive_until(upstream_n_conns(bed.members[0]) == 1);
}

static void answers_on_a_connection_that_was_left_are_no_reason_to_return(void **state)
{
    (void)state;
    make(NULL, 1, serial);
    belfry_pool_want(bed.pool, true);
    drive_until(bed.n_up == 1);
    struct call call;
    send_call(&call);
    struct belfry_carrier *old = belfry_pool_conn(bed.pool);
    belfry_pool_leave(bed.pool, BELFRY_ERR_UNAVAILABLE, "of no use");
    belfry_pool_good(bed.pool, old);
    assert_true(belfry_pool_exhausted(bed.pool));
    belfry_pool_good(bed.pool, NULL);
    assert_true(belfry_pool_exhausted(bed.pool));
}

static void barred_endpoint_is_passed_over(void **state)
{
    (void)state;
    make(NULL, 2, serial);
    bed.barred[0] = true;
    belfry_pool_want(bed.pool, true);
    drive_until(bed.n_up == 1);
    assert_int_equal(belfry_pool_at(bed.pool), 1);
    assert_int_equal(upstream_n_conns(bed.members[0]), 0);
    bed.barred[1] = true;
    belfry_pool_leave(bed.pool, BELFRY_ERR_REFUSED, "barred by the test");
    drive_for(100);
    assert_null(belfry_pool_conn(bed.pool));
    assert_true(belfry_pool_exhausted(bed.pool));
    bed.barred[0] = false;
    drive_until(bed.n_up == 2);
    assert_int_equal(belfry_pool_at(bed.pool), 0);
}

/* ---- waiters ---- */

static void waiters_share_a_connection(void **state)
{
    (void)state;
    make(NULL, 1, impatient);
    struct call calls[5];
    for (size_t i = 0; i < 5; i++)
        enqueue(&calls[i]);
    drive_until(upstream_count(bed.members[0]) == 5);
    struct belfry_pool_counts counts = belfry_pool_counts(bed.pool);
    assert_int_equal(counts.connects, 1);
    assert_int_equal(counts.connections, 1);
    assert_int_equal(counts.http2, 1);
    for (size_t i = 0; i < 5; i++) {
        assert_false(calls[i].waiter.reused);
        answer(0, i);
        drive_until(calls[i].ended);
    }
    enqueue(&calls[0]);
    assert_true(calls[0].placed && calls[0].waiter.reused);
}

static void without_a_wait_all_waiters_are_refused_when_dialling_fails(void **state)
{
    (void)state;
    make(NULL, 1, impatient);
    upstream_drop(bed.members[0], true);
    struct call calls[3], gone;
    for (size_t i = 0; i < 3; i++)
        enqueue(&calls[i]);
    enqueue(&gone);
    belfry_pool_dequeue(&gone.waiter);
    for (size_t i = 0; i < 3; i++) {
        drive_until(calls[i].refused != BELFRY_OK);
        assert_int_equal(calls[i].refused, BELFRY_ERR_UNAVAILABLE);
        assert_non_null(strstr(calls[i].why, "connection refused"));
    }
    assert_int_equal(gone.refused, BELFRY_OK);
    upstream_listen(bed.members[0]); /* and there is no rest before the next */
    enqueue(&calls[0]);
    drive_until(calls[0].placed);
}

static void without_full_ms_another_connection_is_made_and_both_get_calls(void **state)
{
    (void)state;
    make(&(struct upstream_opts){.max_streams = 1}, 1, impatient);
    struct call calls[3];
    enqueue(&calls[0]);
    drive_until(upstream_count(bed.members[0]) == 1);
    enqueue(&calls[1]);
    drive_until(upstream_count(bed.members[0]) == 2);
    assert_int_equal(belfry_pool_counts(bed.pool).connections, 2);
    answer(0, 0);
    drive_until(calls[0].ended);
    enqueue(&calls[2]);
    assert_true(calls[2].placed && calls[2].waiter.reused);
    drive_until(upstream_count(bed.members[0]) == 3);
    assert_int_equal(belfry_pool_counts(bed.pool).connects, 2);
}

static void connections_are_bounded(void **state)
{
    (void)state;
    struct belfry_pool_opts opts = impatient;
    opts.max_conns = 2;
    make(&(struct upstream_opts){.max_streams = 1}, 1, opts);
    struct call calls[3];
    enqueue(&calls[0]);
    drive_until(upstream_count(bed.members[0]) == 1);
    enqueue(&calls[1]);
    drive_until(upstream_count(bed.members[0]) == 2); /* now its limit is known, too */
    enqueue(&calls[2]);
    drive_for(50);
    assert_int_equal(upstream_n_conns(bed.members[0]), 2);
    assert_false(calls[2].placed);
    answer(0, 0);
    drive_until(calls[2].placed);
    belfry_pool_dequeue(&calls[2].waiter);
}

static void idle_connections_are_closed_after_a_while(void **state)
{
    (void)state;
    struct belfry_pool_opts opts = impatient;
    opts.idle_ms = 200;
    make(NULL, 1, opts);
    struct call call;
    enqueue(&call);
    drive_for(300);
    assert_int_equal(belfry_pool_counts(bed.pool).connections, 1); /* it has a call */
    answer(0, 0);
    drive_until(call.ended);
    drive_for(50);
    assert_int_equal(belfry_pool_counts(bed.pool).connections, 1);
    drive_until(belfry_pool_counts(bed.pool).connections == 0);
    drive_until(upstream_n_conns(bed.members[0]) == 0);
    assert_int_equal(belfry_pool_counts(bed.pool).losses, 0);
}

static void end_of_an_idle_connection_is_no_loss(void **state)
{
    (void)state;
    make(NULL, 1, impatient);
    struct call call;
    enqueue(&call);
    drive_until(upstream_count(bed.members[0]) == 1);
    answer(0, 0);
    drive_until(call.ended);
    upstream_drop(bed.members[0], false);
    drive_until(belfry_pool_counts(bed.pool).connections == 0);
    assert_int_equal(belfry_pool_counts(bed.pool).losses, 0);
}

static void waiter_that_cannot_be_placed_is_refused_from_the_loop(void **state)
{
    (void)state;
    make(NULL, 1, impatient);
    struct call first, bad, good;
    enqueue(&first);
    drive_until(upstream_count(bed.members[0]) == 1);
    bed.place_err = BELFRY_ERR_INVALID;
    enqueue(&bad);
    assert_true(bad.placed);
    assert_int_equal(bad.refused, BELFRY_OK);
    bed.place_err = BELFRY_OK;
    enqueue(&good);
    drive_until(bad.refused == BELFRY_ERR_INVALID);
    drive_until(upstream_count(bed.members[0]) == 2);
}

static void waiters_without_an_endpoint_are_refused_after_the_wait(void **state)
{
    (void)state;
    make(NULL, 2, (struct belfry_pool_opts){.wait_ms = 300, .full_ms = 1000, .max_conns = 10});
    upstream_drop(bed.members[0], true);
    upstream_drop(bed.members[1], true);
    uint64_t began = belfry_clock_ms();
    struct call call;
    enqueue(&call);
    drive_until(call.refused == BELFRY_ERR_UNAVAILABLE);
    assert_true(belfry_clock_ms() - began >= 300);
    assert_non_null(strstr(call.why, upstream_url(bed.members[0])));
    assert_non_null(strstr(call.why, upstream_url(bed.members[1])));
    assert_int_equal(n_lines("2 it_failed"), 2); /* the first of each; those for the same reason are for debugging */
    assert_true(n_lines("3 it_failed") > 0);
}

static void destroying_refuses_those_that_wait_and_ends_calls(void **state)
{
    (void)state;
    make(&(struct upstream_opts){.max_streams = 1}, 1, (struct belfry_pool_opts){.wait_ms = 9000, .full_ms = 9000});
    struct call running, waiting;
    enqueue(&running);
    drive_until(upstream_count(bed.members[0]) == 1);
    enqueue(&waiting);
    belfry_pool_destroy(bed.pool, "it was enough");
    assert_int_equal(running.failed, BELFRY_ERR_UNAVAILABLE);
    assert_string_equal(running.why, "it was enough");
    assert_int_equal(waiting.refused, BELFRY_ERR_UNAVAILABLE);
    assert_string_equal(waiting.why, "it was enough");
    drive_until(bed.n_gone == 1);
    bed.n_gone = 0;
    bed.pool = NULL;
}

/* ---- memory ---- */

static enum belfry_err life(struct belfry_pool_opts opts)
{
    static struct call call;
    bed.members[0] = upstream_create(NULL);
    enum belfry_err err = open_bed(opts);
    if (err == BELFRY_OK)
        enqueue(&call);
    uint64_t until = belfry_clock_ms() + SOON_MS;
    for (bool answered = false; err == BELFRY_OK && !call.ended; turn()) {
        err = call.refused != BELFRY_OK ? call.refused : call.failed;
        assert_true(belfry_clock_ms() < until);
        if (!answered && upstream_count(bed.members[0]) > 0) {
            answered = true;
            answer(0, 0);
        }
    }
    close_bed();
    return err == BELFRY_OK ? BELFRY_OK : BELFRY_ERR_NOMEM; /* a connection without memory is lost */
}

static enum belfry_err life_without_a_wait(void)
{
    return life(impatient);
}

static enum belfry_err life_with_rests(void)
{
    return life((struct belfry_pool_opts){.wait_ms = 4000, .full_ms = 1000, .max_conns = 10});
}

static void without_memory_a_waiter_is_refused_or_waits_on_and_nothing_leaks(void **state)
{
    (void)state;
    assert_true(refuse_sweep(life_without_a_wait) > 10);
    assert_true(refuse_sweep(life_with_rests) > 10);
}

#define row(name) cmocka_unit_test_teardown(name, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        row(pool_that_is_wanted_connects_and_one_that_is_not_stays_as_it_is),
        row(endpoint_that_refuses_is_left_for_the_next),
        row(rounds_of_failures_have_growing_rests_between_them),
        row(calls_go_on_at_an_endpoint_that_was_left),
        row(peer_that_goes_away_is_replaced_and_ends_its_calls),
        row(answers_on_a_connection_that_was_left_are_no_reason_to_return),
        row(barred_endpoint_is_passed_over),
        row(waiters_share_a_connection),
        row(without_a_wait_all_waiters_are_refused_when_dialling_fails),
        row(without_full_ms_another_connection_is_made_and_both_get_calls),
        row(connections_are_bounded),
        row(idle_connections_are_closed_after_a_while),
        row(end_of_an_idle_connection_is_no_loss),
        row(waiter_that_cannot_be_placed_is_refused_from_the_loop),
        row(waiters_without_an_endpoint_are_refused_after_the_wait),
        row(destroying_refuses_those_that_wait_and_ends_calls),
        row(without_memory_a_waiter_is_refused_or_waits_on_and_nothing_leaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
