/* recipes/queue.h: a place in a queue that many processes on many machines stand in. A lock and an election are made of it.
 *
 * Whoever wants something writes a key NAME/LEASE, on a lease of its own. etcd numbers all writes, so the keys stand in
 * the order in which they were created, and who has the lowest number is first. Everybody else watches the one key just
 * before their own: when one goes, one is woken, not all. A process that dies stops renewing its lease; then its key
 * goes, and the queue moves on.
 *
 * `etcdctl lock`, `etcdctl elect` and the Go package concurrency write the same keys, so all of them exclude each other.
 */
#ifndef RECIPES_QUEUE_H
#define RECIPES_QUEUE_H

#include <belfry/lease.h>

struct place;

enum place_kind {
    PLACE_FIRST = 1, /* nobody is before us: .key and .rev are ours. Once */
    PLACE_LOST       /* it is lost, or could not be had: .why. Give up at once what hangs on it. The last call */
};

struct place_event {
    enum place_kind kind;
    const char *key; /* the key that holds the place */
    int64_t rev;     /* its create revision: it only grows from one holder to the next, so others can fence with it */
    const char *why;
};

/* From belfry_dispatch() or belfry_run(). It must not close the place; belfry_stop() is a way to have that done. */
typedef void (*place_fn)(const struct place_event *event, void *user);

/* Takes a place in the queue `name` and stores `value` there, on a lease of `ttl_s` seconds that is kept alive. */
int place_open(struct belfry *b, const char *name, const char *value, int64_t ttl_s, place_fn fn, void *user,
               struct place **out);

/* Is it certainly still ours? Ask before what must not be done by two. */
int place_is_held(const struct place *place);

/* Leaves the queue: run the session until belfry_run() has nothing left to do, and the next one is let in. NULL is fine. */
void place_close(struct place *place);

#endif
