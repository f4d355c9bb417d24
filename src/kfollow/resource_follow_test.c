/* src/kfollow/resource_follow_test.c */
#include "kfollow/resource_follow.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "kfollow/resource_freshness.h"
#include "support/modelstore.h"
#include "support/refuse.h"

#define LINK 7

/* A follower on a store in memory; the suite plays the servers. */
static struct {
    struct store *store;
    struct evlog *evlog;
    struct ingest *ingest;
    struct resource_follow *follow;
    struct resource_pulse pulse;
    unsigned n_servers;
    bool streams; /* the servers are asked for initial events */
    bool has_leases;
    uint64_t now;
    /* requests in progress, as the machine wants them; id 0: none */
    struct resource_action watch, list, probe, versions;
    struct resource_action answer; /* the last one */
    unsigned resumes;
} bed;

static void act(void)
{
    struct resource_action action;
    while (resource_next(bed.follow, bed.now, &action)) {
        struct resource_action *of[] = {&bed.watch, &bed.list, &bed.probe, &bed.versions};
        switch (action.want) {
        case RESOURCE_WANT_WATCH:
            bed.watch = action;
            break;
        case RESOURCE_WANT_LIST:
            bed.list = action;
            break;
        case RESOURCE_WANT_PROBE:
            bed.probe = action;
            break;
        case RESOURCE_WANT_CANCEL:
            for (size_t i = 0; i < 4; i++)
                if (of[i]->id == action.id)
                    of[i]->id = 0;
            break;
        case RESOURCE_WANT_VERSIONS:
            bed.versions = action;
            break;
        case RESOURCE_WANT_ANSWER:
            bed.answer = action;
            break;
        case RESOURCE_WANT_RESUME:
            bed.resumes++;
            break;
        }
    }
}

static enum belfry_err start_process(void)
{
    bool warm = false;
    struct evlog_opts log = {.capacity_log2 = 8, .max_bytes = 1 << 20, .n_workers = 1};
    enum belfry_err err = evlog_create(&log, &bed.evlog);
    struct ingest_opts ingest = {.store = bed.store, .evlog = bed.evlog, .trim_rows = 16};
    if (err == BELFRY_OK)
        err = ingest_create(&ingest, &bed.ingest);
    if (err == BELFRY_OK)
        err = ingest_open(bed.ingest, &warm);
    struct resource_follow_opts opts = {.ingest = bed.ingest,
                                        .store = bed.store,
                                        .warm = warm,
                                        .n_servers = bed.n_servers,
                                        .seed = 1,
                                        .no_initial = !bed.streams,
                                        .has_leases = bed.has_leases,
                                        .hash_key = {3, 4},
                                        .pulse = &bed.pulse};
    if (err == BELFRY_OK)
        err = resource_follow_create(&opts, bed.now, &bed.follow);
    return err;
}

static void end_process(void)
{
    resource_follow_destroy(bed.follow);
    ingest_destroy(bed.ingest);
    evlog_destroy(bed.evlog);
    bed.follow = NULL;
    bed.ingest = NULL;
    bed.evlog = NULL;
    bed.watch.id = bed.list.id = bed.probe.id = bed.versions.id = 0;
}

static void begin(unsigned n_servers)
{
    static const struct modelstore_opts opts = {
        .history_rows = 1000, .history_age_s = 1000000, .extent_bytes = 1 << 20};
    memset(&bed, 0, sizeof(bed));
    bed.now = 1000;
    bed.n_servers = n_servers;
    bed.store = modelstore_create(&opts);
    assert_int_equal(start_process(), BELFRY_OK);
    act();
}

static int teardown(void **state)
{
    (void)state;
    end_process();
    modelstore_destroy(bed.store);
    return 0;
}

/* ---- what servers say ---- */

/* An object by its key and version; its uid and its bytes are made of `uid`. */
static struct resource_object object_of(const char *key, const char *uid, int64_t rv)
{
    return (struct resource_object){
        .key = belfry_bytes_str(key), .uid = belfry_bytes_str(uid), .json = belfry_bytes_str(uid), .rv = rv};
}

static bool event(enum resource_change change, const char *key, const char *uid, int64_t rv)
{
    struct resource_object object = object_of(key, uid, rv);
    bool taken = resource_on_event(bed.follow, bed.watch.id, change, &object, bed.now);
    act();
    return taken;
}

static bool bookmark(int64_t rv)
{
    bool taken = resource_on_bookmark(bed.follow, bed.watch.id, rv, bed.now);
    act();
    return taken;
}

static void open_watch(uint64_t link)
{
    assert_true(bed.watch.id != 0);
    resource_on_opened(bed.follow, bed.watch.id, link, bed.now);
    act();
}

static void end_watch(enum resource_end end)
{
    uint64_t id = bed.watch.id;
    assert_true(id != 0);
    bed.watch.id = 0;
    resource_on_end(bed.follow, id, end, bed.now);
    act();
}

static void item(const char *key, const char *uid, int64_t rv)
{
    struct resource_object object = object_of(key, uid, rv);
    assert_true(bed.list.id != 0);
    resource_on_item(bed.follow, bed.list.id, &object, LINK, bed.now);
}

/* The list or the probe that is under way, whose id is taken, has ended. */
static void list_ends(uint64_t *asked, int64_t rv, uint64_t link)
{
    uint64_t id = *asked;
    assert_true(id != 0);
    *asked = 0;
    resource_on_listed(bed.follow, id, rv, link, bed.now);
    act();
}

static void listed(int64_t rv, uint64_t link)
{
    list_ends(&bed.list.id, rv, link);
}

static void probed(int64_t rv)
{
    list_ends(&bed.probe.id, rv, LINK);
}

/* In steps of a tick. */
static void wait_ms(uint64_t ms)
{
    for (uint64_t until = bed.now + ms; bed.now < until;) {
        bed.now += RESOURCE_TICK_MS;
        resource_tick(bed.follow, bed.now);
        act();
    }
}

/* ---- what the log has ---- */

static struct evlog_cut cut(void)
{
    struct evlog_view view;
    evlog_enter(bed.evlog, 0, &view);
    evlog_leave(bed.evlog, 0);
    return view.cut;
}

static int64_t head(void)
{
    return ingest_head(bed.ingest);
}

static struct resource_stats stats(void)
{
    struct resource_stats out;
    resource_stats(bed.follow, &out);
    return out;
}

/* Objects a (version 10) and b (11), listed at 20, and a watch. */
static void begin_live(unsigned n_servers)
{
    begin(n_servers);
    item("ns/a", "u1", 10);
    item("ns/b", "u2", 11);
    listed(20, LINK);
    probed(20);
    open_watch(LINK);
    assert_true(resource_ready(bed.follow));
}

/* The list of an audit has what begin_live() has. */
static void agree(void)
{
    item("ns/a", "u1", 10);
    item("ns/b", "u2", 11);
    listed(20, LINK);
    assert_true(resource_ready(bed.follow));
}

/* ---- listing ---- */

static void empty_store_is_listed_then_checked_and_watched(void **state)
{
    (void)state;
    begin(1);
    assert_int_equal(bed.list.rv, 0);
    item("ns/a", "u1", 10);
    listed(20, LINK);
    assert_int_equal(head(), 0);
    probed(25);
    assert_int_equal(head(), 20);
    assert_int_equal(cut().why, EVLOG_CUT_START);
    assert_int_equal(bed.watch.rv, 20);
    assert_false(resource_ready(bed.follow));
    open_watch(LINK);
    assert_true(resource_ready(bed.follow));
    assert_int_equal(stats().links, 1);
}

static void list_of_a_cache_that_etcd_is_behind_is_not_adopted(void **state)
{
    (void)state;
    begin(2);
    unsigned first = bed.list.server;
    item("ns/a", "u1", 10);
    listed(20, LINK);
    probed(19);
    wait_ms(RESOURCE_RETRY_MAX_MS);
    assert_int_equal(head(), 0);
    assert_int_equal(stats().gone, 1);
    assert_true(bed.list.id != 0 && bed.list.server != first);
}

static void list_with_an_item_newer_than_itself_is_not_adopted(void **state)
{
    (void)state;
    begin(1);
    item("ns/a", "u1", 21);
    listed(20, LINK);
    wait_ms(RESOURCE_RETRY_MAX_MS);
    assert_true(bed.list.id != 0);
    assert_int_equal(head(), 0);
}

static void watch_on_another_link_needs_a_proof(void **state)
{
    (void)state;
    begin(1);
    item("ns/a", "u1", 10);
    item("ns/b", "u2", 20);
    listed(20, LINK);
    probed(20);
    open_watch(LINK + 1);
    assert_int_equal(resource_state(bed.follow), RESOURCE_JOINING);
    assert_int_equal(bed.watch.rv, 19); /* before the newest object */
    open_watch(LINK + 1);
    event(RESOURCE_ADDED, "ns/b", "u2", 20);
    assert_int_equal(resource_state(bed.follow), RESOURCE_LIVE);
    assert_int_equal(head(), 20);
}

/* An object may have been deleted between the newest object and the list, in this past and not in another one. */
static void newest_object_of_an_older_version_than_the_list_proves_nothing(void **state)
{
    (void)state;
    begin_live(1); /* b at 11, listed at 20 */
    bed.now += 2000;
    end_watch(RESOURCE_ENDED);
    assert_int_equal(resource_state(bed.follow), RESOURCE_AUDITING);
    assert_int_equal(bed.watch.rv, 20);
}

static void link_proves_nothing_after_a_while(void **state)
{
    (void)state;
    begin(1);
    listed(20, LINK);
    probed(20);
    bed.now += RESOURCE_LINK_MS + 1;
    open_watch(LINK);
    assert_int_equal(resource_state(bed.follow), RESOURCE_AUDITING); /* there is no change to compare */
}

/* A transaction of something other than an API server gives several objects one version. A list has them all. */
static void objects_of_one_version_are_listed_once_and_then_audited(void **state)
{
    (void)state;
    begin_live(1);
    event(RESOURCE_MODIFIED, "ns/a", "u1", 30);
    event(RESOURCE_MODIFIED, "ns/b", "u2", 30);
    assert_int_equal(resource_state(bed.follow), RESOURCE_LISTING);
    assert_non_null(strstr(resource_why(bed.follow), "more than one object"));
    item("ns/a", "u1", 30);
    item("ns/b", "u2", 30);
    listed(30, LINK);
    probed(30);
    open_watch(LINK);
    assert_true(resource_ready(bed.follow));
    bed.now += 2000;
    end_watch(RESOURCE_ENDED);
    assert_int_equal(resource_state(bed.follow), RESOURCE_AUDITING); /* an overlap may show either of them first */
    open_watch(LINK);
    item("ns/a", "u1", 30);
    item("ns/b", "u2", 30);
    listed(30, LINK);
    assert_true(resource_ready(bed.follow));
    event(RESOURCE_MODIFIED, "ns/b", "u2", 31);
    assert_int_equal(head(), 31);
    assert_int_equal(stats().listings, 2);
}

