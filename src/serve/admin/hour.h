/* src/serve/admin/hour.h
 *
 * hour: the last hour of a tier, for the charts of its page: HOUR_SAMPLES samples of a fixed set of numbers, one every
 * HOUR_EVERY_MS. The numbers come from numbers_table.h, and from the same sums as /metrics.
 *
 * A rate is the increase of a counter since the sample before, per second. A value that is not known is written as
 * null: a rate in the first sample, after a gap, or while a worker does not answer; a latency when nothing was
 * delivered.
 *
 * Thread: owner (the front's loop). Pure: the caller has the clock.
 * Memory: HOUR_BYTES, reserved at creation. A restart forgets all of it.
 */
#ifndef BELFRY_SERVE_ADMIN_HOUR_H
#define BELFRY_SERVE_ADMIN_HOUR_H

#include "serve/admin/numbers.h"

#define HOUR_EVERY_MS 5000
#define HOUR_SAMPLES  720

enum hour_column {
    HOUR_EVENTS,         /* taken from upstream, per second */
    HOUR_DELIVERIES,     /* to watchers, per second */
    HOUR_SENT_BYTES,     /* to clients, per second */
    HOUR_READS_REPLICA,  /* answered here, per second */
    HOUR_READS_UPSTREAM, /* answered by upstream, per second */
    HOUR_RELAYED,        /* calls, per second */
    HOUR_REJECTED,       /* of all reasons, per second */
    HOUR_P50_MS,         /* an upper bound of the latency of half of the deliveries since the sample before */
    HOUR_P99_MS,
    HOUR_WATCHERS,
    HOUR_CONNECTIONS,
    HOUR_LAG_MS,       /* since upstream last confirmed that the tier is up to date */
    HOUR_MEMORY_BYTES, /* accounted */
    HOUR_N
};

struct hour_sample {
    uint32_t time_s; /* Unix time */
    float values[HOUR_N];
};

#define HOUR_BYTES (HOUR_SAMPLES * sizeof(struct hour_sample))

struct hour;

/* Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err hour_create(struct hour **out);
void hour_destroy(struct hour *hour); /* NULL is fine */

bool hour_is_due(const struct hour *hour, uint64_t now_ms);

/* Adds a sample, of numbers->now_ms; the oldest leaves when there are HOUR_SAMPLES. */
void hour_add(struct hour *hour, const struct tier_numbers *numbers);

uint64_t hour_next(const struct hour *hour); /* the number of the next sample; they count from 0 */

/* As one JSON object and a newline; "first" is the number of the first row:
 * {"every_s":5,"samples":720,"bytes":N,"columns":["time_s","events",...],"first":N,"rows":[[..],...]}
 * Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err hour_write(const struct hour *hour, struct belfry_buf *out);

/* The newest sample: {"number":N,"row":[..]}, without a newline. There must be one. Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err hour_write_newest(const struct hour *hour, struct belfry_buf *out);

#endif
