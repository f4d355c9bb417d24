/* tests/sim/read_checker.c */
#include "sim/read_checker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "judge/judge_recency.h"
#include "judge/judge_register.h"
#include "net/grpc.h"
#include "sim/cover.h"
#include "sim/gate.h"
#include "sim/verdict.h"
#include "wire/write.h"

#define JUDGE_STEPS 1000000

/* What has been answered, as judge_recency() takes it. */
struct answers {
    struct judge_answer *list;
    size_t n, room;
};

/* What has happened to a key, as judge_register() takes it. */
struct ops {
    struct judge_op *list;
    size_t n, room, n_reads;
};

/* The highest raft_term that a tier had told by some moment. */
struct told_term {
    uint64_t boot, past, term;
    int64_t moment;
};

struct read_checker {
    const struct history *history;
    int64_t moment;                    /* the last one */
    unsigned past;                     /* whose histories these are: */
    int64_t seen;                      /* its revisions up to here are in them */
    struct answers answers;            /* of writes and linearizable reads */
    struct ops keys[HISTORY_KEYS_MAX]; /* by index */
    struct told_term *terms;
    size_t n_terms, terms_room;
};

struct read_checker_conn {
    struct read_checker *checker;
    char name[32];
    uint64_t boot, past; /* of the answers: */
    struct answers answers;
};

static void *grow(void *list, size_t n, size_t *room, size_t size)
{
    if (n < *room)
        return list;
    *room = *room == 0 ? 64 : *room * 2;
    list = realloc(list, *room * size);
    if (list == NULL)
        abort();
    return list;
}

static void answers_add(struct answers *answers, const struct judge_answer *answer)
{
    answers->list = grow(answers->list, answers->n, &answers->room, sizeof(*answers->list));
    answers->list[answers->n++] = *answer;
}

static void ops_add(struct ops *ops, const struct judge_op *op)
{
    ops->list = grow(ops->list, ops->n, &ops->room, sizeof(*ops->list));
    ops->list[ops->n++] = *op;
    ops->n_reads += op->kind == JUDGE_GET;
}

/* ---- histories ---- */

/* Judges them, and begins anew. */
static void judge_answers(struct answers *answers, const char *whose)
{
    struct judge_recency_result result;
    if (judge_recency(answers->list, answers->n, &result) != BELFRY_OK)
        abort();
    if (result.n_stale > 0) {
        const struct judge_answer *stale = &answers->list[result.stale], *newer = &answers->list[result.newer];
        verdict_fail("%s: a read goes back: it began at moment %lld and has revision %lld, and %lld was known at %lld",
                     whose, (long long)stale->call_ns, (long long)stale->rev, (long long)newer->rev,
                     (long long)newer->end_ns);
    }
    answers->n = 0;
}

static void judge_key(struct read_checker *checker, unsigned key)
{
    struct ops *ops = &checker->keys[key];
    struct judge_register_result result;
    if (ops->n_reads > 0) {
        if (judge_register(ops->list, ops->n, JUDGE_STEPS, &result) != BELFRY_OK)
            abort();
        if (result.verdict == JUDGE_NOT_LINEARIZABLE)
            verdict_fail("key %u in past %u is not linearizable: %s (value of revision %lld, moments %lld to %lld)",
                         key, checker->past, result.why, (long long)ops->list[result.culprit].mod_rev,
                         (long long)ops->list[result.culprit].call_ns, (long long)ops->list[result.culprit].end_ns);
    }
    ops->n = ops->n_reads = 0;
}

static void judge_histories(struct read_checker *checker)
{
    judge_answers(&checker->answers, "linearizable");
    for (unsigned key = 0; key < history_keys(checker->history); key++)
        judge_key(checker, key);
}

