/* src/cli/txn_script.c */
#include "cli/txn_script.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/opts.h"
#include "cli/out/quoted.h"
#include "cli/range_args.h"

#define WORDS_MAX 64 /* of a line; every flag of a get, each with a word of its own, are half of that */

__attribute__((format(printf, 2, 3))) static enum belfry_err wrong(char *why, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(why, FLAGS_WHY, format, args);
    va_end(args);
    return BELFRY_ERR_INVALID;
}

static char *skip_blanks(char *at)
{
    while (isspace((unsigned char)*at))
        at++;
    return at;
}

static char *trim(char *line)
{
    line = skip_blanks(line);
    for (size_t len = strlen(line); len > 0 && isspace((unsigned char)line[len - 1]); len--)
        line[len - 1] = '\0';
    return line;
}

/* ---- conditions ---- */

enum target { TARGET_VERSION, TARGET_CREATE, TARGET_MOD, TARGET_VALUE, TARGET_LEASE };

static const struct {
    const char *name;
    enum target target;
} targets[] = {{"ver", TARGET_VERSION},   {"version", TARGET_VERSION}, {"c", TARGET_CREATE},
               {"create", TARGET_CREATE}, {"m", TARGET_MOD},           {"mod", TARGET_MOD},
               {"val", TARGET_VALUE},     {"value", TARGET_VALUE},     {"lease", TARGET_LEASE}};

/* A condition on its way from the line. */
struct condition {
    enum target target;
    char *key, *value;
    char is; /* as belfry_txn_if_*() wants it */
};

static bool find_target(const char *name, size_t len, enum target *out)
{
    for (size_t i = 0; i < sizeof(targets) / sizeof(targets[0]); i++)
        if (strlen(targets[i].name) == len && memcmp(targets[i].name, name, len) == 0) {
            *out = targets[i].target;
            return true;
        }
    return false;
}

/* = != < > at *at. */
static bool find_comparison(char **at, char *out)
{
    size_t len = **at == '!' ? 2 : 1;
    if (strchr("=<>!", **at) == NULL || **at == '\0' || (len == 2 && (*at)[1] != '='))
        return false;
    *out = **at;
    *at += len;
    return true;
}

static enum belfry_err read_condition(char *at, struct condition *out, char *why)
{
    static const char form[] = "write it as mod(\"key\") > \"0\"";
    size_t len = strcspn(at, "( \t");
    if (!find_target(at, len, &out->target))
        return wrong(why,
                     "'%.*s' is nothing to compare: it is one of ver, create, mod, val and lease, as in "
                     "mod(\"key\") > \"0\"",
                     (int)(len < 40 ? len : 40), at);
    at = skip_blanks(at + len);
    if (*at != '(')
        return wrong(why, "'(' is missing: %s", form);
    at = skip_blanks(at + 1);
    if (quoted_read(&at, &out->key) != BELFRY_OK)
        return wrong(why, "the key must be in quotes: %s", form);
    at = skip_blanks(at);
    if (*at != ')')
        return wrong(why, "')' is missing: %s", form);
    at = skip_blanks(at + 1);
    if (!find_comparison(&at, &out->is))
        return wrong(why, "the comparison is one of = != < >: %s", form);
    at = skip_blanks(at);
    if (quoted_read(&at, &out->value) != BELFRY_OK)
        return wrong(why, "what is compared with must be in quotes: %s", form);
    return *skip_blanks(at) == '\0' ? BELFRY_OK : wrong(why, "there is more on the line than a condition: %s", form);
}

static bool to_number(const char *text, int base, int64_t *out)
{
    char *end;
    if (isspace((unsigned char)*text) || *text == '\0')
        return false;
    errno = 0;
    *out = strtoll(text, &end, base);
    return errno == 0 && *end == '\0';
}

static enum belfry_err take_condition(struct txn_script *script, char *line, char *why)
{
    struct condition c = {.key = NULL};
    int64_t number = 0;
    enum belfry_err err = read_condition(line, &c, why);
    if (err != BELFRY_OK)
        return err;
    if (c.target != TARGET_VALUE && !to_number(c.value, c.target == TARGET_LEASE ? 16 : 10, &number))
        return wrong(why, "'%.60s' is not a number", c.value);
    struct belfry_bytes key = belfry_text(c.key);
    switch (c.target) {
    case TARGET_VERSION:
        belfry_txn_if_version(script->txn, key, c.is, number);
        break;
    case TARGET_CREATE:
        belfry_txn_if_create_rev(script->txn, key, c.is, number);
        break;
    case TARGET_MOD:
        belfry_txn_if_mod_rev(script->txn, key, c.is, number);
        break;
    case TARGET_VALUE:
        belfry_txn_if_value(script->txn, key, c.is, belfry_text(c.value));
        break;
    case TARGET_LEASE:
        belfry_txn_if_lease(script->txn, key, c.is, number);
        break;
    }
    return BELFRY_OK;
}

/* ---- steps ---- */

/* The word at *at, cut from the line; NULL with *at on the end. */
static enum belfry_err cut_word(char **at, char **out, char *why)
{
    char *start = *at = skip_blanks(*at);
    *out = NULL;
    if (*start == '\0')
        return BELFRY_OK;
    if (*start == '"')
        return quoted_read(at, out) == BELFRY_OK ? BELFRY_OK
                                                 : wrong(why, "a string in \" is not right, or does not end");
    bool quoted = *start == '\'';
    char *end = quoted ? strchr(start + 1, '\'') : start + strcspn(start, " \t\r\n\v\f");
    if (end == NULL)
        return wrong(why, "a string in ' does not end");
    *out = start + quoted;
    *at = *end == '\0' ? end : end + 1;
    *end = '\0';
    return BELFRY_OK;
}

