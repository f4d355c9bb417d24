/* bench/belfry-bench/million.c: a great many watchers on few connections: how fast they are created, what each costs,
 * and that puts find the ones they concern. */
#include <unistd.h>

#include "modes.h"
#include "poller.h"
#include "proc.h"
#include "stopwatch.h"

static struct swarm swarm;
static struct putter putter;

int million_run(const struct plan *plan)
{
    struct report report = {0};
    struct proc_use before = proc_use(plan->pid);
    uint64_t began = stopwatch_ns();
    int poll = poller_create();
    struct swarm_opts swarm_opts = plan_swarm(plan);
    struct putter_opts putter_opts = plan_putter(plan);
    swarm_open(&swarm, poll, &swarm_opts, plan->deadline_ns);
    double create_s = (double)(stopwatch_ns() - began) * 1e-9;
    round_idle(poll, plan->settle_ms * NS_PER_MS);
    struct proc_use after = proc_use(plan->pid);
    double n = (double)swarm.n_watchers;

    struct round_result result;
    struct round_opts round_opts = plan_round(plan);
    putter_open(&putter, poll, &putter_opts);
    round_run(&swarm, &putter, &round_opts, &result);

    report_text(&report, "mode", "million");
    report_number(&report, "watchers", n);
    report_number(&report, "connections", (double)plan->conns);
    report_number(&report, "create_s", create_s);
    report_number(&report, "creates_per_s", n / create_s);
    report_number(&report, "create_server_cpu_us", (after.cpu_s - before.cpu_s) * 1e6 / n);
    report_number(&report, "memory_bytes_per_watcher", ((double)after.anon_bytes - (double)before.anon_bytes) / n);
    report_number(&report, "puts", (double)plan->puts);
    report_number(&report, "deliveries", (double)result.deliveries);
    report_number(&report, "lost", (double)result.lost);
    report_number(&report, "doubled", (double)result.doubled);
    report_number(&report, "server_cpu_us_per_put", result.cpu_s * 1e6 / (double)plan->puts);
    report_latency(&report, &swarm.latency);
    report_print(&report, plan->form, stdout);
    putter_close(&putter);
    swarm_close(&swarm);
    close(poll);
    return result.lost + result.doubled > 0;
}
