/* src/core/interest.c: nodes in one hash table (keys and prefixes) or in the interval tree (spans). */
#include "core/interest.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "core/interest_private.h"
#include "core/spans.h"
#include "core/stream_private.h"
#include "core/watcher.h"

#define FOUND_FIRST 16

/* Who rides one bus from one node; it lives while somebody does. */
struct riders {
    struct riders *next; /* those of the same node on another bus */
    struct interest_node *node;
    struct belfry_treap_node *root;
    struct belfry_list link; /* of all with riders on this bus */
    unsigned population;
};

struct span_node {
    struct span span;
    struct interest_node node; /* last: the bytes follow */
};

/* A length that prefixes in use have. */
struct prefix_length {
    size_t len;
    size_t n; /* nodes */
};

enum belfry_err interest_create(uint64_t seed, struct interest **out)
{
    struct interest *interest = calloc(1, sizeof(*interest));
    if (interest == NULL)
        return BELFRY_ERR_NOMEM;
    interest->secret = keyhash_secret(seed);
    table_init(&interest->table);
    table_init(&interest->pinned);
    table_init(&interest->pin_ranges);
    for (size_t i = 0; i < POPULATIONS; i++)
        belfry_list_init(&interest->ridden[i]);
    *out = interest;
    return BELFRY_OK;
}

void interest_destroy(struct interest *interest)
{
    if (interest == NULL)
        return;
    assert(interest->n_nodes == 0);
    table_fini(&interest->table);
    table_fini(&interest->pinned);
    table_fini(&interest->pin_ranges);
    free(interest->lengths);
    free(interest->found);
    free(interest);
}

/* ---- nodes ---- */

static struct interest_node *node_of(struct table_link *link)
{
    return belfry_container(link, struct interest_node, link);
}

static struct span_node *span_of(struct interest_node *node)
{
    return belfry_container(node, struct span_node, node);
}

static struct belfry_bytes node_key(const struct interest_node *node)
{
    return belfry_bytes_of(node + 1, node->key_len);
}

static struct belfry_bytes node_end(const struct interest_node *node)
{
    if (node->kind != RANGE_SPAN)
        return belfry_bytes_of(NULL, 0);
    return belfry_container_const(node, struct span_node, node)->span.end;
}

static bool fits(const struct range *range)
{
    return range->key.len <= NODE_KEY_MAX && range->end.len <= NODE_KEY_MAX;
}

static size_t node_bytes(const struct interest_node *node)
{
    size_t head = node->kind == RANGE_SPAN ? sizeof(struct span_node) : sizeof(struct interest_node);
    return interest_block_bytes(head + node->key_len + node_end(node).len);
}

static void copy_bytes(char *to, struct belfry_bytes from)
{
    if (from.len > 0)
        memcpy(to, from.data, from.len);
}

/* A node that is in nothing yet. */
static struct interest_node *node_create(const struct range *range)
{
    bool is_span = range->kind == RANGE_SPAN;
    size_t head = is_span ? sizeof(struct span_node) : sizeof(struct interest_node);
    char *block = calloc(1, head + range->key.len + (is_span ? range->end.len : 0));
    if (block == NULL)
        return NULL;
    char *bytes = block + head;
    struct interest_node *node = (struct interest_node *)(void *)(bytes - sizeof(*node));
    node->kind = (uint32_t)range->kind & 3;
    node->key_len = (uint32_t)range->key.len & NODE_KEY_MAX;
    copy_bytes(bytes, range->key);
    if (is_span) {
        copy_bytes(bytes + range->key.len, range->end);
        span_of(node)->span.key = belfry_bytes_of(bytes, range->key.len);
        span_of(node)->span.end = belfry_bytes_of(bytes + range->key.len, range->end.len);
    }
    return node;
}

static void node_destroy(struct interest_node *node)
{
    if (node->kind == RANGE_SPAN)
        free(span_of(node));
    else
        free(node);
}

/* ---- lengths of prefixes ---- */

