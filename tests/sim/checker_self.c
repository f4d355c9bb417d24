/* tests/sim/checker_self.c: does the checker find what is wrong, and only that?
 *
 * Each case is a short run against a fixed history, with deliveries made by hand, of which the last may be wrong. A
 * wrong one must be found for the reason that the case names, a part of the sentence. A case without a reason must
 * pass.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "sim/checker.h"
#include "sim/dialect.h"
#include "wire/write.h"

#define REVS       120
#define EVENTS_MAX 1024

struct bench {
    struct belfry_rng rng;
    struct history *history;
    struct checker *checker;
    struct checker_stream *stream;
};

/* Events that make up a response. */
struct events {
    struct belfry_bytes at[EVENTS_MAX];
    const struct history_event *is[EVENTS_MAX];
    size_t n;
};

/* ---- saying things ---- */

static void ask(struct bench *bench, struct belfry_wire_create create)
{
    struct belfry_buf buf;
    belfry_buf_init(&buf);
    if (belfry_write_watch_create(&buf, &create) != BELFRY_OK)
        abort();
    checker_stream_sent(bench->stream, belfry_buf_bytes(&buf));
    belfry_buf_fini(&buf);
}

static void ask_cancel(struct bench *bench, int64_t id)
{
    struct belfry_buf buf;
    belfry_buf_init(&buf);
    if (belfry_write_watch_cancel(&buf, id) != BELFRY_OK)
        abort();
    checker_stream_sent(bench->stream, belfry_buf_bytes(&buf));
    belfry_buf_fini(&buf);
}

static void ask_progress(struct bench *bench)
{
    struct belfry_buf buf;
    belfry_buf_init(&buf);
    if (belfry_write_watch_progress(&buf) != BELFRY_OK)
        abort();
    checker_stream_sent(bench->stream, belfry_buf_bytes(&buf));
    belfry_buf_fini(&buf);
}

static void say(struct bench *bench, struct belfry_wire_watch head, const struct belfry_bytes *events, size_t n)
{
    head.header.cluster_id = HISTORY_CLUSTER_ID;
    size_t size = belfry_write_watch_head_size(&head);
    for (size_t i = 0; i < n; i++)
        size += belfry_write_event_field_size(events[i].len) + events[i].len;
    uint8_t *message = malloc(size);
    if (message == NULL)
        abort();
    uint8_t *at = belfry_write_watch_head(&head, message);
    for (size_t i = 0; i < n; i++) {
        at = belfry_write_event_field(events[i].len, at);
        memcpy(at, events[i].data, events[i].len);
        at += events[i].len;
    }
    checker_stream_received(bench->stream, belfry_bytes_of(message, size));
    free(message);
}

static void say_created(struct bench *bench, int64_t id, int64_t rev)
{
    say(bench, (struct belfry_wire_watch){.watch_id = id, .created = true, .header.revision = rev}, NULL, 0);
}

static void say_progress(struct bench *bench, int64_t id, int64_t rev)
{
    say(bench, (struct belfry_wire_watch){.watch_id = id, .header.revision = rev}, NULL, 0);
}

static void say_canceled(struct bench *bench, int64_t id, int64_t compact_rev)
{
    say(bench, (struct belfry_wire_watch){.watch_id = id, .canceled = true, .compact_revision = compact_rev}, NULL, 0);
}

static void say_events(struct bench *bench, const struct events *events, size_t from, size_t to, bool fragment)
{
    int64_t rev = events->is[events->n - 1]->rev;
    say(bench, (struct belfry_wire_watch){.header.revision = rev, .fragment = fragment}, events->at + from, to - from);
}

static void say_all(struct bench *bench, const struct events *events)
{
    say_events(bench, events, 0, events->n, false);
}

/* ---- what is said ---- */

/* Everything in [from, to] of a past, with previous values. */
static struct events *take(struct bench *bench, unsigned past, int64_t from, int64_t to)
{
    static struct events events; /* one at a time */
    events.n = 0;
    for (int64_t rev = from; rev <= to; rev++) {
        const struct history_revision *revision = history_at(bench->history, past, rev);
        for (size_t i = 0; i < revision->n && events.n < EVENTS_MAX; i++) {
            events.is[events.n] = &revision->events[i];
            events.at[events.n++] = revision->events[i].raw_prev;
        }
    }
    return &events;
}

static void without_prev(struct events *events)
{
    for (size_t i = 0; i < events->n; i++)
        events->at[i] = events->is[i]->raw;
}

static void drop(struct events *events, size_t i)
{
    memmove(&events->at[i], &events->at[i + 1], (events->n - i - 1) * sizeof(events->at[0]));
    memmove(&events->is[i], &events->is[i + 1], (events->n - i - 1) * sizeof(events->is[0]));
    events->n--;
}

static void swap(struct events *events, size_t i, size_t j)
{
    struct belfry_bytes bytes = events->at[i];
    events->at[i] = events->at[j];
    events->at[j] = bytes;
}

/* The first revision from `from` on with at least n events. */
static int64_t find_txn(struct bench *bench, int64_t from, size_t n)
{
    for (int64_t rev = from;; rev++) {
        const struct history_revision *revision = history_at(bench->history, history_now(bench->history), rev);
        if (revision == NULL)
            abort(); /* the seed has one */
        if (revision->n >= n)
            return rev;
    }
}

