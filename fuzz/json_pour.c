/* fuzz/json_pour.c: any bytes as an answer of upstream's on its way to a client of the JSON gateway.
 *
 * The first bytes say of which message, and how the rest is cut. However that is, the result is the same; what
 * is written is one JSON value; and what protobuf-c wrote can be shown.
 */
#include <stdint.h>

#include <yyjson.h>

#include "fuzz/check.h"
#include "fuzz/pour.h"
#include "serve/json/gateway_paths.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_json(const struct belfry_buf *text)
{
    struct belfry_bytes bytes = belfry_buf_bytes(text);
    yyjson_doc *doc = yyjson_read(bytes.data, bytes.len, 0);
    check(doc != NULL && yyjson_is_obj(yyjson_doc_get_root(doc)));
    yyjson_doc_free(doc);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t n;
    const struct gateway_path *paths = gateway_paths_all(&n);
    if (size < 2)
        return 0;
    const ProtobufCMessageDescriptor *type = paths[data[0] % n].response;
    struct belfry_bytes bytes = belfry_bytes_of(data + 2, size - 2);
    struct belfry_buf whole, cut;
    belfry_buf_init(&whole);
    belfry_buf_init(&cut);
    enum belfry_err err = pour_all(type, bytes, bytes.len + 1, &whole);
    check(pour_all(type, bytes, (size_t)data[1] + 1, &cut) == err);
    if (err == BELFRY_OK) {
        check(belfry_bytes_equal(belfry_buf_bytes(&whole), belfry_buf_bytes(&cut)));
        check_json(&whole);
    }
    belfry_buf_fini(&whole);
    belfry_buf_fini(&cut);
    return 0;
}
