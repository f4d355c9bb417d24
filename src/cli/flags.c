/* src/cli/flags.c */
#include "cli/flags.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cli/suggest.h"

#define DURATION_MS_MAX INT64_C(2147483647) /* what poll(2) can wait: 24 days */

/* What the parser is in the middle of. */
struct parser {
    struct flags *flags;
    char *why;
    const struct flag_row *seen[N_FLAGS]; /* any row of each flag that the command line gave */
    int argc;
    char *const *argv;
    int at;             /* the next word of argv */
    const char *prefix; /* --prefix=KEY; NULL: written otherwise */
};

__attribute__((format(printf, 2, 3))) static enum belfry_err wrong(char *why, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(why, FLAGS_WHY, format, args);
    va_end(args);
    return BELFRY_ERR_INVALID;
}

const struct flag_row *flags_row(enum flag id, enum command command)
{
    for (size_t i = 0; i < n_flag_rows; i++)
        if (flag_rows[i].id == id && (flag_rows[i].commands & ON(command)) != 0)
            return &flag_rows[i];
    return NULL;
}

static const struct flag_row *row_by_name(const char *name, size_t len)
{
    for (size_t i = 0; i < n_flag_rows; i++)
        if (strlen(flag_rows[i].name) == len && memcmp(flag_rows[i].name, name, len) == 0)
            return &flag_rows[i];
    return NULL;
}

static const struct flag_row *row_by_letter(char letter)
{
    for (size_t i = 0; i < n_flag_rows; i++)
        if (flag_rows[i].letter == letter)
            return &flag_rows[i];
    return NULL;
}

/* ---- values ---- */

static int bool_of(const char *text)
{
    static const char *const on[] = {"1", "t", "T", "true", "TRUE", "True"};
    static const char *const off[] = {"0", "f", "F", "false", "FALSE", "False"};
    for (size_t i = 0; i < sizeof(on) / sizeof(on[0]); i++) {
        if (strcmp(text, on[i]) == 0)
            return 1;
        if (strcmp(text, off[i]) == 0)
            return 0;
    }
    return -1;
}

static bool is_number(const char *text, int base)
{
    if (!isxdigit((unsigned char)text[0])) /* strtoll would take blanks and signs */
        return false;
    char *end;
    errno = 0;
    (void)strtoll(text, &end, base);
    return errno == 0 && *end == '\0';
}

static const struct {
    const char *name;
    double ms;
} units[] = {{"ms", 1}, {"us", 1e-3}, {"ns", 1e-6}, {"s", 1e3}, {"m", 6e4}, {"h", 3.6e6}};

enum belfry_err flags_parse_duration(const char *text, int64_t *out_ms)
{
    double total = 0;
    if (*text == '\0')
        return BELFRY_ERR_INVALID;
    while (*text != '\0') {
        if (!isdigit((unsigned char)*text)) /* strtod would take signs, "inf" and "nan" */
            return BELFRY_ERR_INVALID;
        char *end;
        double number = strtod(text, &end);
        size_t len = strspn(end, "abcdefghijklmnopqrstuvwxyz"), i = 0;
        while (i < sizeof(units) / sizeof(units[0]) &&
               (strlen(units[i].name) != len || memcmp(units[i].name, end, len) != 0))
            i++;
        if (i == sizeof(units) / sizeof(units[0]))
            return BELFRY_ERR_INVALID;
        total += number * units[i].ms;
        text = end + len;
    }
    if (!(total <= (double)DURATION_MS_MAX))
        return BELFRY_ERR_INVALID;
    *out_ms = (int64_t)total;
    return BELFRY_OK;
}

static bool is_choice(const char *choices, const char *text)
{
    size_t len = strlen(text);
    for (const char *at = choices; *at != '\0' && len > 0;) {
        size_t n = strcspn(at, "|");
        if (n == len && strncasecmp(at, text, n) == 0)
            return true;
        at += n + (at[n] == '|');
    }
    return false;
}

/* `label` is the flag as the user wrote it: --rev, -w, or the name of a variable. */
static enum belfry_err check_value(const struct flag_row *row, const char *label, const char *text, char *why)
{
    int64_t ms;
    switch (row->kind) {
    case KIND_BOOL:
    case KIND_REFUSED: /* where the command is known */
        return bool_of(text) >= 0 ? BELFRY_OK : wrong(why, "%s: '%s' is neither true nor false", label, text);
    case KIND_NUMBER:
        return is_number(text, 10) ? BELFRY_OK : wrong(why, "%s: '%s' is not a number", label, text);
    case KIND_HEX:
        return is_number(text, 16)
                   ? BELFRY_OK
                   : wrong(why, "%s: '%s' is not a lease in hexadecimal digits, as etcdctl prints them", label, text);
    case KIND_DURATION:
        return flags_parse_duration(text, &ms) == BELFRY_OK
                   ? BELFRY_OK
                   : wrong(why, "%s: '%s' is not a time: write 500ms, 5s or 1m30s", label, text);
    case KIND_CHOICE:
        return is_choice(row->choices, text) ? BELFRY_OK
                                             : wrong(why, "%s: '%s' is not one of %s", label, text, row->choices);
    case KIND_TEXT:
    case KIND_LIST:
    case KIND_SIZE:
        return BELFRY_OK;
    }
    return BELFRY_OK;
}

