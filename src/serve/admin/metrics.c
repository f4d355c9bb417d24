/* src/serve/admin/metrics.c: a row a series. Rows of one name stand together and share the help of the first. */
#include "serve/admin/metrics.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "serve/admin/text.h"

enum kind { COUNTER, GAUGE, HISTOGRAM };
static const char *const kind_names[] = {"counter", "gauge", "histogram"};

/* Where a row's value is: at `offset` of tier_numbers, or of each worker that answered, to be added up. */
enum source { TIER_U64, TIER_SIZE, TIER_REV, WORKERS_U64, WORKERS_SIZE, OWN };

struct row {
    const char *name, *help; /* help NULL: another series of the row before */
    enum kind kind;
    const char *labels; /* as written between the braces; NULL: none */
    enum source source;
    size_t offset;
    void (*own)(struct text *text, const struct row *row, const struct tier_numbers *numbers); /* OWN: all its series */
};

static void sample_u64(struct text *text, const char *name, const char *labels, uint64_t value)
{
    text_say(text, labels != NULL ? "%s{%s} %" PRIu64 "\n" : "%s%s %" PRIu64 "\n", name, labels != NULL ? labels : "",
             value);
}

static void sample_real(struct text *text, const char *name, double value)
{
    text_say(text, "%s %.9g\n", name, value);
}

/* A label's value: backslash, quote and line feed are escaped; what is too long is cut. */
static const char *escape(const char *value, char *room, size_t len)
{
    size_t n = 0;
    for (; *value != '\0' && n + 2 < len; value++) {
        if (*value == '\\' || *value == '"' || *value == '\n')
            room[n++] = '\\';
        room[n++] = *value == '\n' ? 'n' : *value;
    }
    room[n] = '\0';
    return room;
}

/* ---- series that are more than a number ---- */

static void own_build_info(struct text *text, const struct row *row, const struct tier_numbers *numbers)
{
    char version[128];
    text_say(text, "%s{version=\"%s\"} 1\n", row->name, escape(numbers->version, version, sizeof(version)));
}

static void own_draining(struct text *text, const struct row *row, const struct tier_numbers *numbers)
{
    sample_u64(text, row->name, NULL, numbers->draining);
}

static void own_upstream_up(struct text *text, const struct row *row, const struct tier_numbers *numbers)
{
    sample_u64(text, row->name, NULL, numbers->upstream_answered && numbers->upstream.standing == DRIVER_READY);
}

static void own_upstream_state(struct text *text, const struct row *row, const struct tier_numbers *numbers)
{
    for (int state = UPSTREAM_START; state <= UPSTREAM_LIVE; state++) {
        char labels[64];
        snprintf(labels, sizeof(labels), "state=\"%s\"", numbers_state_name((enum upstream_state)state));
        sample_u64(text, row->name, labels, numbers->upstream_answered && (int)numbers->upstream.state == state);
    }
}

static void own_lag_revisions(struct text *text, const struct row *row, const struct tier_numbers *numbers)
{
    int64_t lag = numbers->upstream.upstream_revision - numbers->upstream.revision;
    sample_u64(text, row->name, NULL, lag > 0 ? (uint64_t)lag : 0);
}

static void own_lag_seconds(struct text *text, const struct row *row, const struct tier_numbers *numbers)
{
    if (!numbers->upstream_answered || numbers->upstream.silent_ms == BELFRY_NEVER)
        text_say(text, "%s +Inf\n", row->name);
    else
        sample_real(text, row->name, (double)numbers->upstream.silent_ms / 1000);
}

static void own_tiers_above(struct text *text, const struct row *row, const struct tier_numbers *numbers)
{
    uint64_t n = 0;
    for (size_t i = 0; i < numbers->about.n_above; i++)
        n += about_is_tier(&numbers->about.above[i]);
    sample_u64(text, row->name, NULL, n);
}

static void own_tiers_below(struct text *text, const struct row *row, const struct tier_numbers *numbers)
{
    struct tree_below *below = tree_gather(numbers);
    if (below == NULL)
        text->err = BELFRY_ERR_NOMEM;
    else
        sample_u64(text, row->name, NULL, below->n);
    free(below);
}

/* What is only guessed is no measurement: no sample. */
static void own_hop(struct text *text, const struct row *row, const struct tier_numbers *numbers)
{
    if (numbers->upstream_answered && numbers->about.self.hop == ABOUT_HOP_MEASURED)
        sample_real(text, row->name, (double)numbers->about.self.hop_us / 1e6);
}

static void own_hop_error(struct text *text, const struct row *row, const struct tier_numbers *numbers)
{
    if (numbers->upstream_answered && numbers->about.self.hop == ABOUT_HOP_MEASURED)
        sample_real(text, row->name, (double)numbers->about.self.hop_error_us / 1e6);
}

static void own_disk_trouble(struct text *text, const struct row *row, const struct tier_numbers *numbers)
{
    sample_u64(text, row->name, NULL, numbers->upstream.disk_trouble);
}

/* Adds up, over the workers that answered, what one of these counts. */
static void sample_watchers(struct text *text, const struct row *row, const struct tier_numbers *numbers,
                            size_t (*count)(const struct worker_stats *core))
{
    uint64_t sum = 0;
    for (size_t i = 0; i < numbers->n_workers; i++)
        sum += numbers->workers[i].answered ? count(&numbers->workers[i].core) : 0;
    sample_u64(text, row->name, row->labels, sum);
}

