/* src/cli/top/top_screen.c */
#include "cli/top/top_screen.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "base/utf8.h"
#include "cli/out/human_size.h"

#define LINE     1024
#define SELECTOR 256 /* characters shown of a selector */

void top_screen_number(uint64_t number, char out[TOP_TEXT])
{
    char digits[24];
    size_t len = (size_t)snprintf(digits, sizeof(digits), "%" PRIu64, number), n = 0;
    for (size_t i = 0; i < len; i++) {
        if (i > 0 && (len - i) % 3 == 0)
            out[n++] = ',';
        out[n++] = digits[i];
    }
    out[n] = '\0';
}

void top_screen_age(uint64_t ms, char out[TOP_TEXT])
{
    uint64_t s = ms / 1000, m = s / 60, h = m / 60;
    if (ms < 1000)
        snprintf(out, TOP_TEXT, "%" PRIu64 "ms", ms);
    else if (s < 60)
        snprintf(out, TOP_TEXT, "%" PRIu64 "s", s);
    else if (m < 60)
        snprintf(out, TOP_TEXT, "%" PRIu64 "m%02" PRIu64 "s", m, s % 60);
    else if (h < 24)
        snprintf(out, TOP_TEXT, "%" PRIu64 "h%02" PRIu64 "m", h, m % 60);
    else
        snprintf(out, TOP_TEXT, "%" PRIu64 "d%02" PRIu64 "h", h / 24, h % 24);
}

/* ---- lines ---- */

/* A line under construction, no wider than the terminal. A character counts as one column. */
struct line {
    char text[LINE * 4];
    size_t len, columns, max;
};

static void add_bytes(struct line *line, const char *text)
{
    size_t left = strlen(text);
    while (left > 0 && line->columns < line->max && line->len + 4 < sizeof(line->text)) {
        uint32_t code;
        size_t n = belfry_utf8_next(text, left, &code), step = n == 0 ? 1 : n;
        if (n > 0 && !belfry_utf8_is_control(code)) {
            memcpy(line->text + line->len, text, step);
            line->len += step;
        } else {
            line->text[line->len++] = '?';
        }
        line->columns++;
        text += step;
        left -= step;
    }
}

__attribute__((format(printf, 2, 3))) static void add(struct line *line, const char *format, ...)
{
    char text[LINE];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    add_bytes(line, text);
}

/* In exactly `width` columns, and two blanks; a longer text is cut. */
static void add_cell(struct line *line, const char *text, size_t width)
{
    size_t from = line->columns, max = line->max;
    line->max = from + width < max ? from + width : max;
    add_bytes(line, text);
    line->max = max;
    while (line->columns < from + width + 2 && line->columns < max && line->len < LINE) {
        line->text[line->len++] = ' ';
        line->columns++;
    }
}

static struct line begin(const struct top_view *view)
{
    struct line line = {.max = view->columns == 0 || view->columns > LINE ? LINE : view->columns};
    return line;
}

static void end(FILE *out, struct line *line, const struct top_view *view)
{
    while (line->len > 0 && line->text[line->len - 1] == ' ')
        line->len--;
    fwrite(line->text, 1, line->len, out);
    fputs(view->line_end, out);
}

/* ---- the lines on top: five, and one for each pool in trouble ---- */

/* The increase per second since the frame before; without one, the total. */
static void add_rate(struct line *line, const struct top_view *view, uint64_t now, uint64_t before, const char *unit)
{
    char text[TOP_TEXT];
    bool rate = view->before != NULL && view->elapsed_ms > 0 && now >= before;
    top_screen_number(rate ? (now - before) * 1000 / view->elapsed_ms : now, text);
    add(line, "%s%s%s", text, unit, rate ? "/s" : "");
}

static void add_size(struct line *line, uint64_t bytes)
{
    char text[HUMAN_SIZE];
    human_size((int64_t)bytes, text);
    add(line, "%s", text);
}

static void write_title(FILE *out, const struct top_numbers *n, const struct top_view *view)
{
    struct line line = begin(view);
    char up[TOP_TEXT];
    top_screen_age(n->up_ms, up);
    bool ready = n->upstream_answered && strcmp(n->standing, "ready") == 0 && !n->draining;
    add(&line, "belfryd %s  %s  up %s  %s", n->version, n->name, up,
        n->draining ? "DRAINING"
        : ready     ? "READY"
                    : "NOT READY");
    if (!ready && n->reason[0] != '\0')
        add(&line, ": %s", n->reason);
    if (n->endpoint[0] != '\0')
        add(&line, "  %s > %s", n->endpoint, n->name);
    if (n->workers_answering < n->workers)
        add(&line, "  (%" PRIu64 " of %" PRIu64 " workers do not answer)", n->workers - n->workers_answering,
            n->workers);
    add(&line, "  %s", view->right);
    end(out, &line, view);
}

