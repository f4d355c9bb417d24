/* src/informer/informer_api.c: the public functions of an informer: handlers, reading, indexes. */
#include "base/bytes.h"
#include "base/clock.h"
#include "base/owner.h"
#include "client/opts.h"
#include "informer/index_path.h"
#include "informer/informer.h"

int belfry_informer_add(struct belfry_informer *informer, const struct belfry_opts *opts, belfry_news_fn fn, void *user,
                        struct belfry_handler **out)
{
    BELFRY_OWNER_ENTER(informer->b);
    if (fn == NULL)
        return belfry_why_note(informer->b, BELFRY_ERR_INVALID, "a callback is missing");
    if (!belfry_opts_fit(opts, BELFRY_FOR_HANDLER))
        return belfry_why_note(informer->b, BELFRY_ERR_INVALID, belfry_opts_why(opts));
    if (!belfry_informer_is_open(informer))
        return belfry_why_note(informer->b, BELFRY_ERR_CANCELED, "the informer has ended");
    struct belfry_handler *handler;
    uint32_t resync_ms = (uint32_t)belfry_opts_number(opts, BELFRY_OPT_RESYNC);
    enum belfry_err err = belfry_audience_add(informer->audience, fn, user, resync_ms, belfry_clock_ms(), &handler);
    if (err != BELFRY_OK)
        return belfry_why_note(informer->b, err, NULL);
    belfry_informer_arm(informer);
    if (out != NULL)
        *out = handler;
    return BELFRY_OK;
}

int belfry_informer_synced(const struct belfry_informer *informer)
{
    return informer->synced;
}

/* ---- the store ---- */

static struct belfry_bytes key_after(const struct belfry_object *after)
{
    return after == NULL ? (struct belfry_bytes){0} : belfry_object_key(after);
}

const struct belfry_object *belfry_informer_get(const struct belfry_informer *informer, struct belfry_bytes key)
{
    return belfry_store_get(informer->store, key);
}

const struct belfry_object *belfry_informer_next(const struct belfry_informer *informer, struct belfry_bytes prefix,
                                                 const struct belfry_object *after)
{
    return belfry_store_next(informer->store, prefix, key_after(after));
}

size_t belfry_informer_count(const struct belfry_informer *informer)
{
    return belfry_store_count(informer->store);
}

const struct belfry_informer_stats *belfry_informer_get_stats(struct belfry_informer *informer)
{
    BELFRY_OWNER_ENTER(informer->b);
    struct belfry_informer_stats *stats = &informer->stats;
    stats->objects = belfry_store_count(informer->store);
    stats->bytes = belfry_store_bytes(informer->store);
    stats->object_bytes = belfry_store_object_bytes(informer->store);
    if (informer->source.ops != NULL) {
        struct belfry_source_counts counts = {0};
        informer->source.ops->counts(informer->source.impl, &counts);
        stats->lists = counts.lists;
        stats->relists = counts.relists;
        stats->watches = counts.watches;
        stats->retries = counts.retries;
    }
    return stats;
}

/* ---- indexes ---- */

static int index_added(struct belfry_informer *informer, enum belfry_err err)
{
    const char *why = err == BELFRY_ERR_INVALID ? "the index has a name that is taken, or a malformed path"
                      : err == BELFRY_ERR_LIMIT ? "the informer has as many indexes as it can"
                                                : NULL;
    return belfry_why_unless_ok(informer->b, err, why);
}

int belfry_informer_index(struct belfry_informer *informer, const char *name, belfry_index_fn fn, void *user)
{
    BELFRY_OWNER_ENTER(informer->b);
    return index_added(informer, belfry_store_index(informer->store, name, fn, user, NULL));
}

int belfry_informer_index_path(struct belfry_informer *informer, const char *name, const char *path)
{
    BELFRY_OWNER_ENTER(informer->b);
    return index_added(informer, belfry_index_path_add(informer->store, name, path));
}

const struct belfry_object *belfry_informer_by(const struct belfry_informer *informer, const char *name,
                                               struct belfry_bytes value, const struct belfry_object *after)
{
    return belfry_store_by(informer->store, name, value, key_after(after));
}
