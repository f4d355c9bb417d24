/* src/server/inbound_http.h
 *
 * inbound_http: the protocol of a connection, once it is known: HTTP/1.1 or HTTP/2. What both do alike is called here.
 *
 * Thread: owner.
 * Memory: owns the server; inbound_conn.c ends it.
 */
#ifndef BELFRY_SERVER_INBOUND_HTTP_H
#define BELFRY_SERVER_INBOUND_HTTP_H

#include "server/h1_server.h"
#include "server/h2_server.h"

/* At most one is there. */
struct inbound_http {
    struct h1_server *h1;
    struct h2_server *h2;
};

static inline bool inbound_http_speaks(const struct inbound_http *http)
{
    return http->h1 != NULL || http->h2 != NULL;
}

static inline enum belfry_err inbound_http_receive(struct inbound_http *http, struct belfry_bytes bytes,
                                                   uint64_t now_ms)
{
    return http->h1 != NULL ? h1_server_receive(http->h1, bytes) : h2_server_receive(http->h2, bytes, now_ms);
}

static inline enum belfry_err inbound_http_pull(struct inbound_http *http, size_t enough, struct belfry_buf *out)
{
    return http->h1 != NULL ? h1_server_pull(http->h1, enough, out) : h2_server_pull(http->h2, enough, out);
}

static inline bool inbound_http_wants_write(const struct inbound_http *http)
{
    return http->h1 != NULL ? h1_server_wants_write(http->h1) : h2_server_wants_write(http->h2);
}

static inline bool inbound_http_wants_read(const struct inbound_http *http)
{
    return http->h1 != NULL ? h1_server_wants_read(http->h1) : h2_server_wants_read(http->h2);
}

/* The peer is told to leave. */
static inline void inbound_http_shut(struct inbound_http *http)
{
    if (http->h1 != NULL)
        h1_server_shut(http->h1);
    else if (http->h2 != NULL)
        h2_server_shut(http->h2);
}

/* The socket is full. */
static inline void inbound_http_hold(struct inbound_http *http)
{
    if (http->h1 != NULL)
        h1_server_hold(http->h1);
    else if (http->h2 != NULL)
        h2_server_hold(http->h2);
}

/* The socket takes bytes. True: more exchanges wait to hear of it, so the next flush continues. */
static inline bool inbound_http_unhold(struct inbound_http *http)
{
    if (http->h2 != NULL)
        return h2_server_unhold(http->h2);
    h1_server_unhold(http->h1);
    return false;
}

/* Input is kept that took too long for one turn. */
static inline bool inbound_http_is_behind(const struct inbound_http *http)
{
    return http->h2 != NULL && h2_server_is_behind(http->h2);
}

#endif
