/* tests/sim/gate.c */
#include "sim/gate.h"

#include <assert.h>
#include <stdlib.h>

#include "base/list.h"
#include "sim/trace.h"

#define TIERS_MAX 8

struct door {
    struct belfry_list node;
    struct link *link;
    struct etcd_stream *stream;
};

struct gate {
    struct sched *sched;
    struct etcd *etcd;
    uint64_t delay_ms;
    struct actor *actor, *writer;
    struct belfry_list doors;
    struct belfry_buf request;
    struct tier *tiers[TIERS_MAX];
    size_t n_tiers;
    bool writing, idle;
    uint64_t pace_ms;
    uint64_t tick_ms;
};

static struct door *door_of(struct belfry_list *node)
{
    return belfry_container(node, struct door, node);
}

static void close_door(struct door *door)
{
    etcd_stream_close(door->stream);
    link_leave_server(door->link);
    belfry_list_remove(&door->node);
    free(door);
}

/* Requests in, a few responses out. False: it is closed. */
static bool serve_door(struct gate *gate, struct door *door)
{
    if (link_client_gone(door->link) || etcd_stream_is_broken(door->stream)) {
        close_door(door);
        return false;
    }
    while (link_request(door->link, &gate->request))
        etcd_stream_request(door->stream, belfry_buf_bytes(&gate->request));
    for (int n = 0; n < 4 && link_room(door->link) > 0; n++) {
        struct belfry_blob *message = etcd_stream_receive(door->stream);
        if (message == NULL)
            break;
        link_write_message(door->link, belfry_blob_bytes(message));
        belfry_blob_unref(message);
    }
    return true;
}

static uint64_t run_etcd(struct gate *gate)
{
    uint64_t now = sched_now(gate->sched);
    if (now >= gate->tick_ms) {
        etcd_tick(gate->etcd);
        gate->tick_ms = now + 500 + sched_below(gate->sched, 4000);
    }
    gate->idle = false;
    for (uint64_t n = 1 + sched_below(gate->sched, 12); n > 0 && !gate->idle; n--)
        gate->idle = !etcd_step(gate->etcd);
    return gate->idle ? gate->tick_ms : now + sched_below(gate->sched, 2);
}

static uint64_t gate_step(void *arg)
{
    struct gate *gate = arg;
    uint64_t now = sched_now(gate->sched), due = run_etcd(gate);
    belfry_list_each_safe (node, &gate->doors) {
        struct door *door = door_of(node);
        if (!serve_door(gate, door))
            continue;
        due = belfry_min_time(due, link_server_due(door->link));
        if (link_room(door->link) > 0 && etcd_stream_readable(door->stream))
            due = now;
    }
    for (size_t i = 0; i < gate->n_tiers; i++)
        due = belfry_min_time(due, tier_run_reads(gate->tiers[i]));
    return due;
}

static uint64_t write_step(void *arg)
{
    struct gate *gate = arg;
    static const uint64_t paces[] = {1, 4, 20, 100, 600};
    if (!gate->writing)
        return BELFRY_NEVER;
    if (sched_one_in(gate->sched, 30))
        gate->pace_ms = paces[sched_below(gate->sched, 5)];
    bool huge = sched_one_in(gate->sched, 40);
    if (huge ? etcd_write_huge(gate->etcd) : etcd_write(gate->etcd)) {
        struct history *history = etcd_history(gate->etcd);
        TRACE("etcd", "revision %lld is written%s", (long long)history_head(history, history_now(history)),
              huge ? " (huge)" : "");
    }
    gate_wake(gate);
    return sched_now(gate->sched) + sched_below(gate->sched, gate->pace_ms * sched_tempo(gate->sched) + 1);
}

struct gate *gate_create(struct sched *sched, struct etcd *etcd, uint64_t delay_ms)
{
    struct gate *gate = calloc(1, sizeof(*gate));
    if (gate == NULL)
        abort();
    *gate = (struct gate){.sched = sched, .etcd = etcd, .delay_ms = delay_ms, .pace_ms = 10};
    belfry_list_init(&gate->doors);
    gate->actor = sched_add(sched, ACTOR_PLAIN, gate_step, gate);
    gate->writer = sched_add(sched, ACTOR_PLAIN, write_step, gate);
    return gate;
}

void gate_destroy(struct gate *gate)
{
    if (gate == NULL)
        return;
    while (!belfry_list_empty(&gate->doors))
        close_door(door_of(gate->doors.next));
    sched_remove(gate->sched, gate->actor);
    sched_remove(gate->sched, gate->writer);
    belfry_buf_fini(&gate->request);
    free(gate);
}

void gate_add_tier(struct gate *gate, struct tier *tier)
{
    assert(gate->n_tiers < TIERS_MAX);
    gate->tiers[gate->n_tiers++] = tier;
}

struct link *gate_dial(struct gate *gate, unsigned member, struct actor *client, size_t window)
{
    if (member >= etcd_members(gate->etcd))
        member = (unsigned)sched_below(gate->sched, etcd_members(gate->etcd));
    struct etcd_stream *stream = etcd_stream_open(gate->etcd, member);
    if (stream == NULL)
        return NULL;
    struct door *door = calloc(1, sizeof(*door));
    if (door == NULL)
        abort();
    struct link_opts opts = {
        .sched = gate->sched, .client = client, .server = gate->actor, .delay_ms = gate->delay_ms, .window = window};
    door->stream = stream;
    door->link = link_create(&opts);
    belfry_list_append(&gate->doors, &door->node);
    gate_wake(gate);
    return door->link;
}

void gate_wake(struct gate *gate)
{
    gate->idle = false;
    sched_wake(gate->sched, gate->actor, sched_now(gate->sched));
}

void gate_write(struct gate *gate, bool go_on)
{
    gate->writing = go_on;
    sched_wake(gate->sched, gate->writer, sched_now(gate->sched));
}

bool gate_idle(const struct gate *gate)
{
    return gate->idle;
}
