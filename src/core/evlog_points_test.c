/* src/core/evlog_points_test.c: the log's two sides interleaved on one thread, at every point where they could be.
 *
 * The log is compiled in here with its points (base/sim.h). A worker that begins a turn is interrupted at each of its
 * points, in all pairs, by things that the writer does; and the writer at each of its points by a worker's turn. Every
 * view must be whole, of one past, honest about what it covers, and last as long as its turn.
 */
#define BELFRY_SIM
#include "core/evlog.c" /* the functions below are this one's, not the library's */

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define CAPACITY_LOG2 4
#define CAPACITY      16
#define HELD          4 /* max_bytes is so many batches */
#define PAYLOAD       8

/* What the writer has done, kept to judge views by. */
struct history {
    struct evlog *log;
    uint64_t past;
    int64_t head;
    uint64_t done_past; /* both as of the last call that returned */
    int64_t done_head;
    size_t bytes; /* of a batch */
};

enum act { NOTHING, APPEND, APPEND_SIX, CUT, CUT_APPEND, APPEND_CUT, TWO_CUTS_APPEND, RECLAIM, ACTS };

enum belfry_mutant belfry_mutant;
static struct history writer;
static bool armed; /* points count, and act */
static unsigned point, n_points;
static void (*at_point)(unsigned point);

void belfry_sim_point(const char *name)
{
    (void)name;
    if (!armed)
        return;
    armed = false; /* what happens there is not interrupted itself */
    at_point(point++);
    armed = true;
}

static void done(void)
{
    writer.done_past = writer.past;
    writer.done_head = writer.head;
}

/* The payload is the past, so that a batch in a view of another one is found. */
static void append(void)
{
    uint64_t past = writer.past;
    struct batch *batch = NULL;
    assert_int_equal(batch_create(writer.head + 1, BATCH_EVENTS, 1, PAYLOAD, &batch), BELFRY_OK);
    batch_add_stored(batch, belfry_bytes_of(&past, PAYLOAD), (struct belfry_bytes){0}, (struct belfry_bytes){0}, false);
    assert_int_equal(evlog_append(writer.log, batch), BELFRY_OK);
    writer.head++;
    done();
    evlog_committed(writer.log, writer.head);
}

static void cut(void)
{
    writer.head -= 2; /* a past that was rewritten: its revisions overlap with the old one's */
    writer.past++;
    assert_int_equal(evlog_cut(writer.log, writer.head, EVLOG_CUT_REWRITTEN, writer.head), BELFRY_OK);
    done();
}

static void act(enum act what)
{
    switch (what) {
    case APPEND_SIX:
        for (int i = 0; i < 5; i++)
            append();
        append();
        break;
    case APPEND:
        append();
        break;
    case CUT:
        cut();
        break;
    case TWO_CUTS_APPEND:
        cut();
        append();
        cut();
        append();
        break;
    case CUT_APPEND:
        cut();
        append();
        break;
    case APPEND_CUT:
        append();
        cut();
        break;
    case RECLAIM:
        evlog_reclaim(writer.log);
        break;
    case NOTHING:
    case ACTS:
        break;
    }
}

static void begin(void)
{
    struct batch *batch = NULL;
    struct evlog_opts opts = {.capacity_log2 = CAPACITY_LOG2, .n_workers = 2};
    assert_int_equal(batch_create(1, BATCH_EVENTS, 1, PAYLOAD, &batch), BELFRY_OK);
    writer = (struct history){.head = 99, .bytes = batch->bytes};
    batch_unref(batch);
    opts.max_bytes = HELD * writer.bytes;
    assert_int_equal(evlog_create(&opts, &writer.log), BELFRY_OK);
    cut();
    act(APPEND_SIX);
}

static void check_batch(const struct batch *batch, uint64_t past)
{
    uint64_t in_past = 0;
    assert_int_equal(batch->n_events, 1);
    memcpy(&in_past, batch->data, PAYLOAD);
    assert_int_equal(in_past, past);
}

/* Everything that must hold of a view, at any time of its turn. Revisions are dense here, so a base can be told. */
static void check_view(const struct evlog_view *view)
{
    int64_t before = view->cut.rev;
    assert_true(view->first <= view->next);
    for (uint64_t seq = view->first; seq < view->next; seq++) {
        const struct batch *batch = evlog_at(view, seq);
        check_batch(batch, view->cut.past);
        assert_true(seq == view->first ? batch->rev > before : batch->rev == before + 1);
        assert_int_equal(evlog_find(view, batch->rev), seq);
        before = batch->rev;
    }
    assert_int_equal(view->head, before);
    int64_t base = view->head - (int64_t)(view->next - view->first);
    assert_true(evlog_covers(view, base + 1));
    assert_false(evlog_covers(view, base));
}

