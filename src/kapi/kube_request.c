/* src/kapi/kube_request.c */
#include "kapi/kube_request.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/owner.h"
#include "kapi/kube_client.h"

#define GRACE_MS 30000 /* end a watch that the server did not end this long after its timeout */

enum request_state { REQUEST_RESTING, REQUEST_SENT, REQUEST_REFUSAL, REQUEST_BODY };

struct belfry_kube_request {
    struct belfry_list node; /* in kube.requests */
    struct belfry_kube *k;
    /* fixed */
    const struct belfry_request_hooks *hooks;
    void *user;
    enum belfry_decoder_mode mode;
    bool metadata_only;
    uint32_t timeout_ms;
    bool bounded;                /* timeout_ms is for all tries together, not per try */
    uint64_t link;               /* to prefer: as was asked for, then that of the page before */
    struct belfry_target target; /* its texts are in `texts`, except continue_with */
    char *texts;                 /* owned */
    /* owner */
    enum request_state state;
    struct belfry_api_call *call;   /* NULL: none */
    struct belfry_buf url;          /* of the call: path and query */
    struct belfry_decoder *decoder; /* BODY only */
    struct belfry_buf refusal;      /* REFUSAL only: the body so far */
    int status;
    char retry_after[24];
    struct belfry_retry retry;
    struct belfry_timer timer;    /* RESTING: send_ms; otherwise the idle timeout; paused: to resume */
    uint64_t send_ms;             /* RESTING: when to send */
    uint64_t deadline_ms;         /* of the current object, page or watch, including retries; BELFRY_NEVER: none */
    uint64_t paused_ms;           /* when the pause began */
    uint64_t token_reads;         /* the bearer's counter when it was sent */
    struct belfry_kube_page page; /* of the list, after its envelope */
    bool paged;                   /* page is set */
    bool whole;                   /* the list expired between two pages and was requested again in one page */
    bool retoken;                 /* it was sent again with a new token */
    bool errored;                 /* an ERROR was reported: the end is next */
    bool paused, resuming, gone;
    unsigned depth; /* hooks on the stack: freed when the last has returned */
    struct belfry_failure failure;
    char *first_why;  /* owned: why the first try failed; NULL: none has, or no memory */
    unsigned n_again; /* tries after the first */
};

/* ---- ending ---- */

static void close_call(struct belfry_kube_request *r)
{
    struct belfry_api_call *call = r->call;
    r->call = NULL;
    if (call != NULL)
        belfry_api_call_cancel(call);
    belfry_decoder_destroy(r->decoder);
    r->decoder = NULL;
    belfry_buf_fini(&r->refusal);
}

/* Removes everything that could still call back. */
static void request_unhook(struct belfry_kube_request *r)
{
    if (r->gone)
        return;
    r->gone = true;
    close_call(r);
    belfry_session_set_timer(r->k->b, &r->timer, BELFRY_NEVER);
    belfry_list_remove(&r->node);
    r->k->n_requests--;
    r->k->b->n_busy--;
}

static void free_if_gone(struct belfry_kube_request *r)
{
    if (!r->gone || r->depth > 0)
        return;
    if (r->hooks->gone != NULL)
        r->hooks->gone(r->user);
    belfry_kube_page_fini(&r->page);
    belfry_buf_fini(&r->url);
    free(r->first_why);
    free(r->texts);
    free(r);
}

/* Before the next page or watch: it has had no try yet. */
static void forget_tries(struct belfry_kube_request *r)
{
    belfry_retry_init(&r->retry);
    free(r->first_why);
    r->first_why = NULL;
    r->n_again = 0;
}

static void request_end(struct belfry_kube_request *r, enum belfry_broke broke)
{
    struct belfry_ended ended = {.failure = &r->failure, .broke = broke, .version = r->paged ? r->page.version : ""};
    if (r->failure.err != BELFRY_OK && r->first_why != NULL)
        belfry_failure_add_first(&r->failure, r->first_why, r->n_again + 1);
    request_unhook(r);
    r->depth++;
    r->hooks->ended(r, &ended, r->user);
    r->depth--;
}

struct belfry_kube_request *belfry_request_of_node(struct belfry_list *node)
{
    return belfry_container(node, struct belfry_kube_request, node);
}

void belfry_request_end(struct belfry_kube_request *r, enum belfry_err err, const char *why)
{
    belfry_failure_set(&r->failure, err, "%s", why);
    r->depth++;
    request_end(r, BELFRY_BROKE_NOT);
    r->depth--;
    free_if_gone(r);
}

