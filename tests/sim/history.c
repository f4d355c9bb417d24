/* tests/sim/history.c */
#include "sim/history.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/cover.h"
#include "wire/write.h"

#define VALUE_MAX  (16 * 1024)
#define KEY_MAX    2048
#define LEASES_MAX 4
#define HUGE_BYTES 4096

/* The versions of one key in one past, oldest first. */
struct versions {
    const struct history_event **at; /* owned; the events are their revisions' */
    size_t n, cap;
};

struct past {
    unsigned parent;
    int64_t fork, head;
    struct history_revision **revs; /* owned; revs[rev - 2]; shared with other pasts up to a fork */
    size_t cap;
    struct versions keys[HISTORY_KEYS_MAX];
    struct history_compaction *compactions; /* owned */
    size_t n_compactions, cap_compactions;
};

struct history {
    struct history_opts opts;
    struct belfry_bytes keys[HISTORY_KEYS_MAX]; /* owned; in key order */
    unsigned n_keys;
    struct past pasts[HISTORY_PASTS_MAX];
    unsigned n_pasts;
    int64_t used; /* the highest revision of an older past: numbers up to here are written anew */
    int64_t leases[LEASES_MAX], last_lease;
    char range_end[KEY_MAX];
    struct history_counts counts;
};

/* One operation of a revision that is being written. */
struct op {
    unsigned key;
    bool is_delete;
    int64_t lease;
    size_t value_len;
};

struct ops {
    struct op at[HISTORY_KEYS_MAX];
    size_t n;
    uint64_t keys; /* of all of them: a key is written once a revision, but for add_delete_from() */
};

static void *grow(void *array, size_t n, size_t *cap, size_t size)
{
    if (n < *cap)
        return array;
    *cap = *cap == 0 ? 16 : *cap * 2;
    array = realloc(array, *cap * size);
    if (array == NULL)
        abort();
    return array;
}

static struct past *newest(struct history *history)
{
    return &history->pasts[history->n_pasts - 1];
}

/* ---- keys ---- */

static void add_key(struct history *history, const char *data, size_t len)
{
    char *copy = malloc(len);
    if (copy == NULL || history->n_keys == HISTORY_KEYS_MAX)
        abort();
    memcpy(copy, data, len);
    history->keys[history->n_keys++] = belfry_bytes_of(copy, len);
}

/* `head`, then 'l' up to `len` bytes, the last one `last`. */
static void add_long_key(struct history *history, const char *head, size_t len, char last)
{
    char key[KEY_MAX];
    assert(len < sizeof(key));
    memset(key, 'l', len);
    memcpy(key, head, strlen(head));
    key[len - 1] = last;
    add_key(history, key, len);
}

static int by_key(const void *a, const void *b)
{
    return belfry_bytes_cmp(*(const struct belfry_bytes *)a, *(const struct belfry_bytes *)b);
}

