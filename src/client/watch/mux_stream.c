/* src/client/watch/mux_stream.c: the Watch stream of a mux: what is sent on it, and what comes. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/owner.h"
#include "client/watch/mux_private.h"
#include "wire/write.h"

#define CREATES_MAX       1024          /* unanswered */
#define CREATES_MAX_BYTES (1024 * 1024) /* of keys in them */

bool belfry_mux_wants_stream(const struct belfry_mux *mux)
{
    return !mux->up && !belfry_list_empty(&mux->waiting);
}

void belfry_mux_stream_up(struct belfry_mux *mux, uint64_t now_ms)
{
    BELFRY_OWNER_CHECK(mux);
    assert(!mux->up);
    (void)now_ms;
    mux->up = true;
    if (mux->progress_wanted)
        mux->progress_due = BELFRY_NEVER;
}

void belfry_mux_stream_down(struct belfry_mux *mux)
{
    BELFRY_OWNER_CHECK(mux);
    if (!mux->up)
        return;
    mux->up = false;
    mux->create_due = BELFRY_NEVER;
    mux->progress_asked = mux->progress_answered = 0;
    belfry_subs_drop(&mux->subs);
    belfry_list_each (node, &mux->all) {
        struct belfry_mux_watch *watch = belfry_mux_of_all(node);
        if (watch->removed || (watch->state != CREATING && watch->state != OPEN))
            continue;
        watch->sub = NULL;
        belfry_mux_cut(watch);
        belfry_mux_move(mux, watch, PARKED);
        belfry_mux_settle(mux, watch);
        belfry_mux_ready(mux, watch); /* what is left in the inbox empties itself there */
    }
}

/* Where a watch with an empty inbox goes on: a progress that waits to be given counts as given. */
static int64_t resume_rev(const struct belfry_mux_watch *watch)
{
    return watch->progress_rev >= watch->next_rev ? watch->progress_rev + 1 : watch->next_rev;
}

static enum belfry_err send_create(struct belfry_mux *mux, struct belfry_mux_watch *watch, uint64_t now_ms,
                                   struct belfry_buf *out)
{
    struct belfry_wire_create create = {
        .key = belfry_bytes_of(watch->bytes, watch->key_len),
        .range_end = belfry_bytes_of(watch->bytes + watch->key_len, watch->end_len),
        .start_revision = resume_rev(watch),
        .progress_notify = watch->progress_notify,
        .prev_kv = watch->prev_kv,
        .no_put = watch->no_put,
        .no_delete = watch->no_delete,
        .fragment = watch->fragment && mux->pieces,
    };
    struct belfry_sub *sub = belfry_subs_add(&mux->subs, watch, watch->key_len + watch->end_len);
    if (sub == NULL)
        return BELFRY_ERR_NOMEM;
    enum belfry_err err = belfry_write_watch_create(out, &create);
    if (err != BELFRY_OK) {
        belfry_subs_free(&mux->subs, sub);
        return err;
    }
    sub->asked = mux->progress_asked;
    if (mux->subs.n_creating == 1)
        mux->create_due = now_ms + BELFRY_MUX_CREATE_TIMEOUT_MS;
    watch->sub = sub;
    mux->stats.creates++;
    mux->stats.resumes += watch->began;
    watch->began = true;
    belfry_mux_move(mux, watch, CREATING);
    return BELFRY_OK;
}

static enum belfry_err send_cancel(struct belfry_sub *sub, struct belfry_buf *out)
{
    enum belfry_err err = belfry_write_watch_cancel(out, sub->id);
    if (err == BELFRY_OK)
        belfry_subs_cancel_sent(sub);
    return err;
}

