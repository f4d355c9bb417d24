/* src/cli/flags_test.c */
#include "cli/flags.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cli/out/form.h"
#include "support/refuse.h"

static struct flags flags;
static char why[FLAGS_WHY];
static const char *environment[8]; /* name, value, name, value, ..., NULL */

static char *fake_getenv(const char *name)
{
    static char value[64];
    for (size_t i = 0; environment[i] != NULL; i += 2)
        if (strcmp(environment[i], name) == 0)
            return snprintf(value, sizeof(value), "%s", environment[i + 1]), value;
    return NULL;
}

/* Parses `line`, cut at its blanks, after the name of the program. */
static enum belfry_err parse(const char *line)
{
    static char text[512];
    char *argv[32] = {text}, *rest = text;
    int argc = 0;
    flags_fini(&flags);
    snprintf(text, sizeof(text), "belfryctl %s", line);
    for (char *word; argc < 31 && (word = strsep(&rest, " ")) != NULL;)
        argv[argc++] = word;
    return flags_parse(argc, argv, fake_getenv, &flags, why);
}

static int clean(void **state)
{
    (void)state;
    environment[0] = NULL;
    flags_fini(&flags);
    return 0;
}

static void verify_takes_its_prefix_in_every_form(void **state)
{
    (void)state;
    const char *lines[] = {"verify --reference e:1 --endpoints t:1 --prefix /registry/",
                           "verify /registry/ --prefix --reference e:1", "verify --prefix=/registry/ --reference=e:1",
                           "--prefix=/registry/ verify", "verify --prefix=true /registry/"};
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        assert_int_equal(parse(lines[i]), BELFRY_OK);
        assert_true(flags_on(&flags, FLAG_PREFIX));
        assert_int_equal(flags.n_args, 1);
        assert_string_equal(flags.args[0], "/registry/");
    }
    assert_int_equal(parse("verify --prefix=/a /b /c"), BELFRY_ERR_INVALID);
    assert_int_equal(parse("del --prefix=/a"),
                     BELFRY_ERR_INVALID); /* elsewhere it is etcdctl's flag, and nothing else */
    assert_string_equal(why, "--prefix: '/a' is neither true nor false: write --prefix /a");
}

static void flags_and_arguments_stand_in_any_order(void **state)
{
    (void)state;
    const char *lines[] = {"get --prefix /a --limit 3", "--prefix --limit=3 get /a", "get /a --limit 3 --prefix=true"};
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(parse(lines[i]), BELFRY_OK);
        assert_int_equal(flags.command, CMD_GET);
        assert_true(flags_on(&flags, FLAG_PREFIX));
        assert_int_equal(flags_number(&flags, FLAG_LIMIT), 3);
        assert_int_equal(flags.n_args, 1);
        assert_string_equal(flags.args[0], "/a");
    }
}

static void letters_take_their_value_attached_or_not(void **state)
{
    (void)state;
    const char *lines[] = {"get a -w json", "get a -wjson", "get a -w=json", "-w json get a", "get a --write-out JSON"};
    for (size_t i = 0; i < 5; i++) {
        enum form form;
        assert_int_equal(parse(lines[i]), BELFRY_OK);
        assert_int_equal(form_choose(&flags, false, &form, why), BELFRY_OK);
        assert_int_equal(form, FORM_ETCD_JSON);
    }
}

static void two_dashes_end_the_flags(void **state)
{
    (void)state;
    assert_int_equal(parse("put k -- --prefix"), BELFRY_OK);
    assert_int_equal(flags.n_args, 2);
    assert_int_equal(flags.n_args_plain, 1);
    assert_string_equal(flags.args[1], "--prefix");
    assert_int_equal(parse("put k -"), BELFRY_OK);
    assert_int_equal(flags.n_args_plain, 2);
}

static void a_flag_wins_over_the_environment_and_ours_over_etcdctls(void **state)
{
    (void)state;
    assert_int_equal(parse("get a"), BELFRY_OK);
    assert_string_equal(flags.value[FLAG_ENDPOINTS], "127.0.0.1:2379");
    assert_false(flags_given(&flags, FLAG_ENDPOINTS));

    const char *etcd_only[] = {"ETCDCTL_ENDPOINTS", "e:1", "BELFRYCTL_ENDPOINTS", "", NULL};
    memcpy(environment, etcd_only, sizeof(etcd_only));
    assert_int_equal(parse("get a"), BELFRY_OK);
    assert_string_equal(flags.value[FLAG_ENDPOINTS], "e:1");

    environment[3] = "b:1";
    assert_int_equal(parse("get a"), BELFRY_OK);
    assert_string_equal(flags.value[FLAG_ENDPOINTS], "b:1");
    assert_int_equal(flags.source[FLAG_ENDPOINTS], FROM_ENVIRONMENT);

    assert_int_equal(parse("get a --endpoints f:1"), BELFRY_OK);
    assert_string_equal(flags.value[FLAG_ENDPOINTS], "f:1");
}

