/* src/serve/kube/catalog_feed_test.c: a worker of the core on a thread of its own with its feed, the reader's thread,
 * and the test as ingest: what it writes goes to a support/modelstore and to the log. */
#include "serve/kube/catalog_feed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/clock.h"
#include "support/modelstore.h"
#include "support/refuse.h"
#include "support/storecheck.h"

#define WAIT_S 120 /* for what takes milliseconds, and under a sanitizer on a busy machine seconds */

/* ---- a store for two threads ---- */

static struct shared {
    struct store store;
    struct store *model;
    pthread_mutex_t mu;
    size_t snapshots, ranges; /* that were read */
} shared = {.mu = PTHREAD_MUTEX_INITIALIZER};

static void read_snapshot(struct store *store, struct store_meta *out)
{
    (void)store;
    pthread_mutex_lock(&shared.mu);
    shared.snapshots++;
    shared.model->api->snapshot(shared.model, out);
    pthread_mutex_unlock(&shared.mu);
}

static enum belfry_err read_range(struct store *store, const struct store_read *read, store_row_fn row, void *user,
                                  struct store_page *out)
{
    (void)store;
    pthread_mutex_lock(&shared.mu);
    shared.ranges++;
    enum belfry_err err = shared.model->api->range(shared.model, read, row, user, out);
    pthread_mutex_unlock(&shared.mu);
    return err;
}

static const struct store_api shared_api = {.snapshot = read_snapshot, .range = read_range};

/* ---- the bed ---- */

static struct bed {
    struct evlog *log;
    struct history_reader *history;
    struct definitions *definitions;
    struct definition_sources sources;
    struct definition_source resources[1];
    struct catalog_feed_opts feed_opts;
    int64_t rev;
    struct thread *thread;
    /* the worker's */
    struct worker *worker;
    struct catalog_feed *feed;
    uv_prepare_t prepare;
    uv_timer_t timer;
    /* under mu */
    pthread_mutex_t mu;
    pthread_cond_t moved;
    struct kube_catalog *catalog; /* the last */
    size_t n_catalogs;
    size_t refuse; /* so many are not taken */
} bed;

static enum belfry_err on_catalog(struct kube_catalog *catalog, void *user)
{
    (void)user;
    pthread_mutex_lock(&bed.mu);
    bool refuse = bed.refuse > 0;
    bed.refuse -= refuse;
    struct kube_catalog *old = refuse ? catalog : bed.catalog;
    if (!refuse) {
        bed.catalog = catalog;
        bed.n_catalogs++;
    }
    pthread_cond_broadcast(&bed.moved);
    pthread_mutex_unlock(&bed.mu);
    kube_catalog_unref(old);
    return refuse ? BELFRY_ERR_NOMEM : BELFRY_OK;
}

static void on_timer(uv_timer_t *timer)
{
    (void)timer; /* a turn comes */
}

static void on_prepare(uv_prepare_t *prepare)
{
    (void)prepare;
    uint64_t now = belfry_clock_ms();
    worker_turn(bed.worker, now, 1000);
    struct worker_fetch fetch;
    assert_false(worker_wants_fetch(bed.worker, &fetch));
    catalog_feed_after_turn(bed.feed, now);
    uint64_t due = catalog_feed_due(bed.feed);
    if (due == BELFRY_NEVER)
        uv_timer_stop(&bed.timer);
    else
        uv_timer_start(&bed.timer, on_timer, due > now ? due - now : 0, 0);
}

static void on_write(void *user, const uint8_t *data, size_t len)
{
    (void)user, (void)data, (void)len;
    fail_msg("nobody speaks gRPC here");
}

