#include <belfry/belfry.h>
#include <stdio.h>
static enum belfry_next show(struct belfry_watch *w, const struct belfry_batch *b, void *user)
{
    (void)w, (void)user;
    for (const struct belfry_event *e = NULL; (e = belfry_batch_next(b, e));)
        printf("%lld %s %.*s=%.*s\n", (long long)b->rev, e->op == BELFRY_PUT ? "put" : "del", (int)e->key.len,
               e->key.data, (int)e->value.len, e->value.data);
    if (b->kind == BELFRY_SYNCED || b->kind == BELFRY_END)
        printf("-- %lld: %s --\n", (long long)b->rev, b->kind == BELFRY_END ? b->why : "all of it, live from here");
    return fflush(stdout) == 0 ? BELFRY_MORE : BELFRY_STOP;
}
int main(int argc, char **argv)
{
    struct belfry *b = NULL;
    int err = belfry_open(argc > 1 ? argv[1] : "http://127.0.0.1:2379", NULL, &b);
    err = err ? err : belfry_follow_open(b, belfry_prefix(argc > 2 ? argv[2] : "/services/"), NULL, show, NULL, NULL);
    err = err ? err : belfry_run(b, -1); /* or in your own loop: belfry_fd(b) readable, then belfry_dispatch(b) */
    return belfry_close(b), err != 0 && fprintf(stderr, "follow: %s\n", belfry_strerror(err)) > 0;
}
