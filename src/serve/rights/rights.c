/* src/serve/rights/rights.c
 *
 * A bearer has at most one question under way, so the question is a part of it, and so are the two lists that its
 * warrants are in: `rest`, and `to_ask`, whose front is asked next. Halving a forbidden question needs no more than
 * putting its warrants back to the front and asking for fewer (batch_max).
 *
 * A bearer may have 65,536 warrants and 512 questions per round. So an answer visits the warrants of its question, not
 * all: those that are kept are also in a set by the time at which they end, whose first says until when the bearer's
 * parties may be written to. Warrants that nobody wants any more are looked for once per round.
 */
#include "serve/rights/rights.h"

#include <assert.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/map.h"
#include "base/owner.h"
#include "base/pack.h"
#include "base/rng.h"
#include "base/sim.h"
#include "base/treap.h"
#include "serve/rights/lanes.h"
#include "serve/rights/rights_mutants.h"

#define RETRY_MS     100  /* after the first question without an answer; doubled up to */
#define RETRY_MAX_MS 2000 /* this */
#define IDLE_LOOK    256  /* answers that nobody keeps, looked at each time: more than an answer can add */
#define FIRST_PART   8    /* a connection has less than one of so many free places for first questions */

/* Percent of a period. */
#define RENEW_FROM 40 /* the age at which kept answers are renewed, at a random time from here */
#define RENEW_TO   70 /* to here */
#define LATE_FROM  70 /* the same with renews_late: a fifth of the period is left to ask another server */
#define LATE_TO    80
#define BELOW_MAX  40 /* the age up to which an answer is given to a tier below */
#define ROUND_MIN  20 /* younger answers are left out of a round */
#define SOONEST    5  /* after an answer that was old when it came */
static_assert(BELOW_MAX <= RENEW_FROM, "a tier below that renews must receive a new answer");

enum warrant_state { WARRANT_NEW, WARRANT_GOOD, WARRANT_DOUBTFUL };

struct warrant {
    struct rights_range range; /* in text; the first member (rights_question_range()) */
    struct bearer *bearer;
    struct belfry_map_node by_range;  /* of rights.warrants */
    struct belfry_list node;          /* of its bearer's rest or to_ask, or of the question's */
    struct belfry_list waiting, kept; /* claims */
    struct rights_claim *payer;       /* the claim whose connection it counts to; NULL: it has no claim */
    struct belfry_list of_payer;      /* of its bearer's paid, or of rights.idle */
    struct belfry_treap_node by_end;  /* of bearer.by_end, while a claim is kept */
    enum warrant_state state;         /* moved by warrant_move_to() alone */
    bool asked;                       /* in the question under way */
    bool below;                       /* a tier below has received the answer */
    uint64_t until_ms;                /* GOOD */
    size_t bytes;
    char text[];
};

struct bearer {
    struct rights *rights;
    struct belfry_map_node by_secret; /* of rights.bearers */
    struct belfry_treap_node by_due;  /* of rights.by_due, while due_ms is not NEVER */
    struct belfry_list ready;         /* of its lane or rights.renewals: it has a question; or of none */
    struct lane *lane;                /* of rights.first */
    struct belfry_list parties;
    struct belfry_list rest, to_ask;  /* warrants */
    struct belfry_list paid;          /* warrants with a claim: the bearer counts to the payer of the first */
    struct belfry_treap_node *by_end; /* warrants that are kept */
    struct rights_question question;
    bool asking; /* the question is under way */
    bool paused, is_old;
    uint64_t number; /* order among equal times */
    uint64_t due_ms;
    uint64_t until_ms; /* the smallest of its kept warrants; NEVER: it has none */
    uint64_t renew_ms, retry_ms, end_ms;
    uint64_t renew_age_ms; /* drawn for each round: its kept answers are renewed at this age */
    uint64_t round_ms;     /* when the last round began */
    unsigned failures;     /* questions without an answer, in a row */
    size_t batch_max;
    size_t n_warrants, n_kept; /* n_kept: claims */
    size_t bytes;
    char secret[];
};

struct rights {
    struct rights_opts opts;
    struct belfry_rng rng;
    struct belfry_map bearers, warrants;
    struct belfry_treap_node *by_due;
    struct lanes first;           /* bearers with a question that somebody waits for */
    struct belfry_list renewals;  /* the others */
    struct belfry_list settled;   /* claims */
    struct belfry_list news;      /* parties */
    struct belfry_list abandoned; /* bearers, by `ready` */
    struct belfry_list idle;      /* warrants without a claim, the first to be dropped first */
    size_t batch_limit;           /* RIGHTS_BATCH, or what upstream allows */
    uint64_t numbers;
    struct rights_stats stats;
    BELFRY_OWNER;
};

/* ---- ranges ---- */

struct rights_range rights_range_of(struct belfry_bytes key, struct belfry_bytes range_end)
{
    struct rights_range range = {key, range_end};
    if (key.len == 0)
        range.key = belfry_bytes_of("", 1); /* "\0", the smallest key */
    bool is_one_key = range_end.len == range.key.len + 1 && range_end.data[range.key.len] == '\0' &&
                      belfry_bytes_begins(range_end, range.key);
    if (range_end.len == 0 || is_one_key)
        range.end = (struct belfry_bytes){0};
    return range;
}

/* ---- time of a bearer ---- */

static int bearer_order(const struct belfry_treap_node *a, const struct belfry_treap_node *b)
{
    const struct bearer *x = belfry_container_const(a, struct bearer, by_due);
    const struct bearer *y = belfry_container_const(b, struct bearer, by_due);
    if (x->due_ms != y->due_ms)
        return x->due_ms < y->due_ms ? -1 : 1;
    return (x->number > y->number) - (x->number < y->number);
}

static void bearer_set_due_at(struct bearer *bearer, uint64_t due_ms)
{
    struct rights *rights = bearer->rights;
    if (due_ms == bearer->due_ms)
        return;
    if (bearer->due_ms != BELFRY_NEVER)
        belfry_treap_remove(&rights->by_due, &bearer->by_due, bearer_order);
    bearer->due_ms = due_ms;
    if (due_ms != BELFRY_NEVER)
        belfry_treap_insert(&rights->by_due, &bearer->by_due, bearer_order);
}

static uint64_t rights_percent(const struct rights *rights, unsigned percent)
{
    return rights->opts.period_ms * percent / 100;
}

