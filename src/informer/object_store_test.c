/* src/informer/object_store_test.c: the store against a plain array, over random work; and what it weighs. */
#include "informer/object_store.h"

#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "base/rng.h"
#include "base/sanitizer.h"
#include "support/refuse.h"

#define NOWHERE ((struct belfry_bytes){0})

static struct belfry_bytes str(const char *text)
{
    return belfry_bytes_str(text);
}

/* A key of etcd whose value is `value`; NULL when memory was refused. */
static struct belfry_object *make(const char *key, const char *value, int64_t rev)
{
    struct belfry_object *object;
    struct belfry_object_key_value kv = {.key = str(key), .value = str(value), .rev = rev, .create_rev = 1};
    return belfry_object_of_key(&kv, &object) == BELFRY_OK ? object : NULL;
}

static enum belfry_store_change put(struct belfry_store *store, const char *key, const char *value, int64_t rev)
{
    enum belfry_store_change change;
    struct belfry_object *old = NULL;
    assert_int_equal(belfry_store_put(store, make(key, value, rev), &change, &old), BELFRY_OK);
    assert_int_equal(old != NULL, change == BELFRY_STORE_REPLACED);
    belfry_object_unref(old);
    return change;
}

static bool is(const struct belfry_object *object, const char *key)
{
    return object != NULL && belfry_bytes_equal(belfry_object_key(object), str(key));
}

static struct belfry_store *create(void)
{
    struct belfry_store *store;
    assert_int_equal(belfry_store_create(&store), BELFRY_OK);
    return store;
}

static int leaves_nothing(void **state)
{
    (void)state;
    return refuse_held() == 0 ? 0 : -1;
}

/* Each letter of the value is a value. */
static void letters(const struct belfry_object *object, struct belfry_index_values *values, void *user)
{
    struct belfry_bytes value = belfry_object_value(object);
    (void)user;
    for (size_t i = 0; i < value.len; i++)
        belfry_index_add(values, belfry_bytes_of(value.data + i, 1));
}

static void whole_value(const struct belfry_object *object, struct belfry_index_values *values, void *user)
{
    (void)user;
    belfry_index_add(values, belfry_object_value(object));
}

/* ---- one thing at a time ---- */

static void a_put_says_what_it_did(void **state)
{
    (void)state;
    struct belfry_store *store = create();
    assert_int_equal(put(store, "a", "1", 5), BELFRY_STORE_ADDED);
    assert_int_equal(put(store, "a", "1", 5), BELFRY_STORE_SAME);
    struct belfry_object *before = belfry_store_get(store, str("a")), *old = NULL;
    enum belfry_store_change change;
    assert_int_equal(belfry_store_put(store, make("a", "2", 6), &change, &old), BELFRY_OK);
    assert_int_equal(change, BELFRY_STORE_REPLACED);
    assert_ptr_equal(old, before);
    assert_int_equal(belfry_object_rev(belfry_store_get(store, str("a"))), 6);
    assert_int_equal(belfry_store_count(store), 1);
    belfry_object_unref(old);
    struct belfry_object *taken = belfry_store_take(store, str("a"));
    assert_true(is(taken, "a"));
    belfry_object_unref(taken);
    assert_null(belfry_store_take(store, str("a")));
    assert_null(belfry_store_get(store, str("a")));
    belfry_store_destroy(store);
}

static void objects_come_in_the_order_of_keys(void **state)
{
    (void)state;
    struct belfry_store *store = create();
    const char *const keys[] = {"b/2", "a", "b/", "b", "c", "b/1"};
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        put(store, keys[i], "", 1);
    assert_true(is(belfry_store_next(store, str(""), NOWHERE), "a"));
    assert_true(is(belfry_store_next(store, str(""), str("a")), "b"));
    assert_true(is(belfry_store_next(store, str("b/"), NOWHERE), "b/"));
    assert_true(is(belfry_store_next(store, str("b/"), str("b/")), "b/1"));
    assert_true(is(belfry_store_next(store, str("b/"), str("b/1x")), "b/2")); /* what is not there (any more) */
    assert_true(is(belfry_store_next(store, str("b/"), str("a")), "b/"));     /* a place before the prefix */
    assert_null(belfry_store_next(store, str("b/"), str("b/2")));
    assert_null(belfry_store_next(store, str(""), str("c")));
    assert_null(belfry_store_next(store, str("d"), NOWHERE));
    belfry_store_destroy(store);
}

