/* src/serve/kfront/krelay.c */
#include "serve/kfront/krelay.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/owner.h"
#include "serve/kfront/krelay_docs.h"
#include "serve/kfront/krelay_head.h"
#include "serve/kube/kube_answer.h"
#include "serve/relay/relay_alarm.h"
#include "serve/relay/relay_room.h"
#include "serve/relay/relay_turns.h"
#include "serve/rights/identity.h"
#include "server/pace.h"

#define NO_MEMORY  "belfry: out of memory, please try again later"
#define NO_ROOM    "belfry: memory limit reached, please try again later"
#define OVER_SHARE "belfry: this client has as many requests under way as it may, please try again later"
#define TOO_MANY   "belfry: too many requests are being passed on, please try again later"
#define NO_TURN    "belfry: this client, or the API server, has too many requests under way, please try again later"
#define LATE       "belfry: the request was not complete in time"
#define SILENT     "belfry: the API server did not answer in time"
#define BAD_HEAD   "belfry: the head of this request cannot be passed on: it is too long, or not valid in HTTP/2"
#define MISTAKABLE "belfry: requests cannot be passed on by a connection that has the tier's own certificate"
#define WHY_BYTES  480

#define UNREAD_LOOK_MS 1000 /* between looks at a client that does not read */

struct krelay {
    /* fixed at creation but for its times */
    struct krelay_opts opts;
    /* owner */
    struct belfry_list all;
    struct relay_room room;
    struct relay_turns turns;    /* of requests that are answered soon */
    struct relay_turns openings; /* of requests that last */
    uv_timer_t turns_timer;      /* somebody may be next */
    struct relay_alarm alarm;    /* of their deadlines */
    struct krelay_docs docs;
    struct krelay_stats stats; /* without those of room and docs */
    BELFRY_OWNER;
};

/*     HEADED --> [TURNING -->] WAITING --> PASSING --> EMPTYING --> gone      any state may go to gone
 */
enum krelay_state {
    HEADED,  /* too little of the body was received to set out */
    TURNING, /* others are with upstream */
    WAITING, /* the answer has not begun */
    PASSING, /* its head has been passed on */
    EMPTYING /* upstream has done; the rest of the answer waits for room */
};

struct krelay_call {
    /* fixed at creation */
    struct krelay *krelay;
    struct exchange *x;
    bool lasts;
    bool is_safe; /* GET or HEAD */
    /* owner */
    struct belfry_list node;
    struct relay_holding holding;
    struct relay_turn turn;
    struct relay_turns *turns; /* among which it has its turn, or waits for one; NULL: it does not yet */
    enum krelay_state state;
    uint64_t turn_ms;    /* TURNING: until when it waits */
    uint64_t repeat_ms;  /* WAITING: until when it may be sent again, */
    unsigned repeats;    /* and how often */
    uint64_t head_ms;    /* WAITING: until when its answer has to begin */
    uint64_t opening_ms; /* WAITING, of one that lasts: when it gives its turn back */
    uint64_t unread_ms;  /* when bytes wait for the client: until when it has to read some */
    struct uplink_call *up;
    /* up */
    struct belfry_buf target; /* method and path; until it is sent for the last time, as: */
    size_t method_len;
    struct fields asked;
    struct belfry_buf body; /* received and not sent: at most EXCHANGE_WINDOW, because it is not taken */
    bool may_repeat;        /* WAITING: the whole body is here, and kept */
    size_t body_at;         /* may_repeat: bytes of it that were sent */
    struct pace pace;
    bool ended; /* the request's body */
    /* down */
    struct fields block;        /* that is being received */
    enum belfry_err failed;     /* a field could not be kept */
    struct belfry_buf response; /* received and not written: at most UPLINK_WINDOW, because it is not taken */
    /* documents */
    struct belfry_buf key;    /* empty: it is none, or no copy is wanted */
    struct krelay_doc *copy;  /* that upstream is asked about, then what is sent; a reference */
    struct krelay_doc *draft; /* a copy of the answer */
    bool client_has_copy;     /* the client named the copy's ETag */
    bool sends_copy;
    size_t copy_at; /* bytes of it that were written */
    /* why it is passed on */
    const struct kube_resource *selected; /* a reference: it selects this resource by `field`; NULL: it does not */
    char field[KFRONT_FIELD_BYTES];
};

