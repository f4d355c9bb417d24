/* src/server/grpc_answer_test.c */
#include "server/grpc_answer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "support/fakeexchange.h"
#include "support/refuse.h"

#define PATH "/etcdserverpb.Watch/Watch"

static void assert_field(const struct fakeexchange *fake, const char *name, const char *value)
{
    const char *got = fakeexchange_field(fake, name);
    assert_non_null(got);
    assert_string_equal(got, value);
}

static void nothing_happens(struct exchange *x, void *user)
{
    (void)x;
    (void)user;
}

static void nothing_comes(struct exchange *x, struct belfry_bytes bytes, void *user)
{
    (void)x;
    (void)bytes;
    (void)user;
}

static const struct exchange_events quiet = {
    .body = nothing_comes, .body_end = nothing_happens, .writable = nothing_happens, .gone = nothing_happens};

static void failure_before_the_head_is_trailers_only(void **state)
{
    (void)state;
    struct fakeexchange fake;
    fakeexchange_init(&fake, EXCHANGE_ROOM);
    grpc_fail(&fake.x, GRPC_HEADERS_NOT_SENT, 14, "belfry: not ready: 5% left\n");
    assert_true(fake.whole);
    assert_int_equal(fake.status, 200);
    assert_field(&fake, "content-type", "application/grpc");
    assert_field(&fake, "grpc-status", "14");
    assert_field(&fake, "grpc-message", "belfry: not ready: 5%25 left%0A");
    assert_int_equal(belfry_buf_len(&fake.body), 0);
    fakeexchange_fini(&fake);
}

static void failure_after_the_head_is_trailers(void **state)
{
    (void)state;
    struct fakeexchange fake;
    fakeexchange_init(&fake, EXCHANGE_ROOM);
    exchange_handle(&fake.x, &quiet, NULL);
    grpc_begin(&fake.x, belfry_bytes_str("application/grpc+proto"));
    grpc_fail(&fake.x, GRPC_HEADERS_SENT, 4, "context deadline exceeded");
    assert_false(fake.whole);
    assert_int_equal(fake.state, FAKEEXCHANGE_ENDED);
    assert_field(&fake, "content-type", "application/grpc+proto");
    assert_field(&fake, "grpc-status", "4");
    assert_field(&fake, "grpc-message", "context deadline exceeded");
    fakeexchange_fini(&fake);
}

static void long_message_is_cut(void **state)
{
    (void)state;
    static char text[5000];
    struct fakeexchange fake;
    memset(text, 'x', sizeof(text) - 1);
    fakeexchange_init(&fake, EXCHANGE_ROOM);
    grpc_fail(&fake.x, GRPC_HEADERS_NOT_SENT, 2, text);
    assert_int_equal(strlen(fakeexchange_field(&fake, "grpc-message")), 1024);
    fakeexchange_fini(&fake);
}

static void reply_is_head_message_and_status_zero(void **state)
{
    (void)state;
    struct fakeexchange fake;
    struct belfry_bytes message;
    size_t held = refuse_held();
    fakeexchange_init(&fake, EXCHANGE_ROOM);
    exchange_handle(&fake.x, &quiet, NULL);
    grpc_reply(&fake.x, belfry_bytes_str("application/grpc"), belfry_bytes_str("hello"));
    assert_true(fakeexchange_message(&fake, &message));
    assert_true(belfry_bytes_equal(message, belfry_bytes_str("hello")));
    assert_field(&fake, "grpc-status", "0");
    assert_field(&fake, "grpc-message", "");
    fakeexchange_fini(&fake);
    assert_int_equal(refuse_held(), held);
}

