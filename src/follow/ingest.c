/* src/follow/ingest.c: check, apply, publish, commit.
 *
 * All events of a revision are checked before the first is applied, so a breach leaves nothing to undo. An event is
 * checked against the state, or against the earlier event of the revision that changes the same key.
 */
#include "follow/ingest.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/owner.h"
#include "base/sim.h"
#include "base/xxh64.h"
#include "follow/overlay.h"
#include "follow/repeats.h"

#define RETRY_MS     100 /* before the first try when the disk is in trouble; it doubles */
#define RETRY_MAX_MS 2000
#define RELAPSE      10   /* if the disk fails again within this many calm periods, the trouble was not over */
#define TRIM_MS      1000 /* between trims while nothing is written: history grows old too */
#define WHY_MAX      256

/* A published revision that is not committed. */
struct pending {
    struct batch *batch; /* one reference */
    struct belfry_wire_header header;
};

/* Drawn in ingest.h. */
enum disk { DISK_WELL, DISK_FAILING, DISK_CALMING };

struct ingest {
    /* fixed at creation */
    struct ingest_opts opts;
    const struct store_api *api;
    /* moved by the owner */
    int64_t head, committed;
    uint64_t past;           /* of the log and the store; 0: none yet */
    int64_t overlap_rev;     /* the newest revision with events; 0: not known */
    struct digest overlap;   /* of its events */
    struct pending *pending; /* owned; since the last commit, in order */
    size_t n_pending, cap_pending;
    size_t pending_bytes;
    struct overlay overlay; /* while lost: the state after the first n_overlaid of pending */
    size_t n_overlaid;
    bool open;              /* a transaction of the store */
    size_t open_bytes;      /* applied in it */
    uint64_t commit_at;     /* while open */
    uint64_t trim_at;       /* while not open, and not lost */
    bool lost;              /* the transaction was lost: pending must be applied again */
    bool full;              /* while lost: a revision did not fit into memory */
    uint64_t retry_at;      /* while lost, or a cut is owed */
    uint64_t retry_ms;      /* the wait after the next try */
    enum disk disk;         /* moved by disk_move() alone */
    uint64_t calm_ms;       /* how long CALMING takes */
    uint64_t disk_at;       /* when it is WELL again (CALMING), or has been since (WELL) */
    struct repeats repeats; /* of the revision that is being taken */
    struct evlog_cut owed;  /* past not 0: the store has adopted this past, but the log is not cut yet */
    char why[WHY_MAX], disk_why[WHY_MAX];
    BELFRY_OWNER;
};

enum belfry_err ingest_create(const struct ingest_opts *opts, struct ingest **out)
{
    struct ingest *ingest = calloc(1, sizeof(*ingest));
    if (ingest == NULL)
        return BELFRY_ERR_NOMEM;
    ingest->opts = *opts;
    if (ingest->opts.extent_bytes == 0)
        ingest->opts.extent_bytes = INGEST_EXTENT_BYTES;
    if (ingest->opts.repeat_bytes == 0)
        ingest->opts.repeat_bytes = INGEST_EXTENT_BYTES;
    ingest->api = opts->store->api;
    ingest->retry_ms = RETRY_MS;
    BELFRY_OWNER_INIT(ingest);
    *out = ingest;
    return BELFRY_OK;
}

/* The first n. */
static void drop_pending(struct ingest *ingest, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        ingest->pending_bytes -= ingest->pending[i].batch->bytes;
        batch_unref(ingest->pending[i].batch);
    }
    ingest->n_pending -= n;
    if (ingest->n_pending > 0)
        memmove(ingest->pending, ingest->pending + n, ingest->n_pending * sizeof(*ingest->pending));
    overlay_clear(&ingest->overlay); /* its bytes were theirs */
    ingest->n_overlaid = 0;
}

static void drop_transaction(struct ingest *ingest)
{
    if (ingest->open)
        ingest->api->abort(ingest->opts.store);
    ingest->open = false;
    ingest->open_bytes = 0;
}

void ingest_destroy(struct ingest *ingest)
{
    if (ingest == NULL)
        return;
    BELFRY_OWNER_CHECK(ingest);
    drop_transaction(ingest);
    drop_pending(ingest, ingest->n_pending);
    repeats_clear(&ingest->repeats);
    free(ingest->pending);
    free(ingest);
}

/* ---- what went wrong ---- */

__attribute__((format(printf, 2, 3))) static enum belfry_err breach(struct ingest *ingest, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(ingest->why, sizeof(ingest->why), format, args);
    va_end(args);
    return BELFRY_ERR_REWOUND;
}

static void disk_move(struct ingest *ingest, enum disk to, uint64_t now_ms)
{
    static const char *const names[] = {"well", "failing", "calming"};
    assert(to != ingest->disk && (to != DISK_WELL || ingest->disk == DISK_CALMING));
    if (ingest->disk == DISK_WELL) {
        bool relapse = now_ms < ingest->disk_at + RELAPSE * ingest->calm_ms;
        ingest->calm_ms = relapse ? belfry_min_time(2 * ingest->calm_ms, INGEST_CALM_MAX_MS) : INGEST_CALM_MS;
        ingest->retry_ms = RETRY_MS;
    }
    ingest->disk_at = to == DISK_CALMING ? now_ms + ingest->calm_ms : now_ms;
    ingest->disk = to;
    belfry_logf(ingest->opts.log, BELFRY_LOG_DEBUG, "replica_disk", "is=%s rev=%" PRId64 " uncommitted=%zu why=\"%s\"",
                names[to], ingest->head, ingest->n_pending, ingest->disk_why);
}

