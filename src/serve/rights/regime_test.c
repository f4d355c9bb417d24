/* src/serve/rights/regime_test.c: what follows from answers whether auth is on, by a clock that the test moves. */
#include "serve/rights/regime.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/clock.h"

#define PERIOD 10000

static const struct regime_needs running = {.running = true}, waiting = {.waiting = true}, none = {0};

static struct regime regime;
static uint64_t now;

static int set_up(void **state)
{
    (void)state;
    now = 1000000;
    regime_init(&regime, PERIOD, 7);
    return 0;
}

/* Asks now, and is answered after a while. */
static enum regime_worth told(enum permit_auth auth, uint64_t after_ms)
{
    assert_true(regime_may_ask(&regime, now));
    regime_asked(&regime, now);
    assert_false(regime_may_ask(&regime, now));
    now += after_ms;
    return regime_answer(&regime, auth, running, now);
}

static void off_is_valid_for_a_second_for_new_questions_counted_from_the_question(void **state)
{
    (void)state;
    assert_false(regime_is_fresh(&regime, now));
    assert_int_equal(told(PERMIT_AUTH_OFF, 300), REGIME_KNOWN);
    assert_int_equal(regime.auth, PERMIT_AUTH_OFF);
    assert_true(regime_is_fresh(&regime, now + REGIME_OFF_MS - 301));
    assert_false(regime_is_fresh(&regime, now + REGIME_OFF_MS - 300));
    assert_true(regime_settles(&regime, now - 300, now + REGIME_OFF_MS)); /* it came before auth was asked about */
    assert_false(regime_settles(&regime, now - 299, now + REGIME_OFF_MS));
}

static void off_is_valid_for_most_of_a_period_for_watches_that_run(void **state)
{
    (void)state;
    assert_int_equal(regime.state, PERMIT_UNSURE);
    assert_false(regime_is_open(&regime, now));
    uint64_t asked = now;
    assert_int_equal(told(PERMIT_AUTH_OFF, 300), REGIME_KNOWN);
    assert_int_equal(regime.state, PERMIT_OPEN);
    assert_true(regime_is_open(&regime, now));
    uint64_t due = regime_ask_due(&regime, running);
    assert_true(due >= asked + PERIOD * 4 / 10 && due <= asked + PERIOD * 7 / 10);
    assert_true(regime_ask_due(&regime, none) == BELFRY_NEVER);
    assert_false(regime_turn(&regime, asked + PERIOD * 8 / 10 - 1));
    assert_int_equal(regime.state, PERMIT_OPEN);
    assert_false(regime_is_open(&regime, asked + PERIOD)); /* even if no turn was punctual */
    assert_false(regime_turn(&regime, asked + PERIOD * 8 / 10));
    assert_int_equal(regime.state, PERMIT_UNSURE);
    assert_false(regime_is_open(&regime, asked + PERIOD * 8 / 10));
}

static void on_makes_watches_that_run_ask(void **state)
{
    (void)state;
    assert_int_equal(told(PERMIT_AUTH_OFF, 0), REGIME_KNOWN);
    assert_int_equal(told(PERMIT_AUTH_ON, 0), REGIME_KNOWN);
    assert_int_equal(regime.state, PERMIT_ASKS);
    assert_false(regime_is_open(&regime, now));
    assert_true(regime_ask_due(&regime, running) == BELFRY_NEVER);
    assert_true(regime_ask_due(&regime, waiting) <= now);
}

/* Each relayed call of Auth is a doubt, so that a client can cause them without end. */
static void on_is_heeded_by_watches_that_run_whatever_doubts_there_are(void **state)
{
    (void)state;
    assert_int_equal(told(PERMIT_AUTH_OFF, 0), REGIME_KNOWN);
    regime_asked(&regime, now);
    regime_doubt(&regime);
    assert_int_equal(regime_answer(&regime, PERMIT_AUTH_ON, running, now), REGIME_IN_DOUBT);
    assert_int_equal(regime.auth, PERMIT_AUTH_UNKNOWN); /* for new questions */
    assert_int_equal(regime.state, PERMIT_ASKS);
}

static void doubts_do_not_stop_watches_while_auth_is_off(void **state)
{
    (void)state;
    assert_int_equal(told(PERMIT_AUTH_OFF, 0), REGIME_KNOWN);
    for (int i = 0; i < 10; i++) {
        now += PERIOD / 2;
        assert_false(regime_turn(&regime, now));
        regime_asked(&regime, now);
        regime_doubt(&regime);
        assert_int_equal(regime_answer(&regime, PERMIT_AUTH_OFF, running, now), REGIME_IN_DOUBT);
        assert_false(regime_is_fresh(&regime, now));
        assert_true(regime_is_open(&regime, now));
        assert_true(regime_ask_due(&regime, running) <= now); /* and it is asked again immediately */
    }
}

static void a_doubt_ends_what_is_known_for_new_questions_alone(void **state)
{
    (void)state;
    assert_int_equal(told(PERMIT_AUTH_OFF, 0), REGIME_KNOWN);
    regime_doubt(&regime);
    assert_false(regime_is_fresh(&regime, now));
    assert_true(regime_is_open(&regime, now));
    assert_true(regime_ask_due(&regime, running) <= now);
    assert_int_equal(told(PERMIT_AUTH_OFF, 0), REGIME_KNOWN); /* asked after the doubt */
    assert_true(regime_is_fresh(&regime, now));
}

