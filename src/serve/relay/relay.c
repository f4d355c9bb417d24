/* src/serve/relay/relay.c */
#include "serve/relay/relay.h"

#include <assert.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/owner.h"
#include "net/grpc.h"
#include "net/grpc_reply.h"
#include "serve/relay/grpc_walk.h"
#include "serve/relay/relay_members.h"
#include "serve/relay/relay_rights.h"
#include "serve/relay/relay_turns.h"
#include "serve/rights/inquiry.h"
#include "serve/rights/rights_request.h"
#include "server/fields.h"
#include "server/grpc_answer.h"
#include "server/pace.h"

#define GRACE_MS  1000 /* after a call's deadline: if upstream has not ended it by then, the relay does */
#define LOOK_MS   100  /* at least, between two visits of every call: peers choose the deadlines */
#define NO_USER   "etcdserver: user name is empty"
#define READ_ONLY "belfry: this listener is read-only"
#define LOOK_SLOW 1024 /* calls among which a slow one is looked for */

#define NO_MEMORY  "belfry: out of memory"
#define NO_ROOM    "belfry: memory limit reached; try again"
#define OVER_SHARE "belfry: this client has as many calls under way as it may; see --client-share"
#define TOO_MANY   "belfry: too many calls are being relayed"
#define NO_TURN    "belfry: this client, or upstream, has too many calls under way; try again"
#define LATE       "belfry: the request was not complete in time"
#define BAD_HEAD   "belfry: these request headers cannot be passed on"

#define OBSERVE_AGAIN "belfry: the right to this call is judged once in a period: repeat the call"

/*     HEADED --> [TURNING -->] [CHECKING -->] WAITING --> PASSING --> EMPTYING --> gone     any state may go to gone
 *      `---> ASKING --> gone
 */
enum call_state {
    HEADED,   /* upstream does not know of the call: no byte of the body was received, or it may be an inquiry */
    ASKING,   /* it is the question of a tier below, and is answered here */
    TURNING,  /* others are with upstream (relay_turns.h) */
    CHECKING, /* may it be passed on without a token? Which field speaks for the user of its certificate? */
    WAITING,  /* the response has not begun */
    PASSING,  /* its head has been passed on */
    EMPTYING  /* upstream is done; the end of the response waits for room */
};

/* How the exchange ends when the whole body was passed on. */
enum call_end {
    END_TRAILERS, /* with the fields in `block`, if there are any */
    END_STATUS    /* with the status in `code` and `why` */
};

struct relay_call {
    /* fixed at creation */
    struct relay *relay;
    struct exchange *x;
    struct shares_conn *share; /* its connection's */
    bool changes_auth, acts_later;
    bool tokenless;
    bool needs_auth; /* of a listener that serves only while upstream has auth on */
    bool may_pass;   /* its listener passes its method on */
    bool has_user;   /* of a certificate's user, who is vouched for */
    enum relay_request kind;
    uint64_t due_ms;
    /* owner */
    struct relay_turn turn;
    uint64_t turn_ms;           /* TURNING: until when it waits; NEVER: it does not */
    uint64_t right_ms, look_ms; /* of one whose response may go on for ever: when upstream judged its right, or auth was
                                   known to be off; when to look at that again (NEVER: it is no such call) */
    struct belfry_list node;
    struct belfry_list anonymous; /* without a token, unless it needs no right */
    struct belfry_list slow;      /* while `response` is not empty */
    size_t held, held_down;       /* bytes that it holds, as counted, and of them the response's */
    enum call_state state;
    bool may_ask;                     /* HEADED: it may be the question of a tier below */
    uint64_t within_ms;               /* of such a question */
    struct inquiry *inquiry;          /* ASKING */
    struct permit_question *question; /* CHECKING; this or the next: */
    struct vouch_wait wait;
    uint64_t revision;      /* of the token that was made for it; 0: none was */
    struct uplink_call *up; /* WAITING and PASSING */
    struct fields block;    /* until WAITING the request's; then the block that is being received */
    struct belfry_buf path; /* until WAITING */
    enum belfry_err failed; /* a field could not be kept */
    bool rewrites;          /* the response is a member list, and is held until it is whole */
    /* up */
    struct belfry_buf request; /* received and not sent: at most EXCHANGE_WINDOW, because it is not taken */
    bool request_ended;
    struct grpc_walk walk; /* over the request */
    struct pace pace;      /* of the message that the client has begun */
    /* down */
    struct belfry_buf response; /* received and not written: at most a stream's window, because it is not taken */
    enum call_end end;          /* EMPTYING */
    int code;                   /* END_STATUS, as `why` */
    char *why;                  /* owned; NULL: there was no memory for it */
    size_t user_len;            /* fixed at creation, as: */
    char user[];
};

struct relay {
    /* fixed at creation */
    struct relay_opts opts;
    /* owner */
    struct inquiries inquiries;
    struct belfry_list calls;
    struct belfry_list slow;      /* calls whose client is behind; first the one that has taken nothing for longest */
    size_t held_down;             /* of stats.held_bytes: responses */
    struct belfry_list anonymous; /* calls */
    struct permit_question *recheck; /* is auth still off, for these? */
    uint64_t recheck_ms;             /* when that is asked next; BELFRY_NEVER: not planned */
    struct relay_turns turns;
    uv_timer_t turns_timer; /* 0 ms: somebody may be next */
    uv_timer_t timer;
    uint64_t due_ms; /* of the timer: the first deadline or recheck_ms, but not within LOOK_MS of looked_ms */
    uint64_t looked_ms;
    struct relay_stats stats;
    BELFRY_OWNER;
};

