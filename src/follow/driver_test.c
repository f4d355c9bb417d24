/* src/follow/driver_test.c: the driver on a loop, against members made by support/fakeetcd. */
#include "follow/driver.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/driverbed.h"

static void ask(uint64_t token, int64_t from, int64_t oldest)
{
    bed.asking = true;
    struct backfill_ask ask = {.past = bed.status.past, .from = from, .oldest = oldest, .token = token};
    driver_backfill(bed.driver, &ask);
    bed.asking = false;
}

/* ---- versions ---- */

static void an_old_version_is_warned_about_once(void **state)
{
    (void)state;
    make_members(1);
    bed.theirs.version = "3.5.16";
    fake_put(&bed.theirs, "a", "1");
    start_all();
    drive_live();
    drive_until(strcmp(bed.status.version, "3.5.16") == 0);
    fake_drop(bed.fakes[0], false);
    drive_until(bed.status.losses > 0);
    drive_until(strcmp(bed.status.version, "3.5.16") == 0);
    drive_live();
    assert_int_equal(lines("1 upstream_old_version"), 1);
    assert_int_equal(lines("3.5.16"), 1);
}

static void a_server_that_must_not_be_asked_for_progress_is_not_stale_for_that(void **state)
{
    (void)state;
    make_members(1);
    bed.theirs.version = "3.5.7";
    fake_put(&bed.theirs, "a", "1");
    start_all();
    drive_live();
    drive_for(UPSTREAM_STALE_MS + UPSTREAM_TICK_MS + 500);
    assert_int_equal(bed.status.standing, DRIVER_READY);
    assert_int_equal(bed.status.stats.stale, 0);
    assert_true(bed.status.silent_ms < UPSTREAM_STALE_MS);
    bed.rule = (struct fake_rule){.path = "/Range", .times = 1000, .how = FAKE_STALL};
    drive_until(bed.status.standing == DRIVER_STALE);
}

static void a_version_too_old_for_a_scope_gives_nothing_and_a_newer_one_does(void **state)
{
    (void)state;
    make_members(2);
    bed.theirs.version = "3.5.12";
    fake_put(&bed.theirs, "a/1", "1");
    fake_put(&bed.theirs, "b/1", "1");
    assert_int_equal(start("a/", "a0", 2), BELFRY_OK);
    drive_until(strstr(bed.status.reason, "etcd 3.5.12 is too old for a scope") != NULL);
    drive_for(500);
    assert_int_equal(bed.status.standing, DRIVER_NOT_READY);
    assert_int_equal(bed.status.revision, 0);
    assert_true(strstr(bed.status.reason, "upgrade it to 3.4.31, 3.5.13 or later, or set the scope to all") != NULL);
    assert_int_equal(lines("upstream_old_version"), 1);
    bed.theirs.version = "3.5.13"; /* by then each connection is a new one */
    drive_live();
    assert_string_equal(bed.status.reason, "");
}

/* ---- following ---- */

static void a_cold_start_lists_and_follows(void **state)
{
    (void)state;
    make_members(2);
    fake_put(&bed.theirs, "a", "1");
    fake_put(&bed.theirs, "b", "1");
    start_all();
    assert_int_equal(bed.changed, 0);
    driver_status(bed.driver, &bed.status);
    assert_int_equal(bed.status.standing, DRIVER_NOT_READY);
    assert_true(bed.status.silent_ms == BELFRY_NEVER);
    drive_live();
    assert_int_equal(bed.status.past, 1);
    assert_int_equal(bed.status.identity.cluster_id, bed.theirs.cluster_id);
    assert_string_equal(bed.status.reason, "");
    unsigned changed = bed.changed;
    fake_put(&bed.theirs, "c", "1");
    fake_del(&bed.theirs, "b");
    drive_live();
    drive_until(bed.changed > changed);
    assert_true(bed.status.silent_ms < 1000);
    assert_int_equal(bed.status.upstream_revision, bed.theirs.revision);
    drive_until(bed.status.committed == bed.theirs.revision);
    assert_int_equal(lines("upstream_live"), 1);
    drive_until(bed.status.version[0] != '\0'); /* a change of its own */
    changed = bed.changed;
    drive_for(300);
    assert_int_equal(bed.changed, changed);
}

static void a_lost_connection_is_a_resume(void **state)
{
    (void)state;
    make_members(2);
    fake_put(&bed.theirs, "a", "1");
    start_all();
    drive_live();
    assert_int_equal(bed.status.lag_peak, 0); /* an empty replica was not behind */
    fake_drop(bed.fakes[0], false);
    fake_drop(bed.fakes[1], false);
    fake_put(&bed.theirs, "c", "1");
    fake_put(&bed.theirs, "d", "1");
    fake_put(&bed.theirs, "e", "1");
    drive_live();
    assert_int_equal(bed.status.lag_peak, 3);
    assert_int_equal(bed.status.past, 1);
    assert_int_equal(bed.status.stats.listings, 1);
    assert_int_equal(bed.status.stats.overlaps, 1);
    assert_true(bed.status.losses > 0);
}

