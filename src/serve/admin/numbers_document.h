/* src/serve/admin/numbers_document.h
 *
 * numbers_document: the numbers of a tier as JSON: /debug/numbers, /debug/upstream, and what the page is sent.
 *
 * Thread: any. Pure.
 */
#ifndef BELFRY_SERVE_ADMIN_NUMBERS_DOCUMENT_H
#define BELFRY_SERVE_ADMIN_NUMBERS_DOCUMENT_H

#include "serve/admin/numbers.h"

enum numbers_extent {
    NUMBERS_WHOLE,
    NUMBERS_SUMS /* without "workers", the numbers of each worker */
};

/* One JSON object, and a newline. Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err numbers_write(const struct tier_numbers *numbers, enum numbers_extent extent,
                                               struct belfry_buf *out);

/* The follower's part alone. Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err numbers_write_upstream(const struct tier_numbers *numbers, struct belfry_buf *out);

#endif
