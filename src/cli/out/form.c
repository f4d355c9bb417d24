/* src/cli/out/form.c */
#include "cli/out/form.h"

#include <stdio.h>
#include <strings.h>

static enum form by_default(enum command command, bool terminal)
{
    switch (command) {
    case CMD_FOLLOW: /* etcdctl has neither, so no script expects its bytes */
    case CMD_STATUS:
    case CMD_TOP:
    case CMD_TREE:
    case CMD_HEALTH:
    case CMD_DOCTOR:
    case CMD_VERIFY:
        return FORM_TABLE;
    case CMD_WATCH:
        return terminal ? FORM_TABLE : FORM_SIMPLE;
    case CMD_NONE:
    case CMD_GET:
    case CMD_PUT:
    case CMD_DEL:
    case CMD_TXN:
    case CMD_LEASE:
    case CMD_MEMBER:
    case CMD_KUBE: /* YAML, always */
    case CMD_COMPLETION:
    case CMD_HELP:
    case CMD_VERSION:
    case N_COMMANDS:
        break;
    }
    return FORM_SIMPLE;
}

enum belfry_err form_choose(const struct flags *flags, bool terminal, enum form *out, char *why)
{
    const char *write_out = flags->value[FLAG_WRITE_OUT], *output = flags->value[FLAG_OUTPUT];
    enum flag_source w = flags->source[FLAG_WRITE_OUT], o = flags->source[FLAG_OUTPUT];
    if (write_out != NULL && output != NULL && w == o) {
        snprintf(why, FLAGS_WHY, "--write-out and --output exclude each other: choose one");
        return BELFRY_ERR_INVALID;
    }
    if (write_out != NULL && (output == NULL || w > o)) /* what stands nearer wins: flag over environment */
        *out = strcasecmp(write_out, "json") == 0 ? FORM_ETCD_JSON : FORM_SIMPLE;
    else if (output != NULL)
        *out = strcasecmp(output, "json") == 0 ? FORM_LINES : FORM_TABLE;
    else
        *out = by_default(flags->command, terminal);
    if (flags_on(flags, FLAG_PRINT_VALUE_ONLY) && *out != FORM_SIMPLE) {
        snprintf(why, FLAGS_WHY, "--print-value-only is for -w simple");
        return BELFRY_ERR_INVALID;
    }
    return BELFRY_OK;
}

enum belfry_err form_refuse_etcds(enum form form, const char *command, char *why)
{
    if (form == FORM_TABLE || form == FORM_LINES)
        return BELFRY_OK;
    snprintf(why, FLAGS_WHY, "%s has no -w: use --output json", command);
    return BELFRY_ERR_INVALID;
}
