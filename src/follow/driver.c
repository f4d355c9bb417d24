/* src/follow/driver.c
 *
 * libuv runs timers, then what we do in `prepare`, then it polls: so a turn of ours is poll, timers, prepare. Whatever
 * happens anywhere on the loop is followed by a prepare before the loop blocks, so no caller has to wake the driver.
 */
#include "follow/driver.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/owner.h"
#include "base/rng.h"
#include "client/stream.h"
#include "follow/above.h"
#include "follow/backfill.h"
#include "follow/circle.h"
#include "follow/follow_log.h"
#include "follow/reads.h"
#include "follow/watches.h"
#include "judge/etcd_version.h"
#include "net/dns.h"

#define DIAL_MS            2000
#define COMMAND_MS         5000
#define KEEPALIVE_MS       10000 /* etcd ends connections that ping faster */
#define KEEPALIVE_WAIT_MS  5000
#define MAX_MESSAGE_BYTES  ((size_t)256 * 1024 * 1024)
#define MAX_REVISION_BYTES ((size_t)1024 * 1024 * 1024)
#define PROGRESS_GAP_MS    1   /* what asks for it is patient, or has waiting reads */
#define PROGRESS_WAIT_MS   100 /* an etcd whose watches are not synced does not answer */
#define TRIM_ROWS          1000
#define REFUSALS           1024    /* answers that fit even when memory is short */
#define ACTIONS_MAX        10000   /* in one turn: the rest waits for the next one */
#define WHY_BYTES          240     /* of a reason, without what we put before it */
#define WARNED             8       /* versions whose warning is remembered */
#define LOST               "lost " /* as the stream reports it; the URL follows */
#define NO_LEADER          "etcdserver: no leader"

/* A request for history that could not even be queued; it is answered in the next turn. */
struct refusal {
    uint64_t token;
    enum belfry_err err;
};

/* What is wrong, in words for people; "": nothing. */
struct reasons {
    char version[WHY_BYTES]; /* the server of the live stream is too old for our scope */
    char log_in[WHY_BYTES];  /* logging in failed */
    char watch[WHY_BYTES];   /* the live watch or a read was refused */
    bool is_denied;          /* for want of a right */
    char link[WHY_BYTES];    /* why the last connection of the live stream was lost */
    char list[WHY_BYTES];    /* why the machine lists */
};

struct driver {
    /* fixed at creation */
    uv_loop_t *loop;
    struct driver_events events;
    void *user;
    const struct belfry_log *log;
    struct belfry_log parts_log, machine_log; /* for our parts: translates their lines, or logs them as debug */
    struct belfry_endpoint *endpoints;        /* owned; those given, beginning with number first_endpoint */
    size_t n_endpoints, first_endpoint;
    char *scope; /* owned; key and range_end lie in it */
    struct belfry_bytes key, range_end;
    bool whole_scope;
    const char *name; /* of the tier; "": none */
    uint32_t dial_timeout_ms, command_timeout_ms;
    struct store *store;
    struct term *term;
    /* the machines */
    struct ingest *ingest;
    struct upstream *upstream;
    struct backfill *backfill;
    /* libbelfry's parts */
    struct belfry_rng rng;
    struct belfry_dns *dns;
    struct belfry_auth auth;
    struct belfry_cluster_identity identity;
    struct belfry_calls *calls;
    struct belfry_stream *live, *back;
    /* our parts */
    struct watches watches;
    struct reads reads;
    struct above above;
    struct readpoint point;
    struct circle circle;
    struct follow_log said;
    /* the loop */
    uv_timer_t timer;
    uv_prepare_t prepare;
    uv_check_t check;
    unsigned n_handles; /* that are not closed */
    bool polled;        /* the sockets were read since the last turn */
    bool poked;         /* there is work that no timer announces */
    /* the server of the live stream */
    char warned[WARNED][32]; /* versions that were logged */
    unsigned n_warned;
    /* backfills */
    struct belfry_buf refusals; /* of struct refusal, not answered yet */
    size_t backfills;
    uint64_t backfills_done, backfill_revisions;
    uint64_t cut_past; /* backfill knows of */
    uint64_t rewrites; /* upstream_stats.rewrites that the term knows of */
    /* what workers know */
    int64_t told_head;
    uint64_t told_past, told_term;
    enum driver_standing told_standing;
    uint64_t told_barred;
    bool told_trouble; /* with the disk */
    char told_reason[256], told_version[32];
    enum etcd_keys_only told_keys_only;
    /* how it stands */
    enum driver_standing standing;
    bool been_ready; /* since the start */
    bool deaf;       /* upstream is not read, because nothing more can be held; or was not a moment ago */
    uint64_t hear_until_ms;
    int64_t upstream_revision; /* the highest that upstream has shown, of shown_past */
    uint64_t shown_past;
    uint64_t lag_peak;
    uint64_t heard_ms; /* when we last knew that we were up to date; BELFRY_NEVER: not yet */
    struct reasons why;
    BELFRY_OWNER;
};

/* A server has shown this revision and this term. A replica that is empty serves no watcher, so it does not lag. */
static void driver_saw(struct driver *driver, const struct belfry_wire_header *header)
{
    uint64_t past = ingest_past(driver->ingest);
    term_hear(driver->term, header);
    if (driver->shown_past != past || header->revision > driver->upstream_revision)
        driver->upstream_revision = header->revision;
    driver->shown_past = past;
    int64_t head = ingest_head(driver->ingest), lag = driver->upstream_revision - head;
    if (head > 0 && lag > 0 && (uint64_t)lag > driver->lag_peak)
        driver->lag_peak = (uint64_t)lag;
}

static void driver_log_denied(struct driver *driver, const char *why)
{
    follow_log_denied(&driver->said, why, driver->auth.user, driver->whole_scope ? belfry_bytes_str("") : driver->key);
}

/* ---- endpoints that lead back to us ---- */

/* An endpoint was barred. */
static void driver_note_barred(struct driver *driver)
{
    for (size_t i = 0; i < driver->n_endpoints; i++)
        if (driver->circle.barred[i])
            driver->identity.barred |= belfry_cluster_identity_bit(i);
    driver->poked = true;
}

static void driver_mind_refusal(struct driver *driver, const char *endpoint, const char *why)
{
    if (circle_refused(&driver->circle, endpoint, why))
        driver_note_barred(driver);
}

