/* src/net/grpc_call_test.c: calls while they run: flow control, limits, and callbacks that do everything. */
#include "net/grpc_peer_test.h"

#include "support/refuse.h"

/* ---- flow control ---- */

static void a_message_larger_than_the_window_flows(void **state)
{
    (void)state;
    struct pair pair;
    pair_init(&pair);
    struct seen seen = {0};
    start_unary(&pair, &seen);
    size_t len = 5 * BELFRY_GRPC_WINDOW + 7;
    uint8_t *big = malloc(len);
    assert_non_null(big);
    memset(big, 'x', len);
    peer_respond_grpc(&pair.peer, 1);
    peer_message(&pair.peer, 1, 0, big, len);
    peer_end(&pair.peer, 1, "0", NULL);
    assert_pumps(&pair);
    assert_int_equal(seen.n_messages, 1);
    assert_int_equal(seen.n_bytes, len);
    assert_int_equal(seen.code, BELFRY_GRPC_OK);
    free(big);
    pair_fini(&pair);
}

static void a_message_over_the_limit_ends_its_call_before_it_is_taken(void **state)
{
    (void)state;
    struct pair pair;
    pair_init(&pair);
    struct seen seen[2] = {{0}, {0}};
    start_unary(&pair, &seen[0]);
    start_unary(&pair, &seen[1]);
    peer_respond_grpc(&pair.peer, 1);
    peer_send(&pair.peer, 1, "\0\xff\xff\xff\xff some", 10); /* 4 GiB are announced */
    assert_pumps(&pair);
    assert_int_equal(seen[0].code, BELFRY_GRPC_RESOURCE_EXHAUSTED);
    assert_string_equal(seen[0].message, "received a message larger than 8388608 bytes");
    assert_int_equal(peer_stream(&pair.peer, 1)->reset, NGHTTP2_CANCEL);
    assert_int_equal(seen[1].n_closed, 0);
    pair_fini(&pair);
}

static void a_limit_of_one_call_holds_for_what_begins_after_it(void **state)
{
    (void)state;
    struct pair pair;
    pair_init(&pair);
    struct seen seen[2] = {{0}, {0}};
    struct belfry_grpc_call *limited = start_unary(&pair, &seen[0]);
    start_unary(&pair, &seen[1]);
    peer_respond_grpc(&pair.peer, 1);
    peer_send(&pair.peer, 1, "\0\0\0\0\4so", 7); /* begun under the limit of the connection */
    assert_pumps(&pair);
    belfry_grpc_call_limit(limited, 3);
    peer_send(&pair.peer, 1, "me\0\0\0\0\4", 7);
    peer_respond_grpc(&pair.peer, 3);
    peer_message(&pair.peer, 3, 0, "some", 4);
    assert_pumps(&pair);
    assert_int_equal(seen[0].n_messages, 1);
    assert_int_equal(seen[0].code, BELFRY_GRPC_RESOURCE_EXHAUSTED);
    assert_string_equal(seen[0].message, "received a message larger than 3 bytes");
    assert_int_equal(seen[1].n_messages, 1);
    assert_int_equal(seen[1].n_closed, 0);
    pair_fini(&pair);
}

/* `n` messages of 1,000 bytes on a stream. */
static void send_thousands(struct peer *peer, int32_t id, size_t n)
{
    static uint8_t message[1000];
    for (size_t i = 0; i < n; i++)
        peer_message(peer, id, 0, message, sizeof(message));
}

static void data_of_cancelled_calls_gives_the_connection_window_back(void **state)
{
    (void)state;
    struct pair pair;
    pair_init(&pair);
    for (int32_t id = 1; id <= 61; id += 2) { /* 31 windows of a stream, two of the connection */
        struct seen seen = {0};
        struct belfry_grpc_call *call = start_unary(&pair, &seen);
        peer_respond_grpc(&pair.peer, id);
        send_thousands(&pair.peer, id, BELFRY_GRPC_WINDOW / 1005);
        if (id < 61)
            belfry_grpc_call_cancel(call); /* the data is on its way before the peer hears of that */
        const uint8_t *data;
        ssize_t n;
        while ((n = nghttp2_session_mem_send(pair.peer.session, &data)) > 0)
            assert_int_equal(to_us(&pair, data, (size_t)n), BELFRY_OK);
        assert_pumps(&pair);
        assert_int_equal(seen.n_messages, id < 61 ? 0 : BELFRY_GRPC_WINDOW / 1005);
        if (id == 61)
            belfry_grpc_call_cancel(call);
        assert_int_equal(seen.n_closed, 0);
    }
    pair_fini(&pair);
}

