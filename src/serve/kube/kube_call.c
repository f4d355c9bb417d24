/* src/serve/kube/kube_call.c: a request about a resource, from its head until it is answered or a list or watch takes over.
 *
 *     READ --the tier is not ready--> HELD --it is--> READ       10 s: 429
 *      |  `--auth is on--> ASKING --granted--> taken over        refused: 401, 403; upstream is away: 503
 *      `--> taken over
 *
 * Everything that can be wrong with a request is found before it waits for anything.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "core/key_range.h"
#include "kube/accept.h"
#include "serve/kube/kube_answer.h"
#include "serve/kube/kube_private.h"

static void move(struct kube_call *call, enum kube_call_state to)
{
    struct kube_service *service = call->service;
    assert(call->state != to);
    belfry_list_remove(&call->link);
    if (call->state == KUBE_CALL_HELD)
        service->stats.held--;
    call->state = to;
    switch (to) {
    case KUBE_CALL_READ:
        break;
    case KUBE_CALL_HELD:
        service->stats.held++;
        belfry_list_append(&service->held, &call->link);
        break;
    case KUBE_CALL_ASKING:
        belfry_list_append(&service->asking, &call->link);
        break;
    }
}

/* The exchange has had its last word, its loss, or another handler. */
static void let_go(struct kube_call *call)
{
    if (call == NULL)
        return;
    if (call->question != NULL)
        permit_cancel(call->question);
    if (call->state != KUBE_CALL_READ)
        move(call, KUBE_CALL_READ);
    call->service->calls_bytes -= call->bytes;
    kube_resource_unref(call->resource);
    kube_selector_unref(call->selector);
    kube_options_fini(&call->options);
    belfry_buf_fini(&call->key);
    belfry_buf_fini(&call->end);
    free(call);
}

void kube_call_fail(struct kube_call *call, const struct kube_status *status)
{
    if (status->reason == KUBE_TOO_MANY_REQUESTS)
        call->service->stats.too_many++;
    kube_answer_status(call->x, status);
    let_go(call);
}

/* ---- waiting ---- */

static void on_gone(struct exchange *x, void *user)
{
    (void)x;
    let_go(user);
}

static const struct exchange_events waiting_events = {
    .body = exchange_drop_body, .body_end = exchange_ignore, .writable = exchange_ignore, .gone = on_gone};

/* ---- taken over ---- */

static void begin_list(struct kube_call *call)
{
    struct kube_list_ask ask = {.x = call->x,
                                .resource = call->resource,
                                .version = call->version,
                                .selector = call->selector,
                                .namespace = call->namespace,
                                .name = call->name,
                                .view = call->view,
                                .include = call->options.include,
                                .as = call->verb == KUBE_VERB_GET ? KUBE_PAGE_OBJECT : KUBE_PAGE_ITEMS,
                                .plan = call->list,
                                .continue_token = call->options.continue_token,
                                .who = call->who,
                                .gzip = call->gzip,
                                .head_only = call->head_only};
    struct kube_list *list;
    struct kube_status status;
    enum belfry_err err = kube_list_begin(call->service->opts.lists, &ask, &list, &status);
    if (err == BELFRY_OK) {
        let_go(call);
        return;
    }
    if (err != BELFRY_ERR_INVALID)
        kube_status_busy(&status, "belfry: too many lists at once");
    kube_call_fail(call, &status);
}

static void take_over(struct kube_call *call, uint64_t now_ms)
{
    if (call->verb != KUBE_VERB_WATCH) {
        begin_list(call);
        return;
    }
    kube_watch_open(call, now_ms);
    let_go(call);
}

/* ---- rights ---- */

