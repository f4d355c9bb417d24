/* src/follow/hop.c */
#include "follow/hop.h"

#include <stdlib.h>

void hop_begin(struct hop *hop, int64_t upto)
{
    hop->n_exchanges = hop->n_samples = 0;
    hop->upto = upto;
    hop->since_ns = 0;
}

static size_t hop_kept(uint64_t n, size_t max)
{
    return n < max ? (size_t)n : max;
}

static uint64_t hop_apart(uint64_t a, uint64_t b)
{
    return a > b ? a - b : b - a;
}

static uint64_t error_at(const struct hop_exchange *exchange, uint64_t ns)
{
    return exchange->trip_ns / 2 + hop_apart(exchange->at_ns, ns) / 1000000 * HOP_DRIFT_PPM;
}

/* Two measured offsets of steady clocks differ by no more than the sum of their bounds. If they differ by more, a clock
 * has stepped: their machine or ours has slept or was migrated. (The subtraction may wrap, because their clock may say
 * anything.) */
static bool has_stepped(const struct hop_exchange *before, const struct hop_exchange *now)
{
    uint64_t apart = now->offset_ns - before->offset_ns, bound = now->trip_ns / 2 + error_at(before, now->at_ns);
    return (apart <= INT64_MAX ? apart : 0 - apart) > bound + 1;
}

void hop_exchange(struct hop *hop, uint64_t sent_ns, uint64_t came_ns, uint64_t their_ns)
{
    uint64_t trip = came_ns > sent_ns ? came_ns - sent_ns : 0;
    struct hop_exchange now = {.at_ns = came_ns, .trip_ns = trip};
    if (their_ns != 0)
        now.offset_ns = their_ns - (sent_ns + trip / 2);
    if (hop->n_exchanges > 0 && has_stepped(&hop->exchanges[(hop->n_exchanges - 1) % HOP_EXCHANGES], &now)) {
        hop_begin(hop, hop->upto);
        hop->since_ns = came_ns;
    }
    hop->exchanges[hop->n_exchanges++ % HOP_EXCHANGES] = now;
}

/* The exchange with the smallest error for a measurement at `ns`; NULL: none. */
static const struct hop_exchange *best_for(const struct hop *hop, uint64_t ns)
{
    const struct hop_exchange *best = NULL;
    for (size_t i = 0; i < hop_kept(hop->n_exchanges, HOP_EXCHANGES); i++) {
        const struct hop_exchange *exchange = &hop->exchanges[i];
        if (hop_apart(exchange->at_ns, ns) > HOP_MEMORY_NS)
            continue;
        if (best == NULL || error_at(exchange, ns) < error_at(best, ns))
            best = exchange;
    }
    return best;
}

/* Measures the sample again by the best exchange known now, which may have come after it. */
static void hop_sample_refine(const struct hop *hop, struct hop_sample *sample)
{
    const struct hop_exchange *exchange = best_for(hop, sample->received_ns);
    if (exchange == NULL || error_at(exchange, sample->received_ns) >= sample->error_ns)
        return;
    sample->error_ns = error_at(exchange, sample->received_ns);
    sample->ns = (int64_t)(sample->received_ns - sample->published_ns + exchange->offset_ns);
}

void hop_measure(struct hop *hop, const struct stamp *theirs, size_t n, const struct stamps *ours)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t received;
        if (theirs[i].rev <= hop->upto || !stamps_when(ours, theirs[i].rev, &received))
            continue;
        hop->upto = theirs[i].rev;
        if (received >= hop->since_ns && best_for(hop, received) != NULL)
            hop->samples[hop->n_samples++ % HOP_SAMPLES] =
                (struct hop_sample){.received_ns = received, .published_ns = theirs[i].ns, .error_ns = UINT64_MAX};
    }
    for (size_t i = 0; i < hop_kept(hop->n_samples, HOP_SAMPLES); i++)
        hop_sample_refine(hop, &hop->samples[i]);
}

static int by_length(const void *a, const void *b)
{
    int64_t x = ((const struct hop_sample *)a)->ns, y = ((const struct hop_sample *)b)->ns;
    return (x > y) - (x < y);
}

bool hop_read(const struct hop *hop, uint64_t *hop_ns, uint64_t *error_ns)
{
    struct hop_sample sorted[HOP_SAMPLES];
    size_t n = hop_kept(hop->n_samples, HOP_SAMPLES);
    if (n == 0)
        return false;
    *error_ns = 0;
    for (size_t i = 0; i < n; i++) {
        sorted[i] = hop->samples[i];
        *error_ns = sorted[i].error_ns > *error_ns ? sorted[i].error_ns : *error_ns;
    }
    qsort(sorted, n, sizeof(sorted[0]), by_length);
    int64_t median = sorted[n / 2].ns;
    *hop_ns = median > 0 ? (uint64_t)median : 0; /* below 0: smaller than the error of the measurement */
    return true;
}

uint64_t hop_trip(const struct hop *hop, uint64_t now_ns)
{
    uint64_t least = 0;
    for (size_t i = 0; i < hop_kept(hop->n_exchanges, HOP_EXCHANGES); i++) {
        const struct hop_exchange *exchange = &hop->exchanges[i];
        if (hop_apart(exchange->at_ns, now_ns) <= HOP_MEMORY_NS && (least == 0 || exchange->trip_ns < least))
            least = exchange->trip_ns;
    }
    return least;
}
