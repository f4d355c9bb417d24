/* src/serve/route_test.c: which part is asked; the parts themselves are the test's. */
#include "serve/route.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "server/grpc_answer.h"
#include "support/fakeexchange.h"
#include "support/refuse.h"

struct watch_service {
    unsigned begun;
    uint64_t now_ms;
};

struct relay {
    unsigned begun;
    enum relay_rights rights;
};

void watch_begin(struct watch_service *service, struct exchange *x, const struct exchange_head *head, uint64_t now_ms)
{
    uint64_t timeout_ms;
    service->begun++;
    service->now_ms = now_ms;
    if (!grpc_refuse_head(x, head, &timeout_ms))
        exchange_reset(x, 0);
}

void relay_begin(struct relay *relay, struct exchange *x, const struct exchange_head *head, enum relay_rights rights)
{
    (void)head;
    relay->begun++;
    relay->rights = rights;
    exchange_reset(x, 0);
}

struct kube_service {
    unsigned begun;
    uint64_t now_ms;
};

bool kube_is(struct belfry_bytes path)
{
    return belfry_bytes_begins(path, belfry_bytes_str("/apis")) ||
           belfry_bytes_equal(path, belfry_bytes_str("/healthz")) ||
           belfry_bytes_equal(path, belfry_bytes_str("/readyz"));
}

void kube_begin(struct kube_service *service, struct exchange *x, const struct exchange_head *head, uint64_t now_ms)
{
    (void)head;
    service->begun++;
    service->now_ms = now_ms;
    exchange_reset(x, 0);
}

static void about(struct about *out, void *user)
{
    (void)user;
    *out = (struct about){.self = {.name = "edge-7", .version = "belfryd/1"}};
}

static uint64_t now(void *user)
{
    (void)user;
    return 4711;
}

struct bed {
    struct watch_service watch;
    struct relay relay;
    struct kube_service kube;
    struct route *route;
    struct fakeexchange fake;
};

static enum belfry_err open_with(struct bed *bed, bool kube)
{
    *bed = (struct bed){0};
    fakeexchange_init(&bed->fake, EXCHANGE_ROOM);
    struct route_opts opts = {.watch = &bed->watch, .relay = &bed->relay, .name = "edge-7", .now = now, .about = about};
    opts.kube = kube ? &bed->kube : NULL;
    return route_create(&opts, &bed->route);
}

static enum belfry_err bed_open(struct bed *bed)
{
    return open_with(bed, false);
}

static void bed_close(struct bed *bed)
{
    route_destroy(bed->route);
    fakeexchange_fini(&bed->fake);
}

static void ask(struct bed *bed, const char *method, const char *path, const char *type,
                const struct listen_policy *policy)
{
    const char *const fields[] = {type, NULL};
    struct fakeexchange_head head;
    fakeexchange_fini(&bed->fake);
    fakeexchange_init(&bed->fake, EXCHANGE_ROOM);
    bed->fake.conn.policy = policy;
    fakeexchange_head(&head, method, path, type == NULL ? NULL : fields);
    route_begin(&bed->fake.x, &head.head, bed->route);
}

#define GRPC "content-type: application/grpc"

static void assert_body(const struct bed *bed, int status, const char *body)
{
    struct belfry_bytes got = belfry_buf_bytes(&bed->fake.body);
    assert_int_equal(bed->fake.status, status);
    assert_int_equal(got.len, strlen(body));
    assert_memory_equal(got.data, body, got.len);
}

static void grpc_over_http1_is_refused_as_grpcs_own_servers_do(void **state)
{
    (void)state;
    struct bed bed;
    struct fakeexchange_head head;
    struct route_stats stats;
    assert_int_equal(bed_open(&bed), BELFRY_OK);
    bed.fake.conn.http1 = true;
    fakeexchange_head(&head, "POST", "/etcdserverpb.KV/Put", (const char *const[]){GRPC, NULL});
    route_begin(&bed.fake.x, &head.head, bed.route);
    assert_body(&bed, 505, "gRPC requires HTTP/2\n");
    assert_int_equal(bed.relay.begun, 0);
    route_stats(bed.route, &stats);
    assert_int_equal(stats.refused_http1, 1);
    bed_close(&bed);
}

