/* tests/stress/kfollowd.c
 *
 * Follows a resource of real Kubernetes API servers with the driver of src/kfollow, into a replica in a folder, and
 * says how it stands. Driven by integration/test_kube_follow.py.
 *
 *     kfollowd --server URL [--server URL ...] --cacert F --token T --group-version V --plural P [--cluster-scoped]
 *              --dir DIR [--watch-s N] [--lists] [--questions N] [--debug]
 *
 * On stdout, one a line: "cut PAST VERSION WHY" when a past begins, "event VERSION put|delete KEY" and
 * "advance VERSION" as the log has them, "status ..." at every change and every second. Log lines go to stderr.
 * SIGUSR1: "object VERSION KEY JSON" of the state between "dump VERSION" and "end". SIGUSR2: asks whether it has what
 * etcd has, --questions times at once; when all are answered, "fresh VERSION MS", the lowest version (0: one has no
 * proof) and how long it took. SIGTERM ends it.
 */
#include <getopt.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <belfry/belfry.h>
#include <belfry/kube.h>

#include "base/clock.h"
#include "kfollow/resource_driver.h"
#include "replica/replica.h"

#define LOG_BYTES (64 * 1024 * 1024)
#define TURN_MS   100
#define QUESTIONS 10000

static struct {
    const char *servers[RESOURCE_SERVERS_MAX];
    unsigned n_servers;
    const char *cacert, *token, *group_version, *plural, *dir;
    bool cluster_scoped, lists; /* lists: and no watch that sends the state first */
    uint32_t watch_s;
    size_t questions;
    enum belfry_log_level level;
} flags = {.questions = 1, .level = BELFRY_LOG_INFO};

static struct {
    struct belfry *b;
    struct belfry_kube *kubes[RESOURCE_SERVERS_MAX];
    struct store *store;
    struct evlog *evlog;
    struct resource_driver *driver;
    uint64_t past;
    int64_t at;
    char said[1024];
    uint64_t said_ms;
    struct resource_proof proofs[QUESTIONS];
    size_t n_open;
    int64_t fresh; /* the lowest answer */
    uint64_t proving_ns;
} d;

static volatile sig_atomic_t is_ending, is_asked, is_questioned;

static void die(const char *what, const char *why)
{
    fprintf(stderr, "kfollowd: %s: %s\n", what, why);
    exit(1);
}

/* ---- saying ---- */

static void say_batch(const struct batch *batch)
{
    if (batch->kind == BATCH_ADVANCE)
        printf("advance %" PRId64 "\n", batch->rev);
    for (uint32_t i = 0; i < batch->n_events; i++) {
        struct belfry_bytes key = batch_key(batch, &batch->events[i]);
        printf("event %" PRId64 " %s %.*s\n", batch->rev, batch->events[i].is_delete ? "delete" : "put", (int)key.len,
               key.data);
    }
    d.at = batch->rev;
}

static void say_log(void)
{
    static const char *const whys[] = {[EVLOG_CUT_START] = "start",
                                       [EVLOG_CUT_DAMAGED] = "damaged",
                                       [EVLOG_CUT_COMPACTED] = "compacted",
                                       [EVLOG_CUT_REWRITTEN] = "rewritten"};
    struct evlog_view view;
    evlog_enter(d.evlog, 0, &view);
    if (view.cut.past != d.past) {
        printf("cut %" PRIu64 " %" PRId64 " %s\n", view.cut.past, view.cut.rev, whys[view.cut.why]);
        d.past = view.cut.past;
        d.at = view.cut.rev;
    }
    for (uint64_t seq = evlog_find(&view, d.at + 1); seq < view.next; seq++)
        say_batch(evlog_at(&view, seq));
    evlog_leave(d.evlog, 0);
}

