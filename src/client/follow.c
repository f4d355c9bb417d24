/* src/client/follow.c */
#include "client/follow.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/hash.h"
#include "base/map.h"
#include "base/owner.h"

#define FIRST_LIMIT 100   /* rows of the first page: their size is not known yet */
#define MAX_LIMIT   10000 /* rows of any page */
#define RANGE_MORE  3     /* field of RangeResponse */

enum follow_state { LISTING, SYNCING, SWEEPING, LIVE };
enum source { OF_LISTING, OF_WATCH };

struct key {
    struct belfry_map_node node;
    struct key *next_swept;
    int64_t rev; /* the newest revision reported, in `epoch`, and who has said it: */
    enum source source;
    uint64_t epoch; /* older than the follow's: not seen since the listing began */
    bool dead;      /* deleted; kept until synced, to recognise older rows */
    size_t len;
    char bytes[];
};

struct belfry_follow {
    /* fixed */
    struct belfry_follow_opts opts;
    struct belfry_hash_key hash;
    /* owner */
    enum follow_state state;
    uint64_t epoch;
    struct belfry_map keys;
    size_t n_dead;
    struct belfry_buf from; /* where the next page starts */
    int64_t pin;            /* the revision the pages are read at; 0: the next page decides */
    int64_t newest;         /* the highest pin in this listing */
    int64_t start;          /* where the watch must start; 0: not known */
    bool watching;
    int64_t passed; /* the watch has delivered everything up to here */
    int64_t limit;
    struct belfry_buf mask;
    struct key *swept; /* vanished, not yet reported */
    struct key *told;  /* lent to the caller */
    struct belfry_bytes slice[BELFRY_FOLLOW_SLICE];
    BELFRY_OWNER;
};

static void follow_move(struct belfry_follow *follow, enum follow_state to)
{
    assert(to == LISTING || to == follow->state + 1);
    follow->state = to;
}

/* ---- the memory of keys ---- */

static struct key *key_find(const struct belfry_follow *follow, struct belfry_bytes key, uint64_t hash)
{
    for (struct belfry_map_node *node = belfry_map_first(&follow->keys, hash); node != NULL;
         node = belfry_map_next(node)) {
        struct key *k = belfry_container(node, struct key, node);
        if (belfry_bytes_equal(belfry_bytes_of(k->bytes, k->len), key))
            return k;
    }
    return NULL;
}

static struct key *key_add(struct belfry_follow *follow, struct belfry_bytes key, uint64_t hash)
{
    struct key *k = malloc(sizeof(*k) + key.len);
    if (k == NULL)
        return NULL;
    *k = (struct key){.len = key.len};
    if (key.len > 0)
        memcpy(k->bytes, key.data, key.len);
    belfry_map_add(&follow->keys, hash, &k->node);
    return k;
}

/* Records that `key` is as of `rev`. *is_news false: this, or something newer, was already reported in this epoch. The
 * watch gives a revision once, so what it says of a key again, at the same revision, is news: a transaction may put a
 * key and delete it. */
static enum belfry_err key_note(struct belfry_follow *follow, enum source source, struct belfry_bytes key, int64_t rev,
                                bool dead, bool *is_news)
{
    uint64_t hash = belfry_hash(follow->hash, key);
    struct key *k = key_find(follow, key, hash);
    bool is_again = k != NULL && rev == k->rev && source == OF_WATCH && k->source == OF_WATCH;
    *is_news = k == NULL || k->epoch != follow->epoch || rev > k->rev || is_again;
    if (!*is_news)
        return BELFRY_OK;
    if (follow->state == LIVE && dead) { /* nothing older can come: no need to remember */
        if (k != NULL) {
            belfry_map_remove(&follow->keys, &k->node);
            free(k);
        }
        return BELFRY_OK;
    }
    if (k == NULL && (k = key_add(follow, key, hash)) == NULL)
        return BELFRY_ERR_NOMEM;
    follow->n_dead = follow->n_dead - k->dead + dead;
    k->rev = rev;
    k->epoch = follow->epoch;
    k->dead = dead;
    k->source = source;
    return BELFRY_OK;
}