static void on_relay_timer(uv_timer_t *timer);

static void relay_call_move_to(struct relay_call *call, enum call_state to)
{
    static const unsigned legal[] = {[HEADED] = 1u << TURNING | 1u << CHECKING | 1u << WAITING | 1u << ASKING,
                                     [TURNING] = 1u << CHECKING | 1u << WAITING,
                                     [ASKING] = 0,
                                     [CHECKING] = 1u << WAITING,
                                     [WAITING] = 1u << PASSING | 1u << EMPTYING,
                                     [PASSING] = 1u << EMPTYING,
                                     [EMPTYING] = 0};
    assert(legal[call->state] & 1u << to);
    (void)legal;
    call->state = to;
}

/* ---- what is held ---- */

static void relay_call_set_held(struct relay_call *call, size_t request, size_t response)
{
    struct relay *relay = call->relay;
    struct relay_stats *stats = &relay->stats;
    stats->held_bytes = stats->held_bytes - call->held + request + response;
    relay->held_down = relay->held_down - call->held_down + response;
    shares_count(call->share, SHARES_CALL_BYTES, call->held, request + response);
    if (stats->held_bytes > stats->held_peak)
        stats->held_peak = stats->held_bytes;
    call->held = request + response;
    call->held_down = response;
}

static size_t relay_call_head_bytes(const struct relay_call *call)
{
    if (call->state == CHECKING || call->state == HEADED || call->state == TURNING)
        return call->path.cap + fields_bytes(&call->block);
    return call->up == NULL ? 0 : uplink_unsent(call->up);
}

/* Is no message of the client's incomplete? */
static bool relay_call_is_whole(const struct relay_call *call)
{
    if (call->request_ended || call->kind == RELAY_ONE_MESSAGE)
        return call->request_ended;
    return call->walk.whole > 0 && !grpc_walk_inside(&call->walk);
}

/* Counts the bytes that the call holds, after anything that may have changed them. */
static void relay_call_count(struct relay_call *call)
{
    size_t request = relay_call_head_bytes(call) + call->request.cap;
    relay_call_set_held(call, request, call->response.cap);
    exchange_holds(call->x, relay_call_is_whole(call) ? 0 : EXCHANGE_COST + request);
    if (belfry_buf_len(&call->response) == 0)
        belfry_list_remove(&call->slow);
    else if (belfry_list_empty(&call->slow))
        belfry_list_append(&call->relay->slow, &call->slow);
}

/* Its client has read something: all others are slower. */
static void relay_call_note_progress(struct relay_call *call)
{
    if (belfry_list_empty(&call->slow))
        return;
    belfry_list_remove(&call->slow);
    belfry_list_append(&call->relay->slow, &call->slow);
}

/* ---- turns ---- */

static void on_relay_turns(uv_timer_t *timer);

/* Upstream has done with it, or will never know of it. Whoever is next sets out later: this may be called from inside
 * anything. */
static void relay_call_end_turn(struct relay_call *call)
{
    struct relay *relay = call->relay;
    if (relay_turn_end(&relay->turns, &call->turn))
        uv_timer_start(&relay->turns_timer, on_relay_turns, 0, 0);
}

/* ---- ends ---- */

/* The exchange has ended, or is about to. */
static void relay_call_free(struct relay_call *call)
{
    struct relay *relay = call->relay;
    if (call->question != NULL)
        permit_cancel(call->question);
    inquiry_cancel(call->inquiry);
    vouch_wait_end(&call->wait);
    if (call->up != NULL)
        uplink_close(call->up);
    if (call->changes_auth)
        permit_doubt(
            relay->opts.permit); /* again: an answer that came while the call ran may be older than its effect */
    belfry_list_remove(&call->node);
    belfry_list_remove(&call->anonymous);
    belfry_list_remove(&call->slow);
    relay_call_end_turn(call);
    relay_call_set_held(call, 0, 0);
    shares_count(call->share, SHARES_CALLS, 1, 0);
    relay->stats.running--;
    fields_fini(&call->block);
    belfry_buf_fini(&call->path);
    belfry_buf_fini(&call->request);
    belfry_buf_fini(&call->response);
    free(call->why);
    free(call);
}

/* Ends the call with a status of our own, whatever was passed on so far. */
static void relay_call_fail(struct relay_call *call, int code, const char *why)
{
    struct exchange *x = call->x;
    enum grpc_headers sent =
        call->state == PASSING || call->state == EMPTYING ? GRPC_HEADERS_SENT : GRPC_HEADERS_NOT_SENT;
    grpc_fail(x, sent, code, why); /* before the call is freed: `why` may be the call's text */
    relay_call_free(call);
}

static void relay_call_end_for_memory(struct relay_call *call)
{
    call->relay->stats.over_memory++;
    relay_call_fail(call, BELFRY_GRPC_UNAVAILABLE, NO_ROOM);
}

