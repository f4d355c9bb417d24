/* src/replica/mdbfile_test.c: files that LMDB made, as they are and damaged in every way that one byte can be. */
#include "replica/mdbfile.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <lmdb.h>

#include "base/rng.h"

#define N_ROWS    3000
#define BIG_BYTES 9000
#define PAGE      4096

static char dir[128], path[160];
static uint8_t *whole; /* the file as LMDB left it */
static size_t whole_bytes;

/* ---- a file with two tables, large values, and pages that became free ---- */

static void put(MDB_txn *txn, MDB_dbi dbi, unsigned i, size_t len)
{
    char key[32], value[BIG_BYTES];
    memset(value, 'a' + (int)(i % 26), len);
    MDB_val k = {.mv_size = (size_t)sprintf(key, "key-%06u", i), .mv_data = key},
            v = {.mv_size = len, .mv_data = value};
    assert_int_equal(mdb_put(txn, dbi, &k, &v, 0), 0);
}

static void write_rows(MDB_env *env, unsigned round)
{
    MDB_txn *txn;
    MDB_dbi state, history;
    assert_int_equal(mdb_txn_begin(env, NULL, 0, &txn), 0);
    assert_int_equal(mdb_dbi_open(txn, "state", MDB_CREATE, &state), 0);
    assert_int_equal(mdb_dbi_open(txn, "history", MDB_CREATE, &history), 0);
    for (unsigned i = 0; i < N_ROWS; i++) {
        put(txn, state, i, i % 100 == 0 ? BIG_BYTES : 40 + i % 60);
        put(txn, history, i + N_ROWS * round, 50);
    }
    assert_int_equal(mdb_txn_commit(txn), 0);
}

static void read_whole(void)
{
    FILE *file = fopen(path, "rb");
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    whole_bytes = (size_t)st.st_size;
    whole = malloc(whole_bytes);
    assert_int_equal(fread(whole, 1, whole_bytes, file), whole_bytes);
    fclose(file);
}

static int make_file(void **state)
{
    (void)state;
    MDB_env *env;
    snprintf(dir, sizeof(dir), "/tmp/belfry-mdbfile-XXXXXX");
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/data.mdb", dir);
    assert_int_equal(mdb_env_create(&env), 0);
    mdb_env_set_maxdbs(env, 4);
    mdb_env_set_mapsize(env, (size_t)64 << 20);
    assert_int_equal(mdb_env_open(env, dir, MDB_NOSYNC, 0600), 0);
    for (unsigned round = 0; round < 3; round++)
        write_rows(env, round);
    mdb_env_close(env);
    read_whole();
    return 0;
}

static int remove_file(void **state)
{
    (void)state;
    char command[160];
    free(whole);
    snprintf(command, sizeof(command), "rm -rf '%s'", dir);
    return system(command);
}

static void write_file(const uint8_t *bytes, size_t len)
{
    FILE *file = fopen(path, "wb");
    assert_int_equal(fwrite(bytes, 1, len, file), len);
    fclose(file);
}

/* ---- reading it ---- */

static bool count_row(struct belfry_bytes key, struct belfry_bytes value, void *user)
{
    volatile char last = '\0';
    if (value.len > 0)
        last = value.data[value.len - 1]; /* it can be read to its end */
    (void)last;
    (void)key;
    (*(size_t *)user)++;
    return true;
}

static enum belfry_err read_all(size_t *rows)
{
    struct mdbfile file;
    *rows = 0;
    enum belfry_err err = mdbfile_open(&file, path);
    if (err != BELFRY_OK)
        return err;
    for (size_t i = 0; i < file.n_tables && err == BELFRY_OK; i++)
        err = mdbfile_walk(&file, &file.tables[i].tree, count_row, rows);
    assert_true((err == BELFRY_OK) == (file.why == NULL));
    mdbfile_close(&file);
    return err;
}

static void every_row_of_a_good_file_is_read(void **state)
{
    (void)state;
    size_t rows;
    enum mdbfile_length length;
    struct mdbfile_meta meta;
    assert_int_equal(mdbfile_measure(path, &length, &meta), BELFRY_OK);
    assert_int_equal(length, MDBFILE_WHOLE);
    assert_int_equal(read_all(&rows), BELFRY_OK);
    assert_int_equal(rows, N_ROWS + 3 * N_ROWS);
}

