/* bench/belfry-bench/readers.c */
#include "readers.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "die.h"
#include "h2conn.h"
#include "range_call.h"
#include "stopwatch.h"

#define CALLS_PER_READER 16 /* places: a call keeps its own until it ends, while others pass it */

struct reader {
    bool is_waiting;
    uint64_t began_ns;
    const char *wrong; /* with the answer; "" if nothing is */
    /* pages */
    int64_t revision;        /* of the first page; 0: that one is next */
    struct belfry_buf start; /* of the next page; empty: the first */
};

struct readers_seat {
    struct readers *all;
    struct h2conn *conn;      /* owned */
    struct reader *readers;   /* owned */
    struct reader **asked_by; /* owned; by the number of a call % n_calls */
    uint32_t n_calls;
};

/* ---- questions ---- */

static void reader_compose(struct readers *all, struct reader *reader, struct belfry_buf *request)
{
    char key[LOAD_KEY_MAX];
    struct range_call call = {.serializable = all->opts.serializable};
    if (all->opts.what == READERS_KEY) {
        load_put_key(&all->opts.load, belfry_rng_below(&all->rng, all->opts.n_keys), key);
        call.key = belfry_bytes_str(key);
    } else {
        call.key = belfry_buf_len(&reader->start) > 0 ? belfry_buf_bytes(&reader->start) : belfry_bytes_str(all->key);
        call.range_end = belfry_bytes_str(all->end);
        call.limit = all->opts.limit;
        call.revision = (uint64_t)reader->revision;
    }
    range_call_write(&call, request);
}

/* False: there is no place for a call. */
static bool reader_ask(struct readers_seat *seat, struct reader *reader)
{
    uint32_t call = h2conn_call(seat->conn, RANGE_CALL_PATH);
    if (call == UINT32_MAX)
        return false;
    struct belfry_buf request = {0};
    reader_compose(seat->all, reader, &request);
    seat->asked_by[call % seat->n_calls] = reader;
    seat->all->to_ask--;
    seat->all->under_way++;
    reader->is_waiting = true;
    reader->wrong = "there is no answer";
    reader->began_ns = stopwatch_ns();
    h2conn_send(seat->conn, call, belfry_buf_bytes(&request), H2CONN_LAST);
    belfry_buf_fini(&request);
    return true;
}

static void seat_ask(struct readers_seat *seat)
{
    for (size_t i = 0; i < seat->all->opts.n_readers && seat->all->to_ask > 0; i++)
        if (!seat->readers[i].is_waiting && !reader_ask(seat, &seat->readers[i]))
            return;
}

/* ---- answers ---- */

/* The page after this one. Its key is the last one's, and a zero byte. */
static void reader_turn_page(struct reader *reader, const struct range_answer *answer)
{
    belfry_buf_clear(&reader->start);
    reader->revision = answer->more ? (reader->revision != 0 ? reader->revision : answer->revision) : 0;
    if (!answer->more)
        return;
    must(belfry_buf_append(&reader->start, answer->last_key.data, answer->last_key.len), "buffer");
    must(belfry_buf_append(&reader->start, "", 1), "buffer");
}

static size_t wanted_kvs(const struct readers_opts *opts)
{
    size_t most = opts->limit < opts->n_keys ? opts->limit : opts->n_keys;
    return opts->what == READERS_KEY ? 1 : opts->what == READERS_RANGE ? most : 0;
}

static void on_message(void *user, uint32_t call, struct belfry_bytes message)
{
    struct readers_seat *seat = user;
    struct readers *all = seat->all;
    struct reader *reader = seat->asked_by[call % seat->n_calls];
    struct range_answer answer;
    size_t wanted = wanted_kvs(&all->opts);
    if (range_call_read(message, &answer) != BELFRY_OK) {
        reader->wrong = "a RangeResponse cannot be read";
        return;
    }
    reader->wrong = answer.n_kvs == 0 || (wanted > 0 && answer.n_kvs != wanted) ? "an answer has not all keys" : "";
    all->kvs += answer.n_kvs;
    all->pinned += reader->revision != 0;
    if (all->opts.what == READERS_PAGES)
        reader_turn_page(reader, &answer);
}

static void on_ended(void *user, uint32_t call, int status, const char *text)
{
    struct readers_seat *seat = user;
    struct readers *all = seat->all;
    struct reader *reader = seat->asked_by[call % seat->n_calls];
    if (status == 0 && reader->wrong[0] == '\0') {
        outcome_ok(&all->outcome, stopwatch_ns() - reader->began_ns);
    } else {
        char why[128];
        snprintf(why, sizeof(why), "grpc-status %d: %.90s", status, status == 0 ? reader->wrong : text);
        outcome_fail(&all->outcome, why);
    }
    reader->is_waiting = false;
    all->under_way--;
    seat_ask(seat); /* the connection writes it when it has read all that has come */
}

static void on_failed(void *user, const char *why)
{
    struct readers_seat *seat = user;
    if (seat->all->fault[0] == '\0')
        snprintf(seat->all->fault, sizeof(seat->all->fault), "read: %s", why);
}

/* ---- all ---- */

static void seat_open(struct readers_seat *seat, struct readers *all, int poll)
{
    static const struct h2conn_events events = {on_message, on_ended, on_failed};
    seat->all = all;
    seat->n_calls = (uint32_t)all->opts.n_readers * CALLS_PER_READER;
    seat->readers = must_have(calloc(all->opts.n_readers, sizeof(*seat->readers)));
    seat->asked_by = must_have(calloc(seat->n_calls, sizeof(struct reader *)));
    seat->conn = h2conn_create(poll, &all->opts.target, seat->n_calls, &events, seat);
}

void readers_open(struct readers *readers, int poll, const struct readers_opts *opts)
{
    struct load shared = opts->load;
    memset(readers, 0, sizeof(*readers));
    readers->opts = *opts;
    readers->rng.state = opts->seed;
    shared.keys = LOAD_SHARED;
    load_range(&shared, 0, readers->key, readers->end);
    outcome_clear(&readers->outcome);
    readers->seats = must_have(calloc(opts->n_conns, sizeof(*readers->seats)));
    for (size_t i = 0; i < opts->n_conns; i++)
        seat_open(&readers->seats[i], readers, poll);
}

void readers_close(struct readers *readers)
{
    for (size_t i = 0; i < readers->opts.n_conns; i++) {
        struct readers_seat *seat = &readers->seats[i];
        h2conn_destroy(seat->conn);
        for (size_t j = 0; j < readers->opts.n_readers; j++)
            belfry_buf_fini(&seat->readers[j].start);
        free(seat->readers);
        free(seat->asked_by);
    }
    free(readers->seats);
}

bool readers_are_connected(const struct readers *readers)
{
    for (size_t i = 0; i < readers->opts.n_conns; i++)
        if (h2conn_state(readers->seats[i].conn) != H2CONN_OPEN)
            return false;
    return true;
}

void readers_begin(struct readers *readers, size_t n_reads)
{
    assert(readers->under_way == 0);
    outcome_clear(&readers->outcome);
    readers->kvs = readers->pinned = 0;
    readers->to_ask = n_reads;
    for (size_t i = 0; i < readers->opts.n_conns; i++) {
        seat_ask(&readers->seats[i]);
        h2conn_flush(readers->seats[i].conn);
    }
}

bool readers_have_ended(const struct readers *readers)
{
    return readers->to_ask == 0 && readers->under_way == 0;
}
