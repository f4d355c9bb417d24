/* src/client/watch/mux.c
 *
 * Two halves meet in a watch: responses of the stream fill its inbox, and belfry_mux_next() empties it. A watch with
 * something to say is in `ready`; one that waits for the store's revision is in `need_rev`; one that waits for its
 * create to be sent is in `waiting`.
 */
#include "client/watch/mux.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/owner.h"
#include "client/watch/subs.h"
#include "wire/write.h"

#define WHY_BYTES         256           /* of a reason, with its NUL */
#define CREATES_MAX       1024          /* unanswered */
#define CREATES_MAX_BYTES (1024 * 1024) /* of keys in them */

/* Drawn in mux.h; moved by watch_move_to(). */
enum watch_state { NEED_REV, WAITING, CREATING, OPEN, PARKED, ENDING, REMOVED };

/* The report of the first created answer, for watches that asked for one:
 *
 *     AWAITED --created answer--> DUE --taken--> NONE
 */
enum created_report { CREATED_NONE, CREATED_AWAITED, CREATED_DUE };

/* A request for progress, by hand:
 *
 *     NONE --wanted--> DUE --sent--> WAITING --answered for all watches--> NONE
 *        `-wanted soon after the last one-^ |
 *                      DUE <----timeout, or another stream
 */
enum progress_request { PROGRESS_NONE, PROGRESS_DUE, PROGRESS_WAITING };

struct belfry_mux_watch {
    struct belfry_list all;      /* in mux.all */
    struct belfry_list queue;    /* in mux.need_rev or mux.waiting, by state */
    struct belfry_list ready;    /* in mux.ready: may have an action */
    struct belfry_sub *sub;      /* CREATING and OPEN only */
    struct belfry_mux_spec spec; /* its bytes are in `bytes` */
    void *user;
    enum watch_state state;
    bool paused;
    bool began;    /* a create was sent once: the next one is a resume */
    bool lost_due; /* BELFRY_MUX_LOST is to be given before anything else */
    enum created_report created;
    uint8_t recreates;
    uint64_t generation;  /* NEED_REV: a revision read before this does not count */
    int64_t next_rev;     /* the first revision not given; 0 in NEED_REV */
    int64_t created_rev;  /* created DUE */
    int64_t progress_rev; /* to be reported once the inbox is empty, if it is news or repeats the last; 0: none */
    struct belfry_wire_header created_header, progress_header, end_header;
    struct belfry_inbox inbox;
    enum belfry_err end_err; /* ENDING */
    int64_t end_rev;
    char *end_why; /* owned; NULL: the sentence of end_err */
    char bytes[];  /* key, then range_end */
};

struct belfry_mux {
    struct belfry_mux_opts opts;
    struct belfry_list all, need_rev, waiting, ready;
    size_t count;
    uint64_t generation; /* grows with each watch that needs a revision */
    size_t held;         /* bytes in all inboxes */
    bool in_order;       /* the server answers creates in their order */
    /* the stream */
    bool up;
    struct belfry_subs subs;
    uint64_t create_due; /* when the oldest unanswered create times out */
    bool auth_final;
    bool pieces; /* creates ask for large responses in pieces */
    /* progress requests */
    enum progress_request progress;
    bool progress_trusted;                      /* the answer does not overtake events */
    uint64_t progress_ms;                       /* when the last one was sent; 0: never */
    uint64_t progress_due;                      /* WAITING: when the next one is DUE */
    uint64_t progress_asked, progress_answered; /* on this stream */
    /* revisions that servers have shown */
    int64_t seen;
    bool suspects;
    /* between next and taken */
    struct belfry_mux_watch *current;
    struct belfry_mux_action action;
    struct belfry_mux_stats stats;
    BELFRY_OWNER;
};

static struct belfry_mux_watch *watch_of_all(struct belfry_list *node)
{
    return belfry_container(node, struct belfry_mux_watch, all);
}

static struct belfry_mux_watch *watch_of_queue(struct belfry_list *node)
{
    return belfry_container(node, struct belfry_mux_watch, queue);
}

/* ---- watches ---- */

/* There may be an action for it. */
static void watch_make_ready(struct belfry_mux *mux, struct belfry_mux_watch *watch)
{
    if (belfry_list_empty(&watch->ready) && watch->state != REMOVED)
        belfry_list_append(&mux->ready, &watch->ready);
}

