/* src/server/conn_waits.c */
#include "server/conn_waits.h"

#include "server/pace.h"

void conn_waits_init(struct conn_waits *mine, struct inbound_waits *waits)
{
    *mine = (struct conn_waits){.waits = waits};
    inbound_wait_init(&mine->peer);
    inbound_wait_init(&mine->unread);
    inbound_wait_init(&mine->probe);
}

void conn_waits_end(struct conn_waits *mine)
{
    inbound_wait_for(mine->waits, &mine->peer, INBOUND_WAIT_NONE, 0);
    inbound_wait_for(mine->waits, &mine->unread, INBOUND_WAIT_NONE, 0);
    inbound_wait_for(mine->waits, &mine->probe, INBOUND_WAIT_NONE, 0);
}

void conn_waits_expect(struct conn_waits *mine, enum inbound_wait_kind kind, uint64_t now_ms)
{
    inbound_wait_for(mine->waits, &mine->peer, kind, now_ms);
}

void conn_waits_http1(struct conn_waits *mine, bool in_head, bool idle, uint64_t now_ms)
{
    bool none = conn_waits_expects(mine, INBOUND_WAIT_NONE);
    if ((none || conn_waits_expects(mine, INBOUND_WAIT_IDLE)) && in_head)
        conn_waits_expect(mine, INBOUND_WAIT_HEAD, now_ms);
    else if (none && idle)
        conn_waits_expect(mine, INBOUND_WAIT_IDLE, now_ms);
}

void conn_waits_http2_idle(struct conn_waits *mine, bool leaving, uint64_t now_ms)
{
    bool none = conn_waits_expects(mine, INBOUND_WAIT_NONE);
    if (leaving && (none || conn_waits_expects(mine, INBOUND_WAIT_IDLE_HTTP2)))
        conn_waits_expect(mine, INBOUND_WAIT_LINGER, now_ms);
    else if (none)
        conn_waits_expect(mine, INBOUND_WAIT_IDLE_HTTP2, now_ms);
}

void conn_waits_http2_head(struct conn_waits *mine, uint64_t since_ms, uint64_t now_ms)
{
    if (since_ms == 0) {
        if (conn_waits_expects(mine, INBOUND_WAIT_HEAD))
            conn_waits_expect(mine, INBOUND_WAIT_NONE, 0);
        return;
    }
    bool is_new = conn_waits_expects(mine, INBOUND_WAIT_NONE) || conn_waits_expects(mine, INBOUND_WAIT_IDLE_HTTP2) ||
                  (conn_waits_expects(mine, INBOUND_WAIT_HEAD) && mine->head_since_ms != since_ms);
    if (!is_new)
        return;
    mine->head_since_ms = since_ms;
    conn_waits_expect(mine, INBOUND_WAIT_HEAD, now_ms);
}

void conn_waits_unread(struct conn_waits *mine, uint64_t sent, uint64_t now_ms)
{
    if (mine->unread.kind != INBOUND_WAIT_NONE && sent - mine->unread_from < PACE_BYTES)
        return;
    mine->unread_from = sent;
    inbound_wait_for(mine->waits, &mine->unread, INBOUND_WAIT_UNREAD, now_ms);
}
