/* tests/sim/reader.c */
#include "sim/reader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/grpc.h"
#include "sim/trace.h"
#include "wire/binary.h"
#include "wire/rpc.pb-c.h"

#define CALLS   4
#define KEY_MAX 2048
#define PACE_MS 6 /* between two calls, on the average half of it */

/* A call under way. */
struct reader_call {
    uint64_t number; /* 0: none */
    struct read_checker_call read;
    char key[KEY_MAX], range_end[KEY_MAX];
};

struct reader {
    struct reader_opts opts;
    char name[32];
    struct actor *actor;
    struct link *link; /* NULL: none */
    struct read_checker_conn *conn;
    struct belfry_buf buf;
    struct reader_call calls[CALLS];
    uint64_t dial_ms, act_ms;
    bool settled, done;
    /* where the next page begins */
    bool pages;
    int64_t page_rev;
    struct belfry_buf page_key, page_end;
};

/* ---- calls ---- */

static struct belfry_bytes keep(char *room, struct belfry_bytes bytes)
{
    if (bytes.len > KEY_MAX)
        abort();
    if (bytes.len > 0)
        memcpy(room, bytes.data, bytes.len);
    return belfry_bytes_of(room, bytes.len);
}

static void write_request(struct belfry_buf *out, const struct belfry_wire_range_request *request)
{
    Etcdserverpb__RangeRequest message = ETCDSERVERPB__RANGE_REQUEST__INIT;
    uint8_t *to;
    message.key = belfry_binary(request->key);
    message.range_end = belfry_binary(request->range_end);
    message.limit = request->limit;
    message.revision = request->revision;
    message.serializable = request->serializable;
    message.count_only = request->count_only;
    belfry_buf_clear(out);
    if (belfry_buf_reserve(out, etcdserverpb__range_request__get_packed_size(&message), &to) != BELFRY_OK)
        abort();
    belfry_buf_grown(out, etcdserverpb__range_request__pack(&message, to));
}

static void begin_call(struct reader *reader, struct reader_call *call, const struct belfry_wire_range_request *request)
{
    call->read.request = *request;
    call->read.request.key = keep(call->key, request->key);
    call->read.request.range_end = keep(call->range_end, request->range_end);
    read_checker_call(reader->opts.checker, &call->read);
    write_request(&reader->buf, &call->read.request);
    call->number = link_call(reader->link, LINK_CALL_READ, belfry_buf_bytes(&reader->buf));
    TRACE(reader->name, "call %llu, moment %lld: %s %s, %zu key bytes, limit %lld, revision %lld",
          (unsigned long long)call->number, (long long)call->read.moment,
          request->serializable ? "serializable" : "linearizable", request->count_only ? "count" : "read",
          request->key.len, (long long)request->limit, (long long)request->revision);
}

/* ---- what to ask for ---- */

static int64_t pick_revision(const struct reader *reader)
{
    struct sched *sched = reader->opts.sched;
    const struct history *history = reader->opts.history;
    int64_t head = history_head(history, history_now(history));
    int64_t rev = head + 3 - (int64_t)sched_below(sched, sched_one_in(sched, 3) ? 60 : 12);
    return rev > 0 ? rev : 1;
}

static void pick_request(struct reader *reader, struct belfry_wire_range_request *out)
{
    struct sched *sched = reader->opts.sched;
    struct history *history = reader->opts.history;
    *out = (struct belfry_wire_range_request){.serializable = sched_one_in(sched, 3)};
    if (sched_one_in(sched, 2)) {
        out->key = history_key(history, (unsigned)sched_below(sched, history_keys(history)));
    } else {
        do
            history_pick_range(history, sched_rng(sched), &out->key, &out->range_end);
        while (out->key.len == 0); /* relayed, and its range_end may be none */
        out->count_only = sched_one_in(sched, 4);
        out->limit = sched_one_in(sched, 2) ? 1 + (int64_t)sched_below(sched, 5) : 0;
    }
    if (sched_one_in(sched, 5))
        out->revision = pick_revision(reader);
}

static void pick_page(struct reader *reader, struct belfry_wire_range_request *out)
{
    *out = (struct belfry_wire_range_request){.key = belfry_buf_bytes(&reader->page_key),
                                              .range_end = belfry_buf_bytes(&reader->page_end),
                                              .revision = reader->page_rev,
                                              .limit = 1 + (int64_t)sched_below(reader->opts.sched, 5),
                                              .serializable = sched_one_in(reader->opts.sched, 2)};
    reader->pages = false; /* its answer says how to go on */
}

static void ask_for_something(struct reader *reader)
{
    struct belfry_wire_range_request request;
    struct reader_call *call = reader->calls;
    while (call < reader->calls + CALLS && call->number != 0)
        call++;
    if (call == reader->calls + CALLS)
        return;
    if (reader->pages && !sched_one_in(reader->opts.sched, 3))
        pick_page(reader, &request);
    else
        pick_request(reader, &request);
    begin_call(reader, call, &request);
}

static void ask_for_everything(struct reader *reader)
{
    static const char everything[1] = {0};
    struct belfry_wire_range_request request = {.key = {everything, 1}, .range_end = {everything, 1}};
    if (reader->calls[0].number == 0)
        begin_call(reader, &reader->calls[0], &request);
}

/* ---- answers ---- */

