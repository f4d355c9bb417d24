/* src/cli/out/out_json.c */
#include "cli/out/out_json.h"

#include <inttypes.h>
#include <string.h>

#include "base/base64.h"
#include "base/utf8.h"
#include "json/escape.h"

#define BASE64_PIECE 768 /* bytes, a multiple of 3 */

void json_string(FILE *out, struct belfry_bytes text)
{
    fputc('"', out);
    size_t from = 0; /* what needs no escape goes out in one piece */
    for (size_t i = 0; i < text.len; i++) {
        char escape[BELFRY_ESCAPE_MAX];
        if (!belfry_escape_needed(text.data[i]))
            continue;
        fwrite(text.data + from, 1, i - from, out);
        fwrite(escape, 1, belfry_escape_write(text.data[i], escape), out);
        from = i + 1;
    }
    if (from < text.len)
        fwrite(text.data + from, 1, text.len - from, out);
    fputc('"', out);
}

void json_base64(FILE *out, struct belfry_bytes bytes)
{
    char text[BELFRY_BASE64_LEN(BASE64_PIECE)];
    fputc('"', out);
    for (size_t at = 0; at < bytes.len; at += BASE64_PIECE) {
        size_t len = bytes.len - at < BASE64_PIECE ? bytes.len - at : BASE64_PIECE;
        struct belfry_bytes piece = belfry_bytes_of(bytes.data + at, len);
        fwrite(text, 1, belfry_base64_write(BELFRY_BASE64_STANDARD, piece, text), out);
    }
    fputc('"', out);
}

void json_member(FILE *out, const char *name, struct belfry_bytes bytes)
{
    bool text = belfry_utf8_valid(bytes.data, bytes.len);
    fprintf(out, ",\"%s%s\":", name, text ? "" : "_b64");
    if (text)
        json_string(out, bytes);
    else
        json_base64(out, bytes);
}

void json_event_line(FILE *out, int64_t rev, const char *op, const struct belfry_event *event)
{
    fprintf(out, "{\"rev\":%" PRId64 ",\"op\":\"%s\"", rev, op);
    if (strcmp(op, "put") == 0 && event->create_rev == event->mod_rev)
        fputs(",\"create\":true", out);
    json_member(out, "key", event->key);
    if (event->op == BELFRY_PUT)
        json_member(out, "value", event->value);
    if (event->prev.data != NULL)
        json_member(out, "prev", event->prev);
    fputs("}\n", out);
}
