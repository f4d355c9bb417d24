/* src/core/waiting.c */
#include "core/waiting.h"

#include "core/stream.h"
#include "core/watcher.h"

static int watchers_by_cursor(const struct belfry_treap_node *a, const struct belfry_treap_node *b)
{
    const struct watcher *x = belfry_container_const(a, struct watcher, place);
    const struct watcher *y = belfry_container_const(b, struct watcher, place);
    if (x->next != y->next)
        return x->next < y->next ? -1 : 1;
    if (x->stream->serial != y->stream->serial)
        return x->stream->serial < y->stream->serial ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

/* The queue of the client, else one that is empty, else the shortest. */
static struct waiting_queue *choose_queue(struct waiting *waiting, uint64_t client)
{
    struct waiting_queue *shortest = &waiting->queues[0];
    for (size_t i = 0; i < WAITING_QUEUES; i++) {
        struct waiting_queue *queue = &waiting->queues[i];
        if (queue->n > 0 && queue->client == client)
            return queue;
        if (queue->n < shortest->n)
            shortest = queue;
    }
    return shortest;
}

void waiting_add(struct waiting *waiting, struct watcher *watcher)
{
    struct waiting_queue *queue = choose_queue(waiting, watcher->stream->client);
    if (queue->n == 0)
        *queue = (struct waiting_queue){.client = watcher->stream->client};
    watcher->queue = (uint8_t)(queue - waiting->queues);
    belfry_treap_insert(&queue->watchers, &watcher->place, watchers_by_cursor);
    queue->n++;
    waiting->n++;
}

void waiting_remove(struct waiting *waiting, struct watcher *watcher)
{
    struct waiting_queue *queue = &waiting->queues[watcher->queue];
    belfry_treap_remove(&queue->watchers, &watcher->place, watchers_by_cursor);
    queue->n--;
    waiting->n--;
}

static int seek_cursor(const void *key, const struct belfry_treap_node *node)
{
    const struct watcher *watcher = belfry_container_const(node, struct watcher, place);
    return *(const int64_t *)key <= watcher->next ? -1 : 1;
}

struct watcher *waiting_queue_from(const struct waiting_queue *queue, int64_t cursor)
{
    struct belfry_treap_walk walk;
    if (queue->n == 0)
        return NULL;
    belfry_treap_walk(&walk, queue->watchers, &cursor, seek_cursor);
    return watcher_at_place(belfry_treap_next(&walk));
}

struct watcher *waiting_from(const struct waiting *waiting, int64_t cursor)
{
    struct watcher *first = NULL;
    for (size_t i = 0; i < WAITING_QUEUES; i++) {
        struct watcher *watcher = waiting_queue_from(&waiting->queues[i], cursor);
        if (watcher != NULL && (first == NULL || watchers_by_cursor(&watcher->place, &first->place) < 0))
            first = watcher;
    }
    return first;
}
