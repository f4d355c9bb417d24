/* bench/belfry-bench/swarm_return_test.c: watchers that lose their server, which a child process plays: it takes one
 * connection after the other, checks what is asked for there, answers, and goes in one of several ways. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "poller.h"
#include "stopwatch.h"
#include "swarm.h"
#include "wire/scan.h"

#define N_WATCHES 2
#define FIRST     7 /* the revision at which watches are created */

enum then { STAY, LEAVE, GOAWAY, UNAVAILABLE, CANCEL, DOWN }; /* DOWN: nobody listens any more until the test says so */

struct turn {
    int64_t starts[N_WATCHES]; /* that are asked for */
    char revs[4];              /* given to watch 0; 0: no more */
    enum then then;
};

static struct sockaddr_in addr;
static int go[2]; /* a pipe: each turn waits for a byte before it gives anything, and one that is DOWN for another */

/* ---- the server ---- */

/* Below the ports that the kernel gives to clients: the port has to be free for the second time. */
static int listen_here(void)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (addr.sin_port != 0)
        return bind(fd, (struct sockaddr *)&addr, sizeof(addr)) == 0 && listen(fd, 16) == 0 ? fd : -1;
    addr = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    for (int i = 0; i < 1000; i++) {
        addr.sin_port = htons((uint16_t)(20000 + (getpid() + i) % 10000));
        if (bind(fd, (struct sockaddr *)&addr, sizeof(addr)) == 0 && listen(fd, 16) == 0)
            return fd;
    }
    return -1;
}

static void say(int fd, uint8_t type, uint8_t flags, uint8_t id, const char *payload, uint8_t len)
{
    char frame[128] = {0, 0, (char)len, (char)type, (char)flags, 0, 0, 0, (char)id};
    memcpy(frame + 9, payload, len);
    if (send(fd, frame, 9u + len, MSG_NOSIGNAL) != 9 + len)
        _exit(3);
}

static void say_message(int fd, const char *message, uint8_t len)
{
    char data[100] = {0, 0, 0, 0, (char)len};
    memcpy(data + 5, message, len);
    say(fd, 0, 0, 1, data, (uint8_t)(5 + len));
}

static void must_read(int fd, void *to, size_t len)
{
    if (len > 0 && recv(fd, to, len, MSG_WAITALL) != (ssize_t)len)
        _exit(4);
}

/* The next WatchRequest. */
static struct belfry_wire_watch_request heard(int fd)
{
    static uint8_t payload[4096];
    for (;;) {
        uint8_t head[9];
        must_read(fd, head, sizeof(head));
        size_t len = (size_t)head[1] << 8 | head[2];
        must_read(fd, payload, len);
        struct belfry_wire_watch_request request;
        if (head[3] != 0) /* DATA */
            continue;
        if (belfry_scan_watch_request(belfry_bytes_of(payload + 5, len - 5), &request) != BELFRY_OK)
            _exit(5);
        return request;
    }
}

static void give_events(int fd, const char *revs)
{
    for (; *revs != 0; revs++) {
        char event[] = "\x0a\x02\x18_\x10\x00\x5a\x07\x12\x05\x0a\x01k\x18_";
        event[3] = event[14] = *revs;
        say_message(fd, event, sizeof(event) - 1);
    }
}

static void await_go(void)
{
    char byte;
    if (read(go[0], &byte, 1) != 1)
        _exit(6);
}

static void end_turn(int fd, int *listener, enum then then)
{
    switch (then) {
    case STAY:
        return;
    case LEAVE:
        shutdown(fd, SHUT_WR);
        return;
    case GOAWAY:
        say(fd, 7, 0, 0, "\0\0\0\1\0\0\0\0", 8);
        return;
    case UNAVAILABLE:
        say(fd, 1, 5, 1, "\x88\0\x0bgrpc-status\x02\x31\x34", 17); /* END_STREAM, END_HEADERS */
        return;
    case CANCEL:
        say_message(fd, "\x10\x00\x20\x01", 4);
        return;
    case DOWN:
        close(*listener);
        shutdown(fd, SHUT_WR);
        await_go();
        *listener = listen_here();
        return;
    }
}

/* Until the client has left: a connection that is closed with something unread takes back what was said last. */
static void drain(int fd)
{
    char data[256];
    while (recv(fd, data, sizeof(data), 0) > 0)
        ;
}

/* Exits 0 when every turn was asked for as it says. */
static _Noreturn void play(int listener, const struct turn *turns, size_t n)
{
    alarm(30);
    int fd = -1, on = 1;
    for (size_t i = 0; i < n; i++) {
        char preface[24];
        fd = accept(listener, NULL, NULL);
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        must_read(fd, preface, sizeof(preface));
        for (int watch = 0; watch < N_WATCHES; watch++) {
            if (heard(fd).start_revision != turns[i].starts[watch])
                _exit(2);
            char created[] = {0x0a, 0x02, 0x18, FIRST, 0x10, (char)watch, 0x18, 0x01};
            say_message(fd, created, sizeof(created));
        }
        await_go();
        give_events(fd, turns[i].revs);
        end_turn(fd, &listener, turns[i].then);
    }
    drain(fd);
    _exit(0);
}

/* ---- the watchers ---- */

struct rig {
    int poll;
    pid_t child;
    struct swarm swarm;
};

static struct rig rig;

