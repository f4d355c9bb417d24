/* src/serve/reads/reads_test.c: reads of a support/modelstore, with rights and points that the test gives. */
#include "serve/reads/reads.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "net/grpc_frame.h"
#include "support/modelstore.h"
#include "support/refuse.h"
#include "wire/binary.h"
#include "wire/rpc.pb-c.h"
#include "wire/write.h"

static struct bed {
    uv_loop_t loop;
    struct store *store;
    struct points_source source;
    struct points *points;
    struct reads *reads;
    size_t asked; /* points */
    bool auth_on;
    bool was_open, is_cut_off; /* for reads that may be old */
    bool is_busy;              /* all reads are of one turn of the loop */
    enum belfry_err ask_err;
    permit_fn permit_fn; /* of the last question */
    void *permit_user;
    char asked_keys[64]; /* of all questions */
    bool cancelled;
    /* the last answer */
    size_t n_answers;
    const char *answered; /* what the read was opened with: */
    char *mark;
    struct reads_answer answer;
    struct belfry_wire_header header;
    struct term term;
    size_t n_parts; /* of answers in parts: with the last one, whatever it is */
    struct belfry_buf parts;
    bool drops_parts;
    bool is_txn; /* the request: */
    char body[256];
    size_t len;
} bed;

/* ---- rights, in the place of permit.c ---- */

struct permit_question {
    int unused;
};

bool permit_is_open_to(struct permit *permit, const struct identity *who, uint64_t now_ms)
{
    (void)permit, (void)who, (void)now_ms;
    return !bed.auth_on;
}

bool permit_was_open(struct permit *permit, uint64_t now_ms)
{
    (void)permit, (void)now_ms;
    return bed.was_open;
}

bool permit_serves_off(const struct permit *permit, const struct identity *who)
{
    (void)permit;
    return who->rights != LISTEN_RIGHTS_UPSTREAM;
}

void permit_cut_off(struct permit *permit, uint64_t heard_ms)
{
    (void)permit;
    assert_true(heard_ms < belfry_clock_ms());
    bed.is_cut_off = true;
}

void permit_reach(struct permit *permit)
{
    (void)permit;
    bed.is_cut_off = false;
}

enum belfry_err permit_ask(struct permit *permit, const struct identity *who, struct belfry_bytes key,
                           struct belfry_bytes range_end, uint64_t now_ms, permit_fn fn, void *user,
                           struct permit_question **out)
{
    static struct permit_question question;
    (void)permit, (void)who, (void)now_ms;
    assert_int_equal(range_end.len, 0);
    strncat(bed.asked_keys, key.data, key.len);
    if (bed.ask_err != BELFRY_OK)
        return bed.ask_err;
    bed.permit_fn = fn;
    bed.permit_user = user;
    *out = &question;
    return BELFRY_OK;
}

void permit_cancel(struct permit_question *question)
{
    (void)question;
    bed.cancelled = true;
}

/* ---- the bed ---- */

static void on_ask(struct points_source *source, size_t n)
{
    (void)source, (void)n;
    bed.asked++;
}

static bool on_join(struct points_source *source)
{
    (void)source;
    return false;
}

static void adopt(int64_t rev, uint64_t past)
{
    struct belfry_wire_header header = {.cluster_id = 7, .revision = rev};
    assert_int_equal(bed.store->api->fresh(bed.store), BELFRY_OK);
    assert_int_equal(bed.store->api->adopt(bed.store, rev, &header, past), BELFRY_OK);
}

static int setup(void **state)
{
    (void)state;
    bed = (struct bed){.source = {.ask = on_ask, .join = on_join}};
    uv_loop_init(&bed.loop);
    bed.store = modelstore_create(&(struct modelstore_opts){.history_rows = 10, .history_age_s = 100});
    adopt(10, 1);
    assert_int_equal(points_create(&bed.source, &bed.points), BELFRY_OK);
    term_init(&bed.term);
    term_begin(&bed.term, 1, 3);
    struct reads_opts opts = {.store = bed.store, .points = bed.points, .term = &bed.term, .loop = &bed.loop};
    assert_int_equal(reads_create(&opts, &bed.reads), BELFRY_OK);
    reads_stand(bed.reads, READS_READY, &(struct range_upstream){{1, 2, 2}, ETCD_KEYS_ONLY_LEASED});
    reads_see_past(bed.reads, 1, 0);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    belfry_buf_fini(&bed.parts);
    reads_destroy(bed.reads);
    points_destroy(bed.points);
    uv_run(&bed.loop, UV_RUN_DEFAULT);
    modelstore_destroy(bed.store);
    term_fini(&bed.term);
    return uv_loop_close(&bed.loop) == 0 && refuse_held() == 0 ? 0 : -1;
}

/* A turn of the loop is over. */
static bool end_turn(void)
{
    reads_turn(bed.reads);
    return reads_wait(bed.reads);
}

/* A new turn, so that what was answered before does not count, however long the machine took for it. */
static void take_time(void)
{
    if (!bed.is_busy)
        (void)end_turn();
}

static void point(int64_t rev, uint64_t past)
{
    take_time();
    bed.source.back(&(struct point){.rev = rev, .past = past}, bed.source.user);
}

static void note_part(struct reads_answer *answer)
{
    struct belfry_bytes part = belfry_buf_bytes(&answer->response);
    bed.n_parts++;
    if (!bed.drops_parts)
        assert_int_equal(belfry_buf_append(&bed.parts, part.data, part.len), BELFRY_OK);
    belfry_buf_fini(&answer->response);
}