static void write_upstream(FILE *out, const struct top_numbers *n, const struct top_view *view)
{
    struct line line = begin(view);
    char rev[TOP_TEXT], lag[TOP_TEXT], silent[TOP_TEXT];
    top_screen_number(n->upstream.revision, rev);
    top_screen_number(
        n->upstream.upstream_revision > n->upstream.revision ? n->upstream.upstream_revision - n->upstream.revision : 0,
        lag);
    top_screen_age(n->upstream.silent_ms, silent);
    add(&line, "upstream  rev %s  lag %s rev, %s   reconnects %" PRIu64 "   lists %" PRIu64 "   relayed ", rev, lag,
        n->silent_known ? silent : "unknown", n->upstream.losses, n->follower.listings);
    add_rate(&line, view, n->relay.relayed, view->before != NULL ? view->before->relay.relayed : 0, "");
    add(&line, "   backfills %" PRIu64 " (%" PRIu64 " done)", n->upstream.backfills, n->upstream.backfills_done);
    end(out, &line, view);
}

static void write_window(FILE *out, const struct top_numbers *n, const struct top_view *view)
{
    struct line line = begin(view);
    char rev[TOP_TEXT];
    add(&line, "window    log ");
    add_size(&line, n->log.bytes);
    top_screen_number(n->log.oldest, rev);
    add(&line, "  %s..   history ", rev);
    add_size(&line, n->replica.history_bytes);
    top_screen_number(n->replica.history_oldest, rev);
    add(&line, "  %s..   told compacted %" PRIu64, rev, n->core.compacted);
    end(out, &line, view);
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

static void add_percentile(struct line *line, const char *name, double ms)
{
    if (ms < 0)
        add(line, " %s -", name);
    else if (ms == 0)
        add(line, " %s >3s", name);
    else
        add(line, " %s <%.3gms", name, ms);
}

static void write_flow(FILE *out, const struct top_numbers *n, const struct top_view *view)
{
    struct line line = begin(view);
    const struct top_numbers *b = view->before;
    add(&line, "flow      in ");
    add_rate(&line, view, n->follower.events, b != NULL ? b->follower.events : 0, " ev");
    add(&line, "   out ");
    add_rate(&line, view, n->core.deliveries, b != NULL ? b->core.deliveries : 0, "");
    bool rate = b != NULL && view->elapsed_ms > 0 && n->inbound.bytes_out >= b->inbound.bytes_out;
    add(&line, "  ");
    add_size(&line,
             rate ? (n->inbound.bytes_out - b->inbound.bytes_out) * 1000 / view->elapsed_ms : n->inbound.bytes_out);
    add(&line, "%s   delivery", rate ? "/s" : "");
    add_percentile(&line, "p50", percentile(n, b, 0.5));
    add_percentile(&line, "p99", percentile(n, b, 0.99));
    end(out, &line, view);
}

static void write_watchers(FILE *out, const struct top_numbers *n, const struct top_view *view)
{
    struct line line = begin(view);
    char all[TOP_TEXT], synced[TOP_TEXT], catching_up[TOP_TEXT], parked[TOP_TEXT], streams[TOP_TEXT], conns[TOP_TEXT];
    top_screen_number(n->synced + n->catching_up + n->parked, all);
    top_screen_number(n->synced, synced);
    top_screen_number(n->catching_up, catching_up);
    top_screen_number(n->parked, parked);
    top_screen_number(n->core.streams, streams);
    top_screen_number(n->inbound.connections, conns);
    add(&line, "watchers  %s    synced %s   catching up %s   parked %s      streams grpc %s (%" PRIu64 " parked)   ",
        all, synced, catching_up, parked, streams, n->core.parked);
    add(&line, "connections %s", conns);
    end(out, &line, view);
}

/* At most so many. Returns how many. */
static size_t write_troubles(FILE *out, const struct top_numbers *n, const struct top_view *view, size_t most)
{
    size_t i = 0;
    for (; i < n->n_troubles && i < most; i++) {
        struct line line = begin(view);
        add(&line, "%-9s %s", i == 0 ? "pools" : "", n->troubles[i]);
        end(out, &line, view);
    }
    return i;
}

/* ---- the table ---- */

static const size_t widths[] = {11, 11, 7, 21, 12, 18, 30, 8, 7};

static void add_cells(struct line *line, const char *const *cells)
{
    char lag[64];
    snprintf(lag, sizeof(lag), "%*s", (int)widths[0], cells[0]);
    add_cell(line, lag, widths[0]);
    for (size_t i = 1; i < sizeof(widths) / sizeof(widths[0]); i++)
        add_cell(line, cells[i], widths[i]);
}

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

static void write_row(FILE *out, const struct top_row *row, const struct top_view *view)
{
    struct line line = begin(view);
    char lag[TOP_TEXT], range[LINE], sent[HUMAN_SIZE], age[TOP_TEXT];
    top_screen_number((uint64_t)row->lag, lag);
    top_screen_age(row->age_ms, age);
    human_size((int64_t)row->sent_bytes, sent);
    if (row->selector[0] != '\0')
        kube_range(row, range, sizeof(range));
    else if (row->is_span)
        snprintf(range, sizeof(range), "[%.400s, %.400s)", row->key, row->range_end);
    else
        snprintf(range, sizeof(range), "%s%.800s%s", row->encoded ? "base64:" : "", row->key, row->prefix ? "*" : "");
    const char *cells[] = {lag, row->state, row->dialect, row->peer, row->identity, row->client, range, sent, age};
    add_cells(&line, cells);
    end(out, &line, view);
}

static void write_group(FILE *out, const struct top_group *group, const struct top_view *view)
{
    struct line line = begin(view);
    char watchers[TOP_TEXT], parked[TOP_TEXT], lag[TOP_TEXT];
    top_screen_number(group->watchers, watchers);
    top_screen_number(group->parked, parked);
    top_screen_number((uint64_t)group->max_lag, lag);
    add(&line, "%11s  %11s  %11s  %s", watchers, parked, lag, group->label != NULL ? group->label : "(others)");
    end(out, &line, view);
}

static void write_client(FILE *out, const struct top_client *client, const struct top_view *view)
{
    struct line line = begin(view);
    char memory[HUMAN_SIZE], in[HUMAN_SIZE], sent[HUMAN_SIZE];
    char connections[TOP_TEXT], watchers[TOP_TEXT], calls[TOP_TEXT];
    human_size((int64_t)client->memory_bytes, memory);
    human_size((int64_t)client->bytes_in_per_s, in);
    human_size((int64_t)client->bytes_out_per_s, sent);
    top_screen_number(client->connections, connections);
    top_screen_number(client->watchers, watchers);
    top_screen_number(client->calls, calls);
    add(&line, "%6.1f  %8s  %11s  %9s  %7s  %8.1f  %8.1f  %8s  %8s  %s", client->cpu_percent, memory, connections,
        watchers, calls, client->calls_per_s, client->requests_per_s, in, sent, client->name);
    end(out, &line, view);
}

static void write_table_head(FILE *out, const struct top_data *data, const struct top_view *view)
{
    static const char *const names[] = {"LAG", "STATE", "DIALECT", "PEER", "WHO", "CLIENT", "RANGE", "SENT", "AGE"};
    struct line line = begin(view);
    switch (data->table) {
    case TOP_ROWS:
        add_cells(&line, names);
        break;
    case TOP_GROUPS:
        add(&line, "%11s  %11s  %11s  %s", "WATCHERS", "PARKED", "MAX LAG", "GROUP");
        break;
    case TOP_CLIENTS:
        add(&line, "%6s  %8s  %11s  %9s  %7s  %8s  %8s  %8s  %8s  %s", "CPU %", "MEMORY", "CONNECTIONS", "WATCHERS",
            "CALLS", "CALLS/S", "REQ/S", "IN/S", "OUT/S", "CLIENT");
        break;
    }
    end(out, &line, view);
}

static void write_table(FILE *out, const struct top_data *data, const struct top_view *view, size_t most)
{
    write_table_head(out, data, view);
    for (size_t i = 0; i < data->n_rows && i < most; i++)
        write_row(out, &data->rows[i], view);
    for (size_t i = 0; i < data->n_groups && i < most; i++)
        write_group(out, &data->groups[i], view);
    for (size_t i = 0; i < data->n_clients && i < most; i++)
        write_client(out, &data->clients[i], view);
}

#define LINES_ABOVE 7 /* lines above the rows of the table, without those about pools */

void top_screen_write(FILE *out, const struct top_data *data, const struct top_view *view)
{
    write_title(out, &data->numbers, view);
    write_upstream(out, &data->numbers, view);
    write_window(out, &data->numbers, view);
    write_flow(out, &data->numbers, view);
    write_watchers(out, &data->numbers, view);
    size_t most = view->lines == 0 ? SIZE_MAX : view->lines > LINES_ABOVE + 1 ? view->lines - LINES_ABOVE - 1 : 0;
    most -= write_troubles(out, &data->numbers, view, most);
    fputs(view->line_end, out);
    write_table(out, data, view, most);
}