static void release(size_t n)
{
    for (size_t i = 0; i < n; i++)
        assert_int_equal(write(go[1], "g", 1), 1);
}

static void open_rig(const struct turn *turns, size_t n)
{
    addr.sin_port = 0;
    int listener = listen_here();
    assert_true(listener >= 0);
    assert_int_equal(pipe(go), 0);
    rig.child = fork();
    if (rig.child == 0)
        play(listener, turns, n);
    close(listener);
    rig.poll = poller_create();
    struct swarm_opts opts = {.load = {.keys = LOAD_SHARED, .form = LOAD_VALUES, .prefix = "k"},
                              .n_conns = 1,
                              .n_streams = 1,
                              .n_watches = N_WATCHES};
    memcpy(&opts.target.addr, &addr, sizeof(addr));
    opts.target.addr_len = sizeof(addr);
    swarm_open(&rig.swarm, rig.poll, &opts, stopwatch_ns() + (uint64_t)20 * NS_PER_S);
}

static bool has_events(uint64_t n)
{
    return rig.swarm.tally.events == n;
}

static bool has_refusals(uint64_t n)
{
    return rig.swarm.refusals >= n;
}

static bool has_fault(uint64_t n)
{
    (void)n;
    return rig.swarm.fault[0] != '\0';
}

static void await(bool (*done)(uint64_t n), uint64_t n)
{
    uint64_t until = stopwatch_ns() + (uint64_t)20 * NS_PER_S;
    while (!done(n) && stopwatch_ns() < until) {
        int ms = swarm_tend(&rig.swarm);
        poller_turn(rig.poll, ms < 10 ? ms : 10);
    }
    assert_true(done(n));
}

static void close_rig(void)
{
    int status;
    swarm_close(&rig.swarm);
    assert_int_equal(waitpid(rig.child, &status, 0), rig.child);
    assert_int_equal(status, 0);
    close(go[0]);
    close(go[1]);
    close(rig.poll);
}

static void each_watch_goes_on_behind_what_it_has_seen(void **state)
{
    (void)state;
    static const enum then ways[] = {LEAVE, GOAWAY, UNAVAILABLE};
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        const struct turn turns[] = {{{0, 0}, {8, 9}, ways[i]}, {{10, FIRST + 1}, {10, 11}, STAY}};
        open_rig(turns, 2);
        swarm_reconnect(&rig.swarm, 1);
        assert_false(swarm_is_back(&rig.swarm)); /* nobody has gone yet */
        release(2);
        await(has_events, 4);
        assert_true(swarm_is_back(&rig.swarm));
        assert_int_equal(rig.swarm.resumed, N_WATCHES);
        assert_int_equal(rig.swarm.n_left, 1);
        assert_int_equal(rig.swarm.refusals, 0);
        assert_int_equal(rig.swarm.tally.doubled, 0);
        assert_int_equal(rig.swarm.tally.rows[0].last_rev, 11);
        close_rig();
    }
}

static void what_comes_again_is_doubled(void **state)
{
    (void)state;
    const struct turn turns[] = {{{0, 0}, {8, 9}, LEAVE}, {{10, FIRST + 1}, {9, 10}, STAY}};
    open_rig(turns, 2);
    swarm_reconnect(&rig.swarm, 1);
    release(2);
    await(has_events, 4);
    assert_int_equal(rig.swarm.tally.doubled, 1);
    close_rig();
}

static void a_server_that_is_down_is_asked_again_with_growing_waits(void **state)
{
    (void)state;
    const struct turn turns[] = {{{0, 0}, {8}, DOWN}, {{9, FIRST + 1}, {9}, STAY}};
    open_rig(turns, 2);
    swarm_reconnect(&rig.swarm, 1);
    uint64_t began = stopwatch_ns();
    release(1);
    await(has_refusals, 4);
    assert_true(stopwatch_ns() - began >= (uint64_t)(25 + 38 + 57) * NS_PER_MS); /* the least of 50, 76 and 115 */
    assert_false(swarm_is_back(&rig.swarm));
    assert_int_equal(rig.swarm.n_created, 0);
    release(2);
    await(has_events, 2);
    assert_true(swarm_is_back(&rig.swarm));
    assert_int_equal(rig.swarm.n_left, 1);
    close_rig();
}

static void a_loss_that_nobody_has_foreseen_is_a_fault(void **state)
{
    (void)state;
    const struct turn turns[] = {{{0, 0}, {8}, LEAVE}};
    open_rig(turns, 1);
    release(1);
    await(has_fault, 0);
    assert_string_equal(rig.swarm.fault, "connection 0: the server closed the connection");
    close_rig();
}

static void a_watch_that_is_canceled_is_a_fault_always(void **state)
{
    (void)state;
    const struct turn turns[] = {{{0, 0}, {8}, CANCEL}};
    open_rig(turns, 1);
    swarm_reconnect(&rig.swarm, 1);
    release(1);
    await(has_fault, 0);
    assert_string_equal(rig.swarm.fault, "connection 0: a watch was canceled: ");
    close_rig();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_watch_goes_on_behind_what_it_has_seen),
        cmocka_unit_test(what_comes_again_is_doubled),
        cmocka_unit_test(a_server_that_is_down_is_asked_again_with_growing_waits),
        cmocka_unit_test(a_loss_that_nobody_has_foreseen_is_a_fault),
        cmocka_unit_test(a_watch_that_is_canceled_is_a_fault_always),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