static void note(struct reads_answer *answer)
{
    bed.n_answers++;
    bed.answer = *answer;
    if (answer->verdict == READS_PART || bed.n_parts > 0) {
        note_part(answer);
        return;
    }
    if (answer->verdict != READS_REPLIED)
        return;
    struct belfry_bytes response = belfry_buf_bytes(&answer->response);
    struct belfry_bytes message =
        belfry_bytes_of(response.data + BELFRY_GRPC_PREFIX_BYTES, response.len - BELFRY_GRPC_PREFIX_BYTES);
    assert_int_equal(belfry_scan_response_header(message, &bed.header), BELFRY_OK);
    belfry_buf_fini(&answer->response);
}

static void on_answer(struct reads_answer *answer, void *user)
{
    bed.answered = user;
    note(answer);
}

/* Of the key "k". */
static void pack(Etcdserverpb__RangeRequest *request)
{
    bed.is_txn = false;
    request->key = belfry_binary(belfry_bytes_str("k"));
    size_t len = etcdserverpb__range_request__get_packed_size(request);
    belfry_grpc_frame_prefix((uint8_t *)bed.body, len);
    bed.len = BELFRY_GRPC_PREFIX_BYTES +
              etcdserverpb__range_request__pack(request, (uint8_t *)bed.body + BELFRY_GRPC_PREFIX_BYTES);
}

enum level { LINEARIZABLE, SERIALIZABLE };

static void make_request(enum level level, int64_t revision)
{
    Etcdserverpb__RangeRequest request = ETCDSERVERPB__RANGE_REQUEST__INIT;
    request.serializable = level == SERIALIZABLE;
    request.revision = revision;
    pack(&request);
}

static struct read *open_as(struct reads_request request)
{
    static const struct identity nobody;
    struct reads_answer answer;
    struct read *read;
    take_time();
    request.who = &nobody;
    request.body = belfry_bytes_of(bed.body, bed.len);
    if (request.method == READS_NONE)
        request.method = bed.is_txn ? READS_TXN : READS_RANGE;
    assert_int_equal(reads_open(bed.reads, &request, belfry_clock_ms(), on_answer, bed.mark, &read, &answer),
                     BELFRY_OK);
    assert_int_equal(answer.verdict == READS_WAITS, read != NULL);
    if (read == NULL)
        note(&answer);
    return read;
}

/* A Txn that compares "c" and reads "s" or "f": of these, the levels that are given. */
struct txn {
    bool has_compare, has_success, has_failure, writes;
    enum level success, failure;
    int64_t revision; /* of both */
};

static void pack_txn(const struct txn *txn)
{
    Etcdserverpb__TxnRequest request = ETCDSERVERPB__TXN_REQUEST__INIT;
    Etcdserverpb__Compare compare = ETCDSERVERPB__COMPARE__INIT, *compares[] = {&compare};
    Etcdserverpb__RangeRequest ranges[2] = {ETCDSERVERPB__RANGE_REQUEST__INIT, ETCDSERVERPB__RANGE_REQUEST__INIT};
    Etcdserverpb__PutRequest put = ETCDSERVERPB__PUT_REQUEST__INIT;
    Etcdserverpb__RequestOp ops[2] = {ETCDSERVERPB__REQUEST_OP__INIT, ETCDSERVERPB__REQUEST_OP__INIT};
    Etcdserverpb__RequestOp *success[] = {&ops[0]}, *failure[] = {&ops[1]};
    compare.key = belfry_binary(belfry_bytes_str("c"));
    for (size_t i = 0; i < 2; i++) {
        ranges[i].key = belfry_binary(belfry_bytes_str(i == 0 ? "s" : "f"));
        ranges[i].serializable = (i == 0 ? txn->success : txn->failure) == SERIALIZABLE;
        ranges[i].revision = txn->revision;
        ops[i].request_case = ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_RANGE;
        ops[i].request_range = &ranges[i];
    }
    if (txn->writes) {
        ops[1].request_case = ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_PUT;
        ops[1].request_put = &put;
    }
    request.n_compare = txn->has_compare, request.compare = compares;
    request.n_success = txn->has_success, request.success = success;
    request.n_failure = txn->has_failure, request.failure = failure;
    bed.is_txn = true;
    bed.len = BELFRY_GRPC_PREFIX_BYTES +
              etcdserverpb__txn_request__pack(&request, (uint8_t *)bed.body + BELFRY_GRPC_PREFIX_BYTES);
    belfry_grpc_frame_prefix((uint8_t *)bed.body, bed.len - BELFRY_GRPC_PREFIX_BYTES);
}

static struct read *open_txn(struct txn txn)
{
    pack_txn(&txn);
    return open_as((struct reads_request){.hasleader = false});
}

static struct read *open_read(enum level level, int64_t revision)
{
    make_request(level, revision);
    return open_as((struct reads_request){.hasleader = false});
}

static struct reads_stats stats(void)
{
    struct reads_stats out;
    reads_stats(bed.reads, &out);
    return out;
}

static void expect_failed(int code, const char *message)
{
    assert_int_equal(bed.n_answers, 1);
    assert_int_equal(bed.answer.verdict, READS_FAILED);
    assert_int_equal(bed.answer.code, code);
    assert_string_equal(bed.answer.message, message);
    assert_int_equal(stats().failed, 1);
}

static void expect_relayed(enum reads_consistency consistency)
{
    assert_int_equal(bed.n_answers, 1);
    assert_int_equal(bed.answer.verdict, READS_RELAY);
    assert_int_equal(stats().upstream[consistency], 1);
}

static void drive_until_answered(void)
{
    while (bed.n_answers == 0) {
        uv_run(&bed.loop, UV_RUN_ONCE);
        (void)end_turn();
    }
}

/* ---- tests ---- */

