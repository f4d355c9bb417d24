/* src/client/stream.c */
#include "client/stream.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "base/owner.h"
#include "client/etcd_request.h"
#include "client/etcd_status.h"
#include "client/witness.h"

#define WATCH_PATH   "/etcdserverpb.Watch/Watch"
#define RETRY_MS     25 /* the first wait before reopening a stream that did not serve */
#define RETRY_MAX_MS 1000
#define READ_MS      5000  /* timeout of one read of the store's revision */
#define TOKENS_MAX   5     /* rejected tokens in a row before giving up: a lagging member does not know the newest */
#define DOUBTS_MAX   10    /* streams in a row with a doubtful status before the watches end, ... */
#define DOUBTS_MS    60000 /* ... and the least time for that, once a server has served: a cluster may restart */
#define FIRST_MAX    160
#define TEXT_MAX     1152               /* room for a URL and a chain of tiers */
#define WHOLE_BYTES  ((size_t)32 << 20) /* a larger response is requested again in pieces */
#define HELD_BYTES   ((size_t)64 << 20) /* held for paused watches; near this, only smaller responses are taken whole */
#define WHOLE_LEAST  ((size_t)2 << 20)  /* more than etcd's size of a piece */

#define TRUST_ASK_MS       5000 /* timeout of one try to learn the server's version */
#define TRUST_RETRY_MS     500  /* the second wait */
#define TRUST_RETRY_MAX_MS 10000
#define STATUS_VERSION     2  /* field of StatusResponse */
#define VERSION_BYTES      32 /* kept of a version, with the zero */

/* Whether the stream's server can be believed when it answers a progress request.
 *
 * Before 3.4.25, and from 3.5.0 to 3.5.7, etcd's answer may overtake older events that are still queued (etcd#15220); a
 * client that believes it loses them. So the version is requested first (Maintenance/Status), on the connection that
 * carries the stream. docs/decisions/0007 has the reasons.
 *
 *     UNKNOWN --asked--> ASKING --a good version, or for other users only: those are new--> GOOD
 *        ^                 | |                                                               ^
 *        |                 | `-- otherwise: ABOUT --a belfryd, whose own watch it is ---------'
 *        |                 |       | `-- not, and an affected version, none, or no Status at all --> BAD
 *        `- passing, or another member's, and no belfryd
 *
 * A belfryd relays Status to a member of its upstream, which is not the source of its watch. So if Status does not
 * decide, belfry.Tier/About is requested, which only a belfryd knows.
 *
 *     any --the stream is over--> UNKNOWN
 */
enum trust_state { TRUST_UNKNOWN, TRUST_ASKING, TRUST_ABOUT, TRUST_GOOD, TRUST_BAD };

struct trust {
    enum trust_state state;
    struct belfry_grpc_call *call; /* ASKING, ABOUT; on the stream's connection */
    bool hopeless;                 /* ABOUT: Status failed permanently */
    uint64_t member_id;            /* of the stream's server when it was asked; 0: unknown */
    bool answered, other_member;   /* ASKING: received so far */
    uint64_t retry_ms;             /* UNKNOWN: ask not before */
    struct belfry_backoff backoff;
    char version[VERSION_BYTES]; /* for people; "" while unknown */
};

struct belfry_stream {
    /* fixed */
    struct belfry_stream_opts opts;
    struct belfry_pool *link;
    struct belfry_mux *mux;
    struct belfry_rng rng;
    /* owner */
    struct belfry_grpc_call *call; /* NULL: down */
    struct belfry_carrier *conn;   /* that carries the call */
    size_t at;                     /* index of its endpoint */
    uint64_t member_id;            /* of its server, from the newest header */
    struct trust trust;            /* whether that server's progress can be believed */
    bool served;                   /* a message came on this stream */
    uint64_t served_ms;            /* when */
    bool ever_served;
    bool pieces;   /* request large responses in pieces, because one was too large */
    bool draining; /* actions are being delivered */
    struct belfry_backoff backoff;
    uint64_t retry_ms;
    unsigned refused_tokens;
    unsigned doubts;             /* streams in a row that ended with a doubtful status */
    uint64_t doubts_since_ms;    /* when the first of them did */
    char first_doubt[FIRST_MAX]; /* the text of the first */
    bool token_wanted;           /* as requested from calls */
    struct belfry_call *read;    /* reads the store's revision, for watches from now on */
    struct belfry_mux_read reading;
    struct belfry_call *check; /* reads the store's revision, to compare it with what was seen */
    int64_t check_seen;
    struct belfry_witness witness;
    bool doubt;                 /* since a reconnect, the past has not been verified */
    struct belfry_call *recall; /* reads the witness */
    uint64_t read_retry_ms;
    struct belfry_buf scratch; /* one request */
    char text[TEXT_MAX];       /* the last reported link text */
    BELFRY_OWNER;
};

