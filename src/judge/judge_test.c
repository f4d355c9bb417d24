/* src/judge/judge_test.c: filters, pieces and losses, which the simulator relies on. What belfryctl verify relies on is
 * in cli/verify/verify_judge_test.c, with planted faults of every kind. */
#include "judge/judge.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/refuse.h"

#define REVS 4

/* ---- a history: revision 10 + i has the events named in a string, upper case for deletes ---- */

static const char *const history[REVS] = {"abc", "b", "Ac", "d"};
static struct judge_rev *revs[REVS];
static struct belfry_event scratch[8];
static size_t n_scratch;

static const struct belfry_event *next_of_scratch(const void *source, const struct belfry_event *after)
{
    const struct belfry_event *next = after == NULL ? scratch : after + 1;
    return source == scratch && next < scratch + n_scratch ? next : NULL;
}

/* With previous values, except in the first revision. */
static enum belfry_err make(int64_t rev, const char *keys, bool prev_kv, struct judge_rev **out)
{
    static const char letters[] = "abcd";
    n_scratch = 0;
    for (; *keys != '\0'; keys++) {
        bool is_delete = *keys < 'a';
        const char *key = &letters[(is_delete ? *keys - 'A' : *keys - 'a')];
        scratch[n_scratch++] = (struct belfry_event){.op = is_delete ? BELFRY_DELETE : BELFRY_PUT,
                                                     .key = {key, 1},
                                                     .value = {keys, is_delete ? 0 : 1},
                                                     .prev = {prev_kv ? "old" : NULL, prev_kv ? 3 : 0},
                                                     .mod_rev = rev,
                                                     .create_rev = is_delete ? 0 : 1};
    }
    return judge_rev_create(rev, 0, next_of_scratch, scratch, out);
}

static const struct judge_rev *next_rev(const void *user, int64_t from, int64_t to)
{
    for (size_t i = 0; i < REVS; i++) {
        if (revs[i]->rev >= from && revs[i]->rev <= to)
            return revs[i];
    }
    return user;
}

static const struct judge_reference reference = {next_rev, NULL};

/* ---- a watch, and what was said about it ---- */

static struct judge_watch watch;
static struct judge_found found;
static unsigned blamed[JUDGE_N_PROPERTIES], n_blamed;
static char expected[JUDGE_TEXT];

static void on_blame(const struct judge_violation *violation, void *user)
{
    assert_null(user);
    blamed[violation->property]++;
    n_blamed++;
    strcpy(expected, violation->expected);
}

static int begin(void **state)
{
    (void)state;
    memset(blamed, 0, sizeof(blamed));
    n_blamed = 0;
    found = (struct judge_found){0};
    watch = (struct judge_watch){
        .range = {{"a", 1}, {"\0", 1}, BELFRY_FROM}, .start = 10, .next = 10, .prev_kv = true, .blame = on_blame};
    for (size_t i = 0; i < REVS; i++) {
        if (make(10 + (int64_t)i, history[i], i > 0, &revs[i]) != BELFRY_OK)
            return -1;
    }
    return 0;
}

static int end(void **state)
{
    (void)state;
    for (size_t i = 0; i < REVS; i++)
        free(revs[i]);
    return 0;
}

static void send(int64_t rev, const char *keys, bool prev_kv)
{
    struct judge_rev *given;
    assert_int_equal(make(rev, keys, prev_kv, &given), BELFRY_OK);
    if (judge_arrival(&watch, given, rev))
        judge_revision(&watch, &reference, given, &found);
    free(given);
}

static void assert_only(enum judge_property property)
{
    assert_int_equal(n_blamed, 1);
    assert_int_equal(blamed[property], 1);
}

/* ---- filters ---- */

static void events_of_a_type_that_was_filtered_out_are_neither_due_nor_welcome(void **state)
{
    (void)state;
    watch.no_delete = true;
    send(10, "abc", false);
    send(11, "b", true);
    send(12, "c", true);
    send(13, "d", true);
    assert_int_equal(n_blamed, 0);
    assert_int_equal(found.n_events, 6);
    assert_null(judge_first(&watch, &reference, INT64_MAX));

    watch.next = 12;
    watch.last_rev = 11;
    send(12, "Ac", true);
    assert_only(JUDGE_FILTER);
}

static bool is_letter(const struct judge_event *event, unsigned pin)
{
    return event->key.data[0] == (char)pin;
}

static void what_the_watch_does_not_pick_is_not_due_and_never_happened(void **state)
{
    (void)state;
    watch.picks = is_letter;
    watch.pin = 'c';
    assert_int_equal(judge_count(&watch, revs[0]), 1);
    send(10, "c", false);
    send(12, "c", true);
    assert_int_equal(n_blamed, 0);
    assert_null(judge_first(&watch, &reference, INT64_MAX));
    send(13, "d", true);
    assert_only(JUDGE_RELIABLE);
}

