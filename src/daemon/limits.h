/* src/daemon/limits.h
 *
 * limits: the totals of the pools of one worker (server/shares.h), from the settings and from what the machine has.
 *
 * Thread: any. Pure.
 */
#ifndef BELFRY_DAEMON_LIMITS_H
#define BELFRY_DAEMON_LIMITS_H

#include "daemon/config.h"
#include "server/shares.h"

struct limits_machine {
    size_t memory;      /* bytes that the tier may use */
    size_t connections; /* that there are descriptors for */
};

/* Each worker has an equal part of everything. */
void limits_of_worker(const struct config *config, const struct limits_machine *machine, struct shares_limits *out);

#endif
