/* src/opt/options.h
 *
 * options: every option of a program, each in one row of a table. Flags (opt/command_line.h), names in the
 * environment, keys of a file, --help (opt/help.h), man pages (opt/man.h) and shell completion (opt/completion.h)
 * all come from it; so does what a value may be, and the sentence about one that it may not be.
 *
 * Thread: any. Pure; tables are constants.
 */
#ifndef BELFRY_OPT_OPTIONS_H
#define BELFRY_OPT_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <belfry/err.h>

#include "opt/value.h"

enum belfry_opt_kind {
    BELFRY_KIND_BARE,         /* takes no value */
    BELFRY_KIND_BOOL,         /* alone it is true; --name=false */
    BELFRY_KIND_REFUSED,      /* a BOOL that another program has and this one refuses; help says what to do instead */
    BELFRY_KIND_TEXT,         /* anything */
    BELFRY_KIND_LIST,         /* items with commas between them; given again it adds to them */
    BELFRY_KIND_WORDS,        /* an item; given again it adds one; the environment has blanks between them */
    BELFRY_KIND_COUNT,        /* a whole number */
    BELFRY_KIND_HEX,          /* one in hexadecimal digits */
    BELFRY_KIND_MS,           /* a time, in milliseconds */
    BELFRY_KIND_SECONDS,      /* a time, in whole seconds */
    BELFRY_KIND_SIZE,         /* in bytes */
    BELFRY_KIND_SIZE_DECIMAL, /* the same, which also takes KB, MB and GB */
    BELFRY_KIND_CHOICE        /* its place among `choices` */
};

struct belfry_opt_row {
    unsigned id;      /* the program's own number for it */
    const char *name; /* without dashes: of the flag and of the key in a file */
    char letter;      /* of a short flag; 0: none */
    enum belfry_opt_kind kind;
    const char *value_name; /* FILE; NULL: takes no value, or need not */
    const char *choices;    /* "a|b": of a CHOICE all that it takes, of another kind what completion offers */
    uint64_t least, most;   /* of a number, in the unit of its kind; most 0: INT64_MAX */
    const char *fallback;   /* the default as one would write it; NULL: none, or found out at run time */
    const char *described;  /* the default in words; NULL: fallback says it */
    unsigned on;            /* bits 1u << command: the commands that have it; 0: all */
    unsigned taker;         /* the program's own: which part of it takes the value */
    bool line_only;         /* of the command line alone: no key of a file */
    size_t offset, width;   /* where the program's struct has the number, and its bytes; width 0: nowhere */
    const char *group;      /* the heading that begins here; NULL: that of the row before */
    const char *help;       /* one line, which begins with a small letter and ends without a stop */
    const char *more;       /* further sentences of the man page; NULL: none */
};

struct belfry_opt_command {
    const char *name;
    const char *arguments; /* for the usage line; "" is none */
    size_t min_args, max_args;
    const char *words;   /* "a|b": what its first argument may be; NULL: anything */
    const char *summary; /* as belfry_opt_row.help */
    const char *notes;   /* paragraphs of --help, lines under 80 columns; NULL: none */
    const char *more;    /* further paragraphs of the man page, with blank lines between them; NULL: none */
    const char *example; /* lines of --help; NULL: none */
};

/* What may follow the value of an option, each after a comma: URL,NAME=VALUE,... In a file the item is then a map. */
struct belfry_opt_parts {
    const char *of;                    /* the option */
    const char *heading;               /* in --help */
    const struct belfry_opt_row *rows; /* the first is what stands before the first comma */
    size_t n_rows;
};

/* Several rows may have one name, for different commands: with the same id, letter and kind (but where it is
 * refused). */
struct belfry_opt_table {
    const char *program;
    const char *ask;    /* what shows all flags: "belfryctl help" */
    const char *env[2]; /* what names in the environment begin with, the first that is set wins; NULL: none */
    const struct belfry_opt_row *rows;
    size_t n_rows;
    const struct belfry_opt_command *commands; /* the first stands for none, and is called ""; NULL: there are none */
    size_t n_commands;
    const struct belfry_opt_parts *parts;
    size_t n_parts;
    const char *about; /* the first lines of --help */
    const char *end;   /* its last lines */
};

/* The first row of this name. NULL: there is none; *nearest is then the name that was probably meant, or NULL. */
const struct belfry_opt_row *belfry_opt_find(const struct belfry_opt_row *rows, size_t n_rows, const char *name,
                                             size_t len, const char **nearest);

/* Does `command` have it? */
static inline bool belfry_opt_is_on(const struct belfry_opt_row *row, unsigned command)
{
    return row->on == 0 || (row->on & 1u << command) != 0;
}

#define BELFRY_OPT_WHY   320
#define BELFRY_OPT_SHOWN 64 /* bytes of a wrong value that a sentence repeats */

/* Reads a value; *out is its number (a BOOL's is 0 or 1, a text's 0).
 * Errors: BELFRY_ERR_INVALID (why[0, BELFRY_OPT_WHY) says what would do, without the name of the option). */
BELFRY_NODISCARD enum belfry_err belfry_opt_read(const struct belfry_opt_row *row, const char *text, uint64_t *out,
                                                 char *why);
/* The number as one would write it. */
void belfry_opt_write(const struct belfry_opt_row *row, uint64_t number, char out[BELFRY_VALUE_MAX]);

/* The number in the program's struct. The row must have a place in it. */
void belfry_opt_store(const struct belfry_opt_row *row, void *in, uint64_t number);
uint64_t belfry_opt_load(const struct belfry_opt_row *row, const void *from);

/* "BELFRYD_" and "log-bytes": "BELFRYD_LOG_BYTES". */
#define BELFRY_OPT_ENV_NAME 64
void belfry_opt_env_name(const char *begin, const char *name, char out[BELFRY_OPT_ENV_NAME]);

/* The value that the environment has for the row; NULL: none. An empty variable counts as not set. `label` is then
 * the name that was found, else the last one looked for. */
const char *belfry_opt_env(const struct belfry_opt_table *table, const struct belfry_opt_row *row,
                           char *(*env)(const char *name), char label[BELFRY_OPT_ENV_NAME]);

#endif
