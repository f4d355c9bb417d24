/* src/informer/informer.c */
#include "informer/informer.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/owner.h"
#include "client/opts.h"
#include "informer/index.h"
#include "json/document.h"
#include "json/json_alc.h"
#include "json/path.h"

enum told_kind { TOLD_BEGIN, TOLD_PUT, TOLD_REMOVED, TOLD_SYNCED };

/* One event of a source. */
struct told {
    enum told_kind kind;
    struct belfry_object *object; /* PUT; REMOVED: its last state, or NULL. One reference */
    struct belfry_bytes key;      /* REMOVED */
    bool missed;                  /* REMOVED */
};

/* An event in the backlog. */
struct kept {
    struct belfry_list node;
    struct told told; /* its key is in `key` */
    char key[];
};

static struct kept *backlog_pop(struct belfry_informer *informer)
{
    struct belfry_list *first = belfry_list_pop(&informer->backlog);
    return first != NULL ? belfry_container(first, struct kept, node) : NULL;
}

/* ---- entering and leaving ---- */

static void free_informer(struct belfry_informer *informer)
{
    belfry_audience_destroy(informer->audience);
    belfry_store_destroy(informer->store);
    for (struct kept *kept; (kept = backlog_pop(informer)) != NULL; free(kept))
        belfry_object_unref(kept->told.object);
    free(informer);
}

void belfry_informer_arm(struct belfry_informer *informer)
{
    BELFRY_OWNER_CHECK(informer);
    bool busy = informer->state == BELFRY_INFORMER_SWEEPING || informer->source_paused ||
                !belfry_list_empty(&informer->backlog);
    uint64_t due = informer->paused ? BELFRY_NEVER : busy ? 0 : belfry_audience_due(informer->audience);
    belfry_session_set_timer(informer->b, &informer->timer, due);
}

/* Every entry point runs between these two: whatever callbacks do, the informer exists until the outermost leaves. */
static void informer_enter(struct belfry_informer *informer)
{
    informer->calling++;
}

static void informer_leave(struct belfry_informer *informer)
{
    if (belfry_informer_is_open(informer)) {
        if (informer->paused && !informer->source_paused && informer->source.ops != NULL) {
            informer->source_paused = true;
            informer->source.ops->pause(informer->source.impl);
        }
        belfry_informer_arm(informer);
    }
    if (--informer->calling == 0 && informer->state == BELFRY_INFORMER_GONE)
        free_informer(informer);
}

/* ---- ending ---- */

/* Removes everything that could still call the informer. */
static void informer_unhook(struct belfry_informer *informer)
{
    belfry_list_remove(&informer->guest.node);
    belfry_session_set_timer(informer->b, &informer->timer, BELFRY_NEVER);
    informer->b->n_busy--;
    if (informer->source.ops == NULL)
        return;
    belfry_informer_get_stats(informer); /* keep the source's counters */
    const struct belfry_source_ops *ops = informer->source.ops;
    informer->source.ops = NULL;
    ops->close(informer->source.impl);
}

static void informer_go(struct belfry_informer *informer)
{
    struct belfry_audience *audience = informer->audience;
    informer->state = BELFRY_INFORMER_GONE;
    informer->audience = NULL;
    belfry_audience_destroy(audience);
}

/* Reports END to the handlers, unless one of them closes the informer first. */
static void informer_end(struct belfry_informer *informer, enum belfry_err err, const char *why)
{
    assert(belfry_informer_is_open(informer) && informer->calling > 0);
    struct belfry_news news = {.kind = BELFRY_NEWS_END, .err = err, .why = why};
    informer->state = BELFRY_INFORMER_ENDING;
    informer_unhook(informer);
    if (belfry_audience_tell(informer->audience, &news, &informer->paused))
        informer_go(informer);
}

void belfry_informer_close(struct belfry_informer *informer)
{
    if (informer == NULL || informer->state == BELFRY_INFORMER_GONE)
        return;
    BELFRY_OWNER_ENTER(informer->b);
    informer_enter(informer);
    if (belfry_informer_is_open(informer))
        informer_unhook(informer);
    informer_go(informer);
    informer_leave(informer);
}

