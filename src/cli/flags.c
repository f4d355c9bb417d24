/* src/cli/flags.c */
#include "cli/flags.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "opt/command_line.h"
#include "opt/nearest.h"

/* What the parser is in the middle of. */
struct parser {
    struct flags *flags;
    char *why;
    const struct belfry_opt_row *seen[N_FLAGS]; /* any row of each flag that the command line gave */
    const char *prefix;                         /* --prefix=KEY; NULL: written otherwise */
};

__attribute__((format(printf, 2, 3))) static enum belfry_err wrong(char *why, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(why, FLAGS_WHY, format, args);
    va_end(args);
    return BELFRY_ERR_INVALID;
}

const struct belfry_opt_row *flags_row(enum flag id, enum command command)
{
    for (size_t i = 0; i < flag_table.n_rows; i++)
        if (flag_table.rows[i].id == id && belfry_opt_is_on(&flag_table.rows[i], command))
            return &flag_table.rows[i];
    return NULL;
}

/* `label` is the flag as the user wrote it: --rev, -w, or the name of a variable. */
static enum belfry_err set_value(struct flags *flags, const struct belfry_opt_row *row, const char *label,
                                 const char *text, enum flag_source source, char *why)
{
    char sentence[FLAGS_WHY];
    if (belfry_opt_read(row, text, &flags->number[row->id], sentence) != BELFRY_OK)
        return wrong(why, "%.64s: %.240s", label, sentence);
    flags->value[row->id] = text;
    flags->source[row->id] = source;
    return BELFRY_OK;
}

static enum belfry_err join_endpoints(struct flags *flags, const char *more)
{
    const char *old = flags->value[FLAG_ENDPOINTS];
    size_t size = strlen(old) + 1 + strlen(more) + 1;
    char *joined = malloc(size);
    if (joined == NULL)
        return BELFRY_ERR_NOMEM;
    snprintf(joined, size, "%s,%s", old, more);
    free(flags->endpoints);
    flags->endpoints = joined;
    flags->value[FLAG_ENDPOINTS] = joined;
    return BELFRY_OK;
}

static enum belfry_err take_flag(struct parser *p, const struct belfry_opt_word *word)
{
    const struct belfry_opt_row *row = word->row;
    const char *text = word->text;
    bool ignored;
    if (row->id == FLAG_PREFIX && !belfry_value_bool(text, &ignored)) {
        p->prefix = text; /* whether it may be written so depends on the command, which may not be known yet */
        text = "true";
    }
    p->seen[row->id] = row;
    if (row->kind == BELFRY_KIND_LIST && p->flags->source[row->id] == FROM_COMMAND_LINE)
        return join_endpoints(p->flags, text);
    return set_value(p->flags, row, word->label, text, FROM_COMMAND_LINE, p->why);
}

enum belfry_err flags_find_command(const char *word, enum command *out, char *why)
{
    const char *nearest = NULL;
    for (enum command c = CMD_NONE + 1; c < N_COMMANDS; c++) {
        if (strcmp(command_rows[c].name, word) == 0) {
            *out = c;
            return BELFRY_OK;
        }
        belfry_nearest_consider(word, command_rows[c].name, &nearest);
    }
    if (nearest != NULL)
        return wrong(why, "unknown command '%.48s': did you mean %s?", word, nearest);
    return wrong(why, "unknown command '%.48s': 'belfryctl help' lists them", word);
}

static enum belfry_err take_argument(struct flags *flags, const char *word, bool plain, char *why)
{
    if (flags->command == CMD_NONE)
        return flags_find_command(word, &flags->command, why);
    flags->args[flags->n_args++] = word;
    if (plain)
        flags->n_args_plain = flags->n_args;
    return BELFRY_OK;
}

static enum belfry_err take_words(struct parser *p, struct belfry_opt_words *words)
{
    struct belfry_opt_word word;
    enum belfry_err err = BELFRY_OK;
    while (err == BELFRY_OK)
        switch (belfry_opt_words_next(words, &word, p->why)) {
        case BELFRY_FOUND_FLAG:
            err = take_flag(p, &word);
            break;
        case BELFRY_FOUND_ARGUMENT:
            err = take_argument(p->flags, word.text, !words->ended, p->why);
            break;
        case BELFRY_FOUND_END:
            return BELFRY_OK;
        case BELFRY_FOUND_WRONG:
            return BELFRY_ERR_INVALID;
        }
    return err;
}