static void say_status(void)
{
    static const char *const states[] = {"start", "listing", "joining", "auditing", "live"};
    struct resource_driver_status s;
    char text[sizeof(d.said)];
    resource_driver_status(d.driver, &s);
    snprintf(text, sizeof(text),
             "status state=%s ready=%d stale=%d version=%" PRId64 " committed=%" PRId64 " server=%u listings=%" PRIu64
             " expired=%" PRIu64 " rewritten=%" PRIu64 " watches=%" PRIu64 " overlaps=%" PRIu64 " audits=%" PRIu64
             " links=%" PRIu64 " judgements=%" PRIu64 " moves=%" PRIu64 " bookmarks=%" PRIu64,
             states[s.state], s.is_ready, s.is_stale, s.version, s.committed, s.server, s.stats.listings,
             s.stats.expired, s.stats.rewritten, s.stats.watches, s.stats.overlaps, s.stats.audits, s.stats.links,
             s.stats.judgements, s.stats.moves, s.stats.bookmarks);
    uint64_t now = belfry_clock_ms();
    if (strcmp(text, d.said) == 0 && now - d.said_ms < 1000)
        return;
    d.said_ms = now;
    snprintf(d.said, sizeof(d.said), "%s", text);
    printf("%s probes=%" PRIu64 " fresh=%" PRIu64 " unproven=%" PRIu64 " fresh_probes=%" PRIu64 " fresh_lists=%" PRIu64
           " older=%" PRIu64 " streams=%" PRIu64 " why=%s failed=%s\n",
           text, s.stats.probes, s.stats.fresh, s.stats.unproven, s.stats.fresh_probes, s.stats.fresh_lists,
           s.stats.older, s.stats.streams, s.why, s.failed);
    fflush(stdout);
}

static bool say_row(struct belfry_bytes key, struct belfry_bytes bytes, void *user)
{
    struct belfry_wire_kv kv;
    (void)user;
    if (belfry_scan_kv(bytes, &kv) != BELFRY_OK)
        die("dump", "a row cannot be read");
    printf("object %" PRId64 " %.*s %.*s\n", kv.mod_rev, (int)key.len, key.data, (int)kv.value.len, kv.value.data);
    return true;
}

static void dump(void)
{
    struct store_read read = {.max_rows = SIZE_MAX, .max_bytes = SIZE_MAX};
    struct store_page page;
    struct store_meta meta;
    d.store->api->snapshot(d.store, &meta);
    printf("dump %" PRId64 "\n", meta.revision);
    if (meta.revision != 0 && d.store->api->range(d.store, &read, say_row, NULL, &page) != BELFRY_OK)
        die("dump", "the state cannot be read");
    puts("end");
    fflush(stdout);
}

static void on_proven(struct resource_proof *proof, int64_t rv)
{
    (void)proof;
    if (rv < d.fresh)
        d.fresh = rv;
    if (--d.n_open > 0)
        return;
    say_log();
    printf("fresh %" PRId64 " %.3f\n", d.fresh, (double)(belfry_clock_ns() - d.proving_ns) / 1e6);
    fflush(stdout);
}

static void prove(void)
{
    if (d.n_open > 0)
        return;
    d.fresh = INT64_MAX;
    d.proving_ns = belfry_clock_ns();
    d.n_open = flags.questions;
    for (size_t i = 0; i < flags.questions; i++) {
        d.proofs[i].fn = on_proven;
        resource_driver_prove(d.driver, &d.proofs[i]);
    }
}

static void on_changed(void *user)
{
    (void)user;
    say_log();
    say_status();
}

static void on_log(enum belfry_log_level level, const char *event, const char *text, void *user)
{
    static const char *const names[] = {"error", "warn", "info", "debug"};
    (void)user;
    fprintf(stderr, "level=%s event=%s %s\n", names[level], event, text);
}

static void on_signal(int number)
{
    if (number == SIGUSR1)
        is_asked = 1;
    else if (number == SIGUSR2)
        is_questioned = 1;
    else
        is_ending = 1;
}

/* ---- opening ---- */

static void open_client(unsigned i)
{
    char why[256] = "";
    struct belfry_opts *opts = NULL;
    if (belfry_opts_set(&opts, "server", flags.servers[i]) != BELFRY_OK ||
        belfry_opts_set(&opts, "cacert", flags.cacert) != BELFRY_OK ||
        belfry_opts_set(&opts, "token", flags.token) != BELFRY_OK)
        die("options", belfry_opts_why(opts));
    if (belfry_kube_open(d.b, opts, &d.kubes[i], why, sizeof(why)) != BELFRY_OK)
        die(flags.servers[i], why);
    belfry_opts_free(opts);
}

