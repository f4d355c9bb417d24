/* src/cli/http_get_test.c: against a process of our own that answers every connection with the same text. What servers do
 * otherwise is in tests/integration/test_top.py. */
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

/* Reads a request's head, answers, and waits for the other side to close. */
static void serve_one(int fd)
{
    static char body[BODY_BYTES];
    char request[2048] = "", head[128];
    size_t len = 0;
    while (strstr(request, "\r\n\r\n") == NULL) {
        ssize_t n = read(fd, request + len, sizeof(request) - 1 - len);
        if (n <= 0)
            return;
        len += (size_t)n;
        request[len] = '\0';
    }
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
        assert_int_equal(http_get(bad[i], "/", 1000, &page, why), BELFRY_ERR_INVALID);
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
        cmocka_unit_test(wrong_addresses_and_paths_are_refused_before_anything_is_sent),
        cmocka_unit_test(every_refused_allocation_is_told),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
