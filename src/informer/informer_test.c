/* src/informer/informer_test.c: the public informer, word by word of its source. */
#include "informer/informer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/informerbed.h"

/* ---- word by word ---- */

static void what_the_source_tells_is_in_the_store_and_told(void **state)
{
    (void)state;
    struct listener *one = open_one();
    settle();
    say_begin();
    write_key(1);
    write_key(2);
    assert_int_equal(belfry_informer_synced(bed.informer), 0);
    say_synced();
    assert_int_equal(belfry_informer_synced(bed.informer), 1);
    assert_int_equal(one->n[BELFRY_NEWS_SYNCED], 1);
    assert_int_equal(one->n_initial, 2);
    write_key(2);
    write_key(3);
    remove_key(1, false, false);
    assert_int_equal(one->n[BELFRY_NEWS_ADDED], 3);
    assert_int_equal(one->n_initial, 2);
    assert_int_equal(one->n[BELFRY_NEWS_UPDATED], 1);
    assert_int_equal(one->n[BELFRY_NEWS_REMOVED], 1);
    assert_int_equal(belfry_informer_count(bed.informer), 2);
    assert_holds_the_truth(one);
    const struct belfry_object *at = belfry_informer_next(bed.informer, belfry_bytes_str("k"), NULL);
    assert_int_equal(key_number(at), 2);
    at = belfry_informer_next(bed.informer, belfry_bytes_str("k"), at);
    assert_int_equal(key_number(at), 3);
    assert_null(belfry_informer_next(bed.informer, belfry_bytes_str("k"), at));
    close_informer();
}

static void an_object_listed_anew_that_did_not_change_is_not_told(void **state)
{
    (void)state;
    struct listener *one = open_one();
    settle();
    write_key(1);
    write_key(2);
    say_synced();
    bed.truth[2] = ++bed.rev; /* while the source looked away */
    list_all();
    assert_int_equal(one->n[BELFRY_NEWS_ADDED], 2);
    assert_int_equal(one->n[BELFRY_NEWS_UPDATED], 1);
    assert_int_equal(one->n[BELFRY_NEWS_SYNCED], 2);
    assert_int_equal(belfry_informer_get_stats(bed.informer)->changes, 3);
    assert_holds_the_truth(one);
}

static void what_has_vanished_is_told_as_missed_in_slices_before_synced(void **state)
{
    (void)state;
    struct listener *one = open_one();
    settle();
    for (int key = 0; key < KEYS; key++)
        write_key(key);
    say_synced();
    for (int key = 0; key < KEYS - 1; key++)
        bed.truth[key] = 0;
    list_all();
    assert_int_equal(one->n_missed, BELFRY_INFORMER_SWEEP);
    assert_int_equal(one->n[BELFRY_NEWS_SYNCED], 1);
    remove_key(KEYS - 3, false, false); /* removed by the source before the sweep came there: not missed */
    write_key(KEYS - 2);                /* came back before it was swept */
    write_key(0);                       /* came back after */
    assert_int_equal(one->n[BELFRY_NEWS_UPDATED], 1);
    assert_int_equal(one->n[BELFRY_NEWS_ADDED], KEYS + 1);
    settle();
    assert_int_equal(one->n_missed, KEYS - 3);
    assert_int_equal(one->n[BELFRY_NEWS_REMOVED], KEYS - 2);
    assert_int_equal(one->n[BELFRY_NEWS_SYNCED], 2);
    assert_holds_the_truth(one);
}

static void a_listing_that_begins_during_a_sweep_includes_it(void **state)
{
    (void)state;
    struct listener *one = open_one();
    settle();
    for (int key = 0; key < KEYS; key++)
        write_key(key);
    say_synced();
    memset(bed.truth, 0, sizeof(bed.truth));
    list_all(); /* the sweep has begun */
    assert_true(one->n_missed < KEYS);
    write_key(5);
    list_all();
    settle();
    assert_int_equal(one->n[BELFRY_NEWS_SYNCED], 2); /* one for both listings */
    assert_holds_the_truth(one);
}

