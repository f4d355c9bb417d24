/* tests/storm/mutant.c */
#include "storm/mutant.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "storm/apiserver.h"
#include "storm/day.h"
#include "storm/run.h"
#include "storm/verdict.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define HOURS        2
#define STORMS       40 /* of which some are in front of Kubernetes, */
#define STEPS        600
#define SAID_MAX     4096

static void lower_calls(struct config *config)
{
    config->max_calls = 40;
}

static void lower_watchers(struct config *config)
{
    config->max_watchers = 300;
}

static void lower_connections(struct config *config)
{
    config->max_connections = 12;
}

/* All users have room, and use more than DAY_FULL percent. */
static void lower_connections_a_little(struct config *config)
{
    config->max_connections = 200;
}

static void lower_memory(struct config *config)
{
    config->memory_bytes = (size_t)2 << 20;
}

static void shorten_greeting(struct config *config)
{
    config->greet_time_ms = 1000;
}

/* A put over a slow link takes 2,800 ms (job_calls.c). */
static void shorten_message(struct config *config)
{
    config->message_time_ms = 2799;
}

/* Half of the connections are there, and the users that are quiet are the longest idle: of any kind of client, and told
 * by GOAWAY or by the end of the connection. */
static void shorten_idle(struct config *config)
{
    config->idle_time_ms = 60000;
    config->max_connections = 50;
}

static const struct day_fault days[] = {
    {.name = "few relayed calls", .finds = "grpc-status 8", .change = lower_calls, .full = 100},
    {.name = "few watchers", .finds = "is canceled", .change = lower_watchers, .full = 100},
    {.name = "few connections", .finds = "", .change = lower_connections, .full = 100},
    {.name = "little memory", .finds = "", .change = lower_memory, .full = 100},
    {.name = "a fuller pool", .finds = "% are used", .change = lower_connections_a_little},
    {.name = "little time to greet", .finds = "closed the connection", .change = shorten_greeting},
    {.name = "little time for a message", .finds = "grpc-status 14", .change = shorten_message},
    {.name = "idle connections end", .finds = "", .change = shorten_idle, .full = 100},
    {.name = "cancels in haste", .finds = "GOAWAY with code 11", .haste = 30},
    {.name = "the past is lost", .finds = "canceled", .what = DAY_CUT},
    {.name = "upstream is silent", .finds = "", .what = DAY_SILENT},
    {.name = "memory leaks", .finds = "bytes are in use", .what = DAY_LEAK}};

static const struct storm_mutant {
    const char *name, *finds;
    enum apiserver_wrong wrong;
    bool is_free;
} storms[] = {{"answers are swapped", "not its own", APISERVER_SWAPS, false},
              {"answers end early", "an answer of", APISERVER_SHORT, false},
              {"a write is sent twice", "is carried out twice", APISERVER_TWICE, false},
              {"a right does not end", "after the right was lost", APISERVER_LENIENT, false},
              {"watches cost nothing", "clients are charged for", APISERVER_SOUND, true}};

static bool watches_are_free;

/* In the place of shares_count() (--wrap). */
void __real_shares_count(struct shares_conn *conn, enum shares_pool pool, size_t before, size_t after);
void __wrap_shares_count(struct shares_conn *conn, enum shares_pool pool, size_t before, size_t after);

void __wrap_shares_count(struct shares_conn *conn, enum shares_pool pool, size_t before, size_t after)
{
    if (!watches_are_free || pool != SHARES_WATCH_BYTES)
        __real_shares_count(conn, pool, before, after);
}

static void live_day(const void *mutant, uint64_t seed)
{
    struct day_tally tally = {0};
    struct choices choices = choices_of_seed(seed);
    day_run(&choices, seed, HOURS, mutant, &tally);
}

static void live_storms(const void *mutant, uint64_t seed)
{
    const struct storm_mutant *storm = mutant;
    struct run_tally tally = {0};
    apiserver_set_wrong(storm->wrong);
    watches_are_free = storm->is_free;
    for (uint64_t i = 0; i < STORMS; i++) {
        struct choices choices = choices_of_seed(seed + i);
        run_storm(&choices, seed + i, STEPS, &tally);
    }
}

struct mutant {
    const char *name, *finds;
    void (*live)(const void *what, uint64_t seed);
    const void *what;
};

/* In the child: its finding goes to the pipe. */
static void mutant_live(const struct mutant *mutant, uint64_t seed, int to)
{
    verdict_must(dup2(to, STDERR_FILENO) >= 0, "a pipe");
    close(to);
    mutant->live(mutant->what, seed);
    _exit(0);
}

/* What it said, up to its end. */
static void hear(int from, char said[SAID_MAX])
{
    char rest[512];
    size_t len = 0;
    for (ssize_t n; (n = read(from, rest, sizeof(rest))) > 0;) {
        size_t room = SAID_MAX - 1 - len;
        size_t take = (size_t)n < room ? (size_t)n : room;
        memcpy(said + len, rest, take);
        len += take;
    }
    said[len] = '\0';
}

static bool mutant_is_found(const struct mutant *mutant, uint64_t seed)
{
    static char said[SAID_MAX];
    int ends[2], status = 0;
    fflush(stdout);
    verdict_must(pipe(ends) == 0, "a pipe");
    pid_t child = fork();
    verdict_must(child >= 0, "a process");
    if (child == 0) {
        close(ends[0]);
        mutant_live(mutant, seed, ends[1]);
    }
    close(ends[1]);
    hear(ends[0], said);
    close(ends[0]);
    verdict_must(waitpid(child, &status, 0) == child, "the end of a process");
    const char *finding = strstr(said, "FOUND: ");
    bool is_found = WIFSIGNALED(status) && finding != NULL && strstr(finding, mutant->finds) != NULL;
    printf("storm: %s: %s%.*s\n", mutant->name, is_found ? "" : "NOT FOUND; ",
           finding == NULL ? 7 : (int)strcspn(finding, "\n"), finding == NULL ? "nothing" : finding);
    return is_found;
}

unsigned mutants_run_days(uint64_t seed)
{
    unsigned missed = 0;
    for (size_t i = 0; i < COUNT(days); i++) {
        struct mutant mutant = {days[i].name, days[i].finds, live_day, &days[i]};
        missed += !mutant_is_found(&mutant, seed);
    }
    return missed;
}

unsigned mutants_run_storms(uint64_t seed)
{
    unsigned missed = 0;
    for (size_t i = 0; i < COUNT(storms); i++) {
        struct mutant mutant = {storms[i].name, storms[i].finds, live_storms, &storms[i]};
        missed += !mutant_is_found(&mutant, seed);
    }
    return missed;
}
