/* bench/belfry-attack/sink.c */
#include "sink.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "die.h"
#include "poller.h"

#define BACKLOG    1024
#define READ_BYTES ((size_t)64 << 10)

struct sink {
    struct poller_entry entry; /* first */
    int poll, fd;
    bool greeted; /* something has come */
};

/* SETTINGS with the largest window of a stream, and WINDOW_UPDATE of the connection. */
static const uint8_t greeting[] = {0,    0, 6, 4, 0, 0, 0, 0, 0, 0, 4,    0x7f, 0xff, 0xff,
                                   0xff, 0, 0, 4, 8, 0, 0, 0, 0, 0, 0x7f, 0xff, 0,    0};

static void on_bytes(struct poller_entry *entry, uint32_t events)
{
    static char data[READ_BYTES];
    struct sink *sink = (struct sink *)entry; /* its first member */
    (void)events;
    ssize_t n = recv(sink->fd, data, sizeof(data), 0);
    if (n > 0 && !sink->greeted) {
        sink->greeted = true;
        if (data[0] == 'P' && send(sink->fd, greeting, sizeof(greeting), MSG_NOSIGNAL) < 0)
            n = 0;
    }
    if (n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR)))
        return;
    close(sink->fd); /* which takes it from the poller */
    free(sink);
}

static void on_connection(struct poller_entry *entry, uint32_t events)
{
    struct sink *sink = (struct sink *)entry; /* its first member */
    int fd;
    (void)events;
    while ((fd = accept4(sink->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
        struct sink *client = must_have(calloc(1, sizeof(*client)));
        *client = (struct sink){.entry = {on_bytes}, .poll = sink->poll, .fd = fd};
        poller_watch(sink->poll, EPOLL_CTL_ADD, fd, EPOLLIN, &client->entry);
    }
}

_Noreturn void sink_run(const struct target *target)
{
    int on = 1, fd = socket(target->addr.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    struct sink listener = {.entry = {on_connection}, .poll = poller_create(), .fd = fd};
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
        bind(fd, (const struct sockaddr *)&target->addr, target->addr_len) != 0 || listen(fd, BACKLOG) != 0)
        die("listen: %s", strerror(errno));
    poller_watch(listener.poll, EPOLL_CTL_ADD, fd, EPOLLIN, &listener.entry);
    puts("ready");
    fflush(stdout);
    for (;;)
        poller_turn(listener.poll, -1);
}
