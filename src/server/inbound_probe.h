/* src/server/inbound_probe.h
 *
 * inbound_probe: whether the other end of a connection is still there, as our own kernel sees it: for TCP the kernel at
 * the other end, for a unix socket its peer.
 *
 * A peer that does not read still acknowledges probes of its closed window. But those probes are up to two minutes
 * apart, so silence alone proves nothing. The judge measures how long bytes have been underway without an
 * acknowledgement.
 *
 * Thread: owner. Pure but for inbound_probe_ask().
 */
#ifndef BELFRY_SERVER_INBOUND_PROBE_H
#define BELFRY_SERVER_INBOUND_PROBE_H

#include <stdbool.h>
#include <stdint.h>

/* What the kernel says. */
struct inbound_probe_info {
    bool closed;          /* reset, or given up by the kernel */
    bool underway;        /* segments or window probes that are not acknowledged */
    bool unsent;          /* bytes that wait for the peer's window */
    uint32_t last_ack_ms; /* ago */
};

struct inbound_probe {
    uint64_t since_ms; /* from then on something was underway without an acknowledgement; 0: nothing is */
};

enum inbound_verdict {
    INBOUND_CLEAR,   /* all was acknowledged: no need to ask again before something is sent */
    INBOUND_WAITING, /* ask again */
    INBOUND_DEAD
};

enum inbound_verdict inbound_probe_judge(struct inbound_probe *probe, const struct inbound_probe_info *info,
                                         uint64_t now_ms, uint64_t dead_ms);

/* A unix socket is closed when its peer has closed it, not when the peer has only ended its own output; nothing else is
 * known of it. */
void inbound_probe_ask(int fd, struct inbound_probe_info *out);

#endif
