/* src/cli/top/top_screen.c */
#include "cli/top/top_screen.h"

#include <inttypes.h>
#include <string.h>
#include <yyjson.h>

#include "cli/out/human_size.h"
#include "cli/top/top_line.h"
#include "cli/top/top_table.h"
#include "cli/top/top_text.h"
#include "json/json_alc.h"

/* ---- the lines on top: five, and one for each pool in trouble ---- */

/* The increase per second since the frame before; without one, the total. */
static bool rate_of(const struct top_view *view, uint64_t now, uint64_t before, uint64_t *out)
{
    bool is_rate = view->before != NULL && view->elapsed_ms > 0 && now >= before;
    *out = is_rate ? (now - before) * 1000 / view->elapsed_ms : now;
    return is_rate;
}

static void print_rate(const struct top_view *view, uint64_t now, uint64_t before, char out[TOP_TEXT])
{
    char text[TOP_TEXT];
    uint64_t number;
    bool is_rate = rate_of(view, now, before, &number);
    top_text_number(number, text);
    snprintf(out, TOP_TEXT, "%.28s%s", text, is_rate ? "/s" : "");
}

static void write_title(FILE *out, const struct top_numbers *n, const struct top_view *view)
{
    struct top_line line;
    char up[TOP_TEXT];
    top_line_begin(&line, view->columns);
    top_text_age(n->up_ms, up);
    bool is_told = n->verdict[0] != '\0';
    bool ready = is_told ? strcmp(n->verdict, "ready") == 0
                         : n->upstream_answered && strcmp(n->standing, "ready") == 0 && !n->draining;
    const char *why = is_told ? n->why : n->reason;
    top_line_add(&line, "belfryd %s  %s  up %s  %s", n->version, n->name, up,
                 n->draining ? "DRAINING"
                 : ready     ? "READY"
                             : "NOT READY");
    if (!ready && !n->draining && why[0] != '\0')
        top_line_add(&line, ": %s", why);
    if (n->endpoint[0] != '\0')
        top_line_add(&line, "  %s > %s", n->endpoint, n->name);
    if (n->workers_answering < n->workers)
        top_line_add(&line, "  (%" PRIu64 " of %" PRIu64 " workers do not answer)", n->workers - n->workers_answering,
                     n->workers);
    top_line_end(&line, out, view->line_end);
}

static void write_upstream(FILE *out, const struct top_numbers *n, const struct top_view *view)
{
    struct top_line line;
    char rev[TOP_TEXT], lag[TOP_TEXT], silent[TOP_TEXT], relayed[TOP_TEXT];
    uint64_t behind =
        n->upstream.upstream_revision > n->upstream.revision ? n->upstream.upstream_revision - n->upstream.revision : 0;
    top_text_number(n->upstream.revision, rev);
    top_text_number(behind, lag);
    top_text_age(n->upstream.silent_ms, silent);
    print_rate(view, n->relay.relayed, view->before != NULL ? view->before->relay.relayed : 0, relayed);
    top_line_begin(&line, view->columns);
    top_line_add(&line, "upstream  rev %s  lag %s rev, %s", rev, lag, n->silent_known ? silent : "unknown");
    top_line_field(&line, "reconnects %" PRIu64, n->upstream.losses);
    top_line_field(&line, "lists %" PRIu64, n->follower.listings);
    top_line_field(&line, "relayed %s", relayed);
    top_line_field(&line, "backfills %" PRIu64 " (%" PRIu64 " done)", n->upstream.backfills,
                   n->upstream.backfills_done);
    top_line_end(&line, out, view->line_end);
}

static void write_window(FILE *out, const struct top_numbers *n, const struct top_view *view)
{
    struct top_line line;
    char log[HUMAN_SIZE], history[HUMAN_SIZE], oldest[TOP_TEXT], kept[TOP_TEXT];
    human_size((int64_t)n->log.bytes, log);
    human_size((int64_t)n->replica.history_bytes, history);
    top_text_number(n->log.oldest, oldest);
    top_text_number(n->replica.history_oldest, kept);
    top_line_begin(&line, view->columns);
    top_line_add(&line, "window    log %s  %s..", log, oldest);
    top_line_field(&line, "history %s  %s..", history, kept);
    top_line_field(&line, "told compacted %" PRIu64, n->core.compacted);
    top_line_end(&line, out, view->line_end);
}

