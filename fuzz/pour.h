/* fuzz/pour.h: a message as JSON, given in pieces. Thread: any. */
#ifndef BELFRY_FUZZ_POUR_H
#define BELFRY_FUZZ_POUR_H

#include "fuzz/check.h"
#include "serve/json/json_pour.h"

static inline enum belfry_err pour_all(const ProtobufCMessageDescriptor *type, struct belfry_bytes bytes, size_t piece,
                                       struct belfry_buf *out)
{
    struct json_pour pour;
    json_pour_init(&pour);
    enum belfry_err err = json_pour_begin(&pour, type, bytes.len, out);
    for (size_t at = 0; at < bytes.len && err == BELFRY_OK; at += piece) {
        size_t n = bytes.len - at < piece ? bytes.len - at : piece;
        err = json_pour_pass(&pour, belfry_bytes_of(bytes.data + at, n), out);
    }
    check(err != BELFRY_OK || json_pour_is_done(&pour));
    json_pour_fini(&pour);
    return err;
}

#endif
