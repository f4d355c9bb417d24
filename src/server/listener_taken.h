/* src/server/listener_taken.h
 *
 * listener_taken: why an address could not be bound (EADDRINUSE), as a remedy for people. A listening process is one
 * cause; others are an outgoing connection that the kernel gave this port, and a file where a unix socket should be.
 *
 * Thread: any.
 */
#ifndef BELFRY_SERVER_LISTENER_TAKEN_H
#define BELFRY_SERVER_LISTENER_TAKEN_H

#include <stdint.h>
#include <stdio.h>

#include "net/endpoint.h"

/* Writes ": CAUSE; WHAT TO DO" into out. */
void listener_taken(const struct belfry_endpoint *endpoint, char *out, size_t out_len);

/* How sockets of this machine use a local TCP port; the highest counts. */
enum port_use { PORT_UNUSED, PORT_HELD, PORT_CONNECTED, PORT_LISTENING };

/* Reads a table in the form of /proc/net/tcp or tcp6; lines that cannot be parsed are skipped. */
enum port_use listener_port_use(FILE *table, uint16_t port);

#endif
