/* src/cli/doctor/doctor_steps.c */
#include "cli/doctor/doctor_steps.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "cli/out/human_size.h"
#include "judge/etcd_version.h"

#define DAY_S            86400
#define CLOCK_WARN_MS    2000
#define CLOCK_FAIL_MS    30000 /* certificates and tokens that are just made, or about to end, are judged wrongly */
#define LAG_WARN         1000  /* revisions, in each of several looks */
#define DESCRIPTORS_WARN 4096
#define DISK_WARN        (100 * 1024 * 1024) /* bytes */
#define SLOW_US          500000              /* of a member's quickest answer; across an ocean it is 200 ms */

__attribute__((format(printf, 3, 4))) static void find(struct doctor_verdict *v, enum doctor_result result,
                                                       const char *format, ...)
{
    va_list args;
    v->result = result;
    va_start(args, format);
    vsnprintf(v->what, sizeof(v->what), format, args);
    va_end(args);
}

__attribute__((format(printf, 2, 3))) static void advise(struct doctor_verdict *v, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(v->remedy, sizeof(v->remedy), format, args);
    va_end(args);
}

/* Adds to what was found. */
__attribute__((format(printf, 2, 3))) static void find_more(struct doctor_verdict *v, const char *format, ...)
{
    size_t used = strlen(v->what);
    va_list args;
    va_start(args, format);
    vsnprintf(v->what + used, sizeof(v->what) - used, format, args);
    va_end(args);
}

/* A value that a server did not tell. */
static const char *known(const char *text)
{
    return text[0] != '\0' ? text : "?";
}

static double ms(uint64_t us)
{
    return (double)us / 1000;
}

/* ---- the way to the endpoint ---- */

/* An endpoint that is bad is a failure, unless another one is good: clients go there. */
static enum doctor_result bad_endpoint(const struct doctor_facts *facts)
{
    for (size_t i = 0; i < facts->n_reach; i++) {
        const struct doctor_reach *r = &facts->reach[i];
        if (r->name.err == BELFRY_OK && r->connect.err == BELFRY_OK && r->tls.err == BELFRY_OK && !r->wants_tls)
            return DOCTOR_WARN;
    }
    return DOCTOR_FAIL;
}

static void judge_name(const struct doctor_facts *facts, struct doctor_verdict *v)
{
    v->result = DOCTOR_NONE;
    for (size_t i = 0; i < facts->n_reach; i++) {
        const struct doctor_reach *r = &facts->reach[i];
        if (r->endpoint.is_unix)
            continue;
        if (r->name.err != BELFRY_OK) {
            find(v, bad_endpoint(facts), "%s does not resolve: %s", r->endpoint.host, r->name.why);
            advise(v, "check the name in --endpoints, DNS and /etc/hosts");
            return;
        }
        v->result = DOCTOR_OK;
        find_more(v, "%s%s is ", v->what[0] != '\0' ? ", " : "", r->endpoint.host);
        if (strcmp(r->endpoint.host, r->address) == 0)
            find_more(v, "an address");
        else
            find_more(v, "%s (%.1f ms)", known(r->address), ms(r->name.took_us));
    }
}

static void judge_connect(const struct doctor_facts *facts, struct doctor_verdict *v)
{
    for (size_t i = 0; i < facts->n_reach; i++) {
        const struct doctor_reach *r = &facts->reach[i];
        if (r->name.err != BELFRY_OK)
            continue;
        if (r->connect.err != BELFRY_OK) {
            find(v, bad_endpoint(facts), "%s: %s", r->endpoint.url, r->connect.why);
            if (r->endpoint.is_unix)
                advise(v, "does a belfryd listen there, and may this user connect? See systemctl status belfryd");
            else
                advise(v,
                       r->connect.err == BELFRY_ERR_TIMEOUT
                           ? "is the machine up, and does a firewall block port %u?"
                           : "does a belfryd listen on port %u there? systemctl status belfryd",
                       (unsigned)r->endpoint.port);
            return;
        }
        find_more(v, "%s%s (%.1f ms)", v->what[0] != '\0' ? ", " : "",
                  r->endpoint.is_unix ? r->endpoint.url : r->endpoint.authority, ms(r->connect.took_us));
    }
}

/* The names of the certificate, if the server has shown one. */
static void find_names(struct doctor_verdict *v, const struct doctor_reach *r)
{
    if (r->has_peer)
        find_more(v, "; it is for %s, signed by \"%s\"", r->peer.names[0] != '\0' ? r->peer.names : "no name",
                  known(r->peer.issuer));
}

