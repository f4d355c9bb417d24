/* tests/stress/ingestkill.c
 *
 * What a replica is worth after the process that wrote it was killed, and on a disk that is full.
 *
 *     ingestkill [--kills N] [--seed S] DIR     a child writes random revisions as fast as it can, lists anew now and
 *                                               then, and is killed at a random moment; the replica is opened again,
 *                                               must be warm, and not behind the last commit that the child saw end
 *     ingestkill --full [--seed S] DIR          DIR is on a file system of a few MiB: writes until it is full, frees
 *                                               some of it, goes on; and goes on when nothing is freed, on history
 *
 * Every revision follows from the seed and the state before it, so a model written in the same way says what state and
 * history at revision R must be. Exit 1: they differ.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/hash.h"
#include "base/rng.h"
#include "replica/replica.h"
#include "support/modelstore.h"
#include "wire/write.h"

#define N_KEYS        400
#define EXTENT_BYTES  20000
#define HISTORY_BYTES (1024 * 1024)
#define MODEL_ROWS    60000 /* more than a replica of HISTORY_BYTES holds */
#define COMMIT_NS     2000000
#define TRIM_ROWS     400
#define KILL_MS       60
#define FULL_REVS     3000

static uint64_t seed = 1;

static void die(const char *what)
{
    fprintf(stderr, "ingestkill: %s (seed %" PRIu64 ")\n", what, seed);
    exit(1);
}

static void must(enum belfry_err err, const char *what)
{
    if (err != BELFRY_OK) {
        fprintf(stderr, "ingestkill: %s: %s (seed %" PRIu64 ")\n", what, belfry_errname(err), seed);
        exit(1);
    }
}

static struct store *open_replica(const char *dir)
{
    struct replica_opts opts = {.dir = dir,
                                .history_bytes = HISTORY_BYTES,
                                .history_age_s = 1000000,
                                .map_bytes = 64 * HISTORY_BYTES,
                                .extent_bytes = EXTENT_BYTES,
                                .scope = "all"};
    struct store *store;
    char *why;
    if (replica_open(&opts, &store, &why) != BELFRY_OK)
        die(why == NULL ? "cannot open the replica" : why);
    return store;
}

/* ---- revisions ---- */

/* One key in eight is long, and differs from the others only behind its 480th byte. */
static struct belfry_bytes key_of(unsigned number, char *room)
{
    if (number % 8 != 0)
        return belfry_bytes_of(room, (size_t)sprintf(room, "/registry/pods/%u", number));
    memset(room, 'k', 500);
    return belfry_bytes_of(room, 500 + (size_t)sprintf(room + 500, "%u", number));
}

static enum belfry_err write_event(struct store *store, int64_t rev, uint32_t sub, unsigned number,
                                   struct belfry_rng *rng)
{
    char key_room[600], value[700];
    uint8_t bytes[1600];
    struct belfry_bytes key = key_of(number, key_room), was, prev;
    struct belfry_wire_kv before = {0};
    enum belfry_err err = store->api->get(store, key, &was);
    if (err == BELFRY_OK)
        must(belfry_scan_kv(was, &before), "a row of state");
    else if (err != BELFRY_ERR_NOT_FOUND)
        return err;
    uint64_t kind = belfry_rng_below(rng, 4), len = belfry_rng_below(rng, sizeof(value));
    memset(value, 'a' + (int)(rev % 26), sizeof(value));
    struct belfry_wire_event event = {.is_delete = kind == 0 && before.version > 0, .kv = {.key = key, .mod_rev = rev}};
    if (!event.is_delete) {
        event.kv.value = belfry_bytes_of(value, (size_t)len);
        event.kv.create_rev = before.version > 0 ? before.create_rev : rev;
        event.kv.version = before.version + 1;
    }
    size_t n = (size_t)(belfry_write_event(&event, bytes) - bytes);
    must(belfry_scan_event(belfry_bytes_of(bytes, n), &event), "an event");
    return store->api->apply(store, rev, sub, &event, &prev);
}

