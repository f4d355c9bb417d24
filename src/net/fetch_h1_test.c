/* src/net/fetch_h1_test.c: net/fetch.h over HTTP/1.1, against a server that is a string. */
#include <stdlib.h>

#include "base/clock.h"
#include "base/rng.h"
#include "net/fetch.h"
#include "net/fetch_seen_test.h"
#include "support/refuse.h"

#define OK_HEAD "HTTP/1.1 200 OK\r\n"
#define PLAIN   OK_HEAD "Content-Length: 5\r\n\r\nhello"

static uint64_t now_ms = 1000;

static struct belfry_http *make_http(void)
{
    struct belfry_http *http;
    assert_int_equal(belfry_http_create(&seen_opts, now_ms, &http), BELFRY_OK);
    assert_int_equal(belfry_http_start(http, BELFRY_HTTP_1, now_ms), BELFRY_OK);
    return http;
}

/* What is sent, lent until the next pull. */
static const char *pull_text(struct belfry_http *http)
{
    static char text[8192];
    struct belfry_bytes out;
    bool wanted = belfry_http_wants_write(http);
    assert_int_equal(belfry_http_pull(http, now_ms, &out), BELFRY_OK);
    assert_int_equal(wanted, out.len > 0);
    assert_true(out.len < sizeof(text));
    snprintf(text, sizeof(text), "%.*s", (int)out.len, out.len > 0 ? out.data : "");
    return text;
}

enum cuts { WHOLE, SINGLE_BYTES, RANDOM_CUTS, N_CUTS };

/* Each piece in memory of its own, so that reading past a cut is seen. */
static enum belfry_err give(struct belfry_http *http, const char *bytes, size_t len)
{
    char *piece = malloc(len + 1);
    if (piece == NULL)
        return BELFRY_ERR_NOMEM;
    memcpy(piece, bytes, len);
    enum belfry_err err = belfry_http_receive(http, belfry_bytes_of(piece, len), now_ms);
    free(piece);
    return err;
}

static enum belfry_err give_cut(struct belfry_http *http, const char *bytes, size_t len, enum cuts cuts, uint64_t seed)
{
    struct belfry_rng rng = {seed};
    enum belfry_err err = BELFRY_OK;
    for (size_t at = 0, n; at < len && err == BELFRY_OK; at += n) {
        n = cuts == WHOLE ? len : cuts == SINGLE_BYTES ? 1 : 1 + (size_t)belfry_rng_below(&rng, 9);
        n = n < len - at ? n : len - at;
        err = give(http, bytes + at, n);
    }
    return err;
}

static enum belfry_err give_text(struct belfry_http *http, const char *text)
{
    return give(http, text, strlen(text));
}

/* A connection with one GET that was sent. */
static struct belfry_http *make_asked(struct seen *seen)
{
    struct belfry_http *http = make_http();
    get(http, "/api", seen);
    assert_string_not_equal(pull_text(http), "");
    return http;
}

/* ---- responses ---- */

