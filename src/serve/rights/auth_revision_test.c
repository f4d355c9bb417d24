/* src/serve/rights/auth_revision_test.c */
#include "serve/rights/auth_revision.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define T0 1000000u

static struct auth_revision shared;
static struct auth_revision_view view;

static int setup(void **state)
{
    (void)state;
    auth_revision_init(&shared);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    auth_revision_fini(&shared);
    return 0;
}

static enum auth_revision_answer ask(uint64_t now)
{
    return auth_revision_ask(&shared, now, &view);
}

static void one_worker_logs_in_for_all(void **state)
{
    (void)state;
    assert_int_equal(ask(T0), AUTH_REVISION_LOG_IN);
    assert_int_equal(ask(T0), AUTH_REVISION_WAIT);
    assert_true(view.due_ms > T0 && view.due_ms < T0 + AUTH_REVISION_EVERY_MS);
    auth_revision_learn(&shared, 17, T0 + 80);
    assert_int_equal(ask(T0 + 81), AUTH_REVISION_HERE);
    assert_int_equal(view.revision, 17);
    assert_int_equal(ask(T0 + 1000 * AUTH_REVISION_EVERY_MS), AUTH_REVISION_HERE); /* until upstream says otherwise */
    assert_int_equal(auth_revision_log_ins(&shared), 1);
}

static void old_revision_is_asked_for_again_once_per_second(void **state)
{
    (void)state;
    assert_int_equal(ask(T0), AUTH_REVISION_LOG_IN);
    auth_revision_outdate(&shared, 0); /* meanwhile: no effect */
    auth_revision_learn(&shared, 17, T0 + 80);
    auth_revision_outdate(&shared, 16); /* of a token that was made before */
    assert_int_equal(ask(T0 + 100), AUTH_REVISION_HERE);
    auth_revision_outdate(&shared, 17);
    auth_revision_outdate(&shared, 17);
    assert_int_equal(ask(T0 + 100), AUTH_REVISION_WAIT);
    assert_int_equal(view.due_ms, T0 + 80 + AUTH_REVISION_EVERY_MS);
    assert_int_equal(ask(view.due_ms), AUTH_REVISION_LOG_IN);
    auth_revision_learn(&shared, 16, T0 + 1200); /* upstream was restored from a backup: what it says counts */
    assert_int_equal(ask(T0 + 1200), AUTH_REVISION_HERE);
    assert_int_equal(view.revision, 16);
}

static void failed_log_in_is_told_and_tried_again_after_a_pause_that_grows(void **state)
{
    (void)state;
    uint64_t now = T0, pause = 0;
    for (unsigned i = 0; i < 8; i++) {
        uint64_t from = now;
        assert_int_equal(ask(now), AUTH_REVISION_LOG_IN);
        bool is_news = auth_revision_fail(&shared, AUTH_REVISION_NOT_LOGGED_IN, "wrong password", now);
        assert_int_equal(is_news, i == 0);
        assert_int_equal(ask(now), AUTH_REVISION_REFUSED);
        assert_string_equal(view.why, "wrong password");
        now = shared.next_ms;
        assert_int_equal(ask(now - 1), AUTH_REVISION_REFUSED);
        assert_true(now - from >= pause && now - from <= AUTH_REVISION_PAUSE_MS);
        pause = now - from;
    }
    assert_int_equal(pause, AUTH_REVISION_PAUSE_MS);
    assert_int_equal(ask(now), AUTH_REVISION_LOG_IN);
    assert_true(auth_revision_fail(&shared, AUTH_REVISION_NO_JWT, "no JWT", now));
    assert_int_equal(ask(now), AUTH_REVISION_REFUSED);
    assert_int_equal(view.failure, AUTH_REVISION_NO_JWT);
    assert_int_equal(ask(now + AUTH_REVISION_PAUSE_MS), AUTH_REVISION_LOG_IN);
    auth_revision_learn(&shared, 3, now);
    auth_revision_outdate(&shared, 3);
    assert_int_equal(ask(now + AUTH_REVISION_EVERY_MS), AUTH_REVISION_LOG_IN);
    assert_true(auth_revision_fail(&shared, AUTH_REVISION_NO_JWT, "no JWT", now)); /* it had worked */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(one_worker_logs_in_for_all, setup, teardown),
        cmocka_unit_test_setup_teardown(old_revision_is_asked_for_again_once_per_second, setup, teardown),
        cmocka_unit_test_setup_teardown(failed_log_in_is_told_and_tried_again_after_a_pause_that_grows, setup,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
