/* src/base/base64.c */
#include "base/base64.h"

#define COMMON "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

static const char *const digits_of[] = {[BELFRY_BASE64_STANDARD] = COMMON "+/", [BELFRY_BASE64_URL] = COMMON "-_"};

size_t belfry_base64_write(enum belfry_base64 form, struct belfry_bytes bytes, char *to)
{
    const char *digits = digits_of[form];
    size_t len = 0;
    uint32_t bits = 0;
    unsigned n_bits = 0;
    for (size_t i = 0; i < bytes.len; i++) {
        bits = bits << 8 | (uint8_t)bytes.data[i];
        for (n_bits += 8; n_bits >= 6; n_bits -= 6)
            to[len++] = digits[bits >> (n_bits - 6) & 63];
    }
    if (n_bits > 0)
        to[len++] = digits[bits << (6 - n_bits) & 63];
    while (form == BELFRY_BASE64_STANDARD && len % 4 != 0)
        to[len++] = '=';
    return len;
}

enum belfry_err belfry_base64_encode(enum belfry_base64 form, struct belfry_bytes bytes, struct belfry_buf *out)
{
    uint8_t *begin;
    enum belfry_err err = belfry_buf_reserve(out, BELFRY_BASE64_LEN(bytes.len), &begin);
    if (err == BELFRY_OK)
        belfry_buf_grown(out, belfry_base64_write(form, bytes, (char *)begin));
    return err;
}

static bool is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

static int digit_value(const char *digits, char c)
{
    const char *found = c == '\0' ? NULL : strchr(digits, c);
    return found == NULL ? -1 : (int)(found - digits);
}

/* Whether the text ends correctly after `n_digits` digits. The standard form is padded to a multiple of four. */
static bool ends_well(enum belfry_base64 form, struct belfry_bytes text, size_t at, size_t n_digits)
{
    size_t n_padding = 0;
    for (; at < text.len; at++) {
        if (text.data[at] == '=')
            n_padding++;
        else if (!is_space(text.data[at]))
            return false;
    }
    if (form == BELFRY_BASE64_URL)
        return n_padding == 0;
    return n_padding < 3 && (n_digits + n_padding) % 4 == 0;
}

enum belfry_err belfry_base64_decode(enum belfry_base64 form, struct belfry_bytes text, struct belfry_buf *out)
{
    uint8_t *begin;
    enum belfry_err err = belfry_buf_reserve(out, text.len, &begin);
    if (err != BELFRY_OK)
        return err;
    uint8_t *to = begin;
    uint32_t bits = 0;
    unsigned n_bits = 0;
    size_t at = 0, n_digits = 0;
    for (; at < text.len && text.data[at] != '='; at++) {
        int value = digit_value(digits_of[form], text.data[at]);
        if (value < 0 && form == BELFRY_BASE64_STANDARD && is_space(text.data[at]))
            continue;
        if (value < 0)
            return BELFRY_ERR_INVALID;
        n_digits++;
        bits = bits << 6 | (uint32_t)value;
        n_bits += 6;
        if (n_bits >= 8) {
            n_bits -= 8;
            *to++ = (uint8_t)(bits >> n_bits);
        }
    }
    if (n_bits >= 6 || (bits & ((1u << n_bits) - 1)) != 0 || !ends_well(form, text, at, n_digits))
        return BELFRY_ERR_INVALID;
    belfry_buf_grown(out, (size_t)(to - begin));
    return BELFRY_OK;
}
