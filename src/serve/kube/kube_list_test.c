/* src/serve/kube/kube_list_test.c: lists of widgets in a support/modelstore, to a support/fakeexchange. The test is the
 * reader thread and the clock; who asks for the latest asks a support/fakeupstream. */
#include "serve/kube/kube_list.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/list.h"
#include "kube/token.h"
#include "net/gzip.h"
#include "serve/rights/etcd_fence.h"
#include "support/fakeexchange.h"
#include "support/fakeshares.h"
#include "support/modelstore.h"
#include "support/uplinkbed.h"
#include "support/widgets.h"

#define BIG  (64 * 1024)
#define ROOM (1 << 30)

/* ---- the reader ---- */

static struct desk {
    struct kube_reader reader;
    struct {
        struct kube_page *page;
        void (*back)(struct kube_page *page, void *user);
        void *user;
    } away[KUBE_LISTS];
    size_t n, reads;
} desk;

static void on_read(struct kube_reader *reader, struct kube_page *page,
                    void (*back)(struct kube_page *page, void *user), void *user)
{
    assert_ptr_equal(reader, &desk.reader);
    assert_true(desk.n < KUBE_LISTS);
    desk.away[desk.n].page = page;
    desk.away[desk.n].back = back;
    desk.away[desk.n++].user = user;
    desk.reads++;
}

/* ---- the bed ---- */

static struct store *store;
static struct kube_resource *widgets;
static struct kube_lists *lists;
static struct fence *fence;
static uint64_t now_ms;

static uint64_t on_now(void *user)
{
    (void)user;
    return now_ms;
}

/* The first page that is away is read, or comes back with `err`. */
static void bring_back(enum belfry_err err)
{
    assert_true(desk.n > 0);
    struct kube_page *page = desk.away[0].page;
    void (*back)(struct kube_page * page, void *user) = desk.away[0].back;
    void *user = desk.away[0].user;
    memmove(&desk.away[0], &desk.away[1], --desk.n * sizeof(desk.away[0]));
    if (err == BELFRY_OK)
        kube_page_read(page, store);
    else
        page->err = err;
    back(page, user);
}

/* Reads whatever is asked for, and lets in who waits, until nothing moves. */
static void settle(void)
{
    do {
        kube_lists_tick(lists, now_ms);
        while (desk.n > 0)
            bring_back(BELFRY_OK);
    } while (kube_lists_due(lists) <= now_ms);
}

static enum belfry_err open_lists_in(struct kube_room *room, struct kube_lists **out)
{
    struct kube_lists_opts opts = {.reader = &desk.reader, .fence = fence, .now = on_now, .process = 77, .room = room};
    return kube_lists_create(&opts, out);
}

static enum belfry_err open_lists(void)
{
    desk = (struct desk){.reader.read = on_read};
    now_ms = 1000;
    return open_lists_in(NULL, &lists);
}

static uint64_t n_clients;

static int setup(void **state)
{
    (void)state;
    n_clients = 0;
    store = modelstore_create(
        &(struct modelstore_opts){.history_rows = 1000, .history_age_s = 100, .extent_bytes = 1 << 20});
    widgets = widgets_make();
    return open_lists() == BELFRY_OK ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    kube_lists_destroy(lists);
    while (desk.n > 0) /* they come all the same */
        bring_back(BELFRY_ERR_CANCELED);
    modelstore_destroy(store);
    kube_resource_unref(widgets);
    lists = NULL;
    return refuse_held() == 0 ? 0 : -1;
}

static struct kube_lists_stats counted(void)
{
    struct kube_lists_stats out;
    kube_lists_stats(lists, &out);
    return out;
}

/* ---- requests ---- */

static struct kube_list_ask ask_for(struct fakeexchange *fake, const char *namespace, const char *name)
{
    return (struct kube_list_ask){.x = &fake->x,
                                  .resource = widgets,
                                  .version = &widgets->versions[0],
                                  .namespace = belfry_bytes_str(namespace),
                                  .name = belfry_bytes_str(name),
                                  .as = name[0] == '\0' ? KUBE_PAGE_ITEMS : KUBE_PAGE_OBJECT};
}

static struct kube_list *begin(const struct kube_list_ask *ask)
{
    struct kube_status status;
    struct kube_list *list;
    struct kube_list_ask own = *ask;
    n_clients++; /* each on a connection, and of a client, of its own */
    if (own.who.source.client == 0)
        own.who.source = (struct lanes_source){n_clients, n_clients};
    assert_int_equal(kube_list_begin(lists, &own, &list, &status), BELFRY_OK);
    return list;
}

static const char *body_of(struct fakeexchange *fake)
{
    assert_int_equal(belfry_buf_append(&fake->body, "", 1), BELFRY_OK);
    return belfry_buf_bytes(&fake->body).data;
}

static void expect(struct fakeexchange *fake, int status, const char *body)
{
    assert_int_equal(fake->state, FAKEEXCHANGE_ENDED);
    assert_int_equal(fake->status, status);
    assert_string_equal(fakeexchange_field(fake, "content-type"), "application/json");
    assert_string_equal(body_of(fake), body);
}

