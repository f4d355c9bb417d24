/* src/core/sweep.h
 *
 * sweep: how those who are behind catch up, together.
 *
 * Watchers that are behind wait, ordered by cursor. A bus drives forward through history, batch by batch, from the
 * smallest cursor that nobody serves; when it reaches a waiting watcher's cursor, that one boards, and from then on the
 * bus's place is its cursor: nobody is touched for a revision that he does not want. Each batch is looked up once in
 * the interest index, in the bus's own population. Who cannot be written to gets off at that revision (STALLED) and
 * waits again when his stream is writable. A bus in history ends where the log begins, and its riders wait for the bus
 * that drives there; that one ends at P, and its riders ride live. So a million who resume at once read history once,
 * and one who is a million revisions behind does not hold up one who is ten behind.
 *
 *     history                                        | log                          P
 *     ------ bus 2 ---->        -------- bus 3 ----> |   ------- bus 1 -----------> | riding
 *        ^ waiting    ^ waiting    ^       ^         |     ^
 *
 * A lone watcher's catch-up response grows by whole revisions while it is still in our hands, up to response_bytes and
 * response_revs; its header shows P, ahead of its events, as etcd's replay does.
 *
 * Thread: the worker's. Internal to core.
 */
#ifndef BELFRY_CORE_SWEEP_H
#define BELFRY_CORE_SWEEP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/treap.h"

#define SWEEP_LOG_BUS 1 /* population of the bus in the log */
#define SWEEP_BUSES   5 /* populations 1..5: one in the log, four in history */

struct worker;
struct watcher;

struct sweep_bus {
    int64_t at; /* the next batch it looks at has a revision of at least this; 0: it does not drive */
    size_t riders;
    /* inside the batch at `at`: how far it is, while the index has not changed since */
    size_t mid_group;
    uint64_t mid_serial;
    int64_t mid_id;
    uint64_t mid_generation; /* 0: at its start */
    bool scanning;           /* the batch is an extent, looked through up to scan_sub; nobody boards meanwhile */
    uint32_t scan_sub;
    uint64_t awaiting_since; /* ms; history was asked for. 0: it does not wait */
    bool woken;              /* something came: look whether it is that */
};

struct sweep {
    struct belfry_treap_node *waiting; /* by cursor, then address-independent tie: stream serial, id */
    size_t n_waiting;
    struct sweep_bus buses[SWEEP_BUSES + 1]; /* [0] is not used: population numbers */
};

#endif