static void a_removal_tells_the_last_state_if_there_is_one(void **state)
{
    (void)state;
    struct listener *one = open_one();
    settle();
    write_key(1);
    write_key(2);
    remove_key(1, true, false);
    assert_int_equal(one->last_rev, bed.rev); /* newer than what the store had */
    remove_key(2, false, true);
    assert_int_equal(one->last_rev, 2);
    assert_int_equal(one->n_missed, 1);
    remove_key(3, true, false); /* of what the store does not have nothing is told */
    remove_key(3, false, false);
    assert_int_equal(one->n[BELFRY_NEWS_REMOVED], 2);
}

static void link_is_told_to_everybody(void **state)
{
    (void)state;
    struct listener *one = open_one(), *two = add();
    say_link(BELFRY_ERR_DENIED, "403: pods is forbidden");
    assert_string_equal(one->why, "403: pods is forbidden");
    assert_int_equal(one->err, BELFRY_ERR_DENIED);
    assert_string_equal(two->why, "403: pods is forbidden");
}

static void a_pause_holds_store_and_source_until_it_is_resumed(void **state)
{
    (void)state;
    struct listener *one = open_one(), *two = add();
    settle();
    belfry_informer_resume(bed.informer); /* without a pause: nothing */
    one->answer = BELFRY_PAUSE;
    write_key(1);
    assert_true(bed.source_paused);
    assert_int_equal(two->n[BELFRY_NEWS_ADDED], 1); /* after all were told */
    write_key(2);                                   /* the rest of the batch */
    write_key(1);
    remove_key(1, true, true);
    say_link(BELFRY_OK, "connected");
    struct listener *three = add();
    settle();
    assert_int_equal(belfry_informer_count(bed.informer), 1);
    assert_int_equal(one->n[BELFRY_NEWS_ADDED] + one->n[BELFRY_NEWS_UPDATED] + one->n[BELFRY_NEWS_LINK], 1);
    assert_int_equal(three->n[BELFRY_NEWS_ADDED], 0);
    belfry_informer_resume(bed.informer);
    assert_int_equal(one->n[BELFRY_NEWS_ADDED], 1); /* from the loop only */
    settle();
    assert_false(bed.source_paused);
    assert_int_equal(bed.n_resumes, 1);
    assert_int_equal(one->n[BELFRY_NEWS_UPDATED], 1);
    assert_int_equal(one->n_missed, 1);
    for (int i = 0; i < 3; i++)
        assert_holds_the_truth(&bed.listeners[i]);
}

static void a_pause_in_what_was_kept_keeps_the_rest(void **state)
{
    (void)state;
    struct listener *one = open_one();
    settle();
    one->answer = BELFRY_PAUSE;
    write_key(1);
    write_key(2);
    write_key(3);
    say_synced();
    for (int n = 1; n <= 3; n++) {
        assert_int_equal(belfry_informer_count(bed.informer), n);
        one->answer = BELFRY_PAUSE;
        belfry_informer_resume(bed.informer);
        settle();
        assert_int_equal(bed.n_pauses, 1); /* it stayed paused all the time */
    }
    assert_int_equal(one->n[BELFRY_NEWS_SYNCED], 1);
    belfry_informer_resume(bed.informer);
    settle();
    assert_int_equal(bed.n_resumes, 1);
    assert_holds_the_truth(one);
}

static void nothing_overtakes_what_was_kept(void **state)
{
    (void)state;
    struct listener *one = open_one();
    settle();
    one->answer = BELFRY_PAUSE;
    write_key(1);
    write_key(1);
    remove_key(1, false, false);
    belfry_informer_resume(bed.informer);
    write_key(1); /* before the loop came to what was kept */
    assert_int_equal(one->n[BELFRY_NEWS_UPDATED], 0);
    settle();
    assert_int_equal(one->n[BELFRY_NEWS_UPDATED], 1);
    assert_int_equal(one->n[BELFRY_NEWS_REMOVED], 1);
    assert_int_equal(one->n[BELFRY_NEWS_ADDED], 2);
    assert_holds_the_truth(one);
}

