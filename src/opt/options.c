/* src/opt/options.c */
#include "opt/options.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "opt/nearest.h"

const struct belfry_opt_row *belfry_opt_find(const struct belfry_opt_row *rows, size_t n_rows, const char *name,
                                             size_t len, const char **nearest)
{
    char word[BELFRY_NEAREST_MAX + 2];
    *nearest = NULL;
    for (size_t i = 0; i < n_rows; i++)
        if (strlen(rows[i].name) == len && memcmp(rows[i].name, name, len) == 0)
            return &rows[i];
    if (len >= sizeof(word))
        return NULL;
    memcpy(word, name, len);
    word[len] = '\0';
    for (size_t i = 0; i < n_rows; i++)
        belfry_nearest_consider(word, rows[i].name, nearest);
    return NULL;
}

/* ---- values ---- */

__attribute__((format(printf, 2, 3))) static enum belfry_err wrong_value(char *why, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(why, BELFRY_OPT_WHY, format, args);
    va_end(args);
    return BELFRY_ERR_INVALID;
}

static enum belfry_err check_range(const struct belfry_opt_row *row, const char *text, uint64_t number, char *why)
{
    uint64_t most = row->most == 0 ? INT64_MAX : row->most;
    if (number >= row->least && number <= most)
        return BELFRY_OK;
    char from[BELFRY_VALUE_MAX], to[BELFRY_VALUE_MAX];
    belfry_opt_write(row, row->least, from);
    belfry_opt_write(row, most, to);
    return wrong_value(why, "%.*s is out of range: it goes from %s to %s", BELFRY_OPT_SHOWN, text, from, to);
}

/* Is it such a value at all? */
static bool read_number(const struct belfry_opt_row *row, const char *text, uint64_t *out)
{
    bool yes;
    unsigned place;
    switch (row->kind) {
    case BELFRY_KIND_BARE:
    case BELFRY_KIND_BOOL:
    case BELFRY_KIND_REFUSED:
        if (!belfry_value_bool(text, &yes))
            return false;
        *out = yes;
        return true;
    case BELFRY_KIND_CHOICE:
        if (!belfry_value_choice(row->choices, text, &place))
            return false;
        *out = place;
        return true;
    case BELFRY_KIND_COUNT:
        return belfry_value_count(text, out);
    case BELFRY_KIND_HEX:
        return belfry_value_hex(text, out);
    case BELFRY_KIND_MS:
    case BELFRY_KIND_SECONDS:
        return belfry_value_ms(text, out);
    case BELFRY_KIND_SIZE:
        return belfry_value_size(text, out);
    case BELFRY_KIND_SIZE_DECIMAL:
        return belfry_value_size_decimal(text, out);
    case BELFRY_KIND_TEXT:
    case BELFRY_KIND_LIST:
    case BELFRY_KIND_WORDS:
        break;
    }
    *out = 0;
    return true;
}

static enum belfry_err not_of_kind(const struct belfry_opt_row *row, const char *text, char *why)
{
    switch (row->kind) {
    case BELFRY_KIND_BARE:
    case BELFRY_KIND_BOOL:
    case BELFRY_KIND_REFUSED:
        return wrong_value(why, "'%.*s' is neither true nor false", BELFRY_OPT_SHOWN, text);
    case BELFRY_KIND_CHOICE:
        return wrong_value(why, "'%.*s' is not one of %s", BELFRY_OPT_SHOWN, text, row->choices);
    case BELFRY_KIND_COUNT:
        return wrong_value(why, "'%.*s' is not a whole number", BELFRY_OPT_SHOWN, text);
    case BELFRY_KIND_HEX:
        return wrong_value(why, "'%.*s' is not a number in hexadecimal digits", BELFRY_OPT_SHOWN, text);
    case BELFRY_KIND_MS:
    case BELFRY_KIND_SECONDS:
        return wrong_value(why, "'%.*s' is not a time: write 500ms, 5s, 10m or 1h30m", BELFRY_OPT_SHOWN, text);
    case BELFRY_KIND_SIZE:
    case BELFRY_KIND_SIZE_DECIMAL:
        return wrong_value(why, "'%.*s' is not a size: write 512KiB, 256MiB or 4GiB", BELFRY_OPT_SHOWN, text);
    case BELFRY_KIND_TEXT:
    case BELFRY_KIND_LIST:
    case BELFRY_KIND_WORDS:
        break;
    }
    return BELFRY_ERR_INVALID;
}

