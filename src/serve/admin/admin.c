/* src/serve/admin/admin.c
 *
 *     request --> WAITING (numbers or scans are asked for) --answer--> SENDING (more than there was room for) --> gone
 *                    |  peer gone                                         |  peer gone
 *                    v                                                    v
 *                 LEFT, if it is a scan: takes the answer and drops it    gone
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
#include "serve/admin/hour.h"
#include "serve/admin/metrics.h"
#include "serve/admin/numbers_document.h"
#include "serve/admin/page_data.h"
#include "serve/admin/page_query.h"
#include "serve/admin/pools.h"
#include "serve/admin/readiness.h"
#include "serve/admin/text.h"
#include "serve/admin/tree.h"

#define H2_CANCEL      8
#define TEXT           "text/plain; charset=utf-8"
#define JSON           "application/json"
#define PROMETHEUS     "text/plain; version=0.0.4; charset=utf-8"
#define FIELDS_MAX     10                /* of an answer, with the length of its body */
#define PUBLISH_MS     1000              /* between two messages to open pages */
#define PAGE_TIERS     50                /* tiers below that the page shows; the others are counted */
#define PAGE_FILES_MAX 60000             /* bytes of all of them */
#define RETRY          "retry: 2000\n\n" /* ms until a browser connects again */

/* The requests that one question answers wait in a line, those that come meanwhile for the next question. /readyz has a
 * line of its own, so it does not wait for other pages. */
enum line_kind { LINE_READYZ, LINE_PAGES, N_LINES };

struct line {
    struct belfry_list asked, waiting; /* of ask.link: for the question under way, for the next one */
    struct question *question;         /* under way; NULL: none */
};

struct admin {
    struct admin_opts opts;
    struct belfry_list asks; /* of ask.link: all but those in a line */
    struct line lines[N_LINES];
    size_t n_scans; /* under way */
    uint64_t refused_pages;
    /* the hour, and what open pages receive */
    struct hour *hour;          /* owned */
    struct question *sample;    /* under way; NULL: none */
    struct belfry_list viewers; /* of viewer.link */
    size_t n_viewers;
    uint64_t publish_ms;   /* when open pages are due */
    uint64_t told_samples; /* of the hour, that the pages know of */
    uint64_t told_lines;   /* of the log, likewise */
    BELFRY_OWNER;
};

/* Numbers that are being asked for. */
struct question {
    struct admin *admin; /* NULL: gone */
    enum line_kind kind; /* for which line; a sample is for none */
};

/* An open page. */
struct viewer {
    struct belfry_list link;
    struct admin *admin;
    struct exchange *x;
    unsigned misses; /* in a row */
};

/* A request, lent until begin() returns. */
struct request {
    struct exchange *x;
    struct belfry_bytes query;
    bool head_only;
    bool wants_html; /* a browser, as far as its Accept says */
};

struct page {
    const char *path, *what;
    void (*begin)(struct admin *admin, const struct page *page, const struct request *request);
    /* For pages made from numbers: writes the body and returns the status; 0: no memory. */
    int (*write)(const struct admin *admin, const struct tier_numbers *numbers, bool verbose, struct belfry_buf *out);
    const char *type, *verbose_type;
};

