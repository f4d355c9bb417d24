/* src/cli/verify/verify_kube_side.c */
#include "cli/verify/verify_kube_side.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

#include "cli/verify/verify_env.h"

#define AGAIN_US (SECOND_US / 5) /* until a watch that has ended is opened again */

int64_t verify_kube_version(struct belfry_bytes text)
{
    int64_t version = 0;
    if (text.len == 0 || text.len > 18)
        return 0;
    for (size_t i = 0; i < text.len; i++) {
        if (text.data[i] < '0' || text.data[i] > '9')
            return 0;
        version = version * 10 + (text.data[i] - '0');
    }
    return version;
}

static void side_move_to(struct verify_kube_side *side, enum verify_kube_state to)
{
    side->state = to;
    if (to != VERIFY_KUBE_WATCHING)
        side->request = NULL;
    if (to == VERIFY_KUBE_WAITING)
        side->due_us = verify_now_us() + AGAIN_US;
    side->is_held = false;
}

static void side_link(struct verify_kube_side *side, bool is_up)
{
    if (is_up == side->is_up)
        return;
    side->is_up = is_up;
    side->events->link(side, is_up);
}

/* ---- what comes ---- */

static const struct belfry_event *only_event(const void *source, const struct belfry_event *after)
{
    return after == NULL ? source : NULL;
}

static struct belfry_event event_of(const struct belfry_kube_event *came, int64_t version)
{
    struct belfry_bytes key = belfry_object_key(came->object), json = belfry_object_value(came->object);
    struct belfry_event event = {.op = BELFRY_PUT, .key = key, .mod_rev = version};
    if (came->kind == BELFRY_KUBE_DELETED) {
        event.op = BELFRY_DELETE;
        event.prev = json;
    } else {
        event.value = json;
        event.version = 1 + (came->kind == BELFRY_KUBE_MODIFIED);
        event.create_rev = came->kind == BELFRY_KUBE_ADDED ? version : 1;
    }
    return event;
}

/* Ends a watch that cannot go on. */
static enum belfry_next side_end(struct verify_kube_side *side, int err, const char *why)
{
    side_move_to(side, VERIFY_KUBE_CLOSED);
    side->events->ended(side, err, why);
    return BELFRY_STOP;
}

static enum belfry_next on_change(struct verify_kube_side *side, const struct belfry_kube_event *came)
{
    struct judge_rev *rev;
    int64_t version = verify_kube_version(came->version);
    if (version == 0)
        return side_end(side, BELFRY_ERR_PROTOCOL, "an object has no resourceVersion that is a number");
    struct belfry_event event = event_of(came, version);
    enum belfry_err err = judge_rev_create(version, verify_now_us(), only_event, &event, &rev);
    if (err != BELFRY_OK)
        return side_end(side, err, "out of memory");
    if (version > side->version)
        side->version = version;
    side->is_held = !side->events->change(side, rev);
    return side->is_held ? BELFRY_PAUSE : BELFRY_MORE;
}

static enum belfry_next on_bookmark(struct verify_kube_side *side, const struct belfry_kube_event *came)
{
    int64_t version = verify_kube_version(came->version);
    if (version == 0)
        return side_end(side, BELFRY_ERR_PROTOCOL, "a bookmark has no resourceVersion that is a number");
    if (version > side->version)
        side->version = version;
    side->events->bookmark(side, version);
    return BELFRY_MORE;
}

/* Does a watch that ended so begin again by itself? */
static bool is_passing(int err)
{
    return err == BELFRY_OK || err == BELFRY_ERR_UNAVAILABLE || err == BELFRY_ERR_TIMEOUT || err == BELFRY_ERR_FUTURE ||
           err == BELFRY_ERR_RESOLVE;
}

static void on_end(struct verify_kube_side *side, const struct belfry_kube_event *came)
{
    if (came->err == BELFRY_ERR_CANCELED) {
        side_move_to(side, VERIFY_KUBE_CLOSED);
    } else if (is_passing(came->err)) {
        side_move_to(side, VERIFY_KUBE_WAITING);
        side_link(side, false);
    } else {
        (void)side_end(side, came->err, came->why);
    }
}

static enum belfry_next on_side_event(struct belfry_kube_request *request, const struct belfry_kube_event *event,
                                      void *user)
{
    struct verify_kube_side *side = user;
    (void)request;
    switch (event->kind) {
    case BELFRY_KUBE_ADDED:
    case BELFRY_KUBE_MODIFIED:
    case BELFRY_KUBE_DELETED:
        side_link(side, true);
        return on_change(side, event);
    case BELFRY_KUBE_BOOKMARK:
        side_link(side, true);
        return on_bookmark(side, event);
    case BELFRY_KUBE_END:
        on_end(side, event);
        break;
    case BELFRY_KUBE_ERROR: /* END follows */
    case BELFRY_KUBE_ITEM:
    case BELFRY_KUBE_RESTART:
        break;
    }
    return BELFRY_MORE;
}

/* ---- opening and closing ---- */

static int side_request(struct verify_kube_side *side)
{
    struct belfry_opts *opts = NULL;
    char version[24];
    snprintf(version, sizeof(version), "%" PRId64, side->version);
    int err = belfry_opts_set(&opts, "resource-version", version);
    if (err == BELFRY_OK)
        err = belfry_kube_watch(side->kube, side->resource, opts, on_side_event, side, &side->request);
    belfry_opts_free(opts);
    return err;
}

int verify_kube_open(struct verify_kube_side *side, int64_t version)
{
    assert(side->state == VERIFY_KUBE_CLOSED);
    side->version = version;
    side->is_up = true; /* until the contrary is known */
    int err = side_request(side);
    if (err == BELFRY_OK)
        side_move_to(side, VERIFY_KUBE_WATCHING);
    return err;
}

void verify_kube_close(struct verify_kube_side *side)
{
    belfry_kube_cancel(side->request);
    side_move_to(side, VERIFY_KUBE_CLOSED);
}

void verify_kube_resume(struct verify_kube_side *side)
{
    if (!side->is_held)
        return;
    side->is_held = false;
    belfry_kube_resume(side->request);
}

void verify_kube_turn(struct verify_kube_side *side, int64_t now_us)
{
    if (side->state != VERIFY_KUBE_WAITING || now_us < side->due_us)
        return;
    if (side_request(side) == BELFRY_OK)
        side_move_to(side, VERIFY_KUBE_WATCHING);
    else
        side_move_to(side, VERIFY_KUBE_WAITING);
}