enum belfry_err belfry_opt_read(const struct belfry_opt_row *row, const char *text, uint64_t *out, char *why)
{
    uint64_t number;
    if (!read_number(row, text, &number))
        return not_of_kind(row, text, why);
    if (row->kind == BELFRY_KIND_SECONDS) {
        if (number % 1000 != 0)
            return wrong_value(why, "'%.*s' is not a time in whole seconds", BELFRY_OPT_SHOWN, text);
        number /= 1000;
    }
    bool has_range = row->kind >= BELFRY_KIND_COUNT && row->kind != BELFRY_KIND_CHOICE;
    enum belfry_err err = has_range ? check_range(row, text, number, why) : BELFRY_OK;
    if (err == BELFRY_OK)
        *out = number;
    return err;
}

void belfry_opt_write(const struct belfry_opt_row *row, uint64_t number, char out[BELFRY_VALUE_MAX])
{
    size_t len;
    const char *choice;
    switch (row->kind) {
    case BELFRY_KIND_BARE:
    case BELFRY_KIND_BOOL:
    case BELFRY_KIND_REFUSED:
        snprintf(out, BELFRY_VALUE_MAX, "%s", number != 0 ? "true" : "false");
        return;
    case BELFRY_KIND_CHOICE:
        choice = belfry_value_choice_at(row->choices, (unsigned)number, &len);
        snprintf(out, BELFRY_VALUE_MAX, "%.*s", (int)len, choice);
        return;
    case BELFRY_KIND_MS:
        belfry_value_write_ms(number, out);
        return;
    case BELFRY_KIND_SECONDS:
        belfry_value_write_ms(number > UINT64_MAX / 1000 ? UINT64_MAX : number * 1000, out);
        return;
    case BELFRY_KIND_SIZE:
    case BELFRY_KIND_SIZE_DECIMAL:
        belfry_value_write_size(number, out);
        return;
    case BELFRY_KIND_HEX:
        snprintf(out, BELFRY_VALUE_MAX, "%" PRIx64, number);
        return;
    case BELFRY_KIND_COUNT:
    case BELFRY_KIND_TEXT:
    case BELFRY_KIND_LIST:
    case BELFRY_KIND_WORDS:
        break;
    }
    snprintf(out, BELFRY_VALUE_MAX, "%" PRIu64, number);
}

/* ---- the program's struct ---- */

void belfry_opt_store(const struct belfry_opt_row *row, void *in, uint64_t number)
{
    char *at = (char *)in + row->offset;
    const uint8_t one = (uint8_t)number; /* a bool too */
    const uint32_t four = (uint32_t)number;
    assert(row->width == 1 || row->width == 4 || row->width == 8);
    if (row->width == 1)
        memcpy(at, &one, sizeof(one));
    else if (row->width == 4)
        memcpy(at, &four, sizeof(four));
    else
        memcpy(at, &number, sizeof(number));
}

uint64_t belfry_opt_load(const struct belfry_opt_row *row, const void *from)
{
    const char *at = (const char *)from + row->offset;
    uint8_t one;
    uint32_t four;
    uint64_t eight;
    assert(row->width == 1 || row->width == 4 || row->width == 8);
    if (row->width == 1)
        return memcpy(&one, at, sizeof(one)), one;
    if (row->width == 4)
        return memcpy(&four, at, sizeof(four)), four;
    return memcpy(&eight, at, sizeof(eight)), eight;
}

/* ---- the environment ---- */

void belfry_opt_env_name(const char *begin, const char *name, char out[BELFRY_OPT_ENV_NAME])
{
    snprintf(out, BELFRY_OPT_ENV_NAME, "%s%s", begin, name);
    for (char *at = out; *at != '\0'; at++)
        *at = (char)(*at == '-' ? '_' : *at >= 'a' && *at <= 'z' ? *at - 'a' + 'A' : *at);
}

const char *belfry_opt_env(const struct belfry_opt_table *table, const struct belfry_opt_row *row,
                           char *(*env)(const char *name), char label[BELFRY_OPT_ENV_NAME])
{
    for (size_t i = 0; i < sizeof(table->env) / sizeof(table->env[0]) && table->env[i] != NULL; i++) {
        belfry_opt_env_name(table->env[i], row->name, label);
        const char *value = env(label);
        if (value != NULL && *value != '\0')
            return value;
    }
    return NULL;
}
