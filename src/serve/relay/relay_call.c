/* src/serve/relay/relay_call.c */
#include "serve/relay/relay_call.h"

#include <assert.h>
#include <stdlib.h>

#include "base/clock.h"
#include "follow/readpoint.h"
#include "net/grpc.h"
#include "net/grpc_reply.h"
#include "serve/relay/relay_body.h"
#include "serve/relay/relay_guard.h"
#include "serve/relay/relay_members.h"
#include "serve/relay/relay_observed.h"
#include "serve/relay/relay_peek.h"
#include "serve/relay/relay_rights.h"
#include "serve/rights/rights_request.h"
#include "serve/uplink/via.h"
#include "server/fields.h"
#include "server/grpc_answer.h"

#define GRACE_MS 1000 /* after a call's deadline: if upstream has not ended it by then, the relay does */

#define GRPC_TIMEOUT "context deadline exceeded" /* as Go's clients and servers say it */

#define NO_MEMORY "belfry: out of memory"
#define NO_ROOM   "belfry: memory limit reached; try again"

/* In etcd's own words. */
#define INVALID_SORT  "etcdserver: invalid sort option"
#define DUPLICATE_KEY "etcdserver: duplicate key given in txn request"
#define NO_SUCH_ALARM "belfry: there is no such alarm, or no such action: it would end the members of etcd"
#define LONG_NAME     "belfry: a name of more than 32768 bytes would end the members of etcd"
#define TOO_MANY_OPS  "etcdserver: too many operations in txn request"
#define NOT_GZIP      "grpc: failed to decompress the received message: it is not whole gzip"
#define TOO_LARGE     "grpc: received message after decompression larger than max"
#define TOO_MANY      "belfry: too many calls are being relayed"
#define NO_TURN       "belfry: this client, or upstream, has too many calls under way; try again"
#define LATE          "belfry: the request was not complete in time"
#define BAD_HEAD      "belfry: these request headers cannot be passed on"

#define OBSERVE_AGAIN "belfry: the right to this call is judged once in a period: repeat the call"

/*     HEADED --> [TURNING -->] [CHECKING -->] WAITING --> PASSING --> EMPTYING --> gone     any state may go to gone
 *      |---> ASKING --> gone
 *      `---> READING --> [ANSWERING -->] EMPTYING, or on as from HEADED
 */
enum call_state {
    HEADED,    /* upstream does not know of the call: no byte of the body was received, or it may be an inquiry */
    ASKING,    /* it is the question of a tier below, and is answered here */
    READING,   /* it is a read, which may be answered here */
    ANSWERING, /* it is, in parts */
    TURNING,   /* others are with upstream (relay_turns.h) */
    CHECKING,  /* may it be passed on without a token? Which field speaks for the user of its certificate? */
    WAITING,   /* the response has not begun */
    PASSING,   /* its head has been passed on */
    EMPTYING   /* upstream, or the read, is done; the end of the response waits for room */
};

/* How the exchange ends when the whole body was passed on. */
enum call_end {
    END_TRAILERS, /* with the fields in `block`, if there are any */
    END_STATUS    /* with the status in `code` and `why` */
};

struct relay_call {
    /* fixed at creation */
    struct relay_calls *calls;
    struct exchange *x;
    bool changes_auth, acts_later;
    bool may_pass; /* its listener passes its method on */
    uint64_t due_ms;
    /* owner */
    struct relay_turn turn;
    struct relay_turns *turns;      /* among which it has its turn, or waits for one; NULL: it does not yet */
    uint64_t turn_ms;               /* TURNING: until when it waits; NEVER: as long as it takes */
    struct belfry_list opening;     /* in relay_calls.opening, or in none */
    uint64_t opening_ms;            /* there: until when */
    struct relay_observed observed; /* of one whose response may go on for ever */
    struct belfry_list node;
    struct belfry_list anonymous; /* without a token, unless it needs no right */
    struct relay_holding holding;
    enum call_state state;
    bool may_ask;              /* HEADED: it may be the question of a tier below */
    uint64_t within_ms;        /* of such a question */
    struct inquiry *inquiry;   /* ASKING */
    enum reads_method method;  /* HEADED: it may be a read that is answered here; else NONE */
    bool is_relaxed;           /* its listener makes every read serializable; this or the next: */
    bool is_for_upstream;      /* its listener relays every read */
    struct read *read;         /* READING and ANSWERING */
    bool wants_part;           /* ANSWERING: all that was read is written, and there was no room for more */
    struct relay_check check;  /* under way: CHECKING */
    struct uplink_call *up;    /* WAITING and PASSING */
    struct fields block;       /* until WAITING the request's; then the block that is being received */
    struct belfry_buf path;    /* until WAITING */
    enum belfry_err failed;    /* a field could not be kept */
    bool rewrites;             /* the response is a member list, and is held until it is whole */
    struct relay_body request; /* on its way up */
    struct relay_guard *guard; /* of all of it; owned. NULL: it can do no harm */
    /* down */
    struct belfry_buf response; /* received and not written: at most a stream's window, because it is not taken */
    struct relay_peek peek;     /* into all that was received of it */
    enum call_end end;          /* EMPTYING */
    int code;                   /* END_STATUS, as `why` */
    char *why;                  /* owned; NULL: there was no memory for it */
    size_t user_len;            /* fixed at creation, as: */
    char user[];                /* the name in its certificate */
};

