/* fuzz/sse_text.c: any bytes as a key and a value, in every form. The message is lines of text that are UTF-8, has no
 * other line break than its own, and its data is JSON. */
#include <stdint.h>

#include "base/utf8.h"
#include "fuzz/check.h"
#include "serve/sse/sse_text.h"
#include "json/document.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_message(struct belfry_bytes message)
{
    static const char head[] = "id: 7-0000002a\ndata: ";
    size_t at = sizeof(head) - 1;
    struct belfry_kube_document document;
    check(message.len > at + 2 && memcmp(message.data, head, at) == 0);
    check(memcmp(message.data + message.len - 2, "\n\n", 2) == 0);
    struct belfry_bytes json = belfry_bytes_of(message.data + at, message.len - at - 2);
    check(memchr(json.data, '\n', json.len) == NULL && memchr(json.data, '\r', json.len) == NULL);
    check(belfry_utf8_valid(json.data, json.len));
    check(belfry_kube_document_read(&json, 1, &document) == BELFRY_OK);
    check(yyjson_arr_size(yyjson_obj_get(document.root, "events")) == 1);
    belfry_kube_document_fini(&document);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    size_t key_len = data[0] % size;
    struct sse_id id = {.rev = 7, .tagged = true, .tag = 42};
    struct sse_change change = {.is_delete = data[0] % 7 == 0,
                                .key = belfry_bytes_of(data + 1, key_len),
                                .value = belfry_bytes_of(data + 1 + key_len, size - 1 - key_len)};
    for (int how = SSE_VALUE_AUTO; how <= SSE_VALUE_NONE; how++) {
        struct belfry_buf changes, message;
        belfry_buf_init(&changes);
        belfry_buf_init(&message);
        check(sse_text_change(&change, (enum sse_value)how, &changes) == BELFRY_OK);
        check(sse_text_revision(&id, false, belfry_buf_bytes(&changes), &message) == BELFRY_OK);
        check_message(belfry_buf_bytes(&message));
        belfry_buf_fini(&changes);
        belfry_buf_fini(&message);
    }
    return 0;
}