static void what_the_peer_has_no_window_for_stays_queued(void **state)
{
    (void)state;
    struct pair pair;
    nghttp2_settings_entry small = {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 10};
    pair_init_with(&pair, &small, 1);
    assert_pumps(&pair);
    struct seen seen = {0};
    struct belfry_grpc_call *call = open_call(&pair, &seen);
    assert_int_equal(belfry_grpc_call_send(call, belfry_bytes_str("twenty-byte message.")), BELFRY_OK);
    belfry_grpc_call_half_close(call);
    assert_int_equal(pump_out(&pair), BELFRY_OK);
    assert_int_equal(peer_stream(&pair.peer, 1)->data_len, 10);
    assert_int_equal(belfry_grpc_call_queued(call), 15);
    assert_pumps(&pair); /* the peer gives its window back */
    assert_int_equal(peer_stream(&pair.peer, 1)->data_len, 25);
    assert_int_equal(belfry_grpc_call_queued(call), 0);
    assert_true(peer_stream(&pair.peer, 1)->ended);
    pair_fini(&pair);
}

static void a_large_request_leaves_in_several_pulls(void **state)
{
    (void)state;
    struct pair pair;
    nghttp2_settings_entry large = {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 1 << 20};
    pair_init_with(&pair, &large, 1);
    assert_int_equal(nghttp2_session_set_local_window_size(pair.peer.session, 0, 0, 1 << 20), 0);
    assert_pumps(&pair);
    struct seen seen = {0};
    struct belfry_grpc_call *call = open_call(&pair, &seen);
    static char big[300 * 1024];
    assert_int_equal(belfry_grpc_call_send(call, belfry_bytes_of(big, sizeof(big))), BELFRY_OK);
    size_t n = 0, n_pulls = 0;
    while (belfry_http_wants_write(pair.grpc)) {
        assert_int_equal(pull_once(&pair, &n), BELFRY_OK);
        assert_true(n > 0 && n <= 96 * 1024);
        n_pulls++;
    }
    assert_int_equal(n_pulls, 5);
    assert_int_equal(peer_stream(&pair.peer, 1)->data_len, sizeof(big) + 5);
    pair_fini(&pair);
}

/* ---- cancelling, and callbacks that do everything ---- */

static void a_cancelled_call_is_reset_and_silent(void **state)
{
    (void)state;
    struct pair pair;
    pair_init(&pair);
    struct seen seen = {0};
    struct belfry_grpc_call *call = start_unary(&pair, &seen);
    peer_respond_grpc(&pair.peer, 1);
    peer_message(&pair.peer, 1, 0, "one", 3);
    belfry_grpc_call_cancel(call);
    assert_int_equal(belfry_http_n_calls(pair.grpc), 0);
    assert_pumps(&pair);
    assert_int_equal(peer_stream(&pair.peer, 1)->reset, NGHTTP2_CANCEL);
    assert_int_equal(seen.n_messages + seen.n_closed, 0);
    pair_fini(&pair);
}

static void a_call_cancelled_before_it_was_pulled_is_never_heard_of(void **state)
{
    (void)state;
    struct pair pair;
    pair_init(&pair);
    struct seen seen = {0};
    belfry_grpc_call_cancel(open_call(&pair, &seen));
    assert_pumps(&pair);
    assert_int_equal(pair.peer.n_requests, 0);
    assert_int_equal(seen.n_closed, 0);
    pair_fini(&pair);
}

static void cancel_in_callback(struct belfry_grpc_call *call, struct seen *seen)
{
    (void)seen;
    belfry_grpc_call_cancel(call);
}

static void a_call_that_cancels_itself_gets_no_further_message(void **state)
{
    (void)state;
    struct pair pair;
    pair_init(&pair);
    struct seen seen = {.on_message = cancel_in_callback};
    start_unary(&pair, &seen);
    peer_respond_grpc(&pair.peer, 1);
    for (int i = 0; i < 3; i++)
        peer_message(&pair.peer, 1, 0, "one", 3); /* in one DATA frame */
    peer_end(&pair.peer, 1, "0", NULL);
    assert_pumps(&pair);
    assert_int_equal(seen.n_messages, 1);
    assert_int_equal(seen.n_closed, 0);
    assert_int_equal(belfry_http_n_calls(pair.grpc), 0);
    pair_fini(&pair);
}

