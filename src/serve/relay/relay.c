/* src/serve/relay/relay.c */
#include "serve/relay/relay.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/owner.h"
#include "follow/readpoint.h"
#include "net/grpc.h"
#include "net/grpc_reply.h"
#include "serve/relay/grpc_walk.h"
#include "serve/relay/relay_alarm.h"
#include "serve/relay/relay_guard.h"
#include "serve/relay/relay_members.h"
#include "serve/relay/relay_peek.h"
#include "serve/relay/relay_room.h"
#include "serve/relay/relay_turns.h"
#include "serve/rights/inquiry.h"
#include "serve/rights/rights_request.h"
#include "serve/rights/vouch.h"
#include "serve/uplink/via.h"
#include "server/fields.h"
#include "server/grpc_answer.h"
#include "server/pace.h"

#define GRACE_MS 1000 /* after a call's deadline: if upstream has not ended it by then, the relay does */

#define OBSERVED_LOOK_MS 100 /* until the next look at a call that observes, while it is not known whether auth is on */

#define GRPC_TIMEOUT "context deadline exceeded" /* as Go's clients and servers say it */

#define READ_ONLY  "belfry: this listener is read-only"
#define NOT_PLAIN  "belfry: unknown method: a path of gRPC has no query, and nothing is escaped in it"
#define OVER_SHARE "belfry: this client has as many calls under way as it may; see --client-share"
#define NO_MEMORY  "belfry: out of memory"
#define NO_ROOM    "belfry: memory limit reached; try again"

/* In etcd's own words. */
#define NO_USER       "etcdserver: user name is empty" /* with 3, to a call without a user */
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

struct relay {
    /* fixed at creation */
    struct relay_opts opts; /* with the defaults in it; pace_ms may change */
    /* owner */
    struct belfry_list all;
    struct belfry_list anonymous; /* of them: calls without a token, unless they need no right */
    struct inquiries inquiries;
    struct relay_room room;
    struct relay_turns turns;        /* of calls that upstream answers soon */
    struct relay_turns openings;     /* of calls that last, while they are new to upstream */
    struct belfry_list opening;      /* calls that last and have a turn, the first that is due first */
    uv_timer_t turns_timer;          /* somebody may be next, or the time of the first in `opening` is up */
    struct relay_alarm alarm;        /* of all deadlines */
    struct permit_question *recheck; /* is auth still off, for the anonymous of them? */
    uint64_t recheck_ms;             /* when that is asked next; BELFRY_NEVER: not planned */
    struct relay_stats stats;        /* without those of `room` */
    BELFRY_OWNER;
};

/* The shape of a method's request. */
enum relay_request {
    RELAY_ONE_MESSAGE, /* one message, and the request ends */
    RELAY_MESSAGES,    /* any number, at any time */
    RELAY_UNKNOWN      /* not a method of etcd's */
};

/* The body of a request on its way up. It holds at most EXCHANGE_WINDOW, because what is not sent is not taken from the
 * exchange. */
struct relay_body {
    enum relay_request kind; /* fixed */
    struct belfry_buf bytes; /* received and not sent */
    struct grpc_walk walk;   /* over all bytes that were received */
    struct pace pace;        /* of the message that the client has begun */
    bool ended;
};

struct relay_call {
    /* fixed at creation */
    struct relay *relay;
    struct exchange *x;
    struct belfry_bytes name; /* of the user of a certificate, who is vouched for; in `user`. NULL: there is none */
    bool tokenless;
    bool needs_auth; /* its listener serves only while upstream has auth on */
    bool needs_user; /* with auth on etcd refuses its method to a caller without a user */
    bool logs_in;    /* Auth/Authenticate */
    bool changes_auth, acts_later;
    bool may_pass; /* its listener passes its method on */
    uint64_t due_ms;
    /* owner */
    enum call_state state;
    struct belfry_list node;
    struct belfry_list anonymous; /* without a token, unless it needs no right */
    struct relay_holding holding;
    /* its turn */
    struct relay_turn turn;
    struct relay_turns *turns;  /* among which it has its turn, or waits for one; NULL: it does not yet */
    uint64_t turn_ms;           /* TURNING: until when it waits; NEVER: as long as it takes */
    struct belfry_list opening; /* in relay.opening, or in none */
    uint64_t opening_ms;        /* there: until when */
    /* of one that observes, and may go on for ever */
    uint64_t right_ms; /* when upstream judged the right, or auth was known to be off */
    uint64_t look_ms;  /* when to look at that again; BELFRY_NEVER: the call is of another kind */
    /* what may be answered here */
    bool may_ask;             /* HEADED: it may be the question of a tier below */
    uint64_t within_ms;       /* of such a question */
    struct inquiry *inquiry;  /* ASKING */
    enum reads_method method; /* HEADED: it may be a read that is answered here; else NONE */
    bool is_relaxed;          /* its listener makes every read serializable; this or the next: */
    bool is_for_upstream;     /* its listener relays every read */
    struct read *read;        /* READING and ANSWERING */
    bool wants_part;          /* ANSWERING: all that was read is written, and there was no room for more */
    /* up */
    struct permit_question *question; /* CHECKING; this or the next: */
    struct vouch_wait wait;
    uint64_t token_revision;   /* of the token that was made for it; 0: none was */
    struct uplink_call *up;    /* WAITING and PASSING */
    struct fields block;       /* until WAITING the request's; then the block that is being received */
    struct belfry_buf path;    /* until WAITING */
    struct relay_body request; /* on its way up */
    struct relay_guard *guard; /* of all of it; owned. NULL: it can do no harm */
    /* down */
    enum belfry_err failed;     /* a field could not be kept */
    bool rewrites;              /* the response is a member list, and is held until it is whole */
    struct belfry_buf response; /* received and not written: at most a stream's window, because it is not taken */
    struct relay_peek peek;     /* into all that was received of it */
    enum call_end end;          /* EMPTYING */
    int code;                   /* END_STATUS, as `why` */
    char *why;                  /* owned; NULL: there was no memory for it */
    size_t user_len;            /* fixed at creation, as: */
    char user[];                /* the name in its certificate */
};

