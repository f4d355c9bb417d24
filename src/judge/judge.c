/* src/judge/judge.c */
#include "judge/judge.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/bytes.h"

#define SEARCHES_MAX 10000000 /* keys compared to explain what is wrong with one revision; beyond it only counts */

static const struct belfry_bytes no_key = {NULL, 0};

#define WORD(name, word, sentence)     word,
#define SENTENCE(name, word, sentence) sentence,

const char *judge_property_word(enum judge_property property)
{
    static const char *const words[] = {JUDGE_PROPERTIES(WORD)};
    return words[property];
}

const char *judge_property_sentence(enum judge_property property)
{
    static const char *const sentences[] = {JUDGE_PROPERTIES(SENTENCE)};
    return sentences[property];
}

void judge_blame(const struct judge_watch *watch, enum judge_property property, int64_t rev, struct belfry_bytes key,
                 const char *expected, const char *came, ...)
{
    char text[JUDGE_TEXT];
    va_list args;
    va_start(args, came);
    vsnprintf(text, sizeof(text), came, args);
    va_end(args);
    struct judge_violation violation = {
        .property = property, .watcher = watch->number, .rev = rev, .key = key, .expected = expected, .came = text};
    watch->blame(&violation, watch->user);
}

/* What came is an event. */
static void blame_event(const struct judge_watch *watch, enum judge_property property, int64_t rev,
                        const struct judge_event *event, const char *expected)
{
    char came[JUDGE_TEXT];
    judge_event_text(event, came);
    judge_blame(watch, property, rev, event->key, expected, "%s", came);
}

/* ---- what the watch wants ---- */

bool judge_range_has(const struct belfry_range *range, struct belfry_bytes key)
{
    switch (range->kind) {
    case BELFRY_KEY:
        return belfry_bytes_equal(key, range->key);
    case BELFRY_PREFIX:
        return belfry_bytes_begins(key, range->key);
    case BELFRY_FROM:
        return belfry_bytes_cmp(key, range->key) >= 0;
    case BELFRY_INTERVAL:
        return belfry_bytes_cmp(key, range->key) >= 0 && belfry_bytes_cmp(key, range->end) < 0;
    }
    return false;
}

/* Events that come are judged by key and type alone: without a previous value `picks` cannot tell. */
static bool asked_for(const struct judge_watch *watch, const struct judge_event *event)
{
    return !(event->op == BELFRY_DELETE ? watch->no_delete : watch->no_put) &&
           judge_range_has(&watch->range, event->key);
}

/* The next event of the reference from index `at` on that the watch wants; rev->n: none. */
static size_t next_wanted(const struct judge_watch *watch, const struct judge_rev *rev, size_t at)
{
    while (at < rev->n && !(asked_for(watch, &rev->events[at]) &&
                            (watch->picks == NULL || watch->picks(&rev->events[at], watch->pin))))
        at++;
    return at;
}

/* The next event that came from index `at` on, without those that judge_arrival() has reported; rev->n: none. */
static size_t next_given(const struct judge_watch *watch, const struct judge_rev *rev, size_t at)
{
    while (at < rev->n && (rev->events[at].kv.mod_rev != rev->rev || !asked_for(watch, &rev->events[at])))
        at++;
    return at;
}

size_t judge_count(const struct judge_watch *watch, const struct judge_rev *rev)
{
    size_t n = 0;
    for (size_t i = next_wanted(watch, rev, 0); i < rev->n; i = next_wanted(watch, rev, i + 1))
        n++;
    return n;
}

size_t judge_place(const struct judge_watch *watch, const struct judge_rev *rev)
{
    size_t at = 0;
    for (size_t i = 0; rev->rev == watch->next && i < watch->sent && at < rev->n; i++)
        at = next_wanted(watch, rev, at) + 1;
    return at < rev->n ? at : rev->n; /* after a violation, more may have come than the revision has */
}

const struct judge_event *judge_first(const struct judge_watch *watch, const struct judge_reference *reference,
                                      int64_t to)
{
    const struct judge_rev *rev;
    for (int64_t from = watch->next; (rev = reference->next(reference->user, from, to)) != NULL; from = rev->rev + 1) {
        size_t at = next_wanted(watch, rev, judge_place(watch, rev));
        if (at < rev->n)
            return &rev->events[at];
    }
    return NULL;
}

