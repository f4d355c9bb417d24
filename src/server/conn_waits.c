/* src/server/conn_waits.c */
#include "server/conn_waits.h"

#include <string.h>

#include "server/pace.h"

/* ---- waits of all connections, by kind ---- */

void conn_wait_lists_set(struct conn_wait_lists *lists, const uint64_t span_ms[CONN_N_WAITS])
{
    memcpy(lists->span_ms, span_ms, sizeof(lists->span_ms));
}

void conn_wait_lists_init(struct conn_wait_lists *lists, const uint64_t span_ms[CONN_N_WAITS])
{
    conn_wait_lists_set(lists, span_ms);
    for (size_t i = 0; i < CONN_N_WAITS; i++)
        belfry_list_init(&lists->of_kind[i]);
}

void conn_wait_init(struct conn_wait *wait)
{
    wait->kind = CONN_WAIT_NONE;
    belfry_list_init(&wait->node);
}

void conn_wait_for(struct conn_wait_lists *lists, struct conn_wait *wait, enum conn_wait_kind kind, uint64_t now_ms)
{
    belfry_list_remove(&wait->node);
    wait->kind = kind;
    if (kind == CONN_WAIT_NONE)
        return;
    wait->since_ms = now_ms;
    belfry_list_append(&lists->of_kind[kind], &wait->node);
}

struct conn_wait *conn_wait_lists_due(const struct conn_wait_lists *lists, enum conn_wait_kind kind, uint64_t now_ms)
{
    const struct belfry_list *list = &lists->of_kind[kind];
    if (belfry_list_empty(list))
        return NULL;
    struct conn_wait *first = belfry_container(list->next, struct conn_wait, node);
    return first->since_ms + lists->span_ms[kind] <= now_ms ? first : NULL;
}

/* ---- those of one connection ---- */

void conn_waits_init(struct conn_waits *mine, struct conn_wait_lists *lists)
{
    *mine = (struct conn_waits){.lists = lists};
    conn_wait_init(&mine->peer);
    conn_wait_init(&mine->unread);
    conn_wait_init(&mine->probe);
}

void conn_waits_end(struct conn_waits *mine)
{
    conn_wait_for(mine->lists, &mine->peer, CONN_WAIT_NONE, 0);
    conn_wait_for(mine->lists, &mine->unread, CONN_WAIT_NONE, 0);
    conn_wait_for(mine->lists, &mine->probe, CONN_WAIT_NONE, 0);
}

void conn_waits_expect(struct conn_waits *mine, enum conn_wait_kind kind, uint64_t now_ms)
{
    conn_wait_for(mine->lists, &mine->peer, kind, now_ms);
}

void conn_waits_http1(struct conn_waits *mine, bool in_head, bool idle, uint64_t now_ms)
{
    bool none = conn_waits_expects(mine, CONN_WAIT_NONE);
    if ((none || conn_waits_expects(mine, CONN_WAIT_IDLE)) && in_head)
        conn_waits_expect(mine, CONN_WAIT_HEAD, now_ms);
    else if (none && idle)
        conn_waits_expect(mine, CONN_WAIT_IDLE, now_ms);
}

void conn_waits_http2_idle(struct conn_waits *mine, bool leaving, uint64_t now_ms)
{
    bool none = conn_waits_expects(mine, CONN_WAIT_NONE);
    if (leaving && (none || conn_waits_expects(mine, CONN_WAIT_IDLE_HTTP2)))
        conn_waits_expect(mine, CONN_WAIT_LINGER, now_ms);
    else if (none)
        conn_waits_expect(mine, CONN_WAIT_IDLE_HTTP2, now_ms);
}

void conn_waits_http2_head(struct conn_waits *mine, uint64_t since_ms, uint64_t now_ms)
{
    if (since_ms == 0) {
        if (conn_waits_expects(mine, CONN_WAIT_HEAD))
            conn_waits_expect(mine, CONN_WAIT_NONE, 0);
        return;
    }
    bool is_new = conn_waits_expects(mine, CONN_WAIT_NONE) || conn_waits_expects(mine, CONN_WAIT_IDLE_HTTP2) ||
                  (conn_waits_expects(mine, CONN_WAIT_HEAD) && mine->head_since_ms != since_ms);
    if (!is_new)
        return;
    mine->head_since_ms = since_ms;
    conn_waits_expect(mine, CONN_WAIT_HEAD, now_ms);
}

void conn_waits_unread(struct conn_waits *mine, uint64_t sent, uint64_t now_ms)
{
    if (mine->unread.kind != CONN_WAIT_NONE && sent - mine->unread_from < PACE_BYTES)
        return;
    mine->unread_from = sent;
    conn_wait_for(mine->lists, &mine->unread, CONN_WAIT_UNREAD, now_ms);
}