/* ---- following ---- */

static void changes_go_to_the_log_and_bookmarks_advance_it(void **state)
{
    (void)state;
    begin_live(1);
    event(RESOURCE_MODIFIED, "ns/a", "u1", 30);
    event(RESOURCE_ADDED, "ns/c", "u3", 31);
    event(RESOURCE_DELETED, "ns/b", "u2", 33);
    assert_int_equal(head(), 33);
    bookmark(40);
    assert_int_equal(head(), 40);
    assert_int_equal(stats().events, 3);
    assert_int_equal(stats().rewritten, 0);
}

static void change_that_does_not_fit_is_another_past(void **state)
{
    (void)state;
    static const struct {
        enum resource_change change;
        const char *key, *uid;
    } bad[] = {{RESOURCE_ADDED, "ns/a", "u1"},
               {RESOURCE_MODIFIED, "ns/a", "u9"},
               {RESOURCE_MODIFIED, "ns/x", "u9"},
               {RESOURCE_DELETED, "ns/a", "u9"},
               {RESOURCE_DELETED, "ns/x", "u9"}};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        begin_live(1);
        event(bad[i].change, bad[i].key, bad[i].uid, 30);
        assert_int_equal(resource_state(bed.follow), RESOURCE_LISTING);
        assert_int_equal(bed.list.rv, 0); /* any version: etcd may be behind us */
        assert_int_equal(head(), 20);
        item("ns/z", "u7", 5);
        listed(15, LINK);
        probed(15);
        assert_int_equal(cut().why, EVLOG_CUT_REWRITTEN);
        assert_int_equal(head(), 15);
        if (i + 1 < sizeof(bad) / sizeof(bad[0]))
            teardown(NULL);
    }
}

static void bookmark_behind_us_is_lag_until_a_probe_says_otherwise(void **state)
{
    (void)state;
    begin_live(1);
    bookmark(15);
    assert_int_equal(resource_state(bed.follow), RESOURCE_LIVE);
    probed(22);
    assert_int_equal(resource_state(bed.follow), RESOURCE_LIVE);
    bookmark(15);
    probed(19);
    assert_int_equal(resource_state(bed.follow), RESOURCE_LISTING);
}

/* A worker that sleeps inside a turn occupies the places of the log. */
static void change_that_the_log_cannot_take_is_offered_again(void **state)
{
    (void)state;
    struct evlog_view view;
    begin_live(1);
    evlog_enter(bed.evlog, 0, &view);
    int64_t rv = 30;
    while (event(RESOURCE_MODIFIED, "ns/a", "u1", rv) && rv < 2000)
        rv++;
    assert_true(rv < 2000);
    assert_int_equal(head(), rv - 1);
    assert_false(event(RESOURCE_MODIFIED, "ns/a", "u1", rv));
    evlog_leave(bed.evlog, 0);
    unsigned resumes = bed.resumes;
    wait_ms(RESOURCE_TICK_MS);
    assert_true(bed.resumes > resumes);
    assert_true(event(RESOURCE_MODIFIED, "ns/a", "u1", rv));
    assert_int_equal(head(), rv);
}

/* ---- joining ---- */

static void resume_shows_our_last_changes_first(void **state)
{
    (void)state;
    begin_live(1);
    event(RESOURCE_MODIFIED, "ns/a", "u1", 30);
    event(RESOURCE_DELETED, "ns/b", "u2", 31);
    bookmark(35);
    bed.now += 5000;
    end_watch(RESOURCE_ENDED);
    assert_int_equal(bed.watch.rv, 29);
    open_watch(LINK);
    event(RESOURCE_MODIFIED, "ns/a", "u1", 30);
    assert_int_equal(resource_state(bed.follow), RESOURCE_JOINING);
    event(RESOURCE_DELETED, "ns/b", "u2", 31);
    assert_true(resource_ready(bed.follow));
    event(RESOURCE_ADDED, "ns/c", "u3", 40);
    assert_int_equal(head(), 40);
    assert_int_equal(stats().overlaps, 1);
    assert_int_equal(stats().listings, 1);
}

static void resume_that_shows_other_changes_is_another_past(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 5; i++) {
        begin_live(1);
        event(RESOURCE_MODIFIED, "ns/a", "u1", 30);
        bookmark(35);
        bed.now += 5000;
        end_watch(RESOURCE_ENDED);
        open_watch(LINK);
        struct resource_object changed = object_of("ns/a", "u1", 30);
        changed.json = belfry_bytes_str("other bytes");
        if (i == 0)
            resource_on_event(bed.follow, bed.watch.id, RESOURCE_MODIFIED, &changed, bed.now);
        else if (i == 1)
            event(RESOURCE_DELETED, "ns/a", "u1", 30);
        else if (i == 2)
            event(RESOURCE_MODIFIED, "ns/a", "u1", 32); /* ours is missing */
        else if (i == 3)
            bookmark(30); /* likewise */
        else {
            event(RESOURCE_MODIFIED, "ns/a", "u1", 30);
            event(RESOURCE_MODIFIED, "ns/b", "u2", 33); /* where we know of none */
        }
        act();
        assert_int_equal(resource_state(bed.follow), RESOURCE_LISTING);
        if (i < 4)
            teardown(NULL);
    }
}

/* All servers answer 410: to a join, to a shorter one, to an audit. The next request may have to wait for its turn. */
static void expire_all(unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        open_watch(LINK);
        end_watch(RESOURCE_EXPIRED);
    }
}

static void history_is_asked_of_every_server_before_a_list(void **state)
{
    (void)state;
    begin_live(3);
    event(RESOURCE_MODIFIED, "ns/a", "u1", 30);
    event(RESOURCE_MODIFIED, "ns/a", "u1", 31);
    bed.now += 5000;
    end_watch(RESOURCE_ENDED);
    assert_int_equal(bed.watch.rv, 29);
    unsigned seen = 0;
    for (unsigned i = 0; i < 3; i++) {
        seen |= 1u << bed.watch.server;
        expire_all(1);
    }
    assert_int_equal(seen, 7);
    assert_int_equal(bed.watch.rv, 30); /* the last change alone */
    expire_all(3);
    assert_int_equal(resource_state(bed.follow), RESOURCE_AUDITING);
    assert_int_equal(bed.watch.rv, 31);
    expire_all(3);
    assert_int_equal(resource_state(bed.follow), RESOURCE_LISTING);
    assert_int_equal(bed.list.rv, 31); /* not older than ours */
    item("ns/a", "u1", 45);
    listed(50, LINK);
    probed(50);
    assert_int_equal(cut().why, EVLOG_CUT_COMPACTED);
    assert_int_equal(cut().compact_rev, 51); /* nothing up to 50 can be served */
    assert_int_equal(stats().expired, 1);
}

/* No cache has our version, 30, and the lists of such a version fail. */
static void fail_lists_until_a_judgement(void)
{
    unsigned n = 0;
    for (uint64_t end_ms = bed.now + 60000; bed.now < end_ms && bed.list.rv != RESOURCE_CONSISTENT;) {
        wait_ms(RESOURCE_TICK_MS);
        uint64_t id = bed.list.id;
        if (id == 0 || bed.list.rv == RESOURCE_CONSISTENT)
            continue;
        assert_int_equal(bed.list.rv, 30);
        n++;
        bed.list.id = 0;
        resource_on_end(bed.follow, id, RESOURCE_FAILED, bed.now);
        act();
    }
    assert_in_range(n, RESOURCE_LAGS, 100);
    assert_int_equal(bed.list.rv, RESOURCE_CONSISTENT);
}

/* LISTING after 410 at version 30, of which `last` was the last change; a consistent list is wanted. */
static void begin_judged_listing(int64_t last)
{
    begin_live(1);
    event(RESOURCE_MODIFIED, "ns/a", "u1", last);
    bookmark(30);
    bed.now += 5000;
    end_watch(RESOURCE_ENDED);
    expire_all(2);
    assert_int_equal(resource_state(bed.follow), RESOURCE_LISTING);
    fail_lists_until_a_judgement();
}

/* Nothing has changed since; only etcd's version has passed ours, by changes of other resources. */
static void list_of_our_version_that_no_cache_has_may_be_had_from_our_changes(void **state)
{
    (void)state;
    begin_judged_listing(25);
    for (unsigned i = 0; i < 2; i++) { /* etcd, and then its cache, which has all of our changes */
        item("ns/a", "u1", 25);
        item("ns/b", "u2", 11);
        listed(i == 0 ? 60 : 25, LINK);
    }
    assert_int_equal(bed.watch.rv, 25);
    open_watch(LINK);
    wait_ms(RESOURCE_TICK_MS);
    assert_true(resource_ready(bed.follow));
    assert_int_equal(cut().why, EVLOG_CUT_START); /* no watcher was told of anything */
}

/* An object of ours is gone from etcd, and the cache is about to say so: this is no other past. */
static void list_of_our_version_is_waited_for_while_a_cache_lags(void **state)
{
    (void)state;
    begin_judged_listing(30);
    item("ns/a", "u1", 30);
    listed(60, LINK);
    assert_int_equal(bed.list.rv, 0);
    item("ns/a", "u1", 10);
    item("ns/b", "u2", 11);
    listed(25, LINK);
    assert_int_equal(resource_state(bed.follow), RESOURCE_JOINING);
    assert_int_equal(stats().rewritten, 0);
}

/* etcd was restored and has passed our version, but the resource is quiet: no cache comes to have it. */
static void list_of_our_version_that_no_cache_has_is_judged_by_etcd(void **state)
{
    (void)state;
    begin_judged_listing(30);
    item("ns/a", "u1", 25); /* what was 30 is gone */
    item("ns/b", "u2", 11);
    listed(60, LINK);
    assert_int_equal(resource_state(bed.follow), RESOURCE_LISTING);
    assert_int_equal(bed.list.rv, 0); /* of any version */
    item("ns/a", "u1", 25);
    item("ns/b", "u2", 11);
    listed(26, LINK);
    probed(60);
    assert_int_equal(cut().why, EVLOG_CUT_REWRITTEN);
    assert_int_equal(head(), 26);
}

static void list_is_asked_of_a_server_that_answers(void **state)
{
    (void)state;
    begin_live(2);
    unsigned silent = bed.watch.server;
    end_watch(RESOURCE_FAILED);
    for (unsigned i = 0; i < 400 && resource_state(bed.follow) != RESOURCE_LISTING; i++) {
        if (bed.watch.id != 0 && bed.watch.server == silent)
            end_watch(RESOURCE_FAILED);
        else if (bed.watch.id != 0)
            expire_all(1);
        wait_ms(RESOURCE_TICK_MS);
    }
    assert_true(bed.list.id != 0 && bed.list.server != silent);
}

