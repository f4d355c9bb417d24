/* src/serve/kfront/kfront_test.c: who answers a request, and who is refused. The service has no catalog, and says so:
 * that shows that it was asked. */
#include "serve/kfront/kfront.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

#include <cmocka.h>

#include "serve/kube/kube_fixture.h"
#include "serve/rights/listen_policy.h"
#include "support/fakeexchange.h"
#include "support/uplinkbed.h"

#define WIDGETS "/apis/demo.example.com/v1/widgets"
#define LIST    WIDGETS "?resourceVersion=0"

static struct kfront *kfront;
static struct permit *permit;
static struct kube_service *service;
static struct kube_resource *resource;
static struct kfront_fields *unknown;
static struct fakeexchange fake;

static uint64_t now_fn(void *user)
{
    (void)user;
    return belfry_clock_ms();
}

static void work(void *user)
{
    (void)user;
}

static enum belfry_err open_front(void)
{
    bed.is_kube = true;
    bed.via = "tier-1";
    bed.members[0] = upstream_create(NULL);
    fakeexchange_init(&fake, EXCHANGE_ROOM);
    enum belfry_err err = open_bed();
    if (err == BELFRY_OK)
        err = permit_create(&(struct permit_opts){.uplink = bed.uplink, .loop = belfry_loop_uv(bed.loop)}, &permit);
    if (err == BELFRY_OK)
        err = kube_create(&(struct kube_service_opts){.permit = permit, .now = now_fn, .work = work}, &service);
    if (err == BELFRY_OK)
        err = widgets_read(NULL, &resource);
    if (err == BELFRY_OK)
        err = kfront_fields_create(NULL, &unknown);
    if (err == BELFRY_OK)
        err = kfront_create(
            &(struct kfront_opts){.uplink = bed.uplink, .name = "tier-1", .fields = unknown, .now = now_fn}, &kfront);
    return err == BELFRY_OK ? kfront_add(kfront, resource, service) : err;
}

static void close_front(void)
{
    kfront_destroy(kfront);
    kfront_fields_destroy(unknown);
    kube_destroy(service);
    permit_destroy(permit);
    kube_resource_unref(resource);
    kfront = NULL;
    unknown = NULL;
    service = NULL;
    permit = NULL;
    resource = NULL;
    close_bed();
    fakeexchange_fini(&fake);
}

static int setup(void **state)
{
    (void)state;
    return open_front() == BELFRY_OK ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    close_front();
    return refuse_held() == 0 ? 0 : -1;
}

static void begin(const char *method, const char *path, const char *const *fields)
{
    struct fakeexchange_head head;
    struct exchange_conn conn = fake.conn;
    fakeexchange_gone(&fake);
    fakeexchange_fini(&fake);
    fakeexchange_init(&fake, EXCHANGE_ROOM);
    fake.conn = conn;
    fakeexchange_head(&head, method, path, fields);
    kfront_begin(&fake.x, &head.head, kfront);
    fakeexchange_half_close(&fake);
}

static void get(const char *path)
{
    begin("GET", path, (const char *const[]){"authorization: Bearer t", NULL});
}

static bool says(const char *text)
{
    struct belfry_bytes body = belfry_buf_bytes(&fake.body);
    return body.len > 0 && memmem(body.data, body.len, text, strlen(text)) != NULL;
}

static void refused(int status, const char *text)
{
    assert_int_equal(fake.state, FAKEEXCHANGE_ENDED);
    assert_int_equal(fake.status, status);
    if (!says(text))
        fail_msg("%.*s", (int)belfry_buf_len(&fake.body), (const char *)fake.body.data);
}

static struct kfront_stats counted(void)
{
    struct kfront_stats out;
    kfront_stats(kfront, &out);
    return out;
}

static void answered_here(void)
{
    refused(429, "not all definitions have been read");
}

static void passed_on(void)
{
    assert_int_equal(fake.state, FAKEEXCHANGE_OPEN);
    assert_int_equal(counted().relay.running, 1);
}

/* ---- tests ---- */

