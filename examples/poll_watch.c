/* A watch beside something else in one poll(2) loop: changes under a prefix, and a line "quit" on standard input.
 *
 *     poll_watch [ENDPOINTS [PREFIX]]
 */
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include <belfry/belfry.h>

static enum belfry_next on_batch(struct belfry_watch *watch, const struct belfry_batch *batch, void *user)
{
    (void)watch;
    for (const struct belfry_event *e = NULL; (e = belfry_batch_next(batch, e)) != NULL;)
        printf("%lld %s %.*s=%.*s\n", (long long)batch->rev, e->op == BELFRY_PUT ? "put" : "del", (int)e->key.len,
               e->key.data, (int)e->value.len, e->value.data);
    if (batch->kind == BELFRY_LINK)
        printf("-- %s --\n", batch->why);
    if (batch->kind == BELFRY_END) {
        printf("-- the watch has ended: %s --\n", batch->why);
        *(int *)user = 1;
    }
    fflush(stdout);
    return BELFRY_MORE;
}

static int said_quit(void)
{
    char line[128];
    return fgets(line, sizeof(line), stdin) == NULL || strcmp(line, "quit\n") == 0;
}

int main(int argc, char **argv)
{
    struct belfry *b = NULL;
    int ended = 0;
    int err = belfry_open(argc > 1 ? argv[1] : "http://127.0.0.1:2379", NULL, &b);
    if (err == BELFRY_OK)
        err = belfry_watch_open(b, belfry_prefix(argc > 2 ? argv[2] : "/services/"), NULL, on_batch, &ended, NULL);

    setvbuf(stdin, NULL, _IONBF, 0); /* poll sees what the kernel holds, not what stdio has read ahead */
    while (err == BELFRY_OK && !ended) {
        struct pollfd fds[2];
        fds[0].fd = belfry_fd(b); /* one descriptor, the same for the life of the session; timers are behind it too */
        fds[1].fd = 0;
        fds[0].events = fds[1].events = POLLIN;
        if (poll(fds, 2, -1) < 0)
            continue;
        if (fds[0].revents != 0)
            err = belfry_dispatch(b);
        if (fds[1].revents != 0 && said_quit())
            break;
    }
    if (err != BELFRY_OK)
        fprintf(stderr, "poll_watch: %s\n", belfry_why(b));
    belfry_close(b);
    return err != BELFRY_OK;
}
