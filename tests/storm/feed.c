/* tests/storm/feed.c */
#include "storm/feed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "daemon/ingest_thread.h"
#include "follow/ingest.h"
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

struct ingest_thread {
    struct ingest_thread_opts opts;
    struct ingest *ingest;
    struct belfry_list lost;   /* of history_reader_job.node */
    struct belfry_list points; /* of readpoint_ask.node */
    int64_t head;
    bool stale;
    size_t n_ledger;
    struct feed_entry ledger[FEED_LEDGER];
    struct key_state keys[FEED_KEYS];
    uint8_t raw[EVENTS_MAX][VALUE_MAX + 512];
};

static struct ingest_thread *feed; /* of the run; NULL: none */

static struct belfry_wire_header header_at(int64_t rev)
{
    return (struct belfry_wire_header){.cluster_id = 7, .member_id = 8, .raft_term = 9, .revision = rev};
}

void feed_key(unsigned key, char *to, size_t room)
{
    if (key < FEED_WIDGETS)
        snprintf(to, room, "/%c/k%u", key < FEED_WATCHED ? 'a' : 'b', key % 8);
    else if (key < FEED_CRD)
        snprintf(to, room, FEED_OBJECTS "w%u", key % 8);
    else
        snprintf(to, room, "/crds/gadgets");
}

/* ---- what is said of upstream ---- */

static void fill_status(struct driver_status *out)
{
    *out = (struct driver_status){.standing = feed->stale ? DRIVER_STALE : DRIVER_READY,
                                  .state = UPSTREAM_LIVE,
                                  .revision = feed->head,
                                  .committed = ingest_committed(feed->ingest),
                                  .upstream_revision = feed->head,
                                  .past = ingest_past(feed->ingest),
                                  .identity = header_at(feed->head)};
    snprintf(out->version, sizeof(out->version), "3.5.99");
    snprintf(out->reason, sizeof(out->reason), "%s", feed->stale ? "upstream is silent" : "");
}

static void tell(void)
{
    struct driver_status status;
    fill_status(&status);
    standing_publish(feed->opts.standing, feed->head, belfry_clock_ns());
    standing_set(feed->opts.standing, &status);
    feed->opts.wake(feed->opts.user);
}

void feed_set_stale(bool stale)
{
    feed->stale = stale;
    tell();
}

/* ---- writing ---- */

static size_t fill(char *to, size_t len)
{
    memset(to, 'v', len);
    return len;
}

