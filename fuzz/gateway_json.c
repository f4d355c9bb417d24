/* fuzz/gateway_json.c: any text as a request of the JSON gateway.
 *
 * The first byte says of which message. What is read is a message of that kind; shown as JSON, however it is cut, and
 * read again, it is the same message.
 */
#include <stdint.h>

#include "fuzz/check.h"
#include "fuzz/pour.h"
#include "serve/json/gateway_paths.h"
#include "serve/json/json_read.h"
#include "serve/json/json_values.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A message as protobuf-c writes it. */
static struct belfry_buf canonical(const ProtobufCMessageDescriptor *type, const struct belfry_buf *message)
{
    struct belfry_bytes bytes = belfry_buf_bytes(message);
    struct belfry_buf out;
    uint8_t *to;
    belfry_buf_init(&out);
    ProtobufCMessage *unpacked = protobuf_c_message_unpack(type, NULL, bytes.len, (const uint8_t *)bytes.data);
    check(unpacked != NULL);
    size_t len = protobuf_c_message_get_packed_size(unpacked);
    check(belfry_buf_reserve(&out, len + 1, &to) == BELFRY_OK);
    belfry_buf_grown(&out, protobuf_c_message_pack(unpacked, to));
    protobuf_c_message_free_unpacked(unpacked, NULL);
    return out;
}

static void check_value(const ProtobufCMessageDescriptor *type, struct belfry_bytes value, size_t piece)
{
    char why[JSON_READ_WHY];
    struct belfry_buf read, again, shown;
    belfry_buf_init(&read);
    belfry_buf_init(&again);
    belfry_buf_init(&shown);
    if (json_read(type, value, &read, why) == BELFRY_OK) {
        struct belfry_buf first = canonical(type, &read);
        check(pour_all(type, belfry_buf_bytes(&first), piece, &shown) == BELFRY_OK);
        check(json_read(type, belfry_buf_bytes(&shown), &again, why) == BELFRY_OK);
        struct belfry_buf second = canonical(type, &again);
        check(belfry_bytes_equal(belfry_buf_bytes(&first), belfry_buf_bytes(&second)));
        belfry_buf_fini(&first);
        belfry_buf_fini(&second);
    }
    belfry_buf_fini(&read);
    belfry_buf_fini(&again);
    belfry_buf_fini(&shown);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t n;
    const struct gateway_path *paths = gateway_paths_all(&n);
    struct json_values values;
    struct belfry_bytes value;
    if (size < 2)
        return 0;
    json_values_init(&values);
    check(json_values_add(&values, belfry_bytes_of(data + 2, size - 2)) == BELFRY_OK);
    json_values_end(&values);
    while (json_values_first(&values, &value)) {
        check(value.len > 0);
        check_value(paths[data[0] % n].request, value, (size_t)data[1] + 1);
        json_values_take(&values);
    }
    json_values_fini(&values);
    return 0;
}
