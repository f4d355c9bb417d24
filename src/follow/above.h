/* src/follow/above.h
 *
 * above: the server of the live stream: is it a tier or an etcd, who is above it, and how far away is it?
 *
 * It is asked once per second, on the connection of the live stream. A tier answers About (about.h); an etcd does not
 * know that call and is from then on asked for its Status, for the round trip alone. Another connection is another
 * server: its measurements are discarded, its last answer is kept, with its age, until the new server has answered.
 *
 * While there is no live stream, the server that refuses one is asked on the connection that it refuses it on: a tier
 * that is cut off itself then says so, and the levels below know which link is broken. Nothing is measured then.
 *
 * Thread: owner (the stream's). No callback comes from inside a call.
 */
#ifndef BELFRY_FOLLOW_ABOVE_H
#define BELFRY_FOLLOW_ABOVE_H

#include "client/stream.h"
#include "follow/about.h"
#include "follow/hop.h"

enum above_kind { ABOVE_UNKNOWN, ABOVE_TIER, ABOVE_ETCD };

struct above_events {
    void (*tier)(void *user);                     /* a tier has answered: `them` is new */
    void (*refused)(const char *why, void *user); /* the server refused to answer */
    void (*changed)(void *user); /* what above_describe() says is new, or older: about once per second */
};

/* Where this tier is. */
struct above_place {
    bool live;     /* it follows live: only then is a revision's time a measure of the hop */
    uint64_t past; /* of which its revisions are */
    int64_t shown; /* the highest revision that it has or upstream has shown */
};

struct above {
    /* fixed at creation */
    struct belfry_stream *stream;
    const struct above_events *events;
    void *user;
    /* what is known */
    enum above_kind kind;
    uint64_t known_ms;           /* when the server last answered */
    uint64_t unserved_ms;        /* when one last answered that serves no stream; 0: none since one did */
    struct about them;           /* TIER: its answer */
    char version[ABOUT_VERSION]; /* of the last server that has told one or refused to: "" then, and before */
    struct hop hop;
    struct stamps stamps; /* ours */
    /* what the measurements are of */
    uint64_t connects;
    struct above_place place;
    uint64_t since_ms; /* of the connection */
    /* asking */
    uint64_t due_ms;               /* the next question */
    uint64_t asked_ms;             /* the last one */
    struct belfry_grpc_call *call; /* NULL: none is under way */
    bool is_etcd;                  /* this connection's server does not know About */
    uint64_t asked;                /* `connects` when it was asked */
    size_t asked_at;               /* index of the endpoint that was asked */
    uint64_t sent_ns, came_ns;
    bool understood; /* `answer` is valid */
    struct about answer;
    bool closing;
};

/* `stream` and `events` are lent until above_fini(). */
void above_init(struct above *above, struct belfry_stream *stream, const struct above_events *events, void *user);
void above_fini(struct above *above); /* one of zeroes is fine; before the stream goes */

/* Asks if it is time; call it again at above->due_ms. */
void above_pump(struct above *above, const struct above_place *place, uint64_t now_ms);

/* Our head is at `head` now. */
void above_stamp(struct above *above, int64_t head);

/* Does a server answer, and serve no stream? */
bool above_answers_unserved(const struct above *above);

/* The version of the etcd at the top, which may be a moment old; "" or no version: it is not known. A tier that does
 * not report it yet has passed our question for a status on to a member of that etcd. */
const char *above_etcd_version(const struct above *above);

/* Adds to `out` what is known: the hop of out->self, and the levels above it. `shown`: upstream's highest revision. */
void above_describe(const struct above *above, int64_t shown, struct about *out);

#endif
