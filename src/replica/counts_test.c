/* src/replica/counts_test.c: ranges of random keys, counted here and in a plain array. */
#include "replica/counts.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/rng.h"
#include "wire/write.h"

#define KEY_MAX    600
#define MAP        ((size_t)256 << 20)
#define MANY_KEYS  20000
#define MANY_TIMES 40000

/* Keys of state in order, each one owned. */
struct plain {
    struct belfry_bytes keys[2 * MANY_KEYS];
    size_t n;
};

static struct bed {
    char dir[64];
    struct env *env;
    MDB_txn *txn;
    MDB_cursor *blocks;
    struct env_now now;
    struct plain plain;
    struct belfry_rng rng;
} bed;

/* ---- the bed ---- */

static void begin_txn(void)
{
    assert_int_equal(mdb_txn_begin(bed.env->mdb, NULL, 0, &bed.txn), 0);
    assert_int_equal(mdb_cursor_open(bed.txn, bed.env->counts, &bed.blocks), 0);
    assert_int_equal(env_now_load(bed.env, bed.txn, &bed.now), 0);
}

static void commit_txn(void)
{
    mdb_cursor_close(bed.blocks);
    assert_int_equal(env_now_store(bed.env, bed.txn, &bed.now), 0);
    assert_int_equal(mdb_txn_commit(bed.txn), 0);
}

static int open_bed(void **state)
{
    (void)state;
    bed = (struct bed){.dir = "/tmp/belfry-counts-XXXXXX"};
    const char *given = getenv("BELFRY_SEED");
    bed.rng.state = given != NULL ? strtoull(given, NULL, 10) : (uint64_t)time(NULL) * 1000003u + (uint64_t)clock();
    print_message("BELFRY_SEED=%" PRIu64 "\n", bed.rng.state);
    assert_non_null(mkdtemp(bed.dir));
    assert_int_equal(env_open(bed.dir, 1, MAP, "all", &bed.env), ENV_FAULT_NONE);
    begin_txn();
    return 0;
}

static int close_bed(void **state)
{
    (void)state;
    char command[128];
    mdb_cursor_close(bed.blocks);
    mdb_txn_abort(bed.txn);
    env_close(bed.env);
    for (size_t i = 0; i < bed.plain.n; i++) {
        union {
            const char *in;
            char *out;
        } cast = {.in = bed.plain.keys[i].data};
        free(cast.out);
    }
    snprintf(command, sizeof(command), "rm -rf '%s'", bed.dir);
    return system(command);
}

/* ---- the plain array ---- */

