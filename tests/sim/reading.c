/* tests/sim/reading.c */
#include "sim/reading.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/read_points.h"
#include "net/grpc.h"
#include "net/grpc_frame.h"
#include "sim/cover.h"
#include "sim/trace.h"
#include "sim/verdict.h"

struct reading {
    struct reading_opts opts;
    struct points_source *source;
    struct points *points;
    struct reads *reads;
    struct belfry_list calls; /* of clients, under way */
    struct link *relay;       /* upstream; NULL: none */
    uint64_t turn_ms;         /* when the last turn ended */
    struct belfry_buf buf;
};

/* A call of a client. */
struct reading_call {
    struct belfry_list node;
    struct reading *reading;
    struct link *link;
    uint64_t number;
    uint64_t since_ms;
    struct belfry_buf request;
    struct belfry_buf response; /* the parts of it that have come */
    struct read *read;          /* NULL: it is relayed */
    uint64_t relayed;           /* its number upstream */
};

static struct reading_call *call_of(struct belfry_list *node)
{
    return belfry_container(node, struct reading_call, node);
}

static void call_free(struct reading_call *call)
{
    belfry_list_remove(&call->node);
    belfry_buf_fini(&call->request);
    belfry_buf_fini(&call->response);
    free(call);
}

/* The state that was read is the store's still: nothing happens between. */
static void call_answer(struct reading_call *call, bool relayed, int code, struct belfry_bytes message)
{
    const struct reading *reading = call->reading;
    struct store_meta meta;
    reading->opts.store->api->snapshot(reading->opts.store, &meta);
    struct link_answer answer = {
        .call = call->number, .code = code, .relayed = relayed, .boot = reading->opts.boot, .past = meta.past};
    link_answer(call->link, &answer, message);
    call_free(call);
}

/* ---- relayed ---- */

static void call_fail(struct reading_call *call)
{
    call_answer(call, true, BELFRY_GRPC_UNAVAILABLE, belfry_bytes_str("upstream cannot be asked"));
}

static void hang_up(struct reading *reading)
{
    link_leave_client(reading->relay);
    reading->relay = NULL;
    belfry_list_each_safe (node, &reading->calls)
        if (call_of(node)->read == NULL)
            call_fail(call_of(node));
}

static void call_relay(struct reading_call *call)
{
    struct reading *reading = call->reading;
    const struct tier_peer *peer = &reading->opts.tier->peer;
    call->read = NULL;
    if (reading->relay == NULL)
        reading->relay = peer->dial(peer->user, reading->opts.actor);
    if (reading->relay == NULL)
        call_fail(call);
    else
        call->relayed =
            link_call(reading->relay, LINK_CALL_READ, belfry_grpc_frame_only(belfry_buf_bytes(&call->request)));
}

/* As serve/relay/relay_peek.c. */
static void hear_term(struct reading *reading)
{
    struct belfry_wire_header header;
    if (belfry_scan_response_header(belfry_buf_bytes(&reading->buf), &header) == BELFRY_OK)
        term_hear(reading->opts.term, &header);
}

static void take_relayed(struct reading *reading)
{
    struct link_answer answer;
    while (reading->relay != NULL && link_answered(reading->relay, &answer, &reading->buf)) {
        if (answer.code == BELFRY_GRPC_OK)
            hear_term(reading);
        belfry_list_each_safe (node, &reading->calls) {
            struct reading_call *call = call_of(node);
            if (call->read == NULL && call->relayed == answer.call)
                call_answer(call, true, answer.code, belfry_buf_bytes(&reading->buf));
        }
    }
    if (reading->relay == NULL)
        return;
    belfry_buf_clear(&reading->buf);
    link_read(reading->relay, SIZE_MAX, &reading->buf); /* nothing comes: it has no watch */
    if (link_ended(reading->relay))
        hang_up(reading);
}

/* ---- read here ---- */

static void call_append(struct reading_call *call, struct belfry_buf *part)
{
    struct belfry_bytes bytes = belfry_buf_bytes(part);
    if (belfry_buf_append(&call->response, bytes.data, bytes.len) != BELFRY_OK)
        abort();
    belfry_buf_fini(part);
}

static void call_take(struct reading_call *call, struct reads_answer *answer)
{
    switch (answer->verdict) {
    case READS_RELAY:
        call_relay(call);
        break;
    case READS_PART:
        call_append(call, &answer->response);
        read_next(call->read, SIZE_MAX);
        break;
    case READS_REPLIED:
        call_append(call, &answer->response);
        call_answer(call, false, BELFRY_GRPC_OK, belfry_grpc_frame_only(belfry_buf_bytes(&call->response)));
        break;
    case READS_FAILED:
        call_answer(call, false, answer->code, belfry_bytes_str(answer->message));
        break;
    case READS_WAITS:
        break;
    }
}

static void on_answer(struct reads_answer *answer, void *user)
{
    call_take(user, answer);
}

