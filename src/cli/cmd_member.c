/* src/cli/cmd_member.c: belfryctl member list. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cmd.h"
#include "cli/one_call.h"
#include "cli/out/out_etcd_json.h"
#include "cli/out/out_json.h"
#include "cli/out/out_table.h"

enum { COLUMN_ID, COLUMN_STATUS, COLUMN_NAME, COLUMN_PEERS, COLUMN_CLIENTS, COLUMN_LEARNER, N_COLUMNS };

static void write_list(FILE *out, const char *const *texts)
{
    for (const char *comma = ""; *texts != NULL; texts++, comma = ",")
        fprintf(out, "%s%s", comma, *texts);
}

/* One cell, as all forms but JSON write it. */
static void write_cell(FILE *out, const struct belfry_member *m, int column)
{
    if (column == COLUMN_ID)
        fprintf(out, "%" PRIx64, m->id);
    else if (column == COLUMN_STATUS)
        fputs(m->name[0] != '\0' ? "started" : "unstarted", out);
    else if (column == COLUMN_NAME)
        fputs(m->name, out);
    else if (column == COLUMN_PEERS)
        write_list(out, m->peer_urls);
    else if (column == COLUMN_CLIENTS)
        write_list(out, m->client_urls);
    else
        fputs(m->is_learner ? "true" : "false", out);
}

static void show_simple(const struct belfry_reply *reply)
{
    for (const struct belfry_member *m = NULL; (m = belfry_reply_member(reply, m)) != NULL;)
        for (int column = 0; column < N_COLUMNS; column++) {
            write_cell(stdout, m, column);
            fputs(column < N_COLUMNS - 1 ? ", " : "\n", stdout);
        }
}

/* ---- the table ---- */

/* The cell as bytes that are safe for a terminal, and how many columns they take; the caller frees *out. */
static size_t render(const struct belfry_member *m, int column, char **out)
{
    char *raw = NULL;
    size_t raw_len = 0, len = 0, columns = 0;
    *out = NULL;
    FILE *to = open_memstream(&raw, &raw_len);
    if (to == NULL)
        return 0;
    write_cell(to, m, column);
    if (fclose(to) == 0 && (to = open_memstream(out, &len)) != NULL) {
        columns = table_bytes(to, (struct belfry_bytes){raw, raw_len}, false);
        fclose(to);
    }
    free(raw);
    return columns;
}

static void write_gap(size_t n)
{
    printf("%*s", (int)n, "");
}

static void write_rule(const size_t widths[N_COLUMNS])
{
    for (int column = 0; column < N_COLUMNS; column++) {
        putchar('+');
        for (size_t i = 0; i < widths[column] + 2; i++)
            putchar('-');
    }
    puts("+");
}

static void write_row(const struct belfry_member *m, const size_t widths[N_COLUMNS])
{
    for (int column = 0; column < N_COLUMNS; column++) {
        char *text;
        size_t columns = render(m, column, &text);
        fputs("| ", stdout);
        write_gap(widths[column] - columns);
        printf("%s ", text != NULL ? text : "");
        free(text);
    }
    puts("|");
}

/* Names in the middle, all else to the right, as etcdctl's table has them. */
static void show_table(const struct belfry_reply *reply)
{
    static const char *const names[N_COLUMNS] = {"ID", "STATUS", "NAME", "PEER ADDRS", "CLIENT ADDRS", "IS LEARNER"};
    size_t widths[N_COLUMNS];
    for (int column = 0; column < N_COLUMNS; column++) {
        widths[column] = strlen(names[column]);
        for (const struct belfry_member *m = NULL; (m = belfry_reply_member(reply, m)) != NULL;) {
            char *text;
            size_t columns = render(m, column, &text);
            free(text);
            if (columns > widths[column])
                widths[column] = columns;
        }
    }
    write_rule(widths);
    for (int column = 0; column < N_COLUMNS; column++) {
        size_t gap = widths[column] - strlen(names[column]);
        fputs("| ", stdout);
        write_gap(gap / 2);
        fputs(names[column], stdout);
        write_gap(gap - gap / 2 + 1);
    }
    puts("|");
    write_rule(widths);
    for (const struct belfry_member *m = NULL; (m = belfry_reply_member(reply, m)) != NULL;)
        write_row(m, widths);
    write_rule(widths);
}

/* ---- lines ---- */

static void show_texts(const char *name, const char *const *texts)
{
    printf(",\"%s\":[", name);
    for (const char *comma = ""; *texts != NULL; texts++, comma = ",") {
        fputs(comma, stdout);
        json_string(stdout, (struct belfry_bytes){*texts, strlen(*texts)});
    }
    putchar(']');
}

static void show_line(const struct belfry_member *m)
{
    printf("{\"id\":\"%" PRIx64 "\"", m->id);
    json_member(stdout, "name", (struct belfry_bytes){m->name, strlen(m->name)});
    show_texts("peer_urls", m->peer_urls);
    show_texts("client_urls", m->client_urls);
    printf(",\"learner\":%s}\n", m->is_learner ? "true" : "false");
}

static void show(const struct flags *flags, const struct session_call *call, enum form form,
                 const struct belfry_reply *reply)
{
    (void)flags;
    (void)call;
    if (form == FORM_ETCD_JSON)
        etcd_json_members(stdout, reply);
    else if (form == FORM_TABLE)
        show_table(reply);
    else if (form == FORM_SIMPLE)
        show_simple(reply);
    else
        for (const struct belfry_member *m = NULL; (m = belfry_reply_member(reply, m)) != NULL;)
            show_line(m);
}

static int start(struct belfry *b, const struct session_call *call, const struct belfry_opts *opts, belfry_reply_fn fn,
                 void *user)
{
    (void)call;
    return belfry_member_list(b, opts, fn, user, NULL);
}

enum exit_code cmd_member(const struct flags *flags)
{
    static const struct session_call call = {.start = start, .show = show};
    if (strcmp(flags->args[0], "list") != 0)
        return report_usage("member knows one word: belfryctl member list");
    return session_run_call(flags, &call);
}
