/* tests/storm/etcd.h
 *
 * etcd: upstream as the serving side of a tier meets it, on a unix socket: questions about rights and revisions,
 * log-ins, calls that are passed on. What it does to a request that is not the tier's own is the run's choice: answers
 * of all sizes, errors, resets, silence.
 *
 *     token                          may read
 *     ETCD_ROOT, made by the tier    everything
 *     ETCD_PART                      all but /b
 *     any other                      nothing: it is not known
 *
 * Thread: owner. Nothing happens outside of etcd_turn(), which does not block.
 */
#ifndef BELFRY_STORM_ETCD_H
#define BELFRY_STORM_ETCD_H

#include <stdbool.h>
#include <stdint.h>

#include "storm/choices.h"

#define ETCD_ROOT "token-of-root"
#define ETCD_PART "token-of-part"

void etcd_open(const char *path, struct choices *choices);
void etcd_close(void);
bool etcd_turn(void); /* true: something was read, sent or answered */

/* From now on every call is answered as etcd does, after a time that the run chooses: gets with values, leases that are
 * granted and kept alive. etcd_due(): when the next answer is, BELFRY_NEVER: none waits for its time. */
void etcd_set_orderly(void);
uint64_t etcd_due(void);

void etcd_set_auth(bool on);
bool etcd_has_auth(void);

enum etcd_fault {
    ETCD_WELL,
    ETCD_SILENT, /* reads, and answers nothing */
    ETCD_DEAF,   /* reads nothing */
    ETCD_AWAY    /* has closed its socket */
};
void etcd_set_fault(enum etcd_fault fault);
enum etcd_fault etcd_fault(void);

/* Once: connections close; they are told to go; a stream of each is reset; bytes that are no frame. */
enum etcd_blow { ETCD_DROP, ETCD_GOAWAY, ETCD_RESET, ETCD_GARBAGE, ETCD_BLOWS };
void etcd_strike(enum etcd_blow blow);

#endif
