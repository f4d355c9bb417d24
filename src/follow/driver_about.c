/* src/follow/driver_about.c: who is above: asked of the server of the live stream, on its own connection, once a second.
 *
 * A tier answers About; an etcd does not know it, and is asked for its Status from then on, for the round trip alone.
 * Another connection is another server: what was measured is forgotten, what was told is kept, with its age, until that
 * one has answered.
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "client/etcd_request.h"
#include "follow/driver_private.h"

#define ASK_EVERY_MS 1000
#define ASK_MS       2000 /* for an answer */
#define NO_LEADER    "etcdserver: no leader"

/* A tier that has been cut off for as long as makes it stale says so; to wait for as long again would add that time with
 * every tier. An etcd that says the same may just be electing a leader. */
void driver_mind_silence(struct driver *driver, const char *why)
{
    if (driver->about.known == DRIVER_ABOVE_TIER && belfry_link_exhausted(belfry_stream_link(driver->live)) &&
        strstr(why, NO_LEADER) != NULL)
        upstream_cut_off(driver->upstream, belfry_clock_ms());
}

/* ---- answers ---- */

static void tell(struct driver *driver)
{
    if (driver->events.about != NULL)
        driver->events.about(driver->user);
}

static void on_message(struct belfry_grpc_call *call, struct belfry_blob *message, void *user)
{
    struct driver *driver = user;
    struct driver_about *about = &driver->about;
    (void)call;
    about->came_ns = belfry_clock_ns();
    about->understood = !about->is_etcd && about_read(belfry_blob_bytes(message), &about->answer) == BELFRY_OK;
}

static void hear_tier(struct driver *driver)
{
    struct driver_about *about = &driver->about;
    about->them = about->answer;
    about->known = DRIVER_ABOVE_TIER;
    about->known_ms = belfry_clock_ms();
    if (about->them.clock_ns != 0) {
        hop_exchange(&about->hop, about->sent_ns, about->came_ns, about->them.clock_ns);
        hop_measure(&about->hop, about->them.stamps, about->them.n_stamps, &about->stamps);
    }
    driver_look_for_circle(driver);
}

/* Whatever it answered, it has answered. */
static void hear_etcd(struct driver_about *about, uint64_t now_ns)
{
    about->known = DRIVER_ABOVE_ETCD;
    about->known_ms = belfry_clock_ms();
    if (about->is_etcd)
        hop_exchange(&about->hop, about->sent_ns, now_ns, 0);
    about->is_etcd = true;
}

static void on_closed(struct belfry_grpc_call *call, const struct belfry_grpc_status *status, void *user)
{
    struct driver *driver = user;
    struct driver_about *about = &driver->about;
    (void)call;
    about->call = NULL;
    if (driver->closing || about->asked != belfry_link_connects(belfry_stream_link(driver->live)))
        return; /* of a server that is not ours any more */
    if (about->understood && status->code == BELFRY_GRPC_OK)
        hear_tier(driver);
    else if (status->from_server && (about->is_etcd || status->code == BELFRY_GRPC_UNIMPLEMENTED))
        hear_etcd(about, belfry_clock_ns());
    else if (status->from_server)
        driver_mind_refusal(driver, driver->endpoints[about->asked_at].url, status->message);
    driver->poked = true;
    tell(driver);
}

/* ---- asking ---- */

static const struct belfry_grpc_events grpc_events = {.message = on_message, .closed = on_closed};

/* The connection that carries the live stream; NULL: there is none, or it has been put aside. */
static struct belfry_conn *live_conn(struct driver *driver)
{
    const char *endpoint = belfry_stream_endpoint(driver->live);
    struct belfry_conn *conn = belfry_link_conn(belfry_stream_link(driver->live));
    return endpoint != NULL && conn != NULL && strcmp(belfry_conn_endpoint(conn)->url, endpoint) == 0 ? conn : NULL;
}

/* Up to here upstream had everything when this connection, or following live, began: it comes late, and is no measure. */
static int64_t shown(const struct driver *driver)
{
    int64_t head = ingest_head(driver->ingest);
    return driver->upstream_revision > head ? driver->upstream_revision : head;
}

/* What is measured is of one server, and of what came live from it. */
static void note_server(struct driver *driver, uint64_t now)
{
    struct driver_about *about = &driver->about;
    uint64_t connects = belfry_link_connects(belfry_stream_link(driver->live));
    bool live = upstream_state(driver->upstream) == UPSTREAM_LIVE;
    if (connects != about->connects) {
        about->is_etcd = false;
        about->since_ms = now;
    }
    if (connects != about->connects || (live && !about->was_live) || ingest_past(driver->ingest) != about->past)
        hop_begin(&about->hop, shown(driver));
    if (live && !about->was_live)
        about->at_ms = 0; /* at once */
    about->connects = connects;
    about->was_live = live;
    about->past = ingest_past(driver->ingest);
}

