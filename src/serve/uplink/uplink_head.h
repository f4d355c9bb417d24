/* src/serve/uplink/uplink_head.h
 *
 * uplink_head: the request fields of a call, kept until they have been sent. Where to is known only then.
 *
 * Thread: owner. Pure.
 * Memory: one allocation.
 */
#ifndef BELFRY_SERVE_UPLINK_UPLINK_HEAD_H
#define BELFRY_SERVE_UPLINK_UPLINK_HEAD_H

#include <nghttp2/nghttp2.h>

#include "net/endpoint.h"
#include "server/exchange.h"

#define UPLINK_HEAD_BYTES (48 * 1024) /* names, values and 32 each; nghttp2 sends blocks of up to 64 KiB */

struct uplink_head;

/* Copies everything but `via`, which is sent as one more "belfry-via"; NULL: none. The caller ends *out with
 * uplink_head_destroy(). Errors: BELFRY_ERR_INVALID (a field or path that HTTP/2 does not allow, or over
 * UPLINK_HEAD_BYTES), BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err uplink_head_create(struct belfry_bytes path, const struct exchange_field *fields,
                                                    size_t n, const char *via, struct uplink_head **out);

void uplink_head_destroy(struct uplink_head *head); /* wiped: there may be a token in it; NULL is fine */

size_t uplink_head_bytes(const struct uplink_head *head); /* what it takes */

/* True when the request brings a user of its own, as etcd looks for one: a field "token" or "authorization". */
bool uplink_head_has_user(const struct uplink_head *head);

/* Whom etcd may take the caller for when the request brings no user. */
enum uplink_head_as {
    UPLINK_HEAD_AS_IT_IS, /* the common name of the connection's certificate, if it has one */
    UPLINK_HEAD_AS_NOBODY /* nobody: with "grpcgateway-accept", for which etcd ignores the name, and logs a warning */
};

/* The fields, for that endpoint. Lent, as the endpoint is. */
const nghttp2_nv *uplink_head_fields(struct uplink_head *head, const struct belfry_endpoint *endpoint,
                                     enum uplink_head_as as, size_t *out_n);

#endif
