/* src/core/interest_test.c */
#include "core/interest.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/list.h"
#include "base/rng.h"
#include "core/stream.h"
#include "core/watcher.h"
#include "support/refuse.h"

#define SEED       21u
#define N_WATCHERS 400
#define N_STREAMS  7
#define NOWHERE    POPULATIONS
#define SEVERAL    3

static struct stream streams[N_STREAMS];

struct subject {
    struct watcher watcher;
    struct range range;
    char key[40], end[40];
    bool is_pinned;
    struct interest_pin pin;
    struct range several[SEVERAL]; /* of which it wants the keys, if n_several is not 0 */
    char several_key[SEVERAL][40], several_end[SEVERAL][40];
    size_t n_several;
    bool in;
    unsigned population; /* NOWHERE: it waits */
};

static struct subject subjects[N_WATCHERS];

/* ---- the event that is looked up ---- */

#define N_FAMILIES 2
static const char *const families[N_FAMILIES] = {"app", "node"};
static const char *const values[] = {NULL, "", "n1", "n2", "n3"};
#define N_VALUES (sizeof(values) / sizeof(*values))

static struct {
    const char *before[N_FAMILIES], *after[N_FAMILIES]; /* NULL: none */
    bool prev_lost, no_memory;
    size_t asked;
} event;

static struct belfry_bytes bytes_of(const char *text)
{
    return text == NULL ? (struct belfry_bytes){0} : belfry_bytes_str(text);
}

static size_t family_of(struct belfry_bytes name)
{
    return belfry_bytes_equal(name, belfry_bytes_str(families[0])) ? 0 : 1;
}

static bool attribute(void *user, const struct batch *batch, uint32_t number, struct belfry_bytes name,
                      struct belfry_bytes *before, struct belfry_bytes *after)
{
    assert_ptr_equal(user, &event);
    assert_int_equal(batch->n_events, 1);
    assert_int_equal(number, 0);
    assert_false(event.prev_lost);
    event.asked++;
    *before = bytes_of(event.before[family_of(name)]);
    *after = bytes_of(event.after[family_of(name)]);
    return !event.no_memory;
}

/* A delete; with what was there before, unless that is lost. */
static enum belfry_err find(struct interest *interest, struct belfry_bytes key, unsigned population,
                            struct interest_node ***nodes, size_t *n)
{
    struct batch_event gone = {.is_delete = true, .prev_len = event.prev_lost ? 0 : 10};
    struct batch batch = {.rev = 5, .n_events = 1, .events = &gone};
    struct interest_asker asker = {.attribute = attribute, .user = &event, .batch = &batch};
    return interest_find(interest, key, population, &asker, nodes, n);
}

static void forget_event(void)
{
    memset(&event, 0, sizeof(event));
}

static struct interest *make(void)
{
    forget_event();
    for (size_t i = 0; i < N_STREAMS; i++)
        streams[i].serial = 100 - i; /* not in the order of the addresses */
    memset(subjects, 0, sizeof(subjects));
    struct interest *interest = NULL;
    assert_int_equal(interest_create(SEED, &interest), BELFRY_OK);
    return interest;
}

/* ---- one lookup against the plain list ---- */

static bool has_pin(const struct subject *subject)
{
    if (!subject->is_pinned || event.prev_lost)
        return true;
    const char *before = event.before[family_of(subject->pin.name)], *after = event.after[family_of(subject->pin.name)];
    return (before != NULL && belfry_bytes_equal(belfry_bytes_str(before), subject->pin.value)) ||
           (after != NULL && belfry_bytes_equal(belfry_bytes_str(after), subject->pin.value));
}

static bool has_key(const struct subject *subject, struct belfry_bytes key)
{
    bool has = subject->n_several == 0 && range_has(&subject->range, key);
    for (size_t i = 0; i < subject->n_several && !has; i++)
        has = range_has(&subject->several[i], key);
    return has;
}

static bool expected(const struct subject *subject, struct belfry_bytes key, unsigned population)
{
    return subject->in && subject->population == population && has_key(subject, key) && has_pin(subject);
}

static struct subject *subject_of(struct belfry_treap_node *place)
{
    return belfry_container(place, struct subject, watcher.place);
}

static bool is_before(const struct watcher *a, const struct watcher *b)
{
    return a->stream->serial < b->stream->serial || (a->stream == b->stream && a->id < b->id);
}