/* Leaves endpoints that were barred. Not from a callback of a stream or link. */
static void driver_leave_barred(struct driver *driver)
{
    static const char why[] = "tiers in a circle, or too many in a row";
    const bool *barred = driver->circle.barred;
    struct belfry_stream *streams[] = {driver->live, driver->back};
    for (size_t i = 0; i < 2; i++) {
        struct belfry_pool *link = belfry_stream_link(streams[i]);
        if (!barred[belfry_pool_at(link)] || belfry_pool_conn(link) == NULL)
            continue;
        belfry_stream_leave(streams[i], BELFRY_ERR_REFUSED, why);
        belfry_pool_leave(link, BELFRY_ERR_REFUSED, why); /* when no stream was open on it */
    }
    struct belfry_pool *calls = belfry_calls_link(driver->calls);
    if (barred[belfry_pool_at(calls)])
        belfry_pool_leave(calls, BELFRY_ERR_REFUSED, why);
}

/* As in driver_status: a bit per endpoint, in the order in which they were given. */
static uint64_t driver_barred(const struct driver *driver)
{
    uint64_t mask = 0;
    for (size_t i = 0; i < driver->n_endpoints; i++) {
        size_t given = (driver->first_endpoint + i) % driver->n_endpoints;
        if (driver->circle.barred[i] && given < 64)
            mask |= UINT64_C(1) << given;
    }
    return mask;
}

/* ---- the server above ---- */

static void driver_on_tier(void *user)
{
    struct driver *driver = user;
    const struct above *above = &driver->above;
    if (circle_reported(&driver->circle, driver->endpoints[above->asked_at].url, &above->them,
                        belfry_clock_ms() - above->since_ms))
        driver_note_barred(driver);
}

static void driver_on_above_refused(const char *why, void *user)
{
    struct driver *driver = user;
    driver_mind_refusal(driver, driver->endpoints[driver->above.asked_at].url, why);
}

static void driver_on_above_changed(void *user)
{
    struct driver *driver = user;
    if (driver->events.about != NULL)
        driver->events.about(driver->user);
}

static const struct above_events above_events = {
    .tier = driver_on_tier, .refused = driver_on_above_refused, .changed = driver_on_above_changed};

/* The live stream was lost, or cannot be opened. If the tier above says that it is stale, this tier becomes stale too,
 * without waiting: otherwise each level of tiers would add its own delay. An etcd that says the same may just be
 * electing a leader. */
static void driver_mind_silence(struct driver *driver, const char *why)
{
    if (driver->above.kind == ABOVE_TIER && belfry_pool_exhausted(belfry_stream_link(driver->live)) &&
        strstr(why, NO_LEADER) != NULL)
        upstream_cut_off(driver->upstream, belfry_clock_ms());
}

/* What driver_status() says, for the levels below: a number, so no address is in it. */
static enum about_trouble driver_about_trouble(const struct driver *driver)
{
    static const enum about_trouble as[DRIVER_TROUBLES] = {
        [DRIVER_FINE] = ABOUT_NO_TROUBLE, [DRIVER_GAVE_UP] = ABOUT_CIRCLE,
        [DRIVER_TOO_OLD] = ABOUT_TOO_OLD, [DRIVER_LOG_IN] = ABOUT_REFUSED,
        [DRIVER_REFUSED] = ABOUT_REFUSED, [DRIVER_UNREACHABLE] = ABOUT_UNREACHABLE,
        [DRIVER_DISK] = ABOUT_DISK,       [DRIVER_WORKING] = ABOUT_CATCHING_UP,
        [DRIVER_SILENT] = ABOUT_SILENT,   [DRIVER_ABSENT] = ABOUT_REFUSED,
        [DRIVER_DENIED] = ABOUT_REFUSED,
    };
    struct driver_status status;
    driver_status(driver, &status);
    bool unserved = status.endpoint[0] == '\0' && above_answers_unserved(&driver->above);
    return status.trouble == DRIVER_UNREACHABLE && unserved ? ABOUT_ABOVE_NOT_READY : as[status.trouble];
}

void driver_about(struct driver *driver, struct about *out)
{
    BELFRY_OWNER_CHECK(driver);
    static const enum about_standing as[] = {
        [DRIVER_NOT_READY] = ABOUT_NOT_READY, [DRIVER_READY] = ABOUT_READY, [DRIVER_STALE] = ABOUT_STALE};
    int64_t head = ingest_head(driver->ingest);
    *out = (struct about){
        .self = {.standing = as[driver->standing],
                 .trouble = driver_about_trouble(driver),
                 .version = "belfryd/" BELFRY_VERSION,
                 .revision = head,
                 .lag = driver->upstream_revision > head ? (uint64_t)(driver->upstream_revision - head) : 0,
                 .silent_ms = driver->heard_ms == BELFRY_NEVER ? BELFRY_NEVER : belfry_clock_ms() - driver->heard_ms}};
    snprintf(out->self.name, sizeof(out->self.name), "%s", driver->name);
    above_describe(&driver->above, driver->upstream_revision, out);
}

/* ---- reads ---- */

static void driver_on_read(const struct belfry_wire_header *header, void *user)
{
    struct driver *driver = user;
    driver->poked = true;
    driver->why.watch[0] = '\0'; /* upstream answers, so the old reason is void */
    driver_saw(driver, header);
}

static void driver_on_read_failed(const struct belfry_answer *answer, void *user)
{
    struct driver *driver = user;
    driver->poked = true;
    if (follow_log_is_denial(answer->err, answer->why)) {
        snprintf(driver->why.watch, sizeof(driver->why.watch), "%s", answer->why);
        driver->why.is_denied = true;
        driver_log_denied(driver, answer->why);
    }
    driver_mind_refusal(driver, answer->endpoint, answer->why);
}

/* Upstream's revision, read because progress cannot be requested from this server. If it equals our head, we are up to
 * date. This holds only if the scope is everything: then the head shows that no revision below it is missing. Otherwise
 * it was read for the term alone. */
static void driver_on_head(const struct belfry_wire_header *header, void *user)
{
    struct driver *driver = user;
    driver->poked = true;
    driver_saw(driver, header);
    if (!driver->whole_scope || upstream_state(driver->upstream) != UPSTREAM_LIVE ||
        header->revision != ingest_head(driver->ingest))
        return;
    driver->heard_ms = belfry_clock_ms();
    upstream_on_progress(driver->upstream, 0, header, driver->heard_ms);
}

static const struct reads_events reads_events = {
    .answered = driver_on_read, .failed = driver_on_read_failed, .head = driver_on_head};

