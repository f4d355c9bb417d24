/* src/core/interest.c: nodes in one hash table (keys and prefixes) or in the interval tree (spans); nodes with a pin,
 * and those of several ranges, in hash tables of their own. */
#include "core/interest.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/hash.h"
#include "base/list.h"
#include "base/owner.h"
#include "base/sim.h"
#include "core/keyhash.h"
#include "core/spans.h"
#include "core/stream.h"
#include "core/table.h"
#include "core/watcher.h"

#define FOUND_FIRST  16
#define NODE_PINNED  3                       /* a kind of node, beside those of enum range_kind */
#define NODE_SEVERAL 4                       /* another */
#define NODE_KEY_MAX (((size_t)1 << 28) - 1) /* the largest key_len of a node; no request comes near it */

/* The bytes of the key follow in the same block, then those of a span's end; for a pinned node those of the value, for
 * one of several ranges those of its name. A million nodes with keys of 32 bytes are the aim: 40 + 32 bytes, 80 as
 * malloc cuts them, and 8 for a bucket of the table. */
struct interest_node {
    struct table_link link;         /* of a key, a prefix or a pinned node; a span has its hash there */
    struct belfry_treap_node *live; /* root of POPULATION_LIVE */
    struct riders *riders;          /* owned; one for each bus that has riders from here */
    uint32_t n_watchers;            /* and pinned nodes below it, and nodes of several ranges that it is one of */
    uint32_t kind : 3;              /* enum range_kind, or NODE_PINNED or NODE_SEVERAL */
    uint32_t has_more : 1;          /* it has a range_more */
    uint32_t key_len : 28;
};

/* The riders of one bus at one node; freed with the last rider. */
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

/* What is found with a range, besides its node. */
struct range_more {
    struct table_link link;
    struct interest_node *base;
    struct pin_family *first;
    struct belfry_list several; /* struct several_member, oldest first */
};

/* The values that are pinned for one attribute below one range:
 *
 *     range ---> family "spec.nodeName" ---> n1, n2, n3, ...   (one hash table for all families and values)
 *            `-> family "app"           ---> web, db
 *
 * An event asks each family of a matching range for its values before and after, and looks these two up. A family
 * without watchers in the population is not asked: the answer costs the dialect a parse. */
struct pin_family {
    struct pin_family *next; /* of the same range, oldest first */
    struct range_more *range;
    uint64_t serial;          /* so that equal values of different families have different hashes */
    struct belfry_list nodes; /* oldest first */
    size_t n_in[POPULATIONS]; /* watchers */
    size_t name_len;
    char name[];
};

struct pin_node {
    struct pin_family *family;
    struct belfry_list sibling;
    struct interest_node node; /* last: the value's bytes follow */
};

/* One range of a node of several. */
struct several_member {
    struct belfry_list link; /* of the range's range_more.several */
    struct range_more *range;
    struct several_node *of;
};

/* A node of several ranges hangs at each of them:
 *
 *     range /a/ ---> several {/a/, /c/} <--- range /c/
 *            `-----> several {/a/, /d/} <--- range /d/
 */
struct several_node {
    struct several_member *members; /* owned */
    size_t n_members;
    struct range hull;         /* its bytes are behind the name's */
    uint64_t found;            /* the number of the last lookup that found it */
    struct interest_node node; /* last: the name's bytes follow */
};

struct interest {
    struct keyhash_secret secret;
    struct table table;
    struct span *spans;
    struct belfry_list ridden[POPULATIONS]; /* riders, by bus; nodes in the order of their first rider */
    struct prefix_length *lengths;          /* owned; ascending */
    size_t n_lengths, cap_lengths;
    struct interest_node **found; /* owned; of the last find */
    size_t n_found, cap_found;
    size_t n_nodes;
    size_t node_bytes;   /* nodes, their riders, families */
    uint64_t generation; /* moves with every change of a node or a population */

