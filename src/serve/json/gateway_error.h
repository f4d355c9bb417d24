/* src/serve/json/gateway_error.h
 *
 * gateway_error: a status of gRPC as etcd's JSON gateway tells it. Builds of etcd have two forms of it; this is both.
 *
 * Thread: any. Pure.
 */
#ifndef BELFRY_SERVE_JSON_GATEWAY_ERROR_H
#define BELFRY_SERVE_JSON_GATEWAY_ERROR_H

#include <stdbool.h>

#include "base/buf.h"

int gateway_error_status(int code); /* of HTTP, for a code of gRPC */

/* Appends it: as a line of a response that goes on, or as all of one that does not. Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err gateway_error_write(struct belfry_buf *out, bool is_line, int code,
                                                     const char *message);

#endif
