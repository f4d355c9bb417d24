/* src/informer/source_resource_test.c: informers on a resource, several on one client, against a scripted server:
 * what callbacks may do, how a pause affects a wait, what is reported if the server does not answer. Which requests
 * they send, and when, is in behaviour_reflector_test.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/kubebed.h"

#define LISTED PAIRS("watch-list", "false")

/* ---- listeners that do something in their n-th callback ---- */

struct listener;
typedef enum belfry_next (*act_fn)(struct listener *listener);

struct listener {
    struct belfry_informer *informer; /* NULL: gone */
    struct belfry_handler *late;      /* a second handler; NULL: none */
    struct known known;
    act_fn act;
    int at, n; /* in this call of it; calls so far */
    bool acted, over, paused;
};

static struct listener listeners[3];
static bool inside; /* belfry_dispatch(), or a close */

static enum belfry_next on_told(struct belfry_informer *informer, const struct belfry_news *news, void *user)
{
    struct listener *l = user;
    enum belfry_next next = BELFRY_MORE;
    assert_true(inside);
    assert_false(l->over);
    assert_ptr_equal(l->informer, informer);
    const char *wrong = known_judge(&l->known, informer, news);
    if (bed.wrong == NULL)
        bed.wrong = wrong;
    l->over = news->kind == BELFRY_NEWS_END;
    if (l->act != NULL && l->n++ == l->at) {
        l->acted = true;
        next = l->act(l);
    }
    if (l->over)
        l->informer = NULL;
    l->paused = next == BELFRY_PAUSE;
    return next;
}

static int open_listener(struct listener *l, const char *const *pairs)
{
    struct belfry_opts *opts = NULL;
    int err = (int)set_all(&opts, pairs);
    if (err == BELFRY_OK)
        err = belfry_informer_resource(bed.kube, PODS, opts, on_told, l, &l->informer);
    belfry_opts_free(opts);
    return err;
}

static void close_listener(struct listener *l)
{
    struct belfry_informer *informer = l->informer;
    l->informer = NULL;
    l->over = true;
    belfry_informer_close(informer);
}

static enum belfry_next closes_itself(struct listener *l)
{
    struct belfry_informer *informer = l->informer;
    l->over = true;
    belfry_informer_close(informer);
    belfry_informer_close(informer);  /* it is on the stack */
    belfry_informer_resume(informer); /* and none of this comes to anything */
    assert_int_equal(belfry_informer_add(informer, NULL, on_told, l, NULL), BELFRY_ERR_CANCELED);
    return BELFRY_PAUSE;
}

static enum belfry_next closes_the_other(struct listener *l)
{
    (void)l;
    if (!listeners[1].over)
        close_listener(&listeners[1]);
    return BELFRY_MORE;
}

static enum belfry_next opens_another(struct listener *l)
{
    (void)l;
    int err = open_listener(&listeners[2], LISTED);
    assert_true(err == BELFRY_OK || err == BELFRY_ERR_CANCELED); /* the client is being closed */
    return BELFRY_MORE;
}

static enum belfry_next stops(struct listener *l)
{
    l->over = true; /* the informer goes on without a handler, and nobody closes it */
    return BELFRY_STOP;
}

static enum belfry_next pauses(struct listener *l)
{
    (void)l;
    return BELFRY_PAUSE;
}

static enum belfry_next is_silent(struct belfry_informer *informer, const struct belfry_news *news, void *user)
{
    (void)informer;
    (void)news;
    (void)user;
    return BELFRY_MORE;
}

static enum belfry_next adds_and_removes(struct listener *l)
{
    struct belfry_handler *handler;
    int err = belfry_informer_add(l->informer, NULL, is_silent, NULL, &handler);
    assert_int_equal(err, l->over ? BELFRY_ERR_CANCELED : BELFRY_OK);
    if (err == BELFRY_OK)
        belfry_handler_remove(handler);
    return BELFRY_MORE;
}

static const act_fn acts[] = {closes_itself, closes_the_other, opens_another, stops, pauses, adds_and_removes};

/* ---- a server that has a bit of everything ---- */

