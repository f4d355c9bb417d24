/* src/client/opts.c */
#include "client/opts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/secret.h"

static const struct row {
    const char *name;
    enum belfry_opt_kind kind;
    unsigned where;
    int64_t number;
    const char *words;
} table[] = {
#define ROW(id, name, kind, where, value, words) [BELFRY_OPT_##id] = {name, BELFRY_OPT_##kind, where, value, words},
    BELFRY_OPT_TABLE(ROW)
#undef ROW
};

struct belfry_opts {
    struct {
        bool set;
        int64_t number;
        char *text; /* owned; one of them is a password, so all are wiped */
    } values[BELFRY_OPT_END_];
    /* Behind the options, not in them: a call that only reads them can still say which of them it refuses. */
    char *why;
};
#define WHY_BYTES 200

struct unit {
    const char *name;
    int64_t factor;
};
static const struct unit times[] = {{"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}, {NULL, 0}};
static const struct unit sizes[] = {{"", 1},          {"B", 1},           {"KiB", 1 << 10},
                                    {"MiB", 1 << 20}, {"GiB", 1 << 30},   {"KB", 1000},
                                    {"MB", 1000000},  {"GB", 1000000000}, {NULL, 0}};
static const struct unit plain[] = {{"", 1}, {NULL, 0}};

static bool parse_number(const char *text, const struct unit *units, int64_t *out)
{
    char *end;
    if (*text < '0' || *text > '9') /* strtoll would take blanks and signs */
        return false;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    if (errno != 0)
        return false;
    for (const struct unit *unit = units; unit->name != NULL; unit++) {
        if (strcmp(end, unit->name) == 0 && number <= INT64_MAX / unit->factor) {
            *out = number * unit->factor;
            return true;
        }
    }
    return false;
}

/* Milliseconds are handed on as 32 bits. */
static bool parse_time(const char *text, int64_t *out)
{
    return parse_number(text, times, out) && *out <= INT32_MAX;
}

static bool parse_flag(const char *text, int64_t *out)
{
    bool yes = strcmp(text, "true") == 0 || strcmp(text, "1") == 0;
    if (!yes && strcmp(text, "false") != 0 && strcmp(text, "0") != 0)
        return false;
    *out = yes;
    return true;
}

static bool parse_word(const char *text, const char *words, int64_t *out)
{
    size_t len = strlen(text);
    for (int64_t i = 0; *words != '\0' && len > 0; i++) {
        size_t word = strcspn(words, " ");
        if (word == len && memcmp(words, text, len) == 0) {
            *out = i;
            return true;
        }
        words += word + (words[word] == ' ');
    }
    return false;
}

static bool parse(const struct row *row, const char *text, int64_t *out)
{
    switch (row->kind) {
    case BELFRY_OPT_TEXT:
        *out = 0;
        return true;
    case BELFRY_OPT_FLAG:
        return parse_flag(text, out);
    case BELFRY_OPT_NUMBER:
        return parse_number(text, plain, out);
    case BELFRY_OPT_TIME:
        return parse_time(text, out);
    case BELFRY_OPT_SIZE:
        return parse_number(text, sizes, out);
    case BELFRY_OPT_WORD:
        return parse_word(text, row->words, out);
    }
    return false;
}

static const char *takes(const struct row *row)
{
    switch (row->kind) {
    case BELFRY_OPT_TEXT:
        return "text";
    case BELFRY_OPT_FLAG:
        return "true or false";
    case BELFRY_OPT_NUMBER:
        return "a number from 0 up";
    case BELFRY_OPT_TIME:
        return "a duration with a unit, at most 24 days: 500ms, 10s, 1m";
    case BELFRY_OPT_SIZE:
        return "a size: 65536, 64KiB, 1MiB";
    case BELFRY_OPT_WORD:
        return row->words;
    }
    return "";
}

static int find(const char *name)
{
    for (int i = 0; i < BELFRY_OPT_END_; i++) {
        if (strcmp(table[i].name, name) == 0)
            return i;
    }
    return -1;
}

static struct belfry_opts *create(void)
{
    struct belfry_opts *opts = calloc(1, sizeof(*opts) + WHY_BYTES);
    if (opts != NULL)
        opts->why = (char *)(opts + 1);
    return opts;
}

int belfry_opts_set(struct belfry_opts **opts, const char *name, const char *value)
{
    if (*opts == NULL && (*opts = create()) == NULL)
        return BELFRY_ERR_NOMEM;
    struct belfry_opts *o = *opts;
    o->why[0] = '\0';
    int i = find(name);
    if (i < 0) {
        snprintf(o->why, WHY_BYTES, "there is no option %.60s", name);
        return BELFRY_ERR_INVALID;
    }
    const char *text = value != NULL ? value : "true";
    int64_t number;
    if ((value == NULL && table[i].kind != BELFRY_OPT_FLAG) || !parse(&table[i], text, &number)) {
        snprintf(o->why, WHY_BYTES, "option %s cannot be '%.40s': it takes %s", name, text, takes(&table[i]));
        return BELFRY_ERR_INVALID;
    }
    char *copy = strdup(text);
    if (copy == NULL)
        return BELFRY_ERR_NOMEM;
    belfry_secret_free(o->values[i].text);
    o->values[i].text = copy;
    o->values[i].number = number;
    o->values[i].set = true;
    return BELFRY_OK;
}

const char *belfry_opts_why(const struct belfry_opts *opts)
{
    return opts == NULL ? "" : opts->why;
}

void belfry_opts_free(struct belfry_opts *opts)
{
    if (opts == NULL)
        return;
    for (int i = 0; i < BELFRY_OPT_END_; i++)
        belfry_secret_free(opts->values[i].text);
    free(opts);
}

bool belfry_opts_fit(const struct belfry_opts *opts, unsigned where)
{
    for (int i = 0; opts != NULL && i < BELFRY_OPT_END_; i++) {
        if (opts->values[i].set && (table[i].where & where) == 0) {
            snprintf(opts->why, WHY_BYTES, "option %s is not for this call", table[i].name);
            return false;
        }
    }
    return true;
}

int64_t belfry_opts_number(const struct belfry_opts *opts, enum belfry_opt opt)
{
    return belfry_opts_is_set(opts, opt) ? opts->values[opt].number : table[opt].number;
}

bool belfry_opts_is_set(const struct belfry_opts *opts, enum belfry_opt opt)
{
    return opts != NULL && opts->values[opt].set;
}

const char *belfry_opts_text(const struct belfry_opts *opts, enum belfry_opt opt)
{
    return belfry_opts_is_set(opts, opt) ? opts->values[opt].text : NULL;
}
