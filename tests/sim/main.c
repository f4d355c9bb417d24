/* tests/sim/main.c: belfry-sim, the machines of the whole tree under a scheduler that one seed decides. */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "sim/checker.h"
#include "sim/mutants.h"
#include "sim/runner.h"
#include "sim/trace.h"
#include "sim/verdict.h"
#include "sim/world.h"

#define MUTANT_SEEDS 1000 /* a mutant that needs more is a defect of the simulator */
#define PAIRS_SHOWN  40
#define LIST_BYTES   (64 * 1024)
#define LONG_RUN     5000 /* seeds from which on every path must have been taken: the rarest takes 200 */

enum command { RUN_ONE, RUN_MANY, RUN_LISTED, RUN_MUTANTS };

struct args {
    enum command command;
    struct runner_opts run;
    struct recipe recipe; /* of RUN_ONE */
    const char *list;     /* of RUN_LISTED */
    bool trace, pairs;
};

static const char usage[] =
    "belfry-sim: the log, the workers, the follower, the client's watch machine, rights and reads under simulated "
    "faults.\n"
    "\n"
    "  belfry-sim --seed RECIPE [--trace]     one run, shown from its end if it fails, whole with --trace\n"
    "  belfry-sim --seeds N [--first S]       many runs; every path must have been taken in 5000 or more\n"
    "  belfry-sim --seeds-from FILE           the runs of a list: a line is RECIPE [STORE], # begins a comment\n"
    "  belfry-sim --hunt --seeds N            many runs, half of which go on from where rare pairs of paths were met\n"
    "  belfry-sim --mutants [--seeds N]       for each seeded bug, the first seed that finds it (at most 1,000)\n"
    "  belfry-sim --list-mutants | --self-test | --help\n"
    "\n"
    "  --steps M        of a run, before it is drained (3000)\n"
    "  --store KIND     model or lmdb (model)\n"
    "  --mutant NAME    with this bug\n"
    "  --with WHAT      auth, reads or nothing besides watches, or kube, the follower of a resource of Kubernetes;\n"
    "                   others: all of these but kube\n"
    "                   (of many runs: two in six auth, one in six reads, one in six kube)\n"
    "  --pairs          show the rarest pairs of paths\n"
    "  --jobs J         processes at a time (1)\n";

static void fail_usage(const char *what, const char *value)
{
    fprintf(stderr, "belfry-sim: %s: %s (try --help)\n", what, value);
    exit(2);
}

static uint64_t number(const char *name, const char *text)
{
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (errno != 0 || *text == '\0' || *text == '-' || *end != '\0')
        fail_usage(name, "a number is wanted");
    return value;
}

static void list_mutants(void)
{
    for (unsigned i = 1; i < BELFRY_MUTANT_END_; i++)
        printf("%-24s %s\n", mutant_name((enum belfry_mutant)i), mutant_what((enum belfry_mutant)i));
}

static enum tier_store store_of(const char *name)
{
    if (strcmp(name, "model") == 0)
        return TIER_STORE_MODEL;
    if (strcmp(name, "lmdb") != 0)
        fail_usage("--store takes model or lmdb", name);
    return TIER_STORE_LMDB;
}

static enum recipe_with with_of(const char *name)
{
    if (strcmp(name, "auth") == 0)
        return RECIPE_WITH_AUTH;
    if (strcmp(name, "reads") == 0)
        return RECIPE_WITH_READS;
    if (strcmp(name, "kube") == 0)
        return RECIPE_WITH_KUBE;
    if (strcmp(name, "others") == 0)
        return RECIPE_WITH_OTHERS;
    if (strcmp(name, "nothing") != 0)
        fail_usage("--with takes auth, reads, kube, others or nothing", name);
    return RECIPE_WITH_NOTHING;
}

static enum belfry_mutant mutant_of(const char *name)
{
    enum belfry_mutant mutant = mutant_find(name);
    if (mutant == BELFRY_MUTANT_END_)
        fail_usage("no such mutant, see --list-mutants", name);
    return mutant;
}