static void without_an_answer_it_is_asked_again_sooner_if_a_question_waits(void **state)
{
    (void)state;
    assert_int_equal(told(PERMIT_AUTH_UNKNOWN, 0), REGIME_NOTHING);
    uint64_t later = regime_ask_due(&regime, running);
    assert_true(later > now && !regime_may_ask(&regime, later - 1) && regime_may_ask(&regime, later));
    now = later;
    regime_asked(&regime, now);
    assert_int_equal(regime_answer(&regime, PERMIT_AUTH_UNKNOWN, waiting, now), REGIME_NOTHING);
    assert_true(regime_ask_due(&regime, waiting) - now < later - 1000000);
    regime_ask_failed(&regime, now);
    assert_false(regime_may_ask(&regime, now));
}

static void an_answer_that_is_late_is_given_up(void **state)
{
    (void)state;
    regime_asked(&regime, now);
    assert_true(regime_due(&regime, running) == now + REGIME_TIMEOUT_MS);
    assert_false(regime_turn(&regime, now + REGIME_TIMEOUT_MS - 1));
    assert_true(regime_turn(&regime, now + REGIME_TIMEOUT_MS));
    assert_true(regime_may_ask(&regime, now + REGIME_TIMEOUT_MS));
}

static void fixed_regime_asks_nothing_and_is_always_on(void **state)
{
    (void)state;
    regime_fix(&regime);
    for (int round = 0; round < 3; round++) {
        assert_int_equal(regime.auth, PERMIT_AUTH_ON);
        assert_int_equal(regime.state, PERMIT_ASKS);
        assert_true(regime_is_fresh(&regime, now));
        assert_false(regime_may_ask(&regime, now));
        assert_true(regime_ask_due(&regime, waiting) == BELFRY_NEVER);
        assert_true(regime_due(&regime, running) == BELFRY_NEVER);
        assert_false(regime_is_open(&regime, now));
        now += 100 * (uint64_t)REGIME_ON_MS;
        assert_false(regime_turn(&regime, now));
        regime_doubt(&regime);
    }
}

/* What the replica has was there for everybody when auth was last found off. */
static void off_is_kept_for_old_reads_while_upstream_is_cut_off(void **state)
{
    (void)state;
    assert_int_equal(told(PERMIT_AUTH_OFF, 0), REGIME_KNOWN);
    uint64_t off = now;
    assert_true(regime_was_off(&regime, off + 5000));
    assert_false(regime_was_off(&regime, off + PERIOD));
    regime_cut_off(&regime, off + PERIOD - 1);
    now = off + 1000 * (uint64_t)PERIOD;
    regime_turn(&regime, now);
    regime_doubt(&regime); /* of a call that was relayed to nobody */
    assert_int_equal(told(PERMIT_AUTH_UNKNOWN, 0), REGIME_NOTHING);
    assert_true(regime_was_off(&regime, now));
    assert_false(regime_is_fresh(&regime, now));
    assert_false(regime_is_open(&regime, now)); /* watches get nothing */
    regime_reach(&regime);
    assert_false(regime_was_off(&regime, now));
}

static void off_is_not_kept_when_it_was_old_or_in_doubt_or_is_on(void **state)
{
    assert_int_equal(told(PERMIT_AUTH_OFF, 0), REGIME_KNOWN);
    regime_cut_off(&regime, now + PERIOD); /* long before upstream was lost */
    assert_false(regime_was_off(&regime, now + PERIOD));
    set_up(state);
    assert_int_equal(told(PERMIT_AUTH_OFF, 0), REGIME_KNOWN);
    regime_doubt(&regime); /* a client may have turned it on */
    regime_cut_off(&regime, now);
    assert_false(regime_was_off(&regime, now + PERIOD));
    set_up(state);
    assert_int_equal(told(PERMIT_AUTH_OFF, 0), REGIME_KNOWN);
    regime_cut_off(&regime, now);
    assert_true(regime_was_off(&regime, now + PERIOD));
    assert_int_equal(told(PERMIT_AUTH_ON, 0), REGIME_KNOWN); /* a worker reaches upstream, the follower does not */
    assert_false(regime_was_off(&regime, now));
    set_up(state);
    regime_cut_off(&regime, now); /* it was never asked */
    assert_false(regime_was_off(&regime, now));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(off_is_valid_for_a_second_for_new_questions_counted_from_the_question, set_up),
        cmocka_unit_test_setup(off_is_valid_for_most_of_a_period_for_watches_that_run, set_up),
        cmocka_unit_test_setup(on_makes_watches_that_run_ask, set_up),
        cmocka_unit_test_setup(on_is_heeded_by_watches_that_run_whatever_doubts_there_are, set_up),
        cmocka_unit_test_setup(doubts_do_not_stop_watches_while_auth_is_off, set_up),
        cmocka_unit_test_setup(a_doubt_ends_what_is_known_for_new_questions_alone, set_up),
        cmocka_unit_test_setup(without_an_answer_it_is_asked_again_sooner_if_a_question_waits, set_up),
        cmocka_unit_test_setup(an_answer_that_is_late_is_given_up, set_up),
        cmocka_unit_test_setup(fixed_regime_asks_nothing_and_is_always_on, set_up),
        cmocka_unit_test_setup(off_is_kept_for_old_reads_while_upstream_is_cut_off, set_up),
        cmocka_unit_test_setup(off_is_not_kept_when_it_was_old_or_in_doubt_or_is_on, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