/* ---- what the names of methods say ---- */

static bool is_one_of(struct belfry_bytes path, const char *const *paths, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (belfry_bytes_equal(path, belfry_bytes_str(paths[i])))
            return true;
    }
    return false;
}

#define IS_ONE_OF(path, paths) is_one_of(path, paths, sizeof(paths) / sizeof((paths)[0]))

/* True for methods that only read, whatever the request. False for Txn and Alarm (their requests decide), Snapshot (it
 * holds the hashes of all passwords), and unknown methods. */
static bool relay_method_reads(struct belfry_bytes path)
{
    static const char *const reading[] = {
        "/etcdserverpb.KV/Range",          "/etcdserverpb.KV/RangeStream",     "/etcdserverpb.Lease/LeaseTimeToLive",
        "/etcdserverpb.Lease/LeaseLeases", "/etcdserverpb.Cluster/MemberList", "/etcdserverpb.Maintenance/Status",
        "/etcdserverpb.Maintenance/Hash",  "/etcdserverpb.Maintenance/HashKV", "/etcdserverpb.Auth/AuthStatus",
        "/etcdserverpb.Auth/Authenticate", /* makes a token, which reads need */
        "/etcdserverpb.Auth/UserGet",      "/etcdserverpb.Auth/UserList",      "/etcdserverpb.Auth/RoleGet",
        "/etcdserverpb.Auth/RoleList",     "/v3electionpb.Election/Leader",    "/v3electionpb.Election/Observe",
    };
    return IS_ONE_OF(path, reading);
}

/* True for Auth/Authenticate, whose request names the user. */
static bool relay_method_authenticates(struct belfry_bytes path)
{
    return belfry_bytes_equal(path, belfry_bytes_str("/etcdserverpb.Auth/Authenticate"));
}

/* True for methods that with auth on every etcd refuses to a caller without a user, with the same status. Others are
 * refused with another status or answered, depending on etcd's version (decision 0035). */
static bool relay_method_needs_user(struct belfry_bytes path)
{
    static const char *const needing[] = {
        "/etcdserverpb.KV/Range",
        "/etcdserverpb.KV/RangeStream",
        "/etcdserverpb.KV/Put",
        "/etcdserverpb.KV/DeleteRange",
        "/etcdserverpb.KV/Txn",
        "/etcdserverpb.Cluster/MemberAdd",
        "/etcdserverpb.Cluster/MemberRemove",
        "/etcdserverpb.Cluster/MemberUpdate",
        "/etcdserverpb.Cluster/MemberPromote",
    };
    static const char *const open[] = {
        "/etcdserverpb.Auth/Authenticate",
        "/etcdserverpb.Auth/AuthStatus", /* etcd has answered it to everybody since 3.7 */
    };
    bool is_auth = belfry_bytes_begins(path, belfry_bytes_str("/etcdserverpb.Auth/"));
    return (is_auth && !IS_ONE_OF(path, open)) || IS_ONE_OF(path, needing);
}

/* True for methods that may still read or write long after their request is complete: Lock, Campaign, Observe, and
 * unknown methods. Methods of etcd's own services do nothing after their response. */
static bool relay_method_acts_later(struct belfry_bytes path)
{
    return !belfry_bytes_begins(path, belfry_bytes_str("/etcdserverpb."));
}

static enum relay_request relay_method_request(struct belfry_bytes path)
{
    static const char *const services[] = {"/etcdserverpb.", "/v3lockpb.", "/v3electionpb."};
    if (belfry_bytes_equal(path, belfry_bytes_str("/etcdserverpb.Lease/LeaseKeepAlive")))
        return RELAY_MESSAGES;
    for (size_t i = 0; i < sizeof(services) / sizeof(services[0]); i++) {
        if (belfry_bytes_begins(path, belfry_bytes_str(services[i])))
            return RELAY_ONE_MESSAGE;
    }
    return RELAY_UNKNOWN;
}

/* True for methods whose response may tell of changes as long as the client stays: Observe, and unknown methods. */
static bool relay_method_observes(struct belfry_bytes path)
{
    return belfry_bytes_equal(path, belfry_bytes_str("/v3electionpb.Election/Observe")) ||
           relay_method_request(path) == RELAY_UNKNOWN;
}

/* True for Lease/LeaseKeepAlive, whose request lasts as long as its client, and for which etcd requires no right. */
static bool relay_method_keeps_alive(struct belfry_bytes path)
{
    return belfry_bytes_equal(path, belfry_bytes_str("/etcdserverpb.Lease/LeaseKeepAlive"));
}

/* True for methods that may turn auth on or off. */
static bool relay_method_changes_auth(struct belfry_bytes path)
{
    return belfry_bytes_begins(path, belfry_bytes_str("/etcdserverpb.Auth/")) && !relay_method_reads(path);
}

/* ---- a call ---- */

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

/* Is no message of the client's incomplete? */
static bool relay_body_is_whole(const struct relay_body *body)
{
    if (body->ended || body->kind == RELAY_ONE_MESSAGE)
        return body->ended;
    return body->walk.whole > 0 && !grpc_walk_inside(&body->walk);
}

static bool relay_body_is_sent(const struct relay_body *body)
{
    return body->ended && belfry_buf_len(&body->bytes) == 0;
}

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

/* ---- ends ---- */

static void on_relay_turns(uv_timer_t *timer);

