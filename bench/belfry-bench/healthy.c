/* bench/belfry-bench/healthy.c: clients in good order, of all kinds, and what they notice while something else happens
 * to their server: keep-alives of leases, watches of both dialects, reads, lists, history, and newcomers.
 *
 * Each line on standard input ends a phase: when everything that is under way is answered or has failed, what was
 * noticed since the last line is printed as one JSON object. The end of the input ends the run. Each kind of client
 * comes from an address of its own, 10.77.0.2 and up; with --sources all kinds share those from 10.77.1.1 on. */
#include <stdlib.h>
#include <unistd.h>

#include "asker.h"
#include "die.h"
#include "leases.h"
#include "modes.h"
#include "poller.h"
#include "stopwatch.h"
#include "visits.h"

#define N_LEASES    100
#define FIRST_HOST  2
#define PHASE_PUTS  200000
#define ARRIVAL_NS  ((uint64_t)6 * NS_PER_S) /* for what is on its way when a phase ends: over OUTCOME_LATE_MS */
#define EVERY_MS(n) ((uint64_t)(n)*NS_PER_MS)

/* What is done again and again. */
enum task { TASK_READ, TASK_READ_VISIT, TASK_LIST, TASK_ETCD_WATCH, TASK_KUBE_WATCH, TASK_HISTORY, TASK_PUT };
#define N_TASKS 7

static const uint64_t every_ns[N_TASKS] = {
    [TASK_READ] = EVERY_MS(10),        [TASK_READ_VISIT] = EVERY_MS(100), [TASK_LIST] = EVERY_MS(100),
    [TASK_ETCD_WATCH] = EVERY_MS(100), [TASK_KUBE_WATCH] = EVERY_MS(100), [TASK_HISTORY] = EVERY_MS(500),
    [TASK_PUT] = EVERY_MS(100),
};

struct dialect {
    struct swarm swarm;
    struct putter putter;
    uint64_t faults;  /* of watches, which are not made again */
    uint64_t resumed; /* at the beginning of the phase */
    char why[128];
};

struct healthy {
    int poll;
    struct leases leases;
    struct asker asker;
    struct visits visits;
    struct dialect etcd, kube;
    uint64_t due_ns[N_TASKS];
    struct poller_entry input;
    bool phase_ends, input_ends;
    uint64_t cut; /* leases.cut at the beginning of the phase */
};

static struct healthy healthy; /* one of a process, and too large for a stack */

/* From an address that is the `n`th of those of healthy clients, or from many. */
static struct target target_of(const struct plan *plan, const struct target *to, unsigned n)
{
    struct target target = *to;
    char address[32];
    if (plan->sources > 1)
        snprintf(address, sizeof(address), "10.77.1.1");
    else
        snprintf(address, sizeof(address), "10.77.0.%u", FIRST_HOST + n);
    target.n_sources = plan->sources;
    must(target_set_source(&target, address), "source");
    return target;
}

static void dialect_open(struct dialect *dialect, const struct plan *asked, enum load_form form, unsigned host)
{
    struct plan plan = *asked;
    plan.values = form;
    plan.prefix = form == LOAD_OBJECTS ? "/registry/pods/" : "/bench/";
    plan.keys = LOAD_SHARED;
    plan.puts = PHASE_PUTS;
    plan.target = target_of(asked, form == LOAD_OBJECTS ? &asked->kube_target : &asked->target, host);
    plan.conns = form == LOAD_OBJECTS ? asked->conns : asked->conns / 10;
    plan.streams = form == LOAD_OBJECTS ? 1 : 10;
    plan.watches = 1;
    struct swarm_opts swarm = plan_swarm(&plan);
    struct putter_opts putter = plan_putter(&plan);
    putter_open(&dialect->putter, healthy.poll, &putter);
    swarm_open(&dialect->swarm, healthy.poll, &swarm, plan.deadline_ns);
    if (form == LOAD_VALUES)
        swarm_reconnect(&dialect->swarm, stopwatch_ns());
}

static void dialect_close(struct dialect *dialect)
{
    swarm_close(&dialect->swarm);
    putter_close(&dialect->putter);
}

static void dialect_tend(struct dialect *dialect)
{
    struct swarm *swarm = &dialect->swarm;
    if (swarm->reconnects)
        swarm_tend(swarm);
    if (swarm->fault[0] == '\0')
        return;
    dialect->faults++;
    snprintf(dialect->why, sizeof(dialect->why), "%.127s", swarm->fault);
    swarm->fault[0] = '\0';
}