static void krelay_call_move_to(struct krelay_call *call, enum krelay_state to)
{
    static const unsigned legal[] = {[HEADED] = 1u << TURNING | 1u << WAITING,
                                     [TURNING] = 1u << WAITING,
                                     [WAITING] = 1u << PASSING,
                                     [PASSING] = 1u << EMPTYING,
                                     [EMPTYING] = 0};
    assert(legal[call->state] & 1u << to);
    (void)legal;
    call->state = to;
}

static struct krelay_call *krelay_call_of(struct belfry_list *node)
{
    return belfry_container(node, struct krelay_call, node);
}

/* ---- what is held ---- */

static struct belfry_bytes krelay_call_unwritten(const struct krelay_call *call)
{
    if (!call->sends_copy)
        return belfry_buf_bytes(&call->response);
    struct belfry_bytes body = krelay_doc_body(call->copy);
    return belfry_bytes_of(body.data + call->copy_at, body.len - call->copy_at);
}

static bool krelay_call_has_unwritten(const struct krelay_call *call)
{
    return krelay_call_unwritten(call).len > 0;
}

/* Counts the bytes that the call holds, after anything that may have changed them. */
static void krelay_call_count(struct krelay_call *call)
{
    size_t request = call->target.cap + fields_bytes(&call->asked) + call->body.cap + call->key.cap +
                     (call->up != NULL ? uplink_unsent(call->up) : 0);
    relay_holding_set(&call->holding, request, call->response.cap, krelay_call_has_unwritten(call));
    exchange_holds(call->x, call->ended ? 0 : EXCHANGE_COST + request);
}

/* ---- turns ---- */

static void on_krelay_turns(uv_timer_t *timer);

/* Whoever is next sets out later: this may be called from inside anything. */
static void krelay_call_end_turn(struct krelay_call *call)
{
    if (call->turns != NULL && relay_turn_end(call->turns, &call->turn))
        uv_timer_start(&call->krelay->turns_timer, on_krelay_turns, 0, 0);
    call->opening_ms = BELFRY_NEVER;
}

/* ---- ends ---- */

/* The exchange has ended, or is about to. */
static void krelay_call_free(struct krelay_call *call)
{
    if (call->up != NULL)
        uplink_close(call->up);
    krelay_call_end_turn(call);
    belfry_list_remove(&call->node);
    relay_holding_end(&call->holding);
    shares_count(call->holding.share, SHARES_CALLS, 1, 0);
    call->krelay->stats.running--;
    fields_fini(&call->asked);
    fields_fini(&call->block);
    belfry_buf_fini(&call->target);
    belfry_buf_fini(&call->body);
    belfry_buf_fini(&call->response);
    belfry_buf_fini(&call->key);
    krelay_doc_drop(call->draft);
    krelay_doc_unref(call->copy);
    if (call->selected != NULL)
        kube_resource_unref(call->selected);
    free(call);
}

/* A Status, or a cut if the answer has begun. `why` may be the call's text. */
static void krelay_call_fail(struct krelay_call *call, enum kube_reason reason, const char *why)
{
    if (call->state == PASSING || call->state == EMPTYING)
        exchange_reset(call->x, NGHTTP2_INTERNAL_ERROR);
    else
        kube_answer_failure(call->x, reason, why);
    krelay_call_free(call);
}

static void krelay_call_end_for_memory(struct krelay_call *call)
{
    call->krelay->stats.over_memory++;
    krelay_call_fail(call, KUBE_TOO_MANY_REQUESTS, NO_ROOM);
}

static void on_slow_krelay_call(struct relay_holding *slow)
{
    krelay_call_end_for_memory(belfry_container(slow, struct krelay_call, holding));
}

/* False: the call has ended. */
static bool krelay_call_keep(struct krelay_call *call, struct belfry_buf *buf, struct belfry_bytes bytes)
{
    size_t more = belfry_buf_growth(buf, bytes.len);
    if (more > 0 && !relay_holding_make_room(&call->holding, more, on_slow_krelay_call)) {
        krelay_call_end_for_memory(call);
        return false;
    }
    if (belfry_buf_append(buf, bytes.data, bytes.len) != BELFRY_OK) {
        krelay_call_fail(call, KUBE_TOO_MANY_REQUESTS, NO_MEMORY);
        return false;
    }
    krelay_call_count(call);
    return true;
}

/* ---- down: the answer ---- */

