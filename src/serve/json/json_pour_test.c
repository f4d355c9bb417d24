/* src/serve/json/json_pour_test.c: messages as JSON, whole and cut. */
#include "serve/json/json_pour.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/refuse.h"
#include "wire/rpc.pb-c.h"

static uint8_t packed[100000];

static enum belfry_err pour_cut(const ProtobufCMessageDescriptor *type, struct belfry_bytes message, size_t piece,
                                struct belfry_buf *out)
{
    struct json_pour pour;
    json_pour_init(&pour);
    enum belfry_err err = json_pour_begin(&pour, type, message.len, out);
    for (size_t at = 0; at < message.len && err == BELFRY_OK; at += piece) {
        assert_int_equal(json_pour_left(&pour), message.len - at);
        size_t n = message.len - at < piece ? message.len - at : piece;
        err = json_pour_pass(&pour, belfry_bytes_of(message.data + at, n), out);
    }
    assert_true(err != BELFRY_OK || json_pour_is_done(&pour));
    if (err == BELFRY_OK)
        assert_int_equal(json_pour_bytes(&pour), 0);
    json_pour_fini(&pour);
    return err;
}

static void expect_bytes(const ProtobufCMessageDescriptor *type, struct belfry_bytes message, const char *json)
{
    for (size_t piece = 1; piece <= message.len + 1; piece = piece < 9 ? piece + 1 : piece * 3) {
        struct belfry_buf out;
        belfry_buf_init(&out);
        assert_int_equal(pour_cut(type, message, piece, &out), BELFRY_OK);
        assert_true(belfry_bytes_equal(belfry_buf_bytes(&out), belfry_bytes_str(json)));
        belfry_buf_fini(&out);
    }
}

static void expect(const ProtobufCMessage *message, const char *json)
{
    size_t len = protobuf_c_message_pack(message, packed);
    assert_true(len <= sizeof(packed));
    expect_bytes(message->descriptor, belfry_bytes_of(packed, len), json);
}

static ProtobufCBinaryData binary(const char *text)
{
    return (ProtobufCBinaryData){strlen(text), (uint8_t *)(uintptr_t)text};
}

static void values_have_etcds_form(void **state)
{
    (void)state;
    Mvccpb__KeyValue kvs[2] = {MVCCPB__KEY_VALUE__INIT, MVCCPB__KEY_VALUE__INIT}, *rows[2] = {&kvs[0], &kvs[1]};
    Etcdserverpb__ResponseHeader header = ETCDSERVERPB__RESPONSE_HEADER__INIT;
    Etcdserverpb__RangeResponse response = ETCDSERVERPB__RANGE_RESPONSE__INIT;
    expect(&response.base, "{}");
    header.cluster_id = UINT64_MAX;
    header.revision = -1;
    response.header = &header;
    expect(&response.base, "{\"header\":{\"cluster_id\":\"18446744073709551615\",\"revision\":\"-1\"}}");
    kvs[0].key = binary("f");
    kvs[0].value = binary("fo");
    kvs[1].key = binary("foo");
    kvs[1].version = 7;
    response.kvs = rows;
    response.n_kvs = 2;
    response.more = true;
    expect(&response.base, "{\"header\":{\"cluster_id\":\"18446744073709551615\",\"revision\":\"-1\"},"
                           "\"kvs\":[{\"key\":\"Zg==\",\"value\":\"Zm8=\"},{\"key\":\"Zm9v\",\"version\":\"7\"}],"
                           "\"more\":true}");
}

