/* tests/support/modelstore.c: tables are sorted arrays, history is a list of rows in order.
 *
 *     rows     | trimmed, not committed | what readers see       | applied, not committed |
 *              0                        trimmed                  committed_rows           n_rows
 *     tables   base: before rows[0]       committed               working
 *
 * A read at an older revision replays rows forward from `base`; the replica goes backward from what is newest, by
 * previous values: two ways to one answer, which the tests compare.
 */
#include "support/modelstore.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/blob.h"
#include "base/list.h"
#include "base/sim.h"

#define KEY_CUT      24 /* of the mutant long_key_cut: small, so that the simulator's keys reach it */
#define COMMITS_KEPT 3  /* how far back a lost page cache goes */

struct entry {
    struct belfry_blob *blob; /* one reference: the KeyValue, or the key of what is gone */
    struct belfry_bytes key;  /* inside of blob */
    int64_t mod_rev;
    bool gone; /* in a fresh copy: removed at mod_rev, which an older put must not undo */
};

struct table {
    struct entry *entries; /* by key */
    size_t n, cap;
};

struct row {
    struct batch *batch;    /* one reference; one event, with the KeyValue before */
    struct belfry_blob *kv; /* one reference; what the event put; NULL: a delete */
    struct belfry_bytes key;
    uint32_t sub;
};

struct mark {
    int64_t rev;
    uint64_t s;
};

struct marks {
    struct mark *at;
    size_t first, n, cap; /* [first, n) as the writer sees them */
};

struct modelstore {
    struct store store;
    struct modelstore_opts opts;
    bool open, building;         /* a transaction; a fresh copy */
    struct store_meta seen, now; /* committed; the writer's */
    struct row *rows;
    size_t n_rows, cap_rows, committed_rows, trimmed;
    struct table base, committed, working, fresh;
    struct marks marks;
    size_t committed_first_mark, committed_marks;
    int64_t commit_revs[COMMITS_KEPT]; /* revisions of the last commits, the newest last */
    int64_t earlier_oldest;            /* of the mutant oldest_from_earlier */
    unsigned fails;
    bool damaged;
};

static struct modelstore *model_of(const struct store *store)
{
    union {
        const struct store *in;
        struct store *out;
    } cast = {.in = store};
    return belfry_container(cast.out, struct modelstore, store);
}

static struct belfry_bytes table_key(struct belfry_bytes key)
{
    if (BELFRY_MUTANT(long_key_cut) && key.len > KEY_CUT)
        key.len = KEY_CUT;
    return key;
}

/* ---- tables ---- */

static enum belfry_err grow(void **array, size_t *cap, size_t need, size_t size)
{
    if (need <= *cap)
        return BELFRY_OK;
    size_t more = need > 2 * *cap ? need : 2 * *cap;
    void *moved = realloc(*array, more * size);
    if (moved == NULL)
        return BELFRY_ERR_NOMEM;
    *array = moved;
    *cap = more;
    return BELFRY_OK;
}

static enum belfry_err table_reserve(struct table *table, size_t more)
{
    void *array = table->entries;
    enum belfry_err err = grow(&array, &table->cap, table->n + more, sizeof(*table->entries));
    table->entries = array;
    return err;
}

static void table_fini(struct table *table)
{
    for (size_t i = 0; i < table->n; i++)
        belfry_blob_unref(table->entries[i].blob);
    free(table->entries);
    *table = (struct table){0};
}

