/* tests/sim/judge.c */
#include "sim/judge.h"

#include <stdio.h>

#include "sim/dialect.h"
#include "wire/scan.h"

static bool has_pin(const struct judge_watch *watch, const struct history_event *event)
{
    return (!event->is_delete && dialect_pinned(watch->pin, event->kv)) ||
           (event->prev != NULL && dialect_pinned(watch->pin, event->prev->kv));
}

static bool wants(const struct judge_watch *watch, const struct history_event *event)
{
    return ((event->is_delete ? watch->deletes : watch->puts) >> event->key & 1) &&
           (watch->pin == 0 || has_pin(watch, event));
}

/* The first event wanted of a revision from `sub` on; NULL: none. */
static const struct history_event *wanted_in(const struct history_revision *revision, const struct judge_watch *watch,
                                             size_t sub)
{
    for (size_t i = sub; i < revision->n; i++) {
        if (wants(watch, &revision->events[i]))
            return &revision->events[i];
    }
    return NULL;
}

const struct history_event *judge_first(const struct history *history, unsigned past, const struct judge_watch *watch,
                                        int64_t to)
{
    const struct history_revision *revision;
    for (int64_t from = watch->next;; from = revision->rev + 1) {
        revision = history_next(history, past, from, to, watch->puts, watch->deletes);
        if (revision == NULL)
            return NULL;
        size_t given = revision->rev == watch->next ? watch->given : 0;
        const struct history_event *event = wanted_in(revision, watch, 0);
        for (; event != NULL && given > 0; given--)
            event = wanted_in(revision, watch, event->sub + 1);
        if (event != NULL)
            return event;
    }
}

bool judge_is_inside(const struct history *history, unsigned past, const struct judge_watch *watch)
{
    const struct history_revision *revision = history_at(history, past, watch->next);
    const struct history_event *last = NULL;
    for (size_t given = watch->given; revision != NULL && given > 0; given--)
        last = wanted_in(revision, watch, last == NULL ? 0 : last->sub + 1);
    return last != NULL && last->sub + 1 < revision->n;
}

static bool wants_several(const struct history_revision *revision, const struct judge_watch *watch)
{
    const struct history_event *first = wanted_in(revision, watch, 0);
    return first != NULL && wanted_in(revision, watch, first->sub + 1) != NULL;
}

struct judge_watch judge_resumed(const struct history *history, unsigned past, const struct judge_watch *watch,
                                 int64_t rev)
{
    const struct history_revision *revision = watch->resumed ? history_at(history, past, watch->start) : NULL;
    struct judge_watch facts = *watch;
    facts.resumed = false;
    if (revision == NULL)
        return facts;
    bool may_skip = watch->has_all || !wants_several(revision, watch);
    bool may_repeat = revision->n > 1;
    if (may_skip && (rev > watch->start || !may_repeat))
        facts.next = watch->start + 1;
    return facts;
}

/* What comes next: `after` was the last one given by this response; NULL: none yet. */
static const struct history_event *expected(const struct history *history, unsigned past,
                                            const struct judge_watch *watch, const struct history_event *after)
{
    int64_t head = history_head(history, past);
    if (after == NULL)
        return judge_first(history, past, watch, head);
    const struct history_event *next = wanted_in(history_at(history, past, after->rev), watch, after->sub + 1);
    if (next != NULL)
        return next;
    struct judge_watch later = *watch;
    later.next = after->rev + 1;
    later.given = 0;
    return judge_first(history, past, &later, head);
}

/* ---- one event ---- */

/* Compares bytes with what `event` is; FAULT_BYTES: something else. */
static enum fault compare(const struct judge_watch *watch, const struct history_event *event, struct belfry_bytes given)
{
    bool has_prev = event->prev != NULL;
    bool bare = belfry_bytes_equal(given, event->raw);
    if (has_prev && belfry_bytes_equal(given, event->raw_prev))
        return watch->prev_kv ? FAULT_NONE : FAULT_PREV_UNASKED;
    if (bare)
        return !watch->prev_kv || !has_prev || event->rev <= watch->prev_floor ? FAULT_NONE : FAULT_PREV_MISSING;
    if (given.len > event->raw.len && belfry_bytes_begins(given, event->raw))
        return FAULT_PREV_WRONG;
    return FAULT_BYTES;
}

/* The event is right, but not here. */
static enum fault misplaced(const struct judge_watch *watch, const struct history_event *is,
                            const struct history_event *want, const struct history_event *last)
{
    if (is->rev < watch->next || (last != NULL && (is->rev < last->rev || (is->rev == last->rev && is == last))))
        return FAULT_AGAIN;
    if (last != NULL && is->rev == last->rev && is->sub < last->sub)
        return FAULT_SWAPPED;
    return want != NULL && want->rev == is->rev ? FAULT_SWAPPED : FAULT_MISSING;
}

/* Why it is not `want`. The given event's revision and key are noted in the verdict. */
static enum fault explain(const struct history *history, unsigned past, const struct judge_watch *watch,
                          struct belfry_bytes given, const struct history_event *last, struct verdict *verdict)
{
    struct belfry_wire_event event;
    if (belfry_scan_event(given, &event) != BELFRY_OK)
        return FAULT_GARBLED;
    verdict->rev = event.kv.mod_rev;
    verdict->key = history_key_find(history, event.kv.key);
    if (verdict->key < 0)
        return FAULT_INVENTED;
    if (!((watch->puts | watch->deletes) >> verdict->key & 1))
        return FAULT_OUT_OF_RANGE;
    if (!((event.is_delete ? watch->deletes : watch->puts) >> verdict->key & 1))
        return FAULT_FILTERED;
    if (verdict->rev < watch->start)
        return FAULT_BELOW_START;
    if (verdict->rev > history_head(history, past))
        return FAULT_UNWRITTEN;
    const struct history_event *is = history_find(history, past, verdict->rev, (unsigned)verdict->key);
    if (is == NULL)
        return FAULT_INVENTED;
    if (!wants(watch, is))
        return FAULT_FILTERED;
    enum fault fault = compare(watch, is, given);
    return fault != FAULT_NONE ? fault : misplaced(watch, is, verdict->want, last);
}

