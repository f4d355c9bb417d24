/* src/serve/sse/sse_query_test.c */
#include "serve/sse/sse_query.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <stdio.h>

/* Each range as "key..end" with \0 written as ~. */
static void show(const struct sse_query *query, char *out, size_t size)
{
    size_t n = 0;
    out[0] = '\0';
    for (size_t i = 0; i < query->n_ranges; i++) {
        struct belfry_bytes parts[2] = {query->ranges[i].key, query->ranges[i].end};
        for (int p = 0; p < 2; p++) {
            for (size_t c = 0; c < parts[p].len; c++)
                n += (size_t)snprintf(out + n, size - n, "%c", parts[p].data[c] == '\0' ? '~' : parts[p].data[c]);
            n += (size_t)snprintf(out + n, size - n, "%s", p == 0 ? ".." : ";");
        }
    }
}

static void ranges_are_read_as_etcd_has_them(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"prefix=/a/", "/a/../a0;"},
        {"prefix=", "~..~;"},
        {"prefix", "~..~;"},
        {"prefix=a%ff", "a\xff..b;"},
        {"prefix=%ff%ff", "\xff\xff..~;"},
        {"key=k", "k..;"},
        {"from=a&to=b", "a..b;"},
        {"from=a", "a..~;"},
        {"from=a&to=", "a..~;"},
        {"from=&to=b", "~..b;"},
        {"prefix=x+y&key=%2B&from=a&to=b&from=c&to=d", "x y..x z;+..;a..b;c..d;"},
        {"&prefix=a&&snapshot=1&", "a..b;"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct sse_query query;
        const char *why;
        char shown[256];
        assert_int_equal(sse_query_read(belfry_bytes_str(rows[i][0]), &query, &why), BELFRY_OK);
        show(&query, shown, sizeof(shown));
        assert_string_equal(shown, rows[i][1]);
        sse_query_fini(&query);
    }
}

static void the_rest_is_read(void **state)
{
    (void)state;
    struct sse_query query;
    const char *why;
    struct belfry_bytes text =
        belfry_bytes_str("prefix=a&value=base64&snapshot=1&last-event-id=7-0000000a&ticket=abc%3D");
    assert_int_equal(sse_query_read(text, &query, &why), BELFRY_OK);
    assert_int_equal(query.value, SSE_VALUE_BASE64);
    assert_true(query.snapshot && query.has_id && query.id.tagged);
    assert_int_equal(query.id.rev, 7);
    assert_int_equal(query.id.tag, 10);
    assert_true(belfry_bytes_equal(query.ticket, belfry_bytes_str("abc=")));
    sse_query_fini(&query);
}

static void assert_refused(const char *text, const char *because)
{
    struct sse_query query;
    const char *why = NULL;
    assert_int_equal(sse_query_read(belfry_bytes_str(text), &query, &why), BELFRY_ERR_INVALID);
    assert_non_null(strstr(why, because));
    assert_int_equal(why[strlen(why) - 1], '\n');
    sse_query_fini(&query);
}

static void what_cannot_be_meant_is_refused(void **state)
{
    (void)state;
    char many[SSE_RANGES * 8 + 16] = "";
    assert_refused("", "say what to watch");
    assert_refused("snapshot=1", "say what to watch");
    assert_refused("prefix=a&prefx=b", "unknown name");
    assert_refused("prefix=%2", "percent");
    assert_refused("key=", "needs a key");
    assert_refused("to=b", "must follow");
    assert_refused("from=a&prefix=b&to=c", "must follow");
    assert_refused("from=a&to=b&to=c", "must follow");
    assert_refused("from=b&to=a", "is empty");
    assert_refused("from=a&to=a", "is empty");
    assert_refused("prefix=a&value=xml", "value must be");
    assert_refused("prefix=a&snapshot=yes", "snapshot must be");
    assert_refused("prefix=a&last-event-id=x", "last-event-id");
    assert_refused("prefix=a&last-event-id=", "last-event-id");
    for (int i = 0; i <= SSE_RANGES; i++)
        strcat(many, "key=k&");
    assert_refused(many, "at most 16");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges_are_read_as_etcd_has_them),
        cmocka_unit_test(the_rest_is_read),
        cmocka_unit_test(what_cannot_be_meant_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