static void refuse(struct kube_call *call, const char *reason)
{
    struct kube_status status;
    if (permit_is_about_token(reason))
        kube_status_set(&status, KUBE_UNAUTHORIZED, "Unauthorized");
    else
        kube_status_set(&status, KUBE_FORBIDDEN,
                        "%s is forbidden: upstream does not allow the keys of API group \"%s\" to this user",
                        call->resource->plural, call->resource->group);
    status.kind = belfry_bytes_str(call->resource->plural);
    status.group = belfry_bytes_str(call->resource->group);
    call->service->stats.refused++;
    kube_call_fail(call, &status);
}

/* True: it came, or is back, too late. */
static bool refuse_by_drain(struct kube_call *call)
{
    struct kube_status status;
    if (!kube_must_leave(call->service, call->x))
        return false;
    kube_status_drain(&status);
    kube_call_fail(call, &status);
    return true;
}

static void on_verdict(enum permit_verdict verdict, const char *reason, void *user)
{
    struct kube_call *call = user;
    struct kube_status status;
    call->question = NULL;
    move(call, KUBE_CALL_READ);
    switch (verdict) {
    case PERMIT_GRANTED:
        if (!refuse_by_drain(call))
            take_over(call, kube_now(call->service));
        break;
    case PERMIT_REFUSED:
        refuse(call, reason);
        break;
    case PERMIT_UNAVAILABLE:
        kube_status_set(&status, KUBE_SERVICE_UNAVAILABLE, "upstream cannot be asked about rights: %s", reason);
        status.retry_after_s = 1;
        kube_call_fail(call, &status);
        break;
    }
}

static void ask_rights(struct kube_call *call, uint64_t now_ms)
{
    enum belfry_err err =
        permit_ask(call->service->opts.permit, &call->who, exchange_pin(call->x), belfry_buf_bytes(&call->key),
                   belfry_buf_bytes(&call->end), now_ms, on_verdict, call, &call->question);
    if (err == BELFRY_OK) {
        exchange_handle(call->x, &waiting_events, call);
        move(call, KUBE_CALL_ASKING);
        return;
    }
    struct kube_status status;
    kube_status_busy(&status, "belfry: too many requests wait for their rights");
    kube_call_fail(call, &status);
}

void kube_call_resume(struct kube_call *call, uint64_t now_ms)
{
    if (call->state != KUBE_CALL_READ)
        move(call, KUBE_CALL_READ);
    if (permit_is_open(call->service->opts.permit, now_ms))
        take_over(call, now_ms);
    else
        ask_rights(call, now_ms);
}

static void hold(struct kube_call *call, uint64_t now_ms)
{
    call->until_ms = now_ms + KUBE_HOLD_MS;
    exchange_handle(call->x, &waiting_events, call);
    move(call, KUBE_CALL_HELD);
}

/* ---- reading it ---- */

struct belfry_bytes kube_bearer(const struct exchange_head *head)
{
    static const char bearer[] = "bearer ";
    struct belfry_bytes token = exchange_field(head, "authorization");
    size_t scheme = sizeof(bearer) - 1;
    bool is_bearer = token.len > scheme && strncasecmp(token.data, bearer, scheme) == 0;
    return is_bearer ? belfry_bytes_of(token.data + scheme, token.len - scheme) : (struct belfry_bytes){0};
}

/* The part of a request that is kept: path, token and client, each with a zero behind it. */
static struct kube_call *make(struct kube_service *service, const struct exchange_head *head, struct belfry_bytes *path)
{
    struct belfry_bytes agent = exchange_field(head, "user-agent"), token = kube_bearer(head);
    agent.len = agent.len < KUBE_CLIENT_MAX ? agent.len : KUBE_CLIENT_MAX;
    size_t bytes = sizeof(struct kube_call) + path->len + token.len + agent.len + 3;
    struct kube_call *call = calloc(1, bytes);
    if (call == NULL)
        return NULL;
    char *to = call->text;
    memcpy(to, path->data, path->len);
    *path = belfry_bytes_of(to, path->len);
    to += path->len + 1;
    if (token.len > 0)
        call->who.authorization = belfry_bytes_of(memcpy(to, token.data, token.len), token.len);
    to += token.len + 1;
    call->client = agent.len == 0 ? "" : memcpy(to, agent.data, agent.len);
    call->service = service;
    call->bytes = bytes;
    service->calls_bytes += bytes;
    belfry_list_init(&call->link);
    return call;
}