static const struct response {
    const char *bytes;
    const char *method; /* NULL: GET */
    int status;
    const char *body;
    bool to_close; /* the end of the connection is its end */
    bool closes;   /* the connection takes no call after it */
} responses[] = {
    {PLAIN, NULL, 200, "hello", false, false},
    {OK_HEAD "content-length: 0\r\n\r\n", NULL, 200, "", false, false},
    {OK_HEAD "Transfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n", NULL, 200, "hello", false, false},
    {OK_HEAD "transfer-encoding: CHUNKED\r\n\r\n5;a=b;c=\"d\"\r\nhello\r\n0;e\r\nSome: trailer\r\nOf: it\r\n\r\n", NULL,
     200, "hello", false, false},
    {OK_HEAD "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", NULL, 200, "", false, false},
    {"HTTP/1.1 204 No Content\r\n\r\n", NULL, 204, "", false, false},
    {"HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\n\r\n", NULL, 304, "", false, false},
    {"HTTP/1.1 404\r\nContent-Length: 2\r\n\r\nno", NULL, 404, "no", false, false},
    {OK_HEAD "Content-Length: 700\r\n\r\n", "HEAD", 200, "", false, false},
    {OK_HEAD "Transfer-Encoding: chunked\r\n\r\n", "HEAD", 200, "", false, false},
    {OK_HEAD "\r\n", "HEAD", 200, "", false, false},
    {"HTTP/1.1 100 Continue\r\n\r\n" PLAIN, NULL, 200, "hello", false, false},
    {"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\nContent-Length: 3\r\n\r\nHTTP/1.1 104 X\r\nContent-Length: "
     "9\r\n\r\n" PLAIN,
     NULL, 200, "hello", false, false},
    {OK_HEAD "Connection: close\r\nContent-Length: 5\r\n\r\nhello", NULL, 200, "hello", false, true},
    {OK_HEAD "Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", NULL, 200, "hello",
     false, true},
    {"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello", NULL, 200, "hello", false, true},
    {"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 5\r\n\r\nhello", NULL, 200, "hello", false, false},
    {OK_HEAD "\r\nhello", NULL, 200, "hello", true, true},
    {"HTTP/1.0 500 Oh\r\n\r\n", NULL, 500, "", true, true},
    {"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n", NULL, 204, "", false, true},
    {OK_HEAD "Connection: upgrade\r\nUpgrade: h2c\r\nContent-Length: 5\r\n\r\nhello", NULL, 200, "hello", false, false},
};
#define N_RESPONSES (sizeof(responses) / sizeof(responses[0]))

static void assert_response(const struct response *r, enum cuts cuts, uint64_t seed)
{
    struct seen seen = {0};
    struct belfry_http *http = make_http();
    assert_int_equal(ask(http, r->method != NULL ? r->method : "GET", "/api", &seen), BELFRY_OK);
    assert_string_not_equal(pull_text(http), "");
    assert_int_equal(give_cut(http, r->bytes, strlen(r->bytes), cuts, seed), BELFRY_OK);
    if (r->to_close) {
        assert_false(is_over(&seen));
        belfry_http_lost(http, "the peer closed the connection");
    }
    assert_ended(&seen, r->status, r->body);
    assert_int_equal(belfry_http_n_calls(http), 0);
    enum belfry_http_state after = r->closes ? BELFRY_HTTP_DRAINING : BELFRY_HTTP_OPEN;
    assert_int_equal(belfry_http_state(http), r->to_close ? BELFRY_HTTP_DEAD : after);
    assert_int_equal(belfry_http_room(http), r->closes ? 0 : 1);
    belfry_http_destroy(http);
}

static void every_kind_of_response_is_read_however_it_is_cut(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_RESPONSES; i++) {
        assert_response(&responses[i], WHOLE, 0);
        assert_response(&responses[i], SINGLE_BYTES, 0);
        for (uint64_t seed = 0; seed < 20; seed++)
            assert_response(&responses[i], RANDOM_CUTS, seed);
    }
}

static void a_response_that_ends_early_fails_at_every_byte(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_RESPONSES; i++) {
        const struct response *r = &responses[i];
        for (size_t n = 0; n < strlen(r->bytes); n++) {
            struct seen seen = {0};
            struct belfry_http *http = make_http();
            assert_int_equal(ask(http, r->method != NULL ? r->method : "GET", "/api", &seen), BELFRY_OK);
            assert_string_not_equal(pull_text(http), "");
            assert_int_equal(give(http, r->bytes, n), BELFRY_OK);
            bool open_end = r->to_close && seen.n_heads == 1;
            assert_false(is_over(&seen));
            belfry_http_lost(http, "cut");
            if (open_end)
                assert_int_equal(seen.n_ends, 1);
            else
                assert_failed(&seen, BELFRY_ERR_UNAVAILABLE, "cut");
            assert_false(seen.unprocessed);
            assert_memory_equal(seen.body, r->body, seen.n_bytes);
            assert_int_equal(belfry_http_state(http), BELFRY_HTTP_DEAD);
            belfry_http_destroy(http);
        }
    }
}

static void names_are_told_in_lower_case_and_values_without_blanks_around(void **state)
{
    (void)state;
    static const char bytes[] = OK_HEAD "X-Some-THING: \t a b \t \r\nEmpty:\r\nContent-length: 0\r\n\r\n";
    struct seen seen = {0};
    struct belfry_http *http = make_asked(&seen);
    assert_int_equal(give_cut(http, bytes, sizeof(bytes) - 1, SINGLE_BYTES, 0), BELFRY_OK);
    assert_ended(&seen, 200, "");
    assert_string_equal(seen.fields, "x-some-thing=a b;empty=;content-length=0;");
    belfry_http_destroy(http);
}

