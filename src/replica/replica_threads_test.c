/* src/replica/replica_threads_test.c: one thread writes and lists anew, others read. A suite of its own because it is
 * what ThreadSanitizer can judge of a replica. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <time.h>

#include <cmocka.h>

#include "replica/env.h"
#include "support/replicabed.h"

#define READERS    4
#define PATIENCE_S 60 /* for what happens at once, unless it never does */

struct reader {
    struct store *store;
    const atomic_bool *stop;
    size_t reads, older_reads;
    bool broken;
};

/* State as it is, or as it was some revisions ago, which may have been trimmed or listed anew since. */
static void read_state(struct reader *reader, int64_t rev)
{
    struct store *store = reader->store;
    struct store_page page;
    size_t rows = 0;
    struct store_read read = {.rev = rev, .max_rows = 1 + reader->reads % 10, .max_bytes = SIZE_MAX, .counted = true};
    enum belfry_err err = store->api->range(store, &read, count_row, &rows, &page);
    if (rev != 0 && (err == BELFRY_ERR_COMPACTED || err == BELFRY_ERR_AGAIN))
        return;
    if (err != BELFRY_OK || rows != read.max_rows || page.count != 10 || page.meta.revision < page.at ||
        (rev != 0 && page.at != rev))
        reader->broken = true;
    reader->older_reads += rev != 0;
}

/* Every commit keeps exactly 10 keys, and history without a gap from `oldest` on. */
static void *read_all_the_time(void *user)
{
    struct reader *reader = user;
    struct store *store = reader->store;
    while (!atomic_load(reader->stop) || reader->reads == 0) {
        struct store_meta meta;
        struct segment *segment;
        int64_t oldest;
        store->api->snapshot(store, &meta);
        read_state(reader, 0);
        read_state(reader, meta.revision - (int64_t)(reader->reads % 8));
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

static void write_and_list(struct store *store, int64_t rev)
{
    char key[16];
    for (uint64_t round = 2; round < 12; round++) {
        for (int i = 0; i < 300; i++) {
            snprintf(key, sizeof(key), "k%d", i % 10);
            storecheck_write(store, ++rev, key, "some value or other, of about a hundred bytes with what is around it");
            if (i % 10 == 0)
                trim(store, round, 30);
        }
        list_ten(store, ++rev, round);
    }
}

static void readers_and_writer_go_on_side_by_side(void **state)
{
    (void)state;
    struct replica_opts opts = usual();
    opts.history_bytes = 200000;
    struct store *store = open_with(&opts);
    atomic_bool stop = false;
    struct reader readers[READERS];
    pthread_t threads[READERS];
    size_t older_reads = 0;
    list_ten(store, 100, 1);
    for (size_t i = 0; i < READERS; i++) {
        readers[i] = (struct reader){.store = store, .stop = &stop};
        assert_int_equal(pthread_create(&threads[i], NULL, read_all_the_time, &readers[i]), 0);
    }
    write_and_list(store, 100);
    atomic_store(&stop, true);
    for (size_t i = 0; i < READERS; i++) {
        pthread_join(threads[i], NULL);
        assert_false(readers[i].broken);
        older_reads += readers[i].older_reads;
    }
    assert_true(older_reads > 10);
    replica_close(store, REPLICA_CLOSE_CLEAN);
}

/* ---- at the same time ---- */

static struct meeting {
    struct store *store;
    pthread_mutex_t mu;
    pthread_cond_t came;
    size_t inside; /* reads that have given their first row */
    bool missed;
} meeting = {.mu = PTHREAD_MUTEX_INITIALIZER, .came = PTHREAD_COND_INITIALIZER};

/* Waits for the other readers before its first row is over. */
static bool meet(struct belfry_bytes key, struct belfry_bytes kv, void *user)
{
    struct timespec until;
    (void)key, (void)kv, (void)user;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += PATIENCE_S;
    pthread_mutex_lock(&meeting.mu);
    meeting.inside++;
    pthread_cond_broadcast(&meeting.came);
    while (meeting.inside < READERS && !meeting.missed)
        meeting.missed = pthread_cond_timedwait(&meeting.came, &meeting.mu, &until) != 0;
    pthread_mutex_unlock(&meeting.mu);
    return false;
}

static void *read_once(void *user)
{
    struct store_read read = {.max_rows = 10, .max_bytes = SIZE_MAX};
    struct store_page page;
    enum belfry_err *err = user;
    *err = meeting.store->api->range(meeting.store, &read, meet, NULL, &page);
    return NULL;
}

static void readers_of_the_newest_state_do_not_wait_for_each_other(void **state)
{
    (void)state;
    struct replica_opts opts = usual();
    pthread_t threads[READERS];
    enum belfry_err errs[READERS];
    meeting.store = open_with(&opts);
    list_ten(meeting.store, 100, 1);
    for (size_t i = 0; i < READERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, read_once, &errs[i]), 0);
    for (size_t i = 0; i < READERS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(errs[i], BELFRY_OK);
    }
    assert_false(meeting.missed);
    replica_close(meeting.store, REPLICA_CLOSE_CLEAN);
}

static void *take_and_end(void *user)
{
    struct env *env = user;
    MDB_txn *txn = NULL;
    if (env_read_begin(env, &txn) == BELFRY_OK)
        env_read_end(env, txn);
    return txn;
}

/* LMDB would refuse one more than it has slots for. */
static void a_snapshot_too_many_waits_for_one_to_end(void **state)
{
    (void)state;
    struct env *env;
    MDB_txn *taken[ENV_READERS];
    pthread_t thread;
    void *got;
    assert_int_equal(env_open(dir, 1, MIB, "all", &env), ENV_FAULT_NONE);
    for (size_t i = 0; i < ENV_READERS; i++)
        assert_int_equal(env_read_begin(env, &taken[i]), BELFRY_OK);
    assert_int_equal(pthread_create(&thread, NULL, take_and_end, env), 0);
    for (size_t i = 0; i < ENV_READERS; i++)
        env_read_end(env, taken[i]);
    pthread_join(thread, &got);
    assert_non_null(got);
    env_close(env);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(readers_and_writer_go_on_side_by_side, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(readers_of_the_newest_state_do_not_wait_for_each_other, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(a_snapshot_too_many_waits_for_one_to_end, make_dir, remove_dir),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
