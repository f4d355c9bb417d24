/* bench/belfry-bench/resume.c: a fleet whose server is taken away and comes back: when is every watch there again, and
 * does each of them have everything?
 *
 *     open | one put to each range | --settle | --before: the connections break, one put to each shared range |
 *          every watch is there again | one put to each range | --settle | judged: every watch has each put to its
 *          range, once and in order
 *
 * The puts while the server is away are what watches resume for; the last round proves that each of them runs. Whoever
 * breaks the connections also starts the server again. */
#include <stdlib.h>
#include <unistd.h>

#include "die.h"
#include "modes.h"
#include "poller.h"
#include "proc.h"
#include "stopwatch.h"

#define LINGER_NS ((uint64_t)500 * NS_PER_MS) /* for what is doubled to show up */
#define ROUNDS    2

static struct swarm swarm;
static struct putter putter;

struct resume {
    const struct plan *plan;
    int poll;
    uint32_t *range_of; /* owned; by watcher */
    size_t n_ranges;
};

static double seconds_since(uint64_t ns)
{
    return (double)(stopwatch_ns() - ns) * 1e-9;
}

static void turn(const struct resume *resume, const char *doing)
{
    int tend_ms = swarm.reconnects ? swarm_tend(&swarm) : 100;
    poller_turn(resume->poll, tend_ms < 100 ? tend_ms : 100);
    if (swarm.fault[0] != '\0' || putter.fault[0] != '\0')
        die("while %s: %s%s", doing, swarm.fault, putter.fault);
    if (stopwatch_ns() > resume->plan->deadline_ns)
        die("out of time while %s: %zu of %zu watches are there, %zu of %zu connections were lost, %llu refused: %s; "
            "%zu of %zu puts are answered, %llu events came",
            doing, swarm.n_created, swarm.n_watchers, swarm.n_left, swarm.opts.n_conns,
            (unsigned long long)swarm.refusals, swarm.refusal, putter.answered, putter.sent,
            (unsigned long long)swarm.tally.events);
}

/* Makes so many more puts, in the order of the ranges. */
static void put_some(const struct resume *resume, size_t n, const char *doing)
{
    size_t until = putter.sent + n;
    while (putter.answered < until) {
        while (putter.sent < until && putter_put(&putter))
            ;
        turn(resume, doing);
    }
}

static struct tally_puts puts_so_far(const struct resume *resume)
{
    struct tally_puts puts = putter_puts(&putter);
    puts.range_of = resume->range_of;
    puts.n_ranges = resume->n_ranges;
    return puts;
}

static void await_events(const struct resume *resume, const char *doing)
{
    struct tally_puts puts = puts_so_far(resume);
    uint64_t wanted = tally_wanted(&swarm.tally, &puts);
    while (swarm.tally.events - swarm.tally.doubled < wanted)
        turn(resume, doing);
}

/* One put to each range; every watch has it. Returns the seconds until then. */
static double run_round(const struct resume *resume, const char *doing)
{
    uint64_t began = stopwatch_ns();
    put_some(resume, resume->n_ranges, doing);
    await_events(resume, doing);
    return seconds_since(began);
}

struct outage {
    double created_s, caught_up_s; /* from the loss on: every watch is there; and has the puts from meanwhile */
    double client_cpu_s;
    uint64_t logins;
};

/* The server goes, and every watch comes back. */
static struct outage break_and_resume(const struct resume *resume)
{
    struct outage out = {0};
    double cpu_s = proc_use(getpid()).cpu_s;
    uint64_t logins = swarm.logins;
    swarm_reconnect(&swarm, (uint64_t)getpid()); /* until here a loss was a fault */
    uint64_t began = stopwatch_ns();
    round_command(resume->plan->before);
    put_some(resume, FLEET_SHARED, "the server is away");
    while (!swarm_is_back(&swarm))
        turn(resume, "connections come back");
    out.created_s = seconds_since(began);
    await_events(resume, "watches catch up");
    out.caught_up_s = seconds_since(began);
    out.client_cpu_s = proc_use(getpid()).cpu_s - cpu_s;
    out.logins = swarm.logins - logins;
    return out;
}

/* Puts come in the order of ranges, so those of an outage are the shared ones only if a round is a whole turn. */
static void open_all(struct resume *resume)
{
    const struct plan *plan = resume->plan;
    struct swarm_opts swarm_opts = plan_swarm(plan);
    struct putter_opts putter_opts = plan_putter(plan);
    const struct fleet *fleet = &swarm_opts.load.fleet;
    resume->n_ranges = fleet_ranges(fleet);
    putter_opts.max_puts = ROUNDS * resume->n_ranges + FLEET_SHARED;
    swarm_open(&swarm, resume->poll, &swarm_opts, plan->deadline_ns);
    putter_open(&putter, resume->poll, &putter_opts);
    resume->range_of = must_have(calloc(swarm.n_watchers, sizeof(*resume->range_of)));
    for (size_t i = 0; i < swarm.n_watchers; i++)
        resume->range_of[i] = (uint32_t)fleet_range_of(fleet, i);
}

static void report_all(const struct resume *resume, const struct outage *outage, double opened_s,
                       const double *rounds_s, uint64_t lost)
{
    struct report report = {0};
    report_text(&report, "mode", "resume");
    report_number(&report, "connections", (double)resume->plan->conns);
    report_number(&report, "watchers", (double)swarm.n_watchers);
    report_number(&report, "ranges", (double)resume->n_ranges);
    report_number(&report, "opened_s", opened_s);
    report_number(&report, "created_again_s", outage->created_s);
    report_number(&report, "caught_up_s", outage->caught_up_s);
    report_number(&report, "logins", (double)outage->logins);
    report_number(&report, "connections_refused", (double)swarm.refusals);
    report_number(&report, "client_cpu_s", outage->client_cpu_s);
    report_number(&report, "first_round_s", rounds_s[0]);
    report_number(&report, "last_round_s", rounds_s[1]);
    report_number(&report, "puts", (double)putter.sent);
    report_number(&report, "deliveries", (double)swarm.tally.events);
    report_number(&report, "lost", (double)lost);
    report_number(&report, "doubled", (double)swarm.tally.doubled);
    report_print(&report, resume->plan->form, stdout);
}

int resume_run(const struct plan *plan)
{
    if (plan->keys != LOAD_FLEET || plan->before == NULL)
        die("resume needs --fleet and --before COMMAND, which breaks the connections");
    struct resume resume = {.plan = plan, .poll = poller_create()};
    double rounds_s[ROUNDS];
    uint64_t began = stopwatch_ns();
    open_all(&resume);
    double opened_s = seconds_since(began);
    rounds_s[0] = run_round(&resume, "the first round is delivered");
    round_idle(resume.poll, plan->settle_ms * NS_PER_MS);
    struct outage outage = break_and_resume(&resume);
    rounds_s[1] = run_round(&resume, "the last round is delivered");
    round_idle(resume.poll, LINGER_NS + plan->settle_ms * NS_PER_MS);
    struct tally_puts puts = puts_so_far(&resume);
    uint64_t lost = tally_judge(&swarm.tally, &puts, plan->streams * plan->watches, plan->watches, stderr);
    report_all(&resume, &outage, opened_s, rounds_s, lost);
    uint64_t bad = lost + swarm.tally.doubled;
    free(resume.range_of);
    putter_close(&putter);
    swarm_close(&swarm);
    close(resume.poll);
    return bad > 0;
}