static void an_event_that_is_no_put_and_no_delete_is_not_taken(void **state)
{
    (void)state;
    make_members(1);
    fake_put(&bed.theirs, "a", "1");
    start_all();
    drive_live();
    int64_t before = bed.status.revision;
    fake_put(&bed.theirs, "c", "1");
    struct fake_change *change = &bed.theirs.changes[bed.theirs.n_changes - 1];
    change->strange = 2;
    drive_until(lines("cannot be read") > 0 && lines("upstream_live") > 2); /* asked for again, and not taken */
    assert_int_equal(bed.status.revision, before);
    change->strange = 0;
    drive_live();
    assert_int_equal(bed.status.stats.listings, 1);
}

static void put_many(unsigned n)
{
    char key[16];
    for (unsigned i = 0; i < n; i++) {
        snprintf(key, sizeof(key), "k%04u", i);
        fake_put(&bed.theirs, key, "v");
    }
}

static void pages_of_one_connection_are_one_listing(void **state)
{
    (void)state;
    make_members(1);
    put_many(1500); /* a page is UPSTREAM_PAGE keys */
    start_all();
    drive_live();
    assert_int_equal(bed.status.stats.listings, 1);
    assert_int_equal(bed.status.stats.pages, 2);
    assert_int_equal(bed.theirs.n_serializable, 1); /* all but the first */
}

/* As behind a balancer that gives each call to another member. */
static void pages_of_a_member_that_is_behind_are_linearizable(void **state)
{
    (void)state;
    make_members(1);
    put_many(1500);
    bed.rule = (struct fake_rule){.path = "/Range",
                                  .skip = 2,
                                  .times = 1,
                                  .how = FAKE_STATUS,
                                  .code = 11,
                                  .message = "etcdserver: mvcc: required revision is a future revision"};
    start_all();
    drive_live();
    assert_int_equal(bed.rule.times, 0);
    assert_int_equal(bed.status.stats.listings, 2);
    assert_int_equal(bed.theirs.n_serializable, 0); /* that which was refused is not counted */
}

static void a_connection_lost_between_pages_lists_anew(void **state)
{
    (void)state;
    make_members(1);
    put_many(1500); /* a page is UPSTREAM_PAGE keys */
    bed.rule = (struct fake_rule){.path = "/Range", .skip = 2, .times = 1, .how = FAKE_CLOSE};
    start_all();
    drive_live();
    assert_int_equal(bed.rule.times, 0);
    assert_int_equal(bed.status.stats.listings, 2);
    assert_int_equal(bed.status.past, 1);
}

static void one_stray_endpoint_is_left(void **state)
{
    (void)state;
    make_members(2);
    fake_put(&bed.theirs, "a", "1");
    start_all();
    drive_live();
    int stray = strcmp(bed.status.endpoint, fake_url(bed.fakes[0])) == 0 ? 0 : 1;
    fake_serve(bed.fakes[stray], &bed.other);
    fake_drop(bed.fakes[stray], false);
    fake_put(&bed.theirs, "c", "1");
    drive_live();
    assert_int_equal(bed.status.past, 1);
    assert_string_equal(bed.status.endpoint, fake_url(bed.fakes[1 - stray]));
}

static void another_cluster_everywhere_is_a_new_past(void **state)
{
    (void)state;
    make_members(2);
    fake_put(&bed.theirs, "a", "1");
    start_all();
    drive_live();
    fake_put(&bed.other, "z", "1");
    for (int i = 0; i < 2; i++) {
        fake_serve(bed.fakes[i], &bed.other);
        fake_drop(bed.fakes[i], false);
    }
    drive_until(bed.status.past == 2 && bed.status.standing == DRIVER_READY);
    fake_put(&bed.other, "y", "1");
    drive_until(bed.status.revision == bed.other.revision);
    assert_int_equal(bed.status.identity.cluster_id, bed.other.cluster_id);
    assert_int_equal(lines("upstream_diverged"), 1);
    assert_int_equal(bed.status.past, 2);
}

