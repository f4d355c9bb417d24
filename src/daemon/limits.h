/* src/daemon/limits.h
 *
 * limits: what the tier may use of the machine, and from that and the settings the totals of the pools of one worker
 * (server/shares.h); and how long clients are waited for.
 *
 * They can change while workers run: the front sets them, and each worker takes them over in its next turn, when it
 * sees that `version` has moved.
 *
 * Thread: init, fini and set: the front's; take: any.
 */
#ifndef BELFRY_DAEMON_LIMITS_H
#define BELFRY_DAEMON_LIMITS_H

#include <pthread.h>
#include <stdatomic.h>

#include "daemon/config.h"
#include "server/shares.h"

/* How long clients are waited for, as in the settings of these names. */
struct limits_times {
    uint64_t greet_ms, message_ms, unread_ms, idle_ms;
};

/* What a worker takes over. */
struct limits_view {
    struct shares_limits shares;
    struct limits_times times;
};

struct limits {
    /* fixed at creation */
    size_t memory;      /* bytes that the tier may use */
    size_t connections; /* of clients, that there are descriptors for */
    size_t refused;     /* connections that are being refused, likewise */
    size_t admin;       /* connections to the admin address, likewise */
    size_t workers;     /* each has an equal part of everything */

    atomic_uint version;
    pthread_mutex_t lock;
    struct limits_view now; /* under the lock */
};

/* Asks the machine. */
void limits_init(struct limits *limits, const struct config *config);
void limits_fini(struct limits *limits);

void limits_set(struct limits *limits, const struct config *config);

/* Those of the admin address, which have nothing to do with those of clients and do not change. */
struct shares_limits limits_admin(const struct limits *limits);

/* False: nothing has changed since *version, which is kept by the worker and begins with 0. */
bool limits_take(struct limits *limits, unsigned *version, struct limits_view *out);

#endif