/* Of all watchers, those who are neither of lines nor the tier's own. Who rides a stream that is parked has missed
 * something, or will: it is parked. */
static size_t count_synced(const struct worker_stats *core)
{
    return core->riding - core->riding_parked - core->lines.synced - core->inward.synced;
}

static size_t count_catching_up(const struct worker_stats *core)
{
    return core->waiting + core->boarded + core->solo - core->lines.catching_up - core->inward.catching_up;
}

static size_t count_parked(const struct worker_stats *core)
{
    return core->stalled + core->riding_parked - core->lines.parked - core->inward.parked;
}

static void own_synced(struct text *text, const struct row *row, const struct tier_numbers *numbers)
{
    sample_watchers(text, row, numbers, count_synced);
}

static void own_catching_up(struct text *text, const struct row *row, const struct tier_numbers *numbers)
{
    sample_watchers(text, row, numbers, count_catching_up);
}

static void own_parked(struct text *text, const struct row *row, const struct tier_numbers *numbers)
{
    sample_watchers(text, row, numbers, count_parked);
}

static void own_closed(struct text *text, const struct row *row, const struct tier_numbers *numbers)
{
    for (int why = 0; why < WATCH_CLOSES; why++) {
        char labels[96];
        uint64_t sum = 0;
        for (size_t i = 0; i < numbers->n_workers; i++)
            sum += numbers->workers[i].answered ? numbers->workers[i].watch.closed[why] : 0;
        snprintf(labels, sizeof(labels), "dialect=\"grpc\",reason=\"%s\"", watch_close_name((enum watch_close)why));
        sample_u64(text, row->name, labels, sum);
    }
}

static void own_workers_answering(struct text *text, const struct row *row, const struct tier_numbers *numbers)
{
    uint64_t n = 0;
    for (size_t i = 0; i < numbers->n_workers; i++)
        n += numbers->workers[i].answered;
    sample_u64(text, row->name, NULL, n);
}

static void own_longest_turn(struct text *text, const struct row *row, const struct tier_numbers *numbers)
{
    uint64_t longest = 0;
    for (size_t i = 0; i < numbers->n_workers; i++) {
        const struct worker_numbers *w = &numbers->workers[i];
        if (w->answered && w->longest_turn_us > longest)
            longest = w->longest_turn_us;
    }
    sample_real(text, row->name, (double)longest / 1e6);
}

static void own_position(struct text *text, const struct row *row, const struct tier_numbers *numbers)
{
    int64_t lowest = -1;
    for (size_t i = 0; i < numbers->n_workers; i++) {
        const struct worker_numbers *w = &numbers->workers[i];
        if (w->answered && (lowest < 0 || w->position < lowest))
            lowest = w->position;
    }
    sample_u64(text, row->name, NULL, lowest > 0 ? (uint64_t)lowest : 0);
}

static void own_latency(struct text *text, const struct row *row, const struct tier_numbers *numbers)
{
    struct latency sum = {0};
    for (size_t i = 0; i < numbers->n_workers; i++) {
        if (!numbers->workers[i].answered)
            continue;
        const struct latency *one = &numbers->workers[i].latency;
        for (size_t b = 0; b <= LATENCY_BUCKETS; b++)
            sum.buckets[b] += one->buckets[b];
        sum.sum_s += one->sum_s;
    }
    double bound = 0.0001;
    uint64_t below = 0; /* counted from the buckets: the last one and _count must agree */
    for (size_t b = 0; b < LATENCY_BUCKETS; b++, bound *= 2) {
        below += sum.buckets[b];
        text_say(text, "%s_bucket{le=\"%.9g\"} %" PRIu64 "\n", row->name, bound, below);
    }
    below += sum.buckets[LATENCY_BUCKETS];
    text_say(text, "%s_bucket{le=\"+Inf\"} %" PRIu64 "\n", row->name, below);
    text_say(text, "%s_sum %.9g\n%s_count %" PRIu64 "\n", row->name, sum.sum_s, row->name, below);
}

/* ---- the process ---- */

#define PROC_TEXT 2048

/* Reads a file of /proc/self into text, zero-ended; false: it cannot be read. */
static bool proc_read(const char *path, char text[PROC_TEXT])
{
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return false;
    size_t n = fread(text, 1, PROC_TEXT - 1, file);
    text[n] = '\0';
    fclose(file);
    return n > 0;
}

/* Field `number` of /proc/self/stat, counted as in proc(5); 0 when there is none. The name of the process, field 2, is
 * in brackets and may hold blanks. */
static uint64_t proc_stat(int number)
{
    char text[PROC_TEXT];
    const char *at = proc_read("/proc/self/stat", text) ? strrchr(text, ')') : NULL;
    for (int i = 2; at != NULL && i < number; i++) {
        at = strchr(at, ' ');
        at = at == NULL ? NULL : at + 1;
    }
    return at == NULL ? 0 : strtoull(at, NULL, 10);
}

static double ticks(uint64_t n)
{
    long each = sysconf(_SC_CLK_TCK);
    return each > 0 ? (double)n / (double)each : 0;
}

static void own_cpu(struct text *text, const struct row *row, const struct tier_numbers *numbers)
{
    (void)numbers;
    sample_real(text, row->name, ticks(proc_stat(14) + proc_stat(15)));
}

