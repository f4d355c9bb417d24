/* src/serve/admin/watchers.c: the walk, the rows or groups it keeps, and how they are merged. */
#include "serve/admin/watchers.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/map.h"
#include "json/json.h"

#define RANGE_BYTES 160 /* "widgets -n prod" */

/* The service that a stream belongs to, in the order of the walk. */
enum source { SOURCE_WATCH, SOURCE_KUBE, SOURCE_SSE, SOURCES };
static const char *const dialects[] = {[SOURCE_WATCH] = "grpc", [SOURCE_KUBE] = "kube", [SOURCE_SSE] = "sse"};

/* A stream of any. */
struct seen {
    enum source source;
    struct watch_view view;
    char range[RANGE_BYTES];      /* as its dialect says it; "": as keys */
    struct belfry_bytes selector; /* of dialect kube, lent until the next; "": everything */
};

static const char *const standings[] = {
    [WATCHER_SYNCED] = "synced", [WATCHER_CATCHING_UP] = "catching up", [WATCHER_PARKED] = "parked"};

/* The order of rows: the larger `first`, then the worse standing, then the order of the walk. */
struct rank {
    uint64_t first; /* lag, bytes sent or age, as asked for */
    enum watcher_standing standing;
    enum source source;
    uint64_t number; /* of its stream */
    int64_t id;
};

struct row {
    struct rank rank;
    int64_t lag;
    uint64_t sent_bytes, age_ms;
    enum range_kind kind;
    bool cut;
    char peer[64], user[64], identity[IDENTITY_SHOWN], client[64];
    char range[RANGE_BYTES]; /* "": as keys */
    size_t key_len, end_len, selector_len;
    char bytes[]; /* key, end, selector */
};

struct total {
    size_t watchers, parked;
    int64_t max_lag;
};

struct group {
    struct belfry_map_node node;
    struct total total;
    size_t label_len;
    char label[];
};
#define LABEL_BYTES (2 * WATCHERS_KEY_BYTES + 16)

struct watchers_scan {
    /* fixed at creation */
    struct watchers_query query;
    size_t filter_len;
    struct watch_service *service;
    struct kube_service *kube; /* NULL: none */
    struct sse_streams *sse;   /* the same */
    struct worker *worker;
    int64_t head;
    uint64_t now_ms;
    struct belfry_hash_key hash_key;
    struct watchers_core
        *cores; /* owned; NULL: one core, that of kube, worker and head. Otherwise those are cores[at] */
    size_t n_cores, at;
    /* where it is */
    enum source source;
    uint64_t number; /* of the stream it is in, or was in last */
    int64_t after_id;
    bool inside;
    bool done;
    /* what it has */
    size_t watchers, matched;
    enum belfry_err err;
    struct row **rows; /* owned; a heap with the worst on top */
    size_t n_rows;
    struct belfry_map groups;
    struct total other;
};

enum belfry_err watchers_scan_create(const struct watchers_query *query, struct watch_service *service,
                                     struct worker *worker, int64_t head, uint64_t now_ms, struct watchers_scan **out)
{
    assert(query->limit >= 1 && query->limit <= WATCHERS_LIMIT_MAX);
    struct watchers_scan *scan = calloc(1, sizeof(*scan));
    if (scan == NULL)
        return BELFRY_ERR_NOMEM;
    scan->query = *query;
    scan->filter_len = strlen(query->filter);
    scan->service = service;
    scan->worker = worker;
    scan->head = head;
    scan->now_ms = now_ms;
    scan->hash_key = belfry_hash_key_draw();
    belfry_map_init(&scan->groups);
    if (query->group == WATCHERS_UNGROUPED)
        scan->rows = calloc(query->limit, sizeof(*scan->rows));
    if (query->group == WATCHERS_UNGROUPED && scan->rows == NULL) {
        watchers_scan_destroy(scan);
        return BELFRY_ERR_NOMEM;
    }
    *out = scan;
    return BELFRY_OK;
}

void watchers_scan_destroy(struct watchers_scan *scan)
{
    if (scan == NULL)
        return;
    for (size_t i = 0; i < scan->n_rows; i++)
        free(scan->rows[i]);
    for (struct belfry_map_node *node; (node = belfry_map_drain(&scan->groups)) != NULL;)
        free(belfry_container(node, struct group, node));
    belfry_map_fini(&scan->groups);
    free(scan->rows);
    free(scan->cores);
    free(scan);
}

