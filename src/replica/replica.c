/* src/replica/replica.c: the parts put together: which environment is current, and which readers still use an older
 * one.
 *
 * Readers take a reference to the current environment for the time of a call, and a snapshot of their own. adopt() puts
 * another environment in its place, and the old one is closed and removed with its last reference, on whichever thread
 * that is.
 */
#include "replica/replica.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/statvfs.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/sim.h"
#include "replica/audit.h"
#include "replica/env.h"
#include "replica/folder.h"
#include "replica/fresh.h"
#include "replica/history.h"
#include "replica/mdbfile.h"
#include "replica/page.h"
#include "replica/trim.h"
#include "replica/writer.h"

#define STATE_BYTES     ((size_t)8 << 30) /* room for state in a map without a size: etcd's largest quota */
#define MAP_UNIT        ((size_t)1 << 16) /* a multiple of any page size */
#define DISK_FULL_BYTES (64 * 1024)       /* less than this is none */
#define SAY_MS          60000
#define DEATHS          2 /* deaths of the process in a row (folder.h) after which the replica is discarded */

struct replica {
    struct store store;
    /* fixed at creation */
    struct folder folder;
    struct trim_budget budget;
    size_t map_bytes, extent_bytes;
    char *scope;
    enum audit_place audit;
    const struct belfry_log *log;
    /* the writer's */
    struct writer writer;
    struct fresh fresh;
    uint64_t last_number;    /* the highest number of a data folder so far */
    bool in_trouble;         /* the last write failed */
    char why[PATH_MAX + 64]; /* what the last failure was about */
    uint64_t said_ms;        /* when the failure of a fresh copy was last logged; 0: never */
    bool told_damage;        /* of the current environment */
    /* under mu */
    pthread_mutex_t mu;
    struct env *env; /* one reference; only the writer replaces it, and may look at it without mu */
    uint64_t commits, trimmed, io_errors, damages;
};

/* A reader's call: the environment it is in, its snapshot, and what was true there. */
struct reading {
    struct env *env;
    MDB_txn *txn;
    struct env_now now;
    uint64_t past;
};

static struct replica *replica_of(struct store *store)
{
    return belfry_container(store, struct replica, store);
}

/* ---- which environment ---- */

static struct env *replica_hold(struct replica *replica, uint64_t *past)
{
    pthread_mutex_lock(&replica->mu);
    struct env *env = replica->env;
    env->refs++;
    *past = env->past;
    pthread_mutex_unlock(&replica->mu);
    return env;
}

static void replica_release(struct replica *replica, struct env *env)
{
    pthread_mutex_lock(&replica->mu);
    bool last = --env->refs == 0;
    pthread_mutex_unlock(&replica->mu);
    if (!last)
        return;
    uint64_t number = env->number;
    bool left = env->left; /* this was the last reference */
    env_close(env);
    if (left)
        folder_remove(&replica->folder, number);
}

static enum env_fault open_env(struct replica *replica, uint64_t number, struct env **out)
{
    char *path = folder_data_path(&replica->folder, number);
    if (path == NULL)
        return ENV_FAULT_MEMORY;
    enum env_fault fault = env_open(path, number, replica->map_bytes, replica->scope, out);
    free(path);
    return fault;
}

static enum belfry_err make_env(struct replica *replica, struct env **out)
{
    uint64_t number = ++replica->last_number;
    if (folder_make(&replica->folder, number) != BELFRY_OK)
        return BELFRY_ERR_IO;
    enum env_fault fault = open_env(replica, number, out);
    if (fault == ENV_FAULT_NONE)
        return BELFRY_OK;
    folder_remove(&replica->folder, number);
    return fault == ENV_FAULT_MEMORY ? BELFRY_ERR_NOMEM : BELFRY_ERR_IO;
}

static void drop_fresh(struct replica *replica)
{
    struct env *env = fresh_end(&replica->fresh);
    if (env == NULL)
        return;
    env->left = true;
    replica_release(replica, env);
}

/* ---- the writer ---- */

/* LMDB reports a short write as EIO, so check the free space of the disk, too. */
static bool disk_is_full(const struct replica *replica)
{
    struct statvfs disk;
    return statvfs(replica->folder.path, &disk) == 0 && (uint64_t)disk.f_bavail * disk.f_frsize < DISK_FULL_BYTES;
}