static void expect_code(struct fakeexchange *fake, int status, const char *reason)
{
    char part[100];
    assert_int_equal(fake->state, FAKEEXCHANGE_ENDED);
    assert_int_equal(fake->status, status);
    snprintf(part, sizeof(part), "\"reason\":\"%s\"", reason);
    assert_non_null(strstr(body_of(fake), part));
    snprintf(part, sizeof(part), "\"code\":%d}", status);
    assert_non_null(strstr(belfry_buf_bytes(&fake->body).data, part));
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

/* The text of a field of the list's or Status' own metadata, which stands at most once; "" when it is not there. */
static const char *meta_in(const char *body, const char *name)
{
    static char value[4][2000];
    static unsigned turn;
    char head[64];
    char *out = value[turn++ % 4];
    snprintf(head, sizeof(head), "\"%s\":\"", name);
    const char *at = strstr(body, "],\"metadata\":{");
    at = strstr(at == NULL ? body : at, head);
    snprintf(out, sizeof(value[0]), "%.*s", at == NULL ? 0 : (int)strcspn(at + strlen(head), "\""),
             at == NULL ? "" : at + strlen(head));
    return out;
}

#define ITEM(ns, name, rev, app)                                                                                       \
    "{\"apiVersion\":\"demo.example.com/v1\",\"kind\":\"Widget\",\"metadata\":{\"resourceVersion\":\"" rev             \
    "\",\"name\":\"" name "\",\"namespace\":\"" ns "\",\"labels\":{\"app\":\"" app "\"}},\"spec\":{\"pad\":\"\"}}"
#define LIST(items, meta)                                                                                              \
    "{\"kind\":\"WidgetList\",\"apiVersion\":\"demo.example.com/v1\",\"items\":[" items "],\"metadata\":{" meta "}}"

/* ---- lists and gets ---- */

static void a_list_is_answered_with_its_head_and_its_items(void **state)
{
    (void)state;
    widgets_put(store, 5, "ns/a", "x", 0);
    widgets_put(store, 6, "ns/b", "y", 0);
    struct fakeexchange fake;
    fakeexchange_init(&fake, ROOM);
    struct kube_list_ask ask = ask_for(&fake, "", "");
    begin(&ask);
    assert_int_equal(fake.status, 0);
    settle();
    expect(&fake, 200, LIST(ITEM("ns", "a", "5", "x") "," ITEM("ns", "b", "6", "y"), "\"resourceVersion\":\"6\""));
    assert_string_equal(fakeexchange_field(&fake, "cache-control"), "no-cache, private");
    assert_null(fakeexchange_field(&fake, "content-encoding"));
    assert_true(counted().lists == 1 && counted().objects == 2 && counted().active == 0);
    assert_int_equal(counted().bytes, belfry_buf_len(&fake.body) - 1);
    fakeexchange_fini(&fake);
}

static void one_object_is_answered_or_not_found(void **state)
{
    (void)state;
    widgets_put(store, 5, "ns/a", "x", 0);
    struct fakeexchange fake;
    fakeexchange_init(&fake, ROOM);
    struct kube_list_ask ask = ask_for(&fake, "ns", "a");
    begin(&ask);
    settle();
    expect(&fake, 200, ITEM("ns", "a", "5", "x"));
    fakeexchange_fini(&fake);
    fakeexchange_init(&fake, ROOM);
    ask = ask_for(&fake, "ns", "b");
    begin(&ask);
    settle();
    expect(&fake, 404,
           "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\",\"message\":"
           "\"widgets.demo.example.com \\\"b\\\" not found\",\"reason\":\"NotFound\",\"details\":{\"name\":\"b\","
           "\"group\":\"demo.example.com\",\"kind\":\"widgets\"},\"code\":404}\n");
    assert_int_equal(counted().gets, 2);
    fakeexchange_fini(&fake);
}

static void head_is_answered_without_a_body(void **state)
{
    (void)state;
    widgets_put(store, 5, "ns/a", "x", BIG);
    struct fakeexchange fake;
    for (int i = 0; i < 3; i++) {
        fakeexchange_init(&fake, ROOM);
        struct kube_list_ask ask = ask_for(&fake, "ns", (const char *[]){"", "a", "b"}[i]);
        ask.head_only = true;
        ask.gzip = true;
        begin(&ask);
        settle();
        assert_int_equal(fake.state, FAKEEXCHANGE_ENDED);
        assert_int_equal(fake.status, i == 2 ? 404 : 200);
        assert_string_equal(fakeexchange_field(&fake, "content-type"), "application/json");
        assert_int_equal(belfry_buf_len(&fake.body), 0);
        fakeexchange_fini(&fake);
    }
}

static void put_big(int n, int64_t rev)
{
    char name[16];
    for (int i = 0; i < n; i++) {
        snprintf(name, sizeof(name), "ns/w%d", i);
        widgets_put(store, rev + i, name, "x", BIG);
    }
}

static void a_large_list_is_packed_when_that_is_asked_for(void **state)
{
    (void)state;
    put_big(8, 10);
    struct fakeexchange fake;
    fakeexchange_init(&fake, ROOM);
    struct kube_list_ask ask = ask_for(&fake, "", "");
    ask.gzip = true;
    begin(&ask);
    settle();
    assert_int_equal(fake.state, FAKEEXCHANGE_ENDED);
    assert_string_equal(fakeexchange_field(&fake, "content-encoding"), "gzip");
    assert_string_equal(fakeexchange_field(&fake, "vary"), "Accept-Encoding");
    struct belfry_blob *blob;
    assert_int_equal(belfry_gzip_unpack(belfry_buf_bytes(&fake.body), 16 << 20, &blob), BELFRY_OK);
    assert_true(belfry_blob_len(blob) > (size_t)8 * BIG);
    belfry_blob_unref(blob);
    fakeexchange_fini(&fake);
}

/* What is written meanwhile is not in it; nothing is read ahead of what the client takes. */
static void a_slow_client_costs_one_page_and_gets_one_state(void **state)
{
    (void)state;
    put_big(8, 10);
    struct fakeexchange fake;
    fakeexchange_init(&fake, 1000);
    struct kube_list_ask ask = ask_for(&fake, "", "");
    begin(&ask);
    settle();
    assert_int_equal(desk.reads, 1);
    assert_int_equal(belfry_buf_len(&fake.body), 1000);
    widgets_put(store, 30, "ns/w0", "y", 0);
    widgets_delete(store, 31, "ns/w7");
    widgets_put(store, 32, "ns/w77", "y", 0);
    fakeexchange_make_room(&fake, 5000);
    assert_int_equal(belfry_buf_len(&fake.body), 6000);
    assert_int_equal(desk.n, 0);
    fakeexchange_make_room(&fake, ROOM);
    assert_int_equal(desk.n, 1);
    settle();
    assert_int_equal(fake.state, FAKEEXCHANGE_ENDED);
    const char *body = body_of(&fake);
    assert_string_equal(names_in(body), "w0 w1 w2 w3 w4 w5 w6 w7");
    assert_string_equal(meta_in(body, "resourceVersion"), "17");
    fakeexchange_fini(&fake);
}

static void a_body_that_cannot_be_finished_is_cut_off(void **state)
{
    (void)state;
    put_big(8, 10);
    struct fakeexchange fake;
    fakeexchange_init(&fake, 1000);
    struct kube_list_ask ask = ask_for(&fake, "", "");
    begin(&ask);
    settle();
    now_ms += KUBE_LIST_MS - 1;
    settle();
    assert_int_equal(fake.state, FAKEEXCHANGE_OPEN);
    assert_int_equal(kube_lists_due(lists), now_ms + 1);
    now_ms++;
    settle();
    assert_int_equal(fake.state, FAKEEXCHANGE_RESET);
    assert_true(counted().active == 0 && counted().timeouts == 1);
    fakeexchange_fini(&fake);

    fakeexchange_init(&fake, ROOM);
    ask = ask_for(&fake, "", "");
    begin(&ask);
    bring_back(BELFRY_OK);
    bring_back(BELFRY_ERR_COMPACTED); /* it took longer than the window is */
    assert_int_equal(fake.state, FAKEEXCHANGE_RESET);
    assert_int_equal(counted().expired, 1);
    fakeexchange_fini(&fake);
}

static void what_the_reader_cannot_do_is_told_before_the_first_byte(void **state)
{
    (void)state;
    static const struct {
        enum belfry_err err;
        int code;
        const char *reason;
    } cases[] = {{BELFRY_ERR_NOMEM, 429, "TooManyRequests"},
                 {BELFRY_ERR_IO, 500, "InternalError"},
                 {BELFRY_ERR_CANCELED, 503, "ServiceUnavailable"}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct fakeexchange fake;
        fakeexchange_init(&fake, ROOM);
        struct kube_list_ask ask = ask_for(&fake, "", "");
        begin(&ask);
        bring_back(cases[i].err);
        expect_code(&fake, cases[i].code, cases[i].reason);
        assert_true(cases[i].err == BELFRY_ERR_IO || fakeexchange_field(&fake, "retry-after") != NULL);
        fakeexchange_fini(&fake);
    }
}

/* ---- revisions ---- */

static void a_revision_that_is_not_there_yet_is_waited_for(void **state)
{
    (void)state;
    widgets_put(store, 5, "ns/a", "x", 0);
    for (int i = 0; i < 2; i++) {
        struct fakeexchange fake;
        fakeexchange_init(&fake, ROOM);
        struct kube_list_ask ask = ask_for(&fake, "", "");
        ask.plan = (struct kube_list_plan){.read = i == 0 ? KUBE_READ_NOT_OLDER : KUBE_READ_EXACT, .rev = 6 + i};
        begin(&ask);
        settle();
        assert_int_equal(fake.status, 0);
        uint64_t due = kube_lists_due(lists);
        assert_in_range(due, now_ms + 1, now_ms + 5); /* a commit may be all that is missing */
        now_ms = due;
        widgets_put(store, 6 + i, "ns/b", "x", 0);
        settle();
        assert_int_equal(fake.state, FAKEEXCHANGE_ENDED);
        const char *body = body_of(&fake);
        assert_string_equal(names_in(body), "a b");
        assert_string_equal(meta_in(body, "resourceVersion"), i == 0 ? "6" : "7");
        fakeexchange_fini(&fake);
    }
}

static void a_revision_that_does_not_come_is_too_large(void **state)
{
    (void)state;
    widgets_put(store, 5, "ns/a", "x", 0);
    for (int i = 0; i < 2; i++) {
        struct fakeexchange fake;
        fakeexchange_init(&fake, ROOM);
        struct kube_list_ask ask = ask_for(&fake, "", "");
        ask.plan = (struct kube_list_plan){.read = i == 0 ? KUBE_READ_NOT_OLDER : KUBE_READ_EXACT, .rev = 99};
        uint64_t began = now_ms;
        size_t reads = desk.reads;
        begin(&ask);
        settle();
        while (fake.state == FAKEEXCHANGE_OPEN) {
            now_ms = kube_lists_due(lists);
            assert_true(now_ms <= began + KUBE_WAIT_MS);
            settle();
        }
        assert_int_equal(now_ms, began + KUBE_WAIT_MS);
        assert_in_range(desk.reads - reads, 10, 100);
        expect(
            &fake, 504,
            "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\",\"message\":\"Timeout: "
            "Too large resource version: 99, current: 5\",\"reason\":\"Timeout\",\"details\":{\"causes\":[{\"reason\":"
            "\"ResourceVersionTooLarge\",\"message\":\"Too large resource version\"}],\"retryAfterSeconds\":1},"
            "\"code\":504}\n");
        assert_string_equal(fakeexchange_field(&fake, "retry-after"), "1");
        fakeexchange_fini(&fake);
    }
    assert_int_equal(counted().timeouts, 2);
}

static void adopt(int64_t rev, uint64_t past)
{
    struct belfry_wire_header header = {.revision = rev};
    assert_int_equal(store->api->fresh(store), BELFRY_OK);
    assert_int_equal(store->api->adopt(store, rev, &header, past), BELFRY_OK);
}

static void a_revision_below_the_window_is_expired(void **state)
{
    (void)state;
    adopt(40, 2);
    struct fakeexchange fake;
    fakeexchange_init(&fake, ROOM);
    struct kube_list_ask ask = ask_for(&fake, "", "");
    ask.plan = (struct kube_list_plan){.read = KUBE_READ_EXACT, .rev = 12};
    begin(&ask);
    settle();
    expect(&fake, 410,
           "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\",\"message\":\"too old "
           "resource version: 12 (40)\",\"reason\":\"Expired\",\"code\":410}\n");
    assert_int_equal(counted().expired, 1);
    fakeexchange_fini(&fake);
}

/* ---- resources of an API server ---- */

static struct kube_resource *make_pods(void)
{
    struct kube_api_resource of = {
        .group = "", .version = "v1", .plural = "pods", .singular = "pod", .kind = "Pod", .namespaced = true};
    struct kube_resource *pods;
    assert_int_equal(kube_resource_of_api(&of, &pods), BELFRY_OK);
    return pods;
}

static void expect_expired(const struct kube_list_plan *plan, const char *token, const char *text)
{
    struct kube_resource *pods = make_pods();
    struct fakeexchange fake;
    fakeexchange_init(&fake, ROOM);
    struct kube_list_ask ask = ask_for(&fake, "prod", "");
    ask.resource = pods;
    ask.version = &pods->versions[0];
    ask.plan = *plan;
    ask.continue_token = belfry_bytes_str(token);
    begin(&ask);
    settle();
    expect(&fake, 410, text);
    fakeexchange_fini(&fake);
    kube_resource_unref(pods);
}

/* As a kube-apiserver 1.20 answers. Its token begins at a, in the namespace. */
static void an_api_server_s_sentences_say_that_a_list_is_expired(void **state)
{
    (void)state;
    static const char own[] = "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MTIsInN0YXJ0IjoiYVx1MDAwMCJ9";
    adopt(40, 2);
    expect_expired(
        &(struct kube_list_plan){.read = KUBE_READ_EXACT, .rev = 12}, "",
        "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\",\"message\":\"The "
        "resourceVersion for the provided list is too old.\",\"reason\":\"Expired\",\"code\":410}\n");
    expect_expired(&(struct kube_list_plan){.read = KUBE_READ_CONTINUE, .limit = 1}, own,
                   "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{\"continue\":"
                   "\"eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiYVx1MDAwMCJ9\"},\"status\":\"Failure\","
                   "\"message\":\"The provided continue parameter is too old to display a consistent list result. You "
                   "can start a new list without the continue parameter, or use the continue token in this response "
                   "to retrieve the remainder of the results. Continuing with the provided token results in an "
                   "inconsistent list - objects that were created, modified, or deleted between the time the first "
                   "chunk was returned and now may show up in the list.\",\"reason\":\"Expired\",\"code\":410}\n");
}

/* ---- continue ---- */

static void a_list_by_pages_is_one_state_whatever_happens_between(void **state)
{
    (void)state;
    static const char *const names[] = {"ns/a", "ns/b", "ns/c", "ns/d", "ns/e"};
    for (int i = 0; i < 5; i++)
        widgets_put(store, 10 + i, names[i], "x", 0);
    char token[200] = "";
    static const char *const pages[] = {"a b", "c d", "e"};
    for (int i = 0; i < 3; i++) {
        struct fakeexchange fake;
        fakeexchange_init(&fake, ROOM);
        struct kube_list_ask ask = ask_for(&fake, "ns", "");
        ask.plan =
            (struct kube_list_plan){.read = i == 0 ? KUBE_READ_EXACT : KUBE_READ_CONTINUE, .rev = 14, .limit = 2};
        ask.continue_token = belfry_bytes_str(token);
        begin(&ask);
        settle();
        assert_int_equal(fake.status, 200);
        const char *body = body_of(&fake);
        assert_string_equal(names_in(body), pages[i]);
        assert_string_equal(meta_in(body, "resourceVersion"), "14");
        snprintf(token, sizeof(token), "%s", meta_in(body, "continue"));
        assert_true((strlen(token) > 0) == (i < 2));
        assert_true((strstr(body, i == 0 ? "\"remainingItemCount\":3" : "\"remainingItemCount\":1") != NULL) ==
                    (i < 2));
        fakeexchange_fini(&fake);
        if (i == 0) {
            widgets_delete(store, 20, "ns/c");
            widgets_put(store, 21, "ns/cc", "new", 0);
            widgets_put(store, 22, "ns/d", "new", 0);
        }
    }
}

static struct kube_token_origin origin; /* of the tokens */

static enum belfry_err ask_continued(struct fakeexchange *fake, const char *namespace, int64_t rev, const char *start,
                                     size_t start_len, struct kube_status *status)
{
    struct belfry_buf token = {0};
    assert_int_equal(kube_token_write(rev, origin, belfry_bytes_of(start, start_len), &token), BELFRY_OK);
    struct kube_list_ask ask = ask_for(fake, namespace, "");
    ask.plan = (struct kube_list_plan){.read = KUBE_READ_CONTINUE, .limit = 2};
    ask.continue_token = belfry_buf_bytes(&token);
    struct kube_list *list;
    enum belfry_err err = kube_list_begin(lists, &ask, &list, status);
    belfry_buf_fini(&token);
    return err;
}

static void an_expired_token_is_answered_with_one_that_goes_on_inconsistently(void **state)
{
    (void)state;
    adopt(40, 2);
    widgets_put(store, 41, "ns/c", "x", 0);
    struct fakeexchange fake;
    struct kube_status status;
    fakeexchange_init(&fake, ROOM);
    assert_int_equal(ask_continued(&fake, "ns", 12, "ns/b\0", 5, &status), BELFRY_OK);
    settle();
    expect_code(&fake, 410, "Expired");
    const char *text = meta_in(belfry_buf_bytes(&fake.body).data, "continue");
    struct kube_token token = {0};
    assert_int_equal(kube_token_read(belfry_bytes_str(text), &token), BELFRY_OK);
    assert_int_equal(token.rev, -1);
    assert_int_equal(belfry_buf_len(&token.start), 5);
    assert_memory_equal(belfry_buf_bytes(&token.start).data, "ns/b\0", 5);
    kube_token_fini(&token);
    fakeexchange_fini(&fake);
}

/* A backup was restored between two pages: the revision is there, and is another state. */
static void a_token_of_a_past_that_was_cut_is_expired(void **state)
{
    (void)state;
    static const struct {
        struct kube_token_origin origin;
        int code;
    } cases[] = {
        {{77, 1}, 410}, {{77, 2}, 200}, {{78, 1}, 200} /* another replica's: nobody can tell */, {{0, 0}, 200}};
    adopt(40, 2);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct fakeexchange fake;
        struct kube_status status;
        fakeexchange_init(&fake, ROOM);
        origin = cases[i].origin;
        assert_int_equal(ask_continued(&fake, "ns", 40, "ns/b\0", 5, &status), BELFRY_OK);
        settle();
        assert_int_equal(fake.status, cases[i].code);
        fakeexchange_fini(&fake);
    }
    origin = (struct kube_token_origin){0};
}

