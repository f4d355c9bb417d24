/* bench/belfry-bench/report.h
 *
 * report: the figures of one run, as lines for people or as one JSON object for scripts. A figure's name says its unit.
 *
 * Thread: owner.
 * Memory: fixed; names and texts are lent until report_print().
 */
#ifndef BENCH_REPORT_H
#define BENCH_REPORT_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "histogram.h"

#define REPORT_ROWS 64

enum report_form { REPORT_TABLE, REPORT_JSON };

struct report_row {
    const char *name;
    const char *text; /* NULL: it is a number */
    double number;
};

struct report {
    size_t n_rows;
    struct report_row rows[REPORT_ROWS];
};

void report_number(struct report *report, const char *name, double number);
void report_text(struct report *report, const char *name, const char *text);

/* latency_mean_ms, _p50_, _p90_, _p99_, _p999_ and _max_ms of durations in ns. */
void report_latency(struct report *report, const struct histogram *latency);

void report_print(const struct report *report, enum report_form form, FILE *out);

#endif
