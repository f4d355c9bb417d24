/* src/server/h2_teardown.h
 *
 * h2_teardown: ends HTTP/2 servers in steps.
 *
 * To end a hundred thousand exchanges takes a tenth of a second, in which the loop would serve no other connection. So
 * their handlers receive `gone` over several turns of the loop, and another thread frees what nghttp2 keeps for them.
 * There is at most one such thread: it is made when it is needed and ends when there is nothing left to free. If it
 * cannot be made (a limit of processes), the loop frees the server, and that turn is long. libuv's pool would abort the
 * process instead. Most connections have few exchanges and end immediately.
 *
 * Thread: owner (the loop's).
 * Memory: none per server but its h2_teardown_item, which the connection embeds.
 */
#ifndef BELFRY_SERVER_H2_TEARDOWN_H
#define BELFRY_SERVER_H2_TEARDOWN_H

#include <pthread.h>
#include <uv.h>

#include "base/list.h"
#include "server/h2_server.h"

struct h2_teardown {
    uv_loop_t *loop;          /* NULL: nothing is freed on another thread */
    struct belfry_list items; /* servers with exchanges that have not received `gone` */
    /* under mu */
    pthread_mutex_t mu;
    pthread_cond_t freed;
    struct belfry_list freeing; /* servers that wait for the thread */
    bool frees;                 /* there is one */
};

struct h2_teardown_item {
    struct h2_server *h2; /* owned */
    size_t n_exchanges;   /* that it had */
    struct belfry_list node;
    void (*done)(struct h2_teardown_item *item);
};

void h2_teardown_init(struct h2_teardown *teardown, uv_loop_t *loop);

/* Ends `h2`, consuming it. False: some of its exchanges have not received `gone`; `item`, and the exchange_conn of
 * `h2`, must stay until done(), which comes from inside h2_teardown_step() or h2_teardown_all(). */
BELFRY_NODISCARD bool h2_teardown_begin(struct h2_teardown *teardown, struct h2_server *h2,
                                        struct h2_teardown_item *item, void (*done)(struct h2_teardown_item *item));

/* Ends more exchanges, for about half a millisecond; true: there are more. */
bool h2_teardown_step(struct h2_teardown *teardown);

/* Ends all of them, waits for the thread, and from now on ends each server in h2_teardown_begin(). */
void h2_teardown_all(struct h2_teardown *teardown);

#endif
