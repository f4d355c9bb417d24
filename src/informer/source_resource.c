/* src/informer/source_resource.c
 *
 * source_resource: an informer on a resource of a Kubernetes API server: the reflector chooses requests, this file
 * sends them and passes the results to the informer.
 */
#include <belfry/kube.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/owner.h"
#include "client/opts.h"
#include "informer/informer.h"
#include "informer/reflector.h"
#include "kapi/kube_client.h"
#include "kapi/kube_request.h"

#define WATCH_TIMEOUT_MS (5 * 60 * 1000)
#define TEXT_MAX         (2 * BELFRY_FAILURE_WHY + 64)

struct source_resource {
    /* fixed */
    struct belfry_kube *k;
    struct belfry_kube_user of_kube;
    const struct belfry_source_events *events;
    void *user;
    struct belfry_target target; /* its texts are in `texts` */
    char *texts;                 /* owned */
    bool metadata_only;
    /* owner */
    struct belfry_reflector *reflector;
    struct belfry_kube_request *request; /* in progress; NULL: none */
    struct belfry_timer timer;           /* for belfry_reflector_due() */
    bool paused, closed;
    unsigned depth;      /* events on the stack */
    char text[TEXT_MAX]; /* the last reported link text */
};

static void free_resource_if_closed(struct source_resource *s)
{
    if (!s->closed || s->depth > 0)
        return;
    belfry_reflector_destroy(s->reflector);
    free(s->texts);
    free(s);
}

/* ---- reporting ---- */

static void tell_link(struct source_resource *s, enum belfry_err err, const char *text)
{
    if (strcmp(s->text, text) == 0)
        return;
    snprintf(s->text, sizeof(s->text), "%s", text);
    s->events->link(err, s->text, s->user);
}

/* ---- requests ---- */

static void resource_arm(struct source_resource *s)
{
    if (!s->closed)
        belfry_session_set_timer(s->k->b, &s->timer, s->paused ? BELFRY_NEVER : belfry_reflector_due(s->reflector));
}

static enum belfry_next on_decoded(struct belfry_kube_request *request, const struct belfry_decoded *decoded,
                                   void *user)
{
    struct source_resource *s = user;
    (void)request;
    if (decoded->kind == BELFRY_DECODED_ERROR)
        return BELFRY_MORE; /* the end reports it */
    s->depth++;

    /* The version as the text that the reflector needs; it keeps its own if this one is too long. */
    char version[BELFRY_KUBE_VERSION_MAX + 1];
    struct belfry_bytes read =
        decoded->object != NULL ? belfry_object_version(decoded->object) : belfry_bytes_str(decoded->version);
    size_t len = read.len <= BELFRY_KUBE_VERSION_MAX ? read.len : 0;
    memcpy(version, len > 0 ? read.data : "", len);
    version[len] = '\0';

    if (decoded->object != NULL) {
        struct belfry_object *object = belfry_object_ref(decoded->object);
        if (decoded->kind == BELFRY_DECODED_DELETED)
            s->events->removed(belfry_object_key(object), object, false, s->user);
        else
            s->events->put(object, s->user);
    } else if (decoded->kind == BELFRY_DECODED_UNREADABLE) {
        s->events->undecoded(decoded->failure->why, s->user);
    }

    bool complete = false;
    if (!s->closed && decoded->kind == BELFRY_DECODED_ITEM)
        belfry_reflector_item(s->reflector);
    else if (!s->closed && decoded->kind != BELFRY_DECODED_UNREADABLE)
        complete =
            belfry_reflector_event(s->reflector, decoded->kind, version, decoded->initial_end, belfry_clock_ms());
    if (complete)
        s->events->synced(s->user);
    s->depth--;

    enum belfry_next next = s->closed ? BELFRY_STOP : s->paused ? BELFRY_PAUSE : BELFRY_MORE;
    if (!s->closed && complete)
        resource_arm(s);
    return next;
}

static enum belfry_next on_restart(struct belfry_kube_request *request, void *user)
{
    struct source_resource *s = user;
    (void)request;
    s->depth++;
    s->events->begin(s->user);
    s->depth--;
    return s->closed ? BELFRY_STOP : s->paused ? BELFRY_PAUSE : BELFRY_MORE;
}

static void on_opened(struct belfry_kube_request *request, void *user)
{
    struct source_resource *s = user;
    char text[TEXT_MAX];
    (void)request;
    snprintf(text, sizeof(text), "connected to %.200s", belfry_kube_server(s->k));
    s->depth++;
    tell_link(s, BELFRY_OK, text);
    s->depth--;
}

static void on_retrying(struct belfry_kube_request *request, const struct belfry_failure *failure, void *user)
{
    struct source_resource *s = user;
    (void)request;
    s->depth++;
    tell_link(s, failure->err, failure->why);
    s->depth--;
}

