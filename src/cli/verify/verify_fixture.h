/* src/cli/verify/verify_fixture.h: a random history, a judge and its violations, for suites. Thread: owner. */
#ifndef BELFRY_CLI_VERIFY_VERIFY_FIXTURE_H
#define BELFRY_CLI_VERIFY_VERIFY_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cli/verify/verify_judge.h"

#define KEYS       8
#define REVS       40
#define EVENTS_MAX 4
#define MAX_LAG_US 1000000

/* ---- a history, as a server tells it ---- */

/* A revision, or a progress. */
struct told {
    int64_t rev, header;
    bool progress;
    size_t n;
    struct belfry_event events[EVENTS_MAX + 1];
};

static char keys[KEYS][8];
static char values[REVS + 2][16];
static struct told history[REVS]; /* revisions 2 and up */
static uint64_t random_state;

static inline uint64_t dice(uint64_t n)
{
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (random_state >> 33) % n;
}

static inline struct belfry_bytes text(const char *s)
{
    return (struct belfry_bytes){s, strlen(s)};
}

/* One key changes; what was there goes along as its previous value. */
static inline struct belfry_event change(struct belfry_event *now, size_t key, int64_t rev, bool delete)
{
    struct belfry_event event = {.op = delete ? BELFRY_DELETE : BELFRY_PUT, .key = text(keys[key]), .mod_rev = rev};
    if (now->mod_rev != 0) {
        event.prev = now->value;
        event.prev_create_rev = now->create_rev;
        event.prev_mod_rev = now->mod_rev;
        event.prev_version = now->version;
        event.prev_lease = now->lease;
    }
    if (!delete) {
        event.value = text(values[rev]);
        event.create_rev = now->mod_rev != 0 ? now->create_rev : rev;
        event.version = now->version + 1;
        event.lease = rev % 5;
    }
    *now = delete ? (struct belfry_event){.mod_rev = 0} : event;
    return event;
}

static inline void make_history(uint64_t seed)
{
    static struct belfry_event now[KEYS];
    memset(now, 0, sizeof(now));
    random_state = seed;
    for (size_t i = 0; i < KEYS; i++)
        snprintf(keys[i], sizeof(keys[i]), "/%c/%zu", "ab"[i % 2], i);
    for (size_t i = 0; i < REVS; i++) {
        struct told *told = &history[i];
        int64_t rev = (int64_t)i + 2;
        snprintf(values[rev], sizeof(values[rev]), "value%zu", i);
        *told = (struct told){.rev = rev, .header = rev};
        size_t n = 1 + dice(EVENTS_MAX), first = dice(KEYS);
        for (size_t k = 0; k < n; k++) {
            size_t key = (first + k) % KEYS;
            bool delete = now[key].mod_rev != 0 && dice(3) == 0;
            told->events[told->n++] = change(&now[key], key, rev, delete);
        }
    }
}

static inline const struct belfry_event *next_told(const void *source, const struct belfry_event *after)
{
    const struct told *told = source;
    size_t i = after == NULL ? 0 : (size_t)(after - told->events) + 1;
    return i < told->n ? &told->events[i] : NULL;
}

/* What a watcher of `range` from `start` on is given of the history. Returns how many. */
static inline size_t feed_of(struct belfry_range range, int64_t start, bool prev_kv, struct told *out)
{
    size_t n = 0;
    for (size_t i = 0; i < REVS; i++) {
        struct told told = {.rev = history[i].rev, .header = history[i].header};
        for (size_t k = 0; k < history[i].n; k++)
            if (judge_range_has(&range, history[i].events[k].key)) {
                told.events[told.n] = history[i].events[k];
                if (!prev_kv)
                    told.events[told.n].prev = (struct belfry_bytes){NULL, 0};
                told.n++;
            }
        if (told.n > 0 && told.rev >= start)
            out[n++] = told;
    }
    return n;
}

/* ---- a judge, and what it said ---- */

static struct verify_judge *judge;
static unsigned blamed[JUDGE_N_PROPERTIES], n_blamed;
static char last_words[1200], last_asked[300];

static inline void on_blame(const struct judge_violation *violation, void *user)
{
    assert_null(user);
    assert_int_equal(violation->watcher, 3);
    blamed[violation->property]++;
    n_blamed++;
    snprintf(last_words, sizeof(last_words), "%s at %lld: expected %s; came %s",
             judge_property_word(violation->property), (long long)violation->rev, violation->expected, violation->came);
    snprintf(last_asked, sizeof(last_asked), "%s", violation->asked != NULL ? violation->asked : "");
}

static inline enum belfry_err open_judge(size_t window_bytes)
{
    struct verify_judge_opts opts = {.window_bytes = window_bytes, .max_lag_us = MAX_LAG_US, .blame = on_blame};
    memset(blamed, 0, sizeof(blamed));
    n_blamed = 0;
    return verify_judge_create(&opts, &judge);
}

static inline int begin(void **state)
{
    (void)state;
    make_history(1);
    return open_judge((size_t)1 << 20) != BELFRY_OK;
}

static inline int end(void **state)
{
    (void)state;
    verify_judge_destroy(judge);
    judge = NULL;
    return 0;
}

static inline enum belfry_err refer(const struct told *told, int64_t at_us)
{
    struct judge_rev *rev;
    enum belfry_err err = judge_rev_create(told->rev, at_us, next_told, told, &rev);
    return err != BELFRY_OK ? err : verify_judge_reference(judge, rev);
}

static inline enum belfry_err give(struct verify_case *c, const struct told *told, int64_t at_us)
{
    struct judge_rev *rev;
    if (told->progress) {
        verify_case_progress(c, told->rev, told->header, at_us);
        return BELFRY_OK;
    }
    enum belfry_err err = judge_rev_create(told->rev, at_us, next_told, told, &rev);
    if (err == BELFRY_OK)
        verify_case_take(c, rev, told->header);
    return err;
}

static inline struct verify_case *open_case(struct belfry_range range, int64_t start, bool prev_kv)
{
    struct verify_spec spec = {.watcher = 3, .range = range, .start = start, .prev_kv = prev_kv};
    struct verify_case *c = NULL;
    assert_int_equal(verify_case_open(judge, &spec, 0, &c), BELFRY_OK);
    return c;
}

static inline void refer_all(void)
{
    for (size_t i = 0; i < REVS; i++)
        assert_int_equal(refer(&history[i], 0), BELFRY_OK);
}

/* All the reference first, then the feed of a watcher of everything, which the test has spoilt. */
static inline void judge_feed(const struct told *feed, size_t n, int64_t start, bool prev_kv)
{
    refer_all();
    struct verify_case *c = open_case(belfry_prefix(""), start, prev_kv);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(give(c, &feed[i], 1), BELFRY_OK);
    (void)verify_case_overdue(c, 10 * MAX_LAG_US);
}

static inline void assert_only(enum judge_property property, unsigned n)
{
    if (blamed[property] != n || n_blamed != n)
        fail_msg("%u of %u violations are %s; the last: %s", blamed[property], n_blamed, judge_property_word(property),
                 last_words);
}

static struct told feed[REVS + 4];
static size_t n_feed;

static inline int begin_feed(void **state)
{
    int failed = begin(state);
    n_feed = feed_of(belfry_prefix(""), 1, true, feed);
    return failed;
}

#endif
