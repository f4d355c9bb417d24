/* src/cli/verify/verify_case.c: what one watch was given, judged. */
#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/verify/verify_compare.h"
#include "cli/verify/verify_judge_private.h"
#include "cli/verify/verify_range.h"

static const struct belfry_bytes no_key = {NULL, 0};

enum belfry_err verify_case_open(struct verify_judge *judge, const struct verify_spec *spec, int64_t now_us,
                                 struct verify_case **out)
{
    struct verify_case *c = calloc(1, sizeof(*c));
    if (c == NULL)
        return BELFRY_ERR_NOMEM;
    c->judge = judge;
    c->spec = *spec;
    c->at = verify_window_find(&judge->window, spec->start);
    c->judged_from = judge->first;
    c->active_us = now_us;
    c->open_rev = judge->head > spec->newest ? judge->head : spec->newest;
    c->next = judge->cases;
    c->link = &judge->cases;
    if (c->next != NULL)
        c->next->link = &c->next;
    judge->cases = c;
    verify_case_settle(c);
    *out = c;
    return BELFRY_OK;
}

void verify_case_close(struct verify_case *c)
{
    if (c == NULL)
        return;
    *c->link = c->next;
    if (c->next != NULL)
        c->next->link = c->link;
    free(c->held);
    free(c);
}

void verify_spec_text(const struct verify_spec *spec, char out[VERIFY_SPEC_TEXT])
{
    char range[VERIFY_RANGE_TEXT];
    verify_range_text(&spec->range, range);
    snprintf(out, VERIFY_SPEC_TEXT, "%s from revision %" PRId64 "%s", range, spec->start,
             spec->prev_kv ? ", prev-kv" : "");
}

/* ---- blame ---- */

static void blame(const struct verify_case *c, enum verify_property property, int64_t rev, struct belfry_bytes key,
                  const char *expected, const char *came)
{
    struct verify_violation violation = {
        .property = property, .watcher = c->spec.watcher, .rev = rev, .key = key, .expected = expected, .came = came};
    c->judge->opts.blame(&violation, c->judge->opts.user);
}

void verify_case_blame(const struct verify_case *c, enum verify_property property, int64_t rev, const char *expected,
                       const char *came)
{
    blame(c, property, rev, no_key, expected, came);
}

static void blame_difference(const struct verify_violation *found, void *user)
{
    const struct verify_case *c = user;
    blame(c, found->property, found->rev, found->key, found->expected, found->came);
}

__attribute__((format(printf, 6, 7))) static void blame_came(const struct verify_case *c, enum verify_property property,
                                                             int64_t rev, struct belfry_bytes key, const char *expected,
                                                             const char *format, ...)
{
    char came[VERIFY_TEXT];
    va_list args;
    va_start(args, format);
    vsnprintf(came, sizeof(came), format, args);
    va_end(args);
    blame(c, property, rev, key, expected, came);
}

/* ---- what is due ---- */

static size_t first_in_range(const struct verify_case *c, const struct verify_rev *rev)
{
    size_t i = 0;
    while (i < rev->n && !verify_range_has(&c->spec.range, rev->events[i].key))
        i++;
    return i;
}

/* The next revision that the watcher should be given; NULL: the reference has told of none. */
static const struct verify_rev *next_due(struct verify_case *c)
{
    const struct verify_rev *rev;
    while ((rev = verify_window_at(&c->judge->window, c->at)) != NULL) {
        if (rev->rev >= c->spec.start && first_in_range(c, rev) < rev->n)
            return rev;
        c->at++;
    }
    return NULL;
}

/* What is due up to and including revision `to`, and will not come any more. */
struct lost {
    size_t n; /* events */
    int64_t first_rev, last_rev;
    struct belfry_bytes key; /* the first */
    char expected[VERIFY_TEXT];
};

static void lose(struct verify_case *c, int64_t to, struct lost *out)
{
    struct verify_compare count = {.range = c->spec.range};
    const struct verify_rev *due;
    out->n = 0;
    for (; (due = next_due(c)) != NULL && due->rev <= to; c->at++) {
        if (out->n == 0) {
            const struct verify_event *event = &due->events[first_in_range(c, due)];
            out->first_rev = due->rev;
            out->key = event->key;
            verify_event_text(event, out->expected);
        }
        out->n += verify_compare_count(&count, due);
        out->last_rev = due->rev;
    }
}

