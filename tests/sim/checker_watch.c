/* tests/sim/checker_watch.c: one watch: which pasts agree with what it has been given. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "sim/checker_private.h"

const char *checker_watch_text(const struct watch *watch, char *text, size_t size)
{
    char key[48], end[48];
    char pin[24] = "";
    if (watch->asked.pin != 0)
        snprintf(pin, sizeof(pin), " pin %u", watch->asked.pin);
    snprintf(text, size, "%s watch %lld [%s, %s) from %lld%s%s%s%s%s", watch->stream->name, (long long)watch->asked.id,
             judge_key_text(watch->asked.key, key, sizeof(key)),
             judge_key_text(watch->asked.range_end, end, sizeof(end)), (long long)watch->asked.start,
             watch->asked.resumed ? " resumed" : "", watch->asked.prev_kv ? " prev_kv" : "",
             watch->asked.no_put ? " no_put" : "", watch->asked.no_delete ? " no_delete" : "", pin);
    return text;
}

bool checker_watch_wrong(struct watch *watch, const char *format, ...)
{
    char who[160], text[CHECKER_TEXT_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    watch->wronged = true;
    checker_report(watch->stream->checker, "%s: %s", checker_watch_text(watch, who, sizeof(who)), text);
    return false;
}

/* ---- pasts ---- */

/* Forks since the watch was last looked at. It may go on in a new past only if nothing was told of the old one beyond
 * the point where they part. */
static void consider_forks(struct watch *watch)
{
    struct checker *checker = watch->stream->checker;
    const struct history *history = checker->history;
    for (; watch->seen < history_pasts(history); watch->seen++) {
        bool was_in = watch->pasts >> history_parent(history, watch->seen) & 1;
        if (was_in && watch->heard <= history_fork_rev(history, watch->seen))
            watch->pasts |= (uint32_t)1 << watch->seen;
        else
            checker->counts.left_behind += was_in;
    }
}

/* What was given agrees with `pasts`, and with no other. */
static void settle(struct watch *watch, uint32_t pasts, int64_t heard)
{
    bool left_old = (watch->pasts & ~pasts) >> (watch->born - 1) & 1;
    watch->stream->checker->counts.crossed_forks += left_old && (uint64_t)pasts >> watch->born != 0;
    watch->pasts = pasts;
    if (heard > watch->heard)
        watch->heard = heard;
}

static bool no_past_agrees(struct watch *watch, unsigned past, const struct verdict *verdict)
{
    const struct checker *checker = watch->stream->checker;
    char text[CHECKER_TEXT_MAX];
    judge_sentence(checker->history, verdict, text, sizeof(text));
    if (watch->pasts >> history_now(checker->history) & 1)
        return checker_watch_wrong(watch, "%s", text);
    return checker_watch_wrong(
        watch, "%s; it belongs to past %u, which ended, and only canceled with a compact_revision may follow", text,
        past);
}

/* created shows `rev`: for a watch from 0 those pasts that have not come so far are not its own. One that named its start
 * has been told nothing yet. */
static bool settle_created(struct watch *watch, int64_t rev)
{
    const struct history *history = watch->stream->checker->history;
    uint32_t pasts = 0;
    consider_forks(watch);
    for (unsigned past = 0; past < watch->seen; past++)
        pasts |= watch->pasts & (uint32_t)(rev <= history_head(history, past)) << past;
    if (pasts == 0)
        return checker_watch_wrong(watch, "created shows revision %lld, which has not been written", (long long)rev);
    if (watch->asked.start == 0)
        settle(watch, pasts, rev);
    return true;
}

bool checker_watch_created(struct watch *watch, int64_t header_rev)
{
    struct checker_stream *stream = watch->stream;
    if (!settle_created(watch, header_rev))
        return false;
    stream->checker->counts.future += watch->asked.start > header_rev + 1;
    if (watch->asked.start == 0) {
        watch->facts.next = header_rev + 1;
        watch->soft = stream->kind == CHECKER_DIRECT;
        watch->facts.start = watch->soft ? 0 : watch->facts.next;
    }
    return true;
}

/* ---- events ---- */

static size_t collect_events(struct checker *checker, struct belfry_bytes message)
{
    struct belfry_bytes event;
    size_t n = 0, at = 0;
    while (belfry_scan_field(message, BELFRY_WATCH_EVENTS, &at, &event) == BELFRY_OK) {
        if (n == checker->cap_events) {
            checker->cap_events = checker->cap_events == 0 ? 64 : checker->cap_events * 2;
            checker->events = realloc(checker->events, checker->cap_events * sizeof(checker->events[0]));
            if (checker->events == NULL)
                abort();
        }
        checker->events[n++] = event;
    }
    return n;
}