static void replica_explain(struct replica *replica, int rc)
{
    const char *path = replica->folder.path;
    if (rc == MDB_MAP_FULL)
        snprintf(replica->why, sizeof(replica->why), "the replica has reached its %zu MiB: %s",
                 replica->map_bytes / (1024 * 1024), path);
    else if (rc == ENOSPC || rc == EDQUOT || disk_is_full(replica))
        snprintf(replica->why, sizeof(replica->why), "disk full: %s", path);
    else
        snprintf(replica->why, sizeof(replica->why), "cannot be written (%s): %s",
                 rc != 0 ? mdb_strerror(rc) : "no reason is known", path);
}

/* Counts disk trouble and remembers what it was; LMDB's `rc` is 0 when it is not known. */
static enum belfry_err replica_noted(struct replica *replica, enum belfry_err err, int rc)
{
    if (err != BELFRY_ERR_IO)
        return err;
    pthread_mutex_lock(&replica->mu);
    replica->io_errors++;
    pthread_mutex_unlock(&replica->mu);
    replica_explain(replica, rc);
    replica->in_trouble = true;
    return err;
}

static bool is_damaged(const struct replica *replica)
{
    return atomic_load_explicit(&replica->env->damages, memory_order_relaxed) > 0;
}

/* For the writer, whose caller logs it. Damage is not a disk failure: damaged() reports it. */
static enum belfry_err noted_write(struct replica *replica, enum belfry_err err)
{
    if (err != BELFRY_ERR_IO || !is_damaged(replica))
        return replica_noted(replica, err, replica->writer.failed);
    snprintf(replica->why, sizeof(replica->why), "damaged: %s", replica->folder.path);
    return err;
}

/* For a fresh copy, which is retried until it succeeds. */
static enum belfry_err noted_fresh(struct replica *replica, enum belfry_err err)
{
    uint64_t now_ms = belfry_clock_ms();
    if (replica_noted(replica, err, 0) != BELFRY_ERR_IO)
        return err;
    if (replica->said_ms == 0 || now_ms >= replica->said_ms + SAY_MS) {
        belfry_logf(replica->log, BELFRY_LOG_ERROR, "listing_refused", "why=\"%s\"", replica->why);
        replica->said_ms = now_ms;
    }
    return err;
}

static const char *replica_why(struct store *store)
{
    return replica_of(store)->why;
}

static void replica_meta(struct store *store, struct store_meta *out)
{
    struct replica *replica = replica_of(store);
    *out = replica->writer.now.meta;
    out->past = replica->env->past; /* moved on this thread alone */
}

static enum belfry_err replica_begin(struct store *store)
{
    struct replica *replica = replica_of(store);
    return noted_write(replica, writer_begin(&replica->writer));
}

static enum belfry_err replica_get(struct store *store, struct belfry_bytes key, struct belfry_bytes *kv)
{
    struct replica *replica = replica_of(store);
    return noted_write(replica, writer_get(&replica->writer, key, kv));
}

static enum belfry_err replica_apply(struct store *store, int64_t rev, uint32_t sub,
                                     const struct belfry_wire_event *event, const struct belfry_bytes *before,
                                     struct belfry_bytes *prev)
{
    struct replica *replica = replica_of(store);
    return noted_write(replica, writer_apply(&replica->writer, rev, sub, event, before, prev));
}

static enum belfry_err replica_advance(struct store *store, int64_t rev, const struct belfry_wire_header *header)
{
    struct replica *replica = replica_of(store);
    return noted_write(replica, writer_advance(&replica->writer, rev, header));
}

static enum belfry_err replica_trim(struct store *store, uint64_t now_s, size_t max_rows, size_t *n)
{
    struct replica *replica = replica_of(store);
    struct trim_budget budget = replica->budget;
    budget.squeeze = replica->in_trouble;
    enum belfry_err err = trim_rows(&replica->writer, &budget, now_s, max_rows, n);
    if (err != BELFRY_OK)
        return noted_write(replica, err);
    pthread_mutex_lock(&replica->mu);
    replica->trimmed += *n;
    pthread_mutex_unlock(&replica->mu);
    return BELFRY_OK;
}