static void on_session_closed(struct belfry_guest *guest)
{
    struct belfry_informer *informer = belfry_container(guest, struct belfry_informer, guest);
    informer_enter(informer);
    informer_end(informer, BELFRY_ERR_CANCELED, "the session was closed");
    informer_leave(informer);
}

/* ---- events of the source ---- */

/* The informer may have ended, or be gone, afterwards. */
static void informer_tell(struct belfry_informer *informer, const struct belfry_news *news)
{
    bool remains = belfry_audience_tell(informer->audience, news, &informer->paused);
    assert(remains == (informer->state != BELFRY_INFORMER_GONE));
    (void)remains;
}

static void informer_tell_change(struct belfry_informer *informer, const struct belfry_news *news)
{
    informer->stats.changes++;
    informer_tell(informer, news);
}

static void apply_put(struct belfry_informer *informer, struct belfry_object *object)
{
    enum belfry_store_change change;
    struct belfry_object *old = NULL;
    enum belfry_err err = belfry_store_put(informer->store, object, &change, &old);
    if (err != BELFRY_OK) {
        informer_end(informer, err, belfry_strerror(err));
    } else if (belfry_store_bytes(informer->store) > informer->max_bytes) {
        char why[120];
        snprintf(why, sizeof(why), "the store takes %zu bytes, more than max-bytes, which is %zu",
                 belfry_store_bytes(informer->store), informer->max_bytes);
        informer_end(informer, BELFRY_ERR_LIMIT, why);
    } else if (change == BELFRY_STORE_ADDED) {
        informer_tell_change(
            informer, &(struct belfry_news){.kind = BELFRY_NEWS_ADDED, .object = object, .initial = !informer->synced});
    } else if (change == BELFRY_STORE_REPLACED) {
        informer_tell_change(informer,
                             &(struct belfry_news){.kind = BELFRY_NEWS_UPDATED, .object = object, .old = old});
    }
    belfry_object_unref(old);
}

static void apply_removed(struct belfry_informer *informer, const struct told *told)
{
    struct belfry_object *had = belfry_store_take(informer->store, told->key);
    const struct belfry_object *object = told->object != NULL ? told->object : had;
    if (had != NULL)
        informer_tell_change(
            informer, &(struct belfry_news){.kind = BELFRY_NEWS_REMOVED, .object = object, .missed = told->missed});
    belfry_object_unref(had);
    belfry_object_unref(told->object);
}

static void sweep_slice(struct belfry_informer *informer)
{
    for (int n = 0; n < BELFRY_INFORMER_SWEEP && informer->state == BELFRY_INFORMER_SWEEPING && !informer->paused;
         n++) {
        struct belfry_object *object = belfry_store_sweep(informer->store);
        if (object == NULL) { /* the whole state was reported */
            informer->state = BELFRY_INFORMER_FOLLOWING;
            informer->synced = true;
            bool remains = belfry_audience_synced(informer->audience, &informer->paused);
            assert(remains == (informer->state != BELFRY_INFORMER_GONE));
            (void)remains;
            return;
        }
        informer_tell_change(informer,
                             &(struct belfry_news){.kind = BELFRY_NEWS_REMOVED, .object = object, .missed = 1});
        belfry_object_unref(object);
    }
}

static void apply_event(struct belfry_informer *informer, const struct told *told)
{
    switch (told->kind) {
    case TOLD_BEGIN:
        informer->state = BELFRY_INFORMER_FOLLOWING; /* a sweep in progress becomes part of the next */
        belfry_store_begin(informer->store);
        return;
    case TOLD_PUT:
        apply_put(informer, told->object);
        return;
    case TOLD_REMOVED:
        apply_removed(informer, told);
        return;
    case TOLD_SYNCED:
        informer->state = BELFRY_INFORMER_SWEEPING;
        sweep_slice(informer);
        return;
    }
}

