/* src/serve/kube/kube_page_test.c: pages of widgets in a support/modelstore. */
#include "serve/kube/kube_page.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include <cmocka.h>

#include "base/list.h"
#include "base/rng.h"
#include "kube/token.h"
#include "net/gzip.h"
#include "support/modelstore.h"
#include "support/refuse.h"
#include "support/widgets.h"

#define BIG (64 * 1024)

static struct store *store;
static struct kube_resource *widgets;

static int setup(void **state)
{
    (void)state;
    store = modelstore_create(
        &(struct modelstore_opts){.history_rows = 1000, .history_age_s = 100, .extent_bytes = 1 << 20});
    widgets = widgets_make();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    modelstore_destroy(store);
    kube_resource_unref(widgets);
    return refuse_held() == 0 ? 0 : -1;
}

/* ---- pages ---- */

static struct kube_page page_of(const char *namespace, const char *name)
{
    struct kube_page page = {
        .resource = kube_resource_ref(widgets), .version = &widgets->versions[0], .limit = SIZE_MAX};
    assert_int_equal(kube_page_aim(&page, belfry_bytes_str(namespace), belfry_bytes_str(name)), BELFRY_OK);
    return page;
}

static void select_by(struct kube_page *page, const char *labels)
{
    struct kube_status status;
    assert_int_equal(kube_selector_read(belfry_bytes_str(labels), belfry_bytes_str(""), widgets, page->version,
                                        &page->selector, &status),
                     BELFRY_OK);
}

/* Reads to the end; the body, and how many pages it took. */
static char *read_all(struct kube_page *page, size_t *n_pages)
{
    struct belfry_buf body = {0};
    *n_pages = 0;
    do {
        kube_page_read(page, store);
        assert_int_equal(page->err, BELFRY_OK);
        assert_int_equal(belfry_buf_append(&body, belfry_buf_bytes(&page->text).data, belfry_buf_len(&page->text)),
                         BELFRY_OK);
        belfry_buf_clear(&page->text);
        ++*n_pages;
        assert_true(*n_pages < 100);
    } while (page->more);
    assert_int_equal(belfry_buf_append(&body, "", 1), BELFRY_OK);
    return (char *)body.data;
}

static void expect_body(struct kube_page *page, const char *body)
{
    size_t n;
    char *got = read_all(page, &n);
    assert_string_equal(got, body);
    free(got);
}

/* The names of a body's items: "a b c". */
static const char *names_in(const char *body)
{
    static char names[1000];
    names[0] = '\0';
    for (const char *at = body; (at = strstr(at, "\"name\":\"")) != NULL;) {
        at += 8;
        size_t len = strlen(names);
        snprintf(names + len, sizeof(names) - len, "%s%.*s", len == 0 ? "" : " ", (int)strcspn(at, "\""), at);
    }
    return names;
}

static void expect_names(struct kube_page *page, size_t n_pages, const char *names)
{
    size_t n;
    char *body = read_all(page, &n);
    assert_string_equal(names_in(body), names);
    assert_int_equal(n, n_pages);
    free(body);
}

#define ITEM(ns, name, rev, app)                                                                                       \
    "{\"apiVersion\":\"demo.example.com/v1\",\"kind\":\"Widget\",\"metadata\":{\"resourceVersion\":\"" rev             \
    "\",\"name\":\"" name "\",\"namespace\":\"" ns "\",\"labels\":{\"app\":\"" app "\"}},\"spec\":{\"pad\":\"\"}}"
#define LIST(items, meta)                                                                                              \
    "{\"kind\":\"WidgetList\",\"apiVersion\":\"demo.example.com/v1\",\"items\":[" items "],\"metadata\":{" meta "}}"

/* ---- tests ---- */

static void a_list_has_its_items_in_the_order_of_keys_and_one_revision(void **state)
{
    (void)state;
    widgets_put(store, 5, "ns/b", "x", 0);
    widgets_put(store, 6, "ns/a", "y", 0);
    storecheck_write(store, 7, "/registry/demo.example.com/widgetsx/ns/z", "{}");
    struct kube_page page = page_of("", "");
    expect_body(&page, LIST(ITEM("ns", "a", "6", "y") "," ITEM("ns", "b", "5", "x"), "\"resourceVersion\":\"7\""));
    assert_int_equal(page.rev, 7);
    assert_int_equal(page.n, 2);
    assert_false(page.packed);
    kube_page_fini(&page);
}