/* A state in a stream that goes on, is broken off in the middle, or expires, or as a list, by turns. Versions grow. */
static void serve(void)
{
    static uint64_t version = 100;
    struct scriptpeer_conn *conn = scriptpeer_asked(&bed.peer);
    if (conn == NULL)
        return;
    version += 10;
    if (!is_watch(conn)) {
        scriptpeer_answer(conn, "200 OK", JSON,
                          list_of(number(version), two(pod("a", number(version)), pod("c", "6"))));
        return;
    }
    scriptpeer_begin(conn, "200 OK", JSON);
    scriptpeer_chunk(conn, added("a", number(version + 1)));
    if (version % 40 == 0) {
        scriptpeer_cut(conn);
        return;
    }
    scriptpeer_chunk(conn, text("%s%s", added("b", number(version + 2)), initial_end(number(version + 3))));
    scriptpeer_chunk(conn, text("%s%s", modified("a", number(version + 4)), deleted("b", number(version + 5))));
    if (version % 30 == 0)
        scriptpeer_chunk(conn, event("ERROR", status(410, "Expired")));
    if (version % 20 == 0)
        scriptpeer_end(conn);
}

static void step(void)
{
    inside = true;
    turn_for(1);
    inside = false;
    serve();
}

static void forget_listeners(void)
{
    for (size_t i = 0; i < 3; i++)
        known_free(&listeners[i].known);
    memset(listeners, 0, sizeof(listeners));
}

/* Two informers on a client, of which the first acts in its n-th callback; then the session is closed. */
static bool acted_in(act_fn act, int nth)
{
    forget_listeners();
    listeners[0].act = act;
    listeners[0].at = nth;
    assert_int_equal(open_kube(NO_PAIRS), BELFRY_OK);
    assert_int_equal(open_listener(&listeners[0], NO_PAIRS), BELFRY_OK);
    assert_int_equal(open_listener(&listeners[1], LISTED), BELFRY_OK);
    for (int i = 0; i < 12; i++) {
        step();
        if (listeners[0].paused && !listeners[0].over && i % 3 == 0) {
            listeners[0].paused = false;
            belfry_informer_resume(listeners[0].informer);
        }
    }
    inside = true;
    if (nth % 2 == 0)
        belfry_kube_close(bed.kube); /* informers that are opened in their END are refused */
    belfry_close(bed.session);
    inside = false;
    bed.session = NULL;
    bed.kube = NULL;
    for (size_t i = 0; i < 3; i++)
        assert_true(listeners[i].over || listeners[i].informer == NULL);
    for (size_t i = 0; i < SCRIPTPEER_CONNS; i++)
        scriptpeer_hang_up(&bed.peer.conns[i]);
    return listeners[0].acted;
}

static void a_callback_may_do_anything_in_any_of_its_calls(void **state)
{
    (void)state;
    close_session();
    for (size_t act = 0; act < sizeof(acts) / sizeof(acts[0]); act++) {
        int n = 0;
        for (int nth = 0; nth < 14; nth++) /* what comes when is not the same each time */
            n += acted_in(acts[act], nth);
        assert_true(n >= 6);
        forget_listeners();
        if (refuse_held() != bed.held)
            fail_msg("act %zu: %zd blocks leaked", act, (ssize_t)(refuse_held() - bed.held));
    }
}

/* ---- the status line ---- */

static void a_server_that_does_not_answer_is_told_while_it_is_tried_again(void **state)
{
    (void)state;
    open_kube_again(PAIRS("command-timeout", "200ms"));
    start_informer(LISTED);
    next_request();
    drive_until(strstr(bed.links, "no answer came in time") != NULL);
    assert_true(belfry_kube_get_stats(bed.kube)->retries >= 1);
    struct scriptpeer_conn *conn = next_request();
    scriptpeer_answer(conn, "200 OK", JSON, list_of("10", ""));
    drive_until(strstr(bed.links, "no answer came in time; connected to") != NULL);
}

/* ---- pauses ---- */

static enum belfry_next pauses_at_first(struct belfry_informer *informer, const struct belfry_news *news, void *user)
{
    bool *paused = user;
    (void)informer;
    (void)news;
    if (*paused)
        return BELFRY_MORE;
    *paused = true;
    return BELFRY_PAUSE;
}