static void a_token_that_is_none_or_of_another_list_is_refused(void **state)
{
    (void)state;
    widgets_put(store, 5, "ns/a", "x", 0);
    struct fakeexchange fake;
    struct kube_status status;
    struct kube_list *list;
    fakeexchange_init(&fake, ROOM);
    struct kube_list_ask ask = ask_for(&fake, "", "");
    ask.plan.read = KUBE_READ_CONTINUE;
    ask.continue_token = belfry_bytes_str("!!");
    assert_int_equal(kube_list_begin(lists, &ask, &list, &status), BELFRY_ERR_INVALID);
    assert_int_equal(kube_reason_code(status.reason), 400);
    assert_int_equal(ask_continued(&fake, "ns", 5, "other/a", 7, &status), BELFRY_ERR_INVALID);
    assert_int_equal(kube_reason_code(status.reason), 400);
    assert_int_equal(ask_continued(&fake, "ns", 5, "ns0/a", 5, &status), BELFRY_ERR_INVALID);
    assert_true(fake.x.events == NULL && fake.status == 0); /* the caller's still */
    assert_true(counted().lists == 0 && counted().waiting == 0 && desk.reads == 0);
    fakeexchange_fini(&fake);
}

static void whatever_there_is_comes_without_a_limit(void **state)
{
    (void)state;
    widgets_put(store, 5, "ns/a", "x", 0);
    widgets_put(store, 6, "ns/b", "x", 0);
    struct fakeexchange fake;
    fakeexchange_init(&fake, ROOM);
    struct kube_list_ask ask = ask_for(&fake, "", "");
    ask.plan = (struct kube_list_plan){.read = KUBE_READ_ANY, .limit = 1};
    begin(&ask);
    settle();
    const char *body = body_of(&fake);
    assert_string_equal(names_in(body), "a b");
    assert_string_equal(meta_in(body, "continue"), "");
    fakeexchange_fini(&fake);
}