static void write_resources(FILE *out, const struct top_numbers *n, const struct top_view *view)
{
    struct top_line line;
    char objects[TOP_TEXT];
    if (n->resources.n == 0)
        return;
    top_text_number(n->resources.objects, objects);
    top_line_begin(&line, view->columns);
    top_line_add(&line, "resources %" PRIu64 " of %" PRIu64 " ready", n->resources.ready, n->resources.n);
    if (n->resources.waiting[0] != '\0')
        top_line_field(&line, "%s %s", n->resources.waiting, n->resources.state);
    if (n->resources.absent > 0)
        top_line_field(&line, "absent %" PRIu64, n->resources.absent);
    top_line_field(&line, "objects %s", objects);
    top_line_field(&line, "proofs %" PRIu64, n->resources.proofs);
    top_line_end(&line, out, view->line_end);
}

/* An upper bound in ms for `part` of all deliveries; -1: there were none; 0: above the last bound. */
static double percentile(const struct top_numbers *n, const struct top_numbers *before, double part)
{
    uint64_t all = 0, below = 0;
    uint64_t buckets[TOP_BUCKETS];
    for (size_t i = 0; i < TOP_BUCKETS; i++) {
        uint64_t old = before != NULL && before->latency[i] <= n->latency[i] ? before->latency[i] : 0;
        buckets[i] = n->latency[i] - old;
        all += buckets[i];
    }
    double bound = 0.1;
    for (size_t i = 0; i + 1 < TOP_BUCKETS && all > 0; i++, bound *= 2) {
        below += buckets[i];
        if ((double)below >= part * (double)all)
            return bound;
    }
    return all == 0 ? -1 : 0;
}

static void print_percentile(double ms, char out[TOP_TEXT])
{
    if (ms < 0)
        snprintf(out, TOP_TEXT, "-");
    else if (ms == 0)
        snprintf(out, TOP_TEXT, ">3s");
    else
        snprintf(out, TOP_TEXT, "<%.3gms", ms);
}

static uint64_t replica_reads(const struct top_numbers *n)
{
    return n == NULL ? 0 : n->reads.replica_linearizable + n->reads.replica_serializable;
}

static uint64_t upstream_reads(const struct top_numbers *n)
{
    return n == NULL ? 0 : n->reads.upstream_linearizable + n->reads.upstream_serializable;
}

static void write_flow(FILE *out, const struct top_numbers *n, const struct top_view *view)
{
    const struct top_numbers *b = view->before;
    struct top_line line;
    char in[TOP_TEXT], bytes[HUMAN_SIZE], p50[TOP_TEXT], p99[TOP_TEXT], deliveries[TOP_TEXT];
    char replica[TOP_TEXT], upstream[TOP_TEXT], rejected[TOP_TEXT];
    uint64_t events, sent;
    bool in_rate = rate_of(view, n->follower.events, b != NULL ? b->follower.events : 0, &events);
    bool out_rate = rate_of(view, n->inbound.bytes_out, b != NULL ? b->inbound.bytes_out : 0, &sent);
    top_text_number(events, in);
    human_size((int64_t)sent, bytes);
    print_rate(view, n->core.deliveries, b != NULL ? b->core.deliveries : 0, deliveries);
    print_rate(view, replica_reads(n), replica_reads(b), replica);
    print_rate(view, upstream_reads(n), upstream_reads(b), upstream);
    top_text_number(n->rejected, rejected);
    print_percentile(percentile(n, b, 0.5), p50);
    print_percentile(percentile(n, b, 0.99), p99);
    top_line_begin(&line, view->columns);
    top_line_add(&line, "flow      in %s ev%s", in, in_rate ? "/s" : "");
    top_line_field(&line, "out %s  %s%s", deliveries, bytes, out_rate ? "/s" : "");
    top_line_field(&line, "delivery p50 %s p99 %s", p50, p99);
    top_line_field(&line, "reads %s, by upstream %s", replica, upstream);
    top_line_field(&line, "rejected %s", rejected);
    top_line_end(&line, out, view->line_end);
}

static void write_watchers(FILE *out, const struct top_numbers *n, const struct top_view *view)
{
    struct top_line line;
    char all[TOP_TEXT], synced[TOP_TEXT], catching_up[TOP_TEXT], parked[TOP_TEXT], streams[TOP_TEXT], conns[TOP_TEXT];
    top_text_number(n->synced + n->catching_up + n->parked, all);
    top_text_number(n->synced, synced);
    top_text_number(n->catching_up, catching_up);
    top_text_number(n->parked, parked);
    top_text_number(n->core.streams, streams);
    top_text_number(n->inbound.connections, conns);
    top_line_begin(&line, view->columns);
    top_line_add(&line, "watchers  %s", all);
    top_line_field(&line, "synced %s", synced);
    top_line_field(&line, "catching up %s", catching_up);
    top_line_field(&line, "parked %s", parked);
    top_line_field(&line, "connections %s", conns);
    top_line_field(&line, "streams %s (%" PRIu64 " parked)", streams, n->core.parked);
    for (size_t i = 0; i < n->n_dialects; i++) {
        top_text_number(n->dialects[i].watchers, all);
        if (n->dialects[i].watchers > 0)
            top_line_field(&line, "%s %s", n->dialects[i].name, all);
    }
    top_line_end(&line, out, view->line_end);
}