/* A text that was written once for all requests that it answers. */
struct document {
    size_t refs;
    int status; /* 0: there was no memory for it */
    const char *type;
    struct belfry_buf text; /* not changed any more */
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
    bool is_scan;               /* counts as one of n_scans until it is answered */
    struct document *document;  /* SENDING: `rest` is of it; NULL: of a file of the program */
    struct belfry_bytes rest;   /* SENDING: what is not written yet */
    struct shares_conn *counts; /* SENDING: document->text counts as memory of this connection */
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

/* ---- documents ---- */

static struct document *document_create(void)
{
    struct document *document = calloc(1, sizeof(*document));
    if (document == NULL)
        return NULL;
    document->refs = 1;
    belfry_buf_init(&document->text);
    return document;
}

static void document_unref(struct document *document)
{
    if (document == NULL || --document->refs > 0)
        return;
    belfry_buf_fini(&document->text);
    free(document);
}

/* ---- asks ---- */

/* Before the exchange's share is gone: in its last word, or in `gone`. */
static void ask_free(struct ask *ask)
{
    if (ask->admin != NULL)
        ask->admin->n_scans -= ask->is_scan;
    if (ask->counts != NULL)
        shares_count(ask->counts, SHARES_MEMORY, belfry_buf_len(&ask->document->text), 0);
    belfry_list_remove(&ask->link);
    document_unref(ask->document);
    free(ask);
}

/* Writes as much as there is room for; the last piece ends the exchange. */
static void ask_send_some(struct ask *ask)
{
    size_t n = exchange_pour(ask->x, ask->rest);
    ask->rest = belfry_bytes_of(ask->rest.data + n, ask->rest.len - n);
    if (ask->rest.len > 0)
        return; /* no room: `writable` will come */
    exchange_end(ask->x, NULL, 0);
    ask_free(ask);
}

static void ask_on_writable(struct exchange *x, void *user)
{
    struct ask *ask = user;
    (void)x;
    if (ask->state == ASK_SENDING)
        ask_send_some(ask);
}

static void ask_on_gone(struct exchange *x, void *user)
{
    struct ask *ask = user;
    (void)x;
    if (ask->state == ASK_WAITING && ask->is_scan) {
        ask->state = ASK_LEFT; /* it still counts: the workers are answering */
        ask->x = NULL;
    } else {
        ask_free(ask);
    }
}

static const struct exchange_events ask_events = {
    .body = exchange_drop_body, .body_end = exchange_ignore, .writable = ask_on_writable, .gone = ask_on_gone};

/* NULL: there is no memory, and the request has been answered. */
static struct ask *ask_create(struct admin *admin, const struct page *page, const struct request *request)
{
    struct ask *ask = calloc(1, sizeof(*ask));
    if (ask == NULL) {
        answer_busy(request->x, "out of memory: try again\n", request->head_only);
        return NULL;
    }
    *ask = (struct ask){
        .admin = admin, .x = request->x, .page = page, .state = ASK_WAITING, .head_only = request->head_only};
    belfry_list_append(&admin->asks, &ask->link);
    exchange_handle(request->x, &ask_events, ask);
    return ask;
}

static void ask_refuse(struct ask *ask, const char *why)
{
    answer_busy(ask->x, why, ask->head_only);
    ask_free(ask);
}

/* Sends the body: immediately if it fits, otherwise as fast as the peer reads it. `fields` has room for one more. The
 * body is of `document`, which is shared and counts to each of its readers, or of a file of the program, which costs
 * nothing (NULL). Consumes the ask. */
static void ask_send(struct ask *ask, int status, struct belfry_http_field *fields, size_t n, struct belfry_bytes body,
                     struct document *document)
{
    struct exchange *x = ask->x;
    struct shares_conn *share = exchange_share(x);
    if (ask->head_only || body.len <= exchange_room(x)) {
        exchange_answer(x, status, fields, n, ask->head_only ? (struct belfry_bytes){0} : body);
        ask_free(ask);
        return;
    }
    if (document != NULL && !shares_make_room(share, SHARES_MEMORY, body.len)) {
        ask_refuse(ask, "this client has too many answers that it has not read: read them, then try again\n");
        return;
    }