static enum belfry_err begin(struct thread *thread, void *user)
{
    (void)user;
    struct worker_opts opts = {.log = bed.log,
                               .write = on_write,
                               .response_bytes = 1 << 20,
                               .response_revs = 1000,
                               .fragment_bytes = 2 << 20,
                               .segment_bytes = 8 << 20,
                               .progress_ms = 600000};
    bed.feed_opts.thread = thread;
    enum belfry_err err = worker_create(&opts, &bed.worker);
    bed.feed_opts.worker = bed.worker;
    if (err == BELFRY_OK)
        err = catalog_feed_create(&bed.feed_opts, &bed.feed);
    if (err != BELFRY_OK) {
        worker_destroy(bed.worker);
        return err;
    }
    uv_prepare_init(thread_loop(thread), &bed.prepare);
    uv_timer_init(thread_loop(thread), &bed.timer);
    uv_prepare_start(&bed.prepare, on_prepare);
    return BELFRY_OK;
}

static void end(struct thread *thread, void *user)
{
    (void)thread, (void)user;
    catalog_feed_destroy(bed.feed);
    worker_destroy(bed.worker);
    uv_close((uv_handle_t *)&bed.prepare, NULL);
    uv_close((uv_handle_t *)&bed.timer, NULL);
}

static void start(void)
{
    static const struct thread_part part = {"belfry-test", begin, end};
    char why[200];
    static char under[] = "/crds/";
    bed = (struct bed){.mu = PTHREAD_MUTEX_INITIALIZER, .moved = PTHREAD_COND_INITIALIZER, .rev = 10};
    shared.store.api = &shared_api;
    shared.model = modelstore_create(
        &(struct modelstore_opts){.history_rows = 10000, .history_age_s = 100, .extent_bytes = 1 << 20});
    shared.snapshots = shared.ranges = 0;
    bed.resources[0].under = under;
    bed.sources = (struct definition_sources){.all = bed.resources, .n = 1};
    assert_int_equal(definitions_load(&bed.sources, &bed.definitions, why, sizeof(why)), BELFRY_OK);
    struct evlog_opts log = {.capacity_log2 = 12, .max_bytes = 1 << 26, .n_workers = 1};
    assert_int_equal(evlog_create(&log, &bed.log), BELFRY_OK);
    struct history_reader_opts reader = {.store = &shared.store, .segment_bytes = 1000, .shelf_bytes = 1000};
    assert_int_equal(history_reader_start(&reader, &bed.history), BELFRY_OK);
    bed.feed_opts = (struct catalog_feed_opts){
        .definitions = bed.definitions, .sources = &bed.sources, .history = &bed.history, .publish = on_catalog};
    assert_int_equal(thread_start(&part, &bed, &bed.thread), BELFRY_OK);
}

static void stop(void)
{
    thread_stop(bed.thread);
    history_reader_stop(bed.history);
    thread_destroy(bed.thread);
    history_reader_destroy(bed.history);
    kube_catalog_unref(bed.catalog);
    definitions_destroy(bed.definitions);
    evlog_destroy(bed.log);
    modelstore_destroy(shared.model);
}

/* ---- ingest ---- */

static void to_log(const char *key, const char *value)
{
    struct storecheck_event event = storecheck_event(
        belfry_bytes_str(key), value == NULL ? (struct belfry_bytes){0} : belfry_bytes_str(value), bed.rev, NULL);
    struct batch *batch;
    size_t bytes = batch_event_bytes(&event.event, (struct belfry_bytes){0});
    assert_int_equal(batch_create(bed.rev, BATCH_EVENTS, 1, bytes, &batch), BELFRY_OK);
    batch_add(batch, &event.event, (struct belfry_bytes){0});
    storecheck_event_fini(&event);
    assert_int_equal(evlog_append(bed.log, batch), BELFRY_OK);
    thread_wake(bed.thread);
}

static void commit(const char *key, const char *value)
{
    pthread_mutex_lock(&shared.mu);
    storecheck_write(shared.model, bed.rev, key, value);
    pthread_mutex_unlock(&shared.mu);
}

static void to_store(const char *key, const char *value)
{
    commit(key, value);
    evlog_committed(bed.log, bed.rev);
}

