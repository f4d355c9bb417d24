/* src/informer/informer.h
 *
 * informer: the inside of struct belfry_informer: a source changes the store, and the audience reports it.
 *
 *     FOLLOWING --source has reported the whole state--> SWEEPING --vanished objects reported, SYNCED--> FOLLOWING
 *     any --source ends, no memory, over max-bytes, the session closes--> ENDING --END reported--> GONE
 *     any --belfry_informer_close()--> GONE: freed when no call of it is on the stack
 *
 * While it is paused, nothing changes: no store, no walk, no sweep. Events that the source still reports (the rest of
 * the batch that was on the stack, source.h) are kept in the backlog. When the informer resumes, it handles them before
 * the source resumes.
 *
 * The functions that open an informer (belfry_informer_keys() in source_keys.c, belfry_informer_resource() in
 * source_resource.c) do:
 *
 *     err = belfry_informer_create(b, opts, BELFRY_FOR_INFORMER_KEYS, fn, user, &informer);
 *     err = ... open a source with belfry_informer_events and the informer as their user ...
 *     return belfry_informer_opened(informer, err, source, out);
 *
 * Thread: owner.
 * Memory: the store (object_store.h), the handlers (audience.h), and one allocation for each event in the backlog.
 */
#ifndef BELFRY_INFORMER_INFORMER_H
#define BELFRY_INFORMER_INFORMER_H

#include <belfry/informer.h>

#include "base/owner.h"
#include "client/session.h"
#include "informer/audience.h"
#include "informer/object_store.h"
#include "informer/source.h"

#define BELFRY_INFORMER_SWEEP 128 /* vanished objects reported in one turn */

enum belfry_informer_state {
    BELFRY_INFORMER_FOLLOWING,
    BELFRY_INFORMER_SWEEPING,
    BELFRY_INFORMER_ENDING,
    BELFRY_INFORMER_GONE
};

struct belfry_informer {
    /* fixed */
    struct belfry *b;
    size_t max_bytes;
    /* owner */
    enum belfry_informer_state state;
    struct belfry_guest guest;
    struct belfry_timer timer;
    struct belfry_store *store;
    struct belfry_audience *audience; /* NULL: the informer is gone */
    struct belfry_source source;      /* .ops NULL: not attached yet, or closed */
    struct belfry_list backlog;       /* events of the source that wait for the end of a pause, oldest first */
    bool paused;                      /* by a handler */
    bool source_paused;               /* and the source was paused */
    bool synced;                      /* the state has been complete */
    unsigned calling;                 /* entry points on the stack */
    struct belfry_informer_stats stats;
    BELFRY_OWNER;
};

/* Creates an informer on the session, without a source, with its first handler unless `fn` is NULL. `opts` must be
 * options for `where`; this function uses resync and max-bytes.
 * Errors: BELFRY_ERR_INVALID, BELFRY_ERR_NOMEM, BELFRY_ERR_CANCELED: as belfry_informer_keys(). */
BELFRY_NODISCARD enum belfry_err belfry_informer_create(struct belfry *b, const struct belfry_opts *opts,
                                                        unsigned where, belfry_news_fn fn, void *user,
                                                        struct belfry_informer **out);

/* The callbacks for its source; `user` is the informer. */
extern const struct belfry_source_events belfry_informer_events;

/* Gives the source to the informer, which closes it. */
void belfry_informer_attach(struct belfry_informer *informer, struct belfry_source source);

/* Ends the opening: attaches the source, and stores the informer in *out unless `out` is NULL. If the source could not
 * be opened, closes the informer and returns `err`, which it notes for belfry_why() if the source did not. */
BELFRY_NODISCARD enum belfry_err belfry_informer_opened(struct belfry_informer *informer, enum belfry_err err,
                                                        struct belfry_source source, struct belfry_informer **out);

/* Neither ended nor closed. */
static inline bool belfry_informer_is_open(const struct belfry_informer *informer)
{
    return informer->state <= BELFRY_INFORMER_SWEEPING;
}

/* Sets the timer for the next work. May be called from anywhere on the thread. */
void belfry_informer_arm(struct belfry_informer *informer);

#endif
