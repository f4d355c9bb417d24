/* src/net/fetch_h2_test.c: net/fetch.h over HTTP/2, against a server made of nghttp2 (net/grpc_peer_test.h has it). */
#include <stdlib.h>

/* The peer is shared with gRPC's suites; what it has for a gRPC client stays unused here. */
#define seen        grpc_seen
#define seen_events grpc_seen_events
#include "net/grpc_peer_test.h"
#undef seen
#undef seen_events

#include "net/fetch_seen_test.h"
#include "support/refuse.h"

struct wire {
    struct peer peer;
    struct belfry_http *http;
    uint64_t now_ms;
    enum cuts cuts;
    uint8_t *record; /* what the server sent, when not NULL; from the C library */
    size_t n_record;
};

static void wire_init_with(struct wire *w, const nghttp2_settings_entry *settings, size_t n)
{
    *w = (struct wire){.now_ms = 1000};
    peer_init_with(&w->peer, settings, n);
    assert_int_equal(belfry_http_create(&seen_opts, w->now_ms, &w->http), BELFRY_OK);
    assert_int_equal(belfry_http_start(w->http, BELFRY_HTTP_2, w->now_ms), BELFRY_OK);
}

static void wire_init(struct wire *w)
{
    wire_init_with(w, NULL, 0);
}

static void wire_fini(struct wire *w)
{
    belfry_http_destroy(w->http);
    peer_fini(&w->peer);
    __real_free(w->record);
}

static enum belfry_err give(struct wire *w, const uint8_t *data, size_t len)
{
    for (size_t at = 0, n; at < len; at += n) {
        n = w->cuts == SINGLE_BYTES ? 1 : len;
        uint8_t *piece = malloc(n); /* of its own, so that reading past a cut is seen */
        if (piece == NULL)
            return BELFRY_ERR_NOMEM;
        memcpy(piece, data + at, n);
        enum belfry_err err = belfry_http_receive(w->http, belfry_bytes_of(piece, n), w->now_ms);
        free(piece);
        if (err != BELFRY_OK)
            return err;
    }
    return BELFRY_OK;
}

/* Everything we want to send reaches the peer. */
static enum belfry_err send_all(struct wire *w)
{
    for (;;) {
        struct belfry_bytes out;
        bool wanted = belfry_http_wants_write(w->http);
        enum belfry_err err = belfry_http_pull(w->http, w->now_ms, &out);
        if (err != BELFRY_OK)
            return err;
        if (!wanted)
            assert_int_equal(out.len, 0);
        if (out.len == 0)
            return BELFRY_OK;
        assert_true(nghttp2_session_mem_recv(w->peer.session, (const uint8_t *)out.data, out.len) == (ssize_t)out.len);
    }
}

/* Carries bytes both ways until neither has any. */
static enum belfry_err carry(struct wire *w)
{
    for (;;) {
        enum belfry_err err = send_all(w);
        if (err != BELFRY_OK)
            return err;
        const uint8_t *data;
        ssize_t n = nghttp2_session_mem_send(w->peer.session, &data);
        assert_true(n >= 0);
        if (n == 0)
            return BELFRY_OK;
        if (w->record != NULL)
            grow(&w->record, &w->n_record, data, (size_t)n);
        err = give(w, data, (size_t)n);
        if (err != BELFRY_OK)
            return err;
    }
}

#define assert_carries(w) assert_int_equal(carry(w), BELFRY_OK)

static void start_get(struct wire *w, const char *target, struct seen *seen)
{
    get(w->http, target, seen);
    assert_carries(w);
}

static void respond(struct wire *w, int32_t id, const char *status, const char *body)
{
    nghttp2_nv nv[] = {field(":status", status), field("content-type", "application/json")};
    peer_respond(&w->peer, id, nv, 2);
    peer_send(&w->peer, id, body, strlen(body));
}

/* A whole response. */
static void answer(struct wire *w, int32_t id, const char *status, const char *body)
{
    respond(w, id, status, body);
    peer_end(&w->peer, id, NULL, NULL);
    assert_carries(w);
}

/* ---- what is asked and answered ---- */

static void a_request_ends_with_its_headers_and_the_response_is_told(void **state)
{
    (void)state;
    for (enum cuts cuts = WHOLE; cuts <= SINGLE_BYTES; cuts++) {
        struct wire w;
        struct seen seen = {0};
        wire_init(&w);
        w.cuts = cuts;
        start_get(&w, "/api?watch=1", &seen);
        assert_true(peer_stream(&w.peer, 1)->ended);
        assert_int_equal(peer_stream(&w.peer, 1)->data_len, 0);
        assert_string_equal(peer_stream(&w.peer, 1)->head,
                            ":method: GET\n:scheme: https\n:path: /api?watch=1\n:authority: kube.test:6443\n"
                            "user-agent: belfry-test/1\naccept: application/json\n");
        answer(&w, 1, "200", "hello");
        assert_ended(&seen, 200, "hello");
        assert_string_equal(seen.fields, "content-type=application/json;");
        assert_int_equal(peer_stream(&w.peer, 1)->reset, UINT32_MAX);
        assert_int_equal(belfry_http_n_calls(w.http), 0);
        assert_int_equal(belfry_http_version(w.http), BELFRY_HTTP_2);
        wire_fini(&w);
    }
}

