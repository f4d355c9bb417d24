/* src/client/watch/mux.c: the watches of a mux, and what comes out of it. */
#include "base/owner.h"
#include "client/watch/mux_private.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

/* ---- watches ---- */

void belfry_mux_ready(struct belfry_mux *mux, struct belfry_mux_watch *watch)
{
    if (belfry_list_empty(&watch->ready) && !watch->removed)
        belfry_list_append(&mux->ready, &watch->ready);
}

void belfry_mux_move(struct belfry_mux *mux, struct belfry_mux_watch *watch, enum belfry_mux_state to)
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
    if (watch->state == OPEN && watch->lost_notify) {
        watch->lost = true;
        belfry_mux_ready(mux, watch);
    }
    watch->state = to;
    if (to == WAITING)
        belfry_list_append(&mux->waiting, &watch->queue);
    else if (to == ENDING)
        belfry_mux_ready(mux, watch);
}

void belfry_mux_count_held(struct belfry_mux *mux, const struct belfry_mux_watch *watch, size_t before)
{
    mux->held = mux->held - before + watch->inbox.bytes;
}

static void free_watch(struct belfry_mux *mux, struct belfry_mux_watch *watch)
{
    size_t before = watch->inbox.bytes;
    belfry_inbox_fini(&watch->inbox);
    belfry_mux_count_held(mux, watch, before);
    belfry_list_remove(&watch->queue);
    belfry_list_remove(&watch->ready);
    belfry_list_remove(&watch->all);
    free(watch->end_why);
    free(watch);
}

void belfry_mux_settle(struct belfry_mux *mux, struct belfry_mux_watch *watch)
{
    if (watch->state == PARKED && !watch->paused && belfry_inbox_empty(&watch->inbox))
        belfry_mux_move(mux, watch, WAITING);
}

void belfry_mux_cut(struct belfry_mux_watch *watch)
{
    if (belfry_inbox_unfinished(&watch->inbox))
        watch->progress_rev = 0;
    belfry_inbox_cut(&watch->inbox);
}

void belfry_mux_end_watch(struct belfry_mux *mux, struct belfry_mux_watch *watch, enum belfry_err err, int64_t rev,
                          const char *why)
{
    if (watch->state == ENDING)
        return;
    watch->end_err = err;
    watch->end_rev = rev;
    watch->end_why =
        why != NULL && why[0] != '\0' ? strndup(why, BELFRY_MUX_WHY) : NULL; /* without it: the general sentence */
    belfry_mux_cut(watch);
    belfry_mux_move(mux, watch, ENDING);
}

void belfry_mux_detach(struct belfry_mux *mux, struct belfry_mux_watch *watch)
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
    mux->in_order = opts->in_order;
    mux->progress_trusted = true;
    mux->pieces = true;
    belfry_list_init(&mux->all);
    belfry_list_init(&mux->need_rev);
    belfry_list_init(&mux->waiting);
    belfry_list_init(&mux->ready);
    belfry_subs_init(&mux->subs);
    mux->create_due = mux->progress_due = BELFRY_NEVER;
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
        free_watch(mux, belfry_mux_of_all(node));
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
    watch->prev_kv = spec->prev_kv;
    watch->progress_notify = spec->progress_notify;
    watch->created_notify = spec->created_notify;
    watch->lost_notify = spec->lost_notify;
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
        belfry_mux_move(mux, watch, WAITING);
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
    if (watch->removed)
        return;
    belfry_mux_detach(mux, watch);
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
    BELFRY_OWNER_CHECK(mux);
    (void)mux;
    watch->paused = true;
}