/* The next round is at a random time. */
static void bearer_plan_round(struct bearer *bearer, uint64_t now)
{
    struct rights *rights = bearer->rights;
    unsigned from = rights->opts.renews_late ? LATE_FROM : RENEW_FROM;
    unsigned to = rights->opts.renews_late ? LATE_TO : RENEW_TO;
    if (BELFRY_MUTANT(rights_renewed_early))
        from = to = ROUND_MIN + 1;
    uint64_t low = rights_percent(rights, from), high = rights_percent(rights, to);
    bearer->renew_age_ms = low + belfry_rng_below(&rights->rng, high - low + 1);
    bearer->renew_ms = now + bearer->renew_age_ms;
}

/* An answer from that time is kept: it is renewed in time, but not before `soonest_ms`. */
static void bearer_plan_for(struct bearer *bearer, uint64_t since_ms, uint64_t soonest_ms)
{
    uint64_t at = since_ms + bearer->renew_age_ms;
    bearer->renew_ms = belfry_min_time(bearer->renew_ms, at > soonest_ms ? at : soonest_ms);
}

static struct warrant *first_warrant(const struct belfry_list *list)
{
    return belfry_list_empty(list) ? NULL : belfry_container(list->next, struct warrant, node);
}

static bool warrant_is_good(const struct warrant *warrant, uint64_t now)
{
    return warrant->state == WARRANT_GOOD && now < warrant->until_ms;
}

/* Somebody waits for it and has no answer. A tier below that waits for a younger one has. */
static bool warrant_is_urgent(const struct warrant *warrant, uint64_t now)
{
    return !belfry_list_empty(&warrant->waiting) && (!warrant_is_good(warrant, now) || warrant->bearer->is_old);
}

/* Has it a question that may be sent at `now`? */
static bool bearer_can_ask(const struct bearer *bearer, uint64_t now)
{
    return !bearer->asking && !belfry_list_empty(&bearer->to_ask) && bearer->retry_ms <= now;
}

/* Puts it into the queue that it belongs to now, and sets when it is due. */
static void bearer_queue(struct bearer *bearer, uint64_t now)
{
    struct rights *rights = bearer->rights;
    uint64_t due_ms = bearer->end_ms;
    belfry_list_remove(&bearer->ready);
    if (bearer_can_ask(bearer, now)) {
        if (warrant_is_urgent(first_warrant(&bearer->to_ask), now))
            lanes_wait(&rights->first, bearer->lane, &bearer->ready);
        else
            belfry_list_append(&rights->renewals, &bearer->ready);
    } else if (!bearer->asking && !belfry_list_empty(&bearer->to_ask)) {
        due_ms = belfry_min_time(due_ms, bearer->retry_ms);
    }
    if (!bearer->paused)
        due_ms = belfry_min_time(due_ms, bearer->until_ms);
    bearer_set_due_at(bearer, belfry_min_time(due_ms, bearer->renew_ms));
}

/* ---- parties ---- */

static void party_tell(struct rights *rights, struct rights_party *party)
{
    if (belfry_list_empty(&party->news))
        belfry_list_append(&rights->news, &party->news);
}

static void bearer_set_paused(struct bearer *bearer, bool paused)
{
    struct rights *rights = bearer->rights;
    if (bearer->paused == paused)
        return;
    bearer->paused = paused;
    rights->stats.pauses += paused;
    if (paused)
        rights->stats.paused++;
    else
        rights->stats.paused--;
    if (!paused && BELFRY_MUTANT(rights_resumed_untold))
        return;
    belfry_list_each (node, &bearer->parties)
        party_tell(rights, belfry_container(node, struct rights_party, node));
}

/* The right had ended and was renewed before a turn could pause it. A party for which rights_party_may() was false
 * meanwhile waits to be resumed, so all are resumed. */
static void bearer_tell_renewed(struct bearer *bearer)
{
    belfry_list_each (node, &bearer->parties) {
        struct rights_party *party = belfry_container(node, struct rights_party, node);
        party->paused = true;
        party_tell(bearer->rights, party);
    }
}

/* Every party ends. Others may join later with the same token, and ask about it anew. */
static void bearer_end_parties(struct bearer *bearer, enum rights_verdict why)
{
    for (struct belfry_list *node; (node = belfry_list_pop(&bearer->parties)) != NULL;) {
        struct rights_party *party = belfry_container(node, struct rights_party, node);
        party->bearer = NULL;
        party->why = (uint8_t)why;
        party_tell(bearer->rights, party);
    }
    bearer->end_ms = BELFRY_NEVER;
}

/* The token is old: its parties end at a random time. */
static void bearer_end_parties_later(struct bearer *bearer, uint64_t now)
{
    if (bearer->end_ms == BELFRY_NEVER && !belfry_list_empty(&bearer->parties))
        bearer->end_ms = now + belfry_rng_below(&bearer->rights->rng, RIGHTS_OLD_MS);
}

/* ---- warrants ---- */

/* 0: it is not good now. */
static uint64_t warrant_end(const struct warrant *warrant)
{
    return warrant->state == WARRANT_GOOD ? warrant->until_ms : 0;
}

static int warrant_order(const struct belfry_treap_node *a, const struct belfry_treap_node *b)
{
    const struct warrant *x = belfry_container_const(a, struct warrant, by_end);
    const struct warrant *y = belfry_container_const(b, struct warrant, by_end);
    uint64_t x_ends = warrant_end(x), y_ends = warrant_end(y);
    x->bearer->rights->stats.visits++;
    if (x_ends != y_ends)
        return x_ends < y_ends ? -1 : 1;
    return ((uintptr_t)x > (uintptr_t)y) - ((uintptr_t)x < (uintptr_t)y);
}

/* Finds the time until which all kept warrants are good. */
static void bearer_find_until(struct bearer *bearer)
{
    struct belfry_treap_node *first = belfry_treap_first(bearer->by_end);
    bearer->until_ms = first == NULL ? BELFRY_NEVER : warrant_end(belfry_container(first, struct warrant, by_end));
}

static void warrant_move_to(struct warrant *warrant, enum warrant_state to, uint64_t until_ms)
{
    struct bearer *bearer = warrant->bearer;
    bool is_kept = !belfry_list_empty(&warrant->kept);
    assert(to != WARRANT_NEW);
    assert(to != WARRANT_DOUBTFUL || warrant->state == WARRANT_GOOD);
    if (is_kept)
        belfry_treap_remove(&bearer->by_end, &warrant->by_end, warrant_order);
    warrant->state = to;
    warrant->until_ms = until_ms;
    if (is_kept)
        belfry_treap_insert(&bearer->by_end, &warrant->by_end, warrant_order);
}

static bool warrant_is_wanted(const struct warrant *warrant)
{
    return !belfry_list_empty(&warrant->waiting) || !belfry_list_empty(&warrant->kept);
}

