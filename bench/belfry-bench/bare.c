/* bench/belfry-bench/bare.c: the limit: the bytes of a delivery written to as many sockets with nothing in between.
 *
 * A child process connects and reads everything with epoll; this one writes and is what is measured. With one watcher a
 * connection each delivery is a send(), of an HTTP/2 frame as etcd would send it, or with --kube of a chunk of
 * HTTP/1.1. With more, deliveries of one put share a connection: they are copied into 64 KiB, each with its own watch,
 * and written when that is full. Paced: the child says when it has all of a put.
 *
 * With --answered the child does what a client of gRPC's does: it answers each delivery with a WINDOW_UPDATE and a
 * PING, which this one reads, and answers with a write of its own. No server of such clients can do with less. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "die.h"
#include "modes.h"
#include "object.h"
#include "stopwatch.h"
#include "wire/write.h"

#define MUX_BYTES   65536
#define HEADS_BYTES 14 /* of an HTTP/2 frame and of a gRPC message */
#define HEADER_REV  1000000

#define ANSWER_BYTES 30 /* --answered: a WINDOW_UPDATE and a PING */
#define PONG_BYTES   17 /* what a PING is answered with */

struct bare {
    const struct plan *plan;
    size_t per_conn; /* deliveries of a put to one connection */
    char *frame;     /* one delivery; owned */
    size_t size;
    int *fds;       /* owned; one a connection */
    int poll;       /* the parent's, of those */
    uint64_t *come; /* --answered: bytes that each has received; owned */
    int said;       /* the child's words: a byte for each put that has come, when paced, and one at the end */
    uint64_t waits; /* times a socket was full */
};

static double cpu_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* As large as what a server sends for such a put; what is in it matters to nobody. */
static void compose(struct bare *bare)
{
    char key[LOAD_KEY_MAX];
    const struct load load = plan_load(bare->plan);
    load_put_key(&load, 500, key);
    char *value = must_have(calloc(1, load_value_max(&load, bare->plan->value_bytes)));
    size_t value_bytes = load_write_value(&load, 500, bare->plan->value_bytes, 0, value);
    struct belfry_wire_event event = {.kv = {.key = belfry_bytes_str(key),
                                             .value = belfry_bytes_of(value, value_bytes),
                                             .create_rev = HEADER_REV,
                                             .mod_rev = HEADER_REV,
                                             .version = 1}};
    struct belfry_wire_watch watch = {.header = {UINT64_MAX, UINT64_MAX, 2, HEADER_REV}, .watch_id = 100};
    size_t event_size = belfry_write_event_size(&event);
    bare->size = load.form == LOAD_OBJECTS ? object_event_bytes(value_bytes)
                                           : HEADS_BYTES + belfry_write_watch_head_size(&watch) +
                                                 belfry_write_event_field_size(event_size) + event_size;
    bare->frame = must_have(calloc(1, bare->size));
    free(value);
}

static int listen_here(struct sockaddr_in *addr)
{
    *addr = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(*addr);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)addr, sizeof(*addr)) != 0 || listen(fd, 4096) != 0 ||
        getsockname(fd, (struct sockaddr *)addr, &len) != 0)
        die("listen: %s", strerror(errno));
    return fd;
}

static void send_all(struct bare *bare, int fd, const char *data, size_t len)
{
    while (len > 0) {
        ssize_t n = send(fd, data, len, MSG_NOSIGNAL);
        if (n >= 0) {
            data += n;
            len -= (size_t)n;
            continue;
        }
        struct pollfd room = {.fd = fd, .events = POLLOUT};
        if (errno != EAGAIN || poll(&room, 1, 10000) != 1)
            die("send: %s", strerror(errno));
        bare->waits++;
    }
}

static void watch_for_bytes(int poll, int fd, size_t i)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = i};
    if (epoll_ctl(poll, EPOLL_CTL_ADD, fd, &event) != 0)
        die("epoll: %s", strerror(errno));
}

/* ---- the child: it reads ---- */

