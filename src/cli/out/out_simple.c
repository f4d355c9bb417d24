/* src/cli/out/out_simple.c */
#include "cli/out/out_simple.h"

void simple_bytes(FILE *out, struct belfry_bytes bytes, unsigned how)
{
    if ((how & SIMPLE_HEX) == 0 && bytes.len > 0)
        fwrite(bytes.data, 1, bytes.len, out);
    else
        for (size_t i = 0; i < bytes.len; i++)
            fprintf(out, "\\x%02x", (unsigned char)bytes.data[i]);
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