/* Is a new view as new as what was there when its turn began? */
static void check_new(const struct evlog_view *view, uint64_t past, int64_t head)
{
    assert_true(view->cut.past >= past && view->cut.past <= writer.past);
    assert_true(view->cut.past > past || view->head >= head);
}

/* ---- the worker is interrupted ---- */

static unsigned first_at, second_at;
static enum act first_act, second_act;

static void writer_acts(unsigned at)
{
    if (at == first_at)
        act(first_act);
    if (at == second_at)
        act(second_act);
}

static void turn_with_the_writer_between(void)
{
    struct evlog_view view;
    begin();
    uint64_t past = writer.past;
    int64_t head = writer.head;
    point = 0;
    at_point = writer_acts;
    armed = true;
    evlog_enter(writer.log, 0, &view);
    armed = false;
    n_points = point;
    check_view(&view);
    check_new(&view, past, head);
    act(APPEND_SIX);
    check_view(&view);
    act(TWO_CUTS_APPEND);
    check_view(&view);
    evlog_leave(writer.log, 0);

    assert_int_equal(evlog_reclaim(writer.log), 0);
    assert_int_equal(evlog_bytes(writer.log), writer.bytes);
    evlog_enter(writer.log, 0, &view);
    check_view(&view);
    assert_int_equal(view.cut.past, writer.past);
    assert_int_equal(view.head, writer.head);
    evlog_leave(writer.log, 0);
    evlog_destroy(writer.log);
}

static void writer_between_any_two_steps_of_a_worker(void **state)
{
    (void)state;
    first_at = second_at = 0;
    first_act = second_act = NOTHING;
    turn_with_the_writer_between();
    unsigned points = n_points;
    assert_int_equal(points, 5);
    for (first_at = 0; first_at < points; first_at++)
        for (second_at = first_at; second_at < points; second_at++)
            for (int one = NOTHING; one < ACTS; one++)
                for (int two = NOTHING; two < ACTS; two++) {
                    first_act = (enum act)one;
                    second_act = (enum act)two;
                    turn_with_the_writer_between();
                }
}

/* ---- the writer is interrupted ---- */

static unsigned enter_at, leave_at;
static struct evlog_view held;
static bool inside;

/* A worker begins a turn at one of the writer's points and ends it at another; a second has a short one at each. */
static void worker_turns(unsigned at)
{
    struct evlog_view view;
    evlog_enter(writer.log, 1, &view);
    check_view(&view);
    check_new(&view, writer.done_past, writer.done_head);
    evlog_leave(writer.log, 1);
    if (at == enter_at) {
        evlog_enter(writer.log, 0, &held);
        inside = true;
    }
    if (inside)
        check_view(&held);
    if (inside && at == leave_at) {
        evlog_leave(writer.log, 0);
        inside = false;
    }
}

static void act_with_a_worker_between(enum act what)
{
    begin();
    point = 0;
    inside = false;
    at_point = worker_turns;
    armed = true;
    act(what);
    armed = false;
    n_points = point;
    if (inside) {
        check_view(&held);
        act(APPEND_SIX);
        check_view(&held);
        evlog_leave(writer.log, 0);
    }
    assert_int_equal(evlog_reclaim(writer.log), 0);
    evlog_destroy(writer.log);
}

static void worker_between_any_two_steps_of_the_writer(void **state)
{
    (void)state;
    for (int what = APPEND; what < ACTS; what++) {
        enter_at = leave_at = UINT32_MAX;
        act_with_a_worker_between((enum act)what);
        unsigned points = n_points;
        assert_true(what == RECLAIM || points > 3);
        for (enter_at = 0; enter_at < points; enter_at++)
            for (leave_at = enter_at; leave_at <= points; leave_at++)
                act_with_a_worker_between((enum act)what);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(writer_between_any_two_steps_of_a_worker),
        cmocka_unit_test(worker_between_any_two_steps_of_the_writer),
    };
    return cmocka_run_group_tests_name("evlog_points", tests, NULL, NULL);
}
