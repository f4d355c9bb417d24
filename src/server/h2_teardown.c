/* src/server/h2_teardown.c */
#include "server/h2_teardown.h"

#include <stdlib.h>

#include "thread/thread.h"

#define AT_ONCE    16   /* exchanges that end when their connection ends */
#define FREED_HERE 1024 /* exchanges whose streams the loop frees itself: about half a millisecond */
#define PER_STEP   256  /* exchanges ended: about half a millisecond */

/* ---- freeing on another thread ---- */

struct freeing {
    struct belfry_list node;
    struct h2_server *h2;
};

static void *free_all(void *arg)
{
    struct h2_teardown *teardown = arg;
    pthread_detach(pthread_self());
    pthread_mutex_lock(&teardown->mu);
    for (struct belfry_list *node; (node = belfry_list_pop(&teardown->freeing)) != NULL;) {
        struct freeing *freeing = belfry_container(node, struct freeing, node);
        pthread_mutex_unlock(&teardown->mu);
        h2_server_destroy(freeing->h2);
        free(freeing);
        pthread_mutex_lock(&teardown->mu);
    }
    teardown->frees = false;
    pthread_cond_signal(&teardown->freed);
    pthread_mutex_unlock(&teardown->mu);
    return NULL;
}

/* No exchange is left: any thread may free it. If there can be no thread, this one does. */
static void free_elsewhere(struct h2_teardown *teardown, struct h2_server *h2)
{
    pthread_t id;
    struct freeing *freeing = calloc(1, sizeof(*freeing));
    if (freeing == NULL) {
        h2_server_destroy(h2);
        return;
    }
    freeing->h2 = h2;
    pthread_mutex_lock(&teardown->mu);
    belfry_list_append(&teardown->freeing, &freeing->node);
    bool starts = !teardown->frees;
    teardown->frees = true;
    pthread_mutex_unlock(&teardown->mu);
    if (!starts || thread_spawn(&id, free_all, teardown) == 0)
        return;
    teardown->frees = false; /* no other thread is there to see it */
    belfry_list_remove(&freeing->node);
    h2_server_destroy(h2);
    free(freeing);
}

static void await_freed(struct h2_teardown *teardown)
{
    pthread_mutex_lock(&teardown->mu);
    while (teardown->frees)
        pthread_cond_wait(&teardown->freed, &teardown->mu);
    pthread_mutex_unlock(&teardown->mu);
}

/* ---- ending in steps ---- */

void h2_teardown_init(struct h2_teardown *teardown, uv_loop_t *loop)
{
    *teardown = (struct h2_teardown){.loop = loop, .mu = PTHREAD_MUTEX_INITIALIZER, .freed = PTHREAD_COND_INITIALIZER};
    belfry_list_init(&teardown->items);
    belfry_list_init(&teardown->freeing);
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
        free_elsewhere(teardown, h2);
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
    await_freed(teardown);
}
