/* tests/sim/runner.c */
#include "sim/runner.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sim/hunt.h"
#include "sim/mutants.h"
#include "sim/world.h"

#define SEED_SECONDS 60 /* of the processor: a run that takes more hangs. By the clock, a busy machine would hang it */

/* What a child shares with its parent: the parent reads it when the child is gone, however that came. */
struct share {
    struct recipe recipe; /* under way, or the one that failed */
    uint64_t seeds, steps;
    bool failed, ended;
    char why[VERDICT_BYTES];
    uint64_t cover[COVER_END_];
    uint32_t pairs[PAIRS];
};

static struct share *shares_create(size_t n)
{
    void *shares = mmap(NULL, n * sizeof(struct share), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shares == MAP_FAILED) {
        perror("belfry-sim: mmap");
        exit(1);
    }
    return shares;
}

static void give_processor_time(time_t seconds)
{
    const struct itimerval once = {.it_value = {.tv_sec = seconds}};
    setitimer(ITIMER_PROF, &once, NULL);
}

static void run_recipe(const struct runner_opts *opts, const struct recipe *recipe, struct share *share)
{
    struct world_opts world = {.recipe = *recipe, .steps = opts->steps, .store = opts->store, .trace = TRACE_OFF};
    share->recipe = *recipe;
    give_processor_time(SEED_SECONDS);
    share->steps += world_run(&world);
    share->seeds++;
    memcpy(share->cover, cover_counts, sizeof(cover_counts));
    for (unsigned i = 0; i < PAIRS; i++)
        share->pairs[i] += pairs_first[i] != 0;
    if (!verdict_failed())
        return;
    memcpy(share->why, verdict_text(), sizeof(share->why));
    share->failed = true;
    _exit(1);
}

static enum recipe_with needed_by(enum belfry_mutant mutant)
{
    return mutant_is_of_rights(mutant)  ? RECIPE_WITH_AUTH
           : mutant_is_of_reads(mutant) ? RECIPE_WITH_READS
           : mutant_is_of_kube(mutant)  ? RECIPE_WITH_KUBE
                                        : RECIPE_WITH_NOTHING;
}

static void run_in_order(const struct runner_opts *opts, uint64_t stride, struct share *share)
{
    enum recipe_with with = opts->mutant != BELFRY_MUTANT_none ? needed_by(opts->mutant) : opts->with;
    for (uint64_t seed = opts->first; seed < opts->first + opts->seeds; seed += stride) {
        struct recipe recipe = recipe_of_seed(seed, with);
        run_recipe(opts, &recipe, share);
    }
}

/* Each process hunts for itself: what one learns, the others meet soon enough. */
static void run_hunt(const struct runner_opts *opts, uint64_t stride, struct share *share)
{
    struct hunt *hunt = hunt_create(opts->first, opts->with);
    for (uint64_t i = 0; i < opts->seeds; i += stride) {
        struct recipe recipe;
        hunt_next(hunt, &recipe);
        run_recipe(opts, &recipe, share);
        hunt_learn(hunt, &recipe);
    }
    hunt_destroy(hunt);
}

/* In a child: one of `stride` shares of the runs. */
static void run_share(const struct runner_opts *opts, uint64_t stride, struct share *share)
{
    belfry_mutant = opts->mutant;
    if (opts->way == RUNNER_HUNT)
        run_hunt(opts, stride, share);
    else
        run_in_order(opts, stride, share);
    share->ended = true;
    exit(0); /* not _exit: leaks are looked for here */
}

static pid_t start(const struct runner_opts *opts, uint64_t stride, struct share *share)
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid < 0) {
        perror("belfry-sim: fork");
        exit(1);
    }
    if (pid == 0)
        run_share(opts, stride, share);
    return pid;
}

/* The child has gone: in peace, with a finding, or by a crash, which is one too. */
static void look(struct share *share, int status)
{
    if (share->failed || (WIFEXITED(status) && WEXITSTATUS(status) == 0))
        return;
    share->failed = true;
    if (WIFSIGNALED(status))
        snprintf(share->why, sizeof(share->why), "crash: signal %d (%s)", WTERMSIG(status),
                 WTERMSIG(status) == SIGPROF ? "it hangs" : strsignal(WTERMSIG(status)));
    else
        snprintf(share->why, sizeof(share->why), "%s: exit %d (a sanitizer's report, see above)",
                 share->ended ? "leak" : "crash", WEXITSTATUS(status));
}

static void add(struct runner_result *result, const struct share *share)
{
    result->seeds += share->seeds;
    result->steps += share->steps;
    for (unsigned i = 0; i < COVER_END_; i++)
        result->cover[i] += share->cover[i];
    for (unsigned i = 0; i < PAIRS; i++)
        result->pairs[i] += share->pairs[i];
    if (!share->failed || (result->failed && result->recipe.seed < share->recipe.seed))
        return;
    result->failed = true;
    result->recipe = share->recipe;
    memcpy(result->why, share->why, sizeof(result->why));
}

void runner_run(const struct runner_opts *opts, struct runner_result *result)
{
    struct share *shares = shares_create(opts->jobs);
    pid_t *pids = calloc(opts->jobs, sizeof(*pids));
    if (pids == NULL)
        abort();
    for (unsigned i = 0; i < opts->jobs; i++) {
        struct runner_opts part = *opts;
        part.first += i;
        part.seeds -= i < opts->seeds ? i : opts->seeds;
        pids[i] = start(&part, opts->jobs, &shares[i]);
    }
    *result = (struct runner_result){0};
    for (unsigned i = 0; i < opts->jobs; i++) {
        int status;
        if (waitpid(pids[i], &status, 0) != pids[i])
            abort();
        look(&shares[i], status);
        add(result, &shares[i]);
    }
    free(pids);
    munmap(shares, opts->jobs * sizeof(*shares));
}

void runner_mutants(const struct runner_opts *opts, struct runner_result *results)
{
    struct share *shares = shares_create(BELFRY_MUTANT_END_);
    pid_t pids[BELFRY_MUTANT_END_] = {0};
    unsigned next = 1, running = 0;
    while (next < BELFRY_MUTANT_END_ || running > 0) {
        if (next < BELFRY_MUTANT_END_ && running < opts->jobs) {
            struct runner_opts one = *opts;
            one.mutant = (enum belfry_mutant)next;
            pids[next] = start(&one, 1, &shares[next]);
            next++;
            running++;
            continue;
        }
        int status;
        pid_t pid = wait(&status);
        for (unsigned i = 1; i < next; i++) {
            if (pids[i] != pid)
                continue;
            look(&shares[i], status);
            results[i] = (struct runner_result){0};
            add(&results[i], &shares[i]);
            running--;
        }
    }
    munmap(shares, BELFRY_MUTANT_END_ * sizeof(*shares));
}