static void relay_call_move_to(struct relay_call *call, enum call_state to)
{
    static const unsigned legal[] = {
        [HEADED] = 1u << TURNING | 1u << CHECKING | 1u << WAITING | 1u << ASKING | 1u << READING,
        [TURNING] = 1u << CHECKING | 1u << WAITING,
        [ASKING] = 0,
        [READING] = 1u << TURNING | 1u << CHECKING | 1u << WAITING | 1u << ANSWERING | 1u << EMPTYING,
        [ANSWERING] = 1u << EMPTYING,
        [CHECKING] = 1u << WAITING,
        [WAITING] = 1u << PASSING | 1u << EMPTYING,
        [PASSING] = 1u << EMPTYING,
        [EMPTYING] = 0};
    assert(legal[call->state] & 1u << to);
    (void)legal;
    call->state = to;
}

/* ---- what is held ---- */

static size_t relay_call_head_bytes(const struct relay_call *call)
{
    if (call->state == CHECKING || call->state == HEADED || call->state == READING || call->state == TURNING)
        return call->path.cap + fields_bytes(&call->block);
    return call->up == NULL ? 0 : uplink_unsent(call->up);
}

/* Counts the bytes that the call holds, after anything that may have changed them. */
static void relay_call_count(struct relay_call *call)
{
    size_t request = relay_call_head_bytes(call) + call->request.bytes.cap +
                     (call->guard != NULL ? relay_guard_bytes(call->guard) : 0);
    size_t response = call->response.cap + call->peek.front.cap;
    relay_holding_set(&call->holding, request, response, belfry_buf_len(&call->response) > 0);
    exchange_holds(call->x, relay_body_is_whole(&call->request) ? 0 : EXCHANGE_COST + request);
}

/* ---- turns ---- */

static void on_relay_turns(uv_timer_t *timer);

/* Does upstream answer it soon? Others may last for days, and are bounded as SHARES_CALLS. */
static bool relay_call_is_short(const struct relay_call *call)
{
    return call->request.kind == RELAY_ONE_MESSAGE && !call->acts_later && call->observed.look_ms == BELFRY_NEVER;
}

/* Upstream has done with it, or will never know of it. Whoever is next sets out later: this may be called from inside
 * anything. */
static void relay_call_end_turn(struct relay_call *call)
{
    belfry_list_remove(&call->opening);
    if (call->turns != NULL && relay_turn_end(call->turns, &call->turn))
        uv_timer_start(&call->calls->turns_timer, on_relay_turns, 0, 0);
}

/* ---- ends ---- */

/* The exchange has ended, or is about to. */
static void relay_call_free(struct relay_call *call)
{
    struct relay_calls *calls = call->calls;
    relay_check_end(&call->check);
    inquiry_cancel(call->inquiry);
    read_cancel(call->read);
    if (call->up != NULL)
        uplink_close(call->up);
    if (call->changes_auth)
        permit_doubt(
            calls->opts->permit); /* again: an answer that came while the call ran may be older than its effect */
    belfry_list_remove(&call->node);
    belfry_list_remove(&call->anonymous);
    relay_call_end_turn(call);
    relay_holding_end(&call->holding);
    shares_count(call->holding.share, SHARES_CALLS, 1, 0);
    calls->stats.running--;
    fields_fini(&call->block);
    belfry_buf_fini(&call->path);
    relay_body_fini(&call->request);
    belfry_buf_fini(&call->response);
    relay_peek_fini(&call->peek);
    if (call->guard != NULL)
        relay_guard_fini(call->guard);
    free(call->guard);
    free(call->why);
    free(call);
}

void relay_call_fail(struct relay_call *call, int code, const char *why)
{
    struct exchange *x = call->x;
    bool has_begun = call->state == ANSWERING || call->state == PASSING || call->state == EMPTYING;
    enum grpc_headers sent = has_begun ? GRPC_HEADERS_SENT : GRPC_HEADERS_NOT_SENT;
    grpc_fail(x, sent, code, why); /* before the call is freed: `why` may be the call's text */
    relay_call_free(call);
}

static void relay_call_end_for_memory(struct relay_call *call)
{
    call->calls->stats.over_memory++;
    relay_call_fail(call, BELFRY_GRPC_UNAVAILABLE, NO_ROOM);
}

static void on_slow_relay_call(struct relay_holding *slow)
{
    relay_call_end_for_memory(belfry_container(slow, struct relay_call, holding));
}

/* False: the call has ended. */
static bool relay_call_keep(struct relay_call *call, struct belfry_buf *buf, struct belfry_bytes bytes)
{
    size_t more = belfry_buf_growth(buf, bytes.len);
    if (more > 0 && !relay_holding_make_room(&call->holding, more, on_slow_relay_call)) {
        relay_call_end_for_memory(call);
        return false;
    }
    if (belfry_buf_append(buf, bytes.data, bytes.len) != BELFRY_OK) {
        relay_call_fail(call, BELFRY_GRPC_RESOURCE_EXHAUSTED, NO_MEMORY);
        return false;
    }
    relay_call_count(call);
    return true;
}

/* ---- down: the response ---- */

static void on_up_field(struct uplink_call *up, struct belfry_bytes name, struct belfry_bytes value, void *user)
{
    struct relay_call *call = user;
    (void)up;
    if (belfry_bytes_equal(name, belfry_bytes_str("grpc-status")) && belfry_bytes_equal(value, belfry_bytes_str("14")))
        *exchange_pin(call->x) = 0; /* a member that cannot serve: this client's next call goes to another */
    if (belfry_bytes_equal(name, belfry_bytes_str("grpc-message")) &&
        belfry_bytes_equal(value, belfry_bytes_str(VOUCH_OLD)))
        relay_check_is_old(&call->check);
    bool is_status = belfry_bytes_equal(name, belfry_bytes_str(":status"));
    if (call->failed != BELFRY_OK || (!is_status && fields_is_hop(name, value)))
        return;
    call->failed = fields_add(&call->block, name, value);
}