static void make_keys(struct history *history)
{
    static const char *const names[] = {
        "a",   "a/",    "a/b",   "a/b/", "a/b/c",   "a/b/c/d", "a/b/d", "a/c",  "a/d/e", "a0",   "b/0",
        "b/1", "b/1/x", "b/1/y", "b/2",  "b/3",     "b/4",     "b/5",   "b/6",  "b/7",   "b/8",  "b/9",
        "c",   "c/x",   "c/y",   "c/z",  "n/1/p/1", "n/1/p",   "n/2/p", "n/2q", "zz",    "\xff", "\xff\xff"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        add_key(history, names[i], strlen(names[i]));
    add_key(history, "\0", 1);
    add_key(history, "c\0x", 3);
    add_long_key(history, "L/", 480, '0');
    add_long_key(history, "L/", 481, '0');
    add_long_key(history, "L/", 600, '1'); /* these two agree in their first 480 bytes and beyond */
    add_long_key(history, "L/", 600, '2');
    add_long_key(history, "M/", 511, 'x');
    add_long_key(history, "M/", 1500, 'x');
    qsort(history->keys, history->n_keys, sizeof(history->keys[0]), by_key);
}

unsigned history_keys(const struct history *history)
{
    return history->n_keys;
}

struct belfry_bytes history_key(const struct history *history, unsigned key)
{
    assert(key < history->n_keys);
    return history->keys[key];
}

int history_key_find(const struct history *history, struct belfry_bytes key)
{
    unsigned low = 0, high = history->n_keys;
    while (low < high) {
        unsigned mid = (low + high) / 2;
        int order = belfry_bytes_cmp(history->keys[mid], key);
        if (order == 0)
            return (int)mid;
        if (order < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return -1;
}

/* ---- ranges ---- */

static bool is_zero(struct belfry_bytes bytes)
{
    return bytes.len == 1 && bytes.data[0] == '\0';
}

static struct belfry_bytes real_key(struct belfry_bytes key)
{
    return key.len == 0 ? belfry_bytes_of("\0", 1) : key;
}

bool history_range_is_empty(struct belfry_bytes key, struct belfry_bytes range_end)
{
    return range_end.len > 0 && !is_zero(range_end) && belfry_bytes_cmp(real_key(key), range_end) >= 0;
}

uint64_t history_range_keys(const struct history *history, struct belfry_bytes key, struct belfry_bytes range_end)
{
    struct belfry_bytes from = real_key(key);
    uint64_t keys = 0;
    for (unsigned i = 0; i < history->n_keys; i++) {
        int order = belfry_bytes_cmp(history->keys[i], from);
        bool in = range_end.len == 0
                      ? order == 0
                      : order >= 0 && (is_zero(range_end) || belfry_bytes_cmp(history->keys[i], range_end) < 0);
        keys |= (uint64_t)in << i;
    }
    return keys;
}

static struct belfry_bytes end_of_prefix(struct history *history, struct belfry_bytes prefix)
{
    size_t len = prefix.len;
    while (len > 0 && (unsigned char)prefix.data[len - 1] == 0xff)
        len--;
    if (len == 0)
        return belfry_bytes_of("\0", 1);
    assert(len <= sizeof(history->range_end));
    memcpy(history->range_end, prefix.data, len);
    history->range_end[len - 1]++;
    return belfry_bytes_of(history->range_end, len);
}

static struct belfry_bytes any_key(const struct history *history, struct belfry_rng *rng)
{
    return history->keys[belfry_rng_below(rng, history->n_keys)];
}

void history_pick_range(struct history *history, struct belfry_rng *rng, struct belfry_bytes *key,
                        struct belfry_bytes *range_end)
{
    *key = any_key(history, rng);
    *range_end = belfry_bytes_of(NULL, 0);
    switch (belfry_rng_below(rng, 14)) {
    case 0: /* everything */
    case 1:
        *key = belfry_bytes_of("\0", belfry_rng_below(rng, 2));
        *range_end = belfry_bytes_of("\0", 1);
        break;
    case 2: /* from a key on */
        *range_end = belfry_bytes_of("\0", 1);
        break;
    case 3: /* from one key to another */
        *range_end = any_key(history, rng);
        if (history_range_is_empty(*key, *range_end))
            *range_end = end_of_prefix(history, *key);
        break;
    case 4: /* never written */
        *key = belfry_bytes_str("nowhere/");
        *range_end = end_of_prefix(history, *key);
        break;
    case 5:
    case 6:
    case 7:
    case 8:
    case 9: /* what begins as some key does; of a long one, by nearly all of it */
        key->len =
            key->len > 400 && belfry_rng_below(rng, 2) ? 480 : 1 + belfry_rng_below(rng, key->len < 6 ? key->len : 6);
        *range_end = end_of_prefix(history, *key);
        break;
    default:
        break;
    }
}

/* ---- one revision ---- */

static struct belfry_bytes make_value(char *to, unsigned past, int64_t rev, uint32_t sub, size_t len)
{
    char mark[64];
    int n = snprintf(mark, sizeof(mark), "p%u.r%lld.s%u.", past, (long long)rev, sub);
    for (size_t i = 0; i < len; i++)
        to[i] = i < (size_t)n ? mark[i] : (char)('a' + ((size_t)rev + sub + i) % 26);
    return belfry_bytes_of(to, len);
}

static struct belfry_wire_kv scanned(const struct history_event *event)
{
    struct belfry_wire_kv kv;
    if (belfry_scan_kv(event->kv, &kv) != BELFRY_OK)
        abort();
    return kv;
}

/* Writes all encodings of an event into one run of bytes. */
static void encode(struct history_event *event, struct belfry_bytes key, struct belfry_bytes value)
{
    struct belfry_wire_event wire = {.is_delete = event->is_delete,
                                     .kv = {.key = key,
                                            .value = value,
                                            .create_rev = event->create_rev,
                                            .mod_rev = event->rev,
                                            .version = event->version,
                                            .lease = event->lease}};
    size_t kv_len = belfry_write_kv_size(&wire.kv);
    size_t raw_len = belfry_write_event_size(&wire);
    if (event->prev != NULL) {
        wire.has_prev = true;
        wire.prev = scanned(event->prev);
    }
    size_t len = belfry_write_event_size(&wire);
    uint8_t *to = malloc(len);
    if (to == NULL)
        abort();
    belfry_write_event(&wire, to);
    event->raw_prev = belfry_bytes_of(to, len);
    event->raw = belfry_bytes_of(to, raw_len);
    event->kv = belfry_bytes_of(to + raw_len - kv_len, kv_len);
}

static const struct history_event *holds(const struct past *past, unsigned key)
{
    const struct versions *versions = &past->keys[key];
    if (versions->n == 0 || versions->at[versions->n - 1]->is_delete)
        return NULL;
    return versions->at[versions->n - 1];
}

static void make_event(struct history *history, struct history_event *event, const struct op *op)
{
    struct past *past = newest(history);
    const struct history_event *found = holds(past, op->key);
    char value[VALUE_MAX];
    assert(op->value_len <= sizeof(value));
    event->key = op->key;
    event->is_delete = op->is_delete;
    if (found != NULL)
        event->prev = history_state(history, history->n_pasts - 1, event->rev - 1, op->key);
    assert(!op->is_delete || found != NULL);
    if (!op->is_delete) {
        event->create_rev = found == NULL ? event->rev : found->create_rev;
        event->version = found == NULL ? 1 : found->version + 1;
        event->lease = op->lease;
    }
    encode(event, history->keys[op->key],
           make_value(value, history->n_pasts - 1, event->rev, event->sub, op->is_delete ? 0 : op->value_len));
}

static void publish_event(struct past *past, struct history_revision *revision, const struct history_event *event)
{
    struct versions *versions = &past->keys[event->key];
    versions->at = grow(versions->at, versions->n, &versions->cap, sizeof(*versions->at));
    versions->at[versions->n++] = event;
    revision->bytes += event->raw.len;
    if (event->is_delete)
        revision->deleted_keys |= (uint64_t)1 << event->key;
    else
        revision->put_keys |= (uint64_t)1 << event->key;
}

/* ---- digests ---- */

static bool read_event(struct belfry_bytes raw, struct belfry_event *to)
{
    struct belfry_wire_event from;
    if (belfry_scan_event(raw, &from) != BELFRY_OK)
        return false;
    *to = (struct belfry_event){.op = from.is_delete ? BELFRY_DELETE : BELFRY_PUT,
                                .key = from.kv.key,
                                .value = from.kv.value,
                                .create_rev = from.kv.create_rev,
                                .mod_rev = from.kv.mod_rev,
                                .version = from.kv.version,
                                .lease = from.kv.lease};
    if (!from.has_prev)
        return true;
    to->prev = from.prev.value.data != NULL ? from.prev.value : belfry_bytes_of("", 0);
    to->prev_create_rev = from.prev.create_rev;
    to->prev_mod_rev = from.prev.mod_rev;
    to->prev_version = from.prev.version;
    to->prev_lease = from.prev.lease;
    return true;
}

struct events {
    const struct belfry_event *at;
    size_t n;
};

static const struct belfry_event *next_event(const void *source, const struct belfry_event *after)
{
    const struct events *events = source;
    const struct belfry_event *next = after == NULL ? events->at : after + 1;
    return next < events->at + events->n ? next : NULL;
}

struct judge_rev *history_digest(int64_t rev, const struct belfry_bytes *raw, size_t n)
{
    struct belfry_event *events = calloc(n, sizeof(*events));
    struct judge_rev *digest = NULL;
    bool readable = true;
    if (events == NULL)
        abort();
    for (size_t i = 0; i < n; i++)
        readable = readable && read_event(raw[i], &events[i]);
    if (readable && judge_rev_create(rev, 0, next_event, &(struct events){events, n}, &digest) != BELFRY_OK)
        abort();
    free(events);
    return digest;
}

static struct judge_rev *digest_of(const struct history_revision *revision)
{
    struct belfry_bytes *raw = calloc(revision->n, sizeof(*raw));
    if (raw == NULL)
        abort();
    for (size_t i = 0; i < revision->n; i++)
        raw[i] = revision->events[i].raw_prev;
    struct judge_rev *digest = history_digest(revision->rev, raw, revision->n);
    free(raw);
    return digest;
}

static const struct history_revision *commit(struct history *history, const struct ops *ops)
{
    struct past *past = newest(history);
    struct history_revision *revision = calloc(1, sizeof(*revision));
    if (revision == NULL || (revision->events = calloc(ops->n, sizeof(revision->events[0]))) == NULL)
        abort();
    revision->rev = ++past->head;
    revision->past = history->n_pasts - 1;
    revision->n = ops->n;
    for (size_t i = 0; i < ops->n; i++) {
        struct history_event *event = &revision->events[i];
        event->rev = revision->rev;
        event->sub = (uint32_t)i;
        make_event(history, event, &ops->at[i]);
        publish_event(past, revision, event);
        history->counts.puts += !event->is_delete;
        history->counts.deletes += event->is_delete;
        history->counts.long_keys += history->keys[event->key].len > 480;
    }
    revision->digest = digest_of(revision);
    size_t at = (size_t)(revision->rev - HISTORY_EMPTY_REV - 1);
    past->revs = grow(past->revs, at, &past->cap, sizeof(past->revs[0]));
    past->revs[at] = revision;
    history->counts.revisions++;
    history->counts.events += ops->n;
    return revision;
}

/* ---- what is written ---- */

/* Numbers that another past has used are written anew: those revisions must be told apart. */
static bool must_differ(struct history *history)
{
    return newest(history)->head < history->used;
}

static void add_op(struct ops *ops, struct op op)
{
    if (ops->n == HISTORY_KEYS_MAX || ops->keys & (uint64_t)1 << op.key)
        return;
    ops->keys |= (uint64_t)1 << op.key;
    ops->at[ops->n++] = op;
}

/* Is the key there after these operations? */
static bool is_there(struct history *history, const struct ops *ops, unsigned key)
{
    for (size_t i = ops->n; i-- > 0;) {
        if (ops->at[i].key == key)
            return !ops->at[i].is_delete;
    }
    return holds(newest(history), key) != NULL;
}

static void add_delete(struct history *history, struct ops *ops, unsigned key)
{
    if (is_there(history, ops, key))
        add_op(ops, (struct op){.key = key, .is_delete = true});
}

static size_t any_size(const struct history *history, struct belfry_rng *rng)
{
    if (belfry_rng_below(rng, 12) == 0)
        return 0;
    if (history->opts.big_values && belfry_rng_below(rng, 24) == 0)
        return 1000 + belfry_rng_below(rng, 3000);
    return 1 + belfry_rng_below(rng, belfry_rng_below(rng, 4) == 0 ? 200 : 40);
}

static int64_t any_lease(struct history *history, struct belfry_rng *rng)
{
    if (belfry_rng_below(rng, 4) != 0)
        return 0;
    int64_t *lease = &history->leases[belfry_rng_below(rng, LEASES_MAX)];
    if (*lease == 0)
        *lease = 0x1000 + ++history->last_lease;
    return *lease;
}

static void add_put(struct history *history, struct belfry_rng *rng, struct ops *ops, unsigned key)
{
    struct op op = {.key = key, .lease = any_lease(history, rng), .value_len = any_size(history, rng)};
    if (must_differ(history) && op.value_len < 32)
        op.value_len = 32; /* room for the mark that names the past */
    add_op(ops, op);
}

static void add_range_delete(struct history *history, struct belfry_rng *rng, struct ops *ops)
{
    struct belfry_bytes prefix = any_key(history, rng);
    prefix.len = 1 + belfry_rng_below(rng, prefix.len < 4 ? prefix.len : 4);
    for (unsigned key = 0; key < history->n_keys; key++) {
        if (belfry_bytes_begins(history->keys[key], prefix))
            add_delete(history, ops, key);
    }
}

/* All keys from one on: etcd does not notice that the transaction has put some of them, or puts them afterwards. */
static void add_delete_from(struct history *history, struct belfry_rng *rng, struct ops *ops)
{
    uint64_t had = ops->keys;
    struct belfry_bytes from = any_key(history, rng);
    for (unsigned key = 0; key < history->n_keys && ops->n < HISTORY_KEYS_MAX; key++) {
        if (belfry_bytes_cmp(history->keys[key], from) < 0 || !is_there(history, ops, key))
            continue;
        COVER_BY(repeat, had >> key & 1);
        ops->at[ops->n++] = (struct op){.key = key, .is_delete = true};
    }
}

static void add_txn(struct history *history, struct belfry_rng *rng, struct ops *ops)
{
    size_t n = 2 + belfry_rng_below(rng, belfry_rng_below(rng, 3) == 0 ? HISTORY_TXN_MAX - 1 : 4);
    for (size_t i = 0; i < n; i++) {
        unsigned key = (unsigned)belfry_rng_below(rng, history->n_keys);
        unsigned kind = (unsigned)belfry_rng_below(rng, 16);
        if (kind == 0)
            add_range_delete(history, rng, ops);
        else if (kind == 1 && belfry_rng_below(rng, 4) == 0)
            add_delete_from(history, rng, ops);
        else if (kind < 6)
            add_delete(history, ops, key);
        else
            add_put(history, rng, ops, key);
    }
    history->counts.txns += ops->n > 1;
}

static void add_lease_expiry(struct history *history, struct belfry_rng *rng, struct ops *ops)
{
    int64_t *lease = &history->leases[belfry_rng_below(rng, LEASES_MAX)];
    if (*lease == 0)
        return;
    for (unsigned key = 0; key < history->n_keys; key++) {
        const struct history_event *now = holds(newest(history), key);
        if (now != NULL && now->lease == *lease)
            add_delete(history, ops, key);
    }
    history->counts.lease_expiries += ops->n > 0;
    *lease = 0;
}

static bool has_put(const struct ops *ops)
{
    for (size_t i = 0; i < ops->n; i++) {
        if (!ops->at[i].is_delete)
            return true;
    }
    return false;
}

/* A put among the deletes, in a key that they leave alone. */
static void add_mark(struct history *history, struct belfry_rng *rng, struct ops *ops)
{
    size_t had = ops->n;
    if (had == history->n_keys)
        ops->keys &= ~((uint64_t)1 << ops->at[--ops->n].key);
    for (had = ops->n; ops->n == had;)
        add_put(history, rng, ops, (unsigned)belfry_rng_below(rng, history->n_keys));
}

static const struct history_revision *commit_marked(struct history *history, struct belfry_rng *rng, struct ops *ops)
{
    if (ops->n == 0 || (must_differ(history) && !has_put(ops)))
        add_mark(history, rng, ops);
    return commit(history, ops);
}

const struct history_revision *history_write(struct history *history, struct belfry_rng *rng)
{
    struct ops ops = {0};
    unsigned kind = (unsigned)belfry_rng_below(rng, 100);
    if (kind < 45) {
        add_put(history, rng, &ops, (unsigned)belfry_rng_below(rng, history->n_keys));
    } else if (kind < 60) {
        add_delete(history, &ops, (unsigned)belfry_rng_below(rng, history->n_keys));
    } else if (kind < 85) {
        add_txn(history, rng, &ops);
    } else if (kind < 92) {
        add_range_delete(history, rng, &ops);
        history->counts.range_deletes += ops.n > 1;
    } else {
        add_lease_expiry(history, rng, &ops);
    }
    return commit_marked(history, rng, &ops);
}

const struct history_revision *history_write_huge(struct history *history, struct belfry_rng *rng)
{
    struct ops ops = {0};
    size_t bytes = 0;
    for (unsigned key = 0; key < history->n_keys; key++) {
        if (holds(newest(history), key) != NULL)
            bytes += history->keys[key].len;
    }
    if (bytes > history->opts.huge_bytes && !must_differ(history) && belfry_rng_below(rng, 2) == 0) {
        for (unsigned key = 0; key < history->n_keys; key++)
            add_delete(history, &ops, key);
    } else {
        size_t each = history->opts.huge_bytes * 3 / 2 / history->n_keys + 32;
        unsigned first = (unsigned)belfry_rng_below(rng, history->n_keys);
        for (unsigned i = 0; i < history->n_keys; i++)
            add_op(&ops, (struct op){.key = (first + i * 7) % history->n_keys, .value_len = each});
        for (unsigned i = 0; i < history->n_keys; i++) /* those that a step of 7 has left out, if any */
            add_op(&ops, (struct op){.key = i, .value_len = each});
    }
    history->counts.huge++;
    return commit(history, &ops);
}

const struct history_revision *history_write_put(struct history *history, struct belfry_rng *rng, unsigned key)
{
    struct ops ops = {0};
    add_put(history, rng, &ops, key);
    return commit(history, &ops);
}

bool history_compact(struct history *history, int64_t rev)
{
    struct past *past = newest(history);
    if (rev > past->head || rev <= history_compacted(history, history->n_pasts - 1))
        return false;
    past->compactions =
        grow(past->compactions, past->n_compactions, &past->cap_compactions, sizeof(past->compactions[0]));
    past->compactions[past->n_compactions++] = (struct history_compaction){.after = past->head, .rev = rev};
    history->counts.compactions++;
    return true;
}

/* ---- pasts ---- */

struct history *history_create(const struct history_opts *opts)
{
    struct history *history = calloc(1, sizeof(*history));
    if (history == NULL)
        abort();
    history->opts = *opts;
    if (history->opts.huge_bytes == 0)
        history->opts.huge_bytes = HUGE_BYTES;
    make_keys(history);
    history->n_pasts = 1;
    history->pasts[0].fork = history->pasts[0].head = HISTORY_EMPTY_REV;
    return history;
}

static void free_revision(struct history_revision *revision)
{
    for (size_t i = 0; i < revision->n; i++)
        free((void *)(uintptr_t)revision->events[i].raw_prev.data);
    free(revision->events);
    free(revision->digest);
    free(revision);
}

static void free_past(struct past *past)
{
    for (int64_t rev = past->fork + 1; rev <= past->head; rev++) /* those below are an older past's */
        free_revision(past->revs[rev - HISTORY_EMPTY_REV - 1]);
    for (size_t i = 0; i < HISTORY_KEYS_MAX; i++)
        free(past->keys[i].at);
    free(past->revs);
    free(past->compactions);
}

void history_destroy(struct history *history)
{
    if (history == NULL)
        return;
    for (unsigned i = 0; i < history->n_pasts; i++)
        free_past(&history->pasts[i]);
    for (unsigned i = 0; i < history->n_keys; i++)
        free((void *)(uintptr_t)history->keys[i].data);
    free(history);
}

static void copy_versions(struct versions *to, const struct versions *from, int64_t rev)
{
    for (size_t i = 0; i < from->n && from->at[i]->rev <= rev; i++) {
        to->at = grow(to->at, to->n, &to->cap, sizeof(to->at[0]));
        to->at[to->n++] = from->at[i];
    }
}

unsigned history_fork(struct history *history, int64_t rev)
{
    const struct past *old = newest(history);
    assert(history->n_pasts < HISTORY_PASTS_MAX && rev >= HISTORY_EMPTY_REV && rev <= old->head);
    struct past *past = &history->pasts[history->n_pasts];
    past->parent = history->n_pasts - 1;
    past->fork = past->head = rev;
    for (size_t i = 0; i < (size_t)(rev - HISTORY_EMPTY_REV); i++) {
        past->revs = grow(past->revs, i, &past->cap, sizeof(past->revs[0]));
        past->revs[i] = old->revs[i];
    }
    for (unsigned key = 0; key < history->n_keys; key++)
        copy_versions(&past->keys[key], &old->keys[key], rev);
    for (size_t i = 0; i < old->n_compactions && old->compactions[i].after <= rev; i++) {
        past->compactions = grow(past->compactions, i, &past->cap_compactions, sizeof(past->compactions[0]));
        past->compactions[past->n_compactions++] = old->compactions[i];
    }
    if (history->used < old->head)
        history->used = old->head;
    history->counts.forks++;
    return history->n_pasts++;
}

/* ---- reading ---- */

unsigned history_pasts(const struct history *history)
{
    return history->n_pasts;
}

unsigned history_now(const struct history *history)
{
    return history->n_pasts - 1;
}

int64_t history_head(const struct history *history, unsigned past)
{
    assert(past < history->n_pasts);
    return history->pasts[past].head;
}

int64_t history_fork_rev(const struct history *history, unsigned past)
{
    assert(past < history->n_pasts);
    return history->pasts[past].fork;
}

unsigned history_parent(const struct history *history, unsigned past)
{
    assert(past < history->n_pasts);
    return history->pasts[past].parent;
}

const struct history_revision *history_at(const struct history *history, unsigned past, int64_t rev)
{
    assert(past < history->n_pasts);
    if (rev <= HISTORY_EMPTY_REV || rev > history->pasts[past].head)
        return NULL;
    return history->pasts[past].revs[rev - HISTORY_EMPTY_REV - 1];
}

const struct history_revision *history_next(const struct history *history, unsigned past, int64_t from, int64_t to,
                                            uint64_t puts, uint64_t deletes)
{
    const struct past *in = &history->pasts[past];
    if (from <= HISTORY_EMPTY_REV)
        from = HISTORY_EMPTY_REV + 1;
    if (to > in->head)
        to = in->head;
    for (int64_t rev = from; rev <= to; rev++) {
        const struct history_revision *revision = in->revs[rev - HISTORY_EMPTY_REV - 1];
        if (revision->put_keys & puts || revision->deleted_keys & deletes)
            return revision;
    }
    return NULL;
}

const struct history_event *history_state(const struct history *history, unsigned past, int64_t rev, unsigned key)
{
    const struct versions *versions = &history->pasts[past].keys[key];
    size_t low = 0, high = versions->n; /* the first version above rev */
    while (low < high) {
        size_t mid = (low + high) / 2;
        if (versions->at[mid]->rev <= rev)
            low = mid + 1;
        else
            high = mid;
    }
    return low == 0 || versions->at[low - 1]->is_delete ? NULL : versions->at[low - 1];
}

size_t history_compactions(const struct history *history, unsigned past, const struct history_compaction **out)
{
    *out = history->pasts[past].compactions;
    return history->pasts[past].n_compactions;
}

int64_t history_compacted(const struct history *history, unsigned past)
{
    const struct past *in = &history->pasts[past];
    return in->n_compactions == 0 ? 0 : in->compactions[in->n_compactions - 1].rev;
}

bool history_was_compacted(const struct history *history, unsigned past, int64_t rev)
{
    const struct past *in = &history->pasts[past];
    for (size_t i = 0; i < in->n_compactions; i++) {
        if (in->compactions[i].rev == rev)
            return true;
    }
    return false;
}

const struct history_counts *history_counts(const struct history *history)
{
    return &history->counts;
}
