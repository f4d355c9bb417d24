/* src/serve/sse/sse_stream.c */
#include "serve/sse/sse_stream.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/owner.h"
#include "base/pack.h"
#include "base/rng.h"
#include "core/watcher.h"
#include "serve/sse/sse_forms.h"
#include "serve/sse/sse_text.h"
#include "server/roster.h"
#include "wire/scan.h"

#define ROUND_STEP        512  /* streams that a round visits per turn */
#define TURN_DUE          256  /* streams whose time has come, per turn */
#define LOOK_MS           1000 /* between two visits of streams inside a message */
#define LOOK_MAX          1024 /* of them per visit */
#define ASK_AGAIN_MS      1000 /* after upstream could not be asked about rights; up to as much is added */
#define STATE_LEAST_ROOM  EXCHANGE_ROOM_LOW
#define H2_INTERNAL_ERROR 2
#define HEAD_FIELDS       3 /* of every stream */
#define HEAD_MORE         8 /* sse_ask.fields, at most */
#define CLIENT_BYTES      63

struct sse_streams {
    struct sse_streams_opts opts;
    struct worker *worker;
    struct sse_forms *forms;
    struct belfry_rng rng;
    uint32_t tag;

    struct roster roster;            /* every stream */
    struct belfry_list inside;       /* streams that were sent a part of a message */
    uint64_t look_ms;                /* when `inside` is visited next */
    struct belfry_list states;       /* streams whose next part of the state can be read */
    uint32_t picks[SSE_PART_EVENTS]; /* for the events of one part that a stream wants */

    bool draining; /* streams of connections that were told to leave end */
    uint64_t drain_end_ms;
    struct sse_stats stats;
    BELFRY_OWNER;
};

/* The state of a stream's ranges, read from the store step by step. All steps show one revision: the first determines
 * it, the others read the store as it was then. Each is a short snapshot of its own, so a client that stops reading
 * keeps no page of the store. */
struct sse_state {
    size_t at;              /* the range that is being read; ranges.n: all were */
    struct belfry_buf next; /* where in it; empty: at its beginning */
    int64_t rev;            /* 0: no step was made */
    uint64_t past;          /* of rev */
    uint64_t cluster_id;    /* likewise */
    uint64_t n;             /* keys so far */
};

/* Drawn in sse_stream.h. */
enum sse_stream_state { SSE_NEW, SSE_ASKING, SSE_FENCING, SSE_STATE, SSE_LIVE };

/* The right to one range. */
struct sse_claim {
    struct sse_stream *stream;
    struct permit_question *question; /* NULL: none */
    bool granted;                     /* it was, at some time */
    bool held;
};

struct sse_stream {
    struct sse_streams *streams;
    struct exchange *x;
    struct shares_conn *share;   /* its connection's */
    enum sse_stream_state state; /* moved by sse_stream_move_to() alone */
    struct fence_wait *wait;     /* FENCING */
    struct sse_state *snapshot;  /* STATE; owned */
    struct stream *stream;       /* LIVE: the core's */
    enum sse_value value;
    bool wants_snapshot;
    bool headed;        /* the head of the response was sent */
    bool has_id;        /* the client says where it is */
    struct sse_id id;   /* that */
    int64_t from;       /* LIVE: changes above this revision */
    int64_t part_rev;   /* the last revision of which a part was sent */
    uint64_t rewritten; /* LIVE: worker_rewritten() when it began */

    struct permit_party party;
    struct sse_ranges ranges;
    struct sse_claim *claims; /* one for each range; in the same allocation */
    size_t n_held;            /* of them */

    struct roster_entry roster; /* due: the smallest of the times below */
    struct belfry_list inside, states;
    uint64_t end_ms, ask_ms, beat_ms, ticket_ms; /* ticket_ms: when the next ticket is due */
    int64_t born_s;                              /* of its chain of tickets */
    uint64_t beat_bytes;                         /* sent_bytes when it was last looked at for a heartbeat */
    uint64_t opened_ms, sent_bytes;
    size_t told;        /* bytes that the core may still write */
    size_t bytes;       /* as counted in the stats */
    size_t watch_bytes; /* with the core's, as counted as SHARES_WATCH_BYTES */

    struct identity who; /* this and the rest: in the same allocation */
    const char *client;
    struct belfry_http_field fields[HEAD_MORE];
    size_t n_fields;
};

static struct sse_stream *stream_of(struct roster_entry *entry)
{
    return entry == NULL ? NULL : belfry_container(entry, struct sse_stream, roster);
}

static void ask_for_turn(const struct sse_streams *streams)
{
    streams->opts.work(streams->opts.user);
}

static uint64_t now_of(const struct sse_streams *streams)
{
    return streams->opts.now(streams->opts.user);
}

static void sse_stream_move_to(struct sse_stream *stream, enum sse_stream_state to)
{
    assert(to > stream->state || stream->state == SSE_LIVE || stream->state == SSE_STATE);
    stream->state = to;
}

static void sse_stream_set_due(struct sse_stream *stream)
{
    uint64_t due_ms = belfry_min_time(belfry_min_time(stream->end_ms, stream->ask_ms), stream->beat_ms);
    roster_set_due(&stream->streams->roster, &stream->roster, belfry_min_time(due_ms, stream->ticket_ms));
}

static bool is_over_memory(const struct sse_streams *streams)
{
    struct worker_stats core;
    if (streams->opts.memory_max == 0)
        return false;
    worker_stats(streams->worker, &core);
    return core.bytes + streams->stats.bytes > streams->opts.memory_max;
}

/* After it has come, or its source has changed. */
static void sse_stream_count_bytes(struct sse_stream *stream, size_t own)
{
    size_t all = own + (stream->snapshot == NULL ? 0 : sizeof(*stream->snapshot)) +
                 (stream->stream == NULL ? 0 : stream_bytes(stream->stream));
    shares_count(stream->share, SHARES_WATCH_BYTES, stream->watch_bytes, all);
    stream->watch_bytes = all;
}

/* ---- ending ---- */

