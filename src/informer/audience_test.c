/* src/informer/audience_test.c: which handler receives what, over scripted and random histories. Each handler keeps
 * the objects it received; they must equal the store. */
#include "informer/audience.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/rng.h"
#include "support/refuse.h"

#define KEYS     300 /* more than two slices */
#define HANDLERS 24  /* in one run */

/* ---- the bed ---- */

struct seat {
    struct belfry_handler *handler; /* NULL: never came, or gone */
    int64_t holds[KEYS];            /* the revision it was told; 0: nothing */
    int place;                      /* the last key told as initial; -1: none */
    int n[BELFRY_NEWS_END + 1], n_resync, n_initial;
    bool synced;
    enum belfry_next answer; /* to the next call */
};

static struct bed {
    struct belfry_store *store;
    struct belfry_audience *audience;
    struct seat seats[HANDLERS];
    int n_seats;
    int64_t revs[KEYS]; /* what the store holds */
    int64_t rev;
    uint64_t now;
    bool complete, pause;
    void (*during)(struct seat *seat); /* called inside each call; NULL: nothing */
    struct belfry_rng rng;
} bed;

#define INFORMER ((struct belfry_informer *)&bed) /* only handed on */

static struct belfry_bytes key_name(int i)
{
    static char name[16];
    snprintf(name, sizeof(name), "k%04d", i);
    return belfry_bytes_str(name);
}

static int key_number(const struct belfry_object *object)
{
    char text[16] = "";
    struct belfry_bytes key = belfry_object_key(object);
    memcpy(text, key.data, key.len);
    return atoi(text + 1);
}

static void set_up(void)
{
    memset(&bed, 0, sizeof(bed));
    assert_int_equal(belfry_store_create(&bed.store), BELFRY_OK);
    assert_int_equal(belfry_audience_create(INFORMER, bed.store, &bed.audience), BELFRY_OK);
}

static void tear_down(void)
{
    belfry_audience_destroy(bed.audience);
    belfry_store_destroy(bed.store);
    bed.audience = NULL;
    bed.store = NULL;
}

static int leaves_nothing(void **state)
{
    (void)state;
    return refuse_held() == 0 ? 0 : -1;
}

static void note_change(struct seat *seat, const struct belfry_news *news)
{
    int key = key_number(news->object);
    int64_t rev = belfry_object_rev(news->object);
    if (news->kind == BELFRY_NEWS_ADDED) {
        assert_int_equal(seat->holds[key], 0);
        assert_null(news->old);
        seat->holds[key] = rev;
        if (news->initial) {
            assert_true(key > seat->place);
            assert_false(seat->synced);
            seat->place = key;
            seat->n_initial++;
        }
    } else if (news->kind == BELFRY_NEWS_UPDATED) {
        assert_int_not_equal(seat->holds[key], 0);
        assert_int_equal(belfry_object_rev(news->old), seat->holds[key]);
        assert_int_equal(news->old == news->object, news->resync);
        seat->holds[key] = rev;
        seat->n_resync += news->resync;
    } else {
        assert_int_not_equal(seat->holds[key], 0);
        seat->holds[key] = 0;
    }
}

static enum belfry_next on_news(struct belfry_informer *informer, const struct belfry_news *news, void *user)
{
    struct seat *seat = user;
    assert_ptr_equal(informer, INFORMER);
    assert_non_null(bed.audience);
    assert_non_null(seat->handler); /* nothing comes after it was removed */
    seat->n[news->kind]++;
    if (news->object != NULL)
        note_change(seat, news);
    if (news->kind == BELFRY_NEWS_SYNCED) {
        seat->synced = true;
        assert_int_equal(belfry_handler_synced(seat->handler), 1);
    }
    enum belfry_next answer = seat->answer;
    seat->answer = BELFRY_MORE;
    if (bed.during != NULL)
        bed.during(seat);
    if (answer == BELFRY_STOP)
        seat->handler = NULL;
    return answer;
}

static struct seat *add(uint32_t resync_ms)
{
    struct seat *seat = &bed.seats[bed.n_seats++];
    assert_true(bed.n_seats <= HANDLERS);
    seat->place = -1;
    assert_int_equal(belfry_audience_add(bed.audience, on_news, seat, resync_ms, bed.now, &seat->handler), BELFRY_OK);
    return seat;
}

