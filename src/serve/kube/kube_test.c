/* src/serve/kube/kube_test.c: requests and watches on a real core, with exchanges, rights, fence and lists that the
 * test plays. */
#include "serve/kube/kube.h"

#include "base/clock.h"
#include "serve/kube/kube_fixture.h"
#include "support/fakeexchange.h"
#include "support/fakeshares.h"
#include "support/refuse.h"

#define PEERS   40
#define NOW     100000
#define WIDGETS "/apis/demo.example.com/v1/widgets"
#define IN_PROD "/apis/demo.example.com/v1/namespaces/prod/widgets"

/* ---- rights, as the test says ---- */

struct permit_question {
    permit_fn fn;
    void *user;
    char key[96], end[96], token[32], raw[32]; /* raw: the front of the key */
    bool canceled;
};

struct permit {
    bool closed;
    enum permit_regime regime; /* UNSURE: as OPEN */
    bool paused;
    struct permit_party *party; /* the newest */
    void (*listener)(void *user);
    void *listener_user;
    struct permit_question questions[4];
    size_t n;
    enum belfry_err err;
};

bool permit_is_open(struct permit *permit, uint64_t now_ms)
{
    assert_true(now_ms >= NOW);
    return !permit->closed;
}

static void copy(char *to, size_t room, struct belfry_bytes bytes)
{
    snprintf(to, room, "%.*s", (int)bytes.len, bytes.len == 0 ? "" : bytes.data);
}

bool permit_is_open_to(struct permit *permit, const struct identity *who, uint64_t now_ms)
{
    (void)who;
    return permit_is_open(permit, now_ms);
}

enum belfry_err permit_ask(struct permit *permit, const struct identity *who, struct belfry_bytes key,
                           struct belfry_bytes range_end, uint64_t now_ms, permit_fn fn, void *user,
                           struct permit_question **out)
{
    (void)now_ms;
    assert_true(permit->n < 4);
    if (permit->err != BELFRY_OK)
        return permit->err;
    struct permit_question *question = &permit->questions[permit->n++];
    *question = (struct permit_question){.fn = fn, .user = user};
    copy(question->key, sizeof(question->key), key);
    memcpy(question->raw, key.data, key.len < sizeof(question->raw) ? key.len : sizeof(question->raw));
    copy(question->end, sizeof(question->end), range_end);
    copy(question->token, sizeof(question->token), who->text);
    *out = question;
    return BELFRY_OK;
}

void permit_cancel(struct permit_question *question)
{
    question->canceled = true;
}

enum belfry_err permit_hold(struct permit *permit, struct permit_party *party, struct belfry_bytes key,
                            struct belfry_bytes range_end, uint64_t now_ms, permit_fn fn, void *user,
                            struct permit_question **out)
{
    assert_non_null(party->fn);
    return permit_ask(permit, party->who, key, range_end, now_ms, fn, user, out);
}

void permit_join(struct permit *permit, struct permit_party *party, const struct identity *who, permit_party_fn fn)
{
    *party = (struct permit_party){.who = who, .fn = fn};
    permit->party = party;
}

void permit_leave(struct permit *permit, struct permit_party *party)
{
    (void)permit;
    assert_non_null(party->fn);
    party->fn = NULL;
}

bool permit_may_deliver(const struct permit *permit, const struct permit_party *party, uint64_t now_ms)
{
    assert_true(now_ms >= NOW && party->fn != NULL);
    return !permit->paused;
}

enum permit_regime permit_regime(const struct permit *permit, const struct permit_party *party)
{
    (void)party;
    return permit->regime == PERMIT_ASKS ? PERMIT_ASKS : PERMIT_OPEN;
}

void permit_listen(struct permit *permit, void (*fn)(void *user), void *user)
{
    permit->listener = fn;
    permit->listener_user = user;
}

void permit_unlisten(struct permit *permit, const void *user)
{
    assert_ptr_equal(permit->listener_user, user);
    permit->listener = NULL;
}

/* ---- the fence ---- */

struct played_wait {
    struct fence_wait base;
    fence_fn fn;
    void *user;
};

struct played_fence {
    struct fence base;
    struct played_wait wait; /* fn NULL: nobody waits */
    enum belfry_err err;
};

static enum belfry_err played_fence_ask(struct fence *base, const struct identity *who, struct belfry_bytes key,
                                        fence_fn fn, void *user, struct fence_wait **out)
{
    struct played_fence *fence = (struct played_fence *)base;
    (void)who;
    (void)key;
    assert_null(fence->wait.fn);
    if (fence->err != BELFRY_OK)
        return fence->err;
    fence->wait = (struct played_wait){{base->api}, fn, user};
    *out = &fence->wait.base;
    return BELFRY_OK;
}

static void played_fence_cancel(struct fence_wait *wait)
{
    ((struct played_wait *)wait)->fn = NULL;
}

static const struct fence_api played_fence_api = {.ask = played_fence_ask, .cancel = played_fence_cancel};

static void fence_answer(struct played_fence *fence, enum belfry_err err, int64_t rev)
{
    struct played_wait wait = fence->wait;
    fence->wait.fn = NULL;
    assert_non_null(wait.fn);
    wait.fn(err, rev, wait.user);
}

/* ---- lists ---- */

struct kube_list {
    struct kube_list_ask ask;
    char namespace[32], name[32];
    bool canceled;
    bool half; /* of a line is out, and too much is missing */
};

struct kube_lists {
    struct kube_list list; /* the last one */
    unsigned begun;
    enum belfry_err err;
};

enum belfry_err kube_list_begin(struct kube_lists *lists, const struct kube_list_ask *ask, struct kube_list **out,
                                struct kube_status *status)
{
    if (lists->err == BELFRY_ERR_INVALID)
        kube_status_set(status, KUBE_BAD_REQUEST, "continue key is not valid");
    if (lists->err != BELFRY_OK)
        return lists->err;
    lists->begun++;
    lists->list = (struct kube_list){.ask = *ask};
    copy(lists->list.namespace, sizeof(lists->list.namespace), ask->namespace);
    copy(lists->list.name, sizeof(lists->list.name), ask->name);
    if (ask->as != KUBE_PAGE_EVENTS)
        exchange_answer(ask->x, 200, NULL, 0, belfry_bytes_str("a list"));
    *out = &lists->list;
    return BELFRY_OK;
}

bool kube_list_end_line(struct kube_list *list)
{
    assert_false(list->canceled);
    return !list->half;
}

void kube_list_cancel(struct kube_list *list)
{
    list->canceled = true;
}

/* ---- the bed ---- */

struct bed {
    struct evlog *log;
    struct worker *worker;
    struct kube_service *service;
    struct permit permit;
    struct played_fence fence;
    struct kube_lists lists;
    struct kube_resource *resource;
    struct kube_catalog *catalog;
    struct fakeexchange peers[PEERS];
    size_t n_peers;
    bool leaving;              /* requests come on connections that were told to leave */
    struct fakeshares *shares; /* that their connections join as `client`; NULL: none */
    const char *client;
    uint64_t now;
    int64_t head;
    size_t work;
    bool slow_history; /* of before the log's beginning */
};

static uint64_t bed_now(void *user)
{
    return ((struct bed *)user)->now;
}

static void bed_work(void *user)
{
    ((struct bed *)user)->work++;
}

static const struct kube_api_resource pods = {
    .group = "", .version = "v1", .plural = "pods", .singular = "pod", .kind = "Pod", .namespaced = true};

struct bed_opts {
    const struct kube_resource_opts *resource;
    const struct kube_api_resource *api; /* instead: of an API server */
    const char *scope;
    size_t memory_max;
    struct kube_room *room;
};

static enum belfry_err make_catalog(struct bed *bed, const struct bed_opts *opts)
{
    char *why = NULL;
    enum belfry_err err = opts->api != NULL ? kube_resource_of_api(opts->api, &bed->resource)
                                            : widgets_read(opts->resource, &bed->resource);
    if (err == BELFRY_OK)
        err = kube_catalog_make(&bed->resource, 1, &bed->catalog, &why);
    free(why);
    return err;
}

static enum belfry_err make_core(struct bed *bed)
{
    struct evlog_opts log_opts = {.capacity_log2 = 8, .max_bytes = (size_t)1 << 30, .n_workers = 1};
    enum belfry_err err = evlog_create(&log_opts, &bed->log);
    if (err == BELFRY_OK)
        err = evlog_cut(bed->log, bed->head, EVLOG_CUT_START, 0);
    struct worker_opts opts = {.log = bed->log,
                               .seed = 1,
                               .fragment_bytes = 2 << 20,
                               .response_bytes = 1 << 20,
                               .response_revs = 1000,
                               .segment_bytes = 8 << 20,
                               .attribute = kube_attribute,
                               .attribute_user = bed->service};
    return err != BELFRY_OK ? err : worker_create(&opts, &bed->worker);
}

static void bed_close(struct bed *bed)
{
    kube_destroy(bed->service);
    worker_destroy(bed->worker);
    evlog_destroy(bed->log);
    kube_catalog_unref(bed->catalog);
    kube_resource_unref(bed->resource);
    for (size_t i = 0; i < bed->n_peers; i++) {
        shares_leave(&bed->peers[i].conn.share); /* it asserts that nothing is held */
        fakeexchange_fini(&bed->peers[i]);
    }
}

static enum belfry_err bed_open_as(struct bed *bed, const struct bed_opts *opts)
{
    *bed = (struct bed){.now = NOW, .head = 10, .fence.base.api = &played_fence_api};
    struct kube_service_opts kube_opts = {.permit = &bed->permit,
                                          .fence = &bed->fence.base,
                                          .lists = &bed->lists,
                                          .now = bed_now,
                                          .work = bed_work,
                                          .user = bed,
                                          .seed = 5,
                                          .scope = belfry_bytes_str(opts->scope),
                                          .memory_max = opts->memory_max,
                                          .room = opts->room,
                                          .rights = opts->api != NULL ? KUBE_RIGHTS_REVIEW : KUBE_RIGHTS_RANGE};
    enum belfry_err err = make_catalog(bed, opts);
    if (err == BELFRY_OK)
        err = kube_create(&kube_opts, &bed->service);
    if (err == BELFRY_OK)
        err = make_core(bed);
    if (err != BELFRY_OK)
        return err;
    kube_set_worker(bed->service, bed->worker);
    kube_set_catalog(bed->service, bed->catalog, KUBE_CATALOG_WHOLE);
    kube_stand(bed->service, true, "");
    worker_turn(bed->worker, bed->now, 100);
    return BELFRY_OK;
}

static enum belfry_err bed_open_scoped(struct bed *bed, const struct kube_resource_opts *resource, const char *scope)
{
    return bed_open_as(bed, &(struct bed_opts){.resource = resource, .scope = scope});
}

static enum belfry_err bed_open(struct bed *bed)
{
    return bed_open_scoped(bed, NULL, "");
}

/* What the core has for itself is not counted. */
static enum belfry_err bed_open_limited(struct bed *bed, size_t more_than_core)
{
    struct worker_stats core;
    enum belfry_err err = bed_open(bed);
    if (err != BELFRY_OK)
        return err;
    worker_stats(bed->worker, &core);
    bed_close(bed);
    return bed_open_as(bed, &(struct bed_opts){.scope = "", .memory_max = core.bytes + more_than_core});
}

#define BED(name)                                                                                                      \
    struct bed name;                                                                                                   \
    assert_int_equal(bed_open(&name), BELFRY_OK)

#define FIRST_REV 10 /* what the log begins behind */

/* A watch wants the revision that its client has seen, too. Nothing of ours has happened in the first, and those before
 * have been compacted. */
static bool answer_fetch(struct bed *bed)
{
    struct segment_builder nothing;
    struct segment *segment = NULL;
    struct worker_fetch fetch;
    enum belfry_err err = BELFRY_ERR_COMPACTED;
    if (!worker_wants_fetch(bed->worker, &fetch) || (fetch.from != FIRST_REV && bed->slow_history))
        return false;
    segment_begin(&nothing);
    if (fetch.from == FIRST_REV)
        err = segment_finish(&nothing, fetch.past, fetch.from, fetch.from, &segment);
    worker_fetched(bed->worker, &fetch, err, segment, FIRST_REV - 1, FIRST_REV + 1);
    return true;
}

