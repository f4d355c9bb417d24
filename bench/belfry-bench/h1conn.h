/* bench/belfry-bench/h1conn.h
 *
 * h1conn: the client's end of one HTTP/1.1 connection with a single GET on it, such as a Kubernetes list or watch.
 *
 *                    connected                the body ended, any fault
 *     H1CONN_CONNECTING ----> H1CONN_OPEN ----------------------> H1CONN_CLOSED
 *
 * Thread: owner, that of its poller.
 * Memory: a few hundred bytes; what has come is handed on from a buffer that all share.
 */
#ifndef BENCH_H1CONN_H
#define BENCH_H1CONN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "poller.h"
#include "target.h"

#define H1CONN_PATH_MAX 512

struct h1conn;

struct h1conn_events {
    /* The head of the answer is there. */
    void (*head)(void *user, int status);
    /* A piece of the body, wherever it was cut. Lent for the call. */
    void (*body)(void *user, struct belfry_bytes piece);
    /* The body has ended as it should, or (why not NULL) something broke; no event comes after this one. It
     * may destroy the connection. */
    void (*ended)(void *user, const char *why);
};

/* Begins to connect and to ask for `path` (shorter than H1CONN_PATH_MAX; copied), with the target's token. Dies when no
 * socket can be had. `events` and `user` are lent until h1conn_destroy(). */
struct h1conn *h1conn_create(int poll, const struct target *target, const char *path,
                             const struct h1conn_events *events, void *user);

/* For tests: as h1conn_create(), on a stream socket that is connected; consuming it. */
struct h1conn *h1conn_create_on(int poll, int fd, const char *path, struct belfry_bytes bearer,
                                const struct h1conn_events *events, void *user);
void h1conn_destroy(struct h1conn *conn);
uint64_t h1conn_bytes_read(const struct h1conn *conn);

/* A paused connection is not read from, as by a client that hangs. */
void h1conn_pause(struct h1conn *conn);
void h1conn_resume(struct h1conn *conn);

#endif
