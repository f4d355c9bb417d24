#include <belfry/belfry.h>
#include <stdio.h>

static enum belfry_next show(struct belfry_watch *w, const struct belfry_batch *batch, void *user)
{
    for (const struct belfry_event *e = NULL; (e = belfry_batch_next(batch, e)) != NULL;)
        printf("%s %.*s\n", e->op == BELFRY_PUT ? "put" : "del", (int)e->key.len, e->key.data);
    if (batch->why != NULL) /* a word about the connection, or the last one */
        printf("-- %s --\n", batch->why);
    return (void)w, (void)user, BELFRY_MORE;
}

int main(int argc, char **argv)
{
    struct belfry *b = NULL;
    int err = belfry_open(argc > 1 ? argv[1] : "http://127.0.0.1:2379", NULL, &b);
    err = err ? err : belfry_follow_open(b, belfry_prefix("/services/"), NULL, show, NULL, NULL);
    err = err ? err : belfry_run(b, -1);
    return belfry_close(b), err != 0;
}
