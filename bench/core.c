/* bench/core.c: the figures of the core, on one core and without a socket: worker.h driven by a sink that copies what
 * it is given into memory. `core` measures all, `core NAME...` some; each line says what was aimed at. Exit 1: one
 * missed.
 *
 * CPU is the thread's own, so neighbours on the machine do not count; wall time is said where it is meant. Each figure
 * runs in a process of its own, so that its memory is its own too. */
#include <assert.h>
#include <fcntl.h>
#include <ftw.h>
#include <getopt.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <lmdb.h>

#if __has_include(<valgrind/callgrind.h>)
#include <valgrind/callgrind.h>
#else
#define CALLGRIND_START_INSTRUMENTATION ((void)0)
#define CALLGRIND_STOP_INSTRUMENTATION  ((void)0)
#define CALLGRIND_TOGGLE_COLLECT        ((void)0)
#endif

#include "base/rng.h"
#include "core/watcher.h"
#include "core/worker.h"
#include "replica/audit.h"
#include "replica/replica.h"
#include "wire/write.h"

#define ROOM      ((size_t)1 << 20) /* what a stream can take when it is said to be writable */
#define FIRST_REV 1000000           /* as long, as a number on the wire, as any that follows */
#define KEY_BYTES 32
#define N_CREATES 64 /* a stream, between turns that write the answers */

static struct {
    size_t watchers, streams, events, revisions, riders, resumers, value_bytes, work, burst;
    const char *dir;
} opts = {
    .watchers = 1000000,
    .streams = 1000,
    .events = 200000,
    .revisions = 1000000,
    .riders = 10000,
    .resumers = 100000,
    .value_bytes = 256,
    .work = 1024,
    .burst = 64,
    .dir = NULL,
};

static bool missed; /* of this process's figures */

/* ---- what is printed ---- */

enum aim { AT_MOST, AT_LEAST, NOTE };

static void report(const char *figure, double value, const char *unit, enum aim aim, double target)
{
    printf("%-50s %14.*f %-14s", figure, value < 100 ? 2 : 0, value, unit);
    if (aim == NOTE) {
        printf("\n");
    } else {
        bool ok = aim == AT_MOST ? value <= target : value >= target;
        printf(" %s %-10.*f %s\n", aim == AT_MOST ? "<=" : ">=", target < 100 ? 1 : 0, target, ok ? "OK" : "MISSED");
        missed = missed || !ok;
    }
    fflush(stdout);
}

static _Noreturn void die(const char *what, enum belfry_err err)
{
    fprintf(stderr, "core: %s: %s\n", what, belfry_errname(err));
    exit(1);
}

static void must(const char *what, enum belfry_err err)
{
    if (err != BELFRY_OK)
        die(what, err);
}

static void *must_have(void *memory)
{
    if (memory == NULL)
        die("memory", BELFRY_ERR_NOMEM);
    return memory;
}