/* Walks a node's population; returns how many are in it, each of whom must be expected. */
static size_t check_population(struct interest_node *node, struct belfry_bytes key, unsigned population)
{
    struct belfry_treap_walk walk;
    belfry_treap_walk(&walk, interest_population(node, population), NULL, NULL);
    struct subject *before = NULL;
    size_t n = 0;
    for (struct belfry_treap_node *place; (place = belfry_treap_next(&walk)) != NULL; n++) {
        struct subject *subject = subject_of(place);
        assert_true(expected(subject, key, population));
        assert_ptr_equal(subject->watcher.node, node);
        assert_true(before == NULL || is_before(&before->watcher, &subject->watcher));
        before = subject;
    }
    assert_true(n > 0);
    return n;
}

static void check_key(struct interest *interest, struct belfry_bytes key, unsigned population)
{
    struct interest_node **nodes = NULL;
    size_t n_nodes = 0, n = 0, n_expected = 0;
    assert_int_equal(find(interest, key, population, &nodes, &n_nodes), BELFRY_OK);
    for (size_t i = 0; i < n_nodes; i++) {
        for (size_t j = 0; j < i; j++)
            assert_ptr_not_equal(nodes[i], nodes[j]);
        n += check_population(nodes[i], key, population);
    }
    for (size_t i = 0; i < N_WATCHERS; i++)
        n_expected += expected(&subjects[i], key, population);
    assert_int_equal(n, n_expected);
}

/* ---- random ranges, few enough that they meet ---- */

static size_t random_word(struct belfry_rng *rng, char *to)
{
    static const char letters[] = {'a', 'b', '/', '\0', '\xff'};
    size_t len = belfry_rng_below(rng, 10) == 0 ? 10 + belfry_rng_below(rng, 30) : belfry_rng_below(rng, 5);
    for (size_t i = 0; i < len; i++)
        to[i] = letters[belfry_rng_below(rng, len > 5 ? 1 : sizeof(letters))];
    return len;
}

static void random_range(struct belfry_rng *rng, struct range *range, char *key_text, char *end_text)
{
    do {
        range->kind = (enum range_kind)belfry_rng_below(rng, 3);
        range->key = belfry_bytes_of(key_text, random_word(rng, key_text));
        size_t end = range->kind == RANGE_SPAN ? random_word(rng, end_text) : 0;
        range->end = belfry_bytes_of(end_text, end);
    } while (range->end.len > 0 && belfry_bytes_cmp(range->key, range->end) >= 0);
}

/* Their hull is a span from the first key on. */
static void random_several(struct belfry_rng *rng, struct subject *subject)
{
    subject->n_several = 1 + belfry_rng_below(rng, SEVERAL);
    for (size_t i = 0; i < subject->n_several; i++)
        random_range(rng, &subject->several[i], subject->several_key[i], subject->several_end[i]);
    subject->range = (struct range){.kind = RANGE_SPAN, .key = subject->several[0].key};
    for (size_t i = 1; i < subject->n_several; i++)
        if (belfry_bytes_cmp(subject->several[i].key, subject->range.key) < 0)
            subject->range.key = subject->several[i].key;
}

static void add(struct interest *interest, struct subject *subject)
{
    const struct interest_pin *pin = subject->is_pinned ? &subject->pin : NULL;
    struct interest_several several = {subject->range, subject->several, subject->n_several};
    if (several.n > 0)
        assert_int_equal(interest_add_several(interest, &several, &subject->watcher.node), BELFRY_OK);
    else
        assert_int_equal(interest_add(interest, &subject->range, pin, &subject->watcher.node), BELFRY_OK);
    struct range range;
    interest_range(subject->watcher.node, &range);
    assert_int_equal(range.kind, subject->range.kind);
    assert_true(belfry_bytes_equal(range.key, subject->range.key));
    assert_true(belfry_bytes_equal(range.end, subject->range.end));
    subject->in = true;
    subject->population = NOWHERE;
}

static void go_to(struct interest *interest, struct subject *subject, unsigned population)
{
    if (subject->population != NOWHERE)
        interest_leave(interest, &subject->watcher, subject->population);
    if (population != NOWHERE)
        assert_int_equal(interest_join(interest, &subject->watcher, population), BELFRY_OK);
    subject->population = population;
}

static void drop(struct interest *interest, struct subject *subject)
{
    go_to(interest, subject, NOWHERE);
    interest_drop(interest, subject->watcher.node);
    subject->in = false;
}

static void drop_all(struct interest *interest)
{
    for (size_t i = 0; i < N_WATCHERS; i++) {
        if (subjects[i].in)
            drop(interest, &subjects[i]);
    }
    assert_int_equal(interest_n_nodes(interest), 0);
}