static void free_keys(struct key *list)
{
    while (list != NULL) {
        struct key *next = list->next_swept;
        free(list);
        list = next;
    }
}

/* ---- masks ---- */

static enum belfry_err mask_reset(struct belfry_follow *follow, size_t n_bits)
{
    size_t len = n_bits / 8 + 1;
    uint8_t *to;
    belfry_buf_clear(&follow->mask);
    enum belfry_err err = belfry_buf_reserve(&follow->mask, len, &to);
    if (err != BELFRY_OK)
        return err;
    memset(to, 0, len);
    belfry_buf_grown(&follow->mask, len);
    return BELFRY_OK;
}

static void mask_set(struct belfry_follow *follow, size_t bit)
{
    follow->mask.data[follow->mask.start + bit / 8] |= (uint8_t)(1u << (bit % 8));
}

static const uint8_t *mask_bits(const struct belfry_follow *follow)
{
    return follow->mask.data + follow->mask.start;
}

/* ---- listing ---- */

static enum belfry_err set_from(struct belfry_follow *follow, struct belfry_bytes key, struct belfry_bytes suffix)
{
    struct belfry_buf from;
    belfry_buf_init(&from);
    enum belfry_err err = belfry_buf_append(&from, key.data, key.len);
    if (err == BELFRY_OK)
        err = belfry_buf_append(&from, suffix.data, suffix.len);
    if (err != BELFRY_OK) {
        belfry_buf_fini(&from);
        return err;
    }
    belfry_buf_fini(&follow->from);
    follow->from = from;
    return BELFRY_OK;
}

static void follow_begin(struct belfry_follow *follow)
{
    follow->epoch++;
    belfry_buf_clear(&follow->from); /* empty: from the range's first key */
    follow->pin = follow->newest = follow->start = follow->passed = 0;
    follow->watching = false;
    if (follow->limit == 0)
        follow->limit = FIRST_LIMIT;
}

enum belfry_err belfry_follow_create(const struct belfry_follow_opts *opts, struct belfry_follow **out)
{
    struct belfry_follow *follow = calloc(1, sizeof(*follow));
    if (follow == NULL)
        return BELFRY_ERR_NOMEM;
    follow->opts = *opts;
    follow->hash = (struct belfry_hash_key){opts->seed, opts->seed * 0x9e3779b97f4a7c15u + 1};
    belfry_map_init(&follow->keys);
    belfry_buf_init(&follow->from);
    belfry_buf_init(&follow->mask);
    follow_begin(follow);
    BELFRY_OWNER_INIT(follow);
    *out = follow;
    return BELFRY_OK;
}

void belfry_follow_destroy(struct belfry_follow *follow)
{
    if (follow == NULL)
        return;
    BELFRY_OWNER_CHECK(follow);
    struct belfry_map_node *node;
    while ((node = belfry_map_drain(&follow->keys)) != NULL)
        free(belfry_container(node, struct key, node));
    belfry_map_fini(&follow->keys);
    free_keys(follow->swept);
    free_keys(follow->told);
    belfry_buf_fini(&follow->from);
    belfry_buf_fini(&follow->mask);
    free(follow);
}

bool belfry_follow_wants_page(const struct belfry_follow *follow, struct belfry_follow_page *out)
{
    if (follow->state != LISTING)
        return false;
    *out = (struct belfry_follow_page){.key = belfry_buf_len(&follow->from) > 0 ? belfry_buf_bytes(&follow->from)
                                                                                : follow->opts.key,
                                       .rev = follow->pin,
                                       .limit = follow->limit};
    return true;
}

