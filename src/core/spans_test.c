/* src/core/spans_test.c */
#include "core/spans.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/list.h"
#include "base/rng.h"

#define SEED    9u
#define N_ITEMS 300

struct item {
    struct span span;
    char key[4], end[4];
    bool in;
    int found;
};

static struct item items[N_ITEMS];

static size_t word(struct belfry_rng *rng, char *to)
{
    static const char letters[] = {'\0', 'a', 'b', 'c', '\xff'};
    size_t len = belfry_rng_below(rng, 4);
    for (size_t i = 0; i < len; i++)
        to[i] = letters[belfry_rng_below(rng, sizeof(letters))];
    return len;
}

static bool is_in(const struct item *item)
{
    for (size_t i = 0; i < N_ITEMS; i++) {
        const struct span *other = &items[i].span;
        if (items[i].in && belfry_bytes_equal(other->key, item->span.key) &&
            belfry_bytes_equal(other->end, item->span.end))
            return true;
    }
    return false;
}

static void put_in(struct item *item, struct span **root, struct belfry_rng *rng)
{
    do {
        item->span.key = belfry_bytes_of(item->key, word(rng, item->key));
        item->span.end = belfry_bytes_of(item->end, word(rng, item->end));
    } while (is_in(item));
    spans_insert(root, &item->span);
    item->in = true;
}

static bool has(const struct span *span, struct belfry_bytes key)
{
    return belfry_bytes_cmp(span->key, key) <= 0 && (span->end.len == 0 || belfry_bytes_cmp(key, span->end) < 0);
}

static void check_key(struct span *root, struct belfry_bytes key)
{
    for (size_t i = 0; i < N_ITEMS; i++)
        items[i].found = 0;
    for (struct span *span = spans_next(root, NULL, key); span != NULL; span = spans_next(root, span, key))
        belfry_container(span, struct item, span)->found++;
    for (size_t i = 0; i < N_ITEMS; i++)
        assert_int_equal(items[i].found, items[i].in && has(&items[i].span, key));
}

static void random_spans_are_found_as_in_a_list(void **state)
{
    (void)state;
    struct belfry_rng rng = {SEED};
    struct span *root = NULL;
    for (int step = 0; step < 20000; step++) {
        struct item *item = &items[belfry_rng_below(&rng, N_ITEMS)];
        if (item->in) {
            assert_ptr_equal(spans_find(root, item->span.key, item->span.end), &item->span);
            spans_remove(&root, &item->span);
            assert_null(spans_find(root, item->span.key, item->span.end));
            item->in = false;
        } else {
            put_in(item, &root, &rng);
        }
        char key[4];
        size_t len = word(&rng, key);
        check_key(root, belfry_bytes_of(key, len));
    }
    for (size_t i = 0; i < N_ITEMS; i++) {
        if (items[i].in)
            spans_remove(&root, &items[i].span);
        items[i].in = false;
    }
    assert_null(root);
}

/* Steps of the walk are not visible from outside, but a lookup among many that do not match must not take long: two
 * million comparisons of a full scan a lookup would take this test minutes. */
static void lookup_among_many_that_end_earlier_is_short(void **state)
{
    (void)state;
    size_t n = 100000;
    struct item *many = calloc(n, sizeof(*many));
    char(*names)[2][8] = calloc(n, sizeof(*names));
    assert_non_null(many);
    assert_non_null(names);
    struct span *root = NULL;
    for (size_t i = 0; i < n; i++) {
        for (size_t digit = 0, left = 2 * i; digit < 8; digit++, left /= 10)
            names[i][0][7 - digit] = names[i][1][7 - digit] = (char)('0' + left % 10);
        names[i][1][7]++; /* [2i, 2i + 1) */
        many[i].span.key = belfry_bytes_of(names[i][0], 8);
        many[i].span.end = belfry_bytes_of(names[i][1], 8);
        spans_insert(&root, &many[i].span);
    }
    for (size_t i = 0; i < n; i++) {
        assert_ptr_equal(spans_next(root, NULL, many[i].span.key), &many[i].span);
        assert_null(spans_next(root, &many[i].span, many[i].span.key));
        assert_null(spans_next(root, NULL, many[i].span.end));
    }
    free(names);
    free(many);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_spans_are_found_as_in_a_list),
        cmocka_unit_test(lookup_among_many_that_end_earlier_is_short),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
