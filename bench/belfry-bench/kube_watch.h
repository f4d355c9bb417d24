/* bench/belfry-bench/kube_watch.h
 *
 * kube_watch: a watch of objects (object.h) over Kubernetes' API: one GET on a connection of its own. When the server
 * ends it properly, it is opened again after its last put, as clients of a kube-apiserver do.
 *
 * Thread: owner, that of its poller.
 */
#ifndef BENCH_KUBE_WATCH_H
#define BENCH_KUBE_WATCH_H

#include <stddef.h>
#include <stdint.h>

#include "target.h"

struct kube_watch;

struct kube_watch_events {
    /* The server has accepted the watch; also each time it was opened again. */
    void (*created)(void *user);
    void (*put)(void *user, int64_t rev, uint64_t put_at, uint64_t now_ns); /* put_at 0: not known */
    /* The server ended the watch, and it is opened again. */
    void (*resumed)(void *user);
    /* The server or the connection broke the watch; `what` and `text` are one sentence. */
    void (*fault)(void *user, const char *what, const char *text);
};

struct kube_watch_opts {
    int poll;
    const struct target *target; /* lent for the watch's life, like selector_field */
    int64_t rev;                 /* the watch starts after it */
    const char *selector_field;  /* selects object number `object` by this field; NULL: all objects */
    size_t object;
};

/* Begins to connect. Dies when no socket can be had. `events` and `user` are lent until kube_watch_destroy(). */
struct kube_watch *kube_watch_create(const struct kube_watch_opts *opts, const struct kube_watch_events *events,
                                     void *user);
void kube_watch_destroy(struct kube_watch *watch);              /* NULL is fine; not from inside an event */
uint64_t kube_watch_bytes_read(const struct kube_watch *watch); /* since it was opened, or opened again */

/* A paused watch is not read, as by a client that hangs. */
void kube_watch_pause(struct kube_watch *watch);
void kube_watch_resume(struct kube_watch *watch);

/* The current revision of the server's objects. Dies when it is not known at the deadline. */
int64_t kube_watch_revision(const struct target *target, uint64_t deadline_ns);

#endif
