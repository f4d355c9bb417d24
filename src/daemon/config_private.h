/* src/daemon/config_private.h
 *
 * What the parts of config share: the table of keys (config_table.c), the draft in which sources are laid over each
 * other (config_draft.c), values (config_value.c, config_listen.c), and the sources: the file (config_file.c), the
 * environment and the flags (config.c). config_check.c judges the whole, config_try.c the machine it is for; config_print.c
 * and config_help.c write.
 *
 * Thread: owner.
 */
#ifndef BELFRY_DAEMON_CONFIG_PRIVATE_H
#define BELFRY_DAEMON_CONFIG_PRIVATE_H

#include "daemon/config.h"

#define CONFIG_FILE_MAX (1024 * 1024) /* bytes of a file: a thousand times what anybody writes */
#define CONFIG_LIST_MAX 64            /* items of upstream and listen */
#define CONFIG_TEXT_MAX 4096          /* bytes of one value: PATH_MAX */
#define CONFIG_ENV      "BELFRYD_"

/* What this version can serve: the default of a listener, and all that one may ask for. */
#define CONFIG_DIALECTS (DIALECT_GRPC | DIALECT_KUBE)

enum config_kind {
    CONFIG_KIND_TEXT,      /* char *; '' is none */
    CONFIG_KIND_SIZE,      /* size_t, in bytes */
    CONFIG_KIND_MS,        /* uint64_t */
    CONFIG_KIND_SECONDS,   /* uint64_t */
    CONFIG_KIND_COUNT,     /* unsigned */
    CONFIG_KIND_BOOL,      /* bool */
    CONFIG_KIND_CHOICE,    /* an enum, as the place in `choices` */
    CONFIG_KIND_ADMIN,     /* one endpoint */
    CONFIG_KIND_UPSTREAM,  /* endpoints; separated by commas, or repeated */
    CONFIG_KIND_LISTEN,    /* repeated; in the environment separated by blanks */
    CONFIG_KIND_HOSTS,     /* names; separated by commas, or repeated */
    CONFIG_KIND_SCOPE,     /* prefixes; repeated */
    CONFIG_KIND_RESOURCES, /* repeated; in the environment separated by blanks */
    CONFIG_KIND_ACTION     /* of the command line alone, and not of struct config */
};

enum config_key {
    KEY_UPSTREAM,
    KEY_UPSTREAM_CACERT,
    KEY_UPSTREAM_CERT,
    KEY_UPSTREAM_KEY,
    KEY_UPSTREAM_SERVER_NAME,
    KEY_UPSTREAM_USER,
    KEY_UPSTREAM_PASSWORD_FILE,
    KEY_LISTEN,
    KEY_INSECURE_LISTEN,
    KEY_ADMIN,
    KEY_ADVERTISE,
    KEY_ALLOWED_HOSTS,
    KEY_NAME,
    KEY_RESOURCES,
    KEY_CACHE_DIR,
    KEY_SCOPE,
    KEY_LOG_BYTES,
    KEY_HISTORY_BYTES,
    KEY_HISTORY_AGE,
    KEY_MEMORY_BYTES,
    KEY_MAX_STREAMS,
    KEY_WORKERS,
    KEY_READY_LAG,
    KEY_DRAIN,
    KEY_PROGRESS_INTERVAL,
    KEY_LOG_LEVEL,
    KEY_LOG_FORMAT,
    N_CONFIG_KEYS, /* what follows is asked of the command line */
    KEY_CONFIG = N_CONFIG_KEYS,
    KEY_CHECK_CONFIG,
    KEY_PRINT_CONFIG,
    KEY_VERSION,
    KEY_HELP,
    N_CONFIG_ROWS
};

struct config_row {
    const char *name;
    const char *value_name; /* in --help; NULL: takes none */
    enum config_kind kind;
    size_t offset;         /* in struct config */
    uint64_t least, most;  /* of numbers, in the unit of the field */
    const char *choices;   /* "error|warn" in the order of the enum */
    const char *fallback;  /* the default, as a user would write it; NULL: none, or worked out (config_draft.c) */
    const char *described; /* the default in --help, where fallback is not it */
    const char *group;     /* the heading that begins here; NULL: that of the row before */
    const char *help;
};
extern const struct config_row config_rows[N_CONFIG_ROWS];

/* NULL when there is none of this name; *nearest is then the one probably meant, or NULL. */
const struct config_row *config_row_named(const char *name, size_t len, const char **nearest);
static inline enum config_key config_row_key(const struct config_row *row)
{
    return (enum config_key)(row - config_rows);
}

bool config_row_is_list(const struct config_row *row);

/* "BELFRYD_LOG_BYTES" */
#define CONFIG_ENV_NAME 64
void config_env_name(const struct config_row *row, char out[CONFIG_ENV_NAME]);

/* ---- the draft ---- */

enum config_source { CONFIG_FROM_DEFAULT, CONFIG_FROM_FILE, CONFIG_FROM_ENVIRONMENT, CONFIG_FROM_FLAG };