enum belfry_err belfry_mux_pull(struct belfry_mux *mux, uint64_t now_ms, struct belfry_buf *out)
{
    BELFRY_OWNER_CHECK(mux);
    if (!mux->up)
        return BELFRY_ERR_AGAIN;
    struct belfry_sub *due = belfry_subs_due(&mux->subs);
    if (due != NULL)
        return send_cancel(due, out);
    while (!belfry_list_empty(&mux->waiting)) {
        struct belfry_mux_watch *watch = belfry_mux_of_queue(mux->waiting.next);
        if (watch->paused) { /* nobody reads it: created when it is resumed */
            belfry_mux_move(mux, watch, PARKED);
            continue;
        }
        if (mux->subs.n_creating >= (mux->in_order ? CREATES_MAX : 1) ||
            (mux->subs.n_creating > 0 && mux->subs.creating_bytes >= CREATES_MAX_BYTES))
            return BELFRY_ERR_AGAIN;
        return send_create(mux, watch, now_ms, out);
    }
    /* No server answers a progress request while a create is on its way: ask after it. */
    if (mux->progress_wanted && mux->progress_trusted && mux->progress_due == BELFRY_NEVER &&
        mux->subs.n_creating == 0 && mux->subs.by_id.count > 0) {
        enum belfry_err err = belfry_write_watch_progress(out);
        if (err == BELFRY_OK) {
            mux->progress_ms = now_ms;
            mux->progress_due = now_ms + BELFRY_MUX_PROGRESS_MS;
            mux->progress_asked++;
        }
        return err;
    }
    return BELFRY_ERR_AGAIN;
}

/* ---- responses ---- */

static bool reason_has(struct belfry_bytes reason, const char *words)
{
    return reason.len > 0 && memmem(reason.data, reason.len, words, strlen(words)) != NULL;
}

static bool is_auth_reason(struct belfry_bytes reason)
{
    return reason_has(reason, "invalid auth token") || reason_has(reason, "revision of auth store is old") ||
           reason_has(reason, "user name is empty");
}

/* The server will not have this watch. */
static void refuse(struct belfry_mux *mux, struct belfry_mux_watch *watch, const struct belfry_wire_watch *response)
{
    struct belfry_bytes reason = response->cancel_reason;
    char why[BELFRY_MUX_WHY];
    snprintf(why, sizeof(why), "%.*s", (int)(reason.len < BELFRY_MUX_WHY ? reason.len : BELFRY_MUX_WHY - 1),
             reason.len > 0 ? reason.data : "");
    enum belfry_err err = BELFRY_ERR_REFUSED;
    if (response->compact_revision > 0 || reason_has(reason, "required revision has been compacted"))
        err = BELFRY_ERR_COMPACTED;
    else if (reason_has(reason, "permission denied"))
        err = BELFRY_ERR_DENIED;
    else if (is_auth_reason(reason))
        err = BELFRY_ERR_AUTH;
    watch->end_header = response->header;
    belfry_mux_end_watch(mux, watch, err, response->compact_revision, why);
}

/* The server knows nothing of it any more. */
static void forget(struct belfry_mux *mux, struct belfry_sub *sub)
{
    if (sub->watch != NULL)
        sub->watch->sub = NULL;
    belfry_subs_free(&mux->subs, sub);
}

/* The server has the watch. It is told once: what is resumed goes on where it was. */
static void note_created(struct belfry_mux *mux, struct belfry_mux_watch *watch,
                         const struct belfry_wire_watch *response)
{
    if (!watch->created_notify)
        return;
    watch->created_notify = false;
    watch->created = true;
    watch->created_rev = watch->next_rev - 1;
    watch->created_header = response->header;
    belfry_mux_ready(mux, watch);
}