static double seconds(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double cpu(void)
{
    return seconds(CLOCK_THREAD_CPUTIME_ID);
}

static size_t rss_anon(void)
{
    FILE *file = fopen("/proc/self/status", "r");
    size_t kib = 0;
    char line[256];
    while (file != NULL && fgets(line, sizeof(line), file) != NULL && sscanf(line, "RssAnon: %zu", &kib) != 1)
        ;
    if (file != NULL)
        fclose(file);
    return kib * 1024;
}

/* ---- a log, a worker and its streams ---- */

struct rig;

struct turn {
    double wall, cpu;
    long faults, waits, preempted; /* major faults, and how it left the CPU */
};

struct sink {
    struct rig *rig;
    struct stream *stream;
    size_t taken; /* since it was last writable */
    bool full;
    bool stuck; /* takes nothing more, ever */
    struct sink *next_full;
};

struct rig {
    struct evlog *log;
    struct worker *worker;
    struct sink *sinks;
    size_t n_sinks;
    struct sink *full;
    struct store *store; /* NULL: there is no history; not owned */
    int64_t head;
    uint64_t written;
    uint8_t *memory; /* where everything written goes, ROOM bytes, round and round */
    size_t memory_at;
    /* measured */
    double worker_cpu, reader_cpu;
    struct turn longest; /* by turn_ours() */
    double longest_wall;
    double longest_cpu;
    size_t n_turns, n_preempted;
    uint64_t rows_read, fetches, refused;
};

static void sink_write(void *user, const uint8_t *data, size_t len)
{
    struct sink *sink = user;
    struct rig *rig = sink->rig;
    rig->written += len;
    sink->taken += len;
    if (rig->memory_at + len > ROOM)
        rig->memory_at = 0;
    assert(len <= ROOM);
    memcpy(rig->memory + rig->memory_at, data, len);
    rig->memory_at += len;
    if (sink->taken > ROOM / 2 && !sink->full && !sink->stuck) {
        sink->full = true;
        sink->next_full = rig->full;
        rig->full = sink;
    }
}

static void rig_init(struct rig *rig, unsigned capacity_log2, int64_t head, struct store *store)
{
    *rig = (struct rig){.head = head, .store = store};
    rig->memory = must_have(malloc(ROOM));
    struct evlog_opts log = {.capacity_log2 = capacity_log2, .max_bytes = (size_t)16 << 30, .n_workers = 1};
    must("evlog_create", evlog_create(&log, &rig->log));
    must("evlog_cut", evlog_cut(rig->log, head, EVLOG_CUT_START, 0));
    struct worker_opts worker = {
        .log = rig->log,
        .identity = {0x1122334455667788, 0x99aabbccddeeff00, 7},
        .seed = 1,
        .fragment_bytes = (size_t)2 << 20,
        .response_bytes = (size_t)1 << 20,
        .response_revs = 1000,
        .segment_bytes = (size_t)8 << 20,
        .progress_ms = 600000,
        .write = sink_write,
    };
    must("worker_create", worker_create(&worker, &rig->worker));
}

static void rig_fini(struct rig *rig)
{
    worker_destroy(rig->worker);
    evlog_destroy(rig->log);
    free(rig->sinks);
    free(rig->memory);
}

static struct turn turn_mark(void)
{
    struct rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    return (struct turn){seconds(CLOCK_MONOTONIC), cpu(), usage.ru_majflt, usage.ru_nvcsw, usage.ru_nivcsw};
}

/* The wall time of a turn that is ours. Without a major fault and without waiting for anything it is the CPU time: the
 * rest went to another program, or to another machine on the same processor. */
static double turn_ours(const struct turn *turn)
{
    return turn->faults == 0 && turn->waits == 0 ? turn->cpu : turn->wall;
}

static bool rig_turn(struct rig *rig)
{
    struct turn start = turn_mark();
    bool more = worker_turn(rig->worker, 1, opts.work);
    struct turn end = turn_mark();
    struct turn turn = {end.wall - start.wall, end.cpu - start.cpu, end.faults - start.faults, end.waits - start.waits,
                        end.preempted - start.preempted};
    rig->worker_cpu += turn.cpu;
    rig->longest_cpu = turn.cpu > rig->longest_cpu ? turn.cpu : rig->longest_cpu;
    rig->n_turns++;
    rig->n_preempted += turn.preempted > 0;
    rig->longest_wall = turn.wall > rig->longest_wall ? turn.wall : rig->longest_wall;
    if (turn_ours(&turn) > turn_ours(&rig->longest))
        rig->longest = turn;
    return more;
}

static void report_turns(const struct rig *rig, const char *what, enum aim aim)
{
    char figure[64];
    snprintf(figure, sizeof(figure), "%s: longest turn, wall time", what);
    report(figure, turn_ours(&rig->longest) * 1e3, "ms", aim, 2);
    printf("%-50s %14.2f ms with what other programs took; %ld major faults, %ld waits; %zu of %zu were preempted\n",
           "  longest", rig->longest_wall * 1e3, rig->longest.faults, rig->longest.waits, rig->n_preempted,
           rig->n_turns);
    snprintf(figure, sizeof(figure), "%s: longest turn, CPU", what);
    report(figure, rig->longest_cpu * 1e3, "ms", NOTE, 0);
}

/* The reader's part: one wanted stretch of history. */
static bool rig_fetch(struct rig *rig)
{
    struct worker_fetch fetch;
    if (!worker_wants_fetch(rig->worker, &fetch))
        return false;
    if (rig->store == NULL)
        die("history is asked for and there is none", BELFRY_ERR_NOT_FOUND);
    const struct store_api *api = rig->store->api;
    struct segment *segment = NULL;
    int64_t oldest = 0;
    double start = cpu();
    enum belfry_err err =
        fetch.slice ? api->slice(rig->store, fetch.past, fetch.from, fetch.sub, SEGMENT_BYTES, &segment, &oldest)
                    : api->history(rig->store, fetch.past, fetch.from, SEGMENT_BYTES, &segment, &oldest);
    rig->reader_cpu += cpu() - start;
    rig->fetches++;
    rig->refused += err != BELFRY_OK;
    for (size_t i = 0; err == BELFRY_OK && i < segment->n; i++)
        rig->rows_read += segment->batches[i]->n_events;
    worker_fetched(rig->worker, &fetch, err, segment, 0, 0);
    return true;
}

static bool rig_writable(struct rig *rig)
{
    if (rig->full == NULL)
        return false;
    while (rig->full != NULL) {
        struct sink *sink = rig->full;
        rig->full = sink->next_full;
        sink->full = false;
        sink->taken = 0;
        stream_writable(rig->worker, sink->stream, ROOM);
    }
    return true;
}

/* Until there is nothing to do. */
static void rig_drive(struct rig *rig)
{
    bool more = true;
    while (more) {
        more = rig_turn(rig);
        more |= rig_writable(rig);
        while (rig_fetch(rig))
            more = true;
    }
}

static void rig_open(struct rig *rig, size_t n)
{
    rig_drive(rig); /* learns of the past */
    rig->sinks = must_have(calloc(n, sizeof(*rig->sinks)));
    rig->n_sinks = n;
    for (size_t i = 0; i < n; i++) {
        rig->sinks[i].rig = rig;
        must("stream_open", stream_open(rig->worker, &rig->sinks[i], 1, &rig->sinks[i].stream));
        stream_writable(rig->worker, rig->sinks[i].stream, ROOM);
    }
    rig_drive(rig);
}

static void rig_watch(struct rig *rig, size_t sink, struct belfry_bytes key, struct belfry_bytes end, int64_t start)
{
    struct stream_create create = {.key = key, .range_end = end, .start_rev = start};
    must("stream_create", stream_create(rig->worker, rig->sinks[sink].stream, &create));
}

static struct worker_stats rig_stats(const struct rig *rig)
{
    struct worker_stats stats;
    worker_stats(rig->worker, &stats);
    return stats;
}

/* ---- keys and events ---- */

/* "/registry/pods/default/000000042", or with a slash in the last place: KEY_BYTES in all. */
struct name {
    char bytes[KEY_BYTES], end[KEY_BYTES];
};
enum name_kind { NAME_KEY, NAME_PREFIX };

static struct belfry_bytes name_of(struct name *name, enum name_kind kind, size_t number)
{
    memcpy(name->bytes, "/registry/pods/default/00000000/", KEY_BYTES);
    size_t last = kind == NAME_KEY ? KEY_BYTES : KEY_BYTES - 1;
    name->bytes[KEY_BYTES - 1] = kind == NAME_KEY ? '0' : '/';
    for (size_t i = 0; i < 8; i++, number /= 10)
        name->bytes[last - 1 - i] = (char)('0' + number % 10);
    return belfry_bytes_of(name->bytes, KEY_BYTES);
}

static struct belfry_bytes end_of(struct name *name)
{
    memcpy(name->end, name->bytes, KEY_BYTES);
    name->end[KEY_BYTES - 1]++;
    return belfry_bytes_of(name->end, KEY_BYTES);
}

/* A key inside a prefix. */
static struct belfry_bytes child_of(char *to, struct belfry_bytes prefix, size_t number)
{
    memcpy(to, prefix.data, prefix.len);
    for (size_t i = 0; i < 4; i++, number /= 10)
        to[prefix.len + 3 - i] = (char)('0' + number % 10);
    return belfry_bytes_of(to, prefix.len + 4);
}

/* A PUT of `key`, as scanned; the bytes are in a buffer that the next call takes. */
static struct belfry_wire_event put_of(struct belfry_bytes key, int64_t rev)
{
    static uint8_t bytes[64 * 1024];
    static char value[32 * 1024];
    struct belfry_wire_event event = {0}, scanned;
    size_t n = opts.value_bytes < sizeof(value) ? opts.value_bytes : sizeof(value);
    event.kv = (struct belfry_wire_kv){
        .key = key, .value = belfry_bytes_of(value, n), .create_rev = rev, .mod_rev = rev, .version = 1};
    size_t size = (size_t)(belfry_write_event(&event, bytes) - bytes);
    must("event", belfry_scan_event(belfry_bytes_of(bytes, size), &scanned));
    return scanned;
}

static void publish(struct rig *rig, struct belfry_bytes key)
{
    struct belfry_wire_event event = put_of(key, ++rig->head);
    struct belfry_bytes none = {NULL, 0};
    struct batch *batch;
    must("batch_create", batch_create(rig->head, BATCH_EVENTS, 1, batch_event_bytes(&event, none), &batch));
    batch_add(batch, &event, none);
    must("evlog_append", evlog_append(rig->log, batch));
    evlog_committed(rig->log, rig->head);
}

/* ---- many watchers: memory, creates, cost of an event ---- */

/* How many creates come off one socket before the next: a few, and so that every stream has some. */
static size_t run_length(const struct rig *rig)
{
    size_t share = opts.watchers / rig->n_sinks;
    return share == 0 ? 1 : share < N_CREATES ? share : N_CREATES;
}

static void watch_many(struct rig *rig, enum name_kind kind)
{
    size_t run = run_length(rig);
    for (size_t i = 0; i < opts.watchers; i++) {
        struct name name;
        struct belfry_bytes key = name_of(&name, kind, i);
        struct belfry_bytes end = kind == NAME_KEY ? belfry_bytes_of(NULL, 0) : end_of(&name);
        rig_watch(rig, i / run % rig->n_sinks, key, end, 0);
        if ((i + 1) % (run * rig->n_sinks) == 0)
            rig_drive(rig);
    }
    rig_drive(rig);
    if (rig_stats(rig).riding != opts.watchers)
        die("not all watchers ride", BELFRY_ERR_INVALID);
}

/* One event, one watcher, all over the registered ones. */
static void events_for_one(struct rig *rig, enum name_kind kind, size_t n)
{
    struct belfry_rng rng = {2};
    uint64_t before = rig_stats(rig).deliveries;
    for (size_t i = 0; i < n; i++) {
        struct name name;
        char child[KEY_BYTES + 4];
        struct belfry_bytes key = name_of(&name, kind, belfry_rng_below(&rng, opts.watchers));
        publish(rig, kind == NAME_KEY ? key : child_of(child, key, i));
        if ((i + 1) % opts.burst != 0 && i + 1 < n)
            continue;
        CALLGRIND_TOGGLE_COLLECT;
        rig_drive(rig);
        CALLGRIND_TOGGLE_COLLECT;
    }
    if (rig_stats(rig).deliveries - before != n)
        die("not every event was delivered once", BELFRY_ERR_INVALID);
}

static void many(const char *what, enum name_kind kind)
{
    struct rig rig;
    char figure[64];
    rig_init(&rig, 12, FIRST_REV, NULL);
    rig_open(&rig, opts.streams);
    size_t rss = rss_anon(), accounted = rig_stats(&rig).bytes;
    double start = cpu();
    watch_many(&rig, kind);
    double used = cpu() - start, n = (double)opts.watchers;
    snprintf(figure, sizeof(figure), "%s: memory a watcher, accounted", what);
    report(figure, (double)(rig_stats(&rig).bytes - accounted) / n, "bytes", AT_MOST, 256);
    snprintf(figure, sizeof(figure), "%s: memory a watcher, RssAnon", what);
    report(figure, (double)(rss_anon() - rss) / n, "bytes", AT_MOST, 256);
    snprintf(figure, sizeof(figure), "%s: creates, with their answers", what);
    report(figure, n / used, "/s of CPU", AT_LEAST, 500000);
    snprintf(figure, sizeof(figure), "%s: longest turn meanwhile, CPU", what);
    report(figure, rig.longest_cpu * 1e3, "ms", NOTE, 0);
    rig.worker_cpu = 0;
    events_for_one(&rig, kind, opts.events);
    snprintf(figure, sizeof(figure), "%s: an event that one watcher wants", what);
    report(figure, rig.worker_cpu * 1e9 / (double)opts.events, "ns of CPU", NOTE, 0);
    rig_fini(&rig);
}

static void figure_keys(void)
{
    many("keys", NAME_KEY);
}

static void figure_prefixes(void)
{
    many("prefixes", NAME_PREFIX);
}

/* ---- instructions an event ---- */

#define COUNTED 2048 /* events */

static _Noreturn void counted(enum name_kind kind)
{
    struct rig rig;
    rig_init(&rig, 12, FIRST_REV, NULL);
    rig_open(&rig, opts.streams);
    watch_many(&rig, kind);
    CALLGRIND_START_INSTRUMENTATION;
    events_for_one(&rig, kind, COUNTED);
    CALLGRIND_STOP_INSTRUMENTATION;
    fflush(stdout);
    _exit(0); /* taking a million down takes long here */
}

static void counted_keys(void)
{
    counted(NAME_KEY);
}

static void counted_prefixes(void)
{
    counted(NAME_PREFIX);
}

/* Runs this program under callgrind; 0: it could not be. */
static double instructions(const char *mode, size_t watchers)
{
    char self[1024], command[2048], line[512];
    ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);
    if (len < 0)
        return 0;
    self[len] = '\0';
    snprintf(command, sizeof(command),
             "valgrind --tool=callgrind --instr-atstart=no --collect-atstart=no --callgrind-out-file=/dev/null '%s' %s "
             "--watchers %zu "
             "--streams %zu --value %zu --burst %zu 2>&1",
             self, mode, watchers, opts.streams, opts.value_bytes, opts.burst);
    FILE *pipe = popen(command, "r");
    double n = 0;
    while (pipe != NULL && fgets(line, sizeof(line), pipe) != NULL) {
        const char *at = strstr(line, "Collected :");
        n = at == NULL ? n : strtod(at + strlen("Collected :"), NULL);
    }
    if (pipe == NULL || pclose(pipe) != 0)
        return 0;
    return n / COUNTED;
}