/* GOOD: when etcd was asked. */
static uint64_t warrant_since(const struct warrant *warrant)
{
    return warrant->until_ms - warrant->bearer->rights->opts.period_ms;
}

static bool warrant_is_older(const struct warrant *warrant, uint64_t age_ms, uint64_t now)
{
    return !warrant_is_good(warrant, now) || now - warrant_since(warrant) > age_ms;
}

/* ---- who pays ---- */

/* What counts to the claim's connection, or to nobody's (NULL), changes. */
static void rights_count(struct rights *rights, const struct rights_claim *claim, size_t before, size_t after)
{
    if (claim == NULL)
        rights->stats.idle_bytes += after - before; /* may fall: the sum is right all the same */
    else if (claim->share != NULL)
        shares_count(claim->share, SHARES_WATCH_BYTES, before, after);
}

/* The claim that the bearer counts to; NULL: it has none. */
static struct rights_claim *bearer_payer(const struct bearer *bearer)
{
    return belfry_list_empty(&bearer->paid) ? NULL
                                            : belfry_container(bearer->paid.next, struct warrant, of_payer)->payer;
}

static void warrant_set_payer(struct warrant *warrant, struct rights_claim *payer)
{
    struct bearer *bearer = warrant->bearer;
    struct rights *rights = bearer->rights;
    rights_count(rights, bearer_payer(bearer), bearer->bytes, 0);
    rights_count(rights, warrant->payer, warrant->bytes, 0);
    belfry_list_remove(&warrant->of_payer);
    belfry_list_append(payer != NULL ? &bearer->paid : &rights->idle, &warrant->of_payer);
    warrant->payer = payer;
    rights_count(rights, payer, 0, warrant->bytes);
    rights_count(rights, bearer_payer(bearer), 0, bearer->bytes);
}

/* A claim has come or gone. */
static void warrant_find_payer(struct warrant *warrant, const struct rights_claim *gone)
{
    struct belfry_list *of = belfry_list_empty(&warrant->kept) ? &warrant->waiting : &warrant->kept;
    if (warrant->payer == NULL || warrant->payer == gone)
        warrant_set_payer(warrant,
                          belfry_list_empty(of) ? NULL : belfry_container(of->next, struct rights_claim, node));
}

static void warrant_free(struct warrant *warrant)
{
    struct bearer *bearer = warrant->bearer;
    struct rights *rights = bearer->rights;
    assert(!warrant_is_wanted(warrant) && warrant->payer == NULL);
    belfry_list_remove(&warrant->of_payer);
    rights_count(rights, NULL, warrant->bytes, 0);
    belfry_list_remove(&warrant->node);
    belfry_map_remove(&rights->warrants, &warrant->by_range);
    bearer->n_warrants--;
    rights->stats.warrants--;
    rights->stats.bytes -= warrant->bytes;
    free(warrant);
}

static uint64_t warrant_hash(const struct rights *rights, const struct bearer *bearer, struct rights_range range)
{
    uint64_t hash = belfry_hash(rights->opts.hash_key, range.key);
    hash = belfry_hash_int(hash + bearer->number) ^ belfry_hash(rights->opts.hash_key, range.end);
    return belfry_hash_int(hash);
}

static struct warrant *warrant_find(const struct rights *rights, const struct bearer *bearer, struct rights_range range)
{
    struct belfry_map_node *node = belfry_map_first(&rights->warrants, warrant_hash(rights, bearer, range));
    for (; node != NULL; node = belfry_map_next(node)) {
        struct warrant *warrant = belfry_container(node, struct warrant, by_range);
        if (warrant->bearer == bearer && belfry_bytes_equal(warrant->range.key, range.key) &&
            belfry_bytes_equal(warrant->range.end, range.end))
            return warrant;
    }
    return NULL;
}

static size_t warrant_bytes(struct rights_range range)
{
    return sizeof(struct warrant) + range.key.len + range.end.len;
}

static enum belfry_err warrant_create(struct rights *rights, struct bearer *bearer, struct rights_range range,
                                      struct warrant **out)
{
    size_t bytes = warrant_bytes(range);
    if (bearer->n_warrants >= RIGHTS_PER_BEARER)
        return BELFRY_ERR_LIMIT;
    struct warrant *warrant = malloc(bytes);
    if (warrant == NULL)
        return BELFRY_ERR_NOMEM;
    char *to = warrant->text;
    *warrant = (struct warrant){.bearer = bearer, .state = WARRANT_NEW, .bytes = bytes};
    warrant->range.key = belfry_pack(&to, range.key);
    warrant->range.end = belfry_pack(&to, range.end);
    belfry_list_init(&warrant->waiting);
    belfry_list_init(&warrant->kept);
    belfry_list_init(&warrant->node);
    belfry_list_init(&warrant->of_payer);
    belfry_list_append(&rights->idle, &warrant->of_payer);
    rights_count(rights, NULL, 0, bytes);
    belfry_list_append(&bearer->rest, &warrant->node);
    belfry_map_add(&rights->warrants, warrant_hash(rights, bearer, range), &warrant->by_range);
    bearer->n_warrants++;
    rights->stats.warrants++;
    rights->stats.bytes += bytes;
    *out = warrant;
    return BELFRY_OK;
}

/* ---- bearers ---- */

static uint64_t bearer_hash(const struct rights *rights, struct rights_who who)
{
    unsigned kind = BELFRY_MUTANT(rights_kind_ignored) ? 0 : who.kind;
    return belfry_hash_int(belfry_hash(rights->opts.hash_key, who.secret) + kind);
}

static struct bearer *bearer_find(const struct rights *rights, struct rights_who who)
{
    struct belfry_map_node *node = belfry_map_first(&rights->bearers, bearer_hash(rights, who));
    for (; node != NULL; node = belfry_map_next(node)) {
        struct bearer *bearer = belfry_container(node, struct bearer, by_secret);
        bool is_same_kind = bearer->question.who.kind == who.kind || BELFRY_MUTANT(rights_kind_ignored);
        if (is_same_kind && belfry_bytes_equal(bearer->question.who.secret, who.secret))
            return bearer;
    }
    return NULL;
}

