/* src/kapi/failure_test.c */
#include "kapi/failure.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/utf8.h"
#include "support/refuse.h"

static struct belfry_failure answer(int status, const char *retry_after, const char *body)
{
    struct belfry_failure failure;
    belfry_failure_of_answer(&failure, status, belfry_bytes_str(retry_after), belfry_bytes_str(body));
    return failure;
}

static struct belfry_failure status(const char *json)
{
    struct belfry_failure failure;
    belfry_failure_of_status(&failure, belfry_bytes_str(json));
    return failure;
}

#define STATUS(rest) "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\"," rest "}"

/* ---- what it means ---- */

static void a_code_says_what_kind_of_failure_it_is(void **state)
{
    (void)state;
    static const struct {
        int code;
        enum belfry_err err;
    } cases[] = {
        {400, BELFRY_ERR_REFUSED},     {401, BELFRY_ERR_AUTH},        {403, BELFRY_ERR_DENIED},
        {404, BELFRY_ERR_NOT_FOUND},   {405, BELFRY_ERR_REFUSED},     {409, BELFRY_ERR_REFUSED},
        {410, BELFRY_ERR_COMPACTED},   {422, BELFRY_ERR_REFUSED},     {429, BELFRY_ERR_UNAVAILABLE},
        {500, BELFRY_ERR_UNAVAILABLE}, {503, BELFRY_ERR_UNAVAILABLE}, {504, BELFRY_ERR_UNAVAILABLE},
        {201, BELFRY_ERR_PROTOCOL},    {302, BELFRY_ERR_PROTOCOL},    {101, BELFRY_ERR_PROTOCOL},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct belfry_failure failure = answer(cases[i].code, "", "");
        assert_int_equal(failure.err, cases[i].err);
        assert_int_equal(failure.code, cases[i].code);
        assert_int_equal(failure.expired, cases[i].code == 410);
        assert_string_equal(failure.reason, "");
        assert_int_equal(failure.retry_after_ms, -1);
    }
}

static void a_status_without_a_code_is_judged_by_its_reason(void **state)
{
    (void)state;
    struct belfry_failure failure = status(STATUS("\"reason\":\"Forbidden\""));
    assert_true(failure.err == BELFRY_ERR_DENIED && failure.code == 0);
    failure = status(STATUS("\"reason\":\"Expired\",\"message\":\"x\""));
    assert_true(failure.err == BELFRY_ERR_COMPACTED && failure.code == 0 && failure.expired);
    assert_string_equal(failure.why, "Expired: x");
    failure = status(STATUS("\"reason\":\"Odd\",\"code\":\"410\""));
    assert_true(failure.err == BELFRY_ERR_REFUSED && failure.code == 0 && !failure.expired);
    failure = status(STATUS("\"message\":\"x\""));
    assert_int_equal(failure.err, BELFRY_ERR_REFUSED);
    assert_string_equal(failure.why, "an error that the server gave no code: x");
}

static void what_is_expired_is_known_by_code_and_by_reason(void **state)
{
    (void)state;
    struct belfry_failure failure =
        status(STATUS("\"message\":\"too old resource version: 5 (812)\",\"reason\":\"Expired\",\"code\":410"));
    assert_true(failure.expired && failure.err == BELFRY_ERR_COMPACTED && failure.code == 410);
    assert_string_equal(failure.reason, "Expired");
    assert_string_equal(failure.why, "410 Expired: too old resource version: 5 (812)");
    assert_true(status(STATUS("\"reason\":\"Gone\",\"code\":410")).expired);
    assert_true(status(STATUS("\"code\":410")).expired);
    assert_true(answer(400, "", STATUS("\"reason\":\"Expired\"")).expired);
    assert_false(status(STATUS("\"reason\":\"Conflict\",\"code\":409")).expired);
}

