/* src/kapi/frames_test.c */
#include "kapi/frames.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/rng.h"
#include "kapi/frames_fixture.h"
#include "support/refuse.h"

/* ---- feeding ---- */

static struct found find_whole(enum belfry_frames_mode mode, const char *text, bool *out_clean)
{
    struct belfry_rng rng = {1};
    return find(mode, belfry_bytes_str(text), ROOMY, strlen(text) + 1, &rng, out_clean);
}

/* `expected` ends with NULL; the same byte by byte. */
static void assert_found(enum belfry_frames_mode mode, const char *text, const char *const *expected,
                         enum belfry_err err, bool clean)
{
    for (size_t piece = 1; piece <= strlen(text) + 1; piece += strlen(text)) {
        struct belfry_rng rng = {1};
        bool is_clean;
        struct found found = find(mode, belfry_bytes_str(text), ROOMY, piece, &rng, &is_clean);
        size_t n = 0;
        for (; expected[n] != NULL; n++) {
            assert_true(n < found.n);
            assert_string_equal(found.texts[n], expected[n]);
        }
        assert_int_equal(found.n, n);
        assert_int_equal(found.err, err);
        assert_int_equal(is_clean, clean);
        free_found(&found);
    }
}

/* ---- values ---- */

static void values_need_nothing_between_them(void **state)
{
    (void)state;
    static const char *const values[] = {"{}", "[{\"a\":1}]", "\"}\"", "12", "{\"b\":\"\\\"\"}", "true", NULL};
    assert_found(BELFRY_FRAMES_VALUES, "{}[{\"a\":1}]\"}\"12{\"b\":\"\\\"\"}true\n", values, BELFRY_ERR_AGAIN, true);
}

static void a_stream_may_end_only_behind_a_value(void **state)
{
    (void)state;
    static const char text[] = " {\"a\":\"b\"}\n\n[1] ";
    static const bool clean[] = {true,  true, false, false, false, false, false, false, false,
                                 false, true, true,  true,  false, false, true,  true};
    for (size_t n = 0; n < sizeof(clean) / sizeof(clean[0]); n++) {
        struct belfry_rng rng = {n};
        bool is_clean;
        struct found found = find(BELFRY_FRAMES_VALUES, belfry_bytes_of(text, n), ROOMY, 3, &rng, &is_clean);
        assert_int_equal(is_clean, clean[n]);
        free_found(&found);
    }
}

static void what_begins_no_value_is_an_error_that_stays(void **state)
{
    (void)state;
    static const char *const texts[] = {"}", "]", ",", ":", "<html>", "upstream", "\x01", "\xEF\xBB\xBF{}", "+1"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        static const char *const before[] = {"{}", NULL};
        char text[32];
        struct belfry_frames *frames;
        struct belfry_bytes frame;
        bool envelope;
        snprintf(text, sizeof(text), "{} %s", texts[i]);
        assert_found(BELFRY_FRAMES_VALUES, text, before, BELFRY_ERR_PROTOCOL, false);
        assert_int_equal(belfry_frames_create(BELFRY_FRAMES_VALUES, ROOMY, &frames), BELFRY_OK);
        assert_int_equal(belfry_frames_feed(frames, belfry_bytes_str(texts[i])), BELFRY_OK);
        for (int k = 0; k < 3; k++) {
            assert_int_equal(belfry_frames_next(frames, &frame, &envelope), BELFRY_ERR_PROTOCOL);
            assert_true(belfry_bytes_equal(belfry_frames_rest(frames), belfry_bytes_str(texts[i])));
            assert_int_equal(belfry_frames_feed(frames, belfry_bytes_str("{}")), BELFRY_OK);
        }
        belfry_frames_destroy(frames);
    }
}

static void a_zero_byte_begins_no_value(void **state)
{
    (void)state;
    struct belfry_rng rng = {1};
    bool clean;
    struct found found = find(BELFRY_FRAMES_VALUES, belfry_bytes_of("\0", 1), ROOMY, 1, &rng, &clean);
    assert_true(found.err == BELFRY_ERR_PROTOCOL && found.n == 0);
}

