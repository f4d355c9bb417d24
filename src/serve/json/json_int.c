/* src/serve/json/json_int.c */
#include "serve/json/json_int.h"

#include <stddef.h>
#include <string.h>

#define EXPONENT_MAX 100000 /* of more, only zero is a whole number that fits */

/* A number, taken apart. */
struct parts {
    bool negative;
    struct belfry_bytes whole, fraction;
    int64_t exponent;
};

static struct belfry_bytes take_digits(struct belfry_bytes *text)
{
    size_t n = 0;
    while (n < text->len && text->data[n] >= '0' && text->data[n] <= '9')
        n++;
    struct belfry_bytes digits = belfry_bytes_of(text->data, n);
    *text = belfry_bytes_of(text->data + n, text->len - n);
    return digits;
}

static bool take(struct belfry_bytes *text, char c)
{
    if (text->len == 0 || text->data[0] != c)
        return false;
    *text = belfry_bytes_of(text->data + 1, text->len - 1);
    return true;
}

/* One without a sign may be empty, for Go: that is 0. */
static bool take_exponent(struct belfry_bytes *text, int64_t *out)
{
    bool negative = take(text, '-');
    bool has_sign = negative || take(text, '+');
    struct belfry_bytes digits = take_digits(text);
    int64_t amount = 0;
    for (size_t i = 0; i < digits.len && amount < EXPONENT_MAX; i++)
        amount = amount * 10 + (digits.data[i] - '0');
    *out = negative ? -amount : amount;
    return digits.len > 0 || !has_sign;
}

/* Takes a number from the beginning of *text. */
static bool take_apart(struct belfry_bytes *from, struct parts *out)
{
    struct belfry_bytes text = *from;
    *out = (struct parts){.negative = take(&text, '-')};
    out->whole = take_digits(&text);
    if (out->whole.len == 0 || (out->whole.len > 1 && out->whole.data[0] == '0'))
        return false;
    if (take(&text, '.')) {
        out->fraction = take_digits(&text);
        if (out->fraction.len == 0)
            return false;
    }
    if (text.len > 1 && (take(&text, 'e') || take(&text, 'E')) && !take_exponent(&text, &out->exponent))
        return false;
    *from = text;
    return true;
}

/* Could `c` be of the number that it follows? */
static bool goes_on(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '+' ||
           c == '.' || c == '_';
}

/* Does it end with what Unicode has for space? */
static bool ends_with_space(struct belfry_bytes text)
{
    static const char *const spaces[] = {
        "\t",           "\n",           "\v",           "\f",           "\r",           " ",
        "\xc2\x85",     "\xc2\xa0",     "\xe1\x9a\x80", "\xe2\x80\x80", "\xe2\x80\x81", "\xe2\x80\x82",
        "\xe2\x80\x83", "\xe2\x80\x84", "\xe2\x80\x85", "\xe2\x80\x86", "\xe2\x80\x87", "\xe2\x80\x88",
        "\xe2\x80\x89", "\xe2\x80\x8a", "\xe2\x80\xa8", "\xe2\x80\xa9", "\xe2\x80\xaf", "\xe2\x81\x9f",
        "\xe3\x80\x80"};
    for (size_t i = 0; i < sizeof(spaces) / sizeof(spaces[0]); i++) {
        struct belfry_bytes space = belfry_bytes_str(spaces[i]);
        if (text.len >= space.len && memcmp(text.data + text.len - space.len, space.data, space.len) == 0)
            return true;
    }
    return false;
}

/* The i-th digit, whole or of the fraction; 0 beyond them. */
static unsigned digit(const struct parts *parts, size_t i)
{
    if (i < parts->whole.len)
        return (unsigned)(parts->whole.data[i] - '0');
    i -= parts->whole.len;
    return i < parts->fraction.len ? (unsigned)(parts->fraction.data[i] - '0') : 0;
}

bool json_int_read(struct belfry_bytes text, bool *out_negative, uint64_t *out_amount)
{
    struct parts parts;
    if (ends_with_space(text) || !take_apart(&text, &parts) || (text.len > 0 && goes_on(text.data[0])))
        return false;
    size_t n = parts.whole.len + parts.fraction.len;
    int64_t point = (int64_t)parts.whole.len + parts.exponent; /* digits before it */
    uint64_t amount = 0;
    for (size_t i = 0; i < n; i++)
        if ((int64_t)i >= point && digit(&parts, i) != 0)
            return false;
    for (int64_t i = 0; i < point; i++) {
        unsigned d = digit(&parts, (size_t)i);
        if (amount == 0 && (size_t)i >= n)
            break; /* zeros */
        if (__builtin_mul_overflow(amount, 10, &amount) || __builtin_add_overflow(amount, d, &amount))
            return false;
    }
    *out_negative = parts.negative;
    *out_amount = amount;
    return true;
}