/* Where `len` is, or belongs. */
static size_t length_place(const struct interest *interest, size_t len)
{
    size_t low = 0, high = interest->n_lengths;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (interest->lengths[middle].len < len)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static enum belfry_err length_reserve(struct interest *interest)
{
    if (interest->n_lengths < interest->cap_lengths)
        return BELFRY_OK;
    size_t cap = interest->cap_lengths == 0 ? 8 : interest->cap_lengths * 2;
    struct prefix_length *lengths = realloc(interest->lengths, cap * sizeof(*lengths));
    if (lengths == NULL)
        return BELFRY_ERR_NOMEM;
    interest->lengths = lengths;
    interest->cap_lengths = cap;
    return BELFRY_OK;
}

static enum belfry_err length_use(struct interest *interest, size_t len)
{
    size_t at = length_place(interest, len);
    if (at < interest->n_lengths && interest->lengths[at].len == len) {
        interest->lengths[at].n++;
        return BELFRY_OK;
    }
    enum belfry_err err = length_reserve(interest);
    if (err != BELFRY_OK)
        return err;
    struct prefix_length *place = &interest->lengths[at];
    memmove(place + 1, place, (interest->n_lengths - at) * sizeof(*place));
    *place = (struct prefix_length){len, 1};
    interest->n_lengths++;
    return BELFRY_OK;
}

static void length_unuse(struct interest *interest, size_t len)
{
    size_t at = length_place(interest, len);
    struct prefix_length *place = &interest->lengths[at];
    if (--place->n > 0)
        return;
    interest->n_lengths--;
    memmove(place, place + 1, (interest->n_lengths - at) * sizeof(*place));
}

/* ---- adding and dropping ---- */

uint64_t interest_hash(const struct interest *interest, unsigned kind, struct belfry_bytes key)
{
    struct keyhash hash;
    keyhash_begin(&hash, &interest->secret, key);
    return keyhash_at(&hash, key.len, kind);
}

static uint64_t hash_of(const struct interest *interest, const struct range *range)
{
    uint64_t hash = interest_hash(interest, range->kind, range->key);
    return range->kind == RANGE_SPAN ? belfry_hash_int(hash + interest_hash(interest, RANGE_KEY, range->end)) : hash;
}

/* A key's or a prefix's node. `key` may be longer than the node's: `len` bytes of it count. */
static struct interest_node *look_up(const struct interest *interest, uint64_t hash, enum range_kind kind,
                                     struct belfry_bytes key, size_t len)
{
    struct table_link *link = table_first(&interest->table, hash);
    for (; link != NULL; link = table_next(link)) {
        struct interest_node *node = node_of(link);
        if (node->kind == kind && belfry_bytes_equal(node_key(node), belfry_bytes_of(key.data, len)))
            return node;
    }
    return NULL;
}

static struct interest_node *find_equal(const struct interest *interest, const struct range *range, uint64_t hash)
{
    if (range->kind != RANGE_SPAN)
        return look_up(interest, hash, range->kind, range->key, range->key.len);
    struct span *span = spans_find(interest->spans, range->key, range->end);
    return span == NULL ? NULL : &belfry_container(span, struct span_node, span)->node;
}

static enum belfry_err node_register(struct interest *interest, struct interest_node *node, uint64_t hash)
{
    if (node->kind == RANGE_PREFIX) {
        enum belfry_err err = length_use(interest, node->key_len);
        if (err != BELFRY_OK)
            return err;
    }
    node->link.hash = hash;
    if (node->kind == RANGE_SPAN)
        spans_insert(&interest->spans, &span_of(node)->span);
    else
        table_add(&interest->table, hash, &node->link);
    interest->n_nodes++;
    interest->node_bytes += node_bytes(node);
    return BELFRY_OK;
}

static enum belfry_err add_range(struct interest *interest, const struct range *range, struct interest_node **out)
{
    uint64_t hash = hash_of(interest, range);
    struct interest_node *node = find_equal(interest, range, hash);
    if (node == NULL) {
        node = fits(range) ? node_create(range) : NULL;
        if (node == NULL)
            return BELFRY_ERR_NOMEM;
        enum belfry_err err = node_register(interest, node, hash);
        if (err != BELFRY_OK) {
            node_destroy(node);
            return err;
        }
    }
    node->n_watchers++;
    *out = node;
    return BELFRY_OK;
}

enum belfry_err interest_add(struct interest *interest, const struct range *range, const struct interest_pin *pin,
                             struct interest_node **out)
{
    struct interest_node *base;
    enum belfry_err err = add_range(interest, range, &base);
    if (err != BELFRY_OK)
        return err;
    if (pin == NULL) {
        *out = base;
        return BELFRY_OK;
    }
    bool made = false;
    err = pins_add(interest, base, pin, out, &made);
    if (!made || err != BELFRY_OK)
        interest_drop(interest, base);
    return err;
}

static void node_unregister(struct interest *interest, struct interest_node *node)
{
    interest->n_nodes--;
    interest->node_bytes -= node_bytes(node);
    if (node->kind == RANGE_PREFIX)
        length_unuse(interest, node->key_len);
    if (node->kind == RANGE_SPAN)
        spans_remove(&interest->spans, &span_of(node)->span);
    else
        table_remove(&interest->table, &node->link);
}

void interest_drop(struct interest *interest, struct interest_node *node)
{
    if (--node->n_watchers > 0)
        return;
    assert(node->live == NULL && node->riders == NULL);
    if (node->kind == NODE_PINNED) {
        struct interest_node *base = pins_base(node);
        pins_remove(interest, node);
        interest_drop(interest, base);
        return;
    }
    node_unregister(interest, node);
    node_destroy(node);
}

/* ---- populations ---- */

static int by_stream_and_id(const struct belfry_treap_node *a, const struct belfry_treap_node *b)
{
    const struct watcher *x = belfry_container_const(a, struct watcher, place);
    const struct watcher *y = belfry_container_const(b, struct watcher, place);
    if (x->stream != y->stream)
        return x->stream->serial < y->stream->serial ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

/* The place that points at the node's riders of a bus, or at the end of its list. */
static struct riders **riders_of(struct interest_node *node, unsigned population)
{
    struct riders **at = &node->riders;
    while (*at != NULL && (*at)->population != population)
        at = &(*at)->next;
    return at;
}

static struct riders *riders_create(struct interest *interest, struct interest_node *node, unsigned population)
{
    struct riders *riders = calloc(1, sizeof(*riders));
    if (riders == NULL)
        return NULL;
    riders->node = node;
    riders->population = population;
    belfry_list_append(&interest->ridden[population], &riders->link);
    interest->node_bytes += interest_block_bytes(sizeof(*riders));
    return riders;
}

static void riders_destroy(struct interest *interest, struct riders **at)
{
    struct riders *riders = *at;
    *at = riders->next;
    belfry_list_remove(&riders->link);
    interest->node_bytes -= interest_block_bytes(sizeof(*riders));
    free(riders);
}

enum belfry_err interest_join(struct interest *interest, struct watcher *watcher, unsigned population)
{
    struct interest_node *node = watcher->node;
    struct belfry_treap_node **root = &node->live;
    assert(population < POPULATIONS);
    if (population != POPULATION_LIVE) {
        struct riders **riders = riders_of(node, population);
        if (*riders == NULL)
            *riders = riders_create(interest, node, population);
        if (*riders == NULL)
            return BELFRY_ERR_NOMEM;
        root = &(*riders)->root;
    }
    belfry_treap_insert(root, &watcher->place, by_stream_and_id);
    if (node->kind == NODE_PINNED)
        pins_count(node, population, 1);
    return BELFRY_OK;
}

void interest_leave(struct interest *interest, struct watcher *watcher, unsigned population)
{
    assert(population < POPULATIONS);
    if (watcher->node->kind == NODE_PINNED)
        pins_count(watcher->node, population, -1);
    if (population == POPULATION_LIVE) {
        belfry_treap_remove(&watcher->node->live, &watcher->place, by_stream_and_id);
        return;
    }
    struct riders **riders = riders_of(watcher->node, population);
    belfry_treap_remove(&(*riders)->root, &watcher->place, by_stream_and_id);
    if ((*riders)->root == NULL)
        riders_destroy(interest, riders);
}

struct interest_node *interest_any(const struct interest *interest, unsigned population)
{
    assert(population != POPULATION_LIVE && population < POPULATIONS);
    const struct belfry_list *ridden = &interest->ridden[population];
    return belfry_list_empty(ridden) ? NULL : belfry_container(ridden->next, struct riders, link)->node;
}

struct belfry_treap_node *interest_population(const struct interest_node *node, unsigned population)
{
    if (population == POPULATION_LIVE)
        return node->live;
    const struct riders *riders = node->riders;
    while (riders != NULL && riders->population != population)
        riders = riders->next;
    return riders == NULL ? NULL : riders->root;
}

void interest_range(const struct interest_node *node, struct range *out)
{
    if (node->kind == NODE_PINNED)
        node = pins_base(node);
    *out = (struct range){(enum range_kind)node->kind, node_key(node), node_end(node)};
}

/* ---- finding ---- */

static enum belfry_err found_grow(struct interest *interest)
{
    size_t cap = interest->cap_found == 0 ? FOUND_FIRST : interest->cap_found * 2;
    struct interest_node **found = realloc(interest->found, cap * sizeof(*found));
    if (found == NULL)
        return BELFRY_ERR_NOMEM;
    interest->found = found;
    interest->cap_found = cap;
    return BELFRY_OK;
}

enum belfry_err interest_found(struct interest *interest, struct interest_node *node, unsigned population)
{
    if (interest_population(node, population) == NULL)
        return BELFRY_OK;
    if (interest->n_found == interest->cap_found) {
        enum belfry_err err = found_grow(interest);
        if (err != BELFRY_OK)
            return err;
    }
    interest->found[interest->n_found++] = node;
    return BELFRY_OK;
}

/* A range's node (NULL: there is none), and what is pinned below it. */
static enum belfry_err found_range(struct interest *interest, struct interest_node *node, unsigned population,
                                   const struct interest_asker *asker)
{
    if (node == NULL)
        return BELFRY_OK;
    enum belfry_err err = interest_found(interest, node, population);
    if (node->has_pins && asker != NULL && err == BELFRY_OK)
        err = pins_find(interest, node, population, asker);
    return err;
}

static enum belfry_err find_hashed(struct interest *interest, struct belfry_bytes key, unsigned population,
                                   const struct interest_asker *asker)
{
    struct keyhash hash;
    keyhash_begin(&hash, &interest->secret, key);
    for (size_t i = 0; i < interest->n_lengths && interest->lengths[i].len <= key.len; i++) {
        size_t len = interest->lengths[i].len;
        uint64_t prefix = keyhash_at(&hash, len, RANGE_PREFIX);
        struct interest_node *node = look_up(interest, prefix, RANGE_PREFIX, key, len);
        enum belfry_err err = found_range(interest, node, population, asker);
        if (err != BELFRY_OK)
            return err;
    }
    uint64_t whole = keyhash_at(&hash, key.len, RANGE_KEY);
    return found_range(interest, look_up(interest, whole, RANGE_KEY, key, key.len), population, asker);
}

enum belfry_err interest_find(struct interest *interest, struct belfry_bytes key, unsigned population,
                              const struct interest_asker *asker, struct interest_node ***nodes, size_t *n)
{
    interest->n_found = 0;
    enum belfry_err err = find_hashed(interest, key, population, asker);
    struct span *span = spans_next(interest->spans, NULL, key);
    for (; err == BELFRY_OK && span != NULL; span = spans_next(interest->spans, span, key))
        err = found_range(interest, &belfry_container(span, struct span_node, span)->node, population, asker);
    if (err != BELFRY_OK)
        return err;
    *nodes = interest->found;
    *n = interest->n_found;
    return BELFRY_OK;
}

size_t interest_n_nodes(const struct interest *interest)
{
    return interest->n_nodes;
}

size_t interest_bytes(const struct interest *interest)
{
    return sizeof(*interest) + interest->node_bytes + table_bytes(&interest->table) + table_bytes(&interest->pinned) +
           table_bytes(&interest->pin_ranges) + interest->cap_lengths * sizeof(*interest->lengths) +
           interest->cap_found * sizeof(*interest->found);
}
