/* src/serve/admin/admin.c
 *
 *     request --> WAITING (numbers or scans are asked for) --answer--> SENDING (more than there was room for) --> gone
 *                    |  peer gone                                         |  peer gone
 *                    v                                                    v
 *                 LEFT: takes the answer and drops it                    gone
 */
#include "serve/admin/admin.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/owner.h"
#include "serve/admin/metrics.h"
#include "serve/admin/numbers_document.h"
#include "serve/admin/page_files.h"
#include "serve/admin/page_query.h"
#include "serve/admin/readiness.h"
#include "serve/admin/sampler.h"
#include "serve/admin/text.h"

#define H2_CANCEL  8
#define TEXT       "text/plain; charset=utf-8"
#define JSON       "application/json"
#define PROMETHEUS "text/plain; version=0.0.4; charset=utf-8"

struct admin {
    struct admin_opts opts;
    struct belfry_list asks; /* WAITING, LEFT, SENDING */
    size_t n_waiting, n_sending;
    struct sampler *sampler; /* owned */
    BELFRY_OWNER;
};

/* A request, lent until begin() returns. */
struct request {
    struct exchange *x;
    struct belfry_bytes query;
    bool head_only;
    bool wants_html; /* a browser, as far as its Accept says */
    bool is_foreign; /* a browser sends it for a page of another site */
};

struct page {
    const char *path, *what;
    void (*begin)(struct admin *admin, const struct page *page, const struct request *request);
    /* For pages made from numbers: writes the body and returns the status; 0: no memory. */
    int (*write)(const struct admin *admin, const struct tier_numbers *numbers, bool verbose, struct belfry_buf *out);
    const char *type, *verbose_type;
};

enum ask_state { ASK_WAITING, ASK_LEFT, ASK_SENDING };

/* A request that has not been answered, or only in part. */
struct ask {
    struct belfry_list link;
    struct admin *admin; /* NULL: gone */
    struct exchange *x;  /* NULL when LEFT */
    const struct page *page;
    enum ask_state state;
    bool head_only, verbose;
    struct belfry_buf body; /* SENDING: what is left of it */
};

/* ---- answers ---- */

static void answer(struct exchange *x, int status, const char *type, struct belfry_bytes body, bool head_only)
{
    struct belfry_http_field fields[] = {
        {belfry_bytes_str("content-type"), belfry_bytes_str(type)},
        {belfry_bytes_str("cache-control"), belfry_bytes_str("no-store")},
    };
    exchange_answer(x, status, fields, 2, head_only ? (struct belfry_bytes){0} : body);
}

static void answer_text(struct exchange *x, int status, const char *text, bool head_only)
{
    answer(x, status, TEXT, belfry_bytes_str(text), head_only);
}

static void answer_busy(struct exchange *x, const char *text, bool head_only)
{
    struct belfry_http_field fields[] = {
        {belfry_bytes_str("content-type"), belfry_bytes_str(TEXT)},
        {belfry_bytes_str("retry-after"), belfry_bytes_str("1")},
    };
    struct belfry_bytes body = belfry_bytes_str(text);
    exchange_answer(x, 503, fields, 2, head_only ? (struct belfry_bytes){0} : body);
}

/* ---- asks ---- */

static void ask_move(struct ask *ask, enum ask_state to)
{
    struct admin *admin = ask->admin;
    assert(ask->state == ASK_WAITING);
    if (to == ASK_LEFT)
        ask->x = NULL; /* it still counts as a collect: the workers are answering */
    if (to == ASK_SENDING && admin != NULL) {
        admin->n_waiting--;
        admin->n_sending++;
    }
    ask->state = to;
}

static void ask_free(struct ask *ask)
{
    if (ask->admin != NULL) {
        ask->admin->n_sending -= ask->state == ASK_SENDING;
        ask->admin->n_waiting -= ask->state != ASK_SENDING;
    }
    belfry_list_remove(&ask->link);
    belfry_buf_fini(&ask->body);
    free(ask);
}

static void on_body(struct exchange *x, struct belfry_bytes bytes, void *user)
{
    (void)user;
    exchange_taken(x, bytes.len); /* the body of a request is ignored */
}