static void retry_later(struct ingest *ingest, uint64_t now_ms)
{
    ingest->retry_at = now_ms + ingest->retry_ms;
    ingest->retry_ms = belfry_min_time(2 * ingest->retry_ms, RETRY_MAX_MS);
}

/* A call of the store failed: the transaction is gone, with everything that was applied since the last commit. */
static enum belfry_err store_failed(struct ingest *ingest, const char *what, enum belfry_err err, uint64_t now_ms)
{
    const char *why = err == BELFRY_ERR_IO && ingest->api->why != NULL ? ingest->api->why(ingest->opts.store) : NULL;
    drop_transaction(ingest);
    if (why != NULL)
        snprintf(ingest->disk_why, sizeof(ingest->disk_why), "%s", why);
    else
        snprintf(ingest->disk_why, sizeof(ingest->disk_why), "the replica could not %s: %s", what,
                 belfry_strerror((int)err));
    if (ingest->disk != DISK_FAILING)
        disk_move(ingest, DISK_FAILING, now_ms);
    if (!ingest->lost)
        retry_later(ingest, now_ms);
    ingest->lost = true;
    return err == BELFRY_ERR_NOMEM ? err : BELFRY_ERR_AGAIN;
}

/* ---- the transaction ---- */

static enum belfry_err open_transaction(struct ingest *ingest, uint64_t now_ms)
{
    if (ingest->open)
        return BELFRY_OK;
    enum belfry_err err = ingest->api->begin(ingest->opts.store);
    if (err != BELFRY_OK)
        return store_failed(ingest, "begin a transaction", err, now_ms);
    ingest->open = true;
    ingest->commit_at = now_ms + INGEST_COMMIT_MS;
    return BELFRY_OK;
}

/* Trims a little and commits the transaction. */
static enum belfry_err ingest_seal(struct ingest *ingest, uint64_t now_ms)
{
    size_t trimmed = 0;
    enum belfry_err err = ingest->api->trim(ingest->opts.store, now_ms / 1000, ingest->opts.trim_rows, &trimmed);
    if (err != BELFRY_OK)
        return store_failed(ingest, "trim", err, now_ms);
    err = ingest->api->commit(ingest->opts.store);
    if (err != BELFRY_OK)
        return store_failed(ingest, "commit", err, now_ms);
    ingest->open = false;
    ingest->open_bytes = 0;
    ingest->trim_at = now_ms + (trimmed > 0 && trimmed >= ingest->opts.trim_rows ? INGEST_COMMIT_MS : TRIM_MS);
    return BELFRY_OK;
}

/* Commits what was applied: up to `rev`, which is the first n of pending. */
static enum belfry_err commit_some(struct ingest *ingest, int64_t rev, size_t n, uint64_t now_ms)
{
    enum belfry_err err = ingest_seal(ingest, now_ms);
    if (err != BELFRY_OK)
        return err;
    ingest->committed = rev;
    drop_pending(ingest, n);
    evlog_committed(ingest->opts.evlog, rev);
    return BELFRY_OK;
}

/* Commits everything up to `rev`, which is all that was applied. */
static enum belfry_err ingest_commit(struct ingest *ingest, int64_t rev, uint64_t now_ms)
{
    return commit_some(ingest, rev, ingest->n_pending, now_ms);
}

static enum belfry_err trim_alone(struct ingest *ingest, uint64_t now_ms)
{
    enum belfry_err err = open_transaction(ingest, now_ms);
    return err != BELFRY_OK ? err : ingest_seal(ingest, now_ms);
}

/* ---- after a lost transaction ---- */

static enum belfry_err apply_again(struct ingest *ingest, const struct pending *pending)
{
    const struct batch *batch = pending->batch;
    for (uint32_t i = 0; i < batch->n_events; i++) {
        struct belfry_wire_event event;
        struct belfry_bytes before = batch_prev_kv(batch, &batch->events[i]), prev;
        enum belfry_err err = belfry_scan_event(batch_bytes(batch, &batch->events[i], false), &event);
        if (err == BELFRY_OK)
            err = ingest->api->apply(ingest->opts.store, batch->rev, i, &event, &before, &prev);
        if (err != BELFRY_OK)
            return err;
    }
    return ingest->api->advance(ingest->opts.store, batch->rev, &pending->header);
}

/* Applies again the oldest revisions that the store lost, in one transaction of the usual size. */
static enum belfry_err recover_some(struct ingest *ingest, uint64_t now_ms)
{
    size_t n = 0, bytes = 0;
    enum belfry_err err = open_transaction(ingest, now_ms);
    for (; err == BELFRY_OK && n < ingest->n_pending && bytes < INGEST_COMMIT_BYTES; n++) {
        bytes += ingest->pending[n].batch->bytes;
        err = apply_again(ingest, &ingest->pending[n]);
        if (err != BELFRY_OK)
            return store_failed(ingest, "write", err, now_ms);
    }
    return err != BELFRY_OK ? err : commit_some(ingest, ingest->pending[n - 1].batch->rev, n, now_ms);
}