static void instructions_of(const char *what, double times)
{
    char mode[32], figure[64];
    snprintf(mode, sizeof(mode), "counted-%s", what);
    double few = instructions(mode, 1000), all = instructions(mode, opts.watchers);
    snprintf(figure, sizeof(figure), "%s: instructions an event, 1000 watchers", what);
    report(figure, few, "", NOTE, 0);
    snprintf(figure, sizeof(figure), "%s: instructions an event, %zu watchers", what, opts.watchers);
    report(figure, all, "", NOTE, 0);
    snprintf(figure, sizeof(figure), "%s: the second over the first", what);
    if (few <= 0 || all <= 0)
        printf("%-50s not measured: is valgrind installed?\n", figure);
    else
        report(figure, all / few, "times", AT_MOST, times);
    missed = missed || few <= 0 || all <= 0;
}

static void figure_instructions(void)
{
    instructions_of("keys", 1.5);
    instructions_of("prefixes", 2.5);
}

/* ---- many watchers of one prefix ---- */

#define N_ROUNDS 200 /* events; the median keeps out those that a neighbour on the machine disturbed */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void figure_fanout(void)
{
    struct rig rig;
    struct name name;
    char child[KEY_BYTES + 4];
    struct belfry_bytes prefix = name_of(&name, NAME_PREFIX, 1), end = end_of(&name);
    rig_init(&rig, 12, FIRST_REV, NULL);
    rig_open(&rig, opts.streams < opts.riders ? opts.streams : opts.riders);
    for (size_t i = 0; i < opts.riders; i++)
        rig_watch(&rig, i % rig.n_sinks, prefix, end, 0);
    rig_drive(&rig);
    uint64_t before = rig_stats(&rig).deliveries, written = rig.written;
    double rounds[N_ROUNDS], sum = 0;
    for (size_t i = 0; i < N_ROUNDS; i++) {
        rig.worker_cpu = 0;
        publish(&rig, child_of(child, prefix, i));
        rig_drive(&rig);
        rounds[i] = rig.worker_cpu * 1e9 / (double)opts.riders;
        sum += rounds[i];
    }
    uint64_t n = rig_stats(&rig).deliveries - before;
    if (n != N_ROUNDS * opts.riders)
        die("not every event was delivered", BELFRY_ERR_INVALID);
    qsort(rounds, N_ROUNDS, sizeof(*rounds), by_value);
    report("fanout: a delivery, the median event's", rounds[N_ROUNDS / 2], "ns of CPU", AT_MOST, 150);
    report("fanout: a delivery, the fastest event's", rounds[0], "ns of CPU", NOTE, 0);
    report("fanout: a delivery, all events'", sum / N_ROUNDS, "ns of CPU", NOTE, 0);
    report("fanout: size of a message", (double)(rig.written - written) / (double)n, "bytes", NOTE, 0);
    report_turns(&rig, "fanout", NOTE);
    rig_fini(&rig);
}