static void watch_move_to(struct belfry_mux *mux, struct belfry_mux_watch *watch, enum watch_state to)
{
    static const unsigned legal[] = {
        [NEED_REV] = 1u << WAITING | 1u << ENDING | 1u << REMOVED,
        [WAITING] = 1u << CREATING | 1u << PARKED | 1u << ENDING | 1u << REMOVED,
        [CREATING] = 1u << OPEN | 1u << WAITING | 1u << PARKED | 1u << ENDING | 1u << REMOVED,
        [OPEN] = 1u << WAITING | 1u << PARKED | 1u << ENDING | 1u << REMOVED,
        [PARKED] = 1u << WAITING | 1u << ENDING | 1u << REMOVED,
        [ENDING] = 1u << REMOVED,
        [REMOVED] = 0,
    };
    assert(legal[watch->state] & 1u << to);
    (void)legal;
    bool lost = watch->state == OPEN && watch->spec.lost_notify;
    watch->state = to;
    belfry_list_remove(&watch->queue);
    if (to == WAITING)
        belfry_list_append(&mux->waiting, &watch->queue);
    if (lost)
        watch->lost_due = true;
    if (lost || to == ENDING)
        watch_make_ready(mux, watch);
}

/* The inbox held `before` bytes, and may hold more or fewer now. */
static void mux_count_held(struct belfry_mux *mux, const struct belfry_mux_watch *watch, size_t before)
{
    mux->held = mux->held - before + watch->inbox.bytes;
}

static void watch_free(struct belfry_mux *mux, struct belfry_mux_watch *watch)
{
    size_t before = watch->inbox.bytes;
    belfry_inbox_fini(&watch->inbox);
    mux_count_held(mux, watch, before);
    belfry_list_remove(&watch->queue);
    belfry_list_remove(&watch->ready);
    belfry_list_remove(&watch->all);
    free(watch->end_why);
    free(watch);
}

/* A watch that has nothing upstream and an empty inbox is created again, unless it is paused. */
static void watch_create_again(struct belfry_mux *mux, struct belfry_mux_watch *watch)
{
    if (watch->state == PARKED && !watch->paused && belfry_inbox_empty(&watch->inbox))
        watch_move_to(mux, watch, WAITING);
}

/* The response at the end of the inbox will not be finished. A progress that was to follow it must not be reported. */
static void watch_cut_inbox(struct belfry_mux_watch *watch)
{
    if (belfry_inbox_unfinished(&watch->inbox))
        watch->progress_rev = 0;
    belfry_inbox_cut(&watch->inbox);
}

/* What is in the inbox is still given, then the end. */
static void watch_end(struct belfry_mux *mux, struct belfry_mux_watch *watch, enum belfry_err err, int64_t rev,
                      const char *why)
{
    if (watch->state == ENDING)
        return;
    watch->end_err = err;
    watch->end_rev = rev;
    watch->end_why =
        why != NULL && why[0] != '\0' ? strndup(why, WHY_BYTES) : NULL; /* no memory: the general sentence */
    watch_cut_inbox(watch);
    watch_move_to(mux, watch, ENDING);
}

/* The watch lets go of what it has upstream; the sub stays behind as an orphan. */
static void watch_detach(struct belfry_mux *mux, struct belfry_mux_watch *watch)
{
    if (watch->sub == NULL)
        return;
    belfry_subs_cancel(&mux->subs, watch->sub);
    watch->sub = NULL;
}

/* ---- creation and removal ---- */

enum belfry_err belfry_mux_create(const struct belfry_mux_opts *opts, struct belfry_mux **out)
{
    struct belfry_mux *mux = calloc(1, sizeof(*mux));
    if (mux == NULL)
        return BELFRY_ERR_NOMEM;
    mux->opts = *opts;
    if (opts->progress_gap_ms == 0)
        mux->opts.progress_gap_ms = BELFRY_MUX_PROGRESS_MS;
    if (opts->progress_wait_ms == 0)
        mux->opts.progress_wait_ms = BELFRY_MUX_PROGRESS_MS;
    mux->in_order = opts->in_order;
    mux->progress_trusted = true;
    mux->pieces = true;
    belfry_list_init(&mux->all);
    belfry_list_init(&mux->need_rev);
    belfry_list_init(&mux->waiting);
    belfry_list_init(&mux->ready);
    belfry_subs_init(&mux->subs);
    mux->create_due = BELFRY_NEVER;
    BELFRY_OWNER_INIT(mux);
    *out = mux;
    return BELFRY_OK;
}