static void on_body_end(struct exchange *x, void *user)
{
    (void)x;
    (void)user;
}

/* Writes as much as there is room for; the last piece ends the exchange. */
static void send_some(struct ask *ask)
{
    size_t room;
    while (belfry_buf_len(&ask->body) > 0) {
        if ((room = exchange_room(ask->x)) == 0)
            return; /* no room: `writable` will come */
        struct belfry_bytes left = belfry_buf_bytes(&ask->body);
        size_t n = left.len < room ? left.len : room;
        exchange_write(ask->x, left.data, n);
        belfry_buf_take(&ask->body, n);
    }
    exchange_end(ask->x, NULL, 0);
    ask_free(ask);
}

static void on_writable(struct exchange *x, void *user)
{
    struct ask *ask = user;
    (void)x;
    if (ask->state == ASK_SENDING)
        send_some(ask);
}

static void on_gone(struct exchange *x, void *user)
{
    struct ask *ask = user;
    (void)x;
    if (ask->state == ASK_WAITING)
        ask_move(ask, ASK_LEFT);
    else
        ask_free(ask);
}

static const struct exchange_events ask_events = {
    .body = on_body, .body_end = on_body_end, .writable = on_writable, .gone = on_gone};

/* The body is complete: sends it, immediately if it fits. Consumes the ask. */
static void ask_answer(struct ask *ask, int status, const char *type)
{
    struct exchange *x = ask->x;
    size_t len = belfry_buf_len(&ask->body);
    if (ask->head_only || len <= exchange_room(x)) {
        answer(x, status, type, belfry_buf_bytes(&ask->body), ask->head_only);
        ask_free(ask);
        return;
    }
    if (ask->admin->n_sending >= ADMIN_UNSENT) {
        answer_busy(x, "too many answers are not read yet: try again\n", ask->head_only);
        ask_free(ask);
        return;
    }
    char length[24];
    snprintf(length, sizeof(length), "%zu", len);
    struct belfry_http_field fields[] = {
        {belfry_bytes_str("content-type"), belfry_bytes_str(type)},
        {belfry_bytes_str("cache-control"), belfry_bytes_str("no-store")},
        {belfry_bytes_str("content-length"), belfry_bytes_str(length)},
    };
    ask_move(ask, ASK_SENDING);
    exchange_respond(x, status, fields, 3);
    send_some(ask);
}

static void ask_fail(struct ask *ask)
{
    answer_busy(ask->x, "out of memory: try again\n", ask->head_only);
    ask_free(ask);
}

static bool ask_is_wanted(const struct ask *ask)
{
    return ask->x != NULL && ask->admin != NULL;
}

static void on_numbers(const struct tier_numbers *numbers, void *user)
{
    struct ask *ask = user;
    if (!ask_is_wanted(ask)) {
        ask_free(ask);
        return;
    }
    int status = ask->page->write(ask->admin, numbers, ask->verbose, &ask->body);
    if (status == 0)
        ask_fail(ask);
    else
        ask_answer(ask, status, ask->verbose ? ask->page->verbose_type : ask->page->type);
}

/* What scans found is in the body, or err says why it is not. */
static void ask_scanned(struct ask *ask, enum belfry_err err)
{
    if (!ask_is_wanted(ask))
        ask_free(ask);
    else if (err != BELFRY_OK)
        ask_fail(ask);
    else
        ask_answer(ask, 200, JSON);
}

static void on_scans(struct watchers_scan **scans, size_t n, void *user)
{
    struct ask *ask = user;
    enum belfry_err err = ask_is_wanted(ask) ? watchers_write(scans, n, &ask->body) : BELFRY_ERR_CANCELED;
    for (size_t i = 0; i < n; i++)
        watchers_scan_destroy(scans[i]);
    ask_scanned(ask, err);
}

static void on_clients(struct clients_scan **scans, size_t n, void *user)
{
    struct ask *ask = user;
    enum belfry_err err = ask_is_wanted(ask) ? clients_write(scans, n, &ask->body) : BELFRY_ERR_CANCELED;
    for (size_t i = 0; i < n; i++)
        clients_scan_destroy(scans[i]);
    ask_scanned(ask, err);
}

