/* tests/storm/client.h
 *
 * client: a client in good order: it watches FEED_PREFIX, and it gets a key and lists objects of Kubernetes, again and
 * again, with a token of root. It
 * reconnects and resumes as clients of etcd do, and compares what it receives with the ledger: each event once, in
 * order, no revision torn, no progress beyond what was received.
 *
 * Thread: owner. Memory: nghttp2's is its own.
 */
#ifndef BELFRY_STORM_CLIENT_H
#define BELFRY_STORM_CLIENT_H

#include <stdbool.h>
#include <stdint.h>

#include "storm/choices.h"
#include "storm/h2_line.h"
#include "storm/reading.h"

/* What it asks again and again. */
enum client_what { CLIENT_GET, CLIENT_LIST, CLIENT_CALLS };

struct client_call {
    int32_t id; /* its stream; 0: none */
    bool is_fine;
    uint64_t next_ms; /* not before */
    uint64_t answered, failed;
    uint64_t before; /* answered when client_ask() was called */
};

struct client {
    struct h2_line h2;
    /* the watch */
    int32_t watch_id; /* its stream; 0: none */
    struct belfry_buf watch_in, request;
    struct reading watch;
    struct client_call calls[CLIENT_CALLS];
    /* counted */
    uint64_t compactions, refusals;
    char why[160]; /* the last reason that the server gave */
};

void client_init(struct client *client, size_t door, unsigned number, struct choices *choices);
void client_fini(struct client *client);
void client_turn(struct client *client); /* whatever can be done now */

/* Is everything received that the ledger has, and was each call answered since client_ask()? */
void client_ask(struct client *client);
bool client_is_served(const struct client *client);

/* Why not, for people. */
void client_tell(const struct client *client);

#endif