/* The library's sentence is "finding; remedy". */
static void judge_handshake(const struct doctor_facts *facts, const struct doctor_reach *r, struct doctor_verdict *v)
{
    const char *semicolon = strstr(r->tls.why, "; ");
    int len = semicolon != NULL ? (int)(semicolon - r->tls.why) : (int)strlen(r->tls.why);
    find(v, bad_endpoint(facts), "%s: %.*s", r->endpoint.url, len, r->tls.why);
    find_names(v, r);
    advise(v, "%s", semicolon != NULL ? semicolon + 2 : "see --cacert, --cert, --key and --server-name");
    if (strstr(r->tls.why, "unable to get local issuer") != NULL || strstr(r->tls.why, "self-signed") != NULL ||
        strstr(r->tls.why, "self signed") != NULL)
        advise(v, "--cacert must name a file with the certificate of the authority that signed it");
}

static void judge_tls(const struct doctor_facts *facts, struct doctor_verdict *v)
{
    const struct doctor_reach *shown = NULL;
    for (size_t i = 0; i < facts->n_reach; i++) {
        const struct doctor_reach *r = &facts->reach[i];
        if (r->name.err != BELFRY_OK || r->connect.err != BELFRY_OK)
            continue;
        if (r->wants_tls) {
            find(v, bad_endpoint(facts), "%s: the server speaks TLS, and the endpoint says http", r->endpoint.url);
            advise(v, "write https://%s", r->endpoint.authority);
            return;
        }
        if (r->is_plain) {
            find(v, bad_endpoint(facts), "%s: the server speaks plain HTTP, and the endpoint says https",
                 r->endpoint.url);
            advise(v, "write http://%s", r->endpoint.authority);
            return;
        }
        if (r->endpoint.tls && r->tls.err != BELFRY_OK) {
            judge_handshake(facts, r, v);
            return;
        }
        if (r->has_peer && shown == NULL)
            shown = r;
    }
    if (shown == NULL)
        find(v, DOCTOR_OK, "none: the endpoint is plain http");
    else
        find(v, DOCTOR_OK, "the certificate of %s is for %s, signed by \"%s\"", shown->endpoint.authority,
             known(shown->peer.names), known(shown->peer.issuer));
}

static void print_day(int64_t unix_s, char out[32])
{
    time_t at = (time_t)unix_s;
    struct tm tm;
    if (gmtime_r(&at, &tm) == NULL || strftime(out, 32, "%Y-%m-%d %H:%M UTC", &tm) == 0)
        snprintf(out, 32, "?");
}

/* The same number of days is long for some certificates and short for others: one that lives for an hour is no trouble
 * while most of the hour is left. */
static bool ends_soon(const struct belfry_tls_peer *peer, int64_t left_s)
{
    return left_s < (int64_t)30 * DAY_S && left_s < (peer->expires_s - peer->begins_s) / 5;
}

static void judge_certificate(const struct doctor_facts *facts, struct doctor_verdict *v)
{
    v->result = DOCTOR_NONE;
    for (size_t i = 0; i < facts->n_reach && v->result != DOCTOR_WARN; i++) {
        const struct belfry_tls_peer *peer = &facts->reach[i].peer;
        int64_t left_s = peer->expires_s - facts->now_s;
        char until[32];
        if (!facts->reach[i].has_peer)
            continue;
        print_day(peer->expires_s, until);
        bool days = left_s >= 2 * DAY_S;
        find(v, ends_soon(peer, left_s) ? DOCTOR_WARN : DOCTOR_OK, "%s: valid for %" PRId64 " %s more (until %s)",
             facts->reach[i].endpoint.authority, left_s / (days ? DAY_S : 3600), days ? "days" : "hours", until);
    }
    if (v->result == DOCTOR_WARN)
        advise(v, "renew it: the tier reads the file again by itself");
    if (v->result == DOCTOR_WARN || !facts->admin.asked || facts->admin.certificate_left_s >= DAY_S)
        return;
    find(v, facts->admin.certificate_left_s == 0 ? DOCTOR_FAIL : DOCTOR_WARN,
         "the tier's own certificate for upstream %s",
         facts->admin.certificate_left_s == 0 ? "has expired" : "expires within a day");
    advise(v, "renew the file of --upstream-cert: the tier reads it again by itself");
}

/* ---- the tier ---- */

static void judge_tier(const struct doctor_facts *facts, struct doctor_verdict *v)
{
    const struct doctor_admin *a = &facts->admin;
    if (!a->asked) {
        find(v, DOCTOR_SKIP, "the tier is on another machine");
        advise(v, "--admin URL of the belfryd adds the steps about the tier itself");
    } else if (a->page.err != BELFRY_OK) {
        find(v, a->given ? DOCTOR_FAIL : DOCTOR_SKIP, "the admin address does not answer: %s", a->page.why);
        advise(v, "is a belfryd running? --admin URL adds the steps about the tier itself");
    } else {
        find(v, DOCTOR_OK, "belfryd %s \"%s\", up %" PRIu64 " h %" PRIu64 " min", known(a->version), known(a->name),
             a->up_ms / 3600000, a->up_ms / 60000 % 60);
    }
}