/* Writes as much as there is room for. */
static size_t relay_call_write(struct relay_call *call, struct belfry_bytes bytes)
{
    size_t written = exchange_pour(call->x, bytes);
    call->calls->stats.bytes_down += written;
    return written;
}

/* Asks for the next part of an answer, if the client has room: until then nothing is kept for it. */
static void relay_call_want_part(struct relay_call *call)
{
    size_t room = exchange_room(call->x);
    call->wants_part = room == 0;
    if (room > 0)
        read_next(call->read, room);
}

static void relay_call_write_response(struct relay_call *call)
{
    size_t n = relay_call_write(call, belfry_buf_bytes(&call->response));
    belfry_buf_take(&call->response, n);
    if (call->up != NULL)
        uplink_taken(call->up, n);
    if (n > 0)
        relay_holding_progress(&call->holding);
    if (belfry_buf_len(&call->response) > 0)
        return;
    belfry_buf_fini(&call->response); /* few calls need it */
    relay_call_count(call);
    if (call->state == ANSWERING)
        relay_call_want_part(call);
    if (call->state != EMPTYING)
        return;
    if (call->end == END_STATUS) {
        relay_call_fail(call, call->code, call->why != NULL ? call->why : NO_MEMORY);
        return;
    }
    exchange_end(call->x, fields_list(&call->block), call->block.n);
    relay_call_free(call);
}

static void relay_call_rewrite_members(struct relay_call *call)
{
    struct belfry_buf out;
    belfry_buf_init(&out);
    enum belfry_err err = relay_members_rewrite(belfry_buf_bytes(&call->response), call->calls->opts->advertise, &out);
    if (err != BELFRY_OK) { /* an error has no body; anything else is passed on as it is */
        belfry_buf_fini(&out);
        return;
    }
    belfry_buf_fini(&call->response);
    call->response = out;
    relay_call_count(call);
}

static void relay_call_upstream_ended(struct relay_call *call, enum call_end end)
{
    call->end = end;
    call->up = NULL;
    relay_call_end_turn(call);
    relay_call_move_to(call, EMPTYING);
    if (call->rewrites)
        relay_call_rewrite_members(call);
    relay_call_write_response(call);
}

/* Passes on the head of the response. `last`: the response has no body. */
static void relay_call_pass_head(struct relay_call *call, bool last)
{
    int status = fields_status(&call->block);
    const struct belfry_http_field *list = fields_list(&call->block);
    struct exchange *x = call->x;
    if (last) {
        uplink_close(call->up);
        call->up = NULL;
        exchange_answer(x, status, list + 1, call->block.n - 1, (struct belfry_bytes){0});
        relay_call_free(call);
        return;
    }
    if (status >= 200) { /* a lower status announces another head */
        exchange_respond(x, status, list + 1, call->block.n - 1);
        relay_call_move_to(call, PASSING);
        relay_call_count(call);
    }
    fields_clear(&call->block);
}

static void on_up_block(struct uplink_call *up, bool last, void *user)
{
    struct relay_call *call = user;
    if (!belfry_list_empty(&call->opening)) /* it is new to upstream no more */
        relay_call_end_turn(call);
    if (call->failed != BELFRY_OK) {
        relay_call_fail(call, BELFRY_GRPC_RESOURCE_EXHAUSTED, NO_MEMORY);
    } else if (call->state == WAITING) {
        relay_call_pass_head(call, last);
    } else if (last) {
        uplink_close(up);
        relay_call_upstream_ended(call, END_TRAILERS);
    }
}

/* Looks at the next bytes of the response. What a method that is not etcd's sends is not known. */
static enum belfry_err relay_call_peek(struct relay_call *call, struct belfry_bytes bytes)
{
    struct term *term = call->calls->opts->term;
    if (term == NULL || call->request.kind == RELAY_UNKNOWN)
        return BELFRY_OK;
    return relay_peek_pass(&call->peek, bytes, term);
}

static void on_up_data(struct uplink_call *up, struct belfry_bytes bytes, void *user)
{
    struct relay_call *call = user;
    if (relay_call_peek(call, bytes) != BELFRY_OK) {
        relay_call_fail(call, BELFRY_GRPC_RESOURCE_EXHAUSTED, NO_MEMORY);
        return;
    }
    if (call->rewrites && belfry_buf_len(&call->response) + bytes.len > RELAY_MEMBERS_BYTES) {
        call->rewrites = false; /* it is passed on as it is */
        belfry_logf(call->calls->opts->log, BELFRY_LOG_WARN, "members_not_rewritten", "why=\"the list is too long\"");
        relay_call_write_response(call);
    }
    size_t written = 0;
    if (!call->rewrites && belfry_buf_len(&call->response) == 0)
        written = relay_call_write(call, bytes);
    uplink_taken(up, written);
    if (written < bytes.len)
        relay_call_keep(call, &call->response, belfry_bytes_of(bytes.data + written, bytes.len - written));
}

static void on_up_end(struct uplink_call *up, void *user)
{
    struct relay_call *call = user;
    uplink_close(up);
    relay_call_upstream_ended(call, END_TRAILERS);
}

