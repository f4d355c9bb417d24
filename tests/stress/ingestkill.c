/* tests/stress/ingestkill.c
 *
 * What a replica is worth after the process that wrote it was killed, on a disk that is full, and when its file was
 * damaged.
 *
 *     ingestkill [--kills N] [--seed S] DIR     a child writes random revisions as fast as it can, lists anew now and
 *                                               then, and is killed at a random moment; the replica is opened again,
 *                                               must be warm, and not behind the last commit that the child saw end
 *     ingestkill --full [--seed S] DIR          DIR is on a file system of a few MiB: writes until it is full, frees
 *                                               some of it, goes on; and goes on when nothing is freed, on history
 *
 *     ingestkill --damage N [--seed S] DIR      a replica, closed clean or killed, is damaged in N ways, each time from
 *                                               the start: cut short, bits flipped anywhere or in the heads of pages,
 *                                               pages put in the place of others. A child opens it and reads and writes
 *                                               all of it: nothing that is handed out may be wrong, what is missing
 * must be known to be damaged, and a listing must mend it. A child that dies is followed by another; the third must
 * live
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
    return store->api->apply(store, rev, sub, &event, NULL, &prev);
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

static enum belfry_err read_state(struct store *store, int64_t rev, struct belfry_buf *rows)
{
    struct store_read read = {.rev = rev, .max_rows = SIZE_MAX, .max_bytes = SIZE_MAX};
    struct store_page page;
    return store->api->range(store, &read, note_row, rows, &page);
}

/* Errors: the replica's. What it has given until then must be right. */
static enum belfry_err compare_state(struct store *replica, struct store *model, int64_t rev)
{
    struct belfry_buf ours = {0}, theirs = {0};
    enum belfry_err err = read_state(replica, rev, &ours);
    must(read_state(model, rev, &theirs), "the model's range");
    bool begins = belfry_bytes_begins(belfry_buf_bytes(&theirs), belfry_buf_bytes(&ours));
    if (!begins || (err == BELFRY_OK && belfry_buf_len(&ours) != belfry_buf_len(&theirs)))
        die("the state differs");
    belfry_buf_fini(&ours);
    belfry_buf_fini(&theirs);
    return err;
}

static bool same_batch(const struct batch *a, const struct batch *b)
{
    bool same = a->rev == b->rev && a->kind == b->kind && a->n_events == b->n_events &&
                a->extent_events == b->extent_events && a->extent_bytes == b->extent_bytes;
    for (uint32_t i = 0; same && i < a->n_events; i++)
        same = belfry_bytes_equal(batch_bytes(a, &a->events[i], true), batch_bytes(b, &b->events[i], true));
    return same;
}

static void compare_segments(const struct segment *ours, const struct segment *theirs)
{
    if (ours->upto != theirs->upto || ours->n != theirs->n)
        die("history ends elsewhere");
    for (size_t i = 0; i < ours->n; i++) {
        if (!same_batch(ours->batches[i], theirs->batches[i]))
            die("history differs");
    }
}

static enum belfry_err compare_history(struct store *replica, struct store *model, int64_t from, size_t max_bytes)
{
    for (int64_t last = revision_of(model); from <= last;) {
        struct segment *ours, *theirs;
        int64_t oldest;
        enum belfry_err err = replica->api->history(replica, 0, from, max_bytes, &ours, &oldest);
        if (err != BELFRY_OK)
            return err;
        must(model->api->history(model, 0, from, max_bytes, &theirs, &oldest), "the model's history");
        compare_segments(ours, theirs);
        from = ours->upto + 1;
        segment_unref(ours);
        segment_unref(theirs);
    }
    return BELFRY_OK;
}