static const char *manifest(const char *plural)
{
    static char text[512];
    snprintf(text, sizeof(text),
             "{\"apiVersion\":\"apiextensions.k8s.io/v1\",\"kind\":\"CustomResourceDefinition\","
             "\"metadata\":{\"name\":\"%s.x.io\"},\"spec\":{\"group\":\"x.io\",\"scope\":\"Cluster\","
             "\"names\":{\"plural\":\"%s\",\"kind\":\"K%s\"},"
             "\"versions\":[{\"name\":\"v1\",\"served\":true,\"storage\":true}]}}",
             plural, plural, plural);
    return text;
}

/* The log is ahead of the store, as it is in a tier. */
static void put_key(const char *key, const char *value)
{
    bed.rev++;
    to_log(key, value);
    to_store(key, value);
}

static void put(const char *plural)
{
    char key[64];
    snprintf(key, sizeof(key), "/crds/%s", plural);
    put_key(key, manifest(plural));
}

/* Before there is a past: the replica is warm. */
static void keep(const char *plural)
{
    char key[64];
    snprintf(key, sizeof(key), "/crds/%s", plural);
    bed.rev++;
    commit(key, manifest(plural));
}

static void cut(enum evlog_cut_why why)
{
    assert_int_equal(evlog_cut(bed.log, bed.rev, why, bed.rev), BELFRY_OK);
    thread_wake(bed.thread);
}

/* The store's content is `plural` alone, at the revision that bed.rev is, in a past of its own. */
static void relist(const char *plural, uint64_t past)
{
    char key[64];
    snprintf(key, sizeof(key), "/crds/%s", plural);
    struct storecheck_event event =
        storecheck_event(belfry_bytes_str(key), belfry_bytes_str(manifest(plural)), bed.rev, NULL);
    struct belfry_wire_header header = {.revision = bed.rev};
    pthread_mutex_lock(&shared.mu);
    struct store *model = shared.model;
    assert_int_equal(model->api->fresh(model), BELFRY_OK);
    assert_int_equal(model->api->put(model, &event.event.kv), BELFRY_OK);
    assert_int_equal(model->api->adopt(model, bed.rev, &header, past), BELFRY_OK);
    pthread_mutex_unlock(&shared.mu);
    storecheck_event_fini(&event);
}

/* ---- waiting ---- */

static bool serves(const char *plural)
{
    const struct kube_resource *resource;
    const struct kube_version *version;
    return bed.catalog != NULL && kube_catalog_find(bed.catalog, belfry_bytes_str("x.io"), belfry_bytes_str("v1"),
                                                    belfry_bytes_str(plural), &resource, &version);
}

/* Waits until it is served, or is not. */
static void expect(const char *plural, bool served)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += WAIT_S;
    pthread_mutex_lock(&bed.mu);
    int failed = 0;
    while ((bed.catalog == NULL || serves(plural) != served) && failed == 0)
        failed = pthread_cond_timedwait(&bed.moved, &bed.mu, &until);
    pthread_mutex_unlock(&bed.mu);
    assert_int_equal(failed, 0);
}

static size_t catalogs(void)
{
    pthread_mutex_lock(&bed.mu);
    size_t n = bed.n_catalogs;
    pthread_mutex_unlock(&bed.mu);
    return n;
}

static size_t snapshots(void)
{
    pthread_mutex_lock(&shared.mu);
    size_t n = shared.snapshots;
    pthread_mutex_unlock(&shared.mu);
    return n;
}

static void pause_ms(unsigned ms)
{
    nanosleep(&(struct timespec){.tv_nsec = (long)ms * 1000000}, NULL);
}

/* ---- tests ---- */

static void definitions_come_change_and_go(void **state)
{
    (void)state;
    start();
    pause_ms(50);
    assert_int_equal(catalogs(), 0); /* upstream is not there yet */
    keep("quinces");
    cut(EVLOG_CUT_START);
    expect("quinces", true);
    put("apples");
    expect("apples", true);
    put("pears");
    expect("pears", true);
    bed.rev++;
    to_log("/crds/apples", NULL);
    pause_ms(50); /* the store is late: what it has is older than what was given */
    to_store("/crds/apples", NULL);
    expect("apples", false);
    expect("pears", true);
    stop();
}

