/* src/client/watch_api.c: the public calls on watches and follows: their options, and the session's refusals. */
#include <belfry/belfry.h>

#include "base/clock.h"
#include "base/owner.h"
#include "client/opts.h"
#include "client/range_bytes.h"
#include "client/session.h"
#include "client/watches.h"

static int opened(struct belfry *b, enum belfry_err err, struct belfry_watch *w, struct belfry_watch **out)
{
    if (err != BELFRY_OK)
        return belfry_why_note(b, err, belfry_range_why(err));
    if (out != NULL)
        *out = w;
    return BELFRY_OK;
}

int belfry_watch_open(struct belfry *b, struct belfry_range range, const struct belfry_opts *opts, belfry_batch_fn fn,
                      void *user, struct belfry_watch **out)
{
    BELFRY_OWNER_ENTER(b);
    enum belfry_err err = belfry_session_refuses(b, fn != NULL, opts, BELFRY_FOR_WATCH);
    if (err != BELFRY_OK)
        return err;
    struct belfry_watch_caller caller = {range, fn, user};
    struct belfry_mux_spec spec = {.rev = belfry_opts_number(opts, BELFRY_OPT_REV),
                                   .prev_kv = belfry_opts_number(opts, BELFRY_OPT_PREV_KV) != 0,
                                   .progress_notify = belfry_opts_number(opts, BELFRY_OPT_PROGRESS_NOTIFY) != 0,
                                   .created_notify = belfry_opts_number(opts, BELFRY_OPT_CREATED_NOTIFY) != 0,
                                   .no_put = belfry_opts_number(opts, BELFRY_OPT_NO_PUT) != 0,
                                   .no_delete = belfry_opts_number(opts, BELFRY_OPT_NO_DELETE) != 0,
                                   .fragment = belfry_opts_number(opts, BELFRY_OPT_FRAGMENT) != 0,
                                   .unmerged = belfry_opts_number(opts, BELFRY_OPT_UNMERGED) != 0,
                                   .pause_bytes = (size_t)belfry_opts_number(opts, BELFRY_OPT_PAUSE_BYTES)};
    struct belfry_watch *w = NULL;
    err = belfry_watches_open(b->watches, &caller, spec, &w);
    return opened(b, err, w, out);
}

int belfry_follow_open(struct belfry *b, struct belfry_range range, const struct belfry_opts *opts, belfry_batch_fn fn,
                       void *user, struct belfry_watch **out)
{
    BELFRY_OWNER_ENTER(b);
    enum belfry_err err = belfry_session_refuses(b, fn != NULL, opts, BELFRY_FOR_FOLLOW);
    if (err != BELFRY_OK)
        return err;
    struct belfry_watch_caller caller = {range, fn, user};
    struct belfry_watch_follow follow = {.once = belfry_opts_number(opts, BELFRY_OPT_ONCE) != 0,
                                         .prev_kv = belfry_opts_number(opts, BELFRY_OPT_PREV_KV) != 0,
                                         .page_bytes = (size_t)belfry_opts_number(opts, BELFRY_OPT_PAGE_BYTES),
                                         .pause_bytes = (size_t)belfry_opts_number(opts, BELFRY_OPT_PAUSE_BYTES),
                                         .seed = belfry_rng_next(&b->rng)};
    struct belfry_watch *w = NULL;
    err = belfry_watches_follow(b->watches, &caller, &follow, &w);
    return opened(b, err, w, out);
}

void belfry_watch_resume(struct belfry_watch *w)
{
    BELFRY_OWNER_ENTER(belfry_watches_session(w));
    belfry_watches_resume(w);
}

void belfry_watch_close(struct belfry_watch *w)
{
    if (w == NULL)
        return;
    BELFRY_OWNER_ENTER(belfry_watches_session(w));
    belfry_watches_close(w);
}

int belfry_request_progress(struct belfry *b)
{
    BELFRY_OWNER_ENTER(b);
    if (!belfry_session_has_etcd(b))
        return belfry_why_note(b, BELFRY_ERR_INVALID, "the session has no etcd: it was opened without endpoints");
    belfry_mux_request_progress(belfry_stream_mux(b->stream), belfry_clock_ms());
    belfry_session_poke(b);
    return BELFRY_OK;
}