/* ---- items ---- */

static void only_the_items_of_the_top_object_count(void **state)
{
    (void)state;
    static const char *const frames[] = {"{\"items\":[1]}", "[2]", "\"items\"",
                                         "{\"x\":{\"items\":[{}]},\"a\":\"items\",\"items\":[],\"y\":[\"items\",[1]]}",
                                         NULL};
    assert_found(BELFRY_FRAMES_ITEMS,
                 "{\"x\":{\"items\":[{}]},\"a\":\"items\",\"items\":[ {\"items\":[1]} ,[2],\"items\" ],"
                 "\"y\":[\"items\",[1]]}\n",
                 frames, BELFRY_ERR_AGAIN, true);
}

static void what_is_no_list_comes_whole(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "[{\"items\":[1]},2]", "\"items\"",      "{}", "{\"a\":[1,2]}", "{\"items\":{\"a\":[1]}}",
        "{\"items\":null}",    "{\"Items\":[1]}"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        const char *const frames[] = {texts[i], NULL};
        bool clean;
        assert_found(BELFRY_FRAMES_ITEMS, texts[i], frames, BELFRY_ERR_AGAIN, true);
        struct found found = find_whole(BELFRY_FRAMES_ITEMS, texts[i], &clean);
        assert_true(found.envelope);
        free_found(&found);
    }
}

static void items_are_separated_by_one_comma(void **state)
{
    (void)state;
    static const char *const none[] = {NULL}, *const one[] = {"{}", NULL};
    assert_found(BELFRY_FRAMES_ITEMS, "{\"items\":[,{}]}", none, BELFRY_ERR_PROTOCOL, false);
    assert_found(BELFRY_FRAMES_ITEMS, "{\"items\":[{}{}]}", one, BELFRY_ERR_PROTOCOL, false);
    assert_found(BELFRY_FRAMES_ITEMS, "{\"items\":[{},,{}]}", one, BELFRY_ERR_PROTOCOL, false);
    assert_found(BELFRY_FRAMES_ITEMS, "{\"items\":[{},]}", one, BELFRY_ERR_PROTOCOL, false);
    assert_found(BELFRY_FRAMES_ITEMS, "{\"items\":[{}}", one, BELFRY_ERR_PROTOCOL, false);
    assert_found(BELFRY_FRAMES_ITEMS, "{\"items\":[}", none, BELFRY_ERR_PROTOCOL, false);
}

static void behind_the_envelope_is_nothing(void **state)
{
    (void)state;
    static const char *const envelope[] = {"{\"items\":[]}", NULL};
    assert_found(BELFRY_FRAMES_ITEMS, "{\"items\":[]} {", envelope, BELFRY_ERR_PROTOCOL, false);
    assert_found(BELFRY_FRAMES_ITEMS, "{\"items\":[]", (const char *const[]){NULL}, BELFRY_ERR_AGAIN, false);
    assert_found(BELFRY_FRAMES_ITEMS, " ", (const char *const[]){NULL}, BELFRY_ERR_AGAIN, false);
}

static void the_members_before_the_items_are_known(void **state)
{
    (void)state;
    static const struct {
        const char *text, *passed;
    } cases[] = {
        {"{\"kind\":\"PodList\",\"apiVersion\":\"v1\",\"items\":[{}", "{\"kind\":\"PodList\",\"apiVersion\":\"v1\""},
        {"{ \"a\":[1,2] , \"items\" : [ {}", "{ \"a\":[1,2] "},
        {"{\"items\":[{}", "{"},
        {"{\"items\":[{}],\"a\":1,", "{\"items\":[],\"a\":1"},
        {"{\"items\":[{}],\"a\":1", "{\"items\":[]"},
        {"", ""},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct belfry_frames *frames;
        struct found found = {0};
        assert_int_equal(belfry_frames_create(BELFRY_FRAMES_ITEMS, ROOMY, &frames), BELFRY_OK);
        assert_int_equal(belfry_frames_feed(frames, belfry_bytes_str(cases[i].text)), BELFRY_OK);
        drain(frames, &found);
        assert_true(belfry_bytes_equal(belfry_frames_passed(frames), belfry_bytes_str(cases[i].passed)));
        free_found(&found);
        belfry_frames_destroy(frames);
    }
}

