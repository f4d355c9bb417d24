/* tests/sim/tier.h
 *
 * tier: a belfryd without sockets: the machines of src/core, src/follow and the client's mux, wired as the daemon wires
 * them, its threads run by the scheduler: one for ingest (feed.c), one that reads the store (reader.c), two or three
 * workers (serve.c).
 *
 * Thread: the one thread of the simulator.
 */
#ifndef BELFRY_SIM_TIER_H
#define BELFRY_SIM_TIER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sim/auth.h"
#include "sim/etcd.h"
#include "sim/link.h"
#include "sim/sched.h"

#define TIER_WORKERS_MAX 3

struct tier;

/* Whom a tier follows: streams of etcd's members or of tiers above; reads are etcd's, relayed. */
struct tier_peer {
    void *user;
    struct link *(*dial)(void *user, struct actor *client); /* NULL: nobody answers now */
    struct etcd *etcd;
};

enum tier_store { TIER_STORE_MODEL, TIER_STORE_LMDB };

struct tier_opts {
    struct sched *sched;
    const char *name;
    struct tier_peer peer;
    enum tier_store store;
    const char *dir; /* of a store on disk */
    unsigned n_workers;
    uint64_t seed;
    unsigned log_capacity_log2;
    size_t log_bytes, history_rows, extent_bytes, fragment_bytes, response_bytes, segment_bytes, backfill_bytes,
        replay_bytes;
    uint32_t response_revs;
    uint64_t progress_ms;
    int64_t window, far, page;
    uint64_t delay_ms; /* of its network and between its threads */
    /* rights; auth NULL: the cluster has none, and nobody is asked about */
    struct auth *auth;
    uint64_t rights_period_ms;
    unsigned level; /* how many tiers are above it */
    bool reads;     /* it answers reads */
};

/* Not started yet. */
struct tier *tier_create(const struct tier_opts *opts);
void tier_destroy(struct tier *tier); /* stopped; NULL is fine */

/* Its folder goes, whatever is still open in it: for a process that is about to end. */
void tier_remove_folder(const struct tier *tier);

enum tier_stop {
    TIER_STOP_KILL,   /* SIGKILL: what is committed is there at the next start */
    TIER_STOP_POWER,  /* power loss: the page cache is gone */
    TIER_STOP_DISCARD /* and somebody has removed the folder */
};
void tier_start(struct tier *tier);
void tier_stop(struct tier *tier, enum tier_stop how);
bool tier_up(const struct tier *tier);

/* Could it be dialled now? */
bool tier_ready(const struct tier *tier);

/* A stream on one of its workers, of the client `who`; NULL: it is not ready. */
enum tier_stream { TIER_STREAM_GRPC, TIER_STREAM_LINES, TIER_STREAM_PAGES };
struct link *tier_dial(struct tier *tier, struct actor *client, size_t window, enum tier_stream kind,
                       const struct auth_who *who);

/* ---- faults ---- */

void tier_break_links(struct tier *tier);                      /* to upstream */
void tier_silence_links(struct tier *tier, uint64_t until_ms); /* nothing comes from upstream, nor goes there */
void tier_freeze_worker(struct tier *tier, uint64_t until_ms); /* one of them, not scheduled for long */
void tier_freeze(struct tier *tier, uint64_t until_ms);        /* SIGSTOP */
void tier_fail_disk(struct tier *tier, unsigned n);
void tier_damage_replica(struct tier *tier); /* its history can no longer be read */

/* ---- how it stands ---- */

int64_t tier_head(const struct tier *tier);     /* published; 0: nothing */
int64_t tier_position(const struct tier *tier); /* of its slowest worker */
int64_t tier_capped(const struct tier *tier);   /* the last compaction told that is cut to its own head; 0: none */
const char *tier_name(const struct tier *tier);

/* History is on its way to a watcher, or the tier is joining or listing. A tier whose old past ended at the very
 * revision that the cluster has reached again looks as if it had everything, until it learns of the other past and
 * lists. */
bool tier_busy(const struct tier *tier);

/* No stream waits for an answer about rights, or is paused for want of one. */
bool tier_is_calm(const struct tier *tier);

/* Reads that are under way go on: for the actor that plays upstream. Returns when to look again. */
uint64_t tier_run_reads(struct tier *tier);

/* The past that its log is in, and how it began; for those who must know of every cut. */
struct evlog_cut;
void tier_cut(const struct tier *tier, struct evlog_cut *out); /* past 0: none */
bool tier_was_warm(const struct tier *tier);                   /* its last start */
uint64_t tier_oldest_past(const struct tier *tier);            /* that one of its workers is still in; 0: it is down */
struct upstream_stats;
void tier_followed(const struct tier *tier, struct upstream_stats *out); /* since then; zeroed while it is down */

/* Is everything that was promised about memory true? Fails the run if not. */
void tier_check(struct tier *tier);

/* Adds what the machines have counted since the last call to the paths taken. */
void tier_cover(struct tier *tier);

#endif