static void own_start_time(struct text *text, const struct row *row, const struct tier_numbers *numbers)
{
    (void)numbers;
    struct timespec boot, now;
    clock_gettime(CLOCK_BOOTTIME, &boot);
    clock_gettime(CLOCK_REALTIME, &now);
    double booted = (double)(now.tv_sec - boot.tv_sec) + (double)(now.tv_nsec - boot.tv_nsec) / 1e9;
    text_say(text, "%s %.2f\n", row->name, booted + ticks(proc_stat(22)));
}

static void own_resident(struct text *text, const struct row *row, const struct tier_numbers *numbers)
{
    (void)numbers;
    sample_u64(text, row->name, NULL, proc_stat(24) * (uint64_t)sysconf(_SC_PAGESIZE));
}

static void own_virtual(struct text *text, const struct row *row, const struct tier_numbers *numbers)
{
    (void)numbers;
    sample_u64(text, row->name, NULL, proc_stat(23));
}

static void own_threads(struct text *text, const struct row *row, const struct tier_numbers *numbers)
{
    (void)numbers;
    sample_u64(text, row->name, NULL, proc_stat(20));
}

/* The size of the table: counting a hundred thousand descriptors one by one would hold up the loop that answers /livez. It
 * doubles as it grows, and does not shrink. */
static void own_fd_table(struct text *text, const struct row *row, const struct tier_numbers *numbers)
{
    (void)numbers;
    char status[PROC_TEXT];
    const char *at = proc_read("/proc/self/status", status) ? strstr(status, "FDSize:") : NULL;
    sample_u64(text, row->name, NULL, at == NULL ? 0 : strtoull(at + strlen("FDSize:"), NULL, 10));
}

static void own_max_fds(struct text *text, const struct row *row, const struct tier_numbers *numbers)
{
    (void)numbers;
    long most = sysconf(_SC_OPEN_MAX);
    sample_u64(text, row->name, NULL, most > 0 ? (uint64_t)most : 0);
}

/* ---- the table ---- */

#define TIER(field)   offsetof(struct tier_numbers, field)
#define WORKER(field) offsetof(struct worker_numbers, field)

