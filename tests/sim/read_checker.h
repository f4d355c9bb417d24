/* tests/sim/read_checker.h
 *
 * read_checker: judges what reads are answered, against the history.
 *
 * - A response is, byte for byte, what etcd would say of the range at the revision of the header, or at the one that
 *   was asked for: rows, limit, more and count. It is of one past. A linearizable read is of none that was left before
 *   it began: after a restore from a backup nothing is answered from the old past.
 * - Linearizable reads and all writes are the history of a register per key (judge/judge_register.h), and their
 *   revisions are as new as what was known before (judge/judge_recency.h). A restore begins new histories: the cluster
 *   itself loses writes there. Reads that were under way then are in none.
 * - On one connection no answer of a tier's replica is older than one before it (judge_recency.h again), and at one
 *   tier raft_term never goes back, until the tier has listed another past.
 * - 11 is a revision that was compacted, or that a linearizable read cannot have found. Other errors are of the
 *   network's kind.
 *
 * Moments are the simulator's own: each call, answer and write has one, and a write is a moment. What is wrong goes to
 * the verdict.
 *
 * Thread: owner. Memory: aborts without memory; everything of a past until it ends.
 */
#ifndef BELFRY_SIM_READ_CHECKER_H
#define BELFRY_SIM_READ_CHECKER_H

#include "sim/history.h"
#include "sim/link.h"

struct read_checker;
struct read_checker_conn;

struct read_checker *read_checker_create(const struct history *history);
void read_checker_destroy(struct read_checker *checker); /* NULL is fine */

/* Judges what has not been judged. When the last answer has come. */
void read_checker_finish(struct read_checker *checker);

/* A connection to a tier; `name` is copied, and appears in sentences. */
struct read_checker_conn *read_checker_open(struct read_checker *checker, const char *name);
void read_checker_close(struct read_checker_conn *conn); /* judged and freed */

/* A read. */
struct read_checker_call {
    struct belfry_wire_range_request request; /* its bytes are the caller's; no sort, no filter, not keys_only */
    /* set by read_checker_call() */
    int64_t moment;
    unsigned past;
    int64_t head;
};
void read_checker_call(struct read_checker *checker, struct read_checker_call *call);
void read_checker_answer(struct read_checker_conn *conn, const struct read_checker_call *call,
                         const struct link_answer *answer, struct belfry_bytes message);

#endif
