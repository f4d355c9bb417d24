/* src/daemon/config_draft.h
 *
 * config_draft: a configuration while its sources are laid over each other, each value with where it came from. A
 * mistake in a value is told in the words of the source: --log-bytes, BELFRYD_LOG_BYTES, or the file, its line and
 * log-bytes.
 *
 * Thread: owner.
 */
#ifndef BELFRY_DAEMON_CONFIG_DRAFT_H
#define BELFRY_DAEMON_CONFIG_DRAFT_H

#include "daemon/config.h"
#include "daemon/config_table.h"

#define CONFIG_LIST_MAX 64   /* items of a list */
#define CONFIG_TEXT_MAX 4096 /* bytes of one value, with its end: PATH_MAX */

enum config_source { CONFIG_FROM_DEFAULT, CONFIG_FROM_FILE, CONFIG_FROM_ENVIRONMENT, CONFIG_FROM_FLAG };

struct config_origin {
    enum config_source source;
    size_t line; /* of the file, from 1 */
};

/* What is wrong with it. */
struct config_faults {
    bool wants_all;  /* --check-config: reading goes on after a fault, so that one run tells all of them */
    size_t n;        /* told */
    uint64_t keys;   /* a bit per key: it has one */
    uint64_t unread; /* the same, of those whose value could not be read: what is said about it would not be true */
};

struct config_draft {
    struct config *config;
    struct config_faults *faults;               /* lent */
    struct config_origin origin[N_CONFIG_KEYS]; /* where the value now in *config came from */
    const char *file;                           /* its name, for mistakes; NULL: none */
    FILE *err;
};

/* Sources are laid over each other in the order of their rank: what comes from a higher one replaces, what comes from
 * the same one is added to a list and replaces a scalar.
 * Errors: BELFRY_ERR_INVALID (told to draft->err), BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err config_draft_set(struct config_draft *draft, const struct belfry_opt_row *row,
                                                  struct config_origin origin, const char *text);
/* The beginning of a list from this source, which may stay empty. */
void config_draft_begin(struct config_draft *draft, const struct belfry_opt_row *row, struct config_origin origin);
BELFRY_NODISCARD enum belfry_err config_draft_defaults(struct config_draft *draft);

/* Append, consuming what the item owns in any case. Errors: as config_draft_set(). */
BELFRY_NODISCARD enum belfry_err config_draft_listen(struct config_draft *draft, struct config_origin origin,
                                                     struct config_listen *listen);
BELFRY_NODISCARD enum belfry_err config_draft_resource(struct config_draft *draft, struct config_origin origin,
                                                       struct definition_source *resource);

/* Tells a mistake, "belfryd: --log-bytes: ...", and returns BELFRY_ERR_INVALID. `row` NULL: of no key. */
__attribute__((format(printf, 4, 5))) enum belfry_err config_draft_wrong(const struct config_draft *draft,
                                                                         const struct belfry_opt_row *row,
                                                                         struct config_origin origin,
                                                                         const char *format, ...);

/* After a fault that was told: BELFRY_OK if the others are to be told, too. */
static inline enum belfry_err config_draft_go_on(const struct config_draft *draft, enum belfry_err err)
{
    return err == BELFRY_ERR_INVALID && draft->faults->wants_all ? BELFRY_OK : err;
}

/* Frees the texts or the list of `key`, which is then without a value. */
void config_drop(struct config *config, enum config_key key);

#endif