/* ---- reporting ---- */

static void stream_tell(struct belfry_stream *stream, const char *text)
{
    if (strcmp(stream->text, text) == 0)
        return;
    snprintf(stream->text, sizeof(stream->text), "%s", text);
    stream->opts.link_text(stream->text, stream->opts.user);
}

static void stream_tell_lost(struct belfry_stream *stream, const char *url, const char *why)
{
    char text[TEXT_MAX];
    snprintf(text, sizeof(text), "lost %s: %.760s", url, why);
    stream_tell(stream, text);
}

/* ---- trust ---- */

static void trust_move(struct trust *trust, enum trust_state to)
{
    static const unsigned legal[] = {[TRUST_UNKNOWN] = 1u << TRUST_ASKING,
                                     [TRUST_ASKING] = 1u << TRUST_GOOD | 1u << TRUST_ABOUT,
                                     [TRUST_ABOUT] = 1u << TRUST_GOOD | 1u << TRUST_BAD,
                                     [TRUST_GOOD] = 0,
                                     [TRUST_BAD] = 0};
    assert(to == TRUST_UNKNOWN || legal[trust->state] & 1u << to);
    (void)legal;
    trust->state = to;
}

/* The stream ended: forgets its server and cancels a request in progress. */
static void trust_reset(struct trust *trust)
{
    if (trust->call != NULL)
        belfry_grpc_call_cancel(trust->call);
    trust->call = NULL;
    trust->retry_ms = 0;
    trust->version[0] = '\0';
    belfry_backoff_reset(&trust->backoff);
    trust_move(trust, TRUST_UNKNOWN);
}

static void trust_retry(struct belfry_stream *stream, uint64_t now_ms)
{
    stream->trust.retry_ms = now_ms + belfry_backoff_next(&stream->trust.backoff, &stream->rng);
    stream->trust.version[0] = '\0';
    trust_move(&stream->trust, TRUST_UNKNOWN);
}

/* Whether this version of etcd keeps progress behind events: "3.5.16", "3.6.0-rc.1", "3.5.16+build". False for one that
 * cannot be read. */
static bool version_keeps_order(const char *version)
{
    unsigned number[3]; /* major, minor, patch; of six digits at most */
    const char *at = version;
    for (int i = 0; i < 3; i++) {
        const char *start = at;
        number[i] = 0;
        while (*at >= '0' && *at <= '9' && at - start < 6)
            number[i] = number[i] * 10 + (unsigned)(*at++ - '0');
        if (at == start || (i < 2 && *at++ != '.'))
            return false;
    }
    bool early = *at == '-'; /* an alpha or a release candidate of that number */
    if (*at != '\0' && *at != '-' && *at != '+')
        return false;

    if (number[0] != 3)
        return number[0] > 3;
    unsigned first; /* the first good patch of the minor version */
    switch (number[1]) {
    case 4:
        first = 25;
        break;
    case 5:
        first = 8;
        break;
    case 6:
        first = 0; /* but main was 3.6.0-alpha.0 for years, before and after the fix */
        break;
    default:
        return number[1] > 6;
    }
    return early ? number[2] > first : number[2] >= first;
}

static void trust_on_message(struct belfry_grpc_call *call, struct belfry_blob *message, void *user)
{
    struct trust *trust = &((struct belfry_stream *)user)->trust;
    struct belfry_bytes bytes = belfry_blob_bytes(message), version = {NULL, 0};
    struct belfry_wire_header header;
    size_t at = 0;
    (void)call;
    trust->answered = true;
    trust->other_member = trust->state == TRUST_ASKING && belfry_scan_response_header(bytes, &header) == BELFRY_OK &&
                          header.member_id != 0 && trust->member_id != 0 && header.member_id != trust->member_id;
    if (belfry_scan_field(bytes, STATUS_VERSION, &at, &version) != BELFRY_OK)
        version.len = 0;
    snprintf(trust->version, sizeof(trust->version), "%.*s",
             (int)(version.len < sizeof(trust->version) ? version.len : sizeof(trust->version) - 1),
             version.len > 0 ? version.data : "");
}

/* The server has a version but does not tell us. Among etcds that know progress requests, only those from 3.5.28 and
 * 3.6.0 on protect Status; so no token is sent, which might have expired since the stream was opened. */
static bool status_is_guarded(const struct belfry_grpc_status *status)
{
    return status->from_server && ((status->code == BELFRY_GRPC_PERMISSION_DENIED &&
                                    strstr(status->message, "etcdserver: permission denied") != NULL) ||
                                   (status->code == BELFRY_GRPC_INVALID_ARGUMENT &&
                                    strstr(status->message, "etcdserver: user name is empty") != NULL));
}