/* Which resource, and does the path fit its scope? A status subresource is the object itself. */
static enum belfry_err find_resource(struct kube_call *call, const struct kube_target *target,
                                     struct kube_status *status)
{
    const struct kube_catalog *catalog = call->service->catalog;
    const struct kube_resource *resource;
    bool found = catalog != NULL && kube_catalog_find(catalog, target->group, target->version, target->resource,
                                                      &resource, &call->version);
    kube_status_no_resource(call->service, status);
    if (found) {
        call->resource = kube_resource_ref(resource);
        bool has_namespace = target->namespace.len > 0;
        bool is_status = belfry_bytes_equal(target->subresource, belfry_bytes_str("status"));
        found = has_namespace ? resource->namespaced : !resource->namespaced || target->name.len == 0;
        found = found && (target->subresource.len == 0 || (is_status && call->version->has_status));
        kube_status_set(status, KUBE_NOT_FOUND, "the server could not find the requested resource");
    }
    return found ? BELFRY_OK : BELFRY_ERR_INVALID;
}

static enum belfry_err negotiate(struct kube_call *call, const struct exchange_head *head, struct kube_status *status)
{
    unsigned forms = 1u << KUBE_FORM_JSON | 1u << KUBE_FORM_TABLE | 1u << KUBE_FORM_METADATA;
    call->gzip = kube_accepts_gzip(exchange_field(head, "accept-encoding"));
    switch (kube_accept(exchange_field(head, "accept"), forms)) {
    case KUBE_FORM_JSON:
        call->view = KUBE_VIEW_OBJECT;
        return BELFRY_OK;
    case KUBE_FORM_TABLE:
        call->view = KUBE_VIEW_TABLE;
        return BELFRY_OK;
    case KUBE_FORM_METADATA:
        call->view = KUBE_VIEW_METADATA;
        return BELFRY_OK;
    case KUBE_FORM_DISCOVERY:
    case KUBE_FORM_NONE:
        break;
    }
    kube_status_set(status, KUBE_NOT_ACCEPTABLE, "only the following media types are accepted: application/json");
    return BELFRY_ERR_INVALID;
}

/* metadata.name and metadata.namespace make the range smaller; the selector goes on to look at them, too. */
static void take_pins(struct kube_call *call)
{
    bool no_namespace, no_name;
    if (call->selector == NULL)
        return;
    struct belfry_bytes namespace = kube_selector_namespace(call->selector, &no_namespace);
    struct belfry_bytes name = kube_selector_name(call->selector, &no_name);
    if (no_namespace || no_name)
        return;
    if (call->namespace.len == 0 && call->resource->namespaced)
        call->namespace = namespace;
    if (call->name.len == 0 && (call->namespace.len > 0 || !call->resource->namespaced))
        call->name = name; /* never in place of the path's */
}

static enum belfry_err read_selector(struct kube_call *call, struct kube_status *status)
{
    const struct kube_options *options = &call->options;
    if (options->label_selector.len == 0 && options->field_selector.len == 0)
        return BELFRY_OK;
    enum belfry_err err = kube_selector_read(options->label_selector, options->field_selector, call->resource,
                                             call->version, &call->selector, status);
    if (err == BELFRY_OK)
        take_pins(call);
    return err;
}

