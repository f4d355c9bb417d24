/* bench/belfry-bench/put_time.h
 *
 * put_time: the time of a put as text in its value, so that each delivery says how long it took: ns in decimal digits,
 * padded with blanks to PUT_TIME_BYTES.
 *
 * Thread: any.
 */
#ifndef BENCH_PUT_TIME_H
#define BENCH_PUT_TIME_H

#include <stdint.h>

#include "base/bytes.h"

#define PUT_TIME_BYTES 20

/* Writes PUT_TIME_BYTES, without a final NUL. */
void put_time_write(char *to, uint64_t now_ns);

/* The time at the start of `text`; 0 when there is none. */
uint64_t put_time_read(struct belfry_bytes text);

#endif
