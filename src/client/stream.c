/* src/client/stream.c */
#include "client/stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "base/owner.h"
#include "client/etcd_request.h"
#include "client/etcd_status.h"
#include "client/trust.h"
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
    struct belfry_trust trust;     /* whether that server's progress can be believed */
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

static void tell(struct belfry_stream *stream, const char *text)
{
    if (strcmp(stream->text, text) == 0)
        return;
    snprintf(stream->text, sizeof(stream->text), "%s", text);
    stream->opts.link_text(stream->text, stream->opts.user);
}

static void tell_lost(struct belfry_stream *stream, const char *url, const char *why)
{
    char text[TEXT_MAX];
    snprintf(text, sizeof(text), "lost %s: %.760s", url, why);
    tell(stream, text);
}

/* ---- the stream ---- */

/* Whether the stream's connection is the link's current one. If not, the link has already put it aside. */
static bool is_current(struct belfry_stream *stream)
{
    return stream->conn != NULL && stream->conn == belfry_pool_conn(stream->link);
}

/* Whether the stream served for a while. A stream that always breaks soon after it began is not success. */
static bool has_lasted(const struct belfry_stream *stream)
{
    return stream->served && belfry_clock_ms() > stream->served_ms + RETRY_MAX_MS;
}

/* The stream ended; watches wait for the next one. */
static void down(struct belfry_stream *stream)
{
    if (has_lasted(stream)) {
        belfry_backoff_reset(&stream->backoff);
        stream->doubts = 0;
    }
    stream->call = NULL;
    stream->conn = NULL;
    stream->member_id = 0;
    stream->served = false;
    belfry_trust_reset(&stream->trust);
    stream->retry_ms = belfry_clock_ms() + belfry_backoff_next(&stream->backoff, &stream->rng);
    belfry_mux_stream_down(stream->mux);
    stream->opts.changed(stream->opts.user);
}

/* Ends a stream that is of no use, and leaves the endpoint. */
static void give_up(struct belfry_stream *stream, enum belfry_err err, const char *why)
{
    if (stream->call != NULL)
        belfry_grpc_call_cancel(stream->call);
    bool leave = is_current(stream);
    const char *url = stream->opts.link.endpoints[stream->at].url;
    tell_lost(stream, url, why);
    stream->pieces = false;
    down(stream);
    if (leave)
        belfry_pool_leave(stream->link, err, why);
}

static void token_refused(struct belfry_stream *stream)
{
    belfry_auth_drop(stream->opts.auth);
    if (++stream->refused_tokens >= TOKENS_MAX)
        belfry_mux_auth_is_final(stream->mux, true);
    give_up(stream, BELFRY_ERR_AUTH, "it does not know our token");
}

static void other_cluster(struct belfry_stream *stream)
{
    if (belfry_cluster_identity_lost(stream->opts.identity))
        belfry_mux_fail(stream->mux, BELFRY_ERR_CLUSTER, "every endpoint belongs to another cluster than before");
    give_up(stream, BELFRY_ERR_CLUSTER, "it belongs to another cluster than before");
}

/* Keeps the first put of a revision as evidence of the past; not while the evidence is being checked. */
static void remember(struct belfry_stream *stream, const struct belfry_mux_action *action)
{
    struct belfry_inbox_walk walk;
    struct belfry_wire_event event;
    if (action->act != BELFRY_MUX_EVENTS || stream->doubt || stream->opts.owner_judges)
        return;
    belfry_inbox_walk(&action->group, &walk);
    if (belfry_inbox_walk_next(&walk, &event) == BELFRY_OK)
        belfry_witness_note(&stream->witness, &event);
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
        remember(stream, &action);
        belfry_mux_taken(stream->mux, stream->opts.deliver(&action, stream->opts.user));
    }
    stream->draining = false;
    if (err != BELFRY_ERR_AGAIN)
        give_up(stream, err, "it sent a response that cannot be read");
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
            give_up(stream, err, belfry_strerror(err));
    }
}