static void plain_http_is_asked_by_our_own_names(void **state)
{
    (void)state;
    struct hosts none;
    struct bed bed;
    struct fakeexchange_head head;
    struct route_stats stats;
    assert_int_equal(bed_open(&bed), BELFRY_OK);
    route_destroy(bed.route);
    hosts_init(&none, NULL);
    struct route_opts opts = {
        .watch = &bed.watch, .relay = &bed.relay, .name = "edge-7", .hosts = &none, .now = now, .about = about};
    assert_int_equal(route_create(&opts, &bed.route), BELFRY_OK);
    fakeexchange_head(&head, "GET", "/health", NULL);
    head.head.authority = belfry_bytes_str("evil.example:23790");
    route_begin(&bed.fake.x, &head.head, bed.route);
    assert_int_equal(bed.fake.status, 421);
    fakeexchange_fini(&bed.fake);
    fakeexchange_init(&bed.fake, EXCHANGE_ROOM);
    fakeexchange_head(&head, "POST", "/etcdserverpb.KV/Put", (const char *const[]){GRPC, NULL});
    head.head.authority = belfry_bytes_str("evil.example:23790"); /* a browser cannot say this */
    route_begin(&bed.fake.x, &head.head, bed.route);
    assert_int_equal(bed.relay.begun, 1);
    ask(&bed, "GET", "/health", NULL, NULL);
    assert_int_equal(bed.fake.status, 503);
    route_stats(bed.route, &stats);
    assert_int_equal(stats.refused_hosts, 1);
    bed_close(&bed);
    hosts_fini(&none);
}

static void pages_of_other_sites_have_no_effect(void **state)
{
    (void)state;
    static const char *const rows[][2] = {{"POST", "/v3/kv/put"},        {"POST", "/etcdserverpb.KV/Put"},
                                          {"GET", "/v1/events?prefix="}, {"POST", "/v1/ticket"},
                                          {"OPTIONS", "/v1/events"},     {"GET", "/belfry.js"},
                                          {"GET", "/api/v1/pods"},       {"GET", "/health"},
                                          {"GET", "/version"},           {"GET", "/nowhere"}};
    static const char *const fields[][3] = {{"origin: http://evil.example", NULL},
                                            {"origin: null", NULL},
                                            {"sec-fetch-site: cross-site", NULL},
                                            {"content-type: application/grpc", "sec-fetch-site: same-site", NULL}};
    struct route_stats stats;
    struct bed bed;
    size_t n = 0;
    assert_int_equal(bed_open(&bed), BELFRY_OK);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        for (size_t k = 0; k < sizeof(fields) / sizeof(fields[0]); k++, n++) {
            struct fakeexchange_head head;
            fakeexchange_fini(&bed.fake);
            fakeexchange_init(&bed.fake, EXCHANGE_ROOM);
            bed.fake.conn.http1 = (i + k) % 2 == 0;
            fakeexchange_head(&head, rows[i][0], rows[i][1], fields[k]);
            route_begin(&bed.fake.x, &head.head, bed.route);
            assert_body(&bed, 403, "belfry: a web page of another site asks; allow its origin with --cors-origins\n");
        }
    }
    assert_int_equal(bed.relay.begun, 0);
    route_stats(bed.route, &stats);
    assert_int_equal(stats.refused_pages, n);
    bed_close(&bed);
}

static void grpc_goes_by_its_path(void **state)
{
    (void)state;
    struct bed bed;
    assert_int_equal(bed_open(&bed), BELFRY_OK);
    ask(&bed, "POST", "/etcdserverpb.Watch/Watch", GRPC, NULL);
    assert_int_equal(bed.watch.begun, 1);
    assert_int_equal(bed.watch.now_ms, 4711);
    ask(&bed, "POST", "/etcdserverpb.KV/Range", GRPC, NULL);
    assert_int_equal(bed.relay.begun, 1);
    assert_int_equal(bed.relay.rights, RELAY_ALL);
    ask(&bed, "POST", "/health", GRPC, NULL);
    assert_int_equal(bed.relay.begun, 2); /* a method of that name is upstream's to refuse */
    ask(&bed, "POST", "/grpc.health.v1.Health/Check", GRPC, NULL);
    fakeexchange_send_message(&bed.fake, NULL, 0);
    assert_string_equal(fakeexchange_field(&bed.fake, "grpc-status"), "0");
    assert_int_equal(bed.watch.begun, 1);
    assert_int_equal(bed.relay.begun, 2);
    bed_close(&bed);
}

