/* src/server/shares_alarm.h
 *
 * shares_alarm: which pools have refused or ended something lately, and one line in the log that says so.
 *
 * The pools count what they refuse on the hot path. The alarm looks at these counters from time to time. The alarm of a
 * pool is on for SHARES_ALARM_MS after its counters last grew. A line is logged when they grew, at most one per pool in
 * SHARES_ALARM_MS; what happens in between is told by the next line:
 *
 *     pool_full pool=memory used=980 limit=1000 client="10.0.0.9" holds=490 refused=12 ended=1 hint="..."
 *
 * refused, ended: since the line before.
 *
 * Thread: owner (that of the shares).
 * Memory: none.
 */
#ifndef BELFRY_SERVER_SHARES_ALARM_H
#define BELFRY_SERVER_SHARES_ALARM_H

#include "base/log.h"
#include "server/shares.h"

#define SHARES_ALARM_MS 60000

struct shares_alarm_pool {
    uint64_t refused, yielded;           /* as last seen */
    uint64_t told_refused, told_yielded; /* as last logged */
    uint64_t grew_ms, told_ms;           /* when they last grew, and were last logged; 0: never */
    bool on;
};

/* All zero to begin with, but for the hint. */
struct shares_alarm {
    const char *hint; /* for all pools; NULL: the settings that make a pool larger */
    struct shares_alarm_pool pools[SHARES_N];
};

/* To be called at least every few seconds; `log` may be NULL. */
void shares_alarm_look(struct shares_alarm *alarm, const struct shares *shares, uint64_t now_ms,
                       const struct belfry_log *log);

/* As of the last look. */
bool shares_alarm_is_on(const struct shares_alarm *alarm, enum shares_pool pool);

#endif
