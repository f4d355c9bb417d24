/* fuzz/rights.c: the table of rights in any order of claims, releases, questions, answers and time, beside a model.
 *
 * The input is a list of acts of two bytes. The model knows one thing for each bearer and range: the last time at which
 * upstream, which says what the input says, is known to have allowed it. Nothing may be granted, and no stream written
 * to, by an answer that is older than a period. A tier below must not be told that an answer is younger than it is.
 * When all have gone, nothing may be left.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "fuzz/check.h"
#include "serve/rights/rights.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define PERIOD  1000
#define BEARERS 4 /* two secrets of two kinds */
#define RANGES  8
#define CLAIMS  24
#define CALLS   BEARERS /* questions under way: one per bearer */

static struct table {
    struct rights *rights;
    uint64_t now;
    uint64_t allowed_ms[BEARERS][RANGES]; /* 0: never, or denied since */
    struct slot {
        struct rights_claim claim;
        bool is_used; /* it waits, or is held */
        bool is_held; /* granted, and kept */
        unsigned bearer, range;
    } slots[CLAIMS];
    struct rights_party parties[BEARERS];
    bool has_party[BEARERS];
    struct rights_question *calls[CALLS]; /* by bearer; NULL: none */
} table;

static struct rights_who who_is(unsigned bearer)
{
    return (struct rights_who){.kind = bearer % 2, .secret = belfry_bytes_str(bearer / 2 == 0 ? "a" : "b")};
}

static unsigned bearer_of(const struct rights_who *who)
{
    return (who->secret.data[0] == 'b' ? 2 : 0) + who->kind;
}

/* Requests of the same range in different words have the same number. */
static struct rights_range range_is(unsigned range, bool other_words)
{
    static const struct {
        struct belfry_bytes key, end, other_key, other_end;
    } ranges[RANGES] = {
        {{"a", 1}, {"", 0}, {"a", 1}, {"a\0", 2}},  {{"a", 1}, {"b", 1}, {"a", 1}, {"b", 1}},
        {{"", 0}, {"\0", 1}, {"\0", 1}, {"\0", 1}}, {{"", 0}, {"", 0}, {"\0", 1}, {"\0\0", 2}},
        {{"a", 1}, {"\0", 1}, {"a", 1}, {"\0", 1}}, {{"b", 1}, {"", 0}, {"b", 1}, {"b\0", 2}},
        {{"b", 1}, {"a", 1}, {"b", 1}, {"a", 1}},   {{"a\0", 2}, {"", 0}, {"a\0", 2}, {"a\0\0", 3}},
    };
    return other_words ? rights_range_of(ranges[range].other_key, ranges[range].other_end)
                       : rights_range_of(ranges[range].key, ranges[range].end);
}

static unsigned range_of(const struct rights_range *range)
{
    for (unsigned i = 0; i < RANGES; i++) {
        struct rights_range known = range_is(i, false);
        if (belfry_bytes_equal(known.key, range->key) && belfry_bytes_equal(known.end, range->end))
            return i;
    }
    abort();
}

/* ---- what must be true ---- */

static void check_grant(const struct slot *slot)
{
    uint64_t allowed_ms = table.allowed_ms[slot->bearer][slot->range];
    check(allowed_ms != 0 && table.now < allowed_ms + PERIOD);
    check(slot->claim.since_ms != 0 && slot->claim.since_ms <= allowed_ms);
}

/* Whoever may be written to has a valid answer for each claim that it keeps. */
static void check_parties(void)
{
    for (unsigned i = 0; i < BEARERS; i++) {
        if (!table.has_party[i] || !rights_party_may(&table.parties[i], table.now))
            continue;
        for (size_t k = 0; k < CLAIMS; k++) {
            const struct slot *slot = &table.slots[k];
            if (slot->is_held && slot->bearer == i)
                check(table.now < table.allowed_ms[i][slot->range] + PERIOD);
        }
    }
}

static void check_stats(void)
{
    struct rights_stats stats;
    size_t held = 0, used = 0, calls = 0;
    for (size_t i = 0; i < CLAIMS; i++) {
        held += table.slots[i].is_held;
        used += table.slots[i].is_used;
    }
    for (unsigned i = 0; i < CALLS; i++)
        calls += table.calls[i] != NULL;
    rights_stats(table.rights, &stats);
    check(stats.kept == held && stats.waiting == used - held && stats.asking == calls);
}

/* ---- what the table says ---- */

static void hold(struct slot *slot)
{
    check_grant(slot);
    slot->is_held = slot->is_used = slot->claim.use == RIGHTS_KEPT;
    if (slot->is_held && !table.has_party[slot->bearer]) {
        table.parties[slot->bearer] = (struct rights_party){0};
        table.has_party[slot->bearer] = true;
    }
    if (slot->is_held)
        rights_join(table.rights, &slot->claim, &table.parties[slot->bearer]);
}

static void take_news(void)
{
    enum rights_event event;
    for (struct rights_party *party; (party = rights_news(table.rights, &event)) != NULL;) {
        size_t bearer = (size_t)(party - table.parties);
        check(table.has_party[bearer]);
        table.has_party[bearer] = event != RIGHTS_ENDED;
        if (event != RIGHTS_ENDED)
            continue;
        for (size_t i = 0; i < CLAIMS; i++) { /* the stream ends, and its watches with it */
            struct slot *slot = &table.slots[i];
            if (slot->is_used && slot->bearer == bearer)
                rights_release(table.rights, &slot->claim);
            if (slot->bearer == bearer)
                slot->is_used = slot->is_held = false;
        }
    }
    for (struct rights_claim *claim; (claim = rights_settled(table.rights)) != NULL;) {
        struct slot *slot = (struct slot *)(void *)claim; /* its first member */
        check(slot->is_used);
        if (claim->verdict == RIGHTS_GRANTED)
            hold(slot);
        else
            slot->is_used = slot->is_held = false;
    }
    for (struct rights_question *question; (question = rights_abandoned(table.rights)) != NULL;) {
        table.calls[bearer_of(&question->who)] = NULL;
        rights_answer(table.rights, question, RIGHTS_UNREACHABLE, 0, table.now);
    }
}