/* The first revision from `from` on with one event. */
static int64_t find_single(struct bench *bench, int64_t from)
{
    while (history_at(bench->history, history_now(bench->history), from)->n != 1)
        from++;
    return from;
}

/* The first event from `from` on that has a previous value, of this type. */
static const struct history_event *find_replaced(struct bench *bench, int64_t from, bool is_delete)
{
    for (int64_t rev = from;; rev++) {
        const struct history_revision *revision = history_at(bench->history, history_now(bench->history), rev);
        if (revision == NULL)
            abort();
        for (size_t i = 0; i < revision->n; i++) {
            if (revision->events[i].prev != NULL && revision->events[i].is_delete == is_delete)
                return &revision->events[i];
        }
    }
}

static int64_t head(struct bench *bench)
{
    return history_head(bench->history, history_now(bench->history));
}

static struct belfry_wire_create everything(int64_t start)
{
    return (struct belfry_wire_create){.key = belfry_bytes_of("\0", 1),
                                       .range_end = belfry_bytes_of("\0", 1),
                                       .start_revision = start,
                                       .prev_kv = true,
                                       .progress_notify = true,
                                       .fragment = true};
}

/* A watch of everything from 2, with id 0, that has been sent [2, rev]. */
static void watch_until(struct bench *bench, int64_t rev)
{
    ask(bench, everything(2));
    say_created(bench, 0, rev);
    if (rev > 1)
        say_all(bench, take(bench, 0, 2, rev));
}

static void rewrite_at(struct bench *bench, int64_t rev)
{
    history_fork(bench->history, rev);
    for (int i = 0; i < 40; i++)
        history_write(bench->history, &bench->rng);
}

/* ---- lines ---- */

/* A stream of lines instead, with a watch of everything. */
static void watch_lines(struct bench *bench, int64_t start, unsigned pin)
{
    struct belfry_wire_create create = everything(start);
    create.watch_id = pin;
    create.fragment = false;
    checker_stream_close(bench->stream);
    bench->stream = checker_stream_open(bench->checker, "lines", CHECKER_LINES);
    ask(bench, create);
}

/* The same, resumed from `rev`. */
static void resume_lines(struct bench *bench, int64_t rev, bool has_all)
{
    struct belfry_wire_create create = everything(rev);
    checker_stream_close(bench->stream);
    bench->stream = checker_stream_open(bench->checker, "lines", CHECKER_LINES);
    checker_stream_resumes(bench->stream, has_all);
    ask(bench, create);
}

static void say_line(struct bench *bench, const struct events *events, size_t i)
{
    say(bench, (struct belfry_wire_watch){.header.revision = events->is[i]->rev}, &events->at[i], 1);
}

static void say_lines(struct bench *bench, const struct events *events)
{
    for (size_t i = 0; i < events->n; i++)
        say_line(bench, events, i);
}

static bool has_pin(const struct history_event *event, unsigned pin)
{
    return (!event->is_delete && dialect_pinned(pin, event->kv)) ||
           (event->prev != NULL && dialect_pinned(pin, event->prev->kv));
}

static struct events *take_pinned(struct bench *bench, int64_t from, int64_t to, unsigned pin)
{
    struct events *events = take(bench, 0, from, to);
    for (size_t i = events->n; i-- > 0;) {
        if (!has_pin(events->is[i], pin))
            drop(events, i);
    }
    return events;
}

static void right_line_by_line(struct bench *bench)
{
    watch_lines(bench, 2, 0);
    say_lines(bench, take(bench, 0, 2, head(bench)));
    say_progress(bench, 0, head(bench));
}

static void right_lines_of_a_pin(struct bench *bench)
{
    watch_lines(bench, 2, 2);
    say_lines(bench, take_pinned(bench, 2, head(bench), 2));
    say_progress(bench, 0, head(bench));
}

static void right_lines_lost_for_a_previous_value(struct bench *bench)
{
    int64_t rev = find_replaced(bench, 22, false)->rev;
    history_compact(bench->history, rev);
    watch_lines(bench, rev, 1);
    say_canceled(bench, 0, rev + 1);
    checker_stream_close(bench->stream);
    bench->stream = NULL;
}

/* The value is of a past that began after the watch was asked for, and of which it was sent nothing. */
static void right_lines_lost_for_a_previous_value_of_a_new_past(struct bench *bench)
{
    watch_lines(bench, 25, 1);
    rewrite_at(bench, 22);
    int64_t rev = find_replaced(bench, 26, false)->rev;
    history_compact(bench->history, rev);
    say_canceled(bench, 0, rev + 1);
    checker_stream_close(bench->stream);
    bench->stream = NULL;
}

/* Lines of one key: of a transaction the watch is sent what it wants, the first or the last event, and then told that
 * the rest is compacted. */
static void lose_inside(struct bench *bench, bool last)
{
    int64_t rev = find_txn(bench, 22, 3);
    struct events *events = take(bench, 0, rev, rev);
    size_t i = last ? events->n - 1 : 0;
    struct belfry_wire_create create = everything(rev);
    create.key = history_key(bench->history, events->is[i]->key);
    create.range_end = belfry_bytes_of(NULL, 0);
    create.prev_kv = create.fragment = false;
    events->at[i] = events->is[i]->raw;
    checker_stream_close(bench->stream);
    bench->stream = checker_stream_open(bench->checker, "lines", CHECKER_LINES);
    ask(bench, create);
    say_line(bench, events, i);
    history_compact(bench->history, rev + 1);
    say_canceled(bench, 0, rev + 1);
    if (last)
        return;
    checker_stream_close(bench->stream);
    bench->stream = NULL;
}