/* At most so many. Returns how many. */
static size_t write_troubles(FILE *out, const struct top_numbers *n, const struct top_view *view, size_t most)
{
    size_t i = 0;
    for (; i < n->n_troubles && i < most; i++) {
        struct top_line line;
        top_line_begin(&line, view->columns);
        top_line_add(&line, "%-9s %s", i == 0 ? "pools" : "", n->troubles[i]);
        top_line_end(&line, out, view->line_end);
    }
    return i;
}

/* ---- the last hour: /debug/hour ---- */

#define HOUR_COURSE      60 /* columns at most */
#define HOUR_NAME_WIDTH  15
#define HOUR_VALUE_WIDTH 12

enum hour_unit { UNIT_RATE, UNIT_BYTES_RATE, UNIT_NUMBER, UNIT_BYTES, UNIT_MS };

/* How people call a column of the document, and read its values. */
static const struct hour_label {
    const char *column, *label;
    enum hour_unit unit;
} hour_labels[] = {
    {"events", "events in", UNIT_RATE},      {"deliveries", "deliveries", UNIT_RATE},
    {"sent_bytes", "sent", UNIT_BYTES_RATE}, {"p50_ms", "delivery p50", UNIT_MS},
    {"p99_ms", "delivery p99", UNIT_MS},     {"lag_ms", "lag", UNIT_MS},
    {"watchers", "watchers", UNIT_NUMBER},   {"connections", "connections", UNIT_NUMBER},
    {"reads_replica", "reads", UNIT_RATE},   {"reads_upstream", "by upstream", UNIT_RATE},
    {"relayed", "relayed", UNIT_RATE},       {"rejected", "rejected", UNIT_RATE},
    {"memory_bytes", "memory", UNIT_BYTES},
};

/* A value; `known` false: null, or no number. */
struct hour_value {
    bool known;
    double number;
};

static struct hour_value value_of(yyjson_val *row, size_t column)
{
    yyjson_val *cell = yyjson_arr_get(row, column);
    return (struct hour_value){yyjson_is_num(cell), yyjson_get_num(cell)};
}

static struct hour_value larger(struct hour_value a, struct hour_value b)
{
    return !a.known || (b.known && b.number > a.number) ? b : a;
}

static void print_hour_value(struct hour_value value, enum hour_unit unit, char out[TOP_TEXT])
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

/* What a number is now, the largest that it was, and its course, the oldest sample first. A column of the course is the
 * largest of the samples that it stands for; a blank: none of them is known. */
