/* src/serve/kfront/kfront_judge_test.c: a table of requests, and what is to be done with each. */
#include "serve/kfront/kfront_judge.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "kube/token.h"
#include "support/refuse.h"

#define MANIFEST(plural, kind, scope)                                                                                  \
    "{\"apiVersion\":\"apiextensions.k8s.io/v1\",\"kind\":\"CustomResourceDefinition\",\"metadata\":{\"name\":"        \
    "\"" plural ".demo.io\"},\"spec\":{\"group\":\"demo.io\",\"scope\":\"" scope "\",\"names\":{\"plural\":"           \
    "\"" plural "\",\"kind\":\"" kind "\"},\"versions\":[{\"name\":\"v1\",\"served\":true,\"storage\":true,"           \
    "\"schema\":{\"openAPIV3Schema\":{\"type\":\"object\",\"properties\":{\"spec\":{\"type\":\"object\","              \
    "\"properties\":{\"node\":{\"type\":\"string\"}}}}}},\"selectableFields\":[{\"jsonPath\":\".spec.node\"}]}]}}"

#define WIDGETS  "/apis/demo.io/v1/namespaces/n/widgets"
#define CLUSTERS "/apis/demo.io/v1/clusters"

static struct kube_resource *resources[2];
static struct kfront_followed followed[2];
static char ours[512], theirs[512]; /* queries with a continue token */
static char ours_of_shard[600];

static struct kube_resource *read_resource(const char *manifest)
{
    struct kube_resource *resource = NULL;
    char *why = NULL;
    if (kube_resource_read(belfry_bytes_str(manifest), &(struct kube_resource_opts){0}, &resource, &why) != BELFRY_OK)
        fail_msg("%s", why);
    return resource;
}

static void write_query(uint64_t process, char *out, size_t len)
{
    struct belfry_buf token;
    belfry_buf_init(&token);
    struct kube_token_origin origin = {process, process};
    assert_int_equal(kube_token_write(7, origin, belfry_bytes_str("n/a"), &token), BELFRY_OK);
    snprintf(out, len, WIDGETS "?limit=2&continue=%.*s", (int)belfry_buf_len(&token), (const char *)token.data);
    belfry_buf_fini(&token);
}

static int setup(void **state)
{
    (void)state;
    resources[0] = read_resource(MANIFEST("widgets", "Widget", "Namespaced"));
    resources[1] = read_resource(MANIFEST("clusters", "Cluster", "Cluster"));
    for (size_t i = 0; i < 2; i++)
        followed[i].resource = resources[i];
    write_query(9, ours, sizeof(ours));
    write_query(0, theirs, sizeof(theirs));
    snprintf(ours_of_shard, sizeof(ours_of_shard), "%s&shardSelector=x", ours);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2; i++)
        kube_resource_unref(resources[i]);
    return refuse_held() == 0 ? 0 : -1;
}

struct row {
    const char *method, *path;
    const char *name, *value; /* a field; NULL: none */
    enum kfront_way way;
    enum kfront_kind kind; /* PASS */
    bool lasts;
};

static struct kfront_judgement judge(const struct row *row)
{
    struct belfry_http_field field = {0};
    if (row->name != NULL)
        field = (struct belfry_http_field){belfry_bytes_str(row->name), belfry_bytes_str(row->value)};
    struct exchange_head head = {.method = belfry_bytes_str(row->method),
                                 .path = belfry_bytes_str(row->path),
                                 .fields = &field,
                                 .n_fields = row->name != NULL};
    struct kfront_judgement out;
    kfront_judge(&head, followed, 2, &out);
    return out;
}

static void expect_rows(const struct row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct row *row = &rows[i];
        struct kfront_judgement is = judge(row);
        bool same = is.way == row->way && (row->way != KFRONT_PASS || (is.kind == row->kind && is.lasts == row->lasts));
        if (!same)
            fail_msg("row %zu, %s %s %s: way %d, %s, lasts %d", i, row->method, row->path,
                     row->value != NULL ? row->value : "", is.way,
                     is.kind < KFRONT_KINDS ? kfront_kind_name(is.kind) : "", is.lasts);
        if (row->way == KFRONT_ANSWER)
            assert_non_null(is.followed);
    }
}