static void calls_wait_for_the_start_and_then_run_side_by_side(void **state)
{
    (void)state;
    struct wire w = {.now_ms = 1000};
    struct seen seen[3] = {{0}, {0}, {0}};
    peer_init_with(&w.peer, NULL, 0);
    assert_int_equal(belfry_http_create(&seen_opts, w.now_ms, &w.http), BELFRY_OK);
    for (size_t i = 0; i < 3; i++)
        get(w.http, "/api", &seen[i]);
    assert_false(belfry_http_wants_write(w.http));
    assert_int_equal(belfry_http_due(w.http), BELFRY_NEVER);
    assert_int_equal(belfry_http_start(w.http, BELFRY_HTTP_2, w.now_ms), BELFRY_OK);
    assert_carries(&w);
    assert_int_equal(w.peer.n_requests, 3);
    answer(&w, 3, "200", "two");
    answer(&w, 5, "404", "three");
    answer(&w, 1, "200", "one");
    assert_ended(&seen[0], 200, "one");
    assert_ended(&seen[1], 200, "two");
    assert_ended(&seen[2], 404, "three");
    wire_fini(&w);
}

static void calls_over_the_limit_of_the_peer_wait(void **state)
{
    (void)state;
    struct wire w;
    struct seen seen[3] = {{0}, {0}, {0}};
    nghttp2_settings_entry two = {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, 2};
    wire_init_with(&w, &two, 1);
    assert_carries(&w);
    assert_int_equal(belfry_http_room(w.http), 2);
    get(w.http, "/a", &seen[0]);
    assert_int_equal(belfry_http_room(w.http), 1);
    get(w.http, "/b", &seen[1]);
    get(w.http, "/c", &seen[2]);
    assert_int_equal(belfry_http_room(w.http), 0);
    assert_carries(&w);
    assert_int_equal(w.peer.n_requests, 2);
    answer(&w, 1, "200", "a");
    assert_int_equal(w.peer.n_requests, 3);
    answer(&w, 3, "200", "b");
    answer(&w, 5, "200", "c");
    assert_ended(&seen[2], 200, "c");
    assert_int_equal(belfry_http_room(w.http), 2);
    wire_fini(&w);
}

static void informational_responses_are_skipped_and_bounded(void **state)
{
    (void)state;
    struct wire w;
    struct seen seen = {0}, endless = {0};
    nghttp2_nv early[] = {field(":status", "103"), field("link", "</a>")};
    wire_init(&w);
    start_get(&w, "/a", &seen);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(nghttp2_submit_headers(w.peer.session, 0, 1, NULL, early, 2, NULL), 0);
        assert_carries(&w);
    }
    assert_int_equal(seen.n_heads, 0);
    answer(&w, 1, "200", "a");
    assert_ended(&seen, 200, "a");
    assert_string_equal(seen.fields, "content-type=application/json;");

    start_get(&w, "/b", &endless);
    for (int i = 0; i < 100 && !is_over(&endless); i++) {
        assert_int_equal(nghttp2_submit_headers(w.peer.session, 0, 3, NULL, early, 2, NULL), 0);
        assert_carries(&w);
    }
    assert_failed(&endless, BELFRY_ERR_PROTOCOL, "without end");
    assert_int_equal(peer_stream(&w.peer, 3)->reset, NGHTTP2_CANCEL);
    wire_fini(&w);
}

static void responses_without_a_body_end_with_their_head(void **state)
{
    (void)state;
    struct wire w;
    struct seen none = {0}, head = {0};
    wire_init(&w);
    start_get(&w, "/a", &none);
    nghttp2_nv no_content[] = {field(":status", "204")};
    peer_respond_only(&w.peer, 1, no_content, 1);
    assert_carries(&w);
    assert_ended(&none, 204, "");
    assert_int_equal(ask(w.http, "HEAD", "/b", &head), BELFRY_OK);
    assert_carries(&w);
    nghttp2_nv large[] = {field(":status", "200"), field("content-length", "700")};
    peer_respond_only(&w.peer, 3, large, 2);
    assert_carries(&w);
    assert_ended(&head, 200, "");
    wire_fini(&w);
}

static void trailers_are_nobodys(void **state)
{
    (void)state;
    struct wire w;
    struct seen seen = {0};
    wire_init(&w);
    start_get(&w, "/a", &seen);
    respond(&w, 1, "200", "hello");
    peer_end(&w.peer, 1, "0", "a trailer");
    assert_carries(&w);
    assert_ended(&seen, 200, "hello");
    assert_string_equal(seen.fields, "content-type=application/json;");
    wire_fini(&w);
}

/* ---- what goes wrong ---- */