static void write_hour_row(FILE *out, yyjson_val *rows, size_t column, const struct hour_label *label,
                           const struct top_view *view)
{
    static const char *const blocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    const size_t highest = sizeof(blocks) / sizeof(blocks[0]) - 1;
    struct top_line line;
    char now[TOP_TEXT], most[TOP_TEXT];
    size_t n = yyjson_arr_size(rows), steps = n < HOUR_COURSE ? n : HOUR_COURSE;
    struct hour_value course[HOUR_COURSE] = {{false, 0}}, largest = {false, 0}, newest = {false, 0};
    yyjson_val *row;
    size_t i, max;
    yyjson_arr_foreach(rows, i, max, row)
    {
        newest = value_of(row, column);
        largest = larger(largest, newest);
        course[i * steps / n] = larger(course[i * steps / n], newest);
    }
    print_hour_value(newest, label->unit, now);
    print_hour_value(largest, label->unit, most);
    top_line_begin(&line, view->columns);
    top_line_cell(&line, label->label, HOUR_NAME_WIDTH, TOP_LEFT);
    top_line_cell(&line, now, HOUR_VALUE_WIDTH, TOP_RIGHT);
    top_line_cell(&line, most, HOUR_VALUE_WIDTH, TOP_RIGHT);
    top_line_add(&line, "  ");
    for (i = 0; i < steps; i++) {
        bool is_part = course[i].known && largest.number > 0;
        double part = is_part ? course[i].number / largest.number * (double)highest + 0.5 : 0;
        size_t step = part < 0 ? 0 : part > (double)highest ? highest : (size_t)part;
        top_line_add(&line, "%s", course[i].known ? blocks[step] : " ");
    }
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

static void write_hour_head(FILE *out, yyjson_val *root, size_t n, const struct top_view *view)
{
    struct top_line line;
    char span[TOP_TEXT];
    top_text_age(n * yyjson_get_uint(yyjson_obj_get(root, "every_s")) * 1000, span);
    top_line_begin(&line, view->columns);
    top_line_cell(&line, "LAST HOUR", HOUR_NAME_WIDTH, TOP_LEFT);
    top_line_cell(&line, "NOW", HOUR_VALUE_WIDTH, TOP_RIGHT);
    top_line_cell(&line, "LARGEST", HOUR_VALUE_WIDTH, TOP_RIGHT);
    top_line_field(&line, "of %s; a restart forgets it", span);
    top_line_end(&line, out, view->line_end);
}

/* At most so many lines. An older tier has no hour. */
static void write_hour(FILE *out, const struct top_view *view, size_t most)
{
    const struct http_page *page = view->hour;
    yyjson_doc *doc = yyjson_read_opts(page->body, page->len, YYJSON_READ_NOFLAG, &belfry_json_alc, NULL);
    yyjson_val *root = yyjson_doc_get_root(doc);
    yyjson_val *columns = yyjson_obj_get(root, "columns"), *rows = yyjson_obj_get(root, "rows");
    size_t column, written = 1;
    if (most > 0 && yyjson_is_arr(columns) && yyjson_is_arr(rows)) {
        write_hour_head(out, root, yyjson_arr_size(rows), view);
        for (size_t i = 0; i < sizeof(hour_labels) / sizeof(hour_labels[0]) && written < most; i++) {
            if (find_column(columns, hour_labels[i].column, &column)) {
                write_hour_row(out, rows, column, &hour_labels[i], view);
                written++;
            }
        }
    } else if (most > 0) {
        fprintf(out, "what this belfryd says of its last hour cannot be read%s", view->line_end);
    }
    yyjson_doc_free(doc);
}

/* ---- the whole ---- */

#define LINES_ABOVE 7 /* lines above the rows of the table, without those about pools */
#define LINES_BELOW 1 /* of the terminal, for what is asked and said */

static size_t room_of(const struct top_numbers *n, const struct top_view *view)
{
    size_t others = LINES_ABOVE + LINES_BELOW + (n->resources.n > 0);
    return view->lines == 0 ? SIZE_MAX : view->lines > others ? view->lines - others : 0;
}

size_t top_screen_page(const struct top_data *data, const struct top_view *view)
{
    size_t room = room_of(&data->numbers, view);
    return room > data->numbers.n_troubles ? room - data->numbers.n_troubles : 0;
}

void top_screen_write(FILE *out, const struct top_data *data, const struct top_view *view)
{
    size_t room = room_of(&data->numbers, view);
    write_title(out, &data->numbers, view);
    write_upstream(out, &data->numbers, view);
    write_resources(out, &data->numbers, view);
    write_window(out, &data->numbers, view);
    write_flow(out, &data->numbers, view);
    write_watchers(out, &data->numbers, view);
    room -= write_troubles(out, &data->numbers, view, room);
    fputs(view->line_end, out);
    if (view->hour != NULL) {
        write_hour(out, view, room);
        return;
    }
    struct top_table_view table = {
        .columns = view->columns, .sort = view->sort, .first = view->first, .most = room, .line_end = view->line_end};
    top_table_write(out, data, &table);
}

void top_screen_write_help(FILE *out, const struct top_view *view)
{
    static const char *const lines[] = {
        "belfryctl top: keys",
        "",
        "  Down Up  j k         scroll by a row",
        "  PgDn PgUp  Space b   scroll by a page",
        "  Home End             the first row, the last row",
        "  s                    sort by the next column; * marks it",
        "  g                    group watchers by range, peer or state, or not",
        "  /                    show only rows with a text; Esc keeps the old one",
        "                       Enter without a text: all of them",
        "  c                    clients instead of watchers, and back",
        "  h                    the last hour instead of watchers, and back",
        "  ?                    this help; any key ends it",
        "  q                    the end",
        "",
        "LAG is in revisions. A parked client does not read what it is sent.",
        "Wider terminals have more: SENT and AGE from 100 columns on, WHO from 120,",
        "CLIENT from 140, DIALECT from 150.",
        "--limit says how many rows are asked for.",
    };
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]) && (view->lines == 0 || i + 1 < view->lines); i++) {
        struct top_line line;
        top_line_begin(&line, view->columns);
        top_line_add(&line, "%s", lines[i]);
        top_line_end(&line, out, view->line_end);
    }
}
