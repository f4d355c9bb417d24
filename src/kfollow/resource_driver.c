/* src/kfollow/resource_driver.c */
#include "kfollow/resource_driver.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/owner.h"
#include "follow/ingest.h"
#include "kapi/kube_client.h"
#include "kapi/kube_request.h"

#define ANSWER_MS        5000  /* until a watch or a list begins */
#define LIST_MS          20000 /* a server waits for its cache before it answers a list */
#define PAGE             500   /* objects, of a list that reads etcd */
#define HTTP_BAD_REQUEST 400
#define HTTP_INVALID     422 /* Unprocessable Entity: a parameter is forbidden */
#define PROBE_NAME       "belfry-probe"
#define PROBE_NS         "default"
#define TRIM_ROWS        1000

/* A request of the machine. */
struct driver_call {
    struct belfry_list node; /* in driver.calls */
    struct resource_driver *d;
    uint64_t id;
    enum resource_want want;
    bool is_initial;
    unsigned server;
    uint64_t link;                       /* of its first page */
    bool is_torn;                        /* another page came on another link */
    struct belfry_kube_request *request; /* NULL: it is over, or it will be when its hook returns */
    struct belfry_decoded kept;          /* was not taken: with a reference to its object */
    bool is_kept;
};

struct resource_driver {
    /* fixed */
    struct resource_driver_opts opts;
    resource_driver_fn changed;
    void *user;
    struct belfry_target target; /* its texts are in `texts` */
    char *texts;                 /* owned */
    /* owner */
    struct ingest *ingest;
    struct resource_follow *follow;
    struct belfry_list calls;
    struct belfry_list proofs; /* that wait, in the order of their numbers */
    struct belfry_timer timer; /* for the machine: never from inside a hook of a request */
    struct belfry_kube_user of_kube;
    bool is_closed;
    char failed[256];
    int failed_code;
    struct { /* when `changed` was last called */
        int64_t version;
        uint64_t past;
        bool is_ready, is_stale;
    } told;
    BELFRY_OWNER;
};

static struct belfry *driver_session(const struct resource_driver *d)
{
    return d->opts.servers[0]->b;
}

static void driver_arm(struct resource_driver *d, uint64_t at_ms)
{
    if (!d->is_closed)
        belfry_session_set_timer(driver_session(d), &d->timer, at_ms);
}

/* The machine has something new to want. */
static void driver_wake(struct resource_driver *d)
{
    driver_arm(d, belfry_clock_ms());
}

/* ---- calls ---- */

static void call_drop_kept(struct driver_call *call)
{
    if (call->is_kept)
        belfry_object_unref(call->kept.object);
    call->is_kept = false;
}

static void driver_free_if_closed(struct resource_driver *d)
{
    if (!d->is_closed || !belfry_list_empty(&d->calls))
        return;
    free(d->texts);
    free(d);
}

/* No hook of it is on the stack. */
static void on_call_gone(void *user)
{
    struct driver_call *call = user;
    struct resource_driver *d = call->d;
    call_drop_kept(call);
    belfry_list_remove(&call->node);
    free(call);
    driver_free_if_closed(d);
}

static void call_cancel(struct driver_call *call)
{
    struct belfry_kube_request *request = call->request;
    call->request = NULL;
    if (request != NULL)
        belfry_kube_cancel(request); /* on_call_gone() frees the call */
}

static struct driver_call *call_find(struct resource_driver *d, uint64_t id)
{
    belfry_list_each (node, &d->calls) {
        struct driver_call *call = belfry_container(node, struct driver_call, node);
        if (call->id == id && call->request != NULL)
            return call;
    }
    return NULL;
}

static void call_failed(struct driver_call *call, int code, const char *why, enum resource_end end)
{
    struct resource_driver *d = call->d;
    bool is_expected = end == RESOURCE_REFUSED && call->is_initial; /* it is listed instead */
    if (end == RESOURCE_FAILED || (end == RESOURCE_REFUSED && !is_expected)) {
        snprintf(d->failed, sizeof(d->failed), "%s", why);
        d->failed_code = code;
        belfry_logf(d->opts.log, BELFRY_LOG_DEBUG, "resource_request", "resource=%s server=%u why=\"%.300s\"",
                    d->opts.plural, call->server, why);
    }
    resource_on_end(d->follow, call->id, end, belfry_clock_ms());
    driver_wake(d);
}

