/* src/server/proxy_head_test.c */
#include "server/proxy_head.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define SIGNATURE "\r\n\r\n\0\r\nQUIT\n"
#define V4        "\xcb\0\x71\x09\xc0\0\2\1\x12\x67\x5c\xee" /* 203.0.113.9:4711 to 192.0.2.1:23790 */
#define V6        "\xfd\0\0\0\0\0\0\0\0\0\0\0\0\0\0\7\xfd\0\0\0\0\0\0\0\0\0\0\0\0\0\0\1\x12\x67\x5c\xee"

#define TEXT(literal) belfry_bytes_of(literal, sizeof(literal) - 1)

/* Reads `bytes` in parts of `step`; what is left over is stored in *rest. */
static enum belfry_err read_in_parts(struct proxy_head *head, struct belfry_bytes bytes, size_t step, size_t *rest)
{
    enum belfry_err err = BELFRY_ERR_AGAIN;
    *head = (struct proxy_head){0};
    while (err == BELFRY_ERR_AGAIN && bytes.len > 0) {
        struct belfry_bytes part = belfry_bytes_of(bytes.data, bytes.len < step ? bytes.len : step);
        size_t before = part.len;
        err = proxy_head_read(head, &part);
        bytes = belfry_bytes_of(bytes.data + before - part.len, bytes.len - (before - part.len));
    }
    *rest = bytes.len;
    return err;
}

static void expect_client(struct belfry_bytes bytes, const char *expected, size_t expected_rest)
{
    for (size_t step = 1; step <= bytes.len; step++) {
        struct proxy_head head;
        char text[CLIENT_ADDRESS_TEXT];
        size_t rest;
        assert_int_equal(read_in_parts(&head, bytes, step, &rest), BELFRY_OK);
        assert_int_equal(rest, expected_rest);
        client_address_text(&head.client, text);
        assert_string_equal(text, expected);
    }
}

static void a_head_names_its_client_however_it_is_cut(void **state)
{
    (void)state;
    expect_client(TEXT(SIGNATURE "\x21\x11\0\x0c" V4), "203.0.113.9:4711", 0);
    expect_client(TEXT(SIGNATURE "\x21\x11\0\x0c" V4 "GET /"), "203.0.113.9:4711", 5);
    expect_client(TEXT(SIGNATURE "\x21\x21\0\x24" V6 "PRI"), "[fd00::7]:4711", 3);
    expect_client(TEXT(SIGNATURE "\x21\x21\0\x24\0\0\0\0\0\0\0\0\0\0\xff\xff\x0a\0\0\7"
                                 "\0\0\0\0\0\0\0\0\0\0\xff\xff\x0a\0\0\1\x12\x67\x5c\xee"),
                  "10.0.0.7:4711", 0);
}

static void fields_after_the_addresses_are_skipped(void **state)
{
    (void)state;
    expect_client(TEXT(SIGNATURE "\x21\x11\0\x13" V4 "\x04\0\4noop"), "203.0.113.9:4711", 0);
    expect_client(TEXT(SIGNATURE "\x21\x11\0\x13" V4 "anybyte+rest"), "203.0.113.9:4711", 5);
    expect_client(TEXT(SIGNATURE "\x21\x21\0\x27" V6 "\x04\0\0!"), "[fd00::7]:4711", 1);
}

static void a_head_that_names_no_client_is_passed_over(void **state)
{
    (void)state;
    static char of_unix[16 + 216 + 2] = SIGNATURE "\x21\x31\0\xd8/run/client.sock";
    expect_client(TEXT(SIGNATURE "\x20\0\0\0+"), "unknown", 1); /* LOCAL */
    expect_client(TEXT(SIGNATURE "\x20\x11\0\x0c" V4 "+"), "unknown", 1);
    expect_client(TEXT(SIGNATURE "\x20\xff\0\3abc+"), "unknown", 1);
    expect_client(TEXT(SIGNATURE "\x21\0\0\0+"), "unknown", 1); /* UNSPEC */
    expect_client(TEXT(SIGNATURE "\x21\0\0\2ab+"), "unknown", 1);
    expect_client(belfry_bytes_of(of_unix, sizeof(of_unix)), "unknown", 2);
}

