/* src/net/grpc_reply.h
 *
 * grpc_reply: what the header fields of a response say, and how the ways a call can end map to gRPC's codes.
 *
 * The same fields come in three arrangements: headers and then trailers, trailers alone, and headers that already carry
 * what belongs into trailers. So fields are noted wherever they appear, the last one counts, and the verdict is asked
 * for at the end.
 *
 * Thread: owner. Pure.
 * Memory: the decoded grpc-message, bounded by the size of a header block (net/h2.h).
 */
#ifndef BELFRY_NET_GRPC_REPLY_H
#define BELFRY_NET_GRPC_REPLY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"
#include "net/grpc.h"

#define BELFRY_GRPC_TYPE_BYTES 64 /* of a content-type that is kept to be shown */

enum belfry_grpc_encoding { BELFRY_GRPC_IDENTITY, BELFRY_GRPC_GZIP, BELFRY_GRPC_OTHER_ENCODING };

struct belfry_grpc_reply {
    int http_status; /* 0: no final response headers yet */
    int code;        /* of grpc-status; -1: none came */
    bool code_malformed;
    enum belfry_grpc_encoding encoding;
    char *message;                     /* owned; decoded; NULL: none came */
    char type[BELFRY_GRPC_TYPE_BYTES]; /* content-type, cut to fit; "" when none came */
};

void belfry_grpc_reply_init(struct belfry_grpc_reply *reply);
void belfry_grpc_reply_fini(struct belfry_grpc_reply *reply);

/* Notes one field. Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err belfry_grpc_reply_field(struct belfry_grpc_reply *reply, struct belfry_bytes name,
                                                         struct belfry_bytes value);

/* True when the content-type is gRPC's own (with or without a subtype; not gRPC-Web's). */
bool belfry_grpc_reply_is_grpc(const struct belfry_grpc_reply *reply);

/* The code that an HTTP status stands for when there is no grpc-status. */
int belfry_grpc_code_of_http(int http_status);

/* The code that an HTTP/2 error code (of RST_STREAM) stands for. */
int belfry_grpc_code_of_h2(uint32_t error_code);

#endif