static void right_lines_lost_inside_a_revision(struct bench *bench)
{
    lose_inside(bench, false);
}

static void wrong_lines_lost_at_the_end_of_a_revision(struct bench *bench)
{
    lose_inside(bench, true);
}

static void right_lines_resumed(struct bench *bench)
{
    int64_t txn = find_txn(bench, 22, 3), one = find_single(bench, 22);
    for (int has_all = 0; has_all <= 1; has_all++) {
        resume_lines(bench, txn, has_all);
        say_lines(bench, take(bench, 0, txn, head(bench)));
        resume_lines(bench, one, has_all);
        say_lines(bench, take(bench, 0, one + 1, head(bench)));
        resume_lines(bench, one, has_all);
        say_progress(bench, 0, one);
    }
    resume_lines(bench, txn, true);
    say_lines(bench, take(bench, 0, txn + 1, head(bench)));
    resume_lines(bench, head(bench), true); /* and nothing comes */
}

static void wrong_lines_resumed_behind(struct bench *bench)
{
    int64_t rev = find_txn(bench, 22, 3);
    resume_lines(bench, rev, false);
    say_lines(bench, take(bench, 0, rev + 1, rev + 1));
}

static void wrong_lines_resumed_and_never_given_the_rest(struct bench *bench)
{
    int64_t rev = find_txn(bench, 22, 3);
    resume_lines(bench, rev, false);
    say_progress(bench, 0, rev);
}

static void wrong_lines_resumed_in_the_middle(struct bench *bench)
{
    int64_t rev = find_txn(bench, 22, 3);
    struct events *events = take(bench, 0, rev, rev);
    resume_lines(bench, rev, false);
    drop(events, 0);
    say_lines(bench, events);
}

static void wrong_only_line_again_when_resumed(struct bench *bench)
{
    int64_t rev = find_single(bench, 22);
    resume_lines(bench, rev, true);
    say_lines(bench, take(bench, 0, rev, rev));
}

static void wrong_progress_below_where_it_resumed(struct bench *bench)
{
    int64_t rev = find_txn(bench, 22, 3);
    resume_lines(bench, rev, true);
    say_progress(bench, 0, rev - 1);
}

static void wrong_line_shown_before_its_revision(struct bench *bench)
{
    int64_t rev = find_txn(bench, 22, 3);
    watch_lines(bench, rev, 0);
    struct events *events = take(bench, 0, rev, rev);
    say(bench, (struct belfry_wire_watch){.header.revision = rev - 1}, &events->at[0], 1);
}

static void wrong_line_shown_behind_its_revision(struct bench *bench)
{
    int64_t rev = find_txn(bench, 22, 3);
    watch_lines(bench, rev, 0);
    struct events *events = take(bench, 0, rev, rev);
    say(bench, (struct belfry_wire_watch){.header.revision = rev + 1}, &events->at[0], 1);
}

static void wrong_line_dropped(struct bench *bench)
{
    int64_t rev = find_txn(bench, 22, 3);
    watch_lines(bench, rev, 0);
    struct events *events = take(bench, 0, rev, rev);
    drop(events, 1);
    say_lines(bench, events);
}

static void wrong_line_again(struct bench *bench)
{
    int64_t rev = find_txn(bench, 22, 3);
    watch_lines(bench, rev, 0);
    struct events *events = take(bench, 0, rev, rev);
    say_line(bench, events, 0);
    say_line(bench, events, 0);
}

static void wrong_line_without_the_pin(struct bench *bench)
{
    struct events *events = take(bench, 0, 22, head(bench));
    while (has_pin(events->is[0], 2))
        drop(events, 0);
    watch_lines(bench, events->is[0]->rev, 2);
    say_line(bench, events, 0);
}

static void wrong_line_of_what_was_before_missing(struct bench *bench)
{
    watch_lines(bench, 2, 2);
    struct events *events = take_pinned(bench, 2, head(bench), 2);
    for (size_t i = events->n; i-- > 0;) {
        if (events->is[i]->is_delete || !dialect_pinned(2, events->is[i]->kv))
            drop(events, i);
    }
    say_lines(bench, events);
}

static void wrong_progress_between_lines(struct bench *bench)
{
    int64_t rev = find_txn(bench, 22, 3);
    watch_lines(bench, rev, 0);
    say_line(bench, take(bench, 0, rev, rev), 0);
    say_progress(bench, 0, rev);
}

static void wrong_lines_lost_for_nothing(struct bench *bench)
{
    int64_t rev = find_replaced(bench, 22, false)->rev;
    watch_lines(bench, rev, 1);
    say_canceled(bench, 0, rev + 1);
}

static void wrong_lines_go_on_behind_the_last(struct bench *bench)
{
    history_compact(bench->history, 40);
    watch_lines(bench, 20, 0);
    say_canceled(bench, 0, 40);
}

/* ---- right ---- */

static void right_revision_by_revision(struct bench *bench)
{
    watch_until(bench, 1);
    for (int64_t rev = 2; rev <= head(bench); rev++)
        say_all(bench, take(bench, 0, rev, rev));
    say_progress(bench, 0, head(bench));
}

