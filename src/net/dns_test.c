/* src/net/dns_test.c: the name server is a socket of this suite on loopback; nothing is asked of anybody else. */
#include "net/dns.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "net/dns_private.h"
#include "net/loop.h"
#include "support/refuse.h"

#define TYPE_A    1
#define TYPE_AAAA 28

struct fixture {
    struct belfry_loop *loop;
    struct belfry_dns *dns;
    int server; /* UDP */
    uint16_t port;
    char folder[64], resolv_conf[96];
    int asked; /* packets the server got */
};

struct result {
    int calls;
    enum belfry_err err;
    struct belfry_dns_answer answer;
    char why[200];
};

static void note(const struct belfry_dns_answer *answer, void *user)
{
    struct result *result = user;
    result->calls++;
    result->err = answer->err;
    result->answer = *answer;
    snprintf(result->why, sizeof(result->why), "%s", answer->why);
}

static void write_resolv_conf(struct fixture *f, const char *text)
{
    FILE *file = fopen(f->resolv_conf, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static int bind_server(const char *address, uint16_t *port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(*port)};
    socklen_t len = sizeof(at);
    assert_int_equal(inet_pton(AF_INET, address, &at.sin_addr), 1);
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &len), 0);
    *port = ntohs(at.sin_port);
    return fd;
}

static int set_up(void **state)
{
    static struct fixture f;
    memset(&f, 0, sizeof(f));
    strcpy(f.folder, "/tmp/belfry-dns-XXXXXX");
    assert_non_null(mkdtemp(f.folder));
    snprintf(f.resolv_conf, sizeof(f.resolv_conf), "%s/resolv.conf", f.folder);
    write_resolv_conf(&f, "nameserver 127.0.0.1\n");
    f.server = bind_server("127.0.0.1", &f.port);
    assert_int_equal(belfry_loop_create(&f.loop), BELFRY_OK);
    assert_int_equal(belfry_dns_create(belfry_loop_uv(f.loop), &f.dns), BELFRY_OK);
    belfry_dns_redirect(f.dns, f.resolv_conf, f.port);
    *state = &f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    belfry_dns_destroy(f->dns);
    belfry_loop_destroy(f->loop);
    close(f->server);
    unlink(f->resolv_conf);
    rmdir(f->folder);
    return 0;
}

/* How the name server behaves: addresses for A questions (AAAA gets none), or a return code. */
struct script {
    unsigned rcode;
    size_t n_addresses;
};

/* Answers one question in `packet`; the question is at byte 12 and is copied as it stands. */
static size_t make_answer(uint8_t *packet, size_t len, const struct script *script)
{
    size_t end = 12;
    while (packet[end] != 0)
        end += packet[end] + 1u;
    unsigned type = packet[end + 2];
    end += 5;
    size_t n = type == TYPE_A && script->rcode == 0 ? script->n_addresses : 0;
    assert_true(len >= end);
    packet[2] = 0x81;
    packet[3] = (uint8_t)(0x80 | script->rcode);
    memcpy(packet + 6, (uint8_t[]){0, (uint8_t)n, 0, 0, 0, 0}, 6);
    for (size_t i = 0; i < n; i++, end += 16)
        memcpy(packet + end, (uint8_t[]){0xc0, 12, 0, TYPE_A, 0, 1, 0, 0, 0, 60, 0, 4, 127, 0, 0, (uint8_t)(i + 1)},
               16);
    return end;
}

static void serve(struct fixture *f, const struct script *script)
{
    uint8_t packet[2048];
    struct sockaddr_storage from;
    socklen_t from_len = sizeof(from);
    ssize_t n = recvfrom(f->server, packet, 512, 0, (struct sockaddr *)&from, &from_len);
    if (n < 12)
        return;
    f->asked++;
    if (script != NULL)
        sendto(f->server, packet, make_answer(packet, (size_t)n, script), 0, (struct sockaddr *)&from, from_len);
}

