/* src/cli/flag_table_test.c: what --help makes of the table. */
#include "cli/flags.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "opt/help.h"

static char text[32768];

static void render(enum command command)
{
    FILE *out = fmemopen(text, sizeof(text), "w");
    assert_non_null(out);
    belfry_opt_help(out, &flag_table, command);
    assert_int_equal(fclose(out), 0);
    assert_true(strlen(text) < sizeof(text) - 1);
}

static void every_option_is_in_the_help_of_its_commands(void **state)
{
    (void)state;
    for (enum command c = CMD_NONE; c < N_COMMANDS; c++) {
        render(c);
        for (size_t i = 0; i < flag_table.n_rows; i++) {
            const struct belfry_opt_row *row = &flag_table.rows[i];
            bool there = row->on == 0 || (c != CMD_NONE && belfry_opt_is_on(row, c));
            char name[64];
            snprintf(name, sizeof(name), "--%s%s", row->name, row->value_name != NULL ? " " : "");
            if (there) {
                assert_non_null(strstr(text, name));
                assert_non_null(strstr(text, row->help));
            } else if (row->value_name != NULL && flags_row((enum flag)row->id, c) == NULL) {
                assert_null(strstr(text, name));
            }
        }
    }
}

static void every_command_is_in_the_help_of_the_program(void **state)
{
    (void)state;
    render(CMD_NONE);
    for (enum command c = CMD_NONE + 1; c < N_COMMANDS; c++) {
        char line[64];
        snprintf(line, sizeof(line), "\n  %s ", command_rows[c].name);
        assert_non_null(strstr(text, line));
        assert_non_null(strstr(text, command_rows[c].summary));
    }
}

static void every_command_has_examples_that_name_it(void **state)
{
    (void)state;
    for (enum command c = CMD_GET; c <= CMD_COMPLETION; c++) {
        assert_non_null(command_rows[c].notes);
        assert_non_null(strstr(command_rows[c].example, command_rows[c].name));
    }
}

static void no_line_is_wider_than_a_terminal_of_110(void **state)
{
    (void)state;
    for (enum command c = CMD_NONE; c < N_COMMANDS; c++) {
        render(c);
        for (const char *line = text; *line != '\0';) {
            size_t len = strcspn(line, "\n");
            if (len > 110)
                fail_msg("%zu columns: %.*s", len, (int)len, line);
            line += len + (line[len] == '\n');
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_option_is_in_the_help_of_its_commands),
        cmocka_unit_test(every_command_is_in_the_help_of_the_program),
        cmocka_unit_test(every_command_has_examples_that_name_it),
        cmocka_unit_test(no_line_is_wider_than_a_terminal_of_110),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