static void judge_disk(const struct doctor_facts *facts, struct doctor_verdict *v)
{
    const struct doctor_admin *a = &facts->admin;
    char size[HUMAN_SIZE];
    if (a->disk_trouble) {
        find(v, DOCTOR_FAIL, "the replica cannot be written: %s", a->disk_why);
        advise(v, "free some space there; the tier then continues by itself");
        return;
    }
    if (a->disk_free_bytes == UINT64_MAX) {
        v->result = DOCTOR_NONE;
        return;
    }
    human_size((int64_t)a->disk_free_bytes, size);
    find(v, a->disk_free_bytes < DISK_WARN ? DOCTOR_WARN : DOCTOR_OK, "%s free under the replica", size);
    if (v->result == DOCTOR_WARN)
        advise(v, "free some space there, or lower --history-bytes");
}

/* The tier knows what is wrong, and says what to do. An older one does not. */
static void advise_upstream(struct doctor_verdict *v, const char *hint)
{
    advise(v, "%s",
           hint[0] != '\0'
               ? hint
               : "is upstream up, and can the tier's machine reach it? Clients keep their places meanwhile");
}

static bool is_stale(const struct doctor_admin *a)
{
    return strcmp(a->standing, "stale") == 0;
}

/* A level above this tier is in trouble, and this tier only for that reason. */
static bool judge_above(const struct doctor_admin *a, struct doctor_verdict *v)
{
    if (!a->has_broken || a->broken_level == 0)
        return false;
    bool ready = strcmp(a->standing, "ready") == 0;
    find(v, ready ? DOCTOR_WARN : DOCTOR_FAIL, "%s", a->broken_what);
    if (a->broken_ms > 0)
        find_more(v, ", for %" PRIu64 " s", a->broken_ms / 1000);
    find_more(v, "; this tier, %zu level%s below %s, is %s", a->broken_level, a->broken_level == 1 ? "" : "s",
              a->broken_name, ready ? "ready still" : a->standing);
    advise(v, "run belfryctl doctor on %s: the levels below recover by themselves", a->broken_name);
    return true;
}

/* A stale tier that has lost its connection is cut off; one that has it and hears nothing has a stale replica. */
static void judge_upstream(const struct doctor_facts *facts, struct doctor_verdict *v)
{
    const struct doctor_admin *a = &facts->admin;
    if (!a->answered) {
        find(v, DOCTOR_FAIL, "the thread that follows upstream does not answer");
        advise(v, "restart the tier, and report it with its log: that is a bug");
        return;
    }
    if (judge_above(a, v))
        return;
    bool ready = strcmp(a->standing, "ready") == 0;
    if (!ready && !(is_stale(a) && a->endpoint[0] != '\0')) {
        find(v, DOCTOR_FAIL, "the tier %s: %s",
             is_stale(a) ? "is cut off from upstream, and its replica is stale" : "is not ready",
             a->reason[0] != '\0' ? a->reason : "it does not say why");
        advise_upstream(v, a->upstream_hint);
        return;
    }
    if (a->endpoint[0] == '\0' && !a->is_kube) {
        find(v, DOCTOR_WARN, "no connection to upstream: %s",
             a->reason[0] != '\0' ? a->reason : "the tier connects again");
        if (a->silent_ms != UINT64_MAX)
            find_more(v, "; what it serves is %.1f s old, and stale after 5 s", (double)a->silent_ms / 1000);
        advise_upstream(v, a->upstream_hint);
        return;
    }
    for (size_t i = 0; i < a->n_endpoints; i++)
        if (a->barred[i]) {
            find(v, DOCTOR_WARN, "%s leads back to this tier, in a circle: it is not used", a->endpoints[i].url);
            advise(v, "take it out of --upstream");
            return;
        }
    find(v, DOCTOR_OK, "follows %s", a->endpoint[0] != '\0' ? a->endpoint : "the API server");
}

static void judge_resources(const struct doctor_facts *facts, struct doctor_verdict *v)
{
    const struct doctor_admin *a = &facts->admin;
    if (a->n_ready == a->n_resources) {
        find(v, DOCTOR_OK, "%zu followed, all ready", a->n_resources);
        return;
    }
    find(v, DOCTOR_FAIL, "%zu of %zu are not ready: %s", a->n_resources - a->n_ready, a->n_resources,
         a->resource_why[0] != '\0' ? a->resource_why : "they are listed now");
    advise_upstream(v, a->resource_hint);
}

