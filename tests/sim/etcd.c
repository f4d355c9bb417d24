/* tests/sim/etcd.c */
#include "sim/etcd.h"

#include <assert.h>
#include <stdlib.h>

#include "sim/etcd_private.h"

#define SNAPSHOT_LAG 16 /* a member that was cut off and missed more may be sent a snapshot */
#define TICK_ODDS    64
#define RAFT_TERM    2

/* What etcd_step() may choose from. */
enum action_kind { ACTION_APPLY, ACTION_REPLAY, ACTION_SEND, ACTION_READ };

struct action {
    enum action_kind kind;
    void *of;
};

void *etcd_alloc(size_t size)
{
    void *p = calloc(1, size);
    if (p == NULL)
        abort();
    return p;
}

static struct etcd_stream *stream_of(struct belfry_list *node)
{
    return belfry_container(node, struct etcd_stream, node);
}

static struct etcd_read *read_of(struct belfry_list *node)
{
    return belfry_container(node, struct etcd_read, node);
}

struct etcd *etcd_create(struct history *history, struct belfry_rng *rng, const struct etcd_opts *opts)
{
    assert(opts->members >= 1 && opts->members <= ETCD_MEMBERS_MAX);
    struct etcd *etcd = etcd_alloc(sizeof(*etcd));
    etcd->history = history;
    etcd->rng = rng;
    etcd->opts = *opts;
    belfry_list_init(&etcd->streams);
    belfry_list_init(&etcd->reads);
    for (unsigned i = 0; i < opts->members; i++)
        etcd->members[i] = (struct member){.id = 0xe7cd00 + i, .visible = HISTORY_EMPTY_REV, .up = true};
    return etcd;
}

void etcd_destroy(struct etcd *etcd)
{
    if (etcd == NULL)
        return;
    while (!belfry_list_empty(&etcd->streams))
        etcd_stream_close(stream_of(etcd->streams.next));
    while (!belfry_list_empty(&etcd->reads))
        etcd_read_end(read_of(etcd->reads.next));
    free(etcd);
}

/* ---- the log of the cluster ---- */

static unsigned now(const struct etcd *etcd)
{
    return history_now(etcd->history);
}

static bool apply_compaction(struct etcd *etcd, struct member *member)
{
    const struct history_compaction *compactions;
    size_t n = history_compactions(etcd->history, now(etcd), &compactions);
    if (member->n_compactions >= n || compactions[member->n_compactions].after > member->visible)
        return false;
    member->compacted = compactions[member->n_compactions++].rev;
    return true;
}

static void install_snapshot(struct etcd *etcd, struct member *member)
{
    const struct history_compaction *compactions;
    member->visible = history_head(etcd->history, now(etcd));
    member->n_compactions = history_compactions(etcd->history, now(etcd), &compactions);
    member->compacted = history_compacted(etcd->history, now(etcd));
    member->was_cut_off = false;
    etcd->counts.snapshots++;
    belfry_list_each (node, &etcd->streams) {
        if (stream_of(node)->member == member)
            etcd_stream_unsync(stream_of(node));
    }
}

bool etcd_member_apply(struct etcd *etcd, struct member *member)
{
    int64_t head = history_head(etcd->history, now(etcd));
    if (!member->up || member->cut_off)
        return false;
    if (apply_compaction(etcd, member))
        return true;
    if (member->visible >= head) {
        member->was_cut_off = false;
        return false;
    }
    if (member->was_cut_off && head - member->visible > SNAPSHOT_LAG && belfry_rng_below(etcd->rng, 4) == 0) {
        install_snapshot(etcd, member);
        return true;
    }
    member->visible++;
    belfry_list_each (node, &etcd->streams) {
        if (stream_of(node)->member == member)
            etcd_stream_notify(stream_of(node));
    }
    return true;
}

/* ---- steps ---- */

static bool act(struct etcd *etcd, const struct action *action)
{
    switch (action->kind) {
    case ACTION_APPLY:
        return etcd_member_apply(etcd, action->of);
    case ACTION_REPLAY:
        return etcd_stream_replay(action->of);
    case ACTION_SEND:
        return etcd_stream_send(action->of);
    case ACTION_READ:
        return etcd_read_answer(action->of);
    }
    return false;
}

#define ACTIONS_MAX 1024

static size_t gather(struct etcd *etcd, struct action *actions)
{
    size_t n = 0;
    for (unsigned i = 0; i < etcd->opts.members; i++)
        actions[n++] = (struct action){ACTION_APPLY, &etcd->members[i]};
    belfry_list_each (node, &etcd->streams) {
        if (stream_of(node)->broken || n + 2 > ACTIONS_MAX)
            continue;
        actions[n++] = (struct action){ACTION_REPLAY, stream_of(node)};
        actions[n++] = (struct action){ACTION_SEND, stream_of(node)};
    }
    belfry_list_each (node, &etcd->reads) {
        if (read_of(node)->err == BELFRY_ERR_AGAIN && n < ACTIONS_MAX)
            actions[n++] = (struct action){ACTION_READ, read_of(node)};
    }
    return n;
}

