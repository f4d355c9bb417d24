/* src/cli/verify/verify_compare.c */
#include "cli/verify/verify_compare.h"

#include <stdio.h>

#include "cli/verify/verify_range.h"

#define SEARCHES_MAX 10000000 /* keys compared to find out what is wrong with one revision; beyond it only counts */

static void blame(const struct verify_compare *compare, enum verify_property property, int64_t rev,
                  struct belfry_bytes key, const char *expected, const char *came)
{
    struct verify_violation violation = {
        .property = property, .rev = rev, .key = key, .expected = expected, .came = came};
    compare->blame(&violation, compare->user);
}

/* The next of `rev` from index `at` on that belongs to the range and the revision; rev->n when there is none. */
static size_t next_of(const struct verify_compare *compare, const struct verify_rev *rev, size_t at)
{
    while (at < rev->n &&
           (rev->events[at].kv.mod_rev != rev->rev || !verify_range_has(&compare->range, rev->events[at].key)))
        at++;
    return at;
}

size_t verify_compare_count(const struct verify_compare *compare, const struct verify_rev *due)
{
    size_t n = 0;
    for (size_t i = next_of(compare, due, 0); i < due->n; i = next_of(compare, due, i + 1))
        n++;
    return n;
}

/* ---- one event ---- */

static void compare_prev(struct verify_compare *compare, const struct verify_event *due,
                         const struct verify_event *given)
{
    char expected[VERIFY_TEXT], came[VERIFY_TEXT];
    bool invented = given->has_prev && !due->has_prev && verify_event_creates(due);
    bool other = given->has_prev && due->has_prev && !verify_kv_same(&due->prev, &given->prev);
    compare->n_prev_same += given->has_prev && due->has_prev && !other;
    if (!given->has_prev && due->has_prev) {
        compare->n_prev_absent++;
        compare->prev_absent = due;
    }
    if (!invented && !other)
        return;
    verify_prev_text(due, expected);
    verify_prev_text(given, came);
    blame(compare, VERIFY_PREV_KV, due->kv.mod_rev, due->key, expected, came);
}

static void compare_event(struct verify_compare *compare, const struct verify_event *due,
                          const struct verify_event *given)
{
    compare->n_events++;
    if (due->op != given->op || !verify_kv_same(&due->kv, &given->kv)) {
        char expected[VERIFY_TEXT], came[VERIFY_TEXT];
        verify_event_text(due, expected);
        verify_event_text(given, came);
        bool create = due->op == given->op && verify_event_creates(due) != verify_event_creates(given);
        blame(compare, create ? VERIFY_IS_CREATE : VERIFY_CONTENT, due->kv.mod_rev, due->key, expected, came);
    }
    compare_prev(compare, due, given);
}

/* ---- the whole ---- */

/* Are the same keys in the same order on both sides? */
static bool same_keys(const struct verify_compare *compare, const struct verify_rev *due,
                      const struct verify_rev *given)
{
    size_t d = next_of(compare, due, 0), g = next_of(compare, given, 0);
    while (d < due->n && g < given->n && verify_key_same(due->events[d].key, given->events[g].key)) {
        d = next_of(compare, due, d + 1);
        g = next_of(compare, given, g + 1);
    }
    return d == due->n && g == given->n;
}

static void compare_in_order(struct verify_compare *compare, const struct verify_rev *due,
                             const struct verify_rev *given)
{
    size_t g = next_of(compare, given, 0);
    for (size_t d = next_of(compare, due, 0); d < due->n; d = next_of(compare, due, d + 1)) {
        compare_event(compare, &due->events[d], &given->events[g]);
        g = next_of(compare, given, g + 1);
    }
}

/* The first before `to` with that key; rev->n when there is none. */
static size_t find(const struct verify_compare *compare, const struct verify_rev *rev, struct belfry_bytes key,
                   size_t to)
{
    for (size_t i = next_of(compare, rev, 0); i < to; i = next_of(compare, rev, i + 1))
        if (verify_key_same(rev->events[i].key, key))
            return i;
    return rev->n;
}

/* What is due and is not among what was given: one violation for all of it. */
static size_t blame_missing(struct verify_compare *compare, const struct verify_rev *due,
                            const struct verify_rev *given)
{
    size_t n = 0, first = 0;
    for (size_t d = next_of(compare, due, 0); d < due->n; d = next_of(compare, due, d + 1))
        if (find(compare, given, due->events[d].key, given->n) == given->n && n++ == 0)
            first = d;
    if (n > 0) {
        char expected[VERIFY_TEXT], came[VERIFY_TEXT];
        verify_event_text(&due->events[first], expected);
        snprintf(came, sizeof(came), "the revision without %zu of its %zu events", n,
                 verify_compare_count(compare, due));
        blame(compare, VERIFY_ATOMIC, due->rev, due->events[first].key, expected, came);
    }
    return n;
}

/* What was given twice, or is not due at all; what is due is compared. */
static size_t blame_extra(struct verify_compare *compare, const struct verify_rev *due, const struct verify_rev *given)
{
    size_t n = 0;
    char came[VERIFY_TEXT];
    for (size_t g = next_of(compare, given, 0); g < given->n; g = next_of(compare, given, g + 1)) {
        const struct verify_event *event = &given->events[g];
        size_t d = find(compare, due, event->key, due->n);
        bool again = find(compare, given, event->key, g) != given->n;
        if (d < due->n && !again) {
            compare_event(compare, &due->events[d], event);
            continue;
        }
        n++;
        verify_event_text(event, came);
        blame(compare, again ? VERIFY_UNIQUE : VERIFY_RELIABLE, given->rev, event->key,
              again ? "the key once in its revision" : "no such event in this revision", came);
    }
    return n;
}

static bool blame_counts(const struct verify_compare *compare, const struct verify_rev *due,
                         const struct verify_rev *given)
{
    char expected[VERIFY_TEXT], came[VERIFY_TEXT];
    snprintf(expected, sizeof(expected), "%zu events in their order", verify_compare_count(compare, due));
    snprintf(came, sizeof(came), "%zu events, not the same", verify_compare_count(compare, given));
    blame(compare, VERIFY_ATOMIC, due->rev, (struct belfry_bytes){NULL, 0}, expected, came);
    return false;
}

bool verify_compare_revs(struct verify_compare *compare, const struct verify_rev *due, const struct verify_rev *given)
{
    if (same_keys(compare, due, given)) {
        compare_in_order(compare, due, given);
        return true;
    }
    if (due->n > SEARCHES_MAX / (given->n + 1))
        return blame_counts(compare, due, given);
    size_t missing = blame_missing(compare, due, given);
    size_t extra = blame_extra(compare, due, given);
    if (missing == 0 && extra == 0)
        blame(compare, VERIFY_ORDERED, due->rev, due->events[next_of(compare, due, 0)].key,
              "the events in the order of their transaction", "the same events in another order");
    return missing == 0;
}