/* The core's stream, or the state that was being sent. */
static void sse_stream_drop_source(struct sse_stream *stream)
{
    if (stream->snapshot != NULL)
        belfry_buf_fini(&stream->snapshot->next);
    free(stream->snapshot);
    stream->snapshot = NULL;
    belfry_list_remove(&stream->states);
    belfry_list_remove(&stream->inside);
    if (stream->stream != NULL)
        stream_close(stream->streams->worker, stream->stream);
    stream->stream = NULL;
    stream->told = 0;
}

/* The exchange has ended already. */
static void sse_stream_free(struct sse_stream *stream)
{
    struct sse_streams *streams = stream->streams;
    for (size_t i = 0; i < stream->ranges.n; i++)
        if (stream->claims[i].question != NULL)
            permit_cancel(stream->claims[i].question);
    permit_leave(streams->opts.permit, &stream->party);
    if (stream->wait != NULL)
        fence_cancel(stream->wait);
    sse_stream_drop_source(stream);
    roster_leave(&streams->roster, &stream->roster);
    streams->stats.streams--;
    shares_count(stream->share, SHARES_WATCHERS, 1, 0);
    streams->stats.bytes -= stream->bytes;
    sse_stream_count_bytes(stream, 0);
    ask_for_turn(streams); /* the core has to remove its watcher */
    free(stream);
}

static bool is_inside(const struct sse_stream *stream)
{
    size_t bytes;
    return stream->stream != NULL && stream_inside_since(stream->stream, &bytes) != 0;
}

/* Every stream's fields, and `more`. Returns how many. */
static size_t head_fields(const struct belfry_http_field *more, size_t n,
                          struct belfry_http_field fields[HEAD_FIELDS + HEAD_MORE])
{
    fields[0] = (struct belfry_http_field){belfry_bytes_str("content-type"), belfry_bytes_str("text/event-stream")};
    fields[1] = (struct belfry_http_field){belfry_bytes_str("cache-control"), belfry_bytes_str("no-store")};
    fields[2] = (struct belfry_http_field){belfry_bytes_str("x-accel-buffering"), belfry_bytes_str("no")};
    assert(n <= HEAD_MORE);
    for (size_t i = 0; i < n; i++)
        fields[HEAD_FIELDS + i] = more[i];
    return HEAD_FIELDS + n;
}

/* Clients that come again at once are spread over a time that grows with their number. Without memory `text` stays
 * empty: a client then comes again after a time of its own. */
static void make_retry(struct sse_streams *streams, struct belfry_buf *text)
{
    uint64_t spread_ms = SSE_RETRY_MS + 5 * (uint64_t)streams->stats.streams;
    spread_ms = spread_ms < SSE_RETRY_MAX_MS ? spread_ms : SSE_RETRY_MAX_MS;
    belfry_buf_init(text);
    if (sse_text_retry(SSE_RETRY_MS + belfry_rng_below(&streams->rng, spread_ms), text) != BELFRY_OK)
        belfry_buf_clear(text);
}

static void write_retry(struct sse_streams *streams, struct exchange *x)
{
    struct belfry_buf text;
    make_retry(streams, &text);
    exchange_write(x, text.data, belfry_buf_len(&text));
    belfry_buf_fini(&text);
}

void sse_answer_later(struct sse_streams *streams, struct exchange *x, const struct belfry_http_field *more, size_t n,
                      const char *why)
{
    struct belfry_http_field fields[HEAD_FIELDS + HEAD_MORE];
    struct belfry_buf text;
    streams->stats.later++;
    make_retry(streams, &text);
    if (why != NULL && sse_text_comment(why, &text) != BELFRY_OK)
        belfry_buf_clear(&text);
    exchange_answer(x, 200, fields, head_fields(more, n, fields), belfry_buf_bytes(&text));
    belfry_buf_fini(&text);
}

/* A browser takes a message whose end is missing for none; a connection that is cut tells every client. */
static void sse_stream_end(struct sse_stream *stream)
{
    char identity[IDENTITY_SHOWN];
    identity_show(&stream->who, identity);
    belfry_logf(stream->streams->opts.log, BELFRY_LOG_DEBUG, "sse_stream_end", "peer=%s identity=%s sent=%llu",
                exchange_conn(stream->x)->peer, identity, (unsigned long long)stream->sent_bytes);
    if (is_inside(stream)) {
        exchange_reset(stream->x, H2_INTERNAL_ERROR);
    } else if (!stream->headed) {
        sse_answer_later(stream->streams, stream->x, stream->fields, stream->n_fields, NULL);
    } else {
        write_retry(stream->streams, stream->x);
        exchange_end(stream->x, NULL, 0);
    }
    sse_stream_free(stream);
}

static void sse_stream_end_within(struct sse_stream *stream, uint64_t now_ms, uint64_t end_ms)
{
    if (stream->end_ms <= end_ms)
        return;
    uint64_t left = end_ms > now_ms ? end_ms - now_ms : 0;
    stream->end_ms = now_ms + belfry_rng_below(&stream->streams->rng, left + 1);
    sse_stream_set_due(stream);
}

/* ---- writing ---- */

/* The head, once, and when to come again if it ends. */
static void sse_stream_say_head(struct sse_stream *stream)
{
    if (stream->headed)
        return;
    struct belfry_http_field fields[HEAD_FIELDS + HEAD_MORE];
    stream->headed = true;
    exchange_respond(stream->x, 200, fields, head_fields(stream->fields, stream->n_fields, fields));
    exchange_lasts(stream->x);
    write_retry(stream->streams, stream->x);
}

/* A message of our own, between those of the core; `err` is that of making it. False: there was no memory, and the
 * stream has ended. */
static bool sse_stream_say(struct sse_stream *stream, struct belfry_buf *text, enum belfry_err err)
{
    if (err == BELFRY_OK) {
        sse_stream_say_head(stream);
        exchange_write(stream->x, text->data, belfry_buf_len(text));
        stream->sent_bytes += belfry_buf_len(text);
    }
    belfry_buf_fini(text);
    if (err != BELFRY_OK)
        sse_stream_end(stream);
    return err == BELFRY_OK;
}