static void judge_replica(const struct doctor_facts *facts, struct doctor_verdict *v)
{
    const struct doctor_admin *a = &facts->admin;
    if (is_stale(a)) {
        find(v, DOCTOR_FAIL, "the replica is stale: %s says nothing (%s)", known(a->endpoint), known(a->reason));
        advise(v, "look at that member: does it have a leader, is it stopped or overloaded?");
    } else if (a->damages > 0 || a->io_errors > 0) {
        find(v, DOCTOR_WARN, "%" PRIu64 " damages and %" PRIu64 " failed reads or writes since the start", a->damages,
             a->io_errors);
        advise(v, "check the disk and the memory of the machine; belfryd's log has each");
    } else {
        find(v, DOCTOR_OK, "at revision %" PRId64, a->revision);
    }
}

/* Each level, etcd first: "etcd > core-1 > edge-7". The first that is in trouble counts. */
static void judge_levels(const struct doctor_admin *a, struct doctor_verdict *v)
{
    for (size_t i = 0; i < a->n_levels; i++) {
        const struct doctor_level *l = &a->levels[i];
        bool lags = l->lag > LAG_WARN;
        if (!lags && (l->standing[0] == '\0' || strcmp(l->standing, "ready") == 0))
            continue;
        if (lags)
            find(v, DOCTOR_WARN, "%s is %" PRIu64 " revisions behind the level above it", known(l->name), l->lag);
        else
            find(v, DOCTOR_WARN, "%s, level %zu above this tier, is %s", known(l->name), a->n_levels - 1 - i,
                 strcmp(l->standing, "?") == 0 ? "silent" : l->standing);
        advise(v, "run belfryctl doctor on %s", l->name);
        if (lags)
            advise(v, "is the link to %s slow, or its machine busy? belfryctl tree shows every level", l->name);
        return;
    }
}

/* A tier on a slow link does not know what upstream has. The members were asked before the tier was, so whatever is
 * missing here is at least as late as the time between. With a scope, the revisions of a tier have gaps. */
static void judge_behind(const struct doctor_facts *facts, struct doctor_verdict *v)
{
    const struct doctor_admin *a = &facts->admin;
    const struct doctor_member *ahead = NULL;
    for (size_t i = 0; i < facts->n_members; i++)
        if (facts->members[i].status.err == BELFRY_OK &&
            (ahead == NULL || facts->members[i].revision > ahead->revision))
            ahead = &facts->members[i];
    if (ahead == NULL || a->scope[0] != '\0' || a->n_levels == 0)
        return;
    int64_t here = a->levels[a->n_levels - 1].revision;
    if (ahead->revision - here <= LAG_WARN)
        return;
    find(v, DOCTOR_WARN, "%s is %" PRId64 " revisions behind %s", known(a->name), ahead->revision - here, ahead->url);
    advise(v, "is the link to upstream slow, or the machine busy?");
}

static void judge_lag(const struct doctor_facts *facts, struct doctor_verdict *v)
{
    const struct doctor_admin *a = &facts->admin;
    for (size_t i = 0; i < a->n_levels; i++) {
        const struct doctor_level *l = &a->levels[i];
        find_more(v, "%s%s", i > 0 ? " > " : "", known(l->name));
        if (i > 0)
            find_more(v, " %" PRIu64 " rev", l->lag);
        if (l->has_hop)
            find_more(v, ", %.1f ms", ms(l->hop_us));
    }
    if (a->n_levels == 0)
        find(v, DOCTOR_OK, "the tier does not show the levels above it");
    judge_levels(a, v);
    if (v->result == DOCTOR_OK)
        judge_behind(facts, v);
    if (a->lag_why[0] == '\0' || v->result != DOCTOR_OK)
        return;
    find(v, DOCTOR_FAIL, "the tier is %s", a->lag_why);
    advise(v, "is the link to upstream slow, or the machine busy? belfryctl tree shows every level");
}

static void judge_clock(const struct doctor_facts *facts, struct doctor_verdict *v)
{
    const struct doctor_admin *a = &facts->admin;
    uint64_t off = (uint64_t)(a->clock_ahead_ms < 0 ? -a->clock_ahead_ms : a->clock_ahead_ms);
    uint64_t sure = off > a->clock_error_ms ? off - a->clock_error_ms : 0;
    if (!a->has_clock) {
        v->result = DOCTOR_NONE;
        return;
    }
    if (sure < CLOCK_WARN_MS) {
        find(v, DOCTOR_OK, "the tier's clock and that of this machine agree");
        return;
    }
    find(v, sure < CLOCK_FAIL_MS ? DOCTOR_WARN : DOCTOR_FAIL,
         "the tier's clock is %.0f s %s that of this machine: certificates and tokens depend on it", (double)off / 1000,
         a->clock_ahead_ms > 0 ? "ahead of" : "behind");
    advise(v, "timedatectl on both machines says which of the two is wrong");
}

