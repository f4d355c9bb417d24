/* tests/support/modelstore.h
 *
 * modelstore: the store of core/store.h in plain memory, simple enough to be believed: what the replica on LMDB is
 * compared with, and what the simulator runs on.
 *
 * The writer works on its own copy; commit makes it what readers see. modelstore_crash() is SIGKILL: what was not
 * committed is gone. modelstore_lose_page_cache() is a power loss under a cache that syncs nothing: the content goes
 * back to some earlier commit, or to nothing, and the marker then decides whether an open is warm.
 *
 * Thread: owner; the simulator calls the writer's and the reader's functions in turn.
 */
#ifndef BELFRY_TESTS_MODELSTORE_H
#define BELFRY_TESTS_MODELSTORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/store.h"

struct modelstore_opts {
    size_t history_rows; /* trim keeps about so many */
    uint64_t history_age_s;
    size_t extent_bytes;
};

struct store *modelstore_create(const struct modelstore_opts *opts); /* aborts when out of memory */
void modelstore_destroy(struct store *store);

/* The next n writes (apply, advance, commit, put, trim) fail with BELFRY_ERR_IO. */
void modelstore_fail(struct store *store, unsigned n);

/* A row turns out to be damaged: reads and writes fail with BELFRY_ERR_IO until a fresh copy is adopted. */
void modelstore_damage(struct store *store);

void modelstore_crash(struct store *store); /* the process is killed and comes back: same boot */
void modelstore_lose_page_cache(
    struct store *store); /* and the machine too: the open after it is cold, by the marker */

size_t modelstore_rows(const struct store *store); /* of committed history */

#endif