/* ---- what comes ---- */

static bool object_of(const struct belfry_decoded *decoded, struct resource_object *out)
{
    const struct belfry_object *object = decoded->object;
    *out = (struct resource_object){
        .key = belfry_object_key(object), .uid = belfry_object_uid(object), .json = belfry_object_value(object)};
    return resource_rv_read(belfry_object_version(object), &out->rv);
}

/* Gives an event, a bookmark or an item to the machine. False: not taken. */
static bool call_give(struct driver_call *call, const struct belfry_decoded *decoded, bool *out_is_odd)
{
    struct resource_follow *follow = call->d->follow;
    struct resource_object object;
    uint64_t now = belfry_clock_ms();
    int64_t rv;
    *out_is_odd = false;
    switch (decoded->kind) {
    case BELFRY_DECODED_ITEM:
    case BELFRY_DECODED_ADDED:
    case BELFRY_DECODED_MODIFIED:
    case BELFRY_DECODED_DELETED:
        if (!object_of(decoded, &object))
            break;
        if (decoded->kind == BELFRY_DECODED_ITEM && call->want != RESOURCE_WANT_PROBE)
            resource_on_item(follow, call->id, &object, call->link, now);
        if (decoded->kind == BELFRY_DECODED_ITEM)
            return true;
        return resource_on_event(follow, call->id,
                                 decoded->kind == BELFRY_DECODED_ADDED      ? RESOURCE_ADDED
                                 : decoded->kind == BELFRY_DECODED_MODIFIED ? RESOURCE_MODIFIED
                                                                            : RESOURCE_DELETED,
                                 &object, now);
    case BELFRY_DECODED_BOOKMARK:
        if (!resource_rv_read(belfry_bytes_str(decoded->version), &rv))
            break;
        if (!decoded->initial_end)
            return resource_on_bookmark(follow, call->id, rv, now);
        resource_on_initial_end(follow, call->id, rv, now);
        return true;
    case BELFRY_DECODED_ERROR:
    case BELFRY_DECODED_PAGE:
        return true; /* the end says it */
    case BELFRY_DECODED_UNREADABLE:
        break;
    }
    *out_is_odd = true;
    return true;
}

static enum belfry_next on_call_decoded(struct belfry_kube_request *request, const struct belfry_decoded *decoded,
                                        void *user)
{
    struct driver_call *call = user;
    bool is_odd;
    (void)request;
    if (call->request == NULL)
        return BELFRY_STOP;
    bool taken = call_give(call, decoded, &is_odd);
    driver_wake(call->d);
    if (is_odd) {
        call->request = NULL;
        call_failed(call, 0, "an object or a bookmark has no name or no version that is a number", RESOURCE_FAILED);
        return BELFRY_STOP;
    }
    if (taken)
        return BELFRY_MORE;
    call->kept = *decoded;
    if (decoded->object != NULL)
        belfry_object_ref(decoded->object);
    call->is_kept = true;
    return BELFRY_PAUSE;
}

/* The pages of a list are not of one version: it begins again later. */
static enum belfry_next on_call_restart(struct belfry_kube_request *request, void *user)
{
    struct driver_call *call = user;
    (void)request;
    call->request = NULL;
    call_failed(call, 0, "a list expired between two pages", RESOURCE_FAILED);
    return BELFRY_STOP;
}

static void on_call_opened(struct belfry_kube_request *request, void *user)
{
    struct driver_call *call = user;
    uint64_t link = belfry_request_link(request);
    call->is_torn = call->is_torn || (call->link != 0 && link != call->link);
    call->link = call->link != 0 ? call->link : link;
    if (call->want != RESOURCE_WANT_WATCH)
        return;
    resource_on_opened(call->d->follow, call->id, call->link, belfry_clock_ms());
    driver_wake(call->d);
}

static void on_call_retrying(struct belfry_kube_request *request, const struct belfry_failure *failure, void *user)
{
    struct driver_call *call = user;
    (void)request;
    if (call->request == NULL)
        return;
    call_failed(call, failure->code, failure->why, RESOURCE_FAILED);
    call_cancel(call);
}