/* clang-format off */
static const struct row rows[] = {
    {"belfry_build_info", "Always 1; the version is its label.", GAUGE, NULL, OWN, 0, own_build_info},
    {"belfry_draining",
     "1 while the tier drains: it is not ready, its clients are asked to leave one by one, and new ones are served until the end.",
     GAUGE, NULL, OWN, 0, own_draining},

    {"belfry_upstream_up",
     "1 while the tier follows upstream and is not stale.", GAUGE, NULL, OWN, 0, own_upstream_up},
    {"belfry_upstream_state", "1 for what the follower does now.", GAUGE, NULL, OWN, 0, own_upstream_state},
    {"belfry_upstream_revision",
     "The highest revision that upstream has shown.", GAUGE, NULL, TIER_REV, TIER(upstream.upstream_revision), NULL},
    {"belfry_upstream_lag_revisions",
     "How many revisions the tier is behind upstream.", GAUGE, NULL, OWN, 0, own_lag_revisions},
    {"belfry_upstream_lag_revisions_peak",
     "The most revisions that the tier was behind upstream since its start.",
     GAUGE, NULL, TIER_U64, TIER(upstream.lag_peak), NULL},
    {"belfry_upstream_lag_seconds",
     "Time since upstream last gave a sign that the tier is up to date; it is behind by no more than this. "
     "+Inf: there was none yet.",
     GAUGE, NULL, OWN, 0, own_lag_seconds},
    {"belfry_tiers_above",
     "Tiers between this one and etcd.", GAUGE, NULL, OWN, 0, own_tiers_above},
    {"belfry_tiers_below",
     "Tiers that watch here now.", GAUGE, NULL, OWN, 0, own_tiers_below},
    {"belfry_hop_latency_seconds",
     "Time from publishing a revision in the tier above to publishing it here: the median of the newest ones. "
     "Measured; absent while it is not, and below etcd, which does not tell.",
     GAUGE, NULL, OWN, 0, own_hop},
    {"belfry_hop_error_seconds",
     "The most that belfry_hop_latency_seconds can be wrong by.", GAUGE, NULL, OWN, 0, own_hop_error},
    {"belfry_upstream_connects_total",
     "Connections made to upstream by the follower.", COUNTER, NULL, TIER_U64, TIER(upstream.connects), NULL},
    {"belfry_upstream_losses_total",
     "Connections to upstream that the follower lost.", COUNTER, NULL, TIER_U64, TIER(upstream.losses), NULL},
    {"belfry_upstream_revisions_total",
     "Revisions taken from upstream.", COUNTER, NULL, TIER_U64, TIER(upstream.stats.revisions), NULL},
    {"belfry_upstream_events_total",
     "Events taken from upstream.", COUNTER, NULL, TIER_U64, TIER(upstream.stats.events), NULL},
    {"belfry_upstream_stale_total",
     "Times that upstream fell silent and the tier became stale.",
     COUNTER, NULL, TIER_U64, TIER(upstream.stats.stale), NULL},
    {"belfry_upstream_gaps_total",
     "Gaps of the clock: the process or the machine was stopped.",
     COUNTER, NULL, TIER_U64, TIER(upstream.stats.gaps), NULL},
    {"belfry_upstream_replays_total",
     "Times that the tier was so far behind that it replayed upstream's history in parallel windows.",
     COUNTER, NULL, TIER_U64, TIER(upstream.stats.replays), NULL},
    {"belfry_upstream_breaches_total",
     "Events that did not fit the state they replace: the replica had diverged, and was listed anew.",
     COUNTER, NULL, TIER_U64, TIER(upstream.stats.breaches), NULL},
    {"belfry_upstream_relists_total",
     "Listings that replaced a replica, by what made it useless.",
     COUNTER, "reason=\"compacted\"", TIER_U64, TIER(upstream.stats.relists_compacted), NULL},
    {"belfry_upstream_relists_total",
     NULL, COUNTER, "reason=\"rewritten\"", TIER_U64, TIER(upstream.stats.relists_rewritten), NULL},
    {"belfry_upstream_relists_total",
     NULL, COUNTER, "reason=\"damaged\"", TIER_U64, TIER(upstream.stats.relists_damaged), NULL},
    {"belfry_upstream_fallbacks_total",
     "Reads of upstream beside the one watch: history for watchers older than the window, relayed calls, listings.",
     COUNTER, "reason=\"backfill\"", TIER_U64, TIER(upstream.backfills_done), NULL},
    {"belfry_upstream_fallbacks_total", NULL, COUNTER, "reason=\"relay\"", WORKERS_U64, WORKER(relay.relayed), NULL},
    {"belfry_upstream_fallbacks_total",
     NULL, COUNTER, "reason=\"list\"", TIER_U64, TIER(upstream.stats.listings), NULL},
    {"belfry_backfills", "Backfills under way.", GAUGE, NULL, TIER_SIZE, TIER(upstream.backfills), NULL},
    {"belfry_backfill_revisions_total",
     "Revisions read from upstream by backfills.", COUNTER, NULL, TIER_U64, TIER(upstream.backfill_revisions), NULL},

    {"belfry_revision",
     "The newest revision published to watchers.", GAUGE, NULL, TIER_REV, TIER(upstream.revision), NULL},
    {"belfry_position_revision",
     "The revision that every worker has handed to all its synced watchers.", GAUGE, NULL, OWN, 0, own_position},
    {"belfry_replica_revision",
     "The newest revision committed to the replica.", GAUGE, NULL, TIER_REV, TIER(upstream.committed), NULL},
    {"belfry_replica_keys", "Keys in the replica.", GAUGE, NULL, TIER_U64, TIER(replica.state_rows), NULL},
    {"belfry_replica_used_bytes",
     "Disk space that the replica uses.", GAUGE, NULL, TIER_SIZE, TIER(replica.used_bytes), NULL},
    {"belfry_replica_map_bytes",
     "The most that the replica could use.", GAUGE, NULL, TIER_SIZE, TIER(replica.map_bytes), NULL},
    {"belfry_replica_commits_total", "Commits to the replica.", COUNTER, NULL, TIER_U64, TIER(replica.commits), NULL},
    {"belfry_replica_io_errors_total",
     "Reads and writes of the replica that failed (disk full or broken).",
     COUNTER, NULL, TIER_U64, TIER(replica.io_errors), NULL},
    {"belfry_replica_damages_total",
     "Damage found in the replica, at start or in a row that was read; each is answered by a listing.",
     COUNTER, NULL, TIER_U64, TIER(replica.damages), NULL},
    {"belfry_replica_disk_trouble",
     "1 while the replica cannot be written; watchers are served from memory.",
     GAUGE, NULL, OWN, 0, own_disk_trouble},
    {"belfry_history_events",
     "Events of history in the replica.", GAUGE, NULL, TIER_U64, TIER(replica.history_rows), NULL},
    {"belfry_history_bytes", "History in the replica.", GAUGE, NULL, TIER_SIZE, TIER(replica.history_bytes), NULL},
    {"belfry_history_oldest_revision",
     "The oldest revision that can be served without asking upstream; 0: none.",
     GAUGE, NULL, TIER_REV, TIER(history_oldest), NULL},
    {"belfry_history_newest_revision",
     "The newest revision in history; 0: none.", GAUGE, NULL, TIER_REV, TIER(history_newest), NULL},
    {"belfry_history_trimmed_total",
     "Events of history dropped for space or age.", COUNTER, NULL, TIER_U64, TIER(replica.trimmed), NULL},
    {"belfry_history_reads_total",
     "Reads of history for watchers that are behind the log.", COUNTER, NULL, TIER_U64, TIER(reads), NULL},
    {"belfry_history_reads_shared_total",
     "Reads of history answered by another's read.", COUNTER, NULL, TIER_U64, TIER(reads_shared), NULL},
    {"belfry_history_reads_shelved_total",
     "Reads of history answered with what was backfilled for somebody else.",
     COUNTER, NULL, TIER_U64, TIER(reads_shelved), NULL},
    {"belfry_history_shelf_bytes",
     "Backfilled history that is kept in memory for others who want it.",
     GAUGE, NULL, TIER_SIZE, TIER(shelf_bytes), NULL},
    {"belfry_log_bytes", "The log: the newest revisions, in memory.", GAUGE, NULL, TIER_SIZE, TIER(log_bytes), NULL},
    {"belfry_log_oldest_revision",
     "The oldest revision in the log; 0: none.", GAUGE, NULL, TIER_REV, TIER(log_oldest), NULL},
    {"belfry_log_newest_revision",
     "The newest revision in the log; 0: none.", GAUGE, NULL, TIER_REV, TIER(log_newest), NULL},

    {"belfry_watchers",
     "Watchers, by the dialect of their stream and how they stand.",
     GAUGE, "dialect=\"grpc\",state=\"synced\"", OWN, 0, own_synced},
    {"belfry_watchers", NULL, GAUGE, "dialect=\"grpc\",state=\"catching up\"", OWN, 0, own_catching_up},
    {"belfry_watchers", NULL, GAUGE, "dialect=\"grpc\",state=\"parked\"", OWN, 0, own_parked},
    {"belfry_watchers", NULL, GAUGE, "dialect=\"kube\",state=\"synced\"", WORKERS_SIZE, WORKER(core.lines.synced), NULL},
    {"belfry_watchers", NULL, GAUGE, "dialect=\"kube\",state=\"catching up\"", WORKERS_SIZE,
     WORKER(core.lines.catching_up), NULL},
    {"belfry_watchers", NULL, GAUGE, "dialect=\"kube\",state=\"parked\"", WORKERS_SIZE, WORKER(core.lines.parked), NULL},
    {"belfry_ranges",
     "Different ranges that are watched, added up over workers.",
     GAUGE, NULL, WORKERS_SIZE, WORKER(core.nodes), NULL},
    {"belfry_streams",
     "Streams that carry watchers.", GAUGE, "dialect=\"grpc\"", WORKERS_SIZE, WORKER(watch.streams), NULL},
    {"belfry_streams", NULL, GAUGE, "dialect=\"kube\"", WORKERS_SIZE, WORKER(kube.watches), NULL},
    {"belfry_streams_parked",
     "Streams whose socket takes nothing while there is something for them.",
     GAUGE, NULL, WORKERS_SIZE, WORKER(core.parked), NULL},
    {"belfry_streams_parked_peak",
     "The most streams that were parked at one time since the start; of each worker, added up.",
     GAUGE, NULL, WORKERS_SIZE, WORKER(core.parked_peak), NULL},
    {"belfry_streams_asking",
     "Streams that wait for upstream to say whether they may watch.",
     GAUGE, NULL, WORKERS_SIZE, WORKER(watch.asking), NULL},
    {"belfry_streams_opened_total",
     "Streams opened.", COUNTER, "dialect=\"grpc\"", WORKERS_U64, WORKER(watch.opened), NULL},
    {"belfry_streams_opened_total", NULL, COUNTER, "dialect=\"kube\"", WORKERS_U64, WORKER(kube.opened), NULL},
    {"belfry_streams_closed_total", "Streams closed, by reason.", COUNTER, NULL, OWN, 0, own_closed},
    {"belfry_parks_total", "Times that a stream was parked.", COUNTER, NULL, WORKERS_U64, WORKER(core.parks), NULL},
    {"belfry_unparks_total",
     "Times that a parked stream went on.", COUNTER, NULL, WORKERS_U64, WORKER(core.unparks), NULL},
    {"belfry_watch_requests_total",
     "Requests on watch streams.", COUNTER, "dialect=\"grpc\"", WORKERS_U64, WORKER(watch.requests), NULL},
    {"belfry_watch_creates_total",
     "Requests to create a watcher.", COUNTER, "dialect=\"grpc\"", WORKERS_U64, WORKER(watch.creates), NULL},
    {"belfry_watch_cancels_total",
     "Requests to cancel a watcher.", COUNTER, "dialect=\"grpc\"", WORKERS_U64, WORKER(watch.cancels), NULL},
    {"belfry_watch_progress_requests_total",
     "Requests for progress.", COUNTER, "dialect=\"grpc\"", WORKERS_U64, WORKER(watch.progress), NULL},
    {"belfry_rejected_total",
     "What was refused, by cause.", COUNTER, "reason=\"permission\"", WORKERS_U64, WORKER(watch.refused), NULL},
    {"belfry_rejected_total", NULL, COUNTER, "reason=\"relay\"", WORKERS_U64, WORKER(relay.refused), NULL},
    {"belfry_rejected_total", NULL, COUNTER, "reason=\"flood\"", WORKERS_U64, WORKER(inbound.refused_floods), NULL},
    {"belfry_rejected_total",
     NULL, COUNTER, "reason=\"stream_memory\"", WORKERS_U64, WORKER(inbound.refused_streams), NULL},
    {"belfry_rejected_total",
     NULL, COUNTER, "reason=\"connection_memory\"", WORKERS_U64, WORKER(inbound.refused_connections), NULL},
    {"belfry_rejected_total",
     NULL, COUNTER, "reason=\"relay_memory\"", WORKERS_U64, WORKER(relay.over_memory), NULL},
    {"belfry_rejected_total",
     NULL, COUNTER, "reason=\"unfinished_largest\"", WORKERS_U64, WORKER(inbound.ended_largest), NULL},
    {"belfry_rejected_total",
     NULL, COUNTER, "reason=\"unfinished_head\"", WORKERS_U64, WORKER(inbound.ended_late), NULL},
    {"belfry_rejected_total", NULL, COUNTER, "reason=\"unfinished_call\"", WORKERS_U64, WORKER(relay.late), NULL},
    {"belfry_rejected_total",
     NULL, COUNTER, "reason=\"unfinished_watch\"", WORKERS_U64, WORKER(watch.closed[WATCH_CLOSE_LATE]), NULL},
    {"belfry_rejected_total", NULL, COUNTER, "reason=\"host\"", WORKERS_U64, WORKER(route.refused_hosts), NULL},
    {"belfry_rejected_total",
     NULL, COUNTER, "reason=\"grpc_over_http1\"", WORKERS_U64, WORKER(route.refused_http1), NULL},
    {"belfry_rejected_total", NULL, COUNTER, "reason=\"descriptors\"", TIER_U64, TIER(listeners.refused), NULL},

    {"belfry_kube_held",
     "Requests for objects that wait for the tier to become ready.",
     GAUGE, NULL, WORKERS_SIZE, WORKER(kube.held), NULL},
    {"belfry_kube_lines_total",
     "Lines about changes given to watches of objects.", COUNTER, NULL, WORKERS_U64, WORKER(kube.lines), NULL},
    {"belfry_kube_bookmarks_total",
     "Bookmarks given to them.", COUNTER, NULL, WORKERS_U64, WORKER(kube.bookmarks), NULL},
    {"belfry_kube_expired_total",
     "Watches and lists told that their resource version is too old.",
     COUNTER, "verb=\"watch\"", WORKERS_U64, WORKER(kube.expired), NULL},
    {"belfry_kube_expired_total", NULL, COUNTER, "verb=\"list\"", WORKERS_U64, WORKER(kube_lists.expired), NULL},
    {"belfry_kube_refused_total",
     "Requests for objects that were refused, by cause.",
     COUNTER, "reason=\"permission\"", WORKERS_U64, WORKER(kube.refused), NULL},
    {"belfry_kube_refused_total", NULL, COUNTER, "reason=\"busy\"", WORKERS_U64, WORKER(kube.too_many), NULL},
    {"belfry_kube_slow_total",
     "Watches cut off inside a line that nobody took while memory was over the limit.",
     COUNTER, NULL, WORKERS_U64, WORKER(kube.slow), NULL},
    {"belfry_kube_undecodable_total",
     "Values that are no objects, and were taken for absent.",
     COUNTER, "verb=\"watch\"", WORKERS_U64, WORKER(kube.undecodable), NULL},
    {"belfry_kube_undecodable_total",
     NULL, COUNTER, "verb=\"list\"", WORKERS_U64, WORKER(kube_lists.undecodable), NULL},
    {"belfry_kube_skipped_total",
     "Keys under a resource's prefix that are no object's.",
     COUNTER, "verb=\"watch\"", WORKERS_U64, WORKER(kube.skipped), NULL},
    {"belfry_kube_skipped_total", NULL, COUNTER, "verb=\"list\"", WORKERS_U64, WORKER(kube_lists.skipped), NULL},
    {"belfry_kube_decoded_total",
     "Changes of objects that were decoded for watches.", COUNTER, NULL, WORKERS_U64, WORKER(kube.forms_made), NULL},
    {"belfry_kube_shared_total",
     "Times that a change which had been decoded was looked at again.",
     COUNTER, NULL, WORKERS_U64, WORKER(kube.forms_shared), NULL},
    {"belfry_kube_lists",
     "Lists and first states of watches under way.",
     GAUGE, "state=\"active\"", WORKERS_SIZE, WORKER(kube_lists.active), NULL},
    {"belfry_kube_lists", NULL, GAUGE, "state=\"waiting\"", WORKERS_SIZE, WORKER(kube_lists.waiting), NULL},
    {"belfry_kube_reads_total",
     "Reads of objects answered; what a watch begins with is a list.",
     COUNTER, "verb=\"list\"", WORKERS_U64, WORKER(kube_lists.lists), NULL},
    {"belfry_kube_reads_total", NULL, COUNTER, "verb=\"get\"", WORKERS_U64, WORKER(kube_lists.gets), NULL},
    {"belfry_kube_objects_total",
     "Objects in those answers.", COUNTER, NULL, WORKERS_U64, WORKER(kube_lists.objects), NULL},
    {"belfry_kube_read_bytes_total",
     "Bytes of those answers.", COUNTER, NULL, WORKERS_U64, WORKER(kube_lists.bytes), NULL},
    {"belfry_kube_timeouts_total",
     "Reads that waited too long for a revision that the tier did not have.",
     COUNTER, NULL, WORKERS_U64, WORKER(kube_lists.timeouts), NULL},
    {"belfry_fence_asked_total",
     "Reads that had to know where upstream is.", COUNTER, NULL, WORKERS_U64, WORKER(fence.asked), NULL},
    {"belfry_fence_questions_total",
     "What that cost: questions asked upstream.", COUNTER, NULL, WORKERS_U64, WORKER(fence.questions), NULL},
    {"belfry_fence_failed_total",
     "Reads that were not told.", COUNTER, NULL, WORKERS_U64, WORKER(fence.failed), NULL},

    {"belfry_batches_total",
     "Revisions handed out, counted by each worker.", COUNTER, NULL, WORKERS_U64, WORKER(core.batches), NULL},
    {"belfry_deliveries_total",
     "Responses with events given to watchers.", COUNTER, NULL, WORKERS_U64, WORKER(core.deliveries), NULL},
    {"belfry_delivered_bytes_total",
     "Bytes of responses given to streams.", COUNTER, NULL, WORKERS_U64, WORKER(core.written), NULL},
    {"belfry_delivery_latency_seconds",
     "From publishing a revision until it was handed to the sockets of all who are synced.",
     HISTOGRAM, NULL, OWN, 0, own_latency},
    {"belfry_progress_total", "Progress told to watchers.", COUNTER, NULL, WORKERS_U64, WORKER(core.progress), NULL},
    {"belfry_compacted_total",
     "Watchers told that what they need is compacted.", COUNTER, NULL, WORKERS_U64, WORKER(core.compacted), NULL},
    {"belfry_catch_ups_total",
     "Watchers that caught up and became synced.", COUNTER, NULL, WORKERS_U64, WORKER(core.handovers), NULL},
    {"belfry_catch_up_events_total",
     "Events looked at for those who catch up.", COUNTER, NULL, WORKERS_U64, WORKER(core.rows_swept), NULL},
    {"belfry_overslept_total",
     "Times that a worker fell out of the log and went on from history.",
     COUNTER, NULL, WORKERS_U64, WORKER(core.overslept), NULL},

    {"belfry_connections", "Connections of clients.", GAUGE, NULL, WORKERS_SIZE, WORKER(inbound.connections), NULL},
    {"belfry_connections_http2", "Those that speak HTTP/2.", GAUGE, NULL, WORKERS_SIZE, WORKER(inbound.http2), NULL},
    {"belfry_connections_tls", "Those that use TLS.", GAUGE, NULL, WORKERS_SIZE, WORKER(inbound.tls), NULL},
    {"belfry_connections_accepted_total",
     "Connections accepted.", COUNTER, NULL, WORKERS_U64, WORKER(inbound.accepted), NULL},
    {"belfry_connections_closed_total",
     "Connections closed.", COUNTER, NULL, WORKERS_U64, WORKER(inbound.closed), NULL},
    {"belfry_connections_dead_total",
     "Connections ended because the peer's machine acknowledged nothing any more.",
     COUNTER, NULL, WORKERS_U64, WORKER(inbound.dead), NULL},
    {"belfry_received_bytes_total",
     "Bytes read from clients.", COUNTER, NULL, WORKERS_U64, WORKER(inbound.bytes_in), NULL},
    {"belfry_sent_bytes_total",
     "Bytes written to clients.", COUNTER, NULL, WORKERS_U64, WORKER(inbound.bytes_out), NULL},
    {"belfry_writes_total",
     "Writes to sockets of clients.", COUNTER, NULL, WORKERS_U64, WORKER(inbound.writes), NULL},

    {"belfry_relays", "Relayed calls under way.", GAUGE, NULL, WORKERS_SIZE, WORKER(relay.running), NULL},
    {"belfry_relays_failed_total",
     "Relayed calls that upstream did not answer.", COUNTER, NULL, WORKERS_U64, WORKER(relay.failed), NULL},
    {"belfry_relayed_up_bytes_total",
     "Bytes relayed to upstream.", COUNTER, NULL, WORKERS_U64, WORKER(relay.bytes_up), NULL},
    {"belfry_relayed_down_bytes_total",
     "Bytes relayed from upstream.", COUNTER, NULL, WORKERS_U64, WORKER(relay.bytes_down), NULL},
    {"belfry_uplink_connections",
     "Connections to upstream for relayed calls.", GAUGE, NULL, WORKERS_SIZE, WORKER(uplink.connections), NULL},
    {"belfry_uplink_connects_total",
     "Connections made to upstream for relayed calls.", COUNTER, NULL, WORKERS_U64, WORKER(uplink.connects), NULL},
    {"belfry_uplink_losses_total",
     "Such connections that were lost.", COUNTER, NULL, WORKERS_U64, WORKER(uplink.losses), NULL},
    {"belfry_permissions_asked_total",
     "Questions to upstream whether a client may watch a range.",
     COUNTER, NULL, WORKERS_U64, WORKER(permit.asked), NULL},
    {"belfry_permissions_unavailable_total",
     "Such questions that upstream did not answer.", COUNTER, NULL, WORKERS_U64, WORKER(permit.unavailable), NULL},

    {"belfry_workers", "Worker threads.", GAUGE, NULL, TIER_SIZE, TIER(n_workers), NULL},
    {"belfry_workers_answering",
     "Worker threads that answered in time; what the others count is missing here.",
     GAUGE, NULL, OWN, 0, own_workers_answering},
    {"belfry_worker_turns_total", "Turns of the workers' loops.", COUNTER, NULL, WORKERS_U64, WORKER(turns), NULL},
    {"belfry_worker_longest_turn_seconds",
     "The longest turn of a worker since the last time it was asked.", GAUGE, NULL, OWN, 0, own_longest_turn},
    {"belfry_memory_bytes",
     "Accounted memory, by what it is for. kernel: send buffers of sockets that hold something.",
     GAUGE, "pool=\"watchers\"", WORKERS_SIZE, WORKER(core.bytes), NULL},
    {"belfry_memory_bytes", NULL, GAUGE, "pool=\"log\"", TIER_SIZE, TIER(log_bytes), NULL},
    {"belfry_memory_bytes", NULL, GAUGE, "pool=\"connections\"", WORKERS_SIZE, WORKER(inbound.bytes), NULL},
    {"belfry_memory_bytes", NULL, GAUGE, "pool=\"requests\"", WORKERS_SIZE, WORKER(watch.held_bytes), NULL},
    {"belfry_memory_bytes", NULL, GAUGE, "pool=\"relay\"", WORKERS_SIZE, WORKER(relay.held_bytes), NULL},
    {"belfry_memory_bytes", NULL, GAUGE, "pool=\"kube_watches\"", WORKERS_SIZE, WORKER(kube.bytes), NULL},
    {"belfry_memory_bytes", NULL, GAUGE, "pool=\"kube_forms\"", WORKERS_SIZE, WORKER(kube.forms_bytes), NULL},
    {"belfry_memory_bytes", NULL, GAUGE, "pool=\"kernel\"", WORKERS_SIZE, WORKER(inbound.kernel_bytes), NULL},
    {"belfry_memory_peak_bytes",
     "The most accounted memory at one time since the start, of each worker, added up. pinned: by messages that are half "
     "sent; requests, relay: held of what clients send.",
     GAUGE, "pool=\"pinned\"", WORKERS_SIZE, WORKER(core.rest_bytes_peak), NULL},
    {"belfry_memory_peak_bytes", NULL, GAUGE, "pool=\"requests\"", WORKERS_SIZE, WORKER(watch.held_peak), NULL},
    {"belfry_memory_peak_bytes", NULL, GAUGE, "pool=\"relay\"", WORKERS_SIZE, WORKER(relay.held_peak), NULL},
    {"belfry_memory_limit_bytes",
     "Above this new streams and watchers are refused; 0: no limit.", GAUGE, NULL, TIER_SIZE, TIER(memory_max), NULL},

    {"process_cpu_seconds_total", "Time of user and system spent.", COUNTER, NULL, OWN, 0, own_cpu},
    {"process_resident_memory_bytes",
     "Resident memory, the replica's pages included.", GAUGE, NULL, OWN, 0, own_resident},
    {"process_virtual_memory_bytes", "Virtual memory.", GAUGE, NULL, OWN, 0, own_virtual},
    {"process_start_time_seconds", "When the process started, since the epoch.", GAUGE, NULL, OWN, 0, own_start_time},
    {"process_threads", "Threads.", GAUGE, NULL, OWN, 0, own_threads},
    {"process_fd_table_size",
     "Size of the table of descriptors: at most twice the most that were ever open.", GAUGE, NULL, OWN, 0, own_fd_table},
    {"process_max_fds", "The most descriptors that may be open.", GAUGE, NULL, OWN, 0, own_max_fds},
};
/* clang-format on */
#define N_ROWS (sizeof(rows) / sizeof(rows[0]))

