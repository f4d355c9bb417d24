/* src/base/blob_test.c */
#include "base/blob.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "support/refuse.h"

static void copy_is_independent_of_its_source(void **state)
{
    (void)state;
    char source[] = "value";
    struct belfry_blob *blob = NULL;
    assert_int_equal(belfry_blob_copy(belfry_bytes_str(source), &blob), BELFRY_OK);
    source[0] = 'X';
    assert_int_equal(belfry_blob_len(blob), 5);
    assert_memory_equal(belfry_blob_bytes(blob).data, "value", 5);
    belfry_blob_unref(blob);
}

static void empty_blob_is_a_blob(void **state)
{
    (void)state;
    struct belfry_blob *blob = NULL;
    assert_int_equal(belfry_blob_copy((struct belfry_bytes){0}, &blob), BELFRY_OK);
    assert_non_null(blob);
    assert_int_equal(belfry_blob_len(blob), 0);
    belfry_blob_unref(blob);
    belfry_blob_unref(NULL);
}

static void last_reference_frees(void **state)
{
    (void)state;
    size_t before = refuse_held();
    struct belfry_blob *blob = NULL;
    assert_int_equal(belfry_blob_copy(belfry_bytes_str("x"), &blob), BELFRY_OK);
    assert_ptr_equal(belfry_blob_ref(blob), blob);
    belfry_blob_unref(blob);
    assert_int_equal(refuse_held(), before + 1);
    assert_memory_equal(belfry_blob_bytes(blob).data, "x", 1);
    belfry_blob_unref(blob);
    assert_int_equal(refuse_held(), before);
}

static void resize_keeps_the_first_bytes(void **state)
{
    (void)state;
    struct belfry_blob *blob = NULL;
    assert_int_equal(belfry_blob_alloc(4, &blob), BELFRY_OK);
    memcpy(belfry_blob_edit(blob), "abcd", 4);
    assert_int_equal(belfry_blob_resize(&blob, 100000), BELFRY_OK);
    assert_int_equal(belfry_blob_len(blob), 100000);
    assert_memory_equal(belfry_blob_edit(blob), "abcd", 4);
    memset(belfry_blob_edit(blob) + 4, 'x', 100000 - 4);
    assert_int_equal(belfry_blob_resize(&blob, 2), BELFRY_OK);
    assert_int_equal(belfry_blob_len(blob), 2);
    assert_memory_equal(belfry_blob_edit(blob), "ab", 2);
    belfry_blob_unref(blob);
}

static void impossible_length_is_out_of_memory(void **state)
{
    (void)state;
    struct belfry_blob *blob = NULL;
    assert_int_equal(belfry_blob_alloc(SIZE_MAX, &blob), BELFRY_ERR_NOMEM);
    assert_null(blob);
    assert_int_equal(belfry_blob_copy(belfry_bytes_str("keep"), &blob), BELFRY_OK);
    assert_int_equal(belfry_blob_resize(&blob, SIZE_MAX), BELFRY_ERR_NOMEM);
    assert_memory_equal(belfry_blob_bytes(blob).data, "keep", 4);
    belfry_blob_unref(blob);
}

#define N_THREADS 4
#define N_TURNS   20000

static void *take_and_drop(void *arg)
{
    struct belfry_blob *blob = arg;
    for (int i = 0; i < N_TURNS; i++)
        belfry_blob_unref(belfry_blob_ref(blob));
    belfry_blob_unref(blob);
    return NULL;
}

static void threads_may_share_and_any_of_them_frees(void **state)
{
    (void)state;
    size_t before = refuse_held();
    struct belfry_blob *blob = NULL;
    assert_int_equal(belfry_blob_copy(belfry_bytes_str("shared"), &blob), BELFRY_OK);
    pthread_t threads[N_THREADS];
    for (int i = 0; i < N_THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, take_and_drop, belfry_blob_ref(blob)), 0);
    belfry_blob_unref(blob);
    for (int i = 0; i < N_THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(refuse_held(), before);
}

static enum belfry_err life_of_a_blob(void)
{
    struct belfry_blob *blob = NULL;
    enum belfry_err err = belfry_blob_copy(belfry_bytes_str("value"), &blob);
    if (err == BELFRY_OK) {
        err = belfry_blob_resize(&blob, 64);
        assert_memory_equal(belfry_blob_bytes(blob).data, "value", 5);
    }
    belfry_blob_unref(blob);
    return err;
}

static void refused_memory_is_reported_and_leaks_nothing(void **state)
{
    (void)state;
    assert_int_equal(refuse_sweep(life_of_a_blob), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copy_is_independent_of_its_source),
        cmocka_unit_test(empty_blob_is_a_blob),
        cmocka_unit_test(last_reference_frees),
        cmocka_unit_test(resize_keeps_the_first_bytes),
        cmocka_unit_test(impossible_length_is_out_of_memory),
        cmocka_unit_test(threads_may_share_and_any_of_them_frees),
        cmocka_unit_test(refused_memory_is_reported_and_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