static void random_pin(struct belfry_rng *rng, struct subject *subject)
{
    subject->is_pinned = belfry_rng_below(rng, 2) == 0;
    subject->pin = (struct interest_pin){
        .name = belfry_bytes_str(families[belfry_rng_below(rng, N_FAMILIES)]),
        .value = belfry_bytes_str(values[1 + belfry_rng_below(rng, N_VALUES - 1)]),
    };
}

static void random_event(struct belfry_rng *rng)
{
    for (size_t i = 0; i < N_FAMILIES; i++) {
        event.before[i] = values[belfry_rng_below(rng, N_VALUES)];
        event.after[i] = values[belfry_rng_below(rng, N_VALUES)];
    }
    event.prev_lost = belfry_rng_below(rng, 8) == 0;
}

static void random_step(struct interest *interest, struct belfry_rng *rng, bool has_several)
{
    struct subject *subject = &subjects[belfry_rng_below(rng, N_WATCHERS)];
    if (!subject->in) {
        subject->n_several = 0;
        random_range(rng, &subject->range, subject->key, subject->end);
        random_pin(rng, subject);
        if (has_several && belfry_rng_below(rng, 3) > 0) {
            random_several(rng, subject);
            subject->is_pinned = false;
        }
        subject->watcher.stream = &streams[belfry_rng_below(rng, N_STREAMS)];
        subject->watcher.id = (int64_t)(subject - subjects) - N_WATCHERS / 2;
        add(interest, subject);
    } else if (belfry_rng_below(rng, 3) == 0) {
        drop(interest, subject);
    } else {
        go_to(interest, subject, (unsigned)belfry_rng_below(rng, POPULATIONS + 1));
    }
}

static bool same_range(const struct range *a, const struct range *b)
{
    return a->kind == b->kind && belfry_bytes_equal(a->key, b->key) && belfry_bytes_equal(a->end, b->end);
}

/* Ranges with watchers that are all pinned: there is a node for the range itself, too. */
static size_t bare_ranges(void)
{
    size_t n = 0;
    for (size_t i = 0; i < N_WATCHERS; i++) {
        bool is_first = subjects[i].in && subjects[i].is_pinned;
        for (size_t j = 0; j < N_WATCHERS && is_first; j++)
            is_first = !(subjects[j].in && (j < i || !subjects[j].is_pinned) &&
                         same_range(&subjects[i].range, &subjects[j].range));
        n += is_first;
    }
    return n;
}

static size_t distinct_ranges(void)
{
    size_t n = bare_ranges();
    for (size_t i = 0; i < N_WATCHERS; i++) {
        bool is_first = subjects[i].in;
        for (size_t j = 0; j < i && is_first; j++)
            is_first = !(subjects[j].in && subjects[j].watcher.node == subjects[i].watcher.node);
        n += is_first;
    }
    return n;
}

static void check_any(const struct interest *interest, unsigned population)
{
    bool somebody = false;
    for (size_t i = 0; i < N_WATCHERS; i++)
        somebody = somebody || (subjects[i].in && subjects[i].population == population);
    struct interest_node *node = interest_any(interest, population);
    assert_int_equal(node != NULL, somebody);
    assert_true(node == NULL || interest_population(node, population) != NULL);
}

static void random_ranges_are_found_as_in_a_list(void **state)
{
    (void)state;
    struct interest *interest = make();
    struct belfry_rng rng = {SEED};
    for (int step = 0; step < 30000; step++) {
        random_step(interest, &rng, false);
        random_event(&rng);
        char key[40];
        size_t len = random_word(&rng, key);
        check_key(interest, belfry_bytes_of(key, len), (unsigned)belfry_rng_below(&rng, POPULATIONS));
        check_any(interest, 1 + (unsigned)belfry_rng_below(&rng, POPULATIONS - 1));
        if (step % 1000 == 0)
            assert_int_equal(interest_n_nodes(interest), distinct_ranges());
    }
    drop_all(interest);
    interest_destroy(interest);
}

static void random_lists_of_ranges_are_found_as_in_a_list(void **state)
{
    (void)state;
    struct interest *interest = make();
    struct belfry_rng rng = {SEED + 1};
    for (int step = 0; step < 30000; step++) {
        random_step(interest, &rng, true);
        random_event(&rng);
        char key[40];
        size_t len = random_word(&rng, key);
        check_key(interest, belfry_bytes_of(key, len), (unsigned)belfry_rng_below(&rng, POPULATIONS));
        check_any(interest, 1 + (unsigned)belfry_rng_below(&rng, POPULATIONS - 1));
    }
    drop_all(interest);
    interest_destroy(interest);
}