static enum belfry_err bearer_create(struct rights *rights, struct rights_who who, struct bearer **out)
{
    size_t bytes = sizeof(struct bearer) + who.secret.len;
    struct bearer *bearer = malloc(bytes);
    if (bearer == NULL)
        return BELFRY_ERR_NOMEM;
    *bearer = (struct bearer){.rights = rights,
                              .lane = lanes_of(&rights->first, rights->opts.hash_key, who.source),
                              .number = ++rights->numbers,
                              .due_ms = BELFRY_NEVER,
                              .until_ms = BELFRY_NEVER,
                              .renew_ms = BELFRY_NEVER,
                              .end_ms = BELFRY_NEVER,
                              .batch_max = RIGHTS_BATCH,
                              .bytes = bytes};
    char *to = bearer->secret;
    bearer->question.who = who;
    bearer->question.who.secret = belfry_pack(&to, who.secret);
    bearer->question.who.share = NULL;      /* it may outlive the connection that it came by */
    bearer->question.turn = bearer->number; /* first questions go to all members, too */
    belfry_list_init(&bearer->question.warrants);
    belfry_list_init(&bearer->ready);
    belfry_list_init(&bearer->parties);
    belfry_list_init(&bearer->rest);
    belfry_list_init(&bearer->to_ask);
    belfry_list_init(&bearer->paid);
    belfry_map_add(&rights->bearers, bearer_hash(rights, who), &bearer->by_secret);
    rights->stats.bearers++;
    rights->stats.bytes += bytes;
    rights_count(rights, NULL, 0, bytes);
    *out = bearer;
    return BELFRY_OK;
}

static void bearer_free(struct bearer *bearer)
{
    struct rights *rights = bearer->rights;
    assert(bearer->n_warrants == 0 && !bearer->asking && belfry_list_empty(&bearer->parties));
    bearer_set_paused(bearer, false);
    bearer_set_due_at(bearer, BELFRY_NEVER);
    belfry_list_remove(&bearer->ready);
    belfry_map_remove(&rights->bearers, &bearer->by_secret);
    rights->stats.bearers--;
    rights->stats.bytes -= bearer->bytes;
    rights_count(rights, NULL, bearer->bytes, 0);
    explicit_bzero(bearer->secret, bearer->question.who.secret.len);
    free(bearer);
}

/* Frees it if nothing is left of it. True: it is gone. */
static bool bearer_free_if_idle(struct bearer *bearer)
{
    if (bearer->n_warrants > 0 || bearer->asking || !belfry_list_empty(&bearer->parties))
        return false;
    bearer_free(bearer);
    return true;
}

/* Drops warrants that nobody wants and whose time is up, and marks those whose time is up as doubtful. */
static void bearer_sweep(struct bearer *bearer, uint64_t now)
{
    belfry_list_each_safe (node, &bearer->rest) {
        struct warrant *warrant = belfry_container(node, struct warrant, node);
        bearer->rights->stats.visits++;
        if (warrant->state == WARRANT_GOOD && !warrant_is_good(warrant, now))
            warrant_move_to(warrant, WARRANT_DOUBTFUL, 0);
        if (warrant->state != WARRANT_GOOD && !warrant_is_wanted(warrant))
            warrant_free(warrant);
    }
}

/* Every warrant is to be asked for again that is kept or was given to a tier below, and whose answer has that age. */
static void bearer_begin_round(struct bearer *bearer, uint64_t age_ms, uint64_t now)
{
    bearer_plan_round(bearer, now);
    bearer->round_ms = now;
    if (bearer->is_old) {
        bearer_end_parties_later(bearer, now); /* of a claim that was granted before, one may have joined since */
        return;
    }
    belfry_list_each_safe (node, &bearer->rest) {
        struct warrant *warrant = belfry_container(node, struct warrant, node);
        bool is_kept = !belfry_list_empty(&warrant->kept);
        bearer->rights->stats.visits++;
        if (!is_kept && !warrant->below)
            continue;
        if (!warrant_is_good(warrant, now) || now - warrant_since(warrant) >= age_ms) {
            belfry_list_remove(&warrant->node);
            belfry_list_append(&bearer->to_ask, &warrant->node);
        } else if (is_kept) {
            bearer_plan_for(bearer, warrant_since(warrant), now);
        }
    }
}

/* Without a kept warrant nothing is asked: tiers below ask when they need it. Warrants that nobody wants are visited,
 * too: they go when their time is up. */
static void bearer_renew(struct bearer *bearer, uint64_t now)
{
    if (bearer->n_kept > 0)
        bearer_begin_round(bearer, rights_percent(bearer->rights, ROUND_MIN), now);
    else if (bearer->n_warrants > 0)
        bearer_plan_round(bearer, now);
    else
        bearer->renew_ms = BELFRY_NEVER;
}

static void bearer_turn(struct bearer *bearer, uint64_t now)
{
    if (bearer->end_ms <= now)
        bearer_end_parties(bearer, RIGHTS_OLD_TOKEN);
    if (bearer->renew_ms <= now) {
        bearer_sweep(bearer, now);
        bearer_find_until(bearer);
        bearer_renew(bearer, now);
    }
    bearer_set_paused(bearer, bearer->until_ms <= now);
    if (!bearer_free_if_idle(bearer))
        bearer_queue(bearer, now);
}

static struct bearer *rights_first_due(const struct rights *rights)
{
    struct belfry_treap_node *node = belfry_treap_first(rights->by_due);
    return node == NULL ? NULL : belfry_container(node, struct bearer, by_due);
}

void rights_turn(struct rights *rights, uint64_t now_ms)
{
    BELFRY_OWNER_CHECK(rights);
    struct bearer *bearer;
    while ((bearer = rights_first_due(rights)) != NULL && bearer->due_ms <= now_ms) {
        bearer_turn(bearer, now_ms);
    }
}

uint64_t rights_due(const struct rights *rights)
{
    const struct bearer *bearer = rights_first_due(rights);
    return bearer == NULL ? BELFRY_NEVER : bearer->due_ms;
}

bool rights_has_news(const struct rights *rights)
{
    return !belfry_list_empty(&rights->settled) || !belfry_list_empty(&rights->news) ||
           !belfry_list_empty(&rights->abandoned);
}

void rights_doubt(struct rights *rights, uint64_t now_ms)
{
    BELFRY_OWNER_CHECK(rights);
    for (struct belfry_map_node *node = NULL; (node = belfry_map_each(&rights->bearers, node)) != NULL;) {
        struct bearer *bearer = belfry_container(node, struct bearer, by_secret);
        if (bearer->n_kept > 0)
            bearer_begin_round(bearer, 0, now_ms);
        bearer_queue(bearer, now_ms);
    }
}

/* ---- claims ---- */

static void claim_attach(struct rights_claim *claim, struct warrant *warrant)
{
    struct rights *rights = warrant->bearer->rights;
    claim->warrant = warrant;
    rights->stats.bytes += rights->opts.claim_bytes;
    rights_count(rights, claim, 0, rights->opts.claim_bytes);
}

