/* src/serve/admin/hour_test.c */
#include "serve/admin/hour.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "support/refuse.h"

static struct worker_numbers workers[2];
static struct tier_numbers numbers;
static struct hour *hour;

static int set_up(void **state)
{
    (void)state;
    memset(workers, 0, sizeof(workers));
    workers[0].answered = workers[1].answered = true;
    numbers = (struct tier_numbers){.n_workers = 2, .workers = workers, .upstream_answered = true};
    numbers.clock_ms = 1700000000999;
    numbers.now_ms = 1000000;
    return hour_create(&hour) != BELFRY_OK;
}

static int tear_down(void **state)
{
    (void)state;
    hour_destroy(hour);
    return 0;
}

/* The next sample, on time. */
static void add(void)
{
    numbers.now_ms += HOUR_EVERY_MS;
    numbers.clock_ms += HOUR_EVERY_MS;
    hour_add(hour, &numbers);
}

static void assert_newest(const char *wanted)
{
    struct belfry_buf buf = {0};
    assert_int_equal(hour_write_newest(hour, &buf), BELFRY_OK);
    assert_int_equal(belfry_buf_append(&buf, "", 1), BELFRY_OK);
    assert_string_equal((const char *)buf.data, wanted);
    belfry_buf_fini(&buf);
}

/* Returns the text, which the caller frees. */
static char *whole(void)
{
    struct belfry_buf buf = {0};
    assert_int_equal(hour_write(hour, &buf), BELFRY_OK);
    assert_int_equal(belfry_buf_append(&buf, "", 1), BELFRY_OK);
    return (char *)buf.data;
}

static void a_sample_is_due_at_once_and_then_every_five_seconds(void **state)
{
    (void)state;
    uint64_t began_ms = numbers.now_ms;
    assert_true(hour_is_due(hour, began_ms));
    hour_add(hour, &numbers);
    assert_false(hour_is_due(hour, began_ms + HOUR_EVERY_MS - 1));
    assert_true(hour_is_due(hour, began_ms + HOUR_EVERY_MS));
    numbers.now_ms = began_ms + HOUR_EVERY_MS + 200; /* a late one does not move the next */
    hour_add(hour, &numbers);
    assert_true(hour_is_due(hour, began_ms + 2 * HOUR_EVERY_MS));
    numbers.now_ms += 60000; /* unless it is very late */
    hour_add(hour, &numbers);
    assert_false(hour_is_due(hour, numbers.now_ms + HOUR_EVERY_MS - 1));
}

static void rates_are_sums_over_workers_per_second(void **state)
{
    (void)state;
    numbers.upstream.stats.events = 1000;
    add();
    numbers.upstream.stats.events += 50;
    workers[0].core.deliveries = 500;
    workers[1].core.deliveries = 1000;
    workers[0].inbound.bytes_out = 5000;
    workers[0].reads.replica[0] = 5;
    workers[1].reads.replica[1] = 10;
    workers[1].reads.upstream[0] = 1;
    workers[1].relay.relayed = 25;
    workers[0].inbound.refused_floods = 5;
    workers[1].route.refused_hosts = 5;
    numbers.listeners.refused = 5;
    workers[0].latency.buckets[1] = 60; /* up to 0.2 ms */
    workers[1].latency.buckets[5] = 40; /* up to 3.2 ms */
    workers[0].core.riding = 7;
    workers[1].core.stalled = 2;
    workers[0].core.lines[LINES_BY_EVENT].synced = 3;
    workers[1].inbound.connections = 4;
    numbers.upstream.silent_ms = 250;
    numbers.log_bytes = 100;
    workers[0].core.bytes = 20;
    add();
    assert_newest("{\"number\":1,\"row\":[1700000010,10,300,1000,3,0.2,5,3,0.2,3.2,9,4,250,120]}");
}

