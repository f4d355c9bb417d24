/* bench/belfry-bench/replay.c: one watcher that starts far behind.
 *
 * The revisions are put first, with a live watcher on the target, so that a tier has all of them before the clock runs;
 * what is measured is from the create to the last event. */
#include <unistd.h>

#include "die.h"
#include "modes.h"
#include "poller.h"
#include "proc.h"
#include "stopwatch.h"

static struct swarm live, behind;
static struct putter putter;

static void await_all(const struct plan *plan, int poll)
{
    while (behind.tally.events < plan->revisions) {
        poller_turn(poll, stopwatch_ms_until(plan->deadline_ns));
        if (behind.fault[0] != '\0')
            die("%s", behind.fault);
        if (stopwatch_ns() > plan->deadline_ns)
            break;
    }
}

static void report_replay(const struct plan *plan, double wall_s, double cpu_s, uint64_t lost)
{
    struct report report = {0};
    double n = (double)behind.tally.events;
    report_text(&report, "mode", "replay");
    report_number(&report, "revisions", (double)plan->revisions);
    report_number(&report, "deliveries", n);
    report_number(&report, "lost", (double)lost);
    report_number(&report, "doubled", (double)behind.tally.doubled);
    report_number(&report, "wall_s", wall_s);
    report_number(&report, "revisions_per_s", n / wall_s);
    report_number(&report, "server_cpu_us_per_revision", cpu_s * 1e6 / n);
    report_print(&report, plan->form, stdout);
}

int replay_run(const struct plan *asked)
{
    struct plan plan = *asked;
    plan.conns = plan.streams = plan.watches = 1;
    plan.keys = LOAD_SHARED;
    plan.puts = plan.revisions;
    plan.pace = PACE_BURST;
    int poll = poller_create();
    struct swarm_opts swarm_opts = plan_swarm(&plan);
    struct putter_opts putter_opts = plan_putter(&plan);
    struct round_opts round_opts = plan_round(&plan);
    struct round_result filled;
    swarm_open(&live, poll, &swarm_opts, plan.deadline_ns);
    putter_open(&putter, poll, &putter_opts);
    round_run(&live, &putter, &round_opts, &filled);
    struct tally_puts puts = putter_puts(&putter);

    swarm_opts.start_revision = puts.revs[0];
    double cpu_s = proc_use(plan.pid).cpu_s;
    uint64_t began = stopwatch_ns();
    swarm_open(&behind, poll, &swarm_opts, plan.deadline_ns);
    await_all(&plan, poll);
    double wall_s = (double)(stopwatch_ns() - began) * 1e-9;
    cpu_s = proc_use(plan.pid).cpu_s - cpu_s;
    round_idle(poll, 200 * NS_PER_MS);
    uint64_t lost = tally_judge(&behind.tally, &puts, 1, 1, stderr);
    report_replay(&plan, wall_s, cpu_s, lost);
    int bad = lost + behind.tally.doubled + filled.lost + filled.doubled > 0;
    putter_close(&putter);
    swarm_close(&live);
    swarm_close(&behind);
    close(poll);
    return bad;
}