static void on_ended(struct belfry_kube_request *request, const struct belfry_ended *ended, void *user)
{
    struct source_resource *s = user;
    const struct belfry_failure *failure = ended->failure;
    (void)request;
    s->request = NULL;
    s->depth++;
    if (failure->err == BELFRY_ERR_NOMEM || failure->err == BELFRY_ERR_CANCELED) {
        s->events->end(failure->err, failure->why, s->user);
    } else if (failure->err == BELFRY_OK && belfry_reflector_state(s->reflector) == BELFRY_REFLECTOR_LISTING) {
        if (belfry_reflector_listed(s->reflector, ended->version, belfry_clock_ms()))
            s->events->synced(s->user);
        else
            tell_link(s, BELFRY_ERR_PROTOCOL, "the server's list has no resourceVersion");
    } else {
        struct belfry_reflector_outcome outcome = {.failure = failure,
                                                   .refused = ended->broke == BELFRY_BROKE_REFUSED,
                                                   .broke_off = ended->broke == BELFRY_BROKE_OFF};
        bool offered = belfry_reflector_offers(s->reflector);
        belfry_reflector_ended(s->reflector, &outcome, belfry_clock_ms());
        if (offered && !belfry_reflector_offers(s->reflector)) /* an older server, and nothing is wrong with it */
            tell_link(s, BELFRY_OK, "the server does not send the state with a watch: it is listed");
        else if (failure->err != BELFRY_OK)
            tell_link(s, failure->err, failure->why);
    }
    s->depth--;
    resource_arm(s);
}

static void on_gone(void *user)
{
    free_resource_if_closed(user); /* the source may have been closed from inside this request */
}

static const struct belfry_request_hooks hooks = {.decoded = on_decoded,
                                                  .restart = on_restart,
                                                  .opened = on_opened,
                                                  .retrying = on_retrying,
                                                  .ended = on_ended,
                                                  .gone = on_gone};

/* Sends the request that the reflector wants, if any. */
static void resource_step(struct source_resource *s)
{
    /* A server that takes the request for the state in a stream and sends nothing does not offer it. */
    if (s->request != NULL && belfry_reflector_stalled(s->reflector, belfry_clock_ms())) {
        struct belfry_failure failure;
        struct belfry_kube_request *stalled = s->request;
        s->request = NULL;
        belfry_kube_cancel(stalled);
        belfry_failure_set(&failure, BELFRY_ERR_UNSUPPORTED, "%s",
                           "the server does not stream the state: it is listed");
        struct belfry_reflector_outcome outcome = {.failure = &failure};
        belfry_reflector_ended(s->reflector, &outcome, belfry_clock_ms());
    }

    struct belfry_reflector_request wanted;
    if (belfry_reflector_next(s->reflector, belfry_clock_ms(), &wanted) != BELFRY_OK)
        return;
    if (wanted.fresh)
        s->events->begin(s->user);
    if (s->closed)
        return;

    struct belfry_request_ask ask = {.mode = wanted.watch ? BELFRY_DECODE_WATCH : BELFRY_DECODE_LIST,
                                     .target = s->target,
                                     .metadata_only = s->metadata_only,
                                     .timeout_ms = s->k->timeout_ms};
    ask.target.version = wanted.version;
    ask.target.limit = wanted.chunk;
    if (wanted.watch) {
        ask.target.watch = ask.target.bookmarks = true;
        ask.target.timeout_s = wanted.timeout_s;
        ask.target.send_initial = wanted.initial;
        ask.target.version_match = wanted.initial ? "NotOlderThan" : NULL;
    }
    enum belfry_err err = belfry_request_open(s->k, &ask, &hooks, s, &s->request);
    if (err != BELFRY_OK)
        s->events->end(err, belfry_strerror(err), s->user);
}

static void on_resource_timer(struct belfry_timer *timer)
{
    struct source_resource *s = belfry_container(timer, struct source_resource, timer);
    s->depth++;
    resource_step(s);
    s->depth--;
    resource_arm(s);
    free_resource_if_closed(s);
}

static void on_kube_closing(struct belfry_kube_user *user)
{
    struct source_resource *s = belfry_container(user, struct source_resource, of_kube);
    s->depth++;
    s->events->end(BELFRY_ERR_CANCELED, "the client was closed", s->user);
    s->depth--;
    free_resource_if_closed(s);
}

/* ---- operations of the source ---- */

static void pause_resource(void *source)
{
    struct source_resource *s = source;
    s->paused = true;
    if (s->depth == 0 && s->request != NULL)
        belfry_request_pause(s->request); /* otherwise the end of the hook does it */
    resource_arm(s);
}