static void an_answer_has_the_highest_term_that_was_heard_of(void **state)
{
    (void)state;
    assert_null(open_read(SERIALIZABLE, 0));
    assert_int_equal(bed.header.raft_term, 3);
    term_hear(&bed.term, &(struct belfry_wire_header){.cluster_id = 1, .raft_term = 4});
    assert_null(open_read(SERIALIZABLE, 0));
    assert_int_equal(bed.header.raft_term, 4);
}

static void a_serializable_read_is_answered_immediately(void **state)
{
    (void)state;
    assert_null(open_read(SERIALIZABLE, 0));
    assert_int_equal(bed.answer.verdict, READS_REPLIED);
    assert_int_equal(bed.header.revision, 10);
    assert_int_equal(bed.header.cluster_id, 1);
    assert_int_equal(bed.header.raft_term, 3);
    assert_int_equal(bed.asked, 0);
    assert_int_equal(stats().replica[READS_SERIALIZABLE], 1);
}

static void a_linearizable_read_waits_for_a_point(void **state)
{
    (void)state;
    assert_non_null(open_read(LINEARIZABLE, 0));
    assert_int_equal(bed.asked, 1);
    assert_int_equal(bed.n_answers, 0);
    point(10, 1);
    assert_int_equal(bed.answer.verdict, READS_REPLIED);
    assert_int_equal(bed.header.revision, 10);
    assert_int_equal(stats().replica[READS_LINEARIZABLE], 1);
}

/* What upstream had is of another past than what the store has now. */
static void a_point_of_another_past_is_asked_again(void **state)
{
    (void)state;
    assert_non_null(open_read(LINEARIZABLE, 0));
    adopt(4, 2);
    point(10, 1);
    assert_int_equal(bed.n_answers, 0);
    assert_int_equal(bed.asked, 2);
    point(4, 2);
    assert_int_equal(bed.header.revision, 4);
}

/* It does not begin to wait anew: reads that came after it end after it. */
static void a_read_that_asks_again_keeps_its_time(void **state)
{
    (void)state;
    char older[] = "older", younger[] = "younger";
    bed.mark = older;
    uint64_t since = belfry_clock_ms();
    assert_non_null(open_read(LINEARIZABLE, 0));
    while (belfry_clock_ms() < since + 300)
        uv_sleep(1);
    bed.mark = younger;
    assert_non_null(open_read(LINEARIZABLE, 0)); /* the next question is for it */
    adopt(4, 2);
    point(10, 1);
    assert_int_equal(bed.n_answers, 0);
    drive_until_answered();
    assert_int_equal(bed.n_answers, 1);
    assert_string_equal(bed.answered, "older");
    assert_string_equal(bed.answer.message, "etcdserver: request timed out");
    bed.n_answers = 0;
    drive_until_answered();
    assert_string_equal(bed.answered, "younger");
    assert_in_range(belfry_clock_ms() - since, READS_WAIT_MS + 290, READS_WAIT_MS + 2300);
}

static void a_read_is_relayed_when_the_tier_cannot_ask(void **state)
{
    (void)state;
    assert_non_null(open_read(LINEARIZABLE, 0));
    bed.source.back(&(struct point){.err = BELFRY_ERR_DENIED}, bed.source.user);
    expect_relayed(READS_LINEARIZABLE);
}

static void a_listener_can_make_every_read_serializable_or_relay_it(void **state)
{
    (void)state;
    make_request(LINEARIZABLE, 0);
    assert_null(open_as((struct reads_request){.serializable = true}));
    assert_int_equal(bed.answer.verdict, READS_REPLIED);
    assert_int_equal(stats().replica[READS_SERIALIZABLE], 1);
    bed.n_answers = 0;
    assert_null(open_as((struct reads_request){.relays = true}));
    expect_relayed(READS_LINEARIZABLE);
}

static void without_upstream_no_read_that_needs_a_leader_is_answered(void **state)
{
    (void)state;
    reads_stand(bed.reads, READS_STALE, &(struct range_upstream){{1, 2, 3}, ETCD_KEYS_ONLY_LEASED});
    make_request(SERIALIZABLE, 0);
    assert_null(open_as((struct reads_request){.hasleader = true}));
    expect_failed(14, "etcdserver: no leader");
}

static void without_upstream_a_read_fails_as_in_etcd(void **state)
{
    (void)state;
    reads_stand(bed.reads, READS_STALE, &(struct range_upstream){{1, 2, 3}, ETCD_KEYS_ONLY_LEASED});
    make_request(LINEARIZABLE, 0);
    assert_null(open_as((struct reads_request){.hasleader = true}));
    expect_failed(14, "etcdserver: no leader");
    bed.n_answers = 0;
    uint64_t since = belfry_clock_ms();
    assert_non_null(open_read(LINEARIZABLE, 0));
    drive_until_answered();
    assert_in_range(belfry_clock_ms() - since, READS_WAIT_MS - 1, READS_WAIT_MS + 2000);
    assert_int_equal(bed.answer.code, 14);
    assert_string_equal(bed.answer.message, "etcdserver: request timed out");
    assert_null(open_read(SERIALIZABLE, 0));
    assert_int_equal(bed.answer.verdict, READS_REPLIED);
    assert_int_equal(stats().stale, 1);
}

static void a_tier_that_is_not_ready_relays(void **state)
{
    (void)state;
    reads_stand(bed.reads, READS_NOT_READY, &(struct range_upstream){{1, 2, 3}, ETCD_KEYS_ONLY_LEASED});
    assert_null(open_read(SERIALIZABLE, 0));
    expect_relayed(READS_SERIALIZABLE);
}

#define NO_POINT "belfry: this tier does not know now how far upstream is"

