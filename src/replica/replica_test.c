/* src/replica/replica_test.c: the suite of all stores on both, one against the other, and what only a disk does. */
#include "replica/replica.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "replica/older.h"
#include "support/modelstore.h"
#include "support/refuse.h"
#include "support/replicabed.h"
#include "support/storecheck.h"
#include "wire/write.h"

static struct store *open_usual(void)
{
    struct replica_opts opts = usual();
    return open_with(&opts);
}

static bool exists(const char *name)
{
    char path[512];
    struct stat st;
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    return stat(path, &st) == 0;
}

static void expect_text(char *got, const char *want)
{
    assert_string_equal(got, want);
    free(got);
}

static void expect_state(struct store *store, const char *want)
{
    expect_text(storecheck_list(store, "", "", 0, 100000), want);
}

/* ---- the suite of all stores ---- */

static void model_does_what_a_store_must(void **state)
{
    (void)state;
    struct modelstore_opts opts = {
        .history_rows = 1000000, .history_age_s = STORECHECK_AGE_S, .extent_bytes = STORECHECK_EXTENT};
    for (const struct storecheck_test *test = storecheck_tests; test->name != NULL; test++) {
        print_message("    %s\n", test->name);
        struct store *store = modelstore_create(&opts);
        test->run(store);
        modelstore_destroy(store);
    }
}

static void replica_does_what_a_store_must(void **state)
{
    (void)state;
    for (const struct storecheck_test *test = storecheck_tests; test->name != NULL; test++) {
        print_message("    %s\n", test->name);
        assert_int_equal(remove_dir(NULL), 0); /* each begins with an empty one */
        struct store *store = open_usual();
        test->run(store);
        replica_close(store, REPLICA_CLOSE_DIRTY);
    }
}

static void reopen(struct storecheck_pair *pair)
{
    modelstore_crash(pair->a);
    replica_close(pair->b, REPLICA_CLOSE_DIRTY);
    pair->b = open_usual();
}

static void replica_answers_as_the_model_does(void **state)
{
    (void)state;
    struct modelstore_opts opts = {
        .history_rows = 1000000, .history_age_s = STORECHECK_AGE_S, .extent_bytes = STORECHECK_EXTENT};
    for (uint64_t seed = 1; seed <= 6; seed++) {
        assert_int_equal(remove_dir(NULL), 0);
        struct storecheck_pair pair = {.a = modelstore_create(&opts), .rng = {seed}, .reopen = reopen};
        pair.b = open_usual();
        storecheck_compare(&pair, 700);
        modelstore_destroy(pair.a);
        replica_close(pair.b, REPLICA_CLOSE_DIRTY);
    }
}

/* ---- the model's own ---- */

static void model_fails_when_asked_and_changes_nothing(void **state)
{
    (void)state;
    struct modelstore_opts opts = {.history_rows = 2, .history_age_s = 100, .extent_bytes = 1000};
    struct store *store = modelstore_create(&opts);
    storecheck_write(store, 2, "a", "1");
    struct storecheck_event event = storecheck_event(belfry_bytes_str("b"), belfry_bytes_str("1"), 3, NULL);
    struct belfry_wire_header header = {.revision = 3};
    struct belfry_bytes prev;
    size_t n;
    modelstore_fail(store, 1);
    assert_int_equal(store->api->begin(store), BELFRY_OK);
    assert_int_equal(store->api->apply(store, 3, 0, &event.event, NULL, &prev), BELFRY_ERR_IO);
    assert_int_equal(store->api->apply(store, 3, 0, &event.event, NULL, &prev),
                     BELFRY_ERR_INVALID); /* it was aborted */
    assert_int_equal(store->api->begin(store), BELFRY_OK);
    assert_int_equal(store->api->apply(store, 3, 0, &event.event, NULL, &prev), BELFRY_OK);
    assert_int_equal(store->api->advance(store, 3, &header), BELFRY_OK);
    modelstore_fail(store, 1);
    assert_int_equal(store->api->commit(store), BELFRY_ERR_IO);
    expect_state(store, "a=1");
    assert_int_equal(store->api->begin(store), BELFRY_OK);
    modelstore_fail(store, 1);
    assert_int_equal(store->api->trim(store, 1, 1, &n), BELFRY_ERR_IO);
    storecheck_event_fini(&event);
    for (int64_t rev = 3; rev < 6; rev++)
        storecheck_write(store, rev, "a", "x");
    assert_int_equal(store->api->begin(store), BELFRY_OK);
    assert_int_equal(store->api->trim(store, 1, 10, &n), BELFRY_OK);
    assert_int_equal(store->api->commit(store), BELFRY_OK);
    assert_int_equal(n, 2);
    assert_int_equal(modelstore_rows(store), 2);
    modelstore_destroy(store);
}

static void model_is_empty_after_a_lost_page_cache_and_warm_after_a_kill(void **state)
{
    (void)state;
    struct modelstore_opts opts = {.history_rows = 100, .history_age_s = 100, .extent_bytes = 1000};
    struct store *store = modelstore_create(&opts);
    store->api->set_past(store, 4);
    storecheck_write(store, 2, "a", "1");
    assert_int_equal(store->api->begin(store), BELFRY_OK);
    modelstore_crash(store);
    struct store_meta meta;
    store->api->snapshot(store, &meta);
    assert_true(meta.revision == 2 && meta.past == 0);
    expect_state(store, "a=1");
    modelstore_lose_page_cache(store);
    store->api->snapshot(store, &meta);
    assert_true(meta.revision == 0 && meta.oldest == 1);
    expect_state(store, "");
    modelstore_destroy(store);
}

/* ---- keys ---- */

/* Puts a key of `len` bytes that ends in `tail`, at its own revision. */
static void put_long(struct store *store, int64_t rev, size_t len, const char *tail)
{
    static char key[1 << 16];
    memset(key, 'p', len);
    memcpy(key + len - strlen(tail), tail, strlen(tail));
    struct storecheck_event event = storecheck_event(belfry_bytes_of(key, len), belfry_bytes_str(tail), rev, NULL);
    struct belfry_bytes prev;
    struct belfry_wire_header header = {.revision = rev};
    assert_int_equal(store->api->begin(store), BELFRY_OK);
    assert_int_equal(store->api->apply(store, rev, 0, &event.event, NULL, &prev), BELFRY_OK);
    assert_int_equal(store->api->advance(store, rev, &header), BELFRY_OK);
    assert_int_equal(store->api->commit(store), BELFRY_OK);
    storecheck_event_fini(&event);
}

