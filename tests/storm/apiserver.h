/* tests/storm/apiserver.h
 *
 * apiserver: Kubernetes' API server as a tier meets it (origin.h): TokenReviews and SubjectAccessReviews, and requests
 * that are passed on, which are answered by an echo (echo.h), by a document with an ETag, or by a stream of numbered
 * lines. Whether it does so at once, late, in part or not at all is the run's choice, until it is calm.
 *
 *     token             is of
 *     APISERVER_TIER    the tier, for reviews alone: anything else that comes with it is a finding
 *     APISERVER_ROOT    a user who may do everything
 *     APISERVER_PART    a user who may read objects while apiserver_set_right() says so, and all else
 *     any other         nobody: 401
 *
 * A write of a client in good order that is carried out twice is a finding.
 *
 * Thread: owner.
 */
#ifndef BELFRY_STORM_APISERVER_H
#define BELFRY_STORM_APISERVER_H

#include "storm/choices.h"
#include "storm/etcd.h"

#define APISERVER_TIER "token-of-tier"
#define APISERVER_ROOT ETCD_ROOT /* rogues send the same tokens to every house */
#define APISERVER_PART ETCD_PART

/* Paths of clients in good order. A number follows the first: each write has one of its own, below APISERVER_WRITES. */
#define APISERVER_WRITE  "/api/v1/namespaces/ns/configmaps/w-"
#define APISERVER_WRITES 16384

/* Ended by origin_close(). */
void apiserver_open(const char *path, struct choices *choices);

void apiserver_set_calm(void); /* from now on every request is answered in full, and immediately */

void apiserver_set_right(bool has);
bool apiserver_has_right(void);
uint64_t apiserver_lost_ms(void); /* since when it has not; BELFRY_NEVER: it has */

/* Documents have a version, which is in their echo: the newest. */
uint64_t apiserver_version(void);

/* Something that is wrong in all runs from now on, which must be found. */
enum apiserver_wrong {
    APISERVER_SOUND,
    APISERVER_SWAPS,  /* answers with what another request has asked for */
    APISERVER_SHORT,  /* ends an answer in the middle, as if it were whole */
    APISERVER_TWICE,  /* carries out a write, and says that it did not */
    APISERVER_LENIENT /* allows what it should not */
};
void apiserver_set_wrong(enum apiserver_wrong what);

#endif