/* The call of the same client whose response has waited for longest; NULL: there is none among the first. */
static struct relay_call *relay_slowest_beside(const struct relay_call *call)
{
    size_t n = 0;
    belfry_list_each (node, &call->relay->slow) {
        struct relay_call *other = belfry_container(node, struct relay_call, slow);
        if (shares_same_client(other->share, call->share))
            return other;
        if (++n == LOOK_SLOW)
            break;
    }
    return NULL;
}

/* Makes room for `n` more bytes, if necessary by ending slower calls of the same client. When most held bytes wait for
 * clients that do not read, no sender is to blame. False: this call must end. */
static bool relay_call_make_room(const struct relay_call *call, size_t n)
{
    const struct relay *relay = call->relay;
    while (!shares_has(call->share, SHARES_CALL_BYTES, n)) {
        bool is_full_of_responses = relay->held_down > relay->stats.held_bytes / 2;
        if (!is_full_of_responses && shares_make_room(call->share, SHARES_CALL_BYTES, n))
            return true;
        struct relay_call *slowest = relay_slowest_beside(call);
        if (slowest == NULL || slowest == call || exchange_is_ending(call->x))
            return slowest == NULL && shares_make_room(call->share, SHARES_CALL_BYTES, n);
        relay_call_end_for_memory(slowest);
    }
    return true;
}