static int64_t first_rev(const struct checker *checker)
{
    int64_t rev = 0;
    return belfry_scan_event_rev(checker->events[0], &rev) == BELFRY_OK ? rev : 0;
}

static int64_t max(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* `rev`: what comes next is of this revision or a later one. */
static struct judge_watch facts_in(const struct watch *watch, unsigned past, int64_t rev)
{
    const struct checker *checker = watch->stream->checker;
    struct judge_watch facts = judge_resumed(checker->history, past, &watch->facts, rev);
    facts.prev_floor = max(history_compacted(checker->history, past), checker->highest_listing);
    if (facts.lines)
        facts.prev_floor = 0; /* one that lacks it is not told at all */
    return facts;
}

int64_t checker_watch_next(const struct watch *watch)
{
    const struct judge_watch *facts = &watch->facts;
    for (unsigned past = 0; past < watch->seen; past++) {
        bool may_be = watch->pasts >> past & 1;
        if (may_be && judge_first(watch->stream->checker->history, past, facts, facts->next) != NULL)
            return facts->next;
    }
    return facts->given == 0 ? facts->next : facts->next + 1;
}

static void note_events(struct watch *watch, size_t n, const struct verdict *verdict)
{
    struct checker_counts *counts = &watch->stream->checker->counts;
    watch->soft = false;
    watch->facts.resumed = false;
    watch->last_event = verdict->rev;
    watch->facts.given = watch->facts.next == verdict->rev ? watch->facts.given + n : n;
    watch->facts.next = verdict->rev;
    if (!watch->facts.lines) {
        watch->facts.given = 0;
        watch->facts.next = verdict->rev + 1;
    }
    watch->asked.events += (int64_t)n;
    counts->responses++;
    counts->events += n;
    counts->prev_missing += verdict->prev_missing;
    counts->with_prev += watch->asked.prev_kv ? n - verdict->prev_missing : 0;
}

bool checker_watch_events(struct watch *watch, const struct belfry_wire_watch *head, struct belfry_bytes message)
{
    struct checker *checker = watch->stream->checker;
    size_t n = collect_events(checker, message);
    struct verdict agreed = {0}, nearest = {0};
    unsigned nearest_past = 0;
    uint32_t pasts = 0;
    consider_forks(watch);
    if (watch->soft && first_rev(checker) < watch->facts.next)
        watch->facts.next = first_rev(checker);
    for (unsigned past = 0; past < watch->seen; past++) {
        if (!(watch->pasts >> past & 1))
            continue;
        struct judge_watch facts = facts_in(watch, past, first_rev(checker));
        struct verdict verdict;
        if (judge_events(checker->history, past, &facts, checker->events, n, head->header.revision, &verdict)) {
            pasts |= (uint32_t)1 << past;
            agreed = verdict;
        } else if (nearest.fault == FAULT_NONE || verdict.agreed >= nearest.agreed) {
            nearest = verdict;
            nearest_past = past;
        }
    }
    if (pasts == 0)
        return no_past_agrees(watch, nearest_past, &nearest);
    settle(watch, pasts, max(agreed.rev, head->header.revision));
    note_events(watch, n, &agreed);
    return true;
}

/* ---- progress ---- */

static bool progress_goes_back(struct watch *watch, int64_t rev)
{
    if (rev < watch->last_progress || rev < watch->last_event)
        return true;
    return watch->asked.start > 0 && rev < watch->asked.start - !watch->asked.resumed;
}

bool checker_watch_progress(struct watch *watch, int64_t rev)
{
    struct checker *checker = watch->stream->checker;
    struct verdict verdict = {0}, worst = {0};
    unsigned worst_past = 0;
    uint32_t pasts = 0;
    consider_forks(watch);
    bool back = progress_goes_back(watch, rev);
    for (unsigned past = 0; past < watch->seen && !back; past++) {
        if (!(watch->pasts >> past & 1))
            continue;
        struct judge_watch facts = facts_in(watch, past, rev + 1);
        if (judge_progress(checker->history, past, &facts, rev, &verdict)) {
            pasts |= (uint32_t)1 << past;
        } else {
            worst = verdict;
            worst_past = past;
        }
    }
    if (back)
        return checker_watch_wrong(watch, "progress at %lld is below an earlier progress, an event or the start",
                                   (long long)rev);
    if (pasts == 0)
        return no_past_agrees(watch, worst_past, &worst);
    settle(watch, pasts, rev);
    watch->last_progress = rev;
    watch->soft = false;
    watch->facts.resumed = false;
    if (rev + 1 > watch->facts.next) {
        watch->facts.next = rev + 1;
        watch->facts.given = 0;
    }
    return true;
}

/* ---- compacted ---- */

static bool was_compacted(const struct history *history, int64_t rev)
{
    for (unsigned past = 0; past < history_pasts(history); past++) {
        if (history_was_compacted(history, past, rev))
            return true;
    }
    return false;
}

static bool was_rewritten(const struct checker *checker, int64_t rev)
{
    for (size_t i = 0; i < checker->n_rewrites; i++) {
        if (checker->rewrites[i] == rev)
            return true;
    }
    return false;
}

/* Has the revision an event in the watch's range that nobody may know any more what it replaced? */
static bool may_lack_prev(const struct watch *watch, unsigned past, int64_t rev)
{
    const struct checker *checker = watch->stream->checker;
    const struct history_revision *revision = history_at(checker->history, past, rev);
    if (revision == NULL || rev > max(history_compacted(checker->history, past), checker->highest_listing))
        return false;
    for (size_t i = 0; i < revision->n; i++) {
        const struct history_event *event = &revision->events[i];
        if (event->prev != NULL && ((event->is_delete ? watch->facts.deletes : watch->facts.puts) >> event->key & 1))
            return true;
    }
    return false;
}

static bool lacks_prev(const struct watch *watch, int64_t rev)
{
    if (!watch->facts.lines || (!watch->asked.prev_kv && watch->asked.pin == 0) || rev < watch->facts.next)
        return false; /* of the revision being given, too: whether what is left of it is wanted, nobody knows either */
    for (unsigned past = 0; past < watch->seen; past++) {
        if ((watch->pasts >> past & 1) && may_lack_prev(watch, past, rev))
            return true;
    }
    return false;
}

/* Has it been given some of a revision? Then it may have all that it wants of it, but whoever serves it event by event,
 * and has lost the others, cannot know. */
static bool is_inside(const struct watch *watch)
{
    for (unsigned past = 0; past < watch->seen; past++) {
        if ((watch->pasts >> past & 1) && judge_is_inside(watch->stream->checker->history, past, &watch->facts))
            return true;
    }
    return false;
}

bool checker_watch_compacted(struct watch *watch, int64_t rev)
{
    struct checker *checker = watch->stream->checker;
    bool compacted = was_compacted(checker->history, rev), rewritten = was_rewritten(checker, rev);
    bool needs_it = checker_watch_next(watch) < rev || watch->soft || /* soft: it may need less than created showed */
                    (watch->facts.next < rev && is_inside(watch));
    watch->state = COMPACTED;
    if (compacted && needs_it)
        checker->counts.compacted++;
    else if (rewritten)
        checker->counts.rewritten++;
    else if (lacks_prev(watch, rev - 1))
        checker->counts.unknown_prev++;
    else if (compacted)
        return checker_watch_wrong(watch, "was told compacted at %lld, but needs only %lld and what follows",
                                   (long long)rev, (long long)watch->facts.next);
    else
        return checker_watch_wrong(
            watch, "was told compacted at %lld, but that was never compacted, nor listed after a rewrite",
            (long long)rev);
    return true;
}

/* ---- the end ---- */

static void finish_created(struct watch *watch)
{
    struct checker *checker = watch->stream->checker;
    const struct history *history = checker->history;
    unsigned now = history_now(history);
    char text[CHECKER_TEXT_MAX];
    consider_forks(watch);
    struct verdict verdict = {.fault = FAULT_MISSING, .key = -1, .head = history_head(history, now)};
    watch->facts = facts_in(watch, now, verdict.head + 1);
    if (!(watch->pasts >> now & 1)) {
        checker_watch_wrong(watch, "was left in a past that ended (revision %lld of it was told), and never canceled",
                            (long long)watch->heard);
    } else if ((verdict.want = judge_first(history, now, &watch->facts, verdict.head)) != NULL) {
        verdict.rev = watch->facts.next - 1;
        checker_watch_wrong(watch, "ended behind: the last was %s",
                            judge_sentence(history, &verdict, text, sizeof(text)));
    } else {
        checker->counts.finished++;
    }
}

void checker_watch_finish(struct watch *watch)
{
    if (watch->wronged)
        return;
    if (watch->state == ASKED)
        checker_watch_wrong(watch, "was never answered");
    else if (watch->state == CREATED && watch->cancels_sent > 0)
        checker_watch_wrong(watch, "its cancel was never acknowledged");
    else if (watch->state == CREATED)
        finish_created(watch);
}
