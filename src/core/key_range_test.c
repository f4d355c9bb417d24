/* src/core/key_range_test.c */
#include "core/key_range.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/buf.h"
#include "support/refuse.h"

#define BYTES(literal) belfry_bytes_of(literal, sizeof(literal) - 1)

static struct range read(struct belfry_bytes key, struct belfry_bytes end)
{
    struct range range;
    assert_true(range_read(key, end, &range));
    return range;
}

static void no_end_is_one_key(void **state)
{
    (void)state;
    struct range range = read(BYTES("foo"), BYTES(""));
    assert_int_equal(range.kind, RANGE_KEY);
    assert_true(range_has(&range, BYTES("foo")));
    assert_false(range_has(&range, BYTES("foo1")));
}

static void empty_key_is_the_zero_byte(void **state)
{
    (void)state;
    struct range range = read(BYTES(""), BYTES(""));
    assert_int_equal(range.kind, RANGE_KEY);
    assert_true(range_has(&range, BYTES("\0")));
    range = read(BYTES(""), BYTES("\0"));
    assert_int_equal(range.kind, RANGE_PREFIX);
    assert_true(range_has(&range, BYTES("anything")));
}

static void end_of_a_prefix_makes_a_prefix(void **state)
{
    (void)state;
    struct range range = read(BYTES("foo"), BYTES("fop"));
    assert_int_equal(range.kind, RANGE_PREFIX);
    assert_true(range_has(&range, BYTES("foo\xff\xff")));
    assert_false(range_has(&range, BYTES("fop")));
    range = read(BYTES("fo\xff"), BYTES("fp"));
    assert_int_equal(range.kind, RANGE_PREFIX);
    assert_true(range_has(&range, BYTES("fo\xff\x01")));
    assert_false(range_has(&range, BYTES("fo\xfe")));
    range = read(BYTES("a"), BYTES("b\0"));
    assert_int_equal(range.kind, RANGE_SPAN);
    assert_true(range_has(&range, BYTES("b")));
}

static void zero_byte_as_end_is_open(void **state)
{
    (void)state;
    struct range range = read(BYTES("m"), BYTES("\0"));
    assert_int_equal(range.kind, RANGE_SPAN);
    assert_true(range_has(&range, BYTES("\xff\xff")));
    assert_true(range_has(&range, BYTES("m")));
    assert_false(range_has(&range, BYTES("l")));
}

static void end_at_or_before_the_key_is_empty(void **state)
{
    (void)state;
    struct range range;
    assert_false(range_read(BYTES("b"), BYTES("b"), &range));
    assert_false(range_read(BYTES("b"), BYTES("a"), &range));
    assert_false(range_read(BYTES("\xff"), BYTES("\xff"), &range));
}

static bool within(const char *key, size_t key_len, const char *end, size_t end_len, const char *prefix)
{
    struct range range;
    assert_true(range_read(belfry_bytes_of(key, key_len), belfry_bytes_of(end, end_len), &range));
    return range_within(&range, belfry_bytes_str(prefix));
}

static void range_is_within_a_prefix_when_all_its_keys_are(void **state)
{
    (void)state;
    assert_true(within("/a/1", 4, "", 0, "/a/"));
    assert_false(within("/b/1", 4, "", 0, "/a/"));
    assert_true(within("/a/", 3, "/a0", 3, "/a/"));
    assert_true(within("/a/x", 4, "/a/y", 4, "/a/"));
    assert_false(within("/", 1, "0", 1, "/a/"));
    assert_true(within("/a/1", 4, "/a/5", 4, "/a/"));
    assert_true(within("/a/1", 4, "/a0", 3, "/a/"));
    assert_false(within("/a/1", 4, "/a1", 3, "/a/"));
    assert_false(within("/a/1", 4, "\0", 1, "/a/"));
    assert_false(within("\0", 1, "\0", 1, "/a/"));
    assert_true(within("\0", 1, "\0", 1, ""));
    assert_true(within("x", 1, "", 0, ""));
}

static void assert_end(struct belfry_bytes prefix, struct belfry_bytes end)
{
    struct belfry_buf out;
    belfry_buf_init(&out);
    assert_int_equal(range_prefix_end(prefix, &out), BELFRY_OK);
    assert_true(belfry_bytes_equal(belfry_buf_bytes(&out), end));
    belfry_buf_fini(&out);
}

static void a_prefix_ends_at_the_next_key_of_its_length(void **state)
{
    (void)state;
    assert_end(BYTES("/a/"), BYTES("/a0"));
    assert_end(BYTES("a\xff"), BYTES("b"));
    assert_end(BYTES("\xff\xff"), BYTES(""));
    assert_end(BYTES(""), BYTES(""));
}

static enum belfry_err end_once(void)
{
    struct belfry_buf out;
    belfry_buf_init(&out);
    enum belfry_err err = range_prefix_end(BYTES("/a/"), &out);
    belfry_buf_fini(&out);
    return err;
}

static void no_memory_for_an_end_is_an_error(void **state)
{
    (void)state;
    assert_true(refuse_sweep(end_once) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(range_is_within_a_prefix_when_all_its_keys_are),
        cmocka_unit_test(a_prefix_ends_at_the_next_key_of_its_length),
        cmocka_unit_test(no_memory_for_an_end_is_an_error),
        cmocka_unit_test(no_end_is_one_key),
        cmocka_unit_test(empty_key_is_the_zero_byte),
        cmocka_unit_test(end_of_a_prefix_makes_a_prefix),
        cmocka_unit_test(zero_byte_as_end_is_open),
        cmocka_unit_test(end_at_or_before_the_key_is_empty),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
