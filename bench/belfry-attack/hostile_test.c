/* bench/belfry-attack/hostile_test.c: a hostile connection, and a server's end of it by hand. */
#include "hostile.h"

#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "scripts.h"
#include "stopwatch.h"

#define TURNS 2000 /* of a millisecond: enough for anything on loopback */

struct bed {
    struct hostile_gang gang;
    struct hostile client;
    int listener, server;
};

static void bed_open(struct bed *bed, const struct script *script)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof(address);
    *bed =
        (struct bed){.gang = {.poll = poller_create(), .script = script}, .listener = socket(AF_INET, SOCK_STREAM, 0)};
    assert_int_equal(bind(bed->listener, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(bed->listener, 1), 0);
    assert_int_equal(getsockname(bed->listener, (struct sockaddr *)&address, &len), 0);
    memcpy(&bed->gang.target.addr, &address, sizeof(address));
    bed->gang.target.addr_len = sizeof(address);
    assert_int_equal(target_set_source(&bed->gang.target, "127.0.0.99"), BELFRY_OK);
    hostile_init(&bed->client, &bed->gang, 0);
    hostile_connect(&bed->client);
    len = sizeof(address);
    bed->server = accept(bed->listener, (struct sockaddr *)&address, &len);
    assert_true(bed->server >= 0);
    assert_string_equal(inet_ntoa(address.sin_addr), "127.0.0.99");
    for (int i = 0; i < TURNS && bed->client.state != HOSTILE_OPEN; i++)
        poller_turn(bed->gang.poll, 1);
    assert_int_equal(bed->client.state, HOSTILE_OPEN);
}

static void bed_close(struct bed *bed)
{
    hostile_fini(&bed->client);
    close(bed->listener);
    close(bed->gang.poll);
}

static void bed_await_end(struct bed *bed)
{
    close(bed->server);
    for (int i = 0; i < TURNS && bed->gang.ended == 0; i++)
        poller_turn(bed->gang.poll, 1);
    assert_int_equal(bed->gang.ended, 1);
    assert_int_equal(bed->client.state, HOSTILE_AWAY);
}

static void a_goaway_is_counted_with_its_text(void **state)
{
    (void)state;
    static const uint8_t goaway[] = {0, 0, 12, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 11, 'c', 'a', 'l', 'm'};
    struct bed bed;
    char data[256];
    bed_open(&bed, scripts_find("streams"));
    assert_true(read(bed.server, data, sizeof(data)) > 24);
    assert_memory_equal(data, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 24);
    assert_int_equal(write(bed.server, goaway, sizeof(goaway)), sizeof(goaway));
    bed_await_end(&bed);
    assert_string_equal(bed.gang.told.rows[0].text, "GOAWAY ENHANCE_YOUR_CALM: calm");
    assert_string_equal(bed.gang.told.rows[1].text, "closed");
    bed_close(&bed);
}

static void a_status_of_http1_is_counted(void **state)
{
    (void)state;
    static const char answer[] = "HTTP/1.1 429 Too Many Requests\r\n\r\n";
    struct bed bed;
    bed_open(&bed, scripts_find("trailers-http1"));
    assert_int_equal(write(bed.server, answer, strlen(answer)), strlen(answer));
    bed_await_end(&bed);
    assert_string_equal(bed.gang.told.rows[0].text, "HTTP 429");
    bed_close(&bed);
}

static void a_refused_call_is_counted_with_its_status(void **state)
{
    (void)state;
    /* :status 200, grpc-status 8, grpc-message full */
    static const uint8_t headers[] = "\x00\x00\x23\x01\x05\x00\x00\x00\x01"
                                     "\x88\x00\x0bgrpc-status\x01"
                                     "8\x00\x0cgrpc-message\x04"
                                     "full";
    struct bed bed;
    bed_open(&bed, scripts_find("streams"));
    assert_true(hostile_turn(&bed.client, stopwatch_ns()) > 0);
    assert_true(bed.gang.streams > 0);
    assert_int_equal(headers[2], sizeof(headers) - 1 - 9);
    assert_int_equal(write(bed.server, headers, sizeof(headers) - 1), sizeof(headers) - 1);
    for (int i = 0; i < TURNS && bed.gang.told.n_rows == 0; i++)
        poller_turn(bed.gang.poll, 1);
    assert_string_equal(bed.gang.told.rows[0].text, "grpc-status 8: full");
    close(bed.server);
    bed_close(&bed);
}

