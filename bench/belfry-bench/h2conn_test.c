/* bench/belfry-bench/h2conn_test.c: against scripted bytes on the other end of a socket pair. */
#include "h2conn.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#define PREFACE_BYTES (24 + 9)

struct rig {
    int poll, peer;
    struct h2conn *conn;
    size_t n_messages, message_bytes, n_ended, n_failed;
    size_t last_len;
    char last_first; /* byte of the last message */
    int status;
    char text[160], why[160];
};

static void on_message(void *user, uint32_t call, struct belfry_bytes message)
{
    struct rig *rig = user;
    (void)call;
    rig->n_messages++;
    rig->message_bytes += message.len;
    rig->last_len = message.len;
    rig->last_first = message.len > 0 ? message.data[0] : '\0';
}

static void on_ended(void *user, uint32_t call, int status, const char *text)
{
    struct rig *rig = user;
    (void)call;
    rig->n_ended++;
    rig->status = status;
    snprintf(rig->text, sizeof(rig->text), "%s", text);
}

static void on_failed(void *user, const char *why)
{
    struct rig *rig = user;
    rig->n_failed++;
    snprintf(rig->why, sizeof(rig->why), "%s", why);
}

static const struct h2conn_events events = {on_message, on_ended, on_failed};

static void turn(struct rig *rig)
{
    for (int i = 0; i < 3; i++)
        poller_turn(rig->poll, 0);
}

static size_t heard(struct rig *rig, uint8_t *to, size_t size)
{
    ssize_t n = recv(rig->peer, to, size, MSG_DONTWAIT);
    return n < 0 ? 0 : (size_t)n;
}

