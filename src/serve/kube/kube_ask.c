/* src/serve/kube/kube_ask.c */
#include "serve/kube/kube_ask.h"

#include <stdlib.h>
#include <string.h>

#include "core/key_range.h"
#include "kube/accept.h"
#include "serve/kube/kube_answer.h"
#include "serve/rights/review_subject.h"

#define CLIENT_MAX 63 /* bytes of a user-agent */
#define NO_SHARDS  "belfry: shardSelector is not served: send the request without it, and select by labels or fields"

/* Allocates it with the parts of the head that it keeps, each with a zero after it. *path becomes the copy. */
static struct kube_ask *kube_ask_make(const struct exchange *x, const struct exchange_head *head,
                                      struct belfry_bytes *path)
{
    struct belfry_bytes agent = exchange_field(head, "user-agent");
    struct identity who = identity_read(x, head, IDENTITY_OF_KUBE);
    agent.len = agent.len < CLIENT_MAX ? agent.len : CLIENT_MAX;
    size_t bytes = sizeof(struct kube_ask) + path->len + who.text.len + agent.len + 3;
    struct kube_ask *ask = calloc(1, bytes);
    if (ask == NULL)
        return NULL;
    char *to = ask->text;
    memcpy(to, path->data, path->len);
    *path = belfry_bytes_of(to, path->len);
    to += path->len + 1;
    ask->who = identity_pack(&to, &who);
    to++;
    ask->client = agent.len == 0 ? "" : memcpy(to, agent.data, agent.len);
    ask->head_only = belfry_bytes_equal(head->method, belfry_bytes_str("HEAD"));
    ask->bytes = bytes;
    return ask;
}

void kube_ask_free(struct kube_ask *ask)
{
    if (ask == NULL)
        return;
    kube_resource_unref(ask->resource);
    kube_selector_unref(ask->selector);
    kube_options_fini(&ask->options);
    belfry_buf_fini(&ask->key);
    belfry_buf_fini(&ask->end);
    belfry_buf_fini(&ask->subject);
    free(ask);
}

struct belfry_bytes kube_ask_right_key(const struct kube_ask *ask)
{
    return belfry_buf_bytes(belfry_buf_len(&ask->subject) > 0 ? &ask->subject : &ask->key);
}

struct belfry_bytes kube_ask_right_end(const struct kube_ask *ask)
{
    return belfry_buf_len(&ask->subject) > 0 ? (struct belfry_bytes){0} : belfry_buf_bytes(&ask->end);
}

/* Which resource, and does the path fit its scope? A status subresource is the object itself. */
static enum belfry_err find_resource(struct kube_ask *ask, const struct kube_state *state,
                                     const struct kube_target *target, struct kube_status *status)
{
    const struct kube_catalog *catalog = state->catalog;
    const struct kube_resource *resource;
    bool found = catalog != NULL &&
                 kube_catalog_find(catalog, target->group, target->version, target->resource, &resource, &ask->version);
    kube_status_no_resource(status, state->extent);
    if (found) {
        ask->resource = kube_resource_ref(resource);
        bool has_namespace = target->namespace.len > 0;
        bool is_status = belfry_bytes_equal(target->subresource, belfry_bytes_str("status"));
        found = has_namespace ? resource->namespaced : !resource->namespaced || target->name.len == 0;
        found = found && (target->subresource.len == 0 || (is_status && ask->version->has_status));
        kube_status_set(status, KUBE_NOT_FOUND, "the server could not find the requested resource");
    }
    return found ? BELFRY_OK : BELFRY_ERR_INVALID;
}

static enum belfry_err negotiate(struct kube_ask *ask, const struct exchange_head *head, struct kube_status *status)
{
    unsigned forms = 1u << KUBE_FORM_JSON | 1u << KUBE_FORM_TABLE | 1u << KUBE_FORM_METADATA;
    ask->gzip = kube_accepts_gzip(exchange_field(head, "accept-encoding"));
    switch (kube_accept(exchange_field(head, "accept"), forms)) {
    case KUBE_FORM_JSON:
        ask->view = KUBE_VIEW_OBJECT;
        return BELFRY_OK;
    case KUBE_FORM_TABLE:
        ask->view = KUBE_VIEW_TABLE;
        return BELFRY_OK;
    case KUBE_FORM_METADATA:
    case KUBE_FORM_METADATA_LIST:
        ask->view = KUBE_VIEW_METADATA;
        return BELFRY_OK;
    case KUBE_FORM_DISCOVERY:
    case KUBE_FORM_NONE:
        break;
    }
    kube_status_set(status, KUBE_NOT_ACCEPTABLE, "only the following media types are accepted: application/json");
    return BELFRY_ERR_INVALID;
}

