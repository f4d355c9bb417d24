/* A follow on systemd's event loop, until Ctrl-C.
 *
 *     loop_sd_event [ENDPOINTS [PREFIX]]
 */
#define _POSIX_C_SOURCE 200809L /* for programs that are built as plain C99 */

#include <signal.h>
#include <stdio.h>

#include <belfry/adapters/sd-event.h>

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
        sd_event_exit(user, 1);
    }
    fflush(stdout);
    return BELFRY_MORE;
}

static void on_failed(struct belfry *b, int err, void *user)
{
    (void)b;
    fprintf(stderr, "loop_sd_event: %s\n", belfry_strerror(err));
    sd_event_exit(user, 1);
}

int main(int argc, char **argv)
{
    sigset_t signals; /* blocked, so that the loop receives them; without a handler they end it */
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    sigprocmask(SIG_BLOCK, &signals, NULL);

    sd_event *event = NULL;
    if (sd_event_default(&event) < 0 || sd_event_add_signal(event, NULL, SIGINT, NULL, NULL) < 0 ||
        sd_event_add_signal(event, NULL, SIGTERM, NULL, NULL) < 0)
        return 1;

    struct belfry *b = NULL;
    struct belfry_sd_event on_loop = {0};
    int status = 1;
    int err = belfry_open(argc > 1 ? argv[1] : "http://127.0.0.1:2379", NULL, &b);
    if (!err)
        err = belfry_follow_open(b, belfry_prefix(argc > 2 ? argv[2] : "/services/"), NULL, on_batch, event, NULL);
    if (!err)
        err = belfry_sd_event_attach(&on_loop, event, b, on_failed, event);
    if (!err)
        status = sd_event_loop(event);
    else
        fprintf(stderr, "loop_sd_event: %s\n", belfry_why(b));

    belfry_sd_event_detach(&on_loop);
    belfry_close(b);
    sd_event_unref(event);
    return status != 0;
}
