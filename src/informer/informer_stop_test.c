/* src/informer/informer_stop_test.c: the public informer stopped at every point of a script, over random words of its
 * source, and without memory. */
#include "informer/informer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "support/informerbed.h"

/* ---- stopped at every point ---- */

static void do_close(struct listener *listener)
{
    (void)listener;
    struct belfry_informer *informer = bed.informer;
    close_informer();
    belfry_informer_close(informer); /* still on the stack: harmless */
}

static void do_remove_others(struct listener *listener)
{
    for (int i = 0; i < bed.n_listeners; i++) {
        struct listener *other = &bed.listeners[i];
        if (other != listener && other->there && other->handler != NULL) {
            other->there = false;
            belfry_handler_remove(other->handler);
        }
    }
}

static void do_remove_self(struct listener *listener)
{
    if (listener->handler == NULL)
        return;
    listener->there = false;
    belfry_handler_remove(listener->handler);
}

static void do_close_session_soon(struct listener *listener)
{
    (void)listener;
    bed.close_session = true;
}

/* A step of the script is over: nothing is on the stack. */
static bool goes_on(void)
{
    if (bed.close_session && bed.b != NULL) {
        belfry_close(bed.b);
        bed.b = NULL;
    }
    return bed.b != NULL && !bed.source_closed;
}

static void dispatch_all(void)
{
    for (int i = 0; i < 100 && goes_on() && belfry_timers_due(&bed.b->timers) == 0; i++)
        belfry_ignore((enum belfry_err)belfry_dispatch(bed.b)); /* its own errors are not what this is about */
}

static bool script_begin(void)
{
    struct listener *second = new_listener();
    int err = belfry_informer_add(bed.informer, NULL, on_news, second, &second->handler);
    if (err != BELFRY_OK)
        return second->there = false;
    if (belfry_informer_index_path(bed.informer, "tag", ".tags[*]") != BELFRY_OK)
        return false;
    say_link(BELFRY_OK, "connected");
    say_begin();
    for (int key = 0; key < 4 && goes_on(); key++)
        write_key(key);
    dispatch_all();
    return goes_on();
}

static void script_changes(void)
{
    for (int key = 4; key < KEYS && goes_on(); key++)
        write_key(key);
    say_synced();
    if (!goes_on())
        return;
    write_key(2);
    remove_key(3, true, false);
    bed.listeners[0].answer = BELFRY_PAUSE;
    if (goes_on())
        write_key(3);
    write_key(5); /* kept */
    remove_key(5, false, true);
    if (goes_on())
        belfry_informer_resume(bed.informer);
    dispatch_all();
}

static void script_late(void)
{
    if (!goes_on())
        return;
    struct listener *late = new_listener();
    if (belfry_informer_add(bed.informer, NULL, on_news, late, &late->handler) != BELFRY_OK)
        late->there = false;
    dispatch_all();
    for (int key = 1; key < KEYS; key++)
        bed.truth[key] = 0;
    say_begin();
    if (goes_on())
        say_put(0, bed.truth[0]);
    say_synced();
    dispatch_all();
    if (goes_on())
        EVENTS->end(BELFRY_ERR_REFUSED, "the end", bed.informer);
}

/* Everything once: two handlers, a listing, changes, a pause, a late handler, a second listing with sweep, the end. */
static enum belfry_err script(void (*act)(struct listener *listener), int act_at)
{
    memset(&bed, 0, sizeof(bed));
    bed.act = act;
    bed.act_at = act_at;
    int err = belfry_open(NULL, NULL, &bed.b);
    if (err == BELFRY_OK)
        err = try_open(NULL);
    if (err == BELFRY_OK && script_begin()) {
        script_changes();
        script_late();
    }
    belfry_close(bed.b);
    bed.b = NULL;
    for (int i = 0; i < bed.n_listeners && err == BELFRY_OK; i++)
        assert_true(bed.listeners[i].n[BELFRY_NEWS_END] == 1 || !bed.listeners[i].there);
    assert_int_equal(bed.attached, bed.source_closed);
    return (enum belfry_err)err;
}

static void stop_at_every_point(void (*act)(struct listener *listener))
{
    int n = 0;
    do {
        size_t before = refuse_held();
        assert_int_equal(script(act, n), BELFRY_OK);
        assert_int_equal(refuse_held(), before);
    } while (bed.n_calls > n++);
    print_message("stopped at %d points\n", n - 1);
    assert_true(n > 3 * KEYS);
}