/* ---- one watcher far behind ---- */

/* Watches everything that write_history() and fill_log() put, from the first revision on, until it rides. */
static void replay(struct rig *rig, double *wall)
{
    double start = seconds(CLOCK_MONOTONIC);
    uint64_t before = rig_stats(rig).deliveries;
    rig->worker_cpu = rig->reader_cpu = rig->longest_cpu = rig->longest_wall = 0;
    rig->longest = (struct turn){0};
    rig->n_turns = rig->n_preempted = 0;
    rig_watch(rig, 0, belfry_bytes_str("/registry/"), belfry_bytes_str("/registry0"), FIRST_REV + 1);
    rig_drive(rig);
    *wall = seconds(CLOCK_MONOTONIC) - start;
    struct worker_stats stats = rig_stats(rig);
    if (stats.riding != 1 || stats.deliveries == before)
        die("the watcher did not catch up", BELFRY_ERR_INVALID);
}

static struct belfry_bytes history_key(char *to, size_t i)
{
    struct name name;
    return child_of(to, name_of(&name, NAME_PREFIX, i % 1000), i / 1000 % 100);
}

static void figure_replay_log(void)
{
    struct rig rig;
    char key[KEY_BYTES + 4];
    unsigned log2 = 4;
    while ((size_t)1 << log2 < opts.revisions + 1)
        log2++;
    rig_init(&rig, log2, FIRST_REV, NULL);
    for (size_t i = 0; i < opts.revisions; i++)
        publish(&rig, history_key(key, i));
    rig_open(&rig, 1);
    double wall;
    replay(&rig, &wall);
    report("replay-log: revisions", (double)opts.revisions / rig.worker_cpu, "/s of CPU", AT_LEAST, 1000000);
    report_turns(&rig, "replay-log", AT_MOST);
    rig_fini(&rig);
}

