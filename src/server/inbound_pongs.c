/* src/server/inbound_pongs.c */
#include "server/inbound_pongs.h"

#include "base/clock.h"

static struct inbound_pong *first_of(const struct inbound_pongs *pongs)
{
    if (belfry_list_empty(&pongs->waiting))
        return NULL;
    return belfry_container(pongs->waiting.next, struct inbound_pong, node);
}

static void on_pongs_timer(uv_timer_t *timer)
{
    struct inbound_pongs *pongs = timer->data;
    uint64_t now_ms = belfry_clock_ms();
    struct inbound_pong *pong;
    while ((pong = first_of(pongs)) != NULL && pong->due_ms <= now_ms) {
        belfry_list_remove(&pong->node);
        pongs->fn(pong);
    }
    if (pong != NULL)
        uv_timer_start(timer, on_pongs_timer, pong->due_ms - now_ms, 0);
}

/* The timer does not keep the loop alive. */
void inbound_pongs_init(struct inbound_pongs *pongs, uv_loop_t *loop, inbound_pongs_fn fn)
{
    pongs->fn = fn;
    belfry_list_init(&pongs->waiting);
    uv_timer_init(loop, &pongs->timer);
    uv_unref((uv_handle_t *)&pongs->timer);
    pongs->timer.data = pongs;
}

void inbound_pongs_close(struct inbound_pongs *pongs, uv_close_cb closed, void *data)
{
    pongs->timer.data = data;
    uv_close((uv_handle_t *)&pongs->timer, closed);
}

void inbound_pongs_add(struct inbound_pongs *pongs, struct inbound_pong *pong, uint64_t now_ms)
{
    if (!belfry_list_empty(&pong->node))
        return;
    pong->due_ms = now_ms + INBOUND_PONGS_MS;
    belfry_list_append(&pongs->waiting, &pong->node);
    if (!uv_is_active((uv_handle_t *)&pongs->timer))
        uv_timer_start(&pongs->timer, on_pongs_timer, INBOUND_PONGS_MS, 0);
}