void belfry_mux_resume(struct belfry_mux *mux, struct belfry_mux_watch *watch)
{
    BELFRY_OWNER_CHECK(mux);
    if (!watch->paused || watch->removed)
        return;
    watch->paused = false;
    belfry_mux_settle(mux, watch);
    belfry_mux_ready(mux, watch);
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
    while (node != &mux->all && belfry_mux_of_all(node)->removed)
        node = node->next;
    return node == &mux->all ? NULL : belfry_mux_of_all(node);
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

bool belfry_mux_wants_revision(const struct belfry_mux *mux, struct belfry_mux_read *out)
{
    if (belfry_list_empty(&mux->need_rev))
        return false;
    const struct belfry_mux_watch *watch = belfry_mux_of_queue(mux->need_rev.next);
    *out = (struct belfry_mux_read){.key = belfry_bytes_of(watch->bytes, watch->key_len),
                                    .generation = mux->generation,
                                    .asker = watch->generation};
    return true;
}

void belfry_mux_revision(struct belfry_mux *mux, uint64_t generation, int64_t rev)
{
    BELFRY_OWNER_CHECK(mux);
    belfry_mux_saw(mux, rev);
    belfry_list_each_safe (node, &mux->need_rev) {
        struct belfry_mux_watch *watch = belfry_mux_of_queue(node);
        if (watch->generation > generation)
            break;
        watch->next_rev = rev + 1;
        belfry_mux_move(mux, watch, WAITING);
    }
}

void belfry_mux_revision_refused(struct belfry_mux *mux, uint64_t asker, enum belfry_err err, const char *why)
{
    BELFRY_OWNER_CHECK(mux);
    if (!belfry_list_empty(&mux->need_rev) && belfry_mux_of_queue(mux->need_rev.next)->generation == asker)
        belfry_mux_end_watch(mux, belfry_mux_of_queue(mux->need_rev.next), err, 0, why);
}

/* ---- what comes out ---- */

bool belfry_mux_may_tell(const struct belfry_mux_watch *watch, int64_t rev)
{
    return rev > 0 && rev >= (watch->inbox.given == 0 ? watch->next_rev - 1 : watch->next_rev);
}

/* The next group of the inbox. A revision that is still incomplete when it is over the bound ends the watch. */
static enum belfry_err next_group(struct belfry_mux *mux, struct belfry_mux_watch *watch,
                                  struct belfry_inbox_group *out)
{
    size_t before = watch->inbox.bytes;
    uint64_t stale = watch->inbox.stale;
    enum belfry_err err = belfry_inbox_next(&watch->inbox, watch->next_rev, watch->unmerged, out);
    belfry_mux_count_held(mux, watch, before);
    mux->stats.stale_events += watch->inbox.stale - stale;
    if (err != BELFRY_ERR_AGAIN || belfry_inbox_single(&watch->inbox) ||
        watch->inbox.bytes <= mux->opts.max_revision_bytes)
        return err;
    belfry_mux_detach(mux, watch);
    belfry_mux_end_watch(mux, watch, BELFRY_ERR_TOO_LARGE, 0, "one revision is larger than max-message: raise it");
    before = watch->inbox.bytes;
    err = belfry_inbox_next(&watch->inbox, watch->next_rev, watch->unmerged, out); /* cut: lets go of the rest */
    belfry_mux_count_held(mux, watch, before);
    return err;
}

/* Finds what this watch has to say now. Errors: BELFRY_ERR_AGAIN (nothing), BELFRY_ERR_PROTOCOL. */
static enum belfry_err next_of(struct belfry_mux *mux, struct belfry_mux_watch *watch, struct belfry_mux_action *out)
{
    if (watch->lost) {
        out->act = BELFRY_MUX_LOST;
        return BELFRY_OK;
    }
    if (watch->paused)
        return BELFRY_ERR_AGAIN;
    if (watch->created) {
        out->act = BELFRY_MUX_CREATED;
        out->rev = watch->created_rev;
        out->header = watch->created_header;
        return BELFRY_OK;
    }
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
    if (belfry_mux_may_tell(watch, watch->progress_rev)) {
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
    belfry_mux_settle(mux, watch);
    return BELFRY_ERR_AGAIN;
}

enum belfry_err belfry_mux_next(struct belfry_mux *mux, struct belfry_mux_action *out)
{
    BELFRY_OWNER_CHECK(mux);
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
            belfry_mux_count_held(mux, watch, before);
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
    if (watch->removed) {
        free_watch(mux, watch);
        return;
    }
    watch->lost = watch->lost && action->act != BELFRY_MUX_LOST;
    if (verdict == BELFRY_MUX_KEEP) {
        watch->paused = true;
        return;
    }
    if (action->act == BELFRY_MUX_EVENTS) {
        size_t before = watch->inbox.bytes;
        belfry_inbox_take(&watch->inbox, &action->group);
        belfry_mux_count_held(mux, watch, before);
        watch->next_rev = action->group.part ? action->rev : action->rev + 1;
    } else if (action->act == BELFRY_MUX_PROGRESS) {
        watch->next_rev = action->rev + 1;
        watch->progress_rev = 0;
        watch->recreates = 0;
    } else if (action->act == BELFRY_MUX_CREATED) {
        watch->created = false;
    }
    if (verdict == BELFRY_MUX_STOP || action->act == BELFRY_MUX_END) {
        belfry_mux_remove(mux, watch);
        return;
    }
    if (verdict == BELFRY_MUX_PAUSE)
        watch->paused = true;
    belfry_mux_ready(mux, watch); /* there may be more: the next look decides */
}

struct belfry_mux_stats belfry_mux_stats(const struct belfry_mux *mux)
{
    return mux->stats;
}

size_t belfry_mux_held_bytes(const struct belfry_mux *mux)
{
    return mux->held;
}