    struct table pinned;      /* nodes with a pin, by family and value */
    struct table several;     /* nodes of several ranges, by their names */
    struct table range_mores; /* of all ranges that have one */
    uint64_t families;        /* made so far */
    uint64_t lookups;         /* likewise */
    BELFRY_OWNER;
};

enum belfry_err interest_create(uint64_t seed, struct interest **out)
{
    struct interest *interest = calloc(1, sizeof(*interest));
    if (interest == NULL)
        return BELFRY_ERR_NOMEM;
    interest->secret = keyhash_secret(seed);
    interest->generation = 1;
    table_init(&interest->table);
    table_init(&interest->pinned);
    table_init(&interest->several);
    table_init(&interest->range_mores);
    for (size_t i = 0; i < POPULATIONS; i++)
        belfry_list_init(&interest->ridden[i]);
    BELFRY_OWNER_INIT(interest);
    *out = interest;
    return BELFRY_OK;
}

void interest_destroy(struct interest *interest)
{
    if (interest == NULL)
        return;
    BELFRY_OWNER_CHECK(interest);
    assert(interest->n_nodes == 0);
    table_fini(&interest->table);
    table_fini(&interest->pinned);
    table_fini(&interest->several);
    table_fini(&interest->range_mores);
    free(interest->lengths);
    free(interest->found);
    free(interest);
}

/* ---- nodes ---- */