void belfry_mux_destroy(struct belfry_mux *mux)
{
    if (mux == NULL)
        return;
    BELFRY_OWNER_CHECK(mux);
    belfry_subs_fini(&mux->subs);
    belfry_list_each_safe (node, &mux->all)
        watch_free(mux, watch_of_all(node));
    free(mux);
}

enum belfry_err belfry_mux_add(struct belfry_mux *mux, const struct belfry_mux_spec *spec, void *user,
                               struct belfry_mux_watch **out)
{
    BELFRY_OWNER_CHECK(mux);
    struct belfry_mux_watch *watch = calloc(1, sizeof(*watch) + spec->key.len + spec->range_end.len);
    if (watch == NULL)
        return BELFRY_ERR_NOMEM;
    watch->user = user;
    watch->spec = *spec;
    watch->created = spec->created_notify ? CREATED_AWAITED : CREATED_NONE;
    watch->next_rev = spec->rev;
    watch->spec.key.data = watch->bytes;
    watch->spec.range_end.data = watch->bytes + spec->key.len;
    if (spec->key.len > 0)
        memcpy(watch->bytes, spec->key.data, spec->key.len);
    if (spec->range_end.len > 0)
        memcpy(watch->bytes + spec->key.len, spec->range_end.data, spec->range_end.len);
    belfry_inbox_init(&watch->inbox);
    belfry_list_init(&watch->queue);
    belfry_list_init(&watch->ready);
    belfry_list_init(&watch->all);
    belfry_list_append(&mux->all, &watch->all);
    mux->count++;
    watch->state = NEED_REV;
    if (spec->rev > 0) {
        watch_move_to(mux, watch, WAITING);
    } else {
        watch->generation = ++mux->generation;
        belfry_list_append(&mux->need_rev, &watch->queue);
    }
    *out = watch;
    return BELFRY_OK;
}

void belfry_mux_remove(struct belfry_mux *mux, struct belfry_mux_watch *watch)
{
    BELFRY_OWNER_CHECK(mux);
    if (watch->state == REMOVED)
        return;
    watch_detach(mux, watch);
    mux->count--;
    if (watch == mux->current) { /* its action is still in use: belfry_mux_taken() frees it */
        watch_move_to(mux, watch, REMOVED);
        belfry_list_remove(&watch->ready);
    } else {
        watch_free(mux, watch);
    }
    if (mux->count == 0)
        mux->progress = PROGRESS_NONE;
}

void belfry_mux_pause(struct belfry_mux *mux, struct belfry_mux_watch *watch)
{
    BELFRY_OWNER_CHECK(mux);
    (void)mux;
    watch->paused = true;
}

void belfry_mux_resume(struct belfry_mux *mux, struct belfry_mux_watch *watch)
{
    BELFRY_OWNER_CHECK(mux);
    if (!watch->paused || watch->state == REMOVED)
        return;
    watch->paused = false;
    watch_create_again(mux, watch);
    watch_make_ready(mux, watch);
}

void *belfry_mux_user(const struct belfry_mux_watch *watch)
{
    return watch->user;
}

int64_t belfry_mux_next_rev(const struct belfry_mux_watch *watch)
{
    return watch->next_rev;
}

bool belfry_mux_paused(const struct belfry_mux_watch *watch)
{
    return watch->paused;
}

struct belfry_mux_watch *belfry_mux_each(const struct belfry_mux *mux, const struct belfry_mux_watch *after)
{
    struct belfry_list *node = after == NULL ? mux->all.next : after->all.next;
    while (node != &mux->all && watch_of_all(node)->state == REMOVED)
        node = node->next;
    return node == &mux->all ? NULL : watch_of_all(node);
}

size_t belfry_mux_count(const struct belfry_mux *mux)
{
    return mux->count;
}

bool belfry_mux_any_key(const struct belfry_mux *mux, struct belfry_bytes *key)
{
    const struct belfry_mux_watch *watch = belfry_mux_each(mux, NULL);
    if (watch != NULL)
        *key = watch->spec.key;
    return watch != NULL;
}

/* ---- the start of a watch from now on ---- */

