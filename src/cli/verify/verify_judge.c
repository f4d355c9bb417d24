/* src/cli/verify/verify_judge.c: the reference and its window; what waits for the reference; what is late. The
 * comparison itself is in judge/. */
#include "cli/verify/verify_judge_private.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct belfry_bytes no_key = {NULL, 0};

/* ---- the window ---- */

#define SLOTS_MIN 1024

static bool window_grow(struct verify_window *window)
{
    size_t n_slots = window->n_slots == 0 ? SLOTS_MIN : window->n_slots * 2;
    struct judge_rev **slots = calloc(n_slots, sizeof(struct judge_rev *));
    if (slots == NULL)
        return false;
    for (uint64_t p = window->first; p != window->next; p++)
        slots[p & (n_slots - 1)] = window->slots[p & (window->n_slots - 1)];
    free(window->slots);
    window->slots = slots;
    window->n_slots = n_slots;
    return true;
}

/* NULL: not held. */
static const struct judge_rev *window_at(const struct verify_window *window, uint64_t place)
{
    bool held = place >= window->first && place < window->next;
    return held ? window->slots[place & (window->n_slots - 1)] : NULL;
}

/* Consumes `rev`, on failure too. It must be newer than all that are held. Errors: BELFRY_ERR_NOMEM. */
static enum belfry_err window_add(struct verify_window *window, struct judge_rev *rev)
{
    if (window->next - window->first == window->n_slots && !window_grow(window)) {
        free(rev);
        return BELFRY_ERR_NOMEM;
    }
    assert(window->next == window->first || window_at(window, window->next - 1)->rev < rev->rev);
    window->slots[window->next++ & (window->n_slots - 1)] = rev;
    window->bytes += rev->bytes;
    return BELFRY_OK;
}

