/* bench/belfry-bench/storm.c: watchers whose server is taken away and comes back, while puts go on.
 *
 *     open, settle | --normal | --before: the connections break ... every watch is there again ... and has the newest
 *                  |          |                                                                put of that moment
 *                  | CPU of   | CPU of the process above, and the wall time
 *
 * Puts are steady all the time: some to what everybody watches, and --elsewhere some that only the servers see, as in
 * an etcd that others use as well. Whoever breaks the connections also starts the server again; a server that is
 * drained is taken away in the same sense, for everybody has to leave it once. At the end every watcher has to have
 * every put, once and in order. */
#include <stdlib.h>
#include <unistd.h>

#include "die.h"
#include "modes.h"
#include "poller.h"
#include "proc.h"
#include "stopwatch.h"

#define LINGER_NS ((uint64_t)200 * NS_PER_MS) /* for what is doubled to show up */
#define ELSEWHERE "/elsewhere/"

#define BEHIND_NS ((uint64_t)100 * NS_PER_MS) /* puts that are later are not made up for: a burst is no steady rate */
#define TRIES     5                           /* at a time before it in which the puts keep their rate */

static struct swarm swarm;
static struct putter putter, elsewhere;

struct storm {
    const struct plan *plan;
    int poll;
    uint64_t put_at, elsewhere_at; /* ns; when the next puts are due */
    bool puts_end;
};

struct span {
    double wall_s, upstream_cpu_s, client_cpu_s;
    size_t puts;      /* that were made, of both kinds */
    double created_s; /* of the storm: until all watches were there again */
    struct histogram latency;
};

static struct span normal, broken;

/* ---- turns ---- */

/* Makes the puts that are due. Returns the ms until the next. */
static int put_due(const struct storm *storm, struct putter *by, double rate, uint64_t *at)
{
    uint64_t now = stopwatch_ns();
    if (*at + BEHIND_NS < now)
        *at = now;
    for (; rate > 0 && !storm->puts_end && by->sent < by->opts.max_puts; *at += (uint64_t)(1e9 / rate)) {
        if (now < *at)
            return stopwatch_ms_until(*at);
        if (!putter_put(by))
            break; /* the answer to an older one wakes us */
    }
    return 100;
}

static void check_faults(void)
{
    if (swarm.fault[0] != '\0')
        die("%s", swarm.fault);
    if (putter.fault[0] != '\0' || elsewhere.fault[0] != '\0')
        die("%s%s", putter.fault, elsewhere.fault);
}

static void turn(struct storm *storm, const char *doing)
{
    int ms = put_due(storm, &putter, (double)storm->plan->rate, &storm->put_at);
    int elsewhere_ms = put_due(storm, &elsewhere, (double)storm->plan->elsewhere_rate, &storm->elsewhere_at);
    int tend_ms = swarm_tend(&swarm);
    ms = elsewhere_ms < ms ? elsewhere_ms : ms;
    poller_turn(storm->poll, tend_ms < ms ? tend_ms : ms);
    check_faults();
    if (stopwatch_ns() > storm->plan->deadline_ns)
        die("out of time while %s: %zu of %zu watches are there, %zu of %zu connections were lost, %llu refused: %s",
            doing, swarm.n_created, swarm.n_watchers, swarm.n_left, swarm.opts.n_conns,
            (unsigned long long)swarm.refusals, swarm.refusal);
}

static void turn_for(struct storm *storm, uint64_t ms)
{
    uint64_t until = stopwatch_ns() + ms * NS_PER_MS;
    while (stopwatch_ns() < until)
        turn(storm, "nothing happens");
}

/* ---- that everybody is up to date ---- */

/* The newest answered put that concerns each watcher; 0: none. */
static int64_t *newest_puts(void)
{
    int64_t *newest = must_have(calloc(swarm.n_watchers, sizeof(*newest)));
    int64_t of_all = 0;
    for (size_t i = 0; i < putter.sent; i++) {
        int64_t *to = putter.watchers != NULL ? &newest[putter.watchers[i]] : &of_all;
        if (putter.revs[i] > *to)
            *to = putter.revs[i];
    }
    for (size_t i = 0; putter.watchers == NULL && i < swarm.n_watchers; i++)
        newest[i] = of_all;
    return newest;
}

static void await_newest(struct storm *storm)
{
    int64_t *newest = newest_puts();
    for (size_t i = 0; i < swarm.n_watchers; i++)
        while (swarm.tally.rows[i].last_rev < newest[i])
            turn(storm, "watchers wait for the newest put");
    free(newest);
}

static void await_all(struct storm *storm)
{
    storm->puts_end = true;
    while (putter.answered < putter.sent || elsewhere.answered < elsewhere.sent)
        turn(storm, "puts are answered");
    await_newest(storm);
    round_idle(storm->poll, LINGER_NS);
}

/* ---- what is measured ---- */

static double puts_per_s(const struct span *span)
{
    return (double)span->puts / span->wall_s;
}

static void measure_before(struct storm *storm)
{
    histogram_clear(&swarm.latency);
    double cpu_s = proc_use(storm->plan->upstream_pid).cpu_s;
    size_t puts = putter.sent + elsewhere.sent;
    uint64_t began = stopwatch_ns();
    turn_for(storm, storm->plan->normal_ms);
    normal.wall_s = (double)(stopwatch_ns() - began) * 1e-9;
    normal.upstream_cpu_s = proc_use(storm->plan->upstream_pid).cpu_s - cpu_s;
    normal.puts = putter.sent + elsewhere.sent - puts;
    normal.latency = swarm.latency;
}