static void trust_on_closed(struct belfry_grpc_call *call, const struct belfry_grpc_status *status, void *user);
static const struct belfry_grpc_events trust_events = {.message = trust_on_message, .closed = trust_on_closed};

/* Asks on the stream's connection. */
static void trust_submit(struct belfry_stream *stream, const char *path, uint64_t now_ms)
{
    struct trust *trust = &stream->trust;
    struct belfry_grpc_call_opts opts = {.path = path, .deadline_ms = now_ms + TRUST_ASK_MS};
    trust->answered = trust->other_member = false;
    enum belfry_err err =
        belfry_grpc_call_open(belfry_carrier_http(stream->conn), &opts, &trust_events, stream, &trust->call);
    if (err == BELFRY_OK) {
        err = belfry_grpc_call_send(trust->call, (struct belfry_bytes){NULL, 0});
        if (err != BELFRY_OK)
            belfry_grpc_call_cancel(trust->call);
        else
            belfry_grpc_call_half_close(trust->call);
    }
    if (err != BELFRY_OK) {
        trust->call = NULL;
        trust_retry(stream, now_ms);
    }
}

static void trust_on_closed(struct belfry_grpc_call *call, const struct belfry_grpc_status *status, void *user)
{
    struct belfry_stream *stream = user;
    struct trust *trust = &stream->trust;
    bool answered = status->code == BELFRY_GRPC_OK && trust->answered;
    (void)call;
    trust->call = NULL;

    if (trust->state == TRUST_ASKING) { /* for Status */
        bool mine = answered && !trust->other_member;
        if ((mine && version_keeps_order(trust->version)) || status_is_guarded(status)) {
            trust_move(trust, TRUST_GOOD);
        } else {
            /* Asking again will not help: the server, or a proxy, supports only a part of the protocol. */
            bool final = status->from_server &&
                         (status->code == BELFRY_GRPC_UNIMPLEMENTED || status->code == BELFRY_GRPC_PERMISSION_DENIED);
            trust->hopeless = mine || final;
            trust_move(trust, TRUST_ABOUT);
            trust_submit(stream, BELFRY_PATH_ABOUT, belfry_clock_ms());
            belfry_carrier_flush(stream->conn);
        }
    } else if (answered) {
        trust_move(trust, TRUST_GOOD);
    } else if (trust->hopeless && status->from_server) {
        trust_move(trust, TRUST_BAD);
    } else {
        trust_retry(stream, belfry_clock_ms());
    }

    belfry_mux_trust_progress(stream->mux, trust->state == TRUST_GOOD);
    if (trust->state == TRUST_BAD)
        belfry_logf(stream->opts.link.log, BELFRY_LOG_WARN, "progress_not_asked",
                    "endpoint=%s version=\"%s\" why=\"its progress may overtake events (etcd#15220)\"",
                    belfry_carrier_endpoint(stream->conn)->url, trust->version);
    stream->opts.changed(stream->opts.user);
}

/* When to ask the server for its version: only if the version or progress is wanted, and only when the member is known
 * from the stream's headers, so that an answer of another member behind a balancer is recognised. */
static uint64_t trust_due(const struct belfry_stream *stream)
{
    bool wanted = stream->opts.wants_version || belfry_mux_wants_progress(stream->mux);
    return stream->served && wanted && stream->trust.state == TRUST_UNKNOWN ? stream->trust.retry_ms : BELFRY_NEVER;
}

/* ---- the stream ---- */

/* Whether the stream's connection is the link's current one. If not, the link has already put it aside. */
static bool stream_is_current(struct belfry_stream *stream)
{
    return stream->conn != NULL && stream->conn == belfry_pool_conn(stream->link);
}

/* Whether the stream served for a while. A stream that always breaks soon after it began is not success. */
static bool stream_has_lasted(const struct belfry_stream *stream)
{
    return stream->served && belfry_clock_ms() > stream->served_ms + RETRY_MAX_MS;
}

/* The stream ended; watches wait for the next one. */
static void stream_down(struct belfry_stream *stream)
{
    if (stream_has_lasted(stream)) {
        belfry_backoff_reset(&stream->backoff);
        stream->doubts = 0;
    }
    stream->call = NULL;
    stream->conn = NULL;
    stream->member_id = 0;
    stream->served = false;
    trust_reset(&stream->trust);
    stream->retry_ms = belfry_clock_ms() + belfry_backoff_next(&stream->backoff, &stream->rng);
    belfry_mux_stream_down(stream->mux);
    stream->opts.changed(stream->opts.user);
}

/* Ends a stream that is of no use, and leaves the endpoint. */
static void stream_give_up(struct belfry_stream *stream, enum belfry_err err, const char *why)
{
    if (stream->call != NULL)
        belfry_grpc_call_cancel(stream->call);
    bool leave = stream_is_current(stream);
    const char *url = stream->opts.link.endpoints[stream->at].url;
    stream_tell_lost(stream, url, why);
    stream->pieces = false;
    stream_down(stream);
    if (leave)
        belfry_pool_leave(stream->link, err, why);
}

