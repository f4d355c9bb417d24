/* src/net/fetch_test.c: what may be asked. What is told of the answer is in fetch_h1_test.c and fetch_h2_test.c. */
#include <stdlib.h>

#include "base/clock.h"
#include "net/fetch_seen_test.h"
#include "support/refuse.h"

static struct belfry_http_field field_of(const char *name, const char *value)
{
    return (struct belfry_http_field){belfry_bytes_str(name), belfry_bytes_str(value)};
}

static enum belfry_err open_with(struct belfry_http *http, const char *method, const char *target,
                                 struct belfry_http_field field)
{
    struct belfry_fetch_request request = {method, target, &field, 1};
    struct belfry_fetch *fetch = NULL;
    enum belfry_err err = belfry_fetch_open(http, &request, &seen_events, NULL, &fetch);
    assert_int_equal(err == BELFRY_OK, fetch != NULL);
    if (fetch != NULL)
        belfry_fetch_cancel(fetch);
    return err;
}

static enum belfry_err try(const char *method, const char *target, struct belfry_http_field field)
{
    struct belfry_http *http = NULL;
    enum belfry_err err = belfry_http_create(&seen_opts, 1000, &http);
    if (err == BELFRY_OK)
        err = open_with(http, method, target, field);
    belfry_http_destroy(http);
    return err;
}

static void whatever_could_split_a_request_is_refused(void **state)
{
    (void)state;
    static const struct belfry_http_field fine = {{"accept", 6}, {"*/*", 3}};
    static const struct {
        const char *method, *target;
    } heads[] = {
        {"", "/"},        {"GE T", "/"},        {"GET\r\n", "/"},  {"GET", ""},           {"GET", "api"},
        {"GET", "/ "},    {"GET", "/a b"},      {"GET", "/a\r\n"}, {"GET", "/\x7f"},      {"GET", "/\x01"},
        {"GET", "/\x80"}, {"GET", "/\xc3\xa4"}, {"GET", "/a\tb"},  {"GET", "http://a/b"}, {"GET", "*"},
    };
    for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++)
        assert_int_equal(try(heads[i].method, heads[i].target, fine), BELFRY_ERR_INVALID);
    for (unsigned c = 0; c < 256; c++) {
        char name[] = {'a', (char)c, 'b'}, value[] = {'a', (char)c, 'b'};
        struct belfry_http_field field = {{name, 3}, {"v", 1}};
        bool token = c > ' ' && c < 0x7f && strchr("\"(),/:;<=>?@[\\]{}", (int)c) == NULL;
        assert_int_equal(try("GET", "/", field), token ? BELFRY_OK : BELFRY_ERR_INVALID);
        field = (struct belfry_http_field){{"n", 1}, {value, 3}};
        bool text = c == '\t' || (c >= ' ' && c != 0x7f);
        assert_int_equal(try("GET", "/", field), text ? BELFRY_OK : BELFRY_ERR_INVALID);
    }
}

static void what_belongs_to_the_connection_is_refused(void **state)
{
    (void)state;
    static const char *const names[] = {"",
                                        ":path",
                                        "Host",
                                        "user-agent",
                                        "Connection",
                                        "keep-alive",
                                        "TE",
                                        "transfer-encoding",
                                        "Content-Length",
                                        "upgrade",
                                        "expect"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        assert_int_equal(try("GET", "/", field_of(names[i], "1")), BELFRY_ERR_INVALID);
    assert_int_equal(try("GET", "/", field_of("hosts", "1")), BELFRY_OK);
}

static void values_have_no_blanks_around_them(void **state)
{
    (void)state;
    assert_int_equal(try("GET", "/", field_of("a", "b c")), BELFRY_OK);
    assert_int_equal(try("GET", "/", field_of("a", " b")), BELFRY_ERR_INVALID);
    assert_int_equal(try("GET", "/", field_of("a", "b\t")), BELFRY_ERR_INVALID);
}

static void an_origin_that_could_split_a_request_is_refused(void **state)
{
    (void)state;
    char bad[] = "a\r\nb";
    struct belfry_http_opts agent = seen_opts, host = seen_opts;
    struct belfry_http *http;
    agent.common.user_agent = bad;
    host.authority = bad;
    assert_int_equal(belfry_http_create(&host, 1000, &http), BELFRY_ERR_INVALID);
    assert_int_equal(belfry_http_create(&agent, 1000, &http), BELFRY_OK);
    assert_int_equal(open_with(http, "GET", "/", field_of("a", "b")), BELFRY_ERR_INVALID);
    belfry_http_destroy(http);
}

static enum belfry_err scenario(void)
{
    return try("GET", "/", field_of("a", "b"));
}

static void refused_memory_is_reported(void **state)
{
    (void)state;
    assert_int_equal(refuse_sweep(scenario), 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whatever_could_split_a_request_is_refused),
        cmocka_unit_test(what_belongs_to_the_connection_is_refused),
        cmocka_unit_test(values_have_no_blanks_around_them),
        cmocka_unit_test(an_origin_that_could_split_a_request_is_refused),
        cmocka_unit_test(refused_memory_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