static void krelay_call_set_unread(struct krelay_call *call, bool has_read)
{
    struct krelay *krelay = call->krelay;
    if (!krelay_call_has_unwritten(call)) {
        call->unread_ms = BELFRY_NEVER;
    } else if (has_read || call->unread_ms == BELFRY_NEVER) {
        uint64_t now = belfry_clock_ms();
        call->unread_ms = now + krelay->opts.unread_ms;
        relay_alarm_set(&krelay->alarm, call->unread_ms, now);
    }
}

/* Writes as much as there is room for, and ends the exchange after the last of it. */
static void krelay_call_write(struct krelay_call *call)
{
    size_t n = exchange_pour(call->x, krelay_call_unwritten(call));
    if (call->sends_copy)
        call->copy_at += n;
    else
        belfry_buf_take(&call->response, n);
    if (call->up != NULL)
        uplink_taken(call->up, n);
    call->krelay->stats.bytes_down += n;
    if (n > 0)
        relay_holding_progress(&call->holding);
    if (belfry_buf_len(&call->response) == 0)
        belfry_buf_fini(&call->response); /* few calls need it */
    krelay_call_set_unread(call, n > 0);
    krelay_call_count(call);
    if (call->state != EMPTYING || krelay_call_has_unwritten(call))
        return;
    exchange_end(call->x, fields_list(&call->block), call->block.n);
    krelay_call_free(call);
}

/* Upstream has said all. Trailers are in `block`. */
static void krelay_call_upstream_ended(struct krelay_call *call)
{
    call->up = NULL;
    krelay_call_move_to(call, EMPTYING);
    if (call->draft != NULL)
        krelay_doc_keep(call->draft);
    call->draft = NULL;
    krelay_call_write(call);
}

static void on_up_field(struct uplink_call *up, struct belfry_bytes name, struct belfry_bytes value, void *user)
{
    struct krelay_call *call = user;
    (void)up;
    if (call->failed == BELFRY_OK && krelay_head_returns(name, value))
        call->failed = fields_add(&call->block, name, value);
}

/* Upstream has said that the copy is still the document, and that this client may have it. */
static void krelay_call_send_copy(struct krelay_call *call)
{
    struct fields fields;
    fields_init(&fields);

    /* the copy's fields, its length, and those of upstream's 304 that the copy has no word on */
    char length[24];
    size_t n;
    const struct belfry_http_field *list = krelay_doc_fields(call->copy, &n);
    snprintf(length, sizeof(length), "%zu", krelay_doc_body(call->copy).len);
    enum belfry_err err = fields_add(&fields, belfry_bytes_str("content-length"), belfry_bytes_str(length));
    for (size_t i = 0; i < n && err == BELFRY_OK; i++)
        err = fields_add(&fields, list[i].name, list[i].value);
    list = fields_list(&call->block);
    for (size_t i = 1; i < call->block.n && err == BELFRY_OK; i++) {
        struct belfry_bytes name = list[i].name;
        if (!krelay_doc_describes(name) && !belfry_bytes_equal(name, belfry_bytes_str("content-length")))
            err = fields_add(&fields, name, list[i].value);
    }
    if (err == BELFRY_OK) {
        call->krelay->stats.copies_sent++;
        exchange_respond(call->x, 200, fields_list(&fields), fields.n);
        krelay_call_move_to(call, PASSING);
        call->sends_copy = true;
    }
    fields_fini(&fields);
    fields_clear(&call->block);
    if (err != BELFRY_OK) {
        krelay_call_fail(call, KUBE_TOO_MANY_REQUESTS, NO_MEMORY);
        return;
    }
    uplink_close(call->up);
    krelay_call_upstream_ended(call);
}

