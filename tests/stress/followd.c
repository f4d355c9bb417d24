/* tests/stress/followd.c
 *
 * Follows a real etcd with the driver, into a replica in a folder, and says how it stands. Driven by
 * integration/test_driver.py.
 *
 *     followd --endpoints LIST --dir DIR [--scope PREFIX] [--cacert F] [--cert F] [--key F]
 *             [--user NAME:PASSWORD] [--password-file F] [--history BYTES] [--debug]
 *
 * On stdout, one a line: "status ..." at every change and every second, "cut ..." when a past begins, "backfilled ..."
 * for each answer. Log lines go to stderr. SIGUSR1, and the end: "kv KEY VERSION MOD" of the state, keys in hex,
 * between "dump REV" and "end". On stdin: "backfill FROM OLDEST". SIGTERM and the end of stdin end it.
 */
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "follow/driver.h"
#include "follow/ingest.h"
#include "replica/replica.h"

#define LOG_BYTES (64 * 1024 * 1024)

static struct {
    const char *endpoints, *dir, *scope, *user, *password_file;
    struct belfry_tls_opts tls;
    size_t history_bytes;
    enum belfry_log_level level;
} flags = {.history_bytes = 64 * 1024 * 1024, .level = BELFRY_LOG_INFO};

static struct {
    uv_loop_t loop;
    struct store *store;
    struct evlog *evlog;
    struct term raft_term;
    struct driver *driver;
    struct belfry_tls *tls;
    struct belfry_endpoint *endpoints;
    size_t n_endpoints;
    uv_timer_t timer;
    uv_signal_t term, usr1;
    uv_pipe_t in;
    char line[200], room[200];
    size_t len;
    char said[1200];
    uint64_t past, tokens;
} d;

static void die(const char *what, const char *why)
{
    fprintf(stderr, "followd: %s: %s\n", what, why);
    exit(1);
}

/* ---- saying ---- */

static void say_cut(void)
{
    static const char *const whys[] = {[EVLOG_CUT_START] = "start",
                                       [EVLOG_CUT_DAMAGED] = "damaged",
                                       [EVLOG_CUT_COMPACTED] = "compacted",
                                       [EVLOG_CUT_REWRITTEN] = "rewritten"};
    struct evlog_view view;
    evlog_enter(d.evlog, 0, &view);
    if (view.cut.past != d.past)
        printf("cut past=%" PRIu64 " rev=%" PRId64 " why=%s compact_rev=%" PRId64 "\n", view.cut.past, view.cut.rev,
               whys[view.cut.why], view.cut.compact_rev);
    d.past = view.cut.past;
    evlog_leave(d.evlog, 0);
}

static void say_status(bool always)
{
    static const char *const standings[] = {"not_ready", "ready", "stale"};
    static const char *const states[] = {"start", "joining", "replaying", "listing", "live"};
    struct driver_status s;
    char text[sizeof(d.said)];
    driver_status(d.driver, &s);
    snprintf(text, sizeof(text),
             "status standing=%s state=%s rev=%" PRId64 " upstream=%" PRId64 " past=%" PRIu64 " cluster=%" PRIx64
             " lists=%" PRIu64 " replays=%" PRIu64 " overlaps=%" PRIu64 " compacted=%" PRIu64 " rewritten=%" PRIu64
             " gaps=%" PRIu64 " stales=%" PRIu64 " connects=%" PRIu64 " losses=%" PRIu64 " keys=%" PRIu64
             " trouble=%d version=%s endpoint=%s reason=%s",
             standings[s.standing], states[s.state], s.revision, s.upstream_revision, s.past, s.identity.cluster_id,
             s.stats.listings, s.stats.replays, s.stats.overlaps, s.stats.relists_compacted, s.stats.relists_rewritten,
             s.stats.gaps, s.stats.stale, s.connects, s.losses, s.keys_listed, s.disk_trouble, s.version, s.endpoint,
             s.reason);
    if (always || strcmp(text, d.said) != 0)
        puts(text);
    snprintf(d.said, sizeof(d.said), "%s", text);
    fflush(stdout);
}