static void a_list_of_nothing_is_empty_and_has_a_revision(void **state)
{
    (void)state;
    storecheck_write(store, 7, "elsewhere", "{}");
    struct kube_page page = page_of("ns", "");
    expect_body(&page, LIST("", "\"resourceVersion\":\"7\""));
    kube_page_fini(&page);
}

static void a_namespace_ends_where_another_begins(void **state)
{
    (void)state;
    widgets_put(store, 5, "ns/a", "x", 0);
    widgets_put(store, 6, "ns-b/b", "x", 0);
    widgets_put(store, 7, "ns0/c", "x", 0);
    struct kube_page page = page_of("ns", "");
    expect_names(&page, 1, "a");
    kube_page_fini(&page);
}

static void one_object_is_found_under_its_key_alone(void **state)
{
    (void)state;
    widgets_put(store, 5, "ns/a", "x", 0);
    widgets_put(store, 6, "ns/ab", "x", 0);
    struct kube_page page = page_of("ns", "a");
    page.as = KUBE_PAGE_OBJECT;
    expect_body(&page, ITEM("ns", "a", "5", "x"));
    assert_int_equal(page.rev, 6);
    kube_page_fini(&page);
    page = page_of("ns", "none");
    page.as = KUBE_PAGE_OBJECT;
    expect_body(&page, "");
    assert_int_equal(page.n, 0);
    kube_page_fini(&page);
}

static void as_events_each_is_a_line_of_its_own(void **state)
{
    (void)state;
    widgets_put(store, 5, "ns/a", "x", 0);
    widgets_put(store, 6, "ns/b", "x", 0);
    struct kube_page page = page_of("ns", "");
    page.as = KUBE_PAGE_EVENTS;
    expect_body(&page, "{\"type\":\"ADDED\",\"object\":" ITEM(
                           "ns", "a", "5", "x") "}\n"
                                                "{\"type\":\"ADDED\",\"object\":" ITEM("ns", "b", "6", "x") "}\n");
    kube_page_fini(&page);
}

static void only_the_first_row_of_a_table_defines_its_columns(void **state)
{
    (void)state;
    for (int i = 0; i < 6; i++)
        widgets_put(store, 5 + i, (const char *[]){"ns/a", "ns/b", "ns/c", "ns/d", "ns/e", "ns/f"}[i], "x", BIG);
    struct kube_page page = page_of("ns", "");
    page.as = KUBE_PAGE_EVENTS;
    page.view = KUBE_VIEW_TABLE;
    size_t n;
    char *body = read_all(&page, &n);
    assert_int_equal(n, 2);
    const char *first = strstr(body, "\"columnDefinitions\":[");
    assert_non_null(first);
    assert_null(strstr(first + 1, "\"columnDefinitions\":["));
    free(body);
    kube_page_fini(&page);
}

/* What happens behind the first page is not in the list, and what it deletes still is. */
static void every_page_is_as_of_the_first_ones_revision(void **state)
{
    (void)state;
    char name[16];
    for (int i = 0; i < 8; i++) {
        snprintf(name, sizeof(name), "ns/w%d", i);
        widgets_put(store, 10 + i, name, "old", BIG);
    }
    struct kube_page page = page_of("", "");
    kube_page_read(&page, store);
    assert_int_equal(page.err, BELFRY_OK);
    assert_true(page.more);
    assert_int_equal(page.rev, 17);
    assert_int_equal(page.n, 3);
    assert_true(belfry_buf_len(&page.text) > 2 * BIG && belfry_buf_len(&page.text) < KUBE_PAGE_BYTES + 4096);
    belfry_buf_clear(&page.text);
    widgets_put(store, 18, "ns/w5", "new", 0);
    widgets_delete(store, 19, "ns/w6");
    widgets_put(store, 20, "ns/w55", "new", 0);
    size_t n;
    char *body = read_all(&page, &n);
    assert_string_equal(names_in(body), "w3 w4 w5 w6 w7");
    assert_null(strstr(body, "\"new\""));
    assert_non_null(strstr(body, "\"metadata\":{\"resourceVersion\":\"17\"}}"));
    assert_int_equal(page.rev, 17);
    assert_int_equal(page.at, 17);
    free(body);
    kube_page_fini(&page);
}

