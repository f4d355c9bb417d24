/* bench/belfry-bench/poller.h
 *
 * poller: one epoll descriptor that connections of any kind share. Each embeds an entry as what epoll hands back.
 *
 * Thread: owner. A poller and its entries belong to one thread.
 */
#ifndef BENCH_POLLER_H
#define BENCH_POLLER_H

#include <stdint.h>
#include <sys/epoll.h>

struct poller_entry {
    void (*ready)(struct poller_entry *entry, uint32_t events); /* EPOLLIN, EPOLLOUT, ... */
};

/* A new poller; dies if there is none. End it with close(). */
int poller_create(void);

/* EPOLL_CTL_ADD and _MOD; dies when that is refused. `entry` is lent until poller_forget(). */
void poller_watch(int poll, int op, int fd, uint32_t events, struct poller_entry *entry);
void poller_forget(int poll, int fd);

/* Waits up to timeout_ms and lets those work that are ready. */
void poller_turn(int poll, int timeout_ms);

#endif
