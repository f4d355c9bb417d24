/* src/opt/command_line_test.c */
#include "opt/command_line.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const struct belfry_opt_row rows[] = {
    {0, "limit", .kind = BELFRY_KIND_COUNT, .value_name = "N"},
    {1, "prefix", .kind = BELFRY_KIND_BOOL},
    {2, "write-out", .letter = 'w', .kind = BELFRY_KIND_TEXT, .value_name = "FORM"},
    {3, "help", .letter = 'h', .kind = BELFRY_KIND_BARE},
    {4, "interactive", .letter = 'i', .kind = BELFRY_KIND_REFUSED},
};
static const struct belfry_opt_table table = {.program = "prog", .ask = "prog help", .rows = rows, .n_rows = 5};

/* What the words of `line` are: "limit=3 prefix=true <a>", or what is wrong with them. */
static const char *read_line(const char *line)
{
    static char said[512];
    char text[256], *argv[16] = {text}, *rest = text, why[BELFRY_OPT_WHY];
    int argc = 0;
    size_t n = 0;
    snprintf(text, sizeof(text), "prog %s", line);
    for (char *word; argc < 16 && (word = strsep(&rest, " ")) != NULL;)
        argv[argc++] = word;
    struct belfry_opt_words words = {.table = &table, .argc = argc, .argv = argv, .at = 1};
    struct belfry_opt_word word;
    said[0] = '\0';
    for (;;)
        switch (belfry_opt_words_next(&words, &word, why)) {
        case BELFRY_FOUND_FLAG:
            n += (size_t)snprintf(said + n, sizeof(said) - n, "%s%s=%s", n > 0 ? " " : "", word.row->name,
                                  word.text == NULL ? "-" : word.text);
            break;
        case BELFRY_FOUND_ARGUMENT:
            n += (size_t)snprintf(said + n, sizeof(said) - n, "%s<%s>", n > 0 ? " " : "", word.text);
            break;
        case BELFRY_FOUND_END:
            return said;
        case BELFRY_FOUND_WRONG:
            snprintf(said, sizeof(said), "%s", why);
            return said;
        }
}

static void flags_and_arguments_stand_in_any_order(void **state)
{
    (void)state;
    assert_string_equal(read_line(""), "<>");
    assert_string_equal(read_line("a --limit 3 --prefix"), "<a> limit=3 prefix=true");
    assert_string_equal(read_line("--limit=3 --prefix=false a"), "limit=3 prefix=false <a>");
    assert_string_equal(read_line("--limit= -"), "limit= <->");
    assert_string_equal(read_line("--help a"), "help=- <a>");
}

static void letters_take_their_value_attached_or_not(void **state)
{
    (void)state;
    static const char *const lines[] = {"-w json", "-wjson", "-w=json", "--write-out json"};
    for (size_t i = 0; i < 4; i++)
        assert_string_equal(read_line(lines[i]), "write-out=json");
    assert_string_equal(read_line("-hiwjson a"), "help=- interactive=true write-out=json <a>");
    assert_string_equal(read_line("-hiw json"), "help=- interactive=true write-out=json");
    assert_string_equal(read_line("-i=false"), "interactive=false");
}

static void two_dashes_end_the_flags(void **state)
{
    (void)state;
    assert_string_equal(read_line("k -- --prefix -h --"), "<k> <--prefix> <-h> <-->");
    assert_string_equal(read_line("k --"), "<k>");
    assert_string_equal(read_line("--write-out -h"), "write-out=-h"); /* one dash may begin a value */
}

static void a_mistake_names_the_flag_and_a_remedy(void **state)
{
    (void)state;
    assert_string_equal(read_line("--prefx"), "unknown flag --prefx: did you mean --prefix?");
    assert_string_equal(read_line("--zzzzz=1"), "unknown flag --zzzzz: 'prog help' lists them");
    assert_string_equal(read_line("-hx"), "unknown flag -x: 'prog help' lists them");
    assert_string_equal(read_line("--limit"), "--limit needs a value: --limit N");
    assert_string_equal(read_line("-w"), "-w needs a value: -w FORM");
    assert_string_equal(read_line("--limit --prefix"),
                        "--limit needs a value, and --prefix looks like a flag: --limit N, or --limit=--prefix if it "
                        "is meant");
    assert_string_equal(read_line("--limit --"),
                        "--limit needs a value, and -- looks like a flag: --limit N, or --limit=-- if it is meant");
    assert_string_equal(read_line("--help=no"), "--help takes no value");
    char longer[200] = "--";
    memset(longer + 2, 'a', 190);
    assert_true(strlen(read_line(longer)) < 120);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(flags_and_arguments_stand_in_any_order),
        cmocka_unit_test(letters_take_their_value_attached_or_not),
        cmocka_unit_test(two_dashes_end_the_flags),
        cmocka_unit_test(a_mistake_names_the_flag_and_a_remedy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
