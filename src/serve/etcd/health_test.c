/* src/serve/etcd/health_test.c */
#include "serve/etcd/health.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "server/pace.h"
#include "support/fakeexchange.h"
#include "support/refuse.h"

#define PATH "/grpc.health.v1.Health/"

static const char *const grpc[] = {"content-type: application/grpc", NULL};

static struct health *make(void)
{
    struct health *health;
    assert_int_equal(health_create(0, &health), BELFRY_OK);
    return health;
}

static void begin(struct health *health, struct fakeexchange *fake, size_t room, const char *path)
{
    struct fakeexchange_head head;
    fakeexchange_init(fake, room);
    fakeexchange_head(&head, "POST", path, grpc);
    health_begin(health, &fake->x, &head.head, 1000);
}

static void assert_status(struct fakeexchange *fake, int status)
{
    struct belfry_bytes message;
    assert_true(fakeexchange_message(fake, &message));
    assert_int_equal(message.len, 2);
    assert_int_equal(message.data[0], 0x08);
    assert_int_equal(message.data[1], status);
    fakeexchange_next(fake);
}

static void assert_ended(struct fakeexchange *fake, const char *code, const char *text)
{
    assert_int_equal(fake->state, FAKEEXCHANGE_ENDED);
    assert_string_equal(fakeexchange_field(fake, "grpc-status"), code);
    assert_string_equal(fakeexchange_field(fake, "grpc-message"), text);
    fakeexchange_fini(fake);
}

static void assert_silent(const struct fakeexchange *fake)
{
    assert_int_equal(fake->state, FAKEEXCHANGE_OPEN);
    assert_int_equal(belfry_buf_len(&fake->body), 0);
}

static void a_message_that_is_not_whole_in_time_ends_its_call(void **state)
{
    (void)state;
    struct health *health = make();
    struct fakeexchange empty, half, whole;
    assert_int_equal(health_due(health), BELFRY_NEVER);
    begin(health, &empty, EXCHANGE_ROOM, PATH "Check");
    begin(health, &half, EXCHANGE_ROOM, PATH "Watch");
    begin(health, &whole, EXCHANGE_ROOM, PATH "Watch");
    fakeexchange_send(&half, "\0\0\0\0\2x", 6);
    fakeexchange_send(&whole, "\0\0\0\0\0", 5);
    assert_int_equal(health_due(health), 1000 + PACE_MS);
    assert_int_equal(health_end_late(health, 1000 + PACE_MS - 1), 0);
    assert_int_equal(health_end_late(health, 1000 + PACE_MS), 2);
    assert_ended(&empty, "14", "belfry: the request was not complete in time");
    assert_ended(&half, "14", "belfry: the request was not complete in time");
    assert_int_equal(health_due(health), BELFRY_NEVER); /* a watch that runs is not late */
    assert_int_equal(whole.state, FAKEEXCHANGE_OPEN);
    health_destroy(health);
    fakeexchange_fini(&whole);
}

static void check_says_how_it_stands(void **state)
{
    (void)state;
    struct health *health = make();
    struct fakeexchange fake;
    begin(health, &fake, EXCHANGE_ROOM, PATH "Check");
    fakeexchange_send_message(&fake, NULL, 0);
    assert_status(&fake, 2);
    assert_ended(&fake, "0", "");
    health_stand(health, true, "");
    begin(health, &fake, EXCHANGE_ROOM, PATH "Check");
    fakeexchange_send(&fake, "\0\0\0\0", 4);
    assert_silent(&fake);
    fakeexchange_send(&fake, "\2\x0a", 2);
    fakeexchange_send(&fake, "\0", 1);
    assert_status(&fake, 1);
    assert_int_equal(fake.taken, 0 + 4 + 2 + 1);
    assert_ended(&fake, "0", "");
    health_destroy(health);
}

