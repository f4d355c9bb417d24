/* src/follow/readpoint.c */
#include "follow/readpoint.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/sim.h"
#include "client/etcd_request.h"
#include "client/etcd_status.h"

#define ASK_MS   5000 /* for an answer */
#define RETRY_MS 100  /* after a question that failed */
#define LOOK_MS  10   /* until the stream is there, and its token */

void readpoint_init(struct readpoint *point, const struct readpoint_opts *opts)
{
    *point = (struct readpoint){.opts = *opts};
    belfry_list_init(&point->waiting);
    belfry_list_init(&point->asked);
    belfry_list_init(&point->reaching);
}

/* ---- who asks ---- */

static struct readpoint_ask *ask_of(struct belfry_list *node)
{
    return belfry_container(node, struct readpoint_ask, node);
}

static void tell(struct readpoint_ask *ask, enum belfry_err err)
{
    belfry_list_remove(&ask->node);
    ask->err = err;
    ask->told(ask);
}

static void tell_all(struct belfry_list *asks, enum belfry_err err)
{
    while (!belfry_list_empty(asks))
        tell(ask_of(asks->next), err);
}

void readpoint_add(struct readpoint *point, struct readpoint_ask *ask)
{
    belfry_list_append(&point->waiting, &ask->node);
}

/* They wait for another question. */
static void wait_again(struct readpoint *point, struct belfry_list *asks)
{
    for (struct belfry_list *node; (node = belfry_list_pop(asks)) != NULL;)
        readpoint_add(point, ask_of(node));
}

/* The token of the last question may not count any more: it is old, or was not used for long. */
static void want_token(struct readpoint *point, bool wanted)
{
    if (point->wants_token == wanted)
        return;
    point->wants_token = wanted;
    belfry_calls_want_token(point->opts.calls, wanted);
}

void readpoint_fini(struct readpoint *point)
{
    if (point->opts.stream == NULL)
        return;
    point->closing = true;
    want_token(point, false);
    if (point->call != NULL)
        belfry_grpc_call_cancel(point->call);
    point->call = NULL;
    tell_all(&point->reaching, BELFRY_ERR_CANCELED);
    tell_all(&point->asked, BELFRY_ERR_CANCELED);
    tell_all(&point->waiting, BELFRY_ERR_CANCELED);
}

/* ---- answers ---- */

static void readpoint_on_message(struct belfry_grpc_call *call, struct belfry_blob *message, void *user)
{
    struct readpoint *point = user;
    (void)call;
    point->understood = belfry_scan_response_header(belfry_blob_bytes(message), &point->header) == BELFRY_OK;
    if (point->understood)
        term_hear(point->opts.term, &point->header);
}

static uint64_t connects_of(const struct readpoint *point)
{
    return belfry_pool_counts(belfry_stream_link(point->opts.stream)).connects;
}

/* Is the answer one to those who asked? The connection must be the one that carries the watch still. */
static bool is_good(struct readpoint *point, const struct belfry_grpc_status *status, uint64_t now_ms)
{
    bool answered = status->code == BELFRY_GRPC_OK || BELFRY_MUTANT(reads_failed_accepted);
    return answered && point->understood && point->connects == connects_of(point) &&
           belfry_stream_endpoint(point->opts.stream) != NULL &&
           upstream_confirm(point->opts.upstream, &point->mark, &point->header, now_ms);
}

/* The answer is theirs: they wait until the store has it. */
static void reach(struct readpoint *point, struct belfry_list *asks)
{
    belfry_list_each (node, asks) {
        ask_of(node)->rev = point->header.revision;
        ask_of(node)->past = point->mark.past;
    }
    belfry_list_move_all(&point->reaching, asks);
}

static void readpoint_on_closed(struct belfry_grpc_call *call, const struct belfry_grpc_status *status, void *user)
{
    struct readpoint *point = user;
    uint64_t now_ms = belfry_clock_ms();
    (void)call;
    point->call = NULL;
    if (point->closing)
        return;
    if (!is_good(point, status, now_ms)) {
        if (belfry_status_is_auth(status))
            belfry_auth_drop(point->opts.auth);
        point->is_denied = belfry_status_is_auth(status) || status->code == BELFRY_GRPC_PERMISSION_DENIED ||
                           status->code == BELFRY_GRPC_FAILED_PRECONDITION;
        point->stats.failed++;
        point->next_ms = now_ms + RETRY_MS;
        wait_again(point, &point->asked);
        return;
    }
    point->next_ms = point->n_asked >= READPOINT_CROWD ? now_ms + READPOINT_GAP_MS : now_ms;
    reach(point, &point->asked);
    upstream_reach(point->opts.upstream, point->header.revision, now_ms);
}

/* ---- asking ---- */

static const struct belfry_grpc_events call_events = {.message = readpoint_on_message, .closed = readpoint_on_closed};

