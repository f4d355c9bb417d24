/* src/net/grpc_test.c: a connection and how its calls end. What happens in between is in grpc_call_test.c. */
#include "net/grpc_peer_test.h"

#include "support/gzipped.h"
#include "support/refuse.h"

/* ---- calls that go well ---- */

static void unary_once(enum cuts cuts, uint64_t seed)
{
    struct pair pair;
    pair_init(&pair);
    pair.cuts = cuts;
    pair.rng.state = seed;
    struct seen seen = {0};
    start_unary(&pair, &seen);
    assert_memory_equal(peer_stream(&pair.peer, 1)->data, "\0\0\0\0\3ask", 8);
    assert_true(peer_stream(&pair.peer, 1)->ended);
    peer_respond_grpc(&pair.peer, 1);
    peer_message(&pair.peer, 1, 0, "answer", 6);
    peer_end(&pair.peer, 1, "0", ""); /* etcd: OK comes with an empty grpc-message */
    assert_pumps(&pair);
    assert_int_equal(seen.n_messages, 1);
    assert_string_equal(seen.first, "answer");
    assert_int_equal(seen.n_closed, 1);
    assert_int_equal(seen.code, BELFRY_GRPC_OK);
    assert_string_equal(seen.message, "");
    assert_true(seen.from_server);
    assert_false(seen.unprocessed);
    assert_true(peer_stream(&pair.peer, 1)->closed);
    assert_int_equal(peer_stream(&pair.peer, 1)->reset, UINT32_MAX);
    assert_int_equal(belfry_http_n_calls(pair.grpc), 0);
    pair_fini(&pair);
}

static void unary_call_works_however_the_bytes_are_cut(void **state)
{
    (void)state;
    unary_once(WHOLE, 0);
    unary_once(SINGLE_BYTES, 0);
    for (uint64_t seed = 1; seed <= 50; seed++) {
        print_message("seed %llu\n", (unsigned long long)seed);
        unary_once(RANDOM_CUTS, seed);
    }
}

static void the_deadline_becomes_what_is_left_when_it_is_sent(void **state)
{
    (void)state;
    struct pair pair;
    pair_init(&pair);
    struct belfry_grpc_call_opts opts[] = {{.path = "/s/m", .deadline_ms = pair.now_ms + 8000},
                                           {.path = "/s/m", .deadline_ms = pair.now_ms + 500},
                                           {.path = "/s/m", .deadline_ms = BELFRY_NEVER}};
    struct seen seen[3] = {{0}, {0}, {0}};
    struct belfry_grpc_call *call;
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(belfry_grpc_call_open(pair.grpc, &opts[i], &seen_events, &seen[i], &call), BELFRY_OK);
    pair.now_ms += 1000; /* no tick came: the second has missed its time */
    assert_pumps(&pair);
    assert_true(peer_has_field(&pair.peer, 1, "grpc-timeout: 7000m\n"));
    assert_true(peer_has_field(&pair.peer, 3, "grpc-timeout: 1m\n"));
    assert_false(peer_has_field(&pair.peer, 5, "grpc-timeout"));
    pair_fini(&pair);
}

static void request_headers_are_those_of_grpc(void **state)
{
    (void)state;
    struct pair pair;
    pair_init(&pair);
    struct belfry_http_field metadata[] = {{belfry_bytes_str("hasleader"), belfry_bytes_str("true")},
                                           {belfry_bytes_str("token"), belfry_bytes_str("abc.7")}};
    struct belfry_grpc_call_opts opts = {
        .path = "/etcdserverpb.Watch/Watch", .metadata = metadata, .n_metadata = 2, .deadline_ms = pair.now_ms + 5000};
    struct seen seen = {0};
    struct belfry_grpc_call *call;
    assert_int_equal(belfry_grpc_call_open(pair.grpc, &opts, &seen_events, &seen, &call), BELFRY_OK);
    pair.now_ms += 100; /* the timeout is what is left when the headers go */
    assert_pumps(&pair);
    assert_string_equal(peer_stream(&pair.peer, 1)->head, ":method: POST\n"
                                                          ":scheme: http\n"
                                                          ":path: /etcdserverpb.Watch/Watch\n"
                                                          ":authority: 127.0.0.1:2379\n"
                                                          "content-type: application/grpc\n"
                                                          "te: trailers\n"
                                                          "grpc-accept-encoding: gzip,identity\n"
                                                          "user-agent: belfry-test/1\n"
                                                          "hasleader: true\n"
                                                          "token: abc.7\n"
                                                          "grpc-timeout: 4900m\n");
    pair_fini(&pair);
    assert_int_equal(seen.n_closed, 1);
}

static void the_first_pull_carries_headers_and_messages_without_waiting_for_the_peer(void **state)
{
    (void)state;
    struct pair pair;
    pair_init(&pair);
    struct seen seen = {0};
    struct belfry_grpc_call *call = open_call(&pair, &seen);
    assert_int_equal(belfry_grpc_call_send(call, belfry_bytes_str("create")), BELFRY_OK);
    assert_int_equal(belfry_grpc_call_queued(call), 11);
    size_t n = 0;
    assert_int_equal(pull_once(&pair, &n), BELFRY_OK); /* nothing was received yet */
    assert_int_equal(belfry_grpc_call_queued(call), 0);
    assert_int_equal(peer_stream(&pair.peer, 1)->data_len, 11);
    assert_false(peer_stream(&pair.peer, 1)->ended);
    assert_false(belfry_http_wants_write(pair.grpc));
    pair_fini(&pair);
}