    char length[24];
    snprintf(length, sizeof(length), "%zu", body.len);
    fields[n++] = (struct belfry_http_field){belfry_bytes_str("content-length"), belfry_bytes_str(length)};
    ask->state = ASK_SENDING;
    ask->rest = body;
    if (document != NULL) {
        document->refs++;
        ask->document = document;
        ask->counts = share;
        shares_count(share, SHARES_MEMORY, 0, body.len);
    }
    exchange_respond(x, status, fields, n);
    ask_send_some(ask);
}

static void ask_answer(struct ask *ask, struct document *document)
{
    if (document == NULL || document->status == 0) {
        ask_refuse(ask, "out of memory: try again\n");
        return;
    }
    struct belfry_http_field fields[FIELDS_MAX] = {
        {belfry_bytes_str("content-type"), belfry_bytes_str(document->type)},
        {belfry_bytes_str("cache-control"), belfry_bytes_str("no-store")},
    };
    ask_send(ask, document->status, fields, 2, belfry_buf_bytes(&document->text), document);
}

/* ---- numbers ---- */

static void on_numbers(const struct tier_numbers *numbers, void *user);

/* Asks for all that wait. */
static void line_ask(struct admin *admin, enum line_kind kind)
{
    struct line *line = &admin->lines[kind];
    enum belfry_err err = BELFRY_ERR_NOMEM;
    struct question *question = malloc(sizeof(*question));
    belfry_list_move_all(&line->asked, &line->waiting);
    if (question != NULL) {
        *question = (struct question){admin, kind};
        line->question = question;
        err = admin->opts.collect(on_numbers, question, admin->opts.user);
    }
    if (err == BELFRY_OK)
        return;
    line->question = NULL;
    free(question);
    while (!belfry_list_empty(&line->asked))
        ask_refuse(belfry_container(line->asked.next, struct ask, link),
                   "the workers cannot be asked now: try again\n");
}

/* Each page is written once, however many have asked for it. */
static void on_numbers(const struct tier_numbers *numbers, void *user)
{
    struct question *question = user;
    struct admin *admin = question->admin;
    enum line_kind kind = question->kind;
    free(question);
    if (admin == NULL)
        return;
    struct line *line = &admin->lines[kind];
    line->question = NULL;

    while (!belfry_list_empty(&line->asked)) {
        const struct ask *first = belfry_container(line->asked.next, struct ask, link);
        const struct page *page = first->page;
        bool verbose = first->verbose;
        struct document *document = document_create();
        if (document != NULL) {
            document->status = page->write(admin, numbers, verbose, &document->text);
            document->type = verbose ? page->verbose_type : page->type;
        }
        for (struct belfry_list *at = line->asked.next, *next; at != &line->asked; at = next) {
            struct ask *ask = belfry_container(at, struct ask, link);
            next = at->next;
            if (ask->page != page || ask->verbose != verbose)
                continue;
            belfry_list_remove(&ask->link);
            belfry_list_append(&admin->asks, &ask->link);
            ask_answer(ask, document);
        }
        document_unref(document);
    }
    if (!belfry_list_empty(&line->waiting))
        line_ask(admin, kind);
}

/* ---- scans ---- */

static bool ask_is_wanted(const struct ask *ask)
{
    return ask->x != NULL && ask->admin != NULL;
}

/* What scans found is in the document, or err says why it is not. Consumes both. */
static void ask_scanned(struct ask *ask, struct document *document, enum belfry_err err)
{
    if (!ask_is_wanted(ask)) {
        ask_free(ask);
    } else {
        if (document != NULL) {
            document->status = err == BELFRY_OK ? 200 : 0;
            document->type = JSON;
        }
        ask->admin->n_scans--;
        ask->is_scan = false;
        ask_answer(ask, document);
    }
    document_unref(document);
}

static void on_scans(struct watchers_scan **scans, size_t n, void *user)
{
    struct ask *ask = user;
    struct document *document = ask_is_wanted(ask) ? document_create() : NULL;
    enum belfry_err err = document != NULL ? watchers_write(scans, n, &document->text) : BELFRY_ERR_NOMEM;
    for (size_t i = 0; i < n; i++)
        watchers_scan_destroy(scans[i]);
    ask_scanned(ask, document, err);
}

static void on_clients(struct clients_scan **scans, size_t n, void *user)
{
    struct ask *ask = user;
    struct document *document = ask_is_wanted(ask) ? document_create() : NULL;
    enum belfry_err err = document != NULL ? clients_write(scans, n, &document->text) : BELFRY_ERR_NOMEM;
    for (size_t i = 0; i < n; i++)
        clients_scan_destroy(scans[i]);
    ask_scanned(ask, document, err);
}

/* NULL: it has been answered. */
static struct ask *scan_create(struct admin *admin, const struct page *page, const struct request *request)
{
    if (admin->n_scans >= ADMIN_SCANS) {
        answer_busy(request->x, "too many questions at once: try again\n", request->head_only);
        return NULL;
    }
    struct ask *ask = ask_create(admin, page, request);
    if (ask == NULL)
        return NULL;
    ask->is_scan = true;
    admin->n_scans++;
    return ask;
}

static void scan_asked(struct ask *ask, enum belfry_err err)
{
    if (err != BELFRY_OK)
        ask_refuse(ask, "too many questions at once: try again\n");
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

static int write_readyz(const struct admin *admin, const struct tier_numbers *numbers, bool verbose,
                        struct belfry_buf *out);

static void begin_numbers(struct admin *admin, const struct page *page, const struct request *request)
{
    struct ask *ask = ask_create(admin, page, request);
    if (ask == NULL)
        return;
    ask->verbose = asks_verbose(request->query);
    enum line_kind kind = page->write == write_readyz ? LINE_READYZ : LINE_PAGES;
    belfry_list_remove(&ask->link);
    belfry_list_append(&admin->lines[kind].waiting, &ask->link);
    if (admin->lines[kind].question == NULL)
        line_ask(admin, kind);
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
    struct ask *ask = scan_create(admin, page, request);
    if (ask != NULL)
        scan_asked(ask, admin->opts.scan(&wanted, on_scans, ask, admin->opts.user));
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
    struct ask *ask = scan_create(admin, page, request);
    if (ask != NULL)
        scan_asked(ask, admin->opts.clients(&wanted, on_clients, ask, admin->opts.user));
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
        bool ours = pools_trouble(numbers, pool, why);
        if (ours)
            text_say(text, "[!]pools: %s\n", why);
        bool admins = pools_admin_trouble(numbers, pool, why);
        if (admins)
            text_say(text, "[!]pools: %s\n", why);
        fine = fine && !ours && !admins;
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
        char line[READINESS_LINE];
        readiness_line(check, finding, line);
        if (!finding->holds)
            text_say(&text, "[-]%s\n", line);
        else if (verbose)
            text_say(&text, "[+]%s ok\n", readiness_name(check));
    }
    struct readiness_finding warning;
    if (verbose && readiness_warns(numbers, &warning))
        text_say(&text, "[!]%s: %s\n", readiness_name(READINESS_UPSTREAM), warning.why);
    if (verbose)
        write_pool_lines(numbers, &text);
    text_say(&text, readiness.is_ready ? "ok\n" : "not ready\n");
    if (text.err != BELFRY_OK)
        return 0;
    return readiness.is_ready ? 200 : 503;
}

/* ---- the hour and the log ---- */

/* A document that needs no question. */
static void answer_now(struct admin *admin, const struct page *page, const struct request *request,
                       enum belfry_err (*write)(const struct admin *admin, struct belfry_buf *out))
{
    struct ask *ask = ask_create(admin, page, request);
    if (ask == NULL)
        return;
    struct document *document = document_create();
    if (document != NULL) {
        document->status = write(admin, &document->text) == BELFRY_OK ? 200 : 0;
        document->type = JSON;
    }
    ask_answer(ask, document);
    document_unref(document);
}

static enum belfry_err write_hour(const struct admin *admin, struct belfry_buf *out)
{
    return hour_write(admin->hour, out);
}

static void begin_hour(struct admin *admin, const struct page *page, const struct request *request)
{
    answer_now(admin, page, request, write_hour);
}

static enum belfry_err write_log(const struct admin *admin, struct belfry_buf *out)
{
    return admin->opts.lines != NULL ? log_lines_write(admin->opts.lines, out) : belfry_buf_append(out, "{}\n", 3);
}

static void begin_log(struct admin *admin, const struct page *page, const struct request *request)
{
    answer_now(admin, page, request, write_log);
}

/* ---- open pages ---- */

static void viewer_free(struct viewer *viewer)
{
    viewer->admin->n_viewers--;
    belfry_list_remove(&viewer->link);
    free(viewer);
}

static void viewer_reset(struct viewer *viewer)
{
    exchange_reset(viewer->x, H2_CANCEL);
    viewer_free(viewer);
}

static void viewer_on_gone(struct exchange *x, void *user)
{
    (void)x;
    viewer_free(user);
}

static const struct exchange_events viewer_events = {
    .body = exchange_drop_body, .body_end = exchange_ignore, .writable = exchange_ignore, .gone = viewer_on_gone};

static void begin_events(struct admin *admin, const struct page *page, const struct request *request)
{
    (void)page;
    if (request->head_only) {
        answer(request->x, 200, "text/event-stream", (struct belfry_bytes){0}, true);
        return;
    }
    struct viewer *viewer = admin->n_viewers < ADMIN_VIEWERS ? malloc(sizeof(*viewer)) : NULL;
    if (viewer == NULL) {
        answer_busy(request->x, "too many pages are open: close one\n", false);
        return;
    }
    *viewer = (struct viewer){.admin = admin, .x = request->x};
    belfry_list_append(&admin->viewers, &viewer->link);
    admin->n_viewers++;
    admin->publish_ms = 0; /* at the next tick: until then it shows nothing */
    struct belfry_http_field fields[] = {
        {belfry_bytes_str("content-type"), belfry_bytes_str("text/event-stream")},
        {belfry_bytes_str("cache-control"), belfry_bytes_str("no-store")},
        {belfry_bytes_str("x-content-type-options"), belfry_bytes_str("nosniff")},
    };
    exchange_handle(viewer->x, &viewer_events, viewer);
    exchange_respond(viewer->x, 200, fields, 3);
    exchange_lasts(viewer->x);
    exchange_write(viewer->x, RETRY, sizeof(RETRY) - 1);
}

static enum belfry_err write_event(struct belfry_buf *out, const char *name)
{
    char text[32];
    int len = snprintf(text, sizeof(text), "event: %s\ndata: ", name);
    return belfry_buf_append(out, text, (size_t)len);
}

/* One message for all open pages. */
static void publish(struct admin *admin, const struct tier_numbers *numbers)
{
    struct belfry_buf out;
    belfry_buf_init(&out);

    /* the documents end with a newline, and an event with an empty line */
    enum belfry_err err = write_event(&out, "numbers");
    if (err == BELFRY_OK)
        err = numbers_write(numbers, NUMBERS_SUMS, &out);
    if (err == BELFRY_OK)
        err = belfry_buf_append(&out, "\n", 1);
    if (err == BELFRY_OK)
        err = write_event(&out, "tree");
    if (err == BELFRY_OK)
        err = tree_write_json(numbers, PAGE_TIERS, &out);
    if (err == BELFRY_OK)
        err = belfry_buf_append(&out, "\n", 1);

    /* what is new in the hour and the log */
    if (err == BELFRY_OK && hour_next(admin->hour) > admin->told_samples) {
        err = write_event(&out, "hour");
        if (err == BELFRY_OK)
            err = hour_write_newest(admin->hour, &out);
        if (err == BELFRY_OK)
            err = belfry_buf_append(&out, "\n\n", 2);
        admin->told_samples = hour_next(admin->hour);
    }
    uint64_t n_lines = admin->opts.lines != NULL ? log_lines_next(admin->opts.lines) : 0;
    if (err == BELFRY_OK && n_lines > admin->told_lines) {
        char text[48];
        int len = snprintf(text, sizeof(text), "event: log\ndata: %" PRIu64 "\n\n", n_lines);
        err = belfry_buf_append(&out, text, (size_t)len);
        admin->told_lines = n_lines;
    }

    /* whole, or not at all; without memory all pages miss it */
    struct belfry_bytes message = belfry_buf_bytes(&out);
    for (struct belfry_list *at = admin->viewers.next, *next; err == BELFRY_OK && at != &admin->viewers; at = next) {
        struct viewer *viewer = belfry_container(at, struct viewer, link);
        next = at->next;
        if (exchange_room(viewer->x) >= message.len) {
            exchange_write(viewer->x, message.data, message.len);
            viewer->misses = 0;
        } else if (++viewer->misses >= ADMIN_VIEWER_MISSES) {
            viewer_reset(viewer);
        }
    }
    belfry_buf_fini(&out);
}

static void on_sample(const struct tier_numbers *numbers, void *user)
{
    struct question *question = user;
    struct admin *admin = question->admin;
    free(question);
    if (admin == NULL)
        return;
    admin->sample = NULL;
    if (hour_is_due(admin->hour, numbers->now_ms))
        hour_add(admin->hour, numbers);
    if (admin->n_viewers > 0)
        publish(admin, numbers);
}

/* ---- the tail ---- */

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
    if (admin->opts.tail == NULL) {
        answer_text(request->x, 403, "it is off: --admin-tail turns it on\n", request->head_only);
    } else if (page_query_each(request->query, set_prefix, &query, why, sizeof(why)) != BELFRY_OK) {
        snprintf(text, sizeof(text), "%s\n", why);
        answer_text(request->x, 400, text, request->head_only);
    } else if (request->head_only) {
        answer(request->x, 200, "text/event-stream", (struct belfry_bytes){0}, true);
    } else if (!tail_open(admin->opts.tail, request->x, belfry_bytes_of(query.prefix, query.len))) {
        answer_busy(request->x, "too many tails are open: close one\n", false);
    }
}