static void branches_alone_are_read_when_no_rows_are_wanted(void **state)
{
    (void)state;
    struct mdbfile file;
    assert_int_equal(mdbfile_open(&file, path), BELFRY_OK);
    assert_int_equal(file.n_tables, 2);
    assert_null(mdbfile_table(&file, "extents"));
    const struct mdbfile_tree *tree = mdbfile_table(&file, "history");
    assert_non_null(tree);
    assert_true(tree->branches > 0);
    assert_int_equal(mdbfile_walk(&file, tree, NULL, NULL), BELFRY_OK);
    assert_int_equal(mdbfile_walk(&file, tree, NULL, NULL), BELFRY_ERR_INVALID); /* its pages are taken */
    assert_string_equal(file.why, "a page that is in two places");
    mdbfile_close(&file);
}

static void missing_or_empty_file_is_none(void **state)
{
    (void)state;
    enum mdbfile_length length;
    struct mdbfile_meta meta;
    write_file(whole, 0);
    assert_int_equal(mdbfile_measure(path, &length, &meta), BELFRY_OK);
    assert_int_equal(length, MDBFILE_NONE);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mdbfile_measure(path, &length, &meta), BELFRY_OK);
    assert_int_equal(length, MDBFILE_NONE);
}

static void every_truncation_is_noticed_by_length(void **state)
{
    (void)state;
    size_t rows;
    for (size_t len = 1; len < whole_bytes; len += len < 3 * PAGE ? 37 : 3 * PAGE / 2) {
        enum mdbfile_length length;
        struct mdbfile_meta meta;
        write_file(whole, len);
        assert_int_equal(mdbfile_measure(path, &length, &meta), BELFRY_OK);
        assert_true(length == MDBFILE_SHORT || length == MDBFILE_FOREIGN);
        assert_int_equal(read_all(&rows), BELFRY_ERR_INVALID);
    }
}

static void page_beyond_the_end_that_is_free_is_no_damage(void **state)
{
    (void)state;
    /* the last page's number one higher, as LMDB leaves it when it gave the new last page up unwritten */
    size_t rows, last;
    for (size_t meta = 0; meta < 2; meta++) {
        uint8_t *at = whole + meta * PAGE + 16 + 24 + 2 * 48;
        memcpy(&last, at, sizeof(last));
        last++;
        memcpy(at, &last, sizeof(last));
    }
    write_file(whole, whole_bytes);
    assert_int_equal(read_all(&rows), BELFRY_OK);
    assert_int_equal(rows, N_ROWS + 3 * N_ROWS);
}

/* Flips bits in place; whatever they are, reading ends, inside of the file, with all rows or with an error. */
static void flip(struct belfry_rng *rng, size_t from, size_t upto, int rounds, int *passed)
{
    *passed = 0;
    for (int i = 0; i < rounds; i++) {
        size_t at = from + (size_t)belfry_rng_below(rng, upto - from), rows;
        uint8_t was = whole[at];
        whole[at] = (uint8_t)(was ^ 1u << belfry_rng_below(rng, 8));
        write_file(whole, whole_bytes);
        enum belfry_err err = read_all(&rows);
        assert_true(err == BELFRY_OK || err == BELFRY_ERR_INVALID);
        *passed += err == BELFRY_OK;
        if (err == BELFRY_OK) /* a value's bit, or one that nobody uses, or the transaction before */
            assert_true(rows == N_ROWS + 3 * N_ROWS || at < 2 * PAGE);
        whole[at] = was;
    }
}

static void no_flipped_bit_leads_out_of_the_file(void **state)
{
    (void)state;
    struct belfry_rng rng = {7};
    int passed;
    flip(&rng, 0, whole_bytes, 300, &passed);
    assert_true(passed > 0); /* most bits are values, which this does not judge */
    flip(&rng, 0, 2 * PAGE, 200, &passed);
}

/* The root of a table, its head and its offsets: what leads everywhere else. */
static void no_flipped_bit_of_a_root_is_overlooked(void **state)
{
    (void)state;
    struct mdbfile file;
    struct belfry_rng rng = {9};
    int passed;
    assert_int_equal(mdbfile_open(&file, path), BELFRY_OK);
    size_t root = mdbfile_table(&file, "state")->root * PAGE;
    mdbfile_close(&file);
    flip(&rng, root, root + 8, 60, &passed);
    assert_int_equal(passed, 0);
    flip(&rng, root + 12, root + 24, 100, &passed); /* lower, upper and the first offsets */
    assert_int_equal(passed, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_file, remove_file)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_row_of_a_good_file_is_read),
        TEST(branches_alone_are_read_when_no_rows_are_wanted),
        TEST(missing_or_empty_file_is_none),
        TEST(every_truncation_is_noticed_by_length),
        TEST(page_beyond_the_end_that_is_free_is_no_damage),
        TEST(no_flipped_bit_leads_out_of_the_file),
        TEST(no_flipped_bit_of_a_root_is_overlooked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
