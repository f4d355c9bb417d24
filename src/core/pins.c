/* src/core/pins.c: nodes that are looked up by a value: below a range, for each attribute that somebody has pinned there
 * (a family), the values in use.
 *
 *     range ---> family "spec.nodeName" ---> n1, n2, n3, ...   (one hash table for all families and values)
 *            `-> family "app"           ---> web, db
 *
 * An event asks for each family of a matching range once what its values are, before and after, and probes the table for
 * these. A family none of whose watchers are in the population is not asked for: the answer costs the dialect a parse. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/sim.h"
#include "core/interest_private.h"

struct pin_family {
    struct pin_family *next; /* of the same range, in the order in which they came */
    struct pin_range *range;
    uint64_t serial;          /* makes different hashes of equal values */
    struct belfry_list nodes; /* in the order in which they came */
    size_t n_in[POPULATIONS]; /* watchers */
    size_t name_len;
    char name[];
};

/* A range's families. */
struct pin_range {
    struct table_link link;
    struct interest_node *base;
    struct pin_family *first;
};

struct pin_node {
    struct pin_family *family;
    struct belfry_list sibling;
    struct interest_node node; /* last: the value's bytes follow */
};

static struct pin_node *pin_of(const struct interest_node *node)
{
    assert(node->kind == NODE_PINNED);
    return (struct pin_node *)(uintptr_t)belfry_container_const(node, struct pin_node, node);
}

struct interest_node *pins_base(const struct interest_node *node)
{
    return pin_of(node)->family->range->base;
}

void pins_count(struct interest_node *node, unsigned population, int more)
{
    pin_of(node)->family->n_in[population] += (size_t)more;
}

/* ---- ranges ---- */

static struct pin_range *range_find(const struct interest *interest, const struct interest_node *base)
{
    struct table_link *link = table_first(&interest->pin_ranges, base->link.hash);
    while (link != NULL && belfry_container(link, struct pin_range, link)->base != base)
        link = table_next(link);
    return link == NULL ? NULL : belfry_container(link, struct pin_range, link);
}

static struct pin_range *range_get(struct interest *interest, struct interest_node *base)
{
    if (base->has_pins)
        return range_find(interest, base);
    struct pin_range *range = calloc(1, sizeof(*range));
    if (range == NULL)
        return NULL;
    range->base = base;
    base->has_pins = 1;
    table_add(&interest->pin_ranges, base->link.hash, &range->link);
    interest->node_bytes += interest_block_bytes(sizeof(*range));
    return range;
}

static void range_end_if_empty(struct interest *interest, struct pin_range *range)
{
    if (range->first != NULL)
        return;
    range->base->has_pins = 0;
    table_remove(&interest->pin_ranges, &range->link);
    interest->node_bytes -= interest_block_bytes(sizeof(*range));
    free(range);
}

/* ---- families ---- */

static struct belfry_bytes family_name(const struct pin_family *family)
{
    return belfry_bytes_of(family->name, family->name_len);
}

static struct pin_family *family_get(struct interest *interest, struct pin_range *range, struct belfry_bytes name)
{
    struct pin_family **at = &range->first;
    while (*at != NULL && !belfry_bytes_equal(family_name(*at), name))
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
    interest->node_bytes += interest_block_bytes(sizeof(*family) + name.len);
    *at = family;
    return family;
}

static void family_end_if_empty(struct interest *interest, struct pin_family *family)
{
    struct pin_family **at = &family->range->first;
    if (!belfry_list_empty(&family->nodes))
        return;
    while (*at != family)
        at = &(*at)->next;
    *at = family->next;
    interest->node_bytes -= interest_block_bytes(sizeof(*family) + family->name_len);
    free(family);
}

/* ---- nodes ---- */

static struct belfry_bytes node_value(const struct interest_node *node)
{
    return belfry_bytes_of(node + 1, node->key_len);
}

static uint64_t hash_of(const struct interest *interest, const struct pin_family *family, struct belfry_bytes value)
{
    return belfry_hash_int(interest_hash(interest, NODE_PINNED, value) + family->serial);
}