#define EXPECT(...)                                                                                                    \
    do {                                                                                                               \
        const struct row rows_[] = {__VA_ARGS__};                                                                      \
        expect_rows(rows_, sizeof(rows_) / sizeof(rows_[0]));                                                          \
    } while (0)

#define GET(path_)            .method = "GET", .path = path_
#define WITH(name_, value_)   .name = name_, .value = value_
#define PASSED(kind_)         .way = KFRONT_PASS, .kind = kind_
#define PASSED_LASTING(kind_) PASSED(kind_), .lasts = true
#define ANSWERED              .way = KFRONT_ANSWER

static void reads_are_answered_unless_they_must_be_consistent(void **state)
{
    (void)state;
    EXPECT({GET(WIDGETS), PASSED(KFRONT_CONSISTENT)}, {GET(WIDGETS "?limit=500"), PASSED(KFRONT_CONSISTENT)},
           {GET(WIDGETS "?resourceVersion="), PASSED(KFRONT_CONSISTENT)}, {GET(WIDGETS "?resourceVersion=0"), ANSWERED},
           {GET("/apis/demo.io/v1/widgets?resourceVersion=0"), ANSWERED},
           {GET(WIDGETS "?resourceVersion=12"), ANSWERED}, {GET(WIDGETS "?resourceVersion=12&limit=5"), ANSWERED},
           {GET(WIDGETS "?resourceVersion=12&resourceVersionMatch=Exact"), ANSWERED},
           {GET(WIDGETS "?resourceVersion=12&resourceVersionMatch=NotOlderThan"), ANSWERED},
           {GET(WIDGETS "/a"), PASSED(KFRONT_CONSISTENT)}, {GET(WIDGETS "/a?resourceVersion=0"), ANSWERED},
           {GET(WIDGETS "/a?resourceVersion=12"), ANSWERED}, {GET(CLUSTERS "/a?resourceVersion=12"), ANSWERED},
           {GET(CLUSTERS "?resourceVersion=0"), ANSWERED}, {GET(ours), ANSWERED},
           {GET(theirs), PASSED(KFRONT_CONSISTENT)}, {GET(WIDGETS "?continue=x"), PASSED(KFRONT_CONSISTENT)});
}

static void watches_of_followed_resources_are_answered(void **state)
{
    (void)state;
    EXPECT({GET(WIDGETS "?watch=1"), ANSWERED}, {GET(WIDGETS "?watch=true&resourceVersion=0"), ANSWERED},
           {GET(WIDGETS "?watch=true&resourceVersion=9&allowWatchBookmarks=true"), ANSWERED},
           {GET(WIDGETS "?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"), ANSWERED},
           {GET("/apis/demo.io/v1/watch/namespaces/n/widgets"), ANSWERED},
           {GET("/apis/demo.io/v1/watch/namespaces/n/widgets/a"), PASSED_LASTING(KFRONT_WATCH)},
           {GET(WIDGETS "?watch=1&sendInitialEvents=true"), PASSED_LASTING(KFRONT_WATCH)},
           {GET("/api/v1/pods?watch=1"), PASSED_LASTING(KFRONT_WATCH)},
           {GET("/api/v1/watch/pods"), PASSED_LASTING(KFRONT_WATCH)});
}

