/* src/server/listener.h
 *
 * listener: a listening socket on a loop that hands out the connections it accepts.
 *
 * Out of descriptors (EMFILE, ENFILE): a reserved descriptor is closed so that the oldest waiting connection can be
 * accepted and closed, which its peer notices. Then accepting pauses for 100 ms. One log line per minute reports it. At
 * most 64 connections are accepted per turn of the loop; the kernel handles a full backlog.
 *
 * Thread: owner.
 */
#ifndef BELFRY_SERVER_LISTENER_H
#define BELFRY_SERVER_LISTENER_H

#include <uv.h>

#include "base/err.h"
#include "base/log.h"
#include "net/endpoint.h"
#include "server/client_address.h"

struct listener;

/* The callee owns the descriptor, which is non-blocking and close-on-exec. */
typedef void (*listener_fn)(int fd, struct client_address peer, void *user);

/* Binds and listens: endpoint's host is an address, "localhost" or a unix path (mode 0660; a leftover socket without a
 * listener is removed first). Port 0: any. IPv6 "[::]" takes IPv4 too. On failure `why` receives a sentence that says
 * what to do.
 * Errors: BELFRY_ERR_IO (in use, not ours, no such address), BELFRY_ERR_INVALID, BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err listener_open(uv_loop_t *loop, const struct belfry_endpoint *endpoint, int backlog,
                                               const struct belfry_log *log, listener_fn fn, void *user,
                                               struct listener **out, char *why, size_t why_len);

/* Would listener_open() succeed? It does not listen, and creates or removes nothing.
 * Errors: as above; BELFRY_ERR_LIMIT (a port that is taken now). */
BELFRY_NODISCARD enum belfry_err listener_try(const struct belfry_endpoint *endpoint, char *why, size_t why_len);

/* As listener_open() for a socket that listens already (socket activation). */
BELFRY_NODISCARD enum belfry_err listener_adopt(uv_loop_t *loop, int fd, const struct belfry_log *log, listener_fn fn,
                                                void *user, struct listener **out);

/* The address that a socket is bound to: "0.0.0.0:23790", "unix". True: only this machine can reach it. */
#define LISTENER_ADDRESS CLIENT_ADDRESS_TEXT
bool listener_fd_address(int fd, char out[LISTENER_ADDRESS]);

/* Stops accepting; the kernel refuses connections that wait in the backlog. Removes a unix path. NULL is fine. */
void listener_close(struct listener *listener);

uint16_t listener_port(const struct listener *listener); /* bound; 0: unix */

struct listener_stats {
    uint64_t accepted, refused; /* refused: out of descriptors */
};
void listener_stats(const struct listener *listener, struct listener_stats *out);

#endif
