/* src/serve/json/go_base64.c */
#include "serve/json/go_base64.h"

#include <stdbool.h>

/* The six bits of a character; -1: it is none of the alphabet. */
static int bits_of(char c, bool is_url)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    if (c == (is_url ? '-' : '+'))
        return 62;
    return c == (is_url ? '_' : '/') ? 63 : -1;
}

static bool is_end_of_line(char c)
{
    return c == '\n' || c == '\r';
}

/* What follows the last of `n` characters of a group: padding, if there is any, and nothing else. */
static bool ends_well(struct belfry_bytes rest, unsigned n, bool is_padded)
{
    unsigned pads = 0, wanted = n == 0 ? 0 : 4 - n;
    for (size_t i = 0; i < rest.len; i++) {
        if (rest.data[i] == '=')
            pads++;
        else if (!is_end_of_line(rest.data[i]))
            return false;
    }
    return n != 1 && pads == (is_padded ? wanted : 0);
}

enum belfry_err go_base64_read(struct belfry_bytes text, struct belfry_buf *out)
{
    bool is_url =
        text.len > 0 && (memchr(text.data, '-', text.len) != NULL || memchr(text.data, '_', text.len) != NULL);
    uint8_t *to;
    size_t n_out = 0, i = 0;
    uint32_t group = 0;
    unsigned n = 0;
    enum belfry_err err = belfry_buf_reserve(out, text.len / 4 * 3 + 3, &to);
    if (err != BELFRY_OK)
        return err;
    for (; i < text.len && text.data[i] != '='; i++) {
        int bits = bits_of(text.data[i], is_url);
        if (bits < 0 && is_end_of_line(text.data[i]))
            continue;
        if (bits < 0)
            return BELFRY_ERR_INVALID;
        group = group << 6 | (uint32_t)bits;
        if (++n == 4) {
            to[n_out++] = (uint8_t)(group >> 16);
            to[n_out++] = (uint8_t)(group >> 8);
            to[n_out++] = (uint8_t)group;
            n = 0;
        }
    }
    if (!ends_well(belfry_bytes_of(text.data + i, text.len - i), n, text.len % 4 == 0))
        return BELFRY_ERR_INVALID;
    if (n >= 2)
        to[n_out++] = (uint8_t)(group >> (6 * n - 8));
    if (n == 3)
        to[n_out++] = (uint8_t)(group >> 2);
    belfry_buf_grown(out, n_out);
    return BELFRY_OK;
}