static void call_open(struct reading_call *call, enum link_call kind, uint64_t client, uint64_t watched)
{
    struct reading *reading = call->reading;
    struct identity identity = {.rights = LISTEN_RIGHTS_OPEN, .source = {.connection = client, .client = client}};
    struct reads_request request = {.method = READS_RANGE,
                                    .who = &identity,
                                    .body = belfry_buf_bytes(&call->request),
                                    .hasleader = sched_one_in(reading->opts.tier->sched, 8),
                                    .is_point = kind == LINK_CALL_POINT,
                                    .watched = watched};
    struct reads_answer answer;
    if (reads_open(reading->reads, &request, belfry_clock_ms(), on_answer, call, &call->read, &answer) != BELFRY_OK)
        abort();
    call_take(call, &answer);
}

void reading_take(struct reading *reading, struct link *link, uint64_t client, uint64_t watched)
{
    uint64_t number;
    enum link_call kind;
    uint8_t prefix[BELFRY_GRPC_PREFIX_BYTES];
    while (link_called(link, &number, &kind, &reading->buf)) {
        struct reading_call *call = calloc(1, sizeof(*call));
        if (call == NULL)
            abort();
        call->reading = reading;
        call->link = link;
        call->number = number;
        call->since_ms = belfry_clock_ms();
        belfry_grpc_frame_prefix(prefix, belfry_buf_len(&reading->buf));
        if (belfry_buf_append(&call->request, prefix, sizeof(prefix)) != BELFRY_OK ||
            belfry_buf_append(&call->request, belfry_buf_bytes(&reading->buf).data, belfry_buf_len(&reading->buf)) !=
                BELFRY_OK)
            abort();
        belfry_list_append(&reading->calls, &call->node);
        call_open(call, kind, client, watched);
    }
}

void reading_drop(struct reading *reading, const struct link *link)
{
    belfry_list_each_safe (node, &reading->calls) {
        struct reading_call *call = call_of(node);
        if (call->link != link)
            continue;
        read_cancel(call->read);
        call_free(call);
    }
}

/* ---- the loop ---- */

void reading_stand(struct reading *reading, enum reads_standing standing, const struct response_identity *identity)
{
    reads_stand(reading->reads, standing, &(struct range_upstream){.identity = *identity});
}

void reading_see_past(struct reading *reading, uint64_t past, uint64_t rewritten)
{
    reads_see_past(reading->reads, past, rewritten);
}

void reading_run(struct reading *reading)
{
    mails_open(reading->opts.thread);
    take_relayed(reading);
}

/* Since the end of the last turn timers have run: no read is left that had waited for too long by then. The thread may
 * have stood still inside of this turn. */
static void check_waits(struct reading *reading)
{
    belfry_list_each (node, &reading->calls) {
        const struct reading_call *call = call_of(node);
        if (call->read != NULL && reading->turn_ms > call->since_ms + READS_WAIT_MS + READS_FUTURE_MS)
            verdict_fail("%s: a read has waited for %llu ms", reading->opts.tier->name,
                         (unsigned long long)(reading->turn_ms - call->since_ms));
    }
    reading->turn_ms = belfry_clock_ms();
}

bool reading_turn(struct reading *reading)
{
    reads_turn(reading->reads);
    check_waits(reading);
    return reads_wait(reading->reads);
}

uint64_t reading_due(const struct reading *reading)
{
    uint64_t due = mails_due(reading->opts.thread);
    if (reading->relay == NULL)
        return due;
    due = belfry_min_time(due, link_client_due(reading->relay));
    return belfry_min_time(due, link_answers_due(reading->relay));
}

void reading_cover(const struct reading *reading, uint64_t *counts)
{
    struct reads_stats stats;
    reads_stats(reading->reads, &stats);
    counts[COVER_read_linearizable] += stats.replica[READS_LINEARIZABLE];
    counts[COVER_read_serializable] += stats.replica[READS_SERIALIZABLE];
    counts[COVER_read_relayed] += stats.upstream[READS_LINEARIZABLE] + stats.upstream[READS_SERIALIZABLE];
    counts[COVER_read_stale] += stats.stale;
    counts[COVER_read_failed] += stats.failed;
}

/* ---- */

struct reading *reading_create(const struct reading_opts *opts)
{
    struct reading *reading = calloc(1, sizeof(*reading));
    if (reading == NULL)
        abort();
    reading->opts = *opts;
    belfry_list_init(&reading->calls);
    mails_begin(opts->thread, opts->tier->sched, opts->tier->delay_ms, opts->actor, reading);
    if (read_points_create(&reading->opts.ingest, opts->thread, &reading->source) != BELFRY_OK ||
        points_create(reading->source, &reading->points) != BELFRY_OK)
        abort();
    struct reads_opts reads = {
        .store = opts->store, .points = reading->points, .term = opts->term, .loop = timers_loop(opts->timers)};
    if (reads_create(&reads, &reading->reads) != BELFRY_OK)
        abort();
    return reading;
}

void reading_destroy(struct reading *reading)
{
    if (reading == NULL)
        return;
    belfry_list_each_safe (node, &reading->calls) {
        read_cancel(call_of(node)->read);
        call_free(call_of(node));
    }
    if (reading->relay != NULL)
        link_leave_client(reading->relay);
    reads_destroy(reading->reads);
    points_destroy(reading->points);
    mails_end(reading->opts.thread);
    read_points_destroy(reading->source);
    belfry_buf_fini(&reading->buf);
    free(reading);
}
