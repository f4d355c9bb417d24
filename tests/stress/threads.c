/* tests/stress/threads.c: the tier's threads as the daemon runs them, without sockets, judged by TSan and by a ledger.
 *
 *     writer --- ingest ---> replica, log          reader --- history, slices ---> queues of the workers
 *        `---- ledger: what every watcher must be given                ^
 *                                                                      | fetches
 *     worker x 4: 50 streams x 20 watchers each, and their clients ----'
 *
 * The ledger has one list of events a range: each key, each group of keys, all. A watcher is a place in the list of its
 * range: whatever it is given must be the entry there. So an event out of order, twice, missing or torn from its
 * revision is found at once, and so is a progress that promises what was not given. In the end the writer stops, and
 * every watcher must reach the last revision.
 *
 *     threads [--seconds N] [--seed S]     exit 1: a violation, told on stderr
 */
#include <errno.h>
#include <ftw.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/rng.h"
#include "core/evlog.h"
#include "core/store.h"
#include "core/watcher.h"
#include "core/worker.h"
#include "follow/ingest.h"
#include "replica/replica.h"
#include "wire/scan.h"
#include "wire/write.h"

#define N_WORKERS     4
#define N_STREAMS     50
#define N_WATCHES     20
#define N_KEYS        64
#define N_GROUPS      8
#define LIST_GROUPS   N_KEYS
#define LIST_ALL      (N_KEYS + N_GROUPS)
#define N_LISTS       (LIST_ALL + 1)
#define LIST_MAX      ((size_t)1 << 22) /* entries of a list; untouched pages cost nothing */
#define TXN_MAX       4
#define VALUE_LARGE   2000
#define KV_MAX        (VALUE_LARGE + 128)
#define EXTENT_BYTES  4096 /* four large values are too large for memory */
#define HISTORY_BYTES ((size_t)2 << 20)
#define FIRST_REV     1000
#define BURST_MAX     60    /* revisions at once; now and then more than the log holds */
#define STUCK_MS      30000 /* without anything but periodic progress, once the writer has stopped */

static atomic_bool violated;
static atomic_bool stopping; /* the writer has written its last */
static atomic_uint cuts;     /* begun and done: odd while one is made */
static atomic_uint_fast64_t n_events, n_messages, n_closed, n_canceled, n_compacted, n_progress, n_resumed, n_fetched,
    n_broken;

__attribute__((format(printf, 1, 2))) static void violation(const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (!atomic_exchange(&violated, true)) /* what follows the first is mostly its consequence */
        fprintf(stderr, "violation: %s\n", text);
}

static void must(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "threads: %s\n", what);
    exit(2);
}

/* ---- the ledger ----
 *
 * An entry is rev << 8 | key << 1 | is_delete. The writer adds a revision's before it publishes it. */

struct list {
    _Atomic uint64_t *entries;
    atomic_size_t n;
};
static struct list lists[N_LISTS];

static void ledger_open(void)
{
    for (size_t i = 0; i < N_LISTS; i++) {
        void *at = mmap(NULL, LIST_MAX * sizeof(uint64_t), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        must(at != MAP_FAILED, "no room for the ledger");
        lists[i].entries = at;
    }
}

static uint64_t entry_of(int64_t rev, unsigned key, bool is_delete)
{
    return (uint64_t)rev << 8 | (uint64_t)key << 1 | is_delete;
}

static int64_t entry_rev(uint64_t entry)
{
    return (int64_t)(entry >> 8);
}

static void list_add(struct list *list, uint64_t entry)
{
    size_t n = atomic_load_explicit(&list->n, memory_order_relaxed);
    must(n < LIST_MAX, "the ledger is full: fewer seconds");
    atomic_store_explicit(&list->entries[n], entry, memory_order_relaxed);
    atomic_store_explicit(&list->n, n + 1, memory_order_release);
}

static void ledger_add(int64_t rev, unsigned key, bool is_delete)
{
    uint64_t entry = entry_of(rev, key, is_delete);
    list_add(&lists[key], entry);
    list_add(&lists[LIST_GROUPS + key % N_GROUPS], entry);
    list_add(&lists[LIST_ALL], entry);
}

/* The first entry at or above `rev`. */
static size_t list_find(struct list *list, int64_t rev)
{
    size_t low = 0, high = atomic_load_explicit(&list->n, memory_order_acquire);
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (entry_rev(atomic_load_explicit(&list->entries[mid], memory_order_relaxed)) < rev)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static size_t key_name(unsigned key, char *to, size_t room)
{
    return (size_t)snprintf(to, room, "group%u/key%02u", key % N_GROUPS, key);
}

static bool key_number(struct belfry_bytes name, unsigned *out)
{
    char text[32];
    unsigned group;
    snprintf(text, sizeof(text), "%.*s", (int)name.len, name.data);
    return sscanf(text, "group%u/key%u", &group, out) == 2 && *out < N_KEYS && group == *out % N_GROUPS;
}

/* ---- messages between threads ---- */

struct message {
    struct belfry_list link;
    unsigned worker; /* who asks, or is answered */
    struct worker_fetch fetch;
    enum belfry_err err; /* of an answer, as the two below */
    struct segment *segment;
    int64_t compact_rev;
};

struct queue {
    pthread_mutex_t mu;
    pthread_cond_t cond;
    struct belfry_list messages; /* under mu, as the next two */
    bool woken;
    bool closed;
};

static void queue_init(struct queue *queue)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_mutex_init(&queue->mu, NULL);
    pthread_cond_init(&queue->cond, &attr);
    pthread_condattr_destroy(&attr);
    belfry_list_init(&queue->messages);
}

static void queue_post(struct queue *queue, struct message *message)
{
    pthread_mutex_lock(&queue->mu);
    belfry_list_append(&queue->messages, &message->link);
    queue->woken = true;
    pthread_mutex_unlock(&queue->mu);
    pthread_cond_signal(&queue->cond);
}

static void queue_wake(struct queue *queue, bool close)
{
    pthread_mutex_lock(&queue->mu);
    bool tell = !queue->woken;
    queue->woken = true;
    queue->closed = queue->closed || close;
    pthread_mutex_unlock(&queue->mu);
    if (tell)
        pthread_cond_signal(&queue->cond);
}

/* Waits up to wait_ms for a message or a wake. */
static void queue_wait(struct queue *queue, uint64_t wait_ms)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += (long)(wait_ms % 1000) * 1000000;
    until.tv_sec += (time_t)(wait_ms / 1000) + until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&queue->mu);
    while (!queue->woken && !queue->closed)
        if (pthread_cond_timedwait(&queue->cond, &queue->mu, &until) != 0)
            break;
    queue->woken = false;
    pthread_mutex_unlock(&queue->mu);
}

