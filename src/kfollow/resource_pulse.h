/* src/kfollow/resource_pulse.h
 *
 * resource_pulse: when each API server was last heard of, for all followers on one session. The watches of many quiet
 * resources are silent together; an event of any resource, or one probe per server and period, shows that the server is
 * there for all of them.
 *
 * It says nothing about one resource: a follower still sends a probe of its own now and then (resource_follow.h).
 *
 * Thread: owner. Pure.
 */
#ifndef BELFRY_KFOLLOW_RESOURCE_PULSE_H
#define BELFRY_KFOLLOW_RESOURCE_PULSE_H

#include <stdint.h>

#define RESOURCE_SERVERS_MAX 16

/* Initialise with zeroes. */
struct resource_pulse {
    uint64_t sent_ms[RESOURCE_SERVERS_MAX];  /* the last probe, by any follower */
    uint64_t heard_ms[RESOURCE_SERVERS_MAX]; /* the last event, bookmark or answer, of any follower */
};

#endif