static void user_that_a_connection_may_not_name_is_refused_by_every_part(void **state)
{
    (void)state;
    static const char *const names[] = {"leaf"};
    static const struct listen_policy policy = {.dialects = DIALECT_GRPC | DIALECT_KUBE, .users_from = {names, 1}};
    static const char *const paths[] = {"/etcdserverpb.Watch/Watch", "/etcdserverpb.KV/Range", "/belfry.Tier/About",
                                        "/apis/demo/v1/things"};
    struct bed bed;
    assert_int_equal(open_with(&bed, true), BELFRY_OK);
    for (size_t i = 0; i < 8; i++) {
        bool is_http = i % 4 == 3, may = i >= 4;
        const char *const fields[] = {"belfry-user: \"alice\"", is_http ? NULL : GRPC, NULL};
        struct fakeexchange_head head;
        fakeexchange_fini(&bed.fake);
        fakeexchange_init(&bed.fake, EXCHANGE_ROOM);
        bed.fake.conn.policy = &policy;
        bed.fake.conn.user = may ? "leaf" : "alice";
        fakeexchange_head(&head, is_http ? "GET" : "POST", paths[i % 4], fields);
        route_begin(&bed.fake.x, &head.head, bed.route);
        if (!may && is_http)
            assert_int_equal(bed.fake.status, 401);
        else if (!may)
            assert_string_equal(fakeexchange_field(&bed.fake, "grpc-status"), "16");
        assert_int_equal(bed.watch.begun + bed.relay.begun + bed.kube.begun, may ? i - 3 - (i > 5) : 0);
    }
    struct route_stats stats;
    route_stats(bed.route, &stats);
    assert_int_equal(stats.refused_users, 4);
    bed_close(&bed);
}

static void ask_via(struct bed *bed, const char *path, const char *via)
{
    const char *const fields[] = {GRPC, via, NULL};
    struct fakeexchange_head head;
    fakeexchange_fini(&bed->fake);
    fakeexchange_init(&bed->fake, EXCHANGE_ROOM);
    fakeexchange_head(&head, "POST", path, fields);
    route_begin(&bed->fake.x, &head.head, bed->route);
}

static void request_that_has_been_here_is_refused_with_the_chain(void **state)
{
    static const char *const paths[] = {"/etcdserverpb.Watch/Watch", "/etcdserverpb.KV/Range", "/belfry.Tier/About"};
    (void)state;
    struct bed bed;
    assert_int_equal(bed_open(&bed), BELFRY_OK);
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        ask_via(&bed, paths[i], "belfry-via: edge-7, core-1");
        assert_string_equal(fakeexchange_field(&bed.fake, "grpc-status"), "9");
        assert_string_equal(fakeexchange_field(&bed.fake, "grpc-message"),
                            "belfry: tiers in a circle: edge-7 > core-1 > edge-7; give each tier its own --name and "
                            "point --upstream at etcd or a tier above");
        ask_via(&bed, paths[i], "belfry-via: 1, 2, 3, 4, 5, 6, 7, 8");
        assert_string_equal(fakeexchange_field(&bed.fake, "grpc-status"), "9");
        assert_string_equal(fakeexchange_field(&bed.fake, "grpc-message"),
                            "belfry: more than 8 tiers: 1 > 2 > 3 > 4 > 5 > 6 > 7 > 8 > edge-7; point --upstream at a "
                            "tier nearer to etcd");
        ask_via(&bed, paths[i], "belfry-via: ,");
        assert_string_equal(fakeexchange_field(&bed.fake, "grpc-status"), "3");
    }
    assert_int_equal(bed.watch.begun + bed.relay.begun, 0);
    ask_via(&bed, paths[0], "belfry-via: 1, 2, 3, 4, 5, 6, 7");
    ask_via(&bed, paths[1], "belfry-via: 1, 2, 3, 4, 5, 6, 7");
    assert_int_equal(bed.watch.begun + bed.relay.begun, 2);
    bed_close(&bed);
}