static enum belfry_err join(struct flags *flags, const char *more)
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

static enum belfry_err set(struct parser *p, const struct flag_row *row, const char *label, const char *text)
{
    struct flags *flags = p->flags;
    enum belfry_err err = check_value(row, label, text, p->why);
    if (err != BELFRY_OK)
        return err;
    bool again = flags->source[row->id] == FROM_COMMAND_LINE;
    p->seen[row->id] = row;
    if (row->kind == KIND_LIST && again)
        return join(flags, text);
    flags->value[row->id] = text;
    flags->source[row->id] = FROM_COMMAND_LINE;
    return BELFRY_OK;
}

/* ---- the command line ---- */

static enum belfry_err unknown_flag(const struct parser *p, const char *word, size_t len)
{
    char name[SUGGEST_MAX + 1];
    snprintf(name, sizeof(name), "%.*s", (int)(len < SUGGEST_MAX ? len : SUGGEST_MAX), word);
    const char *best = NULL;
    for (size_t i = 0; i < n_flag_rows; i++)
        suggest_consider(name, flag_rows[i].name, &best);
    if (best != NULL)
        return wrong(p->why, "unknown flag --%s: did you mean --%s?", name, best);
    return wrong(p->why, "unknown flag --%s: 'belfryctl help' lists them", name);
}

static enum belfry_err take_value(struct parser *p, const struct flag_row *row, const char *label, const char *attached)
{
    if (attached != NULL && row->id == FLAG_PREFIX && bool_of(attached) < 0) {
        p->prefix = attached; /* whether it may be written so depends on the command, which may not be known yet */
        attached = "true";
    }
    if (attached != NULL)
        return set(p, row, label, attached);
    if (row->kind == KIND_BOOL || row->kind == KIND_REFUSED)
        return set(p, row, label, "true");
    if (p->at == p->argc)
        return wrong(p->why, "%s needs a value: %s %s", label, label, row->value_name);
    const char *next = p->argv[p->at++];
    if (strncmp(next, "--", 2) == 0) /* rather a value that was forgotten */
        return wrong(p->why, "%s needs a value, and %.48s looks like a flag: %s %s, or %s=%.48s if it is meant", label,
                     next, label, row->value_name, label, next);
    return set(p, row, label, next);
}

static enum belfry_err take_long(struct parser *p, const char *word)
{
    size_t len = strcspn(word, "=");
    const struct flag_row *row = row_by_name(word, len);
    if (row == NULL)
        return unknown_flag(p, word, len);
    char label[SUGGEST_MAX];
    snprintf(label, sizeof(label), "--%s", row->name);
    return take_value(p, row, label, word[len] == '=' ? word + len + 1 : NULL);
}

/* -h -w json -wjson -w=json; letters without values may stand together. */
static enum belfry_err take_letters(struct parser *p, const char *word)
{
    for (const char *at = word; *at != '\0'; at++) {
        const struct flag_row *row = row_by_letter(*at);
        if (row == NULL)
            return wrong(p->why, "unknown flag -%c: 'belfryctl help' lists them", *at);
        char label[3] = {'-', *at, '\0'};
        bool takes_value = row->kind != KIND_BOOL && row->kind != KIND_REFUSED;
        const char *rest = at[1] == '=' ? at + 2 : at + 1;
        bool attached = at[1] == '=' || (takes_value && at[1] != '\0');
        enum belfry_err err = take_value(p, row, label, attached ? rest : NULL);
        if (err != BELFRY_OK || attached || takes_value)
            return err;
    }
    return BELFRY_OK;
}

static enum command command_by_name(const char *name)
{
    for (enum command c = CMD_NONE + 1; c < N_COMMANDS; c++)
        if (strcmp(command_rows[c].name, name) == 0)
            return c;
    return CMD_NONE;
}