static void a_frame_can_be_asked_for_again(void **state)
{
    (void)state;
    struct belfry_frames *frames;
    struct belfry_bytes frame;
    bool envelope;
    assert_int_equal(belfry_frames_create(BELFRY_FRAMES_ITEMS, ROOMY, &frames), BELFRY_OK);
    assert_int_equal(belfry_frames_feed(frames, belfry_bytes_str("{\"items\":[12,3")), BELFRY_OK);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(belfry_frames_next(frames, &frame, &envelope), BELFRY_OK);
        assert_true(belfry_bytes_equal(frame, belfry_bytes_str("12")) && !envelope);
        belfry_frames_again(frames);
        assert_false(belfry_frames_clean(frames));
        assert_int_equal(belfry_frames_feed(frames, belfry_bytes_str("0")), BELFRY_OK);
    }
    assert_int_equal(belfry_frames_feed(frames, belfry_bytes_str("]}")), BELFRY_OK);
    assert_int_equal(belfry_frames_next(frames, &frame, &envelope), BELFRY_OK);
    assert_int_equal(belfry_frames_next(frames, &frame, &envelope), BELFRY_OK);
    assert_true(belfry_bytes_equal(frame, belfry_bytes_str("3000")) && !envelope);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(belfry_frames_next(frames, &frame, &envelope), BELFRY_OK);
        assert_true(belfry_bytes_equal(frame, belfry_bytes_str("{\"items\":[]}")) && envelope);
        assert_true(belfry_frames_clean(frames)); /* it was given */
        belfry_frames_again(frames);
    }
    belfry_frames_destroy(frames);
}

/* ---- bounds ---- */

/* The longest that may be, and one more byte, for each mode; whole and byte by byte. */
static void a_frame_over_the_limit_is_too_large(void **state)
{
    (void)state;
    static const struct {
        enum belfry_frames_mode mode;
        const char *before, *open, *close, *after;
    } cases[] = {
        {BELFRY_FRAMES_VALUES, "", "[\"", "\"]", " "},
        {BELFRY_FRAMES_VALUES, "{} ", "\"", "\"", "{}"},
        {BELFRY_FRAMES_VALUES, "", "12", "3", " "},
        {BELFRY_FRAMES_ITEMS, "{\"items\":[", "{\"", "\":1}", "]}"},
        {BELFRY_FRAMES_ITEMS, "", "{\"a\":\"", "\",\"items\":[]}", " "},
        {BELFRY_FRAMES_ITEMS, "", "{\"items\":[],\"a\":\"", "\"}", " "},
        {BELFRY_FRAMES_ITEMS, "", "[\"", "\"]", " "},
    };
    const size_t max = 100;
    for (size_t i = 0; i < 4 * sizeof(cases) / sizeof(cases[0]); i++) {
        size_t k = i / 4, len = max + i % 2;
        size_t fill = len - strlen(cases[k].open) - strlen(cases[k].close);
        char digits[128], text[256];
        struct belfry_rng rng = {i};
        bool clean;
        memset(digits, '7', sizeof(digits));
        int n = snprintf(text, sizeof(text), "%s%s%.*s%s%s", cases[k].before, cases[k].open, (int)fill, digits,
                         cases[k].close, cases[k].after);
        struct found found =
            find(cases[k].mode, belfry_bytes_of(text, (size_t)n), max, i % 4 < 2 ? 1 : 300, &rng, &clean);
        assert_int_equal(found.err, i % 2 == 0 ? BELFRY_ERR_AGAIN : BELFRY_ERR_TOO_LARGE);
        assert_int_equal(clean, i % 2 == 0);
        free_found(&found);
    }
}

