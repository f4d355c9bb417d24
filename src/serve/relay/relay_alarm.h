/* src/serve/relay/relay_alarm.h
 *
 * relay_alarm: one timer for the earliest of many deadlines. Peers choose the deadlines, and each alarm visits every
 * call, so two alarms are at least RELAY_ALARM_MS apart.
 *
 * Thread: owner (the loop's).
 * Memory: none of its own.
 */
#ifndef BELFRY_SERVE_RELAY_RELAY_ALARM_H
#define BELFRY_SERVE_RELAY_RELAY_ALARM_H

#include <stdint.h>
#include <uv.h>

#define RELAY_ALARM_MS 100

struct relay_alarm {
    uv_timer_t timer;
    uint64_t due_ms; /* BELFRY_NEVER: it is not set */
    uint64_t rang_ms;
    void (*fn)(struct relay_alarm *alarm, uint64_t now_ms);
};

/* `fn` is called when the alarm rings, from the loop. It sets the alarm for the deadlines that are left. */
void relay_alarm_init(struct relay_alarm *alarm, uv_loop_t *loop, void (*fn)(struct relay_alarm *alarm, uint64_t now));

/* There is a deadline at `due_ms`. An alarm that rings before it stays. BELFRY_NEVER: there is none. */
void relay_alarm_set(struct relay_alarm *alarm, uint64_t due_ms, uint64_t now_ms);

#endif