static void resume_resource(void *source)
{
    struct source_resource *s = source;
    s->paused = false;
    s->text[0] = '\0'; /* report the next link text again */
    belfry_reflector_resumed(s->reflector, belfry_clock_ms());
    if (s->request != NULL)
        belfry_kube_resume(s->request);
    resource_arm(s);
}

static void count_resource(const void *source, struct belfry_source_counts *out)
{
    const struct source_resource *s = source;
    struct belfry_reflector_counts counted = belfry_reflector_counts(s->reflector);
    *out = (struct belfry_source_counts){
        .lists = counted.lists, .relists = counted.relists, .watches = counted.watches, .retries = counted.retries};
}

static void close_resource(void *source)
{
    struct source_resource *s = source;
    struct belfry_kube_request *request = s->request;
    s->request = NULL;
    belfry_session_set_timer(s->k->b, &s->timer, BELFRY_NEVER);
    belfry_list_remove(&s->of_kube.node);
    s->closed = true;
    if (request != NULL)
        belfry_kube_cancel(request); /* its `gone` hook frees the source */
    else
        free_resource_if_closed(s);
}

/* ---- opening ---- */

static enum belfry_err copy_target(struct source_resource *s, struct belfry_resource resource,
                                   const struct belfry_opts *opts)
{
    s->target = (struct belfry_target){.base = s->k->settings.base,
                                       .group_version = resource.group_version,
                                       .plural = resource.plural,
                                       .ns = resource.ns,
                                       .selector = belfry_opts_text(opts, BELFRY_OPT_SELECTOR),
                                       .field_selector = belfry_opts_text(opts, BELFRY_OPT_FIELD_SELECTOR)};
    enum belfry_err err = belfry_target_keep(&s->target, &s->texts);
    if (err != BELFRY_OK)
        return err;
    struct belfry_buf written = {0}; /* reports an invalid name now */
    err = belfry_target_write(&s->target, &written);
    belfry_buf_fini(&written);
    return err;
}

/* Errors: BELFRY_ERR_INVALID (an invalid name), BELFRY_ERR_NOMEM, BELFRY_ERR_CANCELED. */
static enum belfry_err open_resource(struct belfry_informer *informer, struct belfry_kube *k,
                                     struct belfry_resource resource, const struct belfry_opts *opts,
                                     struct belfry_source *out)
{
    static const struct belfry_source_ops ops = {
        .pause = pause_resource, .resume = resume_resource, .counts = count_resource, .close = close_resource};
    if (k->closing || k->b->closing)
        return BELFRY_ERR_CANCELED;
    struct source_resource *s = calloc(1, sizeof(*s));
    if (s == NULL)
        return BELFRY_ERR_NOMEM;
    s->k = k;
    s->events = &belfry_informer_events;
    s->user = informer;
    s->metadata_only = belfry_opts_number(opts, BELFRY_OPT_METADATA_ONLY) != 0;
    belfry_timer_init(&s->timer, on_resource_timer);
    belfry_list_init(&s->of_kube.node);

    enum belfry_err err = copy_target(s, resource, opts);
    if (err == BELFRY_OK) {
        int64_t timeout_ms = belfry_opts_number(opts, BELFRY_OPT_WATCH_TIMEOUT);
        struct belfry_reflector_opts reflector = {.watch_list = belfry_opts_number(opts, BELFRY_OPT_WATCH_LIST) != 0,
                                                  .chunk = (uint32_t)belfry_opts_number(opts, BELFRY_OPT_CHUNK_SIZE),
                                                  .watch_timeout_ms =
                                                      timeout_ms > 0 ? (uint32_t)timeout_ms : WATCH_TIMEOUT_MS,
                                                  .seed = belfry_rng_next(&k->b->rng)};
        err = belfry_reflector_create(&reflector, &s->reflector);
    }
    if (err != BELFRY_OK) {
        s->closed = true;
        free_resource_if_closed(s);
        return err;
    }

    s->of_kube.closing = on_kube_closing;
    belfry_list_append(&k->users, &s->of_kube.node);
    resource_arm(s);
    *out = (struct belfry_source){.ops = &ops, .impl = s};
    return BELFRY_OK;
}

int belfry_informer_resource(struct belfry_kube *k, struct belfry_resource resource, const struct belfry_opts *opts,
                             belfry_news_fn fn, void *user, struct belfry_informer **out)
{
    BELFRY_OWNER_ENTER(k->b);
    struct belfry_informer *informer;
    struct belfry_source source = {0};
    k->b->why[0] = '\0';
    enum belfry_err err = belfry_informer_create(k->b, opts, BELFRY_FOR_INFORMER_RESOURCE, fn, user, &informer);
    if (err != BELFRY_OK)
        return err;
    err = open_resource(informer, k, resource, opts, &source);
    return belfry_informer_opened(informer, err, source, out);
}
