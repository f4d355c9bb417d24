/* src/client/mux.c */
#include "client/mux.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/map.h"
#include "wire/write.h"

#define CREATES_MAX       1024          /* unanswered */
#define CREATES_MAX_BYTES (1024 * 1024) /* of keys in them */
#define WHY_MAX           256

enum watch_state { NEED_REV, WAITING, CREATING, OPEN, PARKED, ENDING };

/* What the server knows of a watch on this stream. */
enum sub_state {
    SUB_CREATING,    /* create sent, unanswered: in `creating`, has no id */
    SUB_LIVE,        /* has an id, in `subs` */
    SUB_CANCEL_DUE,  /* in `subs` and in `cancels` */
    SUB_CANCEL_SENT, /* in `subs`; the server will confirm */
};

struct sub {
    struct belfry_map_node by_id;
    struct belfry_list node;        /* in creating or cancels */
    struct belfry_mux_watch *watch; /* NULL: orphan */
    int64_t id;
    size_t bytes; /* of its create request */
    enum sub_state state;
    /* what tells a progress answer of before its creation from one of after: see on_progress() */
    uint64_t asked;      /* progress requests sent before its create */
    int64_t created_rev; /* header.revision of its created answer */
    bool spoke;          /* events or a progress of its own came */
};

struct belfry_mux_watch {
    struct belfry_list all;   /* in mux.all */
    struct belfry_list queue; /* in mux.need_rev or mux.waiting, by state */
    struct belfry_list ready; /* in mux.ready: may have an action */
    struct sub *sub;          /* CREATING and OPEN only */
    void *user;
    enum watch_state state;
    bool paused, removed;
    bool began;           /* was created once: the next create is a resume */
    bool progress_notify; /* and the other wishes, as on the wire */
    bool prev_kv, no_put, no_delete, fragment, unmerged;
    uint8_t recreates;
    uint64_t generation;  /* NEED_REV: a revision read before this does not count */
    int64_t next_rev;     /* the first revision not given; 0 in NEED_REV */
    int64_t progress_rev; /* to be reported once the inbox is empty, if it is news or repeats the last; 0: none */
    struct belfry_wire_header header, end_header; /* of that progress, and of the end */
    struct belfry_inbox inbox;
    size_t pause_bytes;
    enum belfry_err end_err; /* ENDING */
    int64_t end_rev;
    char *end_why; /* owned; NULL: the sentence of end_err */
    size_t key_len, end_len;
    char bytes[]; /* key, then range_end */
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
    struct belfry_list creating, cancels; /* subs */
    struct belfry_map subs;
    size_t n_creating, creating_bytes, n_unknown;
    uint64_t create_due; /* when the oldest unanswered create times out */
    bool auth_final;
    /* progress asked for by hand */
    bool progress_wanted;
    uint64_t progress_due;                      /* ask again; BELFRY_NEVER: ask with the next pull */
    uint64_t progress_asked, progress_answered; /* on this stream */
    /* revisions seen */
    int64_t seen;
    bool suspects;
    /* between next and taken */
    struct belfry_mux_watch *current;
    struct belfry_mux_action action;
    struct belfry_mux_stats stats;
};

/* ---- watches ---- */

static struct belfry_mux_watch *of_all(struct belfry_list *node)
{
    return belfry_container(node, struct belfry_mux_watch, all);
}

static void make_ready(struct belfry_mux *mux, struct belfry_mux_watch *watch)
{
    if (belfry_list_empty(&watch->ready) && !watch->removed)
        belfry_list_append(&mux->ready, &watch->ready);
}

/* The one place where a watch changes state. */
static void move(struct belfry_mux *mux, struct belfry_mux_watch *watch, enum watch_state to)
{
    static const unsigned legal[] = {
        [NEED_REV] = 1u << WAITING | 1u << ENDING,
        [WAITING] = 1u << CREATING | 1u << PARKED | 1u << ENDING,
        [CREATING] = 1u << OPEN | 1u << WAITING | 1u << PARKED | 1u << ENDING,
        [OPEN] = 1u << WAITING | 1u << PARKED | 1u << ENDING,
        [PARKED] = 1u << WAITING | 1u << ENDING,
        [ENDING] = 0,
    };
    assert(legal[watch->state] & 1u << to);
    (void)legal;
    belfry_list_remove(&watch->queue);
    watch->state = to;
    if (to == WAITING)
        belfry_list_append(&mux->waiting, &watch->queue);
    else if (to == ENDING)
        make_ready(mux, watch);
}

