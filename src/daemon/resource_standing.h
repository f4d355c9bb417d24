/* src/daemon/resource_standing.h
 *
 * resource_standing: how one resource stands with its upstream, from ingest to the workers: standing.h for a resource.
 *
 * Thread: resource_standing_set and _publish: ingest's; the rest any.
 */
#ifndef BELFRY_DAEMON_RESOURCE_STANDING_H
#define BELFRY_DAEMON_RESOURCE_STANDING_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct resource_standing_view {
    bool is_ready;
    bool is_stale;
    bool is_absent;   /* upstream does not have the resource: requests are relayed */
    bool is_gone;     /* and it had it since the start */
    char reason[256]; /* why it is not ready */
};

struct resource_standing {
    pthread_mutex_t mu;
    struct resource_standing_view view; /* under mu */
    _Atomic uint64_t turn;              /* moved after view was: a thread that sees it move finds the news under mu */
    /* Moved with each change of the log: another past may begin at the version that was published last. */
    _Atomic uint64_t news;
    /* As in standing.h: the time is stored first. */
    _Atomic uint64_t published_ns;
    _Atomic int64_t published;
};

void resource_standing_init(struct resource_standing *standing);
void resource_standing_fini(struct resource_standing *standing);

void resource_standing_set(struct resource_standing *standing, const struct resource_standing_view *view);
/* The log has changed; its newest version is this. */
void resource_standing_publish(struct resource_standing *standing, int64_t version, uint64_t now_ns);

/* Copies when it moved since *turn; false: nothing new. *turn begins at 0. */
bool resource_standing_look(struct resource_standing *standing, uint64_t *turn, struct resource_standing_view *out);

#endif