/* Turns until there is nothing to do. */
static void run(struct bed *bed)
{
    for (int turns = 0; turns < 10000; turns++) {
        bed->work = 0;
        bool more = worker_turn(bed->worker, bed->now, 100000) || answer_fetch(bed);
        kube_after_turn(bed->service, bed->now);
        if (!more && bed->work == 0 && kube_due(bed->service) > bed->now && worker_due(bed->worker) > bed->now)
            return;
    }
    fail_msg("there is always work");
}

/* Time passes, and whatever is due in it happens when it is. */
static void pass(struct bed *bed, uint64_t ms)
{
    uint64_t end = bed->now + ms;
    run(bed);
    for (;;) {
        uint64_t due = belfry_min_time(kube_due(bed->service), worker_due(bed->worker));
        if (due > end)
            break;
        bed->now = due;
        run(bed);
    }
    bed->now = end;
    run(bed);
}

static struct fakeexchange *ask_with(struct bed *bed, const char *method, const char *path, const char *const *fields)
{
    struct fakeexchange *fake = &bed->peers[bed->n_peers++];
    struct fakeexchange_head head;
    assert_true(bed->n_peers <= PEERS);
    fakeexchange_init(fake, EXCHANGE_ROOM);
    fake->conn.leaving = bed->leaving;
    if (bed->shares != NULL)
        fakeshares_join(bed->shares, &fake->conn, bed->client);
    fakeexchange_head(&head, method, path, fields);
    kube_begin(bed->service, &fake->x, &head.head, bed->now);
    return fake;
}

static struct fakeexchange *get(struct bed *bed, const char *path)
{
    return ask_with(bed, "GET", path, NULL);
}

static void change_several(struct bed *bed, const struct widget_event *events, uint32_t n)
{
    struct batch *batch;
    int64_t rev = ++bed->head;
    assert_int_equal(widget_batch(rev, events, n, &batch), BELFRY_OK);
    evlog_committed(bed->log, rev - 1);
    assert_int_equal(evlog_append(bed->log, batch), BELFRY_OK);
    evlog_committed(bed->log, rev);
}

static void change(struct bed *bed, const struct widget_event *event)
{
    change_several(bed, event, 1);
}

static void put(struct bed *bed, const char *name, const char *value, const char *before)
{
    char key[128];
    snprintf(key, sizeof(key), WIDGETS_PREFIX "%s", name);
    change(bed, &(struct widget_event){key, value, before, false});
}

#define WIDGET(color, node) "{\"metadata\":{\"labels\":{\"color\":\"" color "\"}},\"spec\":{\"node\":\"" node "\"}}"
#define RED                 WIDGET("red", "n1")
#define BLUE                WIDGET("blue", "n2")

static struct belfry_bytes body_of(const struct fakeexchange *fake)
{
    return belfry_buf_bytes(&fake->body);
}

/* The body, which is then taken, has this text somewhere. */
static void assert_says(struct fakeexchange *fake, const char *text)
{
    struct belfry_bytes body = body_of(fake);
    if (body.len == 0 || memmem(body.data, body.len, text, strlen(text)) == NULL)
        fail_msg("no \"%s\" in \"%.*s\"", text, (int)body.len, body.len == 0 ? "" : body.data);
    belfry_buf_clear(&fake->body);
}

/* One line, of this type, about this object at this revision. */
static void assert_line(struct fakeexchange *fake, const char *type, const char *name, int64_t rev)
{
    struct belfry_bytes body = body_of(fake);
    char start[64], named[64], at[64];
    const char *end = body.len == 0 ? NULL : memchr(body.data, '\n', body.len);
    assert_non_null(end);
    size_t len = (size_t)(end - body.data) + 1;
    snprintf(start, sizeof(start), "{\"type\":\"%s\",\"object\":{", type);
    snprintf(named, sizeof(named), "\"name\":\"%s\"", name);
    snprintf(at, sizeof(at), "\"resourceVersion\":\"%lld\"", (long long)rev);
    if (!belfry_bytes_begins(body, belfry_bytes_str(start)) || memmem(body.data, len, named, strlen(named)) == NULL ||
        memmem(body.data, len, at, strlen(at)) == NULL)
        fail_msg("not %s %s %lld: %.*s", type, name, (long long)rev, (int)len, body.data);
    belfry_buf_take(&fake->body, len);
}

static void assert_silent(const struct fakeexchange *fake)
{
    struct belfry_bytes body = body_of(fake);
    assert_int_equal(fake->state, FAKEEXCHANGE_OPEN);
    if (body.len > 0)
        fail_msg("it says %.*s", (int)body.len, body.data);
}

static void assert_ended(const struct fakeexchange *fake)
{
    assert_int_equal(fake->state, FAKEEXCHANGE_ENDED);
    assert_false(fake->whole);
    assert_int_equal(body_of(fake).len, 0);
}

static void assert_status(struct fakeexchange *fake, int code, const char *reason)
{
    char text[64];
    assert_int_equal(fake->status, code);
    assert_int_equal(fake->state, FAKEEXCHANGE_ENDED);
    assert_string_equal(fakeexchange_field(fake, "content-type"), "application/json");
    assert_string_equal(fakeexchange_field(fake, "cache-control"), "no-cache, private");
    snprintf(text, sizeof(text), "\"reason\":\"%s\"", reason);
    assert_says(fake, text);
}

static struct kube_stats stats_of(const struct bed *bed)
{
    struct kube_stats stats;
    kube_stats(bed->service, &stats);
    return stats;
}

/* ---- what is asked for ---- */

static void faults_are_answered_with_a_status(void **state)
{
    (void)state;
    BED(bed);
    assert_status(get(&bed, "/apis/demo.example.com/v1/gadgets"), 404, "NotFound");
    assert_status(get(&bed, "/apis/demo.example.com/v2/widgets"), 404, "NotFound");
    assert_status(get(&bed, "/apis/elsewhere.example.com/v1"), 404, "NotFound");
    assert_status(get(&bed, "/openapi/v2"), 404, "NotFound");
    assert_status(get(&bed, WIDGETS "/a"), 404, "NotFound"); /* a name, and no namespace */
    assert_status(get(&bed, IN_PROD "/a/scale"), 404, "NotFound");
    assert_status(get(&bed, WIDGETS "?labelSelector=a%3D%3D%3D"), 400, "BadRequest");
    assert_status(get(&bed, WIDGETS "?limit=abc"), 400, "BadRequest");
    assert_status(get(&bed, WIDGETS "?watch=1&sendInitialEvents=true"), 422, "Invalid");
    struct fakeexchange *peer = ask_with(&bed, "POST", IN_PROD, NULL);
    assert_string_equal(fakeexchange_field(peer, "allow"), "GET, HEAD");
    assert_status(peer, 405, "MethodNotAllowed");
    assert_status(ask_with(&bed, "DELETE", "/apis", NULL), 405, "MethodNotAllowed");
    const char *const xml[] = {"accept: application/xml", NULL};
    assert_status(ask_with(&bed, "GET", WIDGETS, xml), 406, "NotAcceptable");
    assert_status(ask_with(&bed, "GET", "/apis", xml), 406, "NotAcceptable");
    assert_int_equal(bed.lists.begun, 0);
    bed_close(&bed);
}

static void list_is_handed_on_with_what_it_asks(void **state)
{
    (void)state;
    BED(bed);
    const char *const fields[] = {"accept: application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
                                  "accept-encoding: gzip", NULL};
    struct fakeexchange *peer = ask_with(&bed, "GET", IN_PROD "?limit=500&labelSelector=color%3Dred", fields);
    assert_says(peer, "a list");
    const struct kube_list *list = &bed.lists.list;
    assert_int_equal(list->ask.as, KUBE_PAGE_ITEMS);
    assert_int_equal(list->ask.view, KUBE_VIEW_TABLE);
    assert_int_equal(list->ask.plan.read, KUBE_READ_LATEST);
    assert_int_equal(list->ask.plan.limit, 500);
    assert_true(list->ask.gzip && list->ask.selector != NULL);
    assert_string_equal(list->namespace, "prod");
    get(&bed, IN_PROD "/a?resourceVersion=0");
    assert_int_equal(list->ask.as, KUBE_PAGE_OBJECT);
    assert_int_equal(list->ask.plan.read, KUBE_READ_ANY);
    assert_string_equal(list->name, "a");
    ask_with(&bed, "HEAD", IN_PROD "/a", NULL);
    assert_true(list->ask.head_only);
    bed_close(&bed);
}

static void selected_names_narrow_what_is_read(void **state)
{
    (void)state;
    BED(bed);
    get(&bed, IN_PROD "?fieldSelector=metadata.name%3Da");
    assert_string_equal(bed.lists.list.name, "a");
    get(&bed, WIDGETS "?fieldSelector=metadata.namespace%3Dprod");
    assert_string_equal(bed.lists.list.namespace, "prod");
    get(&bed, WIDGETS "?fieldSelector=metadata.name%3Da"); /* in any namespace: there is no such key */
    assert_string_equal(bed.lists.list.name, "");
    bed_close(&bed);
}

static void lists_that_are_refused_say_why(void **state)
{
    (void)state;
    BED(bed);
    bed.lists.err = BELFRY_ERR_LIMIT;
    struct fakeexchange *peer = get(&bed, WIDGETS);
    assert_string_equal(fakeexchange_field(peer, "retry-after"), "1");
    assert_status(peer, 429, "TooManyRequests");
    bed.lists.err = BELFRY_ERR_INVALID;
    assert_status(get(&bed, WIDGETS "?continue=x"), 400, "BadRequest");
    assert_int_equal(stats_of(&bed).too_many, 1);
    bed_close(&bed);
}

static void discovery_is_answered_in_both_forms(void **state)
{
    (void)state;
    BED(bed);
    const char *const v2[] = {"accept: application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList", NULL};
    struct fakeexchange *peer = ask_with(&bed, "GET", "/apis?timeout=32s", v2);
    assert_string_equal(fakeexchange_field(peer, "content-type"),
                        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList");
    char etag[64], again[96];
    snprintf(etag, sizeof(etag), "%s", fakeexchange_field(peer, "etag"));
    assert_says(peer, "\"APIGroupDiscoveryList\"");
    snprintf(again, sizeof(again), "if-none-match: %s", etag);
    const char *const known[] = {v2[0], again, NULL};
    peer = ask_with(&bed, "GET", "/apis", known);
    assert_int_equal(peer->status, 304);
    peer = get(&bed, "/apis/");
    assert_string_equal(fakeexchange_field(peer, "content-type"), "application/json");
    assert_says(peer, "\"APIGroupList\"");
    assert_says(get(&bed, "/apis/demo.example.com/v1"), "\"APIResourceList\"");
    assert_int_equal(body_of(ask_with(&bed, "HEAD", "/apis", NULL)).len, 0);
    bed_close(&bed);
}

static void probes_say_how_the_tier_stands(void **state)
{
    (void)state;
    BED(bed);
    assert_says(get(&bed, "/readyz"), "ok");
    assert_says(get(&bed, "/readyz?verbose"), "[+]upstream ok\nreadyz check passed\n");
    kube_stand(bed.service, false, "no news");
    struct fakeexchange *peer = get(&bed, "/readyz");
    assert_int_equal(peer->status, 500);
    assert_says(peer, "[-]upstream failed: no news\nreadyz check failed\n");
    assert_int_equal(get(&bed, "/livez")->status, 200);
    bed_close(&bed);
}

static void only_its_own_paths_are_taken(void **state)
{
    (void)state;
    static const char *const ours[] = {"/api", "/apis", "/apis/", "/apis/g/v", "/openapi/v3", "/healthz", "/livez"};
    static const char *const others[] = {"/", "", "/apish", "/health", "/version", "/v3/watch", "/livez/x"};
    for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++)
        assert_true(kube_is(belfry_bytes_str(ours[i])));
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        assert_false(kube_is(belfry_bytes_str(others[i])));
}

