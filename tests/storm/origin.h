/* tests/storm/origin.h
 *
 * origin: the server that the tier stands in front of: HTTP/2 on a unix socket, and what can go wrong with it. What it
 * answers is the dialect's: etcd.h or apiserver.h.
 *
 * Thread: owner. Nothing happens outside of origin_turn(), which does not block.
 */
#ifndef BELFRY_STORM_ORIGIN_H
#define BELFRY_STORM_ORIGIN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/list.h"
#include "storm/choices.h"

#define ORIGIN_FIELDS 4 /* of a head or of trailers */

struct origin_field {
    const char *name, *value; /* static */
};

struct origin_call {
    struct belfry_list node;
    struct origin_conn *conn;
    int32_t id;
    char method[16], path[600], token[160], if_none_match[32];
    bool is_question; /* about rights, of a tier below */
    bool is_over;     /* its answer has an end */
    struct belfry_buf body;
    struct belfry_buf answer; /* that is not sent yet */
    uint64_t due_ms;          /* dialect->due() is called then; BELFRY_NEVER: it is not */
    bool is_processed;        /* it has had an effect */
    unsigned state;           /* the dialect's own, as the next */
    size_t n_written;
    /* origin's own */
    bool has_head;
    struct origin_field trailers[ORIGIN_FIELDS];
    size_t n_trailers;
};

struct origin_dialect {
    void (*serve)(struct origin_call *call); /* all of the request is here */
    void (*more)(struct origin_call *call);  /* a part of its body came, and it does not end there; NULL: none */
    void (*due)(struct origin_call *call);
};

void origin_open(const struct origin_dialect *dialect, const char *path, struct choices *choices);
void origin_close(void);
bool origin_turn(void); /* true: something was read, sent or answered */
uint64_t origin_due(void);

/* Connections have no limit on calls from now on. */
void origin_set_orderly(void);

/* For dialects. The head goes once; each returns immediately. */
void origin_respond(struct origin_call *call, const char *status, const struct origin_field *fields, size_t n);
void origin_write(struct origin_call *call, const void *data, size_t len);
void origin_end(struct origin_call *call, const struct origin_field *trailers, size_t n);
void origin_reset(struct origin_call *call, uint32_t code);

enum origin_fault {
    ORIGIN_WELL,
    ORIGIN_SILENT, /* reads, and answers nothing */
    ORIGIN_DEAF,   /* reads nothing */
    ORIGIN_AWAY    /* has closed its socket */
};
void origin_set_fault(enum origin_fault fault);
enum origin_fault origin_fault(void);

/* Once, to each connection: it closes; it is told to go; a stream is reset; bytes that are no frame; half a head, and
 * then nothing more. A call that is processed is never said not to be. */
enum origin_blow { ORIGIN_DROP, ORIGIN_GOAWAY, ORIGIN_RESET, ORIGIN_GARBAGE, ORIGIN_HALF, ORIGIN_BLOWS };
void origin_strike(enum origin_blow blow);

#endif