/* What upstream has reached says nothing about the past that our watchers are in. */
static void a_question_of_a_tier_below_is_not_relayed(void **state)
{
    (void)state;
    reads_stand(bed.reads, READS_NOT_READY, &(struct range_upstream){{1, 2, 3}, ETCD_KEYS_ONLY_LEASED});
    make_request(LINEARIZABLE, 0);
    assert_null(open_as((struct reads_request){.is_point = true}));
    expect_failed(9, NO_POINT);
}

static void a_question_of_a_tier_below_ends_when_upstream_cannot_be_asked(void **state)
{
    (void)state;
    make_request(LINEARIZABLE, 0);
    assert_non_null(open_as((struct reads_request){.is_point = true}));
    bed.source.back(&(struct point){.err = BELFRY_ERR_AGAIN}, bed.source.user);
    expect_failed(9, NO_POINT);
}

static void a_question_of_a_tier_below_is_answered_here_whatever_the_listener_says(void **state)
{
    (void)state;
    make_request(LINEARIZABLE, 0);
    assert_non_null(open_as((struct reads_request){.is_point = true, .watched = 1, .relays = true}));
    point(10, 1);
    assert_int_equal(bed.answer.verdict, READS_REPLIED);
}

#define OTHER_PAST "belfry: the past was rewritten since the watch of this connection began"

static void a_tier_below_that_watches_in_another_past_is_told_nothing(void **state)
{
    (void)state;
    make_request(LINEARIZABLE, 0);
    adopt(12, 2);
    assert_non_null(open_as((struct reads_request){.is_point = true, .watched = 1}));
    point(12, 2);
    expect_failed(14, OTHER_PAST); /* the worker has yet to hear of it */
    reads_see_past(bed.reads, 2, 2);
    assert_non_null(open_as((struct reads_request){.is_point = true, .watched = 1}));
    point(12, 2);
    assert_int_equal(bed.answer.code, 14); /* the tier below has */
    assert_int_equal(stats().failed, 2);
    assert_non_null(open_as((struct reads_request){.is_point = true, .watched = 2}));
    point(12, 2);
    assert_int_equal(bed.answer.verdict, READS_REPLIED);
    adopt(13, 3);
    reads_see_past(bed.reads, 3, 2); /* another past, which is not a rewritten one */
    assert_non_null(open_as((struct reads_request){.is_point = true, .watched = 2}));
    point(13, 3);
    assert_int_equal(bed.answer.verdict, READS_REPLIED);
}

static void a_revision_of_the_future_is_refused_when_upstream_has_not_reached_it(void **state)
{
    (void)state;
    assert_non_null(open_read(LINEARIZABLE, 11));
    point(10, 1);
    expect_failed(11, "etcdserver: mvcc: required revision is a future revision");
}

static void a_serializable_read_waits_a_little_for_its_revision(void **state)
{
    (void)state;
    assert_non_null(open_read(SERIALIZABLE, 12));
    adopt(12, 1);
    drive_until_answered();
    assert_int_equal(bed.answer.verdict, READS_REPLIED);
    assert_int_equal(bed.header.revision, 12);
    bed.n_answers = 0;
    uint64_t since = belfry_clock_ms();
    assert_non_null(open_read(SERIALIZABLE, 13));
    drive_until_answered();
    assert_in_range(belfry_clock_ms() - since, READS_FUTURE_MS - 1, READS_FUTURE_MS + 2000);
    expect_failed(11, "etcdserver: mvcc: required revision is a future revision");
}

static void a_revision_below_the_window_is_relayed(void **state)
{
    (void)state;
    assert_null(open_read(SERIALIZABLE, 5));
    expect_relayed(READS_SERIALIZABLE);
}

static void damage_is_relayed(void **state)
{
    (void)state;
    modelstore_damage(bed.store);
    assert_null(open_read(SERIALIZABLE, 0));
    expect_relayed(READS_SERIALIZABLE);
}

static void what_cannot_be_read_is_relayed(void **state)
{
    (void)state;
    make_request(SERIALIZABLE, 0);
    bed.body[0] = 1; /* compressed */
    assert_null(open_as((struct reads_request){.hasleader = false}));
    expect_relayed(READS_LINEARIZABLE);
}

/* ---- Txn ---- */

static void a_txn_is_linearizable_if_one_of_its_ranges_is(void **state)
{
    (void)state;
    assert_null(open_txn((struct txn){.has_compare = true}));
    assert_int_equal(bed.answer.verdict, READS_REPLIED);
    assert_null(open_txn((struct txn){.has_success = true, .success = SERIALIZABLE}));
    assert_int_equal(bed.answer.verdict, READS_REPLIED);
    assert_int_equal(stats().replica[READS_SERIALIZABLE], 2);
    for (int i = 0; i < 2; i++) {
        struct txn txn = {.has_success = true,
                          .has_failure = true,
                          .success = i == 0 ? SERIALIZABLE : LINEARIZABLE,
                          .failure = i == 0 ? LINEARIZABLE : SERIALIZABLE};
        bed.n_answers = 0;
        assert_non_null(open_txn(txn));
        point(10, 1);
        assert_int_equal(bed.n_answers, 1);
        assert_int_equal(bed.header.revision, 10);
    }
    assert_int_equal(stats().replica[READS_LINEARIZABLE], 2);
}

static void a_txn_waits_for_a_point_of_the_same_past(void **state)
{
    (void)state;
    assert_non_null(open_txn((struct txn){.has_success = true}));
    adopt(4, 2);
    point(10, 1);
    assert_int_equal(bed.n_answers, 0);
    point(4, 2);
    assert_int_equal(bed.header.revision, 4);
}

static void a_txn_that_writes_is_relayed_and_is_no_read(void **state)
{
    (void)state;
    assert_null(open_txn((struct txn){.has_success = true, .has_failure = true, .writes = true}));
    assert_int_equal(bed.answer.verdict, READS_RELAY);
    assert_int_equal(stats().upstream[READS_LINEARIZABLE] + stats().upstream[READS_SERIALIZABLE], 0);
}

