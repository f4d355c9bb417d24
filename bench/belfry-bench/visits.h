/* bench/belfry-bench/visits.h
 *
 * visits: requests that each have a connection of their own, as of clients that come, ask and leave: a read, a new
 * watch by etcd's API, a list, a new watch by Kubernetes' API, a watch from an old revision. A visit is over when the
 * read or the list is complete, the watch is created, or the first old event is there.
 *
 * Thread: owner, that of its poll.
 * Memory: fixed, but for connections under way, VISITS_MAX of them.
 */
#ifndef BENCH_VISITS_H
#define BENCH_VISITS_H

#include <stdbool.h>
#include <stdint.h>

#include "outcome.h"
#include "target.h"

#define VISITS_MAX 512

enum visit_kind { VISIT_READ, VISIT_ETCD_WATCH, VISIT_LIST, VISIT_KUBE_WATCH, VISIT_HISTORY };
#define VISIT_KINDS 5

/* Old revisions, at which keys were put that `key` is one of: the first watch of history starts at the first one. */
#define VISITS_OLDEST 2
#define VISITS_OLD    900

struct visits;

struct visit {
    struct visits *visits;
    enum visit_kind kind;
    uint64_t began_ns; /* 0: the place is free */
    bool over;         /* was counted; its connection is closed at the next visits_tend() */
    int status;        /* of HTTP/1.1; 0: none yet */
    struct h2conn *h2; /* owned; READ, ETCD_WATCH, HISTORY */
    struct h1conn *h1; /* owned; LIST, KUBE_WATCH */
};

struct visits {
    int poll;
    struct target target, kube_target; /* the second for Kubernetes' API; the same, unless the owner changes it */
    const char *key;                   /* lent */
    int64_t revision;                  /* that watches of Kubernetes' API start after; the owner keeps it current */
    uint64_t n_history;                /* visits of that kind: each starts at another revision */
    struct outcome outcomes[VISIT_KINDS];
    struct visit places[VISITS_MAX];
};

void visits_open(struct visits *visits, int poll, const struct target *target, const char *key);
void visits_close(struct visits *visits);

/* One more. It fails if VISITS_MAX are under way, or there is no socket for it. */
void visits_begin(struct visits *visits, enum visit_kind kind);

bool visits_is_idle(const struct visits *visits); /* none is under way */

/* Fails what is late, and closes the connections of visits that are over. */
void visits_tend(struct visits *visits, uint64_t now_ns);

#endif
