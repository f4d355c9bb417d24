/* tests/sim/checker_private.h: what checker.c (streams and their messages) and checker_watch.c (one watch and what it
 * received) share. Thread: owner. */
#ifndef BELFRY_SIM_CHECKER_PRIVATE_H
#define BELFRY_SIM_CHECKER_PRIVATE_H

#include <stdlib.h>

#include "base/buf.h"
#include "base/list.h"
#include "judge/judge.h"
#include "sim/checker.h"
#include "sim/violations.h"
#include "wire/scan.h"

/*  ASKED --created--> CREATED --canceled, compacted--> COMPACTED --cancel acknowledged--> GONE
 *    `--refused--> GONE  `--cancel acknowledged--> GONE */
enum watch_state { ASKED, CREATED, COMPACTED, GONE };

struct watch {
    struct belfry_list node;
    struct checker_stream *stream;
    enum watch_state state;
    struct checker_watch asked; /* key and range_end owned */
    int64_t explicit_id;        /* 0: the server chooses */
    unsigned cancels_sent;
    bool wronged;
    struct judge_watch facts;
    uint64_t puts, deletes; /* keys whose events it wants */
    bool soft;              /* direct, from 0, nothing sent yet: the start may be below what created showed */
    bool resumed;           /* of lines: it began by resuming from its start, and nothing has come since */
    int64_t heard;          /* the highest revision that has been shown to it, in any way */
    uint32_t pasts;         /* those it may belong to */
    unsigned born;          /* how many there were when it was asked for */
    unsigned seen;          /* pasts below this number have been considered */
    size_t progress_before; /* requests for progress that were sent before it */
    bool progress_owed;     /* a request was sent since it was created, and none has been answered */
};

struct checker_stream {
    struct belfry_list node;
    struct checker *checker;
    char name[32];
    enum checker_kind kind;
    struct belfry_list watches, gone; /* in the order of their requests */
    struct watch *first_asked;        /* the next to be answered; NULL: none */
    int64_t last_auto;                /* id; -1: none yet */
    bool any_explicit;
    bool guarded; /* rights are asked for */
    bool translated;
    bool wronged; /* later messages cannot be assigned any more */
    bool has_all; /* of lines: of the next create */
    size_t progress_sent, progress_answered;
    struct belfry_buf pieces; /* of a response that is not complete, joined */
    struct belfry_wire_watch piece;
};

/* Revisions that `compacted` may name. */
struct checker_revs {
    int64_t *all; /* owned */
    size_t n, room;
};

struct checker {
    const struct history *history;
    struct checker_opts opts;
    struct belfry_list streams;
    struct checker_revs rewrites; /* of listings after a rewrite */
    struct checker_revs capped;   /* sent by tiers that are behind a compaction */
    int64_t highest_listing;
    struct belfry_bytes *events; /* owned; of the response at hand */
    size_t cap_events;
    struct violations violations;
    struct checker_counts counts;
};

static inline bool checker_revs_have(const struct checker_revs *revs, int64_t rev)
{
    for (size_t i = 0; i < revs->n; i++) {
        if (revs->all[i] == rev)
            return true;
    }
    return false;
}

/* Zeroed. */
static inline void *checker_alloc(size_t size)
{
    void *p = calloc(1, size);
    if (p == NULL)
        abort();
    return p;
}

static inline struct watch *checker_watch_of(struct belfry_list *node)
{
    return belfry_container(node, struct watch, node);
}

/* ---- a watch ---- */

/* Reports a violation; the watch is ignored from now on. Returns false. */
bool checker_watch_wrong(struct watch *watch, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* "tier1.c2 watch 3 [a/, a0) from 12 prev_kv". Returns `text`. */
const char *checker_watch_text(const struct watch *watch, char *text, size_t size);

/* Of lines: has an event the value that is pinned, before or after? */
bool checker_watch_picks(const struct judge_event *event, unsigned pin);
bool checker_watch_picks_key(const struct judge_event *event, unsigned pin); /* of pages: is its key pinned? */

/* One function per kind of message. False: a violation, reported. */
bool checker_watch_created(struct watch *watch, int64_t header_rev);
bool checker_watch_events(struct watch *watch, const struct belfry_wire_watch *head, struct belfry_bytes message);
bool checker_watch_progress(struct watch *watch, int64_t rev);
bool checker_watch_compacted(struct watch *watch, int64_t rev);
void checker_watch_finish(struct watch *watch);

/* The first revision of which events may still be due. */
int64_t checker_watch_next(const struct watch *watch);

#endif