static void scan_core(struct watchers_scan *scan, size_t at)
{
    scan->at = at;
    scan->kube = scan->cores[at].kube;
    scan->worker = scan->cores[at].worker;
    scan->head = scan->cores[at].head;
}

enum belfry_err watchers_scan_cores(struct watchers_scan *scan, const struct watchers_core *cores, size_t n)
{
    if (n == 0)
        return BELFRY_OK;
    scan->cores = malloc(n * sizeof(*cores));
    if (scan->cores == NULL)
        return BELFRY_ERR_NOMEM;
    memcpy(scan->cores, cores, n * sizeof(*cores));
    scan->n_cores = n;
    scan_core(scan, 0);
    return BELFRY_OK;
}

void watchers_scan_kube(struct watchers_scan *scan, struct kube_service *kube)
{
    scan->kube = kube;
}

void watchers_scan_sse(struct watchers_scan *scan, struct sse_streams *sse)
{
    scan->sse = sse;
}

/* ---- rows ---- */

static int rank_order(const struct rank *a, const struct rank *b)
{
    if (a->first != b->first)
        return a->first > b->first ? -1 : 1;
    if (a->standing != b->standing)
        return a->standing > b->standing ? -1 : 1;
    if (a->source != b->source)
        return a->source < b->source ? -1 : 1;
    if (a->number != b->number)
        return a->number < b->number ? -1 : 1;
    return (a->id > b->id) - (a->id < b->id);
}

static bool is_worse(const struct watchers_scan *scan, size_t a, size_t b)
{
    return rank_order(&scan->rows[a]->rank, &scan->rows[b]->rank) > 0;
}

static void swap(struct watchers_scan *scan, size_t a, size_t b)
{
    struct row *row = scan->rows[a];
    scan->rows[a] = scan->rows[b];
    scan->rows[b] = row;
}

static void sift_up(struct watchers_scan *scan, size_t at)
{
    for (; at > 0 && is_worse(scan, at, (at - 1) / 2); at = (at - 1) / 2)
        swap(scan, at, (at - 1) / 2);
}

static void sift_down(struct watchers_scan *scan, size_t at)
{
    for (size_t child; (child = 2 * at + 1) < scan->n_rows; at = child) {
        if (child + 1 < scan->n_rows && is_worse(scan, child + 1, child))
            child++;
        if (!is_worse(scan, child, at))
            return;
        swap(scan, at, child);
    }
}

/* At most WATCHERS_KEY_BYTES of it, cut between characters. */
static size_t kept_len(struct belfry_bytes bytes)
{
    if (bytes.len <= WATCHERS_KEY_BYTES)
        return bytes.len;
    size_t len = WATCHERS_KEY_BYTES;
    while (len > WATCHERS_KEY_BYTES - 3 && ((uint8_t)bytes.data[len] & 0xC0) == 0x80)
        len--;
    return len;
}

static size_t append(char *to, size_t at, struct belfry_bytes bytes, size_t len)
{
    if (len > 0)
        memcpy(to + at, bytes.data, len);
    return at + len;
}

static const char *user_of(const struct watch_view *stream)
{
    return stream->conn->user != NULL ? stream->conn->user : "";
}

static struct row *make_row(const struct watchers_scan *scan, const struct rank *rank, const struct seen *seen,
                            const struct watcher_view *watcher, int64_t lag)
{
    const struct watch_view *stream = &seen->view;
    const struct range *range = &watcher->range;
    size_t key_len = kept_len(range->key), end_len = kept_len(range->end), selector_len = kept_len(seen->selector);
    struct row *row = malloc(sizeof(*row) + key_len + end_len + selector_len);
    if (row == NULL)
        return NULL;
    *row = (struct row){.rank = *rank, .lag = lag, .kind = range->kind};
    row->key_len = key_len;
    row->end_len = end_len;
    row->selector_len = selector_len;
    row->sent_bytes = stream->sent_bytes;
    row->age_ms = scan->now_ms - stream->opened_ms;
    row->cut = key_len < range->key.len || end_len < range->end.len || selector_len < seen->selector.len;
    snprintf(row->peer, sizeof(row->peer), "%s", stream->conn->peer);
    snprintf(row->user, sizeof(row->user), "%s", user_of(stream));
    identity_show(stream->who, row->identity);
    snprintf(row->client, sizeof(row->client), "%s", stream->client);
    memcpy(row->range, seen->range, sizeof(row->range));
    size_t at = append(row->bytes, append(row->bytes, 0, range->key, key_len), range->end, end_len);
    append(row->bytes, at, seen->selector, selector_len);
    return row;
}