static void range_outside_of_what_is_followed_is_refused(void **state)
{
    (void)state;
    struct bed bed;
    assert_int_equal(bed_open_scoped(&bed, NULL, "/elsewhere/"), BELFRY_OK);
    assert_status(get(&bed, WIDGETS), 403, "Forbidden");
    bed_close(&bed);
}

/* ---- watching ---- */

static void watch_gives_changes_above_its_revision(void **state)
{
    (void)state;
    BED(bed);
    put(&bed, "prod/old", RED, NULL);
    run(&bed);
    struct fakeexchange *peer = get(&bed, WIDGETS "?watch=true&resourceVersion=11");
    assert_int_equal(peer->status, 200); /* at once */
    assert_string_equal(fakeexchange_field(peer, "content-type"), "application/json");
    assert_null(fakeexchange_field(peer, "content-length"));
    run(&bed);
    assert_silent(peer);
    put(&bed, "prod/a", RED, NULL);
    put(&bed, "prod/a", BLUE, RED);
    put(&bed, "test/b", RED, NULL);
    put(&bed, "prod/a", NULL, BLUE);
    run(&bed);
    assert_line(peer, "ADDED", "a", 12);
    assert_line(peer, "MODIFIED", "a", 13);
    assert_line(peer, "ADDED", "b", 14);
    assert_line(peer, "DELETED", "a", 15);
    assert_silent(peer);
    assert_int_equal(stats_of(&bed).watches, 1);
    assert_int_equal(stats_of(&bed).lines, 4);
    bed_close(&bed);
}

static void namespace_and_name_narrow_a_watch(void **state)
{
    (void)state;
    BED(bed);
    struct fakeexchange *prod = get(&bed, IN_PROD "?watch=1&resourceVersion=10");
    struct fakeexchange *one = get(&bed, IN_PROD "?watch=1&resourceVersion=10&fieldSelector=metadata.name%3Da");
    put(&bed, "prod/a", RED, NULL);
    put(&bed, "prod/ab", RED, NULL);
    put(&bed, "prod2/a", RED, NULL);
    run(&bed);
    assert_line(prod, "ADDED", "a", 11);
    assert_line(prod, "ADDED", "ab", 12);
    assert_silent(prod);
    assert_line(one, "ADDED", "a", 11);
    assert_silent(one);
    assert_int_equal(stats_of(&bed).forms_made, 2); /* one for each event that somebody watches */
    bed_close(&bed);
}

static void template_that_mixes_namespaces_is_filtered(void **state)
{
    (void)state;
    struct bed bed;
    const struct kube_resource_opts opts = {.wrap_key = "{name}/{namespace}"};
    assert_int_equal(bed_open_scoped(&bed, &opts, ""), BELFRY_OK);
    struct fakeexchange *prod = get(&bed, IN_PROD "?watch=1&resourceVersion=10");
    put(&bed, "a/test", "{}", NULL);
    put(&bed, "a/prod", "{}", NULL);
    run(&bed);
    assert_line(prod, "ADDED", "a", 12);
    assert_silent(prod);
    bed_close(&bed);
}

static void selector_sees_objects_come_and_go(void **state)
{
    (void)state;
    static const char *const selectors[] = {"labelSelector=color%3Dred", "fieldSelector=spec.node%3Dn1",
                                            "labelSelector=color%21%3Dblue"};
    for (size_t i = 0; i < 3; i++) { /* a label that is pinned, a field that is, and what cannot be */
        BED(bed);
        char path[128];
        snprintf(path, sizeof(path), WIDGETS "?watch=1&resourceVersion=10&%s", selectors[i]);
        struct fakeexchange *peer = get(&bed, path);
        put(&bed, "prod/a", BLUE, NULL);
        put(&bed, "prod/a", RED, BLUE);
        put(&bed, "prod/a", RED, RED);
        put(&bed, "prod/a", BLUE, RED);
        put(&bed, "prod/a", NULL, BLUE);
        run(&bed);
        assert_line(peer, "ADDED", "a", 12);
        assert_line(peer, "MODIFIED", "a", 13);
        assert_says(peer,
                    "{\"type\":\"DELETED\",\"object\":{\"apiVersion\":\"demo.example.com/v1\",\"kind\":\"Widget\","
                    "\"metadata\":{\"resourceVersion\":\"14\"");
        assert_silent(peer);
        bed_close(&bed);
    }
}

static void equal_lines_are_made_once(void **state)
{
    (void)state;
    BED(bed);
    for (int i = 0; i < 20; i++)
        get(&bed, WIDGETS "?watch=1&resourceVersion=10");
    put(&bed, "prod/a", RED, NULL);
    run(&bed);
    for (size_t i = 0; i < 20; i++)
        assert_line(&bed.peers[i], "ADDED", "a", 11);
    assert_int_equal(stats_of(&bed).forms_made, 1);
    bed_close(&bed);
}

static void pinned_watches_are_not_visited_for_other_values(void **state)
{
    (void)state;
    BED(bed);
    for (int i = 0; i < 20; i++) {
        char path[128];
        snprintf(path, sizeof(path), WIDGETS "?watch=1&resourceVersion=10&fieldSelector=spec.node%%3Dn%d", i);
        get(&bed, path);
    }
    put(&bed, "prod/a", RED, NULL);
    run(&bed);
    assert_silent(&bed.peers[0]);
    assert_line(&bed.peers[1], "ADDED", "a", 11);
    assert_int_equal(stats_of(&bed).forms_made, 1);
    assert_true(stats_of(&bed).forms_shared < 5); /* looked at for its value, and for the one who is told */
    bed_close(&bed);
}

static void table_has_its_columns_once(void **state)
{
    (void)state;
    BED(bed);
    const char *const fields[] = {"accept: application/json;as=Table;v=v1;g=meta.k8s.io", NULL};
    struct fakeexchange *peer = ask_with(&bed, "GET", WIDGETS "?watch=1&resourceVersion=10", fields);
    put(&bed, "prod/a", RED, NULL);
    run(&bed);
    assert_says(peer, "\"columnDefinitions\":[{");
    put(&bed, "prod/b", RED, NULL);
    run(&bed);
    assert_says(peer, "\"columnDefinitions\":null");
    bed_close(&bed);
}

static void undecodable_object_is_not_there(void **state)
{
    (void)state;
    BED(bed);
    struct fakeexchange *peer = get(&bed, WIDGETS "?watch=1&resourceVersion=10");
    put(&bed, "prod/a", "no JSON", NULL);
    put(&bed, "prod/a", RED, "no JSON");
    put(&bed, "prod/a", "no JSON", RED);
    run(&bed);
    assert_line(peer, "ADDED", "a", 12);
    assert_line(peer, "DELETED", "a", 13);
    assert_silent(peer);
    assert_int_equal(stats_of(&bed).undecodable, 3);
    bed_close(&bed);
}

static void slow_watcher_is_given_everything_when_it_reads_again(void **state)
{
    (void)state;
    BED(bed);
    struct fakeexchange *peer = get(&bed, WIDGETS "?watch=1&resourceVersion=10");
    run(&bed);
    peer->room = 0;
    fakeexchange_make_room(peer, 0);
    char name[32];
    for (int i = 0; i < 100; i++) {
        snprintf(name, sizeof(name), "prod/w%d", i);
        put(&bed, name, RED, NULL);
        run(&bed);
    }
    assert_silent(peer);
    for (int turns = 0; turns < 1000 && stats_of(&bed).lines < 100; turns++) {
        fakeexchange_make_room(peer, 300);
        run(&bed);
    }
    fakeexchange_make_room(peer, EXCHANGE_ROOM);
    run(&bed);
    for (int i = 0; i < 100; i++) {
        snprintf(name, sizeof(name), "w%d", i);
        assert_line(peer, "ADDED", name, 11 + i);
    }
    assert_silent(peer);
    bed_close(&bed);
}

static void watches_are_counted_apart_by_how_they_stand(void **state)
{
    (void)state;
    BED(bed);
    struct fakeexchange *parked = get(&bed, WIDGETS "?watch=1&resourceVersion=10");
    struct fakeexchange *gone = get(&bed, WIDGETS "?watch=1&resourceVersion=10");
    run(&bed);
    get(&bed, WIDGETS "?watch=1&resourceVersion=5"); /* for which history is asked for */
    bed.slow_history = true;
    run(&bed);
    parked->room = 0;
    fakeexchange_make_room(parked, 0);
    put(&bed, "prod/a", RED, NULL);
    run(&bed);
    struct worker_stats core;
    worker_stats(bed.worker, &core);
    assert_true(core.lines[LINES_BY_EVENT].synced == 1 && core.lines[LINES_BY_EVENT].catching_up == 1 &&
                core.lines[LINES_BY_EVENT].parked == 1);
    assert_true(core.lines[LINES_INWARD].synced == 0 && core.lines[LINES_INWARD].catching_up == 0 &&
                core.lines[LINES_INWARD].parked == 0);
    fakeexchange_gone(gone);
    fakeexchange_make_room(parked, EXCHANGE_ROOM);
    run(&bed);
    worker_stats(bed.worker, &core);
    assert_true(core.lines[LINES_BY_EVENT].synced == 1 && core.lines[LINES_BY_EVENT].catching_up == 1 &&
                core.lines[LINES_BY_EVENT].parked == 0);
    bed_close(&bed);
}

/* ---- where a watch begins ---- */

static void state_comes_first_and_its_end_is_marked(void **state)
{
    (void)state;
    BED(bed);
    struct fakeexchange *peer = get(&bed, WIDGETS "?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
                                                  "&allowWatchBookmarks=true");
    const struct kube_list_ask *ask = &bed.lists.list.ask;
    assert_int_equal(peer->status, 200);
    assert_int_equal(ask->as, KUBE_PAGE_EVENTS);
    assert_int_equal(ask->plan.read, KUBE_READ_LATEST);
    put(&bed, "prod/a", RED, NULL); /* in the state */
    run(&bed);
    exchange_write(&peer->x, "state\n", 6);
    ask->done(ask->user, BELFRY_OK, NULL, 11);
    put(&bed, "prod/b", RED, NULL);
    run(&bed);
    struct belfry_bytes body = body_of(peer);
    assert_true(belfry_bytes_begins(body, belfry_bytes_str("state\n{\"type\":\"BOOKMARK\"")));
    assert_non_null(memmem(body.data, body.len, "\"k8s.io/initial-events-end\":\"true\"", 34));
    belfry_buf_take(&peer->body, (size_t)((const char *)memchr(body.data + 6, '\n', body.len - 6) - body.data) + 1);
    assert_line(peer, "ADDED", "b", 12);
    assert_silent(peer);
    bed_close(&bed);
}

static void state_without_bookmarks_has_no_mark(void **state)
{
    (void)state;
    BED(bed);
    struct fakeexchange *peer = get(&bed, WIDGETS "?watch=1&resourceVersion=0");
    const struct kube_list_ask *ask = &bed.lists.list.ask;
    assert_int_equal(ask->plan.read, KUBE_READ_ANY);
    ask->done(ask->user, BELFRY_OK, NULL, 10);
    run(&bed);
    assert_silent(peer);
    put(&bed, "prod/b", RED, NULL);
    run(&bed);
    assert_line(peer, "ADDED", "b", 11);
    bed_close(&bed);
}

static void state_that_fails_is_told_in_the_stream(void **state)
{
    (void)state;
    BED(bed);
    struct fakeexchange *peer = get(&bed, WIDGETS "?watch=1");
    struct kube_status status;
    kube_status_too_large(&status, 999, 10);
    const struct kube_list_ask *ask = &bed.lists.list.ask;
    ask->done(ask->user, BELFRY_ERR_TIMEOUT, &status, 0);
    assert_says(peer, "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\"");
    assert_ended(peer);
    peer = get(&bed, WIDGETS "?watch=1");
    peer->x.events = NULL; /* its connection is lost, and the list hears of it */
    peer->state = FAKEEXCHANGE_GONE;
    ask->done(ask->user, BELFRY_ERR_CANCELED, NULL, 0);
    assert_int_equal(stats_of(&bed).watches, 0);
    bed.lists.err = BELFRY_ERR_LIMIT;
    peer = get(&bed, WIDGETS "?watch=1");
    assert_says(peer, "\"code\":429");
    assert_ended(peer);
    bed_close(&bed);
}

