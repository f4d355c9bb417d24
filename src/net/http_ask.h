/* src/net/http_ask.h
 *
 * http_ask: a request of net/http.h as it waits to be sent: checked, copied, and told as either version wants it.
 *
 * Whatever could end a line or begin another request is refused here, so that no text of a caller (or of a server that
 * the caller repeats) can become a request of its own.
 *
 * Thread: owner.
 */
#ifndef BELFRY_NET_HTTP_ASK_H
#define BELFRY_NET_HTTP_ASK_H

#include <nghttp2/nghttp2.h>
#include <stdbool.h>

#include "base/buf.h"
#include "net/http.h"

#define BELFRY_HTTP_ASK_BYTES (48 * 1024) /* of a request, as HTTP/2 counts them: nghttp2 packs no more than 64 KiB */

struct belfry_http_ask;

/* What every request of a connection has in common; outlives its requests. */
struct belfry_http_origin {
    char *scheme, *authority, *user_agent; /* owned */
};

/* Errors: BELFRY_ERR_NOMEM; BELFRY_ERR_INVALID: a method that is none, a target that does not begin with '/' or is not
 * escaped, a field that HTTP does not allow or that the connection says itself (host, connection, content-length ...),
 * or more than BELFRY_HTTP_ASK_BYTES. */
BELFRY_NODISCARD enum belfry_err belfry_http_ask_create(const struct belfry_http_origin *origin,
                                                        const struct belfry_http_request *request,
                                                        struct belfry_http_ask **out);

/* Wipes it, since it holds credentials. NULL is fine. */
void belfry_http_ask_destroy(struct belfry_http_ask *ask);

bool belfry_http_ask_is_head(const struct belfry_http_ask *ask);

/* HTTP/2: its fields, lent. */
const nghttp2_nv *belfry_http_ask_fields(const struct belfry_http_ask *ask, size_t *out_n);

/* HTTP/1.1: appends its lines. Errors: BELFRY_ERR_NOMEM, `out` unchanged. */
BELFRY_NODISCARD enum belfry_err belfry_http_ask_write(const struct belfry_http_ask *ask, struct belfry_buf *out);

#endif
