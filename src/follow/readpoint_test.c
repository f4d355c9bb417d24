/* src/follow/readpoint_test.c: how far upstream is, asked by a driver of members made by support/fakeetcd. */
#include "follow/readpoint.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/driverbed.h"

#define ASKS 20

static struct asker {
    struct readpoint_ask ask;
    bool is_told;
    int64_t committed; /* of the store, when it was told */
} askers[ASKS];

static void on_told(struct readpoint_ask *ask)
{
    struct asker *asker = belfry_container(ask, struct asker, ask);
    struct store_meta meta;
    bed.store->api->snapshot(bed.store, &meta);
    assert_false(asker->is_told);
    asker->is_told = true;
    asker->committed = meta.revision;
}

static struct asker *ask(size_t i)
{
    askers[i] = (struct asker){.ask = {.told = on_told, .err = BELFRY_ERR_END_}};
    atomic_store(&askers[i].ask.n, 1);
    driver_read_point(bed.driver, &askers[i].ask);
    return &askers[i];
}

static void follow_live(int members)
{
    make_members(members);
    fake_put(&bed.theirs, "a", "1");
    start_all();
    drive_live();
}

static void one_who_asks_is_told_what_upstream_has(void **state)
{
    (void)state;
    follow_live(1);
    fake_put(&bed.theirs, "b", "1");
    struct asker *asker = ask(0);
    drive_until(asker->is_told);
    assert_int_equal(asker->ask.err, BELFRY_OK);
    assert_int_equal(asker->ask.rev, bed.theirs.revision);
    assert_int_equal(asker->ask.past, bed.status.past);
    assert_true(asker->committed >= asker->ask.rev);
    assert_int_equal(bed.status.points.questions, 1);
}

static void those_who_ask_together_share_one_question(void **state)
{
    (void)state;
    follow_live(1);
    for (size_t i = 0; i < ASKS; i++)
        ask(i);
    drive_until(askers[ASKS - 1].is_told);
    for (size_t i = 0; i < ASKS; i++)
        assert_true(askers[i].is_told);
    assert_int_equal(bed.status.points.questions, 1);
}

/* The answer was made before the put that the second had seen. */
static void one_who_comes_later_is_not_told_an_answer_that_is_under_way(void **state)
{
    (void)state;
    follow_live(1);
    bed.rule = (struct fake_rule){.path = "/Range", .times = 1, .how = FAKE_LATE};
    size_t before = fake_count(bed.fakes[0], "/Range");
    struct asker *first = ask(0);
    drive_until(fake_count(bed.fakes[0], "/Range") > before);
    int64_t old = bed.theirs.revision;
    assert_true(atomic_load(&first->ask.sent));
    fake_put(&bed.theirs, "b", "1");
    struct asker *second = ask(1);
    drive_until(bed.status.revision == bed.theirs.revision);
    assert_false(first->is_told || second->is_told);
    assert_int_equal(bed.status.points.questions, 1);
    bed.rule.released = true;
    drive_until(first->is_told && second->is_told);
    assert_int_equal(first->ask.rev, old);
    assert_int_equal(second->ask.rev, bed.theirs.revision);
    assert_int_equal(bed.status.points.questions, 2);
}

/* A crowd waits a little for its next question, and one alone does not. */
static void many_who_ask_wait_for_each_other(void **state)
{
    (void)state;
    follow_live(1);
    for (size_t i = 0; i < ASKS; i++)
        ask(i);
    drive_until(askers[0].is_told);
    uint64_t since = belfry_clock_ms();
    struct asker *next = ask(0);
    drive_until(next->is_told);
    assert_true(belfry_clock_ms() - since + 1 >= READPOINT_GAP_MS);
    assert_int_equal(bed.status.points.questions, 2);
}

static void follow_part(const char *version)
{
    make_members(1);
    bed.theirs.version = version;
    fake_put(&bed.theirs, "a/1", "1");
    assert_int_equal(start("a/", "a0", 2), BELFRY_OK);
    drive_live();
}

/* The watch says nothing of it, so progress is asked for. */
static void a_write_outside_the_scope_is_reached(void **state)
{
    (void)state;
    follow_part(NULL);
    for (int i = 0; i < 20; i++) {
        fake_put(&bed.theirs, (char[]){i % 3 == 0 ? 'a' : 'b', '/', (char)('A' + i), '\0'}, "1");
        uint64_t began = belfry_clock_ms();
        struct asker *asker = ask(0);
        drive_until(asker->is_told);
        assert_int_equal(asker->ask.err, BELFRY_OK);
        assert_int_equal(asker->ask.rev, bed.theirs.revision);
        assert_true(asker->committed >= asker->ask.rev);
        assert_true(belfry_clock_ms() - began < UPSTREAM_PROGRESS_MS); /* it did not wait for the next one by itself */
    }
    assert_int_equal(bed.status.points.questions, 20);
}

