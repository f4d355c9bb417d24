/* src/daemon/tls_memory_test.c */
#include "daemon/tls_memory.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/rng.h"
#include "support/refuse.h"

#define MANY (TLS_MEMORY_BLOCKS + 10)

static void *take(size_t size)
{
    void *block = tls_memory_alloc(size, __FILE__, __LINE__);
    assert_non_null(block);
    return block;
}

static void drop(void *block)
{
    tls_memory_free(block, __FILE__, __LINE__);
}

static int reserve(void **state)
{
    (void)state;
    drop(take(TLS_MEMORY_LEAST)); /* without the range it is the heap's */
    tls_memory_reserve();
    return 0;
}

static void large_buffers_lie_in_the_range_and_others_do_not(void **state)
{
    (void)state;
    static const struct {
        size_t size;
        bool has;
    } cases[] = {{1, false},
                 {TLS_MEMORY_LEAST - 1, false},
                 {TLS_MEMORY_LEAST, true},
                 {TLS_MEMORY_BLOCK, true},
                 {TLS_MEMORY_BLOCK + 1, false}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char *block = take(cases[i].size);
        memset(block, 'x', cases[i].size);
        assert_int_equal(tls_memory_has(block), cases[i].has);
        drop(block);
    }
    assert_null(tls_memory_alloc(0, __FILE__, __LINE__));
    drop(NULL);
    assert_int_equal(refuse_held(), 0);
}

static void the_next_record_gets_the_same_block(void **state)
{
    (void)state;
    void *first = take(17000);
    drop(first);
    void *second = take(16800);
    assert_ptr_equal(first, second);
    drop(second);
}

static void when_the_range_is_used_up_the_heap_serves(void **state)
{
    (void)state;
    static char *blocks[MANY];
    size_t n_heap = 0;
    for (size_t i = 0; i < MANY; i++) {
        blocks[i] = take(TLS_MEMORY_BLOCK);
        memset(blocks[i], (int)(i % 251), TLS_MEMORY_BLOCK);
        n_heap += !tls_memory_has(blocks[i]);
    }
    assert_int_equal(n_heap, MANY - TLS_MEMORY_BLOCKS);
    for (size_t i = 0; i < MANY; i++) { /* none overlaps another */
        assert_int_equal((unsigned char)blocks[i][0], i % 251);
        assert_int_equal((unsigned char)blocks[i][TLS_MEMORY_BLOCK - 1], i % 251);
        drop(blocks[i]);
    }
    assert_int_equal(refuse_held(), 0);
    size_t n_blank = 0;
    for (size_t i = 0; i < TLS_MEMORY_BLOCKS; i++) { /* those that the thread does not keep were given back */
        blocks[i] = take(TLS_MEMORY_BLOCK);
        assert_true(tls_memory_has(blocks[i]));
        n_blank += blocks[i][TLS_MEMORY_BLOCK / 2] == 0;
    }
    assert_true(n_blank >= TLS_MEMORY_BLOCKS - TLS_MEMORY_KEPT - TLS_MEMORY_BLOCKS / 251 - 1);
    for (size_t i = 0; i < TLS_MEMORY_BLOCKS; i++)
        drop(blocks[i]);
}

static void a_block_that_grows_keeps_its_bytes(void **state)
{
    (void)state;
    char *block = tls_memory_realloc(NULL, 20000, __FILE__, __LINE__);
    assert_true(tls_memory_has(block));
    memset(block, 'k', 20000);
    char *same = tls_memory_realloc(block, 22000, __FILE__, __LINE__);
    assert_ptr_equal(same, block);
    refuse_begin(0);
    assert_null(tls_memory_realloc(same, 100000, __FILE__, __LINE__)); /* and it is still there */
    assert_true(refuse_end());
    char *larger = tls_memory_realloc(same, 100000, __FILE__, __LINE__);
    assert_false(tls_memory_has(larger));
    assert_int_equal(larger[0], 'k');
    assert_int_equal(larger[19999], 'k');
    larger = tls_memory_realloc(larger, 200000, __FILE__, __LINE__);
    assert_int_equal(larger[19999], 'k');
    assert_null(tls_memory_realloc(larger, 0, __FILE__, __LINE__));
    assert_int_equal(refuse_held(), 0);
}

/* Threads take, fill, look at and free blocks; a block that two have is found by its bytes. */
static void *hammer(void *seed)
{
    struct belfry_rng rng = {*(uint64_t *)seed};
    unsigned char *mine[40] = {NULL};
    unsigned char marks[40] = {0};
    for (int i = 0; i < 20000; i++) {
        size_t at = belfry_rng_below(&rng, 40);
        if (mine[at] == NULL) {
            mine[at] = take(TLS_MEMORY_LEAST + belfry_rng_below(&rng, 8000));
            marks[at] = (unsigned char)belfry_rng_below(&rng, 256);
            memset(mine[at], marks[at], 64);
            continue;
        }
        for (int b = 0; b < 64; b++)
            if (mine[at][b] != marks[at])
                abort();
        drop(mine[at]);
        mine[at] = NULL;
    }
    for (size_t at = 0; at < 40; at++)
        drop(mine[at]);
    return NULL;
}

static void threads_share_no_block(void **state)
{
    (void)state;
    const char *given = getenv("BELFRY_SEED");
    uint64_t seed = given != NULL ? strtoull(given, NULL, 0) : (uint64_t)time(NULL) * 2654435761u;
    print_message("BELFRY_SEED=%llu\n", (unsigned long long)seed);
    pthread_t threads[4];
    uint64_t seeds[4];
    for (uint64_t i = 0; i < 4; i++) {
        seeds[i] = seed + i;
        assert_int_equal(pthread_create(&threads[i], NULL, hammer, &seeds[i]), 0);
    }
    for (size_t i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(refuse_held(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(large_buffers_lie_in_the_range_and_others_do_not),
        cmocka_unit_test(the_next_record_gets_the_same_block),
        cmocka_unit_test(when_the_range_is_used_up_the_heap_serves),
        cmocka_unit_test(a_block_that_grows_keeps_its_bytes),
        cmocka_unit_test(threads_share_no_block), /* the last: its threads end with the blocks they keep */
    };
    return cmocka_run_group_tests(tests, reserve, NULL);
}
