/* src/daemon/slack.c */
#include "daemon/slack.h"

#include <stdlib.h>

#include "base/clock.h"

#if defined(__GLIBC__)
#include <malloc.h>

void slack_begin(void)
{
    mallopt(M_MXFAST, 0);
}

void slack_give_back(void)
{
    malloc_trim(0);
}
#else
void slack_begin(void)
{
}

void slack_give_back(void)
{
}
#endif

bool slack_seen(struct slack *slack, size_t bytes, uint64_t now_ms)
{
    if (bytes > slack->most)
        slack->most = bytes;
    size_t eighth = slack->most / 8;
    size_t step = eighth < SLACK_LEAST ? SLACK_LEAST : eighth > SLACK_MOST ? SLACK_MOST : eighth;
    slack->fallen = slack->most - bytes >= step;
    if (!slack->fallen || now_ms < slack->not_before)
        return false;
    slack->most = bytes;
    slack->not_before = now_ms + SLACK_EVERY_MS;
    slack->fallen = false;
    return true;
}

uint64_t slack_due(const struct slack *slack)
{
    return slack->fallen ? slack->not_before : BELFRY_NEVER;
}