static void a_txn_at_a_revision_is_answered_as_a_range_is(void **state)
{
    (void)state;
    assert_null(open_txn((struct txn){.has_success = true, .success = SERIALIZABLE, .revision = 5}));
    expect_relayed(READS_SERIALIZABLE);
    bed.n_answers = 0;
    assert_non_null(open_txn((struct txn){.has_success = true, .revision = 11}));
    point(10, 1);
    expect_failed(11, "etcdserver: mvcc: required revision is a future revision");
    bed.n_answers = 0;
    assert_non_null(open_txn((struct txn){.has_success = true, .success = SERIALIZABLE, .revision = 12}));
    adopt(12, 1);
    drive_until_answered();
    assert_int_equal(bed.header.revision, 12);
}

static void a_listener_decides_about_a_txn_too(void **state)
{
    (void)state;
    pack_txn(&(struct txn){.has_success = true});
    assert_null(open_as((struct reads_request){.serializable = true}));
    assert_int_equal(bed.answer.verdict, READS_REPLIED);
    bed.n_answers = 0;
    assert_null(open_as((struct reads_request){.relays = true}));
    expect_relayed(READS_LINEARIZABLE);
}

static void every_range_of_a_txn_needs_a_right(void **state)
{
    (void)state;
    bed.auth_on = true;
    assert_non_null(open_txn((struct txn){.has_compare = true, .has_success = true, .has_failure = true}));
    assert_string_equal(bed.asked_keys, "csf");
    bed.permit_fn(PERMIT_REFUSED, PERMIT_DENIED, bed.permit_user);
    expect_failed(7, "etcdserver: permission denied");
    assert_true(bed.cancelled); /* the others */
    bed.n_answers = 0;
    assert_null(open_txn((struct txn){.has_compare = false}));
    expect_relayed(READS_SERIALIZABLE); /* no range to ask about */
}

static void rights_are_asked_first(void **state)
{
    (void)state;
    bed.auth_on = true;
    assert_non_null(open_read(SERIALIZABLE, 0));
    assert_int_equal(bed.n_answers, 0);
    bed.permit_fn(PERMIT_GRANTED, "", bed.permit_user);
    assert_int_equal(bed.answer.verdict, READS_REPLIED);
    static const struct {
        enum permit_verdict verdict;
        const char *reason;
        int code;
        const char *message;
    } table[] = {
        {PERMIT_REFUSED, PERMIT_DENIED, 7, "etcdserver: permission denied"},
        {PERMIT_REFUSED, PERMIT_BAD_TOKEN, 16, "etcdserver: invalid auth token"},
        {PERMIT_REFUSED, PERMIT_NO_USER, 3, "etcdserver: user name is empty"},
        {PERMIT_REFUSED, PERMIT_OLD_REVISION, 3, "etcdserver: revision of auth store is old"},
    };
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        assert_non_null(open_read(LINEARIZABLE, 0));
        bed.permit_fn(table[i].verdict, table[i].reason, bed.permit_user);
        assert_int_equal(bed.answer.verdict, READS_FAILED);
        assert_int_equal(bed.answer.code, table[i].code);
        assert_string_equal(bed.answer.message, table[i].message);
    }
    assert_int_equal(bed.asked, 0);
    static const enum belfry_err no_room[] = {BELFRY_ERR_LIMIT, BELFRY_ERR_REFUSED}; /* of permit, and of the client */
    for (size_t i = 0; i < 2; i++) {
        bed.ask_err = no_room[i];
        bed.n_answers = 0;
        assert_null(open_read(LINEARIZABLE, 0));
        assert_int_equal(bed.n_answers, 1);
        assert_int_equal(bed.answer.verdict, READS_RELAY);
    }
    bed.ask_err = BELFRY_OK;
    assert_non_null(open_read(LINEARIZABLE, 0));
    bed.permit_fn(PERMIT_UNAVAILABLE, "no upstream", bed.permit_user);
    assert_int_equal(bed.answer.verdict, READS_RELAY);
}

/* Upstream is gone, and auth was off: everybody could read what the tier has. */
static void an_old_read_needs_no_upstream_if_auth_was_off(void **state)
{
    (void)state;
    bed.auth_on = bed.was_open = true; /* "off" is too old for a read that asks for the newest */
    reads_stand(bed.reads, READS_STALE, &(struct range_upstream){{1, 2, 3}, ETCD_KEYS_ONLY_LEASED});
    assert_null(open_read(SERIALIZABLE, 0));
    assert_int_equal(bed.answer.verdict, READS_REPLIED);
    assert_int_equal(stats().stale, 1);
    assert_string_equal(bed.asked_keys, "");
    assert_non_null(open_read(LINEARIZABLE, 0));
    assert_string_equal(bed.asked_keys, "k");
    bed.permit_fn(PERMIT_REFUSED, PERMIT_NO_USER, bed.permit_user);
    reads_stand(bed.reads, READS_READY,
                &(struct range_upstream){{1, 2, 3}, ETCD_KEYS_ONLY_LEASED}); /* upstream is silent, not for long yet */
    bed.n_answers = 0;
    uint64_t since = belfry_clock_ms();
    assert_non_null(open_read(SERIALIZABLE, 0));
    drive_until_answered();
    assert_in_range(belfry_clock_ms() - since, 490, 2500);
    assert_int_equal(bed.answer.verdict, READS_REPLIED);
    assert_true(bed.cancelled);
}