static void right_in_fragments(struct bench *bench)
{
    watch_until(bench, 1);
    struct events *events = take(bench, 0, 2, head(bench));
    for (size_t i = 0; i < events->n; i++)
        say_events(bench, events, i, i + 1, i + 1 < events->n);
}

static void right_over_a_fork(struct bench *bench)
{
    watch_until(bench, 30);
    rewrite_at(bench, 30);
    say_all(bench, take(bench, 1, 31, head(bench)));
}

static void right_old_past_then_canceled(struct bench *bench)
{
    watch_until(bench, 60);
    rewrite_at(bench, 30);
    say_all(bench, take(bench, 0, 61, 62)); /* was on its way */
    struct evlog_cut cut = {.past = 2, .rev = 40, .why = EVLOG_CUT_REWRITTEN, .compact_rev = 40, .rewritten = 2};
    checker_listed(bench->checker, &cut, 1);
    say_canceled(bench, 0, 40);
}

/* A rewrite, and then a compaction over the tier's head, at 60: the tier listed at 40 and at 70. */
static void listed_twice(struct bench *bench, uint64_t oldest_past)
{
    struct evlog_cut rewritten = {.past = 2, .rev = 40, .why = EVLOG_CUT_REWRITTEN, .compact_rev = 40, .rewritten = 2};
    struct evlog_cut compacted = {.past = 3, .rev = 70, .why = EVLOG_CUT_COMPACTED, .compact_rev = 60, .rewritten = 2};
    watch_until(bench, 60);
    rewrite_at(bench, 30);
    while (head(bench) < 70)
        history_write(bench->history, &bench->rng);
    history_compact(bench->history, 60);
    checker_listed(bench->checker, &rewritten, 1);
    checker_listed(bench->checker, &compacted, oldest_past);
    say_canceled(bench, 0, 70);
}

static void right_worker_slept_through_a_rewrite(struct bench *bench)
{
    listed_twice(bench, 1);
}

static void wrong_worker_was_awake_at_the_rewrite(struct bench *bench)
{
    listed_twice(bench, 2);
}

/* The tier's head is 30, and it tells no more. */
static void capped_by_a_compaction_at(struct bench *bench, int64_t rev)
{
    watch_until(bench, 20);
    history_compact(bench->history, rev);
    checker_capped(bench->checker, 31);
    say_canceled(bench, 0, 31);
}

static void right_compaction_capped(struct bench *bench)
{
    capped_by_a_compaction_at(bench, 40);
}

static void wrong_compaction_capped_from_below(struct bench *bench)
{
    capped_by_a_compaction_at(bench, 25);
}

static void right_compacted(struct bench *bench)
{
    watch_until(bench, 20);
    history_compact(bench->history, 40);
    say_canceled(bench, 0, 40);
    ask_cancel(bench, 0);
    say_canceled(bench, 0, 0);
}

static void right_prev_compacted(struct bench *bench)
{
    history_compact(bench->history, 40);
    ask(bench, everything(40));
    say_created(bench, 0, 40);
    struct events *events = take(bench, 0, 40, 40);
    without_prev(events);
    say_all(bench, events);
    say_all(bench, take(bench, 0, 41, head(bench)));
}

/* A tier received a revision without its previous value, because of a compaction of the past that was then; and the
 * past that follows has that revision, too, and no compaction. */
static void right_prev_compacted_before_a_fork(struct bench *bench)
{
    watch_until(bench, 29);
    history_compact(bench->history, 40);
    rewrite_at(bench, 32);
    struct events *events = take(bench, 1, 30, 32);
    without_prev(events);
    say_all(bench, events);
    say_all(bench, take(bench, 1, 33, head(bench)));
}

/* The same, of a revision that only the new past has. */
static void wrong_prev_missing_behind_a_fork(struct bench *bench)
{
    watch_until(bench, 32);
    history_compact(bench->history, 60);
    rewrite_at(bench, 32);
    struct events *events = take(bench, 1, 33, head(bench));
    without_prev(events);
    say_all(bench, events);
}

static void right_refusals(struct bench *bench)
{
    struct belfry_wire_create create = everything(0);
    create.key = belfry_bytes_str("b");
    create.range_end = belfry_bytes_str("a");
    ask(bench, create);
    say(bench,
        (struct belfry_wire_watch){.watch_id = -1,
                                   .created = true,
                                   .canceled = true,
                                   .cancel_reason = belfry_bytes_str("mvcc: watcher range is empty")},
        NULL, 0);
    ask(bench, everything(0));
    say_created(bench, 0, head(bench));
}

#define DENIED "rpc error: code = PermissionDenied desc = etcdserver: permission denied"

static void refuse_for_rights(struct bench *bench)
{
    ask(bench, everything(0));
    say(bench,
        (struct belfry_wire_watch){
            .watch_id = -1, .created = true, .canceled = true, .cancel_reason = belfry_bytes_str(DENIED)},
        NULL, 0);
}

static void expel(struct bench *bench)
{
    watch_until(bench, 20);
    say(bench, (struct belfry_wire_watch){.canceled = true, .cancel_reason = belfry_bytes_str(DENIED)}, NULL, 0);
}

static void right_refused_for_want_of_a_right(struct bench *bench)
{
    checker_stream_is_guarded(bench->stream);
    refuse_for_rights(bench);
}

static void right_canceled_for_want_of_a_right(struct bench *bench)
{
    checker_stream_is_guarded(bench->stream);
    expel(bench);
}

