/* src/serve/relay/relay.c */
#include "serve/relay/relay.h"

#include <assert.h>
#include <stdlib.h>

#include "base/clock.h"
#include "net/grpc.h"
#include "net/grpc_reply.h"
#include "serve/relay/grpc_walk.h"
#include "serve/relay/relay_members.h"
#include "serve/relay/relay_rights.h"
#include "server/fields.h"
#include "server/grpc_answer.h"
#include "server/pace.h"

#define GRACE_MS  1000 /* upstream ends a call at its deadline; we do if it has not done so by then */
#define LOOK_MS   100  /* at least, between two looks at every call: peers choose the deadlines */
#define NO_USER   "etcdserver: user name is empty"
#define READ_ONLY "belfry: this listener is read-only"
#define NO_MEMORY "belfry: out of memory"
#define NO_ROOM   "belfry: memory limit reached; try again"
#define TOO_MANY  "belfry: too many calls are being relayed"
#define LATE      "belfry: the request was not complete in time"
#define BAD_HEAD  "belfry: these request headers cannot be passed on"

/*     HEADED --> CHECKING --> WAITING --> PASSING --> EMPTYING --> gone        any state may go to gone
 *         (--> WAITING at once when there is nothing to check)
 */
enum call_state {
    HEADED,   /* nothing of the body has come: upstream does not know of it */
    CHECKING, /* may it be passed on without a token? */
    WAITING,  /* the response has not begun */
    PASSING,  /* its head has been passed on */
    EMPTYING  /* upstream is done; what it sent last waits for room */
};

/* How the exchange ends when all has been passed on. */
enum call_end {
    END_TRAILERS, /* with the fields in `block`, if there are any */
    END_STATUS    /* with the status in `code` and `why` */
};

struct relay_call {
    /* fixed at creation */
    struct relay *relay;
    struct exchange *x;
    bool changes_auth, acts_later;
    bool tokenless;
    enum relay_request kind;
    uint64_t due_ms;
    /* owner */
    struct belfry_list node;
    struct belfry_list anonymous; /* without a token, unless it needs no right */
    struct belfry_list slow;      /* while `response` is not empty */
    size_t held, held_down;       /* counted of what it holds, and of that the response's */
    enum call_state state;
    struct permit_question *question; /* CHECKING */
    struct uplink_call *up;           /* WAITING and PASSING */
    struct fields block;              /* until WAITING the request's; then the block that is being received */
    struct belfry_buf path;           /* until WAITING */
    enum belfry_err failed;           /* a field could not be kept */
    bool rewrites;                    /* the response is a member list, and is held until it is whole */
    /* up */
    struct belfry_buf request; /* came and not sent: at most EXCHANGE_WINDOW, because it is not taken */
    bool request_ended;
    struct grpc_walk walk; /* over the request */
    struct pace pace;      /* of what the client has begun to send */
    /* down */
    struct belfry_buf response; /* came and not written: at most a stream's window, because it is not taken */
    enum call_end end;          /* EMPTYING, and what follows */
    int code;
    char *why; /* owned; NULL: nothing to say */
};

struct relay {
    /* fixed at creation */
    struct relay_opts opts;
    /* owner */
    struct belfry_list calls;
    struct belfry_list slow;      /* calls whose client is behind; first who has taken nothing for the longest time */
    size_t held_down;             /* of stats.held_bytes: responses */
    struct belfry_list anonymous; /* calls */
    struct permit_question *recheck; /* is auth still off, for those? */
    uint64_t recheck_ms;             /* when that is asked next; BELFRY_NEVER while there are none */
    uv_timer_t timer;
    uint64_t due_ms; /* when the first deadline may have passed, or recheck_ms; not within LOOK_MS of the last look */
    uint64_t looked_ms;
    struct relay_stats stats;
};

static const struct uplink_events up_events;
static const struct exchange_events down_events;
static void on_timer(uv_timer_t *timer);

static void move(struct relay_call *call, enum call_state to)
{
    static const unsigned legal[] = {[HEADED] = 1u << CHECKING | 1u << WAITING,
                                     [CHECKING] = 1u << WAITING,
                                     [WAITING] = 1u << PASSING | 1u << EMPTYING,
                                     [PASSING] = 1u << EMPTYING,
                                     [EMPTYING] = 0};
    assert(legal[call->state] & 1u << to);
    (void)legal;
    call->state = to;
}