/* Runs loop and server until `result` has its call, or until the time is over. */
static void run(struct fixture *f, const struct script *script, const struct result *result, int limit_ms)
{
    uint64_t end = belfry_clock_ms() + (uint64_t)limit_ms;
    belfry_loop_rearm(f->loop);
    while (result->calls == 0 && belfry_clock_ms() < end) {
        struct pollfd fds[] = {{belfry_loop_fd(f->loop), POLLIN, 0}, {f->server, POLLIN, 0}};
        poll(fds, 2, (int)(end - belfry_clock_ms()));
        if (fds[1].revents != 0)
            serve(f, script);
        if (fds[0].revents != 0)
            assert_int_equal(belfry_loop_dispatch(f->loop), BELFRY_OK);
    }
}

static struct belfry_dns_query *resolve(struct fixture *f, const char *host, struct result *result)
{
    struct belfry_dns_query *query;
    memset(result, 0, sizeof(*result));
    assert_int_equal(belfry_dns_resolve(f->dns, host, 2379, note, result, &query), BELFRY_OK);
    assert_int_equal(result->calls, 0);
    return query;
}

static void assert_address(const struct sockaddr_storage *address, const char *text)
{
    char shown[INET6_ADDRSTRLEN];
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)address;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)address;
    if (address->ss_family == AF_INET6)
        inet_ntop(AF_INET6, &v6->sin6_addr, shown, sizeof(shown));
    else
        inet_ntop(AF_INET, &v4->sin_addr, shown, sizeof(shown));
    assert_string_equal(shown, text);
    assert_int_equal(ntohs(address->ss_family == AF_INET6 ? v6->sin6_port : v4->sin_port), 2379);
}

static void numeric_hosts_are_answered_from_the_loop_without_asking(void **state)
{
    struct fixture *f = *state;
    static const char *const hosts[] = {"127.0.0.1", "::1", "2001:db8::5"};
    for (size_t i = 0; i < 3; i++) {
        struct result result;
        resolve(f, hosts[i], &result);
        run(f, NULL, &result, 1000);
        assert_int_equal(result.calls, 1);
        assert_int_equal(result.err, BELFRY_OK);
        assert_string_equal(result.why, "");
        assert_int_equal(result.answer.n, 1);
        assert_address(&result.answer.addresses[0], hosts[i]);
    }
    assert_int_equal(f->asked, 0);
}

static void zone_of_an_address_is_kept(void **state)
{
    struct fixture *f = *state;
    struct result result;
    resolve(f, "fe80::1%lo", &result);
    run(f, NULL, &result, 1000);
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)&result.answer.addresses[0];
    assert_int_equal(result.err, BELFRY_OK);
    assert_int_not_equal(v6->sin6_scope_id, 0);
}

static void localhost_is_a_loopback_address_without_asking(void **state)
{
    struct fixture *f = *state;
    struct result result;
    resolve(f, "localhost", &result);
    run(f, NULL, &result, 1000);
    assert_int_equal(result.calls, 1);
    assert_int_equal(result.err, BELFRY_OK);
    assert_true(result.answer.n >= 1);
    for (size_t i = 0; i < result.answer.n; i++)
        assert_address(&result.answer.addresses[i],
                       result.answer.addresses[i].ss_family == AF_INET6 ? "::1" : "127.0.0.1");
    assert_int_equal(f->asked, 0);
}

static void names_are_asked_of_the_name_server(void **state)
{
    struct fixture *f = *state;
    struct result result;
    resolve(f, "etcd.test", &result);
    run(f, &(struct script){0, 2}, &result, 2000);
    assert_int_equal(result.err, BELFRY_OK);
    assert_int_equal(result.answer.n, 2);
    assert_address(&result.answer.addresses[0], "127.0.0.1");
    assert_true(f->asked >= 1);
}

static void addresses_of_one_answer_are_bounded(void **state)
{
    struct fixture *f = *state;
    struct result result;
    resolve(f, "many.test", &result);
    run(f, &(struct script){0, BELFRY_DNS_MAX + 4}, &result, 2000);
    assert_int_equal(result.err, BELFRY_OK);
    assert_int_equal(result.answer.n, BELFRY_DNS_MAX);
}

