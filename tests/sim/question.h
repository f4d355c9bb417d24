/* tests/sim/question.h
 *
 * question: the small question of follow/readpoint.c on its way upstream, as a call on the link of the live watch.
 * Here are the parts of the client that the real readpoint is given in its place: the stream, its connection and the
 * call. There is no auth on this way.
 *
 * Thread: the one thread of the simulator.
 */
#ifndef BELFRY_SIM_QUESTION_H
#define BELFRY_SIM_QUESTION_H

#include "base/buf.h"
#include "client/stream.h"
#include "sim/link.h"

/* What readpoint.c takes for the stream of the live watch. */
struct belfry_stream {
    struct sched *sched;
    struct link *link; /* NULL: none at the moment */
    bool served;       /* the watch has been answered on it */
    uint64_t connects;
    struct belfry_grpc_call *call; /* under way; NULL: none */
};

void question_init(struct belfry_stream *stream, struct sched *sched);
void question_fini(struct belfry_stream *stream); /* after its readpoint */

void question_link(struct belfry_stream *stream, struct link *link); /* NULL: it is down, and the call under way ends */

void question_served(struct belfry_stream *stream); /* the first message of the watch has come, or another one */

/* Tells the answer that has come, or that there is none. */
void question_run(struct belfry_stream *stream, uint64_t now_ms);
uint64_t question_due(const struct belfry_stream *stream);

#endif
