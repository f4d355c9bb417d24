/* src/cli/out/report.h
 *
 * report: what went wrong, told once on standard error with its remedy, and the exit code for it.
 *
 * Thread: owner.
 */
#ifndef BELFRY_CLI_OUT_REPORT_H
#define BELFRY_CLI_OUT_REPORT_H

#include <stdint.h>

enum exit_code {
    EXIT_DONE = 0,
    EXIT_FAILED = 1,
    EXIT_USAGE = 2,
    EXIT_NO_ANSWER = 3,   /* no endpoint answered in time */
    EXIT_NOT_ALLOWED = 4, /* credentials or rights */
    EXIT_COMPACTED = 5,
    EXIT_INTERRUPTED = 130
};

enum exit_code report_code(int err);

/* What the user can do about `err`; "" when there is nothing to say. */
const char *report_remedy(int err);

/* "belfryctl: why", and the remedy. `err` is of the library. */
enum exit_code report_error(int err, const char *why);

/* The same with another remedy; "": none. */
enum exit_code report_with_remedy(int err, const char *why, const char *remedy);

/* The same for a page of an admin address, by http_get(). */
enum exit_code report_admin(int err, const char *why);

/* The same for lost history: names the revision to go on from. */
enum exit_code report_compacted(int64_t compact_rev);

/* "belfryctl: why", for a mistake on the command line. */
enum exit_code report_usage(const char *why);

/* "belfryctl: what: " and the sentence of errno. */
enum exit_code report_errno(const char *what);

#endif