/* Trims in a separate transaction, so that the next one has space; then applies again the revisions that the log has
 * and the store lost. */
static void ingest_recover(struct ingest *ingest, uint64_t now_ms)
{
    retry_later(ingest, now_ms);
    enum belfry_err err = trim_alone(ingest, now_ms);
    while (err == BELFRY_OK && ingest->n_pending > 0)
        err = recover_some(ingest, now_ms);
    if (err != BELFRY_OK)
        return; /* tried again at retry_at */
    ingest->lost = ingest->full = false;
}

/* ---- a warm open ---- */

static enum belfry_err digest_slices(struct ingest *ingest, int64_t rev, struct digest *digest)
{
    const struct store_api *api = ingest->api;
    bool more = true;
    for (uint32_t sub = 0; more;) {
        struct segment *segment;
        int64_t oldest;
        enum belfry_err err = api->slice(ingest->opts.store, ingest->past, rev, sub, SEGMENT_BYTES, &segment, &oldest);
        if (err != BELFRY_OK)
            return err;
        const struct batch *slice = segment->batches[0];
        for (uint32_t i = 0; i < slice->n_events && err == BELFRY_OK; i++) {
            struct belfry_wire_event event;
            err = belfry_scan_event(batch_bytes(slice, &slice->events[i], false), &event);
            if (err == BELFRY_OK)
                digest_add(digest, &event);
        }
        sub += slice->n_events;
        more = slice->more && slice->n_events > 0;
        segment_unref(segment);
        if (err != BELFRY_OK)
            return err;
    }
    return BELFRY_OK;
}

/* The last revision with events in [from, head], if any. */
static enum belfry_err last_with_events(struct ingest *ingest, int64_t from, int64_t *rev)
{
    *rev = 0;
    while (from <= ingest->head) {
        struct segment *segment;
        int64_t oldest;
        enum belfry_err err =
            ingest->api->history(ingest->opts.store, ingest->past, from, SEGMENT_BYTES, &segment, &oldest);
        if (err != BELFRY_OK)
            return err;
        if (segment->n > 0)
            *rev = segment->batches[segment->n - 1]->rev;
        from = segment->upto + 1;
        segment_unref(segment);
    }
    return BELFRY_OK;
}

/* Finds the newest revision with events: the head when the scope is everything, else some way back, by steps that
 * double. Without one (history was trimmed, or the state is a listing's) there is nothing to compare with. */
static enum belfry_err find_overlap(struct ingest *ingest, int64_t oldest)
{
    enum belfry_err err = BELFRY_OK;
    int64_t rev = 0, step = 1;
    for (int64_t from = ingest->head; from >= oldest && rev == 0; step *= 2) {
        err = last_with_events(ingest, from, &rev);
        if (err != BELFRY_OK)
            return err;
        if (from == oldest)
            break;
        from = from - step > oldest ? from - step : oldest;
    }
    if (rev == 0)
        return BELFRY_OK;
    struct digest digest = {0};
    err = digest_slices(ingest, rev, &digest);
    if (err == BELFRY_OK)
        ingest_set_overlap(ingest, rev, digest);
    return err;
}

enum belfry_err ingest_open(struct ingest *ingest, bool *warm)
{
    BELFRY_OWNER_CHECK(ingest);
    struct store_meta meta;
    ingest->api->meta(ingest->opts.store, &meta);
    if (meta.revision == 0) {
        *warm = false;
        return BELFRY_OK;
    }
    enum belfry_err err = evlog_cut(ingest->opts.evlog, meta.revision, EVLOG_CUT_START, 0);
    if (err != BELFRY_OK)
        return err;
    ingest->api->set_past(ingest->opts.store, ++ingest->past);
    ingest->head = ingest->committed = meta.revision;
    evlog_committed(ingest->opts.evlog, meta.revision);
    err = find_overlap(ingest, meta.oldest);
    if (err == BELFRY_ERR_NOMEM)
        return err;
    if (err != BELFRY_OK)
        belfry_logf(ingest->opts.log, BELFRY_LOG_WARN, "no_overlap", "rev=%" PRId64 " why=\"%s\"", meta.revision,
                    belfry_strerror((int)err));
    *warm = true;
    return BELFRY_OK;
}

/* ---- checking ---- */

static enum belfry_err check_order(struct ingest *ingest, const struct ingest_revision *revision)
{
    int64_t head = ingest->head;
    if (ingest->past == 0)
        return BELFRY_ERR_INVALID;
    if (revision->rev <= head || (ingest->opts.whole_scope && revision->rev != head + 1))
        return breach(ingest, "revision %" PRId64 " came after %" PRId64, revision->rev, head);
    if (revision->n == 0)
        return breach(ingest, "revision %" PRId64 " came without events", revision->rev);
    return BELFRY_OK;
}