static int connect_all(struct bare *bare, const struct sockaddr_in *addr)
{
    int poll = epoll_create1(EPOLL_CLOEXEC);
    bare->fds = must_have(calloc(bare->plan->conns, sizeof(*bare->fds)));
    for (size_t i = 0; i < bare->plan->conns; i++) {
        bare->fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (bare->fds[i] < 0 || connect(bare->fds[i], (const struct sockaddr *)addr, sizeof(*addr)) != 0)
            die("connect: %s", strerror(errno));
        watch_for_bytes(poll, bare->fds[i], i);
    }
    return poll;
}

/* Connection `i` has received `n` bytes more: answers a delivery that is whole. */
static void answer(struct bare *bare, size_t i, size_t n)
{
    static const char bytes[ANSWER_BYTES];
    uint64_t before = bare->come[i], pair = bare->size + PONG_BYTES;
    bare->come[i] += n;
    if (before % pair < bare->size && bare->come[i] % pair >= bare->size)
        send_all(bare, bare->fds[i], bytes, sizeof(bytes));
}

static void say(int to)
{
    if (write(to, "+", 1) != 1)
        _exit(1);
}

static _Noreturn void read_all(struct bare *bare, const struct sockaddr_in *addr, int to)
{
    static char data[256 << 10];
    const struct plan *plan = bare->plan;
    struct epoll_event events[1024];
    uint64_t a_put = (uint64_t)plan->conns * bare->per_conn * (bare->size + (plan->answered ? PONG_BYTES : 0));
    uint64_t wanted = a_put * plan->puts, got = 0, step = a_put;
    int poll = connect_all(bare, addr);
    while (got < wanted) {
        int n = epoll_wait(poll, events, 1024, stopwatch_ms_until(plan->deadline_ns));
        if (n <= 0 && stopwatch_ns() > plan->deadline_ns)
            _exit(1);
        for (int i = 0; i < n; i++) {
            ssize_t r = recv(bare->fds[events[i].data.u64], data, sizeof(data), MSG_DONTWAIT);
            got += r > 0 ? (uint64_t)r : 0;
            if (r == 0)
                _exit(1);
            if (r > 0 && plan->answered)
                answer(bare, events[i].data.u64, (size_t)r);
        }
        if (plan->pace == PACE_PACED && got >= step && got < wanted) {
            step += a_put;
            say(to);
        }
    }
    say(to);
    _exit(0);
}

/* ---- the parent: it writes ---- */