/* ---- the latest ---- */

static struct etcd {
    const char *code; /* NULL: it answers */
    uint8_t rev;
    size_t n;
} etcd;

static void serve(struct upstream *upstream, size_t i, void *user)
{
    (void)user;
    uint8_t message[] = {0x0a, 0x02, 0x18, etcd.rev};
    etcd.n++;
    if (etcd.code == NULL)
        upstream_grpc(upstream, i, message, sizeof(message), "0");
    else
        upstream_head(upstream, i,
                      (const char *const[]){":status", "200", "content-type", "application/grpc", "grpc-status",
                                            etcd.code, "grpc-message", "no", NULL},
                      true);
}

static int setup_latest(void **state)
{
    etcd = (struct etcd){.rev = 7};
    make(&(struct upstream_opts){.serve = serve}, 1);
    assert_int_equal(
        etcd_fence_create(&(struct etcd_fence_opts){.uplink = bed.uplink, .loop = belfry_loop_uv(bed.loop)}, &fence),
        BELFRY_OK);
    return setup(state);
}

static int teardown_latest(void **state)
{
    kube_lists_destroy(lists);
    lists = NULL;
    fence_destroy(fence);
    fence = NULL;
    close_bed();
    return teardown(state);
}

static void the_latest_is_not_older_than_upstream_was(void **state)
{
    (void)state;
    widgets_put(store, 6, "ns/a", "x", 0);
    struct fakeexchange fake;
    fakeexchange_init(&fake, ROOM);
    struct kube_list_ask ask = ask_for(&fake, "", "");
    ask.plan.read = KUBE_READ_LATEST;
    begin(&ask);
    assert_int_equal(desk.n, 0);
    drive_until(desk.n == 1);
    settle();
    assert_int_equal(fake.status, 0); /* upstream has 7 */
    widgets_put(store, 7, "ns/b", "x", 0);
    now_ms = kube_lists_due(lists);
    settle();
    const char *body = body_of(&fake);
    assert_string_equal(names_in(body), "a b");
    assert_string_equal(meta_in(body, "resourceVersion"), "7");
    fakeexchange_fini(&fake);
}

static struct kube_list_ask ask_pods(struct fakeexchange *fake, const struct kube_resource *pods, int64_t floor)
{
    struct kube_list_ask ask = ask_for(fake, "", "");
    ask.resource = pods;
    ask.version = &pods->versions[0];
    ask.plan = (struct kube_list_plan){.read = KUBE_READ_NOT_OLDER, .rev = floor};
    return ask;
}

/* A quiet resource may be further than its follower has heard. */
static void a_version_of_an_api_server_that_is_not_there_yet_is_proven(void **state)
{
    (void)state;
    struct kube_resource *pods = make_pods();
    storecheck_write(store, 6, "ns/a", "{\"metadata\":{\"name\":\"a\"}}");
    struct fakeexchange fake;
    fakeexchange_init(&fake, ROOM);
    struct kube_list_ask ask = ask_pods(&fake, pods, 7);
    begin(&ask);
    settle();
    drive_until(etcd.n == 1);
    storecheck_write(store, 9, "ns/b", "{\"metadata\":{\"name\":\"b\"}}");
    drive_until(desk.n == 1); /* immediately, not after a pause */
    settle();
    assert_int_equal(fake.status, 200);
    assert_string_equal(names_in(body_of(&fake)), "a b");
    assert_int_equal(etcd.n, 1);
    fakeexchange_fini(&fake);
    kube_resource_unref(pods);
}