/* ---- what is held ---- */

static void set_held(struct relay_call *call, size_t request, size_t response)
{
    struct relay *relay = call->relay;
    struct relay_stats *stats = &relay->stats;
    stats->held_bytes = stats->held_bytes - call->held + request + response;
    relay->held_down = relay->held_down - call->held_down + response;
    if (stats->held_bytes > stats->held_peak)
        stats->held_peak = stats->held_bytes;
    call->held = request + response;
    call->held_down = response;
}

static size_t head_bytes(const struct relay_call *call)
{
    if (call->state == CHECKING || call->state == HEADED)
        return call->path.cap + call->block.text.cap + call->block.cap * sizeof(call->block.list[0]);
    return call->up == NULL ? 0 : uplink_unsent(call->up);
}

/* Is the client done with what it has begun? */
static bool is_whole(const struct relay_call *call)
{
    if (call->request_ended || call->kind == RELAY_ONE_MESSAGE)
        return call->request_ended;
    return call->walk.whole > 0 && !grpc_walk_inside(&call->walk);
}

/* After anything that may have changed it. */
static void count_held(struct relay_call *call)
{
    size_t request = head_bytes(call) + call->request.cap;
    set_held(call, request, call->response.cap);
    exchange_holds(call->x, is_whole(call) ? 0 : EXCHANGE_COST + request);
    if (belfry_buf_len(&call->response) == 0)
        belfry_list_remove(&call->slow);
    else if (belfry_list_empty(&call->slow))
        belfry_list_append(&call->relay->slow, &call->slow);
}

/* Its client has taken something: all others are slower. */
static void note_progress(struct relay_call *call)
{
    if (belfry_list_empty(&call->slow))
        return;
    belfry_list_remove(&call->slow);
    belfry_list_append(&call->relay->slow, &call->slow);
}

/* ---- ends ---- */

/* Lets go of both sides' leavings. The exchange has ended, or is about to. */
static void free_call(struct relay_call *call)
{
    struct relay *relay = call->relay;
    if (call->question != NULL)
        permit_cancel(call->question);
    if (call->up != NULL)
        uplink_close(call->up);
    if (call->changes_auth)
        permit_doubt(relay->opts.permit); /* again: what was learned while it ran may be from before it */
    belfry_list_remove(&call->node);
    belfry_list_remove(&call->anonymous);
    belfry_list_remove(&call->slow);
    set_held(call, 0, 0);
    relay->stats.running--;
    fields_fini(&call->block);
    belfry_buf_fini(&call->path);
    belfry_buf_fini(&call->request);
    belfry_buf_fini(&call->response);
    free(call->why);
    free(call);
}

/* Our own last word, whatever has been passed on so far. */
static void fail(struct relay_call *call, int code, const char *why)
{
    struct exchange *x = call->x;
    enum grpc_headers sent =
        call->state == PASSING || call->state == EMPTYING ? GRPC_HEADERS_SENT : GRPC_HEADERS_NOT_SENT;
    grpc_fail(x, sent, code, why); /* before the call, whose text `why` may be */
    free_call(call);
}

static void end_for_memory(struct relay_call *call)
{
    call->relay->stats.over_memory++;
    fail(call, BELFRY_GRPC_UNAVAILABLE, NO_ROOM);
}

/* No room for `n` bytes more, and most of what is held waits for clients that do not read: whoever sends is not to blame. */
static bool is_full_of_responses(const struct relay *relay, size_t n)
{
    size_t max = relay->opts.held_max;
    return relay->stats.held_bytes + n > max && relay->held_down > max / 2;
}

/* Makes room for `n` bytes more, if need be by ending slower calls. False: it is this one's turn to end. */
static bool make_room(const struct relay_call *call, size_t n)
{
    struct relay *relay = call->relay;
    while (is_full_of_responses(relay, n) ||
           !exchange_has_room(call->x, relay->stats.held_bytes + n, relay->opts.held_max)) {
        if (exchange_is_ending(call->x) || belfry_list_empty(&relay->slow))
            return false;
        struct relay_call *slowest = belfry_container(relay->slow.next, struct relay_call, slow);
        if (slowest == call)
            return false;
        end_for_memory(slowest);
    }
    return true;
}