/* A create was answered, in the order of the creates. */
static enum belfry_err on_created(struct belfry_mux *mux, const struct belfry_wire_watch *response, uint64_t now_ms)
{
    struct belfry_sub *sub = belfry_subs_first(&mux->subs);
    if (sub == NULL)
        return BELFRY_ERR_PROTOCOL;
    struct belfry_mux_watch *watch = sub->watch;
    if (response->canceled || response->watch_id == -1) {
        if (is_auth_reason(response->cancel_reason) && !mux->auth_final)
            return BELFRY_ERR_AUTH;
        forget(mux, sub);
        if (watch != NULL)
            refuse(mux, watch, response);
    } else {
        if (belfry_subs_find(&mux->subs, response->watch_id) != NULL)
            return BELFRY_ERR_PROTOCOL;
        mux->in_order = mux->in_order || response->header.cluster_id != 0;
        belfry_subs_name(&mux->subs, sub, response->watch_id);
        sub->created_rev = response->header.revision;
        if (watch == NULL) {
            belfry_subs_cancel(&mux->subs, sub); /* closed before it was created */
        } else {
            belfry_mux_move(mux, watch, OPEN);
            note_created(mux, watch, response);
        }
        mux->auth_final = false;
    }
    mux->create_due = mux->subs.n_creating == 0 ? BELFRY_NEVER : now_ms + BELFRY_MUX_CREATE_TIMEOUT_MS;
    return BELFRY_OK;
}

static void on_canceled(struct belfry_mux *mux, const struct belfry_wire_watch *response)
{
    struct belfry_sub *sub = belfry_subs_find(&mux->subs, response->watch_id);
    if (sub == NULL)
        return;
    struct belfry_mux_watch *watch = sub->watch;
    if (response->compact_revision > 0) {
        /* The server remembers the id until it is cancelled, and answers no progress request before that. */
        if (watch != NULL) {
            belfry_mux_detach(mux, watch);
            refuse(mux, watch, response);
        }
        return;
    }
    forget(mux, sub);
    if (watch == NULL)
        return; /* the confirmation of our own cancel */
    if (response->cancel_reason.len > 0 || watch->recreates++ >= BELFRY_MUX_RECREATES) {
        refuse(mux, watch, response);
        return;
    }
    belfry_mux_cut(watch);
    belfry_mux_move(mux, watch, PARKED);
    belfry_mux_settle(mux, watch);
    belfry_mux_ready(mux, watch);
}

static void note_progress(struct belfry_mux *mux, struct belfry_mux_watch *watch,
                          const struct belfry_wire_watch *response)
{
    if (!belfry_mux_may_tell(watch, response->header.revision))
        return; /* it starts in the future, or knows more already */
    watch->progress_rev = response->header.revision;
    watch->header = response->header;
    belfry_mux_ready(mux, watch);
}

/* Is an answer to a progress request good for this sub? The server sends created answers from a queue of their own, so
 * an answer computed before a watch was registered may come after its created, while events below it are yet to be
 * replayed. It is good if it is newer than the created answer, if it cannot belong to a request sent before the create,
 * or if the sub has had something from the same queue. */
static bool covers(const struct belfry_mux *mux, const struct belfry_sub *sub, int64_t revision)
{
    return sub->spoke || revision > sub->created_rev || mux->progress_answered > sub->asked;
}

static void on_progress_of_all(struct belfry_mux *mux, const struct belfry_wire_watch *response)
{
    bool all = true;
    if (!mux->progress_trusted)
        return; /* nobody asked, and events below it may be yet to come */
    mux->progress_answered++;
    belfry_list_each (node, &mux->all) {
        struct belfry_mux_watch *watch = belfry_mux_of_all(node);
        if (watch->state != OPEN || watch->removed)
            continue;
        if (covers(mux, watch->sub, response->header.revision))
            note_progress(mux, watch, response);
        else
            all = false;
    }
    mux->progress_wanted = mux->progress_wanted && !all; /* if not good for all, asked again when it is due */
}

static void on_progress(struct belfry_mux *mux, const struct belfry_wire_watch *response)
{
    if (response->watch_id == -1) {
        on_progress_of_all(mux, response);
        return;
    }
    struct belfry_sub *sub = belfry_subs_find(&mux->subs, response->watch_id);
    if (sub == NULL || sub->watch == NULL)
        return;
    sub->spoke = true;
    note_progress(mux, sub->watch, response);
}

