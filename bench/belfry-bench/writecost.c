/* bench/belfry-bench/writecost.c: what watchers cost those who write.
 *
 * Rounds in pairs, one without watchers and one with, so that what else the machine does falls on both. The putter has
 * a thread and a poll of its own, or reading the deliveries would count as slowness of the puts. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "die.h"
#include "median.h"
#include "modes.h"
#include "poller.h"
#include "proc.h"
#include "stopwatch.h"

static struct swarm swarm;
static struct putter putter; /* the thread's, while it runs */

struct writing {
    const struct plan *plan;
    double wall_s;
    atomic_bool done; /* release: the putter and wall_s may be read */
};

static void *write_all(void *user)
{
    struct writing *writing = user;
    const struct plan *plan = writing->plan;
    int poll = poller_create();
    struct putter_opts opts = plan_putter(plan);
    putter_open(&putter, poll, &opts);
    uint64_t began = stopwatch_ns();
    while (putter.answered < plan->puts && stopwatch_ns() < plan->deadline_ns && putter.fault[0] == '\0') {
        uint64_t due = began + (plan->pace == PACE_RATE ? (uint64_t)((double)putter.sent * 1e9 / plan->rate) : 0);
        int ms = 100;
        if (putter.sent < plan->puts) {
            ms = stopwatch_ms_until(due);
            if (ms == 0 && !putter_put(&putter))
                ms = 100;
        }
        poller_turn(poll, ms);
    }
    writing->wall_s = (double)(stopwatch_ns() - began) * 1e-9;
    close(poll);
    atomic_store_explicit(&writing->done, true, memory_order_release);
    return NULL;
}

struct cost {
    double p50_ms, p99_ms, per_s, write_cpu_us;
};

/* `watchers`: the swarm's poll, or -1 for none. */
static struct cost measure(const struct plan *plan, int watchers)
{
    struct writing writing = {.plan = plan};
    pthread_t thread;
    double cpu_s = proc_use(plan->write_pid).cpu_s;
    if (pthread_create(&thread, NULL, write_all, &writing) != 0)
        die("no thread can be had");
    while (watchers >= 0 && !atomic_load_explicit(&writing.done, memory_order_acquire))
        poller_turn(watchers, 20);
    pthread_join(thread, NULL);
    if (putter.answered < plan->puts)
        die("%s", putter.fault[0] != '\0' ? putter.fault : "the puts were not answered in time");
    return (struct cost){
        .p50_ms = (double)histogram_percentile(&putter.latency, 50) / 1e6,
        .p99_ms = (double)histogram_percentile(&putter.latency, 99) / 1e6,
        .per_s = (double)plan->puts / writing.wall_s,
        .write_cpu_us = (proc_use(plan->write_pid).cpu_s - cpu_s) * 1e6 / (double)plan->puts,
    };
}

/* What has not been delivered when the last put is answered still has to come. */
static uint64_t drain(const struct plan *plan, int poll)
{
    uint64_t wanted = swarm.opts.load.keys == LOAD_SHARED ? (uint64_t)plan->puts * swarm.n_watchers : plan->puts;
    while (swarm.tally.events < wanted && stopwatch_ns() < plan->deadline_ns && swarm.fault[0] == '\0')
        poller_turn(poll, 100);
    round_idle(poll, 100 * NS_PER_MS);
    if (swarm.fault[0] != '\0')
        die("%s", swarm.fault);
    struct tally_puts puts = putter_puts(&putter);
    return swarm.tally.doubled + tally_judge(&swarm.tally, &puts, plan->streams * plan->watches, plan->watches, stderr);
}

static struct cost measure_with(const struct plan *plan, uint64_t *bad)
{
    int poll = poller_create();
    struct swarm_opts opts = plan_swarm(plan);
    swarm_open(&swarm, poll, &opts, plan->deadline_ns);
    round_idle(poll, plan->settle_ms * NS_PER_MS);
    struct cost cost = measure(plan, poll);
    *bad += drain(plan, poll);
    putter_close(&putter);
    swarm_close(&swarm);
    close(poll);
    return cost;
}

static struct cost measure_without(const struct plan *plan)
{
    usleep((useconds_t)plan->settle_ms * 1000); /* the server is still busy with those who left */
    struct cost cost = measure(plan, -1);
    putter_close(&putter);
    return cost;
}

/* Medians of one figure: without, with, and of the ratio within a pair. */
static void report_figure(struct report *report, const char *const names[3], const struct cost *costs, size_t n_pairs,
                          size_t offset)
{
    double *figures = must_have(calloc(3 * n_pairs, sizeof(*figures)));
    for (size_t i = 0; i < n_pairs; i++) {
        double without = *(const double *)((const char *)&costs[2 * i] + offset);
        double with = *(const double *)((const char *)&costs[2 * i + 1] + offset);
        figures[i] = without;
        figures[n_pairs + i] = with;
        figures[2 * n_pairs + i] = without > 0 ? with / without : 0;
    }
    for (size_t i = 0; i < 3; i++)
        report_number(report, names[i], median(figures + i * n_pairs, n_pairs));
    free(figures);
}

int writecost_run(const struct plan *plan)
{
    uint64_t bad = 0;
    struct cost *costs = must_have(calloc(2 * plan->pairs, sizeof(*costs)));
    for (size_t i = 0; i < plan->pairs; i++) {
        costs[2 * i] = measure_without(plan);
        costs[2 * i + 1] = measure_with(plan, &bad);
    }
    static const char *const p50[] = {"put_p50_without_ms", "put_p50_with_ms", "put_p50_ratio"};
    static const char *const p99[] = {"put_p99_without_ms", "put_p99_with_ms", "put_p99_ratio"};
    static const char *const per_s[] = {"puts_per_s_without", "puts_per_s_with", "puts_per_s_ratio"};
    static const char *const cpu[] = {"write_cpu_us_per_put_without", "write_cpu_us_per_put_with",
                                      "write_cpu_per_put_ratio"};
    struct report report = {0};
    report_text(&report, "mode", "write-cost");
    report_number(&report, "watchers", (double)(plan->conns * plan->streams * plan->watches));
    report_number(&report, "puts", (double)plan->puts);
    report_number(&report, "pairs", (double)plan->pairs);
    report_number(&report, "lost_or_doubled", (double)bad);
    report_figure(&report, p50, costs, plan->pairs, offsetof(struct cost, p50_ms));
    report_figure(&report, p99, costs, plan->pairs, offsetof(struct cost, p99_ms));
    report_figure(&report, per_s, costs, plan->pairs, offsetof(struct cost, per_s));
    report_figure(&report, cpu, costs, plan->pairs, offsetof(struct cost, write_cpu_us));
    report_print(&report, plan->form, stdout);
    free(costs);
    return bad > 0;
}