static void token_refused(struct belfry_stream *stream)
{
    belfry_auth_drop(stream->opts.auth);
    if (++stream->refused_tokens >= TOKENS_MAX)
        belfry_mux_auth_is_final(stream->mux, true);
    stream_give_up(stream, BELFRY_ERR_AUTH, "it does not know our token");
}

void belfry_stream_drain(struct belfry_stream *stream)
{
    BELFRY_OWNER_CHECK(stream);
    if (stream->draining)
        return;
    stream->draining = true;
    struct belfry_mux_action action;
    enum belfry_err err;
    while ((err = belfry_mux_next(stream->mux, &action)) == BELFRY_OK) {
        /* The first put of a revision is evidence of the past; not while the evidence is being checked. */
        if (action.act == BELFRY_MUX_EVENTS && !stream->doubt && !stream->opts.owner_judges) {
            struct belfry_inbox_walk walk;
            struct belfry_wire_event event;
            belfry_inbox_walk(&action.group, &walk);
            if (belfry_inbox_walk_next(&walk, &event) == BELFRY_OK)
                belfry_witness_note(&stream->witness, &event);
        }
        belfry_mux_taken(stream->mux, stream->opts.deliver(&action, stream->opts.user));
    }
    stream->draining = false;
    if (err != BELFRY_ERR_AGAIN)
        stream_give_up(stream, err, "it sent a response that cannot be read");
}

static void send_requests(struct belfry_stream *stream, uint64_t now_ms)
{
    while (stream->call != NULL) {
        enum belfry_err err = belfry_mux_pull(stream->mux, now_ms, &stream->scratch);
        if (err == BELFRY_ERR_AGAIN)
            return;
        if (err == BELFRY_OK)
            err = belfry_grpc_call_send(stream->call, belfry_buf_bytes(&stream->scratch));
        belfry_buf_clear(&stream->scratch);
        if (err != BELFRY_OK)
            stream_give_up(stream, err, belfry_strerror(err));
    }
}

/* Until the server learns of a pause, a paused watch holds what arrives: whole responses for very many watches would be
 * too much. */
static void limit_messages(struct belfry_stream *stream)
{
    size_t held = belfry_mux_held_bytes(stream->mux), room = held < HELD_BYTES ? HELD_BYTES - held : 0;
    if (stream->call == NULL || stream->pieces)
        return;
    belfry_grpc_call_limit(stream->call, room < WHOLE_LEAST ? WHOLE_LEAST : room < WHOLE_BYTES ? room : WHOLE_BYTES);
}

static void on_message(struct belfry_grpc_call *call, struct belfry_blob *message, void *user)
{
    struct belfry_stream *stream = user;
    struct belfry_bytes bytes = belfry_blob_bytes(message);
    (void)call;

    /* The member, and whether its cluster is the one that we know. */
    struct belfry_wire_header header;
    if (belfry_scan_response_header(bytes, &header) == BELFRY_OK) {
        if (header.member_id != 0)
            stream->member_id = header.member_id;
        if (!belfry_cluster_identity_check(stream->opts.identity, stream->at, &header)) {
            if (belfry_cluster_identity_lost(stream->opts.identity))
                belfry_mux_fail(stream->mux, BELFRY_ERR_CLUSTER,
                                "every endpoint belongs to another cluster than before");
            stream_give_up(stream, BELFRY_ERR_CLUSTER, "it belongs to another cluster than before");
            return;
        }
    }

    /* The watch whose create the message confirms, if the owner wants to know; the mux forgets it with the message. */
    struct belfry_wire_watch response;
    struct belfry_mux_watch *created = stream->opts.created != NULL ? belfry_mux_creating(stream->mux) : NULL;
    if (created != NULL && (belfry_scan_watch(bytes, &response) != BELFRY_OK || !response.created ||
                            response.canceled || response.watch_id == -1))
        created = NULL;

    enum belfry_err err = belfry_mux_message(stream->mux, message, belfry_clock_ms());
    if (err == BELFRY_ERR_AUTH) {
        token_refused(stream);
        return;
    }
    if (err != BELFRY_OK) {
        stream_give_up(stream, err, belfry_strerror(err));
        return;
    }
    stream->refused_tokens = 0;

    if (!stream->served) { /* the first message */
        char text[TEXT_MAX];
        stream->doubt = stream->ever_served && stream->witness.rev > 0;
        stream->served = stream->ever_served = true;
        stream->served_ms = belfry_clock_ms();
        belfry_pool_good(stream->link, stream->conn);
        snprintf(text, sizeof(text), "connected to %s", belfry_carrier_endpoint(stream->conn)->url);
        stream_tell(stream, text);
    }
    if (created != NULL)
        stream->opts.created(created, &response.header, stream->opts.user);
    belfry_stream_drain(stream);
    limit_messages(stream);
    send_requests(stream, belfry_clock_ms());
    stream->opts.changed(stream->opts.user);
}