static void a_limit_ends_the_list_with_a_token_behind_its_last_key(void **state)
{
    (void)state;
    widgets_put(store, 5, "ns/a", "x", 0);
    widgets_put(store, 6, "ns/b", "x", 0);
    widgets_put(store, 7, "ns/c", "x", 0);
    widgets_put(store, 8, "ns/d", "x", 0);
    struct belfry_buf token = {0};
    assert_int_equal(kube_token_write(8, (struct kube_token_origin){0}, belfry_bytes_of("ns/a\0", 5), &token),
                     BELFRY_OK);
    char end[300];
    snprintf(end, sizeof(end),
             "\"metadata\":{\"resourceVersion\":\"8\",\"continue\":\"%.*s\",\"remainingItemCount\":3}}",
             (int)belfry_buf_len(&token), belfry_buf_bytes(&token).data);
    struct kube_page page = page_of("ns", "");
    page.limit = 1;
    kube_page_read(&page, store);
    assert_int_equal(page.err, BELFRY_OK);
    assert_false(page.more);
    assert_int_equal(belfry_buf_append(&page.text, "", 1), BELFRY_OK);
    const char *text = belfry_buf_bytes(&page.text).data;
    assert_string_equal(text + strlen(text) - strlen(end), end);
    kube_page_fini(&page);
    belfry_buf_fini(&token);

    page = page_of("ns", "");
    enum belfry_err err;
    assert_true(kube_page_skip_to(&page, belfry_bytes_of("ns/a\0", 5), &err));
    page.limit = 3; /* as many as there are: no token */
    expect_body(&page, LIST(ITEM("ns", "b", "6", "x") "," ITEM("ns", "c", "7", "x") "," ITEM("ns", "d", "8", "x"),
                            "\"resourceVersion\":\"8\""));
    kube_page_fini(&page);
}

static void with_a_selector_the_rest_is_not_counted(void **state)
{
    (void)state;
    widgets_put(store, 5, "ns/a", "x", 0);
    widgets_put(store, 6, "ns/b", "y", 0);
    widgets_put(store, 7, "ns/c", "x", 0);
    struct kube_page page = page_of("ns", "");
    select_by(&page, "app=x");
    page.limit = 1;
    size_t n;
    char *body = read_all(&page, &n);
    assert_string_equal(names_in(body), "a");
    assert_non_null(strstr(body, "\"continue\":"));
    assert_null(strstr(body, "remainingItemCount"));
    free(body);
    kube_page_fini(&page);
}

static void a_start_outside_of_the_range_is_refused(void **state)
{
    (void)state;
    enum belfry_err err;
    struct kube_page page = page_of("ns", "");
    assert_false(kube_page_skip_to(&page, belfry_bytes_str("other/x"), &err));
    assert_int_equal(err, BELFRY_OK);
    assert_false(kube_page_skip_to(&page, belfry_bytes_str("ns"), &err));
    assert_false(kube_page_skip_to(&page, belfry_bytes_str("ns0"), &err));
    assert_true(kube_page_skip_to(&page, belfry_bytes_str("ns/b"), &err));
    struct belfry_bytes start = kube_page_start(&page);
    assert_true(belfry_bytes_equal(start, belfry_bytes_str("ns/b")));
    kube_page_fini(&page);
}

static void a_selector_that_matches_nothing_still_ends_its_pages(void **state)
{
    (void)state;
    char name[16];
    enum { N = 8 * KUBE_PAGE_SELECTS }; /* twice the rows of a page */
    for (int i = 0; i < N; i++) {
        snprintf(name, sizeof(name), "ns/w%03d", i);
        widgets_put(store, 10 + i, name, i == N - 1 ? "y" : "x", BIG);
    }
    struct kube_page page = page_of("", "");
    page.as = KUBE_PAGE_EVENTS;
    select_by(&page, "app=y");
    kube_page_read(&page, store);
    assert_int_equal(page.err, BELFRY_OK);
    assert_true(page.more);
    assert_int_equal(belfry_buf_len(&page.text), 0);
    size_t n_pages;
    char *body = read_all(&page, &n_pages);
    assert_string_equal(names_in(body), "w127");
    free(body);
    kube_page_fini(&page);
}

