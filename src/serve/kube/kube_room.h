/* src/serve/kube/kube_room.h
 *
 * kube_room: what the Kubernetes services of one worker hold together. In front of an API server there is a service, a
 * core and a kube_lists per resource; one room bounds them all, so that 200 resources hold no more than one does. In
 * front of etcd there is one of each, and each has a room of its own.
 *
 *     watches         watch_bytes and core_bytes()   memory_max: watches that stay inside a line are ended
 *     lists           lists                          KUBE_LISTS_WAITING: one more is answered 429
 *     pages of lists  pages                          KUBE_LISTS: a list waits for its place
 *
 * What clients may hold of watches, requests and lists is bounded by shares (SHARES_WATCH_BYTES, SHARES_REQUESTS,
 * SHARES_LIST_BYTES).
 *
 * Thread: owner (the worker's). Plain data. It outlives the services and their lists.
 */
#ifndef BELFRY_SERVE_KUBE_KUBE_ROOM_H
#define BELFRY_SERVE_KUBE_KUBE_ROOM_H

#include <stdbool.h>
#include <stddef.h>

#define KUBE_LISTS         64 /* at once, including pages that the reader still has for a list that is gone */
#define KUBE_LISTS_WAITING 10000

struct kube_room {
    /* fixed */
    size_t memory_max;                    /* of the cores and of watch_bytes together; 0: no bound */
    size_t (*core_bytes)(const void *of); /* worker_stats.bytes of all cores; not NULL if there is a bound */
    const void *of;
    /* moves; each service and each kube_lists counts its own */
    size_t watch_bytes;
    size_t lists;         /* that wait */
    size_t pages, queued; /* queued: lists that wait for a place of a page */
};

static inline bool kube_room_is_full(const struct kube_room *room)
{
    return room->memory_max != 0 && room->core_bytes(room->of) + room->watch_bytes > room->memory_max;
}

static inline size_t kube_room_free_pages(const struct kube_room *room)
{
    return room->pages < KUBE_LISTS ? KUBE_LISTS - room->pages : 0;
}

#endif