static enum belfry_err plan(struct kube_call *call, struct kube_status *status)
{
    enum belfry_err err;
    switch (call->verb) {
    case KUBE_VERB_GET:
        return kube_plan_get(&call->options, &call->list, status);
    case KUBE_VERB_LIST:
        err = kube_plan_list(&call->options, &call->list, status);
        return err == BELFRY_OK ? read_selector(call, status) : err;
    case KUBE_VERB_WATCH:
        err = kube_plan_watch(&call->options, &call->watch, status);
        return err == BELFRY_OK ? read_selector(call, status) : err;
    case KUBE_VERB_WRITE:
        break;
    }
    kube_status_set(status, KUBE_METHOD_NOT_ALLOWED,
                    "belfry serves reads: objects are written to etcd, by whoever owns them there");
    return BELFRY_ERR_INVALID;
}

/* What is outside of what is followed would silently lack objects. */
static enum belfry_err find_range(struct kube_call *call, struct kube_status *status)
{
    struct range range;
    enum belfry_err err = kube_resource_key(call->resource, call->namespace, call->name, &call->key, &call->filter);
    if (err == BELFRY_OK && call->name.len == 0)
        err = range_prefix_end(belfry_buf_bytes(&call->key), &call->end);
    if (err != BELFRY_OK)
        return err;
    if (range_read(belfry_buf_bytes(&call->key), belfry_buf_bytes(&call->end), &range) &&
        range_within(&range, call->service->opts.scope))
        return BELFRY_OK;
    kube_status_set(status, KUBE_FORBIDDEN, "belfry: %s are outside of what this tier follows (its scope)",
                    call->resource->plural);
    return BELFRY_ERR_INVALID;
}

/* Errors: BELFRY_ERR_INVALID with *status, BELFRY_ERR_NOMEM. */
static enum belfry_err read_call(struct kube_call *call, const struct exchange_head *head, struct belfry_bytes path,
                                 struct belfry_bytes query, struct kube_status *status)
{
    struct kube_target target;
    enum belfry_err err = kube_options_read(query, &call->options, status);
    if (err != BELFRY_OK)
        return err;
    kube_target_read(head->method, path, call->options.watch, &target);
    call->verb = target.verb;
    call->namespace = target.namespace;
    call->name = target.name;
    err = find_resource(call, &target, status);
    if (err == BELFRY_OK)
        err = plan(call, status);
    if (err == BELFRY_OK)
        err = negotiate(call, head, status);
    return err != BELFRY_OK ? err : find_range(call, status);
}

/* True: it has been answered. */
static bool refuse_by_standing(struct kube_call *call)
{
    struct kube_status status;
    if (refuse_by_drain(call))
        return true;
    if (call->service->calls_bytes <= KUBE_CALLS_BYTES)
        return false;
    kube_status_busy(&status, "belfry: too many requests wait");
    kube_call_fail(call, &status);
    return true;
}

static void start(struct kube_call *call, uint64_t now_ms)
{
    struct kube_service *service = call->service;
    if (refuse_by_standing(call))
        return;
    if (service->ready && worker_position(service->worker) > 0)
        kube_call_resume(call, now_ms);
    else
        hold(call, now_ms);
}

void kube_call_begin(struct kube_service *service, struct exchange *x, const struct exchange_head *head,
                     struct belfry_bytes path, struct belfry_bytes query, uint64_t now_ms)
{
    struct kube_status status;
    struct kube_call *call = make(service, head, &path);
    if (call == NULL) {
        kube_status_busy(&status, "belfry: memory limit reached");
        kube_answer_status(x, &status);
        return;
    }
    call->x = x;
    call->head_only = belfry_bytes_equal(head->method, belfry_bytes_str("HEAD"));
    enum belfry_err err = read_call(call, head, path, query, &status);
    if (err == BELFRY_OK) {
        size_t more = call->options.text.cap + call->key.cap + call->end.cap;
        more += call->selector == NULL ? 0 : kube_selector_bytes(call->selector);
        call->bytes += more;
        service->calls_bytes += more;
        start(call, now_ms);
        return;
    }
    if (err != BELFRY_ERR_INVALID)
        kube_status_busy(&status, "belfry: memory limit reached");
    kube_call_fail(call, &status);
}