/* False: the call has ended. */
static bool keep(struct relay_call *call, struct belfry_buf *buf, struct belfry_bytes bytes)
{
    if (!make_room(call, bytes.len)) {
        end_for_memory(call);
        return false;
    }
    if (belfry_buf_append(buf, bytes.data, bytes.len) != BELFRY_OK) {
        fail(call, BELFRY_GRPC_RESOURCE_EXHAUSTED, NO_MEMORY);
        return false;
    }
    count_held(call);
    return true;
}

/* ---- down: the response ---- */

static struct belfry_bytes status_of(struct fields *block)
{
    const struct exchange_field *list = fields_list(block);
    bool is_first = block->n > 0 && belfry_bytes_equal(list[0].name, belfry_bytes_str(":status"));
    return is_first ? list[0].value : (struct belfry_bytes){0};
}

static int number_of(struct belfry_bytes text)
{
    int n = 0;
    for (size_t i = 0; i < text.len && i < 3; i++)
        n = n * 10 + (text.data[i] - '0'); /* nghttp2 has seen to it that these are three digits */
    return n;
}

/* A member that cannot serve: the next call of this client is given to another. */
static void watch_status(struct relay_call *call, struct belfry_bytes name, struct belfry_bytes value)
{
    if (belfry_bytes_equal(name, belfry_bytes_str("grpc-status")) && belfry_bytes_equal(value, belfry_bytes_str("14")))
        *exchange_pin(call->x) = 0;
}

static void on_field(struct uplink_call *up, struct belfry_bytes name, struct belfry_bytes value, void *user)
{
    struct relay_call *call = user;
    (void)up;
    watch_status(call, name, value);
    bool is_status = belfry_bytes_equal(name, belfry_bytes_str(":status"));
    if (call->failed != BELFRY_OK || (!is_status && fields_is_hop(name, value)))
        return;
    call->failed = fields_add(&call->block, name, value);
}

/* Writes what there is room for. Room is asked for until it is found wanting, so that `writable` will come. */
static size_t write_some(struct relay_call *call, struct belfry_bytes bytes)
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

static void say_end(struct relay_call *call)
{
    struct exchange *x = call->x;
    if (call->end == END_STATUS) {
        fail(call, call->code, call->why != NULL ? call->why : NO_MEMORY);
        return;
    }
    exchange_end(x, fields_list(&call->block), call->block.n);
    free_call(call);
}

static void write_response(struct relay_call *call)
{
    size_t n = write_some(call, belfry_buf_bytes(&call->response));
    belfry_buf_take(&call->response, n);
    if (call->up != NULL)
        uplink_taken(call->up, n);
    if (n > 0)
        note_progress(call);
    if (belfry_buf_len(&call->response) > 0)
        return;
    belfry_buf_fini(&call->response); /* it is rare that it is needed at all */
    count_held(call);
    if (call->state == EMPTYING)
        say_end(call);
}

static void rewrite_members(struct relay_call *call)
{
    struct belfry_buf out;
    belfry_buf_init(&out);
    enum belfry_err err = relay_members_rewrite(belfry_buf_bytes(&call->response), call->relay->opts.advertise, &out);
    if (err != BELFRY_OK) { /* an error has no body; anything else is not ours to judge */
        belfry_buf_fini(&out);
        return;
    }
    belfry_buf_fini(&call->response);
    call->response = out;
    count_held(call);
}

/* Upstream is done, one way or another. */
static void finish(struct relay_call *call, enum call_end end)
{
    call->end = end;
    call->up = NULL;
    move(call, EMPTYING);
    if (call->rewrites)
        rewrite_members(call);
    write_response(call);
}

/* The head: passed on, or all there is. */
static void pass_head(struct relay_call *call, bool last)
{
    int status = number_of(status_of(&call->block));
    const struct exchange_field *list = fields_list(&call->block);
    struct exchange *x = call->x;
    if (last) {
        uplink_close(call->up);
        call->up = NULL;
        exchange_answer(x, status, list + 1, call->block.n - 1, (struct belfry_bytes){0});
        free_call(call);
        return;
    }
    if (status >= 200) { /* what is below announces another head */
        exchange_respond(x, status, list + 1, call->block.n - 1);
        move(call, PASSING);
        count_held(call);
    }
    fields_clear(&call->block);
}