struct judge_lost judge_lose(struct judge_watch *watch, const struct judge_reference *reference, int64_t to)
{
    struct judge_lost lost = {0};
    const struct judge_rev *rev;
    for (int64_t from = watch->next; (rev = reference->next(reference->user, from, to)) != NULL; from = rev->rev + 1) {
        for (size_t i = judge_place(watch, rev); (i = next_wanted(watch, rev, i)) < rev->n; i++) {
            if (lost.n++ == 0) {
                lost.first = &rev->events[i];
                lost.first_rev = rev->rev;
            }
            lost.last_rev = rev->rev;
        }
    }
    if (to >= watch->next) {
        watch->next = to + 1;
        watch->sent = 0;
    }
    return lost;
}

/* ---- without the reference ---- */

static void check_header(const struct judge_watch *watch, int64_t rev, int64_t header_rev)
{
    char expected[JUDGE_TEXT];
    if (header_rev >= rev)
        return;
    snprintf(expected, sizeof(expected), "a header of revision %" PRId64 " or later", rev);
    judge_blame(watch, JUDGE_HEADER, rev, no_key, expected, "a header of revision %" PRId64, header_rev);
}

/* What is wrong with an event, whatever the reference says; NULL: nothing. */
static const char *event_is_wrong(const struct judge_watch *watch, const struct judge_rev *given,
                                  const struct judge_event *event, enum judge_property *property)
{
    if (event->kv.mod_rev != given->rev) {
        *property = JUDGE_ATOMIC;
        return "one revision in a batch";
    }
    if (!asked_for(watch, event)) {
        *property = JUDGE_FILTER;
        return "nothing outside the range";
    }
    if (event->has_prev && !watch->prev_kv) {
        *property = JUDGE_PREV_KV;
        return "no previous value: none was asked for";
    }
    return NULL;
}

/* Reports one violation of each kind at most. */
static void check_events(const struct judge_watch *watch, const struct judge_rev *given)
{
    bool reported[JUDGE_N_PROPERTIES] = {false};
    if (given->n == 0)
        judge_blame(watch, JUDGE_ATOMIC, given->rev, no_key, "events", "a revision without any");
    for (size_t i = 0; i < given->n; i++) {
        enum judge_property property;
        const char *expected = event_is_wrong(watch, given, &given->events[i], &property);
        if (expected == NULL || reported[property])
            continue;
        reported[property] = true;
        blame_event(watch, property, given->rev, &given->events[i], expected);
    }
}

/* False: the revision may not come now; reported. */
static bool check_place(const struct judge_watch *watch, const struct judge_rev *given)
{
    char expected[JUDGE_TEXT];
    enum judge_property property;
    if (given->rev < watch->start) {
        property = JUDGE_RESUMABLE;
        snprintf(expected, sizeof(expected), "nothing before the start at revision %" PRId64, watch->start);
    } else if (given->rev < watch->last_rev) {
        property = JUDGE_ORDERED;
        snprintf(expected, sizeof(expected), "nothing older than revision %" PRId64 ", which came before",
                 watch->last_rev);
    } else if (watch->piecewise ? given->rev < watch->next : given->rev == watch->last_rev) {
        property = watch->whole ? JUDGE_UNIQUE : JUDGE_ATOMIC;
        snprintf(expected, sizeof(expected), "revision %" PRId64 " once, and whole", given->rev);
    } else if (given->rev <= watch->progress) {
        property = JUDGE_BOOKMARKABLE;
        snprintf(expected, sizeof(expected), "nothing at or below the progress to %" PRId64, watch->progress);
    } else {
        return true;
    }
    if (given->n > 0)
        blame_event(watch, property, given->rev, &given->events[0], expected);
    else
        judge_blame(watch, property, given->rev, no_key, expected, "revision %" PRId64, given->rev);
    return false;
}

bool judge_arrival(struct judge_watch *watch, const struct judge_rev *given, int64_t header_rev)
{
    check_header(watch, given->rev, header_rev);
    check_events(watch, given);
    if (!check_place(watch, given))
        return false;
    watch->last_rev = given->rev;
    return true;
}

bool judge_progress_arrival(struct judge_watch *watch, int64_t rev, int64_t header_rev)
{
    char expected[JUDGE_TEXT];
    int64_t least = watch->progress > watch->last_rev ? watch->progress : watch->last_rev;
    check_header(watch, rev, header_rev);
    if (rev < least) {
        snprintf(expected, sizeof(expected), "progress to %" PRId64 " or later", least);
        judge_blame(watch, JUDGE_BOOKMARKABLE, rev, no_key, expected, "progress to %" PRId64, rev);
        return false;
    }
    watch->progress = rev;
    return true;
}

/* ---- one event beside the reference's ---- */