/* ---- cases by name ---- */

static struct subject *watch_range(struct interest *interest, size_t i, struct range range)
{
    struct subject *subject = &subjects[i];
    subject->range = range;
    subject->watcher.stream = &streams[i % N_STREAMS];
    subject->watcher.id = (int64_t)i;
    add(interest, subject);
    go_to(interest, subject, POPULATION_LIVE);
    return subject;
}

static struct subject *watch(struct interest *interest, size_t i, enum range_kind kind, const char *key,
                             const char *end)
{
    return watch_range(interest, i, (struct range){kind, belfry_bytes_str(key), belfry_bytes_str(end)});
}

static void check_n_found(struct interest *interest, const char *key, size_t expected_nodes)
{
    struct interest_node **nodes = NULL;
    size_t n = SIZE_MAX;
    assert_int_equal(find(interest, belfry_bytes_str(key), POPULATION_LIVE, &nodes, &n), BELFRY_OK);
    assert_int_equal(n, expected_nodes);
    check_key(interest, belfry_bytes_str(key), POPULATION_LIVE);
}

static struct subject *watch_pinned(struct interest *interest, size_t i, const char *prefix, const char *name,
                                    const char *value)
{
    struct subject *subject = &subjects[i];
    subject->is_pinned = true;
    subject->pin = (struct interest_pin){belfry_bytes_str(name), belfry_bytes_str(value)};
    return watch(interest, i, RANGE_PREFIX, prefix, "");
}

static void pinned_watcher_is_found_by_what_was_before_and_by_what_is_now(void **state)
{
    (void)state;
    struct interest *interest = make();
    watch_pinned(interest, 0, "k/", "node", "n1");
    watch_pinned(interest, 1, "k/", "node", "n2");
    watch_pinned(interest, 2, "k/", "node", "n1");
    watch_pinned(interest, 3, "k/", "app", "n1");
    watch(interest, 4, RANGE_PREFIX, "k/", "");
    check_n_found(interest, "k/1", 1);
    event.after[1] = "n1";
    check_n_found(interest, "k/1", 2);
    event.before[1] = "n1";
    check_n_found(interest, "k/1", 2);
    event.before[1] = "n2";
    check_n_found(interest, "k/1", 3);
    event.after[1] = NULL;
    check_n_found(interest, "k/1", 2);
    event.after[1] = "n9";
    check_n_found(interest, "k/1", 2);
    check_n_found(interest, "j/1", 0);
    drop_all(interest);
    interest_destroy(interest);
}

static void attribute_is_asked_for_once_a_family_and_only_if_somebody_of_the_population_has_pinned_it(void **state)
{
    (void)state;
    struct interest *interest = make();
    for (size_t i = 0; i < 100; i++)
        watch_pinned(interest, i, "k/", "node", values[1 + i % (N_VALUES - 1)]);
    struct subject *other = watch_pinned(interest, 100, "k/", "app", "web");
    watch(interest, 101, RANGE_KEY, "j", "");
    event.after[1] = "n1";
    check_n_found(interest, "k/1", 1);
    assert_int_equal(event.asked, 2 * 2); /* it looks twice */
    check_n_found(interest, "j", 1);
    assert_int_equal(event.asked, 4);
    go_to(interest, other, NOWHERE);
    check_n_found(interest, "k/1", 1);
    assert_int_equal(event.asked, 6);
    check_key(interest, belfry_bytes_str("k/1"), 3);
    assert_int_equal(event.asked, 6);
    go_to(interest, other, 3);
    event.before[0] = "web";
    check_key(interest, belfry_bytes_str("k/1"), 3);
    assert_int_equal(event.asked, 7);
    drop_all(interest);
    interest_destroy(interest);
}

static void all_who_pinned_are_found_when_what_was_before_is_lost(void **state)
{
    (void)state;
    struct interest *interest = make();
    watch_pinned(interest, 0, "k/", "node", "n1");
    watch_pinned(interest, 1, "k/", "node", "n2");
    watch_pinned(interest, 2, "k/", "app", "");
    event.prev_lost = true;
    check_n_found(interest, "k/1", 3);
    assert_int_equal(event.asked, 0);
    drop_all(interest);
    interest_destroy(interest);
}

