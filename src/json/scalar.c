/* src/json/scalar.c */
#include "json/scalar.h"

#include <math.h>
#include <stdlib.h>

#define DIGITS_MAX 64 /* of a converted number */

static bool is_one_of(struct belfry_bytes text, const char *const *words)
{
    for (; *words != NULL; words++) {
        if (belfry_bytes_equal(text, belfry_bytes_str(*words)))
            return true;
    }
    return false;
}

static bool is_digit(struct belfry_bytes text, size_t at)
{
    return at < text.len && text.data[at] >= '0' && text.data[at] <= '9';
}

static size_t skip_digits(struct belfry_bytes text, size_t at)
{
    while (is_digit(text, at))
        at++;
    return at;
}

static bool is_at(struct belfry_bytes text, size_t at, char a, char b)
{
    return at < text.len && (text.data[at] == a || text.data[at] == b);
}

/* "0x1F", "0o17" */
static bool read_based(struct belfry_bytes text, struct belfry_kube_scalar *out)
{
    char digits[DIGITS_MAX], *end;
    if (text.len < 3 || text.len >= sizeof(digits) || text.data[0] != '0' || !is_at(text, 1, 'x', 'o'))
        return false;
    int base = text.data[1] == 'x' ? 16 : 8;
    for (size_t i = 2; i < text.len; i++) { /* strtoull takes signs and blanks */
        if (strchr("0123456789abcdefABCDEF", text.data[i]) == NULL || text.data[i] == '\0')
            return false;
    }
    memcpy(digits, text.data + 2, text.len - 2);
    digits[text.len - 2] = '\0';
    unsigned long long value = strtoull(digits, &end, base);
    *out = (struct belfry_kube_scalar){.form = KUBE_NUMBER_INT, .integer = (int64_t)value};
    return *end == '\0' && value <= INT64_MAX;
}

/* Where the parts of a decimal are: [sign] whole [. fraction] [e exponent]. */
struct decimal {
    size_t sign, n_whole, n_fraction, n_exponent;
    bool point, exponent;
};

static bool split_decimal(struct belfry_bytes text, struct decimal *out)
{
    *out = (struct decimal){.sign = is_at(text, 0, '+', '-')};
    size_t at = skip_digits(text, out->sign);
    out->n_whole = at - out->sign;
    out->point = is_at(text, at, '.', '.');
    if (out->point) {
        size_t end = skip_digits(text, at + 1);
        out->n_fraction = end - at - 1;
        at = end;
    }
    if (out->n_whole + out->n_fraction == 0)
        return false;
    out->exponent = is_at(text, at, 'e', 'E');
    if (out->exponent) {
        size_t begin = at + 1 + is_at(text, at + 1, '+', '-');
        at = skip_digits(text, begin);
        out->n_exponent = at - begin;
    }
    return at == text.len && (!out->exponent || out->n_exponent > 0);
}

static bool read_decimal(struct belfry_bytes text, struct belfry_kube_scalar *out)
{
    struct decimal parts;
    char digits[DIGITS_MAX];
    if (!split_decimal(text, &parts))
        return false;
    bool plus = text.data[0] == '+', zeros = parts.n_whole > 1 && text.data[parts.sign] == '0';
    *out = (struct belfry_kube_scalar){.form = KUBE_NUMBER_JSON};
    if (!plus && !zeros && parts.n_whole > 0 && (!parts.point || parts.n_fraction > 0))
        return true;
    if (text.len >= sizeof(digits))
        return false;
    memcpy(digits, text.data, text.len);
    digits[text.len] = '\0';
    out->real = strtod(digits, NULL);
    out->form = KUBE_NUMBER_REAL;
    if (!parts.point && !parts.exponent && parts.n_whole <= 18) {
        out->form = KUBE_NUMBER_INT;
        out->integer = strtoll(digits, NULL, 10);
    }
    return isfinite(out->real);
}

enum belfry_kube_scalar_type belfry_kube_scalar_read(struct belfry_bytes text, struct belfry_kube_scalar *out)
{
    static const char *const nulls[] = {"", "~", "null", "Null", "NULL", NULL};
    static const char *const trues[] = {"true", "True", "TRUE", NULL};
    static const char *const falses[] = {"false", "False", "FALSE", NULL};
    if (is_one_of(text, nulls))
        return KUBE_SCALAR_NULL;
    if (is_one_of(text, trues))
        return KUBE_SCALAR_TRUE;
    if (is_one_of(text, falses))
        return KUBE_SCALAR_FALSE;
    return read_based(text, out) || read_decimal(text, out) ? KUBE_SCALAR_NUMBER : KUBE_SCALAR_TEXT;
}