/* The next message; NULL: none. */
static struct message *queue_take(struct queue *queue, bool *closed)
{
    struct message *message = NULL;
    pthread_mutex_lock(&queue->mu);
    if (!belfry_list_empty(&queue->messages))
        message = belfry_container(belfry_list_pop(&queue->messages), struct message, link);
    *closed = queue->closed;
    pthread_mutex_unlock(&queue->mu);
    return message;
}

static struct evlog *evlog;
static struct store *store;
static struct queue worker_queues[N_WORKERS], reader_queue;

/* ---- the reader ---- */

static void read_history(struct message *message)
{
    const struct worker_fetch *fetch = &message->fetch;
    int64_t oldest = 0;
    message->err = fetch->slice ? store->api->slice(store, fetch->past, fetch->from, fetch->sub, SEGMENT_BYTES / 256,
                                                    &message->segment, &oldest)
                                : store->api->history(store, fetch->past, fetch->from, SEGMENT_BYTES / 16,
                                                      &message->segment, &oldest);
    if (message->err != BELFRY_ERR_NOT_FOUND)
        return;
    message->err = BELFRY_ERR_COMPACTED; /* nobody is upstream to ask for it */
    message->compact_rev = oldest;
}

static void *run_reader(void *arg)
{
    for (bool closed = false; !closed;) {
        queue_wait(&reader_queue, 1000);
        struct message *message;
        while ((message = queue_take(&reader_queue, &closed)) != NULL) {
            read_history(message);
            atomic_fetch_add(&n_fetched, 1);
            queue_post(&worker_queues[message->worker], message);
        }
    }
    return arg;
}

/* ---- clients: they live on their worker's thread ---- */

enum watch_state { WATCH_IDLE, WATCH_CREATING, WATCH_LIVE, WATCH_ENDED, WATCH_CANCELING };

struct watch {
    enum watch_state state;
    int64_t id, start;
    bool from_now; /* it was created with a start of 0 */
    unsigned list;
    uint8_t flags;
    size_t at;      /* in the list: what it must be given next, or something before that its filters or start skip */
    int64_t resume; /* behind the last revision it was given; kept when it ends */
    unsigned cuts;  /* that its worker knew of when it was created */
};

struct client {
    struct stream *stream; /* NULL: closed */
    size_t room;
    uint64_t stalled_until;
    struct belfry_buf in;
    int64_t next_id;
    struct watch *creating[N_WATCHES]; /* in the order asked */
    size_t n_creating;
    struct watch *inside; /* its response is in fragments, and the last has not come */
    int64_t progress;     /* the newest answer to a progress request */
    uint64_t heard;       /* messages but for progress */
    struct watch watches[N_WATCHES];
};

struct floor { /* one worker and its clients */
    unsigned number;
    struct worker *worker;
    struct belfry_rng rng;
    uint64_t now;
    unsigned cuts; /* that the worker knows of */
    struct client clients[N_STREAMS];
};

static bool skips(const struct watch *watch, uint64_t entry)
{
    return entry_rev(entry) < watch->start || ((watch->flags & WATCHER_NO_PUT) != 0 && (entry & 1) == 0) ||
           ((watch->flags & WATCHER_NO_DELETE) != 0 && (entry & 1) != 0);
}

