/* tests/sim/world.c */
#include "sim/world.h"
#include "sim/kube/kube_world.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/evlog.h"
#include "follow/upstream.h"
#include "sim/checker.h"
#include "sim/client.h"
#include "sim/cover.h"
#include "sim/fault.h"
#include "sim/gate.h"
#include "sim/pairs.h"
#include "sim/reader.h"
#include "sim/verdict.h"

#define TIERS_MAX   4
#define LEVELS_MAX  3
#define CLIENTS_MAX 8
#define READERS_MAX 6
#define DRAIN_STEPS                                                                                                    \
    10000000 /* seed 1116155312476 takes 2,741,813: cursors below the window take turns at slow backfills */
#define DRAIN_MS       14400000 /* seed 7541760174414703797+auth takes more than a quarter of it, likewise */
#define UNREACHED      8        /* revisions that a restored cluster does not have, more than are written after it */
#define READS_RESTORES 16       /* what reads get wrong they get wrong then */
#define AUTH_SPACING   4        /* so that streams live long enough to lose a right */
#define LINGER_MS      20000    /* longer than any timer of the machines */
#define CALM_MS        180000 /* in which rights are known again, once upstream can be asked: an old token has 1 min */

/* Of one tier: what its scheduler-side callbacks need. */
struct place {
    int64_t capped; /* tier_capped(), as last seen */
    struct world *world;
    struct tier *tier;
    unsigned level; /* 0: follows etcd */
    char name[16], dir[64];
    uint64_t past, listings; /* seen last */
    uint64_t unproven;       /* at its last cut */
    /* How many pasts there must have been when the listing it makes was asked for, and the one it has; 0: it cannot be
     * told, and any past may be found to be gone. */
    unsigned pasts_asked, pasts_held;
};

struct world {
    struct world_opts opts;
    struct sched *sched;
    struct history *history;
    struct etcd *etcd;
    struct auth *auth; /* NULL: there is none */
    uint64_t rights_period_ms;
    struct checker *checker;
    struct gate *gate;
    struct fault *fault;
    struct place places[TIERS_MAX];
    struct tier *tiers[TIERS_MAX];
    size_t n_tiers;
    struct client *clients[CLIENTS_MAX];
    size_t n_clients;
    struct read_checker *read_checker; /* NULL: nobody reads */
    struct reader *readers[READERS_MAX];
    size_t n_readers;
    uint64_t looked;  /* the step of the last look at pairs */
    uint64_t calm_ms; /* by then rights must be known again */
};

/* ---- what the checker must hear ---- */

static void on_violation(void *user, const char *sentence)
{
    (void)user;
    verdict_fail("%s", sentence);
}

static void on_wire(void *user, const char *line)
{
    (void)user;
    trace_line("wire", "%s", line);
}

/* A listing of a tier has no more of the newest past than the tier has which it is asked of. */
static unsigned pasts_above(const struct world *world, unsigned level)
{
    unsigned least = history_pasts(world->history);
    for (size_t i = 0; i < world->n_tiers; i++) {
        const struct place *place = &world->places[i];
        if (place->level + 1 == level && place->pasts_held < least)
            least = place->pasts_held;
    }
    return least;
}

static void observe_cut(struct place *place, const struct evlog_cut *cut, const struct upstream_stats *stats)
{
    struct world *world = place->world;
    bool excused = stats->relists_unproven != place->unproven;
    unsigned pasts = history_pasts(world->history);
    bool warm = cut->why == EVLOG_CUT_START && tier_was_warm(place->tier);
    TRACE(place->name, "cut: past=%llu rev=%lld why=%d compact=%lld", (unsigned long long)cut->past,
          (long long)cut->rev, (int)cut->why, (long long)cut->compact_rev);
    if (cut->why == EVLOG_CUT_REWRITTEN && !excused && (pasts == 1 || pasts == place->pasts_held))
        verdict_fail("%s: lists anew at %lld because the past was rewritten, which it was not", place->name,
                     (long long)cut->rev);
    place->unproven = stats->relists_unproven;
    place->pasts_held = warm ? 0 : place->pasts_asked; /* what is on disk may be older than what was held */
    if (!warm)
        checker_listed(world->checker, cut, tier_oldest_past(place->tier));
}