/* Whatever a server sends without end: memory stays near the limit. */
static void what_never_ends_takes_no_more_than_the_limit(void **state)
{
    (void)state;
    static const struct {
        enum belfry_frames_mode mode;
        const char *begin, *more;
        enum belfry_err err;
    } cases[] = {
        {BELFRY_FRAMES_VALUES, "{\"a\":\"", "xxxxxxxxxxxxxxxx", BELFRY_ERR_TOO_LARGE},
        {BELFRY_FRAMES_VALUES, "", "[[[[[[[[[[[[[[[[", BELFRY_ERR_TOO_LARGE},
        {BELFRY_FRAMES_VALUES, "", "1111111111111111", BELFRY_ERR_TOO_LARGE},
        {BELFRY_FRAMES_VALUES, "", "    \n\n\n\n\t\t\t\t\r\r\r\r", BELFRY_ERR_AGAIN},
        {BELFRY_FRAMES_ITEMS, "{\"a\":\"", "xxxxxxxxxxxxxxxx", BELFRY_ERR_TOO_LARGE},
        {BELFRY_FRAMES_ITEMS, "{", "\"a\":1,    \"b\":2,", BELFRY_ERR_TOO_LARGE},
        {BELFRY_FRAMES_ITEMS, "{\"items\":[{\"a\":\"", "xxxxxxxxxxxxxxxx", BELFRY_ERR_TOO_LARGE},
        {BELFRY_FRAMES_ITEMS, "{\"items\":[1", "                ", BELFRY_ERR_AGAIN},
        {BELFRY_FRAMES_ITEMS, "{\"items\":[1", ",2,3,{}, [] , \"\"", BELFRY_ERR_AGAIN},
        {BELFRY_FRAMES_ITEMS, "{\"items\":[]", "                ", BELFRY_ERR_TOO_LARGE},
        {BELFRY_FRAMES_ITEMS, "{}", "                ", BELFRY_ERR_AGAIN},
    };
    const size_t max = 64 * 1024;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct belfry_frames *frames;
        enum belfry_err err = BELFRY_ERR_AGAIN;
        assert_int_equal(belfry_frames_create(cases[i].mode, max, &frames), BELFRY_OK);
        assert_int_equal(belfry_frames_feed(frames, belfry_bytes_str(cases[i].begin)), BELFRY_OK);
        for (size_t fed = 0; fed < 4 * max; fed += 16) {
            struct belfry_bytes frame;
            bool envelope;
            assert_int_equal(belfry_frames_feed(frames, belfry_bytes_str(cases[i].more)), BELFRY_OK);
            while ((err = belfry_frames_next(frames, &frame, &envelope)) == BELFRY_OK)
                continue;
            assert_true(belfry_frames_held(frames) <= 4 * max);
        }
        assert_int_equal(err, cases[i].err);
        belfry_frames_destroy(frames);
    }
}

static void after_a_large_frame_little_is_kept(void **state)
{
    (void)state;
    struct belfry_frames *frames;
    struct found found = {0};
    char *text = malloc(300000);
    assert_non_null(text);
    memset(text, 'x', 300000);
    text[0] = text[299999] = '"';
    assert_int_equal(belfry_frames_create(BELFRY_FRAMES_VALUES, ROOMY, &frames), BELFRY_OK);
    assert_int_equal(belfry_frames_feed(frames, belfry_bytes_of(text, 300000)), BELFRY_OK);
    assert_true(belfry_frames_held(frames) >= 300000);
    drain(frames, &found);
    assert_int_equal(found.n, 1);
    assert_true(belfry_frames_held(frames) <= 4096);
    free_found(&found);
    free(text);
    belfry_frames_destroy(frames);
}