/* The first entry that is not before `key`. */
static size_t table_seek(const struct table *table, struct belfry_bytes key)
{
    size_t low = 0, high = table->n;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (belfry_bytes_cmp(table->entries[mid].key, key) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static struct entry *table_find(const struct table *table, struct belfry_bytes key)
{
    size_t i = table_seek(table, key);
    return i < table->n && belfry_bytes_equal(table->entries[i].key, key) ? &table->entries[i] : NULL;
}

/* There is room: table_reserve(). Takes a reference of its own. */
static void table_set(struct table *table, const struct entry *entry)
{
    size_t i = table_seek(table, entry->key);
    struct belfry_blob *blob = belfry_blob_ref(entry->blob);
    if (i < table->n && belfry_bytes_equal(table->entries[i].key, entry->key)) {
        belfry_blob_unref(table->entries[i].blob);
    } else {
        assert(table->n < table->cap);
        memmove(&table->entries[i + 1], &table->entries[i], (table->n - i) * sizeof(*table->entries));
        table->n++;
    }
    table->entries[i] = *entry;
    table->entries[i].blob = blob;
}

static void table_unset(struct table *table, struct belfry_bytes key)
{
    struct entry *entry = table_find(table, key);
    if (entry == NULL)
        return;
    belfry_blob_unref(entry->blob);
    size_t behind = table->n - (size_t)(entry - table->entries) - 1;
    memmove(entry, entry + 1, behind * sizeof(*entry));
    table->n--;
}

static enum belfry_err table_copy(const struct table *from, struct table *out)
{
    struct table copy = {0};
    if (table_reserve(&copy, from->n) != BELFRY_OK)
        return BELFRY_ERR_NOMEM;
    for (size_t i = 0; i < from->n; i++) {
        copy.entries[i] = from->entries[i];
        belfry_blob_ref(copy.entries[i].blob);
    }
    copy.n = from->n;
    *out = copy;
    return BELFRY_OK;
}

/* ---- rows ---- */

static void row_fini(struct row *row)
{
    batch_unref(row->batch);
    belfry_blob_unref(row->kv);
}

static void row_replay(const struct row *row, struct table *table)
{
    if (row->kv == NULL)
        table_unset(table, row->key);
    else
        table_set(table, &(struct entry){.blob = row->kv, .key = row->key, .mod_rev = row->batch->rev});
}

static struct belfry_bytes row_event(const struct row *row)
{
    return batch_bytes(row->batch, &row->batch->events[0], false);
}

static struct belfry_bytes row_prev(const struct modelstore *model, const struct row *row)
{
    if (!BELFRY_MUTANT(prev_from_state))
        return batch_prev_kv(row->batch, &row->batch->events[0]);
    struct entry *entry = table_find(&model->committed, row->key);
    return entry == NULL ? (struct belfry_bytes){0} : belfry_blob_bytes(entry->blob);
}

static enum belfry_err row_make(int64_t rev, uint32_t sub, const struct belfry_wire_event *event,
                                struct belfry_bytes prev, struct row *out)
{
    struct row row = {.sub = sub};
    enum belfry_err err = batch_create(rev, BATCH_EVENTS, 1, batch_event_bytes(event, prev), &row.batch);
    if (err != BELFRY_OK)
        return err;
    batch_add(row.batch, event, prev);
    row.key = table_key(batch_key(row.batch, &row.batch->events[0]));
    if (!event->is_delete) {
        err = belfry_blob_copy(event->kv.raw, &row.kv);
        if (err != BELFRY_OK) {
            row_fini(&row);
            return err;
        }
        size_t at = (size_t)(event->kv.key.data - event->kv.raw.data);
        if (event->kv.key.len > 0) /* of the state's row, not of the batch, which may go first */
            row.key.data = belfry_blob_bytes(row.kv).data + at;
    }
    *out = row;
    return BELFRY_OK;
}

/* The state at `rev`, which is not below what `base` and the rows tell. */
static enum belfry_err state_at(const struct modelstore *model, int64_t rev, struct table *out)
{
    struct table table;
    if (table_copy(&model->base, &table) != BELFRY_OK)
        return BELFRY_ERR_NOMEM;
    for (size_t i = 0; i < model->committed_rows && model->rows[i].batch->rev <= rev; i++) {
        if (table_reserve(&table, 1) != BELFRY_OK) {
            table_fini(&table);
            return BELFRY_ERR_NOMEM;
        }
        row_replay(&model->rows[i], &table);
    }
    *out = table;
    return BELFRY_OK;
}

static size_t seek_row(const struct modelstore *model, int64_t rev, uint32_t sub)
{
    size_t low = 0, high = model->committed_rows;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        const struct row *row = &model->rows[mid];
        if (row->batch->rev < rev || (row->batch->rev == rev && row->sub < sub))
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* ---- the writer ---- */

static void model_meta(struct store *store, struct store_meta *out)
{
    *out = model_of(store)->now;
}

static void model_abort(struct store *store)
{
    struct modelstore *model = model_of(store);
    while (model->n_rows > model->committed_rows) {
        struct row *row = &model->rows[--model->n_rows];
        struct entry *was = table_find(&model->committed, row->key);
        if (was == NULL)
            table_unset(&model->working, row->key);
        else
            table_set(&model->working, was); /* there is room: the table was as large when the transaction began */
        row_fini(row);
    }
    model->trimmed = 0;
    model->marks.first = model->committed_first_mark;
    model->marks.n = model->committed_marks;
    model->now = model->seen;
    model->open = false;
}

/* Ends the transaction with `err`. */
static enum belfry_err ended(struct modelstore *model, enum belfry_err err)
{
    model_abort(&model->store);
    return err;
}

static bool fails(struct modelstore *model)
{
    if (model->fails == 0)
        return false;
    model->fails--;
    return true;
}

static enum belfry_err model_begin(struct store *store)
{
    struct modelstore *model = model_of(store);
    if (model->open)
        return BELFRY_ERR_INVALID;
    model->open = true;
    return BELFRY_OK;
}

static enum belfry_err model_get(struct store *store, struct belfry_bytes key, struct belfry_bytes *kv)
{
    struct modelstore *model = model_of(store);
    if (!model->open)
        return BELFRY_ERR_INVALID;
    struct entry *entry = table_find(&model->working, table_key(key));
    if (entry == NULL)
        return BELFRY_ERR_NOT_FOUND;
    *kv = belfry_blob_bytes(entry->blob);
    return BELFRY_OK;
}

static enum belfry_err add_row(struct modelstore *model, const struct row *row)
{
    void *array = model->rows;
    enum belfry_err err = grow(&array, &model->cap_rows, model->n_rows + 1, sizeof(*model->rows));
    model->rows = array;
    if (err == BELFRY_OK)
        model->rows[model->n_rows++] = *row;
    return err;
}

static bool in_order(const struct modelstore *model, int64_t rev, uint32_t sub)
{
    if (rev <= model->now.revision)
        return false;
    const struct row *last = model->n_rows > 0 ? &model->rows[model->n_rows - 1] : NULL;
    return last == NULL || last->batch->rev < rev || (last->batch->rev == rev && last->sub < sub);
}

static enum belfry_err model_apply(struct store *store, int64_t rev, uint32_t sub,
                                   const struct belfry_wire_event *event, const struct belfry_bytes *known,
                                   struct belfry_bytes *prev)
{
    struct modelstore *model = model_of(store);
    if (!model->open || event->kv.key.len == 0 || !in_order(model, rev, sub))
        return BELFRY_ERR_INVALID;
    if (fails(model))
        return ended(model, BELFRY_ERR_IO);
    struct entry *entry = table_find(&model->working, table_key(event->kv.key));
    struct belfry_bytes before = entry == NULL ? (struct belfry_bytes){0} : belfry_blob_bytes(entry->blob);
    struct row row;
    enum belfry_err err = table_reserve(&model->working, 1);
    if (err == BELFRY_OK)
        err = row_make(rev, sub, event, known != NULL ? *known : before, &row);
    if (err != BELFRY_OK)
        return ended(model, err);
    err = add_row(model, &row);
    if (err != BELFRY_OK) {
        row_fini(&row);
        return ended(model, err);
    }
    row_replay(&row, &model->working);
    *prev = batch_prev_kv(row.batch, &row.batch->events[0]);
    return BELFRY_OK;
}

static void set_ids(struct store_meta *meta, int64_t rev, const struct belfry_wire_header *header)
{
    meta->revision = rev;
    meta->cluster_id = header->cluster_id;
    meta->member_id = header->member_id;
    meta->raft_term = header->raft_term;
}

static enum belfry_err model_advance(struct store *store, int64_t rev, const struct belfry_wire_header *header)
{
    struct modelstore *model = model_of(store);
    if (!model->open || rev < model->now.revision)
        return BELFRY_ERR_INVALID;
    if (fails(model))
        return ended(model, BELFRY_ERR_IO);
    set_ids(&model->now, rev, header);
    return BELFRY_OK;
}

/* Notes once a second which revision is the newest then. */
static enum belfry_err add_mark(struct modelstore *model, uint64_t now_s)
{
    struct marks *marks = &model->marks;
    if (marks->n > marks->first && marks->at[marks->n - 1].s > now_s)
        marks->first = marks->n; /* of another boot's clock */
    const struct mark *last = marks->n > marks->first ? &marks->at[marks->n - 1] : NULL;
    if (last != NULL && (last->s == now_s || last->rev == model->now.revision))
        return BELFRY_OK;
    void *array = marks->at;
    enum belfry_err err = grow(&array, &marks->cap, marks->n + 1, sizeof(*marks->at));
    marks->at = array;
    if (err == BELFRY_OK)
        marks->at[marks->n++] = (struct mark){model->now.revision, now_s};
    return err;
}

/* The newest revision that is over age. Marks that only tell of what is gone are dropped. */
static int64_t aged(struct modelstore *model, uint64_t now_s)
{
    int64_t rev = 0;
    for (size_t i = model->marks.first; i < model->marks.n; i++) {
        if (now_s - model->marks.at[i].s <= model->opts.history_age_s)
            break;
        rev = model->marks.at[i].rev;
        if (rev < model->now.oldest - 1)
            model->marks.first = i + 1;
    }
    return rev;
}

static enum belfry_err model_trim(struct store *store, uint64_t now_s, size_t max_rows, size_t *n)
{
    struct modelstore *model = model_of(store);
    if (!model->open)
        return BELFRY_ERR_INVALID;
    if (fails(model))
        return ended(model, BELFRY_ERR_IO);
    enum belfry_err err = add_mark(model, now_s);
    if (err != BELFRY_OK)
        return ended(model, err);
    int64_t old = aged(model, now_s), oldest = model->now.oldest;
    size_t removed = 0;
    while (removed < max_rows && model->trimmed < model->n_rows) {
        int64_t rev = model->rows[model->trimmed].batch->rev;
        bool over = rev <= old || model->n_rows - model->trimmed > model->opts.history_rows;
        if (rev >= oldest && (!over || rev == model->rows[model->n_rows - 1].batch->rev))
            break; /* the newest revision stays: it shows whether upstream's past is still ours */
        if (rev >= oldest)
            oldest = rev + 1; /* a revision that is begun is gone for readers, whole */
        model->trimmed++;
        removed++;
    }
    if (!BELFRY_MUTANT(oldest_not_moved))
        model->now.oldest = oldest;
    *n = removed;
    return BELFRY_OK;
}

/* Moves the rows that were trimmed into `base`. */
static void drop_trimmed(struct modelstore *model)
{
    for (size_t i = 0; i < model->trimmed; i++) {
        row_replay(&model->rows[i], &model->base);
        row_fini(&model->rows[i]);
    }
    model->n_rows -= model->trimmed;
    if (model->trimmed > 0)
        memmove(model->rows, model->rows + model->trimmed, model->n_rows * sizeof(*model->rows));
    model->trimmed = 0;
}

static void drop_marks(struct modelstore *model)
{
    struct marks *marks = &model->marks;
    marks->n -= marks->first;
    if (marks->first > 0)
        memmove(marks->at, marks->at + marks->first, marks->n * sizeof(*marks->at));
    marks->first = 0;
    model->committed_first_mark = 0;
    model->committed_marks = marks->n;
}

static void publish(struct modelstore *model)
{
    memmove(model->commit_revs, model->commit_revs + 1, sizeof(model->commit_revs) - sizeof(model->commit_revs[0]));
    model->commit_revs[COMMITS_KEPT - 1] = model->now.revision;
    model->seen = model->now;
    model->committed_rows = model->n_rows;
    model->open = false;
}

static enum belfry_err model_commit(struct store *store)
{
    struct modelstore *model = model_of(store);
    bool half = model->n_rows > 0 && model->rows[model->n_rows - 1].batch->rev > model->now.revision;
    if (!model->open || half)
        return ended(model, BELFRY_ERR_INVALID);
    if (fails(model))
        return ended(model, BELFRY_ERR_IO);
    if (table_reserve(&model->committed, model->n_rows - model->committed_rows) != BELFRY_OK ||
        table_reserve(&model->base, model->trimmed) != BELFRY_OK)
        return ended(model, BELFRY_ERR_NOMEM);
    for (size_t i = model->committed_rows; i < model->n_rows; i++)
        row_replay(&model->rows[i], &model->committed);
    drop_trimmed(model);
    drop_marks(model);
    publish(model);
    return BELFRY_OK;
}

/* ---- a fresh copy ---- */

static enum belfry_err model_fresh(struct store *store)
{
    struct modelstore *model = model_of(store);
    table_fini(&model->fresh);
    model->building = true;
    return BELFRY_OK;
}

static enum belfry_err fresh_set(struct modelstore *model, struct belfry_bytes bytes, struct belfry_bytes key,
                                 int64_t rev, bool gone)
{
    if (!model->building)
        return BELFRY_ERR_INVALID;
    const struct entry *there = table_find(&model->fresh, table_key(key));
    if (there != NULL && there->mod_rev > rev)
        return BELFRY_OK;
    struct entry entry = {.mod_rev = rev, .gone = gone};
    enum belfry_err err = belfry_blob_copy(bytes, &entry.blob);
    if (err != BELFRY_OK)
        return err;
    size_t at = key.len > 0 ? (size_t)(key.data - bytes.data) : 0;
    entry.key = table_key(belfry_bytes_of(belfry_blob_bytes(entry.blob).data + at, key.len));
    err = table_reserve(&model->fresh, 1);
    if (err == BELFRY_OK)
        table_set(&model->fresh, &entry);
    belfry_blob_unref(entry.blob);
    return err;
}

static enum belfry_err model_put(struct store *store, const struct belfry_wire_kv *kv)
{
    struct modelstore *model = model_of(store);
    if (fails(model))
        return BELFRY_ERR_IO;
    return fresh_set(model, kv->raw, kv->key, kv->mod_rev, false);
}

static enum belfry_err model_remove(struct store *store, struct belfry_bytes key, int64_t rev)
{
    return fresh_set(model_of(store), key, key, rev, true);
}

static void drop_gone(struct table *table)
{
    size_t kept = 0;
    for (size_t i = 0; i < table->n; i++) {
        if (table->entries[i].gone)
            belfry_blob_unref(table->entries[i].blob);
        else
            table->entries[kept++] = table->entries[i];
    }
    table->n = kept;
}

static void drop_content(struct modelstore *model)
{
    for (size_t i = 0; i < model->n_rows; i++)
        row_fini(&model->rows[i]);
    model->n_rows = model->committed_rows = 0;
    model->marks.first = model->marks.n = 0;
    drop_marks(model);
    table_fini(&model->base);
    table_fini(&model->committed);
    table_fini(&model->working);
}

static enum belfry_err model_adopt(struct store *store, int64_t rev, const struct belfry_wire_header *header,
                                   uint64_t past)
{
    struct modelstore *model = model_of(store);
    struct table base = {0}, working = {0};
    if (!model->building)
        return BELFRY_ERR_INVALID;
    drop_gone(&model->fresh);
    if (table_copy(&model->fresh, &base) != BELFRY_OK || table_copy(&model->fresh, &working) != BELFRY_OK) {
        table_fini(&base);
        return BELFRY_ERR_NOMEM;
    }
    model_abort(store);
    drop_content(model);
    model->base = base;
    model->working = working;
    model->committed = model->fresh;
    model->fresh = (struct table){0};
    model->building = model->damaged = false;
    model->now = (struct store_meta){.oldest = rev + 1, .past = past};
    set_ids(&model->now, rev, header);
    publish(model);
    return BELFRY_OK;
}

static void model_set_past(struct store *store, uint64_t past)
{
    struct modelstore *model = model_of(store);
    model->now.past = model->seen.past = past;
}

/* ---- the reader ---- */

static void model_snapshot(struct store *store, struct store_meta *out)
{
    struct modelstore *model = model_of(store);
    *out = model->seen;
    model->earlier_oldest = model->seen.oldest;
}

/* Is `rev` of `past` there to be read? */
static enum belfry_err check_window(struct modelstore *model, uint64_t past, int64_t rev, int64_t *oldest)
{
    if (past != model->seen.past)
        return BELFRY_ERR_CANCELED;
    int64_t begins = model->seen.oldest;
    if (BELFRY_MUTANT(oldest_from_earlier)) {
        begins = model->earlier_oldest < begins ? model->earlier_oldest : begins;
        model->earlier_oldest = model->seen.oldest;
    }
    *oldest = begins;
    if (rev > model->seen.revision)
        return BELFRY_ERR_AGAIN;
    return rev < begins ? BELFRY_ERR_NOT_FOUND : BELFRY_OK;
}

static size_t row_bytes(const struct modelstore *model, const struct row *row)
{
    return batch_stored_bytes(row_event(row).len, row_prev(model, row).len);
}

/* A batch of rows[at, end). */
static enum belfry_err make_batch(const struct modelstore *model, size_t at, size_t end, enum batch_kind kind,
                                  struct batch **out)
{
    size_t bytes = 0;
    for (size_t i = at; i < end; i++)
        bytes += row_bytes(model, &model->rows[i]);
    bool extent = kind == BATCH_EVENTS && bytes > model->opts.extent_bytes;
    struct batch *batch;
    enum belfry_err err = batch_create(model->rows[at].batch->rev, extent ? BATCH_EXTENT : kind,
                                       extent ? 0 : (uint32_t)(end - at), extent ? 0 : bytes, &batch);
    if (err != BELFRY_OK)
        return err;
    for (size_t i = at; i < end && !extent; i++) {
        const struct row *row = &model->rows[i];
        batch_add_stored(batch, row_event(row), row_prev(model, row), batch_key(row->batch, &row->batch->events[0]),
                         row->batch->events[0].is_delete);
    }
    if (extent)
        batch_set_extent(batch, end - at, bytes);
    *out = batch;
    return BELFRY_OK;
}

static size_t revision_end(const struct modelstore *model, size_t at)
{
    size_t end = at + 1;
    while (end < model->committed_rows && model->rows[end].batch->rev == model->rows[at].batch->rev)
        end++;
    return end;
}

static enum belfry_err model_history(struct store *store, uint64_t past, int64_t from, size_t max_bytes,
                                     struct segment **out, int64_t *oldest)
{
    struct modelstore *model = model_of(store);
    enum belfry_err err = check_window(model, past, from, oldest);
    if (err != BELFRY_OK || model->damaged)
        return err != BELFRY_OK ? err : BELFRY_ERR_IO;
    struct segment_builder builder;
    segment_begin(&builder);
    size_t at = seek_row(model, from, 0);
    int64_t upto = model->seen.revision;
    while (at < model->committed_rows) {
        size_t end = revision_end(model, at);
        struct batch *batch;
        err = make_batch(model, at, end, BATCH_EVENTS, &batch);
        if (err == BELFRY_OK)
            err = segment_add(&builder, batch);
        if (err != BELFRY_OK)
            goto fail;
        if (builder.bytes >= max_bytes && end < model->committed_rows) {
            upto = model->rows[at].batch->rev;
            break;
        }
        at = end;
    }
    return segment_finish(&builder, past, from, upto, out);

fail:
    segment_abort(&builder);
    return err;
}

static enum belfry_err model_slice(struct store *store, uint64_t past, int64_t rev, uint32_t sub, size_t max_bytes,
                                   struct segment **out, int64_t *oldest)
{
    struct modelstore *model = model_of(store);
    enum belfry_err err = check_window(model, past, rev, oldest);
    if (err != BELFRY_OK || model->damaged)
        return err != BELFRY_OK ? err : BELFRY_ERR_IO;
    size_t at = seek_row(model, rev, sub);
    if (at == model->committed_rows || model->rows[at].batch->rev != rev)
        return BELFRY_ERR_INVALID;
    size_t end = at, whole = revision_end(model, at), bytes = 0;
    while (end < whole && (end == at || bytes + row_bytes(model, &model->rows[end]) <= max_bytes))
        bytes += row_bytes(model, &model->rows[end++]);
    struct batch *batch;
    err = make_batch(model, at, end, BATCH_SLICE, &batch);
    if (err != BELFRY_OK)
        return err;
    batch_set_slice(batch, model->rows[at].sub, end < whole);
    struct segment_builder builder;
    segment_begin(&builder);
    err = segment_add(&builder, batch);
    if (err == BELFRY_OK)
        return segment_finish(&builder, past, rev, rev, out);
    segment_abort(&builder);
    return err;
}

static uint64_t count_range(const struct table *table, const struct store_read *read)
{
    size_t from = table_seek(table, read->key), end = read->end.len > 0 ? table_seek(table, read->end) : table->n;
    return from < end ? end - from : 0;
}

static void give_rows(const struct table *table, const struct store_read *read, store_row_fn row, void *user,
                      struct store_page *out)
{
    size_t rows = 0, bytes = 0;
    bool full = false;
    for (size_t i = table_seek(table, read->key); i < table->n; i++) {
        const struct entry *entry = &table->entries[i];
        if (read->end.len > 0 && belfry_bytes_cmp(entry->key, read->end) >= 0)
            return;
        struct belfry_bytes kv = belfry_blob_bytes(entry->blob);
        full = full || (rows > 0 && (rows >= read->max_rows || bytes + kv.len > read->max_bytes));
        if (full) {
            out->more = true;
            return;
        }
        rows++;
        bytes += kv.len;
        full = !row(entry->key, kv, user);
    }
}

struct store_view {
    struct store_meta seen;
};

static enum belfry_err model_view_begin(struct store *store, struct store_view **out, struct store_meta *meta)
{
    struct store_view *view = calloc(1, sizeof(*view));
    if (view == NULL)
        return BELFRY_ERR_NOMEM;
    *meta = view->seen = model_of(store)->seen;
    *out = view;
    return BELFRY_OK;
}

static void model_view_end(struct store *store, struct store_view *view)
{
    (void)store;
    free(view);
}

static enum belfry_err model_range(struct store *store, const struct store_read *read, store_row_fn row, void *user,
                                   struct store_page *out)
{
    struct modelstore *model = model_of(store);
    struct store_meta seen = read->view != NULL ? read->view->seen : model->seen;
    int64_t rev = read->rev == 0 ? seen.revision : read->rev;
    if (rev > seen.revision)
        return BELFRY_ERR_AGAIN;
    assert(seen.past == model->seen.past); /* a view of what was replaced is the replica's alone */
    if (rev < model->seen.oldest - 1)
        return BELFRY_ERR_COMPACTED;
    if (model->damaged)
        return BELFRY_ERR_IO;
    struct table older = {0};
    if (rev < model->seen.revision && state_at(model, rev, &older) != BELFRY_OK)
        return BELFRY_ERR_NOMEM;
    *out = (struct store_page){.meta = seen, .at = rev};
    const struct table *table = rev < model->seen.revision ? &older : &model->committed;
    if (read->counted)
        out->count = count_range(table, read);
    if (!read->counted || read->max_rows > 0)
        give_rows(table, read, row, user, out);
    table_fini(&older);
    return BELFRY_OK;
}

static bool model_damaged(struct store *store)
{
    return model_of(store)->damaged;
}

static const struct store_api api = {
    .meta = model_meta,
    .begin = model_begin,
    .get = model_get,
    .apply = model_apply,
    .advance = model_advance,
    .trim = model_trim,
    .commit = model_commit,
    .abort = model_abort,
    .fresh = model_fresh,
    .put = model_put,
    .remove = model_remove,
    .adopt = model_adopt,
    .set_past = model_set_past,
    .snapshot = model_snapshot,
    .history = model_history,
    .slice = model_slice,
    .range = model_range,
    .view_begin = model_view_begin,
    .view_end = model_view_end,
    .damaged = model_damaged,
};

/* ---- the store itself ---- */

struct store *modelstore_create(const struct modelstore_opts *opts)
{
    struct modelstore *model = calloc(1, sizeof(*model));
    if (model == NULL)
        abort();
    model->store.api = &api;
    model->opts = *opts;
    model->now.oldest = model->seen.oldest = 1;
    return &model->store;
}

void modelstore_destroy(struct store *store)
{
    if (store == NULL)
        return;
    struct modelstore *model = model_of(store);
    model_abort(store);
    drop_content(model);
    table_fini(&model->fresh);
    free(model->rows);
    free(model->marks.at);
    free(model);
}

void modelstore_fail(struct store *store, unsigned n)
{
    model_of(store)->fails = n;
}

void modelstore_damage(struct store *store)
{
    model_of(store)->damaged = true;
}

/* What is damaged does not pass the audit of the next open. */
static void discard_damaged(struct modelstore *model)
{
    if (!model->damaged)
        return;
    drop_content(model);
    model->now = model->seen = (struct store_meta){.oldest = 1};
    model->damaged = false;
}

void modelstore_crash(struct store *store)
{
    struct modelstore *model = model_of(store);
    model_abort(store);
    discard_damaged(model);
    table_fini(&model->fresh);
    model->building = false;
    model_set_past(store, 0);
    model->earlier_oldest = model->seen.oldest;
}

/* What an unsynced tree looks like after a power loss: pages of an older commit under the newest meta. */
static void mix_commits(struct modelstore *model)
{
    struct table older, working;
    int64_t rev = model->commit_revs[0] < model->seen.oldest ? model->seen.oldest - 1 : model->commit_revs[0];
    if (state_at(model, rev, &older) != BELFRY_OK || table_copy(&older, &working) != BELFRY_OK)
        abort();
    table_fini(&model->committed);
    table_fini(&model->working);
    model->committed = older;
    model->working = working;
}

void modelstore_lose_page_cache(struct store *store)
{
    struct modelstore *model = model_of(store);
    modelstore_crash(store);
    if (BELFRY_MUTANT(marker_ignored)) {
        mix_commits(model);
        return;
    }
    drop_content(model);
    model->now = model->seen = (struct store_meta){.oldest = 1};
}

size_t modelstore_rows(const struct store *store)
{
    return model_of(store)->committed_rows;
}