static enum belfry_err replica_commit(struct store *store)
{
    struct replica *replica = replica_of(store);
    enum belfry_err err = writer_commit(&replica->writer);
    if (err != BELFRY_OK)
        return noted_write(replica, err);
    replica->in_trouble = false;
    pthread_mutex_lock(&replica->mu);
    replica->commits++;
    pthread_mutex_unlock(&replica->mu);
    return BELFRY_OK;
}

static void replica_abort(struct store *store)
{
    writer_abort(&replica_of(store)->writer);
}

static enum belfry_err replica_fresh(struct store *store)
{
    struct replica *replica = replica_of(store);
    drop_fresh(replica);
    struct env *env;
    enum belfry_err err = make_env(replica, &env);
    if (err == BELFRY_OK)
        fresh_begin(&replica->fresh, env);
    return noted_fresh(replica, err);
}

static enum belfry_err replica_put(struct store *store, const struct belfry_wire_kv *kv)
{
    struct replica *replica = replica_of(store);
    return noted_fresh(replica, fresh_put(&replica->fresh, kv));
}

static enum belfry_err replica_remove(struct store *store, struct belfry_bytes key, int64_t rev)
{
    struct replica *replica = replica_of(store);
    return noted_fresh(replica, fresh_remove(&replica->fresh, key, rev));
}

static void replica_replace(struct replica *replica, struct env *env, uint64_t past)
{
    pthread_mutex_lock(&replica->mu);
    struct env *old = replica->env;
    env->past = past;
    old->left = true;
    replica->damages += atomic_load_explicit(&old->damages, memory_order_relaxed);
    replica->env = env;
    pthread_mutex_unlock(&replica->mu);
    replica_release(replica, old);
}

static enum belfry_err replica_adopt(struct store *store, int64_t rev, const struct belfry_wire_header *header,
                                     uint64_t past)
{
    struct replica *replica = replica_of(store);
    struct store_meta meta = {.cluster_id = header->cluster_id,
                              .member_id = header->member_id,
                              .raft_term = header->raft_term,
                              .revision = rev,
                              .oldest = rev + 1};
    struct env_now now;
    enum belfry_err err = fresh_finish(&replica->fresh, &meta, &now);
    if (err == BELFRY_OK) /* from here on it is the one to open after a crash */
        err = folder_mark(&replica->folder, FOLDER_DIRTY, replica->fresh.env->number);
    if (err != BELFRY_OK)
        return noted_fresh(replica, err);
    struct env *env = fresh_end(&replica->fresh);
    writer_attach(&replica->writer, env, &now);
    replica->told_damage = false;
    replica_replace(replica, env, past);
    replica->in_trouble = false;
    return BELFRY_OK;
}

static void replica_set_past(struct store *store, uint64_t past)
{
    struct replica *replica = replica_of(store);
    pthread_mutex_lock(&replica->mu);
    replica->env->past = past;
    pthread_mutex_unlock(&replica->mu);
}

/* ---- the reader ---- */

static void end_reading(struct replica *replica, struct reading *reading)
{
    env_read_end(reading->env, reading->txn);
    replica_release(replica, reading->env);
}

static enum belfry_err load_now(struct reading *reading)
{
    if (env_now_load(reading->env, reading->txn, &reading->now) == MDB_SUCCESS)
        return BELFRY_OK;
    env_note_damage(reading->env);
    return BELFRY_ERR_IO;
}

static enum belfry_err begin_reading(struct replica *replica, struct reading *reading)
{
    reading->env = replica_hold(replica, &reading->past);
    enum belfry_err err = env_read_begin(reading->env, &reading->txn);
    if (err != BELFRY_OK) {
        replica_release(replica, reading->env);
        return err;
    }
    err = load_now(reading);
    if (err != BELFRY_OK)
        end_reading(replica, reading);
    return err;
}

/* Reading needs no disk space, so a failure inside a snapshot is damage. */
static enum belfry_err read_to(struct reading *reading, enum belfry_err err)
{
    if (err == BELFRY_ERR_IO)
        env_note_damage(reading->env);
    return err;
}