static void on_up_block(struct uplink_call *up, bool last, void *user)
{
    struct krelay_call *call = user;
    if (call->failed != BELFRY_OK) {
        krelay_call_fail(call, KUBE_TOO_MANY_REQUESTS, NO_MEMORY);
        return;
    }

    /* the trailers */
    if (call->state != WAITING) {
        if (last) {
            uplink_close(up);
            krelay_call_upstream_ended(call);
        }
        return;
    }

    /* the head; a status below 200 announces another head */
    int status = fields_status(&call->block);
    const struct belfry_http_field *list = fields_list(&call->block);
    if (status < 200) {
        fields_clear(&call->block);
        return;
    }

    /* the request is not needed any more */
    fields_fini(&call->asked);
    belfry_buf_fini(&call->target);
    if (call->may_repeat)
        belfry_buf_fini(&call->body);
    call->head_ms = BELFRY_NEVER;
    krelay_call_end_turn(call);

    /* the client gets the copy, or the answer, which may become one */
    if (status == 304 && call->copy != NULL && !call->client_has_copy) {
        krelay_call_send_copy(call);
        return;
    }
    if (status == 200 && belfry_buf_len(&call->key) > 0)
        call->draft = krelay_docs_draft(&call->krelay->docs, belfry_buf_bytes(&call->key), list + 1, call->block.n - 1);
    if (status == 200 && call->selected != NULL)
        kfront_fields_note(call->krelay->opts.fields, call->selected, call->field);
    exchange_respond(call->x, status, list + 1, call->block.n - 1);
    krelay_call_move_to(call, PASSING);
    fields_clear(&call->block);
    krelay_call_count(call);
    if (last) {
        uplink_close(up);
        krelay_call_upstream_ended(call);
    }
}

static void on_up_data(struct uplink_call *up, struct belfry_bytes bytes, void *user)
{
    struct krelay_call *call = user;
    if (call->draft != NULL && !krelay_doc_add(call->draft, bytes)) {
        krelay_doc_drop(call->draft);
        call->draft = NULL;
    }
    size_t written = belfry_buf_len(&call->response) == 0 ? exchange_pour(call->x, bytes) : 0;
    call->krelay->stats.bytes_down += written;
    uplink_taken(up, written);
    if (written < bytes.len &&
        krelay_call_keep(call, &call->response, belfry_bytes_of(bytes.data + written, bytes.len - written)))
        krelay_call_set_unread(call, written > 0);
}

static void on_up_end(struct uplink_call *up, void *user)
{
    uplink_close(up);
    krelay_call_upstream_ended(user);
}

static enum belfry_err krelay_call_open(struct krelay_call *call);
static void krelay_call_fail_begin(struct krelay_call *call, enum belfry_err err);

/* The API server was lost before its answer began. */
static void krelay_call_fail_lost(struct krelay_call *call, const struct uplink_end *end)
{
    char why[WHY_BYTES];
    const char *reason = end->lost ? end->why : "it reset the request";
    enum kube_reason as = KUBE_SERVICE_UNAVAILABLE;
    if (end->unprocessed) {
        snprintf(why, sizeof(why), "belfry: the API server cannot be reached: %s", reason);
    } else if (call->is_safe) {
        snprintf(why, sizeof(why), "belfry: the API server was lost before it answered: %s", reason);
    } else {
        snprintf(why, sizeof(why), "belfry: the API server was lost, and the request may have been carried out: %s",
                 reason);
        as = KUBE_TIMEOUT;
    }
    call->krelay->stats.failed++;
    krelay_call_fail(call, as, why);
}

static void on_up_closed(struct uplink_call *up, const struct uplink_end *end, void *user)
{
    struct krelay_call *call = user;
    struct krelay *krelay = call->krelay;
    (void)up;
    call->up = NULL;
    if (end->lost)
        *exchange_pin(call->x) = 0; /* this client's next request goes to another API server */
    if (call->state != WAITING) {
        krelay->stats.cut++;
        krelay_call_fail(call, KUBE_SERVICE_UNAVAILABLE, "");
    } else if (end->unprocessed && call->repeats > 0 && call->repeat_ms > belfry_clock_ms()) {
        krelay->stats.repeated++;
        call->repeats--;
        call->body_at = 0;
        fields_clear(&call->block);
        enum belfry_err err = krelay_call_open(call);
        if (err != BELFRY_OK)
            krelay_call_fail_begin(call, err);
    } else {
        krelay_call_fail_lost(call, end);
    }
}

/* ---- up: the request ---- */

static size_t on_up_read(struct uplink_call *up, uint8_t *to, size_t cap, bool *out_end, void *user)
{
    struct krelay_call *call = user;
    struct belfry_bytes all = belfry_buf_bytes(&call->body);
    size_t left = all.len - call->body_at;
    size_t n = left < cap ? left : cap;
    (void)up;
    if (n > 0)
        memcpy(to, all.data + call->body_at, n);
    *out_end = call->ended && n == left;
    call->krelay->stats.bytes_up += n;

    /* it stays here while the request may be sent again */
    if (call->may_repeat) {
        call->body_at += n;
        return n;
    }
    belfry_buf_take(&call->body, n);
    if (belfry_buf_len(&call->body) == 0)
        belfry_buf_fini(&call->body);
    krelay_call_count(call);
    exchange_taken(call->x, n);
    return n;
}