/* ---- acts ---- */

static void act_claim(unsigned kind, unsigned argument)
{
    struct slot *slot = table.slots;
    bool granted;
    while (slot < table.slots + CLAIMS && slot->is_used)
        slot++;
    if (slot == table.slots + CLAIMS)
        return;
    *slot = (struct slot){.bearer = argument % BEARERS, .range = argument / BEARERS % RANGES};
    struct rights_range range = range_is(slot->range, argument >= 128);
    enum belfry_err err = kind < 2
                              ? rights_claim(table.rights, who_is(slot->bearer), range,
                                             kind == 0 ? RIGHTS_KEPT : RIGHTS_ONCE, table.now, &slot->claim, &granted)
                              : rights_claim_below(table.rights, who_is(slot->bearer), range,
                                                   kind == 2 ? RIGHTS_BELOW : RIGHTS_BELOW_PART, argument * 4,
                                                   table.now, &slot->claim, &granted);
    if (err != BELFRY_OK)
        return;
    slot->is_used = true;
    if (granted)
        hold(slot);
}

static void act_release(unsigned argument)
{
    struct slot *slot = &table.slots[argument % CLAIMS];
    if (slot->is_used)
        rights_release(table.rights, &slot->claim);
    slot->is_used = slot->is_held = false;
}

static void act_ask(void)
{
    struct rights_question *question = rights_ask(table.rights, table.now);
    if (question == NULL)
        return;
    unsigned bearer = bearer_of(&question->who);
    size_t n = 0;
    check(table.calls[bearer] == NULL && question->n > 0 && question->n <= RIGHTS_BATCH);
    for (const struct rights_range *range = NULL; (range = rights_question_range(question, range)) != NULL; n++)
        (void)range_of(range);
    check(n == question->n);
    table.calls[bearer] = question;
}

static void learn(const struct rights_question *question, enum rights_answer answer, uint64_t age_ms)
{
    unsigned bearer = bearer_of(&question->who);
    for (const struct rights_range *range = NULL; (range = rights_question_range(question, range)) != NULL;) {
        uint64_t *allowed_ms = &table.allowed_ms[bearer][range_of(range)];
        if (answer == RIGHTS_ALLOWED && question->sent_ms - age_ms > *allowed_ms)
            *allowed_ms = question->sent_ms - age_ms;
        if (answer == RIGHTS_FORBIDDEN && question->n == 1)
            *allowed_ms = 0;
    }
}

static void act_answer(unsigned kind, unsigned argument)
{
    struct rights_question *question = table.calls[argument % BEARERS];
    enum rights_answer answer = (enum rights_answer)kind;
    uint64_t age_ms = answer == RIGHTS_ALLOWED ? argument / BEARERS * 20 : 0;
    if (question == NULL)
        return;
    table.calls[argument % BEARERS] = NULL;
    learn(question, answer, age_ms);
    rights_answer(table.rights, question, answer, age_ms, table.now);
}

static void act(uint8_t what, uint8_t argument)
{
    switch (what % 16) {
    case 0:
    case 1:
    case 2:
    case 3:
        act_claim(what % 16, argument);
        break;
    case 4:
        act_release(argument);
        break;
    case 5:
    case 6:
        act_ask();
        break;
    case 7:
        table.now += argument * 4u;
        rights_turn(table.rights, table.now);
        break;
    case 8:
        rights_doubt(table.rights, table.now);
        break;
    case 15:
        act_answer(RIGHTS_ALLOWED, argument);
        break;
    default: /* 9 to 14, and with the case before every answer */
        act_answer(RIGHTS_FORBIDDEN + what % 16 - 9u, argument);
        break;
    }
    take_news();
    check_parties();
    check_stats();
}

static void finish(void)
{
    struct rights_stats stats;
    for (unsigned i = 0; i < CLAIMS; i++)
        act_release(i);
    for (unsigned i = 0; i < BEARERS; i++) {
        if (table.has_party[i])
            rights_leave(table.rights, &table.parties[i]);
        table.has_party[i] = false;
        act_answer(RIGHTS_UNREACHABLE, i);
    }
    take_news();
    for (int n = 0; n < 10 * RANGES; n++) { /* what was about to be asked still is, perhaps one by one */
        table.now += PERIOD;
        rights_turn(table.rights, table.now);
        for (unsigned i = 0; i < BEARERS; i++)
            act_ask();
        for (unsigned i = 0; i < BEARERS; i++)
            act_answer(RIGHTS_UNREACHABLE, i);
        take_news();
    }
    rights_stats(table.rights, &stats);
    check(stats.bearers == 0 && stats.warrants == 0 && stats.bytes == 0 && stats.paused == 0);
    rights_destroy(table.rights);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rights_opts opts = {.period_ms = PERIOD, .seed = size, .idle_max = 1 << 20, .claim_bytes = 100};
    table = (struct table){.now = 1000000};
    if (rights_create(&opts, &table.rights) != BELFRY_OK)
        abort();
    for (size_t i = 0; i + 1 < size; i += 2)
        act(data[i], data[i + 1]);
    finish();
    return 0;
}