static void a_sweep_takes_what_was_not_put_again(void **state)
{
    (void)state;
    struct belfry_store *store = create();
    const char *const keys[] = {"a", "b", "c", "d", "e", "f"};
    for (size_t i = 0; i < 6; i++)
        put(store, keys[i], "", 1);
    assert_null(belfry_store_sweep(store)); /* nothing began */
    belfry_store_begin(store);
    assert_int_equal(put(store, "b", "", 1), BELFRY_STORE_SAME);
    assert_int_equal(put(store, "d", "", 2), BELFRY_STORE_REPLACED);
    struct belfry_object *swept = belfry_store_sweep(store);
    assert_true(is(swept, "a"));
    belfry_object_unref(swept);
    assert_int_equal(put(store, "a", "", 3), BELFRY_STORE_ADDED); /* came back: not swept again */
    assert_int_equal(put(store, "c", "", 3), BELFRY_STORE_REPLACED);
    belfry_object_unref(belfry_store_take(store, str("e")));
    swept = belfry_store_sweep(store);
    assert_true(is(swept, "f"));
    belfry_object_unref(swept);
    assert_null(belfry_store_sweep(store));
    assert_null(belfry_store_sweep(store));
    assert_int_equal(belfry_store_count(store), 4);
    belfry_store_destroy(store);
}

static void a_begin_in_the_middle_of_a_sweep_makes_everything_old_again(void **state)
{
    (void)state;
    struct belfry_store *store = create();
    put(store, "a", "", 1);
    put(store, "b", "", 1);
    put(store, "c", "", 1);
    belfry_store_begin(store);
    put(store, "a", "", 1);
    struct belfry_object *swept = belfry_store_sweep(store);
    assert_true(is(swept, "b"));
    belfry_object_unref(swept);
    belfry_store_begin(store);
    put(store, "c", "", 1);
    swept = belfry_store_sweep(store);
    assert_true(is(swept, "a"));
    belfry_object_unref(swept);
    assert_null(belfry_store_sweep(store));
    belfry_store_destroy(store);
}

static void what_others_hold_outlives_the_store(void **state)
{
    (void)state;
    struct belfry_store *store = create();
    assert_int_equal(belfry_store_index(store, "whole", whole_value, NULL, NULL), BELFRY_OK);
    put(store, "a", "x", 1);
    const struct belfry_object *held = belfry_object_hold(belfry_store_get(store, str("a")));
    belfry_store_destroy(store);
    assert_true(is(held, "a"));
    assert_null(held->entries);
    belfry_object_release(held);
}

static void an_index_finds_by_value_in_the_order_of_keys(void **state)
{
    (void)state;
    struct belfry_store *store = create();
    put(store, "b", "xy", 1);
    assert_int_equal(belfry_store_index(store, "letters", letters, NULL, NULL), BELFRY_OK);
    put(store, "a", "xxx", 1); /* said three times, found once */
    put(store, "c", "yx", 1);
    put(store, "d", "", 1);
    assert_true(is(belfry_store_by(store, "letters", str("x"), NOWHERE), "a"));
    assert_true(is(belfry_store_by(store, "letters", str("x"), str("a")), "b"));
    assert_true(is(belfry_store_by(store, "letters", str("x"), str("b")), "c"));
    assert_null(belfry_store_by(store, "letters", str("x"), str("c")));
    assert_true(is(belfry_store_by(store, "letters", str("y"), str("a")), "b"));
    assert_null(belfry_store_by(store, "letters", str("z"), NOWHERE));
    assert_null(belfry_store_by(store, "letters", str("xy"), NOWHERE));
    assert_null(belfry_store_by(store, "nobody", str("x"), NOWHERE));
    put(store, "b", "y", 2);
    assert_true(is(belfry_store_by(store, "letters", str("x"), str("a")), "c"));
    assert_true(is(belfry_store_by(store, "letters", str("y"), NOWHERE), "b"));
    belfry_object_unref(belfry_store_take(store, str("b")));
    assert_true(is(belfry_store_by(store, "letters", str("y"), NOWHERE), "c"));
    belfry_store_destroy(store);
}

static void count_fini(void *user)
{
    ++*(int *)user;
}

