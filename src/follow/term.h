/* src/follow/term.h
 *
 * term: the highest raft term that upstream has shown to this tier, for the headers of the tier's own answers.
 *
 * Every header of etcd names the term that its member is in. A client that has seen one must not be shown a lower one
 * by the same tier. So each header that this tier receives raises one number before anything of it is passed on: those
 * of its watch, of its own reads, and of relayed answers. A member that lags does not lower it, and another cluster
 * does not move it, until a listing shows that it is the one to follow.
 *
 * Thread: any, but for term_init() and term_fini().
 * Memory: fixed.
 */
#ifndef BELFRY_FOLLOW_TERM_H
#define BELFRY_FOLLOW_TERM_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "wire/scan.h"

struct term {
    pthread_mutex_t mu;          /* held by whoever changes anything */
    uint64_t other_cluster_id;   /* under mu: a cluster that is not followed, as far as we know, and... */
    uint64_t other;              /* ... its highest term */
    _Atomic uint64_t cluster_id; /* this and the next: moved under mu, read without. Whose term it is; 0: not known */
    _Atomic uint64_t highest;
};

void term_init(struct term *term);
void term_fini(struct term *term);

/* A listing of that cluster was adopted, as another past. If it is another cluster, only what was heard of that one
 * counts: relayed answers may have come from it before. A cluster that was restored with its old id keeps its highest
 * term. */
void term_begin(struct term *term, uint64_t cluster_id, uint64_t raft_term);

/* Upstream has sent this header. Costs two loads unless the term is higher than any before. */
void term_hear(struct term *term, const struct belfry_wire_header *header);

/* At least as high as any that was heard before this call began. 0: none was. */
uint64_t term_now(const struct term *term);

#endif