static bool say_row(struct belfry_bytes key, struct belfry_bytes bytes, void *user)
{
    struct belfry_wire_kv kv;
    (void)user;
    if (belfry_scan_kv(bytes, &kv) != BELFRY_OK)
        die("dump", "a row cannot be read");
    printf("kv ");
    for (size_t i = 0; i < key.len; i++)
        printf("%02x", (unsigned char)key.data[i]);
    printf(" %" PRId64 " %" PRId64 "\n", kv.version, kv.mod_rev);
    return true;
}

static void dump(void)
{
    struct store_meta meta;
    struct store_read read = {.max_rows = SIZE_MAX, .max_bytes = SIZE_MAX};
    struct store_page page;
    d.store->api->snapshot(d.store, &meta);
    printf("dump %" PRId64 "\n", meta.revision);
    if (meta.revision != 0 && d.store->api->range(d.store, &read, say_row, NULL, &page) != BELFRY_OK)
        die("dump", "the state cannot be read");
    puts("end");
    fflush(stdout);
}

static void on_changed(void *user)
{
    (void)user;
    say_cut();
    say_status(false);
}

static void on_backfilled(uint64_t token, enum belfry_err err, struct segment *segment, int64_t compact_rev, void *user)
{
    (void)user;
    printf("backfilled %" PRIu64 " %s from=%" PRId64 " upto=%" PRId64 " n=%zu compact_rev=%" PRId64 "\n", token,
           belfry_errname((int)err), segment != NULL ? segment->from : 0, segment != NULL ? segment->upto : 0,
           segment != NULL ? segment->n : 0, compact_rev);
    fflush(stdout);
    segment_unref(segment);
}

static void on_log(enum belfry_log_level level, const char *event, const char *text, void *user)
{
    static const char *const names[] = {"error", "warn", "info", "debug"};
    (void)user;
    fprintf(stderr, "level=%s event=%s %s\n", names[level], event, text);
}

static const struct driver_events events = {.changed = on_changed, .backfilled = on_backfilled};

/* ---- being told ---- */

static void stop(void)
{
    if (d.driver == NULL)
        return;
    say_status(true);
    driver_destroy(d.driver);
    d.driver = NULL;
    uv_close((uv_handle_t *)&d.timer, NULL);
    uv_close((uv_handle_t *)&d.term, NULL);
    uv_close((uv_handle_t *)&d.usr1, NULL);
    uv_close((uv_handle_t *)&d.in, NULL);
}

static void on_signal(uv_signal_t *signal, int number)
{
    (void)signal;
    if (number == SIGUSR1)
        dump();
    else
        stop();
}

static void on_second(uv_timer_t *timer)
{
    (void)timer;
    say_status(true);
}

static void on_command(char *line)
{
    int64_t from, oldest;
    struct driver_status status;
    if (sscanf(line, "backfill %" SCNd64 " %" SCNd64, &from, &oldest) != 2)
        die(line, "not a command");
    driver_status(d.driver, &status);
    struct backfill_ask ask = {.past = status.past, .from = from, .oldest = oldest, .token = ++d.tokens};
    driver_backfill(d.driver, &ask);
}

static void on_room(uv_handle_t *handle, size_t wanted, uv_buf_t *buf)
{
    (void)handle;
    (void)wanted;
    *buf = uv_buf_init(d.room, sizeof(d.room));
}

static void on_bytes(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    (void)stream;
    if (n < 0)
        stop();
    for (ssize_t i = 0; i < n; i++) {
        bool whole = buf->base[i] == '\n' || d.len + 1 == sizeof(d.line);
        d.line[d.len++] = whole ? '\0' : buf->base[i];
        if (whole) {
            d.len = 0;
            on_command(d.line);
        }
    }
}

/* ---- opening ---- */

static void open_store(void)
{
    struct replica_opts opts = {.dir = flags.dir,
                                .history_bytes = flags.history_bytes,
                                .history_age_s = 3600,
                                .map_bytes = (size_t)1 << 30,
                                .extent_bytes = INGEST_EXTENT_BYTES,
                                .scope = flags.scope != NULL ? flags.scope : "all"};
    struct evlog_opts log = {.capacity_log2 = 14, .max_bytes = LOG_BYTES, .n_workers = 1};
    char *why = NULL;
    if (replica_open(&opts, &d.store, &why) != BELFRY_OK)
        die(flags.dir, why != NULL ? why : "cannot be opened");
    if (evlog_create(&log, &d.evlog) != BELFRY_OK)
        die("log", "out of memory");
}