static enum belfry_err open_question(struct readpoint *point, struct belfry_http *http, uint64_t now_ms)
{
    struct belfry_http_field fields[2] = {{belfry_bytes_str(READPOINT_FIELD), belfry_bytes_str("1")}};
    const char *text = belfry_auth_token(point->opts.auth);
    struct belfry_grpc_call_opts opts = {
        .path = BELFRY_PATH_RANGE, .metadata = fields, .n_metadata = 1, .deadline_ms = now_ms + ASK_MS};
    if (text != NULL)
        fields[opts.n_metadata++] = (struct belfry_http_field){belfry_bytes_str("token"), belfry_bytes_str(text)};
    struct belfry_buf request;
    belfry_buf_init(&request);
    enum belfry_err err = belfry_request_count(&request, point->opts.key);
    if (err == BELFRY_OK)
        err = belfry_grpc_call_open(http, &opts, &call_events, point, &point->call);
    if (err == BELFRY_OK && (err = belfry_grpc_call_send(point->call, belfry_buf_bytes(&request))) != BELFRY_OK) {
        belfry_grpc_call_cancel(point->call);
        point->call = NULL;
    }
    belfry_buf_fini(&request);
    return err;
}

/* From now on nobody joins those who wait: a read that begins later may have seen more than the answer. */
static void close_asks(struct readpoint *point)
{
    point->n_asked = 0;
    belfry_list_each (node, &point->waiting) {
        struct readpoint_ask *ask = ask_of(node);
        atomic_store(&ask->sent, !BELFRY_MUTANT(reads_sent_untold));
        point->n_asked += atomic_load(&ask->n);
    }
    belfry_list_move_all(&point->asked, &point->waiting);
}

static void send_question(struct readpoint *point, const struct readpoint_place *place, uint64_t now_ms)
{
    struct belfry_carrier *conn = belfry_stream_conn(point->opts.stream);
    want_token(point, !belfry_auth_ready(point->opts.auth));
    if (conn == NULL || !belfry_auth_ready(point->opts.auth)) {
        point->next_ms = now_ms + LOOK_MS;
        return;
    }
    point->understood = point->understood && BELFRY_MUTANT(reads_failed_accepted);
    point->mark = (struct upstream_mark){.past = place->past, .head = place->head};
    point->connects = connects_of(point);
    close_asks(point);
    if (open_question(point, belfry_carrier_http(conn), now_ms) != BELFRY_OK) {
        point->next_ms = now_ms + RETRY_MS;
        wait_again(point, &point->asked);
        return;
    }
    point->stats.questions++;
    belfry_grpc_call_half_close(point->call);
    belfry_carrier_flush(conn);
}

/* The store has their revision; or it has another past by now, and nothing is known. If the watch was interrupted, they
 * ask again: a cluster that was restored meanwhile, from a backup with all that we had, may never reach it. */
static void tell_reached(struct readpoint *point, const struct readpoint_place *place)
{
    while (!belfry_list_empty(&point->reaching)) {
        struct readpoint_ask *ask = ask_of(point->reaching.next);
        if (BELFRY_MUTANT(reads_behind) && ask->rev > place->committed)
            ask->rev = place->committed;
        if (ask->past != place->past)
            wait_again(point, &point->reaching);
        else if (ask->rev <= (BELFRY_MUTANT(reads_by_head) ? place->head : place->committed))
            tell(ask, BELFRY_OK);
        else
            break;
    }
    bool interrupted = !place->live || point->connects != connects_of(point);
    if (interrupted && !BELFRY_MUTANT(reads_lost_waited_for))
        wait_again(point, &point->reaching);
}

void readpoint_pump(struct readpoint *point, const struct readpoint_place *place, uint64_t now_ms)
{
    point->is_live = place->live;
    if (BELFRY_MUTANT(reads_point_reused) && point->understood && point->call == NULL)
        reach(point, &point->waiting);
    tell_reached(point, place);
    if (place->is_blind)
        tell_all(&point->reaching, BELFRY_ERR_AGAIN);
    else if (!belfry_list_empty(&point->reaching)) /* again after a join */
        upstream_reach(point->opts.upstream, ask_of(point->reaching.prev)->rev, now_ms);
    if (place->replays || place->is_blind || point->is_denied)
        tell_all(&point->waiting, point->is_denied ? BELFRY_ERR_DENIED : BELFRY_ERR_AGAIN);
    point->is_denied = false;
    if (place->live && point->call == NULL && !belfry_list_empty(&point->waiting) && now_ms >= point->next_ms)
        send_question(point, place, now_ms);
}

uint64_t readpoint_due(const struct readpoint *point)
{
    bool waits = point->is_live && point->call == NULL && !belfry_list_empty(&point->waiting);
    return waits ? point->next_ms : BELFRY_NEVER;
}
