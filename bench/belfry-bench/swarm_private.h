/* bench/belfry-bench/swarm_private.h
 *
 * swarm in three parts that know its seats: swarm.c has the watchers of etcd's API and what all have in common,
 * swarm_return.c how they come back, swarm_kube.c the watchers of Kubernetes' API.
 *
 * Thread: owner, as swarm.h says.
 */
#ifndef BENCH_SWARM_PRIVATE_H
#define BENCH_SWARM_PRIVATE_H

#include <stdbool.h>

#include "base/backoff.h"
#include "base/buf.h"
#include "base/list.h"
#include "h1conn.h"
#include "h2conn.h"
#include "swarm.h"

struct lane {
    size_t asked, created;
    bool *answered; /* owned; by watch. grpc-proxy numbers watches in the order of the creates but answers in another */
};

/*
 *                 opened            lost (swarm_reconnect())
 *     SEAT_EMPTY ----> SEAT_TAKEN ----> SEAT_AWAY
 *                          ^----------------'
 *                               its wait is over
 */
enum seat_state { SEAT_EMPTY, SEAT_TAKEN, SEAT_AWAY };

struct seat {
    struct swarm *swarm;
    size_t index;
    size_t n_created;
    enum seat_state state;
    /* since swarm_reconnect() */
    bool left; /* it had all its watches, and was lost */
    struct belfry_backoff backoff;
    struct belfry_list away; /* in swarm->away */
    uint64_t due_ns;         /* while it is in there: when it connects again */
    /* etcd's API */
    struct h2conn *conn; /* owned; NULL: not opened yet */
    struct lane *lanes;  /* owned; one a stream */
    /* Kubernetes' */
    struct h1conn *watch;    /* owned; NULL: not opened yet */
    int status;              /* of the answer; 0: none yet */
    struct belfry_buf start; /* of a line whose end has not come */
};

void swarm_fault(struct seat *seat, const char *what, const char *text);

/* The watcher was given that revision, which was put at `put_at` (0: not known). */
void swarm_delivery(struct seat *seat, size_t watcher, int64_t rev, uint64_t put_at, uint64_t now);

size_t swarm_per_seat(const struct swarm *swarm); /* watches of a connection */
void swarm_seat_open(struct seat *seat);
void swarm_seat_close(struct seat *seat);

/* swarm_return.c */

/* The connection is of no use any more: it will be made again. False when nobody has allowed that. Frees nothing: it is
 * called from inside the connection. */
bool swarm_lost(struct seat *seat, const char *why);

/* swarm_kube.c */

/* The revision of the server's objects; watches start behind it. */
int64_t swarm_kube_revision(const struct target *target, uint64_t deadline_ns);
void swarm_kube_open(struct seat *seat);
void swarm_kube_close(struct seat *seat);

#endif
