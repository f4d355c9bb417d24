/* leaseholder: keeps one lease and writes down what it is told, one line an event, for test_lease.py to judge.
 *
 *     leaseholder ENDPOINTS TTL_S [NAME=VALUE ...]        the pairs are options of the session
 *
 * It prints, with the milliseconds of CLOCK_MONOTONIC first:
 *
 *     MS held ID TTL_S | MS renewed ID LEFT_MS | MS late LEFT_MS WHY | MS end ERR WHY
 *
 * and obeys one command a line on stdin: "left" answers with "MS left LEFT_MS"; "revoke" and "leave" close the lease,
 * run the session until nothing is left on it, and end the program, as does the end of the lease.
 */
#include <inttypes.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <belfry/lease.h>

static struct belfry_lease *lease; /* NULL once it has ended or was closed */

static int64_t now_ms(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static void on_lease(struct belfry_lease *l, const struct belfry_lease_event *event, void *user)
{
    (void)user;
    printf("%" PRId64 " ", now_ms());
    switch (event->kind) {
    case BELFRY_LEASE_HELD:
        printf("held %" PRIx64 " %" PRId64 "\n", (uint64_t)event->id, event->ttl_s);
        break;
    case BELFRY_LEASE_RENEWED:
        printf("renewed %" PRIx64 " %" PRId64 "\n", (uint64_t)event->id, belfry_lease_left_ms(l));
        break;
    case BELFRY_LEASE_LATE:
        printf("late %" PRId64 " %s\n", event->left_ms, event->why);
        break;
    case BELFRY_LEASE_END:
        printf("end %s %s\n", belfry_errname(event->err), event->why);
        lease = NULL;
        break;
    }
    fflush(stdout);
}

static void obey(void)
{
    char line[128];
    if (fgets(line, sizeof(line), stdin) == NULL || strcmp(line, "leave\n") == 0) {
        belfry_lease_close(lease, BELFRY_LEASE_LEAVE);
        lease = NULL;
    } else if (strcmp(line, "revoke\n") == 0) {
        belfry_lease_close(lease, BELFRY_LEASE_REVOKE);
        lease = NULL;
    } else if (strcmp(line, "left\n") == 0) {
        printf("%" PRId64 " left %" PRId64 "\n", now_ms(), belfry_lease_left_ms(lease));
        fflush(stdout);
    }
}

static int hold(struct belfry *b)
{
    int err = BELFRY_OK;
    while (err == BELFRY_OK && lease != NULL) {
        struct pollfd fds[2] = {{.fd = belfry_fd(b), .events = POLLIN}, {.fd = 0, .events = POLLIN}};
        if (poll(fds, 2, -1) < 0)
            continue;
        if (fds[1].revents != 0)
            obey();
        if (fds[0].revents != 0)
            err = belfry_dispatch(b);
    }
    return err == BELFRY_OK ? belfry_run(b, -1) : err;
}

int main(int argc, char **argv)
{
    struct belfry_opts *opts = NULL;
    struct belfry *b = NULL;
    int err = argc < 3 ? BELFRY_ERR_INVALID : BELFRY_OK;
    setvbuf(stdin, NULL, _IONBF, 0); /* poll sees what the kernel holds, not what stdio has read ahead */
    for (int i = 3; i < argc && err == BELFRY_OK; i++) {
        char *value = strchr(argv[i], '=');
        if (value != NULL)
            *value++ = '\0';
        err = belfry_opts_set(&opts, argv[i], value);
    }
    if (err == BELFRY_OK)
        err = belfry_open(argv[1], opts, &b);
    if (err == BELFRY_OK)
        err = belfry_lease_open(b, strtoll(argv[2], NULL, 10), on_lease, NULL, &lease);
    if (err == BELFRY_OK)
        err = hold(b);
    belfry_close(b);
    belfry_opts_free(opts);
    if (err != BELFRY_OK)
        fprintf(stderr, "leaseholder: %s\n", belfry_strerror(err));
    return err != BELFRY_OK;
}