static void unknown_service_is_not_found(void **state)
{
    (void)state;
    struct health *health = make();
    struct fakeexchange fake;
    begin(health, &fake, EXCHANGE_ROOM, PATH "Check");
    fakeexchange_send_message(&fake,
                              "\x0a\x03"
                              "foo",
                              5);
    assert_ended(&fake, "5", "unknown service");
    begin(health, &fake, EXCHANGE_ROOM, PATH "Watch");
    fakeexchange_send_message(&fake,
                              "\x0a\x03"
                              "foo",
                              5);
    assert_status(&fake, 3);
    health_stand(health, true, "");
    assert_silent(&fake);
    fakeexchange_gone(&fake);
    fakeexchange_fini(&fake);
    health_destroy(health);
}

static void watch_is_told_of_every_change(void **state)
{
    (void)state;
    struct health *health = make();
    struct fakeexchange fake;
    begin(health, &fake, EXCHANGE_ROOM, PATH "Watch");
    health_stand(health, true, "");
    assert_silent(&fake); /* not before it has asked */
    fakeexchange_send_message(&fake, NULL, 0);
    fakeexchange_half_close(&fake);
    assert_status(&fake, 1);
    health_stand(health, true, "");
    assert_silent(&fake);
    health_stand(health, false, "stale");
    assert_status(&fake, 2);
    health_destroy(health);
    assert_ended(&fake, "14", "belfry: shutting down");
}

static void watch_that_does_not_read_is_told_only_the_newest(void **state)
{
    (void)state;
    struct health *health = make();
    struct fakeexchange fake;
    begin(health, &fake, 8, PATH "Watch");
    fakeexchange_send_message(&fake, NULL, 0);
    for (int i = 0; i < 100; i++)
        health_stand(health, i % 2 == 0, "");
    assert_status(&fake, 2); /* all that there was room for */
    health_stand(health, true, "");
    assert_silent(&fake);
    fakeexchange_make_room(&fake, EXCHANGE_ROOM);
    assert_status(&fake, 1);
    assert_silent(&fake);
    health_destroy(health);
    fakeexchange_fini(&fake);
}

static void bad_requests_are_refused(void **state)
{
    (void)state;
    struct health *health = make();
    struct fakeexchange fake;
    begin(health, &fake, EXCHANGE_ROOM, PATH "Check");
    fakeexchange_send_message(&fake, "\x0a\x09", 2);
    assert_ended(&fake, "13", "grpc: error unmarshalling request: proto: malformed HealthCheckRequest");
    begin(health, &fake, EXCHANGE_ROOM, PATH "Check");
    fakeexchange_send(&fake, "\0\0\0\x04\x01", 5);
    assert_ended(&fake, "8", "grpc: received message larger than max");
    begin(health, &fake, EXCHANGE_ROOM, PATH "Check");
    fakeexchange_send(&fake, "\3", 1);
    assert_ended(&fake, "13", "grpc: received unexpected payload format");
    begin(health, &fake, EXCHANGE_ROOM, PATH "Check");
    fakeexchange_send(&fake, "\1\0\0\0\0", 5);
    assert_ended(&fake, "12", "belfry: health requests are not read compressed");
    begin(health, &fake, EXCHANGE_ROOM, PATH "Check");
    fakeexchange_half_close(&fake);
    assert_ended(&fake, "13", "unexpected EOF");
    begin(health, &fake, EXCHANGE_ROOM, PATH "List");
    assert_ended(&fake, "12", "unknown method for service grpc.health.v1.Health");
    health_destroy(health);
}

static void assert_http(struct health *health, const char *method, const char *path, int status, const char *body)
{
    struct fakeexchange fake;
    struct fakeexchange_head head;
    fakeexchange_init(&fake, EXCHANGE_ROOM);
    fakeexchange_head(&head, method, path, NULL);
    if (strcmp(path, "/health") == 0)
        health_http(health, &fake.x, &head.head);
    else
        health_version(health, &fake.x, &head.head, HEALTH_VERSION_ETCD);
    assert_int_equal(fake.status, status);
    struct belfry_bytes got = belfry_buf_bytes(&fake.body);
    assert_int_equal(got.len, strlen(body));
    assert_memory_equal(got.data, body, got.len);
    if (status == 405)
        assert_string_equal(fakeexchange_field(&fake, "allow"), "GET");
    else
        assert_string_equal(fakeexchange_field(&fake, "content-type"), "application/json");
    fakeexchange_fini(&fake);
}