static void a_version_that_cannot_be_proven_is_too_large(void **state)
{
    (void)state;
    struct kube_resource *pods = make_pods();
    storecheck_write(store, 6, "ns/a", "{\"metadata\":{\"name\":\"a\"}}");
    struct fakeexchange fakes[2];
    for (size_t i = 0; i < 2; i++) {
        etcd.code = i == 0 ? NULL : "7";
        now_ms = 1000;
        fakeexchange_init(&fakes[i], ROOM);
        struct kube_list_ask ask = ask_pods(&fakes[i], pods, 1000);
        size_t asked = etcd.n;
        begin(&ask);
        settle();
        drive_until(etcd.n > asked && desk.n == 1);
        for (; kube_lists_due(lists) < BELFRY_NEVER; now_ms = kube_lists_due(lists))
            settle();
        assert_int_equal(etcd.n, asked + 1);
        expect_code(&fakes[i], 504, "Timeout");
        assert_non_null(strstr(body_of(&fakes[i]), "Too large resource version: 1000, current: 6"));
        fakeexchange_fini(&fakes[i]);
    }
    kube_resource_unref(pods);
}

static void a_token_of_the_newest_goes_on_there(void **state)
{
    (void)state;
    widgets_put(store, 6, "ns/a", "x", 0);
    widgets_put(store, 7, "ns/b", "x", 0);
    struct fakeexchange fake;
    struct kube_status status;
    fakeexchange_init(&fake, ROOM);
    assert_int_equal(ask_continued(&fake, "ns", -1, "ns/a\0", 5, &status), BELFRY_OK);
    drive_until(desk.n == 1);
    settle();
    const char *body = body_of(&fake);
    assert_string_equal(names_in(body), "b");
    assert_string_equal(meta_in(body, "resourceVersion"), "7");
    fakeexchange_fini(&fake);
}

static void what_upstream_says_to_the_question_is_told(void **state)
{
    (void)state;
    static const struct {
        const char *grpc;
        int code;
        const char *reason;
    } cases[] = {
        {"16", 401, "Unauthorized"}, {"7", 403, "Forbidden"}, {"4", 504, "Timeout"}, {"14", 503, "ServiceUnavailable"}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct fakeexchange fake;
        fakeexchange_init(&fake, ROOM);
        etcd.code = cases[i].grpc;
        struct kube_list_ask ask = ask_for(&fake, "", "");
        ask.plan.read = KUBE_READ_LATEST;
        begin(&ask);
        drive_until(fake.state == FAKEEXCHANGE_ENDED);
        expect_code(&fake, cases[i].code, cases[i].reason);
        fakeexchange_fini(&fake);
    }
    assert_int_equal(desk.reads, 0);
}

static void a_tier_that_upstream_refuses_says_how_to_list_on_an_open_listener(void **state)
{
    (void)state;
    static const char *const refusals[] = {"16", "7"};
    for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
        struct fakeexchange fake;
        fakeexchange_init(&fake, ROOM);
        etcd.code = refusals[i];
        struct kube_list_ask ask = ask_for(&fake, "", "");
        ask.plan.read = KUBE_READ_LATEST;
        ask.who = (struct identity){.kind = IDENTITY_NONE, .rights = LISTEN_RIGHTS_OPEN};
        begin(&ask);
        drive_until(fake.state == FAKEEXCHANGE_ENDED);
        expect_code(&fake, 403, "Forbidden");
        assert_non_null(strstr(body_of(&fake), "add resourceVersion=0"));
        fakeexchange_fini(&fake);
    }
}

static void who_is_gone_asks_no_more(void **state)
{
    (void)state;
    struct fakeexchange fake;
    fakeexchange_init(&fake, ROOM);
    struct kube_list_ask ask = ask_for(&fake, "", "");
    ask.plan.read = KUBE_READ_LATEST;
    begin(&ask);
    fakeexchange_gone(&fake);
    drive_for(20);
    assert_true(desk.reads == 0 && counted().active == 0);
    struct kube_status status;
    struct kube_list *list;
    fakeexchange_fini(&fake);
    fakeexchange_init(&fake, ROOM);
    ask = ask_for(&fake, "", "");
    ask.plan.read = KUBE_READ_LATEST;
    ask.who = identity_of_token(IDENTITY_FIELD_AUTHORIZATION, belfry_bytes_str("a\nb")); /* cannot even be sent */
    assert_int_equal(kube_list_begin(lists, &ask, &list, &status), BELFRY_ERR_INVALID);
    assert_int_equal(kube_reason_code(status.reason), 401);
    fakeexchange_fini(&fake);
}

/* ---- the state of a watch ---- */

struct seen {
    int n;
    enum belfry_err err;
    int code; /* of the status; 0: none */
    int64_t rev;
};

static void on_done(void *user, enum belfry_err err, const struct kube_status *status, int64_t rev)
{
    struct seen *seen = user;
    seen->n++;
    seen->err = err;
    seen->code = status == NULL ? 0 : kube_reason_code(status->reason);
    seen->rev = rev;
}

static struct kube_list_ask ask_state(struct fakeexchange *fake, struct seen *seen)
{
    fakeexchange_init(fake, ROOM);
    *seen = (struct seen){0};
    exchange_handle(&fake->x, &(const struct exchange_events){0}, NULL);
    exchange_respond(&fake->x, 200, NULL, 0);
    struct kube_list_ask ask = ask_for(fake, "ns", "");
    ask.as = KUBE_PAGE_EVENTS;
    ask.done = on_done;
    ask.user = seen;
    return ask;
}

static void the_state_of_a_watch_is_written_and_handed_back(void **state)
{
    (void)state;
    widgets_put(store, 5, "ns/a", "x", 0);
    widgets_put(store, 6, "other/b", "x", 0);
    struct fakeexchange fake;
    struct seen seen;
    struct kube_list_ask ask = ask_state(&fake, &seen);
    ask.gzip = true; /* not for a watch */
    begin(&ask);
    assert_int_equal(seen.n, 0);
    settle();
    assert_true(seen.n == 1 && seen.err == BELFRY_OK && seen.code == 0 && seen.rev == 6);
    assert_int_equal(fake.state, FAKEEXCHANGE_OPEN);
    assert_string_equal(body_of(&fake), "{\"type\":\"ADDED\",\"object\":" ITEM("ns", "a", "5", "x") "}\n");
    fakeexchange_fini(&fake);
}

