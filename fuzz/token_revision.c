/* fuzz/token_revision.c: any bytes as a token that etcd has issued, and as its claims. A revision that is read is one
 * that etcd could have, and what was not read is not written. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "fuzz/check.h"
#include "serve/rights/token_revision.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_token(struct belfry_bytes token)
{
    uint64_t revision = 0;
    enum belfry_err err = token_revision_read(token, &revision);
    check(err == BELFRY_OK ? revision > 0 && revision <= UINT64_C(1) << 53 : revision == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct belfry_buf token;
    read_token(belfry_bytes_of(data, size));
    belfry_buf_init(&token);
    if (belfry_buf_append(&token, "e30.", 4) == BELFRY_OK &&
        belfry_base64_encode(BELFRY_BASE64_URL, belfry_bytes_of(data, size), &token) == BELFRY_OK &&
        belfry_buf_append(&token, ".c2ln", 5) == BELFRY_OK)
        read_token(belfry_buf_bytes(&token));
    belfry_buf_fini(&token);
    return 0;
}
