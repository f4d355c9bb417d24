/* bench/belfry-bench/swarm_test.c: watchers of etcd's API against a server that a child process plays: its first
 * peer is told what the test wrote down. */
#include "swarm.h"

#include <arpa/inet.h>
#include <netinet/in.h>
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

#define TWENTY_S ((uint64_t)20 * NS_PER_S)

/* DATA on stream 1 with one gRPC message of `len` bytes, both below 256 - 5. */
#define DATA(len_and_5, len) "\0\0" len_and_5 "\0\0\0\0\0\1\0\0\0\0" len

/* WatchResponse{watch_id, created}; id 0 is not written. */
#define CREATED_0 DATA("\x07", "\x02") "\x18\1"
#define CREATED_1 DATA("\x09", "\x04") "\x10\1\x18\1"

/* WatchResponse{watch_id 1, events {kv {key, mod_revision 7}}} */
#define EVENT_OF(digit) DATA("\x1a", "\x15") "\x10\1\x5a\x11\x12\x0f\x0a\x0b/k/0000000" digit "\x18\7"

/* AuthenticateResponse{token "tk.7"} on stream 1, which ends; and WatchResponses on stream 3. */
#define LOGIN       "\0\0\x0b\0\1\0\0\0\1\0\0\0\0\x06\x12\4tk.7"
#define CREATED_3_0 "\0\0\x07\0\0\0\0\0\3\0\0\0\0\x02\x18\1"
#define CREATED_3_1 "\0\0\x09\0\0\0\0\0\3\0\0\0\0\x04\x10\1\x18\1"

/* What the server says to its first peer; nobody else gets an answer. */
struct script {
    struct belfry_bytes creates;
    struct belfry_bytes events; /* once all is created; before, a fault would be the end of the program */
};

#define TEXT(text) belfry_bytes_of(text, sizeof(text) - 1)

struct rig {
    int poll;
    pid_t child;
    int go[2]; /* a pipe */
    struct swarm swarm;
    const struct credentials *logins; /* NULL: nobody logs in */
};

static struct rig rig;

static void say(int fd, struct belfry_bytes text)
{
    if (text.len > 0 && send(fd, text.data, text.len, MSG_NOSIGNAL) != (ssize_t)text.len)
        _exit(2);
}

static _Noreturn void play(int listener, const struct script *script)
{
    char heard[4096];
    alarm(30);
    int fd = accept(listener, NULL, NULL);
    if (recv(fd, heard, sizeof(heard), 0) <= 0)
        _exit(3);
    say(fd, script->creates);
    if (read(rig.go[0], heard, 1) != 1)
        _exit(4);
    say(fd, script->events);
    while (recv(fd, heard, sizeof(heard), 0) > 0)
        ;
    _exit(0);
}

static void open_rig(const struct script *script, size_t n_conns, struct bound bound)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t addr_len = sizeof(addr);
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&addr, sizeof(addr)), 0);
    assert_int_equal(listen(listener, 16), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&addr, &addr_len), 0);
    assert_int_equal(pipe(rig.go), 0);
    rig.child = fork();
    if (rig.child == 0)
        play(listener, script);
    rig.poll = poller_create();
    struct swarm_opts opts = {.load = {.keys = LOAD_DISTINCT, .form = LOAD_VALUES, .prefix = "/k/"},
                              .n_conns = n_conns,
                              .n_streams = 1,
                              .n_watches = 2,
                              .bound = bound,
                              .logins = rig.logins};
    memcpy(&opts.target.addr, &addr, sizeof(addr));
    opts.target.addr_len = sizeof(addr);
    swarm_open(&rig.swarm, rig.poll, &opts, stopwatch_ns() + TWENTY_S);
    close(listener);
    assert_int_equal(write(rig.go[1], "g", 1), 1);
}

static void close_rig(void)
{
    int status;
    swarm_close(&rig.swarm);
    assert_int_equal(waitpid(rig.child, &status, 0), rig.child);
    assert_int_equal(status, 0);
    close(rig.go[0]);
    close(rig.go[1]);
    close(rig.poll);
}

static void await_event_or_fault(void)
{
    uint64_t until = stopwatch_ns() + TWENTY_S;
    while (rig.swarm.tally.events == 0 && rig.swarm.fault[0] == '\0' && stopwatch_ns() < until)
        poller_turn(rig.poll, 10);
}

static const struct bound no_bound;

static void an_event_counts_for_the_watch_of_its_key(void **state)
{
    (void)state;
    const struct script script = {TEXT(CREATED_0 CREATED_1), TEXT(EVENT_OF("1"))};
    open_rig(&script, 1, no_bound);
    await_event_or_fault();
    assert_string_equal(rig.swarm.fault, "");
    assert_int_equal(rig.swarm.tally.rows[1].last_rev, 7);
    close_rig();
}

static void an_event_of_another_key_is_a_fault(void **state)
{
    (void)state;
    const struct script script = {TEXT(CREATED_0 CREATED_1), TEXT(EVENT_OF("0"))};
    open_rig(&script, 1, no_bound);
    await_event_or_fault();
    assert_string_equal(rig.swarm.fault, "connection 0: an event came to a watch of another key");
    assert_int_equal(rig.swarm.tally.events, 0);
    close_rig();
}

static void a_bound_leaves_it_at_what_is_open_and_at_least_one(void **state)
{
    (void)state;
    const struct script script = {.creates = TEXT(CREATED_0 CREATED_1)};
    open_rig(&script, 3, (struct bound){.memory_floor = UINT64_MAX});
    assert_int_equal(rig.swarm.bound_hit, BOUND_MEMORY);
    assert_int_equal(rig.swarm.opts.n_conns, 1);
    assert_int_equal(rig.swarm.n_watchers, 2);
    assert_int_equal(rig.swarm.n_created, 2);
    assert_int_equal(rig.swarm.tally.n_watchers, 2);
    close_rig();
}

static void a_bound_that_is_not_hit_changes_nothing(void **state)
{
    (void)state;
    const struct script script = {.creates = TEXT(CREATED_1 CREATED_0)};
    open_rig(&script, 1, (struct bound){.memory_floor = 1, .until_ns = UINT64_MAX});
    assert_int_equal(rig.swarm.bound_hit, BOUND_NONE);
    assert_int_equal(rig.swarm.n_watchers, 2);
    close_rig();
}

static void a_connection_that_logs_in_creates_its_watches_after_it(void **state)
{
    (void)state;
    struct belfry_bytes line = belfry_bytes_str("me:secret");
    const struct credentials logins = {.lines = &line, .n = 1};
    const struct script script = {.creates = TEXT(LOGIN CREATED_3_1 CREATED_3_0)};
    rig.logins = &logins;
    open_rig(&script, 1, no_bound);
    assert_int_equal(rig.swarm.logins, 1);
    assert_int_equal(rig.swarm.n_created, 2);
    assert_string_equal(rig.swarm.fault, "");
    close_rig();
    rig.logins = NULL;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_event_counts_for_the_watch_of_its_key),
        cmocka_unit_test(an_event_of_another_key_is_a_fault),
        cmocka_unit_test(a_bound_leaves_it_at_what_is_open_and_at_least_one),
        cmocka_unit_test(a_bound_that_is_not_hit_changes_nothing),
        cmocka_unit_test(a_connection_that_logs_in_creates_its_watches_after_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
