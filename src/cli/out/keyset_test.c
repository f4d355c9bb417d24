/* src/cli/out/keyset_test.c */
#include "cli/out/keyset.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/refuse.h"

static struct belfry_bytes key(unsigned i)
{
    static char text[32];
    return (struct belfry_bytes){text, (size_t)snprintf(text, sizeof(text), "/services/%u", i)};
}

static void repeated_puts_and_deletes_count_once(void **state)
{
    (void)state;
    struct keyset set = {.n = 0};
    keyset_remove(&set, key(1));
    assert_int_equal(keyset_count(&set), 0);
    keyset_add(&set, key(1));
    keyset_add(&set, key(1));
    keyset_add(&set, (struct belfry_bytes){NULL, 0});
    assert_int_equal(keyset_count(&set), 2);
    keyset_remove(&set, key(1));
    keyset_remove(&set, key(1));
    keyset_remove(&set, key(2));
    assert_int_equal(keyset_count(&set), 1);
    keyset_fini(&set);
}

/* Against a plain array, so full that runs of slots are long and wrap around. */
static void it_agrees_with_a_plain_array(void **state)
{
    (void)state;
    static bool there[3000];
    struct keyset set = {.n = 0};
    int64_t n = 0;
    uint32_t random = 12345;
    for (int step = 0; step < 200000; step++) {
        random = random * 1664525u + 1013904223u;
        unsigned i = (random >> 8) % 3000;
        bool add = (random >> 28) % 2 == 0;
        if (add)
            keyset_add(&set, key(i));
        else
            keyset_remove(&set, key(i));
        n += (int64_t)add - (int64_t)there[i];
        there[i] = add;
        assert_int_equal(keyset_count(&set), n);
    }
    keyset_fini(&set);
}

static enum belfry_err scenario(void)
{
    struct keyset set = {.n = 0};
    for (unsigned i = 0; i < 2000; i++)
        keyset_add(&set, key(i));
    keyset_remove(&set, key(7));
    enum belfry_err err = keyset_count(&set) == 1999 ? BELFRY_OK : BELFRY_ERR_NOMEM;
    assert_true(err == BELFRY_OK || keyset_count(&set) == -1);
    keyset_fini(&set);
    return err;
}

static void without_memory_the_count_is_unknown(void **state)
{
    (void)state;
    assert_int_equal(refuse_sweep(scenario), 3); /* 1024, 2048 and 4096 slots */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(repeated_puts_and_deletes_count_once),
        cmocka_unit_test(it_agrees_with_a_plain_array),
        cmocka_unit_test(without_memory_the_count_is_unknown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