/* NULL: it has been answered. */
static struct ask *ask_create(struct admin *admin, const struct page *page, const struct request *request)
{
    struct ask *ask = NULL;
    if (admin->n_waiting < ADMIN_COLLECTS)
        ask = calloc(1, sizeof(*ask));
    if (ask == NULL) {
        answer_busy(request->x, "too many questions at once: try again\n", request->head_only);
        return NULL;
    }
    *ask = (struct ask){
        .admin = admin, .x = request->x, .page = page, .state = ASK_WAITING, .head_only = request->head_only};
    belfry_buf_init(&ask->body);
    belfry_list_append(&admin->asks, &ask->link);
    admin->n_waiting++;
    exchange_handle(request->x, &ask_events, ask);
    return ask;
}

static void ask_asked(struct ask *ask, enum belfry_err err)
{
    if (err == BELFRY_OK)
        return;
    answer_busy(ask->x, "too many questions at once: try again\n", ask->head_only);
    ask_free(ask);
}

/* ---- pages ---- */

static void begin_livez(struct admin *admin, const struct page *page, const struct request *request)
{
    (void)admin;
    (void)page;
    answer_text(request->x, 200, "ok\n", request->head_only);
}

static bool asks_verbose(struct belfry_bytes query)
{
    struct belfry_bytes word = belfry_bytes_str("verbose");
    if (belfry_bytes_equal(query, belfry_bytes_str("format=text")))
        return true;
    return belfry_bytes_begins(query, word) && (query.len == word.len || strchr("=&", query.data[word.len]) != NULL);
}

static void begin_numbers(struct admin *admin, const struct page *page, const struct request *request)
{
    struct ask *ask = ask_create(admin, page, request);
    if (ask == NULL)
        return;
    ask->verbose = asks_verbose(request->query);
    ask_asked(ask, admin->opts.collect(on_numbers, ask, admin->opts.user));
}

static void begin_watchers(struct admin *admin, const struct page *page, const struct request *request)
{
    struct watchers_query wanted;
    char why[160], text[192];
    if (watchers_parse(request->query, &wanted, why, sizeof(why)) != BELFRY_OK) {
        snprintf(text, sizeof(text), "%s\n", why);
        answer_text(request->x, 400, text, request->head_only);
        return;
    }
    struct ask *ask = ask_create(admin, page, request);
    if (ask != NULL)
        ask_asked(ask, admin->opts.scan(&wanted, on_scans, ask, admin->opts.user));
}

static void begin_clients(struct admin *admin, const struct page *page, const struct request *request)
{
    struct clients_query wanted;
    char why[160], text[192];
    if (clients_parse(request->query, &wanted, why, sizeof(why)) != BELFRY_OK) {
        snprintf(text, sizeof(text), "%s\n", why);
        answer_text(request->x, 400, text, request->head_only);
        return;
    }
    struct ask *ask = ask_create(admin, page, request);
    if (ask != NULL)
        ask_asked(ask, admin->opts.clients(&wanted, on_clients, ask, admin->opts.user));
}

static int write_metrics(const struct admin *admin, const struct tier_numbers *numbers, bool verbose,
                         struct belfry_buf *out)
{
    (void)admin;
    (void)verbose;
    return metrics_write(numbers, out) == BELFRY_OK ? 200 : 0;
}

static int write_numbers(const struct admin *admin, const struct tier_numbers *numbers, bool verbose,
                         struct belfry_buf *out)
{
    (void)admin;
    (void)verbose;
    return numbers_write(numbers, NUMBERS_WHOLE, out) == BELFRY_OK ? 200 : 0;
}

static int write_upstream(const struct admin *admin, const struct tier_numbers *numbers, bool verbose,
                          struct belfry_buf *out)
{
    (void)admin;
    (void)verbose;
    return numbers_write_upstream(numbers, out) == BELFRY_OK ? 200 : 0;
}

/* verbose: as text. */
static int write_tree(const struct admin *admin, const struct tier_numbers *numbers, bool verbose,
                      struct belfry_buf *out)
{
    (void)admin;
    enum belfry_err err = verbose ? tree_write_text(numbers, out) : tree_write_json(numbers, TREE_BELOW, out);
    return err == BELFRY_OK ? 200 : 0;
}

