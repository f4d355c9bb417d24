/* tests/storm/line.h
 *
 * line: a client's end of a connection: plain bytes in and out, with or without TLS.
 *
 * Thread: owner. It does not block.
 */
#ifndef BELFRY_STORM_LINE_H
#define BELFRY_STORM_LINE_H

#include <stdbool.h>

#include "base/buf.h"
#include "net/tls_conn.h"
#include "server/client_address.h"

struct line {
    int fd;                      /* -1: none */
    bool is_over;                /* the other side has closed it, or broken it */
    bool is_shaken;              /* TLS: the handshake is done */
    struct belfry_tls_conn *tls; /* NULL: plain */
    struct belfry_buf out;       /* plain, to be sent */
    struct belfry_buf in;        /* plain, received */
};

/* Connects to the door. `with_cert` matters with TLS alone; `is_bare`: where it should speak TLS, or a balancer should
 * say whose connection it is, it does not. */
struct line_opts {
    size_t door;
    struct client_address client;
    bool with_cert, is_bare;
};
void line_open(struct line *line, const struct line_opts *opts);
void line_close(struct line *line); /* immediately; a line that is not open is fine */

void line_push(struct line *line, size_t most); /* sends at most so many bytes */
void line_pull(struct line *line, size_t most); /* receives at most so many bytes into `in` */
void line_half_close(struct line *line);

#endif
