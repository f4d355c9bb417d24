/* src/replica/env.c
 *
 *     meta   "form"  -> | version, 8 | hash key, 16 | salt, 8 |                        once; its own check has no salt
 *            "scope" -> text                                                           once
 *            "now"   -> | cluster id | member id | term | revision | oldest
 *                       | rows and sum of state, history, marks, extents, counts
 *                       | trimmed | newest |  8 each                                   with every commit
 */
#include "replica/env.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

#include "replica/rowform.h"

#define FORM_VERSION 3 /* 1: without checks; 2: without counts */
#define FORM_BYTES   32
#define NOW_NUMBERS  (5 + 2 * ROWFORM_COUNTED + 2)
#define NOW_BYTES    (8 * NOW_NUMBERS)
#define ROW_MAX      4096 /* of a small row: a scope is the longest */
#define TABLES       7
#define LOCK_BYTES   8192 /* LMDB's head, and 64 for each reader */

static MDB_val text_val(const char *text)
{
    return rowform_val(belfry_bytes_str(text));
}

enum belfry_err env_err(int rc)
{
    switch (rc) {
    case MDB_SUCCESS:
        return BELFRY_OK;
    case MDB_NOTFOUND:
        return BELFRY_ERR_NOT_FOUND;
    case ENOMEM:
        return BELFRY_ERR_NOMEM;
    default:
        return BELFRY_ERR_IO;
    }
}

static enum env_fault fault_of(int rc)
{
    switch (rc) {
    case MDB_SUCCESS:
        return ENV_FAULT_NONE;
    case ENOMEM:
        return ENV_FAULT_MEMORY;
    case MDB_INVALID:
    case MDB_VERSION_MISMATCH:
    case MDB_CORRUPTED:
    case MDB_PAGE_NOTFOUND:
    case MDB_INCOMPATIBLE:
    case MDB_NOTFOUND:
    case ENOENT:
        return ENV_FAULT_CONTENT;
    default:
        return ENV_FAULT_DISK;
    }
}

static int open_tables(struct env *env, MDB_txn *txn)
{
    const struct {
        const char *name;
        MDB_dbi *dbi;
    } tables[TABLES] = {{"state", &env->state},     {"history", &env->history}, {"marks", &env->marks},
                        {"extents", &env->extents}, {"counts", &env->counts},   {"gone", &env->gone},
                        {"meta", &env->meta}};
    for (size_t i = 0; i < TABLES; i++) {
        int rc = mdb_dbi_open(txn, tables[i].name, MDB_CREATE, tables[i].dbi);
        if (rc != MDB_SUCCESS)
            return rc;
    }
    return MDB_SUCCESS;
}

/* A row of meta: not counted. */
static int put_meta(const struct env *env, MDB_txn *txn, uint64_t salt, MDB_val key, struct belfry_bytes value)
{
    uint8_t row[ROW_MAX + ROWFORM_CHECK];
    if (value.len > ROW_MAX)
        return EINVAL;
    memcpy(row, value.data, value.len);
    rowform_seal(salt, ROWFORM_META, key, row, value.len);
    MDB_val val = {.mv_size = value.len + ROWFORM_CHECK, .mv_data = row};
    return mdb_put(txn, env->meta, &key, &val, 0);
}

static int write_form(struct env *env, MDB_txn *txn, const char *scope)
{
    if (getrandom(&env->hash, sizeof(env->hash), 0) != sizeof(env->hash) ||
        getrandom(&env->salt, sizeof(env->salt), 0) != sizeof(env->salt))
        return EIO;
    uint8_t form[FORM_BYTES];
    rowform_put64(form, FORM_VERSION);
    rowform_put64(form + 8, env->hash.k0);
    rowform_put64(form + 16, env->hash.k1);
    rowform_put64(form + 24, env->salt);
    int rc = put_meta(env, txn, 0, text_val("form"), belfry_bytes_of(form, FORM_BYTES));
    if (rc == MDB_SUCCESS)
        rc = put_meta(env, txn, env->salt, text_val("scope"), belfry_bytes_str(scope));
    return rc == MDB_SUCCESS ? env_now_store(env, txn, &(struct env_now){.meta.oldest = 1}) : rc;
}