static uint64_t rank_first(const struct watchers_scan *scan, const struct watch_view *stream, int64_t lag)
{
    switch (scan->query.sort) {
    case WATCHERS_BY_LAG:
        return (uint64_t)lag;
    case WATCHERS_BY_SENT:
        return stream->sent_bytes;
    case WATCHERS_BY_AGE:
        return scan->now_ms - stream->opened_ms;
    }
    return 0;
}

/* Allocates a row only if it is kept. */
static void offer_row(struct watchers_scan *scan, const struct seen *seen, const struct watcher_view *watcher,
                      int64_t lag)
{
    struct rank rank = {
        .standing = watcher->standing, .source = seen->source, .number = scan->number, .id = watcher->id};
    rank.first = rank_first(scan, &seen->view, lag);
    bool full = scan->n_rows == scan->query.limit;
    if (full && rank_order(&rank, &scan->rows[0]->rank) > 0)
        return;
    struct row *row = make_row(scan, &rank, seen, watcher, lag);
    if (row == NULL) {
        scan->err = BELFRY_ERR_NOMEM;
        return;
    }
    if (full) {
        free(scan->rows[0]);
        scan->rows[0] = row;
        sift_down(scan, 0);
    } else {
        scan->rows[scan->n_rows++] = row;
        sift_up(scan, scan->n_rows - 1);
    }
}

/* ---- groups ---- */

static void total_add(struct total *total, const struct total *more)
{
    total->watchers += more->watchers;
    total->parked += more->parked;
    if (more->max_lag > total->max_lag)
        total->max_lag = more->max_lag;
}

/* "/a", "/a*", "[/a, /b)": as people write ranges. A text that was cut ends in three dots. */
static size_t range_label(const struct range *range, char *label)
{
    size_t key_len = kept_len(range->key), end_len = kept_len(range->end), at = 0;
    bool span = range->kind == RANGE_SPAN;
    if (span)
        label[at++] = '[';
    at = append(label, at, range->key, key_len);
    if (key_len < range->key.len)
        at = append(label, at, belfry_bytes_of("...", 3), 3);
    if (range->kind == RANGE_PREFIX)
        label[at++] = '*';
    if (!span)
        return at;
    at = append(label, at, belfry_bytes_of(", ", 2), 2);
    at = append(label, at, range->end, end_len);
    if (end_len < range->end.len)
        at = append(label, at, belfry_bytes_of("...", 3), 3);
    label[at++] = ')';
    return at;
}

static size_t group_label(const struct watchers_scan *scan, const struct seen *seen, const struct watcher_view *watcher,
                          char *label)
{
    const struct watch_view *stream = &seen->view;
    struct belfry_bytes text = belfry_bytes_str(standings[watcher->standing]);
    const char *colon = strrchr(stream->conn->peer, ':');
    switch (scan->query.group) {
    case WATCHERS_GROUP_RANGE:
        if (seen->range[0] == '\0')
            return range_label(&watcher->range, label);
        text = belfry_bytes_str(seen->range);
        break;
    case WATCHERS_GROUP_PEER: /* without its port: a host opens many connections */
        text = belfry_bytes_str(stream->conn->peer);
        text.len = colon == NULL ? text.len : (size_t)(colon - stream->conn->peer);
        break;
    case WATCHERS_GROUP_STATE:
    case WATCHERS_UNGROUPED:
        break;
    }
    return append(label, 0, text, text.len);
}

static struct group *find_group(struct watchers_scan *scan, struct belfry_bytes label)
{
    uint64_t hash = belfry_hash(scan->hash_key, label);
    for (struct belfry_map_node *at = belfry_map_first(&scan->groups, hash); at != NULL; at = belfry_map_next(at)) {
        struct group *group = belfry_container(at, struct group, node);
        if (belfry_bytes_equal(belfry_bytes_of(group->label, group->label_len), label))
            return group;
    }
    if (scan->groups.count >= WATCHERS_GROUPS)
        return NULL;
    struct group *group = malloc(sizeof(*group) + label.len);
    if (group == NULL) {
        scan->err = BELFRY_ERR_NOMEM;
        return NULL;
    }
    *group = (struct group){.label_len = label.len};
    append(group->label, 0, label, label.len);
    belfry_map_add(&scan->groups, hash, &group->node);
    return group;
}

