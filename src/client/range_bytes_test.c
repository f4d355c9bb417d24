/* src/client/range_bytes_test.c */
#include "client/range_bytes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "support/refuse.h"

#define B(text)                                                                                                        \
    {                                                                                                                  \
        (text), sizeof(text) - 1                                                                                       \
    }

static const struct row {
    struct belfry_range range;
    struct belfry_bytes key, end;
} rows[] = {
    {{B("foo"), {NULL, 0}, BELFRY_KEY}, B("foo"), {NULL, 0}},
    {{B("a\0b"), {NULL, 0}, BELFRY_KEY}, B("a\0b"), {NULL, 0}},
    {{B("foo"), {NULL, 0}, BELFRY_PREFIX}, B("foo"), B("fop")},
    {{B("a\xff"), {NULL, 0}, BELFRY_PREFIX}, B("a\xff"), B("b")},
    {{B("a\xff\xff"), {NULL, 0}, BELFRY_PREFIX}, B("a\xff\xff"), B("b")},
    {{B("\xff\xff"), {NULL, 0}, BELFRY_PREFIX}, B("\xff\xff"), B("\0")},
    {{B("a\xfe\xff"), {NULL, 0}, BELFRY_PREFIX}, B("a\xfe\xff"), B("a\xff")},
    {{B("\x7f"), {NULL, 0}, BELFRY_PREFIX}, B("\x7f"), B("\x80")},
    {{B("a\0"), {NULL, 0}, BELFRY_PREFIX}, B("a\0"), B("a\x01")},
    {{{NULL, 0}, {NULL, 0}, BELFRY_PREFIX}, B("\0"), B("\0")},
    {{{NULL, 0}, {NULL, 0}, BELFRY_FROM}, B("\0"), B("\0")},
    {{B("m"), {NULL, 0}, BELFRY_FROM}, B("m"), B("\0")},
    {{B("a"), B("b"), BELFRY_INTERVAL}, B("a"), B("b")},
    {{{NULL, 0}, B("b"), BELFRY_INTERVAL}, B("\0"), B("b")},
    {{B("a"), B("a\0"), BELFRY_INTERVAL}, B("a"), B("a\0")},
};

static void ranges_are_written_as_etcd_reads_them(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct belfry_wire_range *wire;
        assert_int_equal(belfry_range_wire(rows[i].range, &wire), BELFRY_OK);
        if (!belfry_bytes_equal(wire->key, rows[i].key) || !belfry_bytes_equal(wire->end, rows[i].end))
            fail_msg("row %zu", i);
        free(wire);
    }
}

static void what_is_no_range_is_refused(void **state)
{
    static const struct belfry_range bad[] = {
        {{NULL, 0}, {NULL, 0}, BELFRY_KEY},  {B("b"), B("a"), BELFRY_INTERVAL},
        {B("a"), B("a"), BELFRY_INTERVAL},   {{NULL, 0}, {NULL, 0}, BELFRY_INTERVAL},
        {B("a\0"), B("a"), BELFRY_INTERVAL}, {B("a"), B("b"), (enum belfry_range_kind)9},
    };
    struct belfry_wire_range *wire;
    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(belfry_range_wire(bad[i], &wire), BELFRY_ERR_INVALID);
}

static void makers_fill_the_kind(void **state)
{
    (void)state;
    assert_int_equal(belfry_key("a").kind, BELFRY_KEY);
    assert_int_equal(belfry_prefix("a").kind, BELFRY_PREFIX);
    assert_int_equal(belfry_from("a").kind, BELFRY_FROM);
    assert_int_equal(belfry_interval("a", "b").kind, BELFRY_INTERVAL);
    assert_int_equal(belfry_interval("a", "bc").end.len, 2);
}

static void keys_of_bytes_may_hold_zeroes(void **state)
{
    static const unsigned char id[] = {0, 1, 0xff, 0};
    struct belfry_range key = belfry_key_bytes(id, sizeof(id)), prefix = belfry_prefix_bytes(id, 3);
    struct belfry_wire_range *wire;
    (void)state;
    assert_int_equal(key.kind, BELFRY_KEY);
    assert_int_equal(belfry_range_wire(key, &wire), BELFRY_OK);
    assert_int_equal(wire->key.len, sizeof(id));
    assert_memory_equal(wire->key.data, id, sizeof(id));
    assert_int_equal(wire->end.len, 0);
    free(wire);
    assert_int_equal(prefix.kind, BELFRY_PREFIX);
    assert_int_equal(belfry_range_wire(prefix, &wire), BELFRY_OK);
    assert_int_equal(wire->key.len, 3);
    assert_int_equal(wire->end.len, 2);
    assert_memory_equal(wire->end.data, "\0\2", 2);
    free(wire);
    assert_int_equal(belfry_range_wire(belfry_key_bytes("", 0), &wire), BELFRY_ERR_INVALID);
}

static enum belfry_err scenario(void)
{
    struct belfry_wire_range *wire;
    enum belfry_err err = belfry_range_wire(belfry_prefix("abc"), &wire);
    if (err == BELFRY_OK)
        free(wire);
    return err;
}

static void refused_memory_leaks_nothing(void **state)
{
    (void)state;
    assert_int_equal(refuse_sweep(scenario), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges_are_written_as_etcd_reads_them),
        cmocka_unit_test(what_is_no_range_is_refused),
        cmocka_unit_test(makers_fill_the_kind),
        cmocka_unit_test(keys_of_bytes_may_hold_zeroes),
        cmocka_unit_test(refused_memory_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