static void judge_descriptors(const struct doctor_facts *facts, struct doctor_verdict *v)
{
    const struct doctor_admin *a = &facts->admin;
    if (a->refused > 0)
        find(v, DOCTOR_FAIL, "%" PRIu64 " connections were refused since the start: no descriptor was left",
             a->refused);
    else if (a->descriptors == 0)
        v->result = DOCTOR_NONE;
    else
        find(v, a->descriptors < DESCRIPTORS_WARN || a->connections > a->descriptors / 10 * 8 ? DOCTOR_WARN : DOCTOR_OK,
             "%" PRIu64 " allowed; there are %" PRIu64 " connections", a->descriptors, a->connections);
    if (v->result == DOCTOR_WARN || v->result == DOCTOR_FAIL)
        advise(v, "raise the limit of descriptors: LimitNOFILE=1048576 in the unit, or ulimit -n");
}

static void judge_pools(const struct doctor_facts *facts, struct doctor_verdict *v)
{
    const struct doctor_admin *a = &facts->admin;
    if (a->n_troubles > 0) {
        find(v, DOCTOR_WARN, "%s", a->troubles[0]);
        if (a->n_troubles > 1)
            find_more(v, " (and %zu pools more)", a->n_troubles - 1);
        advise(v, "belfryctl top --clients shows what that client does; docs/operations.md says what to do");
    } else if (a->client[0] != '\0') {
        find(v, DOCTOR_OK, "room in all; of %zu client%s %s costs most, %.0f %% of the work", a->n_clients,
             a->n_clients == 1 ? "" : "s", a->client, a->client_percent);
    } else {
        find(v, DOCTOR_OK, "room in all; no clients");
    }
}

static void judge_auth(const struct doctor_facts *facts, struct doctor_verdict *v)
{
    if (facts->admin.rights_why[0] == '\0') {
        v->result = DOCTOR_NONE;
        return;
    }
    find(v, DOCTOR_FAIL, "%s: the listener rejects every client", facts->admin.rights_why);
    advise(v, "%s", facts->admin.rights_hint);
}

/* The one verdict that /readyz, the page and top have, too. */
static void judge_ready(const struct doctor_facts *facts, struct doctor_verdict *v)
{
    const struct doctor_admin *a = &facts->admin;
    if (a->verdict[0] != '\0' && strcmp(a->verdict, "ready") != 0) {
        find(v, DOCTOR_FAIL, "%s: %s", a->verdict, a->ready_why);
        advise(v, "%s", a->ready_hint[0] != '\0' ? a->ready_hint : "the tier's log says more");
    } else if (a->lost_why[0] != '\0') {
        find(v, DOCTOR_WARN, "%s", a->lost_why);
        advise(v, "%s", a->lost_hint);
    } else {
        v->result = DOCTOR_NONE;
    }
}

/* ---- the client ---- */

/* Keys are compared as bytes; a range that begins outside is outside. */
static void judge_scope(const struct doctor_facts *facts, struct doctor_verdict *v)
{
    const char *scope = facts->admin.scope, *key = facts->client.range;
    if (scope[0] == '\0') {
        v->result = DOCTOR_NONE;
        return;
    }
    if (strncmp(key, scope, strlen(scope)) == 0) {
        find(v, DOCTOR_OK, "the tier follows %s", scope);
        return;
    }
    find(v, DOCTOR_FAIL, "%s is outside of what the tier follows, %s: it serves no watch of it", key, scope);
    advise(v, "widen --scope of the tier, or use another tier");
}

static void judge_identity(const struct doctor_facts *facts, struct doctor_verdict *v)
{
    const struct doctor_client *c = &facts->client;
    if (c->answer.err == BELFRY_ERR_AUTH || c->answer.err == BELFRY_ERR_TLS) {
        find(v, DOCTOR_FAIL, "%s", c->answer.why);
        advise(v, c->answer.err == BELFRY_ERR_AUTH
                      ? "log in with --user NAME and --password-file, or show a certificate with --cert and --key"
                      : "the server asks for a certificate: --cert and --key");
    } else if (c->answer.err != BELFRY_OK && c->answer.err != BELFRY_ERR_DENIED) {
        find(v, DOCTOR_FAIL, "no good answer: %s", c->answer.why);
        advise(v, "is that an etcd or a belfryd, and is it ready?");
    } else if (c->user[0] != '\0') {
        find(v, DOCTOR_OK, "user \"%s\" (%.1f ms)", c->user, ms(c->answer.took_us));
    } else {
        find(v, DOCTOR_OK, "%s (%.1f ms)", c->has_certificate ? "a certificate" : "none given, none asked for",
             ms(c->answer.took_us));
    }
}