static void end_nomem(struct belfry_kube_request *r)
{
    belfry_failure_set(&r->failure, BELFRY_ERR_NOMEM, "%s", belfry_strerror(BELFRY_ERR_NOMEM));
    request_end(r, BELFRY_BROKE_NOT);
}

/* ---- sending ---- */

static const struct belfry_api_events api_events;

static void request_arm(struct belfry_kube_request *r)
{
    uint64_t due = BELFRY_NEVER;
    if (!r->paused) {
        /* The longest time without a byte in this state; 0: no limit. */
        uint64_t idle_ms = r->timeout_ms;
        if (r->mode == BELFRY_DECODE_WATCH && r->state == REQUEST_BODY)
            idle_ms = r->target.timeout_s > 0 ? (uint64_t)r->target.timeout_s * 1000 + GRACE_MS : 0;
        if (idle_ms > 0)
            due = belfry_clock_ms() + idle_ms;
        /* A get must be over by its deadline; a page of a list and a watch must have begun. */
        if (r->state != REQUEST_BODY || r->mode == BELFRY_DECODE_OBJECT)
            due = belfry_min_time(due, r->deadline_ms);
    }
    belfry_session_set_timer(r->k->b, &r->timer, due);
}

/* Sets the deadline for a new object, page or watch; a retry keeps the old one. */
static void set_deadline(struct belfry_kube_request *r)
{
    r->deadline_ms = r->bounded ? belfry_clock_ms() + r->timeout_ms : BELFRY_NEVER;
}

static void request_rest(struct belfry_kube_request *r, uint32_t wait_ms)
{
    close_call(r);
    r->state = REQUEST_RESTING;
    r->send_ms = belfry_clock_ms() + wait_ms;
    belfry_session_set_timer(r->k->b, &r->timer, r->send_ms);
}

static void send_it(struct belfry_kube_request *r)
{
    struct belfry_target target = r->target;
    target.continue_with = r->paged ? r->page.continue_with : NULL;
    if (target.continue_with != NULL)
        target.version = target.version_match = NULL; /* the token contains them */
    belfry_buf_clear(&r->url);
    enum belfry_err err = belfry_target_write(&target, &r->url);
    if (err == BELFRY_OK)
        err = belfry_api_call_open(r->k->calls,
                                   &(struct belfry_api_ask){.target = belfry_buf_bytes(&r->url).data,
                                                            .is_watch = r->mode == BELFRY_DECODE_WATCH,
                                                            .link = r->link},
                                   &api_events, r, &r->call);
    if (err != BELFRY_OK) {
        end_nomem(r); /* only memory can fail: the target was written before */
        return;
    }
    r->state = REQUEST_SENT;
    request_arm(r);
}

/* Handles a failure: sends the request again if the rules allow it, else ends it. */
static void request_fail(struct belfry_kube_request *r, enum belfry_broke broke)
{
    uint32_t wait_ms;
    /* Only the header says when to come back; a Status' value is only reported. */
    bool was_told_when = r->retry_after[0] != '\0' && r->retry_after[strspn(r->retry_after, "0123456789")] == '\0';
    bool open = r->state != REQUEST_BODY && (broke != BELFRY_BROKE_NOT || was_told_when);
    if (!open || !belfry_retry_again(&r->retry, &r->failure, broke, &r->k->b->rng, &wait_ms) ||
        belfry_clock_ms() + wait_ms >= r->deadline_ms) { /* the next try would be too late */
        request_end(r, broke);
        return;
    }

    r->k->stats.retries++;
    r->n_again++;
    if (r->first_why == NULL)
        r->first_why = strdup(r->failure.why); /* without memory, only the last failure is reported */
    belfry_logf(&r->k->b->log, BELFRY_LOG_INFO, "kube_retry", "target=%s wait_ms=%u why=\"%s\"",
                belfry_buf_bytes(&r->url).data, (unsigned)wait_ms, r->failure.why);
    request_rest(r, wait_ms);
    if (r->hooks->retrying != NULL)
        r->hooks->retrying(r, &r->failure, r->user);
}