static void known_method_that_is_not_quite_grpc_is_refused_as_grpc(void **state)
{
    (void)state;
    struct bed bed;
    assert_int_equal(bed_open(&bed), BELFRY_OK);
    ask(&bed, "GET", "/etcdserverpb.Watch/Watch", GRPC, NULL);
    assert_int_equal(bed.fake.status, 405);
    ask(&bed, "POST", "/etcdserverpb.Watch/Watch", "content-type: application/json", NULL);
    assert_int_equal(bed.fake.status, 415);
    ask(&bed, "POST", "/grpc.health.v1.Health/Check", NULL, NULL);
    assert_int_equal(bed.fake.status, 415);
    bed_close(&bed);
}

static void listener_decides_what_is_served(void **state)
{
    (void)state;
    static const struct listen_policy no_grpc = {.dialects = DIALECT_JSON};
    static const struct listen_policy read_only = {.dialects = DIALECT_GRPC, .read_only = true};
    struct bed bed;
    assert_int_equal(bed_open(&bed), BELFRY_OK);
    ask(&bed, "POST", "/etcdserverpb.KV/Put", GRPC, &read_only);
    assert_int_equal(bed.relay.rights, RELAY_READS);
    ask(&bed, "POST", "/etcdserverpb.KV/Put", GRPC, &no_grpc);
    assert_int_equal(bed.relay.begun, 1);
    assert_string_equal(fakeexchange_field(&bed.fake, "grpc-status"), "12");
    assert_string_equal(fakeexchange_field(&bed.fake, "grpc-message"), "belfry: this listener does not serve gRPC");
    ask(&bed, "POST", "/etcdserverpb.Watch/Watch", GRPC, &no_grpc);
    assert_string_equal(fakeexchange_field(&bed.fake, "grpc-status"), "12");
    assert_int_equal(bed.watch.begun, 0);
    ask(&bed, "GET", "/health", NULL, &no_grpc);
    assert_int_equal(bed.fake.status, 503);
    bed_close(&bed);
}

static void health_and_version_follow_the_standing(void **state)
{
    (void)state;
    struct bed bed;
    assert_int_equal(bed_open(&bed), BELFRY_OK);
    route_stand(bed.route, true, "", "3.5.16", "3.5.0");
    ask(&bed, "GET", "/health?serializable=true", NULL, NULL);
    assert_body(&bed, 200, "{\"health\":\"true\",\"reason\":\"\"}");
    ask(&bed, "GET", "/version", NULL, NULL);
    assert_body(&bed, 200, "{\"etcdserver\":\"3.5.16\",\"etcdcluster\":\"3.5.0\"}");
    route_stand(bed.route, false, "no news from upstream for 6 s", "3.5.16", "3.5.0");
    ask(&bed, "GET", "/health", NULL, NULL);
    assert_body(&bed, 503, "{\"health\":\"false\",\"reason\":\"no news from upstream for 6 s\"}");
    bed_close(&bed);
}

static void draining_tier_stays_unhealthy(void **state)
{
    (void)state;
    struct bed bed;
    assert_int_equal(bed_open(&bed), BELFRY_OK);
    route_stand(bed.route, true, "", "", "");
    ask(&bed, "POST", "/grpc.health.v1.Health/Watch", GRPC, NULL);
    fakeexchange_send_message(&bed.fake, NULL, 0);
    route_drain(bed.route);
    route_stand(bed.route, true, "", "", "");
    fakeexchange_next(&bed.fake);
    struct belfry_bytes message;
    assert_true(fakeexchange_message(&bed.fake, &message));
    assert_int_equal(message.data[1], 2);
    fakeexchange_next(&bed.fake);
    assert_false(fakeexchange_message(&bed.fake, &message));
    fakeexchange_gone(&bed.fake);
    ask(&bed, "GET", "/health", NULL, NULL);
    assert_body(&bed, 503, "{\"health\":\"false\",\"reason\":\"draining\"}");
    bed_close(&bed);
}

