/* src/serve/admin/clients.c: the walk, the rows that it keeps, and how they are merged. */
#include "serve/admin/clients.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "serve/admin/page_query.h"
#include "json/json.h"

#define ROOM (2 * (size_t)CLIENTS_KEPT) /* rows until the smaller half is dropped */

struct client_row {
    double rank; /* by what is asked for */
    double cost; /* of a core */
    enum shares_class class;
    size_t held[SHARES_N];
    struct work_rates rates;
    char *name; /* owned by the scan */
};

struct clients_scan {
    struct clients_query query;
    struct shares_walk walk;
    double cost; /* of all clients of the worker */
    enum belfry_err err;
    size_t left_out;
    struct client_row *rows; /* owned; ROOM of them */
    size_t n_rows;
};

enum belfry_err clients_scan_create(const struct clients_query *query, struct shares *shares, struct clients_scan **out)
{
    assert(query->limit >= 1 && query->limit <= CLIENTS_KEPT);
    struct clients_scan *scan = calloc(1, sizeof(*scan));
    struct client_row *rows = calloc(ROOM, sizeof(*rows));
    if (scan == NULL || rows == NULL) {
        free(scan);
        free(rows);
        return BELFRY_ERR_NOMEM;
    }
    scan->query = *query;
    scan->rows = rows;
    shares_walk_begin(&scan->walk, shares);
    struct work_rates all = work_rates(&shares->work, shares->now_ms);
    scan->cost = work_cost(&all);
    *out = scan;
    return BELFRY_OK;
}

void clients_scan_destroy(struct clients_scan *scan)
{
    if (scan == NULL)
        return;
    shares_walk_end(&scan->walk);
    for (size_t i = 0; i < scan->n_rows; i++)
        free(scan->rows[i].name);
    free(scan->rows);
    free(scan);
}

/* ---- the query ---- */

static enum belfry_err set_parameter(const char *name, const char *value, void *user, char *why, size_t why_len)
{
    static const char *const sorts[] = {"cpu", "memory", "calls", "connections", NULL};
    struct clients_query *query = user;
    if (strcmp(name, "sort") == 0) {
        int sort = page_query_word(sorts, value);
        query->sort = sort < 0 ? CLIENTS_BY_CPU : (enum clients_sort)sort;
        snprintf(why, why_len, "sort: one of cpu, memory, calls, connections");
        return sort < 0 ? BELFRY_ERR_INVALID : BELFRY_OK;
    }
    if (strcmp(name, "limit") == 0) {
        snprintf(why, why_len, "limit: a number from 1 to %d", CLIENTS_KEPT);
        return page_query_limit(value, CLIENTS_KEPT, &query->limit);
    }
    if (strcmp(name, "filter") == 0) {
        snprintf(why, why_len, "filter: at most %zu bytes", sizeof(query->filter) - 1);
        return snprintf(query->filter, sizeof(query->filter), "%s", value) < (int)sizeof(query->filter)
                   ? BELFRY_OK
                   : BELFRY_ERR_INVALID;
    }
    snprintf(why, why_len, "no parameter is called %.32s: there are sort, limit and filter", name);
    return BELFRY_ERR_INVALID;
}

enum belfry_err clients_parse(struct belfry_bytes query, struct clients_query *out, char *why, size_t why_len)
{
    struct clients_query made = {.sort = CLIENTS_BY_CPU, .limit = CLIENTS_LIMIT};
    enum belfry_err err = page_query_each(query, set_parameter, &made, why, why_len);
    if (err == BELFRY_OK)
        *out = made;
    return err;
}

/* ---- rows ---- */

static size_t memory_of(const struct client_row *row)
{
    size_t sum = 0;
    for (enum shares_pool pool = 0; pool < SHARES_N; pool++)
        sum += shares_pool_is_bytes(pool) ? row->held[pool] : 0;
    return sum;
}

static void rank_row(struct client_row *row, enum clients_sort sort)
{
    row->cost = work_cost(&row->rates);
    switch (sort) {
    case CLIENTS_BY_CPU:
        row->rank = row->cost;
        break;
    case CLIENTS_BY_MEMORY:
        row->rank = (double)memory_of(row);
        break;
    case CLIENTS_BY_CALLS:
        row->rank = row->rates.per_s[WORK_CALLS];
        break;
    case CLIENTS_BY_CONNECTIONS:
        row->rank = (double)row->held[SHARES_CONNECTIONS];
        break;
    }
}

static int by_name(const void *a, const void *b)
{
    const struct client_row *x = a, *y = b;
    return x->class != y->class ? (x->class > y->class) - (x->class < y->class) : strcmp(x->name, y->name);
}

/* The larger first; of equal ones the more costly. */
static int by_rank(const void *a, const void *b)
{
    const struct client_row *x = a, *y = b;
    if (x->rank != y->rank)
        return x->rank > y->rank ? -1 : 1;
    if (x->cost != y->cost)
        return x->cost > y->cost ? -1 : 1;
    return by_name(a, b);
}

static void keep_the_largest(struct clients_scan *scan)
{
    if (scan->n_rows <= CLIENTS_KEPT)
        return;
    qsort(scan->rows, scan->n_rows, sizeof(*scan->rows), by_rank);
    for (; scan->n_rows > CLIENTS_KEPT; scan->left_out++)
        free(scan->rows[--scan->n_rows].name);
}