/* ---- watches ---- */

static void driver_on_created(const struct belfry_wire_header *header, void *user)
{
    struct driver *driver = user;
    driver->why.watch[0] = '\0';
    driver_saw(driver, header);
}

static void driver_on_came(const struct belfry_wire_header *header, void *user)
{
    driver_saw(user, header);
}

/* Are we up to date now? An event below the highest revision that upstream has shown is no proof of it. */
static void driver_on_taken(const struct belfry_mux_action *action, uint64_t now_ms, void *user)
{
    struct driver *driver = user;
    int64_t head = ingest_head(driver->ingest);
    bool newest = action->act == BELFRY_MUX_EVENTS ? head >= driver->upstream_revision : action->rev >= head;
    if (newest && upstream_state(driver->upstream) == UPSTREAM_LIVE)
        driver->heard_ms = now_ms;
}

static void driver_on_ended(bool live, const struct belfry_mux_action *action, void *user)
{
    struct driver *driver = user;
    bool is_denial = follow_log_is_denial(action->err, action->why);
    if (live && action->err != BELFRY_ERR_COMPACTED) {
        snprintf(driver->why.watch, sizeof(driver->why.watch), "%s", action->why);
        driver->why.is_denied = is_denial;
    }
    if (is_denial)
        driver_log_denied(driver, action->why);
}

static const struct watches_events watches_events = {
    .created = driver_on_created, .came = driver_on_came, .taken = driver_on_taken, .ended = driver_on_ended};

static enum belfry_mux_verdict driver_on_stream_action(const struct belfry_mux_action *action, void *user)
{
    struct driver *driver = user;
    driver->poked = true;
    return watches_deliver(&driver->watches, action);
}

static void driver_on_stream_created(struct belfry_mux_watch *watch, const struct belfry_wire_header *header,
                                     void *user)
{
    struct driver *driver = user;
    driver->poked = true;
    watches_created(&driver->watches, watch, header);
}

/* ---- the server of the live stream ---- */

static void driver_warn_once(struct driver *driver, const char *version, const char *why)
{
    for (unsigned i = 0; i < driver->n_warned && i < WARNED; i++)
        if (strcmp(driver->warned[i], version) == 0)
            return;
    char *place = driver->warned[driver->n_warned++ % WARNED];
    snprintf(place, sizeof(driver->warned[0]), "%s", version);
    belfry_logf(driver->log, BELFRY_LOG_WARN, "upstream_old_version",
                "endpoint=%s version=\"%s\" why=\"%s\" hint=\"upgrade to 3.4.38, 3.5.22, 3.6.2 or later\"",
                belfry_stream_endpoint(driver->live), version, why);
}

static void driver_refuse_version(struct driver *driver, const char *version, const char *why, uint64_t now)
{
    snprintf(driver->why.version, sizeof(driver->why.version),
             "etcd %s is too old for a scope: %s; upgrade it to 3.4.31, 3.5.13 or later, or set the scope to all",
             version, why);
    belfry_stream_leave(driver->live, BELFRY_ERR_UNSUPPORTED, "its version is too old for a scope");
    watches_end_live(&driver->watches, BELFRY_ERR_UNSUPPORTED, false, now);
}

/* Judges the server of the live stream by its version: held watches continue, or end. */
static void driver_mind_server(struct driver *driver, uint64_t now)
{
    struct watches *watches = &driver->watches;
    const char *version, *why = "";
    if (belfry_stream_endpoint(driver->live) == NULL) {
        watches->judged = driver->whole_scope;
        if (!watches->judged)
            watches_end_live(watches, BELFRY_ERR_UNAVAILABLE, true, now);
    } else if (belfry_stream_version(driver->live, &version)) {
        enum etcd_version verdict = etcd_version_judge(version, driver->whole_scope, &why);
        if (verdict != ETCD_VERSION_GOOD)
            driver_warn_once(driver, version, why);
        if (verdict == ETCD_VERSION_REFUSED) {
            driver_refuse_version(driver, version, why, now);
            return;
        }
        if (!watches->judged)
            watches->unhold_ms = now;
        watches->judged = true;
        driver->why.version[0] = '\0';
    }
    if (watches->judged)
        watches_unhold(watches, now);
}

/* ---- what the machines want ---- */

static void driver_act_on(struct driver *driver, const struct upstream_action *action, uint64_t now)
{
    bool read = action->want == UPSTREAM_WANT_REVISION || action->want == UPSTREAM_WANT_PAGE;
    bool unaskable = action->want == UPSTREAM_WANT_PROGRESS && watches_is_live(action->slot) &&
                     !belfry_stream_tells_progress(driver->live);
    if (read)
        reads_start(&driver->reads, action, now);
    else if (!unaskable)
        watches_act(&driver->watches, action, now);
    else
        reads_ask_head(&driver->reads, now);
}

/* Executes the actions of the machines until there are none left. */
static void driver_act(struct driver *driver, uint64_t now)
{
    struct upstream_action action;
    unsigned n = 0;
    while (n < ACTIONS_MAX && upstream_next(driver->upstream, now, &action)) {
        driver_act_on(driver, &action, now);
        n++;
    }
    while (n < ACTIONS_MAX && backfill_next(driver->backfill, now, &action)) {
        driver_act_on(driver, &action, now);
        n++;
    }
    if (n >= ACTIONS_MAX)
        driver->poked = true;
}

/* ---- backfills ---- */

void driver_backfill(struct driver *driver, const struct backfill_ask *ask)
{
    BELFRY_OWNER_CHECK(driver);
    enum belfry_err err = backfill_request(driver->backfill, ask, belfry_clock_ms());
    struct refusal refusal = {.token = ask->token, .err = err};
    driver->backfills++;
    driver->poked = true;
    if (err == BELFRY_OK)
        return;
    if (belfry_buf_append(&driver->refusals, &refusal, sizeof(refusal)) == BELFRY_OK)
        return;
    driver->backfills--; /* more than REFUSALS in one turn, and no memory to queue it: answer now */
    driver->events.backfilled(ask->token, err, NULL, 0, driver->user);
}

void driver_read_point(struct driver *driver, struct readpoint_ask *ask)
{
    BELFRY_OWNER_CHECK(driver);
    readpoint_add(&driver->point, ask);
    driver->poked = true;
}