static void anything_else_is_not_found(void **state)
{
    (void)state;
    static const char *const paths[] = {"/", "", "*", "/healthz", "/metrics", "/v3/watch", "/v3.0/kv/range"};
    struct bed bed;
    assert_int_equal(bed_open(&bed), BELFRY_OK);
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        ask(&bed, "GET", paths[i], NULL, NULL);
        assert_body(&bed, 404, "404 page not found\n");
    }
    assert_int_equal(bed.relay.begun, 0);
    bed_close(&bed);
}

static void objects_are_kubes_where_it_is_served(void **state)
{
    (void)state;
    static const struct listen_policy no_kube = {.dialects = DIALECT_GRPC | DIALECT_JSON};
    struct bed bed;
    assert_int_equal(open_with(&bed, true), BELFRY_OK);
    ask(&bed, "GET", "/apis/demo.example.com/v1/widgets?watch=1", NULL, NULL);
    assert_int_equal(bed.kube.begun, 1);
    assert_int_equal(bed.kube.now_ms, 4711);
    ask(&bed, "GET", "/apis/demo.example.com", NULL, NULL); /* no method, for all its dots */
    ask(&bed, "GET", "/healthz?verbose", NULL, NULL);
    assert_int_equal(bed.kube.begun, 3);
    ask(&bed, "GET", "/apis", NULL, &no_kube);
    assert_body(&bed, 404, "404 page not found\n");
    ask(&bed, "GET", "/elsewhere", NULL, NULL);
    assert_body(&bed, 404, "404 page not found\n");
    assert_int_equal(bed.kube.begun, 3);
    bed_close(&bed);
}

static void version_is_etcds_and_kubernetes_where_both_are_served(void **state)
{
    (void)state;
    static const struct listen_policy no_kube = {.dialects = DIALECT_GRPC};
    static const char start[] = "{\"etcdserver\":\"3.5.16\",\"etcdcluster\":\"3.5.0\",\"major\":\"1\",\"minor\":\"33\","
                                "\"gitVersion\":\"v1.33.0+belfry-" BELFRY_VERSION "\",";
    struct bed bed;
    assert_int_equal(open_with(&bed, true), BELFRY_OK);
    route_stand(bed.route, true, "", "3.5.16", "3.5.0");
    ask(&bed, "GET", "/version?timeout=32s", NULL, NULL);
    struct belfry_bytes body = belfry_buf_bytes(&bed.fake.body);
    assert_true(belfry_bytes_begins(body, belfry_bytes_str(start)));
    assert_int_equal(body.data[body.len - 1], '}');
    ask(&bed, "GET", "/version", NULL, &no_kube);
    assert_body(&bed, 200, "{\"etcdserver\":\"3.5.16\",\"etcdcluster\":\"3.5.0\"}");
    bed_close(&bed);
}