/* The watch is over what it may hold: it keeps what it has, lets go upstream and is created again from there. */
static void park(struct belfry_mux *mux, struct belfry_mux_watch *watch)
{
    belfry_mux_detach(mux, watch);
    belfry_mux_cut(watch);
    mux->stats.parked++;
    belfry_mux_move(mux, watch, PARKED);
    belfry_mux_settle(mux, watch);
}

static enum belfry_err on_unknown(struct belfry_mux *mux, int64_t id)
{
    if (mux->subs.n_unknown >= BELFRY_MUX_ORPHANS)
        return BELFRY_ERR_PROTOCOL;
    /* cancelled once: the orphan swallows the rest */
    return belfry_subs_add_unknown(&mux->subs, id) != NULL ? BELFRY_OK : BELFRY_ERR_NOMEM;
}

/* Is an event at or below a progress that came before it? Events are given first, so the watch comes to no harm, unless
 * the progress was given already; but the server has said what was not so. */
static void check_progress(struct belfry_mux *mux, const struct belfry_mux_watch *watch,
                           const struct belfry_blob *message)
{
    size_t at = 0;
    struct belfry_bytes event;
    int64_t rev;
    if (watch->progress_rev > 0 &&
        belfry_scan_field(belfry_blob_bytes(message), BELFRY_WATCH_EVENTS, &at, &event) == BELFRY_OK &&
        belfry_scan_event_rev(event, &rev) == BELFRY_OK && rev <= watch->progress_rev)
        belfry_logf(mux->opts.log, BELFRY_LOG_WARN, "progress_early", "progress=%lld rev=%lld",
                    (long long)watch->progress_rev, (long long)rev);
}

static enum belfry_err on_events(struct belfry_mux *mux, struct belfry_blob *message,
                                 const struct belfry_wire_watch *response)
{
    struct belfry_sub *sub = belfry_subs_find(&mux->subs, response->watch_id);
    if (sub == NULL)
        return on_unknown(mux, response->watch_id);
    struct belfry_mux_watch *watch = sub->watch;
    if (watch == NULL)
        return BELFRY_OK;
    sub->spoke = true;
    watch->recreates = 0;
    check_progress(mux, watch, message);
    if (watch->paused && watch->inbox.bytes + belfry_blob_len(message) > watch->pause_bytes) {
        park(mux, watch);
        return BELFRY_OK;
    }
    size_t before = watch->inbox.bytes;
    enum belfry_err err = belfry_inbox_add(&watch->inbox, message, response);
    if (err != BELFRY_OK)
        return err;
    belfry_mux_count_held(mux, watch, before);
    belfry_mux_ready(mux, watch);
    return BELFRY_OK;
}

enum belfry_err belfry_mux_message(struct belfry_mux *mux, struct belfry_blob *message, uint64_t now_ms)
{
    BELFRY_OWNER_CHECK(mux);
    struct belfry_wire_watch response;
    enum belfry_err err = belfry_scan_watch(belfry_blob_bytes(message), &response);
    if (err != BELFRY_OK)
        return err;
    if (!mux->up)
        return BELFRY_ERR_PROTOCOL;
    int64_t revision = response.header.revision;
    if (response.created && revision > 0 && revision < mux->seen)
        mux->suspects = true;
    belfry_mux_saw(mux, revision);
    if (response.created)
        return on_created(mux, &response, now_ms);
    if (response.canceled) {
        on_canceled(mux, &response);
        return BELFRY_OK;
    }
    if (response.n_events > 0)
        return on_events(mux, message, &response);
    if (revision > 0 && !response.fragment && response.compact_revision == 0)
        on_progress(mux, &response);
    return BELFRY_OK;
}

struct belfry_mux_watch *belfry_mux_creating(const struct belfry_mux *mux)
{
    const struct belfry_sub *sub = belfry_subs_first(&mux->subs);
    return sub != NULL ? sub->watch : NULL;
}