static void bidirectional_messages_flow_both_ways_even_after_half_close(void **state)
{
    (void)state;
    struct pair pair;
    pair_init(&pair);
    struct seen seen = {0};
    struct belfry_grpc_call *call = open_call(&pair, &seen);
    assert_pumps(&pair);
    for (size_t i = 1; i <= 5; i++) {
        assert_int_equal(belfry_grpc_call_send(call, belfry_bytes_str("more")), BELFRY_OK);
        assert_true(belfry_http_wants_write(pair.grpc));
        assert_pumps(&pair);
        assert_int_equal(peer_stream(&pair.peer, 1)->data_len, i * 9);
        if (i == 1)
            peer_respond_grpc(&pair.peer, 1);
        peer_message(&pair.peer, 1, 0, "event", 5);
        assert_pumps(&pair);
        assert_int_equal(seen.n_messages, i);
    }
    belfry_grpc_call_half_close(call);
    assert_int_equal(belfry_grpc_call_send(call, belfry_bytes_str("late")), BELFRY_ERR_INVALID);
    assert_pumps(&pair);
    assert_true(peer_stream(&pair.peer, 1)->ended);
    peer_message(&pair.peer, 1, 0, "event", 5); /* etcd: half-closing does not end a watch */
    assert_pumps(&pair);
    assert_int_equal(seen.n_messages, 6);
    assert_int_equal(seen.n_closed, 0);
    pair_fini(&pair);
}

static void frames_are_gathered_into_one_write(void **state)
{
    (void)state;
    struct pair pair;
    pair_init(&pair);
    struct seen seen[20] = {0};
    for (size_t i = 0; i < 20; i++) {
        struct belfry_grpc_call *call = open_call(&pair, &seen[i]);
        assert_int_equal(belfry_grpc_call_send(call, belfry_bytes_str("ask")), BELFRY_OK);
        belfry_grpc_call_half_close(call);
    }
    size_t n = 0;
    assert_int_equal(pull_once(&pair, &n), BELFRY_OK);
    assert_int_equal(pair.peer.n_requests, 20);
    for (int32_t id = 1; id < 40; id += 2)
        assert_true(peer_stream(&pair.peer, id)->ended);
    pair_fini(&pair);
}

/* 103 with one more field, and then a response that ends with `code`, or without one if that is NULL. */
static struct seen answer_after_103(const char *name, const char *value, const char *code)
{
    struct pair pair;
    pair_init(&pair);
    struct seen seen = {0};
    start_unary(&pair, &seen);
    nghttp2_nv early[] = {field(":status", "103"), field(name, value)};
    assert_int_equal(nghttp2_submit_headers(pair.peer.session, 0, 1, NULL, early, 2, NULL), 0);
    assert_pumps(&pair);
    assert_int_equal(seen.n_closed, 0);
    peer_respond_grpc(&pair.peer, 1);
    peer_end(&pair.peer, 1, code, NULL);
    assert_pumps(&pair);
    assert_int_equal(seen.n_closed, 1);
    pair_fini(&pair);
    return seen;
}

static void informational_headers_are_ignored(void **state)
{
    (void)state;
    assert_int_equal(answer_after_103("content-type", "text/html", "0").code, BELFRY_GRPC_OK);
    assert_int_equal(answer_after_103("grpc-status", "5", NULL).code, BELFRY_GRPC_UNKNOWN);
}

/* ---- how calls end: what the server says ---- */

static void trailers_alone_are_the_result(void **state)
{
    (void)state;
    struct pair pair;
    pair_init(&pair);
    struct seen seen = {0};
    start_unary(&pair, &seen);
    nghttp2_nv nv[] = {field(":status", "200"), field("content-type", "application/grpc"), field("grpc-status", "14"),
                       field("grpc-message", "etcdserver: no leader")};
    peer_respond_only(&pair.peer, 1, nv, 4);
    assert_pumps(&pair);
    assert_int_equal(seen.code, BELFRY_GRPC_UNAVAILABLE);
    assert_string_equal(seen.message, "etcdserver: no leader");
    assert_true(seen.from_server);
    assert_false(seen.unprocessed);
    pair_fini(&pair);
}

static void headers_then_trailers_are_the_result_too(void **state)
{
    (void)state;
    struct pair pair;
    pair_init(&pair);
    struct seen seen = {0};
    start_unary(&pair, &seen);
    nghttp2_nv nv[] = {field(":status", "200"), field("access-control-allow-origin", "*"),
                       field("content-type", "application/grpc"), field("trailer", "Grpc-Status"),
                       field("trailer", "Grpc-Message")};
    peer_respond(&pair.peer, 1, nv, 5);
    peer_end(&pair.peer, 1, "3", "etcdserver: key is not provided");
    assert_pumps(&pair);
    assert_int_equal(seen.code, BELFRY_GRPC_INVALID_ARGUMENT);
    assert_string_equal(seen.message, "etcdserver: key is not provided");
    assert_true(seen.from_server);
    pair_fini(&pair);
}

/* Ends a unary call with these trailers and returns what was seen. */
static struct seen end_with(const char *code, const char *message)
{
    struct pair pair;
    pair_init(&pair);
    struct seen seen = {0};
    start_unary(&pair, &seen);
    peer_respond_grpc(&pair.peer, 1);
    peer_end(&pair.peer, 1, code, message);
    assert_pumps(&pair);
    assert_int_equal(seen.n_closed, 1);
    pair_fini(&pair);
    return seen;
}

static void messages_are_percent_decoded(void **state)
{
    (void)state;
    struct seen seen = end_with("5", "caf%C3%A9 100%25 50%");
    assert_int_equal(seen.code, BELFRY_GRPC_NOT_FOUND);
    assert_string_equal(seen.message, "caf\xc3\xa9 100% 50%");
}

static void codes_that_nobody_knows_are_unknown(void **state)
{
    (void)state;
    static const char *const codes[] = {"x", "", "17", "-1", "1.0", "99999999999"};
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        struct seen seen = end_with(codes[i], NULL);
        assert_int_equal(seen.code, BELFRY_GRPC_UNKNOWN);
        assert_true(seen.from_server);
        if (i != 2)
            assert_string_equal(seen.message, "malformed grpc-status");
    }
    assert_int_equal(end_with("16", NULL).code, BELFRY_GRPC_UNAUTHENTICATED);
}

static void a_body_without_trailers_is_unknown_and_says_why(void **state)
{
    (void)state;
    struct seen seen = end_with(NULL, NULL);
    assert_int_equal(seen.code, BELFRY_GRPC_UNKNOWN);
    assert_string_equal(seen.message, "HTTP 200 with content-type application/grpc, without grpc-status");
    assert_false(seen.from_server);
}