static void driver_answer_backfill(struct driver *driver, const struct backfill_answer *answer)
{
    driver->backfills--;
    if (answer->err == BELFRY_OK && !answer->local) {
        driver->backfills_done++;
        driver->backfill_revisions += answer->segment->n;
    }
    driver->events.backfilled(answer->token, answer->err, answer->segment, answer->compact_rev, driver->user);
}

static void driver_answer_backfills(struct driver *driver)
{
    struct backfill_answer out;
    struct refusal refusal;
    /* what is asked from inside an answer is answered in the next turn */
    for (size_t n = belfry_buf_len(&driver->refusals); n > 0; n -= sizeof(refusal)) {
        memcpy(&refusal, belfry_buf_bytes(&driver->refusals).data, sizeof(refusal));
        belfry_buf_take(&driver->refusals, sizeof(refusal));
        driver_answer_backfill(driver, &(struct backfill_answer){.token = refusal.token, .err = refusal.err});
    }
    for (size_t n = driver->backfills; n > 0 && backfill_answer(driver->backfill, &out); n--)
        driver_answer_backfill(driver, &out);
}

/* The term of a rewritten past says nothing about the new one. */
static void driver_note_term(struct driver *driver)
{
    struct upstream_stats stats;
    struct store_meta meta;
    upstream_stats(driver->upstream, &stats);
    if (stats.rewrites == driver->rewrites)
        return;
    driver->rewrites = stats.rewrites;
    driver->store->api->meta(driver->store, &meta);
    term_begin(driver->term, meta.cluster_id, meta.raft_term);
}

/* Backfills of a past that is over end before anything else is asked for. */
static void driver_note_past(struct driver *driver)
{
    uint64_t past = ingest_past(driver->ingest);
    if (past == driver->cut_past)
        return;
    driver->cut_past = past;
    driver_note_term(driver);
    reads_new_past(&driver->reads);
    backfill_cut(driver->backfill, past, belfry_clock_ms());
}

/* ---- standing ---- */

/* After a fault the machine joins again, usually within one round trip. Until then a ready tier stays ready, unless
 * upstream is silent for too long, and a stale tier stays stale. A tier that returns far behind serves what it has as
 * soon as that is known to be upstream's past: it lags, as a member of etcd may, and catches up. */
static enum driver_standing driver_judge_standing(const struct driver *driver)
{
    bool stale = upstream_stale(driver->upstream);
    if (driver->deaf && (stale || ingest_is_stuck(driver->ingest)))
        return DRIVER_NOT_READY;
    if (driver->why.version[0] != '\0' || driver->circle.given_up[0] != '\0')
        return DRIVER_NOT_READY;
    switch (upstream_state(driver->upstream)) {
    case UPSTREAM_START:
    case UPSTREAM_LISTING: /* its clients must learn that no events are coming */
        return stale && driver->been_ready ? DRIVER_STALE : DRIVER_NOT_READY;
    case UPSTREAM_LIVE:
        return stale ? DRIVER_STALE : DRIVER_READY;
    case UPSTREAM_REPLAYING:
        if (upstream_proven(driver->upstream) && !stale)
            return DRIVER_READY;
        break;
    case UPSTREAM_JOINING:
        break;
    }
    return stale && driver->standing == DRIVER_READY ? DRIVER_STALE : driver->standing;
}

static void driver_note_standing(struct driver *driver)
{
    uint64_t now = belfry_clock_ms();
    /* A tier whose disk and memory are full does not read from upstream, so upstream's silence means nothing. Clients
     * must not be told that there is no leader, until upstream had time to send something again. */
    if (ingest_is_stuck(driver->ingest))
        driver->hear_until_ms = now + UPSTREAM_STALE_MS;
    driver->deaf = now < driver->hear_until_ms;
    if (belfry_auth_ready(&driver->auth))
        driver->why.log_in[0] = '\0';
    driver->standing = driver_judge_standing(driver);
    driver->been_ready = driver->been_ready || driver->standing == DRIVER_READY;
}

/* ---- reasons ---- */

static void driver_describe_link(const struct driver *driver, const struct belfry_pool *link, char *text, size_t len)
{
    size_t used = 0;
    for (size_t i = 0; i < driver->n_endpoints && used < len; i++) {
        bool was_up;
        const char *why = belfry_pool_why(link, i, &was_up);
        if (why[0] != '\0')
            used += (size_t)snprintf(text + used, len - used, was_up ? "%s%s: %s" : "%s%s unreachable (%s)",
                                     used > 0 ? "; " : "", driver->endpoints[i].url, why);
    }
}

/* "http://a:1 unreachable (connection refused); http://b:2: etcdserver: no leader"; "": nothing is known against the
 * endpoints. */
static void driver_describe_links(const struct driver *driver, char *text, size_t len)
{
    text[0] = '\0';
    driver_describe_link(driver, belfry_stream_link(driver->live), text, len);
    if (text[0] == '\0')
        driver_describe_link(driver, belfry_calls_link(driver->calls), text, len);
}

static enum driver_trouble driver_describe_work(const struct driver *driver, char *text, size_t len)
{
    int64_t head = ingest_head(driver->ingest);
    switch (upstream_state(driver->upstream)) {
    case UPSTREAM_START:
        snprintf(text, len, "starting");
        break;
    case UPSTREAM_LISTING:
        snprintf(text, len, "listing upstream: %" PRIu64 " keys so far", driver->reads.keys_listed);
        break;
    case UPSTREAM_JOINING:
        snprintf(text, len, "joining upstream at revision %" PRId64, head);
        break;
    case UPSTREAM_REPLAYING:
        snprintf(text, len, "replaying from upstream: at revision %" PRId64 " of %" PRId64, head,
                 driver->upstream_revision);
        break;
    case UPSTREAM_LIVE:
        snprintf(text, len, "upstream is silent");
        return DRIVER_SILENT;
    }
    return DRIVER_WORKING;
}

static enum driver_trouble driver_describe(const struct driver *driver, char *text, size_t len)
{
    char links[WHY_BYTES];
    if (driver->circle.given_up[0] != '\0') {
        snprintf(text, len, "%.*s", (int)len - 1, driver->circle.given_up); /* the log has it whole */
        return DRIVER_GAVE_UP;
    }
    const struct {
        const char *said;
        enum driver_trouble trouble;
    } rows[] = {{driver->why.version, DRIVER_TOO_OLD},
                {driver->why.log_in, DRIVER_LOG_IN},
                {driver->why.watch, driver->why.is_denied ? DRIVER_DENIED : DRIVER_REFUSED},
                {links, DRIVER_UNREACHABLE}};
    links[0] = '\0';
    if (belfry_stream_endpoint(driver->live) == NULL)
        driver_describe_links(driver, links, sizeof(links));
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (rows[i].said[0] != '\0') {
            snprintf(text, len, "upstream %s", rows[i].said);
            return rows[i].trouble;
        }
    if (!ingest_in_trouble(driver->ingest))
        return driver_describe_work(driver, text, len);
    snprintf(text, len, "%s", ingest_disk_why(driver->ingest));
    return DRIVER_DISK;
}

