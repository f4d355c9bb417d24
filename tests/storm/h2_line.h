/* tests/storm/h2_line.h
 *
 * h2_line: a line (line.h) with an nghttp2 session of a client on it: what clients in good order have in common.
 *
 * Thread: owner. Memory: nghttp2's is its own.
 */
#ifndef BELFRY_STORM_H2_LINE_H
#define BELFRY_STORM_H2_LINE_H

#include <nghttp2/nghttp2.h>
#include <stdint.h>

#include "storm/line.h"

#define H2_LINE_AGAIN_MS 50

struct h2_line {
    struct line line;
    nghttp2_session *session; /* NULL: not connected */
    size_t door;
    struct client_address address;
    char peer[CLIENT_ADDRESS_TEXT];
    uint32_t window;     /* of a stream */
    size_t reads;        /* bytes in a turn, at most */
    uint64_t connect_ms; /* not before */
    uint64_t connects;
};

/* Not connected. The client's address is 10.0.0.`number`. */
void h2_line_init(struct h2_line *h2, size_t door, unsigned number, uint32_t window, size_t reads);

/* Connects. `listen` sets the callbacks; `user` is theirs. */
void h2_line_open(struct h2_line *h2, void (*listen)(nghttp2_session_callbacks *callbacks), void *user);
void h2_line_close(struct h2_line *h2); /* immediately; it may connect again after H2_LINE_AGAIN_MS */

void h2_line_exchange(struct h2_line *h2); /* receives and sends what can be now */

#endif
