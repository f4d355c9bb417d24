/* src/serve/admin/readiness_test.c: what each sentence says is tested with /readyz (admin_test.c). */
#include "serve/admin/readiness.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

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
    for (enum readiness_check check = 0; check < READINESS_N; check++) {
        char why[READINESS_WHY] = "";
        assert_int_equal(readiness_holds(&numbers, check, why), check != failing);
        assert_true(check != failing || why[0] != '\0');
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
    assert_fails_alone(READINESS_UPSTREAM);
    setup(state);
    numbers.upstream.silent_ms = 5001;
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
        cmocka_unit_test(names_are_those_of_readyz),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
