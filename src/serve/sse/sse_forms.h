/* src/serve/sse/sse_forms.h
 *
 * sse_forms: the messages of revisions, each made once in a turn for all streams that receive the same events in the
 * same form.
 *
 * Thread: owner (the worker's).
 * Memory: SSE_FORMS messages of SSE_PART_BYTES and one event, until the turn ends.
 */
#ifndef BELFRY_SERVE_SSE_SSE_FORMS_H
#define BELFRY_SERVE_SSE_SSE_FORMS_H

#include "base/blob.h"
#include "core/lines.h"
#include "serve/sse/sse_text.h"

#define SSE_FORMS       16
#define SSE_PART_BYTES  (64 * 1024) /* a message ends with the first event that makes it as long */
#define SSE_PART_EVENTS 1024        /* events that are looked at for one message */

struct sse_forms;

BELFRY_NODISCARD enum belfry_err sse_forms_create(struct sse_forms **out);
void sse_forms_destroy(struct sse_forms *forms); /* NULL is fine */

void sse_forms_next_turn(struct sse_forms *forms); /* batches of the last turn may be gone */

/* The message of the first *used events of the part (lines.h), and one reference to it. Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err sse_forms_revision(struct sse_forms *forms, const struct lines_part *part,
                                                    enum sse_value value, uint32_t tag, uint32_t *used,
                                                    struct belfry_blob **out);

BELFRY_NODISCARD enum belfry_err sse_forms_progress(struct sse_forms *forms, int64_t rev, uint32_t tag,
                                                    struct belfry_blob **out);

struct sse_forms_stats {
    uint64_t made, shared;
};
void sse_forms_stats(const struct sse_forms *forms, struct sse_forms_stats *out);

#endif
