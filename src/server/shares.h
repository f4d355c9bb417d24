/* src/server/shares.h
 *
 * shares: how much each client of one loop holds of everything that is bounded, and who makes room.
 *
 * A pool is a bounded thing; each has a total. A client is whoever connects under one name: a user's certificate, or an
 * address. All its connections count together.
 *
 * A client may hold as much of a pool as it leaves free, if its share is 50 percent; 9 times as much as it leaves free,
 * if its share is 90 percent. So alone it can have its share of the pool, and two greedy clients with 50 percent have a
 * third each. However many there are, each leaves something to the next.
 *
 * When a connection may not hold more, room is made in this order:
 *
 * 1. A connection that holds much for requests that are not whole (SHARES_UNFINISHED bytes) is ended, the largest
 *    first: one of the same client if that client is at its limit, any if the pool is full. A request is whole when its
 *    end was received; a stream of messages is whole between messages. So a connection in good order is not ended
 *    here, however much it uses.
 * 2. If the client that asks holds little (a 64th of the pool at most), the one that holds most yields to it: one of
 *    its connections is ended, provided that it holds more than twice as much.
 * 3. Otherwise there is no room: the owner of the pool refuses the request.
 *
 * What a connection that is ending holds counts as free immediately. It is freed within a turn of the loop, or several,
 * if it has thousands of exchanges. Meanwhile a pool of bytes could be filled again and again. So what is really held
 * of such a pool stays within the total and one of SHARES_OVER parts more: beyond that nothing is granted, and no
 * further connection is ended for it, until those that are ending are gone.
 *
 * A client's work (work.h) is counted here too. A client that leaves is remembered for two windows of work, so that one
 * that connects again and again is seen: SHARES_DEPARTED such clients at most, the oldest is forgotten first.
 *
 * Thread: owner (the loop's). Pure.
 * Memory: one allocation for each client that has a connection, or is remembered. Clients are kept in
 *         classes by the power of two of what they hold, so that finding one that holds most takes no search.
 */
#ifndef BELFRY_SERVER_SHARES_H
#define BELFRY_SERVER_SHARES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/hash.h"
#include "base/list.h"
#include "base/map.h"
#include "server/work.h"

#define SHARES_UNFINISHED (256 * 1024) /* a connection with less is not ended for it: 4 x EXCHANGE_WINDOW */
#define SHARES_NAME_BYTES 288          /* of a client's name, with NUL; what is longer is cut */
#define SHARES_PERCENT    50
#define SHARES_TIER       90
#define SHARES_DEPARTED   256
#define SHARES_OVER       8 /* see above; more than a client that holds little may ask for */

enum shares_pool {
    SHARES_CONNECTIONS,
    SHARES_MEMORY,      /* bytes: connections, their streams and what waits to be sent */
    SHARES_REQUESTS,    /* bytes of requests that are not served yet */
    SHARES_WATCHERS,    /* of every dialect */
    SHARES_CALLS,       /* relayed; each is a stream upstream */
    SHARES_CALL_BYTES,  /* that they hold, in both directions */
    SHARES_LISTS,       /* Kubernetes lists that are not finished */
    SHARES_WATCH_BYTES, /* of watches of every dialect: what they keep, their ranges and selectors in the core, and the
                           rights to them */
    SHARES_LIST_BYTES,  /* of those lists, with their selectors */
    SHARES_N
};

/* "connections", "memory", ...: in metrics, logs and refusals. */
const char *shares_pool_name(enum shares_pool pool);
bool shares_pool_is_bytes(enum shares_pool pool); /* otherwise things are counted */

enum shares_class {
    SHARES_CLIENT,
    SHARES_BELOW, /* a tier below, which stands for all of its clients */
    SHARES_CLASSES
};

struct shares_limits {
    size_t total[SHARES_N];           /* 0: no bound, and no shares */
    unsigned percent[SHARES_CLASSES]; /* from 1 to 100; 0: SHARES_PERCENT and SHARES_TIER; 100: the whole pool */
};

struct shares_client;

/* A connection's part. All zero: nothing is counted, and there is always room. */
struct shares_conn {
    struct shares *shares;
    struct shares_client *client;
    struct belfry_list of_client;
    struct belfry_list of_unfinished;
    size_t unfinished; /* bytes held for requests that are not whole */
    size_t held[SHARES_N];
    bool ending;
};

struct shares_stats {
    size_t used, total;
    uint64_t refused; /* has_room() said no */
    uint64_t yielded; /* connections that were ended for it */
};

#define SHARES_BUCKETS 64