void verify_case_pass(struct verify_case *c, uint64_t place)
{
    struct verify_compare count = {.range = c->spec.range};
    const struct verify_rev *due = next_due(c);
    if (due == NULL || c->at != place)
        return;
    c->judge->numbers.n_not_judged += verify_compare_count(&count, due);
    c->at++;
}

/* ---- judging against the reference ---- */

static void measure(struct verify_case *c, const struct verify_rev *due, const struct verify_rev *given)
{
    if (c->live && given->rev > c->open_rev)
        verify_lag_add(&c->judge->numbers.lag, given->at_us - due->at_us, given->n);
}

static void compare(struct verify_case *c, const struct verify_rev *due, const struct verify_rev *given)
{
    struct verify_numbers *numbers = &c->judge->numbers;
    struct verify_compare both = {.range = c->spec.range, .blame = blame_difference, .user = c};
    c->whole = verify_compare_revs(&both, due, given);
    numbers->n_events += both.n_events;
    if (c->spec.prev_kv) {
        numbers->n_prev_same += both.n_prev_same;
        numbers->n_prev_absent += both.n_prev_absent;
        if (both.prev_absent != NULL && due->rev > c->judge->missing.rev)
            verify_prev_keep(&c->judge->missing, &c->spec, both.prev_absent);
    }
    measure(c, due, given);
}

/* What was due before revision `given` cannot come any more. */
static void judge_skipped(struct verify_case *c, int64_t given, enum verify_property property)
{
    struct lost lost;
    lose(c, given - 1, &lost);
    if (lost.n > 0)
        blame_came(c, property, lost.first_rev, lost.key, lost.expected,
                   "revision %" PRId64 ", without %zu events of revisions %" PRId64 " to %" PRId64, given, lost.n,
                   lost.first_rev, lost.last_rev);
}

static void judge_revision(struct verify_case *c, const struct verify_rev *given)
{
    enum verify_property skipped = c->given ? VERIFY_RELIABLE : VERIFY_RESUMABLE;
    c->given = c->whole = true;
    if (given->rev < c->judge->first) {
        if (given->rev < c->judged_from) /* else it was counted when it left the window */
            c->judge->numbers.n_not_judged += given->n;
        return;
    }
    judge_skipped(c, given->rev, skipped);
    const struct verify_rev *due = next_due(c);
    size_t i = first_in_range(c, given);
    if (due != NULL && due->rev == given->rev) {
        compare(c, due, given);
        c->at++;
    } else if (i < given->n) { /* what is outside the range has been blamed for that */
        char came[VERIFY_TEXT];
        verify_event_text(&given->events[i], came);
        blame(c, VERIFY_RELIABLE, given->rev, given->events[i].key, "nothing at this revision in this range", came);
    }
}

static void judge_progress(struct verify_case *c, int64_t rev)
{
    struct lost lost;
    lose(c, rev, &lost);
    if (lost.n > 0)
        blame_came(c, VERIFY_PROGRESS, lost.first_rev, lost.key, lost.expected,
                   "progress to %" PRId64 ", without %zu events of revisions %" PRId64 " to %" PRId64, rev, lost.n,
                   lost.first_rev, lost.last_rev);
}

void verify_case_settle(struct verify_case *c)
{
    int64_t head = c->judge->head;
    if (c->held_progress != 0 && c->held_progress <= head) {
        judge_progress(c, c->held_progress);
        c->held_progress = 0;
    }
    if (c->held != NULL && c->held->rev <= head) {
        judge_revision(c, c->held);
        free(c->held);
        c->held = NULL;
    }
    if (head < c->open_rev || c->held != NULL || next_due(c) != NULL)
        return;
    c->live = true;
    c->resuming = false;
}

static void end_cut(struct verify_case *c, int64_t now_us)
{
    int64_t lasted_us = c->cut_us != 0 ? now_us - c->cut_us : 0;
    if (lasted_us > c->judge->numbers.cut_us)
        c->judge->numbers.cut_us = lasted_us;
    c->cut_us = 0;
}

