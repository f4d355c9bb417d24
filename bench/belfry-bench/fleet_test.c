/* bench/belfry-bench/fleet_test.c */
#include "fleet.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char key[FLEET_KEY_MAX], end[FLEET_KEY_MAX];
static const struct fleet fleet = {.n_clients = 1000, .n_watches = 100};

static void ranges_have_the_names_that_rights_are_granted_for(void **state)
{
    (void)state;
    fleet_range(&fleet, "/f/", 7, key, end);
    assert_string_equal(key, "/f/shared/007/");
    assert_string_equal(end, "/f/shared/0070");
    fleet_range(&fleet, "/f/", FLEET_SHARED + 42 * 60 + 3, key, end);
    assert_string_equal(key, "/f/own/00042/key-003");
    assert_string_equal(end, "");
    fleet_range(&fleet, "/f/", FLEET_SHARED + 42 * 60 + 50, key, end);
    assert_string_equal(key, "/f/own/00042/dir-050/");
    assert_string_equal(end, "/f/own/00042/dir-0500");
    fleet_key(&fleet, "/f/", FLEET_SHARED + 42 * 60 + 50, key);
    assert_string_equal(key, "/f/own/00042/dir-050/key");
    fleet_key(&fleet, "/f/", FLEET_SHARED + 42 * 60 + 3, key);
    assert_string_equal(key, "/f/own/00042/key-003");
}

static void a_client_has_ninety_distinct_ranges_of_a_hundred(void **state)
{
    (void)state;
    for (size_t client = 0; client < fleet.n_clients; client += 111) {
        size_t n = 0, n_shared = 0;
        bool *seen = calloc(fleet_ranges(&fleet), sizeof(*seen));
        assert_non_null(seen);
        for (size_t i = 0; i < fleet.n_watches; i++) {
            size_t range = fleet_range_of(&fleet, client * fleet.n_watches + i);
            assert_true(range < fleet_ranges(&fleet));
            n += !seen[range];
            n_shared += range < FLEET_SHARED;
            seen[range] = true;
        }
        free(seen);
        assert_int_equal(n, 90);
        assert_int_equal(n_shared, 40);
    }
}

static void every_range_is_watched(void **state)
{
    (void)state;
    const struct fleet sizes[] = {fleet, {.n_clients = 100, .n_watches = 100}, {.n_clients = 100, .n_watches = 11}};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        size_t n = 0;
        bool *seen = calloc(fleet_ranges(&sizes[i]), sizeof(*seen));
        assert_non_null(seen);
        for (size_t watcher = 0; watcher < sizes[i].n_clients * sizes[i].n_watches; watcher++) {
            size_t range = fleet_range_of(&sizes[i], watcher);
            n += !seen[range];
            seen[range] = true;
        }
        free(seen);
        assert_int_equal(n, fleet_ranges(&sizes[i]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges_have_the_names_that_rights_are_granted_for),
        cmocka_unit_test(a_client_has_ninety_distinct_ranges_of_a_hundred),
        cmocka_unit_test(every_range_is_watched),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
