#include <belfry/belfry.h>
#include <stdio.h>

static enum belfry_next on_batch(struct belfry_watch *watch, const struct belfry_batch *batch, void *user)
{
    (void)watch;
    (void)user;
    for (const struct belfry_event *e = NULL; (e = belfry_batch_next(batch, e)) != NULL;)
        printf("%s %.*s\n", e->op == BELFRY_PUT ? "put" : "del", (int)e->key.len, e->key.data);
    if (batch->why != NULL) /* the connection came or went, or the follow has ended */
        printf("-- %s --\n", batch->why);
    return BELFRY_MORE;
}

int main(int argc, char **argv)
{
    const char *endpoints = argc > 1 ? argv[1] : "http://127.0.0.1:2379";
    struct belfry *b = NULL;
    int err = belfry_open(endpoints, NULL, &b);
    if (!err)
        err = belfry_follow_open(b, belfry_prefix("/services/"), NULL, on_batch, NULL, NULL);
    if (!err)
        err = belfry_run(b, -1);
    if (err)
        fprintf(stderr, "follow: %s\n", belfry_why(b));
    belfry_close(b);
    return err != 0;
}
