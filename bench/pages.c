/* bench/pages.c: what pages of state and their counts cost, and what a new key costs the writer, for some numbers of
 * keys. `pages` measures a replica of 1,000 and one of 1,000,000 keys, `pages N...` those of N. Exit 1: the count
 * of a range costs more than a page of 500 rows.
 *
 * CPU is the thread's own. Of each figure the quickest of ROUNDS is printed: the rest is the machine's. */
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/rng.h"
#include "replica/replica.h"
#include "wire/write.h"

#define ROUNDS    9
#define PAGE_ROWS 500
#define READS     200
#define WRITES    20000 /* per round, or as many as there are keys */
#define COMMIT    1000  /* writes per commit: about what 5 ms have under load */
#define STEP      7919  /* between two keys that are written: a prime, so that it meets them all */
#define VALUE     256
#define KEY_ROOM  32

static char scratch[1024];
static int64_t head; /* revision of the replica */

static void must(const char *what, enum belfry_err err)
{
    if (err == BELFRY_OK)
        return;
    fprintf(stderr, "pages: %s: %s\n", what, belfry_errname(err));
    exit(1);
}

static double cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* ---- the replica ---- */

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *walk)
{
    (void)info, (void)kind, (void)walk;
    return remove(path);
}

static struct store *open_replica(void)
{
    const char *base = getenv("TMPDIR");
    snprintf(scratch, sizeof(scratch), "%s/belfry-pages-XXXXXX", base != NULL ? base : ".");
    if (mkdtemp(scratch) == NULL) {
        perror(scratch);
        exit(1);
    }
    struct replica_opts opts = {.dir = scratch,
                                .history_bytes = (size_t)1 << 30,
                                .history_age_s = 86400,
                                .map_bytes = (size_t)16 << 30,
                                .extent_bytes = (size_t)16 << 20,
                                .scope = "all"};
    struct store *store;
    char *why;
    must("open", replica_open(&opts, &store, &why));
    return store;
}

static void close_replica(struct store *store)
{
    replica_close(store, REPLICA_CLOSE_DIRTY);
    if (nftw(scratch, remove_one, 16, FTW_DEPTH | FTW_PHYS) != 0)
        fprintf(stderr, "pages: %s is left behind\n", scratch);
}

/* Even numbers are listed, odd ones are created and deleted later. */
static struct belfry_bytes key_of(uint64_t n, char room[KEY_ROOM])
{
    return belfry_bytes_of(room, (size_t)snprintf(room, KEY_ROOM, "/registry/pods/%010llu", (unsigned long long)n));
}

/* The bytes are in a buffer that the next call takes. */
static struct belfry_wire_event event_of(struct belfry_bytes key, int64_t rev, bool is_delete)
{
    static uint8_t bytes[1024];
    static char value[VALUE];
    struct belfry_wire_event event = {.is_delete = is_delete, .kv = {.key = key, .mod_rev = rev}}, scanned;
    if (!is_delete) {
        event.kv.value = belfry_bytes_of(value, VALUE);
        event.kv.create_rev = rev;
        event.kv.version = 1;
    }
    size_t len = (size_t)(belfry_write_event(&event, bytes) - bytes);
    must("event", belfry_scan_event(belfry_bytes_of(bytes, len), &scanned));
    return scanned;
}

/* CPU of one key. */
static double list_keys(struct store *store, size_t n)
{
    char room[KEY_ROOM];
    struct belfry_wire_header header = {.cluster_id = 1};
    double start = cpu_ns();
    must("fresh", store->api->fresh(store));
    for (size_t i = 0; i < n; i++) {
        struct belfry_wire_event event = event_of(key_of(2 * i, room), 2, false);
        must("put", store->api->put(store, &event.kv));
    }
    must("adopt", store->api->adopt(store, 2, &header, 1));
    head = 2;
    return (cpu_ns() - start) / (double)n;
}

/* ---- figures ---- */

enum write_kind { WRITE_CREATE, WRITE_UPDATE, WRITE_DELETE };

