/* tests/storm/run.c */
#include "storm/run.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "serve/kfront/krelay_docs.h"
#include "storm/apiserver.h"
#include "storm/chance.h"
#include "storm/client.h"
#include "storm/clock.h"
#include "storm/etcd.h"
#include "storm/feed.h"
#include "storm/house.h"
#include "storm/kclient.h"
#include "storm/kcurl.h"
#include "storm/origin.h"
#include "storm/rogue.h"
#include "storm/verdict.h"
#include "support/refuse.h"

#define CLIENTS       2
#define ROGUES        10
#define HEAL_ROUNDS   4000 /* until the clients in good order are served: 10 ms each */
#define SETTLE_ROUNDS 4000 /* until every account is at zero */
#define LOOK_ROUNDS   97   /* between two looks: not a second, after which a tier asks upstream whether auth is on */
#define ROUND_MS      10
#define LOST_ROUNDS   150 /* after a right was lost: 100 ms each */
#define LOST_ROUND_MS 100
#define POOLS_STEPS   100         /* between two looks at the pools */
#define SLACK_BYTES   (64 * 1024) /* of what relayed requests hold: bytes that wait to be sent upstream */

static struct {
    struct choices *choices;
    struct client clients[CLIENTS];   /* n_clients of them, in front of etcd, */
    struct kclient kclients[CLIENTS]; /* or n_kclients, in front of Kubernetes */
    struct kcurl kcurl;               /* and this one */
    size_t n_clients, n_kclients;
    struct rogue rogues[ROGUES];
    struct run_tally *tally;
} run;

/* ---- what happens ---- */

static void act_rogue(void)
{
    struct rogue *rogue = &run.rogues[choose(run.choices, ROGUES)];
    if (rogue_is_open(rogue)) {
        rogue_act(rogue, run.choices);
        run.tally->requests++;
    } else {
        rogue_open(rogue, run.choices);
        run.tally->connections++;
    }
}

static void act_fault(void)
{
    struct choices *choices = run.choices;
    switch (choose(choices, 10)) {
    case 0:
    case 1:
    case 2:
        house_refuse(choose(choices, 60));
        run.tally->refusals_of_memory++;
        break;
    case 3:
        if (house_is_kube())
            apiserver_set_right(!apiserver_has_right());
        else
            etcd_set_auth(!etcd_has_auth());
        break;
    case 4:
    case 5:
        origin_set_fault(origin_fault() != ORIGIN_WELL ? ORIGIN_WELL
                                                       : (enum origin_fault)choose(choices, ORIGIN_AWAY + 1));
        break;
    case 6:
    case 7:
        origin_strike((enum origin_blow)choose(choices, ORIGIN_BLOWS));
        break;
    case 8:
        feed_set_stale(choose(choices, 2) == 0);
        break;
    case 9:
        if (choose_rarely(choices, 4))
            feed_cut(choose(choices, 2) == 0 ? EVLOG_CUT_REWRITTEN : EVLOG_CUT_COMPACTED);
        break;
    }
}

/* Now and then more than the log holds. */
static void act_write(void)
{
    for (uint32_t n = choose_rarely(run.choices, 4) ? 1 + choose(run.choices, 30) : 1; n > 0; n--)
        feed_write(run.choices, FEED_ANY);
}

static void act_time(void)
{
    static const uint32_t spans[] = {1, 1, 5, 5, 20, 20, 100, 100, 600, 600, 1500, 11000};
    clock_pass(1 + choose(run.choices, spans[choose(run.choices, 12)]));
}

static void turn_clients(void)
{
    for (size_t i = 0; i < run.n_clients; i++)
        client_turn(&run.clients[i]);
    for (size_t i = 0; i < run.n_kclients; i++)
        kclient_turn(&run.kclients[i]);
    if (house_is_kube())
        kcurl_turn(&run.kcurl);
    for (size_t i = 0; i < ROGUES; i++)
        rogue_turn(&run.rogues[i]);
}

static void step(void)
{
    uint32_t what = choose(run.choices, 64);
    if (what < 22)
        act_rogue();
    else if (what < 26)
        act_write();
    else if (what < 29)
        act_time();
    else if (what < 31)
        act_fault();
    else if (what < 46)
        turn_clients();
    else if (what < 52)
        house_turn();
    else if (what < 63)
        house_round();
    else if (choose_rarely(run.choices, 2))
        house_reload();
    else if (choose_rarely(run.choices, 8))
        house_drain(choose(run.choices, 2000));
    run.tally->steps++;
}

