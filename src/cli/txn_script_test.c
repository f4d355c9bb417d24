/* src/cli/txn_script_test.c: scripts as transactions, which protobuf-c reads back. */
#include "cli/txn_script.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/refuse.h"
#include "support/txntext.h"

static struct txn_script script;
static char why[FLAGS_WHY];

static enum belfry_err feed(const char *text)
{
    char line[1024];
    enum belfry_err err = BELFRY_OK;
    while (*text != '\0' && err == BELFRY_OK) {
        size_t len = strcspn(text, "\n");
        snprintf(line, sizeof(line), "%.*s", (int)len + 1, text);
        text += len + (text[len] == '\n');
        err = txn_script_line(&script, line, why);
    }
    return err;
}

static const char *text_of(const char *text)
{
    txn_script_fini(&script);
    why[0] = '\0';
    if (feed(text) != BELFRY_OK)
        fail_msg("%s", why);
    assert_int_equal(script.stage, TXN_DONE);
    return txntext(script.txn);
}

static int clean(void **state)
{
    (void)state;
    txn_script_fini(&script);
    return refuse_held() == 0 ? 0 : -1;
}

static void three_lists_make_a_transaction(void **state)
{
    (void)state;
    assert_string_equal(text_of("mod(\"key1\") > \"0\"\n\n"
                                "put key1 \"overwrote-key1\"\nget key2\n\n"
                                "put key1 'created key1'\ndel key2\n\n"),
                        "mod key1 > 0 | put key1=overwrote-key1; get key2 | put key1=created key1; del key2");
    assert_true(script.steps[BELFRY_THEN].n == 2 && script.steps[BELFRY_ELSE].n == 2);
    assert_int_equal(script.steps[BELFRY_THEN].list[1].command, CMD_GET);
    assert_int_equal(script.steps[BELFRY_ELSE].list[1].command, CMD_DEL);
    assert_string_equal(script.steps[BELFRY_ELSE].list[1].key, "key2");
    assert_string_equal(text_of("\n\n\n"), " |  | "); /* nothing, if nothing: fine */
}

static void every_comparison_is_known(void **state)
{
    (void)state;
    assert_string_equal(text_of("ver(\"a\") = \"1\"\nversion(\"b\") != \"2\"\nc(\"c\") < \"3\"\n"
                                "create(\"d\") > \"-4\"\nm(\"e\") = \"5\"\nmod(\"f\") = \"6\"\n"
                                "val(\"g\") = \"x y\"\nvalue(`h`) = \"\"\nlease(\"i\") = \"ff\"\n\n\n\n"),
                        "version a = 1; version b != 2; create c < 3; create d > -4; mod e = 5; mod f = 6; "
                        "value g = x y; value h = ; lease i = 255 |  | ");
}

static void blanks_do_not_matter(void **state)
{
    (void)state;
    assert_string_equal(text_of("  mod ( \"k\" )>\"0\"  \r\n \t\r\n\tget   k \r\n\n\n"), "mod k > 0 | get k | ");
}

static void requests_take_the_flags_that_they_have_as_commands(void **state)
{
    (void)state;
    assert_string_equal(
        text_of("\nget --prefix k --limit 3 --order=DESCEND --sort-by MODIFY\nget k kz --keys-only\n"
                "put k v --lease 1f --prev-kv\nput k --ignore-value\nput k -- -5\ndel '' --prefix --prev-kv\n\n\n"),
        " | get k..l limit=3 order=2 by=3; get k..kz keys-only; put k=v lease=31 prev-kv; put k= ignore-value; "
        "put k=-5; del \\x00..\\x00 prev-kv | ");
}

static void words_are_cut_as_etcdctl_cuts_them(void **state)
{
    (void)state;
    assert_string_equal(text_of("\nput \"a\\tb\" 'c \"d'\nput z\"z `x`\nput \"k\"\"v\"\n\n\n"),
                        " | put a\\x09b=c \"d; put z\"z=`x`; put k=v | ");
}