/* Makes the reason one line: it becomes part of log lines and of the service manager's status, and upstream chose some
 * of its words. */
static enum driver_trouble driver_describe_line(const struct driver *driver, char *text, size_t len)
{
    enum driver_trouble trouble = driver_describe(driver, text, len);
    for (; *text != '\0'; text++)
        if ((unsigned char)*text < ' ' || *text == 0x7f)
            *text = '?';
    return trouble;
}

/* Notes the reason and the version that workers show, and what follows from that of etcd; true: they have changed. */
static bool driver_words_moved(struct driver *driver)
{
    char reason[sizeof(driver->told_reason)] = "";
    const char *version;
    if (driver->standing != DRIVER_READY)
        driver_describe_line(driver, reason, sizeof(reason));
    if (!belfry_stream_version(driver->live, &version))
        version = "";
    enum etcd_keys_only keys_only = etcd_version_keys_only(above_etcd_version(&driver->above));
    if (strcmp(reason, driver->told_reason) == 0 && strcmp(version, driver->told_version) == 0 &&
        keys_only == driver->told_keys_only)
        return false;
    driver->told_keys_only = keys_only;
    memcpy(driver->told_reason, reason, sizeof(reason));
    snprintf(driver->told_version, sizeof(driver->told_version), "%s", version);
    return true;
}

/* ---- numbers ---- */

void driver_status(const struct driver *driver, struct driver_status *out)
{
    const struct belfry_pool *links[] = {belfry_calls_link(driver->calls), belfry_stream_link(driver->live),
                                         belfry_stream_link(driver->back)};
    const char *endpoint = belfry_stream_endpoint(driver->live), *version;
    uint64_t now = belfry_clock_ms();
    struct store_meta meta;
    driver->store->api->meta(driver->store, &meta);
    *out = (struct driver_status){
        .standing = driver->standing,
        .state = upstream_state(driver->upstream),
        .revision = ingest_head(driver->ingest),
        .committed = ingest_committed(driver->ingest),
        .upstream_revision = driver->upstream_revision,
        .lag_peak = driver->lag_peak,
        .silent_ms = driver->heard_ms == BELFRY_NEVER ? BELFRY_NEVER : now - driver->heard_ms,
        .past = ingest_past(driver->ingest),
        .identity = {.cluster_id = meta.cluster_id, .member_id = meta.member_id, .raft_term = term_now(driver->term)},
        .loss = driver->said.loss,
        .disk_trouble = ingest_in_trouble(driver->ingest),
        .keys_only = driver->told_keys_only,
        .given_up = driver->circle.given_up[0] != '\0',
        .barred = driver_barred(driver),
        .backfills = driver->backfills,
        .backfills_done = driver->backfills_done,
        .backfill_revisions = driver->backfill_revisions,
        .keys_listed = upstream_state(driver->upstream) == UPSTREAM_LISTING ? driver->reads.keys_listed : 0,
    };
    if (out->standing != DRIVER_READY || endpoint == NULL)
        out->trouble = driver_describe_line(driver, out->reason, sizeof(out->reason));
    if (out->disk_trouble)
        snprintf(out->disk_why, sizeof(out->disk_why), "%s", ingest_disk_why(driver->ingest));
    if (endpoint != NULL)
        snprintf(out->endpoint, sizeof(out->endpoint), "%s", endpoint);
    if (belfry_stream_version(driver->live, &version))
        snprintf(out->version, sizeof(out->version), "%s", version);
    for (size_t i = 0; i < sizeof(links) / sizeof(links[0]); i++) {
        struct belfry_pool_counts counts = belfry_pool_counts(links[i]);
        out->connects += counts.connects;
        out->losses += counts.losses;
    }
    upstream_stats(driver->upstream, &out->stats);
    out->points = driver->point.stats;
}

/* ---- log lines ---- */

static void driver_log_part(enum belfry_log_level level, const char *event, const char *text, void *user)
{
    struct driver *driver = user;
    (void)level; /* what matters to people is logged as a change of state */
    belfry_logf(driver->log, BELFRY_LOG_DEBUG, event, "%s", text);
}

static void driver_log_machine(enum belfry_log_level level, const char *event, const char *text, void *user)
{
    struct driver *driver = user;
    if (strcmp(event, "list") == 0)
        snprintf(driver->why.list, sizeof(driver->why.list), "%s", text);
    if (strcmp(event, "upstream_stale") != 0) /* follow_log has a line of that name */
        driver_log_part(level, event, text, user);
}

static void driver_log_changes(struct driver *driver, uint64_t now)
{
    struct belfry_pool *live = belfry_stream_link(driver->live), *calls = belfry_calls_link(driver->calls);
    struct upstream_stats stats;
    char links[WHY_BYTES];
    links[0] = '\0';
    upstream_stats(driver->upstream, &stats);
    struct follow_facts facts = {.endpoint = belfry_stream_endpoint(driver->live),
                                 .connected = belfry_pool_conn(live) != NULL,
                                 .refused = driver->why.version[0] != '\0',
                                 .lost_why = driver->why.link,
                                 .unreachable = links,
                                 .n_endpoints = driver->n_endpoints,
                                 .first_endpoint = driver->endpoints[0].url,
                                 .state = upstream_state(driver->upstream),
                                 .ready = driver->standing == DRIVER_READY,
                                 .stale = driver->standing == DRIVER_STALE,
                                 .head = ingest_head(driver->ingest),
                                 .committed = ingest_committed(driver->ingest),
                                 .upstream_revision = driver->upstream_revision,
                                 .past = ingest_past(driver->ingest),
                                 .relists_rewritten = stats.relists_rewritten,
                                 .keys_listed = driver->reads.keys_listed,
                                 .list_why = driver->why.list,
                                 .disk_trouble = ingest_in_trouble(driver->ingest),
                                 .disk_stuck = ingest_is_stuck(driver->ingest),
                                 .disk_why = ingest_disk_why(driver->ingest)};
    if (facts.endpoint == NULL && (belfry_pool_exhausted(live) || belfry_pool_exhausted(calls)))
        driver_describe_links(driver, links, sizeof(links));
    follow_log_changes(&driver->said, &facts, now);
}