struct walked {
    char last[1024];
    size_t last_len, n;
};

static bool ascends(struct belfry_bytes key, struct belfry_bytes kv, void *user)
{
    struct walked *walked = user;
    (void)kv;
    assert_true(belfry_bytes_cmp(belfry_bytes_of(walked->last, walked->last_len), key) < 0);
    memcpy(walked->last, key.data, key.len);
    walked->last_len = key.len;
    walked->n++;
    return true;
}

static void long_keys_come_in_the_order_of_their_whole_bytes(void **state)
{
    (void)state;
    struct store *store = open_usual();
    int64_t rev = 1;
    char tail[8];
    for (unsigned i = 0; i < 50; i++) {
        snprintf(tail, sizeof(tail), "%02u", i * 37 % 50);
        put_long(store, ++rev, 500 + i % 3, tail);
    }
    put_long(store, ++rev, 480, "p");
    put_long(store, ++rev, 479, "p");
    put_long(store, ++rev, 300, "q");
    struct walked walked = {0};
    struct store_read read = {.max_rows = 1000, .max_bytes = SIZE_MAX};
    struct store_page page;
    assert_int_equal(store->api->range(store, &read, ascends, &walked, &page), BELFRY_OK);
    assert_int_equal(walked.n, 53);
    size_t pages = 0;
    walked = (struct walked){0};
    read.max_rows = 7;
    do { /* each page goes on behind the last key of the one before */
        char from[1025];
        memcpy(from, walked.last, walked.last_len);
        from[walked.last_len] = '\0'; /* the smallest key behind it */
        read.key = belfry_bytes_of(from, walked.n == 0 ? 0 : walked.last_len + 1);
        assert_int_equal(store->api->range(store, &read, ascends, &walked, &page), BELFRY_OK);
        pages++;
    } while (page.more);
    assert_int_equal(walked.n, 53);
    assert_int_equal(pages, 8);
    replica_close(store, REPLICA_CLOSE_DIRTY);
}

/* More of them than are sorted at once, listed now and as they were before half of them were deleted. */
static void many_keys_with_equal_beginnings_are_sorted_in_parts(void **state)
{
    (void)state;
    struct store *store = open_usual();
    enum { N = 2500 };
    struct belfry_bytes prev;
    struct belfry_wire_header header = {.revision = 2};
    char key[600];
    memset(key, 'p', sizeof(key));
    for (int64_t rev = 2; rev <= 3; rev++) {
        assert_int_equal(store->api->begin(store), BELFRY_OK);
        for (uint32_t sub = 0; sub < N; sub += (uint32_t)rev - 1) {
            snprintf(key + 590, 10, "%05u", sub * 7919 % N);
            struct belfry_bytes value = rev == 2 ? belfry_bytes_str("v") : (struct belfry_bytes){0};
            struct storecheck_event event = storecheck_event(belfry_bytes_of(key, 595), value, rev, NULL);
            assert_int_equal(store->api->apply(store, rev, sub, &event.event, NULL, &prev), BELFRY_OK);
            storecheck_event_fini(&event);
        }
        assert_int_equal(store->api->advance(store, rev, &header), BELFRY_OK);
        assert_int_equal(store->api->commit(store), BELFRY_OK);
    }
    struct walked walked = {0};
    struct store_read read = {.max_rows = 10000, .max_bytes = SIZE_MAX};
    struct store_page page;
    assert_int_equal(store->api->range(store, &read, ascends, &walked, &page), BELFRY_OK);
    assert_int_equal(walked.n, N / 2);
    walked = (struct walked){0};
    read.rev = 2;
    assert_int_equal(store->api->range(store, &read, ascends, &walked, &page), BELFRY_OK);
    assert_int_equal(walked.n, N);
    replica_close(store, REPLICA_CLOSE_DIRTY);
}

static void older_state_is_read_however_much_has_changed(void **state)
{
    (void)state;
    struct store *store = open_usual();
    enum { N = 40000 };
    struct belfry_bytes prev;
    struct belfry_wire_header header = {.revision = 2};
    char key[16];
    for (int64_t rev = 2; rev <= 3; rev++) {
        assert_int_equal(store->api->begin(store), BELFRY_OK);
        for (uint32_t i = 0; i < N; i++) {
            snprintf(key, sizeof(key), "k%05u", i * 7919 % N);
            bool there = rev == 2 && i >= N / 2; /* half are put before, all are put or deleted after */
            struct belfry_bytes value = there || (rev == 3 && i % 3 != 0) ? belfry_bytes_str(rev == 2 ? "old" : "new")
                                                                          : (struct belfry_bytes){0};
            if (rev == 2 && !there)
                continue;
            struct storecheck_event event = storecheck_event(belfry_bytes_str(key), value, rev, NULL);
            assert_int_equal(store->api->apply(store, rev, i, &event.event, NULL, &prev), BELFRY_OK);
            storecheck_event_fini(&event);
        }
        assert_int_equal(store->api->advance(store, rev, &header), BELFRY_OK);
        assert_int_equal(store->api->commit(store), BELFRY_OK);
    }
    struct walked walked = {0};
    struct store_read read = {.rev = 2, .max_rows = N, .max_bytes = SIZE_MAX, .max_walk = N / 4};
    struct store_page page;
    for (size_t i = 0; i < 4; i++) { /* who has little time goes on until all has been looked at */
        assert_int_equal(store->api->range(store, &read, ascends, &walked, &page), BELFRY_OK);
        assert_true(i == 3 || (page.more && walked.n == 0));
    }
    assert_int_equal(walked.n, N / 2);
    assert_int_equal(page.at, 2);
    assert_false(page.more);
    put_long(store, 4, 100, "x"); /* and then looks at what is new alone */
    walked = (struct walked){0};
    read.max_walk = 1;
    assert_int_equal(store->api->range(store, &read, ascends, &walked, &page), BELFRY_OK);
    assert_int_equal(walked.n, N / 2);
    replica_close(store, REPLICA_CLOSE_DIRTY);
}