static bool check_header(struct belfry_stream *stream, struct belfry_blob *message)
{
    struct belfry_wire_header header;
    if (belfry_scan_response_header(belfry_blob_bytes(message), &header) != BELFRY_OK)
        return true;
    if (header.member_id != 0)
        stream->member_id = header.member_id;
    return belfry_cluster_identity_check(stream->opts.identity, stream->at, &header);
}

static void first_message(struct belfry_stream *stream)
{
    char text[TEXT_MAX];
    stream->doubt = stream->ever_served && stream->witness.rev > 0;
    stream->served = stream->ever_served = true;
    stream->served_ms = belfry_clock_ms();
    belfry_pool_good(stream->link, stream->conn);
    snprintf(text, sizeof(text), "connected to %s", belfry_carrier_endpoint(stream->conn)->url);
    tell(stream, text);
}

/* The watch whose create the message confirms, if the owner wants to know; otherwise NULL. */
static struct belfry_mux_watch *created_by(const struct belfry_stream *stream, const struct belfry_blob *message,
                                           struct belfry_wire_header *header)
{
    struct belfry_wire_watch response;
    struct belfry_mux_watch *watch = stream->opts.created != NULL ? belfry_mux_creating(stream->mux) : NULL;
    if (watch == NULL || belfry_scan_watch(belfry_blob_bytes(message), &response) != BELFRY_OK || !response.created ||
        response.canceled || response.watch_id == -1)
        return NULL;
    *header = response.header;
    return watch;
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
    (void)call;
    if (!check_header(stream, message)) {
        other_cluster(stream);
        return;
    }
    struct belfry_wire_header header;
    struct belfry_mux_watch *created = created_by(stream, message, &header);
    enum belfry_err err = belfry_mux_message(stream->mux, message, belfry_clock_ms());
    if (err == BELFRY_ERR_AUTH) {
        token_refused(stream);
        return;
    }
    if (err != BELFRY_OK) {
        give_up(stream, err, belfry_strerror(err));
        return;
    }
    stream->refused_tokens = 0;
    if (!stream->served)
        first_message(stream);
    if (created != NULL)
        stream->opts.created(created, &header, stream->opts.user);
    belfry_stream_drain(stream);
    limit_messages(stream);
    send_requests(stream, belfry_clock_ms());
    stream->opts.changed(stream->opts.user);
}

/* Counts a doubtful status, unless the stream had served well before it. */
static void count_doubt(struct belfry_stream *stream, const struct belfry_grpc_status *status, const char *why)
{
    bool doubtful = belfry_status_fate(status) == BELFRY_FATE_DOUBT && !has_lasted(stream);
    stream->doubts = doubtful ? stream->doubts + 1 : 0;
    if (stream->doubts != 1)
        return;
    stream->doubts_since_ms = belfry_clock_ms();
    snprintf(stream->first_doubt, sizeof(stream->first_doubt), "%.*s", FIRST_MAX - 1, why);
}

/* Whether they suffice to end the watches. A server that never served is a wrong address, not an etcd in trouble. */
static bool doubts_are_enough(const struct belfry_stream *stream)
{
    return stream->doubts > DOUBTS_MAX && !stream->opts.patient &&
           (!stream->ever_served || belfry_clock_ms() - stream->doubts_since_ms >= DOUBTS_MS);
}

