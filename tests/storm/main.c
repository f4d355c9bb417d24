/* tests/storm/main.c: belfry-storm, a whole server against hostile clients and faults that one seed decides; or in
 * normal use. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "storm/chance.h"
#include "storm/clock.h"
#include "storm/day.h"
#include "storm/house.h"
#include "storm/mutant.h"
#include "storm/run.h"
#include "storm/verdict.h"

#define TURN_US 300000 /* that a turn may take under sanitizers: a hundred times what it does */
#define TRIES   3      /* of a run with a long turn: the machine may have been slow */
#define HANG_S  120    /* that a run may take: a hundred times what it does */

struct args {
    uint64_t seeds, first, seconds; /* seconds 0: until all seeds are done */
    unsigned steps, hours;
    bool twice, is_normal, is_self_test;
    const char *record; /* a folder; NULL: none */
};

static const char usage[] =
    "belfry-storm: all of belfryd's serving side in one thread, against hostile clients, refused memory and a broken\n"
    "upstream. A run follows from its seed. A finding ends the program and names the seed.\n"
    "\n"
    "  belfry-storm [--seeds N] [--first S] [--time SECONDS] [--steps M] [--twice] [--record FOLDER]\n"
    "  belfry-storm --self-test [--first S]\n"
    "  belfry-storm --normal [--hours H] [--seeds N] [--first S]\n"
    "  belfry-storm --normal --self-test [--first S]\n"
    "\n"
    "With --normal nothing is hostile or broken, limits are those of a small machine, and none may be touched in H "
    "hours\n"
    "of virtual time.\n"
    "\n"
    "  --seeds N        so many runs (100; with --normal 1)\n"
    "  --first S        the seed of the first; the next has S + 1 (1)\n"
    "  --time SECONDS   end after so long, whatever --seeds says\n"
    "  --steps M        of a run (600)\n"
    "  --twice          make each run twice, and compare\n"
    "  --record FOLDER  store the choices of each run there, as an input of the fuzz target storm\n"
    "  --hours H        of a run in normal use (24)\n"
    "  --self-test      what is made wrong, in front of Kubernetes or in normal use, must be found\n"
    "\n"
    "With STORM_LOG set, the server's log lines are shown.\n";

static void fail_usage(const char *what, const char *value)
{
    fprintf(stderr, "belfry-storm: %s: %s (try --help)\n", what, value);
    exit(2);
}

static uint64_t number(const char *name, const char *text)
{
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0')
        fail_usage(name, text);
    return value;
}

