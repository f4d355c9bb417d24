/* src/serve/sse/sse_state_test.c */
#include "serve/sse/sse_state.h"

#include <stdio.h>

#include "serve/sse/sse_query.h"
#include "serve/sse/sse_store_test.h"
#include "support/refuse.h"

#define STATE(events)   "event: state\ndata: {\"events\":[" events "]}\n\n"
#define PUT(key, value) "{\"op\":\"put\",\"key\":\"" key "\",\"value\":\"" value "\"}"

struct bed {
    struct fakestore *store;
    struct sse_query query;
    struct sse_state state;
    struct belfry_buf text;
};

static enum belfry_err bed_open(struct bed *bed, const char *query)
{
    static struct fakestore store;
    const char *why;
    *bed = (struct bed){.store = &store};
    belfry_buf_init(&bed->text);
    fakestore_init(&store, 10, 0x51);
    enum belfry_err err = sse_query_read(belfry_bytes_str(query), &bed->query, &why);
    struct sse_ranges ranges = {.n = bed->query.n_ranges, .list = bed->query.ranges};
    sse_state_init(&bed->state, &ranges, bed->query.value);
    return err;
}

static void bed_close(struct bed *bed)
{
    sse_state_fini(&bed->state);
    sse_query_fini(&bed->query);
    belfry_buf_fini(&bed->text);
}

static enum belfry_err step(struct bed *bed)
{
    return sse_state_step(&bed->state, &bed->store->store, &bed->text);
}

static enum belfry_err read_all(struct bed *bed)
{
    enum belfry_err err = BELFRY_OK;
    for (int i = 0; err == BELFRY_OK && !sse_state_is_done(&bed->state); i++) {
        assert_true(i < 1000);
        err = step(bed);
    }
    return err;
}

static void assert_text(const struct bed *bed, const char *text)
{
    struct belfry_bytes bytes = belfry_buf_bytes(&bed->text);
    if (!belfry_bytes_equal(bytes, belfry_bytes_str(text)))
        fail_msg("\"%.*s\" is not \"%s\"", (int)bytes.len, bytes.len == 0 ? "" : bytes.data, text);
}

static size_t count_puts(const struct bed *bed)
{
    struct belfry_bytes bytes = belfry_buf_bytes(&bed->text);
    size_t n = 0;
    for (size_t i = 0; i + 4 <= bytes.len; i++)
        n += memcmp(bytes.data + i, "\"op\"", 4) == 0;
    return n;
}

/* Rows "/a/0000", ... of revision 11. */
static void fill(struct bed *bed, size_t n, const char *value)
{
    static char keys[4000][8];
    for (size_t i = 0; i < n; i++) {
        snprintf(keys[i], sizeof(keys[i]), "/a/%04zu", i % 10000);
        fakestore_put(bed->store, 11, keys[i], value);
    }
    bed->store->rev = 11;
}

static void ranges_are_read_one_after_the_other(void **state)
{
    (void)state;
    struct bed bed;
    assert_int_equal(bed_open(&bed, "prefix=/c/&key=/a/1&from=/e&to=/f"), BELFRY_OK);
    static const char *const keys[] = {"/a/1", "/a/11", "/b/1", "/c/1", "/c/2", "/e", "/e/1", "/f"};
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        fakestore_put(bed.store, 9, keys[i], "v");
    assert_int_equal(read_all(&bed), BELFRY_OK);
    assert_text(&bed, STATE(PUT("/c/1", "v") "," PUT("/c/2", "v")) STATE(PUT("/a/1", "v"))
                          STATE(PUT("/e", "v") "," PUT("/e/1", "v")));
    assert_int_equal(bed.state.n, 5);
    assert_int_equal(bed.state.rev, 10);
    assert_int_equal(bed.state.cluster_id, 0x51);
    bed_close(&bed);
}

static void key_of_two_ranges_is_given_once(void **state)
{
    (void)state;
    struct bed bed;
    assert_int_equal(bed_open(&bed, "prefix=/a/b&prefix=/a&prefix=&key=/a/b"), BELFRY_OK);
    static const char *const keys[] = {"/a/a", "/a/b", "/a/c", "/b"};
    for (size_t i = 0; i < 4; i++)
        fakestore_put(bed.store, 9, keys[i], "v");
    assert_int_equal(read_all(&bed), BELFRY_OK);
    assert_text(&bed, STATE(PUT("/a/b", "v")) STATE(PUT("/a/a", "v") "," PUT("/a/c", "v")) STATE(PUT("/b", "v")));
    assert_int_equal(bed.state.n, 4);
    bed_close(&bed);
}

static void state_without_keys_has_no_message(void **state)
{
    (void)state;
    struct bed bed;
    assert_int_equal(bed_open(&bed, "prefix=/c/&prefix=/d/"), BELFRY_OK);
    assert_int_equal(read_all(&bed), BELFRY_OK);
    assert_text(&bed, "");
    assert_int_equal(bed.state.n, 0);
    assert_int_equal(bed.state.rev, 10);
    bed_close(&bed);
}