/* Whether this status ends the watches. */
static bool status_is_final(const struct belfry_stream *stream, const struct belfry_grpc_status *status)
{
    switch (belfry_status_fate(status)) {
    case BELFRY_FATE_RETRY:
        return false;
    case BELFRY_FATE_DOUBT: /* a server that never served is a wrong address, not an etcd in trouble */
        return stream->doubts > DOUBTS_MAX && !stream->opts.patient &&
               (!stream->ever_served || belfry_clock_ms() - stream->doubts_since_ms >= DOUBTS_MS);
    case BELFRY_FATE_FOREIGN: /* another endpoint may be etcd; if one ever was, this is temporary */
        return !stream->ever_served && belfry_pool_exhausted(stream->link);
    case BELFRY_FATE_END:
        return true;
    }
    return false;
}

/* The error with which a status ends the watches. A status about one range in a reply concerns the stream here. */
static enum belfry_err end_err(const struct belfry_grpc_status *status)
{
    switch (belfry_status_fate(status)) {
    case BELFRY_FATE_DOUBT:
        return BELFRY_ERR_REFUSED;
    case BELFRY_FATE_FOREIGN:
        return BELFRY_ERR_UNSUPPORTED;
    case BELFRY_FATE_RETRY:
    case BELFRY_FATE_END:
        break;
    }
    return belfry_status_err(status);
}

static void stream_fail_all(struct belfry_stream *stream, const struct belfry_grpc_status *status, const char *url,
                            const char *why)
{
    char full[TEXT_MAX * 2], times[FIRST_MAX + 64] = "";
    if (stream->doubts > 0 && strncmp(stream->first_doubt, why, FIRST_MAX - 1) == 0) /* compares the kept part */
        snprintf(times, sizeof(times), ", %u times in a row", stream->doubts);
    else if (stream->doubts > 0)
        snprintf(times, sizeof(times), ", the last of %u in a row; the first: %s", stream->doubts, stream->first_doubt);
    snprintf(full, sizeof(full), "%s: %s (gRPC status %d%s)", url, why, status->code, times);
    stream->doubts = 0;
    belfry_mux_fail(stream->mux, end_err(status), full);
}

static void on_closed(struct belfry_grpc_call *call, const struct belfry_grpc_status *status, void *user)
{
    struct belfry_stream *stream = user;
    char why[TEXT_MAX];
    bool leave = status->from_server && stream_is_current(stream);
    (void)call;
    stream->call = NULL;
    const char *url = belfry_carrier_endpoint(stream->conn)->url;
    if (belfry_status_is_auth(status) && stream->opts.auth->state != BELFRY_AUTH_NONE &&
        stream->refused_tokens < TOKENS_MAX) {
        token_refused(stream);
        return;
    }
    if (!stream->pieces && belfry_status_err(status) == BELFRY_ERR_TOO_LARGE) {
        /* Changes of very many keys in one revision are requested whole, because etcd's time to cut them into pieces
         * grows with the square of their number (docs/decisions/0029). If they are too large for that, they are
         * requested in pieces until the stream is lost again. */
        stream_down(stream);
        stream->pieces = true;
        stream->retry_ms = 0;
        return;
    }
    snprintf(why, sizeof(why), "%s", status->message[0] != '\0' ? status->message : "the stream ended");
    stream_tell_lost(stream, url, why);

    /* A doubtful status counts, unless the stream had served well before it. */
    bool doubtful = belfry_status_fate(status) == BELFRY_FATE_DOUBT && !stream_has_lasted(stream);
    stream->doubts = doubtful ? stream->doubts + 1 : 0;
    if (stream->doubts == 1) {
        stream->doubts_since_ms = belfry_clock_ms();
        snprintf(stream->first_doubt, sizeof(stream->first_doubt), "%.*s", FIRST_MAX - 1, why);
    }
    if (status_is_final(stream, status))
        stream_fail_all(stream, status, url, why);
    stream->pieces = false;
    stream_down(stream);
    if (leave)
        belfry_pool_leave(stream->link, BELFRY_ERR_UNAVAILABLE, why);
}

static const struct belfry_grpc_events grpc_events = {.message = on_message, .closed = on_closed};

