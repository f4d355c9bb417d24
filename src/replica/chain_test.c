/* src/replica/chain_test.c: rows of history, whole and with a link missing, by way of LMDB alone. */
#include "replica/chain.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define N 6

struct bed {
    char dir[64];
    struct env *env;
    MDB_txn *txn;
    MDB_cursor *cursor;
    struct env_now now;
    struct chain chain;
};

static MDB_val at_val(int64_t rev, uint8_t room[ROWFORM_AT])
{
    rowform_at(rev, 0, room);
    return (MDB_val){.mv_size = ROWFORM_AT, .mv_data = room};
}

/* Revisions 2, 4, ..., 2N, one row each. */
static void append(struct bed *bed, int64_t rev)
{
    uint8_t at[ROWFORM_AT], value[64];
    struct rowform_event row = {
        .before = bed->now.newest, .event = belfry_bytes_str("event"), .key = belfry_bytes_of("", 0)};
    size_t size = rowform_event_size(&row);
    MDB_val key = at_val(rev, at), val = {.mv_size = size + ROWFORM_CHECK, .mv_data = value};
    rowform_event_write(&row, value);
    bed->now.newest = rowform_seal(bed->env->salt, ROWFORM_HISTORY, key, value, size);
    assert_int_equal(mdb_put(bed->txn, bed->env->history, &key, &val, 0), 0);
}

static void remove_row(struct bed *bed, int64_t rev)
{
    uint8_t at[ROWFORM_AT];
    MDB_val key = at_val(rev, at);
    assert_int_equal(mdb_del(bed->txn, bed->env->history, &key, NULL), 0);
}

static void open_bed(struct bed *bed)
{
    *bed = (struct bed){.dir = "/tmp/belfry-chain-XXXXXX"};
    assert_non_null(mkdtemp(bed->dir));
    assert_int_equal(env_open(bed->dir, 1, 1 << 20, "all", &bed->env), ENV_FAULT_NONE);
    assert_int_equal(mdb_txn_begin(bed->env->mdb, NULL, 0, &bed->txn), 0);
    for (int64_t i = 1; i <= N; i++)
        append(bed, 2 * i);
    assert_int_equal(mdb_cursor_open(bed->txn, bed->env->history, &bed->cursor), 0);
    chain_init(&bed->chain, bed->env, &bed->now, bed->cursor);
}

static void close_bed(struct bed *bed)
{
    char command[128];
    mdb_cursor_close(bed->cursor);
    mdb_txn_abort(bed->txn);
    env_close(bed->env);
    snprintf(command, sizeof(command), "rm -rf '%s'", bed->dir);
    assert_int_equal(system(command), 0);
}

static int seek(struct bed *bed, int64_t rev)
{
    uint8_t at[ROWFORM_AT];
    rowform_at(rev, 0, at);
    chain_seek(&bed->chain, at);
    return bed->chain.rc;
}

/* Forward from the first row at or behind `rev`: how many there are; -1: damaged. */
static int count_from(struct bed *bed, int64_t rev)
{
    int n = 0;
    for (seek(bed, rev); bed->chain.rc == MDB_SUCCESS; chain_next(&bed->chain))
        n++;
    return chain_is_damaged(&bed->chain) ? -1 : n;
}

static int count_back(struct bed *bed)
{
    int n = 0;
    for (chain_last(&bed->chain); bed->chain.rc == MDB_SUCCESS; chain_prev(&bed->chain))
        n++;
    return chain_is_damaged(&bed->chain) ? -1 : n;
}

static void whole_chain_is_read_from_anywhere_in_both_directions(void **state)
{
    (void)state;
    struct bed bed;
    open_bed(&bed);
    assert_int_equal(count_from(&bed, 0), N);
    assert_int_equal(count_from(&bed, 5), N - 2); /* between two */
    assert_int_equal(count_from(&bed, 2 * N + 1), 0);
    assert_int_equal(count_back(&bed), N);
    chain_first(&bed.chain);
    assert_int_equal(rowform_rev(bed.chain.at), 2);
    close_bed(&bed);
}

static void missing_row_is_noticed_wherever_one_reads_over_it(void **state)
{
    (void)state;
    for (int64_t gone = 1; gone <= N; gone++) {
        struct bed bed;
        open_bed(&bed);
        remove_row(&bed, 2 * gone);
        assert_int_equal(count_from(&bed, 0), -1);
        assert_int_equal(count_from(&bed, 2 * gone), -1);
        assert_int_equal(count_back(&bed), -1);
        if (gone < N)
            assert_int_equal(count_from(&bed, 2 * gone + 3), N - gone - 1); /* behind it everything is there */
        close_bed(&bed);
    }
}

static void missing_end_is_noticed_by_what_meta_says(void **state)
{
    (void)state;
    struct bed bed;
    open_bed(&bed);
    remove_row(&bed, 2);
    chain_first(&bed.chain);
    assert_int_equal(bed.chain.rc, MDB_CORRUPTED);
    remove_row(&bed, 2 * N);
    chain_last(&bed.chain);
    assert_int_equal(bed.chain.rc, MDB_CORRUPTED);
    for (int64_t i = 2; i < N; i++)
        remove_row(&bed, 2 * i);
    assert_int_equal(seek(&bed, 0), MDB_CORRUPTED); /* nothing at all is there, and something should be */
    close_bed(&bed);
}

static void trimmed_rows_are_not_missed(void **state)
{
    (void)state;
    struct bed bed;
    open_bed(&bed);
    chain_first(&bed.chain);
    bed.now.trimmed = bed.chain.check;
    remove_row(&bed, 2);
    assert_int_equal(count_from(&bed, 0), N - 1);
    assert_int_equal(count_back(&bed), N - 1);
    close_bed(&bed);
}

static void row_of_another_place_or_table_is_damage(void **state)
{
    (void)state;
    struct bed bed;
    open_bed(&bed);
    uint8_t at[ROWFORM_AT], copy[128];
    MDB_val key = at_val(4, at), val;
    assert_int_equal(mdb_get(bed.txn, bed.env->history, &key, &val), 0);
    memcpy(copy, val.mv_data, val.mv_size);
    val.mv_data = copy;
    key = at_val(6, at);
    assert_int_equal(mdb_put(bed.txn, bed.env->history, &key, &val, 0), 0);
    assert_int_equal(count_from(&bed, 0), -1);
    assert_int_equal(count_from(&bed, 6), -1);
    close_bed(&bed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_chain_is_read_from_anywhere_in_both_directions),
        cmocka_unit_test(missing_row_is_noticed_wherever_one_reads_over_it),
        cmocka_unit_test(missing_end_is_noticed_by_what_meta_says),
        cmocka_unit_test(trimmed_rows_are_not_missed),
        cmocka_unit_test(row_of_another_place_or_table_is_damage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