static void attribute_without_memory_is_an_error_and_nothing_is_found_without_an_asker(void **state)
{
    (void)state;
    struct interest *interest = make();
    struct interest_node **nodes;
    size_t n = SIZE_MAX;
    watch_pinned(interest, 0, "k/", "node", "n1");
    event.after[1] = "n1";
    event.no_memory = true;
    assert_int_equal(find(interest, belfry_bytes_str("k/1"), POPULATION_LIVE, &nodes, &n), BELFRY_ERR_NOMEM);
    assert_int_equal(interest_find(interest, belfry_bytes_str("k/1"), POPULATION_LIVE, NULL, &nodes, &n), BELFRY_OK);
    assert_int_equal(n, 0);
    drop_all(interest);
    interest_destroy(interest);
}

static void pins_cost_memory_only_while_somebody_has_them(void **state)
{
    (void)state;
    struct interest *interest = make();
    watch(interest, 0, RANGE_PREFIX, "k/", "");
    struct subject *first = watch_pinned(interest, 1, "k/", "node", "n1");
    drop(interest, first); /* tables keep their first segment */
    size_t without = interest_bytes(interest);
    watch_pinned(interest, 1, "k/", "node", "n1");
    size_t one = interest_bytes(interest);
    assert_true(one > without);
    watch_pinned(interest, 2, "k/", "node", "n1");
    assert_int_equal(interest_bytes(interest), one);
    assert_int_equal(interest_n_nodes(interest), 2);
    watch_pinned(interest, 3, "k/", "node", "n2");
    assert_true(interest_bytes(interest) > one && interest_bytes(interest) - one <= 128);
    drop(interest, &subjects[1]);
    drop(interest, &subjects[2]);
    drop(interest, &subjects[3]);
    assert_int_equal(interest_bytes(interest), without);
    assert_int_equal(interest_n_nodes(interest), 1);
    drop_all(interest);
    interest_destroy(interest);
}

static void empty_index_finds_nothing(void **state)
{
    (void)state;
    struct interest *interest = make();
    check_n_found(interest, "", 0);
    check_n_found(interest, "a", 0);
    interest_destroy(interest);
    interest_destroy(NULL);
}

static void nested_prefixes_key_and_span_are_all_found(void **state)
{
    (void)state;
    struct interest *interest = make();
    watch(interest, 0, RANGE_PREFIX, "", "");
    watch(interest, 1, RANGE_PREFIX, "/a", "");
    watch(interest, 2, RANGE_PREFIX, "/a/b", "");
    watch(interest, 3, RANGE_KEY, "/a/b", "");
    watch(interest, 4, RANGE_SPAN, "/a/a", "/a/c");
    watch(interest, 5, RANGE_SPAN, "/a", "");
    watch(interest, 6, RANGE_PREFIX, "/a/b/c/d/e/f/g/h", "");
    check_n_found(interest, "/a/b", 6);
    check_n_found(interest, "/a/bc", 5);
    check_n_found(interest, "/a/b/c/d/e/f/g/h/i", 6);
    check_n_found(interest, "/a/c", 3);
    check_n_found(interest, "", 1);
    drop_all(interest);
    interest_destroy(interest);
}

static void equal_ranges_share_a_node_until_the_last_leaves(void **state)
{
    (void)state;
    struct interest *interest = make();
    struct subject *a = watch(interest, 0, RANGE_PREFIX, "k", ""), *b = watch(interest, 1, RANGE_PREFIX, "k", "");
    struct subject *key = watch(interest, 2, RANGE_KEY, "k", "");
    assert_ptr_equal(a->watcher.node, b->watcher.node);
    assert_ptr_not_equal(a->watcher.node, key->watcher.node);
    assert_int_equal(interest_n_nodes(interest), 2);
    drop(interest, a);
    check_n_found(interest, "k", 2);
    drop(interest, b);
    check_n_found(interest, "k", 1);
    assert_int_equal(interest_n_nodes(interest), 1);
    drop_all(interest);
    interest_destroy(interest);
}

static void waiting_watcher_is_not_found(void **state)
{
    (void)state;
    struct interest *interest = make();
    struct subject *subject = watch(interest, 0, RANGE_KEY, "k", "");
    go_to(interest, subject, NOWHERE);
    check_n_found(interest, "k", 0);
    go_to(interest, subject, POPULATIONS - 1);
    check_n_found(interest, "k", 0);
    check_key(interest, belfry_bytes_str("k"), POPULATIONS - 1);
    drop_all(interest);
    interest_destroy(interest);
}