static void open_stream(struct belfry_stream *stream, struct belfry_carrier *conn, uint64_t now_ms)
{
    struct belfry_http_field metadata[2];
    size_t n = 0;
    const char *token = belfry_auth_token(stream->opts.auth);
    if (token != NULL)
        metadata[n++] = (struct belfry_http_field){belfry_bytes_str("token"), belfry_bytes_str(token)};
    if (stream->opts.hasleader)
        metadata[n++] = (struct belfry_http_field){belfry_bytes_str("hasleader"), belfry_bytes_str("true")};
    struct belfry_grpc_call_opts opts = {
        .path = WATCH_PATH, .metadata = metadata, .n_metadata = n, .deadline_ms = BELFRY_NEVER};
    if (belfry_grpc_call_open(belfry_carrier_http(conn), &opts, &grpc_events, stream, &stream->call) != BELFRY_OK) {
        stream->retry_ms = now_ms + RETRY_MAX_MS;
        return;
    }
    stream->conn = conn;
    stream->at = belfry_pool_at(stream->link);
    limit_messages(stream);
    belfry_mux_trust_progress(stream->mux, false);
    belfry_mux_in_pieces(stream->mux, stream->pieces);
    belfry_mux_stream_up(stream->mux, now_ms);
}

/* Several streams may share the calls: each requests a token once. */
static void want_token(struct belfry_stream *stream, bool wanted)
{
    if (stream->token_wanted == wanted)
        return;
    stream->token_wanted = wanted;
    belfry_calls_want_token(stream->opts.calls, wanted);
}

/* Opens the stream if it is wanted, the connection is up and the token is new. */
static void pump_stream(struct belfry_stream *stream, uint64_t now_ms)
{
    bool any = belfry_mux_count(stream->mux) > 0;
    belfry_pool_want(stream->link, any);
    limit_messages(stream);
    if (stream->call != NULL && !any) {
        belfry_grpc_call_cancel(stream->call);
        struct belfry_carrier *conn = stream->conn;
        stream_down(stream);
        stream->retry_ms = 0;
        belfry_carrier_flush(conn);
        return;
    }
    struct belfry_carrier *conn = belfry_pool_conn(stream->link);
    bool want =
        stream->call == NULL && belfry_mux_wants_stream(stream->mux) && conn != NULL && now_ms >= stream->retry_ms;
    if (want && !belfry_auth_is_new(stream->opts.auth, now_ms)) {
        belfry_auth_drop(stream->opts.auth);
        want_token(stream, true);
        return;
    }
    want_token(stream, false);
    if (want)
        open_stream(stream, conn, now_ms);
    send_requests(stream, now_ms);
    if (stream->conn != NULL)
        belfry_carrier_flush(stream->conn);
}

/* ---- the store's revision ---- */

static bool is_passing(enum belfry_err err)
{
    return err != BELFRY_ERR_DENIED && err != BELFRY_ERR_AUTH && err != BELFRY_ERR_REFUSED &&
           err != BELFRY_ERR_UNSUPPORTED && err != BELFRY_ERR_CLUSTER;
}

static int64_t revision_of(struct belfry_bytes message)
{
    struct belfry_wire_header header;
    return belfry_scan_response_header(message, &header) == BELFRY_OK ? header.revision : 0;
}

static void on_read(const struct belfry_answer *answer, void *user)
{
    struct belfry_stream *stream = user;
    stream->read = NULL;
    if (answer->err == BELFRY_ERR_CANCELED)
        return;
    int64_t rev = answer->err == BELFRY_OK ? revision_of(answer->message) : 0;
    if (rev > 0)
        belfry_mux_revision(stream->mux, stream->reading.generation, rev);
    else if (answer->err != BELFRY_OK && !is_passing(answer->err))
        belfry_mux_revision_refused(stream->mux, stream->reading.asker, answer->err, answer->why);
    else
        stream->read_retry_ms = belfry_clock_ms() + RETRY_MAX_MS;
    stream->opts.changed(stream->opts.user);
}

/* The past was rewritten: drop all evidence of it. */
static void forget_past(struct belfry_stream *stream)
{
    belfry_witness_forget(&stream->witness);
    stream->doubt = false;
    if (stream->recall != NULL)
        belfry_calls_cancel(stream->recall);
    if (stream->check != NULL)
        belfry_calls_cancel(stream->check);
    stream->recall = stream->check = NULL;
}

static void on_check(const struct belfry_answer *answer, void *user)
{
    struct belfry_stream *stream = user;
    stream->check = NULL;
    int64_t rev = answer->err == BELFRY_OK ? revision_of(answer->message) : 0;
    if (rev > 0 && rev < stream->check_seen)
        forget_past(stream);
    if (rev > 0)
        belfry_mux_judge(stream->mux, stream->check_seen, rev);
    else if (answer->err != BELFRY_ERR_CANCELED)
        stream->read_retry_ms = belfry_clock_ms() + RETRY_MAX_MS;
    if (answer->err != BELFRY_ERR_CANCELED)
        stream->opts.changed(stream->opts.user);
}

