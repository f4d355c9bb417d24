/* src/serve/admin/readiness_test.c: what each sentence says is tested with /readyz (admin_test.c). */
#include "serve/admin/readiness.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"

static struct worker_numbers workers[2];
static struct tier_numbers numbers;

static int setup(void **state)
{
    (void)state;
    memset(workers, 0, sizeof(workers));
    workers[0].answered = workers[1].answered = true;
    numbers = (struct tier_numbers){.n_workers = 2, .workers = workers, .ready_lag_ms = 5000};
    numbers.upstream_answered = true;
    numbers.upstream = (struct driver_status){.standing = DRIVER_READY, .silent_ms = 5000};
    return 0;
}

/* Every check but this one holds; READINESS_N: all of them do. */
static void assert_fails_alone(enum readiness_check failing)
{
    struct readiness readiness;
    readiness_judge(&numbers, &readiness);
    assert_int_equal(readiness.is_ready, failing == READINESS_N);
    for (enum readiness_check check = 0; check < READINESS_N; check++) {
        assert_int_equal(readiness.checks[check].holds, check != failing);
        assert_int_equal(readiness.checks[check].why[0] != '\0', check == failing);
        assert_int_equal(readiness.checks[check].hint[0] != '\0', check == failing);
    }
}

/* What programs and the page read. */
static void assert_written(const char *text)
{
    struct belfry_buf buf;
    belfry_buf_init(&buf);
    struct belfry_json json = belfry_json_begin(&buf);
    belfry_json_open(&json, NULL, '{');
    readiness_write(&json, &numbers);
    belfry_json_close(&json, '}');
    assert_int_equal(belfry_json_finish(&json), BELFRY_OK);
    assert_int_equal(belfry_buf_append(&buf, "", 1), BELFRY_OK);
    const char *written = belfry_buf_bytes(&buf).data;
    if (strstr(written, text) == NULL)
        fail_msg("%s is not in %s", text, written);
    belfry_buf_fini(&buf);
}

static void verdict_is_written_with_why_and_what_to_do(void **state)
{
    assert_written("\"ready\":true,\"verdict\":\"ready\",\"why\":\"\"");
    numbers.upstream.disk_trouble = true;
    snprintf(numbers.upstream.disk_why, sizeof(numbers.upstream.disk_why), "disk full: /cache");
    assert_written("\"ready\":false,\"verdict\":\"not ready\",\"why\":\"replica: disk full: /cache\"");
    assert_written("\"hint\":\"make room where --cache-dir is; the tier goes on by itself\"}");
    assert_written("{\"name\":\"replica\",\"ok\":false,\"why\":\"disk full: /cache\",\"hint\":\"make room where "
                   "--cache-dir is; the tier goes on by itself\"}");
    numbers.draining = true;
    assert_written("\"verdict\":\"draining\",\"why\":\"replica: disk full: /cache\"");
    setup(state);
    numbers.draining = true;
    assert_written("\"ready\":false,\"verdict\":\"draining\",\"why\":\"drain: the tier drains\"");
}

static void lost_data_is_told_for_an_hour(void **state)
{
    (void)state;
    assert_written("\"warnings\":[]");
    numbers.now_ms = 100000000;
    numbers.upstream.loss = (struct follow_loss){numbers.now_ms - 60000, 812, 1, 0};
    assert_written(
        "\"warnings\":[{\"name\":\"upstream\",\"why\":\"upstream lost data 60 s ago: revision 812 became 1, with "
        "0 keys\",\"hint\":\"was etcd replaced");
    assert_written("\"ready\":true"); /* its clients are told, and it follows what is there */
    numbers.now_ms += READINESS_LOSS_MS;
    assert_written("\"warnings\":[]");
}

/* A reason without a remedy helps nobody. */
static void every_trouble_of_upstream_has_a_hint(void **state)
{
    (void)state;
    numbers.upstream.standing = DRIVER_STALE;
    for (enum driver_trouble trouble = DRIVER_FINE + 1; trouble < DRIVER_TROUBLES; trouble++) {
        struct readiness readiness;
        numbers.upstream.trouble = trouble;
        readiness_judge(&numbers, &readiness);
        assert_true(readiness.checks[READINESS_UPSTREAM].hint[0] != '\0');
    }
}

