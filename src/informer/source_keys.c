/* src/informer/source_keys.c
 *
 * source_keys: an informer on a range of etcd keys; its source is a follow whose state and changes become objects.
 */
#include <belfry/informer.h>

#include <stdlib.h>

#include "base/owner.h"
#include "client/opts.h"
#include "client/session.h"
#include "client/watches.h"
#include "informer/informer.h"

struct source_keys {
    struct belfry_watch *watch; /* NULL: ended */
    const struct belfry_source_events *events;
    void *user;
    bool paused, closed;
    unsigned depth; /* events on the stack */
    uint64_t lists;
};

static void free_keys_if_closed(struct source_keys *s)
{
    if (s->closed && s->depth == 0)
        free(s);
}

static void tell_event(struct source_keys *s, const struct belfry_event *event, bool missed)
{
    if (event->op == BELFRY_DELETE) {
        s->events->removed(event->key, NULL, missed, s->user);
        return;
    }
    struct belfry_object_key_value kv = {.key = event->key,
                                         .value = event->value,
                                         .rev = event->mod_rev,
                                         .create_rev = event->create_rev,
                                         .writes = event->version,
                                         .lease = event->lease};
    struct belfry_object *object;
    enum belfry_err err = belfry_object_of_key(&kv, &object);
    if (err == BELFRY_OK)
        s->events->put(object, s->user);
    else
        s->events->end(err, belfry_strerror(err), s->user);
}

static enum belfry_next on_follow_batch(struct belfry_watch *watch, const struct belfry_batch *batch, void *user)
{
    struct source_keys *s = user;
    (void)watch;
    s->depth++;
    switch (batch->kind) {
    case BELFRY_STATE:
    case BELFRY_CHANGES: /* all of it: a pause takes effect with the next batch */
        for (const struct belfry_event *e = NULL; !s->closed && (e = belfry_batch_next(batch, e)) != NULL;)
            tell_event(s, e, batch->kind == BELFRY_STATE);
        break;
    case BELFRY_SYNCED:
        s->lists++;
        s->events->synced(s->user);
        break;
    case BELFRY_LINK:
        s->events->link(batch->err, batch->why, s->user);
        break;
    case BELFRY_END:
        s->watch = NULL;
        s->events->end(batch->err, batch->why, s->user);
        break;
    case BELFRY_PROGRESS:
    case BELFRY_CREATED: /* not requested */
        break;
    }
    s->depth--;

    enum belfry_next next = s->closed ? BELFRY_STOP : s->paused ? BELFRY_PAUSE : BELFRY_MORE;
    free_keys_if_closed(s);
    return next;
}

/* ---- operations of the source ---- */

static void pause_keys(void *source)
{
    struct source_keys *s = source;
    s->paused = true;
    if (s->depth == 0 && s->watch != NULL)
        belfry_watches_pause(s->watch); /* otherwise the end of the batch does it */
}

static void resume_keys(void *source)
{
    struct source_keys *s = source;
    s->paused = false;
    if (s->watch != NULL)
        belfry_watch_resume(s->watch);
}

static void count_keys(const void *source, struct belfry_source_counts *out)
{
    const struct source_keys *s = source;
    *out = (struct belfry_source_counts){
        .lists = s->lists, .relists = s->lists > 0 ? s->lists - 1 : 0, .watches = s->lists};
}

static void close_keys(void *source)
{
    struct source_keys *s = source;
    s->closed = true;
    if (s->depth == 0)
        belfry_watch_close(s->watch); /* otherwise the end of the batch does it */
    free_keys_if_closed(s);
}

/* ---- opening ---- */

/* Errors: as belfry_follow_open(). */
static enum belfry_err open_keys(struct belfry_informer *informer, struct belfry_range range,
                                 const struct belfry_opts *opts, struct belfry_source *out)
{
    static const struct belfry_source_ops ops = {
        .pause = pause_keys, .resume = resume_keys, .counts = count_keys, .close = close_keys};
    struct source_keys *s = calloc(1, sizeof(*s));
    if (s == NULL)
        return BELFRY_ERR_NOMEM;
    s->events = &belfry_informer_events;
    s->user = informer;

    /* The only informer option that a follow also has. */
    struct belfry_opts *of_follow = NULL;
    const char *page_bytes = belfry_opts_text(opts, BELFRY_OPT_PAGE_BYTES);
    int err = page_bytes == NULL ? BELFRY_OK : belfry_opts_set(&of_follow, "page-bytes", page_bytes);
    if (err == BELFRY_OK)
        err = belfry_follow_open(informer->b, range, of_follow, on_follow_batch, s, &s->watch);
    belfry_opts_free(of_follow);
    if (err != BELFRY_OK) {
        free(s);
        return (enum belfry_err)err;
    }
    *out = (struct belfry_source){.ops = &ops, .impl = s};
    return BELFRY_OK;
}

int belfry_informer_keys(struct belfry *b, struct belfry_range range, const struct belfry_opts *opts, belfry_news_fn fn,
                         void *user, struct belfry_informer **out)
{
    BELFRY_OWNER_ENTER(b);
    struct belfry_informer *informer;
    struct belfry_source source = {0};
    b->why[0] = '\0';
    enum belfry_err err = belfry_informer_create(b, opts, BELFRY_FOR_INFORMER_KEYS, fn, user, &informer);
    if (err != BELFRY_OK)
        return err;
    err = open_keys(informer, range, opts, &source);
    return belfry_informer_opened(informer, err, source, out);
}
