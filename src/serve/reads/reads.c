/* src/serve/reads/reads.c */
#include "serve/reads/reads.h"

#include <assert.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/owner.h"
#include "base/sim.h"
#include "base/treap.h"
#include "follow/upstream.h"
#include "net/grpc.h"
#include "net/grpc_frame.h"
#include "serve/reads/range_answer.h"
#include "serve/reads/range_rows.h"
#include "serve/reads/range_slices.h"
#include "serve/reads/read_request.h"
#include "serve/reads/read_rights.h"
#include "serve/reads/txn_answer.h"
#include "serve/rights/lanes.h"
#include "serve/rights/refusal.h"

#define RANGE_PATH  "/etcdserverpb.KV/Range"
#define STREAM_PATH "/etcdserverpb.KV/RangeStream"
#define TXN_PATH    "/etcdserverpb.KV/Txn"
#define LOOK_MS     20      /* between two looks whether the store has reached a revision */
#define RIGHTS_MS   500     /* for upstream to say whether a read that may be old is allowed */
#define TURN_NS     1000000 /* of a turn of the loop, for answers: each may take as much again */

#define NO_LEADER   "etcdserver: no leader"
#define TIMED_OUT   "etcdserver: request timed out"
#define FUTURE_REV  "etcdserver: mvcc: required revision is a future revision"
#define NO_MEMORY   "belfry: out of memory"
#define LEFT_WINDOW "belfry: what this read was reading is no longer there; repeat it"
#define UNASKED     "belfry: upstream is unreachable, and cannot be asked whether this client may read this"
#define NO_POINT    "belfry: this tier does not know now how far upstream is"
#define OTHER_PAST  "belfry: the past was rewritten since the watch of this connection began"

/* As an etcd that has RangeStream says it. */
#define NO_ORDERS  "RangeStream does not support custom sort orders"
#define NO_FILTERS "RangeStream does not support revision filters"

enum read_state {
    READ_NEW,
    READ_RIGHTS, /* may the client read all of it? */
    READ_POINT,  /* how far is upstream? */
    READ_TURN,   /* others are read first */
    READ_FUTURE, /* the store has not reached its revision */
    READ_PART    /* a part of its answer is being sent */
};

struct read {
    struct reads *reads;
    reads_fn fn;
    void *user;
    enum reads_method method;
    enum read_state state;
    bool hasleader;
    bool serves_off; /* its listener does while auth is off */
    bool is_point;   /* as in reads_request: */
    uint64_t past;   /* in which the answer must be; 0: in none */
    struct lanes_source source;
    struct belfry_list node;         /* RIGHTS, FUTURE, TURN: in the list of those that wait for the same */
    struct belfry_treap_node by_due; /* POINT: of reads.points */
    bool is_by_due;                  /* it is there */
    uint64_t number;                 /* order among equal times */
    uint64_t due_ms;                 /* of RIGHTS, POINT and FUTURE */
    uint64_t future_ms;              /* until when it waits for its revision; 0: it has not waited */
    struct read_rights *rights;      /* RIGHTS */
    struct point_wait wait;
    bool has_point; /* linearizable: what the answer must include is known: */
    struct point point;
    bool is_large;               /* it is answered in parts: */
    struct range_slices *slices; /* owned; NULL: it has not begun */
    bool has_part;               /* a part was given; the next should have about so many bytes: */
    size_t room;
    struct reads_answer *now;    /* inside of reads_open(): where an answer goes; NULL from then on */
    struct read_request request; /* its bytes are behind this */
    char text[];
};

struct reads {
    struct reads_opts opts;
    enum reads_standing standing;
    struct range_upstream upstream;
    uint64_t past, rewritten; /* of watches */
    struct belfry_list asked; /* of read.node, the first that is due first */
    struct belfry_treap_node
        *points;                /* of read.by_due: one that asks again keeps its time, so they come in any order */
    struct belfry_list futures; /* of read.node, in any order */
    uint64_t numbers;
    struct lanes turns;         /* of read.node */
    struct belfry_hash_key key; /* of the lanes */
    uint64_t used_ns;           /* for answers, in this turn of the loop */
    uv_timer_t timer;
    uint64_t due_ms; /* of the timer; BELFRY_NEVER: it does not run */
    struct reads_stats stats;
    BELFRY_OWNER;
};