static void a_pause_holds_a_sweep(void **state)
{
    (void)state;
    struct listener *one = open_one();
    settle();
    write_key(1);
    write_key(2);
    say_synced();
    memset(bed.truth, 0, sizeof(bed.truth));
    one->answer = BELFRY_PAUSE;
    list_all();
    settle();
    assert_int_equal(belfry_informer_count(bed.informer), 1);
    assert_int_equal(one->n[BELFRY_NEWS_SYNCED], 1);
    belfry_informer_resume(bed.informer);
    settle();
    assert_int_equal(belfry_informer_count(bed.informer), 0);
    assert_int_equal(one->n[BELFRY_NEWS_SYNCED], 2);
}

static void resume_now(struct listener *listener)
{
    (void)listener;
    belfry_informer_resume(bed.informer);
}

static void one_handler_may_resume_what_another_paused(void **state)
{
    (void)state;
    struct listener *one = open_one(), *two = add();
    settle();
    one->answer = BELFRY_PAUSE;
    bed.act = resume_now;
    bed.act_at = bed.n_calls + 1; /* two's call for the same news */
    write_key(1);
    write_key(2);
    assert_int_equal(bed.n_pauses, 0);
    assert_holds_the_truth(one);
    assert_holds_the_truth(two);
}

static void a_late_handler_is_told_what_is_there(void **state)
{
    (void)state;
    struct listener *one = open_one();
    settle();
    for (int key = 0; key < KEYS; key++)
        write_key(key);
    say_synced();
    struct listener *late = add();
    assert_int_equal(late->n[BELFRY_NEWS_ADDED], 0); /* never from inside a call */
    settle();
    assert_int_equal(late->n_initial, KEYS);
    assert_int_equal(late->n[BELFRY_NEWS_SYNCED], 1);
    assert_int_equal(belfry_handler_synced(late->handler), 1);
    late->answer = BELFRY_STOP;
    write_key(1);
    write_key(1);
    assert_int_equal(late->n[BELFRY_NEWS_UPDATED], 1);
    assert_int_equal(one->n[BELFRY_NEWS_UPDATED], 2);
}

static void resyncs_come_by_the_clock(void **state)
{
    (void)state;
    struct listener *one = open_with("resync", "20ms");
    settle();
    write_key(1);
    say_synced();
    uint64_t end = belfry_clock_ms() + 8000;
    while (one->n_resync < 3 && belfry_clock_ms() < end)
        belfry_ignore((enum belfry_err)belfry_run(bed.b, 5)); /* it times out: the informer stays */
    assert_true(one->n_resync >= 3);
    assert_int_equal(one->n[BELFRY_NEWS_UPDATED], one->n_resync);
    assert_int_equal(one->n[BELFRY_NEWS_SYNCED], 1);
}

/* ---- options, indexes, numbers ---- */

static void options_must_be_for_it(void **state)
{
    (void)state;
    open_one();
    struct belfry_opts *opts = NULL;
    struct belfry_informer *other = NULL;
    assert_int_equal(belfry_opts_set(&opts, "max-bytes", "1MiB"), BELFRY_OK);
    assert_int_equal(belfry_informer_add(bed.informer, opts, on_news, NULL, NULL), BELFRY_ERR_INVALID);
    assert_int_equal(belfry_informer_add(bed.informer, NULL, NULL, NULL, NULL), BELFRY_ERR_INVALID);
    belfry_opts_free(opts);
    opts = NULL;
    assert_int_equal(belfry_opts_set(&opts, "chunk-size", "7"), BELFRY_OK);
    assert_int_equal(belfry_informer_create(bed.b, opts, BELFRY_FOR_INFORMER_KEYS, NULL, NULL, &other),
                     BELFRY_ERR_INVALID);
    assert_null(other);
    belfry_opts_free(opts);
}

static void first_digit(const struct belfry_object *object, struct belfry_index_values *values, void *user)
{
    (void)user;
    belfry_index_add(values, belfry_bytes_of(belfry_object_key(object).data + 4, 1));
}

static size_t count_by(const char *name, const char *value)
{
    size_t n = 0;
    const struct belfry_object *at = NULL;
    while ((at = belfry_informer_by(bed.informer, name, belfry_bytes_str(value), at)) != NULL)
        n++;
    return n;
}