static void a_version_that_is_too_new_is_known_by_cause_and_by_words(void **state)
{
    (void)state;
    struct belfry_failure failure = answer(
        504, "1",
        STATUS("\"message\":\"Timeout: Too large resource version: 999, current: "
               "812\",\"reason\":\"Timeout\",\"code\":504,"
               "\"details\":{\"causes\":[{\"reason\":\"Other\"},{\"reason\":\"ResourceVersionTooLarge\",\"message\":"
               "\"Too large resource version\"}],\"retryAfterSeconds\":1}"));
    assert_true(failure.too_large && failure.err == BELFRY_ERR_FUTURE && failure.retry_after_ms == 1000);
    assert_string_equal(failure.why, "504 Timeout: Too large resource version: 999, current: 812");
    assert_true(
        status(STATUS("\"message\":\"Timeout: Too large resource version: 9\",\"reason\":\"Timeout\"")).too_large);
    assert_true(status(STATUS("\"message\":\"Too large resource version\",\"code\":504")).too_large);
    assert_false(status(STATUS("\"message\":\"Too large resource version\",\"code\":500")).too_large);
    assert_false(
        status(STATUS("\"reason\":\"Timeout\",\"details\":{\"causes\":{\"reason\":\"ResourceVersionTooLarge\"}}"))
            .too_large);
}

static void when_to_come_again_is_read_in_seconds(void **state)
{
    (void)state;
    static const struct {
        const char *header, *details;
        int64_t ms;
    } cases[] = {
        {"1", "{}", 1000},
        {"0", "{}", 0},
        {"30", "{\"retryAfterSeconds\":7}", 30000},
        {"", "{\"retryAfterSeconds\":7}", 7000},
        {"", "{\"retryAfterSeconds\":0}", -1},
        {"", "{\"retryAfterSeconds\":-7}", -1},
        {"", "{\"retryAfterSeconds\":1.5}", -1},
        {"", "{\"retryAfterSeconds\":\"7\"}", -1},
        {"", "{\"retryAfterSeconds\":99999999999999999999999}", 3600000},
        {"", "7", -1},
        {"Wed, 21 Oct 2015 07:28:00 GMT", "{}", -1},
        {"-1", "{}", -1},
        {"1.5", "{}", -1},
        {" 1", "{}", -1},
        {"3600", "{}", 3600000},
        {"3601", "{}", 3600000},
        {"99999999999999999999999999999999999999", "{}", 3600000},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char body[256];
        snprintf(body, sizeof(body), STATUS("\"code\":503,\"details\":%s"), cases[i].details);
        assert_int_equal(answer(503, cases[i].header, body).retry_after_ms, cases[i].ms);
    }
    assert_int_equal(answer(429, "5", "slow down").retry_after_ms, 5000);
}

/* ---- what it says ---- */

