/* fuzz/kube_token.c: any bytes as a continue token, and any bytes as where to go on. What is read could have been
 * written, and what is written is read as it was given. */
#include <stdint.h>

#include "fuzz/check.h"
#include "kube/token.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void write_and_read(int64_t rev, struct belfry_bytes start)
{
    struct belfry_buf text;
    struct kube_token token;
    belfry_buf_init(&text);
    check(kube_token_write(rev, (struct kube_token_origin){0}, start, &text) == BELFRY_OK);
    check(belfry_buf_len(&text) <= KUBE_TOKEN_MAX);
    check(kube_token_read(belfry_buf_bytes(&text), &token) == BELFRY_OK);
    check(token.rev == rev && belfry_bytes_equal(belfry_buf_bytes(&token.start), start));
    kube_token_fini(&token);
    belfry_buf_fini(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct belfry_bytes bytes = belfry_bytes_of(data, size);
    struct kube_token token;
    if (kube_token_read(bytes, &token) == BELFRY_OK)
        write_and_read(token.rev, belfry_buf_bytes(&token.start));
    kube_token_fini(&token);

    struct belfry_buf text;
    belfry_buf_init(&text);
    if (kube_token_write(INT64_MAX, (struct kube_token_origin){0}, bytes, &text) == BELFRY_OK)
        write_and_read(-1, bytes);
    else
        check(belfry_buf_len(&text) == 0);
    belfry_buf_fini(&text);
    return 0;
}
