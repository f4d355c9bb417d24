/* src/daemon/tier.c */
#include "daemon/tier.h"

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
#include "daemon/gathering.h"
#include "daemon/kube_tier.h"
#include "daemon/limits.h"
#include "daemon/seed.h"
#include "daemon/service.h"
#include "serve/admin/metrics.h"
#include "server/refusal.h"

#define HAND_MS 2000

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
    /* the front's */
    struct tier_parts *parts;
    struct tier_workers workers;
    struct hand *hands; /* of each */
    struct gatherer *gatherer;
    struct listener_stats listeners;
    struct admin_numbers admin;
    int64_t listeners_expire_s;
    uint64_t refused; /* connections over connections_max */
    bool draining, stopped;
    BELFRY_OWNER;
};

/* ---- starting ---- */

static enum belfry_err start_workers(struct tier *tier)
{
    const struct config *config = tier->opts.config;
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
        enum belfry_err err = tier->parts->api->start_worker(tier->parts, i, &opts, &tier->workers.all[i]);
        if (err != BELFRY_OK)
            return err;
        tier->workers.n++;
    }
    return BELFRY_OK;
}

static uint64_t unix_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static uint64_t descriptors_limit(void)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : 0;
}

static uint64_t free_bytes(const char *folder)
{
    struct statvfs disk;
    return statvfs(folder, &disk) == 0 ? (uint64_t)disk.f_bavail * disk.f_frsize : BELFRY_NEVER;
}

static void finish_numbers(struct tier_numbers *numbers, void *user)
{
    struct tier *tier = user;
    const struct config *config = tier->opts.config;
    numbers->now_ms = belfry_clock_ms();
    numbers->started_ms = tier->started_ms;
    numbers->process_start_s = tier->process_start_s;
    numbers->name = config->name;
    numbers->version = BELFRY_VERSION;
    numbers->draining = tier->draining;
    numbers->ready_lag_ms = config->ready_lag_ms;
    for (size_t i = 0; i < config->n_listen && numbers->guarded == NULL; i++)
        if (config->listen[i].policy.rights == LISTEN_RIGHTS_UPSTREAM)
            numbers->guarded = config->listen[i].endpoint.url;
    numbers->listeners = tier->listeners;
    numbers->admin = tier->admin;
    numbers->listeners.refused += tier->refused;
    numbers->listeners_left_s = tier_seconds_until(tier->listeners_expire_s);
    numbers->clock_ms = unix_ms();
    numbers->descriptors = descriptors_limit();
    numbers->disk_free_bytes = free_bytes(config->cache_dir);
    numbers->advertise = tier->advertise;
    numbers->memory_max = tier->limits->memory;
    tier->parts->api->finish(tier->parts, numbers);
}

static enum belfry_err start_gatherer(struct tier *tier)
{
    struct gatherer_opts opts = {.loop = tier->opts.loop,
                                 .front = tier->opts.front,
                                 .parts = tier->parts,
                                 .workers = tier->workers.all,
                                 .n_workers = tier->workers.n,
                                 .finish = finish_numbers,
                                 .user = tier};
    return gatherer_create(&opts, &tier->gatherer);
}

static enum belfry_err start_threads(struct tier *tier)
{
    enum belfry_err err = start_workers(tier);
    if (err == BELFRY_OK)
        err = tier->parts->api->start(tier->parts);
    return err == BELFRY_OK ? start_gatherer(tier) : err;
}

static enum belfry_err open_parts(struct tier *tier, char *why, size_t why_len)
{
    struct tier_parts_opts opts = {.config = tier->opts.config,
                                   .limits = tier->limits,
                                   .hosts = tier->opts.hosts,
                                   .tickets = tier->opts.tickets,
                                   .word = tier->word,
                                   .advertise = tier->advertise,
                                   .workers = &tier->workers,
                                   .log = tier->opts.log};
    return tier->opts.config->upstream_kube != NULL ? kube_tier_open(&opts, &tier->parts, why, why_len)
                                                    : etcd_tier_open(&opts, &tier->parts, why, why_len);
}

static void find_address(struct tier *tier)
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
    find_address(tier);
    via_word(opts->config->name, tier->word);
    enum belfry_err err = open_parts(tier, why, why_len);
    if (err == BELFRY_OK) {
        err = start_threads(tier);
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
    gatherer_destroy(tier->gatherer);
}

void tier_destroy(struct tier *tier)
{
    if (tier == NULL)
        return;
    BELFRY_OWNER_CHECK(tier);
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
static size_t choose_worker(struct tier *tier, uint64_t now)
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

    size_t best = choose_worker(tier, belfry_clock_ms());
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

enum belfry_err tier_collect(admin_numbers_fn fn, void *fn_user, void *user)
{
    struct tier *tier = user;
    return gatherer_numbers(tier->gatherer, fn, fn_user);
}

enum belfry_err tier_scan(const struct watchers_query *query, admin_scans_fn fn, void *fn_user, void *user)
{
    struct tier *tier = user;
    return gatherer_scan(tier->gatherer, query, fn, fn_user);
}

enum belfry_err tier_clients(const struct clients_query *query, admin_clients_fn fn, void *fn_user, void *user)
{
    struct tier *tier = user;
    return gatherer_clients(tier->gatherer, query, fn, fn_user);
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
static enum permit_auth tier_auth(const struct tier *tier)
{
    enum permit_auth least = PERMIT_AUTH_ON;
    for (size_t i = 0; i < tier->workers.n; i++) {
        enum permit_auth auth = worker_thread_auth(tier->workers.all[i]);
        if (auth == PERMIT_AUTH_OFF)
            return PERMIT_AUTH_OFF;
        least = auth == PERMIT_AUTH_UNKNOWN ? PERMIT_AUTH_UNKNOWN : least;
    }
    return least;
}

enum permit_auth tier_guard(const struct tier *tier)
{
    BELFRY_OWNER_CHECK(tier);
    return config_needs_auth(tier->opts.config) ? tier_auth(tier) : PERMIT_AUTH_ON;
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