static void everything_in_closed(struct belfry_grpc_call *call, struct seen *seen)
{
    (void)seen;
    assert_int_equal(belfry_grpc_call_send(call, belfry_bytes_str("too late")), BELFRY_OK);
    belfry_grpc_call_half_close(call);
    belfry_grpc_call_cancel(call);
}

static void a_call_may_do_anything_in_its_last_callback(void **state)
{
    (void)state;
    struct pair pair;
    pair_init(&pair);
    struct seen seen[2] = {{.on_closed = everything_in_closed}, {.on_closed = everything_in_closed}};
    start_unary(&pair, &seen[0]);
    peer_respond_grpc(&pair.peer, 1);
    peer_end(&pair.peer, 1, "0", NULL);
    assert_pumps(&pair);
    start_unary(&pair, &seen[1]);
    belfry_http_lost(pair.grpc, "reset");
    assert_int_equal(seen[0].n_closed + seen[1].n_closed, 2);
    pair_fini(&pair);
}

/* One pair and its other calls, for callbacks that reach for them. */
static struct {
    struct pair *pair;
    struct belfry_grpc_call *other;
    struct seen *seen_new;
    size_t n_opened, n_refused;
} reach;

static void open_in_callback(struct belfry_grpc_call *call, struct seen *seen)
{
    (void)call;
    (void)seen;
    struct belfry_grpc_call_opts opts = {.path = "/s/m", .deadline_ms = BELFRY_NEVER};
    struct belfry_grpc_call *opened;
    enum belfry_err err = belfry_grpc_call_open(reach.pair->grpc, &opts, &seen_events, reach.seen_new, &opened);
    if (err == BELFRY_ERR_UNAVAILABLE) {
        reach.n_refused++;
        return;
    }
    assert_int_equal(err, BELFRY_OK);
    assert_int_equal(belfry_grpc_call_send(opened, belfry_bytes_str("again")), BELFRY_OK);
    belfry_grpc_call_half_close(opened);
    reach.n_opened++;
}

static void callbacks_may_open_calls_until_the_connection_is_dead(void **state)
{
    (void)state;
    struct pair pair;
    pair_init(&pair);
    struct seen again = {0};
    reach.pair = &pair;
    reach.seen_new = &again;
    reach.n_opened = reach.n_refused = 0;
    struct seen seen[3] = {{.on_closed = open_in_callback}, {.on_closed = open_in_callback}, {0}};
    start_unary(&pair, &seen[0]);
    peer_respond_grpc(&pair.peer, 1);
    peer_end(&pair.peer, 1, "14", NULL);
    assert_pumps(&pair);
    assert_int_equal(reach.n_opened, 1);
    assert_memory_equal(peer_stream(&pair.peer, 3)->data, "\0\0\0\0\5again", 10);
    start_unary(&pair, &seen[1]);
    start_unary(&pair, &seen[2]);
    belfry_http_lost(pair.grpc, "reset");
    assert_int_equal(reach.n_refused, 1);
    assert_int_equal(again.n_closed + seen[1].n_closed + seen[2].n_closed, 3);
    pair_fini(&pair);
}

static void cancel_other_in_callback(struct belfry_grpc_call *call, struct seen *seen)
{
    (void)call;
    (void)seen;
    if (reach.other != NULL)
        belfry_grpc_call_cancel(reach.other);
    reach.other = NULL;
}

static void callbacks_may_cancel_calls_that_are_about_to_end_too(void **state)
{
    (void)state;
    struct pair pair;
    pair_init(&pair);
    struct seen seen[3] = {{.on_closed = cancel_other_in_callback}, {0}, {0}};
    start_unary(&pair, &seen[0]);
    reach.other = start_unary(&pair, &seen[1]);
    start_unary(&pair, &seen[2]);
    belfry_http_lost(pair.grpc, "reset"); /* all three end in one go, the first cancels the second */
    assert_int_equal(seen[0].n_closed, 1);
    assert_int_equal(seen[1].n_closed, 0);
    assert_int_equal(seen[2].n_closed, 1);
    pair_fini(&pair);
}

/* ---- limits ---- */

