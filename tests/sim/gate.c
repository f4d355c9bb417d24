/* tests/sim/gate.c */
#include "sim/gate.h"

#include <assert.h>
#include <stdlib.h>

#include "base/list.h"
#include "net/grpc.h"
#include "sim/cover.h"
#include "sim/trace.h"

#define TIERS_MAX 8
#define KEPT_MS   600 /* that a proxy keeps a connection to a cluster that was restored */

struct door {
    struct belfry_list node;
    struct link *link;
    struct etcd_stream *stream;
    struct belfry_list errands;
    unsigned past;    /* of the cluster, when it was opened */
    uint64_t kept_ms; /* until then a proxy keeps it, and the cluster behind is another; 0: it does not */
};

/* A call that came by a door: a read of the member behind it. */
struct errand {
    struct belfry_list node;
    uint64_t call;
    struct etcd_read *read;
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

static void end_errand(struct errand *errand)
{
    etcd_read_end(errand->read);
    belfry_list_remove(&errand->node);
    free(errand);
}

static void close_door(struct door *door)
{
    while (!belfry_list_empty(&door->errands))
        end_errand(belfry_container(door->errands.next, struct errand, node));
    etcd_stream_close(door->stream);
    link_leave_server(door->link);
    belfry_list_remove(&door->node);
    free(door);
}

static void begin_errand(struct gate *gate, struct door *door, uint64_t call)
{
    struct belfry_wire_range_request request;
    struct errand *errand = calloc(1, sizeof(*errand));
    if (errand == NULL || belfry_scan_range_request(belfry_buf_bytes(&gate->request), &request) != BELFRY_OK)
        abort();
    struct etcd_range range = {.key = request.key,
                               .range_end = request.range_end,
                               .limit = request.limit,
                               .revision = request.revision,
                               .serializable = request.serializable,
                               .count_only = request.count_only};
    errand->call = call;
    errand->read = etcd_read_begin(gate->etcd, etcd_stream_member(door->stream), &range);
    belfry_list_append(&door->errands, &errand->node);
}

/* False: it is not answered yet. */
static bool answer_errand(struct door *door, struct errand *errand)
{
    struct belfry_bytes message;
    struct belfry_wire_header header;
    struct link_answer answer = {.call = errand->call};
    enum belfry_err err = etcd_read_poll(errand->read, &message, &header);
    if (err == BELFRY_ERR_AGAIN)
        return false;
    if (err != BELFRY_OK) {
        answer.code = err == BELFRY_ERR_UNAVAILABLE ? BELFRY_GRPC_UNAVAILABLE : BELFRY_GRPC_OUT_OF_RANGE;
        message = belfry_bytes_str(err == BELFRY_ERR_COMPACTED ? GATE_COMPACTED : belfry_strerror((int)err));
    }
    link_answer(door->link, &answer, message);
    end_errand(errand);
    return true;
}

/* True: some wait for their answers. */
static bool run_errands(struct gate *gate, struct door *door)
{
    bool waits = false;
    enum link_call kind; /* etcd does not know the field of a point */
    for (uint64_t call; link_called(door->link, &call, &kind, &gate->request);)
        begin_errand(gate, door, call);
    belfry_list_each_safe (node, &door->errands)
        waits = !answer_errand(door, belfry_container(node, struct errand, node)) || waits;
    return waits;
}

/* Now and then a proxy is between, which keeps the connection when the cluster behind it is restored: it has no more
 * for the watch, and passes calls on. A tier can tell by the revision that it is told, if it has more. So nothing is on
 * its way when this begins, and it ends with the first write: after that, revisions do not tell one past from the
 * other. */
static bool proxy_keeps(struct gate *gate, struct door *door)
{
    const struct history *history = etcd_history(gate->etcd);
    unsigned past = history_now(history);
    uint64_t now = sched_now(gate->sched);
    bool is_first = door->kept_ms == 0;
    if (past == door->past || history_head(history, past) != history_fork_rev(history, past))
        return false;
    if (is_first && (!link_is_quiet(door->link) || !belfry_list_empty(&door->errands) || sched_one_in(gate->sched, 2)))
        return false;
    if (is_first)
        door->kept_ms = now + 1 + sched_below(gate->sched, KEPT_MS);
    COVER_BY(restore_behind_proxy, is_first);
    return now < door->kept_ms;
}

/* Requests in, a few responses out. False: it is closed. */
static bool serve_door(struct gate *gate, struct door *door)
{
    bool is_broken = etcd_stream_is_broken(door->stream);
    if (link_client_gone(door->link) || (is_broken && !proxy_keeps(gate, door))) {
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
        if (run_errands(gate, door))
            due = belfry_min_time(due, now + 1);
        due = belfry_min_time(due, link_calls_due(door->link));
        if (door->kept_ms != 0)
            due = belfry_min_time(due, door->kept_ms);
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
    door->past = history_now(etcd_history(gate->etcd));
    belfry_list_init(&door->errands);
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