static void a_value_that_is_not_known_is_null(void **state)
{
    (void)state;
    numbers.upstream.silent_ms = BELFRY_NEVER;
    add(); /* the first has no rates */
    assert_newest("{\"number\":0,\"row\":[1700000005,null,null,null,null,null,null,null,null,null,0,0,null,0]}");
    numbers.upstream.silent_ms = 1;
    add(); /* nothing was delivered: no latency */
    assert_newest("{\"number\":1,\"row\":[1700000010,0,0,0,0,0,0,0,null,null,0,0,1,0]}");
    workers[1].answered = false;
    add(); /* a sum without a worker is no total */
    assert_newest("{\"number\":2,\"row\":[1700000015,null,null,null,null,null,null,null,null,null,0,0,1,0]}");
    workers[1].answered = true;
    add();
    assert_newest("{\"number\":3,\"row\":[1700000020,null,null,null,null,null,null,null,null,null,0,0,1,0]}");
    add();
    assert_newest("{\"number\":4,\"row\":[1700000025,0,0,0,0,0,0,0,null,null,0,0,1,0]}");
    numbers.now_ms += 60000; /* the process was stopped */
    add();
    assert_newest("{\"number\":5,\"row\":[1700000030,null,null,null,null,null,null,null,null,null,0,0,1,0]}");
}

static void a_latency_beyond_the_last_bound_is_told_as_that_bound(void **state)
{
    (void)state;
    add();
    workers[0].latency.buckets[LATENCY_BUCKETS] = 3;
    add();
    assert_newest("{\"number\":1,\"row\":[1700000010,0,0,0,0,0,0,0,6554,6554,0,0,0,0]}");
}

static void the_oldest_sample_leaves_and_the_memory_stays(void **state)
{
    (void)state;
    size_t held = refuse_held();
    for (size_t i = 0; i < HOUR_SAMPLES + 3; i++)
        add();
    assert_int_equal(refuse_held(), held);
    assert_int_equal(hour_next(hour), HOUR_SAMPLES + 3);
    char *text = whole(), first[64], last[64];
    snprintf(first, sizeof(first), "\"first\":3,\"rows\":[[%u,", 1700000000u + 4 * 5);
    snprintf(last, sizeof(last), ",[%u,", 1700000000u + (HOUR_SAMPLES + 3) * 5);
    assert_non_null(strstr(text, first));
    assert_non_null(strstr(text, last));
    size_t n = 0;
    for (const char *at = text; (at = strchr(at, '[')) != NULL; at++)
        n++;
    assert_int_equal(n, HOUR_SAMPLES + 2); /* with those of columns and rows */
    free(text);
}

static void the_document_says_what_it_holds_and_what_it_costs(void **state)
{
    (void)state;
    char *text = whole(), wanted[512];
    snprintf(wanted, sizeof(wanted),
             "{\"every_s\":5,\"samples\":720,\"bytes\":%zu,\"columns\":[\"time_s\",\"events\",\"deliveries\","
             "\"sent_bytes\",\"reads_replica\",\"reads_upstream\",\"relayed\",\"rejected\",\"p50_ms\",\"p99_ms\","
             "\"watchers\",\"connections\",\"lag_ms\",\"memory_bytes\"],\"first\":0,\"rows\":[]}\n",
             HOUR_BYTES);
    assert_string_equal(text, wanted);
    free(text);
    assert_true(HOUR_BYTES < 41000); /* docs/page.md says so */
}

static enum belfry_err scenario(void)
{
    struct belfry_buf buf = {0};
    struct hour *own = NULL;
    enum belfry_err err = hour_create(&own);
    if (err == BELFRY_OK) {
        hour_add(own, &numbers);
        err = hour_write(own, &buf);
    }
    if (err == BELFRY_OK)
        err = hour_write_newest(own, &buf);
    hour_destroy(own);
    belfry_buf_fini(&buf);
    return err;
}

static void every_refused_allocation_is_told(void **state)
{
    (void)state;
    assert_true(refuse_sweep(scenario) > 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_sample_is_due_at_once_and_then_every_five_seconds, set_up, tear_down),
        cmocka_unit_test_setup_teardown(rates_are_sums_over_workers_per_second, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_value_that_is_not_known_is_null, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_latency_beyond_the_last_bound_is_told_as_that_bound, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_oldest_sample_leaves_and_the_memory_stays, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_document_says_what_it_holds_and_what_it_costs, set_up, tear_down),
        cmocka_unit_test_setup_teardown(every_refused_allocation_is_told, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
