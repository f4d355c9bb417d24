/* tests/sim/checker_watch.c: one watch: which pasts agree with what it has been sent. */
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "sim/checker_private.h"
#include "sim/dialect.h"

/* A key for people: printable, and short. Returns `text`. */
static const char *key_text(struct belfry_bytes key, char *text, size_t size)
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

const char *checker_watch_text(const struct watch *watch, char *text, size_t size)
{
    char key[48], end[48];
    char pin[24] = "";
    if (watch->asked.pin != 0)
        snprintf(pin, sizeof(pin), " pin %u", watch->asked.pin);
    snprintf(text, size, "%s watch %lld [%s, %s) from %lld%s%s%s%s%s", watch->stream->name, (long long)watch->asked.id,
             key_text(watch->asked.key, key, sizeof(key)), key_text(watch->asked.range_end, end, sizeof(end)),
             (long long)watch->asked.start, watch->asked.resumed ? " resumed" : "",
             watch->asked.prev_kv ? " prev_kv" : "", watch->asked.no_put ? " no_put" : "",
             watch->asked.no_delete ? " no_delete" : "", pin);
    return text;
}

bool checker_watch_wrong(struct watch *watch, const char *format, ...)
{
    char who[160], text[VIOLATIONS_TEXT_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    watch->wronged = true;
    violations_add(&watch->stream->checker->violations, "%s: %s", checker_watch_text(watch, who, sizeof(who)), text);
    return false;
}

/* ---- pasts ---- */

/* Forks since the last message. The watch may continue in a new past only if it has seen nothing of the old one beyond
 * the fork. */
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

/* What was sent agrees with `pasts`, and with no other past. */
static void settle(struct watch *watch, uint32_t pasts, int64_t heard)
{
    bool left_old = (watch->pasts & ~pasts) >> (watch->born - 1) & 1;
    watch->stream->checker->counts.crossed_forks += left_old && (uint64_t)pasts >> watch->born != 0;
    watch->pasts = pasts;
    if (heard > watch->heard)
        watch->heard = heard;
}

/* ---- one past ---- */

/* The judgement of a delivery, if the watch belongs to this past. */
struct opinion {
    struct judge_watch facts; /* of the watch, after the delivery */
    struct judge_found found;
    bool wrong;
    char text[VIOLATIONS_TEXT_MAX]; /* wrong: the first violation */
};

__attribute__((format(printf, 2, 3))) static void opinion_wrong(struct opinion *opinion, const char *format, ...)
{
    va_list args;
    if (opinion->wrong)
        return;
    opinion->wrong = true;
    va_start(args, format);
    vsnprintf(opinion->text, sizeof(opinion->text), format, args);
    va_end(args);
}

static void on_blame(const struct judge_violation *violation, void *user)
{
    opinion_wrong(user, "%s: revision %lld; expected: %s; came: %s", judge_property_word(violation->property),
                  (long long)violation->rev, violation->expected, violation->came);
}

/* Leaves the text as it is: it is large, and this is called for each delivery and past. */
static void opinion_begin(struct opinion *opinion, struct judge_watch facts)
{
    opinion->facts = facts;
    opinion->facts.blame = on_blame;
    opinion->facts.user = opinion;
    opinion->found = (struct judge_found){0};
    opinion->wrong = false;
}

/* A past as the judge reads it, without revisions that are not the watch's. */
struct past_view {
    const struct watch *watch;
    unsigned past;
};

static const struct judge_rev *next_of_past(const void *user, int64_t from, int64_t to)
{
    const struct past_view *view = user;
    const struct watch *watch = view->watch;
    const struct history_revision *revision =
        history_next(watch->stream->checker->history, view->past, from, to, watch->puts, watch->deletes);
    return revision != NULL ? revision->digest : NULL;
}

bool checker_watch_picks(const struct judge_event *event, unsigned pin)
{
    const struct judge_value *value = &event->kv.value, *prev = &event->prev.value;
    return (event->op == BELFRY_PUT && dialect_value_pinned(pin, belfry_bytes_of(value->head, value->len))) ||
           (event->has_prev && dialect_value_pinned(pin, belfry_bytes_of(prev->head, prev->len)));
}

bool checker_watch_picks_key(const struct judge_event *event, unsigned pin)
{
    return dialect_key_pinned(pin, event->key);
}

static_assert(DIALECT_MARK <= JUDGE_HEAD, "a digest must show what is pinned");

/* The facts of a watch before a message of revision `rev`. A watch that has resumed is sent all of its start again, or
 * nothing of it. Nothing is right if its client can have missed no event; all is right if the revision has several
 * events, because then the server cannot know. */
static struct judge_watch facts_in(const struct watch *watch, unsigned past, int64_t rev)
{
    const struct history *history = watch->stream->checker->history;
    const struct history_revision *start = watch->resumed ? history_at(history, past, watch->facts.start) : NULL;
    struct judge_watch facts = watch->facts;
    if (start == NULL)
        return facts;
    bool may_skip = watch->asked.has_all || judge_count(&facts, start->digest) < 2;
    bool may_repeat = start->n > 1;
    if (may_skip && (rev > start->rev || !may_repeat)) {
        facts.next = start->rev + 1;
        facts.whole = true;
    }
    return facts;
}

static bool no_past_agrees(struct watch *watch, unsigned past, const struct opinion *opinion)
{
    const struct history *history = watch->stream->checker->history;
    if (watch->pasts >> history_now(history) & 1)
        return checker_watch_wrong(watch, "%s (head %lld)", opinion->text, (long long)history_head(history, past));
    return checker_watch_wrong(
        watch, "%s; it belongs to past %u, which ended, and only canceled with a compact_revision may follow",
        opinion->text, past);
}

/* ---- created ---- */

/* created shows `rev`. A watch from 0 is not of a past that is shorter. A watch that named its start has learned
 * nothing yet. */
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

static int64_t rev_of(struct belfry_bytes event)
{
    int64_t rev = 0;
    return belfry_scan_event_rev(event, &rev) == BELFRY_OK ? rev : 0;
}

static int64_t max(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* At or below this revision a previous value may be missing. A stream of lines ends instead. */
/* Up to where a tier may have lost previous values: by a compaction of this past, by one of an earlier past as far as
 * they are the same, or by a listing. */
static int64_t prev_lost_upto(const struct checker *checker, unsigned past)
{
    const struct history *history = checker->history;
    int64_t rev = max(history_compacted(history, past), checker->highest_listing), shared = INT64_MAX;
    while (past > 0) {
        int64_t fork = history_fork_rev(history, past);
        past = history_parent(history, past);
        shared = fork < shared ? fork : shared;
        int64_t compacted = history_compacted(history, past);
        rev = max(rev, compacted < shared ? compacted : shared);
    }
    return rev;
}

static int64_t prev_floor(const struct watch *watch, unsigned past)
{
    return watch->facts.piecewise ? 0 : prev_lost_upto(watch->stream->checker, past);
}

int64_t checker_watch_next(const struct watch *watch)
{
    const struct judge_watch *facts = &watch->facts;
    for (unsigned past = 0; past < watch->seen; past++) {
        struct past_view view = {watch, past};
        bool may_be = watch->pasts >> past & 1;
        if (may_be && judge_first(facts, &(struct judge_reference){next_of_past, &view}, facts->next) != NULL)
            return facts->next;
    }
    return facts->sent == 0 ? facts->next : facts->next + 1;
}

/* Are these, byte for byte, events of the past in their order? The judge has compared what they say. */
static bool bytes_agree(const struct history *history, unsigned past, const struct belfry_bytes *events, size_t n)
{
    const struct history_revision *revision = NULL;
    size_t at = 0;
    for (size_t i = 0; i < n; i++) {
        if (revision == NULL || revision->rev != rev_of(events[i])) {
            revision = history_at(history, past, rev_of(events[i]));
            at = 0;
        }
        while (at < revision->n && !belfry_bytes_equal(events[i], revision->events[at].raw) &&
               !belfry_bytes_equal(events[i], revision->events[at].raw_prev))
            at++;
        if (at++ == revision->n)
            return false;
    }
    return true;
}

/* A response: its events, and their digests by revision. */
struct delivery {
    const struct belfry_bytes *events;
    size_t n;
    int64_t header_rev;
    struct judge_rev **revs; /* owned */
    size_t n_revs;
};

/* Judges a delivery as if the watch belonged to this past. */
static void judge_in(const struct watch *watch, unsigned past, const struct delivery *delivery, struct opinion *out)
{
    const struct history *history = watch->stream->checker->history;
    struct past_view view = {watch, past};
    struct judge_reference reference = {next_of_past, &view};
    opinion_begin(out, facts_in(watch, past, delivery->revs[0]->rev));
    for (size_t i = 0; i < delivery->n_revs && !out->wrong; i++) {
        if (judge_arrival(&out->facts, delivery->revs[i], delivery->header_rev))
            judge_revision(&out->facts, &reference, delivery->revs[i], &out->found);
    }
    if (out->wrong)
        return;
    const struct judge_event *absent = out->found.prev_absent;
    int64_t last = out->facts.last_rev, highest = watch->facts.piecewise ? last : history_head(history, past);
    if (absent != NULL && absent->kv.mod_rev > prev_floor(watch, past))
        opinion_wrong(out, "revision %lld lacks its prev_kv, which nothing has compacted",
                      (long long)absent->kv.mod_rev);
    if (!watch->stream->translated && !bytes_agree(history, past, delivery->events, delivery->n))
        opinion_wrong(out, "revisions up to %lld: the bytes differ", (long long)last);
    if (delivery->header_rev > highest)
        opinion_wrong(
            out, "revision %lld came under header.revision %lld: above the head, or of a line another than its own",
            (long long)last, (long long)delivery->header_rev);
}

static void note_events(struct watch *watch, size_t n, const struct judge_watch *facts, const struct judge_found *found)
{
    struct checker_counts *counts = &watch->stream->checker->counts;
    watch->soft = false;
    watch->resumed = false;
    watch->facts = *facts;
    watch->asked.events += (int64_t)n;
    counts->responses++;
    counts->events += n;
    counts->prev_missing += found->n_prev_absent;
    counts->with_prev += watch->asked.prev_kv ? n - found->n_prev_absent : 0;
}

/* Whether a past agrees. */
static bool judge_delivery(struct watch *watch, const struct delivery *delivery)
{
    static struct opinion opinion, nearest; /* large; one delivery at a time */
    struct judge_watch agreed = {0};
    struct judge_found found = {0};
    unsigned nearest_past = 0;
    uint32_t pasts = 0;
    nearest.wrong = false;
    consider_forks(watch);
    if (watch->soft && delivery->revs[0]->rev < watch->facts.next)
        watch->facts.next = delivery->revs[0]->rev;
    for (unsigned past = 0; past < watch->seen; past++) {
        if (!(watch->pasts >> past & 1))
            continue;
        judge_in(watch, past, delivery, &opinion);
        if (!opinion.wrong) {
            pasts |= (uint32_t)1 << past;
            agreed = opinion.facts;
            found = opinion.found;
        } else if (!nearest.wrong || opinion.found.n_events >= nearest.found.n_events) {
            nearest = opinion;
            nearest_past = past;
        }
    }
    if (pasts == 0)
        return no_past_agrees(watch, nearest_past, &nearest);
    settle(watch, pasts, max(agreed.last_rev, delivery->header_rev));
    note_events(watch, delivery->n, &agreed, &found);
    return true;
}

bool checker_watch_events(struct watch *watch, const struct belfry_wire_watch *head, struct belfry_bytes message)
{
    struct checker *checker = watch->stream->checker;
    struct delivery delivery = {.n = collect_events(checker, message), .header_rev = head->header.revision};
    bool ok = true;
    delivery.events = checker->events;
    delivery.revs = checker_alloc(delivery.n * sizeof(struct judge_rev *));
    for (size_t i = 0, n; i < delivery.n && ok; i += n) {
        int64_t rev = rev_of(delivery.events[i]);
        for (n = 1; i + n < delivery.n && rev_of(delivery.events[i + n]) == rev;)
            n++;
        delivery.revs[delivery.n_revs] = history_digest(rev, &delivery.events[i], n);
        ok = delivery.revs[delivery.n_revs++] != NULL || checker_watch_wrong(watch, "was sent what is not an event");
    }
    ok = ok && judge_delivery(watch, &delivery);
    for (size_t i = 0; i < delivery.n_revs; i++)
        free(delivery.revs[i]);
    free(delivery.revs);
    return ok;
}

/* ---- progress ---- */

bool checker_watch_progress(struct watch *watch, int64_t rev)
{
    const struct history *history = watch->stream->checker->history;
    static struct opinion opinion, worst;
    struct judge_watch agreed = {0};
    unsigned worst_past = 0;
    uint32_t pasts = 0;
    consider_forks(watch);
    if (watch->asked.start > 0 && rev < watch->asked.start - !watch->asked.resumed)
        return checker_watch_wrong(watch, "progress at %lld is below the start", (long long)rev);
    for (unsigned past = 0; past < watch->seen; past++) {
        struct past_view view = {watch, past};
        if (!(watch->pasts >> past & 1))
            continue;
        opinion_begin(&opinion, facts_in(watch, past, rev + 1));
        if (rev > history_head(history, past))
            opinion_wrong(&opinion, "progress at %lld, which has not been written", (long long)rev);
        else if (judge_progress_arrival(&opinion.facts, rev, rev))
            judge_progress(&opinion.facts, &(struct judge_reference){next_of_past, &view}, rev);
        if (!opinion.wrong) {
            pasts |= (uint32_t)1 << past;
            agreed = opinion.facts;
        } else {
            worst = opinion;
            worst_past = past;
        }
    }
    if (pasts == 0)
        return no_past_agrees(watch, worst_past, &worst);
    settle(watch, pasts, rev);
    watch->facts = agreed;
    watch->soft = false;
    watch->resumed = false;
    return true;
}

/* ---- compacted ---- */

/* A tier that is behind tells the revision after its head instead of the compaction, or of the listing after a rewrite.
 */
static bool was_capped(const struct checker *checker, int64_t rev)
{
    bool above = false;
    for (unsigned past = 0; past < history_pasts(checker->history); past++)
        above = above || history_compacted(checker->history, past) >= rev;
    for (size_t i = 0; i < checker->rewrites.n; i++)
        above = above || checker->rewrites.all[i] >= rev;
    return above && checker_revs_have(&checker->capped, rev);
}

static bool was_compacted(const struct checker *checker, int64_t rev)
{
    for (unsigned past = 0; past < history_pasts(checker->history); past++) {
        if (history_was_compacted(checker->history, past, rev))
            return true;
    }
    return was_capped(checker, rev);
}

/* Has the revision an event in the watch's range whose previous value may be lost? */
static bool may_lack_prev(const struct watch *watch, unsigned past, int64_t rev)
{
    const struct checker *checker = watch->stream->checker;
    const struct history_revision *revision = history_at(checker->history, past, rev);
    if (revision == NULL || rev > prev_lost_upto(checker, past))
        return false;
    for (size_t i = 0; i < revision->n; i++) {
        const struct history_event *event = &revision->events[i];
        if (event->prev != NULL && ((event->is_delete ? watch->deletes : watch->puts) >> event->key & 1))
            return true;
    }
    return false;
}

static bool lacks_prev(const struct watch *watch, int64_t rev)
{
    if (!watch->facts.piecewise || (!watch->asked.prev_kv && watch->asked.pin == 0) || rev < watch->facts.next)
        return false; /* the rest of revision `next` counts, too: whether it is wanted cannot be known either */
    for (unsigned past = 0; past < watch->seen; past++) {
        if ((watch->pasts >> past & 1) && may_lack_prev(watch, past, rev))
            return true;
    }
    return false;
}

/* Has it been sent a part of a revision? It may have all that it wants of it, but a server that sends event by event
 * and has lost the rest cannot know. */
static bool is_inside(const struct watch *watch)
{
    for (unsigned past = 0; past < watch->seen; past++) {
        const struct history_revision *revision =
            watch->pasts >> past & 1 ? history_at(watch->stream->checker->history, past, watch->facts.next) : NULL;
        if (revision != NULL && watch->facts.sent > 0 && judge_place(&watch->facts, revision->digest) < revision->n)
            return true;
    }
    return false;
}

bool checker_watch_compacted(struct watch *watch, int64_t rev)
{
    struct checker *checker = watch->stream->checker;
    consider_forks(watch);
    bool compacted = was_compacted(checker, rev), rewritten = checker_revs_have(&checker->rewrites, rev);
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
    int64_t head = history_head(history, now);
    struct past_view view = {watch, now};
    char text[JUDGE_TEXT];
    consider_forks(watch);
    watch->facts = facts_in(watch, now, head + 1);
    const struct judge_event *due = judge_first(&watch->facts, &(struct judge_reference){next_of_past, &view}, head);
    if (!(watch->pasts >> now & 1)) {
        checker_watch_wrong(watch, "was left in a past that ended (revision %lld of it was told), and never canceled",
                            (long long)watch->heard);
    } else if (due != NULL) {
        judge_event_text(due, text);
        checker_watch_wrong(watch, "ended behind: the last was revision %lld (head %lld); expected: %s",
                            (long long)watch->facts.last_rev, (long long)head, text);
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