static struct seen answer_http(const char *http_status, const char *type, bool with_body)
{
    struct pair pair;
    pair_init(&pair);
    struct seen seen = {0};
    start_unary(&pair, &seen);
    nghttp2_nv nv[] = {field(":status", http_status), field("content-type", type)};
    if (with_body) {
        peer_respond(&pair.peer, 1, nv, 2);
        peer_send(&pair.peer, 1, "<html>no</html>", 15);
        peer_end(&pair.peer, 1, NULL, NULL);
    } else {
        peer_respond_only(&pair.peer, 1, nv, 2);
    }
    assert_pumps(&pair);
    assert_int_equal(seen.n_closed, 1);
    assert_int_equal(seen.n_messages, 0);
    pair_fini(&pair);
    return seen;
}

static void http_statuses_map_to_codes(void **state)
{
    (void)state;
    static const struct {
        const char *http;
        int code;
    } table[] = {{"400", 13}, {"401", 16}, {"403", 7},  {"404", 12}, {"429", 14}, {"431", 13},
                 {"500", 2},  {"502", 14}, {"503", 14}, {"504", 14}, {"418", 2}};
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        struct seen seen = answer_http(table[i].http, "application/grpc", false);
        assert_int_equal(seen.code, table[i].code);
        assert_false(seen.from_server);
        assert_int_equal(answer_http(table[i].http, "application/grpc", true).code, table[i].code);
        assert_int_equal(answer_http(table[i].http, "text/html", true).code, table[i].code);
    }
}

static void an_answer_that_is_not_grpc_is_named(void **state)
{
    (void)state;
    struct seen seen = answer_http("200", "text/html; charset=utf-8", true);
    assert_int_equal(seen.code, BELFRY_GRPC_UNKNOWN);
    assert_string_equal(seen.message, "HTTP 200 with content-type text/html; charset=utf-8, without grpc-status");
    seen = answer_http("200", "application/grpc-web+proto", true);
    assert_int_equal(seen.code, BELFRY_GRPC_UNKNOWN);
    assert_non_null(strstr(seen.message, "application/grpc-web+proto"));
    seen = answer_http("200", "", false);
    assert_string_equal(seen.message, "HTTP 200 without content-type and grpc-status");
    seen = answer_http("503", "text/plain", false);
    assert_int_equal(seen.code, BELFRY_GRPC_UNAVAILABLE);
    assert_string_equal(seen.message, "HTTP 503 with content-type text/plain, without grpc-status");
}

static void subtypes_of_the_content_type_are_grpc(void **state)
{
    (void)state;
    static const char *const types[] = {"application/grpc+proto", "application/grpc;charset=utf-8"};
    for (size_t i = 0; i < 2; i++) {
        struct pair pair;
        pair_init(&pair);
        struct seen seen = {0};
        start_unary(&pair, &seen);
        nghttp2_nv nv[] = {field(":status", "200"), field("content-type", types[i])};
        peer_respond(&pair.peer, 1, nv, 2);
        peer_message(&pair.peer, 1, 0, "x", 1);
        peer_end(&pair.peer, 1, "0", NULL);
        assert_pumps(&pair);
        assert_int_equal(seen.n_messages, 1);
        assert_int_equal(seen.code, BELFRY_GRPC_OK);
        pair_fini(&pair);
    }
}

static void a_grpc_status_counts_whatever_the_http_status(void **state)
{
    (void)state;
    struct pair pair;
    pair_init(&pair);
    struct seen seen = {0};
    start_unary(&pair, &seen);
    nghttp2_nv nv[] = {field(":status", "415"), field("content-type", "application/grpc"), field("grpc-status", "3"),
                       field("grpc-message", "invalid gRPC request content-type")};
    peer_respond_only(&pair.peer, 1, nv, 4);
    assert_pumps(&pair);
    assert_int_equal(seen.code, BELFRY_GRPC_INVALID_ARGUMENT);
    assert_true(seen.from_server);
    pair_fini(&pair);
}

static void a_stream_that_ends_inside_a_message_is_internal(void **state)
{
    (void)state;
    struct pair pair;
    pair_init(&pair);
    struct seen seen = {0};
    start_unary(&pair, &seen);
    peer_respond_grpc(&pair.peer, 1);
    peer_send(&pair.peer, 1, "\0\0\0\0\5abc", 8);
    peer_end(&pair.peer, 1, "0", NULL);
    assert_pumps(&pair);
    assert_int_equal(seen.code, BELFRY_GRPC_INTERNAL);
    assert_string_equal(seen.message, "the stream ended inside a message");
    pair_fini(&pair);
}

static void response_headers_are_bounded(void **state)
{
    (void)state;
    struct pair pair;
    pair_init(&pair);
    struct seen seen[2] = {{0}, {0}};
    start_unary(&pair, &seen[0]);
    start_unary(&pair, &seen[1]);
    static nghttp2_nv nv[2500];
    nv[0] = field(":status", "200");
    nv[1] = field("content-type", "application/grpc");
    for (size_t i = 2; i < 2500; i++)
        nv[i] = field("x", "y"); /* a byte each on the wire, 34 as SETTINGS_MAX_HEADER_LIST_SIZE counts */
    peer_respond(&pair.peer, 1, nv, 2500);
    peer_respond(&pair.peer, 3, nv, 1900);
    peer_end(&pair.peer, 3, "0", NULL);
    assert_pumps(&pair);
    assert_int_equal(seen[0].code, BELFRY_GRPC_INTERNAL);
    assert_non_null(strstr(seen[0].message, "64 KiB"));
    assert_int_equal(peer_stream(&pair.peer, 1)->reset, NGHTTP2_INTERNAL_ERROR);
    assert_int_equal(seen[1].code, BELFRY_GRPC_OK);
    assert_int_equal(seen[1].n_closed, 1);
    pair_fini(&pair);
}

/* ---- how calls end: resets ---- */

static struct seen reset_with(uint32_t code)
{
    struct pair pair;
    pair_init(&pair);
    struct seen seen = {0};
    start_unary(&pair, &seen);
    peer_respond_grpc(&pair.peer, 1);
    assert_pumps(&pair);
    assert_int_equal(nghttp2_submit_rst_stream(pair.peer.session, 0, 1, code), 0);
    assert_pumps(&pair);
    assert_int_equal(seen.n_closed, 1);
    assert_false(seen.from_server);
    pair_fini(&pair);
    return seen;
}