/* ---- budgets ---- */

static void history_is_kept_to_its_bytes(void **state)
{
    (void)state;
    struct replica_opts opts = usual();
    opts.history_bytes = MIB;
    struct store *store = open_with(&opts);
    char value[301];
    memset(value, 'v', 300);
    value[300] = '\0';
    struct replica_stats stats;
    struct store_meta meta;
    for (int64_t rev = 2; rev < 6000; rev++) {
        storecheck_write(store, rev, "key", value);
        if (rev % 10 == 0)
            trim(store, 1, 20);
        replica_stats(store, &stats);
        assert_true(stats.history_bytes < MIB + MIB / 8);
    }
    store->api->snapshot(store, &meta);
    assert_int_equal(stats.history_rows, meta.revision - meta.oldest + 1);
    assert_in_range(stats.history_rows, 1000, 2000);
    assert_int_equal(stats.trimmed, meta.oldest - 2);
    assert_true(stats.commits > 6000);
    replica_close(store, REPLICA_CLOSE_DIRTY);
}

static enum belfry_err write_one(struct store *store, int64_t rev, const struct belfry_wire_event *event)
{
    struct belfry_bytes prev;
    struct belfry_wire_header header = {.revision = rev};
    enum belfry_err err = store->api->begin(store);
    if (err == BELFRY_OK)
        err = store->api->apply(store, rev, 0, event, NULL, &prev);
    if (err == BELFRY_OK)
        err = store->api->advance(store, rev, &header);
    return err == BELFRY_OK ? store->api->commit(store) : err;
}

/* Nobody trimmed, and the map is full: the write is refused, nothing was changed, and trimming makes room again. */
static void full_map_is_an_error_that_passes(void **state)
{
    (void)state;
    struct replica_opts opts = usual();
    opts.map_bytes = 2 * MIB;
    struct store *store = open_with(&opts);
    char value[401];
    memset(value, 'v', 400);
    value[400] = '\0';
    enum belfry_err err = BELFRY_OK;
    int64_t rev = 1;
    struct storecheck_event event = storecheck_event(belfry_bytes_str("k"), belfry_bytes_str(value), 2, NULL);
    while ((err = write_one(store, rev + 1, &event.event)) == BELFRY_OK)
        rev++;
    assert_int_equal(err, BELFRY_ERR_IO);
    assert_true(rev > 1000);
    struct store_meta meta;
    store->api->meta(store, &meta);
    assert_int_equal(meta.revision, rev);
    store->api->snapshot(store, &meta);
    assert_int_equal(meta.revision, rev);
    assert_true(trim(store, 1, 200) > 0);
    trim(store, 1, 200);
    for (int i = 0; i < 200; i++)
        assert_int_equal(write_one(store, ++rev, &event.event), BELFRY_OK);
    struct replica_stats stats;
    replica_stats(store, &stats);
    assert_true(stats.io_errors > 0);
    storecheck_event_fini(&event);
    replica_close(store, REPLICA_CLOSE_DIRTY);
}

static uint64_t count_all(struct store *store, int64_t rev)
{
    struct store_read read = {.key = belfry_bytes_str("k"), .rev = rev, .counted = true};
    struct store_page page;
    assert_int_equal(store->api->range(store, &read, NULL, NULL, &page), BELFRY_OK);
    assert_false(page.more);
    return page.count;
}

/* Each write makes a key, until one does not fit: what it had counted is not counted. */
static void full_map_leaves_the_counts_as_they_were(void **state)
{
    (void)state;
    struct replica_opts opts = usual();
    opts.map_bytes = MIB;
    struct store *store = open_with(&opts);
    enum belfry_err err = BELFRY_OK;
    int64_t rev = 1;
    while (err == BELFRY_OK) {
        char key[16];
        snprintf(key, sizeof(key), "k%06u", (unsigned)rev * 7919 % 1000003);
        struct storecheck_event event = storecheck_event(belfry_bytes_str(key), belfry_bytes_str("v"), rev + 1, NULL);
        err = write_one(store, rev + 1, &event.event);
        storecheck_event_fini(&event);
        rev += err == BELFRY_OK;
    }
    assert_int_equal(err, BELFRY_ERR_IO);
    assert_true(rev > 500);
    for (int i = 0; i < 2; i++) {
        struct replica_stats stats;
        replica_stats(store, &stats);
        assert_int_equal(stats.state_rows, rev - 1);
        assert_int_equal(count_all(store, 0), rev - 1);
        replica_close(store, i == 0 ? REPLICA_CLOSE_DIRTY : REPLICA_CLOSE_CLEAN);
        store = open_with(&opts); /* the audit passes, too */
    }
    replica_close(store, REPLICA_CLOSE_CLEAN);
}

static void trimming_begins_before_the_map_is_full(void **state)
{
    (void)state;
    struct replica_opts opts = usual();
    opts.map_bytes = 4 * MIB; /* history alone may be 64 MiB */
    struct store *store = open_with(&opts);
    char value[1001];
    memset(value, 'v', 1000);
    value[1000] = '\0';
    for (int64_t rev = 2; rev < 8000; rev++) {
        storecheck_write(store, rev, "key", value);
        if (rev % 10 == 0)
            trim(store, 1, 20);
    }
    struct replica_stats stats;
    replica_stats(store, &stats);
    assert_true(stats.trimmed > 5000);
    assert_int_equal(stats.io_errors, 0);
    replica_close(store, REPLICA_CLOSE_DIRTY);
}

/* ---- the folder ---- */

static void second_process_is_kept_out(void **state)
{
    (void)state;
    struct store *store = open_usual(), *other;
    struct replica_opts opts = usual();
    char *why;
    assert_int_equal(replica_open(&opts, &other, &why), BELFRY_ERR_LIMIT);
    assert_non_null(strstr(why, "another process"));
    free(why);
    replica_close(store, REPLICA_CLOSE_DIRTY);
    replica_close(open_usual(), REPLICA_CLOSE_DIRTY);
}