static void on_block(struct uplink_call *up, bool last, void *user)
{
    struct relay_call *call = user;
    if (call->failed != BELFRY_OK) {
        fail(call, BELFRY_GRPC_RESOURCE_EXHAUSTED, NO_MEMORY);
    } else if (call->state == WAITING) {
        pass_head(call, last);
    } else if (last) {
        uplink_close(up);
        finish(call, END_TRAILERS);
    }
}

/* What is held to be rewritten has become too long for that: it goes as it is. */
static void give_up_rewriting(struct relay_call *call)
{
    call->rewrites = false;
    belfry_logf(call->relay->opts.log, BELFRY_LOG_WARN, "members_not_rewritten", "why=\"the list is too long\"");
    write_response(call);
}

static void on_data(struct uplink_call *up, struct belfry_bytes bytes, void *user)
{
    struct relay_call *call = user;
    if (call->rewrites && belfry_buf_len(&call->response) + bytes.len > RELAY_MEMBERS_BYTES)
        give_up_rewriting(call);
    size_t written = 0;
    if (!call->rewrites && belfry_buf_len(&call->response) == 0)
        written = write_some(call, bytes);
    uplink_taken(up, written);
    if (written < bytes.len)
        keep(call, &call->response, belfry_bytes_of(bytes.data + written, bytes.len - written));
}

static void on_end(struct uplink_call *up, void *user)
{
    struct relay_call *call = user;
    uplink_close(up);
    finish(call, END_TRAILERS);
}

static void on_closed(struct uplink_call *up, const struct uplink_end *end, void *user)
{
    struct relay_call *call = user;
    (void)up;
    call->up = NULL;
    call->relay->stats.failed++;
    int code = end->lost ? BELFRY_GRPC_UNAVAILABLE : belfry_grpc_code_of_h2(end->h2_code);
    if (code == BELFRY_GRPC_UNAVAILABLE)
        *exchange_pin(call->x) = 0;
    if (call->state == WAITING) {
        fail(call, code, end->why);
        return;
    }
    call->code = code;
    call->why = strdup(end->why);
    call->rewrites = false;
    finish(call, END_STATUS);
}

/* ---- up: the request ---- */

static size_t on_read(struct uplink_call *up, uint8_t *to, size_t cap, bool *out_end, void *user)
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
    count_held(call);
    exchange_taken(call->x, n);
    call->relay->stats.bytes_up += n;
    *out_end = call->request_ended && n == have.len;
    return n;
}

static const struct uplink_events up_events = {
    .field = on_field, .block = on_block, .data = on_data, .end = on_end, .read = on_read, .closed = on_closed};

static void arm(struct relay *relay, uint64_t due_ms, uint64_t now)
{
    if (due_ms < relay->looked_ms + LOOK_MS)
        due_ms = relay->looked_ms + LOOK_MS;
    if (due_ms >= relay->due_ms)
        return;
    relay->due_ms = due_ms;
    uv_update_time(relay->timer.loop);
    uv_timer_start(&relay->timer, on_timer, due_ms > now ? due_ms - now : 0, 0);
}

/* `n` more bytes of the request came, or its end, or its beginning. */
static void set_pace(struct relay_call *call, size_t n)
{
    bool waits = call->kind == RELAY_ONE_MESSAGE ? !call->request_ended : grpc_walk_inside(&call->walk);
    if (!waits) {
        pace_init(&call->pace);
        return;
    }
    uint64_t now = belfry_clock_ms();
    pace_wait(&call->pace, n, now, call->relay->opts.pace_ms);
    arm(call->relay, call->pace.due_ms, now);
}

static void fail_begin(struct relay_call *call, enum belfry_err err)
{
    if (err == BELFRY_ERR_INVALID)
        fail(call, BELFRY_GRPC_INTERNAL, BAD_HEAD);
    else if (err == BELFRY_ERR_AGAIN)
        end_for_memory(call);
    else
        fail(call, BELFRY_GRPC_RESOURCE_EXHAUSTED, err == BELFRY_ERR_LIMIT ? TOO_MANY : NO_MEMORY);
}