static void read_go_on(struct read *read, uint64_t now_ms);

static enum reads_consistency consistency_of(const struct read *read)
{
    return read->request.serializable ? READS_SERIALIZABLE : READS_LINEARIZABLE;
}

/* ---- answers ---- */

static void read_drop_slices(struct read *read)
{
    if (read->slices == NULL)
        return;
    range_slices_fini(read->slices);
    free(read->slices);
    read->slices = NULL;
}

static int read_order(const struct belfry_treap_node *a, const struct belfry_treap_node *b)
{
    const struct read *x = belfry_container_const(a, struct read, by_due);
    const struct read *y = belfry_container_const(b, struct read, by_due);
    if (x->due_ms != y->due_ms)
        return x->due_ms < y->due_ms ? -1 : 1;
    return (x->number > y->number) - (x->number < y->number);
}

/* It waits for nothing any more. */
static void read_leave(struct read *read)
{
    belfry_list_remove(&read->node);
    if (read->is_by_due)
        belfry_treap_remove(&read->reads->points, &read->by_due, read_order);
    read->is_by_due = false;
}

static void read_free(struct read *read)
{
    read_rights_cancel(read->rights);
    point_wait_end(&read->wait);
    read_leave(read);
    read_drop_slices(read);
    free(read);
}

static void read_tell(struct read *read, struct reads_answer *answer)
{
    reads_fn fn = read->fn;
    void *user = read->user;
    struct reads_answer *now = read->now;
    struct reads_stats *stats = &read->reads->stats;
    stats->replica[consistency_of(read)] += answer->verdict == READS_REPLIED;
    stats->stale += answer->verdict == READS_REPLIED && read->reads->standing == READS_STALE;
    stats->upstream[consistency_of(read)] += answer->verdict == READS_RELAY;
    stats->failed += answer->verdict == READS_FAILED;
    read_free(read);
    if (now != NULL)
        *now = *answer;
    else
        fn(answer, user);
}

static void read_fail(struct read *read, int code, const char *message)
{
    struct reads_answer answer = {.verdict = READS_FAILED, .code = code, .message = message};
    read_tell(read, &answer);
}

/* It is not for us; but what upstream would say to a question about ourselves would not be true of us. */
static void read_give_up(struct read *read)
{
    struct reads_answer answer = {.verdict = READS_RELAY};
    if (read->is_point)
        read_fail(read, BELFRY_GRPC_FAILED_PRECONDITION, NO_POINT);
    else
        read_tell(read, &answer);
}

/* ---- waiting ---- */

static void on_reads_timer(uv_timer_t *timer);

static void reads_arm(struct reads *reads, uint64_t due_ms, uint64_t now_ms)
{
    if (due_ms >= reads->due_ms)
        return;
    reads->due_ms = due_ms;
    uv_update_time(reads->timer.loop);
    uv_timer_start(&reads->timer, on_reads_timer, due_ms > now_ms ? due_ms - now_ms : 0, 0);
}

static void read_wait_for_point(struct read *read, uint64_t due_ms, uint64_t now_ms)
{
    struct reads *reads = read->reads;
    read_leave(read);
    read->state = READ_POINT;
    read->due_ms = due_ms;
    read->is_by_due = true;
    belfry_treap_insert(&reads->points, &read->by_due, read_order);
    reads_arm(reads, due_ms, now_ms);
}

static void read_wait_for_revision(struct read *read, uint64_t due_ms, uint64_t now_ms)
{
    struct reads *reads = read->reads;
    read_leave(read);
    read->state = READ_FUTURE;
    read->due_ms = due_ms;
    belfry_list_append(&reads->futures, &read->node);
    reads_arm(reads, now_ms + LOOK_MS, now_ms);
}

/* The first that waits for a point and is due; NULL: none waits. */
static struct read *reads_first_due(const struct reads *reads)
{
    struct belfry_treap_node *node = belfry_treap_first(reads->points);
    return node == NULL ? NULL : belfry_container(node, struct read, by_due);
}