bool env_salt_read(MDB_val key, MDB_val form, uint64_t *salt)
{
    uint64_t check;
    if (!rowform_open(0, ROWFORM_META, key, &form, &check) || form.mv_size != FORM_BYTES ||
        rowform_get64(form.mv_data) != FORM_VERSION)
        return false;
    *salt = rowform_get64((const uint8_t *)form.mv_data + 24);
    return true;
}

static int check_form(struct env *env, MDB_txn *txn, const char *scope)
{
    MDB_val key = text_val("form"), form, was;
    int rc = mdb_get(txn, env->meta, &key, &form);
    if (rc == MDB_NOTFOUND)
        return write_form(env, txn, scope);
    if (rc != MDB_SUCCESS)
        return rc;
    if (!env_salt_read(key, form, &env->salt))
        return MDB_VERSION_MISMATCH;
    env->hash.k0 = rowform_get64((const uint8_t *)form.mv_data + 8);
    env->hash.k1 = rowform_get64((const uint8_t *)form.mv_data + 16);
    uint64_t check;
    rc = env_row_get(env, txn, ROWFORM_META, text_val("scope"), &was, &check);
    if (rc != MDB_SUCCESS)
        return rc;
    struct env_now now;
    return belfry_bytes_equal(rowform_bytes(was), belfry_bytes_str(scope)) ? env_now_load(env, txn, &now)
                                                                           : MDB_INCOMPATIBLE;
}

static int set_up(struct env *env, const char *scope)
{
    MDB_txn *txn;
    int rc = mdb_txn_begin(env->mdb, NULL, 0, &txn);
    if (rc != MDB_SUCCESS)
        return rc;
    rc = open_tables(env, txn);
    if (rc == MDB_SUCCESS)
        rc = check_form(env, txn, scope);
    if (rc != MDB_SUCCESS) {
        mdb_txn_abort(txn);
        return rc;
    }
    rc = mdb_txn_commit(txn);
    if (rc != MDB_SUCCESS)
        return rc;
    rc = mdb_txn_begin(env->mdb, NULL, MDB_RDONLY, &env->idle[0]);
    if (rc != MDB_SUCCESS)
        return rc;
    mdb_txn_reset(env->idle[0]);
    env->n_idle = env->n_readers = 1;
    return MDB_SUCCESS;
}

/* LMDB writes to its lock file through a memory map, which raises SIGBUS on a full disk. So the page is allocated
 * first. */
static int reserve_lock(const char *path)
{
    char name[PATH_MAX];
    int len = snprintf(name, sizeof(name), "%s/lock.mdb", path);
    if (len < 0 || (size_t)len >= sizeof(name))
        return ENAMETOOLONG;
    int fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return errno;
    int rc = posix_fallocate(fd, 0, LOCK_BYTES);
    close(fd);
    return rc;
}

static int open_mdb(struct env *env, const char *path)
{
    int rc = reserve_lock(path);
    if (rc == 0)
        rc = mdb_env_create(&env->mdb);
    if (rc != MDB_SUCCESS) {
        env->mdb = NULL;
        return rc;
    }
    mdb_env_set_maxdbs(env->mdb, TABLES);
    mdb_env_set_maxreaders(env->mdb, ENV_READERS);
    rc = mdb_env_set_mapsize(env->mdb, env->map_bytes);
    if (rc == MDB_SUCCESS)
        rc = mdb_env_open(env->mdb, path, MDB_NOSYNC | MDB_NOTLS, 0600);
    return rc;
}

