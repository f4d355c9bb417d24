/* bench/belfry-bench/listwatch.c: clients that come up, list a prefix and watch it, until all of them watch; then puts,
 * until all of them have each. What both cost the server and the process above it: less what these use while nothing
 * happens, which is measured first, for --settle. */
#include <unistd.h>

#include "die.h"
#include "listers.h"
#include "modes.h"
#include "poller.h"
#include "proc.h"
#include "stopwatch.h"

static struct listers listers;
static struct putter putter;

struct use_at {
    uint64_t ns;
    double server_s, upstream_s;
};

static struct use_at use_now(const struct plan *plan)
{
    return (struct use_at){stopwatch_ns(), proc_use(plan->pid).cpu_s, proc_use(plan->upstream_pid).cpu_s};
}

static struct use_at use_between(const struct use_at *from, const struct use_at *to)
{
    return (struct use_at){to->ns - from->ns, to->server_s - from->server_s, to->upstream_s - from->upstream_s};
}

/* Less what would have been used without clients in that time. */
static struct use_at less_idle(struct use_at use, const struct use_at *idle)
{
    double times = idle->ns == 0 ? 0 : (double)use.ns / (double)idle->ns;
    return (struct use_at){use.ns, use.server_s - times * idle->server_s, use.upstream_s - times * idle->upstream_s};
}

static void turn(const struct plan *plan, int poll)
{
    poller_turn(poll, listers_tend(&listers));
    if (listers.fault[0] != '\0')
        die("%s", listers.fault);
    if (putter.fault[0] != '\0')
        die("%s", putter.fault);
    if (stopwatch_ns() > plan->deadline_ns)
        die("there was time for %zu watches and %llu events only", listers.n_watching,
            (unsigned long long)listers.events);
}

static void connect_all(const struct plan *plan, int poll)
{
    struct listers_opts opts = {.target = plan->target,
                                .prefix = plan->prefix,
                                .n_keys = plan->n_keys,
                                .n_conns = plan->conns,
                                .n_clients = plan->streams,
                                .n_listing = plan->in_flight};
    struct putter_opts puts = plan_putter(plan);
    opts.target.n_sources = plan->sources;
    if (plan->sources > 1)
        must(target_set_source(&opts.target, "10.77.1.1"), "source");
    puts.load.keys = LOAD_DISTINCT;
    puts.n_watchers = plan->n_keys;
    listers_open(&listers, poll, &opts);
    putter_open(&putter, poll, &puts);
    while (!listers_are_connected(&listers))
        turn(plan, poll);
}

static void put_all(const struct plan *plan, int poll)
{
    while (!listers_have_events(&listers, plan->puts)) {
        while (putter.sent < plan->puts && putter_put(&putter))
            ;
        turn(plan, poll);
    }
}

static void report_uses(struct report *report, struct use_at up, struct use_at events)
{
    double n = (double)listers.n_watching;
    report_number(report, "up_s", (double)up.ns * 1e-9);
    report_number(report, "clients_per_s", n / ((double)up.ns * 1e-9));
    report_number(report, "up_server_cpu_s", up.server_s);
    report_number(report, "up_upstream_cpu_s", up.upstream_s);
    report_number(report, "server_cpu_us_per_client", up.server_s * 1e6 / n);
    report_number(report, "upstream_cpu_us_per_client", up.upstream_s * 1e6 / n);
    report_number(report, "deliveries", (double)listers.events);
    report_number(report, "events_s", (double)events.ns * 1e-9);
    report_number(report, "events_server_cpu_s", events.server_s);
    report_number(report, "events_upstream_cpu_s", events.upstream_s);
}

int listwatch_run(const struct plan *plan)
{
    struct report report = {0};
    int poll = poller_create();
    connect_all(plan, poll);
    struct use_at began = use_now(plan);
    round_idle(poll, plan->settle_ms * NS_PER_MS);
    struct use_at idled = use_now(plan);
    listers_begin(&listers);
    while (!listers_all_watch(&listers))
        turn(plan, poll);
    struct use_at up = use_now(plan);
    put_all(plan, poll);
    struct use_at ended = use_now(plan);

    struct use_at idle = use_between(&began, &idled);
    report_text(&report, "mode", plan->mode);
    report_number(&report, "clients", (double)listers.n_watching);
    report_number(&report, "kvs", (double)listers.kvs);
    report_number(&report, "retried", (double)listers.retried);
    report_uses(&report, less_idle(use_between(&idled, &up), &idle), less_idle(use_between(&up, &ended), &idle));
    report_latency(&report, &listers.took);
    report_print(&report, plan->form, stdout);
    listers_close(&listers);
    putter_close(&putter);
    close(poll);
    return 0;
}