void verify_case_end(struct verify_case *c, int64_t rev, int64_t now_us)
{
    end_cut(c, now_us);
    if (c->held_progress != 0)
        judge_progress(c, c->held_progress);
    c->held_progress = 0;
    if (c->held == NULL)
        return;
    judge_skipped(c, c->held->rev, c->given ? VERIFY_RELIABLE : VERIFY_RESUMABLE);
    if (c->held->rev <= rev)
        c->judge->numbers.n_not_judged += c->held->n;
    free(c->held);
    c->held = NULL;
}

void verify_case_cluster_at(struct verify_case *c, int64_t rev, int64_t asked_us)
{
    char expected[VERIFY_TEXT], came[VERIFY_TEXT];
    snprintf(expected, sizeof(expected), "nothing yet: the cluster is at revision %" PRId64, rev);
    if (c->held_progress > rev && c->held_us <= asked_us) {
        blame_came(c, VERIFY_PROGRESS, c->held_progress, no_key, expected, "progress to %" PRId64, c->held_progress);
        c->held_progress = 0;
    }
    if (c->held == NULL || c->held->rev <= rev || c->held->at_us > asked_us)
        return;
    size_t i = first_in_range(c, c->held);
    if (i < c->held->n) {
        verify_event_text(&c->held->events[i], came);
        blame(c, VERIFY_RELIABLE, c->held->rev, c->held->events[i].key, expected, came);
    }
    c->given_up = true; /* its place is now beyond what there is */
    free(c->held);
    c->held = NULL;
}

/* ---- what comes ---- */

static void check_header(const struct verify_case *c, int64_t rev, int64_t header_rev)
{
    char expected[VERIFY_TEXT];
    if (header_rev >= rev)
        return;
    snprintf(expected, sizeof(expected), "a header of revision %" PRId64 " or later", rev);
    blame_came(c, VERIFY_HEADER, rev, no_key, expected, "a header of revision %" PRId64, header_rev);
}

/* What is wrong with an event whatever the reference says. False: nothing. */
static bool is_wrong(const struct verify_case *c, const struct verify_rev *given, const struct verify_event *event,
                     enum verify_property *out, const char **out_expected)
{
    if (event->kv.mod_rev != given->rev) {
        *out = VERIFY_ATOMIC;
        *out_expected = "one revision in a batch";
    } else if (!verify_range_has(&c->spec.range, event->key)) {
        *out = VERIFY_FILTER;
        *out_expected = "nothing outside the range";
    } else if (event->has_prev && !c->spec.prev_kv) {
        *out = VERIFY_PREV_KV;
        *out_expected = "no previous value: none was asked for";
    } else {
        return false;
    }
    return true;
}

/* One violation of each kind is enough for a batch. */
static void check_events(const struct verify_case *c, const struct verify_rev *given)
{
    bool told[VERIFY_N_PROPERTIES] = {false};
    if (given->n == 0)
        blame(c, VERIFY_ATOMIC, given->rev, no_key, "events", "a revision without any");
    for (size_t i = 0; i < given->n; i++) {
        enum verify_property property;
        const char *expected;
        char came[VERIFY_TEXT];
        if (!is_wrong(c, given, &given->events[i], &property, &expected) || told[property])
            continue;
        told[property] = true;
        verify_event_text(&given->events[i], came);
        blame(c, property, given->rev, given->events[i].key, expected, came);
    }
}

/* False: it comes when it must not, has been blamed, and is no more looked at. */
static bool check_place(const struct verify_case *c, const struct verify_rev *given)
{
    char expected[VERIFY_TEXT], came[VERIFY_TEXT];
    struct belfry_bytes key = given->n > 0 ? given->events[0].key : no_key;
    enum verify_property property;
    if (given->rev < c->spec.start) {
        property = VERIFY_RESUMABLE;
        snprintf(expected, sizeof(expected), "nothing before the start at revision %" PRId64, c->spec.start);
    } else if (given->rev < c->last_rev) {
        property = VERIFY_ORDERED;
        snprintf(expected, sizeof(expected), "nothing older than revision %" PRId64 ", which came before", c->last_rev);
    } else if (given->rev == c->last_rev) {
        property = c->whole ? VERIFY_UNIQUE : VERIFY_ATOMIC;
        snprintf(expected, sizeof(expected), "revision %" PRId64 " once, and whole", c->last_rev);
    } else if (given->rev <= c->progress) {
        property = VERIFY_BOOKMARKABLE;
        snprintf(expected, sizeof(expected), "nothing at or below the progress to %" PRId64, c->progress);
    } else {
        return true;
    }
    if (given->n > 0)
        verify_event_text(&given->events[0], came);
    else
        snprintf(came, sizeof(came), "revision %" PRId64, given->rev);
    blame(c, property, given->rev, key, expected, came);
    return false;
}

