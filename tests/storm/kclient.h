/* tests/storm/kclient.h
 *
 * kclient: a client in good order of a tier in front of Kubernetes. Again and again, and all at the same time, it gets
 * an object, writes one, follows a stream and reads a document: the API server answers these, and each answer must be
 * the client's own and complete, or visibly cut (echo.h). It also lists the objects that the tier follows, and watches
 * them from there: each change comes once and in order (reading.h), and nothing comes KCLIENT_RIGHT_MS after the client
 * has lost its right.
 *
 * Thread: owner. Memory: nghttp2's is its own.
 */
#ifndef BELFRY_STORM_KCLIENT_H
#define BELFRY_STORM_KCLIENT_H

#include <stdbool.h>
#include <stdint.h>

#include "storm/choices.h"
#include "storm/echo.h"
#include "storm/h2_line.h"
#include "storm/reading.h"

#define KCLIENT_RIGHT_MS 10000

enum kclient_what {
    KCLIENT_GET,
    KCLIENT_WRITE,
    KCLIENT_STREAM,
    KCLIENT_DOCUMENT,
    KCLIENT_LIST,
    KCLIENT_WATCH,
    KCLIENT_CALLS
};

struct kclient_call {
    int32_t id;    /* its stream; 0: none */
    int status;    /* of its answer; 0: none yet */
    bool is_ended; /* the server said that it is whole */
    char path[200];
    struct belfry_buf body, in;
    size_t sent;      /* of the body */
    uint64_t expects; /* the next line of a stream; the oldest version of a document */
    uint64_t begun_ms;
    uint64_t next_ms;  /* not before */
    uint64_t leave_ms; /* it gives up then */
    uint64_t answered, failed;
    uint64_t before; /* answered when kclient_ask() was called */
};

struct kclient {
    struct h2_line h2;
    struct choices *choices;
    const char *token;
    bool is_patient; /* it gives up nothing */
    uint64_t number; /* of its last request */
    char why[400];   /* the last refusal */
    struct kclient_call calls[KCLIENT_CALLS];
    /* the watch */
    struct reading reading;
    bool is_listed;
    int64_t rev;           /* where the watch goes on */
    uint64_t lost_ms;      /* the right was lost then, as far as it is known here; BELFRY_NEVER: it is there */
    int64_t forbidden_rev; /* this and later ones must not come while it is lost; 0: any may */
};

/* `token`: APISERVER_ROOT or APISERVER_PART. */
void kclient_init(struct kclient *client, size_t door, unsigned number, const char *token, struct choices *choices);
void kclient_fini(struct kclient *client);
void kclient_turn(struct kclient *client); /* whatever can be done now */

/* Was each call answered since kclient_ask()? From then on it gives up nothing. */
void kclient_ask(struct kclient *client);
bool kclient_is_served(const struct kclient *client);
void kclient_tell(const struct kclient *client); /* why not, for people */

#endif
