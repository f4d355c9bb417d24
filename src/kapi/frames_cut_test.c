/* src/kapi/frames_cut_test.c: random JSON, cut at random places: the pieces give the same frames as the whole. */
#include "kapi/frames.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>
#include <yyjson.h>

#include "base/rng.h"
#include "kapi/frames_fixture.h"

#define SEEDS     3000
#define DEPTH_MAX 5

/* ---- random JSON ---- */

static void put(struct belfry_buf *buf, const char *text)
{
    assert_int_equal(belfry_buf_append(buf, text, strlen(text)), BELFRY_OK);
}

static const char *one_of(struct belfry_rng *rng, const char *const *texts, size_t n)
{
    return texts[belfry_rng_below(rng, n)];
}

static void put_space(struct belfry_buf *buf, struct belfry_rng *rng)
{
    static const char *const spaces[] = {"", "", "", " ", "\n", "\t \r\n"};
    put(buf, one_of(rng, spaces, 6));
}

static void put_string(struct belfry_buf *buf, struct belfry_rng *rng)
{
    static const char *const pieces[] = {"a",        "items",
                                         "\\\"",     "\\\\",
                                         "\\u0022",  "\\n",
                                         "{",        "}",
                                         "[",        "]",
                                         ",",        ":",
                                         "\xC3\xA9", "\\ud83d\\ude00",
                                         "\\/",      "a longer piece of text without anything special in it"};
    put(buf, "\"");
    for (size_t n = belfry_rng_below(rng, 5); n > 0; n--)
        put(buf, one_of(rng, pieces, sizeof(pieces) / sizeof(pieces[0])));
    put(buf, "\"");
}

static void put_value(struct belfry_buf *buf, struct belfry_rng *rng, unsigned depth)
{
    static const char *const words[] = {"true", "false", "null", "0", "-1.5e+3", "18446744073709551616"};
    uint64_t kind = belfry_rng_below(rng, depth < DEPTH_MAX ? 5 : 2);
    if (kind == 0)
        put(buf, one_of(rng, words, 6));
    else if (kind == 1)
        put_string(buf, rng);
    if (kind < 2)
        return;
    bool object = kind < 4;
    put(buf, object ? "{" : "[");
    put_space(buf, rng);
    for (size_t n = belfry_rng_below(rng, 4); n > 0; n--) {
        if (object) {
            put_string(buf, rng);
            put_space(buf, rng);
            put(buf, ":");
            put_space(buf, rng);
        }
        put_value(buf, rng, depth + 1);
        put_space(buf, rng);
        if (n > 1)
            put(buf, ",");
        put_space(buf, rng);
    }
    put(buf, object ? "}" : "]");
}

/* ---- the whole and its pieces ---- */

static void values_are_found_however_they_are_cut(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct belfry_rng rng = {seed};
        struct belfry_buf text, value;
        char *values[TEXTS_MAX];
        size_t n = belfry_rng_below(&rng, 6);
        bool clean;
        belfry_buf_init(&text);
        for (size_t i = 0; i < n; i++) {
            belfry_buf_init(&value);
            put_value(&value, &rng, 0);
            values[i] = strndup((const char *)value.data, belfry_buf_len(&value));
            put_space(&text, &rng);
            put(&text, values[i]);
            put(&text, " "); /* numbers need it */
            belfry_buf_fini(&value);
        }
        size_t piece_max = seed % 3 == 0 ? 1 : 1 + belfry_rng_below(&rng, 200);
        struct found found = find(BELFRY_FRAMES_VALUES, belfry_buf_bytes(&text), ROOMY, piece_max, &rng, &clean);
        assert_true(clean && found.err == BELFRY_ERR_AGAIN && found.n == n);
        for (size_t i = 0; i < n; i++) {
            assert_string_equal(found.texts[i], values[i]);
            free(values[i]);
        }
        free_found(&found);
        belfry_buf_fini(&text);
    }
}

