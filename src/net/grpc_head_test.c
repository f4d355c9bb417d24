/* src/net/grpc_head_test.c */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "net/grpc_head.h"
#include "support/refuse.h"

static const struct belfry_http_origin origin = {"http", "127.0.0.1:2379"};

static enum belfry_err create(const char *via, const struct belfry_grpc_call_opts *opts, struct belfry_http_ask **out)
{
    return belfry_grpc_head_create(&(struct belfry_http_common){.user_agent = "belfry-test/1", .via = via}, opts, out);
}

static void assert_timeout(uint64_t ms, const char *expected)
{
    char text[BELFRY_GRPC_TIMEOUT_BYTES];
    belfry_grpc_timeout(ms, text);
    assert_string_equal(text, expected);
}

static void a_timeout_takes_the_finest_unit_that_fits_eight_digits(void **state)
{
    (void)state;
    assert_timeout(1, "1m");
    assert_timeout(5000, "5000m");
    assert_timeout(99999999, "99999999m");
    assert_timeout(100000000, "100000S");
    assert_timeout(100000001, "100001S"); /* rounded up, never down */
    assert_timeout(99999999000, "99999999S");
    assert_timeout(99999999001, "1666667M");
    assert_timeout(UINT64_MAX - 1, "99999999H");
}

static const nghttp2_nv *find(const nghttp2_nv *fields, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (fields[i].namelen == strlen(name) && memcmp(fields[i].name, name, fields[i].namelen) == 0)
            return &fields[i];
    return NULL;
}

static void credentials_are_never_indexed(void **state)
{
    (void)state;
    struct belfry_http_field metadata[] = {{belfry_bytes_str("token"), belfry_bytes_str("secret.7")},
                                           {belfry_bytes_str("hasleader"), belfry_bytes_str("true")}};
    struct belfry_grpc_call_opts opts = {.path = "/s/m", .metadata = metadata, .n_metadata = 2};
    struct belfry_http_ask *head;
    assert_int_equal(create(NULL, &opts, &head), BELFRY_OK);
    size_t n;
    const nghttp2_nv *fields = belfry_http_ask_fields(head, &origin, NULL, &n);
    assert_int_equal(find(fields, n, "token")->flags, NGHTTP2_NV_FLAG_NO_INDEX);
    assert_int_equal(find(fields, n, "hasleader")->flags, NGHTTP2_NV_FLAG_NONE);
    belfry_http_ask_destroy(head);
}

static void tier_says_its_name_on_every_call(void **state)
{
    (void)state;
    char via[] = "edge-7";
    struct belfry_grpc_call_opts opts = {.path = "/s/m"};
    struct belfry_http_ask *head;
    size_t n;
    assert_int_equal(create(NULL, &opts, &head), BELFRY_OK);
    const nghttp2_nv *fields = belfry_http_ask_fields(head, &origin, NULL, &n);
    assert_null(find(fields, n, "belfry-via"));
    belfry_http_ask_destroy(head);
    assert_int_equal(create(via, &opts, &head), BELFRY_OK);
    struct belfry_http_field late = {belfry_bytes_str("grpc-timeout"), belfry_bytes_str("5000m")};
    fields = belfry_http_ask_fields(head, &origin, &late, &n); /* all places are taken */
    assert_int_equal(n, 10);
    assert_memory_equal(find(fields, n, "belfry-via")->value, "edge-7", 6);
    belfry_http_ask_destroy(head);
    via[2] = '\n';
    assert_int_equal(create(via, &opts, &head), BELFRY_ERR_INVALID);
}

static enum belfry_err create_with(const char *path, const char *name, const char *value)
{
    struct belfry_http_field metadata = {belfry_bytes_str(name), belfry_bytes_str(value)};
    struct belfry_grpc_call_opts opts = {.path = path, .metadata = &metadata, .n_metadata = 1};
    struct belfry_http_ask *head = NULL;
    enum belfry_err err = create(NULL, &opts, &head);
    belfry_http_ask_destroy(head);
    return err;
}

static void what_http2_or_grpc_does_not_allow_is_invalid(void **state)
{
    (void)state;
    assert_int_equal(create_with("/s/m", "name", "value"), BELFRY_OK);
    assert_int_equal(create_with("s/m", "name", "value"), BELFRY_ERR_INVALID);
    assert_int_equal(create_with("/s/m\n", "name", "value"), BELFRY_ERR_INVALID);
    assert_int_equal(create_with("/s/m", "Name", "value"), BELFRY_ERR_INVALID);
    assert_int_equal(create_with("/s/m", "", "value"), BELFRY_ERR_INVALID);
    assert_int_equal(create_with("/s/m", ":path", "value"), BELFRY_ERR_INVALID);
    assert_int_equal(create_with("/s/m", "grpc-timeout", "1m"), BELFRY_ERR_INVALID);
    assert_int_equal(create_with("/s/m", "name", "a\r\nb: c"), BELFRY_ERR_INVALID);
}

static void a_head_over_its_bound_is_invalid(void **state)
{
    (void)state;
    static char big[BELFRY_HTTP_ASK_BYTES + 1];
    memset(big, 'x', BELFRY_HTTP_ASK_BYTES);
    assert_int_equal(create_with("/s/m", "name", big), BELFRY_ERR_INVALID);
    big[BELFRY_HTTP_ASK_BYTES - 1000] = '\0';
    assert_int_equal(create_with("/s/m", "name", big), BELFRY_OK);
}

static enum belfry_err create_scenario(void)
{
    return create_with("/s/m", "name", "value");
}

static void refused_memory_is_reported_and_nothing_leaks(void **state)
{
    (void)state;
    assert_int_equal(refuse_sweep(create_scenario), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_timeout_takes_the_finest_unit_that_fits_eight_digits),
        cmocka_unit_test(credentials_are_never_indexed),
        cmocka_unit_test(tier_says_its_name_on_every_call),
        cmocka_unit_test(what_http2_or_grpc_does_not_allow_is_invalid),
        cmocka_unit_test(a_head_over_its_bound_is_invalid),
        cmocka_unit_test(refused_memory_is_reported_and_nothing_leaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
