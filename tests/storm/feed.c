/* tests/storm/feed.c */
#include "storm/feed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "storm/verdict.h"
#include "wire/write.h"

#define EVENTS_MAX   4 /* of a revision */
#define VALUE_MAX    (48 * 1024)
#define TRIM_ROWS    200
#define EXTENT_BYTES (64 * 1024) /* of a revision that the log does not keep in memory */

struct key_state {
    bool exists;
    int64_t create_rev, version;
    size_t len;
    uint8_t kv[VALUE_MAX + 256]; /* as it is */
};

struct feed {
    struct feed_opts opts;
    struct ingest *ingest;
    int64_t head;
    bool stale;
    size_t n_ledger;
    struct feed_entry ledger[FEED_LEDGER];
    struct key_state keys[FEED_KEYS];
    uint8_t raw[EVENTS_MAX][VALUE_MAX + 512];
};

static struct feed *feed; /* of the run; NULL: none */

void feed_object_key(struct belfry_bytes name, char *to, size_t room)
{
    snprintf(to, room, "%s%.*s", feed->opts.is_kube ? "ns/" : FEED_OBJECTS, (int)name.len, name.data);
}

struct belfry_wire_header feed_header(int64_t rev)
{
    return (struct belfry_wire_header){.cluster_id = 7, .member_id = 8, .raft_term = 9, .revision = rev};
}

void feed_key(unsigned key, char *to, size_t room)
{
    if (feed->opts.is_kube)
        snprintf(to, room, "ns/w%u", key % 8);
    else if (key < FEED_WIDGETS)
        snprintf(to, room, "/%c/k%u", key < FEED_WATCHED ? 'a' : 'b', key % 8);
    else if (key < FEED_CRD)
        snprintf(to, room, FEED_OBJECTS "w%u", key % 8);
    else
        snprintf(to, room, "/crds/gadgets");
}

static void tell(void)
{
    feed->opts.tell(feed->opts.user);
}

void feed_set_stale(bool stale)
{
    feed->stale = stale;
    tell();
}

bool feed_is_stale(void)
{
    return feed->stale;
}

/* ---- writing ---- */

static size_t fill(char *to, size_t len)
{
    memset(to, 'v', len);
    return len;
}

/* What etcd stores has no name and no revision in it; the API server adds them. */
static size_t write_widget_head(unsigned key, int64_t rev, char *to, size_t room)
{
    if (!feed->opts.is_kube)
        return (size_t)snprintf(to, room, "{\"metadata\":{");
    return (size_t)snprintf(
        to, room,
        "{\"apiVersion\":\"demo.example.com/v1\",\"kind\":\"Widget\",\"metadata\":{\"name\":\"w%u\","
        "\"namespace\":\"ns\",\"uid\":\"u%lld\",\"resourceVersion\":\"%lld\",",
        key % 8, (long long)feed->keys[key].create_rev, (long long)rev);
}

static size_t write_widget(struct choices *choices, enum feed_manner manner, unsigned key, int64_t rev, char *to,
                           size_t room)
{
    static const char *const apps[] = {"web", "db", "", "\\u00e4\\n\\\""};
    switch (manner == FEED_ANY && !feed->opts.is_kube ? choose(choices, 12) : UINT32_MAX) {
    case 0: /* broken */
        return (size_t)snprintf(to, room, "{\"metadata\":{\"labels\":{\"app\":");
    case 1:
        return 0;
    case 2:
        return (size_t)snprintf(to, room, "[1,2,{\"metadata\":null}]");
    default:
        break;
    }
    size_t len = write_widget_head(key, rev, to, room);
    len += (size_t)snprintf(to + len, room - len, "\"labels\":{\"app\":\"%s\"}},\"spec\":{\"node\":\"n%u\",\"pad\":\"",
                            apps[choose(choices, 4)], choose(choices, 3));
    len += fill(to + len, choose_rarely(choices, 8) ? choose(choices, 40000) : choose(choices, 64));
    return len + (size_t)snprintf(to + len, room - len, "\"}}");
}

static size_t write_definition(struct choices *choices, char *to, size_t room)
{
    static const char *const scopes[] = {"Namespaced", "Cluster", "Nowhere"};
    return (size_t)snprintf(
        to, room,
        "{\"apiVersion\":\"apiextensions.k8s.io/v1\",\"kind\":\"CustomResourceDefinition\",\"metadata\":{\"name\":"
        "\"gadgets.demo.example.com\"},\"spec\":{\"group\":\"demo.example.com\",\"scope\":\"%s\",\"names\":{"
        "\"plural\":\"gadgets\",\"singular\":\"gadget\",\"kind\":\"Gadget\",\"listKind\":\"GadgetList\"},"
        "\"versions\":[{\"name\":\"v%u\",\"served\":true,\"storage\":true,\"schema\":{\"openAPIV3Schema\":{"
        "\"type\":\"object\"}}}]}}%s",
        scopes[choose(choices, 3)], 1 + choose(choices, 2), choose_rarely(choices, 4) ? "}" : "");
}

static size_t write_value(struct choices *choices, enum feed_manner manner, unsigned key, int64_t rev, char *to,
                          size_t room)
{
    if (key < FEED_WATCHED)
        return fill(to, choose(choices, 100));
    if (key < FEED_WIDGETS)
        return fill(to, choose_rarely(choices, 6) ? choose(choices, VALUE_MAX) : choose(choices, 300));
    return key < FEED_CRD ? write_widget(choices, manner, key, rev, to, room) : write_definition(choices, to, room);
}

static void note(int64_t rev, unsigned key, bool is_delete)
{
    verdict_must(feed->n_ledger < FEED_LEDGER, "the ledger is full");
    feed->ledger[feed->n_ledger++] = (struct feed_entry){rev, key, is_delete};
}