static void remove_seat(struct seat *seat)
{
    struct belfry_handler *handler = seat->handler;
    seat->handler = NULL;
    belfry_handler_remove(handler);
}

/* Tells; the objects are kept for as long as it takes, as the informer does. */
static void tell_kept(enum belfry_news_kind kind, struct belfry_object *object, struct belfry_object *old)
{
    struct belfry_news news = {.kind = kind, .object = object, .old = old};
    bool remains = belfry_audience_tell(bed.audience, &news, &bed.pause);
    assert_int_equal(remains, bed.audience != NULL);
    belfry_object_unref(object);
    belfry_object_unref(old);
}

static void put(int key)
{
    struct belfry_object *object, *old = NULL;
    enum belfry_store_change change;
    struct belfry_object_key_value kv = {.key = key_name(key), .rev = ++bed.rev};
    assert_int_equal(belfry_object_of_key(&kv, &object), BELFRY_OK);
    belfry_object_ref(object);
    assert_int_equal(belfry_store_put(bed.store, object, &change, &old), BELFRY_OK);
    bed.revs[key] = bed.rev;
    tell_kept(change == BELFRY_STORE_ADDED ? BELFRY_NEWS_ADDED : BELFRY_NEWS_UPDATED, object, old);
}

static void take(int key)
{
    struct belfry_object *object = belfry_store_take(bed.store, key_name(key));
    bed.revs[key] = 0;
    if (object != NULL)
        tell_kept(BELFRY_NEWS_REMOVED, object, NULL);
}

static void synced(void)
{
    bed.complete = true;
    bool remains = belfry_audience_synced(bed.audience, &bed.pause);
    assert_int_equal(remains, bed.audience != NULL);
}

static void turn(void)
{
    bool remains = belfry_audience_turn(bed.audience, bed.now, &bed.pause);
    assert_int_equal(remains, bed.audience != NULL);
}

static void settle(void)
{
    for (int i = 0; i < 1000 && belfry_audience_due(bed.audience) <= bed.now; i++)
        turn();
    assert_true(belfry_audience_due(bed.audience) > bed.now);
}

/* A handler has the state of the store, except for objects after its place, which it has not received yet. */
static void check_seat(const struct seat *seat, bool whole)
{
    for (int key = 0; key < KEYS; key++) {
        if (seat->holds[key] == bed.revs[key])
            continue;
        assert_int_equal(seat->holds[key], 0);
        assert_false(whole);
        assert_true(key > seat->place);
    }
}

static void check(void)
{
    bool all_live = belfry_audience_due(bed.audience) > 0;
    for (int i = 0; i < bed.n_seats; i++) {
        if (bed.seats[i].handler != NULL)
            check_seat(&bed.seats[i], all_live || bed.seats[i].synced);
    }
}

/* ---- scripts ---- */

static void the_first_handler_is_told_everything_as_it_comes(void **state)
{
    (void)state;
    set_up();
    struct seat *seat = add(0);
    assert_int_equal(belfry_audience_due(bed.audience), 0);
    settle();
    assert_int_equal(belfry_audience_due(bed.audience), BELFRY_NEVER);
    put(1);
    put(2);
    put(1);
    take(2);
    assert_int_equal(seat->n[BELFRY_NEWS_ADDED], 2);
    assert_int_equal(seat->n[BELFRY_NEWS_UPDATED], 1);
    assert_int_equal(seat->n[BELFRY_NEWS_REMOVED], 1);
    assert_int_equal(seat->n[BELFRY_NEWS_SYNCED], 0);
    assert_int_equal(belfry_handler_synced(seat->handler), 0);
    synced();
    assert_int_equal(seat->n[BELFRY_NEWS_SYNCED], 1);
    check();
    tear_down();
}