/* `before`: what the event finds; NULL: the key is not there. */
static enum belfry_err check_event(struct ingest *ingest, int64_t rev, const struct belfry_wire_event *event,
                                   const struct belfry_wire_kv *before)
{
    const struct belfry_wire_kv *kv = &event->kv;
    int shown = kv->key.len > 64 ? 64 : (int)kv->key.len;
    if (kv->key.len == 0)
        return breach(ingest, "revision %" PRId64 " has an event without a key", rev);
    if (kv->mod_rev != rev)
        return breach(ingest, "an event of revision %" PRId64 " came in revision %" PRId64, kv->mod_rev, rev);
    if (event->is_delete) {
        if (before == NULL)
            return breach(ingest, "revision %" PRId64 " deletes '%.*s', which is not there", rev, shown, kv->key.data);
        return BELFRY_OK;
    }
    int64_t version = before != NULL ? before->version + 1 : 1;
    int64_t create_rev = before != NULL ? before->create_rev : rev;
    if (kv->version != version || kv->create_rev != create_rev)
        return breach(ingest,
                      "revision %" PRId64 " puts '%.*s' at version %" PRId64 " of %" PRId64 "; due was %" PRId64
                      " of %" PRId64,
                      rev, shown, kv->key.data, kv->version, kv->create_rev, version, create_rev);
    return BELFRY_OK;
}

/* The KeyValue of `key` as of the head, lent until the next write. Errors: BELFRY_ERR_NOT_FOUND, and the store's. */
static enum belfry_err ingest_look_up(struct ingest *ingest, struct belfry_bytes key, struct belfry_bytes *kv)
{
    if (ingest->lost && overlay_find(&ingest->overlay, key, kv))
        return kv->len > 0 ? BELFRY_OK : BELFRY_ERR_NOT_FOUND;
    return ingest->api->get(ingest->opts.store, key, kv);
}

/* Does it have a previous value? A PUT that creates its key has none, also if an earlier event of the revision has
 * deleted the key. */
static bool replaces(const struct belfry_wire_event *event)
{
    return event->is_delete || event->kv.create_rev != event->kv.mod_rev;
}

/* Checks an event whose key the revision has changed before: against what that left. `before`: from before the
 * revision. */
static enum belfry_err check_repeat(struct ingest *ingest, const struct ingest_revision *revision,
                                    struct repeat *repeat, struct belfry_bytes before)
{
    const struct belfry_wire_event *event = &revision->events[repeat->at], *last = &revision->events[repeat->last];
    enum belfry_err err = BELFRY_OK;
    if (BELFRY_MUTANT(repeat_prev) && event->is_delete)
        before = last->kv.raw;
    if (before.len > 0 && replaces(event))
        err = repeats_keep(&ingest->repeats, repeat, before);
    if (ingest->repeats.bytes > ingest->opts.repeat_bytes)
        return breach(ingest, "revision %" PRId64 " changes too much again", revision->rev);
    return err != BELFRY_OK ? err : check_event(ingest, revision->rev, event, last->is_delete ? NULL : &last->kv);
}

static struct belfry_bytes repeat_prev(const struct repeat *repeat)
{
    return repeat->before != NULL ? belfry_blob_bytes(repeat->before) : (struct belfry_bytes){0};
}

/* Checks an event; *prev is its previous value, lent until the next look or write. */
static enum belfry_err check_one(struct ingest *ingest, const struct ingest_revision *revision, size_t i,
                                 uint64_t now_ms, struct belfry_bytes *prev)
{
    struct repeat *repeat = repeats_of(&ingest->repeats, i);
    struct belfry_wire_kv kv;
    *prev = (struct belfry_bytes){0};
    enum belfry_err err = ingest_look_up(ingest, revision->events[i].kv.key, prev);
    bool found = err == BELFRY_OK;
    if (found)
        err = belfry_scan_kv(*prev, &kv);
    if (err != BELFRY_OK && err != BELFRY_ERR_NOT_FOUND)
        return store_failed(ingest, "read", err, now_ms);
    if (repeat == NULL)
        return check_event(ingest, revision->rev, &revision->events[i], found ? &kv : NULL);
    err = check_repeat(ingest, revision, repeat, *prev);
    *prev = repeat_prev(repeat);
    return err;
}

/* Checks every event against the state it replaces, and counts the bytes of the batch. */
static enum belfry_err check_events(struct ingest *ingest, const struct ingest_revision *revision, uint64_t now_ms,
                                    size_t *bytes)
{
    *bytes = 0;
    enum belfry_err err = repeats_find(&ingest->repeats, revision->events, revision->n);
    if (err != BELFRY_OK)
        return err;
    for (size_t i = 0; i < revision->n; i++) {
        struct belfry_bytes prev;
        err = check_one(ingest, revision, i, now_ms, &prev);
        if (err != BELFRY_OK && !(err == BELFRY_ERR_REWOUND && BELFRY_MUTANT(no_version_check)))
            return err;
        *bytes += batch_event_bytes(&revision->events[i], prev);
    }
    return BELFRY_OK;
}

/* ---- publishing ---- */

