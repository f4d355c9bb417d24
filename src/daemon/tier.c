/* src/daemon/tier.c */
#include "daemon/tier.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/owner.h"
#include "daemon/advertise.h"
#include "daemon/etcd_tier.h"
#include "daemon/kube_tier.h"
#include "daemon/limits.h"
#include "daemon/seed.h"
#include "daemon/service.h"
#include "daemon/tier_parts.h"
#include "daemon/worker_thread.h"
#include "serve/admin/metrics.h"
#include "serve/admin/pools.h"
#include "server/refusal.h"

#define HAND_MS        2000
#define GATHERING_MS   2000 /* after which answers are left out */
#define GATHERINGS_MAX 64   /* at a time */

/* What a worker was handed in the last moments. */
struct hand {
    uint64_t since_ms;
    size_t n;
};

struct tier {
    /* fixed */
    struct tier_opts opts;
    char word[VIA_WORD_BYTES + 1]; /* our name, as other tiers see it */
    const char *advertise;         /* what MemberList shows; NULL: what upstream says */
    struct limits *limits;
    uint64_t started_ms;
    double process_start_s;
    struct tier_parts *parts;
    /* the front's */
    struct tier_workers workers;
    struct hand *hands;            /* of each */
    struct belfry_list gatherings; /* of gathering.node: those under way */
    size_t n_gatherings;
    uv_timer_t *timer; /* until answers are left out; the loop's own once it is closing; NULL: not there */
    struct listener_stats listeners;
    struct admin_numbers admin;
    int64_t listeners_expire_s;
    uint64_t refused; /* connections over connections_max */
    bool draining, stopped;
    BELFRY_OWNER;
};

/* ---- a question to every worker, and to ingest ---- */

/* One part of the question, on its way to a thread and back. */
struct part {
    struct worker_thread_ask ask; /* first: its mail is the part's */
    struct gathering *gathering;
    struct ingest_thread_numbers ingest; /* ingest's part */
    bool back;
};

/* Parts come back one by one, until all are there or GATHERING_MS have passed: then it tells, once. A part that comes
 * later is left out; the memory goes with the last of them. */
struct gathering {
    struct belfry_list node;
    struct tier *tier;
    uint64_t until_ms;
    size_t n_parts, n_out; /* the workers', then ingest's for numbers */
    bool told;
    admin_numbers_fn numbers_fn; /* this or one of the next two */
    admin_scans_fn scans_fn;
    admin_clients_fn clients_fn;
    void *fn_user;
    struct part parts[];
};

static void gathering_tell_numbers(struct gathering *gathering)
{
    struct tier *tier = gathering->tier;
    const struct config *config = tier->opts.config;
    struct timespec clock;
    struct rlimit limit;
    struct statvfs disk;
    clock_gettime(CLOCK_REALTIME, &clock);

    /* what the front knows by itself */
    struct tier_numbers numbers = {
        .now_ms = belfry_clock_ms(),
        .started_ms = tier->started_ms,
        .process_start_s = tier->process_start_s,
        .name = config->name,
        .version = BELFRY_VERSION,
        .draining = tier->draining,
        .ready_lag_ms = config->ready_lag_ms,
        .listeners = tier->listeners,
        .admin = tier->admin,
        .listeners_left_s = tier_seconds_until(tier->listeners_expire_s),
        .clock_ms = (uint64_t)clock.tv_sec * 1000 + (uint64_t)clock.tv_nsec / 1000000,
        .descriptors = getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : 0,
        .disk_free_bytes =
            statvfs(config->cache_dir, &disk) == 0 ? (uint64_t)disk.f_bavail * disk.f_frsize : BELFRY_NEVER,
        .advertise = tier->advertise,
        .memory_max = tier->limits->memory,
    };
    numbers.listeners.refused += tier->refused;
    for (size_t i = 0; i < config->n_listen && numbers.guarded == NULL; i++)
        if (config->listen[i].policy.rights == LISTEN_RIGHTS_UPSTREAM)
            numbers.guarded = config->listen[i].endpoint.url;

    /* what the workers have counted; without memory for it there are none */
    size_t n_workers = tier->workers.n;
    struct worker_numbers *workers = calloc(n_workers, sizeof(*workers));
    numbers.n_workers = workers == NULL ? 0 : n_workers;
    numbers.workers = workers;
    for (size_t i = 0; i < numbers.n_workers; i++)
        if (gathering->parts[i].back)
            workers[i] = gathering->parts[i].ask.numbers;

    /* what ingest says of upstream */
    const struct part *part = &gathering->parts[n_workers];
    numbers.upstream_answered = part->back && part->ask.numbers.answered;
    if (numbers.upstream_answered) {
        numbers.upstream = part->ingest.status;
        numbers.about = part->ingest.about;
        numbers.log_oldest = part->ingest.log_oldest;
        numbers.log_newest = part->ingest.status.revision;
        numbers.log_bytes = part->ingest.log_bytes;
        numbers.resources = part->ingest.resources;
        numbers.n_resources = part->ingest.n_resources;
    }
    tier->parts->api->finish(tier->parts, &numbers);
    gathering->numbers_fn(&numbers, gathering->fn_user);
    free(workers);
}

