/* src/json/json.c */
#include "json/json.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/base64.h"
#include "base/utf8.h"
#include "json/escape.h"

#define PIECE 64 /* enough for any number */

static void json_put(struct belfry_json *json, const void *data, size_t len)
{
    if (json->err == BELFRY_OK && len > 0)
        json->err = belfry_buf_append(json->buf, data, len);
}

static void json_put_str(struct belfry_json *json, const char *text)
{
    json_put(json, text, strlen(text));
}

/* Writes the comma and the name that precede a value. */
static void json_put_name(struct belfry_json *json, const char *name, const char *name_end)
{
    if (json->more)
        json_put(json, ",", 1);
    json->more = true;
    if (name == NULL)
        return;
    json_put(json, "\"", 1);
    json_put_str(json, name);
    json_put_str(json, name_end);
    json_put(json, "\":", 2);
}

void belfry_json_open(struct belfry_json *json, const char *name, char bracket)
{
    json_put_name(json, name, "");
    json_put(json, &bracket, 1);
    json->more = false;
}

void belfry_json_close(struct belfry_json *json, char bracket)
{
    json_put(json, &bracket, 1);
    json->more = true;
}

static void json_put_string(struct belfry_json *json, struct belfry_bytes text)
{
    char escape[BELFRY_ESCAPE_MAX];
    uint32_t code;
    json_put(json, "\"", 1);
    for (size_t at = 0, n; at < text.len; at += n == 0 ? 1 : n) {
        n = belfry_utf8_next(text.data + at, text.len - at, &code);
        if (n == 0)
            json_put(json, "\xEF\xBF\xBD", 3);
        else if (belfry_escape_needed(text.data[at]) || code == 0x7f)
            json_put(json, escape, belfry_escape_write(text.data[at], escape));
        else
            json_put(json, text.data + at, n);
    }
    json_put(json, "\"", 1);
}

static void json_put_base64(struct belfry_json *json, struct belfry_bytes bytes)
{
    json_put(json, "\"", 1);
    if (json->err == BELFRY_OK)
        json->err = belfry_base64_encode(BELFRY_BASE64_STANDARD, bytes, json->buf);
    json_put(json, "\"", 1);
}

void belfry_json_text(struct belfry_json *json, const char *name, struct belfry_bytes text)
{
    bool plain = name == NULL || belfry_utf8_valid(text.data, text.len);
    json_put_name(json, name, plain ? "" : "_b64");
    if (plain)
        json_put_string(json, text);
    else
        json_put_base64(json, text);
}

void belfry_json_str(struct belfry_json *json, const char *name, const char *text)
{
    belfry_json_text(json, name, belfry_bytes_str(text));
}

void belfry_json_int(struct belfry_json *json, const char *name, int64_t number)
{
    char text[PIECE];
    snprintf(text, sizeof(text), "%" PRId64, number);
    json_put_name(json, name, "");
    json_put_str(json, text);
}

void belfry_json_uint(struct belfry_json *json, const char *name, uint64_t number)
{
    char text[PIECE];
    snprintf(text, sizeof(text), "%" PRIu64, number);
    json_put_name(json, name, "");
    json_put_str(json, text);
}

void belfry_json_real(struct belfry_json *json, const char *name, double number)
{
    char text[PIECE];
    snprintf(text, sizeof(text), "%.9g", number);
    json_put_name(json, name, "");
    json_put_str(json, text);
}

void belfry_json_bool(struct belfry_json *json, const char *name, bool value)
{
    json_put_name(json, name, "");
    json_put_str(json, value ? "true" : "false");
}

void belfry_json_null(struct belfry_json *json, const char *name)
{
    json_put_name(json, name, "");
    json_put_str(json, "null");
}

enum belfry_err belfry_json_finish(const struct belfry_json *json)
{
    return json->err;
}