static void a_request_goes_to_the_service_of_its_resource_or_upstream(void **state)
{
    (void)state;
    get(LIST);
    answered_here();
    assert_int_equal(counted().answered, 1);
    get(WIDGETS);
    passed_on();
    get("/api/v1/pods?resourceVersion=0");
    passed_on();
    begin("POST", WIDGETS, (const char *const[]){NULL});
    passed_on();
    assert_int_equal(counted().relay.passed[KFRONT_CONSISTENT], 1);
    assert_int_equal(counted().relay.passed[KFRONT_OTHER], 1);
    assert_int_equal(counted().relay.passed[KFRONT_WRITE], 1);
}

/* The API server answers the `i`th request that was passed on. */
static void answer(size_t i, const char *status)
{
    drive_until(upstream_count(bed.members[0]) == i + 1 && upstream_request(bed.members[0], i)->ended);
    upstream_head(bed.members[0], i, (const char *const[]){":status", status, NULL}, true);
    drive_until(fake.state == FAKEEXCHANGE_ENDED);
}

static void selectors_that_are_answered_upstream_are_counted_by_their_field(void **state)
{
    (void)state;
    struct kfront_field rows[KFRONT_FIELDS_MAX + 1];
    get(WIDGETS "?watch=1&fieldSelector=spec.nothing%21%3DNone");
    passed_on();
    answer(0, "200");
    get(WIDGETS "?watch=1&fieldSelector=spec.nothing%3Da");
    answer(1, "200");
    get(LIST);
    answered_here();
    assert_int_equal(kfront_fields_look(unknown, rows), 1);
    assert_string_equal(rows[0].resource, "widgets.demo.example.com");
    assert_string_equal(rows[0].name, "spec.nothing");
    assert_int_equal(rows[0].requests, 2);
}

static void a_selector_that_the_api_server_refuses_takes_no_row(void **state)
{
    (void)state;
    struct kfront_field rows[KFRONT_FIELDS_MAX + 1];
    get(WIDGETS "?watch=1&fieldSelector=spec.nothing%3Da");
    answer(0, "403");
    get(WIDGETS "?fieldSelector=spec.nothing%3Da");
    answer(1, "400");
    assert_int_equal(kfront_fields_look(unknown, rows), 0);
}

static void a_resource_is_replaced_and_removed(void **state)
{
    (void)state;
    struct kube_service *other;
    assert_int_equal(kube_create(&(struct kube_service_opts){.permit = permit, .now = now_fn, .work = work}, &other),
                     BELFRY_OK);
    assert_int_equal(kfront_add(kfront, resource, other), BELFRY_OK);
    kfront_remove(kfront, service); /* it answers for nothing now */
    get(LIST);
    answered_here();
    kfront_remove(kfront, other);
    get(LIST);
    passed_on();
    kube_destroy(other);
}

static void upgrades_are_refused_with_the_way_to_go(void **state)
{
    (void)state;
    begin("POST", "/api/v1/namespaces/n/pods/p/exec?command=sh",
          (const char *const[]){"connection: Upgrade", "upgrade: SPDY/3.1", NULL});
    refused(400, "connect to the API server");
    begin("GET", WIDGETS "?watch=1", (const char *const[]){"upgrade: websocket", NULL});
    refused(400, "connect to the API server");
    assert_int_equal(counted().refused_upgrades, 2);
}

static void impersonation_is_refused_where_the_answer_is_made_here(void **state)
{
    (void)state;
    begin("GET", LIST, (const char *const[]){"impersonate-user: root", NULL});
    refused(403, "impersonation");
    begin("GET", WIDGETS, (const char *const[]){"impersonate-user: root", NULL});
    passed_on();
    assert_int_equal(counted().refused_impersonations, 1);
}

static void a_certificate_alone_is_refused_and_a_token_beside_it_speaks(void **state)
{
    (void)state;
    fake.conn.user = "admin";
    const char *const paths[] = {LIST, WIDGETS, "/apis"};
    for (size_t i = 0; i < 3; i++) {
        begin("GET", paths[i], (const char *const[]){NULL});
        refused(401, "a client certificate cannot be passed on");
    }
    assert_int_equal(counted().refused_certificates, 3);
    get(WIDGETS);
    passed_on();
}