static void call_listed(struct driver_call *call, const char *version)
{
    struct resource_driver *d = call->d;
    int64_t rv;
    if (!resource_rv_read(belfry_bytes_str(version), &rv))
        call_failed(call, 0, "a list has no version that is a number", RESOURCE_FAILED);
    else if (call->want == RESOURCE_WANT_LIST && call->is_torn)
        call_failed(call, 0, "a connection was lost during a list", RESOURCE_FAILED);
    else
        resource_on_listed(d->follow, call->id, rv, call->link, belfry_clock_ms());
    driver_wake(d);
}

static void on_call_ended(struct belfry_kube_request *request, const struct belfry_ended *ended, void *user)
{
    struct driver_call *call = user;
    const struct belfry_failure *failure = ended->failure;
    (void)request;
    if (call->request == NULL || call->d->is_closed)
        return;
    call->request = NULL;
    bool is_refused = failure->code == HTTP_BAD_REQUEST || failure->code == HTTP_INVALID;
    if (failure->err == BELFRY_OK && call->want != RESOURCE_WANT_WATCH)
        call_listed(call, ended->version);
    else
        call_failed(call, failure->code, failure->why,
                    failure->err == BELFRY_OK ? RESOURCE_ENDED
                    : failure->expired        ? RESOURCE_EXPIRED
                    : is_refused              ? RESOURCE_REFUSED
                                              : RESOURCE_FAILED);
}

static const struct belfry_request_hooks hooks = {.decoded = on_call_decoded,
                                                  .restart = on_call_restart,
                                                  .opened = on_call_opened,
                                                  .retrying = on_call_retrying,
                                                  .ended = on_call_ended,
                                                  .gone = on_call_gone};

/* ---- what is wanted ---- */

static struct belfry_request_ask ask_of(const struct resource_driver *d, const struct resource_action *action,
                                        char version[24])
{
    struct belfry_request_ask ask = {.mode = BELFRY_DECODE_LIST,
                                     .target = d->target,
                                     .timeout_ms = ANSWER_MS,
                                     .bounded = true,
                                     .link = action->link};
    snprintf(version, 24, "%" PRId64, action->rv);
    ask.target.base = d->opts.servers[action->server]->settings.base;
    ask.target.version = version;
    switch (action->want) {
    case RESOURCE_WANT_WATCH:
        ask.mode = BELFRY_DECODE_WATCH;
        ask.target.watch = ask.target.bookmarks = true;
        ask.target.timeout_s = action->timeout_s;
        ask.target.send_initial = action->is_initial;
        ask.target.version_match = action->is_initial ? "NotOlderThan" : NULL;
        break;
    case RESOURCE_WANT_LIST:
        ask.timeout_ms = LIST_MS;
        if (action->rv == RESOURCE_CONSISTENT) {
            ask.target.version = "";
            ask.target.limit = PAGE;
        }
        break;
    case RESOURCE_WANT_VERSIONS:
        ask.timeout_ms = LIST_MS;
        ask.target.version = "";
        ask.target.limit = PAGE;
        ask.metadata_only = true;
        break;
    case RESOURCE_WANT_PROBE:
        ask.target.version = "";
        ask.target.ns = d->opts.is_namespaced ? PROBE_NS : NULL;
        ask.target.field_selector = "metadata.name=" PROBE_NAME;
        ask.metadata_only = true;
        break;
    case RESOURCE_WANT_ANSWER:
    case RESOURCE_WANT_CANCEL:
    case RESOURCE_WANT_RESUME:
        break;
    }
    return ask;
}

static void call_open(struct resource_driver *d, const struct resource_action *action)
{
    char version[24];
    struct driver_call *call = calloc(1, sizeof(*call));
    if (call == NULL) {
        resource_on_end(d->follow, action->id, RESOURCE_FAILED, belfry_clock_ms());
        return;
    }
    call->d = d;
    call->id = action->id;
    call->want = action->want;
    call->is_initial = action->is_initial;
    call->server = action->server;
    belfry_list_append(&d->calls, &call->node);
    struct belfry_request_ask ask = ask_of(d, action, version);
    enum belfry_err err = belfry_request_open(d->opts.servers[action->server], &ask, &hooks, call, &call->request);
    if (err == BELFRY_OK)
        return;
    belfry_list_remove(&call->node);
    free(call);
    resource_on_end(d->follow, action->id, RESOURCE_FAILED, belfry_clock_ms());
}

