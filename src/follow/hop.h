/* src/follow/hop.h
 *
 * hop: how long a revision takes from being published by the tier above to being published here, measured.
 *
 * Both tiers note when they published a revision, each by its own clock. The clocks are compared by the exchange that
 * brings the other's notes: it read its clock between our sending and our receiving, so its offset is what it read
 * minus the middle of the two, and is wrong by at most half the round trip. With time the clocks drift apart, by
 * HOP_DRIFT_PPM at most; so each revision is measured with the exchange, up to a minute before or after it, whose
 * bound is the smallest.
 *
 *     hop = received here - published there + offset        wrong by at most trip / 2 + drift
 *
 * An exchange that contradicts the one before it by more than both can be wrong shows that a clock has stepped (a
 * machine slept, or was moved): the measurements are discarded.
 *
 * The result is the median of the newest HOP_SAMPLES, and the largest bound among them (docs/decisions/0026).
 *
 * Thread: owner. Pure: all times in nanoseconds, handed in.
 */
#ifndef BELFRY_FOLLOW_HOP_H
#define BELFRY_FOLLOW_HOP_H

#include "follow/stamps.h"

#define HOP_SAMPLES   64
#define HOP_EXCHANGES 64
#define HOP_MEMORY_NS UINT64_C(60000000000)
#define HOP_DRIFT_PPM 100 /* two quartzes of 50 ppm each */

struct hop_exchange {
    uint64_t at_ns, trip_ns;
    uint64_t offset_ns; /* their clock minus ours, modulo 2^64: what they say may be anything */
};

struct hop_sample {
    uint64_t received_ns, published_ns; /* by our clock, by theirs */
    int64_t ns;                         /* the hop, by the best exchange so far */
    uint64_t error_ns;
};

struct hop {
    struct hop_exchange exchanges[HOP_EXCHANGES];
    uint64_t n_exchanges;
    struct hop_sample samples[HOP_SAMPLES];
    uint64_t n_samples;
    int64_t upto;      /* revisions up to here are not measured: they were, or came otherwise than live */
    uint64_t since_ns; /* what came before is not measured either: a clock has stepped since; 0: none has */
};

/* Another server, or what comes is not live: discards the measurements; revisions up to `upto` do not count. */
void hop_begin(struct hop *hop, int64_t upto);

/* An exchange: sent and received by our clock, answered by theirs (0: unknown), each after the one before. */
void hop_exchange(struct hop *hop, uint64_t sent_ns, uint64_t came_ns, uint64_t their_ns);

/* Measures the revisions that they stamped (ascending), that are new here and that we have stamped too. */
void hop_measure(struct hop *hop, const struct stamp *theirs, size_t n, const struct stamps *ours);

/* The median and its bound. False: nothing was measured. */
bool hop_read(const struct hop *hop, uint64_t *hop_ns, uint64_t *error_ns);

/* The shortest round trip of the last minute; 0: there was none. */
uint64_t hop_trip(const struct hop *hop, uint64_t now_ns);

#endif