static enum belfry_err reserve_pending(struct ingest *ingest)
{
    if (ingest->n_pending < ingest->cap_pending)
        return BELFRY_OK;
    size_t cap = ingest->cap_pending == 0 ? 64 : ingest->cap_pending * 2;
    struct pending *pending = realloc(ingest->pending, cap * sizeof(*pending));
    if (pending == NULL)
        return BELFRY_ERR_NOMEM;
    ingest->pending = pending;
    ingest->cap_pending = cap;
    return BELFRY_OK;
}

/* Can a revision be taken now? A revision that was applied cannot be undone alone, so the log must have a place for it
 * first. A worker that sleeps inside a turn can occupy all places of the ring, committed or not. */
static bool is_able(struct ingest *ingest)
{
    return ingest->owed.past == 0 && evlog_has_place(ingest->opts.evlog);
}

/* Keeps a published batch until it is committed, consuming the reference. There is a place: reserve_pending(). */
static void ingest_keep(struct ingest *ingest, struct batch *batch, const struct belfry_wire_header *header)
{
    ingest->pending[ingest->n_pending++] = (struct pending){.batch = batch, .header = *header};
    ingest->pending_bytes += batch->bytes;
}

/* Appends a batch whose revision is applied to the open transaction, consuming it. A log that is full of uncommitted
 * batches takes it once it is committed. */
static enum belfry_err ingest_publish(struct ingest *ingest, struct batch *batch,
                                      const struct belfry_wire_header *header, uint64_t now_ms)
{
    int64_t rev = batch->rev;
    struct batch *kept = batch_ref(batch);
    enum belfry_err err = evlog_append(ingest->opts.evlog, batch);
    if (err == BELFRY_ERR_AGAIN) {
        err = ingest_commit(ingest, rev, now_ms);
        if (err == BELFRY_OK)
            err = evlog_append(ingest->opts.evlog, batch);
        if (err != BELFRY_OK)
            batch_unref(batch);
    }
    if (err != BELFRY_OK) {
        assert(ingest->committed < rev); /* there is a place: the log takes what is committed */
        batch_unref(kept);
        return err;
    }
    ingest->head = rev;
    if (ingest->open)
        ingest_keep(ingest, kept, header);
    else
        batch_unref(kept);
    return BELFRY_OK;
}

/* Applies all events; `batch`, if it is not NULL, is filled with them and what was there before. */
static enum belfry_err ingest_apply(struct ingest *ingest, const struct ingest_revision *revision, struct batch *batch,
                                    uint64_t now_ms)
{
    for (size_t i = 0; i < revision->n; i++) {
        const struct belfry_wire_event *event = &revision->events[i];
        const struct repeat *repeat = repeats_of(&ingest->repeats, i);
        struct belfry_bytes prev = {0}, before = repeat != NULL ? repeat_prev(repeat) : prev;
        enum belfry_err err = ingest->api->apply(ingest->opts.store, revision->rev, (uint32_t)i, event,
                                                 repeat != NULL ? &before : NULL, &prev);
        if (err != BELFRY_OK)
            return store_failed(ingest, "write", err, now_ms);
        if (batch != NULL)
            batch_add(batch, event, prev);
    }
    enum belfry_err err = ingest->api->advance(ingest->opts.store, revision->rev, &revision->header);
    return err == BELFRY_OK ? BELFRY_OK : store_failed(ingest, "write", err, now_ms);
}

static enum belfry_err take_extent(struct ingest *ingest, const struct ingest_revision *revision, size_t bytes,
                                   uint64_t now_ms)
{
    struct batch *extent;
    enum belfry_err err = batch_create(revision->rev, BATCH_EXTENT, 0, 0, &extent);
    if (err != BELFRY_OK)
        return err;
    batch_set_extent(extent, revision->n, bytes);
    err = ingest_apply(ingest, revision, NULL, now_ms);
    if (err == BELFRY_OK)
        err = ingest_commit(ingest, revision->rev, now_ms);
    if (err == BELFRY_OK)
        return ingest_publish(ingest, extent, &revision->header, now_ms);
    batch_unref(extent);
    return err;
}

static enum belfry_err take_batch(struct ingest *ingest, const struct ingest_revision *revision, size_t bytes,
                                  uint64_t now_ms)
{
    struct batch *batch;
    enum belfry_err err = batch_create(revision->rev, BATCH_EVENTS, (uint32_t)revision->n, bytes, &batch);
    if (err != BELFRY_OK)
        return err;
    err = ingest_apply(ingest, revision, batch, now_ms);
    if (err == BELFRY_OK)
        return ingest_publish(ingest, batch, &revision->header, now_ms);
    batch_unref(batch);
    return err;
}

static void commit_if_large(struct ingest *ingest, size_t bytes, uint64_t now_ms)
{
    ingest->open_bytes += bytes;
    if (ingest->open && (ingest->open_bytes >= INGEST_COMMIT_BYTES || now_ms >= ingest->commit_at))
        belfry_ignore(
            ingest_commit(ingest, ingest->head, now_ms)); /* it is published; ingest_recover() applies it again */
}