static void replica_snapshot(struct store *store, struct store_meta *out)
{
    struct replica *replica = replica_of(store);
    struct reading reading;
    *out = (struct store_meta){.oldest = 1}; /* if it cannot be read, it counts as empty */
    if (begin_reading(replica, &reading) != BELFRY_OK)
        return;
    *out = reading.now.meta;
    out->past = reading.past;
    atomic_store_explicit(&reading.env->earlier_oldest, reading.now.meta.oldest, memory_order_relaxed);
    end_reading(replica, &reading);
}

/* Is `rev` of `past` there to be read? */
static enum belfry_err check_window(struct reading *reading, uint64_t past, int64_t rev, int64_t *oldest)
{
    const struct store_meta *meta = &reading->now.meta;
    if (past != reading->past)
        return BELFRY_ERR_CANCELED;
    int64_t begins = meta->oldest;
    if (BELFRY_MUTANT(oldest_from_earlier)) {
        int64_t earlier = atomic_exchange_explicit(&reading->env->earlier_oldest, meta->oldest, memory_order_relaxed);
        begins = earlier < begins ? earlier : begins;
    }
    *oldest = begins;
    if (rev > meta->revision)
        return BELFRY_ERR_AGAIN;
    return rev < begins ? BELFRY_ERR_NOT_FOUND : BELFRY_OK;
}

static struct history_read history_of(const struct replica *replica, const struct reading *reading)
{
    return (struct history_read){.env = reading->env,
                                 .txn = reading->txn,
                                 .now = &reading->now,
                                 .past = reading->past,
                                 .extent_bytes = replica->extent_bytes};
}

static enum belfry_err replica_history(struct store *store, uint64_t past, int64_t from, size_t max_bytes,
                                       struct segment **out, int64_t *oldest)
{
    struct replica *replica = replica_of(store);
    struct reading reading;
    enum belfry_err err = begin_reading(replica, &reading);
    if (err != BELFRY_OK)
        return err;
    err = check_window(&reading, past, from, oldest);
    if (err == BELFRY_OK) {
        struct history_read read = history_of(replica, &reading);
        err = read_to(&reading, history_segment(&read, from, max_bytes, out));
    }
    end_reading(replica, &reading);
    return err;
}

static enum belfry_err replica_slice(struct store *store, uint64_t past, int64_t rev, uint32_t sub, size_t max_bytes,
                                     struct segment **out, int64_t *oldest)
{
    struct replica *replica = replica_of(store);
    struct reading reading;
    enum belfry_err err = begin_reading(replica, &reading);
    if (err != BELFRY_OK)
        return err;
    err = check_window(&reading, past, rev, oldest);
    if (err == BELFRY_OK) {
        struct history_read read = history_of(replica, &reading);
        err = read_to(&reading, history_slice(&read, rev, sub, max_bytes, out));
    }
    end_reading(replica, &reading);
    return err;
}

/* Which revision is read; is it there? */
static enum belfry_err find_rev(const struct reading *reading, const struct store_read *read, int64_t *out)
{
    const struct store_meta *meta = &reading->now.meta;
    int64_t rev = read->rev == 0 ? meta->revision : read->rev;
    if (rev > meta->revision)
        return BELFRY_ERR_AGAIN;
    *out = rev;
    return rev < meta->oldest - 1 ? BELFRY_ERR_COMPACTED : BELFRY_OK; /* at oldest - 1 all later rows still exist */
}

/* The index of older rows is brought up to the snapshot. So the snapshot is taken again under its lock: another thread
 * may have moved the index beyond the one at hand. */
static enum belfry_err give_older(struct reading *reading, const struct page_read *page, struct store_page *out)
{
    pthread_mutex_lock(&reading->env->older_mu);
    enum belfry_err err = env_read_renew(reading->txn);
    if (err == BELFRY_OK)
        err = load_now(reading);
    if (err == BELFRY_OK)
        err = find_rev(reading, page->read, &out->at);
    if (err == BELFRY_OK)
        err = page_at(page, out);
    pthread_mutex_unlock(&reading->env->older_mu);
    return err;
}