static void reset_codes_map_to_codes(void **state)
{
    (void)state;
    static const struct {
        uint32_t h2;
        int code;
    } table[] = {{NGHTTP2_NO_ERROR, 13},          {NGHTTP2_PROTOCOL_ERROR, 13},
                 {NGHTTP2_INTERNAL_ERROR, 13},    {NGHTTP2_FLOW_CONTROL_ERROR, 13},
                 {NGHTTP2_SETTINGS_TIMEOUT, 13},  {NGHTTP2_FRAME_SIZE_ERROR, 13},
                 {NGHTTP2_REFUSED_STREAM, 14},    {NGHTTP2_CANCEL, 1},
                 {NGHTTP2_COMPRESSION_ERROR, 13}, {NGHTTP2_CONNECT_ERROR, 13},
                 {NGHTTP2_ENHANCE_YOUR_CALM, 8},  {NGHTTP2_INADEQUATE_SECURITY, 7},
                 {NGHTTP2_HTTP_1_1_REQUIRED, 2}};
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        struct seen seen = reset_with(table[i].h2);
        assert_int_equal(seen.code, table[i].code);
        assert_int_equal(seen.unprocessed, table[i].h2 == NGHTTP2_REFUSED_STREAM);
        assert_non_null(strstr(seen.message, nghttp2_http2_strerror(table[i].h2)));
    }
}

static void trailers_before_our_half_close_are_the_result_and_the_rest_is_reset(void **state)
{
    (void)state;
    struct pair pair;
    pair_init(&pair);
    struct seen seen = {0};
    struct belfry_grpc_call *call = open_call(&pair, &seen);
    assert_int_equal(belfry_grpc_call_send(call, belfry_bytes_str("part")), BELFRY_OK);
    assert_pumps(&pair);
    nghttp2_nv nv[] = {field(":status", "200"), field("content-type", "application/grpc"), field("grpc-status", "8")};
    peer_respond_only(&pair.peer, 1, nv, 3);
    assert_pumps(&pair);
    assert_int_equal(seen.code, BELFRY_GRPC_RESOURCE_EXHAUSTED);
    assert_true(seen.from_server);
    assert_int_equal(peer_stream(&pair.peer, 1)->reset, NGHTTP2_NO_ERROR);
    pair_fini(&pair);
}

static void a_reset_after_the_trailers_changes_nothing(void **state)
{
    (void)state;
    struct pair pair;
    pair_init(&pair);
    struct seen seen = {0};
    struct belfry_grpc_call *call = open_call(&pair, &seen);
    assert_int_equal(belfry_grpc_call_send(call, belfry_bytes_str("part")), BELFRY_OK);
    assert_pumps(&pair);
    nghttp2_nv nv[] = {field(":status", "200"), field("content-type", "application/grpc"), field("grpc-status", "8")};
    peer_respond_only(&pair.peer, 1, nv, 3);
    const uint8_t *data;
    ssize_t n;
    while ((n = nghttp2_session_mem_send(pair.peer.session, &data)) > 0)
        assert_int_equal(to_us(&pair, data, (size_t)n), BELFRY_OK);
    assert_int_equal(raw_frame(&pair, NGHTTP2_RST_STREAM, 0, 1, "\0\0\0\0", 4), BELFRY_OK); /* before ours is pulled */
    assert_int_equal(seen.n_closed, 1);
    assert_int_equal(seen.code, BELFRY_GRPC_RESOURCE_EXHAUSTED);
    assert_int_equal(belfry_http_state(pair.grpc), BELFRY_HTTP_OPEN);
    pair_fini(&pair);
}

static void a_malformed_response_ends_its_call_alone(void **state)
{
    (void)state;
    struct pair pair;
    pair_init(&pair);
    struct seen seen[2] = {{0}, {0}};
    start_unary(&pair, &seen[0]);
    start_unary(&pair, &seen[1]);
    /* A literal field "A: b": upper case is not allowed. Before it, :status 200 from the static table. */
    assert_int_equal(raw_frame(&pair, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, 1,
                               "\x88\x00\x01"
                               "A\x01"
                               "b",
                               6),
                     BELFRY_OK);
    assert_int_equal(seen[0].n_closed, 1);
    assert_int_equal(seen[0].code, BELFRY_GRPC_INTERNAL);
    assert_non_null(strstr(seen[0].message, "header"));
    assert_int_equal(seen[1].n_closed, 0);
    assert_int_equal(belfry_http_state(pair.grpc), BELFRY_HTTP_OPEN);
    assert_int_equal(pump_out(&pair), BELFRY_OK);
    assert_int_equal(peer_stream(&pair.peer, 1)->reset, NGHTTP2_PROTOCOL_ERROR);
    pair_fini(&pair);
}

static void a_stream_that_is_reset_on_our_side_is_ended_by_the_next_tick(void **state)
{
    (void)state;
    struct pair pair;
    pair_init(&pair);
    struct seen seen = {0};
    start_unary(&pair, &seen);
    static const char head[] = "\x88\0\x0c"
                               "content-type\x10"
                               "application/grpc\0\x0e"
                               "content-length\x03"
                               "100";
    assert_int_equal(raw_frame(&pair, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, 1, head, sizeof(head) - 1), BELFRY_OK);
    assert_int_equal(raw_frame(&pair, NGHTTP2_DATA, NGHTTP2_FLAG_END_STREAM, 1, "\0\0\0\0", 5), BELFRY_OK);
    assert_int_equal(pump_out(&pair), BELFRY_OK); /* nghttp2 notices, resets, and the stream closes in here */
    assert_int_equal(peer_stream(&pair.peer, 1)->reset, NGHTTP2_PROTOCOL_ERROR);
    assert_int_equal(seen.n_closed, 0); /* pull makes no callbacks */
    assert_true(belfry_http_due(pair.grpc) <= pair.now_ms);
    assert_int_equal(belfry_http_tick(pair.grpc, pair.now_ms), BELFRY_OK);
    assert_int_equal(seen.n_closed, 1);
    assert_int_equal(seen.code, BELFRY_GRPC_INTERNAL);
    pair_fini(&pair);
}

/* ---- compression ---- */

