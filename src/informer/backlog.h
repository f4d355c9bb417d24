/* src/informer/backlog.h
 *
 * backlog: what a source told although the informer is paused: the rest of the batch that was on the stack when a
 * handler asked for the pause (source.h). It is looked at when the informer goes on, before the source goes on.
 *
 * Thread: owner.
 * Memory: one allocation a word and the objects; at most one batch of the source's.
 */
#ifndef BELFRY_INFORMER_BACKLOG_H
#define BELFRY_INFORMER_BACKLOG_H

#include <stdbool.h>

#include "base/list.h"
#include "client/stored_object.h"

enum belfry_told_kind { BELFRY_TOLD_BEGIN, BELFRY_TOLD_PUT, BELFRY_TOLD_REMOVED, BELFRY_TOLD_SYNCED };

/* One word of a source's. */
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

/* Consumes the object, failure included; copies the key. Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err belfry_backlog_add(struct belfry_backlog *backlog, const struct belfry_told *told);

/* Takes the oldest word out: it is the caller's, with its object's reference, until it is freed. NULL: none. */
struct belfry_kept;
struct belfry_kept *belfry_backlog_take(struct belfry_backlog *backlog, struct belfry_told *out);
void belfry_backlog_free(struct belfry_kept *kept); /* the object's reference is not touched */

#endif