static void judge_rights(const struct doctor_facts *facts, struct doctor_verdict *v)
{
    const struct doctor_client *c = &facts->client;
    const struct doctor_try *bad = c->read.err != BELFRY_OK ? &c->read : &c->watch;
    if (bad->err == BELFRY_OK) {
        find(v, DOCTOR_OK, "may read and watch %s%s: %" PRId64 " key%s", c->range, c->prefix ? "*" : "", c->count,
             c->count == 1 ? "" : "s");
        return;
    }
    find(v, DOCTOR_FAIL, "%s%s%s%s may not be %s: %s", c->user[0] != '\0' ? c->user : "",
         c->user[0] != '\0' ? ": " : "", c->range, c->prefix ? "*" : "", bad == &c->read ? "read" : "watched",
         bad->why);
    if (bad->err == BELFRY_ERR_DENIED)
        advise(v, "grant it: etcdctl role grant-permission ROLE read %s%s", c->range, c->prefix ? " --prefix" : "");
    else if (bad->err == BELFRY_ERR_AUTH)
        advise(v, "log in with --user NAME and --password-file");
    else
        advise(v, "the server's words say what is in the way; another endpoint may serve it");
}

/* ---- above ---- */

static void judge_advertise(const struct doctor_facts *facts, struct doctor_verdict *v)
{
    if (!facts->admin.has_settings) {
        v->result = DOCTOR_NONE;
        return;
    }
    if (facts->admin.advertise[0] != '\0') {
        find(v, DOCTOR_OK, "%s", facts->admin.advertise);
        return;
    }
    find(v, DOCTOR_WARN, "the tier advertises no address: clients that sync their endpoints leave it for upstream");
    advise(v, "start it with --advertise URL, by which clients reach it");
}

/* With TLS 1.3 a server rejects a client's certificate after the handshake: the call then fails for want of an
 * endpoint, and only the library's sentence knows why. */
static bool is_tls_failure(const struct doctor_try *try)
{
    return try->err == BELFRY_ERR_TLS || strstr(try->why, "TLS failed: ") != NULL;
}

/* Not reached, refused, or up and not able to answer: each has its own remedy. */
static void judge_member_that_fails(const struct doctor_member *m, enum doctor_result result, struct doctor_verdict *v)
{
    bool named = strncmp(m->status.why, m->url, strlen(m->url)) == 0; /* the library begins with it */
    const char *why = named ? m->status.why + strlen(m->url) : m->status.why;
    why += strspn(why, ": ");
    if (m->status.err == BELFRY_ERR_AUTH || m->status.err == BELFRY_ERR_DENIED) {
        find(v, result, "%s rejects the credentials that doctor has: %s", m->url, why);
        advise(v, "doctor asks members as it asks the tier: give --user and --password-file that both accept");
    } else if (is_tls_failure(&m->status)) {
        find(v, result, "%s and doctor agree on no TLS connection: %s", m->url, why);
        advise(v, "give --cacert, --cert and --key that the member accepts (the tier has its own: --upstream-cert)");
    } else if (m->reached) {
        find(v, result, "%s is up, and cannot answer: %s", m->url, why);
        advise(v, "a member without a leader, or a tier that is cut off, answers so: look there");
    } else {
        find(v, result, "%s does not answer: %s", m->url, why);
        advise(v, "start that member, or take it out of --upstream (it was asked from this machine)");
    }
}

