/* src/serve/relay/relay_alarm.c */
#include "serve/relay/relay_alarm.h"

#include "base/clock.h"

static void on_alarm(uv_timer_t *timer)
{
    struct relay_alarm *alarm = timer->data;
    alarm->due_ms = BELFRY_NEVER;
    alarm->rang_ms = belfry_clock_ms();
    alarm->fn(alarm, alarm->rang_ms);
}

void relay_alarm_init(struct relay_alarm *alarm, uv_loop_t *loop, void (*fn)(struct relay_alarm *alarm, uint64_t now))
{
    *alarm = (struct relay_alarm){.due_ms = BELFRY_NEVER, .fn = fn};
    uv_timer_init(loop, &alarm->timer);
    alarm->timer.data = alarm;
}

void relay_alarm_set(struct relay_alarm *alarm, uint64_t due_ms, uint64_t now_ms)
{
    if (due_ms < alarm->rang_ms + RELAY_ALARM_MS)
        due_ms = alarm->rang_ms + RELAY_ALARM_MS;
    if (due_ms >= alarm->due_ms)
        return;
    alarm->due_ms = due_ms;
    uv_update_time(alarm->timer.loop);
    uv_timer_start(&alarm->timer, on_alarm, due_ms > now_ms ? due_ms - now_ms : 0, 0);
}
