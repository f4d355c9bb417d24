/* src/replica/replica_threads_test.c: one thread writes and lists anew, another reads. A suite of its own because it is
 * what ThreadSanitizer can judge of a replica. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "support/replicabed.h"

struct reader {
    struct store *store;
    atomic_bool stop;
    size_t reads;
    bool broken;
};

/* Every commit keeps exactly 10 keys, and history without a gap from `oldest` on. */
static void *read_all_the_time(void *user)
{
    struct reader *reader = user;
    struct store *store = reader->store;
    while (!atomic_load(&reader->stop) || reader->reads == 0) {
        struct store_meta meta;
        struct segment *segment;
        size_t rows = 0;
        int64_t at, oldest;
        bool more;
        struct store_read read = {.max_rows = 100, .max_bytes = SIZE_MAX};
        store->api->snapshot(store, &meta);
        if (store->api->range(store, &read, count_row, &rows, &at, &more) != BELFRY_OK || rows != 10)
            reader->broken = true;
        enum belfry_err err = store->api->history(store, meta.past, meta.oldest, 100000, &segment, &oldest);
        if (err == BELFRY_OK) {
            for (size_t i = 0; i < segment->n; i++)
                reader->broken = reader->broken || segment->batches[i]->rev != meta.oldest + (int64_t)i;
            segment_unref(segment);
        } else if (err != BELFRY_ERR_AGAIN && err != BELFRY_ERR_NOT_FOUND && err != BELFRY_ERR_CANCELED) {
            reader->broken = true;
        }
        reader->reads++;
    }
    return NULL;
}

static void list_ten(struct store *store, int64_t rev, uint64_t past)
{
    char key[16];
    struct belfry_wire_header header = {.revision = rev};
    assert_int_equal(store->api->fresh(store), BELFRY_OK);
    for (int i = 0; i < 10; i++) {
        snprintf(key, sizeof(key), "k%d", i);
        put_fresh(store, key, rev);
    }
    assert_int_equal(store->api->adopt(store, rev, &header, past), BELFRY_OK);
}

static void reader_and_writer_go_on_side_by_side(void **state)
{
    (void)state;
    struct replica_opts opts = usual();
    opts.history_bytes = 200000;
    struct reader reader = {.store = open_with(&opts)};
    struct store *store = reader.store;
    char key[16];
    int64_t rev = 100;
    list_ten(store, rev, 1);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, read_all_the_time, &reader), 0);
    for (uint64_t round = 2; round < 12; round++) {
        for (int i = 0; i < 300; i++) {
            snprintf(key, sizeof(key), "k%d", i % 10);
            storecheck_write(store, ++rev, key, "some value or other, of about a hundred bytes with what is around it");
            if (i % 10 == 0)
                trim(store, round, 30);
        }
        list_ten(store, ++rev, round);
    }
    atomic_store(&reader.stop, true);
    pthread_join(thread, NULL);
    assert_false(reader.broken);
    assert_true(reader.reads > 10);
    replica_close(store, REPLICA_CLOSE_CLEAN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(reader_and_writer_go_on_side_by_side, make_dir, remove_dir),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