static void the_stream_limit_of_the_peer_is_respected(void **state)
{
    (void)state;
    struct pair pair;
    nghttp2_settings_entry two = {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, 2};
    pair_init_with(&pair, &two, 1);
    assert_pumps(&pair);
    struct seen seen[5] = {{0}, {0}, {0}, {0}, {0}};
    struct belfry_grpc_call *calls[5];
    for (size_t i = 0; i < 5; i++)
        calls[i] = start_unary(&pair, &seen[i]);
    assert_int_equal(pair.peer.n_requests, 2);
    assert_false(belfry_http_wants_write(pair.grpc));
    belfry_grpc_call_cancel(calls[2]); /* while it waits */
    peer_respond_grpc(&pair.peer, 1);
    peer_end(&pair.peer, 1, "0", NULL);
    assert_pumps(&pair);
    assert_int_equal(pair.peer.n_requests, 3);
    belfry_grpc_call_cancel(calls[1]); /* while it runs */
    assert_pumps(&pair);
    assert_int_equal(pair.peer.n_requests, 4);
    belfry_http_lost(pair.grpc, "reset");
    assert_false(seen[3].unprocessed);
    assert_false(seen[4].unprocessed);
    assert_int_equal(seen[2].n_closed, 0);
    pair_fini(&pair);
}

static void waiting_calls_are_bounded(void **state)
{
    (void)state;
    struct pair pair;
    nghttp2_settings_entry one = {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, 1};
    pair_init_with(&pair, &one, 1);
    assert_pumps(&pair);
    static struct seen seen[10001];
    for (size_t i = 0; i < 10001; i++)
        open_call(&pair, &seen[i]); /* one has a place, ten thousand wait */
    struct belfry_grpc_call_opts opts = {.path = "/s/m", .deadline_ms = BELFRY_NEVER};
    struct belfry_grpc_call *call;
    assert_int_equal(belfry_grpc_call_open(pair.grpc, &opts, &seen_events, NULL, &call), BELFRY_ERR_LIMIT);
    assert_pumps(&pair);
    assert_int_equal(belfry_grpc_call_open(pair.grpc, &opts, &seen_events, NULL, &call), BELFRY_ERR_LIMIT);
    peer_respond_grpc(&pair.peer, 1);
    peer_end(&pair.peer, 1, "0", NULL);
    assert_pumps(&pair);
    struct seen last = {0};
    open_call(&pair, &last); /* the first call has ended: a place is free again */
    pair_fini(&pair);
}

/* ---- all of it at random ---- */

struct chaos {
    struct pair pair;
    struct belfry_grpc_call *calls[8];
    struct seen seen[8];
    size_t sent[8]; /* messages that the peer sent */
};

static struct chaos chaos;

static void chaos_closed(struct belfry_grpc_call *call, struct seen *seen)
{
    (void)call;
    chaos.calls[seen - chaos.seen] = NULL;
}

static void chaos_step(size_t i, int32_t id)
{
    struct belfry_rng *rng = &chaos.pair.rng;
    static uint8_t bytes[40000];
    if (belfry_rng_below(rng, 2) == 0) {
        peer_message(&chaos.pair.peer, id, 0, bytes, (size_t)belfry_rng_below(rng, sizeof(bytes)));
        chaos.sent[i]++;
    } else {
        assert_int_equal(belfry_grpc_call_send(chaos.calls[i], belfry_bytes_of(bytes, 100)), BELFRY_OK);
    }
}

/* Eight calls, messages of all sizes both ways, random cuts: every message arrives once. */
static void chaos_run(uint64_t seed)
{
    chaos = (struct chaos){0};
    pair_init(&chaos.pair);
    chaos.pair.cuts = RANDOM_CUTS;
    chaos.pair.rng.state = seed;
    for (size_t i = 0; i < 8; i++) {
        chaos.seen[i] = (struct seen){.on_closed = chaos_closed};
        chaos.calls[i] = start_unary(&chaos.pair, &chaos.seen[i]);
        belfry_grpc_call_cancel(chaos.calls[i]);
        chaos.calls[i] = open_call(&chaos.pair, &chaos.seen[i]);
        assert_pumps(&chaos.pair);
        peer_respond_grpc(&chaos.pair.peer, (int32_t)(4 * i + 3));
    }
    for (size_t step = 0; step < 300; step++) {
        size_t i = (size_t)belfry_rng_below(&chaos.pair.rng, 8);
        chaos_step(i, (int32_t)(4 * i + 3));
        if (step % 7 == 0)
            assert_pumps(&chaos.pair);
    }
    for (size_t i = 0; i < 8; i++)
        peer_end(&chaos.pair.peer, (int32_t)(4 * i + 3), "0", NULL);
    assert_pumps(&chaos.pair);
    assert_int_equal(belfry_http_n_calls(chaos.pair.grpc), 0);
    for (size_t i = 0; i < 8; i++) {
        assert_int_equal(chaos.seen[i].code, BELFRY_GRPC_OK);
        assert_int_equal(chaos.seen[i].n_messages, chaos.sent[i]);
    }
    pair_fini(&chaos.pair);
}

