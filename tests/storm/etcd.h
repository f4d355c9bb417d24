/* tests/storm/etcd.h
 *
 * etcd: upstream as the serving side of a tier meets it (origin.h): questions about rights and revisions, log-ins,
 * calls that are passed on. What it does to a request that is not the tier's own is the run's choice: answers of all
 * sizes, errors, resets, silence.
 *
 *     token                          may read
 *     ETCD_ROOT, made by the tier    everything
 *     ETCD_PART                      all but /b
 *     any other                      nothing: it is not known
 *
 * Thread: owner.
 */
#ifndef BELFRY_STORM_ETCD_H
#define BELFRY_STORM_ETCD_H

#include <stdbool.h>

#include "storm/choices.h"

#define ETCD_ROOT "token-of-root"
#define ETCD_PART "token-of-part"

/* Ended by origin_close(). */
void etcd_open(const char *path, struct choices *choices);

/* From now on every call is answered as etcd does, after a time that the run chooses: gets with values, leases that are
 * granted and kept alive. */
void etcd_set_orderly(void);

void etcd_set_auth(bool on);
bool etcd_has_auth(void);

#endif