static void resets_are_told_with_what_they_mean(void **state)
{
    (void)state;
    static const struct {
        uint32_t code;
        enum belfry_err err;
        bool unprocessed;
    } rows[] = {
        {NGHTTP2_REFUSED_STREAM, BELFRY_ERR_UNAVAILABLE, true}, {NGHTTP2_INTERNAL_ERROR, BELFRY_ERR_UNAVAILABLE, false},
        {NGHTTP2_NO_ERROR, BELFRY_ERR_UNAVAILABLE, false},      {NGHTTP2_CANCEL, BELFRY_ERR_UNAVAILABLE, false},
        {NGHTTP2_PROTOCOL_ERROR, BELFRY_ERR_PROTOCOL, false},   {4711, BELFRY_ERR_UNAVAILABLE, false},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct wire w;
        struct seen seen = {0};
        wire_init(&w);
        start_get(&w, "/a", &seen);
        nghttp2_submit_rst_stream(w.peer.session, 0, 1, rows[i].code);
        assert_carries(&w);
        assert_failed(&seen, rows[i].err, "reset");
        assert_int_equal(seen.unprocessed, rows[i].unprocessed);
        assert_int_equal(belfry_http_state(w.http), BELFRY_HTTP_OPEN);
        wire_fini(&w);
    }
}

static void a_length_that_lies_fails_the_call_alone(void **state)
{
    (void)state;
    struct wire w;
    struct seen lied = {0}, other = {0};
    wire_init(&w);
    start_get(&w, "/a", &lied);
    start_get(&w, "/b", &other);
    nghttp2_nv nv[] = {field(":status", "200"), field("content-length", "6")};
    peer_respond(&w.peer, 1, nv, 2);
    peer_send(&w.peer, 1, "hello", 5);
    peer_end(&w.peer, 1, NULL, NULL);
    assert_carries(&w);
    assert_int_equal(belfry_http_due(w.http), 0); /* it was found while pulling, which makes no callback */
    assert_int_equal(belfry_http_tick(w.http, w.now_ms), BELFRY_OK);
    assert_failed(&lied, BELFRY_ERR_PROTOCOL, "");
    answer(&w, 3, "200", "b");
    assert_ended(&other, 200, "b");
    wire_fini(&w);
}

static void a_status_that_http_does_not_know_fails_the_call(void **state)
{
    (void)state;
    struct wire w;
    struct seen seen = {0};
    wire_init(&w);
    start_get(&w, "/a", &seen);
    nghttp2_nv nv[] = {field(":status", "600")};
    peer_respond_only(&w.peer, 1, nv, 1);
    assert_carries(&w);
    assert_failed(&seen, BELFRY_ERR_PROTOCOL, "status");
    wire_fini(&w);
}

static void goaway_drains(void **state)
{
    (void)state;
    struct wire w;
    struct seen first = {0}, second = {0}, waiting = {0}, late = {0};
    nghttp2_settings_entry two = {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, 2};
    wire_init_with(&w, &two, 1);
    start_get(&w, "/a", &first);
    start_get(&w, "/b", &second);
    start_get(&w, "/c", &waiting);
    respond(&w, 1, "200", "hel");
    assert_carries(&w);
    nghttp2_submit_goaway(w.peer.session, 0, 1, NGHTTP2_NO_ERROR, (const uint8_t *)"bye\n", 4);
    assert_carries(&w);
    assert_int_equal(belfry_http_state(w.http), BELFRY_HTTP_DRAINING);
    assert_failed(&second, BELFRY_ERR_UNAVAILABLE, "GOAWAY NO_ERROR: bye?");
    assert_failed(&waiting, BELFRY_ERR_UNAVAILABLE, "GOAWAY");
    assert_true(second.unprocessed && waiting.unprocessed);
    assert_int_equal(ask(w.http, "GET", "/d", &late), BELFRY_ERR_UNAVAILABLE);
    assert_int_equal(belfry_http_room(w.http), 0);
    peer_send(&w.peer, 1, "lo", 2);
    peer_end(&w.peer, 1, NULL, NULL);
    assert_carries(&w);
    assert_ended(&first, 200, "hello");
    wire_fini(&w);
}

