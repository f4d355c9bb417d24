/* bench/belfry-bench/round.c */
#include "round.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "die.h"
#include "poller.h"
#include "proc.h"
#include "stopwatch.h"

#define NO_PROGRESS_NS ((uint64_t)20 * NS_PER_S)   /* then what has not come is lost */
#define LINGER_NS      ((uint64_t)200 * NS_PER_MS) /* for what is doubled to show up */

struct progress {
    const struct round_opts *opts;
    struct swarm *swarm;
    struct putter *putter;
    uint64_t began, moved_at; /* ns; when an event or an answer last came */
    uint64_t moves;           /* of those */
    bool stalled;
};

void round_idle(int poll, uint64_t ns)
{
    uint64_t until = stopwatch_ns() + ns;
    for (int ms; (ms = stopwatch_ms_until(until)) > 0;)
        poller_turn(poll, ms);
}

static uint64_t wanted(const struct progress *run, size_t puts)
{
    return run->swarm->opts.load.keys == LOAD_SHARED ? (uint64_t)puts * run->swarm->n_watchers : puts;
}

static uint64_t next_put_at(const struct progress *run)
{
    return run->began + (uint64_t)((double)run->putter->sent * 1e9 / run->opts->rate);
}

static bool may_put(const struct progress *run)
{
    switch (run->opts->pace) {
    case PACE_PACED:
        return run->swarm->tally.events >= wanted(run, run->putter->sent);
    case PACE_RATE:
        return stopwatch_ns() >= next_put_at(run);
    case PACE_BURST:
        return true;
    }
    return false;
}

static int wait_ms(const struct progress *run)
{
    bool timed = run->opts->pace == PACE_RATE && run->putter->sent < run->opts->n_puts;
    int ms = timed ? stopwatch_ms_until(next_put_at(run)) : 100;
    return ms < 100 ? ms : 100;
}

/* Whether everything is there, or will not come any more. */
static bool is_over(struct progress *run)
{
    uint64_t now = stopwatch_ns();
    size_t n_puts = run->opts->n_puts;
    uint64_t moves = run->swarm->tally.events + run->putter->sent + run->putter->answered;
    if (moves != run->moves) {
        run->moves = moves;
        run->moved_at = now;
    }
    if (run->putter->answered == n_puts && run->swarm->tally.events >= wanted(run, n_puts) && !run->stalled)
        return true;
    return now - run->moved_at > NO_PROGRESS_NS || now > run->opts->deadline_ns;
}

static void end_stall(struct progress *run, struct round_result *result)
{
    if (!run->stalled || stopwatch_ns() < run->began + run->opts->stall_ns)
        return;
    result->anon_stalled = proc_use(run->opts->pid).anon_bytes;
    swarm_resume(run->swarm, run->opts->stalled);
    run->stalled = false;
    run->moved_at = stopwatch_ns();
}

static void drive(struct progress *run, struct round_result *result)
{
    while (!is_over(run)) {
        while (run->putter->sent < run->opts->n_puts && may_put(run) && putter_put(run->putter))
            ;
        poller_turn(run->swarm->poll, wait_ms(run));
        end_stall(run, result);
        if (run->swarm->fault[0] != '\0')
            die("%s", run->swarm->fault);
        if (run->putter->fault[0] != '\0')
            die("%s", run->putter->fault);
    }
}

static void judge(struct progress *run, struct round_result *result)
{
    if (run->putter->answered < run->putter->sent)
        die("only %zu of %zu puts were answered in time", run->putter->answered, run->putter->sent);
    const struct swarm_opts *opts = &run->swarm->opts;
    struct tally_puts puts = putter_puts(run->putter);
    round_idle(run->swarm->poll, LINGER_NS);
    if (run->swarm->fault[0] != '\0')
        die("%s", run->swarm->fault);
    result->deliveries = run->swarm->tally.events;
    result->wanted = wanted(run, run->opts->n_puts);
    result->lost = tally_judge(&run->swarm->tally, &puts, opts->n_streams * opts->n_watches, opts->n_watches, stderr);
    result->doubled = run->swarm->tally.doubled;
    if (run->putter->sent < run->opts->n_puts && result->lost == 0)
        die("there was time for %zu of %zu puts only", run->putter->sent, run->opts->n_puts);
}

void round_command(const char *command)
{
    if (command == NULL)
        return;
    int status = system(command);
    if (status != 0)
        die("%s: ended with %d", command, WIFEXITED(status) ? WEXITSTATUS(status) : -1);
}

void round_run(struct swarm *swarm, struct putter *putter, const struct round_opts *opts, struct round_result *result)
{
    *result = (struct round_result){0};
    swarm_restart(swarm);
    putter_restart(putter);
    swarm->unmeasured = opts->stalled;
    struct progress run = {.opts = opts, .swarm = swarm, .putter = putter, .stalled = opts->stalled != SWARM_NONE};
    if (run.stalled)
        swarm_pause(swarm, opts->stalled);

    round_command(opts->before);
    struct proc_use before = proc_use(opts->pid), write_before = proc_use(opts->write_pid), own = proc_use(getpid());
    run.began = run.moved_at = stopwatch_ns();
    drive(&run, result);
    result->wall_s = (double)(stopwatch_ns() - run.began) * 1e-9;
    struct proc_use after = proc_use(opts->pid);
    result->cpu_s = after.cpu_s - before.cpu_s;
    result->write_cpu_s = proc_use(opts->write_pid).cpu_s - write_before.cpu_s;
    result->client_cpu_s = proc_use(getpid()).cpu_s - own.cpu_s;
    result->anon_before = before.anon_bytes;
    result->anon_after = after.anon_bytes;
    round_command(opts->after);
    judge(&run, result);
}
