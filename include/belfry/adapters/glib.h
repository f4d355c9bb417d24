/* belfry/adapters/glib.h: a session on GLib's main loop, and so in a GTK program. Header only: link glib-2.0 yourself.
 *
 *     struct belfry_glib on_loop;
 *     err = belfry_glib_attach(&on_loop, NULL, b, on_failed, NULL); // NULL: the default context
 *     g_main_loop_run(loop);
 *     belfry_glib_detach(&on_loop); // before belfry_close(b)
 *
 * Whenever the session has work, the loop dispatches it; idle, it does not wake the loop. When belfry_dispatch() fails,
 * the descriptor is watched no longer, since it would stay readable for ever, and `failed` is called, once; it may
 * detach and close the session.
 *
 * Detach before the session is closed: closing it closes the descriptor, and the loop would go on with whatever gets
 * its number next. Inside a callback of the session detaching is fine; the storage must stay until the loop's own event
 * is over. Thread: the one that runs the context.
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

struct belfry_glib { /* the caller's storage; the fields are the adapter's */
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
        return G_SOURCE_CONTINUE; /* of a source that was destroyed meanwhile GLib does not look at it */
    if (a->failed != NULL)
        a->failed(a->session, err, a->user);
    return G_SOURCE_REMOVE;
}

/* `context` NULL is the default one; `failed` may be NULL. It never fails: GLib ends the program when memory does. */
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

/* Again is fine. */
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