static void at_most_sixteen_indexes_each_with_its_own_name(void **state)
{
    (void)state;
    struct belfry_store *store = create();
    char name[16];
    int n_fini = 0;
    for (int i = 0; i < BELFRY_STORE_INDEXES; i++) {
        snprintf(name, sizeof(name), "i%d", i);
        assert_int_equal(belfry_store_index(store, name, whole_value, &n_fini, count_fini), BELFRY_OK);
    }
    assert_int_equal(belfry_store_index(store, "i3", whole_value, &n_fini, count_fini), BELFRY_ERR_INVALID);
    assert_int_equal(n_fini, 1);
    assert_int_equal(belfry_store_index(store, "i16", whole_value, &n_fini, count_fini), BELFRY_ERR_LIMIT);
    assert_int_equal(n_fini, 2);
    put(store, "a", "v", 1);
    assert_true(is(belfry_store_by(store, "i15", str("v"), NOWHERE), "a"));
    belfry_store_destroy(store);
    assert_int_equal(n_fini, 2 + BELFRY_STORE_INDEXES);
}

static void bytes_come_back_when_objects_go(void **state)
{
    (void)state;
    struct belfry_store *store = create();
    assert_int_equal(belfry_store_index(store, "letters", letters, NULL, NULL), BELFRY_OK);
    size_t empty = belfry_store_bytes(store);
    assert_true(empty > 0);
    assert_int_equal(belfry_store_object_bytes(store), 0);
    put(store, "key", "value", 1);
    size_t one = belfry_store_bytes(store);
    assert_true(one > empty + sizeof(struct belfry_object) + 8);
    assert_int_equal(belfry_store_object_bytes(store), 8);
    put(store, "key", "", 2);
    assert_int_equal(belfry_store_object_bytes(store), 3);
    assert_int_equal(belfry_store_bytes(store), empty + sizeof(struct belfry_object) + 3);
    put(store, "key", "value", 3);
    assert_int_equal(belfry_store_bytes(store), one);
    put(store, "key", "aeluv", 4);
    assert_int_equal(belfry_store_bytes(store), one);
    put(store, "key", "vvvvvalue", 5); /* a value said again takes nothing in the index */
    assert_int_equal(belfry_store_bytes(store), one + 4);
    put(store, "key", "value", 6);
    belfry_object_unref(belfry_store_take(store, str("key")));
    assert_int_equal(belfry_store_bytes(store), empty);
    assert_int_equal(belfry_store_object_bytes(store), 0);
    belfry_store_destroy(store);
}

/* ---- against a plain array ---- */

#define SEEDS 300
#define STEPS 300
#define KEYS  40

static struct model {
    bool there, old;
    int64_t rev;
    char value[4];
} model[KEYS];

static const char *key_name(int i)
{
    static char names[KEYS][16];
    snprintf(names[i], sizeof(names[i]), "k%s%02d", i % 3 == 0 ? "/" : i % 3 == 1 ? "/a" : "", i);
    return names[i];
}

static int in_order[KEYS];

static int by_name(const void *a, const void *b)
{
    return strcmp(key_name(*(const int *)a), key_name(*(const int *)b));
}

static void check_list(const struct belfry_store *store, const char *prefix)
{
    struct belfry_bytes after = NOWHERE;
    for (int i = 0; i < KEYS; i++) {
        const struct model *m = &model[in_order[i]];
        const char *name = key_name(in_order[i]);
        if (!m->there || strncmp(name, prefix, strlen(prefix)) != 0)
            continue;
        struct belfry_object *object = belfry_store_next(store, str(prefix), after);
        assert_true(is(object, name));
        assert_int_equal(object->rev, m->rev);
        after = belfry_object_key(object);
    }
    assert_null(belfry_store_next(store, str(prefix), after));
}

static void check_by(const struct belfry_store *store, const char *index, const char *value)
{
    struct belfry_bytes after = NOWHERE;
    for (int i = 0; i < KEYS; i++) {
        const struct model *m = &model[in_order[i]];
        bool has = strcmp(index, "whole") == 0 ? strcmp(m->value, value) == 0 : strstr(m->value, value) != NULL;
        if (!m->there || !has)
            continue;
        struct belfry_object *object = belfry_store_by(store, index, str(value), after);
        assert_true(is(object, key_name(in_order[i])));
        after = belfry_object_key(object);
    }
    assert_null(belfry_store_by(store, index, str(value), after));
}