static void gathering_tell(struct gathering *gathering)
{
    gathering->told = true;
    if (gathering->numbers_fn != NULL) {
        gathering_tell_numbers(gathering);
        return;
    }

    /* the scans that are there go over to the admin */
    struct watchers_scan *scans[EVLOG_WORKERS_MAX];
    struct clients_scan *clients[EVLOG_WORKERS_MAX];
    size_t n_scans = 0, n_clients = 0;
    for (size_t i = 0; i < gathering->n_parts; i++) {
        struct worker_thread_ask *ask = &gathering->parts[i].ask;
        if (!gathering->parts[i].back)
            continue;
        if (ask->scan != NULL)
            scans[n_scans++] = ask->scan;
        if (ask->clients != NULL)
            clients[n_clients++] = ask->clients;
        ask->scan = NULL;
        ask->clients = NULL;
    }
    if (gathering->scans_fn != NULL)
        gathering->scans_fn(scans, n_scans, gathering->fn_user);
    else
        gathering->clients_fn(clients, n_clients, gathering->fn_user);
}

static void gathering_on_back(struct mail *mail, void *owner)
{
    (void)owner; /* the same with and without a front: the memory is the front's thread's */
    struct part *part = belfry_container(mail, struct part, ask.mail);
    struct gathering *gathering = part->gathering;
    part->back = true;
    if (--gathering->n_out > 0)
        return;
    if (!gathering->told)
        gathering_tell(gathering);

    /* all are back */
    for (size_t i = 0; i < gathering->n_parts; i++) {
        watchers_scan_destroy(gathering->parts[i].ask.scan);
        clients_scan_destroy(gathering->parts[i].ask.clients);
        free(gathering->parts[i].ask.numbers.below);
        free(gathering->parts[i].ingest.resources);
    }
    belfry_list_remove(&gathering->node);
    gathering->tier->n_gatherings--;
    free(gathering);
}

static void gathering_on_timer(uv_timer_t *timer)
{
    struct tier *tier = timer->data;
    uint64_t now = belfry_clock_ms();
    belfry_list_each (node, &tier->gatherings) {
        struct gathering *gathering = belfry_container(node, struct gathering, node);
        if (!gathering->told && gathering->until_ms <= now)
            gathering_tell(gathering);
    }
}

static enum belfry_err gathering_begin(struct tier *tier, size_t n_parts, void *fn_user, struct gathering **out)
{
    BELFRY_OWNER_CHECK(tier);
    if (tier->n_gatherings >= GATHERINGS_MAX || tier->stopped)
        return BELFRY_ERR_LIMIT;
    struct gathering *gathering = calloc(1, sizeof(*gathering) + n_parts * sizeof(struct part));
    if (gathering == NULL)
        return BELFRY_ERR_NOMEM;
    gathering->tier = tier;
    gathering->until_ms = belfry_clock_ms() + GATHERING_MS;
    gathering->n_parts = gathering->n_out = n_parts;
    gathering->fn_user = fn_user;
    for (size_t i = 0; i < n_parts; i++) {
        gathering->parts[i].gathering = gathering;
        gathering->parts[i].ask.back = gathering_on_back;
        gathering->parts[i].ask.to = tier->opts.front;
    }
    belfry_list_append(&tier->gatherings, &gathering->node);
    tier->n_gatherings++;
    *out = gathering;
    return BELFRY_OK;
}