/* An event is a moment. */
static void note_event(struct read_checker *checker, unsigned key, const struct history_event *event)
{
    struct judge_op op = {.kind = event->is_delete ? JUDGE_DELETE : JUDGE_PUT,
                          .value = event->is_delete ? JUDGE_ABSENT : (uint64_t)event->rev,
                          .mod_rev = event->rev,
                          .call_ns = checker->moment,
                          .end_ns = checker->moment};
    if (!event->is_delete || event->prev != NULL)
        ops_add(&checker->keys[key], &op);
}

static void note_revision(struct read_checker *checker, int64_t rev, bool changed)
{
    int64_t moment = checker->moment;
    answers_add(&checker->answers,
                &(struct judge_answer){.call_ns = moment, .end_ns = moment, .rev = rev, .changed = changed});
}

/* Does the revision change the key again? Then no read sees this event. */
static bool is_changed_again(const struct history_revision *revision, size_t at)
{
    for (size_t i = at + 1; i < revision->n; i++) {
        if (revision->events[i].key == revision->events[at].key)
            return true;
    }
    return false;
}

static void note_writes(struct read_checker *checker)
{
    int64_t head = history_head(checker->history, checker->past);
    while (checker->seen < head) {
        const struct history_revision *revision = history_at(checker->history, checker->past, ++checker->seen);
        checker->moment++;
        note_revision(checker, checker->seen, true);
        for (size_t i = 0; i < revision->n; i++) {
            if (!is_changed_again(revision, i))
                note_event(checker, revision->events[i].key, &revision->events[i]);
        }
    }
}

/* It begins with what the backup had. */
static void begin_past(struct read_checker *checker, unsigned past)
{
    int64_t rev = history_fork_rev(checker->history, past);
    checker->past = past;
    checker->seen = rev;
    checker->moment++;
    note_revision(checker, rev, false);
    for (unsigned key = 0; key < history_keys(checker->history); key++) {
        const struct history_event *event = history_state(checker->history, past, rev, key);
        if (event != NULL)
            note_event(checker, key, event);
    }
}

/* Looks at what was written since the last moment, and begins another. */
static int64_t next_moment(struct read_checker *checker)
{
    note_writes(checker);
    while (checker->past != history_now(checker->history)) {
        judge_histories(checker);
        begin_past(checker, checker->past + 1);
        note_writes(checker);
    }
    return ++checker->moment;
}

/* ---- one answer ---- */

static void append_number(struct belfry_buf *buf, uint8_t tag, uint64_t number)
{
    uint8_t bytes[11] = {tag};
    size_t n = 1;
    for (; number >= 0x80; number >>= 7)
        bytes[n++] = (uint8_t)(number | 0x80);
    bytes[n++] = (uint8_t)number;
    if (belfry_buf_append(buf, bytes, n) != BELFRY_OK)
        abort();
}

/* What etcd answers behind the header. */
static void append_body(struct belfry_buf *buf, const struct history *history, unsigned past, int64_t rev,
                        const struct belfry_wire_range_request *request)
{
    uint64_t keys = history_range_keys(history, request->key, request->range_end);
    int64_t count = 0, given = 0;
    for (unsigned key = 0; key < history_keys(history); key++) {
        const struct history_event *event = (keys >> key & 1) != 0 ? history_state(history, past, rev, key) : NULL;
        count += event != NULL;
        if (event == NULL || request->count_only || (request->limit > 0 && given == request->limit))
            continue;
        given++;
        append_number(buf, 0x12, event->kv.len);
        if (belfry_buf_append(buf, event->kv.data, event->kv.len) != BELFRY_OK)
            abort();
    }
    if (!request->count_only && count > given)
        append_number(buf, 0x18, 1);
    if (count > 0)
        append_number(buf, 0x20, (uint64_t)count);
}