static void a_state_that_fails_is_told_to_the_watch_which_keeps_its_exchange(void **state)
{
    (void)state;
    adopt(40, 2);
    struct fakeexchange fake;
    struct seen seen;
    struct kube_list_ask ask = ask_state(&fake, &seen);
    ask.plan = (struct kube_list_plan){.read = KUBE_READ_EXACT, .rev = 12};
    begin(&ask);
    settle();
    assert_true(seen.n == 1 && seen.err == BELFRY_ERR_COMPACTED && seen.code == 410);
    assert_int_equal(fake.state, FAKEEXCHANGE_OPEN);
    fakeexchange_fini(&fake);
    ask = ask_state(&fake, &seen);
    ask.plan = (struct kube_list_plan){.read = KUBE_READ_NOT_OLDER, .rev = 99};
    ask.deadline_ms = now_ms + 10;
    begin(&ask);
    settle();
    now_ms += 10;
    settle();
    assert_true(seen.n == 1 && seen.err == BELFRY_ERR_TIMEOUT && seen.code == 504 && seen.rev == 0);
    fakeexchange_fini(&fake);
    ask = ask_state(&fake, &seen);
    begin(&ask);
    fakeexchange_gone(&fake);
    assert_true(seen.n == 1 && seen.err == BELFRY_ERR_CANCELED);
    settle();
    fakeexchange_fini(&fake);
}

static void a_state_that_is_cancelled_says_nothing_more(void **state)
{
    (void)state;
    put_big(8, 10);
    struct fakeexchange fake;
    struct seen seen;
    for (int i = 0; i < 3; i++) {
        struct kube_list_ask ask = ask_state(&fake, &seen);
        fake.room = i == 2 ? 100 : ROOM;
        struct kube_list *list = begin(&ask);
        if (i > 0) /* it is away, away again, or being written */
            bring_back(BELFRY_OK);
        kube_list_cancel(list);
        settle();
        assert_int_equal(seen.n, 0);
        assert_int_equal(counted().active, 0);
        assert_int_equal(desk.n, 0);
        fakeexchange_fini(&fake);
    }
}

/* A body that stops there ends in a whole line. */
static void a_state_that_stops_finishes_the_line_that_it_is_inside_of(void **state)
{
    (void)state;
    widgets_put(store, 5, "ns/a", "x", 0);
    widgets_put(store, 6, "ns/b", "x", 0);
    widgets_put(store, 7, "ns/c", "x", (size_t)2 * EXCHANGE_ROOM);
    struct fakeexchange fake;
    struct seen seen;
    static const size_t rooms[] = {0, 20,
                                   sizeof("{\"type\":\"ADDED\",\"object\":" ITEM("ns", "a", "5", "x") "}\n") - 1};
    for (size_t i = 0; i < 3; i++) {
        struct kube_list_ask ask = ask_state(&fake, &seen);
        fake.room = rooms[i];
        struct kube_list *list = begin(&ask);
        assert_true(kube_list_end_line(list)); /* its page is away */
        bring_back(BELFRY_OK);
        assert_true(kube_list_end_line(list));
        kube_list_cancel(list);
        assert_string_equal(body_of(&fake),
                            i == 0 ? "" : "{\"type\":\"ADDED\",\"object\":" ITEM("ns", "a", "5", "x") "}\n");
        fakeexchange_fini(&fake);
    }
    struct kube_list_ask ask = ask_state(&fake, &seen);
    fake.room = 1000; /* the third is begun */
    struct kube_list *list = begin(&ask);
    bring_back(BELFRY_OK);
    size_t len = belfry_buf_len(&fake.body);
    assert_false(kube_list_end_line(list));
    assert_int_equal(belfry_buf_len(&fake.body), len);
    kube_list_cancel(list);
    settle();
    fakeexchange_fini(&fake);
}

/* ---- many ---- */

static void more_than_can_be_at_once_wait_in_order(void **state)
{
    (void)state;
    widgets_put(store, 5, "ns/a", "x", 0);
    static struct fakeexchange fakes[KUBE_LISTS + 2];
    for (size_t i = 0; i < KUBE_LISTS + 2; i++) {
        fakeexchange_init(&fakes[i], ROOM);
        struct kube_list_ask ask = ask_for(&fakes[i], "", "");
        begin(&ask);
    }
    assert_true(desk.n == KUBE_LISTS && counted().active == KUBE_LISTS && counted().waiting == 2);
    kube_lists_tick(lists, now_ms);
    assert_int_equal(desk.n, KUBE_LISTS);
    /* A page that is away for nobody still takes a place. */
    fakeexchange_gone(&fakes[0]);
    kube_lists_tick(lists, now_ms);
    assert_true(desk.n == KUBE_LISTS && counted().waiting == 2);
    bring_back(BELFRY_OK);
    assert_true(kube_lists_due(lists) <= now_ms);
    kube_lists_tick(lists, now_ms);
    assert_true(desk.n == KUBE_LISTS && counted().waiting == 1);
    settle();
    for (size_t i = 0; i < KUBE_LISTS + 2; i++) {
        assert_int_equal(fakes[i].state, i == 0 ? FAKEEXCHANGE_GONE : FAKEEXCHANGE_ENDED);
        fakeexchange_fini(&fakes[i]);
    }
}

/* Who waits for a revision takes no place from those who need not wait. */
static void who_waits_for_a_revision_holds_nobody_up(void **state)
{
    (void)state;
    widgets_put(store, 5, "ns/a", "x", 0);
    static struct fakeexchange fakes[2 * KUBE_LISTS];
    for (size_t i = 0; i < 2 * KUBE_LISTS; i++) {
        fakeexchange_init(&fakes[i], ROOM);
        struct kube_list_ask ask = ask_for(&fakes[i], "", "");
        ask.plan = (struct kube_list_plan){.read = KUBE_READ_NOT_OLDER, .rev = 1000};
        begin(&ask);
        settle();
    }
    assert_true(counted().active == 0 && counted().waiting == 2 * KUBE_LISTS);
    struct fakeexchange fake;
    fakeexchange_init(&fake, ROOM);
    struct kube_list_ask ask = ask_for(&fake, "", "");
    begin(&ask);
    settle();
    assert_int_equal(fake.state, FAKEEXCHANGE_ENDED);
    fakeexchange_fini(&fake);
    for (; kube_lists_due(lists) < BELFRY_NEVER; now_ms = kube_lists_due(lists))
        settle();
    for (size_t i = 0; i < 2 * KUBE_LISTS; i++) {
        expect_code(&fakes[i], 504, "Timeout");
        fakeexchange_fini(&fakes[i]);
    }
}

/* Half of the places, and its lists that wait hold nobody else up. */
static void a_client_with_many_lists_leaves_places_to_others(void **state)
{
    (void)state;
    put_big(8, 10);
    static struct fakeexchange stalled[KUBE_LISTS];
    for (size_t i = 0; i < KUBE_LISTS; i++) {
        fakeexchange_init(&stalled[i], 100);
        struct kube_list_ask ask = ask_for(&stalled[i], "", "");
        ask.who.source = (struct lanes_source){500 + i % 4, 500};
        begin(&ask);
        settle();
    }
    assert_int_equal(counted().active, KUBE_LISTS / 2);
    assert_int_equal(counted().waiting, KUBE_LISTS / 2);
    struct fakeexchange other;
    fakeexchange_init(&other, ROOM);
    struct kube_list_ask ask = ask_for(&other, "ns", "w0");
    ask.who.source = (struct lanes_source){600, 600};
    begin(&ask);
    settle();
    assert_int_equal(other.state, FAKEEXCHANGE_ENDED); /* at once */
    now_ms += KUBE_STALL_MS;                           /* those behind them get their places */
    settle();
    size_t n_ended = 0;
    for (size_t i = 0; i < KUBE_LISTS; i++)
        n_ended += stalled[i].state != FAKEEXCHANGE_OPEN;
    assert_in_range(n_ended, 1, KUBE_LISTS / 2);
    for (size_t i = 0; i < KUBE_LISTS; i++) {
        if (stalled[i].state == FAKEEXCHANGE_OPEN)
            fakeexchange_gone(&stalled[i]);
        fakeexchange_fini(&stalled[i]);
    }
    fakeexchange_fini(&other);
}