static void a_client_of_a_stale_tier_learns_that_rights_cannot_be_asked(void **state)
{
    (void)state;
    bed.auth_on = true;
    reads_stand(bed.reads, READS_STALE, &(struct range_upstream){{1, 2, 3}, ETCD_KEYS_ONLY_LEASED});
    assert_non_null(open_read(SERIALIZABLE, 0));
    drive_until_answered();
    assert_int_equal(bed.answer.verdict, READS_FAILED);
    assert_int_equal(bed.answer.code, 14);
    assert_non_null(strstr(bed.answer.message, "upstream is unreachable"));
    assert_non_null(open_read(SERIALIZABLE, 0));
    bed.permit_fn(PERMIT_UNAVAILABLE, "no upstream", bed.permit_user);
    assert_int_equal(bed.answer.verdict, READS_FAILED);
    bed.n_answers = 0;
    assert_non_null(open_read(SERIALIZABLE, 0)); /* an answer in time counts */
    bed.permit_fn(PERMIT_GRANTED, "", bed.permit_user);
    assert_int_equal(bed.answer.verdict, READS_REPLIED);
}

static void a_read_that_is_cancelled_is_not_answered(void **state)
{
    (void)state;
    struct read *waits = open_read(LINEARIZABLE, 0), *future = open_read(SERIALIZABLE, 11);
    bed.auth_on = true;
    struct read *rights = open_read(LINEARIZABLE, 0);
    read_cancel(waits);
    read_cancel(future);
    read_cancel(rights);
    assert_true(bed.cancelled);
    point(10, 1);
    uv_run(&bed.loop, UV_RUN_NOWAIT);
    assert_int_equal(bed.n_answers, 0);
}

/* A thousand reads at once: some are answered, and the others when there is time. */
static void reads_for_which_there_is_no_time_wait(void **state)
{
    (void)state;
    size_t opened = 0, turns = 0;
    bed.is_busy = true;
    while (open_read(SERIALIZABLE, 0) == NULL) {
        opened++;
        assert_true(opened < 10000000);
    }
    assert_int_equal(bed.n_answers, opened);
    struct read *cancelled = open_read(SERIALIZABLE, 0);
    assert_non_null(cancelled);
    assert_non_null(open_read(SERIALIZABLE, 0)); /* behind those that wait */
    read_cancel(cancelled);
    while (end_turn())
        assert_true(++turns < 1000);
    assert_int_equal(bed.n_answers, opened + 2);
    assert_int_equal(stats().replica[READS_SERIALIZABLE], opened + 2);
}

/* ---- answers in parts ---- */

#define MANY        100
#define LARGE_BYTES 20000

static void put_row(const char *key, int64_t lease)
{
    static const char value[LARGE_BYTES];
    uint8_t raw[LARGE_BYTES + 64];
    struct belfry_wire_kv kv = {.key = belfry_bytes_str(key),
                                .value = belfry_bytes_of(value, sizeof(value)),
                                .create_rev = 5,
                                .mod_rev = 5,
                                .version = 1,
                                .lease = lease};
    size_t len = (size_t)(belfry_write_kv(&kv, raw) - raw);
    assert_int_equal(belfry_scan_kv(belfry_bytes_of(raw, len), &kv), BELFRY_OK);
    assert_int_equal(bed.store->api->put(bed.store, &kv), BELFRY_OK);
}

/* Keys k000 to k099, at a revision. */
static void adopt_many(int64_t rev, uint64_t past)
{
    struct belfry_wire_header header = {.cluster_id = 7, .revision = rev};
    assert_int_equal(bed.store->api->fresh(bed.store), BELFRY_OK);
    for (size_t i = 0; i < MANY; i++) {
        char key[8];
        snprintf(key, sizeof(key), "k%03zu", i);
        put_row(key, 0);
    }
    assert_int_equal(bed.store->api->adopt(bed.store, rev, &header, past), BELFRY_OK);
}

/* The key "k" with a lease. */
static void adopt_leased(int64_t rev, uint64_t past)
{
    struct belfry_wire_header header = {.cluster_id = 7, .revision = rev};
    assert_int_equal(bed.store->api->fresh(bed.store), BELFRY_OK);
    put_row("k", 77);
    assert_int_equal(bed.store->api->adopt(bed.store, rev, &header, past), BELFRY_OK);
}

static struct read *open_large(enum level level, enum reads_method method)
{
    Etcdserverpb__RangeRequest request = ETCDSERVERPB__RANGE_REQUEST__INIT;
    request.serializable = level == SERIALIZABLE;
    request.range_end = belfry_binary(belfry_bytes_str("l"));
    pack(&request);
    return open_as((struct reads_request){.method = method});
}

/* Takes part after part, until something else comes. */
static void take_parts(struct read *read)
{
    size_t turns = 0, seen = 0;
    while (bed.n_answers == 0 || bed.answer.verdict == READS_PART) {
        if (bed.n_answers > seen) {
            seen = bed.n_answers;
            read_next(read, SIZE_MAX);
        }
        (void)end_turn();
        assert_true(++turns < 100000);
    }
}

static void a_large_answer_comes_in_parts(void **state)
{
    (void)state;
    adopt_many(20, 1);
    struct read *read = open_large(SERIALIZABLE, READS_RANGE);
    assert_non_null(read);
    take_parts(read);
    assert_int_equal(bed.answer.verdict, READS_REPLIED);
    assert_in_range(bed.n_parts, 20, MANY);
    assert_int_equal(stats().parts, bed.n_parts - 1);
    assert_int_equal(stats().replica[READS_SERIALIZABLE], 1);
    struct belfry_bytes message = belfry_grpc_frame_only(belfry_buf_bytes(&bed.parts)), row;
    assert_non_null(message.data);
    size_t at = 0, n = 0;
    while (belfry_scan_field(message, BELFRY_RANGE_KVS, &at, &row) == BELFRY_OK)
        n++;
    assert_int_equal(n, MANY);
    assert_int_equal(belfry_scan_response_header(message, &bed.header), BELFRY_OK);
    assert_int_equal(bed.header.revision, 20);
}