static void add_to_group(struct watchers_scan *scan, const struct seen *seen, const struct watcher_view *watcher,
                         int64_t lag)
{
    char label[LABEL_BYTES];
    size_t len = group_label(scan, seen, watcher, label);
    struct group *group = find_group(scan, belfry_bytes_of(label, len));
    struct total one = {.watchers = 1, .parked = watcher->standing == WATCHER_PARKED, .max_lag = lag};
    total_add(group != NULL ? &group->total : &scan->other, &one);
}

/* ---- the walk ---- */

static bool has(const struct watchers_scan *scan, struct belfry_bytes text)
{
    return text.len >= scan->filter_len && memmem(text.data, text.len, scan->query.filter, scan->filter_len) != NULL;
}

static bool stream_matches(const struct watchers_scan *scan, const struct seen *seen)
{
    const struct watch_view *stream = &seen->view;
    char identity[IDENTITY_SHOWN];
    if (scan->filter_len == 0)
        return true;
    identity_show(stream->who, identity);
    return has(scan, belfry_bytes_str(stream->conn->peer)) || has(scan, belfry_bytes_str(user_of(stream))) ||
           has(scan, belfry_bytes_str(identity)) || has(scan, belfry_bytes_str(stream->client)) ||
           has(scan, belfry_bytes_str(dialects[seen->source])) || has(scan, belfry_bytes_str(seen->range)) ||
           has(scan, seen->selector);
}

static bool watcher_matches(const struct watchers_scan *scan, const struct watcher_view *watcher)
{
    return has(scan, watcher->range.key) || has(scan, watcher->range.end) ||
           has(scan, belfry_bytes_str(standings[watcher->standing]));
}

static void visit(struct watchers_scan *scan, const struct seen *seen, bool matches, const struct watcher_view *watcher)
{
    if (watcher->ended)
        return;
    scan->watchers++;
    if (!matches && !watcher_matches(scan, watcher))
        return;
    scan->matched++;
    int64_t lag = watcher->standing == WATCHER_SYNCED ? 0 : scan->head - (watcher->next - 1);
    lag = lag < 0 ? 0 : lag;
    if (scan->query.group == WATCHERS_UNGROUPED)
        offer_row(scan, seen, watcher, lag);
    else
        add_to_group(scan, seen, watcher, lag);
}

/* As arguments of kubectl. */
static bool next_kube(struct watchers_scan *scan, uint64_t after, uint64_t *number, struct seen *out)
{
    struct kube_watch_view view;
    if (scan->kube == NULL || !kube_next(scan->kube, after, number, &view))
        return false;
    out->view = (struct watch_view){view.stream, view.conn, view.who, view.client, view.opened_ms, view.sent_bytes};
    out->selector = view.selector;
    if (view.namespace.len == 0)
        snprintf(out->range, sizeof(out->range), "%s -A", view.resource);
    else
        snprintf(out->range, sizeof(out->range), "%s -n %.*s", view.resource, (int)view.namespace.len,
                 view.namespace.data);
    return true;
}

/* The core sees one range; a stream may have several within it. */
static bool next_sse(struct watchers_scan *scan, uint64_t after, uint64_t *number, struct seen *out)
{
    struct sse_stream_view view;
    if (scan->sse == NULL || !sse_streams_next(scan->sse, after, number, &view))
        return false;
    out->view = (struct watch_view){view.stream, view.conn, view.who, view.client, view.opened_ms, view.sent_bytes};
    if (view.ranges.n > 1)
        snprintf(out->range, sizeof(out->range), "%zu ranges", view.ranges.n);
    return true;
}

static bool next_stream(struct watchers_scan *scan, uint64_t after, uint64_t *number, struct seen *out)
{
    out->source = scan->source;
    out->range[0] = '\0';
    out->selector = (struct belfry_bytes){0};
    switch (scan->source) {
    case SOURCE_WATCH:
        return scan->service != NULL && watch_next(scan->service, after, number, &out->view);
    case SOURCE_KUBE:
        return next_kube(scan, after, number, out);
    case SOURCE_SSE:
        return next_sse(scan, after, number, out);
    case SOURCES:
        break;
    }
    return false;
}

