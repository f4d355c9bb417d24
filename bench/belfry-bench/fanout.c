/* bench/belfry-bench/fanout.c: puts to many watchers. */
#include <unistd.h>

#include "modes.h"
#include "poller.h"
#include "proc.h"
#include "stopwatch.h"

static struct swarm swarm;
static struct putter putter;

static const char *pace_name(enum pace pace)
{
    return pace == PACE_PACED ? "paced" : pace == PACE_BURST ? "burst" : "rate";
}

static void report_setup(struct report *report, const struct plan *plan, double setup_s, struct proc_use before)
{
    struct proc_use after = proc_use(plan->pid);
    report_text(report, "mode", plan->mode);
    report_text(report, "pace", pace_name(plan->pace));
    report_number(report, "connections", (double)plan->conns);
    report_number(report, "streams", (double)plan->streams);
    report_number(report, "watches", (double)plan->watches);
    report_number(report, "watchers", (double)swarm.n_watchers);
    report_number(report, "puts", (double)plan->puts);
    report_number(report, "value_bytes", (double)plan->value_bytes);
    report_number(report, "setup_s", setup_s);
    report_number(report, "memory_bytes_per_watcher",
                  ((double)after.anon_bytes - (double)before.anon_bytes) / (double)swarm.n_watchers);
}

static void report_result(struct report *report, const struct plan *plan, const struct round_result *result)
{
    double deliveries = (double)result->deliveries;
    report_number(report, "deliveries", deliveries);
    report_number(report, "lost", (double)result->lost);
    report_number(report, "doubled", (double)result->doubled);
    if (plan->values == LOAD_OBJECTS)
        report_number(report, "resumed", (double)swarm.resumed);
    report_number(report, "wall_s", result->wall_s);
    report_number(report, "deliveries_per_s", deliveries / result->wall_s);
    report_number(report, "server_cpu_us_per_delivery", result->cpu_s * 1e6 / deliveries);
    report_number(report, "write_cpu_us_per_put", result->write_cpu_s * 1e6 / (double)plan->puts);
    report_number(report, "client_cpu_us_per_delivery", result->client_cpu_s * 1e6 / deliveries);
    report_latency(report, &swarm.latency);
    report_number(report, "put_p50_ms", (double)histogram_percentile(&putter.latency, 50) / 1e6);
    report_number(report, "server_memory_end_bytes", (double)result->anon_after);
}

int fanout_run(const struct plan *plan)
{
    struct report report = {0};
    struct proc_use before = proc_use(plan->pid);
    uint64_t began = stopwatch_ns();
    int poll = poller_create();
    struct swarm_opts swarm_opts = plan_swarm(plan);
    struct putter_opts putter_opts = plan_putter(plan);
    swarm_open(&swarm, poll, &swarm_opts, plan->deadline_ns);
    double setup_s = (double)(stopwatch_ns() - began) * 1e-9;
    round_idle(poll, plan->settle_ms * NS_PER_MS);
    report_setup(&report, plan, setup_s, before);

    struct round_result result;
    struct round_opts round_opts = plan_round(plan);
    putter_open(&putter, poll, &putter_opts);
    round_run(&swarm, &putter, &round_opts, &result);
    report_result(&report, plan, &result);
    report_print(&report, plan->form, stdout);
    putter_close(&putter);
    swarm_close(&swarm);
    close(poll);
    return result.lost + result.doubled > 0;
}