static void a_page_of_selected_objects_is_bounded_by_its_text(void **state)
{
    (void)state;
    char name[16];
    for (int i = 0; i < 12; i++) {
        snprintf(name, sizeof(name), "ns/w%02d", i);
        widgets_put(store, 10 + i, name, "x", BIG);
    }
    struct kube_page page = page_of("", "");
    select_by(&page, "app=x");
    kube_page_read(&page, store);
    assert_int_equal(page.err, BELFRY_OK);
    assert_true(page.more && page.n > 0);
    assert_true(belfry_buf_len(&page.text) < KUBE_PAGE_BYTES + 2 * BIG);
    belfry_buf_clear(&page.text);
    size_t n_pages;
    free(read_all(&page, &n_pages));
    assert_int_equal(page.n, 12);
    kube_page_fini(&page);
}

static void pages_are_bounded_in_rows(void **state)
{
    (void)state;
    char key[100];
    for (int i = 0; i < KUBE_PAGE_ROWS + 1; i++) { /* small enough that there is room for more bytes */
        snprintf(key, sizeof(key), WIDGETS "ns/w%05d", i);
        storecheck_write(store, 10 + i, key, "?");
    }
    struct kube_page page = page_of("", "");
    size_t n_pages = 0, n_rows = 0;
    do { /* two pages, or more where they end for want of time */
        kube_page_read(&page, store);
        assert_int_equal(page.err, BELFRY_OK);
        assert_true(page.undecodable <= KUBE_PAGE_ROWS);
        n_rows += page.undecodable;
        n_pages++;
        belfry_buf_clear(&page.text);
    } while (page.more);
    assert_int_equal(n_rows, KUBE_PAGE_ROWS + 1);
    assert_true(n_pages >= 2);
    kube_page_fini(&page);
}

static void what_is_no_object_is_counted_and_left_out(void **state)
{
    (void)state;
    widgets_put(store, 5, "ns/a", "x", 0);
    storecheck_write(store, 6, WIDGETS "ns/b", "k8s:enc:aescbc:v1:");
    storecheck_write(store, 7, WIDGETS "ns/c/deeper", "{}");
    storecheck_write(store, 8, WIDGETS "no-namespace", "{}");
    struct kube_page page = page_of("", "");
    kube_page_read(&page, store);
    assert_int_equal(page.err, BELFRY_OK);
    assert_int_equal(page.n, 1);
    assert_int_equal(page.undecodable, 1);
    assert_int_equal(page.skipped, 2);
    kube_page_fini(&page);
}

static void a_namespace_that_is_no_prefix_is_looked_for(void **state)
{
    (void)state;
    struct kube_resource *turned = NULL;
    assert_int_equal(
        widgets_read(&(struct kube_resource_opts){.wrap_key = "{name}/{namespace}", .wrap_field = "spec"}, &turned),
        BELFRY_OK);
    storecheck_write(store, 5, WIDGETS "a/ns", "{}");
    storecheck_write(store, 6, WIDGETS "b/other", "{}");
    storecheck_write(store, 7, WIDGETS "c/ns", "{}");
    storecheck_write(store, 8, WIDGETS "d/other", "{}");
    struct kube_page page = {.resource = turned, .version = &turned->versions[0], .limit = SIZE_MAX};
    assert_int_equal(kube_page_aim(&page, belfry_bytes_str("ns"), belfry_bytes_str("")), BELFRY_OK);
    assert_true(page.filter);
    expect_names(&page, 1, "a c");
    kube_page_fini(&page);
    assert_int_equal(
        widgets_read(&(struct kube_resource_opts){.wrap_key = "{name}/{namespace}", .wrap_field = "spec"}, &turned),
        BELFRY_OK);
    page = (struct kube_page){.resource = turned, .version = &turned->versions[0], .limit = 1};
    assert_int_equal(kube_page_aim(&page, belfry_bytes_str("ns"), belfry_bytes_str("")), BELFRY_OK);
    size_t n;
    char *body = read_all(&page, &n);
    assert_non_null(strstr(body, "\"continue\":"));
    assert_null(strstr(body, "remainingItemCount"));
    free(body);
    kube_page_fini(&page);
}

/* ---- objects of an API server ---- */

#define POD_OWN(ns, name, rev)                                                                                         \
    "\"metadata\":{\"name\":\"" name "\",\"namespace\":\"" ns "\",\"resourceVersion\":\"" rev                          \
    "\"},\"spec\":{\"nodeName\":\"n" rev "\"}}"
#define POD_KIND            "{\"kind\":\"Pod\",\"apiVersion\":\"v1\","
#define POD(ns, name, rev)  POD_KIND POD_OWN(ns, name, rev)
#define POD_LIST(items, rv) "{\"kind\":\"PodList\",\"apiVersion\":\"v1\",\"metadata\":{" rv "},\"items\":[" items "]}\n"
#define RV(rev)             "\"resourceVersion\":\"" rev "\""

