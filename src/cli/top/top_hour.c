/* src/cli/top/top_hour.c */
#include "cli/top/top_hour.h"

#include <stdbool.h>
#include <string.h>
#include <yyjson.h>

#include "cli/out/human_size.h"
#include "cli/top/top_line.h"
#include "cli/top/top_text.h"
#include "json/json_alc.h"

#define NAME_WIDTH  15
#define VALUE_WIDTH 12

enum unit { UNIT_RATE, UNIT_BYTES_RATE, UNIT_NUMBER, UNIT_BYTES, UNIT_MS };

/* How people call a column of the document, and read its values. */
static const struct hour_label {
    const char *column, *label;
    enum unit unit;
} labels[] = {
    {"events", "events in", UNIT_RATE},      {"deliveries", "deliveries", UNIT_RATE},
    {"sent_bytes", "sent", UNIT_BYTES_RATE}, {"p50_ms", "delivery p50", UNIT_MS},
    {"p99_ms", "delivery p99", UNIT_MS},     {"lag_ms", "lag", UNIT_MS},
    {"watchers", "watchers", UNIT_NUMBER},   {"connections", "connections", UNIT_NUMBER},
    {"reads_replica", "reads", UNIT_RATE},   {"reads_upstream", "by upstream", UNIT_RATE},
    {"relayed", "relayed", UNIT_RATE},       {"rejected", "rejected", UNIT_RATE},
    {"memory_bytes", "memory", UNIT_BYTES},
};

/* A value; `known` false: null, or no number. */
struct value {
    bool known;
    double number;
};

static struct value value_of(yyjson_val *row, size_t column)
{
    yyjson_val *cell = yyjson_arr_get(row, column);
    return (struct value){yyjson_is_num(cell), yyjson_get_num(cell)};
}

static struct value larger(struct value a, struct value b)
{
    return !a.known || (b.known && b.number > a.number) ? b : a;
}

static void print_value(struct value value, enum unit unit, char out[TOP_TEXT])
{
    char text[TOP_TEXT];
    if (!value.known || value.number < 0) {
        snprintf(out, TOP_TEXT, "-");
        return;
    }
    uint64_t whole = value.number < 1e18 ? (uint64_t)(value.number + 0.5) : UINT64_MAX;
    switch (unit) {
    case UNIT_MS:
        snprintf(out, TOP_TEXT, "%.3g ms", value.number);
        return;
    case UNIT_BYTES:
    case UNIT_BYTES_RATE:
        human_size(whole < INT64_MAX ? (int64_t)whole : INT64_MAX, text);
        break;
    case UNIT_RATE:
    case UNIT_NUMBER:
        top_text_number(whole, text);
        break;
    }
    snprintf(out, TOP_TEXT, "%.28s%s", text, unit == UNIT_RATE || unit == UNIT_BYTES_RATE ? "/s" : "");
}

static void add_step(struct top_line *line, struct value value, double largest)
{
    static const char *const steps[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    const size_t last = sizeof(steps) / sizeof(steps[0]) - 1;
    double part = value.known && largest > 0 ? value.number / largest * (double)last + 0.5 : 0;
    size_t step = part < 0 ? 0 : part > (double)last ? last : (size_t)part;
    top_line_add(line, "%s", value.known ? steps[step] : " ");
}

static void write_row(FILE *out, yyjson_val *rows, size_t column, const struct hour_label *label,
                      const struct top_hour_view *view)
{
    struct top_line line;
    char now[TOP_TEXT], most[TOP_TEXT];
    size_t n = yyjson_arr_size(rows), steps = n < TOP_HOUR_COURSE ? n : TOP_HOUR_COURSE;
    struct value course[TOP_HOUR_COURSE] = {{false, 0}}, largest = {false, 0}, newest = {false, 0};
    yyjson_val *row;
    size_t i, max;
    yyjson_arr_foreach(rows, i, max, row)
    {
        newest = value_of(row, column);
        largest = larger(largest, newest);
        course[i * steps / n] = larger(course[i * steps / n], newest);
    }
    print_value(newest, label->unit, now);
    print_value(largest, label->unit, most);
    top_line_begin(&line, view->columns);
    top_line_cell(&line, label->label, NAME_WIDTH, TOP_LEFT);
    top_line_cell(&line, now, VALUE_WIDTH, TOP_RIGHT);
    top_line_cell(&line, most, VALUE_WIDTH, TOP_RIGHT);
    top_line_add(&line, "  ");
    for (i = 0; i < steps; i++)
        add_step(&line, course[i], largest.number);
    top_line_end(&line, out, view->line_end);
}

/* False: the document has no such column. */
static bool find_column(yyjson_val *columns, const char *name, size_t *out)
{
    yyjson_val *column;
    size_t i, max;
    yyjson_arr_foreach(columns, i, max, column)
    {
        if (yyjson_equals_str(column, name)) {
            *out = i;
            return true;
        }
    }
    return false;
}

static void write_head(FILE *out, yyjson_val *root, size_t n, const struct top_hour_view *view)
{
    struct top_line line;
    char span[TOP_TEXT];
    top_text_age(n * yyjson_get_uint(yyjson_obj_get(root, "every_s")) * 1000, span);
    top_line_begin(&line, view->columns);
    top_line_cell(&line, "LAST HOUR", NAME_WIDTH, TOP_LEFT);
    top_line_cell(&line, "NOW", VALUE_WIDTH, TOP_RIGHT);
    top_line_cell(&line, "LARGEST", VALUE_WIDTH, TOP_RIGHT);
    top_line_field(&line, "of %s; a restart forgets it", span);
    top_line_end(&line, out, view->line_end);
}

static enum belfry_err write_document(FILE *out, yyjson_val *root, const struct top_hour_view *view)
{
    yyjson_val *columns = yyjson_obj_get(root, "columns"), *rows = yyjson_obj_get(root, "rows");
    size_t column, written = 1;
    if (!yyjson_is_arr(columns) || !yyjson_is_arr(rows))
        return BELFRY_ERR_PROTOCOL;
    if (view->most > 0)
        write_head(out, root, yyjson_arr_size(rows), view);
    for (size_t i = 0; i < sizeof(labels) / sizeof(labels[0]) && written < view->most; i++) {
        if (find_column(columns, labels[i].column, &column)) {
            write_row(out, rows, column, &labels[i], view);
            written++;
        }
    }
    return BELFRY_OK;
}

enum belfry_err top_hour_write(FILE *out, const char *json, size_t len, const struct top_hour_view *view)
{
    yyjson_read_err why = {0};
    yyjson_doc *doc = yyjson_read_opts((char *)(uintptr_t)json, len, YYJSON_READ_NOFLAG, &belfry_json_alc, &why);
    if (doc == NULL)
        return why.code == YYJSON_READ_ERROR_MEMORY_ALLOCATION ? BELFRY_ERR_NOMEM : BELFRY_ERR_PROTOCOL;
    enum belfry_err err = write_document(out, yyjson_doc_get_root(doc), view);
    yyjson_doc_free(doc);
    return err;
}
