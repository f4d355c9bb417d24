/* src/serve/sse/sse_id.h
 *
 * sse_id: where a client is: "5312-9a3f01bc", a revision and which cluster it is of. The second part is there so that a
 * client that was away while another cluster took the place of the first is not taken for one of its own. A client may
 * leave it out. "0" is a client that has nothing.
 *
 * Thread: any. Pure.
 */
#ifndef BELFRY_SERVE_SSE_SSE_ID_H
#define BELFRY_SERVE_SSE_SSE_ID_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"

struct sse_id {
    int64_t rev;
    bool tagged;
    uint32_t tag; /* tagged: of the cluster */
};

/* False: it is none. */
bool sse_id_read(struct belfry_bytes text, struct sse_id *out);

#define SSE_ID_TEXT 32
void sse_id_write(const struct sse_id *id, char out[SSE_ID_TEXT]);

static inline uint32_t sse_tag(uint64_t cluster_id)
{
    return (uint32_t)(cluster_id ^ cluster_id >> 32);
}

#endif
