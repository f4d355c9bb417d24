/* src/kfollow/resource_freshness_test.c */
#include "kfollow/resource_freshness.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"

#define NOW 100000

static struct resource_freshness fresh;
static struct resource_fresh_facts facts;
static struct resource_fresh_answer answer;

/* A live follower at version 10 with 3 objects, quiet. */
static int setup(void **state)
{
    (void)state;
    fresh = (struct resource_freshness){0};
    facts = (struct resource_fresh_facts){
        .is_live = true, .head = 10, .shown = 10, .versions = {3, 333}, .changed_ms = NOW - RESOURCE_FRESH_QUIET_MS};
    answer = (struct resource_fresh_answer){0};
    return 0;
}

static enum resource_fresh_want next(uint64_t now)
{
    return resource_freshness_next(&fresh, &facts, now);
}

static bool look(uint64_t now)
{
    return resource_freshness_look(&fresh, &facts, now, &answer);
}

/* A list of 3 objects whose hashes add up to `sum`. */
static void list(uint64_t sum, int64_t rv, uint64_t now)
{
    for (unsigned i = 0; i < 3; i++)
        resource_freshness_item(&fresh, sum / 3, now);
    resource_freshness_done(&fresh, rv, now);
}

static void nobody_asks_and_nothing_is_sent(void **state)
{
    (void)state;
    assert_int_equal(next(NOW), FRESH_WANT_NOTHING);
    assert_false(look(NOW));
    assert_true(resource_freshness_due(&fresh) == BELFRY_NEVER);
}

static void a_thousand_questions_at_once_cost_one_request(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 1000; i++)
        assert_int_equal(resource_freshness_ask(&fresh, 1, NOW), 1);
    assert_int_equal(next(NOW), FRESH_WANT_LIST);
    assert_int_equal(next(NOW), FRESH_WANT_NOTHING);
    list(333, 20, NOW + 1);
    assert_true(look(NOW + 1));
    assert_true(answer.batch == 1 && answer.rv == 10);
    assert_int_equal(next(NOW + 1), FRESH_WANT_NOTHING);
}

/* The batch before took as long as a question may wait for a proof to begin. */
static void a_question_that_waited_for_a_long_list_is_tried(void **state)
{
    (void)state;
    assert_int_equal(resource_freshness_ask(&fresh, 1, NOW), 1);
    assert_int_equal(next(NOW), FRESH_WANT_LIST);
    assert_int_equal(resource_freshness_ask(&fresh, 1, NOW + 300), 2);
    uint64_t end = NOW + RESOURCE_FRESH_MS + 1000;
    for (uint64_t now = NOW; now < end; now += 1000)
        resource_freshness_item(&fresh, 0, now);
    resource_freshness_done(&fresh, 10, end);
    assert_true(look(end));
    assert_true(answer.batch == 1 && answer.rv == 10);
    assert_false(look(end));
    assert_int_equal(resource_freshness_due(&fresh), end + RESOURCE_FRESH_MS);
    facts.is_live = false;
    assert_false(look(end + RESOURCE_FRESH_MS - 1));
    assert_true(look(end + RESOURCE_FRESH_MS)); /* there was nothing to prove it with */
    assert_true(answer.batch == 2 && answer.rv == 0);
}

static void a_question_after_the_request_waits_for_the_next_one(void **state)
{
    (void)state;
    assert_int_equal(resource_freshness_ask(&fresh, 1, NOW), 1);
    assert_int_equal(next(NOW), FRESH_WANT_LIST);
    for (unsigned i = 0; i < RESOURCE_FRESH_CROWD - 1; i++)
        assert_int_equal(resource_freshness_ask(&fresh, 1, NOW + 1), 2);
    list(333, 20, NOW + 2);
    assert_true(look(NOW + 2));
    assert_int_equal(answer.batch, 1);
    assert_false(look(NOW + 2));
    assert_int_equal(next(NOW + 2), FRESH_WANT_NOTHING); /* the list took 2 ms */
    assert_int_equal(resource_freshness_due(&fresh), NOW + 4);
    assert_int_equal(next(NOW + 4), FRESH_WANT_LIST);
    list(333, 21, NOW + 4);
    assert_true(look(NOW + 4));
    assert_int_equal(answer.batch, 2);
}

