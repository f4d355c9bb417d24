/* src/serve/json/json_read.h
 *
 * json_read: a JSON object as a protobuf message, as etcd's gateway reads it (Go's protojson, unknown fields dropped):
 *
 *     names      the message's own, or camelCase; twice the same field is an error, an unknown one is not
 *     null       as if it were not there; not in a list
 *     bytes      base64, either alphabet (go_base64.h)
 *     numbers    as numbers or as strings, in any form of JSON's (json_int.h)
 *     enums      by name or number; a name that is not known is as if it were not there
 *     one of     two fields that exclude each other are an error
 *
 * Thread: any. Pure.
 * Memory: that of a parsed document while it reads, some twenty times the text where it is all punctuation; the caller
 * bounds the text.
 */
#ifndef BELFRY_SERVE_JSON_JSON_READ_H
#define BELFRY_SERVE_JSON_JSON_READ_H

#include <protobuf-c/protobuf-c.h>

#include "base/buf.h"

#define JSON_READ_DEPTH 100 /* messages in messages */
#define JSON_READ_WHY   160

/* Appends the message that `text`, one JSON value, stands for. Errors: BELFRY_ERR_INVALID, with what is wrong in `why`;
 * BELFRY_ERR_NOMEM. `out` is unchanged then. */
BELFRY_NODISCARD enum belfry_err json_read(const ProtobufCMessageDescriptor *message, struct belfry_bytes text,
                                           struct belfry_buf *out, char why[JSON_READ_WHY]);

#endif