static void reads_end_late_points(struct reads *reads, uint64_t now_ms)
{
    for (struct read *read; (read = reads_first_due(reads)) != NULL && read->due_ms <= now_ms;)
        read_fail(read, BELFRY_GRPC_UNAVAILABLE, TIMED_OUT);
}

/* The store may have reached them. Those that still wait go back; those that are late end. */
static void reads_look_at_futures(struct reads *reads, uint64_t now_ms)
{
    struct belfry_list futures;
    belfry_list_init(&futures);
    belfry_list_move_all(&futures, &reads->futures);
    for (struct belfry_list *node; (node = belfry_list_pop(&futures)) != NULL;) {
        struct read *read = belfry_container(node, struct read, node);
        if (read->due_ms <= now_ms)
            read_fail(read, BELFRY_GRPC_OUT_OF_RANGE, FUTURE_REV);
        else
            read_go_on(read, now_ms);
    }
}

/* Upstream has not said in time whether they are allowed. They ask for no more than the tier has: when auth was off,
 * everybody could read that. Otherwise the clients of a stale tier learn why they get nothing; without that, upstream
 * may still answer. */
static void reads_look_at_asked(struct reads *reads, uint64_t now_ms)
{
    while (!belfry_list_empty(&reads->asked)) {
        struct read *read = belfry_container(reads->asked.next, struct read, node);
        if (read->due_ms > now_ms)
            return;
        belfry_list_remove(&read->node);
        bool was_open = read->serves_off && permit_was_open(reads->opts.permit, now_ms);
        if (!was_open && reads->standing != READS_STALE)
            continue;
        read_rights_cancel(read->rights);
        read->rights = NULL;
        if (was_open)
            read_go_on(read, now_ms);
        else
            read_fail(read, BELFRY_GRPC_UNAVAILABLE, UNASKED);
    }
}

static void on_reads_timer(uv_timer_t *timer)
{
    struct reads *reads = timer->data;
    uint64_t now_ms = belfry_clock_ms();
    reads->due_ms = BELFRY_NEVER;
    reads_look_at_asked(reads, now_ms);
    reads_end_late_points(reads, now_ms);
    reads_look_at_futures(reads, now_ms);
    if (!belfry_list_empty(&reads->futures))
        reads_arm(reads, now_ms + LOOK_MS, now_ms);
    const struct read *first = reads_first_due(reads);
    if (first != NULL)
        reads_arm(reads, first->due_ms, now_ms);
    if (!belfry_list_empty(&reads->asked))
        reads_arm(reads, belfry_container(reads->asked.next, struct read, node)->due_ms, now_ms);
}

/* ---- the store ---- */

/* The store is behind the revision that is asked for. */
static void read_in_future(struct read *read, uint64_t now_ms)
{
    if (!read->request.serializable) {
        read_fail(read, BELFRY_GRPC_OUT_OF_RANGE, FUTURE_REV); /* upstream has not reached it either */
        return;
    }
    if (read->future_ms == 0)
        read->future_ms = now_ms + READS_FUTURE_MS;
    read_wait_for_revision(read, read->future_ms, now_ms);
}

static void read_ask_point(struct read *read, uint64_t now_ms);

/* In whose place an answer is given now. */
static struct range_upstream reads_upstream(const struct reads *reads)
{
    struct range_upstream upstream = reads->upstream;
    if (reads->opts.term != NULL && !BELFRY_MUTANT(reads_term_of_store))
        upstream.identity.raft_term = term_now(reads->opts.term);
    return upstream;
}

static enum belfry_err read_store(struct read *read, struct belfry_buf *out, struct range_answer *about)
{
    struct store *store = read->reads->opts.store;
    struct range_upstream upstream = reads_upstream(read->reads);
    if (read->method == READS_TXN)
        return txn_answer(store, &read->request, &upstream, out, about);
    return range_answer(store, &read->request.range, &upstream, out, about);
}

static void reads_set_busy(struct reads *reads, bool is_busy)
{
    if (reads->opts.points != NULL)
        points_set_busy(reads->opts.points, is_busy);
}