static void list_after_410_that_contradicts_us_is_another_past(void **state)
{
    (void)state;
    begin_live(1);
    bed.now += 5000;
    end_watch(RESOURCE_ENDED);
    expire_all(1);
    assert_int_equal(resource_state(bed.follow), RESOURCE_LISTING);
    item("ns/a", "u9", 12);
    listed(50, LINK);
    probed(50);
    assert_int_equal(cut().why, EVLOG_CUT_REWRITTEN);
}

/* Watchers at that version hear nothing of a list that is no newer. */
static void list_at_our_version_without_an_object_of_ours_is_another_past(void **state)
{
    (void)state;
    begin_live(1);
    event(RESOURCE_ADDED, "ns/c", "u3", 30);
    bookmark(31);
    end_watch(RESOURCE_EXPIRED);
    for (unsigned i = 0; i < 3 && bed.list.id == 0; i++) {
        wait_ms(RESOURCE_TICK_MS);
        if (bed.watch.id != 0)
            end_watch(RESOURCE_EXPIRED);
    }
    assert_int_equal(resource_state(bed.follow), RESOURCE_LISTING);
    item("ns/a", "u1", 10);
    item("ns/c", "u3", 30);
    listed(31, LINK);
    probed(31);
    assert_int_equal(cut().why, EVLOG_CUT_REWRITTEN);
}

static void server_that_does_not_answer_is_left_for_the_next(void **state)
{
    (void)state;
    begin_live(2);
    unsigned first = bed.watch.server;
    wait_ms(RESOURCE_PROBE_MS);
    assert_true(bed.probe.id != 0);
    assert_false(resource_stale(bed.follow));
    wait_ms(RESOURCE_STALE_MS);
    assert_true(resource_stale(bed.follow) && !resource_ready(bed.follow));
    wait_ms(RESOURCE_DEAD_MS);
    assert_true(bed.watch.server != first);
    assert_int_equal(stats().listings, 1);
}

static void sleep_of_our_own_is_no_silence(void **state)
{
    (void)state;
    begin_live(2);
    bed.now += 60000;
    resource_tick(bed.follow, bed.now);
    act();
    assert_false(resource_stale(bed.follow));
    assert_int_equal(stats().moves, 0);
}

/* ---- auditing ---- */

static void begin_audit(void)
{
    begin_live(1);
    bed.now += 5000;
    end_watch(RESOURCE_ENDED);
    assert_int_equal(resource_state(bed.follow), RESOURCE_AUDITING);
    assert_int_equal(bed.watch.rv, 20);
    assert_int_equal(bed.list.id, 0); /* the watch first, then its proof */
    open_watch(LINK);
    assert_int_equal(bed.list.rv, 20);
}

static void audit_that_agrees_proves_the_watch(void **state)
{
    (void)state;
    begin_audit();
    assert_true(event(RESOURCE_MODIFIED, "ns/a", "u1", 22));
    bookmark(24);
    assert_int_equal(head(), 20); /* it is kept until the past is proven */
    item("ns/a", "u1", 22);
    item("ns/b", "u2", 11);
    listed(25, LINK);
    assert_true(resource_ready(bed.follow));
    assert_int_equal(head(), 24);
    assert_int_equal(stats().events, 1);
    assert_int_equal(stats().audits, 1);
    assert_int_equal(stats().listings, 1);
}

/* The server read its etcd anew: the watch was of the cache before, the list is of the new one. */
static void watch_that_ends_during_its_audit_is_not_proven(void **state)
{
    (void)state;
    begin_audit();
    assert_true(event(RESOURCE_MODIFIED, "ns/a", "u1", 22));
    end_watch(RESOURCE_ENDED);
    assert_int_equal(bed.list.id, 0); /* it proves nothing any more */
    assert_false(resource_ready(bed.follow));
    assert_int_equal(head(), 20);
}

/* What the watch showed while the list was on its way counts as what it shows later. */
static void debt_is_paid_by_what_came_before_the_list(void **state)
{
    (void)state;
    begin_audit();
    event(RESOURCE_DELETED, "ns/b", "u2", 22);
    item("ns/a", "u1", 10);
    listed(25, LINK);
    assert_true(resource_ready(bed.follow));
    assert_int_equal(head(), 22);
    teardown(NULL);
    begin_audit();
    event(RESOURCE_MODIFIED, "ns/a", "u1", 26);
    event(RESOURCE_DELETED, "ns/b", "u2", 27); /* after the list, which does not have it */
    item("ns/a", "u1", 10);
    listed(25, LINK);
    assert_int_equal(resource_state(bed.follow), RESOURCE_LISTING);
    teardown(NULL);
    begin_audit();
    bookmark(25);
    item("ns/a", "u1", 10);
    listed(25, LINK);
    assert_int_equal(resource_state(bed.follow), RESOURCE_LISTING);
    assert_int_equal(head(), 20);
}

static void audit_that_contradicts_is_another_past(void **state)
{
    (void)state;
    begin_audit();
    item("ns/a", "u1", 10);
    item("ns/c", "u3", 15);
    listed(25, LINK);
    assert_int_equal(resource_state(bed.follow), RESOURCE_LISTING);
    assert_int_equal(bed.list.rv, 0);
}

static void audit_of_another_link_proves_nothing(void **state)
{
    (void)state;
    begin_audit();
    item("ns/a", "u1", 10);
    item("ns/b", "u2", 11);
    listed(25, LINK + 2);
    assert_int_equal(resource_state(bed.follow), RESOURCE_AUDITING);
    assert_false(resource_ready(bed.follow));
    assert_int_equal(stats().audits, 0);
}

/* b is not in the list: it must have been deleted. */
static void begin_debt(void)
{
    begin_audit();
    item("ns/a", "u1", 10);
    listed(25, LINK);
    assert_int_equal(resource_state(bed.follow), RESOURCE_AUDITING);
    assert_true(event(RESOURCE_ADDED, "ns/c", "u3", 22));
    assert_int_equal(head(), 20); /* it is kept until the past is proven */
}

static void events_are_published_when_a_missing_object_was_deleted(void **state)
{
    (void)state;
    begin_debt();
    assert_true(event(RESOURCE_DELETED, "ns/b", "u2", 24));
    assert_true(resource_ready(bed.follow));
    assert_int_equal(head(), 24);
    assert_int_equal(stats().events, 2);
}

static void missing_object_that_was_not_deleted_is_another_past(void **state)
{
    (void)state;
    begin_debt();
    event(RESOURCE_MODIFIED, "ns/a", "u1", 26); /* after the list */
    assert_int_equal(resource_state(bed.follow), RESOURCE_LISTING);
    assert_int_equal(head(), 20);
    teardown(NULL);
    begin_debt();
    bookmark(25);
    assert_int_equal(resource_state(bed.follow), RESOURCE_LISTING);
    teardown(NULL);
    begin_debt();
    wait_ms(RESOURCE_PROBE_MS);
    for (unsigned i = 0; i < 20 && resource_state(bed.follow) == RESOURCE_AUDITING; i++) {
        if (bed.probe.id != 0)
            probed(30);
        wait_ms(RESOURCE_PROBE_MS);
    }
    assert_int_equal(resource_state(bed.follow), RESOURCE_LISTING);
    assert_int_equal(head(), 20);
}

/* Watches are accepted and say nothing, while etcd is at 50. */
static void lag_until_a_list(void)
{
    for (unsigned i = 0; i < 200 && bed.list.id == 0; i++) {
        if (bed.watch.id != 0 && i % 12 == 0)
            open_watch(LINK);
        if (bed.probe.id != 0)
            probed(50);
        wait_ms(RESOURCE_TICK_MS);
    }
}

static void caches_that_stay_behind_are_judged_by_etcd(void **state)
{
    (void)state;
    begin_live(1);
    event(RESOURCE_MODIFIED, "ns/a", "u1", 30);
    bed.now += 5000;
    end_watch(RESOURCE_ENDED);
    lag_until_a_list();
    assert_int_equal(bed.list.rv, RESOURCE_CONSISTENT);
    item("ns/a", "u1", 30);
    item("ns/b", "u2", 11);
    listed(50, LINK);
    assert_int_equal(stats().judgements, 1);
    assert_int_equal(bed.list.rv, 0);
    item("ns/a", "u1", 10);
    item("ns/b", "u2", 11);
    listed(25, LINK);
    assert_int_equal(resource_state(bed.follow), RESOURCE_JOINING); /* it does lag */
    lag_until_a_list();
    item("ns/a", "u1", 29);
    item("ns/b", "u2", 11);
    listed(50, LINK);
    assert_int_equal(resource_state(bed.follow), RESOURCE_LISTING);
}

static void cache_with_our_state_and_without_our_last_changes_is_another_past(void **state)
{
    (void)state;
    begin_live(1);
    event(RESOURCE_ADDED, "ns/c", "u3", 30);
    event(RESOURCE_DELETED, "ns/c", "u3", 31);
    bed.now += 5000;
    end_watch(RESOURCE_ENDED);
    lag_until_a_list();
    for (unsigned i = 0; i < 2; i++) { /* etcd, and then its cache, which stays at 25 */
        item("ns/a", "u1", 10);
        item("ns/b", "u2", 11);
        listed(i == 0 ? 50 : 25, LINK);
    }
    assert_int_equal(resource_state(bed.follow), RESOURCE_LISTING);
    assert_non_null(strstr(resource_why(bed.follow), "has what etcd has"));
}

/* The list of an audit fails: the cache is behind us. */
static void begin_older(void)
{
    begin_audit();
    uint64_t id = bed.list.id;
    bed.list.id = 0;
    resource_on_end(bed.follow, id, RESOURCE_FAILED, bed.now);
    act();
    assert_int_equal(bed.watch.id, 0);
    assert_int_equal(bed.list.rv, 0);
}

static void older_cache_with_our_objects_is_followed_from_its_version(void **state)
{
    (void)state;
    begin_older();
    item("ns/a", "u1", 10);
    item("ns/b", "u2", 11);
    listed(15, LINK);
    assert_int_equal(bed.watch.rv, 15);
    open_watch(LINK);
    assert_true(resource_ready(bed.follow));
    assert_int_equal(stats().older, 1);
    assert_true(event(RESOURCE_ADDED, "ns/c", "u3", 30));
    assert_int_equal(head(), 30);
}