/* One message with `flag` under `encoding` (NULL: no such header). */
static struct seen send_encoded(const char *encoding, uint8_t flag, const void *data, size_t len)
{
    struct pair pair;
    pair_init(&pair);
    struct seen seen = {0};
    start_unary(&pair, &seen);
    nghttp2_nv nv[] = {field(":status", "200"), field("content-type", "application/grpc"),
                       field("grpc-encoding", encoding != NULL ? encoding : "")};
    peer_respond(&pair.peer, 1, nv, encoding != NULL ? 3 : 2);
    peer_message(&pair.peer, 1, flag, data, len);
    peer_end(&pair.peer, 1, "0", NULL);
    assert_pumps(&pair);
    assert_int_equal(seen.n_closed, 1);
    pair_fini(&pair);
    return seen;
}

static void gzip_messages_are_unpacked(void **state)
{
    (void)state;
    uint8_t packed[256];
    size_t n = gzipped("unpacked", 8, 9, packed, sizeof(packed));
    struct seen seen = send_encoded("gzip", 1, packed, n);
    assert_int_equal(seen.code, BELFRY_GRPC_OK);
    assert_string_equal(seen.first, "unpacked");
    seen = send_encoded("gzip", 0, "plain", 5);
    assert_int_equal(seen.code, BELFRY_GRPC_OK);
    assert_string_equal(seen.first, "plain");
}

static void compressed_messages_that_cannot_be_unpacked_are_internal(void **state)
{
    (void)state;
    uint8_t packed[256];
    size_t n = gzipped("unpacked", 8, 9, packed, sizeof(packed));
    assert_int_equal(send_encoded(NULL, 1, packed, n).code, BELFRY_GRPC_INTERNAL);
    assert_int_equal(send_encoded("identity", 1, packed, n).code, BELFRY_GRPC_INTERNAL);
    assert_int_equal(send_encoded("snappy", 1, packed, n).code, BELFRY_GRPC_INTERNAL);
    assert_int_equal(send_encoded("gzip", 1, packed, n - 1).code, BELFRY_GRPC_INTERNAL);
    assert_int_equal(send_encoded("gzip", 2, packed, n).code, BELFRY_GRPC_INTERNAL);
}

static void a_message_that_unpacks_to_too_much_is_refused(void **state)
{
    (void)state;
    size_t len = MAX_MESSAGE + 1;
    uint8_t *zeroes = calloc(1, len);
    static uint8_t packed[64 * 1024];
    assert_non_null(zeroes);
    size_t n = gzipped(zeroes, len, 9, packed, sizeof(packed));
    struct seen seen = send_encoded("gzip", 1, packed, n);
    assert_int_equal(seen.code, BELFRY_GRPC_RESOURCE_EXHAUSTED);
    assert_int_equal(seen.n_messages, 0);
    n = gzipped(zeroes, len - 1, 9, packed, sizeof(packed));
    assert_int_equal(send_encoded("gzip", 1, packed, n).n_bytes, MAX_MESSAGE);
    free(zeroes);
}

/* ---- the end of the connection ---- */

static void goaway_lets_running_calls_finish_and_refuses_new_ones(void **state)
{
    (void)state;
    struct pair pair;
    pair_init(&pair);
    struct seen seen[3] = {{0}, {0}, {0}};
    start_unary(&pair, &seen[0]);
    start_unary(&pair, &seen[1]);
    open_call(&pair, &seen[2]); /* not pulled yet: it can never be sent now */
    assert_int_equal(nghttp2_submit_shutdown_notice(pair.peer.session), 0);
    const uint8_t *data;
    ssize_t n = nghttp2_session_mem_send(pair.peer.session, &data);
    assert_int_equal(to_us(&pair, data, (size_t)n), BELFRY_OK);
    assert_int_equal(belfry_http_state(pair.grpc), BELFRY_HTTP_DRAINING);
    assert_int_equal(seen[2].n_closed, 1);
    assert_int_equal(seen[2].code, BELFRY_GRPC_UNAVAILABLE);
    assert_true(seen[2].unprocessed);

    struct belfry_grpc_call_opts opts = {.path = "/s/m", .deadline_ms = BELFRY_NEVER};
    struct belfry_grpc_call *call;
    assert_int_equal(belfry_grpc_call_open(pair.grpc, &opts, &seen_events, NULL, &call), BELFRY_ERR_UNAVAILABLE);

    peer_respond_grpc(&pair.peer, 1);
    peer_message(&pair.peer, 1, 0, "still", 5);
    peer_end(&pair.peer, 1, "0", NULL);
    assert_pumps(&pair);
    assert_int_equal(seen[0].n_messages, 1);
    assert_int_equal(seen[0].code, BELFRY_GRPC_OK);

    assert_int_equal(nghttp2_submit_goaway(pair.peer.session, 0, 1, NGHTTP2_NO_ERROR, NULL, 0), 0);
    assert_pumps(&pair);
    assert_int_equal(seen[1].n_closed, 1);
    assert_int_equal(seen[1].code, BELFRY_GRPC_UNAVAILABLE);
    assert_true(seen[1].unprocessed);
    assert_int_equal(belfry_http_n_calls(pair.grpc), 0);
    pair_fini(&pair);
}

static void the_reason_of_a_goaway_reaches_the_calls(void **state)
{
    (void)state;
    struct pair pair;
    pair_init(&pair);
    struct seen seen[2] = {{0}, {0}};
    start_unary(&pair, &seen[0]);
    start_unary(&pair, &seen[1]);
    assert_int_equal(nghttp2_submit_goaway(pair.peer.session, 0, 1, NGHTTP2_ENHANCE_YOUR_CALM,
                                           (const uint8_t *)"too_many_pings\n", 15),
                     0);
    assert_pumps(&pair);
    assert_int_equal(seen[0].n_closed, 0);
    assert_int_equal(seen[1].n_closed, 1);
    assert_string_equal(seen[1].message, "GOAWAY ENHANCE_YOUR_CALM: too_many_pings?");
    belfry_http_lost(pair.grpc, "connection reset by peer");
    assert_string_equal(seen[0].message, "connection reset by peer, after GOAWAY ENHANCE_YOUR_CALM: too_many_pings?");
    assert_false(seen[0].unprocessed);
    pair_fini(&pair);
}