static void ask(struct driver *driver, struct belfry_conn *conn, uint64_t now)
{
    struct driver_about *about = &driver->about;
    struct belfry_grpc_call_opts opts = {.path = about->is_etcd ? BELFRY_PATH_STATUS : ABOUT_PATH,
                                         .deadline_ms = now + ASK_MS};
    about->understood = false;
    about->asked = about->connects;
    about->asked_at = belfry_link_index(belfry_stream_link(driver->live));
    if (belfry_grpc_call_open(belfry_conn_grpc(conn), &opts, &grpc_events, driver, &about->call) != BELFRY_OK) {
        about->call = NULL;
        return;
    }
    if (belfry_grpc_call_send(about->call, (struct belfry_bytes){NULL, 0}) != BELFRY_OK) {
        belfry_grpc_call_cancel(about->call);
        about->call = NULL;
        return;
    }
    belfry_grpc_call_half_close(about->call);
    about->sent_ns = belfry_clock_ns();
    belfry_conn_flush(conn);
}

void driver_pump_about(struct driver *driver, uint64_t now)
{
    struct driver_about *about = &driver->about;
    note_server(driver, now);
    if (now < about->at_ms)
        return;
    about->at_ms = now + ASK_EVERY_MS;
    struct belfry_conn *conn = about->call == NULL && about->was_live ? live_conn(driver) : NULL;
    if (conn != NULL)
        ask(driver, conn, now);
    tell(driver); /* what is known has aged */
}

void driver_stamp(struct driver *driver, int64_t head)
{
    stamps_add(&driver->about.stamps, head, belfry_clock_ns());
}

/* ---- what is known ---- */

static enum about_standing standing_of(enum driver_standing standing)
{
    static const enum about_standing as[] = {
        [DRIVER_NOT_READY] = ABOUT_NOT_READY, [DRIVER_READY] = ABOUT_READY, [DRIVER_STALE] = ABOUT_STALE};
    return as[standing];
}

static void describe_hop(const struct driver_about *about, struct about_level *self)
{
    uint64_t hop_ns, error_ns, trip_ns = hop_trip(&about->hop, belfry_clock_ns());
    if (about->known == DRIVER_ABOVE_TIER && hop_read(&about->hop, &hop_ns, &error_ns)) {
        self->hop = ABOUT_HOP_MEASURED;
        self->hop_us = hop_ns / 1000;
        self->hop_error_us = error_ns / 1000 + 1; /* and what was cut off above */
    } else if (about->known == DRIVER_ABOVE_ETCD && trip_ns != 0) {
        self->hop = ABOUT_HOP_HALF_TRIP;
        self->hop_us = trip_ns / 2000;
    }
}

static void describe_self(const struct driver *driver, struct about_level *self)
{
    int64_t head = ingest_head(driver->ingest);
    *self = (struct about_level){
        .standing = standing_of(driver->standing),
        .revision = head,
        .lag = driver->upstream_revision > head ? (uint64_t)(driver->upstream_revision - head) : 0,
        .silent_ms = driver->heard_ms == BELFRY_NEVER ? BELFRY_NEVER : belfry_clock_ms() - driver->heard_ms};
    snprintf(self->name, sizeof(self->name), "%s", driver->name);
    snprintf(self->version, sizeof(self->version), "belfryd/" BELFRY_VERSION);
    describe_hop(&driver->about, self);
}

static void describe_etcd(struct driver *driver, struct about *out)
{
    const char *version;
    struct about_level *etcd = &out->above[out->n_above++];
    *etcd = (struct about_level){.revision = driver->upstream_revision, .silent_ms = BELFRY_NEVER};
    snprintf(etcd->name, sizeof(etcd->name), "etcd");
    if (belfry_stream_version(driver->live, &version))
        about_copy(etcd->version, sizeof(etcd->version), belfry_bytes_str(version));
}

void driver_about(struct driver *driver, struct about *out)
{
    const struct driver_about *about = &driver->about;
    const char *endpoint = belfry_stream_endpoint(driver->live);
    uint64_t age_ms = belfry_clock_ms() - about->known_ms;
    *out = (struct about){0};
    describe_self(driver, &out->self);
    if (about->known == DRIVER_ABOVE_ETCD)
        describe_etcd(driver, out);
    if (about->known == DRIVER_ABOVE_TIER) {
        out->above[out->n_above++] = about->them.self;
        for (size_t i = 0; i < about->them.n_above && out->n_above < ABOUT_LEVELS; i++)
            out->above[out->n_above++] = about->them.above[i];
    }
    for (size_t i = 0; i < out->n_above; i++)
        out->above[i].age_ms += age_ms;
    if (out->n_above > 0 && endpoint != NULL)
        about_copy(out->above[0].endpoint, sizeof(out->above[0].endpoint), belfry_bytes_str(endpoint));
}
