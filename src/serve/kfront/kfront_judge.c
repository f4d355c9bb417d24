/* src/serve/kfront/kfront_judge.c */
#include "serve/kfront/kfront_judge.h"

#include <strings.h>

#include "kube/accept.h"
#include "kube/request.h"
#include "kube/selector.h"
#include "kube/token.h"

#define FORMS (1u << KUBE_FORM_JSON | 1u << KUBE_FORM_METADATA | 1u << KUBE_FORM_METADATA_LIST | 1u << KUBE_FORM_TABLE)

const char *kfront_kind_name(enum kfront_kind kind)
{
    static const char *const names[] = {
        [KFRONT_WRITE] = "write",       [KFRONT_CONSISTENT] = "consistent", [KFRONT_FORM] = "form",
        [KFRONT_DOCUMENT] = "document", [KFRONT_OTHER] = "other",           [KFRONT_WATCH] = "watch"};
    return names[kind];
}

/* ---- fields ---- */

static bool is_text(struct belfry_bytes text, const char *word)
{
    return belfry_bytes_equal(text, belfry_bytes_str(word));
}

/* "upgrade: h2c" offers another version of the same protocol, which may be ignored. */
static bool asks_for_upgrade(const struct exchange_head *head)
{
    if (is_text(head->method, "CONNECT"))
        return true;
    for (size_t i = 0; i < head->n_fields; i++) {
        struct belfry_bytes value = head->fields[i].value;
        if (is_text(head->fields[i].name, "upgrade") && !(value.len == 3 && strncasecmp(value.data, "h2c", 3) == 0))
            return true;
    }
    return false;
}

static bool asks_for_another(const struct exchange_head *head)
{
    static const char prefix[] = "impersonate-";
    for (size_t i = 0; i < head->n_fields; i++) {
        struct belfry_bytes name = head->fields[i].name;
        if (name.len >= sizeof(prefix) - 1 && memcmp(name.data, prefix, sizeof(prefix) - 1) == 0)
            return true;
    }
    return false;
}

/* ---- paths ---- */

/* The next part of a path, without slashes; false: there is none left. */
static bool next_part(struct belfry_bytes *path, struct belfry_bytes *out)
{
    if (path->len == 0)
        return false;
    *path = belfry_bytes_of(path->data + 1, path->len - 1); /* a slash */
    const char *slash = path->len > 0 ? memchr(path->data, '/', path->len) : NULL;
    size_t len = slash != NULL ? (size_t)(slash - path->data) : path->len;
    *out = belfry_bytes_of(path->data, len);
    *path = belfry_bytes_of(path->data + len, path->len - len);
    return true;
}

/* A path that has one reading only: no escapes, no empty part, no "." or "..". */
static bool is_plain(struct belfry_bytes path)
{
    struct belfry_bytes part;
    if (path.len == 0 || path.data[0] != '/' || memchr(path.data, '%', path.len) != NULL)
        return false;
    while (next_part(&path, &part))
        if (part.len == 0 || is_text(part, ".") || is_text(part, ".."))
            return false;
    return true;
}

/* The log of a pod, and what a pod or a service serves by itself, may go on for ever. A namespace of such a name only
 * gets the same patience. */
static bool has_lasting_part(struct belfry_bytes path)
{
    struct belfry_bytes part;
    if (path.len == 0 || path.data[0] != '/')
        return false;
    while (next_part(&path, &part))
        if (is_text(part, "log") || is_text(part, "proxy"))
            return true;
    return false;
}

/* /api, /api/V, /apis, /apis/G, /apis/G/V, /openapi/... */
static bool is_document(struct belfry_bytes path)
{
    struct belfry_bytes first, part;
    size_t n = 1;
    if (!is_plain(path) || !next_part(&path, &first))
        return false;
    while (next_part(&path, &part))
        n++;
    return (is_text(first, "api") && n <= 2) || (is_text(first, "apis") && n <= 3) || is_text(first, "openapi");
}

/* ---- a followed resource ---- */

static const struct kfront_followed *find(const struct kube_target *target, const struct kfront_followed *followed,
                                          size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct kube_resource *resource = followed[i].resource;
        if (is_text(target->resource, resource->plural) && is_text(target->group, resource->group) &&
            kube_resource_served(resource, target->version) != NULL)
            return &followed[i];
    }
    return NULL;
}

/* Does the path fit the resource's scope? A watch of one object by its path is an old form, of which only the API
 * server knows what it means. */
static bool fits(const struct kube_target *target, const struct kube_resource *resource)
{
    if (target->subresource.len > 0 || (target->verb == KUBE_VERB_WATCH && target->name.len > 0))
        return false;
    if (!resource->namespaced)
        return target->namespace.len == 0;
    return target->namespace.len > 0 || target->name.len == 0;
}

/* Did a tier write it? */
static bool is_our_token(struct belfry_bytes text)
{
    struct kube_token token;
    bool ours = kube_token_read(text, &token) == BELFRY_OK && token.origin.process != 0;
    kube_token_fini(&token);
    return ours;
}

/* KFRONT_KINDS: it is answered here. */
static enum kfront_kind judge_plan(enum kube_verb verb, const struct kube_options *options)
{
    struct kube_status status;
    struct kube_list_plan list;
    struct kube_watch_plan watch;
    if (verb == KUBE_VERB_WATCH)
        return kube_plan_watch(options, &watch, &status) == BELFRY_OK ? KFRONT_KINDS : KFRONT_FORM;
    enum belfry_err err =
        verb == KUBE_VERB_GET ? kube_plan_get(options, &list, &status) : kube_plan_list(options, &list, &status);
    if (err != BELFRY_OK)
        return KFRONT_FORM;
    switch (list.read) {
    case KUBE_READ_ANY:
    case KUBE_READ_NOT_OLDER:
    case KUBE_READ_EXACT:
        return KFRONT_KINDS;
    case KUBE_READ_CONTINUE:
        return is_our_token(options->continue_token) ? KFRONT_KINDS : KFRONT_CONSISTENT;
    case KUBE_READ_LATEST:
        break;
    }
    return KFRONT_CONSISTENT;
}

