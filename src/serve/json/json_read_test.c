/* src/serve/json/json_read_test.c: what etcd's gateway takes and refuses, as a real one (3.5.16) was asked. Numbers in
 * strings are those of newer ones, which look at all of the string (docs/compatibility.md, gateway-integers). */
#include "serve/json/json_read.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/refuse.h"
#include "wire/rpc.pb-c.h"

static enum belfry_err read_text(const ProtobufCMessageDescriptor *type, const char *text, ProtobufCMessage **out)
{
    struct belfry_buf message;
    char why[JSON_READ_WHY];
    belfry_buf_init(&message);
    enum belfry_err err = json_read(type, belfry_bytes_str(text), &message, why);
    assert_true((err == BELFRY_ERR_INVALID) == (why[0] != '\0'));
    if (err == BELFRY_OK) {
        struct belfry_bytes bytes = belfry_buf_bytes(&message);
        *out = protobuf_c_message_unpack(type, NULL, bytes.len, (const uint8_t *)bytes.data);
        assert_non_null(*out);
    } else {
        assert_int_equal(belfry_buf_len(&message), 0);
    }
    belfry_buf_fini(&message);
    return err;
}

static Etcdserverpb__RangeRequest *range(const char *text)
{
    ProtobufCMessage *message;
    assert_int_equal(read_text(&etcdserverpb__range_request__descriptor, text, &message), BELFRY_OK);
    return (Etcdserverpb__RangeRequest *)message;
}

static void free_range(Etcdserverpb__RangeRequest *request)
{
    etcdserverpb__range_request__free_unpacked(request, NULL);
}

static void assert_key(const char *text, const char *key, size_t len)
{
    Etcdserverpb__RangeRequest *request = range(text);
    assert_int_equal(request->key.len, len);
    assert_memory_equal(request->key.data, key, len);
    free_range(request);
}

static void names_are_the_messages_own_or_camel_case(void **state)
{
    (void)state;
    Etcdserverpb__RangeRequest *request = range(
        "{\"key\":\"Zm9v\",\"range_end\":\"AA==\",\"keysOnly\":true,\"minModRevision\":\"7\",\"nothing\":{\"a\":[1]}}");
    assert_int_equal(request->range_end.len, 1);
    assert_true(request->keys_only);
    assert_int_equal(request->min_mod_revision, 7);
    free_range(request);
    request = range("{\"Key\":\"Zm9v\",\"KeysOnly\":true}"); /* these are others */
    assert_int_equal(request->key.len, 0);
    assert_false(request->keys_only);
    free_range(request);
}

static void bytes_are_base64_of_either_kind(void **state)
{
    (void)state;
    assert_key("{\"key\":\"Zm9v\"}", "foo", 3);
    assert_key("{\"key\":\"Zm8=\"}", "fo", 2);
    assert_key("{\"key\":\"Zm8\"}", "fo", 2);
    assert_key("{\"key\":\"Zh==\"}", "f", 1); /* bits that are left over */
    assert_key("{\"key\":\"Zm-_\"}", "fo\xbf", 3);
    assert_key("{\"key\":\"Zm+/\"}", "fo\xbf", 3);
    assert_key("{\"key\":\"Zm9v\\n\"}", "foo", 3);
    assert_key("{\"key\":\"\\u005am9v\"}", "foo", 3);
    assert_key("{\"key\":\"\"}", "", 0);
}

static void numbers_come_in_any_form(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t limit;
    } good[] = {{"1", 1},
                {"\"1\"", 1},
                {"1e2", 100},
                {"\"1.50e1\"", 15},
                {"1.0", 1},
                {"-1", -1},
                {"\"-0\"", 0},
                {"0e400", 0},
                {"120e-1", 12},
                {"\"12.0e+1\"", 120},
                {"\"-0.0012e4\"", -12},
                {"\"0.000\"", 0},
                {"null", 0},
                {"\"9223372036854775807\"", INT64_MAX},
                {"-9223372036854775808", INT64_MIN}};
    char text[80];
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        snprintf(text, sizeof(text), "{\"limit\":%s}", good[i].text);
        Etcdserverpb__RangeRequest *request = range(text);
        assert_int_equal(request->limit, good[i].limit);
        free_range(request);
    }
}