/* Records every row; *last is the last key, n_rows their number. */
static enum belfry_err note_rows(struct belfry_follow *follow, struct belfry_bytes response, size_t *n_kept,
                                 size_t *n_rows, struct belfry_bytes *last)
{
    struct belfry_bytes row;
    struct belfry_wire_kv kv;
    enum belfry_err err;
    size_t at = 0;
    while ((err = belfry_scan_field(response, BELFRY_RANGE_KVS, &at, &row)) == BELFRY_OK) {
        bool is_news;
        err = belfry_scan_kv(row, &kv);
        if (err == BELFRY_OK)
            err = key_note(follow, OF_LISTING, kv.key, kv.mod_rev, false, &is_news);
        if (err != BELFRY_OK)
            return err;
        if (is_news) {
            mask_set(follow, *n_rows);
            ++*n_kept;
        }
        ++*n_rows;
        *last = kv.key;
    }
    return err == BELFRY_ERR_AGAIN ? BELFRY_OK : err;
}

static void follow_check_synced(struct belfry_follow *follow);

enum belfry_err belfry_follow_on_page(struct belfry_follow *follow, struct belfry_bytes response, const uint8_t **mask,
                                      size_t *n_kept)
{
    BELFRY_OWNER_CHECK(follow);
    struct belfry_wire_header header;
    struct belfry_bytes last = {NULL, 0};
    uint64_t more;
    size_t n_rows = 0, n_most = 0, at = 0;
    *n_kept = 0;
    enum belfry_err err = belfry_scan_response_header(response, &header);
    if (err == BELFRY_OK)
        err = belfry_scan_number(response, RANGE_MORE, &more);
    if (err == BELFRY_OK && header.revision <= 0)
        err = BELFRY_ERR_PROTOCOL;
    for (struct belfry_bytes row; belfry_scan_field(response, BELFRY_RANGE_KVS, &at, &row) == BELFRY_OK;)
        n_most++;
    if (err == BELFRY_OK)
        err = mask_reset(follow, n_most);
    if (err == BELFRY_OK)
        err = note_rows(follow, response, n_kept, &n_rows, &last);
    if (err == BELFRY_OK && more != 0)
        err = n_rows == 0 ? BELFRY_ERR_PROTOCOL : set_from(follow, last, belfry_bytes_of("", 1));
    if (err != BELFRY_OK)
        return err;
    *mask = mask_bits(follow);
    if (follow->pin == 0)
        follow->pin = header.revision;
    if (follow->start == 0)
        follow->start = follow->pin + 1;
    if (follow->pin > follow->newest)
        follow->newest = follow->pin;
    if (n_rows > 0) { /* the next page: as many rows of this size as fit */
        size_t limit = follow->opts.page_bytes / (response.len / n_rows + 1);
        follow->limit = limit < 1 ? 1 : limit > MAX_LIMIT ? MAX_LIMIT : (int64_t)limit;
    }
    if (more == 0)
        follow_move(follow, SYNCING);
    follow_check_synced(follow);
    return BELFRY_OK;
}

void belfry_follow_on_page_compacted(struct belfry_follow *follow)
{
    BELFRY_OWNER_CHECK(follow);
    follow->pin = 0;
}

int64_t belfry_follow_wants_watch(const struct belfry_follow *follow)
{
    return follow->watching ? 0 : follow->start;
}

void belfry_follow_watching(struct belfry_follow *follow)
{
    BELFRY_OWNER_CHECK(follow);
    follow->watching = true;
    follow->passed = follow->start - 1;
    follow_check_synced(follow);
}

/* ---- changes ---- */