/* Inside a transaction. */
static enum belfry_err write_revision(struct store *store, int64_t rev)
{
    struct belfry_rng rng = {seed ^ belfry_hash_int((uint64_t)rev)};
    uint32_t n = 1 + (uint32_t)belfry_rng_below(&rng, belfry_rng_below(&rng, 100) == 0 ? 200 : 3);
    unsigned first = (unsigned)belfry_rng_below(&rng, N_KEYS);
    for (uint32_t sub = 0; sub < n; sub++) {
        enum belfry_err err = write_event(store, rev, sub, (first + sub) % N_KEYS, &rng);
        if (err != BELFRY_OK)
            return err;
    }
    struct belfry_wire_header header = {.cluster_id = seed, .revision = rev};
    return store->api->advance(store, rev, &header);
}

static int64_t revision_of(struct store *store)
{
    struct store_meta meta;
    store->api->snapshot(store, &meta);
    return meta.revision;
}

static void model_upto(struct store *model, int64_t rev)
{
    size_t n;
    while (revision_of(model) < rev) {
        must(model->api->begin(model), "model");
        must(write_revision(model, revision_of(model) + 1), "model");
        must(model->api->trim(model, 1, 1000, &n), "model");
        must(model->api->commit(model), "model");
    }
}

/* ---- comparing ---- */

static bool note_row(struct belfry_bytes key, struct belfry_bytes kv, void *user)
{
    (void)key;
    must(belfry_buf_append(user, kv.data, kv.len), "a row");
    return true;
}

static void read_state(struct store *store, int64_t rev, struct belfry_buf *rows)
{
    struct store_read read = {.rev = rev, .max_rows = SIZE_MAX, .max_bytes = SIZE_MAX};
    int64_t at;
    bool more;
    must(store->api->range(store, &read, note_row, rows, &at, &more), "range");
}

static void compare_state(struct store *replica, struct store *model, int64_t rev)
{
    struct belfry_buf ours = {0}, theirs = {0};
    read_state(replica, rev, &ours);
    read_state(model, rev, &theirs);
    if (!belfry_bytes_equal(belfry_buf_bytes(&ours), belfry_buf_bytes(&theirs)))
        die("the state differs");
    belfry_buf_fini(&ours);
    belfry_buf_fini(&theirs);
}

static bool same_batch(const struct batch *a, const struct batch *b)
{
    bool same = a->rev == b->rev && a->kind == b->kind && a->n_events == b->n_events &&
                a->extent_events == b->extent_events && a->extent_bytes == b->extent_bytes;
    for (uint32_t i = 0; same && i < a->n_events; i++)
        same = belfry_bytes_equal(batch_bytes(a, &a->events[i], true), batch_bytes(b, &b->events[i], true));
    return same;
}

static void compare_history(struct store *replica, struct store *model, int64_t from)
{
    for (int64_t last = revision_of(replica); from <= last;) {
        struct segment *ours, *theirs;
        int64_t oldest;
        must(replica->api->history(replica, 0, from, SEGMENT_BYTES, &ours, &oldest), "history");
        must(model->api->history(model, 0, from, SEGMENT_BYTES, &theirs, &oldest), "the model's history");
        if (ours->upto != theirs->upto || ours->n != theirs->n)
            die("history ends elsewhere");
        for (size_t i = 0; i < ours->n; i++) {
            if (!same_batch(ours->batches[i], theirs->batches[i]))
                die("history differs");
        }
        from = ours->upto + 1;
        segment_unref(ours);
        segment_unref(theirs);
    }
}

/* State now, at the window's beginning and in its middle, and all of history. */
static void compare(struct store *replica, struct store *model)
{
    struct store_meta meta;
    replica->api->snapshot(replica, &meta);
    model_upto(model, meta.revision);
    if (revision_of(model) != meta.revision)
        die("the replica went back");
    compare_state(replica, model, 0);
    if (meta.revision == 0)
        return;
    compare_state(replica, model, meta.oldest - 1 < 1 ? 1 : meta.oldest - 1);
    compare_state(replica, model, (meta.oldest + meta.revision) / 2);
    compare_history(replica, model, meta.oldest);
}

