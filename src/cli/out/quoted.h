/* src/cli/out/quoted.h: a string in quotes as Go writes it, which is how etcdctl reads keys and values in a
 * transaction.
 * Thread: any. Pure. */
#ifndef BELFRY_CLI_OUT_QUOTED_H
#define BELFRY_CLI_OUT_QUOTED_H

#include <belfry/err.h>

/* Reads the string that begins at *at with " (escapes: \a \b \f \n \r \t \v \\ \" \xHH \OOO \uHHHH \UHHHHHHHH) or
 * with ` (as it is), decodes it in place and moves *at behind its end. *out is what it says, in the memory of the
 * line, ended by a zero byte.
 * Errors: BELFRY_ERR_INVALID (no quote, none at the end, an escape that is none, a zero byte: arguments cannot hold
 * one); the line is spoilt then. */
BELFRY_NODISCARD enum belfry_err quoted_read(char **at, char **out);

#endif