struct config_origin {
    enum config_source source;
    size_t line; /* of the file, from 1 */
};

struct config_draft {
    struct config *config;
    struct config_origin origin[N_CONFIG_KEYS]; /* where the value now in *config came from */
    const char *file;                           /* its name, for mistakes; NULL: none */
    FILE *err;
};

/* Sources are laid over each other in the order of their rank: what comes from a higher one replaces, what comes from
 * the same one is added to a list and replaces a scalar.
 * Errors: BELFRY_ERR_INVALID (told to draft->err), BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err config_draft_set(struct config_draft *draft, const struct config_row *row,
                                                  struct config_origin origin, const char *text);
/* The beginning of a list from this source, which may stay empty. */
void config_draft_begin(struct config_draft *draft, const struct config_row *row, struct config_origin origin);
BELFRY_NODISCARD enum belfry_err config_draft_defaults(struct config_draft *draft);

/* Appends, consuming what `listen` owns in any case. Errors: as config_draft_set(). */
BELFRY_NODISCARD enum belfry_err config_draft_listen(struct config_draft *draft, struct config_origin origin,
                                                     struct config_listen *listen);

BELFRY_NODISCARD enum belfry_err config_draft_resource(struct config_draft *draft, struct config_origin origin,
                                                       struct definition_source *resource);

/* Tells a mistake, "belfryd: --log-bytes: ...", and returns BELFRY_ERR_INVALID. `row` NULL: of no key. */
__attribute__((format(printf, 4, 5))) enum belfry_err config_wrong(const struct config_draft *draft,
                                                                   const struct config_row *row,
                                                                   struct config_origin origin, const char *format,
                                                                   ...);

/* ---- values ---- */

bool config_read_size(const char *text, uint64_t *out);
bool config_read_ms(const char *text, uint64_t *out);
bool config_read_bool(const char *text, bool *out);
#define CONFIG_NUMBER 32
void config_write_size(uint64_t bytes, char out[CONFIG_NUMBER]); /* the largest unit that is exact: 256MiB */
void config_write_ms(uint64_t ms, char out[CONFIG_NUMBER]);

/* ---- listeners ---- */

#define CONFIG_WHY 512

/* Says what is wrong with a part of a value, and returns BELFRY_ERR_INVALID. */
__attribute__((format(printf, 2, 3))) enum belfry_err config_why(char why[CONFIG_WHY], const char *format, ...);

/* One setting of a listener: url, serve, read-only, cert, key, client-ca; each once (`*seen` remembers).
 * Errors: BELFRY_ERR_INVALID (a sentence in why), BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err config_listen_set(struct config_listen *listen, unsigned *seen, const char *name,
                                                   const char *text, char why[CONFIG_WHY]);
/* URL[,serve=...][,read-only]... Errors: as above, `listen` then owning nothing. */
BELFRY_NODISCARD enum belfry_err config_listen_parse(const char *text, struct config_listen *listen,
                                                     char why[CONFIG_WHY]);
/* "grpc+json". Errors: BELFRY_ERR_INVALID. */
void config_listen_dialects(unsigned dialects, const char *separator, char *out, size_t size);
void config_listen_fini(struct config_listen *listen);

/* ---- resources ---- */

/* One setting: crd, crds-under, prefix, wrap, key; each once. Errors: as config_listen_set(). */
BELFRY_NODISCARD enum belfry_err config_resource_set(struct definition_source *resource, const char *name,
                                                     const char *text, char why[CONFIG_WHY]);
/* Do its settings make sense together? */
BELFRY_NODISCARD enum belfry_err config_resource_check(const struct definition_source *resource, char why[CONFIG_WHY]);
BELFRY_NODISCARD enum belfry_err config_resource_parse(const char *text, struct definition_source *resource,
                                                       char why[CONFIG_WHY]);
void config_resource_fini(struct definition_source *resource);

/* ---- the whole ---- */

/* Lays the file over the draft. Errors: as config_draft_set(). */
BELFRY_NODISCARD enum belfry_err config_file_read(struct config_draft *draft, FILE *file);

/* What keys say together; reads the definitions that resources name. Errors: BELFRY_ERR_INVALID, told. */
BELFRY_NODISCARD enum belfry_err config_check(const struct config_draft *draft);

/* --check-config: certificates, keys and the password are read, the cache folder and the addresses tried, as a start would,
 * but nothing is made, locked or listened on. Every fault is told; an address that is taken is a warning on `out`, because a
 * belfryd may be running while its next configuration is checked.
 * Errors: BELFRY_ERR_INVALID, BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err config_try(const struct config_draft *draft, FILE *out);

/* What is allowed and probably not meant, a line each. Returns how many. */
unsigned config_warn(const struct config_draft *draft, FILE *out);

/* YAML; `draft` NULL: without where each value came from. */
void config_write(const struct config *config, const struct config_draft *draft, FILE *out);

void config_help(FILE *out);

#endif
