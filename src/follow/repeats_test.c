/* src/follow/repeats_test.c */
#include "follow/repeats.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "support/refuse.h"

#define EVENTS_MAX 200

static struct belfry_wire_event events[EVENTS_MAX];

/* Of keys of one letter each. */
static size_t revision_of(const char *keys)
{
    size_t n = strlen(keys);
    for (size_t i = 0; i < n; i++)
        events[i] = (struct belfry_wire_event){.kv = {.key = belfry_bytes_of(keys + i, 1)}};
    return n;
}

static void usual_revisions_have_none(void **state)
{
    (void)state;
    static const char *const usual[] = {"", "a", "abcxyz", "zya", "bac"};
    struct repeats repeats = {0};
    for (size_t i = 0; i < sizeof(usual) / sizeof(usual[0]); i++) {
        assert_int_equal(repeats_find(&repeats, events, revision_of(usual[i])), BELFRY_OK);
        assert_int_equal(repeats.n, 0);
        assert_null(repeats_of(&repeats, 0));
        assert_false(repeats_changed_later(&repeats, 0));
    }
    repeats_clear(&repeats);
}

static void a_repeat_knows_the_event_before_it(void **state)
{
    (void)state;
    struct repeats repeats = {0};
    assert_int_equal(repeats_find(&repeats, events, revision_of("zabzaz")), BELFRY_OK);
    assert_int_equal(repeats.n, 3);
    assert_int_equal(repeats_of(&repeats, 3)->last, 0);
    assert_int_equal(repeats_of(&repeats, 4)->last, 1);
    assert_int_equal(repeats_of(&repeats, 5)->last, 3);
    static const bool later[] = {true, true, false, true, false, false};
    for (size_t i = 0; i < 6; i++) {
        assert_int_equal(repeats_changed_later(&repeats, i), later[i]);
        assert_int_equal(repeats_of(&repeats, i) != NULL, i >= 3);
    }
    assert_int_equal(repeats_find(&repeats, events, revision_of("aa")), BELFRY_OK); /* instead of those */
    assert_int_equal(repeats.n, 1);
    repeats_clear(&repeats);
    assert_int_equal(repeats.n, 0);
}

/* Beside a search that looks at all pairs. */
static void random_revisions(void **state)
{
    (void)state;
    struct belfry_rng rng = {1};
    struct repeats repeats = {0};
    for (int round = 0; round < 500; round++) {
        char keys[EVENTS_MAX + 1] = "";
        size_t n = 1 + belfry_rng_below(&rng, EVENTS_MAX), found = 0;
        for (size_t i = 0; i < n; i++)
            keys[i] = (char)(1 + belfry_rng_below(&rng, 120));
        assert_int_equal(repeats_find(&repeats, events, revision_of(keys)), BELFRY_OK);
        for (size_t i = 0; i < n; i++) {
            size_t last = i;
            while (last-- > 0 && keys[last] != keys[i])
                ;
            const struct repeat *repeat = repeats_of(&repeats, i);
            assert_int_equal(repeat != NULL, last != SIZE_MAX);
            assert_true(repeat == NULL || repeat->last == last);
            assert_int_equal(repeats_changed_later(&repeats, i), strchr(keys + i + 1, keys[i]) != NULL);
            found += repeat != NULL;
        }
        assert_int_equal(repeats.n, found);
    }
    repeats_clear(&repeats);
}

static void refused_allocations_leave_it_empty(void **state)
{
    (void)state;
    struct repeats repeats = {0};
    for (size_t n = 0; n < 3; n++) {
        refuse_begin(n);
        enum belfry_err err = repeats_find(&repeats, events, revision_of("baba"));
        assert_true(refuse_end());
        assert_int_equal(err, BELFRY_ERR_NOMEM);
        assert_int_equal(repeats.n, 0);
    }
    assert_int_equal(repeats_find(&repeats, events, revision_of("baba")), BELFRY_OK);
    assert_int_equal(repeats.n, 2);
    repeats_clear(&repeats);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(usual_revisions_have_none),
        cmocka_unit_test(a_repeat_knows_the_event_before_it),
        cmocka_unit_test(random_revisions),
        cmocka_unit_test(refused_allocations_leave_it_empty),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
