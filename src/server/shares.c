/* src/server/shares.c */
#include "server/shares.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define LOOK_MAX 256 /* connections of a client that are compared when it yields one; clients that hold about as much */
#define FLOOR    64  /* others yield to a client that holds no more than one of so many parts of a pool */
#define EVEN     8   /* the bucket of a client that holds 1, if its share is 50 percent */

struct shares_client {
    struct belfry_map_node node;
    struct belfry_list conns; /* of shares_conn.of_client: those that are not ending first */
    size_t n_conns;
    enum shares_class class;
    struct belfry_list of_all, of_departed;
    uint64_t departed_ms;
    struct work work;
    struct {
        size_t held;                /* without what connections that are ending hold */
        struct belfry_list of_size; /* in a bucket, if it holds anything */
        unsigned bucket;
    } pools[SHARES_N];
    char name[];
};

const char *shares_pool_name(enum shares_pool pool)
{
    static const char *const names[] = {[SHARES_CONNECTIONS] = "connections",
                                        [SHARES_MEMORY] = "memory",
                                        [SHARES_REQUESTS] = "requests",
                                        [SHARES_WATCHERS] = "watchers",
                                        [SHARES_CALLS] = "calls",
                                        [SHARES_CALL_BYTES] = "call_bytes",
                                        [SHARES_LISTS] = "lists",
                                        [SHARES_WATCH_BYTES] = "watch_bytes",
                                        [SHARES_LIST_BYTES] = "list_bytes"};
    return names[pool];
}

bool shares_pool_is_bytes(enum shares_pool pool)
{
    switch (pool) {
    case SHARES_MEMORY:
    case SHARES_REQUESTS:
    case SHARES_CALL_BYTES:
    case SHARES_WATCH_BYTES:
    case SHARES_LIST_BYTES:
        return true;
    case SHARES_CONNECTIONS:
    case SHARES_WATCHERS:
    case SHARES_CALLS:
    case SHARES_LISTS:
    case SHARES_N:
        break;
    }
    return false;
}

void shares_set_limits(struct shares *shares, const struct shares_limits *limits)
{
    static const unsigned usual[] = {[SHARES_CLIENT] = SHARES_PERCENT, [SHARES_BELOW] = SHARES_TIER};
    shares->limits = *limits;
    for (size_t i = 0; i < SHARES_CLASSES; i++) {
        assert(limits->percent[i] <= 100);
        if (limits->percent[i] == 0)
            shares->limits.percent[i] = usual[i];
    }
}

void shares_init(struct shares *shares, const struct shares_limits *limits, uint64_t seed,
                 void (*end)(struct shares_conn *conn, enum shares_pool pool, void *user), void *user)
{
    *shares = (struct shares){.end = end, .user = user, .key = {seed, belfry_hash_int(seed)}};
    shares_set_limits(shares, limits);
    belfry_map_init(&shares->clients);
    belfry_list_init(&shares->unfinished);
    belfry_list_init(&shares->all);
    belfry_list_init(&shares->departed);
    belfry_list_init(&shares->walks);
    for (size_t i = 0; i < SHARES_N; i++) {
        for (size_t k = 0; k < SHARES_BUCKETS; k++)
            belfry_list_init(&shares->pools[i].buckets[k]);
    }
}

/* ---- clients ---- */

static struct shares_client *client_find(const struct shares *shares, uint64_t hash, enum shares_class class,
                                         struct belfry_bytes name)
{
    struct belfry_map_node *node = belfry_map_first(&shares->clients, hash);
    for (; node != NULL; node = belfry_map_next(node)) {
        struct shares_client *client = belfry_container(node, struct shares_client, node);
        if (client->class == class && belfry_bytes_equal(belfry_bytes_str(client->name), name))
            return client;
    }
    return NULL;
}

