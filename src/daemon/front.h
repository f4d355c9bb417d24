/* src/daemon/front.h
 *
 * front: the main thread: listening sockets, the admin address, signals, readiness, the end.
 *
 *     SERVING --SIGTERM, SIGINT--> DRAINING --the period is nearly over--> CLOSING --the period is over--> STOPPED
 *                                      `--- no connection left -------------'---------------------------------^
 *                                      `--- a second signal ----------------'
 *
 * DRAINING: not ready; GOAWAY on one connection after another over the first half of the period, their streams ended
 * with jitter over the second. The listeners stay open and new connections are served: a client without another tier is
 * refused only while this one restarts.
 *
 * CLOSING: listeners closed, GOAWAY on all connections, all streams ended; running calls may finish.
 *
 * The files of listeners (cert, key, client-ca, crl) are looked at every second, and followed when they change. SIGHUP
 * looks at them now, and reads the configuration again (daemon/reload.h).
 *
 * A tier whose every endpoint leads back to itself stops immediately, from any state.
 *
 * Thread: owner (main).
 */
#ifndef BELFRY_DAEMON_FRONT_H
#define BELFRY_DAEMON_FRONT_H

#include "daemon/config.h"
#include "daemon/logger.h"

struct front_opts {
    const struct config *config;
    struct logger *logger;
    int argc; /* of main(), to read the configuration again */
    char **argv;
};

/* Runs until the tier has stopped. On failure a sentence is stored in why; "" when a log line says it already.
 * Errors: BELFRY_ERR_IO (an address is taken), BELFRY_ERR_INVALID (a socket that was handed over is exposed),
 * BELFRY_ERR_TLS, BELFRY_ERR_LIMIT, BELFRY_ERR_NOMEM, BELFRY_ERR_REFUSED (tiers in a circle, or too many in a row). */
BELFRY_NODISCARD enum belfry_err front_run(const struct front_opts *opts, char *why, size_t why_len);

#endif