/* Is `body` what the range was in that past? */
static bool is_of_past(const struct read_checker *checker, const struct read_checker_call *call, unsigned past,
                       int64_t header_rev, struct belfry_bytes body)
{
    int64_t rev = call->request.revision > 0 ? call->request.revision : header_rev;
    if (header_rev > history_head(checker->history, past) || rev > header_rev)
        return false;
    struct belfry_buf expected;
    belfry_buf_init(&expected);
    append_body(&expected, checker->history, past, rev, &call->request);
    bool is_equal = belfry_bytes_equal(belfry_buf_bytes(&expected), body);
    belfry_buf_fini(&expected);
    return is_equal;
}

static void judge_content(const struct read_checker_conn *conn, const struct read_checker_call *call,
                          const struct belfry_wire_header *header, struct belfry_bytes message)
{
    const struct read_checker *checker = conn->checker;
    unsigned newest = history_now(checker->history), oldest = call->request.serializable ? 0 : call->past;
    size_t head_len = 2 + (size_t)(uint8_t)message.data[1]; /* a header is shorter than 128 bytes */
    struct belfry_bytes body = belfry_bytes_of(message.data + head_len, message.len - head_len);
    for (unsigned past = newest + 1; past-- > oldest;)
        if (is_of_past(checker, call, past, header->revision, body))
            return;
    verdict_fail(
        "%s: a %s %s from moment %lld on, at revision %lld (header %lld), is not what was there in past %u to %u",
        conn->name, call->request.serializable ? "serializable" : "linearizable",
        call->request.count_only ? "count" : "read", (long long)call->moment, (long long)call->request.revision,
        (long long)header->revision, oldest, newest);
}

/* Among all clients of the tier. */
static void judge_term(const struct read_checker_conn *conn, const struct read_checker_call *call,
                       const struct link_answer *answer, uint64_t term)
{
    struct read_checker *checker = conn->checker;
    uint64_t highest = 0;
    for (size_t i = 0; i < checker->n_terms; i++) {
        const struct told_term *told = &checker->terms[i];
        if (told->boot != answer->boot || told->past != answer->past)
            continue;
        highest = told->term > highest ? told->term : highest;
        if (!answer->relayed && told->moment < call->moment && told->term > term)
            verdict_fail("%s: raft_term goes back from %llu to %llu", conn->name, (unsigned long long)told->term,
                         (unsigned long long)term);
    }
    if (term <= highest)
        return;
    checker->terms = grow(checker->terms, checker->n_terms, &checker->terms_room, sizeof(*checker->terms));
    checker->terms[checker->n_terms++] =
        (struct told_term){.boot = answer->boot, .past = answer->past, .term = term, .moment = checker->moment};
}

/* On one connection nothing goes back while the tier has the same past. */
static void note_on_connection(struct read_checker_conn *conn, const struct link_answer *answer,
                               const struct judge_answer *judged)
{
    if (answer->past != conn->past || answer->boot != conn->boot)
        judge_answers(&conn->answers, conn->name);
    conn->past = answer->past;
    conn->boot = answer->boot;
    answers_add(&conn->answers, judged);
}

/* It is linearizable, and no restore has come between. */
static void note_in_histories(struct read_checker *checker, const struct read_checker_call *call,
                              const struct judge_answer *judged)
{
    const struct belfry_wire_range_request *request = &call->request;
    answers_add(&checker->answers, judged);
    int key = history_key_find(checker->history, request->key);
    if (key < 0 || request->range_end.len > 0 || request->revision > 0 || request->count_only)
        return;
    const struct history_event *event =
        history_state(checker->history, checker->past, judged->rev, (unsigned)key); /* as judge_content() has found */
    int64_t mod_rev = event != NULL ? event->rev : 0;
    struct judge_op op = {.kind = JUDGE_GET,
                          .value = (uint64_t)mod_rev,
                          .mod_rev = mod_rev,
                          .call_ns = call->moment,
                          .end_ns = judged->end_ns};
    ops_add(&checker->keys[key], &op);
}