static void watch_from_where_upstream_is_asks_it(void **state)
{
    (void)state;
    BED(bed);
    const char *path = WIDGETS "?watch=1&sendInitialEvents=false&resourceVersionMatch=NotOlderThan";
    struct fakeexchange *peer = get(&bed, path);
    assert_int_equal(peer->status, 0); /* who has seen the head expects every change from then on */
    fence_answer(&bed.fence, BELFRY_OK, 12);
    assert_int_equal(peer->status, 200);
    put(&bed, "prod/a", RED, NULL);
    put(&bed, "prod/b", RED, NULL);
    put(&bed, "prod/c", RED, NULL);
    run(&bed);
    assert_line(peer, "ADDED", "c", 13);
    assert_silent(peer);
    peer = get(&bed, path);
    fence_answer(&bed.fence, BELFRY_ERR_TIMEOUT, 0);
    assert_says(peer, "\"code\":504");
    assert_ended(peer);
    peer = get(&bed, path);
    fence_answer(&bed.fence, BELFRY_ERR_DENIED, 0);
    assert_says(peer, "\"code\":403");
    assert_ended(peer);
    peer = get(&bed, path);
    fakeexchange_gone(peer);
    assert_null(bed.fence.wait.fn);
    bed_close(&bed);
}

static void watch_from_now_on_is_given_what_comes(void **state)
{
    (void)state;
    BED(bed);
    put(&bed, "prod/a", RED, NULL);
    run(&bed);
    struct fakeexchange *peer =
        get(&bed, WIDGETS "?watch=1&resourceVersion=0&sendInitialEvents=false&resourceVersionMatch=NotOlderThan");
    put(&bed, "prod/b", RED, NULL);
    run(&bed);
    assert_line(peer, "ADDED", "b", 12);
    assert_silent(peer);
    bed_close(&bed);
}

static void watch_in_the_future_is_silent_until_then(void **state)
{
    (void)state;
    BED(bed);
    struct fakeexchange *peer = get(&bed, WIDGETS "?watch=1&resourceVersion=11");
    struct fakeexchange *never = get(&bed, WIDGETS "?watch=1&resourceVersion=9223372036854775807");
    put(&bed, "prod/a", RED, NULL);
    put(&bed, "prod/b", RED, NULL);
    run(&bed);
    assert_line(peer, "ADDED", "b", 12);
    assert_silent(peer);
    assert_int_equal(never->status, 200);
    assert_silent(never);
    bed_close(&bed);
}

static void head_of_a_watch_has_no_body(void **state)
{
    (void)state;
    BED(bed);
    struct fakeexchange *peer = ask_with(&bed, "HEAD", WIDGETS "?watch=1&resourceVersion=10", NULL);
    assert_int_equal(peer->status, 200);
    assert_int_equal(peer->state, FAKEEXCHANGE_ENDED);
    assert_int_equal(stats_of(&bed).watches, 0);
    bed_close(&bed);
}

/* ---- how a watch ends ---- */

static void the_oldest_version_that_is_named_is_above_the_one_that_is_too_old(void **state)
{
    (void)state;
    BED(bed);
    struct fakeexchange *peer = get(&bed, WIDGETS "?watch=1&resourceVersion=8");
    run(&bed);
    assert_says(peer, "too old resource version: 8 (9)");
    assert_ended(peer);
    bed_close(&bed);
}

static void what_is_too_old_is_told_so_and_ends(void **state)
{
    (void)state;
    BED(bed);
    struct fakeexchange *peer = get(&bed, WIDGETS "?watch=1&resourceVersion=5");
    run(&bed);
    assert_int_equal(peer->status, 200);
    assert_says(peer, "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},"
                      "\"status\":\"Failure\",\"message\":\"too old resource version: 5 (9)\",\"reason\":\"Expired\","
                      "\"code\":410}}\n");
    assert_ended(peer);
    assert_int_equal(stats_of(&bed).expired, 1);
    assert_int_equal(stats_of(&bed).watches, 0);
    bed_close(&bed);
}

static void forgotten_previous_value_loses_who_needs_it(void **state)
{
    (void)state;
    BED(bed);
    struct fakeexchange *all = get(&bed, WIDGETS "?watch=1&resourceVersion=10");
    struct fakeexchange *red = get(&bed, WIDGETS "?watch=1&resourceVersion=10&labelSelector=color%3Dred");
    change(&bed, &(struct widget_event){WIDGETS_PREFIX "prod/a", BLUE, NULL, true});
    run(&bed);
    assert_line(all, "MODIFIED", "a", 11);
    assert_silent(all);
    assert_says(red, "\"reason\":\"Expired\"");
    assert_ended(red);
    change(&bed, &(struct widget_event){WIDGETS_PREFIX "prod/a", NULL, NULL, true});
    run(&bed);
    assert_says(all, "\"reason\":\"Expired\"");
    assert_ended(all);
    bed_close(&bed);
}

/* Of a transaction that no API server writes: the object is relabelled and deleted. Nobody keeps it. */
static void object_that_a_revision_relabels_and_deletes_stays_with_nobody(void **state)
{
    (void)state;
    BED(bed);
    static const char *const watched[] = {"", "&labelSelector=color%3Dred", "&labelSelector=color%3Dblue",
                                          "&labelSelector=color%21%3Dred"};
    struct fakeexchange *peers[4];
    for (size_t i = 0; i < 4; i++) {
        char path[200];
        snprintf(path, sizeof(path), WIDGETS "?watch=1&resourceVersion=10%s", watched[i]);
        peers[i] = get(&bed, path);
    }
    const struct widget_event events[] = {{WIDGETS_PREFIX "prod/a", BLUE, RED, false},
                                          {WIDGETS_PREFIX "prod/a", NULL, RED, false}};
    change_several(&bed, events, 2);
    run(&bed);
    assert_line(peers[0], "MODIFIED", "a", 11);
    assert_line(peers[0], "DELETED", "a", 11);
    assert_line(peers[1], "DELETED", "a", 11);
    for (size_t i = 2; i < 4; i++) {
        assert_line(peers[i], "ADDED", "a", 11);
        assert_line(peers[i], "DELETED", "a", 11);
    }
    for (size_t i = 0; i < 4; i++)
        assert_silent(peers[i]);
    bed_close(&bed);
}

static void forgotten_previous_value_where_a_watch_resumes_loses_nobody(void **state)
{
    (void)state;
    BED(bed);
    const struct widget_event events[] = {{WIDGETS_PREFIX "prod/a", BLUE, NULL, true},
                                          {WIDGETS_PREFIX "prod/b", NULL, NULL, true},
                                          {WIDGETS_PREFIX "prod/c", RED, NULL, true}};
    struct batch *batch;
    assert_int_equal(widget_batch(++bed.head, events, 3, &batch), BELFRY_OK);
    assert_int_equal(evlog_append(bed.log, batch), BELFRY_OK);
    evlog_committed(bed.log, bed.head);
    run(&bed);
    struct fakeexchange *all = get(&bed, WIDGETS "?watch=1&resourceVersion=11");
    struct fakeexchange *red = get(&bed, WIDGETS "?watch=1&resourceVersion=11&labelSelector=color%3Dred");
    run(&bed);
    assert_line(all, "MODIFIED", "a", 11);
    assert_line(all, "DELETED", "b", 11);
    assert_line(all, "MODIFIED", "c", 11);
    assert_line(red, "DELETED", "a", 11);
    assert_line(red, "DELETED", "b", 11);
    assert_line(red, "MODIFIED", "c", 11);
    assert_silent(all);
    assert_silent(red);
    bed_close(&bed);
}

static void bookmarks_come_every_minute_and_before_the_end(void **state)
{
    (void)state;
    BED(bed);
    struct fakeexchange *peer =
        get(&bed, WIDGETS "?watch=1&resourceVersion=10&allowWatchBookmarks=true&timeoutSeconds=100");
    struct fakeexchange *plain = get(&bed, WIDGETS "?watch=1&resourceVersion=10&timeoutSeconds=100");
    pass(&bed, 59000);
    assert_silent(peer);
    change(&bed, &(struct widget_event){"/elsewhere", "x", NULL, false});
    pass(&bed, 8000);
    assert_says(peer, "{\"type\":\"BOOKMARK\",\"object\":{\"");
    assert_int_equal(stats_of(&bed).bookmarks, 1);
    pass(&bed, 30900);
    assert_silent(peer);
    pass(&bed, 200); /* 1.9 s before its end */
    assert_says(peer, "\"resourceVersion\":\"11\"");
    assert_silent(plain);
    pass(&bed, 1900);
    assert_ended(peer);
    assert_ended(plain);
    assert_int_equal(stats_of(&bed).bookmarks, 2);
    bed_close(&bed);
}

static void stale_tier_has_no_bookmarks(void **state)
{
    (void)state;
    BED(bed);
    struct fakeexchange *peer = get(&bed, WIDGETS "?watch=1&resourceVersion=10&allowWatchBookmarks=true");
    run(&bed);
    kube_stand(bed.service, false, "stale");
    worker_set_stale(bed.worker, true);
    pass(&bed, 200000);
    assert_silent(peer);
    bed_close(&bed);
}

static void watches_without_a_wish_end_at_times_of_their_own(void **state)
{
    (void)state;
    BED(bed);
    for (size_t i = 0; i < 20; i++)
        get(&bed, WIDGETS "?watch=1&resourceVersion=10");
    pass(&bed, KUBE_WATCH_MS - 1);
    assert_int_equal(stats_of(&bed).watches, 20);
    pass(&bed, KUBE_WATCH_MS / 2);
    size_t left = stats_of(&bed).watches;
    assert_true(left > 0 && left < 20);
    pass(&bed, KUBE_WATCH_MS / 2 + 1);
    assert_int_equal(stats_of(&bed).watches, 0);
    for (size_t i = 0; i < 20; i++)
        assert_ended(&bed.peers[i]);
    bed_close(&bed);
}

static void line_that_was_begun_is_finished_before_the_end(void **state)
{
    (void)state;
    BED(bed);
    struct fakeexchange *peer = get(&bed, WIDGETS "?watch=1&resourceVersion=10&timeoutSeconds=10");
    struct fakeexchange *stuck = get(&bed, WIDGETS "?watch=1&resourceVersion=10&timeoutSeconds=10");
    run(&bed);
    peer->room = stuck->room = 0;
    fakeexchange_make_room(peer, 50);
    fakeexchange_make_room(stuck, 50);
    put(&bed, "prod/a", RED, NULL);
    pass(&bed, 11000);
    assert_int_equal(peer->state, FAKEEXCHANGE_OPEN);
    assert_int_equal(body_of(peer).len, 50);
    fakeexchange_make_room(peer, EXCHANGE_ROOM);
    run(&bed);
    assert_line(peer, "ADDED", "a", 11);
    assert_ended(peer);
    pass(&bed, 5000);
    assert_int_equal(stuck->state, FAKEEXCHANGE_RESET); /* half a line is no line */
    bed_close(&bed);
}

static void drain_ends_watches_one_by_one(void **state)
{
    (void)state;
    BED(bed);
    bed.leaving = true;
    for (size_t i = 0; i < 20; i++)
        get(&bed, WIDGETS "?watch=1&resourceVersion=10");
    get(&bed, WIDGETS "?watch=1"); /* its state is being written */
    kube_drain(bed.service, bed.now, 1000);
    struct fakeexchange *late = get(&bed, WIDGETS);
    assert_string_equal(fakeexchange_field(late, "retry-after"), "1");
    assert_status(late, 503, "ServiceUnavailable");
    pass(&bed, 500);
    size_t left = stats_of(&bed).watches;
    assert_true(left > 0 && left < 21);
    pass(&bed, 500);
    assert_int_equal(stats_of(&bed).watches, 0);
    assert_true(bed.lists.list.canceled);
    for (size_t i = 0; i < 21; i++)
        assert_ended(&bed.peers[i]);
    bed_close(&bed);
}