static void a_lost_connection_tells_what_was_never_sent(void **state)
{
    (void)state;
    struct pair pair;
    pair_init(&pair);
    struct seen seen[2] = {{0}, {0}};
    start_unary(&pair, &seen[0]);
    open_call(&pair, &seen[1]);
    belfry_http_lost(pair.grpc, "connection reset by peer");
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(seen[i].n_closed, 1);
        assert_int_equal(seen[i].code, BELFRY_GRPC_UNAVAILABLE);
        assert_string_equal(seen[i].message, "connection reset by peer");
        assert_int_equal(seen[i].unprocessed, i == 1);
    }
    assert_int_equal(belfry_http_state(pair.grpc), BELFRY_HTTP_DEAD);
    pair_fini(&pair);
}

static void everything_is_safe_on_a_dead_connection(void **state)
{
    (void)state;
    struct pair pair;
    pair_init(&pair);
    struct seen seen = {0};
    start_unary(&pair, &seen);
    belfry_http_lost(pair.grpc, "gone");
    belfry_http_lost(pair.grpc, "gone again");
    assert_int_equal(belfry_http_receive(pair.grpc, belfry_bytes_str("bytes"), pair.now_ms), BELFRY_ERR_UNAVAILABLE);
    assert_false(belfry_http_wants_write(pair.grpc));
    struct belfry_bytes out;
    assert_int_equal(belfry_http_pull(pair.grpc, pair.now_ms, &out), BELFRY_OK);
    assert_int_equal(out.len, 0);
    assert_int_equal(belfry_http_tick(pair.grpc, pair.now_ms + 1000000), BELFRY_OK);
    assert_true(belfry_http_due(pair.grpc) == BELFRY_NEVER);
    assert_int_equal(belfry_http_n_calls(pair.grpc), 0);
    struct belfry_grpc_call_opts opts = {.path = "/s/m", .deadline_ms = BELFRY_NEVER};
    struct belfry_grpc_call *call;
    assert_int_equal(belfry_grpc_call_open(pair.grpc, &opts, &seen_events, NULL, &call), BELFRY_ERR_UNAVAILABLE);
    pair_fini(&pair);
    assert_int_equal(seen.n_closed, 1);
}

static void destroying_the_connection_ends_its_calls(void **state)
{
    (void)state;
    struct pair pair;
    pair_init(&pair);
    struct seen seen[2] = {{0}, {0}};
    start_unary(&pair, &seen[0]);
    open_call(&pair, &seen[1]);
    pair_fini(&pair);
    assert_int_equal(seen[0].n_closed, 1);
    assert_int_equal(seen[1].code, BELFRY_GRPC_UNAVAILABLE);
    belfry_http_destroy(NULL);
}

static void a_peer_that_speaks_http1_is_a_protocol_error(void **state)
{
    (void)state;
    struct pair pair;
    pair_init(&pair);
    struct seen seen = {0};
    open_call(&pair, &seen);
    static const char answer[] = "HTTP/1.1 400 Bad Request\r\n\r\n";
    assert_int_equal(to_us(&pair, answer, sizeof(answer) - 1), BELFRY_ERR_PROTOCOL);
    assert_int_equal(belfry_http_state(pair.grpc), BELFRY_HTTP_DEAD);
    assert_int_equal(seen.code, BELFRY_GRPC_UNAVAILABLE);
    assert_non_null(strstr(seen.message, "HTTP/2"));
    pair_fini(&pair);
}

/* Draining or not, a breach ends the connection and a GOAWAY says so. */
static void breach_once(bool draining)
{
    struct pair pair;
    pair_init(&pair);
    struct seen seen = {0};
    start_unary(&pair, &seen);
    if (draining) {
        assert_int_equal(nghttp2_submit_shutdown_notice(pair.peer.session), 0);
        assert_pumps(&pair);
        assert_int_equal(belfry_http_state(pair.grpc), BELFRY_HTTP_DRAINING);
    }
    enum belfry_err err = raw_frame(&pair, NGHTTP2_DATA, 0, 0, "x", 1); /* DATA on stream 0 */
    struct belfry_bytes out;
    if (err == BELFRY_OK)
        err = belfry_http_pull(pair.grpc, pair.now_ms, &out);
    assert_int_equal(err, BELFRY_ERR_PROTOCOL);
    assert_int_equal(belfry_http_state(pair.grpc), BELFRY_HTTP_DEAD);
    assert_int_equal(seen.n_closed, 1);
    assert_int_equal(seen.code, BELFRY_GRPC_UNAVAILABLE);
    assert_int_equal(pump_out(&pair), BELFRY_OK);
    assert_int_equal(pair.peer.n_goaways, 1);
    assert_int_equal(pair.peer.goaway_code, NGHTTP2_PROTOCOL_ERROR);
    pair_fini(&pair);
}

static void a_breach_of_the_protocol_ends_the_connection_with_a_goaway(void **state)
{
    (void)state;
    breach_once(false);
    breach_once(true);
}

static void a_flood_of_pings_ends_the_connection(void **state)
{
    (void)state;
    struct pair pair;
    pair_init(&pair);
    struct seen seen = {0};
    start_unary(&pair, &seen);
    enum belfry_err err = BELFRY_OK;
    size_t n = 0;
    while (err == BELFRY_OK && n++ < 5000)
        err = raw_frame(&pair, NGHTTP2_PING, 0, 0, "12345678", 8);
    assert_int_equal(err, BELFRY_ERR_PROTOCOL);
    assert_true(n > 100); /* what Go's servers send to measure is no flood */
    assert_int_equal(seen.n_closed, 1);
    pair_fini(&pair);
}

/* ---- time ---- */

static void a_keepalive_under_ten_seconds_is_invalid(void **state)
{
    (void)state;
    struct belfry_grpc_opts opts = pair_opts;
    struct belfry_http *grpc;
    opts.keepalive_ms = 9999;
    assert_int_equal(belfry_grpc_connect(&opts, 0, &grpc), BELFRY_ERR_INVALID);
    opts.keepalive_ms = 10000;
    opts.keepalive_timeout_ms = 0;
    assert_int_equal(belfry_grpc_connect(&opts, 0, &grpc), BELFRY_ERR_INVALID);
}

