/* src/server/listener_test.c: real sockets on loopback and in a folder of the suite's own. */
#include "server/listener.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "support/refuse.h"

struct taken {
    int n;
    char peer[CLIENT_ADDRESS_TEXT];
    int fds[256];
    struct listener *close_at_first;
};

static uv_loop_t loop;
static struct taken taken;
static int n_lines;

static void on_connection(int fd, struct client_address peer, void *user)
{
    struct taken *t = user;
    assert_true(t->n < 256);
    assert_true((fcntl(fd, F_GETFL) & O_NONBLOCK) != 0);
    assert_true((fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
    t->fds[t->n++] = fd;
    client_address_text(&peer, t->peer);
    listener_close(t->close_at_first);
    t->close_at_first = NULL;
}

static void count_line(enum belfry_log_level level, const char *event, const char *text, void *user)
{
    (void)level, (void)text, (void)user;
    n_lines += strcmp(event, "accept_refused") == 0;
}

static const struct belfry_log test_log = {count_line, NULL, BELFRY_LOG_DEBUG};

static int setup(void **state)
{
    (void)state;
    memset(&taken, 0, sizeof(taken));
    n_lines = 0;
    return uv_loop_init(&loop);
}

static void drop_taken(void)
{
    for (int i = 0; i < taken.n; i++)
        close(taken.fds[i]);
    taken.n = 0;
}

static int teardown(void **state)
{
    (void)state;
    drop_taken();
    uv_run(&loop, UV_RUN_DEFAULT);
    return uv_loop_close(&loop);
}

static struct belfry_endpoint endpoint(const char *url)
{
    struct belfry_endpoint made = {0};
    char why[256];
    if (strncmp(url, "unix://", 7) == 0) {
        made.is_unix = true;
        snprintf(made.host, sizeof(made.host), "%s", url + 7);
        snprintf(made.url, sizeof(made.url), "%s", url);
    } else if (belfry_endpoint_parse(url, strlen(url), &made, why, sizeof(why)) != BELFRY_OK) {
        fail_msg("%s", why);
    }
    return made;
}

static struct belfry_endpoint any_port(const char *host)
{
    struct belfry_endpoint made = {0};
    snprintf(made.host, sizeof(made.host), "%s", host);
    snprintf(made.url, sizeof(made.url), "http://%s:0", host);
    return made;
}

static struct listener *open_listener(const struct belfry_endpoint *at)
{
    struct listener *l = NULL;
    char why[256] = "";
    if (listener_open(&loop, at, 200, &test_log, on_connection, &taken, &l, why, sizeof(why)) != BELFRY_OK)
        fail_msg("%s", why);
    return l;
}

static int dial(uint16_t port)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
    return fd;
}

static void run_until_taken(int n)
{
    uint64_t end = belfry_clock_ms() + 5000;
    while (taken.n < n && belfry_clock_ms() < end)
        uv_run(&loop, UV_RUN_ONCE);
    assert_int_equal(taken.n, n);
}

static void connections_are_handed_out_with_their_peers_name(void **state)
{
    (void)state;
    struct belfry_endpoint at = any_port("127.0.0.1");
    struct listener *l = open_listener(&at);
    struct listener_stats stats;
    struct sockaddr_in self;
    socklen_t len = sizeof(self);
    char expected[64];
    int fd = dial(listener_port(l));
    run_until_taken(1);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&self, &len), 0);
    snprintf(expected, sizeof(expected), "127.0.0.1:%u", (unsigned)ntohs(self.sin_port));
    assert_string_equal(taken.peer, expected);
    listener_stats(l, &stats);
    assert_int_equal(stats.accepted, 1);
    close(fd);
    listener_close(l);
}

static void any_address_of_v6_takes_v4_too(void **state)
{
    (void)state;
    struct belfry_endpoint at = any_port("::");
    int probe = socket(AF_INET6, SOCK_STREAM, 0);
    if (probe < 0)
        skip(); /* a kernel without IPv6 */
    close(probe);
    struct listener *l = open_listener(&at);
    int fd = dial(listener_port(l));
    run_until_taken(1);
    assert_memory_equal(taken.peer, "127.0.0.1:", 10);
    close(fd);
    listener_close(l);
}