static void mistakes_are_told_with_their_line(void **state)
{
    static const char *const bad[] = {"mod(\"k\") > \"x\"\n",
                                      "mod(\"k\") == \"1\"\n",
                                      "mod(k) = \"1\"\n",
                                      "mod(\"k\") = 1\n",
                                      "mod(\"k\" = \"1\"\n",
                                      "mod \"k\" = \"1\"\n",
                                      "size(\"k\") = \"1\"\n",
                                      "mod(\"k\") = \"1\" and\n",
                                      "mod(\"k\") ! \"1\"\n",
                                      "mod(\"k\")\n",
                                      "mod(\"k\") = \"\"\n",
                                      "mod(\"k\") = \" 1\"\n",
                                      "get k\n",
                                      "\nfrob k\n",
                                      "\nget\n",
                                      "\nput k\n",
                                      "\nput k v w\n",
                                      "\nput '' v\n",
                                      "\nget ''\n",
                                      "\nget b a\n",
                                      "\nget k --limit x\n",
                                      "\nput k --limit 1\n",
                                      "\nget k --hex\n",
                                      "\nget k --endpoints x:1\n",
                                      "\nget --help\n",
                                      "\nget k --frob\n",
                                      "\nwatch k\n",
                                      "\nput k v --ignore-value\n",
                                      "\nput \"k v\n",
                                      "\nput 'k v\n",
                                      "\nput k \"\\q\"\n",
                                      "\n--prefix\n",
                                      "\n\n\nget k\n",
                                      "\nget k --prefix --from-key\n",
                                      "mod(\"k\") = \"99999999999999999999\"\n"};
    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        txn_script_fini(&script);
        why[0] = '\0';
        if (feed(bad[i]) != BELFRY_ERR_INVALID)
            fail_msg("taken: %s", bad[i]);
        assert_true(strlen(why) > 10);
        assert_null(strchr(why, '\n'));
    }
    txn_script_fini(&script);
    assert_int_equal(feed("\nput k --frob\n"), BELFRY_ERR_INVALID);
    assert_string_equal(why, "put k --frob: unknown flag --frob: 'belfryctl help' lists them");
}

static void words_and_requests_are_bounded(void **state)
{
    char many[3 * 70 + 8] = "get";
    (void)state;
    for (int i = 0; i < 70; i++)
        strcat(many, " k");
    assert_int_equal(feed("\n"), BELFRY_OK);
    assert_int_equal(txn_script_line(&script, many, why), BELFRY_ERR_INVALID);
    assert_non_null(strstr(why, "too many words"));
    for (int i = 0; i < TXN_SCRIPT_STEPS; i++)
        assert_int_equal(feed("get k\n"), BELFRY_OK);
    assert_int_equal(feed("get k\n"), BELFRY_ERR_INVALID);
    assert_non_null(strstr(why, "more than"));
    assert_int_equal(feed("\nget k\n\n"), BELFRY_OK);
}

static enum belfry_err scenario(void)
{
    txn_script_fini(&script);
    enum belfry_err err =
        feed("val(\"k\") = \"v\"\n\nput k v --prev-kv\nget --prefix k --limit 2\n\ndel k --prev-kv\n\n");
    if (err == BELFRY_OK)
        err = script.stage == TXN_DONE ? BELFRY_OK : BELFRY_ERR_INVALID;
    txn_script_fini(&script);
    return err;
}

static void refused_memory_leaks_nothing(void **state)
{
    (void)state;
    assert_true(refuse_sweep(scenario) > 15);
}

#define TEST(name) cmocka_unit_test_teardown(name, clean)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(three_lists_make_a_transaction),
        TEST(every_comparison_is_known),
        TEST(blanks_do_not_matter),
        TEST(requests_take_the_flags_that_they_have_as_commands),
        TEST(words_are_cut_as_etcdctl_cuts_them),
        TEST(mistakes_are_told_with_their_line),
        TEST(words_and_requests_are_bounded),
        TEST(refused_memory_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