/* Applies to the store, and publishes. */
static enum belfry_err take_revision(struct ingest *ingest, const struct ingest_revision *revision, uint64_t now_ms)
{
    size_t bytes;
    enum belfry_err err = open_transaction(ingest, now_ms);
    if (err == BELFRY_OK)
        err = check_events(ingest, revision, now_ms, &bytes);
    if (err != BELFRY_OK)
        return err;
    err = bytes > ingest->opts.extent_bytes ? take_extent(ingest, revision, bytes, now_ms)
                                            : take_batch(ingest, revision, bytes, now_ms);
    if (err == BELFRY_OK)
        commit_if_large(ingest, bytes, now_ms);
    return err;
}

/* ---- while the disk takes nothing ---- */

/* Appends a batch that the store does not have, consuming it. */
static enum belfry_err publish_held(struct ingest *ingest, struct batch *batch, const struct belfry_wire_header *header)
{
    struct batch *kept = batch_ref(batch);
    int64_t rev = batch->rev;
    enum belfry_err err = evlog_append(ingest->opts.evlog, batch);
    if (err == BELFRY_ERR_AGAIN)
        batch_unref(batch);
    if (err != BELFRY_OK) {
        batch_unref(kept);
        return err;
    }
    ingest->head = rev;
    ingest_keep(ingest, kept, header);
    return BELFRY_OK;
}

static enum belfry_err hold_batch(struct ingest *ingest, const struct ingest_revision *revision, size_t bytes)
{
    struct batch *batch;
    enum belfry_err err = batch_create(revision->rev, BATCH_EVENTS, (uint32_t)revision->n, bytes, &batch);
    if (err != BELFRY_OK)
        return err;
    for (size_t i = 0; i < revision->n; i++) {
        const struct repeat *repeat = repeats_of(&ingest->repeats, i);
        struct belfry_bytes prev = {0};
        err = ingest_look_up(ingest, revision->events[i].kv.key, &prev);
        if (err != BELFRY_OK && err != BELFRY_ERR_NOT_FOUND) {
            batch_unref(batch);
            return err;
        }
        batch_add(batch, &revision->events[i], repeat != NULL ? repeat_prev(repeat) : prev);
    }
    return publish_held(ingest, batch, &revision->header);
}

/* An extent is read from the store, so it cannot be held. */
static bool can_hold(const struct ingest *ingest, size_t bytes)
{
    return bytes <= ingest->opts.extent_bytes &&
           ingest->pending_bytes + ingest->overlay.bytes + bytes <= evlog_max_bytes(ingest->opts.evlog);
}

static enum belfry_err overlay_pending(struct ingest *ingest)
{
    enum belfry_err err = BELFRY_OK;
    for (; ingest->n_overlaid < ingest->n_pending && err == BELFRY_OK; ingest->n_overlaid += err == BELFRY_OK)
        err = overlay_add(&ingest->overlay, ingest->pending[ingest->n_overlaid].batch);
    return err;
}

/* Publishes without the store, which is only read: a transaction that is aborted writes nothing. */
static enum belfry_err hold_revision(struct ingest *ingest, const struct ingest_revision *revision, uint64_t now_ms)
{
    size_t bytes;
    enum belfry_err err = overlay_pending(ingest);
    if (err == BELFRY_OK)
        err = open_transaction(ingest, now_ms);
    if (err == BELFRY_OK)
        err = check_events(ingest, revision, now_ms, &bytes);
    if (err == BELFRY_OK)
        err = can_hold(ingest, bytes) ? hold_batch(ingest, revision, bytes) : BELFRY_ERR_AGAIN;
    drop_transaction(ingest);
    ingest->full = err == BELFRY_ERR_AGAIN;
    return err;
}

/* ---- what comes ---- */

enum belfry_err ingest_find(struct ingest *ingest, struct belfry_bytes key, uint64_t now_ms, struct ingest_found *out)
{
    BELFRY_OWNER_CHECK(ingest);
    struct belfry_bytes raw = {0};
    struct belfry_wire_kv kv;
    enum belfry_err err = ingest->lost ? overlay_pending(ingest) : BELFRY_OK;
    if (err == BELFRY_OK)
        err = ingest->owed.past == 0 ? open_transaction(ingest, now_ms) : BELFRY_ERR_AGAIN;
    if (err != BELFRY_OK)
        return err;
    err = ingest_look_up(ingest, key, &raw);
    if (err == BELFRY_OK)
        err = belfry_scan_kv(raw, &kv);
    if (err != BELFRY_OK && err != BELFRY_ERR_NOT_FOUND)
        err = store_failed(ingest, "read", err, now_ms);
    if (err == BELFRY_OK)
        *out = (struct ingest_found){.create_rev = kv.create_rev,
                                     .mod_rev = kv.mod_rev,
                                     .version = kv.version,
                                     .lease = kv.lease,
                                     .value = belfry_xxh64(0, kv.value)};
    if (ingest->lost)
        drop_transaction(ingest); /* it must not be committed */
    return err;
}

