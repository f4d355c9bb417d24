/* src/serve/kube/catalog_feed.c */
#include "serve/kube/catalog_feed.h"

#include <assert.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/owner.h"
#include "core/lines.h"

#define AGAIN_MS  20   /* the store is behind the log by a commit */
#define FAILED_MS 1000 /* memory, or the disk */

/* A watcher on one prefix. */
struct ear {
    struct catalog_feed *feed;
    struct belfry_bytes prefix; /* the config's */
    struct stream *stream;      /* NULL: not open */
    bool lost;
};

/* A task for the reader. It outlives the feed when that ends meanwhile. */
struct reading {
    struct history_reader_task task;
    struct mail mail;
    struct catalog_feed_opts opts;
    struct catalog_feed *feed; /* NULL: it has ended. Touched on the worker's thread alone */
    int64_t floor;
    enum belfry_err err; /* the answer */
};

enum feed_state { FEED_IDLE, FEED_READING };

struct catalog_feed {
    struct catalog_feed_opts opts;
    enum feed_state state; /* moved by catalog_feed_move_to() alone */
    bool due;              /* an event came since the last reading began */
    bool back;             /* a reading has come back and was not handled yet */
    uint64_t began_ms;     /* the last reading */
    uint64_t at_ms;        /* the next reading begins then at the earliest */
    struct reading *reading;
    size_t n_ears;
    BELFRY_OWNER;
    struct ear ears[];
};

static void catalog_feed_move_to(struct catalog_feed *feed, enum feed_state to)
{
    assert(feed->state != to);
    feed->state = to;
}

/* ---- what the watchers are given ---- */

static enum belfry_err on_ear_event(void *stream_user, const struct batch *batch, uint32_t event,
                                    struct belfry_blob **out)
{
    (void)batch, (void)event;
    struct ear *ear = stream_user;
    ear->feed->due = true;
    *out = NULL;
    return BELFRY_OK;
}

static enum belfry_err on_ear_progress(void *stream_user, int64_t rev, struct belfry_blob **out)
{
    (void)stream_user, (void)rev;
    *out = NULL;
    return BELFRY_OK;
}

static enum belfry_err on_ear_lost(void *stream_user, int64_t compact_rev, struct belfry_blob **out)
{
    (void)compact_rev;
    struct ear *ear = stream_user;
    ear->lost = true;
    *out = NULL;
    return BELFRY_OK;
}

static void on_ear_write(void *stream_user, const uint8_t *data, size_t len)
{
    (void)stream_user, (void)data, (void)len;
    assert(false); /* its events produce no bytes */
}

/* ---- watchers ---- */

static void close_ear(struct ear *ear)
{
    if (ear->stream != NULL)
        stream_close(ear->feed->opts.worker, ear->stream);
    ear->stream = NULL;
    ear->lost = false;
}

/* Watches from now on; earlier definitions are read. */
static enum belfry_err open_ear(struct ear *ear, uint64_t now_ms)
{
    static const struct lines lines = {
        .event = on_ear_event, .progress = on_ear_progress, .lost = on_ear_lost, .write = on_ear_write, .inward = true};
    struct worker *worker = ear->feed->opts.worker;
    struct belfry_buf end;
    belfry_buf_init(&end);
    enum belfry_err err = range_prefix_end(ear->prefix, &end);
    if (err == BELFRY_OK)
        err = stream_open_lines(worker, ear, &lines, now_ms, &ear->stream);
    if (err == BELFRY_OK) {
        stream_writable(worker, ear->stream, SIZE_MAX / 2);
        err = stream_create(worker, ear->stream,
                            &(struct stream_create){.key = ear->prefix, .range_end = belfry_buf_bytes(&end)});
    }
    belfry_buf_fini(&end);
    if (err != BELFRY_OK)
        close_ear(ear);
    return err;
}

static void open_ears(struct catalog_feed *feed, uint64_t now_ms)
{
    if (worker_position(feed->opts.worker) == 0)
        return;
    for (size_t i = 0; i < feed->n_ears; i++) {
        struct ear *ear = &feed->ears[i];
        if (ear->lost)
            close_ear(ear);
        if (ear->stream != NULL)
            continue;
        if (open_ear(ear, now_ms) != BELFRY_OK) {
            feed->at_ms = now_ms + FAILED_MS;
            return;
        }
        feed->due = true;
    }
}

/* ---- reading ---- */

/* On the worker's thread; when that has ended (owner NULL), on any thread. */
static void open_reading(struct mail *mail, void *owner)
{
    struct reading *reading = belfry_container(mail, struct reading, mail);
    struct catalog_feed *feed = owner == NULL ? NULL : reading->feed;
    if (feed == NULL) {
        free(reading);
        return;
    }
    catalog_feed_move_to(feed, FEED_IDLE);
    feed->back = true;
}

