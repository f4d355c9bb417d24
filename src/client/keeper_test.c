/* src/client/keeper_test.c: the keeper of a lease on a clock that the test moves. */
#include "client/keeper.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/refuse.h"

#define ID          77
#define TTL_S       9
#define TTL_MS      9000
#define PATIENCE_MS 5000
#define DRIFT_MS    9 /* a thousandth of the ttl */

static struct belfry_keeper keeper;
static uint64_t now = 1000000;

static struct belfry_keeper_step turn(void)
{
    return belfry_keeper_turn(&keeper, now);
}

static struct belfry_keeper_step answer(int64_t ttl_s)
{
    struct belfry_keeper_answer answer = {.err = BELFRY_OK, .why = "", .ttl_s = ttl_s};
    return belfry_keeper_answer(&keeper, &answer, now);
}

static struct belfry_keeper_step failure(enum belfry_err err, const char *why)
{
    struct belfry_keeper_answer answer = {.err = err, .why = why};
    return belfry_keeper_answer(&keeper, &answer, now);
}

static void begin(void)
{
    belfry_keeper_init(&keeper, ID, TTL_S, PATIENCE_MS, now);
    assert_int_equal(turn().send, BELFRY_KEEPER_GRANT);
}

/* Granted `late_ms` after it was asked for. */
static void hold(uint64_t late_ms)
{
    begin();
    now += late_ms;
    assert_int_equal(answer(TTL_S).event.kind, BELFRY_LEASE_HELD);
}

/* Moves the clock to when something is due; nothing may happen before. */
static struct belfry_keeper_step next(void)
{
    uint64_t due = belfry_keeper_due(&keeper);
    assert_true(due != BELFRY_NEVER && due >= now);
    if (due > now) {
        now = due - 1;
        struct belfry_keeper_step early = turn();
        assert_true(early.send == BELFRY_KEEPER_NONE && early.event.kind == 0);
        now = due;
    }
    return turn();
}

static void a_lease_is_granted_and_told_once(void **state)
{
    (void)state;
    belfry_keeper_init(&keeper, ID, TTL_S, PATIENCE_MS, 1);
    assert_int_equal(belfry_keeper_left_ms(&keeper, now), 0);
    struct belfry_keeper_step step = turn();
    assert_int_equal(step.send, BELFRY_KEEPER_GRANT);
    assert_int_equal(step.wait_ms, PATIENCE_MS);
    assert_int_equal(turn().send, BELFRY_KEEPER_NONE);
    assert_true(belfry_keeper_due(&keeper) == BELFRY_NEVER);
    step = answer(TTL_S + 1); /* the server may give more */
    assert_int_equal(step.event.kind, BELFRY_LEASE_HELD);
    assert_int_equal(step.event.id, ID);
    assert_int_equal(step.event.ttl_s, TTL_S + 1);
    assert_int_equal(next().send, BELFRY_KEEPER_RENEW);
    assert_int_equal(answer(TTL_S).event.kind, BELFRY_LEASE_RENEWED);
}

static void time_is_counted_from_the_sending_not_from_the_answer(void **state)
{
    (void)state;
    uint64_t asked = now;
    hold(4000);
    assert_int_equal(belfry_keeper_left_ms(&keeper, now), asked + TTL_MS - DRIFT_MS - now);
    assert_int_equal(turn().send, BELFRY_KEEPER_RENEW); /* a third of the ttl is over already */
    uint64_t sent = now;
    now += 1200;
    struct belfry_keeper_step step = answer(TTL_S);
    assert_int_equal(step.event.kind, BELFRY_LEASE_RENEWED);
    assert_int_equal(step.event.left_ms, TTL_MS - DRIFT_MS - 1200);
    assert_int_equal(belfry_keeper_left_ms(&keeper, sent + TTL_MS - DRIFT_MS - 1), 1);
    assert_int_equal(belfry_keeper_left_ms(&keeper, sent + TTL_MS - DRIFT_MS), 0);
}

static void it_is_renewed_after_a_third_of_its_life_give_or_take_a_little(void **state)
{
    uint64_t least = TTL_MS, most = 0;
    (void)state;
    hold(0);
    for (int i = 0; i < 200; i++) {
        uint64_t from = now;
        assert_int_equal(next().send, BELFRY_KEEPER_RENEW);
        least = now - from < least ? now - from : least;
        most = now - from > most ? now - from : most;
        assert_int_equal(answer(TTL_S).event.kind, BELFRY_LEASE_RENEWED);
    }
    assert_in_range(least, TTL_MS / 3 - TTL_MS / 30, TTL_MS / 3 - TTL_MS / 60);
    assert_in_range(most, TTL_MS / 3 - TTL_MS / 60, TTL_MS / 3);
}