static void the_environment_spells_a_dash_as_underscore_and_is_checked_by_name(void **state)
{
    (void)state;
    const char *bad[] = {"BELFRYCTL_DIAL_TIMEOUT", "soon", NULL};
    memcpy(environment, bad, sizeof(bad));
    assert_int_equal(parse("get a"), BELFRY_ERR_INVALID);
    assert_non_null(strstr(why, "BELFRYCTL_DIAL_TIMEOUT"));
    environment[1] = "750ms";
    assert_int_equal(parse("get a"), BELFRY_OK);
    assert_int_equal(flags_ms(&flags, FLAG_DIAL_TIMEOUT), 750);
}

static void a_variable_for_another_command_is_nobodys_business(void **state)
{
    (void)state;
    const char *other[] = {"BELFRYCTL_LIMIT", "nonsense", NULL};
    memcpy(environment, other, sizeof(other));
    assert_int_equal(parse("watch a"), BELFRY_OK);
    assert_int_equal(parse("get a"), BELFRY_ERR_INVALID);
}

static void endpoints_given_again_are_added(void **state)
{
    (void)state;
    assert_int_equal(parse("get a --endpoints x:1,y:2 --endpoints=z:3 --endpoints w:4"), BELFRY_OK);
    assert_string_equal(flags.value[FLAG_ENDPOINTS], "x:1,y:2,z:3,w:4");
}

static void an_unknown_name_is_told_with_the_nearest(void **state)
{
    (void)state;
    assert_int_equal(parse("get a --prefx"), BELFRY_ERR_INVALID);
    assert_string_equal(why, "unknown flag --prefx: did you mean --prefix?");
    assert_int_equal(parse("wacth a"), BELFRY_ERR_INVALID);
    assert_string_equal(why, "unknown command 'wacth': did you mean watch?");
    assert_int_equal(parse("get a --zzzzzzzz=1"), BELFRY_ERR_INVALID);
    assert_string_equal(why, "unknown flag --zzzzzzzz: 'belfryctl help' lists them");
    assert_int_equal(parse("get a -x"), BELFRY_ERR_INVALID);
    assert_non_null(strstr(why, "-x"));
}

static void a_flag_of_another_command_is_refused_by_name(void **state)
{
    (void)state;
    assert_int_equal(parse("put a b --limit 1"), BELFRY_ERR_INVALID);
    assert_string_equal(why, "put has no --limit: see 'belfryctl help put'");
    assert_int_equal(parse("--limit 1 status"), BELFRY_ERR_INVALID);
    assert_int_equal(parse("watch -i a"), BELFRY_ERR_INVALID);
    assert_non_null(strstr(why, "-i"));
    assert_int_equal(parse("--interactive watch a"), BELFRY_ERR_INVALID);
    assert_int_equal(parse("-i txn"), BELFRY_OK);
    assert_true(flags_on(&flags, FLAG_INTERACTIVE));
}

static void values_are_checked_where_they_are_read(void **state)
{
    (void)state;
    const char *bad[] = {"get a --rev x",
                         "get a --rev -1",
                         "get a --rev",
                         "get a --limit=",
                         "get a --prefix=yes",
                         "get a -w xml",
                         "get a --consistency q",
                         "put a b --lease zz",
                         "get a --dial-timeout 5",
                         "get a --dial-timeout -1s",
                         "get a --order up",
                         "get a --rev 99999999999999999999",
                         "get a --max-message 5X",
                         "get a --dial-timeout 600h"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(parse(bad[i]), BELFRY_ERR_INVALID);
        assert_true(strlen(why) > 10);
    }
    assert_int_equal(parse("put a b --lease 72c7a1dca00d8033"), BELFRY_OK);
    assert_int_equal(parse("get a --order DESCEND --sort-by MODIFY --consistency s"), BELFRY_OK);
}

static void arguments_are_counted(void **state)
{
    (void)state;
    assert_int_equal(parse("get"), BELFRY_ERR_INVALID);
    assert_string_equal(why, "get needs more arguments: belfryctl get KEY [RANGE_END]");
    assert_int_equal(parse("get a b c"), BELFRY_ERR_INVALID);
    assert_string_equal(why, "get takes fewer arguments: belfryctl get KEY [RANGE_END]");
    assert_int_equal(parse("--prefix"), BELFRY_ERR_INVALID);
    assert_string_equal(why, "a command is missing: 'belfryctl help' lists them");
}

static void flag_is_not_taken_for_the_value_of_another(void **state)
{
    (void)state;
    assert_int_equal(parse("get a --limit --prefix"), BELFRY_ERR_INVALID);
    assert_string_equal(
        why, "--limit needs a value, and --prefix looks like a flag: --limit N, or --limit=--prefix if it is "
             "meant");
    assert_int_equal(parse("get a -w --prefix"), BELFRY_ERR_INVALID);
    assert_int_equal(parse("get a --user=--prefix"), BELFRY_OK);
    assert_string_equal(flags.value[FLAG_USER], "--prefix");
    assert_int_equal(parse("get a --user -u"), BELFRY_OK); /* one dash begins names too */
}

static void help_needs_no_arguments(void **state)
{
    (void)state;
    assert_int_equal(parse("get --help"), BELFRY_OK);
    assert_true(flags_on(&flags, FLAG_HELP));
    assert_int_equal(flags.command, CMD_GET);
    assert_int_equal(parse("-h"), BELFRY_OK);
    assert_int_equal(flags.command, CMD_NONE);
}