enum env_fault env_open(const char *path, uint64_t number, size_t map_bytes, const char *scope, struct env **out)
{
    struct env *env = calloc(1, sizeof(*env));
    if (env == NULL)
        return ENV_FAULT_MEMORY;
    pthread_mutex_init(&env->read_mu, NULL);
    pthread_cond_init(&env->read_ended, NULL);
    pthread_mutex_init(&env->older_mu, NULL);
    env->number = number;
    env->map_bytes = map_bytes;
    env->refs = 1;
    int rc = open_mdb(env, path);
    if (rc == MDB_SUCCESS)
        rc = set_up(env, scope);
    if (rc != MDB_SUCCESS) {
        env_close(env);
        return fault_of(rc);
    }
    MDB_stat stat;
    mdb_env_stat(env->mdb, &stat);
    env->page_bytes = stat.ms_psize;
    *out = env;
    return ENV_FAULT_NONE;
}

void env_close(struct env *env)
{
    if (env == NULL)
        return;
    for (unsigned i = 0; i < env->n_idle; i++)
        mdb_txn_abort(env->idle[i]);
    if (env->mdb != NULL)
        mdb_env_close(env->mdb);
    older_index_fini(&env->older.index);
    pthread_mutex_destroy(&env->read_mu);
    pthread_cond_destroy(&env->read_ended);
    pthread_mutex_destroy(&env->older_mu);
    free(env);
}

/* A transaction that waits; NULL: a new one may be made. */
static MDB_txn *take_idle(struct env *env)
{
    MDB_txn *txn = NULL;
    pthread_mutex_lock(&env->read_mu);
    while (env->n_idle == 0 && env->n_readers == ENV_READERS)
        pthread_cond_wait(&env->read_ended, &env->read_mu);
    if (env->n_idle > 0)
        txn = env->idle[--env->n_idle];
    else
        env->n_readers++;
    pthread_mutex_unlock(&env->read_mu);
    return txn;
}

/* `txn` is reset; NULL: it could not be made. */
static void put_idle(struct env *env, MDB_txn *txn)
{
    pthread_mutex_lock(&env->read_mu);
    if (txn != NULL)
        env->idle[env->n_idle++] = txn;
    else
        env->n_readers--;
    pthread_cond_signal(&env->read_ended);
    pthread_mutex_unlock(&env->read_mu);
}

enum belfry_err env_read_begin(struct env *env, MDB_txn **out)
{
    MDB_txn *txn = take_idle(env);
    int rc = txn != NULL ? mdb_txn_renew(txn) : mdb_txn_begin(env->mdb, NULL, MDB_RDONLY, &txn);
    if (rc != MDB_SUCCESS) {
        put_idle(env, txn);
        return env_err(rc);
    }
    *out = txn;
    return BELFRY_OK;
}

enum belfry_err env_read_renew(MDB_txn *txn)
{
    mdb_txn_reset(txn);
    return env_err(mdb_txn_renew(txn));
}

void env_read_end(struct env *env, MDB_txn *txn)
{
    mdb_txn_reset(txn);
    put_idle(env, txn);
}

bool env_now_read(uint64_t salt, MDB_val key, MDB_val row, struct env_now *out)
{
    uint64_t check, numbers[NOW_NUMBERS];
    if (!rowform_open(salt, ROWFORM_META, key, &row, &check) || row.mv_size != NOW_BYTES)
        return false;
    for (size_t i = 0; i < NOW_NUMBERS; i++)
        numbers[i] = rowform_get64((const uint8_t *)row.mv_data + 8 * i);
    *out = (struct env_now){.meta = {.cluster_id = numbers[0],
                                     .member_id = numbers[1],
                                     .raft_term = numbers[2],
                                     .revision = (int64_t)numbers[3],
                                     .oldest = (int64_t)numbers[4]},
                            .trimmed = numbers[NOW_NUMBERS - 2],
                            .newest = numbers[NOW_NUMBERS - 1]};
    for (size_t i = 0; i < ROWFORM_COUNTED; i++)
        out->tallies[i] = (struct env_tally){numbers[5 + 2 * i], numbers[6 + 2 * i]};
    return true;
}

