/* src/cli/out/quoted.c: what an escape stands for is never longer than the escape, so a string is decoded where it
 * is. */
#include "cli/out/quoted.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/hex.h"
#include "base/utf8.h"

/* `n` digits of `base` at *at. */
static bool number(char **at, int n, int base, uint32_t *out)
{
    uint32_t value = 0;
    for (; n > 0; n--) {
        int digit = belfry_hex_digit(**at);
        if (digit < 0 || digit >= base)
            return false;
        value = value * (uint32_t)base + (uint32_t)digit;
        (*at)++;
    }
    *out = value;
    return true;
}

static bool is_character(uint32_t c)
{
    return c != 0 && c <= 0x10FFFF && (c < 0xD800 || c > 0xDFFF);
}

/* One escape, *from behind its backslash. */
static bool unescape(char **from, char **to)
{
    static const char names[] = "abfnrtv\\\"", bytes[] = "\a\b\f\n\r\t\v\\\"";
    uint32_t value;
    char kind = **from;
    const char *name = kind != '\0' ? strchr(names, kind) : NULL;
    if (name != NULL) {
        *(*to)++ = bytes[name - names];
        (*from)++;
        return true;
    }
    if (kind >= '0' && kind <= '7') {
        if (!number(from, 3, 8, &value) || value == 0 || value > 255)
            return false;
        *(*to)++ = (char)value;
        return true;
    }
    int digits = kind == 'x' ? 2 : kind == 'u' ? 4 : kind == 'U' ? 8 : 0;
    (*from)++;
    if (digits == 0 || !number(from, digits, 16, &value))
        return false;
    if (kind == 'x' && value != 0)
        *(*to)++ = (char)value;
    else if (kind != 'x' && is_character(value))
        *to += belfry_utf8_write(value, *to);
    else
        return false;
    return true;
}

enum belfry_err quoted_read(char **at, char **out)
{
    char quote = **at, *start = *at, *to = start, *from = start + 1;
    if (quote != '"' && quote != '`')
        return BELFRY_ERR_INVALID;
    while (*from != quote) {
        if (*from == '\0')
            return BELFRY_ERR_INVALID;
        if (*from != '\\' || quote == '`') {
            *to++ = *from++;
            continue;
        }
        from++;
        if (!unescape(&from, &to))
            return BELFRY_ERR_INVALID;
    }
    *at = from + 1;
    *to = '\0'; /* at or before the closing quote */
    *out = start;
    return BELFRY_OK;
}
