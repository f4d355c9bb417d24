/* src/serve/sse/sse_text.h
 *
 * sse_text: the messages of a stream of Server-Sent Events, as text.
 *
 * Data is one line of JSON. A key that is not UTF-8 is "key_b64" instead of "key"; so are values.
 *
 * Thread: any. Pure.
 */
#ifndef BELFRY_SERVE_SSE_SSE_TEXT_H
#define BELFRY_SERVE_SSE_SSE_TEXT_H

#include "base/buf.h"
#include "serve/sse/sse_id.h"

enum sse_value {
    SSE_VALUE_AUTO,   /* "value": text; "value_b64" if it is not UTF-8 */
    SSE_VALUE_TEXT,   /* "value": text, with U+FFFD for what is not UTF-8 */
    SSE_VALUE_JSON,   /* "value": the JSON that it is; "value_b64" if it is none */
    SSE_VALUE_BASE64, /* "value_b64" */
    SSE_VALUE_NONE    /* neither */
};

/* All append. Errors: BELFRY_ERR_NOMEM; `out` may then have a part of it. */

/* {"op":"put","key":K,"value":V}, or {"op":"delete","key":K}. */
struct sse_change {
    bool is_delete;
    struct belfry_bytes key, value;
};
BELFRY_NODISCARD enum belfry_err sse_text_change(const struct sse_change *change, enum sse_value how,
                                                 struct belfry_buf *out);

/* A message of changes, which are `changes`, written one after the other with commas between them. `more`: a part of
 * a revision; it has no id. */
BELFRY_NODISCARD enum belfry_err sse_text_revision(const struct sse_id *id, bool more, struct belfry_bytes changes,
                                                   struct belfry_buf *out);

BELFRY_NODISCARD enum belfry_err sse_text_state(struct belfry_bytes changes, struct belfry_buf *out);
BELFRY_NODISCARD enum belfry_err sse_text_synced(const struct sse_id *id, uint64_t n, struct belfry_buf *out);
BELFRY_NODISCARD enum belfry_err sse_text_progress(const struct sse_id *id, struct belfry_buf *out);

/* id->rev 0: the state follows. */
BELFRY_NODISCARD enum belfry_err sse_text_reset(const struct sse_id *id, const char *reason, struct belfry_buf *out);

BELFRY_NODISCARD enum belfry_err sse_text_denied(const char *why, struct belfry_buf *out);
/* {"ticket":T,"expires_in":SECONDS}: the data of the message, and the answer to a request for a ticket. */
BELFRY_NODISCARD enum belfry_err sse_text_ticket_data(struct belfry_bytes ticket, uint64_t expires_in_s,
                                                      struct belfry_buf *out);
BELFRY_NODISCARD enum belfry_err sse_text_ticket(struct belfry_bytes ticket, uint64_t expires_in_s,
                                                 struct belfry_buf *out);
BELFRY_NODISCARD enum belfry_err sse_text_comment(const char *text, struct belfry_buf *out); /* of one line */
BELFRY_NODISCARD enum belfry_err sse_text_retry(uint64_t after_ms, struct belfry_buf *out);

#define SSE_HEARTBEAT ":\n\n"

#endif