/* Changes an inbox and keeps the sum of all. */
static void count_held(struct belfry_mux *mux, const struct belfry_mux_watch *watch, size_t before)
{
    mux->held = mux->held - before + watch->inbox.bytes;
}

static void free_watch(struct belfry_mux *mux, struct belfry_mux_watch *watch)
{
    size_t before = watch->inbox.bytes;
    belfry_inbox_fini(&watch->inbox);
    count_held(mux, watch, before);
    belfry_list_remove(&watch->queue);
    belfry_list_remove(&watch->ready);
    belfry_list_remove(&watch->all);
    free(watch->end_why);
    free(watch);
}

/* A watch that has nothing upstream and an empty inbox is created again, unless it is paused. */
static void settle(struct belfry_mux *mux, struct belfry_mux_watch *watch)
{
    if (watch->state == PARKED && !watch->paused && belfry_inbox_empty(&watch->inbox))
        move(mux, watch, WAITING);
}

/* The response at the end of the inbox will not be finished. A progress that was to be given after it must not be. */
static void cut_inbox(struct belfry_mux_watch *watch)
{
    if (belfry_inbox_unfinished(&watch->inbox))
        watch->progress_rev = 0;
    belfry_inbox_cut(&watch->inbox);
}

static void end_watch(struct belfry_mux *mux, struct belfry_mux_watch *watch, enum belfry_err err, int64_t rev,
                      const char *why)
{
    if (watch->state == ENDING)
        return;
    watch->end_err = err;
    watch->end_rev = rev;
    watch->end_why =
        why != NULL && why[0] != '\0' ? strndup(why, WHY_MAX) : NULL; /* without it: the general sentence */
    cut_inbox(watch);
    move(mux, watch, ENDING);
}

/* ---- subs ---- */

static struct sub *of_node(struct belfry_list *node)
{
    return belfry_container(node, struct sub, node);
}

static struct sub *find_sub(const struct belfry_mux *mux, int64_t id)
{
    struct belfry_map_node *node = belfry_map_first(&mux->subs, belfry_hash_int((uint64_t)id));
    while (node != NULL && belfry_container(node, struct sub, by_id)->id != id)
        node = belfry_map_next(node);
    return node == NULL ? NULL : belfry_container(node, struct sub, by_id);
}

static void name_sub(struct belfry_mux *mux, struct sub *sub, int64_t id, enum sub_state state)
{
    sub->id = id;
    sub->state = state;
    belfry_map_add(&mux->subs, belfry_hash_int((uint64_t)id), &sub->by_id);
}

static void cancel_sub(struct belfry_mux *mux, struct sub *sub)
{
    sub->watch = NULL;
    if (sub->state == SUB_LIVE) {
        sub->state = SUB_CANCEL_DUE;
        belfry_list_append(&mux->cancels, &sub->node);
    }
}

/* The watch lets go of what it has upstream; the sub stays behind as an orphan. */
static void detach(struct belfry_mux *mux, struct belfry_mux_watch *watch)
{
    if (watch->sub == NULL)
        return;
    cancel_sub(mux, watch->sub);
    watch->sub = NULL;
}

static void free_sub(struct belfry_mux *mux, struct sub *sub)
{
    if (sub->watch != NULL)
        sub->watch->sub = NULL;
    if (sub->state == SUB_CREATING) {
        mux->n_creating--;
        mux->creating_bytes -= sub->bytes;
    } else {
        belfry_map_remove(&mux->subs, &sub->by_id);
    }
    belfry_list_remove(&sub->node);
    free(sub);
}

static struct sub *new_sub(struct belfry_mux_watch *watch)
{
    struct sub *sub = calloc(1, sizeof(*sub));
    if (sub == NULL)
        return NULL;
    belfry_list_init(&sub->node);
    sub->watch = watch;
    return sub;
}

/* ---- creation and removal ---- */

