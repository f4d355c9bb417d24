/* src/daemon/advertise.h
 *
 * advertise: the address that MemberList gives as the tier's own, so that clients that sync with it stay here.
 *
 * --advertise sets it. Without it, it is the address of the listener for gRPC that other machines can reach, if there
 * is exactly one; or the only one, if that is on loopback. Nothing is guessed: only the operator knows how clients
 * reach a listener on every address, one on a service manager's socket, or one whose certificate is for another
 * address.
 *
 * Thread: any. Pure, but for reading a certificate.
 */
#ifndef BELFRY_DAEMON_ADVERTISE_H
#define BELFRY_DAEMON_ADVERTISE_H

#include "daemon/config.h"

enum advertise_sockets {
    ADVERTISE_OWN,
    ADVERTISE_HANDED_OVER
}; /* the listening sockets: opened here, or by a service manager */

/* A URL, lent by `config`; NULL: it is not known, and a reason is stored in why[0, why_len). */
const char *advertise_choose(const struct config *config, enum advertise_sockets sockets, char *why, size_t why_len);

#endif
