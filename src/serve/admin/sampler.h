/* src/serve/admin/sampler.h
 *
 * sampler: asks the workers for their numbers, every HOUR_EVERY_MS for the hour and every SAMPLER_PUBLISH_MS while a
 * page is open. All open pages share one question and one message: the events numbers and tree (the documents of
 * /debug/numbers, without its workers, and /debug/tree), hour (a new sample) and log (how many lines there were).
 *
 * Thread: owner (the front's loop).
 * Memory: the hour's, one message, and the open pages'.
 */
#ifndef BELFRY_SERVE_ADMIN_SAMPLER_H
#define BELFRY_SERVE_ADMIN_SAMPLER_H

#include "serve/admin/hour.h"
#include "serve/admin/log_lines.h"
#include "server/exchange.h"

#define SAMPLER_PUBLISH_MS 1000
#define SAMPLER_PAGE_TIERS 50 /* tiers below that the page shows; the others are counted */

struct sampler;

typedef void (*sampler_numbers_fn)(const struct tier_numbers *numbers, void *user); /* lent */

struct sampler_opts {
    /* Answers once, later; after an error there is no answer. */
    enum belfry_err (*sample)(sampler_numbers_fn fn, void *fn_user, void *user);
    void *user;
    struct log_lines *lines; /* lent; NULL: none are kept */
};

/* Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err sampler_create(const struct sampler_opts *opts, struct sampler **out);
void sampler_destroy(struct sampler *sampler); /* an answer that still comes is dropped; NULL is fine */

/* Asks for a sample if one is due; to be called several times per second. */
void sampler_tick(struct sampler *sampler, uint64_t now_ms);

/* Answers a request with the stream of events. False: there are too many pages, and the exchange is untouched. */
bool sampler_open_page(struct sampler *sampler, struct exchange *x);

const struct hour *sampler_hour(const struct sampler *sampler); /* lent */

#endif