static void any_gives_the_node_that_was_first_to_be_ridden_from(void **state)
{
    (void)state;
    struct interest *interest = make();
    struct subject *a = watch(interest, 0, RANGE_KEY, "a", ""), *b = watch(interest, 1, RANGE_KEY, "b", "");
    struct subject *also_a = watch(interest, 2, RANGE_KEY, "a", "");
    assert_null(interest_any(interest, 3));
    go_to(interest, b, 3);
    go_to(interest, a, 3);
    go_to(interest, also_a, 4);
    assert_ptr_equal(interest_any(interest, 3), b->watcher.node);
    assert_ptr_equal(interest_any(interest, 4), a->watcher.node);
    assert_null(interest_any(interest, 2));
    go_to(interest, b, POPULATION_LIVE);
    assert_ptr_equal(interest_any(interest, 3), a->watcher.node);
    go_to(interest, a, NOWHERE);
    assert_null(interest_any(interest, 3));
    assert_ptr_equal(interest_any(interest, 4), a->watcher.node);
    drop_all(interest);
    interest_destroy(interest);
}

static void long_keys_that_differ_in_the_last_byte_are_told_apart(void **state)
{
    (void)state;
    struct interest *interest = make();
    size_t len = 70000;
    char *key = malloc(len);
    assert_non_null(key);
    memset(key, 0xff, len);
    struct interest_node *nodes[3];
    for (size_t i = 0; i < 3; i++) {
        key[len - 1] = (char)i;
        struct range range = {i == 2 ? RANGE_PREFIX : RANGE_KEY, belfry_bytes_of(key, len), {NULL, 0}};
        assert_int_equal(interest_add(interest, &range, NULL, &nodes[i]), BELFRY_OK);
        subjects[i].watcher = (struct watcher){.node = nodes[i], .stream = &streams[0], .id = 1};
        assert_int_equal(interest_join(interest, &subjects[i].watcher, POPULATION_LIVE), BELFRY_OK);
    }
    for (size_t i = 0; i < 3; i++) {
        key[len - 1] = (char)i;
        struct interest_node **found = NULL;
        size_t n = 0;
        assert_int_equal(interest_find(interest, belfry_bytes_of(key, len), 0, NULL, &found, &n), BELFRY_OK);
        assert_int_equal(n, 1);
        assert_ptr_equal(found[0], nodes[i]);
        assert_int_equal(interest_find(interest, belfry_bytes_of(key, len - 1), 0, NULL, &found, &n), BELFRY_OK);
        assert_int_equal(n, 0);
    }
    for (size_t i = 0; i < 3; i++) {
        interest_leave(interest, &subjects[i].watcher, POPULATION_LIVE);
        interest_drop(interest, nodes[i]);
    }
    free(key);
    interest_destroy(interest);
}

/* More nodes than the array begins with: a chain of nested prefixes. */
static void a_hundred_nested_prefixes_are_all_found(void **state)
{
    (void)state;
    struct interest *interest = make();
    char deep[101] = "";
    for (size_t i = 0; i < 100; i++)
        deep[i] = i % 3 == 0 ? '/' : 'a';
    for (size_t i = 0; i < 100; i++) /* the longest first: lengths come in any order */
        watch_range(interest, i, (struct range){RANGE_PREFIX, belfry_bytes_of(deep, 99 - i), {NULL, 0}});
    check_n_found(interest, deep, 100);
    for (size_t i = 0; i < 100; i += 2)
        drop(interest, &subjects[i]);
    check_n_found(interest, deep, 50);
    drop_all(interest);
    interest_destroy(interest);
}

/* ---- memory ---- */

static void node_of_a_32_byte_key_costs_at_most_96_bytes(void **state)
{
    (void)state;
    struct interest *interest = make();
    size_t n = 100000, empty = interest_bytes(interest);
    struct interest_node **nodes = calloc(n, sizeof(*nodes));
    assert_non_null(nodes);
    for (size_t i = 0; i < n; i++) {
        char key[33];
        snprintf(key, sizeof(key), "/registry/pods/default/%09zu", i);
        struct range range = {i % 2 == 0 ? RANGE_KEY : RANGE_PREFIX, belfry_bytes_of(key, 32), {NULL, 0}};
        assert_int_equal(interest_add(interest, &range, NULL, &nodes[i]), BELFRY_OK);
    }
    assert_in_range((interest_bytes(interest) - empty) / n, 72, 96);
    for (size_t i = 0; i < n; i++)
        interest_drop(interest, nodes[i]);
    assert_true(interest_bytes(interest) <= empty + 1024);
    free(nodes);
    interest_destroy(interest);
}