/* ---- history on disk ---- */

static char scratch[1024]; /* folder of this process's replica; empty: none */

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *walk)
{
    (void)info;
    (void)kind;
    (void)walk;
    return remove(path);
}

static void scratch_remove(void)
{
    if (scratch[0] != '\0' && nftw(scratch, remove_one, 16, FTW_DEPTH | FTW_PHYS) != 0)
        fprintf(stderr, "core: %s is left behind\n", scratch);
}

static void scratch_make(void)
{
    const char *base = opts.dir != NULL ? opts.dir : getenv("TMPDIR");
    snprintf(scratch, sizeof(scratch), "%s/belfry-bench-XXXXXX", base != NULL ? base : ".");
    if (mkdtemp(scratch) == NULL) {
        perror(scratch);
        exit(1);
    }
    atexit(scratch_remove);
}

static struct store *replica(void)
{
    struct replica_opts replica_opts = {
        .dir = scratch,
        .history_bytes = (size_t)4 << 30,
        .history_age_s = 86400,
        .map_bytes = (size_t)8 << 30,
        .extent_bytes = (size_t)16 << 20,
        .scope = "all",
    };
    struct store *store = NULL;
    char *why = NULL;
    enum belfry_err err = replica_open(&replica_opts, &store, &why);
    if (err != BELFRY_OK) {
        fprintf(stderr, "core: %s: %s\n", scratch, why != NULL ? why : belfry_errname(err));
        exit(1);
    }
    return store;
}

