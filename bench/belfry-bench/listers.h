/* bench/belfry-bench/listers.h
 *
 * listers: clients as they come up. Each lists a prefix and then watches it on a stream of its own, from behind the
 * revision of its list. Many share a connection; a bounded number lists at a time. A list that the server refuses for
 * the moment (UNAVAILABLE) is asked again 25 ms later, as clientv3 does.
 *
 *     LISTER_QUEUED --> LISTER_LISTING --> LISTER_CREATING --> LISTER_WATCHING
 *           ^---- unavailable ----'
 *
 * Thread: owner, that of its poll.
 * Memory: about 1 KiB per client, and one answer for each that lists.
 */
#ifndef BENCH_LISTERS_H
#define BENCH_LISTERS_H

#include <stdbool.h>
#include <stdint.h>

#include "histogram.h"
#include "load.h"
#include "target.h"

struct listers_opts {
    struct target target;
    const char *prefix;        /* lent until listers_close() */
    size_t n_keys;             /* that every list must have */
    size_t n_conns, n_clients; /* n_clients: of a connection */
    size_t n_listing;          /* lists under way at a time */
};

struct lister;
struct listers_seat;

struct listers {
    struct listers_opts opts;
    char key[LOAD_KEY_MAX], end[LOAD_KEY_MAX];
    struct listers_seat *seats; /* owned; one per connection */
    struct lister *clients;     /* owned; n_conns x n_clients */
    size_t *queue;              /* owned; a ring of the clients that wait to list */
    size_t queue_first, n_queued;
    size_t n_listing, n_watching;
    struct histogram took; /* ns from a client's first list until it watches */
    uint64_t retried, kvs;
    uint64_t events; /* of all watches */
    char fault[256]; /* what broke it, an event that is lost or doubled included; "" if nothing has */
};

/* Begins to connect. */
void listers_open(struct listers *listers, int poll, const struct listers_opts *opts);
void listers_close(struct listers *listers);
bool listers_are_connected(const struct listers *listers);

/* Lets the first ones list; the others follow. */
void listers_begin(struct listers *listers);
/* In every turn: repeats the lists whose wait is over. Returns the ms until the next one is due, 1000 at most. */
int listers_tend(struct listers *listers);
bool listers_all_watch(const struct listers *listers);

/* Whether every watch has had so many events. */
bool listers_have_events(const struct listers *listers, size_t n_each);

#endif