static void indexes_find_by_functions_and_by_paths(void **state)
{
    (void)state;
    open_one();
    for (int key = 0; key < 12; key++)
        write_key(key);
    assert_int_equal(belfry_informer_index(bed.informer, "digit", first_digit, NULL), BELFRY_OK);
    assert_int_equal(belfry_informer_index_path(bed.informer, "n", ".n"), BELFRY_OK);
    assert_int_equal(belfry_informer_index_path(bed.informer, "tag", ".tags[*]"), BELFRY_OK);
    assert_int_equal(belfry_informer_index_path(bed.informer, "tags", ".tags"), BELFRY_OK);
    assert_int_equal(belfry_informer_index_path(bed.informer, "tag", ".n"), BELFRY_ERR_INVALID);
    assert_int_equal(belfry_informer_index_path(bed.informer, "bad", ".n["), BELFRY_ERR_INVALID);
    write_key(13);
    assert_int_equal(count_by("digit", "1"), 2);
    assert_int_equal(count_by("digit", "3"), 2);
    assert_int_equal(count_by("n", "13"), 1);
    assert_int_equal(count_by("tag", "all"), 13);
    assert_int_equal(count_by("tag", "t1"), 5);
    assert_int_equal(count_by("tags", "[\"t1\",\"all\"]"), 5);
    remove_key(13, false, false);
    assert_int_equal(count_by("tag", "t1"), 4);
    assert_int_equal(count_by("n", "13"), 0);
    assert_null(belfry_informer_by(bed.informer, "nobody", belfry_bytes_str(""), NULL));
}

static void put_value(const char *value)
{
    struct belfry_object *object;
    struct belfry_object_key_value kv = {.key = key_name(1), .value = belfry_bytes_str(value), .rev = ++bed.rev};
    assert_int_equal(belfry_object_of_key(&kv, &object), BELFRY_OK);
    EVENTS->put(object, bed.informer);
}

static void a_path_finds_what_json_at_finds(void **state)
{
    (void)state;
    static const struct {
        const char *json, *value;
        size_t n;
    } rows[] = {{"{\"a\":\"t\\u00e9\\n\"}", "t\xc3\xa9\n", 1},
                {"{\"a\":12345678901234567890123}", "12345678901234567890123", 1},
                {"{\"a\":1.50}", "1.50", 1},
                {"{\"a\":true}", "true", 1},
                {"{\"a\":{\"b\":[1,null]}}", "{\"b\":[1,null]}", 1},
                {"{\"a\":\"\"}", "", 1},
                {"{\"a\":null}", "null", 0},
                {"{\"b\":1}", "1", 0},
                {"not JSON", "", 0}};
    open_one();
    assert_int_equal(belfry_informer_index_path(bed.informer, "a", ".a"), BELFRY_OK);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        put_value(rows[i].json);
        assert_int_equal(count_by("a", rows[i].value), rows[i].n);
    }
}

static void it_has_numbers(void **state)
{
    (void)state;
    open_one();
    settle();
    write_key(1);
    write_key(1);
    EVENTS->undecoded("no name", bed.informer);
    bed.counts = (struct belfry_source_counts){.lists = 3, .relists = 2, .watches = 7, .retries = 5};
    const struct belfry_informer_stats *stats = belfry_informer_get_stats(bed.informer);
    assert_int_equal(stats->objects, 1);
    assert_true(stats->bytes > stats->object_bytes && stats->object_bytes > 5);
    assert_int_equal(stats->changes, 2);
    assert_int_equal(stats->undecoded, 1);
    assert_int_equal(stats->lists, 3);
    assert_int_equal(stats->relists, 2);
    assert_int_equal(stats->watches, 7);
    assert_int_equal(stats->retries, 5);
}

/* ---- ends ---- */

static void over_max_bytes_it_ends_and_says_both_numbers(void **state)
{
    (void)state;
    struct listener *one = open_with("max-bytes", "4KiB"), *two = add();
    settle();
    for (int key = 0; key < KEYS; key++)
        write_key(key);
    assert_int_equal(one->err, BELFRY_ERR_LIMIT);
    assert_int_equal(two->n[BELFRY_NEWS_END], 1);
    size_t takes = 0, max = 0;
    assert_int_equal(sscanf(one->why, "the store takes %zu bytes, more than max-bytes, which is %zu", &takes, &max), 2);
    assert_in_range(takes, 4097, 4400);
    assert_int_equal(max, 4096);
    assert_true(bed.source_closed);
    assert_in_range(one->n[BELFRY_NEWS_ADDED], 5, 40);
    assert_int_equal(belfry_run(bed.b, 1000), BELFRY_OK); /* nothing is left on the session */
}