static void on_core_write(void *stream_user, const uint8_t *data, size_t len)
{
    struct sse_stream *stream = stream_user;
    assert(len <= stream->told);
    stream->told -= len;
    stream->sent_bytes += len;
    exchange_write(stream->x, data, len);
    roster_note_write(&stream->streams->roster, &stream->roster);
}

static bool sse_stream_may_deliver(const struct sse_stream *stream)
{
    const struct sse_streams_opts *opts = &stream->streams->opts;
    return (stream->n_held == stream->ranges.n || permit_regime(opts->permit, &stream->party) == PERMIT_OPEN) &&
           permit_may_deliver(opts->permit, &stream->party, now_of(stream->streams));
}

/* LIVE: how much the core may write. STATE: whether the next part can be read. */
static void sse_stream_tell_room(struct sse_stream *stream)
{
    size_t room = sse_stream_may_deliver(stream) ? exchange_room(stream->x) : 0;
    if (stream->state == SSE_STATE && room >= STATE_LEAST_ROOM && belfry_list_empty(&stream->states)) {
        belfry_list_append(&stream->streams->states, &stream->states);
        ask_for_turn(stream->streams);
    }
    if (stream->state != SSE_LIVE || room == stream->told)
        return;
    stream->told = room;
    stream_writable(stream->streams->worker, stream->stream, room);
    ask_for_turn(stream->streams);
}

/* ---- lines, for the core ---- */

/* What one message is made of: a revision may have a few hundred thousand events, and all that follow a message are
 * shown again for the next. */
static struct lines_part first_of(const struct lines_part *part)
{
    struct lines_part first = *part;
    first.n = part->n < SSE_PART_EVENTS ? part->n : SSE_PART_EVENTS;
    first.open = part->open || first.n < part->n;
    return first;
}

/* The events of the part that are in the ranges; of several ranges the core may show others, too. They are lent until
 * the next call. */
static struct lines_part pick_wanted(struct sse_stream *stream, const struct lines_part *part)
{
    struct lines_part wanted = *part;
    if (stream->ranges.n == 1)
        return wanted;
    wanted.events = stream->streams->picks;
    wanted.n = 0;
    for (uint32_t i = 0; i < part->n; i++)
        if (sse_ranges_have(&stream->ranges, stream->ranges.n,
                            batch_key(part->batch, &part->batch->events[part->events[i]])))
            stream->streams->picks[wanted.n++] = part->events[i];
    return wanted;
}

/* How many events of the part come before, or are, the last of the wanted ones that was used. */
static uint32_t count_used(const struct lines_part *part, const struct lines_part *wanted, uint32_t used)
{
    uint32_t n = 0;
    if (used == wanted->n)
        return part->n;
    while (part->events[n] != wanted->events[used - 1])
        n++;
    return n + 1;
}

static enum belfry_err on_core_revision(void *stream_user, const struct lines_part *all, uint32_t *used,
                                        struct belfry_blob **out)
{
    struct sse_stream *stream = stream_user;
    struct sse_streams *streams = stream->streams;
    struct lines_part part = first_of(all), wanted = pick_wanted(stream, &part);
    *out = NULL;
    *used = part.n;
    bool ends_parts = !part.open && stream->part_rev == part.batch->rev;
    if (wanted.n == 0 && !ends_parts)
        return BELFRY_OK;
    enum belfry_err err = sse_forms_revision(streams->forms, &wanted, stream->value, streams->tag, used, out);
    if (err != BELFRY_OK)
        return err;
    if (part.open || *used < wanted.n)
        stream->part_rev = part.batch->rev;
    *used = count_used(&part, &wanted, *used);
    streams->stats.messages++;
    return BELFRY_OK;
}

static enum belfry_err on_core_progress(void *stream_user, int64_t rev, struct belfry_blob **out)
{
    struct sse_stream *stream = stream_user;
    return sse_forms_progress(stream->streams->forms, rev, stream->streams->tag, out);
}

/* What the client is told depends on the core's place, which is not known inside of it: here only that something was
 * written. */
static enum belfry_err on_core_lost(void *stream_user, int64_t compact_rev, struct belfry_blob **out)
{
    (void)stream_user, (void)compact_rev;
    return belfry_blob_copy(belfry_bytes_str(SSE_HEARTBEAT), out);
}

static const struct lines sse_lines = {
    .revision = on_core_revision, .progress = on_core_progress, .lost = on_core_lost, .write = on_core_write};

/* ---- going live ---- */

static enum belfry_err sse_stream_create_watcher(struct sse_stream *stream)
{
    struct range ranges[SSE_RANGES];
    struct belfry_buf key, end;
    struct stream_create create = {.key = stream->ranges.list[0].key,
                                   .range_end = stream->ranges.list[0].end,
                                   .start_rev = stream->from < INT64_MAX ? stream->from + 1 : INT64_MAX,
                                   .flags = WATCHER_PROGRESS};
    belfry_buf_init(&key);
    belfry_buf_init(&end);
    enum belfry_err err = BELFRY_OK;
    if (stream->ranges.n > 1) {
        for (size_t i = 0; i < stream->ranges.n; i++)
            ranges[i] = stream->ranges.list[i].range;
        err = sse_ranges_hull(&stream->ranges, &key, &end);
        create.key = belfry_buf_bytes(&key);
        create.range_end = belfry_buf_bytes(&end);
        create.ranges = ranges;
        create.n_ranges = stream->ranges.n;
    }
    if (err == BELFRY_OK)
        err = stream_create(stream->streams->worker, stream->stream, &create);
    belfry_buf_fini(&key);
    belfry_buf_fini(&end);
    return err;
}