/* ---- a turn ---- */

static void driver_tell_workers(struct driver *driver)
{
    int64_t head = ingest_head(driver->ingest);
    uint64_t past = ingest_past(driver->ingest), raft_term = term_now(driver->term);
    driver_note_standing(driver);
    bool words = driver_words_moved(driver);
    if (head == driver->told_head && past == driver->told_past && driver->standing == driver->told_standing &&
        driver_barred(driver) == driver->told_barred && raft_term == driver->told_term &&
        ingest_in_trouble(driver->ingest) == driver->told_trouble && !words)
        return;
    if (head != driver->told_head)
        above_stamp(&driver->above, head);
    driver->told_head = head;
    driver->told_past = past;
    driver->told_term = raft_term;
    driver->told_standing = driver->standing;
    driver->told_barred = driver_barred(driver);
    driver->told_trouble = ingest_in_trouble(driver->ingest);
    driver->events.changed(driver->user);
}

/* Every endpoint belongs to another cluster: the one that we followed is gone. The watches end, so that the machine
 * lists again, and the next answer decides which cluster we follow from now on. */
static void driver_mind_cluster(struct driver *driver)
{
    static const char why[] = "every endpoint belongs to another cluster than before";
    if (!belfry_cluster_identity_lost(&driver->identity))
        return;
    belfry_mux_fail(belfry_stream_mux(driver->live), BELFRY_ERR_CLUSTER, why);
    belfry_mux_fail(belfry_stream_mux(driver->back), BELFRY_ERR_CLUSTER, why);
    belfry_stream_drain(driver->live);
    belfry_stream_drain(driver->back);
    driver->identity =
        (struct belfry_cluster_identity){.n_endpoints = driver->n_endpoints, .barred = driver->identity.barred};
}

static void driver_on_timer(uv_timer_t *timer);

static void driver_arm(struct driver *driver)
{
    uint64_t due = belfry_min_time(upstream_due(driver->upstream), backfill_due(driver->backfill));
    due = belfry_min_time(due, ingest_due(driver->ingest));
    due = belfry_min_time(due, belfry_calls_due(driver->calls));
    due = belfry_min_time(due, belfry_stream_due(driver->live));
    due = belfry_min_time(due, belfry_stream_due(driver->back));
    due = belfry_min_time(due, readpoint_due(&driver->point));
    due = belfry_min_time(due, follow_log_due(&driver->said));
    due = belfry_min_time(due, driver->above.due_ms);
    if (driver->watches.judged)
        due = belfry_min_time(due, driver->watches.unhold_ms);
    uint64_t now = belfry_clock_ms();
    if (driver->circle.given_up[0] != '\0')
        due = now + UPSTREAM_TICK_MS; /* what is due is not done any more */
    else if (driver->poked || due < now)
        due = now;
    uv_update_time(driver->loop);
    uv_timer_start(&driver->timer, driver_on_timer, due == BELFRY_NEVER ? UPSTREAM_TICK_MS : due - now, 0);
}

static void driver_follow(struct driver *driver, uint64_t now)
{
    driver_leave_barred(driver);
    driver_act(driver, now);
    belfry_stream_pump(driver->live, now);
    belfry_stream_pump(driver->back, now);
    int64_t head = ingest_head(driver->ingest);
    struct above_place place = {.live = upstream_state(driver->upstream) == UPSTREAM_LIVE,
                                .past = ingest_past(driver->ingest),
                                .shown = driver->upstream_revision > head ? driver->upstream_revision : head};
    above_pump(&driver->above, &place, now);
    struct readpoint_place point = {.live = upstream_ready(driver->upstream) && upstream_proven(driver->upstream),
                                    .replays = upstream_state(driver->upstream) == UPSTREAM_REPLAYING,
                                    .is_blind = !driver->whole_scope && !belfry_stream_tells_progress(driver->live),
                                    .past = ingest_past(driver->ingest),
                                    .head = head,
                                    .committed = ingest_committed(driver->ingest)};
    readpoint_pump(&driver->point, &point, now);
    belfry_calls_pump(driver->calls, now); /* behind all who may want a token */
}

static void driver_on_prepare(uv_prepare_t *prepare)
{
    struct driver *driver = prepare->data;
    uint64_t now = belfry_clock_ms();
    driver->poked = false;
    driver_note_past(driver);
    driver_tell_workers(driver); /* before the commit: workers need not wait for it */
    if (driver->polled)
        upstream_drained(driver->upstream, now);
    driver->polled = false;
    driver_mind_cluster(driver);
    driver_mind_server(driver, now);
    if (driver->circle.given_up[0] == '\0')
        driver_follow(driver, now);
    driver_note_past(driver);
    driver_answer_backfills(driver);
    driver_note_standing(driver);
    driver_log_changes(driver, now);
    if (driver->standing != driver->told_standing)
        driver->poked = true;
    driver_arm(driver);
}

static void driver_on_check(uv_check_t *check)
{
    struct driver *driver = check->data;
    driver->polled = true;
}

static void driver_on_timer(uv_timer_t *timer)
{
    struct driver *driver = timer->data;
    uint64_t now = belfry_clock_ms();
    if (now >= upstream_due(driver->upstream))
        upstream_tick(driver->upstream, now);
    if (now >= backfill_due(driver->backfill))
        backfill_tick(driver->backfill, now);
    if (now >= ingest_due(driver->ingest))
        ingest_tick(driver->ingest, now);
}

/* ---- what libbelfry's parts say ---- */

static void driver_on_changed(void *user)
{
    struct driver *driver = user;
    driver->poked = true;
}

static void driver_on_header(const struct belfry_wire_header *header, void *user)
{
    (void)header; /* reads look at it themselves */
    (void)user;
}

/* Logging in is retried: the password may be changed, or auth be turned off. */
static void driver_on_auth_failed(enum belfry_err err, const char *why, void *user)
{
    struct driver *driver = user;
    if (driver->why.log_in[0] == '\0')
        belfry_logf(driver->log, BELFRY_LOG_ERROR, "upstream_log_in_failed", "why=\"%s\"", why);
    snprintf(driver->why.log_in, sizeof(driver->why.log_in), "%s", why);
    belfry_calls_fail_all(driver->calls, err, why);
}