/* ---- wrong ---- */

static void wrong_refused_where_no_right_is_needed(struct bench *bench)
{
    refuse_for_rights(bench);
}

static void wrong_canceled_where_no_right_is_needed(struct bench *bench)
{
    expel(bench);
}

static void wrong_event_after_a_right_was_lost(struct bench *bench)
{
    checker_stream_is_guarded(bench->stream);
    expel(bench);
    say_all(bench, take(bench, 0, 21, 22));
}

static void wrong_revision_dropped(struct bench *bench)
{
    watch_until(bench, 20);
    say_all(bench, take(bench, 0, 22, 24));
}

static void wrong_event_dropped(struct bench *bench)
{
    int64_t rev = find_txn(bench, 22, 3);
    watch_until(bench, rev - 1);
    struct events *events = take(bench, 0, rev, rev);
    drop(events, 1);
    say_all(bench, events);
}

static void wrong_first_dropped(struct bench *bench)
{
    watch_until(bench, 1);
    say_all(bench, take(bench, 0, 3, 9));
}

static void wrong_event_doubled(struct bench *bench)
{
    int64_t rev = find_txn(bench, 22, 3);
    watch_until(bench, rev - 1);
    struct events *events = take(bench, 0, rev, rev);
    events->at[1] = events->at[0];
    say_all(bench, events);
}

static void wrong_response_doubled(struct bench *bench)
{
    watch_until(bench, 20);
    say_all(bench, take(bench, 0, 20, 20));
}

static void wrong_swapped_in_revision(struct bench *bench)
{
    int64_t rev = find_txn(bench, 22, 3);
    watch_until(bench, rev - 1);
    struct events *events = take(bench, 0, rev, rev);
    swap(events, 0, 1);
    say_all(bench, events);
}

static void wrong_swapped_revisions(struct bench *bench)
{
    watch_until(bench, 20);
    say_all(bench, take(bench, 0, 22, 22));
    say_all(bench, take(bench, 0, 21, 21));
}

static void wrong_back_in_time(struct bench *bench)
{
    watch_until(bench, 20);
    struct events *events = take(bench, 0, 21, 22);
    events->at[events->n] = history_at(bench->history, 0, 21)->events[0].raw_prev;
    events->is[events->n] = events->is[events->n - 1];
    events->n++;
    say_all(bench, events);
}

static void wrong_split(struct bench *bench)
{
    int64_t rev = find_txn(bench, 22, 3);
    watch_until(bench, rev - 1);
    struct events *events = take(bench, 0, rev, rev);
    say_events(bench, events, 0, 2, false);
    say_events(bench, events, 2, events->n, false);
}

static void wrong_progress_beyond(struct bench *bench)
{
    watch_until(bench, 20);
    say_progress(bench, 0, 21);
}

static void wrong_progress_back(struct bench *bench)
{
    watch_until(bench, 20);
    say_progress(bench, 0, 19);
}

static void wrong_progress_unwritten(struct bench *bench)
{
    watch_until(bench, head(bench));
    say_progress(bench, 0, head(bench) + 1);
}

static void wrong_progress_unasked(struct bench *bench)
{
    struct belfry_wire_create create = everything(0);
    create.progress_notify = false;
    ask(bench, create);
    say_created(bench, 0, 20);
    say_progress(bench, 0, 20);
}

static void wrong_progress_all_unasked(struct bench *bench)
{
    watch_until(bench, 20);
    say_progress(bench, -1, 20);
}

static void wrong_progress_all_too_early(struct bench *bench)
{
    watch_until(bench, 20);
    ask(bench, everything(5));
    say_created(bench, 1, 20);
    ask_progress(bench);
    say_progress(bench, -1, 20);
}

static void wrong_progress_before_start(struct bench *bench)
{
    ask(bench, everything(100));
    say_created(bench, 0, 20);
    say_progress(bench, 0, 20);
}

static void wrong_prev(struct bench *bench)
{
    const struct history_event *event = find_replaced(bench, 22, false);
    static uint8_t bytes[64 * 1024];
    watch_until(bench, event->rev - 1);
    struct belfry_wire_event wire;
    if (belfry_scan_event(event->raw_prev, &wire) != BELFRY_OK)
        abort();
    wire.prev = wire.kv; /* what holds now, not what held before */
    struct events *events = take(bench, 0, event->rev, event->rev);
    events->at[event->sub] = belfry_bytes_of(bytes, belfry_write_event_size(&wire));
    belfry_write_event(&wire, bytes);
    say_all(bench, events);
}

static void wrong_prev_missing(struct bench *bench)
{
    const struct history_event *event = find_replaced(bench, 22, true);
    watch_until(bench, event->rev - 1);
    struct events *events = take(bench, 0, event->rev, event->rev);
    without_prev(events);
    say_all(bench, events);
}

static void wrong_prev_unasked(struct bench *bench)
{
    const struct history_event *event = find_replaced(bench, 22, true);
    struct belfry_wire_create create = everything(event->rev);
    create.prev_kv = false;
    ask(bench, create);
    say_created(bench, 0, 20);
    say_all(bench, take(bench, 0, event->rev, event->rev));
}

/* A put that ends with its value: the last byte of the Event, but for prev_kv. */
static bool ends_with_value(const struct history_event *event)
{
    struct belfry_wire_kv kv;
    return !event->is_delete && belfry_scan_kv(event->kv, &kv) == BELFRY_OK && kv.value.len > 0 && kv.lease == 0;
}

