/* bench/belfry-bench/server_test.h: the server's end of connections, played by the test itself on the same thread. */
#ifndef BENCH_SERVER_TEST_H
#define BENCH_SERVER_TEST_H

#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "poller.h"
#include "target.h"

#define SERVER_TURNS 5000 /* of a millisecond: enough for anything on loopback */

struct server {
    int listener, poll;
    struct target target;
};

static inline void server_open(struct server *server)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof(address);
    *server = (struct server){.listener = socket(AF_INET, SOCK_STREAM, 0), .poll = poller_create()};
    assert_int_equal(bind(server->listener, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(server->listener, 64), 0);
    assert_int_equal(getsockname(server->listener, (struct sockaddr *)&address, &len), 0);
    memcpy(&server->target.addr, &address, sizeof(address));
    server->target.addr_len = sizeof(address);
}

static inline void server_close(struct server *server)
{
    close(server->listener);
    close(server->poll);
}

static inline int server_accept(struct server *server)
{
    int fd = accept(server->listener, NULL, NULL);
    assert_true(fd >= 0);
    return fd;
}

/* Lets the clients work until `text` has come on the connection. */
static inline void server_await(struct server *server, int fd, const char *text)
{
    static char data[65536];
    size_t have = 0;
    for (int i = 0; i < SERVER_TURNS; i++) {
        poller_turn(server->poll, 1);
        ssize_t n = recv(fd, data + have, sizeof(data) - have, MSG_DONTWAIT);
        have += n > 0 ? (size_t)n : 0;
        if (memmem(data, have, text, strlen(text)) != NULL)
            return;
    }
    fail_msg("'%s' has not come", text);
}

static inline void server_say(int fd, const void *data, size_t len)
{
    assert_int_equal(send(fd, data, len, MSG_NOSIGNAL), len);
}

/* A frame of HTTP/2. */
static inline void server_frame(int fd, uint8_t type, uint8_t flags, uint8_t id, const void *payload, uint8_t len)
{
    uint8_t frame[9 + 255] = {0, 0, len, type, flags, 0, 0, 0, id};
    memcpy(frame + 9, payload, len);
    server_say(fd, frame, 9u + len);
}

/* The call on that stream ends with a status of one digit. */
static inline void server_end_call(int fd, uint8_t id, char status)
{
    uint8_t block[] = "\x88\x00\x0bgrpc-status\x01?"; /* :status 200 by the static table */
    block[sizeof(block) - 2] = (uint8_t)status;
    server_frame(fd, 1, 5, id, block, sizeof(block) - 1);
}

/* A message on that stream, after the head of the response. */
static inline void server_message(int fd, uint8_t id, const void *message, uint8_t len)
{
    uint8_t data[5 + 100] = {0, 0, 0, 0, len};
    memcpy(data + 5, message, len);
    server_frame(fd, 1, 4, id, "\x88", 1);
    server_frame(fd, 0, 0, id, data, (uint8_t)(5 + len));
}

/* Lets the clients work until `*count` is at least `n`. */
static inline void server_await_count(struct server *server, const uint64_t *count, uint64_t n)
{
    for (int i = 0; i < SERVER_TURNS && *count < n; i++)
        poller_turn(server->poll, 1);
    assert_int_equal(*count, n);
}

#endif