static void a_failed_renewal_is_told_and_repeated_until_the_lease_may_be_gone(void **state)
{
    int n_late = 0;
    (void)state;
    hold(0);
    uint64_t deadline = now + TTL_MS - DRIFT_MS, last = now;
    struct belfry_keeper_step step = next();
    while (step.event.kind != BELFRY_LEASE_END) {
        assert_int_equal(step.send, BELFRY_KEEPER_RENEW);
        assert_true(step.wait_ms > 0 && now + step.wait_ms <= deadline);
        now += step.wait_ms;
        step = failure(BELFRY_ERR_UNAVAILABLE, "no endpoint answers");
        if (step.event.kind == BELFRY_LEASE_END)
            break;
        assert_int_equal(step.event.kind, BELFRY_LEASE_LATE);
        assert_int_equal(step.event.left_ms, deadline - now);
        assert_string_equal(step.event.why, "no endpoint answers");
        n_late++;
        last = now;
        step = next();
        assert_true(now - last <= 1000);
    }
    assert_int_equal(now, deadline);
    assert_int_equal(step.event.err, BELFRY_ERR_TIMEOUT);
    assert_int_equal(step.event.id, ID);
    assert_non_null(strstr(step.event.why, "no endpoint answers"));
    assert_in_range(n_late, 3, 6);
    assert_true(belfry_keeper_due(&keeper) == BELFRY_NEVER);
    assert_int_equal(turn().send, BELFRY_KEEPER_NONE);
    assert_true(belfry_keeper_may_exist(&keeper));
}

static void a_renewal_after_failures_makes_it_whole_again(void **state)
{
    (void)state;
    hold(0);
    next();
    now += 100;
    assert_int_equal(failure(BELFRY_ERR_TIMEOUT, "no answer in time").event.kind, BELFRY_LEASE_LATE);
    assert_int_equal(belfry_keeper_due(&keeper), now); /* the first is repeated at once */
    assert_int_equal(next().send, BELFRY_KEEPER_RENEW);
    now += 1;
    assert_int_equal(failure(BELFRY_ERR_AUTH, "who are you?").event.kind, BELFRY_LEASE_LATE);
    assert_true(belfry_keeper_due(&keeper) > now);
    assert_int_equal(next().send, BELFRY_KEEPER_RENEW);
    struct belfry_keeper_step step = answer(TTL_S);
    assert_int_equal(step.event.kind, BELFRY_LEASE_RENEWED);
    assert_int_equal(step.event.left_ms, TTL_MS - DRIFT_MS);
}

static void a_renewal_that_hangs_does_not_outlive_the_lease(void **state)
{
    (void)state;
    hold(0);
    uint64_t deadline = now + TTL_MS - DRIFT_MS;
    assert_int_equal(next().send, BELFRY_KEEPER_RENEW);
    assert_int_equal(belfry_keeper_due(&keeper), deadline);
    struct belfry_keeper_step step = next();
    assert_int_equal(now, deadline);
    assert_int_equal(step.event.kind, BELFRY_LEASE_END);
    assert_int_equal(step.event.err, BELFRY_ERR_TIMEOUT);
}

static void an_answer_that_comes_after_a_long_stop_is_no_lease(void **state)
{
    (void)state;
    hold(0);
    assert_int_equal(next().send, BELFRY_KEEPER_RENEW);
    now += TTL_MS; /* the process was stopped, the answer lay in the socket */
    struct belfry_keeper_step step = answer(TTL_S);
    assert_int_equal(step.event.kind, BELFRY_LEASE_END);
    assert_int_equal(step.event.err, BELFRY_ERR_TIMEOUT);
    assert_int_equal(step.event.left_ms, 0);

    begin();
    now += TTL_MS;
    assert_int_equal(answer(TTL_S).event.err, BELFRY_ERR_TIMEOUT);
}

static void after_a_sleep_nothing_is_renewed_that_may_be_gone(void **state)
{
    (void)state;
    hold(0);
    now += 3600 * 1000;
    assert_int_equal(belfry_keeper_left_ms(&keeper, now), 0);
    struct belfry_keeper_step step = turn();
    assert_int_equal(step.send, BELFRY_KEEPER_NONE);
    assert_int_equal(step.event.kind, BELFRY_LEASE_END);
    assert_int_equal(step.event.err, BELFRY_ERR_TIMEOUT);
}

static void a_lease_that_the_server_does_not_have_is_over(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        hold(0);
        next();
        struct belfry_keeper_step step =
            i == 0 ? answer(0) : failure(BELFRY_ERR_NOT_FOUND, "requested lease not found");
        assert_int_equal(step.event.kind, BELFRY_LEASE_END);
        assert_int_equal(step.event.err, BELFRY_ERR_NOT_FOUND);
        assert_int_equal(step.event.id, ID);
        assert_false(belfry_keeper_may_exist(&keeper));
    }
}