/* Applies the event, or keeps it for the end of the pause. */
static void take_event(struct belfry_informer *informer, const struct told *told)
{
    assert(belfry_informer_is_open(informer));
    informer_enter(informer);
    if (!informer->paused && belfry_list_empty(&informer->backlog)) {
        apply_event(informer, told);
        informer_leave(informer);
        return;
    }

    struct kept *kept = malloc(sizeof(*kept) + told->key.len);
    if (kept != NULL) {
        kept->told = *told;
        kept->told.key.data = kept->key;
        if (told->key.len > 0)
            memcpy(kept->key, told->key.data, told->key.len);
        belfry_list_init(&kept->node);
        belfry_list_append(&informer->backlog, &kept->node);
    } else {
        belfry_object_unref(told->object);
        informer_end(informer, BELFRY_ERR_NOMEM, belfry_strerror(BELFRY_ERR_NOMEM));
    }
    informer_leave(informer);
}

static void on_source_begin(void *user)
{
    take_event(user, &(struct told){.kind = TOLD_BEGIN});
}

static void on_source_put(struct belfry_object *object, void *user)
{
    take_event(user, &(struct told){.kind = TOLD_PUT, .object = object});
}

static void on_source_removed(struct belfry_bytes key, struct belfry_object *last, bool missed, void *user)
{
    take_event(user, &(struct told){.kind = TOLD_REMOVED, .object = last, .key = key, .missed = missed});
}

static void on_source_synced(void *user)
{
    take_event(user, &(struct told){.kind = TOLD_SYNCED});
}

static void on_source_undecoded(const char *why, void *user)
{
    struct belfry_informer *informer = user;
    uint64_t n = ++informer->stats.undecoded;
    if (belfry_log_is_due(n))
        belfry_logf(&informer->b->log, BELFRY_LOG_WARN, "informer_undecoded", "n=%llu why=\"%s\"",
                    (unsigned long long)n, why);
}

static void on_source_link(enum belfry_err err, const char *why, void *user)
{
    struct belfry_informer *informer = user;
    if (informer->paused)
        return; /* for a status line: not worth keeping during a pause */
    informer_enter(informer);
    informer_tell(informer, &(struct belfry_news){.kind = BELFRY_NEWS_LINK, .err = err, .why = why});
    informer_leave(informer);
}

static void on_source_end(enum belfry_err err, const char *why, void *user)
{
    informer_enter(user);
    informer_end(user, err, why);
    informer_leave(user);
}

const struct belfry_source_events belfry_informer_events = {.begin = on_source_begin,
                                                            .put = on_source_put,
                                                            .removed = on_source_removed,
                                                            .synced = on_source_synced,
                                                            .undecoded = on_source_undecoded,
                                                            .link = on_source_link,
                                                            .end = on_source_end};

/* ---- turns ---- */

static bool may_go_on(const struct belfry_informer *informer)
{
    return belfry_informer_is_open(informer) && !informer->paused;
}

static void on_informer_timer(struct belfry_timer *timer)
{
    struct belfry_informer *informer = belfry_container(timer, struct belfry_informer, timer);
    informer_enter(informer);

    /* First what came during the pause; then the source may continue. */
    struct kept *kept;
    while (may_go_on(informer) && (kept = backlog_pop(informer)) != NULL) {
        apply_event(informer, &kept->told);
        free(kept);
    }
    if (may_go_on(informer) && informer->source_paused) {
        informer->source_paused = false;
        informer->source.ops->resume(informer->source.impl);
    }

    if (may_go_on(informer))
        sweep_slice(informer);
    if (may_go_on(informer) && !belfry_audience_turn(informer->audience, belfry_clock_ms(), &informer->paused))
        assert(informer->state == BELFRY_INFORMER_GONE);
    informer_leave(informer);
}

void belfry_informer_resume(struct belfry_informer *informer)
{
    BELFRY_OWNER_ENTER(informer->b);
    if (!informer->paused || !belfry_informer_is_open(informer))
        return;
    informer->paused = false;
    belfry_informer_arm(informer);
}

/* ---- opening ---- */