/* The one with that name; a new one if there is none. NULL: no memory. */
static struct shares_client *client_of(struct shares *shares, enum shares_class class, const char *name)
{
    struct belfry_bytes text = belfry_bytes_of(name, strnlen(name, SHARES_NAME_BYTES - 1));
    uint64_t hash = belfry_hash(shares->key, text);
    struct shares_client *client = client_find(shares, hash, class, text);
    if (client != NULL)
        return client;
    client = calloc(1, sizeof(*client) + text.len + 1);
    if (client == NULL)
        return NULL;
    client->class = class;
    memcpy(client->name, text.data, text.len);
    belfry_list_init(&client->conns);
    belfry_list_init(&client->of_departed);
    belfry_list_append(&shares->all, &client->of_all);
    for (size_t i = 0; i < SHARES_N; i++)
        belfry_list_init(&client->pools[i].of_size);
    belfry_map_add(&shares->clients, hash, &client->node);
    return client;
}

static void client_forget(struct shares *shares, struct shares_client *client)
{
    belfry_list_each (node, &shares->walks) {
        struct shares_walk *walk = belfry_container(node, struct shares_walk, of_shares);
        if (walk->next == &client->of_all)
            walk->next = client->of_all.next;
    }
    belfry_list_remove(&client->of_all);
    belfry_list_remove(&client->of_departed);
    shares->n_departed--;
    belfry_map_remove(&shares->clients, &client->node);
    free(client);
}

static struct shares_client *oldest_departed(const struct shares *shares)
{
    return belfry_container(shares->departed.next, struct shares_client, of_departed);
}

static void client_depart(struct shares *shares, struct shares_client *client)
{
    client->departed_ms = shares->now_ms;
    belfry_list_append(&shares->departed, &client->of_departed);
    if (++shares->n_departed > SHARES_DEPARTED)
        client_forget(shares, oldest_departed(shares));
}

static void client_return(struct shares *shares, struct shares_client *client)
{
    if (belfry_list_empty(&client->of_departed))
        return;
    belfry_list_remove(&client->of_departed);
    shares->n_departed--;
}

void shares_tick(struct shares *shares, uint64_t now_ms)
{
    shares->now_ms = now_ms;
    while (!belfry_list_empty(&shares->departed) && now_ms - oldest_departed(shares)->departed_ms >= 2 * WORK_MS)
        client_forget(shares, oldest_departed(shares));
}

void shares_fini(struct shares *shares)
{
    while (!belfry_list_empty(&shares->departed))
        client_forget(shares, oldest_departed(shares));
    assert(shares->clients.count == 0 && belfry_list_empty(&shares->walks));
    belfry_map_fini(&shares->clients);
}

static unsigned log2_of(size_t n)
{
    return (unsigned)(8 * sizeof(unsigned long long) - 1) - (unsigned)__builtin_clzll(n);
}

/* The bucket of a client that holds so much. What is much for one client is little for one with a larger share. */
static unsigned bucket_of(const struct shares *shares, enum shares_class class, size_t held)
{
    unsigned percent = shares->limits.percent[class], bucket = log2_of(held) + EVEN;
    unsigned ease = percent >= 100 ? EVEN : percent >= 50 ? log2_of(percent / (100 - percent)) : 0;
    bucket -= ease;
    return bucket < SHARES_BUCKETS ? bucket : SHARES_BUCKETS - 1;
}

static void client_leave_bucket(struct shares *shares, struct shares_client *client, enum shares_pool pool)
{
    struct belfry_list *node = &client->pools[pool].of_size;
    unsigned bucket = client->pools[pool].bucket;
    if (belfry_list_empty(node))
        return;
    belfry_list_remove(node);
    if (belfry_list_empty(&shares->pools[pool].buckets[bucket]))
        shares->pools[pool].filled &= ~(UINT64_C(1) << bucket);
}

static void client_set_held(struct shares *shares, struct shares_client *client, enum shares_pool pool, size_t held)
{
    size_t before = client->pools[pool].held;
    client->pools[pool].held = held;
    if (held == 0) {
        client_leave_bucket(shares, client, pool);
        return;
    }
    if (before != 0 && log2_of(before) == log2_of(held))
        return;
    unsigned bucket = bucket_of(shares, client->class, held);
    client_leave_bucket(shares, client, pool);
    client->pools[pool].bucket = bucket;
    belfry_list_append(&shares->pools[pool].buckets[bucket], &client->pools[pool].of_size);
    shares->pools[pool].filled |= UINT64_C(1) << bucket;
}