static const struct uplink_events up_events = {.field = on_up_field,
                                               .block = on_up_block,
                                               .data = on_up_data,
                                               .end = on_up_end,
                                               .read = on_up_read,
                                               .closed = on_up_closed};

static enum belfry_err krelay_call_open(struct krelay_call *call)
{
    struct belfry_bytes target = belfry_buf_bytes(&call->target);
    size_t method_len = call->method_len;
    struct uplink_request request = {.method = belfry_bytes_of(target.data, method_len),
                                     .path = belfry_bytes_of(target.data + method_len, target.len - method_len),
                                     .is_bodiless = call->ended && belfry_buf_len(&call->body) == 0,
                                     .fields = fields_list(&call->asked),
                                     .n_fields = call->asked.n,
                                     .caller = UPLINK_CALLER_CLIENT};
    return uplink_open(call->krelay->opts.uplink, exchange_pin(call->x), &request, &up_events, call, &call->up);
}

static void krelay_call_fail_begin(struct krelay_call *call, enum belfry_err err)
{
    struct krelay_stats *stats = &call->krelay->stats;
    stats->refused += err != BELFRY_ERR_AGAIN;
    if (err == BELFRY_ERR_INVALID)
        krelay_call_fail(call, KUBE_BAD_REQUEST, BAD_HEAD);
    else if (err == BELFRY_ERR_AUTH)
        krelay_call_fail(call, KUBE_SERVICE_UNAVAILABLE, MISTAKABLE);
    else if (err == BELFRY_ERR_AGAIN)
        krelay_call_end_for_memory(call);
    else
        krelay_call_fail(call, KUBE_TOO_MANY_REQUESTS, err == BELFRY_ERR_LIMIT ? TOO_MANY : NO_MEMORY);
}

/* Passes the request on. */
static enum belfry_err krelay_call_send(struct krelay_call *call)
{
    struct krelay *krelay = call->krelay;
    uint64_t now = belfry_clock_ms();
    krelay_call_move_to(call, WAITING);
    if (call->lasts)
        call->opening_ms = now + KRELAY_OPENING_MS;
    else
        call->head_ms = now + krelay->opts.head_ms;
    relay_alarm_set(&krelay->alarm, belfry_min_time(call->opening_ms, call->head_ms), now);
    call->may_repeat = call->ended && belfry_buf_len(&call->body) <= KRELAY_KEPT_BYTES;
    enum belfry_err err = BELFRY_OK;
    if (call->copy != NULL)
        err = fields_add(&call->asked, belfry_bytes_str("if-none-match"), krelay_doc_etag(call->copy));
    if (err == BELFRY_OK)
        err = krelay_call_open(call);
    if (call->may_repeat) {
        call->repeat_ms = now + KRELAY_REPEAT_MS;
        call->repeats = KRELAY_REPEATS;
        exchange_taken(call->x, belfry_buf_len(&call->body));
    } else {
        fields_fini(&call->asked);
        belfry_buf_fini(&call->target);
    }
    krelay_call_count(call);
    return err;
}

static enum belfry_err krelay_call_take_turn(struct krelay_call *call)
{
    struct krelay *krelay = call->krelay;
    call->turns = call->lasts ? &krelay->openings : &krelay->turns;
    if (relay_turn_take(call->turns, &call->turn))
        return krelay_call_send(call);
    uint64_t now = belfry_clock_ms();
    krelay_call_move_to(call, TURNING);
    if (!call->lasts)
        call->turn_ms = now + krelay->opts.turn_ms;
    relay_alarm_set(&krelay->alarm, call->turn_ms, now);
    return BELFRY_OK;
}

static void krelay_give_turns(struct relay_turns *turns)
{
    for (struct relay_turn *turn; (turn = relay_turns_next(turns)) != NULL;) {
        struct krelay_call *call = belfry_container(turn, struct krelay_call, turn);
        call->turn_ms = BELFRY_NEVER;
        enum belfry_err err = krelay_call_send(call);
        if (err != BELFRY_OK)
            krelay_call_fail_begin(call, err);
    }
}

