/* src/net/h2_test.c: what the suites of net/grpc.h cannot see through gRPC. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "net/h2.h"
#include "support/refuse.h"

#define WINDOW 65535

/* Everything that was reported, as text: "field block! closed(8) ..." */
struct trace {
    char text[512];
    enum belfry_err answer; /* what the events return */
};

static void put(struct trace *trace, const char *what)
{
    size_t n = strlen(trace->text);
    snprintf(trace->text + n, sizeof(trace->text) - n, "%s ", what);
}

static enum belfry_err on_field(struct belfry_h2_stream *stream, struct belfry_bytes name, struct belfry_bytes value,
                                void *user)
{
    (void)stream;
    (void)name;
    (void)value;
    struct trace *trace = user;
    put(trace, "field");
    return trace->answer;
}

static enum belfry_err on_block(struct belfry_h2_stream *stream, bool last, void *user)
{
    (void)stream;
    put(user, last ? "block!" : "block");
    return BELFRY_OK;
}

static enum belfry_err on_data(struct belfry_h2_stream *stream, struct belfry_bytes bytes, void *user)
{
    (void)stream;
    char text[32];
    snprintf(text, sizeof(text), "data(%zu)", bytes.len);
    put(user, text);
    return BELFRY_OK;
}

static enum belfry_err on_end(struct belfry_h2_stream *stream, void *user)
{
    (void)stream;
    put(user, "end");
    return BELFRY_OK;
}

static void on_closed(struct belfry_h2_stream *stream, uint32_t code, const char *why, void *user)
{
    assert_int_equal(stream->id, 0);
    assert_non_null(why);
    char text[32];
    snprintf(text, sizeof(text), "closed(%u)", code);
    put(user, text);
}

static void on_goaway(int32_t last_id, uint32_t code, struct belfry_bytes debug, void *user)
{
    char text[64];
    snprintf(text, sizeof(text), "goaway(%d,%u,%.*s)", (int)last_id, code, (int)debug.len, debug.data);
    put(user, text);
}

static size_t on_read(struct belfry_h2_stream *stream, uint8_t *to, size_t cap, bool *out_end, void *user)
{
    (void)stream;
    (void)to;
    (void)cap;
    (void)user;
    *out_end = true;
    return 0;
}

static const struct belfry_h2_events events = {on_field,  on_block,  on_data, on_end,
                                               on_closed, on_goaway, on_read, NULL};

static enum belfry_err submit(struct belfry_h2 *h2, struct belfry_h2_stream *stream)
{
    static uint8_t method[] = ":method", get[] = "GET", scheme[] = ":scheme", http[] = "http", path[] = ":path",
                   root[] = "/", authority[] = ":authority", host[] = "127.0.0.1";
    const nghttp2_nv nv[] = {
        {method, get, 7, 3, 0}, {scheme, http, 7, 4, 0}, {path, root, 5, 1, 0}, {authority, host, 10, 9, 0}};
    return belfry_h2_submit(h2, nv, 4, stream);
}

static enum belfry_err receive(struct belfry_h2 *h2, const char *bytes, size_t len)
{
    return belfry_h2_receive(h2, belfry_bytes_of(bytes, len));
}

/* True if a frame of this type is in what a pull gives; types are looked for frame by frame. */
static size_t count_frames(struct belfry_h2 *h2, uint8_t type)
{
    struct belfry_buf out;
    belfry_buf_init(&out);
    belfry_ignore(belfry_h2_pull(h2, 1 << 20, &out)); /* what was appended counts, whatever ended it */
    const uint8_t *p = (const uint8_t *)belfry_buf_bytes(&out).data;
    size_t n = 0, at = 0, len = belfry_buf_len(&out);
    if (len >= 24 && memcmp(p, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 24) == 0)
        at = 24;
    while (at + 9 <= len) {
        n += p[at + 3] == type;
        at += 9 + ((size_t)p[at] << 16 | (size_t)p[at + 1] << 8 | p[at + 2]);
    }
    assert_int_equal(at, len);
    belfry_buf_fini(&out);
    return n;
}

#define SETTINGS     "\0\0\0\4\0\0\0\0\0"
#define SETTINGS_LEN 9