/* Rounds as most allocators do, so that our accounts agree with the memory that the process uses. */
static size_t block_bytes(size_t bytes)
{
    return bytes + 8 <= 32 ? 32 : (bytes + 8 + 15) / 16 * 16;
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

static size_t node_bytes(const struct interest_node *node)
{
    size_t head = node->kind == RANGE_SPAN ? sizeof(struct span_node) : sizeof(struct interest_node);
    return block_bytes(head + node->key_len + node_end(node).len);
}

static void copy_bytes(char *to, struct belfry_bytes from)
{
    if (from.len > 0)
        memcpy(to, from.data, from.len);
}

/* A node that is not registered yet. */
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

/* ---- hashes ---- */

/* The hash of `key`. The same bytes have a different hash for each `kind` (below 8). */
static uint64_t key_hash(const struct interest *interest, unsigned kind, struct belfry_bytes key)
{
    struct keyhash hash;
    keyhash_begin(&hash, &interest->secret, key);
    return keyhash_at(&hash, key.len, kind);
}

static uint64_t range_hash(const struct interest *interest, const struct range *range)
{
    uint64_t hash = key_hash(interest, range->kind, range->key);
    return range->kind == RANGE_SPAN ? belfry_hash_int(hash + key_hash(interest, RANGE_KEY, range->end)) : hash;
}

/* A key's or a prefix's node. `key` may be longer than the node's: its first `len` bytes count. */
static struct interest_node *node_look_up(const struct interest *interest, uint64_t hash, enum range_kind kind,
                                          struct belfry_bytes key, size_t len)
{
    struct table_link *link = table_first(&interest->table, hash);
    for (; link != NULL; link = table_next(link)) {
        struct interest_node *node = belfry_container(link, struct interest_node, link);
        if (node->kind == kind && belfry_bytes_equal(node_key(node), belfry_bytes_of(key.data, len)))
            return node;
    }
    return NULL;
}

static struct interest_node *find_equal(const struct interest *interest, const struct range *range, uint64_t hash)
{
    if (range->kind != RANGE_SPAN)
        return node_look_up(interest, hash, range->kind, range->key, range->key.len);
    struct span *span = spans_find(interest->spans, range->key, range->end);
    return span == NULL ? NULL : &belfry_container(span, struct span_node, span)->node;
}

/* ---- the nodes of the last find ---- */

struct belfry_treap_node *interest_population(const struct interest_node *node, unsigned population)
{
    if (population == POPULATION_LIVE)
        return node->live;
    const struct riders *riders = node->riders;
    while (riders != NULL && riders->population != population)
        riders = riders->next;
    return riders == NULL ? NULL : riders->root;
}

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

/* Adds a node to the result if it has a watcher in the population. */
static enum belfry_err found_add(struct interest *interest, struct interest_node *node, unsigned population)
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

/* ---- what is found with a range ---- */

static struct range_more *range_more_find(const struct interest *interest, const struct interest_node *base)
{
    struct table_link *link = table_first(&interest->range_mores, base->link.hash);
    while (link != NULL && belfry_container(link, struct range_more, link)->base != base)
        link = table_next(link);
    return link == NULL ? NULL : belfry_container(link, struct range_more, link);
}

static struct range_more *range_more_get(struct interest *interest, struct interest_node *base)
{
    if (base->has_more)
        return range_more_find(interest, base);
    struct range_more *range = calloc(1, sizeof(*range));
    if (range == NULL)
        return NULL;
    range->base = base;
    belfry_list_init(&range->several);
    base->has_more = 1;
    table_add(&interest->range_mores, base->link.hash, &range->link);
    interest->node_bytes += block_bytes(sizeof(*range));
    return range;
}

static void range_more_end_if_empty(struct interest *interest, struct range_more *range)
{
    if (range->first != NULL || !belfry_list_empty(&range->several))
        return;
    range->base->has_more = 0;
    table_remove(&interest->range_mores, &range->link);
    interest->node_bytes -= block_bytes(sizeof(*range));
    free(range);
}

/* ---- pins ---- */

static struct pin_node *pin_of(const struct interest_node *node)
{
    assert(node->kind == NODE_PINNED);
    return (struct pin_node *)(uintptr_t)belfry_container_const(node, struct pin_node, node);
}

static struct interest_node *pins_base(const struct interest_node *node)
{
    return pin_of(node)->family->range->base;
}

/* `more` watchers of the node joined the population, or left it. */
static void pins_count(struct interest_node *node, unsigned population, int more)
{
    pin_of(node)->family->n_in[population] += (size_t)more;
}

static struct belfry_bytes pin_family_name(const struct pin_family *family)
{
    return belfry_bytes_of(family->name, family->name_len);
}

static struct pin_family *pin_family_get(struct interest *interest, struct range_more *range, struct belfry_bytes name)
{
    struct pin_family **at = &range->first;
    while (*at != NULL && !belfry_bytes_equal(pin_family_name(*at), name))
        at = &(*at)->next;
    if (*at != NULL)
        return *at;
    struct pin_family *family = calloc(1, sizeof(*family) + name.len);
    if (family == NULL)
        return NULL;
    family->range = range;
    family->serial = ++interest->families;
    belfry_list_init(&family->nodes);
    family->name_len = name.len;
    memcpy(family->name, name.data, name.len);
    interest->node_bytes += block_bytes(sizeof(*family) + name.len);
    *at = family;
    return family;
}

static void pin_family_end_if_empty(struct interest *interest, struct pin_family *family)
{
    struct pin_family **at = &family->range->first;
    if (!belfry_list_empty(&family->nodes))
        return;
    while (*at != family)
        at = &(*at)->next;
    *at = family->next;
    interest->node_bytes -= block_bytes(sizeof(*family) + family->name_len);
    free(family);
}

static uint64_t pin_hash(const struct interest *interest, const struct pin_family *family, struct belfry_bytes value)
{
    return belfry_hash_int(key_hash(interest, NODE_PINNED, value) + family->serial);
}

static struct interest_node *pin_look_up(const struct interest *interest, const struct pin_family *family,
                                         struct belfry_bytes value, uint64_t hash)
{
    struct table_link *link = table_first(&interest->pinned, hash);
    for (; link != NULL; link = table_next(link)) {
        struct interest_node *node = belfry_container(link, struct interest_node, link);
        if (pin_of(node)->family == family && belfry_bytes_equal(node_key(node), value))
            return node;
    }
    return NULL;
}

static struct interest_node *pin_node_create(struct interest *interest, struct pin_family *family,
                                             struct belfry_bytes value, uint64_t hash)
{
    struct pin_node *pin = calloc(1, sizeof(*pin) + value.len);
    if (pin == NULL)
        return NULL;
    pin->family = family;
    pin->node.kind = NODE_PINNED;
    pin->node.key_len = (uint32_t)value.len & NODE_KEY_MAX;
    if (value.len > 0)
        memcpy(&pin->node + 1, value.data, value.len);
    belfry_list_append(&family->nodes, &pin->sibling);
    table_add(&interest->pinned, hash, &pin->node.link);
    interest->n_nodes++;
    interest->node_bytes += block_bytes(sizeof(*pin) + value.len);
    return &pin->node;
}

/* The node of (base, pin) with one more watcher. *made: it is new, and counts among the watchers of `base`. */
static enum belfry_err pins_add(struct interest *interest, struct interest_node *base, const struct interest_pin *pin,
                                struct interest_node **out, bool *made)
{
    if (pin->name.len > NODE_KEY_MAX || pin->value.len > NODE_KEY_MAX)
        return BELFRY_ERR_NOMEM;
    struct range_more *range = range_more_get(interest, base);
    if (range == NULL)
        return BELFRY_ERR_NOMEM;
    struct pin_family *family = pin_family_get(interest, range, pin->name);
    if (family == NULL) {
        range_more_end_if_empty(interest, range);
        return BELFRY_ERR_NOMEM;
    }
    uint64_t hash = pin_hash(interest, family, pin->value);
    struct interest_node *node = pin_look_up(interest, family, pin->value, hash);
    *made = node == NULL;
    if (node == NULL)
        node = pin_node_create(interest, family, pin->value, hash);
    if (node == NULL) {
        pin_family_end_if_empty(interest, family);
        range_more_end_if_empty(interest, range);
        return BELFRY_ERR_NOMEM;
    }
    node->n_watchers++;
    *out = node;
    return BELFRY_OK;
}

/* Its last watcher is gone; the base stays. */
static void pins_remove(struct interest *interest, struct interest_node *node)
{
    struct pin_node *pin = pin_of(node);
    struct range_more *range = pin->family->range;
    belfry_list_remove(&pin->sibling);
    table_remove(&interest->pinned, &node->link);
    interest->n_nodes--;
    interest->node_bytes -= block_bytes(sizeof(*pin) + node->key_len);
    pin_family_end_if_empty(interest, pin->family);
    range_more_end_if_empty(interest, range);
    free(pin);
}

static enum belfry_err pins_found_value(struct interest *interest, const struct pin_family *family,
                                        struct belfry_bytes value, unsigned population)
{
    struct interest_node *node = pin_look_up(interest, family, value, pin_hash(interest, family, value));
    return node == NULL ? BELFRY_OK : found_add(interest, node, population);
}

static enum belfry_err pins_found_all(struct interest *interest, const struct pin_family *family, unsigned population)
{
    belfry_list_each (node, &family->nodes) {
        enum belfry_err err = found_add(interest, &belfry_container(node, struct pin_node, sibling)->node, population);
        if (err != BELFRY_OK)
            return err;
    }
    return BELFRY_OK;
}

static enum belfry_err pins_find_in(struct interest *interest, const struct pin_family *family, unsigned population,
                                    const struct interest_asker *asker)
{
    struct belfry_bytes before, after;
    enum belfry_err err = BELFRY_OK;
    if (batch_prev_lost(asker->batch, &asker->batch->events[asker->event]))
        return pins_found_all(interest, family, population);
    if (!asker->attribute(asker->user, asker->batch, asker->event, pin_family_name(family), &before, &after))
        return BELFRY_ERR_NOMEM;
    if (after.data != NULL)
        err = pins_found_value(interest, family, after, population);
    bool same = after.data != NULL && before.data != NULL && belfry_bytes_equal(before, after);
    if (before.data != NULL && !same && err == BELFRY_OK && !BELFRY_MUTANT(pin_by_new_value))
        err = pins_found_value(interest, family, before, population);
    return err;
}

/* Adds the pinned nodes below the range that want the event to the result. */
static enum belfry_err pins_find(struct interest *interest, const struct range_more *range, unsigned population,
                                 const struct interest_asker *asker)
{
    const struct pin_family *family = range->first;
    enum belfry_err err = BELFRY_OK;
    for (; family != NULL && err == BELFRY_OK; family = family->next) {
        if (family->n_in[population] > 0)
            err = pins_find_in(interest, family, population, asker);
    }
    return err;
}

/* ---- adding ---- */

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
    uint64_t hash = range_hash(interest, range);
    struct interest_node *node = find_equal(interest, range, hash);
    if (node == NULL) {
        bool fits = range->key.len <= NODE_KEY_MAX && range->end.len <= NODE_KEY_MAX;
        node = fits ? node_create(range) : NULL;
        if (node == NULL)
            return BELFRY_ERR_NOMEM;
        enum belfry_err err = node_register(interest, node, hash);
        if (err != BELFRY_OK) {
            node_destroy(node);
            return err;
        }
    }
    node->n_watchers++;
    interest->generation++;
    *out = node;
    return BELFRY_OK;
}