/* It goes on when it is its turn. */
static void read_await_turn(struct read *read)
{
    struct reads *reads = read->reads;
    read->state = READ_TURN;
    read_leave(read);
    lanes_wait(&reads->turns, lanes_of(&reads->turns, reads->key, read->source), &read->node);
    reads_set_busy(reads, true);
}

/* The store could not answer it, and no part of an answer was given. */
static void read_not_answered(struct read *read, enum belfry_err err, uint64_t now_ms)
{
    if (err == BELFRY_ERR_AGAIN)
        read_in_future(read, now_ms);
    else if (err == BELFRY_ERR_NOMEM)
        read_fail(read, BELFRY_GRPC_RESOURCE_EXHAUSTED, NO_MEMORY);
    else
        read_give_up(read);
}

static void read_answer(struct read *read, uint64_t now_ms)
{
    struct reads *reads = read->reads;
    struct reads_answer answer = {.verdict = READS_REPLIED};
    struct range_answer about;
    uint64_t began_ns = belfry_clock_ns();
    enum belfry_err err = read_store(read, &answer.response, &about);
    reads->used_ns += belfry_clock_ns() - began_ns;
    if (err == BELFRY_OK && read->has_point && about.past != read->point.past) { /* it was listed again meanwhile */
        belfry_buf_fini(&answer.response);
        read_ask_point(read, now_ms);
        return;
    }
    assert(err != BELFRY_OK || !read->has_point || about.revision >= read->point.rev);
    if (err == BELFRY_OK && read->is_point && about.past != read->past) {
        belfry_buf_fini(&answer.response);
        read_fail(read, BELFRY_GRPC_UNAVAILABLE, OTHER_PAST);
        return;
    }
    if (err == BELFRY_OK) {
        read_tell(read, &answer);
        return;
    }
    belfry_buf_fini(&answer.response);
    if (err == BELFRY_ERR_TOO_LARGE && read->method == READS_RANGE && range_slices_can(&read->request.range)) {
        read->is_large = true;
        read_await_turn(read);
    } else {
        read_not_answered(read, err, now_ms);
    }
}

/* ---- answers in parts ---- */

static enum belfry_err read_begin_slices(struct read *read)
{
    bool is_stream = read->method == READS_RANGE_STREAM;
    enum etcd_keys_only keys_only = read->reads->upstream.keys_only;
    if (is_stream && keys_only == ETCD_KEYS_ONLY_UNKNOWN)
        keys_only = ETCD_KEYS_ONLY_BARE;
    if (read->slices != NULL)
        return BELFRY_OK;
    read->slices = calloc(1, sizeof(*read->slices));
    if (read->slices == NULL)
        return BELFRY_ERR_NOMEM;
    return range_slices_init(read->slices, &read->request.range, is_stream ? RANGE_SLICES_CHUNKS : RANGE_SLICES_MESSAGE,
                             keys_only);
}

static void read_give_part(struct read *read, struct belfry_buf *part)
{
    struct reads_answer answer = {.verdict = READS_PART, .response = *part};
    read->state = READ_PART;
    read->has_part = true;
    read->reads->stats.parts++;
    read->fn(&answer, read->user); /* which may cancel the read */
}

/* A slice was read, and `part` can be sent. */
static void read_after_slice(struct read *read, struct belfry_buf *part, uint64_t now_ms)
{
    const struct range_slices *slices = read->slices;
    struct reads_answer answer = {.verdict = READS_REPLIED, .response = *part};
    if (read->has_point && slices->begun && slices->past != read->point.past) { /* it was listed again meanwhile */
        assert(!read->has_part);
        belfry_buf_fini(part);
        read_drop_slices(read);
        read_ask_point(read, now_ms);
    } else if (slices->state == RANGE_SLICES_DONE) {
        read_tell(read, &answer);
    } else if (belfry_buf_len(part) > 0) {
        read_give_part(read, part);
    } else {
        belfry_buf_fini(part);
        read_await_turn(read);
    }
}