static void claim_detach(struct rights_claim *claim)
{
    struct warrant *warrant = claim->warrant;
    struct bearer *bearer = warrant->bearer;
    struct rights_stats *stats = &bearer->rights->stats;
    belfry_list_remove(&claim->node);
    if (claim->waits) {
        stats->waiting--;
    } else {
        bearer->n_kept--;
        stats->kept--;
        if (belfry_list_empty(&warrant->kept))
            belfry_treap_remove(&bearer->by_end, &warrant->by_end, warrant_order);
    }
    stats->bytes -= bearer->rights->opts.claim_bytes;
    claim->warrant = NULL;
    rights_count(bearer->rights, claim, bearer->rights->opts.claim_bytes, 0);
    warrant_find_payer(warrant, claim);
}

static void claim_keep(struct rights_claim *claim)
{
    struct bearer *bearer = claim->warrant->bearer;
    if (belfry_list_empty(&claim->warrant->kept))
        belfry_treap_insert(&bearer->by_end, &claim->warrant->by_end, warrant_order);
    belfry_list_append(&claim->warrant->kept, &claim->node);
    warrant_find_payer(claim->warrant, NULL);
    claim->waits = false;
    bearer->n_kept++;
    bearer->rights->stats.kept++;
    bearer->until_ms = belfry_min_time(bearer->until_ms, claim->warrant->until_ms);
}

static bool claim_is_below(const struct rights_claim *claim)
{
    return claim->use == RIGHTS_BELOW || claim->use == RIGHTS_BELOW_PART;
}

/* It is granted by the warrant, and stays with it if it is kept. */
static void claim_take(struct rights_claim *claim, struct warrant *warrant)
{
    claim->since_ms = warrant_since(warrant);
    warrant->below = warrant->below || claim_is_below(claim);
    if (claim->use != RIGHTS_KEPT)
        return;
    claim_attach(claim, warrant);
    claim_keep(claim);
}

/* Its holder will receive the verdict. It stays with its warrant only if it was granted and is kept. */
static void claim_settle(struct rights_claim *claim, enum rights_verdict verdict)
{
    struct warrant *warrant = claim->warrant;
    struct rights *rights = warrant->bearer->rights;
    rights->stats.denied += !claim->waits && verdict == RIGHTS_DENIED;
    claim_detach(claim);
    claim->verdict = (uint8_t)verdict;
    if (belfry_list_empty(&claim->news))
        belfry_list_append(&rights->settled, &claim->news);
    if (verdict == RIGHTS_GRANTED)
        claim_take(claim, warrant);
}

static void warrant_settle_waiting(struct warrant *warrant, enum rights_verdict verdict)
{
    while (!belfry_list_empty(&warrant->waiting))
        claim_settle(belfry_container(warrant->waiting.next, struct rights_claim, node), verdict);
}

static enum belfry_err rights_find(struct rights *rights, struct rights_who who, struct rights_range range,
                                   struct warrant **out)
{
    struct bearer *bearer = bearer_find(rights, who);
    enum belfry_err err = bearer != NULL ? BELFRY_OK : bearer_create(rights, who, &bearer);
    if (err != BELFRY_OK)
        return err;
    *out = warrant_find(rights, bearer, range);
    if (*out != NULL)
        return BELFRY_OK;
    err = warrant_create(rights, bearer, range, out);
    if (err != BELFRY_OK)
        (void)bearer_free_if_idle(bearer);
    return err;
}

/* It waits for an answer. */
static void claim_wait(struct rights_claim *claim, struct warrant *warrant, uint64_t now)
{
    struct bearer *bearer = warrant->bearer;
    struct rights *rights = bearer->rights;
    belfry_list_append(&warrant->waiting, &claim->node);
    claim_attach(claim, warrant);
    warrant_find_payer(warrant, NULL);
    claim->waits = true;
    rights->stats.waiting++;
    if (warrant->asked)
        return;
    belfry_list_remove(&warrant->node);
    belfry_list_prepend(&bearer->to_ask, &warrant->node);
    bearer->retry_ms = 0; /* a new claim does not wait for what failed before it */
    uint64_t apart = rights_percent(rights, ROUND_MIN);
    if (claim_is_below(claim) && warrant->state != WARRANT_NEW && now - bearer->round_ms > apart)
        bearer_begin_round(bearer, apart, now); /* a tier below renews: all are asked for together */
}

/* May its client hold what the claim, and what it needs of the table, costs? */
static bool claim_has_room(const struct rights *rights, struct rights_who who, struct rights_range range,
                           const struct rights_claim *claim, uint64_t now)
{
    const struct bearer *bearer = bearer_find(rights, who);
    const struct warrant *warrant = bearer == NULL ? NULL : warrant_find(rights, bearer, range);
    bool is_known = warrant != NULL && !warrant_is_older(warrant, claim->within_ms, now) && !bearer->is_old;
    if (claim->share == NULL || (is_known && claim->use != RIGHTS_KEPT))
        return true;
    size_t bytes = rights->opts.claim_bytes;
    bytes += warrant == NULL || warrant->payer == NULL ? warrant_bytes(range) : 0;
    bytes += bearer == NULL || bearer_payer(bearer) == NULL ? sizeof(*bearer) + who.secret.len : 0;
    return shares_make_room(claim->share, SHARES_WATCH_BYTES, bytes);
}

static enum belfry_err claim_open(struct rights *rights, struct rights_who who, struct rights_range range,
                                  struct rights_claim *claim, uint64_t now, bool *out_granted)
{
    struct warrant *warrant;
    belfry_list_init(&claim->node);
    belfry_list_init(&claim->news);
    if (!claim_has_room(rights, who, range, claim, now))
        return BELFRY_ERR_REFUSED;
    enum belfry_err err = rights_find(rights, who, range, &warrant);
    if (err != BELFRY_OK)
        return err;
    struct bearer *bearer = warrant->bearer;
    if (bearer->renew_ms == BELFRY_NEVER)
        bearer_plan_round(bearer, now);
    *out_granted = !warrant_is_older(warrant, claim->within_ms, now) && !bearer->is_old; /* those are not renewed */
    if (*out_granted)
        claim_take(claim, warrant);
    else
        claim_wait(claim, warrant, now);
    if (*out_granted && claim->use == RIGHTS_KEPT)
        bearer_plan_for(bearer, claim->since_ms, now);
    bearer_queue(bearer, now);
    return BELFRY_OK;
}

enum belfry_err rights_claim(struct rights *rights, struct rights_who who, struct rights_range range,
                             enum rights_use use, uint64_t now_ms, struct rights_claim *claim, bool *out_granted)
{
    BELFRY_OWNER_CHECK(rights);
    *claim = (struct rights_claim){.use = (uint8_t)use, .share = who.share, .within_ms = rights->opts.period_ms};
    return claim_open(rights, who, range, claim, now_ms, out_granted);
}