static void another_catalog_ends_watches_of_what_has_changed(void **state)
{
    (void)state;
    BED(bed);
    struct kube_resource *before = bed.resource;
    struct kube_catalog *old = bed.catalog;
    struct fakeexchange *peer = get(&bed, WIDGETS "?watch=1&resourceVersion=10");
    kube_set_catalog(bed.service, old, KUBE_CATALOG_WHOLE);
    pass(&bed, 60000);
    assert_silent(peer);
    assert_int_equal(make_catalog(&bed, &(struct bed_opts){0}), BELFRY_OK);
    kube_set_catalog(bed.service, bed.catalog, KUBE_CATALOG_WHOLE);
    kube_resource_unref(before);
    kube_catalog_unref(old);
    pass(&bed, 60000);
    assert_ended(peer);
    peer = get(&bed, WIDGETS "?watch=1&resourceVersion=10");
    kube_set_catalog(bed.service, NULL, KUBE_CATALOG_WHOLE);
    assert_status(get(&bed, WIDGETS), 404, "NotFound");
    assert_status(get(&bed, "/apis"), 404, "NotFound");
    pass(&bed, 60000);
    assert_ended(peer);
    bed_close(&bed);
}

/* After a start, what is defined in etcd is not known at once; to a client "not found" would be final. */
static void what_may_still_be_defined_is_asked_for_again(void **state)
{
    (void)state;
    BED(bed);
    kube_set_catalog(bed.service, NULL, KUBE_CATALOG_PART);
    struct fakeexchange *peer = get(&bed, WIDGETS "?watch=1");
    assert_string_equal(fakeexchange_field(peer, "retry-after"), "1");
    assert_status(peer, 429, "TooManyRequests");
    assert_status(get(&bed, "/apis"), 429, "TooManyRequests");
    kube_set_catalog(bed.service, bed.catalog, KUBE_CATALOG_PART);
    assert_int_equal(get(&bed, WIDGETS "?watch=1&resourceVersion=10")->status, 200);
    assert_status(get(&bed, "/apis/other.example.com/v1/gadgets"), 429, "TooManyRequests");
    assert_status(get(&bed, "/apis/other.example.com/v1"), 429, "TooManyRequests");
    assert_status(get(&bed, WIDGETS "/a/scale"), 404, "NotFound");
    assert_status(get(&bed, "/openapi/v2"), 404, "NotFound");
    kube_set_catalog(bed.service, bed.catalog, KUBE_CATALOG_WHOLE);
    assert_status(get(&bed, "/apis/other.example.com/v1/gadgets"), 404, "NotFound");
    assert_status(get(&bed, "/apis/other.example.com/v1"), 404, "NotFound");
    bed_close(&bed);
}

static void peer_that_leaves_is_forgotten(void **state)
{
    (void)state;
    BED(bed);
    struct fakeexchange *peer = get(&bed, WIDGETS "?watch=1&resourceVersion=10&labelSelector=color%3Dred");
    run(&bed);
    fakeexchange_gone(peer);
    put(&bed, "prod/a", RED, NULL); /* the core may still have its watcher */
    run(&bed);
    assert_int_equal(stats_of(&bed).watches, 0);
    assert_int_equal(kube_due(bed.service), BELFRY_NEVER);
    bed_close(&bed);
}

/* ---- ends ---- */

#define TWO_LINES 2

/* Two objects in one revision, as a transaction puts them. */
static void put_two(struct bed *bed, const char *first, const char *second)
{
    const struct widget_event events[TWO_LINES] = {{first, RED, NULL, false}, {second, RED, NULL, false}};
    struct batch *batch;
    int64_t rev = ++bed->head;
    assert_int_equal(widget_batch(rev, events, TWO_LINES, &batch), BELFRY_OK);
    evlog_committed(bed->log, rev - 1);
    assert_int_equal(evlog_append(bed->log, batch), BELFRY_OK);
    evlog_committed(bed->log, rev);
}

/* Of the first line that this peer is told. */
static size_t line_len(const struct fakeexchange *fake)
{
    struct belfry_bytes body = body_of(fake);
    const char *end = body.len == 0 ? NULL : memchr(body.data, '\n', body.len);
    assert_non_null(end);
    return (size_t)(end - body.data) + 1;
}

/* Its client would be given all of the revision again. */
static void watch_does_not_end_between_two_lines_of_a_revision(void **state)
{
    (void)state;
    BED(bed);
    struct fakeexchange *quick = get(&bed, WIDGETS "?watch=1&resourceVersion=10");
    struct fakeexchange *slow = get(&bed, WIDGETS "?watch=1&resourceVersion=10&timeoutSeconds=10");
    struct fakeexchange *stuck = get(&bed, WIDGETS "?watch=1&resourceVersion=10&timeoutSeconds=10");
    run(&bed);
    slow->room = stuck->room = 0;
    fakeexchange_make_room(slow, 0);
    fakeexchange_make_room(stuck, 0);
    put_two(&bed, WIDGETS_PREFIX "prod/a", WIDGETS_PREFIX "prod/b");
    run(&bed);
    fakeexchange_make_room(slow, line_len(quick));
    fakeexchange_make_room(stuck, line_len(quick));
    run(&bed);
    assert_line(slow, "ADDED", "a", 11);
    assert_line(stuck, "ADDED", "a", 11);
    pass(&bed, 10000);
    put(&bed, "prod/c", RED, NULL);
    run(&bed);
    assert_silent(slow);
    fakeexchange_make_room(slow, EXCHANGE_ROOM);
    run(&bed);
    assert_line(slow, "ADDED", "b", 11);
    assert_ended(slow);
    pass(&bed, 5000); /* and who takes nothing is told to list anew */
    assert_says(stuck, "\"reason\":\"Expired\"");
    assert_ended(stuck);
    bed_close(&bed);
}

/* Whose connection broke between two lines of a revision, and who cannot be told from one that has listed there. */
static void watch_from_a_revision_of_several_objects_is_given_them_again(void **state)
{
    (void)state;
    BED(bed);
    put_two(&bed, WIDGETS_PREFIX "prod/a", WIDGETS_PREFIX "prod/b");
    put(&bed, "prod/c", RED, NULL);
    run(&bed);
    struct fakeexchange *two = get(&bed, WIDGETS "?watch=1&resourceVersion=11");
    struct fakeexchange *one = get(&bed, WIDGETS "?watch=1&resourceVersion=12");
    struct fakeexchange *name = get(&bed, IN_PROD "?watch=1&resourceVersion=11&fieldSelector=metadata.name%3Da");
    struct fakeexchange *now = get(&bed, WIDGETS "?watch=1&resourceVersion=0&sendInitialEvents=false"
                                                 "&resourceVersionMatch=NotOlderThan");
    run(&bed);
    assert_line(two, "ADDED", "a", 11);
    assert_line(two, "ADDED", "b", 11);
    assert_line(two, "ADDED", "c", 12);
    assert_silent(two);
    assert_silent(one);
    assert_silent(now);
    put_two(&bed, WIDGETS_PREFIX "prod/d", WIDGETS_PREFIX "prod/e");
    run(&bed);
    assert_line(one, "ADDED", "d", 13);
    assert_line(one, "ADDED", "e", 13);
    assert_line(now, "ADDED", "d", 13);
    assert_silent(name);
    bed_close(&bed);
}

static void watch_that_is_behind_ends_behind_the_line_that_it_was_inside_of(void **state)
{
    (void)state;
    BED(bed);
    struct fakeexchange *peer = get(&bed, WIDGETS "?watch=1&resourceVersion=10&timeoutSeconds=10");
    char name[32];
    run(&bed);
    peer->room = 0;
    fakeexchange_make_room(peer, 50);
    for (int i = 0; i < 20; i++) {
        snprintf(name, sizeof(name), "prod/w%d", i);
        put(&bed, name, RED, NULL);
    }
    pass(&bed, 10000);
    fakeexchange_make_room(peer, 1000); /* for this line, others, and a part of one more */
    run(&bed);
    assert_line(peer, "ADDED", "w0", 11);
    assert_ended(peer);
    bed_close(&bed);
}

static void state_of_a_past_that_was_rewritten_is_not_gone_on_from(void **state)
{
    (void)state;
    BED(bed);
    struct fakeexchange *peer = get(&bed, WIDGETS "?watch=1&resourceVersion=0");
    const struct kube_list_ask *ask = &bed.lists.list.ask;
    assert_int_equal(evlog_cut(bed.log, 5, EVLOG_CUT_REWRITTEN, 0), BELFRY_OK);
    run(&bed);
    ask->done(ask->user, BELFRY_OK, NULL, 10); /* as of what never was */
    run(&bed);
    assert_says(peer, "\"reason\":\"Expired\"");
    assert_ended(peer);
    bed_close(&bed);
}

static void columns_come_also_when_the_first_line_is_told_again(void **state)
{
    (void)state;
    const char *const fields[] = {"accept: application/json;as=Table;v=v1;g=meta.k8s.io", NULL};
    for (size_t n = 0, done = 0; !done; n++) {
        BED(bed);
        struct fakeexchange *peer = ask_with(&bed, "GET", WIDGETS "?watch=1&resourceVersion=10", fields);
        run(&bed);
        peer->room = 0;
        fakeexchange_make_room(peer, 50); /* too little for a line, which is then held */
        put(&bed, "prod/a", RED, NULL);
        refuse_begin(n);
        worker_turn(bed.worker, bed.now, 100000);
        done = !refuse_end();
        if (peer->lost) {
            fakeexchange_gone(peer);
        } else {
            fakeexchange_make_room(peer, EXCHANGE_ROOM);
            pass(&bed, 1000);
            assert_says(peer, "\"columnDefinitions\":[{");
        }
        bed_close(&bed);
    }
}

static void selector_does_not_widen_what_the_path_names(void **state)
{
    (void)state;
    BED(bed);
    struct fakeexchange *peer = get(&bed, "/apis/demo.example.com/v1/watch/namespaces/prod/widgets/a"
                                          "?resourceVersion=10&labelSelector=color%3Dred");
    put(&bed, "prod/b", RED, NULL);
    put(&bed, "prod/a", RED, NULL);
    run(&bed);
    assert_line(peer, "ADDED", "a", 12);
    assert_silent(peer);
    bed_close(&bed);
}

static void drain_serves_connections_that_were_not_told_to_leave(void **state)
{
    (void)state;
    BED(bed);
    struct fakeexchange *early = get(&bed, WIDGETS "?watch=1&resourceVersion=10");
    kube_announce_drain(bed.service);
    struct fakeexchange *probe = get(&bed, "/readyz");
    assert_int_equal(probe->status, 500);
    assert_says(probe, "[-]upstream failed: draining\nreadyz check failed\n");
    kube_drain(bed.service, bed.now, 1000);
    struct fakeexchange *late = get(&bed, WIDGETS "?watch=1&resourceVersion=10");
    pass(&bed, 5000);
    assert_int_equal(stats_of(&bed).watches, 2);
    early->conn.leaving = late->conn.leaving = true;
    kube_drain(bed.service, bed.now, 0);
    run(&bed);
    assert_int_equal(stats_of(&bed).watches, 0);
    bed_close(&bed);
}

static void rights_that_come_when_it_drains_are_too_late(void **state)
{
    (void)state;
    BED(bed);
    const char *const fields[] = {"authorization: Bearer simple.42", NULL};
    bed.permit.closed = bed.leaving = true;
    struct fakeexchange *peer = ask_with(&bed, "GET", WIDGETS "?watch=1&resourceVersion=10", fields);
    kube_drain(bed.service, bed.now, 1000);
    pass(&bed, 2000);
    bed.permit.questions[0].fn(PERMIT_GRANTED, "", bed.permit.questions[0].user);
    assert_string_equal(fakeexchange_field(peer, "retry-after"), "1");
    assert_status(peer, 503, "ServiceUnavailable");
    assert_int_equal(stats_of(&bed).watches, 0);
    bed_close(&bed);
}