static void bus_riders_cost_memory_only_while_they_ride(void **state)
{
    (void)state;
    struct interest *interest = make();
    struct subject *a = watch(interest, 0, RANGE_KEY, "k", ""), *b = watch(interest, 1, RANGE_KEY, "k", "");
    size_t alone = interest_bytes(interest);
    go_to(interest, a, 2);
    go_to(interest, b, 3);
    assert_true(interest_bytes(interest) > alone);
    go_to(interest, a, POPULATION_LIVE);
    go_to(interest, b, NOWHERE);
    assert_int_equal(interest_bytes(interest), alone);
    drop_all(interest);
    interest_destroy(interest);
}

static void equal_lists_of_ranges_share_a_node_and_cost_memory_only_while_somebody_has_them(void **state)
{
    (void)state;
    struct interest *interest = make();
    struct interest_node *first, *same, *other, **nodes;
    size_t n, empty = interest_bytes(interest);
    const struct range list[] = {{RANGE_PREFIX, {"a", 1}, {NULL, 0}}, {RANGE_KEY, {"c", 1}, {NULL, 0}}};
    const struct range turned[] = {list[1], list[0]}, hull = {RANGE_SPAN, {"a", 1}, {"d", 1}};
    assert_int_equal(interest_add_several(interest, &(struct interest_several){hull, list, 2}, &first), BELFRY_OK);
    assert_int_equal(interest_n_nodes(interest), 3); /* itself, and its two ranges */
    assert_int_equal(interest_add_several(interest, &(struct interest_several){hull, list, 2}, &same), BELFRY_OK);
    assert_ptr_equal(first, same);
    assert_int_equal(interest_add_several(interest, &(struct interest_several){hull, turned, 2}, &other), BELFRY_OK);
    assert_ptr_not_equal(first, other);
    assert_int_equal(interest_n_nodes(interest), 4);
    struct watcher watcher = {.stream = &streams[0], .node = first};
    assert_int_equal(interest_join(interest, &watcher, POPULATION_LIVE), BELFRY_OK);
    assert_int_equal(interest_find(interest, belfry_bytes_str("c"), POPULATION_LIVE, NULL, &nodes, &n), BELFRY_OK);
    assert_int_equal(n, 1);
    assert_ptr_equal(nodes[0], first);
    assert_int_equal(interest_find(interest, belfry_bytes_str("b"), POPULATION_LIVE, NULL, &nodes, &n), BELFRY_OK);
    assert_int_equal(n, 0); /* in the hull, and in none of them */
    interest_leave(interest, &watcher, POPULATION_LIVE);
    interest_drop(interest, first);
    interest_drop(interest, other);
    interest_drop(interest, same);
    assert_int_equal(interest_n_nodes(interest), 0);
    assert_true(interest_bytes(interest) < empty + 2000); /* what tables keep */
    interest_destroy(interest);
}

static const struct range sweep_ranges[] = {
    {RANGE_KEY, {"a", 1}, {NULL, 0}},     {RANGE_PREFIX, {"a", 1}, {NULL, 0}}, {RANGE_PREFIX, {"", 0}, {NULL, 0}},
    {RANGE_SPAN, {"a", 1}, {"c", 1}},     {RANGE_SPAN, {"a", 1}, {NULL, 0}},   {RANGE_KEY, {"a", 1}, {NULL, 0}},
    {RANGE_PREFIX, {"aa", 2}, {NULL, 0}},
};
#define N_SWEPT (sizeof(sweep_ranges) / sizeof(*sweep_ranges))

static enum belfry_err join_and_find(struct interest *interest, struct watcher *watchers, size_t n)
{
    enum belfry_err err = BELFRY_OK;
    struct interest_node **nodes;
    size_t n_nodes;
    size_t joined = 0;
    for (; err == BELFRY_OK && joined < n; joined += err == BELFRY_OK)
        err = interest_join(interest, &watchers[joined], (unsigned)(joined % 2));
    for (unsigned population = 0; err == BELFRY_OK && population < 2; population++)
        err = find(interest, belfry_bytes_str("aa"), population, &nodes, &n_nodes);
    for (size_t i = 0; i < joined; i++)
        interest_leave(interest, &watchers[i], (unsigned)(i % 2));
    return err;
}

