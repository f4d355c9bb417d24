/* bench/belfry-bench/put.c: so many keys or objects, each put once. */
#include <unistd.h>

#include "die.h"
#include "modes.h"
#include "poller.h"
#include "stopwatch.h"

static struct putter putter;

static void put_all(const struct plan *plan, int poll)
{
    while (putter.answered < plan->puts) {
        while (putter.sent < plan->puts && putter_put(&putter))
            ;
        poller_turn(poll, stopwatch_ms_until(plan->deadline_ns));
        if (putter.fault[0] != '\0')
            die("%s", putter.fault);
        if (stopwatch_ns() > plan->deadline_ns)
            die("there was time for %zu of %zu puts only", putter.answered, plan->puts);
    }
}

int put_run(const struct plan *plan)
{
    struct report report = {0};
    struct putter_opts opts = plan_putter(plan);
    opts.load.keys = LOAD_DISTINCT;
    opts.n_watchers = plan->puts; /* a key for each */
    int poll = poller_create();
    putter_open(&putter, poll, &opts);
    uint64_t began = stopwatch_ns();
    put_all(plan, poll);
    double wall_s = (double)(stopwatch_ns() - began) * 1e-9;
    report_text(&report, "mode", plan->mode);
    report_number(&report, "puts", (double)plan->puts);
    report_number(&report, "wall_s", wall_s);
    report_number(&report, "puts_per_s", (double)plan->puts / wall_s);
    report_print(&report, plan->form, stdout);
    putter_close(&putter);
    close(poll);
    return 0;
}