void belfry_mux_fail(struct belfry_mux *mux, enum belfry_err err, const char *why)
{
    BELFRY_OWNER_CHECK(mux);
    belfry_list_each (node, &mux->all) {
        struct belfry_mux_watch *watch = belfry_mux_of_all(node);
        if (watch->removed)
            continue;
        belfry_mux_detach(mux, watch);
        belfry_mux_end_watch(mux, watch, err, 0, why);
    }
}

void belfry_mux_auth_is_final(struct belfry_mux *mux, bool final)
{
    BELFRY_OWNER_CHECK(mux);
    mux->auth_final = final;
}

void belfry_mux_request_progress(struct belfry_mux *mux, uint64_t now_ms)
{
    BELFRY_OWNER_CHECK(mux);
    if (mux->count == 0 || mux->progress_wanted)
        return;
    bool soon = mux->progress_ms > 0 && now_ms < mux->progress_ms + BELFRY_MUX_PROGRESS_MS;
    mux->progress_wanted = true;
    mux->progress_due = soon ? mux->progress_ms + BELFRY_MUX_PROGRESS_MS : BELFRY_NEVER;
}

bool belfry_mux_wants_progress(const struct belfry_mux *mux)
{
    return mux->progress_wanted;
}

void belfry_mux_in_pieces(struct belfry_mux *mux, bool pieces)
{
    BELFRY_OWNER_CHECK(mux);
    mux->pieces = pieces;
}

void belfry_mux_trust_progress(struct belfry_mux *mux, bool trusted)
{
    BELFRY_OWNER_CHECK(mux);
    mux->progress_trusted = trusted;
}

enum belfry_err belfry_mux_tick(struct belfry_mux *mux, uint64_t now_ms)
{
    BELFRY_OWNER_CHECK(mux);
    if (mux->up && now_ms >= mux->create_due)
        return BELFRY_ERR_TIMEOUT;
    if (mux->progress_wanted && now_ms >= mux->progress_due)
        mux->progress_due = BELFRY_NEVER; /* the next pull asks again */
    return BELFRY_OK;
}

uint64_t belfry_mux_due(const struct belfry_mux *mux)
{
    if (!mux->up)
        return BELFRY_NEVER;
    return belfry_min_time(mux->create_due, mux->progress_wanted ? mux->progress_due : BELFRY_NEVER);
}

/* ---- a member that is behind ---- */

bool belfry_mux_suspects(const struct belfry_mux *mux, int64_t *seen)
{
    *seen = mux->seen;
    return mux->suspects;
}

/* Does the place of this watch come from the cluster as it was? One that starts from now on has read it there. */
static bool has_begun(const struct belfry_mux_watch *watch)
{
    return watch->began || (watch->generation > 0 && watch->state != NEED_REV);
}

void belfry_mux_judge(struct belfry_mux *mux, int64_t seen, int64_t linearizable)
{
    BELFRY_OWNER_CHECK(mux);
    mux->suspects = false;
    if (linearizable >= seen)
        return; /* it was lag */
    char why[BELFRY_MUX_WHY];
    snprintf(why, sizeof(why), "the cluster is at revision %lld but was at %lld before: it was restored from a backup",
             (long long)linearizable, (long long)seen);
    belfry_mux_rewound(mux, linearizable, why);
}

void belfry_mux_rewound(struct belfry_mux *mux, int64_t revision, const char *why)
{
    BELFRY_OWNER_CHECK(mux);
    mux->suspects = false;
    mux->seen = revision;
    belfry_list_each (node, &mux->all) {
        struct belfry_mux_watch *watch = belfry_mux_of_all(node);
        if (watch->removed || !has_begun(watch))
            continue;
        belfry_mux_detach(mux, watch);
        belfry_mux_end_watch(mux, watch, BELFRY_ERR_REWOUND, revision, why);
    }
}

void belfry_mux_saw(struct belfry_mux *mux, int64_t revision)
{
    BELFRY_OWNER_CHECK(mux);
    if (revision > mux->seen)
        mux->seen = revision;
}