/* One of those that hold most; NULL: no client holds any. */
static struct shares_client *largest_client(const struct shares *shares, enum shares_pool pool)
{
    uint64_t filled = shares->pools[pool].filled;
    if (filled == 0)
        return NULL;
    const struct belfry_list *bucket = &shares->pools[pool].buckets[log2_of(filled)];
    /* the lists are of clients: belfry_container() keeps no const */
    return belfry_container(bucket->next, struct shares_client, pools[pool].of_size);
}

/* ---- connections ---- */

static void conn_attach(struct shares_conn *conn, struct shares_client *client)
{
    conn->client = client;
    client_return(conn->shares, client);
    client->n_conns++;
    belfry_list_append(&client->conns, &conn->of_client);
    for (enum shares_pool pool = 0; pool < SHARES_N; pool++)
        client_set_held(conn->shares, client, pool, client->pools[pool].held + conn->held[pool]);
}

static void conn_detach(struct shares_conn *conn)
{
    struct shares_client *client = conn->client;
    belfry_list_remove(&conn->of_client);
    for (enum shares_pool pool = 0; pool < SHARES_N; pool++)
        client_set_held(conn->shares, client, pool, client->pools[pool].held - conn->held[pool]);
}

static void conn_release_client(struct shares_conn *conn, struct shares_client *client)
{
    if (--client->n_conns == 0)
        client_depart(conn->shares, client);
}

enum belfry_err shares_join(struct shares *shares, struct shares_conn *conn, enum shares_class class, const char *name)
{
    struct shares_client *client = client_of(shares, class, name);
    if (client == NULL)
        return BELFRY_ERR_NOMEM;
    *conn = (struct shares_conn){.shares = shares};
    belfry_list_init(&conn->of_client);
    belfry_list_init(&conn->of_unfinished);
    conn_attach(conn, client);
    return BELFRY_OK;
}

enum belfry_err shares_move(struct shares_conn *conn, enum shares_class class, const char *name)
{
    struct shares_client *before = conn->client;
    if (conn->shares == NULL || conn->ending)
        return BELFRY_OK;
    struct shares_client *client = client_of(conn->shares, class, name);
    if (client == NULL)
        return BELFRY_ERR_NOMEM;
    if (client == before)
        return BELFRY_OK;
    conn_detach(conn);
    conn_attach(conn, client);
    conn_release_client(conn, before);
    return shares_make_room(conn, SHARES_CONNECTIONS, 0) ? BELFRY_OK : BELFRY_ERR_LIMIT;
}

void shares_end(struct shares_conn *conn)
{
    if (conn->shares == NULL || conn->ending)
        return;
    belfry_list_remove(&conn->of_unfinished);
    conn_detach(conn);
    conn->ending = true;
    for (enum shares_pool pool = 0; pool < SHARES_N; pool++)
        conn->shares->pools[pool].leaving += conn->held[pool];
}

void shares_leave(struct shares_conn *conn)
{
    if (conn->shares == NULL)
        return;
    shares_end(conn);
    for (enum shares_pool pool = 0; pool < SHARES_N; pool++)
        assert(conn->held[pool] == 0);
    conn_release_client(conn, conn->client);
    *conn = (struct shares_conn){0};
}

void shares_count(struct shares_conn *conn, enum shares_pool pool, size_t before, size_t after)
{
    struct shares *shares = conn->shares;
    if (shares == NULL || before == after)
        return;
    /* sums wrap where they shrink, which is right */
    conn->held[pool] += after - before;
    if (after > before && (pool == SHARES_CALLS || pool == SHARES_CONNECTIONS))
        shares_work(conn, pool == SHARES_CALLS ? WORK_CALLS : WORK_CONNECTIONS, after - before);
    shares->pools[pool].used += after - before;
    if (conn->ending)
        shares->pools[pool].leaving += after - before;
    else
        client_set_held(shares, conn->client, pool, conn->client->pools[pool].held + (after - before));
}

void shares_work(struct shares_conn *conn, enum work_kind kind, uint64_t n)
{
    if (conn->shares == NULL || n == 0)
        return;
    work_add(&conn->client->work, kind, n, conn->shares->now_ms);
    work_add(&conn->shares->work, kind, n, conn->shares->now_ms);
}

