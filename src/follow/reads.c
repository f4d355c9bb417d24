/* src/follow/reads.c */
#include "follow/reads.h"

#include <stdlib.h>

#include "base/clock.h"
#include "client/etcd_request.h"

#define PAGE_MS 30000 /* for a page, at least: a thousand keys may be large */

struct read {
    struct reads *reads;
    enum upstream_want want;
    uint64_t token;
    int64_t limit;
};

void reads_init(struct reads *reads, const struct reads_opts *opts)
{
    *reads = (struct reads){.opts = *opts, .page_limit = INT64_MAX};
    belfry_buf_init(&reads->request);
}

void reads_close(struct reads *reads)
{
    reads->closing = true;
}

void reads_fini(struct reads *reads)
{
    belfry_buf_fini(&reads->request);
}

void reads_new_past(struct reads *reads)
{
    reads->page_limit = INT64_MAX;
    reads->is_balanced = false;
}

/* ---- answers ---- */

static struct reads_source reads_source_now(struct reads *reads)
{
    struct belfry_pool_counts counts = belfry_pool_counts(belfry_calls_link(reads->opts.calls));
    struct upstream_stats stats;
    upstream_stats(reads->opts.upstream, &stats);
    return (struct reads_source){.listing = stats.listings, .connects = counts.connects, .losses = counts.losses};
}

static void reads_count_keys(struct reads *reads, struct belfry_bytes response)
{
    struct belfry_bytes row;
    if (reads->keys_of != reads->source.listing)
        reads->keys_listed = 0;
    reads->keys_of = reads->source.listing;
    for (size_t at = 0; belfry_scan_field(response, BELFRY_RANGE_KVS, &at, &row) == BELFRY_OK;)
        reads->keys_listed++;
}

static void reads_on_revision(struct reads *reads, const struct read *read, const struct belfry_wire_header *header,
                              uint64_t now_ms)
{
    struct reads_source source = reads_source_now(reads);
    if (upstream_state(reads->opts.upstream) == UPSTREAM_LISTING && source.listing != reads->source.listing)
        reads->source = source;
    upstream_on_read(reads->opts.upstream, read->token, header, now_ms);
}

static void reads_on_page(struct reads *reads, const struct read *read, struct belfry_bytes response, uint64_t now_ms)
{
    if (upstream_state(reads->opts.upstream) == UPSTREAM_LISTING) {
        struct reads_source began = reads->source, source = reads_source_now(reads);
        if (source.listing != began.listing || source.connects != began.connects || source.losses != began.losses) {
            upstream_on_read_failed(reads->opts.upstream, read->token, BELFRY_ERR_UNAVAILABLE, now_ms);
            return;
        }
        reads_count_keys(reads, response);
    }
    upstream_on_page(reads->opts.upstream, read->token, response, now_ms);
}

static void reads_on_failed(struct reads *reads, const struct read *read, const struct belfry_answer *answer,
                            uint64_t now_ms)
{
    bool page = read->want == UPSTREAM_WANT_PAGE;
    belfry_logf(reads->opts.log, BELFRY_LOG_DEBUG, "upstream_read_failed", "want=%s why=\"%s\"",
                page ? "page" : "revision", answer->why);
    if (page && upstream_state(reads->opts.upstream) == UPSTREAM_LISTING &&
        (answer->err == BELFRY_ERR_TOO_LARGE || answer->err == BELFRY_ERR_TIMEOUT)) {
        reads->page_limit = read->limit > 4 ? read->limit / 4 : 1;
        belfry_logf(reads->opts.log, BELFRY_LOG_DEBUG, "upstream_page_limit", "keys=%lld",
                    (long long)reads->page_limit);
    }
    reads->is_balanced = reads->is_balanced || (page && answer->err == BELFRY_ERR_FUTURE);
    reads->opts.events->failed(answer, reads->opts.user);
    upstream_on_read_failed(reads->opts.upstream, read->token, answer->err, now_ms);
}