/* Opens the core's stream: the client receives every change after `from`. */
static void sse_stream_go_live(struct sse_stream *stream, int64_t from)
{
    struct sse_streams *streams = stream->streams;
    stream->from = from;
    stream->part_rev = 0;
    stream->rewritten = worker_rewritten(streams->worker);
    sse_stream_say_head(stream);
    enum belfry_err err = stream_open_lines(streams->worker, stream, &sse_lines, now_of(streams), &stream->stream);
    if (err == BELFRY_OK) {
        stream_set_client(stream->stream, shares_source(stream->share));
        stream_set_progress(streams->worker, stream->stream, SSE_PROGRESS_MS);
        err = sse_stream_create_watcher(stream);
    }
    sse_stream_count_bytes(stream, stream->bytes);
    if (err != BELFRY_OK) {
        shares_note_refused(stream->share, SHARES_WATCH_BYTES);
        sse_stream_end(stream);
        return;
    }
    sse_stream_move_to(stream, SSE_LIVE);
    sse_stream_tell_room(stream);
}

static struct sse_id id_at(const struct sse_stream *stream, int64_t rev)
{
    return (struct sse_id){.rev = rev, .tagged = true, .tag = stream->streams->tag};
}

/* From now on: the client is told where that is. `reason` NULL: it has just come. */
static void sse_stream_go_on_from_now(struct sse_stream *stream, const char *reason)
{
    int64_t at = worker_position(stream->streams->worker);
    struct sse_id id = id_at(stream, at);
    struct belfry_buf text;
    belfry_buf_init(&text);
    enum belfry_err err = at == 0          ? BELFRY_ERR_AGAIN
                          : reason == NULL ? sse_text_progress(&id, &text)
                                           : sse_text_reset(&id, reason, &text);
    if (sse_stream_say(stream, &text, err))
        sse_stream_go_live(stream, at);
}

/* ---- the state ---- */

/* Drops what it was doing: the client is told to drop what it has, and receives the state. */
static void sse_stream_begin_state(struct sse_stream *stream, const char *reason)
{
    struct sse_id nothing = {0};
    struct belfry_buf text;
    sse_stream_drop_source(stream);
    belfry_buf_init(&text);
    stream->snapshot = calloc(1, sizeof(*stream->snapshot));
    enum belfry_err err = stream->snapshot == NULL ? BELFRY_ERR_NOMEM : sse_text_reset(&nothing, reason, &text);
    sse_stream_count_bytes(stream, stream->bytes);
    if (!sse_stream_say(stream, &text, err))
        return;
    stream->streams->stats.snapshots++;
    sse_stream_move_to(stream, SSE_STATE);
    sse_stream_tell_room(stream);
}

/* The client has lost its place, or never had one here. */
static void sse_stream_reset(struct sse_stream *stream, const char *reason)
{
    stream->streams->stats.resets++;
    sse_stream_drop_source(stream);
    if (stream->wants_snapshot)
        sse_stream_begin_state(stream, reason);
    else
        sse_stream_go_on_from_now(stream, reason);
}

/* A step under way. */
struct sse_step {
    const struct sse_stream *stream;
    struct belfry_buf changes;
    struct belfry_buf next; /* where the next step goes on: behind the last key */
    uint64_t n;
    enum belfry_err err;
};

/* False: that is enough, or step->err. A key that an earlier range has, too, was given with that. */
static bool on_state_row(struct belfry_bytes key, struct belfry_bytes kv, void *user)
{
    struct sse_step *step = user;
    const struct sse_stream *stream = step->stream;
    belfry_buf_clear(&step->next);
    step->err = belfry_buf_append(&step->next, key.data, key.len);
    if (step->err == BELFRY_OK)
        step->err = belfry_buf_append(&step->next, "", 1);
    if (step->err != BELFRY_OK)
        return false;
    if (!sse_ranges_have(&stream->ranges, stream->snapshot->at, key)) {
        struct belfry_wire_kv fields;
        if (belfry_scan_kv(kv, &fields) != BELFRY_OK) {
            step->err = BELFRY_ERR_IO;
            return false;
        }
        struct sse_change change = {.key = fields.key, .value = fields.value};
        if (belfry_buf_len(&step->changes) > 0)
            step->err = belfry_buf_append(&step->changes, ",", 1);
        if (step->err == BELFRY_OK)
            step->err = sse_text_change(&change, stream->value, &step->changes);
        step->n++;
    }
    return step->err == BELFRY_OK && belfry_buf_len(&step->changes) < SSE_STATE_BYTES;
}

/* Reads a part of the state, and appends its message, if it has one. Errors: BELFRY_ERR_COMPACTED (the revision has
 * left the window), BELFRY_ERR_CANCELED (the past was rewritten since the first step): begin anew. BELFRY_ERR_AGAIN
 * (the store is empty yet), BELFRY_ERR_IO, BELFRY_ERR_NOMEM. */
static enum belfry_err sse_stream_read_state(struct sse_stream *stream, struct belfry_buf *out)
{
    struct sse_state *state = stream->snapshot;
    struct store *store = stream->streams->opts.store;
    struct sse_step step = {.stream = stream};
    struct store_read read = {
        .rev = state->rev, .max_rows = SSE_STATE_ROWS, .max_bytes = SSE_STATE_BYTES, .max_walk = SSE_STATE_WALK};
    struct store_page page;
    struct belfry_buf end;
    belfry_buf_init(&step.changes);
    belfry_buf_init(&step.next);
    belfry_buf_init(&end);

    /* the rows of one range, from where the last step ended */
    enum belfry_err err = sse_range_interval(&stream->ranges.list[state->at], &read.key, &end);
    read.end = belfry_buf_bytes(&end);
    if (belfry_buf_len(&state->next) > 0)
        read.key = belfry_buf_bytes(&state->next);
    if (err == BELFRY_OK)
        err = store->api->range(store, &read, on_state_row, &step, &page);
    if (err == BELFRY_ERR_AGAIN && state->rev != 0)
        err = BELFRY_ERR_CANCELED; /* it was there before */
    if (err == BELFRY_OK)
        err = step.err;