/* A zero in it ends it. */
static void keep_field(struct belfry_bytes name, char out[KFRONT_FIELD_BYTES])
{
    size_t len = name.len < KFRONT_FIELD_BYTES - 1 ? name.len : KFRONT_FIELD_BYTES - 1;
    if (len > 0)
        memcpy(out, name.data, len);
    out[len] = '\0';
}

/* Errors: BELFRY_ERR_INVALID (a selector that only the API server may know; `field`, if it is for that),
 * BELFRY_ERR_NOMEM. */
static enum belfry_err try_selectors(const struct kube_target *target, const struct kube_options *options,
                                     const struct kube_resource *resource, char field[KFRONT_FIELD_BYTES])
{
    struct kube_status status;
    struct kube_selector *selector;
    const struct kube_version *version = kube_resource_served(resource, target->version);
    if (target->verb == KUBE_VERB_GET || (options->label_selector.len == 0 && options->field_selector.len == 0))
        return BELFRY_OK;
    enum belfry_err err =
        kube_selector_read(options->label_selector, options->field_selector, resource, version, &selector, &status);
    if (err == BELFRY_OK)
        kube_selector_unref(selector);
    else if (err == BELFRY_ERR_INVALID)
        keep_field(kube_selector_unknown_field(options->field_selector, version), field);
    return err;
}

/* Answers for people are passed on: API servers indent them. So they do for some programs, unless told otherwise. */
static bool is_for_people(const struct exchange_head *head, const struct kube_options *options)
{
    static const char *const programs[] = {"curl", "Wget", "Mozilla/5.0"};
    struct belfry_bytes agent = exchange_field(head, "user-agent");
    for (size_t i = 0; i < sizeof(programs) / sizeof(programs[0]); i++)
        if (belfry_bytes_begins(agent, belfry_bytes_str(programs[i])))
            return options->pretty != KUBE_FLAG_FALSE;
    return options->pretty == KUBE_FLAG_TRUE;
}

/* Has the answer a form that is made here? The metadata of a list has a name of its own. */
static bool is_our_form(const struct exchange_head *head, const struct kube_target *target,
                        const struct kube_options *options)
{
    bool lists = target->verb == KUBE_VERB_LIST;
    switch (kube_accept(exchange_field(head, "accept"), FORMS)) {
    case KUBE_FORM_JSON:
        break;
    case KUBE_FORM_METADATA:
        if (lists)
            return false;
        break;
    case KUBE_FORM_METADATA_LIST:
        if (!lists)
            return false;
        break;
    case KUBE_FORM_TABLE:
    case KUBE_FORM_DISCOVERY:
    case KUBE_FORM_NONE:
        return false;
    }
    return target->verb == KUBE_VERB_WATCH || !is_for_people(head, options);
}

static void judge_followed(const struct exchange_head *head, const struct kube_target *target,
                           const struct kube_options *options, struct kfront_judgement *out)
{
    bool has_shard = options->shard_selector.len > 0 && target->verb != KUBE_VERB_GET;
    if (has_shard || !is_our_form(head, target, options)) {
        out->kind = KFRONT_FORM;
        return;
    }
    out->kind = judge_plan(target->verb, options);
    if (out->kind != KFRONT_KINDS)
        return;
    enum belfry_err err = try_selectors(target, options, out->followed->resource, out->field);
    if (err == BELFRY_ERR_INVALID)
        out->kind = KFRONT_FORM;
    else if (err != BELFRY_OK)
        out->way = KFRONT_NO_MEMORY;
    else
        out->way = asks_for_another(head) ? KFRONT_IMPERSONATES : KFRONT_ANSWER;
}

static void judge_resource(const struct exchange_head *head, struct belfry_bytes path,
                           const struct kube_options *options, const struct kfront_followed *followed,
                           size_t n_followed, struct kfront_judgement *out)
{
    struct kube_target target;
    kube_target_read(head->method, path, options->watch, &target);
    out->followed = target.is_resource && is_plain(path) ? find(&target, followed, n_followed) : NULL;
    if (out->followed != NULL && fits(&target, out->followed->resource))
        judge_followed(head, &target, options, out);
    else if (is_document(path))
        out->kind = KFRONT_DOCUMENT;
    if (out->way == KFRONT_PASS && target.is_resource && target.verb == KUBE_VERB_WATCH) {
        out->kind = KFRONT_WATCH;
        out->lasts = true;
    }
}

void kfront_judge(const struct exchange_head *head, const struct kfront_followed *followed, size_t n_followed,
                  struct kfront_judgement *out)
{
    struct belfry_bytes query, path = exchange_path(head, &query);
    bool gets = is_text(head->method, "GET");
    *out = (struct kfront_judgement){.way = KFRONT_PASS,
                                     .kind = gets || is_text(head->method, "HEAD") ? KFRONT_OTHER : KFRONT_WRITE,
                                     .lasts = has_lasting_part(path)};
    if (asks_for_upgrade(head))
        out->way = KFRONT_UPGRADES;
    if (out->way != KFRONT_PASS || !gets)
        return;
    struct kube_options options;
    struct kube_status status;
    enum belfry_err err = kube_options_read(query, &options, &status);
    if (err == BELFRY_OK)
        judge_resource(head, path, &options, followed, n_followed, out);
    else if (err != BELFRY_ERR_INVALID)
        out->way = KFRONT_NO_MEMORY;
    kube_options_fini(&options);
}