static enum belfry_err give_page(struct reading *reading, const struct store_read *read, store_row_fn row, void *user,
                                 struct store_page *out)
{
    struct page_read page = {
        .env = reading->env, .txn = reading->txn, .now = &reading->now, .read = read, .row = row, .user = user};
    struct store_page got = {.more = false};
    enum belfry_err err = find_rev(reading, read, &got.at);
    if (err == BELFRY_OK)
        err = got.at == reading->now.meta.revision ? page_now(&page, &got) : give_older(reading, &page, &got);
    if (err != BELFRY_OK)
        return err;
    got.meta = reading->now.meta;
    got.meta.past = reading->past;
    *out = got;
    return BELFRY_OK;
}

/* ---- views ---- */

struct store_view {
    struct reading reading;
};

static enum belfry_err replica_view_begin(struct store *store, struct store_view **out, struct store_meta *meta)
{
    struct store_view *view = calloc(1, sizeof(*view));
    if (view == NULL)
        return BELFRY_ERR_NOMEM;
    enum belfry_err err = begin_reading(replica_of(store), &view->reading);
    if (err != BELFRY_OK) {
        free(view);
        return err;
    }
    *meta = view->reading.now.meta;
    meta->past = view->reading.past;
    *out = view;
    return BELFRY_OK;
}

static void replica_view_end(struct store *store, struct store_view *view)
{
    end_reading(replica_of(store), &view->reading);
    free(view);
}

/* To read an older page moves its snapshot (give_older()), so it is read in another one, of the same environment: what
 * there was at a revision stays as it was. */
static enum belfry_err give_beside(const struct reading *view, const struct store_read *read, store_row_fn row,
                                   void *user, struct store_page *out)
{
    struct reading beside = {.env = view->env, .past = view->past};
    enum belfry_err err = env_read_begin(beside.env, &beside.txn);
    if (err != BELFRY_OK)
        return err;
    err = load_now(&beside);
    if (err == BELFRY_OK)
        err = give_page(&beside, read, row, user, out);
    env_read_end(beside.env, beside.txn);
    return err;
}

static enum belfry_err view_range(struct store_view *view, const struct store_read *read, store_row_fn row, void *user,
                                  struct store_page *out)
{
    struct reading *reading = &view->reading;
    int64_t at;
    enum belfry_err err = find_rev(reading, read, &at);
    if (err != BELFRY_OK)
        return err;
    if (at == reading->now.meta.revision)
        return read_to(reading, give_page(reading, read, row, user, out));
    err = read_to(reading, give_beside(reading, read, row, user, out));
    if (err == BELFRY_OK) {
        out->meta = reading->now.meta;
        out->meta.past = reading->past;
    }
    return err;
}

static enum belfry_err replica_range(struct store *store, const struct store_read *read, store_row_fn row, void *user,
                                     struct store_page *out)
{
    struct replica *replica = replica_of(store);
    struct reading reading;
    if (read->view != NULL)
        return view_range(read->view, read, row, user, out);
    enum belfry_err err = begin_reading(replica, &reading);
    if (err != BELFRY_OK)
        return err;
    err = read_to(&reading, give_page(&reading, read, row, user, out));
    end_reading(replica, &reading);
    return err;
}

/* ---- damage ---- */

/* Damage found in the current environment is logged once. */
static bool replica_damaged(struct store *store)
{
    struct replica *replica = replica_of(store);
    if (!is_damaged(replica))
        return false;
    if (!replica->told_damage)
        belfry_logf(replica->log, BELFRY_LOG_ERROR, "replica_damaged",
                    "folder=%s rev=%lld hint=\"upstream is listed again; check the disk and the memory\"",
                    replica->folder.path, (long long)replica->writer.now.meta.revision);
    replica->told_damage = true;
    return true;
}

static const struct store_api api = {
    .meta = replica_meta,
    .begin = replica_begin,
    .get = replica_get,
    .apply = replica_apply,
    .advance = replica_advance,
    .trim = replica_trim,
    .commit = replica_commit,
    .abort = replica_abort,
    .why = replica_why,
    .fresh = replica_fresh,
    .put = replica_put,
    .remove = replica_remove,
    .adopt = replica_adopt,
    .set_past = replica_set_past,
    .snapshot = replica_snapshot,
    .history = replica_history,
    .slice = replica_slice,
    .range = replica_range,
    .view_begin = replica_view_begin,
    .view_end = replica_view_end,
    .damaged = replica_damaged,
};

