/* src/server/listener.h
 *
 * listener: a listening socket on a loop that hands out what it accepts.
 *
 * Out of descriptors (EMFILE, ENFILE): a descriptor kept in reserve is given up so that the oldest waiting connection can
 * be taken and closed, which tells its peer, then accepting pauses for 100 ms; one log line a minute. A full backlog is
 * the kernel's to handle: at most 64 are accepted a turn, so that the loop's other work goes on.
 *
 * Thread: owner.
 */
#ifndef BELFRY_SERVER_LISTENER_H
#define BELFRY_SERVER_LISTENER_H

#include <uv.h>

#include "base/err.h"
#include "base/log.h"
#include "net/endpoint.h"

struct listener;

/* The descriptor is the callee's; non-blocking and close-on-exec. `peer` is lent. */
typedef void (*listener_fn)(int fd, const char *peer, void *user);

/* Binds and listens: endpoint's host is an address, "localhost" or a unix path (removed first if nobody listens there;
 * mode 0660). Port 0: any. IPv6 "[::]" takes IPv4 too. On failure a sentence that says what to do is stored in why.
 * Errors: BELFRY_ERR_IO (in use, not ours, no such address), BELFRY_ERR_INVALID, BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err listener_open(uv_loop_t *loop, const struct belfry_endpoint *endpoint, int backlog,
                                               const struct belfry_log *log, listener_fn fn, void *user,
                                               struct listener **out, char *why, size_t why_len);

/* Would listener_open() succeed? Nothing is listened on, made or removed.
 * Errors: as above; BELFRY_ERR_LIMIT (a port that is taken now). */
BELFRY_NODISCARD enum belfry_err listener_try(const struct belfry_endpoint *endpoint, char *why, size_t why_len);

/* As listener_open() for a socket that listens already (socket activation). */
BELFRY_NODISCARD enum belfry_err listener_adopt(uv_loop_t *loop, int fd, const struct belfry_log *log, listener_fn fn,
                                                void *user, struct listener **out);

/* Stops accepting; what waits in the backlog is refused by the kernel. Removes a unix path. NULL is fine. */
void listener_close(struct listener *listener);

uint16_t listener_port(const struct listener *listener); /* bound; 0: unix */

struct listener_stats {
    uint64_t accepted, refused; /* refused: out of descriptors */
};
void listener_stats(const struct listener *listener, struct listener_stats *out);

#endif
