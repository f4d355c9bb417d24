/* src/kfollow/resource_pulse.h
 *
 * resource_pulse: when each link to an API server was last heard of, for all followers on one session. The watches of
 * many quiet resources are silent together; an event of any resource, or one probe per link and period, shows that
 * the server is there for all of them. Behind the address of a balancer each link may lead to another server, so what
 * is heard on one link says nothing about another.
 *
 * It says nothing about one resource: a follower still sends a probe of its own now and then (resource_follow.h).
 *
 * Thread: owner. Pure.
 */
#ifndef BELFRY_KFOLLOW_RESOURCE_PULSE_H
#define BELFRY_KFOLLOW_RESOURCE_PULSE_H

#include <stddef.h>
#include <stdint.h>

#define RESOURCE_SERVERS_MAX 16
#define RESOURCE_BEATS       32 /* links that are remembered; one that is forgotten costs a probe */

/* What answers on a link are signs of life for. An odd number is a connection that requests share: only itself. An even
 * one is a connection of HTTP/1.1: no answer can come on the connection of an open watch, so all of them count for each
 * other. Behind the address of a balancer that may be the life of another server; a proof needs the same link. */
static inline uint64_t resource_link_place(uint64_t link)
{
    return link % 2 == 1 ? link : 0;
}

struct resource_beat {
    uint64_t place; /* resource_link_place() */
    unsigned server;
    uint64_t sent_ms;  /* the last probe, by any follower */
    uint64_t heard_ms; /* the last event, bookmark or answer, of any follower */
    unsigned n_astray; /* requests since then that were answered on another link, though they were to go on this one */
};

/* Initialise with zeroes. */
struct resource_pulse {
    struct resource_beat beats[RESOURCE_BEATS];
    uint64_t paced_ms[RESOURCE_SERVERS_MAX]; /* the next time for a watch after short ones, of any follower */
};

/* The beat of a link; a new one replaces the one that was silent for the longest time. */
static inline struct resource_beat *resource_beat(struct resource_pulse *pulse, unsigned server, uint64_t link)
{
    struct resource_beat *oldest = &pulse->beats[0];
    uint64_t place = resource_link_place(link);
    for (size_t i = 0; i < RESOURCE_BEATS; i++) {
        struct resource_beat *beat = &pulse->beats[i];
        if (beat->place == place && beat->server == server)
            return beat;
        if (beat->heard_ms < oldest->heard_ms)
            oldest = beat;
    }
    *oldest = (struct resource_beat){.place = place, .server = server};
    return oldest;
}

#endif