static void write_history(struct store *store, size_t n)
{
    const struct store_api *api = store->api;
    struct belfry_wire_header header = {.cluster_id = 1, .member_id = 2, .raft_term = 3, .revision = FIRST_REV};
    char key[KEY_BYTES + 4];
    must("fresh", api->fresh(store));
    must("adopt", api->adopt(store, FIRST_REV, &header, 1));
    for (size_t i = 0; i < n; i++) {
        int64_t rev = FIRST_REV + 1 + (int64_t)i;
        struct belfry_wire_event event = put_of(history_key(key, i), rev);
        struct belfry_bytes prev;
        if (i % 1000 == 0)
            must("begin", api->begin(store));
        must("apply", api->apply(store, rev, 0, &event, NULL, &prev));
        header.revision = rev;
        must("advance", api->advance(store, rev, &header));
        if (i % 1000 == 999 || i + 1 == n)
            must("commit", api->commit(store));
    }
}

/* A rig at the replica's revision with nothing in the log: all of the past is history. */
static void rig_on(struct rig *rig, struct store *store, size_t n_streams)
{
    struct store_meta meta;
    store->api->snapshot(store, &meta);
    rig_init(rig, 12, meta.revision, store);
    store->api->set_past(store, 1);
    rig_open(rig, n_streams);
}

static char data_path[1100]; /* of the replica's newest file */

static int find_data(const char *path, const struct stat *info, int kind, struct FTW *walk)
{
    (void)walk;
    if (kind == FTW_F && info->st_size > 65536 && strstr(path, "/data.mdb") != NULL)
        snprintf(data_path, sizeof(data_path), "%s", path);
    return 0;
}

/* Drops the data file from the page cache; nobody has it mapped. Returns what part of it is still there. */
static double drop_cache(void)
{
    nftw(scratch, find_data, 16, FTW_PHYS);
    int fd = open(data_path, O_RDWR | O_CLOEXEC);
    struct stat info;
    if (fd < 0 || fstat(fd, &info) != 0 || fsync(fd) != 0 || posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) != 0)
        die("cannot drop the page cache", BELFRY_ERR_IO);
    size_t size = (size_t)info.st_size, pages = (size + 4095) / 4096, in = 0;
    unsigned char *resident = must_have(malloc(pages));
    void *map = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED || mincore(map, size, resident) != 0)
        die("mincore", BELFRY_ERR_IO);
    for (size_t i = 0; i < pages; i++)
        in += resident[i] & 1;
    munmap(map, size);
    free(resident);
    close(fd);
    return (double)in / (double)pages;
}

/* What a cursor alone takes for the same rows, each byte of which is copied. Wall time. */
static double plain_scan(void)
{
    double start = seconds(CLOCK_MONOTONIC);
    char folder[1100];
    snprintf(folder, sizeof(folder), "%s", data_path);
    *strrchr(folder, '/') = '\0';
    MDB_env *env = NULL;
    MDB_txn *txn = NULL;
    MDB_cursor *cursor = NULL;
    MDB_dbi dbi;
    if (mdb_env_create(&env) != 0 || mdb_env_set_maxdbs(env, 16) != 0 ||
        mdb_env_set_mapsize(env, (size_t)8 << 30) != 0 || mdb_env_open(env, folder, MDB_RDONLY, 0600) != 0 ||
        mdb_txn_begin(env, NULL, MDB_RDONLY, &txn) != 0 || mdb_dbi_open(txn, "history", 0, &dbi) != 0 ||
        mdb_cursor_open(txn, dbi, &cursor) != 0)
        die("cannot scan the replica's file", BELFRY_ERR_IO);
    static char copy[1 << 16];
    MDB_val key, value;
    size_t rows = 0;
    for (; mdb_cursor_get(cursor, &key, &value, MDB_NEXT) == 0; rows++)
        memcpy(copy, value.mv_data, value.mv_size < sizeof(copy) ? value.mv_size : sizeof(copy));
    if (rows < opts.revisions)
        die("the scan saw too few rows", BELFRY_ERR_INVALID);
    mdb_cursor_close(cursor);
    mdb_txn_abort(txn);
    mdb_env_close(env);
    return seconds(CLOCK_MONOTONIC) - start;
}

static void replay_warm(struct store *store)
{
    struct rig rig;
    double wall;
    rig_on(&rig, store, 1);
    replay(&rig, &wall);
    double n = (double)opts.revisions;
    report("replay-lmdb, warm: revisions, worker and reader", n / (rig.worker_cpu + rig.reader_cpu), "/s of CPU",
           AT_LEAST, 1000000);
    report("replay-lmdb, warm: the worker's part", rig.worker_cpu * 1e9 / n, "ns a rev", NOTE, 0);
    report("replay-lmdb, warm: the reader's part", rig.reader_cpu * 1e9 / n, "ns a rev", NOTE, 0);
    report("replay-lmdb, warm: rows read over rows there", (double)rig.rows_read / n, "times", NOTE, 0);
    rig_fini(&rig);
}

static void replay_cold(struct store *store, double scan)
{
    struct rig rig;
    double wall;
    rig_on(&rig, store, 1);
    replay(&rig, &wall);
    report("replay-lmdb, cold: wall time over a plain scan's", wall / scan, "times", AT_MOST, 2);
    report_turns(&rig, "replay-lmdb, cold", AT_MOST);
    rig_fini(&rig);
}