/* What it must be given next; 0: nothing that is in the ledger by now. */
static uint64_t expected(struct watch *watch)
{
    struct list *list = &lists[watch->list];
    size_t n = atomic_load_explicit(&list->n, memory_order_acquire);
    for (; watch->at < n; watch->at++) {
        uint64_t entry = atomic_load_explicit(&list->entries[watch->at], memory_order_relaxed);
        if (!skips(watch, entry))
            return entry;
    }
    return 0;
}

static struct watch *find_watch(struct client *client, int64_t id)
{
    for (size_t i = 0; i < N_WATCHES; i++) {
        struct watch *watch = &client->watches[i];
        if (watch->id == id && watch->state != WATCH_IDLE && watch->state != WATCH_CREATING)
            return watch;
    }
    return NULL;
}

static void check_prev(const struct watch *watch, const struct belfry_wire_event *event)
{
    bool was_there = event->is_delete || event->kv.version > 1;
    bool asked = (watch->flags & WATCHER_PREV_KV) != 0;
    if (event->has_prev != (asked && was_there))
        violation("watch %" PRId64 " rev %" PRId64 ": prev_kv is %s", watch->id, event->kv.mod_rev,
                  event->has_prev ? "there" : "missing");
    if (event->has_prev &&
        (!belfry_bytes_equal(event->prev.key, event->kv.key) || event->prev.mod_rev >= event->kv.mod_rev ||
         (!event->is_delete && event->prev.version + 1 != event->kv.version)))
        violation("watch %" PRId64 " rev %" PRId64 ": prev_kv is another's", watch->id, event->kv.mod_rev);
}

static void check_event(struct watch *watch, const struct belfry_wire_event *event)
{
    unsigned key = 0;
    if (!key_number(event->kv.key, &key)) {
        violation("watch %" PRId64 ": a key that was never written", watch->id);
        return;
    }
    uint64_t got = entry_of(event->kv.mod_rev, key, event->is_delete), wanted = expected(watch);
    if (got != wanted)
        violation("watch %" PRId64 " of list %u from %" PRId64 ": got rev %" PRId64 " key %u, expected rev %" PRId64
                  " key %u",
                  watch->id, watch->list, watch->start, event->kv.mod_rev, key, entry_rev(wanted),
                  (unsigned)(wanted >> 1 & 0x7f));
    check_prev(watch, event);
    watch->at++;
    watch->resume = event->kv.mod_rev + 1;
    atomic_fetch_add_explicit(&n_events, 1, memory_order_relaxed);
}

static void take_events(struct client *client, struct belfry_bytes message, const struct belfry_wire_watch *head)
{
    struct watch *watch = find_watch(client, head->watch_id);
    struct belfry_bytes raw;
    struct belfry_wire_event event;
    if (watch == NULL || watch->state == WATCH_ENDED) {
        violation("events for watch %" PRId64 ", which is %s", head->watch_id, watch == NULL ? "unknown" : "ended");
        return;
    }
    for (size_t at = 0; belfry_scan_field(message, BELFRY_WATCH_EVENTS, &at, &raw) == BELFRY_OK;) {
        if (belfry_scan_event(raw, &event) != BELFRY_OK)
            violation("an event that cannot be read");
        else
            check_event(watch, &event);
    }
    client->inside = head->fragment ? watch : NULL;
    uint64_t next = expected(watch);
    if (!head->fragment && next != 0 && entry_rev(next) < watch->resume)
        violation("watch %" PRId64 ": revision %" PRId64 " is torn", watch->id, entry_rev(next));
    if (head->header.revision < watch->resume - 1)
        violation("watch %" PRId64 ": a header behind its events", watch->id);
}

static void take_created(struct client *client, const struct belfry_wire_watch *head)
{
    if (client->n_creating == 0 || head->canceled) {
        violation("created %s", head->canceled ? "and canceled" : "without a request");
        return;
    }
    struct watch *watch = client->creating[0];
    memmove(client->creating, client->creating + 1, --client->n_creating * sizeof(*client->creating));
    if (watch->id != 0 && watch->id != head->watch_id)
        violation("created %" PRId64 " instead of %" PRId64, head->watch_id, watch->id);
    watch->id = head->watch_id;
    watch->state = WATCH_LIVE;
    watch->from_now = watch->start == 0;
    if (watch->from_now)
        watch->start = head->header.revision + 1;
    watch->resume = watch->start;
    watch->at = list_find(&lists[watch->list], watch->start);
}

static void take_canceled(struct client *client, const struct belfry_wire_watch *head)
{
    struct watch *watch = find_watch(client, head->watch_id);
    if (watch == NULL) {
        violation("canceled %" PRId64 ", which is unknown", head->watch_id);
    } else if (head->compact_revision == 0) {
        if (watch->state != WATCH_CANCELING)
            violation("canceled %" PRId64 ", which was not asked for", head->watch_id);
        watch->state = WATCH_IDLE;
    } else {
        if (atomic_load(&cuts) == watch->cuts && watch->resume >= head->compact_revision)
            violation("watch %" PRId64 " at %" PRId64 ": compacted at %" PRId64, watch->id, watch->resume,
                      head->compact_revision);
        if (watch->state == WATCH_LIVE)
            watch->state = WATCH_ENDED;
        watch->resume = head->compact_revision;
        atomic_fetch_add(&n_compacted, 1);
    }
}