enum belfry_err interest_add(struct interest *interest, const struct range *range, const struct interest_pin *pin,
                             struct interest_node **out)
{
    BELFRY_OWNER_CHECK(interest);
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

/* ---- several ranges ---- */

static struct several_node *several_of(const struct interest_node *node)
{
    assert(node->kind == NODE_SEVERAL);
    return (struct several_node *)(uintptr_t)belfry_container_const(node, struct several_node, node);
}

static enum belfry_err name_add_text(struct belfry_buf *name, struct belfry_bytes text)
{
    uint32_t len = (uint32_t)text.len;
    enum belfry_err err = belfry_buf_append(name, &len, sizeof(len));
    return err != BELFRY_OK || len == 0 ? err : belfry_buf_append(name, text.data, text.len);
}

/* Lists of ranges that are equal have the same name, and no others. */
static enum belfry_err several_name(const struct range *ranges, size_t n, struct belfry_buf *name)
{
    enum belfry_err err = BELFRY_OK;
    for (size_t i = 0; i < n && err == BELFRY_OK; i++) {
        struct belfry_bytes end = ranges[i].kind == RANGE_SPAN ? ranges[i].end : belfry_bytes_of(NULL, 0);
        err = belfry_buf_append(name, &(char){(char)ranges[i].kind}, 1);
        if (err == BELFRY_OK)
            err = name_add_text(name, ranges[i].key);
        if (err == BELFRY_OK)
            err = name_add_text(name, end);
    }
    return err == BELFRY_OK && belfry_buf_len(name) > NODE_KEY_MAX ? BELFRY_ERR_NOMEM : err;
}

static struct interest_node *several_look_up(const struct interest *interest, struct belfry_bytes name, uint64_t hash)
{
    struct table_link *link = table_first(&interest->several, hash);
    while (link != NULL && !belfry_bytes_equal(node_key(belfry_container(link, struct interest_node, link)), name))
        link = table_next(link);
    return link == NULL ? NULL : belfry_container(link, struct interest_node, link);
}

static size_t several_bytes(const struct several_node *several)
{
    return block_bytes(sizeof(*several) + several->node.key_len + several->hull.key.len + several->hull.end.len) +
           block_bytes(several->n_members * sizeof(*several->members));
}

/* Not registered yet, and without members. */
static struct several_node *several_create(const struct range *hull, struct belfry_bytes name, size_t n)
{
    struct belfry_bytes end = hull->kind == RANGE_SPAN ? hull->end : belfry_bytes_of(NULL, 0);
    struct several_node *several = calloc(1, sizeof(*several) + name.len + hull->key.len + end.len);
    if (several == NULL)
        return NULL;
    several->members = calloc(n, sizeof(*several->members));
    if (several->members == NULL) {
        free(several);
        return NULL;
    }
    char *to = (char *)(&several->node + 1);
    several->node.kind = NODE_SEVERAL;
    several->node.key_len = (uint32_t)name.len & NODE_KEY_MAX;
    copy_bytes(to, name);
    several->hull = (struct range){hull->kind, belfry_bytes_of(to + name.len, hull->key.len),
                                   belfry_bytes_of(to + name.len + hull->key.len, end.len)};
    copy_bytes(to + name.len, hull->key);
    copy_bytes(to + name.len + hull->key.len, end);
    return several;
}

static enum belfry_err several_add_member(struct interest *interest, struct several_node *several,
                                          const struct range *range)
{
    struct several_member *member = &several->members[several->n_members];
    struct interest_node *base;
    enum belfry_err err = add_range(interest, range, &base);
    if (err != BELFRY_OK)
        return err;
    *member = (struct several_member){.range = range_more_get(interest, base), .of = several};
    if (member->range == NULL) {
        interest_drop(interest, base);
        return BELFRY_ERR_NOMEM;
    }
    belfry_list_append(&member->range->several, &member->link);
    several->n_members++;
    return BELFRY_OK;
}

static void several_destroy(struct interest *interest, struct several_node *several)
{
    while (several->n_members > 0) {
        struct several_member *member = &several->members[--several->n_members];
        struct interest_node *base = member->range->base;
        belfry_list_remove(&member->link);
        range_more_end_if_empty(interest, member->range);
        interest_drop(interest, base);
    }
    free(several->members);
    free(several);
}

static enum belfry_err several_make(struct interest *interest, const struct interest_several *ranges,
                                    struct belfry_bytes name, uint64_t hash, struct interest_node **out)
{
    struct several_node *several = several_create(&ranges->hull, name, ranges->n);
    if (several == NULL)
        return BELFRY_ERR_NOMEM;
    for (size_t i = 0; i < ranges->n - BELFRY_MUTANT(several_last_lost); i++) {
        enum belfry_err err = several_add_member(interest, several, &ranges->list[i]);
        if (err != BELFRY_OK) {
            several_destroy(interest, several);
            return err;
        }
    }
    table_add(&interest->several, hash, &several->node.link);
    interest->n_nodes++;
    interest->node_bytes += several_bytes(several);
    *out = &several->node;
    return BELFRY_OK;
}

static void several_remove(struct interest *interest, struct interest_node *node)
{
    struct several_node *several = several_of(node);
    table_remove(&interest->several, &node->link);
    interest->n_nodes--;
    interest->node_bytes -= several_bytes(several);
    several_destroy(interest, several);
}

enum belfry_err interest_add_several(struct interest *interest, const struct interest_several *ranges,
                                     struct interest_node **out)
{
    BELFRY_OWNER_CHECK(interest);
    struct belfry_buf name;
    struct interest_node *node = NULL;
    belfry_buf_init(&name);
    enum belfry_err err = several_name(ranges->list, ranges->n, &name);
    if (err == BELFRY_OK) {
        uint64_t hash = key_hash(interest, NODE_SEVERAL, belfry_buf_bytes(&name));
        node = several_look_up(interest, belfry_buf_bytes(&name), hash);
        if (node == NULL)
            err = several_make(interest, ranges, belfry_buf_bytes(&name), hash, &node);
    }
    belfry_buf_fini(&name);
    if (err != BELFRY_OK)
        return err;
    node->n_watchers++;
    interest->generation++;
    *out = node;
    return BELFRY_OK;
}

/* Adds the nodes of several ranges of which this is one; each once, from whichever of its ranges. */
static enum belfry_err several_find(struct interest *interest, const struct range_more *range, unsigned population)
{
    belfry_list_each (link, &range->several) {
        struct several_node *several = belfry_container(link, struct several_member, link)->of;
        if (several->found == interest->lookups && !BELFRY_MUTANT(several_found_twice))
            continue;
        several->found = interest->lookups;
        enum belfry_err err = found_add(interest, &several->node, population);
        if (err != BELFRY_OK)
            return err;
    }
    return BELFRY_OK;
}

/* ---- dropping ---- */

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
    BELFRY_OWNER_CHECK(interest);
    interest->generation++;
    if (--node->n_watchers > 0)
        return;
    assert(node->live == NULL && node->riders == NULL);
    if (node->kind == NODE_SEVERAL) {
        several_remove(interest, node);
        return;
    }
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
    interest->node_bytes += block_bytes(sizeof(*riders));
    return riders;
}