/* ---- files of the page ---- */

static_assert(sizeof(page_index_html) + sizeof(page_page_css) + sizeof(page_page_js) <= PAGE_FILES_MAX,
              "the page is to stay small");

/* The files of src/serve/admin/page, which cmake/Embed.cmake has made arrays of. */
struct page_file {
    const char *path, *type;
    const void *data;
    size_t len;
};
static const struct page_file page_files[] = {
    {"/", "text/html; charset=utf-8", page_index_html, sizeof(page_index_html)},
    {"/page.css", "text/css; charset=utf-8", page_page_css, sizeof(page_page_css)},
    {"/page.js", "text/javascript; charset=utf-8", page_page_js, sizeof(page_page_js)},
};

/* NULL: none has that path. */
static const struct page_file *find_page_file(struct belfry_bytes path)
{
    for (size_t i = 0; i < sizeof(page_files) / sizeof(page_files[0]); i++)
        if (belfry_bytes_equal(path, belfry_bytes_str(page_files[i].path)))
            return &page_files[i];
    return NULL;
}

/* The bytes are the program's: only what there is room for is copied. A browser may load and ask this address, and
 * nothing else. */
static void answer_file(struct admin *admin, const struct page_file *file, const struct request *request)
{
    struct ask *ask = ask_create(admin, NULL, request);
    struct belfry_http_field fields[FIELDS_MAX] = {
        {belfry_bytes_str("content-type"), belfry_bytes_str(file->type)},
        {belfry_bytes_str("cache-control"), belfry_bytes_str("no-cache")},
        {belfry_bytes_str("content-security-policy"),
         belfry_bytes_str("default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
                          "img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'")},
        {belfry_bytes_str("x-content-type-options"), belfry_bytes_str("nosniff")},
        {belfry_bytes_str("x-frame-options"), belfry_bytes_str("DENY")},
        {belfry_bytes_str("referrer-policy"), belfry_bytes_str("no-referrer")},
        {belfry_bytes_str("cross-origin-resource-policy"), belfry_bytes_str("same-origin")},
        {belfry_bytes_str("vary"), belfry_bytes_str("accept")},
    };
    if (ask != NULL)
        ask_send(ask, 200, fields, 8, belfry_bytes_of(file->data, file->len), NULL);
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
        answer_file(admin, find_page_file(belfry_bytes_str(page->path)), request);
        return;
    }
    write_index(admin, text, sizeof(text), "belfryd, admin address");
    answer_text(request->x, 200, text, request->head_only);
}