/* ---- the whole ---- */

static enum belfry_err fill_the_rest(struct flags *flags, flags_getenv_fn env, char *why)
{
    enum belfry_err err = BELFRY_OK;
    for (size_t i = 0; i < flag_table.n_rows && err == BELFRY_OK; i++) {
        const struct belfry_opt_row *row = &flag_table.rows[i];
        if (flags->source[row->id] != FROM_DEFAULT || !belfry_opt_is_on(row, flags->command))
            continue;
        char label[BELFRY_OPT_ENV_NAME];
        bool listens = !row->line_only && row->kind != BELFRY_KIND_REFUSED;
        const char *value = listens ? belfry_opt_env(&flag_table, row, env, label) : NULL;
        if (value != NULL)
            err = set_value(flags, row, label, value, FROM_ENVIRONMENT, why);
        else if (row->fallback != NULL)
            err = set_value(flags, row, row->name, row->fallback, FROM_DEFAULT, why);
    }
    return err;
}

static enum belfry_err check_flags_fit(const struct parser *p)
{
    enum command command = p->flags->command;
    for (size_t i = 0; i < N_FLAGS; i++) {
        const struct belfry_opt_row *seen = p->seen[i], *row = seen != NULL ? flags_row((enum flag)i, command) : NULL;
        if (seen != NULL && row == NULL)
            return wrong(p->why, "%s has no --%s: see 'belfryctl help %s'", command_rows[command].name, seen->name,
                         command_rows[command].name);
        if (row != NULL && row->kind == BELFRY_KIND_REFUSED)
            return wrong(p->why, "-%c, --%s: %s", row->letter, row->name, row->help);
    }
    return BELFRY_OK;
}

/* --prefix is a flag, as in etcdctl, and KEY an argument; of verify --prefix=KEY is understood as well. */
static enum belfry_err place_prefix(const struct parser *p)
{
    if (p->prefix == NULL)
        return BELFRY_OK;
    if (p->flags->command != CMD_VERIFY)
        return wrong(p->why, "--prefix: '%s' is neither true nor false: write --prefix %s", p->prefix, p->prefix);
    p->flags->args[p->flags->n_args++] = p->prefix;
    return BELFRY_OK;
}

static enum belfry_err check_args(const struct flags *flags, char *why)
{
    const struct belfry_opt_command *row = &command_rows[flags->command];
    if (flags->n_args >= row->min_args && flags->n_args <= row->max_args)
        return BELFRY_OK;
    const char *problem = flags->n_args < row->min_args ? "needs more arguments" : "takes fewer arguments";
    return wrong(why, "%s %s: belfryctl %s%s%s", row->name, problem, row->name, *row->arguments ? " " : "",
                 row->arguments);
}

enum belfry_err flags_parse(int argc, char *const argv[], flags_getenv_fn env, struct flags *out, char *why)
{
    *out = (struct flags){.command = CMD_NONE};
    why[0] = '\0';
    struct parser p = {.flags = out, .why = why};
    struct belfry_opt_words words = {.table = &flag_table, .argc = argc, .argv = argv, .at = 1};
    out->args = calloc((size_t)argc + 1, sizeof(*out->args));
    if (out->args == NULL)
        return BELFRY_ERR_NOMEM;

    enum belfry_err err = take_words(&p, &words);
    if (err != BELFRY_OK || flags_on(out, FLAG_HELP))
        return err;
    if (out->command == CMD_NONE)
        return wrong(why, "a command is missing: 'belfryctl help' lists them");
    err = check_flags_fit(&p);
    if (err == BELFRY_OK)
        err = place_prefix(&p);
    if (err == BELFRY_OK)
        err = check_args(out, why);
    if (err == BELFRY_OK && out->command != CMD_HELP && out->command != CMD_VERSION)
        err = fill_the_rest(out, env, why);
    return err;
}

void flags_fini(struct flags *flags)
{
    free(flags->args);
    free(flags->endpoints);
    *flags = (struct flags){.command = CMD_NONE};
}

bool flags_on(const struct flags *flags, enum flag id)
{
    return flags->number[id] != 0;
}

bool flags_given(const struct flags *flags, enum flag id)
{
    return flags->source[id] != FROM_DEFAULT;
}

int64_t flags_number(const struct flags *flags, enum flag id)
{
    return (int64_t)flags->number[id];
}

int64_t flags_ms(const struct flags *flags, enum flag id)
{
    return (int64_t)flags->number[id];
}
