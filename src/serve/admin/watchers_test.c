/* src/serve/admin/watchers_test.c: scans over a real core against a naive count. The streams of a watch_service are a
 * plain array here. */
#include "serve/admin/watchers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/rng.h"
#include "core/watcher.h"
#include "support/refuse.h"
#include "wire/scan.h"
#include "wire/write.h"

#define BYTES(literal) belfry_bytes_of(literal, sizeof(literal) - 1)
#define STREAMS        24
#define NOW            100000
#define HEAD           60

/* ---- a service of our own ---- */

struct watch_service {
    struct worker *worker;
    struct evlog *log;
    size_t n;
    struct {
        uint64_t number; /* 0: closed */
        struct watch_view view;
        struct exchange_conn conn;
        struct identity who;
        char user[64], client[64];
        size_t room;
    } streams[STREAMS];
    int64_t head;
};

bool watch_next(struct watch_service *service, uint64_t after, uint64_t *number, struct watch_view *out)
{
    for (size_t i = 0; i < service->n; i++) {
        if (service->streams[i].number > after) {
            *number = service->streams[i].number;
            *out = service->streams[i].view;
            return true;
        }
    }
    return false;
}

/* Watches of objects, which are streams as any other here. */
struct kube_service {
    size_t n;
    struct kube_watch_view views[4];
};

bool kube_next(struct kube_service *kube, uint64_t after, uint64_t *number, struct kube_watch_view *out)
{
    if (after >= kube->n)
        return false;
    *number = after + 1;
    *out = kube->views[after];
    return true;
}

static void on_write(void *user, const uint8_t *data, size_t len)
{
    size_t *room = user;
    (void)data;
    *room -= len;
}

static enum belfry_err service_open(struct watch_service *s, unsigned log2)
{
    struct evlog_opts log_opts = {.capacity_log2 = log2, .max_bytes = 1 << 26, .n_workers = 1};
    *s = (struct watch_service){.head = 10};
    enum belfry_err err = evlog_create(&log_opts, &s->log);
    if (err == BELFRY_OK)
        err = evlog_cut(s->log, s->head, EVLOG_CUT_START, 0);
    struct worker_opts opts = {.log = s->log, .seed = 5, .fragment_bytes = 1 << 21, .response_bytes = 1 << 20};
    opts.response_revs = 1000;
    opts.segment_bytes = 1 << 20;
    opts.write = on_write;
    if (err == BELFRY_OK)
        err = worker_create(&opts, &s->worker);
    return err;
}

static void service_close(struct watch_service *s)
{
    worker_destroy(s->worker);
    evlog_destroy(s->log);
}

static enum belfry_err service_stream(struct watch_service *s, const char *peer, const char *user, const char *client,
                                      uint64_t opened_ms, uint64_t sent)
{
    size_t i = s->n;
    snprintf(s->streams[i].conn.peer, sizeof(s->streams[i].conn.peer), "%s", peer);
    snprintf(s->streams[i].user, sizeof(s->streams[i].user), "%s", user);
    s->streams[i].conn.user = user[0] != '\0' ? s->streams[i].user : NULL;
    s->streams[i].who = (struct identity){.kind = user[0] != '\0' ? IDENTITY_CERT : IDENTITY_NONE,
                                          .text = belfry_bytes_str(s->streams[i].user)};
    snprintf(s->streams[i].client, sizeof(s->streams[i].client), "%s", client);
    struct stream *stream;
    enum belfry_err err = stream_open(s->worker, &s->streams[i].room, 1000, &stream);
    if (err != BELFRY_OK)
        return err;
    s->streams[i].number = 3 * i + 1; /* with holes, as after some have gone */
    s->streams[i].room = 1 << 24;
    s->streams[i].view =
        (struct watch_view){stream, &s->streams[i].conn, &s->streams[i].who, s->streams[i].client, opened_ms, sent};
    s->n++;
    return BELFRY_OK;
}