enum belfry_err ingest_revision(struct ingest *ingest, const struct ingest_revision *revision, uint64_t now_ms)
{
    BELFRY_OWNER_CHECK(ingest);
    enum belfry_err err = is_able(ingest) ? check_order(ingest, revision) : BELFRY_ERR_AGAIN;
    if (err == BELFRY_OK)
        err = reserve_pending(ingest);
    if (err != BELFRY_OK)
        return err;
    if (!ingest->lost)
        err = take_revision(ingest, revision, now_ms);
    if (ingest->lost && (err == BELFRY_OK || err == BELFRY_ERR_AGAIN) && ingest->head < revision->rev)
        err = hold_revision(ingest, revision, now_ms);
    repeats_clear(&ingest->repeats);
    if (err == BELFRY_OK)
        ingest_set_overlap(ingest, revision->rev, digest_of(revision->events, revision->n));
    return err;
}

static enum belfry_err take_advance(struct ingest *ingest, int64_t rev, const struct belfry_wire_header *header,
                                    uint64_t now_ms)
{
    struct batch *batch;
    enum belfry_err err = open_transaction(ingest, now_ms);
    if (err == BELFRY_OK)
        err = batch_create(rev, BATCH_ADVANCE, 0, 0, &batch);
    if (err != BELFRY_OK)
        return err;
    err = ingest->api->advance(ingest->opts.store, rev, header);
    if (err != BELFRY_OK) {
        batch_unref(batch);
        return store_failed(ingest, "write", err, now_ms);
    }
    err = ingest_publish(ingest, batch, header, now_ms);
    if (err == BELFRY_OK)
        commit_if_large(ingest, 0, now_ms);
    return err;
}

enum belfry_err ingest_advance(struct ingest *ingest, int64_t rev, const struct belfry_wire_header *header,
                               uint64_t now_ms)
{
    BELFRY_OWNER_CHECK(ingest);
    if (rev <= ingest->head)
        return BELFRY_OK;
    if (ingest->opts.whole_scope) /* every revision has events */
        return breach(ingest, "progress at revision %" PRId64 " came after %" PRId64, rev, ingest->head);
    enum belfry_err err = is_able(ingest) ? reserve_pending(ingest) : BELFRY_ERR_AGAIN;
    if (err != BELFRY_OK)
        return err;
    if (!ingest->lost)
        err = take_advance(ingest, rev, header, now_ms);
    if (ingest->lost && (err == BELFRY_OK || err == BELFRY_ERR_AGAIN) && ingest->head < rev) {
        struct batch *batch;
        err = batch_create(rev, BATCH_ADVANCE, 0, 0, &batch);
        if (err == BELFRY_OK)
            err = publish_held(ingest, batch, header);
    }
    return err;
}

/* ---- time ---- */

void ingest_drained(struct ingest *ingest, uint64_t now_ms)
{
    BELFRY_OWNER_CHECK(ingest);
    if (ingest->open)
        belfry_ignore(ingest_commit(ingest, ingest->head, now_ms)); /* ingest_recover() has it */
}

/* Cuts the log for what the store has adopted. */
static void pay_cut(struct ingest *ingest)
{
    const struct evlog_cut *cut = &ingest->owed;
    if (evlog_cut(ingest->opts.evlog, cut->rev, cut->why, cut->compact_rev) != BELFRY_OK)
        return;
    evlog_committed(ingest->opts.evlog, cut->rev);
    ingest->owed.past = 0;
}

void ingest_tick(struct ingest *ingest, uint64_t now_ms)
{
    BELFRY_OWNER_CHECK(ingest);
    if (ingest->owed.past != 0 && now_ms >= ingest->retry_at) {
        ingest->retry_at = now_ms + RETRY_MS;
        pay_cut(ingest);
    }
    if (ingest->lost && now_ms >= ingest->retry_at)
        ingest_recover(ingest, now_ms);
    else if (ingest->open && now_ms >= ingest->commit_at)
        belfry_ignore(ingest_commit(ingest, ingest->head, now_ms)); /* ingest_recover() has it */
    else if (!ingest->lost && !ingest->open && ingest->head > 0 && now_ms >= ingest->trim_at)
        belfry_ignore(trim_alone(ingest, now_ms)); /* likewise */
    if (ingest->disk == DISK_FAILING && !ingest->lost)
        disk_move(ingest, DISK_CALMING, now_ms);
    else if (ingest->disk == DISK_CALMING && now_ms >= ingest->disk_at)
        disk_move(ingest, DISK_WELL, now_ms);
    evlog_reclaim(ingest->opts.evlog);
}

uint64_t ingest_due(const struct ingest *ingest)
{
    uint64_t due = ingest->disk == DISK_CALMING ? ingest->disk_at : BELFRY_NEVER;
    if (ingest->disk == DISK_FAILING && !ingest->lost)
        return 0;
    if (ingest->lost || ingest->owed.past != 0)
        return belfry_min_time(due, ingest->retry_at);
    if (ingest->open)
        return belfry_min_time(due, ingest->commit_at);
    return ingest->head > 0 ? belfry_min_time(due, ingest->trim_at) : due;
}

/* ---- how it stands ---- */

int64_t ingest_head(const struct ingest *ingest)
{
    return ingest->head;
}

int64_t ingest_committed(const struct ingest *ingest)
{
    return ingest->committed;
}

bool ingest_in_trouble(const struct ingest *ingest)
{
    return ingest->lost || ingest->disk != DISK_WELL || ingest->owed.past != 0;
}

