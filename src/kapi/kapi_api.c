/* src/kapi/kapi_api.c: the public get, list and watch: a request whose hooks call the user's callback. */
#include <stdlib.h>

#include "base/owner.h"
#include "client/opts.h"
#include "kapi/kube_client.h"
#include "kapi/kube_request.h"

struct asker {
    belfry_kube_fn fn;
    void *user;
};

static enum belfry_next tell_user(struct belfry_kube_request *request, const struct belfry_kube_event *event,
                                  void *user)
{
    const struct asker *asker = user;
    return asker->fn(request, event, asker->user);
}

static void fill_failure(struct belfry_kube_event *event, const struct belfry_failure *failure)
{
    event->err = (int)failure->err;
    event->why = failure->why;
    event->code = failure->code;
    event->reason = failure->reason;
    event->retry_after_ms = failure->retry_after_ms;
}

static enum belfry_kube_kind kind_of(enum belfry_decoded_kind kind)
{
    switch (kind) {
    case BELFRY_DECODED_ITEM:
        return BELFRY_KUBE_ITEM;
    case BELFRY_DECODED_ADDED:
        return BELFRY_KUBE_ADDED;
    case BELFRY_DECODED_MODIFIED:
        return BELFRY_KUBE_MODIFIED;
    case BELFRY_DECODED_DELETED:
        return BELFRY_KUBE_DELETED;
    case BELFRY_DECODED_BOOKMARK:
        return BELFRY_KUBE_BOOKMARK;
    case BELFRY_DECODED_ERROR:
    case BELFRY_DECODED_UNREADABLE: /* not passed on */
    case BELFRY_DECODED_PAGE:
        break;
    }
    return BELFRY_KUBE_ERROR;
}

static enum belfry_next on_decoded(struct belfry_kube_request *request, const struct belfry_decoded *decoded,
                                   void *user)
{
    if (decoded->kind == BELFRY_DECODED_UNREADABLE)
        return BELFRY_MORE;
    struct belfry_kube_event event = {
        .kind = kind_of(decoded->kind), .object = decoded->object, .reason = "", .retry_after_ms = -1};
    event.version = decoded->object != NULL ? belfry_object_version(decoded->object) : belfry_bytes_str("");
    if (decoded->kind == BELFRY_DECODED_BOOKMARK) {
        event.version = belfry_bytes_str(decoded->version);
        event.initial_end = decoded->initial_end;
    }
    if (decoded->kind == BELFRY_DECODED_ERROR)
        fill_failure(&event, decoded->failure);
    return tell_user(request, &event, user);
}

static enum belfry_next on_restart(struct belfry_kube_request *request, void *user)
{
    struct belfry_kube_event event = {.kind = BELFRY_KUBE_RESTART, .reason = "", .retry_after_ms = -1};
    event.version = belfry_bytes_str("");
    return tell_user(request, &event, user);
}

static void on_ended(struct belfry_kube_request *request, const struct belfry_ended *ended, void *user)
{
    struct belfry_kube_event event = {.kind = BELFRY_KUBE_END};
    event.version = belfry_bytes_str(ended->version);
    fill_failure(&event, ended->failure);
    tell_user(request, &event, user);
}

static void on_gone(void *user)
{
    free(user);
}

static const struct belfry_request_hooks hooks = {
    .decoded = on_decoded, .restart = on_restart, .ended = on_ended, .gone = on_gone};

struct caller {
    struct belfry_kube *k;
    struct belfry_resource resource;
    const char *name;
    const struct belfry_opts *opts;
    belfry_kube_fn fn;
    void *user;
    struct belfry_kube_request **out;
};

