/* tests/sim/link.h
 *
 * link: one connection through a network, until it breaks. It carries a Watch stream: requests one way, bytes the
 * other, late, a few at a time. Beside it there may be calls of one request and one answer: they do not wait for the
 * stream's window, nor for each other, but a silent network holds them too, and they end with the connection.
 *
 * The client's side decides the window; what it has not read counts against it, on the way or not. Each side ends its
 * half on its own; the link is freed when both have.
 *
 * Thread: the one thread of the simulator.
 */
#ifndef BELFRY_SIM_LINK_H
#define BELFRY_SIM_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/blob.h"
#include "base/buf.h"
#include "sim/sched.h"

struct link;

struct link_opts {
    struct sched *sched;
    struct actor *client, *server; /* woken when there is something for them */
    uint64_t delay_ms;             /* most of what is on its way takes up to this long */
    size_t window;
};

/* Both sides hold it. */
struct link *link_create(const struct link_opts *opts);

/* ---- the client's side ---- */

void link_send(struct link *link, struct belfry_bytes request);

/* Moves up to `max` bytes that have arrived into `to`; they leave the window. */
size_t link_read(struct link *link, size_t max, struct belfry_buf *to);
size_t link_arrived(const struct link *link); /* bytes that could be read now */
uint64_t link_client_due(const struct link *link);
bool link_ended(const struct link *link); /* everything that arrived has been read, and no more will come */
void link_set_window(struct link *link, size_t window);
void link_leave_client(struct link *link);

/* An answer to a call. */
struct link_answer {
    uint64_t call;
    int code; /* of gRPC */
    /* what no wire has, for those who judge: */
    bool relayed;  /* not the server's own */
    uint64_t boot; /* of the server, a number of its own */
    uint64_t past; /* that it was in */
};

/* A point is a question of follow/readpoint.h, and says so. Returns the number of the call. */
enum link_call { LINK_CALL_READ, LINK_CALL_POINT };
uint64_t link_call(struct link *link, enum link_call kind, struct belfry_bytes request);

/* The next answer that has arrived; into an emptied buf its message, or the text of its status. */
bool link_answered(struct link *link, struct link_answer *out, struct belfry_buf *message);
uint64_t link_answers_due(const struct link *link);

/* ---- the server's side ---- */

bool link_request(struct link *link,
                  struct belfry_buf *out); /* the next request that has arrived, into an emptied buf */
size_t link_room(const struct link *link);
void link_write(struct link *link, const uint8_t *data, size_t len);
void link_write_message(struct link *link, struct belfry_bytes message); /* with gRPC's prefix */
uint64_t link_server_due(const struct link *link);
bool link_client_gone(const struct link *link);
/* The next call that has arrived. */
bool link_called(struct link *link, uint64_t *call, enum link_call *kind, struct belfry_buf *request);
void link_answer(struct link *link, const struct link_answer *answer, struct belfry_bytes message);
uint64_t link_calls_due(const struct link *link);
bool link_is_quiet(const struct link *link); /* nothing is on its way, either way */
void link_leave_server(struct link *link);

/* ---- the network ---- */

/* It breaks: what is on its way is lost, both sides are told at some time. */
void link_break(struct link *link);

/* Nothing arrives before then, either way. */
void link_silence(struct link *link, uint64_t until_ms);

/* Cuts the next message out of a stream of bytes; NULL: none is whole. */
struct belfry_blob *link_cut(struct belfry_buf *bytes);

#endif
