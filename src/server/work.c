/* src/server/work.c */
#include "server/work.h"

#include <string.h>

static uint64_t window_of(uint64_t now_ms)
{
    return now_ms / WORK_MS;
}

void work_add(struct work *work, enum work_kind kind, uint64_t n, uint64_t now_ms)
{
    uint64_t window = window_of(now_ms);
    if (window != work->window) {
        if (window == work->window + 1)
            memcpy(work->before, work->now, sizeof(work->before));
        else
            memset(work->before, 0, sizeof(work->before));
        memset(work->now, 0, sizeof(work->now));
        work->window = window;
    }
    work->now[kind] += n;
}

struct work_rates work_rates(const struct work *work, uint64_t now_ms)
{
    uint64_t age = window_of(now_ms) - work->window; /* of `now`, in windows */
    double old = 1 - (double)(now_ms % WORK_MS) / WORK_MS;
    struct work_rates rates = {0};
    for (enum work_kind kind = 0; kind < WORK_N && age <= 1; kind++) {
        double n =
            age == 0 ? (double)work->now[kind] + old * (double)work->before[kind] : old * (double)work->now[kind];
        rates.per_s[kind] = n * 1000 / WORK_MS;
    }
    return rates;
}

double work_cost(const struct work_rates *rates)
{
    /* As measured with one client of one kind at a time, to one digit. A delivery costs a write and its bytes. */
    static const double ns[] = {
        [WORK_IO] = 3500,     [WORK_BYTES_IN] = 1,        [WORK_BYTES_OUT] = 1,      [WORK_REQUESTS] = 4000,
        [WORK_CALLS] = 25000, [WORK_CONNECTIONS] = 40000, [WORK_HANDSHAKES] = 500000};
    double cost = 0;
    for (enum work_kind kind = 0; kind < WORK_N; kind++)
        cost += rates->per_s[kind] * ns[kind];
    return cost / 1e9;
}