static enum belfry_err service_watch(struct watch_service *s, size_t i, const char *key, const char *end, int64_t rev)
{
    struct stream_create create = {.key = belfry_bytes_str(key), .range_end = belfry_bytes_str(end), .start_rev = rev};
    struct stream *stream = NULL;
    memcpy(&stream, &s->streams[i].view.stream, sizeof(stream));
    return stream_create(s->worker, stream, &create);
}

static void service_turn(struct watch_service *s)
{
    for (int turns = 0; turns < 50; turns++) {
        for (size_t i = 0; i < s->n; i++) {
            struct stream *stream = NULL;
            memcpy(&stream, &s->streams[i].view.stream, sizeof(stream));
            stream_writable(s->worker, stream, s->streams[i].room);
        }
        (void)worker_turn(s->worker, 1000, 100000);
    }
}

/* One revision, a put of `key`. */
static void service_put(struct watch_service *s, const char *key)
{
    uint8_t raw[512];
    int64_t rev = ++s->head;
    struct belfry_wire_event event = {.kv = {.key = belfry_bytes_str(key), .mod_rev = rev, .create_rev = 2}}, read;
    event.kv.version = 2;
    size_t len = (size_t)(belfry_write_event(&event, raw) - raw);
    assert_int_equal(belfry_scan_event(belfry_bytes_of(raw, len), &read), BELFRY_OK);
    struct batch *batch;
    size_t bytes = batch_event_bytes(&read, (struct belfry_bytes){0});
    assert_int_equal(batch_create(rev, BATCH_EVENTS, 1, bytes, &batch), BELFRY_OK);
    batch_add(batch, &read, (struct belfry_bytes){0});
    evlog_committed(s->log, rev - 1);
    assert_int_equal(evlog_append(s->log, batch), BELFRY_OK);
    evlog_committed(s->log, rev);
}

/* Streams that are synced, that wait for history which never comes, and that take nothing any more. */
static void service_fill(struct watch_service *s, uint64_t seed, size_t watchers)
{
    struct belfry_rng rng = {seed};
    static const char *const clients[] = {"grpc-go/1.81.1", "etcd-java", "belfryctl/0.3"};
    assert_int_equal(service_open(s, 4), BELFRY_OK);
    (void)worker_turn(s->worker, 1000, 1000);
    for (size_t i = 0; i < STREAMS; i++) {
        char peer[64], user[64];
        snprintf(peer, sizeof(peer), "10.0.0.%zu:%zu", i % 5, 40000 + i);
        snprintf(user, sizeof(user), "%s", i % 3 == 0 ? "gw-eu" : "");
        uint64_t opened = belfry_rng_below(&rng, NOW);
        assert_int_equal(service_stream(s, peer, user, clients[i % 3], opened, belfry_rng_below(&rng, 8) * 100),
                         BELFRY_OK);
    }
    for (int i = 0; i < HEAD - 10; i++) {
        service_put(s, "/k1");
        service_turn(s);
    }
    for (size_t i = 0; i < watchers; i++) {
        char key[32], end[40];
        size_t stream = belfry_rng_below(&rng, STREAMS);
        unsigned n = (unsigned)belfry_rng_below(&rng, 30);
        snprintf(key, sizeof(key), "/k%u", n);
        snprintf(end, sizeof(end), "%s%s", i % 3 == 2 ? key : "", i % 3 == 0 ? "/l" : i % 3 == 2 ? "~" : "");
        int64_t start = belfry_rng_below(&rng, 4) == 0 ? 11 + (int64_t)belfry_rng_below(&rng, 40) : 0;
        assert_int_equal(service_watch(s, stream, key, end, start), BELFRY_OK);
        if (i % 64 == 0)
            service_turn(s);
    }
    service_turn(s);
    for (size_t i = 0; i < STREAMS; i += 5)
        s->streams[i].room = 0;
    for (int i = 0; i < 5; i++) {
        service_put(s, "/k1");
        service_turn(s);
    }
}

/* ---- the naive count ---- */

struct plain {
    int64_t lag, id;
    uint64_t sent, age, number;
    enum watcher_standing standing;
    char peer[64], client[64], user[64], identity[IDENTITY_SHOWN], key[64], end[64];
    enum range_kind kind;
};

static struct plain all[20000];
static size_t n_all;
static enum watchers_sort plain_sort;
static const char *const words[] = {"synced", "catching up", "parked"};