static void compare_prev(const struct judge_watch *watch, const struct judge_event *due,
                         const struct judge_event *given, struct judge_found *found)
{
    char expected[JUDGE_TEXT], came[JUDGE_TEXT];
    bool invented = given->has_prev && !due->has_prev && judge_event_creates(due);
    bool other = given->has_prev && due->has_prev && !judge_kv_same(&due->prev, &given->prev);
    found->n_prev_same += given->has_prev && due->has_prev && !other;
    if (!given->has_prev && due->has_prev) {
        found->n_prev_absent++;
        found->prev_absent = due;
    }
    if (!invented && !other)
        return;
    judge_prev_text(due, expected);
    judge_prev_text(given, came);
    judge_blame(watch, JUDGE_PREV_KV, due->kv.mod_rev, due->key, expected, "%s", came);
}

static void compare_event(const struct judge_watch *watch, const struct judge_event *due,
                          const struct judge_event *given, struct judge_found *found)
{
    found->n_events++;
    if (due->op != given->op || !judge_kv_same(&due->kv, &given->kv)) {
        char expected[JUDGE_TEXT];
        judge_event_text(due, expected);
        bool create = due->op == given->op && judge_event_creates(due) != judge_event_creates(given);
        blame_event(watch, create ? JUDGE_IS_CREATE : JUDGE_CONTENT, due->kv.mod_rev, given, expected);
    }
    if (watch->prev_kv)
        compare_prev(watch, due, given, found);
}

/* ---- a revision beside the reference's ---- */

/* The same revision on both sides. Of `due`, what is before index `from` has come before. */
struct pair {
    const struct judge_watch *watch;
    const struct judge_rev *due, *given;
    size_t from;
    struct judge_found *found;
};

/* Are the keys that came those that are due, in the same order, and all of them unless pieces may come? */
static bool same_keys(const struct pair *pair)
{
    size_t d = next_wanted(pair->watch, pair->due, pair->from), g = next_given(pair->watch, pair->given, 0);
    while (d < pair->due->n && g < pair->given->n &&
           belfry_bytes_equal(pair->due->events[d].key, pair->given->events[g].key)) {
        d = next_wanted(pair->watch, pair->due, d + 1);
        g = next_given(pair->watch, pair->given, g + 1);
    }
    return g == pair->given->n && (d == pair->due->n || pair->watch->piecewise);
}

static void compare_in_order(const struct pair *pair)
{
    size_t d = next_wanted(pair->watch, pair->due, pair->from);
    for (size_t g = next_given(pair->watch, pair->given, 0); g < pair->given->n;
         g = next_given(pair->watch, pair->given, g + 1)) {
        compare_event(pair->watch, &pair->due->events[d], &pair->given->events[g], pair->found);
        d = next_wanted(pair->watch, pair->due, d + 1);
    }
}

static size_t find_wanted(const struct pair *pair, struct belfry_bytes key)
{
    size_t i = next_wanted(pair->watch, pair->due, 0);
    while (i < pair->due->n && !belfry_bytes_equal(pair->due->events[i].key, key))
        i = next_wanted(pair->watch, pair->due, i + 1);
    return i;
}

static bool given_before(const struct pair *pair, struct belfry_bytes key, size_t to)
{
    for (size_t i = next_given(pair->watch, pair->given, 0); i < to; i = next_given(pair->watch, pair->given, i + 1)) {
        if (belfry_bytes_equal(pair->given->events[i].key, key))
            return true;
    }
    return false;
}

/* Reports what is due and did not come: one violation for all of it. Returns how many. */
static size_t blame_missing(const struct pair *pair)
{
    size_t n = 0;
    const struct judge_event *first = NULL;
    for (size_t d = 0; (d = next_wanted(pair->watch, pair->due, d)) < pair->due->n; d++) {
        if (!given_before(pair, pair->due->events[d].key, pair->given->n) && n++ == 0)
            first = &pair->due->events[d];
    }
    if (n > 0) {
        char expected[JUDGE_TEXT];
        judge_event_text(first, expected);
        judge_blame(pair->watch, JUDGE_ATOMIC, pair->due->rev, first->key, expected,
                    "the revision without %zu of its %zu events", n, judge_count(pair->watch, pair->due));
    }
    return n;
}

