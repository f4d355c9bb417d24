/* belfry/adapters/libevent.h: a session on libevent's loop. Header only: link libevent (event_core is enough) yourself.
 *
 *     struct belfry_libevent on_loop;
 *     err = belfry_libevent_attach(&on_loop, base, b, on_failed, NULL);
 *     event_base_dispatch(base);
 *     belfry_libevent_detach(&on_loop); // before belfry_close(b)
 *
 * The loop dispatches the session whenever it has work; an idle session does not wake the loop. If belfry_dispatch()
 * fails, the adapter stops watching the descriptor, which would stay readable, and calls `failed` once. `failed` may
 * detach and close the session.
 *
 * Detach before closing the session: closing it closes the descriptor, and the loop would watch whatever file gets that
 * number next. Detaching is allowed inside a callback of the session, but the storage must stay valid until the
 * loop's own event is over.
 *
 * Thread: the one that runs the loop.
 */
#ifndef BELFRY_ADAPTERS_LIBEVENT_H
#define BELFRY_ADAPTERS_LIBEVENT_H

#include <belfry/belfry.h>
#include <event2/event.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef void (*belfry_libevent_failed_fn)(struct belfry *b, int err, void *user);

struct belfry_libevent { /* allocated by the caller; only the adapter uses the fields */
    struct belfry *session;
    struct event *event; /* NULL: detached */
    belfry_libevent_failed_fn failed;
    void *user;
};

static inline void belfry_libevent_ready_(evutil_socket_t fd, short what, void *user)
{
    struct belfry_libevent *a = (struct belfry_libevent *)user;
    (void)fd, (void)what;
    int err = belfry_dispatch(a->session);
    if (err == BELFRY_OK || a->event == NULL)
        return;
    event_del(a->event);
    if (a->failed != NULL)
        a->failed(a->session, err, a->user);
}

/* `failed` may be NULL. Errors: BELFRY_ERR_NOMEM, BELFRY_ERR_IO (the loop does not accept the descriptor). */
static inline int belfry_libevent_attach(struct belfry_libevent *a, struct event_base *base, struct belfry *b,
                                         belfry_libevent_failed_fn failed, void *user)
{
    a->session = b;
    a->failed = failed;
    a->user = user;
    a->event = event_new(base, belfry_fd(b), EV_READ | EV_PERSIST, belfry_libevent_ready_, a);
    if (a->event == NULL)
        return BELFRY_ERR_NOMEM;
    if (event_add(a->event, NULL) == 0)
        return BELFRY_OK;
    event_free(a->event);
    a->event = NULL;
    return BELFRY_ERR_IO;
}

/* A second call does nothing. */
static inline void belfry_libevent_detach(struct belfry_libevent *a)
{
    if (a->event != NULL)
        event_free(a->event);
    a->event = NULL;
}

#ifdef __cplusplus
}
#endif
#endif