/* The question was answered on a connection that is gone. */
static void a_write_outside_the_scope_is_reached_on_another_connection(void **state)
{
    (void)state;
    follow_part(NULL);
    modelstore_fail(bed.store, 1000000); /* nothing is committed, so nobody is told */
    fake_put(&bed.theirs, "b/1", "1");
    struct asker *asker = ask(0);
    drive_until(bed.status.points.questions == 1);
    drive_for(50);
    assert_false(asker->is_told);
    uint64_t losses = bed.status.losses;
    fake_drop(bed.fakes[0], true);
    drive_until(bed.status.losses > losses);
    fake_listen(bed.fakes[0]);
    modelstore_fail(bed.store, 0);
    drive_until(asker->is_told);
    assert_int_equal(asker->ask.err, BELFRY_OK);
    assert_true(asker->committed >= asker->ask.rev);
}

/* Decision 0007: progress of a server that cannot be believed proves nothing. */
static void a_part_of_a_server_without_a_version_is_not_promised(void **state)
{
    (void)state;
    follow_part("unknown");
    struct asker *asker = ask(0);
    drive_until(asker->is_told);
    assert_int_equal(asker->ask.err, BELFRY_ERR_AGAIN);
    assert_int_equal(bed.status.points.questions, 0);
}

static void nobody_is_told_before_the_store_has_the_revision(void **state)
{
    (void)state;
    follow_live(1);
    modelstore_fail(bed.store, 3);
    fake_put(&bed.theirs, "b", "1");
    struct asker *asker = ask(0);
    drive_until(bed.status.disk_trouble);
    drive_until(asker->is_told);
    assert_true(asker->committed >= asker->ask.rev);
    assert_int_equal(asker->ask.rev, bed.theirs.revision);
}

static void a_question_that_is_lost_or_refused_is_repeated(void **state)
{
    (void)state;
    static const struct fake_rule rules[] = {
        {.path = "/Range", .times = 1, .how = FAKE_CLOSE},
        {.path = "/Range", .times = 1, .how = FAKE_RESET, .code = 7},
        {.path = "/Range", .times = 1, .how = FAKE_STATUS, .code = 14, .message = "etcdserver: no leader"},
        {.path = "/Range", .times = 1, .how = FAKE_EMPTY}};
    follow_live(1);
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
        uint64_t failed = bed.status.points.failed;
        bed.rule = rules[i];
        fake_put(&bed.theirs, (char[]){'k', (char)('0' + (int)i), '\0'}, "1");
        struct asker *asker = ask(0);
        drive_until(asker->is_told);
        assert_int_equal(asker->ask.err, BELFRY_OK);
        assert_int_equal(asker->ask.rev, bed.theirs.revision);
        assert_int_equal(bed.status.points.failed, failed + 1);
    }
}

/* With JWTs every change of users or roles makes all tokens old. */
static void a_token_that_does_not_count_any_more_is_replaced(void **state)
{
    (void)state;
    make_members(1);
    bed.user = "root:pass";
    bed.theirs.password = "pass";
    fake_put(&bed.theirs, "a", "1");
    start_all();
    drive_live();
    for (int i = 0; i < 3; i++) {
        bed.theirs.n_tokens++; /* only the newest counts */
        struct asker *asker = ask(0);
        drive_until(asker->is_told);
        assert_int_equal(asker->ask.err, BELFRY_ERR_DENIED); /* it need not wait for a log-in */
        assert_int_equal(bed.status.points.failed, i + 1);
        asker = ask(0);
        drive_until(asker->is_told);
        assert_int_equal(asker->ask.err, BELFRY_OK);
        assert_int_equal(asker->ask.rev, bed.theirs.revision);
    }
}

/* It lists, or replays: those who wait are relayed, and need not wait. */
static void a_tier_above_may_not_know_how_far_it_is(void **state)
{
    (void)state;
    follow_live(1);
    bed.rule = (struct fake_rule){.path = "/Range", .times = 1, .how = FAKE_STATUS, .code = 9, .message = "belfry: no"};
    struct asker *asker = ask(0);
    drive_until(asker->is_told);
    assert_int_equal(asker->ask.err, BELFRY_ERR_DENIED);
    asker = ask(0);
    drive_until(asker->is_told);
    assert_int_equal(asker->ask.err, BELFRY_OK);
}

static void nothing_is_asked_while_upstream_is_away(void **state)
{
    (void)state;
    follow_live(1);
    fake_drop(bed.fakes[0], true);
    drive_until(bed.status.losses > 0);
    struct asker *asker = ask(0);
    drive_for(300);
    assert_false(asker->is_told);
    assert_int_equal(bed.status.points.questions, 0);
    fake_put(&bed.theirs, "b", "1");
    fake_listen(bed.fakes[0]);
    drive_until(asker->is_told);
    assert_int_equal(asker->ask.rev, bed.theirs.revision);
}