/* Clients that do not read have all places: as long as nobody wants one they may, then they are cut off. */
static void who_does_not_read_is_cut_off_when_others_wait(void **state)
{
    (void)state;
    put_big(8, 10);
    static struct fakeexchange fakes[KUBE_LISTS];
    for (size_t i = 0; i < KUBE_LISTS; i++) {
        fakeexchange_init(&fakes[i], 100);
        struct kube_list_ask ask = ask_for(&fakes[i], "", "");
        begin(&ask);
        settle();
        now_ms += i == 0 ? 1 : 0; /* the first is a little earlier than the others */
    }
    now_ms += 3 * KUBE_STALL_MS;
    settle();
    assert_int_equal(counted().active, KUBE_LISTS);
    struct fakeexchange other;
    fakeexchange_init(&other, ROOM);
    fakeexchange_make_room(&fakes[1], ROOM); /* reads again: its next page has time of its own */
    struct fakeexchange asleep[2];           /* wait before it, and do not read either */
    struct kube_list_ask ask;
    for (size_t i = 0; i < 2; i++) {
        fakeexchange_init(&asleep[i], 100);
        ask = ask_for(&asleep[i], "", "");
        begin(&ask);
    }
    ask = ask_for(&other, "ns", "w0");
    ask.as = KUBE_PAGE_OBJECT;
    begin(&ask);
    assert_true(kube_lists_due(lists) <= now_ms);
    settle();
    assert_int_equal(other.state, FAKEEXCHANGE_ENDED);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(asleep[i].state, FAKEEXCHANGE_OPEN);
        fakeexchange_gone(&asleep[i]);
        fakeexchange_fini(&asleep[i]);
    }
    assert_int_equal(fakes[1].state, FAKEEXCHANGE_ENDED);
    size_t n_reset = 0;
    for (size_t i = 0; i < KUBE_LISTS; i++) {
        n_reset += fakes[i].state == FAKEEXCHANGE_RESET;
        if (fakes[i].state == FAKEEXCHANGE_OPEN)
            fakeexchange_gone(&fakes[i]);
        fakeexchange_fini(&fakes[i]);
    }
    assert_int_equal(n_reset, 2); /* so many places were wanted, and one was given back */
    fakeexchange_fini(&other);
}

/* Lists of two resources have the places together. */
static void lists_of_many_resources_share_their_places(void **state)
{
    (void)state;
    struct kube_room room = {0};
    struct kube_lists *alone = lists, *first, *second;
    assert_int_equal(open_lists_in(&room, &first), BELFRY_OK);
    assert_int_equal(open_lists_in(&room, &second), BELFRY_OK);
    put_big(8, 10);
    static struct fakeexchange fakes[KUBE_LISTS];
    lists = first;
    for (size_t i = 0; i < KUBE_LISTS; i++) {
        fakeexchange_init(&fakes[i], 100);
        struct kube_list_ask ask = ask_for(&fakes[i], "", "");
        begin(&ask);
        settle();
    }
    assert_int_equal(room.pages, KUBE_LISTS);
    now_ms += 2 * KUBE_STALL_MS;
    settle();
    assert_int_equal(counted().active, KUBE_LISTS); /* nobody waits */

    lists = second;
    struct fakeexchange other;
    fakeexchange_init(&other, ROOM);
    struct kube_list_ask ask = ask_for(&other, "ns", "w0");
    begin(&ask);
    settle();
    assert_true(other.state == FAKEEXCHANGE_OPEN && room.queued == 1 && room.lists == 1);
    assert_true(kube_lists_due(second) > now_ms && kube_lists_due(first) <= now_ms);
    kube_lists_tick(first, now_ms); /* ends a list that is not read */
    assert_int_equal(kube_lists_due(second), 0);
    settle();
    assert_int_equal(other.state, FAKEEXCHANGE_ENDED);

    lists = first;
    assert_int_equal(counted().active, KUBE_LISTS - 1);
    kube_lists_destroy(first);
    kube_lists_destroy(second);
    assert_true(room.pages == 0 && room.queued == 0 && room.lists == 0);
    for (size_t i = 0; i < KUBE_LISTS; i++)
        fakeexchange_fini(&fakes[i]);
    fakeexchange_fini(&other);
    lists = alone;
}

static void who_waits_has_a_deadline(void **state)
{
    (void)state;
    static struct fakeexchange fakes[KUBE_LISTS + 1];
    for (size_t i = 0; i < KUBE_LISTS + 1; i++) {
        fakeexchange_init(&fakes[i], ROOM);
        struct kube_list_ask ask = ask_for(&fakes[i], "", "");
        ask.deadline_ms = i == KUBE_LISTS ? now_ms + 100 : 0;
        begin(&ask);
    }
    assert_int_equal(kube_lists_due(lists), now_ms + 100);
    now_ms += 100;
    kube_lists_tick(lists, now_ms);
    expect_code(&fakes[KUBE_LISTS], 504, "Timeout");
    assert_int_equal(counted().waiting, 0);
    for (size_t i = 0; i < KUBE_LISTS; i++)
        fakeexchange_gone(&fakes[i]);
    assert_int_equal(counted().active, 0);
    for (size_t i = 0; i < KUBE_LISTS + 1; i++)
        fakeexchange_fini(&fakes[i]);
}

static void those_who_wait_are_bounded_in_number(void **state)
{
    (void)state;
    struct fakeexchange fake;
    struct seen seen;
    struct kube_status status;
    struct kube_list *list;
    struct kube_list_ask ask = ask_state(&fake, &seen); /* states of watches: they may share an exchange */
    size_t n = 0;
    while (counted().waiting < KUBE_LISTS_WAITING) {
        begin(&ask);
        n++;
    }
    assert_int_equal(kube_list_begin(lists, &ask, &list, &status), BELFRY_ERR_LIMIT);
    assert_in_range(n, KUBE_LISTS_WAITING + KUBE_LISTS / 2, KUBE_LISTS_WAITING + KUBE_LISTS);
    kube_lists_destroy(lists);
    assert_int_equal(seen.n, n);
    while (desk.n > 0)
        bring_back(BELFRY_ERR_CANCELED);
    fakeexchange_fini(&fake);
    lists = NULL;
}