static void judge_response(struct read_checker_conn *conn, const struct read_checker_call *call,
                           const struct link_answer *answer, struct belfry_bytes message, int64_t moment)
{
    struct read_checker *checker = conn->checker;
    struct belfry_wire_header header;
    if (belfry_scan_response_header(message, &header) != BELFRY_OK || header.cluster_id != HISTORY_CLUSTER_ID) {
        verdict_fail("%s: a response without the cluster's header", conn->name);
        return;
    }
    struct judge_answer judged = {.call_ns = call->moment, .end_ns = moment, .rev = header.revision};
    judge_content(conn, call, &header, message);
    judge_term(conn, call, answer, header.raft_term);
    if (!answer->relayed)
        note_on_connection(conn, answer, &judged);
    if (!call->request.serializable && call->past == checker->past)
        note_in_histories(checker, call, &judged);
    COVER_BY(read_of_new_past, !call->request.serializable && call->past != checker->past);
    COVER_BY(read_pinned, call->request.revision > 0 && !answer->relayed);
    COVER_BY(read_counted, call->request.count_only && !answer->relayed);
}

static bool was_compacted(const struct read_checker *checker, int64_t rev)
{
    for (unsigned past = 0; past <= history_now(checker->history); past++)
        if (rev < history_compacted(checker->history, past))
            return true;
    return false;
}

static void judge_out_of_range(const struct read_checker_conn *conn, const struct read_checker_call *call,
                               struct belfry_bytes message)
{
    const struct read_checker *checker = conn->checker;
    int64_t rev = call->request.revision;
    bool is_compacted = belfry_bytes_equal(message, belfry_bytes_str(GATE_COMPACTED));
    bool was_there = call->past == checker->past && rev <= call->head;
    if (is_compacted ? !was_compacted(checker, rev) : !call->request.serializable && was_there)
        verdict_fail("%s: revision %lld is said to be %s, when the cluster was at %lld", conn->name, (long long)rev,
                     is_compacted ? "compacted" : "in the future", (long long)call->head);
}

void read_checker_call(struct read_checker *checker, struct read_checker_call *call)
{
    call->moment = next_moment(checker);
    call->past = checker->past;
    call->head = checker->seen;
}

void read_checker_answer(struct read_checker_conn *conn, const struct read_checker_call *call,
                         const struct link_answer *answer, struct belfry_bytes message)
{
    int64_t moment = next_moment(conn->checker);
    if (answer->code == BELFRY_GRPC_OK)
        judge_response(conn, call, answer, message, moment);
    else if (answer->code == BELFRY_GRPC_OUT_OF_RANGE)
        judge_out_of_range(conn, call, message);
    else if (answer->code != BELFRY_GRPC_UNAVAILABLE)
        verdict_fail("%s: a read ends with status %d: %.*s", conn->name, answer->code, (int)message.len, message.data);
}

/* ---- */

struct read_checker *read_checker_create(const struct history *history)
{
    struct read_checker *checker = calloc(1, sizeof(*checker));
    if (checker == NULL)
        abort();
    checker->history = history;
    begin_past(checker, 0);
    return checker;
}

void read_checker_destroy(struct read_checker *checker)
{
    if (checker == NULL)
        return;
    for (unsigned key = 0; key < HISTORY_KEYS_MAX; key++)
        free(checker->keys[key].list);
    free(checker->answers.list);
    free(checker->terms);
    free(checker);
}

void read_checker_finish(struct read_checker *checker)
{
    (void)next_moment(checker);
    judge_histories(checker);
}

struct read_checker_conn *read_checker_open(struct read_checker *checker, const char *name)
{
    struct read_checker_conn *conn = calloc(1, sizeof(*conn));
    if (conn == NULL)
        abort();
    conn->checker = checker;
    snprintf(conn->name, sizeof(conn->name), "%s", name);
    return conn;
}

void read_checker_close(struct read_checker_conn *conn)
{
    judge_answers(&conn->answers, conn->name);
    free(conn->answers.list);
    free(conn);
}