/* Every listing and every cut of every tier, whoever is running. */
static void observe(void *arg)
{
    struct world *world = arg;
    for (size_t i = 0; i < world->n_tiers; i++) {
        struct place *place = &world->places[i];
        struct evlog_cut cut;
        struct upstream_stats stats;
        tier_followed(place->tier, &stats);
        int64_t capped = tier_capped(place->tier);
        if (capped != place->capped && capped != 0)
            checker_capped(world->checker, capped);
        place->capped = capped;
        if (place->listings != stats.listings) {
            place->listings = stats.listings;
            place->pasts_asked = pasts_above(world, place->level);
        }
        tier_cut(place->tier, &cut);
        if (cut.past == place->past)
            continue;
        place->past = cut.past;
        if (cut.past == 0)
            place->pasts_held = 0;
        else
            observe_cut(place, &cut, &stats);
    }
}

/* ---- who follows whom ---- */

static struct link *dial_level(struct world *world, unsigned level, struct actor *client, size_t window)
{
    size_t n = 0, ready[TIERS_MAX];
    struct auth_who who = auth_by_name(AUTH_TIERS_USER);
    for (size_t i = 0; i < world->n_tiers; i++)
        if (world->places[i].level == level && tier_ready(world->places[i].tier))
            ready[n++] = i;
    return n == 0 ? NULL
                  : tier_dial(world->places[ready[sched_below(world->sched, n)]].tier, client, window, TIER_STREAM_GRPC,
                              &who);
}

static struct link *dial_up(void *user, struct actor *client)
{
    struct place *place = user;
    struct world *world = place->world;
    static const size_t windows[] = {200, 3000, 64 * 1024};
    size_t window = windows[sched_below(world->sched, 3)];
    if (place->level == 0)
        return gate_dial(world->gate, UINT32_MAX, client, window);
    return dial_level(world, place->level - 1, client, window);
}

/* What a client speaks. */
static enum checker_kind pick_kind(struct sched *sched)
{
    if (!sched_one_in(sched, 3))
        return CHECKER_TIER;
    return sched_one_in(sched, 2) ? CHECKER_PAGES : CHECKER_LINES;
}

static struct link *dial_any(void *user, struct actor *client, size_t window, const struct auth_who *who,
                             enum checker_kind *kind)
{
    struct world *world = user;
    struct tier *tier = world->tiers[sched_below(world->sched, world->n_tiers)];
    if (*kind == CHECKER_LINES)
        return tier_dial(tier, client, window, TIER_STREAM_LINES, who);
    if (*kind == CHECKER_PAGES)
        return tier_dial(tier, client, window, TIER_STREAM_PAGES, who);
    *kind = sched_one_in(world->sched, 6) ? CHECKER_DIRECT : CHECKER_TIER;
    if (*kind == CHECKER_DIRECT)
        return gate_dial(world->gate, UINT32_MAX, client, window);
    return tier_dial(tier, client, window, TIER_STREAM_GRPC, who);
}

/* Every tier has a reader, and one or two have another. */
static struct link *dial_reader(void *user, unsigned number, struct actor *client)
{
    struct world *world = user;
    struct auth_who who = {.kind = AUTH_NOBODY};
    return tier_dial(world->tiers[number % world->n_tiers], client, 64 * 1024, TIER_STREAM_GRPC, &who);
}

/* ---- building ---- */

static uint64_t pick(struct world *world, const uint64_t *of, size_t n)
{
    return of[sched_below(world->sched, n)];
}

