/* src/serve/sse/sse_text_test.c */
#include "serve/sse/sse_text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct belfry_buf out;

static void assert_said(enum belfry_err err, const char *text)
{
    assert_int_equal(err, BELFRY_OK);
    assert_int_equal(belfry_buf_append(&out, "", 1), BELFRY_OK);
    assert_string_equal(belfry_buf_bytes(&out).data, text);
    belfry_buf_clear(&out);
}

static void assert_value(const char *value, enum sse_value how, const char *text)
{
    struct sse_change change = {.key = belfry_bytes_str("k"), .value = belfry_bytes_str(value)};
    assert_said(sse_text_change(&change, how, &out), text);
}

static void values_have_the_form_that_was_asked_for(void **state)
{
    (void)state;
    assert_value("a\n\"b", SSE_VALUE_AUTO, "{\"op\":\"put\",\"key\":\"k\",\"value\":\"a\\n\\\"b\"}");
    assert_value("\xff", SSE_VALUE_AUTO, "{\"op\":\"put\",\"key\":\"k\",\"value_b64\":\"/w==\"}");
    assert_value("a\xff", SSE_VALUE_TEXT, "{\"op\":\"put\",\"key\":\"k\",\"value\":\"a\xEF\xBF\xBD\"}");
    assert_value("", SSE_VALUE_AUTO, "{\"op\":\"put\",\"key\":\"k\",\"value\":\"\"}");
    assert_value("{ \"a\" :\n [1.50, 12345678901234567890] }", SSE_VALUE_JSON,
                 "{\"op\":\"put\",\"key\":\"k\",\"value\":{\"a\":[1.50,12345678901234567890]}}");
    assert_value("x", SSE_VALUE_JSON, "{\"op\":\"put\",\"key\":\"k\",\"value_b64\":\"eA==\"}");
    assert_value("", SSE_VALUE_JSON, "{\"op\":\"put\",\"key\":\"k\",\"value_b64\":\"\"}");
    assert_value("x", SSE_VALUE_BASE64, "{\"op\":\"put\",\"key\":\"k\",\"value_b64\":\"eA==\"}");
    assert_value("x", SSE_VALUE_NONE, "{\"op\":\"put\",\"key\":\"k\"}");
}

static void key_that_is_no_text_has_another_name(void **state)
{
    (void)state;
    struct sse_change change = {.is_delete = true, .key = belfry_bytes_str("\xfe")};
    for (int how = SSE_VALUE_AUTO; how <= SSE_VALUE_NONE; how++)
        assert_said(sse_text_change(&change, (enum sse_value)how, &out), "{\"op\":\"delete\",\"key_b64\":\"/g==\"}");
}

static void messages_are_as_the_page_says(void **state)
{
    (void)state;
    struct sse_id id = {.rev = 7, .tagged = true, .tag = 0xab}, nothing = {0};
    struct belfry_bytes changes = belfry_bytes_str("C");
    assert_said(sse_text_revision(&id, false, changes, &out), "id: 7-000000ab\ndata: {\"rev\":7,\"events\":[C]}\n\n");
    assert_said(sse_text_revision(&id, true, changes, &out), "data: {\"rev\":7,\"more\":true,\"events\":[C]}\n\n");
    assert_said(sse_text_state(changes, &out), "event: state\ndata: {\"events\":[C]}\n\n");
    assert_said(sse_text_synced(&id, 3, &out), "event: synced\nid: 7-000000ab\ndata: {\"rev\":7,\"n\":3}\n\n");
    assert_said(sse_text_progress(&id, &out), "event: progress\nid: 7-000000ab\ndata: {\"rev\":7}\n\n");
    assert_said(sse_text_reset(&id, "ahead", &out),
                "event: reset\nid: 7-000000ab\ndata: {\"rev\":7,\"reason\":\"ahead\"}\n\n");
    assert_said(sse_text_reset(&nothing, "snapshot", &out), "event: reset\nid: 0\ndata: {\"reason\":\"snapshot\"}\n\n");
    assert_said(sse_text_denied("no\n", &out), "event: denied\ndata: {\"error\":\"no\\n\"}\n\n");
    assert_said(sse_text_ticket(belfry_bytes_str("t"), 300, &out),
                "event: ticket\ndata: {\"ticket\":\"t\",\"expires_in\":300}\n\n");
    assert_said(sse_text_retry(1500, &out), "retry: 1500\n\n");
}

static int free_out(void **state)
{
    (void)state;
    belfry_buf_fini(&out);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_have_the_form_that_was_asked_for),
        cmocka_unit_test(key_that_is_no_text_has_another_name),
        cmocka_unit_test(messages_are_as_the_page_says),
    };
    return cmocka_run_group_tests(tests, NULL, free_out);
}