static void accept_all(struct bare *bare, int listener)
{
    int on = 1;
    bare->fds = must_have(calloc(bare->plan->conns, sizeof(*bare->fds)));
    for (size_t i = 0; i < bare->plan->conns; i++) {
        struct pollfd ready = {.fd = listener, .events = POLLIN};
        if (poll(&ready, 1, 10000) != 1)
            die("the readers do not connect");
        bare->fds[i] = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (bare->fds[i] < 0)
            die("accept: %s", strerror(errno));
        setsockopt(bare->fds[i], IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        watch_for_bytes(bare->poll, bare->fds[i], i);
    }
}

static void send_mux(struct bare *bare, int fd)
{
    static char data[MUX_BYTES];
    size_t used = 0;
    for (uint32_t w = 0; w < bare->per_conn; w++) {
        if (used + bare->size > sizeof(data)) {
            send_all(bare, fd, data, used);
            used = 0;
        }
        memcpy(data + used, bare->frame, bare->size);
        memcpy(data + used, &w, sizeof(w));
        used += bare->size;
    }
    send_all(bare, fd, data, used);
}

static void await_word(struct bare *bare)
{
    char word;
    struct pollfd said = {.fd = bare->said, .events = POLLIN};
    uint64_t now = stopwatch_ns();
    uint64_t left = bare->plan->deadline_ns > now ? bare->plan->deadline_ns - now : 0;
    if (poll(&said, 1, (int)(left / NS_PER_MS)) != 1 || read(bare->said, &word, 1) != 1)
        die("the readers did not get everything in time");
}

/* Reads what comes back after a put, and answers that. */
static void answer_pings(struct bare *bare)
{
    static const char pong[PONG_BYTES];
    char data[1024];
    struct epoll_event events[1024];
    for (size_t left = bare->plan->conns; left > 0;) {
        int n = epoll_wait(bare->poll, events, 1024, stopwatch_ms_until(bare->plan->deadline_ns));
        if (n <= 0 && stopwatch_ns() > bare->plan->deadline_ns)
            die("the readers did not answer in time");
        for (int i = 0; i < n; i++) {
            size_t conn = events[i].data.u64;
            ssize_t r = recv(bare->fds[conn], data, sizeof(data), MSG_DONTWAIT);
            bare->come[conn] += r > 0 ? (uint64_t)r : 0;
            if (r <= 0 || bare->come[conn] % ANSWER_BYTES != 0)
                continue;
            send_all(bare, bare->fds[conn], pong, sizeof(pong));
            left--;
        }
    }
}

static double write_all(struct bare *bare)
{
    double began = cpu_s();
    for (size_t put = 0; put < bare->plan->puts; put++) {
        if (put > 0 && bare->plan->pace == PACE_PACED)
            await_word(bare);
        for (size_t i = 0; i < bare->plan->conns; i++) {
            if (bare->per_conn == 1)
                send_all(bare, bare->fds[i], bare->frame, bare->size);
            else
                send_mux(bare, bare->fds[i]);
        }
        if (bare->plan->answered)
            answer_pings(bare);
    }
    return cpu_s() - began;
}

int bare_run(const struct plan *plan)
{
    struct bare bare = {.plan = plan, .per_conn = plan->streams * plan->watches};
    struct sockaddr_in addr;
    int words[2];
    compose(&bare);
    if (bare.size > MUX_BYTES && bare.per_conn > 1)
        die("--value-size: at most 60 KiB when watchers share a connection");
    if (plan->answered && (bare.per_conn > 1 || plan->pace != PACE_PACED))
        die("--answered: with --paced, and one watcher a connection");
    bare.come = must_have(calloc(plan->conns, sizeof(*bare.come)));
    bare.poll = epoll_create1(EPOLL_CLOEXEC);
    int listener = listen_here(&addr);
    if (pipe(words) != 0)
        die("pipe: %s", strerror(errno));
    pid_t child = fork();
    if (child < 0)
        die("fork: %s", strerror(errno));
    if (child == 0)
        read_all(&bare, &addr, words[1]);
    close(words[1]);
    bare.said = words[0];
    accept_all(&bare, listener);
    usleep((useconds_t)(plan->settle_ms < 200 ? plan->settle_ms : 200) * 1000);

    uint64_t began = stopwatch_ns();
    double used_s = write_all(&bare);
    await_word(&bare);
    double wall_s = (double)(stopwatch_ns() - began) * 1e-9;
    int status;
    waitpid(child, &status, 0);
    double deliveries = (double)(plan->conns * bare.per_conn * plan->puts);
    struct report report = {0};
    report_text(&report, "mode", "bare");
    report_text(&report, "pace", plan->pace == PACE_PACED ? "paced" : "burst");
    report_text(&report, "answered", plan->answered ? "yes" : "no");
    report_number(&report, "connections", (double)plan->conns);
    report_number(&report, "watchers", (double)(plan->conns * bare.per_conn));
    report_number(&report, "delivery_bytes", (double)bare.size);
    report_number(&report, "deliveries", deliveries);
    report_number(&report, "wall_s", wall_s);
    report_number(&report, "deliveries_per_s", deliveries / wall_s);
    report_number(&report, "server_cpu_us_per_delivery", used_s * 1e6 / deliveries);
    report_number(&report, "waits", (double)bare.waits);
    report_print(&report, plan->form, stdout);
    free(bare.frame);
    free(bare.fds);
    free(bare.come);
    close(bare.poll);
    return status != 0;
}