static void a_part_is_not_read_before_it_is_wanted(void **state)
{
    (void)state;
    adopt_many(20, 1);
    struct read *read = open_large(SERIALIZABLE, READS_RANGE);
    while (bed.n_answers == 0)
        (void)end_turn();
    assert_false(end_turn());
    assert_int_equal(bed.n_parts, 1);
    assert_int_equal(bed.answer.verdict, READS_PART);
    read_next(read, SIZE_MAX);
    assert_int_equal(bed.n_parts, 1); /* not from inside */
    assert_true(reads_wait(bed.reads));
    (void)end_turn();
    assert_int_equal(bed.n_parts, 2);
    read_cancel(read);
    assert_false(end_turn());
}

/* One key with a lease, which an answer without keys shows if upstream's etcd does. */
static void a_lease_in_keys_only_follows_upstreams_version(void **state)
{
    static const struct {
        enum etcd_keys_only upstream;
        enum reads_method method;
        enum reads_verdict verdict;
        int64_t lease;
    } rows[] = {
        {ETCD_KEYS_ONLY_LEASED, READS_RANGE, READS_REPLIED, 77},
        {ETCD_KEYS_ONLY_BARE, READS_RANGE, READS_REPLIED, 0},
        {ETCD_KEYS_ONLY_UNKNOWN, READS_RANGE, READS_RELAY, 0},
        {ETCD_KEYS_ONLY_LEASED, READS_RANGE_STREAM, READS_REPLIED, 77},
        {ETCD_KEYS_ONLY_BARE, READS_RANGE_STREAM, READS_REPLIED, 0},
        {ETCD_KEYS_ONLY_UNKNOWN, READS_RANGE_STREAM, READS_REPLIED, 0}, /* it is new enough, if it has them */
    };
    (void)state;
    adopt_leased(20, 1);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        Etcdserverpb__RangeRequest request = ETCDSERVERPB__RANGE_REQUEST__INIT;
        struct belfry_bytes row = {0}, message;
        struct belfry_wire_kv kv;
        size_t at = 0;
        request.serializable = request.keys_only = true;
        pack(&request);
        bed.n_answers = 0;
        bed.n_parts = 1; /* what is answered is kept */
        reads_stand(bed.reads, READS_READY, &(struct range_upstream){{1, 2, 3}, rows[i].upstream});
        struct read *read = open_as((struct reads_request){.method = rows[i].method});
        while (bed.n_answers == 0)
            (void)end_turn();
        (void)read; /* it is answered */
        assert_int_equal(bed.answer.verdict, rows[i].verdict);
        if (rows[i].verdict != READS_REPLIED)
            continue;
        message = belfry_grpc_frame_only(belfry_buf_bytes(&bed.parts));
        if (rows[i].method == READS_RANGE_STREAM) {
            struct belfry_bytes chunk = message;
            assert_int_equal(belfry_scan_field(chunk, 1, &at, &message), BELFRY_OK);
            at = 0;
        }
        assert_int_equal(belfry_scan_field(message, BELFRY_RANGE_KVS, &at, &row), BELFRY_OK);
        assert_int_equal(belfry_scan_kv(row, &kv), BELFRY_OK);
        assert_int_equal(kv.lease, rows[i].lease);
        assert_int_equal(kv.create_rev, 5);
        assert_int_equal(kv.value.len, 0);
        belfry_buf_clear(&bed.parts);
    }
}

/* docs/compatibility.md: shows read-cut. etcd has no such end. */
static void an_answer_in_parts_fails_when_its_state_is_gone(void **state)
{
    (void)state;
    adopt_many(20, 1);
    struct read *read = open_large(SERIALIZABLE, READS_RANGE);
    while (bed.n_answers == 0)
        (void)end_turn();
    adopt_many(20, 2);
    read_next(read, SIZE_MAX);
    (void)end_turn();
    assert_int_equal(bed.answer.verdict, READS_FAILED);
    assert_int_equal(bed.answer.code, 14);
    assert_int_equal(stats().failed, 1);
}

/* Nothing was sent, so it can begin again. */
static void a_large_answer_of_another_past_than_its_point_is_asked_again(void **state)
{
    (void)state;
    adopt_many(20, 1);
    struct read *read = open_large(LINEARIZABLE, READS_RANGE_STREAM);
    point(20, 1);
    adopt_many(20, 2);
    (void)end_turn();
    assert_int_equal(bed.n_answers, 0);
    assert_int_equal(bed.asked, 2);
    point(20, 2);
    take_parts(read);
    assert_int_equal(bed.answer.verdict, READS_REPLIED);
}

/* docs/compatibility.md: shows range-stream-chunks. Only etcd 3.7 has the method. */
static void a_range_stream_has_one_message_in_each_part(void **state)
{
    (void)state;
    adopt_many(20, 1);
    take_parts(open_large(SERIALIZABLE, READS_RANGE_STREAM));
    assert_int_equal(bed.answer.verdict, READS_REPLIED);
    struct belfry_bytes parts = belfry_buf_bytes(&bed.parts);
    size_t n = 0;
    while (parts.len > 0) {
        const uint8_t *prefix = (const uint8_t *)parts.data;
        size_t len = BELFRY_GRPC_PREFIX_BYTES + ((size_t)prefix[2] << 16 | (size_t)prefix[3] << 8 | prefix[4]);
        assert_in_range(len, BELFRY_GRPC_PREFIX_BYTES, parts.len);
        assert_true(len <= 64 * 1024);
        parts = belfry_bytes_of(parts.data + len, parts.len - len);
        n++;
    }
    assert_int_equal(n, bed.n_parts);
}