static void read_slice(struct read *read, uint64_t now_ms)
{
    struct reads *reads = read->reads;
    struct belfry_buf part;
    belfry_buf_init(&part);
    struct response_identity identity = reads_upstream(reads).identity;
    uint64_t began_ns = belfry_clock_ns();
    enum belfry_err err = read_begin_slices(read);
    if (err == BELFRY_OK)
        err = range_slices_step(read->slices, reads->opts.store, &identity, read->room, &part);
    reads->used_ns += belfry_clock_ns() - began_ns;
    if (err == BELFRY_OK) {
        read_after_slice(read, &part, now_ms);
        return;
    }
    belfry_buf_fini(&part);
    if (read->has_part)
        read_fail(read, BELFRY_GRPC_UNAVAILABLE, LEFT_WINDOW);
    else
        read_not_answered(read, err, now_ms);
}

void read_next(struct read *read, size_t room)
{
    BELFRY_OWNER_CHECK(read->reads);
    assert(read->state == READ_PART);
    read->room = room;
    read_await_turn(read);
}

/* ---- turns ---- */

static void read_run(struct read *read, uint64_t now_ms)
{
    if (read->is_large)
        read_slice(read, now_ms);
    else
        read_answer(read, now_ms);
}

/* Answers it now, if there is time in this turn of the loop and nobody waits for that. */
static void read_take_turn(struct read *read, uint64_t now_ms)
{
    struct reads *reads = read->reads;
    if (!read->is_large && reads->used_ns < TURN_NS && lanes_next(&reads->turns, 1) == NULL)
        read_answer(read, now_ms);
    else
        read_await_turn(read);
}

bool reads_wait(const struct reads *reads)
{
    return lanes_next(&reads->turns, 1) != NULL;
}

void reads_turn(struct reads *reads)
{
    BELFRY_OWNER_CHECK(reads);
    struct lane *lane;
    reads->used_ns = 0;
    while (reads->used_ns < TURN_NS && (lane = lanes_next(&reads->turns, 1)) != NULL)
        read_run(belfry_container(lanes_take(&reads->turns, lane), struct read, node), belfry_clock_ms());
    reads_set_busy(reads, reads_wait(reads));
}

/* ---- how far is upstream? ---- */

static void on_read_point(struct point_wait *wait, const struct point *point)
{
    struct read *read = belfry_container(wait, struct read, wait);
    read_leave(read);
    if (point->err != BELFRY_OK) {
        read_give_up(read);
        return;
    }
    read->has_point = true;
    read->point = *point;
    read_take_turn(read, belfry_clock_ms());
}

static void read_ask_point(struct read *read, uint64_t now_ms)
{
    bool is_first = !read->has_point;
    read_wait_for_point(read, is_first ? now_ms + READS_WAIT_MS : read->due_ms, now_ms);
    points_wait(read->reads->opts.points, &read->wait);
}

/* The client may read it. */
static void read_go_on(struct read *read, uint64_t now_ms)
{
    const struct reads *reads = read->reads;
    bool unasked = (BELFRY_MUTANT(reads_stale_unasked) && reads->standing == READS_STALE) ||
                   (BELFRY_MUTANT(reads_pinned_unasked) && read->request.range.revision > 0);
    if (reads->standing == READS_NOT_READY)
        read_give_up(read);
    else if (reads->standing == READS_STALE && read->hasleader) /* of serializable reads, too, as at etcd */
        read_fail(read, BELFRY_GRPC_UNAVAILABLE, NO_LEADER);
    else if (read->request.serializable || unasked)
        read_take_turn(read, now_ms);
    else if (reads->opts.points == NULL)
        read_give_up(read);
    else
        read_ask_point(read, now_ms);
}

/* ---- rights ---- */

static void on_read_verdict(enum permit_verdict verdict, const char *reason, void *user)
{
    struct read *read = user;
    struct refusal_status status;
    read->rights = NULL;
    belfry_list_remove(&read->node);
    switch (verdict) {
    case PERMIT_GRANTED:
    case PERMIT_HELD:
        read_go_on(read, belfry_clock_ms());
        break;
    case PERMIT_REFUSED:
        status = refusal_status(reason);
        read_fail(read, status.code, status.message);
        break;
    case PERMIT_UNAVAILABLE: /* upstream says why in its own words, if it can be reached */
        if (read->reads->standing == READS_STALE && read->request.serializable)
            read_fail(read, BELFRY_GRPC_UNAVAILABLE, UNASKED);
        else
            read_give_up(read);
        break;
    }
}