/* May a token be needed to continue? An API server's tokens are relative to the namespace of the path. */
static bool is_paged(const struct kube_ask *ask)
{
    return ask->verb == KUBE_VERB_LIST && (ask->options.limit > 0 || ask->options.continue_token.len > 0);
}

/* metadata.name and metadata.namespace narrow the range; the selector still checks them. */
static void take_pins(struct kube_ask *ask)
{
    bool no_namespace, no_name;
    if (ask->selector == NULL || (ask->resource->is_verbatim && is_paged(ask)))
        return;
    struct belfry_bytes namespace = kube_selector_namespace(ask->selector, &no_namespace);
    struct belfry_bytes name = kube_selector_name(ask->selector, &no_name);
    if (no_namespace || no_name)
        return;
    if (ask->namespace.len == 0 && ask->resource->namespaced)
        ask->namespace = namespace;
    if (ask->name.len == 0 && (ask->namespace.len > 0 || !ask->resource->namespaced))
        ask->name = name; /* never in place of the path's */
}

static enum belfry_err read_selector(struct kube_ask *ask, struct kube_status *status)
{
    const struct kube_options *options = &ask->options;
    if (options->shard_selector.len > 0) { /* ignoring it would show a client the objects of others */
        kube_status_set(status, KUBE_BAD_REQUEST, NO_SHARDS);
        return BELFRY_ERR_INVALID;
    }
    if (options->label_selector.len == 0 && options->field_selector.len == 0)
        return BELFRY_OK;
    enum belfry_err err = kube_selector_read(options->label_selector, options->field_selector, ask->resource,
                                             ask->version, &ask->selector, status);
    if (err == BELFRY_OK)
        take_pins(ask);
    return err;
}

static enum belfry_err make_plan(struct kube_ask *ask, struct kube_status *status)
{
    enum belfry_err err;
    switch (ask->verb) {
    case KUBE_VERB_GET:
        return kube_plan_get(&ask->options, &ask->list, status);
    case KUBE_VERB_LIST:
        err = kube_plan_list(&ask->options, &ask->list, status);
        return err == BELFRY_OK ? read_selector(ask, status) : err;
    case KUBE_VERB_WATCH:
        err = kube_plan_watch(&ask->options, &ask->watch, status);
        return err == BELFRY_OK ? read_selector(ask, status) : err;
    case KUBE_VERB_WRITE:
        break;
    }
    kube_status_set(status, KUBE_METHOD_NOT_ALLOWED,
                    "belfry serves reads: objects are written to etcd, by whoever owns them there");
    return BELFRY_ERR_INVALID;
}

/* A range outside the scope would silently lack objects. */
static enum belfry_err find_range(struct kube_ask *ask, struct belfry_bytes scope, struct kube_status *status)
{
    struct range range;
    enum belfry_err err = kube_resource_key(ask->resource, ask->namespace, ask->name, &ask->key, &ask->filter);
    if (err == BELFRY_OK && belfry_buf_len(&ask->key) == 0)
        err = belfry_buf_append(&ask->end, "", 1); /* all keys */
    else if (err == BELFRY_OK && ask->name.len == 0)
        err = range_prefix_end(belfry_buf_bytes(&ask->key), &ask->end);
    if (err != BELFRY_OK)
        return err;
    if (range_read(belfry_buf_bytes(&ask->key), belfry_buf_bytes(&ask->end), &range) && range_within(&range, scope))
        return BELFRY_OK;
    kube_status_set(status, KUBE_FORBIDDEN, "belfry: %s are outside of what this tier follows (its scope)",
                    ask->resource->plural);
    return BELFRY_ERR_INVALID;
}

/* The name that a list or watch is authorised for: metadata.name=NAME alone is the right to one object. */
static struct belfry_bytes selected_name(const struct kube_ask *ask)
{
    bool nothing = true;
    struct belfry_bytes name = {0};
    if (ask->selector != NULL)
        name = kube_selector_name(ask->selector, &nothing);
    return nothing ? (struct belfry_bytes){0} : name;
}