static bool dialect_has_all(const struct dialect *dialect)
{
    return dialect->putter.answered == dialect->putter.sent &&
           dialect->swarm.tally.events >= dialect->putter.sent * dialect->swarm.n_watchers;
}

/* ---- a turn ---- */

static void task_do(enum task task)
{
    switch (task) {
    case TASK_READ:
        asker_ask(&healthy.asker);
        break;
    case TASK_READ_VISIT:
        visits_begin(&healthy.visits, VISIT_READ);
        break;
    case TASK_LIST:
        visits_begin(&healthy.visits, VISIT_LIST);
        break;
    case TASK_ETCD_WATCH:
        visits_begin(&healthy.visits, VISIT_ETCD_WATCH);
        break;
    case TASK_KUBE_WATCH:
        healthy.visits.revision = healthy.kube.swarm.tally.rows[0].last_rev;
        visits_begin(&healthy.visits, VISIT_KUBE_WATCH);
        break;
    case TASK_HISTORY:
        visits_begin(&healthy.visits, VISIT_HISTORY);
        break;
    case TASK_PUT: /* when too many are under way, none */
        if (healthy.etcd.putter.sent < PHASE_PUTS)
            putter_put(&healthy.etcd.putter);
        if (healthy.kube.putter.sent < PHASE_PUTS)
            putter_put(&healthy.kube.putter);
        break;
    }
}

/* A task that is late is done as often as it should have been, as by clients that do not know of each other. */
static void healthy_turn(bool asks)
{
    uint64_t now = stopwatch_ns(), next = now + EVERY_MS(10);
    for (enum task task = 0; asks && task < N_TASKS; task++) {
        for (; healthy.due_ns[task] <= now; healthy.due_ns[task] += every_ns[task])
            task_do(task);
        next = healthy.due_ns[task] < next ? healthy.due_ns[task] : next;
    }
    leases_tend(&healthy.leases, now);
    asker_tend(&healthy.asker, now);
    visits_tend(&healthy.visits, now);
    dialect_tend(&healthy.etcd);
    dialect_tend(&healthy.kube);
    poller_turn(healthy.poll, stopwatch_ms_until(next));
}

/* ---- phases ---- */

static void dialect_restart(struct dialect *dialect)
{
    if (dialect->putter.answered == dialect->putter.sent)
        putter_restart(&dialect->putter);
    swarm_restart(&dialect->swarm);
    dialect->faults = 0;
    dialect->resumed = dialect->swarm.resumed;
    dialect->why[0] = '\0';
}

static void phase_begin(void)
{
    uint64_t now = stopwatch_ns();
    outcome_clear(&healthy.asker.outcome);
    for (size_t i = 0; i < VISIT_KINDS; i++)
        outcome_clear(&healthy.visits.outcomes[i]);
    dialect_restart(&healthy.etcd);
    dialect_restart(&healthy.kube);
    healthy.cut = healthy.leases.cut;
    for (size_t i = 0; i < N_TASKS; i++)
        healthy.due_ns[i] = now + every_ns[i] * i / N_TASKS; /* not all at the same time */
}

static double p99_ms(const struct histogram *histogram)
{
    return (double)histogram_percentile(histogram, 99) / NS_PER_MS;
}

static void report_outcome(struct report *report, const struct outcome *outcome, const char *const names[4])
{
    report_number(report, names[0], (double)outcome->ok);
    report_number(report, names[1], (double)outcome->failed);
    report_number(report, names[2], p99_ms(&outcome->took));
    report_text(report, names[3], outcome->why);
}

static void report_dialect(struct report *report, const struct dialect *dialect, const char *const names[5])
{
    const struct swarm *swarm = &dialect->swarm;
    uint64_t wanted = dialect->putter.sent * swarm->n_watchers;
    report_number(report, names[0], (double)swarm->tally.events);
    report_number(report, names[1], swarm->tally.events < wanted ? (double)(wanted - swarm->tally.events) : 0);
    report_number(report, names[2], p99_ms(&swarm->latency));
    report_number(report, names[3], (double)(swarm->resumed - dialect->resumed + dialect->faults));
    report_text(report, names[4], dialect->why[0] != '\0' ? dialect->why : swarm->refusal);
}

