/* bench/belfry-bench/proc.h
 *
 * proc: what a process has used, as the kernel counts it. CPU by the process's own clock, to the nanosecond; memory
 * from /proc/PID/status: RssAnon, because pages of a mapped file are the kernel's to take back.
 *
 * Thread: any.
 */
#ifndef BENCH_PROC_H
#define BENCH_PROC_H

#include <stdint.h>
#include <sys/types.h>

struct proc_use {
    double cpu_s;
    uint64_t anon_bytes, rss_bytes, peak_bytes; /* RssAnon, VmRSS, VmHWM */
};

/* Zeroes for pid 0, so that a run without --pid needs no case of its own. Dies when there is no such process. */
struct proc_use proc_use(pid_t pid);

/* What the machine can still hand out without taking it from somebody: MemAvailable; 0 when it is not known. */
uint64_t proc_available_bytes(void);

/* peak_bytes counts from here on. Nothing for pid 0; dies when it is not allowed. */
void proc_restart_peak(pid_t pid);

/* Bytes of the line NAME: in the text of /proc/PID/status, or of /proc/meminfo, which count in kB; 0 when it is not
 * there. */
uint64_t proc_status_bytes(const char *text, const char *name);

/* User and system time, in clock ticks, of the line in /proc/PID/stat; 0 when it is not one. The name in it may have
 * blanks and brackets. */
uint64_t proc_stat_ticks(const char *line);

#endif