static void check_promise(struct watch *watch, int64_t rev)
{
    uint64_t next = watch->state == WATCH_LIVE ? expected(watch) : 0;
    if (next != 0 && entry_rev(next) <= rev)
        violation("watch %" PRId64 ": progress says %" PRId64 ", and %" PRId64 " was not given", watch->id, rev,
                  entry_rev(next));
}

static void take_progress(struct client *client, const struct belfry_wire_watch *head)
{
    atomic_fetch_add(&n_progress, 1);
    if (head->watch_id != -1) {
        struct watch *watch = find_watch(client, head->watch_id);
        if (watch == NULL)
            violation("progress for watch %" PRId64 ", which is unknown", head->watch_id);
        else
            check_promise(watch, head->header.revision);
        return;
    }
    client->progress = head->header.revision;
    for (size_t i = 0; i < N_WATCHES; i++)
        check_promise(&client->watches[i], head->header.revision);
}

static void take_message(struct client *client, struct belfry_bytes message)
{
    struct belfry_wire_watch head;
    atomic_fetch_add_explicit(&n_messages, 1, memory_order_relaxed);
    if (belfry_scan_watch(message, &head) != BELFRY_OK) {
        violation("a message that cannot be read");
        return;
    }
    if (client->inside != NULL && (head.n_events == 0 || head.watch_id != client->inside->id))
        violation("something between the fragments of watch %" PRId64, client->inside->id);
    client->heard += head.n_events > 0 || head.created || head.canceled;
    if (head.n_events > 0)
        take_events(client, message, &head);
    else if (head.created)
        take_created(client, &head);
    else if (head.canceled)
        take_canceled(client, &head);
    else
        take_progress(client, &head);
}

static void client_write(void *user, const uint8_t *data, size_t len)
{
    struct client *client = user;
    if (len > client->room)
        violation("%zu bytes written, room for %zu", len, client->room);
    client->room -= len < client->room ? len : client->room;
    must(belfry_buf_append(&client->in, data, len) == BELFRY_OK, "out of memory");
}

static void client_read(struct client *client)
{
    struct belfry_bytes in = belfry_buf_bytes(&client->in);
    size_t at = 0;
    while (in.len - at >= RESPONSE_PREFIX) {
        const uint8_t *head = (const uint8_t *)in.data + at;
        size_t len = (size_t)head[1] << 24 | (size_t)head[2] << 16 | (size_t)head[3] << 8 | head[4];
        if (in.len - at - RESPONSE_PREFIX < len)
            break;
        take_message(client, belfry_bytes_of(head + RESPONSE_PREFIX, len));
        at += RESPONSE_PREFIX + len;
    }
    belfry_buf_take(&client->in, at);
}

/* ---- what clients do ---- */

static bool one_in(struct floor *floor, unsigned n)
{
    return belfry_rng_below(&floor->rng, n) == 0;
}

static unsigned pick_list(struct floor *floor)
{
    uint64_t dice = belfry_rng_below(&floor->rng, 100);
    if (dice < 2)
        return LIST_ALL;
    return dice < 20 ? LIST_GROUPS + (unsigned)belfry_rng_below(&floor->rng, N_GROUPS)
                     : (unsigned)belfry_rng_below(&floor->rng, N_KEYS);
}

static uint8_t pick_flags(struct floor *floor)
{
    static const uint8_t filters[] = {0, 0, 0, 0, WATCHER_NO_PUT, WATCHER_NO_DELETE};
    uint8_t flags = filters[belfry_rng_below(&floor->rng, sizeof(filters))];
    flags |= one_in(floor, 2) ? WATCHER_PREV_KV : 0;
    flags |= one_in(floor, 3) ? WATCHER_FRAGMENT : 0;
    return flags | (one_in(floor, 3) ? WATCHER_PROGRESS : 0);
}

/* Now, where it was, far back, or in the future. */
static int64_t pick_start(struct floor *floor, const struct watch *watch)
{
    int64_t at = worker_position(floor->worker), start;
    switch (belfry_rng_below(&floor->rng, 20)) {
    case 0:
        return at + 1 + (int64_t)belfry_rng_below(&floor->rng, 50);
    case 1:
    case 2:
    case 3:
    case 4:
    case 5:
        start = at - (int64_t)belfry_rng_below(&floor->rng, 1500);
        return start > 1 ? start : 1;
    case 6:
    case 7:
    case 8:
    case 9:
        return 0;
    default:
        return watch->resume;
    }
}