static struct kube_page pods_page(const char *namespace, const char *name)
{
    struct kube_api_resource of = {
        .group = "", .version = "v1", .plural = "pods", .singular = "pod", .kind = "Pod", .namespaced = true};
    struct kube_page page = {.limit = SIZE_MAX};
    assert_int_equal(kube_resource_of_api(&of, &page.resource), BELFRY_OK);
    page.version = &page.resource->versions[0];
    assert_int_equal(kube_page_aim(&page, belfry_bytes_str(namespace), belfry_bytes_str(name)), BELFRY_OK);
    return page;
}

static void put_pods(void)
{
    storecheck_write(store, 5, "a/x", POD("a", "x", "5"));
    storecheck_write(store, 6, "b/y", POD("b", "y", "6"));
    storecheck_write(store, 7, "b/z", POD("b", "z", "7"));
}

static void an_api_server_s_objects_are_copied(void **state)
{
    (void)state;
    put_pods();
    struct kube_page page = pods_page("", "");
    expect_body(&page,
                POD_LIST("{" POD_OWN("a", "x", "5") ",{" POD_OWN("b", "y", "6") ",{" POD_OWN("b", "z", "7"), RV("7")));
    kube_page_fini(&page);
    page = pods_page("b", "y");
    page.as = KUBE_PAGE_OBJECT;
    expect_body(&page, POD("b", "y", "6") "\n");
    kube_page_fini(&page);
    page = pods_page("a", "");
    page.as = KUBE_PAGE_EVENTS;
    expect_body(&page, "{\"type\":\"ADDED\",\"object\":" POD("a", "x", "5") "}\n");
    kube_page_fini(&page);
}

static void a_list_of_many_pages_has_its_version_first_too(void **state)
{
    (void)state;
    char key[32], *value = malloc(BIG + 200);
    assert_non_null(value);
    for (int i = 0; i < 9; i++) {
        snprintf(key, sizeof(key), "a/w%d", i);
        int n = snprintf(value, 200, POD_KIND "\"metadata\":{\"name\":\"w%d\",\"resourceVersion\":\"%d\"},\"x\":\"", i,
                         5 + i);
        memset(value + n, 'x', BIG);
        snprintf(value + n + BIG, 8, "\"}");
        storecheck_write(store, 5 + i, key, value);
    }
    free(value);
    struct kube_page page = pods_page("", "");
    size_t n_pages;
    static const char begin[] = "{\"kind\":\"PodList\",\"apiVersion\":\"v1\",\"metadata\":{\"resourceVersion\":\"13\"},"
                                "\"items\":[{\"metadata\":{\"name\":\"w0\"",
                      end[] = "xxx\"}]}\n";
    char *body = read_all(&page, &n_pages);
    assert_true(n_pages > 1);
    assert_memory_equal(body, begin, sizeof(begin) - 1);
    assert_string_equal(body + strlen(body) - (sizeof(end) - 1), end);
    assert_string_equal(names_in(body), "w0 w1 w2 w3 w4 w5 w6 w7 w8");
    free(body);
    kube_page_fini(&page);
}

static void an_api_server_s_objects_are_selected_and_cut_to_their_metadata(void **state)
{
    (void)state;
    put_pods();
    struct kube_status status;
    struct kube_page page = pods_page("", "");
    assert_int_equal(kube_selector_read(belfry_bytes_str(""), belfry_bytes_str("spec.nodeName=n6"), page.resource,
                                        page.version, &page.selector, &status),
                     BELFRY_OK);
    expect_body(&page, POD_LIST("{" POD_OWN("b", "y", "6"), RV("7")));
    kube_page_fini(&page);
    page = pods_page("a", "");
    page.view = KUBE_VIEW_METADATA;
    expect_body(
        &page, "{\"kind\":\"PartialObjectMetadataList\",\"apiVersion\":\"meta.k8s.io/v1\",\"metadata\":{"
               "\"resourceVersion\":\"7\"},\"items\":[{\"kind\":"
               "\"PartialObjectMetadata\",\"apiVersion\":\"meta.k8s.io/v1\",\"metadata\":{\"name\":\"x\",\"namespace\":"
               "\"a\",\"resourceVersion\":\"5\"}}]}\n");
    kube_page_fini(&page);
}