/* Whether this status ends the watches. */
static bool is_final(const struct belfry_stream *stream, const struct belfry_grpc_status *status)
{
    switch (belfry_status_fate(status)) {
    case BELFRY_FATE_RETRY:
        return false;
    case BELFRY_FATE_DOUBT:
        return doubts_are_enough(stream);
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

static void fail_all(struct belfry_stream *stream, const struct belfry_grpc_status *status, const char *url,
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

/* Changes of very many keys in one revision are requested whole, because etcd's time to cut them into pieces grows with
 * the square of their number (docs/decisions/0029). If they are too large for that, they are requested in pieces until
 * the stream is lost again. */
static void again_in_pieces(struct belfry_stream *stream)
{
    down(stream);
    stream->pieces = true;
    stream->retry_ms = 0;
}

static void on_closed(struct belfry_grpc_call *call, const struct belfry_grpc_status *status, void *user)
{
    struct belfry_stream *stream = user;
    char why[TEXT_MAX];
    bool leave = status->from_server && is_current(stream);
    (void)call;
    stream->call = NULL;
    const char *url = belfry_carrier_endpoint(stream->conn)->url;
    if (belfry_status_is_auth(status) && stream->opts.auth->state != BELFRY_AUTH_NONE &&
        stream->refused_tokens < TOKENS_MAX) {
        token_refused(stream);
        return;
    }
    if (!stream->pieces && belfry_status_err(status) == BELFRY_ERR_TOO_LARGE) {
        again_in_pieces(stream);
        return;
    }
    snprintf(why, sizeof(why), "%s", status->message[0] != '\0' ? status->message : "the stream ended");
    tell_lost(stream, url, why);
    count_doubt(stream, status, why);
    if (is_final(stream, status))
        fail_all(stream, status, url, why);
    stream->pieces = false;
    down(stream);
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
        down(stream);
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

/* ---- the server's version ---- */

static void on_trust(void *user)
{
    struct belfry_stream *stream = user;
    belfry_mux_trust_progress(stream->mux, stream->trust.state == BELFRY_TRUST_GOOD);
    if (stream->trust.state == BELFRY_TRUST_BAD)
        belfry_logf(stream->opts.link.log, BELFRY_LOG_WARN, "progress_not_asked",
                    "endpoint=%s version=\"%s\" why=\"its progress may overtake events (etcd#15220)\"",
                    belfry_carrier_endpoint(stream->conn)->url, stream->trust.version);
    stream->opts.changed(stream->opts.user);
}

/* When to ask the server for its version: only if the version or progress is wanted, and only when the member is
 * known. */
static uint64_t trust_due(const struct belfry_stream *stream)
{
    bool wanted = stream->opts.wants_version || belfry_mux_wants_progress(stream->mux);
    return stream->served && wanted ? belfry_trust_due(&stream->trust) : BELFRY_NEVER;
}

static void pump_trust(struct belfry_stream *stream, uint64_t now_ms)
{
    if (now_ms >= trust_due(stream))
        belfry_trust_ask(&stream->trust, stream->conn, stream->member_id, now_ms);
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

static void recall(struct belfry_stream *stream, uint64_t now_ms)
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
        recall(stream, now_ms);
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
        tell(stream, text);
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
    belfry_trust_init(&stream->trust, on_trust, stream, &stream->rng);
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
    belfry_trust_reset(&stream->trust);
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
    return stream->trust.state == BELFRY_TRUST_GOOD || stream->trust.state == BELFRY_TRUST_BAD;
}

bool belfry_stream_tells_progress(const struct belfry_stream *stream)
{
    return stream->trust.state != BELFRY_TRUST_BAD;
}

void belfry_stream_leave(struct belfry_stream *stream, enum belfry_err err, const char *why)
{
    BELFRY_OWNER_CHECK(stream);
    if (stream->call != NULL)
        give_up(stream, err, why);
}

void belfry_stream_pump(struct belfry_stream *stream, uint64_t now_ms)
{
    BELFRY_OWNER_CHECK(stream);
    if (belfry_mux_tick(stream->mux, now_ms) != BELFRY_OK)
        give_up(stream, BELFRY_ERR_TIMEOUT, "it does not answer a create");
    belfry_stream_drain(stream);
    pump_reads(stream, now_ms);
    pump_trust(stream, now_ms);
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
