/* src/serve/uplink/via_test.c */
#include "serve/uplink/via.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "support/fakeexchange.h"
#include "support/refuse.h"

static enum via_verdict judge(const char *const *fields, const char *own, struct via *via, char *why)
{
    struct fakeexchange_head head;
    fakeexchange_head(&head, "POST", "/s/m", fields);
    return via_judge(&head.head, own, via, why);
}

static enum via_verdict judge_one(const char *field, const char *own)
{
    const char *const fields[] = {"token: t", field, NULL};
    struct via via;
    char why[VIA_WHY_BYTES];
    return judge(fields, own, &via, why);
}

static void assert_word(const char *name, const char *expected)
{
    char word[VIA_WORD_BYTES + 1];
    assert_int_equal(via_word(name, word), strlen(expected));
    assert_string_equal(word, expected);
}

static void name_is_written_in_one_way(void **state)
{
    (void)state;
    assert_word("edge-7.example.com", "edge-7.example.com");
    assert_word("a b", "a%20b");
    assert_word("a, b > c%", "a%2C%20b%20%3E%20c%25");
    assert_word("\xc3\xa9\n", "%C3%A9%0A");
    assert_word("", "-");
}

static void name_that_is_too_long_is_cut_between_its_characters(void **state)
{
    (void)state;
    char name[201] = {0}, word[VIA_WORD_BYTES + 1];
    memset(name, 'x', 200);
    assert_int_equal(via_word(name, word), 64);
    memset(name, ' ', 200);
    assert_int_equal(via_word(name, word), 63);
    char field[128];
    snprintf(field, sizeof(field), "belfry-via: %s", word);
    assert_int_equal(judge_one(field, word), VIA_CIRCLE); /* what is written is read */
}

static void several_fields_count_as_one_list(void **state)
{
    (void)state;
    const char *const fields[] = {"belfry-via: a,b", "x: y", "belfry-via:  c ", NULL};
    struct via via;
    char why[VIA_WHY_BYTES];
    assert_int_equal(judge(fields, "d", &via, why), VIA_FINE);
    assert_int_equal(via.n, 3);
    assert_true(belfry_bytes_equal(via.words[1], belfry_bytes_str("b")));
    assert_true(belfry_bytes_equal(via.words[2], belfry_bytes_str("c")));
    assert_int_equal(judge(fields, "c", &via, why), VIA_CIRCLE);
    assert_non_null(strstr(why, "a > b > c > c;"));
}

static void request_of_a_client_has_none(void **state)
{
    (void)state;
    assert_int_equal(judge_one("hasleader: true", "a"), VIA_FINE);
}

static void eight_are_enough(void **state)
{
    (void)state;
    assert_int_equal(judge_one("belfry-via: 1,2,3,4,5,6,7", "a"), VIA_FINE);
    assert_int_equal(judge_one("belfry-via: 1,2,3,4,5,6,7,8", "a"), VIA_TOO_MANY);
    assert_int_equal(judge_one("belfry-via: 1,2,3,4,5,6,7,8", "8"), VIA_CIRCLE);
    assert_int_equal(judge_one("belfry-via: 1,2,3,4,5,6,7,8,9,10", "a"), VIA_TOO_MANY);
}

static void what_is_no_list_of_names_is_refused(void **state)
{
    static const char *const bad[] = {"belfry-via: ",    "belfry-via: ,",   "belfry-via: a,",       "belfry-via: a,,b",
                                      "belfry-via: a b", "belfry-via: a%",  "belfry-via: a%2",      "belfry-via: %61",
                                      "belfry-via: %2c", "belfry-via: %00", "belfry-via: \xc3\xa9", "belfry-via: a>b"};
    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(judge_one(bad[i], "a"), VIA_UNREADABLE);
    char field[128] = "belfry-via: ";
    memset(field + 12, 'x', 65);
    assert_int_equal(judge_one(field, "a"), VIA_UNREADABLE);
    field[12 + 64] = '\0';
    assert_int_equal(judge_one(field, "a"), VIA_FINE);
}

static void longest_chain_is_told(void **state)
{
    (void)state;
    char field[700] = "belfry-via: ", own[65] = {0}, why[VIA_WHY_BYTES];
    for (int i = 0; i < 8; i++) {
        size_t at = strlen(field);
        snprintf(field + at, sizeof(field) - at, "%s%063d%d", i > 0 ? "," : "", 0, i);
    }
    memset(own, 'o', 64);
    const char *const fields[] = {field, NULL};
    struct via via;
    assert_int_equal(judge(fields, own, &via, why), VIA_TOO_MANY);
    assert_non_null(strstr(why, "0007 > oooo"));
    assert_non_null(strstr(why, "nearer to etcd"));
}

static enum belfry_err nothing_is_allocated(void)
{
    return judge_one("belfry-via: a, b", "c") == VIA_FINE ? BELFRY_OK : BELFRY_ERR_PROTOCOL;
}

static void refused_allocation_changes_nothing(void **state)
{
    (void)state;
    assert_int_equal(refuse_sweep(nothing_is_allocated), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(name_is_written_in_one_way),
        cmocka_unit_test(name_that_is_too_long_is_cut_between_its_characters),
        cmocka_unit_test(several_fields_count_as_one_list),
        cmocka_unit_test(request_of_a_client_has_none),
        cmocka_unit_test(eight_are_enough),
        cmocka_unit_test(what_is_no_list_of_names_is_refused),
        cmocka_unit_test(longest_chain_is_told),
        cmocka_unit_test(refused_allocation_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