static void listener_that_needs_auth_is_healthy_only_while_it_is_on(void **state)
{
    (void)state;
    struct bed bed;
    const struct listen_policy guarded = {.dialects = DIALECT_GRPC | DIALECT_KUBE, .rights = LISTEN_RIGHTS_UPSTREAM};
    const struct listen_policy open = {.dialects = DIALECT_GRPC | DIALECT_KUBE, .rights = LISTEN_RIGHTS_OPEN};
    static const struct {
        enum permit_auth auth;
        int status;
        const char *reason;
    } rows[] = {{PERMIT_AUTH_UNKNOWN, 503, "not known yet"},
                {PERMIT_AUTH_OFF, 503, "auth is off upstream"},
                {PERMIT_AUTH_ON, 200, ""},
                {PERMIT_AUTH_OFF, 503, "auth is off upstream"}};
    assert_int_equal(open_with(&bed, true), BELFRY_OK);
    route_stand(bed.route, true, "", "3.5.16", "3.5.0");
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        route_set_auth(bed.route, rows[i].auth);
        ask(&bed, "GET", "/health", NULL, &guarded);
        assert_int_equal(bed.fake.status, rows[i].status);
        struct belfry_bytes text = belfry_buf_bytes(&bed.fake.body);
        assert_non_null(memmem(text.data, text.len, rows[i].reason, strlen(rows[i].reason)));
        ask(&bed, "GET", "/readyz", NULL, &guarded);
        assert_int_equal(bed.fake.status, rows[i].status == 503 ? 503 : 0); /* otherwise it is kube's to answer */
        ask(&bed, "GET", "/health", NULL, &open);
        assert_int_equal(bed.fake.status, 200);
    }
    route_set_auth(bed.route, PERMIT_AUTH_ON);
    route_stand(bed.route, false, "no leader", "3.5.16", "3.5.0");
    ask(&bed, "GET", "/health", NULL, &guarded);
    assert_body(&bed, 503, "{\"health\":\"false\",\"reason\":\"no leader\"}");
    bed_close(&bed);
}

static void open_listener_passes_writes_on_only_if_it_says_so(void **state)
{
    (void)state;
    struct bed bed;
    struct listen_policy policy = {.dialects = DIALECT_GRPC, .rights = LISTEN_RIGHTS_OPEN};
    assert_int_equal(bed_open(&bed), BELFRY_OK);
    ask(&bed, "POST", "/etcdserverpb.KV/Put", GRPC, &policy);
    assert_int_equal(bed.relay.rights, RELAY_READS);
    policy.open_writes = true;
    ask(&bed, "POST", "/etcdserverpb.KV/Put", GRPC, &policy);
    assert_int_equal(bed.relay.rights, RELAY_ALL);
    bed_close(&bed);
}

static enum belfry_err scenario(void)
{
    struct bed bed;
    enum belfry_err err = bed_open(&bed);
    bed_close(&bed);
    return err;
}

static void every_refused_allocation_is_survived(void **state)
{
    (void)state;
    assert_int_equal(refuse_sweep(scenario), 3);
}

static void tier_says_that_it_is_one(void **state)
{
    (void)state;
    struct bed bed;
    assert_int_equal(bed_open(&bed), BELFRY_OK);
    ask(&bed, "POST", "/belfry.Tier/About", GRPC, NULL);
    struct about told;
    struct belfry_bytes body = belfry_buf_bytes(&bed.fake.body);
    assert_int_equal(bed.fake.status, 200);
    assert_true(body.len > 5);
    assert_int_equal(about_read(belfry_bytes_of(body.data + 5, body.len - 5), &told), BELFRY_OK);
    assert_string_equal(told.self.name, "edge-7");
    assert_string_equal(told.self.version, "belfryd/1");
    assert_int_equal(bed.relay.begun, 0);
    bed_close(&bed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pages_of_other_sites_have_no_effect),
        cmocka_unit_test(grpc_goes_by_its_path),
        cmocka_unit_test(grpc_over_http1_is_refused_as_grpcs_own_servers_do),
        cmocka_unit_test(plain_http_is_asked_by_our_own_names),
        cmocka_unit_test(user_that_a_connection_may_not_name_is_refused_by_every_part),
        cmocka_unit_test(request_that_has_been_here_is_refused_with_the_chain),
        cmocka_unit_test(tier_says_that_it_is_one),
        cmocka_unit_test(known_method_that_is_not_quite_grpc_is_refused_as_grpc),
        cmocka_unit_test(listener_decides_what_is_served),
        cmocka_unit_test(health_and_version_follow_the_standing),
        cmocka_unit_test(draining_tier_stays_unhealthy),
        cmocka_unit_test(anything_else_is_not_found),
        cmocka_unit_test(objects_are_kubes_where_it_is_served),
        cmocka_unit_test(version_is_etcds_and_kubernetes_where_both_are_served),
        cmocka_unit_test(listener_that_needs_auth_is_healthy_only_while_it_is_on),
        cmocka_unit_test(open_listener_passes_writes_on_only_if_it_says_so),
        cmocka_unit_test(every_refused_allocation_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