static bool plain_matches(const struct plain *p, const char *filter)
{
    return strstr(p->peer, filter) != NULL || strstr(p->client, filter) != NULL || strstr(p->user, filter) != NULL ||
           strstr(p->identity, filter) != NULL || strstr(p->key, filter) != NULL || strstr(p->end, filter) != NULL ||
           strstr(words[p->standing], filter) != NULL || strstr("grpc", filter) != NULL;
}

static void count_naively(struct watch_service *s, const char *filter)
{
    n_all = 0;
    for (size_t i = 0; i < s->n; i++) {
        struct watcher_view view;
        for (int64_t after = -1; stream_watcher(s->worker, s->streams[i].view.stream, after, &view); after = view.id) {
            struct plain *p = &all[n_all];
            *p = (struct plain){.id = view.id, .standing = view.standing, .kind = view.range.kind};
            p->number = s->streams[i].number;
            p->lag = view.standing == WATCHER_SYNCED ? 0 : s->head - view.next + 1;
            p->sent = s->streams[i].view.sent_bytes;
            p->age = NOW - s->streams[i].view.opened_ms;
            snprintf(p->peer, sizeof(p->peer), "%s", s->streams[i].conn.peer);
            snprintf(p->user, sizeof(p->user), "%s", s->streams[i].user);
            identity_show(&s->streams[i].who, p->identity);
            snprintf(p->client, sizeof(p->client), "%s", s->streams[i].client);
            snprintf(p->key, sizeof(p->key), "%.*s", (int)view.range.key.len, view.range.key.data);
            snprintf(p->end, sizeof(p->end), "%.*s", (int)view.range.end.len, view.range.end.data);
            n_all += !view.ended && plain_matches(p, filter);
        }
    }
}

static int plain_order(const void *a, const void *b)
{
    const struct plain *x = a, *y = b;
    uint64_t keys[2][4] = {{(uint64_t)x->lag, x->sent, x->age, 0}, {(uint64_t)y->lag, y->sent, y->age, 0}};
    if (keys[0][plain_sort] != keys[1][plain_sort])
        return keys[0][plain_sort] > keys[1][plain_sort] ? -1 : 1;
    if (x->standing != y->standing)
        return x->standing > y->standing ? -1 : 1;
    if (x->number != y->number)
        return x->number < y->number ? -1 : 1;
    return x->id < y->id ? -1 : 1;
}

/* ---- scans ---- */

static char *text_of(struct watchers_scan *const *scans, size_t n)
{
    struct belfry_buf buf = {0};
    assert_int_equal(watchers_write(scans, n, &buf), BELFRY_OK);
    assert_int_equal(belfry_buf_append(&buf, "", 1), BELFRY_OK);
    return (char *)buf.data + buf.start; /* the caller frees it: start is 0 */
}

static struct watchers_scan *scan_all(struct watch_service *s, const struct watchers_query *query, size_t step)
{
    struct watchers_scan *scan;
    size_t steps = 0;
    assert_int_equal(watchers_scan_create(query, s, s->worker, s->head, NOW, &scan), BELFRY_OK);
    while (!watchers_scan_step(scan, step))
        assert_true(steps++ < 100000);
    return scan;
}

static int64_t number_after(const char **at, const char *name)
{
    char quoted[64];
    snprintf(quoted, sizeof(quoted), "\"%s\":", name);
    const char *found = strstr(*at, quoted);
    if (found == NULL)
        fail_msg("no %s in %.80s", name, *at);
    *at = found + strlen(quoted);
    return strtoll(*at, NULL, 10);
}

static void assert_word_after(const char **at, const char *name, const char *word)
{
    char quoted[WATCHERS_KEY_BYTES + 64];
    snprintf(quoted, sizeof(quoted), "\"%s\":\"%s\"", name, word);
    const char *found = strstr(*at, quoted);
    if (found == NULL)
        fail_msg("no %s in %.200s", quoted, *at);
    *at = found;
}