enum belfry_err belfry_informer_create(struct belfry *b, const struct belfry_opts *opts, unsigned where,
                                       belfry_news_fn fn, void *user, struct belfry_informer **out)
{
    if (!belfry_opts_fit(opts, where))
        return belfry_why_note(b, BELFRY_ERR_INVALID, belfry_opts_why(opts));
    if (b->closing)
        return belfry_why_note(b, BELFRY_ERR_CANCELED, "the session is being closed");
    struct belfry_informer *informer = calloc(1, sizeof(*informer));
    if (informer == NULL)
        return belfry_why_note(b, BELFRY_ERR_NOMEM, NULL);
    informer->b = b;
    informer->max_bytes = (size_t)belfry_opts_number(opts, BELFRY_OPT_MAX_BYTES);
    informer->guest.close = on_session_closed;
    belfry_timer_init(&informer->timer, on_informer_timer);
    belfry_list_init(&informer->backlog);
    enum belfry_err err = belfry_store_create(&informer->store);
    if (err == BELFRY_OK)
        err = belfry_audience_create(informer, informer->store, &informer->audience);
    struct belfry_handler *first;
    uint32_t resync_ms = (uint32_t)belfry_opts_number(opts, BELFRY_OPT_RESYNC);
    if (err == BELFRY_OK && fn != NULL)
        err = belfry_audience_add(informer->audience, fn, user, resync_ms, belfry_clock_ms(), &first);
    if (err != BELFRY_OK) {
        free_informer(informer);
        return belfry_why_note(b, err, NULL);
    }
    belfry_list_init(&informer->guest.node);
    belfry_list_prepend(&b->guests, &informer->guest.node);
    b->n_busy++;
    belfry_informer_arm(informer);
    BELFRY_OWNER_INIT(informer);
    *out = informer;
    return BELFRY_OK;
}

void belfry_informer_attach(struct belfry_informer *informer, struct belfry_source source)
{
    BELFRY_OWNER_CHECK(informer);
    assert(informer->source.ops == NULL && belfry_informer_is_open(informer));
    informer->source = source;
}

enum belfry_err belfry_informer_opened(struct belfry_informer *informer, enum belfry_err err,
                                       struct belfry_source source, struct belfry_informer **out)
{
    struct belfry *b = informer->b;
    if (err != BELFRY_OK) {
        belfry_informer_close(informer);
        return b->why[0] != '\0' ? err : belfry_why_note(b, err, NULL); /* a follow has noted more */
    }
    belfry_informer_attach(informer, source);
    if (out != NULL)
        *out = informer;
    return BELFRY_OK;
}

/* ---- handlers ---- */

int belfry_informer_add(struct belfry_informer *informer, const struct belfry_opts *opts, belfry_news_fn fn, void *user,
                        struct belfry_handler **out)
{
    BELFRY_OWNER_ENTER(informer->b);
    if (fn == NULL)
        return belfry_why_note(informer->b, BELFRY_ERR_INVALID, "a callback is missing");
    if (!belfry_opts_fit(opts, BELFRY_FOR_HANDLER))
        return belfry_why_note(informer->b, BELFRY_ERR_INVALID, belfry_opts_why(opts));
    if (!belfry_informer_is_open(informer))
        return belfry_why_note(informer->b, BELFRY_ERR_CANCELED, "the informer has ended");
    struct belfry_handler *handler;
    uint32_t resync_ms = (uint32_t)belfry_opts_number(opts, BELFRY_OPT_RESYNC);
    enum belfry_err err = belfry_audience_add(informer->audience, fn, user, resync_ms, belfry_clock_ms(), &handler);
    if (err != BELFRY_OK)
        return belfry_why_note(informer->b, err, NULL);
    belfry_informer_arm(informer);
    if (out != NULL)
        *out = handler;
    return BELFRY_OK;
}

int belfry_informer_synced(const struct belfry_informer *informer)
{
    return informer->synced;
}

/* ---- the store ---- */

static struct belfry_bytes key_after(const struct belfry_object *after)
{
    return after == NULL ? (struct belfry_bytes){0} : belfry_object_key(after);
}