/* The stream that the walk is in, if it still exists, or the next one. */
static bool enter(struct watchers_scan *scan, struct seen *out)
{
    uint64_t number;
    while (!next_stream(scan, scan->inside ? scan->number - 1 : scan->number, &number, out)) {
        if (scan->source == SOURCE_KUBE && scan->at + 1 < scan->n_cores)
            scan_core(scan, scan->at + 1);
        else if (scan->source + 1 == SOURCES)
            return false;
        else
            scan->source++;
        scan->number = 0;
        scan->inside = false;
    }
    if (!scan->inside || number != scan->number)
        scan->after_id = INT64_MIN;
    scan->number = number;
    scan->inside = true;
    return true;
}

/* A watch of objects has no watcher while its initial state is being written. */
static bool next_watcher(const struct watchers_scan *scan, const struct seen *seen, struct watcher_view *out)
{
    return seen->view.stream != NULL && stream_watcher(scan->worker, seen->view.stream, scan->after_id, out);
}

bool watchers_scan_step(struct watchers_scan *scan, size_t max_visits)
{
    struct seen seen;
    struct watcher_view watcher;
    bool here = false, matches = false;
    for (; !scan->done && max_visits > 0; max_visits--) {
        if (!here) {
            max_visits +=
                scan->inside; /* skipping visited watchers is free, so that a step of one visit makes progress */
            here = enter(scan, &seen);
            matches = here && stream_matches(scan, &seen);
            scan->done = !here;
        } else if (next_watcher(scan, &seen, &watcher)) {
            scan->after_id = watcher.id;
            visit(scan, &seen, matches, &watcher);
        } else {
            here = scan->inside = false;
        }
    }
    return scan->done;
}

/* ---- what came of it ---- */

static void write_row(struct belfry_json *json, const struct row *row)
{
    static const struct belfry_bytes open_end = {"", 1};
    struct belfry_bytes end = belfry_bytes_of(row->bytes + row->key_len, row->end_len);
    belfry_json_open(json, NULL, '{');
    belfry_json_int(json, "lag", row->lag);
    belfry_json_str(json, "state", standings[row->rank.standing]);
    belfry_json_str(json, "dialect", dialects[row->rank.source]);
    belfry_json_str(json, "peer", row->peer);
    belfry_json_str(json, "user", row->user);
    belfry_json_str(json, "identity", row->identity);
    belfry_json_str(json, "client", row->client);
    if (row->range[0] != '\0')
        belfry_json_str(json, "range", row->range);
    if (row->selector_len > 0)
        belfry_json_text(json, "selector",
                         belfry_bytes_of(row->bytes + row->key_len + row->end_len, row->selector_len));
    belfry_json_text(json, "key", belfry_bytes_of(row->bytes, row->key_len));
    if (row->kind == RANGE_PREFIX)
        belfry_json_bool(json, "prefix", true);
    else if (row->kind == RANGE_SPAN)
        belfry_json_text(json, "range_end", end.len == 0 ? open_end : end);
    if (row->cut)
        belfry_json_bool(json, "cut", true);
    belfry_json_int(json, "watch_id", row->rank.id);
    belfry_json_uint(json, "sent_bytes", row->sent_bytes);
    belfry_json_uint(json, "age_ms", row->age_ms);
    belfry_json_close(json, '}');
}

static int row_order(const void *a, const void *b)
{
    const struct row *const *x = a, *const *y = b;
    return rank_order(&(*x)->rank, &(*y)->rank);
}

static enum belfry_err write_rows(struct belfry_json *json, struct watchers_scan *const *scans, size_t n)
{
    size_t n_rows = 0;
    for (size_t i = 0; i < n; i++)
        n_rows += scans[i]->n_rows;
    const struct row **all = malloc((n_rows + 1) * sizeof(const struct row *));
    if (all == NULL)
        return BELFRY_ERR_NOMEM;
    n_rows = 0;
    for (size_t i = 0; i < n; i++) {
        for (size_t r = 0; r < scans[i]->n_rows; r++)
            all[n_rows++] = scans[i]->rows[r];
    }
    qsort(all, n_rows, sizeof(const struct row *), row_order);
    belfry_json_open(json, "rows", '[');
    for (size_t i = 0; i < n_rows && i < scans[0]->query.limit; i++)
        write_row(json, all[i]);
    belfry_json_close(json, ']');
    free(all);
    return BELFRY_OK;
}

