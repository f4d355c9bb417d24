/* src/informer/backlog.h
 *
 * backlog: events that a source reported although the informer is paused: the rest of the batch that was on the stack
 * when a handler requested the pause (source.h). The informer handles them when it resumes, before the source resumes.
 *
 * Thread: owner.
 * Memory: one allocation per event, and the objects; at most one batch of the source.
 */
#ifndef BELFRY_INFORMER_BACKLOG_H
#define BELFRY_INFORMER_BACKLOG_H

#include <stdbool.h>

#include "base/list.h"
#include "client/stored_object.h"

enum belfry_told_kind { BELFRY_TOLD_BEGIN, BELFRY_TOLD_PUT, BELFRY_TOLD_REMOVED, BELFRY_TOLD_SYNCED };

/* One event of a source. */
struct belfry_told {
    enum belfry_told_kind kind;
    struct belfry_object *object; /* PUT; REMOVED: its last state, or NULL. One reference */
    struct belfry_bytes key;      /* REMOVED */
    bool missed;                  /* REMOVED */
};

struct belfry_backlog {
    struct belfry_list kept;
};

void belfry_backlog_init(struct belfry_backlog *backlog);
void belfry_backlog_fini(struct belfry_backlog *backlog);

static inline bool belfry_backlog_empty(const struct belfry_backlog *backlog)
{
    return belfry_list_empty(&backlog->kept);
}

/* Consumes the object, also on failure; copies the key. Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err belfry_backlog_add(struct belfry_backlog *backlog, const struct belfry_told *told);

/* Removes the oldest event; the caller owns it and its object's reference, until it frees it. NULL: none. */
struct belfry_kept;
struct belfry_kept *belfry_backlog_take(struct belfry_backlog *backlog, struct belfry_told *out);
void belfry_backlog_free(struct belfry_kept *kept); /* does not release the object's reference */

#endif