/* On a machine that has other work the puts fall behind, and with them what upstream does: that is not what the storm
 * is to be compared with. */
static void measure_normal(struct storm *storm)
{
    double asked = (double)(storm->plan->rate + storm->plan->elsewhere_rate);
    for (int i = 0; i < TRIES; i++) {
        measure_before(storm);
        if (puts_per_s(&normal) >= 0.9 * asked)
            return;
    }
    die("the machine is too busy: %.0f of %.0f puts a second could be made", puts_per_s(&normal), asked);
}

static void measure_storm(struct storm *storm)
{
    histogram_clear(&swarm.latency);
    swarm_reconnect(&swarm, (uint64_t)getpid()); /* until here a loss was a fault */
    double cpu_s = proc_use(storm->plan->upstream_pid).cpu_s;
    double client_cpu_s = proc_use(getpid()).cpu_s;
    size_t puts = putter.sent + elsewhere.sent;
    uint64_t began = stopwatch_ns();
    round_command(storm->plan->before);
    while (!swarm_is_back(&swarm))
        turn(storm, "connections come back");
    broken.created_s = (double)(stopwatch_ns() - began) * 1e-9;
    await_newest(storm);
    broken.wall_s = (double)(stopwatch_ns() - began) * 1e-9;
    broken.puts = putter.sent + elsewhere.sent - puts;
    broken.client_cpu_s = proc_use(getpid()).cpu_s - client_cpu_s;
    broken.upstream_cpu_s = proc_use(storm->plan->upstream_pid).cpu_s - cpu_s;
    broken.latency = swarm.latency;
}

static double cpu_ms_per_s(const struct span *span)
{
    return span->upstream_cpu_s * 1000 / span->wall_s;
}

static void report_all(const struct plan *plan, uint64_t lost)
{
    struct report report = {0};
    report_text(&report, "mode", "storm");
    report_number(&report, "connections", (double)plan->conns);
    report_number(&report, "watchers", (double)swarm.n_watchers);
    report_number(&report, "puts_per_s", (double)plan->rate);
    report_number(&report, "elsewhere_puts_per_s", (double)plan->elsewhere_rate);
    report_number(&report, "puts", (double)putter.sent);
    report_number(&report, "elsewhere_puts", (double)elsewhere.sent);
    report_number(&report, "deliveries", (double)swarm.tally.events);
    report_number(&report, "lost", (double)lost);
    report_number(&report, "doubled", (double)swarm.tally.doubled);
    report_number(&report, "created_again_s", broken.created_s);
    report_number(&report, "resumed_s", broken.wall_s);
    report_number(&report, "resumed_watches", (double)swarm.resumed);
    report_number(&report, "connections_lost", (double)swarm.n_left);
    report_number(&report, "connections_refused", (double)swarm.refusals);
    report_number(&report, "normal_puts_made_per_s", puts_per_s(&normal));
    report_number(&report, "storm_puts_made_per_s", puts_per_s(&broken));
    report_number(&report, "normal_upstream_cpu_ms_per_s", cpu_ms_per_s(&normal));
    report_number(&report, "storm_upstream_cpu_ms_per_s", cpu_ms_per_s(&broken));
    report_number(&report, "upstream_cpu_ratio", cpu_ms_per_s(&broken) / cpu_ms_per_s(&normal));
    report_number(&report, "storm_client_cpu_s", broken.client_cpu_s);
    report_number(&report, "normal_latency_p50_ms", (double)histogram_percentile(&normal.latency, 50) / 1e6);
    report_number(&report, "normal_latency_p99_ms", (double)histogram_percentile(&normal.latency, 99) / 1e6);
    report_number(&report, "storm_latency_max_ms", (double)histogram_percentile(&broken.latency, 100) / 1e6);
    report_print(&report, plan->form, stdout);
}

/* There is room for puts until the time is out. */
static void open_putters(const struct storm *storm)
{
    const struct plan *plan = storm->plan;
    struct putter_opts opts = plan_putter(plan);
    opts.max_puts = (size_t)(plan->rate * plan->timeout_ms / 1000) + 1;
    putter_open(&putter, storm->poll, &opts);
    opts.load = (struct load){.keys = LOAD_SHARED, .form = LOAD_VALUES, .prefix = ELSEWHERE};
    opts.max_puts = (size_t)(plan->elsewhere_rate * plan->timeout_ms / 1000) + 1;
    putter_open(&elsewhere, storm->poll, &opts);
}

int storm_run(const struct plan *plan)
{
    if (plan->pace != PACE_RATE || plan->before == NULL || plan->values == LOAD_OBJECTS)
        die("storm needs --rate and --before COMMAND, which breaks the connections, and watches etcd's API");
    struct storm storm = {.plan = plan, .poll = poller_create()};
    struct swarm_opts swarm_opts = plan_swarm(plan);
    swarm_open(&swarm, storm.poll, &swarm_opts, plan->deadline_ns);
    open_putters(&storm);
    turn_for(&storm, plan->settle_ms);
    measure_normal(&storm);
    measure_storm(&storm);
    turn_for(&storm, plan->settle_ms);
    await_all(&storm);
    struct tally_puts puts = putter_puts(&putter);
    uint64_t lost = tally_judge(&swarm.tally, &puts, plan->streams * plan->watches, plan->watches, stderr);
    report_all(plan, lost);
    uint64_t bad = lost + swarm.tally.doubled;
    putter_close(&putter);
    putter_close(&elsewhere);
    swarm_close(&swarm);
    close(storm.poll);
    return bad > 0;
}