/* What a start costs: the file read before LMDB opens it, from the page cache. */
static void audit(enum audit_depth depth, const char *what)
{
    char why[AUDIT_WHY] = "";
    struct stat st;
    nftw(scratch, find_data, 16, FTW_PHYS);
    struct audit_opts audit_opts = {.path = data_path, .depth = depth, .place = AUDIT_IN_PROCESS, .lock_fd = -1};
    double start = cpu();
    if (stat(data_path, &st) != 0 || !audit_passes(&audit_opts, why))
        die(why, BELFRY_ERR_INVALID);
    report(what, (cpu() - start) * 1e3 * (1 << 30) / (double)st.st_size, "ms of CPU a GiB", NOTE, 0);
}

static void figure_replay_lmdb(void)
{
    scratch_make();
    struct store *store = replica();
    double start = cpu();
    write_history(store, opts.revisions);
    report("replay-lmdb: written before", (double)opts.revisions / (cpu() - start), "/s of CPU", NOTE, 0);
    replay_warm(store);
    replica_close(store, REPLICA_CLOSE_CLEAN);
    audit(AUDIT_ALL, "replay-lmdb, start: the whole file, after a kill");
    audit(AUDIT_STATE, "replay-lmdb, start: after a clean end");

    report("replay-lmdb, cold: still cached before the scan", drop_cache() * 100, "%", NOTE, 0);
    double scan = plain_scan();
    report("replay-lmdb, cold: a plain scan", scan * 1e3, "ms", NOTE, 0);
    report("replay-lmdb, cold: still cached before replay", drop_cache() * 100, "%", NOTE, 0);
    store = replica();
    replay_cold(store, scan);
    replica_close(store, REPLICA_CLOSE_CLEAN);
}

/* ---- many resume at once ---- */

static void resume_one(struct rig *rig, struct belfry_rng *rng, size_t i, size_t window)
{
    struct name name;
    char child[KEY_BYTES + 4];
    size_t range = belfry_rng_below(rng, 1000);
    struct belfry_bytes key = name_of(&name, NAME_PREFIX, range), end = end_of(&name);
    if (i % 10 == 0) {
        key = child_of(child, key, belfry_rng_below(rng, 100));
        end = belfry_bytes_of(NULL, 0);
    }
    rig_watch(rig, i % rig->n_sinks, key, end, rig->head - (int64_t)belfry_rng_below(rng, window));
}

static void figure_resume(void)
{
    size_t window = opts.revisions < 200000 ? opts.revisions : 200000;
    scratch_make();
    struct store *store = replica();
    write_history(store, window);
    struct rig rig;
    rig_on(&rig, store, 100);
    struct belfry_rng rng = {3};
    double start = cpu();
    for (size_t i = 0; i < opts.resumers; i++) {
        resume_one(&rig, &rng, i, window);
        if ((i + 1) % (N_CREATES * rig.n_sinks) == 0)
            rig_turn(&rig);
    }
    rig_drive(&rig);
    double used = cpu() - start;
    struct worker_stats stats = rig_stats(&rig);
    if (stats.riding != opts.resumers)
        die("not all ride in the end", BELFRY_ERR_INVALID);
    report("resume: CPU until all are synced", used, "s", AT_MOST, 5);
    report("resume: rows read over rows in the window", (double)rig.rows_read / (double)window, "times", AT_MOST, 2);
    report("resume: asked of upstream", (double)rig.refused, "", AT_MOST, 0);
    report("resume: the reader's part", rig.reader_cpu, "s", NOTE, 0);
    report("resume: deliveries", (double)stats.deliveries, "", NOTE, 0);
    report_turns(&rig, "resume", NOTE);
    rig_fini(&rig);
    replica_close(store, REPLICA_CLOSE_CLEAN);
}

/* ---- a stream that takes nothing ---- */

/* Publishes for both streams, the one that is stuck and its neighbour. */
static void flow(struct rig *rig, struct belfry_bytes prefix, size_t n)
{
    char child[KEY_BYTES + 4];
    for (size_t i = 0; i < n; i++) {
        publish(rig, child_of(child, prefix, i));
        if ((i + 1) % opts.burst == 0 || i + 1 == n)
            rig_drive(rig);
    }
    evlog_reclaim(rig->log);
}