enum belfry_err rights_claim_below(struct rights *rights, struct rights_who who, struct rights_range range,
                                   enum rights_use use, uint64_t within_ms, uint64_t now_ms, struct rights_claim *claim,
                                   bool *out_granted)
{
    BELFRY_OWNER_CHECK(rights);
    within_ms = belfry_min_time(within_ms, rights_percent(rights, BELOW_MAX));
    *claim = (struct rights_claim){.use = (uint8_t)use, .share = who.share, .within_ms = within_ms};
    return claim_open(rights, who, range, claim, now_ms, out_granted);
}

/* Nobody waits for the answer under way, or keeps what it is about. */
static bool bearer_is_abandoned(const struct bearer *bearer)
{
    belfry_list_each (node, &bearer->question.warrants) {
        if (warrant_is_wanted(belfry_container(node, struct warrant, node)))
            return false;
    }
    return bearer->asking;
}

/* Drops the oldest answers that nobody keeps, while they have too many bytes. Those that are being asked for stay. */
static void rights_trim_idle(struct rights *rights)
{
    for (size_t n = 0;
         n < IDLE_LOOK && rights->stats.idle_bytes > rights->opts.idle_max && !belfry_list_empty(&rights->idle); n++) {
        struct warrant *warrant = belfry_container(rights->idle.next, struct warrant, of_payer);
        struct bearer *bearer = warrant->bearer;
        belfry_list_remove(&warrant->of_payer);
        belfry_list_append(&rights->idle, &warrant->of_payer);
        if (warrant->asked)
            continue;
        warrant_free(warrant);
        if (!bearer_free_if_idle(bearer) && belfry_list_empty(&bearer->to_ask) &&
            !bearer_is_abandoned(bearer)) /* those wait in another list */
            belfry_list_remove(&bearer->ready);
    }
}

void rights_release(struct rights *rights, struct rights_claim *claim)
{
    BELFRY_OWNER_CHECK(rights);
    struct warrant *warrant = claim->warrant;
    belfry_list_remove(&claim->news);
    if (warrant == NULL)
        return;
    struct bearer *bearer = warrant->bearer;
    claim_detach(claim);
    bearer_find_until(bearer);
    if (bearer->n_kept == 0)
        bearer_set_paused(bearer, false); /* nothing is left to be paused for */
    else if (bearer->paused && bearer->until_ms > 0)
        bearer_set_due_at(bearer, 0); /* perhaps the others are still good: the next turn compares times */
    if (warrant_is_wanted(warrant))
        return;
    if (warrant->asked && bearer_is_abandoned(bearer)) {
        belfry_list_remove(&bearer->ready);
        belfry_list_append(&rights->abandoned, &bearer->ready);
    } else if (!warrant->asked && warrant->state != WARRANT_GOOD) {
        warrant_free(warrant);
        if (!bearer_free_if_idle(bearer) && belfry_list_empty(&bearer->to_ask))
            belfry_list_remove(&bearer->ready);
    }
    rights_trim_idle(rights);
}

uint64_t rights_claim_sent(const struct rights_claim *claim)
{
    const struct warrant *warrant = claim->warrant;
    return warrant != NULL && warrant->asked ? warrant->bearer->question.sent_ms : BELFRY_NEVER;
}

struct rights_claim *rights_settled(struct rights *rights)
{
    BELFRY_OWNER_CHECK(rights);
    struct belfry_list *node = belfry_list_pop(&rights->settled);
    if (node == NULL)
        return NULL;
    return belfry_container(node, struct rights_claim, news);
}

/* ---- parties ---- */

void rights_join(struct rights *rights, const struct rights_claim *claim, struct rights_party *party)
{
    BELFRY_OWNER_CHECK(rights);
    struct bearer *bearer = claim->warrant->bearer;
    if (party->bearer != NULL) {
        assert(party->bearer == bearer);
        return;
    }
    *party = (struct rights_party){.bearer = bearer};
    belfry_list_init(&party->news);
    belfry_list_init(&party->node);
    belfry_list_append(&bearer->parties, &party->node);
    if (bearer->paused)
        party_tell(rights, party);
}

void rights_leave(struct rights *rights, struct rights_party *party)
{
    BELFRY_OWNER_CHECK(rights);
    struct bearer *bearer = party->bearer;
    if (party->node.next == NULL)
        return; /* it never joined */
    belfry_list_remove(&party->node);
    belfry_list_remove(&party->news);
    party->bearer = NULL;
    if (bearer != NULL)
        (void)bearer_free_if_idle(bearer);
}

bool rights_party_may(const struct rights_party *party, uint64_t now_ms)
{
    return party->bearer != NULL && (now_ms < party->bearer->until_ms || BELFRY_MUTANT(rights_not_compared));
}

struct rights_party *rights_news(struct rights *rights, enum rights_event *event)
{
    BELFRY_OWNER_CHECK(rights);
    for (struct belfry_list *node; (node = belfry_list_pop(&rights->news)) != NULL;) {
        struct rights_party *party = belfry_container(node, struct rights_party, news);
        if (party->bearer == NULL) {
            *event = RIGHTS_ENDED;
            return party;
        }
        if (party->paused == party->bearer->paused)
            continue; /* it changed and changed back */
        party->paused = party->bearer->paused;
        *event = party->paused ? RIGHTS_PAUSED : RIGHTS_RESUMED;
        return party;
    }
    return NULL;
}

/* ---- questions ---- */

const struct rights_range *rights_question_range(const struct rights_question *question,
                                                 const struct rights_range *after)
{
    const struct belfry_list *node = &question->warrants;
    if (after != NULL)
        node = &belfry_container_const(after, struct warrant, range)->node;
    return node->next == &question->warrants ? NULL : &belfry_container(node->next, struct warrant, node)->range;
}

/* The smallest age that a claim which waits allows. */
static uint64_t warrant_within(const struct warrant *warrant)
{
    uint64_t within = BELFRY_NEVER;
    belfry_list_each (node, &warrant->waiting)
        within = belfry_min_time(within, belfry_container(node, struct rights_claim, node)->within_ms);
    return within;
}