static void on_recall(const struct belfry_answer *answer, void *user)
{
    struct belfry_stream *stream = user;
    stream->recall = NULL;
    if (answer->err == BELFRY_ERR_CANCELED)
        return;
    if (answer->err == BELFRY_OK && belfry_witness_contradicts(&stream->witness, answer->message)) {
        char why[TEXT_MAX];
        snprintf(why, sizeof(why),
                 "what was written at revision %lld is not what it was: the cluster was restored from "
                 "a backup",
                 (long long)stream->witness.rev);
        forget_past(stream);
        belfry_mux_rewound(stream->mux, revision_of(answer->message), why);
    }
    if (answer->err != BELFRY_OK && is_passing(answer->err) && answer->err != BELFRY_ERR_COMPACTED &&
        answer->err != BELFRY_ERR_FUTURE)
        stream->read_retry_ms = belfry_clock_ms() + RETRY_MAX_MS;
    else
        stream->doubt = false; /* decided, or no evidence is available */
    stream->opts.changed(stream->opts.user);
}

/* Sends `scratch` as a linearizable Range. */
static void read_range(struct belfry_stream *stream, enum belfry_err err, uint64_t now_ms, belfry_answer_fn fn,
                       struct belfry_call **out)
{
    if (err == BELFRY_OK)
        err = belfry_calls_start(stream->opts.calls, BELFRY_CALL_READ, BELFRY_PATH_RANGE,
                                 belfry_buf_bytes(&stream->scratch), now_ms + READ_MS, fn, stream, out);
    belfry_buf_clear(&stream->scratch);
    if (err != BELFRY_OK)
        stream->read_retry_ms = now_ms + RETRY_MAX_MS;
}

/* A linearizable count of one key: the cheapest way to read the store's revision. */
static void read_revision(struct belfry_stream *stream, struct belfry_bytes key, uint64_t now_ms, belfry_answer_fn fn,
                          struct belfry_call **out)
{
    read_range(stream, belfry_request_count(&stream->scratch, key), now_ms, fn, out);
}

static bool wants_recall(const struct belfry_stream *stream)
{
    return stream->doubt && stream->recall == NULL && belfry_mux_count(stream->mux) > 0;
}

static void stream_recall(struct belfry_stream *stream, uint64_t now_ms)
{
    struct belfry_bytes none = {NULL, 0}, key = belfry_buf_bytes(&stream->witness.key);
    read_range(stream, belfry_request_page(&stream->scratch, key, none, stream->witness.rev, 1), now_ms, on_recall,
               &stream->recall);
}

/* Whether a server showed a lower revision than was seen before, and no check of that is in progress. */
static bool wants_check(const struct belfry_stream *stream, int64_t *seen, struct belfry_bytes *key)
{
    return !stream->opts.owner_judges && stream->check == NULL && belfry_mux_suspects(stream->mux, seen) &&
           belfry_mux_any_key(stream->mux, key);
}

static void pump_reads(struct belfry_stream *stream, uint64_t now_ms)
{
    struct belfry_bytes key;
    if (now_ms < stream->read_retry_ms)
        return;
    if (stream->read == NULL && belfry_mux_wants_revision(stream->mux, &stream->reading))
        read_revision(stream, stream->reading.key, now_ms, on_read, &stream->read);
    int64_t seen;
    if (wants_check(stream, &seen, &key)) {
        stream->check_seen = seen;
        read_revision(stream, key, now_ms, on_check, &stream->check);
    }
    if (wants_recall(stream))
        stream_recall(stream, now_ms);
}

/* ---- callbacks and public functions ---- */

static void on_link_up(struct belfry_pool *link, struct belfry_carrier *conn, void *user)
{
    struct belfry_stream *stream = user;
    (void)link, (void)conn;
    stream->opts.changed(stream->opts.user);
}

static void on_link_down(struct belfry_pool *link, enum belfry_err err, void *user)
{
    struct belfry_stream *stream = user;
    (void)err;
    if (belfry_pool_exhausted(link) && stream->call == NULL) {
        char text[TEXT_MAX], all[TEXT_MAX - 32];
        belfry_pool_describe(link, all, sizeof(all));
        snprintf(text, sizeof(text), "no endpoint answers: %s", all);
        stream_tell(stream, text);
    }
    stream->opts.changed(stream->opts.user);
}

static const struct belfry_pool_events link_events = {.up = on_link_up, .down = on_link_down};