static void judge_members(const struct doctor_facts *facts, struct doctor_verdict *v)
{
    size_t good = 0;
    for (size_t i = 0; i < facts->n_members; i++)
        good += facts->members[i].status.err == BELFRY_OK;
    if (facts->n_members == 0) {
        v->result = DOCTOR_NONE;
        return;
    }
    const struct doctor_admin *a = &facts->admin;
    if (good == 0 && a->asked && strcmp(a->standing, "ready") == 0 && a->endpoint[0] != '\0') {
        find(v, DOCTOR_SKIP, "the tier follows upstream, which does not answer doctor: %s",
             facts->members[0].status.why);
        advise(v, "run doctor on the tier's machine, or give the credentials for upstream");
        return;
    }
    for (size_t i = 0; i < facts->n_members; i++) {
        const struct doctor_member *m = &facts->members[i];
        if (m->status.err != BELFRY_OK) {
            judge_member_that_fails(m, good > 0 ? DOCTOR_WARN : DOCTOR_FAIL, v);
        } else if (m->leader == 0) {
            find(v, DOCTOR_FAIL, "%s has no leader", m->url);
            advise(v, "most members of etcd must be up and reach each other");
        } else if (m->errors[0] != '\0') {
            find(v, DOCTOR_FAIL, "%s: %s", m->url, m->errors);
            advise(v, "etcdctl alarm list; etcd's maintenance guide says what to do");
        } else if (m->status.took_us > SLOW_US) {
            find(v, DOCTOR_WARN, "%s is slow: %.0f ms for its quickest answer", m->url, ms(m->status.took_us));
            advise(v, "look at that member's disk and load, and at the link to it");
        } else {
            continue;
        }
        return;
    }
    for (size_t i = 0; i < facts->n_members; i++)
        find_more(v, "%s%s (%.1f ms)", i > 0 ? ", " : "", facts->members[i].url, ms(facts->members[i].status.took_us));
}

/* True: there is something against it. */
static bool judge_version(const struct doctor_facts *facts, const char *version, const char *where,
                          struct doctor_verdict *v)
{
    const char *bug = "";
    char better[ETCD_VERSION_TEXT];
    enum etcd_version verdict = etcd_version_judge(version, facts->admin.scope[0] == '\0', &bug);
    if (verdict == ETCD_VERSION_GOOD) {
        find(v, DOCTOR_OK, "etcd %s: no known watch bugs", version);
        return false;
    }
    find(v, verdict == ETCD_VERSION_REFUSED ? DOCTOR_FAIL : DOCTOR_WARN, "etcd %s on %s: %s", version, where, bug);
    if (etcd_version_upgrade(version, better))
        advise(v, "upgrade it to %s or later", better);
    return true;
}

/* Of members that were not asked, the tree knows one. A level that reports no standing is etcd. */
static void judge_versions(const struct doctor_facts *facts, struct doctor_verdict *v)
{
    const struct doctor_level *highest = &facts->admin.levels[0];
    v->result = DOCTOR_NONE;
    for (size_t i = 0; i < facts->n_members; i++)
        if (facts->members[i].version[0] != '\0' &&
            judge_version(facts, facts->members[i].version, facts->members[i].url, v))
            return;
    if (v->result == DOCTOR_NONE && facts->admin.n_levels > 1 && highest->standing[0] == '\0' &&
        highest->version[0] != '\0')
        (void)judge_version(facts, highest->version, highest->name, v);
}

/* "etcd > core-1 0.40 ms (rtt/2) > edge-7 0.24 ms" */
static void find_hops(struct doctor_verdict *v, const struct doctor_admin *a)
{
    for (size_t i = 0; i < a->n_levels; i++) {
        const struct doctor_level *l = &a->levels[i];
        find_more(v, "%s%s", i == 0 ? "; hops: " : " > ", known(l->name));
        if (l->has_hop)
            find_more(v, " %.2f ms%s", ms(l->hop_us), l->is_guess ? " (rtt/2)" : "");
    }
}

static void judge_write(const struct doctor_facts *facts, struct doctor_verdict *v)
{
    const struct doctor_write *w = &facts->write;
    if (w->exists) {
        find(v, DOCTOR_FAIL, "%s exists: nothing was written", w->key);
        advise(v, "give --write-key a key that is not in use");
    } else if (w->put.err != BELFRY_OK) {
        find(v, DOCTOR_FAIL, "%s cannot be written: %s", w->key, w->put.why);
        advise(v, "the user needs the right to read and write --write-key");
    } else if (!w->seen_here) {
        find(v, DOCTOR_FAIL, "revision %" PRId64 " was written in %.1f ms, and this tier has not sent it in time",
             w->revision, ms(w->put.took_us));
        advise(v, "belfryctl tree shows at which level it is");
    } else {
        find(v, DOCTOR_OK, "revision %" PRId64 ": written in %.1f ms", w->revision, ms(w->put.took_us));
        if (w->seen_upstream)
            find_more(v, ", upstream sent it after %.1f ms", ms(w->upstream_us));
        find_more(v, ", this tier after %.1f ms", ms(w->here_us));
        find_hops(v, &facts->admin);
        if (w->removed.err != BELFRY_OK) {
            v->result = DOCTOR_WARN;
            find_more(v, "; the key is still there: %s", w->removed.why);
            advise(v, "delete %s", w->key);
        }
    }
}

/* ---- the table ---- */

#define NEEDS(step) (1u << (step))
#define ON_TIER     NEEDS(STEP_TIER)