static void what_was_answered_was_processed_whatever_goaway_says(void **state)
{
    (void)state;
    struct wire w;
    struct seen seen = {0};
    static const uint8_t goaway[] = {0, 0, 8, NGHTTP2_GOAWAY, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    wire_init(&w);
    start_get(&w, "/a", &seen);
    respond(&w, 1, "200", "a");
    assert_carries(&w);
    assert_int_equal(give(&w, goaway, sizeof(goaway)), BELFRY_OK);
    assert_failed(&seen, BELFRY_ERR_UNAVAILABLE, "GOAWAY");
    assert_false(seen.unprocessed);
    wire_fini(&w);
}

static void a_lost_connection_fails_all_and_says_what_was_not_sent(void **state)
{
    (void)state;
    struct wire w;
    struct seen sent = {0}, unsent = {0};
    wire_init(&w);
    start_get(&w, "/a", &sent);
    get(w.http, "/b", &unsent);
    belfry_http_lost(w.http, "the peer closed the connection");
    assert_failed(&sent, BELFRY_ERR_UNAVAILABLE, "the peer closed the connection");
    assert_failed(&unsent, BELFRY_ERR_UNAVAILABLE, "the peer closed the connection");
    assert_true(!sent.unprocessed && unsent.unprocessed);
    assert_int_equal(belfry_http_state(w.http), BELFRY_HTTP_DEAD);
    assert_int_equal(belfry_http_due(w.http), BELFRY_NEVER);
    wire_fini(&w);
}

static void what_is_not_http2_ends_the_connection(void **state)
{
    (void)state;
    struct wire w;
    struct seen seen = {0};
    wire_init(&w);
    get(w.http, "/a", &seen);
    assert_int_equal(send_all(&w), BELFRY_OK);
    assert_int_equal(give(&w, (const uint8_t *)"HTTP/1.1 400 Bad Request\r\n\r\n", 28), BELFRY_ERR_PROTOCOL);
    assert_failed(&seen, BELFRY_ERR_PROTOCOL, "");
    assert_int_equal(give(&w, (const uint8_t *)"x", 1), BELFRY_ERR_UNAVAILABLE);
    struct belfry_bytes out;
    assert_int_equal(belfry_http_pull(w.http, w.now_ms, &out), BELFRY_OK);
    assert_true(out.len > 0); /* a GOAWAY */
    wire_fini(&w);
}

/* Records an exchange, then plays it to another connection up to each of its bytes. */
static void a_response_that_ends_early_fails_at_every_byte(void **state)
{
    (void)state;
    struct wire w;
    struct seen seen = {0};
    wire_init(&w);
    grow(&w.record, &w.n_record, "", 0);
    start_get(&w, "/a", &seen);
    answer(&w, 1, "200", "hello");
    assert_ended(&seen, 200, "hello");
    bool ended = false;
    for (size_t n = 0; n <= w.n_record; n++) {
        struct wire again;
        struct seen cut = {0};
        wire_init(&again);
        get(again.http, "/a", &cut);
        assert_int_equal(send_all(&again), BELFRY_OK);
        if (n > 0)
            assert_int_equal(give(&again, w.record, n), BELFRY_OK);
        ended = cut.n_ends == 1;
        belfry_http_lost(again.http, "cut");
        if (!ended)
            assert_failed(&cut, BELFRY_ERR_UNAVAILABLE, "cut");
        assert_memory_equal(cut.body, "hello", cut.n_bytes);
        wire_fini(&again);
    }
    assert_true(ended); /* by the last byte */
    wire_fini(&w);
}

/* ---- bounds ---- */

static void fields_are_bounded_in_number(void **state)
{
    (void)state;
    struct wire w;
    struct seen fits = {0}, over = {0}, other = {0};
    nghttp2_nv nv[BELFRY_FETCH_FIELDS + 2] = {field(":status", "200")};
    for (size_t i = 1; i < BELFRY_FETCH_FIELDS + 2; i++)
        nv[i] = field("a", "b");
    wire_init(&w);
    start_get(&w, "/a", &fits);
    start_get(&w, "/b", &over);
    start_get(&w, "/c", &other);
    peer_respond_only(&w.peer, 1, nv, BELFRY_FETCH_FIELDS + 1);
    peer_respond_only(&w.peer, 3, nv, BELFRY_FETCH_FIELDS + 2);
    assert_carries(&w);
    assert_ended(&fits, 200, "");
    assert_int_equal(fits.n_fields, BELFRY_FETCH_FIELDS);
    assert_failed(&over, BELFRY_ERR_TOO_LARGE, "128 fields");
    answer(&w, 5, "200", "c");
    assert_ended(&other, 200, "c");
    wire_fini(&w);
}

/* Fields of 533 bytes, 565 as HTTP/2 counts them: of 115 the head is under 64 KiB, of 120 over (and no server of
 * nghttp2's would send more than that). */
static void respond_large(struct wire *w, int32_t id, size_t n)
{
    static char value[530];
    static nghttp2_nv nv[121];
    memset(value, 'v', sizeof(value) - 1);
    nv[0] = field(":status", "200");
    for (size_t i = 1; i <= n; i++)
        nv[i] = field("some", value);
    peer_respond_only(&w->peer, id, nv, n + 1);
    assert_carries(w);
}

static void heads_are_bounded_in_bytes(void **state)
{
    (void)state;
    struct wire w;
    struct seen fits = {0}, over = {0}, other = {0};
    wire_init(&w);
    start_get(&w, "/a", &fits);
    start_get(&w, "/b", &over);
    start_get(&w, "/c", &other);
    respond_large(&w, 1, 115);
    assert_ended(&fits, 200, "");
    respond_large(&w, 3, 120);
    assert_failed(&over, BELFRY_ERR_TOO_LARGE, "64 KiB");
    answer(&w, 5, "200", "c");
    assert_ended(&other, 200, "c");
    wire_fini(&w);
}

/* ---- holding ---- */

static void a_held_call_gives_no_window_and_holds_nobody_else(void **state)
{
    (void)state;
    static char much[3 * BELFRY_FETCH_WINDOW];
    struct wire w;
    struct seen held = {0}, other = {0};
    wire_init(&w);
    start_get(&w, "/a", &held);
    start_get(&w, "/b", &other);
    belfry_fetch_hold(held.call, true);
    respond(&w, 1, "200", "");
    peer_send(&w.peer, 1, much, sizeof(much));
    peer_end(&w.peer, 1, NULL, NULL);
    respond(&w, 3, "200", "");
    peer_send(&w.peer, 3, much, sizeof(much));
    peer_end(&w.peer, 3, NULL, NULL);
    assert_carries(&w);
    assert_true(belfry_http_wants_read(w.http));
    assert_int_equal(peer_stream(&w.peer, 1)->reply_at, BELFRY_FETCH_WINDOW);
    assert_int_equal(held.n_heads + held.n_bytes, 0);
    assert_int_equal(other.n_ends, 1);
    assert_int_equal(other.n_bytes, sizeof(much));
    belfry_fetch_hold(held.call, false);
    assert_int_equal(held.n_bytes, BELFRY_FETCH_WINDOW);
    assert_carries(&w);
    assert_int_equal(held.n_bytes, sizeof(much));
    assert_int_equal(held.n_ends, 1);
    wire_fini(&w);
}

static void hold_it(struct seen *seen)
{
    belfry_fetch_hold(seen->call, true);
}

static void a_held_call_is_told_in_order_and_may_be_held_again(void **state)
{
    (void)state;
    struct wire w;
    struct seen seen = {.on_head = hold_it, .on_body = hold_it};
    wire_init(&w);
    start_get(&w, "/a", &seen);
    answer(&w, 1, "200", "hello");
    assert_int_equal(seen.n_heads, 1);
    assert_int_equal(seen.n_bodies, 0);
    assert_int_equal(belfry_http_n_calls(w.http), 1);
    belfry_fetch_hold(seen.call, false);
    assert_string_equal(seen.body, "hello");
    assert_false(is_over(&seen));
    belfry_fetch_hold(seen.call, false);
    assert_ended(&seen, 200, "hello");
    wire_fini(&w);
}

static void a_failure_of_a_held_call_comes_after_what_it_had(void **state)
{
    (void)state;
    struct wire w;
    struct seen seen = {0}, over = {0};
    wire_init(&w);
    start_get(&w, "/a", &seen);
    start_get(&w, "/b", &over);
    hold_it(&seen);
    hold_it(&over);
    respond(&w, 1, "200", "hel");
    answer(&w, 3, "200", "whole");
    belfry_http_lost(w.http, "gone");
    assert_false(is_over(&seen) || is_over(&over));
    belfry_fetch_hold(seen.call, false);
    assert_string_equal(seen.body, "hel");
    assert_failed(&seen, BELFRY_ERR_UNAVAILABLE, "gone");
    belfry_fetch_hold(over.call, false);
    assert_ended(&over, 200, "whole");
    wire_fini(&w);
}

/* ---- from inside callbacks ---- */

static struct seen *victim;
static struct belfry_http *connection;

static void cancel(struct seen *seen)
{
    struct belfry_fetch *call = seen->call;
    seen->call = NULL;
    belfry_fetch_cancel(call);
}

static void cancel_victim(struct seen *seen)
{
    (void)seen;
    if (victim->call != NULL)
        cancel(victim);
}

static void a_call_is_cancelled_with_a_reset(void **state)
{
    (void)state;
    struct wire w;
    struct seen seen = {0}, unsent = {0};
    wire_init(&w);
    start_get(&w, "/a", &seen);
    cancel(&seen);
    get(w.http, "/b", &unsent);
    cancel(&unsent);
    assert_carries(&w);
    assert_int_equal(peer_stream(&w.peer, 1)->reset, NGHTTP2_CANCEL);
    assert_int_equal(w.peer.n_requests, 1);
    assert_int_equal(belfry_http_state(w.http), BELFRY_HTTP_OPEN);
    assert_int_equal(belfry_http_n_calls(w.http), 0);
    wire_fini(&w);
    assert_false(is_over(&seen) || is_over(&unsent));
}

static void any_callback_may_cancel_itself_and_others(void **state)
{
    (void)state;
    for (int moment = 0; moment < 6; moment++) {
        struct wire w;
        struct seen seen = {0}, other = {0};
        victim = moment < 2 ? &seen : &other;
        seen.on_head = moment % 3 == 0 ? cancel_victim : NULL;
        seen.on_body = moment % 3 == 1 ? cancel_victim : NULL;
        seen.on_last = moment % 3 == 2 ? cancel_victim : NULL;
        wire_init(&w);
        start_get(&w, "/a", &seen);
        start_get(&w, "/b", &other);
        respond(&w, 3, "200", "b");
        answer(&w, 1, "200", "a");
        assert_null(victim->call);
        assert_false(is_over(victim));
        if (victim == &seen) {
            peer_end(&w.peer, 3, NULL, NULL);
            assert_carries(&w);
            assert_ended(&other, 200, "b");
        } else {
            assert_ended(&seen, 200, "a");
        }
        assert_int_equal(belfry_http_n_calls(w.http), 0);
        wire_fini(&w);
    }
}

static void open_another(struct seen *seen)
{
    (void)seen;
    get(connection, "/another", victim);
}

static void any_callback_may_open_another(void **state)
{
    (void)state;
    for (int moment = 0; moment < 3; moment++) {
        struct wire w;
        struct seen seen = {0}, other = {0};
        victim = &other;
        seen.on_head = moment == 0 ? open_another : NULL;
        seen.on_body = moment == 1 ? open_another : NULL;
        seen.on_last = moment == 2 ? open_another : NULL;
        wire_init(&w);
        connection = w.http;
        start_get(&w, "/a", &seen);
        answer(&w, 1, "200", "a");
        answer(&w, 3, "200", "b");
        assert_ended(&seen, 200, "a");
        assert_ended(&other, 200, "b");
        wire_fini(&w);
    }
}

static void release_victim(struct seen *seen)
{
    (void)seen;
    belfry_fetch_hold(victim->call, false);
}

static void a_callback_may_release_another(void **state)
{
    (void)state;
    struct wire w;
    struct seen seen = {.on_body = release_victim}, held = {0};
    victim = &held;
    wire_init(&w);
    start_get(&w, "/a", &seen);
    start_get(&w, "/b", &held);
    hold_it(&held);
    answer(&w, 3, "200", "held");
    assert_false(is_over(&held));
    answer(&w, 1, "200", "a");
    assert_ended(&held, 200, "held");
    assert_ended(&seen, 200, "a");
    wire_fini(&w);
}

static void a_peer_that_overruns_the_window_of_a_held_call_is_stopped(void **state)
{
    (void)state;
    static const uint8_t head[9] = {0, 0x40, 0, NGHTTP2_DATA, 0, 0, 0, 0, 1}; /* 16 KiB on stream 1 */
    static uint8_t frame[sizeof(head) + 16384];
    struct wire w;
    struct seen seen = {0};
    wire_init(&w);
    start_get(&w, "/a", &seen);
    respond(&w, 1, "200", "");
    assert_carries(&w);
    hold_it(&seen);
    memcpy(frame, head, sizeof(head));
    size_t sent = 0, before = refuse_held();
    while (peer_stream(&w.peer, 1)->reset == UINT32_MAX && sent < 4 * BELFRY_FETCH_WINDOW) {
        assert_int_equal(give(&w, frame, sizeof(frame)), BELFRY_OK);
        assert_carries(&w);
        sent += 16384;
    }
    assert_int_equal(sent, BELFRY_FETCH_WINDOW + 16384);
    assert_int_equal(peer_stream(&w.peer, 1)->reset, NGHTTP2_FLOW_CONTROL_ERROR);
    assert_true(refuse_held() <= before + 8);
    assert_failed(&seen, BELFRY_ERR_PROTOCOL, "the peer sent more than its window"); /* held or not */
    assert_int_equal(seen.n_bytes, 0);
    assert_int_equal(belfry_http_state(w.http), BELFRY_HTTP_OPEN);
    wire_fini(&w);
}

static void hold_and_release(struct seen *seen)
{
    size_t n = seen->n_bodies;
    belfry_fetch_hold(seen->call, true);
    belfry_fetch_hold(seen->call, false);
    assert_int_equal(seen->n_bodies, n); /* no event inside an event of the same call */
}

static void hold_and_release_inside_a_callback_go_on_in_order(void **state)
{
    (void)state;
    struct wire w;
    struct seen seen = {.on_head = hold_and_release, .on_body = hold_and_release}, held = seen;
    wire_init(&w);
    start_get(&w, "/a", &seen);
    answer(&w, 1, "200", "hello");
    assert_ended(&seen, 200, "hello");
    start_get(&w, "/b", &held);
    hold_it(&held);
    answer(&w, 3, "200", "hello");
    belfry_fetch_hold(held.call, false);
    assert_ended(&held, 200, "hello");
    wire_fini(&w);
}

static void a_reset_behind_a_held_body_waits_for_it(void **state)
{
    (void)state;
    struct wire w;
    struct seen seen = {0};
    wire_init(&w);
    start_get(&w, "/a", &seen);
    hold_it(&seen);
    respond(&w, 1, "200", "hel");
    assert_carries(&w);
    assert_int_equal(nghttp2_submit_rst_stream(w.peer.session, 0, 1, NGHTTP2_CANCEL), 0);
    assert_carries(&w);
    assert_false(is_over(&seen));
    belfry_fetch_hold(seen.call, false);
    assert_string_equal(seen.body, "hel");
    assert_int_equal(seen.n_failures, 1);
    wire_fini(&w);
}

static void an_answer_that_waits_to_be_taken_outlives_a_goaway(void **state)
{
    (void)state;
    struct wire w;
    struct seen seen = {0};
    wire_init(&w);
    start_get(&w, "/a", &seen);
    hold_it(&seen);
    answer(&w, 1, "200", "hello");
    assert_int_equal(nghttp2_submit_goaway(w.peer.session, 0, 0, NGHTTP2_NO_ERROR, NULL, 0), 0);
    assert_carries(&w);
    assert_false(is_over(&seen));
    belfry_fetch_hold(seen.call, false);
    assert_ended(&seen, 200, "hello");
    wire_fini(&w);
}

static void a_call_that_cancels_itself_while_it_is_released_is_gone(void **state)
{
    (void)state;
    struct wire w;
    struct seen at_head = {.on_head = cancel}, at_body = {.on_body = cancel};
    wire_init(&w);
    start_get(&w, "/a", &at_head);
    start_get(&w, "/b", &at_body);
    hold_it(&at_head);
    hold_it(&at_body);
    answer(&w, 1, "200", "hello");
    answer(&w, 3, "200", "hello");
    belfry_fetch_hold(at_head.call, false);
    belfry_fetch_hold(at_body.call, false);
    assert_int_equal(at_head.n_bodies, 0);
    assert_int_equal(at_body.n_bodies, 1);
    assert_false(is_over(&at_head) || is_over(&at_body));
    assert_int_equal(belfry_http_n_calls(w.http), 0);
    wire_fini(&w);
}

/* ---- holding at random ---- */

static struct belfry_rng rng;

static void hold_at_times(struct seen *seen)
{
    if (belfry_rng_below(&rng, 4) == 0)
        hold_it(seen);
}

/* Eight calls, pieces of all sizes, holds and releases: every byte arrives once. */
static void hold_at_random(uint64_t seed)
{
    static char much[40000];
    struct wire w;
    struct seen seen[8];
    size_t sent[8] = {0};
    rng.state = seed;
    wire_init(&w);
    for (size_t i = 0; i < 8; i++) {
        seen[i] = (struct seen){.on_head = hold_at_times, .on_body = hold_at_times};
        start_get(&w, "/a", &seen[i]);
        respond(&w, (int32_t)(2 * i + 1), "200", "");
    }
    for (size_t step = 0; step < 300; step++) {
        size_t i = (size_t)belfry_rng_below(&rng, 8), len = (size_t)belfry_rng_below(&rng, sizeof(much));
        switch (belfry_rng_below(&rng, 3)) {
        case 0:
            peer_send(&w.peer, (int32_t)(2 * i + 1), much, len);
            sent[i] += len;
            break;
        case 1:
            belfry_fetch_hold(seen[i].call, true);
            break;
        case 2:
            belfry_fetch_hold(seen[i].call, false);
            break;
        }
        if (step % 7 == 0)
            assert_carries(&w);
    }
    for (size_t i = 0; i < 8; i++)
        peer_end(&w.peer, (int32_t)(2 * i + 1), NULL, NULL);
    for (size_t round = 0; belfry_http_n_calls(w.http) > 0; round++) {
        assert_true(round < 10000);
        assert_carries(&w);
        for (size_t i = 0; i < 8; i++)
            if (seen[i].call != NULL)
                belfry_fetch_hold(seen[i].call, false);
    }
    for (size_t i = 0; i < 8; i++) {
        assert_int_equal(seen[i].n_ends, 1);
        assert_int_equal(seen[i].n_bytes, sent[i]);
    }
    wire_fini(&w);
}

static void calls_held_at_random_lose_nothing(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        print_message("seed %llu\n", (unsigned long long)seed);
        hold_at_random(seed);
    }
}