/* On ingest's thread; owner NULL: it has ended. */
static void gathering_open_ingest(struct mail *mail, void *owner)
{
    struct part *part = belfry_container(mail, struct part, ask.mail);
    if (owner != NULL) {
        part->gathering->tier->parts->api->fill(owner, &part->ingest);
        part->ask.numbers.answered = true;
    }
    part->ask.mail.open = gathering_on_back;
    mailbox_post(part->ask.to, &part->ask.mail);
}

enum belfry_err tier_collect(admin_numbers_fn fn, void *fn_user, void *user)
{
    struct tier *tier = user;
    struct gathering *gathering;
    enum belfry_err err = gathering_begin(tier, tier->workers.n + 1, fn_user, &gathering);
    if (err != BELFRY_OK)
        return err;
    gathering->numbers_fn = fn;
    for (size_t i = 0; i < tier->workers.n; i++)
        worker_thread_count(tier->workers.all[i], &gathering->parts[i].ask);
    struct mail *mail = &gathering->parts[tier->workers.n].ask.mail;
    mail->open = gathering_open_ingest;
    tier->parts->api->post(tier->parts, mail);
    return BELFRY_OK;
}

enum belfry_err tier_scan(const struct watchers_query *query, admin_scans_fn fn, void *fn_user, void *user)
{
    struct tier *tier = user;
    struct gathering *gathering;
    enum belfry_err err = gathering_begin(tier, tier->workers.n, fn_user, &gathering);
    if (err != BELFRY_OK)
        return err;
    gathering->scans_fn = fn;
    gathering->until_ms += GATHERING_MS * 4; /* a million watchers are walked in short steps */
    for (size_t i = 0; i < gathering->n_parts; i++) {
        gathering->parts[i].ask.query = *query;
        worker_thread_scan(tier->workers.all[i], &gathering->parts[i].ask);
    }
    return BELFRY_OK;
}

enum belfry_err tier_clients(const struct clients_query *query, admin_clients_fn fn, void *fn_user, void *user)
{
    struct tier *tier = user;
    struct gathering *gathering;
    enum belfry_err err = gathering_begin(tier, tier->workers.n, fn_user, &gathering);
    if (err != BELFRY_OK)
        return err;
    gathering->clients_fn = fn;
    for (size_t i = 0; i < gathering->n_parts; i++) {
        gathering->parts[i].ask.clients_query = *query;
        worker_thread_clients(tier->workers.all[i], &gathering->parts[i].ask);
    }
    return BELFRY_OK;
}

/* ---- starting ---- */

static void tier_find_address(struct tier *tier)
{
    char why[256];
    enum advertise_sockets sockets = service_has_listen_fds() ? ADVERTISE_HANDED_OVER : ADVERTISE_OWN;
    tier->advertise = advertise_choose(tier->opts.config, sockets, why, sizeof(why));
    if (tier->advertise != NULL)
        belfry_logf(tier->opts.log, BELFRY_LOG_INFO, "advertise", "url=%s", tier->advertise);
    else if (why[0] != '\0')
        belfry_logf(
            tier->opts.log, BELFRY_LOG_WARN, "no_advertise",
            "why=\"%s\" hint=\"MemberList shows upstream's addresses, so clients that sync with it leave this tier "
            "for upstream; --advertise URL keeps them here\"",
            why);
}

static enum belfry_err tier_start_threads(struct tier *tier)
{
    const struct config *config = tier->opts.config;
    struct tier_parts *parts = tier->parts;
    tier->workers.all = calloc(config->workers, sizeof(struct worker_thread *));
    tier->hands = calloc(config->workers, sizeof(*tier->hands));
    if (tier->workers.all == NULL || tier->hands == NULL)
        return BELFRY_ERR_NOMEM;
    struct worker_thread_opts opts = {.limits = tier->limits,
                                      .max_streams = config->max_streams,
                                      .clients_seed = seed_draw(),
                                      .check_ms = config->rights_period_ms,
                                      .log = tier->opts.log};
    for (unsigned i = 0; i < config->workers; i++) {
        enum belfry_err err = parts->api->start_worker(parts, i, &opts, &tier->workers.all[i]);
        if (err != BELFRY_OK)
            return err;
        tier->workers.n++;
    }
    enum belfry_err err = parts->api->start(parts);
    if (err != BELFRY_OK)
        return err;

