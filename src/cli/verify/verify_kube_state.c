/* src/cli/verify/verify_kube_state.c */
#include "cli/verify/verify_kube_state.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct verify_kube_item {
    char *key;
    int64_t version;
    uint64_t hash; /* of the bytes */
};

static struct verify_kube_item *item_room(struct verify_kube_list *list)
{
    if (list->n == list->room) {
        size_t room = list->room > 0 ? list->room * 2 : 256;
        struct verify_kube_item *items = realloc(list->items, room * sizeof(*items));
        if (items == NULL)
            return NULL;
        list->items = items;
        list->room = room;
    }
    return &list->items[list->n];
}

enum belfry_err verify_kube_list_add(struct verify_kube_list *list, struct belfry_bytes key, int64_t version,
                                     struct belfry_bytes json)
{
    struct verify_kube_item *item = item_room(list);
    char *copy = item == NULL ? NULL : strndup(key.data, key.len);
    if (copy == NULL)
        return BELFRY_ERR_NOMEM;
    *item = (struct verify_kube_item){.key = copy, .version = version, .hash = belfry_hash(list->hash_key, json)};
    list->n++;
    return BELFRY_OK;
}

void verify_kube_list_clear(struct verify_kube_list *list)
{
    for (size_t i = 0; i < list->n; i++)
        free(list->items[i].key);
    free(list->items);
    *list = (struct verify_kube_list){.hash_key = list->hash_key};
}

static int by_key(const void *a, const void *b)
{
    const struct verify_kube_item *one = a, *other = b;
    return strcmp(one->key, other->key);
}

/* A pair of lists that is compared. */
struct pair {
    const struct verify_kube_list *reference, *tier;
    verify_kube_difference_fn fn;
    void *user;
};

/* Only the reference has it. It may have been deleted since, if the tier's list is the newer one. */
static void tell_missing(const struct pair *pair, const struct verify_kube_item *item)
{
    if (item->version <= pair->tier->version && pair->tier->version <= pair->reference->version)
        pair->fn(VERIFY_KUBE_MISSING, item->key, item->version, pair->user);
}

static void tell_extra(const struct pair *pair, const struct verify_kube_item *item)
{
    if (item->version <= pair->reference->version && pair->reference->version <= pair->tier->version)
        pair->fn(VERIFY_KUBE_EXTRA, item->key, item->version, pair->user);
}

/* Both have it. True: they agree. */
static bool compare_item(const struct pair *pair, const struct verify_kube_item *ours,
                         const struct verify_kube_item *theirs)
{
    if (ours->version > pair->tier->version || theirs->version > pair->reference->version)
        return false;
    bool is_same_version = ours->version == theirs->version, is_same = is_same_version && ours->hash == theirs->hash;
    if (!is_same)
        pair->fn(is_same_version ? VERIFY_KUBE_BYTES : VERIFY_KUBE_VERSION, ours->key, ours->version, pair->user);
    return is_same;
}

static void sort(struct verify_kube_list *list)
{
    if (list->n > 0)
        qsort(list->items, list->n, sizeof(*list->items), by_key);
}

size_t verify_kube_compare(struct verify_kube_list *reference, struct verify_kube_list *tier,
                           verify_kube_difference_fn fn, void *user)
{
    const struct pair pair = {reference, tier, fn, user};
    size_t i = 0, j = 0, n_same = 0;
    sort(reference);
    sort(tier);
    while (i < reference->n || j < tier->n) {
        int order = i == reference->n ? 1 : j == tier->n ? -1 : strcmp(reference->items[i].key, tier->items[j].key);
        if (order < 0) {
            tell_missing(&pair, &reference->items[i++]);
        } else if (order > 0) {
            tell_extra(&pair, &tier->items[j++]);
        } else {
            n_same += compare_item(&pair, &reference->items[i++], &tier->items[j++]);
        }
    }
    return n_same;
}