/* Takes warrants from the front, all of which somebody waits for without an answer, or none. */
static void bearer_fill_question(struct bearer *bearer, uint64_t now)
{
    struct rights_question *question = &bearer->question;
    size_t bytes = 0,
           max = bearer->batch_max < bearer->rights->batch_limit ? bearer->batch_max : bearer->rights->batch_limit;
    struct warrant *warrant;
    question->is_first = warrant_is_urgent(first_warrant(&bearer->to_ask), now);
    question->within_ms = rights_percent(bearer->rights, BELOW_MAX);
    for (question->n = 0; question->n < max && (warrant = first_warrant(&bearer->to_ask)) != NULL; question->n++) {
        bytes += warrant->range.key.len + warrant->range.end.len;
        if (question->n > 0 && (bytes > RIGHTS_BATCH_BYTES || question->is_first != warrant_is_urgent(warrant, now)))
            break;
        belfry_list_remove(&warrant->node);
        belfry_list_append(&question->warrants, &warrant->node);
        warrant->asked = true;
        warrant->below = false;
        question->within_ms = belfry_min_time(question->within_ms, warrant_within(warrant));
    }
}

/* Whose turn it is to ask a first question; NULL: nobody's. */
static struct lane *rights_first_lane(const struct rights *rights)
{
    size_t max = RIGHTS_QUESTIONS - RIGHTS_RENEWALS, asking = rights->stats.asking;
    return asking < max ? lanes_next(&rights->first, max - asking) : NULL;
}

static bool rights_may_renew(const struct rights *rights)
{
    return !belfry_list_empty(&rights->renewals) && rights->stats.asking < RIGHTS_QUESTIONS;
}

bool rights_has_question(const struct rights *rights)
{
    return rights_first_lane(rights) != NULL || rights_may_renew(rights);
}

struct rights_question *rights_ask(struct rights *rights, uint64_t now_ms)
{
    BELFRY_OWNER_CHECK(rights);
    struct lane *lane = rights_first_lane(rights);
    if (lane == NULL && !rights_may_renew(rights))
        return NULL;
    struct belfry_list *node = lane != NULL ? lanes_take(&rights->first, lane) : belfry_list_pop(&rights->renewals);
    struct bearer *bearer = belfry_container(node, struct bearer, ready);
    struct rights_question *question = &bearer->question;
    bearer_fill_question(bearer, now_ms);
    bearer->asking = true;
    question->turn++;
    question->sent_ms = now_ms;
    question->user = NULL;
    rights->stats.asking++;
    if (question->is_first)
        lane_hold(bearer->lane);
    rights->stats.questions++;
    rights->stats.ranges += question->n;
    bearer_queue(bearer, now_ms);
    return question;
}

struct rights_question *rights_abandoned(struct rights *rights)
{
    BELFRY_OWNER_CHECK(rights);
    for (struct belfry_list *node; (node = belfry_list_pop(&rights->abandoned)) != NULL;) {
        struct bearer *bearer = belfry_container(node, struct bearer, ready);
        if (bearer_is_abandoned(bearer))
            return &bearer->question;
    }
    return NULL;
}

/* Puts the warrants of the question back, in their order: to the front of those to ask, if somebody wants them. */
static void bearer_put_back(struct bearer *bearer, uint64_t now)
{
    struct belfry_list *asked = &bearer->question.warrants;
    while (!belfry_list_empty(asked)) {
        struct warrant *warrant = belfry_container(asked->prev, struct warrant, node);
        bool is_wanted = warrant_is_wanted(warrant);
        bearer->rights->stats.visits++;
        warrant->asked = false;
        belfry_list_remove(&warrant->node);
        belfry_list_prepend(is_wanted ? &bearer->to_ask : &bearer->rest, &warrant->node);
        if (!is_wanted && !warrant_is_good(warrant, now))
            warrant_free(warrant);
    }
}

static void warrant_grant(struct warrant *warrant, uint64_t until_ms)
{
    if (warrant->state != WARRANT_GOOD || warrant->until_ms < until_ms)
        warrant_move_to(warrant, WARRANT_GOOD, until_ms);
    warrant_settle_waiting(warrant, RIGHTS_GRANTED);
}

static void bearer_allow(struct bearer *bearer, uint64_t until_ms, uint64_t now)
{
    struct rights *rights = bearer->rights;
    for (struct warrant *warrant; (warrant = first_warrant(&bearer->question.warrants)) != NULL;) {
        warrant->asked = false;
        belfry_list_remove(&warrant->node);
        belfry_list_append(&bearer->rest, &warrant->node);
        rights->stats.visits++;
        warrant_grant(warrant, until_ms);
    }
    if (bearer->n_kept > 0)
        bearer_plan_for(bearer, until_ms - rights->opts.period_ms, now + rights_percent(rights, SOONEST));
    bearer->failures = 0;
    bearer->is_old = false;
    bearer->end_ms = BELFRY_NEVER;
    bearer->batch_max = bearer->batch_max * 2 < RIGHTS_BATCH ? bearer->batch_max * 2 : RIGHTS_BATCH;
}

/* A tier below that asked for several ranges asks for fewer itself: then a question costs upstream only one. */
static void warrant_deny_parts(struct warrant *warrant)
{
    belfry_list_each_safe (node, &warrant->waiting) {
        struct rights_claim *claim = belfry_container(node, struct rights_claim, node);
        if (claim->use == RIGHTS_BELOW_PART)
            claim_settle(claim, RIGHTS_DENIED);
    }
}

static void bearer_forbid(struct bearer *bearer, uint64_t now)
{
    size_t n = bearer->question.n;
    bearer->failures = 0;
    if ((n > 1 && !BELFRY_MUTANT(rights_batch_denied)) || BELFRY_MUTANT(rights_denied_untold)) {
        belfry_list_each (node, &bearer->question.warrants)
            warrant_deny_parts(belfry_container(node, struct warrant, node));
        bearer_put_back(bearer, now);
        bearer->batch_max = (n + 1) / 2;
        return;
    }
    for (struct warrant *warrant; (warrant = first_warrant(&bearer->question.warrants)) != NULL;) {
        warrant->asked = false;
        warrant_settle_waiting(warrant, RIGHTS_DENIED);
        while (!belfry_list_empty(&warrant->kept))
            claim_settle(belfry_container(warrant->kept.next, struct rights_claim, node), RIGHTS_DENIED);
        warrant_free(warrant);
    }
}

/* Nobody has a right by this token at the moment. Warrants stay until their claims are released. A claim that waits has
 * a warrant that is asked for or to be asked for. */
static void bearer_settle_all(struct bearer *bearer, enum rights_verdict verdict, uint64_t now)
{
    belfry_list_move_all(&bearer->question.warrants, &bearer->to_ask);
    belfry_list_each (node, &bearer->question.warrants)
        warrant_settle_waiting(belfry_container(node, struct warrant, node), verdict);
    bearer_put_back(bearer, now);
    belfry_list_move_all(&bearer->rest, &bearer->to_ask);
}