static size_t write_widget(struct choices *choices, enum feed_manner manner, char *to, size_t room)
{
    static const char *const apps[] = {"web", "db", "", "\\u00e4\\n\\\""};
    switch (manner == FEED_ANY ? choose(choices, 12) : UINT32_MAX) {
    case 0: /* broken */
        return (size_t)snprintf(to, room, "{\"metadata\":{\"labels\":{\"app\":");
    case 1:
        return 0;
    case 2:
        return (size_t)snprintf(to, room, "[1,2,{\"metadata\":null}]");
    default:
        break;
    }
    int n = snprintf(to, room, "{\"metadata\":{\"labels\":{\"app\":\"%s\"}},\"spec\":{\"node\":\"n%u\",\"pad\":\"",
                     apps[choose(choices, 4)], choose(choices, 3));
    size_t len = (size_t)n + fill(to + n, choose_rarely(choices, 8) ? choose(choices, 40000) : choose(choices, 64));
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

static size_t write_value(struct choices *choices, enum feed_manner manner, unsigned key, char *to, size_t room)
{
    if (key < FEED_WATCHED)
        return fill(to, choose(choices, 100));
    if (key < FEED_WIDGETS)
        return fill(to, choose_rarely(choices, 6) ? choose(choices, VALUE_MAX) : choose(choices, 300));
    return key < FEED_CRD ? write_widget(choices, manner, to, room) : write_definition(choices, to, room);
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
        event.kv.value = belfry_bytes_of(value, write_value(choices, manner, key, value, sizeof(value)));
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
    unsigned n_keys = manner == FEED_ANY ? FEED_KEYS : FEED_CRD;
    struct belfry_wire_event events[EVENTS_MAX];
    size_t n = choose_rarely(choices, 4) ? 1 + choose(choices, EVENTS_MAX) : 1;
    unsigned key = choose(choices, n_keys);
    int64_t rev = feed->head + 1;
    for (size_t i = 0; i < n; i++, key = (key + 7) % n_keys)
        events[i] = write_event(choices, manner, key, rev, feed->raw[i]);
    publish(&(struct ingest_revision){.rev = rev, .events = events, .n = n, .header = header_at(rev)});
    feed->head = rev;
    tell();
}

void feed_cut(enum evlog_cut_why why)
{
    struct belfry_wire_header header = header_at(feed->head);
    struct store *store = feed->opts.driver.store;
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

static void answer_lost(enum belfry_err err)
{
    for (struct belfry_list *node; (node = belfry_list_pop(&feed->lost)) != NULL;) {
        struct history_reader_job *job = belfry_container(node, struct history_reader_job, node);
        history_reader_answer(job, err, NULL, err == BELFRY_ERR_COMPACTED ? job->oldest : 0);
    }
}

static void answer_points(enum belfry_err err)
{
    for (struct belfry_list *node; (node = belfry_list_pop(&feed->points)) != NULL;) {
        struct readpoint_ask *ask = belfry_container(node, struct readpoint_ask, node);
        atomic_store(&ask->sent, true);
        ask->err = err;
        ask->rev = ingest_committed(feed->ingest);
        ask->past = ingest_past(feed->ingest);
        ask->told(ask);
    }
}

void feed_turn(void)
{
    uint64_t now = belfry_clock_ms();
    ingest_drained(feed->ingest, now);
    ingest_tick(feed->ingest, now);
    answer_lost(BELFRY_ERR_COMPACTED);
    if (!feed->stale)
        answer_points(BELFRY_OK);
}

uint64_t feed_due(void)
{
    return belfry_list_empty(&feed->lost) ? ingest_due(feed->ingest) : 0;
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

/* ---- in the place of daemon/ingest_thread.c ---- */

enum belfry_err ingest_thread_start(const struct ingest_thread_opts *opts, struct ingest_thread **out)
{
    struct ingest_opts ingest = {.store = opts->driver.store,
                                 .evlog = opts->driver.evlog,
                                 .extent_bytes = EXTENT_BYTES,
                                 .trim_rows = TRIM_ROWS,
                                 .whole_scope = true};
    bool warm;
    feed = calloc(1, sizeof(*feed));
    verdict_must(feed != NULL, "the feed");
    feed->opts = *opts;
    feed->head = 1;
    belfry_list_init(&feed->lost);
    belfry_list_init(&feed->points);
    verdict_must(ingest_create(&ingest, &feed->ingest) == BELFRY_OK && ingest_open(feed->ingest, &warm) == BELFRY_OK,
                 "ingest");
    feed_cut(EVLOG_CUT_START);
    *out = feed;
    return BELFRY_OK;
}

void ingest_thread_stop(struct ingest_thread *ingest)
{
    if (ingest == NULL)
        return;
    answer_lost(BELFRY_ERR_CANCELED);
    answer_points(BELFRY_ERR_CANCELED);
    ingest_destroy(ingest->ingest);
    ingest->ingest = NULL;
}

void ingest_thread_destroy(struct ingest_thread *ingest)
{
    free(ingest);
    feed = NULL;
}

void ingest_thread_backfill(struct ingest_thread *ingest, struct history_reader_job *job)
{
    if (ingest->ingest == NULL)
        history_reader_answer(job, BELFRY_ERR_CANCELED, NULL, 0);
    else
        belfry_list_append(&ingest->lost, &job->node);
}

void ingest_thread_post(struct ingest_thread *ingest, struct mail *mail)
{
    mail->open(mail, ingest->ingest == NULL ? NULL : ingest);
}

void ingest_thread_read_point(struct ingest_thread *ingest, struct readpoint_ask *ask)
{
    belfry_list_append(&ingest->points, &ask->node);
}

void ingest_thread_numbers(struct ingest_thread *ingest, struct ingest_thread_numbers *out)
{
    *out = (struct ingest_thread_numbers){.log_oldest = evlog_oldest(ingest->opts.driver.evlog),
                                          .log_bytes = evlog_bytes(ingest->opts.driver.evlog)};
    fill_status(&out->status);
}