static void a_late_handler_walks_in_slices_and_is_told_changes_in_its_place(void **state)
{
    (void)state;
    set_up();
    for (int key = 0; key < KEYS; key += 2)
        put(key);
    synced();
    struct seat *seat = add(0);
    turn();
    assert_int_equal(seat->n_initial, BELFRY_AUDIENCE_SLICE);
    assert_int_equal(seat->place, 2 * (BELFRY_AUDIENCE_SLICE - 1));
    int told = seat->n[BELFRY_NEWS_ADDED] + seat->n[BELFRY_NEWS_UPDATED] + seat->n[BELFRY_NEWS_REMOVED];
    put(KEYS - 1);  /* behind: added, */
    put(KEYS - 2);  /* changed, */
    take(KEYS - 4); /* and removed before it comes there */
    assert_int_equal(seat->n[BELFRY_NEWS_ADDED] + seat->n[BELFRY_NEWS_UPDATED] + seat->n[BELFRY_NEWS_REMOVED], told);
    put(1);
    put(2);
    take(4);
    put(seat->place); /* at its place */
    assert_int_equal(seat->n[BELFRY_NEWS_ADDED], BELFRY_AUDIENCE_SLICE + 1);
    assert_int_equal(seat->n[BELFRY_NEWS_UPDATED], 2);
    assert_int_equal(seat->n[BELFRY_NEWS_REMOVED], 1);
    take(seat->place); /* what it stands at goes */
    assert_int_equal(belfry_handler_synced(seat->handler), 0);
    settle();
    assert_int_equal(seat->n[BELFRY_NEWS_SYNCED], 1);
    check();
    tear_down();
}

static void synced_waits_for_the_store_and_for_the_walk(void **state)
{
    (void)state;
    set_up();
    put(1);
    struct seat *early = add(0);
    settle();
    assert_int_equal(early->n[BELFRY_NEWS_SYNCED], 0); /* told all there is, but that is not all */
    struct seat *late = add(0);
    synced();
    assert_int_equal(early->n[BELFRY_NEWS_SYNCED], 1);
    assert_int_equal(late->n[BELFRY_NEWS_SYNCED], 0);
    settle();
    assert_int_equal(late->n[BELFRY_NEWS_SYNCED], 1);
    synced(); /* listed anew */
    assert_int_equal(early->n[BELFRY_NEWS_SYNCED], 2);
    assert_int_equal(late->n[BELFRY_NEWS_SYNCED], 2);
    tear_down();
}

static void a_resync_tells_everything_again_and_misses_no_change(void **state)
{
    (void)state;
    set_up();
    for (int key = 0; key < KEYS; key += 2)
        put(key);
    struct seat *seat = add(1000);
    settle();
    synced();
    bed.now = 999;
    assert_int_equal(belfry_audience_due(bed.audience), 1000);
    turn();
    assert_int_equal(seat->n_resync, 0);
    bed.now = 1000;
    turn();
    assert_int_equal(seat->n_resync, BELFRY_AUDIENCE_SLICE);
    put(KEYS - 2); /* behind the walk: told nevertheless, it has the old one */
    take(KEYS - 4);
    put(KEYS - 1);
    assert_int_equal(seat->n[BELFRY_NEWS_UPDATED], BELFRY_AUDIENCE_SLICE + 1);
    assert_int_equal(seat->n[BELFRY_NEWS_REMOVED], 1);
    check();
    settle();
    assert_int_equal(seat->n_resync, KEYS / 2);
    assert_int_equal(seat->n[BELFRY_NEWS_SYNCED], 1); /* a resync is no listing */
    assert_int_equal(belfry_audience_due(bed.audience), 2000);
    tear_down();
}

static void a_pause_is_heard_after_all_were_told(void **state)
{
    (void)state;
    set_up();
    struct seat *first = add(0), *second = add(0);
    settle();
    first->answer = BELFRY_PAUSE;
    put(1);
    assert_true(bed.pause);
    assert_int_equal(second->n[BELFRY_NEWS_ADDED], 1);
    tear_down();
}

static void a_pause_holds_a_walk_where_it_is(void **state)
{
    (void)state;
    set_up();
    put(1);
    put(2);
    struct seat *seat = add(0);
    seat->answer = BELFRY_PAUSE;
    turn();
    assert_true(bed.pause);
    assert_int_equal(seat->n_initial, 1);
    bed.pause = false;
    settle();
    assert_int_equal(seat->n_initial, 2);
    check();
    tear_down();
}

