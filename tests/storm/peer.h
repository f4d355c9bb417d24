/* tests/storm/peer.h
 *
 * peer: a client's connection with HTTP/2 that sends what its library would send (habit.h), frame for frame: SETTINGS
 * and their ACKs, window given back, PINGs that measure bandwidth or see whether the server lives, cancels, goodbyes.
 *
 *     AWAY --peer_open()--> SILENT --its time has come--> ON --peer_leave()--> AWAY
 *
 * It is in good order, so whatever the server does but serve is a finding: a GOAWAY, a reset, an end of the connection,
 * a window that is not given back, a PING without an answer.
 *
 * Thread: owner. Events come from inside peer_turn() alone.
 */
#ifndef BELFRY_STORM_PEER_H
#define BELFRY_STORM_PEER_H

#include "storm/habit.h"
#include "storm/line.h"

#define PEER_CALLS 128 /* open at once */
#define PEER_WHO   96

struct peer_call {
    uint32_t id;           /* its stream; 0: free */
    unsigned what;         /* the user's */
    uint64_t since_ms;     /* the user's */
    int status;            /* :status; 0: no head yet */
    int grpc_status;       /* -1: none yet */
    struct belfry_buf in;  /* received; the user takes from it */
    struct belfry_buf out; /* waits for window */
    bool ends;             /* the request ends with `out` */
    bool is_half_closed;   /* the request has ended */
    int64_t window_out;
    uint32_t owed; /* window that is not given back */
};

struct peer_events {
    void (*data)(void *user, struct peer_call *call); /* `in` has more */
    void (*end)(void *user, struct peer_call *call);  /* the response is whole; the call is free afterwards */
};

enum peer_state { PEER_AWAY, PEER_SILENT, PEER_ON };

struct peer {
    char who[PEER_WHO]; /* in findings */
    const struct habit *habit;
    const struct peer_events *events;
    void *user;
    enum peer_state state;
    uint64_t greets_ms; /* SILENT: when it sends its preface */
    struct line line;
    nghttp2_hd_deflater *deflater;
    nghttp2_hd_inflater *inflater;
    struct peer_call calls[PEER_CALLS];
    size_t n_calls;
    uint32_t next_id;
    /* windows: given to us, and by us */
    int64_t window_out, first_window_out;
    uint32_t window, conn_window; /* of a stream and of the connection, as announced */
    uint32_t owed;
    /* the measuring of bandwidth */
    bool is_measuring;
    uint64_t sample, measure_ms, measure_every_ms, n_measured;
    /* is the server there? */
    uint64_t heard_ms, asked_ms; /* asked_ms 0: it was not asked */
    uint64_t n_pings;            /* sent, of all kinds */
};

/* All zero but who, habit, events and user. */
void peer_init(struct peer *peer);

/* Connects; its preface follows after pause_ms. Calls may begin immediately, and wait. */
void peer_open(struct peer *peer, size_t door, struct client_address address, uint64_t pause_ms);
void peer_leave(struct peer *peer); /* as the library does when a program ends; calls are forgotten */

/* Begins a call: its head. A body follows by peer_send(), unless the habit has none. */
struct peer_call *peer_call(struct peer *peer, const struct habit_request *request, unsigned what);
void peer_send(struct peer *peer, struct peer_call *call, struct belfry_bytes bytes, bool ends);
void peer_cancel(struct peer *peer, struct peer_call *call);
struct peer_call *peer_find(struct peer *peer, unsigned what); /* one of that kind; NULL: none */

bool peer_turn(struct peer *peer); /* true: something came or went */
uint64_t peer_due(const struct peer *peer);

#endif
