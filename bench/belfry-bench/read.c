/* bench/belfry-bench/read.c: Ranges, so many under way at a time, and what each costs the server and the process above
 * it. What both use while nothing is read is measured first, for --settle; with --rate the puts go on meanwhile. Memory
 * is sampled while the reads last: RssAnon, because pages of a mapped file are the kernel's to take back. */
#include <unistd.h>

#include "die.h"
#include "modes.h"
#include "poller.h"
#include "proc.h"
#include "readers.h"
#include "stopwatch.h"

#define SAMPLE_NS ((uint64_t)5 * NS_PER_MS)

struct writing {
    struct putter putter;
    uint64_t every_ns, due_ns; /* every_ns 0: nothing is written */
};

/* Of the server and of the process above it. */
struct uses {
    uint64_t at_ns;
    struct proc_use server, upstream;
};

struct shares { /* CPU seconds of a second */
    double server, upstream;
};

static struct readers readers;
static struct writing writing;
static uint64_t most_anon;

static struct uses uses_now(const struct plan *plan)
{
    return (struct uses){stopwatch_ns(), proc_use(plan->pid), proc_use(plan->upstream_pid)};
}

static double seconds_between(const struct uses *from, const struct uses *to)
{
    return (double)(to->at_ns - from->at_ns) * 1e-9;
}

/* ---- turns ---- */

static void writing_open(const struct plan *plan, int poll)
{
    struct putter_opts opts = plan_putter(plan);
    if (plan->rate == 0)
        return;
    writing.every_ns = NS_PER_S / plan->rate;
    writing.due_ns = stopwatch_ns();
    opts.load.keys = LOAD_DISTINCT;
    opts.n_watchers = plan->n_keys;
    opts.max_puts = plan->rate * (plan->timeout_ms / 1000 + 1);
    putter_open(&writing.putter, poll, &opts);
}

/* Makes the puts that are due. When too many are under way, they are made later. Returns when the next one is due. */
static uint64_t writing_go_on(uint64_t now)
{
    struct putter *putter = &writing.putter;
    if (writing.every_ns == 0)
        return UINT64_MAX;
    for (; writing.due_ns <= now && putter->sent < putter->opts.max_puts; writing.due_ns += writing.every_ns)
        if (!putter_put(putter))
            break;
    if (putter->fault[0] != '\0')
        die("%s", putter->fault);
    return writing.due_ns > now ? writing.due_ns : now + NS_PER_MS;
}

static void sample(pid_t pid)
{
    static uint64_t sampled_ns;
    uint64_t now = stopwatch_ns();
    if (pid == 0 || now - sampled_ns < SAMPLE_NS)
        return;
    sampled_ns = now;
    uint64_t anon = proc_use(pid).anon_bytes;
    most_anon = anon > most_anon ? anon : most_anon;
}

static void turn(const struct plan *plan, int poll, uint64_t until_ns)
{
    uint64_t next = writing_go_on(stopwatch_ns());
    uint64_t until = until_ns < plan->deadline_ns ? until_ns : plan->deadline_ns;
    poller_turn(poll, stopwatch_ms_until(next < until ? next : until));
    if (readers.fault[0] != '\0')
        die("%s", readers.fault);
    if (stopwatch_ns() > plan->deadline_ns)
        die("there was time for %llu of %zu reads only", (unsigned long long)readers.outcome.ok, plan->n_reads);
}

static void connect_all(const struct plan *plan, int poll)
{
    const struct readers_opts opts = {
        .target = plan->target,
        .load = {.keys = LOAD_DISTINCT, .form = LOAD_VALUES, .prefix = plan->prefix},
        .n_keys = plan->n_keys,
        .what = plan->pages       ? READERS_PAGES
                : plan->limit > 1 ? READERS_RANGE
                                  : READERS_KEY,
        .limit = plan->limit,
        .serializable = plan->serializable,
        .n_conns = plan->conns,
        .n_readers = plan->streams,
        .seed = stopwatch_ns(),
    };
    readers_open(&readers, poll, &opts);
    while (!readers_are_connected(&readers))
        turn(plan, poll, UINT64_MAX);
}

/* What is used while nothing is read. */
static struct shares rest(const struct plan *plan, int poll)
{
    uint64_t until = stopwatch_ns() + plan->settle_ms * NS_PER_MS;
    struct uses before = uses_now(plan);
    while (stopwatch_ns() < until)
        turn(plan, poll, until);
    struct uses after = uses_now(plan);
    double s = seconds_between(&before, &after);
    if (plan->settle_ms == 0)
        return (struct shares){0};
    return (struct shares){(after.server.cpu_s - before.server.cpu_s) / s,
                           (after.upstream.cpu_s - before.upstream.cpu_s) / s};
}

/* ---- figures ---- */

static void report_cpu(struct report *report, const struct uses *before, const struct uses *after, struct shares idle)
{
    double n = (double)(readers.outcome.ok + readers.outcome.failed);
    double s = seconds_between(before, after);
    double server = after->server.cpu_s - before->server.cpu_s,
           upstream = after->upstream.cpu_s - before->upstream.cpu_s;
    report_number(report, "server_cpu_us_per_read", server * 1e6 / n);
    report_number(report, "server_idle_cpu_ms_per_s", idle.server * 1e3);
    report_number(report, "server_more_cpu_us_per_read", (server - idle.server * s) * 1e6 / n);
    report_number(report, "upstream_cpu_us_per_read", upstream * 1e6 / n);
    report_number(report, "upstream_idle_cpu_ms_per_s", idle.upstream * 1e3);
    report_number(report, "upstream_more_cpu_us_per_read", (upstream - idle.upstream * s) * 1e6 / n);
}

static void report_reads(struct report *report, const struct plan *plan, double wall_s)
{
    report_text(report, "mode", plan->mode);
    report_number(report, "reads", (double)readers.outcome.ok);
    report_number(report, "failed", (double)readers.outcome.failed);
    if (readers.outcome.failed > 0)
        report_text(report, "fault", readers.outcome.why);
    report_number(report, "pinned", (double)readers.pinned);
    report_number(report, "kvs", (double)readers.kvs);
    report_number(report, "wall_s", wall_s);
    report_number(report, "reads_per_s", (double)readers.outcome.ok / wall_s);
    report_latency(report, &readers.outcome.took);
    if (writing.every_ns > 0)
        report_number(report, "puts", (double)writing.putter.answered);
}

int read_run(const struct plan *plan)
{
    struct report report = {0};
    int poll = poller_create();
    writing_open(plan, poll);
    connect_all(plan, poll);
    struct shares idle = rest(plan, poll);

    struct uses before = uses_now(plan);
    readers_begin(&readers, plan->n_reads);
    while (!readers_have_ended(&readers)) {
        turn(plan, poll, UINT64_MAX);
        sample(plan->pid);
    }
    struct uses after = uses_now(plan);

    report_reads(&report, plan, seconds_between(&before, &after));
    report_cpu(&report, &before, &after, idle);
    report_number(&report, "memory_before_bytes", (double)before.server.anon_bytes);
    most_anon = most_anon > after.server.anon_bytes ? most_anon : after.server.anon_bytes;
    report_number(&report, "memory_more_bytes", (double)most_anon - (double)before.server.anon_bytes);
    report_print(&report, plan->form, stdout);
    readers_close(&readers);
    if (writing.every_ns > 0)
        putter_close(&writing.putter);
    close(poll);
    return readers.outcome.failed > 0;
}