static int start_request(const struct caller *c, enum belfry_decoder_mode mode, unsigned where)
{
    BELFRY_OWNER_ENTER(c->k->b);
    static const char *const matches[] = {"Exact", "NotOlderThan"};
    const struct belfry_opts *opts = c->opts;
    bool has_timeout = belfry_opts_is_set(opts, BELFRY_OPT_COMMAND_TIMEOUT);
    int64_t timeout = has_timeout ? belfry_opts_number(opts, BELFRY_OPT_COMMAND_TIMEOUT) : (int64_t)c->k->timeout_ms;
    if (c->fn == NULL)
        return belfry_why_note(c->k->b, BELFRY_ERR_INVALID, "a callback is missing");
    if (!belfry_opts_fit(opts, where))
        return belfry_why_note(c->k->b, BELFRY_ERR_INVALID, belfry_opts_why(opts));
    if (timeout == 0)
        return belfry_why_note(c->k->b, BELFRY_ERR_INVALID, "command-timeout must be above 0");
    struct belfry_request_ask ask = {.mode = mode,
                                     .target = {.base = c->k->settings.base,
                                                .group_version = c->resource.group_version,
                                                .plural = c->resource.plural,
                                                .ns = c->resource.ns,
                                                .name = c->name,
                                                .selector = belfry_opts_text(opts, BELFRY_OPT_SELECTOR),
                                                .field_selector = belfry_opts_text(opts, BELFRY_OPT_FIELD_SELECTOR),
                                                .version = belfry_opts_text(opts, BELFRY_OPT_VERSION)},
                                     .metadata_only = belfry_opts_number(opts, BELFRY_OPT_METADATA_ONLY) != 0,
                                     .bounded = true,
                                     .timeout_ms = (uint32_t)timeout};
    if (belfry_opts_is_set(opts, BELFRY_OPT_VERSION_MATCH))
        ask.target.version_match = matches[belfry_opts_number(opts, BELFRY_OPT_VERSION_MATCH)];
    if (mode == BELFRY_DECODE_LIST)
        ask.target.limit = belfry_opts_number(opts, BELFRY_OPT_CHUNK_SIZE);
    if (mode == BELFRY_DECODE_WATCH) {
        ask.target.watch = true;
        ask.target.bookmarks = belfry_opts_number(opts, BELFRY_OPT_BOOKMARKS) != 0;
        ask.target.send_initial = belfry_opts_number(opts, BELFRY_OPT_SEND_INITIAL) != 0;
        ask.target.timeout_s = (belfry_opts_number(opts, BELFRY_OPT_WATCH_TIMEOUT) + 999) / 1000;
        if (ask.target.send_initial)
            ask.target.version_match = matches[1];
    }
    struct asker *asker = malloc(sizeof(*asker));
    if (asker == NULL)
        return belfry_why_note(c->k->b, BELFRY_ERR_NOMEM, NULL);
    *asker = (struct asker){c->fn, c->user};
    struct belfry_kube_request *request;
    enum belfry_err err = belfry_request_open(c->k, &ask, &hooks, asker, &request);
    if (err != BELFRY_OK)
        free(asker);
    else if (c->out != NULL)
        *c->out = request;
    bool bad_name = err == BELFRY_ERR_INVALID;
    return belfry_why_unless_ok(c->k->b, err, bad_name ? "the resource, its namespace or the name is malformed" : NULL);
}

int belfry_kube_get(struct belfry_kube *k, struct belfry_resource resource, const char *name,
                    const struct belfry_opts *opts, belfry_kube_fn fn, void *user, struct belfry_kube_request **out)
{
    struct caller c = {k, resource, name, opts, fn, user, out};
    if (name == NULL)
        return belfry_why_note(k->b, BELFRY_ERR_INVALID, "the name of the object is missing");
    return start_request(&c, BELFRY_DECODE_OBJECT, BELFRY_FOR_KUBE_GET);
}

int belfry_kube_list(struct belfry_kube *k, struct belfry_resource resource, const struct belfry_opts *opts,
                     belfry_kube_fn fn, void *user, struct belfry_kube_request **out)
{
    struct caller c = {k, resource, NULL, opts, fn, user, out};
    return start_request(&c, BELFRY_DECODE_LIST, BELFRY_FOR_KUBE_LIST);
}

int belfry_kube_watch(struct belfry_kube *k, struct belfry_resource resource, const struct belfry_opts *opts,
                      belfry_kube_fn fn, void *user, struct belfry_kube_request **out)
{
    struct caller c = {k, resource, NULL, opts, fn, user, out};
    return start_request(&c, BELFRY_DECODE_WATCH, BELFRY_FOR_KUBE_WATCH);
}

struct belfry_resource belfry_resource(const char *group_version, const char *plural, const char *ns)
{
    return (struct belfry_resource){.group_version = group_version, .plural = plural, .ns = ns};
}