    /* the store must be as the first step found it */
    if (err == BELFRY_OK && page.at == 0)
        err = BELFRY_ERR_AGAIN;
    if (err == BELFRY_OK && state->rev != 0 && page.meta.past != state->past)
        err = BELFRY_ERR_CANCELED;
    if (err == BELFRY_OK && belfry_buf_len(&step.changes) > 0)
        err = sse_text_state(belfry_buf_bytes(&step.changes), out);

    /* the next step goes on behind the last key, or with the next range */
    if (err == BELFRY_OK) {
        state->rev = page.at;
        state->past = page.meta.past;
        state->cluster_id = page.meta.cluster_id;
        state->n += step.n;
        if (!page.more) {
            state->at++;
            belfry_buf_clear(&state->next);
        } else if (belfry_buf_len(&step.next) > 0) {
            struct belfry_buf before = state->next;
            state->next = step.next;
            step.next = before;
        }
    }
    belfry_buf_fini(&end);
    belfry_buf_fini(&step.changes);
    belfry_buf_fini(&step.next);
    return err;
}

/* The whole state was written. The core must be in the same past: in a later one revisions may be lower, and would be
 * waited for in silence; in an earlier one they may be higher, and would be given though they are no more. */
static void sse_stream_end_state(struct sse_stream *stream)
{
    const struct sse_state *state = stream->snapshot;
    uint64_t past = worker_past(stream->streams->worker);
    struct sse_id id = {.rev = state->rev, .tagged = true, .tag = sse_tag(state->cluster_id)};
    struct belfry_buf text;
    if (state->past < past) {
        sse_stream_reset(stream, "rewritten");
        return;
    }
    if (state->past > past) { /* the log is about to be cut: the client comes again */
        sse_stream_end(stream);
        return;
    }
    belfry_buf_init(&text);
    if (!sse_stream_say(stream, &text, sse_text_synced(&id, state->n, &text)))
        return;
    sse_stream_drop_source(stream);
    sse_stream_go_live(stream, id.rev);
}

/* One part of it. */
static void sse_stream_step_state(struct sse_stream *stream)
{
    struct belfry_buf text;
    if (!sse_stream_may_deliver(stream)) /* since it was found that there is room; on_party() or on_verdict() goes on */
        return;
    belfry_buf_init(&text);
    enum belfry_err err = sse_stream_read_state(stream, &text);
    if (err == BELFRY_ERR_COMPACTED || err == BELFRY_ERR_CANCELED) {
        belfry_buf_fini(&text);
        sse_stream_reset(stream, err == BELFRY_ERR_CANCELED ? "rewritten" : "compacted");
    } else if (sse_stream_say(stream, &text, err)) {
        if (stream->snapshot->at == stream->ranges.n)
            sse_stream_end_state(stream);
        else
            sse_stream_tell_room(stream);
    }
}

/* Streams take turns, a part each, while there is time. */
static void step_states(struct sse_streams *streams)
{
    uint64_t until = now_of(streams) + SSE_STATE_TURN;
    struct belfry_list *node;
    do {
        if ((node = belfry_list_pop(&streams->states)) == NULL)
            return;
        sse_stream_step_state(belfry_container(node, struct sse_stream, states));
    } while (now_of(streams) < until);
    if (!belfry_list_empty(&streams->states))
        ask_for_turn(streams);
}

/* ---- where it begins ---- */

static void on_fence(enum belfry_err err, int64_t rev, void *user)
{
    struct sse_stream *stream = user;
    stream->wait = NULL;
    if (err != BELFRY_OK)
        sse_stream_end(stream); /* the client comes again */
    else if (rev < stream->id.rev)
        sse_stream_reset(stream, "ahead");
    else
        sse_stream_go_live(stream, stream->id.rev);
}

/* Its rights are known. */
static void sse_stream_find_start(struct sse_stream *stream)
{
    struct sse_streams *streams = stream->streams;
    if (!stream->has_id || stream->id.rev == 0) {
        if (stream->wants_snapshot)
            sse_stream_begin_state(stream, "snapshot");
        else
            sse_stream_go_on_from_now(stream, NULL);
    } else if (stream->id.tagged && stream->id.tag != streams->tag) {
        sse_stream_reset(stream, "rewritten");
    } else if (stream->id.rev <= worker_position(streams->worker)) {
        sse_stream_go_live(stream, stream->id.rev);
    } else {
        sse_stream_move_to(stream, SSE_FENCING);
        if (fence_ask(streams->opts.fence, &stream->who, stream->ranges.list[0].key, on_fence, stream, &stream->wait) !=
            BELFRY_OK)
            sse_stream_end(stream);
    }
}

/* ---- rights ---- */

static void sse_stream_refuse(struct sse_stream *stream, const char *reason)
{
    static const char denied[] = "upstream does not allow these keys to this user\n";
    bool token = permit_is_about_token(reason);
    struct belfry_http_field fields[1 + HEAD_MORE] = {
        {belfry_bytes_str("content-type"), belfry_bytes_str("text/plain; charset=utf-8")}};
    for (size_t i = 0; i < stream->n_fields; i++)
        fields[1 + i] = stream->fields[i];
    stream->streams->stats.refused++;
    exchange_answer(stream->x, token ? 401 : 403, fields, 1 + stream->n_fields,
                    belfry_bytes_str(token ? permit_unauthorized(reason) : denied));
    sse_stream_free(stream);
}

/* While it runs: the last message says why, and the status of the next request ends it for good. */
static void sse_stream_expel(struct sse_stream *stream, const char *reason)
{
    struct belfry_buf text;
    if (!stream->headed) {
        sse_stream_refuse(stream, reason);
        return;
    }
    stream->streams->stats.expelled++;
    belfry_buf_init(&text);
    if (is_inside(stream)) {
        exchange_reset(stream->x, H2_INTERNAL_ERROR);
    } else {
        const char *why = permit_is_about_token(reason) ? permit_unauthorized(reason)
                                                        : "upstream does not allow these keys to this user any more";
        if (sse_text_denied(why, &text) == BELFRY_OK)
            exchange_write(stream->x, text.data, belfry_buf_len(&text));
        exchange_end(stream->x, NULL, 0);
    }
    belfry_buf_fini(&text);
    sse_stream_free(stream);
}