static void a_range_stream_with_an_order_or_filters_is_not_implemented(void **state)
{
    (void)state;
    static const struct {
        int order, target;
        int64_t min_mod_rev;
        const char *message; /* NULL: it is answered */
    } table[] = {
        {2, 0, 0, "RangeStream does not support custom sort orders"},
        {1, 3, 0, "RangeStream does not support custom sort orders"},
        {2, 0, 7, "RangeStream does not support custom sort orders"},
        {0, 0, 7, "RangeStream does not support revision filters"},
        {1, 0, 0, NULL},
        {0, 3, 0, NULL}, /* a target without an order is not looked at */
    };
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        Etcdserverpb__RangeRequest request = ETCDSERVERPB__RANGE_REQUEST__INIT;
        request.serializable = true;
        request.sort_order = (Etcdserverpb__RangeRequest__SortOrder)table[i].order;
        request.sort_target = (Etcdserverpb__RangeRequest__SortTarget)table[i].target;
        request.min_mod_revision = table[i].min_mod_rev;
        pack(&request);
        struct read *read = open_as((struct reads_request){.method = READS_RANGE_STREAM});
        assert_int_equal(read != NULL, table[i].message == NULL);
        (void)end_turn();
        assert_int_equal(bed.answer.verdict, table[i].message == NULL ? READS_REPLIED : READS_FAILED);
        if (table[i].message != NULL) {
            assert_int_equal(bed.answer.code, 12);
            assert_string_equal(bed.answer.message, table[i].message);
        }
    }
}

static void refused_memory_of_a_part_is_an_error_and_no_leak(void **state)
{
    (void)state;
    adopt_many(20, 1);
    size_t held = refuse_held();
    bed.drops_parts = true;
    for (size_t n = 0;; n++) {
        bed.n_answers = bed.n_parts = 0;
        struct read *read = open_large(SERIALIZABLE, READS_RANGE_STREAM);
        refuse_begin(n);
        (void)end_turn();
        bool reached = refuse_end();
        assert_int_equal(bed.answer.verdict, reached ? READS_FAILED : READS_PART);
        if (!reached) {
            read_cancel(read);
            break;
        }
        assert_int_equal(bed.answer.code, 8);
    }
    assert_int_equal(refuse_held(), held);
}

static void refused_memory_is_an_error_and_no_leak(void **state)
{
    (void)state;
    static const struct identity nobody;
    make_request(SERIALIZABLE, 0);
    struct reads_request request = {.method = READS_RANGE, .who = &nobody, .body = belfry_bytes_of(bed.body, bed.len)};
    size_t held = refuse_held();
    for (size_t n = 0;; n++) {
        struct reads_answer answer = {.verdict = READS_RELAY};
        struct read *read;
        (void)end_turn();
        refuse_begin(n);
        enum belfry_err err = reads_open(bed.reads, &request, belfry_clock_ms(), on_answer, NULL, &read, &answer);
        bool reached = refuse_end();
        assert_null(read);
        assert_int_equal(err == BELFRY_OK && answer.verdict == READS_REPLIED, !reached);
        if (err == BELFRY_OK && answer.verdict == READS_REPLIED)
            belfry_buf_fini(&answer.response);
        assert_int_equal(refuse_held(), held);
        if (!reached)
            break;
    }
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(a_serializable_read_is_answered_immediately),
        T(an_answer_has_the_highest_term_that_was_heard_of),
        T(a_linearizable_read_waits_for_a_point),
        T(a_point_of_another_past_is_asked_again),
        T(a_read_that_asks_again_keeps_its_time),
        T(a_read_is_relayed_when_the_tier_cannot_ask),
        T(a_listener_can_make_every_read_serializable_or_relay_it),
        T(without_upstream_no_read_that_needs_a_leader_is_answered),
        T(without_upstream_a_read_fails_as_in_etcd),
        T(a_tier_that_is_not_ready_relays),
        T(a_question_of_a_tier_below_is_not_relayed),
        T(a_question_of_a_tier_below_ends_when_upstream_cannot_be_asked),
        T(a_question_of_a_tier_below_is_answered_here_whatever_the_listener_says),
        T(a_tier_below_that_watches_in_another_past_is_told_nothing),
        T(a_revision_of_the_future_is_refused_when_upstream_has_not_reached_it),
        T(a_serializable_read_waits_a_little_for_its_revision),
        T(a_revision_below_the_window_is_relayed),
        T(damage_is_relayed),
        T(what_cannot_be_read_is_relayed),
        T(a_txn_is_linearizable_if_one_of_its_ranges_is),
        T(a_txn_waits_for_a_point_of_the_same_past),
        T(a_txn_that_writes_is_relayed_and_is_no_read),
        T(a_txn_at_a_revision_is_answered_as_a_range_is),
        T(a_listener_decides_about_a_txn_too),
        T(every_range_of_a_txn_needs_a_right),
        T(rights_are_asked_first),
        T(an_old_read_needs_no_upstream_if_auth_was_off),
        T(a_client_of_a_stale_tier_learns_that_rights_cannot_be_asked),
        T(a_read_that_is_cancelled_is_not_answered),
        T(reads_for_which_there_is_no_time_wait),
        T(a_large_answer_comes_in_parts),
        T(a_part_is_not_read_before_it_is_wanted),
        T(a_lease_in_keys_only_follows_upstreams_version),
        T(an_answer_in_parts_fails_when_its_state_is_gone),
        T(a_large_answer_of_another_past_than_its_point_is_asked_again),
        T(a_range_stream_has_one_message_in_each_part),
        T(a_range_stream_with_an_order_or_filters_is_not_implemented),
        T(refused_memory_of_a_part_is_an_error_and_no_leak),
        T(refused_memory_is_an_error_and_no_leak),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