/* Passes the request on, whose fields are in `block`. */
static enum belfry_err start(struct relay_call *call)
{
    struct relay *relay = call->relay;
    move(call, WAITING);
    struct belfry_bytes path = belfry_buf_bytes(&call->path);
    struct uplink_request request = {.path = path,
                                     .fields = fields_list(&call->block),
                                     .n_fields = call->block.n,
                                     .caller = relay_rights_authenticates(path) ? UPLINK_CALLER_ANYONE
                                                                                : UPLINK_CALLER_CLIENT};
    enum belfry_err err = uplink_open(relay->opts.uplink, exchange_pin(call->x), &request, &up_events, call, &call->up);
    fields_fini(&call->block);
    belfry_buf_fini(&call->path);
    count_held(call);
    return err;
}

static void refuse_user(struct relay_call *call)
{
    call->relay->stats.refused++;
    fail(call, BELFRY_GRPC_INVALID_ARGUMENT, NO_USER);
}

static void on_verdict(enum permit_verdict verdict, const char *reason, void *user)
{
    struct relay_call *call = user;
    call->question = NULL;
    if (verdict == PERMIT_UNAVAILABLE) {
        call->relay->stats.failed++;
        fail(call, BELFRY_GRPC_UNAVAILABLE, reason);
    } else if (verdict == PERMIT_REFUSED && relay_rights_needs_user(belfry_buf_bytes(&call->path))) {
        refuse_user(call);
    } else { /* auth is off; or it is on, and the call goes up as nobody's */
        enum belfry_err err = start(call);
        if (err != BELFRY_OK)
            fail_begin(call, err);
    }
}

/* Upstream could take it for the tier's own, but only if auth is on: that is found out first. */
static bool must_check(const struct relay_call *call)
{
    const struct relay *relay = call->relay;
    return call->tokenless && !relay_rights_authenticates(belfry_buf_bytes(&call->path)) &&
           uplink_may_have_name(relay->opts.uplink) && !permit_is_open(relay->opts.permit, belfry_clock_ms());
}

/* May a caller without a token do what needs a user? PERMIT_REFUSED: auth is on. */
static enum belfry_err ask_for_nobody(struct relay *relay, permit_fn fn, void *user, struct permit_question **out)
{
    static const struct permit_who nobody;
    struct belfry_bytes none = {0};
    return permit_ask(relay->opts.permit, &nobody, NULL, none, none, belfry_clock_ms(), fn, user, out);
}

/* It goes up, checked just before: what is known of auth is believed for a second. */
static enum belfry_err set_out(struct relay_call *call)
{
    if (!must_check(call))
        return start(call);
    move(call, CHECKING);
    return ask_for_nobody(call->relay, on_verdict, call, &call->question);
}

/* There is more to pass on. The last thing done: the call may have ended. */
static void pass_on(struct relay_call *call)
{
    enum belfry_err err = call->state == HEADED ? set_out(call) : BELFRY_OK;
    if (err != BELFRY_OK)
        fail_begin(call, err);
    else if (call->up != NULL)
        uplink_resume(call->up);
}

static void on_body(struct exchange *x, struct belfry_bytes bytes, void *user)
{
    struct relay_call *call = user;
    if (call->state == EMPTYING) { /* upstream wants no more of it */
        exchange_taken(x, bytes.len);
        return;
    }
    grpc_walk_pass(&call->walk, bytes);
    if (!keep(call, &call->request, bytes))
        return;
    set_pace(call, bytes.len);
    pass_on(call);
}

static void on_body_end(struct exchange *x, void *user)
{
    struct relay_call *call = user;
    (void)x;
    call->request_ended = true;
    set_pace(call, 0);
    count_held(call);
    pass_on(call);
}

static void on_writable(struct exchange *x, void *user)
{
    struct relay_call *call = user;
    (void)x;
    if (call->state == EMPTYING || (call->state == PASSING && !call->rewrites))
        write_response(call);
}

static void on_gone(struct exchange *x, void *user)
{
    (void)x;
    free_call(user);
}

static const struct exchange_events down_events = {
    .body = on_body, .body_end = on_body_end, .writable = on_writable, .gone = on_gone};

/* ---- beginnings ---- */

static bool is_anonymous(const struct exchange_head *head)
{
    return exchange_field(head, "token").data == NULL && exchange_field(head, "authorization").data == NULL;
}

