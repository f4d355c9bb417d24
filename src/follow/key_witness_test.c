/* src/follow/key_witness_test.c */
#include "follow/key_witness.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include "follow/past_fixture.h"
#include "support/modelstore.h"
#include "support/refuse.h"

/* A replica that has taken `past` up to its head, live. */
struct rig {
    struct past *past;
    struct store *store;
    struct evlog *evlog;
    struct ingest *ingest;
    struct key_witness witness;
};

static int setup(void **state)
{
    static const struct modelstore_opts store_opts = {
        .history_rows = 1000, .history_age_s = 1000, .extent_bytes = 1 << 20};
    static struct rig rig;
    struct evlog_opts log_opts = {.capacity_log2 = 6, .max_bytes = 1 << 20, .n_workers = 1};
    bool warm;
    rig = (struct rig){.past = past_create(9), .store = modelstore_create(&store_opts)};
    assert_int_equal(evlog_create(&log_opts, &rig.evlog), BELFRY_OK);
    struct ingest_opts opts = {.store = rig.store, .evlog = rig.evlog, .trim_rows = 16, .whole_scope = true};
    assert_int_equal(ingest_create(&opts, &rig.ingest), BELFRY_OK);
    assert_int_equal(ingest_open(rig.ingest, &warm), BELFRY_OK);
    struct belfry_wire_header header = past_header(rig.past, 1);
    assert_int_equal(rig.store->api->fresh(rig.store), BELFRY_OK);
    assert_int_equal(ingest_adopt(rig.ingest, 1, &header, EVLOG_CUT_START, 0), BELFRY_OK);
    *state = &rig;
    return 0;
}

static int teardown(void **state)
{
    struct rig *rig = *state;
    key_witness_fini(&rig->witness);
    ingest_destroy(rig->ingest);
    evlog_destroy(rig->evlog);
    modelstore_destroy(rig->store);
    past_destroy(rig->past);
    return 0;
}

static void take_all(struct rig *rig)
{
    while (ingest_head(rig->ingest) < rig->past->head) {
        struct ingest_revision revision = past_revision(rig->past, ingest_head(rig->ingest) + 1, PAST_BARE);
        assert_int_equal(ingest_revision(rig->ingest, &revision, 1000), BELFRY_OK);
    }
}

static enum belfry_err find(struct rig *rig, int64_t at)
{
    return key_witness_find(&rig->witness, rig->store, rig->ingest, at, 1000);
}

/* What a read of the key in `past` says of it. */
static enum key_verdict judge(struct rig *rig, const struct past *past)
{
    struct belfry_buf buf;
    belfry_buf_init(&buf);
    struct belfry_bytes page = past_page(past, rig->witness.at, belfry_buf_bytes(&rig->witness.key), 1, &buf);
    enum key_verdict verdict = key_witness_judge(&rig->witness, page, ingest_head(rig->ingest));
    belfry_buf_fini(&buf);
    return verdict;
}

static void replica_without_events_has_no_witness(void **state)
{
    assert_int_equal(find(*state, 1), BELFRY_ERR_NOT_FOUND);
}

static void key_that_is_as_we_left_it_is_the_same(void **state)
{
    struct rig *rig = *state;
    past_fill(rig->past, 10, "a");
    take_all(rig);
    assert_int_equal(find(rig, 10), BELFRY_OK);
    assert_int_equal(judge(rig, rig->past), KEY_SAME);
}

static void key_of_a_rewritten_past_is_another(void **state)
{
    struct rig *rig = *state;
    past_fill(rig->past, 10, "a");
    take_all(rig);
    struct past *other = past_fork(rig->past, 9);
    past_fill(other, 12, "b");
    assert_int_equal(find(rig, 10), BELFRY_OK);
    assert_int_equal(judge(rig, other), KEY_OTHER);
    past_destroy(other);
}

static void key_that_is_gone_is_another(void **state)
{
    struct rig *rig = *state;
    past_put(rig->past, 5, "a");
    take_all(rig);
    struct past *other = past_create(9);
    past_fill(other, 4, "b");
    assert_int_equal(find(rig, 2), BELFRY_OK);
    assert_int_equal(judge(rig, other), KEY_OTHER);
    past_destroy(other);
}

static void put_is_preferred_and_a_delete_proves_little(void **state)
{
    struct rig *rig = *state;
    past_put(rig->past, 1, "a");
    past_put(rig->past, 2, "a");
    past_txn(rig->past, 2, (const int[]){1, 3}, (const char *const[]){NULL, "a"});
    take_all(rig);
    assert_int_equal(find(rig, 4), BELFRY_OK);
    assert_false(rig->witness.deleted);
    assert_int_equal(judge(rig, rig->past), KEY_SAME);
    past_delete(rig->past, 3);
    take_all(rig);
    assert_int_equal(find(rig, 5), BELFRY_OK);
    assert_true(rig->witness.deleted);
    assert_int_equal(judge(rig, rig->past), KEY_UNKNOWN);
    struct past *other = past_fork(rig->past, 4);
    past_put(other, 4, "b");
    assert_int_equal(judge(rig, other), KEY_OTHER); /* it is there */
    past_destroy(other);
}

static void put_that_its_own_revision_deletes_is_not_taken(void **state)
{
    struct rig *rig = *state;
    past_put(rig->past, 1, "a");
    past_txn(rig->past, 4, (const int[]){2, 3, 1, 3}, (const char *const[]){"a", "a", "b", NULL});
    take_all(rig);
    assert_int_equal(find(rig, 3), BELFRY_OK);
    assert_false(rig->witness.deleted);
    assert_int_equal(judge(rig, rig->past), KEY_SAME);
    past_txn(rig->past, 3, (const int[]){2, 3, 3}, (const char *const[]){NULL, "a", NULL});
    take_all(rig);
    assert_int_equal(find(rig, 4), BELFRY_OK);
    assert_true(rig->witness.deleted);
    assert_int_equal(judge(rig, rig->past), KEY_UNKNOWN);
}

