/* src/server/h1_server_test.c: scripted bytes in, expected bytes out. */
#include "server/h1_server.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "support/refuse.h"

/* A connection whose handler does what the path asks for:
 *     /answer   "hello", at once
 *     /deny     403, at once, whatever body comes
 *     /upload   takes the body and answers with its length when it ends
 *     /hoard    the same without taking anything, until told
 *     /open     responds without a length and stays open
 *     /counted  responds with content-length 5 and stays open
 *     /reset    resets */
struct fixture {
    struct exchange_conn conn;
    struct h1_server *h1;
    struct belfry_buf out;
    struct exchange *x; /* open; NULL: none */
    int n_begun, n_gone, n_writable, n_flush, n_body_ends;
    size_t body_len;
    bool hoard;
    char line[256]; /* of the last head: method path authority */
    char fields[512];
};

static void on_body(struct exchange *x, struct belfry_bytes bytes, void *user)
{
    struct fixture *f = user;
    f->body_len += bytes.len;
    if (!f->hoard)
        exchange_taken(x, bytes.len);
}

static void on_body_end(struct exchange *x, void *user)
{
    struct fixture *f = user;
    char text[32];
    f->n_body_ends++;
    if (f->x != NULL && (strstr(f->line, "/upload") != NULL || strstr(f->line, "/hoard") != NULL)) {
        snprintf(text, sizeof(text), "%zu", f->body_len);
        f->x = NULL;
        exchange_answer(x, 200, NULL, 0, belfry_bytes_str(text));
    }
}

static void on_writable(struct exchange *x, void *user)
{
    struct fixture *f = user;
    assert_ptr_equal(f->x, x);
    f->n_writable++;
}

static void on_gone(struct exchange *x, void *user)
{
    struct fixture *f = user;
    assert_ptr_equal(f->x, x);
    f->n_gone++;
    f->x = NULL;
}

static const struct exchange_events events = {on_body, on_body_end, on_writable, on_gone};

static bool asks_for(const struct exchange_head *head, const char *path)
{
    return belfry_bytes_equal(head->path, belfry_bytes_str(path));
}

static void record(struct fixture *f, const struct exchange_head *head)
{
    size_t n = 0;
    snprintf(f->line, sizeof(f->line), "%.*s %.*s %.*s", (int)head->method.len, head->method.data, (int)head->path.len,
             head->path.data, (int)head->authority.len, head->authority.len > 0 ? head->authority.data : "");
    f->fields[0] = '\0';
    for (size_t i = 0; i < head->n_fields && n < sizeof(f->fields) - 1; i++)
        n += (size_t)snprintf(f->fields + n, sizeof(f->fields) - n, "%.*s=%.*s;", (int)head->fields[i].name.len,
                              head->fields[i].name.data, (int)head->fields[i].value.len, head->fields[i].value.data);
}

static void begin(struct exchange *x, const struct exchange_head *head, void *user)
{
    struct fixture *f = user;
    const struct belfry_http_field length = {belfry_bytes_str("content-length"), belfry_bytes_str("5")};
    assert_null(f->x);
    f->n_begun++;
    f->body_len = 0;
    record(f, head);
    if (asks_for(head, "/answer")) {
        exchange_answer(x, 200, NULL, 0, belfry_bytes_str("hello"));
    } else if (asks_for(head, "/deny")) {
        exchange_answer(x, 403, NULL, 0, belfry_bytes_str(""));
    } else if (asks_for(head, "/reset")) {
        exchange_reset(x, 8);
    } else {
        f->x = x;
        f->hoard = asks_for(head, "/hoard");
        exchange_handle(x, &events, f);
        if (asks_for(head, "/open"))
            exchange_respond(x, 200, NULL, 0);
        else if (asks_for(head, "/counted"))
            exchange_respond(x, 200, &length, 1);
    }
}

static void wants_flush(void *user)
{
    struct fixture *f = user;
    f->n_flush++;
}

static enum belfry_err open_fixture(struct fixture *f)
{
    *f = (struct fixture){.conn = {.id = 1, .peer = "test"}};
    struct h1_server_opts opts = {
        .conn = &f->conn, .begin = begin, .user = f, .wants_flush = wants_flush, .flush_user = f};
    return h1_server_create(&opts, &f->h1);
}