static void what_is_elsewhere_is_not_read_for(void **state)
{
    (void)state;
    start();
    keep("apples");
    cut(EVLOG_CUT_START);
    expect("apples", true);
    pause_ms(CATALOG_FEED_SETTLE_MS + 50);
    size_t before = snapshots();
    for (int i = 0; i < 50; i++)
        put_key("/objects/x", "y");
    pause_ms(CATALOG_FEED_SETTLE_MS + 50);
    assert_int_equal(snapshots(), before);
    stop();
}

static void a_storm_is_read_a_few_times(void **state)
{
    (void)state;
    char plural[32];
    start();
    keep("apples");
    cut(EVLOG_CUT_START);
    expect("apples", true);
    size_t before = catalogs();
    uint64_t began = belfry_clock_ms();
    for (int i = 0; i < 1000; i++) {
        snprintf(plural, sizeof(plural), "t%04d", i);
        put(plural);
        if (i % 10 == 9)
            pause_ms(5);
    }
    expect("t0999", true);
    size_t most = (belfry_clock_ms() - began) / CATALOG_FEED_SETTLE_MS + 2;
    assert_true(catalogs() - before <= most);
    stop();
}

/* A backup was restored: revisions go on from an older one. */
static void after_a_cut_an_older_revision_is_the_newest(void **state)
{
    (void)state;
    start();
    keep("apples");
    cut(EVLOG_CUT_START);
    for (int i = 0; i < 100; i++)
        put("pears");
    expect("pears", true);
    bed.rev -= 50;
    relist("quinces", 2);
    cut(EVLOG_CUT_REWRITTEN);
    expect("quinces", true);
    expect("pears", false);
    put("plums"); /* and it is followed there */
    expect("plums", true);
    stop();
}

static void a_catalog_that_was_not_taken_comes_again(void **state)
{
    (void)state;
    start();
    bed.refuse = 1;
    keep("apples");
    cut(EVLOG_CUT_START);
    expect("apples", true);
    stop();
}

/* Whatever the reader has of it when all of it ends. */
static void it_may_end_at_any_time(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 20; i++) {
        start();
        keep("apples");
        cut(EVLOG_CUT_START);
        pause_ms(i % 5);
        put("pears");
        pause_ms(i / 5);
        stop();
        assert_int_equal(refuse_held(), 0);
    }
}

static enum belfry_err make_and_end(void)
{
    struct evlog_opts log_opts = {.capacity_log2 = 4, .max_bytes = 1000, .n_workers = 1};
    struct evlog *log = NULL;
    struct worker *worker = NULL;
    struct catalog_feed *feed = NULL;
    static struct definition_source resource;
    static char under[] = "/crds/";
    resource.under = under;
    struct definition_sources sources = {.all = &resource, .n = 1};
    enum belfry_err err = evlog_create(&log_opts, &log);
    struct worker_opts opts = {.log = log, .write = on_write};
    if (err == BELFRY_OK)
        err = worker_create(&opts, &worker);
    struct catalog_feed_opts feed_opts = {.sources = &sources, .worker = worker};
    if (err == BELFRY_OK)
        err = catalog_feed_create(&feed_opts, &feed);
    if (err == BELFRY_OK)
        catalog_feed_after_turn(feed, 1);
    catalog_feed_destroy(feed);
    worker_destroy(worker);
    evlog_destroy(log);
    return err;
}

static void no_memory_is_an_error(void **state)
{
    (void)state;
    assert_true(refuse_sweep(make_and_end) > 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(definitions_come_change_and_go),
        cmocka_unit_test(what_is_elsewhere_is_not_read_for),
        cmocka_unit_test(a_storm_is_read_a_few_times),
        cmocka_unit_test(after_a_cut_an_older_revision_is_the_newest),
        cmocka_unit_test(a_catalog_that_was_not_taken_comes_again),
        cmocka_unit_test(it_may_end_at_any_time),
        cmocka_unit_test(no_memory_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