/* ---- readiness ---- */

/* A full pool is no reason to send clients elsewhere: those who hold little are served. So the tier stays ready. */
static void write_pool_lines(const struct tier_numbers *numbers, struct text *text)
{
    bool fine = true;
    for (enum shares_pool pool = 0; pool < SHARES_N; pool++) {
        char why[POOLS_WHY];
        if (!pools_trouble(numbers, pool, why))
            continue;
        text_say(text, "[!]pools: %s\n", why);
        fine = false;
    }
    if (fine)
        text_say(text, "[+]pools ok\n");
}

static int write_readyz(const struct admin *admin, const struct tier_numbers *numbers, bool verbose,
                        struct belfry_buf *out)
{
    (void)admin;
    struct text text = {.buf = out};
    struct readiness readiness;
    readiness_judge(numbers, &readiness);
    for (enum readiness_check check = 0; check < READINESS_N; check++) {
        const struct readiness_finding *finding = &readiness.checks[check];
        if (!finding->holds)
            text_say(&text, "[-]%s: %s\n", readiness_name(check), finding->why);
        else if (verbose)
            text_say(&text, "[+]%s ok\n", readiness_name(check));
    }
    if (verbose)
        write_pool_lines(numbers, &text);
    text_say(&text, readiness.is_ready ? "ok\n" : "not ready\n");
    if (text.err != BELFRY_OK)
        return 0;
    return readiness.is_ready ? 200 : 503;
}

/* ---- the hour, the log, and the page ---- */

/* The body is written already, or err says why not. Consumes the ask. */
static void ask_written(struct ask *ask, enum belfry_err err, const char *type)
{
    if (err != BELFRY_OK)
        ask_fail(ask);
    else
        ask_answer(ask, 200, type);
}

static void begin_hour(struct admin *admin, const struct page *page, const struct request *request)
{
    struct ask *ask = ask_create(admin, page, request);
    if (ask != NULL)
        ask_written(ask, hour_write(sampler_hour(admin->sampler), &ask->body), JSON);
}

static void begin_log(struct admin *admin, const struct page *page, const struct request *request)
{
    struct ask *ask = ask_create(admin, page, request);
    if (ask == NULL)
        return;
    enum belfry_err err = admin->opts.lines != NULL ? log_lines_write(admin->opts.lines, &ask->body)
                                                    : belfry_buf_append(&ask->body, "{}\n", 3);
    ask_written(ask, err, JSON);
}

/* A page of another site could not read the stream, but it could keep places of those that may. */
static void begin_events(struct admin *admin, const struct page *page, const struct request *request)
{
    (void)page;
    if (request->is_foreign)
        answer_text(request->x, 403, "only for the page of this address\n", request->head_only);
    else if (request->head_only)
        answer(request->x, 200, "text/event-stream", (struct belfry_bytes){0}, true);
    else if (!sampler_open_page(admin->sampler, request->x))
        answer_busy(request->x, "too many pages are open: close one\n", false);
}

struct tail_query {
    size_t len;
    char prefix[TAIL_PREFIX];
};

static enum belfry_err set_prefix(const char *name, const char *value, void *user, char *why, size_t why_len)
{
    struct tail_query *query = user;
    if (strcmp(name, "prefix") != 0) {
        snprintf(why, why_len, "no parameter is called %.32s: there is prefix", name);
        return BELFRY_ERR_INVALID;
    }
    snprintf(why, why_len, "prefix: at most %d bytes", TAIL_PREFIX);
    size_t len = strlen(value);
    if (len > TAIL_PREFIX)
        return BELFRY_ERR_INVALID;
    memcpy(query->prefix, value, len);
    query->len = len;
    return BELFRY_OK;
}