/* The selectors as they were read and are served (kube_selector_text()), not as they were written: upstream may read an
 * odd text in another way. */
static void take_selectors(const struct kube_selector *selector, struct review_subject *subject)
{
    static const struct belfry_bytes labels = {"labelSelector=", 14}, fields = {"fieldSelector=", 14};
    struct belfry_bytes rest = selector != NULL ? kube_selector_text(selector) : (struct belfry_bytes){0};
    if (belfry_bytes_begins(rest, labels)) {
        const char *end = memchr(rest.data, '&', rest.len);
        size_t len = end != NULL ? (size_t)(end - rest.data) : rest.len;
        subject->label_selector = belfry_bytes_of(rest.data + labels.len, len - labels.len);
        size_t past = end != NULL ? len + 1 : len;
        rest = belfry_bytes_of(rest.data + past, rest.len - past);
    }
    if (belfry_bytes_begins(rest, fields))
        subject->field_selector = belfry_bytes_of(rest.data + fields.len, rest.len - fields.len);
}

/* A namespace is in itself: a role in it may allow to get it. So API servers see it, if its name is in the path. */
static struct belfry_bytes subject_namespace(const struct kube_target *target)
{
    bool is_namespace = belfry_bytes_equal(target->resource, belfry_bytes_str("namespaces"));
    return is_namespace ? target->name : target->namespace;
}

/* A watch by the deprecated prefix is authorised by its path alone: API servers look at the selectors of other lists
 * and watches only. */
static enum belfry_err write_subject(struct kube_ask *ask, const struct kube_target *target)
{
    static const char *const verbs[] = {
        [KUBE_VERB_GET] = "get", [KUBE_VERB_LIST] = "list", [KUBE_VERB_WATCH] = "watch"};
    struct review_subject subject = {
        .verb = belfry_bytes_str(verbs[target->verb]),
        .group = target->group,
        .version = target->version,
        .resource = target->resource,
        .subresource = target->subresource,
        .namespace = subject_namespace(target),
        .name = target->name.len > 0 || target->by_prefix ? target->name : selected_name(ask),
    };
    if (target->verb != KUBE_VERB_GET && !target->by_prefix)
        take_selectors(ask->selector, &subject);
    return review_subject_write(&subject, &ask->subject);
}

static enum belfry_err read_ask(struct kube_ask *ask, const struct kube_state *state, const struct exchange_head *head,
                                struct belfry_bytes path, struct kube_status *status)
{
    struct kube_target target;
    kube_target_read(head->method, path, ask->options.watch, &target);
    ask->verb = target.verb;
    ask->namespace = target.namespace;
    ask->name = target.name;
    enum belfry_err err = find_resource(ask, state, &target, status);
    if (err == BELFRY_OK)
        err = make_plan(ask, status);
    if (err == BELFRY_OK)
        err = negotiate(ask, head, status);
    return err == BELFRY_OK && state->rights == KUBE_RIGHTS_REVIEW ? write_subject(ask, &target) : err;
}

enum belfry_err kube_ask_read(const struct kube_state *state, struct belfry_bytes scope, const struct exchange *x,
                              const struct exchange_head *head, struct kube_ask **out, struct kube_status *status)
{
    struct belfry_bytes query, path = exchange_path(head, &query);
    enum belfry_err err = BELFRY_ERR_NOMEM;
    struct kube_ask *ask = kube_ask_make(x, head, &path);
    if (ask != NULL)
        err = kube_options_read(query, &ask->options, status);
    if (err == BELFRY_OK)
        err = read_ask(ask, state, head, path, status);
    if (err == BELFRY_OK)
        err = find_range(ask, scope, status);
    if (err != BELFRY_OK) {
        if (err != BELFRY_ERR_INVALID)
            kube_status_busy(status, "belfry: memory limit reached");
        kube_ask_free(ask);
        return err;
    }
    ask->bytes += ask->options.text.cap + ask->key.cap + ask->end.cap + ask->subject.cap;
    ask->bytes += ask->selector == NULL ? 0 : kube_selector_bytes(ask->selector);
    *out = ask;
    return BELFRY_OK;
}