static void what_is_not_understood_here_is_passed_on(void **state)
{
    (void)state;
    EXPECT({GET(WIDGETS "?resourceVersion=x"), PASSED(KFRONT_FORM)},
           {GET(WIDGETS "?resourceVersion=0&limit=many"), PASSED(KFRONT_OTHER)},
           {GET(WIDGETS "?resourceVersionMatch=Exact"), PASSED(KFRONT_FORM)},
           {GET(WIDGETS "?resourceVersion=0&fieldSelector=spec.node%3Da"), ANSWERED},
           {GET(WIDGETS "?resourceVersion=0&labelSelector=a%3Db"), ANSWERED},
           {GET(WIDGETS "?resourceVersion=0&fieldSelector=spec.other%3Da"), PASSED(KFRONT_FORM)},
           {GET(WIDGETS "?resourceVersion=0&labelSelector=%21%21"), PASSED(KFRONT_FORM)},
           {GET(WIDGETS "?watch=1&fieldSelector=spec.other%3Da"), PASSED_LASTING(KFRONT_WATCH)},
           {GET("/apis/demo.io/v1/namespaces/n/wid%67ets?resourceVersion=0"), PASSED(KFRONT_OTHER)},
           {GET(WIDGETS "/?resourceVersion=0"), PASSED(KFRONT_OTHER)},
           {GET("/" WIDGETS "?resourceVersion=0"), PASSED(KFRONT_OTHER)},
           {GET(WIDGETS "/..?resourceVersion=0"), PASSED(KFRONT_OTHER)},
           {GET(WIDGETS "/.?resourceVersion=0"), PASSED(KFRONT_OTHER)},
           {GET("/apis/demo.io/v1/widgets/a?resourceVersion=0"), PASSED(KFRONT_OTHER)},
           {GET("/apis/demo.io/v1/namespaces/n/clusters?resourceVersion=0"), PASSED(KFRONT_OTHER)},
           {GET("/apis/demo.io/v2/widgets?resourceVersion=0"), PASSED(KFRONT_OTHER)},
           {GET("/apis/other.io/v1/widgets?resourceVersion=0"), PASSED(KFRONT_OTHER)},
           {GET(WIDGETS "/a/status?resourceVersion=0"), PASSED(KFRONT_OTHER)},
           {.method = "HEAD", .path = WIDGETS "?resourceVersion=0", PASSED(KFRONT_OTHER)});
}

