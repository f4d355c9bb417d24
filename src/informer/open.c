/* src/informer/open.c: the two ways to open an informer. */
#include "base/owner.h"
#include "client/opts.h"
#include "informer/informer.h"
#include "informer/source_keys.h"
#include "informer/source_resource.h"
#include "kapi/kube_client.h"

/* Attaches the source, or closes the informer if there is none. The source may have noted why, as a follow does. */
static int attach_source(struct belfry *b, struct belfry_informer *informer, enum belfry_err err,
                         struct belfry_source source, struct belfry_informer **out)
{
    if (err != BELFRY_OK) {
        belfry_informer_close(informer);
        return b->why[0] != '\0' ? err : belfry_why_note(b, err, NULL);
    }
    belfry_informer_attach(informer, source);
    if (out != NULL)
        *out = informer;
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
    err = belfry_source_keys_open(b, range, opts, &belfry_informer_events, informer, &source);
    return attach_source(b, informer, err, source, out);
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
    err = belfry_source_resource_open(k, resource, opts, &belfry_informer_events, informer, &source);
    return attach_source(k->b, informer, err, source, out);
}
