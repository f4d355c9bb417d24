/* A follow on a libuv loop, until Ctrl-C.
 *
 *     loop_libuv [ENDPOINTS [PREFIX]]
 */
#define _POSIX_C_SOURCE 200809L /* for programs that are built as plain C99 */

#include <signal.h>
#include <stdio.h>

#include <belfry/adapters/libuv.h>

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
        uv_stop(user);
    }
    fflush(stdout);
    return BELFRY_MORE;
}

static void on_failed(struct belfry *b, int err, void *user)
{
    (void)b;
    fprintf(stderr, "loop_libuv: %s\n", belfry_strerror(err));
    uv_stop(user);
}

static void on_signal(uv_signal_t *handle, int signo)
{
    (void)signo;
    uv_stop(handle->loop);
}

int main(int argc, char **argv)
{
    uv_loop_t loop;
    uv_signal_t interrupt, terminate;
    if (uv_loop_init(&loop) || uv_signal_init(&loop, &interrupt) || uv_signal_init(&loop, &terminate) ||
        uv_signal_start(&interrupt, on_signal, SIGINT) || uv_signal_start(&terminate, on_signal, SIGTERM))
        return 1;

    struct belfry *b = NULL;
    struct belfry_libuv on_loop = {.session = NULL};
    int err = belfry_open(argc > 1 ? argv[1] : "http://127.0.0.1:2379", NULL, &b);
    if (!err)
        err = belfry_follow_open(b, belfry_prefix(argc > 2 ? argv[2] : "/services/"), NULL, on_batch, &loop, NULL);
    if (!err)
        err = belfry_libuv_attach(&on_loop, &loop, b, on_failed, &loop);
    if (!err)
        uv_run(&loop, UV_RUN_DEFAULT);
    else
        fprintf(stderr, "loop_libuv: %s\n", belfry_why(b));

    belfry_libuv_detach(&on_loop, NULL);
    belfry_close(b);
    uv_close((uv_handle_t *)&interrupt, NULL);
    uv_close((uv_handle_t *)&terminate, NULL);
    uv_run(&loop, UV_RUN_DEFAULT); /* handles close in this turn */
    return uv_loop_close(&loop) != 0 || err != 0;
}