/* A list of seconds proves nothing about a watch that follows it, so another one follows the watch. */
static void older_cache_that_lists_slowly_is_listed_again_below_its_watch(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        begin_older();
        bed.now += RESOURCE_LINK_MS + 1;
        item("ns/a", "u1", 10);
        item("ns/b", "u2", 11);
        listed(15, LINK);
        assert_int_equal(bed.watch.rv, 15);
        open_watch(LINK);
        assert_false(resource_ready(bed.follow));
        assert_int_equal(bed.list.rv, 0);
        assert_true(event(RESOURCE_ADDED, "ns/c", "u3", 30));
        assert_int_equal(head(), 20); /* it waits */
        bed.now += RESOURCE_LINK_MS + 1;
        item("ns/a", "u1", i == 2 ? 9 : 10);
        item("ns/b", "u2", 11);
        listed(15, i == 1 ? LINK + 2 : LINK); /* on another link, and of another state: no proof */
        assert_int_equal(resource_ready(bed.follow), i == 0);
        assert_int_equal(stats().older, i == 0 ? 2 : 1);
        assert_int_equal(head(), i == 0 ? 30 : 20);
        if (i + 1 < 3)
            teardown(NULL);
    }
}

/* There a watch has its connection for itself: no list can be below it. */
static void slow_list_over_http1_is_named(void **state)
{
    (void)state;
    begin_older();
    bed.now += RESOURCE_LINK_MS + 1;
    item("ns/a", "u1", 10);
    item("ns/b", "u2", 11);
    listed(15, LINK + 1);
    open_watch(LINK + 1);
    assert_false(resource_ready(bed.follow));
    assert_string_equal(
        resource_why(bed.follow),
        "over HTTP/1.1 a list proves nothing after 2000 ms, and this one took 2001: use https, with HTTP/2");
}

static void older_cache_that_shows_a_change_below_us_is_another_past(void **state)
{
    (void)state;
    begin_older();
    item("ns/a", "u1", 10);
    item("ns/b", "u2", 11);
    listed(15, LINK);
    open_watch(LINK);
    event(RESOURCE_MODIFIED, "ns/a", "u1", 17);
    assert_int_equal(resource_state(bed.follow), RESOURCE_LISTING);
    assert_int_equal(head(), 20);
}

static void older_cache_with_other_objects_lags(void **state)
{
    (void)state;
    static const struct {
        int64_t a, b, at;
    } bad[] = {{9, 11, 15}, {10, 0, 15}, {10, 11, 10}};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        begin_older();
        item("ns/a", "u1", bad[i].a);
        if (bad[i].b != 0)
            item("ns/b", "u2", bad[i].b);
        listed(bad[i].at, LINK);
        assert_false(resource_ready(bed.follow));
        assert_int_equal(stats().older, 0);
        if (i + 1 < sizeof(bad) / sizeof(bad[0]))
            teardown(NULL);
    }
}

static void older_cache_that_caught_up_is_audited(void **state)
{
    (void)state;
    begin_older();
    listed(20, LINK);
    assert_int_equal(resource_state(bed.follow), RESOURCE_AUDITING);
    assert_int_equal(bed.watch.rv, 20);
}

static void silent_server_is_asked_after_those_that_answer(void **state)
{
    (void)state;
    begin_live(3);
    event(RESOURCE_MODIFIED, "ns/a", "u1", 30);
    unsigned silent = bed.watch.server;
    for (unsigned i = 0; i < 100 && resource_server(bed.follow) == silent; i++)
        wait_ms(RESOURCE_TICK_MS);
    for (unsigned i = 0; i < 6 && resource_state(bed.follow) == RESOURCE_JOINING; i++) {
        wait_ms(RESOURCE_TICK_MS);
        assert_true(bed.watch.server != silent);
        expire_all(1);
    }
    assert_int_equal(resource_state(bed.follow), RESOURCE_AUDITING);
    expire_all(2);
    assert_int_equal(bed.watch.server, silent); /* before everybody lists anew */
}

/* ---- starting again ---- */

static void warm_start_begins_before_the_last_changes(void **state)
{
    (void)state;
    begin_live(1);
    for (int64_t i = 0; i < 12; i++)
        event(RESOURCE_MODIFIED, "ns/a", "u1", 30 + 10 * i);
    event(RESOURCE_DELETED, "ns/b", "u2", 200);
    bookmark(300);
    resource_drained(bed.follow, bed.now);
    end_process();
    modelstore_crash(bed.store);
    assert_int_equal(start_process(), BELFRY_OK);
    act();
    assert_int_equal(head(), 300);
    assert_int_equal(bed.watch.rv, 30 + 10 * 5 - 1); /* eight changes */
    open_watch(LINK);
    for (int64_t i = 5; i < 12; i++)
        event(RESOURCE_MODIFIED, "ns/a", "u1", 30 + 10 * i);
    assert_int_equal(resource_state(bed.follow), RESOURCE_JOINING);
    event(RESOURCE_DELETED, "ns/b", "u2", 200);
    assert_true(resource_ready(bed.follow));
    event(RESOURCE_ADDED, "ns/b", "u4", 301);
    assert_int_equal(head(), 301);
    assert_int_equal(stats().listings, 0);
}

static void warm_start_without_history_is_audited(void **state)
{
    (void)state;
    begin_live(1);
    end_process();
    modelstore_crash(bed.store);
    assert_int_equal(start_process(), BELFRY_OK);
    act();
    assert_int_equal(bed.watch.rv, 20);
    open_watch(LINK); /* an audit knows the sum of the objects in the store */
    item("ns/a", "u1", 10);
    item("ns/b", "u2", 11);
    listed(20, LINK);
    assert_true(resource_ready(bed.follow));
}

/* ---- watches that end at once ---- */

/* Changes that an overlap shows, and a server that shows them and ends the watch, for `ms`. Returns how many watches it
 * was asked for, and in which second most of them. */
static unsigned end_every_watch(uint64_t ms, enum resource_end end, unsigned *most_in_a_second)
{
    unsigned n = 0, in_second = 0;
    uint64_t second = bed.now / 1000;
    *most_in_a_second = 0;
    for (uint64_t until = bed.now + ms; bed.now < until; bed.now = resource_due(bed.follow)) {
        resource_tick(bed.follow, bed.now);
        act();
        in_second = bed.now / 1000 == second ? in_second : 0;
        second = bed.now / 1000;
        while (bed.watch.id != 0) {
            n++;
            if (++in_second > *most_in_a_second)
                *most_in_a_second = in_second;
            assert_true(in_second < 100);
            open_watch(LINK);
            event(RESOURCE_MODIFIED, "ns/a", "u1", 30);
            assert_true(resource_ready(bed.follow));
            end_watch(end);
        }
        if (bed.probe.id != 0)
            probed(30);
    }
    return n;
}

static void server_that_proves_the_overlap_and_ends_the_watch_is_asked_at_a_pace(void **state)
{
    (void)state;
    static const enum resource_end ends[] = {RESOURCE_ENDED, RESOURCE_EXPIRED, RESOURCE_FAILED};
    for (size_t i = 0; i < 3; i++) {
        unsigned most;
        begin_live(1);
        event(RESOURCE_MODIFIED, "ns/a", "u1", 30);
        end_watch(ends[i]);
        assert_true(bed.watch.id != 0); /* the first retry is free */
        unsigned n = end_every_watch(20000, ends[i], &most);
        assert_in_range(n, 4, 40);
        assert_in_range(most, 1, 3); /* with the free one */
        if (i < 2)
            teardown(NULL);
    }
}

static void server_that_ends_every_watch_is_left_for_the_next(void **state)
{
    (void)state;
    unsigned most;
    begin_live(2);
    unsigned first = bed.watch.server;
    event(RESOURCE_MODIFIED, "ns/a", "u1", 30);
    end_watch(RESOURCE_ENDED);
    for (unsigned i = 0; i < 20 && resource_server(bed.follow) == first; i++)
        end_every_watch(RESOURCE_TICK_MS, RESOURCE_ENDED, &most);
    assert_int_not_equal(resource_server(bed.follow), first);
}

/* It may have lasted, and its server is not left for it. */
static void watch_that_came_and_ended_while_we_slept_says_nothing(void **state)
{
    (void)state;
    begin_live(2);
    unsigned first = bed.watch.server;
    event(RESOURCE_MODIFIED, "ns/a", "u1", 30);
    bed.now += RESOURCE_SHORT_MS;
    end_watch(RESOURCE_ENDED);
    for (unsigned i = 0; i < 10; i++) {
        while (bed.watch.id == 0)
            wait_ms(RESOURCE_TICK_MS);
        bed.now += 5000;
        open_watch(LINK);
        event(RESOURCE_MODIFIED, "ns/a", "u1", 30);
        end_watch(RESOURCE_ENDED);
        wait_ms(RESOURCE_TICK_MS);
    }
    assert_int_equal(resource_server(bed.follow), first);
}

static void watch_that_lasted_is_retried_at_once(void **state)
{
    (void)state;
    begin_live(1);
    event(RESOURCE_MODIFIED, "ns/a", "u1", 30);
    for (unsigned i = 0; i < 20; i++) {
        bed.now += RESOURCE_SHORT_MS;
        end_watch(RESOURCE_ENDED);
        assert_true(bed.watch.id != 0);
        open_watch(LINK);
        event(RESOURCE_MODIFIED, "ns/a", "u1", 30);
    }
}

/* An API server that was restarted knows no history: each question is answered with 410, and none is put off. */
static void restarted_server_is_asked_down_to_a_list_without_delay(void **state)
{
    (void)state;
    begin_live(1);
    event(RESOURCE_MODIFIED, "ns/a", "u1", 30);
    event(RESOURCE_MODIFIED, "ns/a", "u1", 31);
    uint64_t began_ms = bed.now += 5000;
    end_watch(RESOURCE_ENDED);
    for (unsigned i = 0; i < 3; i++) { /* the overlap, a shorter one, and an audit */
        open_watch(LINK);
        end_watch(RESOURCE_EXPIRED);
    }
    assert_true(bed.list.id != 0);
    assert_int_equal(bed.now, began_ms);
}

/* Its list and its watch never fit each other. */
static void server_that_contradicts_itself_is_asked_at_a_pace(void **state)
{
    (void)state;
    begin_live(1);
    unsigned n_lists = 0;
    uint64_t end_ms = bed.now + 20000;
    while (bed.now < end_ms && n_lists < 1000) {
        bool is_asked = bed.list.id != 0 || bed.watch.id != 0 || bed.probe.id != 0;
        if (!is_asked) {
            wait_ms(RESOURCE_TICK_MS);
        } else {
            if (bed.list.id != 0) {
                n_lists++;
                item("ns/a", "u1", 10);
                listed(20, LINK);
            } else if (bed.probe.id != 0) {
                probed(20);
            } else {
                open_watch(LINK);
                event(RESOURCE_MODIFIED, "ns/nothing", "u7", 21);
            }
        }
    }
    assert_in_range(n_lists, 2, 40);
}

/* One of many followers of a process, whose servers end every watch as soon as it is open. */
struct member {
    struct store *store;
    struct evlog *evlog;
    struct ingest *ingest;
    struct resource_follow *follow;
};