#define PICK(world, ...)                                                                                               \
    pick(world, (const uint64_t[]){__VA_ARGS__}, sizeof((uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))

static void add_tier(struct world *world, unsigned level)
{
    struct sched *sched = world->sched;
    struct place *place = &world->places[world->n_tiers];
    *place = (struct place){.world = world, .level = level};
    snprintf(place->name, sizeof(place->name), "tier%zu.%u", world->n_tiers, level);
    snprintf(place->dir, sizeof(place->dir), P_tmpdir "/belfry-sim-%ld-%zu", (long)getpid(), world->n_tiers);
    struct tier_opts opts = {
        .sched = sched,
        .name = place->name,
        .peer = {.user = place, .dial = dial_up, .etcd = world->etcd},
        .store = world->opts.store,
        .dir = place->dir,
        .n_workers = 1 + (unsigned)sched_below(sched, TIER_WORKERS_MAX),
        .seed = belfry_rng_next(sched_rng(sched)),
        .log_capacity_log2 = 4 + (unsigned)sched_below(sched, 3),
        .log_bytes = PICK(world, 2000, 6000, 30000),
        .history_rows = PICK(world, 10, 40, 150, 1000),
        .extent_bytes = PICK(world, 3000, 5000),
        .fragment_bytes = PICK(world, 300, 600, 5000),
        .response_bytes = PICK(world, 300, 1500, 20000),
        .segment_bytes = PICK(world, 300, 1500, 8000),
        .backfill_bytes = PICK(world, 300, 1500, 8000),
        .replay_bytes = PICK(world, 8000, 30000, 64 * 1024 * 1024),
        .response_revs = (uint32_t)PICK(world, 2, 8, 1000),
        .progress_ms = PICK(world, 300, 1500, 6000),
        .window = (int64_t)PICK(world, 3, 5, 20),
        .far = (int64_t)PICK(world, 12, 30),
        .page = (int64_t)PICK(world, 2, 3, 10),
        .delay_ms = PICK(world, 0, 1, 5, 30),
        .auth = world->auth,
        .rights_period_ms = world->rights_period_ms,
        .level = level,
        .reads = world->opts.recipe.reads,
    };
    if (world->auth != NULL && !sched_one_in(sched, 4))
        opts.n_workers = 1; /* so that clients of one user meet */
    place->tier = world->tiers[world->n_tiers] = tier_create(&opts);
    gate_add_tier(world->gate, place->tier);
    world->n_tiers++;
}

static void build_cluster(struct world *world)
{
    struct history_opts history = {.huge_bytes = 6000, .big_values = sched_one_in(world->sched, 2)};
    struct etcd_opts etcd = {.members = 1 + (unsigned)sched_below(world->sched, ETCD_MEMBERS_MAX),
                             .fragment_bytes = PICK(world, 300, 600, 5000),
                             .replay_revs = (unsigned)PICK(world, 3, 10, 1000),
                             .queue_max = PICK(world, 2, 8, 128),
                             .wire_max = PICK(world, 1, 4, 32)};
    struct checker_opts checker = {.violation = on_violation, .trace = world->opts.trace != TRACE_OFF ? on_wire : NULL};
    world->history = history_create(&history);
    world->etcd = etcd_create(world->history, sched_rng(world->sched), &etcd);
    world->checker = checker_create(world->history, &checker);
    world->gate = gate_create(world->sched, world->etcd, PICK(world, 0, 1, 5, 30));
    for (uint64_t n = sched_below(world->sched, 40); n > 0; n--)
        etcd_write(world->etcd);
}

static void build_auth(struct world *world)
{
    static const uint64_t least_ms = 400, most_ms = 8000;
    uint64_t period_ms = sched_tempo(world->sched) * PICK(world, 200, 400); /* some ten of them in a run */
    period_ms = period_ms < least_ms ? least_ms : period_ms > most_ms ? most_ms : period_ms;
    world->rights_period_ms = period_ms;
    struct auth_opts auth = {.sched = world->sched, .etcd = world->etcd, .period_ms = period_ms - period_ms / 50};
    world->auth = auth_create(&auth); /* permit ends rights by 2 percent early, and is held to that */
}

static void build_readers(struct world *world)
{
    world->read_checker = read_checker_create(world->history);
    for (size_t n = world->n_tiers + sched_below(world->sched, 3); world->n_readers < n; world->n_readers++) {
        struct reader_opts opts = {.sched = world->sched,
                                   .checker = world->read_checker,
                                   .history = world->history,
                                   .number = (unsigned)world->n_readers,
                                   .user = world,
                                   .dial = dial_reader};
        world->readers[world->n_readers] = reader_create(&opts);
    }
}

static void build(struct world *world)
{
    build_cluster(world);
    if (world->opts.recipe.auth)
        build_auth(world);
    unsigned levels = 1 + (unsigned)sched_below(world->sched, LEVELS_MAX);
    if (world->auth != NULL && levels > 2)
        levels = 2; /* so that clients meet; what comes through tiers has an age (asking.h) */
    for (unsigned level = 0; level < levels; level++) {
        add_tier(world, level);
        if (world->n_tiers + (levels - 1 - level) < TIERS_MAX && sched_one_in(world->sched, 4))
            add_tier(world, level);
    }
    for (size_t i = 0; i < world->n_tiers; i++)
        tier_start(world->tiers[i]);
    size_t least = world->auth == NULL ? 1 : CLIENTS_MAX / 2;
    for (size_t n = least + sched_below(world->sched, CLIENTS_MAX + 1 - least); world->n_clients < n;
         world->n_clients++) {
        struct client_opts opts = {.sched = world->sched,
                                   .checker = world->checker,
                                   .history = world->history,
                                   .number = (unsigned)world->n_clients,
                                   .kind = pick_kind(world->sched),
                                   .by_gateway = sched_one_in(world->sched, 4),
                                   .user = world,
                                   .auth = world->auth,
                                   .dial = dial_any};
        if (world->auth != NULL) {
            opts.auth_user = 1 + (unsigned)sched_below(world->sched, AUTH_USERS - 1);
            opts.by_name = sched_one_in(world->sched, 3);
        }
        opts.by_gateway = opts.by_gateway && opts.kind == CHECKER_TIER;
        world->clients[world->n_clients] = client_create(&opts);
    }
    if (world->opts.recipe.reads)
        build_readers(world);
    struct fault_opts fault = {.sched = world->sched,
                               .etcd = world->etcd,
                               .gate = world->gate,
                               .tiers = world->tiers,
                               .n_tiers = world->n_tiers,
                               .spacing = world->auth == NULL ? 1 : AUTH_SPACING,
                               .restores = world->opts.recipe.reads ? READS_RESTORES : 0};
    world->fault = fault_create(&fault);
    gate_write(world->gate, true);
    sched_observe(world->sched, observe, world);
}

static void take_down(struct world *world)
{
    for (size_t i = 0; i < world->n_readers; i++)
        reader_destroy(world->readers[i]);
    read_checker_destroy(world->read_checker);
    for (size_t i = 0; i < world->n_clients; i++)
        client_destroy(world->clients[i]);
    for (size_t i = 0; i < world->n_tiers; i++)
        if (tier_up(world->tiers[i]))
            tier_stop(world->tiers[i], TIER_STOP_KILL);
    fault_destroy(world->fault);
    gate_destroy(world->gate);
    for (size_t i = 0; i < world->n_tiers; i++)
        tier_destroy(world->tiers[i]);
    auth_destroy(world->auth);
    checker_destroy(world->checker);
    etcd_destroy(world->etcd);
    history_destroy(world->history);
    sched_destroy(world->sched);
}

static void remove_folders(const struct world *world)
{
    for (size_t i = 0; world->opts.store == TIER_STORE_LMDB && i < world->n_tiers; i++)
        tier_remove_folder(world->tiers[i]);
}

/* ---- running ---- */

static void check_all(struct world *world)
{
    for (size_t i = 0; i < world->n_tiers; i++)
        tier_check(world->tiers[i]);
}

static bool is_calm(const struct world *world)
{
    for (size_t i = 0; i < world->n_tiers; i++)
        if (!tier_is_calm(world->tiers[i]))
            return false;
    return true;
}

static bool are_connected(const struct world *world)
{
    for (size_t i = 0; i < world->n_clients; i++)
        if (!client_connected(world->clients[i]))
            return false;
    return true;
}

static bool settled(struct world *world)
{
    int64_t head = history_head(world->history, history_now(world->history));
    if (!gate_idle(world->gate))
        return false;
    for (size_t i = 0; i < world->n_tiers; i++)
        if (!tier_ready(world->tiers[i]) || tier_head(world->tiers[i]) != head ||
            tier_position(world->tiers[i]) != head)
            return false;
    for (size_t i = 0; i < world->n_readers; i++)
        if (!reader_is_done(world->readers[i]))
            return false;
    return are_connected(world);
}

static void complain(struct world *world)
{
    char text[512];
    int at = snprintf(text, sizeof(text), "not everybody has everything: the cluster is at %lld",
                      (long long)history_head(world->history, history_now(world->history)));
    for (size_t i = 0; i < world->n_tiers; i++)
        at += snprintf(text + at, sizeof(text) - (size_t)at, "; %s %s, published %lld, slowest worker %lld",
                       world->places[i].name, tier_ready(world->tiers[i]) ? "ready" : "NOT READY",
                       (long long)tier_head(world->tiers[i]), (long long)tier_position(world->tiers[i]));
    for (size_t i = 0; i < world->n_clients; i++)
        if (!client_connected(world->clients[i]))
            at += snprintf(text + at, sizeof(text) - (size_t)at, "; client%zu not connected", i);
    for (size_t i = 0; i < world->n_readers; i++)
        if (!reader_is_done(world->readers[i]))
            at += snprintf(text + at, sizeof(text) - (size_t)at, "; reader%zu not answered", i);
    verdict_fail("%s", text);
}

static bool busy(const struct world *world)
{
    for (size_t i = 0; i < world->n_tiers; i++)
        if (tier_busy(world->tiers[i]))
            return true;
    return false;
}

/* Until nothing has been on its way for LINGER_MS. */
static void linger(struct world *world)
{
    uint64_t until = sched_now(world->sched) + LINGER_MS, most = sched_steps(world->sched) + DRAIN_STEPS;
    while (sched_now(world->sched) < until && !verdict_failed() && sched_steps(world->sched) < most) {
        if (!sched_step(world->sched))
            break;
        bool is_restless = !is_calm(world) || !are_connected(world); /* a client that comes again is to be answered */
        if (busy(world) || (sched_now(world->sched) < world->calm_ms && is_restless))
            until = sched_now(world->sched) + LINGER_MS;
    }
    if (sched_steps(world->sched) >= most)
        verdict_fail("no rest: %d steps although nothing happens", DRAIN_STEPS);
}

/* While reads wait for revisions that were told of, the cluster is restored from a backup with all that the first tier
 * has. Nothing but the lost connections tells of it, and those revisions never come. */
static void restore_behind_reads(struct world *world)
{
    const struct history *history = etcd_history(world->etcd);
    for (int n = 0; n < UNREACHED; n++)
        etcd_write(world->etcd);
    for (uint64_t n = sched_below(world->sched, 200); n > 0 && !verdict_failed(); n--)
        (void)sched_step(world->sched);
    int64_t rev = tier_head(world->tiers[0]), head = history_head(history, history_now(history));
    if (verdict_failed() || rev < 10 || rev + 4 > head || history_pasts(history) >= HISTORY_PASTS_MAX)
        return;
    TRACE("world", "the cluster (at %lld) is restored from a snapshot at %lld, which is all that %s has",
          (long long)head, (long long)rev, tier_name(world->tiers[0]));
    etcd_restore(world->etcd, rev);
}

static void drain(struct world *world)
{
    if (world->opts.recipe.reads && sched_one_in(world->sched, 2))
        restore_behind_reads(world);
    TRACE("world", "faults stop");
    if (world->auth != NULL)
        auth_settle(world->auth);
    fault_stop(world->fault);
    gate_write(world->gate, false);
    for (size_t i = 0; i < world->n_clients; i++)
        client_settle(world->clients[i]);
    for (size_t i = 0; i < world->n_readers; i++)
        reader_settle(world->readers[i]);
    for (int n = 0; n < 3; n++)
        etcd_write(world->etcd);
    gate_wake(world->gate);
    uint64_t most_ms = sched_now(world->sched) + DRAIN_MS, most = sched_steps(world->sched) + DRAIN_STEPS;
    world->calm_ms = sched_now(world->sched) + CALM_MS;
    while (!verdict_failed() && !settled(world)) {
        if (sched_now(world->sched) > most_ms || sched_steps(world->sched) > most || !sched_step(world->sched)) {
            complain(world);
            return;
        }
    }
    linger(world);
    check_all(world);
    if (world->read_checker != NULL && !verdict_failed())
        read_checker_finish(world->read_checker);
    if (!verdict_failed())
        (void)checker_finish(world->checker); /* reports through on_violation() */
}

static void look_at_pairs(struct world *world)
{
    for (size_t i = 0; i < world->n_tiers; i++)
        tier_cover(world->tiers[i]);
    pairs_look(sched_steps(world->sched));
}

/* With faults. A turn of the recipe is taken before the first step that is not of the run it turns from. */
static void run_faults(struct world *world)
{
    const struct recipe *recipe = &world->opts.recipe;
    unsigned turn = 0;
    while (!verdict_failed() && sched_steps(world->sched) < world->opts.steps) {
        uint64_t step = sched_steps(world->sched);
        if (step % 64 == 0)
            check_all(world);
        if (step >= world->looked + PAIRS_STEPS) {
            world->looked = step;
            look_at_pairs(world);
        }
        for (; turn < recipe->n_turns && recipe->turns[turn].step <= step; turn++)
            sched_turn(world->sched, recipe->turns[turn].seed);
        if (!sched_step(world->sched))
            break;
    }
}

uint64_t world_run(const struct world_opts *opts)
{
    if (opts->recipe.kube)
        return kube_world_run(opts);
    struct world world = {.opts = *opts, .sched = sched_create(opts->recipe.seed)};
    verdict_clear();
    pairs_start();
    trace_start(opts->trace, sched_clock(world.sched));
    build(&world);
    run_faults(&world);
    if (!verdict_failed())
        drain(&world);
    uint64_t steps = sched_steps(world.sched);
    sched_observe(world.sched, NULL, NULL);
    if (!verdict_failed()) /* what has been found wrong may not stand being taken down */
        take_down(&world);
    else
        remove_folders(&world);
    return steps;
}
