/* src/server/inbound_socket.h
 *
 * inbound_socket: an accepted socket, plain or with TLS. It takes all bytes that it is given to write. Bytes that the
 * kernel does not take wait here (TLS: as records in tls_conn), and the socket is full until they are sent.
 *
 * Thread: owner. It has no event loop: its owner polls `fd`, and reads from it.
 * Memory: nothing is allocated for bytes that the kernel takes.
 */
#ifndef BELFRY_SERVER_INBOUND_SOCKET_H
#define BELFRY_SERVER_INBOUND_SOCKET_H

#include "base/buf.h"
#include "net/tls_conn.h"

/* Counted over all sockets of one owner. */
struct inbound_traffic {
    uint64_t bytes_in, bytes_out, writes;
    size_t n_full; /* sockets that are full now */
};

struct inbound_socket {
    int fd; /* owned */
    bool full;
    uint64_t sent;               /* bytes that the kernel took */
    struct belfry_tls_conn *tls; /* owned; NULL: plain */
    struct belfry_buf rest;      /* plain: written and not sent */
    struct inbound_traffic *traffic;
};

/* Takes over a connected socket, on failure too: then it is closed. `tls` NULL: plain. Errors: as
 * belfry_tls_conn_accept(). */
BELFRY_NODISCARD enum belfry_err inbound_socket_open(struct inbound_socket *socket, int fd, struct belfry_tls *tls,
                                                     int sndbuf, struct inbound_traffic *traffic);
void inbound_socket_close(struct inbound_socket *socket);

/* Writes all bytes; only while the socket is not full, and with TLS at most 64 KiB (tls_conn.h: when more waits, the
 * peer counts as one that does not read). False: the connection is lost, or there is no memory. */
BELFRY_NODISCARD bool inbound_socket_write(struct inbound_socket *socket, struct belfry_bytes bytes);

/* Sends what waits, TLS's own records included. False: the connection is lost. */
BELFRY_NODISCARD bool inbound_socket_flush(struct inbound_socket *socket);

/* One try to send TLS's alert or, after a handshake that succeeded, its goodbye. */
enum inbound_goodbye { INBOUND_ALERT_ONLY, INBOUND_GOODBYE };
void inbound_socket_say_goodbye(struct inbound_socket *socket, enum inbound_goodbye goodbye);

bool inbound_socket_has_output(const struct inbound_socket *socket); /* TLS has records to send */
size_t inbound_socket_bytes(const struct inbound_socket *socket);    /* about what it costs */

#endif