enum belfry_err belfry_stream_create(const struct belfry_stream_opts *opts, struct belfry_stream **out)
{
    struct belfry_stream *stream = calloc(1, sizeof(*stream));
    if (stream == NULL)
        return BELFRY_ERR_NOMEM;
    stream->opts = *opts;
    stream->rng.state = opts->link.seed + 1;
    belfry_backoff_init(&stream->backoff, RETRY_MS, RETRY_MAX_MS);
    belfry_buf_init(&stream->scratch);
    belfry_witness_init(&stream->witness);
    belfry_backoff_init(&stream->trust.backoff, TRUST_RETRY_MS, TRUST_RETRY_MAX_MS);
    struct belfry_mux_opts mux = {.max_revision_bytes = opts->max_revision_bytes != 0 ? opts->max_revision_bytes
                                                                                      : opts->max_message_bytes,
                                  .progress_gap_ms = opts->progress_gap_ms,
                                  .progress_wait_ms = opts->progress_wait_ms,
                                  .log = opts->link.log};
    enum belfry_err err = belfry_mux_create(&mux, &stream->mux);
    if (err == BELFRY_OK)
        err = belfry_link_create(&opts->link, &link_events, stream, &stream->link);
    if (err != BELFRY_OK) {
        belfry_mux_destroy(stream->mux);
        free(stream);
        return err;
    }
    if (opts->auth->state == BELFRY_AUTH_NONE)
        belfry_mux_auth_is_final(stream->mux, true);
    BELFRY_OWNER_INIT(stream);
    *out = stream;
    return BELFRY_OK;
}

void belfry_stream_destroy(struct belfry_stream *stream)
{
    if (stream == NULL)
        return;
    BELFRY_OWNER_CHECK(stream);
    if (stream->call != NULL)
        belfry_grpc_call_cancel(stream->call);
    trust_reset(&stream->trust);
    want_token(stream, false);
    if (stream->read != NULL)
        belfry_calls_cancel(stream->read);
    if (stream->check != NULL)
        belfry_calls_cancel(stream->check);
    if (stream->recall != NULL)
        belfry_calls_cancel(stream->recall);
    belfry_pool_destroy(stream->link, "the connection was closed");
    belfry_mux_destroy(stream->mux);
    belfry_buf_fini(&stream->scratch);
    belfry_witness_fini(&stream->witness);
    free(stream);
}

struct belfry_mux *belfry_stream_mux(struct belfry_stream *stream)
{
    BELFRY_OWNER_CHECK(stream);
    return stream->mux;
}

struct belfry_pool *belfry_stream_link(struct belfry_stream *stream)
{
    BELFRY_OWNER_CHECK(stream);
    return stream->link;
}

const char *belfry_stream_endpoint(const struct belfry_stream *stream)
{
    return stream->served ? stream->opts.link.endpoints[stream->at].url : NULL;
}

struct belfry_carrier *belfry_stream_conn(const struct belfry_stream *stream)
{
    return stream->served ? stream->conn : NULL;
}

bool belfry_stream_version(const struct belfry_stream *stream, const char **version)
{
    *version = stream->trust.version;
    return stream->trust.state == TRUST_GOOD || stream->trust.state == TRUST_BAD;
}

bool belfry_stream_tells_progress(const struct belfry_stream *stream)
{
    return stream->trust.state != TRUST_BAD;
}

void belfry_stream_leave(struct belfry_stream *stream, enum belfry_err err, const char *why)
{
    BELFRY_OWNER_CHECK(stream);
    if (stream->call != NULL)
        stream_give_up(stream, err, why);
}

void belfry_stream_pump(struct belfry_stream *stream, uint64_t now_ms)
{
    BELFRY_OWNER_CHECK(stream);
    if (belfry_mux_tick(stream->mux, now_ms) != BELFRY_OK)
        stream_give_up(stream, BELFRY_ERR_TIMEOUT, "it does not answer a create");
    belfry_stream_drain(stream);
    pump_reads(stream, now_ms);
    if (now_ms >= trust_due(stream)) { /* pump_stream() flushes the connection */
        trust_move(&stream->trust, TRUST_ASKING);
        stream->trust.member_id = stream->member_id;
        trust_submit(stream, BELFRY_PATH_STATUS, now_ms);
    }
    pump_stream(stream, now_ms);
}

uint64_t belfry_stream_due(const struct belfry_stream *stream)
{
    uint64_t due = belfry_min_time(belfry_mux_due(stream->mux), trust_due(stream));
    struct belfry_mux_read read;
    struct belfry_bytes key;
    int64_t seen;
    if (stream->call == NULL && belfry_mux_wants_stream(stream->mux) && belfry_pool_conn(stream->link) != NULL &&
        belfry_auth_ready(stream->opts.auth))
        due = belfry_min_time(due, stream->retry_ms);
    if (wants_recall(stream) || (stream->read == NULL && belfry_mux_wants_revision(stream->mux, &read)) ||
        wants_check(stream, &seen, &key))
        due = belfry_min_time(due, stream->read_retry_ms);
    return due;
}