/* One line says what is wrong, once. */
static void a_line_names_upstream_once_and_what_it_means(void **state)
{
    static const struct {
        enum driver_standing standing;
        enum driver_trouble trouble;
        const char *reason, *line;
    } rows[] = {
        {DRIVER_STALE, DRIVER_UNREACHABLE, "upstream http://127.0.0.1:2379 unreachable (connection refused)",
         "upstream http://127.0.0.1:2379 unreachable (connection refused); data is stale"},
        {DRIVER_STALE, DRIVER_REFUSED, "upstream http://a:1: etcdserver: no leader",
         "upstream http://a:1: etcdserver: no leader; data is stale"},
        {DRIVER_STALE, DRIVER_SILENT, "upstream is silent", "upstream is silent; data is stale"},
        {DRIVER_STALE, DRIVER_SILENT, "pods is not followed yet", "upstream: pods is not followed yet; data is stale"},
        {DRIVER_STALE, DRIVER_SILENT, "", "upstream: data is stale"},
        {DRIVER_NOT_READY, DRIVER_WORKING, "starting", "upstream: starting"},
        {DRIVER_NOT_READY, DRIVER_UNREACHABLE, "upstream http://a:1 unreachable (no answer)",
         "upstream http://a:1 unreachable (no answer)"},
        {DRIVER_NOT_READY, DRIVER_WORKING, "", "upstream: not ready"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct readiness readiness;
        char line[READINESS_LINE];
        setup(state);
        numbers.upstream.standing = rows[i].standing;
        numbers.upstream.trouble = rows[i].trouble;
        snprintf(numbers.upstream.reason, sizeof(numbers.upstream.reason), "%s", rows[i].reason);
        readiness_judge(&numbers, &readiness);
        readiness_line(READINESS_UPSTREAM, &readiness.checks[READINESS_UPSTREAM], line);
        assert_string_equal(line, rows[i].line);
    }
}

static void tier_that_follows_is_ready(void **state)
{
    (void)state;
    assert_fails_alone(READINESS_N);
}

static void each_check_fails_for_its_own_reason(void **state)
{
    numbers.upstream.standing = DRIVER_STALE;
    numbers.upstream.trouble = DRIVER_SILENT;
    assert_fails_alone(READINESS_UPSTREAM);
    setup(state);
    numbers.upstream.silent_ms = 5001;
    assert_fails_alone(READINESS_LAG);
    numbers.upstream.silent_ms = BELFRY_NEVER;
    assert_fails_alone(READINESS_LAG);
    setup(state);
    numbers.upstream.disk_trouble = true;
    snprintf(numbers.upstream.disk_why, sizeof(numbers.upstream.disk_why), "disk full: /cache");
    assert_fails_alone(READINESS_REPLICA);
    setup(state);
    workers[1].answered = false;
    assert_fails_alone(READINESS_WORKERS);
    setup(state);
    numbers.guarded = "http://127.0.0.1:1";
    workers[0].auth = PERMIT_AUTH_ON;
    assert_fails_alone(READINESS_RIGHTS); /* not known yet */
    workers[1].auth = PERMIT_AUTH_OFF;
    assert_fails_alone(READINESS_RIGHTS);
    setup(state);
    numbers.draining = true;
    assert_fails_alone(READINESS_DRAIN);
}

static void names_are_those_of_readyz(void **state)
{
    (void)state;
    static const char *const names[READINESS_N] = {"upstream", "lag", "replica", "workers", "rights", "drain"};
    for (enum readiness_check check = 0; check < READINESS_N; check++)
        assert_string_equal(readiness_name(check), names[check]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(tier_that_follows_is_ready, setup),
        cmocka_unit_test_setup(each_check_fails_for_its_own_reason, setup),
        cmocka_unit_test_setup(verdict_is_written_with_why_and_what_to_do, setup),
        cmocka_unit_test_setup(lost_data_is_told_for_an_hour, setup),
        cmocka_unit_test_setup(a_line_names_upstream_once_and_what_it_means, setup),
        cmocka_unit_test_setup(every_trouble_of_upstream_has_a_hint, setup),
        cmocka_unit_test(names_are_those_of_readyz),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