static void create(struct floor *floor, struct client *client, struct watch *watch)
{
    char name[64];
    int64_t start = pick_start(floor, watch);
    *watch = (struct watch){
        .list = pick_list(floor), .flags = pick_flags(floor), .start = start, .resume = start, .cuts = floor->cuts};
    struct stream_create request = {.start_rev = start, .flags = watch->flags};
    if (one_in(floor, 2))
        request.watch_id = watch->id = client->next_id++;
    if (watch->list == LIST_ALL) {
        request.key = request.range_end = belfry_bytes_of("", 1);
    } else if (watch->list >= LIST_GROUPS) {
        snprintf(name, sizeof(name), "group%u/group%u0", watch->list - LIST_GROUPS, watch->list - LIST_GROUPS);
        request.key = belfry_bytes_of(name, strlen("group0/"));
        request.range_end = belfry_bytes_of(name + strlen("group0/"), strlen("group00")); /* 0 follows / */
    } else {
        request.key = belfry_bytes_of(name, key_name(watch->list, name, sizeof(name)));
    }
    if (stream_create(floor->worker, client->stream, &request) != BELFRY_OK)
        return; /* too many answers wait */
    watch->state = WATCH_CREATING;
    client->creating[client->n_creating++] = watch;
    if (start > 0 && start <= worker_position(floor->worker))
        atomic_fetch_add(&n_resumed, 1);
}

static void cancel(struct floor *floor, struct client *client, struct watch *watch)
{
    if (stream_cancel(floor->worker, client->stream, watch->id) == BELFRY_OK) {
        watch->state = WATCH_CANCELING;
        atomic_fetch_add(&n_canceled, 1);
    }
}

static void client_open(struct floor *floor, struct client *client)
{
    must(stream_open(floor->worker, client, floor->now, &client->stream) == BELFRY_OK, "cannot open a stream");
    client->next_id = 1 << 20; /* well above those that the worker chooses */
    client->room = 0;
}

static void client_close(struct floor *floor, struct client *client)
{
    stream_close(floor->worker, client->stream);
    client->stream = NULL;
    client->n_creating = 0;
    client->inside = NULL;
    client->progress = 0;
    belfry_buf_clear(&client->in);
    for (size_t i = 0; i < N_WATCHES; i++)
        client->watches[i].state = WATCH_IDLE;
    atomic_fetch_add(&n_closed, 1);
}

static void client_watches(struct floor *floor, struct client *client)
{
    for (size_t i = 0; i < N_WATCHES; i++) {
        struct watch *watch = &client->watches[i];
        if (watch->state == WATCH_IDLE)
            create(floor, client, watch);
        else if (watch->state == WATCH_ENDED || (watch->state == WATCH_LIVE && one_in(floor, 50)))
            cancel(floor, client, watch);
    }
}

static void client_acts(struct floor *floor, struct client *client)
{
    if (client->stream == NULL)
        client_open(floor, client);
    else if (one_in(floor, 30))
        client_close(floor, client);
    if (client->stream == NULL)
        return;
    if (one_in(floor, 20))
        client->stalled_until = floor->now + belfry_rng_below(&floor->rng, 400);
    if (one_in(floor, 5))
        stream_progress(floor->worker, client->stream);
    client_watches(floor, client);
}

/* From a byte to plenty. */
static void client_writable(struct floor *floor, struct client *client)
{
    static const size_t rooms[] = {1, 100, 2000, 16384, 65536};
    if (client->stream == NULL || floor->now < client->stalled_until)
        return;
    size_t most = rooms[atomic_load(&stopping) ? 4 : belfry_rng_below(&floor->rng, 5)];
    client->room = 1 + (size_t)belfry_rng_below(&floor->rng, most);
    stream_writable(floor->worker, client->stream, client->room);
}

/* ---- a worker ---- */

static void take_answers(struct floor *floor)
{
    struct message *message;
    bool closed;
    while ((message = queue_take(&worker_queues[floor->number], &closed)) != NULL) {
        worker_fetched(floor->worker, &message->fetch, message->err, message->segment, message->compact_rev,
                       message->compact_rev);
        free(message);
    }
}

static void ask_reader(struct floor *floor)
{
    struct worker_fetch fetch;
    while (worker_wants_fetch(floor->worker, &fetch)) {
        struct message *message = calloc(1, sizeof(*message));
        must(message != NULL, "out of memory");
        message->worker = floor->number;
        message->fetch = fetch;
        queue_post(&reader_queue, message);
    }
}

/* One round of the loop that the daemon has around a worker. */
static void round_of(struct floor *floor, bool more)
{
    uint64_t due = worker_due(floor->worker), wait = due <= floor->now ? 0 : due - floor->now;
    if (!more)
        queue_wait(&worker_queues[floor->number], wait < 5 ? wait : 5);
    floor->now = belfry_clock_ms();
    take_answers(floor);
    for (size_t i = 0; i < N_STREAMS; i++)
        client_writable(floor, &floor->clients[i]);
}

static bool turn(struct floor *floor)
{
    floor->cuts = atomic_load(&cuts);
    bool more = worker_turn(floor->worker, floor->now, 500 + (size_t)belfry_rng_below(&floor->rng, 2000));
    ask_reader(floor);
    for (size_t i = 0; i < N_STREAMS; i++) {
        struct client *client = &floor->clients[i];
        if (client->stream != NULL)
            client_read(client);
        if (client->stream != NULL && stream_broken(client->stream)) { /* a cut in the middle of its message */
            client_close(floor, client);
            atomic_fetch_add(&n_broken, 1);
        }
    }
    return more;
}

