/* src/serve/kube/kube_ask_test.c: requests for widgets (support/widgets.h) and gadgets, which have no namespace. */
#include "serve/kube/kube_ask.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "serve/rights/review_subject.h"
#include "support/refuse.h"
#include "support/widgets.h"

#define API     "/apis/demo.example.com/v1/"
#define GADGETS "/registry/demo.example.com/gadgets/"

static struct {
    struct kube_resource *resources[4];
    struct kube_catalog *catalog;
    struct kube_state state;
    struct kube_status status; /* of the last request */
} bed;

static enum belfry_err read_gadgets(struct kube_resource **out)
{
    static const char manifest[] = "apiVersion: apiextensions.k8s.io/v1\n"
                                   "kind: CustomResourceDefinition\n"
                                   "metadata: {name: gadgets.demo.example.com}\n"
                                   "spec:\n"
                                   "  group: demo.example.com\n"
                                   "  scope: Cluster\n"
                                   "  names: {plural: gadgets, singular: gadget, kind: Gadget, listKind: GadgetList}\n"
                                   "  versions:\n"
                                   "  - {name: v1, served: true, storage: true, subresources: {status: {}},\n"
                                   "     schema: {openAPIV3Schema: {type: object}}}\n";
    char *why = NULL;
    enum belfry_err err = kube_resource_read(belfry_bytes_str(manifest), &(struct kube_resource_opts){0}, out, &why);
    free(why);
    return err;
}

static int setup(void **state)
{
    char *why = NULL;
    (void)state;
    bed.resources[0] = widgets_make();
    assert_int_equal(read_gadgets(&bed.resources[1]), BELFRY_OK);
    struct kube_api_resource pods = {
        .group = "", .version = "v1", .plural = "pods", .singular = "pod", .kind = "Pod", .namespaced = true};
    struct kube_api_resource namespaces = {
        .group = "", .version = "v1", .plural = "namespaces", .singular = "namespace", .kind = "Namespace"};
    assert_int_equal(kube_resource_of_api(&pods, &bed.resources[2]), BELFRY_OK);
    assert_int_equal(kube_resource_of_api(&namespaces, &bed.resources[3]), BELFRY_OK);
    assert_int_equal(kube_catalog_make(bed.resources, 4, &bed.catalog, &why), BELFRY_OK);
    bed.state = (struct kube_state){.catalog = bed.catalog, .extent = KUBE_CATALOG_WHOLE};
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    kube_catalog_unref(bed.catalog);
    for (size_t i = 0; i < 4; i++)
        kube_resource_unref(bed.resources[i]);
    return refuse_held() == 0 ? 0 : -1;
}

static enum belfry_err read_with(const char *method, const char *path, const struct belfry_http_field *fields, size_t n,
                                 const char *scope, struct kube_ask **out)
{
    const struct exchange_head head = {
        .method = belfry_bytes_str(method), .path = belfry_bytes_str(path), .fields = fields, .n_fields = n};
    static struct exchange_conn conn;
    const struct exchange x = {.conn = &conn};
    memset(&bed.status, 0, sizeof(bed.status));
    return kube_ask_read(&bed.state, belfry_bytes_str(scope), &x, &head, out, &bed.status);
}

static struct kube_ask *get(const char *path)
{
    struct kube_ask *ask = NULL;
    enum belfry_err err = read_with("GET", path, NULL, 0, "", &ask);
    if (err != BELFRY_OK)
        fail_msg("%s: %s", path, bed.status.message);
    return ask;
}

/* What keys the request covers, as "KEY" or "KEY END". */
static void assert_range(const struct kube_ask *ask, const char *key, const char *end)
{
    struct belfry_bytes have_key = belfry_buf_bytes(&ask->key), have_end = belfry_buf_bytes(&ask->end);
    assert_true(belfry_bytes_equal(have_key, belfry_bytes_str(key)));
    assert_true(belfry_bytes_equal(have_end, belfry_bytes_str(end)));
}