static enum belfry_err read_begin(struct read *read, const struct identity *who, uint64_t now_ms)
{
    struct permit *permit = read->reads->opts.permit;
    if (read->reads->standing == READS_NOT_READY) {
        read_give_up(read);
        return BELFRY_OK;
    }
    read->serves_off = permit_serves_off(permit, who);
    bool is_stale = read->reads->standing == READS_STALE && read->request.serializable;
    if (permit_is_open_to(permit, who, now_ms) || (is_stale && read->serves_off && permit_was_open(permit, now_ms))) {
        read_go_on(read, now_ms);
        return BELFRY_OK;
    }
    read->state = READ_RIGHTS;
    enum belfry_err err = read_rights_ask(permit, who, &read->request, now_ms, on_read_verdict, read, &read->rights);
    if (err == BELFRY_ERR_LIMIT ||
        err == BELFRY_ERR_REFUSED) { /* too many questions wait, or its client holds too much */
        read_give_up(read);
        return BELFRY_OK;
    }
    if (err == BELFRY_OK && read->request.serializable) {
        read->due_ms = now_ms + RIGHTS_MS;
        belfry_list_append(&read->reads->asked, &read->node);
        reads_arm(read->reads, read->due_ms, now_ms);
    }
    return err;
}

/* ---- beginning ---- */

enum reads_method reads_method(struct belfry_bytes path)
{
    if (belfry_bytes_equal(path, belfry_bytes_str(RANGE_PATH)))
        return READS_RANGE;
    if (belfry_bytes_equal(path, belfry_bytes_str(TXN_PATH)))
        return READS_TXN;
    return belfry_bytes_equal(path, belfry_bytes_str(STREAM_PATH)) ? READS_RANGE_STREAM : READS_NONE;
}

static enum read_request_fit read_asked(const struct reads_request *request, struct read_request *out)
{
    enum read_request_kind kind = request->method == READS_TXN ? READ_REQUEST_TXN : READ_REQUEST_RANGE;
    struct belfry_bytes message = belfry_grpc_frame_only(request->body);
    if (message.data != NULL)
        return read_request_read(kind, message, out);
    *out = (struct read_request){.kind = kind}; /* it is compressed, or no message */
    return kind == READ_REQUEST_RANGE ? READ_REQUEST_ETCDS : READ_REQUEST_NONE;
}

/* Is it something that etcd refuses, and that need not be relayed? */
static bool refuse(const struct reads_request *request, const struct belfry_wire_range_request *range,
                   struct reads_answer *answer)
{
    *answer = (struct reads_answer){.verdict = READS_FAILED, .code = BELFRY_GRPC_UNIMPLEMENTED};
    bool is_stream = request->method == READS_RANGE_STREAM && !request->relays && range_answer_knows(range);
    bool has_order = range->sort_order == BELFRY_SORT_DESCEND ||
                     (range->sort_order == BELFRY_SORT_ASCEND && range->sort_target != BELFRY_SORT_KEY);
    if (is_stream && has_order) {
        answer->message = NO_ORDERS;
    } else if (is_stream && range_rows_filters(range)) {
        answer->message = NO_FILTERS;
    } else {
        answer->verdict = READS_RELAY;
    }
    return answer->verdict == READS_FAILED;
}

/* With a copy of what it asks for. NULL: there is no memory. */
static struct read *read_create(struct reads *reads, const struct reads_request *request,
                                const struct read_request *asked, reads_fn fn, void *user)
{
    struct read *read = calloc(1, sizeof(*read) + read_request_bytes(asked));
    if (read == NULL)
        return NULL;
    char *to = read->text;
    read->request = read_request_pack(asked, &to);
    read->request.serializable = asked->serializable || request->serializable;
    read->reads = reads;
    read->method = request->method;
    read->is_large = request->method == READS_RANGE_STREAM;
    read->fn = fn;
    read->user = user;
    read->hasleader = request->hasleader;
    read->is_point = request->is_point;
    read->past = request->watched >= reads->rewritten ? reads->past : 0;
    read->number = ++reads->numbers;
    belfry_list_init(&read->node);
    point_wait_init(&read->wait, on_read_point);
    read->source = request->who->source;
    return read;
}