static void forms_that_are_not_made_here_are_passed_on(void **state)
{
    (void)state;
#define LIST     GET(WIDGETS "?resourceVersion=0")
#define ONE      GET(WIDGETS "/a?resourceVersion=0")
#define PROTOBUF "application/vnd.kubernetes.protobuf"
    EXPECT(
        {LIST, WITH("accept", "application/json"), ANSWERED}, {LIST, WITH("accept", "*/*"), ANSWERED},
        {LIST, WITH("accept", PROTOBUF ", */*"), ANSWERED},
        {LIST, WITH("accept", PROTOBUF ",application/json"), ANSWERED},
        {LIST, WITH("accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"), ANSWERED},
        {LIST, WITH("accept", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"), PASSED(KFRONT_FORM)},
        {ONE, WITH("accept", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"), ANSWERED},
        {ONE, WITH("accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"), PASSED(KFRONT_FORM)},
        {GET(WIDGETS "?watch=1"), WITH("accept", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"),
         ANSWERED},
        {LIST, WITH("accept", PROTOBUF), PASSED(KFRONT_FORM)},
        {LIST, WITH("accept", "application/yaml"), PASSED(KFRONT_FORM)},
        {LIST, WITH("accept", "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"), PASSED(KFRONT_FORM)},
        {GET(WIDGETS "?watch=1"), WITH("accept", PROTOBUF ";stream=watch"), PASSED_LASTING(KFRONT_WATCH)});
}

/* API servers indent them. */
static void answers_for_people_are_passed_on(void **state)
{
    (void)state;
    EXPECT({GET(WIDGETS "?resourceVersion=0&pretty=true"), PASSED(KFRONT_FORM)},
           {GET(WIDGETS "/a?resourceVersion=0&pretty=1"), PASSED(KFRONT_FORM)},
           {GET(WIDGETS "?resourceVersion=0&pretty=false"), ANSWERED},
           {GET(WIDGETS "?resourceVersion=0&pretty="), ANSWERED},
           {LIST, WITH("user-agent", "curl/8.0"), PASSED(KFRONT_FORM)},
           {LIST, WITH("user-agent", "Mozilla/5.0 (X11)"), PASSED(KFRONT_FORM)},
           {LIST, WITH("user-agent", "kubectl/1.36"), ANSWERED},
           {GET(WIDGETS "?resourceVersion=0&pretty=false"), WITH("user-agent", "curl/8.0"), ANSWERED},
           {GET(WIDGETS "?watch=1&pretty=true"), WITH("user-agent", "curl/8.0"), ANSWERED});
}

static void a_field_that_is_not_known_here_is_named(void **state)
{
    (void)state;
    static const struct {
        struct row row;
        const char *field;
    } rows[] = {{{GET(WIDGETS "?watch=1&fieldSelector=spec.other%21%3Da")}, "spec.other"},
                {{GET(WIDGETS "?resourceVersion=0&fieldSelector=spec.node%3Da%2Cspec.b%3Dc")}, "spec.b"},
                {{GET(CLUSTERS "?watch=1&fieldSelector=x%00y%3Da")}, "x"},
                {{GET(WIDGETS "?watch=1&fieldSelector=spec.node%3Da")}, ""},
                {{GET(WIDGETS "?watch=1&fieldSelector=spec.node")}, ""},
                {{GET(WIDGETS "?resourceVersion=0&labelSelector=%21%21")}, ""},
                {{GET("/api/v1/pods?watch=1&fieldSelector=spec.other%3Da")}, ""}}; /* not followed */
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct kfront_judgement is = judge(&rows[i].row);
        assert_string_equal(is.field, rows[i].field);
        if (rows[i].field[0] != '\0')
            assert_non_null(is.followed);
    }
    struct kfront_judgement is = judge(&(struct row){GET(
        WIDGETS "?watch=1&fieldSelector=a12345678901234567890123456789012345678901234567890123456789012345678901234567"
                "8901234567890123456789%3Db")});
    assert_int_equal(strlen(is.field), KFRONT_FIELD_BYTES - 1);
}

static struct kfront_judgement judge_services(unsigned minor, const char *path)
{
    struct kube_api_resource of = {
        .group = "", .version = "v1", .plural = "services", .singular = "", .kind = "Service", .namespaced = true};
    struct kube_resource *services;
    struct exchange_head head = {.method = belfry_bytes_str("GET"), .path = belfry_bytes_str(path)};
    struct kfront_judgement out;
    of.minor = minor;
    assert_int_equal(kube_resource_of_api(&of, &services), BELFRY_OK);
    kfront_judge(&head, &(struct kfront_followed){.resource = services}, 1, &out);
    kube_resource_unref(services);
    return out;
}

/* As kube-proxy asks on every node. */
static void services_with_an_address_are_selected_here_if_the_server_can(void **state)
{
    (void)state;
    static const char *const paths[] = {
        "/api/v1/services?fieldSelector=spec.clusterIP%21%3DNone&resourceVersion=0&limit=500",
        "/api/v1/"
        "services?allowWatchBookmarks=true&fieldSelector=spec.clusterIP%21%3DNone&resourceVersion=7&watch=true"};
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(judge_services(31, paths[i]).way, KFRONT_ANSWER);
        struct kfront_judgement older = judge_services(30, paths[i]);
        assert_int_equal(older.way, KFRONT_PASS);
        assert_string_equal(older.field, "spec.clusterIP");
    }
}

/* Its list and its watch must be of one mind, so both are the API server's. */
static void a_request_for_a_shard_is_passed_on(void **state)
{
    (void)state;
#define SHARD "&shardSelector=shardRange%28object.metadata.uid%2C%270x0%27%2C%270x8%27%29"
    EXPECT({GET(WIDGETS "?resourceVersion=0" SHARD), PASSED(KFRONT_FORM)},
           {GET(WIDGETS "?resourceVersion=12&resourceVersionMatch=Exact" SHARD), PASSED(KFRONT_FORM)},
           {GET(WIDGETS "?watch=1" SHARD), PASSED_LASTING(KFRONT_WATCH)},
           {GET(CLUSTERS "?watch=1&resourceVersion=7" SHARD), PASSED_LASTING(KFRONT_WATCH)},
           {GET("/apis/demo.io/v1/watch/widgets?resourceVersion=7" SHARD), PASSED_LASTING(KFRONT_WATCH)},
           {GET(ours_of_shard), PASSED(KFRONT_FORM)}, {GET(WIDGETS "?watch=1&shardSelector="), ANSWERED},
           {GET(WIDGETS "/a?resourceVersion=0" SHARD), ANSWERED}); /* an option of lists */
}

static void writes_and_documents_are_passed_on(void **state)
{
    (void)state;
    EXPECT({.method = "POST", .path = WIDGETS, PASSED(KFRONT_WRITE)},
           {.method = "PATCH", .path = WIDGETS "/a", PASSED(KFRONT_WRITE)},
           {.method = "DELETE", .path = WIDGETS "/a?watch=1", PASSED(KFRONT_WRITE)},
           {.method = "POST", .path = WIDGETS "/a/proxy/x", PASSED_LASTING(KFRONT_WRITE)},
           {GET("/api"), PASSED(KFRONT_DOCUMENT)}, {GET("/api/v1"), PASSED(KFRONT_DOCUMENT)},
           {GET("/apis"), PASSED(KFRONT_DOCUMENT)}, {GET("/apis/demo.io"), PASSED(KFRONT_DOCUMENT)},
           {GET("/apis/demo.io/v1?timeout=32s"), PASSED(KFRONT_DOCUMENT)},
           {GET("/openapi/v3/apis/demo.io/v1?hash=A"), PASSED(KFRONT_DOCUMENT)},
           {GET("/openapi/v2"), PASSED(KFRONT_DOCUMENT)}, {GET("/version"), PASSED(KFRONT_OTHER)},
           {GET("/"), PASSED(KFRONT_OTHER)}, {GET("/metrics"), PASSED(KFRONT_OTHER)},
           {GET("/api/v1/nodes"), PASSED(KFRONT_OTHER)}, {GET("*"), PASSED(KFRONT_OTHER)},
           {GET("/api/v1/namespaces/n/pods/p/log?follow=true"), PASSED_LASTING(KFRONT_OTHER)},
           {GET("/api/v1/namespaces/n/pods/p/proxy/a/b"), PASSED_LASTING(KFRONT_OTHER)});
}

static void impersonation_is_refused_only_where_the_answer_would_be_made_here(void **state)
{
    (void)state;
    EXPECT({LIST, WITH("impersonate-user", "a"), .way = KFRONT_IMPERSONATES},
           {LIST, WITH("impersonate-extra-scopes", "a"), .way = KFRONT_IMPERSONATES},
           {GET(WIDGETS "?watch=1"), WITH("impersonate-group", "a"), .way = KFRONT_IMPERSONATES},
           {GET(WIDGETS), WITH("impersonate-user", "a"), PASSED(KFRONT_CONSISTENT)},
           {.method = "POST", .path = WIDGETS, WITH("impersonate-user", "a"), PASSED(KFRONT_WRITE)});
}

static void a_connection_does_not_become_another_protocol(void **state)
{
    (void)state;
#define EXEC "/api/v1/namespaces/n/pods/p/exec?command=sh"
    EXPECT({.method = "POST", .path = EXEC, WITH("upgrade", "SPDY/3.1"), .way = KFRONT_UPGRADES},
           {GET(EXEC), WITH("upgrade", "websocket"), .way = KFRONT_UPGRADES},
           {GET(WIDGETS "?watch=1"), WITH("upgrade", "websocket"), .way = KFRONT_UPGRADES},
           {.method = "CONNECT", .path = "", .way = KFRONT_UPGRADES}, {LIST, WITH("upgrade", "h2c"), ANSWERED});
}

static enum belfry_err scenario(void)
{
    struct kfront_judgement is = judge(&(struct row){GET(WIDGETS "?resourceVersion=0&labelSelector=a%3Db")});
    return is.way == KFRONT_NO_MEMORY ? BELFRY_ERR_NOMEM : BELFRY_OK;
}

static void without_memory_nothing_leaks(void **state)
{
    (void)state;
    assert_true(refuse_sweep(scenario) >= 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_are_answered_unless_they_must_be_consistent),
        cmocka_unit_test(watches_of_followed_resources_are_answered),
        cmocka_unit_test(what_is_not_understood_here_is_passed_on),
        cmocka_unit_test(forms_that_are_not_made_here_are_passed_on),
        cmocka_unit_test(answers_for_people_are_passed_on),
        cmocka_unit_test(a_field_that_is_not_known_here_is_named),
        cmocka_unit_test(services_with_an_address_are_selected_here_if_the_server_can),
        cmocka_unit_test(a_request_for_a_shard_is_passed_on),
        cmocka_unit_test(writes_and_documents_are_passed_on),
        cmocka_unit_test(impersonation_is_refused_only_where_the_answer_would_be_made_here),
        cmocka_unit_test(a_connection_does_not_become_another_protocol),
        cmocka_unit_test(without_memory_nothing_leaks),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