static void parts_are_small_and_miss_nothing(void **state)
{
    (void)state;
    for (int is_long = 0; is_long < 2; is_long++) {
        struct bed bed;
        assert_int_equal(bed_open(&bed, "prefix=/a/&prefix=/a/1"), BELFRY_OK);
        fill(&bed, 1500,
             is_long ? "a value that is so long that bytes and not rows end a step: aaaaaaaaaaaaaaaaaaaa" : "v");
        size_t steps = 0, before = 0;
        for (; !sse_state_is_done(&bed.state); steps++) {
            assert_int_equal(step(&bed), BELFRY_OK);
            assert_true(belfry_buf_len(&bed.text) - before < 2 * SSE_STATE_BYTES);
            before = belfry_buf_len(&bed.text);
        }
        assert_int_equal(count_puts(&bed), 1500);
        assert_int_equal(bed.state.n, 1500);
        assert_true(steps > 1500 / SSE_STATE_ROWS);
        bed_close(&bed);
    }
}

static void all_parts_are_of_the_first_ones_revision(void **state)
{
    (void)state;
    struct bed bed;
    assert_int_equal(bed_open(&bed, "prefix=/a/&key=/b"), BELFRY_OK);
    fill(&bed, 600, "v");
    fakestore_put(bed.store, 11, "/b", "before");
    assert_int_equal(step(&bed), BELFRY_OK);
    fakestore_put(bed.store, 12, "/b", "after");
    fakestore_put(bed.store, 12, "/a/0599", NULL);
    fakestore_put(bed.store, 12, "/a/0599x", "new");
    bed.store->rev = 12;
    assert_int_equal(read_all(&bed), BELFRY_OK);
    assert_int_equal(count_puts(&bed), 601);
    assert_int_equal(bed.state.rev, 11);
    struct belfry_bytes text = belfry_buf_bytes(&bed.text);
    assert_non_null(memmem(text.data, text.len, "before", 6));
    assert_null(memmem(text.data, text.len, "after", 5));
    assert_null(memmem(text.data, text.len, "new", 3));
    bed_close(&bed);
}

static void read_that_finds_no_row_in_time_goes_on(void **state)
{
    (void)state;
    struct bed bed;
    assert_int_equal(bed_open(&bed, "prefix=/a/"), BELFRY_OK);
    fill(&bed, 600, "v");
    assert_int_equal(step(&bed), BELFRY_OK);
    bed.store->idle = 3;
    assert_int_equal(read_all(&bed), BELFRY_OK);
    assert_int_equal(count_puts(&bed), 600);
    bed_close(&bed);
}

static void revision_that_is_gone_is_an_error(void **state)
{
    (void)state;
    struct bed bed;
    assert_int_equal(bed_open(&bed, "prefix=/a/"), BELFRY_OK);
    fill(&bed, 600, "v");
    assert_int_equal(step(&bed), BELFRY_OK);
    size_t before = belfry_buf_len(&bed.text);
    bed.store->rev = bed.store->oldest = 12;
    assert_int_equal(step(&bed), BELFRY_ERR_COMPACTED);
    assert_int_equal(belfry_buf_len(&bed.text), before);
    bed_close(&bed);
}

static void past_that_was_rewritten_is_an_error(void **state)
{
    (void)state;
    for (int is_lower = 0; is_lower < 2; is_lower++) {
        struct bed bed;
        assert_int_equal(bed_open(&bed, "prefix=/a/"), BELFRY_OK);
        fill(&bed, 600, "v");
        assert_int_equal(step(&bed), BELFRY_OK);
        size_t before = belfry_buf_len(&bed.text);
        bed.store->past++;
        bed.store->rev = is_lower ? 10 : 20; /* a revision that it has not, and one that it has */
        assert_int_equal(step(&bed), BELFRY_ERR_CANCELED);
        assert_int_equal(belfry_buf_len(&bed.text), before);
        bed_close(&bed);
    }
}

static void empty_store_is_an_error(void **state)
{
    (void)state;
    struct bed bed;
    assert_int_equal(bed_open(&bed, "prefix=/a/"), BELFRY_OK);
    bed.store->rev = 0;
    assert_int_equal(step(&bed), BELFRY_ERR_AGAIN);
    bed.store->err = BELFRY_ERR_IO;
    assert_int_equal(step(&bed), BELFRY_ERR_IO);
    bed_close(&bed);
}

static enum belfry_err scenario(void)
{
    struct bed bed;
    enum belfry_err err = bed_open(&bed, "prefix=/a/&prefix=/&value=base64");
    fill(&bed, 600, "v");
    if (err == BELFRY_OK)
        err = read_all(&bed);
    if (err == BELFRY_OK)
        assert_int_equal(count_puts(&bed), 600);
    bed_close(&bed);
    return err;
}

static void every_refused_allocation_is_survived(void **state)
{
    (void)state;
    assert_true(refuse_sweep(scenario) > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges_are_read_one_after_the_other),
        cmocka_unit_test(key_of_two_ranges_is_given_once),
        cmocka_unit_test(state_without_keys_has_no_message),
        cmocka_unit_test(parts_are_small_and_miss_nothing),
        cmocka_unit_test(all_parts_are_of_the_first_ones_revision),
        cmocka_unit_test(read_that_finds_no_row_in_time_goes_on),
        cmocka_unit_test(revision_that_is_gone_is_an_error),
        cmocka_unit_test(past_that_was_rewritten_is_an_error),
        cmocka_unit_test(empty_store_is_an_error),
        cmocka_unit_test(every_refused_allocation_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