/* ---- PING ---- */

static void a_silent_peer_is_pinged_while_a_call_is_open(void **state)
{
    (void)state;
    struct wire w;
    struct seen seen = {0};
    wire_init(&w);
    assert_carries(&w);
    assert_int_equal(belfry_http_due(w.http), BELFRY_NEVER);
    start_get(&w, "/a", &seen);
    assert_int_equal(belfry_http_due(w.http), w.now_ms + 30000);
    w.now_ms += 29999;
    assert_int_equal(belfry_http_tick(w.http, w.now_ms), BELFRY_OK);
    assert_carries(&w);
    assert_int_equal(w.peer.n_pings, 0);
    w.now_ms += 1;
    assert_int_equal(belfry_http_tick(w.http, w.now_ms), BELFRY_OK);
    assert_int_equal(belfry_http_due(w.http), w.now_ms + 15000);
    assert_carries(&w); /* and its answer comes back */
    assert_int_equal(w.peer.n_pings, 1);
    assert_int_equal(belfry_http_due(w.http), w.now_ms + 30000);
    w.now_ms += 20000;
    respond(&w, 1, "200", "a"); /* whatever it says puts the next off */
    assert_carries(&w);
    assert_int_equal(belfry_http_due(w.http), w.now_ms + 30000);
    peer_end(&w.peer, 1, NULL, NULL);
    assert_carries(&w);
    assert_int_equal(belfry_http_due(w.http), BELFRY_NEVER);
    wire_fini(&w);
}