static void held_request_is_told_of_the_drain(void **state)
{
    (void)state;
    BED(bed);
    bed.leaving = true;
    kube_stand(bed.service, false, "joining");
    struct fakeexchange *peer = get(&bed, WIDGETS "?watch=1");
    kube_drain(bed.service, bed.now, 1000);
    run(&bed);
    assert_string_equal(fakeexchange_field(peer, "retry-after"), "1");
    assert_status(peer, 503, "ServiceUnavailable");
    bed_close(&bed);
}

static void watch_whose_time_is_over_in_its_state_ends_without_an_error(void **state)
{
    (void)state;
    BED(bed);
    struct fakeexchange *peer = get(&bed, WIDGETS "?watch=1&timeoutSeconds=5");
    assert_true(bed.lists.list.ask.deadline_ms > bed.now + 5000); /* or both end it, and the list with an error */
    pass(&bed, 5000);
    assert_true(bed.lists.list.canceled);
    assert_ended(peer);
    bed_close(&bed);
}

static void watches_beyond_the_labels_that_are_indexed_are_told_as_well(void **state)
{
    (void)state;
    BED(bed);
    char path[160], value[160];
    for (int i = 0; i < 30; i++) {
        snprintf(path, sizeof(path), WIDGETS "?watch=1&resourceVersion=10&labelSelector=key%d%%3Dx", i);
        get(&bed, path);
    }
    run(&bed);
    put(&bed, "prod/a", RED, NULL);
    run(&bed);
    for (int i = 0; i < 30; i++) {
        assert_silent(&bed.peers[i]);
        snprintf(value, sizeof(value), "{\"metadata\":{\"labels\":{\"key%d\":\"x\"}}}", i);
        put(&bed, "prod/b", value, i == 0 ? NULL : RED);
        run(&bed);
        assert_line(&bed.peers[i], "ADDED", "b", 12 + i);
    }
    bed_close(&bed);
}

static void state_that_is_inside_a_line_is_cut_off(void **state)
{
    (void)state;
    BED(bed);
    struct fakeexchange *ended = get(&bed, WIDGETS "?watch=1&timeoutSeconds=5");
    exchange_write(&ended->x, "{\"type", 6);
    bed.lists.list.half = true;
    pass(&bed, 5000);
    assert_int_equal(ended->state, FAKEEXCHANGE_RESET);
    struct fakeexchange *failed = get(&bed, WIDGETS "?watch=1");
    const struct kube_list_ask *ask = &bed.lists.list.ask;
    struct kube_status status;
    kube_status_too_large(&status, 999, 10);
    exchange_write(&failed->x, "{\"type", 6);
    bed.lists.list.half = true;
    ask->done(ask->user, BELFRY_ERR_TIMEOUT, &status, 0);
    assert_int_equal(failed->state, FAKEEXCHANGE_RESET);
    assert_int_equal(body_of(failed).len, 6); /* no error inside of a line */
    assert_int_equal(stats_of(&bed).watches, 0);
    bed_close(&bed);
}

static void watches_are_refused_beyond_the_share_of_their_client(void **state)
{
    (void)state;
    struct fakeshares fake;
    char path[8192] = WIDGETS "?watch=1&resourceVersion=10&labelSelector=color+in+(";
    while (strlen(path) < 3800)
        strcat(path, ",");
    strcat(path, "blue)");
    fakeshares_init(&fake, SHARES_WATCH_BYTES, 500000, 50);
    BED(bed);
    bed.shares = &fake;
    bed.client = "10.0.0.1";
    for (int i = 0; i < 5; i++)
        get(&bed, path);
    size_t watches = stats_of(&bed).watches, used = fake.shares.pools[SHARES_WATCH_BYTES].used;
    assert_int_equal(watches, 3); /* a text of 4 KB, which is 60 KB as values */
    assert_in_range(used, watches * 60000, 250000);
    assert_status(get(&bed, path), 429, "TooManyRequests");
    assert_int_equal(fake.shares.pools[SHARES_WATCH_BYTES].refused, 3);
    bed.client = "10.0.0.2"; /* another is served */
    assert_int_equal(get(&bed, WIDGETS "?watch=1&resourceVersion=10")->status, 200);
    assert_in_range(fake.shares.pools[SHARES_WATCH_BYTES].used - used, 500, 3000);
    for (size_t i = 0; i < bed.n_peers; i++)
        fakeexchange_gone(&bed.peers[i]);
    assert_int_equal(stats_of(&bed).bytes, 0);
    assert_int_equal(fake.shares.pools[SHARES_WATCH_BYTES].used, 0);
    assert_int_equal(fake.shares.pools[SHARES_REQUESTS].used, 0);
    bed_close(&bed);
    shares_fini(&fake.shares);
}

static void who_is_long_inside_a_line_is_cut_off_over_the_memory_limit(void **state)
{
    (void)state;
    struct bed bed;
    static char big[40000];
    for (int over = 0; over < 2; over++) {
        memset(big, 'x', sizeof(big) - 1);
        memcpy(big, "{\"metadata\":{},\"spec\":\"", 23);
        memcpy(big + sizeof(big) - 3, "\"}", 2);
        assert_int_equal(bed_open_limited(&bed, over ? 30000 : 1000000), BELFRY_OK);
        struct fakeexchange *peer = get(&bed, WIDGETS "?watch=1&resourceVersion=10");
        struct fakeexchange *other = get(&bed, WIDGETS "?watch=1&resourceVersion=10");
        run(&bed);
        peer->room = 0;
        fakeexchange_make_room(peer, 50);
        put(&bed, "prod/a", big, NULL);
        pass(&bed, KUBE_INSIDE_MS - 2000);
        assert_int_equal(peer->state, FAKEEXCHANGE_OPEN);
        pass(&bed, 4000);
        assert_int_equal(peer->state, over ? FAKEEXCHANGE_RESET : FAKEEXCHANGE_OPEN);
        assert_int_equal(stats_of(&bed).slow, over);
        assert_int_equal(other->state, FAKEEXCHANGE_OPEN);
        bed_close(&bed);
    }
}

/* ---- a tier that is not ready ---- */

static void requests_are_held_until_the_tier_is_ready(void **state)
{
    (void)state;
    BED(bed);
    kube_stand(bed.service, false, "joining");
    struct fakeexchange *list = get(&bed, WIDGETS), *watch = get(&bed, WIDGETS "?watch=1&resourceVersion=10");
    struct fakeexchange *gone = get(&bed, WIDGETS);
    pass(&bed, 9000);
    assert_silent(list);
    assert_int_equal(stats_of(&bed).held, 3);
    fakeexchange_gone(gone);
    kube_stand(bed.service, true, "");
    run(&bed);
    assert_says(list, "a list");
    assert_int_equal(watch->status, 200);
    assert_int_equal(stats_of(&bed).held, 0);
    assert_int_equal(bed.lists.begun, 1);
    bed_close(&bed);
}

static void held_request_is_told_to_come_again(void **state)
{
    (void)state;
    BED(bed);
    kube_stand(bed.service, false, "joining");
    struct fakeexchange *peer = get(&bed, WIDGETS "?watch=1"), *list = get(&bed, WIDGETS);
    pass(&bed, KUBE_HOLD_MS - 1);
    assert_silent(peer);
    pass(&bed, 1);
    assert_string_equal(fakeexchange_field(peer, "retry-after"), "1");
    assert_status(peer, 429, "TooManyRequests");
    assert_status(list, 429, "TooManyRequests");
    assert_int_equal(stats_of(&bed).too_many, 2);
    bed_close(&bed);
}

static void what_waits_is_bounded(void **state)
{
    (void)state;
    BED(bed);
    char *path = calloc(1, 3 << 20);
    strcpy(path, WIDGETS "?continue=");
    memset(path + strlen(path), 'x', 200 * 1024);
    kube_stand(bed.service, false, "joining");
    struct fakeexchange *fakes = calloc(400, sizeof(*fakes));
    struct fakeshares shares;
    size_t refused = 0, refused_other = 0;
    fakeshares_init(&shares, SHARES_REQUESTS, 64 << 20, 50);
    for (size_t i = 0; i < 400; i++) {
        struct fakeexchange_head head;
        fakeexchange_init(&fakes[i], EXCHANGE_ROOM);
        fakes[i].conn.leaving = true;
        bool is_other = i % 100 == 99; /* of another client, which waits for little */
        fakeshares_join(&shares, &fakes[i].conn, is_other ? "10.0.0.2" : "10.0.0.1");
        fakeexchange_head(&head, "GET", path, NULL);
        kube_begin(bed.service, &fakes[i].x, &head.head, bed.now);
        refused += fakes[i].status == 429;
        refused_other += fakes[i].status == 429 && is_other;
    }
    assert_true(refused > 100 && refused < 350);
    assert_int_equal(refused_other, 0);
    assert_int_equal(shares.shares.pools[SHARES_REQUESTS].refused, refused);
    assert_int_equal(stats_of(&bed).held, 400 - refused);
    kube_drain(bed.service, bed.now, 1000);
    run(&bed);
    assert_int_equal(stats_of(&bed).held, 0);
    for (size_t i = 0; i < 400; i++) {
        shares_leave(&fakes[i].conn.share); /* it asserts that nothing is held */
        fakeexchange_fini(&fakes[i]);
    }
    shares_fini(&shares.shares);
    free(fakes);
    free(path);
    bed_close(&bed);
}

/* ---- rights ---- */

static void rights_are_asked_for_with_the_clients_token(void **state)
{
    (void)state;
    BED(bed);
    const char *const fields[] = {"authorization: Bearer simple.42", NULL};
    bed.permit.closed = true;
    struct fakeexchange *peer = ask_with(&bed, "GET", IN_PROD, fields);
    const struct permit_question *question = &bed.permit.questions[0];
    assert_string_equal(question->key, WIDGETS_PREFIX "prod/");
    assert_string_equal(question->end, WIDGETS_PREFIX "prod0");
    assert_string_equal(question->token, "simple.42");
    assert_int_equal(bed.lists.begun, 0);
    question->fn(PERMIT_GRANTED, "", question->user);
    assert_says(peer, "a list");
    assert_int_equal(bed.lists.begun, 1);
    bed_close(&bed);
}

static void refused_rights_are_told_apart(void **state)
{
    (void)state;
    BED(bed);
    const char *const fields[] = {"authorization: Bearer simple.42", NULL};
    bed.permit.closed = true;
    struct fakeexchange *anonymous = get(&bed, WIDGETS "?watch=1&resourceVersion=10");
    struct fakeexchange *denied = ask_with(&bed, "GET", IN_PROD "/a", fields);
    struct fakeexchange *away = ask_with(&bed, "GET", IN_PROD "/a", fields);
    struct permit_question *questions = bed.permit.questions;
    questions[0].fn(PERMIT_REFUSED, "rpc error: code = InvalidArgument desc = etcdserver: user name is empty",
                    questions[0].user);
    assert_status(anonymous, 401, "Unauthorized");
    assert_string_equal(questions[1].key, WIDGETS_PREFIX "prod/a");
    assert_string_equal(questions[1].end, "");
    questions[1].fn(PERMIT_REFUSED, "rpc error: code = PermissionDenied desc = etcdserver: permission denied",
                    questions[1].user);
    assert_status(denied, 403, "Forbidden");
    questions[2].fn(PERMIT_UNAVAILABLE, "no leader", questions[2].user);
    assert_string_equal(fakeexchange_field(away, "retry-after"), "1");
    assert_status(away, 503, "ServiceUnavailable");
    assert_int_equal(stats_of(&bed).refused, 2);
    bed.permit.err = BELFRY_ERR_LIMIT;
    assert_status(get(&bed, WIDGETS), 429, "TooManyRequests");
    bed_close(&bed);
}

