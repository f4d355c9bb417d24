/* belfry/adapters/libuv.h: a session on your libuv loop. Header only: link libuv yourself.
 *
 *     struct belfry_libuv on_loop;
 *     err = belfry_libuv_attach(&on_loop, uv_default_loop(), b, on_failed, NULL);
 *     uv_run(uv_default_loop(), UV_RUN_DEFAULT);
 *
 *     belfry_libuv_detach(&on_loop, NULL); // then belfry_close(b), then one turn of the loop to close the handle
 *
 * The loop dispatches the session whenever it has work; an idle session does not wake the loop. If belfry_dispatch()
 * fails, the adapter stops watching the descriptor, which would stay readable, and calls `failed` once. `failed` may
 * detach and close the session.
 *
 * Detach before closing the session: closing it closes the descriptor, and the loop would watch whatever file gets that
 * number next. Detaching is allowed inside a callback of the session. The storage must stay valid until `closed` was
 * called, in the loop's next turn. While attached, the adapter keeps uv_run() from returning; to prevent that, call
 * uv_unref((uv_handle_t *)&on_loop.poll).
 *
 * Thread: the one that runs the loop.
 */
#ifndef BELFRY_ADAPTERS_LIBUV_H
#define BELFRY_ADAPTERS_LIBUV_H

#include <belfry/belfry.h>
#include <uv.h>

#ifdef __cplusplus
extern "C" {
#endif

struct belfry_libuv;
typedef void (*belfry_libuv_failed_fn)(struct belfry *b, int err, void *user);
typedef void (*belfry_libuv_closed_fn)(struct belfry_libuv *a);

struct belfry_libuv { /* allocated by the caller; only the adapter uses the fields */
    uv_poll_t poll;
    struct belfry *session; /* NULL: detached */
    belfry_libuv_failed_fn failed;
    void *user;
    belfry_libuv_closed_fn closed;
};

static inline void belfry_libuv_ready_(uv_poll_t *poll, int status, int events)
{
    struct belfry_libuv *a = (struct belfry_libuv *)poll->data;
    (void)events;
    int err = status < 0 ? BELFRY_ERR_IO : belfry_dispatch(a->session);
    if (err == BELFRY_OK || a->session == NULL)
        return;
    uv_poll_stop(&a->poll);
    if (a->failed != NULL)
        a->failed(a->session, err, a->user);
}

static inline void belfry_libuv_closed_(uv_handle_t *handle)
{
    struct belfry_libuv *a = (struct belfry_libuv *)handle->data;
    if (a->closed != NULL)
        a->closed(a);
}

/* `failed` may be NULL. Errors: BELFRY_ERR_IO (the loop does not accept the descriptor). */
static inline int belfry_libuv_attach(struct belfry_libuv *a, uv_loop_t *loop, struct belfry *b,
                                      belfry_libuv_failed_fn failed, void *user)
{
    a->session = NULL;
    a->failed = failed;
    a->user = user;
    a->closed = NULL;
    if (uv_poll_init(loop, &a->poll, belfry_fd(b)) != 0)
        return BELFRY_ERR_IO;
    a->poll.data = a;
    a->session = b;
    uv_poll_start(&a->poll, UV_READABLE, belfry_libuv_ready_); /* fails only for a handle that is being closed */
    return BELFRY_OK;
}

/* `closed` may be NULL: then the storage must outlive the loop's next turn. A second call does nothing. */
static inline void belfry_libuv_detach(struct belfry_libuv *a, belfry_libuv_closed_fn closed)
{
    if (a->session == NULL)
        return;
    a->session = NULL;
    a->closed = closed;
    uv_close((uv_handle_t *)&a->poll, belfry_libuv_closed_);
}

#ifdef __cplusplus
}
#endif
#endif