/* CPU of one write. Keys that one round creates another deletes. */
static double write_round(struct store *store, size_t n, enum write_kind kind)
{
    char room[KEY_ROOM];
    struct belfry_bytes prev;
    struct belfry_wire_header header = {.cluster_id = 1};
    size_t writes = n < WRITES ? n : WRITES;
    double start = cpu_ns();
    for (size_t i = 0; i < writes; i++) {
        if (i % COMMIT == 0)
            must("begin", store->api->begin(store));
        uint64_t number = 2 * (i * STEP % n) + (kind != WRITE_UPDATE);
        struct belfry_wire_event event = event_of(key_of(number, room), ++head, kind == WRITE_DELETE);
        must("apply", store->api->apply(store, head, 0, &event, NULL, &prev));
        must("advance", store->api->advance(store, head, &header));
        if (i % COMMIT == COMMIT - 1 || i + 1 == writes)
            must("commit", store->api->commit(store));
    }
    return (cpu_ns() - start) / (double)writes;
}

static bool any_row(struct belfry_bytes key, struct belfry_bytes kv, void *user)
{
    (void)key, (void)kv, (void)user;
    return true;
}

enum read_kind { READ_PAGE, READ_COUNTED_PAGE, READ_COUNT };

static double read_round(struct store *store, size_t n, struct belfry_rng *rng, enum read_kind kind)
{
    char from[KEY_ROOM], end[KEY_ROOM];
    double spent = 0;
    for (size_t i = 0; i < READS; i++) {
        struct store_page page;
        struct store_read read = {.key = key_of(2 * belfry_rng_below(rng, n / 4), from),
                                  .end = key_of(2 * (n - 1 - belfry_rng_below(rng, n / 8)), end),
                                  .max_rows = kind == READ_COUNT ? 0 : PAGE_ROWS,
                                  .max_bytes = SIZE_MAX,
                                  .counted = kind != READ_PAGE};
        double start = cpu_ns();
        must("range", store->api->range(store, &read, any_row, NULL, &page));
        spent += cpu_ns() - start;
    }
    return spent / READS;
}

static double least(double a, double b)
{
    return a < b ? a : b;
}

static void report(size_t n, const char *what, double ns)
{
    printf("%9zu keys  %-44s %10.0f ns\n", n, what, ns);
}

/* Does the count of a page cost less than its rows? */
static bool measure(size_t n)
{
    struct store *store = open_replica();
    struct belfry_rng rng = {(uint64_t)time(NULL)};
    double created = 1e18, updated = 1e18, deleted = 1e18, page = 1e18, counted = 1e18, count = 1e18;
    report(n, "a listed key", list_keys(store, n));
    for (size_t i = 0; i < ROUNDS; i++) {
        created = least(created, write_round(store, n, WRITE_CREATE));
        updated = least(updated, write_round(store, n, WRITE_UPDATE));
        deleted = least(deleted, write_round(store, n, WRITE_DELETE));
        page = least(page, read_round(store, n, &rng, READ_PAGE));
        counted = least(counted, read_round(store, n, &rng, READ_COUNTED_PAGE));
        count = least(count, read_round(store, n, &rng, READ_COUNT));
    }
    close_replica(store);
    report(n, "a write of a new key", created);
    report(n, "a write of a key that is there", updated);
    report(n, "a delete", deleted);
    report(n, "a page of 500 rows", page);
    report(n, "a page of 500 rows with the range's count", counted);
    report(n, "a count alone", count);
    return counted < 2 * page;
}

int main(int argc, char **argv)
{
    static const size_t usual[] = {1000, 1000000};
    size_t n = argc > 1 ? (size_t)argc - 1 : 2;
    bool missed = false;
    for (size_t i = 0; i < n; i++)
        missed = !measure(argc > 1 ? strtoull(argv[i + 1], NULL, 10) : usual[i]) || missed;
    printf("a count costs less than the page: %s\n", missed ? "MISSED" : "OK");
    return missed ? 1 : 0;
}
