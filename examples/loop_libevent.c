/* A follow on libevent's loop, until Ctrl-C.
 *
 *     loop_libevent [ENDPOINTS [PREFIX]]
 */
#include <signal.h>
#include <stdio.h>

#include <belfry/adapters/libevent.h>

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
        event_base_loopbreak(user);
    }
    fflush(stdout);
    return BELFRY_MORE;
}

static void on_failed(struct belfry *b, int err, void *user)
{
    (void)b;
    fprintf(stderr, "loop_libevent: %s\n", belfry_strerror(err));
    event_base_loopbreak(user);
}

static void on_signal(evutil_socket_t signo, short what, void *user)
{
    (void)signo, (void)what;
    event_base_loopbreak(user);
}

int main(int argc, char **argv)
{
    struct event_base *base = event_base_new();
    struct event *interrupt = base ? evsignal_new(base, SIGINT, on_signal, base) : NULL;
    struct event *terminate = base ? evsignal_new(base, SIGTERM, on_signal, base) : NULL;
    if (interrupt == NULL || terminate == NULL || event_add(interrupt, NULL) || event_add(terminate, NULL))
        return 1;

    struct belfry *b = NULL;
    struct belfry_libevent on_loop = {0};
    int err = belfry_open(argc > 1 ? argv[1] : "http://127.0.0.1:2379", NULL, &b);
    if (!err)
        err = belfry_follow_open(b, belfry_prefix(argc > 2 ? argv[2] : "/services/"), NULL, on_batch, base, NULL);
    if (!err)
        err = belfry_libevent_attach(&on_loop, base, b, on_failed, base);
    if (!err)
        event_base_dispatch(base);
    else
        fprintf(stderr, "loop_libevent: %s\n", belfry_why(b));

    belfry_libevent_detach(&on_loop);
    belfry_close(b);
    event_free(interrupt);
    event_free(terminate);
    event_base_free(base);
    return err != 0;
}