static void a_zero_without_a_sign_may_have_one(void **state)
{
    (void)state;
    ProtobufCMessage *message;
    const ProtobufCMessageDescriptor *type = &etcdserverpb__move_leader_request__descriptor;
    assert_int_equal(read_text(type, "{\"targetID\":\"-0\"}", &message), BELFRY_OK);
    protobuf_c_message_free_unpacked(message, NULL);
    assert_int_equal(read_text(type, "{\"targetID\":-1}", &message), BELFRY_ERR_INVALID);
}

/* For etcd an empty range_end that is written is a range without end. */
static void what_is_empty_is_not_written(void **state)
{
    (void)state;
    static const struct {
        const ProtobufCMessageDescriptor *type;
        const char *text;
        size_t len;
    } cases[] = {
        {&etcdserverpb__range_request__descriptor,
         "{\"key\":\"\\n\",\"range_end\":\"\",\"limit\":0,\"sort_order\":\"NONE\",\"keys_only\":false}", 0},
        {&etcdserverpb__authenticate_request__descriptor, "{\"name\":\"\"}", 0},
        {&etcdserverpb__compare__descriptor, "{\"version\":0}", 2},  /* it says which one is compared */
        {&etcdserverpb__compare__descriptor, "{\"value\":\"\"}", 6}, /* likewise; its length is padded */
        {&etcdserverpb__member_add_request__descriptor, "{\"peerURLs\":[\"\",\"\"]}", 12},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct belfry_buf out;
        char why[JSON_READ_WHY];
        belfry_buf_init(&out);
        assert_int_equal(json_read(cases[i].type, belfry_bytes_str(cases[i].text), &out, why), BELFRY_OK);
        assert_int_equal(belfry_buf_len(&out), cases[i].len);
        belfry_buf_fini(&out);
    }
}

static void enums_come_by_name_or_number(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int order;
    } good[] = {{"\"DESCEND\"", 2}, {"2", 2}, {"1.0", 1}, {"99", 99}, {"\"descend\"", 0}, {"\"2\"", 0}, {"null", 0}};
    char text[80];
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        snprintf(text, sizeof(text), "{\"sort_order\":%s}", good[i].text);
        Etcdserverpb__RangeRequest *request = range(text);
        assert_int_equal(request->sort_order, good[i].order);
        free_range(request);
    }
}

static void messages_and_lists_are_read(void **state)
{
    (void)state;
    ProtobufCMessage *message;
    assert_int_equal(read_text(&etcdserverpb__txn_request__descriptor,
                               "{\"compare\":[{\"key\":\"Zm9v\",\"target\":\"VERSION\",\"version\":\"3\"}],"
                               "\"success\":[{\"requestRange\":{\"key\":\"Zm9v\"}},{}],\"failure\":null}",
                               &message),
                     BELFRY_OK);
    Etcdserverpb__TxnRequest *txn = (Etcdserverpb__TxnRequest *)message;
    assert_int_equal(txn->n_compare, 1);
    assert_int_equal(txn->compare[0]->target_union_case, ETCDSERVERPB__COMPARE__TARGET_UNION_VERSION);
    assert_int_equal(txn->n_success, 2);
    assert_int_equal(txn->success[0]->request_case, ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_RANGE);
    assert_int_equal(txn->n_failure, 0);
    protobuf_c_message_free_unpacked(message, NULL);
}

