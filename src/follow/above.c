/* src/follow/above.c */
#include "follow/above.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "client/etcd_request.h"

#define ASK_EVERY_MS 1000
#define ASK_MS       2000 /* for an answer */
#define ANSWERS_MS                                                                                                     \
    4500 /* without a connection of its own a question may wait for the longest pause between two dials */

void above_init(struct above *above, struct belfry_stream *stream, const struct above_events *events, void *user)
{
    *above = (struct above){.stream = stream, .events = events, .user = user};
}

void above_fini(struct above *above)
{
    above->closing = true;
    if (above->call != NULL)
        belfry_grpc_call_cancel(above->call);
}

/* ---- answers ---- */

/* We follow live, on a stream of this server: only then is an answer a measurement. */
static bool above_follows(const struct above *above)
{
    return above->place.live && belfry_stream_endpoint(above->stream) != NULL;
}

static void above_on_message(struct belfry_grpc_call *call, struct belfry_blob *message, void *user)
{
    struct above *above = user;
    (void)call;
    above->came_ns = belfry_clock_ns();
    above->understood = !above->is_etcd && about_read(belfry_blob_bytes(message), &above->answer) == BELFRY_OK;
}

static void above_hear_tier(struct above *above)
{
    above->them = above->answer;
    above->kind = ABOVE_TIER;
    above->known_ms = belfry_clock_ms();
    if (above_follows(above) && above->them.clock_ns != 0) {
        hop_exchange(&above->hop, above->sent_ns, above->came_ns, above->them.clock_ns);
        hop_measure(&above->hop, above->them.stamps, above->them.n_stamps, &above->stamps);
    }
    if (above_follows(above))
        above->events->tier(above->user);
}

/* Any answer, also an error, measures the round trip. */
static void above_hear_etcd(struct above *above)
{
    above->kind = ABOVE_ETCD;
    above->known_ms = belfry_clock_ms();
    if (above->is_etcd && above_follows(above))
        hop_exchange(&above->hop, above->sent_ns, belfry_clock_ns(), 0);
    above->is_etcd = true;
}

static void above_on_closed(struct belfry_grpc_call *call, const struct belfry_grpc_status *status, void *user)
{
    struct above *above = user;
    (void)call;
    above->call = NULL;
    if (!above_follows(above) && (above->understood || status->from_server))
        above->unserved_ms = belfry_clock_ms();
    if (above->closing || above->asked != belfry_pool_counts(belfry_stream_link(above->stream)).connects)
        return; /* the answer is from a server that we have left */
    if (above->understood && status->code == BELFRY_GRPC_OK)
        above_hear_tier(above);
    else if (status->from_server && (above->is_etcd || status->code == BELFRY_GRPC_UNIMPLEMENTED))
        above_hear_etcd(above);
    else if (status->from_server && above_follows(above))
        above->events->refused(status->message, above->user);
    above->events->changed(above->user);
}

/* ---- asking ---- */

static const struct belfry_grpc_events call_events = {.message = above_on_message, .closed = above_on_closed};

/* The connection that carries the live stream, or that of a stream which is not served (yet); NULL: there is none, or
 * the link has replaced it. */
static struct belfry_carrier *above_conn(struct above *above)
{
    const char *endpoint = belfry_stream_endpoint(above->stream);
    struct belfry_carrier *conn = belfry_pool_conn(belfry_stream_link(above->stream));
    if (!above_follows(above))
        return conn;
    return conn != NULL && strcmp(belfry_carrier_endpoint(conn)->url, endpoint) == 0 ? conn : NULL;
}

/* Measurements are valid for one server, and only for revisions that it sent live. Revisions up to place->shown existed
 * upstream before this connection, or before we followed live: they arrive late, so they do not count. */
static void above_note_place(struct above *above, const struct above_place *place, uint64_t now_ms)
{
    uint64_t connects = belfry_pool_counts(belfry_stream_link(above->stream)).connects;
    bool became_live = place->live && !above->place.live;
    if (connects != above->connects) {
        above->is_etcd = false;
        above->since_ms = now_ms;
    }
    if (connects != above->connects || became_live || place->past != above->place.past)
        hop_begin(&above->hop, place->shown);
    if (became_live)
        above->due_ms = 0;
    above->connects = connects;
    above->place = *place;
    if (above_follows(above))
        above->unserved_ms = 0;
}