static void member_begin(struct member *m, uint64_t seed)
{
    static const struct modelstore_opts store = {
        .history_rows = 1000, .history_age_s = 1000000, .extent_bytes = 1 << 20};
    struct evlog_opts log = {.capacity_log2 = 4, .max_bytes = 1 << 16, .n_workers = 1};
    bool warm;
    m->store = modelstore_create(&store);
    assert_int_equal(evlog_create(&log, &m->evlog), BELFRY_OK);
    struct ingest_opts ingest = {.store = m->store, .evlog = m->evlog, .trim_rows = 16};
    assert_int_equal(ingest_create(&ingest, &m->ingest), BELFRY_OK);
    assert_int_equal(ingest_open(m->ingest, &warm), BELFRY_OK);
    struct resource_follow_opts opts = {.ingest = m->ingest,
                                        .store = m->store,
                                        .n_servers = 1,
                                        .seed = seed,
                                        .no_initial = true,
                                        .hash_key = {3, 4},
                                        .pulse = &bed.pulse};
    assert_int_equal(resource_follow_create(&opts, bed.now, &m->follow), BELFRY_OK);
}

static void member_end(struct member *m)
{
    resource_follow_destroy(m->follow);
    ingest_destroy(m->ingest);
    evlog_destroy(m->evlog);
    modelstore_destroy(m->store);
}

/* Answers what it wants. Returns how many watches it has asked for. */
static unsigned member_serve(struct member *m)
{
    struct resource_action action;
    unsigned n = 0;
    if (bed.now >= resource_due(m->follow))
        resource_tick(m->follow, bed.now);
    while (resource_next(m->follow, bed.now, &action)) {
        if (action.want == RESOURCE_WANT_WATCH) {
            resource_on_opened(m->follow, action.id, LINK, bed.now);
            resource_on_end(m->follow, action.id, RESOURCE_ENDED, bed.now);
            n++;
        } else if (action.want == RESOURCE_WANT_LIST || action.want == RESOURCE_WANT_PROBE) {
            resource_on_listed(m->follow, action.id, 20, LINK, bed.now);
        }
    }
    return n;
}

static void server_that_ends_every_watch_is_asked_at_a_pace_by_all_followers(void **state)
{
    (void)state;
    enum { MEMBERS = 150, STEP_MS = 10, SECOND = 1000 / STEP_MS, FREE_MS = 2000 };
    static struct member members[MEMBERS];
    unsigned of_step[SECOND] = {0}, in_second = 0, most = 0, total = 0;
    begin(1);
    for (unsigned i = 0; i < MEMBERS; i++)
        member_begin(&members[i], i);
    uint64_t began_ms = bed.now;
    for (unsigned step = 0; bed.now < began_ms + 60000; step++, bed.now += STEP_MS) {
        unsigned n = 0;
        for (unsigned i = 0; i < MEMBERS; i++)
            n += member_serve(&members[i]);
        in_second += n - of_step[step % SECOND];
        of_step[step % SECOND] = n;
        total += n;
        if (bed.now >= began_ms + FREE_MS && in_second > most)
            most = in_second;
    }
    for (unsigned i = 0; i < MEMBERS; i++)
        member_end(&members[i]);
    assert_in_range(most, 5, 1000 / RESOURCE_PACE_ALL_MS + 1);
    assert_in_range(total, 2 * MEMBERS, 2 * MEMBERS + 60 * 20);
}

/* ---- deletions of one version ---- */

static void begin_leased(void)
{
    begin_live(1);
    end_process();
    modelstore_crash(bed.store);
    bed.has_leases = true;
    assert_int_equal(start_process(), BELFRY_OK);
    act();
    open_watch(LINK);
    if (bed.list.id != 0) {
        item("ns/a", "u1", 10);
        item("ns/b", "u2", 11);
        listed(20, LINK);
    }
    assert_true(resource_ready(bed.follow));
}

static void await_watch(void)
{
    while (bed.watch.id == 0)
        wait_ms(RESOURCE_TICK_MS);
}

/* The watch that shows our last changes again has been asked for; two of them are deletions of one version. */
static void begin_overlap_of_deletions(void)
{
    begin_leased();
    event(RESOURCE_ADDED, "ns/c", "u3", 29);
    event(RESOURCE_DELETED, "ns/a", "u1", 30);
    event(RESOURCE_DELETED, "ns/b", "u2", 30);
    bookmark(31);
    end_watch(RESOURCE_ENDED);
    await_watch();
}

static const struct batch *last_batch(void)
{
    struct evlog_view view;
    evlog_enter(bed.evlog, 0, &view);
    const struct batch *batch = evlog_at(&view, view.next - 1);
    evlog_leave(bed.evlog, 0);
    return batch;
}

/* As when a lease of etcd ends. What comes behind them, and time, show that these were all. */
static void deletions_of_one_version_are_one_change(void **state)
{
    (void)state;
    for (unsigned way = 0; way < 3; way++) {
        begin_leased();
        assert_true(event(RESOURCE_DELETED, "ns/a", "u1", 30));
        bed.now += RESOURCE_TOGETHER_MS - 1;
        resource_tick(bed.follow, bed.now);
        assert_true(bookmark(30)); /* more may come */
        assert_int_equal(head(), 20);
        assert_true(event(RESOURCE_DELETED, "ns/b", "u2", 30));
        assert_int_equal(head(), 20);
        if (way == 0) {
            assert_true(event(RESOURCE_ADDED, "ns/c", "u3", 31));
        } else if (way == 1) {
            assert_true(bookmark(31));
        } else {
            assert_true(resource_due(bed.follow) <= bed.now + RESOURCE_TOGETHER_MS);
            bed.now += RESOURCE_TOGETHER_MS;
            resource_tick(bed.follow, bed.now);
            assert_int_equal(head(), 20);
            assert_true(resource_due(bed.follow) <= bed.now + RESOURCE_TURN_MS);
            bed.now += RESOURCE_TURN_MS;
            resource_tick(bed.follow, bed.now);
            assert_int_equal(last_batch()->n_events, 2);
        }
        assert_int_equal(head(), way == 2 ? 30 : 31);
        assert_int_equal(resource_state(bed.follow), RESOURCE_LIVE);
        assert_int_equal(stats().events, way == 0 ? 3 : 2);
        teardown(NULL);
    }
    begin_leased();
}

/* The process did not run: the rest has come meanwhile, and is read in the turn after the tick. */
static void deletions_that_come_while_we_sleep_are_of_the_change(void **state)
{
    (void)state;
    begin_leased();
    event(RESOURCE_DELETED, "ns/a", "u1", 30);
    bed.now += 700;
    resource_tick(bed.follow, bed.now);
    assert_int_equal(head(), 20);
    event(RESOURCE_DELETED, "ns/b", "u2", 30);
    assert_true(bookmark(31));
    assert_int_equal(head(), 31);
    assert_int_equal(stats().listings, 0);
}

/* It was not taken, and comes again. */
static void deletion_that_was_not_taken_is_waited_for(void **state)
{
    (void)state;
    begin_leased();
    event(RESOURCE_DELETED, "ns/a", "u1", 30);
    refuse_begin(0);
    assert_false(event(RESOURCE_DELETED, "ns/b", "u2", 30));
    assert_true(refuse_end());
    for (unsigned i = 0; i < 2; i++) {
        bed.now += RESOURCE_TOGETHER_MS;
        resource_tick(bed.follow, bed.now);
    }
    assert_int_equal(head(), 20);
    assert_true(event(RESOURCE_DELETED, "ns/b", "u2", 30));
    bookmark(31);
    assert_int_equal(head(), 31);
    assert_int_equal(stats().listings, 0);
}

/* It says that everything below its version was sent. */
static void bookmark_between_deletions_of_one_version_is_no_other_past(void **state)
{
    (void)state;
    begin_overlap_of_deletions();
    open_watch(LINK);
    event(RESOURCE_ADDED, "ns/c", "u3", 29);
    event(RESOURCE_DELETED, "ns/a", "u1", 30);
    bookmark(30);
    event(RESOURCE_DELETED, "ns/b", "u2", 30);
    assert_true(resource_ready(bed.follow));
    end_watch(RESOURCE_ENDED);
    await_watch();
    open_watch(LINK);
    event(RESOURCE_ADDED, "ns/c", "u3", 29);
    bookmark(30); /* it shows neither of them */
    assert_int_equal(resource_state(bed.follow), RESOURCE_LISTING);
}

static void bookmark_between_deletions_is_no_debt(void **state)
{
    (void)state;
    begin_audit();
    end_process();
    bed.has_leases = true;
    assert_int_equal(start_process(), BELFRY_OK);
    act();
    while (resource_state(bed.follow) != RESOURCE_AUDITING || bed.watch.id == 0)
        wait_ms(RESOURCE_TICK_MS);
    open_watch(LINK);
    listed(30, LINK); /* it lacks both */
    assert_true(event(RESOURCE_DELETED, "ns/a", "u1", 30));
    bookmark(30);
    assert_int_equal(resource_state(bed.follow), RESOURCE_AUDITING);
    assert_true(event(RESOURCE_DELETED, "ns/b", "u2", 30));
    assert_int_equal(stats().audits, 1);
}

/* A tier shows all deletions of the version at which a watch begins: its client may have seen a part of them. */
static void deletions_that_a_tier_shows_again_are_no_news(void **state)
{
    (void)state;
    begin_leased();
    event(RESOURCE_DELETED, "ns/a", "u1", 30);
    event(RESOURCE_DELETED, "ns/b", "u2", 30);
    event(RESOURCE_ADDED, "ns/c", "u3", 31);
    end_watch(RESOURCE_ENDED);
    await_watch();
    assert_int_equal(bed.watch.rv, 30);
    open_watch(LINK);
    event(RESOURCE_DELETED, "ns/a", "u1", 30);
    event(RESOURCE_DELETED, "ns/b", "u2", 30);
    event(RESOURCE_ADDED, "ns/c", "u3", 31);
    assert_true(resource_ready(bed.follow));
    assert_int_equal(stats().listings, 0);
}

/* Likewise where an audit's watch begins at our head. */
static void deletions_that_a_tier_shows_again_do_not_disturb_an_audit(void **state)
{
    (void)state;
    begin_leased();
    event(RESOURCE_DELETED, "ns/a", "u1", 30);
    event(RESOURCE_DELETED, "ns/b", "u2", 30);
    bed.now += RESOURCE_TOGETHER_MS;
    resource_tick(bed.follow, bed.now);
    wait_ms(RESOURCE_TURN_MS);
    assert_int_equal(head(), 30);
    end_watch(RESOURCE_ENDED);
    await_watch();
    assert_int_equal(resource_state(bed.follow), RESOURCE_AUDITING);
    assert_int_equal(bed.watch.rv, 30);
    open_watch(LINK);
    assert_true(event(RESOURCE_DELETED, "ns/a", "u1", 30));
    assert_true(event(RESOURCE_DELETED, "ns/b", "u2", 30));
    listed(30, LINK);
    assert_true(resource_ready(bed.follow));
    event(RESOURCE_ADDED, "ns/c", "u3", 31);
    assert_int_equal(head(), 31);
    assert_int_equal(stats().listings, 0);
}

