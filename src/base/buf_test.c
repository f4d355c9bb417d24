/* src/base/buf_test.c */
#include "base/buf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/rng.h"
#include "support/refuse.h"

#define SEED 7u

static void empty_buffer_has_no_bytes(void **state)
{
    (void)state;
    struct belfry_buf buf;
    belfry_buf_init(&buf);
    assert_int_equal(belfry_buf_len(&buf), 0);
    assert_int_equal(belfry_buf_bytes(&buf).len, 0);
    assert_int_equal(belfry_buf_append(&buf, NULL, 0), BELFRY_OK);
    belfry_buf_take(&buf, 0);
    belfry_buf_fini(&buf);
    belfry_buf_fini(&buf); /* as empty as before */
}

static void what_goes_in_comes_out_in_order(void **state)
{
    (void)state;
    print_message("seed %u\n", SEED);
    struct belfry_rng rng = {SEED};
    struct belfry_buf buf;
    belfry_buf_init(&buf);
    uint8_t in = 0, out = 0;
    for (int i = 0; i < 20000; i++) {
        uint8_t piece[600];
        size_t len = belfry_rng_below(&rng, sizeof(piece));
        for (size_t k = 0; k < len; k++)
            piece[k] = in++;
        assert_int_equal(belfry_buf_append(&buf, piece, len), BELFRY_OK);
        size_t take = belfry_rng_below(&rng, belfry_buf_len(&buf) + 1);
        const char *data = belfry_buf_bytes(&buf).data;
        for (size_t k = 0; k < take; k++)
            assert_int_equal((uint8_t)data[k], out++);
        belfry_buf_take(&buf, take);
    }
    assert_int_equal((uint8_t)(in - out), (uint8_t)belfry_buf_len(&buf));
    belfry_buf_fini(&buf);
}

static void reserved_room_counts_only_once_grown(void **state)
{
    (void)state;
    struct belfry_buf buf;
    belfry_buf_init(&buf);
    uint8_t *to = NULL;
    assert_int_equal(belfry_buf_reserve(&buf, 1000, &to), BELFRY_OK);
    memset(to, 'x', 1000);
    assert_int_equal(belfry_buf_len(&buf), 0);
    belfry_buf_grown(&buf, 3);
    assert_int_equal(belfry_buf_len(&buf), 3);
    assert_memory_equal(belfry_buf_bytes(&buf).data, "xxx", 3);
    assert_int_equal(belfry_buf_reserve(&buf, 0, &to), BELFRY_OK);
    assert_ptr_equal(to, buf.data + 3);
    belfry_buf_fini(&buf);
}

static void taking_all_keeps_the_storage(void **state)
{
    (void)state;
    struct belfry_buf buf;
    belfry_buf_init(&buf);
    assert_int_equal(belfry_buf_append(&buf, "abc", 3), BELFRY_OK);
    const uint8_t *data = buf.data;
    belfry_buf_take(&buf, 3);
    assert_int_equal(belfry_buf_append(&buf, "de", 2), BELFRY_OK);
    assert_ptr_equal(belfry_buf_bytes(&buf).data, (const char *)data);
    belfry_buf_fini(&buf);
}

static void nearly_full_buffer_is_not_copied_for_every_append(void **state)
{
    (void)state;
    struct belfry_buf buf;
    belfry_buf_init(&buf);
    uint8_t fill[255] = {0};
    assert_int_equal(belfry_buf_append(&buf, fill, sizeof(fill)), BELFRY_OK);
    int copied = 0;
    for (int i = 0; i < 10000; i++) {
        size_t start = buf.start + 1;
        belfry_buf_take(&buf, 1);
        assert_int_equal(belfry_buf_append(&buf, "x", 1), BELFRY_OK);
        copied += buf.start != start; /* the live bytes went back to the beginning */
    }
    assert_in_range(copied, 1, 100);
    assert_in_range(buf.cap, 255, 1024); /* and a steady length needs no more and more room */
    belfry_buf_fini(&buf);
}

static void growth_is_what_an_append_takes(void **state)
{
    (void)state;
    struct belfry_buf buf;
    struct belfry_rng rng = {7};
    static const char bytes[5000];
    belfry_buf_init(&buf);
    for (int i = 0; i < 2000; i++) {
        size_t len = (size_t)belfry_rng_below(&rng, i % 50 == 0 ? sizeof(bytes) : 200), cap = buf.cap;
        size_t growth = belfry_buf_growth(&buf, len);
        assert_int_equal(belfry_buf_append(&buf, bytes, len), BELFRY_OK);
        assert_int_equal(buf.cap - cap, growth);
        belfry_buf_take(&buf, (size_t)belfry_rng_below(&rng, belfry_buf_len(&buf) + 1));
    }
    belfry_buf_fini(&buf);
}

static void impossible_length_is_out_of_memory(void **state)
{
    (void)state;
    struct belfry_buf buf;
    belfry_buf_init(&buf);
    uint8_t *to = NULL;
    assert_int_equal(belfry_buf_append(&buf, "abc", 3), BELFRY_OK);
    assert_int_equal(belfry_buf_reserve(&buf, SIZE_MAX, &to), BELFRY_ERR_NOMEM);
    assert_null(to);
    assert_memory_equal(belfry_buf_bytes(&buf).data, "abc", 3);
    belfry_buf_fini(&buf);
}

static enum belfry_err fill_a_buffer(void)
{
    struct belfry_buf buf;
    belfry_buf_init(&buf);
    enum belfry_err err = BELFRY_OK;
    uint8_t piece[100] = {1, 2, 3};
    for (size_t i = 0; i < 50 && err == BELFRY_OK; i++) {
        err = belfry_buf_append(&buf, piece, sizeof(piece));
        assert_int_equal(belfry_buf_len(&buf), (err == BELFRY_OK ? i + 1 : i) * sizeof(piece));
    }
    belfry_buf_fini(&buf);
    return err;
}

static void refused_memory_leaves_the_buffer_as_it_was(void **state)
{
    (void)state;
    assert_in_range(refuse_sweep(fill_a_buffer), 3, 10);
}

static void reserving_nothing_in_an_empty_buffer_gives_a_place(void **state)
{
    (void)state;
    struct belfry_buf buf;
    uint8_t *at = NULL;
    belfry_buf_init(&buf);
    assert_int_equal(belfry_buf_reserve(&buf, 0, &at), BELFRY_OK);
    assert_non_null(at);
    assert_int_equal(belfry_buf_len(&buf), 0);
    belfry_buf_fini(&buf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reserving_nothing_in_an_empty_buffer_gives_a_place),
        cmocka_unit_test(empty_buffer_has_no_bytes),
        cmocka_unit_test(what_goes_in_comes_out_in_order),
        cmocka_unit_test(reserved_room_counts_only_once_grown),
        cmocka_unit_test(taking_all_keeps_the_storage),
        cmocka_unit_test(nearly_full_buffer_is_not_copied_for_every_append),
        cmocka_unit_test(growth_is_what_an_append_takes),
        cmocka_unit_test(impossible_length_is_out_of_memory),
        cmocka_unit_test(refused_memory_leaves_the_buffer_as_it_was),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