static void above_ask(struct above *above, struct belfry_carrier *conn, uint64_t now_ms)
{
    struct belfry_grpc_call_opts opts = {.path = above->is_etcd ? BELFRY_PATH_STATUS : ABOUT_PATH,
                                         .deadline_ms = now_ms + ASK_MS};
    above->understood = false;
    above->asked = above->connects;
    above->asked_ms = now_ms;
    above->asked_at = belfry_pool_at(belfry_stream_link(above->stream));
    if (belfry_grpc_call_open(belfry_carrier_http(conn), &opts, &call_events, above, &above->call) != BELFRY_OK) {
        above->call = NULL;
        return;
    }
    if (belfry_grpc_call_send(above->call, (struct belfry_bytes){NULL, 0}) != BELFRY_OK) {
        belfry_grpc_call_cancel(above->call);
        above->call = NULL;
        return;
    }
    belfry_grpc_call_half_close(above->call);
    above->sent_ns = belfry_clock_ns();
    belfry_carrier_flush(conn);
}

/* A connection that is refused its stream lasts for a moment only: the question goes out as soon as there is one. */
void above_pump(struct above *above, const struct above_place *place, uint64_t now_ms)
{
    const char *version;
    if (belfry_stream_version(above->stream, &version))
        about_copy(above->version, sizeof(above->version), belfry_bytes_str(version));
    above_note_place(above, place, now_ms);
    bool due = now_ms >= above->due_ms, soon = !above_follows(above) && now_ms >= above->asked_ms + ASK_EVERY_MS;
    if (!due && !soon)
        return;
    struct belfry_carrier *conn = above->call == NULL ? above_conn(above) : NULL;
    if (conn != NULL)
        above_ask(above, conn, now_ms);
    if (!due)
        return;
    above->due_ms = now_ms + ASK_EVERY_MS;
    above->events->changed(above->user);
}

void above_stamp(struct above *above, int64_t head)
{
    stamps_add(&above->stamps, head, belfry_clock_ns());
}

/* ---- what is known ---- */

bool above_answers_unserved(const struct above *above)
{
    return above->unserved_ms != 0 && belfry_clock_ms() < above->unserved_ms + ANSWERS_MS;
}

const char *above_etcd_version(const struct above *above)
{
    const struct about *them = &above->them;
    const struct about_level *top =
        above->kind == ABOVE_TIER && them->n_above > 0 ? &them->above[them->n_above - 1] : NULL;
    return top != NULL && !about_is_tier(top) ? top->version : above->version;
}

static void above_describe_hop(const struct above *above, struct about_level *self)
{
    uint64_t hop_ns, error_ns, trip_ns = hop_trip(&above->hop, belfry_clock_ns());
    if (above->kind == ABOVE_TIER && hop_read(&above->hop, &hop_ns, &error_ns)) {
        self->hop = ABOUT_HOP_MEASURED;
        self->hop_us = hop_ns / 1000;
        self->hop_error_us = error_ns / 1000 + 1; /* and what was cut off above */
    } else if (above->kind == ABOVE_ETCD && trip_ns != 0) {
        self->hop = ABOUT_HOP_HALF_TRIP;
        self->hop_us = trip_ns / 2000;
    }
}

void above_describe(const struct above *above, int64_t shown, struct about *out)
{
    const char *endpoint = belfry_stream_endpoint(above->stream);
    uint64_t age_ms = belfry_clock_ms() - above->known_ms;
    above_describe_hop(above, &out->self);
    if (above->kind == ABOVE_ETCD) {
        struct about_level *etcd = &out->above[out->n_above++];
        *etcd = (struct about_level){.name = "etcd", .revision = shown, .silent_ms = BELFRY_NEVER};
        about_copy(etcd->version, sizeof(etcd->version), belfry_bytes_str(above->version));
    }
    if (above->kind == ABOVE_TIER) {
        out->above[out->n_above++] = above->them.self;
        for (size_t i = 0; i < above->them.n_above && out->n_above < ABOUT_LEVELS; i++)
            out->above[out->n_above++] = above->them.above[i];
    }
    for (size_t i = 0; i < out->n_above; i++)
        out->above[i].age_ms += age_ms;
    if (out->n_above > 0 && endpoint != NULL)
        about_copy(out->above[0].endpoint, sizeof(out->above[0].endpoint), belfry_bytes_str(endpoint));
}
