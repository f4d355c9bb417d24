/* src/kube/age.h
 *
 * age: the time since a timestamp, as in kubectl's tables: "45s", "5m30s", "3d4h", "2y".
 *
 * Thread: any. Pure.
 */
#ifndef BELFRY_KUBE_AGE_H
#define BELFRY_KUBE_AGE_H

#include <stdint.h>

#include "base/bytes.h"

#define KUBE_AGE_MAX 64

/* `timestamp` is RFC 3339. Writes "<invalid>" if it is malformed or in the future, "<unknown>" for Go's zero time.
 * now_s is in seconds since 1970. */
void kube_age_write(struct belfry_bytes timestamp, int64_t now_s, char out[KUBE_AGE_MAX]);

#endif