static void on_up_closed(struct uplink_call *up, const struct uplink_end *end, void *user)
{
    struct relay_call *call = user;
    (void)up;
    call->up = NULL;
    int code = end->lost ? BELFRY_GRPC_UNAVAILABLE : belfry_grpc_code_of_h2(end->h2_code);
    const char *why = end->why;

    /* etcd from 3.5.28 and 3.6.9 on may cancel the stream of a call whose time is over, instead of answering it. Times
     * are rounded to a millisecond. */
    uint64_t now = belfry_clock_ms();
    if (code == BELFRY_GRPC_CANCELLED && call->due_ms != BELFRY_NEVER && call->due_ms <= now + GRACE_MS + 1) {
        code = BELFRY_GRPC_DEADLINE_EXCEEDED;
        why = GRPC_TIMEOUT;
    } else {
        call->calls->stats.failed++;
    }

    if (code == BELFRY_GRPC_UNAVAILABLE)
        *exchange_pin(call->x) = 0;
    if (call->state == WAITING) {
        relay_call_fail(call, code, why);
        return;
    }
    call->code = code;
    call->why = strdup(why);
    call->rewrites = false;
    relay_call_upstream_ended(call, END_STATUS);
}

/* ---- up: the request ---- */

static size_t on_up_read(struct uplink_call *up, uint8_t *to, size_t cap, bool *out_end, void *user)
{
    struct relay_call *call = user;
    (void)up;
    size_t n = relay_body_read(&call->request, to, cap, out_end);
    relay_call_count(call);
    exchange_taken(call->x, n);
    call->calls->stats.bytes_up += n;
    return n;
}

static const struct uplink_events up_events = {.field = on_up_field,
                                               .block = on_up_block,
                                               .data = on_up_data,
                                               .end = on_up_end,
                                               .read = on_up_read,
                                               .closed = on_up_closed};

/* `n` more bytes of the request were received, or its end, or its beginning. */
static void relay_call_set_pace(struct relay_call *call, size_t n)
{
    uint64_t now = belfry_clock_ms();
    relay_body_set_pace(&call->request, n, now, call->calls->opts->pace_ms);
    relay_alarm_set(&call->calls->alarm, call->request.pace.due_ms, now);
}

static void relay_call_fail_begin(struct relay_call *call, enum belfry_err err)
{
    if (err == BELFRY_ERR_INVALID)
        relay_call_fail(call, BELFRY_GRPC_INTERNAL, BAD_HEAD);
    else if (err == BELFRY_ERR_AGAIN)
        relay_call_end_for_memory(call);
    else
        relay_call_fail(call, BELFRY_GRPC_RESOURCE_EXHAUSTED, err == BELFRY_ERR_LIMIT ? TOO_MANY : NO_MEMORY);
}

/* Passes the request on, whose fields are in `block`. */
static enum belfry_err relay_call_send(struct relay_call *call)
{
    relay_call_move_to(call, WAITING);
    struct belfry_bytes path = belfry_buf_bytes(&call->path);
    struct uplink_request request = {.path = path,
                                     .fields = fields_list(&call->block),
                                     .n_fields = call->block.n,
                                     .caller = relay_rights_authenticates(path) ? UPLINK_CALLER_ANYONE
                                                                                : UPLINK_CALLER_CLIENT};
    enum belfry_err err =
        uplink_open(call->calls->opts->uplink, exchange_pin(call->x), &request, &up_events, call, &call->up);
    fields_fini(&call->block);
    belfry_buf_fini(&call->path);
    relay_call_count(call);
    return err;
}

void relay_call_refuse_user(struct relay_call *call)
{
    call->calls->stats.refused++;
    relay_call_fail(call, BELFRY_GRPC_INVALID_ARGUMENT, RELAY_CHECK_NO_USER);
}

static void on_relay_checked(const struct relay_checked *with, void *user)
{
    struct relay_call *call = user;
    struct relay_stats *stats = &call->calls->stats;
    stats->refused += with->verdict == RELAY_CHECK_REFUSED;
    stats->failed += with->verdict == RELAY_CHECK_FAILED;
    if (with->verdict != RELAY_CHECK_PASSED) {
        relay_call_fail(call, with->code, with->why);
        return;
    }
    enum belfry_err err = BELFRY_OK;
    if (with->field.name.len > 0)
        err = fields_add(&call->block, with->field.name, with->field.value);
    if (err == BELFRY_OK)
        err = relay_call_send(call);
    if (err != BELFRY_OK)
        relay_call_fail_begin(call, err);
}

/* Sends the call upstream, or checks it first. The check comes this late because its answer is valid for a second. */
static enum belfry_err relay_call_set_out(struct relay_call *call)
{
    uint64_t now = belfry_clock_ms();
    if (!relay_check_is_needed(&call->check, now))
        return relay_call_send(call);
    relay_call_move_to(call, CHECKING);
    return relay_check_begin(&call->check, now, on_relay_checked, call);
}

/* It has a turn. One that lasts has it while it is new to upstream, where thousands that begin at once would hold up
 * everybody's. */
static enum belfry_err relay_call_use_turn(struct relay_call *call)
{
    struct relay_calls *calls = call->calls;
    if (call->turns == &calls->openings) {
        call->opening_ms = belfry_clock_ms() + RELAY_OPENING_MS;
        belfry_list_append(&calls->opening, &call->opening);
        if (!uv_is_active((uv_handle_t *)&calls->turns_timer))
            uv_timer_start(&calls->turns_timer, on_relay_turns, RELAY_OPENING_MS, 0);
    }
    return relay_call_set_out(call);
}

static enum belfry_err relay_call_take_turn(struct relay_call *call)
{
    struct relay_calls *calls = call->calls;
    /* a lease that is kept alive does not wait for reads that hang */
    call->turns = relay_call_is_short(call) ? &calls->turns : &calls->openings;
    if (relay_turn_take(call->turns, &call->turn))
        return relay_call_use_turn(call);
    relay_call_move_to(call, TURNING);
    if (call->turns == &calls->turns) {
        uint64_t now = belfry_clock_ms();
        call->turn_ms = now + calls->opts->turn_ms;
        relay_alarm_set(&calls->alarm, call->turn_ms, now);
    }
    return BELFRY_OK;
}