    /* everybody who can be asked is there */
    tier->timer = malloc(sizeof(*tier->timer));
    if (tier->timer == NULL)
        return BELFRY_ERR_NOMEM;
    uv_timer_init(tier->opts.loop, tier->timer);
    tier->timer->data = tier;
    uv_timer_start(tier->timer, gathering_on_timer, GATHERING_MS / 8, GATHERING_MS / 8);
    uv_unref((uv_handle_t *)tier->timer);
    return BELFRY_OK;
}

enum belfry_err tier_start(const struct tier_opts *opts, struct tier **out, char *why, size_t why_len)
{
    struct tier *tier = calloc(1, sizeof(*tier));
    snprintf(why, why_len, "out of memory");
    if (tier == NULL)
        return BELFRY_ERR_NOMEM;
    tier->opts = *opts;
    tier->started_ms = belfry_clock_ms();
    tier->process_start_s = metrics_process_start();
    tier->limits = opts->limits;
    belfry_list_init(&tier->gatherings);
    tier_find_address(tier);
    via_word(opts->config->name, tier->word);

    struct tier_parts_opts parts = {.config = opts->config,
                                    .limits = opts->limits,
                                    .hosts = opts->hosts,
                                    .tickets = opts->tickets,
                                    .word = tier->word,
                                    .advertise = tier->advertise,
                                    .workers = &tier->workers,
                                    .log = opts->log};
    enum belfry_err err = opts->config->upstream_kube != NULL ? kube_tier_open(&parts, &tier->parts, why, why_len)
                                                              : etcd_tier_open(&parts, &tier->parts, why, why_len);
    if (err == BELFRY_OK) {
        err = tier_start_threads(tier);
        if (err != BELFRY_OK)
            snprintf(why, why_len, "cannot start the threads: %s", belfry_strerror((int)err));
    }
    if (err != BELFRY_OK) {
        tier_stop(tier);
        tier_destroy(tier);
        return err;
    }
    BELFRY_OWNER_INIT(tier);
    *out = tier;
    return BELFRY_OK;
}

/* ---- ending ---- */

static void free_timer(uv_handle_t *timer)
{
    free(timer);
}

/* Workers ask other threads; answers to a thread that has ended find a closed mailbox. */
void tier_stop(struct tier *tier)
{
    if (tier == NULL || tier->stopped)
        return;
    BELFRY_OWNER_CHECK(tier);
    tier->stopped = true;
    for (size_t i = 0; i < tier->workers.n; i++)
        worker_thread_stop(tier->workers.all[i]);
    if (tier->parts != NULL)
        tier->parts->api->stop(tier->parts);

    /* questions under way are answered with what is there; their parts come back when the front's mailbox closes */
    if (tier->timer != NULL)
        uv_close((uv_handle_t *)tier->timer, free_timer);
    belfry_list_each (node, &tier->gatherings) {
        struct gathering *gathering = belfry_container(node, struct gathering, node);
        if (!gathering->told)
            gathering_tell(gathering);
    }
}

void tier_destroy(struct tier *tier)
{
    if (tier == NULL)
        return;
    BELFRY_OWNER_CHECK(tier);
    assert(tier->n_gatherings == 0);
    for (size_t i = 0; i < tier->workers.n; i++)
        worker_thread_destroy(tier->workers.all[i]);
    if (tier->parts != NULL)
        tier->parts->api->destroy(tier->parts);
    free(tier->workers.all);
    free(tier->hands);
    free(tier);
}

/* ---- for the front ---- */

/* The worker with the least to do. Connections that come together, after a fault for example, bring their watchers only
 * later, and the watchers they had before still count. So each connection of the last moments counts as if it had the
 * average number of watchers. */
static size_t tier_choose_worker(struct tier *tier, uint64_t now)
{
    size_t best = 0, least = SIZE_MAX, all = 0;
    for (size_t i = 0; i < tier->workers.n; i++)
        all += worker_thread_load(tier->workers.all[i]);
    size_t each = all / (tier_busy(tier) + 1);
    for (size_t i = 0; i < tier->workers.n; i++) {
        struct hand *hand = &tier->hands[i];
        if (now - hand->since_ms > HAND_MS)
            *hand = (struct hand){.since_ms = now};
        size_t load = worker_thread_load(tier->workers.all[i]) + hand->n * each;
        if (load < least) {
            least = load;
            best = i;
        }
    }
    return best;
}

