/* tests/stress/inboundcost.c: what a delivery costs the server: CPU of its thread for N connections that each get one
 * message a round, through inbound, against a bare loop of write(2) over as many sockets.
 *
 *     inboundcost [--http1] [--connections 1000] [--rounds 200] [--bytes 300] [--flush-every N]
 *
 * The peers read between the rounds, outside what is measured.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "server/inbound.h"

#define MAX_CONNECTIONS 20000
#define MAX_BYTES       16384
#define MAX_ROUNDS      100000

static struct exchange *open_now[MAX_CONNECTIONS];
static size_t n_open;
static int peers[MAX_CONNECTIONS], servers[MAX_CONNECTIONS];

static void must(int truth, const char *what)
{
    if (truth)
        return;
    fprintf(stderr, "inboundcost: %s: %s\n", what, strerror(errno));
    exit(1);
}

static uint64_t cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static int by_size(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* The median round: a machine that others use, too, has rounds that say nothing. */
static double median(uint64_t *spent, int rounds, int n)
{
    qsort(spent, (size_t)rounds, sizeof(*spent), by_size);
    return (double)spent[rounds / 2] / n;
}

static void on_body(struct exchange *x, struct belfry_bytes bytes, void *user)
{
    (void)user;
    exchange_taken(x, bytes.len);
}

static void on_nothing(struct exchange *x, void *user)
{
    (void)x, (void)user;
}

static void begin(struct exchange *x, const struct exchange_head *head, void *user)
{
    static const struct exchange_events events = {on_body, on_nothing, on_nothing, on_nothing};
    (void)head, (void)user;
    exchange_handle(x, &events, NULL);
    exchange_respond(x, 200, NULL, 0);
    open_now[n_open++] = x;
}