static void a_request_that_was_here_before_is_refused(void **state)
{
    (void)state;
    begin("GET", WIDGETS, (const char *const[]){"belfry-via: leaf, tier-1, b", NULL});
    refused(500, "leaf > tier-1 > b > tier-1");
    begin("GET", WIDGETS, (const char *const[]){"belfry-via: ,", NULL});
    refused(400, "belfry-via");
    begin("GET", WIDGETS, (const char *const[]){"belfry-via: leaf", NULL});
    passed_on();
    assert_int_equal(counted().refused_circles, 1);
}

static void a_name_of_a_user_is_refused_from_a_peer_that_may_not_give_one(void **state)
{
    (void)state;
    begin("GET", WIDGETS, (const char *const[]){"belfry-user: \"root\"", NULL});
    refused(401, "belfry-user");
}

static void a_listener_serves_what_its_policy_says(void **state)
{
    (void)state;
    struct listen_policy policy = {.dialects = DIALECT_KUBE, .read_only = true};
    fake.conn.policy = &policy;
    begin("DELETE", WIDGETS "/a", (const char *const[]){NULL});
    refused(403, "read-only");
    get(WIDGETS);
    passed_on();
    policy.dialects = DIALECT_GRPC;
    get(WIDGETS);
    refused(404, "does not serve Kubernetes");
}

static void pages_of_other_sites_are_refused_and_counted(void **state)
{
    struct kfront_stats stats;
    (void)state;
    begin("GET", "/api/v1/pods", (const char *const[]){"origin: http://evil.example", NULL});
    assert_int_equal(fake.status, 403);
    begin("POST", "/api/v1/namespaces/x/pods", (const char *const[]){"sec-fetch-site: cross-site", NULL});
    assert_int_equal(fake.status, 403);
    kfront_stats(kfront, &stats);
    assert_int_equal(stats.refused_pages, 2);
    assert_int_equal(stats.refused, 0);
}

static void grpc_is_refused(void **state)
{
    (void)state;
    begin("POST", "/etcdserverpb.KV/Range",
          (const char *const[]){"content-type: application/grpc", "te: trailers", NULL});
    assert_int_equal(fake.state, FAKEEXCHANGE_ENDED);
    assert_string_equal(fakeexchange_field(&fake, "grpc-status"), "12");
}

static void a_drain_shows_in_readyz_and_ends_what_is_passed_on(void **state)
{
    (void)state;
    get("/readyz");
    passed_on();
    kfront_announce_drain(kfront);
    get("/readyz?verbose");
    refused(503, "draining");
    get(WIDGETS);
    passed_on();
    kfront_end_all(kfront, "belfry: draining; connect anew");
    refused(503, "connect anew");
}

static enum belfry_err scenario(void)
{
    enum belfry_err err = open_front();
    if (err == BELFRY_OK) {
        get(LIST);
        bool answered = fake.state == FAKEEXCHANGE_ENDED && says("not all definitions");
        get(WIDGETS);
        err = answered && fake.state == FAKEEXCHANGE_OPEN ? BELFRY_OK : BELFRY_ERR_NOMEM;
    }
    close_front();
    return err;
}

static void without_memory_nothing_leaks(void **state)
{
    (void)state;
    assert_true(refuse_sweep(scenario) > 10);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_request_goes_to_the_service_of_its_resource_or_upstream),
        TEST(selectors_that_are_answered_upstream_are_counted_by_their_field),
        TEST(a_selector_that_the_api_server_refuses_takes_no_row),
        TEST(a_resource_is_replaced_and_removed),
        TEST(upgrades_are_refused_with_the_way_to_go),
        TEST(impersonation_is_refused_where_the_answer_is_made_here),
        TEST(a_certificate_alone_is_refused_and_a_token_beside_it_speaks),
        TEST(a_request_that_was_here_before_is_refused),
        TEST(a_name_of_a_user_is_refused_from_a_peer_that_may_not_give_one),
        TEST(a_listener_serves_what_its_policy_says),
        TEST(pages_of_other_sites_are_refused_and_counted),
        TEST(grpc_is_refused),
        TEST(a_drain_shows_in_readyz_and_ends_what_is_passed_on),
        cmocka_unit_test(without_memory_nothing_leaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