static void grpc_is_told_by_method_and_type(void **state)
{
    (void)state;
    static const struct {
        const char *method, *type;
        bool is;
    } cases[] = {
        {"POST", "content-type: application/grpc", true},
        {"POST", "content-type: application/grpc+proto", true},
        {"POST", "content-type: application/grpc;x=y", true},
        {"POST", "content-type: application/grpc-web", false},
        {"POST", "content-type: application/grp", false},
        {"POST", "content-type: application/json", false},
        {"POST", "te: trailers", false},
        {"GET", "content-type: application/grpc", false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct fakeexchange_head head;
        const char *const fields[] = {cases[i].type, NULL};
        fakeexchange_head(&head, cases[i].method, PATH, fields);
        assert_int_equal(grpc_is(&head.head), cases[i].is);
    }
}

/* Refuses a head with these fields; returns what the answer was. */
static void assert_refused(const char *method, const char *const *fields, int status, const char *code,
                           const char *message)
{
    struct fakeexchange fake;
    struct fakeexchange_head head;
    uint64_t timeout_ms;
    fakeexchange_init(&fake, EXCHANGE_ROOM);
    fakeexchange_head(&head, method, PATH, fields);
    assert_true(grpc_refuse_head(&fake.x, &head.head, &timeout_ms));
    assert_true(fake.whole);
    assert_int_equal(fake.status, status);
    assert_field(&fake, "content-type", "application/grpc");
    assert_field(&fake, "grpc-status", code);
    assert_field(&fake, "grpc-message", message);
    fakeexchange_fini(&fake);
}

static void head_that_is_not_quite_grpc_is_refused_as_etcd_does(void **state)
{
    (void)state;
    static const char *const plain[] = {"content-type: application/grpc", NULL};
    static const char *const json[] = {"content-type: application/json", NULL};
    static const char *const none[] = {"te: trailers", NULL};
    assert_refused("PUT", plain, 405, "13", "Received a HEADERS frame with :method \"PUT\" which should be POST");
    assert_refused("POST", json, 415, "3", "invalid gRPC request content-type \"application/json\"");
    assert_refused("POST", none, 415, "3", "invalid gRPC request content-type \"\"");
}

static void malformed_timeout_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"", "S", "5", "5x", "123456789S", "-5S", "+5S", "1.5S", " 5S", "5 S"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char field[64], message[64];
        const char *const fields[] = {"content-type: application/grpc", field, NULL};
        snprintf(field, sizeof(field), "grpc-timeout: %s", bad[i]);
        snprintf(message, sizeof(message), "malformed grpc-timeout: \"%s\"", bad[i]);
        assert_refused("POST", fields, 400, "13", message);
    }
}

static void timeout_is_read_and_rounded_up(void **state)
{
    (void)state;
    static const struct {
        const char *field;
        uint64_t ms;
    } cases[] = {
        {"te: trailers", UINT64_MAX},
        {"grpc-timeout: 5S", 5000},
        {"grpc-timeout: 2M", 120000},
        {"grpc-timeout: 250m", 250},
        {"grpc-timeout: 4985928u", 4986},
        {"grpc-timeout: 1u", 1},
        {"grpc-timeout: 1000001n", 2},
        {"grpc-timeout: 0n", 0},
        {"grpc-timeout: 99999999H", 99999999u * 3600000ull},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct fakeexchange fake;
        struct fakeexchange_head head;
        const char *const fields[] = {"content-type: application/grpc", cases[i].field, NULL};
        uint64_t timeout_ms = 77;
        fakeexchange_init(&fake, EXCHANGE_ROOM);
        fakeexchange_head(&head, "POST", PATH, fields);
        assert_false(grpc_refuse_head(&fake.x, &head.head, &timeout_ms));
        assert_int_equal(timeout_ms, cases[i].ms);
        assert_int_equal(fake.status, 0);
        fakeexchange_fini(&fake);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(failure_before_the_head_is_trailers_only),
        cmocka_unit_test(failure_after_the_head_is_trailers),
        cmocka_unit_test(long_message_is_cut),
        cmocka_unit_test(reply_is_head_message_and_status_zero),
        cmocka_unit_test(grpc_is_told_by_method_and_type),
        cmocka_unit_test(head_that_is_not_quite_grpc_is_refused_as_etcd_does),
        cmocka_unit_test(malformed_timeout_is_refused),
        cmocka_unit_test(timeout_is_read_and_rounded_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