/* Has the client everything there is? `head` is the last revision ever. */
static bool client_done(struct floor *floor, struct client *client, int64_t head)
{
    if (client->stream == NULL)
        return true;
    size_t live = 0;
    bool future = false;
    for (size_t i = 0; i < N_WATCHES; i++) {
        struct watch *watch = &client->watches[i];
        if (watch->state == WATCH_ENDED)
            cancel(floor, client, watch);
        if (watch->state == WATCH_CREATING || watch->state == WATCH_CANCELING ||
            (watch->state == WATCH_LIVE && expected(watch) != 0))
            return false;
        live += watch->state == WATCH_LIVE;
        future = future || (watch->state == WATCH_LIVE && !watch->from_now && watch->start > head);
    }
    if (live == 0 || future || client->progress == head) /* a start in the future holds progress back, as in etcd */
        return true;
    if (worker_position(floor->worker) == head)
        stream_progress(floor->worker, client->stream);
    return false;
}

static bool all_done(struct floor *floor)
{
    int64_t head = entry_rev(lists[LIST_ALL].entries[lists[LIST_ALL].n - 1]);
    bool done = worker_position(floor->worker) == head;
    for (size_t i = 0; i < N_STREAMS; i++) {
        floor->clients[i].stalled_until = 0;
        done = client_done(floor, &floor->clients[i], head) && done;
    }
    return done;
}

/* What is missing, so that a stuck worker can be understood from the line alone. */
static void tell_stuck(struct floor *floor)
{
    struct worker_stats stats;
    size_t creating = 0, canceling = 0, behind = 0, unanswered = 0;
    for (size_t i = 0; i < N_STREAMS; i++) {
        struct client *client = &floor->clients[i];
        unanswered += client->stream != NULL && client->progress != worker_position(floor->worker);
        for (size_t j = 0; j < N_WATCHES; j++) {
            creating += client->watches[j].state == WATCH_CREATING;
            canceling += client->watches[j].state == WATCH_CANCELING;
            behind += client->watches[j].state == WATCH_LIVE && expected(&client->watches[j]) != 0;
        }
    }
    worker_stats(floor->worker, &stats);
    violation("worker %u is stuck at %" PRId64 " of %" PRId64 ": %zu creating, %zu canceling, %zu behind, %zu streams "
              "without progress; its watchers: %zu riding, %zu waiting, %zu boarded, %zu stalled, %zu solo",
              floor->number, worker_position(floor->worker), evlog_commit_rev(evlog), creating, canceling, behind,
              unanswered, stats.riding, stats.waiting, stats.boarded, stats.stalled, stats.solo);
}

static void floor_open(struct floor *floor)
{
    struct worker_opts opts = {.log = evlog,
                               .number = floor->number,
                               .identity = {.cluster_id = 1, .member_id = 2, .raft_term = 3},
                               .seed = floor->rng.state,
                               .fragment_bytes = 1500,
                               .response_bytes = 32768,
                               .response_revs = 1000,
                               .segment_bytes = 1 << 20,
                               .progress_ms = 100,
                               .write = client_write};
    must(worker_create(&opts, &floor->worker) == BELFRY_OK, "cannot create a worker");
    floor->now = belfry_clock_ms();
}

static void floor_close(struct floor *floor)
{
    worker_destroy(floor->worker);
    for (size_t i = 0; i < N_STREAMS; i++)
        belfry_buf_fini(&floor->clients[i].in);
}

static uint64_t heard(const struct floor *floor)
{
    uint64_t n = (uint64_t)worker_position(floor->worker);
    for (size_t i = 0; i < N_STREAMS; i++)
        n += floor->clients[i].heard;
    return n;
}

/* The writer has stopped: everybody is to be given everything. */
static void drain(struct floor *floor, bool more)
{
    uint64_t before = 0, deadline = 0;
    while (!atomic_load(&violated) && !all_done(floor)) {
        if (heard(floor) != before)
            deadline = belfry_clock_ms() + STUCK_MS;
        before = heard(floor);
        if (belfry_clock_ms() > deadline)
            tell_stuck(floor);
        round_of(floor, more);
        more = turn(floor);
    }
}

static void *run_worker(void *arg)
{
    struct floor *floor = arg;
    floor_open(floor);
    bool more = false;
    while (!atomic_load(&stopping) && !atomic_load(&violated)) {
        round_of(floor, more);
        for (int i = 0; i < 10 && worker_position(floor->worker) > 0; i++)
            client_acts(floor, &floor->clients[belfry_rng_below(&floor->rng, N_STREAMS)]);
        more = turn(floor);
    }
    drain(floor, more);
    floor_close(floor);
    return NULL;
}

/* ---- the writer ---- */

struct key_state {
    bool exists;
    int64_t create_rev, version;
    size_t len;
    uint8_t kv[KV_MAX]; /* as it is */
};

struct author {
    struct ingest *ingest;
    struct belfry_rng rng;
    int64_t head;
    uint64_t revisions;
    struct key_state keys[N_KEYS];
};

static const struct belfry_wire_header header_ids = {.cluster_id = 1, .member_id = 2, .raft_term = 3};

