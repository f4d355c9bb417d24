/* src/server/cors_test.c */
#include "server/cors.h"

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

#define OWN  "tier.example:23790"
#define NONE NULL

static void pages_of_other_sites_are_foreign(void **state)
{
    (void)state;
    static char app[] = "https://app.example", local[] = "http://localhost:8080";
    static char *const list[] = {app, local};
    static const struct cors_origins named = {list, 2};
    static const struct {
        const char *authority, *origin, *site; /* NULL: it has no such field */
        bool foreign;
    } rows[] = {
        /* no browser, or a browser that asks for nobody's page */
        {OWN, NONE, NONE, false},
        {OWN, NONE, "none", false},
        {OWN, NONE, "same-origin", false},
        {OWN, NONE, "sOme-new-word", false},
        {"", NONE, NONE, false},
        /* an image, a script, a form or a link of another site */
        {OWN, NONE, "cross-site", true},
        {OWN, NONE, "same-site", true},
        /* configured */
        {OWN, "https://app.example", NONE, false},
        {OWN, "https://app.example", "cross-site", false},
        {OWN, "http://localhost:8080", "same-site", false},
        {OWN, "http://app.example", "cross-site", true},
        {OWN, "https://app.example:443", NONE, true},
        {OWN, "https://app.example.evil", NONE, true},
        {OWN, "https://evil/https://app.example", NONE, true},
        {OWN, "https://app.example https://evil", NONE, true},
        /* its own: host and port of Host; the scheme does not count */
        {OWN, "http://tier.example:23790", NONE, false},
        {OWN, "https://tier.example:23790", "same-origin", false},
        {"TIER.example:23790", "http://tier.example:23790", NONE, false},
        {"tier.example", "http://tier.example", NONE, false},
        {"tier.example", "https://tier.example", NONE, false},
        {"tier.example:80", "http://tier.example", NONE, false},
        {"tier.example:443", "https://tier.example", NONE, false},
        {"tier.example", "https://tier.example:443", NONE, false},
        {"10.0.0.7:23790", "http://10.0.0.7:23790", NONE, false},
        {"[::1]:23790", "http://[::1]:23790", NONE, false},
        {"[::1]", "http://[::1]", NONE, false},
        {OWN, "http://tier.example", NONE, true},
        {OWN, "http://tier.example:23791", NONE, true},
        {OWN, "http://tier.example:2379", NONE, true},
        {OWN, "http://tier.example:237900", NONE, true},
        {"tier.example", "http://tier.example:8080", NONE, true},
        {"tier.example:443", "http://tier.example", NONE, true},
        {"tier.example:80", "https://tier.example", NONE, true},
        {"[::1]:23790", "http://[::2]:23790", NONE, true},
        {"[::1]", "http://[::2]", NONE, true},
        {OWN, "http://evil.tier.example:23790", NONE, true},
        {OWN, "http://tier.example:23790/", NONE, true},
        {OWN, "http://user@tier.example:23790", NONE, true},
        {OWN, "tier.example:23790", NONE, true},
        {OWN, "//tier.example:23790", NONE, true},
        {"", "http://tier.example:23790", NONE, true},
        {"", "http://", NONE, true},
        {"", "", NONE, true},
        /* a proxy has changed Host, and the browser says that it is its own */
        {OWN, "https://proxy.example", "same-origin", false},
        /* any other */
        {OWN, "http://evil.example", NONE, true},
        {OWN, "http://evil.example", "cross-site", true},
        {OWN, "http://evil.example", "same-site", true},
        {OWN, "http://evil.example", "none", true},
        {OWN, "null", NONE, true},
        {OWN, "null", "cross-site", true},
        {OWN, "", NONE, true},
        {OWN, "*", NONE, true},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct belfry_http_field fields[3] = {{belfry_bytes_str("accept"), belfry_bytes_str("*/*")}};
        struct exchange_head head = {.authority = belfry_bytes_str(rows[i].authority), .fields = fields, .n_fields = 1};
        if (rows[i].origin != NULL)
            fields[head.n_fields++] =
                (struct belfry_http_field){belfry_bytes_str("origin"), belfry_bytes_str(rows[i].origin)};
        if (rows[i].site != NULL)
            fields[head.n_fields++] =
                (struct belfry_http_field){belfry_bytes_str("sec-fetch-site"), belfry_bytes_str(rows[i].site)};
        if (cors_is_foreign(&named, &head) != rows[i].foreign)
            fail_msg("row %zu: origin %s, site %s at %s: %s", i, rows[i].origin, rows[i].site, rows[i].authority,
                     rows[i].foreign ? "served" : "refused");
    }
    struct belfry_http_field twice[] = {{belfry_bytes_str("origin"), belfry_bytes_str("https://app.example")},
                                        {belfry_bytes_str("origin"), belfry_bytes_str("http://evil.example")}};
    struct exchange_head head = {.authority = belfry_bytes_str(OWN), .fields = twice, .n_fields = 2};
    assert_true(cors_is_foreign(&named, &head));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(origins_as_browsers_send_them_are_fine),
        cmocka_unit_test(what_no_browser_sends_is_refused_with_a_reason),
        cmocka_unit_test(an_origin_counts_if_it_is_the_same_byte_by_byte),
        cmocka_unit_test(pages_of_other_sites_are_foreign),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
