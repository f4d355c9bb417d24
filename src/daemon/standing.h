/* src/daemon/standing.h
 *
 * standing: how the tier stands with its upstream, from ingest to the other threads.
 *
 * Ingest writes; other threads copy it when `turn` has moved since they last looked. The newest revision and when it
 * was published are separate, because they move with every revision; so is what the tier reports about itself.
 *
 * Thread: standing_set, standing_publish and standing_set_about: ingest's; the rest any.
 */
#ifndef BELFRY_DAEMON_STANDING_H
#define BELFRY_DAEMON_STANDING_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/response.h"
#include "follow/driver.h"

struct standing_view {
    enum driver_standing how;
    char reason[256];
    char version[32];
    uint64_t past;
    struct response_identity identity;
    enum etcd_keys_only keys_only;
    uint64_t barred; /* as in driver_status, as the next two */
    bool given_up, disk_trouble;
};

struct standing {
    pthread_mutex_t mu;
    struct standing_view view; /* under mu, as the next three */
    struct about about;        /* as of about_ms */
    uint64_t about_ms;
    struct stamps stamps;
    _Atomic uint64_t turn; /* moved after view was: a thread that sees it move finds the news under mu */
    /* A revision and when it was published. A reader may see one newer than the other: the time is stored first, so no
     * latency comes out too long. */
    _Atomic uint64_t published_ns;
    _Atomic int64_t published_rev;
};

void standing_init(struct standing *standing);
void standing_fini(struct standing *standing);

/* Notes what is different; true: something that workers act on is. */
bool standing_set(struct standing *standing, const struct driver_status *status);
void standing_publish(struct standing *standing, int64_t rev, uint64_t now_ns);

/* Copies when it moved since *turn; false: nothing new. *turn begins at 0. */
bool standing_look(struct standing *standing, uint64_t *turn, struct standing_view *out);

/* What the tier reports about itself: set by ingest, and read with clock, stamps and ages as of now. */
void standing_set_about(struct standing *standing, const struct about *about);
void standing_about(struct standing *standing, struct about *out);

#endif