static void relay_calls_give(struct relay_turns *turns)
{
    for (struct relay_turn *turn; (turn = relay_turns_next(turns)) != NULL;) {
        struct relay_call *call = belfry_container(turn, struct relay_call, turn);
        call->turn_ms = BELFRY_NEVER;
        enum belfry_err err = relay_call_use_turn(call);
        if (err != BELFRY_OK)
            relay_call_fail_begin(call, err);
    }
}

static struct relay_call *relay_calls_first_opening(const struct relay_calls *calls)
{
    if (belfry_list_empty(&calls->opening))
        return NULL;
    return belfry_container(calls->opening.next, struct relay_call, opening);
}

static void on_relay_turns(uv_timer_t *timer)
{
    struct relay_calls *calls = belfry_container(timer, struct relay_calls, turns_timer);
    uint64_t now = belfry_clock_ms();
    struct relay_call *first;
    while ((first = relay_calls_first_opening(calls)) != NULL && first->opening_ms <= now)
        relay_call_end_turn(first);
    relay_calls_give(&calls->turns);
    relay_calls_give(&calls->openings);
    if ((first = relay_calls_first_opening(calls)) != NULL)
        uv_timer_start(timer, on_relay_turns, first->opening_ms > now ? first->opening_ms - now : 0, 0);
}

/* ---- questions of tiers below ---- */

static void on_relay_inquiry(const struct inquiry_answer *with, void *user)
{
    struct relay_call *call = user;
    char text[RIGHTS_REQUEST_MS];
    struct belfry_http_field age = {belfry_bytes_str(RIGHTS_REQUEST_AGE), rights_request_write_ms(with->age_ms, text)};
    call->inquiry = NULL;
    call->calls->stats.inquiries++;
    grpc_fail_with(call->x, with->code, with->message, with->code == BELFRY_GRPC_OUT_OF_RANGE ? &age : NULL);
    relay_call_free(call);
}

/* By its head, which was not passed on yet. Lent. */
static struct identity relay_call_who(struct relay_call *call)
{
    struct exchange_head head = {.fields = fields_list(&call->block), .n_fields = call->block.n};
    struct identity who = identity_read(call->x, &head, IDENTITY_OF_GRPC);
    if (call->user_len > 0) { /* its name may have come in a field that is not passed on */
        who.kind = IDENTITY_CERT;
        who.text = belfry_bytes_of(call->user, call->user_len);
    }
    return who;
}

static enum belfry_err relay_call_ask(struct relay_call *call)
{
    struct identity who = relay_call_who(call);
    struct inquiry_request request = {.who = &who,
                                      .path = belfry_buf_bytes(&call->path),
                                      .body = belfry_buf_bytes(&call->request.bytes),
                                      .within_ms = call->within_ms};
    enum belfry_err err =
        inquiry_open(&call->calls->inquiries, &request, belfry_clock_ms(), on_relay_inquiry, call, &call->inquiry);
    if (err != BELFRY_OK)
        return err;
    relay_call_move_to(call, ASKING);
    fields_fini(&call->block);
    belfry_buf_fini(&call->path);
    relay_body_fini(&call->request);
    relay_call_count(call);
    return BELFRY_OK;
}

/* True: the call is answered here, or may be once its request is whole. */
static bool relay_call_try_to_answer(struct relay_call *call)
{
    if (!call->may_ask || call->state != HEADED)
        return false;
    if (!call->request.ended && belfry_buf_len(&call->request.bytes) <= INQUIRY_BYTES)
        return true;
    call->may_ask = false;
    if (call->request.ended && relay_call_ask(call) == BELFRY_OK)
        return true;
    call->calls->stats.inquiries_relayed++;
    call->calls->stats.relayed += call->may_pass;
    return false;
}

/* ---- reads ---- */

/* Sends the head of the response of a read that is answered here. Errors: BELFRY_ERR_NOMEM. */
static enum belfry_err relay_call_begin_answer(struct relay_call *call)
{
    struct exchange_head head = {.fields = fields_list(&call->block), .n_fields = call->block.n};
    grpc_begin(call->x, exchange_field(&head, "content-type"));
    fields_clear(&call->block);
    belfry_buf_fini(&call->path);
    relay_body_fini(&call->request);
    call->end = END_TRAILERS;
    enum belfry_err err = fields_add(&call->block, belfry_bytes_str("grpc-status"), belfry_bytes_str("0"));
    return err != BELFRY_OK ? err : fields_add(&call->block, belfry_bytes_str("grpc-message"), belfry_bytes_str(""));
}

/* Sends what a read has answered, all of it (`to` is EMPTYING) or a part. The part before was sent. */
static void relay_call_answer(struct relay_call *call, struct belfry_buf *response, enum call_state to)
{
    call->response = *response;
    if (!relay_holding_make_room(&call->holding, call->response.cap, on_slow_relay_call)) {
        relay_call_end_for_memory(call);
        return;
    }
    enum belfry_err err = call->state == READING ? relay_call_begin_answer(call) : BELFRY_OK;
    if (call->state != to)
        relay_call_move_to(call, to);
    if (err != BELFRY_OK) {
        relay_call_fail(call, BELFRY_GRPC_RESOURCE_EXHAUSTED, NO_MEMORY);
        return;
    }
    relay_call_count(call);
    relay_call_write_response(call);
}

static void relay_call_go_up(struct relay_call *call);