static struct args read_args(int argc, char **argv)
{
    static const struct option options[] = {
        {"seed", required_argument, NULL, 's'},
        {"seeds", required_argument, NULL, 'n'},
        {"seeds-from", required_argument, NULL, 'F'},
        {"first", required_argument, NULL, 'f'},
        {"steps", required_argument, NULL, 'm'},
        {"store", required_argument, NULL, 'o'},
        {"mutant", required_argument, NULL, 'u'},
        {"with", required_argument, NULL, 'w'},
        {"mutants", no_argument, NULL, 'U'},
        {"hunt", no_argument, NULL, 'H'},
        {"pairs", no_argument, NULL, 'p'},
        {"jobs", required_argument, NULL, 'j'},
        {"self-test", no_argument, NULL, 't'},
        {"list-mutants", no_argument, NULL, 'l'},
        {"trace", no_argument, NULL, 'T'},
        {"help", no_argument, NULL, 'h'},
        {0},
    };
    struct args args = {.command = RUN_MANY, .run = {.first = 1, .steps = 3000, .jobs = 1}};
    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (c) {
        case 's':
            args.command = RUN_ONE;
            if (!recipe_read(optarg, &args.recipe))
                fail_usage("--seed takes SEED, SEED+auth, SEED+reads or SEED+kube, and ,STEP:SEED for each turn",
                           optarg);
            break;
        case 'n':
            args.run.seeds = number("--seeds", optarg);
            break;
        case 'F':
            args.command = RUN_LISTED;
            args.list = optarg;
            break;
        case 'f':
            args.run.first = number("--first", optarg);
            break;
        case 'm':
            args.run.steps = number("--steps", optarg);
            break;
        case 'o':
            args.run.store = store_of(optarg);
            break;
        case 'u':
            args.run.mutant = mutant_of(optarg);
            break;
        case 'w':
            args.run.with = with_of(optarg);
            break;
        case 'H':
            args.run.way = RUNNER_HUNT;
            break;
        case 'p':
            args.pairs = true;
            break;
        case 'U':
            args.command = RUN_MUTANTS;
            break;
        case 'j':
            args.run.jobs = (unsigned)number("--jobs", optarg);
            break;
        case 't':
            exit(checker_self_test() == 0 ? 0 : 1);
        case 'l':
            list_mutants();
            exit(0);
        case 'T':
            args.trace = true;
            break;
        case 'h':
            fputs(usage, stdout);
            exit(0);
        default:
            exit(2);
        }
    }
    if (args.command == RUN_MANY && args.run.seeds == 0)
        fail_usage("--seeds, --seed, --seeds-from or --mutants is wanted", "nothing to do");
    if (args.run.jobs < 1 || args.run.jobs > 256)
        fail_usage("--jobs", "1 to 256");
    return args;
}

static void print_replay(const struct runner_opts *opts, const struct recipe *recipe)
{
    char text[RECIPE_TEXT_BYTES];
    printf("replay: belfry-sim --seed %s --steps %llu --store %s%s%s\n", recipe_write(recipe, text),
           (unsigned long long)opts->steps, opts->store == TIER_STORE_LMDB ? "lmdb" : "model",
           opts->mutant != BELFRY_MUTANT_none ? " --mutant " : "",
           opts->mutant != BELFRY_MUTANT_none ? mutant_name(opts->mutant) : "");
}

/* ---- one run ---- */

static const struct args *shown;

static void show(const char *why)
{
    if (trace_mode != TRACE_PRINT)
        trace_dump(stdout);
    char text[RECIPE_TEXT_BYTES];
    printf("\nseed %s: %s\n", recipe_write(&shown->recipe, text), why);
    print_replay(&shown->run, &shown->recipe);
    fflush(stdout);
}

/* Not safe in general; but the process is lost anyway, and the trace is what is wanted of it. */
static void on_crash(int number)
{
    signal(number, SIG_DFL);
    show(strsignal(number));
    raise(number);
}

static int run_one(const struct args *args)
{
    struct world_opts world = {.recipe = args->recipe,
                               .steps = args->run.steps,
                               .store = args->run.store,
                               .trace = args->trace ? TRACE_PRINT : TRACE_KEEP};
    shown = args;
    belfry_mutant = args->run.mutant;
    signal(SIGABRT, on_crash);
    signal(SIGSEGV, on_crash);
    signal(SIGALRM, on_crash);
    alarm(300);
    uint64_t steps = world_run(&world);
    if (!verdict_failed()) {
        char text[RECIPE_TEXT_BYTES];
        printf("seed %s: %llu steps, no violation\n", recipe_write(&args->recipe, text), (unsigned long long)steps);
        return 0;
    }
    show(verdict_text());
    _exit(1);
}

/* In a process of its own, because it may crash, and shows itself if it fails. True: it did not. */
static bool run_apart(const struct runner_opts *opts, const struct recipe *recipe)
{
    struct args args = {.command = RUN_ONE, .run = *opts, .recipe = *recipe};
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        exit(run_one(&args));
    int status = -1;
    while (pid > 0 && waitpid(pid, &status, 0) != pid)
        continue;
    return status == 0;
}

/* ---- those of a list ---- */

/* False: the line has no run. */
static bool read_line(const struct args *args, char *line, unsigned number, struct runner_opts *run,
                      struct recipe *recipe)
{
    line[strcspn(line, "#")] = '\0';
    char *save, *text = strtok_r(line, " \t", &save), *store = strtok_r(NULL, " \t", &save);
    if (text == NULL)
        return false;
    *run = args->run;
    if (!recipe_read(text, recipe) || strtok_r(NULL, " \t", &save) != NULL) {
        fprintf(stderr, "belfry-sim: %s:%u: RECIPE [STORE] is wanted\n", args->list, number);
        exit(2);
    }
    if (store != NULL)
        run->store = store_of(store);
    return true;
}