/* ---- the end ---- */

static void let_pass(void)
{
    clock_pass(ROUND_MS);
    house_round();
}

static void heal(void)
{
    origin_set_fault(ORIGIN_WELL);
    origin_strike(ORIGIN_DROP); /* calls that it was silent about end */
    apiserver_set_calm();
    apiserver_set_right(true);
    feed_set_stale(false);
    for (size_t i = 0; i < ROGUES; i++)
        rogue_close(&run.rogues[i]);
    for (size_t i = 0; i < run.n_clients; i++)
        client_ask(&run.clients[i]);
    for (size_t i = 0; i < run.n_kclients; i++)
        kclient_ask(&run.kclients[i]);
    kcurl_ask(&run.kcurl);
    for (int n = 0; n < 3; n++)
        feed_write(run.choices, FEED_ANY);
}

static bool all_are_served(void)
{
    for (size_t i = 0; i < run.n_clients; i++)
        if (!client_is_served(&run.clients[i]))
            return false;
    for (size_t i = 0; i < run.n_kclients; i++)
        if (!kclient_is_served(&run.kclients[i]))
            return false;
    return !house_is_kube() || kcurl_is_served(&run.kcurl);
}

static void tell(const struct worker_numbers *n)
{
    verdict_note(
        "a worker: connections %zu (http1 %zu, http2 %zu, tls %zu; %zu bytes); Watch: %zu streams, %zu asking, %zu "
        "held bytes, %llu creates; core: %zu watchers, %zu waiting, %zu stalled, %zu parked, %zu bytes; relayed %zu; "
        "Kubernetes: %zu watches, %zu lists, %zu relayed, %zu reviews; rights: %zu claims, %zu wait, %zu asked, %zu "
        "paused",
        n->inbound.connections, n->inbound.http1, n->inbound.http2, n->inbound.tls, n->inbound.bytes, n->watch.streams,
        n->watch.asking, n->watch.held_bytes, (unsigned long long)n->watch.creates, n->core.watchers, n->core.waiting,
        n->core.stalled, n->core.parked, n->core.bytes, n->relay.running, n->kube.watches,
        n->kube_lists.active + n->kube_lists.waiting, n->kfront.relay.running, n->reviews.under_way,
        n->permit.rights.kept, n->permit.rights.waiting, n->permit.rights.asking, n->permit.rights.paused);
}

static void tell_workers(void)
{
    size_t n;
    const struct worker_numbers *workers = house_count(&n);
    for (size_t i = 0; workers != NULL && i < n; i++)
        tell(&workers[i]);
}

static void expect_service(void)
{
    unsigned rounds = 0;
    while (!all_are_served() && rounds++ < HEAL_ROUNDS) {
        let_pass();
        turn_clients();
    }
    if (all_are_served())
        return;
    for (size_t i = 0; i < run.n_clients; i++)
        client_tell(&run.clients[i]);
    for (size_t i = 0; i < run.n_kclients; i++)
        kclient_tell(&run.kclients[i]);
    kcurl_tell(&run.kcurl);
    tell_workers();
    verdict_fail("a client in good order is not served, %d s after all faults ended", HEAL_ROUNDS * ROUND_MS / 1000);
}

/* A right is lost: what its client must not receive any more, the client judges itself. Its watch may go on in silence
 * while the question about its right waits for a busy API server. */
static void expect_loss(void)
{
    apiserver_set_right(false);
    for (unsigned n = 0; n < LOST_ROUNDS; n++) {
        if (n % 10 == 0)
            feed_write(run.choices, FEED_ANY);
        clock_pass(LOST_ROUND_MS);
        house_round();
        turn_clients();
    }
}

