/* src/serve/sse/ticket_keys.c */
#include "serve/sse/ticket_keys.h"

#include <stdio.h>

#include "base/base64.h"
#include "base/hex.h"
#include "base/secret_file.h"

#define HOW_TO_MAKE "make one with: openssl rand -base64 32"

void ticket_keys_wipe(struct ticket_keys *keys)
{
    explicit_bzero(keys, sizeof(*keys));
}

bool ticket_keys_equal(const struct ticket_keys *a, const struct ticket_keys *b)
{
    return a->n == b->n && memcmp(a->key, b->key, a->n * TICKET_KEY_BYTES) == 0;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static struct belfry_bytes without_blanks(struct belfry_bytes line)
{
    while (line.len > 0 && is_blank(line.data[line.len - 1]))
        line.len--;
    while (line.len > 0 && is_blank(line.data[0])) {
        line.data++;
        line.len--;
    }
    return line;
}

static bool read_hex(struct belfry_bytes line, unsigned char out[TICKET_KEY_BYTES])
{
    if (line.len != 2 * TICKET_KEY_BYTES)
        return false;
    for (size_t i = 0; i < line.len; i += 2) {
        int high = belfry_hex_digit(line.data[i]), low = belfry_hex_digit(line.data[i + 1]);
        if (high < 0 || low < 0)
            return false;
        out[i / 2] = (unsigned char)(high << 4 | low);
    }
    return true;
}

/* Errors: BELFRY_ERR_INVALID, BELFRY_ERR_NOMEM. */
static enum belfry_err read_base64(struct belfry_bytes line, unsigned char out[TICKET_KEY_BYTES])
{
    struct belfry_buf bytes;
    belfry_buf_init(&bytes);
    if (line.len != BELFRY_BASE64_LEN(TICKET_KEY_BYTES))
        return BELFRY_ERR_INVALID;
    enum belfry_err err = belfry_base64_decode(BELFRY_BASE64_STANDARD, line, &bytes);
    if (err == BELFRY_OK && belfry_buf_len(&bytes) != TICKET_KEY_BYTES)
        err = BELFRY_ERR_INVALID;
    if (err == BELFRY_OK)
        memcpy(out, bytes.data + bytes.start, TICKET_KEY_BYTES);
    belfry_secret_buf_fini(&bytes);
    return err;
}

static enum belfry_err read_line(struct belfry_bytes line, size_t number, struct ticket_keys *keys,
                                 char why[TICKET_KEYS_WHY])
{
    line = without_blanks(line);
    if (line.len == 0 || line.data[0] == '#')
        return BELFRY_OK;
    if (keys->n == TICKET_KEYS_MAX) {
        snprintf(why, TICKET_KEYS_WHY, "has more than %d keys: remove those that seal no ticket any more",
                 TICKET_KEYS_MAX);
        return BELFRY_ERR_INVALID;
    }
    enum belfry_err err = BELFRY_OK;
    if (!read_hex(line, keys->key[keys->n]))
        err = read_base64(line, keys->key[keys->n]);
    if (err == BELFRY_ERR_INVALID)
        snprintf(why, TICKET_KEYS_WHY, "has no key in line %zu, which must be 32 bytes as base64 or hex: " HOW_TO_MAKE,
                 number);
    keys->n += err == BELFRY_OK ? 1 : 0;
    return err;
}

enum belfry_err ticket_keys_read(struct belfry_bytes text, struct ticket_keys *out, char why[TICKET_KEYS_WHY])
{
    struct ticket_keys keys = {.n = 0};
    enum belfry_err err = BELFRY_OK;
    snprintf(why, TICKET_KEYS_WHY, "out of memory");
    for (size_t number = 1; text.len > 0 && err == BELFRY_OK; number++) {
        const char *end = memchr(text.data, '\n', text.len);
        size_t len = end == NULL ? text.len : (size_t)(end - text.data), used = end == NULL ? len : len + 1;
        err = read_line(belfry_bytes_of(text.data, len), number, &keys, why);
        text = belfry_bytes_of(text.data + used, text.len - used);
    }
    if (err == BELFRY_OK && keys.n == 0) {
        snprintf(why, TICKET_KEYS_WHY, "has no key: " HOW_TO_MAKE);
        err = BELFRY_ERR_INVALID;
    }
    if (err == BELFRY_OK)
        *out = keys;
    ticket_keys_wipe(&keys);
    return err;
}

enum belfry_err ticket_keys_load(const char *file, struct ticket_keys *out, char why[TICKET_KEYS_WHY])
{
    struct belfry_buf text;
    char reason[TICKET_KEYS_WHY];
    belfry_buf_init(&text);
    snprintf(why, TICKET_KEYS_WHY, "out of memory");
    enum belfry_err err = belfry_secret_file_read(file, TICKET_KEYS_FILE_BYTES, &text, why, TICKET_KEYS_WHY);
    if (err == BELFRY_OK) {
        err = ticket_keys_read(belfry_buf_bytes(&text), out, reason);
        if (err == BELFRY_ERR_INVALID)
            snprintf(why, TICKET_KEYS_WHY, "%.200s %.300s", file, reason);
    }
    belfry_secret_buf_fini(&text);
    return err;
}