static void reads_on_answer(const struct belfry_answer *answer, void *user)
{
    struct read *read = user;
    struct reads *reads = read->reads;
    struct belfry_wire_header header;
    uint64_t now_ms = belfry_clock_ms();
    if (reads->closing) {
        free(read);
        return;
    }
    if (answer->err != BELFRY_OK) {
        reads_on_failed(reads, read, answer, now_ms);
    } else if (belfry_scan_response_header(answer->message, &header) != BELFRY_OK) {
        upstream_on_read_failed(reads->opts.upstream, read->token, BELFRY_ERR_PROTOCOL, now_ms);
    } else {
        reads->opts.events->answered(&header, reads->opts.user);
        if (read->want == UPSTREAM_WANT_PAGE)
            reads_on_page(reads, read, answer->message, now_ms);
        else
            reads_on_revision(reads, read, &header, now_ms);
    }
    free(read);
}

static void reads_on_head(const struct belfry_answer *answer, void *user)
{
    struct reads *reads = user;
    struct belfry_wire_header header;
    reads->asking_head = false;
    if (!reads->closing && answer->err == BELFRY_OK &&
        belfry_scan_response_header(answer->message, &header) == BELFRY_OK)
        reads->opts.events->head(&header, reads->opts.user);
}

/* ---- asking ---- */

/* Sends the request that was written with `err`. */
static enum belfry_err reads_send(struct reads *reads, enum belfry_err err, uint64_t deadline_ms, belfry_answer_fn fn,
                                  void *user)
{
    if (err == BELFRY_OK)
        err = belfry_calls_start(reads->opts.calls, BELFRY_CALL_READ, BELFRY_PATH_RANGE,
                                 belfry_buf_bytes(&reads->request), deadline_ms, fn, user, NULL);
    belfry_buf_clear(&reads->request);
    return err;
}

void reads_ask_head(struct reads *reads, uint64_t now_ms)
{
    if (reads->asking_head)
        return;
    enum belfry_err err = belfry_request_count(&reads->request, reads->opts.key);
    err = reads_send(reads, err, now_ms + reads->opts.timeout_ms, reads_on_head, reads);
    reads->asking_head = err == BELFRY_OK;
}

/* A witness (UPSTREAM_WANT_PAGE, too) is of a revision that this connection has not shown. */
static enum belfry_err reads_write_page(struct reads *reads, const struct upstream_action *action, int64_t limit)
{
    bool is_shown = action->rev != 0 && upstream_state(reads->opts.upstream) == UPSTREAM_LISTING && !reads->is_balanced;
    struct belfry_bytes end = reads->opts.range_end;
    return is_shown ? belfry_request_pinned_page(&reads->request, action->key, end, action->rev, limit)
                    : belfry_request_page(&reads->request, action->key, end, action->rev, limit);
}

static enum belfry_err reads_try(struct reads *reads, const struct upstream_action *action, struct read *read,
                                 uint64_t now_ms)
{
    const struct reads_opts *opts = &reads->opts;
    if (action->want == UPSTREAM_WANT_REVISION)
        return reads_send(reads, belfry_request_count(&reads->request, opts->key), now_ms + opts->timeout_ms,
                          reads_on_answer, read);
    uint32_t ms = opts->timeout_ms < PAGE_MS ? PAGE_MS : opts->timeout_ms;
    return reads_send(reads, reads_write_page(reads, action, read->limit), now_ms + ms, reads_on_answer, read);
}

void reads_start(struct reads *reads, const struct upstream_action *action, uint64_t now_ms)
{
    struct read *read = malloc(sizeof(*read));
    enum belfry_err err = BELFRY_ERR_NOMEM;
    if (read != NULL) {
        int64_t limit = action->limit < reads->page_limit ? action->limit : reads->page_limit;
        *read = (struct read){.reads = reads, .want = action->want, .token = action->token, .limit = limit};
        err = reads_try(reads, action, read, now_ms);
    }
    if (err == BELFRY_OK)
        return;
    free(read);
    upstream_on_read_failed(reads->opts.upstream, action->token, err, now_ms);
}
