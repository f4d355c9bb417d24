/* src/core/cut.h
 *
 * cut: a past that ended. Watchers of an older past are judged, stream by stream, over as many turns as it takes: after
 * a rewritten past all are lost; after a compaction the watchers that need a revision that is gone; after damage none.
 * The others continue.
 *
 * Thread: the worker's.
 */
#ifndef BELFRY_CORE_CUT_H
#define BELFRY_CORE_CUT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "core/evlog.h"
#include "core/registry.h"

struct cut {
    struct registry *registry;  /* lent */
    struct evlog_cut cut;       /* the last one */
    struct belfry_list streams; /* it has not judged all their watchers yet */
    uint64_t judged;            /* the past whose cut has judged every stream */
};

void cut_init(struct cut *cut, struct registry *registry);

/* P moves to the start of the new past, and all streams are to be judged. The cut before is done. */
void cut_begin(struct cut *cut, const struct evlog_cut *by);

bool cut_is_done(const struct cut *cut);

/* Judges streams within the turn's budget. True: all are judged. */
bool cut_judge(struct cut *cut);

/* Judges this stream now. */
void cut_stream(struct cut *cut, struct stream *stream);

#endif
