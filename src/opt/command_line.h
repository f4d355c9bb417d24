/* src/opt/command_line.h
 *
 * words: the words of a command line, one flag or argument at a time, by a table.
 *
 * --name value, --name=value, -w value, -w=value and -wvalue are all taken, as etcdctl takes them; letters without
 * values may stand together. Flags and arguments may be mixed in any order; "--" ends the flags. A value that begins
 * with two dashes must be attached: --name=--value. Otherwise it is taken for a flag whose predecessor lacks its
 * value.
 *
 * Values are not read here: a program may first have to know its command.
 *
 * Thread: owner. Pure. Memory: none; what is found is lent from argv.
 */
#ifndef BELFRY_OPT_COMMAND_LINE_H
#define BELFRY_OPT_COMMAND_LINE_H

#include "opt/options.h"

struct belfry_opt_words {
    /* set by the caller */
    const struct belfry_opt_table *table;
    int argc;
    char *const *argv;
    int at; /* the next word; 1 to begin with */
    /* zero to begin with */
    bool ended;          /* by "--" */
    const char *letters; /* the rest of a word such as -abc; NULL: none */
};

struct belfry_opt_word {
    const struct belfry_opt_row *row; /* of a flag: the first row of its name */
    const char *text;                 /* its value ("true" for a BOOL alone; NULL: a BARE has none), or the argument */
    char label[BELFRY_OPT_ENV_NAME];  /* the flag as it was written: --rev or -w */
};

enum belfry_opt_found {
    BELFRY_FOUND_FLAG,
    BELFRY_FOUND_ARGUMENT, /* a word that is no flag; "-" is one */
    BELFRY_FOUND_END,
    BELFRY_FOUND_WRONG /* why[0, BELFRY_OPT_WHY) names the flag and a remedy */
};

enum belfry_opt_found belfry_opt_words_next(struct belfry_opt_words *words, struct belfry_opt_word *out, char *why);

#endif