static void a_crowd_is_taken_in_several_turns(void **state)
{
    (void)state;
    struct belfry_endpoint at = any_port("localhost");
    struct listener *l = open_listener(&at);
    int fds[100];
    for (int i = 0; i < 100; i++)
        fds[i] = dial(listener_port(l));
    uv_run(&loop, UV_RUN_NOWAIT);
    assert_int_equal(taken.n, 64);
    run_until_taken(100);
    for (int i = 0; i < 100; i++)
        close(fds[i]);
    listener_close(l);
}

static void a_listener_may_be_closed_from_its_callback(void **state)
{
    (void)state;
    struct belfry_endpoint at = any_port("127.0.0.1");
    struct listener *l = open_listener(&at);
    int first = dial(listener_port(l)), second = dial(listener_port(l));
    taken.close_at_first = l;
    run_until_taken(1);
    uv_run(&loop, UV_RUN_DEFAULT); /* ends: nothing is left open */
    assert_int_equal(taken.n, 1);
    close(first);
    close(second);
}

static void what_cannot_be_listened_on_is_explained(void **state)
{
    (void)state;
    struct belfry_endpoint first = any_port("127.0.0.1");
    struct listener *l = open_listener(&first);
    struct belfry_endpoint rows[] = {any_port("127.0.0.1"), any_port("etcd.test"), any_port("192.0.2.7"),
                                     endpoint("unix:///nowhere/at/all.sock")};
    static const enum belfry_err errs[] = {BELFRY_ERR_IO, BELFRY_ERR_INVALID, BELFRY_ERR_IO, BELFRY_ERR_IO};
    static const char *const parts[] = {"another process listens there", "not a name", "no such address",
                                        "No such file"};
    rows[0].port = listener_port(l);
    for (size_t i = 0; i < 4; i++) {
        struct listener *other = NULL;
        char why[400] = "";
        assert_int_equal(listener_open(&loop, &rows[i], 10, NULL, on_connection, &taken, &other, why, sizeof(why)),
                         errs[i]);
        assert_null(other);
        if (strstr(why, parts[i]) == NULL || strstr(why, rows[i].url) == NULL)
            fail_msg("row %zu: %s", i, why);
    }
    listener_close(l);
}

static const char *refusal(const struct belfry_endpoint *at)
{
    static char why[400];
    struct listener *l = NULL;
    assert_int_equal(listener_open(&loop, at, 10, NULL, on_connection, &taken, &l, why, sizeof(why)), BELFRY_ERR_IO);
    return why;
}

static void port_of_an_outgoing_connection_is_not_said_to_be_listened_on(void **state)
{
    (void)state;
    struct belfry_endpoint at = any_port("127.0.0.1");
    struct listener *l = open_listener(&at);
    struct sockaddr_in mine = {0};
    socklen_t len = sizeof(mine);
    int out = dial(listener_port(l));
    run_until_taken(1);
    assert_int_equal(getsockname(out, (struct sockaddr *)&mine, &len), 0);
    at.port = ntohs(mine.sin_port);
    const char *why = refusal(&at);
    close(out);
    listener_close(l);
    if (strstr(why, "another process") != NULL || strstr(why, "outgoing connections; choose a port outside") == NULL)
        fail_msg("%s", why);
}

static void port_that_is_bound_and_not_listened_on_is_said_to_be_bound(void **state)
{
    (void)state;
    struct sockaddr_in mine = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(mine);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&mine, len), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&mine, &len), 0);
    struct belfry_endpoint at = any_port("127.0.0.1");
    at.port = ntohs(mine.sin_port);
    assert_non_null(strstr(refusal(&at), ": another process has bound this port"));
    close(fd);
}

static void trial_of_an_address_takes_and_leaves_nothing(void **state)
{
    (void)state;
    char folder[] = "/tmp/belfry-listener-XXXXXX", url[128], why[400];
    assert_non_null(mkdtemp(folder));
    snprintf(url, sizeof(url), "unix://%s/socket", folder);
    struct belfry_endpoint port = any_port("127.0.0.1"), unix_at = endpoint(url), elsewhere = any_port("192.0.2.7"),
                           nowhere = endpoint("unix:///nowhere/at/all.sock");
    assert_int_equal(listener_try(&unix_at, why, sizeof(why)), BELFRY_OK);
    assert_int_equal(listener_try(&port, why, sizeof(why)), BELFRY_OK);
    assert_int_equal(listener_try(&elsewhere, why, sizeof(why)), BELFRY_ERR_IO);
    assert_non_null(strstr(why, "no such address"));
    assert_int_equal(listener_try(&nowhere, why, sizeof(why)), BELFRY_ERR_IO);
    assert_non_null(strstr(why, "No such file"));

    struct listener *on_unix = open_listener(&unix_at), *on_port = open_listener(&port);
    port.port = listener_port(on_port);
    enum belfry_err errs[] = {listener_try(&unix_at, why, sizeof(why)), listener_try(&port, why, sizeof(why))};
    int fd = dial(port.port); /* it listens as before */
    run_until_taken(1);
    close(fd);
    listener_close(on_unix);
    listener_close(on_port);
    assert_int_equal(rmdir(folder), 0); /* nothing is left in it */
    assert_int_equal(errs[0], BELFRY_OK);
    assert_int_equal(errs[1], BELFRY_ERR_LIMIT);
    assert_non_null(strstr(why, "another process listens there"));
}