static void sse_stream_ask_later(struct sse_stream *stream)
{
    struct sse_streams *streams = stream->streams;
    stream->ask_ms = now_of(streams) + ASK_AGAIN_MS + belfry_rng_below(&streams->rng, ASK_AGAIN_MS);
    sse_stream_set_due(stream);
}

static bool has_all_ranges(const struct sse_stream *stream)
{
    for (size_t i = 0; i < stream->ranges.n; i++)
        if (!stream->claims[i].granted)
            return false;
    return true;
}

/* One of its ranges was. A question about another may wait for an answer, or to be asked. */
static void sse_stream_granted(struct sse_stream *stream)
{
    if (stream->state != SSE_ASKING)
        sse_stream_tell_room(stream);
    else if (has_all_ranges(stream))
        sse_stream_find_start(stream);
}

static void on_verdict(enum permit_verdict verdict, const char *reason, void *user)
{
    struct sse_claim *claim = user;
    struct sse_stream *stream = claim->stream;
    stream->n_held -= claim->held;
    claim->held = verdict == PERMIT_HELD;
    stream->n_held += claim->held;
    stream->who.accepted = stream->who.accepted || claim->held;
    if (!claim->held)
        claim->question = NULL;
    switch (verdict) {
    case PERMIT_GRANTED: /* auth is off again */
    case PERMIT_HELD:
        claim->granted = true;
        sse_stream_granted(stream);
        break;
    case PERMIT_REFUSED:
        sse_stream_expel(stream, reason);
        break;
    case PERMIT_UNAVAILABLE:
        if (stream->headed)
            sse_stream_ask_later(stream);
        else
            sse_stream_end(stream);
        break;
    }
}

static void on_party(struct permit_party *party, enum permit_event event, const char *reason)
{
    struct sse_stream *stream = belfry_container(party, struct sse_stream, party);
    if (event == PERMIT_ENDED)
        sse_stream_expel(stream, reason);
    else
        sse_stream_tell_room(stream);
}

/* Claims its ranges, if auth is on, or if that is not known yet. */
static void sse_stream_apply_regime(struct sse_stream *stream)
{
    const struct sse_streams_opts *opts = &stream->streams->opts;
    bool asks = stream->state == SSE_ASKING || permit_regime(opts->permit, &stream->party) == PERMIT_ASKS;
    for (size_t i = 0; asks && i < stream->ranges.n; i++) {
        struct sse_claim *claim = &stream->claims[i];
        const struct sse_range *range = &stream->ranges.list[i];
        if (claim->question == NULL &&
            permit_hold(opts->permit, &stream->party, range->key, range->end, now_of(stream->streams), on_verdict,
                        claim, &claim->question) != BELFRY_OK)
            sse_stream_ask_later(stream); /* too many questions wait, or its client may hold no more */
    }
    sse_stream_tell_room(stream);
}

/* ---- events of the exchange ---- */

static void on_writable(struct exchange *x, void *user)
{
    (void)x;
    sse_stream_tell_room(user);
}

static void on_gone(struct exchange *x, void *user)
{
    (void)x;
    sse_stream_free(user);
}

static const struct exchange_events stream_events = {
    .body = exchange_drop_body, .body_end = exchange_ignore, .writable = on_writable, .gone = on_gone};

/* ---- opening ---- */

static size_t bytes_of(const struct sse_ask *ask, struct belfry_bytes client)
{
    size_t n = ask->query->n_ranges;
    struct sse_ranges ranges = {.n = n, .list = ask->query->ranges};
    size_t bytes = sizeof(struct sse_stream) + n * (sizeof(struct sse_claim) + sizeof(struct sse_range)) +
                   sse_ranges_bytes(&ranges) + ask->who->text.len + client.len + 1;
    for (size_t i = 0; i < ask->n_fields; i++)
        bytes += ask->fields[i].name.len + ask->fields[i].value.len;
    return bytes;
}

/* With the watcher of the core and the rights to its ranges, as far as is known before they are there. */
static size_t sse_stream_needs(const struct sse_ask *ask, size_t own)
{
    size_t needs = own + STREAM_BYTES + sizeof(struct sse_state);
    for (size_t i = 0; i < ask->query->n_ranges; i++) {
        const struct sse_range *range = &ask->query->ranges[i];
        struct stream_create create = {.key = range->key, .range_end = range->end};
        needs += 2 * stream_create_bytes(&create) + PERMIT_HOLD_BYTES; /* twice: a list of ranges has a name, too */
    }
    return needs;
}

static struct sse_stream *sse_stream_make(struct sse_streams *streams, struct exchange *x, const struct sse_ask *ask)
{
    struct belfry_bytes client = belfry_bytes_str(ask->client);
    client.len = client.len < CLIENT_BYTES ? client.len : CLIENT_BYTES;
    size_t bytes = bytes_of(ask, client), n = ask->query->n_ranges;
    bool has_room = shares_make_room(exchange_share(x), SHARES_WATCHERS, 1) &&
                    shares_make_room(exchange_share(x), SHARES_WATCH_BYTES, sse_stream_needs(ask, bytes));
    struct sse_stream *stream = has_room ? calloc(1, bytes) : NULL;
    if (stream == NULL)
        return NULL;
    stream->claims = (struct sse_claim *)(stream + 1);
    struct sse_range *list = (struct sse_range *)(stream->claims + n);
    struct sse_ranges ranges = {.n = n, .list = ask->query->ranges};
    char *to = (char *)(list + n);
    stream->ranges = sse_ranges_pack(&ranges, list, &to);
    stream->who = identity_pack(&to, ask->who);
    for (size_t i = 0; i < ask->n_fields; i++) {
        stream->fields[i].name = belfry_pack(&to, ask->fields[i].name);
        stream->fields[i].value = belfry_pack(&to, ask->fields[i].value);
    }
    stream->n_fields = ask->n_fields;
    stream->client = belfry_pack(&to, client).data; /* a zero byte follows */
    stream->streams = streams;
    stream->x = x;
    stream->share = exchange_share(x);
    stream->value = ask->query->value;
    stream->wants_snapshot = ask->query->snapshot;
    stream->has_id = ask->has_id;
    stream->id = ask->id;
    stream->bytes = bytes;
    belfry_list_init(&stream->inside);
    belfry_list_init(&stream->states);
    for (size_t i = 0; i < n; i++)
        stream->claims[i].stream = stream;
    return stream;
}