static void a_crowd_waits_a_little_and_a_few_do_not(void **state)
{
    (void)state;
    for (unsigned n = RESOURCE_FRESH_CROWD - 1; n <= RESOURCE_FRESH_CROWD; n++) {
        setup(state);
        assert_int_equal(resource_freshness_ask(&fresh, 1000, NOW), 1);
        assert_int_equal(next(NOW), FRESH_WANT_LIST); /* the first is always sent */
        assert_int_equal(resource_freshness_ask(&fresh, n - 1, NOW), 2);
        list(333, 20, NOW + 1);
        assert_true(look(NOW + 1));
        assert_int_equal(resource_freshness_ask(&fresh, 1, NOW + 5), 2);
        bool is_crowd = n == RESOURCE_FRESH_CROWD;
        assert_int_equal(next(NOW + 5), is_crowd ? FRESH_WANT_NOTHING : FRESH_WANT_LIST);
        if (!is_crowd)
            continue;
        assert_false(look(NOW + 5));
        assert_int_equal(resource_freshness_due(&fresh), NOW + RESOURCE_FRESH_PACE_MS);
        assert_int_equal(next(NOW + RESOURCE_FRESH_PACE_MS), FRESH_WANT_LIST);
    }
}

static void a_busy_or_large_resource_is_probed_and_then_listed(void **state)
{
    for (unsigned i = 0; i < 2; i++) {
        setup(state);
        uint64_t wait_ms = i == 0 ? RESOURCE_FRESH_PAUSE_MS : RESOURCE_FRESH_WAIT_MS;
        if (i == 0)
            facts.changed_ms = NOW;
        else
            facts.versions.n = RESOURCE_FRESH_SMALL + 1;
        resource_freshness_ask(&fresh, 1, NOW);
        assert_int_equal(next(NOW), FRESH_WANT_PROBE);
        resource_freshness_done(&fresh, 20, NOW + 1);
        assert_false(look(NOW + 1));
        assert_int_equal(resource_freshness_due(&fresh), NOW + 1 + wait_ms);
        assert_false(look(NOW + wait_ms));
        assert_int_equal(next(NOW + wait_ms), FRESH_WANT_NOTHING);
        assert_false(look(NOW + 1 + wait_ms));
        assert_int_equal(next(NOW + 1 + wait_ms), FRESH_WANT_LIST);
    }
}

static void the_version_of_a_probe_must_be_reached(void **state)
{
    (void)state;
    facts.changed_ms = NOW;
    resource_freshness_ask(&fresh, 1, NOW);
    assert_int_equal(next(NOW), FRESH_WANT_PROBE);
    assert_false(look(NOW));
    resource_freshness_done(&fresh, 20, NOW);
    facts.shown = 19;
    facts.head = 20; /* of a watch before */
    assert_false(look(NOW));
    facts.shown = 20;
    facts.is_live = false;
    assert_false(look(NOW));
    facts.is_live = true;
    assert_true(look(NOW));
    assert_int_equal(answer.rv, 20);
}

static void other_versions_are_waited_for(void **state)
{
    (void)state;
    resource_freshness_ask(&fresh, 1, NOW);
    assert_int_equal(next(NOW), FRESH_WANT_LIST);
    list(600, 20, NOW);
    assert_false(look(NOW));
    facts.versions = (struct resource_sum){4, 600};
    assert_false(look(NOW));
    facts.versions = (struct resource_sum){3, 600};
    facts.head = 18;
    assert_true(look(NOW));
    assert_int_equal(answer.rv, 18);
}

static void a_proof_without_progress_fails_and_the_next_begins_anew(void **state)
{
    (void)state;
    resource_freshness_ask(&fresh, 1, NOW);
    assert_int_equal(next(NOW), FRESH_WANT_LIST);
    list(600, 20, NOW + 100);
    assert_int_equal(resource_freshness_due(&fresh), NOW + 100 + RESOURCE_FRESH_MS);
    assert_true(look(NOW + 100 + RESOURCE_FRESH_MS));
    assert_true(answer.batch == 1 && answer.rv == 0);
    assert_int_equal(resource_freshness_ask(&fresh, 1, NOW + 6000), 2);
    assert_int_equal(next(NOW + 6000), FRESH_WANT_LIST);
    list(333, 20, NOW + 6000);
    assert_true(look(NOW + 6000));
    assert_int_equal(answer.rv, 10);
}