static void begin_tail(struct admin *admin, const struct page *page, const struct request *request)
{
    char why[160] = "", text[192];
    struct tail_query query = {0};
    (void)page;
    if (admin->opts.tail == NULL || request->is_foreign) {
        answer_text(request->x, 403,
                    request->is_foreign ? "only for the page of this address\n"
                                        : "it is off: --admin-tail turns it on\n",
                    request->head_only);
    } else if (page_query_each(request->query, set_prefix, &query, why, sizeof(why)) != BELFRY_OK) {
        snprintf(text, sizeof(text), "%s\n", why);
        answer_text(request->x, 400, text, request->head_only);
    } else if (request->head_only) {
        answer(request->x, 200, "text/event-stream", (struct belfry_bytes){0}, true);
    } else if (!tail_open(admin->opts.tail, request->x, belfry_bytes_of(query.prefix, query.len))) {
        answer_busy(request->x, "too many tails are open: close one\n", false);
    }
}

static void answer_file(const struct page_file *file, const struct request *request)
{
    struct belfry_http_field fields[] = {
        {belfry_bytes_str("content-type"), belfry_bytes_str(file->type)},
        {belfry_bytes_str("cache-control"), belfry_bytes_str("no-cache")},
        {belfry_bytes_str("content-security-policy"), belfry_bytes_str(PAGE_FILES_POLICY)},
        {belfry_bytes_str("x-content-type-options"), belfry_bytes_str("nosniff")},
        {belfry_bytes_str("x-frame-options"), belfry_bytes_str("DENY")},
        {belfry_bytes_str("referrer-policy"), belfry_bytes_str("no-referrer")},
        {belfry_bytes_str("cross-origin-resource-policy"), belfry_bytes_str("same-origin")},
        {belfry_bytes_str("vary"), belfry_bytes_str("accept")},
    };
    exchange_answer(request->x, 200, fields, sizeof(fields) / sizeof(fields[0]),
                    request->head_only ? (struct belfry_bytes){0} : file->bytes);
}

/* ---- the table ---- */

static void begin_index(struct admin *admin, const struct page *page, const struct request *request);

static const struct page pages[] = {
    {"/", "the page, for a browser; for other clients this list", begin_index, NULL, NULL, NULL},
    {"/livez", "is the process alive?", begin_livez, NULL, NULL, NULL},
    {"/readyz", "should it get clients? ?verbose says why", begin_numbers, write_readyz, TEXT, TEXT},
    {"/metrics", "numbers for Prometheus", begin_numbers, write_metrics, PROMETHEUS, PROMETHEUS},
    {"/debug/watchers",
     "who watches what and how far behind: ?sort=lag|sent|age, limit=, group=range|peer|state, filter=", begin_watchers,
     NULL, NULL, NULL},
    {"/debug/clients", "what each client costs: ?sort=cpu|memory|calls|connections, limit=", begin_clients, NULL, NULL,
     NULL},
    {"/debug/upstream", "what is followed, and how that goes", begin_numbers, write_upstream, JSON, JSON},
    {"/debug/tree", "the tiers above and below: ?format=text for people", begin_numbers, write_tree, JSON, TEXT},
    {"/debug/numbers", "everything that is counted", begin_numbers, write_numbers, JSON, JSON},
    {"/debug/hour", "the last hour, a sample every 5 s; a restart forgets it", begin_hour, NULL, NULL, NULL},
    {"/debug/log", "the newest log lines of level warn and error", begin_log, NULL, NULL, NULL},
    {"/debug/tail", "changes of keys as they are published: ?prefix= (text/event-stream)", begin_tail, NULL, NULL,
     NULL},
    {"/events", "what the page receives every second (text/event-stream)", begin_events, NULL, NULL, NULL},
};
#define N_PAGES (sizeof(pages) / sizeof(pages[0]))

/* A tail that is off is not listed: so the page knows. */
static void write_index(const struct admin *admin, char *text, size_t len, const char *title)
{
    size_t at = (size_t)snprintf(text, len, "%s\n", title);
    for (size_t i = 0; i < N_PAGES && at < len; i++) {
        if (pages[i].begin == begin_tail && admin->opts.tail == NULL)
            continue;
        at += (size_t)snprintf(text + at, len - at, "%-18s %s\n", pages[i].path, pages[i].what);
    }
}