bool belfry_mux_wants_revision(const struct belfry_mux *mux, struct belfry_mux_read *out)
{
    if (belfry_list_empty(&mux->need_rev))
        return false;
    const struct belfry_mux_watch *watch = watch_of_queue(mux->need_rev.next);
    *out = (struct belfry_mux_read){.key = watch->spec.key, .generation = mux->generation, .asker = watch->generation};
    return true;
}

void belfry_mux_revision(struct belfry_mux *mux, uint64_t generation, int64_t rev)
{
    BELFRY_OWNER_CHECK(mux);
    belfry_mux_saw(mux, rev);
    belfry_list_each_safe (node, &mux->need_rev) {
        struct belfry_mux_watch *watch = watch_of_queue(node);
        if (watch->generation > generation)
            break;
        watch->next_rev = rev + 1;
        watch_move_to(mux, watch, WAITING);
    }
}

void belfry_mux_revision_refused(struct belfry_mux *mux, uint64_t asker, enum belfry_err err, const char *why)
{
    BELFRY_OWNER_CHECK(mux);
    if (!belfry_list_empty(&mux->need_rev) && watch_of_queue(mux->need_rev.next)->generation == asker)
        watch_end(mux, watch_of_queue(mux->need_rev.next), err, 0, why);
}

/* ---- the stream ---- */

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
    if (mux->progress == PROGRESS_WAITING)
        mux->progress = PROGRESS_DUE;
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
        struct belfry_mux_watch *watch = watch_of_all(node);
        if (watch->state != CREATING && watch->state != OPEN)
            continue;
        watch->sub = NULL;
        watch_cut_inbox(watch);
        watch_move_to(mux, watch, PARKED);
        watch_create_again(mux, watch);
        watch_make_ready(mux, watch); /* what is left in the inbox empties itself there */
    }
}

static enum belfry_err mux_send_create(struct belfry_mux *mux, struct belfry_mux_watch *watch, uint64_t now_ms,
                                       struct belfry_buf *out)
{
    const struct belfry_mux_spec *spec = &watch->spec;
    struct belfry_wire_create create = {
        .key = spec->key,
        .range_end = spec->range_end,
        /* the inbox is empty: a progress that waits to be reported counts as reported */
        .start_revision = watch->progress_rev >= watch->next_rev ? watch->progress_rev + 1 : watch->next_rev,
        .progress_notify = spec->progress_notify,
        .prev_kv = spec->prev_kv,
        .no_put = spec->no_put,
        .no_delete = spec->no_delete,
        .fragment = spec->fragment && mux->pieces,
    };
    struct belfry_sub *sub = belfry_subs_add(&mux->subs, watch, spec->key.len + spec->range_end.len);
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
    watch_move_to(mux, watch, CREATING);
    return BELFRY_OK;
}

