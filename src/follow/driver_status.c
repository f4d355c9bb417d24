/* src/follow/driver_status.c: how it stands, for people: standing, reason, log lines. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "follow/driver_private.h"

#define LISTING_MS 5000                 /* between lines about a listing under way */
#define NO_USER    "user name is empty" /* etcd's words: auth is on, and the tier has no user */

/* ---- standing ---- */

/* After a fault the machine joins again, mostly within a round trip: who was ready stays so unless upstream is silent
 * for too long, and who was stale stays so until it goes on. Who comes back far behind serves what it has as soon as that
 * is known to be upstream's past: it lags, as a member of etcd may, and catches up meanwhile. */
static enum driver_standing standing_of(const struct driver *driver)
{
    bool stale = upstream_stale(driver->upstream);
    if (driver->deaf && (stale || ingest_is_stuck(driver->ingest)))
        return DRIVER_NOT_READY;
    if (driver->refusal[0] != '\0' || driver->given_up[0] != '\0')
        return DRIVER_NOT_READY;
    switch (upstream_state(driver->upstream)) {
    case UPSTREAM_START:
    case UPSTREAM_LISTING: /* those who are served meanwhile must learn that nothing comes */
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

/* A tier whose disk and memory are full does not listen to upstream. Its silence says nothing about upstream, and
 * clients must not be told that upstream has no leader; nor until upstream had its time to be heard again. */
static void note_deaf(struct driver *driver, uint64_t now)
{
    if (ingest_is_stuck(driver->ingest))
        driver->hear_until_ms = now + UPSTREAM_STALE_MS;
    driver->deaf = now < driver->hear_until_ms;
}

void driver_note_standing(struct driver *driver)
{
    note_deaf(driver, belfry_clock_ms());
    if (belfry_auth_ready(&driver->auth))
        driver->auth_why[0] = '\0';
    driver->standing = standing_of(driver);
    driver->been_ready = driver->been_ready || driver->standing == DRIVER_READY;
}

/* ---- reasons ---- */

/* What is known against the endpoints; false: nothing. */
static bool describe_links(const struct driver *driver, char *text, size_t len)
{
    belfry_link_describe(belfry_stream_link(driver->live), text, len);
    if (text[0] == '\0')
        belfry_link_describe(belfry_calls_link(driver->calls), text, len);
    return text[0] != '\0';
}

static void describe_work(const struct driver *driver, char *text, size_t len)
{
    int64_t head = ingest_head(driver->ingest);
    switch (upstream_state(driver->upstream)) {
    case UPSTREAM_START:
        snprintf(text, len, "starting");
        break;
    case UPSTREAM_LISTING:
        snprintf(text, len, "listing upstream: %" PRIu64 " keys so far", driver->keys_listed);
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
        break;
    }
}

static void describe(const struct driver *driver, char *text, size_t len)
{
    char links[DRIVER_WHY];
    if (driver->given_up[0] != '\0') {
        snprintf(text, len, "%.*s", (int)len - 1,
                 driver->given_up); /* as much as there is room for: the log has it all */
        return;
    }
    const char *said = driver->refusal[0] != '\0'    ? driver->refusal
                       : driver->auth_why[0] != '\0' ? driver->auth_why
                                                     : driver->watch_why;
    if (said[0] == '\0' && belfry_stream_endpoint(driver->live) == NULL && describe_links(driver, links, sizeof(links)))
        said = links;
    if (said[0] != '\0')
        snprintf(text, len, "upstream %s", said);
    else if (ingest_in_trouble(driver->ingest))
        snprintf(text, len, "%s", ingest_disk_why(driver->ingest));
    else
        describe_work(driver, text, len);
}

/* A reason goes into lines of others (the service manager's, too), and parts of it are upstream's words. */
static void describe_line(const struct driver *driver, char *text, size_t len)
{
    describe(driver, text, len);
    for (; *text != '\0'; text++)
        if ((unsigned char)*text < ' ' || *text == 0x7f)
            *text = '?';
}

bool driver_words_moved(struct driver *driver)
{
    char reason[sizeof(driver->told_reason)] = "";
    const char *version;
    if (driver->standing != DRIVER_READY)
        describe_line(driver, reason, sizeof(reason));
    if (!belfry_stream_version(driver->live, &version))
        version = "";
    if (strcmp(reason, driver->told_reason) == 0 && strcmp(version, driver->told_version) == 0)
        return false;
    memcpy(driver->told_reason, reason, sizeof(reason));
    snprintf(driver->told_version, sizeof(driver->told_version), "%s", version);
    return true;
}

/* ---- numbers ---- */

static void count_links(const struct driver *driver, struct driver_status *out)
{
    const struct belfry_link *links[] = {belfry_calls_link(driver->calls), belfry_stream_link(driver->live),
                                         belfry_stream_link(driver->back)};
    for (size_t i = 0; i < sizeof(links) / sizeof(links[0]); i++) {
        out->connects += belfry_link_connects(links[i]);
        out->losses += belfry_link_losses(links[i]);
    }
}

void driver_status(const struct driver *driver, struct driver_status *out)
{
    uint64_t now = belfry_clock_ms();
    const char *endpoint = belfry_stream_endpoint(driver->live), *version;
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
        .identity = {.cluster_id = meta.cluster_id, .member_id = meta.member_id, .raft_term = meta.raft_term},
        .disk_trouble = ingest_in_trouble(driver->ingest),
        .given_up = driver->given_up[0] != '\0',
        .barred = driver_barred(driver),
        .backfills = driver->backfills,
        .backfills_done = driver->backfills_done,
        .backfill_revisions = driver->backfill_revisions,
        .keys_listed = upstream_state(driver->upstream) == UPSTREAM_LISTING ? driver->keys_listed : 0,
    };
    if (out->standing != DRIVER_READY)
        describe_line(driver, out->reason, sizeof(out->reason));
    if (out->disk_trouble)
        snprintf(out->disk_why, sizeof(out->disk_why), "%s", ingest_disk_why(driver->ingest));
    if (endpoint != NULL)
        snprintf(out->endpoint, sizeof(out->endpoint), "%s", endpoint);
    if (belfry_stream_version(driver->live, &version))
        snprintf(out->version, sizeof(out->version), "%s", version);
    count_links(driver, out);
    upstream_stats(driver->upstream, &out->stats);
}

/* ---- log lines ---- */

void driver_log_part(enum belfry_log_level level, const char *event, const char *text, void *user)
{
    struct driver *driver = user;
    (void)level; /* what of it matters to people is told as a change of state */
    belfry_logf(driver->log, BELFRY_LOG_DEBUG, event, "%s", text);
}

void driver_log_machine(enum belfry_log_level level, const char *event, const char *text, void *user)
{
    struct driver *driver = user;
    if (strcmp(event, "list") == 0)
        snprintf(driver->list_why, sizeof(driver->list_why), "%s", text);
    if (strcmp(event, "upstream_stale") != 0) /* one name, one meaning: that line is ours */
        driver_log_part(level, event, text, user);
}

/* A word of a shell command: quoted; or `instead`, where it cannot be shown in one line. */
static void quote(struct belfry_bytes word, const char *instead, char *out, size_t len)
{
    size_t n = 0;
    bool plain = word.len + 3 <= len;
    for (size_t i = 0; i < word.len && plain; i++)
        plain = word.data[i] >= ' ' && word.data[i] < 0x7f && strchr("'\"\\", word.data[i]) == NULL;
    if (!plain) {
        snprintf(out, len, "%s", instead);
        return;
    }
    out[n++] = '\'';
    memcpy(out + n, word.data, word.len);
    n += word.len;
    memcpy(out + n, "'", 2);
}

bool driver_is_denied(enum belfry_err err, const char *why)
{
    return err == BELFRY_ERR_DENIED || strstr(why, NO_USER) != NULL;
}

void driver_log_denied(struct driver *driver, const char *why)
{
    char user[128], scope[160];
    const char *name = driver->auth.user, *first = "";
    if (driver->said.denied)
        return;
    driver->said.denied = true;
    quote(belfry_bytes_str(name != NULL ? name : "\n"), "USER", user, sizeof(user));
    quote(driver->whole_scope ? belfry_bytes_str("") : driver->key, "SCOPE", scope, sizeof(scope));
    if (strstr(why, NO_USER) != NULL)
        first = "set --upstream-user and --upstream-password-file (etcdctl user add USER makes one); ";
    else if (name == NULL)
        first = "USER is the CN of --upstream-cert; ";
    belfry_logf(driver->log, BELFRY_LOG_ERROR, "upstream_denied",
                "why=\"%.160s\" hint=\"%sgrant the tier its rights, as root: etcdctl role add belfry; "
                "etcdctl role grant-permission belfry read %s --prefix; etcdctl user grant-role %s belfry\"",
                why, first, scope, user);
}

static void log_link(struct driver *driver)
{
    struct driver_said *said = &driver->said;
    const char *endpoint = belfry_stream_endpoint(driver->live);
    char why[DRIVER_WHY];
    if (driver->refusal[0] != '\0')
        return; /* said once; it is tried again and again */
    if (endpoint != NULL) {
        if (said->link != SAID_CONNECTED || strcmp(said->endpoint, endpoint) != 0)
            belfry_logf(driver->log, BELFRY_LOG_INFO, "upstream_connected", "endpoint=%s", endpoint);
        said->link = SAID_CONNECTED;
        snprintf(said->endpoint, sizeof(said->endpoint), "%s", endpoint);
        return;
    }
    if (said->link == SAID_CONNECTED && belfry_link_conn(belfry_stream_link(driver->live)) != NULL)
        return; /* only the stream is being opened anew */
    if (said->link == SAID_NOTHING || said->link == SAID_CONNECTED) {
        belfry_logf(driver->log, BELFRY_LOG_INFO, "upstream_looking", "endpoints=%zu first=%s why=\"%s\"",
                    driver->n_endpoints, driver->endpoints[0].url,
                    said->link == SAID_NOTHING ? "start" : driver->link_why);
        said->link = SAID_LOOKING;
    }
    bool exhausted = belfry_link_exhausted(belfry_stream_link(driver->live)) ||
                     belfry_link_exhausted(belfry_calls_link(driver->calls));
    if (said->link == SAID_LOOKING && exhausted && describe_links(driver, why, sizeof(why))) {
        belfry_logf(driver->log, BELFRY_LOG_WARN, "upstream_looking", "endpoints=%zu why=\"%s\"", driver->n_endpoints,
                    why);
        said->link = SAID_UNREACHABLE;
    }
}

static void log_diverged(struct driver *driver)
{
    struct upstream_stats stats;
    upstream_stats(driver->upstream, &stats);
    if (stats.relists_rewritten > driver->said.rewritten)
        belfry_logf(driver->log, BELFRY_LOG_WARN, "upstream_diverged", "%s", driver->list_why);
    driver->said.rewritten = stats.relists_rewritten;
}

static void log_live(struct driver *driver)
{
    const char *endpoint = belfry_stream_endpoint(driver->live);
    belfry_logf(driver->log, BELFRY_LOG_INFO, "upstream_live", "endpoint=%s rev=%" PRId64 " past=%" PRIu64,
                endpoint != NULL ? endpoint : "", ingest_head(driver->ingest), ingest_past(driver->ingest));
}

static void log_state(struct driver *driver, uint64_t now)
{
    struct driver_said *said = &driver->said;
    enum upstream_state state = upstream_state(driver->upstream);
    bool moved = state != said->state;
    said->state = state;
    if (state == UPSTREAM_LISTING && moved) {
        belfry_logf(driver->log, BELFRY_LOG_INFO, "upstream_listing", "%s", driver->list_why);
        said->listing_ms = now + LISTING_MS;
    } else if (state == UPSTREAM_LISTING && now >= said->listing_ms) {
        if (belfry_stream_endpoint(driver->live) != NULL)
            belfry_logf(driver->log, BELFRY_LOG_INFO, "upstream_listing", "keys=%" PRIu64, driver->keys_listed);
        said->listing_ms = now + LISTING_MS;
    } else if (state == UPSTREAM_REPLAYING && moved) {
        belfry_logf(driver->log, BELFRY_LOG_INFO, "upstream_replaying", "rev=%" PRId64 " of=%" PRId64,
                    ingest_head(driver->ingest), driver->upstream_revision);
    } else if (state == UPSTREAM_LIVE && moved) {
        said->denied = false;
        log_live(driver);
    }
}

static void log_stale(struct driver *driver)
{
    struct driver_said *said = &driver->said;
    bool stale = driver->standing == DRIVER_STALE;
    if (stale && !said->stale)
        belfry_logf(driver->log, BELFRY_LOG_WARN, "upstream_stale", "rev=%" PRId64 " upstream_rev=%" PRId64,
                    ingest_head(driver->ingest), driver->upstream_revision);
    else if (!stale && said->stale && driver->standing == DRIVER_READY)
        log_live(driver);
    said->stale = stale;
}

static void log_disk(struct driver *driver)
{
    bool trouble = ingest_in_trouble(driver->ingest), stuck = ingest_is_stuck(driver->ingest);
    if (trouble && !driver->said.trouble)
        belfry_logf(driver->log, BELFRY_LOG_ERROR, "disk_trouble",
                    "rev=%" PRId64 " committed=%" PRId64 " why=\"%s\" meanwhile=\"changes are served from memory\"",
                    ingest_head(driver->ingest), ingest_committed(driver->ingest), ingest_disk_why(driver->ingest));
    else if (!trouble && driver->said.trouble)
        belfry_logf(driver->log, BELFRY_LOG_INFO, "disk_recovered", "rev=%" PRId64, ingest_committed(driver->ingest));
    if (stuck && !driver->said.stuck)
        belfry_logf(driver->log, BELFRY_LOG_ERROR, "disk_trouble",
                    "rev=%" PRId64 " committed=%" PRId64 " why=\"%s\" meanwhile=\"memory for changes is used up, too: "
                    "watchers wait\"",
                    ingest_head(driver->ingest), ingest_committed(driver->ingest), ingest_disk_why(driver->ingest));
    driver->said.trouble = trouble;
    driver->said.stuck = trouble && (stuck || driver->said.stuck); /* once until the trouble is over */
}

void driver_log_changes(struct driver *driver, uint64_t now)
{
    log_link(driver);
    log_diverged(driver);
    log_state(driver, now);
    log_stale(driver);
    log_disk(driver);
}

uint64_t driver_log_due(const struct driver *driver)
{
    return driver->said.state == UPSTREAM_LISTING ? driver->said.listing_ms : BELFRY_NEVER;
}
