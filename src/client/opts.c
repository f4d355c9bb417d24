/* src/client/opts.c */
#include "client/opts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/secret.h"
#include "client/why.h"

static const struct belfry_opt_row rows[] = {
#define ROW(id_, name_, kind_, where, value, choices_)                                                                 \
    [BELFRY_OPT_##id_] = {BELFRY_OPT_##id_,                                                                            \
                          name_,                                                                                       \
                          .kind = BELFRY_KIND_##kind_,                                                                 \
                          .on = where,                                                                                 \
                          .choices = choices_,                                                                         \
                          .most = BELFRY_KIND_##kind_ == BELFRY_KIND_MS ? INT32_MAX : INT64_MAX},
    BELFRY_OPT_TABLE(ROW)
#undef ROW
};

static const int64_t defaults[] = {
#define DEFAULT(id, name, kind, where, value, choices) [BELFRY_OPT_##id] = value,
    BELFRY_OPT_TABLE(DEFAULT)
#undef DEFAULT
};

#define WHY_BYTES (BELFRY_OPT_WHY + 64)

struct belfry_opts {
    struct {
        bool set;
        int64_t number;
        char *text; /* owned; wiped when freed, because some are secrets */
    } values[BELFRY_OPT_END_];
    /* Not part of the options: a call that only reads them can still record which one it rejects. */
    char *why;
};

static struct belfry_opts *create(void)
{
    struct belfry_opts *opts = calloc(1, sizeof(*opts) + WHY_BYTES);
    if (opts != NULL)
        opts->why = (char *)(opts + 1);
    return opts;
}

/* The row that accepts `value`, and its number; NULL: none, and o->why has the reason. */
static const struct belfry_opt_row *read_value(struct belfry_opts *o, const char *name, const char *value,
                                               uint64_t *number)
{
    const char *nearest;
    char sentence[BELFRY_OPT_WHY];
    const struct belfry_opt_row *row = belfry_opt_find(rows, BELFRY_OPT_END_, name, strlen(name), &nearest);
    if (row == NULL && nearest != NULL)
        snprintf(o->why, WHY_BYTES, "there is no option %.60s: did you mean %s?", name, nearest);
    else if (row == NULL)
        snprintf(o->why, WHY_BYTES, "there is no option %.60s", name);
    else if (value == NULL && row->kind != BELFRY_KIND_BOOL)
        snprintf(o->why, WHY_BYTES, "option %s needs a value", name);
    else if (belfry_opt_read(row, value == NULL ? "true" : value, number, sentence) != BELFRY_OK)
        snprintf(o->why, WHY_BYTES, "option %s: %s", row->name, sentence);
    else
        return row;
    return NULL;
}

static enum belfry_err set(struct belfry_opts **opts, const char *name, const char *value)
{
    if (*opts == NULL && (*opts = create()) == NULL)
        return BELFRY_ERR_NOMEM;
    struct belfry_opts *o = *opts;
    uint64_t number;
    o->why[0] = '\0';
    const struct belfry_opt_row *row = read_value(o, name, value, &number);
    if (row == NULL)
        return BELFRY_ERR_INVALID;
    char *copy = strdup(value == NULL ? "true" : value);
    if (copy == NULL)
        return BELFRY_ERR_NOMEM;
    belfry_secret_free(o->values[row->id].text);
    o->values[row->id].text = copy;
    o->values[row->id].number = (int64_t)number;
    o->values[row->id].set = true;
    return BELFRY_OK;
}

int belfry_opts_set(struct belfry_opts **opts, const char *name, const char *value)
{
    enum belfry_err err = set(opts, name, value);
    return belfry_why_unless_ok(NULL, err, belfry_opts_why(*opts));
}

int belfry_opts_set_int(struct belfry_opts **opts, const char *name, int64_t number)
{
    char text[32];
    const char *nearest;
    const struct belfry_opt_row *row = belfry_opt_find(rows, BELFRY_OPT_END_, name, strlen(name), &nearest);
    snprintf(text, sizeof(text), "%" PRId64 "%s", number, row != NULL && row->kind == BELFRY_KIND_MS ? "ms" : "");
    return belfry_opts_set(opts, name, text);
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
        if (opts->values[i].set && (rows[i].on & where) == 0) {
            snprintf(opts->why, WHY_BYTES, "option %s is not for this call", rows[i].name);
            return false;
        }
    }
    return true;
}

int64_t belfry_opts_number(const struct belfry_opts *opts, enum belfry_opt opt)
{
    return belfry_opts_is_set(opts, opt) ? opts->values[opt].number : defaults[opt];
}

bool belfry_opts_is_set(const struct belfry_opts *opts, enum belfry_opt opt)
{
    return opts != NULL && opts->values[opt].set;
}

const char *belfry_opts_text(const struct belfry_opts *opts, enum belfry_opt opt)
{
    return belfry_opts_is_set(opts, opt) ? opts->values[opt].text : NULL;
}
