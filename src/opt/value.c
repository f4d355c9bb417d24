/* src/opt/value.c */
#include "opt/value.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define DIGITS    "0123456789"
#define NS_PER_MS UINT64_C(1000000)

struct unit {
    const char *name;
    uint64_t factor;
};

/* The largest first, as they are written back. */
static const struct unit times[] = {{"h", UINT64_C(3600000000000)},
                                    {"m", UINT64_C(60000000000)},
                                    {"s", UINT64_C(1000000000)},
                                    {"ms", NS_PER_MS},
                                    {"us", 1000},
                                    {"ns", 1}};
static const struct unit sizes[] = {{"TiB", UINT64_C(1) << 40},
                                    {"GiB", 1 << 30},
                                    {"MiB", 1 << 20},
                                    {"KiB", 1 << 10},
                                    {"B", 1},
                                    {"", 1},
                                    {"T", UINT64_C(1) << 40},
                                    {"G", 1 << 30},
                                    {"M", 1 << 20},
                                    {"K", 1 << 10},
                                    {"GB", 1000000000}, /* from here on decimal */
                                    {"MB", 1000000},
                                    {"KB", 1000}};
#define N_OF(units)    (sizeof(units) / sizeof((units)[0]))
#define N_BINARY_SIZES (N_OF(sizes) - 3)

static const struct unit *unit_named(const struct unit *units, size_t n_units, const char *name, size_t len)
{
    for (size_t i = 0; i < n_units; i++)
        if (strlen(units[i].name) == len && memcmp(units[i].name, name, len) == 0)
            return &units[i];
    return NULL;
}

/* Digits at *text, which moves behind them. False: none, or over 64 bits. */
static bool take_digits(const char **text, uint64_t *out)
{
    uint64_t number = 0;
    size_t n = strspn(*text, DIGITS);
    for (size_t i = 0; i < n; i++)
        if (__builtin_mul_overflow(number, 10u, &number) ||
            __builtin_add_overflow(number, (unsigned)((*text)[i] - '0'), &number))
            return false;
    *text += n;
    *out = number;
    return n > 0;
}

/* "90s", or "1.5s", at *text, in nanoseconds. */
static bool take_time(const char **text, uint64_t *out)
{
    uint64_t whole, total;
    if (!take_digits(text, &whole))
        return false;
    const char *decimals = **text == '.' ? *text + 1 : "";
    size_t n_decimals = strspn(decimals, DIGITS);
    if (**text == '.')
        *text = decimals + n_decimals;
    size_t len = strspn(*text, "abcdefghijklmnopqrstuvwxyz");
    const struct unit *unit = unit_named(times, N_OF(times), *text, len);
    if (unit == NULL || __builtin_mul_overflow(whole, unit->factor, &total))
        return false;
    *text += len;
    uint64_t scale = unit->factor;
    for (size_t i = 0; i < n_decimals; i++) {
        scale /= 10; /* 0 once a digit is finer than a nanosecond */
        if (__builtin_add_overflow(total, (unsigned)(decimals[i] - '0') * scale, &total))
            return false;
    }
    *out = total;
    return true;
}

bool belfry_value_ms(const char *text, uint64_t *out)
{
    uint64_t total = 0, part;
    if (strcmp(text, "0") == 0) /* needs no unit */
        text = "0s";
    do
        if (!take_time(&text, &part) || __builtin_add_overflow(total, part, &total))
            return false;
    while (*text != '\0');
    *out = total / NS_PER_MS;
    return true;
}

static bool read_size(const char *text, size_t n_units, uint64_t *out)
{
    uint64_t number;
    if (!take_digits(&text, &number))
        return false;
    const struct unit *unit = unit_named(sizes, n_units, text, strlen(text));
    if (unit == NULL || __builtin_mul_overflow(number, unit->factor, &number))
        return false;
    *out = number;
    return true;
}

bool belfry_value_size(const char *text, uint64_t *out)
{
    return read_size(text, N_BINARY_SIZES, out);
}

bool belfry_value_size_decimal(const char *text, uint64_t *out)
{
    return read_size(text, N_OF(sizes), out);
}

bool belfry_value_count(const char *text, uint64_t *out)
{
    if (*text == '\0' || text[strspn(text, DIGITS)] != '\0')
        return false;
    if (!take_digits(&text, out))
        *out = UINT64_MAX;
    return true;
}

bool belfry_value_hex(const char *text, uint64_t *out)
{
    uint64_t number = 0;
    if (text[0] == '0' && (text[1] == 'x' || text[1] == 'X'))
        text += 2;
    if (*text == '\0')
        return false;
    for (; *text != '\0'; text++) {
        if (!isxdigit((unsigned char)*text))
            return false;
        unsigned digit = isdigit((unsigned char)*text) ? (unsigned)(*text - '0') : (unsigned)(*text | 0x20) - 'a' + 10;
        number = number >> 60 != 0 ? UINT64_MAX : number << 4 | digit;
    }
    *out = number;
    return true;
}

bool belfry_value_bool(const char *text, bool *out)
{
    static const char *const on[] = {"1", "t", "T", "true", "TRUE", "True"};
    static const char *const off[] = {"0", "f", "F", "false", "FALSE", "False"};
    for (size_t i = 0; i < sizeof(on) / sizeof(on[0]); i++) {
        if (strcmp(text, on[i]) != 0 && strcmp(text, off[i]) != 0)
            continue;
        *out = strcmp(text, on[i]) == 0;
        return true;
    }
    return false;
}

const char *belfry_value_item(const char **list, const char *separators, size_t *len)
{
    const char *item = *list;
    if (*item == '\0')
        return NULL;
    *len = strcspn(item, separators);
    *list = item + *len + (item[*len] != '\0');
    return item;
}

static bool is_choice(const char *choice, size_t len, const char *text)
{
    bool capitals = false;
    for (size_t i = 0; i < len; i++)
        capitals = capitals || isupper((unsigned char)choice[i]);
    return strlen(text) == len && (capitals ? strncmp(choice, text, len) : strncasecmp(choice, text, len)) == 0;
}

bool belfry_value_choice(const char *choices, const char *text, unsigned *out)
{
    size_t len;
    const char *choice;
    for (unsigned place = 0; (choice = belfry_value_item(&choices, "|", &len)) != NULL; place++)
        if (is_choice(choice, len, text)) {
            *out = place;
            return true;
        }
    return false;
}

const char *belfry_value_choice_at(const char *choices, unsigned place, size_t *len)
{
    const char *choice;
    while ((choice = belfry_value_item(&choices, "|", len)) != NULL)
        if (place-- == 0)
            return choice;
    *len = 0;
    return "";
}

static void write_exact(uint64_t value, const struct unit *units, char out[BELFRY_VALUE_MAX])
{
    while (units->factor > 1 && value % units->factor != 0)
        units++;
    snprintf(out, BELFRY_VALUE_MAX, "%" PRIu64 "%s", value / units->factor, units->name);
}

void belfry_value_write_ms(uint64_t ms, char out[BELFRY_VALUE_MAX])
{
    uint64_t ns;
    if (ms == 0)
        snprintf(out, BELFRY_VALUE_MAX, "0s");
    else if (__builtin_mul_overflow(ms, NS_PER_MS, &ns))
        snprintf(out, BELFRY_VALUE_MAX, "%" PRIu64 "ms", ms);
    else
        write_exact(ns, times, out);
}

void belfry_value_write_size(uint64_t bytes, char out[BELFRY_VALUE_MAX])
{
    if (bytes == 0)
        snprintf(out, BELFRY_VALUE_MAX, "0");
    else
        write_exact(bytes, sizes, out);
}