static bool judge_event(const struct history *history, unsigned past, const struct judge_watch *watch,
                        struct belfry_bytes given, const struct history_event **last, struct verdict *verdict)
{
    const struct history_event *want = expected(history, past, watch, *last);
    if (want != NULL && compare(watch, want, given) == FAULT_NONE) {
        verdict->agreed++;
        verdict->prev_missing += watch->prev_kv && want->prev != NULL && given.len == want->raw.len;
        *last = want;
        return true;
    }
    verdict->want = want;
    verdict->fault = explain(history, past, watch, given, *last, verdict);
    return false;
}

/* ---- a delivery ---- */

static struct verdict begin(const struct history *history, unsigned past)
{
    return (struct verdict){.key = -1, .head = history_head(history, past)};
}

bool judge_events(const struct history *history, unsigned past, const struct judge_watch *watch,
                  const struct belfry_bytes *events, size_t n, int64_t header_rev, struct verdict *out)
{
    const struct history_event *last = NULL;
    *out = begin(history, past);
    for (size_t i = 0; i < n; i++) {
        if (!judge_event(history, past, watch, events[i], &last, out))
            return false;
    }
    if (last == NULL)
        return true;
    out->rev = last->rev;
    out->key = (int)last->key;
    out->want = wanted_in(history_at(history, past, last->rev), watch, last->sub + 1);
    if (out->want != NULL && !watch->lines)
        out->fault = FAULT_SPLIT;
    else if (header_rev < last->rev || header_rev > (watch->lines ? last->rev : out->head))
        out->fault = FAULT_HEADER;
    return out->fault == FAULT_NONE;
}

bool judge_progress(const struct history *history, unsigned past, const struct judge_watch *watch, int64_t rev,
                    struct verdict *out)
{
    *out = begin(history, past);
    out->rev = rev;
    if (rev > out->head)
        out->fault = FAULT_UNWRITTEN;
    else if ((out->want = judge_first(history, past, watch, rev)) != NULL)
        out->fault = FAULT_PROGRESS;
    return out->fault == FAULT_NONE;
}

/* ---- for people ---- */

const char *judge_key_text(struct belfry_bytes key, char *text, size_t size)
{
    size_t at = 0;
    text[0] = '\0';
    for (size_t i = 0; i < key.len && at + 12 < size; i++) {
        unsigned char c = (unsigned char)key.data[i];
        if (i == 16 && key.len > 24) { /* the middle of a long key says little */
            at += (size_t)snprintf(text + at, size - at, "..%zu..", key.len);
            i = key.len - 4;
            c = (unsigned char)key.data[i];
        }
        at += (size_t)snprintf(text + at, size - at, c > 0x20 && c < 0x7f ? "%c" : "\\x%02x", c);
    }
    return text;
}

static const char *fault_text(enum fault fault)
{
    switch (fault) {
    case FAULT_NONE:
        return "agrees";
    case FAULT_GARBLED:
        return "is not an event";
    case FAULT_OUT_OF_RANGE:
        return "is of a key that was not asked for";
    case FAULT_FILTERED:
        return "is of a type that was filtered out, or has not the value that was pinned";
    case FAULT_BELOW_START:
        return "is below the start";
    case FAULT_UNWRITTEN:
        return "has not been written";
    case FAULT_INVENTED:
        return "never happened";
    case FAULT_BYTES:
        return "happened otherwise: its bytes differ";
    case FAULT_PREV_WRONG:
        return "has a wrong prev_kv";
    case FAULT_PREV_MISSING:
        return "lacks its prev_kv, which nothing has compacted";
    case FAULT_PREV_UNASKED:
        return "has a prev_kv that was not asked for";
    case FAULT_AGAIN:
        return "was given before, or comes after what is newer";
    case FAULT_SWAPPED:
        return "is out of order in its revision";
    case FAULT_MISSING:
        return "came although an earlier one is missing";
    case FAULT_SPLIT:
        return "is the last of its response, which splits the revision";
    case FAULT_HEADER:
        return "came under a header.revision below it or above the head, or as a line with another than its own";
    case FAULT_PROGRESS:
        return "was told as progress, beyond what was given";
    }
    return "?";
}

const char *judge_sentence(const struct history *history, const struct verdict *verdict, char *text, size_t size)
{
    char given[48] = "", want[48] = "";
    if (verdict->key >= 0)
        judge_key_text(history_key(history, (unsigned)verdict->key), given, sizeof(given));
    int n = snprintf(text, size, "revision %lld%s%s %s (head %lld)", (long long)verdict->rev,
                     given[0] != '\0' ? " of " : "", given, fault_text(verdict->fault), (long long)verdict->head);
    if (verdict->want != NULL && n > 0 && (size_t)n < size)
        snprintf(text + n, size - (size_t)n, "; expected: revision %lld.%u, %s of %s", (long long)verdict->want->rev,
                 verdict->want->sub, verdict->want->is_delete ? "delete" : "put",
                 judge_key_text(history_key(history, verdict->want->key), want, sizeof(want)));
    return text;
}