/* ---- open and close ---- */

static bool is_sound(struct replica *replica, uint64_t number, enum audit_depth depth, char why[AUDIT_WHY])
{
    char *path = folder_data_path(&replica->folder, number);
    char file[PATH_MAX];
    enum mdbfile_length length;
    struct mdbfile_meta meta;
    snprintf(why, AUDIT_WHY, "its path is too long, or memory is short");
    bool known = path != NULL && snprintf(file, sizeof(file), "%s/data.mdb", path) < (int)sizeof(file);
    free(path);
    if (!known || mdbfile_measure(file, &length, &meta) != BELFRY_OK)
        return false;
    if (length == MDBFILE_NONE)
        return true;
    struct audit_opts opts = {.path = file,
                              .depth = length == MDBFILE_WHOLE ? depth : AUDIT_ALL,
                              .place = replica->audit,
                              .lock_fd = replica->folder.lock_fd};
    return audit_passes(&opts, why);
}

static void replica_discard(struct replica *replica, uint64_t number, const char *why)
{
    belfry_logf(replica->log, BELFRY_LOG_WARN, "replica_discarded", "folder=%s why=\"%s\"", replica->folder.path, why);
    folder_remove(&replica->folder, number);
    pthread_mutex_lock(&replica->mu);
    replica->damages++;
    pthread_mutex_unlock(&replica->mu);
}

/* The number of the data folder that may be opened; 0: none, or none any more. */
static uint64_t find_sound(struct replica *replica)
{
    enum folder_mark mark;
    char why[AUDIT_WHY];
    unsigned deaths = folder_life_begin(&replica->folder);
    uint64_t number = folder_warm(&replica->folder, &mark);
    replica->last_number = folder_sweep(&replica->folder, number);
    if (number == 0)
        return 0;
    if (deaths >= DEATHS)
        replica_discard(replica, number, "the last starts have died with it");
    else if (is_sound(replica, number, mark == FOLDER_CLEAN && deaths == 0 ? AUDIT_STATE : AUDIT_ALL, why))
        return number;
    else
        replica_discard(replica, number, why);
    return 0;
}

/* Opens what the marker allows; *out stays NULL when there is nothing that can be used. */
static enum belfry_err open_warm(struct replica *replica, struct env **out)
{
    uint64_t number = find_sound(replica);
    if (number == 0)
        return BELFRY_OK;
    enum belfry_err err = folder_mark(&replica->folder, FOLDER_DIRTY, number); /* opening may write already */
    if (err != BELFRY_OK)
        return err;
    switch (open_env(replica, number, out)) {
    case ENV_FAULT_NONE:
        return BELFRY_OK;
    case ENV_FAULT_DISK:
        return BELFRY_ERR_IO;
    case ENV_FAULT_MEMORY:
        return BELFRY_ERR_NOMEM;
    case ENV_FAULT_CONTENT:
        folder_remove(&replica->folder, number);
        return BELFRY_OK;
    }
    return BELFRY_ERR_IO;
}

static enum belfry_err open_content(struct replica *replica)
{
    enum belfry_err err = open_warm(replica, &replica->env);
    if (err == BELFRY_OK && replica->env == NULL) {
        err = folder_mark(&replica->folder, FOLDER_DIRTY, replica->last_number + 1);
        if (err == BELFRY_OK)
            err = make_env(replica, &replica->env);
    }
    struct reading reading;
    if (err == BELFRY_OK)
        err = begin_reading(replica, &reading);
    if (err != BELFRY_OK)
        return err;
    writer_attach(&replica->writer, replica->env, &reading.now);
    end_reading(replica, &reading);
    const struct store_meta *meta = &reading.now.meta;
    belfry_logf(replica->log, BELFRY_LOG_INFO, "replica_open", "folder=%s start=%s rev=%lld oldest=%lld",
                replica->folder.path, meta->revision > 0 ? "warm" : "cold", (long long)meta->revision,
                (long long)meta->oldest);
    return BELFRY_OK;
}