/* Upstream has done with it, or will never know of it. Whoever is next sets out later: this may be called from inside
 * anything. */
static void relay_call_end_turn(struct relay_call *call)
{
    belfry_list_remove(&call->opening);
    if (call->turns != NULL && relay_turn_end(call->turns, &call->turn))
        uv_timer_start(&call->relay->turns_timer, on_relay_turns, 0, 0);
}

/* No answer of permit or vouch will come. */
static void relay_call_end_check(struct relay_call *call)
{
    if (call->question != NULL)
        permit_cancel(call->question);
    call->question = NULL;
    vouch_wait_end(&call->wait);
}

/* The exchange has ended, or is about to. */
static void relay_call_free(struct relay_call *call)
{
    struct relay *relay = call->relay;
    relay_call_end_check(call);
    inquiry_cancel(call->inquiry);
    read_cancel(call->read);
    if (call->up != NULL)
        uplink_close(call->up);
    if (call->changes_auth)
        permit_doubt(relay->opts.permit); /* again: an answer that came while it ran may be older than its effect */
    belfry_list_remove(&call->node);
    belfry_list_remove(&call->anonymous);
    relay_call_end_turn(call);
    relay_holding_end(&call->holding);
    shares_count(call->holding.share, SHARES_CALLS, 1, 0);
    relay->stats.running--;
    fields_fini(&call->block);
    belfry_buf_fini(&call->path);
    belfry_buf_fini(&call->request.bytes);
    belfry_buf_fini(&call->response);
    relay_peek_fini(&call->peek);
    if (call->guard != NULL)
        relay_guard_fini(call->guard);
    free(call->guard);
    free(call->why);
    free(call);
}

/* The end with a status, whatever was passed on so far. */
static void relay_call_fail(struct relay_call *call, int code, const char *why)
{
    struct exchange *x = call->x;
    bool has_begun = call->state == ANSWERING || call->state == PASSING || call->state == EMPTYING;
    enum grpc_headers sent = has_begun ? GRPC_HEADERS_SENT : GRPC_HEADERS_NOT_SENT;
    grpc_fail(x, sent, code, why); /* before the call is freed: `why` may be the call's text */
    relay_call_free(call);
}

static void relay_call_end_for_memory(struct relay_call *call)
{
    call->relay->stats.over_memory++;
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
    bool is_old = belfry_bytes_equal(name, belfry_bytes_str("grpc-message")) &&
                  belfry_bytes_equal(value, belfry_bytes_str(VOUCH_OLD));
    if (is_old && call->token_revision != 0)
        vouch_outdate(call->relay->opts.vouch, call->token_revision);
    bool is_status = belfry_bytes_equal(name, belfry_bytes_str(":status"));
    if (call->failed != BELFRY_OK || (!is_status && fields_is_hop(name, value)))
        return;
    call->failed = fields_add(&call->block, name, value);
}

/* Writes as much as there is room for. */
static size_t relay_call_write(struct relay_call *call, struct belfry_bytes bytes)
{
    size_t written = exchange_pour(call->x, bytes);
    call->relay->stats.bytes_down += written;
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

static void relay_call_upstream_ended(struct relay_call *call, enum call_end end)
{
    call->end = end;
    call->up = NULL;
    relay_call_end_turn(call);
    relay_call_move_to(call, EMPTYING);

    if (call->rewrites) {
        struct belfry_buf out;
        belfry_buf_init(&out);
        if (relay_members_rewrite(belfry_buf_bytes(&call->response), call->relay->opts.advertise, &out) == BELFRY_OK) {
            belfry_buf_fini(&call->response);
            call->response = out;
            relay_call_count(call);
        } else { /* an error has no body; anything else is passed on as it is */
            belfry_buf_fini(&out);
        }
    }
    relay_call_write_response(call);
}

static void on_up_block(struct uplink_call *up, bool last, void *user)
{
    struct relay_call *call = user;
    if (!belfry_list_empty(&call->opening)) /* it is new to upstream no more */
        relay_call_end_turn(call);
    if (call->failed != BELFRY_OK) {
        relay_call_fail(call, BELFRY_GRPC_RESOURCE_EXHAUSTED, NO_MEMORY);
        return;
    }

    /* the trailers */
    if (call->state != WAITING) {
        if (last) {
            uplink_close(up);
            relay_call_upstream_ended(call, END_TRAILERS);
        }
        return;
    }

    /* the head, of a response without a body */
    int status = fields_status(&call->block);
    const struct belfry_http_field *list = fields_list(&call->block);
    struct exchange *x = call->x;
    if (last) {
        uplink_close(up);
        call->up = NULL;
        exchange_answer(x, status, list + 1, call->block.n - 1, (struct belfry_bytes){0});
        relay_call_free(call);
        return;
    }

    /* the head of others; a status below 200 announces another head */
    if (status >= 200) {
        exchange_respond(x, status, list + 1, call->block.n - 1);
        relay_call_move_to(call, PASSING);
        relay_call_count(call);
    }
    fields_clear(&call->block);
}

static void on_up_data(struct uplink_call *up, struct belfry_bytes bytes, void *user)
{
    struct relay_call *call = user;
    struct term *term = call->relay->opts.term;

    /* what a method that is not etcd's sends is not known, and not looked at */
    if (term != NULL && call->request.kind != RELAY_UNKNOWN && relay_peek_pass(&call->peek, bytes, term) != BELFRY_OK) {
        relay_call_fail(call, BELFRY_GRPC_RESOURCE_EXHAUSTED, NO_MEMORY);
        return;
    }

    /* a member list waits for its end */
    if (call->rewrites && belfry_buf_len(&call->response) + bytes.len > RELAY_MEMBERS_BYTES) {
        call->rewrites = false; /* it is passed on as it is */
        belfry_logf(call->relay->opts.log, BELFRY_LOG_WARN, "members_not_rewritten", "why=\"the list is too long\"");
        relay_call_write_response(call);
    }

    /* anything else goes on as far as there is room for it */
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
        call->relay->stats.failed++;
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
    struct belfry_buf *bytes = &call->request.bytes;
    struct belfry_bytes have = belfry_buf_bytes(bytes);
    size_t n = have.len < cap ? have.len : cap;
    if (n > 0)
        memcpy(to, have.data, n);
    belfry_buf_take(bytes, n);
    if (n == have.len)
        belfry_buf_fini(bytes);
    *out_end = relay_body_is_sent(&call->request);
    relay_call_count(call);
    exchange_taken(call->x, n);
    call->relay->stats.bytes_up += n;
    return n;
}

static const struct uplink_events up_events = {.field = on_up_field,
                                               .block = on_up_block,
                                               .data = on_up_data,
                                               .end = on_up_end,
                                               .read = on_up_read,
                                               .closed = on_up_closed};

/* `n` more bytes of the request were received, or its end, or its head. */
static void relay_call_set_pace(struct relay_call *call, size_t n)
{
    uint64_t now = belfry_clock_ms();
    struct relay_body *body = &call->request;
    bool waits = body->kind == RELAY_ONE_MESSAGE ? !body->ended : grpc_walk_inside(&body->walk);
    if (waits)
        pace_wait(&body->pace, n, now, call->relay->opts.pace_ms);
    else
        pace_init(&body->pace);
    relay_alarm_set(&call->relay->alarm, body->pace.due_ms, now);
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
                                     .caller = call->logs_in ? UPLINK_CALLER_ANYONE : UPLINK_CALLER_CLIENT};
    enum belfry_err err =
        uplink_open(call->relay->opts.uplink, exchange_pin(call->x), &request, &up_events, call, &call->up);
    fields_fini(&call->block);
    belfry_buf_fini(&call->path);
    relay_call_count(call);
    return err;
}

