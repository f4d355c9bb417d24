/* src/serve/sse/sse_query.h
 *
 * sse_query: what GET /v1/events asks for.
 *
 *     prefix=P     keys that begin with P; an empty one: all
 *     key=K        one key
 *     from=A&to=B  keys from A up to B, without B; without to=, or with an empty one: to the end
 *     snapshot=1   the state first
 *     value=auto|text|json|base64|none
 *     last-event-id=ID
 *     ticket=T
 *
 * The first three may be repeated, SSE_RANGES in all. A name that is not known is refused: what it means to ask for
 * would be missing without a word.
 *
 * Thread: any. Pure.
 * Memory: one allocation, about twice the query.
 */
#ifndef BELFRY_SERVE_SSE_SSE_QUERY_H
#define BELFRY_SERVE_SSE_SSE_QUERY_H

#include "serve/sse/sse_id.h"
#include "serve/sse/sse_ranges.h"
#include "serve/sse/sse_text.h"

struct sse_query {
    struct sse_range ranges[SSE_RANGES];
    size_t n_ranges;
    enum sse_value value;
    bool snapshot;
    bool has_id;
    struct sse_id id;
    struct belfry_bytes ticket; /* empty: none */
    struct belfry_buf text;     /* what the others point to */
};

/* Errors: BELFRY_ERR_NOMEM; BELFRY_ERR_INVALID: *why is a sentence for people. sse_query_fini() is fine all the same.
 */
BELFRY_NODISCARD enum belfry_err sse_query_read(struct belfry_bytes query, struct sse_query *out, const char **why);
void sse_query_fini(struct sse_query *query);

#endif