static void a_peer_that_does_not_answer_a_ping_is_dead(void **state)
{
    (void)state;
    struct wire w;
    struct seen seen = {0};
    wire_init(&w);
    start_get(&w, "/a", &seen);
    w.now_ms += 30000;
    assert_int_equal(belfry_http_tick(w.http, w.now_ms), BELFRY_OK);
    assert_int_equal(send_all(&w), BELFRY_OK);
    w.now_ms += 14999;
    assert_int_equal(belfry_http_tick(w.http, w.now_ms), BELFRY_OK);
    w.now_ms += 1;
    assert_int_equal(belfry_http_tick(w.http, w.now_ms), BELFRY_ERR_TIMEOUT);
    assert_failed(&seen, BELFRY_ERR_TIMEOUT, "PING");
    assert_int_equal(belfry_http_state(w.http), BELFRY_HTTP_DEAD);
    assert_int_equal(belfry_http_tick(w.http, w.now_ms + 100000), BELFRY_OK);
    wire_fini(&w);
}

static void without_an_interval_nobody_is_pinged(void **state)
{
    (void)state;
    struct wire w = {.now_ms = 1000};
    struct seen seen = {0};
    struct belfry_http_opts opts = seen_opts;
    opts.ping_ms = 0;
    peer_init_with(&w.peer, NULL, 0);
    assert_int_equal(belfry_http_create(&opts, w.now_ms, &w.http), BELFRY_OK);
    assert_int_equal(belfry_http_start(w.http, BELFRY_HTTP_2, w.now_ms), BELFRY_OK);
    start_get(&w, "/a", &seen);
    assert_int_equal(belfry_http_due(w.http), BELFRY_NEVER);
    assert_int_equal(belfry_http_tick(w.http, w.now_ms + 1000000), BELFRY_OK);
    assert_carries(&w);
    assert_int_equal(w.peer.n_pings, 0);
    wire_fini(&w);
}