/* ---- may it go upstream, and as which user? ---- */

static void relay_call_refuse(struct relay_call *call, int code, const char *why)
{
    call->relay->stats.refused++;
    relay_call_fail(call, code, why);
}

/* Upstream cannot be asked, or the tier cannot log in. */
static void relay_call_cannot_check(struct relay_call *call, const char *why)
{
    call->relay->stats.failed++;
    relay_call_fail(call, BELFRY_GRPC_UNAVAILABLE, why);
}

/* `field` speaks for its user; an empty name: there is none. */
static void relay_call_pass_check(struct relay_call *call, struct belfry_http_field field)
{
    enum belfry_err err = BELFRY_OK;
    if (field.name.len > 0)
        err = fields_add(&call->block, field.name, field.value);
    if (err == BELFRY_OK)
        err = relay_call_send(call);
    if (err != BELFRY_OK)
        relay_call_fail_begin(call, err);
}

/* The call goes on with the field that speaks for its user, when there is one. */
static void relay_call_vouch(struct relay_call *call)
{
    struct voucher voucher;
    switch (vouch_ask(call->relay->opts.vouch, call->name, &call->wait, &voucher)) {
    case VOUCH_GIVEN:
        call->token_revision = voucher.revision;
        relay_call_pass_check(call, voucher.field);
        break;
    case VOUCH_LATER:
        break;
    case VOUCH_REFUSED:
        if (call->needs_user)
            relay_call_refuse(call, BELFRY_GRPC_UNAUTHENTICATED, vouch_message(voucher.reason));
        else
            relay_call_pass_check(call, (struct belfry_http_field){0});
        break;
    case VOUCH_UNAVAILABLE:
        relay_call_cannot_check(call, voucher.reason);
        break;
    }
}

static void on_relay_vouched(struct vouch_wait *wait)
{
    relay_call_vouch(belfry_container(wait, struct relay_call, wait));
}

static void on_relay_auth(enum permit_verdict verdict, const char *reason, void *user)
{
    struct relay_call *call = user;
    call->question = NULL;
    if (verdict == PERMIT_UNAVAILABLE)
        relay_call_cannot_check(call, reason);
    else if (verdict == PERMIT_GRANTED && call->needs_auth)
        relay_call_refuse(call, BELFRY_GRPC_UNAVAILABLE, PERMIT_AUTH_IS_OFF);
    else if (call->name.data != NULL && (verdict == PERMIT_REFUSED || vouch_passes(call->relay->opts.vouch)))
        relay_call_vouch(call);
    else if (verdict == PERMIT_REFUSED && call->tokenless && call->needs_user)
        relay_call_refuse(call, BELFRY_GRPC_INVALID_ARGUMENT, NO_USER);
    else /* auth is off; or it is on, and the call goes upstream without a user */
        relay_call_pass_check(call, (struct belfry_http_field){0});
}

/* With auth on, upstream could take the call for the tier's own, or has to know its user. With auth off, it would carry
 * out whatever a listener with rights=upstream passes on. Most calls need no check: their token speaks for them, or
 * auth is known to be off. */
static bool relay_call_needs_check(const struct relay_call *call, uint64_t now)
{
    const struct relay_opts *opts = &call->relay->opts;
    if (call->needs_auth && permit_auth(opts->permit, now) != PERMIT_AUTH_ON)
        return true;
    bool needs_voucher = call->name.data != NULL && (opts->vouch != NULL || call->needs_user);
    if (needs_voucher && vouch_passes(opts->vouch))
        return true; /* the tier above has to know the user whatever this one believes of auth */
    return call->tokenless && !call->logs_in && (needs_voucher || uplink_may_have_name(opts->uplink)) &&
           !permit_is_open(opts->permit, now);
}

