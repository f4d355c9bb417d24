/* fuzz/about.c: any bytes as what a tier says of itself. What is read is within its bounds, and written again and read
 * it is the same; whatever its clock and stamps say, a hop can be computed from them. */
#include <stdint.h>
#include <string.h>

#include "follow/about.h"
#include "follow/hop.h"
#include "fuzz/check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_same(const struct about_level *a, const struct about_level *b)
{
    check(strcmp(a->name, b->name) == 0 && strcmp(a->version, b->version) == 0 && a->endpoint[0] == '\0');
    check(a->standing == b->standing && a->revision == b->revision && a->lag == b->lag && a->silent_ms == b->silent_ms);
    check(a->hop == b->hop && a->hop_us == b->hop_us && a->hop_error_us == b->hop_error_us && a->age_ms == b->age_ms);
}

/* By two exchanges, of which the later one may contradict the first. */
static void check_hop(const struct about *about)
{
    static struct stamps ours;
    static struct hop hop;
    uint64_t hop_ns, error_ns;
    stamps_clear(&ours);
    hop_begin(&hop, 0);
    for (size_t i = 0; i < about->n_stamps; i++)
        stamps_add(&ours, about->stamps[i].rev, 1000000 * (i + 1));
    for (uint64_t at = 0; at < 2; at++) {
        hop_exchange(&hop, at * 1000, at * 1000 + 10, about->clock_ns);
        hop_measure(&hop, about->stamps, about->n_stamps, &ours);
    }
    if (hop_read(&hop, &hop_ns, &error_ns))
        check(hop_ns <= INT64_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct about first, again;
    uint8_t message[ABOUT_BYTES];
    if (about_read(belfry_bytes_of(data, size), &first) != BELFRY_OK)
        return 0;
    check(first.n_above <= ABOUT_LEVELS && first.n_stamps <= ABOUT_STAMPS && first.self.revision >= 0);
    check_hop(&first);
    size_t len = about_write(&first, message);
    check(len <= sizeof(message));
    check(about_read(belfry_bytes_of(message, len), &again) == BELFRY_OK);
    check(again.n_above == first.n_above && again.n_stamps == first.n_stamps && again.clock_ns == first.clock_ns);
    check_same(&first.self, &again.self);
    for (size_t i = 0; i < first.n_above; i++)
        check_same(&first.above[i], &again.above[i]);
    check(memcmp(first.stamps, again.stamps, first.n_stamps * sizeof(first.stamps[0])) == 0);
    return 0;
}