static void replace(struct belfry_buf *buf, struct belfry_bytes bytes)
{
    belfry_buf_clear(buf);
    if (belfry_buf_append(buf, bytes.data, bytes.len) != BELFRY_OK)
        abort();
}

/* The next page begins after the last key of this one. */
static void note_page(struct reader *reader, const struct reader_call *call, struct belfry_bytes message)
{
    Etcdserverpb__RangeResponse *response =
        etcdserverpb__range_response__unpack(NULL, message.len, (const uint8_t *)message.data);
    if (response == NULL)
        abort();
    if (response->more && response->n_kvs > 0 && response->header != NULL && !reader->pages) {
        ProtobufCBinaryData last = response->kvs[response->n_kvs - 1]->key;
        int64_t pinned = call->read.request.revision;
        reader->pages = true;
        reader->page_rev = pinned > 0 ? pinned : response->header->revision;
        replace(&reader->page_key, belfry_bytes_of(last.data, last.len));
        if (belfry_buf_append(&reader->page_key, "", 1) != BELFRY_OK)
            abort();
        replace(&reader->page_end, call->read.request.range_end);
    }
    etcdserverpb__range_response__free_unpacked(response, NULL);
}

static void take_answer(struct reader *reader, struct reader_call *call, const struct link_answer *answer)
{
    struct belfry_bytes message = belfry_buf_bytes(&reader->buf);
    TRACE(reader->name, "call %llu is answered%s: status %d, %zu bytes", (unsigned long long)answer->call,
          answer->relayed ? " by upstream" : "", answer->code, message.len);
    read_checker_answer(reader->conn, &call->read, answer, message);
    call->number = 0;
    if (answer->code == BELFRY_GRPC_OK)
        note_page(reader, call, message);
    if (reader->settled && answer->code == BELFRY_GRPC_OK)
        reader->done = true;
}

static void take_answers(struct reader *reader)
{
    struct link_answer answer;
    while (link_answered(reader->link, &answer, &reader->buf))
        for (size_t i = 0; i < CALLS; i++)
            if (reader->calls[i].number == answer.call)
                take_answer(reader, &reader->calls[i], &answer);
}

/* ---- its life ---- */

static void hang_up(struct reader *reader)
{
    struct sched *sched = reader->opts.sched;
    read_checker_close(reader->conn);
    link_leave_client(reader->link);
    reader->link = NULL;
    for (size_t i = 0; i < CALLS; i++)
        reader->calls[i].number = 0;
    reader->dial_ms = sched_now(sched) + sched_below(sched, 200);
}

static void dial(struct reader *reader)
{
    struct sched *sched = reader->opts.sched;
    reader->link = reader->opts.dial(reader->opts.user, reader->opts.number, reader->actor);
    reader->dial_ms = sched_now(sched) + 50 + sched_below(sched, 200);
    if (reader->link != NULL)
        reader->conn = read_checker_open(reader->opts.checker, reader->name);
}

static void act(struct reader *reader, uint64_t now)
{
    struct sched *sched = reader->opts.sched;
    reader->act_ms = now + sched_below(sched, PACE_MS * sched_tempo(sched) + 1);
    if (reader->settled)
        ask_for_everything(reader);
    else if (sched_one_in(sched, 60))
        hang_up(reader);
    else if (sched_one_in(sched, 100))
        link_break(reader->link);
    else
        ask_for_something(reader);
}

static uint64_t reader_step(void *arg)
{
    struct reader *reader = arg;
    uint64_t now = sched_now(reader->opts.sched);
    if (reader->link == NULL && now >= reader->dial_ms)
        dial(reader);
    if (reader->link == NULL)
        return reader->dial_ms;
    take_answers(reader);
    belfry_buf_clear(&reader->buf);
    link_read(reader->link, SIZE_MAX, &reader->buf); /* nothing comes: it has no watch */
    if (link_ended(reader->link)) {
        hang_up(reader);
        return reader->dial_ms;
    }
    if (now >= reader->act_ms && !reader->done)
        act(reader, now);
    if (reader->link == NULL)
        return reader->dial_ms;
    uint64_t due = belfry_min_time(link_client_due(reader->link), link_answers_due(reader->link));
    return reader->done ? due : belfry_min_time(due, reader->act_ms);
}

struct reader *reader_create(const struct reader_opts *opts)
{
    struct reader *reader = calloc(1, sizeof(*reader));
    if (reader == NULL)
        abort();
    reader->opts = *opts;
    snprintf(reader->name, sizeof(reader->name), "reader%u", opts->number);
    reader->actor = sched_add(opts->sched, ACTOR_PLAIN, reader_step, reader);
    return reader;
}

void reader_destroy(struct reader *reader)
{
    if (reader == NULL)
        return;
    if (reader->link != NULL)
        hang_up(reader);
    sched_remove(reader->opts.sched, reader->actor);
    belfry_buf_fini(&reader->buf);
    belfry_buf_fini(&reader->page_key);
    belfry_buf_fini(&reader->page_end);
    free(reader);
}

void reader_settle(struct reader *reader)
{
    reader->settled = true;
    if (reader->link != NULL)
        hang_up(reader); /* with what is under way */
    sched_wake(reader->opts.sched, reader->actor, sched_now(reader->opts.sched));
}

bool reader_is_done(const struct reader *reader)
{
    return reader->done;
}