static void the_form_follows_flags_then_the_terminal(void **state)
{
    (void)state;
    enum form form;
    assert_int_equal(parse("watch a"), BELFRY_OK);
    assert_int_equal(form_choose(&flags, true, &form, why), BELFRY_OK);
    assert_int_equal(form, FORM_TABLE);
    assert_int_equal(form_choose(&flags, false, &form, why), BELFRY_OK);
    assert_int_equal(form, FORM_SIMPLE);
    assert_int_equal(parse("follow a"), BELFRY_OK);
    assert_int_equal(form_choose(&flags, false, &form, why), BELFRY_OK);
    assert_int_equal(form, FORM_TABLE);
    assert_int_equal(parse("get a -w json --output json"), BELFRY_OK);
    assert_int_equal(form_choose(&flags, false, &form, why), BELFRY_ERR_INVALID);
    assert_int_equal(parse("get a --print-value-only --output json"), BELFRY_OK);
    assert_int_equal(form_choose(&flags, false, &form, why), BELFRY_ERR_INVALID);

    const char *write_out[] = {"ETCDCTL_WRITE_OUT", "json", NULL};
    memcpy(environment, write_out, sizeof(write_out));
    assert_int_equal(parse("get a --output json"), BELFRY_OK);
    assert_int_equal(form_choose(&flags, false, &form, why), BELFRY_OK);
    assert_int_equal(form, FORM_LINES);
}

/* What the parser relies on: rows of one name agree in all that is read before the command is known. */
static void rows_of_one_name_agree(void **state)
{
    (void)state;
    for (size_t i = 0; i < flag_table.n_rows; i++) {
        const struct belfry_opt_row *a = &flag_table.rows[i];
        assert_true((a->kind == BELFRY_KIND_BOOL || a->kind == BELFRY_KIND_REFUSED) == (a->value_name == NULL));
        assert_true((a->kind == BELFRY_KIND_CHOICE) == (a->choices != NULL));
        for (size_t j = i + 1; j < flag_table.n_rows; j++) {
            const struct belfry_opt_row *b = &flag_table.rows[j];
            bool same = strcmp(a->name, b->name) == 0;
            assert_true(same == (a->id == b->id));
            if (!same)
                continue;
            bool refused = a->kind == BELFRY_KIND_REFUSED || b->kind == BELFRY_KIND_REFUSED; /* without a value, too */
            assert_true(a->kind == b->kind || (refused && a->value_name == NULL && b->value_name == NULL));
            assert_int_equal(a->letter, b->letter);
            assert_true(a->on != 0 && b->on != 0);
            assert_int_equal(a->on & b->on, 0);
        }
    }
}

/* A default is a value like any other. */
static void every_default_is_a_value_of_its_kind(void **state)
{
    (void)state;
    for (size_t i = 0; i < flag_table.n_rows; i++) {
        uint64_t number;
        if (flag_table.rows[i].fallback != NULL)
            assert_int_equal(belfry_opt_read(&flag_table.rows[i], flag_table.rows[i].fallback, &number, why),
                             BELFRY_OK);
    }
}

static enum belfry_err scenario(void)
{
    enum belfry_err err = parse("get a --endpoints x:1 --endpoints y:1");
    flags_fini(&flags);
    return err;
}

static void every_refused_allocation_is_survived(void **state)
{
    (void)state;
    assert_int_equal(refuse_sweep(scenario), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(verify_takes_its_prefix_in_every_form, clean),
        cmocka_unit_test_teardown(flags_and_arguments_stand_in_any_order, clean),
        cmocka_unit_test_teardown(letters_take_their_value_attached_or_not, clean),
        cmocka_unit_test_teardown(two_dashes_end_the_flags, clean),
        cmocka_unit_test_teardown(a_flag_wins_over_the_environment_and_ours_over_etcdctls, clean),
        cmocka_unit_test_teardown(the_environment_spells_a_dash_as_underscore_and_is_checked_by_name, clean),
        cmocka_unit_test_teardown(a_variable_for_another_command_is_nobodys_business, clean),
        cmocka_unit_test_teardown(endpoints_given_again_are_added, clean),
        cmocka_unit_test_teardown(an_unknown_name_is_told_with_the_nearest, clean),
        cmocka_unit_test_teardown(a_flag_of_another_command_is_refused_by_name, clean),
        cmocka_unit_test_teardown(values_are_checked_where_they_are_read, clean),
        cmocka_unit_test_teardown(arguments_are_counted, clean),
        cmocka_unit_test_teardown(help_needs_no_arguments, clean),
        cmocka_unit_test_teardown(flag_is_not_taken_for_the_value_of_another, clean),
        cmocka_unit_test_teardown(the_form_follows_flags_then_the_terminal, clean),
        cmocka_unit_test(rows_of_one_name_agree),
        cmocka_unit_test(every_default_is_a_value_of_its_kind),
        cmocka_unit_test_teardown(every_refused_allocation_is_survived, clean),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