static void take_row(struct clients_scan *scan, const struct shares_view *view)
{
    if (strstr(view->name, scan->query.filter) == NULL)
        return;
    struct client_row row = {.class = view->class, .rates = view->rates, .name = strdup(view->name)};
    if (row.name == NULL) {
        scan->err = BELFRY_ERR_NOMEM;
        return;
    }
    memcpy(row.held, view->held, sizeof(row.held));
    rank_row(&row, scan->query.sort);
    if (scan->n_rows == ROOM)
        keep_the_largest(scan);
    scan->rows[scan->n_rows++] = row;
}

bool clients_scan_step(struct clients_scan *scan, size_t max_visits)
{
    struct shares_view view;
    for (; max_visits > 0; max_visits--) {
        if (!shares_walk_next(&scan->walk, &view)) {
            shares_walk_end(&scan->walk);
            keep_the_largest(scan);
            return true;
        }
        take_row(scan, &view);
    }
    return false;
}

/* ---- what came of it ---- */

static void add_row(struct client_row *sum, const struct client_row *row)
{
    for (enum shares_pool pool = 0; pool < SHARES_N; pool++)
        sum->held[pool] += row->held[pool];
    for (enum work_kind kind = 0; kind < WORK_N; kind++)
        sum->rates.per_s[kind] += row->rates.per_s[kind];
}

/* The rows of all scans, those of one client added up, in order; names are lent. Returns how many there are. */
static size_t merge_rows(struct client_row *all, struct clients_scan *const *scans, size_t n)
{
    size_t n_all = 0, n_merged = 0;
    for (size_t i = 0; i < n; i++) {
        memcpy(all + n_all, scans[i]->rows, scans[i]->n_rows * sizeof(*all));
        n_all += scans[i]->n_rows;
    }
    qsort(all, n_all, sizeof(*all), by_name);
    for (size_t i = 0; i < n_all; i++) {
        if (n_merged > 0 && by_name(&all[n_merged - 1], &all[i]) == 0)
            add_row(&all[n_merged - 1], &all[i]);
        else
            all[n_merged++] = all[i];
    }
    for (size_t i = 0; i < n_merged; i++)
        rank_row(&all[i], scans[0]->query.sort);
    qsort(all, n_merged, sizeof(*all), by_rank);
    return n_merged;
}

static double one_decimal(double number)
{
    return (double)(int64_t)(number * 10 + 0.5) / 10;
}

static void write_row(struct belfry_json *json, const struct client_row *row, double cost)
{
    static const char *const classes[] = {[SHARES_CLIENT] = "client", [SHARES_BELOW] = "tier"};
    belfry_json_open(json, NULL, '{');
    belfry_json_str(json, "client", row->name);
    belfry_json_str(json, "class", classes[row->class]);
    belfry_json_real(json, "cpu_percent", cost > 0 ? one_decimal(100 * row->cost / cost) : 0);
    belfry_json_uint(json, "memory_bytes", memory_of(row));
    belfry_json_uint(json, "connections", row->held[SHARES_CONNECTIONS]);
    belfry_json_uint(json, "watchers", row->held[SHARES_WATCHERS]);
    belfry_json_uint(json, "calls", row->held[SHARES_CALLS]);
    belfry_json_uint(json, "lists", row->held[SHARES_LISTS]);
    belfry_json_real(json, "requests_per_s", one_decimal(row->rates.per_s[WORK_REQUESTS]));
    belfry_json_real(json, "calls_per_s", one_decimal(row->rates.per_s[WORK_CALLS]));
    belfry_json_real(json, "connections_per_s", one_decimal(row->rates.per_s[WORK_CONNECTIONS]));
    belfry_json_real(json, "bytes_in_per_s", one_decimal(row->rates.per_s[WORK_BYTES_IN]));
    belfry_json_real(json, "bytes_out_per_s", one_decimal(row->rates.per_s[WORK_BYTES_OUT]));
    belfry_json_close(json, '}');
}

enum belfry_err clients_write(struct clients_scan *const *scans, size_t n, struct belfry_buf *out)
{
    struct belfry_json json = belfry_json_begin(out);
    size_t n_rows = 0, left_out = 0;
    double cost = 0;
    for (size_t i = 0; i < n; i++) {
        if (scans[i]->err != BELFRY_OK)
            return scans[i]->err;
        n_rows += scans[i]->n_rows;
        left_out += scans[i]->left_out;
        cost += scans[i]->cost;
    }
    struct client_row *all = malloc((n_rows + 1) * sizeof(*all));
    if (all == NULL)
        return BELFRY_ERR_NOMEM;
    n_rows = n > 0 ? merge_rows(all, scans, n) : 0;
    belfry_json_open(&json, NULL, '{');
    belfry_json_uint(&json, "clients", n_rows);
    belfry_json_uint(&json, "left_out", left_out);
    belfry_json_open(&json, "rows", '[');
    for (size_t i = 0; i < n_rows && i < scans[0]->query.limit; i++)
        write_row(&json, &all[i], cost);
    belfry_json_close(&json, ']');
    belfry_json_close(&json, '}');
    free(all);
    enum belfry_err err = belfry_json_finish(&json);
    return err == BELFRY_OK ? belfry_buf_append(out, "\n", 1) : err;
}
