/* src/base/list_test.c */
#include "base/list.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

struct item {
    int number;
    struct belfry_list link;
};

static int number(struct belfry_list *node)
{
    return belfry_container(node, struct item, link)->number;
}

/* Both directions, so that a broken back pointer shows. */
static void assert_numbers(const struct belfry_list *list, const char *digits)
{
    struct belfry_list *node = list->next;
    for (const char *d = digits; *d != '\0'; d++, node = node->next) {
        assert_ptr_not_equal(node, list);
        assert_int_equal(number(node), *d - '0');
        assert_ptr_equal(node->next->prev, node);
    }
    assert_ptr_equal(node, list);
}

static void make(struct item *items, int n)
{
    for (int i = 0; i < n; i++) {
        items[i].number = i;
        belfry_list_init(&items[i].link);
    }
}

static void elements_keep_the_order_they_were_linked_in(void **state)
{
    (void)state;
    struct item items[4];
    make(items, 4);
    struct belfry_list list;
    belfry_list_init(&list);
    assert_true(belfry_list_empty(&list));
    belfry_list_append(&list, &items[1].link);
    belfry_list_append(&list, &items[3].link);
    belfry_list_prepend(&list, &items[0].link);
    belfry_list_insert(&items[3].link, &items[2].link);
    assert_false(belfry_list_empty(&list));
    assert_numbers(&list, "0123");
}

static void removing_twice_is_harmless(void **state)
{
    (void)state;
    struct item items[3];
    make(items, 3);
    struct belfry_list list;
    belfry_list_init(&list);
    for (int i = 0; i < 3; i++)
        belfry_list_append(&list, &items[i].link);
    belfry_list_remove(&items[1].link);
    belfry_list_remove(&items[1].link);
    assert_numbers(&list, "02");
    assert_true(belfry_list_empty(&items[1].link));
}

static void pop_takes_from_the_front_until_none_is_left(void **state)
{
    (void)state;
    struct item items[2];
    make(items, 2);
    struct belfry_list list;
    belfry_list_init(&list);
    belfry_list_append(&list, &items[0].link);
    belfry_list_append(&list, &items[1].link);
    assert_ptr_equal(belfry_list_pop(&list), &items[0].link);
    assert_ptr_equal(belfry_list_pop(&list), &items[1].link);
    assert_null(belfry_list_pop(&list));
    assert_true(belfry_list_empty(&list));
}

static void safe_walk_survives_removal_of_where_it_stands(void **state)
{
    (void)state;
    struct item items[6];
    make(items, 6);
    struct belfry_list list;
    belfry_list_init(&list);
    for (int i = 0; i < 6; i++)
        belfry_list_append(&list, &items[i].link);
    int seen = 0;
    belfry_list_each_safe (node, &list) {
        seen++;
        if (number(node) % 2 == 0)
            belfry_list_remove(node);
    }
    assert_int_equal(seen, 6);
    assert_numbers(&list, "135");
    int sum = 0;
    belfry_list_each (node, &list)
        sum += number(node);
    assert_int_equal(sum, 9);
}

static void move_all_appends_and_empties(void **state)
{
    (void)state;
    struct item items[4];
    make(items, 4);
    struct belfry_list to, from;
    belfry_list_init(&to);
    belfry_list_init(&from);
    belfry_list_move_all(&to, &from);
    assert_numbers(&to, "");
    belfry_list_append(&to, &items[0].link);
    for (int i = 1; i < 4; i++)
        belfry_list_append(&from, &items[i].link);
    belfry_list_move_all(&to, &from);
    assert_numbers(&to, "0123");
    assert_true(belfry_list_empty(&from));
    belfry_list_move_all(&from, &to); /* into an empty one */
    assert_numbers(&from, "0123");
    assert_true(belfry_list_empty(&to));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elements_keep_the_order_they_were_linked_in),
        cmocka_unit_test(removing_twice_is_harmless),
        cmocka_unit_test(pop_takes_from_the_front_until_none_is_left),
        cmocka_unit_test(safe_walk_survives_removal_of_where_it_stands),
        cmocka_unit_test(move_all_appends_and_empties),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