static void key_that_was_changed_at_the_compaction_proves_nothing(void **state)
{
    struct rig *rig = *state;
    past_put(rig->past, 1, "a");
    take_all(rig);
    past_put(rig->past, 1, "b"); /* we do not have it */
    assert_int_equal(find(rig, 3), BELFRY_OK);
    assert_int_equal(judge(rig, rig->past), KEY_UNKNOWN);
    struct past *other = past_fork(rig->past, 2);
    past_put(other, 2, "b");
    assert_int_equal(judge(rig, other), KEY_SAME); /* another key was changed there */
    past_destroy(other);
}

/* A replica of a part of the store, opened on the state of a listing of `past`. */
static void list_part(struct rig *rig)
{
    struct ingest_opts opts = {.store = rig->store, .evlog = rig->evlog, .trim_rows = 16};
    struct belfry_wire_header header = past_header(rig->past, rig->past->head);
    ingest_destroy(rig->ingest);
    assert_int_equal(ingest_create(&opts, &rig->ingest), BELFRY_OK);
    assert_int_equal(rig->store->api->fresh(rig->store), BELFRY_OK);
    for (int key = 0; key < PAST_KEYS; key++) {
        uint8_t raw[128];
        struct belfry_wire_kv kv;
        if (rig->past->now[key].version == 0)
            continue;
        size_t len = past_encode_kv(key, &rig->past->now[key], raw);
        assert_int_equal(belfry_scan_kv(belfry_bytes_of((char *)raw, len), &kv), BELFRY_OK);
        assert_int_equal(rig->store->api->put(rig->store, &kv), BELFRY_OK);
    }
    assert_int_equal(ingest_adopt(rig->ingest, rig->past->head, &header, EVLOG_CUT_START, 0), BELFRY_OK);
    assert_int_equal(ingest_overlap(rig->ingest), 0);
}

static void part_without_events_has_its_newest_row(void **state)
{
    struct rig *rig = *state;
    list_part(rig);
    assert_int_equal(find(rig, 1), BELFRY_ERR_NOT_FOUND); /* and no row */
    past_fill(rig->past, 10, "a");
    past_put(rig->past, 3, "b"); /* 11, and not the last key */
    list_part(rig);
    struct past *other = past_fork(rig->past, 10);
    past_put(other, 4, "b");
    for (int i = 0; i < 2; i++) { /* the second time it is known */
        assert_int_equal(find(rig, 11), BELFRY_OK);
        assert_int_equal(rig->witness.at, 11);
        assert_int_equal(judge(rig, rig->past), KEY_SAME);
        assert_int_equal(judge(rig, other), KEY_OTHER);
    }
    past_put(rig->past, 5, "c");
    past_put(other, 5, "x");
    take_all(rig); /* an event says more */
    assert_int_equal(find(rig, 12), BELFRY_OK);
    assert_int_equal(judge(rig, rig->past), KEY_SAME);
    assert_int_equal(judge(rig, other), KEY_OTHER);
    char name[16];
    size_t len = past_key(5, name);
    assert_true(belfry_bytes_equal(belfry_buf_bytes(&rig->witness.key), belfry_bytes_of(name, len)));
    past_put(rig->past, 6, "d");
    list_part(rig); /* another past begins: the row is another */
    assert_int_equal(find(rig, 13), BELFRY_OK);
    assert_int_equal(judge(rig, rig->past), KEY_SAME);
    past_destroy(other);
}

static void refused_memory_of_the_newest_row_is_an_error(void **state)
{
    struct rig *rig = *state;
    past_fill(rig->past, 10, "a");
    list_part(rig);
    enum belfry_err err;
    size_t n = 0;
    do {
        key_witness_fini(&rig->witness);
        rig->witness = (struct key_witness){0};
        refuse_begin(n++);
        err = find(rig, 10);
    } while (refuse_end() && err == BELFRY_ERR_NOMEM);
    assert_int_equal(err, BELFRY_OK);
    assert_true(n > 2);
    assert_int_equal(judge(rig, rig->past), KEY_SAME);
}

static void refused_memory_is_an_error(void **state)
{
    struct rig *rig = *state;
    past_fill(rig->past, 10, "a");
    take_all(rig);
    ingest_drained(rig->ingest, 1000);
    enum belfry_err err;
    size_t n = 0;
    do {
        key_witness_fini(&rig->witness);
        rig->witness = (struct key_witness){0};
        refuse_begin(n++);
        err = find(rig, 10);
    } while (refuse_end() && err == BELFRY_ERR_NOMEM);
    assert_int_equal(err, BELFRY_OK);
    assert_int_equal(judge(rig, rig->past), KEY_SAME);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(replica_without_events_has_no_witness),
        T(key_that_is_as_we_left_it_is_the_same),
        T(key_of_a_rewritten_past_is_another),
        T(key_that_is_gone_is_another),
        T(put_is_preferred_and_a_delete_proves_little),
        T(put_that_its_own_revision_deletes_is_not_taken),
        T(key_that_was_changed_at_the_compaction_proves_nothing),
        T(part_without_events_has_its_newest_row),
        T(refused_memory_of_the_newest_row_is_an_error),
        T(refused_memory_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