static void on_relay_read(struct reads_answer *answer, void *user)
{
    struct relay_call *call = user;
    if (answer->verdict != READS_PART)
        call->read = NULL;
    switch (answer->verdict) {
    case READS_REPLIED:
        relay_call_answer(call, &answer->response, EMPTYING);
        break;
    case READS_PART:
        relay_call_answer(call, &answer->response, ANSWERING);
        break;
    case READS_FAILED:
        relay_call_fail(call, answer->code, answer->message);
        break;
    case READS_RELAY:
        call->calls->stats.relayed++;
        relay_call_go_up(call);
        break;
    case READS_WAITS:
        break;
    }
}

/* True: it is answered here, or may be once its request is whole. */
static bool relay_call_try_to_read(struct relay_call *call)
{
    if (call->method == READS_NONE || call->state != HEADED)
        return false;
    if (!call->request.ended && belfry_buf_len(&call->request.bytes) < EXCHANGE_WINDOW / 2)
        return true;
    if (call->request.ended && exchange_room(call->x) == 0) /* nobody reads an answer now: `writable` will come */
        return true;
    enum reads_method method = call->method;
    call->method = READS_NONE;
    if (!call->request.ended) {
        call->calls->stats.relayed++;
        return false;
    }
    struct exchange_head head = {.fields = fields_list(&call->block), .n_fields = call->block.n};
    struct identity who = relay_call_who(call);
    struct reads_request request = {.method = method,
                                    .who = &who,
                                    .body = belfry_buf_bytes(&call->request.bytes),
                                    .hasleader = exchange_field(&head, "hasleader").len > 0,
                                    .is_point = exchange_field(&head, READPOINT_FIELD).len > 0,
                                    .watched = *exchange_watched_past(call->x),
                                    .serializable = call->is_relaxed,
                                    .relays = call->is_for_upstream};
    struct reads_answer answer;
    enum belfry_err err =
        reads_open(call->calls->opts->reads, &request, belfry_clock_ms(), on_relay_read, call, &call->read, &answer);
    if (err != BELFRY_OK) {
        relay_call_fail_begin(call, err);
        return true;
    }
    relay_call_move_to(call, READING);
    if (answer.verdict != READS_WAITS)
        on_relay_read(&answer, call);
    return true;
}

/* ---- onwards ---- */

/* Sends the call upstream, if it may go there. The call may have ended when this returns. */
static void relay_call_go_up(struct relay_call *call)
{
    if (!call->may_pass) {
        call->calls->stats.refused++;
        relay_call_fail(call, BELFRY_GRPC_PERMISSION_DENIED, RELAY_CALL_READ_ONLY);
        return;
    }
    enum belfry_err err = relay_call_take_turn(call);
    if (err != BELFRY_OK)
        relay_call_fail_begin(call, err);
    else if (call->up != NULL)
        uplink_resume(call->up);
}

/* There is more to pass on. The call may have ended when this returns. */
static void relay_call_pass_on(struct relay_call *call)
{
    if (relay_call_try_to_answer(call) || relay_call_try_to_read(call) || call->state == READING ||
        (call->state == HEADED && !relay_body_may_set_out(&call->request)))
        return;
    if (call->state == HEADED)
        relay_call_go_up(call);
    else if (call->up != NULL)
        uplink_resume(call->up);
}

/* Refuses what would end upstream, as a newer etcd does. False: it is refused, and the call is gone. */
static bool relay_call_is_harmless(struct relay_call *call, struct belfry_bytes bytes)
{
    static const struct {
        int code;
        const char *text;
    } refusals[] = {[RELAY_GUARD_KILLS] = {BELFRY_GRPC_INVALID_ARGUMENT, INVALID_SORT},
                    [RELAY_GUARD_DELETED] = {BELFRY_GRPC_INVALID_ARGUMENT, DUPLICATE_KEY},
                    [RELAY_GUARD_ALARMS] = {BELFRY_GRPC_INVALID_ARGUMENT, NO_SUCH_ALARM},
                    [RELAY_GUARD_LONG_NAME] = {BELFRY_GRPC_INVALID_ARGUMENT, LONG_NAME},
                    [RELAY_GUARD_TOO_DEEP] = {BELFRY_GRPC_INVALID_ARGUMENT, TOO_MANY_OPS},
                    [RELAY_GUARD_UNREADABLE] = {BELFRY_GRPC_INTERNAL, NOT_GZIP},
                    [RELAY_GUARD_TOO_LARGE] = {BELFRY_GRPC_RESOURCE_EXHAUSTED, TOO_LARGE},
                    [RELAY_GUARD_NO_MEMORY] = {BELFRY_GRPC_RESOURCE_EXHAUSTED, NO_MEMORY}};
    enum relay_guard_verdict verdict =
        call->guard == NULL ? RELAY_GUARD_HARMLESS : relay_guard_pass(call->guard, bytes);
    if (verdict == RELAY_GUARD_HARMLESS)
        return true;
    call->calls->stats.refused++;
    relay_call_fail(call, refusals[verdict].code, refusals[verdict].text);
    return false;
}

static void on_down_body(struct exchange *x, struct belfry_bytes bytes, void *user)
{
    struct relay_call *call = user;
    if (call->state == EMPTYING) { /* upstream wants no more of it */
        exchange_taken(x, bytes.len);
        return;
    }
    if (!relay_call_is_harmless(call, bytes))
        return;
    grpc_walk_pass(&call->request.walk, bytes);
    if (!relay_call_keep(call, &call->request.bytes, bytes))
        return;
    relay_call_set_pace(call, bytes.len);
    relay_call_pass_on(call);
}

