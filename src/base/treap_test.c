/* src/base/treap_test.c */
#include "base/treap.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/list.h"
#include "base/rng.h"

#define SEED    7u
#define N_ITEMS 700

struct item {
    int key;
    struct belfry_treap_node node;
    bool in;
};

static struct item items[N_ITEMS]; /* item i has key 2 * i, so that there is room between */

static struct item *item_of(struct belfry_treap_node *node)
{
    return node == NULL ? NULL : belfry_container(node, struct item, node);
}

static int key_of(const struct belfry_treap_node *node)
{
    return ((const struct item *)((const char *)node - offsetof(struct item, node)))->key;
}

static int order(const struct belfry_treap_node *a, const struct belfry_treap_node *b)
{
    return key_of(a) - key_of(b);
}

static int seek(const void *key, const struct belfry_treap_node *node)
{
    return *(const int *)key - key_of(node);
}

static int seek_tens(const void *key, const struct belfry_treap_node *node) /* many are at one key */
{
    return *(const int *)key - key_of(node) / 10;
}

static void make(void)
{
    for (int i = 0; i < N_ITEMS; i++)
        items[i] = (struct item){.key = 2 * i};
}

/* Walks from `key` (NULL: the first) and compares with the plain array. */
static void check_walk(struct belfry_treap_node *root, const int *key)
{
    struct belfry_treap_walk walk;
    belfry_treap_walk(&walk, root, key, seek);
    for (int i = 0; i < N_ITEMS; i++) {
        if (items[i].in && (key == NULL || items[i].key >= *key))
            assert_ptr_equal(item_of(belfry_treap_next(&walk)), &items[i]);
    }
    assert_null(belfry_treap_next(&walk));
    assert_null(belfry_treap_next(&walk));
}

static void check_find(struct belfry_treap_node *root)
{
    for (int key = -1; key <= 2 * N_ITEMS; key++) {
        struct item *found = item_of(belfry_treap_find(root, &key, seek));
        bool there = key >= 0 && key % 2 == 0 && key / 2 < N_ITEMS && items[key / 2].in;
        assert_ptr_equal(found, there ? &items[key / 2] : NULL);
    }
}

static void empty_set_has_nothing(void **state)
{
    (void)state;
    make();
    int key = 0;
    check_walk(NULL, NULL);
    check_walk(NULL, &key);
    assert_null(belfry_treap_first(NULL));
    assert_null(belfry_treap_find(NULL, &key, seek));
}

static void random_inserts_and_removes_leave_the_same_as_an_array(void **state)
{
    (void)state;
    make();
    struct belfry_rng rng = {SEED};
    struct belfry_treap_node *root = NULL;
    for (int step = 0; step < 20000; step++) {
        struct item *item = &items[belfry_rng_below(&rng, N_ITEMS)];
        if (item->in)
            belfry_treap_remove(&root, &item->node, order);
        else
            belfry_treap_insert(&root, &item->node, order);
        item->in = !item->in;
        if (step % 500 == 0) {
            check_walk(root, NULL);
            check_find(root);
        }
    }
    for (int i = 0; i < N_ITEMS; i++) {
        if (items[i].in)
            belfry_treap_remove(&root, &items[i].node, order);
    }
    assert_null(root);
}

static void walk_starts_at_the_first_that_is_not_before_the_key(void **state)
{
    (void)state;
    make();
    struct belfry_treap_node *root = NULL;
    for (int i = 0; i < N_ITEMS; i += 3) {
        items[i].in = true;
        belfry_treap_insert(&root, &items[i].node, order);
    }
    for (int key = -2; key < 2 * N_ITEMS + 2; key++)
        check_walk(root, &key);
    assert_ptr_equal(item_of(belfry_treap_first(root)), &items[0]);
}

static void walk_starts_at_the_first_of_several_at_the_key(void **state)
{
    (void)state;
    make();
    struct belfry_treap_node *root = NULL;
    for (int i = N_ITEMS - 1; i >= 0; i--)
        belfry_treap_insert(&root, &items[i].node, order);
    for (int tens = 0; tens < 100; tens++) {
        struct belfry_treap_walk walk;
        belfry_treap_walk(&walk, root, &tens, seek_tens);
        assert_int_equal(item_of(belfry_treap_next(&walk))->key, tens * 10);
    }
}

static size_t depth_of(struct belfry_treap_node *root, int key)
{
    size_t depth = 0;
    for (struct belfry_treap_node *at = root; seek(&key, at) != 0; depth++)
        at = seek(&key, at) < 0 ? at->left : at->right;
    return depth;
}

