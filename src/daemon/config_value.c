/* src/daemon/config_value.c: sizes, durations and booleans, as people write them and back. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "daemon/config_private.h"

struct unit {
    const char *name;
    uint64_t factor;
};

static const struct unit sizes[] = {
    {"TiB", 1ull << 40}, {"GiB", 1ull << 30}, {"MiB", 1ull << 20}, {"KiB", 1ull << 10}, {"B", 1},
    {"T", 1ull << 40},   {"G", 1ull << 30},   {"M", 1ull << 20},   {"K", 1ull << 10}};
static const struct unit times[] = {{"h", 3600000}, {"m", 60000}, {"s", 1000}, {"ms", 1}};
#define N_OF(units) (sizeof(units) / sizeof((units)[0]))

/* Takes digits and letters behind them from *text: "90s" of "90s500ms". */
static bool take(const char **text, const struct unit *units, size_t n_units, uint64_t *out)
{
    uint64_t number = 0;
    size_t n_digits = strspn(*text, "0123456789");
    for (size_t i = 0; i < n_digits; i++)
        if (__builtin_mul_overflow(number, 10u, &number) ||
            __builtin_add_overflow(number, (unsigned)((*text)[i] - '0'), &number))
            return false;
    const char *name = *text + n_digits;
    size_t len = strcspn(name, "0123456789");
    for (size_t i = 0; n_digits > 0 && i < n_units; i++)
        if (strlen(units[i].name) == len && memcmp(units[i].name, name, len) == 0) {
            *text = name + len;
            return !__builtin_mul_overflow(number, units[i].factor, out);
        }
    return false;
}

bool config_read_size(const char *text, uint64_t *out)
{
    static const struct unit bare = {"", 1};
    bool is_bare = strspn(text, "0123456789") == strlen(text);
    return take(&text, is_bare ? &bare : sizes, is_bare ? 1 : N_OF(sizes), out) && *text == '\0';
}

bool config_read_ms(const char *text, uint64_t *out)
{
    uint64_t total = 0, part;
    if (strcmp(text, "0") == 0) /* needs no unit */
        text = "0s";
    do
        if (!take(&text, times, N_OF(times), &part) || __builtin_add_overflow(total, part, &total))
            return false;
    while (*text != '\0');
    *out = total;
    return true;
}

bool config_read_bool(const char *text, bool *out)
{
    *out = strcmp(text, "true") == 0 || strcmp(text, "1") == 0;
    return *out || strcmp(text, "false") == 0 || strcmp(text, "0") == 0;
}

static void write_exact(uint64_t value, const struct unit *units, char out[CONFIG_NUMBER])
{
    while (units->factor > 1 && value % units->factor != 0)
        units++;
    snprintf(out, CONFIG_NUMBER, "%" PRIu64 "%s", value / units->factor, units->name);
}

void config_write_size(uint64_t bytes, char out[CONFIG_NUMBER])
{
    if (bytes == 0)
        snprintf(out, CONFIG_NUMBER, "0");
    else
        write_exact(bytes, sizes, out);
}

void config_write_ms(uint64_t ms, char out[CONFIG_NUMBER])
{
    if (ms == 0)
        snprintf(out, CONFIG_NUMBER, "0s");
    else
        write_exact(ms, times, out);
}

enum belfry_err config_why(char why[CONFIG_WHY], const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(why, CONFIG_WHY, format, args);
    va_end(args);
    return BELFRY_ERR_INVALID;
}