static void the_last_word_of_the_source_is_told_to_everybody(void **state)
{
    (void)state;
    struct listener *one = open_one(), *two = add();
    EVENTS->end(BELFRY_ERR_DENIED, "no", bed.informer);
    assert_int_equal(one->n[BELFRY_NEWS_END], 1);
    assert_int_equal(one->err, BELFRY_ERR_DENIED);
    assert_string_equal(two->why, "no");
    assert_true(bed.source_closed);
}

static void the_end_is_told_to_a_paused_informer_too(void **state)
{
    (void)state;
    struct listener *one = open_one();
    settle();
    one->answer = BELFRY_PAUSE;
    write_key(1);
    write_key(2);
    EVENTS->end(BELFRY_ERR_NOMEM, "no", bed.informer);
    assert_int_equal(one->n[BELFRY_NEWS_END], 1);
}

static int adding_at_the_end;

static void add_at_the_end(struct listener *listener)
{
    struct belfry_informer *other;
    assert_int_equal(listener->n[BELFRY_NEWS_END], 1);
    adding_at_the_end = belfry_informer_add(bed.informer, NULL, on_news, listener, NULL);
    assert_int_equal(belfry_informer_count(bed.informer), 1); /* it can still be read */
    assert_int_equal(belfry_informer_create(bed.b, NULL, BELFRY_FOR_INFORMER_KEYS, NULL, NULL, &other),
                     BELFRY_ERR_CANCELED);
}

static void closing_the_session_ends_it_with_canceled(void **state)
{
    (void)state;
    struct listener *one = open_one();
    settle();
    write_key(1);
    bed.act = add_at_the_end;
    bed.act_at = bed.n_calls;
    belfry_close(bed.b);
    bed.b = NULL;
    assert_int_equal(one->n[BELFRY_NEWS_END], 1);
    assert_int_equal(one->err, BELFRY_ERR_CANCELED);
    assert_int_equal(adding_at_the_end, BELFRY_ERR_CANCELED);
}

static void run_waits_for_an_informer(void **state)
{
    (void)state;
    open_one();
    assert_int_equal(belfry_run(bed.b, 10), BELFRY_ERR_TIMEOUT);
    close_informer();
    assert_int_equal(belfry_run(bed.b, 1000), BELFRY_OK);
    belfry_informer_close(NULL);
    belfry_handler_remove(NULL);
}

#define TEST(name) cmocka_unit_test_teardown(name, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_the_source_tells_is_in_the_store_and_told),
        TEST(an_object_listed_anew_that_did_not_change_is_not_told),
        TEST(what_has_vanished_is_told_as_missed_in_slices_before_synced),
        TEST(a_listing_that_begins_during_a_sweep_includes_it),
        TEST(a_removal_tells_the_last_state_if_there_is_one),
        TEST(link_is_told_to_everybody),
        TEST(a_pause_holds_store_and_source_until_it_is_resumed),
        TEST(a_pause_in_what_was_kept_keeps_the_rest),
        TEST(nothing_overtakes_what_was_kept),
        TEST(a_pause_holds_a_sweep),
        TEST(one_handler_may_resume_what_another_paused),
        TEST(a_late_handler_is_told_what_is_there),
        TEST(resyncs_come_by_the_clock),
        TEST(options_must_be_for_it),
        TEST(indexes_find_by_functions_and_by_paths),
        TEST(a_path_finds_what_json_at_finds),
        TEST(it_has_numbers),
        TEST(over_max_bytes_it_ends_and_says_both_numbers),
        TEST(the_last_word_of_the_source_is_told_to_everybody),
        TEST(the_end_is_told_to_a_paused_informer_too),
        TEST(closing_the_session_ends_it_with_canceled),
        TEST(run_waits_for_an_informer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