static void assert_rows(const char *text, size_t limit)
{
    const char *at = strstr(text, "\"rows\":[");
    for (size_t i = 0; i < n_all && i < limit; i++) {
        assert_int_equal(number_after(&at, "lag"), all[i].lag);
        assert_word_after(&at, "state", words[all[i].standing]);
        assert_word_after(&at, "peer", all[i].peer);
        assert_word_after(&at, "user", all[i].user);
        assert_word_after(&at, "identity", all[i].identity);
        assert_word_after(&at, "client", all[i].client);
        assert_word_after(&at, "key", all[i].key);
        if (all[i].kind == RANGE_SPAN)
            assert_word_after(&at, "range_end", all[i].end);
        assert_int_equal(number_after(&at, "watch_id"), all[i].id);
        assert_int_equal(number_after(&at, "sent_bytes"), (int64_t)all[i].sent);
        assert_int_equal(number_after(&at, "age_ms"), (int64_t)all[i].age);
    }
    assert_null(strstr(at, "\"lag\":"));
    assert_string_equal(at + strcspn(at, "}"), n_all == 0 ? "}\n" : "}]}\n");
}

static struct watch_service one, two;

static void the_best_rows_are_those_of_a_naive_sort(void **state)
{
    (void)state;
    static const char *const filters[] = {"",       "10.0.0.3", "gw-", "java", "/k7",
                                          "parked", "catching", "/l",  "grpc", "%"};
    service_fill(&one, 7, 1500);
    for (int sort = WATCHERS_BY_LAG; sort <= WATCHERS_BY_AGE; sort++) {
        for (size_t f = 0; f < sizeof(filters) / sizeof(filters[0]); f++) {
            struct watchers_query query = {.sort = (enum watchers_sort)sort, .limit = f % 3 == 0 ? 10 : 5000};
            snprintf(query.filter, sizeof(query.filter), "%s", filters[f]);
            struct watchers_scan *scan = scan_all(&one, &query, f % 2 == 0 ? 1 : 97);
            char *text = text_of(&scan, 1);
            count_naively(&one, filters[f]);
            plain_sort = query.sort;
            if (f == 0)
                assert_int_equal(n_all, 1500);
            if (f < 8)
                assert_true(n_all > 0);
            qsort(all, n_all, sizeof(all[0]), plain_order);
            const char *at = text;
            assert_int_equal(number_after(&at, "revision"), one.head);
            assert_int_equal(number_after(&at, "watchers"), 1500);
            assert_int_equal(number_after(&at, "matched"), (int64_t)n_all);
            assert_rows(text, query.limit);
            free(text);
            watchers_scan_destroy(scan);
        }
    }
    service_close(&one);
}

static size_t count_state(enum watcher_standing standing, int64_t *max_lag)
{
    size_t n = 0;
    for (size_t i = 0; i < n_all; i++) {
        n += all[i].standing == standing;
        if (all[i].standing == standing && all[i].lag > *max_lag)
            *max_lag = all[i].lag;
    }
    return n;
}

static void groups_by_state_add_up_over_workers(void **state)
{
    (void)state;
    service_fill(&one, 1, 700);
    service_fill(&two, 2, 900);
    struct watchers_query query = {.group = WATCHERS_GROUP_STATE, .limit = WATCHERS_LIMIT};
    struct watchers_scan *scans[] = {scan_all(&one, &query, 50), scan_all(&two, &query, 1000)};
    char *text = text_of(scans, 2);
    for (int standing = WATCHER_SYNCED; standing <= WATCHER_PARKED; standing++) {
        char name[64];
        int64_t max_lag = 0;
        count_naively(&one, "");
        size_t expected = count_state((enum watcher_standing)standing, &max_lag);
        count_naively(&two, "");
        expected += count_state((enum watcher_standing)standing, &max_lag);
        assert_true(expected > 0);
        snprintf(name, sizeof(name), "{\"group\":\"%s\"", words[standing]);
        const char *at = strstr(text, name);
        assert_non_null(at);
        assert_int_equal(number_after(&at, "watchers"), (int64_t)expected);
        assert_int_equal(number_after(&at, "parked"), standing == WATCHER_PARKED ? (int64_t)expected : 0);
        assert_int_equal(number_after(&at, "max_lag"), max_lag);
    }
    assert_null(strstr(text, "\"other\""));
    free(text);
    watchers_scan_destroy(scans[0]);
    watchers_scan_destroy(scans[1]);
    service_close(&one);
    service_close(&two);
}