/* A list expired between two pages: request it again, in one page, at the version that was first requested. */
static bool begin_anew(struct belfry_kube_request *r)
{
    if (r->mode != BELFRY_DECODE_LIST || !r->failure.expired || !r->paged || r->whole)
        return false;
    belfry_kube_page_fini(&r->page);
    r->paged = false;
    r->whole = true;
    r->target.limit = 0;
    forget_tries(r);
    set_deadline(r);
    r->depth++;
    enum belfry_next next = r->hooks->restart(r, r->user);
    r->depth--;
    if (r->gone)
        return true;
    if (next == BELFRY_STOP) {
        request_unhook(r);
        return true;
    }
    request_rest(r, 0);
    if (next == BELFRY_PAUSE)
        belfry_request_pause(r);
    return true;
}

/* The server answered 401: if the token file now has another token, send the request again immediately. */
static bool try_new_token(struct belfry_kube_request *r)
{
    if (r->status != 401 || r->retoken)
        return false;
    belfry_bearer_refused(&r->k->bearer);
    belfry_bearer_field(&r->k->bearer, belfry_clock_ms(), &r->k->b->log);
    if (r->k->bearer.reads == r->token_reads)
        return false;
    r->retoken = true;
    request_rest(r, 0);
    return true;
}

/* ---- the answer ---- */

static void note_failure(struct belfry_kube_request *r, const struct belfry_decoded *decoded)
{
    if (decoded->failure == NULL)
        return;
    r->k->stats.decode_errors += decoded->failure->err == BELFRY_ERR_PROTOCOL;
    r->errored = decoded->kind == BELFRY_DECODED_ERROR;
    if (r->errored)
        r->failure = *decoded->failure;
    else if (belfry_log_is_due(r->k->stats.decode_errors))
        belfry_logf(&r->k->b->log, BELFRY_LOG_WARN, "kube_unreadable", "target=%s why=\"%s\"",
                    belfry_buf_bytes(&r->url).data, decoded->failure->why);
}

/* Reports decoded results until the decoder needs more, or the request pauses or ends. */
static void request_decode(struct belfry_kube_request *r)
{
    struct belfry_decoded decoded;
    while (!r->gone && !r->paused && r->decoder != NULL) {
        if (r->errored) {
            request_end(r, BELFRY_BROKE_NOT);
            return;
        }
        enum belfry_err err = belfry_decoder_next(r->decoder, &decoded);
        if (err == BELFRY_ERR_AGAIN)
            return;
        if (err != BELFRY_OK) {
            end_nomem(r);
            return;
        }
        if (decoded.kind == BELFRY_DECODED_PAGE) {
            belfry_kube_page_fini(&r->page);
            r->page = decoded.page;
            r->paged = true;
            return;
        }
        note_failure(r, &decoded);
        r->k->stats.events++;
        r->depth++;
        enum belfry_next next = r->hooks->decoded(r, &decoded, r->user);
        r->depth--;
        belfry_object_unref(decoded.object);
        if (r->gone)
            return;
        if (next == BELFRY_STOP)
            request_unhook(r);
        else if (next == BELFRY_PAUSE)
            belfry_request_pause(r);
    }
}

static size_t on_fields(struct belfry_http_field out[BELFRY_API_FIELDS], void *user)
{
    struct belfry_kube_request *r = user;
    const char *accept = "application/json";
    if (r->metadata_only)
        accept = r->mode == BELFRY_DECODE_LIST
                     ? "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
                     : "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
    out[0] = (struct belfry_http_field){belfry_bytes_str("accept"), belfry_bytes_str(accept)};
    const char *token = belfry_bearer_field(&r->k->bearer, belfry_clock_ms(), &r->k->b->log);
    r->token_reads = r->k->bearer.reads;
    if (token == NULL)
        return 1;
    out[1] = (struct belfry_http_field){belfry_bytes_str("authorization"), belfry_bytes_str(token)};
    return 2;
}

static void tell_warning(struct belfry_kube_request *r, const struct belfry_warning *warning)
{
    struct belfry_kube *k = r->k;
    const char *target = belfry_buf_bytes(&r->url).data;
    k->stats.warnings++;
    if (!belfry_warnings_add(&k->warnings, warning->text))
        return;
    belfry_logf(&k->b->log, BELFRY_LOG_WARN, "kube_warning", "target=%s code=%d said=\"%s\"", target, warning->code,
                warning->text);
    struct belfry_kube_warning told = {.code = warning->code, .text = warning->text, .target = target};
    if (k->warning_fn != NULL)
        k->warning_fn(k, &told, k->warning_user);
}