static uint64_t number_at(const void *base, const struct row *row)
{
    const char *at = (const char *)base + row->offset;
    uint64_t wide;
    size_t size;
    int64_t rev;
    switch (row->source) {
    case TIER_U64:
    case WORKERS_U64:
        memcpy(&wide, at, sizeof(wide));
        return wide;
    case TIER_SIZE:
    case WORKERS_SIZE:
        memcpy(&size, at, sizeof(size));
        return size;
    case TIER_REV:
        memcpy(&rev, at, sizeof(rev));
        return rev > 0 ? (uint64_t)rev : 0;
    case OWN:
        break;
    }
    return 0;
}

static uint64_t value_of(const struct row *row, const struct tier_numbers *numbers)
{
    if (row->source != WORKERS_U64 && row->source != WORKERS_SIZE)
        return number_at(numbers, row);
    uint64_t sum = 0;
    for (size_t i = 0; i < numbers->n_workers; i++)
        sum += numbers->workers[i].answered ? number_at(&numbers->workers[i], row) : 0;
    return sum;
}

enum belfry_err metrics_write(const struct tier_numbers *numbers, struct belfry_buf *out)
{
    struct text text = {.buf = out};
    for (const struct row *row = rows; row < rows + N_ROWS; row++) {
        if (row->help != NULL)
            text_say(&text, "# HELP %s %s\n# TYPE %s %s\n", row->name, row->help, row->name, kind_names[row->kind]);
        if (row->own != NULL)
            row->own(&text, row, numbers);
        else
            sample_u64(&text, row->name, row->labels, value_of(row, numbers));
    }
    return text.err;
}

