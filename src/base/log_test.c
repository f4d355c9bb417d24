/* src/base/log_test.c */
#include "base/log.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

struct heard {
    int lines;
    enum belfry_log_level level;
    char event[64], text[1024];
};

static void hear(enum belfry_log_level level, const char *event, const char *text, void *user)
{
    struct heard *heard = user;
    heard->lines++;
    heard->level = level;
    strncpy(heard->event, event, sizeof(heard->event) - 1);
    strncpy(heard->text, text, sizeof(heard->text) - 1);
}

static void line_reaches_the_hook_formatted(void **state)
{
    (void)state;
    struct heard heard = {0};
    struct belfry_log log = {.line = hear, .user = &heard, .level = BELFRY_LOG_INFO};
    belfry_logf(&log, BELFRY_LOG_WARN, "link_lost", "endpoint=%s tries=%d", "http://127.0.0.1:2379", 3);
    assert_int_equal(heard.lines, 1);
    assert_int_equal(heard.level, BELFRY_LOG_WARN);
    assert_string_equal(heard.event, "link_lost");
    assert_string_equal(heard.text, "endpoint=http://127.0.0.1:2379 tries=3");
}

static void levels_above_the_limit_are_silent(void **state)
{
    (void)state;
    struct heard heard = {0};
    struct belfry_log log = {.line = hear, .user = &heard, .level = BELFRY_LOG_INFO};
    belfry_logf(&log, BELFRY_LOG_DEBUG, "x", "y");
    assert_int_equal(heard.lines, 0);
    belfry_logf(&log, BELFRY_LOG_INFO, "x", "y");
    assert_int_equal(heard.lines, 1);
    log.level = BELFRY_LOG_ERROR;
    belfry_logf(&log, BELFRY_LOG_WARN, "x", "y");
    assert_int_equal(heard.lines, 1);
    belfry_logf(&log, BELFRY_LOG_ERROR, "x", "y");
    assert_int_equal(heard.lines, 2);
}

static void no_hook_and_no_log_are_fine(void **state)
{
    (void)state;
    struct belfry_log silent = {.level = BELFRY_LOG_DEBUG};
    belfry_logf(&silent, BELFRY_LOG_ERROR, "x", "%d", 1);
    belfry_logf(NULL, BELFRY_LOG_ERROR, "x", "%d", 1);
}

static void long_line_is_cut_at_its_bound(void **state)
{
    (void)state;
    struct heard heard = {0};
    struct belfry_log log = {.line = hear, .user = &heard, .level = BELFRY_LOG_DEBUG};
    char text[900];
    memset(text, 'a', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    belfry_logf(&log, BELFRY_LOG_INFO, "x", "%s", text);
    assert_int_equal(strlen(heard.text), BELFRY_LOG_TEXT - 2); /* with room for a quote and its terminator */
    assert_memory_equal(heard.text, text, BELFRY_LOG_TEXT - 2);
}

static const char *text_of(struct heard *heard)
{
    return heard->text;
}

static void argument_ends_no_value(void **state)
{
    (void)state;
    struct heard heard = {0};
    struct belfry_log log = {.line = hear, .user = &heard, .level = BELFRY_LOG_INFO};
    belfry_logf(&log, BELFRY_LOG_WARN, "x", "why=\"%s\" n=%d", "403: User \"alice\" cannot list", 2);
    assert_string_equal(text_of(&heard), "why=\"403: User \\\"alice\\\" cannot list\" n=2");
    belfry_logf(&log, BELFRY_LOG_WARN, "x", "why=\"at %d%%: %.*s, %s\" hint=\"say \\%s\"", 50, 3, "a\\\"b", "\" n=3",
                "x");
    assert_string_equal(text_of(&heard), "why=\"at 50%: a\\\\\\\", \\\" n=3\" hint=\"say \\x\"");
    belfry_logf(&log, BELFRY_LOG_WARN, "x", "user=%s peer=%s %s", "eve n=1", "10.0.0.7", "a=\"1\"");
    assert_string_equal(text_of(&heard), "user=\"eve n=1\" peer=10.0.0.7 a=\"1\"");
    belfry_logf(&log, BELFRY_LOG_WARN, "x", "user=%s key=%s-%zu", "a\"b", "", (size_t)7);
    assert_string_equal(text_of(&heard), "user=\"a\\\"b\" key=-7");
}

/* A line of any length ends where a reader can tell that it ends. */
static void value_that_is_cut_is_closed(void **state)
{
    (void)state;
    struct heard heard = {0};
    struct belfry_log log = {.line = hear, .user = &heard, .level = BELFRY_LOG_INFO};
    for (size_t n = BELFRY_LOG_TEXT - 20; n < BELFRY_LOG_TEXT + 20; n++) {
        char blanks[BELFRY_LOG_TEXT + 64], quotes[BELFRY_LOG_TEXT + 64];
        memset(blanks, ' ', sizeof(blanks));
        memset(quotes, '"', sizeof(quotes));
        blanks[n] = quotes[n] = '\0';
        belfry_logf(&log, BELFRY_LOG_WARN, "x", "v=%s n=1", blanks);
        assert_true(strlen(heard.text) < BELFRY_LOG_TEXT);
        assert_non_null(strstr(heard.text, "  \""));
        belfry_logf(&log, BELFRY_LOG_WARN, "x", "v=\"%s\"", quotes);
        assert_true(strlen(heard.text) < BELFRY_LOG_TEXT && strlen(heard.text) >= BELFRY_LOG_TEXT - 3);
        assert_string_equal(heard.text + strlen(heard.text) - 3, "\\\"\"");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(line_reaches_the_hook_formatted), cmocka_unit_test(levels_above_the_limit_are_silent),
        cmocka_unit_test(no_hook_and_no_log_are_fine),     cmocka_unit_test(argument_ends_no_value),
        cmocka_unit_test(value_that_is_cut_is_closed),     cmocka_unit_test(long_line_is_cut_at_its_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