void shares_count_unfinished(struct shares_conn *conn, size_t before, size_t after)
{
    if (conn->shares == NULL || before == after)
        return;
    conn->unfinished += after - before;
    if (conn->unfinished == 0)
        belfry_list_remove(&conn->of_unfinished);
    else if (belfry_list_empty(&conn->of_unfinished) && !conn->ending)
        belfry_list_append(&conn->shares->unfinished, &conn->of_unfinished);
}

/* ---- room ---- */

enum verdict { ROOM, CLIENT_AT_LIMIT, POOL_FULL, POOL_EMPTYING };

/* If even those that stay hold too much, more of them must end, whatever is ending. */
bool shares_is_emptying(const struct shares *shares, enum shares_pool pool, size_t n)
{
    size_t total = shares->limits.total[pool], most = total + total / SHARES_OVER;
    size_t used = shares->pools[pool].used, leaving = shares->pools[pool].leaving;
    return total != 0 && shares_pool_is_bytes(pool) && leaving > 0 && used + n > most && used - leaving + n <= most;
}

/* May a client with that share hold so much, when so much is free beside it? */
static bool fits(size_t held, size_t free, unsigned percent)
{
    return held * (100 - percent) <= free * percent;
}

static enum verdict judge(const struct shares_conn *conn, enum shares_pool pool, size_t n)
{
    const struct shares *shares = conn->shares;
    size_t total = shares->limits.total[pool], live = shares->pools[pool].used - shares->pools[pool].leaving;
    unsigned percent = shares->limits.percent[conn->client->class];
    if (total == 0)
        return ROOM;
    if (shares_is_emptying(shares, pool, n))
        return POOL_EMPTYING;
    if (live > total || n > total - live)
        return POOL_FULL;
    return fits(conn->client->pools[pool].held + n, total - live - n, percent) ? ROOM : CLIENT_AT_LIMIT;
}

bool shares_has(const struct shares_conn *conn, enum shares_pool pool, size_t n)
{
    return conn->shares == NULL || (!conn->ending && judge(conn, pool, n) == ROOM);
}

/* Of connections that hold some of the pool, the one that holds most for requests that are not whole; NULL: none holds
 * much. `only` NULL: of any client. */
static struct shares_conn *largest_unfinished(const struct shares *shares, enum shares_pool pool,
                                              const struct shares_client *only)
{
    struct shares_conn *best = NULL;
    size_t most = SHARES_UNFINISHED - 1;
    belfry_list_each (node, &shares->unfinished) {
        struct shares_conn *conn = belfry_container(node, struct shares_conn, of_unfinished);
        if (conn->unfinished <= most || conn->held[pool] == 0 || (only != NULL && conn->client != only))
            continue;
        most = conn->unfinished;
        best = conn;
    }
    return best;
}

static bool yields_before(const struct shares_conn *a, const struct shares_conn *b, enum shares_pool pool)
{
    if (a->held[pool] != b->held[pool])
        return a->held[pool] > b->held[pool];
    return a->held[SHARES_MEMORY] < b->held[SHARES_MEMORY]; /* the one that does less */
}

/* Looks at LOOK_MAX of its connections, and at others next time. */
static struct shares_conn *conn_that_yields(struct shares_client *client, enum shares_pool pool)
{
    struct shares_conn *best = NULL;
    for (size_t n = 0; n < LOOK_MAX && n < client->n_conns && !belfry_list_empty(&client->conns); n++) {
        struct belfry_list *node = belfry_list_pop(&client->conns);
        struct shares_conn *conn = belfry_container(node, struct shares_conn, of_client);
        belfry_list_append(&client->conns, node);
        if (conn->held[pool] > 0 && (best == NULL || yields_before(conn, best, pool)))
            best = conn;
    }
    return best;
}

