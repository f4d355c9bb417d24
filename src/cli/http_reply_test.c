/* src/cli/http_reply_test.c */
#include "cli/http_reply.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Feeds the text byte by byte, from memory that ends where the bytes do; DONE must come at the last byte, or at the end of
 * the connection. */
static void assert_reads(const char *text, bool needs_end, int status, const char *body)
{
    size_t len = strlen(text);
    for (size_t n = 0; n <= len; n++) {
        struct http_reply reply = {.status = -1};
        char *data = malloc(n + 1);
        assert_non_null(data);
        memcpy(data, text, n);
        enum http_reply_state state = http_reply_read(data, n, false, &reply);
        assert_int_equal(state, n == len && !needs_end ? HTTP_REPLY_DONE : HTTP_REPLY_MORE);
        if (n == len && needs_end)
            assert_int_equal(http_reply_read(data, n, true, &reply), HTTP_REPLY_DONE);
        if (n == len) {
            assert_int_equal(reply.status, status);
            assert_int_equal(reply.len, strlen(body));
            assert_memory_equal(data + reply.body, body, reply.len);
        } else if (!needs_end) {
            assert_int_equal(http_reply_read(data, n, true, &reply), HTTP_REPLY_BAD);
            assert_int_equal(reply.status, -1);
        }
        free(data);
    }
}

static void bodies_end_by_length_by_chunk_or_with_the_connection(void **state)
{
    (void)state;
    assert_reads("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", false, 200, "hello");
    assert_reads("HTTP/1.1 503 Service Unavailable\nCONTENT-LENGTH:\t2 \n\nno", false, 503, "no");
    assert_reads("HTTP/1.1 204\r\ncontent-length: 0\r\n\r\n", false, 204, "");
    assert_reads("HTTP/1.0 200 OK\r\nX: y\r\n\r\nall of it", true, 200, "all of it");
    assert_reads("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nx", false, 200, "x");
}

static void chunks_are_moved_together(void **state)
{
    (void)state;
    char text[] = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                  "5\r\nhello\r\n1;ext=1\r\n \r\n00b\r\nto everyone\r\n0\r\nTrailer: x\r\n\r\n";
    struct http_reply reply;
    assert_int_equal(http_reply_read(text, strlen(text), false, &reply), HTTP_REPLY_DONE);
    assert_int_equal(reply.len, 17);
    assert_memory_equal(text + reply.body, "hello to everyone", 17);
    char cut[] = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel";
    assert_int_equal(http_reply_read(cut, strlen(cut), false, &reply), HTTP_REPLY_MORE);
    assert_int_equal(http_reply_read(cut, strlen(cut), true, &reply), HTTP_REPLY_BAD);
}

static void what_is_no_http_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "SSH-2.0-OpenSSH_9.2\r\n",
        "HTTP/2 200\r\n\r\n",
        "HTTP/1.1 2x0 OK\r\n\r\n",
        "HTTP/1.1 20\r\n\r\n",
        "HTTP/1.1 2000\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 5x\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\ncontent-length: 99999999999999999999999\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\n\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\nabc\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nffffffffffffffffffff\r\n",
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct http_reply reply;
        char *data = strdup(bad[i]);
        assert_int_equal(http_reply_read(data, strlen(data), false, &reply), HTTP_REPLY_BAD);
        free(data);
    }
}

static void head_without_an_end_is_bounded(void **state)
{
    (void)state;
    struct http_reply reply;
    size_t len = HTTP_REPLY_HEAD_MAX + 100;
    char *data = malloc(len);
    assert_non_null(data);
    memset(data, 'a', len);
    assert_int_equal(http_reply_read(data, len, false, &reply), HTTP_REPLY_BAD);
    memcpy(data, "HTTP/1.1 200 OK\r\n", 17);
    assert_int_equal(http_reply_read(data, len, false, &reply), HTTP_REPLY_BAD);
    assert_int_equal(http_reply_read(data, 1000, false, &reply), HTTP_REPLY_MORE);
    free(data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bodies_end_by_length_by_chunk_or_with_the_connection),
        cmocka_unit_test(chunks_are_moved_together),
        cmocka_unit_test(what_is_no_http_is_refused),
        cmocka_unit_test(head_without_an_end_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