static void stop_removes_the_handler_alone(void **state)
{
    (void)state;
    set_up();
    struct seat *first = add(0), *second = add(0);
    settle();
    first->answer = BELFRY_STOP;
    put(1);
    put(2);
    assert_int_equal(first->n[BELFRY_NEWS_ADDED], 1);
    assert_int_equal(second->n[BELFRY_NEWS_ADDED], 2);
    tear_down();
}

static void the_answer_of_one_that_removed_itself_does_not_count(void **state)
{
    (void)state;
    set_up();
    struct seat *seat = add(0);
    settle();
    bed.during = remove_seat;
    seat->answer = BELFRY_PAUSE;
    put(1);
    assert_null(seat->handler);
    assert_false(bed.pause);
    bed.during = NULL;
    tear_down();
}

static void add_one_more(struct seat *seat)
{
    (void)seat;
    if (bed.n_seats < HANDLERS)
        add(0);
}

static void who_comes_during_a_word_is_not_told_it(void **state)
{
    (void)state;
    set_up();
    add(0);
    settle();
    bed.during = add_one_more;
    bool remains = belfry_audience_tell(
        bed.audience, &(struct belfry_news){.kind = BELFRY_NEWS_LINK, .why = "connected"}, &bed.pause);
    assert_true(remains);
    assert_int_equal(bed.n_seats, 2); /* and not one more for each that came */
    assert_int_equal(bed.seats[1].n[BELFRY_NEWS_LINK], 0);
    tear_down();
}

/* ---- random histories ---- */

#define SEEDS 1500
#define STEPS 120

static bool chance(unsigned percent)
{
    return belfry_rng_below(&bed.rng, 100) < percent;
}

/* Sometimes the worst case: the audience is destroyed, and its store with it. */
static void destroy_all(void)
{
    for (int i = 0; i < bed.n_seats; i++)
        bed.seats[i].handler = NULL;
    struct belfry_audience *audience = bed.audience;
    bed.audience = NULL;
    belfry_audience_destroy(audience);
    belfry_store_destroy(bed.store);
    bed.store = NULL;
}

static void misbehave(struct seat *seat)
{
    size_t dice = belfry_rng_below(&bed.rng, 1000);
    if (dice < 10 && bed.n_seats < HANDLERS)
        add(chance(50) ? 0 : 50);
    else if (dice < 20)
        remove_seat(&bed.seats[belfry_rng_below(&bed.rng, (uint64_t)bed.n_seats)]);
    else if (dice < 24)
        remove_seat(seat);
    else if (dice < 25)
        destroy_all();
    if (seat->handler != NULL)
        seat->answer = chance(3) ? BELFRY_PAUSE : chance(1) ? BELFRY_STOP : BELFRY_MORE;
}

static int random_key(void)
{
    return (int)belfry_rng_below(&bed.rng, chance(50) ? KEYS : 20);
}

static void random_step(void)
{
    size_t dice = belfry_rng_below(&bed.rng, 100);
    bed.now += belfry_rng_below(&bed.rng, 20);
    if (bed.pause && chance(40))
        bed.pause = false;
    if (dice < 4 && bed.n_seats < HANDLERS)
        add(chance(50) ? 0 : 30);
    else if (dice < 6 && bed.n_seats > 0)
        remove_seat(&bed.seats[belfry_rng_below(&bed.rng, (uint64_t)bed.n_seats)]);
    else if (dice < 10 && !bed.pause)
        synced();
    else if (dice < 40 && !bed.pause)
        turn();
    else if (dice < 75 && !bed.pause)
        put(random_key());
    else if (!bed.pause)
        take(random_key());
}

static void fill_half(void)
{
    for (int key = 0; key < KEYS; key++) {
        if (chance(60))
            put(key);
    }
}

