/* bench/belfry-attack/hostile.h
 *
 * hostile: one connection of an attacker. Its script says which bytes it sends; everything that the server says to it
 * is counted (told.h). A connection that has ended is made again.
 *
 *                   asked to       connected              ended by either side
 *     HOSTILE_AWAY ----> HOSTILE_CONNECTING ----> HOSTILE_OPEN ----> HOSTILE_AWAY
 *
 * The bytes are made by hand (h2frame.h, hpack.h): no library sends what breaks the protocol.
 *
 * Thread: owner, that of its poller.
 * Memory: what is not sent yet, about one turn of its script.
 */
#ifndef ATTACK_HOSTILE_H
#define ATTACK_HOSTILE_H

#include <stdbool.h>
#include <stdint.h>

#include <nghttp2/nghttp2.h>

#include "base/buf.h"
#include "credentials.h"
#include "h2frame.h"
#include "poller.h"
#include "target.h"
#include "told.h"

struct hostile;

enum script_protocol {
    SCRIPT_HTTP2, /* preface, SETTINGS and the ACK of the server's are sent before the script's first turn */
    SCRIPT_HTTP1
};

struct script {
    const char *name;
    const char *summary; /* one line */
    enum script_protocol protocol;
    size_t conns;  /* by default */
    uint64_t rate; /* bytes per second of all connections, by default */
    /* Appends the next bytes to hostile_out(), about 64 KiB at most; nothing: it has nothing to send now. Called while
     * all bytes before are sent. */
    void (*turn)(struct hostile *hostile);
    uint32_t window;    /* announced for streams; 0: the default (65,535), unless no_window */
    bool no_window;     /* 0 is announced */
    size_t sip;         /* bytes that are read per 100 ms, of a buffer that is small; 0: everything is read */
    bool hasty;         /* leaves when its bytes are sent */
    bool returns;       /* does not wait after it was ended */
    const char *spread; /* connections come from this address and those above it, one each; NULL: all from one */
};

enum hostile_state { HOSTILE_AWAY, HOSTILE_CONNECTING, HOSTILE_OPEN };

/* What all connections of an attack share. */
struct hostile_gang {
    int poll;
    struct target target;
    const struct script *script;
    const struct credentials *tokens; /* lent; NULL, or empty: connections show none */
    struct told told;
    uint64_t connects, ended; /* ended: by the server */
    uint64_t bytes_out, bytes_in;
    uint64_t streams; /* that were opened */
};

struct hostile {
    struct poller_entry entry; /* first */
    struct hostile_gang *gang; /* lent */
    size_t index;
    int fd; /* -1: HOSTILE_AWAY */
    enum hostile_state state;
    uint64_t due_ns; /* AWAY: not made again before; OPEN: for the script, when it goes on */
    uint64_t sip_ns; /* the next sip */
    bool wants_write;
    struct belfry_buf out;
    /* for the script; zeros when the connection begins */
    size_t step;
    bool taught;                   /* the server's header table has the fields of script_call() */
    uint32_t next_id;              /* of the next stream */
    uint32_t stream;               /* whose window is in stream_window: the last that was opened */
    int64_t window, stream_window; /* bytes of DATA that the server lets us send */
    /* what the server says */
    struct h2frame_cutter cutter;
    nghttp2_hd_inflater *inflater; /* NULL: no HEADERS yet */
};

void hostile_init(struct hostile *hostile, struct hostile_gang *gang, size_t index);
void hostile_fini(struct hostile *hostile);

/* AWAY: begins to connect. */
void hostile_connect(struct hostile *hostile);

/* One turn of its script, and of reading if it sips; returns the bytes that were made. */
size_t hostile_turn(struct hostile *hostile, uint64_t now_ns);

/* ---- for scripts ---- */

void hostile_put(struct hostile *hostile, const void *data, size_t len);
void hostile_frame(struct hostile *hostile, enum h2frame_type type, uint8_t flags, uint32_t id, const void *payload,
                   size_t len);

/* HEADERS of a new stream with that block; returns its number. */
uint32_t hostile_open(struct hostile *hostile, const struct belfry_buf *block, uint8_t flags);

#endif