static void a_new_term_is_heard_of_without_a_write(void **state)
{
    (void)state;
    make_members(1);
    start_all();
    drive_live();
    assert_int_equal(term_now(&bed.term), 2);
    uint64_t began = belfry_clock_ms();
    bed.theirs.raft_term = 5;
    drive_until(term_now(&bed.term) == 5);
    assert_in_range(belfry_clock_ms() - began, 0, 1500);
    bed.theirs.raft_term = 4; /* as of another member, which lags */
    fake_put(&bed.theirs, "k", "1");
    drive_live();
    assert_int_equal(term_now(&bed.term), 5);
    assert_int_equal(bed.status.identity.raft_term, 5);
}

static void another_past_begins_with_its_own_term(void **state)
{
    (void)state;
    make_members(1);
    bed.theirs.raft_term = 50;
    start_all();
    drive_live();
    assert_int_equal(term_now(&bed.term), 50);
    bed.other.raft_term = 3;
    fake_serve(bed.fakes[0], &bed.other);
    drive_until(bed.status.identity.cluster_id == bed.other.cluster_id && bed.status.standing == DRIVER_READY);
    assert_int_equal(term_now(&bed.term), 3);
}

static void no_upstream_is_told_and_waited_for(void **state)
{
    char reason[256];
    (void)state;
    make_members(1);
    fake_drop(bed.fakes[0], true);
    snprintf(reason, sizeof(reason), "upstream %s unreachable (connection refused)", fake_url(bed.fakes[0]));
    start_all();
    drive_until(strcmp(bed.status.reason, reason) == 0);
    drive_for(1000);
    assert_int_equal(lines("upstream_looking"), 2); /* at the start, and when all were tried */
    assert_int_equal(bed.status.standing, DRIVER_NOT_READY);
    fake_put(&bed.theirs, "a", "1");
    fake_listen(bed.fakes[0]);
    drive_live();
}

/* What to do about it is another thing than about an error of a member. */
static void a_right_that_is_missing_is_a_trouble_of_its_own(void **state)
{
    (void)state;
    make_members(1);
    fake_put(&bed.theirs, "a", "1");
    bed.rule = (struct fake_rule){
        .path = "/Range", .times = 1, .how = FAKE_STATUS, .code = 7, .message = "etcdserver: permission denied"};
    start_all();
    drive_until(bed.status.trouble == DRIVER_DENIED);
    drive_live();
    assert_int_equal(bed.status.trouble, DRIVER_FINE);
    bed.rule = (struct fake_rule){
        .path = "Watch/Watch", .times = 1000, .how = FAKE_STATUS, .code = 14, .message = "etcdserver: no leader"};
    fake_drop_watches(bed.fakes[0]);
    drive_until(strstr(bed.status.reason, ": etcdserver: no leader") != NULL);
    assert_int_not_equal(bed.status.trouble, DRIVER_DENIED);
}

static void trouble_with_the_disk_is_told_and_outlasted(void **state)
{
    (void)state;
    make_members(1);
    fake_put(&bed.theirs, "a", "1");
    start_all();
    drive_live();
    modelstore_fail(bed.store, 3);
    fake_put(&bed.theirs, "c", "1");
    drive_until(bed.status.disk_trouble);
    drive_until(!bed.status.disk_trouble && bed.status.committed == bed.theirs.revision);
    assert_int_equal(lines("0 disk_trouble"), 1);
    assert_int_equal(lines("2 disk_recovered"), 1);
}

static void what_is_committed_is_there_after_the_end(void **state)
{
    struct store_meta meta;
    (void)state;
    make_members(1);
    fake_put(&bed.theirs, "a", "1");
    start_all();
    drive_live();
    fake_put(&bed.theirs, "c", "1");
    drive_until(bed.status.revision == bed.theirs.revision);
    stop();
    bed.store->api->snapshot(bed.store, &meta);
    assert_int_equal(meta.revision, bed.theirs.revision);
    fake_put(&bed.theirs, "d", "1");
    restart();
    drive_live();
    assert_int_equal(bed.status.stats.listings, 0);
}

static void a_warm_start_finds_another_cluster(void **state)
{
    (void)state;
    make_members(2);
    fake_put(&bed.theirs, "a", "1");
    start_all();
    drive_live();
    stop();
    fake_put(&bed.other, "z", "1");
    fake_serve(bed.fakes[0], &bed.other);
    restart(); /* one of two: a mistake in the list */
    drive_live();
    assert_int_equal(bed.status.past, 1);
    assert_string_equal(bed.status.endpoint, fake_url(bed.fakes[1]));
    fake_serve(bed.fakes[1], &bed.other);
    restart();
    drive_until(bed.status.standing == DRIVER_READY && bed.status.past == 2);
    assert_int_equal(bed.status.identity.cluster_id, bed.other.cluster_id);
    assert_int_equal(bed.status.stats.relists_rewritten, 1);
}

/* ---- backfills ---- */

