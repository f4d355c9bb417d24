/* src/cli/doctor/doctor_calls.h
 *
 * doctor_calls: what servers answer to these credentials, asked through the library as any client would.
 *
 * Thread: owner. Blocks, for --command-timeout per question at most.
 */
#ifndef BELFRY_CLI_DOCTOR_DOCTOR_CALLS_H
#define BELFRY_CLI_DOCTOR_DOCTOR_CALLS_H

#include <belfry/belfry.h>

#include "cli/doctor/doctor_facts.h"
#include "cli/flags.h"

/* Opens a session on `endpoints` with the options of the flags; nothing is printed. On failure *out is NULL and the
 * reason is in `try`. */
void doctor_open(const struct flags *flags, const char *endpoints, struct belfry **out, struct doctor_try *try);

/* Any answer, and if out->asks_range, whether `range` may be read and watched. */
void doctor_ask_client(const struct flags *flags, const char *endpoints, struct belfry_range range,
                       struct doctor_client *out);

/* Status of out->url, several times. */
void doctor_ask_member(const struct flags *flags, struct doctor_member *out);

#endif
