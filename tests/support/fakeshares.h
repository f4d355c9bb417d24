/* tests/support/fakeshares.h
 *
 * fakeshares: shares (server/shares.h) without connections: the test joins exchange_conns by name, and sees which one
 * was ended last.
 *
 * Thread: owner.
 */
#ifndef BELFRY_TESTS_FAKESHARES_H
#define BELFRY_TESTS_FAKESHARES_H

#include <assert.h>

#include "server/exchange.h"

struct fakeshares {
    struct shares shares;
    const struct shares_conn *ended; /* NULL: none */
    enum shares_pool pool;           /* ... for this */
    unsigned n_ended;
};

static inline void fakeshares_on_end(struct shares_conn *conn, enum shares_pool pool, void *user)
{
    struct fakeshares *fake = user;
    fake->ended = conn;
    fake->pool = pool;
    fake->n_ended++;
}

/* One pool has a total, of which every client may have so many percent. */
static inline void fakeshares_init(struct fakeshares *fake, enum shares_pool pool, size_t total, unsigned percent)
{
    struct shares_limits limits = {.percent = {percent, percent}};
    limits.total[pool] = total;
    fake->ended = NULL;
    fake->n_ended = 0;
    shares_init(&fake->shares, &limits, 1, fakeshares_on_end, fake);
}

static inline void fakeshares_join(struct fakeshares *fake, struct exchange_conn *conn, const char *name)
{
    enum belfry_err err = shares_join(&fake->shares, &conn->share, SHARES_CLIENT, name);
    assert(err == BELFRY_OK);
    (void)err;
}

#endif