/* A link on a page of another site may lead to the page; all that it loads then is of its own site. */
static bool opens_page(const struct exchange_head *head)
{
    struct belfry_bytes query, path = exchange_path(head, &query);
    return belfry_bytes_equal(head->method, belfry_bytes_str("GET")) &&
           belfry_bytes_equal(path, belfry_bytes_str("/")) &&
           belfry_bytes_equal(exchange_field(head, "sec-fetch-mode"), belfry_bytes_str("navigate"));
}

uint64_t admin_refused_pages(const struct admin *admin)
{
    return admin->refused_pages;
}

void admin_begin(struct exchange *x, const struct exchange_head *head, void *user)
{
    struct admin *admin = user;
    if (hosts_refuse(admin->opts.hosts, x, head))
        return;
    if (!opens_page(head) && cors_refuse(&admin->opts.cors, x, head)) {
        admin->refused_pages++;
        return;
    }
    struct belfry_bytes accept = exchange_field(head, "accept");
    struct request request = {.x = x,
                              .head_only = belfry_bytes_equal(head->method, belfry_bytes_str("HEAD")),
                              .wants_html = accept.len > 0 && memmem(accept.data, accept.len, "text/html", 9) != NULL};
    if (!request.head_only && !belfry_bytes_equal(head->method, belfry_bytes_str("GET"))) {
        struct belfry_http_field fields[] = {
            {belfry_bytes_str("content-type"), belfry_bytes_str(TEXT)},
            {belfry_bytes_str("allow"), belfry_bytes_str("GET, HEAD")},
        };
        exchange_answer(x, 405, fields, 2, belfry_bytes_str("only GET and HEAD are answered here\n"));
        return;
    }

    /* a page of the table, a file of the page, or neither */
    struct belfry_bytes path = exchange_path(head, &request.query);
    const struct page *page = NULL;
    for (size_t i = 0; i < N_PAGES && page == NULL; i++)
        if (belfry_bytes_equal(path, belfry_bytes_str(pages[i].path)))
            page = &pages[i];
    const struct page_file *file = page == NULL ? find_page_file(path) : NULL;
    exchange_set_probes(x, page != NULL && (page->write == write_readyz || page->begin == begin_livez));
    if (page != NULL) {
        page->begin(admin, page, &request);
        return;
    }
    if (file != NULL) {
        answer_file(admin, file, &request);
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

    /* a sample for the hour and for open pages */
    bool pages_due = admin->n_viewers > 0 && now_ms >= admin->publish_ms;
    if (admin->sample != NULL || !(pages_due || hour_is_due(admin->hour, now_ms)))
        return;
    struct question *question = malloc(sizeof(*question));
    if (question == NULL)
        return; /* the next tick tries again; so below */
    *question = (struct question){.admin = admin};
    admin->sample = question;
    if (admin->opts.collect(on_sample, question, admin->opts.user) != BELFRY_OK) {
        admin->sample = NULL;
        free(question);
        return;
    }
    admin->publish_ms = now_ms + PUBLISH_MS;
}

/* ---- the whole ---- */

enum belfry_err admin_create(const struct admin_opts *opts, struct admin **out)
{
    struct admin *admin = calloc(1, sizeof(*admin));
    if (admin == NULL)
        return BELFRY_ERR_NOMEM;
    admin->opts = *opts;
    belfry_list_init(&admin->asks);
    for (size_t i = 0; i < N_LINES; i++) {
        belfry_list_init(&admin->lines[i].asked);
        belfry_list_init(&admin->lines[i].waiting);
    }
    belfry_list_init(&admin->viewers);
    BELFRY_OWNER_INIT(admin);
    if (hour_create(&admin->hour) != BELFRY_OK) {
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
    for (size_t i = 0; i < N_LINES; i++) {
        struct line *line = &admin->lines[i];
        if (line->question != NULL)
            line->question->admin = NULL; /* its answer will come and free it */
        belfry_list_move_all(&admin->asks, &line->asked);
        belfry_list_move_all(&admin->asks, &line->waiting);
    }
    while (!belfry_list_empty(&admin->asks)) {
        struct ask *ask = belfry_container(admin->asks.next, struct ask, link);
        if (ask->x != NULL)
            exchange_reset(ask->x, H2_CANCEL);
        ask->x = NULL;
        if (!ask->is_scan) {
            ask_free(ask);
            continue;
        }
        belfry_list_remove(&ask->link); /* its answer will come and free it */
        ask->admin = NULL;
    }
    if (admin->sample != NULL)
        admin->sample->admin = NULL; /* likewise */
    while (!belfry_list_empty(&admin->viewers))
        viewer_reset(belfry_container(admin->viewers.next, struct viewer, link));
    hour_destroy(admin->hour);
    free(admin);
}
