/* fuzz/http_reply.c: any bytes as what an admin address answers to belfryctl.
 *
 * The body lies inside of what came; and what comes in two pieces reads as what comes in one.
 */
#include "cli/http_reply.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool ok)
{
    if (!ok)
        abort();
}

static enum http_reply_state read_part(const uint8_t *data, size_t size, bool ended, struct http_reply *out)
{
    char *copy = malloc(size + 1);
    check(copy != NULL);
    if (size > 0)
        memcpy(copy, data, size);
    enum http_reply_state state = http_reply_read(copy, size, ended, out);
    check(state != HTTP_REPLY_DONE || (out->body <= size && out->len <= size - out->body && out->status >= 200));
    check(!ended || state != HTTP_REPLY_MORE);
    free(copy);
    return state;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct http_reply part, whole;
    if (size == 0)
        return 0;
    size_t cut = data[0] % size;
    enum http_reply_state first = read_part(data, cut, false, &part);
    enum http_reply_state all = read_part(data, size, false, &whole);
    check(first != HTTP_REPLY_BAD || all == HTTP_REPLY_BAD);
    check(first != HTTP_REPLY_DONE || (all == HTTP_REPLY_DONE && part.len == whole.len && part.body == whole.body));
    (void)read_part(data, size, true, &whole);
    return 0;
}