static void a_wrong_head_is_refused_with_a_reason_however_it_is_cut(void **state)
{
    (void)state;
    const struct {
        struct belfry_bytes bytes;
        const char *why;
    } rows[] = {
        {TEXT("GET / HTTP/1.1\r\n"), "no head of the PROXY protocol"},
        {TEXT("PRI * HTTP/2.0\r\n"), "no head of the PROXY protocol"},
        {TEXT("\x16\3\1\2\0\1\0\1\xfc\3\3"), "no head of the PROXY protocol"},
        {TEXT("\r\n\r\n\0\r\nQUIT\r\x21\x11\0\0"), "no head of the PROXY protocol"},
        {TEXT(SIGNATURE "\x11\x11\0\x0c" V4), "not of version 2"},
        {TEXT(SIGNATURE "\x31\x11\0\x0c" V4), "not of version 2"},
        {TEXT(SIGNATURE "\x22\x11\0\x0c" V4), "unknown command"},
        {TEXT(SIGNATURE "\x21\x12\0\x0c" V4), "not for TCP or a Unix socket"}, /* UDP */
        {TEXT(SIGNATURE "\x21\x41\0\x0c" V4), "not for TCP or a Unix socket"},
        {TEXT(SIGNATURE "\x21\x11\0\x0b" V4), "too short for its addresses"},
        {TEXT(SIGNATURE "\x21\x21\0\x23" V6), "too short for its addresses"},
        {TEXT(SIGNATURE "\x21\x31\0\xd7" V6), "too short for its addresses"},
        {TEXT(SIGNATURE "\x21\x11\x0f\xf1" V4), "more than 4096 bytes"},
        {TEXT(SIGNATURE "\x20\0\xff\xff" V4), "more than 4096 bytes"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        for (size_t step = 1; step <= rows[i].bytes.len; step++) {
            struct proxy_head head;
            size_t rest;
            assert_int_equal(read_in_parts(&head, rows[i].bytes, step, &rest), BELFRY_ERR_PROTOCOL);
            assert_non_null(strstr(head.why, rows[i].why));
        }
    }
}

static void version_1_is_refused_by_name(void **state)
{
    (void)state;
    struct proxy_head head;
    size_t rest;
    assert_int_equal(read_in_parts(&head, TEXT("PROXY TCP4 203.0.113.9 192.0.2.1 4711 23790\r\n"), 100, &rest),
                     BELFRY_ERR_PROTOCOL);
    assert_non_null(strstr(head.why, "version 1: set the balancer to version 2"));
}

static void the_longest_head_is_taken(void **state)
{
    (void)state;
    static char longest[PROXY_HEAD_MOST + 1] = SIGNATURE "\x21\x11\x0f\xf0" V4;
    struct proxy_head head;
    size_t rest;
    static const size_t steps[] = {1, 7, 1000, PROXY_HEAD_MOST, PROXY_HEAD_MOST + 1};
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        assert_int_equal(read_in_parts(&head, belfry_bytes_of(longest, sizeof(longest)), steps[i], &rest), BELFRY_OK);
        assert_int_equal(rest, 1);
        assert_int_equal(head.client.port, 4711);
    }
    assert_int_equal(read_in_parts(&head, belfry_bytes_of(longest, PROXY_HEAD_MOST - 1), 9, &rest), BELFRY_ERR_AGAIN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_head_names_its_client_however_it_is_cut),
        cmocka_unit_test(fields_after_the_addresses_are_skipped),
        cmocka_unit_test(a_head_that_names_no_client_is_passed_over),
        cmocka_unit_test(a_wrong_head_is_refused_with_a_reason_however_it_is_cut),
        cmocka_unit_test(version_1_is_refused_by_name),
        cmocka_unit_test(the_longest_head_is_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
