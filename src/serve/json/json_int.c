/* src/serve/json/json_int.c */
#include "serve/json/json_int.h"

#include <stddef.h>

#define EXPONENT_MAX 100000 /* of more, only zero is a whole number that fits */

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

bool json_int_read(struct belfry_bytes text, bool *out_negative, uint64_t *out_amount)
{
    /* The whole digits, of which the first is a zero only if it is alone. */
    bool negative = take(&text, '-');
    struct belfry_bytes whole = take_digits(&text), fraction = {0};
    if (whole.len == 0 || (whole.len > 1 && whole.data[0] == '0'))
        return false;

    if (take(&text, '.')) {
        fraction = take_digits(&text);
        if (fraction.len == 0)
            return false;
    }

    /* How many digits are before the point, once the exponent has moved it. */
    int64_t point = (int64_t)whole.len;
    if (take(&text, 'e') || take(&text, 'E')) {
        bool is_less = take(&text, '-');
        if (!is_less)
            (void)take(&text, '+');
        struct belfry_bytes digits = take_digits(&text);
        int64_t exponent = 0;
        for (size_t i = 0; i < digits.len && exponent < EXPONENT_MAX; i++)
            exponent = exponent * 10 + (digits.data[i] - '0');
        if (digits.len == 0)
            return false;
        point += is_less ? -exponent : exponent;
    }
    if (text.len > 0)
        return false;

    /* Digits behind the point must be zeros. Those that the exponent adds are. */
    uint64_t amount = 0;
    int64_t n = (int64_t)(whole.len + fraction.len);
    for (int64_t i = 0; i < n || (i < point && amount != 0); i++) {
        size_t at = (size_t)i;
        char c = at < whole.len ? whole.data[at] : i < n ? fraction.data[at - whole.len] : '0';
        if (i >= point && c != '0')
            return false;
        if (i < point && (__builtin_mul_overflow(amount, 10, &amount) ||
                          __builtin_add_overflow(amount, (uint64_t)(c - '0'), &amount)))
            return false;
    }
    *out_negative = negative;
    *out_amount = amount;
    return true;
}
