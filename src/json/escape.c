/* src/json/escape.c */
#include "json/escape.h"

#include "base/hex.h"
#include "base/utf8.h"

/* One decoded step of a string: `len` raw bytes that stand for text[0, n). */
struct piece {
    size_t len; /* 0: invalid escape */
    size_t n;
    char text[BELFRY_UTF8_MAX];
};

/* The value of the four digits after \u; -1: they are invalid. */
static int32_t unit(struct belfry_bytes raw)
{
    int32_t value = 0;
    if (raw.len < 6 || raw.data[0] != '\\' || raw.data[1] != 'u')
        return -1;
    for (size_t i = 2; i < 6; i++) {
        int digit = belfry_hex_digit(raw.data[i]);
        if (digit < 0)
            return -1;
        value = value * 16 + digit;
    }
    return value;
}

static struct piece utf8(size_t len, int32_t code)
{
    struct piece piece = {.len = len};
    piece.n = belfry_utf8_write((uint32_t)code, piece.text);
    return piece;
}

/* RFC 8259 section 7: characters outside the basic plane are a pair of surrogates. */
static struct piece unicode(struct belfry_bytes raw)
{
    int32_t first = unit(raw);
    if (first < 0 || (first >= 0xDC00 && first <= 0xDFFF))
        return (struct piece){0};
    if (first < 0xD800 || first > 0xDBFF)
        return utf8(6, first);
    int32_t second = unit(belfry_bytes_of(raw.data + 6, raw.len - 6));
    if (second < 0xDC00 || second > 0xDFFF)
        return (struct piece){0};
    return utf8(12, 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00));
}

static struct piece next_piece(struct belfry_bytes raw)
{
    static const char short_forms[] = "\"\"\\\\//b\bf\fn\nr\rt\t";
    if (raw.data[0] != '\\')
        return (struct piece){1, 1, {raw.data[0]}};
    if (raw.len < 2)
        return (struct piece){0};
    for (const char *at = short_forms; *at != '\0'; at += 2) {
        if (at[0] == raw.data[1])
            return (struct piece){2, 1, {at[1]}};
    }
    return unicode(raw);
}

static bool is_by_pieces(struct belfry_bytes raw, struct belfry_bytes text)
{
    while (raw.len > 0) {
        struct piece piece = next_piece(raw);
        if (piece.len == 0 || !belfry_bytes_begins(text, belfry_bytes_of(piece.text, piece.n)))
            return false;
        raw = belfry_bytes_of(raw.data + piece.len, raw.len - piece.len);
        text = belfry_bytes_of(text.data + piece.n, text.len - piece.n);
    }
    return text.len == 0;
}

bool belfry_escape_is(struct belfry_bytes raw, const char *text)
{
    struct belfry_bytes wanted = belfry_bytes_str(text);
    return belfry_escape_in(raw) ? is_by_pieces(raw, wanted) : belfry_bytes_equal(raw, wanted);
}

size_t belfry_escape_write(char c, char out[BELFRY_ESCAPE_MAX])
{
    static const char hex[] = "0123456789abcdef";
    static const char short_forms[0x80] = {
        ['\b'] = 'b', ['\f'] = 'f', ['\n'] = 'n', ['\r'] = 'r', ['\t'] = 't', ['"'] = '"', ['\\'] = '\\'};
    out[0] = '\\';
    out[1] = short_forms[(unsigned char)c & 0x7f];
    if (out[1] != '\0')
        return 2;
    memcpy(out + 1, "u00", 3);
    out[4] = hex[(unsigned char)c >> 4];
    out[5] = hex[(unsigned char)c & 15];
    return 6;
}

enum belfry_err belfry_escape_undo(struct belfry_bytes raw, struct belfry_buf *out)
{
    if (!belfry_escape_in(raw))
        return belfry_buf_append(out, raw.data, raw.len);
    while (raw.len > 0) {
        struct piece piece = next_piece(raw);
        if (piece.len == 0)
            return BELFRY_ERR_INVALID;
        if (belfry_buf_append(out, piece.text, piece.n) != BELFRY_OK)
            return BELFRY_ERR_NOMEM;
        raw = belfry_bytes_of(raw.data + piece.len, raw.len - piece.len);
    }
    return BELFRY_OK;
}