static void folder_that_cannot_be_made_is_explained(void **state)
{
    (void)state;
    struct replica_opts opts = usual();
    struct store *store;
    char *why;
    opts.dir = "/proc/belfry/none";
    assert_int_equal(replica_open(&opts, &store, &why), BELFRY_ERR_IO);
    assert_non_null(strstr(why, "/proc/belfry: cannot make the folder"));
    free(why);
}

static void files_are_the_owners_alone(void **state)
{
    (void)state;
    assert_int_equal(remove_dir(NULL), 0);
    replica_close(open_usual(), REPLICA_CLOSE_DIRTY);
    const char *names[] = {"", "/data-1", "/data-1/data.mdb", "/lock", "/marker"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char path[256];
        struct stat st;
        snprintf(path, sizeof(path), "%s%s", dir, names[i]);
        assert_int_equal(stat(path, &st), 0);
        assert_int_equal(st.st_mode & 0777, S_ISDIR(st.st_mode) ? 0700 : 0600);
    }
}

static int64_t revision_after(const struct replica_opts *opts)
{
    struct store *store = open_with(opts);
    struct store_meta meta;
    store->api->snapshot(store, &meta);
    assert_int_equal(meta.past, 0);
    replica_close(store, REPLICA_CLOSE_DIRTY);
    return meta.revision;
}

static void write_and_close(enum replica_close how)
{
    struct store *store = open_usual();
    struct store_meta meta;
    store->api->set_past(store, 9);
    store->api->meta(store, &meta);
    storecheck_write(store, meta.revision + 1, "a", "1");
    replica_close(store, how);
}

static void kill_is_followed_by_a_warm_open_in_the_same_boot_only(void **state)
{
    (void)state;
    struct replica_opts opts = usual();
    write_and_close(REPLICA_CLOSE_DIRTY);
    assert_int_equal(revision_after(&opts), 1);
    opts.boot_id = "boot-2";
    assert_int_equal(revision_after(&opts), 0);
}

static void unknown_boot_is_never_the_same(void **state)
{
    (void)state;
    struct replica_opts opts = usual();
    opts.boot_id = "";
    struct store *store = open_with(&opts);
    storecheck_write(store, 2, "a", "1");
    replica_close(store, REPLICA_CLOSE_DIRTY);
    assert_int_equal(revision_after(&opts), 0);
}

static void clean_close_is_followed_by_a_warm_open_in_any_boot_but_once(void **state)
{
    (void)state;
    struct replica_opts opts = usual();
    opts.boot_id = "boot-2";
    write_and_close(REPLICA_CLOSE_CLEAN);
    assert_int_equal(revision_after(&opts), 1);
    opts.boot_id = "boot-3"; /* the one before was not closed clean */
    assert_int_equal(revision_after(&opts), 0);
}

static void kernels_boot_id_is_used_when_none_is_given(void **state)
{
    (void)state;
    struct replica_opts opts = usual();
    opts.boot_id = NULL;
    struct store *store = open_with(&opts);
    storecheck_write(store, 2, "a", "1");
    replica_close(store, REPLICA_CLOSE_DIRTY);
    assert_int_equal(revision_after(&opts), 2);
}

static void replica_of_another_scope_is_discarded(void **state)
{
    (void)state;
    struct replica_opts opts = usual();
    write_and_close(REPLICA_CLOSE_DIRTY);
    opts.scope = "/registry/";
    assert_int_equal(revision_after(&opts), 0);
}

static void damaged_file_is_discarded(void **state)
{
    (void)state;
    struct replica_opts opts = usual();
    char path[256];
    write_and_close(REPLICA_CLOSE_DIRTY);
    snprintf(path, sizeof(path), "%s/data-1/data.mdb", dir);
    int fd = open(path, O_WRONLY);
    char junk[8192];
    memset(junk, 0xee, sizeof(junk));
    assert_int_equal(write(fd, junk, sizeof(junk)), sizeof(junk));
    close(fd);
    assert_int_equal(revision_after(&opts), 0);
}

static void data_path(char path[256])
{
    snprintf(path, 256, "%s/data-1/data.mdb", dir);
}

static void write_many_and_close(enum replica_close how)
{
    struct store *store = open_usual();
    char key[32];
    for (int64_t rev = 2; rev < 600; rev++) {
        snprintf(key, sizeof(key), "key-%d", (int)(rev % 200));
        storecheck_write(store, rev, key, "1");
    }
    replica_close(store, how);
}

static void truncated_file_is_discarded_before_it_is_mapped(void **state)
{
    (void)state;
    struct replica_opts opts = usual();
    char path[256];
    struct stat st;
    data_path(path);
    for (int i = 0; i < 8; i++) {
        write_many_and_close(i % 2 == 0 ? REPLICA_CLOSE_CLEAN : REPLICA_CLOSE_DIRTY);
        assert_int_equal(stat(path, &st), 0);
        assert_int_equal(truncate(path, st.st_size * i / 16), 0);
        assert_int_equal(revision_after(&opts), 0);
        assert_int_equal(remove_dir(NULL), 0);
    }
}

static uint64_t damages_of(struct store *store)
{
    struct replica_stats stats;
    replica_stats(store, &stats);
    return stats.damages;
}

static void discarded_replica_is_counted(void **state)
{
    (void)state;
    char path[256];
    data_path(path);
    write_many_and_close(REPLICA_CLOSE_CLEAN);
    struct store *store = open_usual();
    assert_int_equal(damages_of(store), 0);
    replica_close(store, REPLICA_CLOSE_CLEAN);
    assert_int_equal(truncate(path, 9000), 0);
    store = open_usual();
    assert_int_equal(damages_of(store), 1);
    replica_close(store, REPLICA_CLOSE_CLEAN);
}

/* ---- rows that are not what was written ---- */

/* Finds `text` in the open replica's file, every time that it is there, and flips a bit of its last byte. */
static void flip_all(const char *text)
{
    char path[256];
    struct stat st;
    data_path(path);
    int fd = open(path, O_RDWR);
    assert_int_equal(fstat(fd, &st), 0);
    char *bytes = malloc((size_t)st.st_size);
    assert_int_equal(pread(fd, bytes, (size_t)st.st_size, 0), st.st_size);
    size_t len = strlen(text), n = 0;
    for (size_t i = 0; i + len <= (size_t)st.st_size; i++) {
        if (memcmp(bytes + i, text, len) != 0)
            continue;
        char flipped = (char)(bytes[i + len - 1] ^ 4);
        assert_int_equal(pwrite(fd, &flipped, 1, (off_t)(i + len - 1)), 1);
        n++;
    }
    assert_true(n > 0);
    free(bytes);
    close(fd);
}