static void on_krelay_turns(uv_timer_t *timer)
{
    struct krelay *krelay = belfry_container(timer, struct krelay, turns_timer);
    krelay_give_turns(&krelay->turns);
    krelay_give_turns(&krelay->openings);
}

/* May it set out? When it is whole, or too large to be kept: one that is sent slowly takes no turn from others. */
static bool krelay_call_may_set_out(const struct krelay_call *call)
{
    size_t len = belfry_buf_len(&call->body);
    return call->ended || len >= EXCHANGE_WINDOW / 2 || (call->lasts && len > 0);
}

/* There is more to pass on. The call may have ended when this returns. */
static void krelay_call_pass_on(struct krelay_call *call)
{
    if (call->state == HEADED && krelay_call_may_set_out(call)) {
        enum belfry_err err = krelay_call_take_turn(call);
        if (err != BELFRY_OK)
            krelay_call_fail_begin(call, err);
    } else if (call->up != NULL && call->state != HEADED) {
        uplink_resume(call->up);
    }
}

/* `n` more bytes of the request were received, or its head. */
static void krelay_call_set_pace(struct krelay_call *call, size_t n)
{
    struct krelay *krelay = call->krelay;
    uint64_t now = belfry_clock_ms();
    if (call->lasts && call->state != HEADED)
        pace_init(&call->pace); /* its client has all the time */
    else
        pace_wait(&call->pace, n, now, krelay->opts.pace_ms);
    relay_alarm_set(&krelay->alarm, call->pace.due_ms, now);
}

static void on_down_body(struct exchange *x, struct belfry_bytes bytes, void *user)
{
    struct krelay_call *call = user;
    if (call->state == EMPTYING) { /* upstream wants no more of it */
        exchange_taken(x, bytes.len);
        return;
    }
    if (!krelay_call_keep(call, &call->body, bytes))
        return;

    /* a request with a body is answered without a copy, and its answer is not copied: the body may change the answer */
    if (call->state == HEADED) {
        krelay_doc_unref(call->copy);
        call->copy = NULL;
        call->client_has_copy = false;
        belfry_buf_fini(&call->key);
    }
    krelay_call_set_pace(call, bytes.len);
    krelay_call_pass_on(call);
}

static void on_down_body_end(struct exchange *x, void *user)
{
    struct krelay_call *call = user;
    (void)x;
    call->ended = true;
    pace_init(&call->pace);
    krelay_call_count(call);
    krelay_call_pass_on(call);
}

static void on_down_writable(struct exchange *x, void *user)
{
    struct krelay_call *call = user;
    (void)x;
    if (call->state == PASSING || call->state == EMPTYING)
        krelay_call_write(call);
}

static void on_down_gone(struct exchange *x, void *user)
{
    (void)x;
    krelay_call_free(user);
}

static const struct exchange_events down_events = {
    .body = on_down_body, .body_end = on_down_body_end, .writable = on_down_writable, .gone = on_down_gone};

/* ---- beginning ---- */

static struct krelay_call *krelay_call_create(struct krelay *krelay, struct exchange *x,
                                              const struct exchange_head *head, const struct kfront_judgement *judged)
{
    struct krelay_call *call = calloc(1, sizeof(*call));
    if (call == NULL)
        return NULL;
    call->krelay = krelay;
    call->x = x;
    call->lasts = judged->lasts;
    call->is_safe = belfry_bytes_equal(head->method, belfry_bytes_str("GET")) ||
                    belfry_bytes_equal(head->method, belfry_bytes_str("HEAD"));
    if (judged->field[0] != '\0' && krelay->opts.fields != NULL) {
        call->selected = kube_resource_ref(judged->followed->resource);
        memcpy(call->field, judged->field, sizeof(call->field));
    }
    call->turn_ms = call->head_ms = call->opening_ms = call->unread_ms = BELFRY_NEVER;
    pace_init(&call->pace);
    relay_turn_init(&call->turn, identity_read(x, head, IDENTITY_OF_KUBE).source);
    relay_holding_init(&call->holding, &krelay->room, exchange_share(x));
    belfry_list_append(&krelay->all, &call->node);
    shares_count(call->holding.share, SHARES_CALLS, 0, 1);
    krelay->stats.running++;
    return call;
}