static void unknown_name_ends_with_resolve(void **state)
{
    struct fixture *f = *state;
    struct result result;
    resolve(f, "no-such-host.invalid", &result);
    run(f, &(struct script){3, 0}, &result, 2000);
    assert_int_equal(result.calls, 1);
    assert_int_equal(result.err, BELFRY_ERR_RESOLVE);
    assert_string_equal(result.why, "no such host");
}

static void name_without_addresses_ends_with_resolve(void **state)
{
    struct fixture *f = *state;
    struct result result;
    resolve(f, "empty.invalid", &result);
    run(f, &(struct script){0, 0}, &result, 2000);
    assert_int_equal(result.calls, 1);
    assert_int_equal(result.err, BELFRY_ERR_RESOLVE);
    assert_string_equal(result.why, "the name has no address");
}

/* Several servers and search domains, none of which answers: c-ares alone would take far longer. */
static void silent_name_servers_end_in_bounded_time(void **state)
{
    struct fixture *f = *state;
    struct result result;
    uint64_t start = belfry_clock_ms();
    write_resolv_conf(f, "nameserver 127.0.0.1\nnameserver 127.0.0.1\nnameserver 127.0.0.1\nsearch a.test b.test\n");
    resolve(f, "no-such-host.invalid", &result);
    run(f, NULL, &result, 8000);
    assert_int_equal(result.calls, 1);
    assert_int_equal(result.err, BELFRY_ERR_RESOLVE);
    assert_non_null(strstr(result.why, "no name server answered"));
    assert_in_range(belfry_clock_ms() - start, 1000, 6000);
    assert_true(f->asked >= 2);
}

static void absent_name_server_ends_in_bounded_time(void **state)
{
    struct fixture *f = *state;
    struct result result;
    close(f->server);
    f->server = -1;
    resolve(f, "no-such-host.invalid", &result);
    run(f, NULL, &result, 8000);
    assert_int_equal(result.calls, 1);
    assert_int_equal(result.err, BELFRY_ERR_RESOLVE);
}

static void canceled_query_makes_no_callback(void **state)
{
    struct fixture *f = *state;
    struct result numeric, local, asked, witness;
    belfry_dns_cancel(resolve(f, "127.0.0.1", &numeric));
    belfry_dns_cancel(resolve(f, "localhost", &local));
    belfry_dns_cancel(resolve(f, "etcd.test", &asked));
    resolve(f, "other.test", &witness);
    run(f, &(struct script){0, 1}, &witness, 2000);
    assert_int_equal(witness.calls, 1);
    assert_int_equal(numeric.calls + local.calls + asked.calls, 0);
}

static struct belfry_dns_query *victim;

static void cancel_the_victim(const struct belfry_dns_answer *answer, void *user)
{
    note(answer, user);
    belfry_dns_cancel(victim);
}

static void callback_may_cancel_a_query_that_is_ready_too(void **state)
{
    struct fixture *f = *state;
    struct result first = {0}, second, witness;
    struct belfry_dns_query *query;
    assert_int_equal(belfry_dns_resolve(f->dns, "127.0.0.1", 2379, cancel_the_victim, &first, &query), BELFRY_OK);
    victim = resolve(f, "127.0.0.1", &second);
    resolve(f, "::1", &witness);
    run(f, NULL, &witness, 1000);
    assert_int_equal(first.calls, 1);
    assert_int_equal(second.calls, 0);
    assert_int_equal(witness.calls, 1);
}

static struct fixture *doomed;

static void destroy_all(const struct belfry_dns_answer *answer, void *user)
{
    note(answer, user);
    belfry_dns_destroy(doomed->dns);
    doomed->dns = NULL;
}

static void callback_may_destroy(void **state)
{
    struct fixture *f = doomed = *state;
    struct result first = {0}, second, third;
    struct belfry_dns_query *query;
    assert_int_equal(belfry_dns_resolve(f->dns, "127.0.0.1", 2379, destroy_all, &first, &query), BELFRY_OK);
    resolve(f, "127.0.0.1", &second);
    resolve(f, "etcd.test", &third);
    run(f, NULL, &first, 1000);
    assert_int_equal(first.calls, 1);
    assert_int_equal(second.calls + third.calls, 0);
}