static int dial_unix(const char *path)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    assert_true(strlen(path) < sizeof(to.sun_path));
    memcpy(to.sun_path, path, strlen(path));
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0)
        return fd;
    close(fd);
    return -1;
}

static void leave_a_dead_socket(const char *path)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    assert_true(strlen(path) < sizeof(at.sun_path));
    memcpy(at.sun_path, path, strlen(path));
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
    close(fd);
}

static void a_unix_path_is_taken_over_from_the_dead_only(void **state)
{
    (void)state;
    char folder[] = "/tmp/belfry-listener-XXXXXX", url[128], why[400];
    assert_non_null(mkdtemp(folder));
    snprintf(url, sizeof(url), "unix://%s/a.sock", folder);
    struct belfry_endpoint at = endpoint(url);
    struct listener *second = NULL;
    struct stat st;
    leave_a_dead_socket(at.host);

    struct listener *l = open_listener(&at);
    assert_int_equal(stat(at.host, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0660);
    int fd = dial_unix(at.host);
    assert_true(fd >= 0);
    run_until_taken(1);
    assert_string_equal(taken.peer, "unix");
    assert_int_equal(listener_port(l), 0);
    assert_int_equal(listener_open(&loop, &at, 10, NULL, on_connection, &taken, &second, why, sizeof(why)),
                     BELFRY_ERR_IO);
    assert_int_equal(stat(at.host, &st), 0); /* the living keep theirs */
    close(fd);
    listener_close(l);
    assert_int_equal(stat(at.host, &st), -1);
    assert_int_equal(rmdir(folder), 0);
}

static void a_file_at_the_path_is_left_alone(void **state)
{
    (void)state;
    char path[] = "/tmp/belfry-listener-XXXXXX", url[128];
    struct stat st;
    close(mkstemp(path));
    snprintf(url, sizeof(url), "unix://%s", path);
    struct belfry_endpoint at = endpoint(url);
    assert_non_null(strstr(refusal(&at), "there is a file that is not a socket"));
    assert_int_equal(stat(path, &st), 0);
    assert_true(S_ISREG(st.st_mode));
    unlink(path);
}

/* Under a limit of descriptors that is used up, a peer is told (its connection closes), and accepting goes on later. */
static void without_descriptors_peers_are_told_and_accepting_goes_on(void **state)
{
    (void)state;
    struct belfry_endpoint at = any_port("127.0.0.1");
    struct listener *l = open_listener(&at);
    struct listener_stats stats = {0};
    struct rlimit old, few;
    int first = dial(listener_port(l)), second = dial(listener_port(l));
    assert_int_equal(send(second, "GET / HTTP/1.1\r\n\r\n", 18, 0), 18);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    int lowest = dup(0); /* everything below is in use, so this leaves none */
    close(lowest);
    few = (struct rlimit){(rlim_t)lowest, old.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);

    uint64_t end = belfry_clock_ms() + 5000;
    while (stats.refused < 2 && belfry_clock_ms() < end) {
        uv_run(&loop, UV_RUN_ONCE);
        listener_stats(l, &stats);
    }
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
    assert_int_equal(stats.refused, 2);
    assert_int_equal(stats.accepted, 0);
    assert_int_equal(n_lines, 1);
    char answer[1024] = "";
    assert_int_equal(recv(first, answer, 1, 0), 0);
    assert_true(recv(second, answer, sizeof(answer) - 1, 0) > 13);
    assert_memory_equal(answer, "HTTP/1.1 503 ", 13);
    assert_int_equal(recv(second, answer, 1, 0), 0); /* an end, and no reset */

    int third = dial(listener_port(l));
    run_until_taken(1);
    close(first);
    close(second);
    close(third);
    listener_close(l);
}

static void address_of_a_socket_says_whether_others_can_reach_it(void **state)
{
    (void)state;
    static const struct {
        int family;
        const char *host, *shown;
        bool local;
    } rows[] = {{AF_INET, "0.0.0.0", "0.0.0.0:", false},
                {AF_INET, "127.3.2.1", "127.3.2.1:", true},
                {AF_INET6, "::", "[::]:", false},
                {AF_INET6, "::1", "[::1]:", true}};
    char address[LISTENER_ADDRESS];
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct sockaddr_in v4 = {.sin_family = AF_INET};
        struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
        bool is_v4 = rows[i].family == AF_INET;
        inet_pton(rows[i].family, rows[i].host, is_v4 ? (void *)&v4.sin_addr : (void *)&v6.sin6_addr);
        int fd = socket(rows[i].family, SOCK_STREAM, 0);
        if (fd < 0)
            continue; /* no IPv6 here */
        int bound = is_v4 ? bind(fd, (struct sockaddr *)&v4, sizeof(v4)) : bind(fd, (struct sockaddr *)&v6, sizeof(v6));
        if (bound == 0) {
            assert_int_equal(listener_fd_address(fd, address), rows[i].local);
            assert_int_equal(strncmp(address, rows[i].shown, strlen(rows[i].shown)), 0);
        }
        assert_true(bound == 0 || !is_v4);
        close(fd);
    }
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_true(listener_fd_address(fd, address));
    assert_string_equal(address, "unix");
    close(fd);
    assert_false(listener_fd_address(fd, address));
}

