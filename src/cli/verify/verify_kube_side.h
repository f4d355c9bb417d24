/* src/cli/verify/verify_kube_side.h
 *
 * verify_kube_side: one watch of a resource at a Kubernetes API server, or at a tier in front of one. It is opened
 * again from the version that it has come to, as often as it ends or breaks, as clients do; so it is one watch to its
 * user.
 *
 *   CLOSED --open--> WATCHING --ended, broken--> WAITING --a moment later--> WATCHING
 *                    WATCHING --410, refused--> CLOSED, and `ended` is called
 *
 * An object becomes a revision of the judge: its resourceVersion is the revision, ADDED a put that creates its key,
 * MODIFIED a put that does not, DELETED a delete with the last state as its previous value.
 *
 * Thread: owner (the session's). Memory: one request.
 */
#ifndef BELFRY_CLI_VERIFY_VERIFY_KUBE_SIDE_H
#define BELFRY_CLI_VERIFY_VERIFY_KUBE_SIDE_H

#include <stdbool.h>
#include <stdint.h>

#include <belfry/kube.h>

#include "judge/judge_rev.h"

enum verify_kube_state { VERIFY_KUBE_CLOSED, VERIFY_KUBE_WAITING, VERIFY_KUBE_WATCHING };

struct verify_kube_side;

struct verify_kube_events {
    /* A change; `rev` is handed over. False: no more for now, until verify_kube_resume(). */
    bool (*change)(struct verify_kube_side *side, struct judge_rev *rev);
    void (*bookmark)(struct verify_kube_side *side, int64_t version);
    void (*link)(struct verify_kube_side *side, bool is_up);
    /* It is CLOSED. BELFRY_ERR_COMPACTED: 410. */
    void (*ended)(struct verify_kube_side *side, int err, const char *why);
};

/* Zeroed to begin with, but for the first four. */
struct verify_kube_side {
    struct belfry_kube *kube;
    struct belfry_resource resource;
    const struct verify_kube_events *events;
    void *user;
    enum verify_kube_state state;        /* moved by side_move_to() alone */
    struct belfry_kube_request *request; /* WATCHING */
    int64_t version;                     /* it has been told everything up to here */
    int64_t due_us;                      /* WAITING */
    bool is_up;                          /* as `link` was told */
    bool is_held;                        /* `change` wanted no more */
};

/* A resourceVersion as a number; 0: it is none. */
int64_t verify_kube_version(struct belfry_bytes text);

/* Watches everything after `version`. Errors: as belfry_kube_watch(). */
BELFRY_NODISCARD int verify_kube_open(struct verify_kube_side *side, int64_t version);
void verify_kube_close(struct verify_kube_side *side);
void verify_kube_resume(struct verify_kube_side *side);

/* Opens it again, if that is due. */
void verify_kube_turn(struct verify_kube_side *side, int64_t now_us);

#endif