static void a_request_that_fails_is_sent_again_three_times(void **state)
{
    (void)state;
    resource_freshness_ask(&fresh, 1, NOW);
    uint64_t now = NOW;
    for (unsigned i = 0; i < RESOURCE_FRESH_TRIES; i++) {
        assert_false(look(now));
        assert_int_equal(next(now), FRESH_WANT_LIST);
        resource_freshness_item(&fresh, 1, now); /* is forgotten */
        resource_freshness_failed(&fresh, now);
        now = resource_freshness_due(&fresh);
    }
    assert_true(look(now));
    assert_int_equal(answer.rv, 0);
}

static void without_a_watch_a_question_waits_and_then_fails(void **state)
{
    (void)state;
    facts.is_live = false;
    resource_freshness_ask(&fresh, 1, NOW);
    assert_int_equal(next(NOW), FRESH_WANT_NOTHING);
    assert_false(look(NOW + RESOURCE_FRESH_MS - 1));
    assert_true(look(NOW + RESOURCE_FRESH_MS));
    assert_true(answer.batch == 1 && answer.rv == 0);
    assert_int_equal(resource_freshness_ask(&fresh, 1, NOW), 2);
    facts.is_live = true;
    assert_int_equal(next(NOW), FRESH_WANT_LIST);
}

static void another_past_begins_the_proof_anew(void **state)
{
    (void)state;
    resource_freshness_ask(&fresh, 1, NOW);
    assert_int_equal(next(NOW), FRESH_WANT_LIST);
    list(600, 5, NOW);
    resource_freshness_restart(&fresh, NOW);
    assert_false(look(NOW));
    assert_int_equal(next(NOW), FRESH_WANT_PROBE);
    resource_freshness_done(&fresh, 9, NOW);
    assert_true(look(NOW));
    assert_true(answer.batch == 1 && answer.rv == 10);
}

static void a_list_that_never_ends_is_given_up(void **state)
{
    (void)state;
    resource_freshness_ask(&fresh, 1, NOW);
    assert_int_equal(next(NOW), FRESH_WANT_LIST);
    uint64_t now = NOW;
    for (; now < NOW + RESOURCE_FRESH_MAX_MS; now += 1000) {
        resource_freshness_item(&fresh, 1, now);
        assert_false(look(now));
    }
    assert_true(look(now));
    assert_int_equal(answer.rv, 0);
}

static void the_hash_of_a_version_depends_on_each_part(void **state)
{
    (void)state;
    struct belfry_hash_key key = {1, 2};
    uint64_t hash = resource_version_hash(key, belfry_bytes_str("a"), 1, 5);
    assert_true(hash == resource_version_hash(key, belfry_bytes_str("a"), 1, 5));
    assert_true(hash != resource_version_hash(key, belfry_bytes_str("b"), 1, 5));
    assert_true(hash != resource_version_hash(key, belfry_bytes_str("a"), 2, 5));
    assert_true(hash != resource_version_hash(key, belfry_bytes_str("a"), 1, 6));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(nobody_asks_and_nothing_is_sent, setup),
        cmocka_unit_test_setup(a_thousand_questions_at_once_cost_one_request, setup),
        cmocka_unit_test_setup(a_question_that_waited_for_a_long_list_is_tried, setup),
        cmocka_unit_test_setup(a_question_after_the_request_waits_for_the_next_one, setup),
        cmocka_unit_test_setup(a_crowd_waits_a_little_and_a_few_do_not, setup),
        cmocka_unit_test_setup(a_busy_or_large_resource_is_probed_and_then_listed, setup),
        cmocka_unit_test_setup(the_version_of_a_probe_must_be_reached, setup),
        cmocka_unit_test_setup(other_versions_are_waited_for, setup),
        cmocka_unit_test_setup(a_proof_without_progress_fails_and_the_next_begins_anew, setup),
        cmocka_unit_test_setup(a_request_that_fails_is_sent_again_three_times, setup),
        cmocka_unit_test_setup(without_a_watch_a_question_waits_and_then_fails, setup),
        cmocka_unit_test_setup(another_past_begins_the_proof_anew, setup),
        cmocka_unit_test_setup(a_list_that_never_ends_is_given_up, setup),
        cmocka_unit_test_setup(the_hash_of_a_version_depends_on_each_part, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