static void a_socket_that_listens_already_is_adopted(void **state)
{
    (void)state;
    struct sockaddr_in at = {.sin_family = AF_INET};
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    struct listener *l = NULL;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
    assert_int_equal(listen(fd, 10), 0);
    char address[LISTENER_ADDRESS], expected[LISTENER_ADDRESS];
    assert_int_equal(listener_adopt(&loop, fd, NULL, on_connection, &taken, &l), BELFRY_OK);
    assert_true(listener_fd_address(fd, address));
    snprintf(expected, sizeof(expected), "127.0.0.1:%u", (unsigned)listener_port(l));
    assert_string_equal(address, expected);
    int client = dial(listener_port(l));
    run_until_taken(1);
    close(client);
    listener_close(l);
}

static enum belfry_err scenario(void)
{
    struct belfry_endpoint at = any_port("127.0.0.1");
    struct listener *l = NULL;
    char why[256];
    enum belfry_err err = listener_open(&loop, &at, 10, NULL, on_connection, &taken, &l, why, sizeof(why));
    if (err == BELFRY_OK) {
        int fd = dial(listener_port(l));
        run_until_taken(1);
        close(fd);
        drop_taken();
        listener_close(l);
    }
    uv_run(&loop, UV_RUN_DEFAULT);
    return err;
}

static void refused_memory_is_reported(void **state)
{
    (void)state;
    assert_true(refuse_sweep(scenario) >= 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(connections_are_handed_out_with_their_peers_name, setup, teardown),
        cmocka_unit_test_setup_teardown(any_address_of_v6_takes_v4_too, setup, teardown),
        cmocka_unit_test_setup_teardown(a_crowd_is_taken_in_several_turns, setup, teardown),
        cmocka_unit_test_setup_teardown(a_listener_may_be_closed_from_its_callback, setup, teardown),
        cmocka_unit_test_setup_teardown(what_cannot_be_listened_on_is_explained, setup, teardown),
        cmocka_unit_test_setup_teardown(port_of_an_outgoing_connection_is_not_said_to_be_listened_on, setup, teardown),
        cmocka_unit_test_setup_teardown(port_that_is_bound_and_not_listened_on_is_said_to_be_bound, setup, teardown),
        cmocka_unit_test_setup_teardown(trial_of_an_address_takes_and_leaves_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(a_unix_path_is_taken_over_from_the_dead_only, setup, teardown),
        cmocka_unit_test_setup_teardown(a_file_at_the_path_is_left_alone, setup, teardown),
        cmocka_unit_test_setup_teardown(without_descriptors_peers_are_told_and_accepting_goes_on, setup, teardown),
        cmocka_unit_test(address_of_a_socket_says_whether_others_can_reach_it),
        cmocka_unit_test_setup_teardown(a_socket_that_listens_already_is_adopted, setup, teardown),
        cmocka_unit_test_setup_teardown(refused_memory_is_reported, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
