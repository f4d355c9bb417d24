/* src/judge/judge_register.h
 *
 * judge_register: whether the history of one key is linearizable.
 *
 * A history is the operations of many clients on one key, each with the time before it was sent and the time after its
 * answer came. It is linearizable if every operation can be given one moment between these two times so that the key,
 * changed and read in the order of the moments, gives exactly these answers. Where etcd has told the revisions of
 * writes, the moments must also have the order of the revisions.
 *
 * The search is that of Wing and Gong with Lowe's memory of configurations, as in Porcupine. What is known about a key
 * of etcd makes it narrow:
 *
 *   - a value is written once, so a write that was read ended, at the latest, with the first read of it;
 *   - a read that fits the present value is taken immediately: nothing is gained by taking it later;
 *   - a value that is overwritten never returns, so it is not left while a read of it remains;
 *   - a put without an answer that was never read can only explain a delete that found something, and a delete
 *     without an answer only a read that found nothing. Such spares are used in the order of their calls, and of two
 *     ways to the same place the one that used fewer of them is enough.
 *
 * So the search branches only where writes were under way at the same time, and writes of unknown outcome, which stay
 * open for ever, cost nothing until one of them is needed.
 *
 * Configurations are remembered by 64-bit fingerprints. Of a million configurations two have the same fingerprint in
 * one of 30 million histories; such a history may be judged as violated although it is not.
 *
 * Thread: owner. Pure: no clock, no I/O.
 * Memory: about 200 bytes per operation and at most 150 per step, until the call returns.
 */
#ifndef BELFRY_JUDGE_JUDGE_REGISTER_H
#define BELFRY_JUDGE_JUDGE_REGISTER_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define JUDGE_OPEN   INT64_MAX /* the end of an operation of unknown outcome */
#define JUDGE_ABSENT 0         /* the value of a key that is not there */

enum judge_op_kind {
    JUDGE_PUT,
    JUDGE_DELETE, /* one that found the key, or an open one. A delete that found nothing is a read of JUDGE_ABSENT */
    JUDGE_GET
};

struct judge_op {
    enum judge_op_kind kind;
    uint64_t value;          /* what was written or read; of a put neither JUDGE_ABSENT nor that of another put */
    int64_t mod_rev;         /* of a write its revision, of a read that of the value; 0: not known, as of an open one */
    int64_t call_ns, end_ns; /* not end_ns < call_ns. A read is never open: leave it out */
};

enum judge_verdict {
    JUDGE_LINEARIZABLE,
    JUDGE_NOT_LINEARIZABLE,
    JUDGE_UNDECIDED /* the search ended after max_steps */
};

struct judge_register_result {
    enum judge_verdict verdict;
    size_t n_steps;  /* configurations visited */
    size_t culprit;  /* not linearizable: the operation that no order could place, in the longest one found */
    const char *why; /* also: a sentence */
};

/* The key is absent at first. `ops` are in any order and lent for the call.
 * Errors: BELFRY_ERR_INVALID (ops are not as described above), BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err judge_register(const struct judge_op *ops, size_t n_ops, size_t max_steps,
                                                struct judge_register_result *out);

#endif
