/* src/net/endpoint_test.c */
#include "net/endpoint.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/refuse.h"

static enum belfry_err parse(const char *text, struct belfry_endpoint *out, char *why, size_t why_len)
{
    return belfry_endpoint_parse(text, strlen(text), out, why, why_len);
}

static void good_texts_are_taken_apart(void **state)
{
    (void)state;
    static const struct {
        const char *text, *host, *url, *authority;
        uint16_t port;
        bool tls, is_unix;
    } rows[] = {
        {"127.0.0.1:2379", "127.0.0.1", "http://127.0.0.1:2379", "127.0.0.1:2379", 2379, false, false},
        {"etcd-1.example", "etcd-1.example", "http://etcd-1.example:2379", "etcd-1.example:2379", 2379, false, false},
        {"my_host:1", "my_host", "http://my_host:1", "my_host:1", 1, false, false},
        {"http://localhost:65535/", "localhost", "http://localhost:65535", "localhost:65535", 65535, false, false},
        {"https://a.b", "a.b", "https://a.b:2379", "a.b:2379", 2379, true, false},
        {"HTTPS://a.b:443", "a.b", "https://a.b:443", "a.b:443", 443, true, false},
        {"a.b.:80", "a.b.", "http://a.b.:80", "a.b.:80", 80, false, false},
        {"[::1]", "::1", "http://[::1]:2379", "[::1]:2379", 2379, false, false},
        {"https://[2001:db8::7]:8443", "2001:db8::7", "https://[2001:db8::7]:8443", "[2001:db8::7]:8443", 8443, true,
         false},
        {"[fe80::1%eth0]:2379", "fe80::1%eth0", "http://[fe80::1%eth0]:2379", "[fe80::1%eth0]:2379", 2379, false,
         false},
        {"unix:///run/etcd.sock", "/run/etcd.sock", "unix:///run/etcd.sock", "localhost", 0, false, true},
        {"unixs:///run/e", "/run/e", "unixs:///run/e", "localhost", 0, true, true},
        {"unix://relative.sock", "relative.sock", "unix://relative.sock", "localhost", 0, false, true},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct belfry_endpoint e;
        char why[256] = "";
        if (parse(rows[i].text, &e, why, sizeof(why)) != BELFRY_OK)
            fail_msg("%s: %s", rows[i].text, why);
        assert_string_equal(e.host, rows[i].host);
        assert_string_equal(e.url, rows[i].url);
        assert_string_equal(e.authority, rows[i].authority);
        assert_int_equal(e.port, rows[i].port);
        assert_int_equal(e.tls, rows[i].tls);
        assert_int_equal(e.is_unix, rows[i].is_unix);
    }
}