static void check_all(const struct belfry_store *store)
{
    size_t n = 0;
    for (int i = 0; i < KEYS; i++) {
        n += model[i].there;
        struct belfry_object *object = belfry_store_get(store, str(key_name(i)));
        assert_int_equal(object != NULL, model[i].there);
    }
    assert_int_equal(belfry_store_count(store), n);
    check_list(store, "");
    check_list(store, "k/");
    check_list(store, "k/a");
    check_by(store, "letters", "a");
    check_by(store, "letters", "c");
    check_by(store, "whole", "");
    check_by(store, "whole", "ab");
}

static void step_put(struct belfry_store *store, struct belfry_rng *rng, int64_t *rev)
{
    int i = (int)belfry_rng_below(rng, KEYS);
    bool same = model[i].there && belfry_rng_below(rng, 3) == 0;
    enum belfry_store_change expected = same             ? BELFRY_STORE_SAME
                                        : model[i].there ? BELFRY_STORE_REPLACED
                                                         : BELFRY_STORE_ADDED;
    if (!same) {
        size_t len = belfry_rng_below(rng, 4);
        for (size_t c = 0; c < len; c++)
            model[i].value[c] = (char)('a' + belfry_rng_below(rng, 3));
        model[i].value[len] = '\0';
        model[i].rev = ++*rev;
    }
    model[i].there = true;
    model[i].old = false;
    assert_int_equal(put(store, key_name(i), model[i].value, model[i].rev), expected);
}

static void step_take(struct belfry_store *store, struct belfry_rng *rng)
{
    int i = (int)belfry_rng_below(rng, KEYS);
    struct belfry_object *object = belfry_store_take(store, str(key_name(i)));
    assert_int_equal(object != NULL, model[i].there);
    assert_true(object == NULL || object->rev == model[i].rev);
    model[i].there = false;
    belfry_object_unref(object);
}

static void step_sweep(struct belfry_store *store)
{
    struct belfry_object *object = belfry_store_sweep(store);
    int i = 0;
    while (i < KEYS && !(model[in_order[i]].there && model[in_order[i]].old))
        i++;
    if (i == KEYS) {
        assert_null(object);
        return;
    }
    assert_true(is(object, key_name(in_order[i])));
    model[in_order[i]].there = false;
    belfry_object_unref(object);
}

static void random_step(struct belfry_store *store, struct belfry_rng *rng, int64_t *rev)
{
    size_t dice = belfry_rng_below(rng, 100);
    if (dice < 50)
        step_put(store, rng, rev);
    else if (dice < 70)
        step_take(store, rng);
    else if (dice < 97)
        step_sweep(store);
    else
        belfry_store_begin(store);
    for (int i = 0; i < KEYS && dice >= 97; i++)
        model[i].old = true;
}

static void random_work_leaves_the_same_as_a_plain_array(void **state)
{
    (void)state;
    for (int i = 0; i < KEYS; i++)
        in_order[i] = i;
    qsort(in_order, KEYS, sizeof(in_order[0]), by_name);
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct belfry_rng rng = {seed};
        struct belfry_store *store = create();
        int64_t rev = 0;
        memset(model, 0, sizeof(model));
        assert_int_equal(belfry_store_index(store, "letters", letters, NULL, NULL), BELFRY_OK);
        for (int step = 0; step < STEPS; step++) {
            random_step(store, &rng, &rev);
            if (step == STEPS / 2)
                assert_int_equal(belfry_store_index(store, "whole", whole_value, NULL, NULL), BELFRY_OK);
            if (step >= STEPS / 2 && step % 10 == 0)
                check_all(store);
        }
        belfry_store_destroy(store);
    }
}

/* ---- what it weighs ---- */

#define MANY       100000
#define MANY_BYTES 1024 /* of a value */

static size_t allocated(void)
{
    return BELFRY_HAS_SANITIZER ? 0 : mallinfo2().uordblks + mallinfo2().hblkhd;
}

