/* The adapters of include/belfry/adapters on their real loops, with a session that is played here: a pipe for its
 * descriptor, and a dispatch that does as it is told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include <belfry/adapters/glib.h>
#include <belfry/adapters/libevent.h>
#include <belfry/adapters/libuv.h>
#include <belfry/adapters/sd-event.h>

/* ---- the session ---- */

enum inside { NOTHING, DETACH };

struct belfry {
    int fds[2];
    bool drains;         /* dispatch reads what is there */
    int answer;          /* of dispatch */
    enum inside inside;  /* what happens in a callback of the session */
    enum inside failing; /* what happens in `failed` */
    int n_dispatched;
    int n_failed;
    int failed_with;
};

static void detach_one(struct belfry *b);

int belfry_fd(const struct belfry *b)
{
    return b->fds[0];
}

int belfry_dispatch(struct belfry *b)
{
    char byte;
    b->n_dispatched++;
    if (b->drains)
        assert_int_equal(read(b->fds[0], &byte, 1), 1);
    if (b->inside == DETACH)
        detach_one(b);
    return b->answer;
}

static void on_failed(struct belfry *b, int err, void *user)
{
    assert_ptr_equal(user, &b->fds);
    b->n_failed++;
    b->failed_with = err;
    if (b->failing == DETACH)
        detach_one(b);
}

/* ---- the loops ---- */

struct bench {
    struct belfry session;
    const struct loop *loop;
    struct event_base *event_base;
    struct belfry_libevent libevent;
    GMainContext *context;
    struct belfry_glib glib;
    uv_loop_t uv;
    struct belfry_libuv libuv;
    int n_closed;
    sd_event *sd;
    struct belfry_sd_event sd_event;
};

struct loop {
    const char *name;
    int (*attach)(struct bench *t);
    void (*detach)(struct bench *t);
    void (*turn)(struct bench *t); /* one turn that does not wait */
    void (*end)(struct bench *t);
};

static int libevent_attach(struct bench *t)
{
    t->event_base = event_base_new();
    return belfry_libevent_attach(&t->libevent, t->event_base, &t->session, on_failed, &t->session.fds);
}

static void libevent_detach(struct bench *t)
{
    belfry_libevent_detach(&t->libevent);
}

static void libevent_turn(struct bench *t)
{
    event_base_loop(t->event_base, EVLOOP_NONBLOCK);
}

static void libevent_end(struct bench *t)
{
    event_base_free(t->event_base);
}

static int glib_attach(struct bench *t)
{
    t->context = g_main_context_new();
    return belfry_glib_attach(&t->glib, t->context, &t->session, on_failed, &t->session.fds);
}

static void glib_detach(struct bench *t)
{
    belfry_glib_detach(&t->glib);
}

static void glib_turn(struct bench *t)
{
    g_main_context_iteration(t->context, FALSE);
}

static void glib_end(struct bench *t)
{
    g_main_context_unref(t->context);
}

static void on_closed(struct belfry_libuv *a)
{
    struct bench *t = (struct bench *)((char *)a - offsetof(struct bench, libuv));
    t->n_closed++;
}

static int libuv_attach(struct bench *t)
{
    uv_loop_init(&t->uv);
    return belfry_libuv_attach(&t->libuv, &t->uv, &t->session, on_failed, &t->session.fds);
}

static void libuv_detach(struct bench *t)
{
    belfry_libuv_detach(&t->libuv, on_closed);
}

static void libuv_turn(struct bench *t)
{
    uv_run(&t->uv, UV_RUN_NOWAIT);
}

static void libuv_end(struct bench *t)
{
    uv_run(&t->uv, UV_RUN_NOWAIT);
    assert_int_equal(t->n_closed, 1);
    assert_int_equal(uv_loop_close(&t->uv), 0);
}

static int sd_attach(struct bench *t)
{
    assert_true(sd_event_new(&t->sd) >= 0);
    return belfry_sd_event_attach(&t->sd_event, t->sd, &t->session, on_failed, &t->session.fds);
}

static void sd_detach(struct bench *t)
{
    belfry_sd_event_detach(&t->sd_event);
}

static void sd_turn(struct bench *t)
{
    assert_true(sd_event_run(t->sd, 0) >= 0);
}

static void sd_end(struct bench *t)
{
    sd_event_unref(t->sd);
}