static void a_warm_start_answers_when_it_has_shown_its_past(void **state)
{
    (void)state;
    follow_live(1);
    drive_until(bed.status.committed == bed.theirs.revision);
    fake_put(&bed.theirs, "b", "1");
    restart();
    struct asker *asker = ask(0);
    drive_until(asker->is_told);
    assert_int_equal(asker->ask.rev, bed.theirs.revision);
    assert_true(bed.status.stats.overlaps > 0);
}

/* A backup was restored behind an open connection: the watch is silent, and only the answer shows it. */
static void a_revision_below_ours_says_that_the_past_was_rewritten(void **state)
{
    (void)state;
    follow_live(1);
    for (int i = 0; i < 5; i++)
        fake_put(&bed.theirs, (char[]){'b', (char)('0' + i), '\0'}, "1");
    drive_until(bed.status.committed == bed.theirs.revision);
    uint64_t past = bed.status.past;
    int64_t old = bed.theirs.revision;
    fake_put(&bed.other, "a", "2");
    bed.other.cluster_id = bed.theirs.cluster_id;
    fake_serve(bed.fakes[0], &bed.other);
    struct asker *asker = ask(0);
    drive_until(asker->is_told);
    assert_true(asker->ask.past != past);
    assert_true(asker->ask.rev < old);
    assert_int_equal(asker->ask.rev, bed.other.revision);
    assert_int_equal(bed.status.stats.relists_rewritten, 1);
    assert_true(lines("upstream is behind us") > 0);
}

/* A backup was restored that has all that we have, but not all that upstream had when it was asked: our past goes on,
 * and the revision may never come. */
static void a_revision_of_a_connection_that_is_lost_is_asked_for_again(void **state)
{
    (void)state;
    follow_live(1);
    fake_lag(bed.fakes[0], 5); /* the watch does not see these */
    bed.theirs.revision += 5;
    struct asker *asker = ask(0);
    drive_until(bed.status.points.questions == 1);
    drive_for(100);
    assert_false(asker->is_told);
    bed.theirs.revision -= 5;
    fake_lag(bed.fakes[0], 0);
    fake_drop(bed.fakes[0], false);
    drive_until(asker->is_told);
    assert_int_equal(asker->ask.err, BELFRY_OK);
    assert_int_equal(asker->ask.rev, bed.theirs.revision);
    assert_int_equal(bed.status.stats.relists_rewritten, 0);
}

/* Otherwise the loop would turn without end. */
static void nothing_is_due_while_upstream_is_away(void **state)
{
    (void)state;
    follow_live(1);
    fake_drop(bed.fakes[0], true);
    drive_until(bed.status.losses > 0);
    struct asker *asker = ask(0);
    drive_for(50);
    unsigned due = 0, turns = 100;
    for (unsigned i = 0; i < turns; i++) {
        turn();
        due += uv_backend_timeout(&bed.loop) == 0;
    }
    assert_true(due < turns / 2);
    assert_false(asker->is_told);
}

static void whoever_waits_is_told_when_the_driver_ends(void **state)
{
    (void)state;
    follow_live(1);
    bed.rule = (struct fake_rule){.path = "/Range", .times = 100, .how = FAKE_STALL};
    struct asker *asked = ask(0);
    drive_until(bed.status.points.questions == 1);
    struct asker *waiting = ask(1);
    driver_destroy(bed.driver);
    bed.driver = NULL;
    assert_true(asked->is_told && waiting->is_told);
    assert_int_equal(asked->ask.err, BELFRY_ERR_CANCELED);
    assert_int_equal(waiting->ask.err, BELFRY_ERR_CANCELED);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(one_who_asks_is_told_what_upstream_has),
        T(those_who_ask_together_share_one_question),
        T(one_who_comes_later_is_not_told_an_answer_that_is_under_way),
        T(many_who_ask_wait_for_each_other),
        T(a_write_outside_the_scope_is_reached),
        T(a_write_outside_the_scope_is_reached_on_another_connection),
        T(a_part_of_a_server_without_a_version_is_not_promised),
        T(nobody_is_told_before_the_store_has_the_revision),
        T(a_question_that_is_lost_or_refused_is_repeated),
        T(a_token_that_does_not_count_any_more_is_replaced),
        T(a_tier_above_may_not_know_how_far_it_is),
        T(nothing_is_asked_while_upstream_is_away),
        T(a_warm_start_answers_when_it_has_shown_its_past),
        T(a_revision_below_ours_says_that_the_past_was_rewritten),
        T(a_revision_of_a_connection_that_is_lost_is_asked_for_again),
        T(nothing_is_due_while_upstream_is_away),
        T(whoever_waits_is_told_when_the_driver_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
