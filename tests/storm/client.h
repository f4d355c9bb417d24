/* tests/storm/client.h
 *
 * client: a client in good order: it watches FEED_PREFIX and gets a key, again and again, with a token of root. It
 * reconnects and resumes as clients of etcd do, and compares what it receives with the ledger: each event once, in
 * order, no revision torn, no progress beyond what was received.
 *
 * Thread: owner. Memory: nghttp2's is its own.
 */
#ifndef BELFRY_STORM_CLIENT_H
#define BELFRY_STORM_CLIENT_H

#include <nghttp2/nghttp2.h>
#include <stdbool.h>
#include <stdint.h>

#include "storm/choices.h"
#include "storm/line.h"

struct client {
    struct line line;
    nghttp2_session *session; /* NULL: not connected */
    size_t door;
    struct client_address address;
    char peer[CLIENT_ADDRESS_TEXT];
    uint64_t connect_ms; /* not before */
    uint32_t window;     /* of a stream */
    size_t reads;        /* bytes in a turn, at most */
    /* the watch */
    int32_t watch_id; /* its stream; 0: none */
    struct belfry_buf watch_in, request;
    size_t request_at;
    bool is_created;
    int64_t next_rev; /* to resume from; 0: from now */
    size_t at;        /* in the ledger */
    /* the get */
    int32_t get_id; /* its stream; 0: none */
    bool get_is_fine;
    uint64_t get_ms; /* not before */
    /* counted */
    uint64_t connects, events, gets, failed_gets, compactions, refusals;
    uint64_t gets_due; /* gets when client_ask() was called */
    char why[160];     /* the last reason that the server gave */
};

void client_init(struct client *client, size_t door, unsigned number, struct choices *choices);
void client_fini(struct client *client);
void client_turn(struct client *client); /* whatever can be done now */

/* Is everything received that the ledger has, and was a get answered since client_ask()? */
void client_ask(struct client *client);
bool client_is_served(const struct client *client);

/* Why not, for people. */
void client_tell(const struct client *client);

#endif