static struct interest_node *look_up(const struct interest *interest, const struct pin_family *family,
                                     struct belfry_bytes value, uint64_t hash)
{
    struct table_link *link = table_first(&interest->pinned, hash);
    for (; link != NULL; link = table_next(link)) {
        struct interest_node *node = belfry_container(link, struct interest_node, link);
        if (pin_of(node)->family == family && belfry_bytes_equal(node_value(node), value))
            return node;
    }
    return NULL;
}

static struct interest_node *node_create(struct interest *interest, struct pin_family *family,
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
    interest->node_bytes += interest_block_bytes(sizeof(*pin) + value.len);
    return &pin->node;
}

enum belfry_err pins_add(struct interest *interest, struct interest_node *base, const struct interest_pin *pin,
                         struct interest_node **out, bool *made)
{
    if (pin->name.len > NODE_KEY_MAX || pin->value.len > NODE_KEY_MAX)
        return BELFRY_ERR_NOMEM;
    struct pin_range *range = range_get(interest, base);
    if (range == NULL)
        return BELFRY_ERR_NOMEM;
    struct pin_family *family = family_get(interest, range, pin->name);
    if (family == NULL) {
        range_end_if_empty(interest, range);
        return BELFRY_ERR_NOMEM;
    }
    uint64_t hash = hash_of(interest, family, pin->value);
    struct interest_node *node = look_up(interest, family, pin->value, hash);
    *made = node == NULL;
    if (node == NULL)
        node = node_create(interest, family, pin->value, hash);
    if (node == NULL) {
        family_end_if_empty(interest, family);
        range_end_if_empty(interest, range);
        return BELFRY_ERR_NOMEM;
    }
    node->n_watchers++;
    *out = node;
    return BELFRY_OK;
}

void pins_remove(struct interest *interest, struct interest_node *node)
{
    struct pin_node *pin = pin_of(node);
    struct pin_range *range = pin->family->range;
    belfry_list_remove(&pin->sibling);
    table_remove(&interest->pinned, &node->link);
    interest->n_nodes--;
    interest->node_bytes -= interest_block_bytes(sizeof(*pin) + node->key_len);
    family_end_if_empty(interest, pin->family);
    range_end_if_empty(interest, range);
    free(pin);
}

/* ---- finding ---- */

static enum belfry_err found_value(struct interest *interest, const struct pin_family *family,
                                   struct belfry_bytes value, unsigned population)
{
    struct interest_node *node = look_up(interest, family, value, hash_of(interest, family, value));
    return node == NULL ? BELFRY_OK : interest_found(interest, node, population);
}

static enum belfry_err found_all(struct interest *interest, const struct pin_family *family, unsigned population)
{
    belfry_list_each (node, &family->nodes) {
        enum belfry_err err =
            interest_found(interest, &belfry_container(node, struct pin_node, sibling)->node, population);
        if (err != BELFRY_OK)
            return err;
    }
    return BELFRY_OK;
}

static enum belfry_err find_in(struct interest *interest, const struct pin_family *family, unsigned population,
                               const struct interest_asker *asker)
{
    struct belfry_bytes before, after;
    enum belfry_err err = BELFRY_OK;
    if (batch_prev_lost(asker->batch, &asker->batch->events[asker->event]))
        return found_all(interest, family, population);
    if (!asker->attribute(asker->user, asker->batch, asker->event, family_name(family), &before, &after))
        return BELFRY_ERR_NOMEM;
    if (after.data != NULL)
        err = found_value(interest, family, after, population);
    bool same = after.data != NULL && before.data != NULL && belfry_bytes_equal(before, after);
    if (before.data != NULL && !same && err == BELFRY_OK && !BELFRY_MUTANT(pin_by_new_value))
        err = found_value(interest, family, before, population);
    return err;
}

enum belfry_err pins_find(struct interest *interest, const struct interest_node *base, unsigned population,
                          const struct interest_asker *asker)
{
    const struct pin_family *family = range_find(interest, base)->first;
    enum belfry_err err = BELFRY_OK;
    for (; family != NULL && err == BELFRY_OK; family = family->next) {
        if (family->n_in[population] > 0)
            err = find_in(interest, family, population, asker);
    }
    return err;
}
