/* tests/support/driverbed.h: a driver on a loop, against one or two members made by support/fakeetcd.
 * Included by the suites that need it, after cmocka. */
#ifndef BELFRY_TESTS_DRIVERBED_H
#define BELFRY_TESTS_DRIVERBED_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "follow/driver.h"
#include "support/fakeetcd.h"
#include "support/modelstore.h"
#include "support/refuse.h"

#define SOON_MS 10000 /* far more than anything here takes */
#define ANSWERS 4096

/* ---- the bed: each key is put once, for the fake knows no versions of a key ---- */

static struct bed {
    uv_loop_t loop;
    struct fake_store theirs, other;
    struct fake_rule rule;
    struct fake *fakes[2];
    struct store *store;
    struct evlog *evlog;
    struct term term;
    struct driver *driver;
    struct driver_status status;
    unsigned changed;
    size_t n_answers, revisions;
    enum belfry_err answers[ANSWERS]; /* by token */
    bool asking;                      /* inside driver_backfill() */
    const char *name;                 /* of the tier; NULL: none */
    const char *user;                 /* "NAME:PASSWORD"; NULL: none */
    char log[16384];
} bed;

static void on_changed(void *user)
{
    (void)user;
    bed.changed++;
}

static void on_backfilled(uint64_t token, enum belfry_err err, struct segment *segment, int64_t compact_rev, void *user)
{
    (void)compact_rev;
    (void)user;
    assert_false(bed.asking);
    assert_int_equal(bed.answers[token], BELFRY_ERR_END_); /* once */
    assert_int_equal(segment != NULL, err == BELFRY_OK);
    bed.answers[token] = err;
    bed.n_answers++;
    bed.revisions += segment != NULL ? segment->n : 0;
    segment_unref(segment);
}

static void on_line(enum belfry_log_level level, const char *event, const char *text, void *user)
{
    size_t used = strlen(bed.log);
    (void)user;
    snprintf(bed.log + used, sizeof(bed.log) - used, "%d %s %s\n", (int)level, event, text);
}

static unsigned lines(const char *event)
{
    unsigned n = 0;
    for (const char *at = bed.log; (at = strstr(at, event)) != NULL; at++)
        n++;
    return n;
}

static const struct driver_events events = {.changed = on_changed, .backfilled = on_backfilled};
static const struct belfry_log test_log = {.line = on_line, .level = BELFRY_LOG_INFO};

static void make_members(int n)
{
    fake_store_init(&bed.theirs);
    fake_store_init(&bed.other);
    bed.other.cluster_id = bed.theirs.cluster_id + 1;
    for (int i = 0; i < n; i++)
        bed.fakes[i] = fake_create(&bed.theirs, &bed.rule);
}

static enum belfry_err start(const char *key, const char *end, size_t len)
{
    struct belfry_endpoint endpoints[2];
    char why[100];
    size_t n = 0;
    for (; n < 2 && bed.fakes[n] != NULL; n++)
        assert_int_equal(belfry_endpoint_parse(fake_url(bed.fakes[n]), strlen(fake_url(bed.fakes[n])), &endpoints[n],
                                               why, sizeof(why)),
                         BELFRY_OK);
    term_init(&bed.term);
    struct driver_opts opts = {.loop = &bed.loop,
                               .endpoints = endpoints,
                               .n_endpoints = n,
                               .user_agent = "test",
                               .name = bed.name,
                               .user = bed.user,
                               .key = belfry_bytes_of(key, len),
                               .range_end = belfry_bytes_of(end, len),
                               .store = bed.store,
                               .evlog = bed.evlog,
                               .term = &bed.term,
                               .command_timeout_ms = 1000,
                               .seed = 2,
                               .log = &test_log};
    return driver_create(&opts, &events, NULL, &bed.driver);
}

static void start_all(void)
{
    assert_int_equal(start("", "", 1), BELFRY_OK);
}

static void turn(void)
{
    for (int i = 0; i < 2; i++) {
        if (bed.fakes[i] != NULL)
            fake_turn(bed.fakes[i]);
    }
    uv_run(&bed.loop, UV_RUN_NOWAIT);
    if (bed.driver != NULL)
        driver_status(bed.driver, &bed.status);
}

#define drive_until(condition)                                                                                         \
    do {                                                                                                               \
        uint64_t end_ = belfry_clock_ms() + SOON_MS;                                                                   \
        while (!(condition) && belfry_clock_ms() < end_)                                                               \
            turn();                                                                                                    \
        if (!(condition))                                                                                              \
            fail_msg("%s: %s\n%s", #condition, bed.status.reason, bed.log);                                            \
    } while (0)

static void drive_for(uint64_t ms)
{
    for (uint64_t end = belfry_clock_ms() + ms; belfry_clock_ms() < end;)
        turn();
}

static void drive_live(void)
{
    drive_until(bed.status.standing == DRIVER_READY && bed.status.revision == bed.theirs.revision);
}

static void stop(void)
{
    driver_destroy(bed.driver);
    bed.driver = NULL;
    uv_run(&bed.loop, UV_RUN_DEFAULT); /* ends when every handle is closed */
}

static int setup(void **state)
{
    struct modelstore_opts model = {.history_rows = 10000, .history_age_s = 3600, .extent_bytes = INGEST_EXTENT_BYTES};
    struct evlog_opts log = {.capacity_log2 = 12, .max_bytes = 1 << 20, .n_workers = 1};
    (void)state;
    memset(&bed, 0, sizeof(bed));
    for (size_t i = 0; i < ANSWERS; i++)
        bed.answers[i] = BELFRY_ERR_END_;
    uv_loop_init(&bed.loop);
    bed.store = modelstore_create(&model);
    assert_int_equal(evlog_create(&log, &bed.evlog), BELFRY_OK);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    stop();
    evlog_destroy(bed.evlog);
    modelstore_destroy(bed.store);
    for (int i = 0; i < 2; i++)
        fake_destroy(bed.fakes[i]);
    return uv_loop_close(&bed.loop) == 0 && refuse_held() == 0 ? 0 : -1;
}

/* Another process on the same replica. */
static void restart(void)
{
    struct evlog_opts log = {.capacity_log2 = 12, .max_bytes = 1 << 20, .n_workers = 1};
    stop();
    evlog_destroy(bed.evlog);
    assert_int_equal(evlog_create(&log, &bed.evlog), BELFRY_OK);
    bed.status = (struct driver_status){0};
    start_all();
}

#endif