/* A cache may have lost a part of that version, so the overlap begins at another change. */
static void overlap_begins_at_a_change_that_is_alone_in_its_version(void **state)
{
    (void)state;
    begin_overlap_of_deletions();
    assert_int_equal(bed.watch.rv, 28);
    open_watch(LINK);
    event(RESOURCE_ADDED, "ns/c", "u3", 29);
    event(RESOURCE_DELETED, "ns/a", "u1", 30);
    assert_false(resource_ready(bed.follow));
    event(RESOURCE_DELETED, "ns/b", "u2", 30);
    assert_true(resource_ready(bed.follow));
    resource_drained(bed.follow, bed.now);
    end_process(); /* history has them as one change */
    assert_int_equal(start_process(), BELFRY_OK);
    act();
    assert_int_equal(bed.watch.rv, 28);
    for (int64_t rv = 40; rv < 47; rv++) { /* the first of them is now in the middle of a version */
        if (rv == 40) {
            open_watch(LINK);
            event(RESOURCE_ADDED, "ns/c", "u3", 29);
            event(RESOURCE_DELETED, "ns/a", "u1", 30);
            event(RESOURCE_DELETED, "ns/b", "u2", 30);
        }
        event(RESOURCE_MODIFIED, "ns/c", "u3", rv);
    }
    end_watch(RESOURCE_ENDED);
    await_watch();
    assert_int_equal(bed.watch.rv, 39);
}

/* It ended between them: the next watch shows all of them. */
static void deletions_of_a_watch_that_ends_are_not_published(void **state)
{
    (void)state;
    begin_leased();
    event(RESOURCE_ADDED, "ns/c", "u3", 29);
    event(RESOURCE_DELETED, "ns/a", "u1", 30);
    end_watch(RESOURCE_FAILED);
    await_watch();
    assert_int_equal(head(), 29);
    open_watch(LINK);
    event(RESOURCE_ADDED, "ns/c", "u3", 29);
    event(RESOURCE_DELETED, "ns/a", "u1", 30);
    event(RESOURCE_DELETED, "ns/b", "u2", 30);
    wait_ms(RESOURCE_TICK_MS);
    wait_ms(RESOURCE_TURN_MS);
    assert_int_equal(head(), 30);
    assert_int_equal(stats().listings, 0);
}

/* Nobody said that it has leases: everybody lists anew, once. */
static void resource_whose_leases_are_not_known_is_listed_once(void **state)
{
    (void)state;
    begin_live(1);
    event(RESOURCE_DELETED, "ns/a", "u1", 30);
    event(RESOURCE_DELETED, "ns/b", "u2", 30);
    assert_int_equal(resource_state(bed.follow), RESOURCE_LISTING);
    item("ns/c", "u3", 31);
    item("ns/d", "u4", 32);
    listed(40, LINK);
    probed(40);
    open_watch(LINK);
    event(RESOURCE_DELETED, "ns/c", "u3", 50);
    event(RESOURCE_DELETED, "ns/d", "u4", 50);
    wait_ms(RESOURCE_TICK_MS);
    wait_ms(RESOURCE_TURN_MS);
    assert_int_equal(head(), 50);
    assert_int_equal(resource_state(bed.follow), RESOURCE_LIVE);
}

static void audit_is_paid_by_deletions_of_one_version(void **state)
{
    (void)state;
    begin_audit();
    bed.has_leases = true;
    listed(30, LINK); /* it lacks both */
    assert_true(event(RESOURCE_DELETED, "ns/a", "u1", 30));
    assert_int_equal(resource_state(bed.follow), RESOURCE_AUDITING);
    assert_true(event(RESOURCE_DELETED, "ns/b", "u2", 30));
    assert_int_equal(stats().audits, 1);
}

/* ---- the pulse ---- */

static void answer_on_another_link_is_no_sign_of_life(void **state)
{
    (void)state;
    begin_live(1);
    for (unsigned i = 0, answers = 0; i < RESOURCE_STALE_MS / RESOURCE_TICK_MS; i++) {
        wait_ms(RESOURCE_TICK_MS);
        if (bed.probe.id != 0 && answers++ == 0) {
            assert_int_equal(bed.probe.link, LINK); /* it was asked to go there */
            list_ends(&bed.probe.id, 20, LINK + 2);
        }
        resource_beat(&bed.pulse, 0, LINK + 2)->heard_ms = bed.now; /* nor what others hear there */
    }
    assert_true(resource_stale(bed.follow));
}

/* GOAWAY: the watch goes on, and every request goes on another connection. */
static void watch_leaves_a_connection_that_takes_no_requests(void **state)
{
    (void)state;
    begin_live(1);
    uint64_t was = bed.watch.id, began_ms = bed.now;
    while (bed.watch.id == was && bed.now < began_ms + RESOURCE_STALE_MS) {
        wait_ms(RESOURCE_TICK_MS);
        assert_false(resource_stale(bed.follow));
        if (bed.probe.id != 0)
            list_ends(&bed.probe.id, 20, LINK + 2);
    }
    assert_int_not_equal(bed.watch.id, was);
    open_watch(LINK + 2);
    item("ns/a", "u1", 10); /* no change has come since the list, so an audit proves the past */
    item("ns/b", "u2", 11);
    listed(20, LINK + 2);
    assert_true(resource_ready(bed.follow));
}

/* HTTP/1.1, perhaps behind a balancer: probes show that some server is there, and bookmarks that the watch's is. */
static void watch_over_http1_that_says_nothing_is_opened_anew(void **state)
{
    (void)state;
    begin(1);
    item("ns/a", "u1", 20);
    list_ends(&bed.list.id, 20, 8);
    list_ends(&bed.probe.id, 20, 8);
    open_watch(8);
    assert_true(resource_ready(bed.follow));
    uint64_t was = bed.watch.id, spoke_ms = bed.now;
    for (unsigned i = 0; i < 10 * RESOURCE_MUTE_MS / RESOURCE_TICK_MS && bed.watch.id == was; i++) {
        wait_ms(RESOURCE_TICK_MS);
        assert_false(resource_stale(bed.follow));
        if (bed.probe.id != 0)
            list_ends(&bed.probe.id, 20, 10);
        if (i == 100 && bookmark(20))
            spoke_ms = bed.now;
    }
    assert_true(bed.watch.id != 0 && bed.watch.id != was);
    assert_in_range(bed.now - spoke_ms, RESOURCE_MUTE_MS, RESOURCE_MUTE_MS + RESOURCE_TICK_MS);
}

/* What one follower finds out of a connection, the others that are on it know: they take turns to ask. */
static void watch_leaves_a_connection_from_which_other_probes_strayed(void **state)
{
    (void)state;
    begin_live(1);
    uint64_t was = bed.watch.id;
    resource_beat(&bed.pulse, 0, LINK)->n_astray = 2;
    while (bed.now < 1000 + RESOURCE_PROBE_MS - RESOURCE_TICK_MS)
        wait_ms(RESOURCE_TICK_MS);
    assert_int_equal(bed.watch.id, was); /* it has only just been accepted */
    wait_ms(RESOURCE_TICK_MS);
    assert_true(bed.watch.id != 0 && bed.watch.id != was);
}

/* A watch is a request, too: one that has just been accepted there is not left behind. */
static void watch_that_opens_on_a_connection_shows_that_it_takes_requests(void **state)
{
    (void)state;
    begin_live(1);
    uint64_t was = bed.watch.id;
    resource_beat(&bed.pulse, 0, LINK)->n_astray = 2; /* it was full for a moment */
    while (bed.watch.id == was)
        wait_ms(RESOURCE_TICK_MS);
    await_watch();
    open_watch(LINK);
    item("ns/a", "u1", 10);
    item("ns/b", "u2", 11);
    listed(20, LINK);
    was = bed.watch.id;
    assert_true(resource_ready(bed.follow));
    wait_ms(RESOURCE_TICK_MS);
    assert_int_equal(bed.watch.id, was);
    assert_true(resource_ready(bed.follow));
}

/* Events of another follower still come on it: they do not show that a request would. */
static void watch_leaves_such_a_connection_though_others_hear_on_it(void **state)
{
    (void)state;
    begin_live(1);
    uint64_t was = bed.watch.id, began_ms = bed.now;
    while (bed.watch.id == was && bed.now < began_ms + 2 * RESOURCE_OWN_PROBE_MS) {
        bookmark(20); /* of this follower or of another: heard() on this link */
        wait_ms(RESOURCE_TICK_MS);
        assert_false(resource_stale(bed.follow));
        resource_beat(&bed.pulse, 0, LINK)->sent_ms = 0;
        if (bed.probe.id != 0)
            list_ends(&bed.probe.id, 20, LINK + 2);
        if (bed.now > began_ms + 2000 && bed.versions.id == 0 && bed.now < began_ms + 3000) {
            resource_prove(bed.follow, 1, bed.now); /* a request that strays */
            act();
            list_ends(&bed.versions.id, 20, LINK + 2);
            resource_prove(bed.follow, 1, bed.now += 50);
            act();
            bookmark(20);
            if (bed.versions.id != 0)
                list_ends(&bed.versions.id, 20, LINK + 2);
        }
    }
    assert_int_not_equal(bed.watch.id, was);
    assert_in_range(bed.now, began_ms, began_ms + RESOURCE_STALE_MS);
}

/* One whose probes fail at once must not keep the others from asking. */
static void probes_that_fail_leave_others_their_turn(void **state)
{
    (void)state;
    begin_live(1);
    uint64_t sent_ms = 0, least = UINT64_MAX;
    for (unsigned i = 0; i < 40; i++) {
        wait_ms(RESOURCE_TICK_MS);
        if (bed.probe.id == 0)
            continue;
        if (sent_ms != 0 && bed.now - sent_ms < least)
            least = bed.now - sent_ms;
        sent_ms = bed.now;
        uint64_t id = bed.probe.id;
        bed.probe.id = 0;
        resource_on_end(bed.follow, id, RESOURCE_FAILED, bed.now);
        act();
    }
    assert_true(sent_ms != 0);
    assert_in_range(least, RESOURCE_PROBE_MS, 2 * RESOURCE_PROBE_MS);
}