static void a_sentence_has_the_code_and_the_servers_words(void **state)
{
    (void)state;
    static const struct {
        int code;
        const char *body, *why;
    } cases[] = {
        {403,
         STATUS("\"message\":\"pods is forbidden: User \\\"x\\\" cannot list resource \\\"pods\\\"\",\"reason\":"
                "\"Forbidden\",\"code\":403"),
         "403 Forbidden: pods is forbidden: User \"x\" cannot list resource \"pods\""},
        {404, STATUS("\"message\":\"pods \\\"x\\\" not found\",\"reason\":\"NotFound\",\"code\":404"),
         "404 NotFound: pods \"x\" not found"},
        {401, STATUS("\"message\":\"Unauthorized\",\"reason\":\"Unauthorized\",\"code\":401"), "401 Unauthorized"},
        {500, STATUS("\"message\":\"Forbidden words\",\"reason\":\"Forbidden\""), "500 Forbidden: Forbidden words"},
        {503, "", "503 Service Unavailable"},
        {503, "upstream connect error\r\n", "503 Service Unavailable: upstream connect error"},
        {404, "404 page not found\n", "404 Not Found: 404 page not found"},
        {429, STATUS("\"code\":429"), "429 Too Many Requests"},
        {418, "short and stout", "418: short and stout"},
        {302, "", "302"},
        {400, "{\"error\":\"no\"}", "400 Bad Request: {\"error\":\"no\"}"},
        {500, "\x1b[2J\xff\xC3\xA9", "500 Internal Server Error: ?[2J?\xC3\xA9"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_string_equal(answer(cases[i].code, "", cases[i].body).why, cases[i].why);
}

static void of_a_page_of_html_the_title_or_the_text_is_said(void **state)
{
    (void)state;
    static const struct {
        const char *body, *why;
    } cases[] = {
        {"<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body><h1>502 Bad Gateway</h1></body></html>",
         "502 Bad Gateway"},
        {"\n<!DOCTYPE html><HTML><TITLE>No\n backend</TITLE><style>a{}</style>", "502 Bad Gateway: No backend"},
        {"<p>no <b>backend</b></p>\n<p>here</p>", "502 Bad Gateway: no backend here"},
        {"<title>", "502 Bad Gateway"},
        {"<title>cut", "502 Bad Gateway: cut"},
        {"<", "502 Bad Gateway"},
        {"<p", "502 Bad Gateway"},
        {"a < b", "502 Bad Gateway: a < b"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_string_equal(answer(502, "", cases[i].body).why, cases[i].why);
}

static void long_words_are_cut_between_characters(void **state)
{
    (void)state;
    char body[1024];
    for (size_t shift = 0; shift < 4; shift++) {
        memset(body, 'a', shift);
        for (size_t i = shift; i + 3 < sizeof(body); i += 3)
            memcpy(body + i, "\xE2\x82\xAC", 4);
        struct belfry_failure failure = answer(500, "", body);
        size_t len = strlen(failure.why);
        assert_true(len < BELFRY_FAILURE_WHY && len > BELFRY_FAILURE_WHY - 10);
        assert_true(belfry_utf8_valid(failure.why, strlen(failure.why)) && strcmp(failure.why + len - 3, "...") == 0);
    }
    char json[512];
    snprintf(json, sizeof(json), STATUS("\"reason\":\"%0200d\",\"code\":500"), 1);
    struct belfry_failure failure = status(json);
    assert_true(strlen(failure.reason) < sizeof(failure.reason) && strlen(failure.reason) > 40);
}

static void no_more_of_a_body_is_read_than_the_bound(void **state)
{
    (void)state;
    size_t len = BELFRY_FAILURE_BODY + 200;
    char *body = malloc(len);
    assert_non_null(body);
    for (int over = 0; over <= 1; over++) { /* a Status that ends at the bound, and one byte behind it */
        static const char head[] = "{\"kind\":\"Status\",\"reason\":\"Odd\",\"x\":\"", tail[] = "\"}";
        size_t fill = BELFRY_FAILURE_BODY + (size_t)over - strlen(head) - strlen(tail);
        memcpy(body, head, strlen(head));
        memset(body + strlen(head), 'x', fill);
        memcpy(body + strlen(head) + fill, tail, strlen(tail));
        struct belfry_failure failure;
        belfry_failure_of_answer(&failure, 500, belfry_bytes_of("", 0),
                                 belfry_bytes_of(body, strlen(head) + fill + strlen(tail)));
        assert_string_equal(failure.reason, over ? "" : "Odd");
    }
    free(body);
}

static void an_error_that_is_no_status_says_so(void **state)
{
    (void)state;
    static const char *const texts[] = {"{\"kind\":\"Pod\",\"code\":410}", "[1,2]", "{", "no"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        char expected[128];
        struct belfry_failure failure = status(texts[i]);
        snprintf(expected, sizeof(expected), "an ERROR that is not a Status: %s", texts[i]);
        assert_string_equal(failure.why, expected);
        assert_true(failure.err == BELFRY_ERR_PROTOCOL && failure.code == 0 && !failure.expired);
    }
}

static void members_of_other_types_are_not_there(void **state)
{
    (void)state;
    struct belfry_failure failure =
        status(STATUS("\"reason\":7,\"message\":[],\"code\":{},\"details\":[{\"retryAfterSeconds\":1}]"));
    assert_string_equal(failure.why, "an error that the server gave no code");
    assert_true(failure.code == 0 && failure.retry_after_ms == -1 && failure.reason[0] == '\0');
    assert_int_equal(status(STATUS("\"code\":-41")).code, 0);
    assert_int_equal(status(STATUS("\"code\":41000")).code, 0);
    assert_int_equal(status(STATUS("\"code\":4.1")).code, 0);
}

static void our_own_words_are_made_printable_too(void **state)
{
    (void)state;
    struct belfry_failure failure = answer(410, "1", "");
    belfry_failure_set(&failure, BELFRY_ERR_TIMEOUT, "no answer from %s in %d s", "a\x1b\nb", 30);
    assert_string_equal(failure.why, "no answer from a? b in 30 s");
    assert_true(failure.err == BELFRY_ERR_TIMEOUT && failure.code == 0 && !failure.expired);
    assert_int_equal(failure.retry_after_ms, -1);
    belfry_failure_set(&failure, BELFRY_ERR_TIMEOUT, "%0600d", 1);
    assert_true(strlen(failure.why) < sizeof(failure.why));
}

/* ---- without memory ---- */

/* It never fails: what the code says is always known. */
static enum belfry_err answer_and_status(void)
{
    struct belfry_failure failure = answer(403, "2", STATUS("\"reason\":\"Forbidden\",\"message\":\"x\""));
    assert_true(failure.err == BELFRY_ERR_DENIED && failure.code == 403 && failure.retry_after_ms == 2000);
    assert_true(strncmp(failure.why, "403 Forbidden: ", 15) == 0);
    failure = status(STATUS("\"code\":410"));
    assert_true(failure.err == BELFRY_ERR_COMPACTED || failure.err == BELFRY_ERR_NOMEM);
    return failure.err == BELFRY_ERR_NOMEM ? BELFRY_ERR_NOMEM : BELFRY_OK;
}

static void without_memory_it_says_what_the_code_says(void **state)
{
    (void)state;
    assert_true(refuse_sweep(answer_and_status) >= 4);
}

static void the_first_failure_stands_behind_the_last(void **state)
{
    (void)state;
    struct belfry_failure failure;
    belfry_failure_set(&failure, BELFRY_ERR_TIMEOUT, "%s", "no answer came in time");
    belfry_failure_add_first(&failure, "503 Service Unavailable: etcd is down", 4);
    assert_string_equal(failure.why, "no answer came in time; the first of 4 tries failed with: 503 Service "
                                     "Unavailable: etcd is down");
    belfry_failure_set(&failure, BELFRY_ERR_TIMEOUT, "%s", "no answer came in time");
    belfry_failure_add_first(&failure, failure.why, 4);
    assert_string_equal(failure.why, "no answer came in time");
    belfry_failure_add_first(&failure, "", 4);
    assert_string_equal(failure.why, "no answer came in time");
    char lots[2 * BELFRY_FAILURE_WHY];
    memset(lots, 'x', sizeof(lots));
    lots[sizeof(lots) - 1] = '\0';
    belfry_failure_set(&failure, BELFRY_ERR_TIMEOUT, "%s", lots); /* both at their longest: the bound holds */
    lots[0] = 'y';
    belfry_failure_add_first(&failure, lots, UINT32_MAX);
    assert_true(strlen(failure.why) < sizeof(failure.why));
    assert_non_null(strstr(failure.why, "tries failed with: yx"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_failure_stands_behind_the_last),
        cmocka_unit_test(a_code_says_what_kind_of_failure_it_is),
        cmocka_unit_test(a_status_without_a_code_is_judged_by_its_reason),
        cmocka_unit_test(what_is_expired_is_known_by_code_and_by_reason),
        cmocka_unit_test(a_version_that_is_too_new_is_known_by_cause_and_by_words),
        cmocka_unit_test(when_to_come_again_is_read_in_seconds),
        cmocka_unit_test(a_sentence_has_the_code_and_the_servers_words),
        cmocka_unit_test(of_a_page_of_html_the_title_or_the_text_is_said),
        cmocka_unit_test(long_words_are_cut_between_characters),
        cmocka_unit_test(no_more_of_a_body_is_read_than_the_bound),
        cmocka_unit_test(an_error_that_is_no_status_says_so),
        cmocka_unit_test(members_of_other_types_are_not_there),
        cmocka_unit_test(our_own_words_are_made_printable_too),
        cmocka_unit_test(without_memory_it_says_what_the_code_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