static void assert_refused(const char *method, const char *path, enum kube_reason reason)
{
    struct kube_ask *ask = NULL;
    assert_int_equal(read_with(method, path, NULL, 0, "", &ask), BELFRY_ERR_INVALID);
    assert_null(ask);
    assert_int_equal(bed.status.reason, reason);
    assert_true(bed.status.message[0] != '\0');
}

/* ---- resources of an API server ---- */

static void assert_keys(const char *path, const char *key, size_t key_len, const char *end, size_t end_len)
{
    struct kube_ask *ask = get(path);
    assert_true(belfry_bytes_equal(belfry_buf_bytes(&ask->key), belfry_bytes_of(key, key_len)));
    assert_true(belfry_bytes_equal(belfry_buf_bytes(&ask->end), belfry_bytes_of(end, end_len)));
    kube_ask_free(ask);
}

static void keys_of_an_api_server_begin_with_nothing(void **state)
{
    (void)state;
    assert_keys("/api/v1/pods", "", 0, "", 1); /* to "\\0": all */
    assert_keys("/api/v1/pods?watch=1", "", 0, "", 1);
    assert_keys("/api/v1/namespaces/prod/pods", "prod/", 5, "prod0", 5);
    assert_keys("/api/v1/namespaces/prod/pods/p1", "prod/p1", 7, "", 0);
    assert_keys("/api/v1/pods?fieldSelector=metadata.namespace%3Dprod", "prod/", 5, "prod0", 5);
}

/* Otherwise the API server would read another place from the token. */
static void a_page_has_the_range_of_its_path(void **state)
{
    (void)state;
    assert_keys("/api/v1/pods?limit=5&fieldSelector=metadata.namespace%3Dprod", "", 0, "", 1);
    assert_keys("/api/v1/namespaces/prod/pods?continue=x&fieldSelector=metadata.name%3Da", "prod/", 5, "prod0", 5);
}

/* VERB/GROUP/VERSION/RESOURCE/NAMESPACE/NAME/LABELS/FIELDS */
static void assert_subject(const char *path, const char *expected)
{
    char text[512];
    struct review_subject subject;
    struct kube_ask *ask = get(path);
    assert_int_equal(kube_ask_right_end(ask).len, 0);
    assert_int_equal(review_subject_read(kube_ask_right_key(ask), &subject), BELFRY_OK);
    const struct belfry_bytes parts[] = {subject.verb,           subject.group,         subject.version,
                                         subject.resource,       subject.namespace,     subject.name,
                                         subject.label_selector, subject.field_selector};
    size_t used = 0;
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%.*s", i == 0 ? "" : "/", (int)parts[i].len,
                                 parts[i].data);
    assert_string_equal(text, expected);
    kube_ask_free(ask);
}

static void a_review_is_about_the_request(void **state)
{
    (void)state;
    bed.state.rights = KUBE_RIGHTS_REVIEW;
    assert_subject("/api/v1/pods?resourceVersion=0", "list//v1/pods////");
    assert_subject("/api/v1/pods?watch=1", "watch//v1/pods////");
    assert_subject("/api/v1/namespaces/prod/pods/p1?fieldSelector=a%3Db", "get//v1/pods/prod/p1//");
    assert_subject("/api/v1/pods?watch=1&fieldSelector=spec.nodeName%3Dn1&labelSelector=a%3Db",
                   "watch//v1/pods///a=b/spec.nodeName=n1");
    assert_subject("/api/v1/pods?labelSelector=a%3D%3Db,%20c%20%20in(e,d)", "list//v1/pods///a=b,c in (d,e)/");
    assert_subject("/api/v1/pods?watch=1&labelSelector=!a", "watch//v1/pods///!a/");
    assert_subject("/api/v1/namespaces/prod/pods?fieldSelector=metadata.name%3Dp1",
                   "list//v1/pods/prod/p1//metadata.name=p1");
    assert_subject("/api/v1/pods?fieldSelector=metadata.namespace%3Dprod", "list//v1/pods////metadata.namespace=prod");
    /* by the old path, selectors give no right */
    assert_subject("/api/v1/watch/namespaces/prod/pods?fieldSelector=metadata.name%3Dp1", "watch//v1/pods/prod///");
    assert_subject("/api/v1/watch/pods?labelSelector=a%3Db", "watch//v1/pods////");
    assert_subject("/api/v1/watch/namespaces/prod/pods/p1", "watch//v1/pods/prod/p1//");
    assert_subject("/api/v1/namespaces/prod", "get//v1/namespaces/prod/prod//"); /* a role in it may allow that */
    assert_subject("/api/v1/namespaces?fieldSelector=metadata.name%3Dprod",
                   "list//v1/namespaces//prod//metadata.name=prod");
}

