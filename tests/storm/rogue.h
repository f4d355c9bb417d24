/* tests/storm/rogue.h
 *
 * rogue: a client that is not in good order: requests of every dialect, sound and broken, in pieces; frames that are
 * wrong or too many; windows of zero; reads that are slow or do not come.
 *
 * Thread: owner.
 */
#ifndef BELFRY_STORM_ROGUE_H
#define BELFRY_STORM_ROGUE_H

#include "storm/choices.h"
#include "storm/line.h"

#define ROGUE_STREAMS 8 /* that it remembers */

enum rogue_speech { ROGUE_HTTP2, ROGUE_HTTP1, ROGUE_NOISE };

struct rogue {
    struct line line;
    enum rogue_speech speech;
    bool is_wild; /* otherwise what it sends is sound; it may still be half of it, too much, or not read */
    uint32_t next_stream;
    uint32_t streams[ROGUE_STREAMS]; /* 0: none */
    uint32_t watch;                  /* a stream of etcd's Watch; 0: none */
    uint32_t reads;                  /* bytes that it reads in a turn; 0: none */
    uint32_t writes;                 /* bytes that it sends in a turn */
};

void rogue_init(struct rogue *rogue);
void rogue_open(struct rogue *rogue, struct choices *choices);
bool rogue_is_open(const struct rogue *rogue);
void rogue_close(struct rogue *rogue);

void rogue_act(struct rogue *rogue, struct choices *choices); /* one more thing to send, or an end */
void rogue_turn(struct rogue *rogue);                         /* sends and reads as fast as it does */

#endif