static void random_traffic_loses_nothing(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        print_message("seed %llu\n", (unsigned long long)seed);
        chaos_run(seed);
    }
}

/* ---- memory ---- */

/* Limits, cancels, GOAWAY and loss with the n-th allocation refused. */
static enum belfry_err rough_exchange(struct pair *pair, struct seen seen[4])
{
    struct belfry_grpc_call_opts opts = {.path = "/s/m", .deadline_ms = pair->now_ms + 100};
    struct belfry_grpc_call *calls[4];
    enum belfry_err err = BELFRY_OK;
    for (size_t i = 0; err == BELFRY_OK && i < 4; i++) {
        err = belfry_grpc_call_open(pair->grpc, &opts, &seen_events, &seen[i], &calls[i]);
        if (err == BELFRY_OK)
            err = belfry_grpc_call_send(calls[i], belfry_bytes_str("ask"));
    }
    if (err == BELFRY_OK)
        err = pump(pair);
    if (err != BELFRY_OK)
        return err;
    peer_respond_grpc(&pair->peer, 1);
    send_thousands(&pair->peer, 1, 20);
    belfry_grpc_call_cancel(calls[1]);
    assert_int_equal(nghttp2_submit_goaway(pair->peer.session, 0, 3, NGHTTP2_NO_ERROR, NULL, 0), 0);
    err = pump(pair);
    if (err == BELFRY_OK)
        err = belfry_http_tick(pair->grpc, pair->now_ms + 100);
    return err == BELFRY_OK ? pump(pair) : err;
}

static enum belfry_err rough_scenario(void)
{
    struct pair pair = {.now_ms = 1000};
    struct seen seen[4] = {{0}, {0}, {0}, {0}};
    nghttp2_settings_entry three = {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, 3};
    peer_init_with(&pair.peer, &three, 1);
    enum belfry_err err = belfry_grpc_connect(&pair_opts, pair.now_ms, &pair.grpc);
    if (err == BELFRY_OK)
        err = rough_exchange(&pair, seen);
    belfry_http_destroy(pair.grpc);
    peer_fini(&pair.peer);
    if (err == BELFRY_OK) {
        assert_int_equal(seen[0].n_messages, 20);
        assert_int_equal(seen[0].code, BELFRY_GRPC_DEADLINE_EXCEEDED);
        assert_int_equal(seen[1].n_closed, 0);
        assert_true(seen[2].unprocessed && seen[3].unprocessed);
    }
    return err;
}

static void refused_memory_leaks_nothing_in_the_roughest_exchange(void **state)
{
    (void)state;
    assert_true(refuse_sweep(rough_scenario) > 40);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_larger_than_the_window_flows),
        cmocka_unit_test(a_message_over_the_limit_ends_its_call_before_it_is_taken),
        cmocka_unit_test(a_limit_of_one_call_holds_for_what_begins_after_it),
        cmocka_unit_test(data_of_cancelled_calls_gives_the_connection_window_back),
        cmocka_unit_test(what_the_peer_has_no_window_for_stays_queued),
        cmocka_unit_test(a_large_request_leaves_in_several_pulls),
        cmocka_unit_test(a_cancelled_call_is_reset_and_silent),
        cmocka_unit_test(a_call_cancelled_before_it_was_pulled_is_never_heard_of),
        cmocka_unit_test(a_call_that_cancels_itself_gets_no_further_message),
        cmocka_unit_test(a_call_may_do_anything_in_its_last_callback),
        cmocka_unit_test(callbacks_may_open_calls_until_the_connection_is_dead),
        cmocka_unit_test(callbacks_may_cancel_calls_that_are_about_to_end_too),
        cmocka_unit_test(the_stream_limit_of_the_peer_is_respected),
        cmocka_unit_test(waiting_calls_are_bounded),
        cmocka_unit_test(random_traffic_loses_nothing),
        cmocka_unit_test(refused_memory_leaks_nothing_in_the_roughest_exchange),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