/* A byte at a time, asked each time: were anything looked at twice, this would take hours. */
static void a_large_frame_in_many_pieces_is_looked_at_once(void **state)
{
    (void)state;
    const size_t half = 1000000;
    struct belfry_frames *frames;
    struct belfry_bytes frame;
    bool envelope;
    assert_int_equal(belfry_frames_create(BELFRY_FRAMES_VALUES, 2 * half, &frames), BELFRY_OK);
    for (size_t i = 0; i < 2 * half; i++) {
        assert_int_equal(belfry_frames_feed(frames, belfry_bytes_str(i < half ? "[" : "]")), BELFRY_OK);
        enum belfry_err err = belfry_frames_next(frames, &frame, &envelope);
        assert_int_equal(err, i + 1 < 2 * half ? BELFRY_ERR_AGAIN : BELFRY_OK);
    }
    assert_int_equal(frame.len, 2 * half);
    belfry_frames_destroy(frames);
}

static enum belfry_err list_in_pieces(void)
{
    static const char text[] = "{\"kind\":\"PodList\",\"items\":[{\"a\":1},{\"b\":2}],\"metadata\":{}}";
    struct belfry_frames *frames;
    size_t n = 0;
    enum belfry_err err = belfry_frames_create(BELFRY_FRAMES_ITEMS, ROOMY, &frames);
    if (err != BELFRY_OK)
        return err;
    for (size_t at = 0; at < strlen(text) && err == BELFRY_OK; at++) {
        struct belfry_bytes frame;
        bool envelope;
        err = belfry_frames_feed(frames, belfry_bytes_of(text + at, 1));
        while (err == BELFRY_OK && (err = belfry_frames_next(frames, &frame, &envelope)) == BELFRY_OK)
            n++;
        if (err == BELFRY_ERR_AGAIN)
            err = BELFRY_OK;
    }
    assert_true(err != BELFRY_OK || (n == 3 && belfry_frames_clean(frames)));
    belfry_frames_destroy(frames);
    return err;
}

static void no_memory_is_an_error(void **state)
{
    (void)state;
    assert_true(refuse_sweep(list_in_pieces) >= 3);
}

/* What could not be kept is asked for again and is what it would have been. */
static void it_goes_on_after_no_memory(void **state)
{
    (void)state;
    static const char text[] = "{\"kind\":\"PodList\",\"items\":[1]}";
    struct belfry_frames *frames;
    struct belfry_bytes frame;
    bool envelope;
    assert_int_equal(belfry_frames_create(BELFRY_FRAMES_ITEMS, ROOMY, &frames), BELFRY_OK);
    assert_int_equal(belfry_frames_feed(frames, belfry_bytes_str(text)), BELFRY_OK);
    refuse_begin(0);
    assert_int_equal(belfry_frames_next(frames, &frame, &envelope), BELFRY_ERR_NOMEM);
    assert_true(refuse_end());
    assert_int_equal(belfry_frames_next(frames, &frame, &envelope), BELFRY_OK);
    assert_true(belfry_bytes_equal(frame, belfry_bytes_str("1")) && !envelope);
    assert_int_equal(belfry_frames_next(frames, &frame, &envelope), BELFRY_OK);
    assert_true(belfry_bytes_equal(frame, belfry_bytes_str("{\"kind\":\"PodList\",\"items\":[]}")) && envelope);
    belfry_frames_destroy(frames);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_need_nothing_between_them),
        cmocka_unit_test(a_stream_may_end_only_behind_a_value),
        cmocka_unit_test(what_begins_no_value_is_an_error_that_stays),
        cmocka_unit_test(a_zero_byte_begins_no_value),
        cmocka_unit_test(only_the_items_of_the_top_object_count),
        cmocka_unit_test(what_is_no_list_comes_whole),
        cmocka_unit_test(items_are_separated_by_one_comma),
        cmocka_unit_test(behind_the_envelope_is_nothing),
        cmocka_unit_test(the_members_before_the_items_are_known),
        cmocka_unit_test(a_frame_can_be_asked_for_again),
        cmocka_unit_test(a_frame_over_the_limit_is_too_large),
        cmocka_unit_test(what_never_ends_takes_no_more_than_the_limit),
        cmocka_unit_test(after_a_large_frame_little_is_kept),
        cmocka_unit_test(a_large_frame_in_many_pieces_is_looked_at_once),
        cmocka_unit_test(no_memory_is_an_error),
        cmocka_unit_test(it_goes_on_after_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