static struct store *open_with_three_rows(void)
{
    struct store *store = open_usual();
    storecheck_write(store, 2, "a", "value-one");
    storecheck_write(store, 3, "b", "value-two");
    storecheck_write(store, 4, "c", "value-three");
    assert_false(store->api->damaged(store));
    return store;
}

static enum belfry_err read_history(struct store *store, int64_t from)
{
    struct segment *segment;
    int64_t oldest;
    enum belfry_err err = store->api->history(store, 0, from, MIB, &segment, &oldest);
    if (err == BELFRY_OK)
        segment_unref(segment);
    return err;
}

static bool is_not_flipped(struct belfry_bytes key, struct belfry_bytes kv, void *user)
{
    (void)user;
    assert_false(belfry_bytes_equal(key, belfry_bytes_str("b")));
    (void)kv;
    return true;
}

static void damaged_row_of_state_is_not_handed_out(void **state)
{
    (void)state;
    struct store *store = open_with_three_rows();
    struct store_read read = {.max_rows = 10, .max_bytes = SIZE_MAX};
    struct store_page page;
    flip_all("value-two");
    assert_int_equal(store->api->range(store, &read, is_not_flipped, NULL, &page), BELFRY_ERR_IO);
    assert_true(store->api->damaged(store));
    assert_true(damages_of(store) > 0);
    replica_close(store, REPLICA_CLOSE_CLEAN);
}

static bool add_length(struct belfry_bytes key, struct belfry_bytes kv, void *user)
{
    (void)key;
    *(size_t *)user += kv.len;
    return true;
}

/* Of rows that are measured nothing but their lengths is looked at: these are those of the rows. */
static void measured_rows_are_as_long_and_not_checked(void **state)
{
    (void)state;
    struct store *store = open_with_three_rows();
    struct store_read read = {.max_rows = 10, .max_bytes = SIZE_MAX};
    struct store_page page;
    size_t whole = 0, measured = 0, damaged = 0;
    assert_int_equal(store->api->range(store, &read, add_length, &whole, &page), BELFRY_OK);
    read.measured = true;
    assert_int_equal(store->api->range(store, &read, add_length, &measured, &page), BELFRY_OK);
    flip_all("value-two");
    assert_int_equal(store->api->range(store, &read, add_length, &damaged, &page), BELFRY_OK);
    assert_true(whole > 0);
    assert_int_equal(measured, whole);
    assert_int_equal(damaged, whole);
    assert_false(store->api->damaged(store));
    replica_close(store, REPLICA_CLOSE_CLEAN);
}

static void damaged_row_of_history_is_not_handed_out(void **state)
{
    (void)state;
    struct store *store = open_with_three_rows();
    struct segment *segment;
    int64_t oldest;
    flip_all("value-two");
    assert_int_equal(read_history(store, 2), BELFRY_ERR_IO);
    assert_int_equal(read_history(store, 3), BELFRY_ERR_IO);
    assert_int_equal(read_history(store, 4), BELFRY_OK); /* it is whole, and follows what is claimed to be before it */
    assert_int_equal(store->api->slice(store, 0, 3, 0, MIB, &segment, &oldest), BELFRY_ERR_IO);
    replica_close(store, REPLICA_CLOSE_CLEAN);
}

static void damaged_row_is_not_taken_for_what_was_before(void **state)
{
    (void)state;
    struct store *store = open_with_three_rows();
    struct belfry_bytes kv;
    flip_all("value-two");
    assert_int_equal(store->api->begin(store), BELFRY_OK);
    assert_int_equal(store->api->get(store, belfry_bytes_str("b"), &kv), BELFRY_ERR_IO);
    assert_true(store->api->damaged(store));
    struct replica_stats stats;
    replica_stats(store, &stats);
    assert_int_equal(stats.io_errors, 0); /* the disk is not to blame, as far as is known */
    replica_close(store, REPLICA_CLOSE_CLEAN);
}

static void listing_mends_a_damaged_replica(void **state)
{
    (void)state;
    struct store *store = open_with_three_rows();
    struct belfry_wire_header header = {.revision = 9};
    flip_all("value-two");
    assert_int_equal(read_history(store, 2), BELFRY_ERR_IO);
    assert_int_equal(store->api->fresh(store), BELFRY_OK);
    put_fresh(store, "a", 9);
    assert_int_equal(store->api->adopt(store, 9, &header, 0), BELFRY_OK);
    assert_false(store->api->damaged(store));
    assert_int_equal(damages_of(store), 1); /* what was found stays counted */
    expect_state(store, "a=1");
    replica_close(store, REPLICA_CLOSE_CLEAN);
}

/* LMDB's writes come here. Its meta page is the last of a commit, and the only one that is shorter than a page. */
static bool meta_page_fails;

__attribute__((visibility("default"))) ssize_t pwrite(int fd, const void *bytes, size_t len, off_t at)
{
    if (meta_page_fails && len < 512) {
        errno = ENOSPC;
        return -1;
    }
    return syscall(SYS_pwrite64, fd, bytes, len, at);
}

/* A disk that must have room for every write, as one that copies on write, may refuse just that page. LMDB then refuses
 * everything until the environment is opened anew, also when there is room again. */
static void environment_that_lmdb_gave_up_is_mended_by_a_listing(void **state)
{
    (void)state;
    struct store *store = open_with_three_rows();
    struct storecheck_event event = storecheck_event(belfry_bytes_str("a"), belfry_bytes_str("2"), 5, NULL);
    struct belfry_wire_header header = {.revision = 5};
    struct belfry_bytes prev;
    assert_int_equal(store->api->begin(store), BELFRY_OK);
    assert_int_equal(store->api->apply(store, 5, 0, &event.event, NULL, &prev), BELFRY_OK);
    assert_int_equal(store->api->advance(store, 5, &header), BELFRY_OK);
    meta_page_fails = true;
    assert_int_equal(store->api->commit(store), BELFRY_ERR_IO);
    meta_page_fails = false;
    storecheck_event_fini(&event);
    assert_int_equal(store->api->begin(store), BELFRY_ERR_IO);
    assert_true(store->api->damaged(store));
    assert_int_equal(store->api->fresh(store), BELFRY_OK);
    put_fresh(store, "a", 9);
    assert_int_equal(store->api->adopt(store, 9, &header, 0), BELFRY_OK);
    assert_false(store->api->damaged(store));
    storecheck_write(store, 10, "b", "2");
    expect_state(store, "a=1 b=2");
    replica_close(store, REPLICA_CLOSE_CLEAN);
}