/* Looks for a copy of a document. Without one, or without memory for its key, it is a request like any other. */
static void krelay_call_find_copy(struct krelay_call *call, const struct exchange_head *head)
{
    if (exchange_field(head, "range").data != NULL)
        return;
    if (krelay_docs_key(head, &call->key) != BELFRY_OK) {
        belfry_buf_fini(&call->key);
        return;
    }
    call->copy = krelay_docs_find(&call->krelay->docs, belfry_buf_bytes(&call->key));
    for (size_t i = 0; i < head->n_fields && call->copy != NULL; i++)
        if (belfry_bytes_equal(head->fields[i].name, belfry_bytes_str("if-none-match")) &&
            krelay_doc_matches(head->fields[i].value, krelay_doc_etag(call->copy)))
            call->client_has_copy = true;
}

static enum belfry_err krelay_call_take_head(struct krelay_call *call, const struct exchange_head *head)
{
    const char *without = call->copy != NULL ? "if-none-match" : NULL;
    call->method_len = head->method.len;
    enum belfry_err err = belfry_buf_append(&call->target, head->method.data, head->method.len);
    if (err == BELFRY_OK)
        err = belfry_buf_append(&call->target, head->path.data, head->path.len);
    if (err == BELFRY_OK)
        err = krelay_head_take(head, without, &exchange_conn(call->x)->address, &call->asked);
    if (err != BELFRY_OK)
        return err;
    if (!relay_holding_make_room(&call->holding, call->target.cap + fields_bytes(&call->asked) + call->key.cap,
                                 on_slow_krelay_call))
        return BELFRY_ERR_AGAIN;
    krelay_call_count(call);
    return BELFRY_OK;
}

void krelay_begin(struct krelay *krelay, struct exchange *x, const struct exchange_head *head,
                  const struct kfront_judgement *judged)
{
    BELFRY_OWNER_CHECK(krelay);
    bool has_room = shares_make_room(exchange_share(x), SHARES_CALLS, 1);
    struct krelay_call *call = has_room ? krelay_call_create(krelay, x, head, judged) : NULL;
    if (call == NULL) {
        krelay->stats.refused++;
        kube_answer_failure(x, KUBE_TOO_MANY_REQUESTS, has_room ? NO_MEMORY : OVER_SHARE);
        return;
    }
    krelay->stats.passed[judged->kind]++;
    if (judged->kind == KFRONT_DOCUMENT)
        krelay_call_find_copy(call, head);
    enum belfry_err err = krelay_call_take_head(call, head);
    if (err != BELFRY_OK) {
        krelay_call_fail_begin(call, err);
        return;
    }
    exchange_handle(x, &down_events, call);
    if (call->lasts)
        exchange_lasts(x);
    krelay_call_set_pace(call, 0);
}

/* ---- deadlines ---- */

static bool pool_is_short(const struct shares *shares, enum shares_pool pool)
{
    struct shares_stats stats;
    shares_stats(shares, pool, &stats);
    return stats.total != 0 && stats.used > stats.total / 4 * 3;
}

/* Does a client that reads nothing take something from others? A person may have stopped a terminal for an hour. */
static bool krelay_is_short(const struct krelay *krelay, const struct shares *shares)
{
    struct uplink_stats up;
    uplink_stats(krelay->opts.uplink, &up);
    return up.connections >= UPLINK_CONNS ||
           (shares != NULL && (pool_is_short(shares, SHARES_CALLS) || pool_is_short(shares, SHARES_CALL_BYTES)));
}

/* Ends it if its time is up. Returns when to look again. */
static uint64_t krelay_call_look(struct krelay_call *call, uint64_t now)
{
    struct krelay *krelay = call->krelay;
    if (call->opening_ms <= now)
        krelay_call_end_turn(call);
    if (call->turn_ms <= now) {
        krelay->stats.refused++;
        krelay_call_fail(call, KUBE_TOO_MANY_REQUESTS, NO_TURN);
        return BELFRY_NEVER;
    }
    if (call->head_ms <= now) {
        krelay->stats.failed++;
        krelay_call_fail(call, KUBE_TIMEOUT, SILENT);
        return BELFRY_NEVER;
    }

    /* a client that reads nothing */
    if (call->unread_ms <= now) {
        if (krelay_is_short(krelay, call->holding.share->shares)) {
            krelay->stats.unread++;
            krelay_call_fail(call, KUBE_TIMEOUT, "");
            return BELFRY_NEVER;
        }
        call->unread_ms = now + UNREAD_LOOK_MS;
    }

    /* a client that does not send its request; one whose bytes wait for upstream is not late */
    if (call->state != EMPTYING && call->pace.due_ms <= now) {
        if (call->state == HEADED || belfry_buf_len(&call->body) == 0) {
            krelay->stats.late++;
            krelay_call_fail(call, KUBE_TIMEOUT, LATE);
            return BELFRY_NEVER;
        }
        pace_excuse(&call->pace, now, krelay->opts.pace_ms);
    }
    uint64_t next = belfry_min_time(belfry_min_time(call->turn_ms, call->head_ms),
                                    belfry_min_time(call->opening_ms, call->unread_ms));
    return call->state == EMPTYING ? next : belfry_min_time(next, call->pace.due_ms);
}