/* The hook may cancel the request; the rest is then dropped. */
static void tell_warnings(struct belfry_kube_request *r, const struct belfry_fetch_head *head)
{
    struct belfry_warning warning;
    for (size_t i = 0; i < head->n_fields && !r->gone; i++) {
        struct belfry_bytes field = head->fields[i].value;
        if (!belfry_bytes_equal(head->fields[i].name, belfry_bytes_str("warning")))
            continue;
        while (!r->gone && belfry_warning_next(&field, &warning))
            tell_warning(r, &warning);
    }
}

static void begin_body(struct belfry_kube_request *r, const struct belfry_fetch_head *head)
{
    enum belfry_err err =
        belfry_decoder_create(r->mode, belfry_fetch_find(head, "content-type"), r->k->max_bytes, &r->decoder);
    r->state = REQUEST_BODY;
    r->link = belfry_api_call_link(r->call);
    request_arm(r);
    if (r->mode == BELFRY_DECODE_WATCH)
        forget_tries(r); /* it may end much later, and for another reason */
    if (err != BELFRY_OK)
        end_nomem(r);
    else if (r->hooks->opened != NULL)
        r->hooks->opened(r, r->user);
    request_decode(r); /* an unsupported content type is an error immediately */
}

static void on_call_head(const struct belfry_fetch_head *head, void *user)
{
    struct belfry_kube_request *r = user;
    r->depth++;
    r->status = head->status;
    tell_warnings(r, head);
    if (!r->gone && head->status == 200) {
        begin_body(r, head);
    } else if (!r->gone) {
        struct belfry_bytes after = belfry_fetch_find(head, "retry-after");
        size_t len = after.len < sizeof(r->retry_after) ? after.len : 0;
        memcpy(r->retry_after, len > 0 ? after.data : "", len);
        r->retry_after[len] = '\0';
        r->state = REQUEST_REFUSAL;
        request_arm(r);
    }
    r->depth--;
    free_if_gone(r);
}

static void finish_refusal(struct belfry_kube_request *r)
{
    belfry_failure_of_answer(&r->failure, r->status, belfry_bytes_str(r->retry_after), belfry_buf_bytes(&r->refusal));
    if (!try_new_token(r) && !begin_anew(r))
        request_fail(r, BELFRY_BROKE_NOT);
}

static void on_call_body(struct belfry_bytes bytes, void *user)
{
    struct belfry_kube_request *r = user;
    r->depth++;
    if (r->mode != BELFRY_DECODE_WATCH)
        request_arm(r);
    if (r->state == REQUEST_REFUSAL) { /* the reason is at the beginning: stop reading a body that is too long */
        size_t room = BELFRY_FAILURE_BODY - belfry_buf_len(&r->refusal);
        if (belfry_buf_append(&r->refusal, bytes.data, bytes.len < room ? bytes.len : room) != BELFRY_OK)
            end_nomem(r);
        else if (bytes.len >= room)
            finish_refusal(r);
    } else if (belfry_decoder_feed(r->decoder, bytes) != BELFRY_OK) {
        end_nomem(r);
    } else {
        request_decode(r);
    }
    r->depth--;
    free_if_gone(r);
}

static void finish_body(struct belfry_kube_request *r)
{
    if (!belfry_decoder_complete(r->decoder)) {
        belfry_failure_set(&r->failure, BELFRY_ERR_UNAVAILABLE, "%s", "the answer ended in the middle of an object");
        request_end(r, BELFRY_BROKE_OFF);
    } else if (r->paged && r->page.continue_with != NULL) {
        forget_tries(r);
        set_deadline(r);
        request_rest(r, 0);
    } else {
        belfry_failure_set(&r->failure, BELFRY_OK, "%s",
                           r->mode == BELFRY_DECODE_WATCH ? "the server ended the watch" : "complete");
        request_end(r, BELFRY_BROKE_NOT);
    }
}

static void on_call_end(void *user)
{
    struct belfry_kube_request *r = user;
    r->depth++;
    r->call = NULL;
    if (r->state == REQUEST_REFUSAL)
        finish_refusal(r);
    else
        finish_body(r);
    r->depth--;
    free_if_gone(r);
}

static void on_call_failed(enum belfry_err err, const char *why, enum belfry_broke broke, void *user)
{
    struct belfry_kube_request *r = user;
    r->depth++;
    r->call = NULL;
    if (r->state == REQUEST_REFUSAL) { /* the head is enough */
        finish_refusal(r);
    } else {
        belfry_failure_set(&r->failure, err, "%s: %s", r->k->settings.config.server, why);
        request_fail(r, broke);
    }
    r->depth--;
    free_if_gone(r);
}