/* False: the call has ended. */
static bool relay_call_keep(struct relay_call *call, struct belfry_buf *buf, struct belfry_bytes bytes)
{
    if (!relay_call_make_room(call, bytes.len)) {
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

/* Of ":status", which is first; nghttp2 has checked that it is three digits. */
static int status_of_block(struct fields *block)
{
    const struct belfry_http_field *list = fields_list(block);
    int status = 0;
    if (block->n == 0 || !belfry_bytes_equal(list[0].name, belfry_bytes_str(":status")))
        return 0;
    for (size_t i = 0; i < list[0].value.len && i < 3; i++)
        status = status * 10 + (list[0].value.data[i] - '0');
    return status;
}

static void on_up_field(struct uplink_call *up, struct belfry_bytes name, struct belfry_bytes value, void *user)
{
    struct relay_call *call = user;
    (void)up;
    if (belfry_bytes_equal(name, belfry_bytes_str("grpc-status")) && belfry_bytes_equal(value, belfry_bytes_str("14")))
        *exchange_pin(call->x) = 0; /* a member that cannot serve: this client's next call goes to another */
    if (call->revision != 0 && belfry_bytes_equal(name, belfry_bytes_str("grpc-message")) &&
        belfry_bytes_equal(value, belfry_bytes_str(VOUCH_OLD)))
        vouch_outdate(call->relay->opts.vouch, call->revision);
    bool is_status = belfry_bytes_equal(name, belfry_bytes_str(":status"));
    if (call->failed != BELFRY_OK || (!is_status && fields_is_hop(name, value)))
        return;
    call->failed = fields_add(&call->block, name, value);
}

/* Writes as much as there is room for. Asks for room until there is too little, so that `writable` will come. */
static size_t relay_call_write(struct relay_call *call, struct belfry_bytes bytes)
{
    size_t written = 0, room;
    while (written < bytes.len && (room = exchange_room(call->x)) > 0) {
        size_t n = bytes.len - written < room ? bytes.len - written : room;
        exchange_write(call->x, bytes.data + written, n);
        written += n;
    }
    call->relay->stats.bytes_down += written;
    return written;
}

static void relay_call_write_response(struct relay_call *call)
{
    size_t n = relay_call_write(call, belfry_buf_bytes(&call->response));
    belfry_buf_take(&call->response, n);
    if (call->up != NULL)
        uplink_taken(call->up, n);
    if (n > 0)
        relay_call_note_progress(call);
    if (belfry_buf_len(&call->response) > 0)
        return;
    belfry_buf_fini(&call->response); /* few calls need it */
    relay_call_count(call);
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
    enum belfry_err err = relay_members_rewrite(belfry_buf_bytes(&call->response), call->relay->opts.advertise, &out);
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
    int status = status_of_block(&call->block);
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
    if (call->failed != BELFRY_OK) {
        relay_call_fail(call, BELFRY_GRPC_RESOURCE_EXHAUSTED, NO_MEMORY);
    } else if (call->state == WAITING) {
        relay_call_pass_head(call, last);
    } else if (last) {
        uplink_close(up);
        relay_call_upstream_ended(call, END_TRAILERS);
    }
}

static void on_up_data(struct uplink_call *up, struct belfry_bytes bytes, void *user)
{
    struct relay_call *call = user;
    if (call->rewrites && belfry_buf_len(&call->response) + bytes.len > RELAY_MEMBERS_BYTES) {
        call->rewrites = false; /* it is passed on as it is */
        belfry_logf(call->relay->opts.log, BELFRY_LOG_WARN, "members_not_rewritten", "why=\"the list is too long\"");
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
    call->relay->stats.failed++;
    int code = end->lost ? BELFRY_GRPC_UNAVAILABLE : belfry_grpc_code_of_h2(end->h2_code);
    if (code == BELFRY_GRPC_UNAVAILABLE)
        *exchange_pin(call->x) = 0;
    if (call->state == WAITING) {
        relay_call_fail(call, code, end->why);
        return;
    }
    call->code = code;
    call->why = strdup(end->why);
    call->rewrites = false;
    relay_call_upstream_ended(call, END_STATUS);
}

/* ---- up: the request ---- */

static size_t on_up_read(struct uplink_call *up, uint8_t *to, size_t cap, bool *out_end, void *user)
{
    struct relay_call *call = user;
    struct belfry_bytes have = belfry_buf_bytes(&call->request);
    (void)up;
    size_t n = have.len < cap ? have.len : cap;
    if (n > 0)
        memcpy(to, have.data, n);
    belfry_buf_take(&call->request, n);
    if (n == have.len)
        belfry_buf_fini(&call->request);
    relay_call_count(call);
    exchange_taken(call->x, n);
    call->relay->stats.bytes_up += n;
    *out_end = call->request_ended && n == have.len;
    return n;
}

static const struct uplink_events up_events = {.field = on_up_field,
                                               .block = on_up_block,
                                               .data = on_up_data,
                                               .end = on_up_end,
                                               .read = on_up_read,
                                               .closed = on_up_closed};

static void relay_arm_timer(struct relay *relay, uint64_t due_ms, uint64_t now)
{
    if (due_ms < relay->looked_ms + LOOK_MS)
        due_ms = relay->looked_ms + LOOK_MS;
    if (due_ms >= relay->due_ms)
        return;
    relay->due_ms = due_ms;
    uv_update_time(relay->timer.loop);
    uv_timer_start(&relay->timer, on_relay_timer, due_ms > now ? due_ms - now : 0, 0);
}

/* `n` more bytes of the request were received, or its end, or its beginning. */
static void relay_call_set_pace(struct relay_call *call, size_t n)
{
    bool waits = call->kind == RELAY_ONE_MESSAGE ? !call->request_ended : grpc_walk_inside(&call->walk);
    if (!waits) {
        pace_init(&call->pace);
        return;
    }
    uint64_t now = belfry_clock_ms();
    pace_wait(&call->pace, n, now, call->relay->opts.pace_ms);
    relay_arm_timer(call->relay, call->pace.due_ms, now);
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
    struct relay *relay = call->relay;
    relay_call_move_to(call, WAITING);
    struct belfry_bytes path = belfry_buf_bytes(&call->path);
    struct uplink_request request = {.path = path,
                                     .fields = fields_list(&call->block),
                                     .n_fields = call->block.n,
                                     .caller = relay_rights_authenticates(path) ? UPLINK_CALLER_ANYONE
                                                                                : UPLINK_CALLER_CLIENT};
    enum belfry_err err = uplink_open(relay->opts.uplink, exchange_pin(call->x), &request, &up_events, call, &call->up);
    fields_fini(&call->block);
    belfry_buf_fini(&call->path);
    relay_call_count(call);
    return err;
}

static void relay_call_refuse_user(struct relay_call *call)
{
    call->relay->stats.refused++;
    relay_call_fail(call, BELFRY_GRPC_INVALID_ARGUMENT, NO_USER);
}

static void relay_call_send_or_fail(struct relay_call *call)
{
    enum belfry_err err = relay_call_send(call);
    if (err != BELFRY_OK)
        relay_call_fail_begin(call, err);
}

/* Passes the request on with the field that speaks for its user, when there is one. */
static void relay_call_send_as_user(struct relay_call *call)
{
    struct voucher voucher;
    enum belfry_err err;
    switch (vouch_ask(call->relay->opts.vouch, belfry_bytes_of(call->user, call->user_len), &call->wait, &voucher)) {
    case VOUCH_GIVEN:
        call->revision = voucher.revision;
        err = fields_add(&call->block, voucher.field.name, voucher.field.value);
        if (err != BELFRY_OK)
            relay_call_fail_begin(call, err);
        else
            relay_call_send_or_fail(call);
        break;
    case VOUCH_LATER:
        break;
    case VOUCH_REFUSED:
        if (!relay_rights_needs_user(belfry_buf_bytes(&call->path))) {
            relay_call_send_or_fail(call);
            break;
        }
        call->relay->stats.refused++;
        relay_call_fail(call, BELFRY_GRPC_UNAUTHENTICATED, vouch_message(voucher.reason));
        break;
    case VOUCH_UNAVAILABLE:
        call->relay->stats.failed++;
        relay_call_fail(call, BELFRY_GRPC_UNAVAILABLE, voucher.reason);
        break;
    }
}

static void on_relay_vouched(struct vouch_wait *wait)
{
    relay_call_send_as_user(belfry_container(wait, struct relay_call, wait));
}

static void on_relay_verdict(enum permit_verdict verdict, const char *reason, void *user)
{
    struct relay_call *call = user;
    call->question = NULL;
    if (verdict == PERMIT_UNAVAILABLE) {
        call->relay->stats.failed++;
        relay_call_fail(call, BELFRY_GRPC_UNAVAILABLE, reason);
    } else if (verdict == PERMIT_GRANTED && call->needs_auth) {
        call->relay->stats.refused++;
        relay_call_fail(call, BELFRY_GRPC_UNAVAILABLE, PERMIT_AUTH_IS_OFF);
    } else if (call->has_user && (verdict == PERMIT_REFUSED || vouch_passes(call->relay->opts.vouch))) {
        relay_call_send_as_user(call);
    } else if (verdict == PERMIT_REFUSED && call->tokenless && relay_rights_needs_user(belfry_buf_bytes(&call->path))) {
        relay_call_refuse_user(call);
    } else { /* auth is off; or it is on, and the call goes upstream without a user */
        relay_call_send_or_fail(call);
    }
}

/* With auth on, upstream could take the call for the tier's own, or has to know its user. With auth off, it would carry
 * out whatever a listener with rights=upstream passes on. */
static bool relay_call_must_check(const struct relay_call *call)
{
    const struct relay *relay = call->relay;
    struct belfry_bytes path = belfry_buf_bytes(&call->path);
    if (call->needs_auth && permit_auth(relay->opts.permit, belfry_clock_ms()) != PERMIT_AUTH_ON)
        return true;
    bool needs_voucher = call->has_user && (relay->opts.vouch != NULL || relay_rights_needs_user(path));
    if (needs_voucher && vouch_passes(relay->opts.vouch))
        return true; /* the tier above has to know the user whatever this one believes of auth */
    return call->tokenless && !relay_rights_authenticates(path) &&
           (needs_voucher || uplink_may_have_name(relay->opts.uplink)) &&
           !permit_is_open(relay->opts.permit, belfry_clock_ms());
}

/* Asks for a caller without a token. PERMIT_REFUSED: auth is on. */
static enum belfry_err ask_without_token(struct relay *relay, permit_fn fn, void *user, struct permit_question **out)
{
    static const struct identity nobody;
    struct belfry_bytes none = {0};
    return permit_ask(relay->opts.permit, &nobody, none, none, belfry_clock_ms(), fn, user, out);
}

/* Sends the call upstream, or checks it first. The check comes this late because its answer is valid for a second. */
static enum belfry_err relay_call_set_out(struct relay_call *call)
{
    if (!relay_call_must_check(call))
        return relay_call_send(call);
    relay_call_move_to(call, CHECKING);
    return ask_without_token(call->relay, on_relay_verdict, call, &call->question);
}

/* Only calls that upstream answers soon take turns: others, which may last for days, are bounded as SHARES_CALLS. */
static enum belfry_err relay_call_take_turn(struct relay_call *call)
{
    struct relay *relay = call->relay;
    bool is_short = call->kind == RELAY_ONE_MESSAGE && !call->acts_later && call->look_ms == BELFRY_NEVER;
    if (!is_short || relay_turn_take(&relay->turns, &call->turn))
        return relay_call_set_out(call);
    relay_call_move_to(call, TURNING);
    uint64_t now = belfry_clock_ms();
    call->turn_ms = now + relay->opts.turn_ms;
    relay_arm_timer(relay, call->turn_ms, now);
    return BELFRY_OK;
}

static void on_relay_turns(uv_timer_t *timer)
{
    struct relay *relay = timer->data;
    for (struct relay_turn *turn; (turn = relay_turns_next(&relay->turns)) != NULL;) {
        struct relay_call *call = belfry_container(turn, struct relay_call, turn);
        call->turn_ms = BELFRY_NEVER;
        enum belfry_err err = relay_call_set_out(call);
        if (err != BELFRY_OK)
            relay_call_fail_begin(call, err);
    }
}

/* ---- questions of tiers below ---- */

static void on_relay_inquiry(const struct inquiry_answer *with, void *user)
{
    struct relay_call *call = user;
    char text[RIGHTS_REQUEST_MS];
    struct belfry_http_field age = {belfry_bytes_str(RIGHTS_REQUEST_AGE), rights_request_write_ms(with->age_ms, text)};
    call->inquiry = NULL;
    call->relay->stats.inquiries++;
    grpc_fail_with(call->x, with->code, with->message, with->code == BELFRY_GRPC_OUT_OF_RANGE ? &age : NULL);
    relay_call_free(call);
}

static enum belfry_err relay_call_ask(struct relay_call *call)
{
    struct exchange_head head = {.fields = fields_list(&call->block), .n_fields = call->block.n};
    struct identity who = identity_read(call->x, &head, IDENTITY_OF_GRPC);
    if (call->user_len > 0) { /* its name may have come in a field that is not passed on */
        who.kind = IDENTITY_CERT;
        who.text = belfry_bytes_of(call->user, call->user_len);
    }
    struct inquiry_request request = {.who = &who,
                                      .path = belfry_buf_bytes(&call->path),
                                      .body = belfry_buf_bytes(&call->request),
                                      .within_ms = call->within_ms};
    enum belfry_err err =
        inquiry_open(&call->relay->inquiries, &request, belfry_clock_ms(), on_relay_inquiry, call, &call->inquiry);
    if (err != BELFRY_OK)
        return err;
    relay_call_move_to(call, ASKING);
    fields_fini(&call->block);
    belfry_buf_fini(&call->path);
    belfry_buf_fini(&call->request);
    relay_call_count(call);
    return BELFRY_OK;
}

/* True: the call is answered here, or may be once its request is whole. */
static bool relay_call_try_to_answer(struct relay_call *call)
{
    if (!call->may_ask || call->state != HEADED)
        return false;
    if (!call->request_ended && belfry_buf_len(&call->request) <= INQUIRY_BYTES)
        return true;
    call->may_ask = false;
    if (call->request_ended && relay_call_ask(call) == BELFRY_OK)
        return true;
    call->relay->stats.inquiries_relayed++;
    call->relay->stats.relayed += call->may_pass;
    return false;
}

/* A request of one message sets out when it is whole, or too large to be kept: one that is sent slowly takes no turn
 * from others. */
static bool relay_call_may_set_out(const struct relay_call *call)
{
    return call->kind != RELAY_ONE_MESSAGE || call->request_ended || call->walk.whole > 0 ||
           belfry_buf_len(&call->request) >= EXCHANGE_WINDOW / 2;
}

/* There is more to pass on. The call may have ended when this returns. */
static void relay_call_pass_on(struct relay_call *call)
{
    if (relay_call_try_to_answer(call) || (call->state == HEADED && !relay_call_may_set_out(call)))
        return;
    if (call->state == HEADED && !call->may_pass) {
        call->relay->stats.refused++;
        relay_call_fail(call, BELFRY_GRPC_PERMISSION_DENIED, READ_ONLY);
        return;
    }
    enum belfry_err err = call->state == HEADED ? relay_call_take_turn(call) : BELFRY_OK;
    if (err != BELFRY_OK)
        relay_call_fail_begin(call, err);
    else if (call->up != NULL)
        uplink_resume(call->up);
}

static void on_down_body(struct exchange *x, struct belfry_bytes bytes, void *user)
{
    struct relay_call *call = user;
    if (call->state == EMPTYING) { /* upstream wants no more of it */
        exchange_taken(x, bytes.len);
        return;
    }
    grpc_walk_pass(&call->walk, bytes);
    if (!relay_call_keep(call, &call->request, bytes))
        return;
    relay_call_set_pace(call, bytes.len);
    relay_call_pass_on(call);
}

static void on_down_body_end(struct exchange *x, void *user)
{
    struct relay_call *call = user;
    (void)x;
    call->request_ended = true;
    relay_call_set_pace(call, 0);
    relay_call_count(call);
    relay_call_pass_on(call);
}

static void on_down_writable(struct exchange *x, void *user)
{
    struct relay_call *call = user;
    (void)x;
    if (call->state == EMPTYING || (call->state == PASSING && !call->rewrites))
        relay_call_write_response(call);
}

static void on_down_gone(struct exchange *x, void *user)
{
    (void)x;
    relay_call_free(user);
}

static const struct exchange_events down_events = {
    .body = on_down_body, .body_end = on_down_body_end, .writable = on_down_writable, .gone = on_down_gone};

/* ---- calls that etcd may still carry out when auth is turned on ---- */

static bool relay_call_is_exposed(struct belfry_list *node)
{
    const struct relay_call *call = belfry_container(node, struct relay_call, anonymous);
    bool is_complete = call->request_ended && belfry_buf_len(&call->request) == 0;
    return call->up != NULL && uplink_is_lent(call->up) && (call->acts_later || !is_complete);
}

static void relay_recheck_later(struct relay *relay, uint64_t now)
{
    if (relay->recheck != NULL || relay->recheck_ms != BELFRY_NEVER || belfry_list_empty(&relay->anonymous))
        return;
    relay->recheck_ms = now + RELAY_RECHECK_MS;
    relay_arm_timer(relay, relay->recheck_ms, now);
}

static void on_recheck(enum permit_verdict verdict, const char *reason, void *user)
{
    struct relay *relay = user;
    (void)reason;
    relay->recheck = NULL;
    belfry_list_each_safe (node, &relay->anonymous) {
        if (verdict == PERMIT_REFUSED && relay_call_is_exposed(node))
            relay_call_refuse_user(belfry_container(node, struct relay_call, anonymous));
    }
    relay_recheck_later(relay, belfry_clock_ms());
}

/* Auth may have been turned on since these calls went upstream: then they would run as the tier's user. */
static void relay_recheck(struct relay *relay, uint64_t now)
{
    bool exposed = false;
    belfry_list_each (node, &relay->anonymous)
        exposed = exposed || relay_call_is_exposed(node);
    relay->recheck_ms = BELFRY_NEVER;
    if (exposed && ask_without_token(relay, on_recheck, relay, &relay->recheck) != BELFRY_OK)
        relay->recheck = NULL; /* too many questions: it is asked again in a second */
    relay_recheck_later(relay, now);
}

/* ---- beginning ---- */

static enum belfry_err relay_call_take_head(struct relay_call *call, const struct exchange_head *head)
{
    enum belfry_err err = belfry_buf_append(&call->path, head->path.data, head->path.len);
    for (size_t i = 0; i < head->n_fields && err == BELFRY_OK; i++) {
        if (!fields_is_hop(head->fields[i].name, head->fields[i].value) &&
            !belfry_bytes_equal(head->fields[i].name, belfry_bytes_str(IDENTITY_USER_FIELD)))
            err = fields_add(&call->block, head->fields[i].name, head->fields[i].value);
    }
    if (err != BELFRY_OK)
        return err;
    if (!relay_call_make_room(call, relay_call_head_bytes(call)))
        return BELFRY_ERR_AGAIN;
    relay_call_count(call);
    return call->kind == RELAY_UNKNOWN ? relay_call_set_out(call) : BELFRY_OK; /* its server may send first */
}

static struct relay_call *relay_call_create(struct relay *relay, struct exchange *x, const struct exchange_head *head)
{
    struct identity who = identity_read(x, head, IDENTITY_OF_GRPC);
    bool is_cert = who.kind == IDENTITY_CERT;
    struct relay_call *call = calloc(1, sizeof(*call) + (is_cert ? who.text.len : 0));
    if (call == NULL)
        return NULL;
    call->relay = relay;
    call->x = x;
    call->share = exchange_share(x);
    call->state = HEADED;
    call->due_ms = call->look_ms = call->turn_ms = BELFRY_NEVER;
    relay_turn_init(&call->turn, who.source);
    call->tokenless = who.kind != IDENTITY_TOKEN;
    call->may_ask = inquiry_is(head, &who, &call->within_ms);
    call->has_user = is_cert && who.rights != LISTEN_RIGHTS_OPEN && !relay_rights_authenticates(head->path);
    if (is_cert)
        memcpy(call->user, who.text.data, call->user_len = who.text.len);
    vouch_wait_init(&call->wait, on_relay_vouched);
    call->needs_auth = who.rights == LISTEN_RIGHTS_UPSTREAM;
    call->rewrites =
        relay->opts.advertise != NULL && belfry_bytes_equal(head->path, belfry_bytes_str(RELAY_MEMBERS_PATH));
    call->changes_auth = relay_rights_changes_auth(head->path);
    call->acts_later = relay_rights_acts_later(head->path);
    call->kind = relay_rights_request(head->path);
    pace_init(&call->pace);
    belfry_list_append(&relay->calls, &call->node);
    belfry_list_init(&call->anonymous);
    belfry_list_init(&call->slow);
    shares_count(call->share, SHARES_CALLS, 0, 1);
    relay->stats.running++;
    return call;
}

static bool may_be_inquiry(const struct exchange *x, const struct exchange_head *head)
{
    struct identity who = identity_read(x, head, IDENTITY_OF_GRPC);
    uint64_t within_ms;
    return inquiry_is(head, &who, &within_ms);
}

void relay_begin(struct relay *relay, struct exchange *x, const struct exchange_head *head, enum relay_rights rights)
{
    BELFRY_OWNER_CHECK(relay);
    uint64_t timeout_ms, now = belfry_clock_ms();
    if (grpc_refuse_head(x, head, &timeout_ms))
        return;
    bool may_pass = rights == RELAY_ALL || relay_rights_reads(head->path);
    if (!may_pass && !may_be_inquiry(x, head)) {
        relay->stats.refused++;
        grpc_fail(x, GRPC_HEADERS_NOT_SENT, BELFRY_GRPC_PERMISSION_DENIED, READ_ONLY);
        return;
    }
    if (!shares_make_room(exchange_share(x), SHARES_CALLS, 1)) {
        relay->stats.refused++;
        grpc_fail(x, GRPC_HEADERS_NOT_SENT, BELFRY_GRPC_RESOURCE_EXHAUSTED, OVER_SHARE);
        return;
    }
    struct relay_call *call = relay_call_create(relay, x, head);
    if (call == NULL) {
        grpc_fail(x, GRPC_HEADERS_NOT_SENT, BELFRY_GRPC_RESOURCE_EXHAUSTED, NO_MEMORY);
        return;
    }
    call->may_pass = may_pass;
    relay->stats.relayed += !call->may_ask;
    if (call->changes_auth)
        permit_doubt(relay->opts.permit);
    exchange_handle(x, &down_events, call);
    enum belfry_err err = relay_call_take_head(call, head);
    if (err != BELFRY_OK) {
        relay_call_fail_begin(call, err);
        return;
    }
    relay_call_set_pace(call, 0);
    if (relay_rights_observes(head->path)) {
        call->right_ms = now;
        call->look_ms = now + relay->opts.period_ms / 2;
        relay_arm_timer(relay, call->look_ms, now);
    }
    if (timeout_ms < BELFRY_NEVER - GRACE_MS - now) {
        call->due_ms = now + timeout_ms + GRACE_MS;
        relay_arm_timer(relay, call->due_ms, now);
    }
    if (call->tokenless && !relay_rights_keeps_alive(head->path)) {
        belfry_list_append(&relay->anonymous, &call->anonymous);
        relay_recheck_later(relay, now);
    }
}

/* ---- the whole ---- */

/* etcd judges the right to observe an election when the call begins, and then no more. So such a call ends after a
 * period, unless auth is off: whoever repeats it is judged again. True: it has ended. */
static bool relay_call_end_if_unproven(struct relay_call *call, uint64_t now)
{
    uint64_t period = call->relay->opts.period_ms, end_ms = call->right_ms + period - period / 10;
    if (call->look_ms > now)
        return false;
    enum permit_auth auth = permit_auth(call->relay->opts.permit, now);
    if (auth != PERMIT_AUTH_OFF && end_ms <= now) {
        relay_call_fail(call, BELFRY_GRPC_UNAVAILABLE, OBSERVE_AGAIN);
        return true;
    }
    switch (auth) {
    case PERMIT_AUTH_OFF:
        call->right_ms = now;
        call->look_ms = now + period / 2;
        break;
    case PERMIT_AUTH_ON:
        call->look_ms = end_ms;
        break;
    case PERMIT_AUTH_UNKNOWN: /* it is being asked */
        call->look_ms = belfry_min_time(now + LOOK_MS, end_ms);
        break;
    }
    return false;
}

/* A client whose bytes wait for upstream is not late. True: the call has ended. */
static bool relay_call_end_if_late(struct relay_call *call, uint64_t now)
{
    if (call->due_ms <= now) {
        relay_call_fail(call, BELFRY_GRPC_DEADLINE_EXCEEDED, "context deadline exceeded");
        return true;
    }
    if (call->turn_ms <= now) {
        call->relay->stats.refused++;
        relay_call_fail(call, BELFRY_GRPC_UNAVAILABLE, NO_TURN);
        return true;
    }
    if (call->pace.due_ms > now)
        return false;
    if (call->state != HEADED && belfry_buf_len(&call->request) > 0) {
        pace_excuse(&call->pace, now, call->relay->opts.pace_ms);
        return false;
    }
    call->relay->stats.late++;
    relay_call_fail(call, BELFRY_GRPC_UNAVAILABLE, LATE);
    return true;
}

/* Visits every call, but only when the earliest deadline has come: about once per timeout when most calls end in time,
 * and once per LOOK_MS when all end late, each at another time. */
static void on_relay_timer(uv_timer_t *timer)
{
    struct relay *relay = timer->data;
    uint64_t now = belfry_clock_ms(), next = BELFRY_NEVER;
    belfry_list_each_safe (node, &relay->calls) {
        struct relay_call *call = belfry_container(node, struct relay_call, node);
        if (relay_call_end_if_unproven(call, now))
            continue;
        next = belfry_min_time(next, call->look_ms);
        if (call->state != EMPTYING && !relay_call_end_if_late(call, now)) /* EMPTYING: upstream was in time */
            next =
                belfry_min_time(belfry_min_time(next, call->turn_ms), belfry_min_time(call->due_ms, call->pace.due_ms));
    }
    relay->due_ms = BELFRY_NEVER;
    relay->looked_ms = now;
    relay_arm_timer(relay, next, now);
    if (relay->recheck_ms <= now)
        relay_recheck(relay, now);
    else
        relay_arm_timer(relay, relay->recheck_ms, now);
}

enum belfry_err relay_create(const struct relay_opts *opts, struct relay **out)
{
    struct relay *relay = calloc(1, sizeof(*relay));
    if (relay == NULL)
        return BELFRY_ERR_NOMEM;
    relay->opts = *opts;
    relay->inquiries.permit = opts->permit;
    relay->due_ms = relay->recheck_ms = BELFRY_NEVER;
    relay->opts.pace_ms = opts->pace_ms != 0 ? opts->pace_ms : PACE_MS;
    relay->opts.turn_ms = opts->turn_ms != 0 ? opts->turn_ms : RELAY_TURN_MS;
    relay->opts.period_ms = opts->period_ms != 0 ? opts->period_ms : PERMIT_PERIOD_MS;
    belfry_list_init(&relay->calls);
    belfry_list_init(&relay->slow);
    belfry_list_init(&relay->anonymous);
    relay_turns_init(&relay->turns, belfry_clock_ns());
    uv_timer_init(uplink_loop(opts->uplink), &relay->timer);
    uv_timer_init(uplink_loop(opts->uplink), &relay->turns_timer);
    relay->timer.data = relay->turns_timer.data = relay;
    BELFRY_OWNER_INIT(relay);
    *out = relay;
    return BELFRY_OK;
}

static void on_relay_timer_closed(uv_handle_t *timer)
{
    free(timer->data);
}

static void on_relay_turns_closed(uv_handle_t *timer)
{
    struct relay *relay = timer->data;
    uv_close((uv_handle_t *)&relay->timer, on_relay_timer_closed);
}

void relay_destroy(struct relay *relay)
{
    if (relay == NULL)
        return;
    BELFRY_OWNER_CHECK(relay);
    if (relay->recheck != NULL)
        permit_cancel(relay->recheck);
    belfry_list_each_safe (node, &relay->calls) {
        struct relay_call *call = belfry_container(node, struct relay_call, node);
        exchange_reset(call->x, NGHTTP2_CANCEL);
        relay_call_free(call);
    }
    uv_close((uv_handle_t *)&relay->turns_timer, on_relay_turns_closed);
}

void relay_end_all(struct relay *relay, const char *why)
{
    BELFRY_OWNER_CHECK(relay);
    belfry_list_each_safe (node, &relay->calls)
        relay_call_fail(belfry_container(node, struct relay_call, node), BELFRY_GRPC_UNAVAILABLE, why);
}

void relay_stats(const struct relay *relay, struct relay_stats *out)
{
    *out = relay->stats;
}