static enum belfry_err scenario(void)
{
    struct wire w = {.now_ms = 1000};
    struct seen first = {0}, second = {0};
    peer_init_with(&w.peer, NULL, 0);
    enum belfry_err err = belfry_http_create(&seen_opts, w.now_ms, &w.http);
    if (err == BELFRY_OK)
        err = belfry_http_start(w.http, BELFRY_HTTP_2, w.now_ms);
    if (err == BELFRY_OK)
        err = ask(w.http, "GET", "/a", &first);
    if (err == BELFRY_OK)
        err = ask(w.http, "GET", "/b", &second);
    if (err == BELFRY_OK)
        err = carry(&w);
    if (err == BELFRY_OK) {
        belfry_fetch_hold(second.call, true);
        respond(&w, 1, "200", "one");
        respond(&w, 3, "200", "two");
        peer_end(&w.peer, 1, NULL, NULL);
        peer_end(&w.peer, 3, NULL, NULL);
        err = carry(&w);
    }
    if (err == BELFRY_OK && second.call != NULL)
        belfry_fetch_hold(second.call, false);
    if (err == BELFRY_OK)
        err = carry(&w);
    if (err == BELFRY_OK) {
        assert_ended(&first, 200, "one");
        assert_ended(&second, 200, "two");
    }
    wire_fini(&w);
    assert_null(first.call);
    assert_null(second.call);
    return err;
}