static void groups_by_range_and_peer_come_largest_first(void **state)
{
    (void)state;
    service_fill(&one, 3, 1200);
    for (int g = WATCHERS_GROUP_RANGE; g <= WATCHERS_GROUP_PEER; g++) {
        struct watchers_query query = {.group = (enum watchers_group)g, .limit = 1000};
        struct watchers_scan *scan = scan_all(&one, &query, 10);
        char *text = text_of(&scan, 1);
        int64_t sum = 0, before = INT64_MAX;
        size_t n = 0;
        for (const char *at = strstr(text, "\"groups\":["); strstr(at, "\"watchers\":") != NULL; n++) {
            int64_t watchers = number_after(&at, "watchers");
            assert_true(watchers <= before);
            before = watchers;
            sum += watchers;
        }
        assert_int_equal(sum, 1200);
        assert_int_equal(n, g == WATCHERS_GROUP_PEER ? 5 : 90);
        assert_non_null(strstr(text, g == WATCHERS_GROUP_PEER ? "\"10.0.0.4\"" : "\"[/k3, /k3~)\""));
        free(text);
        watchers_scan_destroy(scan);
    }
    service_close(&one);
}

static void groups_beyond_the_bound_are_summed_up_as_other(void **state)
{
    (void)state;
    assert_int_equal(service_open(&one, 4), BELFRY_OK);
    (void)worker_turn(one.worker, 1000, 1000);
    assert_int_equal(service_stream(&one, "unix", "", "", 0, 0), BELFRY_OK);
    for (int i = 0; i < WATCHERS_GROUPS + 250; i++) {
        char key[32];
        snprintf(key, sizeof(key), "/%d", i);
        assert_int_equal(service_watch(&one, 0, key, "", 0), BELFRY_OK);
        if (i % 500 == 0)
            service_turn(&one);
    }
    static const struct {
        size_t limit, groups, other;
    } rows[] = {{WATCHERS_LIMIT_MAX, WATCHERS_GROUPS, 250}, {10, 10, WATCHERS_GROUPS + 240}};
    for (size_t r = 0; r < 2; r++) {
        struct watchers_query query = {.group = WATCHERS_GROUP_RANGE, .limit = rows[r].limit};
        struct watchers_scan *scan = scan_all(&one, &query, 100);
        char *text = text_of(&scan, 1);
        size_t n = 0;
        for (const char *at = text; (at = strstr(at, "{\"group\":")) != NULL; at++)
            n++;
        assert_int_equal(n, rows[r].groups);
        const char *at = strstr(text, "\"other\":{");
        assert_non_null(at);
        assert_int_equal(number_after(&at, "watchers"), (int64_t)rows[r].other);
        free(text);
        watchers_scan_destroy(scan);
    }
    service_close(&one);
}