static void on_krelay_alarm(struct relay_alarm *alarm, uint64_t now)
{
    struct krelay *krelay = belfry_container(alarm, struct krelay, alarm);
    uint64_t next = BELFRY_NEVER;
    belfry_list_each_safe (node, &krelay->all)
        next = belfry_min_time(next, krelay_call_look(krelay_call_of(node), now));
    relay_alarm_set(alarm, next, now);
}

/* ---- the whole ---- */

void krelay_set_pace(struct krelay *krelay, uint64_t pace_ms)
{
    krelay->opts.pace_ms = pace_ms != 0 ? pace_ms : PACE_MS;
}

void krelay_set_unread_time(struct krelay *krelay, uint64_t unread_ms)
{
    krelay->opts.unread_ms = unread_ms != 0 ? unread_ms : KRELAY_UNREAD_MS;
}

enum belfry_err krelay_create(const struct krelay_opts *opts, struct krelay **out)
{
    struct krelay *krelay = calloc(1, sizeof(*krelay));
    uv_loop_t *loop = uplink_loop(opts->uplink);
    if (krelay == NULL)
        return BELFRY_ERR_NOMEM;
    krelay->opts = *opts;
    krelay_set_pace(krelay, opts->pace_ms);
    krelay_set_unread_time(krelay, opts->unread_ms);
    krelay->opts.turn_ms = opts->turn_ms != 0 ? opts->turn_ms : KRELAY_TURN_MS;
    krelay->opts.head_ms = opts->head_ms != 0 ? opts->head_ms : KRELAY_HEAD_MS;
    belfry_list_init(&krelay->all);
    relay_room_init(&krelay->room);
    relay_turns_init(&krelay->turns, KRELAY_TURNS, belfry_hash_key_draw());
    relay_turns_init(&krelay->openings, KRELAY_OPENINGS, belfry_hash_key_draw());
    relay_alarm_init(&krelay->alarm, loop, on_krelay_alarm);
    uv_timer_init(loop, &krelay->turns_timer);
    krelay_docs_init(&krelay->docs);
    BELFRY_OWNER_INIT(krelay);
    *out = krelay;
    return BELFRY_OK;
}

static void on_alarm_closed(uv_handle_t *timer)
{
    free(belfry_container((uv_timer_t *)timer, struct krelay, alarm.timer));
}

static void on_turns_closed(uv_handle_t *timer)
{
    struct krelay *krelay = belfry_container((uv_timer_t *)timer, struct krelay, turns_timer);
    uv_close((uv_handle_t *)&krelay->alarm.timer, on_alarm_closed);
}

void krelay_destroy(struct krelay *krelay)
{
    if (krelay == NULL)
        return;
    BELFRY_OWNER_CHECK(krelay);
    belfry_list_each_safe (node, &krelay->all) {
        struct krelay_call *call = krelay_call_of(node);
        exchange_reset(call->x, NGHTTP2_CANCEL);
        krelay_call_free(call);
    }
    krelay_docs_fini(&krelay->docs);
    uv_close((uv_handle_t *)&krelay->turns_timer, on_turns_closed);
}

void krelay_end_all(struct krelay *krelay, const char *why)
{
    BELFRY_OWNER_CHECK(krelay);
    belfry_list_each_safe (node, &krelay->all)
        krelay_call_fail(krelay_call_of(node), KUBE_SERVICE_UNAVAILABLE, why);
}

void krelay_stats(const struct krelay *krelay, struct krelay_stats *out)
{
    *out = krelay->stats;
    out->held_bytes = krelay->room.held;
    out->held_peak = krelay->room.held_peak;
    out->documents = krelay->docs.n;
    out->document_bytes = krelay->docs.bytes;
}