enum belfry_err reads_open(struct reads *reads, const struct reads_request *request, uint64_t now_ms, reads_fn fn,
                           void *user, struct read **out, struct reads_answer *answer)
{
    BELFRY_OWNER_CHECK(reads);
    struct read_request asked;
    *out = NULL;
    *answer = (struct reads_answer){.verdict = READS_RELAY};
    enum read_request_fit fit = read_asked(request, &asked);
    if (request->method != READS_TXN && refuse(request, &asked.range, answer)) {
        reads->stats.failed++;
        return BELFRY_OK;
    }
    bool relays = request->relays && !request->is_point;
    bool is_ours = fit == READ_REQUEST_FITTING && !relays && read_request_is_within(&asked, reads->opts.scope);
    if (!is_ours && request->is_point) {
        *answer = (struct reads_answer){
            .verdict = READS_FAILED, .code = BELFRY_GRPC_FAILED_PRECONDITION, .message = NO_POINT};
        reads->stats.failed++;
        return BELFRY_OK;
    }
    if (!is_ours) {
        if (fit != READ_REQUEST_NONE)
            reads->stats.upstream[asked.serializable ? READS_SERIALIZABLE : READS_LINEARIZABLE]++;
        return BELFRY_OK;
    }
    struct read *read = read_create(reads, request, &asked, fn, user);
    if (read == NULL)
        return BELFRY_ERR_NOMEM;
    read->now = answer;
    answer->verdict = READS_WAITS;
    enum belfry_err err = read_begin(read, request->who, now_ms);
    if (err != BELFRY_OK) {
        read_free(read);
        return err;
    }
    if (answer->verdict == READS_WAITS) {
        read->now = NULL;
        *out = read;
    }
    return BELFRY_OK;
}

void read_cancel(struct read *read)
{
    if (read == NULL)
        return;
    BELFRY_OWNER_CHECK(read->reads);
    read_free(read);
}

/* ---- the whole ---- */

enum belfry_err reads_create(const struct reads_opts *opts, struct reads **out)
{
    struct reads *reads = calloc(1, sizeof(*reads));
    if (reads == NULL)
        return BELFRY_ERR_NOMEM;
    reads->opts = *opts;
    reads->due_ms = BELFRY_NEVER;
    belfry_list_init(&reads->asked);
    belfry_list_init(&reads->futures);
    lanes_init(&reads->turns, 1);
    reads->key = belfry_hash_key_draw();
    uv_timer_init(opts->loop, &reads->timer);
    reads->timer.data = reads;
    BELFRY_OWNER_INIT(reads);
    *out = reads;
    return BELFRY_OK;
}

static void on_reads_timer_closed(uv_handle_t *timer)
{
    free(timer->data);
}

void reads_destroy(struct reads *reads)
{
    if (reads == NULL)
        return;
    BELFRY_OWNER_CHECK(reads);
    assert(reads->points == NULL && belfry_list_empty(&reads->futures));
    uv_close((uv_handle_t *)&reads->timer, on_reads_timer_closed);
}

void reads_stand(struct reads *reads, enum reads_standing standing, const struct range_upstream *upstream)
{
    BELFRY_OWNER_CHECK(reads);
    reads->standing = standing;
    reads->upstream = *upstream;
    if (reads->opts.permit == NULL)
        return;
    if (standing == READS_STALE)
        permit_cut_off(reads->opts.permit, belfry_clock_ms() - UPSTREAM_STALE_MS);
    else
        permit_reach(reads->opts.permit);
}

void reads_see_past(struct reads *reads, uint64_t past, uint64_t rewritten)
{
    reads->past = past;
    reads->rewritten = rewritten;
}

void reads_stats(const struct reads *reads, struct reads_stats *out)
{
    *out = reads->stats;
}