/* ---- kills ---- */

struct shared {
    _Atomic bool open;         /* the child has the replica */
    _Atomic int64_t committed; /* what the parent may then expect */
};

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static bool put_row(struct belfry_bytes key, struct belfry_bytes kv, void *user)
{
    struct store *store = user;
    struct belfry_wire_kv scanned;
    (void)key;
    must(belfry_scan_kv(kv, &scanned), "a row");
    must(store->api->put(store, &scanned), "put");
    return true;
}

/* The same state in a new environment, without history. */
static void list_anew(struct store *store)
{
    struct store_read read = {.max_rows = SIZE_MAX, .max_bytes = SIZE_MAX};
    int64_t at;
    bool more;
    must(store->api->fresh(store), "fresh");
    must(store->api->range(store, &read, put_row, store, &at, &more), "range");
    struct belfry_wire_header header = {.cluster_id = seed, .revision = at};
    must(store->api->adopt(store, at, &header, 0), "adopt");
}

static void ingest_until_killed(const char *dir, struct shared *shared)
{
    struct store *store = open_replica(dir);
    int64_t rev = revision_of(store);
    atomic_store(&shared->open, true);
    for (uint64_t commits = 1;; commits++) {
        uint64_t start = now_ns();
        size_t n;
        must(store->api->begin(store), "begin");
        do {
            must(write_revision(store, ++rev), "apply");
        } while (now_ns() - start < COMMIT_NS);
        must(store->api->trim(store, 1, TRIM_ROWS, &n), "trim");
        must(store->api->commit(store), "commit");
        atomic_store(&shared->committed, rev);
        if (commits % 8 == 0)
            list_anew(store);
    }
}

/* Returns when the child was killed, at a random moment: one in five may be while it opens the replica. */
static void kill_one(const char *dir, struct belfry_rng *rng, struct shared *shared)
{
    bool while_opening = belfry_rng_below(rng, 5) == 0;
    atomic_store(&shared->open, false);
    pid_t child = fork();
    if (child < 0)
        die("fork");
    if (child == 0) {
        ingest_until_killed(dir, shared);
        _exit(1);
    }
    while (!while_opening && !atomic_load(&shared->open) && waitpid(child, NULL, WNOHANG) == 0)
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    uint64_t wait = belfry_rng_below(rng, KILL_MS * 1000000u);
    nanosleep(&(struct timespec){.tv_nsec = (long)wait}, NULL);
    kill(child, SIGKILL);
    int status;
    if (waitpid(child, &status, 0) != child || !WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
        die("the child ended by itself");
}

static void run_kills(const char *dir, unsigned kills)
{
    struct shared *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        die("mmap");
    struct modelstore_opts opts = {.history_rows = MODEL_ROWS, .history_age_s = 1000000, .extent_bytes = EXTENT_BYTES};
    struct store *model = modelstore_create(&opts);
    struct belfry_rng rng = {seed};
    unsigned moved = 0;
    int64_t rev = 0;
    for (unsigned i = 0; i < kills; i++) {
        kill_one(dir, &rng, shared);
        struct store *store = open_replica(dir);
        if (revision_of(store) < atomic_load(&shared->committed))
            die("a commit was lost");
        moved += revision_of(store) > rev;
        rev = revision_of(store);
        compare(store, model);
        replica_close(store, REPLICA_CLOSE_DIRTY);
    }
    printf("kills=%u moved=%u revisions=%" PRId64 "\n", kills, moved, rev);
    if (moved < kills / 4)
        die("the children were killed before they had done anything");
    modelstore_destroy(model);
    munmap(shared, sizeof(*shared));
}

/* ---- a full disk ---- */

static enum belfry_err write_one(struct store *store, int64_t rev)
{
    enum belfry_err err = store->api->begin(store);
    if (err == BELFRY_OK)
        err = write_revision(store, rev);
    return err == BELFRY_OK ? store->api->commit(store) : err;
}

static enum belfry_err trim_some(struct store *store)
{
    size_t n;
    enum belfry_err err = store->api->begin(store);
    if (err == BELFRY_OK)
        err = store->api->trim(store, 1, TRIM_ROWS, &n);
    return err == BELFRY_OK ? store->api->commit(store) : err;
}

/* Leaves about `left` bytes free. */
static void fill_disk(const char *path, size_t left)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd < 0)
        die("cannot make the filler");
    char block[4096];
    off_t size = 0;
    memset(block, 'f', sizeof(block));
    for (ssize_t n; (n = write(fd, block, sizeof(block))) > 0;)
        size += n;
    if (errno != ENOSPC || ftruncate(fd, size > (off_t)left ? size - (off_t)left : 0) != 0)
        die("the disk could not be filled: is it a small one?");
    close(fd);
}

