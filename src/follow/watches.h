/* src/follow/watches.h
 *
 * watches: the watches that upstream.h and backfill.h want, on two Watch streams: those of backfills on one, the live
 * watch and its replay windows on the other.
 *
 * What comes on a watch goes to the machine that wants it. A watch that its machine paused, or that is held, keeps
 * what it receives in the stream's mux. Live watches are held until the owner has judged the server (`judged`), and
 * every watch for a moment when memory is short.
 *
 * Thread: owner (the streams').
 */
#ifndef BELFRY_FOLLOW_WATCHES_H
#define BELFRY_FOLLOW_WATCHES_H

#include "client/stream.h"
#include "follow/backfill.h"
#include "follow/upstream.h"

#define WATCHES (BACKFILL_SLOT + BACKFILLS)

/* Called from inside watches_deliver() and watches_created(); all but `ended` for watches of the live stream only. */
struct watches_events {
    /* Before the machine receives them: a created answer; events or progress; the end of a watch. */
    void (*created)(const struct belfry_wire_header *header, void *user);
    void (*came)(const struct belfry_wire_header *header, void *user);
    void (*ended)(bool live, const struct belfry_mux_action *action, void *user);
    /* The machine took events or progress. */
    void (*taken)(const struct belfry_mux_action *action, uint64_t now_ms, void *user);
};

struct watches_opts {
    struct belfry_stream *live, *back; /* lent, as all that follows */
    struct upstream *upstream;
    struct backfill *backfill;
    struct belfry_bytes key, range_end; /* the scope */
    const struct watches_events *events;
    void *user;
    const struct belfry_log *log;
};

struct watch_slot {
    struct watches *watches;
    struct belfry_mux_watch *watch; /* NULL: none */
    bool paused;                    /* by its machine, which will say when it takes more */
    bool held;                      /* its machine has not received what came */
};

struct watches {
    struct watches_opts opts; /* fixed at creation */
    struct watch_slot slots[WATCHES];
    struct belfry_wire_event *room; /* owned; the events of one revision */
    size_t room_cap;
    uint64_t unhold_ms; /* when held watches are tried again; BELFRY_NEVER: none is due */
    bool judged;        /* set by the owner: the server of the live stream may be followed */
};

void watches_init(struct watches *watches, const struct watches_opts *opts, bool judged);
void watches_fini(struct watches *watches); /* after the streams; one of zeroes is fine */

/* Does what a machine wants of a watch: WATCH, CLOSE, PAUSE, RESUME, and PROGRESS by asking for it. */
void watches_act(struct watches *watches, const struct upstream_action *action, uint64_t now_ms);

/* Is the slot one of the live stream? */
bool watches_is_live(unsigned slot);

/* As belfry_stream_opts.deliver and .created. */
enum belfry_mux_verdict watches_deliver(struct watches *watches, const struct belfry_mux_action *action);
void watches_created(struct watches *watches, struct belfry_mux_watch *watch, const struct belfry_wire_header *header);

/* Ends the watches of the live stream, or only those that are held: upstream asks for new ones. */
void watches_end_live(struct watches *watches, enum belfry_err err, bool held_only, uint64_t now_ms);

/* Gives held watches to their machines again, if it is time. */
void watches_unhold(struct watches *watches, uint64_t now_ms);

#endif