bool etcd_step(struct etcd *etcd)
{
    struct action actions[ACTIONS_MAX];
    if (belfry_rng_below(etcd->rng, TICK_ODDS) == 0)
        etcd_tick(etcd);
    for (size_t n = gather(etcd, actions); n > 0; n--) { /* an action that can do nothing is struck out */
        size_t i = belfry_rng_below(etcd->rng, n);
        if (act(etcd, &actions[i]))
            return true;
        actions[i] = actions[n - 1];
    }
    return false;
}

void etcd_tick(struct etcd *etcd)
{
    belfry_list_each (node, &etcd->streams) {
        if (!stream_of(node)->broken)
            etcd_stream_tick(stream_of(node));
    }
}

/* ---- the cluster ---- */

unsigned etcd_members(const struct etcd *etcd)
{
    return etcd->opts.members;
}

struct history *etcd_history(const struct etcd *etcd)
{
    return etcd->history;
}

bool etcd_has_quorum(const struct etcd *etcd)
{
    unsigned n = 0;
    for (unsigned i = 0; i < etcd->opts.members; i++)
        n += etcd->members[i].up && !etcd->members[i].cut_off;
    return n * 2 > etcd->opts.members;
}

bool etcd_write(struct etcd *etcd)
{
    return etcd_has_quorum(etcd) && history_write(etcd->history, etcd->rng) != NULL;
}

bool etcd_write_huge(struct etcd *etcd)
{
    return etcd_has_quorum(etcd) && history_write_huge(etcd->history, etcd->rng) != NULL;
}

bool etcd_compact(struct etcd *etcd, int64_t rev)
{
    return etcd_has_quorum(etcd) && history_compact(etcd->history, rev);
}

void etcd_member_stop(struct etcd *etcd, unsigned member)
{
    assert(member < etcd->opts.members);
    struct member *which = &etcd->members[member];
    which->up = false;
    which->was_cut_off = true;
    etcd->counts.stops++;
    belfry_list_each (node, &etcd->streams) {
        if (stream_of(node)->member == which)
            etcd_stream_break(stream_of(node));
    }
    belfry_list_each (node, &etcd->reads) {
        if (read_of(node)->member == which && read_of(node)->err == BELFRY_ERR_AGAIN)
            etcd_read_fail(read_of(node), BELFRY_ERR_UNAVAILABLE);
    }
}

void etcd_member_start(struct etcd *etcd, unsigned member)
{
    assert(member < etcd->opts.members);
    etcd->members[member].up = true;
}

bool etcd_member_is_up(const struct etcd *etcd, unsigned member)
{
    assert(member < etcd->opts.members);
    return etcd->members[member].up;
}

void etcd_member_cut_off(struct etcd *etcd, unsigned member, bool cut_off)
{
    assert(member < etcd->opts.members);
    etcd->members[member].cut_off = cut_off;
    etcd->members[member].was_cut_off |= cut_off;
}

bool etcd_member_is_cut_off(const struct etcd *etcd, unsigned member)
{
    assert(member < etcd->opts.members);
    return etcd->members[member].cut_off;
}

int64_t etcd_member_revision(const struct etcd *etcd, unsigned member)
{
    assert(member < etcd->opts.members);
    return etcd->members[member].visible;
}

int64_t etcd_member_compacted(const struct etcd *etcd, unsigned member)
{
    assert(member < etcd->opts.members);
    return etcd->members[member].compacted;
}

struct belfry_wire_header etcd_header(const struct member *member, int64_t revision)
{
    return (struct belfry_wire_header){
        .cluster_id = HISTORY_CLUSTER_ID, .member_id = member->id, .revision = revision, .raft_term = RAFT_TERM};
}

struct belfry_wire_header etcd_member_header(const struct etcd *etcd, unsigned member)
{
    assert(member < etcd->opts.members);
    return etcd_header(&etcd->members[member], etcd->members[member].visible);
}

void etcd_restore(struct etcd *etcd, int64_t rev)
{
    for (unsigned i = 0; i < etcd->opts.members; i++)
        etcd_member_stop(etcd, i);
    history_fork(etcd->history, rev);
    const struct history_compaction *compactions;
    for (unsigned i = 0; i < etcd->opts.members; i++) {
        struct member *member = &etcd->members[i];
        member->visible = rev;
        member->n_compactions = history_compactions(etcd->history, now(etcd), &compactions);
        member->compacted = history_compacted(etcd->history, now(etcd));
        member->cut_off = member->was_cut_off = false;
        member->up = true;
    }
    etcd->counts.restores++;
}

const struct etcd_counts *etcd_counts(const struct etcd *etcd)
{
    return &etcd->counts;
}