static void figure_parked(void)
{
    struct rig rig;
    struct name name;
    struct belfry_bytes prefix = name_of(&name, NAME_PREFIX, 1), end = end_of(&name);
    rig_init(&rig, 12, FIRST_REV, NULL);
    rig_open(&rig, 2);
    rig_watch(&rig, 0, prefix, end, 0);
    rig_watch(&rig, 1, prefix, end, 0);
    rig_drive(&rig);
    rig.sinks[0].stuck = true;
    stream_writable(rig.worker, rig.sinks[0].stream, 0);
    size_t riding = rig_stats(&rig).bytes;
    flow(&rig, prefix, 3 * 4096); /* the log is full, and what the index needs for a lookup is there */
    size_t accounted = rig_stats(&rig).bytes, heap = mallinfo2().uordblks;
    uint64_t before = rig_stats(&rig).deliveries;
    flow(&rig, prefix, opts.revisions);
    if (rig_stats(&rig).deliveries - before != opts.revisions)
        die("the neighbour missed something", BELFRY_ERR_INVALID);
    double grown = (double)rig_stats(&rig).bytes - (double)accounted;
    double heap_grown = (double)mallinfo2().uordblks - (double)heap;
    report("parked: it has been given since", (double)rig.sinks[0].taken, "bytes", NOTE, 0);
    report("parked: accounted, after the first against before", (double)accounted - (double)riding, "bytes", NOTE, 0);
    report("parked: accounted, after all against the first", grown < 0 ? -grown : grown, "bytes", AT_MOST, 0);
    report("parked: heap of the process, likewise", heap_grown < 0 ? -heap_grown : heap_grown, "bytes", AT_MOST, 0);
    rig_fini(&rig);
}

/* ---- which ---- */

static const struct figure {
    const char *name;
    void (*run)(void);
    bool by_name_only;
} figures[] = {
    {"keys", figure_keys, false},
    {"prefixes", figure_prefixes, false},
    {"instructions", figure_instructions, false},
    {"fanout", figure_fanout, false},
    {"replay-log", figure_replay_log, false},
    {"replay-lmdb", figure_replay_lmdb, false},
    {"resume", figure_resume, false},
    {"parked", figure_parked, false},
    {"counted-keys", counted_keys, true}, /* what `instructions` runs under callgrind */
    {"counted-prefixes", counted_prefixes, true},
};
#define N_FIGURES (sizeof(figures) / sizeof(*figures))

static bool run_figure(const struct figure *figure)
{
    if (figure->by_name_only) { /* under callgrind: in this very process */
        figure->run();
        return true;
    }
    pid_t child = fork();
    if (child == 0) {
        figure->run();
        exit(missed ? 1 : 0);
    }
    int status = 1;
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void usage(FILE *to)
{
    fprintf(to, "usage: core [OPTION]... [FIGURE]...\n"
                "  figures: keys prefixes instructions fanout replay-log replay-lmdb resume parked (default: all)\n"
                "  --watchers N    of keys, prefixes, instructions (1000000)\n"
                "  --streams N     they are on (1000)\n"
                "  --events N      of keys, prefixes (200000)\n"
                "  --revisions N   of replay, parked; of resume, at most 200000 (1000000)\n"
                "  --riders N      of fanout (10000)\n"
                "  --resumers N    of resume (100000)\n"
                "  --value N       bytes of a value (256)\n"
                "  --work N        units of a turn (1024)\n"
                "  --burst N       events between turns (64)\n"
                "  --dir DIR       where replicas are made and removed ($TMPDIR, or here)\n");
}

static const struct option long_options[] = {
    {"watchers", required_argument, NULL, 'w'}, {"streams", required_argument, NULL, 's'},
    {"events", required_argument, NULL, 'e'},   {"revisions", required_argument, NULL, 'r'},
    {"riders", required_argument, NULL, 'f'},   {"resumers", required_argument, NULL, 'u'},
    {"value", required_argument, NULL, 'v'},    {"work", required_argument, NULL, 'k'},
    {"burst", required_argument, NULL, 'b'},    {"dir", required_argument, NULL, 'd'},
    {"help", no_argument, NULL, 'h'},           {NULL, 0, NULL, 0},
};

static size_t *size_option(int letter)
{
    switch (letter) {
    case 'w':
        return &opts.watchers;
    case 's':
        return &opts.streams;
    case 'e':
        return &opts.events;
    case 'r':
        return &opts.revisions;
    case 'f':
        return &opts.riders;
    case 'u':
        return &opts.resumers;
    case 'v':
        return &opts.value_bytes;
    case 'k':
        return &opts.work;
    case 'b':
        return &opts.burst;
    default:
        return NULL;
    }
}

/* Exits when there is nothing to run. */
static void read_options(int argc, char **argv)
{
    int letter;
    while ((letter = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
        size_t *size = size_option(letter);
        if (letter == 'h') {
            usage(stdout);
            exit(0);
        } else if (letter == 'd') {
            opts.dir = optarg;
        } else if (size == NULL || (*size = strtoull(optarg, NULL, 10)) == 0) {
            usage(stderr);
            exit(2);
        }
    }
}

static const struct figure *figure_named(const char *name)
{
    for (size_t i = 0; i < N_FIGURES; i++) {
        if (strcmp(figures[i].name, name) == 0)
            return &figures[i];
    }
    usage(stderr);
    exit(2);
}

int main(int argc, char **argv)
{
    read_options(argc, argv);
    bool ok = true;
    for (int i = optind; i < argc; i++)
        ok = run_figure(figure_named(argv[i])) && ok;
    for (size_t i = 0; optind == argc && i < N_FIGURES; i++) {
        if (!figures[i].by_name_only)
            ok = run_figure(&figures[i]) && ok;
    }
    return ok ? 0 : 1;
}