static void wrong_bytes(struct bench *bench)
{
    static char bytes[64 * 1024];
    int64_t rev = 22;
    while (!ends_with_value(&history_at(bench->history, 0, rev)->events[0]))
        rev++;
    watch_until(bench, rev - 1);
    struct events *events = take(bench, 0, rev, rev);
    memcpy(bytes, events->at[0].data, events->at[0].len);
    bytes[events->is[0]->raw.len - 1] ^= 1;
    events->at[0].data = bytes;
    say_all(bench, events);
}

/* The same event, but with its type written out, which etcd leaves out of a put. */
static void wrong_encoding(struct bench *bench)
{
    static char bytes[64 * 1024] = {0x08, 0x00};
    const struct history_event *put = find_replaced(bench, 22, false);
    watch_until(bench, put->rev - 1);
    struct events *events = take(bench, 0, put->rev, put->rev);
    memcpy(bytes + 2, put->raw_prev.data, put->raw_prev.len);
    events->at[put->sub] = belfry_bytes_of(bytes, put->raw_prev.len + 2);
    say_all(bench, events);
}

static void wrong_long_key_cut(struct bench *bench)
{
    static uint8_t bytes[64 * 1024];
    struct belfry_wire_event wire;
    int64_t rev = 2;
    while (history_key(bench->history, history_at(bench->history, 0, rev)->events[0].key).len <= 481)
        rev++;
    watch_until(bench, rev - 1);
    struct events *events = take(bench, 0, rev, rev);
    if (belfry_scan_event(events->at[0], &wire) != BELFRY_OK)
        abort();
    wire.kv.key.len = 480;
    belfry_write_event(&wire, bytes);
    events->at[0] = belfry_bytes_of(bytes, belfry_write_event_size(&wire));
    say_all(bench, events);
}

static void wrong_out_of_range(struct bench *bench)
{
    struct belfry_wire_create create = everything(2);
    create.key = belfry_bytes_str("nowhere");
    create.range_end = belfry_bytes_of(NULL, 0);
    ask(bench, create);
    say_created(bench, 0, 20);
    say_all(bench, take(bench, 0, 2, 2));
}

static void wrong_filtered(struct bench *bench)
{
    struct belfry_wire_create create = everything(2);
    create.no_put = true;
    ask(bench, create);
    say_created(bench, 0, 20);
    say_all(bench, take(bench, 0, 2, 2)); /* the first of all is a put */
}

static void wrong_below_start(struct bench *bench)
{
    ask(bench, everything(30));
    say_created(bench, 0, 20);
    say_all(bench, take(bench, 0, 29, 29));
}

static void wrong_below_created(struct bench *bench)
{
    ask(bench, everything(0));
    say_created(bench, 0, 20);
    say_all(bench, take(bench, 0, 20, 20));
}

static void wrong_gap_behind_created(struct bench *bench)
{
    ask(bench, everything(0));
    say_created(bench, 0, 20);
    say_all(bench, take(bench, 0, 22, 22));
}

static void wrong_header_below(struct bench *bench)
{
    watch_until(bench, 20);
    struct events *events = take(bench, 0, 21, 21);
    say(bench, (struct belfry_wire_watch){.header.revision = 20}, events->at, events->n);
}

static void wrong_after_cancel(struct bench *bench)
{
    watch_until(bench, 20);
    ask_cancel(bench, 0);
    say_canceled(bench, 0, 0);
    say_all(bench, take(bench, 0, 21, 21));
}

static void wrong_after_compacted(struct bench *bench)
{
    watch_until(bench, 20);
    history_compact(bench->history, 40);
    say_canceled(bench, 0, 40);
    say_all(bench, take(bench, 0, 41, 41));
}

static void wrong_before_created(struct bench *bench)
{
    ask(bench, everything(2));
    say_all(bench, take(bench, 0, 2, 2));
}

static void wrong_id(struct bench *bench)
{
    ask(bench, everything(2));
    say_created(bench, 3, 20);
}

static void wrong_created_order(struct bench *bench)
{
    struct belfry_wire_create create = everything(2);
    create.watch_id = 7;
    ask(bench, create);
    create.watch_id = 8;
    ask(bench, create);
    say_created(bench, 8, 20);
}

static void wrong_created_twice(struct bench *bench)
{
    watch_until(bench, 20);
    say_created(bench, 0, 20);
}

static void wrong_created_unwritten(struct bench *bench)
{
    ask(bench, everything(0));
    say_created(bench, 0, head(bench) + 1);
}

static void wrong_created_empty_range(struct bench *bench)
{
    struct belfry_wire_create create = everything(2);
    create.key = create.range_end = belfry_bytes_str("a");
    ask(bench, create);
    say_created(bench, 0, 20);
}

static void wrong_refused(struct bench *bench)
{
    ask(bench, everything(2));
    say(bench,
        (struct belfry_wire_watch){.watch_id = -1,
                                   .created = true,
                                   .canceled = true,
                                   .cancel_reason = belfry_bytes_str("mvcc: watcher range is empty")},
        NULL, 0);
}

static void wrong_compacted_invented(struct bench *bench)
{
    watch_until(bench, 20);
    history_compact(bench->history, 40);
    say_canceled(bench, 0, 41);
}