enum belfry_err belfry_mux_pull(struct belfry_mux *mux, uint64_t now_ms, struct belfry_buf *out)
{
    BELFRY_OWNER_CHECK(mux);
    if (!mux->up)
        return BELFRY_ERR_AGAIN;
    struct belfry_sub *due = belfry_subs_due(&mux->subs);
    if (due != NULL) {
        enum belfry_err err = belfry_write_watch_cancel(out, due->id);
        if (err == BELFRY_OK)
            belfry_subs_cancel_sent(due);
        return err;
    }
    while (!belfry_list_empty(&mux->waiting)) {
        struct belfry_mux_watch *watch = watch_of_queue(mux->waiting.next);
        if (watch->paused) { /* created when it is resumed */
            watch_move_to(mux, watch, PARKED);
            continue;
        }
        if (mux->subs.n_creating >= (mux->in_order ? CREATES_MAX : 1) ||
            (mux->subs.n_creating > 0 && mux->subs.creating_bytes >= CREATES_MAX_BYTES))
            return BELFRY_ERR_AGAIN;
        return mux_send_create(mux, watch, now_ms, out);
    }
    /* No server answers a progress request while a create is on its way: ask after it. */
    if (mux->progress == PROGRESS_DUE && mux->progress_trusted && mux->subs.n_creating == 0 &&
        mux->subs.by_id.count > 0) {
        enum belfry_err err = belfry_write_watch_progress(out);
        if (err == BELFRY_OK) {
            mux->progress = PROGRESS_WAITING;
            mux->progress_ms = now_ms;
            mux->progress_due = now_ms + mux->opts.progress_wait_ms;
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

/* The server refuses this watch: it ends. */
static void watch_refuse(struct belfry_mux *mux, struct belfry_mux_watch *watch,
                         const struct belfry_wire_watch *response)
{
    struct belfry_bytes reason = response->cancel_reason;
    char why[WHY_BYTES];
    snprintf(why, sizeof(why), "%.*s", (int)(reason.len < WHY_BYTES ? reason.len : WHY_BYTES - 1),
             reason.len > 0 ? reason.data : "");
    enum belfry_err err = BELFRY_ERR_REFUSED;
    if (response->compact_revision > 0 || reason_has(reason, "required revision has been compacted"))
        err = BELFRY_ERR_COMPACTED;
    else if (reason_has(reason, "permission denied"))
        err = BELFRY_ERR_DENIED;
    else if (is_auth_reason(reason))
        err = BELFRY_ERR_AUTH;
    watch->end_header = response->header;
    watch_end(mux, watch, err, response->compact_revision, why);
}

/* The server no longer has this sub. */
static void mux_forget_sub(struct belfry_mux *mux, struct belfry_sub *sub)
{
    if (sub->watch != NULL)
        sub->watch->sub = NULL;
    belfry_subs_free(&mux->subs, sub);
}

/* The first created answer of a watch that wants it reported: a resume is not reported. */
static void watch_note_created(struct belfry_mux *mux, struct belfry_mux_watch *watch,
                               const struct belfry_wire_watch *response)
{
    if (watch->created != CREATED_AWAITED)
        return;
    watch->created = CREATED_DUE;
    watch->created_rev = watch->next_rev - 1;
    watch->created_header = response->header;
    watch_make_ready(mux, watch);
}

/* A create was answered, in the order of the creates. */
static enum belfry_err mux_on_created(struct belfry_mux *mux, const struct belfry_wire_watch *response, uint64_t now_ms)
{
    struct belfry_sub *sub = belfry_subs_first(&mux->subs);
    if (sub == NULL)
        return BELFRY_ERR_PROTOCOL;
    struct belfry_mux_watch *watch = sub->watch;
    if (response->canceled || response->watch_id == -1) {
        if (is_auth_reason(response->cancel_reason) && !mux->auth_final)
            return BELFRY_ERR_AUTH;
        mux_forget_sub(mux, sub);
        if (watch != NULL)
            watch_refuse(mux, watch, response);
    } else {
        if (belfry_subs_find(&mux->subs, response->watch_id) != NULL)
            return BELFRY_ERR_PROTOCOL;
        mux->in_order = mux->in_order || response->header.cluster_id != 0;
        belfry_subs_name(&mux->subs, sub, response->watch_id);
        sub->created_rev = response->header.revision;
        if (watch == NULL) {
            belfry_subs_cancel(&mux->subs, sub); /* closed before it was created */
        } else {
            watch_move_to(mux, watch, OPEN);
            watch_note_created(mux, watch, response);
        }
        mux->auth_final = false;
    }
    mux->create_due = mux->subs.n_creating == 0 ? BELFRY_NEVER : now_ms + BELFRY_MUX_CREATE_TIMEOUT_MS;
    return BELFRY_OK;
}

static void mux_on_canceled(struct belfry_mux *mux, const struct belfry_wire_watch *response)
{
    struct belfry_sub *sub = belfry_subs_find(&mux->subs, response->watch_id);
    if (sub == NULL)
        return;
    struct belfry_mux_watch *watch = sub->watch;
    if (response->compact_revision > 0) {
        /* The server remembers the id until it is cancelled, and answers no progress request before that. */
        if (watch != NULL) {
            watch_detach(mux, watch);
            watch_refuse(mux, watch, response);
        }
        return;
    }
    mux_forget_sub(mux, sub);
    if (watch == NULL)
        return; /* the confirmation of our own cancel */
    if (response->cancel_reason.len > 0 || watch->recreates++ >= BELFRY_MUX_RECREATES) {
        watch_refuse(mux, watch, response);
        return;
    }
    watch_cut_inbox(watch);
    watch_move_to(mux, watch, PARKED);
    watch_create_again(mux, watch);
    watch_make_ready(mux, watch);
}

/* May progress up to `rev` be reported? What the watch knows already may be repeated, as a sign of life, but not while
 * a revision has been given in part. */
static bool watch_may_report(const struct belfry_mux_watch *watch, int64_t rev)
{
    return rev > 0 && rev >= (watch->inbox.given == 0 ? watch->next_rev - 1 : watch->next_rev);
}

static void watch_note_progress(struct belfry_mux *mux, struct belfry_mux_watch *watch,
                                const struct belfry_wire_watch *response)
{
    if (!watch_may_report(watch, response->header.revision))
        return; /* it starts in the future, or knows more already */
    watch->progress_rev = response->header.revision;
    watch->progress_header = response->header;
    watch_make_ready(mux, watch);
}

/* Is an answer to a progress request good for this sub? The server sends created answers from a queue of their own, so
 * an answer computed before a watch was registered may come after its created, while events below it are yet to be
 * replayed. It is good if it is newer than the created answer, if it cannot belong to a request sent before the create,
 * or if the sub has had something from the same queue. */
static bool progress_covers(const struct belfry_mux *mux, const struct belfry_sub *sub, int64_t revision)
{
    return sub->spoke || revision > sub->created_rev || mux->progress_answered > sub->asked;
}

static void mux_on_progress_of_all(struct belfry_mux *mux, const struct belfry_wire_watch *response)
{
    bool all = true;
    if (!mux->progress_trusted)
        return; /* it was not requested, and events below it may still come */
    mux->progress_answered++;
    belfry_list_each (node, &mux->all) {
        struct belfry_mux_watch *watch = watch_of_all(node);
        if (watch->state != OPEN)
            continue;
        if (progress_covers(mux, watch->sub, response->header.revision))
            watch_note_progress(mux, watch, response);
        else
            all = false;
    }
    if (all) /* otherwise it is sent again when it is due */
        mux->progress = PROGRESS_NONE;
}

static void mux_on_progress(struct belfry_mux *mux, const struct belfry_wire_watch *response)
{
    if (response->watch_id == -1) {
        mux_on_progress_of_all(mux, response);
        return;
    }
    struct belfry_sub *sub = belfry_subs_find(&mux->subs, response->watch_id);
    if (sub == NULL || sub->watch == NULL)
        return;
    sub->spoke = true;
    watch_note_progress(mux, sub->watch, response);
}

/* The watch is over what it may hold: it keeps what it has, lets go upstream and is created again from there. */
static void watch_park(struct belfry_mux *mux, struct belfry_mux_watch *watch)
{
    watch_detach(mux, watch);
    watch_cut_inbox(watch);
    mux->stats.parked++;
    watch_move_to(mux, watch, PARKED);
    watch_create_again(mux, watch);
}

/* Logs an event at or below a progress that came before it: the server was wrong. A progress that was not reported yet
 * does no harm, because events are given first. */
static void mux_check_progress(struct belfry_mux *mux, const struct belfry_mux_watch *watch,
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

static enum belfry_err mux_on_events(struct belfry_mux *mux, struct belfry_blob *message,
                                     const struct belfry_wire_watch *response)
{
    struct belfry_sub *sub = belfry_subs_find(&mux->subs, response->watch_id);
    if (sub == NULL && mux->subs.n_unknown >= BELFRY_MUX_ORPHANS)
        return BELFRY_ERR_PROTOCOL;
    if (sub == NULL) /* an id that we never asked for: cancelled once, and the orphan drops the rest */
        return belfry_subs_add_unknown(&mux->subs, response->watch_id) != NULL ? BELFRY_OK : BELFRY_ERR_NOMEM;
    struct belfry_mux_watch *watch = sub->watch;
    if (watch == NULL)
        return BELFRY_OK;
    sub->spoke = true;
    watch->recreates = 0;
    mux_check_progress(mux, watch, message);
    if (watch->paused && watch->inbox.bytes + belfry_blob_len(message) > watch->spec.pause_bytes) {
        watch_park(mux, watch);
        return BELFRY_OK;
    }
    size_t before = watch->inbox.bytes;
    enum belfry_err err = belfry_inbox_add(&watch->inbox, message, response);
    if (err != BELFRY_OK)
        return err;
    mux_count_held(mux, watch, before);
    watch_make_ready(mux, watch);
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
        return mux_on_created(mux, &response, now_ms);
    if (response.canceled) {
        mux_on_canceled(mux, &response);
        return BELFRY_OK;
    }
    if (response.n_events > 0)
        return mux_on_events(mux, message, &response);
    if (revision > 0 && !response.fragment && response.compact_revision == 0)
        mux_on_progress(mux, &response);
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
        struct belfry_mux_watch *watch = watch_of_all(node);
        if (watch->state == REMOVED)
            continue;
        watch_detach(mux, watch);
        watch_end(mux, watch, err, 0, why);
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
    if (mux->count == 0 || mux->progress != PROGRESS_NONE)
        return;
    bool soon = mux->progress_ms > 0 && now_ms < mux->progress_ms + mux->opts.progress_gap_ms;
    mux->progress = soon ? PROGRESS_WAITING : PROGRESS_DUE;
    mux->progress_due = mux->progress_ms + mux->opts.progress_gap_ms;
}

bool belfry_mux_wants_progress(const struct belfry_mux *mux)
{
    return mux->progress != PROGRESS_NONE;
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
    if (mux->progress == PROGRESS_WAITING && now_ms >= mux->progress_due)
        mux->progress = PROGRESS_DUE;
    return BELFRY_OK;
}

uint64_t belfry_mux_due(const struct belfry_mux *mux)
{
    if (!mux->up)
        return BELFRY_NEVER;
    return belfry_min_time(mux->create_due, mux->progress == PROGRESS_WAITING ? mux->progress_due : BELFRY_NEVER);
}

/* ---- what comes out ---- */

/* The next group of the inbox. A revision that is still incomplete when it is over the bound ends the watch. */
static enum belfry_err watch_next_group(struct belfry_mux *mux, struct belfry_mux_watch *watch,
                                        struct belfry_inbox_group *out)
{
    size_t before = watch->inbox.bytes;
    uint64_t stale = watch->inbox.stale;
    enum belfry_err err = belfry_inbox_next(&watch->inbox, watch->next_rev, watch->spec.unmerged, out);
    mux_count_held(mux, watch, before);
    mux->stats.stale_events += watch->inbox.stale - stale;
    if (err != BELFRY_ERR_AGAIN || belfry_inbox_single(&watch->inbox) ||
        watch->inbox.bytes <= mux->opts.max_revision_bytes)
        return err;
    watch_detach(mux, watch);
    watch_end(mux, watch, BELFRY_ERR_TOO_LARGE, 0, "one revision is larger than max-message: raise it");
    before = watch->inbox.bytes;
    err = belfry_inbox_next(&watch->inbox, watch->next_rev, watch->spec.unmerged, out); /* cut: lets go of the rest */
    mux_count_held(mux, watch, before);
    return err;
}

/* Finds what this watch has to say now. Errors: BELFRY_ERR_AGAIN (nothing), BELFRY_ERR_PROTOCOL. */
static enum belfry_err watch_next_action(struct belfry_mux *mux, struct belfry_mux_watch *watch,
                                         struct belfry_mux_action *out)
{
    if (watch->lost_due) {
        out->act = BELFRY_MUX_LOST;
        return BELFRY_OK;
    }
    if (watch->paused)
        return BELFRY_ERR_AGAIN;
    if (watch->created == CREATED_DUE) {
        out->act = BELFRY_MUX_CREATED;
        out->rev = watch->created_rev;
        out->header = watch->created_header;
        return BELFRY_OK;
    }
    enum belfry_err err = watch_next_group(mux, watch, &out->group);
    if (err == BELFRY_OK) {
        out->act = BELFRY_MUX_EVENTS;
        out->rev = out->group.rev;
        out->header = out->group.header;
        return BELFRY_OK;
    }
    if (err != BELFRY_ERR_AGAIN)
        return err;
    if (!belfry_inbox_empty(&watch->inbox))
        return BELFRY_ERR_AGAIN; /* the rest of a revision is on its way */
    if (watch_may_report(watch, watch->progress_rev)) {
        out->act = BELFRY_MUX_PROGRESS;
        out->rev = watch->progress_rev;
        out->header = watch->progress_header;
        return BELFRY_OK;
    }
    if (watch->state == ENDING) {
        out->act = BELFRY_MUX_END;
        out->rev = watch->end_rev;
        out->err = watch->end_err;
        out->header = watch->end_header;
        out->why = watch->end_why != NULL ? watch->end_why : belfry_strerror(watch->end_err);
        return BELFRY_OK;
    }
    watch_create_again(mux, watch);
    return BELFRY_ERR_AGAIN;
}

enum belfry_err belfry_mux_next(struct belfry_mux *mux, struct belfry_mux_action *out)
{
    BELFRY_OWNER_CHECK(mux);
    assert(mux->current == NULL);
    while (!belfry_list_empty(&mux->ready)) {
        struct belfry_mux_watch *watch = belfry_container(mux->ready.next, struct belfry_mux_watch, ready);
        mux->action = (struct belfry_mux_action){.watch = watch};
        enum belfry_err err = watch_next_action(mux, watch, &mux->action);
        if (err == BELFRY_OK) {
            mux->current = watch;
            *out = mux->action;
            return BELFRY_OK;
        }
        if (err != BELFRY_ERR_AGAIN) {
            /* what is left cannot be read: forget it, and ask for it again on the next stream */
            belfry_logf(mux->opts.log, BELFRY_LOG_WARN, "watch_unreadable", "rev=%lld", (long long)watch->next_rev);
            size_t before = watch->inbox.bytes;
            belfry_inbox_fini(&watch->inbox);
            mux_count_held(mux, watch, before);
            watch->progress_rev = 0; /* it was to be given after what is forgotten now */
            return err;
        }
        belfry_list_remove(&watch->ready);
    }
    return BELFRY_ERR_AGAIN;
}

void belfry_mux_taken(struct belfry_mux *mux, enum belfry_mux_verdict verdict)
{
    BELFRY_OWNER_CHECK(mux);
    struct belfry_mux_watch *watch = mux->current;
    const struct belfry_mux_action *action = &mux->action;
    assert(watch != NULL);
    mux->current = NULL;
    if (watch->state == REMOVED) {
        watch_free(mux, watch);
        return;
    }
    if (action->act == BELFRY_MUX_LOST)
        watch->lost_due = false;
    if (verdict == BELFRY_MUX_KEEP) {
        watch->paused = true;
        return;
    }
    if (action->act == BELFRY_MUX_EVENTS) {
        size_t before = watch->inbox.bytes;
        belfry_inbox_take(&watch->inbox, &action->group);
        mux_count_held(mux, watch, before);
        watch->next_rev = action->group.part ? action->rev : action->rev + 1;
    } else if (action->act == BELFRY_MUX_PROGRESS) {
        watch->next_rev = action->rev + 1;
        watch->progress_rev = 0;
        watch->recreates = 0;
    } else if (action->act == BELFRY_MUX_CREATED) {
        watch->created = CREATED_NONE;
    }
    if (verdict == BELFRY_MUX_STOP || action->act == BELFRY_MUX_END) {
        belfry_mux_remove(mux, watch);
        return;
    }
    if (verdict == BELFRY_MUX_PAUSE)
        watch->paused = true;
    watch_make_ready(mux, watch); /* there may be more: the next look decides */
}

/* ---- a member that is behind ---- */

bool belfry_mux_suspects(const struct belfry_mux *mux, int64_t *seen)
{
    *seen = mux->seen;
    return mux->suspects;
}

/* Does the place of this watch come from the cluster as it was? One that starts from now on has read it there. */
static bool watch_has_begun(const struct belfry_mux_watch *watch)
{
    return watch->began || (watch->generation > 0 && watch->state != NEED_REV);
}

void belfry_mux_judge(struct belfry_mux *mux, int64_t seen, int64_t linearizable)
{
    BELFRY_OWNER_CHECK(mux);
    mux->suspects = false;
    if (linearizable >= seen)
        return; /* it was lag */
    char why[WHY_BYTES];
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
        struct belfry_mux_watch *watch = watch_of_all(node);
        if (watch->state == REMOVED || !watch_has_begun(watch))
            continue;
        watch_detach(mux, watch);
        watch_end(mux, watch, BELFRY_ERR_REWOUND, revision, why);
    }
}

void belfry_mux_saw(struct belfry_mux *mux, int64_t revision)
{
    BELFRY_OWNER_CHECK(mux);
    if (revision > mux->seen)
        mux->seen = revision;
}

struct belfry_mux_stats belfry_mux_stats(const struct belfry_mux *mux)
{
    return mux->stats;
}

size_t belfry_mux_held_bytes(const struct belfry_mux *mux)
{
    return mux->held;
}