/* A frame of DATA with that body, on stream 1. */
static void bed_is_sent_data(struct bed *bed, const void *body, size_t len)
{
    uint8_t frame[9 + 256] = {0, 0, (uint8_t)len, 0, 0, 0, 0, 0, 1};
    memcpy(frame + 9, body, len);
    assert_int_equal(write(bed->server, frame, 9 + len), 9 + len);
    for (int i = 0; i < TURNS && bed->gang.told.n_rows == 0; i++)
        poller_turn(bed->gang.poll, 1);
}

static void refusals_in_bodies_are_counted(void **state)
{
    (void)state;
    /* two WatchResponses with canceled = true and cancel_reason = "full" */
    static const uint8_t canceled[] = {0, 0, 0, 0, 8, 0x20, 1, 0x32, 4, 'f', 'u', 'l', 'l',
                                       0, 0, 0, 0, 8, 0x20, 1, 0x32, 4, 'f', 'u', 'l', 'l'};
    static const char comment[] = "retry: 1000\n\n: belfry: too much\n\n", beat[] = ":\n\n: something\n\n";
    static const char status[] = "{\"kind\":\"Status\",\"message\":\"belfry: too much, again\",\"code\":429}";
    const struct {
        const void *body;
        size_t len;
        const char *text; /* NULL: nothing was refused */
        uint64_t count;
    } rows[] = {
        {canceled, sizeof(canceled), "watch canceled: full", 2},
        {comment, sizeof(comment) - 1, "comment: too much", 1},
        {status, sizeof(status) - 1, "message: belfry: too much, again", 1},
        {beat, sizeof(beat) - 1, NULL, 0},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct bed bed;
        bed_open(&bed, scripts_find("streams"));
        bed_is_sent_data(&bed, rows[i].body, rows[i].len);
        if (rows[i].text == NULL) {
            assert_int_equal(bed.gang.told.n_rows, 0);
        } else {
            assert_string_equal(bed.gang.told.rows[0].text, rows[i].text);
            assert_int_equal(bed.gang.told.rows[0].count, rows[i].count);
        }
        close(bed.server);
        bed_close(&bed);
    }
}

/* With windows that never open: a script must not make more than it may, nor frames that are too long. */
static void scripts_make_frames(void **state)
{
    (void)state;
    const struct script *script;
    for (size_t i = 0; (script = scripts_at(i)) != NULL; i++) {
        struct hostile_gang gang = {.script = script};
        struct hostile client;
        struct h2frame_cutter cutter = {0};
        struct h2frame frame;
        hostile_init(&client, &gang, 0);
        client.next_id = 1;
        client.window = 65535;
        for (int turn = 0; turn < 20; turn++)
            script->turn(&client);
        struct belfry_bytes bytes = belfry_buf_bytes(&client.out);
        enum h2frame_next next = H2FRAME_CUT;
        while (script->protocol == SCRIPT_HTTP2 && next == H2FRAME_CUT)
            next = h2frame_cut(&cutter, &bytes, &frame);
        assert_int_not_equal(next, H2FRAME_TOO_LONG);
        h2frame_cutter_fini(&cutter);
        hostile_fini(&client);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_goaway_is_counted_with_its_text),
        cmocka_unit_test(a_status_of_http1_is_counted),
        cmocka_unit_test(a_refused_call_is_counted_with_its_status),
        cmocka_unit_test(refusals_in_bodies_are_counted),
        cmocka_unit_test(scripts_make_frames),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
