/* src/daemon/limits.c */
#include "daemon/limits.h"

#include "serve/kube/kube_list.h"

#define MIB            ((size_t)1024 * 1024)
#define WATCHER_BYTES  512        /* more than a watcher costs that waits */
#define INBOUND_PART   2          /* connections and their streams may cost half of a worker's memory, */
#define REQUESTS_PART  16         /* requests that wait a sixteenth, */
#define CALL_PART      16         /* and what relayed calls hold as much */
#define REQUESTS_BYTES (64 * MIB) /* the last two at most */
#define CALL_BYTES     (64 * MIB)

static size_t at_most(size_t n, size_t most)
{
    return n < most ? n : most;
}

/* Rounded up, so that no worker has nothing. */
static size_t part_of(size_t n, size_t workers)
{
    return (n + workers - 1) / workers;
}

void limits_of_worker(const struct config *config, const struct limits_machine *machine, struct shares_limits *out)
{
    size_t workers = config->workers, memory = machine->memory / workers;
    size_t connections = config->max_connections != 0 ? config->max_connections : machine->connections;
    size_t watchers = config->max_watchers != 0 ? config->max_watchers : machine->memory / WATCHER_BYTES;
    *out = (struct shares_limits){
        .total = {[SHARES_CONNECTIONS] = part_of(at_most(connections, machine->connections), workers),
                  [SHARES_MEMORY] = memory / INBOUND_PART,
                  [SHARES_REQUESTS] = at_most(memory / REQUESTS_PART, REQUESTS_BYTES),
                  [SHARES_WATCHERS] = part_of(watchers, workers),
                  [SHARES_CALLS] = part_of(config->max_calls, workers),
                  [SHARES_CALL_BYTES] = at_most(memory / CALL_PART, CALL_BYTES),
                  [SHARES_LISTS] = KUBE_LISTS_WAITING},
        .percent = {[SHARES_CLIENT] = config->client_share, [SHARES_BELOW] = config->tier_share},
    };
}
