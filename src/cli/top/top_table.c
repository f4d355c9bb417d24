/* src/cli/top/top_table.c */
#include "cli/top/top_table.h"

#include <assert.h>
#include <string.h>

#include "cli/out/human_size.h"
#include "cli/top/top_line.h"
#include "cli/top/top_text.h"

#define SELECTOR 256 /* characters shown of a selector */
#define WIDE     12  /* columns that the wide column has at least */

/* A terminal of `from` columns has it, and any while it is sorted by it. */
struct column {
    const char *name, *sort;
    size_t width, from; /* width 0: the wide column, which has what the others leave */
    enum top_align align;
};

#define COLUMNS_MAX 10

static const struct column watcher_columns[] = {
    {"LAG", "lag", 11, 0, TOP_RIGHT}, {"SENT", "sent", 7, 100, TOP_RIGHT}, {"AGE", "age", 6, 100, TOP_RIGHT},
    {"STATE", NULL, 11, 0, TOP_LEFT}, {"RANGE", NULL, 0, 0, TOP_LEFT},     {"PEER", NULL, 21, 0, TOP_LEFT},
    {"WHO", NULL, 12, 120, TOP_LEFT}, {"CLIENT", NULL, 16, 140, TOP_LEFT}, {"DIALECT", NULL, 7, 150, TOP_LEFT},
};
static const struct column group_columns[] = {
    {"WATCHERS", NULL, 11, 0, TOP_RIGHT},
    {"PARKED", NULL, 11, 0, TOP_RIGHT},
    {"MAX LAG", NULL, 11, 0, TOP_RIGHT},
    {"GROUP", NULL, 0, 0, TOP_LEFT},
};
static const struct column client_columns[] = {
    {"CPU %", "cpu", 6, 0, TOP_RIGHT},         {"MEMORY", "memory", 8, 0, TOP_RIGHT},
    {"CONNS", "connections", 7, 0, TOP_RIGHT}, {"WATCHERS", NULL, 9, 0, TOP_RIGHT},
    {"CALLS", "calls", 7, 0, TOP_RIGHT},       {"REQ/S", NULL, 8, 0, TOP_RIGHT},
    {"CLIENT", NULL, 0, 0, TOP_LEFT},          {"CALLS/S", NULL, 8, 110, TOP_RIGHT},
    {"IN/S", NULL, 8, 110, TOP_RIGHT},         {"OUT/S", NULL, 8, 110, TOP_RIGHT},
};

#define N_OF(array) (sizeof(array) / sizeof((array)[0]))
static_assert(N_OF(watcher_columns) <= COLUMNS_MAX && N_OF(client_columns) <= COLUMNS_MAX, "cells must hold a row");

/* The columns that are shown. */
struct layout {
    const struct column *columns;
    size_t n, wide; /* wide: the width of the wide column */
    const struct top_table_view *view;
};

static bool is_sorted_by(const struct column *column, const char *sort)
{
    return column->sort != NULL && strcmp(column->sort, sort) == 0;
}

static bool is_shown(const struct layout *layout, const struct column *column)
{
    return layout->view->columns == 0 || layout->view->columns >= column->from ||
           is_sorted_by(column, layout->view->sort);
}

static struct layout make_layout(const struct column *columns, size_t n, const struct top_table_view *view)
{
    struct layout layout = {.columns = columns, .n = n, .wide = TOP_LINE, .view = view};
    size_t others = 0;
    if (view->columns == 0)
        return layout;
    for (size_t i = 0; i < n; i++)
        if (columns[i].width > 0 && is_shown(&layout, &columns[i]))
            others += columns[i].width + 2;
    layout.wide = view->columns > others + WIDE ? view->columns - others : WIDE;
    return layout;
}

static void write_cells(FILE *out, const struct layout *layout, const char *const *cells)
{
    bool wide_last = layout->view->columns == 0;
    struct top_line line;
    top_line_begin(&line, layout->view->columns);
    for (size_t i = 0; i < layout->n; i++) {
        const struct column *column = &layout->columns[i];
        if (column->width > 0 && is_shown(layout, column))
            top_line_cell(&line, cells[i], column->width, column->align);
        else if (column->width == 0 && !wide_last)
            top_line_cell(&line, cells[i], layout->wide, column->align);
    }
    for (size_t i = 0; i < layout->n && wide_last; i++)
        if (layout->columns[i].width == 0)
            top_line_cell(&line, cells[i], layout->wide, TOP_LEFT);
    top_line_end(&line, out, layout->view->line_end);
}

static void write_names(FILE *out, const struct layout *layout)
{
    char names[COLUMNS_MAX][16];
    const char *cells[COLUMNS_MAX];
    for (size_t i = 0; i < layout->n; i++) {
        const struct column *column = &layout->columns[i];
        snprintf(names[i], sizeof(names[i]), "%s%s", column->name, is_sorted_by(column, layout->view->sort) ? "*" : "");
        cells[i] = names[i];
    }
    write_cells(out, layout, cells);
}