static void in_front_of_etcd_rights_are_about_the_range(void **state)
{
    (void)state;
    struct kube_ask *ask = get(API "namespaces/a/widgets");
    assert_true(belfry_bytes_equal(kube_ask_right_key(ask), belfry_buf_bytes(&ask->key)));
    assert_true(belfry_bytes_equal(kube_ask_right_end(ask), belfry_buf_bytes(&ask->end)));
    kube_ask_free(ask);
}

/* ---- which keys ---- */

static void the_path_says_which_keys(void **state)
{
    static const struct {
        const char *path;
        enum kube_verb verb;
        const char *key, *end;
    } rows[] = {
        {API "widgets", KUBE_VERB_LIST, WIDGETS, "/registry/demo.example.com/widgets0"},
        {API "namespaces/a/widgets", KUBE_VERB_LIST, WIDGETS "a/", WIDGETS "a0"},
        {API "namespaces/a/widgets/b", KUBE_VERB_GET, WIDGETS "a/b", ""},
        {API "namespaces/a/widgets?watch=1", KUBE_VERB_WATCH, WIDGETS "a/", WIDGETS "a0"},
        {API "gadgets", KUBE_VERB_LIST, GADGETS, "/registry/demo.example.com/gadgets0"},
        {API "gadgets/b", KUBE_VERB_GET, GADGETS "b", ""},
        {API "gadgets/b/status", KUBE_VERB_GET, GADGETS "b", ""}, /* is the object itself */
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct kube_ask *ask = get(rows[i].path);
        assert_int_equal(ask->verb, rows[i].verb);
        assert_range(ask, rows[i].key, rows[i].end);
        assert_false(ask->filter);
        assert_null(ask->selector);
        kube_ask_free(ask);
    }
}

