/* fuzz/proxy_head.c: any bytes as the beginning of a balancer's connection, whole and in parts: both ways give the same
 * answer and leave the same bytes. A head that is taken begins with the signature and is not longer than the bound. */
#include <stdlib.h>
#include <string.h>

#include "fuzz/check.h"
#include "server/proxy_head.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Stores how many bytes were used. */
static enum belfry_err read_in_parts(struct proxy_head *head, const uint8_t *data, size_t size, size_t step,
                                     size_t *used)
{
    enum belfry_err err = BELFRY_ERR_AGAIN;
    *used = 0;
    while (err == BELFRY_ERR_AGAIN && *used < size) {
        size_t n = size - *used < step ? size - *used : step;
        uint8_t *part = malloc(n); /* a read beyond its end is noticed */
        check(part != NULL);
        memcpy(part, data + *used, n);
        struct belfry_bytes bytes = belfry_bytes_of(part, n);
        err = proxy_head_read(head, &bytes);
        check(bytes.len <= n && (bytes.len == 0 || err != BELFRY_ERR_AGAIN));
        *used += n - bytes.len;
        free(part);
    }
    return err;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct proxy_head whole = {0}, parts = {0};
    size_t used, used_in_parts;
    if (size < 2)
        return 0;
    size_t step = 1 + data[0] % 64;
    enum belfry_err err = read_in_parts(&whole, data + 1, size - 1, size, &used);
    check(read_in_parts(&parts, data + 1, size - 1, step, &used_in_parts) == err);
    if (err == BELFRY_ERR_PROTOCOL) {
        check(whole.why != NULL && parts.why != NULL);
        return 0;
    }
    check(used == used_in_parts);
    if (err == BELFRY_ERR_AGAIN) {
        check(used == size - 1 && used < PROXY_HEAD_MOST);
        return 0;
    }
    check(err == BELFRY_OK && used >= PROXY_HEAD_FIXED && used <= PROXY_HEAD_MOST);
    check(memcmp(data + 1, "\r\n\r\n\0\r\nQUIT\n", 12) == 0);
    check(memcmp(&whole.client, &parts.client, sizeof(whole.client)) == 0);
    check(whole.client.family == CLIENT_UNKNOWN || whole.client.family == CLIENT_IPV4 ||
          whole.client.family == CLIENT_IPV6);
    return 0;
}