enum belfry_err belfry_follow_on_changes(struct belfry_follow *follow, const struct belfry_inbox_group *group,
                                         const uint8_t **mask, size_t *n_kept)
{
    BELFRY_OWNER_CHECK(follow);
    bool live = follow->state == LIVE;
    struct belfry_inbox_walk walk;
    struct belfry_wire_event event;
    size_t index = 0;
    enum belfry_err err = live ? BELFRY_OK : mask_reset(follow, group->n_events);
    if (err != BELFRY_OK)
        return err;
    *n_kept = 0;
    belfry_inbox_walk(group, &walk);
    while ((err = belfry_inbox_walk_next(&walk, &event)) == BELFRY_OK) {
        bool is_news;
        err = key_note(follow, OF_WATCH, event.kv.key, event.kv.mod_rev, event.is_delete, &is_news);
        if (err != BELFRY_OK)
            return err;
        if (!live && is_news)
            mask_set(follow, index);
        *n_kept += live || is_news;
        index++;
    }
    if (err != BELFRY_ERR_AGAIN)
        return err;
    *mask = live ? NULL : mask_bits(follow);
    belfry_follow_on_progress(follow, group->rev);
    return BELFRY_OK;
}

void belfry_follow_on_progress(struct belfry_follow *follow, int64_t rev)
{
    BELFRY_OWNER_CHECK(follow);
    if (rev > follow->passed)
        follow->passed = rev;
    follow_check_synced(follow);
}

void belfry_follow_restart(struct belfry_follow *follow)
{
    BELFRY_OWNER_CHECK(follow);
    /* Keys taken out to report, but not reported, have still vanished: keep them as unseen */
    while (follow->swept != NULL) {
        struct key *k = follow->swept;
        follow->swept = k->next_swept;
        belfry_map_add(&follow->keys, belfry_hash(follow->hash, belfry_bytes_of(k->bytes, k->len)), &k->node);
    }
    follow_move(follow, LISTING);
    follow_begin(follow);
}

bool belfry_follow_wants_progress(const struct belfry_follow *follow)
{
    return follow->state == SYNCING && follow->watching;
}

/* ---- vanished keys ---- */

/* Removes dead keys from the memory, and moves keys that this epoch has not shown to `swept`. */
static void follow_split(struct belfry_follow *follow)
{
    if (follow->n_dead == 0 && follow->epoch == 1)
        return; /* no key can vanish from a first listing */
    struct belfry_map kept;
    struct belfry_map_node *node;
    belfry_map_init(&kept);
    while ((node = belfry_map_drain(&follow->keys)) != NULL) {
        struct key *k = belfry_container(node, struct key, node);
        if (k->dead) {
            free(k);
        } else if (k->epoch != follow->epoch) {
            k->next_swept = follow->swept;
            follow->swept = k;
        } else {
            belfry_map_add(&kept, node->hash, node);
        }
    }
    belfry_map_fini(&follow->keys);
    follow->keys = kept;
    follow->n_dead = 0;
}

static void follow_check_synced(struct belfry_follow *follow)
{
    if (follow->state != SYNCING || !follow->watching || follow->passed < follow->newest)
        return;
    follow_move(follow, SWEEPING);
    follow_split(follow);
}

bool belfry_follow_sweeping(const struct belfry_follow *follow)
{
    return follow->state == SWEEPING;
}

enum belfry_err belfry_follow_sweep(struct belfry_follow *follow, const struct belfry_bytes **keys, size_t *n)
{
    BELFRY_OWNER_CHECK(follow);
    assert(follow->state == SWEEPING);
    free_keys(follow->told);
    follow->told = NULL;
    *n = 0;
    while (follow->swept != NULL && *n < BELFRY_FOLLOW_SLICE) {
        struct key *k = follow->swept;
        follow->swept = k->next_swept;
        k->next_swept = follow->told;
        follow->told = k;
        follow->slice[(*n)++] = belfry_bytes_of(k->bytes, k->len);
    }
    *keys = follow->slice;
    if (*n == 0)
        follow_move(follow, LIVE);
    return BELFRY_OK;
}

bool belfry_follow_live(const struct belfry_follow *follow)
{
    return follow->state == LIVE;
}

int64_t belfry_follow_rev(const struct belfry_follow *follow)
{
    return follow->passed;
}

size_t belfry_follow_n_keys(const struct belfry_follow *follow)
{
    return follow->keys.count;
}