/* Auth is on: a watch was granted, and its claim is the second question. */
static struct fakeexchange *watch_with_rights(struct bed *bed)
{
    const char *const fields[] = {"authorization: Bearer simple.42", NULL};
    bed->permit.closed = true;
    bed->permit.regime = PERMIT_ASKS;
    struct fakeexchange *peer = ask_with(bed, "GET", WIDGETS "?watch=1&resourceVersion=10", fields);
    struct permit_question *questions = bed->permit.questions;
    questions[0].fn(PERMIT_GRANTED, "", questions[0].user);
    assert_string_equal(questions[1].key, WIDGETS_PREFIX);
    assert_string_equal(questions[1].token, "simple.42");
    return peer;
}

static void a_watch_is_live_while_its_right_is_confirmed(void **state)
{
    (void)state;
    BED(bed);
    struct fakeexchange *peer = watch_with_rights(&bed);
    struct permit_question *claim = &bed.permit.questions[1];
    put(&bed, "prod/a", RED, NULL);
    run(&bed);
    assert_silent(peer);
    claim->fn(PERMIT_HELD, "", claim->user);
    run(&bed);
    assert_line(peer, "ADDED", "a", 11);
    bed.permit.paused = true;
    bed.permit.party->fn(bed.permit.party, PERMIT_PAUSED, "");
    put(&bed, "prod/b", RED, NULL);
    run(&bed);
    assert_silent(peer);
    bed.permit.paused = false;
    bed.permit.party->fn(bed.permit.party, PERMIT_RESUMED, "");
    run(&bed);
    assert_line(peer, "ADDED", "b", 12);
    claim->fn(PERMIT_REFUSED, PERMIT_DENIED, claim->user);
    assert_says(peer, "\"code\":403");
    assert_ended(peer);
    assert_int_equal(stats_of(&bed).expelled, 1);
    assert_int_equal(stats_of(&bed).watches, 0);
    bed_close(&bed);
}

static void a_watch_whose_token_is_gone_ends_with_401(void **state)
{
    (void)state;
    BED(bed);
    struct fakeexchange *peer = watch_with_rights(&bed);
    struct permit_question *claim = &bed.permit.questions[1];
    claim->fn(PERMIT_HELD, "", claim->user);
    bed.permit.party->fn(bed.permit.party, PERMIT_ENDED, PERMIT_BAD_TOKEN);
    assert_says(peer, "\"code\":401");
    assert_ended(peer);
    assert_true(claim->canceled);
    bed_close(&bed);
}

static void a_watch_that_runs_is_claimed_when_auth_is_turned_on(void **state)
{
    (void)state;
    BED(bed);
    struct fakeexchange *peer = get(&bed, WIDGETS "?watch=1&resourceVersion=10");
    run(&bed);
    assert_int_equal(bed.permit.n, 0);
    bed.permit.regime = PERMIT_ASKS;
    bed.permit.listener(bed.permit.listener_user);
    run(&bed);
    put(&bed, "prod/a", RED, NULL);
    run(&bed);
    assert_silent(peer);
    struct permit_question *questions = bed.permit.questions;
    questions[0].fn(PERMIT_UNAVAILABLE, "no leader", questions[0].user);
    run(&bed);
    assert_silent(peer);
    pass(&bed, 2000); /* it is asked again */
    assert_int_equal(bed.permit.n, 2);
    questions[1].fn(PERMIT_REFUSED, PERMIT_NO_USER, questions[1].user);
    assert_says(peer, "\"code\":401");
    assert_ended(peer);
    bed_close(&bed);
}

static void documents_are_shown_to_who_may_read_the_definitions(void **state)
{
    (void)state;
    BED(bed);
    const char *const fields[] = {"authorization: Bearer simple.42", NULL};
    bed.permit.closed = true;
    struct fakeexchange *peers[] = {ask_with(&bed, "GET", "/apis/demo.example.com/v1", fields), get(&bed, "/apis"),
                                    ask_with(&bed, "GET", "/openapi/v3/apis/demo.example.com/v1", fields),
                                    ask_with(&bed, "GET", "/apis/no.example.com", fields)};
    struct permit_question *questions = bed.permit.questions;
    assert_int_equal(bed.permit.n, 4);
    for (size_t i = 0; i < 4; i++) {
        assert_string_equal(questions[i].key, WIDGETS_PREFIX);
        assert_string_equal(questions[i].token, i == 1 ? "" : "simple.42");
        assert_silent(peers[i]);
    }
    questions[0].fn(PERMIT_GRANTED, "", questions[0].user);
    assert_says(peers[0], "\"APIResourceList\"");
    questions[1].fn(PERMIT_REFUSED, PERMIT_NO_USER, questions[1].user);
    assert_status(peers[1], 401, "Unauthorized");
    questions[2].fn(PERMIT_REFUSED, PERMIT_DENIED, questions[2].user);
    assert_status(peers[2], 403, "Forbidden");
    questions[3].fn(PERMIT_REFUSED, PERMIT_DENIED, questions[3].user);
    assert_status(peers[3], 404, "NotFound");
    assert_int_equal(stats_of(&bed).refused, 3);
    bed_close(&bed);
}

static void documents_wait_for_their_rights_within_bounds(void **state)
{
    (void)state;
    BED(bed);
    bed.permit.closed = true;
    struct fakeexchange *away = get(&bed, "/apis"), *gone = get(&bed, "/apis"), *left = get(&bed, "/openapi/v3");
    struct permit_question *questions = bed.permit.questions;
    questions[0].fn(PERMIT_UNAVAILABLE, "no leader", questions[0].user);
    assert_string_equal(fakeexchange_field(away, "retry-after"), "1");
    assert_status(away, 503, "ServiceUnavailable");
    fakeexchange_gone(gone);
    assert_true(questions[1].canceled);
    bed.permit.err = BELFRY_ERR_LIMIT;
    assert_status(get(&bed, "/apis"), 429, "TooManyRequests");
    assert_status(get(&bed, "/openapi/v2"), 404, "NotFound"); /* it shows nothing */
    assert_int_equal(get(&bed, "/livez")->status, 200);
    kube_destroy(bed.service);
    bed.service = NULL;
    assert_status(left, 503, "ServiceUnavailable");
    bed_close(&bed);
}

static void peer_that_leaves_while_it_is_asked_about_is_forgotten(void **state)
{
    (void)state;
    BED(bed);
    bed.permit.closed = true;
    struct fakeexchange *peer = get(&bed, WIDGETS);
    fakeexchange_gone(peer);
    assert_true(bed.permit.questions[0].canceled);
    get(&bed, WIDGETS);
    bed_close(&bed);
}

/* ---- for people ---- */

static void watches_are_shown_in_the_order_of_opening(void **state)
{
    (void)state;
    BED(bed);
    const char *const fields[] = {"user-agent: kubectl/v1.33.1", NULL};
    ask_with(&bed, "GET", IN_PROD "?watch=1&resourceVersion=10", fields);
    get(&bed, WIDGETS "?watch=1");
    struct kube_watch_view view;
    uint64_t number;
    assert_true(kube_next(bed.service, 0, &number, &view));
    assert_string_equal(view.client, "kubectl/v1.33.1");
    assert_string_equal(view.resource, "widgets");
    assert_true(belfry_bytes_equal(view.namespace, belfry_bytes_str("prod")));
    assert_non_null(view.stream);
    assert_true(kube_next(bed.service, number, &number, &view));
    assert_null(view.stream);
    assert_false(kube_next(bed.service, number, &number, &view));
    bed_close(&bed);
}

/* ---- memory ---- */

static enum belfry_err put_refused(struct bed *bed)
{
    const struct widget_event event = {WIDGETS_PREFIX "prod/a", RED, BLUE, false};
    struct batch *batch;
    int64_t rev = bed->head + 1;
    enum belfry_err err = widget_batch(rev, &event, 1, &batch);
    if (err != BELFRY_OK)
        return err;
    evlog_committed(bed->log, rev - 1);
    err = evlog_append(bed->log, batch);
    if (err != BELFRY_OK)
        return err;
    bed->head = rev;
    evlog_committed(bed->log, rev);
    return BELFRY_OK;
}

/* Whatever is refused, a request is answered and a watch is told everything or ends. */
static enum belfry_err watch_refused(struct bed *bed)
{
    struct fakeexchange *peer =
        get(bed, WIDGETS "?watch=1&resourceVersion=10&labelSelector=color%3Dred&allowWatchBookmarks=true");
    if (peer->state == FAKEEXCHANGE_ENDED)
        return BELFRY_ERR_NOMEM;
    enum belfry_err err = put_refused(bed);
    for (int i = 0; err == BELFRY_OK && i < 20; i++) {
        worker_turn(bed->worker, bed->now, 1000);
        answer_fetch(bed);
        kube_after_turn(bed->service, bed->now);
        bed->now += 10000;
    }
    struct belfry_bytes body = body_of(peer);
    if (peer->lost) {
        fakeexchange_gone(peer);
        return BELFRY_ERR_NOMEM;
    }
    if (err == BELFRY_OK && (body.len == 0 || memmem(body.data, body.len, "ADDED", 5) == NULL))
        fail_msg("it was not told");
    return err;
}

/* ---- resources of an API server ---- */

#define POD(version, color)                                                                                            \
    "{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"a\",\"namespace\":\"prod\",\"resourceVersion\":" \
    "\"" version "\",\"labels\":{\"color\":\"" color "\"}}}"
#define POD_LINE(type, version, color) "{\"type\":\"" type "\",\"object\":" POD(version, color) "}\n"

static void put_pod(struct bed *bed, const char *value, const char *before)
{
    change(bed, &(struct widget_event){"prod/a", value, before, false});
    run(bed);
}

/* All that it says. */
static void assert_body(struct fakeexchange *fake, const char *text)
{
    struct belfry_bytes body = body_of(fake);
    if (!belfry_bytes_equal(body, belfry_bytes_str(text)))
        fail_msg("\"%.*s\" instead of \"%s\"", (int)body.len, body.len == 0 ? "" : body.data, text);
    belfry_buf_clear(&fake->body);
}

static void watches_of_an_api_server_s_objects_have_its_bytes(void **state)
{
    (void)state;
    struct bed bed;
    assert_int_equal(bed_open_as(&bed, &(struct bed_opts){.api = &pods, .scope = ""}), BELFRY_OK);
    struct fakeexchange *all = get(&bed, "/api/v1/pods?watch=1&resourceVersion=10"),
                        *red = get(&bed,
                                   "/api/v1/namespaces/prod/pods?watch=1&resourceVersion=10&labelSelector=color%3Dred"),
                        *elsewhere = get(&bed, "/api/v1/namespaces/prod-b/pods?watch=1&resourceVersion=10"),
                        *one = get(&bed, "/api/v1/pods?watch=1&resourceVersion=10&fieldSelector=metadata.name%3Da");
    run(&bed);
    put_pod(&bed, POD("11", "red"), NULL);
    put_pod(&bed, POD("12", "blue"), POD("11", "red"));
    put_pod(&bed, NULL, POD("12", "blue"));
    static const char whole[] =
        POD_LINE("ADDED", "11", "red") POD_LINE("MODIFIED", "12", "blue") POD_LINE("DELETED", "13", "blue");
    assert_body(all, whole);
    assert_body(one, whole);
    assert_body(red, POD_LINE("ADDED", "11", "red") POD_LINE("DELETED", "12", "red"));
    assert_silent(elsewhere);
    bed_close(&bed);
}