enum belfry_err belfry_mux_create(const struct belfry_mux_opts *opts, struct belfry_mux **out)
{
    struct belfry_mux *mux = calloc(1, sizeof(*mux));
    if (mux == NULL)
        return BELFRY_ERR_NOMEM;
    mux->opts = *opts;
    mux->in_order = opts->in_order;
    belfry_list_init(&mux->all);
    belfry_list_init(&mux->need_rev);
    belfry_list_init(&mux->waiting);
    belfry_list_init(&mux->ready);
    belfry_list_init(&mux->creating);
    belfry_list_init(&mux->cancels);
    belfry_map_init(&mux->subs);
    mux->create_due = mux->progress_due = BELFRY_NEVER;
    *out = mux;
    return BELFRY_OK;
}

static void drop_subs(struct belfry_mux *mux)
{
    struct belfry_list *node;
    while ((node = mux->creating.next) != &mux->creating)
        free_sub(mux, of_node(node));
    struct belfry_map_node *named;
    while ((named = belfry_map_drain(&mux->subs)) != NULL) {
        struct sub *sub = belfry_container(named, struct sub, by_id);
        if (sub->watch != NULL)
            sub->watch->sub = NULL;
        belfry_list_remove(&sub->node);
        free(sub);
    }
    mux->n_unknown = 0;
    mux->progress_asked = mux->progress_answered = 0;
    mux->create_due = BELFRY_NEVER;
}

void belfry_mux_destroy(struct belfry_mux *mux)
{
    if (mux == NULL)
        return;
    drop_subs(mux);
    belfry_list_each_safe (node, &mux->all)
        free_watch(mux, of_all(node));
    belfry_map_fini(&mux->subs);
    free(mux);
}

enum belfry_err belfry_mux_add(struct belfry_mux *mux, const struct belfry_mux_spec *spec, void *user,
                               struct belfry_mux_watch **out)
{
    struct belfry_mux_watch *watch = calloc(1, sizeof(*watch) + spec->key.len + spec->range_end.len);
    if (watch == NULL)
        return BELFRY_ERR_NOMEM;
    watch->user = user;
    watch->prev_kv = spec->prev_kv;
    watch->progress_notify = spec->progress_notify;
    watch->no_put = spec->no_put;
    watch->no_delete = spec->no_delete;
    watch->fragment = spec->fragment;
    watch->unmerged = spec->unmerged;
    watch->pause_bytes = spec->pause_bytes;
    watch->next_rev = spec->rev;
    watch->key_len = spec->key.len;
    watch->end_len = spec->range_end.len;
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
        move(mux, watch, WAITING);
    } else {
        watch->generation = ++mux->generation;
        belfry_list_append(&mux->need_rev, &watch->queue);
    }
    *out = watch;
    return BELFRY_OK;
}

void belfry_mux_remove(struct belfry_mux *mux, struct belfry_mux_watch *watch)
{
    if (watch->removed)
        return;
    detach(mux, watch);
    mux->count--;
    if (watch == mux->current) { /* its batch is being looked at: belfry_mux_taken() frees it */
        watch->removed = true;
        belfry_list_remove(&watch->queue);
        belfry_list_remove(&watch->ready);
    } else {
        free_watch(mux, watch);
    }
    if (mux->count == 0)
        mux->progress_wanted = false;
}

void belfry_mux_pause(struct belfry_mux *mux, struct belfry_mux_watch *watch)
{
    (void)mux;
    watch->paused = true;
}

void belfry_mux_resume(struct belfry_mux *mux, struct belfry_mux_watch *watch)
{
    if (!watch->paused || watch->removed)
        return;
    watch->paused = false;
    settle(mux, watch);
    make_ready(mux, watch);
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
    while (node != &mux->all && of_all(node)->removed)
        node = node->next;
    return node == &mux->all ? NULL : of_all(node);
}

size_t belfry_mux_count(const struct belfry_mux *mux)
{
    return mux->count;
}

bool belfry_mux_any_key(const struct belfry_mux *mux, struct belfry_bytes *key)
{
    const struct belfry_mux_watch *watch = belfry_mux_each(mux, NULL);
    if (watch != NULL)
        *key = belfry_bytes_of(watch->bytes, watch->key_len);
    return watch != NULL;
}

/* ---- the start of a watch from now on ---- */

static struct belfry_mux_watch *of_queue(struct belfry_list *node)
{
    return belfry_container(node, struct belfry_mux_watch, queue);
}