static void damage_while_it_was_down_is_found_after_any_end(void **state)
{
    (void)state;
    struct replica_opts opts = usual();
    for (int i = 0; i < 2; i++) {
        struct store *store = open_with_three_rows();
        replica_close(store, i == 0 ? REPLICA_CLOSE_CLEAN : REPLICA_CLOSE_DIRTY);
        flip_all("value-two");
        assert_int_equal(revision_after(&opts), 0);
        assert_int_equal(remove_dir(NULL), 0);
    }
}

/* The rows of history are not read after a clean end, but when they are wanted. */
static void damage_of_history_is_found_when_it_is_read(void **state)
{
    (void)state;
    struct store *store = open_usual();
    storecheck_write(store, 2, "a", "value-one");
    storecheck_write(store, 3, "a", "value-two");
    storecheck_write(store, 4, "a", "value-three"); /* the state has the last alone */
    replica_close(store, REPLICA_CLOSE_CLEAN);
    flip_all("value-two");
    store = open_usual();
    expect_state(store, "a=value-three");
    assert_false(store->api->damaged(store));
    assert_int_equal(read_history(store, 2), BELFRY_ERR_IO);
    assert_true(store->api->damaged(store));
    replica_close(store, REPLICA_CLOSE_CLEAN); /* which this is not: */
    store = open_usual();
    assert_int_equal(damages_of(store), 1);
    expect_state(store, "");
    replica_close(store, REPLICA_CLOSE_CLEAN);
}

