/* src/server/inbound_sniff_test.c */
#include "server/inbound_sniff.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define PREFACE "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

static struct inbound_sniff sniff;
static struct belfry_bytes rest;

static enum inbound_sniffed read_text(const char *text)
{
    rest = belfry_bytes_str(text);
    return inbound_sniff_read(&sniff, &rest);
}

static int setup(void **state)
{
    (void)state;
    sniff = (struct inbound_sniff){0};
    return 0;
}

static void the_preface_is_http2_and_the_rest_follows(void **state)
{
    (void)state;
    assert_int_equal(read_text(PREFACE), INBOUND_SNIFFED_HTTP2);
    assert_int_equal(sniff.n, INBOUND_SNIFF_BYTES);
    assert_memory_equal(sniff.bytes, PREFACE, INBOUND_SNIFF_BYTES);
    assert_int_equal(rest.len, strlen(PREFACE) - INBOUND_SNIFF_BYTES);
    assert_memory_equal(rest.data, "\r\n\r\nSM", 6);
}

static void the_preface_may_come_byte_by_byte(void **state)
{
    (void)state;
    for (size_t i = 0; i < INBOUND_SNIFF_BYTES; i++) {
        char one[2] = {PREFACE[i], '\0'};
        bool is_last = i == INBOUND_SNIFF_BYTES - 1;
        assert_int_equal(read_text(one), is_last ? INBOUND_SNIFFED_HTTP2 : INBOUND_SNIFFED_LITTLE);
        assert_int_equal(rest.len, 0);
    }
    assert_memory_equal(sniff.bytes, PREFACE, INBOUND_SNIFF_BYTES);
}

static void no_byte_says_nothing(void **state)
{
    (void)state;
    assert_int_equal(read_text(""), INBOUND_SNIFFED_LITTLE);
}

static void the_first_other_byte_means_http1(void **state)
{
    (void)state;
    assert_int_equal(read_text("GET / HTTP/1.1\r\n"), INBOUND_SNIFFED_HTTP1);
    assert_int_equal(sniff.n, 1);
    assert_memory_equal(rest.data, "ET /", 4);
}

static void every_byte_of_the_preface_counts(void **state)
{
    (void)state;
    for (size_t i = 0; i < INBOUND_SNIFF_BYTES; i++) {
        char text[] = PREFACE;
        text[i] = '-';
        sniff = (struct inbound_sniff){0};
        assert_int_equal(read_text(text), INBOUND_SNIFFED_HTTP1);
        assert_int_equal(sniff.n, i + 1);
        assert_memory_equal(sniff.bytes, text, i + 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(the_preface_is_http2_and_the_rest_follows, setup),
        cmocka_unit_test_setup(the_preface_may_come_byte_by_byte, setup),
        cmocka_unit_test_setup(no_byte_says_nothing, setup),
        cmocka_unit_test_setup(the_first_other_byte_means_http1, setup),
        cmocka_unit_test_setup(every_byte_of_the_preface_counts, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
