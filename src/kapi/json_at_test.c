/* src/kapi/json_at_test.c */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <belfry/object.h>

#include "base/bytes.h"
#include "support/refuse.h"

static const char pod[] =
    "{\"metadata\":{\"name\":\"web-0\",\"labels\":{\"app\":\"web\",\"a.b/c\":\"x\"},\"deletionTimestamp\":null},"
    "\"spec\":{\"nodeName\":\"n7\",\"empty\":\"\",\"ports\":[{\"port\":80},{\"port\":12345678901234567890}],"
    "\"ratio\":1.50,\"ready\":true,\"text\":\"a\\\"b\\u00e9\\n\",\"zero\":\"a\\u0000b\"},"
    "\"status\":{\"conditions\":[{\"type\":\"Idle\",\"status\":\"False\"},{\"type\":\"Ready\",\"status\":\"True\"}]}}";

static void assert_at(const char *path, const char *expected, size_t expected_len)
{
    char out[2048];
    size_t len = 99;
    memset(out, '#', sizeof(out));
    assert_int_equal(belfry_json_at(belfry_bytes_str(pod), path, out, sizeof(out), &len), BELFRY_OK);
    assert_int_equal(len, expected_len);
    assert_memory_equal(out, expected, expected_len + 1);
}

static void a_path_leads_to_a_value(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {".spec.nodeName", "n7"},
        {".metadata.labels['app']", "web"},
        {".metadata.labels['a.b/c']", "x"},
        {".metadata.labels.a\\.b/c", "x"},
        {".spec.ports[0].port", "80"},
        {".spec.ports[-1].port", "12345678901234567890"}, /* not rounded */
        {".spec.ports[*].port", "80"},                    /* the first of several */
        {".spec.ratio", "1.50"},
        {".spec.ready", "true"},
        {".spec.empty", ""},
        {".spec.text", "a\"b\xc3\xa9\n"},
        {".spec.ports", "[{\"port\":80},{\"port\":12345678901234567890}]"},
        {".metadata.labels", "{\"app\":\"web\",\"a.b/c\":\"x\"}"},
        {".status.conditions[?(@.type==\"Ready\")].status", "True"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_at(rows[i][0], rows[i][1], strlen(rows[i][1]));
    assert_at(".spec.zero", "a\0b", 3);
}

static void the_whole_is_a_value_too(void **state)
{
    (void)state;
    char out[8];
    assert_int_equal(belfry_json_at(belfry_bytes_str(" [1, \"x\"] "), ".", out, sizeof(out), NULL), BELFRY_OK);
    assert_string_equal(out, "[1,\"x\"]");
    assert_int_equal(belfry_json_at(belfry_bytes_str("7"), ".", out, sizeof(out), NULL), BELFRY_OK);
    assert_string_equal(out, "7");
    assert_int_equal(belfry_json_at(belfry_bytes_str("null"), ".", out, sizeof(out), NULL), BELFRY_ERR_NOT_FOUND);
}

static void assert_error(const char *json, const char *path, enum belfry_err err)
{
    char out[16] = "untouched";
    size_t len = 99;
    if (belfry_json_at(belfry_bytes_str(json), path, out, sizeof(out), &len) != (int)err)
        fail_msg("%s of %s is not %s", path, json, belfry_errname(err));
    assert_string_equal(out, "untouched");
    assert_int_equal(len, 99);
}

static void what_is_not_there_is_not_found(void **state)
{
    (void)state;
    static const char *const paths[] = {".spec.nothing", ".spec.nodeName.more", ".spec.ports[7].port",
                                        ".metadata.deletionTimestamp",
                                        ".status.conditions[?(@.type==\"Lost\")].status"};
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
        assert_error(pod, paths[i], BELFRY_ERR_NOT_FOUND);
}

static void what_is_no_path_or_no_json_is_invalid(void **state)
{
    (void)state;
    static const char *const paths[] = {"", "spec", ".spec[", "..", ".a..b", "{.spec}", ".a[0:2:1]"};
    static const char *const texts[] = {"", "{", "{}x", "nul", "{\"a\":01}", "\"\xff\""};
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
        assert_error(pod, paths[i], BELFRY_ERR_INVALID);
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        assert_error(texts[i], ".a", BELFRY_ERR_INVALID);
}

static void what_does_not_fit_says_how_long_it_is(void **state)
{
    (void)state;
    static const char *const paths[] = {".spec.nodeName", ".spec.ports[0].port", ".metadata.labels"};
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        char out[64];
        size_t len = 0, again = 0;
        assert_int_equal(belfry_json_at(belfry_bytes_str(pod), paths[i], NULL, 0, &len), BELFRY_ERR_TOO_LARGE);
        assert_true(len > 0 && len < sizeof(out));
        assert_int_equal(belfry_json_at(belfry_bytes_str(pod), paths[i], out, len, NULL), BELFRY_ERR_TOO_LARGE);
        assert_int_equal(belfry_json_at(belfry_bytes_str(pod), paths[i], out, len + 1, &again), BELFRY_OK);
        assert_int_equal(again, len);
        assert_int_equal(strlen(out), len);
    }
    char empty[1] = "#";
    assert_int_equal(belfry_json_at(belfry_bytes_str(pod), ".spec.empty", NULL, 0, NULL), BELFRY_ERR_TOO_LARGE);
    assert_int_equal(belfry_json_at(belfry_bytes_str(pod), ".spec.empty", empty, 1, NULL), BELFRY_OK);
    assert_int_equal(empty[0], '\0');
}

static enum belfry_err look(void)
{
    char out[64];
    return (enum belfry_err)belfry_json_at(belfry_bytes_str(pod), ".spec.ports[0]", out, sizeof(out), NULL);
}

static void refused_memory_leaks_nothing(void **state)
{
    (void)state;
    assert_true(refuse_sweep(look) >= 4); /* the path, the text, its values, the writing */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_path_leads_to_a_value),
        cmocka_unit_test(the_whole_is_a_value_too),
        cmocka_unit_test(what_is_not_there_is_not_found),
        cmocka_unit_test(what_is_no_path_or_no_json_is_invalid),
        cmocka_unit_test(what_does_not_fit_says_how_long_it_is),
        cmocka_unit_test(refused_memory_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