/* The account that is not at zero; NULL: all are. */
static const char *left_over(const struct worker_numbers *n, size_t *out)
{
    const struct {
        const char *name;
        size_t value;
    } accounts[] = {{"connections", n->inbound.connections},
                    {"bytes of connections", n->inbound.bytes},
                    {"streams of Watch", n->watch.streams},
                    {"questions of Watch", n->watch.asking},
                    {"half messages of Watch", n->watch.inside},
                    {"held bytes of Watch", n->watch.held_bytes},
                    {"relayed calls", n->relay.running},
                    {"held bytes of relayed calls", n->relay.held_bytes},
                    {"relayed requests of Kubernetes", n->kfront.relay.running},
                    {"held bytes of relayed requests of Kubernetes", n->kfront.relay.held_bytes},
                    {"reviews", n->reviews.under_way},
                    {"calls upstream", n->uplink.calls},
                    {"watches of Kubernetes", n->kube.watches},
                    {"held requests of Kubernetes", n->kube.held},
                    {"bytes of Kubernetes' watches", n->kube.bytes},
                    {"streams of Server-Sent Events", n->sse.streams},
                    {"bytes of Server-Sent Events", n->sse.bytes},
                    {"lists", n->kube_lists.active + n->kube_lists.waiting},
                    {"claims", n->permit.rights.kept + n->permit.rights.waiting},
                    {"questions about rights", n->permit.rights.asking},
                    {"bytes of rights", n->permit.rights.bytes},
                    {"bytes of half-sent messages", n->core.rest_bytes},
                    {"bytes in the pool of requests", n->pools[SHARES_REQUESTS].used},
                    {"bytes in the pool of watches", n->pools[SHARES_WATCH_BYTES].used},
                    {"bytes in the pool of lists", n->pools[SHARES_LIST_BYTES].used}};
    for (size_t i = 0; i < sizeof(accounts) / sizeof(accounts[0]); i++) {
        if (accounts[i].value == 0)
            continue;
        *out = accounts[i].value;
        return accounts[i].name;
    }
    return NULL;
}

/* What relayed requests have held, at most: the pool, and what is granted beyond it while connections that were ended
 * still hold theirs (shares.h). Other pools are for those that stay: a connection that is ended for its room holds that
 * room until it is gone, and meanwhile others have it. */
static void expect_bound(const struct worker_numbers *n)
{
    static const enum shares_pool pools[] = {SHARES_REQUESTS, SHARES_WATCH_BYTES, SHARES_LIST_BYTES};
    for (size_t i = 0; i < sizeof(pools) / sizeof(pools[0]); i++) {
        const struct pool_numbers *p = &n->pools[pools[i]];
        if (p->used > (ROGUES + CLIENTS + 1) * p->limit)
            verdict_fail("clients hold %llu of %s, and %llu is the limit", (unsigned long long)p->used,
                         shares_pool_name(pools[i]), (unsigned long long)p->limit);
    }

    size_t most = house_call_bytes() + house_call_bytes() / SHARES_OVER + SLACK_BYTES;
    if (n->relay.held_peak > most)
        verdict_fail("relayed calls held %zu bytes, and %zu is the most", n->relay.held_peak, most);
    if (n->kfront.relay.held_peak > most)
        verdict_fail("relayed requests of Kubernetes held %zu bytes, and %zu is the most", n->kfront.relay.held_peak,
                     most);
    if (n->kfront.relay.document_bytes > KRELAY_DOCS_BYTES)
        verdict_fail("%zu bytes of documents are kept", n->kfront.relay.document_bytes);
}

/* What watches of all dialects and their rights hold is charged to clients, at any time. */
static void expect_charged(const struct worker_numbers *n)
{
    const struct rights_stats *rights = &n->permit.rights;
    size_t held = n->watch.streams * STREAM_BYTES + n->kube.bytes + n->sse.bytes + rights->bytes - rights->idle_bytes;
    if (n->pools[SHARES_WATCH_BYTES].used < held)
        verdict_fail("watches hold %zu bytes, and clients are charged for %llu", held,
                     (unsigned long long)n->pools[SHARES_WATCH_BYTES].used);
}

static void expect_pools(void)
{
    size_t n;
    const struct worker_numbers *workers = house_count(&n);
    for (size_t i = 0; workers != NULL && i < n; i++) {
        expect_bound(&workers[i]);
        expect_charged(&workers[i]);
    }
}

static const char *any_left_over(size_t *value)
{
    size_t n;
    const struct worker_numbers *workers = house_count(&n);
    for (size_t i = 0; workers != NULL && i < n; i++) {
        const char *what = left_over(&workers[i], value);
        if (what != NULL)
            return what;
    }
    return NULL;
}

static void expect_accounts(void)
{
    size_t value = 0;
    unsigned rounds = 0;
    const char *what;
    while ((what = any_left_over(&value)) != NULL && rounds++ < SETTLE_ROUNDS / LOOK_ROUNDS)
        for (int i = 0; i < LOOK_ROUNDS; i++)
            let_pass();
    if (what == NULL)
        return;
    tell_workers();
    verdict_fail("%zu %s are left when every client has gone", value, what);
}

static void mix(uint64_t value)
{
    run.tally->digest = belfry_hash_int(run.tally->digest ^ value);
}