enum belfry_err flags_find_command(const char *word, enum command *out, char *why)
{
    enum command found = command_by_name(word);
    if (found != CMD_NONE) {
        *out = found;
        return BELFRY_OK;
    }
    const char *best = NULL;
    for (enum command c = CMD_NONE + 1; c < N_COMMANDS; c++)
        suggest_consider(word, command_rows[c].name, &best);
    if (best != NULL)
        return wrong(why, "unknown command '%.48s': did you mean %s?", word, best);
    return wrong(why, "unknown command '%.48s': 'belfryctl help' lists them", word);
}

static enum belfry_err take_plain(struct parser *p, const char *word)
{
    if (p->flags->command == CMD_NONE)
        return flags_find_command(word, &p->flags->command, p->why);
    p->flags->args[p->flags->n_args++] = word;
    return BELFRY_OK;
}

static enum belfry_err take_words(struct parser *p)
{
    bool flags_ended = false;
    enum belfry_err err = BELFRY_OK;
    while (p->at < p->argc && err == BELFRY_OK) {
        const char *word = p->argv[p->at++];
        if (flags_ended || word[0] != '-' || word[1] == '\0') {
            err = take_plain(p, word);
            if (!flags_ended)
                p->flags->n_args_plain = p->flags->n_args;
        } else if (strcmp(word, "--") == 0) {
            flags_ended = true;
        } else if (word[1] == '-') {
            err = take_long(p, word + 2);
        } else {
            err = take_letters(p, word + 1);
        }
    }
    return err;
}

/* ---- the whole ---- */

void flags_env_name(const char *before, const char *name, char out[FLAGS_ENV_NAME])
{
    snprintf(out, FLAGS_ENV_NAME, "%s%s", before, name);
    for (char *at = out; *at != '\0'; at++)
        *at = *at == '-' ? '_' : (char)toupper((unsigned char)*at);
}

static const char *from_environment(flags_getenv_fn env, const char *name, char label[FLAGS_ENV_NAME])
{
    static const char *const before[] = {"BELFRYCTL_", "ETCDCTL_"};
    for (size_t i = 0; i < sizeof(before) / sizeof(before[0]); i++) {
        flags_env_name(before[i], name, label);
        const char *value = env(label);
        if (value != NULL && *value != '\0')
            return value;
    }
    return NULL;
}

static enum belfry_err fill_the_rest(struct flags *flags, flags_getenv_fn env, char *why)
{
    for (size_t i = 0; i < n_flag_rows; i++) {
        const struct flag_row *row = &flag_rows[i];
        if (flags->source[row->id] != FROM_DEFAULT || (row->commands & ON(flags->command)) == 0)
            continue;
        char label[FLAGS_ENV_NAME];
        bool listens = row->id != FLAG_HELP && row->kind != KIND_REFUSED;
        const char *value = listens ? from_environment(env, row->name, label) : NULL;
        flags->value[row->id] = value != NULL ? value : row->fallback;
        if (value == NULL)
            continue;
        flags->source[row->id] = FROM_ENVIRONMENT;
        enum belfry_err err = check_value(row, label, value, why);
        if (err != BELFRY_OK)
            return err;
    }
    return BELFRY_OK;
}

static enum belfry_err check_flags_fit(const struct parser *p)
{
    enum command command = p->flags->command;
    for (size_t i = 0; i < N_FLAGS; i++) {
        const struct flag_row *seen = p->seen[i], *row = seen != NULL ? flags_row((enum flag)i, command) : NULL;
        if (seen != NULL && row == NULL)
            return wrong(p->why, "%s has no --%s: see 'belfryctl help %s'", command_rows[command].name, seen->name,
                         command_rows[command].name);
        if (row != NULL && row->kind == KIND_REFUSED)
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
    const struct command_row *row = &command_rows[flags->command];
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
    struct parser p = {.flags = out, .why = why, .argc = argc, .argv = argv, .at = argc > 0 ? 1 : 0};
    out->args = calloc((size_t)argc + 1, sizeof(*out->args));
    if (out->args == NULL)
        return BELFRY_ERR_NOMEM;

    enum belfry_err err = take_words(&p);
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
    return flags->value[id] != NULL && bool_of(flags->value[id]) == 1;
}

bool flags_given(const struct flags *flags, enum flag id)
{
    return flags->source[id] != FROM_DEFAULT;
}

int64_t flags_number(const struct flags *flags, enum flag id)
{
    return flags->value[id] == NULL ? 0 : strtoll(flags->value[id], NULL, 10);
}

int64_t flags_ms(const struct flags *flags, enum flag id)
{
    int64_t ms = 0;
    enum belfry_err err = flags->value[id] == NULL ? BELFRY_OK : flags_parse_duration(flags->value[id], &ms);
    assert(err == BELFRY_OK); /* checked when it was read */
    (void)err;
    return ms;
}
