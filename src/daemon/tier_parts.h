/* src/daemon/tier_parts.h
 *
 * tier_parts: what of a tier depends on the kind of its upstream: how it is followed, what is kept of it, and what its
 * workers serve. tier.h has the rest. There are two implementations: etcd_tier.h and kube_tier.h.
 *
 * Thread: owner (the front's), but for post and fill. unchecked: an interface; tier.c checks.
 */
#ifndef BELFRY_DAEMON_TIER_PARTS_H
#define BELFRY_DAEMON_TIER_PARTS_H

#include <time.h>

#include "base/clock.h"
#include "daemon/config.h"
#include "daemon/ingest_thread.h"
#include "serve/admin/numbers.h"
#include "serve/admin/tail.h"

struct worker_thread;
struct worker_thread_opts;

/* Those that have started. The tier owns it. */
struct tier_workers {
    struct worker_thread **all;
    size_t n;
};

struct tier_parts_opts { /* all of it is lent, and outlives the parts */
    const struct config *config;
    const struct limits *limits;
    struct hosts *hosts;
    struct tickets *tickets;
    const char *word;      /* our name, as other tiers see it */
    const char *advertise; /* what MemberList shows; NULL: what upstream says */
    const struct tier_workers *workers;
    const struct belfry_log *log;
};

/* How it stands with upstream. */
struct tier_parts_view {
    bool is_ready, is_hopeless;
    char reason[256]; /* why it is not ready */
};

struct tier_parts;

struct tier_parts_api {
    /* Starts worker number `number`: fills in what it serves. Errors: as worker_thread_start(). */
    enum belfry_err (*start_worker)(struct tier_parts *parts, unsigned number, const struct worker_thread_opts *common,
                                    struct worker_thread **out);
    enum belfry_err (*start)(struct tier_parts *parts); /* its own threads, after all workers */
    void (*stop)(struct tier_parts *parts);             /* likewise; copes with what has not started */
    void (*destroy)(struct tier_parts *parts);          /* stopped, and the workers are gone */
    /* Thread: any. Opens `mail` on ingest's thread; fill() takes its owner there. */
    void (*post)(struct tier_parts *parts, struct mail *mail);
    void (*fill)(void *owner, struct ingest_thread_numbers *out);
    /* What the front can see of it. */
    void (*finish)(struct tier_parts *parts, struct tier_numbers *out);
    void (*look)(struct tier_parts *parts, struct tier_parts_view *out);
    enum belfry_err (*open_tail)(struct tier_parts *parts, struct tail **out);
};

struct tier_parts {
    const struct tier_parts_api *api;
};

/* Until a certificate expires. 0: it has expired; BELFRY_NEVER: there is none (INT64_MAX). */
static inline uint64_t tier_seconds_until(int64_t expires_s)
{
    int64_t left_s = expires_s - (int64_t)time(NULL);
    if (expires_s == INT64_MAX)
        return BELFRY_NEVER;
    return left_s > 0 ? (uint64_t)left_s : 0;
}

#endif
