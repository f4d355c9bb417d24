/* src/serve/sse/cors.h
 *
 * cors: the origins whose web pages may read answers of this tier.
 *
 * A browser sends the origin of a page with each request that the page makes to another host, and shows the answer to
 * the page only if the answer names that origin. Origins are compared byte by byte, so a configured one must look as a
 * browser writes it (RFC 6454, section 6.2): in lower case, without a path, and without the default port. There is no
 * "*": a page of any origin could then read what its visitor may.
 *
 * Thread: any. Pure.
 */
#ifndef BELFRY_SERVE_SSE_CORS_H
#define BELFRY_SERVE_SSE_CORS_H

#include "base/bytes.h"

struct cors_origins { /* lent */
    char *const *list;
    size_t n;
};

/* Why a browser never sends this as an origin, or why it may not be configured: the end of a sentence that begins with
 * the text. NULL: it is fine. */
const char *cors_origin_wrong(struct belfry_bytes text);

/* May a page of this origin read answers? `origin` is the value of the request's field. */
bool cors_origins_have(const struct cors_origins *origins, struct belfry_bytes origin);

#endif