static void bad_texts_are_refused_with_text_and_remedy(void **state)
{
    (void)state;
    static const struct {
        const char *text, *part;
    } rows[] = {
        {"", "empty"},
        {"http://", "host is missing"},
        {":2379", "host is missing"},
        {"a:", "1 to 65535"},
        {"a:0", "1 to 65535"},
        {"a:65536", "1 to 65535"},
        {"a:000080", "1 to 65535"},
        {"a:+80", "1 to 65535"},
        {"a:http", "1 to 65535"},
        {"a b:80", "letters"},
        {" a:80", "letters"},
        {"user@a:80", "letters"},
        {"-a:80", "letters"},
        {".a:80", "letters"},
        {"::1", "in brackets"},
        {"::1:2379", "in brackets"},
        {"[::1", "missing"},
        {"[::1]2379", "may follow"},
        {"[]:2379", "host is missing"},
        {"[1.2.3.4]:2379", "not an IPv6"},
        {"[::1%]:2379", "not an IPv6"},
        {"[::1%a b]:2379", "not an IPv6"},
        {"[0000:0000:0000:0000:0000:0000:0000:0000:0000:0001]", "not an IPv6"},
        {"http://a:80/v3", "path"},
        {"ftp://a:80", "scheme"},
        {"unix://", "path is missing"},
        {"unix:/run/etcd.sock", "path"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct belfry_endpoint e = {.port = 7};
        char why[256] = "";
        if (parse(rows[i].text, &e, why, sizeof(why)) != BELFRY_ERR_INVALID)
            fail_msg("\"%s\" was taken", rows[i].text);
        if (strstr(why, rows[i].part) == NULL || strstr(why, rows[i].text) == NULL)
            fail_msg("\"%s\": %s", rows[i].text, why);
        assert_int_equal(e.port, 7);
    }
}

/* "http://" and `n` times `c`. */
static char *repeated(const char *scheme, char c, size_t n)
{
    size_t len = strlen(scheme);
    char *text = test_malloc(len + n + 1);
    memcpy(text, scheme, len);
    memset(text + len, c, n);
    text[len + n] = '\0';
    return text;
}

static void lengths_are_bounded(void **state)
{
    (void)state;
    static const struct {
        const char *scheme;
        size_t longest;
    } rows[] = {{"https://", 253}, {"unixs://", 107}};
    for (size_t i = 0; i < 2; i++) {
        struct belfry_endpoint e;
        char why[256];
        char *text = repeated(rows[i].scheme, 'a', rows[i].longest);
        assert_int_equal(parse(text, &e, why, sizeof(why)), BELFRY_OK);
        assert_int_equal(strlen(e.host), rows[i].longest);
        assert_int_equal(strncmp(e.url, text, strlen(text)), 0);
        test_free(text);

        text = repeated(rows[i].scheme, 'a', rows[i].longest + 1);
        assert_int_equal(parse(text, &e, why, sizeof(why)), BELFRY_ERR_INVALID);
        assert_non_null(strstr(why, "..."));
        test_free(text);
    }
}

static void odd_bytes_are_not_repeated_to_people(void **state)
{
    (void)state;
    struct belfry_endpoint e;
    char why[256], small[8];
    assert_int_equal(parse("a\x1b[31m\xff:80", &e, why, sizeof(why)), BELFRY_ERR_INVALID);
    for (const char *c = why; *c != '\0'; c++)
        assert_true(*c >= 0x20 && *c < 0x7f);
    assert_int_equal(belfry_endpoint_parse("unix:///a\0b", 11, &e, why, sizeof(why)), BELFRY_ERR_INVALID);
    assert_int_equal(belfry_endpoint_parse("a\0b", 3, &e, why, sizeof(why)), BELFRY_ERR_INVALID);
    assert_int_equal(belfry_endpoint_parse("[::1\0]", 6, &e, why, sizeof(why)), BELFRY_ERR_INVALID);
    assert_int_equal(parse("ftp://x", &e, small, sizeof(small)), BELFRY_ERR_INVALID);
    assert_int_equal(strlen(small), sizeof(small) - 1);
}

static void text_need_not_end_in_zero(void **state)
{
    (void)state;
    struct belfry_endpoint e;
    char why[256];
    char *text = test_malloc(6);
    memcpy(text, "a.b:80", 6);
    assert_int_equal(belfry_endpoint_parse(text, 6, &e, why, sizeof(why)), BELFRY_OK);
    assert_string_equal(e.url, "http://a.b:80");
    test_free(text);
}

static void lists_may_have_spaces_around_commas(void **state)
{
    (void)state;
    struct belfry_endpoint *list;
    size_t n;
    char why[256];
    assert_int_equal(belfry_endpoint_parse_list(" a:1, https://b:2 ,\t[::1]:3\n", &list, &n, why, sizeof(why)),
                     BELFRY_OK);
    assert_int_equal(n, 3);
    assert_string_equal(list[0].url, "http://a:1");
    assert_string_equal(list[1].url, "https://b:2");
    assert_string_equal(list[2].url, "http://[::1]:3");
    free(list);
}

static void list_with_one_wrong_or_none_is_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {"", " ", ",", "a:1,", ",a:1", "a:1,,b:2", "a:1,b:x"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct belfry_endpoint *list = NULL;
        size_t n = 9;
        char why[256] = "";
        assert_int_equal(belfry_endpoint_parse_list(texts[i], &list, &n, why, sizeof(why)), BELFRY_ERR_INVALID);
        assert_null(list);
        assert_int_equal(n, 9);
        assert_true(strlen(why) > 0);
    }
}

static enum belfry_err list_scenario(void)
{
    struct belfry_endpoint *list;
    size_t n;
    char why[256];
    enum belfry_err err = belfry_endpoint_parse_list("a:1,b:2", &list, &n, why, sizeof(why));
    if (err == BELFRY_OK)
        free(list);
    return err;
}

static void refused_memory_is_reported(void **state)
{
    (void)state;
    assert_int_equal(refuse_sweep(list_scenario), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_texts_are_taken_apart),
        cmocka_unit_test(bad_texts_are_refused_with_text_and_remedy),
        cmocka_unit_test(lengths_are_bounded),
        cmocka_unit_test(odd_bytes_are_not_repeated_to_people),
        cmocka_unit_test(text_need_not_end_in_zero),
        cmocka_unit_test(lists_may_have_spaces_around_commas),
        cmocka_unit_test(list_with_one_wrong_or_none_is_refused),
        cmocka_unit_test(refused_memory_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