static const struct loop loops[] = {
    {"libevent", libevent_attach, libevent_detach, libevent_turn, libevent_end},
    {"glib", glib_attach, glib_detach, glib_turn, glib_end},
    {"libuv", libuv_attach, libuv_detach, libuv_turn, libuv_end},
    {"sd-event", sd_attach, sd_detach, sd_turn, sd_end},
};

static void detach_one(struct belfry *b)
{
    struct bench *t = (struct bench *)((char *)b - offsetof(struct bench, session));
    t->loop->detach(t);
}

/* ---- tests: each on every loop ---- */

static void begin(struct bench *t, const struct loop *loop)
{
    *t = (struct bench){.loop = loop};
    assert_int_equal(pipe(t->session.fds), 0);
    assert_int_equal(loop->attach(t), BELFRY_OK);
}

static void turns(struct bench *t, int n)
{
    while (n-- > 0)
        t->loop->turn(t);
}

static void end(struct bench *t)
{
    t->loop->detach(t);
    t->loop->detach(t); /* again is fine */
    close(t->session.fds[0]);
    close(t->session.fds[1]);
    t->loop->end(t);
}

static void poke(struct bench *t)
{
    assert_int_equal(write(t->session.fds[1], "x", 1), 1);
}

static void idle_session_is_not_dispatched(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(loops) / sizeof(*loops); i++) {
        struct bench t;
        begin(&t, &loops[i]);
        turns(&t, 3);
        assert_int_equal(t.session.n_dispatched, 0);
        end(&t);
    }
}

static void session_with_work_is_dispatched_until_it_is_done(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(loops) / sizeof(*loops); i++) {
        struct bench t;
        begin(&t, &loops[i]);
        t.session.drains = true;
        poke(&t);
        poke(&t);
        turns(&t, 6);
        assert_int_equal(t.session.n_dispatched, 2);
        poke(&t);
        turns(&t, 3);
        assert_int_equal(t.session.n_dispatched, 3);
        assert_int_equal(t.session.n_failed, 0);
        end(&t);
    }
}

static void failed_dispatch_is_told_once_and_the_loop_does_not_spin(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(loops) / sizeof(*loops); i++) {
        struct bench t;
        begin(&t, &loops[i]);
        t.session.answer = BELFRY_ERR_IO;
        poke(&t);
        turns(&t, 5);
        assert_int_equal(t.session.n_dispatched, 1);
        assert_int_equal(t.session.n_failed, 1);
        assert_int_equal(t.session.failed_with, BELFRY_ERR_IO);
        end(&t);
    }
}

static void detaching_inside_a_callback_of_the_session_ends_it(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(loops) / sizeof(*loops); i++) {
        struct bench t;
        begin(&t, &loops[i]);
        t.session.inside = DETACH;
        t.session.answer = BELFRY_ERR_IO; /* nobody is told any more */
        poke(&t);
        turns(&t, 5);
        assert_int_equal(t.session.n_dispatched, 1);
        assert_int_equal(t.session.n_failed, 0);
        end(&t);
    }
}

static void detaching_when_told_of_a_failure_is_fine(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(loops) / sizeof(*loops); i++) {
        struct bench t;
        begin(&t, &loops[i]);
        t.session.answer = BELFRY_ERR_IO;
        t.session.failing = DETACH;
        poke(&t);
        turns(&t, 5);
        assert_int_equal(t.session.n_dispatched, 1);
        assert_int_equal(t.session.n_failed, 1);
        end(&t);
    }
}

static void session_may_be_closed_once_detached(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(loops) / sizeof(*loops); i++) {
        struct bench t;
        begin(&t, &loops[i]);
        poke(&t);
        t.loop->detach(&t);
        close(t.session.fds[0]); /* as belfry_close() does; the number is free for something else */
        close(t.session.fds[1]);
        assert_int_equal(pipe(t.session.fds), 0);
        poke(&t);
        turns(&t, 3);
        assert_int_equal(t.session.n_dispatched, 0);
        end(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(idle_session_is_not_dispatched),
        cmocka_unit_test(session_with_work_is_dispatched_until_it_is_done),
        cmocka_unit_test(failed_dispatch_is_told_once_and_the_loop_does_not_spin),
        cmocka_unit_test(detaching_inside_a_callback_of_the_session_ends_it),
        cmocka_unit_test(detaching_when_told_of_a_failure_is_fine),
        cmocka_unit_test(session_may_be_closed_once_detached),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
