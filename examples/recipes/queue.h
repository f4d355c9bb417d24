/* recipes/queue.h: a place in a queue of processes on many machines. The lock and the election examples use it.
 *
 * Each process writes a key NAME/LEASE, on its own lease. etcd numbers all writes, so the keys are ordered by creation,
 * and the process with the lowest number is first. Every other process watches only the key just before its own: when
 * one leaves, one is woken, not all. If a process dies, its lease expires, its key is deleted, and the queue moves on.
 *
 * `etcdctl lock`, `etcdctl elect` and the Go package concurrency write the same keys, so all of them exclude each
 * other.
 */
#ifndef RECIPES_QUEUE_H
#define RECIPES_QUEUE_H

#include <belfry/lease.h>

struct place;

enum place_kind {
    PLACE_FIRST = 1, /* no process is before us: .key and .rev are ours. Comes once */
    PLACE_LOST       /* lost, or never obtained: .why. Stop using it immediately. The last callback */
};

struct place_event {
    enum place_kind kind;
    const char *key; /* the key that holds the place */
    int64_t rev;     /* its create revision: it grows from holder to holder, so it can serve as a fencing token */
    const char *why;
};

/* Called from belfry_dispatch() or belfry_run(). It must not close the place; it may call belfry_stop() instead. */
typedef void (*place_fn)(const struct place_event *event, void *user);

/* Takes a place in the queue `name` and stores `value` there, on a lease of `ttl_s` seconds that is kept alive. */
int place_open(struct belfry *b, const char *name, const char *value, int64_t ttl_s, place_fn fn, void *user,
               struct place **out);

/* Whether the place is certainly still ours. Check it before every action that two processes must not do. */
int place_is_held(const struct place *place);

/* Leaves the queue. Run the session until belfry_run() has nothing left to do; then the next process is first. NULL is
 * fine. */
void place_close(struct place *place);

#endif