static void a_value_without_a_version_is_no_object_for_its_metadata(void **state)
{
    (void)state;
    storecheck_write(store, 5, "a/x", "{\"metadata\":{}}");
    struct kube_page page = pods_page("", "");
    page.view = KUBE_VIEW_METADATA;
    kube_page_read(&page, store);
    assert_int_equal(page.undecodable, 1);
    assert_int_equal(page.n, 0);
    kube_page_fini(&page);
}

/* As an API server writes it: relative to the namespace of the list. */
static void expect_start(const char *namespace, const char *start, size_t len)
{
    struct kube_page page = pods_page(namespace, ""), next = pods_page(namespace, "");
    enum belfry_err err;
    page.limit = 1;
    kube_page_read(&page, store);
    assert_int_equal(page.n, 1);
    assert_true(belfry_bytes_equal(kube_page_start(&page), belfry_bytes_of(start, len)));
    assert_true(kube_page_skip_to(&next, belfry_bytes_of(start, len), &err));
    assert_true(belfry_bytes_equal(belfry_buf_bytes(&next.key), belfry_buf_bytes(&page.key)));
    kube_page_fini(&page);
    kube_page_fini(&next);
}

static void a_token_is_as_an_api_server_s(void **state)
{
    (void)state;
    put_pods();
    expect_start("", "a/x", 4);
    expect_start("b", "y", 2);
}

/* ---- revisions ---- */

static void what_the_store_has_not_got_yet_is_for_later(void **state)
{
    (void)state;
    struct kube_page page = page_of("", "");
    kube_page_read(&page, store); /* never filled: there is no revision to give */
    assert_int_equal(page.err, BELFRY_ERR_AGAIN);
    widgets_put(store, 5, "ns/a", "x", 0);
    page.floor = 6;
    kube_page_read(&page, store);
    assert_int_equal(page.err, BELFRY_ERR_AGAIN);
    assert_int_equal(page.at, 5);
    assert_int_equal(belfry_buf_len(&page.text), 0);
    widgets_put(store, 6, "ns/b", "x", 0);
    widgets_put(store, 7, "ns/c", "x", 0);
    expect_names(&page, 1, "a b c");
    assert_int_equal(page.rev, 7);
    kube_page_fini(&page);
    page = page_of("", "");
    page.rev = 8;
    kube_page_read(&page, store);
    assert_int_equal(page.err, BELFRY_ERR_AGAIN);
    assert_int_equal(page.at, 7);
    kube_page_fini(&page);
    page = page_of("", "");
    page.rev = 6;
    expect_names(&page, 1, "a b");
    kube_page_fini(&page);
}

/* The content becomes another's, as after a restored backup. */
static void adopt(int64_t rev, uint64_t past)
{
    struct belfry_wire_header header = {.revision = rev};
    assert_int_equal(store->api->fresh(store), BELFRY_OK);
    assert_int_equal(store->api->adopt(store, rev, &header, past), BELFRY_OK);
}

static void what_the_window_has_lost_is_compacted(void **state)
{
    (void)state;
    adopt(40, 2);
    widgets_put(store, 41, "ns/a", "x", 0);
    struct kube_page page = page_of("", "");
    page.rev = 39;
    kube_page_read(&page, store);
    assert_int_equal(page.err, BELFRY_ERR_COMPACTED);
    assert_int_equal(page.at, 40);
    page.rev = 40; /* the oldest that can be told */
    kube_page_read(&page, store);
    assert_int_equal(page.err, BELFRY_OK);
    assert_int_equal(page.n, 0);
    kube_page_fini(&page);
}

static void a_past_that_was_rewritten_is_not_gone_on_with(void **state)
{
    (void)state;
    char name[16];
    for (int i = 0; i < 8; i++) {
        snprintf(name, sizeof(name), "ns/w%d", i);
        widgets_put(store, 10 + i, name, "x", BIG);
    }
    struct kube_page page = page_of("", "");
    kube_page_read(&page, store);
    assert_true(page.err == BELFRY_OK && page.more && page.rev == 17);
    belfry_buf_clear(&page.text);
    adopt(17, 2); /* the same revision, of another past */
    kube_page_read(&page, store);
    assert_int_equal(page.err, BELFRY_ERR_COMPACTED);
    assert_int_equal(belfry_buf_len(&page.text), 0);
    kube_page_fini(&page);
}

/* ---- counting ---- */

