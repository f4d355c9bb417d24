/* src/cli/top/top_hour_test.c: the last hour as lines. */
#include "cli/top/top_hour.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/refuse.h"

static const char two_columns[] =
    "{\"every_s\":5,\"samples\":720,\"bytes\":1,\"columns\":[\"time_s\",\"deliveries\",\"p99_ms\",\"memory_bytes\"],"
    "\"first\":0,\"rows\":[[1,null,null,1000],[6,0,null,2000],[11,700,0.4,3000],[16,100,12.8,20000]]}";

static char text[16384]; /* of the last write */

static enum belfry_err write_with(const char *json, size_t columns, size_t most)
{
    struct top_hour_view view = {.columns = columns, .most = most, .line_end = "\n"};
    memset(text, 0, sizeof(text));
    FILE *out = fmemopen(text, sizeof(text) - 1, "w");
    assert_non_null(out);
    enum belfry_err err = top_hour_write(out, json, strlen(json), &view);
    fclose(out);
    return err;
}

static void each_number_has_a_line(void **state)
{
    (void)state;
    assert_int_equal(write_with(two_columns, 0, SIZE_MAX), BELFRY_OK);
    assert_string_equal(text, "LAST HOUR                 NOW       LARGEST   of 20s; a restart forgets it\n"
                              "deliveries              100/s         700/s   ▁█▂\n"
                              "delivery p99          12.8 ms       12.8 ms    ▁█\n"
                              "memory                  20 kB         20 kB  ▁▂▂█\n");
}

static void what_does_not_fit_is_left_out(void **state)
{
    (void)state;
    assert_int_equal(write_with(two_columns, 44, 2), BELFRY_OK);
    assert_string_equal(text, "LAST HOUR                 NOW       LARGEST\n"
                              "deliveries              100/s         700/s\n");
    assert_int_equal(write_with(two_columns, 0, 0), BELFRY_OK);
    assert_string_equal(text, "");
}

/* 600 samples, of which one is large: it is in the course though a column stands for ten of them. */
static void a_long_hour_keeps_its_peaks(void **state)
{
    char json[16384];
    size_t at = (size_t)snprintf(json, sizeof(json), "{\"every_s\":5,\"columns\":[\"time_s\",\"events\"],\"rows\":[");
    (void)state;
    for (int i = 0; i < 600; i++)
        at += (size_t)snprintf(json + at, sizeof(json) - at, "%s[%d,%d]", i > 0 ? "," : "", i, i == 305 ? 9000 : 1);
    snprintf(json + at, sizeof(json) - at, "]}");
    assert_int_equal(write_with(json, 0, SIZE_MAX), BELFRY_OK);
    const char *peak = strstr(text, "█");
    assert_non_null(peak);
    assert_null(strstr(peak + 1, "█"));
    assert_non_null(strstr(text, "9,000/s"));
    assert_non_null(strstr(text, "of 50m"));
}

static void other_documents_are_refused_or_have_no_lines(void **state)
{
    (void)state;
    assert_int_equal(write_with("404", 0, SIZE_MAX), BELFRY_ERR_PROTOCOL);
    assert_int_equal(write_with("{", 0, SIZE_MAX), BELFRY_ERR_PROTOCOL);
    assert_int_equal(write_with("{\"columns\":[],\"rows\":{}}", 0, SIZE_MAX), BELFRY_ERR_PROTOCOL);
    assert_int_equal(write_with("{\"columns\":[\"events\",7],\"rows\":[]}", 0, SIZE_MAX), BELFRY_OK);
    assert_non_null(strstr(text, "events in"));
    assert_int_equal(write_with("{\"columns\":[\"events\"],\"rows\":[[\"x\"],7,[-3e300],[1e300]]}", 0, SIZE_MAX),
                     BELFRY_OK);
}

static enum belfry_err scenario(void)
{
    return write_with(two_columns, 0, SIZE_MAX);
}

static void every_refused_allocation_is_told(void **state)
{
    (void)state;
    assert_true(refuse_sweep(scenario) >= 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_number_has_a_line),
        cmocka_unit_test(what_does_not_fit_is_left_out),
        cmocka_unit_test(a_long_hour_keeps_its_peaks),
        cmocka_unit_test(other_documents_are_refused_or_have_no_lines),
        cmocka_unit_test(every_refused_allocation_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
