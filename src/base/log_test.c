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
    assert_int_equal(strlen(heard.text), BELFRY_LOG_TEXT - 1); /* and its terminator */
    assert_memory_equal(heard.text, text, BELFRY_LOG_TEXT - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(line_reaches_the_hook_formatted),
        cmocka_unit_test(levels_above_the_limit_are_silent),
        cmocka_unit_test(no_hook_and_no_log_are_fine),
        cmocka_unit_test(long_line_is_cut_at_its_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