/* The place of the first that is of revision `rev` or newer; next when there is none. */
static uint64_t window_find(const struct verify_window *window, int64_t rev)
{
    uint64_t low = window->first, high = window->next;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (window_at(window, middle)->rev < rev)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Drops the oldest, if there is one. */
static void window_drop(struct verify_window *window)
{
    if (window->first == window->next)
        return;
    struct judge_rev *oldest = window->slots[window->first++ & (window->n_slots - 1)];
    window->bytes -= oldest->bytes;
    free(oldest);
}

static void window_fini(struct verify_window *window)
{
    while (window->first != window->next)
        window_drop(window);
    free(window->slots);
    *window = (struct verify_window){.slots = NULL};
}

static const struct judge_rev *next_in_window(const void *user, int64_t from, int64_t to)
{
    const struct verify_window *window = user;
    const struct judge_rev *rev = window_at(window, window_find(window, from));
    return rev != NULL && rev->rev <= to ? rev : NULL;
}

/* ---- its life ---- */

enum belfry_err verify_judge_create(const struct verify_judge_opts *opts, struct verify_judge **out)
{
    struct verify_judge *judge = calloc(1, sizeof(*judge));
    if (judge == NULL)
        return BELFRY_ERR_NOMEM;
    judge->opts = *opts;
    judge->reference = (struct judge_reference){next_in_window, &judge->window};
    judge->first = 1;
    *out = judge;
    return BELFRY_OK;
}

void verify_judge_destroy(struct verify_judge *judge)
{
    if (judge == NULL)
        return;
    while (judge->cases != NULL)
        verify_case_close(judge->cases);
    window_fini(&judge->window);
    free(judge);
}

const struct verify_numbers *verify_judge_numbers(const struct verify_judge *judge)
{
    return &judge->numbers;
}

int64_t verify_judge_first(const struct verify_judge *judge)
{
    return judge->first;
}

int64_t verify_judge_head(const struct verify_judge *judge)
{
    return judge->head;
}

const struct judge_event *verify_judge_pick(const struct verify_judge *judge, uint64_t number)
{
    uint64_t n = judge->window.next - judge->window.first;
    if (n == 0)
        return NULL;
    const struct judge_rev *rev = window_at(&judge->window, judge->window.first + number % n);
    return rev->n == 0 ? NULL : &rev->events[number / n % rev->n];
}

/* ---- previous values that are missing ---- */

/* `event` is the reference's. */
static void prev_keep(struct verify_prev *prev, const struct verify_spec *spec, const struct judge_event *event)
{
    prev->rev = event->kv.mod_rev;
    prev->watcher = spec->watcher;
    prev->key_len = event->key.len < PREV_KEY ? event->key.len : PREV_KEY;
    if (prev->key_len > 0)
        memcpy(prev->key, event->key.data, prev->key_len);
    judge_prev_text(event, prev->expected);
    verify_spec_text(spec, prev->asked);
}

int64_t verify_judge_ask_prev(struct verify_judge *judge)
{
    if (judge->missing.rev == 0 || judge->asked.rev != 0)
        return 0;
    judge->asked = judge->missing;
    judge->missing.rev = 0;
    return judge->asked.rev;
}

void verify_judge_answer_prev(struct verify_judge *judge, enum verify_compacted answer)
{
    struct verify_prev *asked = &judge->asked;
    if (asked->rev == 0) /* the reference has begun again meanwhile */
        return;
    if (answer == VERIFY_READABLE) {
        struct judge_violation violation = {.property = JUDGE_PREV_KV,
                                            .watcher = asked->watcher,
                                            .rev = asked->rev,
                                            .key = {asked->key, asked->key_len},
                                            .expected = asked->expected,
                                            .came = "none, and no compaction explains it",
                                            .asked = asked->asked};
        judge->opts.blame(&violation, judge->opts.user);
    }
    if (answer == VERIFY_NOBODY_KNOWS && judge->missing.rev < asked->rev)
        judge->missing = *asked;
    if (answer != VERIFY_NOBODY_KNOWS && judge->missing.rev <= asked->rev)
        judge->missing.rev = 0; /* the answer is true of all before it */
    asked->rev = 0;
}

bool verify_judge_doubts_prev(const struct verify_judge *judge)
{
    return judge->missing.rev != 0 || judge->asked.rev != 0;
}

/* ---- a case beside the reference ---- */

/* The next event that the watcher should be sent; NULL: the reference has told of none. */
static const struct judge_event *case_due(struct verify_case *c)
{
    const struct judge_event *due = judge_first(&c->watch, &c->judge->reference, c->judge->head);
    int64_t next = due != NULL ? due->kv.mod_rev : c->judge->head + 1;
    if (next > c->watch.next) /* what is before it is of other ranges, and need not be looked at again */
        c->watch.next = next;
    return due;
}

/* Compares the revision that is held. */
static void case_compare(struct verify_case *c)
{
    struct verify_judge *judge = c->judge;
    const struct judge_rev *given = c->held;
    struct judge_found found = {0};
    if (given->rev < judge->first) {
        c->watch.any = c->watch.whole = true;
        if (given->rev < c->judged_from) /* else it was counted when it left the window */
            judge->numbers.n_not_judged += given->n;
        return;
    }
    judge_revision(&c->watch, &judge->reference, given, &found);
    judge->numbers.n_events += found.n_events;
    judge->numbers.n_prev_same += found.n_prev_same;
    judge->numbers.n_prev_absent += found.n_prev_absent;
    if (found.prev_absent != NULL && found.prev_absent->kv.mod_rev > judge->missing.rev)
        prev_keep(&judge->missing, &c->spec, found.prev_absent);
    const struct judge_rev *due = next_in_window(&judge->window, given->rev, given->rev);
    if (c->live && given->rev > c->open_rev && due != NULL && judge_count(&c->watch, due) > 0)
        verify_lag_add(&judge->numbers.lag, given->at_us - due->at_us, given->n);
}

/* The reference has told more: judges what was held for that. */
static void case_settle(struct verify_case *c)
{
    int64_t head = c->judge->head;
    if (c->held_progress != 0 && c->held_progress <= head) {
        judge_progress(&c->watch, &c->judge->reference, c->held_progress);
        c->held_progress = 0;
    }
    if (c->held != NULL && c->held->rev <= head) {
        case_compare(c);
        free(c->held);
        c->held = NULL;
    }
    if (head < c->open_rev || c->held != NULL || case_due(c) != NULL)
        return;
    c->live = true;
    c->resuming = false;
}

/* The oldest revision leaves the window: a watcher that has not been sent it by now is not judged for it. */
static void drop_oldest(struct verify_judge *judge)
{
    const struct judge_rev *oldest = window_at(&judge->window, judge->window.first);
    for (struct verify_case *c = judge->cases; c != NULL; c = c->next) {
        if (c->watch.next > oldest->rev)
            continue;
        judge->numbers.n_not_judged += judge_count(&c->watch, oldest);
        c->watch.next = oldest->rev + 1;
    }
    judge->first = oldest->rev + 1;
    window_drop(&judge->window);
}

/* ---- the reference ---- */

void verify_judge_begin(struct verify_judge *judge, int64_t first)
{
    judge->numbers.n_gaps += judge->told;
    judge->told = false;
    while (judge->window.first != judge->window.next)
        window_drop(&judge->window);
    judge->missing = judge->asked = (struct verify_prev){.rev = 0};
    judge->first = first;
    judge->head = first - 1;
    for (struct verify_case *c = judge->cases; c != NULL; c = c->next) {
        c->watch.next = first > c->spec.start ? first : c->spec.start;
        c->judged_from = first;
        case_settle(c);
    }
}

enum belfry_err verify_judge_reference(struct verify_judge *judge, struct judge_rev *rev)
{
    int64_t at = rev->rev;
    if (window_add(&judge->window, rev) != BELFRY_OK)
        return BELFRY_ERR_NOMEM;
    judge->numbers.n_revisions++;
    judge->told = true;
    verify_judge_reference_at(judge, at);
    while (judge->window.bytes > judge->opts.window_bytes && judge->window.next - judge->window.first > 1)
        drop_oldest(judge);
    return BELFRY_OK;
}

void verify_judge_reference_at(struct verify_judge *judge, int64_t rev)
{
    if (rev > judge->head)
        judge->head = rev;
    for (struct verify_case *c = judge->cases; c != NULL; c = c->next)
        case_settle(c);
}

/* The cluster was at revision `rev` when it was asked at asked_us: what came before, and is newer, has not happened. */
static void case_cluster_at(struct verify_case *c, int64_t rev, int64_t asked_us)
{
    char expected[JUDGE_TEXT], came[JUDGE_TEXT];
    snprintf(expected, sizeof(expected), "nothing yet: the cluster is at revision %" PRId64, rev);
    if (c->held_progress > rev && c->held_us <= asked_us) {
        judge_blame(&c->watch, JUDGE_PROGRESS, c->held_progress, no_key, expected, "progress to %" PRId64,
                    c->held_progress);
        c->held_progress = 0;
    }
    if (c->held == NULL || c->held->rev <= rev || c->held->at_us > asked_us)
        return;
    for (size_t i = 0; i < c->held->n; i++) {
        if (!judge_range_has(&c->spec.range, c->held->events[i].key))
            continue;
        judge_event_text(&c->held->events[i], came);
        judge_blame(&c->watch, JUDGE_RELIABLE, c->held->rev, c->held->events[i].key, expected, "%s", came);
        break;
    }
    c->given_up = true; /* its place is now beyond what there is */
    free(c->held);
    c->held = NULL;
}

void verify_judge_cluster_at(struct verify_judge *judge, int64_t rev, int64_t asked_us)
{
    for (struct verify_case *c = judge->cases; c != NULL; c = c->next)
        case_cluster_at(c, rev, asked_us);
}

void verify_judge_excuse(struct verify_judge *judge, int64_t now_us)
{
    judge->excused_us = now_us;
}

static void case_end_cut(struct verify_case *c, int64_t now_us)
{
    int64_t lasted_us = c->cut_us != 0 ? now_us - c->cut_us : 0;
    if (lasted_us > c->judge->numbers.cut_us)
        c->judge->numbers.cut_us = lasted_us;
    c->cut_us = 0;
}

static void case_end(struct verify_case *c, int64_t rev, int64_t now_us)
{
    case_end_cut(c, now_us);
    if (c->held_progress != 0)
        judge_progress(&c->watch, &c->judge->reference, c->held_progress);
    c->held_progress = 0;
    if (c->held == NULL)
        return;
    judge_skipped(&c->watch, &c->judge->reference, c->held->rev);
    if (c->held->rev <= rev)
        c->judge->numbers.n_not_judged += c->held->n;
    free(c->held);
    c->held = NULL;
}

void verify_judge_end(struct verify_judge *judge, int64_t rev, int64_t now_us)
{
    for (struct verify_case *c = judge->cases; c != NULL; c = c->next)
        case_end(c, rev, now_us);
}

/* ---- cases ---- */

void verify_spec_text(const struct verify_spec *spec, char out[VERIFY_SPEC_TEXT])
{
    char range[VERIFY_RANGE_TEXT];
    verify_range_text(&spec->range, range);
    snprintf(out, VERIFY_SPEC_TEXT, "%s from revision %" PRId64 "%s", range, spec->start,
             spec->prev_kv ? ", prev-kv" : "");
}

enum belfry_err verify_case_open(struct verify_judge *judge, const struct verify_spec *spec, int64_t now_us,
                                 struct verify_case **out)
{
    struct verify_case *c = calloc(1, sizeof(*c));
    if (c == NULL)
        return BELFRY_ERR_NOMEM;
    c->judge = judge;
    c->spec = *spec;
    c->watch = (struct judge_watch){.number = spec->watcher,
                                    .range = spec->range,
                                    .prev_kv = spec->prev_kv,
                                    .start = spec->start,
                                    .next = spec->start,
                                    .blame = judge->opts.blame,
                                    .user = judge->opts.user};
    c->judged_from = judge->first;
    c->active_us = now_us;
    c->open_rev = judge->head > spec->newest ? judge->head : spec->newest;
    c->next = judge->cases;
    c->link = &judge->cases;
    if (c->next != NULL)
        c->next->link = &c->next;
    judge->cases = c;
    case_settle(c);
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

void verify_case_blame(const struct verify_case *c, enum judge_property property, int64_t rev, const char *expected,
                       const char *came)
{
    judge_blame(&c->watch, property, rev, no_key, expected, "%s", came);
}

void verify_case_take(struct verify_case *c, struct judge_rev *given, int64_t header_rev)
{
    assert(c->held == NULL);
    case_end_cut(c, given->at_us);
    if (!judge_arrival(&c->watch, given, header_rev)) {
        free(given);
        return;
    }
    c->active_us = given->at_us;
    c->held = given;
    case_settle(c);
}

void verify_case_progress(struct verify_case *c, int64_t rev, int64_t header_rev, int64_t now_us)
{
    bool advances = rev > c->watch.progress && rev > c->watch.last_rev;
    c->judge->numbers.n_progress++;
    case_end_cut(c, now_us);
    if (!judge_progress_arrival(&c->watch, rev, header_rev))
        return;
    if (advances) /* repeating a revision is not progress */
        c->active_us = now_us;
    c->held_progress = rev;
    c->held_us = now_us;
    case_settle(c);
}

/* ---- how it stands ---- */

void verify_case_link(struct verify_case *c, enum verify_link link, int64_t now_us)
{
    if (link == VERIFY_CUT) {
        c->cut_us = c->cut_us != 0 ? c->cut_us : now_us;
        return;
    }
    /* A watcher that was sent nothing since the last connection has only the rest of its time: else a server that does
     * no more than accept connections would never be overdue. */
    c->active_us = !c->resuming ? now_us : c->cut_us != 0 ? c->active_us + now_us - c->cut_us : c->active_us;
    c->resuming = true;
    case_end_cut(c, now_us);
    case_settle(c);
}

/* When the time for `due` began to run. */
static int64_t due_since(const struct verify_case *c, const struct judge_event *due)
{
    int64_t told_us = next_in_window(&c->judge->window, due->kv.mod_rev, due->kv.mod_rev)->at_us;
    int64_t since = told_us > c->judge->excused_us ? told_us : c->judge->excused_us;
    return (!c->live || c->resuming) && c->active_us > since ? c->active_us : since;
}

bool verify_case_overdue(struct verify_case *c, int64_t now_us)
{
    const struct judge_event *due = c->held == NULL ? case_due(c) : NULL;
    char expected[JUDGE_TEXT];
    if (due == NULL || c->given_up || c->cut_us != 0)
        return c->given_up;
    int64_t since_us = due_since(c, due);
    if (now_us - since_us <= c->judge->opts.max_lag_us)
        return false;
    struct judge_lost lost = judge_lose(&c->watch, &c->judge->reference, c->judge->head);
    judge_event_text(lost.first, expected);
    judge_blame(&c->watch, JUDGE_ALIVE, lost.first_rev, lost.first->key, expected,
                "not within %.1f s: %zu events of revisions %" PRId64 " to %" PRId64 " are missing; %s %" PRId64,
                (double)(now_us - since_us) / 1e6, lost.n, lost.first_rev, lost.last_rev,
                c->watch.any ? "the newest that came was" : "it was asked from",
                c->watch.any ? c->watch.last_rev : c->spec.start);
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
    const struct judge_event *due = case_due(c);
    return due == NULL || due->kv.mod_rev > rev;
}

bool verify_case_live(const struct verify_case *c)
{
    return c->live;
}

int64_t verify_case_next(const struct verify_case *c)
{
    int64_t last = c->watch.progress > c->watch.last_rev ? c->watch.progress : c->watch.last_rev;
    return last + 1 > c->spec.start ? last + 1 : c->spec.start;
}