/* Asks for a caller without a token. PERMIT_REFUSED: auth is on. Errors: as permit_ask(). */
static enum belfry_err relay_ask_auth(struct relay *relay, uint64_t now, permit_fn fn, void *user,
                                      struct permit_question **out)
{
    static const struct identity nobody;
    struct belfry_bytes none = {0};
    return permit_ask(relay->opts.permit, &nobody, none, none, now, fn, user, out);
}

/* ---- turns ---- */

/* It has a turn: sends it upstream, or checks it first. */
static enum belfry_err relay_call_set_out(struct relay_call *call)
{
    struct relay *relay = call->relay;
    uint64_t now = belfry_clock_ms();

    /* one that lasts has its turn while it is new to upstream, where thousands that begin at once would hold up
     * everybody's */
    if (call->turns == &relay->openings) {
        call->opening_ms = now + RELAY_OPENING_MS;
        belfry_list_append(&relay->opening, &call->opening);
        if (!uv_is_active((uv_handle_t *)&relay->turns_timer))
            uv_timer_start(&relay->turns_timer, on_relay_turns, RELAY_OPENING_MS, 0);
    }

    /* the check comes this late because its answer is valid for a second */
    if (!relay_call_needs_check(call, now))
        return relay_call_send(call);
    relay_call_move_to(call, CHECKING);
    return relay_ask_auth(relay, now, on_relay_auth, call, &call->question);
}

static enum belfry_err relay_call_take_turn(struct relay_call *call)
{
    struct relay *relay = call->relay;
    /* Upstream answers a short call soon; others may last for days, and are bounded as SHARES_CALLS. So a lease that is
     * kept alive does not wait for reads that hang. */
    bool is_short = call->request.kind == RELAY_ONE_MESSAGE && !call->acts_later && call->look_ms == BELFRY_NEVER;
    call->turns = is_short ? &relay->turns : &relay->openings;
    if (relay_turn_take(call->turns, &call->turn))
        return relay_call_set_out(call);
    relay_call_move_to(call, TURNING);
    if (call->turns == &relay->turns) {
        uint64_t now = belfry_clock_ms();
        call->turn_ms = now + relay->opts.turn_ms;
        relay_alarm_set(&relay->alarm, call->turn_ms, now);
    }
    return BELFRY_OK;
}

/* Those whose turn it is now set out. */
static void relay_give_turns(struct relay_turns *turns)
{
    for (struct relay_turn *turn; (turn = relay_turns_next(turns)) != NULL;) {
        struct relay_call *call = belfry_container(turn, struct relay_call, turn);
        call->turn_ms = BELFRY_NEVER;
        enum belfry_err err = relay_call_set_out(call);
        if (err != BELFRY_OK)
            relay_call_fail_begin(call, err);
    }
}

static struct relay_call *relay_first_opening(const struct relay *relay)
{
    if (belfry_list_empty(&relay->opening))
        return NULL;
    return belfry_container(relay->opening.next, struct relay_call, opening);
}

static void on_relay_turns(uv_timer_t *timer)
{
    struct relay *relay = belfry_container(timer, struct relay, turns_timer);
    uint64_t now = belfry_clock_ms();
    struct relay_call *first;
    while ((first = relay_first_opening(relay)) != NULL && first->opening_ms <= now)
        relay_call_end_turn(first);
    relay_give_turns(&relay->turns);
    relay_give_turns(&relay->openings);
    if ((first = relay_first_opening(relay)) != NULL)
        uv_timer_start(timer, on_relay_turns, first->opening_ms > now ? first->opening_ms - now : 0, 0);
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

/* True: the call is answered here, or may be once its request is whole. */
static bool relay_call_try_to_answer(struct relay_call *call)
{
    if (!call->may_ask || call->state != HEADED)
        return false;
    if (!call->request.ended && belfry_buf_len(&call->request.bytes) <= INQUIRY_BYTES)
        return true;
    call->may_ask = false;

    /* all of it has come: is it one? */
    if (call->request.ended) {
        struct identity who = relay_call_who(call);
        struct inquiry_request request = {.who = &who,
                                          .path = belfry_buf_bytes(&call->path),
                                          .body = belfry_buf_bytes(&call->request.bytes),
                                          .within_ms = call->within_ms};
        enum belfry_err err =
            inquiry_open(&call->relay->inquiries, &request, belfry_clock_ms(), on_relay_inquiry, call, &call->inquiry);
        if (err == BELFRY_OK) {
            relay_call_move_to(call, ASKING);
            fields_fini(&call->block);
            belfry_buf_fini(&call->path);
            belfry_buf_fini(&call->request.bytes);
            relay_call_count(call);
            return true;
        }
    }

    /* it asks for something else, or too many such questions wait */
    call->relay->stats.inquiries_relayed++;
    call->relay->stats.relayed += call->may_pass;
    return false;
}

/* ---- reads ---- */

/* Sends what a read has answered, all of it (`to` is EMPTYING) or a part. The part before was sent. */
static void relay_call_answer(struct relay_call *call, struct belfry_buf *response, enum call_state to)
{
    call->response = *response;
    if (!relay_holding_make_room(&call->holding, call->response.cap, on_slow_relay_call)) {
        relay_call_end_for_memory(call);
        return;
    }

    /* the first part: the head goes before it, and the trailers are kept for the end */
    enum belfry_err err = BELFRY_OK;
    if (call->state == READING) {
        struct exchange_head head = {.fields = fields_list(&call->block), .n_fields = call->block.n};
        grpc_begin(call->x, exchange_field(&head, "content-type"));
        fields_clear(&call->block);
        belfry_buf_fini(&call->path);
        belfry_buf_fini(&call->request.bytes);
        call->end = END_TRAILERS;
        err = fields_add(&call->block, belfry_bytes_str("grpc-status"), belfry_bytes_str("0"));
        if (err == BELFRY_OK)
            err = fields_add(&call->block, belfry_bytes_str("grpc-message"), belfry_bytes_str(""));
    }
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
        call->relay->stats.relayed++;
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
        call->relay->stats.relayed++;
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
        reads_open(call->relay->opts.reads, &request, belfry_clock_ms(), on_relay_read, call, &call->read, &answer);
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
        relay_call_refuse(call, BELFRY_GRPC_PERMISSION_DENIED, READ_ONLY);
        return;
    }
    enum belfry_err err = relay_call_take_turn(call);
    if (err != BELFRY_OK)
        relay_call_fail_begin(call, err);
    else if (call->up != NULL)
        uplink_resume(call->up);
}

