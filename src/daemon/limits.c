/* src/daemon/limits.c */
#include "daemon/limits.h"

#include "daemon/service.h"
#include "serve/kube/kube_list.h"

#define MIB            ((size_t)1024 * 1024)
#define MEMORY_PERCENT 75         /* of what there is */
#define WATCHER_BYTES  512        /* more than a watcher costs that waits */
#define INBOUND_PART   2          /* connections and their streams may cost half of a worker's memory, */
#define REQUESTS_PART  16         /* requests that wait a sixteenth, */
#define CALL_PART      16         /* what relayed calls hold as much, */
#define LIST_PART      16         /* what lists hold as much, */
#define WATCH_PARTS    5          /* and what watches hold five sixteenths */
#define REQUESTS_BYTES (64 * MIB) /* these three at most */
#define CALL_BYTES     (64 * MIB)
#define LIST_BYTES     (32 * MIB)
#define ADMIN_BYTES    (16 * MIB) /* connections to the admin address, and answers that are not sent */

static size_t at_most(size_t n, size_t most)
{
    return n < most ? n : most;
}

/* Rounded up, so that no worker has nothing. */
static size_t part_of(size_t n, size_t workers)
{
    return (n + workers - 1) / workers;
}

static struct shares_limits limits_make(const struct limits *limits, const struct config *config)
{
    size_t memory = limits->memory / limits->workers;
    size_t connections = config->max_connections != 0 ? config->max_connections : limits->connections;
    size_t watchers = config->max_watchers != 0 ? config->max_watchers : limits->memory / WATCHER_BYTES;
    return (struct shares_limits){
        .total = {[SHARES_CONNECTIONS] = part_of(at_most(connections, limits->connections), limits->workers),
                  [SHARES_MEMORY] = memory / INBOUND_PART,
                  [SHARES_REQUESTS] = at_most(memory / REQUESTS_PART, REQUESTS_BYTES),
                  [SHARES_WATCHERS] = part_of(watchers, limits->workers),
                  [SHARES_CALLS] = part_of(config->max_calls, limits->workers),
                  [SHARES_CALL_BYTES] = at_most(memory / CALL_PART, CALL_BYTES),
                  [SHARES_LISTS] = KUBE_LISTS_WAITING,
                  [SHARES_WATCH_BYTES] = memory / 16 * WATCH_PARTS,
                  [SHARES_LIST_BYTES] = at_most(memory / LIST_PART, LIST_BYTES)},
        .percent = {[SHARES_CLIENT] = config->client_share, [SHARES_BELOW] = config->tier_share},
    };
}

void limits_init(struct limits *limits, const struct config *config)
{
    struct service_limits machine;
    service_limits(&machine);
    *limits = (struct limits){.connections = (size_t)machine.connections,
                              .refused = (size_t)machine.refused,
                              .admin = (size_t)machine.admin,
                              .workers = config->workers};
    limits->memory =
        config->memory_bytes != 0 ? config->memory_bytes : (size_t)(machine.memory_bytes / 100 * MEMORY_PERCENT);
    pthread_mutex_init(&limits->lock, NULL);
    limits_set(limits, config);
}

void limits_fini(struct limits *limits)
{
    pthread_mutex_destroy(&limits->lock);
}

struct shares_limits limits_admin(const struct limits *limits)
{
    return (struct shares_limits){.total = {[SHARES_CONNECTIONS] = limits->admin, [SHARES_MEMORY] = ADMIN_BYTES}};
}

void limits_set(struct limits *limits, const struct config *config)
{
    struct limits_view made = {.shares = limits_make(limits, config),
                               .times = {.greet_ms = config->greet_time_ms,
                                         .message_ms = config->message_time_ms,
                                         .unread_ms = config->unread_time_ms,
                                         .idle_ms = config->idle_time_ms}};
    pthread_mutex_lock(&limits->lock);
    limits->now = made;
    pthread_mutex_unlock(&limits->lock);
    /* relaxed: whoever sees it takes the lock */
    atomic_fetch_add_explicit(&limits->version, 1, memory_order_relaxed);
}

bool limits_take(struct limits *limits, unsigned *version, struct limits_view *out)
{
    unsigned now = atomic_load_explicit(&limits->version, memory_order_relaxed);
    if (now == *version)
        return false;
    pthread_mutex_lock(&limits->lock);
    *out = limits->now;
    pthread_mutex_unlock(&limits->lock);
    *version = now;
    return true;
}