/* Moves the clock to `now_ms` and ticks if that is due. */
static enum belfry_err tick_at(struct pair *pair, uint64_t now_ms)
{
    pair->now_ms = now_ms;
    if (belfry_http_due(pair->grpc) > now_ms)
        return BELFRY_OK;
    return belfry_http_tick(pair->grpc, now_ms);
}

static void pings_are_sent_only_while_a_call_is_open_and_every_ten_seconds(void **state)
{
    (void)state;
    struct pair pair;
    pair_init(&pair); /* at 1,000 */
    assert_pumps(&pair);
    assert_true(belfry_http_due(pair.grpc) == BELFRY_NEVER);
    assert_int_equal(belfry_http_tick(pair.grpc, 60000), BELFRY_OK);
    pair.now_ms = 60000;
    assert_pumps(&pair);
    assert_int_equal(pair.peer.n_pings, 0);

    struct seen seen = {0};
    struct belfry_grpc_call *call = start_unary(&pair, &seen);
    for (uint64_t now_ms = 60000; now_ms <= 100000; now_ms += 100) {
        assert_int_equal(tick_at(&pair, now_ms), BELFRY_OK);
        assert_pumps(&pair); /* the peer acknowledges */
    }
    assert_int_equal(pair.peer.n_pings, 5); /* at 60, 70, 80, 90 and 100 s */
    belfry_grpc_call_cancel(call);
    assert_int_equal(tick_at(&pair, 200000), BELFRY_OK);
    assert_pumps(&pair);
    assert_int_equal(pair.peer.n_pings, 5);
    pair_fini(&pair);
}

static void a_peer_that_answers_no_ping_is_dead(void **state)
{
    (void)state;
    struct pair pair;
    pair_init(&pair);
    struct seen seen = {0};
    start_unary(&pair, &seen);
    assert_true(belfry_http_due(pair.grpc) == 11000);
    assert_int_equal(tick_at(&pair, 11000), BELFRY_OK);
    assert_int_equal(pump_out(&pair), BELFRY_OK);
    assert_int_equal(pair.peer.n_pings, 1);
    assert_true(belfry_http_due(pair.grpc) == 14000);
    assert_int_equal(belfry_http_tick(pair.grpc, 13999), BELFRY_OK);
    assert_int_equal(seen.n_closed, 0);
    assert_int_equal(tick_at(&pair, 14000), BELFRY_ERR_TIMEOUT);
    assert_int_equal(seen.n_closed, 1);
    assert_int_equal(seen.code, BELFRY_GRPC_UNAVAILABLE);
    assert_non_null(strstr(seen.message, "PING"));
    assert_int_equal(belfry_http_state(pair.grpc), BELFRY_HTTP_DEAD);
    pair_fini(&pair);
}

static void a_byte_of_any_kind_counts_as_an_answer(void **state)
{
    (void)state;
    struct pair pair;
    pair_init(&pair);
    struct seen seen = {0};
    start_unary(&pair, &seen);
    assert_int_equal(tick_at(&pair, 11000), BELFRY_OK);
    assert_int_equal(pump_out(&pair), BELFRY_OK);
    assert_int_equal(to_us(&pair, "\0", 1), BELFRY_OK); /* the first byte of some frame */
    assert_int_equal(belfry_http_tick(pair.grpc, 20999), BELFRY_OK);
    assert_int_equal(pump_out(&pair), BELFRY_OK);
    assert_int_equal(pair.peer.n_pings, 1);
    assert_int_equal(belfry_http_tick(pair.grpc, 21000), BELFRY_OK);
    assert_int_equal(pump_out(&pair), BELFRY_OK);
    assert_int_equal(pair.peer.n_pings, 2);
    assert_int_equal(belfry_http_tick(pair.grpc, 24000), BELFRY_ERR_TIMEOUT);
    pair_fini(&pair);
}

static void pings_of_the_peer_are_answered(void **state)
{
    (void)state;
    struct pair pair;
    pair_init(&pair);
    assert_pumps(&pair);
    assert_int_equal(raw_frame(&pair, NGHTTP2_PING, 0, 0, "\2\4\20\20\11\16\7\7", 8), BELFRY_OK);
    assert_true(belfry_http_wants_write(pair.grpc));
    struct belfry_bytes out;
    assert_int_equal(belfry_http_pull(pair.grpc, pair.now_ms, &out), BELFRY_OK);
    assert_int_equal(out.len, 17);
    assert_memory_equal(out.data, "\0\0\10\6\1\0\0\0\0\2\4\20\20\11\16\7\7", 17);
    pair_fini(&pair);
}

static void a_deadline_ends_its_call_here_too(void **state)
{
    (void)state;
    struct pair pair;
    pair_init(&pair);
    struct seen seen[3] = {{0}, {0}, {0}};
    struct belfry_grpc_call_opts opts = {.path = "/s/m", .deadline_ms = pair.now_ms + 500};
    struct belfry_grpc_call *calls[2];
    assert_int_equal(belfry_grpc_call_open(pair.grpc, &opts, &seen_events, &seen[0], &calls[0]), BELFRY_OK);
    assert_pumps(&pair);
    assert_true(peer_has_field(&pair.peer, 1, "grpc-timeout: 500m\n"));
    assert_int_equal(belfry_grpc_call_open(pair.grpc, &opts, &seen_events, &seen[1], &calls[1]),
                     BELFRY_OK); /* never pulled */
    open_call(&pair, &seen[2]);
    assert_true(belfry_http_due(pair.grpc) == pair.now_ms + 500);
    assert_int_equal(belfry_http_tick(pair.grpc, pair.now_ms + 499), BELFRY_OK);
    assert_int_equal(seen[0].n_closed, 0);
    assert_int_equal(tick_at(&pair, pair.now_ms + 500), BELFRY_OK);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(seen[i].n_closed, 1);
        assert_int_equal(seen[i].code, BELFRY_GRPC_DEADLINE_EXCEEDED);
        assert_int_equal(seen[i].unprocessed, i == 1);
    }
    assert_int_equal(seen[2].n_closed, 0);
    assert_true(belfry_http_due(pair.grpc) == 11000); /* the keepalive of the third */
    assert_pumps(&pair);
    assert_int_equal(peer_stream(&pair.peer, 1)->reset, NGHTTP2_CANCEL);
    assert_int_equal(pair.peer.n_requests, 2);
    pair_fini(&pair);
}