static size_t plain_below(struct belfry_bytes key)
{
    size_t low = 0, high = bed.plain.n;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (belfry_bytes_cmp(bed.plain.keys[mid], key) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static bool plain_has(struct belfry_bytes key)
{
    size_t at = plain_below(key);
    return at < bed.plain.n && belfry_bytes_equal(bed.plain.keys[at], key);
}

static void plain_toggle(struct belfry_bytes key)
{
    struct plain *plain = &bed.plain;
    size_t at = plain_below(key);
    if (plain_has(key)) {
        union {
            const char *in;
            char *out;
        } cast = {.in = plain->keys[at].data};
        free(cast.out);
        plain->n--;
        memmove(&plain->keys[at], &plain->keys[at + 1], (plain->n - at) * sizeof(plain->keys[0]));
        return;
    }
    char *copy = malloc(key.len);
    assert_non_null(copy);
    memcpy(copy, key.data, key.len);
    memmove(&plain->keys[at + 1], &plain->keys[at], (plain->n - at) * sizeof(plain->keys[0]));
    plain->keys[at] = belfry_bytes_of(copy, key.len);
    plain->n++;
}

/* ---- keys ---- */

/* Short ones of a pool, and long ones of a few groups that share their first bytes, each among its neighbours. */
static struct belfry_bytes random_key(char room[KEY_MAX], uint64_t pool)
{
    uint64_t n = belfry_rng_below(&bed.rng, pool);
    if (belfry_rng_below(&bed.rng, 10) != 0)
        return belfry_bytes_of(room, (size_t)snprintf(room, KEY_MAX, "/k/%06" PRIu64, n));
    static const size_t lengths[] = {479, 480, 481, 496, 599};
    size_t len = lengths[belfry_rng_below(&bed.rng, sizeof(lengths) / sizeof(lengths[0]))];
    memset(room, 'p', len);
    memcpy(room, "/k/0", 4);
    room[4] = (char)('0' + n % 3);
    if (len > ROWFORM_KEY_MAX)
        room[len - 1] = (char)('a' + n % 26);
    if (len > ROWFORM_KEY_MAX + 10)
        room[ROWFORM_KEY_MAX + 5] = (char)('a' + n / 26 % 26);
    return belfry_bytes_of(room, len);
}

static uint64_t put_row(struct belfry_bytes key, MDB_val stored)
{
    uint8_t row[KEY_MAX + 64];
    struct belfry_wire_kv kv = {.key = key, .create_rev = 2, .mod_rev = 2, .version = 1};
    size_t len = (size_t)(belfry_write_kv(&kv, row) - row);
    uint64_t check = rowform_seal(bed.env->salt, ROWFORM_STATE, stored, row, len);
    MDB_val val = {.mv_size = len + ROWFORM_CHECK, .mv_data = row};
    assert_int_equal(mdb_put(bed.txn, bed.env->state, &stored, &val, MDB_NOOVERWRITE), 0);
    return check;
}

/* Creates the key, or deletes it if it is there. */
static void toggle(struct belfry_bytes key)
{
    uint8_t room[ROWFORM_KEY_MAX + ROWFORM_HASH];
    MDB_val stored = rowform_state_key(bed.env->hash, key, room), val;
    uint64_t check;
    if (plain_has(key)) {
        assert_int_equal(env_row_get(bed.env, bed.txn, ROWFORM_STATE, stored, &val, &check), 0);
        env_tally_remove(&bed.now, ROWFORM_STATE, check);
        assert_int_equal(mdb_del(bed.txn, bed.env->state, &stored, NULL), 0);
        assert_int_equal(counts_remove(bed.env, bed.blocks, &bed.now, stored), 0);
    } else {
        env_tally_add(&bed.now, ROWFORM_STATE, put_row(key, stored));
        assert_int_equal(counts_add(bed.env, bed.blocks, &bed.now, stored), 0);
    }
    plain_toggle(key);
}

/* The next number above `n` whose key is a boundary of all levels: of those below 1,000,000 about 15 are. */
static uint64_t next_top(uint64_t n)
{
    struct belfry_hash_key key = {bed.env->hash.k0, ~bed.env->hash.k1};
    char room[32];
    do
        snprintf(room, sizeof(room), "/k/%06" PRIu64, ++n);
    while ((belfry_hash(key, belfry_bytes_str(room)) & 0xffff) != 0);
    return n;
}

static void add_numbered(uint64_t n)
{
    char room[32];
    toggle(belfry_bytes_of(room, (size_t)snprintf(room, sizeof(room), "/k/%06" PRIu64, n)));
}

static uint64_t count_of(struct belfry_bytes key, struct belfry_bytes end)
{
    uint64_t count;
    assert_int_equal(counts_range(bed.env, bed.txn, &bed.now, key, end, &count), BELFRY_OK);
    return count;
}

static void check_range(struct belfry_bytes key, struct belfry_bytes end)
{
    size_t from = plain_below(key), to = end.len > 0 ? plain_below(end) : bed.plain.n;
    uint64_t count = count_of(key, end);
    if (count != (from < to ? to - from : 0))
        fail_msg("[%.*s, %.*s): %" PRIu64 " instead of %zu", (int)key.len, key.data, (int)end.len, end.data, count,
                 from < to ? to - from : 0);
}

static void check_random_range(uint64_t pool)
{
    char key_room[KEY_MAX], end_room[KEY_MAX];
    struct belfry_bytes key = {0}, end = {0};
    if (belfry_rng_below(&bed.rng, 8) != 0)
        key = random_key(key_room, pool);
    if (belfry_rng_below(&bed.rng, 8) != 0)
        end = random_key(end_room, pool);
    check_range(key, end);
}

/* ---- tests ---- */

static void ranges_are_counted_as_an_array_does(void **state)
{
    (void)state;
    char room[KEY_MAX];
    for (uint64_t n = 0; n < MANY_KEYS; n++) { /* in an order that goes everywhere */
        add_numbered(n * 7919 % MANY_KEYS);
        if (n % 50 == 0)
            check_random_range(MANY_KEYS);
    }
    uint64_t tops[3] = {next_top(0)};
    tops[1] = next_top(tops[0]);
    tops[2] = next_top(tops[1]);
    for (size_t i = 0; i < MANY_TIMES; i++) {
        toggle(random_key(room, MANY_KEYS));
        if (i % 50 == 0)
            add_numbered(tops[belfry_rng_below(&bed.rng, 3)]);
        if (i % 10 == 0)
            check_random_range(i % 20 == 0 ? MANY_KEYS : tops[2] + 100);
        if (i % 10000 == 0) {
            commit_txn();
            begin_txn();
        }
    }
    while (bed.plain.n > 0) {
        memcpy(room, bed.plain.keys[belfry_rng_below(&bed.rng, bed.plain.n)].data, 9);
        size_t at = plain_below(belfry_bytes_of(room, 9));
        struct belfry_bytes key = bed.plain.keys[at < bed.plain.n ? at : 0];
        memcpy(room, key.data, key.len);
        toggle(belfry_bytes_of(room, key.len));
        if (bed.plain.n % 50 == 0)
            check_random_range(MANY_KEYS);
    }
    assert_int_equal(count_of((struct belfry_bytes){0}, (struct belfry_bytes){0}), 0);
    assert_int_equal(bed.now.tallies[ROWFORM_COUNTS].rows, COUNTS_LEVELS); /* the first of each level stays */
}

/* A few keys, so that blocks of all levels are often empty. */
static void small_states_are_counted_from_the_first_key_on(void **state)
{
    (void)state;
    char room[KEY_MAX];
    for (size_t i = 0; i < MANY_TIMES; i++) {
        toggle(random_key(room, 5));
        check_random_range(8);
    }
}

/* How the table looks does not depend on how it came to be so. */
static void blocks_depend_on_the_keys_alone(void **state)
{
    (void)state;
    char room[KEY_MAX];
    for (uint64_t n = 0; n < MANY_KEYS; n++)
        add_numbered(n * 7919 % MANY_KEYS);
    struct env_tally before = bed.now.tallies[ROWFORM_COUNTS];
    uint64_t seed = bed.rng.state;
    for (int round = 0; round < 2; round++) { /* the second undoes the first */
        bed.rng.state = seed;
        for (size_t i = 0; i < 5000; i++)
            toggle(random_key(room, MANY_KEYS));
        assert_true(round == 1 || bed.now.tallies[ROWFORM_COUNTS].sum != before.sum);
    }
    assert_int_equal(bed.now.tallies[ROWFORM_COUNTS].rows, before.rows);
    assert_true(bed.now.tallies[ROWFORM_COUNTS].sum == before.sum);
    MDB_stat stat;
    assert_int_equal(mdb_stat(bed.txn, bed.env->counts, &stat), 0);
    assert_int_equal(stat.ms_entries, before.rows);
    assert_in_range(before.rows, MANY_KEYS / 64 - 150, MANY_KEYS / 64 + 150); /* 8 times the standard deviation */
}

/* All long keys begin alike, and ends of ranges lie among them. */
static void ranges_that_end_among_long_keys_are_exact(void **state)
{
    (void)state;
    char key[KEY_MAX], end[KEY_MAX];
    memset(key, 'p', sizeof(key));
    memset(end, 'p', sizeof(end));
    for (uint64_t n = 0; n < 1500; n++) {
        snprintf(key + 500, 20, "%08" PRIu64, n * 7919 % 1500);
        toggle(belfry_bytes_of(key, 508));
    }
    toggle(belfry_bytes_of(key, ROWFORM_KEY_MAX));
    toggle(belfry_bytes_of(key, 100));
    toggle(belfry_bytes_str("q"));
    for (size_t i = 0; i < 60; i++) {
        snprintf(key + 500, 20, "%08" PRIu64, belfry_rng_below(&bed.rng, 1500));
        snprintf(end + 500, 20, "%08" PRIu64, belfry_rng_below(&bed.rng, 1500));
        size_t key_len = i % 7 == 0 ? 480 : 508, end_len = i % 5 == 0 ? 300 : i % 3 == 0 ? 481 : 508;
        check_range(belfry_bytes_of(key, key_len), belfry_bytes_of(end, end_len));
        check_range(belfry_bytes_of(key, key_len), (struct belfry_bytes){0});
        check_range((struct belfry_bytes){0}, belfry_bytes_of(end, end_len));
    }
}

static void keys_are_boundaries_by_their_hash(void **state)
{
    (void)state;
    uint8_t top[32];
    MDB_val key, val;
    uint64_t number = next_top(0);
    size_t len = (size_t)snprintf((char *)top + 1, sizeof(top) - 1, "/k/%06" PRIu64, number);
    top[0] = COUNTS_LEVELS;
    for (int i = 0; i < 3; i++) {
        add_numbered(number);
        key = (MDB_val){.mv_size = 1 + len, .mv_data = top};
        assert_int_equal(mdb_cursor_get(bed.blocks, &key, &val, MDB_SET), i == 1 ? MDB_NOTFOUND : MDB_SUCCESS);
    }
}

/* Changes one bit of the first row of counts, and counts a range that needs it. */
static void damaged_block_is_an_error(void **state)
{
    (void)state;
    MDB_val key, val;
    uint64_t count;
    for (uint64_t n = 0; n < 2000; n++)
        add_numbered(n);
    struct belfry_bytes from = belfry_bytes_str("/k/000001"), end = belfry_bytes_str("/k/001999");
    assert_int_equal(count_of(from, end), 1998);
    assert_int_equal(mdb_cursor_get(bed.blocks, &key, &val, MDB_FIRST), 0);
    uint8_t row[8 + ROWFORM_CHECK];
    assert_int_equal(val.mv_size, sizeof(row));
    memcpy(row, val.mv_data, sizeof(row));
    for (size_t bit = 0; bit < 8 * sizeof(row); bit++) {
        uint8_t flipped[sizeof(row)];
        memcpy(flipped, row, sizeof(row));
        flipped[bit / 8] = (uint8_t)(flipped[bit / 8] ^ 1u << bit % 8);
        MDB_val wrong = {.mv_size = sizeof(row), .mv_data = flipped};
        assert_int_equal(mdb_cursor_put(bed.blocks, &key, &wrong, MDB_CURRENT), 0);
        assert_int_equal(mdb_cursor_get(bed.blocks, &key, &val, MDB_FIRST), 0);
        assert_int_equal(counts_range(bed.env, bed.txn, &bed.now, from, end, &count), BELFRY_ERR_IO);
    }
}

/* A row that state never had, or that its blocks do not know of, is not taken off. */
static void counts_never_go_below_nothing(void **state)
{
    (void)state;
    MDB_val stored = rowform_val(belfry_bytes_str("a"));
    assert_int_equal(counts_remove(bed.env, bed.blocks, &bed.now, stored), MDB_CORRUPTED);
    toggle(belfry_bytes_str("a"));
    toggle(belfry_bytes_str("a"));
    assert_int_equal(counts_remove(bed.env, bed.blocks, &bed.now, stored), MDB_CORRUPTED);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_bed, close_bed)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(ranges_are_counted_as_an_array_does), TEST(small_states_are_counted_from_the_first_key_on),
        TEST(blocks_depend_on_the_keys_alone),     TEST(ranges_that_end_among_long_keys_are_exact),
        TEST(keys_are_boundaries_by_their_hash),   TEST(damaged_block_is_an_error),
        TEST(counts_never_go_below_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
