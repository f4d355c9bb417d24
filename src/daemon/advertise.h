/* src/daemon/advertise.h
 *
 * advertise: the address that MemberList gives as the tier's own, so that clients that sync with it stay here.
 *
 * --advertise says it. Without it, it is the address of the listener for gRPC that others can reach, if there is exactly
 * one; or the only one, if that is on loopback. Nothing is guessed: of a listener on every address, or behind a service
 * manager's socket, or whose certificate is not for its own address, only the operator knows how clients reach it.
 *
 * Thread: any. Pure, but for reading a certificate.
 */
#ifndef BELFRY_DAEMON_ADVERTISE_H
#define BELFRY_DAEMON_ADVERTISE_H

#include "daemon/config.h"

enum advertise_sockets { ADVERTISE_OWN, ADVERTISE_HANDED_OVER }; /* who opened the listening sockets */

/* A URL, lent by `config`; NULL: it is not known, and a reason is stored in why[0, why_len). */
const char *advertise_choose(const struct config *config, enum advertise_sockets sockets, char *why, size_t why_len);

#endif