static void keys_of_any_length_and_bytes_are_cut_and_encoded(void **state)
{
    (void)state;
    char key[700];
    assert_int_equal(service_open(&one, 4), BELFRY_OK);
    (void)worker_turn(one.worker, 1000, 1000);
    assert_int_equal(service_stream(&one, "[::1]:99", "a\"b", "x\ny", 0, 0), BELFRY_OK);
    memset(key, 'k', sizeof(key) - 1);
    key[sizeof(key) - 1] = '\0';
    memcpy(key + 255, "\xc3\xa9", 2); /* a character across the cut */
    assert_int_equal(service_watch(&one, 0, key, "", 0), BELFRY_OK);
    assert_int_equal(service_watch(&one, 0, "\xff\xfe", "", 0), BELFRY_OK);
    struct stream_create open_end = {.key = BYTES("a"), .range_end = BYTES("\0")};
    struct stream *stream = NULL;
    memcpy(&stream, &one.streams[0].view.stream, sizeof(stream));
    assert_int_equal(stream_create(one.worker, stream, &open_end), BELFRY_OK);
    struct watchers_query query = {.limit = 10};
    struct watchers_scan *scan = scan_all(&one, &query, 3);
    char *text = text_of(&scan, 1);
    key[255] = '\0';
    char expected[800];
    snprintf(expected, sizeof(expected), "\"key\":\"%s\",\"cut\":true", key);
    assert_non_null(strstr(text, expected));
    assert_non_null(strstr(text, "\"key_b64\":\"//4=\""));
    assert_non_null(strstr(text, "\"key\":\"a\",\"range_end\":\"\\u0000\""));
    assert_non_null(strstr(text, "\"user\":\"a\\\"b\",\"identity\":\"cert:a%22b\",\"client\":\"x\\ny\""));
    assert_non_null(strstr(text, "\"peer\":\"[::1]:99\""));
    free(text);
    watchers_scan_destroy(scan);
    query.group = WATCHERS_GROUP_PEER;
    scan = scan_all(&one, &query, 3);
    text = text_of(&scan, 1);
    assert_non_null(strstr(text, "\"group\":\"[::1]\""));
    free(text);
    watchers_scan_destroy(scan);
    service_close(&one);
}

static void stream_that_goes_between_two_steps_is_left_and_none_is_seen_twice(void **state)
{
    (void)state;
    service_fill(&one, 9, 600);
    struct watchers_query query = {.limit = 5000};
    struct watchers_scan *scan;
    size_t gone = 0;
    struct watcher_view view;
    assert_int_equal(watchers_scan_create(&query, &one, one.worker, one.head, NOW, &scan), BELFRY_OK);
    assert_false(watchers_scan_step(scan, 4)); /* the stream, and three watchers */
    for (int64_t after = -1; stream_watcher(one.worker, one.streams[0].view.stream, after, &view); after = view.id)
        gone++;
    assert_true(gone > 3);
    one.streams[0].number = 0;
    while (!watchers_scan_step(scan, 7))
        continue;
    char *text = text_of(&scan, 1);
    const char *at = text;
    assert_int_equal(number_after(&at, "watchers"), (int64_t)(600 - gone + 3));
    free(text);
    watchers_scan_destroy(scan);
    service_close(&one);
}

static void nothing_to_merge_is_an_empty_answer(void **state)
{
    (void)state;
    char *text = text_of(NULL, 0);
    assert_string_equal(text, "{\"revision\":0,\"watchers\":0,\"matched\":0}\n");
    free(text);
}

/* ---- the query ---- */

static void queries_are_read_and_mistakes_named(void **state)
{
    (void)state;
    struct watchers_query query;
    char why[128];
    assert_int_equal(watchers_parse(BYTES(""), &query, why, sizeof(why)), BELFRY_OK);
    assert_int_equal(query.limit, WATCHERS_LIMIT);
    assert_int_equal(query.sort, WATCHERS_BY_LAG);
    assert_int_equal(query.group, WATCHERS_UNGROUPED);
    assert_string_equal(query.filter, "");
    assert_int_equal(
        watchers_parse(BYTES("sort=sent&limit=10000&group=peer&filter=%2Fa%20b+c%zz&"), &query, why, sizeof(why)),
        BELFRY_OK);
    assert_int_equal(query.limit, WATCHERS_LIMIT_MAX);
    assert_int_equal(query.sort, WATCHERS_BY_SENT);
    assert_int_equal(query.group, WATCHERS_GROUP_PEER);
    assert_string_equal(query.filter, "/a b c%zz");
    static const char *const bad[][2] = {
        {"sort=x", "sort: "},        {"limit=0", "limit: "},   {"limit=10001", "limit: "},
        {"limit=-1", "limit: "},     {"limit=", "limit: "},    {"limit=99999999999999999999", "limit: "},
        {"group=colour", "group: "}, {"limit=5x", "limit: "},  {"colour=red", "no parameter is called colour"},
        {"sort", "sort: "},          {"=", "no parameter is"}, {"limit=5&limit=x", "limit: "},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        why[0] = '\0';
        assert_int_equal(watchers_parse(belfry_bytes_str(bad[i][0]), &query, why, sizeof(why)), BELFRY_ERR_INVALID);
        assert_memory_equal(why, bad[i][1], strlen(bad[i][1]));
    }
    char longest[1200] = "filter=";
    memset(longest + 7, 'a', 255);
    assert_int_equal(watchers_parse(belfry_bytes_of(longest, 262), &query, why, sizeof(why)), BELFRY_OK);
    memset(longest + 7, 'a', 1100);
    assert_int_equal(watchers_parse(belfry_bytes_of(longest, 263), &query, why, sizeof(why)), BELFRY_ERR_INVALID);
    assert_int_equal(watchers_parse(belfry_bytes_of(longest, 1107), &query, why, sizeof(why)), BELFRY_ERR_INVALID);
    assert_int_equal(watchers_parse(BYTES("filter=a\0b"), &query, why, sizeof(why)), BELFRY_ERR_INVALID);
}