/* ---- for docs/metrics.md ---- */

static void describe_labels(struct text *text, const struct row *row)
{
    static const struct {
        void (*own)(struct text *text, const struct row *row, const struct tier_numbers *numbers);
        const char *labels;
    } owns[] = {{own_build_info, "version"},
                {own_upstream_state, "state: start, joining, replaying, listing, live"},
                {own_latency, "le"}};
    for (size_t i = 0; i < sizeof(owns) / sizeof(owns[0]); i++) {
        if (row->own == owns[i].own)
            text_say(text, "%s", owns[i].labels);
    }
    if (row->own == own_closed) {
        text_say(text, "dialect: grpc; reason: ");
        for (int why = 0; why < WATCH_CLOSES; why++)
            text_say(text, "%s%s", why > 0 ? ", " : "", watch_close_name((enum watch_close)why));
    }
    for (const struct row *at = row; at < rows + N_ROWS && (at == row || at->help == NULL); at++) {
        if (at->labels != NULL)
            text_say(text, "%s`%s`", at > row ? ", " : "", at->labels);
    }
}

enum belfry_err metrics_describe(struct belfry_buf *out)
{
    struct text text = {.buf = out};
    text_say(
        &text,
        "# Metrics\n\n"
        "What `/metrics` on the admin address says (default `http://127.0.0.1:23791`), in Prometheus' text form.\n"
        "Made from the table in `src/serve/admin/metrics.c` by `tools/metrics-doc`: change that, not this.\n\n"
        "There are no labels for keys, ranges or clients: `belfryctl top` and `/debug/watchers` are for those. A\n"
        "worker that does not answer within two seconds is left out of the sums, and `belfry_workers_answering` is\n"
        "then below `belfry_workers`. There is no cache of encoded events to count hits of: the bytes that came from\n"
        "upstream are the bytes that go out.\n\n"
        "| name | type | labels | meaning |\n|---|---|---|---|\n");
    for (const struct row *row = rows; row < rows + N_ROWS; row++) {
        if (row->help == NULL)
            continue;
        text_say(&text, "| `%s` | %s | ", row->name, kind_names[row->kind]);
        describe_labels(&text, row);
        text_say(&text, " | %s |\n", row->help);
    }
    return text.err;
}