bool ingest_is_stuck(const struct ingest *ingest)
{
    return (ingest->lost && ingest->full) || ingest->owed.past != 0;
}

const char *ingest_why(const struct ingest *ingest)
{
    return ingest->why;
}

const char *ingest_disk_why(const struct ingest *ingest)
{
    return ingest->disk_why;
}

uint64_t ingest_past(const struct ingest *ingest)
{
    return ingest->past;
}

bool ingest_is_whole(const struct ingest *ingest)
{
    return ingest->opts.whole_scope;
}

int64_t ingest_overlap(const struct ingest *ingest)
{
    if (ingest->overlap_rev != 0)
        return ingest->overlap_rev;
    return ingest->opts.whole_scope && ingest->head > 1 ? ingest->head : 0;
}

bool ingest_overlap_digest(const struct ingest *ingest, struct digest *out)
{
    *out = ingest->overlap;
    return ingest->overlap_rev != 0;
}

void ingest_set_overlap(struct ingest *ingest, int64_t rev, struct digest digest)
{
    BELFRY_OWNER_CHECK(ingest);
    ingest->overlap_rev = rev;
    ingest->overlap = digest;
}

static enum belfry_err ingest_differs(struct ingest *ingest, int64_t rev)
{
    return breach(ingest, "revision %" PRId64 " is not what it was", rev);
}

/* An event of the head revision: does the state agree with it? */
static enum belfry_err compare_event(struct ingest *ingest, const struct belfry_wire_event *event, uint64_t now_ms)
{
    struct belfry_bytes raw = {0};
    struct belfry_wire_kv kv;
    enum belfry_err err = ingest->api->get(ingest->opts.store, event->kv.key, &raw);
    if (err == BELFRY_ERR_NOT_FOUND)
        return event->is_delete ? BELFRY_OK : ingest_differs(ingest, event->kv.mod_rev);
    if (err == BELFRY_OK)
        err = belfry_scan_kv(raw, &kv);
    if (err != BELFRY_OK)
        return store_failed(ingest, "read", err, now_ms);
    struct belfry_wire_event ours = {.kv = kv};
    bool equal = !event->is_delete && digest_equal(digest_of(event, 1), digest_of(&ours, 1));
    return equal ? BELFRY_OK : ingest_differs(ingest, event->kv.mod_rev);
}

/* The head came from a listing: its events are unknown, but the state after them is known: after the last of each
 * key. */
static enum belfry_err compare_state(struct ingest *ingest, const struct ingest_revision *revision, uint64_t now_ms)
{
    bool readable = !ingest->lost && ingest->owed.past == 0;
    enum belfry_err err = readable ? open_transaction(ingest, now_ms) : BELFRY_ERR_AGAIN;
    if (err == BELFRY_OK)
        err = repeats_find(&ingest->repeats, revision->events, revision->n);
    for (size_t i = 0; i < revision->n && err == BELFRY_OK && !BELFRY_MUTANT(no_version_check); i++)
        if (!repeats_changed_later(&ingest->repeats, i))
            err = compare_event(ingest, &revision->events[i], now_ms);
    return err;
}

enum belfry_err ingest_compare(struct ingest *ingest, const struct ingest_revision *revision, uint64_t now_ms)
{
    BELFRY_OWNER_CHECK(ingest);
    struct digest digest = digest_of(revision->events, revision->n);
    bool known = ingest->overlap_rev != 0;
    if (revision->rev != (known ? ingest->overlap_rev : ingest->head) || ingest->head == 0)
        return BELFRY_ERR_NOT_FOUND;
    enum belfry_err err = BELFRY_OK;
    if (!known)
        err = compare_state(ingest, revision, now_ms);
    else if (!digest_equal(digest, ingest->overlap))
        err = ingest_differs(ingest, revision->rev);
    if (err == BELFRY_ERR_REWOUND && BELFRY_MUTANT(no_overlap_check))
        err = BELFRY_OK;
    if (err == BELFRY_OK)
        ingest_set_overlap(ingest, revision->rev, digest);
    return err;
}

enum belfry_err ingest_adopt(struct ingest *ingest, int64_t rev, const struct belfry_wire_header *header,
                             enum evlog_cut_why why, int64_t compact_rev)
{
    BELFRY_OWNER_CHECK(ingest);
    drop_transaction(ingest);
    if (ingest->n_pending > 0)
        ingest->lost = true;            /* unless the adoption makes them useless */
    bool owed = ingest->owed.past != 0; /* the log does not know that past: replace it */
    uint64_t past = owed ? ingest->past : ingest->past + 1;
    if (ingest->api->adopt(ingest->opts.store, rev, header, past) != BELFRY_OK)
        return BELFRY_ERR_AGAIN;
    drop_pending(ingest, ingest->n_pending);
    ingest->lost = ingest->full = false;
    ingest->past = past;
    ingest->head = ingest->committed = rev;
    ingest->overlap_rev = 0;
    if (owed && ingest->owed.why > why)
        why = ingest->owed.why; /* a cut that loses all cursors must not become a weaker one */
    ingest->owed = (struct evlog_cut){.past = past, .rev = rev, .why = why, .compact_rev = compact_rev};
    pay_cut(ingest);
    return BELFRY_OK;
}