/* A few bytes of text may be a large selector: it counts for what it holds. */
static void lists_hold_no_more_than_the_share_of_their_client(void **state)
{
    (void)state;
    enum { LISTS = 100 };
    static struct fakeexchange fakes[LISTS + 1];
    static char text[5000];
    struct fakeshares shares;
    struct kube_selector *selector;
    struct kube_status status;
    struct kube_list *list;
    size_t n = 0;
    snprintf(text, sizeof(text), "a notin (%*s)", 3800, "");
    for (char *at = strchr(text, '(') + 1; *at != ')'; at++)
        *at = ',';
    assert_int_equal(kube_selector_read(belfry_bytes_str(text), (struct belfry_bytes){0}, widgets,
                                        &widgets->versions[0], &selector, &status),
                     BELFRY_OK);
    assert_true(kube_selector_bytes(selector) > 50000 && kube_selector_text(selector).len < 100);
    fakeshares_init(&shares, SHARES_LIST_BYTES, 4 << 20, 50);
    for (; n < LISTS; n++) {
        fakeexchange_init(&fakes[n], ROOM);
        fakeshares_join(&shares, &fakes[n].conn, "10.0.0.1");
        struct kube_list_ask ask = ask_for(&fakes[n], "", "");
        ask.selector = selector;
        if (kube_list_begin(lists, &ask, &list, &status) != BELFRY_OK)
            break;
    }
    assert_in_range(n, 20, 40);
    assert_int_equal(shares.shares.pools[SHARES_LIST_BYTES].refused, 1);
    assert_in_range(shares.shares.pools[SHARES_LIST_BYTES].used, 15 << 17, 2 << 20);
    fakeexchange_init(&fakes[LISTS], ROOM);
    fakeshares_join(&shares, &fakes[LISTS].conn, "10.0.0.2");
    struct kube_list_ask ask = ask_for(&fakes[LISTS], "", "");
    assert_int_equal(kube_list_begin(lists, &ask, &list, &status), BELFRY_OK); /* another client's has room */
    for (size_t i = 0; i <= n; i++)
        fakeexchange_gone(&fakes[i]);
    fakeexchange_gone(&fakes[LISTS]);
    while (desk.n > 0)
        bring_back(BELFRY_ERR_CANCELED);
    assert_int_equal(shares.shares.pools[SHARES_LIST_BYTES].used, 0);
    for (size_t i = 0; i <= n; i++) {
        shares_leave(&fakes[i].conn.share);
        fakeexchange_fini(&fakes[i]);
    }
    shares_leave(&fakes[LISTS].conn.share);
    fakeexchange_fini(&fakes[LISTS]);
    shares_fini(&shares.shares);
    kube_selector_unref(selector);
}

static void at_the_end_each_is_told_and_pages_come_back_to_nobody(void **state)
{
    (void)state;
    put_big(8, 10);
    struct fakeexchange away, begun, watched;
    struct seen seen;
    fakeexchange_init(&away, ROOM);
    fakeexchange_init(&begun, 100);
    struct kube_list_ask ask = ask_for(&begun, "", "");
    begin(&ask);
    settle();
    ask = ask_for(&away, "", "");
    begin(&ask);
    ask = ask_state(&watched, &seen);
    begin(&ask);
    kube_lists_destroy(lists);
    lists = NULL;
    assert_int_equal(begun.state, FAKEEXCHANGE_RESET);
    expect_code(&away, 503, "ServiceUnavailable");
    assert_true(seen.n == 1 && seen.err == BELFRY_ERR_UNAVAILABLE && seen.code == 503);
    assert_int_equal(desk.n, 2);
    bring_back(BELFRY_OK);
    bring_back(BELFRY_ERR_CANCELED);
    fakeexchange_fini(&away);
    fakeexchange_fini(&begun);
    fakeexchange_fini(&watched);
}

/* ---- memory ---- */

static enum belfry_err scenario(void)
{
    struct fakeexchange fake;
    fakeexchange_init(&fake, ROOM);
    struct kube_status status;
    struct kube_list *list;
    enum belfry_err err = open_lists();
    struct kube_list_ask ask = ask_for(&fake, "ns", "");
    struct belfry_buf text = {0};
    if (err == BELFRY_OK)
        err = kube_token_write(17, (struct kube_token_origin){0}, belfry_bytes_of("ns/w0\0", 6), &text);
    ask.plan = (struct kube_list_plan){.read = KUBE_READ_CONTINUE, .limit = 6};
    ask.continue_token = belfry_buf_bytes(&text);
    ask.gzip = true;
    if (err == BELFRY_OK)
        err = kube_list_begin(lists, &ask, &list, &status);
    if (err == BELFRY_OK) {
        settle();
        if (fake.lost)
            fakeexchange_gone(&fake);
        err = fake.lost || fake.status != 200 || fake.state != FAKEEXCHANGE_ENDED ? BELFRY_ERR_NOMEM : BELFRY_OK;
    }
    kube_lists_destroy(lists);
    lists = NULL;
    belfry_buf_fini(&text);
    fakeexchange_fini(&fake);
    return err;
}

static void without_memory_a_list_fails_and_nothing_leaks(void **state)
{
    (void)state;
    put_big(8, 10);
    kube_lists_destroy(lists);
    lists = NULL;
    assert_true(refuse_sweep(scenario) > 20);
}

#define TEST(name)   cmocka_unit_test_setup_teardown(name, setup, teardown)
#define LATEST(name) cmocka_unit_test_setup_teardown(name, setup_latest, teardown_latest)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_list_is_answered_with_its_head_and_its_items),
        TEST(one_object_is_answered_or_not_found),
        TEST(head_is_answered_without_a_body),
        TEST(a_large_list_is_packed_when_that_is_asked_for),
        TEST(a_slow_client_costs_one_page_and_gets_one_state),
        TEST(a_body_that_cannot_be_finished_is_cut_off),
        TEST(what_the_reader_cannot_do_is_told_before_the_first_byte),
        TEST(a_revision_that_is_not_there_yet_is_waited_for),
        TEST(a_revision_that_does_not_come_is_too_large),
        TEST(a_revision_below_the_window_is_expired),
        TEST(an_api_server_s_sentences_say_that_a_list_is_expired),
        TEST(a_list_by_pages_is_one_state_whatever_happens_between),
        TEST(an_expired_token_is_answered_with_one_that_goes_on_inconsistently),
        TEST(a_token_of_a_past_that_was_cut_is_expired),
        TEST(a_token_that_is_none_or_of_another_list_is_refused),
        TEST(whatever_there_is_comes_without_a_limit),
        LATEST(the_latest_is_not_older_than_upstream_was),
        LATEST(a_version_of_an_api_server_that_is_not_there_yet_is_proven),
        LATEST(a_version_that_cannot_be_proven_is_too_large),
        LATEST(a_token_of_the_newest_goes_on_there),
        LATEST(what_upstream_says_to_the_question_is_told),
        LATEST(a_tier_that_upstream_refuses_says_how_to_list_on_an_open_listener),
        LATEST(who_is_gone_asks_no_more),
        TEST(the_state_of_a_watch_is_written_and_handed_back),
        TEST(a_state_that_fails_is_told_to_the_watch_which_keeps_its_exchange),
        TEST(a_state_that_is_cancelled_says_nothing_more),
        TEST(a_state_that_stops_finishes_the_line_that_it_is_inside_of),
        TEST(more_than_can_be_at_once_wait_in_order),
        TEST(who_waits_for_a_revision_holds_nobody_up),
        TEST(a_client_with_many_lists_leaves_places_to_others),
        TEST(who_does_not_read_is_cut_off_when_others_wait),
        TEST(lists_of_many_resources_share_their_places),
        TEST(who_waits_has_a_deadline),
        TEST(those_who_wait_are_bounded_in_number),
        TEST(lists_hold_no_more_than_the_share_of_their_client),
        TEST(at_the_end_each_is_told_and_pages_come_back_to_nobody),
        TEST(without_memory_a_list_fails_and_nothing_leaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