static void sse_stream_set_beat(struct sse_stream *stream, uint64_t now_ms)
{
    stream->beat_ms = now_ms + SSE_BEAT_MS + belfry_rng_below(&stream->streams->rng, SSE_BEAT_MS / 4);
    stream->beat_bytes = stream->sent_bytes;
    sse_stream_set_due(stream);
}

/* ---- tickets ---- */

int64_t sse_unix_s(const struct sse_streams_opts *opts)
{
    return opts->now_s != NULL ? opts->now_s() : (int64_t)time(NULL);
}

static void sse_stream_set_ticket(struct sse_stream *stream, int64_t expires_in_s, uint64_t now_ms)
{
    stream->ticket_ms = now_ms + (expires_in_s > 0 ? (uint64_t)expires_in_s * 800 : 0);
    sse_stream_set_due(stream);
}

/* Only a stream that may receive changes now gets one, and it must have room: a client that does not read must not make
 * unread tickets pile up. */
static bool sse_stream_may_have_ticket(struct sse_stream *stream)
{
    return stream->headed && !is_inside(stream) && sse_stream_may_deliver(stream) &&
           exchange_room(stream->x) >= EXCHANGE_ROOM_LOW;
}

static void sse_stream_say_ticket(struct sse_stream *stream, uint64_t now_ms)
{
    struct sse_streams *streams = stream->streams;
    struct belfry_buf ticket, text;
    int64_t now_s = sse_unix_s(&streams->opts), expires_s = 0;
    if (!sse_stream_may_have_ticket(stream)) {
        stream->ticket_ms = now_ms + LOOK_MS;
        sse_stream_set_due(stream);
        return;
    }
    belfry_buf_init(&ticket);
    belfry_buf_init(&text);
    stream->ticket_ms = BELFRY_NEVER;
    enum belfry_err err = tickets_seal(streams->opts.tickets, &stream->who, stream->born_s, now_s, &ticket, &expires_s);
    bool has_next = err == BELFRY_OK;
    if (has_next)
        err = sse_text_ticket(belfry_buf_bytes(&ticket), (uint64_t)(expires_s - now_s), &text);
    belfry_buf_fini(&ticket);
    if (!has_next) /* the chain has ended, or the keys were taken away: the stream goes on without a ticket */
        sse_stream_set_due(stream);
    else if (sse_stream_say(stream, &text, err))
        sse_stream_set_ticket(stream, expires_s - now_s, now_ms);
}

static void sse_stream_join(struct sse_stream *stream, uint64_t now_ms)
{
    struct sse_streams *streams = stream->streams;
    roster_join(&streams->roster, &stream->roster);
    permit_join(streams->opts.permit, &stream->party, &stream->who, on_party);
    streams->stats.streams++;
    streams->stats.bytes += stream->bytes;
    streams->stats.opened++;
    shares_count(stream->share, SHARES_WATCHERS, 0, 1);
    sse_stream_count_bytes(stream, stream->bytes);
    stream->opened_ms = now_ms;
    stream->end_ms = stream->ask_ms = stream->ticket_ms = BELFRY_NEVER;
    sse_stream_set_beat(stream, now_ms);
    exchange_handle(stream->x, &stream_events, stream);
}

void sse_stream_open(struct sse_streams *streams, struct exchange *x, const struct sse_ask *ask, uint64_t now_ms)
{
    BELFRY_OWNER_CHECK(streams);
    struct sse_stream *stream = sse_stream_make(streams, x, ask);
    if (stream == NULL) {
        sse_answer_later(streams, x, ask->fields, ask->n_fields,
                         "belfry: the streams of this client hold as much memory as they may; see --client-share");
        return;
    }
    sse_stream_join(stream, now_ms);
    if (ask->ticket != NULL) {
        stream->born_s = ask->ticket->born_s;
        sse_stream_set_ticket(stream, ask->ticket->expires_s - sse_unix_s(&streams->opts), now_ms);
    }
    if (permit_is_open_to(streams->opts.permit, &stream->who, now_ms)) {
        sse_stream_find_start(stream);
        return;
    }
    sse_stream_move_to(stream, SSE_ASKING);
    sse_stream_apply_regime(stream);
}

/* ---- turns ---- */

/* Streams inside a message are visited (look_inside). */
static void note_inside(struct sse_stream *stream)
{
    if (!is_inside(stream))
        belfry_list_remove(&stream->inside);
    else if (belfry_list_empty(&stream->inside))
        belfry_list_append(&stream->streams->inside, &stream->inside);
}

static void sse_stream_written(struct sse_stream *stream)
{
    if (stream->state != SSE_LIVE)
        return;
    note_inside(stream);
    if (stream_ended(stream->stream) && !stream_pending(stream->stream))
        sse_stream_reset(stream,
                         stream->rewritten != worker_rewritten(stream->streams->worker) ? "rewritten" : "compacted");
    else if (stream_broken(stream->stream))
        sse_stream_end(stream);
    else if (stream->told < EXCHANGE_ROOM_LOW)
        sse_stream_tell_room(stream);
}

static void sse_stream_time_has_come(struct sse_stream *stream, uint64_t now_ms)
{
    if (stream->end_ms <= now_ms) {
        sse_stream_end(stream);
        return;
    }
    if (stream->ask_ms <= now_ms) {
        stream->ask_ms = BELFRY_NEVER;
        sse_stream_set_due(stream);
        sse_stream_apply_regime(stream);
        return;
    }
    if (stream->ticket_ms <= now_ms) {
        sse_stream_say_ticket(stream, now_ms);
        return;
    }
    bool is_silent = stream->headed && stream->sent_bytes == stream->beat_bytes && !is_inside(stream);
    if (is_silent && exchange_room(stream->x) > 0) /* a client that does not read has enough to read */
        exchange_write(stream->x, SSE_HEARTBEAT, sizeof(SSE_HEARTBEAT) - 1);
    sse_stream_set_beat(stream, now_ms);
}

