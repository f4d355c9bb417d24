/* bench/belfry-bench/stall.c: what one reader that hangs does to the others and to the server's memory.
 *
 * Rounds in pairs, one with everybody reading and one in which connection 0 does not, so that what else the machine
 * does falls on both. A stalled round ends when the stalled reader, reading again, has everything too, in order. */
#include <unistd.h>

#include "die.h"
#include "median.h"
#include "modes.h"
#include "poller.h"
#include "stopwatch.h"

static struct swarm swarm;
static struct putter putter;

struct pairs {
    double *without, *with, *ratio; /* p99 of the others, ms */
    double growth;                  /* bytes, the most of a stalled round */
    uint64_t lost, doubled, deliveries;
};

static double run_round(const struct round_opts *opts, struct pairs *pairs)
{
    struct round_result result;
    round_run(&swarm, &putter, opts, &result);
    pairs->lost += result.lost;
    pairs->doubled += result.doubled;
    pairs->deliveries += result.deliveries;
    double growth = (double)result.anon_stalled - (double)result.anon_before;
    if (opts->stalled != SWARM_NONE && growth > pairs->growth)
        pairs->growth = growth;
    return (double)histogram_percentile(&swarm.latency, 99) / 1e6;
}

static void run_pairs(const struct plan *plan, struct pairs *pairs)
{
    struct round_opts plain = plan_round(plan), stalled = plain;
    stalled.stalled = 0;
    stalled.stall_ns = plan->stall_ms * NS_PER_MS;
    for (size_t i = 0; i < plan->pairs; i++) {
        pairs->without[i] = run_round(&plain, pairs);
        pairs->with[i] = run_round(&stalled, pairs);
        pairs->ratio[i] = pairs->with[i] / pairs->without[i];
    }
}

int stall_run(const struct plan *asked)
{
    struct plan plan = *asked;
    if (plan.pace != PACE_RATE)
        die("stall needs --rate");
    plan.keys = LOAD_SHARED;
    plan.puts = (size_t)(plan.rate * (double)plan.stall_ms / 1000);
    int poll = poller_create();
    struct swarm_opts swarm_opts = plan_swarm(&plan);
    struct putter_opts putter_opts = plan_putter(&plan);
    struct pairs pairs = {.without = must_have(calloc(plan.pairs * 3, sizeof(double)))};
    pairs.with = pairs.without + plan.pairs;
    pairs.ratio = pairs.with + plan.pairs;
    swarm_open(&swarm, poll, &swarm_opts, plan.deadline_ns);
    putter_open(&putter, poll, &putter_opts);
    run_pairs(&plan, &pairs);

    struct report report = {0};
    report_text(&report, "mode", "stall");
    report_number(&report, "connections", (double)plan.conns);
    report_number(&report, "pairs", (double)plan.pairs);
    report_number(&report, "stall_s", (double)plan.stall_ms / 1000);
    report_number(&report, "stalled_bytes", (double)(plan.puts * plan.value_bytes));
    report_number(&report, "deliveries", (double)pairs.deliveries);
    report_number(&report, "lost", (double)pairs.lost);
    report_number(&report, "doubled", (double)pairs.doubled);
    report_number(&report, "p99_without_ms", median(pairs.without, plan.pairs));
    report_number(&report, "p99_with_ms", median(pairs.with, plan.pairs));
    report_number(&report, "p99_ratio", median(pairs.ratio, plan.pairs));
    report_number(&report, "memory_growth_bytes", pairs.growth);
    report_print(&report, plan.form, stdout);
    free(pairs.without);
    putter_close(&putter);
    swarm_close(&swarm);
    close(poll);
    return pairs.lost + pairs.doubled > 0;
}