static struct belfry_wire_header header_at(int64_t rev)
{
    struct belfry_wire_header header = header_ids;
    header.revision = rev;
    return header;
}

/* Writes the next event of a key into `to`, and remembers what it does. */
static size_t write_event(struct author *author, unsigned key, int64_t rev, size_t value_len, uint8_t *to)
{
    static const char value[VALUE_LARGE];
    struct key_state *state = &author->keys[key];
    char name[32];
    struct belfry_wire_event event = {.is_delete = state->exists && belfry_rng_below(&author->rng, 4) == 0};
    event.kv.key = belfry_bytes_of(name, key_name(key, name, sizeof(name)));
    event.kv.mod_rev = rev;
    if (!event.is_delete) {
        event.kv.create_rev = state->create_rev = state->exists ? state->create_rev : rev;
        event.kv.version = state->version = state->exists ? state->version + 1 : 1;
        event.kv.value = belfry_bytes_of(value, value_len);
        state->len = belfry_write_kv_size(&event.kv);
        belfry_write_kv(&event.kv, state->kv);
    }
    state->exists = !event.is_delete;
    ledger_add(rev, key, event.is_delete);
    return (size_t)(belfry_write_event(&event, to) - to);
}

static void publish(struct author *author, const struct ingest_revision *revision)
{
    for (;;) {
        enum belfry_err err = ingest_revision(author->ingest, revision, belfry_clock_ms());
        if (err == BELFRY_OK)
            break;
        if (err != BELFRY_ERR_AGAIN) {
            violation("ingest refuses revision %" PRId64 ": %s", revision->rev, ingest_why(author->ingest));
            return;
        }
        ingest_drained(author->ingest, belfry_clock_ms());
        ingest_tick(author->ingest, belfry_clock_ms());
        usleep(200);
    }
    author->head = revision->rev;
    author->revisions++;
    for (unsigned i = 0; i < N_WORKERS; i++)
        queue_wake(&worker_queues[i], false);
}

/* A transaction on up to TXN_MAX keys; now and then one that is too large for memory. */
static void write_revision(struct author *author)
{
    uint8_t raw[TXN_MAX][KV_MAX + 16];
    struct belfry_wire_event events[TXN_MAX];
    bool large = belfry_rng_below(&author->rng, 100) == 0;
    size_t n = large ? TXN_MAX : 1 + (size_t)belfry_rng_below(&author->rng, TXN_MAX);
    unsigned key = (unsigned)belfry_rng_below(&author->rng, N_KEYS);
    int64_t rev = author->head + 1;
    for (size_t i = 0; i < n; i++, key = (key + 7) % N_KEYS) {
        size_t value_len = large ? VALUE_LARGE : (size_t)belfry_rng_below(&author->rng, 100);
        size_t len = write_event(author, key, rev, value_len, raw[i]);
        must(belfry_scan_event(belfry_bytes_of(raw[i], len), &events[i]) == BELFRY_OK, "cannot read an own event");
    }
    publish(author, &(struct ingest_revision){.rev = rev, .events = events, .n = n, .header = header_at(rev)});
}

/* A listing at the head, as after a restored backup. What watchers have is still true, but they cannot know. */
static void list_anew(struct author *author, enum evlog_cut_why why)
{
    struct belfry_wire_header header = header_at(author->head);
    atomic_fetch_add(&cuts, 1);
    enum belfry_err err = store->api->fresh(store);
    for (size_t i = 0; i < N_KEYS && err == BELFRY_OK; i++) {
        struct belfry_wire_kv kv;
        if (!author->keys[i].exists)
            continue;
        must(belfry_scan_kv(belfry_bytes_of(author->keys[i].kv, author->keys[i].len), &kv) == BELFRY_OK, "bad kv");
        err = store->api->put(store, &kv);
    }
    if (err == BELFRY_OK)
        err = ingest_adopt(author->ingest, author->head, &header, why, why == EVLOG_CUT_START ? 0 : author->head);
    atomic_fetch_add(&cuts, 1);
    if (err != BELFRY_OK)
        violation("cannot list anew: %s", belfry_strerror((int)err));
}

static void write_for(struct author *author, uint64_t ms)
{
    uint64_t end = belfry_clock_ms() + ms, cut_at = belfry_clock_ms() + 3000;
    while (belfry_clock_ms() < end && !atomic_load(&violated)) {
        for (uint64_t n = 1 + belfry_rng_below(&author->rng, BURST_MAX); n > 0; n--)
            write_revision(author);
        if (belfry_rng_below(&author->rng, 3) != 0) /* otherwise its time or its size commit it */
            ingest_drained(author->ingest, belfry_clock_ms());
        usleep((useconds_t)belfry_rng_below(&author->rng, 50000));
        ingest_tick(author->ingest, belfry_clock_ms());
        if (belfry_clock_ms() >= cut_at) {
            list_anew(author, belfry_rng_below(&author->rng, 2) == 0 ? EVLOG_CUT_REWRITTEN : EVLOG_CUT_COMPACTED);
            cut_at = belfry_clock_ms() + 10000;
        }
    }
    write_revision(author); /* so that there is something behind the last cut */
    while (ingest_committed(author->ingest) < author->head && !atomic_load(&violated)) {
        ingest_drained(author->ingest, belfry_clock_ms());
        ingest_tick(author->ingest, belfry_clock_ms());
        usleep(1000);
    }
}

