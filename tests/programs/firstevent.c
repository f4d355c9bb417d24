/* firstevent: how long a program has to wait for its first event.
 *
 *     firstevent ENDPOINTS PREFIX
 *
 * Follows the prefix, in which something must be, and prints the microseconds from main() to the first event, and to
 * the state being complete.
 */
#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include <belfry/belfry.h>

static int64_t first_us, synced_us; /* 0: not yet */

static int64_t now_us(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

static enum belfry_next on_batch(struct belfry_watch *watch, const struct belfry_batch *batch, void *user)
{
    (void)watch;
    if (first_us == 0 && batch->n_events > 0)
        first_us = now_us();
    if (batch->kind != BELFRY_SYNCED)
        return BELFRY_MORE;
    synced_us = now_us();
    belfry_stop(user);
    return BELFRY_STOP;
}

int main(int argc, char **argv)
{
    int64_t begin_us = now_us();
    struct belfry *b = NULL;
    if (argc != 3) {
        fprintf(stderr, "firstevent: ENDPOINTS PREFIX are needed\n");
        return 2;
    }
    int err = belfry_open(argv[1], NULL, &b);
    if (err == BELFRY_OK)
        err = belfry_follow_open(b, belfry_prefix(argv[2]), NULL, on_batch, b, NULL);
    if (err == BELFRY_OK)
        err = belfry_run(b, 10000);
    belfry_close(b);
    if (err != BELFRY_OK || first_us == 0 || synced_us == 0) {
        fprintf(stderr, "firstevent: %s\n", err != BELFRY_OK ? belfry_strerror(err) : "nothing is there");
        return 1;
    }
    printf("%" PRId64 " %" PRId64 "\n", first_us - begin_us, synced_us - begin_us);
    return 0;
}