/* One of the client that holds most, if the asker's holds little, and less than half as much; NULL: none. */
static struct shares_conn *largest_yields(struct shares *shares, const struct shares_conn *asker, enum shares_pool pool,
                                          size_t n)
{
    struct shares_client *client = largest_client(shares, pool);
    size_t held = asker->client->pools[pool].held, little = shares->limits.total[pool] / FLOOR;
    if (client == NULL || client == asker->client || held > little)
        return NULL;
    held += n;
    if (held > 0 && client->pools[pool].bucket <= bucket_of(shares, asker->client->class, held) + 1)
        return NULL;
    return conn_that_yields(client, pool);
}

static struct shares_conn *who_makes_room(struct shares_conn *asker, enum shares_pool pool, size_t n,
                                          enum verdict verdict)
{
    struct shares *shares = asker->shares;
    size_t total = shares->limits.total[pool];
    if (n > total || !fits(n, total - n, shares->limits.percent[asker->client->class]))
        return NULL; /* it could never have so much */
    const struct shares_client *only = verdict == CLIENT_AT_LIMIT ? asker->client : NULL;
    struct shares_conn *conn = largest_unfinished(shares, pool, only);
    return conn != NULL ? conn : largest_yields(shares, asker, pool, n);
}

bool shares_make_room(struct shares_conn *conn, enum shares_pool pool, size_t n)
{
    struct shares *shares = conn->shares;
    if (shares == NULL)
        return true;
    while (!conn->ending) {
        enum verdict verdict = judge(conn, pool, n);
        if (verdict == ROOM)
            return true;
        if (verdict == POOL_EMPTYING)
            break; /* there is room as soon as those that are ending are gone */
        struct shares_conn *other = who_makes_room(conn, pool, n, verdict);
        if (other == NULL)
            break;
        shares_end(other);
        shares->pools[pool].yielded++;
        shares->end(other, pool, shares->user);
    }
    shares->pools[pool].refused++;
    return false;
}

void shares_note_refused(struct shares_conn *conn, enum shares_pool pool)
{
    if (conn->shares != NULL)
        conn->shares->pools[pool].refused++;
}

/* ---- what is seen ---- */

bool shares_same_client(const struct shares_conn *a, const struct shares_conn *b)
{
    return a->client == b->client;
}

uint64_t shares_source(const struct shares_conn *conn)
{
    return conn->shares == NULL ? 0 : conn->client->node.hash;
}

const char *shares_name(const struct shares_conn *conn)
{
    return conn->shares == NULL ? "" : conn->client->name;
}

const char *shares_largest(const struct shares *shares, enum shares_pool pool, size_t *out_held)
{
    const struct shares_client *largest = largest_client(shares, pool);
    *out_held = 0;
    if (largest == NULL)
        return NULL;
    size_t left = LOOK_MAX;
    belfry_list_each (node, &shares->pools[pool].buckets[largest->pools[pool].bucket]) {
        const struct shares_client *client = belfry_container(node, struct shares_client, pools[pool].of_size);
        if (client->pools[pool].held > largest->pools[pool].held)
            largest = client;
        if (--left == 0)
            break;
    }
    *out_held = largest->pools[pool].held;
    return largest->name;
}

void shares_stats(const struct shares *shares, enum shares_pool pool, struct shares_stats *out)
{
    *out = (struct shares_stats){.used = shares->pools[pool].used,
                                 .total = shares->limits.total[pool],
                                 .refused = shares->pools[pool].refused,
                                 .yielded = shares->pools[pool].yielded};
}

void shares_walk_begin(struct shares_walk *walk, struct shares *shares)
{
    *walk = (struct shares_walk){.shares = shares, .next = shares->all.next};
    belfry_list_init(&walk->of_shares);
    belfry_list_append(&shares->walks, &walk->of_shares);
}

bool shares_walk_next(struct shares_walk *walk, struct shares_view *out)
{
    if (walk->next == &walk->shares->all)
        return false;
    const struct shares_client *client = belfry_container(walk->next, struct shares_client, of_all);
    walk->next = walk->next->next;
    *out = (struct shares_view){.name = client->name, .class = client->class};
    for (enum shares_pool pool = 0; pool < SHARES_N; pool++)
        out->held[pool] = client->pools[pool].held;
    out->rates = work_rates(&client->work, walk->shares->now_ms);
    return true;
}

void shares_walk_end(struct shares_walk *walk)
{
    belfry_list_remove(&walk->of_shares);
}
