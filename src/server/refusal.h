/* src/server/refusal.h
 *
 * refusal: what a peer reads whose connection is not served, because there is no room for it.
 *
 * A socket that is closed while it has unread input resets its connection: the peer sees an error of its network, and
 * loses what it was sent. So a connection that is refused is read, answered in the protocol that it speaks, and closed
 * after that. The peer learns that it may try again, and where to look for the reason.
 *
 * Thread: any. Pure, but for refusal_answer() and refusal_close().
 */
#ifndef BELFRY_SERVER_REFUSAL_H
#define BELFRY_SERVER_REFUSAL_H

#include "server/inbound_sniff.h"

/* HTTP/1.1: a response with status 503. HTTP/2: SETTINGS and a GOAWAY that names no stream, so that clients may send
 * their requests again elsewhere. LITTLE: nothing. */
struct belfry_bytes refusal_text(enum inbound_sniffed protocol);

/* As above, for a peer whose first bytes the sniff has: nothing, if they begin a TLS handshake. */
struct belfry_bytes refusal_after(const struct inbound_sniff *sniff, enum inbound_sniffed protocol);

/* Reads what the peer has sent since the sniff, answers if that says which protocol it speaks, and does not wait. */
void refusal_answer(int fd, struct inbound_sniff *sniff);

/* The same from the beginning, and closes. A peer whose request arrives later than this sees its connection reset. */
void refusal_close(int fd);

#endif