static enum belfry_err copy_head(struct relay_call *call, const struct exchange_head *head)
{
    enum belfry_err err = belfry_buf_append(&call->path, head->path.data, head->path.len);
    for (size_t i = 0; i < head->n_fields && err == BELFRY_OK; i++) {
        if (!fields_is_hop(head->fields[i].name, head->fields[i].value))
            err = fields_add(&call->block, head->fields[i].name, head->fields[i].value);
    }
    return err;
}

/* ---- calls that etcd may still carry out when auth is turned on ---- */

static bool is_exposed(struct belfry_list *node)
{
    const struct relay_call *call = belfry_container(node, struct relay_call, anonymous);
    bool is_complete = call->request_ended && belfry_buf_len(&call->request) == 0;
    return call->up != NULL && uplink_is_lent(call->up) && (call->acts_later || !is_complete);
}

static void recheck_later(struct relay *relay, uint64_t now)
{
    if (relay->recheck != NULL || relay->recheck_ms != BELFRY_NEVER || belfry_list_empty(&relay->anonymous))
        return;
    relay->recheck_ms = now + RELAY_RECHECK_MS;
    arm(relay, relay->recheck_ms, now);
}

static void on_recheck(enum permit_verdict verdict, const char *reason, void *user)
{
    struct relay *relay = user;
    (void)reason;
    relay->recheck = NULL;
    belfry_list_each_safe (node, &relay->anonymous) {
        if (verdict == PERMIT_REFUSED && is_exposed(node))
            refuse_user(belfry_container(node, struct relay_call, anonymous));
    }
    recheck_later(relay, belfry_clock_ms());
}

/* Auth may have been turned on since these calls went up: then they go on by a name that is not their callers'. */
static void recheck(struct relay *relay, uint64_t now)
{
    bool exposed = false;
    belfry_list_each (node, &relay->anonymous)
        exposed = exposed || is_exposed(node);
    relay->recheck_ms = BELFRY_NEVER;
    if (exposed && ask_for_nobody(relay, on_recheck, relay, &relay->recheck) != BELFRY_OK)
        relay->recheck = NULL; /* too many questions: asked again in a second */
    recheck_later(relay, now);
}

/* ---- beginning ---- */

static enum belfry_err begin(struct relay_call *call, const struct exchange_head *head)
{
    enum belfry_err err = copy_head(call, head);
    if (err != BELFRY_OK)
        return err;
    if (!make_room(call, head_bytes(call)))
        return BELFRY_ERR_AGAIN;
    count_held(call);
    return call->kind == RELAY_UNKNOWN ? set_out(call) : BELFRY_OK; /* its server may be the first to speak */
}

static struct relay_call *make_call(struct relay *relay, struct exchange *x, const struct exchange_head *head)
{
    struct relay_call *call = calloc(1, sizeof(*call));
    if (call == NULL)
        return NULL;
    call->relay = relay;
    call->x = x;
    call->state = HEADED;
    call->due_ms = BELFRY_NEVER;
    call->tokenless = is_anonymous(head);
    call->rewrites =
        relay->opts.advertise != NULL && belfry_bytes_equal(head->path, belfry_bytes_str(RELAY_MEMBERS_PATH));
    call->changes_auth = relay_rights_changes_auth(head->path);
    call->acts_later = relay_rights_acts_later(head->path);
    call->kind = relay_rights_request(head->path);
    pace_init(&call->pace);
    belfry_list_append(&relay->calls, &call->node);
    belfry_list_init(&call->anonymous);
    belfry_list_init(&call->slow);
    relay->stats.running++;
    return call;
}

