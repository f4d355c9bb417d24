/* src/server/inbound_put_off.c */
#include "server/inbound_put_off.h"

#include "base/clock.h"

static void on_idle(uv_idle_t *idle)
{
    (void)idle; /* its being there is all */
}

static void on_check(uv_check_t *check)
{
    struct inbound_put_off *put_off = check->data;
    struct belfry_list turn, *node;
    uint64_t now_ms = belfry_clock_ms(), until = uv_hrtime() + INBOUND_PUT_OFF_NS;
    belfry_list_init(&turn);
    belfry_list_move_all(&turn, &put_off->nodes);
    while (uv_hrtime() < until && (node = belfry_list_pop(&turn)) != NULL)
        put_off->fn(node, now_ms);
    belfry_list_move_all(&turn, &put_off->nodes); /* those without a turn yet come first */
    belfry_list_move_all(&put_off->nodes, &turn);
    if (!belfry_list_empty(&put_off->nodes))
        return;
    uv_check_stop(&put_off->check);
    uv_idle_stop(&put_off->idle);
}

void inbound_put_off_init(struct inbound_put_off *put_off, uv_loop_t *loop, inbound_put_off_fn fn)
{
    put_off->fn = fn;
    belfry_list_init(&put_off->nodes);
    uv_check_init(loop, &put_off->check);
    uv_idle_init(loop, &put_off->idle);
    put_off->check.data = put_off;
}

void inbound_put_off_close(struct inbound_put_off *put_off, uv_close_cb closed, void *data)
{
    put_off->check.data = put_off->idle.data = data;
    uv_close((uv_handle_t *)&put_off->check, closed);
    uv_close((uv_handle_t *)&put_off->idle, closed);
}

void inbound_put_off_add(struct inbound_put_off *put_off, struct belfry_list *node)
{
    if (!belfry_list_empty(node))
        return;
    belfry_list_append(&put_off->nodes, node);
    uv_check_start(&put_off->check, on_check);
    uv_idle_start(&put_off->idle, on_idle);
}