static void phase_print(void)
{
    static const char *const visit_names[VISIT_KINDS][4] = {
        {"visit_reads", "visit_reads_failed", "visit_reads_p99_ms", "visit_reads_why"},
        {"etcd_creates", "etcd_creates_failed", "etcd_creates_p99_ms", "etcd_creates_why"},
        {"lists", "lists_failed", "lists_p99_ms", "lists_why"},
        {"kube_creates", "kube_creates_failed", "kube_creates_p99_ms", "kube_creates_why"},
        {"history", "history_failed", "history_p99_ms", "history_why"}};
    static const char *const read_names[] = {"reads", "reads_failed", "reads_p99_ms", "reads_why"};
    static const char *const etcd_names[] = {"etcd_events", "etcd_events_lost", "etcd_events_p99_ms",
                                             "etcd_watches_cut", "etcd_watches_why"};
    static const char *const kube_names[] = {"kube_events", "kube_events_lost", "kube_events_p99_ms",
                                             "kube_watches_cut", "kube_watches_why"};
    struct report report = {0};
    report_outcome(&report, &healthy.asker.outcome, read_names);
    for (size_t i = 0; i < VISIT_KINDS; i++)
        report_outcome(&report, &healthy.visits.outcomes[i], visit_names[i]);
    report_dialect(&report, &healthy.etcd, etcd_names);
    report_dialect(&report, &healthy.kube, kube_names);
    report_number(&report, "leases_lost", (double)(N_LEASES - leases_count(&healthy.leases, LEASE_KEPT)));
    report_number(&report, "keep_alives_cut", (double)(healthy.leases.cut - healthy.cut));
    report_text(&report, "keep_alives_why", healthy.leases.why);
    report_print(&report, REPORT_JSON, stdout);
}

/* Everything that was asked for has been answered, or has failed. */
static bool phase_is_complete(void)
{
    return dialect_has_all(&healthy.etcd) && dialect_has_all(&healthy.kube) && asker_is_idle(&healthy.asker) &&
           visits_is_idle(&healthy.visits);
}

static void phase_end(void)
{
    uint64_t until = stopwatch_ns() + ARRIVAL_NS;
    while (!phase_is_complete() && stopwatch_ns() < until)
        healthy_turn(false);
    phase_print();
    phase_begin();
    healthy.phase_ends = false;
}

static void on_input(struct poller_entry *entry, uint32_t events)
{
    char line[64];
    (void)entry, (void)events;
    if (read(STDIN_FILENO, line, sizeof(line)) > 0) {
        healthy.phase_ends = true;
        return;
    }
    healthy.input_ends = true;
    poller_forget(healthy.poll, STDIN_FILENO);
}

int healthy_run(const struct plan *asked)
{
    struct plan shown = *asked;
    const struct plan *plan = &shown;
    if (asked->tokens.n > 0)
        shown.target.bearer = shown.kube_target.bearer = credentials_of(&asked->tokens, 0); /* all show the first */
    struct target leases = target_of(plan, &plan->target, 0), reads = target_of(plan, &plan->target, 1);
    struct target visits = target_of(plan, &plan->target, 2);
    healthy.poll = poller_create();
    leases_open(&healthy.leases, healthy.poll, &leases, N_LEASES);
    asker_open(&healthy.asker, healthy.poll, &reads, "/bench/0");
    visits_open(&healthy.visits, healthy.poll, &visits, "/bench/0");
    healthy.visits.kube_target = target_of(plan, &plan->kube_target, 2);
    dialect_open(&healthy.etcd, plan, LOAD_VALUES, 3);
    dialect_open(&healthy.kube, plan, LOAD_OBJECTS, 4);
    while (leases_count(&healthy.leases, LEASE_ASKED) > 0 && stopwatch_ns() < plan->deadline_ns)
        poller_turn(healthy.poll, 10);
    healthy.input.ready = on_input;
    poller_watch(healthy.poll, EPOLL_CTL_ADD, STDIN_FILENO, EPOLLIN, &healthy.input);
    puts("ready");
    fflush(stdout);
    for (phase_begin(); !healthy.input_ends;) {
        healthy_turn(true);
        if (healthy.phase_ends)
            phase_end();
    }
    dialect_close(&healthy.kube);
    dialect_close(&healthy.etcd);
    visits_close(&healthy.visits);
    asker_close(&healthy.asker);
    leases_close(&healthy.leases);
    close(healthy.poll);
    return 0;
}