void verify_case_take(struct verify_case *c, struct verify_rev *given, int64_t header_rev)
{
    assert(c->held == NULL);
    end_cut(c, given->at_us);
    check_header(c, given->rev, header_rev);
    check_events(c, given);
    if (!check_place(c, given)) {
        free(given);
        return;
    }
    c->active_us = given->at_us;
    c->last_rev = given->rev;
    c->held = given;
    verify_case_settle(c);
}

void verify_case_progress(struct verify_case *c, int64_t rev, int64_t header_rev, int64_t now_us)
{
    char expected[VERIFY_TEXT];
    c->judge->numbers.n_progress++;
    end_cut(c, now_us);
    check_header(c, rev, header_rev);
    int64_t least = c->progress > c->last_rev ? c->progress : c->last_rev;
    if (rev < least) {
        snprintf(expected, sizeof(expected), "progress to %" PRId64 " or later", least);
        blame_came(c, VERIFY_BOOKMARKABLE, rev, no_key, expected, "progress to %" PRId64, rev);
        return;
    }
    if (rev > least) /* to tell the same again is no advance */
        c->active_us = now_us;
    c->progress = rev;
    c->held_progress = rev;
    c->held_us = now_us;
    verify_case_settle(c);
}

/* ---- how it stands ---- */

void verify_case_link(struct verify_case *c, enum verify_link link, int64_t now_us)
{
    if (link == VERIFY_CUT) {
        c->cut_us = c->cut_us != 0 ? c->cut_us : now_us;
        return;
    }
    /* who was given nothing since the last time has only the rest: else a server that does no more than accept
     * connections would never be overdue */
    c->active_us = !c->resuming ? now_us : c->cut_us != 0 ? c->active_us + now_us - c->cut_us : c->active_us;
    c->resuming = true;
    end_cut(c, now_us);
    verify_case_settle(c);
}

/* What is due is due from then on. */
static int64_t due_since(const struct verify_case *c, const struct verify_rev *due)
{
    int64_t since = due->at_us > c->judge->excused_us ? due->at_us : c->judge->excused_us;
    return (!c->live || c->resuming) && c->active_us > since ? c->active_us : since;
}

static void blame_overdue(struct verify_case *c, int64_t since_us, int64_t now_us)
{
    struct lost lost;
    bool given = c->given;
    lose(c, c->judge->head, &lost);
    blame_came(c, VERIFY_ALIVE, lost.first_rev, lost.key, lost.expected,
               "not within %.1f s: %zu events of revisions %" PRId64 " to %" PRId64 " are missing; %s %" PRId64,
               (double)(now_us - since_us) / 1e6, lost.n, lost.first_rev, lost.last_rev,
               given ? "the newest that came was" : "it was asked from", given ? c->last_rev : c->spec.start);
}

bool verify_case_overdue(struct verify_case *c, int64_t now_us)
{
    const struct verify_rev *due = c->held == NULL ? next_due(c) : NULL;
    if (due == NULL || c->given_up || c->cut_us != 0)
        return c->given_up;
    int64_t since_us = due_since(c, due);
    if (now_us - since_us <= c->judge->opts.max_lag_us)
        return false;
    blame_overdue(c, since_us, now_us);
    c->given_up = true;
    return true;
}

bool verify_case_given_up(const struct verify_case *c)
{
    return c->given_up;
}

bool verify_case_cut(const struct verify_case *c)
{
    return c->cut_us != 0;
}

bool verify_case_ahead(const struct verify_case *c)
{
    return c->held != NULL;
}

bool verify_case_complete(struct verify_case *c, int64_t rev)
{
    if (c->held != NULL) /* what was skipped before it is known by now */
        return c->held->rev > rev;
    const struct verify_rev *due = next_due(c);
    return due == NULL || due->rev > rev;
}

bool verify_case_live(const struct verify_case *c)
{
    return c->live;
}

int64_t verify_case_next(const struct verify_case *c)
{
    int64_t last = c->progress > c->last_rev ? c->progress : c->last_rev;
    return last + 1 > c->spec.start ? last + 1 : c->spec.start;
}