/* Offers again what was not taken, and goes on if it is. */
static void call_resume(struct driver_call *call)
{
    bool is_odd;
    if (!call->is_kept)
        return;
    struct belfry_decoded kept = call->kept;
    call->is_kept = false;
    if (call_give(call, &kept, &is_odd)) {
        belfry_object_unref(kept.object);
        belfry_kube_resume(call->request);
    } else {
        call->kept = kept;
        call->is_kept = true;
    }
}

/* An answer may cancel other questions, or ask again: both change the list. */
static void driver_answer(struct resource_driver *d, uint64_t number, int64_t rv)
{
    while (!belfry_list_empty(&d->proofs)) {
        struct resource_proof *proof = belfry_container(d->proofs.next, struct resource_proof, node);
        if (proof->number > number)
            break;
        resource_proof_cancel(proof);
        proof->fn(proof, rv);
    }
}

static void driver_act(struct resource_driver *d)
{
    struct resource_action action;
    while (resource_next(d->follow, belfry_clock_ms(), &action)) {
        struct driver_call *call = call_find(d, action.id);
        switch (action.want) {
        case RESOURCE_WANT_WATCH:
        case RESOURCE_WANT_LIST:
        case RESOURCE_WANT_PROBE:
        case RESOURCE_WANT_VERSIONS:
            call_open(d, &action);
            break;
        case RESOURCE_WANT_ANSWER:
            driver_answer(d, action.id, action.rv);
            break;
        case RESOURCE_WANT_CANCEL:
            if (call != NULL)
                call_cancel(call);
            break;
        case RESOURCE_WANT_RESUME:
            if (call != NULL)
                call_resume(call);
            break;
        }
    }
}

/* ---- turns ---- */

static void driver_tell(struct resource_driver *d)
{
    bool is_ready = resource_ready(d->follow), is_stale = resource_stale(d->follow);
    int64_t version = ingest_head(d->ingest);
    uint64_t past = ingest_past(d->ingest);
    if (version == d->told.version && past == d->told.past && is_ready == d->told.is_ready &&
        is_stale == d->told.is_stale)
        return;
    if (is_ready && !d->told.is_ready)
        belfry_logf(d->opts.log, BELFRY_LOG_INFO, "resource_live", "resource=%s version=%" PRId64 " server=%s",
                    d->opts.plural, version, belfry_kube_server(d->opts.servers[resource_server(d->follow)]));
    if (is_stale && !d->told.is_stale)
        belfry_logf(d->opts.log, BELFRY_LOG_WARN, "resource_stale", "resource=%s version=%" PRId64 " why=\"%s\"",
                    d->opts.plural, version, d->failed);
    d->told.version = version;
    d->told.past = past;
    d->told.is_ready = is_ready;
    d->told.is_stale = is_stale;
    d->changed(d->user);
}

static void on_driver_timer(struct belfry_timer *timer)
{
    struct resource_driver *d = belfry_container(timer, struct resource_driver, timer);
    uint64_t now = belfry_clock_ms();
    if (now >= resource_due(d->follow))
        resource_tick(d->follow, now);
    driver_act(d);
    driver_tell(d);
    driver_arm(d, resource_due(d->follow));
}

/* ---- opening and closing ---- */

static void on_driver_kube_closing(struct belfry_kube_user *user)
{
    (void)user;
    assert(!"the driver is closed before its clients");
}

static enum belfry_err open_target(struct resource_driver *d)
{
    struct belfry_buf written = {0}; /* reports an invalid name now */
    d->target = (struct belfry_target){.base = "", .group_version = d->opts.group_version, .plural = d->opts.plural};
    enum belfry_err err = belfry_target_keep(&d->target, &d->texts);
    if (err == BELFRY_OK)
        err = belfry_target_write(&d->target, &written);
    belfry_buf_fini(&written);
    return err;
}

