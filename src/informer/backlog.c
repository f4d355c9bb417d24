/* src/informer/backlog.c */
#include "informer/backlog.h"

#include <stdlib.h>
#include <string.h>

struct belfry_kept {
    struct belfry_list node;
    struct belfry_told told; /* its key is in `key` */
    char key[];
};

void belfry_backlog_init(struct belfry_backlog *backlog)
{
    belfry_list_init(&backlog->kept);
}

void belfry_backlog_fini(struct belfry_backlog *backlog)
{
    struct belfry_kept *kept;
    struct belfry_told told;
    while ((kept = belfry_backlog_take(backlog, &told)) != NULL) {
        belfry_object_unref(told.object);
        belfry_backlog_free(kept);
    }
}

enum belfry_err belfry_backlog_add(struct belfry_backlog *backlog, const struct belfry_told *told)
{
    struct belfry_kept *kept = malloc(sizeof(*kept) + told->key.len);
    if (kept == NULL) {
        belfry_object_unref(told->object);
        return BELFRY_ERR_NOMEM;
    }
    kept->told = *told;
    kept->told.key.data = kept->key;
    if (told->key.len > 0)
        memcpy(kept->key, told->key.data, told->key.len);
    belfry_list_init(&kept->node);
    belfry_list_append(&backlog->kept, &kept->node);
    return BELFRY_OK;
}

struct belfry_kept *belfry_backlog_take(struct belfry_backlog *backlog, struct belfry_told *out)
{
    struct belfry_list *first = belfry_list_pop(&backlog->kept);
    if (first == NULL)
        return NULL;
    struct belfry_kept *kept = belfry_container(first, struct belfry_kept, node);
    *out = kept->told;
    return kept;
}

void belfry_backlog_free(struct belfry_kept *kept)
{
    free(kept);
}