/* The case in which a poor hash of the address shows: allocated in one run, inserted in key order. */
static void ascending_inserts_stay_balanced(void **state)
{
    (void)state;
    int n = 100000;
    struct item *many = calloc((size_t)n, sizeof(*many));
    assert_non_null(many);
    struct belfry_treap_node *root = NULL;
    for (int i = 0; i < n; i++) {
        many[i].key = i;
        belfry_treap_insert(&root, &many[i].node, order);
    }
    size_t deepest = 0, sum = 0;
    for (int i = 0; i < n; i++) {
        size_t depth = depth_of(root, i);
        deepest = depth > deepest ? depth : deepest;
        sum += depth;
    }
    assert_in_range(deepest, 17, 75);         /* 4.3 ln n is 50 */
    assert_in_range(sum / (size_t)n, 15, 30); /* 2 ln n is 23 */
    struct belfry_treap_walk walk;
    belfry_treap_walk(&walk, root, NULL, seek);
    for (int i = 0; i < n; i++)
        assert_int_equal(item_of(belfry_treap_next(&walk))->key, i);
    assert_null(belfry_treap_next(&walk));
    free(many);
}

/* As an allocator does that hands out first what was freed last. */
static void set_made_of_what_another_left_stays_balanced(void **state)
{
    (void)state;
    int n = 20000;
    struct item *many = calloc((size_t)n, sizeof(*many));
    struct item **left = calloc((size_t)n, sizeof(struct item *));
    assert_non_null(many);
    assert_non_null(left);
    struct belfry_treap_node *root = NULL;
    for (int i = 0; i < n; i++) {
        many[i].key = i;
        belfry_treap_insert(&root, &many[i].node, order);
    }
    for (int round = 0; round < 3; round++) {
        int n_left = 0;
        while (root != NULL) {
            left[n_left++] = item_of(belfry_treap_first(root));
            belfry_treap_remove(&root, &left[n_left - 1]->node, order);
        }
        for (int i = 0; i < n; i++) {
            struct item *item = left[--n_left];
            item->key = i;
            belfry_treap_insert(&root, &item->node, order);
        }
        size_t deepest = 0;
        for (int i = 0; i < n; i++) {
            size_t depth = depth_of(root, i);
            deepest = depth > deepest ? depth : deepest;
        }
        assert_in_range(deepest, 14, 65); /* 4.3 ln n is 43 */
    }
    free(left);
    free(many);
}

/* Insert and remove do not recurse: a chain that would break a recursive one is walked down and mended. */
static void chain_of_any_depth_is_removed_and_inserted(void **state)
{
    (void)state;
    int n = 2000000;
    struct item *many = calloc((size_t)n, sizeof(*many));
    assert_non_null(many);
    for (int i = 0; i < n; i++) {
        many[i].key = i;
        many[i].node.right = i + 1 < n ? &many[i + 1].node : NULL;
    }
    struct belfry_treap_node *root = &many[0].node;
    belfry_treap_remove(&root, &many[n / 2].node, order);
    int key = n / 2;
    assert_null(belfry_treap_find(root, &key, seek));
    belfry_treap_insert(&root, &many[n / 2].node, order);
    assert_ptr_equal(belfry_treap_find(root, &key, seek), &many[n / 2].node);
    struct belfry_treap_walk walk;
    belfry_treap_walk(&walk, root, NULL, seek);
    for (int i = 0; i < n; i++)
        assert_int_equal(item_of(belfry_treap_next(&walk))->key, i);
    free(many);
}

/* A chain to the left, all of which is on the stack together. Returns how many elements the walk visited. */
static int walk_left_chain(int n)
{
    make();
    for (int i = 1; i < n; i++)
        items[i].node.left = &items[i - 1].node;
    struct belfry_treap_walk walk;
    belfry_treap_walk(&walk, &items[n - 1].node, NULL, seek);
    int given = 0;
    while (belfry_treap_next(&walk) != NULL)
        given++;
    return given;
}

static void walk_ends_the_process_rather_than_leave_somebody_out(void **state)
{
    (void)state;
    assert_int_equal(walk_left_chain(BELFRY_TREAP_DEPTH), BELFRY_TREAP_DEPTH);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        walk_left_chain(BELFRY_TREAP_DEPTH + 1);
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(empty_set_has_nothing),
        cmocka_unit_test(random_inserts_and_removes_leave_the_same_as_an_array),
        cmocka_unit_test(walk_starts_at_the_first_that_is_not_before_the_key),
        cmocka_unit_test(walk_starts_at_the_first_of_several_at_the_key),
        cmocka_unit_test(ascending_inserts_stay_balanced),
        cmocka_unit_test(set_made_of_what_another_left_stays_balanced),
        cmocka_unit_test(chain_of_any_depth_is_removed_and_inserted),
        cmocka_unit_test(walk_ends_the_process_rather_than_leave_somebody_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
