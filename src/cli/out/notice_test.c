/* src/cli/out/notice_test.c */
#include "cli/out/notice.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define A "http://127.0.0.1:2379"
#define B "http://127.0.0.1:3379"

static char text[4096];
static FILE *out;
static struct notice notice;

static int begin(void **state)
{
    (void)state;
    memset(text, 0, sizeof(text));
    notice = (struct notice){.state = NOTICE_NEW};
    out = fmemopen(text, sizeof(text), "w");
    return out == NULL;
}

static int end(void **state)
{
    (void)state;
    return fclose(out);
}

static const char *written(void)
{
    fflush(out);
    return text;
}

static void the_first_connection_is_not_worth_a_word(void **state)
{
    (void)state;
    notice_hear(&notice, out, "connected to " A, 100);
    assert_int_equal(notice.state, NOTICE_UP);
    assert_int_equal(notice_wait_ms(&notice, 100), -1);
    assert_string_equal(written(), "");
}

static void a_quick_change_is_one_line(void **state)
{
    (void)state;
    notice_hear(&notice, out, "connected to " A, 100);
    notice_hear(&notice, out, "lost " A ": connection reset; trying others", 200);
    assert_int_equal(notice_wait_ms(&notice, 300), NOTICE_QUIET_MS - 100);
    notice_tick(&notice, out, 300);
    notice_hear(&notice, out, "connected to " B, 412);
    assert_string_equal(written(), "!! " A " gone; on " B " after 212 ms, nothing missed\n");
}

static void a_long_loss_is_told_while_it_lasts(void **state)
{
    (void)state;
    notice_hear(&notice, out, "connected to " A, 100);
    notice_hear(&notice, out, "lost " A ": connection reset; trying others", 200);
    notice_hear(&notice, out, "no endpoint answers: " A ": connection refused", 300);
    notice_tick(&notice, out, 200 + NOTICE_QUIET_MS);
    notice_tick(&notice, out, 300 + NOTICE_QUIET_MS);
    notice_hear(&notice, out, "connected to " A, 200 + 83456);
    assert_string_equal(written(), "!! no endpoint answers: " A ": connection refused\n"
                                   "!! on " A " after 1 min 23 s, nothing missed\n");
}

static void what_was_said_before_any_connection_is_kept_for_the_end(void **state)
{
    (void)state;
    notice_hear(&notice, out, "no endpoint answers: " A ": connection refused", 300);
    assert_int_equal(notice.state, NOTICE_NEW);
    assert_string_equal(notice.words, "no endpoint answers: " A ": connection refused");
    assert_int_equal(notice_wait_ms(&notice, 300), -1);
    notice_alive(&notice);
    assert_int_equal(notice.state, NOTICE_UP);
    assert_string_equal(written(), "");
}

static void words_without_end_are_cut(void **state)
{
    (void)state;
    static char words[3 * NOTICE_TEXT];
    memset(words, 'x', sizeof(words) - 1);
    notice_hear(&notice, out, words, 1);
    assert_int_equal(strlen(notice.words), NOTICE_TEXT - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_first_connection_is_not_worth_a_word, begin, end),
        cmocka_unit_test_setup_teardown(a_quick_change_is_one_line, begin, end),
        cmocka_unit_test_setup_teardown(a_long_loss_is_told_while_it_lasts, begin, end),
        cmocka_unit_test_setup_teardown(what_was_said_before_any_connection_is_kept_for_the_end, begin, end),
        cmocka_unit_test_setup_teardown(words_without_end_are_cut, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
