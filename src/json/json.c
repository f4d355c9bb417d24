/* src/json/json.c */
#include "json/json.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/base64.h"

#define PIECE 64 /* holds any number */

static void put(struct belfry_json *json, const void *data, size_t len)
{
    if (json->err == BELFRY_OK && len > 0)
        json->err = belfry_buf_append(json->buf, data, len);
}

static void put_str(struct belfry_json *json, const char *text)
{
    put(json, text, strlen(text));
}

/* What stands before a value: a comma, and its name. */
static void lead(struct belfry_json *json, const char *name, const char *name_end)
{
    if (json->more)
        put(json, ",", 1);
    json->more = true;
    if (name == NULL)
        return;
    put(json, "\"", 1);
    put_str(json, name);
    put_str(json, name_end);
    put(json, "\":", 2);
}

void belfry_json_open(struct belfry_json *json, const char *name, char bracket)
{
    lead(json, name, "");
    put(json, &bracket, 1);
    json->more = false;
}

void belfry_json_close(struct belfry_json *json, char bracket)
{
    put(json, &bracket, 1);
    json->more = true;
}

static bool continues(uint8_t byte)
{
    return (byte & 0xC0) == 0x80;
}

size_t belfry_json_utf8(struct belfry_bytes bytes)
{
    const uint8_t *s = (const uint8_t *)bytes.data;
    if (bytes.len == 0)
        return 0;
    if (s[0] < 0x80)
        return 1;
    if (s[0] < 0xC2 || s[0] > 0xF4) /* a stray continuation, overlong, or past U+10FFFF */
        return 0;
    size_t n = s[0] < 0xE0 ? 2 : s[0] < 0xF0 ? 3 : 4;
    if (bytes.len < n)
        return 0;
    for (size_t i = 1; i < n; i++) {
        if (!continues(s[i]))
            return 0;
    }
    bool overlong = (s[0] == 0xE0 && s[1] < 0xA0) || (s[0] == 0xF0 && s[1] < 0x90);
    bool surrogate = s[0] == 0xED && s[1] >= 0xA0;
    bool beyond = s[0] == 0xF4 && s[1] >= 0x90;
    return overlong || surrogate || beyond ? 0 : n;
}

static struct belfry_bytes rest(struct belfry_bytes bytes, size_t from)
{
    return from == bytes.len ? (struct belfry_bytes){0} : belfry_bytes_of(bytes.data + from, bytes.len - from);
}

static bool is_utf8(struct belfry_bytes bytes)
{
    for (size_t n; bytes.len > 0; bytes = rest(bytes, n)) {
        n = belfry_json_utf8(bytes);
        if (n == 0)
            return false;
    }
    return true;
}

static void put_escape(struct belfry_json *json, uint8_t byte)
{
    static const char short_forms[] = "\bb\ff\nn\rr\tt\"\"\\\\";
    char text[PIECE];
    for (const char *at = short_forms; *at != '\0'; at += 2) {
        if ((uint8_t)at[0] == byte) {
            put(json, "\\", 1);
            put(json, at + 1, 1);
            return;
        }
    }
    snprintf(text, sizeof(text), "\\u%04x", byte);
    put_str(json, text);
}

static void put_string(struct belfry_json *json, struct belfry_bytes text)
{
    put(json, "\"", 1);
    for (size_t n; text.len > 0; text = rest(text, n)) {
        uint8_t byte = (uint8_t)text.data[0];
        n = belfry_json_utf8(text);
        if (n == 0) {
            put(json, "\xEF\xBF\xBD", 3);
            n = 1;
        } else if (byte < 0x20 || byte == 0x7F || byte == '"' || byte == '\\') {
            put_escape(json, byte);
        } else {
            put(json, text.data, n);
        }
    }
    put(json, "\"", 1);
}

static void put_base64(struct belfry_json *json, struct belfry_bytes bytes)
{
    put(json, "\"", 1);
    if (json->err == BELFRY_OK)
        json->err = belfry_base64_encode(BELFRY_BASE64_STANDARD, bytes, json->buf);
    put(json, "\"", 1);
}

void belfry_json_text(struct belfry_json *json, const char *name, struct belfry_bytes text)
{
    bool plain = name == NULL || is_utf8(text);
    lead(json, name, plain ? "" : "_b64");
    if (plain)
        put_string(json, text);
    else
        put_base64(json, text);
}

void belfry_json_str(struct belfry_json *json, const char *name, const char *text)
{
    belfry_json_text(json, name, belfry_bytes_str(text));
}

void belfry_json_int(struct belfry_json *json, const char *name, int64_t number)
{
    char text[PIECE];
    snprintf(text, sizeof(text), "%" PRId64, number);
    lead(json, name, "");
    put_str(json, text);
}

void belfry_json_uint(struct belfry_json *json, const char *name, uint64_t number)
{
    char text[PIECE];
    snprintf(text, sizeof(text), "%" PRIu64, number);
    lead(json, name, "");
    put_str(json, text);
}

void belfry_json_real(struct belfry_json *json, const char *name, double number)
{
    char text[PIECE];
    snprintf(text, sizeof(text), "%.9g", number);
    lead(json, name, "");
    put_str(json, text);
}

void belfry_json_bool(struct belfry_json *json, const char *name, bool value)
{
    lead(json, name, "");
    put_str(json, value ? "true" : "false");
}

enum belfry_err belfry_json_finish(const struct belfry_json *json)
{
    return json->err;
}
