/* bench/belfry-bench/closing.c */
#include "closing.h"

#include "proc.h"
#include "round.h"
#include "stopwatch.h"

#define PAUSE_NS    ((uint64_t)20 * NS_PER_MS) /* between newcomers */
#define SMALL_BYTES ((uint64_t)8 << 20)        /* what any server may keep, whoever has been there */

static struct swarm newcomer;

bool closing_is_back(uint64_t before_bytes, uint64_t full_bytes, uint64_t now_bytes)
{
    uint64_t grown = full_bytes > before_bytes ? full_bytes - before_bytes : 0;
    uint64_t may_keep = grown / 10 > SMALL_BYTES ? grown / 10 : SMALL_BYTES;
    return now_bytes <= before_bytes + may_keep;
}

static double ms_since(uint64_t began)
{
    return (double)(stopwatch_ns() - began) * 1e-6;
}

static void visit(int poll, const struct swarm_opts *opts, uint64_t deadline_ns)
{
    swarm_open(&newcomer, poll, opts, deadline_ns);
    swarm_close(&newcomer);
}

/* A newcomer is one of those who left. */
static struct swarm_opts one_of(const struct swarm_opts *opts)
{
    struct swarm_opts one = *opts;
    one.n_conns = one.n_streams = one.n_watches = 1;
    return one;
}

void closing_run(struct swarm *swarm, const struct closing_opts *opts, struct closing_result *result)
{
    const struct swarm_opts one = one_of(&swarm->opts);
    int poll = swarm->poll;
    double cpu_before = proc_use(opts->pid).cpu_s;
    uint64_t began = stopwatch_ns();
    *result = (struct closing_result){0};
    swarm_close(swarm);
    visit(poll, &one, opts->deadline_ns);
    result->first_ms = result->longest_ms = ms_since(began);
    struct proc_use use;
    for (;;) {
        use = proc_use(opts->pid);
        result->back_s = ms_since(began) * 1e-3;
        result->given_back = closing_is_back(opts->before_bytes, opts->full_bytes, use.anon_bytes);
        if (result->given_back || stopwatch_ns() - began >= opts->wait_ns)
            break;
        round_idle(poll, PAUSE_NS);
        uint64_t came = stopwatch_ns();
        visit(poll, &one, opts->deadline_ns);
        double ms = ms_since(came);
        result->longest_ms = ms > result->longest_ms ? ms : result->longest_ms;
    }
    result->kept_bytes = use.anon_bytes > opts->before_bytes ? use.anon_bytes - opts->before_bytes : 0;
    result->cpu_s = use.cpu_s - cpu_before;
}
