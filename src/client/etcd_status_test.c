/* src/client/etcd_status_test.c */
#include "client/etcd_status.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void statuses_mean_what_they_should(void **state)
{
    static const struct {
        int code;
        const char *message;
        bool from_server;
        enum belfry_err err;
        bool auth, no_leader;
    } rows[] = {
        {0, "", true, BELFRY_OK, false, false},
        {1, "", false, BELFRY_ERR_UNAVAILABLE, false, false},
        {1, "etcdserver: watch canceled", true, BELFRY_ERR_UNAVAILABLE, false, false},
        {2, "", false, BELFRY_ERR_REFUSED, false, false},
        {3, "etcdserver: key is not provided", true, BELFRY_ERR_REFUSED, false, false},
        {3, "etcdserver: request is too large", true, BELFRY_ERR_TOO_LARGE, false, false},
        {3, "etcdserver: authentication failed, invalid user ID or password", true, BELFRY_ERR_AUTH, false, false},
        {3, "etcdserver: user name is empty", true, BELFRY_ERR_AUTH, true, false},
        {3, "etcdserver: revision of auth store is old", true, BELFRY_ERR_AUTH, true, false},
        {3, "etcdserver: invalid auth token", true, BELFRY_ERR_REFUSED, false, false},
        {4, "context deadline exceeded", true, BELFRY_ERR_TIMEOUT, false, false},
        {5, "etcdserver: requested lease not found", true, BELFRY_ERR_NOT_FOUND, false, false},
        {7, "etcdserver: permission denied", true, BELFRY_ERR_DENIED, false, false},
        {8, "grpc: received message larger than max (1 vs. 2)", true, BELFRY_ERR_TOO_LARGE, false, false},
        {8, "etcdserver: mvcc: database space exceeded", true, BELFRY_ERR_REFUSED, false, false},
        {8, "", false, BELFRY_ERR_UNAVAILABLE, false, false}, /* a stream reset with ENHANCE_YOUR_CALM */
        {9, "etcdserver: authentication is not enabled", true, BELFRY_ERR_REFUSED, false, false},
        {11, "etcdserver: mvcc: required revision has been compacted", true, BELFRY_ERR_COMPACTED, false, false},
        {11, "etcdserver: mvcc: required revision is a future revision", true, BELFRY_ERR_FUTURE, false, false},
        {11, "", true, BELFRY_ERR_REFUSED, false, false},
        {12, "unknown service", true, BELFRY_ERR_UNSUPPORTED, false, false},
        {13, "", true, BELFRY_ERR_REFUSED, false, false},
        {13, "", false, BELFRY_ERR_PROTOCOL, false, false},
        {14, "etcdserver: no leader", true, BELFRY_ERR_UNAVAILABLE, false, true},
        {14, "etcdserver: request timed out", true, BELFRY_ERR_UNAVAILABLE, false, false},
        {13, "etcdserver: no leader", true, BELFRY_ERR_REFUSED, false, false},
        {16, "etcdserver: invalid auth token", true, BELFRY_ERR_AUTH, true, false},
        {16, "", true, BELFRY_ERR_AUTH, false, false},
        {99, "", true, BELFRY_ERR_REFUSED, false, false},
        {-1, "", true, BELFRY_ERR_REFUSED, false, false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct belfry_grpc_status status = {
            .code = rows[i].code, .message = rows[i].message, .from_server = rows[i].from_server};
        if (belfry_status_err(&status) != rows[i].err || belfry_status_is_auth(&status) != rows[i].auth ||
            belfry_status_is_no_leader(&status) != rows[i].no_leader)
            fail_msg("%d %s: %s", rows[i].code, rows[i].message, belfry_errname(belfry_status_err(&status)));
    }
    struct belfry_grpc_status ours = {.code = BELFRY_GRPC_RESOURCE_EXHAUSTED, .message = "", .too_large = true};
    assert_int_equal(belfry_status_err(&ours), BELFRY_ERR_TOO_LARGE);
}

/* As belfry/belfry.h lists them for users. */
static void every_status_of_a_watch_stream_has_a_fate(void **state)
{
    static const struct {
        int code;
        enum belfry_status_fate fate;
    } rows[] = {
        {0, BELFRY_FATE_RETRY},    {1, BELFRY_FATE_RETRY},   {2, BELFRY_FATE_DOUBT},  {3, BELFRY_FATE_END},
        {4, BELFRY_FATE_RETRY},    {5, BELFRY_FATE_FOREIGN}, {6, BELFRY_FATE_DOUBT},  {7, BELFRY_FATE_END},
        {8, BELFRY_FATE_RETRY},    {9, BELFRY_FATE_DOUBT},   {10, BELFRY_FATE_RETRY}, {11, BELFRY_FATE_DOUBT},
        {12, BELFRY_FATE_FOREIGN}, {13, BELFRY_FATE_RETRY},  {14, BELFRY_FATE_RETRY}, {15, BELFRY_FATE_DOUBT},
        {16, BELFRY_FATE_END},     {17, BELFRY_FATE_DOUBT},  {-1, BELFRY_FATE_DOUBT},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct belfry_grpc_status status = {.code = rows[i].code, .message = "", .from_server = true};
        if (belfry_status_fate(&status) != rows[i].fate)
            fail_msg("status %d has fate %d", rows[i].code, (int)belfry_status_fate(&status));
    }
    struct belfry_grpc_status proxy = {.code = BELFRY_GRPC_UNKNOWN, .message = "HTTP 500"};
    assert_int_equal(belfry_status_fate(&proxy), BELFRY_FATE_RETRY);
    struct belfry_grpc_status ours = {.code = BELFRY_GRPC_RESOURCE_EXHAUSTED, .message = "", .too_large = true};
    assert_int_equal(belfry_status_fate(&ours), BELFRY_FATE_END);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(statuses_mean_what_they_should),
                                       cmocka_unit_test(every_status_of_a_watch_stream_has_a_fate)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
