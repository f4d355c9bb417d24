/* src/serve/sse/sse_ranges_test.c */
#include "serve/sse/sse_ranges.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "serve/sse/sse_query.h"

static struct sse_query query;

static struct sse_ranges ranges_of(const char *text)
{
    const char *why;
    assert_int_equal(sse_query_read(belfry_bytes_str(text), &query, &why), BELFRY_OK);
    return (struct sse_ranges){.n = query.n_ranges, .list = query.ranges};
}

static void assert_hull(const char *text, struct belfry_bytes key, struct belfry_bytes end)
{
    struct sse_ranges ranges = ranges_of(text);
    struct belfry_buf hull_key, hull_end;
    belfry_buf_init(&hull_key);
    belfry_buf_init(&hull_end);
    assert_int_equal(sse_ranges_hull(&ranges, &hull_key, &hull_end), BELFRY_OK);
    assert_true(belfry_bytes_equal(belfry_buf_bytes(&hull_key), key));
    assert_true(belfry_bytes_equal(belfry_buf_bytes(&hull_end), end));
    belfry_buf_fini(&hull_key);
    belfry_buf_fini(&hull_end);
    sse_query_fini(&query);
}

static void hull_is_the_smallest_range_of_all(void **state)
{
    (void)state;
    struct belfry_bytes zero = belfry_bytes_of("", 1);
    assert_hull("prefix=/a/", belfry_bytes_str("/a/"), belfry_bytes_str("/a0"));
    assert_hull("prefix=/b/&prefix=/a/", belfry_bytes_str("/a/"), belfry_bytes_str("/b0"));
    assert_hull("key=k", belfry_bytes_str("k"), belfry_bytes_of("k", 2));
    assert_hull("key=k&from=a&to=j", belfry_bytes_str("a"), belfry_bytes_of("k", 2));
    assert_hull("prefix=b&from=c", belfry_bytes_str("b"), zero);
    assert_hull("from=c&prefix=b", belfry_bytes_str("b"), zero);
    assert_hull("prefix=&key=k", zero, zero);
}

static void key_that_is_in_the_ranges_is_within_their_hull(void **state)
{
    (void)state;
    static const char *const texts[] = {"prefix=b&key=d", "from=a&to=bb&prefix=cc&key=a", "from=c&key=a",
                                        "prefix=&key=b"};
    struct belfry_rng rng = {.state = (uint64_t)(uintptr_t)state + 1};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct sse_ranges ranges = ranges_of(texts[i]);
        struct belfry_buf hull_key, hull_end;
        struct range hull;
        size_t n_in = 0;
        belfry_buf_init(&hull_key);
        belfry_buf_init(&hull_end);
        assert_int_equal(sse_ranges_hull(&ranges, &hull_key, &hull_end), BELFRY_OK);
        assert_true(range_read(belfry_buf_bytes(&hull_key), belfry_buf_bytes(&hull_end), &hull));
        for (int round = 0; round < 2000; round++) {
            char text[4];
            struct belfry_bytes key = {text, 1 + belfry_rng_below(&rng, 3)};
            for (size_t c = 0; c < key.len; c++)
                text[c] = "abcde"[belfry_rng_below(&rng, 5)];
            bool is_in = sse_ranges_have(&ranges, ranges.n, key);
            assert_true(!is_in || range_has(&hull, key));
            n_in += is_in;
        }
        assert_true(n_in > 0);
        belfry_buf_fini(&hull_key);
        belfry_buf_fini(&hull_end);
        sse_query_fini(&query);
    }
}

static void copy_is_of_its_own_bytes(void **state)
{
    (void)state;
    struct sse_ranges ranges = ranges_of("prefix=/a/&key=k&from=x&to=y");
    struct sse_range list[SSE_RANGES];
    char text[64], *to = text;
    assert_true(sse_ranges_bytes(&ranges) <= sizeof(text));
    struct sse_ranges copy = sse_ranges_pack(&ranges, list, &to);
    assert_int_equal(to - text, sse_ranges_bytes(&ranges));
    sse_query_fini(&query);
    assert_true(sse_ranges_have(&copy, 1, belfry_bytes_str("/a/1")));
    assert_false(sse_ranges_have(&copy, 1, belfry_bytes_str("k")));
    assert_true(sse_ranges_have(&copy, 2, belfry_bytes_str("k")));
    assert_true(sse_ranges_have(&copy, 3, belfry_bytes_str("xx")));
    assert_false(sse_ranges_have(&copy, 3, belfry_bytes_str("y")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hull_is_the_smallest_range_of_all),
        cmocka_unit_test(key_that_is_in_the_ranges_is_within_their_hull),
        cmocka_unit_test(copy_is_of_its_own_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