static int run_listed(const struct args *args)
{
    static char text[LIST_BYTES]; /* all of it before the first run: a child that ends would move the file's place */
    unsigned runs = 0, failed = 0, number = 1;
    FILE *list = fopen(args->list, "r");
    if (list == NULL)
        fail_usage(args->list, strerror(errno));
    if (fread(text, 1, sizeof(text) - 1, list) == sizeof(text) - 1)
        fail_usage(args->list, "too long");
    fclose(list);
    for (char *line = text, *next; line != NULL; line = next, number++) {
        struct runner_opts run;
        struct recipe recipe;
        next = strchr(line, '\n');
        if (next != NULL)
            *next++ = '\0';
        if (!read_line(args, line, number, &run, &recipe))
            continue;
        runs++;
        failed += !run_apart(&run, &recipe);
    }
    printf("%u runs of %s, %u failed\n", runs, args->list, failed);
    return failed > 0;
}

/* ---- many ---- */

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Whether runs of this kind can take the path: those of kube come last in the table, and are of another world. */
static bool is_path_of(enum recipe_with with, enum cover path)
{
    if (with == RECIPE_WITH_KUBE)
        return path >= COVER_kube_listing;
    return with != RECIPE_WITH_OTHERS || path < COVER_kube_listing;
}

/* How many paths were never taken, of those that these runs can take. */
static unsigned print_paths(const struct runner_result *result, enum recipe_with with)
{
    unsigned missing = 0;
    printf("\n%-56s %12s\n", "path", "taken");
    for (unsigned i = 0; i < COVER_END_; i++) {
        if (!is_path_of(with, (enum cover)i))
            continue;
        printf("%-56s %12llu%s\n", cover_what((enum cover)i), (unsigned long long)result->cover[i],
               result->cover[i] == 0 ? "  NEVER" : "");
        missing += result->cover[i] == 0;
    }
    return missing;
}

static const uint32_t *sorted_by; /* what compare_pairs() compares: qsort() has no argument for it */

static int compare_pairs(const void *a, const void *b)
{
    uint32_t x = sorted_by[*(const unsigned *)a], y = sorted_by[*(const unsigned *)b];
    return (x > y) - (x < y);
}

static void print_rarest_pairs(const struct runner_result *result)
{
    unsigned taken[PAIRS], n = 0;
    for (unsigned i = 0; i < PAIRS; i++)
        if (result->pairs[i] > 0)
            taken[n++] = i;
    sorted_by = result->pairs;
    qsort(taken, n, sizeof(taken[0]), compare_pairs);
    printf("\n%u of %u pairs were taken; the rarest, first path and then path:\n", n, (unsigned)PAIRS);
    for (unsigned i = 0; i < n && i < PAIRS_SHOWN; i++)
        printf("%8u  %-44s  %s\n", result->pairs[taken[i]], cover_what((enum cover)(taken[i] / COVER_END_)),
               cover_what((enum cover)(taken[i] % COVER_END_)));
}

static int run_many(const struct args *args)
{
    static struct runner_result result; /* large */
    double begin = seconds();
    runner_run(&args->run, &result);
    double took = seconds() - begin;
    if (result.failed)
        run_apart(&args->run, &result.recipe); /* for what it shows */
    unsigned missing = print_paths(&result, args->run.with);
    if (args->pairs)
        print_rarest_pairs(&result);
    printf("\nseeds %llu, steps %llu, %.0f steps/s, violations %d\n", (unsigned long long)result.seeds,
           (unsigned long long)result.steps, (double)result.steps / (took > 0 ? took : 1), result.failed);
    if (result.failed) {
        char text[RECIPE_TEXT_BYTES];
        printf("seed %s: %s\n", recipe_write(&result.recipe, text), result.why);
        print_replay(&args->run, &result.recipe);
        return 1;
    }
    if (missing > 0 && result.seeds >= LONG_RUN) {
        printf("%u paths were never taken\n", missing);
        return 1;
    }
    return 0;
}

static int run_mutants(const struct args *args)
{
    struct runner_opts opts = args->run;
    static struct runner_result results[BELFRY_MUTANT_END_];
    unsigned alive = 0;
    opts.seeds = opts.seeds == 0 ? MUTANT_SEEDS : opts.seeds;
    runner_mutants(&opts, results);
    printf("%-24s %6s  %s\n", "mutant", "seeds", "found as");
    for (unsigned i = 1; i < BELFRY_MUTANT_END_; i++) {
        const struct runner_result *result = &results[i];
        alive += !result->failed;
        if (result->failed)
            printf("%-24s %6llu  %.100s\n", mutant_name((enum belfry_mutant)i), (unsigned long long)result->seeds,
                   result->why);
        else
            printf("%-24s %6s  in %llu seeds\n", mutant_name((enum belfry_mutant)i), "ALIVE",
                   (unsigned long long)result->seeds);
    }
    printf("%u of %u mutants survive\n", alive, (unsigned)BELFRY_MUTANT_END_ - 1);
    return alive > 0;
}

int main(int argc, char **argv)
{
    struct args args = read_args(argc, argv);
    switch (args.command) {
    case RUN_ONE:
        return run_one(&args);
    case RUN_MANY:
        return run_many(&args);
    case RUN_LISTED:
        return run_listed(&args);
    case RUN_MUTANTS:
        return run_mutants(&args);
    }
    return 2;
}