static void wrong_compacted_not_needed(struct bench *bench)
{
    watch_until(bench, 50);
    history_compact(bench->history, 40);
    say_canceled(bench, 0, 40);
}

static void wrong_canceled_by_nobody(struct bench *bench)
{
    watch_until(bench, 20);
    say_canceled(bench, 0, 0);
}

static void wrong_pasts_mixed(struct bench *bench)
{
    watch_until(bench, 35);
    rewrite_at(bench, 30);
    say_all(bench, take(bench, 1, 36, 40));
}

static void wrong_pasts_mixed_by_progress(struct bench *bench)
{
    struct belfry_wire_create create = everything(2);
    create.key = belfry_bytes_str("nowhere");
    create.range_end = belfry_bytes_of(NULL, 0);
    ask(bench, create);
    say_created(bench, 0, 20);
    say_progress(bench, 0, 35);
    rewrite_at(bench, 30);
    while (history_head(bench->history, 1) <= history_head(bench->history, 0))
        history_write(bench->history, &bench->rng);
    say_progress(bench, 0, history_head(bench->history, 0) + 1);
}

static void wrong_back_to_the_old_past(struct bench *bench)
{
    watch_until(bench, 30);
    rewrite_at(bench, 30);
    say_all(bench, take(bench, 1, 31, 33));
    say_all(bench, take(bench, 0, 34, 36));
}

static void wrong_left_in_old_past(struct bench *bench)
{
    watch_until(bench, 35);
    rewrite_at(bench, 30);
}

static void wrong_ended_behind(struct bench *bench)
{
    watch_until(bench, head(bench) - 1);
}

static void wrong_never_answered(struct bench *bench)
{
    ask(bench, everything(2));
}

static void wrong_cancel_never_answered(struct bench *bench)
{
    watch_until(bench, head(bench));
    ask_cancel(bench, 0);
}

static void wrong_progress_never_answered(struct bench *bench)
{
    watch_until(bench, head(bench));
    ask_progress(bench);
}

static void wrong_between_fragments(struct bench *bench)
{
    watch_until(bench, 20);
    struct events *events = take(bench, 0, 21, 25);
    say_events(bench, events, 0, 2, true);
    say_progress(bench, 0, 20);
}

static void wrong_fragment_lost(struct bench *bench)
{
    watch_until(bench, 20);
    struct events *events = take(bench, 0, 21, 25);
    say_events(bench, events, 0, 2, true);
    say_events(bench, events, 3, events->n, false);
}

static void wrong_fragment_unasked(struct bench *bench)
{
    struct belfry_wire_create create = everything(21);
    create.fragment = false;
    ask(bench, create);
    say_created(bench, 0, 20);
    say_events(bench, take(bench, 0, 21, 25), 0, 2, true);
}

/* ---- all of them ---- */

struct plant {
    const char *name;
    void (*run)(struct bench *bench);
    const char *reason; /* a part of the sentence; NULL: it is right */
};

#define PLANT(name, reason)                                                                                            \
    {                                                                                                                  \
#name, name, reason                                                                                            \
    }