/* A stream that stays inside a message holds memory that no other can use. Visits a few, the longest unseen first. */
static void look_inside(struct sse_streams *streams, uint64_t now_ms)
{
    if (belfry_list_empty(&streams->inside) || now_ms < streams->look_ms)
        return;
    streams->look_ms = now_ms + LOOK_MS;
    for (size_t n = 0; n < LOOK_MAX && !belfry_list_empty(&streams->inside) && is_over_memory(streams); n++) {
        struct belfry_list *node = belfry_list_pop(&streams->inside);
        struct sse_stream *stream = belfry_container(node, struct sse_stream, inside);
        size_t bytes;
        belfry_list_append(&streams->inside, node);
        if (now_ms < stream_inside_since(stream->stream, &bytes) + streams->opts.unread_ms)
            continue;
        streams->stats.slow++;
        sse_stream_end(stream);
    }
}

void sse_streams_after_turn(struct sse_streams *streams, uint64_t now_ms)
{
    BELFRY_OWNER_CHECK(streams);
    struct sse_stream *stream;
    sse_forms_next_turn(streams->forms);
    while ((stream = stream_of(roster_pop_written(&streams->roster))) != NULL)
        sse_stream_written(stream);
    for (size_t n = 0; n < ROUND_STEP && (stream = stream_of(roster_next_in_round(&streams->roster))) != NULL; n++) {
        if (streams->draining && exchange_conn(stream->x)->leaving)
            sse_stream_end_within(stream, now_ms, streams->drain_end_ms);
        sse_stream_apply_regime(stream);
    }
    for (size_t n = 0; n < TURN_DUE && (stream = stream_of(roster_first_due(&streams->roster))) != NULL; n++) {
        if (stream->roster.due_ms > now_ms)
            break;
        sse_stream_time_has_come(stream, now_ms);
    }
    step_states(streams);
    look_inside(streams, now_ms);
}

uint64_t sse_streams_due(const struct sse_streams *streams)
{
    uint64_t due_ms = roster_due(&streams->roster);
    return belfry_list_empty(&streams->inside) ? due_ms : belfry_min_time(due_ms, streams->look_ms);
}

bool sse_streams_are_going_round(const struct sse_streams *streams)
{
    return streams->roster.rounding;
}

static void begin_round(struct sse_streams *streams)
{
    if (streams->stats.streams == 0)
        return;
    roster_begin_round(&streams->roster);
    ask_for_turn(streams);
}

static void on_regime(void *user)
{
    begin_round(user);
}

void sse_streams_drain(struct sse_streams *streams, uint64_t now_ms, uint64_t drain_ms)
{
    BELFRY_OWNER_CHECK(streams);
    streams->draining = true;
    streams->drain_end_ms = now_ms + drain_ms;
    begin_round(streams);
}

/* ---- create and destroy ---- */

void sse_streams_set_unread_time(struct sse_streams *streams, uint64_t unread_ms)
{
    streams->opts.unread_ms = unread_ms != 0 ? unread_ms : SSE_INSIDE_MS;
}

enum belfry_err sse_streams_create(const struct sse_streams_opts *opts, struct sse_streams **out)
{
    struct sse_streams *streams = calloc(1, sizeof(*streams));
    if (streams == NULL)
        return BELFRY_ERR_NOMEM;
    streams->opts = *opts;
    sse_streams_set_unread_time(streams, opts->unread_ms);
    streams->rng.state = opts->seed;
    roster_init(&streams->roster);
    belfry_list_init(&streams->inside);
    belfry_list_init(&streams->states);
    enum belfry_err err = sse_forms_create(&streams->forms);
    if (err != BELFRY_OK) {
        free(streams);
        return err;
    }
    permit_listen(opts->permit, on_regime, streams);
    BELFRY_OWNER_INIT(streams);
    *out = streams;
    return BELFRY_OK;
}

void sse_streams_destroy(struct sse_streams *streams)
{
    if (streams == NULL)
        return;
    BELFRY_OWNER_CHECK(streams);
    for (struct sse_stream *stream; (stream = stream_of(roster_after(&streams->roster, 0))) != NULL;)
        sse_stream_end(stream);
    permit_unlisten(streams->opts.permit, streams);
    sse_forms_destroy(streams->forms);
    free(streams);
}

void sse_streams_set_worker(struct sse_streams *streams, struct worker *worker)
{
    BELFRY_OWNER_CHECK(streams);
    assert(streams->worker == NULL);
    streams->worker = worker;
}

void sse_streams_set_cluster(struct sse_streams *streams, uint64_t cluster_id)
{
    BELFRY_OWNER_CHECK(streams);
    streams->tag = sse_tag(cluster_id);
}

/* ---- numbers ---- */

void sse_streams_stats(const struct sse_streams *streams, struct sse_stats *out)
{
    struct sse_forms_stats forms;
    sse_forms_stats(streams->forms, &forms);
    *out = streams->stats;
    out->forms_made = forms.made;
    out->forms_shared = forms.shared;
}

bool sse_streams_next(const struct sse_streams *streams, uint64_t after, uint64_t *number, struct sse_stream_view *out)
{
    const struct sse_stream *stream = stream_of(roster_after(&streams->roster, after));
    if (stream == NULL)
        return false;
    *number = stream->roster.number;
    *out = (struct sse_stream_view){.stream = stream->stream,
                                    .conn = exchange_conn(stream->x),
                                    .who = &stream->who,
                                    .client = stream->client,
                                    .ranges = stream->ranges,
                                    .opened_ms = stream->opened_ms,
                                    .sent_bytes = stream->sent_bytes};
    return true;
}
