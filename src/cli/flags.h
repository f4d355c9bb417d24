/* src/cli/flags.h
 *
 * flags: what was asked for. ONE table of options feeds the parser, the environment and --help.
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
    CMD_VERIFY,
    CMD_KUBE,
    CMD_HELP,
    CMD_VERSION,
    N_COMMANDS
};

struct command_row {
    const char *name;      /* CMD_NONE: "" */
    const char *arguments; /* for the usage line */
    size_t min_args, max_args;
    const char *summary; /* one line */
    const char *notes;   /* paragraphs of --help, lines under 80 columns */
    const char *example; /* lines of --help */
};
extern const struct command_row command_rows[N_COMMANDS];

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
    FLAG_INTERVAL,
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
    FLAG_FOR,
    FLAG_WATCHERS,
    FLAG_HISTORY,
    FLAG_MAX_LAG,
    FLAG_WRITE,
    FLAG_WRITE_PREFIX,
    N_FLAGS
};

enum flag_kind {
    KIND_BOOL,
    KIND_TEXT,
    KIND_LIST,     /* may be given again: joined by commas */
    KIND_NUMBER,   /* decimal, 0 and up */
    KIND_HEX,      /* a lease, as etcdctl writes it */
    KIND_DURATION, /* 500ms, 10s, 1m30s */
    KIND_SIZE,     /* the library checks it */
    KIND_CHOICE,   /* one of .choices, in any case */
    KIND_REFUSED   /* a KIND_BOOL that etcdctl has and we do not: .help says what to do instead */
};

/* Who takes the value: belfryctl itself, belfry_open(), or the call of the command. */
enum flag_taker { TAKER_HERE, TAKER_OPEN, TAKER_CALL };

#define ON(command) (1u << (command))
#define ON_ALL      (~0u)

/* A name may have several rows, for different commands: equal id, letter and kind (but where it is refused), other help. */
struct flag_row {
    enum flag id;
    const char *name;
    char letter;            /* 0: none */
    const char *value_name; /* for --help; NULL for KIND_BOOL */
    enum flag_kind kind;
    const char *fallback; /* the default; NULL: none */
    unsigned commands;    /* ON(CMD_...) */
    enum flag_taker taker;
    const char *library; /* the option of the library that it sets; NULL: none under that name */
    const char *choices; /* KIND_CHOICE: "l|s" */
    const char *help;    /* one line */
};
extern const struct flag_row flag_rows[];
extern const size_t n_flag_rows;

enum flag_source { FROM_DEFAULT, FROM_ENVIRONMENT, FROM_COMMAND_LINE };

#define FLAGS_WHY 320

struct flags {
    enum command command;
    const char *value[N_FLAGS]; /* NULL: not given, and no default */
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
const struct flag_row *flags_row(enum flag id, enum command command);

bool flags_on(const struct flags *flags, enum flag id);
bool flags_given(const struct flags *flags, enum flag id); /* by command line or environment */
int64_t flags_number(const struct flags *flags, enum flag id);
int64_t flags_ms(const struct flags *flags, enum flag id); /* of a KIND_DURATION */

/* BELFRY_ERR_INVALID unless `text` is a duration such as 1.5s or 1m30s, up to 24 days. */
BELFRY_NODISCARD enum belfry_err flags_parse_duration(const char *text, int64_t *out_ms);

/* Errors: BELFRY_ERR_INVALID (no command is called `word`; why[0, FLAGS_WHY) names the nearest). */
BELFRY_NODISCARD enum belfry_err flags_find_command(const char *word, enum command *out, char *why);

/* "BELFRYCTL_" or "ETCDCTL_" and the name of the flag, as the environment spells it. */
#define FLAGS_ENV_NAME 64
void flags_env_name(const char *before, const char *name, char out[FLAGS_ENV_NAME]);

#endif
