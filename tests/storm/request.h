/* tests/storm/request.h
 *
 * request: a request of any dialect, sound or not: method, path, fields and body, chosen.
 *
 * Thread: owner. Plain data; texts are static or in the request itself.
 */
#ifndef BELFRY_STORM_REQUEST_H
#define BELFRY_STORM_REQUEST_H

#include <stdbool.h>

#include "base/buf.h"
#include "storm/choices.h"

#define REQUEST_FIELDS 16

struct request {
    const char *method, *authority;
    char path[512];
    size_t n_fields;
    struct {
        const char *name;
        char value[256];
    } fields[REQUEST_FIELDS];
    bool is_grpc, is_watch; /* is_watch: of etcd; its body goes on */
    bool has_body;
    struct belfry_buf body;
};

/* What it may be. A wild one may be wrong in every way. */
enum request_kind { REQUEST_HTTP = 1, REQUEST_WILD = 2 }; /* or neither: any dialect, sound */
void request_choose(struct request *request, struct choices *choices, unsigned kind);
void request_fini(struct request *request);

/* Appends a message of a Watch stream, with gRPC's prefix. */
void request_watch_message(struct belfry_buf *to, struct choices *choices, bool is_wild);

#endif