static const struct belfry_api_events api_events = {
    .fields = on_fields, .head = on_call_head, .body = on_call_body, .end = on_call_end, .failed = on_call_failed};

/* ---- time ---- */

static void request_go_on(struct belfry_kube_request *r)
{
    r->resuming = false;
    r->paused = false;
    if (r->deadline_ms != BELFRY_NEVER)
        r->deadline_ms += belfry_clock_ms() - r->paused_ms; /* a pause does not count */
    request_decode(r);
    if (r->gone || r->paused)
        return;
    if (r->state == REQUEST_RESTING) { /* a pause must not make the retry earlier */
        belfry_session_set_timer(r->k->b, &r->timer, r->send_ms);
        return;
    }
    request_arm(r);
    if (r->call != NULL)
        belfry_api_call_hold(r->call, false);
}

static void time_out(struct belfry_kube_request *r)
{
    struct belfry_api_call *call = r->call;
    r->call = NULL;
    if (call != NULL)
        belfry_api_call_cancel(call);
    if (r->state == REQUEST_REFUSAL) { /* the head is enough */
        finish_refusal(r);
        return;
    }
    belfry_failure_set(&r->failure, BELFRY_ERR_TIMEOUT, "%s: %s", r->k->settings.config.server,
                       r->state == REQUEST_BODY ? "nothing more came in time" : "no answer came in time");
    request_fail(r, BELFRY_BROKE_OFF);
}

static void on_request_timer(struct belfry_timer *timer)
{
    struct belfry_kube_request *r = belfry_container(timer, struct belfry_kube_request, timer);
    r->depth++;
    if (r->resuming)
        request_go_on(r);
    else if (r->state == REQUEST_RESTING)
        send_it(r);
    else
        time_out(r);
    r->depth--;
    free_if_gone(r);
}

/* ---- from outside ---- */

enum belfry_err belfry_request_open(struct belfry_kube *k, const struct belfry_request_ask *ask,
                                    const struct belfry_request_hooks *hooks, void *user,
                                    struct belfry_kube_request **out)
{
    if (k->closing || k->b->closing)
        return BELFRY_ERR_CANCELED;
    if (k->n_requests >= BELFRY_KUBE_REQUESTS)
        return BELFRY_ERR_LIMIT;
    struct belfry_kube_request *r = calloc(1, sizeof(*r));
    if (r == NULL)
        return BELFRY_ERR_NOMEM;
    r->k = k;
    r->hooks = hooks;
    r->user = user;
    r->mode = ask->mode;
    r->metadata_only = ask->metadata_only;
    r->timeout_ms = ask->timeout_ms;
    r->bounded = ask->bounded;
    r->link = ask->link;
    set_deadline(r);
    belfry_list_init(&r->node);
    belfry_timer_init(&r->timer, on_request_timer);
    r->target = ask->target;
    enum belfry_err err = belfry_target_keep(&r->target, &r->texts);
    if (err == BELFRY_OK)
        err = belfry_target_write(&r->target, &r->url); /* reports an invalid target now */
    if (err != BELFRY_OK) {
        belfry_buf_fini(&r->url);
        free(r->texts);
        free(r);
        return err;
    }
    belfry_list_append(&k->requests, &r->node);
    k->n_requests++;
    k->b->n_busy++;
    belfry_session_set_timer(k->b, &r->timer, 0);
    *out = r;
    return BELFRY_OK;
}

uint64_t belfry_request_link(const struct belfry_kube_request *request)
{
    return request->link;
}

void belfry_request_pause(struct belfry_kube_request *r)
{
    if (r->gone || (r->paused && !r->resuming))
        return;
    if (!r->paused)
        r->paused_ms = belfry_clock_ms();
    r->paused = true;
    r->resuming = false;
    if (r->call != NULL)
        belfry_api_call_hold(r->call, true);
    request_arm(r);
}

void belfry_kube_resume(struct belfry_kube_request *r)
{
    if (r->gone || !r->paused || r->resuming)
        return;
    BELFRY_OWNER_ENTER(r->k->b);
    r->resuming = true;
    belfry_session_set_timer(r->k->b, &r->timer, 0);
}

void belfry_kube_cancel(struct belfry_kube_request *r)
{
    if (r == NULL || r->gone)
        return;
    BELFRY_OWNER_ENTER(r->k->b);
    request_unhook(r);
    free_if_gone(r);
}