static struct args read_args(int argc, char **argv)
{
    static const struct option options[] = {{"seeds", required_argument, NULL, 'n'},
                                            {"first", required_argument, NULL, 'f'},
                                            {"time", required_argument, NULL, 't'},
                                            {"steps", required_argument, NULL, 's'},
                                            {"twice", no_argument, NULL, '2'},
                                            {"record", required_argument, NULL, 'r'},
                                            {"normal", no_argument, NULL, 'd'},
                                            {"hours", required_argument, NULL, 'o'},
                                            {"self-test", no_argument, NULL, 'm'},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    struct args args = {.first = 1, .steps = 600, .hours = 24};
    for (int c; (c = getopt_long(argc, argv, "h", options, NULL)) != -1;) {
        switch (c) {
        case 'n':
            args.seeds = number("--seeds", optarg);
            break;
        case 'f':
            args.first = number("--first", optarg);
            break;
        case 't':
            args.seconds = number("--time", optarg);
            break;
        case 's':
            args.steps = (unsigned)number("--steps", optarg);
            break;
        case '2':
            args.twice = true;
            break;
        case 'r':
            args.record = optarg;
            break;
        case 'd':
            args.is_normal = true;
            break;
        case 'o':
            args.hours = (unsigned)number("--hours", optarg);
            break;
        case 'm':
            args.is_self_test = true;
            break;
        case 'h':
            fputs(usage, stdout);
            exit(0);
        default:
            exit(2);
        }
    }
    if (optind < argc)
        fail_usage("what is this", argv[optind]);
    if (args.hours < 1 || args.hours > DAY_HOURS_MAX)
        fail_usage("--hours", "1 to 96");
    args.seeds = args.seeds != 0 ? args.seeds : args.is_normal ? 1 : 100;
    return args;
}

static void store_record(const struct args *args, uint64_t seed, const struct belfry_buf *record)
{
    char path[512];
    snprintf(path, sizeof(path), "%s/seed-%" PRIu64, args->record, seed);
    FILE *file = fopen(path, "w");
    struct belfry_bytes bytes = belfry_buf_bytes(record);
    verdict_must(file != NULL && fwrite(bytes.data, 1, bytes.len, file) == bytes.len && fclose(file) == 0, path);
}

static void run_recorded(const struct args *args, uint64_t seed, struct run_tally *tally)
{
    struct belfry_buf record;
    struct choices choices = choices_of_seed(seed);
    belfry_buf_init(&record);
    verdict_must(belfry_buf_append(&record, "", 1) == BELFRY_OK, "a record"); /* allocated before the run counts */
    belfry_buf_clear(&record);
    choices.record = &record;
    run_storm(&choices, seed, args->steps, tally);
    store_record(args, seed, &record);
    belfry_buf_fini(&record);
}

/* No client may keep a worker busy for long. */
static void expect_short_turns(const struct args *args, uint64_t seed, struct run_tally *tally)
{
    for (int i = 1; i < TRIES && tally->turn_us > TURN_US; i++) {
        struct choices choices = choices_of_seed(seed);
        run_storm(&choices, seed, args->steps, tally);
    }
    if (tally->turn_us > TURN_US)
        verdict_fail("a turn takes %" PRIu64 " ms of the processor, time and again", tally->turn_us / 1000);
}

static void run_seed(const struct args *args, uint64_t seed, struct run_tally *tally)
{
    static char text[96];
    snprintf(text, sizeof(text), "belfry-storm --seeds 1 --first %" PRIu64 " --steps %u", seed, args->steps);
    verdict_of(text);
    alarm(HANG_S);
    if (args->record != NULL) {
        run_recorded(args, seed, tally);
        return;
    }
    struct choices choices = choices_of_seed(seed);
    run_storm(&choices, seed, args->steps, tally);
    expect_short_turns(args, seed, tally);
    uint64_t digest = tally->digest;
    if (!args->twice)
        return;
    choices = choices_of_seed(seed);
    run_storm(&choices, seed, args->steps, tally);
    if (tally->digest != digest)
        verdict_fail("the same seed gave another run");
}

static void show(const struct run_tally *t, uint64_t first)
{
    printf("storm: %" PRIu64 " runs from seed %" PRIu64 ", %" PRIu64 " steps: nothing found; digest %016" PRIx64 "\n",
           t->runs, first, t->steps, t->digest);
    printf("figure: storm: %" PRIu64 " runs; rogues: %" PRIu64 " connections, %" PRIu64 " acts; refused %" PRIu64
           " streams, %" PRIu64 " connections; ended %" PRIu64 " largest, %" PRIu64 " floods\n",
           t->runs, t->connections, t->requests, t->refused_streams, t->refused_connections, t->ended_largest,
           t->floods);
    printf("figure: storm: clients received %" PRIu64 " events, %" PRIu64 " gets and lists, reconnected %" PRIu64
           " times; relayed %" PRIu64 ", rights asked %" PRIu64 ", Kubernetes %" PRIu64 " watches, %" PRIu64
           " lists; Server-Sent Events %" PRIu64 " streams; memory refused %" PRIu64 " times\n",
           t->events, t->gets, t->reconnects, t->relayed, t->questions, t->kube_watches, t->lists, t->pages,
           t->refusals_of_memory);
    printf("figure: storm: %" PRIu64 " of the runs in front of Kubernetes: clients received %" PRIu64
           " relayed answers and lines\n",
           t->kube_runs, t->echoes);
}

static void storm(const struct args *args)
{
    struct run_tally tally = {0};
    uint64_t began_ms = clock_true_ms();
    for (uint64_t i = 0; i < args->seeds; i++) {
        if (args->seconds != 0 && clock_true_ms() - began_ms >= args->seconds * 1000)
            break;
        run_seed(args, args->first + i, &tally);
    }
    show(&tally, args->first);
}

/* ---- normal use ---- */

static void show_days(const struct day_tally *t, uint64_t first, uint64_t took_ms)
{
    const struct user_tally *did = &t->did;
    printf("storm: %" PRIu64 " days of normal use from seed %" PRIu64 ", %" PRIu64
           " hours in %.1f s: no limit was touched\n",
           t->days, first, t->hours, (double)took_ms / 1000);
    printf("figure: normal use: %" PRIu64 " connects, %" PRIu64 " PINGs, %" PRIu64 " revisions, %" PRIu64
           " events, %" PRIu64 " watches, %" PRIu64 " times progress; Kubernetes %" PRIu64 " lists, %" PRIu64
           " lines; pages %" PRIu64 ", %" PRIu64 " changes; curl %" PRIu64 "\n",
           did->connects, did->pings, t->revisions, did->events, did->watches, did->progress, did->lists, did->objects,
           did->pages, did->changes, did->curls);
    printf("figure: normal use: %" PRIu64 " gets, %" PRIu64 " given up, %" PRIu64 " puts, %" PRIu64
           " keep-alives; fullest pool %u %%; memory %zu KiB in the first hour, %zu KiB in the last\n",
           did->gets, did->given_up, did->puts, did->kept_alive, t->fullest, t->memory / 1024, t->memory_end / 1024);
}

static void normal_use(const struct args *args)
{
    static char text[96];
    struct day_tally tally = {0};
    uint64_t began_ms = clock_true_ms();
    for (uint64_t i = 0; i < args->seeds; i++) {
        uint64_t seed = args->first + i;
        struct choices choices = choices_of_seed(seed);
        snprintf(text, sizeof(text), "belfry-storm --normal --hours %u --first %" PRIu64, args->hours, seed);
        verdict_of(text);
        day_run(&choices, seed, args->hours, NULL, &tally);
    }
    show_days(&tally, args->first, clock_true_ms() - began_ms);
}

int main(int argc, char **argv)
{
    struct args args = read_args(argc, argv);
    unsigned missed = 0;
    printf("storm: from seed %" PRIu64 "\n", args.first);
    fflush(stdout);
    chance_begin(0); /* certificates, too, are the same in each process */
    house_prepare();
    if (args.is_self_test)
        missed = args.is_normal ? mutants_run_days(args.first) : mutants_run_storms(args.first);
    else if (args.is_normal)
        normal_use(&args);
    else
        storm(&args);
    house_clear();
    return missed == 0 ? 0 : 1;
}