static void make_pair(int *client, int *server)
{
    static int listening = -1;
    static struct sockaddr_in at = {.sin_family = AF_INET};
    socklen_t len = sizeof(at);
    if (listening < 0) {
        at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        must(bind(listening, (struct sockaddr *)&at, sizeof(at)) == 0, "bind");
        must(listen(listening, 16) == 0, "listen");
        must(getsockname(listening, (struct sockaddr *)&at, &len) == 0, "getsockname");
    }
    *client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    must(connect(*client, (struct sockaddr *)&at, sizeof(at)) == 0, "connect");
    *server = accept4(listening, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    must(*server >= 0, "accept");
    fcntl(*client, F_SETFL, O_NONBLOCK);
}

static void drain(int n)
{
    static char sink[65536];
    for (int i = 0; i < n; i++) {
        while (recv(peers[i], sink, sizeof(sink), 0) > 0)
            ;
    }
}

/* The window is given once, for all that will come. */
static void ask(int fd, int http1)
{
    static const char text[] = "GET /w HTTP/1.1\r\nHost: a\r\n\r\n";
    static const char h2[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
                             "\0\0\0\4\0\0\0\0\0"
                             "\0\0\4\x08\0\0\0\0\0\x7f\xff\0\0"
                             "\0\0\x09\1\5\0\0\0\1\x82\x86\x01\1\141\x04\x02/w"
                             "\0\0\4\x08\0\0\0\0\1\x7f\xff\0\0";
    ssize_t n = http1 ? send(fd, text, sizeof(text) - 1, 0) : send(fd, h2, sizeof(h2) - 1, 0);
    must(n > 0, "send");
}

static void turn(uv_loop_t *loop, struct inbound_group *group)
{
    while (inbound_flush(group, belfry_clock_ms()))
        ;
    uv_run(loop, UV_RUN_NOWAIT);
}

static double measure_inbound(int n, int rounds, size_t bytes, int http1, int every)
{
    static char message[MAX_BYTES];
    uv_loop_t loop;
    struct inbound_group *group;
    static uint64_t spent[MAX_ROUNDS];
    uv_loop_init(&loop);
    struct inbound_opts opts = {.loop = &loop, .begin = begin};
    must(inbound_create(&opts, &group) == BELFRY_OK, "inbound_create");
    for (int i = 0; i < n; i++) {
        make_pair(&peers[i], &servers[i]);
        struct inbound_arrival arrival = {.fd = servers[i]};
        must(inbound_accept(group, &arrival, belfry_clock_ms()) == BELFRY_OK, "inbound_accept");
        ask(peers[i], http1);
    }
    for (int i = 0; i < 1000 && n_open < (size_t)n; i++) {
        turn(&loop, group);
        drain(n);
    }
    must(n_open == (size_t)n, "not all connections were served");
    for (int round = -10; round < rounds; round++) {
        uint64_t before = cpu_ns();
        for (int i = 0; i < n; i++) {
            exchange_write(open_now[i], message, bytes);
            if ((i + 1) % every == 0)
                inbound_flush(group, belfry_clock_ms());
        }
        turn(&loop, group);
        if (round >= 0)
            spent[round] = cpu_ns() - before;
        drain(n);
    }
    struct inbound_stats stats;
    inbound_stats(group, &stats);
    printf("inbound: %zu bytes a connection of our own, %llu writes\n", stats.bytes / (size_t)n,
           (unsigned long long)stats.writes);
    inbound_destroy(group);
    uv_run(&loop, UV_RUN_DEFAULT);
    uv_loop_close(&loop);
    for (int i = 0; i < n; i++)
        close(peers[i]);
    return median(spent, rounds, n);
}

static double measure_bare(int n, int rounds, size_t bytes)
{
    static char message[MAX_BYTES];
    static uint64_t spent[MAX_ROUNDS];
    int on = 1, sndbuf = INBOUND_SNDBUF;
    for (int i = 0; i < n; i++) {
        make_pair(&peers[i], &servers[i]);
        setsockopt(servers[i], IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        setsockopt(servers[i], SOL_SOCKET, SO_SNDBUF, &sndbuf, sizeof(sndbuf));
    }
    for (int round = -10; round < rounds; round++) {
        uint64_t before = cpu_ns();
        for (int i = 0; i < n; i++)
            must(write(servers[i], message, bytes) == (ssize_t)bytes, "write");
        if (round >= 0)
            spent[round] = cpu_ns() - before;
        drain(n);
    }
    for (int i = 0; i < n; i++) {
        close(servers[i]);
        close(peers[i]);
    }
    return median(spent, rounds, n);
}

static long number(int argc, char **argv, const char *flag, long otherwise)
{
    for (int i = 1; i + 1 < argc; i++) {
        if (strcmp(argv[i], flag) == 0)
            return strtol(argv[i + 1], NULL, 10);
    }
    return otherwise;
}

int main(int argc, char **argv)
{
    int http1 = argc > 1 && strcmp(argv[1], "--http1") == 0;
    int n = (int)number(argc, argv, "--connections", 1000), rounds = (int)number(argc, argv, "--rounds", 200);
    size_t bytes = (size_t)number(argc, argv, "--bytes", 300);
    int every = (int)number(argc, argv, "--flush-every", n);
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    if (n < 1 || n > MAX_CONNECTIONS || every < 1 || rounds < 1 || rounds > MAX_ROUNDS || bytes < 1 ||
        bytes > MAX_BYTES) {
        fprintf(stderr, "inboundcost: 1 to %d connections, 1 to %d rounds, 1 to %d bytes\n", MAX_CONNECTIONS,
                MAX_ROUNDS, MAX_BYTES);
        return 2;
    }
    double bare = measure_bare(n, rounds, bytes);
    double ours = measure_inbound(n, rounds, bytes, http1, every);
    double again = measure_bare(n, rounds, bytes);
    bare = again < bare ? again : bare;
    printf("%s, %d connections, %zu bytes: %.0f ns a delivery, bare write %.0f ns, ratio %.2f\n",
           http1 ? "HTTP/1.1" : "HTTP/2", n, bytes, ours, bare, ours / bare);
    return 0;
}
