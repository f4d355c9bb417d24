/* src/cli/out/form.h: in which form a command writes, from -w, --output and where it writes to. Thread: owner. */
#ifndef BELFRY_CLI_OUT_FORM_H
#define BELFRY_CLI_OUT_FORM_H

#include <stdbool.h>

#include "cli/flags.h"

enum form {
    FORM_SIMPLE,    /* etcdctl -w simple */
    FORM_ETCD_JSON, /* etcdctl -w json */
    FORM_LINES,     /* --output json */
    FORM_TABLE      /* for people */
};

/* Errors: BELFRY_ERR_INVALID (both were given; the sentence is in why[0, FLAGS_WHY)). */
BELFRY_NODISCARD enum belfry_err form_choose(const struct flags *flags, bool terminal, enum form *out, char *why);

/* For a command that etcdctl does not have: its name is `command`. Errors: BELFRY_ERR_INVALID (-w was given; the
 * sentence is in why). */
BELFRY_NODISCARD enum belfry_err form_refuse_etcds(enum form form, const char *command, char *why);

#endif