static bool follows_kube(const struct doctor_facts *facts)
{
    return facts->admin.is_kube;
}

/* Or it is not known what it follows. */
static bool follows_etcd(const struct doctor_facts *facts)
{
    return !facts->admin.is_kube;
}

static bool names_range(const struct doctor_facts *facts)
{
    return follows_etcd(facts) && facts->client.asks_range;
}

static bool writes(const struct doctor_facts *facts)
{
    return follows_etcd(facts) && facts->write.wanted;
}

const struct doctor_step doctor_steps[N_STEPS] = {
    [STEP_NAME] = {"name", 0, 0, judge_name, NULL},
    [STEP_CONNECT] = {"connect", NEEDS(STEP_NAME), 0, judge_connect, NULL},
    [STEP_TLS] = {"tls", NEEDS(STEP_CONNECT), 0, judge_tls, NULL},
    [STEP_CERTIFICATE] = {"certificate", NEEDS(STEP_TLS), 0, judge_certificate, NULL},
    [STEP_TIER] = {"tier", 0, 0, judge_tier, NULL},
    [STEP_DISK] = {"disk", ON_TIER, 0, judge_disk, NULL},
    [STEP_UPSTREAM] = {"upstream", ON_TIER, 0, judge_upstream, NULL},
    [STEP_RESOURCES] = {"resources", ON_TIER | NEEDS(STEP_UPSTREAM), 0, judge_resources, follows_kube},
    [STEP_REPLICA] = {"replica", ON_TIER | NEEDS(STEP_UPSTREAM), 0, judge_replica, follows_etcd},
    [STEP_LAG] = {"lag", ON_TIER | NEEDS(STEP_UPSTREAM), 0, judge_lag, follows_etcd},
    [STEP_CLOCK] = {"clock", ON_TIER, 0, judge_clock, NULL},
    [STEP_DESCRIPTORS] = {"descriptors", ON_TIER, 0, judge_descriptors, NULL},
    [STEP_POOLS] = {"pools", ON_TIER, 0, judge_pools, NULL},
    [STEP_AUTH] = {"auth", ON_TIER | NEEDS(STEP_UPSTREAM), 0, judge_auth, NULL},
    [STEP_READY] = {"ready", ON_TIER, 0, judge_ready, NULL},
    [STEP_SCOPE] = {"scope", ON_TIER, 0, judge_scope, names_range},
    [STEP_IDENTITY] = {"identity", NEEDS(STEP_TLS), NEEDS(STEP_UPSTREAM) | NEEDS(STEP_AUTH), judge_identity,
                       follows_etcd},
    [STEP_RIGHTS] = {"rights", NEEDS(STEP_IDENTITY), 0, judge_rights, names_range},
    [STEP_ADVERTISE] = {"advertise", ON_TIER, 0, judge_advertise, NULL},
    [STEP_MEMBERS] = {"members", 0, 0, judge_members, follows_etcd},
    [STEP_VERSIONS] = {"versions", 0, 0, judge_versions, follows_etcd},
    [STEP_WRITE] = {"write", NEEDS(STEP_IDENTITY), 0, judge_write, writes},
};

enum doctor_run doctor_runs(enum doctor_step_id step, const struct doctor_facts *facts,
                            const enum doctor_result *results)
{
    const struct doctor_step *s = &doctor_steps[step];
    if (s->wanted != NULL && !s->wanted(facts))
        return DOCTOR_NOT_WANTED;
    for (unsigned before = 0; before < (unsigned)step; before++) {
        bool failed = results[before] == DOCTOR_FAIL, skipped = results[before] == DOCTOR_SKIP;
        if ((s->needs >> before & 1) != 0 && (failed || skipped))
            return DOCTOR_SKIPPED;
        if ((s->spoiled >> before & 1) != 0 && failed)
            return DOCTOR_SKIPPED;
    }
    return DOCTOR_RUNS;
}

void doctor_judge(enum doctor_step_id step, const struct doctor_facts *facts, const enum doctor_result *results,
                  struct doctor_verdict *out)
{
    enum doctor_run run = doctor_runs(step, facts, results);
    *out = (struct doctor_verdict){.result = run == DOCTOR_SKIPPED ? DOCTOR_SKIP : DOCTOR_NONE};
    if (run != DOCTOR_RUNS)
        return;
    out->result = DOCTOR_OK;
    doctor_steps[step].judge(facts, out);
}

const char *doctor_result_name(enum doctor_result result)
{
    static const char *const names[] = {
        [DOCTOR_OK] = "ok", [DOCTOR_WARN] = "warn", [DOCTOR_FAIL] = "fail", [DOCTOR_SKIP] = "skip", [DOCTOR_NONE] = ""};
    return names[result];
}
