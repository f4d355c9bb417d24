/* src/serve/rights/inquiry.c */
#include "serve/rights/inquiry.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/owner.h"
#include "net/grpc.h"
#include "net/grpc_frame.h"
#include "serve/rights/refusal.h"
#include "serve/rights/rights_request.h"

/* One range of it. */
struct inquiry_part {
    struct inquiry *inquiry;
    struct permit_question *question; /* NULL: it is answered, or was not asked */
};

struct inquiry {
    struct inquiries *all;
    inquiry_fn fn;
    void *user;
    uint64_t asked_ms; /* when it came */
    uint64_t since_ms; /* the oldest of the answers that came */
    size_t n, n_waiting;
    BELFRY_OWNER;
    struct inquiry_part parts[];
};

/* ---- what is asked ---- */

bool inquiry_is(const struct exchange_head *head, const struct identity *who, uint64_t *out_within_ms)
{
    struct belfry_bytes within = exchange_field(head, RIGHTS_REQUEST_FIELD);
    bool is_method = belfry_bytes_equal(head->path, belfry_bytes_str(rights_request_path(1))) ||
                     belfry_bytes_equal(head->path, belfry_bytes_str(rights_request_path(2)));
    return is_method && who->kind != IDENTITY_NONE && rights_request_read_ms(within, out_within_ms);
}

/* ---- what is answered ---- */

static void inquiry_free(struct inquiry *inquiry)
{
    for (size_t i = 0; i < inquiry->n; i++) {
        if (inquiry->parts[i].question != NULL)
            permit_cancel(inquiry->parts[i].question);
    }
    inquiry->all->n_ranges -= inquiry->n;
    free(inquiry);
}

static void inquiry_tell(struct inquiry *inquiry, int code, const char *message, uint64_t age_ms)
{
    struct inquiry_answer answer = {.code = code, .message = message, .age_ms = age_ms};
    inquiry->fn(&answer, inquiry->user);
    inquiry_free(inquiry);
}

static void inquiry_refuse(struct inquiry *inquiry, const char *reason)
{
    struct refusal_status status = refusal_status(reason);
    inquiry_tell(inquiry, status.code, status.message, 0);
}

static void inquiry_grant(struct inquiry *inquiry, uint64_t since_ms)
{
    inquiry->since_ms = belfry_min_time(inquiry->since_ms, since_ms);
    if (--inquiry->n_waiting > 0)
        return;
    bool is_older = inquiry->since_ms < inquiry->asked_ms;
    uint64_t age_ms = is_older ? inquiry->asked_ms - inquiry->since_ms + 1 : 0; /* both times are rounded down */
    inquiry_tell(inquiry, BELFRY_GRPC_OUT_OF_RANGE, RIGHTS_REQUEST_ALLOWED, age_ms);
}

static void on_inquiry_verdict(enum permit_verdict verdict, const char *reason, void *user)
{
    struct inquiry_part *part = user;
    struct inquiry *inquiry = part->inquiry;
    uint64_t since_ms = permit_since(part->question);
    part->question = NULL;
    switch (verdict) {
    case PERMIT_GRANTED:
    case PERMIT_HELD:
        inquiry_grant(inquiry, since_ms);
        break;
    case PERMIT_REFUSED:
        inquiry_refuse(inquiry, reason);
        break;
    case PERMIT_UNAVAILABLE:
        inquiry_tell(inquiry,
                     strcmp(reason, PERMIT_SILENT) == 0 ? BELFRY_GRPC_DEADLINE_EXCEEDED : BELFRY_GRPC_UNAVAILABLE,
                     reason, 0);
        break;
    }
}

/* ---- asking ---- */

static enum belfry_err inquiry_ask(struct inquiry *inquiry, const struct inquiry_request *request,
                                   const struct rights_range *ranges, uint64_t now)
{
    struct identity who = *request->who;
    if (who.rights == LISTEN_RIGHTS_OPEN)
        who.rights = LISTEN_RIGHTS_ASKED;
    enum belfry_err err = BELFRY_OK;
    for (size_t i = 0; i < inquiry->n && err == BELFRY_OK; i++) {
        struct inquiry_part *part = &inquiry->parts[i];
        struct permit_below below = {
            .range = ranges[i], .is_part = inquiry->n > 1, .within_ms = request->within_ms, .now_ms = now};
        part->inquiry = inquiry;
        err = permit_ask_below(inquiry->all->permit, &who, &below, on_inquiry_verdict, part, &part->question);
    }
    return err;
}

enum belfry_err inquiry_open(struct inquiries *all, const struct inquiry_request *request, uint64_t now_ms,
                             inquiry_fn fn, void *user, struct inquiry **out)
{
    struct rights_range ranges[RIGHTS_BATCH];
    size_t n;
    struct belfry_bytes message = belfry_grpc_frame_only(request->body);
    if (message.data == NULL || request->body.len > INQUIRY_BYTES)
        return BELFRY_ERR_PROTOCOL;
    enum belfry_err err = rights_request_read(request->path, message, ranges, &n);
    if (err != BELFRY_OK)
        return err;
    if (n > INQUIRY_RANGES - all->n_ranges)
        return BELFRY_ERR_LIMIT;
    struct inquiry *inquiry = calloc(1, sizeof(*inquiry) + n * sizeof(inquiry->parts[0]));
    if (inquiry == NULL)
        return BELFRY_ERR_NOMEM;
    inquiry->all = all;
    inquiry->fn = fn;
    inquiry->user = user;
    inquiry->asked_ms = now_ms;
    inquiry->since_ms = BELFRY_NEVER;
    inquiry->n = inquiry->n_waiting = n;
    all->n_ranges += n;
    BELFRY_OWNER_INIT(inquiry);
    err = inquiry_ask(inquiry, request, ranges, now_ms);
    if (err != BELFRY_OK) {
        inquiry_free(inquiry);
        return err;
    }
    *out = inquiry;
    return BELFRY_OK;
}

void inquiry_cancel(struct inquiry *inquiry)
{
    if (inquiry == NULL)
        return;
    BELFRY_OWNER_CHECK(inquiry);
    inquiry_free(inquiry);
}
