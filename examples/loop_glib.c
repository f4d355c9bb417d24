/* A follow on GLib's main loop, until Ctrl-C.
 *
 *     loop_glib [ENDPOINTS [PREFIX]]
 */
#include <signal.h>
#include <stdio.h>

#include <belfry/adapters/glib.h>

static enum belfry_next on_batch(struct belfry_watch *watch, const struct belfry_batch *batch, void *user)
{
    (void)watch;
    for (const struct belfry_event *e = NULL; (e = belfry_batch_next(batch, e)) != NULL;)
        printf("%lld %s %.*s=%.*s\n", (long long)batch->rev, e->op == BELFRY_PUT ? "put" : "del", (int)e->key.len,
               e->key.data, (int)e->value.len, e->value.data);
    if (batch->kind == BELFRY_SYNCED)
        printf("-- %lld: all of it, live from here --\n", (long long)batch->rev);
    if (batch->kind == BELFRY_END && batch->err != BELFRY_ERR_CANCELED) {
        printf("-- the end: %s --\n", batch->why);
        g_main_loop_quit(user);
    }
    fflush(stdout);
    return BELFRY_MORE;
}

static void on_failed(struct belfry *b, int err, void *user)
{
    (void)b;
    fprintf(stderr, "loop_glib: %s\n", belfry_strerror(err));
    g_main_loop_quit(user);
}

static gboolean on_signal(gpointer user)
{
    g_main_loop_quit(user);
    return G_SOURCE_CONTINUE;
}

int main(int argc, char **argv)
{
    GMainLoop *loop = g_main_loop_new(NULL, FALSE);
    g_unix_signal_add(SIGINT, on_signal, loop);
    g_unix_signal_add(SIGTERM, on_signal, loop);

    struct belfry *b = NULL;
    struct belfry_glib on_loop = {0};
    int err = belfry_open(argc > 1 ? argv[1] : "http://127.0.0.1:2379", NULL, &b);
    if (!err)
        err = belfry_follow_open(b, belfry_prefix(argc > 2 ? argv[2] : "/services/"), NULL, on_batch, loop, NULL);
    if (!err)
        err = belfry_glib_attach(&on_loop, NULL, b, on_failed, loop);
    if (!err)
        g_main_loop_run(loop);
    else
        fprintf(stderr, "loop_glib: %s\n", belfry_why(b));

    belfry_glib_detach(&on_loop);
    belfry_close(b);
    g_main_loop_unref(loop);
    return err != 0;
}
