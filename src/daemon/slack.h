/* src/daemon/slack.h
 *
 * slack: memory that was freed and that the allocator has not given back.
 *
 * glibc gives back only what lies at the very end of a thread's heap, and keeps small blocks by their size without
 * joining them. So when millions of watchers have gone, the process still has all of their memory, and the next large
 * allocation joins the blocks, which takes a second for ten million. Therefore small blocks are joined as they are
 * freed (slack_begin), and when the accounts have fallen far enough the free pages are given back. That takes some
 * milliseconds, tens of them after millions were freed, so it is done at most once per second. With another allocator
 * nothing is done.
 *
 * Thread: owner.
 */
#ifndef BELFRY_DAEMON_SLACK_H
#define BELFRY_DAEMON_SLACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* An eighth of what was in use, within these. Each time costs what was freed, and a look at all that is free. */
#define SLACK_LEAST    ((size_t)4 << 20)
#define SLACK_MOST     ((size_t)32 << 20)
#define SLACK_EVERY_MS 1000

/* One per account; zeroed at first. */
struct slack {
    size_t most;         /* bytes that were in use, at most, since the last time that true was returned */
    uint64_t not_before; /* that time, and SLACK_EVERY_MS */
    bool fallen;         /* far enough, but too soon */
};

/* Once, before there are threads. */
void slack_begin(void);

/* `bytes` are in use now. True: so much less than before that slack_give_back() is worth its time. */
bool slack_seen(struct slack *slack, size_t bytes, uint64_t now_ms);

/* When to call slack_seen() again even if nothing changes; BELFRY_NEVER: not. */
uint64_t slack_due(const struct slack *slack);

/* Thread: any. Allocations of other threads may wait for it. */
void slack_give_back(void);

#endif
