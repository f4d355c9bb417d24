/* src/cli/password.h: asking a person for a password. Thread: owner; installs signal handlers while it waits. */
#ifndef BELFRY_CLI_PASSWORD_H
#define BELFRY_CLI_PASSWORD_H

#include "cli/flags.h"

#define PASSWORD_MAX 256

/* Where --user is given without any password: asks for it on standard error, reads a line from standard input, which
 * must be a terminal, without showing it, and has flags->value[FLAG_PASSWORD] point to it in room[]. The terminal shows
 * again whatever ends the wait. Errors: BELFRY_ERR_INVALID (nobody to ask; the sentence is in why[0, FLAGS_WHY)). */
BELFRY_NODISCARD enum belfry_err password_complete(struct flags *flags, char room[PASSWORD_MAX], char *why);

#endif