/* ---- the whole ---- */

static int remove_one(const char *path, const struct stat *info, int type, struct FTW *ftw)
{
    (void)info;
    (void)type;
    (void)ftw;
    return remove(path);
}

static void open_all(struct author *author, const char *dir, uint64_t seed)
{
    struct evlog_opts log_opts = {.capacity_log2 = 6, .max_bytes = 64 * 1024, .n_workers = N_WORKERS};
    struct replica_opts replica_opts = {.dir = dir,
                                        .history_bytes = HISTORY_BYTES,
                                        .history_age_s = 3600,
                                        .map_bytes = 256u << 20,
                                        .extent_bytes = EXTENT_BYTES,
                                        .scope = ""};
    char *why = NULL;
    must(evlog_create(&log_opts, &evlog) == BELFRY_OK, "cannot create the log");
    must(replica_open(&replica_opts, &store, &why) == BELFRY_OK, why != NULL ? why : "cannot open the replica");
    struct ingest_opts opts = {
        .store = store, .evlog = evlog, .extent_bytes = EXTENT_BYTES, .trim_rows = 256, .whole_scope = true};
    author->rng.state = seed;
    author->head = FIRST_REV;
    must(ingest_create(&opts, &author->ingest) == BELFRY_OK, "cannot create ingest");
    bool warm = true;
    must(ingest_open(author->ingest, &warm) == BELFRY_OK && !warm, "a new replica is not empty");
    list_anew(author, EVLOG_CUT_START);
}

static void close_all(struct author *author)
{
    ingest_destroy(author->ingest);
    for (unsigned i = 0; i < N_WORKERS; i++) {
        struct message *message;
        bool closed;
        while ((message = queue_take(&worker_queues[i], &closed)) != NULL) {
            segment_unref(message->segment);
            free(message);
        }
    }
    replica_close(store, REPLICA_CLOSE_DIRTY);
    evlog_destroy(evlog);
}

static void run(struct author *author, uint64_t seconds, uint64_t seed)
{
    static struct floor floors[N_WORKERS];
    pthread_t workers[N_WORKERS], reader;
    queue_init(&reader_queue);
    for (unsigned i = 0; i < N_WORKERS; i++)
        queue_init(&worker_queues[i]);
    must(pthread_create(&reader, NULL, run_reader, NULL) == 0, "cannot start a thread");
    for (unsigned i = 0; i < N_WORKERS; i++) {
        floors[i].number = i;
        floors[i].rng.state = seed * 1000 + i;
        must(pthread_create(&workers[i], NULL, run_worker, &floors[i]) == 0, "cannot start a thread");
    }
    write_for(author, seconds * 1000);
    atomic_store(&stopping, true);
    for (unsigned i = 0; i < N_WORKERS; i++)
        pthread_join(workers[i], NULL);
    queue_wake(&reader_queue, true);
    pthread_join(reader, NULL);
}

static void tell(const struct author *author)
{
    printf("threads: %s: %" PRIu64 " revisions, %" PRIuFAST64 " events in %" PRIuFAST64 " messages, %" PRIuFAST64
           " fetches, %" PRIuFAST64 " resumed, %" PRIuFAST64 " canceled, %" PRIuFAST64 " compacted, %" PRIuFAST64
           " streams closed, %" PRIuFAST64 " of them broken, %" PRIuFAST64 " progress, %u pasts\n",
           atomic_load(&violated) ? "VIOLATION" : "ok", author->revisions, atomic_load(&n_events),
           atomic_load(&n_messages), atomic_load(&n_fetched), atomic_load(&n_resumed), atomic_load(&n_canceled),
           atomic_load(&n_compacted), atomic_load(&n_closed), atomic_load(&n_broken), atomic_load(&n_progress),
           atomic_load(&cuts) / 2);
}

int main(int argc, char **argv)
{
    static struct author author;
    uint64_t seconds = 5, seed = 1;
    for (int i = 1; i < argc; i += 2) {
        uint64_t *value = strcmp(argv[i], "--seconds") == 0 ? &seconds : strcmp(argv[i], "--seed") == 0 ? &seed : NULL;
        if (value == NULL || i + 1 == argc) {
            fprintf(stderr, "threads: %s: usage: threads [--seconds N] [--seed S]\n", argv[i]);
            return 2;
        }
        *value = strtoull(argv[i + 1], NULL, 10);
    }
    const char *tmp = getenv("TMPDIR");
    char dir[4096];
    snprintf(dir, sizeof(dir), "%s/belfry-threads-XXXXXX", tmp != NULL ? tmp : P_tmpdir);
    must(mkdtemp(dir) != NULL, "cannot make a folder");
    ledger_open();
    open_all(&author, dir, seed);
    run(&author, seconds, seed);
    close_all(&author);
    nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    tell(&author);
    return atomic_load(&violated) ? 1 : 0;
}