static enum belfry_err open_machine(struct resource_driver *d)
{
    bool warm;
    struct ingest_opts ingest = {
        .store = d->opts.store, .evlog = d->opts.evlog, .trim_rows = TRIM_ROWS, .log = d->opts.log};
    enum belfry_err err = ingest_create(&ingest, &d->ingest);
    if (err == BELFRY_OK)
        err = ingest_open(d->ingest, &warm);
    if (err != BELFRY_OK)
        return err;
    struct resource_follow_opts follow = {.ingest = d->ingest,
                                          .store = d->opts.store,
                                          .warm = warm,
                                          .n_servers = d->opts.n_servers,
                                          .watch_s = d->opts.watch_s,
                                          .no_initial = d->opts.no_initial,
                                          .has_leases = strcmp(d->opts.plural, "events") == 0,
                                          .seed = d->opts.seed,
                                          .hash_key = belfry_hash_key_draw(),
                                          .pulse = d->opts.pulse,
                                          .log = d->opts.log};
    return resource_follow_create(&follow, belfry_clock_ms(), &d->follow);
}

enum belfry_err resource_driver_open(const struct resource_driver_opts *opts, resource_driver_fn changed, void *user,
                                     struct resource_driver **out)
{
    struct resource_driver *d = calloc(1, sizeof(*d));
    if (d == NULL)
        return BELFRY_ERR_NOMEM;
    d->opts = *opts;
    d->changed = changed;
    d->user = user;
    belfry_list_init(&d->calls);
    belfry_list_init(&d->proofs);
    belfry_list_init(&d->of_kube.node);
    belfry_timer_init(&d->timer, on_driver_timer);
    BELFRY_OWNER_INIT(d);
    enum belfry_err err = open_target(d);
    if (err == BELFRY_OK)
        err = open_machine(d);
    if (err != BELFRY_OK) {
        resource_driver_close(d);
        return err;
    }
    d->of_kube.closing = on_driver_kube_closing;
    belfry_list_append(&opts->servers[0]->users, &d->of_kube.node);
    driver_wake(d);
    *out = d;
    return BELFRY_OK;
}

void resource_driver_close(struct resource_driver *driver)
{
    if (driver == NULL)
        return;
    BELFRY_OWNER_CHECK(driver);
    struct resource_driver *d = driver;
    belfry_session_set_timer(driver_session(d), &d->timer, BELFRY_NEVER);
    belfry_list_remove(&d->of_kube.node);
    if (d->follow != NULL)
        resource_drained(d->follow, belfry_clock_ms());
    resource_follow_destroy(d->follow);
    ingest_destroy(d->ingest);
    d->is_closed = true;
    driver_answer(d, UINT64_MAX, 0);
    if (belfry_list_empty(&d->calls)) {
        driver_free_if_closed(d);
        return;
    }
    belfry_list_each_safe (node, &d->calls) {
        struct driver_call *call = belfry_container(node, struct driver_call, node);
        bool is_last = d->calls.next == d->calls.prev;
        call_cancel(call);
        if (is_last)
            return;
    }
}

void resource_driver_prove(struct resource_driver *driver, struct resource_proof *proof)
{
    BELFRY_OWNER_CHECK(driver);
    proof->number = resource_prove(driver->follow, proof->n > 0 ? proof->n : 1, belfry_clock_ms());
    belfry_list_append(&driver->proofs, &proof->node);
    driver_wake(driver);
}

void resource_proof_cancel(struct resource_proof *proof)
{
    belfry_list_remove(&proof->node);
}

void resource_driver_status(const struct resource_driver *driver, struct resource_driver_status *out)
{
    *out = (struct resource_driver_status){.state = resource_state(driver->follow),
                                           .is_ready = resource_ready(driver->follow),
                                           .is_stale = resource_stale(driver->follow),
                                           .version = ingest_head(driver->ingest),
                                           .committed = ingest_committed(driver->ingest),
                                           .past = ingest_past(driver->ingest),
                                           .server = resource_server(driver->follow),
                                           .why = resource_why(driver->follow),
                                           .failed_code = driver->failed_code};
    memcpy(out->failed, driver->failed, sizeof(out->failed));
    resource_stats(driver->follow, &out->stats);
}
