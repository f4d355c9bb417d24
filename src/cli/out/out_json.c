/* src/cli/out/out_json.c */
#include "cli/out/out_json.h"

#include <inttypes.h>
#include <string.h>

static bool continues(unsigned char byte)
{
    return (byte & 0xC0) == 0x80;
}

size_t json_utf8_char(const char *data, size_t len)
{
    const unsigned char *s = (const unsigned char *)data;
    if (len == 0)
        return 0;
    if (s[0] < 0x80)
        return 1;
    if (s[0] < 0xC2 || s[0] > 0xF4) /* a stray continuation, overlong, or past U+10FFFF */
        return 0;
    size_t n = s[0] < 0xE0 ? 2 : s[0] < 0xF0 ? 3 : 4;
    if (len < n)
        return 0;
    for (size_t i = 1; i < n; i++)
        if (!continues(s[i]))
            return 0;
    bool overlong = (s[0] == 0xE0 && s[1] < 0xA0) || (s[0] == 0xF0 && s[1] < 0x90);
    bool surrogate = s[0] == 0xED && s[1] >= 0xA0;
    bool beyond = s[0] == 0xF4 && s[1] >= 0x90;
    return overlong || surrogate || beyond ? 0 : n;
}

bool json_is_utf8(struct belfry_bytes bytes)
{
    for (size_t at = 0; at < bytes.len;) {
        size_t n = json_utf8_char(bytes.data + at, bytes.len - at);
        if (n == 0)
            return false;
        at += n;
    }
    return true;
}

static void write_escape(FILE *out, unsigned char byte)
{
    static const char short_forms[] = "\bb\ff\nn\rr\tt\"\"\\\\";
    for (const char *at = short_forms; *at != '\0'; at += 2)
        if ((unsigned char)at[0] == byte) {
            fputc('\\', out);
            fputc(at[1], out);
            return;
        }
    fprintf(out, "\\u%04x", byte);
}

void json_string(FILE *out, struct belfry_bytes text)
{
    fputc('"', out);
    size_t from = 0; /* what needs no escape goes out in one piece */
    for (size_t i = 0; i < text.len; i++) {
        unsigned char byte = (unsigned char)text.data[i];
        if (byte >= 0x20 && byte != '"' && byte != '\\')
            continue;
        fwrite(text.data + from, 1, i - from, out);
        write_escape(out, byte);
        from = i + 1;
    }
    if (from < text.len)
        fwrite(text.data + from, 1, text.len - from, out);
    fputc('"', out);
}

void json_base64(FILE *out, struct belfry_bytes bytes)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    fputc('"', out);
    for (size_t i = 0; i < bytes.len; i += 3) {
        size_t n = bytes.len - i < 3 ? bytes.len - i : 3;
        uint32_t word = (uint32_t)(unsigned char)bytes.data[i] << 16;
        if (n > 1)
            word |= (uint32_t)(unsigned char)bytes.data[i + 1] << 8;
        if (n > 2)
            word |= (unsigned char)bytes.data[i + 2];
        char quad[4] = {digits[word >> 18], digits[word >> 12 & 63], n > 1 ? digits[word >> 6 & 63] : '=',
                        n > 2 ? digits[word & 63] : '='};
        fwrite(quad, 1, sizeof(quad), out);
    }
    fputc('"', out);
}

void json_member(FILE *out, const char *name, struct belfry_bytes bytes)
{
    bool text = json_is_utf8(bytes);
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