bool belfry_mux_wants_revision(const struct belfry_mux *mux, struct belfry_mux_read *out)
{
    if (belfry_list_empty(&mux->need_rev))
        return false;
    const struct belfry_mux_watch *watch = of_queue(mux->need_rev.next);
    *out = (struct belfry_mux_read){.key = belfry_bytes_of(watch->bytes, watch->key_len),
                                    .generation = mux->generation,
                                    .asker = watch->generation};
    return true;
}

void belfry_mux_revision(struct belfry_mux *mux, uint64_t generation, int64_t rev)
{
    belfry_mux_saw(mux, rev);
    belfry_list_each_safe (node, &mux->need_rev) {
        struct belfry_mux_watch *watch = of_queue(node);
        if (watch->generation > generation)
            break;
        watch->next_rev = rev + 1;
        move(mux, watch, WAITING);
    }
}

void belfry_mux_revision_refused(struct belfry_mux *mux, uint64_t asker, enum belfry_err err, const char *why)
{
    if (!belfry_list_empty(&mux->need_rev) && of_queue(mux->need_rev.next)->generation == asker)
        end_watch(mux, of_queue(mux->need_rev.next), err, 0, why);
}

/* ---- the stream ---- */

bool belfry_mux_wants_stream(const struct belfry_mux *mux)
{
    return !mux->up && !belfry_list_empty(&mux->waiting);
}

void belfry_mux_stream_up(struct belfry_mux *mux, uint64_t now_ms)
{
    assert(!mux->up);
    (void)now_ms;
    mux->up = true;
    if (mux->progress_wanted)
        mux->progress_due = BELFRY_NEVER;
}

void belfry_mux_stream_down(struct belfry_mux *mux)
{
    if (!mux->up)
        return;
    mux->up = false;
    drop_subs(mux);
    belfry_list_each (node, &mux->all) {
        struct belfry_mux_watch *watch = of_all(node);
        if (watch->removed || (watch->state != CREATING && watch->state != OPEN))
            continue;
        cut_inbox(watch);
        move(mux, watch, PARKED);
        settle(mux, watch);
        make_ready(mux, watch); /* what is left in the inbox empties itself there */
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
        .fragment = watch->fragment,
    };
    struct sub *sub = new_sub(watch);
    if (sub == NULL)
        return BELFRY_ERR_NOMEM;
    enum belfry_err err = belfry_write_watch_create(out, &create);
    if (err != BELFRY_OK) {
        free(sub);
        return err;
    }
    sub->state = SUB_CREATING;
    sub->asked = mux->progress_asked;
    sub->bytes = watch->key_len + watch->end_len;
    belfry_list_append(&mux->creating, &sub->node);
    if (mux->n_creating++ == 0)
        mux->create_due = now_ms + BELFRY_MUX_CREATE_TIMEOUT_MS;
    mux->creating_bytes += sub->bytes;
    watch->sub = sub;
    mux->stats.creates++;
    mux->stats.resumes += watch->began;
    watch->began = true;
    move(mux, watch, CREATING);
    return BELFRY_OK;
}

static enum belfry_err send_cancel(struct belfry_mux *mux, struct belfry_buf *out)
{
    struct sub *sub = of_node(mux->cancels.next);
    enum belfry_err err = belfry_write_watch_cancel(out, sub->id);
    if (err != BELFRY_OK)
        return err;
    belfry_list_remove(&sub->node);
    sub->state = SUB_CANCEL_SENT;
    return BELFRY_OK;
}

