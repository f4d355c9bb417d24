/* bench/belfry-bench/poller.c */
#include "poller.h"

#include <errno.h>
#include <string.h>

#include "die.h"

#define TURN_EVENTS 1024

int poller_create(void)
{
    int poll = epoll_create1(EPOLL_CLOEXEC);
    if (poll < 0)
        die("epoll_create1: %s", strerror(errno));
    return poll;
}

void poller_watch(int poll, int op, int fd, uint32_t events, struct poller_entry *entry)
{
    struct epoll_event event = {.events = events, .data.ptr = entry};
    if (epoll_ctl(poll, op, fd, &event) != 0)
        die("epoll_ctl: %s", strerror(errno));
}

void poller_forget(int poll, int fd)
{
    epoll_ctl(poll, EPOLL_CTL_DEL, fd, NULL);
}

void poller_turn(int poll, int timeout_ms)
{
    struct epoll_event events[TURN_EVENTS];
    int n = epoll_wait(poll, events, TURN_EVENTS, timeout_ms);
    if (n < 0 && errno != EINTR)
        die("epoll_wait: %s", strerror(errno));
    for (int i = 0; i < n; i++) {
        struct poller_entry *entry = events[i].data.ptr;
        entry->ready(entry, events[i].events);
    }
}
