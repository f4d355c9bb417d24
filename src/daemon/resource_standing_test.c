/* src/daemon/resource_standing_test.c */
#include "daemon/resource_standing.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void a_change_is_seen_once(void **state)
{
    struct resource_standing standing;
    struct resource_standing_view view;
    uint64_t turn = 0;
    (void)state;
    resource_standing_init(&standing);
    assert_true(resource_standing_look(&standing, &turn, &view));
    assert_false(view.is_ready);
    assert_string_equal(view.reason, "starting");
    assert_false(resource_standing_look(&standing, &turn, &view));
    struct resource_standing_view ready = {.is_ready = true};
    resource_standing_set(&standing, &ready);
    resource_standing_set(&standing, &ready); /* the same */
    assert_true(resource_standing_look(&standing, &turn, &view));
    assert_true(view.is_ready);
    assert_false(resource_standing_look(&standing, &turn, &view));
    struct resource_standing_view absent = {.is_absent = true, .reason = "not there"};
    resource_standing_set(&standing, &absent);
    assert_true(resource_standing_look(&standing, &turn, &view));
    assert_true(view.is_absent && !view.is_ready);
    resource_standing_fini(&standing);
}

static void another_past_at_the_same_version_is_news(void **state)
{
    struct resource_standing standing;
    (void)state;
    resource_standing_init(&standing);
    resource_standing_publish(&standing, 20, 100);
    uint64_t news = standing.news;
    resource_standing_publish(&standing, 20, 200);
    assert_true(standing.news > news);
    assert_int_equal(standing.published, 20);
    assert_int_equal(standing.published_ns, 100); /* it was published then */
    resource_standing_publish(&standing, 21, 300);
    assert_int_equal(standing.published_ns, 300);
    resource_standing_fini(&standing);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_change_is_seen_once),
        cmocka_unit_test(another_past_at_the_same_version_is_news),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
