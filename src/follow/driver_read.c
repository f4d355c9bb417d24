/* src/follow/driver_read.c: linearizable revisions and pages.
 *
 * All pages of a listing must be of one past. A cluster that is restored from a backup breaks its connections; so a page
 * counts only if the connection is the one by which the revision came that the listing began with. One that was lost
 * meanwhile, be it idle, makes the listing begin anew.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "client/etcd_request.h"
#include "follow/driver_private.h"

#define PAGE_MS 30000 /* for a page, at least: a thousand keys may be large */

struct read {
    struct driver *driver;
    enum upstream_want want;
    uint64_t token;
    int64_t limit;
};

static struct driver_source source_now(struct driver *driver)
{
    struct belfry_link *link = belfry_calls_link(driver->calls);
    struct upstream_stats stats;
    upstream_stats(driver->upstream, &stats);
    return (struct driver_source){
        .listing = stats.listings, .connects = belfry_link_connects(link), .losses = belfry_link_losses(link)};
}

static bool same_source(struct driver_source a, struct driver_source b)
{
    return a.listing == b.listing && a.connects == b.connects && a.losses == b.losses;
}

static void count_keys(struct driver *driver, struct belfry_bytes response)
{
    struct belfry_bytes row;
    if (driver->keys_listing != driver->source.listing)
        driver->keys_listed = 0;
    driver->keys_listing = driver->source.listing;
    for (size_t at = 0; belfry_scan_field(response, BELFRY_RANGE_KVS, &at, &row) == BELFRY_OK;)
        driver->keys_listed++;
}

static void on_revision(struct driver *driver, const struct read *read, const struct belfry_wire_header *header,
                        uint64_t now)
{
    struct driver_source source = source_now(driver);
    if (upstream_state(driver->upstream) == UPSTREAM_LISTING && source.listing != driver->source.listing)
        driver->source = source;
    upstream_on_read(driver->upstream, read->token, header, now);
}

static void on_page(struct driver *driver, const struct read *read, struct belfry_bytes response, uint64_t now)
{
    if (upstream_state(driver->upstream) == UPSTREAM_LISTING) {
        if (!same_source(driver->source, source_now(driver))) {
            upstream_on_read_failed(driver->upstream, read->token, BELFRY_ERR_UNAVAILABLE, now);
            return;
        }
        count_keys(driver, response);
    }
    upstream_on_page(driver->upstream, read->token, response, now);
}

/* The next page is smaller: this one did not fit, or did not come in time. */
static void shrink_pages(struct driver *driver, int64_t limit)
{
    driver->page_limit = limit > 4 ? limit / 4 : 1;
    belfry_logf(driver->log, BELFRY_LOG_DEBUG, "upstream_page_limit", "keys=%lld", (long long)driver->page_limit);
}

static void on_failed(struct driver *driver, const struct read *read, const struct belfry_answer *answer, uint64_t now)
{
    belfry_logf(driver->log, BELFRY_LOG_DEBUG, "upstream_read_failed", "want=%s why=\"%s\"",
                read->want == UPSTREAM_WANT_PAGE ? "page" : "revision", answer->why);
    if (read->want == UPSTREAM_WANT_PAGE && upstream_state(driver->upstream) == UPSTREAM_LISTING &&
        (answer->err == BELFRY_ERR_TOO_LARGE || answer->err == BELFRY_ERR_TIMEOUT))
        shrink_pages(driver, read->limit);
    if (driver_is_denied(answer->err, answer->why)) {
        snprintf(driver->watch_why, sizeof(driver->watch_why), "%s", answer->why);
        driver_log_denied(driver, answer->why);
    }
    driver_mind_refusal(driver, answer->endpoint, answer->why);
    upstream_on_read_failed(driver->upstream, read->token, answer->err, now);
}

static void on_answer(const struct belfry_answer *answer, void *user)
{
    struct read *read = user;
    struct driver *driver = read->driver;
    struct belfry_wire_header header;
    uint64_t now = belfry_clock_ms();
    driver->poked = true;
    if (driver->closing) {
        free(read);
        return;
    }
    if (answer->err != BELFRY_OK) {
        on_failed(driver, read, answer, now);
    } else if (belfry_scan_response_header(answer->message, &header) != BELFRY_OK) {
        upstream_on_read_failed(driver->upstream, read->token, BELFRY_ERR_PROTOCOL, now);
    } else {
        driver->watch_why[0] = '\0'; /* whatever it was, upstream answers */
        driver_saw(driver, &header);
        if (read->want == UPSTREAM_WANT_PAGE)
            on_page(driver, read, answer->message, now);
        else
            on_revision(driver, read, &header, now);
    }
    free(read);
}

static enum belfry_err start(struct driver *driver, const struct upstream_action *action, struct read *read,
                             uint64_t now)
{
    bool page = action->want == UPSTREAM_WANT_PAGE;
    uint32_t ms = page && driver->command_timeout_ms < PAGE_MS ? PAGE_MS : driver->command_timeout_ms;
    enum belfry_err err =
        page ? belfry_request_page(&driver->scratch, action->key, driver->range_end, action->rev, read->limit)
             : belfry_request_count(&driver->scratch, driver->key);
    if (err == BELFRY_OK)
        err = belfry_calls_start(driver->calls, BELFRY_CALL_READ, BELFRY_PATH_RANGE, belfry_buf_bytes(&driver->scratch),
                                 now + ms, on_answer, read, NULL);
    belfry_buf_clear(&driver->scratch);
    return err;
}

static void on_head(const struct belfry_answer *answer, void *user)
{
    struct driver *driver = user;
    struct belfry_wire_header header;
    uint64_t now = belfry_clock_ms();
    driver->poked = true;
    driver->asking_head = false;
    if (driver->closing || answer->err != BELFRY_OK ||
        belfry_scan_response_header(answer->message, &header) != BELFRY_OK)
        return;
    driver_saw(driver, &header);
    if (upstream_state(driver->upstream) != UPSTREAM_LIVE || header.revision != ingest_head(driver->ingest))
        return;
    driver->heard_ms = now;
    upstream_on_progress(driver->upstream, 0, &header, now);
}

void driver_ask_head(struct driver *driver, uint64_t now)
{
    if (driver->asking_head || !driver->whole_scope)
        return;
    enum belfry_err err = belfry_request_count(&driver->scratch, driver->key);
    if (err == BELFRY_OK)
        err = belfry_calls_start(driver->calls, BELFRY_CALL_READ, BELFRY_PATH_RANGE, belfry_buf_bytes(&driver->scratch),
                                 now + driver->command_timeout_ms, on_head, driver, NULL);
    belfry_buf_clear(&driver->scratch);
    driver->asking_head = err == BELFRY_OK;
}

void driver_read(struct driver *driver, const struct upstream_action *action, uint64_t now)
{
    struct read *read = malloc(sizeof(*read));
    enum belfry_err err = BELFRY_ERR_NOMEM;
    if (read != NULL) {
        int64_t limit = action->limit < driver->page_limit ? action->limit : driver->page_limit;
        *read = (struct read){.driver = driver, .want = action->want, .token = action->token, .limit = limit};
        err = start(driver, action, read, now);
    }
    if (err == BELFRY_OK)
        return;
    free(read);
    upstream_on_read_failed(driver->upstream, action->token, err, now);
}