/* A group as it is merged: equal labels of several scans lie side by side once sorted. */
struct merged {
    struct belfry_bytes label;
    struct total total;
};

static int merged_by_label(const void *a, const void *b)
{
    return belfry_bytes_cmp(((const struct merged *)a)->label, ((const struct merged *)b)->label);
}

static int merged_by_size(const void *a, const void *b)
{
    const struct merged *x = a, *y = b;
    if (x->total.watchers != y->total.watchers)
        return x->total.watchers > y->total.watchers ? -1 : 1;
    return merged_by_label(a, b);
}

/* Collects the groups of all scans and adds up those with equal labels. Returns how many are left. */
static size_t merge(struct merged *all, struct watchers_scan *const *scans, size_t n)
{
    size_t n_all = 0, kept = 0;
    for (size_t i = 0; i < n; i++) {
        const struct belfry_map_node *at = NULL;
        while ((at = belfry_map_each(&scans[i]->groups, at)) != NULL) {
            const struct group *group = belfry_container_const(at, struct group, node);
            all[n_all++] = (struct merged){belfry_bytes_of(group->label, group->label_len), group->total};
        }
    }
    qsort(all, n_all, sizeof(*all), merged_by_label);
    for (size_t i = 0; i < n_all; i++) {
        if (kept > 0 && belfry_bytes_equal(all[kept - 1].label, all[i].label))
            total_add(&all[kept - 1].total, &all[i].total);
        else
            all[kept++] = all[i];
    }
    qsort(all, kept, sizeof(*all), merged_by_size);
    return kept;
}

static void write_total(struct belfry_json *json, const struct total *total)
{
    belfry_json_uint(json, "watchers", total->watchers);
    belfry_json_uint(json, "parked", total->parked);
    belfry_json_int(json, "max_lag", total->max_lag);
    belfry_json_close(json, '}');
}

static enum belfry_err write_groups(struct belfry_json *json, struct watchers_scan *const *scans, size_t n)
{
    struct total other = {0};
    size_t n_groups = 0;
    for (size_t i = 0; i < n; i++) {
        n_groups += scans[i]->groups.count;
        total_add(&other, &scans[i]->other);
    }
    struct merged *all = malloc((n_groups + 1) * sizeof(*all));
    if (all == NULL)
        return BELFRY_ERR_NOMEM;
    n_groups = merge(all, scans, n);
    belfry_json_open(json, "groups", '[');
    for (size_t i = 0; i < n_groups; i++) {
        if (i >= scans[0]->query.limit || i >= WATCHERS_GROUPS) {
            total_add(&other, &all[i].total);
            continue;
        }
        belfry_json_open(json, NULL, '{');
        belfry_json_text(json, "group", all[i].label);
        write_total(json, &all[i].total);
    }
    belfry_json_close(json, ']');
    if (other.watchers > 0) {
        belfry_json_open(json, "other", '{');
        write_total(json, &other);
    }
    free(all);
    return BELFRY_OK;
}

enum belfry_err watchers_write(struct watchers_scan *const *scans, size_t n, struct belfry_buf *out)
{
    struct belfry_json json = belfry_json_begin(out);
    enum belfry_err err = BELFRY_OK;
    size_t watchers = 0, matched = 0;
    int64_t head = 0;
    for (size_t i = 0; i < n; i++) {
        err = scans[i]->err != BELFRY_OK ? scans[i]->err : err;
        watchers += scans[i]->watchers;
        matched += scans[i]->matched;
        head = scans[i]->head > head ? scans[i]->head : head;
    }
    belfry_json_open(&json, NULL, '{');
    belfry_json_int(&json, "revision", head);
    belfry_json_uint(&json, "watchers", watchers);
    belfry_json_uint(&json, "matched", matched);
    if (err == BELFRY_OK && n > 0)
        err = scans[0]->query.group == WATCHERS_UNGROUPED ? write_rows(&json, scans, n) : write_groups(&json, scans, n);
    belfry_json_close(&json, '}');
    if (err == BELFRY_OK)
        err = belfry_json_finish(&json);
    return err == BELFRY_OK ? belfry_buf_append(out, "\n", 1) : err;
}