/* An object with items in a random place among random members; *out_items is how many, SIZE_MAX: no array. */
static void put_list(struct belfry_buf *buf, struct belfry_rng *rng, size_t *out_items)
{
    size_t members = belfry_rng_below(rng, 4), place = belfry_rng_below(rng, members + 1);
    *out_items = SIZE_MAX;
    put(buf, "{");
    for (size_t i = 0; i <= members; i++) {
        char name[16];
        snprintf(name, sizeof(name), "\"m%zu\"", i);
        put_space(buf, rng);
        put(buf, i == place ? (belfry_rng_below(rng, 8) == 0 ? "\"\\u0069tem\\u0073\"" : "\"items\"") : name);
        put_space(buf, rng);
        put(buf, ":");
        put_space(buf, rng);
        if (i != place || belfry_rng_below(rng, 8) == 0) {
            put(buf, i == place ? "null" : "");
            if (i != place)
                put_value(buf, rng, 1);
        } else {
            *out_items = belfry_rng_below(rng, 6);
            put(buf, "[");
            put_space(buf, rng);
            for (size_t k = 0; k < *out_items; k++) {
                put_value(buf, rng, 1);
                put_space(buf, rng);
                put(buf, k + 1 < *out_items ? "," : "");
                put_space(buf, rng);
            }
            put(buf, "]");
        }
        put_space(buf, rng);
        put(buf, i < members ? "," : "}");
    }
}

static yyjson_doc *read_json(const char *text)
{
    yyjson_doc *doc = yyjson_read(text, strlen(text), YYJSON_READ_NUMBER_AS_RAW);
    assert_non_null(doc);
    return doc;
}

/* The frames are the elements, and the envelope is the object with none of them. */
static void assert_is_list(const struct found *found, struct belfry_bytes text, size_t n_items)
{
    yyjson_doc *whole = yyjson_read(text.data, text.len, YYJSON_READ_NUMBER_AS_RAW);
    assert_non_null(whole);
    yyjson_val *items = yyjson_obj_get(yyjson_doc_get_root(whole), "items");
    size_t n = n_items == SIZE_MAX ? 0 : n_items;
    assert_true(found->n == n + 1 && found->envelope && yyjson_arr_size(items) == n);
    for (size_t i = 0; i < n; i++) {
        yyjson_doc *item = read_json(found->texts[i]);
        assert_true(yyjson_equals(yyjson_doc_get_root(item), yyjson_arr_get(items, i)));
        yyjson_doc_free(item);
    }
    yyjson_doc *envelope = read_json(found->texts[n]);
    yyjson_val *left = yyjson_obj_get(yyjson_doc_get_root(envelope), "items");
    assert_true(n_items == SIZE_MAX ? yyjson_is_null(left) : yyjson_is_arr(left) && yyjson_arr_size(left) == 0);
    yyjson_obj_iter members = yyjson_obj_iter_with(yyjson_doc_get_root(whole));
    for (yyjson_val *name; (name = yyjson_obj_iter_next(&members)) != NULL;) {
        yyjson_val *in_envelope = yyjson_obj_get(yyjson_doc_get_root(envelope), yyjson_get_str(name));
        assert_true(yyjson_equals_str(name, "items") || yyjson_equals(yyjson_obj_iter_get_val(name), in_envelope));
    }
    assert_int_equal(yyjson_obj_size(yyjson_doc_get_root(whole)), yyjson_obj_size(yyjson_doc_get_root(envelope)));
    yyjson_doc_free(envelope);
    yyjson_doc_free(whole);
}

static void items_are_found_however_they_are_cut(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct belfry_rng rng = {seed};
        struct belfry_buf text;
        size_t n_items;
        bool clean;
        belfry_buf_init(&text);
        put_space(&text, &rng);
        put_list(&text, &rng, &n_items);
        put_space(&text, &rng);
        size_t piece_max = seed % 3 == 0 ? 1 : 1 + belfry_rng_below(&rng, 200);
        struct found found = find(BELFRY_FRAMES_ITEMS, belfry_buf_bytes(&text), ROOMY, piece_max, &rng, &clean);
        assert_true(clean && found.err == BELFRY_ERR_AGAIN);
        assert_is_list(&found, belfry_buf_bytes(&text), n_items);
        free_found(&found);
        belfry_buf_fini(&text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_found_however_they_are_cut),
        cmocka_unit_test(items_are_found_however_they_are_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