static void refused_memory_is_reported(void **state)
{
    (void)state;
    assert_true(refuse_sweep(scenario) > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_ends_with_its_headers_and_the_response_is_told),
        cmocka_unit_test(calls_wait_for_the_start_and_then_run_side_by_side),
        cmocka_unit_test(calls_over_the_limit_of_the_peer_wait),
        cmocka_unit_test(informational_responses_are_skipped_and_bounded),
        cmocka_unit_test(responses_without_a_body_end_with_their_head),
        cmocka_unit_test(trailers_are_nobodys),
        cmocka_unit_test(resets_are_told_with_what_they_mean),
        cmocka_unit_test(a_length_that_lies_fails_the_call_alone),
        cmocka_unit_test(a_status_that_http_does_not_know_fails_the_call),
        cmocka_unit_test(goaway_drains),
        cmocka_unit_test(what_was_answered_was_processed_whatever_goaway_says),
        cmocka_unit_test(a_lost_connection_fails_all_and_says_what_was_not_sent),
        cmocka_unit_test(what_is_not_http2_ends_the_connection),
        cmocka_unit_test(a_response_that_ends_early_fails_at_every_byte),
        cmocka_unit_test(fields_are_bounded_in_number),
        cmocka_unit_test(heads_are_bounded_in_bytes),
        cmocka_unit_test(a_held_call_gives_no_window_and_holds_nobody_else),
        cmocka_unit_test(a_held_call_is_told_in_order_and_may_be_held_again),
        cmocka_unit_test(a_failure_of_a_held_call_comes_after_what_it_had),
        cmocka_unit_test(a_call_is_cancelled_with_a_reset),
        cmocka_unit_test(any_callback_may_cancel_itself_and_others),
        cmocka_unit_test(any_callback_may_open_another),
        cmocka_unit_test(a_callback_may_release_another),
        cmocka_unit_test(a_peer_that_overruns_the_window_of_a_held_call_is_stopped),
        cmocka_unit_test(hold_and_release_inside_a_callback_go_on_in_order),
        cmocka_unit_test(a_reset_behind_a_held_body_waits_for_it),
        cmocka_unit_test(an_answer_that_waits_to_be_taken_outlives_a_goaway),
        cmocka_unit_test(a_call_that_cancels_itself_while_it_is_released_is_gone),
        cmocka_unit_test(calls_held_at_random_lose_nothing),
        cmocka_unit_test(a_silent_peer_is_pinged_while_a_call_is_open),
        cmocka_unit_test(a_peer_that_does_not_answer_a_ping_is_dead),
        cmocka_unit_test(without_an_interval_nobody_is_pinged),
        cmocka_unit_test(refused_memory_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