static void a_hundred_thousand_objects_take_less_than_1_3_times_their_bytes(void **state)
{
    (void)state;
    struct belfry_store *store = create();
    size_t before = allocated();
    char key[32], value[MANY_BYTES + 1];
    memset(value, 'v', MANY_BYTES);
    value[MANY_BYTES] = '\0';
    for (int i = 0; i < MANY; i++) {
        snprintf(key, sizeof(key), "default/object-%06d", i);
        put(store, key, value, 1);
    }
    size_t payload = belfry_store_object_bytes(store), grown = allocated() - before;
    assert_int_equal(payload, (size_t)MANY * (MANY_BYTES + strlen(key)));
    assert_true(belfry_store_bytes(store) <= payload + payload / 10 * 3);
    assert_true(grown <= payload + payload / 10 * 3);
    print_message("keys and values %zu bytes, store %.3f times that, allocator %.3f times (0: not measured)\n", payload,
                  (double)belfry_store_bytes(store) / (double)payload, (double)grown / (double)payload);
    belfry_store_destroy(store);
}

/* ---- no memory ---- */

static enum belfry_err try_put(struct belfry_store *store, const char *key, const char *value, int64_t rev)
{
    enum belfry_store_change change;
    struct belfry_object *old = NULL, *object = make(key, value, rev);
    if (object == NULL)
        return BELFRY_ERR_NOMEM;
    size_t count = belfry_store_count(store), bytes = belfry_store_bytes(store);
    enum belfry_err err = belfry_store_put(store, object, &change, &old);
    if (err != BELFRY_OK) {
        assert_int_equal(belfry_store_count(store), count);
        assert_int_equal(belfry_store_bytes(store), bytes);
        return err;
    }
    belfry_object_unref(old);
    return BELFRY_OK;
}

static enum belfry_err work(struct belfry_store *store)
{
    static int n_fini; /* the store's own end counts it up, too */
    n_fini = 0;
    enum belfry_err err = belfry_store_index(store, "letters", letters, NULL, NULL);
    if (err == BELFRY_OK)
        err = try_put(store, "a", "xyx", 1);
    if (err == BELFRY_OK)
        err = try_put(store, "b", "y", 1);
    if (err == BELFRY_OK)
        err = try_put(store, "a", "xz", 2);
    if (err != BELFRY_OK)
        return err;
    size_t bytes = belfry_store_bytes(store);
    err = belfry_store_index(store, "more", letters, &n_fini, count_fini);
    if (err != BELFRY_OK) { /* as if it had not been asked for */
        assert_int_equal(n_fini, 1);
        assert_int_equal(belfry_store_bytes(store), bytes);
        assert_null(belfry_store_by(store, "more", str("y"), NOWHERE));
        assert_true(is(belfry_store_by(store, "letters", str("y"), NOWHERE), "b"));
        assert_true(is(belfry_store_by(store, "letters", str("x"), NOWHERE), "a"));
    }
    return err;
}

static enum belfry_err scenario(void)
{
    struct belfry_store *store;
    enum belfry_err err = belfry_store_create(&store);
    if (err != BELFRY_OK)
        return err;
    err = work(store);
    if (err == BELFRY_OK)
        assert_true(is(belfry_store_by(store, "more", str("z"), NOWHERE), "a"));
    belfry_store_destroy(store);
    return err;
}

static void no_memory_leaves_the_store_as_it_was(void **state)
{
    (void)state;
    assert_true(refuse_sweep(scenario) >= 12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_put_says_what_it_did, leaves_nothing),
        cmocka_unit_test_teardown(objects_come_in_the_order_of_keys, leaves_nothing),
        cmocka_unit_test_teardown(a_sweep_takes_what_was_not_put_again, leaves_nothing),
        cmocka_unit_test_teardown(a_begin_in_the_middle_of_a_sweep_makes_everything_old_again, leaves_nothing),
        cmocka_unit_test_teardown(what_others_hold_outlives_the_store, leaves_nothing),
        cmocka_unit_test_teardown(an_index_finds_by_value_in_the_order_of_keys, leaves_nothing),
        cmocka_unit_test_teardown(at_most_sixteen_indexes_each_with_its_own_name, leaves_nothing),
        cmocka_unit_test_teardown(bytes_come_back_when_objects_go, leaves_nothing),
        cmocka_unit_test_teardown(random_work_leaves_the_same_as_a_plain_array, leaves_nothing),
        cmocka_unit_test_teardown(a_hundred_thousand_objects_take_less_than_1_3_times_their_bytes, leaves_nothing),
        cmocka_unit_test_teardown(no_memory_leaves_the_store_as_it_was, leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