/* ---- memory ---- */

static enum belfry_err exchange(struct pair *pair, struct seen *seen, bool unary)
{
    struct belfry_grpc_call_opts opts = {.path = "/etcdserverpb.Watch/Watch", .deadline_ms = pair->now_ms + 5000};
    struct belfry_grpc_call *call;
    enum belfry_err err = belfry_grpc_call_open(pair->grpc, &opts, &seen_events, seen, &call);
    if (err != BELFRY_OK)
        return err;
    for (int i = 0; err == BELFRY_OK && i < (unary ? 1 : 3); i++) {
        err = belfry_grpc_call_send(call, belfry_bytes_str("ask"));
        if (err == BELFRY_OK && unary)
            belfry_grpc_call_half_close(call);
        if (err == BELFRY_OK)
            err = pump(pair);
        if (err != BELFRY_OK)
            return err;
        if (i == 0) {
            nghttp2_nv nv[] = {field(":status", "200"), field("content-type", "application/grpc"),
                               field("grpc-encoding", "gzip")};
            peer_respond(&pair->peer, 1, nv, 3);
        }
        uint8_t packed[256];
        peer_message(&pair->peer, 1, 1, packed, gzipped("an answer", 9, 9, packed, sizeof(packed)));
        err = pump(pair);
        if (err != BELFRY_OK)
            return err;
        err = belfry_http_tick(pair->grpc, pair->now_ms);
    }
    if (err == BELFRY_OK) {
        peer_end(&pair->peer, 1, "5", "it is gone");
        err = pump(pair);
    }
    return err;
}

static enum belfry_err scenario(bool unary)
{
    struct pair pair = {.now_ms = 1000};
    struct seen seen = {0};
    peer_init_with(&pair.peer, NULL, 0);
    enum belfry_err err = belfry_grpc_connect(&pair_opts, pair.now_ms, &pair.grpc);
    if (err == BELFRY_OK)
        err = exchange(&pair, &seen, unary);
    bool opened = pair.grpc != NULL && (belfry_http_n_calls(pair.grpc) > 0 || seen.n_closed > 0);
    belfry_http_destroy(pair.grpc);
    peer_fini(&pair.peer);
    if (opened)
        assert_int_equal(seen.n_closed, 1);
    if (err == BELFRY_OK) {
        assert_int_equal(seen.code, BELFRY_GRPC_NOT_FOUND);
        assert_int_equal(seen.n_messages, unary ? 1 : 3);
    }
    return err;
}

static enum belfry_err unary_scenario(void)
{
    return scenario(true);
}

static enum belfry_err bidirectional_scenario(void)
{
    return scenario(false);
}

static void refused_memory_ends_calls_and_leaks_nothing(void **state)
{
    (void)state;
    assert_true(refuse_sweep(unary_scenario) > 30);
    assert_true(refuse_sweep(bidirectional_scenario) > 30);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unary_call_works_however_the_bytes_are_cut),
        cmocka_unit_test(the_deadline_becomes_what_is_left_when_it_is_sent),
        cmocka_unit_test(request_headers_are_those_of_grpc),
        cmocka_unit_test(the_first_pull_carries_headers_and_messages_without_waiting_for_the_peer),
        cmocka_unit_test(bidirectional_messages_flow_both_ways_even_after_half_close),
        cmocka_unit_test(frames_are_gathered_into_one_write),
        cmocka_unit_test(informational_headers_are_ignored),
        cmocka_unit_test(trailers_alone_are_the_result),
        cmocka_unit_test(headers_then_trailers_are_the_result_too),
        cmocka_unit_test(messages_are_percent_decoded),
        cmocka_unit_test(codes_that_nobody_knows_are_unknown),
        cmocka_unit_test(a_body_without_trailers_is_unknown_and_says_why),
        cmocka_unit_test(http_statuses_map_to_codes),
        cmocka_unit_test(an_answer_that_is_not_grpc_is_named),
        cmocka_unit_test(subtypes_of_the_content_type_are_grpc),
        cmocka_unit_test(a_grpc_status_counts_whatever_the_http_status),
        cmocka_unit_test(a_stream_that_ends_inside_a_message_is_internal),
        cmocka_unit_test(response_headers_are_bounded),
        cmocka_unit_test(reset_codes_map_to_codes),
        cmocka_unit_test(trailers_before_our_half_close_are_the_result_and_the_rest_is_reset),
        cmocka_unit_test(a_reset_after_the_trailers_changes_nothing),
        cmocka_unit_test(a_malformed_response_ends_its_call_alone),
        cmocka_unit_test(a_stream_that_is_reset_on_our_side_is_ended_by_the_next_tick),
        cmocka_unit_test(gzip_messages_are_unpacked),
        cmocka_unit_test(compressed_messages_that_cannot_be_unpacked_are_internal),
        cmocka_unit_test(a_message_that_unpacks_to_too_much_is_refused),
        cmocka_unit_test(goaway_lets_running_calls_finish_and_refuses_new_ones),
        cmocka_unit_test(the_reason_of_a_goaway_reaches_the_calls),
        cmocka_unit_test(a_lost_connection_tells_what_was_never_sent),
        cmocka_unit_test(everything_is_safe_on_a_dead_connection),
        cmocka_unit_test(destroying_the_connection_ends_its_calls),
        cmocka_unit_test(a_peer_that_speaks_http1_is_a_protocol_error),
        cmocka_unit_test(a_breach_of_the_protocol_ends_the_connection_with_a_goaway),
        cmocka_unit_test(a_flood_of_pings_ends_the_connection),
        cmocka_unit_test(a_keepalive_under_ten_seconds_is_invalid),
        cmocka_unit_test(pings_are_sent_only_while_a_call_is_open_and_every_ten_seconds),
        cmocka_unit_test(a_peer_that_answers_no_ping_is_dead),
        cmocka_unit_test(a_byte_of_any_kind_counts_as_an_answer),
        cmocka_unit_test(pings_of_the_peer_are_answered),
        cmocka_unit_test(a_deadline_ends_its_call_here_too),
        cmocka_unit_test(refused_memory_ends_calls_and_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