static void driver_on_live_text(const char *text, void *user)
{
    struct driver *driver = user;
    snprintf(driver->why.link, sizeof(driver->why.link), "%s", text);
    if (strncmp(text, LOST, strlen(LOST)) == 0)
        driver_mind_refusal(driver, text + strlen(LOST), text);
    driver_mind_silence(driver, text);
}

static void driver_on_back_text(const char *text, void *user)
{
    struct driver *driver = user;
    belfry_logf(driver->log, BELFRY_LOG_DEBUG, "backfill_link", "text=\"%s\"", text);
}

/* ---- creating ---- */

static enum belfry_err driver_copy_scope(struct driver *driver, const struct driver_opts *opts)
{
    driver->scope = malloc(opts->key.len + opts->range_end.len + 1);
    if (driver->scope == NULL)
        return BELFRY_ERR_NOMEM;
    if (opts->key.len > 0)
        memcpy(driver->scope, opts->key.data, opts->key.len);
    if (opts->range_end.len > 0)
        memcpy(driver->scope + opts->key.len, opts->range_end.data, opts->range_end.len);
    driver->key = belfry_bytes_of(driver->scope, opts->key.len);
    driver->range_end = belfry_bytes_of(driver->scope + opts->key.len, opts->range_end.len);
    struct belfry_bytes all = belfry_bytes_of("", 1);
    driver->whole_scope = belfry_bytes_equal(driver->key, all) && belfry_bytes_equal(driver->range_end, all);
    return BELFRY_OK;
}

/* Many tiers with one list of endpoints must not all begin with the first. */
static enum belfry_err driver_copy_endpoints(struct driver *driver, const struct driver_opts *opts)
{
    driver->endpoints = calloc(opts->n_endpoints, sizeof(*driver->endpoints));
    if (driver->endpoints == NULL)
        return BELFRY_ERR_NOMEM;
    size_t first = driver->first_endpoint = belfry_rng_below(&driver->rng, opts->n_endpoints);
    for (size_t i = 0; i < opts->n_endpoints; i++)
        driver->endpoints[i] = opts->endpoints[(first + i) % opts->n_endpoints];
    driver->n_endpoints = opts->n_endpoints;
    return circle_init(&driver->circle, driver->name, driver->endpoints, driver->n_endpoints, driver->log);
}

static enum belfry_err driver_create_machines(struct driver *driver, const struct driver_opts *opts)
{
    bool warm;
    struct ingest_opts ingest = {.store = opts->store,
                                 .evlog = opts->evlog,
                                 .extent_bytes = INGEST_EXTENT_BYTES,
                                 .trim_rows = TRIM_ROWS,
                                 .whole_scope = driver->whole_scope,
                                 .log = &driver->parts_log};
    enum belfry_err err = ingest_create(&ingest, &driver->ingest);
    if (err == BELFRY_OK)
        err = ingest_open(driver->ingest, &warm);
    struct upstream_opts upstream = {.ingest = driver->ingest,
                                     .store = opts->store,
                                     .key = driver->key,
                                     .range_end = driver->range_end,
                                     .seed = belfry_rng_next(&driver->rng),
                                     .log = &driver->machine_log};
    if (err == BELFRY_OK)
        err = upstream_create(&upstream, &driver->upstream);
    if (err == BELFRY_OK)
        err = backfill_create(opts->segment_bytes != 0 ? opts->segment_bytes : SEGMENT_BYTES,
                              belfry_rng_next(&driver->rng), &driver->backfill);
    if (err == BELFRY_OK)
        backfill_prove_by(driver->backfill, driver->ingest);
    return err;
}

static struct belfry_pool_opts driver_link_opts(struct driver *driver, const struct driver_opts *opts, const char *name)
{
    struct belfry_grpc_opts grpc = {.user_agent = opts->user_agent,
                                    .via = driver->name[0] != '\0' ? driver->name : NULL,
                                    .keepalive_ms = KEEPALIVE_MS,
                                    .keepalive_timeout_ms = KEEPALIVE_WAIT_MS,
                                    .max_message_bytes = MAX_MESSAGE_BYTES,
                                    .log = &driver->parts_log};
    return (struct belfry_pool_opts){.loop = driver->loop,
                                     .dns = driver->dns,
                                     .tls = opts->tls,
                                     .endpoints = driver->endpoints,
                                     .n_endpoints = driver->n_endpoints,
                                     .barred = driver->circle.barred,
                                     .dial_timeout_ms = driver->dial_timeout_ms,
                                     .http = belfry_grpc_http_opts(&grpc),
                                     .name = name,
                                     .seed = belfry_rng_next(&driver->rng),
                                     .log = &driver->parts_log};
}

static enum belfry_err driver_create_stream(struct driver *driver, const struct driver_opts *opts, bool live,
                                            struct belfry_stream **out)
{
    struct belfry_stream_opts stream = {.link = driver_link_opts(driver, opts, live ? "live" : "backfill"),
                                        .calls = driver->calls,
                                        .auth = &driver->auth,
                                        .identity = &driver->identity,
                                        .hasleader = true,
                                        .max_message_bytes = MAX_MESSAGE_BYTES,
                                        .max_revision_bytes = MAX_REVISION_BYTES,
                                        .owner_judges = true,
                                        .patient = true,
                                        .wants_version = live,
                                        .progress_gap_ms = live ? PROGRESS_GAP_MS : 0,
                                        .progress_wait_ms = live ? PROGRESS_WAIT_MS : 0,
                                        .deliver = driver_on_stream_action,
                                        .created = driver_on_stream_created,
                                        .link_text = live ? driver_on_live_text : driver_on_back_text,
                                        .changed = driver_on_changed,
                                        .user = driver};
    return belfry_stream_create(&stream, out);
}

/* Called after a failure, too: driver_destroy() frees the parts that exist. */
static void driver_init_parts(struct driver *driver)
{
    struct watches_opts watches = {.live = driver->live,
                                   .back = driver->back,
                                   .upstream = driver->upstream,
                                   .backfill = driver->backfill,
                                   .key = driver->key,
                                   .range_end = driver->range_end,
                                   .events = &watches_events,
                                   .user = driver,
                                   .log = driver->log};
    watches_init(&driver->watches, &watches, driver->whole_scope);
    struct reads_opts reads = {.calls = driver->calls,
                               .upstream = driver->upstream,
                               .key = driver->key,
                               .range_end = driver->range_end,
                               .timeout_ms = driver->command_timeout_ms,
                               .events = &reads_events,
                               .user = driver,
                               .log = driver->log};
    reads_init(&driver->reads, &reads);
    above_init(&driver->above, driver->live, &above_events, driver);
    struct readpoint_opts point = {.stream = driver->live,
                                   .calls = driver->calls,
                                   .auth = &driver->auth,
                                   .upstream = driver->upstream,
                                   .term = driver->term,
                                   .key = driver->key};
    readpoint_init(&driver->point, &point);
}