/* True: it lived to the end. */
static bool random_run(uint64_t seed, size_t *n_told)
{
    set_up();
    bed.rng.state = seed;
    if (chance(70))
        fill_half();
    bed.during = misbehave;
    add(0);
    for (int step = 0; step < STEPS && bed.audience != NULL; step++) {
        random_step();
        if (bed.audience != NULL)
            check();
    }
    bool lived = bed.audience != NULL;
    bed.during = NULL;
    bed.pause = false;
    for (int i = 0; lived && i < bed.n_seats; i++)
        bed.seats[i].answer = BELFRY_MORE;
    if (lived) {
        bed.now += 1000;
        synced();
        for (int i = 0; i < 20; i++)
            turn();
        for (int i = 0; i < bed.n_seats; i++)
            assert_true(bed.seats[i].handler == NULL || bed.seats[i].synced);
        check();
    }
    for (int i = 0; i < bed.n_seats; i++) {
        for (int kind = 0; kind <= BELFRY_NEWS_SYNCED; kind++)
            n_told[kind] += (size_t)bed.seats[i].n[kind];
    }
    tear_down();
    return lived;
}

static void whatever_happens_each_handler_holds_the_store(void **state)
{
    (void)state;
    size_t n_lived = 0, n_told[BELFRY_NEWS_END + 1] = {0};
    for (uint64_t seed = 1; seed <= SEEDS; seed++)
        n_lived += random_run(seed, n_told);
    print_message("%zu of %d lived; added %zu, updated %zu, removed %zu, synced %zu\n", n_lived, SEEDS,
                  n_told[BELFRY_NEWS_ADDED], n_told[BELFRY_NEWS_UPDATED], n_told[BELFRY_NEWS_REMOVED],
                  n_told[BELFRY_NEWS_SYNCED]);
    assert_in_range(n_lived, SEEDS / 4, SEEDS - SEEDS / 20); /* else the test does not test much */
    for (int kind = BELFRY_NEWS_ADDED; kind <= BELFRY_NEWS_SYNCED; kind++)
        assert_true(n_told[kind] > SEEDS);
}

/* ---- no memory ---- */

static enum belfry_next on_nothing(struct belfry_informer *informer, const struct belfry_news *news, void *user)
{
    (void)informer;
    (void)news;
    (void)user;
    return BELFRY_MORE;
}

static enum belfry_err use(struct belfry_store *store)
{
    struct belfry_audience *audience;
    struct belfry_handler *handler;
    bool pause = false;
    enum belfry_err err = belfry_audience_create(NULL, store, &audience);
    if (err != BELFRY_OK)
        return err;
    err = belfry_audience_add(audience, on_nothing, NULL, 10, 0, &handler);
    if (err == BELFRY_OK) {
        assert_true(belfry_audience_turn(audience, 0, &pause));
        assert_true(belfry_audience_synced(audience, &pause));
        assert_int_equal(belfry_handler_synced(handler), 1);
    }
    belfry_audience_destroy(audience);
    return err;
}

static enum belfry_err scenario(void)
{
    struct belfry_store *store;
    enum belfry_err err = belfry_store_create(&store);
    if (err != BELFRY_OK)
        return err;
    err = use(store);
    belfry_store_destroy(store);
    return err;
}

static void no_memory_is_an_error(void **state)
{
    (void)state;
    assert_int_equal(refuse_sweep(scenario), 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(the_first_handler_is_told_everything_as_it_comes, leaves_nothing),
        cmocka_unit_test_teardown(a_late_handler_walks_in_slices_and_is_told_changes_in_its_place, leaves_nothing),
        cmocka_unit_test_teardown(synced_waits_for_the_store_and_for_the_walk, leaves_nothing),
        cmocka_unit_test_teardown(a_resync_tells_everything_again_and_misses_no_change, leaves_nothing),
        cmocka_unit_test_teardown(a_pause_is_heard_after_all_were_told, leaves_nothing),
        cmocka_unit_test_teardown(a_pause_holds_a_walk_where_it_is, leaves_nothing),
        cmocka_unit_test_teardown(stop_removes_the_handler_alone, leaves_nothing),
        cmocka_unit_test_teardown(the_answer_of_one_that_removed_itself_does_not_count, leaves_nothing),
        cmocka_unit_test_teardown(who_comes_during_a_word_is_not_told_it, leaves_nothing),
        cmocka_unit_test_teardown(whatever_happens_each_handler_holds_the_store, leaves_nothing),
        cmocka_unit_test_teardown(no_memory_is_an_error, leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