struct shares {
    struct shares_limits limits;
    /* Ends the connection because of that pool: it takes no more input, and what it holds is given back soon, but not
     * from inside this call. */
    void (*end)(struct shares_conn *conn, enum shares_pool pool, void *user);
    void *user;
    struct belfry_hash_key key;
    struct belfry_map clients;
    struct belfry_list all;      /* clients, in the order of their coming */
    struct belfry_list departed; /* clients without a connection, the first to be forgotten first */
    size_t n_departed;
    struct belfry_list walks;      /* under way */
    uint64_t now_ms;               /* as of the last tick */
    struct work work;              /* of all clients */
    struct belfry_list unfinished; /* connections that hold something for requests that are not whole */
    struct {
        size_t used;
        size_t leaving; /* of this, held by connections that are ending */
        uint64_t refused, yielded;
        uint64_t filled; /* bits of buckets that are not empty */
        struct belfry_list buckets[SHARES_BUCKETS];
    } pools[SHARES_N];
};

void shares_init(struct shares *shares, const struct shares_limits *limits, uint64_t seed,
                 void (*end)(struct shares_conn *conn, enum shares_pool pool, void *user), void *user);
void shares_fini(struct shares *shares); /* after the last connection has left */

/* The time goes on: to be called every second or so. */
void shares_tick(struct shares *shares, uint64_t now_ms);

/* New limits apply to what is asked from now on. */
void shares_set_limits(struct shares *shares, const struct shares_limits *limits);

/* A connection of the client with that name. Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err shares_join(struct shares *shares, struct shares_conn *conn, enum shares_class class,
                                             const char *name);

/* The connection turns out to be another client's, to whom all that it holds counts from now on.
 * Errors: BELFRY_ERR_NOMEM (nothing changed), BELFRY_ERR_LIMIT (that client has too many connections: end this one). */
BELFRY_NODISCARD enum belfry_err shares_move(struct shares_conn *conn, enum shares_class class, const char *name);

void shares_end(struct shares_conn *conn);   /* it is ending: what it holds counts as free */
void shares_leave(struct shares_conn *conn); /* it holds nothing any more, and is forgotten */

/* A part of what it holds of the pool changed from `before` to `after`. Nothing is asked: for what cannot be refused,
 * or was asked for. */
void shares_count(struct shares_conn *conn, enum shares_pool pool, size_t before, size_t after);
void shares_count_unfinished(struct shares_conn *conn, size_t before, size_t after);

/* Its client did so much. Relayed calls and connections are counted by shares_count(). */
void shares_work(struct shares_conn *conn, enum work_kind kind, uint64_t n);

/* May it hold `n` more of the pool? */
bool shares_has(const struct shares_conn *conn, enum shares_pool pool, size_t n);

/* The same; if it may not, room is made. False: it may not; the asker may be ending now. */
bool shares_make_room(struct shares_conn *conn, enum shares_pool pool, size_t n);

/* Would `n` more be refused only because ending connections are not gone yet? Then it helps nobody to end others. */
bool shares_is_emptying(const struct shares *shares, enum shares_pool pool, size_t n);

/* It was refused for a reason that is this pool's, though the pool had room. */
void shares_note_refused(struct shares_conn *conn, enum shares_pool pool);

bool shares_same_client(const struct shares_conn *a, const struct shares_conn *b);

/* A number that connections of one client have in common, and others hardly ever; 0 if nothing is counted. Shares with
 * the same seed give a client the same number. */
uint64_t shares_source(const struct shares_conn *conn);

const char *shares_name(const struct shares_conn *conn); /* its client's; "" if nothing is counted */

/* The client that holds most of a pool for its share: its name, and how much. Of more than 256 that hold about as much
 * it may be another, that holds at least half as much. NULL: none holds any. */
const char *shares_largest(const struct shares *shares, enum shares_pool pool, size_t *out_held);

void shares_stats(const struct shares *shares, enum shares_pool pool, struct shares_stats *out);

/* ---- all clients, one after another ---- */

struct shares_view {
    const char *name; /* lent until the next call of anything here */
    enum shares_class class;
    size_t held[SHARES_N]; /* without what connections that are ending hold */
    struct work_rates rates;
};

/* A walk may pause for as long as it likes. Clients that come or go meanwhile are seen or not; none is seen twice. */
struct shares_walk {
    struct shares *shares;
    struct belfry_list of_shares, *next;
};

void shares_walk_begin(struct shares_walk *walk, struct shares *shares);
bool shares_walk_next(struct shares_walk *walk, struct shares_view *out); /* false: that was the last */
void shares_walk_end(struct shares_walk *walk);                           /* before the shares' end; twice is fine */

#endif