static void http_health_is_as_etcds(void **state)
{
    (void)state;
    struct health *health = make();
    assert_http(health, "GET", "/health", 503, "{\"health\":\"false\",\"reason\":\"starting\"}");
    health_stand(health, false, "a \"quoted\" \\ reason\n");
    assert_http(health, "GET", "/health", 503,
                "{\"health\":\"false\",\"reason\":\"a \\\"quoted\\\" \\\\ reason\\u000a\"}");
    health_stand(health, true, "never shown");
    assert_http(health, "GET", "/health", 200, "{\"health\":\"true\",\"reason\":\"\"}");
    assert_http(health, "POST", "/health", 405, "Method Not Allowed\n");
    health_destroy(health);
}

static void version_is_upstreams(void **state)
{
    (void)state;
    struct health *health = make();
    assert_http(health, "GET", "/version", 200, "{\"etcdserver\":\"\",\"etcdcluster\":\"not_decided\"}");
    health_set_versions(health, "3.5.16", "3.5.0");
    assert_http(health, "GET", "/version", 200, "{\"etcdserver\":\"3.5.16\",\"etcdcluster\":\"3.5.0\"}");
    assert_http(health, "PUT", "/version", 405, "Method Not Allowed\n");
    health_destroy(health);
}

static void longest_reason_that_must_be_escaped_fits(void **state)
{
    (void)state;
    char reason[400];
    struct health *health = make();
    memset(reason, 1, sizeof(reason) - 1);
    reason[sizeof(reason) - 1] = '\0';
    health_stand(health, false, reason);
    struct fakeexchange fake;
    struct fakeexchange_head head;
    fakeexchange_init(&fake, EXCHANGE_ROOM);
    fakeexchange_head(&head, "GET", "/health", NULL);
    health_http(health, &fake.x, &head.head);
    assert_true(belfry_buf_len(&fake.body) > 6 * 100);
    assert_int_equal(fake.body.data[fake.body.end - 1], '}');
    fakeexchange_fini(&fake);
    health_destroy(health);
}

static enum belfry_err scenario(void)
{
    struct health *health;
    struct fakeexchange watch, check;
    enum belfry_err err = health_create(0, &health);
    if (err != BELFRY_OK)
        return err;
    begin(health, &watch, EXCHANGE_ROOM, PATH "Watch");
    begin(health, &check, EXCHANGE_ROOM, PATH "Check");
    fakeexchange_send_message(&watch, NULL, 0);
    fakeexchange_send(&check, "\0\0\0\0\2\x0a", 6);
    fakeexchange_send(&check, "\0", 1);
    health_stand(health, true, "");
    const char *code = fakeexchange_field(&check, "grpc-status");
    bool ok = watch.state == FAKEEXCHANGE_OPEN && !watch.lost && !check.lost && code != NULL && strcmp(code, "0") == 0;
    health_destroy(health);
    fakeexchange_fini(&watch);
    fakeexchange_fini(&check);
    return ok ? BELFRY_OK : BELFRY_ERR_NOMEM;
}

static void every_refused_allocation_is_survived(void **state)
{
    (void)state;
    assert_true(refuse_sweep(scenario) >= 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_that_is_not_whole_in_time_ends_its_call),
        cmocka_unit_test(check_says_how_it_stands),
        cmocka_unit_test(unknown_service_is_not_found),
        cmocka_unit_test(watch_is_told_of_every_change),
        cmocka_unit_test(watch_that_does_not_read_is_told_only_the_newest),
        cmocka_unit_test(bad_requests_are_refused),
        cmocka_unit_test(http_health_is_as_etcds),
        cmocka_unit_test(version_is_upstreams),
        cmocka_unit_test(longest_reason_that_must_be_escaped_fits),
        cmocka_unit_test(every_refused_allocation_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