static void what_another_follower_hears_is_a_sign_of_life(void **state)
{
    (void)state;
    begin_live(2);
    uint64_t probes = stats().probes;
    for (unsigned i = 0; i < RESOURCE_OWN_PROBE_MS / RESOURCE_TICK_MS - 2; i++) {
        resource_beat(&bed.pulse, bed.watch.server, LINK)->heard_ms = bed.now;
        wait_ms(RESOURCE_TICK_MS);
    }
    assert_false(resource_stale(bed.follow));
    assert_int_equal(stats().probes, probes);
    resource_beat(&bed.pulse, bed.watch.server, LINK)->heard_ms = bed.now;
    wait_ms(3 * RESOURCE_TICK_MS);
    assert_int_equal(stats().probes, probes + 1); /* now and then one of its own */
    assert_false(resource_stale(bed.follow));
    for (unsigned i = 0; i < RESOURCE_STALE_MS / RESOURCE_TICK_MS; i++) {
        resource_beat(&bed.pulse, bed.watch.server, LINK)->heard_ms = bed.now;
        wait_ms(RESOURCE_TICK_MS);
    }
    assert_true(resource_stale(bed.follow)); /* it has no answer, whatever others hear */
    probed(20);
    bed.now += 1;
    resource_tick(bed.follow, bed.now);
    assert_false(resource_stale(bed.follow));
}

static void events_and_bookmarks_are_a_sign_of_life_for_other_followers(void **state)
{
    (void)state;
    begin_live(2);
    unsigned server = bed.watch.server;
    bed.now += 300;
    assert_true(event(RESOURCE_ADDED, "prod/pulse", "u", 40));
    assert_int_equal(resource_beat(&bed.pulse, server, LINK)->heard_ms, bed.now);
    bed.now += 300;
    assert_true(bookmark(41));
    assert_int_equal(resource_beat(&bed.pulse, server, LINK)->heard_ms, bed.now);
    assert_int_not_equal(resource_beat(&bed.pulse, 1 - server, LINK)->heard_ms, bed.now);
}

static void what_is_heard_of_another_server_is_no_sign_of_life(void **state)
{
    (void)state;
    begin_live(2);
    for (unsigned i = 0; i < RESOURCE_STALE_MS / RESOURCE_TICK_MS; i++) {
        resource_beat(&bed.pulse, 1 - bed.watch.server, LINK)->heard_ms = bed.now;
        wait_ms(RESOURCE_TICK_MS);
    }
    assert_true(resource_stale(bed.follow));
}

static void probe_that_another_follower_has_sent_is_waited_for(void **state)
{
    (void)state;
    begin_live(1);
    uint64_t probes = stats().probes;
    wait_ms(RESOURCE_PROBE_MS - RESOURCE_TICK_MS);
    resource_beat(&bed.pulse, 0, LINK)->sent_ms = bed.now;
    wait_ms(RESOURCE_TICK_MS);
    assert_int_equal(stats().probes, probes);
    wait_ms(RESOURCE_TICK_MS);
    assert_int_equal(stats().probes, probes + 1); /* it takes too long */
    assert_int_equal(resource_beat(&bed.pulse, 0, LINK)->sent_ms, bed.now);
    probed(20);
    assert_int_equal(resource_beat(&bed.pulse, 0, LINK)->heard_ms, bed.now);
}

/* ---- freshness ---- */

static uint64_t prove(void)
{
    uint64_t number = resource_prove(bed.follow, 1, bed.now);
    act();
    return number;
}

static void version_item(const char *key, const char *uid, int64_t rv)
{
    struct resource_object object = object_of(key, uid, rv);
    assert_true(bed.versions.id != 0);
    resource_on_item(bed.follow, bed.versions.id, &object, LINK, bed.now);
}

static void busy_resource_is_fresh_when_the_watch_has_the_version_of_a_probe(void **state)
{
    (void)state;
    begin_live(1);
    event(RESOURCE_MODIFIED, "ns/a", "u1", 30);
    uint64_t number = prove();
    assert_true(bed.probe.id != 0 && bed.versions.id == 0);
    probed(35);
    assert_int_equal(bed.answer.id, 0);
    event(RESOURCE_MODIFIED, "ns/a", "u1", 34);
    assert_int_equal(bed.answer.id, 0);
    event(RESOURCE_MODIFIED, "ns/a", "u1", 36);
    assert_int_equal(bed.answer.id, number);
    assert_int_equal(bed.answer.rv, 36);
    assert_int_equal(stats().fresh_lists, 0);
}

static void quiet_resource_is_fresh_when_a_list_has_our_versions(void **state)
{
    (void)state;
    begin_live(1);
    event(RESOURCE_MODIFIED, "ns/a", "u1", 30);
    event(RESOURCE_DELETED, "ns/b", "u2", 31);
    event(RESOURCE_ADDED, "ns/c", "u3", 32);
    wait_ms(RESOURCE_FRESH_QUIET_MS);
    uint64_t number = prove();
    assert_int_equal(bed.versions.rv, RESOURCE_CONSISTENT);
    version_item("ns/a", "u1", 30);
    version_item("ns/c", "u3", 32);
    list_ends(&bed.versions.id, 50, LINK);
    assert_int_equal(bed.answer.id, number);
    assert_int_equal(bed.answer.rv, 32); /* the log is not moved: the watch may still show what came and went */
    assert_int_equal(stats().fresh_probes, 0);
    assert_int_equal(stats().fresh, 1);
}

static void list_with_another_version_waits_for_the_watch(void **state)
{
    (void)state;
    begin_live(1);
    wait_ms(RESOURCE_FRESH_QUIET_MS);
    uint64_t number = prove();
    version_item("ns/a", "u1", 45);
    version_item("ns/b", "u2", 11);
    list_ends(&bed.versions.id, 50, LINK);
    assert_int_equal(bed.answer.id, 0);
    event(RESOURCE_MODIFIED, "ns/a", "u1", 45);
    assert_int_equal(bed.answer.id, number);
    assert_int_equal(bed.answer.rv, 45);
}

static void warm_state_is_compared_by_its_versions(void **state)
{
    (void)state;
    begin_live(1);
    end_process();
    assert_int_equal(start_process(), BELFRY_OK);
    act();
    open_watch(LINK);
    agree();
    wait_ms(RESOURCE_FRESH_QUIET_MS);
    uint64_t number = prove();
    version_item("ns/a", "u1", 10);
    version_item("ns/b", "u2", 11);
    list_ends(&bed.versions.id, 50, LINK);
    assert_int_equal(bed.answer.id, number);
    assert_int_equal(bed.answer.rv, 20);
}

static void proof_behind_us_is_another_past(void **state)
{
    (void)state;
    begin_live(1);
    prove();
    probed(19);
    assert_int_equal(resource_state(bed.follow), RESOURCE_LISTING);
    assert_int_equal(bed.answer.id, 0);
    item("ns/z", "u7", 5);
    listed(15, LINK);
    probed(40);
    open_watch(LINK);
    probed(41); /* of the proof, which begins anew */
    bookmark(41);
    assert_int_equal(bed.answer.rv, 41);
}

static void proof_that_nothing_answers_fails(void **state)
{
    (void)state;
    begin_live(1);
    uint64_t number = prove();
    resource_on_end(bed.follow, bed.watch.id, RESOURCE_ENDED, bed.now);
    wait_ms(RESOURCE_FRESH_MS + RESOURCE_TICK_MS);
    assert_int_equal(bed.answer.id, number);
    assert_int_equal(bed.answer.rv, 0);
    assert_int_equal(stats().unproven, 1);
}

static void proof_is_asked_again_of_the_next_server(void **state)
{
    (void)state;
    begin_live(2);
    event(RESOURCE_MODIFIED, "ns/a", "u1", 30);
    bookmark(40);
    uint64_t number = prove();
    unsigned first = bed.probe.server;
    resource_on_end(bed.follow, bed.watch.id, RESOURCE_FAILED, bed.now);
    act();
    wait_ms(RESOURCE_TICK_MS);
    open_watch(LINK);
    event(RESOURCE_MODIFIED, "ns/a", "u1", 30);
    wait_ms(RESOURCE_TICK_MS);
    assert_true(bed.probe.id != 0 && bed.probe.server != first);
    probed(40);
    assert_int_equal(bed.answer.id, 0); /* that we are at 40 is what the other watch has shown */
    bookmark(40);
    assert_int_equal(bed.answer.id, number);
    assert_int_equal(bed.answer.rv, 40);
}

/* ---- initial events ---- */

static void initial_end(int64_t rv)
{
    resource_on_initial_end(bed.follow, bed.watch.id, rv, bed.now);
    act();
}

static void begin_streaming(unsigned n_servers)
{
    begin(n_servers);
    end_process();
    bed.streams = true;
    assert_int_equal(start_process(), BELFRY_OK);
    act();
    assert_true(bed.watch.id != 0 && bed.watch.is_initial && bed.watch.rv == 0 && bed.list.id == 0);
}

static void initial_events_are_a_list_and_the_watch_goes_on(void **state)
{
    (void)state;
    begin_streaming(1);
    open_watch(LINK);
    assert_true(event(RESOURCE_ADDED, "ns/a", "u1", 10));
    assert_true(bookmark(12)); /* not the end */
    assert_true(event(RESOURCE_ADDED, "ns/b", "u2", 11));
    initial_end(20);
    assert_int_equal(head(), 0);
    assert_false(event(RESOURCE_MODIFIED, "ns/a", "u1", 22)); /* until etcd has 20 */
    assert_false(bookmark(23));
    uint64_t watch = bed.watch.id;
    probed(25);
    assert_int_equal(head(), 20);
    assert_int_equal(bed.resumes, 1);
    assert_int_equal(bed.watch.id, watch);
    assert_true(resource_ready(bed.follow));
    assert_true(event(RESOURCE_MODIFIED, "ns/a", "u1", 22));
    assert_int_equal(head(), 22);
    assert_true(stats().streams == 1 && stats().listings == 1 && stats().watches == 1);
}

static void server_that_cannot_send_initial_events_is_asked_for_a_list(void **state)
{
    (void)state;
    static const enum resource_end ends[] = {RESOURCE_REFUSED, RESOURCE_EXPIRED, RESOURCE_ENDED};
    for (size_t i = 0; i < 5; i++) {
        begin_streaming(1);
        if (i < 3) {
            end_watch(ends[i]);
        } else if (i == 3) { /* it ignores that */
            open_watch(LINK);
            event(RESOURCE_ADDED, "ns/x", "u9", 10);
            event(RESOURCE_DELETED, "ns/x", "u9", 12);
        } else {
            open_watch(LINK);
            event(RESOURCE_ADDED, "ns/x", "u9", 10);
            wait_ms(RESOURCE_STREAM_MS);
        }
        assert_true(bed.list.id != 0 && bed.watch.id == 0);
        item("ns/a", "u1", 10);
        listed(20, LINK);
        probed(20);
        assert_true(bed.watch.id != 0 && !bed.watch.is_initial);
        open_watch(LINK);
        assert_int_equal(resource_state(bed.follow), RESOURCE_LIVE);
        assert_int_equal(stats().streams, 0);
        if (i + 1 < 5)
            teardown(NULL);
    }
}