static void riders_destroy(struct interest *interest, struct riders **at)
{
    struct riders *riders = *at;
    *at = riders->next;
    belfry_list_remove(&riders->link);
    interest->node_bytes -= block_bytes(sizeof(*riders));
    free(riders);
}

enum belfry_err interest_join(struct interest *interest, struct watcher *watcher, unsigned population)
{
    BELFRY_OWNER_CHECK(interest);
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
    interest->generation++;
    belfry_treap_insert(root, &watcher->place, by_stream_and_id);
    if (node->kind == NODE_PINNED)
        pins_count(node, population, 1);
    return BELFRY_OK;
}

void interest_leave(struct interest *interest, struct watcher *watcher, unsigned population)
{
    BELFRY_OWNER_CHECK(interest);
    assert(population < POPULATIONS);
    interest->generation++;
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

static int seek_place(const void *key, const struct belfry_treap_node *node)
{
    const struct interest_place *want = key;
    const struct watcher *watcher = belfry_container_const(node, struct watcher, place);
    uint64_t serial = watcher->stream->serial;
    if (want->serial != serial)
        return want->serial < serial ? -1 : 1;
    return (want->id > watcher->id) - (want->id < watcher->id);
}

void interest_walk(const struct interest_node *node, unsigned population, const struct interest_place *from,
                   struct belfry_treap_walk *walk)
{
    belfry_treap_walk(walk, interest_population(node, population), from, seek_place);
}

void interest_range(const struct interest_node *node, struct range *out)
{
    if (node->kind == NODE_SEVERAL) {
        *out = several_of(node)->hull;
        return;
    }
    if (node->kind == NODE_PINNED)
        node = pins_base(node);
    *out = (struct range){(enum range_kind)node->kind, node_key(node), node_end(node)};
}

/* ---- looking up ---- */

/* A range's node (NULL: there is none), what is pinned below it, and nodes of several ranges of which it is one. */
static enum belfry_err found_range(struct interest *interest, struct interest_node *node, unsigned population,
                                   const struct interest_asker *asker)
{
    if (node == NULL)
        return BELFRY_OK;
    enum belfry_err err = found_add(interest, node, population);
    if (!node->has_more || err != BELFRY_OK)
        return err;
    const struct range_more *range = range_more_find(interest, node);
    err = several_find(interest, range, population);
    return asker == NULL || err != BELFRY_OK ? err : pins_find(interest, range, population, asker);
}

static enum belfry_err find_hashed(struct interest *interest, struct belfry_bytes key, unsigned population,
                                   const struct interest_asker *asker)
{
    struct keyhash hash;
    keyhash_begin(&hash, &interest->secret, key);
    for (size_t i = 0; i < interest->n_lengths && interest->lengths[i].len <= key.len; i++) {
        size_t len = interest->lengths[i].len;
        uint64_t prefix = keyhash_at(&hash, len, RANGE_PREFIX);
        struct interest_node *node = node_look_up(interest, prefix, RANGE_PREFIX, key, len);
        enum belfry_err err = found_range(interest, node, population, asker);
        if (err != BELFRY_OK)
            return err;
    }
    uint64_t whole = keyhash_at(&hash, key.len, RANGE_KEY);
    return found_range(interest, node_look_up(interest, whole, RANGE_KEY, key, key.len), population, asker);
}

enum belfry_err interest_find(struct interest *interest, struct belfry_bytes key, unsigned population,
                              const struct interest_asker *asker, struct interest_node ***nodes, size_t *n)
{
    BELFRY_OWNER_CHECK(interest);
    interest->n_found = 0;
    interest->lookups++;
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

uint64_t interest_generation(const struct interest *interest)
{
    return interest->generation;
}

/* ---- what a watcher costs ---- */

#define BUCKET (2 * sizeof(void *)) /* of a table, which has up to twice as many as nodes */

static size_t range_cost(const struct range *range)
{
    bool is_span = range->kind == RANGE_SPAN;
    size_t head = is_span ? sizeof(struct span_node) : sizeof(struct interest_node);
    return block_bytes(head + range->key.len + (is_span ? range->end.len : 0)) + BUCKET;
}

size_t interest_cost(const struct range *range, const struct interest_pin *pin)
{
    size_t cost = range_cost(range);
    if (pin == NULL)
        return cost;
    return cost + block_bytes(sizeof(struct range_more)) + BUCKET +
           block_bytes(sizeof(struct pin_family) + pin->name.len) +
           block_bytes(sizeof(struct pin_node) + pin->value.len) + BUCKET;
}

/* Of a node with a name of that length, besides its ranges. */
static size_t several_cost(const struct range *hull, size_t name_len, size_t n)
{
    size_t hull_len = hull->key.len + (hull->kind == RANGE_SPAN ? hull->end.len : 0);
    return block_bytes(sizeof(struct several_node) + name_len + hull_len) +
           block_bytes(n * sizeof(struct several_member)) + BUCKET +
           n * (block_bytes(sizeof(struct range_more)) + BUCKET);
}

size_t interest_cost_several(const struct interest_several *ranges)
{
    size_t name_len = 0, cost = 0;
    for (size_t i = 0; i < ranges->n; i++) {
        const struct range *range = &ranges->list[i];
        name_len += 1 + 2 * sizeof(uint32_t) + range->key.len + (range->kind == RANGE_SPAN ? range->end.len : 0);
        cost += range_cost(range);
    }
    return cost + several_cost(&ranges->hull, name_len, ranges->n);
}

size_t interest_node_cost(const struct interest_node *node)
{
    struct range range;
    if (node->kind == NODE_PINNED) {
        struct interest_pin pin = {pin_family_name(pin_of(node)->family), node_key(node)};
        interest_range(pins_base(node), &range);
        return interest_cost(&range, &pin);
    }
    if (node->kind != NODE_SEVERAL) {
        interest_range(node, &range);
        return interest_cost(&range, NULL);
    }
    const struct several_node *several = several_of(node);
    size_t cost = several_cost(&several->hull, node->key_len, several->n_members);
    for (size_t i = 0; i < several->n_members; i++) {
        interest_range(several->members[i].range->base, &range);
        cost += range_cost(&range);
    }
    return cost;
}

size_t interest_n_nodes(const struct interest *interest)
{
    return interest->n_nodes;
}

size_t interest_bytes(const struct interest *interest)
{
    return sizeof(*interest) + interest->node_bytes + table_bytes(&interest->table) + table_bytes(&interest->pinned) +
           table_bytes(&interest->several) + table_bytes(&interest->range_mores) +
           interest->cap_lengths * sizeof(*interest->lengths) + interest->cap_found * sizeof(*interest->found);
}