static void what_etcd_refuses_is_refused(void **state)
{
    (void)state;
    static const char *const ranges[] = {"",
                                         "{",
                                         "[]",
                                         "null",
                                         "true",
                                         "\"x\"",
                                         "{\"key\":1}",
                                         "{\"key\":{}}",
                                         "{\"key\":\"Z\"}",
                                         "{\"key\":\"Zm9v==\"}",
                                         "{\"key\":\"Zm-/\"}",
                                         "{\"key\":\"Zm 9v\"}",
                                         "{\"key\":\"Zg=\\n=\"}",
                                         "{\"key\":\"Zm9v\",\"key\":\"Zm9v\"}",
                                         "{\"key\":null,\"key\":\"Zm9v\"}",
                                         "{\"range_end\":\"AA==\",\"rangeEnd\":\"AA==\"}",
                                         "{\"limit\":1.5}",
                                         "{\"limit\":\" 1\"}",
                                         "{\"limit\":\"0x1\"}",
                                         "{\"limit\":\"+1\"}",
                                         "{\"limit\":\"01\"}",
                                         "{\"limit\":\"1 \"}",
                                         "{\"limit\":\"1\\u2003\"}",
                                         "{\"limit\":\"900000]0001\"}", /* a number and something else */
                                         "{\"limit\":\"10\\u00e9\"}",
                                         "{\"limit\":\"0 1\"}",
                                         "{\"limit\":\"12,3\"}",
                                         "{\"limit\":\"7}\"}",
                                         "{\"limit\":\"7e,\"}",
                                         "{\"limit\":\"1\\u0000\"}",
                                         "{\"limit\":\"--1\"}",
                                         "{\"limit\":\"1e+-1\"}",
                                         "{\"limit\":\"1e-1\"}",
                                         "{\"limit\":\"1_\"}",
                                         "{\"limit\":\"1.,\"}",
                                         "{\"limit\":\"1e+,\"}",
                                         "{\"limit\":\"1e\"}",
                                         "{\"limit\":\"\"}",
                                         "{\"limit\":9223372036854775808}",
                                         "{\"limit\":1e400}",
                                         "{\"limit\":true}",
                                         "{\"serializable\":1}",
                                         "{\"serializable\":\"true\"}",
                                         "{\"sort_order\":1.5}",
                                         "{\"sort_order\":4294967297}",
                                         "{\"sort_order\":{}}",
                                         "{\"sort_order\":true}",
                                         "{\"a\":\"\\ud800\"}",
                                         "{key:1}",
                                         "{'key':'a'}",
                                         "{\"key\":\"Zm9v\", }",
                                         "//c"};
    static const char *const txns[] = {"{\"success\":{}}",
                                       "{\"success\":[null]}",
                                       "{\"success\":[[]]}",
                                       "{\"success\":[\"x\"]}",
                                       "{\"success\":[{\"request_range\":{},\"request_put\":{}}]}",
                                       "{\"compare\":[{\"version\":1,\"value\":\"YQ==\"}]}"};
    ProtobufCMessage *message;
    for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++)
        assert_int_equal(read_text(&etcdserverpb__range_request__descriptor, ranges[i], &message), BELFRY_ERR_INVALID);
    for (size_t i = 0; i < sizeof(txns) / sizeof(txns[0]); i++)
        assert_int_equal(read_text(&etcdserverpb__txn_request__descriptor, txns[i], &message), BELFRY_ERR_INVALID);
}

static void depth_is_bounded(void **state)
{
    (void)state;
    static char text[8192];
    for (size_t n = 49; n <= 50; n++) { /* a Txn and an operation each, and the outermost */
        ProtobufCMessage *message;
        text[0] = '\0';
        for (size_t i = 0; i < n; i++)
            strcat(text, "{\"success\":[{\"request_txn\":");
        strcat(text, "{}");
        for (size_t i = 0; i < n; i++)
            strcat(text, "}]}");
        enum belfry_err err = read_text(&etcdserverpb__txn_request__descriptor, text, &message);
        assert_int_equal(err, n == 49 ? BELFRY_OK : BELFRY_ERR_INVALID);
        if (err == BELFRY_OK)
            protobuf_c_message_free_unpacked(message, NULL);
    }
}

static enum belfry_err read_one(void)
{
    struct belfry_buf out;
    char why[JSON_READ_WHY];
    belfry_buf_init(&out);
    enum belfry_err err =
        json_read(&etcdserverpb__txn_request__descriptor,
                  belfry_bytes_str("{\"success\":[{\"request_range\":{\"key\":\"Zm9v\"}}]}"), &out, why);
    belfry_buf_fini(&out);
    return err;
}

static void refused_memory_leaves_nothing(void **state)
{
    (void)state;
    assert_true(refuse_sweep(read_one) >= 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_the_messages_own_or_camel_case),
        cmocka_unit_test(bytes_are_base64_of_either_kind),
        cmocka_unit_test(numbers_come_in_any_form),
        cmocka_unit_test(a_zero_without_a_sign_may_have_one),
        cmocka_unit_test(what_is_empty_is_not_written),
        cmocka_unit_test(enums_come_by_name_or_number),
        cmocka_unit_test(messages_and_lists_are_read),
        cmocka_unit_test(what_etcd_refuses_is_refused),
        cmocka_unit_test(depth_is_bounded),
        cmocka_unit_test(refused_memory_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
