/* bench/belfry-bench/million.c: a great many watchers on few connections: how fast they are created, what each costs,
 * that puts find the ones they concern, as fast as it goes and one at a time; and, with --closing, that it ends well.
 */
#include <unistd.h>

#include "closing.h"
#include "modes.h"
#include "poller.h"
#include "proc.h"
#include "stopwatch.h"

static struct swarm swarm;
static struct putter putter;

static struct swarm_opts opts_of(const struct plan *plan)
{
    struct swarm_opts opts = plan_swarm(plan);
    opts.bound.memory_floor = plan->memory_floor;
    opts.bound.until_ns = plan->fill_ms == 0 ? 0 : stopwatch_ns() + plan->fill_ms * NS_PER_MS;
    return opts;
}

/* Creates the watchers; what the server is then is left in *full. */
static void fill(const struct plan *plan, int poll, struct report *report, struct proc_use *full)
{
    struct swarm_opts opts = opts_of(plan);
    struct proc_use before = proc_use(plan->pid), own = proc_use(getpid());
    uint64_t began = stopwatch_ns();
    swarm_open(&swarm, poll, &opts, plan->deadline_ns);
    double create_s = (double)(stopwatch_ns() - began) * 1e-9;
    round_idle(poll, plan->settle_ms * NS_PER_MS);
    *full = proc_use(plan->pid);

    double n = (double)swarm.n_watchers;
    double own_bytes = (double)proc_use(getpid()).anon_bytes - (double)own.anon_bytes;
    report_number(report, "watchers", n);
    report_number(report, "connections", (double)swarm.opts.n_conns);
    report_number(report, "connections_asked", (double)plan->conns);
    report_text(report, "stopped_by", bound_name(swarm.bound_hit));
    report_number(report, "create_s", create_s);
    report_number(report, "creates_per_s", n / create_s);
    report_number(report, "create_server_cpu_us", (full->cpu_s - before.cpu_s) * 1e6 / n);
    report_number(report, "memory_bytes", (double)full->anon_bytes);
    report_number(report, "memory_bytes_per_watcher", ((double)full->anon_bytes - (double)before.anon_bytes) / n);
    report_number(report, "client_memory_bytes_per_watcher", own_bytes / n);
}

static void deliver(const struct plan *plan, enum pace pace, struct round_result *result)
{
    struct round_opts opts = plan_round(plan);
    opts.pace = pace;
    round_run(&swarm, &putter, &opts, result);
}

/* Returns what was lost or doubled. */
static uint64_t put_to_some(const struct plan *plan, int poll, struct report *report)
{
    struct putter_opts opts = plan_putter(plan);
    struct round_result burst, paced;
    opts.n_watchers = swarm.n_watchers;
    putter_open(&putter, poll, &opts);
    deliver(plan, plan->pace, &burst);
    report_number(report, "puts", (double)plan->puts);
    report_number(report, "server_cpu_us_per_put", burst.cpu_s * 1e6 / (double)plan->puts);
    report_latency(report, &swarm.latency);
    deliver(plan, PACE_PACED, &paced);
    report_number(report, "paced_server_cpu_us_per_put", paced.cpu_s * 1e6 / (double)plan->puts);
    report_number(report, "paced_latency_p50_ms", (double)histogram_percentile(&swarm.latency, 50) * 1e-6);
    report_number(report, "paced_latency_p99_ms", (double)histogram_percentile(&swarm.latency, 99) * 1e-6);
    report_number(report, "deliveries", (double)(burst.deliveries + paced.deliveries));
    report_number(report, "lost", (double)(burst.lost + paced.lost));
    report_number(report, "doubled", (double)(burst.doubled + paced.doubled));
    putter_close(&putter);
    return burst.lost + burst.doubled + paced.lost + paced.doubled;
}

static void leave(const struct plan *plan, uint64_t before_bytes, uint64_t full_bytes, struct report *report)
{
    const struct closing_opts opts = {.pid = plan->pid,
                                      .before_bytes = before_bytes,
                                      .full_bytes = full_bytes,
                                      .wait_ns = plan->closing_ms * NS_PER_MS,
                                      .deadline_ns = plan->deadline_ns};
    struct closing_result result;
    closing_run(&swarm, &opts, &result);
    report_number(report, "closing_first_answer_ms", result.first_ms);
    report_number(report, "closing_longest_answer_ms", result.longest_ms);
    report_number(report, "closing_given_back", result.given_back);
    report_number(report, "closing_s", result.back_s);
    report_number(report, "closing_server_cpu_s", result.cpu_s);
    report_number(report, "closing_kept_bytes", (double)result.kept_bytes);
}

int million_run(const struct plan *plan)
{
    struct report report = {0};
    struct proc_use full;
    uint64_t before_bytes = proc_use(plan->pid).anon_bytes;
    int poll = poller_create();
    report_text(&report, "mode", "million");
    fill(plan, poll, &report, &full);
    uint64_t bad = put_to_some(plan, poll, &report);
    if (plan->closing_ms > 0)
        leave(plan, before_bytes, full.anon_bytes, &report);
    else
        swarm_close(&swarm);
    report_print(&report, plan->form, stdout);
    close(poll);
    return bad > 0;
}