/* State now, at the window's beginning and in its middle, and all of history. Errors: the replica's. */
static enum belfry_err try_compare(struct store *replica, struct store *model)
{
    struct store_meta meta;
    replica->api->snapshot(replica, &meta);
    model_upto(model, meta.revision);
    if (revision_of(model) != meta.revision)
        die("the replica went back");
    enum belfry_err err = compare_state(replica, model, 0);
    if (err != BELFRY_OK || meta.revision == 0)
        return err;
    err = compare_state(replica, model, meta.oldest - 1 < 1 ? 1 : meta.oldest - 1);
    if (err == BELFRY_OK)
        err = compare_state(replica, model, (meta.oldest + meta.revision) / 2);
    return err == BELFRY_OK ? compare_history(replica, model, meta.oldest, SEGMENT_BYTES) : err;
}

static void compare(struct store *replica, struct store *model)
{
    must(try_compare(replica, model), "reading");
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
    struct store_page page;
    must(store->api->fresh(store), "fresh");
    must(store->api->range(store, &read, put_row, store, &page), "range");
    struct belfry_wire_header header = {.cluster_id = seed, .revision = page.at};
    must(store->api->adopt(store, page.at, &header, 0), "adopt");
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

/* ---- damage ---- */

#define MASTER_REVS 2500
#define LIFE_REVS   40
#define LIFE_COMMIT 8
#define DEATHS      2 /* in a row that are allowed */
#define PAGE        4096

enum { LIVED_INTACT = 0, LIVED_WRONG = 1, LIVED_DISCARDED = 10, LIVED_MENDED = 11 };

/* The file of a replica that is damaged again and again. */
struct master {
    uint8_t *bytes;
    size_t len;
};

static void empty_folder(const char *dir, const char *with)
{
    char command[1200];
    snprintf(command, sizeof(command), "rm -rf '%s' && mkdir -p '%s/%s'", dir, dir, with);
    if (system(command) != 0)
        die(command);
}

static void write_master(const char *dir)
{
    struct store *store = open_replica(dir);
    for (int64_t rev = revision_of(store) + 1; rev <= MASTER_REVS; rev++) {
        size_t n;
        must(store->api->begin(store), "begin");
        must(write_revision(store, rev), "apply");
        must(store->api->trim(store, (uint64_t)rev / 100, TRIM_ROWS, &n), "trim");
        must(store->api->commit(store), "commit");
    }
    replica_close(store, REPLICA_CLOSE_CLEAN);
}

static struct master read_master(const char *dir)
{
    char path[600];
    struct master master = {0};
    snprintf(path, sizeof(path), "%s/data-1/data.mdb", dir);
    FILE *file = fopen(path, "rb");
    if (file == NULL || fseek(file, 0, SEEK_END) != 0)
        die("no master");
    master.len = (size_t)ftell(file);
    rewind(file);
    master.bytes = malloc(master.len);
    if (master.bytes == NULL || fread(master.bytes, 1, master.len, file) != master.len)
        die("no master");
    fclose(file);
    return master;
}

static void flip(uint8_t *bytes, size_t at, struct belfry_rng *rng)
{
    bytes[at] = (uint8_t)(bytes[at] ^ 1u << belfry_rng_below(rng, 8));
}

/* Damages `bytes`, of *len; returns what was done, for the report. */
static const char *damage(uint8_t *bytes, size_t *len, struct belfry_rng *rng)
{
    size_t pages = *len / PAGE;
    switch (belfry_rng_below(rng, 8)) {
    case 0:
    case 1:
        *len = (size_t)belfry_rng_below(rng, *len);
        return "truncated";
    case 2:
    case 3:
        flip(bytes, (size_t)belfry_rng_below(rng, *len), rng);
        return "one bit";
    case 4:
    case 5:
        flip(bytes, (size_t)belfry_rng_below(rng, pages) * PAGE + (size_t)belfry_rng_below(rng, 64), rng);
        return "one bit of a page's head";
    case 6:
        for (uint64_t n = 2 + belfry_rng_below(rng, 200); n > 0; n--)
            flip(bytes, (size_t)belfry_rng_below(rng, *len), rng);
        return "many bits";
    default:
        memcpy(bytes + (size_t)belfry_rng_below(rng, pages) * PAGE, bytes + (size_t)belfry_rng_below(rng, pages) * PAGE,
               PAGE);
        return "a page over another";
    }
}

/* The case's folder: the master's, with a damaged file and one of both markers. */
static const char *make_case(const char *to, const struct master *master, struct belfry_rng *rng, bool clean)
{
    char path[600], marker[100], boot[80] = "";
    uint8_t *bytes = malloc(master->len);
    size_t len = master->len;
    if (bytes == NULL)
        die("out of memory");
    memcpy(bytes, master->bytes, len);
    const char *what = damage(bytes, &len, rng);
    empty_folder(to, "data-1");
    snprintf(path, sizeof(path), "%s/data-1/data.mdb", to);
    FILE *file = fopen(path, "wb");
    if (file == NULL || fwrite(bytes, 1, len, file) != len || fclose(file) != 0)
        die("cannot write the case");
    free(bytes);
    FILE *id = fopen("/proc/sys/kernel/random/boot_id", "r");
    if (id == NULL || fscanf(id, "%79s", boot) != 1)
        die("no boot id");
    fclose(id);
    snprintf(marker, sizeof(marker), clean ? "clean data-1\n" : "dirty %s data-1\n", boot);
    snprintf(path, sizeof(path), "%s/marker", to);
    file = fopen(path, "wb");
    if (file == NULL || fputs(marker, file) < 0 || fclose(file) != 0)
        die("cannot write the marker");
    return what;
}

/* What follow does: upstream's state in a fresh copy. */
static void list_upstream(struct store *store, struct store *model)
{
    struct store_read read = {.max_rows = SIZE_MAX, .max_bytes = SIZE_MAX};
    struct store_page page;
    must(store->api->fresh(store), "fresh");
    must(model->api->range(model, &read, put_row, store, &page), "the model's range");
    struct belfry_wire_header header = {.cluster_id = seed, .revision = page.at};
    must(store->api->adopt(store, page.at, &header, 0), "adopt");
}

/* Writes on, with checks as ingest makes them. Errors: the replica's. */
static enum belfry_err write_on(struct store *store, struct store *model)
{
    int64_t rev = revision_of(store);
    for (unsigned i = 0; i < LIFE_REVS; i += LIFE_COMMIT) {
        size_t n = 0;
        enum belfry_err err = store->api->begin(store);
        for (unsigned j = 0; j < LIFE_COMMIT && err == BELFRY_OK; j++)
            err = write_revision(store, ++rev);
        if (err == BELFRY_OK)
            err = store->api->trim(store, 100, TRIM_ROWS, &n);
        if (err == BELFRY_OK)
            err = store->api->commit(store);
        if (err != BELFRY_OK) {
            store->api->abort(store);
            return err;
        }
    }
    model_upto(model, rev);
    return BELFRY_OK;
}

static const struct store *faulting; /* of the handler below */

static void on_fault(int number)
{
    replica_faulted(faulting);
    signal(number, SIG_DFL);
}

static enum belfry_err use(struct store *store, struct store *model)
{
    enum belfry_err err = try_compare(store, model);
    if (err == BELFRY_OK)
        err = write_on(store, model);
    return err == BELFRY_OK ? try_compare(store, model) : err;
}

/* One life with a damaged replica; the code says how it went. */
static int live(const char *dir)
{
    struct modelstore_opts opts = {.history_rows = MODEL_ROWS, .history_age_s = 1000000, .extent_bytes = EXTENT_BYTES};
    struct store *store = open_replica(dir), *model = modelstore_create(&opts);
    int lived = LIVED_INTACT;
    faulting = store;
    signal(SIGSEGV, on_fault);
    signal(SIGBUS, on_fault);
    signal(SIGABRT, on_fault);
    replica_serves(store);
    if (revision_of(store) == 0 && !store->api->damaged(store)) {
        lived = LIVED_DISCARDED;
        model_upto(model, MASTER_REVS);
        list_upstream(store, model);
    } else if (revision_of(store) < MASTER_REVS - 1) {
        die("it came back with an old revision"); /* the commit before the last is what a lost meta page leaves */
    }
    enum belfry_err err = use(store, model);
    if (err != BELFRY_OK && !store->api->damaged(store))
        die("it failed, and says that nothing is wrong");
    if (err != BELFRY_OK) {
        lived = LIVED_MENDED;
        model_upto(model, MASTER_REVS + LIFE_REVS);
        list_upstream(store, model);
        must(use(store, model), "after a listing");
    }
    if (store->api->damaged(store))
        die("a listing does not mend it");
    replica_close(store, REPLICA_CLOSE_CLEAN);
    return lived;
}

struct tally {
    unsigned intact, discarded, mended, deaths, longest;
};

static void live_until_it_lives(const char *dir, const char *what, unsigned number, struct tally *tally)
{
    for (unsigned deaths = 0;; deaths++) {
        int status = 0;
        fflush(NULL);
        pid_t child = fork();
        if (child == 0)
            _exit(live(dir));
        if (child < 0 || waitpid(child, &status, 0) != child)
            die("fork");
        tally->longest = deaths > tally->longest ? deaths : tally->longest;
        if (WIFEXITED(status)) {
            tally->intact += WEXITSTATUS(status) == LIVED_INTACT;
            tally->discarded += WEXITSTATUS(status) == LIVED_DISCARDED;
            tally->mended += WEXITSTATUS(status) == LIVED_MENDED;
            if (WEXITSTATUS(status) != LIVED_WRONG)
                return;
            fprintf(stderr, "ingestkill: case %u (%s): a wrong or missing value\n", number, what);
            exit(1);
        }
        tally->deaths++;
        if (deaths == DEATHS) {
            fprintf(stderr, "ingestkill: case %u (%s): died %u times in a row\n", number, what, deaths + 1);
            exit(1);
        }
    }
}

static void run_damage(const char *dir, unsigned cases)
{
    char from[512], to[512];
    snprintf(from, sizeof(from), "%s/master", dir);
    snprintf(to, sizeof(to), "%s/case", dir);
    empty_folder(from, "");
    write_master(from);
    struct master master = read_master(from);
    struct belfry_rng rng = {seed};
    struct tally tally = {0};
    for (unsigned i = 0; i < cases; i++) {
        const char *what = make_case(to, &master, &rng, i % 2 == 0);
        live_until_it_lives(to, what, i, &tally);
    }
    printf("cases=%u bytes=%zu intact=%u discarded=%u mended=%u deaths=%u deaths_in_a_row=%u wrong=0\n", cases,
           master.len, tally.intact, tally.discarded, tally.mended, tally.deaths, tally.longest);
    free(master.bytes);
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"kills", required_argument, NULL, 'k'},
                                            {"seed", required_argument, NULL, 's'},
                                            {"full", no_argument, NULL, 'f'},
                                            {"damage", required_argument, NULL, 'd'},
                                            {NULL, 0, NULL, 0}};
    unsigned kills = 30, cases = 0;
    bool full = false;
    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (c == 'k')
            kills = (unsigned)strtoul(optarg, NULL, 10);
        else if (c == 's')
            seed = strtoull(optarg, NULL, 10);
        else if (c == 'f')
            full = true;
        else if (c == 'd')
            cases = (unsigned)strtoul(optarg, NULL, 10);
        else
            return 2;
    }
    if (optind + 1 != argc) {
        fprintf(stderr, "ingestkill: give one folder\n");
        return 2;
    }
    if (cases > 0)
        run_damage(argv[optind], cases);
    else if (full)
        run_full(argv[optind]);
    else
        run_kills(argv[optind], kills);
    return 0;
}
