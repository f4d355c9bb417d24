/* src/daemon/service.h
 *
 * service: what a service manager and a machine provide and expect: sd_notify datagrams (READY=1, STATUS=...,
 * STOPPING=1, WATCHDOG=1), sockets handed over (LISTEN_FDS), and the limits that follow from rlimits and cgroup.
 *
 * Thread: owner (the front's).
 */
#ifndef BELFRY_DAEMON_SERVICE_H
#define BELFRY_DAEMON_SERVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* To $NOTIFY_SOCKET (a path, or @abstract); nothing when there is none. Never blocks. */
void service_notify(const char *state);

/* The interval at which WATCHDOG=1 is due (half of WATCHDOG_USEC, if it is meant for this process); 0: not wanted. */
uint64_t service_watchdog_ms(void);

/* Sockets handed over: the first is at descriptor 3. 0: none, or not for this process. Unsets the variables. */
unsigned service_listen_fds(void);
bool service_has_listen_fds(void); /* are there any? Before service_listen_fds(), which takes them over */

/* CPUs that affinity and the cgroup's quota allow, at least 1. */
unsigned service_cpus(void);

struct service_limits {
    uint64_t descriptors;  /* soft limit, after it was raised to the hard one */
    uint64_t somaxconn;    /* 0: unknown */
    uint64_t memory_bytes; /* cgroup's limit, else the machine's; 0: unknown */
    uint64_t connections;  /* of clients, that follow from the descriptors */
    uint64_t refused;      /* connections that are being refused, which have descriptors of their own */
    uint64_t admin;        /* connections to the admin address, which has descriptors of its own */
};
void service_limits(struct service_limits *out); /* raises RLIMIT_NOFILE's soft limit */

/* What this process's control groups allow it: the smallest bound on the way from its own group to the root, as the
 * kernel applies them. Version 2, and version 1's cpu and memory groups where they are mounted instead. */
struct service_cgroup {
    uint64_t cpu_milli;    /* thousandths of a CPU; 0: no bound */
    uint64_t memory_bytes; /* 0: no bound */
};

/* For service_cpus() and service_limits(). `self` as /proc/self/cgroup, `mount` as /sys/fs/cgroup. What cannot be read
 * is no bound. */
void service_read_cgroup(const char *self, const char *mount, struct service_cgroup *out);

#endif
