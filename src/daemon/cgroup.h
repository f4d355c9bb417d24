/* src/daemon/cgroup.h
 *
 * cgroup: what this process's control groups allow it: the smallest bound on the way from its own group to the root, as
 * the kernel applies them. Version 2, and version 1's cpu and memory groups where they are mounted instead.
 *
 * Thread: any. Memory: none.
 */
#ifndef BELFRY_DAEMON_CGROUP_H
#define BELFRY_DAEMON_CGROUP_H

#include <stdint.h>

struct cgroup_limits {
    uint64_t cpu_milli;    /* thousandths of a CPU; 0: no bound */
    uint64_t memory_bytes; /* 0: no bound */
};

/* `self` as /proc/self/cgroup, `mount` as /sys/fs/cgroup. What cannot be read is no bound. */
void cgroup_read(const char *self, const char *mount, struct cgroup_limits *out);

#endif