static void a_pause_does_not_shorten_the_wait_that_the_server_asked_for(void **state)
{
    (void)state;
    bool paused = false;
    start_informer(LISTED);
    struct scriptpeer_conn *conn = list_and_watch("10", pod("a", "5"));
    scriptpeer_answer(conn, "429 Too Many Requests", "Retry-After: 2\r\n" JSON, status(429, "TooManyRequests"));
    drive_until(belfry_kube_get_stats(bed.kube)->retries == 1);
    uint64_t began = belfry_clock_ms();
    assert_int_equal(belfry_informer_add(bed.informer, NULL, pauses_at_first, &paused, NULL), BELFRY_OK);
    drive_until(paused);
    drive_for(50);
    belfry_informer_resume(bed.informer);
    next_request();
    assert_in_range(belfry_clock_ms() - began, 1900, 4000);
    close_session(); /* with the listener on this stack */
    assert_int_equal(open_kube(NO_PAIRS), BELFRY_OK);
}

static void a_watch_that_ends_during_a_pause_goes_on_after_it(void **state)
{
    (void)state;
    struct scriptpeer_conn *conn = listed_and_watching("10", pod("a", "5"));
    bed.next = BELFRY_PAUSE;
    scriptpeer_chunk(conn, text("%s%s", modified("a", "11"), modified("a", "12")));
    assert_note(BELFRY_NEWS_UPDATED, "x/a", "11");
    scriptpeer_end(conn);
    scriptpeer_hang_up(conn);
    no_note_for(50);
    assert_int_equal(belfry_informer_get_stats(bed.informer)->watches, 1);
    belfry_informer_resume(bed.informer);
    assert_note(BELFRY_NEWS_UPDATED, "x/a", "12");
    conn = next_request();
    assert_true(is_watch(conn));
    assert_query(conn, "resourceVersion", "12");
}

/* ---- out of memory ---- */

static bool is_synced_twice(void)
{
    int n = 0;
    for (size_t i = 0; i < bed.n_notes; i++) {
        n += bed.notes[i].kind == BELFRY_NEWS_SYNCED;
        if (bed.notes[i].kind == BELFRY_NEWS_END)
            return true;
    }
    return n >= 2;
}

static void answer_life(struct scriptpeer_conn *conn)
{
    char version[32];
    bool first = !scriptpeer_query(conn, "resourceVersion", version, sizeof(version));
    scriptpeer_begin(conn, "200 OK", JSON);
    scriptpeer_chunk(conn, added("a", first ? "5" : "30"));
    scriptpeer_chunk(conn, text("%s%s", first ? added("b", "6") : "", initial_end(first ? "20" : "40")));
    scriptpeer_chunk(conn, modified("a", first ? "21" : "41"));
    if (first)
        scriptpeer_chunk(conn, event("ERROR", status(410, "Expired")));
    scriptpeer_end(conn);
}

/* The state is streamed, the version expires, the state is streamed again without one of the objects. */
static enum belfry_err life(void)
{
    bed.n_notes = bed.n_taken = 0;
    enum belfry_err err = open_kube(NO_PAIRS);
    if (err == BELFRY_OK)
        err = (enum belfry_err)belfry_informer_resource(bed.kube, PODS, NULL, on_news, NULL, &bed.informer);
    uint64_t until = belfry_clock_ms() + 40; /* what waits to be tried again is not waited for */
    while (err == BELFRY_OK && !is_synced_twice() && belfry_clock_ms() < until) {
        turn_for(1);
        struct scriptpeer_conn *conn = scriptpeer_asked(&bed.peer);
        if (conn != NULL && is_watch_list(conn))
            answer_life(conn);
    }
    return end_life(err);
}

static void no_memory_is_an_end_or_another_try(void **state)
{
    (void)state;
    close_session();
    assert_true(refuse_sweep(life) >= 20);
}

#define row(name) cmocka_unit_test_setup_teardown(name, setup_bed, teardown_bed)

int main(void)
{
    const struct CMUnitTest tests[] = {
        row(a_callback_may_do_anything_in_any_of_its_calls),
        row(a_server_that_does_not_answer_is_told_while_it_is_tried_again),
        row(a_pause_does_not_shorten_the_wait_that_the_server_asked_for),
        row(a_watch_that_ends_during_a_pause_goes_on_after_it),
        row(no_memory_is_an_end_or_another_try),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