const struct belfry_object *belfry_informer_get(const struct belfry_informer *informer, struct belfry_bytes key)
{
    return belfry_store_get(informer->store, key);
}

const struct belfry_object *belfry_informer_next(const struct belfry_informer *informer, struct belfry_bytes prefix,
                                                 const struct belfry_object *after)
{
    return belfry_store_next(informer->store, prefix, key_after(after));
}

size_t belfry_informer_count(const struct belfry_informer *informer)
{
    return belfry_store_count(informer->store);
}

const struct belfry_informer_stats *belfry_informer_get_stats(struct belfry_informer *informer)
{
    BELFRY_OWNER_ENTER(informer->b);
    struct belfry_informer_stats *stats = &informer->stats;
    stats->objects = belfry_store_count(informer->store);
    stats->bytes = belfry_store_bytes(informer->store);
    stats->object_bytes = belfry_store_object_bytes(informer->store);
    if (informer->source.ops != NULL) {
        struct belfry_source_counts counts = {0};
        informer->source.ops->counts(informer->source.impl, &counts);
        stats->lists = counts.lists;
        stats->relists = counts.relists;
        stats->watches = counts.watches;
        stats->retries = counts.retries;
    }
    return stats;
}

/* ---- indexes ---- */

static int index_added(struct belfry_informer *informer, enum belfry_err err)
{
    const char *why = err == BELFRY_ERR_INVALID ? "the index has a name that is taken, or a malformed path"
                      : err == BELFRY_ERR_LIMIT ? "the informer has as many indexes as it can"
                                                : NULL;
    return belfry_why_unless_ok(informer->b, err, why);
}

int belfry_informer_index(struct belfry_informer *informer, const char *name, belfry_index_fn fn, void *user)
{
    BELFRY_OWNER_ENTER(informer->b);
    return index_added(informer, belfry_store_index(informer->store, name, fn, user, NULL));
}

/* As in belfry_json_at(): a string is its text, null counts as missing. Other values are their JSON. */
static void add_path_value(yyjson_val *value, void *user)
{
    struct belfry_index_values *values = user;
    if (yyjson_is_str(value) || yyjson_is_raw(value)) {
        belfry_index_add(values, belfry_kube_document_bytes(value));
        return;
    }
    if (yyjson_is_null(value))
        return;
    size_t len;
    yyjson_write_err why;
    char *json = yyjson_val_write_opts(value, YYJSON_WRITE_NOFLAG, &belfry_json_alc, &len, &why);
    if (json != NULL)
        belfry_index_add(values, belfry_bytes_of(json, len));
    else
        belfry_index_fail(values); /* no memory: any parsed value can be written */
    free(json);
}

static void find_path_values(const struct belfry_object *object, struct belfry_index_values *values, void *user)
{
    const struct belfry_kube_path *path = user;
    struct belfry_bytes json = belfry_object_value(object);
    struct belfry_kube_document document;
    enum belfry_err err = belfry_kube_document_read(&json, 1, &document);
    if (err == BELFRY_OK) {
        belfry_kube_path_each(path, document.root, add_path_value, values);
        belfry_kube_document_fini(&document);
    } else if (err == BELFRY_ERR_NOMEM) {
        belfry_index_fail(values);
    }
}

static void free_path(void *user)
{
    belfry_kube_path_free(user);
}

int belfry_informer_index_path(struct belfry_informer *informer, const char *name, const char *path)
{
    BELFRY_OWNER_ENTER(informer->b);
    struct belfry_kube_path *read;
    enum belfry_err err = belfry_kube_path_read(belfry_bytes_str(path), &read);
    if (err == BELFRY_OK)
        err = belfry_store_index(informer->store, name, find_path_values, read, free_path);
    return index_added(informer, err);
}

const struct belfry_object *belfry_informer_by(const struct belfry_informer *informer, const char *name,
                                               struct belfry_bytes value, const struct belfry_object *after)
{
    return belfry_store_by(informer->store, name, value, key_after(after));
}
