/* bench/belfry-bench/swarm_kube_test.c: watchers of objects against a server that a child process plays: it answers one
 * connection after the other with what the test wrote down. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "poller.h"
#include "stopwatch.h"
#include "swarm.h"

#define HEAD      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
#define LIST      "HTTP/1.1 200 OK\r\nContent-Length: 35\r\n\r\n{\"metadata\":{\"resourceVersion\":\"7\"}}"
#define LINE(rev) "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"resourceVersion\":\"" rev "\"}}}\n"

enum then { STAY, LEAVE };

struct turn {
    const char *asked; /* is in the request */
    const char *head;
    const char *body; /* as chunks of `cut` bytes; NULL: none */
    size_t cut;
    enum then then; /* STAY: the body does not end */
};

static struct sockaddr_in addr;
static int go[2]; /* a pipe: no body comes before the watchers are there, each takes a byte */

static int listen_here(void)
{
    addr = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(addr);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
    assert_int_equal(listen(fd, 16), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&addr, &len), 0);
    return fd;
}

static void say(int fd, const char *text, size_t len)
{
    if (send(fd, text, len, MSG_NOSIGNAL) != (ssize_t)len)
        _exit(3);
}

static void say_chunks(int fd, const struct turn *turn)
{
    char head[16];
    if (read(go[0], head, 1) != 1)
        _exit(4);
    for (size_t at = 0, len = strlen(turn->body); at < len; at += turn->cut) {
        size_t n = len - at < turn->cut ? len - at : turn->cut;
        say(fd, head, (size_t)snprintf(head, sizeof(head), "%zx\r\n", n));
        say(fd, turn->body + at, n);
        say(fd, "\r\n", 2);
    }
    if (turn->then == LEAVE)
        say(fd, "0\r\n\r\n", 5);
}

/* Exits 0 when every turn was asked for. */
static _Noreturn void play(int listener, const struct turn *turns, size_t n)
{
    alarm(30);
    for (size_t i = 0; i < n; i++) {
        char request[2048];
        int fd = accept(listener, NULL, NULL);
        ssize_t got = recv(fd, request, sizeof(request) - 1, 0);
        request[got > 0 ? got : 0] = '\0';
        if (strstr(request, turns[i].asked) == NULL)
            _exit(2);
        say(fd, turns[i].head, strlen(turns[i].head));
        if (turns[i].body != NULL)
            say_chunks(fd, &turns[i]);
    }
    _exit(0);
}

struct rig {
    int poll;
    pid_t child;
    struct swarm swarm;
};

static struct rig rig;

static void open_rig(const struct turn *turns, size_t n, const char *selector_field)
{
    int listener = listen_here();
    assert_int_equal(pipe(go), 0);
    rig.child = fork();
    if (rig.child == 0)
        play(listener, turns, n);
    close(listener);
    rig.poll = poller_create();
    struct swarm_opts opts = {.load = {.keys = selector_field != NULL ? LOAD_DISTINCT : LOAD_SHARED,
                                       .form = LOAD_OBJECTS,
                                       .prefix = "/registry/pods/"},
                              .n_conns = 1,
                              .n_streams = 1,
                              .n_watches = 1,
                              .selector_field = selector_field};
    memcpy(&opts.target.addr, &addr, sizeof(addr));
    opts.target.addr_len = sizeof(addr);
    swarm_open(&rig.swarm, rig.poll, &opts, stopwatch_ns() + (uint64_t)20 * NS_PER_S);
    assert_int_equal(write(go[1], "gogo", 4), 4);
}

static void await_events(uint64_t n)
{
    uint64_t until = stopwatch_ns() + (uint64_t)20 * NS_PER_S;
    while (rig.swarm.tally.events < n && rig.swarm.fault[0] == '\0' && stopwatch_ns() < until)
        poller_turn(rig.poll, 10);
    assert_int_equal(rig.swarm.tally.events, n);
}

static void await_fault(void)
{
    uint64_t until = stopwatch_ns() + (uint64_t)20 * NS_PER_S;
    while (rig.swarm.fault[0] == '\0' && stopwatch_ns() < until)
        poller_turn(rig.poll, 10);
}

static void close_rig(void)
{
    int status;
    assert_int_equal(waitpid(rig.child, &status, 0), rig.child);
    assert_int_equal(status, 0);
    swarm_close(&rig.swarm);
    close(go[0]);
    close(go[1]);
    close(rig.poll);
}

static void events_are_counted_however_lines_and_chunks_fall(void **state)
{
    (void)state;
    static const size_t cuts[] = {1, 7, 64, 70, 1000};
    for (size_t i = 0; i < sizeof(cuts) / sizeof(cuts[0]); i++) {
        const struct turn turns[] = {
            {"/v1/pods?limit=1 ", LIST, NULL, 0, STAY},
            {"watch=1&resourceVersion=7&", HEAD, LINE("8") LINE("9") LINE("12"), cuts[i], STAY}};
        open_rig(turns, 2, NULL);
        await_events(3);
        assert_int_equal(rig.swarm.tally.doubled, 0);
        assert_int_equal(rig.swarm.tally.rows[0].last_rev, 12);
        close_rig();
    }
}

static void a_selector_is_asked_for(void **state)
{
    (void)state;
    const struct turn turns[] = {{"limit=1", LIST, NULL, 0, STAY},
                                 {"&fieldSelector=spec.nodeName%3Dnode-0 ", HEAD, LINE("8"), 100, STAY}};
    open_rig(turns, 2, "spec.nodeName");
    await_events(1);
    close_rig();
}

static void a_watch_that_the_server_ends_goes_on_where_it_was(void **state)
{
    (void)state;
    const struct turn turns[] = {{"limit=1", LIST, NULL, 0, STAY},
                                 {"resourceVersion=7&", HEAD, LINE("8") "{\"type\":", 100, LEAVE},
                                 {"resourceVersion=8&", HEAD, LINE("9"), 100, STAY}};
    open_rig(turns, 3, NULL);
    await_events(2);
    assert_int_equal(rig.swarm.resumed, 1);
    assert_int_equal(rig.swarm.n_created, 1);
    close_rig();
}

static void what_no_put_makes_is_a_fault(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "{\"type\":\"ERROR\",\"object\":{\"code\":410}}\n",
        "{\"type\":\"DELETED\",\"object\":{\"metadata\":{\"resourceVersion\":\"8\"}}}\n",
        "hello\n",
    };
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        const struct turn turns[] = {{"limit=1", LIST, NULL, 0, STAY}, {"watch=1", HEAD, lines[i], 100, STAY}};
        open_rig(turns, 2, NULL);
        await_fault();
        assert_ptr_equal(strstr(rig.swarm.fault, "connection 0: an event "), rig.swarm.fault);
        assert_int_equal(rig.swarm.tally.events, 0);
        close_rig();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events_are_counted_however_lines_and_chunks_fall),
        cmocka_unit_test(a_selector_is_asked_for),
        cmocka_unit_test(a_watch_that_the_server_ends_goes_on_where_it_was),
        cmocka_unit_test(what_no_put_makes_is_a_fault),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
