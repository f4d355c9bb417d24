/* tests/sim/kube/kube_judge.h
 *
 * kube_judge: reads the log as a worker does, and says what is wrong. A mirror of the state is moved by what the log
 * shows. At any version the mirror must be the state of some past that etcd had; the next batch must be that past's
 * next change. So a silent step from one past to another is found, unless both have the same state there.
 *
 * Also: nobody is told that the past was rewritten unless it was; nothing is listed anew before every server has
 * answered 410, nor from a cache whose past is visibly gone; the store has the state that the log says.
 *
 * Thread: the one thread of the simulator.
 */
#ifndef BELFRY_SIM_KUBE_JUDGE_H
#define BELFRY_SIM_KUBE_JUDGE_H

#include "core/evlog.h"
#include "core/store.h"
#include "sim/kube/kube_history.h"
#include "sim/kube/kube_servers.h"

struct kube_judge {
    struct kube_history *history;
    struct kube_servers *servers;
    struct evlog *evlog;
    struct store *store;
    uint64_t past; /* the log's; 0: none yet */
    int64_t at;
    uint64_t now_ms, awake_ms; /* awake: when the follower last woke from a sleep */
    struct kube_state mirror;
    int64_t audited;    /* below this version an audit has left differences that the next changes end; see is_of() */
    bool knows_leases;  /* the follower knows that one version may delete many objects */
    int64_t partial_rv; /* of this version deletions were not shown: the follower did not know of leases; 0: none */
    bool may_rewrite;   /* etcd was restored, or the store was damaged, since the last cut */
};

/* Again for each new log; may_rewrite and partial_rv are kept. */
void kube_judge_attach(struct kube_judge *judge, struct evlog *evlog, struct store *store);

/* After every step of the follower. */
void kube_judge_look(struct kube_judge *judge, uint64_t now_ms);

/* At the end: the mirror is what etcd has now. */
void kube_judge_end(struct kube_judge *judge);

#endif
