/* tests/support/model.h
 *
 * model: etcd's watch server in plain memory, for tests of the machines that talk to it.
 *
 * A history of revisions over a few keys (puts, deletes, transactions), compaction, and one Watch stream to a member
 * that may lag behind the history. The stream keeps etcd's rules where a client can tell: created answers and cancel
 * confirmations wait in one queue, events and progress in another, and the sender picks from either at random; events
 * of an id that was not announced are parked and flushed, never fragmented, behind its created; a confirmed cancel
 * drops what is queued of its id; replay takes a few revisions at a time under a header that runs ahead; a full queue
 * sends a watcher back to replay; manual progress is answered only if every watcher is synced and none starts in the
 * future; a compaction cancel has a header of zero and blocks manual progress until it is confirmed; ids are not used
 * twice.
 *
 * Everything random comes from the generator given, so that a seed replays a run. What a run needs of bad manners is
 * asked for by hand: model_inject_*(), model_plant().
 *
 * Thread: owner.
 * Memory: a few tens of kilobytes, all fixed but the messages.
 */
#ifndef BELFRY_TESTS_MODEL_H
#define BELFRY_TESTS_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/blob.h"
#include "base/rng.h"
#include "wire/scan.h"

#define MODEL_KEYS       8    /* "k0" .. "k7" */
#define MODEL_REVS_MAX   1024 /* a longer history is a mistake of the test */
#define MODEL_EVENTS_MAX (MODEL_REVS_MAX * MODEL_KEYS)
#define MODEL_VALUE_MAX  64
#define MODEL_FIRST_REV  2 /* etcd's first write; revision 1 is the empty store */

struct model_event {
    int64_t rev;
    int key;
    bool is_delete;
    int64_t create_rev, version; /* 0 for a delete */
    size_t prev; /* index + 1 of the event that wrote what this one replaces; 0: the key was not there */
};

/* What a watch asks for, as the server reads it. */
struct model_range {
    char key[4], end[4];
    size_t key_len, end_len;
    bool no_put, no_delete;
};

enum model_plant { MODEL_PLANT_NONE, MODEL_PLANT_DROP, MODEL_PLANT_DOUBLE, MODEL_PLANT_PROGRESS };

/* Counts of what happened, so that a suite can insist on having met it. */
struct model_counts {
    uint64_t live, replays, fragmented, parked_flushes, compact_cancels, victims, dropped_by_cancel;
    uint64_t progress_one, progress_all, progress_refused, progress_before_created, planted;
};

struct model;

struct model *model_create(struct belfry_rng *rng);
void model_destroy(struct model *model);

/* ---- the history ---- */

int64_t model_head(const struct model *model);      /* the newest revision */
int64_t model_compacted(const struct model *model); /* 0: never */

/* One more revision: random events, or a put of every key. */
void model_write(struct model *model);
void model_write_all(struct model *model);

/* `rev` is at most the head; a revision below the last compaction is ignored. */
void model_compact(struct model *model, int64_t rev);

/* The cluster comes back from a backup: all after `rev` never was. The stream is closed. */
void model_rewind(struct model *model, int64_t rev);

/* Events of one revision that match, in order; returns how many. `out` has room for MODEL_KEYS. */
size_t model_matching(const struct model *model, const struct model_range *range, int64_t rev,
                      const struct model_event **out);

/* Is there a match in [from, to]? */
bool model_any(const struct model *model, const struct model_range *range, int64_t from, int64_t to);

/* The event, or what it replaced, as etcd would encode it. */
struct belfry_wire_kv model_kv(const struct model_event *event, char value[MODEL_VALUE_MAX]);
const struct model_event *model_prev(const struct model *model, const struct model_event *event);

/* ---- the stream ---- */

struct model_stream_opts {
    int64_t lag;           /* the member is so many revisions behind */
    size_t fragment_bytes; /* a response of at least this is cut */
    int replay_revs;       /* at most so many revisions in a replay response */
    size_t queue_max;      /* event queue */
    int64_t repeats;       /* as old servers did: replay begins so many revisions before the start asked for */
};

void model_open(struct model *model, const struct model_stream_opts *opts);
void model_close(struct model *model); /* what is on its way is lost */
bool model_is_open(const struct model *model);

void model_request(struct model *model, struct belfry_bytes request); /* a WatchRequest arrives */
void model_advance(struct model *model);                              /* the member applies one more revision */
void model_replay(struct model *model);                               /* one pass over watchers that are behind */
void model_tick(struct model *model);                                 /* periodic progress */
bool model_send(struct model *model); /* one response goes on the wire; false: nothing is queued */

/* The next message off the wire, owned by the caller; NULL: none. */
struct belfry_blob *model_receive(struct model *model);

/* Events of an id that was never given out; a cancel without reason of a random watcher (false: there is none). */
void model_inject_unknown(struct model *model);
bool model_inject_cancel(struct model *model);

/* The next event response (or progress) is made wrong in this way. */
void model_plant(struct model *model, enum model_plant plant);

const struct model_counts *model_counts(const struct model *model);

#endif