static struct belfry_h2 *connected(struct trace *trace)
{
    struct belfry_h2 *h2;
    assert_int_equal(belfry_h2_create(WINDOW, &events, trace, &h2), BELFRY_OK);
    assert_int_equal(receive(h2, SETTINGS, SETTINGS_LEN), BELFRY_OK);
    return h2;
}

static void a_response_is_reported_in_order(void **state)
{
    (void)state;
    struct trace trace = {0};
    struct belfry_h2 *h2 = connected(&trace);
    struct belfry_h2_stream stream = {0};
    assert_int_equal(submit(h2, &stream), BELFRY_OK);
    assert_int_equal(stream.id, 1);
    assert_false(stream.pulled);
    assert_int_equal(count_frames(h2, NGHTTP2_HEADERS), 1);
    assert_true(stream.pulled);
    assert_int_equal(receive(h2, "\0\0\1\1\4\0\0\0\1\x88", 10), BELFRY_OK); /* HEADERS: 200 */
    assert_int_equal(receive(h2, "\0\0\2\0\0\0\0\0\1xy", 11), BELFRY_OK);   /* DATA */
    assert_int_equal(receive(h2, "\0\0\1\0\1\0\0\0\1z", 10), BELFRY_OK);    /* DATA, the last */
    assert_string_equal(trace.text, "field block data(2) data(1) end closed(0) ");
    belfry_h2_destroy(h2);
}

static void a_stream_that_was_let_go_is_never_named_again(void **state)
{
    (void)state;
    struct trace trace = {0};
    struct belfry_h2 *h2 = connected(&trace);
    struct belfry_h2_stream *stream = calloc(1, sizeof(*stream));
    assert_non_null(stream);
    assert_int_equal(submit(h2, stream), BELFRY_OK);
    assert_int_equal(count_frames(h2, NGHTTP2_HEADERS), 1);
    belfry_h2_reset(h2, stream, NGHTTP2_CANCEL);
    belfry_h2_reset(h2, stream, NGHTTP2_CANCEL); /* again is safe */
    belfry_h2_finish(h2, stream);
    free(stream); /* a use of it from here on would be found */
    assert_int_equal(receive(h2, "\0\0\1\1\4\0\0\0\1\x88", 10), BELFRY_OK);
    assert_int_equal(receive(h2, "\0\0\2\0\0\0\0\0\1xy", 11), BELFRY_OK);
    assert_int_equal(count_frames(h2, NGHTTP2_RST_STREAM), 1);
    assert_int_equal(receive(h2, "\0\0\2\0\1\0\0\0\1xy", 11), BELFRY_OK);
    assert_string_equal(trace.text, "");
    belfry_h2_destroy(h2);
}

static void a_request_reset_before_it_is_pulled_is_not_sent_and_frees_its_place(void **state)
{
    (void)state;
    struct trace trace = {0};
    struct belfry_h2 *h2;
    assert_int_equal(belfry_h2_create(WINDOW, &events, &trace, &h2), BELFRY_OK);
    assert_int_equal(belfry_h2_room(h2), 100); /* what is assumed until the peer says otherwise */
    assert_int_equal(receive(h2, "\0\0\6\4\0\0\0\0\0\0\3\0\0\0\2", 15), BELFRY_OK); /* two streams */
    assert_int_equal(belfry_h2_room(h2), 2);
    struct belfry_h2_stream stream = {0};
    assert_int_equal(submit(h2, &stream), BELFRY_OK);
    assert_int_equal(belfry_h2_room(h2), 1);
    belfry_h2_reset(h2, &stream, NGHTTP2_CANCEL);
    assert_int_equal(count_frames(h2, NGHTTP2_HEADERS), 0);
    assert_int_equal(belfry_h2_room(h2), 2);
    assert_string_equal(trace.text, "");
    belfry_h2_destroy(h2);
}

static void goaway_carries_its_reason(void **state)
{
    (void)state;
    struct trace trace = {0};
    struct belfry_h2 *h2 = connected(&trace);
    assert_int_equal(receive(h2, "\0\0\13\7\0\0\0\0\0\0\0\0\0\0\0\0\13why", 20), BELFRY_OK);
    assert_string_equal(trace.text, "goaway(0,11,why) ");
    belfry_h2_destroy(h2);
}