static void fields_are_found_by_name(void **state)
{
    (void)state;
    struct belfry_http_field fields[] = {{belfry_bytes_str("a"), belfry_bytes_str("1")},
                                         {belfry_bytes_str("b"), belfry_bytes_str("2")},
                                         {belfry_bytes_str("b"), belfry_bytes_str("3")}};
    struct belfry_fetch_head head = {200, fields, 3};
    assert_true(belfry_bytes_equal(belfry_fetch_find(&head, "b"), belfry_bytes_str("2")));
    assert_null(belfry_fetch_find(&head, "c").data);
}

static void what_is_not_a_response_ends_the_connection(void **state)
{
    (void)state;
    const struct {
        const char *bytes, *why;
    } rows[] = {
        {"SSH-2.0-OpenSSH\r\n", "not HTTP/1.1"},
        {"HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n", "another version"},
        {"HTTP/1.1 099 X\r\n\r\n", "status"},
        {"HTTP/1.1 600 X\r\n\r\n", "status"},
        {"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n", "switches"},
        {OK_HEAD "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "not HTTP/1.1"},
        {OK_HEAD "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", "not HTTP/1.1"},
        {OK_HEAD "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello", "not HTTP/1.1"},
        {OK_HEAD "Content-Length: -5\r\n\r\nhello", "not HTTP/1.1"},
        {OK_HEAD "Content-Length: 99999999999999999999\r\n\r\nhello", "not HTTP/1.1"},
        {OK_HEAD "Transfer-Encoding: gzip\r\n\r\nhello", "transfer coding"},
        {OK_HEAD "Transfer-Encoding: gzip, chunked\r\n\r\n5\r\nhello", "transfer coding"},
        {OK_HEAD "Transfer-Encoding: chunked\r\nTransfer-Encoding: gzip\r\n\r\n5\r\nhello", ""},
        {OK_HEAD "Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello", ""},
        {OK_HEAD "Transfer-Encoding:\r\n\r\nhello", "transfer coding"},
        {OK_HEAD "Transfer-Encoding: chunked\r\n\r\nx\r\n", "not HTTP/1.1"},
        {OK_HEAD "Transfer-Encoding: chunked\r\n\r\n11111111111111111\r\n", "not HTTP/1.1"},
        {OK_HEAD "Transfer-Encoding: chunked\r\n\r\n1\r\nab\r\n", "not HTTP/1.1"},
        {OK_HEAD "a b: c\r\n\r\n", "not HTTP/1.1"},
        {OK_HEAD "a: b\nc: d\r\n\r\n", "not HTTP/1.1"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        for (enum cuts cuts = WHOLE; cuts <= SINGLE_BYTES; cuts++) {
            struct seen seen = {0}, next = {0};
            struct belfry_http *http = make_asked(&seen);
            get(http, "/next", &next);
            assert_int_equal(give_cut(http, rows[i].bytes, strlen(rows[i].bytes), cuts, 0), BELFRY_ERR_PROTOCOL);
            assert_failed(&seen, BELFRY_ERR_PROTOCOL, rows[i].why);
            assert_failed(&next, BELFRY_ERR_UNAVAILABLE, rows[i].why);
            assert_true(next.unprocessed && !seen.unprocessed);
            assert_int_equal(belfry_http_state(http), BELFRY_HTTP_DEAD);
            assert_int_equal(give_text(http, PLAIN), BELFRY_ERR_UNAVAILABLE);
            assert_string_equal(pull_text(http), "");
            belfry_http_destroy(http);
        }
    }
}

static void bytes_behind_a_response_end_the_connection_but_not_the_call(void **state)
{
    (void)state;
    struct seen seen = {0};
    struct belfry_http *http = make_asked(&seen);
    assert_int_equal(give_text(http, PLAIN PLAIN), BELFRY_ERR_PROTOCOL);
    assert_ended(&seen, 200, "hello");
    assert_int_equal(belfry_http_state(http), BELFRY_HTTP_DEAD);
    belfry_http_destroy(http);
}

static void a_server_that_speaks_unasked_ends_the_connection(void **state)
{
    (void)state;
    struct seen seen = {0};
    struct belfry_http *http = make_http();
    get(http, "/api", &seen); /* and it is not pulled */
    assert_int_equal(give_text(http, PLAIN), BELFRY_ERR_PROTOCOL);
    assert_failed(&seen, BELFRY_ERR_UNAVAILABLE, "without being asked");
    assert_true(seen.unprocessed);
    belfry_http_destroy(http);
}

/* ---- requests ---- */

static void requests_go_one_after_the_other(void **state)
{
    (void)state;
    struct seen first = {0}, second = {0};
    struct belfry_http *http;
    assert_int_equal(belfry_http_create(&seen_opts, now_ms, &http), BELFRY_OK);
    get(http, "/first?a=b", &first); /* before it is known what the connection speaks */
    get(http, "/second", &second);
    assert_int_equal(belfry_http_state(http), BELFRY_HTTP_NEW);
    assert_int_equal(belfry_http_room(http), 0);
    assert_string_equal(pull_text(http), "");
    assert_int_equal(belfry_http_start(http, BELFRY_HTTP_1, now_ms), BELFRY_OK);
    assert_int_equal(belfry_http_version(http), BELFRY_HTTP_1);
    assert_string_equal(pull_text(http),
                        "GET /first?a=b HTTP/1.1\r\nhost: kube.test:6443\r\nuser-agent: belfry-test/1\r\n"
                        "accept: application/json\r\n\r\n");
    assert_string_equal(pull_text(http), "");
    assert_int_equal(give_text(http, PLAIN), BELFRY_OK);
    assert_ended(&first, 200, "hello");
    assert_memory_equal(pull_text(http), "GET /second HTTP/1.1\r\n", 22);
    assert_int_equal(belfry_http_room(http), 0);
    assert_int_equal(give_text(http, "HTTP/1.1 204 No Content\r\n\r\n"), BELFRY_OK);
    assert_ended(&second, 204, "");
    assert_int_equal(belfry_http_room(http), 1);
    assert_int_equal(belfry_http_due(http), BELFRY_NEVER);
    belfry_http_destroy(http);
}

static void a_server_that_closes_fails_those_that_wait_unprocessed(void **state)
{
    (void)state;
    struct seen first = {0}, second = {0}, third = {0};
    struct belfry_http *http = make_asked(&first);
    get(http, "/second", &second);
    assert_int_equal(give_text(http, OK_HEAD "Connection: close\r\nContent-Length: 5\r\n\r\nhel"), BELFRY_OK);
    assert_failed(&second, BELFRY_ERR_UNAVAILABLE, "closes the connection");
    assert_true(second.unprocessed);
    assert_int_equal(belfry_http_state(http), BELFRY_HTTP_DRAINING);
    assert_int_equal(ask(http, "GET", "/third", &third), BELFRY_ERR_UNAVAILABLE);
    assert_int_equal(give_text(http, "lo"), BELFRY_OK);
    assert_ended(&first, 200, "hello");
    belfry_http_lost(http, "the peer closed the connection");
    assert_int_equal(belfry_http_state(http), BELFRY_HTTP_DEAD);
    belfry_http_destroy(http);
}

/* ---- bounds ---- */

/* `unit`, again and again behind `begin`, until the connection ends; returns after how many bytes. */
static size_t flood(const char *begin, const char *unit, struct seen *seen, enum belfry_err *out_err)
{
    struct belfry_http *http = make_asked(seen);
    size_t n = 0;
    *out_err = give_text(http, begin);
    while (*out_err == BELFRY_OK && n < 10 * BELFRY_FETCH_HEAD_BYTES) {
        *out_err = give_text(http, unit);
        n += strlen(unit);
    }
    belfry_http_destroy(http);
    return n;
}

static void whatever_is_not_body_is_bounded(void **state)
{
    (void)state;
    const struct {
        const char *begin, *unit;
        enum belfry_err err;
    } rows[] = {
        {"HTTP/1.1 200 ", "OOOOOOOO", BELFRY_ERR_TOO_LARGE},
        {OK_HEAD, "nnnnnnnn", BELFRY_ERR_TOO_LARGE},
        {OK_HEAD "a: ", "vvvvvvvv", BELFRY_ERR_TOO_LARGE},
        {OK_HEAD "a: ", "        ", BELFRY_ERR_TOO_LARGE},
        {OK_HEAD, "a: b\r\n", BELFRY_ERR_TOO_LARGE},
        {"", "HTTP/1.1 100 Continue\r\n\r\n", BELFRY_ERR_PROTOCOL},
        {"", "\r\n", BELFRY_ERR_TOO_LARGE},
        {OK_HEAD "Transfer-Encoding: chunked\r\n\r\n5;", "eeeeeeee", BELFRY_ERR_PROTOCOL},
        {OK_HEAD "Transfer-Encoding: chunked\r\n\r\n5;a=\"", "eeeeeeee", BELFRY_ERR_PROTOCOL},
        {OK_HEAD "Transfer-Encoding: chunked\r\n\r\n", "0000000000000000", BELFRY_ERR_PROTOCOL},
        {OK_HEAD "Transfer-Encoding: chunked\r\n\r\n0\r\n", "t: u\r\n", BELFRY_ERR_PROTOCOL},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct seen seen = {0};
        enum belfry_err err;
        size_t n = flood(rows[i].begin, rows[i].unit, &seen, &err);
        assert_int_equal(err, rows[i].err);
        assert_failed(&seen, rows[i].err, "");
        assert_true(n <= BELFRY_FETCH_HEAD_BYTES + 16);
    }
}

static void a_head_within_its_bounds_is_told_whole(void **state)
{
    (void)state;
    struct seen seen = {0};
    struct belfry_http *http = make_asked(&seen);
    assert_int_equal(give_text(http, OK_HEAD), BELFRY_OK);
    for (size_t i = 0; i < BELFRY_FETCH_FIELDS - 1; i++)
        assert_int_equal(give_text(http, "some-name: some-value\r\n"), BELFRY_OK);
    assert_int_equal(give_text(http, "content-length: 0\r\n\r\n"), BELFRY_OK);
    assert_ended(&seen, 200, "");
    assert_int_equal(seen.n_fields, BELFRY_FETCH_FIELDS);
    belfry_http_destroy(http);
}

static void a_large_head_leaves_all_of_the_allowance_to_what_follows(void **state)
{
    (void)state;
    static char large[60 * 1024];
    struct seen seen = {0};
    struct belfry_http *http = make_asked(&seen);
    int n = snprintf(large, sizeof(large), "%sTransfer-Encoding: chunked\r\nLarge: ", OK_HEAD);
    memset(large + n, 'v', sizeof(large) - (size_t)n - 4);
    memcpy(large + sizeof(large) - 4, "\r\n\r\n", 4);
    assert_int_equal(give(http, large, sizeof(large)), BELFRY_OK);
    assert_int_equal(seen.n_heads, 1);
    assert_int_equal(give_text(http, "1;"), BELFRY_OK);
    memset(large, 'e', sizeof(large));
    assert_int_equal(give(http, large, sizeof(large)), BELFRY_OK);
    assert_int_equal(give_text(http, "\r\n!\r\n0\r\n\r\n"), BELFRY_OK);
    assert_ended(&seen, 200, "!");
    belfry_http_destroy(http);
}

static void a_body_has_no_bound(void **state)
{
    (void)state;
    static const char chunk[] = "10\r\n0123456789abcdef\r\n";
    struct seen seen = {0};
    struct belfry_http *http = make_asked(&seen);
    assert_int_equal(give_text(http, OK_HEAD "Transfer-Encoding: chunked\r\n\r\n"), BELFRY_OK);
    for (size_t i = 0; i < 50000; i++)
        assert_int_equal(give_text(http, chunk), BELFRY_OK);
    assert_int_equal(give_text(http, "0\r\n\r\n"), BELFRY_OK);
    assert_int_equal(seen.n_ends, 1);
    assert_int_equal(seen.n_bytes, 16 * 50000);
    belfry_http_destroy(http);
}

/* ---- holding ---- */

static void hold_it(struct seen *seen)
{
    belfry_fetch_hold(seen->call, true);
}

static void a_held_call_is_told_nothing_and_then_all_in_order(void **state)
{
    (void)state;
    for (enum cuts cuts = WHOLE; cuts < N_CUTS; cuts++) {
        struct seen seen = {0};
        struct belfry_http *http = make_asked(&seen);
        assert_true(belfry_http_wants_read(http));
        hold_it(&seen);
        assert_false(belfry_http_wants_read(http));
        assert_int_equal(give_cut(http, PLAIN, sizeof(PLAIN) - 1, cuts, 7), BELFRY_OK);
        assert_int_equal(seen.n_heads + seen.n_bodies + seen.n_ends, 0);
        assert_true(belfry_http_wants_read(http)); /* its response has ended: the next may come */
        assert_int_equal(belfry_http_due(http), BELFRY_NEVER);
        belfry_fetch_hold(seen.call, false);
        assert_ended(&seen, 200, "hello");
        belfry_http_destroy(http);
    }
}

static void a_callback_may_hold_again(void **state)
{
    (void)state;
    struct seen seen = {.on_head = hold_it, .on_body = hold_it};
    struct belfry_http *http = make_asked(&seen);
    assert_int_equal(give_text(http, PLAIN), BELFRY_OK);
    assert_int_equal(seen.n_heads, 1);
    assert_int_equal(seen.n_bodies, 0);
    belfry_fetch_hold(seen.call, false);
    assert_string_equal(seen.body, "hello");
    assert_false(is_over(&seen));
    belfry_fetch_hold(seen.call, false);
    assert_ended(&seen, 200, "hello");
    belfry_http_destroy(http);
}

static void hold_and_release(struct seen *seen)
{
    belfry_fetch_hold(seen->call, true);
    belfry_fetch_hold(seen->call, false);
    assert_false(is_over(seen)); /* its end is not told from inside */
}

static void holding_and_releasing_from_inside_changes_nothing(void **state)
{
    (void)state;
    struct seen seen = {.on_head = hold_and_release, .on_body = hold_and_release};
    struct belfry_http *http = make_asked(&seen);
    belfry_fetch_hold(seen.call, true);
    assert_int_equal(give_text(http, PLAIN), BELFRY_OK);
    belfry_fetch_hold(seen.call, false);
    assert_ended(&seen, 200, "hello");
    belfry_http_destroy(http);
}

static void what_a_held_call_has_is_told_after_the_connection_is_lost(void **state)
{
    (void)state;
    struct seen whole = {0}, cut = {0}, dropped = {0};
    struct belfry_http *http = make_asked(&whole);
    hold_it(&whole);
    assert_int_equal(give_text(http, OK_HEAD "\r\nhello"), BELFRY_OK);
    belfry_http_lost(http, "gone");
    assert_false(is_over(&whole));
    belfry_fetch_hold(whole.call, false);
    assert_ended(&whole, 200, "hello");
    belfry_http_destroy(http);

    http = make_asked(&cut);
    hold_it(&cut);
    assert_int_equal(give_text(http, OK_HEAD "Content-Length: 6\r\n\r\nhello"), BELFRY_OK);
    belfry_http_lost(http, "gone");
    assert_false(is_over(&cut));
    belfry_fetch_hold(cut.call, false);
    assert_string_equal(cut.body, "hello");
    assert_failed(&cut, BELFRY_ERR_UNAVAILABLE, "gone");
    belfry_http_destroy(http);

    http = make_asked(&dropped);
    hold_it(&dropped);
    assert_int_equal(give_text(http, PLAIN), BELFRY_OK);
    belfry_http_destroy(http); /* nobody will release it */
    assert_failed(&dropped, BELFRY_ERR_UNAVAILABLE, "closed");
    assert_int_equal(dropped.n_heads, 0);
}

static void what_a_held_call_keeps_is_bounded(void **state)
{
    (void)state;
    static char much[64 * 1024];
    struct seen seen = {0};
    struct belfry_http *http = make_asked(&seen);
    assert_int_equal(give_text(http, OK_HEAD "\r\n"), BELFRY_OK);
    hold_it(&seen);
    for (size_t i = 0; i < BELFRY_FETCH_WINDOW / sizeof(much); i++)
        assert_int_equal(give(http, much, sizeof(much)), BELFRY_OK);
    assert_int_equal(give(http, much, 1), BELFRY_ERR_LIMIT);
    belfry_fetch_hold(seen.call, false);
    assert_int_equal(seen.n_bytes, BELFRY_FETCH_WINDOW);
    assert_failed(&seen, BELFRY_ERR_LIMIT, "held");
    belfry_http_destroy(http);
}

/* ---- from inside callbacks ---- */

static void cancel_it(struct seen *seen)
{
    struct belfry_fetch *call = seen->call;
    seen->call = NULL;
    belfry_fetch_cancel(call);
}

static void a_call_that_was_not_sent_is_cancelled_without_harm(void **state)
{
    (void)state;
    struct seen first = {0}, second = {0};
    struct belfry_http *http = make_asked(&first);
    get(http, "/second", &second);
    cancel_it(&second);
    assert_int_equal(belfry_http_n_calls(http), 1);
    assert_int_equal(give_text(http, PLAIN), BELFRY_OK);
    assert_ended(&first, 200, "hello");
    assert_string_equal(pull_text(http), "");
    assert_int_equal(belfry_http_state(http), BELFRY_HTTP_OPEN);
    assert_false(is_over(&second));
    belfry_http_destroy(http);
}

static void cancelling_what_was_sent_is_the_end_of_the_connection(void **state)
{
    (void)state;
    struct seen first = {0}, second = {0};
    struct belfry_http *http = make_asked(&first);
    get(http, "/second", &second);
    cancel_it(&first);
    assert_int_equal(belfry_http_state(http), BELFRY_HTTP_DEAD);
    assert_false(is_over(&second)); /* not from inside cancel */
    assert_int_equal(belfry_http_due(http), 0);
    assert_int_equal(belfry_http_tick(http, now_ms), BELFRY_OK);
    assert_failed(&second, BELFRY_ERR_UNAVAILABLE, "cancelled");
    assert_true(second.unprocessed);
    assert_int_equal(belfry_http_due(http), BELFRY_NEVER);
    assert_true(belfry_http_wants_read(http));
    belfry_http_destroy(http);
}

static void a_call_may_be_cancelled_by_its_own_callbacks(void **state)
{
    (void)state;
    for (int moment = 0; moment < 2; moment++) {
        struct seen seen = {0}, second = {0};
        seen.on_head = moment == 0 ? cancel_it : NULL;
        seen.on_body = moment == 1 ? cancel_it : NULL;
        struct belfry_http *http = make_asked(&seen);
        get(http, "/second", &second);
        assert_int_equal(give_text(http, OK_HEAD "Transfer-Encoding: chunked\r\n\r\n1\r\nh\r\n1\r\ni\r\n0\r\n\r\n"),
                         BELFRY_OK);
        assert_int_equal(seen.n_bodies, moment);
        assert_false(is_over(&seen));
        assert_failed(&second, BELFRY_ERR_UNAVAILABLE, "cancelled");
        assert_int_equal(belfry_http_state(http), BELFRY_HTTP_DEAD);
        assert_int_equal(belfry_http_n_calls(http), 0);
        assert_int_equal(give_text(http, "more"), BELFRY_ERR_UNAVAILABLE);
        belfry_http_destroy(http);
    }
}

static void a_held_call_that_is_over_is_cancelled_without_harm(void **state)
{
    (void)state;
    struct seen seen = {0};
    struct belfry_http *http = make_asked(&seen);
    hold_it(&seen);
    assert_int_equal(give_text(http, PLAIN), BELFRY_OK);
    cancel_it(&seen);
    assert_int_equal(belfry_http_state(http), BELFRY_HTTP_OPEN);
    assert_int_equal(belfry_http_room(http), 1);
    belfry_http_destroy(http);
    assert_int_equal(seen.n_heads, 0);
}

static struct belfry_http *reused;
static struct seen followup;

static void ask_again(struct seen *seen)
{
    (void)seen;
    assert_int_equal(ask(reused, "GET", "/again", &followup),
                     belfry_http_state(reused) == BELFRY_HTTP_OPEN ? BELFRY_OK : BELFRY_ERR_UNAVAILABLE);
}

static void a_callback_may_open_the_next(void **state)
{
    (void)state;
    struct seen seen = {.on_last = ask_again};
    followup = (struct seen){0};
    reused = make_asked(&seen);
    assert_int_equal(give_text(reused, PLAIN), BELFRY_OK);
    assert_memory_equal(pull_text(reused), "GET /again HTTP/1.1\r\n", 21);
    assert_int_equal(give_text(reused, PLAIN), BELFRY_OK);
    assert_ended(&followup, 200, "hello");

    struct seen failing = {.on_last = ask_again}; /* when the connection is dead, it is refused */
    followup = (struct seen){0};
    get(reused, "/failing", &failing);
    belfry_http_destroy(reused);
    assert_failed(&failing, BELFRY_ERR_UNAVAILABLE, "closed");
    assert_true(failing.unprocessed);
    assert_null(followup.call);
}

static enum belfry_err scenario(void)
{
    struct seen first = {0}, second = {0};
    struct belfry_http *http = NULL;
    struct belfry_bytes out;
    enum belfry_err err = belfry_http_create(&seen_opts, now_ms, &http);
    if (err == BELFRY_OK)
        err = belfry_http_start(http, BELFRY_HTTP_1, now_ms);
    if (err == BELFRY_OK)
        err = ask(http, "GET", "/a", &first);
    if (err == BELFRY_OK)
        err = ask(http, "GET", "/b", &second);
    if (err == BELFRY_OK)
        err = belfry_http_pull(http, now_ms, &out);
    if (err == BELFRY_OK)
        err = give_text(http, OK_HEAD "A: b\r\nContent-Length: 5\r\n\r\nhel");
    if (err == BELFRY_OK && first.call != NULL)
        belfry_fetch_hold(first.call, true);
    if (err == BELFRY_OK)
        err = give_text(http, "lo");
    if (err == BELFRY_OK && first.call != NULL)
        belfry_fetch_hold(first.call, false);
    if (err == BELFRY_OK)
        err = belfry_http_pull(http, now_ms, &out);
    belfry_http_destroy(http);
    if (err == BELFRY_OK)
        assert_int_equal(first.n_ends, 1);
    assert_null(first.call);
    assert_null(second.call);
    return err;
}

static void refused_memory_is_reported(void **state)
{
    (void)state;
    assert_true(refuse_sweep(scenario) > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_of_response_is_read_however_it_is_cut),
        cmocka_unit_test(a_response_that_ends_early_fails_at_every_byte),
        cmocka_unit_test(names_are_told_in_lower_case_and_values_without_blanks_around),
        cmocka_unit_test(fields_are_found_by_name),
        cmocka_unit_test(what_is_not_a_response_ends_the_connection),
        cmocka_unit_test(bytes_behind_a_response_end_the_connection_but_not_the_call),
        cmocka_unit_test(a_server_that_speaks_unasked_ends_the_connection),
        cmocka_unit_test(requests_go_one_after_the_other),
        cmocka_unit_test(a_server_that_closes_fails_those_that_wait_unprocessed),
        cmocka_unit_test(whatever_is_not_body_is_bounded),
        cmocka_unit_test(a_head_within_its_bounds_is_told_whole),
        cmocka_unit_test(a_large_head_leaves_all_of_the_allowance_to_what_follows),
        cmocka_unit_test(a_body_has_no_bound),
        cmocka_unit_test(a_held_call_is_told_nothing_and_then_all_in_order),
        cmocka_unit_test(a_callback_may_hold_again),
        cmocka_unit_test(holding_and_releasing_from_inside_changes_nothing),
        cmocka_unit_test(what_a_held_call_has_is_told_after_the_connection_is_lost),
        cmocka_unit_test(what_a_held_call_keeps_is_bounded),
        cmocka_unit_test(a_call_that_was_not_sent_is_cancelled_without_harm),
        cmocka_unit_test(cancelling_what_was_sent_is_the_end_of_the_connection),
        cmocka_unit_test(a_call_may_be_cancelled_by_its_own_callbacks),
        cmocka_unit_test(a_held_call_that_is_over_is_cancelled_without_harm),
        cmocka_unit_test(a_callback_may_open_the_next),
        cmocka_unit_test(refused_memory_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
