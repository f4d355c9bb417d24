/* src/serve/rights/review_users_test.c */
#include "serve/rights/review_users.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "support/refuse.h"

#define PERIOD 10000
#define T0     1000000
#define BYTES  100000

static struct review_users *users;

static int set_up(void **state)
{
    (void)state;
    return review_users_create(PERIOD, BYTES, &users) == BELFRY_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    review_users_destroy(users);
    users = NULL;
    return refuse_held() == 0 ? 0 : -1;
}

static void keep(const char *token, const char *name, uint64_t since_ms)
{
    struct review_user user = {0};
    assert_int_equal(belfry_buf_append(&user.name, name, strlen(name)), BELFRY_OK);
    assert_int_equal(belfry_buf_append(&user.spec, "\"user\"", 6), BELFRY_OK);
    review_users_keep(users, belfry_bytes_str(token), &user, since_ms, since_ms);
    belfry_buf_fini(&user.name);
    belfry_buf_fini(&user.spec);
}

static void keep_bad(const char *token, uint64_t since_ms)
{
    review_users_keep(users, belfry_bytes_str(token), NULL, since_ms, since_ms);
}

static bool find(const char *token, uint64_t within_ms, uint64_t now, struct review_known *out)
{
    return review_users_find(users, belfry_bytes_str(token), within_ms, now, out);
}

static void user_is_found_while_young_enough(void **state)
{
    (void)state;
    struct review_known known;
    keep("a", "alice", T0);
    keep("b", "bob", T0 + 1);
    assert_false(find("c", PERIOD, T0, &known));
    assert_true(find("a", 4000, T0 + 4000, &known));
    assert_true(belfry_bytes_equal(known.name, belfry_bytes_str("alice")));
    assert_true(belfry_bytes_equal(known.spec, belfry_bytes_str("\"user\"")));
    assert_false(known.is_bad);
    assert_true(known.since_ms == T0);
    assert_false(find("a", 4000, T0 + 4001, &known));
    assert_true(find("b", 4000, T0 + 4001, &known));
    assert_true(belfry_bytes_equal(known.name, belfry_bytes_str("bob")));
}

static void token_of_nobody_is_known_for_a_short_time(void **state)
{
    (void)state;
    struct review_known known;
    keep_bad("x", T0);
    assert_true(find("x", PERIOD, T0 + REVIEW_BAD_MS, &known));
    assert_true(known.is_bad);
    assert_false(find("x", PERIOD, T0 + REVIEW_BAD_MS + 1, &known));
}

static void newer_answer_takes_the_place_of_the_older(void **state)
{
    (void)state;
    struct review_known known;
    keep("a", "alice", T0);
    keep_bad("a", T0 + 10);
    assert_int_equal(review_users_count(users), 1);
    assert_true(find("a", PERIOD, T0 + 20, &known));
    assert_true(known.is_bad);
    keep("a", "alicia", T0 + 30);
    assert_true(find("a", PERIOD, T0 + 40, &known));
    assert_true(belfry_bytes_equal(known.name, belfry_bytes_str("alicia")));
}

static void old_answers_are_dropped(void **state)
{
    (void)state;
    keep("a", "alice", T0);
    keep("b", "bob", T0 + 1);
    assert_int_equal(review_users_count(users), 2);
    keep_bad("c", T0 + PERIOD);
    assert_int_equal(review_users_count(users), 2);
    keep_bad("d", T0 + 3 * PERIOD);
    assert_int_equal(review_users_count(users), 1);
}

static void hundred_thousand_wrong_tokens_fit_into_the_bound(void **state)
{
    (void)state;
    char token[32];
    struct review_known known;
    for (int i = 0; i < 100000; i++) {
        snprintf(token, sizeof(token), "wrong-%d", i);
        keep_bad(token, T0);
        assert_true(review_users_bytes(users) <= BYTES);
    }
    assert_true(review_users_count(users) > 100);
    assert_true(find("wrong-99999", PERIOD, T0, &known));
    assert_false(find("wrong-0", PERIOD, T0, &known));
}

static void user_larger_than_the_bound_is_not_kept(void **state)
{
    (void)state;
    static char large[BYTES + 1];
    struct review_known known;
    memset(large, 'u', BYTES);
    keep("a", "alice", T0);
    keep("b", large, T0);
    assert_false(find("b", PERIOD, T0, &known));
    assert_true(find("a", PERIOD, T0, &known));
    keep("a", large, T0 + 1); /* the older answer must not survive */
    assert_false(find("a", PERIOD, T0 + 1, &known));
}

static enum belfry_err scenario(void)
{
    struct review_users *some;
    enum belfry_err err = review_users_create(PERIOD, BYTES, &some);
    if (err != BELFRY_OK)
        return err;
    for (int i = 0; i < 20; i++)
        review_users_keep(some, belfry_bytes_of(&i, sizeof(i)), NULL, T0, T0);
    review_users_destroy(some);
    return BELFRY_OK;
}

static void every_allocation_may_be_refused(void **state)
{
    (void)state;
    assert_true(refuse_sweep(scenario) >= 21);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(user_is_found_while_young_enough, set_up, tear_down),
        cmocka_unit_test_setup_teardown(token_of_nobody_is_known_for_a_short_time, set_up, tear_down),
        cmocka_unit_test_setup_teardown(newer_answer_takes_the_place_of_the_older, set_up, tear_down),
        cmocka_unit_test_setup_teardown(old_answers_are_dropped, set_up, tear_down),
        cmocka_unit_test_setup_teardown(hundred_thousand_wrong_tokens_fit_into_the_bound, set_up, tear_down),
        cmocka_unit_test_setup_teardown(user_larger_than_the_bound_is_not_kept, set_up, tear_down),
        cmocka_unit_test(every_allocation_may_be_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
