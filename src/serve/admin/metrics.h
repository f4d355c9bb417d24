/* src/serve/admin/metrics.h
 *
 * metrics: tier_numbers as Prometheus text: the rows of numbers_table.h, and metrics that are computed from several.
 *
 * Thread: any. Pure, but for process_* which are read from /proc/self.
 */
#ifndef BELFRY_SERVE_ADMIN_METRICS_H
#define BELFRY_SERVE_ADMIN_METRICS_H

#include "base/buf.h"
#include "serve/admin/numbers.h"

/* Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err metrics_write(const struct tier_numbers *numbers, struct belfry_buf *out);

/* When this process started, in seconds since the epoch: for tier_numbers.process_start_s. Found once, because the
 * clock is adjusted while a process runs, and a start that moves by a hundredth looks to Prometheus like a restart. */
double metrics_process_start(void);

/* The table as Markdown, for docs/metrics.md. Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err metrics_describe(struct belfry_buf *out);

#endif