/* A connection with one call on it, whose preface has been read. */
static void open_rig(struct rig *rig)
{
    int fds[2];
    uint8_t data[1024];
    *rig = (struct rig){.poll = poller_create()};
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    rig->peer = fds[1];
    rig->conn = h2conn_create_on(rig->poll, fds[0], NULL, 1, &events, rig);
    assert_int_equal(h2conn_call(rig->conn, "/a/b"), 0);
    assert_true(h2conn_call(rig->conn, "/a/b") == UINT32_MAX); /* there is room for one */
    turn(rig);
    size_t n = heard(rig, data, sizeof(data));
    assert_true(n > PREFACE_BYTES + 9);
    assert_memory_equal(data, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0", PREFACE_BYTES);
    assert_int_equal(data[PREFACE_BYTES + 3], 1); /* HEADERS */
}

static void close_rig(struct rig *rig)
{
    h2conn_destroy(rig->conn);
    close(rig->peer);
    close(rig->poll);
}

static void say(struct rig *rig, const void *data, size_t len)
{
    assert_int_equal(send(rig->peer, data, len, MSG_NOSIGNAL), (ssize_t)len);
    turn(rig);
}

#define SAY(rig, literal) say(rig, literal, sizeof(literal) - 1)

/* DATA with one message of `len` bytes 'm' on call 0; returns its size. */
static size_t data_frame(uint8_t *to, size_t len)
{
    size_t payload = len + 5;
    uint8_t head[14] = {0, (uint8_t)(payload >> 8), (uint8_t)payload, 0, 0, 0, 0, 0, 1, 0, 0,
                        0, (uint8_t)(len >> 8),     (uint8_t)len};
    memcpy(to, head, sizeof(head));
    memset(to + sizeof(head), 'm', len);
    return sizeof(head) + len;
}

static void after_the_first_data_comes_a_window_update_and_the_ping_of_grpc_go(void **state)
{
    (void)state;
    struct rig rig;
    uint8_t data[256], out[256];
    open_rig(&rig);
    say(&rig, data, data_frame(data, 10));
    assert_int_equal(rig.n_messages, 1);
    assert_int_equal(rig.last_len, 10);
    static const char expect[] = "\0\0\4\x8\0\0\0\0\0\0\0\0\xf"
                                 "\0\0\x8\x6\0\0\0\0\0\x2\x4\x10\x10\x9\xe\x7\x7";
    assert_int_equal(heard(&rig, out, sizeof(out)), sizeof(expect) - 1);
    assert_memory_equal(out, expect, sizeof(expect) - 1);

    say(&rig, data, data_frame(data, 10)); /* one ping is under way, and that is all */
    assert_int_equal(heard(&rig, out, sizeof(out)), 0);
    SAY(&rig, "\0\0\x8\x6\1\0\0\0\0\x2\x4\x10\x10\x9\xe\x7\x7");
    say(&rig, data, data_frame(data, 10));
    assert_int_equal(heard(&rig, out, sizeof(out)), sizeof(expect) - 1);
    assert_int_equal(out[12], 30); /* both that had not been given back */
    close_rig(&rig);
}

static void windows_are_given_back_when_a_quarter_is_used(void **state)
{
    (void)state;
    struct rig rig;
    static uint8_t data[20000], out[256];
    open_rig(&rig);
    say(&rig, data, data_frame(data, 1000)); /* 1005 of the stream's are used */
    heard(&rig, out, sizeof(out));
    say(&rig, data, data_frame(data, 15000)); /* 15005 of the connection's, 16010 of the stream's */
    assert_int_equal(heard(&rig, out, sizeof(out)), 0);
    say(&rig, data, data_frame(data, 1500));
    assert_int_equal(heard(&rig, out, sizeof(out)), 2 * 13);
    assert_memory_equal(out, "\0\0\4\x8\0\0\0\0\0\0\0\x40\x7e", 13);      /* 16510 */
    assert_memory_equal(out + 13, "\0\0\4\x8\0\0\0\0\1\0\0\x44\x6b", 13); /* 17515 */
    close_rig(&rig);
}

static void bytes_may_come_one_by_one_and_messages_in_many_frames(void **state)
{
    (void)state;
    struct rig rig;
    /* a message of 6 bytes in frames of 3, 4 and 4, and an empty one behind it in two */
    static const char script[] = "\0\0\3\0\0\0\0\0\1"
                                 "\0\0\0"
                                 "\0\0\4\0\0\0\0\0\1"
                                 "\0\6zy"
                                 "\0\0\6\0\0\0\0\0\1"
                                 "xwvu\0\0"
                                 "\0\0\3\0\0\0\0\0\1"
                                 "\0\0\0";
    open_rig(&rig);
    for (size_t i = 0; i + 1 < sizeof(script); i++)
        say(&rig, script + i, 1);
    assert_int_equal(rig.n_messages, 2);
    assert_int_equal(rig.message_bytes, 6);
    assert_int_equal(rig.last_len, 0);
    assert_int_equal(rig.n_failed, 0);
    close_rig(&rig);
}

static void trailers_end_the_call_and_free_its_place(void **state)
{
    (void)state;
    struct rig rig;
    open_rig(&rig);
    SAY(&rig, "\0\0\1\1\4\0\0\0\1\x88"); /* :status 200 */
    assert_int_equal(rig.n_ended, 0);
    SAY(&rig, "\0\0\xf\1\5\0\0\0\1\0\xbgrpc-status\1"
              "0");
    assert_int_equal(rig.n_ended, 1);
    assert_int_equal(rig.status, 0);
    assert_int_equal(h2conn_call(rig.conn, "/a/b"), 1);
    SAY(&rig, "\0\0\4\3\0\0\0\0\3\0\0\0\7"); /* RST_STREAM */
    assert_int_equal(rig.n_ended, 2);
    assert_int_equal(rig.status, -1);
    assert_string_equal(rig.text, "RST_STREAM with code 7");
    close_rig(&rig);
}

static void settings_and_pings_are_answered(void **state)
{
    (void)state;
    struct rig rig;
    uint8_t out[256];
    open_rig(&rig);
    SAY(&rig, "\0\0\0\4\0\0\0\0\0");
    assert_int_equal(heard(&rig, out, sizeof(out)), 9);
    assert_memory_equal(out, "\0\0\0\4\1\0\0\0\0", 9);
    SAY(&rig, "\0\0\x8\x6\0\0\0\0\0abcdefgh");
    assert_int_equal(heard(&rig, out, sizeof(out)), 17);
    assert_memory_equal(out, "\0\0\x8\x6\1\0\0\0\0abcdefgh", 17);
    close_rig(&rig);
}

static void what_the_server_has_no_window_for_waits(void **state)
{
    (void)state;
    struct rig rig;
    static uint8_t message[70000], out[200000];
    open_rig(&rig);
    h2conn_send(rig.conn, 0, belfry_bytes_of(message, sizeof(message)), H2CONN_LAST);
    h2conn_flush(rig.conn);
    turn(&rig);
    assert_int_equal(heard(&rig, out, sizeof(out)), 65535 + 4 * 9);
    SAY(&rig, "\0\0\4\x8\0\0\0\0\0\0\1\0\0"); /* the connection's window alone does not help */
    assert_int_equal(heard(&rig, out, sizeof(out)), 0);
    SAY(&rig, "\0\0\4\x8\0\0\0\0\1\0\1\0\0");
    assert_int_equal(heard(&rig, out, sizeof(out)), 70005 - 65535 + 9);
    assert_int_equal(out[4], 1); /* END_STREAM */
    close_rig(&rig);
}

static void what_no_server_may_say_fails_the_connection(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t len;
        const char *why;
    } rows[] = {
        {"\0\x40\1\0\0\0\0\0\1", 9, "a frame is longer than 16 KiB"},
        {"\0\0\4\7\0\0\0\0\0abcd", 13, "the server said GOAWAY"},
        {"\0\0\1\0\x8\0\0\0\1\1", 10, "padding is longer than its frame"},
        {"\0\0\1\1\xc\0\0\0\1\1", 10, "padding is longer than its frame"},
        {"\0\0\1\1\4\0\0\0\1\xff", 10, "a header block cannot be read"},
        {"\0\0\1\1\0\0\0\0\1\x88\0\0\0\4\0\0\0\0\0", 19, "a header block was broken off"},
        {"\0\0\5\0\0\0\0\0\1\1\0\0\0\0", 14, "a compressed message came, which was not asked for"},
        {"\0\0\1\6\0\0\0\0\0a", 10, "a PING has a wrong length"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct rig rig;
        open_rig(&rig);
        say(&rig, rows[i].bytes, rows[i].len);
        assert_int_equal(rig.n_failed, 1);
        assert_string_equal(rig.why, rows[i].why);
        assert_int_equal(h2conn_state(rig.conn), H2CONN_CLOSED);
        close_rig(&rig);
    }
}

static void a_paused_connection_reads_nothing_until_it_goes_on(void **state)
{
    (void)state;
    struct rig rig;
    uint8_t data[256];
    open_rig(&rig);
    h2conn_pause(rig.conn);
    say(&rig, data, data_frame(data, 10));
    assert_int_equal(rig.n_messages, 0);
    h2conn_resume(rig.conn);
    turn(&rig);
    assert_int_equal(rig.n_messages, 1);
    close_rig(&rig);
}

static void a_token_is_sent_with_every_call_however_long_it_is(void **state)
{
    (void)state;
    static const struct {
        size_t len;
        const char *head;
        size_t head_len;
    } cases[] = {{5, "\x05", 1}, {126, "\x7e", 1}, {127, "\x7f\x00", 2}, {600, "\x7f\xd9\x03", 3}};
    char token[600];
    uint8_t data[1024], wanted[32] = "\x00\x05token";
    memset(token, 't', sizeof(token));
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct rig rig = {.poll = poller_create()};
        int fds[2];
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
        rig.peer = fds[1];
        rig.conn = h2conn_create_on(rig.poll, fds[0], NULL, 1, &events, &rig);
        h2conn_set_token(rig.conn, belfry_bytes_of("another", 7));
        h2conn_set_token(rig.conn, belfry_bytes_of(token, cases[i].len));
        assert_int_equal(h2conn_call(rig.conn, "/a/b"), 0);
        turn(&rig);
        size_t n = heard(&rig, data, sizeof(data)), wanted_len = 7 + cases[i].head_len;
        memcpy(wanted + 7, cases[i].head, cases[i].head_len);
        assert_true(n > PREFACE_BYTES + 9 + wanted_len + cases[i].len);
        assert_memory_equal(data + n - cases[i].len, token, cases[i].len);
        assert_memory_equal(data + n - cases[i].len - wanted_len, wanted, wanted_len);
        close_rig(&rig);
    }
}

static void the_peers_end_is_a_failure(void **state)
{
    (void)state;
    struct rig rig;
    open_rig(&rig);
    shutdown(rig.peer, SHUT_RDWR);
    turn(&rig);
    assert_int_equal(rig.n_failed, 1);
    close_rig(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(after_the_first_data_comes_a_window_update_and_the_ping_of_grpc_go),
        cmocka_unit_test(windows_are_given_back_when_a_quarter_is_used),
        cmocka_unit_test(bytes_may_come_one_by_one_and_messages_in_many_frames),
        cmocka_unit_test(trailers_end_the_call_and_free_its_place),
        cmocka_unit_test(settings_and_pings_are_answered),
        cmocka_unit_test(what_the_server_has_no_window_for_waits),
        cmocka_unit_test(what_no_server_may_say_fails_the_connection),
        cmocka_unit_test(a_paused_connection_reads_nothing_until_it_goes_on),
        cmocka_unit_test(a_token_is_sent_with_every_call_however_long_it_is),
        cmocka_unit_test(the_peers_end_is_a_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