static void open_driver(const struct belfry_log *log)
{
    char why[256] = "", end[256] = "";
    bool all = flags.scope == NULL;
    size_t len = all ? 0 : strlen(flags.scope);
    if (len >= sizeof(end))
        die("scope", "too long");
    if (belfry_endpoint_parse_list(flags.endpoints, &d.endpoints, &d.n_endpoints, why, sizeof(why)) != BELFRY_OK)
        die("endpoints", why);
    if (flags.tls.cacert != NULL && belfry_tls_create(&flags.tls, &d.tls, why, sizeof(why)) != BELFRY_OK)
        die("tls", why);
    if (!all) { /* the end of a prefix that does not end in 0xff */
        memcpy(end, flags.scope, len);
        end[len - 1]++;
    }
    term_init(&d.raft_term);
    struct driver_opts opts = {.loop = &d.loop,
                               .endpoints = d.endpoints,
                               .n_endpoints = d.n_endpoints,
                               .tls = d.tls,
                               .user = flags.user,
                               .password_file = flags.password_file,
                               .user_agent = "followd",
                               .key = all ? belfry_bytes_of("", 1) : belfry_bytes_of(flags.scope, len),
                               .range_end = all ? belfry_bytes_of("", 1) : belfry_bytes_of(end, len),
                               .store = d.store,
                               .evlog = d.evlog,
                               .term = &d.raft_term,
                               .seed = uv_hrtime(),
                               .log = log};
    enum belfry_err err = driver_create(&opts, &events, NULL, &d.driver);
    if (err != BELFRY_OK)
        die("driver", belfry_strerror((int)err));
}

static void open_handles(void)
{
    uv_timer_init(&d.loop, &d.timer);
    uv_timer_start(&d.timer, on_second, 1000, 1000);
    uv_signal_init(&d.loop, &d.term);
    uv_signal_start(&d.term, on_signal, SIGTERM);
    uv_signal_init(&d.loop, &d.usr1);
    uv_signal_start(&d.usr1, on_signal, SIGUSR1);
    uv_pipe_init(&d.loop, &d.in, 0);
    if (uv_pipe_open(&d.in, 0) != 0 || uv_read_start((uv_stream_t *)&d.in, on_room, on_bytes) != 0)
        die("stdin", "it must be a pipe");
}

static void parse(int argc, char **argv)
{
    static const struct option options[] = {{"endpoints", required_argument, NULL, 'e'},
                                            {"dir", required_argument, NULL, 'd'},
                                            {"scope", required_argument, NULL, 's'},
                                            {"cacert", required_argument, NULL, 'a'},
                                            {"cert", required_argument, NULL, 'c'},
                                            {"key", required_argument, NULL, 'k'},
                                            {"user", required_argument, NULL, 'u'},
                                            {"password-file", required_argument, NULL, 'p'},
                                            {"history", required_argument, NULL, 'h'},
                                            {"debug", no_argument, NULL, 'g'},
                                            {NULL, 0, NULL, 0}};
    const char **texts[] = {
        ['e'] = &flags.endpoints, ['d'] = &flags.dir,     ['s'] = &flags.scope, ['a'] = &flags.tls.cacert,
        ['c'] = &flags.tls.cert,  ['k'] = &flags.tls.key, ['u'] = &flags.user,  ['p'] = &flags.password_file};
    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (c == '?')
            exit(2);
        else if (c == 'h')
            flags.history_bytes = strtoull(optarg, NULL, 10);
        else if (c == 'g')
            flags.level = BELFRY_LOG_DEBUG;
        else
            *texts[c] = optarg;
    }
    if (flags.endpoints == NULL || flags.dir == NULL || optind != argc) {
        fprintf(stderr, "followd: give --endpoints and --dir\n");
        exit(2);
    }
}

int main(int argc, char **argv)
{
    parse(argc, argv);
    struct belfry_log log = {.line = on_log, .level = flags.level};
    uv_loop_init(&d.loop);
    open_store();
    open_driver(&log);
    open_handles();
    uv_run(&d.loop, UV_RUN_DEFAULT);
    if (uv_loop_close(&d.loop) != 0)
        die("loop", "a handle was left open");
    dump();
    replica_close(d.store, REPLICA_CLOSE_CLEAN);
    evlog_destroy(d.evlog);
    belfry_tls_destroy(d.tls);
    free(d.endpoints);
    return 0;
}