void tier_accept(struct tier *tier, const struct inbound_arrival *arrival)
{
    BELFRY_OWNER_CHECK(tier);
    struct inbound_arrival passed = *arrival;
    size_t all = tier_busy(tier), refusing = 0;
    for (size_t i = 0; i < tier->workers.n; i++)
        refusing += worker_thread_refusing(tier->workers.all[i]);

    /* The rest of the descriptors is for connections that are being refused, for upstream and for the admin. */
    if (all >= tier->limits->connections + refusing) {
        tier->refused++;
        passed.refused = true;
    }
    if (all >= tier->limits->connections + tier->limits->refused) { /* the workers do not keep up */
        refusal_close(arrival->fd);
        return;
    }

    size_t best = tier_choose_worker(tier, belfry_clock_ms());
    tier->hands[best].n++;
    worker_thread_accept(tier->workers.all[best], &passed);
}

void tier_drain(struct tier *tier, uint64_t drain_ms)
{
    BELFRY_OWNER_CHECK(tier);
    tier->draining = true;
    for (size_t i = 0; i < tier->workers.n; i++)
        worker_thread_drain(tier->workers.all[i], drain_ms);
}

void tier_farewell(struct tier *tier)
{
    BELFRY_OWNER_CHECK(tier);
    for (size_t i = 0; i < tier->workers.n; i++)
        worker_thread_farewell(tier->workers.all[i]);
}

size_t tier_busy(const struct tier *tier)
{
    size_t busy = 0;
    for (size_t i = 0; i < tier->workers.n; i++)
        busy += worker_thread_connections(tier->workers.all[i]);
    return busy;
}

enum belfry_err tier_open_tail(struct tier *tier, struct tail **out)
{
    BELFRY_OWNER_CHECK(tier);
    return tier->parts->api->open_tail(tier->parts, out);
}

void tier_note_admin(struct tier *tier, struct inbound_group *inbound, const struct admin *admin)
{
    struct inbound_stats stats;
    BELFRY_OWNER_CHECK(tier);
    inbound_stats(inbound, &stats);
    pools_count(inbound_shares(inbound), inbound_alarm(inbound), tier->admin.pools);
    tier->admin.refused_pages = admin_refused_pages(admin);
    tier->admin.connections = stats.connections;
    tier->admin.refused =
        stats.refused_connections + stats.refused_streams + stats.ended_largest + stats.ended_for_newcomers;
}

void tier_note_listeners(struct tier *tier, const struct listener_stats *stats, int64_t expires_s)
{
    BELFRY_OWNER_CHECK(tier);
    tier->listeners = *stats;
    tier->listeners_expire_s = expires_s;
}

/* OFF when a worker found it off, UNKNOWN when one does not know. */
enum permit_auth tier_guard(const struct tier *tier)
{
    BELFRY_OWNER_CHECK(tier);
    enum permit_auth least = PERMIT_AUTH_ON;
    if (!config_needs_auth(tier->opts.config))
        return PERMIT_AUTH_ON;
    for (size_t i = 0; i < tier->workers.n; i++) {
        enum permit_auth auth = worker_thread_auth(tier->workers.all[i]);
        if (auth == PERMIT_AUTH_OFF)
            return PERMIT_AUTH_OFF;
        least = auth == PERMIT_AUTH_UNKNOWN ? PERMIT_AUTH_UNKNOWN : least;
    }
    return least;
}

enum tier_state tier_look(struct tier *tier, char *reason, size_t reason_len)
{
    BELFRY_OWNER_CHECK(tier);
    struct tier_parts_view view;
    tier->parts->api->look(tier->parts, &view);
    snprintf(reason, reason_len, "%s", view.reason);
    if (view.is_hopeless)
        return TIER_HOPELESS;
    if (!view.is_ready || tier->draining)
        return TIER_NOT_READY;
    if (tier_guard(tier) == PERMIT_AUTH_ON)
        return TIER_READY;
    snprintf(reason, reason_len, "a listener has rights=upstream, and auth was not found on there");
    return TIER_NOT_READY;
}