/* The clock says how often it was looked at, so it tells nearly any two runs apart. Bytes are left out: signatures of
 * TLS differ in length by themselves. */
static void count_up(void)
{
    mix(belfry_clock_ns());
    run.tally->turn_us = house_longest_us();
    size_t n;
    const struct worker_numbers *workers = house_count(&n);
    for (size_t i = 0; workers != NULL && i < n; i++) {
        const struct worker_numbers *w = &workers[i];
        expect_bound(w);
        expect_charged(w);
        run.tally->refused_streams += w->inbound.refused_streams;
        run.tally->refused_connections += w->inbound.refused_connections;
        run.tally->ended_largest += w->inbound.ended_largest;
        run.tally->floods += w->inbound.refused_floods;
        run.tally->relayed += w->relay.relayed;
        run.tally->questions += w->permit.asked;
        run.tally->kube_watches += w->kube.opened;
        run.tally->lists += w->kube_lists.lists;
        run.tally->pages += w->sse.opened;
        mix(w->inbound.accepted + (w->inbound.closed << 32));
        mix(w->watch.requests + (w->core.deliveries << 32));
        mix(w->relay.relayed + (w->permit.asked << 32));
    }
    for (size_t i = 0; i < run.n_clients; i++) {
        run.tally->events += run.clients[i].watch.events;
        run.tally->gets += run.clients[i].calls[CLIENT_GET].answered + run.clients[i].calls[CLIENT_LIST].answered;
        run.tally->reconnects += run.clients[i].h2.connects - 1;
    }
    for (size_t i = 0; i < run.n_kclients; i++)
        for (size_t k = 0; k < KCLIENT_CALLS; k++)
            run.tally->echoes += run.kclients[i].calls[k].answered;
    run.tally->echoes += run.kcurl.answered;
}

/* The lowest descriptor that is free: a descriptor that was not closed moves it. */
static int lowest_fd(void)
{
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    close(fd);
    return fd;
}

static void begin(struct choices *choices, struct run_tally *tally)
{
    memset(&run, 0, sizeof(run));
    run.choices = choices;
    run.tally = tally;
    run.tally->runs++;
    run.tally->digest = 0;
    house_open(choices);
    size_t door = choose(choices, (uint32_t)house_doors());
    run.tally->kube_runs += house_is_kube();
    for (unsigned i = 0; i < CLIENTS; i++) {
        while (!house_door_is_healthy(door))
            door = (door + 1) % house_doors();
        if (house_is_kube())
            kclient_init(&run.kclients[run.n_kclients++], door, i, i == 0 ? APISERVER_ROOT : APISERVER_PART, choices);
        else
            client_init(&run.clients[run.n_clients++], door, i, choices);
        door = (door + 1) % house_doors();
    }
    while (!house_door_is_healthy(door) || house_door_is_tls(door)) /* TLS agrees on HTTP/2 */
        door = (door + 1) % house_doors();
    kcurl_init(&run.kcurl, door, CLIENTS, choices);
    for (size_t i = 0; i < ROGUES; i++)
        rogue_init(&run.rogues[i]);
}

static void end(void)
{
    for (size_t i = 0; i < run.n_clients; i++)
        client_fini(&run.clients[i]);
    for (size_t i = 0; i < run.n_kclients; i++)
        kclient_fini(&run.kclients[i]);
    kcurl_fini(&run.kcurl);
    for (size_t i = 0; i < ROGUES; i++)
        rogue_close(&run.rogues[i]);
}

void run_storm(struct choices *choices, uint64_t seed, unsigned steps, struct run_tally *tally)
{
    size_t held = refuse_held();
    int fd = lowest_fd();
    chance_begin(seed);
    clock_begin();
    begin(choices, tally);
    bool is_short = choose_rarely(choices, 8); /* the server ends in the middle of it all */
    for (unsigned i = 0; i < steps && !choices_are_over(choices); i++) {
        step();
        if (i % POOLS_STEPS == POOLS_STEPS - 1)
            expect_pools();
    }
    refuse_end();
    if (!is_short) {
        heal();
        expect_service();
        if (house_is_kube())
            expect_loss();
        count_up();
        end();
        expect_accounts();
        house_close();
    } else {
        count_up();
        house_close();
        end();
    }
    clock_end();
    if (refuse_held() != held)
        verdict_fail("%zd allocations are left after the server's end", (ssize_t)(refuse_held() - held));
    if (lowest_fd() != fd)
        verdict_fail("descriptor %d is left open after the server's end", fd);
}
