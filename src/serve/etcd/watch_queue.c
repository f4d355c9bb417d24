/* src/serve/etcd/watch_queue.c */
#include "serve/etcd/watch_queue.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/pack.h"

static struct watch_waiting *waiting_of(struct belfry_list *node)
{
    return belfry_container(node, struct watch_waiting, node);
}

void watch_queue_init(struct watch_queue *queue)
{
    *queue = (struct watch_queue){0};
    belfry_list_init(&queue->requests);
}

void watch_queue_fini(struct watch_queue *queue)
{
    while (!belfry_list_empty(&queue->requests))
        watch_queue_remove(queue, waiting_of(queue->requests.next));
}

static size_t waiting_bytes(const struct watch_waiting *waiting)
{
    return sizeof(*waiting) + waiting->message.len;
}

enum belfry_err watch_queue_add(struct watch_queue *queue, struct belfry_bytes message, enum watch_wait state,
                                struct watch_waiting **out)
{
    assert(state == WATCH_WAIT_PLAIN || state == WATCH_WAIT_UNASKED);
    struct watch_waiting *waiting = malloc(sizeof(*waiting) + message.len);
    if (waiting == NULL)
        return BELFRY_ERR_NOMEM;
    char *to = waiting->text;
    *waiting = (struct watch_waiting){.state = state};
    waiting->message = belfry_pack(&to, message);
    belfry_list_init(&waiting->node);
    belfry_list_append(&queue->requests, &waiting->node);
    queue->n++;
    queue->bytes += waiting_bytes(waiting);
    *out = waiting;
    return BELFRY_OK;
}

void watch_queue_remove(struct watch_queue *queue, struct watch_waiting *waiting)
{
    assert(waiting->claim == NULL);
    belfry_list_remove(&waiting->node);
    queue->n--;
    queue->bytes -= waiting_bytes(waiting);
    free(waiting->reason);
    free(waiting);
}

void watch_waiting_move_to(struct watch_waiting *waiting, enum watch_wait to)
{
    assert(waiting->state == (to == WATCH_WAIT_ASKED ? WATCH_WAIT_UNASKED : WATCH_WAIT_ASKED) ||
           (to == WATCH_WAIT_REFUSED && (waiting->state == WATCH_WAIT_HELD || waiting->state == WATCH_WAIT_UNASKED)));
    waiting->state = to;
}

void watch_waiting_refuse(struct watch_waiting *waiting, const char *reason)
{
    waiting->reason = strdup(reason);
    watch_waiting_move_to(waiting, WATCH_WAIT_REFUSED);
}

void watch_waiting_read(const struct watch_waiting *waiting, struct belfry_wire_watch_request *out)
{
    enum belfry_err err = belfry_scan_watch_request(waiting->message, out);
    assert(err == BELFRY_OK);
    belfry_ignore(err);
}

bool watch_queue_has_room(const struct watch_queue *queue)
{
    if (queue->n == 0)
        return true;
    return queue->n < WATCH_QUEUE_MAX && queue->bytes < WATCH_QUEUE_BYTES &&
           waiting_of(queue->requests.prev)->state != WATCH_WAIT_UNASKED;
}

struct watch_waiting *watch_queue_settled(const struct watch_queue *queue)
{
    if (queue->n == 0)
        return NULL;
    struct watch_waiting *first = waiting_of(queue->requests.next);
    return first->state == WATCH_WAIT_UNASKED || first->state == WATCH_WAIT_ASKED ? NULL : first;
}

struct watch_waiting *watch_queue_unasked(const struct watch_queue *queue)
{
    belfry_list_each (node, &queue->requests) {
        if (waiting_of(node)->state == WATCH_WAIT_UNASKED)
            return waiting_of(node);
    }
    return NULL;
}