static enum belfry_err driver_create_parts(struct driver *driver, const struct driver_opts *opts)
{
    struct store_meta meta;
    driver->store->api->meta(driver->store, &meta);
    term_begin(driver->term, meta.revision != 0 ? meta.cluster_id : 0, meta.raft_term);
    /* An endpoint of another cluster than a warm replica's is left, if there are more. */
    driver->identity = (struct belfry_cluster_identity){.cluster_id = meta.revision != 0 ? meta.cluster_id : 0,
                                                        .n_endpoints = driver->n_endpoints};
    enum belfry_err err = belfry_auth_init(&driver->auth, opts->user, opts->password, opts->password_file);
    if (err == BELFRY_OK)
        err = belfry_dns_create(driver->loop, &driver->dns);
    if (err != BELFRY_OK)
        return err;
    struct belfry_calls_opts calls = {.link = driver_link_opts(driver, opts, "reads"),
                                      .auth = &driver->auth,
                                      .identity = &driver->identity,
                                      .hasleader = true,
                                      .changed = driver_on_changed,
                                      .header = driver_on_header,
                                      .auth_failed = driver_on_auth_failed,
                                      .user = driver};
    err = belfry_calls_create(&calls, &driver->calls);
    if (err == BELFRY_OK)
        err = driver_create_stream(driver, opts, true, &driver->live);
    if (err == BELFRY_OK)
        err = driver_create_stream(driver, opts, false, &driver->back);
    return err;
}

static void driver_start_handles(struct driver *driver)
{
    uv_timer_init(driver->loop, &driver->timer);
    uv_prepare_init(driver->loop, &driver->prepare);
    uv_check_init(driver->loop, &driver->check);
    driver->timer.data = driver->prepare.data = driver->check.data = driver;
    driver->n_handles = 3;
    uv_timer_start(&driver->timer, driver_on_timer, 0, 0);
    uv_prepare_start(&driver->prepare, driver_on_prepare);
    uv_check_start(&driver->check, driver_on_check);
}

static void driver_set_up(struct driver *driver, const struct driver_opts *opts, const struct driver_events *events,
                          void *user)
{
    driver->loop = opts->loop;
    driver->events = *events;
    driver->user = user;
    driver->log = opts->log;
    driver->parts_log = (struct belfry_log){.line = driver_log_part, .user = driver, .level = BELFRY_LOG_DEBUG};
    driver->machine_log = (struct belfry_log){.line = driver_log_machine, .user = driver, .level = BELFRY_LOG_DEBUG};
    driver->dial_timeout_ms = opts->dial_timeout_ms != 0 ? opts->dial_timeout_ms : DIAL_MS;
    driver->command_timeout_ms = opts->command_timeout_ms != 0 ? opts->command_timeout_ms : COMMAND_MS;
    driver->store = opts->store;
    driver->term = opts->term;
    driver->name = opts->name != NULL ? opts->name : "";
    driver->said.log = opts->log;
    driver->rng.state = opts->seed;
    driver->heard_ms = BELFRY_NEVER;
    belfry_buf_init(&driver->refusals);
}

enum belfry_err driver_create(const struct driver_opts *opts, const struct driver_events *events, void *user,
                              struct driver **out)
{
    uint8_t *room;
    if (opts->n_endpoints == 0)
        return BELFRY_ERR_INVALID;
    struct driver *driver = calloc(1, sizeof(*driver));
    if (driver == NULL)
        return BELFRY_ERR_NOMEM;
    driver_set_up(driver, opts, events, user);
    enum belfry_err err = driver_copy_scope(driver, opts);
    if (err == BELFRY_OK)
        err = driver_copy_endpoints(driver, opts);
    if (err == BELFRY_OK)
        err = belfry_buf_reserve(&driver->refusals, REFUSALS * sizeof(struct refusal), &room);
    if (err == BELFRY_OK)
        err = driver_create_machines(driver, opts);
    if (err == BELFRY_OK)
        err = driver_create_parts(driver, opts);
    driver_init_parts(driver);
    driver_start_handles(driver); /* also after a failure: parts that exist need the loop to close */
    if (err != BELFRY_OK) {
        driver_destroy(driver);
        return err;
    }
    BELFRY_OWNER_INIT(driver);
    *out = driver;
    return BELFRY_OK;
}

/* ---- destroying ---- */

static void driver_on_handle_closed(uv_handle_t *handle)
{
    struct driver *driver = handle->data;
    if (--driver->n_handles > 0)
        return;
    belfry_auth_fini(&driver->auth);
    belfry_buf_fini(&driver->refusals);
    reads_fini(&driver->reads);
    circle_fini(&driver->circle);
    watches_fini(&driver->watches);
    free(driver->endpoints);
    free(driver->scope);
    free(driver);
}

void driver_destroy(struct driver *driver)
{
    if (driver == NULL)
        return;
    BELFRY_OWNER_CHECK(driver);
    if (driver->backfill != NULL)
        backfill_cut(driver->backfill, UINT64_MAX, belfry_clock_ms());
    while (driver->backfills > 0) /* a request from inside an answer is refused, too */
        driver_answer_backfills(driver);
    reads_close(&driver->reads);
    above_fini(&driver->above);
    readpoint_fini(&driver->point);
    belfry_stream_destroy(driver->live);
    belfry_stream_destroy(driver->back);
    belfry_calls_destroy(driver->calls);
    belfry_dns_destroy(driver->dns);
    if (driver->ingest != NULL)
        ingest_drained(driver->ingest, belfry_clock_ms());
    backfill_destroy(driver->backfill);
    upstream_destroy(driver->upstream);
    ingest_destroy(driver->ingest);
    uv_close((uv_handle_t *)&driver->timer, driver_on_handle_closed);
    uv_close((uv_handle_t *)&driver->prepare, driver_on_handle_closed);
    uv_close((uv_handle_t *)&driver->check, driver_on_handle_closed);
}
