/* src/net/http_ask.h
 *
 * http_ask: the head of a request while it waits to be sent: checked, copied, and written as either version wants it.
 *
 * A text that could end a line or begin another request is refused here, so that no text of a caller (or of a server
 * that the caller repeats) can become a request of its own. The endpoint is not known until the request goes out:
 * scheme, authority and one late field are filled in then.
 *
 * Thread: owner. Pure; unchecked: it is only read once it is built.
 * Memory: one allocation of about BELFRY_HTTP_ASK_BYTES at most, wiped at the end, since it may hold credentials.
 */
#ifndef BELFRY_NET_HTTP_ASK_H
#define BELFRY_NET_HTTP_ASK_H

#include <nghttp2/nghttp2.h>
#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "net/http_field.h"

#define BELFRY_HTTP_ASK_BYTES (48 * 1024) /* names, values and 32 each; nghttp2 sends blocks of up to 64 KiB */

struct belfry_http_ask;

/* The server as its requests name it. */
struct belfry_http_origin {
    const char *scheme, *authority;
};

/* Two lists of fields, sent in this order, so that neither is copied into the other. Names may be in any case. */
struct belfry_http_ask_opts {
    struct belfry_bytes method, target;
    const struct belfry_http_field *fields, *more;
    size_t n_fields, n_more;
};

/* Copies everything. Errors: BELFRY_ERR_NOMEM; BELFRY_ERR_INVALID: a method that is not a token, a target that does not
 * begin with '/' or holds a space or control character, a field that HTTP does not allow, or more than
 * BELFRY_HTTP_ASK_BYTES. */
BELFRY_NODISCARD enum belfry_err belfry_http_ask_create(const struct belfry_http_ask_opts *opts,
                                                        struct belfry_http_ask **out);

void belfry_http_ask_destroy(struct belfry_http_ask *ask); /* NULL is fine */

size_t belfry_http_ask_bytes(const struct belfry_http_ask *ask); /* what it takes */
bool belfry_http_ask_is_head(const struct belfry_http_ask *ask); /* the method is HEAD */

/* True when it brings a user as etcd looks for one: a field "token" or "authorization". */
bool belfry_http_ask_has_user(const struct belfry_http_ask *ask);

/* All its fields for that origin, `late` (may be NULL) the last of them. Lent, as the origin and `late` are. */
const nghttp2_nv *belfry_http_ask_fields(struct belfry_http_ask *ask, const struct belfry_http_origin *origin,
                                         const struct belfry_http_field *late, size_t *out_n);

/* Appends those fields as the lines of HTTP/1.1. Errors: BELFRY_ERR_NOMEM, `out` unchanged. */
BELFRY_NODISCARD enum belfry_err belfry_http_ask_write(const nghttp2_nv *fields, size_t n, struct belfry_buf *out);

/* For owners that allow less than HTTP does. */
bool belfry_http_is_token(struct belfry_bytes text);  /* RFC 9110, 5.6.2 */
bool belfry_http_is_value(struct belfry_bytes value); /* RFC 9113, 8.2.1: no control character, no space at the ends */
bool belfry_http_is_secret(struct belfry_bytes name); /* its value is a credential */

#endif
