/* bench/belfry-bench/h1conn_test.c: the server's end is a socket pair that the test writes to. */
#include "h1conn.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

struct rig {
    int poll, server;
    struct h1conn *conn;
    int status;
    char body[256];
    size_t body_len;
    int n_ended;
    char why[128];
};

static void on_head(void *user, int status)
{
    ((struct rig *)user)->status = status;
}

static void on_body(void *user, struct belfry_bytes piece)
{
    struct rig *rig = user;
    assert_true(rig->body_len + piece.len < sizeof(rig->body));
    memcpy(rig->body + rig->body_len, piece.data, piece.len);
    rig->body_len += piece.len;
}

static void on_ended(void *user, const char *why)
{
    struct rig *rig = user;
    rig->n_ended++;
    snprintf(rig->why, sizeof(rig->why), "%s", why == NULL ? "" : why);
}

static const struct h1conn_events events = {on_head, on_body, on_ended};

static void open_rig(struct rig *rig)
{
    int ends[2];
    *rig = (struct rig){.poll = poller_create()};
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    rig->server = ends[1];
    rig->conn = h1conn_create_on(rig->poll, ends[0], "/apis?watch=1", belfry_bytes_str("secret"), &events, rig);
    poller_turn(rig->poll, 0);
}

static void close_rig(struct rig *rig)
{
    h1conn_destroy(rig->conn);
    close(rig->server);
    close(rig->poll);
}

static void say(struct rig *rig, const char *bytes, size_t len)
{
    assert_int_equal(send(rig->server, bytes, len, MSG_NOSIGNAL), len);
    poller_turn(rig->poll, 0);
}

static void hang_up(struct rig *rig)
{
    assert_int_equal(shutdown(rig->server, SHUT_WR), 0);
    poller_turn(rig->poll, 0);
}

static const char answer[] = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                             "6\r\nhello \r\n5\r\nworld\r\n0\r\n\r\n";

static void the_request_is_a_get_with_a_host(void **state)
{
    (void)state;
    struct rig rig;
    open_rig(&rig);
    char request[1024] = "";
    assert_true(recv(rig.server, request, sizeof(request) - 1, 0) > 0);
    assert_ptr_equal(strstr(request, "GET /apis?watch=1 HTTP/1.1\r\nHost: localhost\r\n"), request);
    assert_string_equal(strstr(request, "\r\nAuthorization"), "\r\nAuthorization: Bearer secret\r\n\r\n");
    close_rig(&rig);
}

static void a_chunked_body_is_handed_on_wherever_it_is_cut(void **state)
{
    (void)state;
    for (size_t cut = 1; cut < sizeof(answer) - 1; cut++) {
        struct rig rig;
        open_rig(&rig);
        say(&rig, answer, cut);
        assert_int_equal(rig.n_ended, 0);
        say(&rig, answer + cut, sizeof(answer) - 1 - cut);
        assert_int_equal(rig.status, 200);
        assert_string_equal(rig.body, "hello world");
        assert_int_equal(rig.n_ended, 1);
        assert_string_equal(rig.why, "");
        assert_int_equal(h1conn_bytes_read(rig.conn), sizeof(answer) - 1);
        close_rig(&rig);
    }
}

static void a_body_that_is_cut_off_is_a_fault(void **state)
{
    (void)state;
    struct rig rig;
    open_rig(&rig);
    say(&rig, answer, sizeof(answer) - 4);
    hang_up(&rig);
    assert_int_equal(rig.n_ended, 1);
    assert_string_equal(rig.why, "the server closed the connection");
    close_rig(&rig);
}

static void a_body_without_a_length_ends_with_the_connection(void **state)
{
    (void)state;
    static const char reply[] = "HTTP/1.1 503 No\r\nConnection: close\r\n\r\nwhy";
    struct rig rig;
    open_rig(&rig);
    say(&rig, reply, sizeof(reply) - 1);
    assert_int_equal(rig.n_ended, 0);
    hang_up(&rig);
    assert_int_equal(rig.status, 503);
    assert_string_equal(rig.body, "why");
    assert_int_equal(rig.n_ended, 1);
    assert_string_equal(rig.why, "");
    close_rig(&rig);
}

static void what_is_no_http_is_a_fault(void **state)
{
    (void)state;
    struct rig rig;
    open_rig(&rig);
    say(&rig, "PRI * HTTP/2.0\r\n\r\n", 18);
    assert_int_equal(rig.n_ended, 1);
    assert_string_equal(rig.why, "what the server sent is no HTTP/1.1");
    say(&rig, answer, sizeof(answer) - 1);
    assert_int_equal(rig.n_ended, 1);
    assert_int_equal(rig.status, 0);
    close_rig(&rig);
}

static void a_paused_connection_is_not_read_until_it_is_resumed(void **state)
{
    (void)state;
    struct rig rig;
    open_rig(&rig);
    h1conn_pause(rig.conn);
    say(&rig, answer, sizeof(answer) - 1);
    assert_int_equal(rig.status, 0);
    h1conn_resume(rig.conn);
    poller_turn(rig.poll, 0);
    assert_string_equal(rig.body, "hello world");
    close_rig(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_request_is_a_get_with_a_host),
        cmocka_unit_test(a_chunked_body_is_handed_on_wherever_it_is_cut),
        cmocka_unit_test(a_body_that_is_cut_off_is_a_fault),
        cmocka_unit_test(a_body_without_a_length_ends_with_the_connection),
        cmocka_unit_test(what_is_no_http_is_a_fault),
        cmocka_unit_test(a_paused_connection_is_not_read_until_it_is_resumed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