static void an_error_of_an_event_ends_the_connection(void **state)
{
    (void)state;
    struct trace trace = {.answer = BELFRY_ERR_NOMEM};
    struct belfry_h2 *h2 = connected(&trace);
    struct belfry_h2_stream stream = {0};
    assert_int_equal(submit(h2, &stream), BELFRY_OK);
    assert_int_equal(count_frames(h2, NGHTTP2_HEADERS), 1);
    assert_int_equal(receive(h2, "\0\0\1\1\4\0\0\0\1\x88", 10), BELFRY_ERR_NOMEM);
    assert_int_equal(receive(h2, SETTINGS, SETTINGS_LEN), BELFRY_ERR_NOMEM); /* and stays ended */
    assert_false(belfry_h2_wants_write(h2));
    belfry_h2_destroy(h2);
}

static void windows_are_given_back_separately(void **state)
{
    (void)state;
    struct trace trace = {0};
    struct belfry_h2 *h2 = connected(&trace);
    struct belfry_h2_stream stream = {0};
    assert_int_equal(submit(h2, &stream), BELFRY_OK);
    assert_int_equal(count_frames(h2, NGHTTP2_WINDOW_UPDATE), 1); /* the connection's window is opened wide */
    assert_int_equal(receive(h2, "\0\0\1\1\4\0\0\0\1\x88", 10), BELFRY_OK);
    char data[9 + 16000] = "\0\x3e\x80\0\0\0\0\0\1";
    for (int i = 0; i < 4; i++)
        assert_int_equal(receive(h2, data, sizeof(data)), BELFRY_OK);
    assert_int_equal(count_frames(h2, NGHTTP2_WINDOW_UPDATE), 0); /* 64,000 of 16 MiB, and of a stream not taken */
    belfry_h2_taken(h2, &stream, 64000);
    assert_int_equal(count_frames(h2, NGHTTP2_WINDOW_UPDATE), 1);
    belfry_h2_destroy(h2);
}

static void an_abandoned_connection_is_silent(void **state)
{
    (void)state;
    struct trace trace = {0};
    struct belfry_h2 *h2 = connected(&trace);
    assert_true(belfry_h2_wants_write(h2));
    belfry_h2_abandon(h2);
    assert_false(belfry_h2_wants_write(h2));
    assert_int_equal(count_frames(h2, NGHTTP2_SETTINGS), 0);
    assert_int_equal(receive(h2, SETTINGS, SETTINGS_LEN), BELFRY_ERR_UNAVAILABLE);
    belfry_h2_destroy(h2);
}

static enum belfry_err request_scenario(void)
{
    struct trace trace = {0};
    struct belfry_h2 *h2 = NULL;
    struct belfry_h2_stream stream = {0};
    struct belfry_buf out;
    belfry_buf_init(&out);
    enum belfry_err err = belfry_h2_create(WINDOW, &events, &trace, &h2);
    if (err == BELFRY_OK)
        err = submit(h2, &stream);
    if (err == BELFRY_OK)
        err = belfry_h2_ping(h2);
    if (err == BELFRY_OK)
        err = belfry_h2_pull(h2, 65536, &out);
    if (err == BELFRY_OK)
        err = receive(h2, SETTINGS, SETTINGS_LEN);
    if (err == BELFRY_OK)
        err = receive(h2, "\0\0\1\1\5\0\0\0\1\x88", 10);
    if (err == BELFRY_OK)
        err = belfry_h2_pull(h2, 65536, &out);
    belfry_buf_fini(&out);
    belfry_h2_destroy(h2);
    return err;
}

static void refused_memory_is_reported_and_nothing_leaks(void **state)
{
    (void)state;
    assert_true(refuse_sweep(request_scenario) > 15);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_response_is_reported_in_order),
        cmocka_unit_test(a_stream_that_was_let_go_is_never_named_again),
        cmocka_unit_test(a_request_reset_before_it_is_pulled_is_not_sent_and_frees_its_place),
        cmocka_unit_test(goaway_carries_its_reason),
        cmocka_unit_test(an_error_of_an_event_ends_the_connection),
        cmocka_unit_test(windows_are_given_back_separately),
        cmocka_unit_test(an_abandoned_connection_is_silent),
        cmocka_unit_test(refused_memory_is_reported_and_nothing_leaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
