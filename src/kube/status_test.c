/* src/kube/status_test.c */
#include "kube/status.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/refuse.h"

static void assert_text(const struct kube_status *status, const char *expected)
{
    struct belfry_buf buf;
    belfry_buf_init(&buf);
    assert_int_equal(kube_status_write(status, &buf), BELFRY_OK);
    assert_int_equal(belfry_buf_append(&buf, "", 1), BELFRY_OK);
    assert_string_equal(belfry_buf_bytes(&buf).data, expected);
    belfry_buf_fini(&buf);
}

static void a_missing_object_is_named_with_its_resource(void **state)
{
    (void)state;
    struct kube_status status;
    kube_status_set(&status, KUBE_NOT_FOUND, "widgets.demo.example.com \"%s\" not found", "x");
    status.name = belfry_bytes_str("x");
    status.group = belfry_bytes_str("demo.example.com");
    status.kind = belfry_bytes_str("widgets");
    assert_text(&status, "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\","
                         "\"message\":\"widgets.demo.example.com \\\"x\\\" not found\",\"reason\":\"NotFound\","
                         "\"details\":{\"name\":\"x\",\"group\":\"demo.example.com\",\"kind\":\"widgets\"},"
                         "\"code\":404}");
}

static void an_old_revision_is_told_with_the_oldest(void **state)
{
    (void)state;
    struct kube_status status;
    kube_status_expired(&status, 5, 812);
    assert_text(&status, "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\","
                         "\"message\":\"too old resource version: 5 (812)\",\"reason\":\"Expired\",\"code\":410}");
}

static void a_revision_in_the_future_has_its_cause_and_a_time_to_come_back(void **state)
{
    (void)state;
    struct kube_status status;
    kube_status_too_large(&status, 999, 812);
    assert_text(&status,
                "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\","
                "\"message\":\"Timeout: Too large resource version: 999, current: 812\",\"reason\":\"Timeout\","
                "\"details\":{\"causes\":[{\"reason\":\"ResourceVersionTooLarge\","
                "\"message\":\"Too large resource version\"}],\"retryAfterSeconds\":1},\"code\":504}");
}

static void a_page_that_expired_says_how_to_go_on(void **state)
{
    (void)state;
    struct kube_status status;
    kube_status_set(&status, KUBE_EXPIRED, "gone");
    status.continue_with = belfry_bytes_str("abc");
    assert_text(&status, "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{\"continue\":\"abc\"},"
                         "\"status\":\"Failure\",\"message\":\"gone\",\"reason\":\"Expired\",\"code\":410}");
}

static void a_long_message_is_cut(void **state)
{
    (void)state;
    struct kube_status status;
    kube_status_set(&status, KUBE_BAD_REQUEST, "%0600d", 1);
    assert_int_equal(strlen(status.message), KUBE_MESSAGE_MAX - 1);
}

static enum belfry_err write_one(void)
{
    struct kube_status status;
    struct belfry_buf buf;
    belfry_buf_init(&buf);
    kube_status_too_large(&status, 9, 8);
    enum belfry_err err = kube_status_write(&status, &buf);
    belfry_buf_fini(&buf);
    return err;
}

static void no_memory_is_an_error(void **state)
{
    (void)state;
    assert_true(refuse_sweep(write_one) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_missing_object_is_named_with_its_resource),
        cmocka_unit_test(an_old_revision_is_told_with_the_oldest),
        cmocka_unit_test(a_revision_in_the_future_has_its_cause_and_a_time_to_come_back),
        cmocka_unit_test(a_page_that_expired_says_how_to_go_on),
        cmocka_unit_test(a_long_message_is_cut),
        cmocka_unit_test(no_memory_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
