/* src/serve/sse/cors_test.c */
#include "serve/sse/cors.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static const char *wrong(const char *text)
{
    return cors_origin_wrong(belfry_bytes_str(text));
}

static void expect_wrong(const char *text, const char *part)
{
    const char *why = wrong(text);
    if (why == NULL || strstr(why, part) == NULL)
        fail_msg("'%s': %s, not: %s", text, why != NULL ? why : "fine", part);
}

static void origins_as_browsers_send_them_are_fine(void **state)
{
    (void)state;
    static const char *const fine[] = {"https://app.example",   "http://localhost:8080",
                                       "https://10.0.0.7:8443", "http://[::1]:3000",
                                       "https://[2001:db8::7]", "https://a-b_c.example:1",
                                       "http://x:65535",        "http://x:443",
                                       "https://x:80",          "chrome-extension://abcdefghijklmnop",
                                       "capacitor://localhost"};
    for (size_t i = 0; i < sizeof(fine) / sizeof(fine[0]); i++)
        if (wrong(fine[i]) != NULL)
            fail_msg("'%s' %s", fine[i], wrong(fine[i]));
}

static void what_no_browser_sends_is_refused_with_a_reason(void **state)
{
    (void)state;
    static const char *const others[] = {"",
                                         "app.example",
                                         "https:/app.example",
                                         "https://",
                                         "://a",
                                         "1s://a",
                                         "https://a b",
                                         "https://a:",
                                         "https://a:0",
                                         "https://a:08",
                                         "https://a:65536",
                                         "https://a:123456",
                                         "https://a:8x",
                                         "https://user@a",
                                         "https://[::1",
                                         "https://[]",
                                         "https://[::1]8",
                                         "https://a?b",
                                         "https://a#b",
                                         "https://\xc3\xa9.example"};
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        expect_wrong(others[i], "is not an origin: write scheme://host");
    expect_wrong("*", "would let every web page read what its visitor may");
    expect_wrong("null", "which anyone can make");
    expect_wrong("https://App.example", "browsers send origins in lower case");
    expect_wrong("https://app.example/", "has a path");
    expect_wrong("https://app.example/x", "has a path");
    expect_wrong("http://app.example:80", "has the default port");
    expect_wrong("https://app.example:443", "has the default port");
    assert_non_null(cors_origin_wrong(belfry_bytes_of("https://a\0b", 11)));
}

static void an_origin_counts_if_it_is_the_same_byte_by_byte(void **state)
{
    (void)state;
    char a[] = "https://a", b[] = "http://b:81";
    char *const list[] = {a, b};
    const struct cors_origins origins = {list, 2}, none = {NULL, 0};
    assert_true(cors_origins_have(&origins, belfry_bytes_str("https://a")));
    assert_true(cors_origins_have(&origins, belfry_bytes_str("http://b:81")));
    assert_false(cors_origins_have(&origins, belfry_bytes_str("https://a.evil")));
    assert_false(cors_origins_have(&origins, belfry_bytes_str("http://a")));
    assert_false(cors_origins_have(&origins, belfry_bytes_str("http://b:8")));
    assert_false(cors_origins_have(&origins, (struct belfry_bytes){NULL, 0}));
    assert_false(cors_origins_have(&none, belfry_bytes_str("https://a")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(origins_as_browsers_send_them_are_fine),
        cmocka_unit_test(what_no_browser_sends_is_refused_with_a_reason),
        cmocka_unit_test(an_origin_counts_if_it_is_the_same_byte_by_byte),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
