/* src/cli/out/out_simple.c */
#include "cli/out/out_simple.h"

#include <unistd.h>

#include "base/utf8.h"

/* On a terminal a value could move the cursor, rename the window or answer for the user. */
static void write_shown(FILE *out, struct belfry_bytes bytes)
{
    for (size_t at = 0; at < bytes.len;) {
        const char *s = bytes.data + at;
        uint32_t code;
        size_t n = belfry_utf8_next(s, bytes.len - at, &code);
        bool is_shown = n > 0 && (!belfry_utf8_is_control(code) || code == '\n' || code == '\t');
        if (is_shown)
            fwrite(s, 1, n, out);
        else
            fprintf(out, "\\x%02x", (unsigned char)*s);
        at += is_shown ? n : 1;
    }
}

void simple_bytes(FILE *out, struct belfry_bytes bytes, unsigned how)
{
    if ((how & SIMPLE_HEX) != 0)
        for (size_t i = 0; i < bytes.len; i++)
            fprintf(out, "\\x%02x", (unsigned char)bytes.data[i]);
    else if (isatty(fileno(out)) == 1)
        write_shown(out, bytes);
    else if (bytes.len > 0)
        fwrite(bytes.data, 1, bytes.len, out);
}

static void write_line(FILE *out, struct belfry_bytes bytes, unsigned how)
{
    simple_bytes(out, bytes, how);
    fputc('\n', out);
}

void simple_kv(FILE *out, const struct belfry_event *kv, unsigned how)
{
    if ((how & SIMPLE_VALUE_ONLY) == 0)
        write_line(out, kv->key, how);
    write_line(out, kv->value, how);
}

void simple_change(FILE *out, const struct belfry_event *event, unsigned how)
{
    fputs(event->op == BELFRY_PUT ? "PUT\n" : "DELETE\n", out);
    if (event->prev.data != NULL) {
        write_line(out, event->key, how);
        write_line(out, event->prev, how);
    }
    simple_kv(out, event, how);
}