static void a_selector_of_name_and_namespace_narrows_the_range(void **state)
{
    static const struct {
        const char *path, *key, *end;
    } rows[] = {
        {API "widgets?fieldSelector=metadata.namespace%3Da", WIDGETS "a/", WIDGETS "a0"},
        {API "widgets?fieldSelector=metadata.namespace%3Da,metadata.name%3Db", WIDGETS "a/b", ""},
        {API "namespaces/a/widgets?fieldSelector=metadata.name%3Db", WIDGETS "a/b", ""},
        {API "namespaces/a/widgets?watch=1&fieldSelector=metadata.name%3Db", WIDGETS "a/b", ""},
        {API "gadgets?fieldSelector=metadata.name%3Db", GADGETS "b", ""},
        /* a name in any namespace is no key */
        {API "widgets?fieldSelector=metadata.name%3Db", WIDGETS, "/registry/demo.example.com/widgets0"},
        /* a label pins nothing */
        {API "namespaces/a/widgets?labelSelector=app%3Db", WIDGETS "a/", WIDGETS "a0"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct kube_ask *ask = get(rows[i].path);
        assert_range(ask, rows[i].key, rows[i].end);
        assert_non_null(ask->selector); /* it still judges */
        kube_ask_free(ask);
    }
}

static void a_selector_never_leads_out_of_the_path(void **state)
{
    (void)state;
    /* another namespace than the path's: the range is the path's, and the selector finds nothing in it */
    struct kube_ask *ask = get(API "namespaces/a/widgets?fieldSelector=metadata.namespace%3Db");
    assert_range(ask, WIDGETS "a/", WIDGETS "a0");
    kube_ask_free(ask);
    /* two namespaces at once cannot be */
    ask = get(API "widgets?fieldSelector=metadata.namespace%3Da,metadata.namespace%3Db");
    assert_range(ask, WIDGETS, "/registry/demo.example.com/widgets0");
    kube_ask_free(ask);
    /* of one object no selector is read */
    ask = get(API "namespaces/a/widgets/b?fieldSelector=metadata.name%3Dc");
    assert_range(ask, WIDGETS "a/b", "");
    kube_ask_free(ask);
}

static void a_range_outside_of_the_scope_is_forbidden(void **state)
{
    struct kube_ask *ask;
    (void)state;
    assert_int_equal(read_with("GET", API "namespaces/a/widgets", NULL, 0, WIDGETS "a/", &ask), BELFRY_OK);
    kube_ask_free(ask);
    ask = NULL;
    assert_int_equal(read_with("GET", API "widgets", NULL, 0, WIDGETS "a/", &ask), BELFRY_ERR_INVALID);
    assert_int_equal(bed.status.reason, KUBE_FORBIDDEN);
    assert_int_equal(read_with("GET", API "namespaces/b/widgets/c", NULL, 0, WIDGETS "a/", &ask), BELFRY_ERR_INVALID);
    assert_int_equal(bed.status.reason, KUBE_FORBIDDEN);
    assert_null(ask);
}

/* ---- what is refused ---- */

static void what_is_not_served_is_not_found(void **state)
{
    static const char *const paths[] = {
        API "things",
        "/apis/demo.example.com/v2/widgets",
        "/apis/other.example.com/v1/widgets",
        API "widgets/b",                     /* has namespaces */
        API "namespaces/a/gadgets",          /* has none */
        API "namespaces/a/widgets/b/status", /* its definition has no such subresource */
        API "namespaces/a/widgets/b/scale",
        API "gadgets/b/scale",
    };
    (void)state;
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
        assert_refused("GET", paths[i], KUBE_NOT_FOUND);
    bed.state.catalog = NULL;
    assert_refused("GET", API "widgets", KUBE_NOT_FOUND);
}

static void what_may_still_be_defined_is_asked_for_again_later(void **state)
{
    (void)state;
    bed.state.extent = KUBE_CATALOG_PART;
    assert_refused("GET", API "things", KUBE_TOO_MANY_REQUESTS);
    assert_true(bed.status.retry_after_s > 0);
    assert_refused("GET", API "widgets/b", KUBE_NOT_FOUND); /* of a known one it is certain */
    bed.state.catalog = NULL;
    assert_refused("GET", API "widgets", KUBE_TOO_MANY_REQUESTS);
}

static void writes_and_wrong_options_are_refused(void **state)
{
    (void)state;
    assert_refused("POST", API "namespaces/a/widgets", KUBE_METHOD_NOT_ALLOWED);
    assert_refused("DELETE", API "namespaces/a/widgets/b", KUBE_METHOD_NOT_ALLOWED);
    assert_refused("GET", API "widgets?limit=x", KUBE_BAD_REQUEST);
    assert_refused("GET", API "widgets?labelSelector=%3D%3D", KUBE_BAD_REQUEST);
    assert_refused("GET", API "widgets?fieldSelector=spec.nothing%3Da", KUBE_BAD_REQUEST);
    assert_refused("GET", API "widgets?shardSelector=x", KUBE_BAD_REQUEST);
    assert_refused("GET", API "widgets?watch=1&shardSelector=x", KUBE_BAD_REQUEST);
}

static void only_forms_that_we_write_are_accepted(void **state)
{
    static const struct {
        const char *accept;
        enum kube_view view;
    } rows[] = {
        {"application/json", KUBE_VIEW_OBJECT},
        {"application/json;as=Table;v=v1;g=meta.k8s.io", KUBE_VIEW_TABLE},
        {"application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io", KUBE_VIEW_METADATA},
    };
    (void)state;
    struct kube_ask *ask = NULL;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct belfry_http_field fields[] = {{belfry_bytes_str("accept"), belfry_bytes_str(rows[i].accept)},
                                                   {belfry_bytes_str("accept-encoding"), belfry_bytes_str("gzip")}};
        assert_int_equal(read_with("GET", API "widgets", fields, 1 + i % 2, "", &ask), BELFRY_OK);
        assert_int_equal(ask->view, rows[i].view);
        assert_int_equal(ask->gzip, i % 2);
        kube_ask_free(ask);
    }
    const struct belfry_http_field protobuf = {belfry_bytes_str("accept"),
                                               belfry_bytes_str("application/vnd.kubernetes.protobuf")};
    assert_int_equal(read_with("GET", API "widgets", &protobuf, 1, "", &ask), BELFRY_ERR_INVALID);
    assert_int_equal(bed.status.reason, KUBE_NOT_ACCEPTABLE);
}

