/* src/cli/top/top_screen.c */
#include "cli/top/top_screen.h"

#include <inttypes.h>
#include <string.h>

#include "cli/out/human_size.h"
#include "cli/top/top_hour.h"
#include "cli/top/top_line.h"
#include "cli/top/top_table.h"
#include "cli/top/top_text.h"

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

/* An older tier has no hour. */
static void write_hour(FILE *out, const struct top_view *view, size_t most)
{
    struct top_hour_view hour = {.columns = view->columns, .most = most, .line_end = view->line_end};
    if (top_hour_write(out, view->hour->body, view->hour->len, &hour) != BELFRY_OK && most > 0)
        fprintf(out, "what this belfryd says of its last hour cannot be read%s", view->line_end);
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