/* A life in a process of its own, which `ends` it. */
static void live_and_die(void (*ends)(struct store *store))
{
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        struct replica_opts opts = usual();
        struct store *store;
        char *why;
        if (replica_open(&opts, &store, &why) == BELFRY_OK)
            ends(store);
        _exit(1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void die_while_starting(struct store *store)
{
    (void)store;
    _exit(0);
}

static void die_while_serving(struct store *store)
{
    replica_serves(store);
    _exit(0);
}

static void fault_while_serving(struct store *store)
{
    replica_serves(store);
    replica_faulted(store);
    _exit(0);
}

static void two_starts_that_died_in_a_row_discard_the_replica(void **state)
{
    (void)state;
    struct replica_opts opts = usual();
    write_and_close(REPLICA_CLOSE_CLEAN);
    live_and_die(die_while_starting);
    assert_int_equal(revision_after(&opts), 1); /* one is forgiven, and this one did not die */
    live_and_die(die_while_starting);
    live_and_die(die_while_starting);
    assert_int_equal(revision_after(&opts), 0);
}

static void killed_processes_that_served_are_no_reason_to_discard(void **state)
{
    (void)state;
    struct replica_opts opts = usual();
    write_and_close(REPLICA_CLOSE_CLEAN);
    for (int i = 0; i < 5; i++)
        live_and_die(die_while_serving);
    assert_int_equal(revision_after(&opts), 1);
}

static void two_faults_in_a_row_discard_the_replica(void **state)
{
    (void)state;
    struct replica_opts opts = usual();
    write_and_close(REPLICA_CLOSE_CLEAN);
    live_and_die(fault_while_serving);
    live_and_die(die_while_serving);
    live_and_die(fault_while_serving);
    assert_int_equal(revision_after(&opts), 1);
    live_and_die(fault_while_serving);
    live_and_die(fault_while_serving);
    assert_int_equal(revision_after(&opts), 0);
}

static void missing_or_foreign_marker_means_cold(void **state)
{
    (void)state;
    struct replica_opts opts = usual();
    char path[256];
    write_and_close(REPLICA_CLOSE_DIRTY);
    snprintf(path, sizeof(path), "%s/marker", dir);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(revision_after(&opts), 0);
    write_and_close(REPLICA_CLOSE_DIRTY);
    FILE *marker = fopen(path, "w");
    fputs("who knows\n", marker);
    fclose(marker);
    assert_int_equal(revision_after(&opts), 0);
}

/* ---- a fresh copy ---- */

static void kill_while_building_leaves_the_old_copy(void **state)
{
    (void)state;
    struct store *store = open_usual();
    storecheck_write(store, 2, "old", "1");
    assert_int_equal(store->api->fresh(store), BELFRY_OK);
    for (int i = 0; i < 100; i++)
        put_fresh(store, "new", 5);
    assert_true(exists("data-2"));
    /* what a kill leaves: the folder is copied while it is in use, and the copy opened */
    char command[512], copy[160];
    snprintf(copy, sizeof(copy), "%s-copy", dir);
    snprintf(command, sizeof(command), "cp -r '%s' '%s'", dir, copy);
    assert_int_equal(system(command), 0);
    replica_close(store, REPLICA_CLOSE_DIRTY);
    assert_false(exists("data-2"));
    struct replica_opts opts = usual();
    opts.dir = copy;
    store = open_with(&opts);
    expect_state(store, "old=1");
    snprintf(copy, sizeof(copy), "../%s-copy/data-2", strrchr(dir, '/') + 1);
    assert_false(exists(copy));
    replica_close(store, REPLICA_CLOSE_DIRTY);
    snprintf(command, sizeof(command), "rm -rf '%s-copy'", dir);
    assert_int_equal(system(command), 0);
}

static void adopted_copy_is_the_one_that_is_opened_again(void **state)
{
    (void)state;
    struct store *store = open_usual();
    storecheck_write(store, 2, "old", "1");
    assert_int_equal(store->api->fresh(store), BELFRY_OK);
    put_fresh(store, "new", 5);
    struct belfry_wire_header header = {.cluster_id = 1, .revision = 7};
    assert_int_equal(store->api->adopt(store, 7, &header, 2), BELFRY_OK);
    assert_false(exists("data-1"));
    replica_close(store, REPLICA_CLOSE_DIRTY);
    store = open_usual();
    expect_state(store, "new=1");
    replica_close(store, REPLICA_CLOSE_DIRTY);
}

static bool adopt_meanwhile(struct belfry_bytes key, struct belfry_bytes kv, void *user)
{
    struct store *store = user;
    struct belfry_wire_header header = {.revision = 50};
    (void)kv;
    if (belfry_bytes_equal(key, belfry_bytes_str("a"))) {
        assert_int_equal(store->api->fresh(store), BELFRY_OK);
        put_fresh(store, "new", 5);
        assert_int_equal(store->api->adopt(store, 50, &header, 2), BELFRY_OK);
        assert_true(exists("data-1"));
    }
    return true;
}

static void reader_keeps_the_copy_it_is_in(void **state)
{
    (void)state;
    struct store *store = open_usual();
    storecheck_write(store, 2, "a", "1");
    storecheck_write(store, 3, "b", "1");
    struct store_read read = {.max_rows = 10, .max_bytes = SIZE_MAX};
    struct store_page page;
    assert_int_equal(store->api->range(store, &read, adopt_meanwhile, store, &page), BELFRY_OK);
    assert_int_equal(page.at, 3);
    assert_false(exists("data-1")); /* gone with its last reader */
    expect_state(store, "new=1");
    replica_close(store, REPLICA_CLOSE_DIRTY);
}

static void view_keeps_the_copy_it_is_in(void **state)
{
    (void)state;
    struct store *store = open_usual();
    struct belfry_wire_header header = {.revision = 50};
    struct store_read read = {.max_rows = 10, .max_bytes = SIZE_MAX, .counted = true};
    struct store_meta meta;
    struct store_page page;
    size_t n = 0;
    storecheck_write(store, 2, "a", "1");
    storecheck_write(store, 3, "b", "1");
    assert_int_equal(store->api->view_begin(store, &read.view, &meta), BELFRY_OK);
    assert_int_equal(store->api->fresh(store), BELFRY_OK);
    put_fresh(store, "new", 5);
    assert_int_equal(store->api->adopt(store, 50, &header, meta.past + 1), BELFRY_OK);
    for (read.rev = 2; read.rev <= 3; read.rev++) {
        assert_int_equal(store->api->range(store, &read, count_row, &n, &page), BELFRY_OK);
        assert_int_equal(page.meta.past, meta.past);
        assert_int_equal(page.meta.revision, 3);
        assert_int_equal(page.count, read.rev - 1);
    }
    assert_int_equal(n, 3);
    assert_true(exists("data-1"));
    store->api->view_end(store, read.view);
    assert_false(exists("data-1"));
    replica_close(store, REPLICA_CLOSE_DIRTY);
}

/* ---- without memory ---- */

static bool any_row(struct belfry_bytes key, struct belfry_bytes kv, void *user)
{
    (void)key;
    (void)kv;
    (void)user;
    return true;
}

/* Memory for what has changed is bounded: what has more behind it than that counts as compacted, what is newer does
 * not. */
static void a_state_with_too_much_behind_it_is_compacted(void **state)
{
    (void)state;
    struct replica_opts opts = usual();
    opts.history_bytes = (size_t)4 * OLDER_BYTES;
    struct store *store;
    char *why = NULL;
    assert_int_equal(replica_open(&opts, &store, &why), BELFRY_OK);
    enum { KEY = 64000, N = OLDER_BYTES / KEY + 20 };
    char tail[8];
    for (int64_t rev = 2; rev < 2 + N; rev++) {
        snprintf(tail, sizeof(tail), "%05u", (unsigned)rev);
        put_long(store, rev, KEY, tail);
    }
    struct store_read read = {.rev = 2, .max_rows = 1, .max_bytes = SIZE_MAX};
    struct store_page page;
    assert_int_equal(store->api->range(store, &read, any_row, NULL, &page), BELFRY_ERR_COMPACTED);
    read.rev = N - 20;
    assert_int_equal(store->api->range(store, &read, any_row, NULL, &page), BELFRY_OK);
    for (int64_t rev = 2 + N; rev < 100 + N; rev++) { /* more than has room on top */
        snprintf(tail, sizeof(tail), "%05u", (unsigned)rev);
        put_long(store, rev, KEY, tail);
    }
    size_t n = 0;
    read.rev = N - 20;
    read.max_rows = 1000;
    assert_int_equal(store->api->range(store, &read, count_row, &n, &page), BELFRY_OK);
    assert_int_equal(n, 1000);
    replica_close(store, REPLICA_CLOSE_DIRTY);
}

/* To count at an older revision is to look at all that were created or deleted since: up to a bound. */
static void a_count_with_too_many_changes_behind_it_is_compacted(void **state)
{
    (void)state;
    struct store *store = open_usual();
    struct belfry_wire_header header = {.revision = 3};
    struct belfry_bytes prev;
    char key[16];
    storecheck_write(store, 2, "k", "1");
    assert_int_equal(store->api->begin(store), BELFRY_OK);
    for (uint32_t i = 0; i < OLDER_COUNTED; i++) {
        snprintf(key, sizeof(key), "k%06u", i);
        struct storecheck_event event = storecheck_event(belfry_bytes_str(key), belfry_bytes_str("1"), 3, NULL);
        assert_int_equal(store->api->apply(store, 3, i, &event.event, NULL, &prev), BELFRY_OK);
        storecheck_event_fini(&event);
    }
    assert_int_equal(store->api->advance(store, 3, &header), BELFRY_OK);
    assert_int_equal(store->api->commit(store), BELFRY_OK);
    assert_int_equal(count_all(store, 2), 1);
    storecheck_write(store, 4, "k", "2"); /* no key more */
    assert_int_equal(count_all(store, 2), 1);
    storecheck_write(store, 5, "k", NULL);
    struct store_read read = {.rev = 2, .counted = true};
    struct store_page page;
    assert_int_equal(store->api->range(store, &read, NULL, NULL, &page), BELFRY_ERR_COMPACTED);
    read.rev = 3;
    assert_int_equal(store->api->range(store, &read, NULL, NULL, &page), BELFRY_OK);
    assert_int_equal(page.count, OLDER_COUNTED + 1);
    replica_close(store, REPLICA_CLOSE_DIRTY);
}

static enum belfry_err read_one(struct store *store, int64_t rev)
{
    struct segment *segment;
    struct store_read read = {.rev = rev, .max_rows = 10, .max_bytes = SIZE_MAX};
    struct store_page page;
    int64_t oldest;
    enum belfry_err err = store->api->history(store, 0, 2, MIB, &segment, &oldest);
    if (err != BELFRY_OK)
        return err;
    segment_unref(segment);
    err = store->api->slice(store, 0, 2, 0, MIB, &segment, &oldest);
    if (err != BELFRY_OK)
        return err;
    segment_unref(segment);
    err = store->api->range(store, &read, any_row, NULL, &page);
    struct store_meta meta;
    if (err == BELFRY_OK)
        err = store->api->view_begin(store, &read.view, &meta);
    if (err != BELFRY_OK)
        return err;
    err = store->api->range(store, &read, any_row, NULL, &page);
    store->api->view_end(store, read.view);
    return err;
}

static enum belfry_err relist(struct store *store, const struct belfry_wire_event *event)
{
    struct belfry_wire_header header = {.revision = 9};
    enum belfry_err err = store->api->fresh(store);
    if (err == BELFRY_OK)
        err = store->api->put(store, &event->kv);
    if (err == BELFRY_OK)
        err = store->api->remove(store, event->kv.key, 1);
    return err == BELFRY_OK ? store->api->adopt(store, 9, &header, 1) : err;
}

static const struct belfry_wire_event *refusal_events; /* two, the second brings a previous value */

static enum belfry_err life(void)
{
    struct replica_opts opts = usual();
    struct store *store;
    char *why = NULL;
    enum belfry_err err = replica_open(&opts, &store, &why);
    free(why);
    if (err != BELFRY_OK)
        return err;
    struct store_meta meta;
    store->api->snapshot(store, &meta);
    err = write_one(store, meta.revision + 1, &refusal_events[0]);
    if (err == BELFRY_OK)
        err = write_one(store, meta.revision + 2, &refusal_events[1]);
    if (err == BELFRY_OK && meta.oldest <= 2)
        err = read_one(store, meta.revision + 1);
    if (err == BELFRY_OK)
        err = relist(store, &refusal_events[0]);
    replica_close(store, err == BELFRY_OK ? REPLICA_CLOSE_CLEAN : REPLICA_CLOSE_DIRTY);
    assert_int_equal(remove_dir(NULL), 0); /* each life starts anew */
    return err;
}

static void refused_memory_is_an_error_and_leaves_nothing(void **state)
{
    (void)state;
    char key[600];
    memset(key, 'p', sizeof(key));
    struct storecheck_event put = storecheck_event(belfry_bytes_of(key, sizeof(key)), belfry_bytes_str("1"), 2, NULL);
    struct storecheck_event with_prev = put;
    struct belfry_wire_event made = put.event;
    made.has_prev = true;
    made.prev = put.event.kv;
    with_prev.bytes = malloc(belfry_write_event_size(&made));
    size_t len = (size_t)(belfry_write_event(&made, with_prev.bytes) - with_prev.bytes);
    assert_int_equal(belfry_scan_event(belfry_bytes_of(with_prev.bytes, len), &with_prev.event), BELFRY_OK);
    const struct belfry_wire_event events[] = {put.event, with_prev.event};
    refusal_events = events;
    assert_true(refuse_sweep(life) > 10);
    storecheck_event_fini(&put);
    storecheck_event_fini(&with_prev);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_dir, remove_dir)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(model_does_what_a_store_must),
        TEST(replica_does_what_a_store_must),
        TEST(replica_answers_as_the_model_does),
        TEST(model_fails_when_asked_and_changes_nothing),
        TEST(model_is_empty_after_a_lost_page_cache_and_warm_after_a_kill),
        TEST(long_keys_come_in_the_order_of_their_whole_bytes),
        TEST(many_keys_with_equal_beginnings_are_sorted_in_parts),
        TEST(older_state_is_read_however_much_has_changed),
        TEST(a_state_with_too_much_behind_it_is_compacted),
        TEST(a_count_with_too_many_changes_behind_it_is_compacted),
        TEST(history_is_kept_to_its_bytes),
        TEST(full_map_is_an_error_that_passes),
        TEST(full_map_leaves_the_counts_as_they_were),
        TEST(trimming_begins_before_the_map_is_full),
        TEST(second_process_is_kept_out),
        TEST(folder_that_cannot_be_made_is_explained),
        TEST(files_are_the_owners_alone),
        TEST(kill_is_followed_by_a_warm_open_in_the_same_boot_only),
        TEST(unknown_boot_is_never_the_same),
        TEST(clean_close_is_followed_by_a_warm_open_in_any_boot_but_once),
        TEST(kernels_boot_id_is_used_when_none_is_given),
        TEST(replica_of_another_scope_is_discarded),
        TEST(damaged_file_is_discarded),
        TEST(truncated_file_is_discarded_before_it_is_mapped),
        TEST(discarded_replica_is_counted),
        TEST(damaged_row_of_state_is_not_handed_out),
        TEST(measured_rows_are_as_long_and_not_checked),
        TEST(damaged_row_of_history_is_not_handed_out),
        TEST(damaged_row_is_not_taken_for_what_was_before),
        TEST(listing_mends_a_damaged_replica),
        TEST(environment_that_lmdb_gave_up_is_mended_by_a_listing),
        TEST(damage_while_it_was_down_is_found_after_any_end),
        TEST(damage_of_history_is_found_when_it_is_read),
        TEST(two_starts_that_died_in_a_row_discard_the_replica),
        TEST(killed_processes_that_served_are_no_reason_to_discard),
        TEST(two_faults_in_a_row_discard_the_replica),
        TEST(missing_or_foreign_marker_means_cold),
        TEST(kill_while_building_leaves_the_old_copy),
        TEST(adopted_copy_is_the_one_that_is_opened_again),
        TEST(reader_keeps_the_copy_it_is_in),
        TEST(view_keeps_the_copy_it_is_in),
        TEST(refused_memory_is_an_error_and_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