static void close_fixture(struct fixture *f)
{
    h1_server_destroy(f->h1);
    belfry_buf_fini(&f->out);
}

static int setup(void **state)
{
    static struct fixture f;
    *state = &f;
    return open_fixture(&f) == BELFRY_OK ? 0 : -1;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    int gone = f->n_gone, open = f->x != NULL;
    close_fixture(f);
    assert_int_equal(f->n_gone, gone + open); /* whoever was open is told, nobody else */
    assert_int_equal(refuse_held(), 0);
    return 0;
}

/* As a socket's owner does: pull and unhold until there is nothing more. */
static enum belfry_err pull_all(struct fixture *f)
{
    for (int i = 0; i < 100; i++) {
        size_t before = belfry_buf_len(&f->out);
        enum belfry_err err = h1_server_pull(f->h1, before + 65536, &f->out);
        if (err != BELFRY_OK)
            return err;
        h1_server_unhold(f->h1);
        if (!h1_server_wants_write(f->h1) && before == belfry_buf_len(&f->out))
            break;
    }
    return BELFRY_OK;
}

static enum belfry_err feed(struct fixture *f, const char *text)
{
    enum belfry_err err = h1_server_receive(f->h1, belfry_bytes_str(text));
    enum belfry_err pulled = pull_all(f);
    return err != BELFRY_OK ? err : pulled;
}

static void assert_out(struct fixture *f, const char *expected)
{
    struct belfry_bytes out = belfry_buf_bytes(&f->out);
    if (!belfry_bytes_equal(out, belfry_bytes_str(expected)))
        fail_msg("expected <%s>, got <%.*s>", expected, (int)out.len, out.len > 0 ? out.data : "");
    belfry_buf_take(&f->out, out.len);
}

#define GET(path) "GET " path " HTTP/1.1\r\nHost: a\r\n\r\n"
#define HELLO     "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello"

static void requests_get_what_they_should(void **state)
{
    (void)state;
    static const struct {
        const char *request, *response;
        bool over;
    } rows[] = {
        {"GET /answer HTTP/1.1\r\nHost: a\r\n\r\n", HELLO, false},
        {"GET /answer HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
         "HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: close\r\n\r\nhello", true},
        {"HEAD /answer HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n", false},
        {"HEAD /open HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", false},
        {"GET /answer HTTP/1.0\r\n\r\n", "HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: close\r\n\r\nhello",
         true},
        {"GET /answer HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
         "HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: keep-alive\r\n\r\nhello", false},
        {"GET /answer HTTP/1.1\r\nHost: a\r\nUpgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\n"
         "HTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA\r\n\r\n",
         HELLO, false},
        {"POST /upload HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n12345",
         "HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n5", false},
        {"POST /upload HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: "
         "chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nTrailer: t\r\n\r\n",
         "HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n5", false},
        {"POST /upload HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\nhi",
         "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n2", false},
        {"POST /deny HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi",
         "HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n", false},
        {"POST /deny HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n",
         "HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\nconnection: close\r\n\r\n", true},
        {"\r\nGET /answer HTTP/1.1\r\nHost: a\r\n\r\n", HELLO, false},
        {"GET /reset HTTP/1.1\r\nHost: a\r\n\r\n", "", true},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        for (size_t step = 1; step < 300; step += 149) { /* byte by byte, and in one or two pieces */
            struct fixture f;
            assert_int_equal(open_fixture(&f), BELFRY_OK);
            for (size_t at = 0, len = strlen(rows[i].request); at < len; at += step) {
                char piece[160] = "";
                snprintf(piece, step + 1 < sizeof(piece) ? step + 1 : sizeof(piece), "%s", rows[i].request + at);
                assert_int_equal(feed(&f, piece), BELFRY_OK);
            }
            assert_out(&f, rows[i].response);
            if (h1_server_over(f.h1) != rows[i].over)
                fail_msg("row %zu: over is %d", i, h1_server_over(f.h1));
            close_fixture(&f);
        }
    }
    assert_int_equal(refuse_held(), 0);
}