/* Deletions of one version, as when a lease of etcd ends: the connection may have broken between two of them. */
static void a_watch_of_an_api_server_s_objects_begins_with_deletions_of_its_version_again(void **state)
{
    (void)state;
    struct bed bed;
    assert_int_equal(bed_open_as(&bed, &(struct bed_opts){.api = &pods, .scope = ""}), BELFRY_OK);
    put_pod(&bed, POD("11", "red"), NULL);
    const struct widget_event events[] = {{"prod/a", NULL, POD("11", "red"), false},
                                          {"prod/b", NULL, POD("9", "red"), false}};
    change_several(&bed, events, 2);
    run(&bed);
    struct fakeexchange *from = get(&bed, "/api/v1/pods?watch=1&resourceVersion=12");
    run(&bed);
    assert_body(from, POD_LINE("DELETED", "12", "red") POD_LINE("DELETED", "12", "red"));
    struct fakeexchange *ahead =
        get(&bed, "/api/v1/pods?watch=1&resourceVersion=13"); /* another tier has shown a part */
    run(&bed);
    const struct widget_event later[] = {{"prod/c", NULL, POD("7", "red"), false},
                                         {"prod/d", NULL, POD("8", "red"), false}};
    change_several(&bed, later, 2);
    run(&bed);
    assert_body(ahead, POD_LINE("DELETED", "13", "red") POD_LINE("DELETED", "13", "red"));
    bed_close(&bed);
}

/* An API server's change has a version of its own: a client that has seen a version has all of it. */
static void a_watch_of_an_api_server_s_objects_begins_behind_its_version(void **state)
{
    (void)state;
    struct bed bed;
    assert_int_equal(bed_open_as(&bed, &(struct bed_opts){.api = &pods, .scope = ""}), BELFRY_OK);
    put_pod(&bed, POD("11", "red"), NULL);
    put_pod(&bed, POD("12", "red"), POD("11", "red"));
    bed.slow_history = true;
    struct fakeexchange *from = get(&bed, "/api/v1/pods?watch=1&resourceVersion=11"),
                        *old = get(&bed, "/api/v1/pods?watch=1&resourceVersion=10"),
                        *future = get(&bed, "/api/v1/pods?watch=1&resourceVersion=13");
    run(&bed);
    assert_body(from, POD_LINE("MODIFIED", "12", "red"));
    assert_body(old, POD_LINE("ADDED", "11", "red") POD_LINE("MODIFIED", "12", "red"));
    put_pod(&bed, POD("13", "red"), POD("12", "red"));
    assert_silent(future);
    put_pod(&bed, POD("14", "red"), POD("13", "red"));
    assert_body(future, POD_LINE("MODIFIED", "14", "red"));
    bed_close(&bed);
}

/* A consistent list may be ahead of what is followed. */
static void a_bookmark_is_never_behind_its_watch(void **state)
{
    (void)state;
    struct bed bed;
    assert_int_equal(bed_open_as(&bed, &(struct bed_opts){.api = &pods, .scope = ""}), BELFRY_OK);
    struct fakeexchange *ahead = get(&bed, "/api/v1/pods?watch=1&resourceVersion=12&allowWatchBookmarks=1"),
                        *here = get(&bed, "/api/v1/pods?watch=1&resourceVersion=10&allowWatchBookmarks=1");
    pass(&bed, 3 * KUBE_BOOKMARK_MS);
    assert_says(here, "BOOKMARK");
    assert_silent(ahead);
    put_pod(&bed, POD("11", "red"), NULL);
    pass(&bed, 3 * KUBE_BOOKMARK_MS);
    assert_silent(ahead);
    put_pod(&bed, POD("12", "red"), POD("11", "red"));
    pass(&bed, 3 * KUBE_BOOKMARK_MS);
    assert_says(ahead, "{\"type\":\"BOOKMARK\",\"object\":{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{"
                       "\"resourceVersion\":\"12\"}}}\n");
    bed_close(&bed);
}

static size_t fixed_core_bytes(const void *of)
{
    return *(const size_t *)of;
}

/* What one service has leaves less to another. */
static void watches_of_many_resources_share_their_memory(void **state)
{
    (void)state;
    size_t cores = 1000000;
    struct kube_room room = {.memory_max = 1000400, .core_bytes = fixed_core_bytes, .of = &cores};
    struct bed_opts opts = {.api = &pods, .scope = "", .room = &room};
    struct bed one, two;
    assert_int_equal(bed_open_as(&one, &opts), BELFRY_OK);
    assert_int_equal(bed_open_as(&two, &opts), BELFRY_OK);
    assert_null(one.permit.listener); /* permit has few */
    assert_int_equal(get(&one, "/api/v1/pods?watch=1&resourceVersion=10")->status, 200);
    assert_int_equal(room.watch_bytes, stats_of(&one).bytes);
    assert_true(room.watch_bytes > 400 && kube_room_is_full(&room)); /* those who are slow are ended */
    cores = 0;
    assert_int_equal(get(&two, "/api/v1/pods?watch=1&resourceVersion=10")->status, 200);
    assert_int_equal(room.watch_bytes, stats_of(&one).bytes + stats_of(&two).bytes);
    bed_close(&one);
    bed_close(&two);
    assert_true(room.watch_bytes == 0);
}

static void the_rights_of_a_watch_are_a_review(void **state)
{
    (void)state;
    struct bed bed;
    assert_int_equal(bed_open_as(&bed, &(struct bed_opts){.api = &pods, .scope = ""}), BELFRY_OK);
    bed.permit.closed = true;
    bed.permit.regime = PERMIT_ASKS;
    get(&bed, "/api/v1/namespaces/prod/pods?watch=1&resourceVersion=10");
    assert_int_equal(bed.permit.n, 1);
    bed.permit.questions[0].fn(PERMIT_GRANTED, "", bed.permit.questions[0].user);
    assert_int_equal(bed.permit.n, 2);
    for (size_t i = 0; i < 2; i++) {
        assert_memory_equal(bed.permit.questions[i].raw, "\0\0\0\5watch\0\0\0\0\0\0\0\2v1", 19);
        assert_string_equal(bed.permit.questions[i].end, "");
    }
    bed_close(&bed);
}

static enum belfry_err scenario(void)
{
    static struct bed bed;
    enum belfry_err err = bed_open(&bed);
    if (err == BELFRY_OK)
        err = watch_refused(&bed);
    bed_close(&bed);
    return err;
}

/* A document that is asked about first. */
static enum belfry_err document_scenario(void)
{
    static struct bed bed;
    enum belfry_err err = bed_open(&bed);
    if (err == BELFRY_OK) {
        bed.permit.closed = true;
        struct fakeexchange *peer = get(&bed, "/apis");
        if (bed.permit.n > 0)
            bed.permit.questions[0].fn(PERMIT_GRANTED, "", bed.permit.questions[0].user);
        assert_int_not_equal(peer->state, FAKEEXCHANGE_OPEN);
        err = peer->status == 200 ? BELFRY_OK : BELFRY_ERR_NOMEM;
    }
    bed_close(&bed);
    return err;
}

static void every_refused_allocation_is_survived(void **state)
{
    (void)state;
    assert_true(refuse_sweep(scenario) > 20);
    assert_true(refuse_sweep(document_scenario) > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(faults_are_answered_with_a_status),
        cmocka_unit_test(list_is_handed_on_with_what_it_asks),
        cmocka_unit_test(selected_names_narrow_what_is_read),
        cmocka_unit_test(lists_that_are_refused_say_why),
        cmocka_unit_test(discovery_is_answered_in_both_forms),
        cmocka_unit_test(probes_say_how_the_tier_stands),
        cmocka_unit_test(only_its_own_paths_are_taken),
        cmocka_unit_test(range_outside_of_what_is_followed_is_refused),
        cmocka_unit_test(watch_gives_changes_above_its_revision),
        cmocka_unit_test(namespace_and_name_narrow_a_watch),
        cmocka_unit_test(template_that_mixes_namespaces_is_filtered),
        cmocka_unit_test(selector_sees_objects_come_and_go),
        cmocka_unit_test(equal_lines_are_made_once),
        cmocka_unit_test(pinned_watches_are_not_visited_for_other_values),
        cmocka_unit_test(table_has_its_columns_once),
        cmocka_unit_test(undecodable_object_is_not_there),
        cmocka_unit_test(slow_watcher_is_given_everything_when_it_reads_again),
        cmocka_unit_test(watches_are_counted_apart_by_how_they_stand),
        cmocka_unit_test(state_comes_first_and_its_end_is_marked),
        cmocka_unit_test(state_without_bookmarks_has_no_mark),
        cmocka_unit_test(state_that_fails_is_told_in_the_stream),
        cmocka_unit_test(watch_from_where_upstream_is_asks_it),
        cmocka_unit_test(watch_from_now_on_is_given_what_comes),
        cmocka_unit_test(watch_in_the_future_is_silent_until_then),
        cmocka_unit_test(head_of_a_watch_has_no_body),
        cmocka_unit_test(the_oldest_version_that_is_named_is_above_the_one_that_is_too_old),
        cmocka_unit_test(what_is_too_old_is_told_so_and_ends),
        cmocka_unit_test(forgotten_previous_value_loses_who_needs_it),
        cmocka_unit_test(object_that_a_revision_relabels_and_deletes_stays_with_nobody),
        cmocka_unit_test(forgotten_previous_value_where_a_watch_resumes_loses_nobody),
        cmocka_unit_test(bookmarks_come_every_minute_and_before_the_end),
        cmocka_unit_test(stale_tier_has_no_bookmarks),
        cmocka_unit_test(watches_without_a_wish_end_at_times_of_their_own),
        cmocka_unit_test(line_that_was_begun_is_finished_before_the_end),
        cmocka_unit_test(drain_ends_watches_one_by_one),
        cmocka_unit_test(another_catalog_ends_watches_of_what_has_changed),
        cmocka_unit_test(what_may_still_be_defined_is_asked_for_again),
        cmocka_unit_test(peer_that_leaves_is_forgotten),
        cmocka_unit_test(watch_does_not_end_between_two_lines_of_a_revision),
        cmocka_unit_test(watch_from_a_revision_of_several_objects_is_given_them_again),
        cmocka_unit_test(watch_that_is_behind_ends_behind_the_line_that_it_was_inside_of),
        cmocka_unit_test(state_of_a_past_that_was_rewritten_is_not_gone_on_from),
        cmocka_unit_test(columns_come_also_when_the_first_line_is_told_again),
        cmocka_unit_test(selector_does_not_widen_what_the_path_names),
        cmocka_unit_test(drain_serves_connections_that_were_not_told_to_leave),
        cmocka_unit_test(rights_that_come_when_it_drains_are_too_late),
        cmocka_unit_test(held_request_is_told_of_the_drain),
        cmocka_unit_test(watch_whose_time_is_over_in_its_state_ends_without_an_error),
        cmocka_unit_test(watches_beyond_the_labels_that_are_indexed_are_told_as_well),
        cmocka_unit_test(state_that_is_inside_a_line_is_cut_off),
        cmocka_unit_test(watches_are_refused_beyond_the_share_of_their_client),
        cmocka_unit_test(who_is_long_inside_a_line_is_cut_off_over_the_memory_limit),
        cmocka_unit_test(requests_are_held_until_the_tier_is_ready),
        cmocka_unit_test(held_request_is_told_to_come_again),
        cmocka_unit_test(what_waits_is_bounded),
        cmocka_unit_test(rights_are_asked_for_with_the_clients_token),
        cmocka_unit_test(refused_rights_are_told_apart),
        cmocka_unit_test(a_watch_is_live_while_its_right_is_confirmed),
        cmocka_unit_test(a_watch_whose_token_is_gone_ends_with_401),
        cmocka_unit_test(a_watch_that_runs_is_claimed_when_auth_is_turned_on),
        cmocka_unit_test(documents_are_shown_to_who_may_read_the_definitions),
        cmocka_unit_test(documents_wait_for_their_rights_within_bounds),
        cmocka_unit_test(peer_that_leaves_while_it_is_asked_about_is_forgotten),
        cmocka_unit_test(watches_are_shown_in_the_order_of_opening),
        cmocka_unit_test(watches_of_an_api_server_s_objects_have_its_bytes),
        cmocka_unit_test(a_watch_of_an_api_server_s_objects_begins_behind_its_version),
        cmocka_unit_test(a_watch_of_an_api_server_s_objects_begins_with_deletions_of_its_version_again),
        cmocka_unit_test(a_bookmark_is_never_behind_its_watch),
        cmocka_unit_test(watches_of_many_resources_share_their_memory),
        cmocka_unit_test(the_rights_of_a_watch_are_a_review),
        cmocka_unit_test(every_refused_allocation_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