/* May it set out for upstream? A request of one message may when it is whole, or too large to be kept: one that is sent
 * slowly takes no turn from others. */
static bool relay_body_may_set_out(const struct relay_body *body)
{
    return body->kind != RELAY_ONE_MESSAGE || body->ended || body->walk.whole > 0 ||
           belfry_buf_len(&body->bytes) >= EXCHANGE_WINDOW / 2;
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

static void on_down_body(struct exchange *x, struct belfry_bytes bytes, void *user)
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
    struct relay_call *call = user;
    if (call->state == EMPTYING) { /* upstream wants no more of it */
        exchange_taken(x, bytes.len);
        return;
    }

    /* what would end upstream is refused, as a newer etcd refuses it */
    enum relay_guard_verdict verdict =
        call->guard == NULL ? RELAY_GUARD_HARMLESS : relay_guard_pass(call->guard, bytes);
    if (verdict != RELAY_GUARD_HARMLESS) {
        relay_call_refuse(call, refusals[verdict].code, refusals[verdict].text);
        return;
    }

    /* the rest is kept until upstream takes it */
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

/* A path of gRPC is its bytes. A server behind Go's net/http, as etcd's on a TLS port, would drop a query and decode
 * what is escaped, and so carry out what this path was not judged as (relay_guard.h, relay_method_reads()). */
static bool is_plain(struct belfry_bytes path)
{
    return memchr(path.data, '?', path.len) == NULL && memchr(path.data, '%', path.len) == NULL;
}

/* Does it announce compressed messages, or have a content type with parameters? etcd answers those in its own way. */
static bool is_unusual(const struct exchange_head *head)
{
    struct belfry_bytes encoding = exchange_field(head, "grpc-encoding"), type = exchange_field(head, "content-type");
    bool is_plain = encoding.len == 0 || belfry_bytes_equal(encoding, belfry_bytes_str("identity"));
    return !is_plain || type.len == 0 || memchr(type.data, ';', type.len) != NULL;
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

/* NULL: there is no memory for it. */
static struct relay_call *relay_call_create(struct relay *relay, struct exchange *x, const struct exchange_head *head,
                                            struct identity who)
{
    bool is_cert = who.kind == IDENTITY_CERT;
    struct relay_call *call = calloc(1, sizeof(*call) + (is_cert ? who.text.len : 0));
    if (call == NULL)
        return NULL;
    enum relay_guard_kind guarded;
    if (relay_guard_is(head->path, &guarded)) {
        call->guard = malloc(sizeof(*call->guard));
        if (call->guard == NULL) {
            free(call);
            return NULL;
        }
        relay_guard_init(call->guard, guarded, has_gzip(head));
    }
    call->relay = relay;
    call->x = x;
    call->state = HEADED;
    call->due_ms = call->turn_ms = call->look_ms = BELFRY_NEVER;

    /* who calls */
    if (is_cert) {
        memcpy(call->user, who.text.data, call->user_len = who.text.len);
        who.text.data = call->user;
    }
    call->logs_in = relay_method_authenticates(head->path);
    call->tokenless = who.kind != IDENTITY_TOKEN;
    call->needs_auth = who.rights == LISTEN_RIGHTS_UPSTREAM;
    call->needs_user = relay_method_needs_user(head->path);
    if (is_cert && who.rights != LISTEN_RIGHTS_OPEN && !call->logs_in)
        call->name = who.text;
    vouch_wait_init(&call->wait, on_relay_vouched);

    /* what is called: the question of a tier below, a read that may be answered here, or anything else */
    const struct listen_policy *policy = exchange_conn(x)->policy;
    call->may_ask = inquiry_is(head, &who, &call->within_ms);
    if (!call->may_ask && relay->opts.reads != NULL)
        call->method = reads_method(head->path);
    call->is_for_upstream = (policy != NULL && policy->reads == LISTEN_READS_RELAY) || is_unusual(head);
    call->is_relaxed = policy != NULL && policy->consistency == LISTEN_CONSISTENCY_SERIALIZABLE &&
                       exchange_field(head, VIA_FIELD).data == NULL; /* of no tier below */
    call->rewrites =
        relay->opts.advertise != NULL && belfry_bytes_equal(head->path, belfry_bytes_str(RELAY_MEMBERS_PATH));
    call->changes_auth = relay_method_changes_auth(head->path);
    call->acts_later = relay_method_acts_later(head->path);

    /* what it holds, and where it is known */
    call->request.kind = relay_method_request(head->path);
    belfry_buf_init(&call->request.bytes);
    pace_init(&call->request.pace);
    relay_turn_init(&call->turn, who.source);
    relay_holding_init(&call->holding, &relay->room, exchange_share(x));
    relay_peek_init(&call->peek);
    belfry_list_append(&relay->all, &call->node);
    belfry_list_init(&call->anonymous);
    belfry_list_init(&call->opening);
    shares_count(call->holding.share, SHARES_CALLS, 0, 1);
    relay->stats.running++;
    return call;
}

/* Takes over what of the head is passed on. Errors: those of relay_call_fail_begin(). */
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

/* The right to observe, which etcd judges when the call begins and then no more, was just judged. */
static void relay_call_observe(struct relay_call *call, uint64_t now)
{
    call->right_ms = now;
    call->look_ms = now + call->relay->opts.period_ms / 2;
}

static void relay_recheck_later(struct relay *relay, uint64_t now)
{
    if (relay->recheck != NULL || relay->recheck_ms != BELFRY_NEVER || belfry_list_empty(&relay->anonymous))
        return;
    relay->recheck_ms = now + RELAY_RECHECK_MS;
    relay_alarm_set(&relay->alarm, relay->recheck_ms, now);
}

static void relay_refuse(struct relay *relay, struct exchange *x, int code, const char *why)
{
    relay->stats.refused++;
    grpc_fail(x, GRPC_HEADERS_NOT_SENT, code, why);
}

void relay_begin(struct relay *relay, struct exchange *x, const struct exchange_head *head, enum relay_rights rights)
{
    BELFRY_OWNER_CHECK(relay);
    uint64_t timeout_ms;
    if (grpc_refuse_head(x, head, &timeout_ms))
        return;
    if (!is_plain(head->path)) {
        relay_refuse(relay, x, BELFRY_GRPC_UNIMPLEMENTED, NOT_PLAIN);
        return;
    }
    bool may_pass = rights == RELAY_ALL || relay_method_reads(head->path);
    struct identity who = identity_read(x, head, IDENTITY_OF_GRPC);
    uint64_t within_ms;
    if (!may_pass && !inquiry_is(head, &who, &within_ms)) {
        relay_refuse(relay, x, BELFRY_GRPC_PERMISSION_DENIED, READ_ONLY);
        return;
    }
    if (!shares_make_room(exchange_share(x), SHARES_CALLS, 1)) {
        relay_refuse(relay, x, BELFRY_GRPC_RESOURCE_EXHAUSTED, OVER_SHARE);
        return;
    }
    struct relay_call *call = relay_call_create(relay, x, head, who);
    if (call == NULL) {
        grpc_fail(x, GRPC_HEADERS_NOT_SENT, BELFRY_GRPC_RESOURCE_EXHAUSTED, NO_MEMORY);
        return;
    }
    call->may_pass = may_pass;
    relay->stats.relayed += !call->may_ask && call->method == READS_NONE;
    if (call->changes_auth)
        permit_doubt(relay->opts.permit);
    exchange_handle(x, &down_events, call);
    enum belfry_err err = relay_call_take_head(call, head);
    if (err != BELFRY_OK) {
        relay_call_fail_begin(call, err);
        return;
    }

    /* everything that can make it end by itself */
    uint64_t now = belfry_clock_ms();
    relay_call_set_pace(call, 0);
    if (relay_method_observes(head->path)) {
        relay_call_observe(call, now);
        relay_alarm_set(&relay->alarm, call->look_ms, now);
    }
    if (timeout_ms < BELFRY_NEVER - GRACE_MS - now) {
        call->due_ms = now + timeout_ms + GRACE_MS;
        relay_alarm_set(&relay->alarm, call->due_ms, now);
    }
    if (call->tokenless && !relay_method_keeps_alive(head->path))
        belfry_list_append(&relay->anonymous, &call->anonymous);
    relay_recheck_later(relay, now);
}

/* ---- calls that etcd may still carry out when auth is turned on ---- */

static struct relay_call *relay_call_of_anonymous(struct belfry_list *node)
{
    return belfry_container(node, struct relay_call, anonymous);
}

/* May etcd still carry it out with the rights of the tier, if auth is turned on now? It is upstream, and its request is
 * not complete, or its method acts later. */
static bool relay_call_is_exposed(const struct relay_call *call)
{
    return call->up != NULL && uplink_is_lent(call->up) && (call->acts_later || !relay_body_is_sent(&call->request));
}

static void on_recheck(enum permit_verdict verdict, const char *reason, void *user)
{
    struct relay *relay = user;
    (void)reason;
    relay->recheck = NULL;
    belfry_list_each_safe (node, &relay->anonymous) {
        struct relay_call *call = relay_call_of_anonymous(node);
        if (verdict == PERMIT_REFUSED && relay_call_is_exposed(call))
            relay_call_refuse(call, BELFRY_GRPC_INVALID_ARGUMENT, NO_USER);
    }
    relay_recheck_later(relay, belfry_clock_ms());
}

/* Auth may have been turned on since these calls went upstream: then they would run as the tier's user. */
static void relay_recheck(struct relay *relay, uint64_t now)
{
    bool exposed = false;
    belfry_list_each (node, &relay->anonymous)
        exposed = exposed || relay_call_is_exposed(relay_call_of_anonymous(node));
    relay->recheck_ms = BELFRY_NEVER;
    if (exposed && relay_ask_auth(relay, now, on_recheck, relay, &relay->recheck) != BELFRY_OK)
        relay->recheck = NULL; /* too many questions: it is asked again in a second */
    relay_recheck_later(relay, now);
}

/* ---- deadlines ---- */

/* It is time to look at a call that observes. It ends within a period of rights, unless auth is off: a client that
 * repeats it is judged again. True: it must end. */
static bool relay_call_is_unproven(struct relay_call *call, uint64_t now)
{
    const struct relay_opts *opts = &call->relay->opts;
    uint64_t end_ms = call->right_ms + opts->period_ms - opts->period_ms / 10;
    switch (permit_auth(opts->permit, now)) {
    case PERMIT_AUTH_OFF:
        relay_call_observe(call, now);
        return false;
    case PERMIT_AUTH_ON:
        call->look_ms = end_ms;
        break;
    case PERMIT_AUTH_UNKNOWN: /* it is being asked */
        call->look_ms = belfry_min_time(now + OBSERVED_LOOK_MS, end_ms);
        break;
    }
    return end_ms <= now;
}

/* Ends the call if its time is up. Returns when to look again; BELFRY_NEVER: no deadline is left. */
static uint64_t relay_call_look(struct relay_call *call, uint64_t now)
{
    struct relay *relay = call->relay;
    if (call->look_ms <= now && relay_call_is_unproven(call, now)) {
        relay_call_fail(call, BELFRY_GRPC_UNAVAILABLE, OBSERVE_AGAIN);
        return BELFRY_NEVER;
    }
    uint64_t look_ms = call->look_ms;
    if (call->state == EMPTYING) /* upstream was in time */
        return look_ms;
    if (call->due_ms <= now) {
        relay_call_fail(call, BELFRY_GRPC_DEADLINE_EXCEEDED, GRPC_TIMEOUT);
        return BELFRY_NEVER;
    }
    if (call->turn_ms <= now) {
        relay_call_refuse(call, BELFRY_GRPC_UNAVAILABLE, NO_TURN);
        return BELFRY_NEVER;
    }

    /* the pace of the client, which is not late while its bytes wait for upstream */
    struct pace *pace = &call->request.pace;
    bool waits_for_upstream = call->state != HEADED && belfry_buf_len(&call->request.bytes) > 0;
    if (pace->due_ms <= now && !waits_for_upstream) {
        relay->stats.late++;
        relay_call_fail(call, BELFRY_GRPC_UNAVAILABLE, LATE);
        return BELFRY_NEVER;
    }
    if (pace->due_ms <= now)
        pace_excuse(pace, now, relay->opts.pace_ms);
    return belfry_min_time(belfry_min_time(look_ms, call->turn_ms), belfry_min_time(call->due_ms, pace->due_ms));
}

static struct relay_call *relay_call_of(struct belfry_list *node)
{
    return belfry_container(node, struct relay_call, node);
}

/* Visits every call, but only when the earliest deadline has come: about once per timeout when most calls end in time,
 * and once per RELAY_ALARM_MS when all end late, each at another time. */
static void on_relay_alarm(struct relay_alarm *alarm, uint64_t now)
{
    struct relay *relay = belfry_container(alarm, struct relay, alarm);
    uint64_t next = BELFRY_NEVER;
    belfry_list_each_safe (node, &relay->all)
        next = belfry_min_time(next, relay_call_look(relay_call_of(node), now));
    relay_alarm_set(alarm, next, now);
    if (relay->recheck_ms <= now)
        relay_recheck(relay, now);
    else
        relay_alarm_set(alarm, relay->recheck_ms, now);
}

/* ---- the whole ---- */

void relay_set_pace(struct relay *relay, uint64_t pace_ms)
{
    relay->opts.pace_ms = pace_ms != 0 ? pace_ms : PACE_MS;
}

enum belfry_err relay_create(const struct relay_opts *opts, struct relay **out)
{
    struct relay *relay = calloc(1, sizeof(*relay));
    if (relay == NULL)
        return BELFRY_ERR_NOMEM;
    relay->opts = *opts;
    relay_set_pace(relay, opts->pace_ms);
    relay->opts.turn_ms = opts->turn_ms != 0 ? opts->turn_ms : RELAY_TURN_MS;
    relay->opts.period_ms = opts->period_ms != 0 ? opts->period_ms : PERMIT_PERIOD_MS;
    relay->inquiries.permit = opts->permit;
    relay->recheck_ms = BELFRY_NEVER;
    belfry_list_init(&relay->all);
    belfry_list_init(&relay->anonymous);
    belfry_list_init(&relay->opening);
    relay_room_init(&relay->room);
    relay_turns_init(&relay->turns, RELAY_TURNS, belfry_hash_key_draw());
    relay_turns_init(&relay->openings, RELAY_OPENINGS, belfry_hash_key_draw());
    uv_loop_t *loop = uplink_loop(opts->uplink);
    relay_alarm_init(&relay->alarm, loop, on_relay_alarm);
    uv_timer_init(loop, &relay->turns_timer);
    BELFRY_OWNER_INIT(relay);
    *out = relay;
    return BELFRY_OK;
}

static void on_alarm_closed(uv_handle_t *timer)
{
    free(belfry_container((uv_timer_t *)timer, struct relay, alarm.timer));
}

static void on_turns_closed(uv_handle_t *timer)
{
    struct relay *relay = belfry_container((uv_timer_t *)timer, struct relay, turns_timer);
    uv_close((uv_handle_t *)&relay->alarm.timer, on_alarm_closed);
}

void relay_destroy(struct relay *relay)
{
    if (relay == NULL)
        return;
    BELFRY_OWNER_CHECK(relay);
    if (relay->recheck != NULL)
        permit_cancel(relay->recheck);
    belfry_list_each_safe (node, &relay->all) {
        struct relay_call *call = relay_call_of(node);
        exchange_reset(call->x, NGHTTP2_CANCEL);
        relay_call_free(call);
    }
    uv_close((uv_handle_t *)&relay->turns_timer, on_turns_closed);
}

void relay_end_all(struct relay *relay, const char *why)
{
    BELFRY_OWNER_CHECK(relay);
    belfry_list_each_safe (node, &relay->all)
        relay_call_fail(relay_call_of(node), BELFRY_GRPC_UNAVAILABLE, why);
}

void relay_stats(const struct relay *relay, struct relay_stats *out)
{
    *out = relay->stats;
    out->held_bytes = relay->room.held;
    out->held_peak = relay->room.held_peak;
}