static void on_down_body_end(struct exchange *x, void *user)
{
    struct relay_call *call = user;
    (void)x;
    call->request.ended = true;
    relay_call_set_pace(call, 0);
    relay_call_count(call);
    relay_call_pass_on(call);
}

static void on_down_writable(struct exchange *x, void *user)
{
    struct relay_call *call = user;
    (void)x;
    if (call->state == HEADED && call->method != READS_NONE && call->request.ended) {
        relay_call_pass_on(call);
        return;
    }
    bool has_part = call->state == ANSWERING && belfry_buf_len(&call->response) > 0;
    if (call->state == ANSWERING && call->wants_part)
        relay_call_want_part(call);
    else if (call->state == EMPTYING || has_part || (call->state == PASSING && !call->rewrites))
        relay_call_write_response(call);
}

static void on_down_gone(struct exchange *x, void *user)
{
    (void)x;
    relay_call_free(user);
}

static const struct exchange_events down_events = {
    .body = on_down_body, .body_end = on_down_body_end, .writable = on_down_writable, .gone = on_down_gone};

/* ---- beginning ---- */

void relay_calls_init(struct relay_calls *calls, const struct relay_opts *opts,
                      void (*on_alarm)(struct relay_alarm *alarm, uint64_t now_ms))
{
    uv_loop_t *loop = uplink_loop(opts->uplink);
    *calls = (struct relay_calls){.opts = opts,
                                  .checks = {.uplink = opts->uplink, .permit = opts->permit, .vouch = opts->vouch},
                                  .inquiries = {.permit = opts->permit}};
    belfry_list_init(&calls->all);
    belfry_list_init(&calls->anonymous);
    relay_room_init(&calls->room);
    belfry_list_init(&calls->opening);
    relay_turns_init(&calls->turns, RELAY_TURNS, belfry_hash_key_draw());
    relay_turns_init(&calls->openings, RELAY_OPENINGS, belfry_hash_key_draw());
    relay_alarm_init(&calls->alarm, loop, on_alarm);
    uv_timer_init(loop, &calls->turns_timer);
}

static enum belfry_err relay_call_take_head(struct relay_call *call, const struct exchange_head *head)
{
    enum belfry_err err = belfry_buf_append(&call->path, head->path.data, head->path.len);
    for (size_t i = 0; i < head->n_fields && err == BELFRY_OK; i++) {
        if (!fields_is_hop(head->fields[i].name, head->fields[i].value) &&
            !fields_is_of_browser(head->fields[i].name) &&
            !belfry_bytes_equal(head->fields[i].name, belfry_bytes_str(IDENTITY_USER_FIELD)))
            err = fields_add(&call->block, head->fields[i].name, head->fields[i].value);
    }
    if (err != BELFRY_OK)
        return err;
    if (!relay_holding_make_room(&call->holding, relay_call_head_bytes(call), on_slow_relay_call))
        return BELFRY_ERR_AGAIN;
    relay_call_count(call);
    return call->request.kind == RELAY_UNKNOWN ? relay_call_take_turn(call) : BELFRY_OK; /* its server may send first */
}

/* Does it announce compressed messages, or have a content type with parameters? etcd answers those in its own way. */
static bool is_unusual(const struct exchange_head *head)
{
    struct belfry_bytes encoding = exchange_field(head, "grpc-encoding"), type = exchange_field(head, "content-type");
    bool is_plain = encoding.len == 0 || belfry_bytes_equal(encoding, belfry_bytes_str("identity"));
    return !is_plain || type.len == 0 || memchr(type.data, ';', type.len) != NULL;
}

static void relay_call_set_reads(struct relay_call *call, const struct exchange_head *head)
{
    const struct listen_policy *policy = exchange_conn(call->x)->policy;
    if (!call->may_ask && call->calls->opts->reads != NULL)
        call->method = reads_method(head->path);
    call->is_for_upstream = (policy != NULL && policy->reads == LISTEN_READS_RELAY) || is_unusual(head);
    call->is_relaxed = policy != NULL && policy->consistency == LISTEN_CONSISTENCY_SERIALIZABLE &&
                       exchange_field(head, VIA_FIELD).data == NULL; /* of no tier below */
}

/* Does any field say so? Of two, gRPC takes the last one. */
static bool has_gzip(const struct exchange_head *head)
{
    for (size_t i = 0; i < head->n_fields; i++)
        if (belfry_bytes_equal(head->fields[i].name, belfry_bytes_str("grpc-encoding")) &&
            belfry_bytes_equal(head->fields[i].value, belfry_bytes_str("gzip")))
            return true;
    return false;
}

/* Errors: BELFRY_ERR_NOMEM. */
static enum belfry_err relay_call_set_guard(struct relay_call *call, const struct exchange_head *head)
{
    enum relay_guard_kind kind;
    if (!relay_guard_is(head->path, &kind))
        return BELFRY_OK;
    call->guard = malloc(sizeof(*call->guard));
    if (call->guard == NULL)
        return BELFRY_ERR_NOMEM;
    relay_guard_init(call->guard, kind, has_gzip(head));
    return BELFRY_OK;
}