void relay_begin(struct relay *relay, struct exchange *x, const struct exchange_head *head, enum relay_rights rights)
{
    uint64_t timeout_ms, now = belfry_clock_ms();
    if (grpc_refuse_head(x, head, &timeout_ms))
        return;
    if (rights == RELAY_READS && !relay_rights_reads(head->path)) {
        relay->stats.refused++;
        grpc_fail(x, GRPC_HEADERS_NOT_SENT, BELFRY_GRPC_PERMISSION_DENIED, READ_ONLY);
        return;
    }
    struct relay_call *call = make_call(relay, x, head);
    if (call == NULL) {
        grpc_fail(x, GRPC_HEADERS_NOT_SENT, BELFRY_GRPC_RESOURCE_EXHAUSTED, NO_MEMORY);
        return;
    }
    relay->stats.relayed++;
    if (call->changes_auth)
        permit_doubt(relay->opts.permit);
    exchange_handle(x, &down_events, call);
    enum belfry_err err = begin(call, head);
    if (err != BELFRY_OK) {
        fail_begin(call, err);
        return;
    }
    set_pace(call, 0);
    if (timeout_ms < BELFRY_NEVER - GRACE_MS - now) {
        call->due_ms = now + timeout_ms + GRACE_MS;
        arm(relay, call->due_ms, now);
    }
    if (call->tokenless && !relay_rights_keeps_alive(head->path)) {
        belfry_list_append(&relay->anonymous, &call->anonymous);
        recheck_later(relay, now);
    }
}

/* ---- the whole ---- */

/* A client whose bytes wait for upstream is not late. True: the call has ended. */
static bool end_if_late(struct relay_call *call, uint64_t now)
{
    if (call->due_ms <= now) {
        fail(call, BELFRY_GRPC_DEADLINE_EXCEEDED, "context deadline exceeded");
        return true;
    }
    if (call->pace.due_ms > now)
        return false;
    if (belfry_buf_len(&call->request) > 0) {
        pace_excuse(&call->pace, now, call->relay->opts.pace_ms);
        return false;
    }
    call->relay->stats.late++;
    fail(call, BELFRY_GRPC_UNAVAILABLE, LATE);
    return true;
}

/* Looks at every call, but only when the earliest deadline there was has come: of calls that mostly end in time that is
 * about once in the time a call is given. Of calls that all end late, each at another time, it is once in LOOK_MS. */
static void on_timer(uv_timer_t *timer)
{
    struct relay *relay = timer->data;
    uint64_t now = belfry_clock_ms(), next = BELFRY_NEVER;
    belfry_list_each_safe (node, &relay->calls) {
        struct relay_call *call = belfry_container(node, struct relay_call, node);
        if (call->state != EMPTYING && !end_if_late(call, now)) /* else upstream was in time */
            next = belfry_min_time(next, belfry_min_time(call->due_ms, call->pace.due_ms));
    }
    relay->due_ms = BELFRY_NEVER;
    relay->looked_ms = now;
    arm(relay, next, now);
    if (relay->recheck_ms <= now)
        recheck(relay, now);
    else
        arm(relay, relay->recheck_ms, now);
}

enum belfry_err relay_create(const struct relay_opts *opts, struct relay **out)
{
    struct relay *relay = calloc(1, sizeof(*relay));
    if (relay == NULL)
        return BELFRY_ERR_NOMEM;
    relay->opts = *opts;
    relay->due_ms = relay->recheck_ms = BELFRY_NEVER;
    relay->opts.held_max = opts->held_max != 0 ? opts->held_max : RELAY_HELD_BYTES;
    relay->opts.pace_ms = opts->pace_ms != 0 ? opts->pace_ms : PACE_MS;
    belfry_list_init(&relay->calls);
    belfry_list_init(&relay->slow);
    belfry_list_init(&relay->anonymous);
    uv_timer_init(uplink_loop(opts->uplink), &relay->timer);
    relay->timer.data = relay;
    *out = relay;
    return BELFRY_OK;
}

static void free_relay(uv_handle_t *timer)
{
    free(timer->data);
}

void relay_destroy(struct relay *relay)
{
    if (relay == NULL)
        return;
    if (relay->recheck != NULL)
        permit_cancel(relay->recheck);
    belfry_list_each_safe (node, &relay->calls) {
        struct relay_call *call = belfry_container(node, struct relay_call, node);
        exchange_reset(call->x, NGHTTP2_CANCEL);
        free_call(call);
    }
    uv_close((uv_handle_t *)&relay->timer, free_relay);
}

void relay_end_all(struct relay *relay, const char *why)
{
    belfry_list_each_safe (node, &relay->calls)
        fail(belfry_container(node, struct relay_call, node), BELFRY_GRPC_UNAVAILABLE, why);
}

void relay_stats(const struct relay *relay, struct relay_stats *out)
{
    *out = relay->stats;
}