/* ---- memory and time ---- */

static enum belfry_err scenario_of(enum watchers_group group)
{
    struct watchers_query query = {.group = group, .limit = 8};
    struct watchers_scan *scan = NULL;
    struct belfry_buf buf = {0};
    enum belfry_err err = watchers_scan_create(&query, &one, one.worker, one.head, NOW, &scan);
    while (err == BELFRY_OK && !watchers_scan_step(scan, 100))
        continue;
    if (err == BELFRY_OK)
        err = watchers_write(&scan, 1, &buf);
    belfry_buf_fini(&buf);
    watchers_scan_destroy(scan);
    return err;
}

static enum belfry_err scenario_rows(void)
{
    return scenario_of(WATCHERS_UNGROUPED);
}

static enum belfry_err scenario_groups(void)
{
    return scenario_of(WATCHERS_GROUP_RANGE);
}

static void every_refused_allocation_is_told(void **state)
{
    (void)state;
    service_fill(&one, 4, 40);
    assert_true(refuse_sweep(scenario_rows) > 8);
    assert_true(refuse_sweep(scenario_groups) > 8);
    service_close(&one);
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* The bound is loose, for sanitizers and a busy machine: it finds a walk that is not O(log n), nothing finer. */
static void visit_of_a_large_stream_is_cheap(void **state)
{
    (void)state;
    assert_int_equal(service_open(&one, 4), BELFRY_OK);
    (void)worker_turn(one.worker, 1000, 1000);
    assert_int_equal(service_stream(&one, "unix", "", "", 0, 0), BELFRY_OK);
    for (int i = 0; i < 100000; i++) {
        char key[32];
        snprintf(key, sizeof(key), "/%d", i);
        assert_int_equal(service_watch(&one, 0, key, "", 0), BELFRY_OK);
        if (i % 1000 == 999)
            service_turn(&one);
        one.streams[0].room = 1 << 24;
    }
    for (int g = WATCHERS_UNGROUPED; g <= WATCHERS_GROUP_RANGE; g++) {
        struct watchers_query query = {.limit = 100, .group = (enum watchers_group)g};
        double before = seconds();
        struct watchers_scan *scan = scan_all(&one, &query, 1000);
        double each = (seconds() - before) / 100000;
        print_message("figure: %s: %.0f ns a visit\n", g == WATCHERS_UNGROUPED ? "rows" : "groups", each * 1e9);
        assert_true(each < 20e-6);
        watchers_scan_destroy(scan);
    }
    service_close(&one);
}

#define SELECTORS "labelSelector=app=web&fieldSelector=spec.nodeName=n1"

/* One of all namespaces, one of one with selectors, and one that has no watcher yet. */
static void fill_kube(struct watch_service *s, struct kube_service *kube)
{
    static const char *const namespaces[] = {"", "prod", "test"};
    assert_int_equal(service_open(s, 4), BELFRY_OK);
    (void)worker_turn(s->worker, 1000, 1000);
    *kube = (struct kube_service){.n = 3};
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(service_stream(s, "10.0.0.9:1", "", "kubectl/v1.33.1", 500, 7), BELFRY_OK);
        assert_int_equal(service_watch(s, i, "/registry/widgets/", "/registry/widgets0", 0), BELFRY_OK);
        kube->views[i] = (struct kube_watch_view){.stream = i < 2 ? s->streams[i].view.stream : NULL,
                                                  .conn = &s->streams[i].conn,
                                                  .who = &s->streams[i].who,
                                                  .client = s->streams[i].client,
                                                  .resource = "widgets",
                                                  .namespace = belfry_bytes_str(namespaces[i]),
                                                  .selector = belfry_bytes_str(i == 1 ? SELECTORS : ""),
                                                  .opened_ms = 500,
                                                  .sent_bytes = 7};
    }
    service_turn(s);
    s->n = 1; /* the first is shown as one of etcd's, too */
}