static void closed_in_any_callback_it_says_nothing_more(void **state)
{
    (void)state;
    stop_at_every_point(do_close);
}

static void any_handler_can_remove_the_others_anywhere(void **state)
{
    (void)state;
    stop_at_every_point(do_remove_others);
}

static void any_handler_can_remove_itself_anywhere(void **state)
{
    (void)state;
    stop_at_every_point(do_remove_self);
}

static void the_session_can_be_closed_after_any_callback(void **state)
{
    (void)state;
    stop_at_every_point(do_close_session_soon);
}

/* ---- random words ---- */

#define SEEDS 400
#define STEPS 150

static struct belfry_rng rng;

static bool chance(unsigned percent)
{
    return belfry_rng_below(&rng, 100) < percent;
}

static int random_key(void)
{
    return (int)belfry_rng_below(&rng, chance(40) ? KEYS : 12);
}

static void random_change(void)
{
    int key = random_key();
    if (chance(65))
        write_key(key);
    else
        remove_key(key, chance(50), chance(20));
}

/* Pauses come in the middle; the following events are still delivered. */
static void random_batch(void)
{
    for (uint64_t n = 1 + belfry_rng_below(&rng, 6); n > 0; n--)
        random_change();
}

static void random_listing(void)
{
    for (uint64_t n = belfry_rng_below(&rng, KEYS); n > 0; n--)
        bed.truth[random_key()] = chance(50) ? 0 : ++bed.rev;
    list_all();
}

static void random_answers(void)
{
    for (int i = 0; i < bed.n_listeners; i++)
        bed.listeners[i].answer = chance(8) ? BELFRY_PAUSE : BELFRY_MORE;
}

static void random_step(void)
{
    random_answers();
    if (bed.source_paused && chance(60))
        belfry_informer_resume(bed.informer);
    else if (!bed.source_paused && chance(3))
        random_listing();
    else if (!bed.source_paused && chance(60))
        random_batch();
    else if (bed.n_listeners < HANDLERS && chance(10))
        add();
    else
        assert_int_equal(belfry_dispatch(bed.b), BELFRY_OK);
}

/* True: it was paused at least once. */
static bool random_run(uint64_t seed)
{
    open_one();
    rng.state = seed;
    if (chance(50))
        random_listing();
    for (int step = 0; step < STEPS; step++)
        random_step();
    bool paused = bed.n_pauses > 0;
    for (int i = 0; i < bed.n_listeners; i++)
        bed.listeners[i].answer = BELFRY_MORE;
    belfry_informer_resume(bed.informer);
    settle();
    say_synced();
    settle();
    for (int i = 0; i < bed.n_listeners; i++) {
        assert_holds_the_truth(&bed.listeners[i]);
        assert_true(bed.listeners[i].n[BELFRY_NEWS_SYNCED] > 0);
    }
    assert_int_equal(tear_down(NULL), 0);
    return paused;
}

static void whatever_is_told_everybody_holds_the_truth_in_the_end(void **state)
{
    (void)state;
    int n_paused = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++)
        n_paused += random_run(seed);
    assert_true(n_paused > SEEDS / 2);
}

/* ---- no memory ---- */

static enum belfry_err scenario(void)
{
    enum belfry_err err = script(NULL, 0);
    if (err == BELFRY_OK && bed.listeners[0].n[BELFRY_NEWS_END] > 0 && bed.listeners[0].err == BELFRY_ERR_NOMEM)
        return BELFRY_ERR_NOMEM; /* told where it could not be returned */
    return err;
}

static void no_memory_is_an_error_or_an_end(void **state)
{
    (void)state;
    assert_true(refuse_sweep(scenario) > KEYS);
}

#define TEST(name) cmocka_unit_test_teardown(name, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(closed_in_any_callback_it_says_nothing_more),
        TEST(any_handler_can_remove_the_others_anywhere),
        TEST(any_handler_can_remove_itself_anywhere),
        TEST(the_session_can_be_closed_after_any_callback),
        TEST(whatever_is_told_everybody_holds_the_truth_in_the_end),
        TEST(no_memory_is_an_error_or_an_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