/* ---- pieces ---- */

static void pieces_in_their_order_are_a_revision(void **state)
{
    (void)state;
    watch.piecewise = true;
    send(10, "a", false);
    assert_int_equal(judge_place(&watch, revs[0]), 1);
    assert_int_equal(judge_first(&watch, &reference, INT64_MAX)->key.data[0], 'b');
    send(10, "bc", false);
    assert_int_equal(judge_place(&watch, revs[0]), 3);
    send(11, "b", true);
    send(12, "A", true);
    assert_int_equal(judge_first(&watch, &reference, INT64_MAX)->key.data[0], 'c');
    assert_int_equal(n_blamed, 0);
    assert_int_equal(found.n_events, 5);
}

static void a_piece_that_comes_too_early_is_not_ordered(void **state)
{
    (void)state;
    watch.piecewise = true;
    send(10, "a", false);
    send(10, "c", false);
    assert_only(JUDGE_ORDERED);
    assert_non_null(strstr(expected, "put \"b\""));
}

static void a_piece_that_comes_again_is_not_unique(void **state)
{
    (void)state;
    watch.piecewise = true;
    send(10, "a", false);
    send(10, "a", false);
    assert_only(JUDGE_UNIQUE);
    send(10, "abc", false); /* more than there is */
    assert_int_equal(judge_place(&watch, revs[0]), 3);
}

static void the_rest_of_a_revision_is_lost_when_the_next_one_comes(void **state)
{
    (void)state;
    watch.piecewise = true;
    send(10, "a", false);
    send(11, "b", true);
    assert_only(JUDGE_RELIABLE);
    assert_non_null(strstr(expected, "put \"b\""));
}

static void progress_in_the_middle_of_a_revision_is_too_early(void **state)
{
    (void)state;
    watch.piecewise = true;
    send(10, "ab", false);
    assert_true(judge_progress_arrival(&watch, 10, 10));
    judge_progress(&watch, &reference, 10);
    assert_only(JUDGE_PROGRESS);
    send(10, "c", false);
    assert_int_equal(blamed[JUDGE_UNIQUE], 1);
}

/* ---- losses ---- */

static void what_was_lost_is_counted_and_not_due_any_more(void **state)
{
    (void)state;
    send(10, "abc", false);
    struct judge_lost lost = judge_lose(&watch, &reference, 12);
    assert_int_equal(lost.n, 3);
    assert_int_equal(lost.first_rev, 11);
    assert_int_equal(lost.last_rev, 12);
    assert_ptr_equal(lost.first, &revs[1]->events[0]);
    assert_int_equal(judge_lose(&watch, &reference, 12).n, 0);
    send(13, "d", true);
    assert_int_equal(n_blamed, 0);
}

static void the_newest_previous_value_that_is_missing_is_shown(void **state)
{
    (void)state;
    send(10, "abc", false);
    send(11, "b", false);
    send(12, "Ac", false);
    assert_int_equal(n_blamed, 0);
    assert_int_equal(found.n_prev_absent, 3);
    assert_ptr_equal(found.prev_absent, &revs[2]->events[1]);
}

static void several_references_are_tried_with_copies(void **state)
{
    (void)state;
    struct judge_watch before = watch;
    send(10, "ab", false);
    assert_only(JUDGE_ATOMIC);
    watch = before;
    send(10, "abc", false);
    assert_only(JUDGE_ATOMIC);
    assert_true(watch.whole);
}

static enum belfry_err scenario(void)
{
    struct judge_rev *rev = NULL;
    enum belfry_err err = make(10, "abc", true, &rev);
    free(rev);
    return err;
}

static void a_revision_without_memory_is_an_error(void **state)
{
    (void)state;
    assert_true(refuse_sweep(scenario) >= 1);
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(events_of_a_type_that_was_filtered_out_are_neither_due_nor_welcome),
        TEST(what_the_watch_does_not_pick_is_not_due_and_never_happened),
        TEST(pieces_in_their_order_are_a_revision),
        TEST(a_piece_that_comes_too_early_is_not_ordered),
        TEST(a_piece_that_comes_again_is_not_unique),
        TEST(the_rest_of_a_revision_is_lost_when_the_next_one_comes),
        TEST(progress_in_the_middle_of_a_revision_is_too_early),
        TEST(what_was_lost_is_counted_and_not_due_any_more),
        TEST(the_newest_previous_value_that_is_missing_is_shown),
        TEST(several_references_are_tried_with_copies),
        TEST(a_revision_without_memory_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