/* ---- who asks ---- */

static void the_ask_keeps_what_it_needs_of_the_head(void **state)
{
    (void)state;
    struct kube_ask *ask;
    char path[] = API "namespaces/ns/widgets/name", token[] = "bEaReR s3cret", agent[101];
    memset(agent, 'u', 100);
    agent[100] = '\0';
    const struct belfry_http_field fields[] = {{belfry_bytes_str("authorization"), belfry_bytes_str(token)},
                                               {belfry_bytes_str("user-agent"), belfry_bytes_str(agent)}};
    assert_int_equal(read_with("HEAD", path, fields, 2, "", &ask), BELFRY_OK);
    memset(path, '?', sizeof(path) - 1); /* the head was lent */
    memset(token, '?', sizeof(token) - 1);
    memset(agent, '?', sizeof(agent) - 1);
    assert_true(ask->head_only);
    assert_true(belfry_bytes_equal(ask->namespace, belfry_bytes_str("ns")));
    assert_true(belfry_bytes_equal(ask->name, belfry_bytes_str("name")));
    assert_true(belfry_bytes_equal(ask->who.text, belfry_bytes_str("s3cret")));
    assert_int_equal(strlen(ask->client), 63);
    assert_int_equal(strspn(ask->client, "u"), 63);
    assert_true(ask->bytes > sizeof(*ask) + sizeof(path) + 63);
    kube_ask_free(ask);
}

static void without_a_bearer_token_the_client_is_anonymous(void **state)
{
    static const char *const values[] = {"Basic s3cret", "Bearer", "Bearer ", "s3cret", ""};
    (void)state;
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        struct kube_ask *ask;
        const struct belfry_http_field field = {belfry_bytes_str("authorization"), belfry_bytes_str(values[i])};
        assert_int_equal(read_with("GET", API "widgets", &field, 1, "", &ask), BELFRY_OK);
        assert_int_equal(ask->who.kind, IDENTITY_NONE);
        assert_string_equal(ask->client, "");
        kube_ask_free(ask);
    }
}

/* ---- memory ---- */

static enum belfry_err read_and_free(void)
{
    struct kube_ask *ask;
    enum belfry_err err = read_with("GET", API "namespaces/a/widgets?watch=1&labelSelector=app%3Db", NULL, 0, "", &ask);
    if (err == BELFRY_OK)
        kube_ask_free(ask);
    else
        assert_int_equal(bed.status.reason, KUBE_TOO_MANY_REQUESTS);
    return err;
}

static void refused_memory_leaks_nothing_and_asks_to_come_again(void **state)
{
    (void)state;
    assert_true(refuse_sweep(read_and_free) > 3);
    bed.state.rights = KUBE_RIGHTS_REVIEW;
    assert_true(refuse_sweep(read_and_free) > 4);
}

#define test(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        test(keys_of_an_api_server_begin_with_nothing),
        test(a_page_has_the_range_of_its_path),
        test(a_review_is_about_the_request),
        test(in_front_of_etcd_rights_are_about_the_range),
        test(the_path_says_which_keys),
        test(a_selector_of_name_and_namespace_narrows_the_range),
        test(a_selector_never_leads_out_of_the_path),
        test(a_range_outside_of_the_scope_is_forbidden),
        test(what_is_not_served_is_not_found),
        test(what_may_still_be_defined_is_asked_for_again_later),
        test(writes_and_wrong_options_are_refused),
        test(only_forms_that_we_write_are_accepted),
        test(the_ask_keeps_what_it_needs_of_the_head),
        test(without_a_bearer_token_the_client_is_anonymous),
        test(refused_memory_leaks_nothing_and_asks_to_come_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