/* A store that counts, and does so in one call or not at all. */
struct counting_store {
    struct store store;
    struct store_page page;
    enum belfry_err err;
};

static enum belfry_err give_count(struct store *from, const struct store_read *read, store_row_fn row, void *user,
                                  struct store_page *out)
{
    struct counting_store *counting = belfry_container(from, struct counting_store, store);
    (void)row, (void)user;
    assert_true(read->counted && read->max_rows == 0);
    assert_int_equal(read->rev, 5);
    if (counting->err == BELFRY_OK)
        *out = counting->page;
    return counting->err;
}

static const struct store_api counting_api = {.range = give_count};

static void the_rest_is_counted_by_the_store_or_not_told(void **state)
{
    (void)state;
    struct kube_page page = page_of("", "");
    page.rev = 5;
    struct counting_store counting = {.store.api = &counting_api, .page.count = 5000000};
    assert_int_equal(kube_page_count_rest(&page, &counting.store), 5000000);
    counting.page.count = 0;
    assert_int_equal(kube_page_count_rest(&page, &counting.store), 0);
    counting.page.more = true; /* it would take longer */
    assert_int_equal(kube_page_count_rest(&page, &counting.store), -1);
    counting.page.more = false;
    counting.err = BELFRY_ERR_COMPACTED;
    assert_int_equal(kube_page_count_rest(&page, &counting.store), -1);
    kube_page_fini(&page);
}

/* ---- gzip ---- */

static char *unpack(struct belfry_bytes packed)
{
    struct belfry_blob *blob;
    assert_int_equal(belfry_gzip_unpack(packed, 16 << 20, &blob), BELFRY_OK);
    char *text = strndup(belfry_blob_bytes(blob).data, belfry_blob_len(blob));
    assert_non_null(text);
    belfry_blob_unref(blob);
    return text;
}

static void read_packed(struct kube_page *page, struct belfry_buf *out)
{
    do {
        kube_page_read(page, store);
        assert_true(page->err == BELFRY_OK && page->packed);
        assert_int_equal(belfry_buf_append(out, belfry_buf_bytes(&page->text).data, belfry_buf_len(&page->text)),
                         BELFRY_OK);
        belfry_buf_clear(&page->text);
    } while (page->more);
}

static void a_large_list_is_packed_as_one_and_a_small_one_is_not(void **state)
{
    (void)state;
    char name[16];
    for (int i = 0; i < 8; i++) {
        snprintf(name, sizeof(name), "ns/w%d", i);
        widgets_put(store, 10 + i, name, "x", BIG);
    }
    struct kube_page page = page_of("", "");
    size_t n;
    char *plain = read_all(&page, &n);
    kube_page_fini(&page);
    page = page_of("", "");
    page.gzip = true;
    struct belfry_buf packed = {0};
    read_packed(&page, &packed);
    assert_true(belfry_buf_len(&packed) < strlen(plain) / 10);
    char *unpacked = unpack(belfry_buf_bytes(&packed));
    assert_string_equal(unpacked, plain);
    free(unpacked);
    free(plain);
    belfry_buf_fini(&packed);
    kube_page_fini(&page);
    page = page_of("ns", "w1");
    page.gzip = true;
    kube_page_read(&page, store);
    assert_true(page.err == BELFRY_OK && !page.packed);
    kube_page_fini(&page);
}

/* Noise, which cannot be made much smaller: steps of output are full. */
static void a_list_that_cannot_be_made_smaller_is_packed_too(void **state)
{
    (void)state;
    static char value[BIG];
    struct belfry_rng rng = {7};
    char key[80];
    size_t at = (size_t)snprintf(value, sizeof(value), "{\"metadata\":{},\"spec\":{\"pad\":\"");
    while (at < sizeof(value) - 4)
        value[at++] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_"[belfry_rng_below(&rng, 64)];
    strcpy(value + at, "\"}}");
    for (int i = 0; i < 8; i++) {
        snprintf(key, sizeof(key), WIDGETS "ns/w%d", i);
        storecheck_write(store, 10 + i, key, value);
    }
    struct kube_page page = page_of("", "");
    size_t n;
    char *plain = read_all(&page, &n);
    kube_page_fini(&page);
    page = page_of("", "");
    page.gzip = true;
    struct belfry_buf packed = {0};
    read_packed(&page, &packed);
    assert_true(belfry_buf_len(&packed) > strlen(plain) / 2);
    char *unpacked = unpack(belfry_buf_bytes(&packed));
    assert_string_equal(unpacked, plain);
    free(unpacked);
    free(plain);
    belfry_buf_fini(&packed);
    kube_page_fini(&page);
}

