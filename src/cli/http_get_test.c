/* src/cli/http_get_test.c: against a process of our own that answers every connection with the same text. What
 * servers do otherwise is in tests/integration/test_top.py. */
#include "cli/http_get.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/refuse.h"

#define BODY_BYTES 600000 /* more than the first buffer */

static char folder[] = "/tmp/belfry-http-get-XXXXXX";
static char address[128], path[64];
static pid_t server;

/* What is answered to requests for other pages than the large one. */
static const struct {
    const char *path, *answer;
} answers[] = {
    {"/whole", "HTTP/1.1 503 Service Unavailable\r\nCONTENT-LENGTH:\t2 \r\n\r\nno"},
    {"/empty", "HTTP/1.1 204\r\n\r\n"},
    {"/closed", "HTTP/1.0 200 OK\r\nX: y\r\n\r\nall of it"},
    {"/interim", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nx"},
    {"/chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                "5\r\nhello\r\n1;ext=1\r\n \r\n00b\r\nto everyone\r\n0\r\nTrailer: x\r\n\r\n"},
    {"/junk", "SSH-2.0-OpenSSH_9.2\r\n"},
    {"/newer", "HTTP/2 200\r\n\r\n"},
    {"/status", "HTTP/1.1 2x0 OK\r\n\r\n"},
    {"/length", "HTTP/1.1 200 OK\r\ncontent-length: 5x\r\n\r\nhello"},
    {"/lengths", "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab"},
    {"/long", "HTTP/1.1 200 OK\r\ncontent-length: 99999999999999999999999\r\n\r\n"},
    {"/chunk", "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n"},
    {"/cut", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhel"},
    {"/cut-chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel"},
    {"/cut-head", "HTTP/1.1 200 OK\r\nContent-"},
    {"/nothing", ""},
};

/* The answer to "GET PATH "; NULL: the large one. */
static const char *answer_to(const char *request)
{
    for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
        size_t len = strlen(answers[i].path);
        if (strncmp(request + 4, answers[i].path, len) == 0 && request[4 + len] == ' ')
            return answers[i].answer;
    }
    return NULL;
}

/* Reads a request's head and answers. */
static void serve_one(int fd)
{
    static char body[BODY_BYTES];
    char request[4096] = "", head[128];
    size_t len = 0;
    while (strstr(request, "\r\n\r\n") == NULL) {
        ssize_t n = read(fd, request + len, sizeof(request) - 1 - len);
        if (n <= 0)
            return;
        len += (size_t)n;
        request[len] = '\0';
    }
    const char *answer = answer_to(request);
    if (answer != NULL && send(fd, answer, strlen(answer), MSG_NOSIGNAL) >= 0)
        return;
    memset(body, 'x', sizeof(body));
    size_t n = (size_t)snprintf(head, sizeof(head), "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", BODY_BYTES);
    if (send(fd, head, n, MSG_NOSIGNAL) < 0)
        return;
    for (size_t sent = 0; sent < sizeof(body);) {
        ssize_t more = send(fd, body + sent, sizeof(body) - sent, MSG_NOSIGNAL);
        if (more <= 0)
            return;
        sent += (size_t)more;
    }
}

static void serve(int listening)
{
    for (;;) {
        int fd = accept(listening, NULL, NULL);
        if (fd < 0)
            _exit(1);
        serve_one(fd);
        close(fd);
    }
}

static int start(void **state)
{
    (void)state;
    if (mkdtemp(folder) == NULL)
        return 1;
    snprintf(path, sizeof(path), "%s/s", folder);
    snprintf(address, sizeof(address), "unix://%s", path);
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    memcpy(at.sun_path, path, strlen(path) + 1);
    int listening = socket(AF_UNIX, SOCK_STREAM, 0);
    if (listening < 0 || bind(listening, (const struct sockaddr *)&at, sizeof(at)) != 0 || listen(listening, 16) != 0)
        return 1;
    server = fork();
    if (server == 0)
        serve(listening);
    close(listening);
    return server < 0;
}

static int stop(void **state)
{
    (void)state;
    kill(server, SIGKILL);
    waitpid(server, NULL, 0);
    unlink(path);
    rmdir(folder);
    return 0;
}

static void page_is_fetched_whole(void **state)
{
    (void)state;
    struct http_page page = {0};
    char why[HTTP_GET_WHY];
    assert_int_equal(http_get(address, "/debug/numbers", 10000, &page, why), BELFRY_OK);
    assert_int_equal(page.status, 200);
    assert_int_equal(page.len, BODY_BYTES);
    assert_int_equal(strspn(page.body, "x"), BODY_BYTES);
    http_page_fini(&page);
    assert_null(page.body);
}

static void bodies_end_by_length_by_chunk_or_with_the_connection(void **state)
{
    (void)state;
    static const struct {
        const char *path;
        int status;
        const char *body;
    } cases[] = {{"/whole", 503, "no"},
                 {"/empty", 204, ""},
                 {"/closed", 200, "all of it"},
                 {"/interim", 200, "x"},
                 {"/chunks", 200, "hello to everyone"}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct http_page page = {0};
        char why[HTTP_GET_WHY];
        if (http_get(address, cases[i].path, 10000, &page, why) != BELFRY_OK)
            fail_msg("%s: %s", cases[i].path, why);
        assert_int_equal(page.status, cases[i].status);
        assert_int_equal(page.len, strlen(cases[i].body));
        assert_string_equal(page.body, cases[i].body);
        http_page_fini(&page);
    }
}

static void what_is_no_http_or_no_whole_answer_is_refused(void **state)
{
    (void)state;
    static const char *const none[] = {"/junk", "/newer", "/status", "/length", "/lengths", "/long", "/chunk"};
    static const char *const part[] = {"/cut", "/cut-chunk", "/cut-head", "/nothing"};
    struct http_page page = {0};
    char why[HTTP_GET_WHY];
    for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
        assert_int_equal(http_get(address, none[i], 10000, &page, why), BELFRY_ERR_PROTOCOL);
        assert_non_null(strstr(why, "does not speak HTTP"));
    }
    for (size_t i = 0; i < sizeof(part) / sizeof(part[0]); i++) {
        enum belfry_err err = http_get(address, part[i], 10000, &page, why);
        if (err != BELFRY_ERR_UNAVAILABLE && err != BELFRY_ERR_PROTOCOL)
            fail_msg("%s: %s: %s", part[i], belfry_errname(err), why);
        assert_int_equal(strncmp(why, address, strlen(address)), 0);
    }
    assert_int_equal(http_get("unix:///nowhere/socket", "/", 10000, &page, why), BELFRY_ERR_UNAVAILABLE);
    assert_null(page.body);
}

static void wrong_addresses_and_paths_are_refused_before_anything_is_sent(void **state)
{
    (void)state;
    static const char *const bad[] = {"",         "host",        "host:",           ":1",      "http://host",
                                      "host:1x",  "host:123456", "[::1]",           "[::1]1",  "::1:5",
                                      "unix://x", "https://a:1", "http://a:1/path", "unix://", "http://a:1:2"};
    struct http_page page = {0};
    char why[HTTP_GET_WHY];
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        why[0] = '\0';
        if (http_get(bad[i], "/", 1000, &page, why) != BELFRY_ERR_INVALID)
            fail_msg("%s: %s", bad[i], why);
        assert_true(strlen(why) > 10 && strncmp(why, bad[i], strlen(bad[i])) == 0);
    }
    static const char *const paths[] = {"x", "", "/a b", "/a\r\nX: y"};
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
        assert_int_equal(http_get(address, paths[i], 1000, &page, why), BELFRY_ERR_INVALID);
    char longest[3000];
    memset(longest, 'a', sizeof(longest));
    longest[0] = '/';
    longest[sizeof(longest) - 1] = '\0';
    assert_int_equal(http_get(address, longest, 1000, &page, why), BELFRY_ERR_INVALID);
    assert_null(page.body);
}

static enum belfry_err scenario(void)
{
    struct http_page page = {0};
    char why[HTTP_GET_WHY];
    enum belfry_err err = http_get(address, "/", 10000, &page, why);
    http_page_fini(&page);
    return err;
}

static void every_refused_allocation_is_told(void **state)
{
    (void)state;
    assert_true(refuse_sweep(scenario) >= 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(page_is_fetched_whole),
        cmocka_unit_test(bodies_end_by_length_by_chunk_or_with_the_connection),
        cmocka_unit_test(what_is_no_http_or_no_whole_answer_is_refused),
        cmocka_unit_test(wrong_addresses_and_paths_are_refused_before_anything_is_sent),
        cmocka_unit_test(every_refused_allocation_is_told),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
