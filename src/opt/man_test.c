/* src/opt/man_test.c */
#include "opt/man.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct belfry_opt_row parts[] = {
    {0, "url", .kind = BELFRY_KIND_TEXT, .value_name = "URL", .help = "the address"},
    {1, "serve", .kind = BELFRY_KIND_TEXT, .value_name = "NAME", .described = "all", .help = "what is spoken"},
};
static const struct belfry_opt_row rows[] = {
    {0, "listen", .kind = BELFRY_KIND_WORDS, .value_name = "URL[,OPTION...]", .group = "Clients",
     .fallback = "http://[::1]:1", .help = "serve here, as --name says",
     .more = "It's one.\n\n--listen adds; --lis is no flag."},
    {1, "name", .letter = 'n', .kind = BELFRY_KIND_TEXT, .value_name = "NAME", .group = "Other", .help = "etcd's name"},
    {2, "form", .kind = BELFRY_KIND_CHOICE, .value_name = "FORM", .choices = "a|b", .help = "a or b"},
    {3, "rev", .kind = BELFRY_KIND_COUNT, .value_name = "N", .on = 1u << 1, .line_only = true,
     .help = "=0: the \\newest"},
};
static const struct belfry_opt_parts all_parts[] = {{"listen", "Options", parts, 2}};
static const struct belfry_opt_command commands[] = {
    {.name = "", .arguments = ""},
    {.name = "get",
     .arguments = "KEY",
     .summary = "read",
     .notes = "Reads it.",
     .more = "More.",
     .example = "prog get a\n\nprog get -n b"},
    {.name = "lease", .arguments = "", .summary = "keep", .notes = "grant    a new one\nlist     all"},
};
static const struct belfry_opt_table table = {.program = "prog",
                                              .ask = "prog help",
                                              .rows = rows,
                                              .n_rows = 4,
                                              .commands = commands,
                                              .n_commands = 3,
                                              .parts = all_parts,
                                              .n_parts = 1};

static void expect(void (*write)(FILE *out, const struct belfry_opt_table *table), const char *wanted)
{
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    assert_non_null(out);
    write(out, &table);
    assert_int_equal(fclose(out), 0);
    assert_string_equal(text, wanted);
    free(text);
}

static void flags_have_their_default_and_what_may_follow_the_value(void **state)
{
    (void)state;
    expect(belfry_opt_man_flags, ".SS Clients\n.TP\n"
                                 "\\fB\\-\\-listen\\fR \\fIURL[,OPTION...]\\fR\n"
                                 "Serve here, as \\fB\\-\\-name\\fR says. Default: http://[::1]:1.\n"
                                 "It\\(aqs one.\n.PP\n\\fB\\-\\-listen\\fR adds; \\-\\-lis is no flag.\n"
                                 ".RS\n.TP\n\\fBserve\\fR\\fB=\\fINAME\\fR\nWhat is spoken. Default: all.\n.RE\n"
                                 ".SS Other\n.TP\n\\fB\\-n\\fR, \\fB\\-\\-name\\fR \\fINAME\\fR\nEtcd\\(aqs name.\n"
                                 ".TP\n\\fB\\-\\-form\\fR \\fIFORM\\fR\na or b.\n");
}

static void keys_say_what_they_take_and_are_named_without_dashes(void **state)
{
    (void)state;
    expect(belfry_opt_man_keys, ".SS Clients\n.TP\n\\fBlisten\\fR (list; http://[::1]:1)\n"
                                "Serve here, as \\fBname\\fR says.\n"
                                "It\\(aqs one.\n.PP\n\\fBlisten\\fR adds; \\-\\-lis is no flag.\n"
                                ".RS\n.TP\n\\fBurl\\fR (\\fIurl\\fR)\nThe address.\n"
                                ".TP\n\\fBserve\\fR (\\fItext\\fR; all)\nWhat is spoken.\n.RE\n"
                                ".SS Other\n.TP\n\\fBname\\fR (\\fItext\\fR)\nEtcd\\(aqs name.\n"
                                ".TP\n\\fBform\\fR (a|b)\na or b.\n");
}

static void commands_have_notes_flags_and_examples(void **state)
{
    (void)state;
    expect(belfry_opt_man_commands, ".SS get KEY\nRead.\nReads it.\n.PP\nMore.\n"
                                    ".TP\n\\fB\\-\\-rev\\fR \\fIN\\fR\n=0: the \\enewest.\n"
                                    ".PP\nExamples:\n.PP\n.nf\n.RS\nprog get a\n\nprog get \\-n b\n.RE\n.fi\n"
                                    ".SS lease\nKeep.\n.PP\n.nf\n.RS\ngrant    a new one\nlist     all\n.RE\n.fi\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(flags_have_their_default_and_what_may_follow_the_value),
        cmocka_unit_test(keys_say_what_they_take_and_are_named_without_dashes),
        cmocka_unit_test(commands_have_notes_flags_and_examples),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