static void destroy_with_queries_pending_makes_no_callback(void **state)
{
    struct fixture *f = *state;
    struct result results[4];
    static const char *const hosts[] = {"127.0.0.1", "localhost", "etcd.test", "other.test"};
    for (size_t i = 0; i < 4; i++)
        resolve(f, hosts[i], &results[i]);
    belfry_dns_cancel(resolve(f, "third.test", &results[3]));
    belfry_loop_rearm(f->loop);
    belfry_dns_destroy(f->dns);
    f->dns = NULL;
    while (belfry_loop_wait(f->loop, 20) == BELFRY_OK)
        assert_int_equal(belfry_loop_dispatch(f->loop), BELFRY_OK);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(results[i].calls, 0);
}

/* The second server has its own address on loopback, so that only a reader of the new file finds it. */
static void changed_resolver_file_is_followed(void **state)
{
    struct fixture *f = *state;
    struct result result;
    resolve(f, "etcd.test", &result);
    run(f, &(struct script){0, 1}, &result, 2000);
    assert_int_equal(result.err, BELFRY_OK);

    close(f->server);
    f->server = bind_server("127.0.0.2", &f->port);
    f->asked = 0;
    write_resolv_conf(f, "nameserver 127.0.0.2\n");
    struct timespec rest = {1, 50000000}; /* the files are looked at once a second at most */
    nanosleep(&rest, NULL);
    resolve(f, "etcd.test", &result);
    run(f, &(struct script){0, 1}, &result, 3000);
    assert_int_equal(result.err, BELFRY_OK);
    assert_true(f->asked >= 1);
}

static void quiet_resolver_leaves_the_loop_quiet(void **state)
{
    struct fixture *f = *state;
    struct result result;
    resolve(f, "etcd.test", &result);
    run(f, &(struct script){0, 1}, &result, 2000);
    assert_int_equal(result.calls, 1);
    for (int turns = 0; belfry_loop_wait(f->loop, 100) == BELFRY_OK; turns++) {
        assert_int_equal(belfry_loop_dispatch(f->loop), BELFRY_OK);
        assert_true(turns < 5);
    }
}

static struct fixture *swept;

static enum belfry_err resolve_scenario(void)
{
    struct belfry_dns *dns;
    struct belfry_dns_query *query;
    struct result result = {0};
    enum belfry_err err = belfry_dns_create(belfry_loop_uv(swept->loop), &dns);
    if (err != BELFRY_OK)
        return err;
    belfry_dns_redirect(dns, swept->resolv_conf, swept->port);
    err = belfry_dns_resolve(dns, "etcd.test", 2379, note, &result, &query);
    if (err == BELFRY_OK) {
        run(swept, &(struct script){0, 1}, &result, 7000);
        err = result.calls == 1 ? result.err : BELFRY_ERR_TIMEOUT;
    }
    belfry_dns_destroy(dns);
    belfry_loop_rearm(swept->loop);
    while (belfry_loop_wait(swept->loop, 0) == BELFRY_OK)
        belfry_ignore(belfry_loop_dispatch(swept->loop)); /* the handles close */
    return err;
}

static void refused_memory_is_reported(void **state)
{
    swept = *state;
    assert_true(refuse_sweep(resolve_scenario) >= 3);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(numeric_hosts_are_answered_from_the_loop_without_asking),
        TEST(zone_of_an_address_is_kept),
        TEST(localhost_is_a_loopback_address_without_asking),
        TEST(names_are_asked_of_the_name_server),
        TEST(addresses_of_one_answer_are_bounded),
        TEST(unknown_name_ends_with_resolve),
        TEST(name_without_addresses_ends_with_resolve),
        TEST(silent_name_servers_end_in_bounded_time),
        TEST(absent_name_server_ends_in_bounded_time),
        TEST(canceled_query_makes_no_callback),
        TEST(callback_may_cancel_a_query_that_is_ready_too),
        TEST(callback_may_destroy),
        TEST(destroy_with_queries_pending_makes_no_callback),
        TEST(changed_resolver_file_is_followed),
        TEST(quiet_resolver_leaves_the_loop_quiet),
        TEST(refused_memory_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