static enum belfry_err cut_words(char *line, char *words[WORDS_MAX], int *n, char *why)
{
    for (char *at = line;; (*n)++) {
        char *word;
        enum belfry_err err = cut_word(&at, &word, why);
        if (err != BELFRY_OK || word == NULL)
            return err;
        if (*n == WORDS_MAX)
            return wrong(why, "there are too many words on the line");
        words[*n] = word;
    }
}

static char *no_environment(const char *name)
{
    (void)name;
    return NULL;
}

/* What a step may be, of all that flags_parse() takes. */
static enum belfry_err check_step(const struct flags *flags, char *why)
{
    bool put = flags->command == CMD_PUT, ignore_value = flags_on(flags, FLAG_IGNORE_VALUE);
    if (flags->command != CMD_GET && flags->command != CMD_DEL && !put)
        return wrong(why, "a transaction knows get, put and del");
    for (size_t i = 0; i < flag_table.n_rows; i++)
        if (flag_table.rows[i].on == 0 && flags_given(flags, (enum flag)flag_table.rows[i].id))
            return wrong(why, "--%s is for the command line of belfryctl, not for a request", flag_table.rows[i].name);
    if (put && flags->n_args != (ignore_value ? 1 : 2))
        return wrong(why, ignore_value ? "--ignore-value keeps the value: leave out VALUE" : "put needs KEY and VALUE");
    if (put && flags->args[0][0] == '\0')
        return wrong(why, "the key is empty: etcd has no such key");
    return BELFRY_OK;
}

static enum belfry_err note_step(struct txn_script *script, enum belfry_branch branch, const struct flags *flags,
                                 char *why)
{
    size_t n = script->steps[branch].n;
    if (n == TXN_SCRIPT_STEPS)
        return wrong(why, "there are more than %d requests", TXN_SCRIPT_STEPS);
    struct txn_step *list = realloc(script->steps[branch].list, (n + 1) * sizeof(*list));
    if (list == NULL)
        return BELFRY_ERR_NOMEM;
    script->steps[branch].list = list;
    list[n] = (struct txn_step){flags->command, strdup(flags->args[0])};
    if (list[n].key == NULL)
        return BELFRY_ERR_NOMEM;
    script->steps[branch].n++;
    return BELFRY_OK;
}

static enum belfry_err add_step(struct txn_script *script, const struct flags *flags, char *why)
{
    enum belfry_branch branch = script->stage == TXN_THEN ? BELFRY_THEN : BELFRY_ELSE;
    struct belfry_opts *opts = NULL;
    struct belfry_range range;
    enum belfry_err err = check_step(flags, why);
    if (err == BELFRY_OK && flags->command != CMD_PUT)
        err = range_of_flags(flags, &range, why);
    if (err == BELFRY_OK)
        err = opts_fill(flags, TAKER_CALL, &opts, why);
    if (err == BELFRY_OK)
        err = note_step(script, branch, flags, why);
    if (err == BELFRY_OK && flags->command == CMD_PUT)
        belfry_txn_put_with(script->txn, branch, belfry_text(flags->args[0]),
                            belfry_text(flags->n_args > 1 ? flags->args[1] : ""), opts);
    else if (err == BELFRY_OK && flags->command == CMD_GET)
        belfry_txn_get_with(script->txn, branch, range, opts);
    else if (err == BELFRY_OK)
        belfry_txn_del_with(script->txn, branch, range, opts);
    belfry_opts_free(opts);
    return err;
}

static enum belfry_err take_step(struct txn_script *script, char *line, char *why)
{
    char *words[1 + WORDS_MAX] = {line}; /* the first is where a program has its name */
    struct flags flags;
    int n = 0;
    enum belfry_err err = cut_words(line, words + 1, &n, why);
    if (err != BELFRY_OK)
        return err;
    err = flags_parse(1 + n, words, no_environment, &flags, why);
    if (err == BELFRY_OK)
        err = add_step(script, &flags, why);
    flags_fini(&flags);
    return err;
}

/* ---- the whole ---- */

static enum belfry_err take(struct txn_script *script, char *line, char *why)
{
    char said[64], inner[FLAGS_WHY];
    snprintf(said, sizeof(said), "%.60s", line); /* before it is spoilt */
    enum belfry_err err =
        script->stage == TXN_CONDITIONS ? take_condition(script, line, inner) : take_step(script, line, inner);
    if (err == BELFRY_ERR_INVALID)
        wrong(why, "%s: %.240s", said, inner);
    return err;
}

enum belfry_err txn_script_line(struct txn_script *script, char *line, char *why)
{
    line = trim(line);
    if (script->stage == TXN_DONE)
        return wrong(why, "there is more than conditions and two lists of requests");
    if (script->txn == NULL && (script->txn = belfry_txn_create()) == NULL)
        return BELFRY_ERR_NOMEM;
    if (*line != '\0')
        return take(script, line, why);
    script->stage++;
    return BELFRY_OK;
}

void txn_script_fini(struct txn_script *script)
{
    for (int branch = 0; branch < 2; branch++) {
        for (size_t i = 0; i < script->steps[branch].n; i++)
            free(script->steps[branch].list[i].key);
        free(script->steps[branch].list);
    }
    belfry_txn_free(script->txn);
    *script = (struct txn_script){.stage = TXN_CONDITIONS};
}