static void enums_strings_and_lists_of_strings(void **state)
{
    (void)state;
    Etcdserverpb__AlarmMember alarm = ETCDSERVERPB__ALARM_MEMBER__INIT, *alarms[] = {&alarm};
    Etcdserverpb__AlarmResponse alarmed = ETCDSERVERPB__ALARM_RESPONSE__INIT;
    alarm.alarm = 1;
    alarmed.alarms = alarms;
    alarmed.n_alarms = 1;
    expect(&alarmed.base, "{\"alarms\":[{\"alarm\":\"NOSPACE\"}]}");
    alarm.alarm = 77;
    expect(&alarmed.base, "{\"alarms\":[{\"alarm\":77}]}");
    char *users[] = {(char *)(uintptr_t) "a\"\n", (char *)(uintptr_t) "", (char *)(uintptr_t) "\xff"};
    Etcdserverpb__AuthUserListResponse list = ETCDSERVERPB__AUTH_USER_LIST_RESPONSE__INIT;
    list.users = users;
    list.n_users = 3;
    expect(&list.base, "{\"users\":[\"a\\\"\\n\",\"\",\"\xef\xbf\xbd\"]}");
}

static void one_of_several_shows_its_zero(void **state)
{
    (void)state;
    Etcdserverpb__Compare compare = ETCDSERVERPB__COMPARE__INIT;
    compare.target_union_case = ETCDSERVERPB__COMPARE__TARGET_UNION_VERSION;
    expect(&compare.base, "{\"version\":\"0\"}");
}

static void packed_lists_are_lists(void **state)
{
    (void)state;
    static const uint8_t create[] = {0x0a, 1, 'k', 0x2a, 2, 0, 1}; /* filters */
    expect_bytes(&etcdserverpb__watch_create_request__descriptor, belfry_bytes_of(create, sizeof(create)),
                 "{\"key\":\"aw==\",\"filters\":[\"NOPUT\",\"NODELETE\"]}");
}

static void unknown_fields_are_left_out(void **state)
{
    (void)state;
    static const uint8_t message[] = {0x18, 1, 0x78, 5, 0x7a, 2, 'x',  'y', 0x79, 1, 2,
                                      3,    4, 5,    6, 7,    8, 0x7d, 1,   2,    3, 4};
    expect_bytes(&etcdserverpb__range_response__descriptor, belfry_bytes_of(message, sizeof(message)),
                 "{\"more\":true}");
}

static void what_is_no_such_message_is_refused(void **state)
{
    (void)state;
    static const struct {
        size_t len;
        uint8_t bytes[12];
    } bad[] = {{1, {0x18}},       /* cut off */
               {2, {0x18, 0x80}}, /* in a number */
               {3, {0x0a, 5, 1}}, /* longer than all */
               {2, {0x0b, 0x0c}}, /* a group */
               {12, {0x18, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}},
               {6, {0x12, 0, 0x18, 1, 0x12, 0}}, /* a list in two parts */
               {4, {0x18, 1, 0x18, 1}}};         /* twice */
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct belfry_buf out;
        belfry_buf_init(&out);
        for (size_t piece = 1; piece <= bad[i].len; piece++)
            assert_int_equal(pour_cut(&etcdserverpb__range_response__descriptor,
                                      belfry_bytes_of(bad[i].bytes, bad[i].len), piece, &out),
                             BELFRY_ERR_PROTOCOL);
        belfry_buf_fini(&out);
    }
}

static enum belfry_err pour_one(void)
{
    static const uint8_t message[] = {0x0a, 2, 8, 1, 0x12, 3, 0x0a, 1, 'k'};
    struct belfry_buf out;
    belfry_buf_init(&out);
    enum belfry_err err =
        pour_cut(&etcdserverpb__range_response__descriptor, belfry_bytes_of(message, sizeof(message)), 2, &out);
    belfry_buf_fini(&out);
    return err;
}

static void refused_memory_leaves_nothing(void **state)
{
    (void)state;
    assert_true(refuse_sweep(pour_one) >= 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_have_etcds_form),        cmocka_unit_test(enums_strings_and_lists_of_strings),
        cmocka_unit_test(one_of_several_shows_its_zero), cmocka_unit_test(packed_lists_are_lists),
        cmocka_unit_test(unknown_fields_are_left_out),   cmocka_unit_test(what_is_no_such_message_is_refused),
        cmocka_unit_test(refused_memory_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