/* Reports what came twice, or is not due at all; compares the rest. Returns how many were reported. */
static size_t blame_extra(const struct pair *pair)
{
    size_t n = 0;
    for (size_t g = 0; (g = next_given(pair->watch, pair->given, g)) < pair->given->n; g++) {
        const struct judge_event *event = &pair->given->events[g];
        size_t d = find_wanted(pair, event->key);
        bool again = d < pair->from || given_before(pair, event->key, g);
        if (d < pair->due->n && !again) {
            compare_event(pair->watch, &pair->due->events[d], event, pair->found);
            continue;
        }
        n++;
        blame_event(pair->watch, again ? JUDGE_UNIQUE : JUDGE_RELIABLE, pair->given->rev, event,
                    again ? "the key once in its revision" : "no such event in this revision");
    }
    return n;
}

static size_t count_given(const struct judge_watch *watch, const struct judge_rev *given)
{
    size_t n = 0;
    for (size_t i = 0; (i = next_given(watch, given, i)) < given->n; i++)
        n++;
    return n;
}

/* All that came is due, but not now. */
static void blame_order(const struct pair *pair)
{
    char expected[JUDGE_TEXT];
    const struct judge_event *first = &pair->due->events[next_wanted(pair->watch, pair->due, pair->from)];
    judge_event_text(first, expected);
    if (pair->watch->piecewise)
        blame_event(pair->watch, JUDGE_ORDERED, pair->due->rev,
                    &pair->given->events[next_given(pair->watch, pair->given, 0)], expected);
    else
        judge_blame(pair->watch, JUDGE_ORDERED, pair->due->rev, first->key,
                    "the events in the order of their transaction", "the same events in another order");
}

/* Reports every difference. Returns whether all that was due has come. */
static bool compare_revisions(const struct pair *pair)
{
    if (same_keys(pair)) {
        compare_in_order(pair);
        return true;
    }
    if (pair->due->n > SEARCHES_MAX / (pair->given->n + 1)) {
        char expected[JUDGE_TEXT];
        snprintf(expected, sizeof(expected), "%zu events in their order", judge_count(pair->watch, pair->due));
        judge_blame(pair->watch, JUDGE_ATOMIC, pair->due->rev, no_key, expected, "%zu events, not the same",
                    count_given(pair->watch, pair->given));
        return false;
    }
    size_t extra = blame_extra(pair);
    size_t missing = pair->watch->piecewise ? 0 : blame_missing(pair);
    if (missing == 0 && extra == 0)
        blame_order(pair);
    return missing == 0;
}

/* ---- beside the reference ---- */

void judge_skipped(struct judge_watch *watch, const struct judge_reference *reference, int64_t rev)
{
    char expected[JUDGE_TEXT];
    struct judge_lost lost = judge_lose(watch, reference, rev - 1);
    if (lost.n == 0)
        return;
    judge_event_text(lost.first, expected);
    judge_blame(watch, watch->any ? JUDGE_RELIABLE : JUDGE_RESUMABLE, lost.first_rev, lost.first->key, expected,
                "revision %" PRId64 ", without %zu events of revisions %" PRId64 " to %" PRId64, rev, lost.n,
                lost.first_rev, lost.last_rev);
}

void judge_revision(struct judge_watch *watch, const struct judge_reference *reference, const struct judge_rev *given,
                    struct judge_found *found)
{
    judge_skipped(watch, reference, given->rev);
    watch->any = watch->whole = true;
    const struct judge_rev *due = reference->next(reference->user, given->rev, given->rev);
    if (due != NULL && next_wanted(watch, due, 0) < due->n) {
        struct pair pair = {watch, due, given, judge_place(watch, due), found};
        watch->whole = compare_revisions(&pair);
    } else { /* events outside the range have been reported */
        size_t i = 0;
        while (i < given->n && !asked_for(watch, &given->events[i]))
            i++;
        if (i < given->n)
            blame_event(watch, JUDGE_RELIABLE, given->rev, &given->events[i], "nothing at this revision in this range");
    }
    if (watch->piecewise) { /* judge_skipped() has made `next` this revision, unless it was */
        watch->sent += count_given(watch, given);
    } else if (watch->next <= given->rev) {
        watch->next = given->rev + 1;
    }
}

void judge_progress(struct judge_watch *watch, const struct judge_reference *reference, int64_t rev)
{
    char expected[JUDGE_TEXT];
    struct judge_lost lost = judge_lose(watch, reference, rev);
    if (lost.n == 0)
        return;
    judge_event_text(lost.first, expected);
    judge_blame(watch, JUDGE_PROGRESS, lost.first_rev, lost.first->key, expected,
                "progress to %" PRId64 ", without %zu events of revisions %" PRId64 " to %" PRId64, rev, lost.n,
                lost.first_rev, lost.last_rev);
}