static int64_t write_until_full(struct store *store, int64_t rev)
{
    enum belfry_err err;
    for (int64_t end = rev + 1000000; (err = write_one(store, rev + 1)) == BELFRY_OK; rev++) {
        if (rev > end)
            die("the disk never filled up");
    }
    if (err != BELFRY_ERR_IO)
        die("a full disk is not BELFRY_ERR_IO");
    if (revision_of(store) != rev)
        die("a failed write changed the revision");
    return rev;
}

static int64_t write_through(struct store *store, int64_t rev, unsigned *trims)
{
    for (int64_t end = rev + FULL_REVS; rev < end;) {
        enum belfry_err err = write_one(store, rev + 1);
        if (err == BELFRY_OK) {
            rev++;
            continue;
        }
        if (err != BELFRY_ERR_IO || ++*trims > 10 * FULL_REVS)
            die("trimming made no room");
        belfry_ignore(trim_some(store)); /* it may fail as well; then it is tried again */
    }
    return rev;
}

static void run_full(const char *dir)
{
    char filler[512], data[512];
    snprintf(filler, sizeof(filler), "%s/filler", dir);
    snprintf(data, sizeof(data), "%s/replica", dir);
    struct modelstore_opts opts = {.history_rows = MODEL_ROWS, .history_age_s = 1000000, .extent_bytes = EXTENT_BYTES};
    struct store *store = open_replica(data), *model = modelstore_create(&opts);
    fill_disk(filler, 3 << 20);
    int64_t first = write_until_full(store, revision_of(store));
    compare(store, model);
    if (unlink(filler) != 0)
        die("cannot remove the filler");
    for (int i = 0; i < 500; i++)
        must(write_one(store, ++first), "writing when there is space again");
    compare(store, model);
    int64_t second = write_until_full(store, first);
    compare(store, model);
    fill_disk(filler, 0);
    if (store->api->fresh(store) != BELFRY_ERR_IO)
        die("a fresh copy on a full disk is not BELFRY_ERR_IO");
    compare(store, model);
    unsigned trims = 0;
    int64_t third = write_through(store, second, &trims);
    compare(store, model);
    replica_close(store, REPLICA_CLOSE_DIRTY);
    store = open_replica(data); /* the disk is still full */
    if (revision_of(store) != third)
        die("the replica was not opened warm");
    compare(store, model);
    replica_close(store, REPLICA_CLOSE_CLEAN);
    modelstore_destroy(model);
    printf("full_at=%" PRId64 " and=%" PRId64 " went_on_to=%" PRId64 " trims=%u\n", first - 500, second, third, trims);
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"kills", required_argument, NULL, 'k'},
                                            {"seed", required_argument, NULL, 's'},
                                            {"full", no_argument, NULL, 'f'},
                                            {NULL, 0, NULL, 0}};
    unsigned kills = 30;
    bool full = false;
    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (c == 'k')
            kills = (unsigned)strtoul(optarg, NULL, 10);
        else if (c == 's')
            seed = strtoull(optarg, NULL, 10);
        else if (c == 'f')
            full = true;
        else
            return 2;
    }
    if (optind + 1 != argc) {
        fprintf(stderr, "ingestkill: give one folder\n");
        return 2;
    }
    if (full)
        run_full(argv[optind]);
    else
        run_kills(argv[optind], kills);
    return 0;
}