static size_t map_bytes(const struct replica_opts *opts)
{
    size_t bytes = opts->map_bytes > 0 ? opts->map_bytes : 2 * opts->history_bytes + STATE_BYTES;
    return (bytes + MAP_UNIT - 1) / MAP_UNIT * MAP_UNIT;
}

enum belfry_err replica_open(const struct replica_opts *opts, struct store **out, char **why)
{
    *why = NULL;
    struct replica *replica = calloc(1, sizeof(*replica));
    if (replica == NULL)
        return BELFRY_ERR_NOMEM;
    pthread_mutex_init(&replica->mu, NULL);
    replica->store.api = &api;
    replica->budget = (struct trim_budget){.history_bytes = opts->history_bytes, .history_age_s = opts->history_age_s};
    replica->map_bytes = map_bytes(opts);
    replica->extent_bytes = replica->writer.extent_bytes = opts->extent_bytes;
    replica->audit = opts->audit_here ? AUDIT_IN_PROCESS : AUDIT_IN_CHILD;
    replica->log = opts->log;
    enum belfry_err err = folder_open(&replica->folder, opts->dir, opts->boot_id, why);
    if (err != BELFRY_OK)
        goto fail;
    replica->scope = strdup(opts->scope == NULL ? "" : opts->scope);
    err = replica->scope == NULL ? BELFRY_ERR_NOMEM : open_content(replica);
    if (err == BELFRY_ERR_IO) {
        char text[512];
        snprintf(text, sizeof(text), "%s: cannot be written to: free some space, or choose another folder",
                 replica->folder.path);
        *why = strdup(text);
    }
    if (err != BELFRY_OK)
        goto fail;
    *out = &replica->store;
    return BELFRY_OK;

fail:
    replica_close(&replica->store, REPLICA_CLOSE_DIRTY);
    return err;
}

static void sync_and_mark(struct replica *replica)
{
    int rc = mdb_env_sync(replica->env->mdb, 1);
    enum belfry_err err = rc == MDB_SUCCESS ? BELFRY_OK : BELFRY_ERR_IO;
    if (err == BELFRY_OK)
        err = folder_mark(&replica->folder, FOLDER_CLEAN, replica->env->number);
    if (err != BELFRY_OK) /* the marker stays dirty: good for this boot, discarded in the next */
        belfry_logf(replica->log, BELFRY_LOG_WARN, "replica_not_clean", "folder=%s", replica->folder.path);
}

void replica_close(struct store *store, enum replica_close how)
{
    if (store == NULL)
        return;
    struct replica *replica = replica_of(store);
    writer_fini(&replica->writer);
    drop_fresh(replica);
    if (replica->env != NULL) {
        if (how == REPLICA_CLOSE_CLEAN && !replica_damaged(store)) /* otherwise the next open audits the whole file */
            sync_and_mark(replica);
        replica_release(replica, replica->env);
    }
    folder_close(&replica->folder);
    pthread_mutex_destroy(&replica->mu);
    free(replica->scope);
    free(replica);
}

void replica_serves(struct store *store)
{
    folder_life_serves(&replica_of(store)->folder);
}

void replica_faulted(const struct store *store)
{
    folder_life_faulted(&belfry_container_const(store, struct replica, store)->folder);
}

void replica_stats(struct store *store, struct replica_stats *out)
{
    struct replica *replica = replica_of(store);
    *out = (struct replica_stats){.map_bytes = replica->map_bytes};
    pthread_mutex_lock(&replica->mu);
    out->commits = replica->commits;
    out->trimmed = replica->trimmed;
    out->io_errors = replica->io_errors;
    out->damages = replica->damages + atomic_load_explicit(&replica->env->damages, memory_order_relaxed);
    pthread_mutex_unlock(&replica->mu);
    struct reading reading;
    if (begin_reading(replica, &reading) != BELFRY_OK)
        return;
    out->state_rows = env_rows(reading.txn, reading.env->state);
    out->history_rows = env_rows(reading.txn, reading.env->history);
    out->history_bytes = env_table_bytes(reading.env, reading.txn, reading.env->history);
    out->used_bytes = env_used_bytes(reading.env, reading.txn);
    end_reading(replica, &reading);
}