/* ---- watchers ---- */

/* As an argument of kubectl: "widgets -n prod -l app=web --field-selector spec.nodeName=n1". */
static void kube_range(const struct top_row *row, char *range, size_t len)
{
    static const char labels[] = "labelSelector=", fields[] = "fieldSelector=";
    const char *at = row->selector, *amp = strstr(at, "&fieldSelector=");
    int used = snprintf(range, len, "%.200s", row->resource);
    if (strncmp(at, labels, strlen(labels)) == 0) {
        at += strlen(labels);
        ptrdiff_t n = amp != NULL && amp - at < SELECTOR ? amp - at : SELECTOR;
        used += snprintf(range + used, len - (size_t)used, " -l %.*s", (int)n, at);
        at = amp != NULL ? amp + 1 : "";
    }
    if (strncmp(at, fields, strlen(fields)) == 0)
        snprintf(range + used, len - (size_t)used, " --field-selector %.*s", SELECTOR, at + strlen(fields));
}

static void write_row(FILE *out, const struct layout *layout, const struct top_row *row)
{
    char lag[TOP_TEXT], range[TOP_LINE], sent[HUMAN_SIZE], age[TOP_TEXT];
    top_text_number((uint64_t)row->lag, lag);
    top_text_age(row->age_ms, age);
    human_size((int64_t)row->sent_bytes, sent);
    if (row->resource[0] != '\0')
        kube_range(row, range, sizeof(range));
    else if (row->is_span)
        snprintf(range, sizeof(range), "[%.400s, %.400s)", row->key, row->range_end);
    else
        snprintf(range, sizeof(range), "%s%.800s%s", row->encoded ? "base64:" : "", row->key, row->prefix ? "*" : "");
    const char *cells[] = {lag, sent, age, row->state, range, row->peer, row->identity, row->client, row->dialect};
    static_assert(N_OF(cells) == N_OF(watcher_columns), "a cell for each column");
    write_cells(out, layout, cells);
}

/* ---- groups and clients ---- */

static void write_group(FILE *out, const struct layout *layout, const struct top_group *group)
{
    char watchers[TOP_TEXT], parked[TOP_TEXT], lag[TOP_TEXT];
    top_text_number(group->watchers, watchers);
    top_text_number(group->parked, parked);
    top_text_number((uint64_t)group->max_lag, lag);
    const char *cells[] = {watchers, parked, lag, group->label != NULL ? group->label : "(others)"};
    static_assert(N_OF(cells) == N_OF(group_columns), "a cell for each column");
    write_cells(out, layout, cells);
}

static void write_client(FILE *out, const struct layout *layout, const struct top_client *client)
{
    char memory[HUMAN_SIZE], in[HUMAN_SIZE], sent[HUMAN_SIZE];
    char connections[TOP_TEXT], watchers[TOP_TEXT], calls[TOP_TEXT], cpu[TOP_TEXT], asked[TOP_TEXT], called[TOP_TEXT];
    human_size((int64_t)client->memory_bytes, memory);
    human_size((int64_t)client->bytes_in_per_s, in);
    human_size((int64_t)client->bytes_out_per_s, sent);
    top_text_number(client->connections, connections);
    top_text_number(client->watchers, watchers);
    top_text_number(client->calls, calls);
    snprintf(cpu, sizeof(cpu), "%.1f", client->cpu_percent);
    snprintf(asked, sizeof(asked), "%.1f", client->requests_per_s);
    snprintf(called, sizeof(called), "%.1f", client->calls_per_s);
    const char *cells[] = {cpu, memory, connections, watchers, calls, asked, client->name, called, in, sent};
    static_assert(N_OF(cells) == N_OF(client_columns), "a cell for each column");
    write_cells(out, layout, cells);
}

/* ---- the table ---- */

size_t top_table_rows(const struct top_data *data)
{
    return data->n_rows + data->n_groups + data->n_clients; /* two of them are 0 */
}

void top_table_write(FILE *out, const struct top_data *data, const struct top_table_view *view)
{
    size_t n = top_table_rows(data),
           end = view->most < n - (view->first < n ? view->first : n) ? view->first + view->most : n;
    struct layout layout = {0};
    switch (data->table) {
    case TOP_ROWS:
        layout = make_layout(watcher_columns, N_OF(watcher_columns), view);
        break;
    case TOP_GROUPS:
        layout = make_layout(group_columns, N_OF(group_columns), view);
        break;
    case TOP_CLIENTS:
        layout = make_layout(client_columns, N_OF(client_columns), view);
        break;
    }
    write_names(out, &layout);
    for (size_t i = view->first; i < end; i++) {
        if (data->table == TOP_ROWS)
            write_row(out, &layout, &data->rows[i]);
        else if (data->table == TOP_GROUPS)
            write_group(out, &layout, &data->groups[i]);
        else
            write_client(out, &layout, &data->clients[i]);
    }
}
