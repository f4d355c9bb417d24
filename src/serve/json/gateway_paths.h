/* src/serve/json/gateway_paths.h
 *
 * gateway_paths: the paths of etcd's JSON gateway, and the gRPC method that each stands for.
 *
 * Thread: any. Fixed data.
 */
#ifndef BELFRY_SERVE_JSON_GATEWAY_PATHS_H
#define BELFRY_SERVE_JSON_GATEWAY_PATHS_H

#include <stdbool.h>

#include <protobuf-c/protobuf-c.h>

#include "base/bytes.h"

struct gateway_path {
    const char *path;                           /* behind /v3 or /v3beta */
    const char *method;                         /* of gRPC */
    const ProtobufCMessageDescriptor *request;  /* what a value of the body is */
    const ProtobufCMessageDescriptor *response; /* what a line, or the body, is */
    bool asks_often;                            /* the body may be many requests, one after the other */
    bool answers_often;                         /* the response is a line for each answer */
};

/* Is it one of the gateway's? *out: which; NULL: none that there is. */
bool gateway_paths_is(struct belfry_bytes path, const struct gateway_path **out);

/* All of them, for tests. */
const struct gateway_path *gateway_paths_all(size_t *out_n);

#endif