static void what_is_not_http_is_refused_and_the_connection_ends(void **state)
{
    (void)state;
    static const struct {
        const char *request;
        int status;
    } rows[] = {
        {"hello\r\n\r\n", 400},
        {"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\nConnection: keep-alive\r\n\r\n0\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: a\r\nX: 1\r\n folded\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: a\r\nX: a\rb\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: a\r\nX : 1\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: a\r\nX: \x01\r\n\r\n", 400},
        {"GET / HTTP/1.1\nHost: a\n\n", 400},
        {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
        {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n", 400},
        {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n", 400},
        {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -3\r\n\r\n", 400},
        {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n", 400},
        {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, gzip\r\n\r\n", 400},
        {"POST /upload HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n", 400},
        {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400},
        {"GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct fixture f;
        char expected[32];
        assert_int_equal(open_fixture(&f), BELFRY_OK);
        enum belfry_err err = feed(&f, rows[i].request);
        struct belfry_bytes out = belfry_buf_bytes(&f.out);
        snprintf(expected, sizeof(expected), "HTTP/1.1 %d ", rows[i].status);
        if (err != BELFRY_ERR_PROTOCOL || !belfry_bytes_begins(out, belfry_bytes_str(expected)) ||
            !h1_server_over(f.h1))
            fail_msg("row %zu: %s, <%.*s>", i, belfry_errname((int)err), (int)out.len, out.len > 0 ? out.data : "");
        assert_null(f.x);
        assert_false(h1_server_wants_read(f.h1));
        assert_int_equal(feed(&f, "GET /answer HTTP/1.1\r\nHost: a\r\n\r\n"), BELFRY_OK); /* and is not listened to */
        assert_true(f.n_begun <= 1);
        close_fixture(&f);
    }
    assert_int_equal(refuse_held(), 0);
}

static void heads_are_bounded_in_bytes_and_fields(void **state)
{
    struct fixture *f = *state;
    char piece[1024];
    assert_int_equal(feed(f, "GET /answer HTTP/1.1\r\nHost: a\r\nX: "), BELFRY_OK);
    memset(piece, 'x', sizeof(piece) - 1);
    piece[sizeof(piece) - 1] = '\0';
    enum belfry_err err = BELFRY_OK;
    size_t most = 0;
    for (int i = 0; err == BELFRY_OK && i < 100; i++) {
        err = feed(f, piece);
        most = h1_server_bytes(f->h1) > most ? h1_server_bytes(f->h1) : most;
    }
    assert_int_equal(err, BELFRY_ERR_PROTOCOL);
    assert_true(most <= H1_SERVER_HEAD_BYTES);
    assert_out(f, "HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    assert_int_equal(f->n_begun, 0);

    close_fixture(f);
    assert_int_equal(open_fixture(f), BELFRY_OK);
    assert_int_equal(feed(f, "GET /answer HTTP/1.1\r\nHost: a\r\n"), BELFRY_OK);
    for (err = BELFRY_OK; err == BELFRY_OK;)
        err = feed(f, "a: b\r\n");
    assert_memory_equal(belfry_buf_bytes(&f->out).data, "HTTP/1.1 431 ", 13);
}

static void heads_are_presented_in_one_form(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(
        feed(f, "GET /answer?q=1 HTTP/1.1\r\nHOST: etcd.test:1\r\nX-Some:  a b \t\r\nEmpty:\r\nX-some: c\r\n\r\n"),
        BELFRY_OK);
    assert_string_equal(f->line, "GET /answer?q=1 etcd.test:1");
    assert_string_equal(f->fields, "host=etcd.test:1;x-some=a b;empty=;x-some=c;");
    exchange_answer(f->x, 204, NULL, 0, (struct belfry_bytes){0});
    f->x = NULL;
    assert_int_equal(feed(f, ""), BELFRY_OK);
    assert_out(f, "HTTP/1.1 204 No Content\r\n\r\n");
    assert_int_equal(feed(f, "GET http://other.test:2/answer HTTP/1.1\r\nHost: a\r\n\r\n"), BELFRY_OK);
    assert_string_equal(f->line, "GET /answer other.test:2");
    assert_int_equal(feed(f, "GET http://other.test HTTP/1.1\r\nHost: a\r\n\r\n"), BELFRY_OK);
    assert_string_equal(f->line, "GET / other.test");
}

static void pipelined_requests_wait_their_turn(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(feed(f, "GET /open HTTP/1.1\r\nHost: a\r\n\r\nGET /answer HTTP/1.1\r\nHost: a\r\n\r\n"
                             "GET /answer HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\nGET /answer"),
                     BELFRY_OK);
    assert_int_equal(f->n_begun, 1);
    assert_false(h1_server_wants_read(f->h1));
    assert_out(f, "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n");
    struct exchange *x = f->x;
    exchange_write(x, "abc", 3);
    f->x = NULL;
    exchange_end(x, NULL, 0);
    assert_int_equal(f->n_begun, 1); /* not from inside */
    assert_int_equal(pull_all(f), BELFRY_OK);
    assert_int_equal(f->n_begun, 3);
    assert_out(f,
               "3\r\nabc\r\n0\r\n\r\n" HELLO "HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: close\r\n\r\nhello");
    assert_true(h1_server_over(f->h1));
}

static void chunks_and_trailers_are_written(void **state)
{
    struct fixture *f = *state;
    static char big[70000];
    const struct belfry_http_field trailer = {belfry_bytes_str("grpc-status"), belfry_bytes_str("0\r\nevil: 1")};
    assert_int_equal(feed(f, "GET /open HTTP/1.1\r\nHost: a\r\n\r\n"), BELFRY_OK);
    assert_out(f, "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n");
    memset(big, 'b', sizeof(big));
    exchange_write(f->x, big, sizeof(big));
    assert_int_equal(pull_all(f), BELFRY_OK);
    assert_memory_equal(belfry_buf_bytes(&f->out).data, "11170\r\nbbb", 10);
    assert_int_equal(belfry_buf_len(&f->out), 7 + sizeof(big) + 2);
    belfry_buf_clear(&f->out);
    struct exchange *x = f->x;
    f->x = NULL;
    exchange_end(x, &trailer, 1);
    assert_int_equal(pull_all(f), BELFRY_OK);
    assert_out(f, "0\r\ngrpc-status: 0  evil: 1\r\n\r\n");
    assert_int_equal(feed(f, "GET /answer HTTP/1.1\r\nHost: a\r\n\r\n"), BELFRY_OK);
    assert_out(f, HELLO);
}

static void a_promised_length_is_kept_or_the_connection_closes(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(feed(f, "GET /counted HTTP/1.1\r\nHost: a\r\n\r\n"), BELFRY_OK);
    exchange_write(f->x, "1234567", 7);
    struct exchange *x = f->x;
    f->x = NULL;
    exchange_end(x, NULL, 0);
    assert_int_equal(pull_all(f), BELFRY_OK);
    assert_out(f, "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n12345");
    assert_false(h1_server_over(f->h1));
    assert_int_equal(feed(f, "GET /counted HTTP/1.1\r\nHost: a\r\n\r\n"), BELFRY_OK);
    exchange_write(f->x, "123", 3);
    x = f->x;
    f->x = NULL;
    exchange_end(x, NULL, 0);
    assert_int_equal(pull_all(f), BELFRY_OK);
    assert_true(h1_server_over(f->h1));
}

static void room_shrinks_and_writable_comes_when_it_grows(void **state)
{
    struct fixture *f = *state;
    static char bytes[EXCHANGE_ROOM - 100];
    assert_int_equal(feed(f, "GET /open HTTP/1.1\r\nHost: a\r\n\r\n"), BELFRY_OK);
    assert_int_equal(exchange_room(f->x), EXCHANGE_ROOM);
    exchange_write(f->x, bytes, sizeof(bytes));
    assert_in_range(exchange_room(f->x), 0, 100);
    h1_server_unhold(f->h1);
    assert_int_equal(f->n_writable, 0);
    assert_int_equal(pull_all(f), BELFRY_OK);
    assert_int_equal(f->n_writable, 1);
    h1_server_hold(f->h1);
    assert_int_equal(exchange_room(f->x), 0);
    assert_int_equal(f->n_writable, 1);
    h1_server_unhold(f->h1);
    assert_int_equal(f->n_writable, 2);
    h1_server_unhold(f->h1);
    assert_int_equal(f->n_writable, 2);
}

static void a_pull_gives_what_is_enough(void **state)
{
    struct fixture *f = *state;
    static char bytes[100000];
    assert_int_equal(feed(f, "GET /open HTTP/1.1\r\nHost: a\r\n\r\n"), BELFRY_OK);
    belfry_buf_clear(&f->out);
    exchange_write(f->x, bytes, sizeof(bytes));
    assert_int_equal(h1_server_pull(f->h1, 65536, &f->out), BELFRY_OK);
    assert_int_equal(belfry_buf_len(&f->out), 65536);
    assert_true(h1_server_wants_write(f->h1));
    assert_int_equal(h1_server_pull(f->h1, 65536, &f->out), BELFRY_OK); /* has enough */
    assert_int_equal(belfry_buf_len(&f->out), 65536);
    assert_int_equal(pull_all(f), BELFRY_OK);
    assert_int_equal(belfry_buf_len(&f->out), 7 + sizeof(bytes) + 2);
}

static void a_flush_is_asked_for_once(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(feed(f, "GET /open HTTP/1.1\r\nHost: a\r\n\r\n"), BELFRY_OK);
    int before = f->n_flush;
    exchange_write(f->x, "a", 1);
    exchange_write(f->x, "b", 1);
    assert_int_equal(f->n_flush, before + 1);
    assert_int_equal(pull_all(f), BELFRY_OK);
    exchange_write(f->x, "c", 1);
    assert_int_equal(f->n_flush, before + 2);
}

static void a_body_that_is_not_taken_is_not_read(void **state)
{
    struct fixture *f = *state;
    static char piece[16 * 1024 + 1];
    assert_int_equal(feed(f, "POST /hoard HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n"), BELFRY_OK);
    memset(piece, 'p', sizeof(piece) - 1);
    size_t sent = 0;
    for (; h1_server_wants_read(f->h1); sent += sizeof(piece) - 1)
        assert_int_equal(feed(f, piece), BELFRY_OK);
    assert_int_equal(f->body_len, EXCHANGE_WINDOW);
    assert_int_equal(feed(f, piece), BELFRY_OK); /* whoever sends more all the same: it is kept, not given */
    sent += sizeof(piece) - 1;
    assert_int_equal(f->body_len, EXCHANGE_WINDOW);
    int before = f->n_flush;
    exchange_taken(f->x, 100);
    assert_int_equal(f->n_flush, before + 1);
    assert_int_equal(f->body_len, EXCHANGE_WINDOW); /* not from inside */
    assert_int_equal(pull_all(f), BELFRY_OK);
    assert_int_equal(f->body_len, EXCHANGE_WINDOW + 100);
    f->hoard = false;
    exchange_taken(f->x, EXCHANGE_WINDOW);
    assert_int_equal(pull_all(f), BELFRY_OK);
    assert_int_equal(f->body_len, sent);
    assert_true(h1_server_wants_read(f->h1));
}

static void a_body_nobody_wants_is_dropped_up_to_a_bound(void **state)
{
    struct fixture *f = *state;
    static char piece[16 * 1024 + 1];
    memset(piece, 'p', sizeof(piece) - 1);
    assert_int_equal(feed(f, "POST /deny HTTP/1.1\r\nHost: a\r\nContent-Length: 32768\r\n\r\n"), BELFRY_OK);
    assert_int_equal(feed(f, piece), BELFRY_OK);
    assert_int_equal(feed(f, piece), BELFRY_OK);
    belfry_buf_clear(&f->out);
    assert_int_equal(feed(f, "GET /answer HTTP/1.1\r\nHost: a\r\n\r\n"), BELFRY_OK);
    assert_out(f, HELLO);
    assert_int_equal(feed(f, "POST /deny HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999\r\n\r\n"), BELFRY_OK);
    int n = 0;
    for (; h1_server_wants_read(f->h1) && n < 100; n++)
        assert_int_equal(feed(f, piece), BELFRY_OK);
    assert_in_range(n, 16, 18);
    assert_true(h1_server_over(f->h1));
}

static void a_peer_that_sends_no_more_still_gets_its_answer(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(feed(f, "GET /open HTTP/1.1\r\nHost: a\r\n\r\nGET /answer HTTP/1.1\r\nHost: a\r\n\r\n"),
                     BELFRY_OK);
    h1_server_input_ended(f->h1);
    assert_int_equal(f->n_gone, 0);
    belfry_buf_clear(&f->out);
    struct exchange *x = f->x;
    f->x = NULL;
    exchange_end(x, NULL, 0);
    assert_int_equal(pull_all(f), BELFRY_OK);
    assert_out(f, "0\r\n\r\n" HELLO);
    assert_true(h1_server_over(f->h1));
}

static void a_peer_that_sends_no_more_has_left_a_response_that_lasts(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(feed(f, "GET /open HTTP/1.1\r\nHost: a\r\n\r\n"), BELFRY_OK);
    exchange_lasts(f->x);
    exchange_write(f->x, "hi", 2);
    h1_server_input_ended(f->h1);
    assert_int_equal(f->n_gone, 1);
    belfry_buf_clear(&f->out);
    assert_int_equal(pull_all(f), BELFRY_OK);
    assert_out(f, "2\r\nhi\r\n"); /* what was written before it left, and no end */
    assert_true(h1_server_over(f->h1));
}

static void a_peer_that_had_left_is_gone_when_the_response_lasts(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(feed(f, "GET /open HTTP/1.1\r\nHost: a\r\n\r\n"), BELFRY_OK);
    h1_server_input_ended(f->h1);
    assert_int_equal(f->n_gone, 0);
    exchange_lasts(f->x);
    h1_server_unhold(f->h1); /* as each flush does */
    assert_int_equal(f->n_gone, 1);
}

static void a_request_that_is_cut_short_is_gone(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(feed(f, "POST /upload HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n123"), BELFRY_OK);
    h1_server_input_ended(f->h1);
    assert_int_equal(f->n_gone, 1);
    assert_true(h1_server_over(f->h1));
    close_fixture(f);
    assert_int_equal(open_fixture(f), BELFRY_OK);
    assert_int_equal(feed(f, "GET /ans"), BELFRY_OK);
    h1_server_input_ended(f->h1);
    assert_true(h1_server_over(f->h1));
    assert_out(f, "");
}

static void shutting_lets_the_request_that_runs_end(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(feed(f, "POST /upload HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nh"), BELFRY_OK);
    h1_server_shut(f->h1);
    assert_int_equal(h1_server_open(f->h1), 1);
    assert_int_equal(feed(f, "i"), BELFRY_OK);
    assert_out(f, "HTTP/1.1 200 OK\r\ncontent-length: 1\r\nconnection: close\r\n\r\n2");
    assert_true(h1_server_over(f->h1));

    close_fixture(f);
    assert_int_equal(open_fixture(f), BELFRY_OK); /* a response that had begun cannot say so, and ends all the same */
    assert_int_equal(feed(f, "GET /open HTTP/1.1\r\nHost: a\r\n\r\n"), BELFRY_OK);
    h1_server_shut(f->h1);
    struct exchange *x = f->x;
    f->x = NULL;
    exchange_end(x, NULL, 0);
    assert_int_equal(pull_all(f), BELFRY_OK);
    assert_true(h1_server_over(f->h1));

    close_fixture(f);
    assert_int_equal(open_fixture(f), BELFRY_OK);
    assert_int_equal(feed(f, GET("/answer")), BELFRY_OK);
    h1_server_shut(f->h1); /* idle: at once */
    assert_true(h1_server_over(f->h1));

    close_fixture(f);
    assert_int_equal(open_fixture(f), BELFRY_OK);
    h1_server_shut(f->h1); /* new: its first request may be on its way */
    assert_false(h1_server_over(f->h1));
    assert_int_equal(feed(f, GET("/answer")), BELFRY_OK);
    assert_out(f, "HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: close\r\n\r\nhello");
    assert_true(h1_server_over(f->h1));
}

/* The request that runs has ended, with its body or before it came: what follows is not begun. */
static void shutting_drops_requests_that_were_pipelined(void **state)
{
    struct fixture *f = *state;
    static const char *const first[] = {GET("/open"), "POST /open HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n"};
    static const char *const rest[] = {GET("/answer"), "hi" GET("/answer")};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(feed(f, first[i]), BELFRY_OK);
        struct exchange *x = f->x;
        f->x = NULL;
        if (i == 0)
            assert_int_equal(feed(f, rest[i]), BELFRY_OK);
        h1_server_shut(f->h1);
        assert_int_equal(h1_server_open(f->h1), 1);
        exchange_end(x, NULL, 0);
        assert_int_equal(pull_all(f), BELFRY_OK);
        if (i == 1)
            assert_int_equal(feed(f, rest[i]), BELFRY_OK);
        h1_server_unhold(f->h1);
        assert_int_equal(h1_server_open(f->h1), 0);
        assert_int_equal(f->n_begun, 1);
        assert_true(h1_server_over(f->h1));
        close_fixture(f);
        assert_int_equal(open_fixture(f), BELFRY_OK);
    }
}

static void idle_connections_hold_no_buffer(void **state)
{
    struct fixture *f = *state;
    size_t held = refuse_held();
    static char bytes[100000];
    assert_int_equal(feed(f, "POST /upload HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi"), BELFRY_OK);
    assert_int_equal(feed(f, "GET /open HTTP/1.1\r\nHost: a\r\n\r\n"), BELFRY_OK);
    exchange_write(f->x, bytes, sizeof(bytes));
    assert_int_equal(pull_all(f), BELFRY_OK);
    belfry_buf_fini(&f->out);
    assert_int_equal(refuse_held(), held);
}

static enum belfry_err scenario(void)
{
    struct fixture f;
    enum belfry_err err = open_fixture(&f);
    if (err != BELFRY_OK)
        return err;
    err = feed(&f, "POST /upload HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\nhi"
                   "GET /answer HTTP/1.1\r\nHost: a\r\n\r\nGET /open HTTP/1.1\r\nHost: a\r\n\r\n");
    if (err == BELFRY_OK && f.x != NULL) {
        exchange_write(f.x, "abc", 3);
        struct exchange *x = f.x;
        f.x = NULL;
        exchange_end(x, NULL, 0);
        err = pull_all(&f);
    }
    if (err == BELFRY_OK)
        err = feed(&f, "nonsense\r\n\r\n") == BELFRY_ERR_NOMEM ? BELFRY_ERR_NOMEM : BELFRY_OK;
    close_fixture(&f);
    assert_null(f.x);
    return err;
}

static void refused_memory_ends_the_connection(void **state)
{
    (void)state;
    assert_true(refuse_sweep(scenario) >= 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_get_what_they_should),
        cmocka_unit_test(what_is_not_http_is_refused_and_the_connection_ends),
        cmocka_unit_test_setup_teardown(heads_are_bounded_in_bytes_and_fields, setup, teardown),
        cmocka_unit_test_setup_teardown(heads_are_presented_in_one_form, setup, teardown),
        cmocka_unit_test_setup_teardown(pipelined_requests_wait_their_turn, setup, teardown),
        cmocka_unit_test_setup_teardown(chunks_and_trailers_are_written, setup, teardown),
        cmocka_unit_test_setup_teardown(a_promised_length_is_kept_or_the_connection_closes, setup, teardown),
        cmocka_unit_test_setup_teardown(room_shrinks_and_writable_comes_when_it_grows, setup, teardown),
        cmocka_unit_test_setup_teardown(a_pull_gives_what_is_enough, setup, teardown),
        cmocka_unit_test_setup_teardown(a_flush_is_asked_for_once, setup, teardown),
        cmocka_unit_test_setup_teardown(a_body_that_is_not_taken_is_not_read, setup, teardown),
        cmocka_unit_test_setup_teardown(a_body_nobody_wants_is_dropped_up_to_a_bound, setup, teardown),
        cmocka_unit_test_setup_teardown(a_peer_that_sends_no_more_still_gets_its_answer, setup, teardown),
        cmocka_unit_test_setup_teardown(a_peer_that_sends_no_more_has_left_a_response_that_lasts, setup, teardown),
        cmocka_unit_test_setup_teardown(a_peer_that_had_left_is_gone_when_the_response_lasts, setup, teardown),
        cmocka_unit_test_setup_teardown(a_request_that_is_cut_short_is_gone, setup, teardown),
        cmocka_unit_test_setup_teardown(shutting_lets_the_request_that_runs_end, setup, teardown),
        cmocka_unit_test_setup_teardown(shutting_drops_requests_that_were_pipelined, setup, teardown),
        cmocka_unit_test_setup_teardown(idle_connections_hold_no_buffer, setup, teardown),
        cmocka_unit_test(refused_memory_ends_the_connection),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