static const struct plant plants[] = {
    PLANT(right_revision_by_revision, NULL),
    PLANT(right_in_fragments, NULL),
    PLANT(right_over_a_fork, NULL),
    PLANT(right_old_past_then_canceled, NULL),
    PLANT(right_worker_slept_through_a_rewrite, NULL),
    PLANT(right_compacted, NULL),
    PLANT(right_compaction_capped, NULL),
    PLANT(right_prev_compacted, NULL),
    PLANT(right_prev_compacted_before_a_fork, NULL),
    PLANT(right_refusals, NULL),
    PLANT(right_refused_for_want_of_a_right, NULL),
    PLANT(right_canceled_for_want_of_a_right, NULL),
    PLANT(right_line_by_line, NULL),
    PLANT(right_lines_of_a_pin, NULL),
    PLANT(right_lines_lost_for_a_previous_value, NULL),
    PLANT(right_lines_lost_for_a_previous_value_of_a_new_past, NULL),
    PLANT(right_lines_lost_inside_a_revision, NULL),
    PLANT(wrong_line_dropped, "ordered: revision"),
    PLANT(wrong_line_again, "unique: revision"),
    PLANT(wrong_line_without_the_pin, "reliable: revision"),
    PLANT(wrong_line_of_what_was_before_missing, "ordered: revision"),
    PLANT(right_lines_resumed, NULL),
    PLANT(wrong_lines_resumed_behind, "resumable: revision"),
    PLANT(wrong_lines_resumed_and_never_given_the_rest, "progress: revision"),
    PLANT(wrong_lines_resumed_in_the_middle, "ordered: revision"),
    PLANT(wrong_only_line_again_when_resumed, "unique: revision"),
    PLANT(wrong_progress_below_where_it_resumed, "is below the start"),
    PLANT(wrong_line_shown_before_its_revision, "header: revision"),
    PLANT(wrong_line_shown_behind_its_revision, "another than its own"),
    PLANT(wrong_progress_between_lines, "progress: revision"),
    PLANT(wrong_lines_lost_for_nothing, "never compacted"),
    PLANT(wrong_lines_lost_at_the_end_of_a_revision, "needs only"),
    PLANT(wrong_lines_go_on_behind_the_last, "never ended"),
    PLANT(wrong_revision_dropped, "reliable: revision"),
    PLANT(wrong_event_dropped, "atomic: revision"),
    PLANT(wrong_first_dropped, "resumable: revision"),
    PLANT(wrong_event_doubled, "unique: revision"),
    PLANT(wrong_response_doubled, "unique: revision"),
    PLANT(wrong_swapped_in_revision, "ordered: revision"),
    PLANT(wrong_swapped_revisions, "reliable: revision"),
    PLANT(wrong_back_in_time, "ordered: revision"),
    PLANT(wrong_split, "atomic: revision"),
    PLANT(wrong_progress_beyond, "progress: revision"),
    PLANT(wrong_progress_back, "bookmarkable: revision"),
    PLANT(wrong_progress_unwritten, "has not been written"),
    PLANT(wrong_progress_unasked, "was not asked for"),
    PLANT(wrong_progress_all_unasked, "asked for 0 times"),
    PLANT(wrong_progress_all_too_early, "progress: revision"),
    PLANT(wrong_progress_before_start, "is below the start"),
    PLANT(wrong_prev, "prev_kv: revision"),
    PLANT(wrong_prev_missing, "lacks its prev_kv"),
    PLANT(wrong_prev_missing_behind_a_fork, "lacks its prev_kv"),
    PLANT(wrong_prev_unasked, "none was asked for"),
    PLANT(wrong_bytes, "content: revision"),
    PLANT(wrong_encoding, "the bytes differ"),
    PLANT(wrong_long_key_cut, "reliable: revision"),
    PLANT(wrong_out_of_range, "filter: revision"),
    PLANT(wrong_filtered, "filter: revision"),
    PLANT(wrong_below_start, "resumable: revision"),
    PLANT(wrong_below_created, "resumable: revision"),
    PLANT(wrong_gap_behind_created, "resumable: revision"),
    PLANT(wrong_header_below, "header: revision"),
    PLANT(wrong_after_cancel, "after canceled"),
    PLANT(wrong_after_compacted, "after canceled"),
    PLANT(wrong_before_created, "has not been created"),
    PLANT(wrong_id, "not the one asked for"),
    PLANT(wrong_created_order, "not the one asked for"),
    PLANT(wrong_created_twice, "was not asked for"),
    PLANT(wrong_created_unwritten, "has not been written"),
    PLANT(wrong_created_empty_range, "watcher range is empty"),
    PLANT(wrong_refused, "was refused"),
    PLANT(wrong_compacted_invented, "never compacted"),
    PLANT(wrong_compaction_capped_from_below, "never compacted"),
    PLANT(wrong_compacted_not_needed, "needs only"),
    PLANT(wrong_worker_was_awake_at_the_rewrite, "never compacted"),
    PLANT(wrong_canceled_by_nobody, "by nobody"),
    PLANT(wrong_refused_where_no_right_is_needed, "was refused"),
    PLANT(wrong_canceled_where_no_right_is_needed, "by nobody"),
    PLANT(wrong_event_after_a_right_was_lost, "after canceled"),
    PLANT(wrong_pasts_mixed, "belongs to past 0, which ended"),
    PLANT(wrong_pasts_mixed_by_progress, "belongs to past 0, which ended"),
    PLANT(wrong_back_to_the_old_past, "reliable: revision 34"),
    PLANT(wrong_left_in_old_past, "left in a past that ended"),
    PLANT(wrong_ended_behind, "ended behind"),
    PLANT(wrong_never_answered, "never answered"),
    PLANT(wrong_cancel_never_answered, "never acknowledged"),
    PLANT(wrong_progress_never_answered, "asked for and never answered"),
    PLANT(wrong_between_fragments, "between fragments"),
    PLANT(wrong_fragment_lost, "revision"),
    PLANT(wrong_fragment_unasked, "fragment that was not asked for"),
};

static bool judged_rightly(const struct bench *bench, const struct plant *plant)
{
    const char *said = checker_violation(bench->checker, 0);
    if (plant->reason == NULL)
        return said == NULL;
    return said != NULL && strstr(said, plant->reason) != NULL;
}

static bool run_plant(const struct plant *plant)
{
    struct bench bench = {.rng = {2026}};
    bench.history = history_create(&(struct history_opts){.big_values = true});
    while (head(&bench) < REVS)
        history_write(bench.history, &bench.rng);
    bench.checker = checker_create(bench.history, &(struct checker_opts){0});
    bench.stream = checker_stream_open(bench.checker, plant->name, CHECKER_TIER);
    plant->run(&bench);
    bool unfinished =
        plant->reason == NULL || strstr(plant->reason, "never a") != NULL || strstr(plant->reason, "ended") != NULL;
    size_t before = checker_violations(bench.checker);
    if (before == 0 && unfinished)
        checker_finish(bench.checker);
    bool ok = judged_rightly(&bench, plant);
    if (!ok)
        fprintf(stderr, "checker_self_test: %s: expected \"%s\", found \"%s\"\n", plant->name,
                plant->reason == NULL ? "" : plant->reason,
                checker_violations(bench.checker) == 0 ? "" : checker_violation(bench.checker, 0));
    checker_destroy(bench.checker);
    history_destroy(bench.history);
    return ok;
}

int checker_self_test(void)
{
    int missed = 0;
    for (size_t i = 0; i < sizeof(plants) / sizeof(plants[0]); i++)
        missed += !run_plant(&plants[i]);
    return missed;
}