static void a_grant_that_was_made_before_its_answer_was_lost_is_found(void **state)
{
    struct belfry_keeper_answer exists = {.err = BELFRY_ERR_REFUSED, .why = "lease already exists", .exists = true};
    (void)state;
    begin();
    now += 3000;
    assert_int_equal(belfry_keeper_answer(&keeper, &exists, now).event.kind, 0);
    struct belfry_keeper_step step = next();
    assert_int_equal(step.send, BELFRY_KEEPER_RENEW);
    assert_int_equal(step.wait_ms, PATIENCE_MS);
    now += 10;
    step = answer(TTL_S);
    assert_int_equal(step.event.kind, BELFRY_LEASE_HELD);
    assert_int_equal(step.event.left_ms, TTL_MS - DRIFT_MS - 10);

    begin(); /* and it may have expired meanwhile */
    belfry_keeper_answer(&keeper, &exists, now);
    next();
    assert_int_equal(answer(0).event.err, BELFRY_ERR_NOT_FOUND);
    begin();
    belfry_keeper_answer(&keeper, &exists, now);
    next();
    assert_int_equal(failure(BELFRY_ERR_TIMEOUT, "no answer").event.err, BELFRY_ERR_TIMEOUT);
}

static void a_grant_that_fails_is_the_end(void **state)
{
    (void)state;
    begin();
    struct belfry_keeper_step step = failure(BELFRY_ERR_DENIED, "permission denied");
    assert_int_equal(step.event.kind, BELFRY_LEASE_END);
    assert_int_equal(step.event.err, BELFRY_ERR_DENIED);
    assert_int_equal(step.event.id, 0);
    assert_int_equal(step.event.ttl_s, 0);
    assert_string_equal(step.event.why, "permission denied");
    begin();
    assert_int_equal(failure(BELFRY_ERR_NOT_FOUND, "nobody here").event.err, BELFRY_ERR_NOT_FOUND);
    begin();
    assert_int_equal(answer(0).event.err, BELFRY_ERR_PROTOCOL);
    begin();
    assert_int_equal(answer(-5).event.err, BELFRY_ERR_PROTOCOL);
}

static void a_ttl_without_end_does_not_overflow(void **state)
{
    (void)state;
    begin();
    struct belfry_keeper_step step = answer(INT64_MAX);
    assert_int_equal(step.event.kind, BELFRY_LEASE_HELD);
    assert_true(step.event.left_ms > INT64_C(8000000000) * 1000);
    assert_int_equal(next().wait_ms, PATIENCE_MS);
}

static void the_shortest_life_leaves_time_for_a_second_try(void **state)
{
    (void)state;
    belfry_keeper_init(&keeper, ID, 1, PATIENCE_MS, 3);
    turn();
    assert_int_equal(answer(1).event.kind, BELFRY_LEASE_HELD);
    uint64_t granted = now;
    struct belfry_keeper_step step = next();
    assert_in_range(now - granted, 290, 334);
    assert_int_equal(step.wait_ms, 500);
    now += step.wait_ms;
    assert_int_equal(failure(BELFRY_ERR_TIMEOUT, "slow").event.kind, BELFRY_LEASE_LATE);
    step = next();
    assert_int_equal(step.send, BELFRY_KEEPER_RENEW);
    assert_true(now + step.wait_ms <= granted + 1000);
}

static void a_long_reason_is_cut(void **state)
{
    char why[2 * BELFRY_KEEPER_WHY];
    (void)state;
    memset(why, 'x', sizeof(why) - 1);
    why[sizeof(why) - 1] = '\0';
    hold(0);
    next();
    struct belfry_keeper_step step = failure(BELFRY_ERR_UNAVAILABLE, why);
    assert_int_equal(strlen(step.event.why), BELFRY_KEEPER_WHY - 1);
    now += TTL_MS;
    step = turn();
    assert_int_equal(step.event.kind, BELFRY_LEASE_END);
    assert_true(strlen(step.event.why) < BELFRY_KEEPER_WHY);
}

static enum belfry_err scenario(void)
{
    hold(0);
    next();
    return answer(0).event.err == BELFRY_ERR_NOT_FOUND ? BELFRY_OK : BELFRY_ERR_PROTOCOL;
}

static void a_keeper_allocates_nothing(void **state)
{
    (void)state;
    assert_int_equal(refuse_sweep(scenario), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lease_is_granted_and_told_once),
        cmocka_unit_test(time_is_counted_from_the_sending_not_from_the_answer),
        cmocka_unit_test(it_is_renewed_after_a_third_of_its_life_give_or_take_a_little),
        cmocka_unit_test(a_failed_renewal_is_told_and_repeated_until_the_lease_may_be_gone),
        cmocka_unit_test(a_renewal_after_failures_makes_it_whole_again),
        cmocka_unit_test(a_renewal_that_hangs_does_not_outlive_the_lease),
        cmocka_unit_test(an_answer_that_comes_after_a_long_stop_is_no_lease),
        cmocka_unit_test(after_a_sleep_nothing_is_renewed_that_may_be_gone),
        cmocka_unit_test(a_lease_that_the_server_does_not_have_is_over),
        cmocka_unit_test(a_grant_that_was_made_before_its_answer_was_lost_is_found),
        cmocka_unit_test(a_grant_that_fails_is_the_end),
        cmocka_unit_test(a_ttl_without_end_does_not_overflow),
        cmocka_unit_test(the_shortest_life_leaves_time_for_a_second_try),
        cmocka_unit_test(a_long_reason_is_cut),
        cmocka_unit_test(a_keeper_allocates_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