static struct relay_call *relay_call_create(struct relay_calls *calls, struct exchange *x,
                                            const struct exchange_head *head)
{
    struct identity who = identity_read(x, head, IDENTITY_OF_GRPC);
    bool is_cert = who.kind == IDENTITY_CERT;
    struct relay_call *call = calloc(1, sizeof(*call) + (is_cert ? who.text.len : 0));
    if (call == NULL || relay_call_set_guard(call, head) != BELFRY_OK) {
        free(call);
        return NULL;
    }
    call->calls = calls;
    call->x = x;
    call->state = HEADED;
    call->due_ms = call->turn_ms = BELFRY_NEVER;
    call->may_ask = inquiry_is(head, &who, &call->within_ms);
    relay_call_set_reads(call, head);
    if (is_cert) {
        memcpy(call->user, who.text.data, call->user_len = who.text.len);
        who.text.data = call->user;
    }
    call->rewrites =
        calls->opts->advertise != NULL && belfry_bytes_equal(head->path, belfry_bytes_str(RELAY_MEMBERS_PATH));
    call->changes_auth = relay_rights_changes_auth(head->path);
    call->acts_later = relay_rights_acts_later(head->path);
    relay_body_init(&call->request, relay_rights_request(head->path));
    relay_check_init(&call->check, &calls->checks, &who, head->path);
    relay_turn_init(&call->turn, who.source);
    relay_holding_init(&call->holding, &calls->room, exchange_share(x));
    relay_observed_init(&call->observed);
    relay_peek_init(&call->peek);
    belfry_list_append(&calls->all, &call->node);
    belfry_list_init(&call->anonymous);
    belfry_list_init(&call->opening);
    shares_count(call->holding.share, SHARES_CALLS, 0, 1);
    calls->stats.running++;
    return call;
}

/* Everything but the pace that can make it end by itself. */
static void relay_call_set_deadlines(struct relay_call *call, struct belfry_bytes path, uint64_t timeout_ms)
{
    struct relay_calls *calls = call->calls;
    uint64_t now = belfry_clock_ms();
    if (relay_rights_observes(path)) {
        relay_observed_begin(&call->observed, now, calls->opts->period_ms);
        relay_alarm_set(&calls->alarm, call->observed.look_ms, now);
    }
    if (timeout_ms < BELFRY_NEVER - GRACE_MS - now) {
        call->due_ms = now + timeout_ms + GRACE_MS;
        relay_alarm_set(&calls->alarm, call->due_ms, now);
    }
    if (call->check.tokenless && !relay_rights_keeps_alive(path))
        belfry_list_append(&calls->anonymous, &call->anonymous);
}

void relay_call_begin(struct relay_calls *calls, struct exchange *x, const struct exchange_head *head, bool may_pass,
                      uint64_t timeout_ms)
{
    struct relay_call *call = relay_call_create(calls, x, head);
    if (call == NULL) {
        grpc_fail(x, GRPC_HEADERS_NOT_SENT, BELFRY_GRPC_RESOURCE_EXHAUSTED, NO_MEMORY);
        return;
    }
    call->may_pass = may_pass;
    calls->stats.relayed += !call->may_ask && call->method == READS_NONE;
    if (call->changes_auth)
        permit_doubt(calls->opts->permit);
    exchange_handle(x, &down_events, call);
    enum belfry_err err = relay_call_take_head(call, head);
    if (err != BELFRY_OK) {
        relay_call_fail_begin(call, err);
        return;
    }
    relay_call_set_pace(call, 0);
    relay_call_set_deadlines(call, head->path, timeout_ms);
}

struct relay_call *relay_call_of(struct belfry_list *node)
{
    return belfry_container(node, struct relay_call, node);
}

struct relay_call *relay_call_of_anonymous(struct belfry_list *node)
{
    return belfry_container(node, struct relay_call, anonymous);
}

bool relay_call_is_exposed(const struct relay_call *call)
{
    return call->up != NULL && uplink_is_lent(call->up) && (call->acts_later || !relay_body_is_sent(&call->request));
}

void relay_call_reset(struct relay_call *call)
{
    exchange_reset(call->x, NGHTTP2_CANCEL);
    relay_call_free(call);
}

/* ---- deadlines ---- */

/* True: the call has ended. */
static bool relay_call_end_if_unproven(struct relay_call *call, uint64_t now)
{
    const struct relay_opts *opts = call->calls->opts;
    if (call->observed.look_ms > now ||
        !relay_observed_is_over(&call->observed, permit_auth(opts->permit, now), now, opts->period_ms))
        return false;
    relay_call_fail(call, BELFRY_GRPC_UNAVAILABLE, OBSERVE_AGAIN);
    return true;
}

/* A client whose bytes wait for upstream is not late. True: the call has ended. */
static bool relay_call_end_if_late(struct relay_call *call, uint64_t now)
{
    if (call->due_ms <= now) {
        relay_call_fail(call, BELFRY_GRPC_DEADLINE_EXCEEDED, GRPC_TIMEOUT);
        return true;
    }
    if (call->turn_ms <= now) {
        call->calls->stats.refused++;
        relay_call_fail(call, BELFRY_GRPC_UNAVAILABLE, NO_TURN);
        return true;
    }
    if (call->request.pace.due_ms > now)
        return false;
    if (call->state != HEADED && belfry_buf_len(&call->request.bytes) > 0) {
        pace_excuse(&call->request.pace, now, call->calls->opts->pace_ms);
        return false;
    }
    call->calls->stats.late++;
    relay_call_fail(call, BELFRY_GRPC_UNAVAILABLE, LATE);
    return true;
}

uint64_t relay_call_look(struct relay_call *call, uint64_t now)
{
    if (relay_call_end_if_unproven(call, now))
        return BELFRY_NEVER;
    uint64_t next = call->observed.look_ms;
    if (call->state == EMPTYING || relay_call_end_if_late(call, now)) /* EMPTYING: upstream was in time */
        return next;
    return belfry_min_time(belfry_min_time(next, call->turn_ms),
                           belfry_min_time(call->due_ms, call->request.pace.due_ms));
}
