/* tests/support/replicabed.h: a replica in a folder of the test's own. Included by the suites that need it, after
 * cmocka. */
#ifndef BELFRY_TESTS_REPLICABED_H
#define BELFRY_TESTS_REPLICABED_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "replica/replica.h"
#include "support/storecheck.h"

#define MIB ((size_t)1 << 20)

static char dir[128]; /* of the test that runs */

static inline struct replica_opts usual(void)
{
    return (struct replica_opts){.dir = dir,
                                 .history_bytes = 64 * MIB,
                                 .history_age_s = STORECHECK_AGE_S,
                                 .map_bytes = 256 * MIB,
                                 .extent_bytes = STORECHECK_EXTENT,
                                 .boot_id = "boot-1",
                                 .scope = "all"};
}

static inline struct store *open_with(const struct replica_opts *opts)
{
    struct store *store;
    char *why;
    enum belfry_err err = replica_open(opts, &store, &why);
    if (err != BELFRY_OK)
        fail_msg("%s: %s", belfry_errname(err), why == NULL ? "" : why);
    return store;
}

static inline int make_dir(void **state)
{
    (void)state;
    const char *tmp = getenv("TMPDIR");
    snprintf(dir, sizeof(dir), "%s/belfry-replica-XXXXXX", tmp == NULL ? "/tmp" : tmp);
    return mkdtemp(dir) == NULL;
}

static inline int remove_dir(void **state)
{
    (void)state;
    char command[256];
    snprintf(command, sizeof(command), "rm -rf '%s'", dir);
    return system(command);
}

static inline size_t trim(struct store *store, uint64_t now_s, size_t max_rows)
{
    size_t n;
    assert_int_equal(store->api->begin(store), BELFRY_OK);
    assert_int_equal(store->api->trim(store, now_s, max_rows, &n), BELFRY_OK);
    assert_int_equal(store->api->commit(store), BELFRY_OK);
    return n;
}

static inline void put_fresh(struct store *store, const char *key, int64_t rev)
{
    struct storecheck_event event = storecheck_event(belfry_bytes_str(key), belfry_bytes_str("1"), rev, NULL);
    assert_int_equal(store->api->put(store, &event.event.kv), BELFRY_OK);
    storecheck_event_fini(&event);
}

static inline bool count_row(struct belfry_bytes key, struct belfry_bytes kv, void *user)
{
    (void)key;
    (void)kv;
    (*(size_t *)user)++;
    return true;
}

#endif