static void begin_index(struct admin *admin, const struct page *page, const struct request *request)
{
    char text[2048];
    if (request->wants_html) {
        answer_file(page_files_find(belfry_bytes_str(page->path)), request);
        return;
    }
    write_index(admin, text, sizeof(text), "belfryd, admin address");
    answer_text(request->x, 200, text, request->head_only);
}

static void refuse_method(struct exchange *x)
{
    struct belfry_http_field fields[] = {
        {belfry_bytes_str("content-type"), belfry_bytes_str(TEXT)},
        {belfry_bytes_str("allow"), belfry_bytes_str("GET, HEAD")},
    };
    exchange_answer(x, 405, fields, 2, belfry_bytes_str("only GET and HEAD are answered here\n"));
}

static const struct page *find_page(struct belfry_bytes path)
{
    for (size_t i = 0; i < N_PAGES; i++) {
        if (belfry_bytes_equal(path, belfry_bytes_str(pages[i].path)))
            return &pages[i];
    }
    return NULL;
}

static bool has_word(struct belfry_bytes text, const char *word)
{
    return text.len > 0 && memmem(text.data, text.len, word, strlen(word)) != NULL;
}

/* Browsers say for whom they ask (Sec-Fetch-Site); other clients do not. */
static bool is_foreign(const struct exchange_head *head)
{
    struct belfry_bytes site = exchange_field(head, "sec-fetch-site");
    return site.len > 0 && !belfry_bytes_equal(site, belfry_bytes_str("same-origin")) &&
           !belfry_bytes_equal(site, belfry_bytes_str("none"));
}

void admin_begin(struct exchange *x, const struct exchange_head *head, void *user)
{
    struct admin *admin = user;
    if (hosts_refuse(admin->opts.hosts, x, head))
        return;
    struct request request = {.x = x,
                              .head_only = belfry_bytes_equal(head->method, belfry_bytes_str("HEAD")),
                              .wants_html = has_word(exchange_field(head, "accept"), "text/html"),
                              .is_foreign = is_foreign(head)};
    if (!request.head_only && !belfry_bytes_equal(head->method, belfry_bytes_str("GET"))) {
        refuse_method(x);
        return;
    }
    struct belfry_bytes path = exchange_path(head, &request.query);
    const struct page *page = find_page(path);
    const struct page_file *file = page == NULL ? page_files_find(path) : NULL;
    if (page != NULL) {
        page->begin(admin, page, &request);
        return;
    }
    if (file != NULL) {
        answer_file(file, &request);
        return;
    }
    char text[2048];
    write_index(admin, text, sizeof(text), "no such page; there are");
    answer_text(x, 404, text, request.head_only);
}

void admin_tick(struct admin *admin, uint64_t now_ms)
{
    BELFRY_OWNER_CHECK(admin);
    if (admin->opts.tail != NULL)
        tail_tick(admin->opts.tail);
    sampler_tick(admin->sampler, now_ms);
}

/* ---- the whole ---- */

enum belfry_err admin_create(const struct admin_opts *opts, struct admin **out)
{
    struct admin *admin = calloc(1, sizeof(*admin));
    if (admin == NULL)
        return BELFRY_ERR_NOMEM;
    admin->opts = *opts;
    belfry_list_init(&admin->asks);
    BELFRY_OWNER_INIT(admin);
    struct sampler_opts sampler = {.sample = opts->sample, .user = opts->user, .lines = opts->lines};
    if (sampler_create(&sampler, &admin->sampler) != BELFRY_OK) {
        free(admin);
        return BELFRY_ERR_NOMEM;
    }
    *out = admin;
    return BELFRY_OK;
}

void admin_destroy(struct admin *admin)
{
    if (admin == NULL)
        return;
    BELFRY_OWNER_CHECK(admin);
    while (!belfry_list_empty(&admin->asks)) {
        struct ask *ask = belfry_container(admin->asks.next, struct ask, link);
        if (ask->x != NULL)
            exchange_reset(ask->x, H2_CANCEL);
        ask->x = NULL;
        if (ask->state == ASK_SENDING) {
            ask_free(ask);
            continue;
        }
        belfry_list_remove(&ask->link); /* its answer will come and free it */
        ask->admin = NULL;
    }
    sampler_destroy(admin->sampler);
    free(admin);
}
