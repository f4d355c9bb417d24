/* src/cli/flags.h
 *
 * flags: what belfryctl was asked to do, by its one table of commands and options.
 *
 * A value comes from the command line, else from BELFRYCTL_NAME, else from ETCDCTL_NAME (upper case, - as _), else it
 * is the default. Flags and arguments may be mixed in any order; "--" ends the flags. --name value, --name=value, -w
 * value, -w=value and -wvalue are all fine, as they are for etcdctl.
 *
 * Thread: owner.
 * Memory: values and arguments are lent from argv and the environment; flags_fini() frees the rest.
 */
#ifndef BELFRY_CLI_FLAGS_H
#define BELFRY_CLI_FLAGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <belfry/err.h>

#include "opt/options.h"

enum command {
    CMD_NONE,
    CMD_GET,
    CMD_PUT,
    CMD_DEL,
    CMD_TXN,
    CMD_WATCH,
    CMD_FOLLOW,
    CMD_LEASE,
    CMD_MEMBER,
    CMD_STATUS,
    CMD_TOP,
    CMD_TREE,
    CMD_HEALTH,
    CMD_DOCTOR,
    CMD_VERIFY,
    CMD_KUBE,
    CMD_COMPLETION,
    CMD_HELP,
    CMD_VERSION,
    N_COMMANDS
};

enum flag {
    FLAG_ENDPOINTS,
    FLAG_USER,
    FLAG_PASSWORD,
    FLAG_PASSWORD_FILE,
    FLAG_CACERT,
    FLAG_CERT,
    FLAG_KEY,
    FLAG_SERVER_NAME,
    FLAG_INSECURE_SKIP_TLS_VERIFY,
    FLAG_INSECURE_TRANSPORT,
    FLAG_DIAL_TIMEOUT,
    FLAG_COMMAND_TIMEOUT,
    FLAG_KEEPALIVE_TIME,
    FLAG_KEEPALIVE_TIMEOUT,
    FLAG_HASLEADER,
    FLAG_MAX_MESSAGE,
    FLAG_WRITE_OUT,
    FLAG_OUTPUT,
    FLAG_HEX,
    FLAG_DEBUG,
    FLAG_HELP,
    FLAG_PREFIX,
    FLAG_FROM_KEY,
    FLAG_RANGE,
    FLAG_REV,
    FLAG_LIMIT,
    FLAG_CONSISTENCY,
    FLAG_ORDER,
    FLAG_SORT_BY,
    FLAG_KEYS_ONLY,
    FLAG_COUNT_ONLY,
    FLAG_PRINT_VALUE_ONLY,
    FLAG_MIN_MOD_REV,
    FLAG_MAX_MOD_REV,
    FLAG_MIN_CREATE_REV,
    FLAG_MAX_CREATE_REV,
    FLAG_LEASE,
    FLAG_KEYS,
    FLAG_IGNORE_VALUE,
    FLAG_IGNORE_LEASE,
    FLAG_PREV_KV,
    FLAG_PROGRESS_NOTIFY,
    FLAG_NO_PUT,
    FLAG_NO_DELETE,
    FLAG_FRAGMENT,
    FLAG_ONCE,
    FLAG_PAGE_BYTES,
    FLAG_INTERACTIVE,
    FLAG_ADMIN,
    FLAG_READY,
    FLAG_WAIT,
    FLAG_UPSTREAM,
    FLAG_WRITE_KEY,
    FLAG_INTERVAL,
    FLAG_CLIENTS,
    FLAG_HOUR,
    FLAG_SORT,
    FLAG_GROUP,
    FLAG_FILTER,
    FLAG_SERVER,
    FLAG_NAME,
    FLAG_NAMESPACE,
    FLAG_TOKEN,
    FLAG_TOKEN_FILE,
    FLAG_CERTIFICATE_AUTHORITY,
    FLAG_CLIENT_CERTIFICATE,
    FLAG_CLIENT_KEY,
    FLAG_REFERENCE,
    FLAG_REFERENCE_USER,
    FLAG_REFERENCE_PASSWORD_FILE,
    FLAG_REFERENCE_CACERT,
    FLAG_REFERENCE_CERT,
    FLAG_REFERENCE_KEY,
    FLAG_REFERENCE_SERVER_NAME,
    FLAG_KUBE,
    FLAG_FOR,
    FLAG_WATCHERS,
    FLAG_HISTORY,
    FLAG_MAX_LAG,
    FLAG_WRITE,
    FLAG_WRITE_PREFIX,
    N_FLAGS
};

/* Which part takes the value (belfry_opt_row.taker): belfryctl itself, belfry_open(), or the call of the command.
 * The library has an option of the flag's name for those that it takes. */
enum flag_taker { TAKER_HERE, TAKER_OPEN, TAKER_CALL };

extern const struct belfry_opt_table flag_table;
extern const struct belfry_opt_command command_rows[N_COMMANDS]; /* its commands; that of CMD_NONE is called "" */

enum flag_source { FROM_DEFAULT, FROM_ENVIRONMENT, FROM_COMMAND_LINE };

#define FLAGS_WHY BELFRY_OPT_WHY

struct flags {
    enum command command;
    const char *value[N_FLAGS]; /* NULL: not given, and no default */
    uint64_t number[N_FLAGS];   /* what it says, where it is no text */
    enum flag_source source[N_FLAGS];
    const char **args; /* owned array of lent strings: what is neither command nor flag */
    size_t n_args;
    size_t n_args_plain; /* how many of them stood before "--" */
    char *endpoints;     /* owned: what --endpoints was given several times, joined */
};

typedef char *(*flags_getenv_fn)(const char *name);

/* Reads the command line and the environment; the caller ends *out with flags_fini(), on failure too.
 * Errors: BELFRY_ERR_INVALID (one line for the user in why[0, FLAGS_WHY)), BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err flags_parse(int argc, char *const argv[], flags_getenv_fn env, struct flags *out,
                                             char *why);
void flags_fini(struct flags *flags);

/* The row of `id` for `command`; NULL when that command has no such flag. */
const struct belfry_opt_row *flags_row(enum flag id, enum command command);

bool flags_on(const struct flags *flags, enum flag id);
bool flags_given(const struct flags *flags, enum flag id);     /* by command line or environment */
int64_t flags_number(const struct flags *flags, enum flag id); /* 0: not given, and no default */
int64_t flags_ms(const struct flags *flags, enum flag id);     /* likewise, of a time */

/* Errors: BELFRY_ERR_INVALID (no command is called `word`; why[0, FLAGS_WHY) names the nearest). */
BELFRY_NODISCARD enum belfry_err flags_find_command(const char *word, enum command *out, char *why);

#endif