static char *scan_kube(struct watch_service *s, struct kube_service *kube, const struct watchers_query *query)
{
    struct watchers_scan *scan;
    assert_int_equal(watchers_scan_create(query, s, s->worker, s->head, NOW, &scan), BELFRY_OK);
    watchers_scan_kube(scan, kube);
    while (!watchers_scan_step(scan, 1))
        ;
    char *text = text_of(&scan, 1);
    watchers_scan_destroy(scan);
    return text;
}

static void watches_of_objects_are_shown_as_they_were_asked_for(void **state)
{
    (void)state;
    struct kube_service kube;
    fill_kube(&one, &kube);
    struct watchers_query query = {.limit = 10};
    char *text = scan_kube(&one, &kube, &query);
    const char *at = text;
    assert_int_equal(number_after(&at, "watchers"), 3);
    assert_word_after(&at, "dialect", "grpc");
    assert_word_after(&at, "dialect", "kube");
    assert_word_after(&at, "range", "widgets -A");
    assert_null(memmem(text, (size_t)(at - text), "selector", strlen("selector"))); /* it has none */
    assert_word_after(&at, "range", "widgets -n prod");
    assert_word_after(&at, "selector", SELECTORS);
    assert_word_after(&at, "key", "/registry/widgets/");
    free(text);
    snprintf(query.filter, sizeof(query.filter), "nodeName=n1");
    text = scan_kube(&one, &kube, &query);
    at = text;
    assert_int_equal(number_after(&at, "matched"), 1);
    free(text);
    char lots[2 * WATCHERS_KEY_BYTES];
    memset(lots, 'x', sizeof(lots));
    kube.views[1].selector = belfry_bytes_of(lots, sizeof(lots)); /* only so much of it is kept */
    snprintf(query.filter, sizeof(query.filter), "xxx");
    text = scan_kube(&one, &kube, &query);
    lots[WATCHERS_KEY_BYTES] = '\0';
    at = text;
    assert_word_after(&at, "selector", lots);
    assert_non_null(strstr(at, "\"cut\":true"));
    free(text);
    query.group = WATCHERS_GROUP_RANGE;
    snprintf(query.filter, sizeof(query.filter), "kube");
    text = scan_kube(&one, &kube, &query);
    at = text;
    assert_int_equal(number_after(&at, "watchers"), 3);
    assert_int_equal(number_after(&at, "matched"), 3); /* the client of the first is kubectl */
    assert_word_after(&at, "group", "widgets -A");
    assert_word_after(&at, "group", "widgets -n prod");
    free(text);
    one.n = 3;
    service_close(&one);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(watches_of_objects_are_shown_as_they_were_asked_for),
        cmocka_unit_test(the_best_rows_are_those_of_a_naive_sort),
        cmocka_unit_test(groups_by_state_add_up_over_workers),
        cmocka_unit_test(groups_by_range_and_peer_come_largest_first),
        cmocka_unit_test(groups_beyond_the_bound_are_summed_up_as_other),
        cmocka_unit_test(keys_of_any_length_and_bytes_are_cut_and_encoded),
        cmocka_unit_test(stream_that_goes_between_two_steps_is_left_and_none_is_seen_twice),
        cmocka_unit_test(nothing_to_merge_is_an_empty_answer),
        cmocka_unit_test(queries_are_read_and_mistakes_named),
        cmocka_unit_test(every_refused_allocation_is_told),
        cmocka_unit_test(visit_of_a_large_stream_is_cheap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