static void open_store(void)
{
    struct replica_opts opts = {.dir = flags.dir,
                                .history_bytes = LOG_BYTES,
                                .history_age_s = 3600,
                                .map_bytes = (size_t)1 << 30,
                                .extent_bytes = INGEST_EXTENT_BYTES,
                                .scope = flags.plural};
    struct evlog_opts log = {.capacity_log2 = 14, .max_bytes = LOG_BYTES, .n_workers = 1};
    char *why = NULL;
    if (replica_open(&opts, &d.store, &why) != BELFRY_OK)
        die(flags.dir, why != NULL ? why : "cannot be opened");
    if (evlog_create(&log, &d.evlog) != BELFRY_OK)
        die("log", "out of memory");
}

static void open_driver(const struct belfry_log *log)
{
    struct resource_driver_opts opts = {.servers = d.kubes,
                                        .n_servers = flags.n_servers,
                                        .group_version = flags.group_version,
                                        .plural = flags.plural,
                                        .is_namespaced = !flags.cluster_scoped,
                                        .store = d.store,
                                        .evlog = d.evlog,
                                        .watch_s = flags.watch_s,
                                        .no_initial = flags.lists,
                                        .seed = belfry_clock_ns(),
                                        .log = log};
    enum belfry_err err = resource_driver_open(&opts, on_changed, NULL, &d.driver);
    if (err != BELFRY_OK)
        die("driver", belfry_strerror((int)err));
}

static void parse(int argc, char **argv)
{
    static const struct option options[] = {
        {"server", required_argument, NULL, 's'},    {"cacert", required_argument, NULL, 'a'},
        {"token", required_argument, NULL, 't'},     {"group-version", required_argument, NULL, 'g'},
        {"plural", required_argument, NULL, 'p'},    {"dir", required_argument, NULL, 'd'},
        {"watch-s", required_argument, NULL, 'w'},   {"cluster-scoped", no_argument, NULL, 'c'},
        {"lists", no_argument, NULL, 'l'},           {"debug", no_argument, NULL, 'D'},
        {"questions", required_argument, NULL, 'q'}, {NULL, 0, NULL, 0}};
    const char **texts[] = {['a'] = &flags.cacert,
                            ['t'] = &flags.token,
                            ['g'] = &flags.group_version,
                            ['p'] = &flags.plural,
                            ['d'] = &flags.dir};
    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (c == '?')
            exit(2);
        else if (c == 's' && flags.n_servers < RESOURCE_SERVERS_MAX)
            flags.servers[flags.n_servers++] = optarg;
        else if (c == 'w')
            flags.watch_s = (uint32_t)strtoul(optarg, NULL, 10);
        else if (c == 'q')
            flags.questions = strtoul(optarg, NULL, 10);
        else if (c == 'c')
            flags.cluster_scoped = true;
        else if (c == 'l')
            flags.lists = true;
        else if (c == 'D')
            flags.level = BELFRY_LOG_DEBUG;
        else if (c != 's')
            *texts[c] = optarg;
    }
    if (flags.n_servers == 0 || flags.cacert == NULL || flags.token == NULL || flags.group_version == NULL ||
        flags.plural == NULL || flags.dir == NULL || flags.questions == 0 || flags.questions > QUESTIONS)
        die("arguments", "give --server, --cacert, --token, --group-version, --plural and --dir");
}

int main(int argc, char **argv)
{
    parse(argc, argv);
    struct belfry_log log = {.line = on_log, .level = flags.level};
    struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGUSR1, &action, NULL);
    sigaction(SIGUSR2, &action, NULL);
    if (belfry_open(NULL, NULL, &d.b) != BELFRY_OK)
        die("session", "cannot be opened");
    for (unsigned i = 0; i < flags.n_servers; i++)
        open_client(i);
    open_store();
    open_driver(&log);
    replica_serves(d.store);
    while (!is_ending) {
        struct pollfd wait = {.fd = belfry_fd(d.b), .events = POLLIN};
        poll(&wait, 1, TURN_MS);
        belfry_dispatch(d.b);
        say_log();
        say_status();
        if (is_asked)
            dump();
        if (is_questioned)
            prove();
        is_asked = is_questioned = 0;
    }
    resource_driver_close(d.driver);
    dump();
    belfry_close(d.b);
    replica_close(d.store, REPLICA_CLOSE_CLEAN);
    evlog_destroy(d.evlog);
    return 0;
}