enum belfry_err belfry_mux_pull(struct belfry_mux *mux, uint64_t now_ms, struct belfry_buf *out)
{
    if (!mux->up)
        return BELFRY_ERR_AGAIN;
    if (!belfry_list_empty(&mux->cancels))
        return send_cancel(mux, out);
    while (!belfry_list_empty(&mux->waiting)) {
        struct belfry_mux_watch *watch = of_queue(mux->waiting.next);
        if (watch->paused) { /* nobody reads it: created when it is resumed */
            move(mux, watch, PARKED);
            continue;
        }
        if (mux->n_creating >= (mux->in_order ? CREATES_MAX : 1) ||
            (mux->n_creating > 0 && mux->creating_bytes >= CREATES_MAX_BYTES))
            return BELFRY_ERR_AGAIN;
        return send_create(mux, watch, now_ms, out);
    }
    /* No server answers a progress request while a create is on its way: ask after it. */
    if (mux->progress_wanted && mux->progress_due == BELFRY_NEVER && mux->n_creating == 0 && mux->subs.count > 0) {
        enum belfry_err err = belfry_write_watch_progress(out);
        if (err == BELFRY_OK) {
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
    char why[WHY_MAX];
    snprintf(why, sizeof(why), "%.*s", (int)(reason.len < WHY_MAX ? reason.len : WHY_MAX - 1),
             reason.len > 0 ? reason.data : "");
    enum belfry_err err = BELFRY_ERR_REFUSED;
    if (response->compact_revision > 0 || reason_has(reason, "required revision has been compacted"))
        err = BELFRY_ERR_COMPACTED;
    else if (reason_has(reason, "permission denied"))
        err = BELFRY_ERR_DENIED;
    else if (is_auth_reason(reason))
        err = BELFRY_ERR_AUTH;
    watch->end_header = response->header;
    end_watch(mux, watch, err, response->compact_revision, why);
}

/* A create was answered, in the order of the creates. */
static enum belfry_err on_created(struct belfry_mux *mux, const struct belfry_wire_watch *response, uint64_t now_ms)
{
    if (belfry_list_empty(&mux->creating))
        return BELFRY_ERR_PROTOCOL;
    struct sub *sub = of_node(mux->creating.next);
    struct belfry_mux_watch *watch = sub->watch;
    if (response->canceled || response->watch_id == -1) {
        if (is_auth_reason(response->cancel_reason) && !mux->auth_final)
            return BELFRY_ERR_AUTH;
        free_sub(mux, sub);
        if (watch != NULL)
            refuse(mux, watch, response);
    } else {
        if (find_sub(mux, response->watch_id) != NULL)
            return BELFRY_ERR_PROTOCOL;
        mux->n_creating--;
        mux->creating_bytes -= sub->bytes;
        belfry_list_remove(&sub->node);
        mux->in_order = mux->in_order || response->header.cluster_id != 0;
        name_sub(mux, sub, response->watch_id, SUB_LIVE);
        sub->created_rev = response->header.revision;
        if (watch == NULL)
            cancel_sub(mux, sub); /* closed before it was created */
        else
            move(mux, watch, OPEN);
        mux->auth_final = false;
    }
    mux->create_due = mux->n_creating == 0 ? BELFRY_NEVER : now_ms + BELFRY_MUX_CREATE_TIMEOUT_MS;
    return BELFRY_OK;
}

static void on_canceled(struct belfry_mux *mux, const struct belfry_wire_watch *response)
{
    struct sub *sub = find_sub(mux, response->watch_id);
    if (sub == NULL)
        return;
    struct belfry_mux_watch *watch = sub->watch;
    if (response->compact_revision > 0) {
        /* The server remembers the id until it is cancelled, and answers no progress request before that. */
        if (watch != NULL) {
            detach(mux, watch);
            refuse(mux, watch, response);
        }
        return;
    }
    free_sub(mux, sub);
    if (watch == NULL)
        return; /* the confirmation of our own cancel */
    if (response->cancel_reason.len > 0 || watch->recreates++ >= BELFRY_MUX_RECREATES) {
        refuse(mux, watch, response);
        return;
    }
    cut_inbox(watch);
    move(mux, watch, PARKED);
    settle(mux, watch);
    make_ready(mux, watch);
}

/* May the watch be told that it has everything up to `rev`? What it knows already may be repeated, as a sign of life,
 * but not while a revision has been given in part. */
static bool may_tell(const struct belfry_mux_watch *watch, int64_t rev)
{
    return rev > 0 && rev >= (watch->inbox.given == 0 ? watch->next_rev - 1 : watch->next_rev);
}

static void note_progress(struct belfry_mux *mux, struct belfry_mux_watch *watch,
                          const struct belfry_wire_watch *response)
{
    if (!may_tell(watch, response->header.revision))
        return; /* it starts in the future, or knows more already */
    watch->progress_rev = response->header.revision;
    watch->header = response->header;
    make_ready(mux, watch);
}

/* Is an answer to a progress request good for this sub? The server sends created answers from a queue of their own, so
 * an answer computed before a watch was registered may come after its created, while events below it are yet to be
 * replayed. It is good if it is newer than the created answer, if it cannot belong to a request sent before the create,
 * or if the sub has had something from the same queue. */
static bool covers(const struct belfry_mux *mux, const struct sub *sub, int64_t revision)
{
    return sub->spoke || revision > sub->created_rev || mux->progress_answered > sub->asked;
}

static void on_progress_of_all(struct belfry_mux *mux, const struct belfry_wire_watch *response)
{
    bool all = true;
    mux->progress_answered++;
    belfry_list_each (node, &mux->all) {
        struct belfry_mux_watch *watch = of_all(node);
        if (watch->state != OPEN || watch->removed)
            continue;
        if (covers(mux, watch->sub, response->header.revision))
            note_progress(mux, watch, response);
        else
            all = false;
    }
    mux->progress_wanted = mux->progress_wanted && !all;
    mux->progress_due = BELFRY_NEVER;
}

static void on_progress(struct belfry_mux *mux, const struct belfry_wire_watch *response)
{
    if (response->watch_id == -1) {
        on_progress_of_all(mux, response);
        return;
    }
    struct sub *sub = find_sub(mux, response->watch_id);
    if (sub == NULL || sub->watch == NULL)
        return;
    sub->spoke = true;
    note_progress(mux, sub->watch, response);
}

/* The watch is over what it may hold: it keeps what it has, lets go upstream and is created again from there. */
static void park(struct belfry_mux *mux, struct belfry_mux_watch *watch)
{
    detach(mux, watch);
    cut_inbox(watch);
    mux->stats.parked++;
    move(mux, watch, PARKED);
    settle(mux, watch);
}

static enum belfry_err on_unknown(struct belfry_mux *mux, int64_t id)
{
    if (++mux->n_unknown > BELFRY_MUX_ORPHANS)
        return BELFRY_ERR_PROTOCOL;
    struct sub *sub = new_sub(NULL);
    if (sub == NULL)
        return BELFRY_ERR_NOMEM;
    name_sub(mux, sub, id, SUB_LIVE);
    cancel_sub(mux, sub); /* once: the orphan swallows the rest */
    return BELFRY_OK;
}

static enum belfry_err on_events(struct belfry_mux *mux, struct belfry_blob *message,
                                 const struct belfry_wire_watch *response)
{
    struct sub *sub = find_sub(mux, response->watch_id);
    if (sub == NULL)
        return on_unknown(mux, response->watch_id);
    struct belfry_mux_watch *watch = sub->watch;
    if (watch == NULL)
        return BELFRY_OK;
    sub->spoke = true;
    watch->recreates = 0;
    if (watch->paused && watch->inbox.bytes + belfry_blob_len(message) > watch->pause_bytes) {
        park(mux, watch);
        return BELFRY_OK;
    }
    size_t before = watch->inbox.bytes;
    enum belfry_err err = belfry_inbox_add(&watch->inbox, message, response);
    if (err != BELFRY_OK)
        return err;
    count_held(mux, watch, before);
    make_ready(mux, watch);
    return BELFRY_OK;
}

enum belfry_err belfry_mux_message(struct belfry_mux *mux, struct belfry_blob *message, uint64_t now_ms)
{
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

void belfry_mux_fail(struct belfry_mux *mux, enum belfry_err err, const char *why)
{
    belfry_list_each (node, &mux->all) {
        struct belfry_mux_watch *watch = of_all(node);
        if (watch->removed)
            continue;
        detach(mux, watch);
        end_watch(mux, watch, err, 0, why);
    }
}

void belfry_mux_auth_is_final(struct belfry_mux *mux, bool final)
{
    mux->auth_final = final;
}

void belfry_mux_request_progress(struct belfry_mux *mux, uint64_t now_ms)
{
    (void)now_ms;
    if (mux->count == 0 || mux->progress_wanted)
        return;
    mux->progress_wanted = true;
    mux->progress_due = BELFRY_NEVER;
}

enum belfry_err belfry_mux_tick(struct belfry_mux *mux, uint64_t now_ms)
{
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

/* ---- what comes out ---- */

/* The next group of the inbox. A revision that is still incomplete when it is over the bound ends the watch. */
static enum belfry_err next_group(struct belfry_mux *mux, struct belfry_mux_watch *watch,
                                  struct belfry_inbox_group *out)
{
    size_t before = watch->inbox.bytes;
    uint64_t stale = watch->inbox.stale;
    enum belfry_err err = belfry_inbox_next(&watch->inbox, watch->next_rev, watch->unmerged, out);
    count_held(mux, watch, before);
    mux->stats.stale_events += watch->inbox.stale - stale;
    if (err != BELFRY_ERR_AGAIN || belfry_inbox_single(&watch->inbox) ||
        watch->inbox.bytes <= mux->opts.max_revision_bytes)
        return err;
    detach(mux, watch);
    end_watch(mux, watch, BELFRY_ERR_TOO_LARGE, 0, "one revision is larger than max-message: raise it");
    before = watch->inbox.bytes;
    err = belfry_inbox_next(&watch->inbox, watch->next_rev, watch->unmerged, out); /* cut: lets go of the rest */
    count_held(mux, watch, before);
    return err;
}

/* Finds what this watch has to say now. Errors: BELFRY_ERR_AGAIN (nothing), BELFRY_ERR_PROTOCOL. */
static enum belfry_err next_of(struct belfry_mux *mux, struct belfry_mux_watch *watch, struct belfry_mux_action *out)
{
    if (watch->paused)
        return BELFRY_ERR_AGAIN;
    enum belfry_err err = next_group(mux, watch, &out->group);
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
    if (may_tell(watch, watch->progress_rev)) {
        out->act = BELFRY_MUX_PROGRESS;
        out->rev = watch->progress_rev;
        out->header = watch->header;
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
    settle(mux, watch);
    return BELFRY_ERR_AGAIN;
}

enum belfry_err belfry_mux_next(struct belfry_mux *mux, struct belfry_mux_action *out)
{
    assert(mux->current == NULL);
    while (!belfry_list_empty(&mux->ready)) {
        struct belfry_mux_watch *watch = belfry_container(mux->ready.next, struct belfry_mux_watch, ready);
        mux->action = (struct belfry_mux_action){.watch = watch};
        enum belfry_err err = next_of(mux, watch, &mux->action);
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
            count_held(mux, watch, before);
            watch->progress_rev = 0; /* it was to be given after what is forgotten now */
            return err;
        }
        belfry_list_remove(&watch->ready);
    }
    return BELFRY_ERR_AGAIN;
}

void belfry_mux_taken(struct belfry_mux *mux, enum belfry_mux_verdict verdict)
{
    struct belfry_mux_watch *watch = mux->current;
    const struct belfry_mux_action *action = &mux->action;
    assert(watch != NULL);
    mux->current = NULL;
    if (watch->removed) {
        free_watch(mux, watch);
        return;
    }
    if (verdict == BELFRY_MUX_KEEP) {
        watch->paused = true;
        return;
    }
    if (action->act == BELFRY_MUX_EVENTS) {
        size_t before = watch->inbox.bytes;
        belfry_inbox_take(&watch->inbox, &action->group);
        count_held(mux, watch, before);
        watch->next_rev = action->group.part ? action->rev : action->rev + 1;
    } else if (action->act == BELFRY_MUX_PROGRESS) {
        watch->next_rev = action->rev + 1;
        watch->progress_rev = 0;
        watch->recreates = 0;
    }
    if (verdict == BELFRY_MUX_STOP || action->act == BELFRY_MUX_END) {
        belfry_mux_remove(mux, watch);
        return;
    }
    if (verdict == BELFRY_MUX_PAUSE)
        watch->paused = true;
    make_ready(mux, watch); /* there may be more: the next look decides */
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
    mux->suspects = false;
    if (linearizable >= seen)
        return; /* it was lag */
    mux->seen = linearizable;
    char why[WHY_MAX];
    snprintf(why, sizeof(why), "the cluster is at revision %lld but was at %lld before: it was restored from a backup",
             (long long)linearizable, (long long)seen);
    belfry_list_each (node, &mux->all) {
        struct belfry_mux_watch *watch = of_all(node);
        if (watch->removed || !has_begun(watch))
            continue;
        detach(mux, watch);
        end_watch(mux, watch, BELFRY_ERR_REWOUND, linearizable, why);
    }
}

void belfry_mux_saw(struct belfry_mux *mux, int64_t revision)
{
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
