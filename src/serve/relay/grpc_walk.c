/* src/serve/relay/grpc_walk.c */
#include "serve/relay/grpc_walk.h"

void grpc_walk_pass(struct grpc_walk *walk, struct belfry_bytes bytes)
{
    size_t at = 0;
    while (at < bytes.len) {
        if (walk->n_prefix < BELFRY_GRPC_PREFIX_BYTES) {
            /* the prefix: a flag, then the length, its highest byte first */
            walk->left = walk->n_prefix == 0 ? 0 : walk->left << 8 | (uint8_t)bytes.data[at];
            walk->n_prefix++;
            at++;
        } else {
            size_t n = bytes.len - at < walk->left ? bytes.len - at : walk->left;
            walk->left -= (uint32_t)n;
            at += n;
        }
        if (walk->n_prefix == BELFRY_GRPC_PREFIX_BYTES && walk->left == 0) {
            walk->n_prefix = 0;
            walk->whole++;
        }
    }
}
