/* src/cli/out/out_table.c */
#include "cli/out/out_table.h"

#include <inttypes.h>
#include <time.h>

#include "base/utf8.h"

#define KEY_WIDTH_MIN 22
#define KEY_WIDTH_MAX 56 /* a longer key pushes its own line only */
#define VALUE_WIDTH   42 /* where the time stands when the value is shorter */

size_t table_bytes(FILE *out, struct belfry_bytes bytes, bool hex)
{
    size_t columns = 0;
    for (size_t at = 0; at < bytes.len;) {
        const char *s = bytes.data + at;
        uint32_t code;
        size_t n = belfry_utf8_next(s, bytes.len - at, &code);
        if (!hex && n > 0 && !belfry_utf8_is_control(code)) {
            fwrite(s, 1, n, out);
            columns++;
            at += n;
        } else {
            fprintf(out, "\\x%02x", (unsigned char)*s);
            columns += 4;
            at++;
        }
    }
    return columns;
}

static void pad(FILE *out, size_t from, size_t to)
{
    for (; from < to; from++)
        fputc(' ', out);
}

static void write_names(struct table *t, FILE *out)
{
    t->begun = true;
    if (t->key_width < KEY_WIDTH_MIN)
        t->key_width = KEY_WIDTH_MIN;
    fprintf(out, "  %-10s %-7s %-*s value\n", "rev", "op", (int)t->key_width, "key");
}

static size_t write_value(FILE *out, const struct belfry_event *event, bool hex)
{
    if (event->prev.data == NULL)
        return table_bytes(out, event->value, hex);
    size_t columns = table_bytes(out, event->prev, hex);
    if (event->op == BELFRY_DELETE) /* what is gone is all there is to show */
        return columns;
    fputs(" -> ", out);
    return columns + 4 + table_bytes(out, event->value, hex);
}

void table_event(struct table *t, FILE *out, int64_t rev, const char *op, const struct belfry_event *event,
                 const char *when)
{
    if (!t->begun)
        write_names(t, out);
    fprintf(out, "  %-10" PRId64 " %-7s ", rev, op);
    size_t key_columns = table_bytes(out, event->key, t->hex);
    if (key_columns > t->key_width && key_columns <= KEY_WIDTH_MAX)
        t->key_width = key_columns;
    bool has_value = event->value.len > 0 || event->prev.data != NULL;
    if (!has_value && when == NULL) {
        fputc('\n', out);
        return;
    }
    pad(out, key_columns, t->key_width);
    fputc(' ', out);
    size_t value_columns = write_value(out, event, t->hex);
    if (when != NULL) {
        pad(out, value_columns, VALUE_WIDTH);
        fprintf(out, " %s", when);
    }
    fputc('\n', out);
}

void table_clock(char out[TABLE_CLOCK])
{
    struct timespec now;
    struct tm local;
    clock_gettime(CLOCK_REALTIME, &now);
    if (localtime_r(&now.tv_sec, &local) == NULL)
        local = (struct tm){.tm_hour = 0};
    size_t len = strftime(out, TABLE_CLOCK, "%H:%M:%S", &local);
    snprintf(out + len, TABLE_CLOCK - len, ".%03u", (unsigned)(now.tv_nsec / 1000000) % 1000u);
}
