/* src/daemon/peak.h
 *
 * peak: the largest value of the last minute, for any number of readers.
 *
 * Time is cut into windows of PEAK_WINDOW_MS, each with its own maximum. The answer is the largest of the window under
 * way and of the PEAK_WINDOWS before it. Reading changes nothing: whoever reads at least once per minute sees every
 * peak, however many others read. A value is seen for 60 to 70 s.
 *
 * Thread: owner. Pure.
 */
#ifndef BELFRY_DAEMON_PEAK_H
#define BELFRY_DAEMON_PEAK_H

#include <stdint.h>

#define PEAK_WINDOW_MS 10000
#define PEAK_WINDOWS   6 /* complete ones: a minute */

/* Zeroed at first. */
struct peak {
    uint64_t window; /* the number of the newest */
    uint64_t most[PEAK_WINDOWS + 1];
};

/* Forgets windows that are over. */
static inline void peak_move_on(struct peak *peak, uint64_t now_ms)
{
    uint64_t window = now_ms / PEAK_WINDOW_MS;
    uint64_t from = window > peak->window + PEAK_WINDOWS ? window - PEAK_WINDOWS : peak->window + 1;
    for (uint64_t i = from; i <= window; i++)
        peak->most[i % (PEAK_WINDOWS + 1)] = 0;
    peak->window = window > peak->window ? window : peak->window;
}

static inline void peak_note(struct peak *peak, uint64_t value, uint64_t now_ms)
{
    peak_move_on(peak, now_ms);
    uint64_t *most = &peak->most[peak->window % (PEAK_WINDOWS + 1)];
    *most = value > *most ? value : *most;
}

static inline uint64_t peak_now(struct peak *peak, uint64_t now_ms)
{
    uint64_t most = 0;
    peak_move_on(peak, now_ms);
    for (unsigned i = 0; i <= PEAK_WINDOWS; i++)
        most = peak->most[i] > most ? peak->most[i] : most;
    return most;
}

#endif
