/* belfry/adapters/glib.h: a session on GLib's main loop, and so in a GTK program. Header only: link glib-2.0 yourself.
 *
 *     struct belfry_glib on_loop;
 *     err = belfry_glib_attach(&on_loop, NULL, b, on_failed, NULL); // NULL: the default context
 *     g_main_loop_run(loop);
 *     belfry_glib_detach(&on_loop); // before belfry_close(b)
 *
 * The loop dispatches the session whenever it has work; an idle session does not wake the loop. If belfry_dispatch()
 * fails, the adapter stops watching the descriptor, which would stay readable, and calls `failed` once. `failed` may
 * detach and close the session.
 *
 * Detach before closing the session: closing it closes the descriptor, and the loop would watch whatever file gets that
 * number next. Detaching is allowed inside a callback of the session, but the storage must stay valid until the
 * loop's own event is over.
 *
 * Thread: the one that runs the context.
 */
#ifndef BELFRY_ADAPTERS_GLIB_H
#define BELFRY_ADAPTERS_GLIB_H

#include <belfry/belfry.h>
#include <glib-unix.h>
#include <glib.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef void (*belfry_glib_failed_fn)(struct belfry *b, int err, void *user);

struct belfry_glib { /* allocated by the caller; only the adapter uses the fields */
    struct belfry *session;
    GSource *source; /* NULL: detached */
    belfry_glib_failed_fn failed;
    void *user;
};

static inline gboolean belfry_glib_ready_(gint fd, GIOCondition what, gpointer user)
{
    struct belfry_glib *a = (struct belfry_glib *)user;
    (void)fd, (void)what;
    int err = belfry_dispatch(a->session);
    if (err == BELFRY_OK || a->source == NULL)
        return G_SOURCE_CONTINUE; /* GLib ignores this if the source was destroyed meanwhile */
    if (a->failed != NULL)
        a->failed(a->session, err, a->user);
    return G_SOURCE_REMOVE;
}

/* `context` NULL is the default context; `failed` may be NULL. Never fails: GLib aborts when memory runs out. */
static inline int belfry_glib_attach(struct belfry_glib *a, GMainContext *context, struct belfry *b,
                                     belfry_glib_failed_fn failed, void *user)
{
    a->session = b;
    a->failed = failed;
    a->user = user;
    a->source = g_unix_fd_source_new(belfry_fd(b), G_IO_IN);
    g_source_set_callback(a->source, G_SOURCE_FUNC(belfry_glib_ready_), a, NULL);
    g_source_attach(a->source, context);
    return BELFRY_OK;
}

/* A second call does nothing. */
static inline void belfry_glib_detach(struct belfry_glib *a)
{
    if (a->source == NULL)
        return;
    g_source_destroy(a->source);
    g_source_unref(a->source);
    a->source = NULL;
}

#ifdef __cplusplus
}
#endif
#endif
