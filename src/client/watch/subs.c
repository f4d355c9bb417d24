/* src/client/watch/subs.c */
#include "client/watch/subs.h"

#include <assert.h>
#include <stdlib.h>

#include "base/hash.h"

void belfry_subs_init(struct belfry_subs *subs)
{
    *subs = (struct belfry_subs){0};
    belfry_list_init(&subs->creating);
    belfry_list_init(&subs->cancels);
    belfry_map_init(&subs->by_id);
}

void belfry_subs_fini(struct belfry_subs *subs)
{
    belfry_subs_drop(subs);
    belfry_map_fini(&subs->by_id);
}

void belfry_subs_drop(struct belfry_subs *subs)
{
    struct belfry_sub *sub;
    while ((sub = belfry_subs_first(subs)) != NULL)
        belfry_subs_free(subs, sub);
    struct belfry_map_node *node;
    while ((node = belfry_map_drain(&subs->by_id)) != NULL) {
        sub = belfry_container(node, struct belfry_sub, by_id);
        belfry_list_remove(&sub->node);
        free(sub);
    }
    subs->n_unknown = 0;
}

struct belfry_sub *belfry_subs_add(struct belfry_subs *subs, struct belfry_mux_watch *watch, size_t bytes)
{
    struct belfry_sub *sub = calloc(1, sizeof(*sub));
    if (sub == NULL)
        return NULL;
    sub->state = BELFRY_SUB_CREATING;
    sub->watch = watch;
    sub->bytes = bytes;
    belfry_list_append(&subs->creating, &sub->node);
    subs->n_creating++;
    subs->creating_bytes += bytes;
    return sub;
}

struct belfry_sub *belfry_subs_first(const struct belfry_subs *subs)
{
    return belfry_list_empty(&subs->creating) ? NULL : belfry_container(subs->creating.next, struct belfry_sub, node);
}

static void leave_line(struct belfry_subs *subs, struct belfry_sub *sub)
{
    belfry_list_remove(&sub->node);
    subs->n_creating--;
    subs->creating_bytes -= sub->bytes;
}

void belfry_subs_name(struct belfry_subs *subs, struct belfry_sub *sub, int64_t id)
{
    assert(sub->state == BELFRY_SUB_CREATING && belfry_subs_find(subs, id) == NULL);
    leave_line(subs, sub);
    sub->id = id;
    sub->state = BELFRY_SUB_LIVE;
    belfry_map_add(&subs->by_id, belfry_hash_int((uint64_t)id), &sub->by_id);
}

struct belfry_sub *belfry_subs_find(const struct belfry_subs *subs, int64_t id)
{
    struct belfry_map_node *node = belfry_map_first(&subs->by_id, belfry_hash_int((uint64_t)id));
    while (node != NULL && belfry_container(node, struct belfry_sub, by_id)->id != id)
        node = belfry_map_next(node);
    return node == NULL ? NULL : belfry_container(node, struct belfry_sub, by_id);
}

struct belfry_sub *belfry_subs_add_unknown(struct belfry_subs *subs, int64_t id)
{
    struct belfry_sub *sub = belfry_subs_add(subs, NULL, 0);
    if (sub == NULL)
        return NULL;
    subs->n_unknown++;
    belfry_subs_name(subs, sub, id);
    belfry_subs_cancel(subs, sub);
    return sub;
}

void belfry_subs_cancel(struct belfry_subs *subs, struct belfry_sub *sub)
{
    sub->watch = NULL;
    if (sub->state != BELFRY_SUB_LIVE)
        return;
    sub->state = BELFRY_SUB_CANCEL_DUE;
    belfry_list_append(&subs->cancels, &sub->node);
}

struct belfry_sub *belfry_subs_due(const struct belfry_subs *subs)
{
    return belfry_list_empty(&subs->cancels) ? NULL : belfry_container(subs->cancels.next, struct belfry_sub, node);
}

void belfry_subs_cancel_sent(struct belfry_sub *sub)
{
    assert(sub->state == BELFRY_SUB_CANCEL_DUE);
    belfry_list_remove(&sub->node);
    sub->state = BELFRY_SUB_CANCEL_SENT;
}

void belfry_subs_free(struct belfry_subs *subs, struct belfry_sub *sub)
{
    if (sub->state == BELFRY_SUB_CREATING) {
        leave_line(subs, sub);
    } else {
        belfry_list_remove(&sub->node);
        belfry_map_remove(&subs->by_id, &sub->by_id);
    }
    free(sub);
}
