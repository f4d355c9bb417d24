/* src/kapi/server_url_test.c */
#include "kapi/server_url.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/refuse.h"

static void a_url_is_host_port_and_path(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool tls;
        const char *host;
        uint16_t port;
        const char *base;
    } rows[] = {
        {"https://10.0.0.1:6443", true, "10.0.0.1", 6443, ""},
        {"https://api.example.com", true, "api.example.com", 443, ""},
        {"https://api.example.com/", true, "api.example.com", 443, ""},
        {"http://localhost", false, "localhost", 80, ""},
        {"http://127.0.0.1:8080//", false, "127.0.0.1", 8080, ""},
        {"HTTPS://h:1/k8s/clusters/c-1/", true, "h", 1, "/k8s/clusters/c-1"},
        {"https://h/a:b", true, "h", 443, "/a:b"},
        {"https://[fd00::1]", true, "fd00::1", 443, ""},
        {"https://[fd00::1]:6443/x", true, "fd00::1", 6443, "/x"},
        {"http://[::1]/x%20y", false, "::1", 80, "/x%20y"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct belfry_endpoint endpoint;
        char *base, why[256] = "";
        if (belfry_server_url_parse(rows[i].text, &endpoint, &base, why, sizeof(why)) != BELFRY_OK)
            fail_msg("%s: %s", rows[i].text, why);
        assert_int_equal(endpoint.tls, rows[i].tls);
        assert_false(endpoint.is_unix);
        assert_string_equal(endpoint.host, rows[i].host);
        assert_int_equal(endpoint.port, rows[i].port);
        assert_string_equal(base, rows[i].base);
        free(base);
    }
}

static void assert_refused(const char *text, const char *part)
{
    struct belfry_endpoint endpoint;
    char *base = NULL, why[256] = "";
    assert_int_equal(belfry_server_url_parse(text, &endpoint, &base, why, sizeof(why)), BELFRY_ERR_INVALID);
    assert_null(base);
    if (strstr(why, part) == NULL)
        fail_msg("%s: \"%s\" does not say \"%s\"", text, why, part);
}

static void what_is_no_such_url_is_refused_by_a_sentence(void **state)
{
    (void)state;
    assert_refused("", "https://");
    assert_refused("10.0.0.1:6443", "https:// or http://");
    assert_refused("unix:///run/x", "https:// or http://");
    assert_refused("ftp://h", "https:// or http://");
    assert_refused("https://", "host is missing");
    assert_refused("https:///path", "host is missing");
    assert_refused("https://:6443", "host is missing");
    assert_refused("https://h:0", "port");
    assert_refused("https://h:99999", "port");
    assert_refused("https://h:", "port");
    assert_refused("https://fd00::1", "brackets");
    assert_refused("https://[fd00::1", "]");
    assert_refused("https://[x]:1", "IPv6");
    assert_refused("https://h?x=1", "query");
    assert_refused("https://h/x#y", "fragment");
    assert_refused("https://h/a b", "blanks");
    assert_refused("https://h/\r\nX: y", "printable");
    assert_refused("https://h\xc3\xa9", "printable");
    static char text[4096] = "https://h/";
    memset(text + 10, 'x', sizeof(text) - 11);
    assert_refused(text, "2048");
    memset(text + 8, 'h', 300);
    text[300] = '\0';
    assert_refused(text, "253");
}

static void a_password_in_it_is_not_told(void **state)
{
    (void)state;
    static const char *const texts[] = {"https://me:secret@h", "me:secret@h", "https://me:secret/x@h",
                                        "https://me:secret@h x"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct belfry_endpoint endpoint;
        char *base, why[256];
        assert_int_equal(belfry_server_url_parse(texts[i], &endpoint, &base, why, sizeof(why)), BELFRY_ERR_INVALID);
        assert_null(strstr(why, "secret"));
    }
}

static void loopback_is_told_from_the_rest(void **state)
{
    (void)state;
    static const char *const near[] = {"http://127.0.0.1", "http://127.255.3.4:1", "http://[::1]:80",
                                       "http://localhost", "http://LocalHost:7"};
    static const char *const far[] = {
        "http://128.0.0.1", "http://10.0.0.1",      "http://[::2]", "http://localhost.evil",
        "http://127.1",     "http://127.0.0.1.nip", "http://h",     "http://[fe80::1]"};
    for (size_t i = 0; i < 5 + 8; i++) {
        struct belfry_endpoint endpoint;
        char *base, why[256];
        const char *text = i < 5 ? near[i] : far[i - 5];
        assert_int_equal(belfry_server_url_parse(text, &endpoint, &base, why, sizeof(why)), BELFRY_OK);
        if (belfry_endpoint_is_loopback(&endpoint) != (i < 5))
            fail_msg("%s", text);
        free(base);
    }
}

static enum belfry_err parse(void)
{
    struct belfry_endpoint endpoint;
    char *base = NULL, why[256];
    enum belfry_err err = belfry_server_url_parse("https://h/x", &endpoint, &base, why, sizeof(why));
    free(base);
    return err;
}

static void refused_memory_leaks_nothing(void **state)
{
    (void)state;
    assert_int_equal(refuse_sweep(parse), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_url_is_host_port_and_path),  cmocka_unit_test(what_is_no_such_url_is_refused_by_a_sentence),
        cmocka_unit_test(a_password_in_it_is_not_told), cmocka_unit_test(loopback_is_told_from_the_rest),
        cmocka_unit_test(refused_memory_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
