/* bench/belfry-bench/idle.c: memory of connections and watchers that receive nothing; with --warm a second time, when
 * each connection has received so much and has been quiet again: buffers that were needed once may have stayed. */
#include <unistd.h>

#include "modes.h"
#include "poller.h"
#include "proc.h"
#include "stopwatch.h"

#define WARM_VALUE_BYTES 15000 /* with all around it just a full frame */

static struct swarm swarm;
static struct putter putter;

static double grown(struct proc_use before, struct proc_use after)
{
    return (double)after.anon_bytes - (double)before.anon_bytes;
}

static uint64_t warm(const struct plan *plan, int poll)
{
    struct plan warm = *plan;
    warm.value_bytes = WARM_VALUE_BYTES;
    size_t each = plan->streams * plan->watches * WARM_VALUE_BYTES;
    warm.puts = (plan->warm_bytes + each - 1) / each;
    warm.pace = PACE_PACED;
    struct putter_opts putter_opts = plan_putter(&warm);
    struct round_opts round_opts = plan_round(&warm);
    struct round_result result;
    putter_open(&putter, poll, &putter_opts);
    round_run(&swarm, &putter, &round_opts, &result);
    putter_close(&putter);
    return result.lost + result.doubled;
}

int idle_run(const struct plan *asked)
{
    struct plan plan = *asked;
    if (plan.warm_bytes > 0)
        plan.keys = LOAD_SHARED; /* everybody has to receive it */
    struct report report = {0};
    struct proc_use before = proc_use(plan.pid);
    uint64_t began = stopwatch_ns(), bad = 0;
    int poll = poller_create();
    struct swarm_opts opts = plan_swarm(&plan);
    swarm_open(&swarm, poll, &opts, plan.deadline_ns);
    double setup_s = (double)(stopwatch_ns() - began) * 1e-9;
    round_idle(poll, plan.settle_ms * NS_PER_MS);
    struct proc_use fresh = proc_use(plan.pid);

    report_text(&report, "mode", "idle");
    report_number(&report, "connections", (double)plan.conns);
    report_number(&report, "watchers", (double)swarm.n_watchers);
    report_number(&report, "setup_s", setup_s);
    report_number(&report, "memory_before_bytes", (double)before.anon_bytes);
    report_number(&report, "memory_bytes_per_watcher", grown(before, fresh) / (double)swarm.n_watchers);
    report_number(&report, "memory_bytes_per_connection", grown(before, fresh) / (double)plan.conns);
    if (plan.warm_bytes > 0) {
        bad = warm(&plan, poll);
        round_idle(poll, plan.settle_ms * NS_PER_MS);
        struct proc_use warmed = proc_use(plan.pid);
        report_number(&report, "warm_bytes_received_least", (double)swarm_least_bytes(&swarm));
        report_number(&report, "warm_memory_bytes_per_watcher", grown(before, warmed) / (double)swarm.n_watchers);
        report_number(&report, "warm_memory_bytes_per_connection", grown(before, warmed) / (double)plan.conns);
    }
    if (swarm.fault[0] != '\0')
        report_text(&report, "fault", swarm.fault);
    report_print(&report, plan.form, stdout);
    bad += swarm.fault[0] != '\0';
    swarm_close(&swarm);
    close(poll);
    return bad > 0;
}