int env_now_load(const struct env *env, MDB_txn *txn, struct env_now *out)
{
    MDB_val key = text_val("now"), row;
    int rc = mdb_get(txn, env->meta, &key, &row);
    if (rc != MDB_SUCCESS)
        return rc;
    return env_now_read(env->salt, key, row, out) ? MDB_SUCCESS : MDB_CORRUPTED;
}

int env_now_store(const struct env *env, MDB_txn *txn, const struct env_now *now)
{
    const struct store_meta *meta = &now->meta;
    uint64_t numbers[NOW_NUMBERS] = {meta->cluster_id, meta->member_id, meta->raft_term, (uint64_t)meta->revision,
                                     (uint64_t)meta->oldest};
    for (size_t i = 0; i < ROWFORM_COUNTED; i++) {
        numbers[5 + 2 * i] = now->tallies[i].rows;
        numbers[6 + 2 * i] = now->tallies[i].sum;
    }
    numbers[NOW_NUMBERS - 2] = now->trimmed;
    numbers[NOW_NUMBERS - 1] = now->newest;
    uint8_t row[NOW_BYTES];
    for (size_t i = 0; i < NOW_NUMBERS; i++)
        rowform_put64(row + 8 * i, numbers[i]);
    return put_meta(env, txn, env->salt, text_val("now"), belfry_bytes_of(row, NOW_BYTES));
}

static MDB_dbi dbi_of(const struct env *env, enum rowform_table table)
{
    const MDB_dbi all[] = {env->state, env->history, env->marks, env->extents, env->counts, env->meta};
    return all[table];
}

int env_row_put(const struct env *env, MDB_txn *txn, struct env_now *now, enum rowform_table table, MDB_val key,
                struct belfry_bytes value)
{
    uint8_t row[ENV_ROW_MAX + ROWFORM_CHECK];
    assert(value.len <= ENV_ROW_MAX);
    memcpy(row, value.data, value.len);
    uint64_t check = rowform_seal(env->salt, table, key, row, value.len);
    MDB_val val = {.mv_size = value.len + ROWFORM_CHECK, .mv_data = row};
    int rc = mdb_put(txn, dbi_of(env, table), &key, &val, MDB_NOOVERWRITE);
    if (rc == MDB_SUCCESS)
        env_tally_add(now, table, check);
    return rc;
}

int env_row_get(const struct env *env, MDB_txn *txn, enum rowform_table table, MDB_val key, MDB_val *out,
                uint64_t *check)
{
    int rc = mdb_get(txn, dbi_of(env, table), &key, out);
    if (rc != MDB_SUCCESS)
        return rc;
    return rowform_open(env->salt, table, key, out, check) ? MDB_SUCCESS : MDB_CORRUPTED;
}

size_t env_table_bytes(const struct env *env, MDB_txn *txn, MDB_dbi table)
{
    MDB_stat stat;
    if (mdb_stat(txn, table, &stat) != MDB_SUCCESS)
        return 0;
    return (stat.ms_branch_pages + stat.ms_leaf_pages + stat.ms_overflow_pages) * env->page_bytes;
}

size_t env_used_bytes(const struct env *env, MDB_txn *txn)
{
    const MDB_dbi tables[] = {env->state, env->history, env->marks, env->extents, env->counts, env->gone, env->meta};
    size_t bytes = 0;
    for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
        bytes += env_table_bytes(env, txn, tables[i]);
    return bytes;
}

size_t env_file_bytes(const struct env *env)
{
    MDB_envinfo info;
    return mdb_env_info(env->mdb, &info) == MDB_SUCCESS ? (info.me_last_pgno + 1) * env->page_bytes : 0;
}

size_t env_rows(MDB_txn *txn, MDB_dbi table)
{
    MDB_stat stat;
    return mdb_stat(txn, table, &stat) == MDB_SUCCESS ? stat.ms_entries : 0;
}