/* Every answer ends now. The parties end as well, so there is not much to visit the next time. */
static void bearer_refuse_token(struct bearer *bearer, uint64_t now)
{
    bearer_settle_all(bearer, RIGHTS_BAD_TOKEN, now);
    belfry_list_each (node, &bearer->rest) {
        struct warrant *warrant = belfry_container(node, struct warrant, node);
        if (warrant->state == WARRANT_GOOD)
            warrant_move_to(warrant, WARRANT_DOUBTFUL, 0);
    }
    bearer_sweep(bearer, now);
    bearer_end_parties(bearer, RIGHTS_BAD_TOKEN);
    bearer_plan_round(bearer, now); /* of a claim that was granted before, one may still join: it is to end, too */
}

/* The last answers stay good until their time is up: this may be a revocation or not. */
static void bearer_grow_old(struct bearer *bearer, uint64_t now)
{
    bearer_settle_all(bearer, RIGHTS_OLD_TOKEN, now);
    bearer->is_old = true;
    bearer_end_parties_later(bearer, now);
}

static void bearer_fail(struct bearer *bearer, enum rights_verdict verdict, uint64_t now)
{
    struct rights *rights = bearer->rights;
    belfry_list_each (node, &bearer->question.warrants) {
        struct warrant *warrant = belfry_container(node, struct warrant, node);
        bool is_known = warrant_is_good(warrant, now) && !bearer->is_old; /* a tier below waits for a younger answer */
        warrant_settle_waiting(warrant, is_known ? RIGHTS_GRANTED : verdict);
    }
    bearer_put_back(bearer, now);
    uint64_t wait = (uint64_t)RETRY_MS << (bearer->failures < 5 ? bearer->failures : 5);
    wait = belfry_min_time(wait, RETRY_MAX_MS);
    bearer->retry_ms = now + wait / 2 + belfry_rng_below(&rights->rng, wait / 2 + 1);
    bearer->failures++;
}

static void bearer_take_answer(struct bearer *bearer, enum rights_answer answer, uint64_t until_ms, uint64_t now)
{
    struct rights_stats *stats = &bearer->rights->stats;
    if (BELFRY_MUTANT(rights_old_denies) || BELFRY_MUTANT(rights_old_granted) ||
        BELFRY_MUTANT(rights_silence_granted) || BELFRY_MUTANT(rights_unreachable_ends))
        answer = mutant_rights_answer(answer);
    switch (answer) {
    case RIGHTS_ALLOWED:
        stats->allowed++;
        bearer_allow(bearer, until_ms, now);
        break;
    case RIGHTS_FORBIDDEN:
        stats->forbidden++;
        bearer_forbid(bearer, now);
        break;
    case RIGHTS_NO_SUCH_TOKEN:
        stats->bad_tokens++;
        bearer_refuse_token(bearer, now);
        break;
    case RIGHTS_TOKEN_IS_OLD:
        stats->old_tokens++;
        bearer_grow_old(bearer, now);
        break;
    case RIGHTS_TOO_MANY:
        bearer->rights->batch_limit = bearer->question.n / 2;
        bearer_put_back(bearer, now);
        break;
    case RIGHTS_SILENCE:
        stats->silent++;
        bearer_fail(bearer, RIGHTS_SILENT, now);
        break;
    case RIGHTS_UNREACHABLE:
        stats->unreachable++;
        bearer_fail(bearer, RIGHTS_UNAVAILABLE, now);
        break;
    }
}

void rights_answer(struct rights *rights, struct rights_question *question, enum rights_answer answer, uint64_t age_ms,
                   uint64_t now_ms)
{
    BELFRY_OWNER_CHECK(rights);
    struct bearer *bearer = belfry_container(question, struct bearer, question);
    uint64_t period = rights->opts.period_ms;
    uint64_t from_ms = BELFRY_MUTANT(rights_from_answer) ? now_ms : question->sent_ms;
    uint64_t age = BELFRY_MUTANT(rights_age_ignored) ? 0 : age_ms;
    uint64_t until_ms = from_ms + (age < period ? period - age : 0);
    assert(bearer->asking);
    bool is_useless =
        (answer == RIGHTS_ALLOWED && until_ms <= now_ms) || (answer == RIGHTS_TOO_MANY && question->n == 1);
    if (is_useless)
        answer = RIGHTS_UNREACHABLE;
    bool was_over = !bearer->paused && bearer->until_ms <= now_ms;
    bearer_take_answer(bearer, answer, until_ms, now_ms);
    bearer->asking = false;
    rights->stats.asking--;
    if (question->is_first)
        lane_release(bearer->lane);
    if (answer == RIGHTS_ALLOWED) /* such a token makes nobody hang, and has one question under way at most */
        bearer->lane = &rights->first.known;
    bearer_find_until(bearer);
    bearer_set_paused(bearer, bearer->until_ms <= now_ms);
    if (was_over && !bearer->paused)
        bearer_tell_renewed(bearer);
    if (!bearer_free_if_idle(bearer))
        bearer_queue(bearer, now_ms);
    rights_trim_idle(rights);
}

/* ---- create and destroy ---- */

enum belfry_err rights_create(const struct rights_opts *opts, struct rights **out)
{
    struct rights *rights = calloc(1, sizeof(*rights));
    if (rights == NULL)
        return BELFRY_ERR_NOMEM;
    rights->opts = *opts;
    rights->rng.state = opts->seed;
    rights->batch_limit = RIGHTS_BATCH;
    belfry_map_init(&rights->bearers);
    belfry_map_init(&rights->warrants);
    lanes_init(&rights->first, FIRST_PART);
    belfry_list_init(&rights->renewals);
    belfry_list_init(&rights->settled);
    belfry_list_init(&rights->news);
    belfry_list_init(&rights->abandoned);
    belfry_list_init(&rights->idle);
    BELFRY_OWNER_INIT(rights);
    *out = rights;
    return BELFRY_OK;
}

void rights_destroy(struct rights *rights)
{
    if (rights == NULL)
        return;
    BELFRY_OWNER_CHECK(rights);
    assert(rights->stats.kept == 0 && rights->stats.waiting == 0);
    for (struct belfry_map_node *node; (node = belfry_map_drain(&rights->warrants)) != NULL;)
        free(belfry_container(node, struct warrant, by_range));
    for (struct belfry_map_node *node; (node = belfry_map_drain(&rights->bearers)) != NULL;) {
        struct bearer *bearer = belfry_container(node, struct bearer, by_secret);
        explicit_bzero(bearer->secret, bearer->question.who.secret.len);
        free(bearer);
    }
    belfry_map_fini(&rights->warrants);
    belfry_map_fini(&rights->bearers);
    free(rights);
}

void rights_stats(const struct rights *rights, struct rights_stats *out)
{
    *out = rights->stats;
}
