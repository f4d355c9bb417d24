/* src/serve/admin/pools.h
 *
 * pools: how full the pools of the workers are (server/shares.h), and which client holds most of each.
 *
 * A pool is in trouble if a worker uses more than POOLS_FULL percent of it, or refused or ended a client for it in the
 * last minute (server/shares_alarm.h). Each worker has its own pools, so one worker's can be full while there is room
 * in another's.
 *
 * Thread: pools_count() the worker's; the rest any. Pure.
 */
#ifndef BELFRY_SERVE_ADMIN_POOLS_H
#define BELFRY_SERVE_ADMIN_POOLS_H

#include "server/shares_alarm.h"
#include "json/json.h"

#define POOLS_FULL 90  /* percent */
#define POOLS_WHY  320 /* of a sentence, with NUL */

struct tier_numbers;

struct pool_numbers { /* of one pool of one worker, or of all workers */
    uint64_t used, limit;
    uint64_t refused, yielded;
    uint64_t in_trouble;            /* workers whose pool is; of one worker: 0 or 1 */
    uint64_t largest;               /* how much the client holds that holds most */
    char client[SHARES_NAME_BYTES]; /* its name; "": none holds any */
};

/* A worker's, by pool. */
void pools_count(const struct shares *shares, const struct shares_alarm *alarm, struct pool_numbers out[SHARES_N]);

/* Adds up the workers that answered. The client that holds most is looked for among the largest of each worker. */
void pools_gather(const struct tier_numbers *numbers, enum shares_pool pool, struct pool_numbers *out);

/* True: the pool is in trouble, and `why` says so and names the client:
 *     memory is full: 98 % of 1 GiB in use; 10.0.0.9 holds most, 49 %
 *     watchers: clients refused or ended in the last minute; 50 % of 100 in use; 10.0.0.9 holds most, 50 %
 * The numbers are those of the worker with the fullest pool; with several workers it says how many are in trouble. */
bool pools_trouble(const struct tier_numbers *numbers, enum shares_pool pool, char why[POOLS_WHY]);

/* The same for the admin address, which has pools of its own. */
bool pools_admin_trouble(const struct tier_numbers *numbers, enum shares_pool pool, char why[POOLS_WHY]);

/* As a member "pools": {"memory":{"used":N,"limit":N,"refused":N,"ended":N,"largest":N,"client":".."},...}. */
void pools_write_worker(struct belfry_json *json, const struct pool_numbers pools[SHARES_N]);
/* The same for all workers; "trouble":".." is the sentence for those in trouble, "admin_trouble":".." that for the pool
 * of the admin address. */
void pools_write(struct belfry_json *json, const struct tier_numbers *numbers);

#endif