/* ---- memory ---- */

static enum belfry_err read_some(bool gzip)
{
    struct kube_page page = {
        .resource = kube_resource_ref(widgets), .version = &widgets->versions[0], .limit = 7, .gzip = gzip};
    enum belfry_err err = kube_page_aim(&page, belfry_bytes_str("ns"), belfry_bytes_str(""));
    if (err == BELFRY_OK && !kube_page_skip_to(&page, belfry_bytes_str("ns/a"), &err))
        assert_int_equal(err, BELFRY_ERR_NOMEM);
    while (err == BELFRY_OK) {
        kube_page_read(&page, store);
        err = page.err;
        belfry_buf_clear(&page.text);
        if (!page.more)
            break;
    }
    kube_page_fini(&page);
    return err;
}

static enum belfry_err scenario(void)
{
    enum belfry_err err = read_some(false);
    return err == BELFRY_OK ? read_some(true) : err;
}

static void without_memory_a_page_fails_and_nothing_leaks(void **state)
{
    (void)state;
    char name[16];
    for (int i = 0; i < 8; i++) {
        snprintf(name, sizeof(name), "ns/w%d", i);
        widgets_put(store, 10 + i, name, "x", BIG);
    }
    assert_true(refuse_sweep(scenario) > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_list_of_many_pages_has_its_version_first_too, setup, teardown),
        cmocka_unit_test_setup_teardown(an_api_server_s_objects_are_copied, setup, teardown),
        cmocka_unit_test_setup_teardown(an_api_server_s_objects_are_selected_and_cut_to_their_metadata, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_value_without_a_version_is_no_object_for_its_metadata, setup, teardown),
        cmocka_unit_test_setup_teardown(a_token_is_as_an_api_server_s, setup, teardown),
        cmocka_unit_test_setup_teardown(a_list_has_its_items_in_the_order_of_keys_and_one_revision, setup, teardown),
        cmocka_unit_test_setup_teardown(a_list_of_nothing_is_empty_and_has_a_revision, setup, teardown),
        cmocka_unit_test_setup_teardown(a_namespace_ends_where_another_begins, setup, teardown),
        cmocka_unit_test_setup_teardown(one_object_is_found_under_its_key_alone, setup, teardown),
        cmocka_unit_test_setup_teardown(as_events_each_is_a_line_of_its_own, setup, teardown),
        cmocka_unit_test_setup_teardown(only_the_first_row_of_a_table_defines_its_columns, setup, teardown),
        cmocka_unit_test_setup_teardown(every_page_is_as_of_the_first_ones_revision, setup, teardown),
        cmocka_unit_test_setup_teardown(a_limit_ends_the_list_with_a_token_behind_its_last_key, setup, teardown),
        cmocka_unit_test_setup_teardown(with_a_selector_the_rest_is_not_counted, setup, teardown),
        cmocka_unit_test_setup_teardown(a_start_outside_of_the_range_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(a_selector_that_matches_nothing_still_ends_its_pages, setup, teardown),
        cmocka_unit_test_setup_teardown(a_page_of_selected_objects_is_bounded_by_its_text, setup, teardown),
        cmocka_unit_test_setup_teardown(pages_are_bounded_in_rows, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_no_object_is_counted_and_left_out, setup, teardown),
        cmocka_unit_test_setup_teardown(a_namespace_that_is_no_prefix_is_looked_for, setup, teardown),
        cmocka_unit_test_setup_teardown(what_the_store_has_not_got_yet_is_for_later, setup, teardown),
        cmocka_unit_test_setup_teardown(what_the_window_has_lost_is_compacted, setup, teardown),
        cmocka_unit_test_setup_teardown(a_past_that_was_rewritten_is_not_gone_on_with, setup, teardown),
        cmocka_unit_test_setup_teardown(the_rest_is_counted_by_the_store_or_not_told, setup, teardown),
        cmocka_unit_test_setup_teardown(a_large_list_is_packed_as_one_and_a_small_one_is_not, setup, teardown),
        cmocka_unit_test_setup_teardown(a_list_that_cannot_be_made_smaller_is_packed_too, setup, teardown),
        cmocka_unit_test_setup_teardown(without_memory_a_page_fails_and_nothing_leaks, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