static enum belfry_err publish_reading(const struct reading *reading)
{
    const struct catalog_feed_opts *opts = &reading->opts;
    struct kube_catalog *catalog;
    enum belfry_err err = definitions_catalog(opts->definitions, opts->log, &catalog);
    return err == BELFRY_OK ? opts->publish(catalog, opts->user) : err;
}

/* On the reader's thread: reads a piece, and queues itself again for the next. */
static void run_reading(struct history_reader_task *task, struct store *store)
{
    struct reading *reading = belfry_container(task, struct reading, task);
    const struct catalog_feed_opts *opts = &reading->opts;
    bool done = true;
    reading->err = store == NULL ? BELFRY_ERR_CANCELED
                                 : definitions_read(opts->definitions, store, reading->floor, opts->log, &done);
    if (reading->err == BELFRY_OK && !done) {
        history_reader_run(*opts->history, task);
        return;
    }
    if (reading->err == BELFRY_OK)
        reading->err = publish_reading(reading);
    thread_post(opts->thread, &reading->mail);
}

/* Every event that the watchers received is at or below the worker's position, in its current past. */
static void read_anew(struct catalog_feed *feed, uint64_t now_ms)
{
    catalog_feed_move_to(feed, FEED_READING);
    feed->due = false;
    feed->began_ms = now_ms;
    feed->reading->floor = worker_position(feed->opts.worker);
    history_reader_run(*feed->opts.history, &feed->reading->task);
}

static void look_at_reading(struct catalog_feed *feed, uint64_t now_ms)
{
    if (!feed->back)
        return;
    feed->back = false;
    uint64_t took_ms = now_ms - feed->began_ms;
    switch (feed->reading->err) {
    case BELFRY_OK:
        feed->at_ms = now_ms + CATALOG_FEED_SETTLE_MS + CATALOG_FEED_SHARE * took_ms;
        return;
    case BELFRY_ERR_AGAIN:
    case BELFRY_ERR_COMPACTED:
        feed->at_ms = now_ms + AGAIN_MS;
        break;
    default:
        feed->at_ms = now_ms + FAILED_MS;
    }
    feed->due = true;
}

/* ---- the feed ---- */

enum belfry_err catalog_feed_create(const struct catalog_feed_opts *opts, struct catalog_feed **out)
{
    const struct definition_sources *sources = opts->sources;
    struct catalog_feed *feed = calloc(1, sizeof(*feed) + sources->n * sizeof(feed->ears[0]));
    if (feed == NULL || (feed->reading = calloc(1, sizeof(*feed->reading))) == NULL) {
        free(feed);
        return BELFRY_ERR_NOMEM;
    }
    feed->opts = *opts;
    *feed->reading = (struct reading){.task.run = run_reading, .mail.open = open_reading, .opts = *opts, .feed = feed};
    for (size_t i = 0; i < sources->n; i++) {
        if (sources->all[i].under != NULL)
            feed->ears[feed->n_ears++] = (struct ear){.feed = feed, .prefix = belfry_bytes_str(sources->all[i].under)};
    }
    BELFRY_OWNER_INIT(feed);
    *out = feed;
    return BELFRY_OK;
}

void catalog_feed_destroy(struct catalog_feed *feed)
{
    if (feed == NULL)
        return;
    BELFRY_OWNER_CHECK(feed);
    for (size_t i = 0; i < feed->n_ears; i++)
        close_ear(&feed->ears[i]);
    if (feed->state == FEED_READING)
        feed->reading->feed = NULL; /* it frees itself when it comes back */
    else
        free(feed->reading);
    free(feed);
}

void catalog_feed_after_turn(struct catalog_feed *feed, uint64_t now_ms)
{
    BELFRY_OWNER_CHECK(feed);
    look_at_reading(feed, now_ms);
    if (now_ms < feed->at_ms)
        return;
    feed->at_ms = 0;
    open_ears(feed, now_ms);
    if (feed->due && feed->state == FEED_IDLE && feed->at_ms == 0)
        read_anew(feed, now_ms);
}

/* A pause with nothing to do after it is not due. */
uint64_t catalog_feed_due(const struct catalog_feed *feed)
{
    bool lost = false;
    for (size_t i = 0; i < feed->n_ears; i++)
        lost = lost || feed->ears[i].lost || feed->ears[i].stream == NULL;
    return feed->at_ms == 0 || !(feed->due || lost) ? BELFRY_NEVER : feed->at_ms;
}