static struct belfry_wire_event write_event(struct choices *choices, enum feed_manner manner, unsigned key, int64_t rev,
                                            uint8_t *to)
{
    static char value[VALUE_MAX];
    char name[64];
    struct key_state *state = &feed->keys[key];
    struct belfry_wire_event event = {.is_delete = state->exists && choose_rarely(choices, 4)}, scanned;
    feed_key(key, name, sizeof(name));
    event.kv.key = belfry_bytes_str(name);
    event.kv.mod_rev = rev;
    if (!event.is_delete) {
        event.kv.create_rev = state->create_rev = state->exists ? state->create_rev : rev;
        event.kv.version = state->version = state->exists ? state->version + 1 : 1;
        event.kv.value = belfry_bytes_of(value, write_value(choices, manner, key, rev, value, sizeof(value)));
        state->len = belfry_write_kv_size(&event.kv);
        belfry_write_kv(&event.kv, state->kv);
    }
    state->exists = !event.is_delete;
    note(rev, key, event.is_delete);
    size_t len = (size_t)(belfry_write_event(&event, to) - to);
    verdict_must(belfry_scan_event(belfry_bytes_of(to, len), &scanned) == BELFRY_OK, "an own event");
    return scanned;
}

/* The log may be full of batches that are not committed. */
static void publish(const struct ingest_revision *revision)
{
    enum belfry_err err;
    unsigned tries = 0;
    while ((err = ingest_revision(feed->ingest, revision, belfry_clock_ms())) == BELFRY_ERR_AGAIN && tries++ < 100) {
        ingest_drained(feed->ingest, belfry_clock_ms());
        ingest_tick(feed->ingest, belfry_clock_ms());
    }
    if (err != BELFRY_OK)
        verdict_fail("ingest refuses revision %lld: %s: %s", (long long)revision->rev, belfry_strerror((int)err),
                     ingest_why(feed->ingest));
}

void feed_write(struct choices *choices, enum feed_manner manner)
{
    bool is_kube = feed->opts.is_kube; /* a change has a resourceVersion of its own */
    unsigned n_keys = manner == FEED_ANY ? FEED_KEYS : FEED_CRD;
    struct belfry_wire_event events[EVENTS_MAX];
    size_t n = !is_kube && choose_rarely(choices, 4) ? 1 + choose(choices, EVENTS_MAX) : 1;
    unsigned key = is_kube ? FEED_WIDGETS + choose(choices, 8) : choose(choices, n_keys);
    int64_t rev = feed->head + 1;
    for (size_t i = 0; i < n; i++, key = (key + 7) % n_keys)
        events[i] = write_event(choices, manner, key, rev, feed->raw[i]);
    publish(&(struct ingest_revision){.rev = rev, .events = events, .n = n, .header = feed_header(rev)});
    feed->head = rev;
    tell();
}

void feed_cut(enum evlog_cut_why why)
{
    struct belfry_wire_header header = feed_header(feed->head);
    struct store *store = feed->opts.store;
    enum belfry_err err = store->api->fresh(store);
    for (size_t i = 0; i < FEED_KEYS && err == BELFRY_OK; i++) {
        struct belfry_wire_kv kv;
        if (!feed->keys[i].exists)
            continue;
        verdict_must(belfry_scan_kv(belfry_bytes_of(feed->keys[i].kv, feed->keys[i].len), &kv) == BELFRY_OK, "a kv");
        err = store->api->put(store, &kv);
    }
    if (err == BELFRY_OK)
        err = ingest_adopt(feed->ingest, feed->head, &header, why, why == EVLOG_CUT_START ? 0 : feed->head);
    if (err != BELFRY_OK)
        verdict_fail("cannot list anew: %s", belfry_strerror((int)err));
    tell();
}

void feed_turn(void)
{
    uint64_t now = belfry_clock_ms();
    ingest_drained(feed->ingest, now);
    ingest_tick(feed->ingest, now);
    feed->opts.answer(feed->opts.user);
}

uint64_t feed_due(void)
{
    return feed->opts.is_asked(feed->opts.user) ? 0 : ingest_due(feed->ingest);
}

int64_t feed_head(void)
{
    return feed->head;
}

static bool key_is_of(unsigned key, enum feed_keys keys)
{
    return keys == FEED_KEYS_WATCHED ? key < FEED_WATCHED : key >= FEED_WIDGETS && key < FEED_CRD;
}

const struct feed_entry *feed_next(size_t *at, int64_t rev, enum feed_keys keys)
{
    for (; *at < feed->n_ledger; ++*at) {
        const struct feed_entry *entry = &feed->ledger[*at];
        if (entry->rev >= rev && key_is_of(entry->key, keys))
            return entry;
    }
    return NULL;
}

/* ---- beginning and end ---- */

struct ingest *feed_begin(const struct feed_opts *opts)
{
    struct ingest_opts ingest = {.store = opts->store,
                                 .evlog = opts->evlog,
                                 .extent_bytes = EXTENT_BYTES,
                                 .trim_rows = TRIM_ROWS,
                                 .whole_scope = true};
    bool warm;
    feed = calloc(1, sizeof(*feed));
    verdict_must(feed != NULL, "the feed");
    feed->opts = *opts;
    feed->head = 1;
    verdict_must(ingest_create(&ingest, &feed->ingest) == BELFRY_OK && ingest_open(feed->ingest, &warm) == BELFRY_OK,
                 "ingest");
    return feed->ingest;
}

void feed_end(void)
{
    ingest_destroy(feed->ingest);
    free(feed);
    feed = NULL;
}
