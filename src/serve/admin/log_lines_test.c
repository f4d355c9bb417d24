/* src/serve/admin/log_lines_test.c */
#include "serve/admin/log_lines.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/refuse.h"

static struct log_lines lines;

static int set_up(void **state)
{
    (void)state;
    return log_lines_init(&lines) != BELFRY_OK;
}

static int tear_down(void **state)
{
    (void)state;
    log_lines_fini(&lines);
    return 0;
}

static char *text_of(void)
{
    struct belfry_buf buf = {0};
    assert_int_equal(log_lines_write(&lines, &buf), BELFRY_OK);
    assert_int_equal(belfry_buf_append(&buf, "", 1), BELFRY_OK);
    return (char *)buf.data;
}

static void only_warnings_and_errors_are_kept_the_newest_first(void **state)
{
    (void)state;
    log_lines_add(&lines, 1000, BELFRY_LOG_WARN, "link_lost", "why=\"gone\"");
    log_lines_add(&lines, 1001, BELFRY_LOG_INFO, "ready", "");
    log_lines_add(&lines, 1002, BELFRY_LOG_DEBUG, "more", "");
    log_lines_add(&lines, 1003, BELFRY_LOG_ERROR, "disk", "<b>\n");
    char *text = text_of();
    assert_string_equal(text, "{\"kept\":64,\"next\":2,\"lines\":["
                              "{\"number\":1,\"time_ms\":1003,\"level\":\"error\",\"event\":\"disk\",\"text\":"
                              "\"<b>\\n\"},{\"number\":0,\"time_ms\":1000,\"level\":\"warn\",\"event\":\"link_lost\","
                              "\"text\":\"why=\\\"gone\\\"\"}]}\n");
    free(text);
}

static void a_flood_pushes_old_lines_out_and_costs_no_memory(void **state)
{
    (void)state;
    size_t held = refuse_held();
    for (uint64_t i = 0; i < 10 * LOG_LINES; i++) {
        char event[16];
        snprintf(event, sizeof(event), "e%u", (unsigned)i);
        log_lines_add(&lines, i, BELFRY_LOG_WARN, event, "");
    }
    assert_int_equal(refuse_held(), held);
    assert_int_equal(log_lines_next(&lines), 10 * LOG_LINES);
    char *text = text_of();
    assert_non_null(strstr(text, "\"event\":\"e639\""));
    assert_non_null(strstr(text, "\"event\":\"e576\""));
    assert_null(strstr(text, "\"event\":\"e575\""));
    free(text);
}

static void a_line_that_is_too_long_is_cut(void **state)
{
    (void)state;
    static char event[3 * LOG_LINES_EVENT], text[3 * BELFRY_LOG_TEXT];
    memset(event, 'e', sizeof(event) - 1);
    memset(text, 't', sizeof(text) - 1);
    log_lines_add(&lines, 1, BELFRY_LOG_ERROR, event, text);
    char *json = text_of();
    assert_int_equal(strspn(strstr(json, "eee"), "e"), LOG_LINES_EVENT - 1);
    assert_int_equal(strspn(strstr(json, "ttt"), "t"), BELFRY_LOG_TEXT - 1);
    free(json);
}

static enum belfry_err scenario(void)
{
    struct belfry_buf buf = {0};
    enum belfry_err err = log_lines_write(&lines, &buf);
    belfry_buf_fini(&buf);
    return err;
}

static void every_refused_allocation_is_told(void **state)
{
    (void)state;
    log_lines_add(&lines, 1, BELFRY_LOG_ERROR, "event", "text");
    assert_true(refuse_sweep(scenario) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(only_warnings_and_errors_are_kept_the_newest_first, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_flood_pushes_old_lines_out_and_costs_no_memory, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_line_that_is_too_long_is_cut, set_up, tear_down),
        cmocka_unit_test_setup_teardown(every_refused_allocation_is_told, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