static enum belfry_err whole_life(void)
{
    struct watcher watchers[N_SWEPT] = {0};
    struct interest_pin pin = {belfry_bytes_str("node"), belfry_bytes_str("n1")};
    struct interest *interest = NULL;
    enum belfry_err err = interest_create(SEED, &interest);
    if (err != BELFRY_OK)
        return err;
    size_t n = 0;
    for (; err == BELFRY_OK && n < N_SWEPT; n += err == BELFRY_OK) {
        watchers[n].stream = &streams[0];
        watchers[n].id = (int64_t)n;
        struct interest_several several = {sweep_ranges[n], sweep_ranges, n};
        err = n > 4 ? interest_add_several(interest, &several, &watchers[n].node)
                    : interest_add(interest, &sweep_ranges[n], n % 2 == 0 ? NULL : &pin, &watchers[n].node);
    }
    if (err == BELFRY_OK)
        err = join_and_find(interest, watchers, n);
    for (size_t i = 0; i < n; i++)
        interest_drop(interest, watchers[i].node);
    interest_destroy(interest);
    return err;
}

static void refused_allocations_leave_nothing_behind(void **state)
{
    (void)state;
    forget_event();
    event.before[1] = "n1";
    assert_in_range(refuse_sweep(whole_life), 20, 100);
}

/* Of every kind of node: what it costs alone is known before it is there, and covers what it takes. */
static void a_node_costs_what_was_said_before(void **state)
{
    (void)state;
    struct range one = {RANGE_KEY, belfry_bytes_str("/a/one"), {0}},
                 prefix = {RANGE_PREFIX, belfry_bytes_str("/a/"), {0}};
    struct range span = {RANGE_SPAN, belfry_bytes_str("/a/b"), belfry_bytes_str("/c")},
                 hull = {RANGE_SPAN, belfry_bytes_str("/a/"), belfry_bytes_str("/d")};
    struct range list[] = {prefix, span, one};
    struct interest_pin pin = {belfry_bytes_str("spec.nodeName"), belfry_bytes_str("node-17")};
    struct interest_several several = {hull, list, 3};
    struct row {
        const struct range *range;
        const struct interest_pin *pin;
    } rows[] = {{&one, NULL}, {&prefix, NULL}, {&span, NULL}, {&prefix, &pin}, {NULL, NULL}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct interest *own;
        struct interest_node *node;
        assert_int_equal(interest_create(1, &own), BELFRY_OK);
        size_t empty = interest_bytes(own);
        size_t said =
            rows[i].range != NULL ? interest_cost(rows[i].range, rows[i].pin) : interest_cost_several(&several);
        assert_int_equal(rows[i].range != NULL ? interest_add(own, rows[i].range, rows[i].pin, &node)
                                               : interest_add_several(own, &several, &node),
                         BELFRY_OK);
        assert_int_equal(interest_node_cost(node), said);
        size_t tables = 4096; /* what the first node makes a table and a list of lengths take */
        assert_in_range(interest_bytes(own) - empty, said / 2, said + tables);
        interest_drop(own, node);
        interest_destroy(own);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_ranges_are_found_as_in_a_list),
        cmocka_unit_test(random_lists_of_ranges_are_found_as_in_a_list),
        cmocka_unit_test(equal_lists_of_ranges_share_a_node_and_cost_memory_only_while_somebody_has_them),
        cmocka_unit_test(empty_index_finds_nothing),
        cmocka_unit_test(pinned_watcher_is_found_by_what_was_before_and_by_what_is_now),
        cmocka_unit_test(attribute_is_asked_for_once_a_family_and_only_if_somebody_of_the_population_has_pinned_it),
        cmocka_unit_test(all_who_pinned_are_found_when_what_was_before_is_lost),
        cmocka_unit_test(attribute_without_memory_is_an_error_and_nothing_is_found_without_an_asker),
        cmocka_unit_test(pins_cost_memory_only_while_somebody_has_them),
        cmocka_unit_test(nested_prefixes_key_and_span_are_all_found),
        cmocka_unit_test(equal_ranges_share_a_node_until_the_last_leaves),
        cmocka_unit_test(waiting_watcher_is_not_found),
        cmocka_unit_test(any_gives_the_node_that_was_first_to_be_ridden_from),
        cmocka_unit_test(long_keys_that_differ_in_the_last_byte_are_told_apart),
        cmocka_unit_test(a_hundred_nested_prefixes_are_all_found),
        cmocka_unit_test(node_of_a_32_byte_key_costs_at_most_96_bytes),
        cmocka_unit_test(bus_riders_cost_memory_only_while_they_ride),
        cmocka_unit_test(refused_allocations_leave_nothing_behind),
        cmocka_unit_test(a_node_costs_what_was_said_before),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
