/* tests/support/scriptpeer.h
 *
 * scriptpeer: an HTTP/1.1 server on loopback that does what a test tells it to, step by step: a test reads as the
 * dialogue it is. It knows nothing of Kubernetes and answers nothing of itself.
 *
 *     conn = scriptpeer_asked(peer)                a whole request has come; the test looks at it
 *     scriptpeer_answer(conn, ...)                 all at once, or
 *     scriptpeer_begin, _chunk ..., _end           as chunks, or
 *     scriptpeer_send                              any bytes
 *     scriptpeer_hang_up, scriptpeer_cut           closes, resets
 *
 * Thread: owner; nothing blocks. The test's own loop polls what scriptpeer_fds() gives and calls scriptpeer_turn().
 * Memory: the caller's; it allocates nothing, so that it takes no part in refuse_sweep().
 */
#ifndef BELFRY_TESTS_SCRIPTPEER_H
#define BELFRY_TESTS_SCRIPTPEER_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SCRIPTPEER_CONNS 32   /* connections at once; more are left waiting */
#define SCRIPTPEER_HEAD  8192 /* bytes of a request's head */

/* IDLE --a whole head--> ASKED --scriptpeer_asked()--> TAKEN --answered--> IDLE; any of them --closed by either--> GONE
 */
enum scriptpeer_state { SCRIPTPEER_GONE, SCRIPTPEER_IDLE, SCRIPTPEER_ASKED, SCRIPTPEER_TAKEN };

struct scriptpeer_conn {
    int fd; /* valid unless GONE */
    enum scriptpeer_state state;
    uint64_t order; /* ASKED: the place in the queue */
    size_t used;    /* bytes of head */
    char head[SCRIPTPEER_HEAD + 1];
};

struct scriptpeer {
    int listener; /* -1: connections are refused */
    uint16_t port;
    uint64_t n_accepted, n_requests;
    struct scriptpeer_conn conns[SCRIPTPEER_CONNS];
};

/* On a free port of 127.0.0.1. False: no socket could be had. */
bool scriptpeer_open(struct scriptpeer *peer);
void scriptpeer_close(struct scriptpeer *peer); /* of one that was opened */

/* From now on connections are refused; and accepted again, at the same port. What is connected stays. */
void scriptpeer_refuse(struct scriptpeer *peer);
bool scriptpeer_accept(struct scriptpeer *peer);

/* What to poll for; fds has room for SCRIPTPEER_CONNS + 1. */
size_t scriptpeer_fds(const struct scriptpeer *peer, struct pollfd *fds);

/* Takes new connections and what has come on the others. */
void scriptpeer_turn(struct scriptpeer *peer);

/* The oldest request that nobody has taken yet; NULL: none. It stays the test's until it is answered. */
struct scriptpeer_conn *scriptpeer_asked(struct scriptpeer *peer);

/* The path of the request, without its query, in out[0, cap). */
void scriptpeer_path(const struct scriptpeer_conn *conn, char *out, size_t cap);

/* A parameter of its query, percent-decoded, and a field of its head. False: there is none; out is "" then. */
bool scriptpeer_query(const struct scriptpeer_conn *conn, const char *name, char *out, size_t cap);
bool scriptpeer_field(const struct scriptpeer_conn *conn, const char *name, char *out, size_t cap);

/* As much of the bytes as the socket takes now; how many were taken. */
size_t scriptpeer_send(struct scriptpeer_conn *conn, const char *bytes, size_t len);

/* `status` is "200 OK", `fields` are whole lines each ended by \r\n, or "". What these send is small: a socket takes
 * it. */
void scriptpeer_answer(struct scriptpeer_conn *conn, const char *status, const char *fields, const char *body);
void scriptpeer_begin(struct scriptpeer_conn *conn, const char *status, const char *fields);
void scriptpeer_chunk(struct scriptpeer_conn *conn, const char *text);
void scriptpeer_end(struct scriptpeer_conn *conn); /* in good order; the connection can be used again */

void scriptpeer_hang_up(struct scriptpeer_conn *conn); /* FIN */
void scriptpeer_cut(struct scriptpeer_conn *conn);     /* RST */

#endif
