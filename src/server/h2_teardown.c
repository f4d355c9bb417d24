/* src/server/h2_teardown.c */
#include "server/h2_teardown.h"

#include <stdlib.h>

#define AT_ONCE    16   /* exchanges that end when their connection ends */
#define FREED_HERE 1024 /* exchanges whose streams the loop frees itself: about half a millisecond */
#define PER_STEP   256  /* exchanges ended: about half a millisecond */

struct freeing {
    uv_work_t work;
    struct h2_server *h2;
};

static void on_freeing(uv_work_t *work)
{
    struct freeing *freeing = work->data;
    h2_server_destroy(freeing->h2);
}

static void on_freed(uv_work_t *work, int status)
{
    (void)status;
    free(work->data);
}

/* No exchange is left: any thread may free it. */
static void free_elsewhere(uv_loop_t *loop, struct h2_server *h2)
{
    struct freeing *freeing = calloc(1, sizeof(*freeing));
    if (freeing == NULL) {
        h2_server_destroy(h2);
        return;
    }
    freeing->h2 = h2;
    freeing->work.data = freeing;
    uv_queue_work(loop, &freeing->work, on_freeing, on_freed);
}

bool h2_teardown_begin(struct h2_teardown *teardown, struct h2_server *h2, struct h2_teardown_item *item,
                       void (*done)(struct h2_teardown_item *item))
{
    *item = (struct h2_teardown_item){.h2 = h2, .n_exchanges = h2_server_open(h2), .done = done};
    belfry_list_init(&item->node);
    if (h2_server_let_go(h2, teardown->loop == NULL ? SIZE_MAX : AT_ONCE)) {
        h2_server_destroy(h2);
        return true;
    }
    belfry_list_append(&teardown->items, &item->node);
    return false;
}

/* Ends at most `most` exchanges and returns how many. */
static size_t item_step(struct h2_teardown *teardown, struct h2_teardown_item *item, size_t most)
{
    struct h2_server *h2 = item->h2;
    size_t n = h2_server_open(h2);
    if (!h2_server_let_go(h2, most))
        return most;
    if (item->n_exchanges > FREED_HERE && teardown->loop != NULL)
        free_elsewhere(teardown->loop, h2);
    else
        h2_server_destroy(h2);
    belfry_list_remove(&item->node);
    item->done(item);
    return n;
}

bool h2_teardown_step(struct h2_teardown *teardown)
{
    size_t budget = teardown->loop == NULL ? SIZE_MAX : PER_STEP;
    while (budget > 0 && !belfry_list_empty(&teardown->items))
        budget -= item_step(teardown, belfry_container(teardown->items.next, struct h2_teardown_item, node), budget);
    return !belfry_list_empty(&teardown->items);
}

void h2_teardown_all(struct h2_teardown *teardown)
{
    teardown->loop = NULL;
    h2_teardown_step(teardown);
}