static void history_is_read_from_upstream(void **state)
{
    (void)state;
    make_members(1);
    put_many(20);
    start_all();
    drive_live();
    ask(1, FAKE_FIRST, bed.theirs.revision);
    assert_int_equal(bed.status.backfills_done, 0);
    drive_until(bed.n_answers == 1);
    assert_int_equal(bed.answers[1], BELFRY_OK);
    assert_int_equal(bed.revisions, bed.theirs.revision - FAKE_FIRST);
    turn();
    assert_int_equal(bed.status.backfills, 0);
    assert_int_equal(bed.status.backfills_done, 1);
    assert_int_equal(bed.status.backfill_revisions, bed.revisions);
}

static void requests_over_the_bound_are_refused_and_the_rest_canceled_at_the_end(void **state)
{
    size_t refused = 0, canceled = 0;
    (void)state;
    make_members(1);
    put_many(20);
    start_all();
    drive_live();
    fake_drop(bed.fakes[0], true);
    for (unsigned i = 0; i < 1100; i++)
        ask(i, FAKE_FIRST, bed.theirs.revision);
    drive_until(bed.n_answers == 1100 - 1024);
    stop();
    assert_int_equal(bed.n_answers, 1100);
    for (unsigned i = 0; i < 1100; i++) {
        refused += bed.answers[i] == BELFRY_ERR_LIMIT;
        canceled += bed.answers[i] == BELFRY_ERR_CANCELED;
    }
    assert_int_equal(refused, 1100 - 1024);
    assert_int_equal(canceled, 1024);
}

/* ---- memory ---- */

/* By hand, because the model of a store cannot do without its own. False: nothing was left to refuse. */
static bool run_refused(size_t n, bool served)
{
    setup(NULL);
    make_members(1);
    put_many(30);
    if (!served)
        fake_drop(bed.fakes[0], true);
    refuse_begin(n);
    enum belfry_err err = start("", "", 1);
    size_t asked = 0;
    for (int i = 0; i < 60 && err == BELFRY_OK; i++) {
        turn();
        if (i == 40)
            fake_put(&bed.theirs, "more", "1");
        if (i == 50 && bed.status.past > 0)
            ask(++asked, FAKE_FIRST, FAKE_FIRST + 10);
    }
    stop();
    bool reached = refuse_end();
    assert_true(err == BELFRY_OK || (reached && err == BELFRY_ERR_NOMEM));
    assert_int_equal(bed.n_answers, asked);
    assert_int_equal(teardown(NULL), 0);
    return reached;
}

static void refused_memory_is_an_error_or_a_delay_and_never_a_leak(void **state)
{
    (void)state;
    for (int served = 0; served < 2; served++) {
        size_t n = 0;
        while (run_refused(n, served != 0))
            n++;
        print_message("%zu allocations%s\n", n, served ? " with a member" : "");
        assert_true(n > (served ? 100 : 20));
    }
}

static void refused_memory_does_not_keep_it_from_being_live(void **state)
{
    (void)state;
    make_members(1);
    put_many(30);
    start_all();
    drive_live();
    for (size_t n = 0; n < 10; n++) {
        char key[] = {'r', (char)('0' + n), '\0'};
        refuse_begin(n);
        fake_put(&bed.theirs, key, "1");
        drive_for(20);
        refuse_end();
        drive_live();
    }
    assert_int_equal(bed.status.past, 1);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(an_old_version_is_warned_about_once),
        T(a_server_that_must_not_be_asked_for_progress_is_not_stale_for_that),
        T(a_version_too_old_for_a_scope_gives_nothing_and_a_newer_one_does),
        T(a_cold_start_lists_and_follows),
        T(a_lost_connection_is_a_resume),
        T(an_event_that_is_no_put_and_no_delete_is_not_taken),
        T(pages_of_one_connection_are_one_listing),
        T(pages_of_a_member_that_is_behind_are_linearizable),
        T(a_connection_lost_between_pages_lists_anew),
        T(one_stray_endpoint_is_left),
        T(another_cluster_everywhere_is_a_new_past),
        T(a_new_term_is_heard_of_without_a_write),
        T(another_past_begins_with_its_own_term),
        T(no_upstream_is_told_and_waited_for),
        T(a_right_that_is_missing_is_a_trouble_of_its_own),
        T(trouble_with_the_disk_is_told_and_outlasted),
        T(what_is_committed_is_there_after_the_end),
        T(a_warm_start_finds_another_cluster),
        T(history_is_read_from_upstream),
        T(requests_over_the_bound_are_refused_and_the_rest_canceled_at_the_end),
        cmocka_unit_test(refused_memory_is_an_error_or_a_delay_and_never_a_leak),
        T(refused_memory_does_not_keep_it_from_being_live),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