/* A server that shuts down ends its watches in order: it can send initial events all the same. */
static void initial_events_that_end_too_soon_are_asked_for_again(void **state)
{
    (void)state;
    begin_streaming(1);
    for (unsigned i = 0; i < 4; i++) {
        open_watch(LINK);
        event(RESOURCE_ADDED, "ns/x", "u9", 10);
        end_watch(RESOURCE_ENDED);
        while (bed.watch.id == 0 && bed.list.id == 0)
            wait_ms(RESOURCE_TICK_MS);
        assert_int_equal(bed.watch.id != 0 && bed.watch.is_initial, i < 3);
        assert_int_equal(bed.list.id != 0, i == 3); /* enough */
    }
}

static void initial_events_that_break_are_asked_of_the_next_server(void **state)
{
    (void)state;
    begin_streaming(2);
    unsigned first = bed.watch.server;
    open_watch(LINK);
    event(RESOURCE_ADDED, "ns/x", "u9", 10);
    end_watch(RESOURCE_FAILED);
    wait_ms(RESOURCE_RETRY_MAX_MS);
    assert_true(bed.watch.is_initial && bed.watch.server != first);
}

static void watch_that_ends_before_it_is_adopted_is_continued_on_its_link(void **state)
{
    (void)state;
    begin_streaming(1);
    open_watch(LINK);
    event(RESOURCE_ADDED, "ns/a", "u1", 10);
    initial_end(20);
    end_watch(RESOURCE_ENDED);
    probed(20);
    assert_int_equal(head(), 20);
    assert_true(bed.watch.rv == 20 && !bed.watch.is_initial);
    open_watch(LINK);
    assert_true(resource_ready(bed.follow));
}

static enum belfry_err follow_and_resume(void)
{
    enum belfry_err err = start_process();
    if (err == BELFRY_OK) {
        act();
        open_watch(LINK);
        agree();
        if (!event(RESOURCE_ADDED, "ns/c", "u3", 30))
            err = BELFRY_ERR_NOMEM;
    }
    end_process();
    return err;
}

/* Only what the follower allocates is refused: the store of the model aborts without memory. */
static void refused_allocation_is_reported_or_survived(void **state)
{
    (void)state;
    begin_live(1);
    end_process();
    modelstore_crash(bed.store);
    for (size_t n = 0; n < 3; n++) { /* the log, ingest, the machine */
        refuse_begin(n);
        assert_int_equal(start_process(), BELFRY_ERR_NOMEM);
        assert_true(refuse_end());
        end_process();
    }
    assert_int_equal(follow_and_resume(), BELFRY_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(empty_store_is_listed_then_checked_and_watched, teardown),
        cmocka_unit_test_teardown(list_of_a_cache_that_etcd_is_behind_is_not_adopted, teardown),
        cmocka_unit_test_teardown(list_with_an_item_newer_than_itself_is_not_adopted, teardown),
        cmocka_unit_test_teardown(watch_on_another_link_needs_a_proof, teardown),
        cmocka_unit_test_teardown(newest_object_of_an_older_version_than_the_list_proves_nothing, teardown),
        cmocka_unit_test_teardown(link_proves_nothing_after_a_while, teardown),
        cmocka_unit_test_teardown(objects_of_one_version_are_listed_once_and_then_audited, teardown),
        cmocka_unit_test_teardown(changes_go_to_the_log_and_bookmarks_advance_it, teardown),
        cmocka_unit_test_teardown(change_that_does_not_fit_is_another_past, teardown),
        cmocka_unit_test_teardown(bookmark_behind_us_is_lag_until_a_probe_says_otherwise, teardown),
        cmocka_unit_test_teardown(change_that_the_log_cannot_take_is_offered_again, teardown),
        cmocka_unit_test_teardown(resume_shows_our_last_changes_first, teardown),
        cmocka_unit_test_teardown(resume_that_shows_other_changes_is_another_past, teardown),
        cmocka_unit_test_teardown(history_is_asked_of_every_server_before_a_list, teardown),
        cmocka_unit_test_teardown(list_is_asked_of_a_server_that_answers, teardown),
        cmocka_unit_test_teardown(list_after_410_that_contradicts_us_is_another_past, teardown),
        cmocka_unit_test_teardown(list_at_our_version_without_an_object_of_ours_is_another_past, teardown),
        cmocka_unit_test_teardown(server_that_does_not_answer_is_left_for_the_next, teardown),
        cmocka_unit_test_teardown(sleep_of_our_own_is_no_silence, teardown),
        cmocka_unit_test_teardown(audit_that_agrees_proves_the_watch, teardown),
        cmocka_unit_test_teardown(watch_that_ends_during_its_audit_is_not_proven, teardown),
        cmocka_unit_test_teardown(debt_is_paid_by_what_came_before_the_list, teardown),
        cmocka_unit_test_teardown(audit_that_contradicts_is_another_past, teardown),
        cmocka_unit_test_teardown(audit_of_another_link_proves_nothing, teardown),
        cmocka_unit_test_teardown(events_are_published_when_a_missing_object_was_deleted, teardown),
        cmocka_unit_test_teardown(missing_object_that_was_not_deleted_is_another_past, teardown),
        cmocka_unit_test_teardown(caches_that_stay_behind_are_judged_by_etcd, teardown),
        cmocka_unit_test_teardown(cache_with_our_state_and_without_our_last_changes_is_another_past, teardown),
        cmocka_unit_test_teardown(older_cache_with_our_objects_is_followed_from_its_version, teardown),
        cmocka_unit_test_teardown(older_cache_that_lists_slowly_is_listed_again_below_its_watch, teardown),
        cmocka_unit_test_teardown(slow_list_over_http1_is_named, teardown),
        cmocka_unit_test_teardown(older_cache_that_shows_a_change_below_us_is_another_past, teardown),
        cmocka_unit_test_teardown(older_cache_with_other_objects_lags, teardown),
        cmocka_unit_test_teardown(older_cache_that_caught_up_is_audited, teardown),
        cmocka_unit_test_teardown(silent_server_is_asked_after_those_that_answer, teardown),
        cmocka_unit_test_teardown(warm_start_begins_before_the_last_changes, teardown),
        cmocka_unit_test_teardown(warm_start_without_history_is_audited, teardown),
        cmocka_unit_test_teardown(server_that_proves_the_overlap_and_ends_the_watch_is_asked_at_a_pace, teardown),
        cmocka_unit_test_teardown(server_that_ends_every_watch_is_left_for_the_next, teardown),
        cmocka_unit_test_teardown(server_that_ends_every_watch_is_asked_at_a_pace_by_all_followers, teardown),
        cmocka_unit_test_teardown(watch_that_came_and_ended_while_we_slept_says_nothing, teardown),
        cmocka_unit_test_teardown(restarted_server_is_asked_down_to_a_list_without_delay, teardown),
        cmocka_unit_test_teardown(server_that_contradicts_itself_is_asked_at_a_pace, teardown),
        cmocka_unit_test_teardown(watch_leaves_a_connection_that_takes_no_requests, teardown),
        cmocka_unit_test_teardown(watch_over_http1_that_says_nothing_is_opened_anew, teardown),
        cmocka_unit_test_teardown(watch_leaves_a_connection_from_which_other_probes_strayed, teardown),
        cmocka_unit_test_teardown(list_of_our_version_that_no_cache_has_is_judged_by_etcd, teardown),
        cmocka_unit_test_teardown(list_of_our_version_that_no_cache_has_may_be_had_from_our_changes, teardown),
        cmocka_unit_test_teardown(list_of_our_version_is_waited_for_while_a_cache_lags, teardown),
        cmocka_unit_test_teardown(watch_that_lasted_is_retried_at_once, teardown),
        cmocka_unit_test_teardown(answer_on_another_link_is_no_sign_of_life, teardown),
        cmocka_unit_test_teardown(deletions_of_one_version_are_one_change, teardown),
        cmocka_unit_test_teardown(deletions_that_come_while_we_sleep_are_of_the_change, teardown),
        cmocka_unit_test_teardown(deletions_that_a_tier_shows_again_are_no_news, teardown),
        cmocka_unit_test_teardown(deletions_that_a_tier_shows_again_do_not_disturb_an_audit, teardown),
        cmocka_unit_test_teardown(deletion_that_was_not_taken_is_waited_for, teardown),
        cmocka_unit_test_teardown(bookmark_between_deletions_of_one_version_is_no_other_past, teardown),
        cmocka_unit_test_teardown(bookmark_between_deletions_is_no_debt, teardown),
        cmocka_unit_test_teardown(overlap_begins_at_a_change_that_is_alone_in_its_version, teardown),
        cmocka_unit_test_teardown(deletions_of_a_watch_that_ends_are_not_published, teardown),
        cmocka_unit_test_teardown(resource_whose_leases_are_not_known_is_listed_once, teardown),
        cmocka_unit_test_teardown(audit_is_paid_by_deletions_of_one_version, teardown),
        cmocka_unit_test_teardown(watch_leaves_such_a_connection_though_others_hear_on_it, teardown),
        cmocka_unit_test_teardown(watch_that_opens_on_a_connection_shows_that_it_takes_requests, teardown),
        cmocka_unit_test_teardown(probes_that_fail_leave_others_their_turn, teardown),
        cmocka_unit_test_teardown(what_another_follower_hears_is_a_sign_of_life, teardown),
        cmocka_unit_test_teardown(events_and_bookmarks_are_a_sign_of_life_for_other_followers, teardown),
        cmocka_unit_test_teardown(what_is_heard_of_another_server_is_no_sign_of_life, teardown),
        cmocka_unit_test_teardown(probe_that_another_follower_has_sent_is_waited_for, teardown),
        cmocka_unit_test_teardown(busy_resource_is_fresh_when_the_watch_has_the_version_of_a_probe, teardown),
        cmocka_unit_test_teardown(quiet_resource_is_fresh_when_a_list_has_our_versions, teardown),
        cmocka_unit_test_teardown(list_with_another_version_waits_for_the_watch, teardown),
        cmocka_unit_test_teardown(warm_state_is_compared_by_its_versions, teardown),
        cmocka_unit_test_teardown(proof_behind_us_is_another_past, teardown),
        cmocka_unit_test_teardown(proof_that_nothing_answers_fails, teardown),
        cmocka_unit_test_teardown(proof_is_asked_again_of_the_next_server, teardown),
        cmocka_unit_test_teardown(initial_events_are_a_list_and_the_watch_goes_on, teardown),
        cmocka_unit_test_teardown(server_that_cannot_send_initial_events_is_asked_for_a_list, teardown),
        cmocka_unit_test_teardown(initial_events_that_end_too_soon_are_asked_for_again, teardown),
        cmocka_unit_test_teardown(initial_events_that_break_are_asked_of_the_next_server, teardown),
        cmocka_unit_test_teardown(watch_that_ends_before_it_is_adopted_is_continued_on_its_link, teardown),
        cmocka_unit_test_teardown(refused_allocation_is_reported_or_survived, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
