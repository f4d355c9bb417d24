/* An election across machines. It is compatible with `etcdctl elect`: both elect the same leader.
 *
 *     elect [-e ENDPOINTS] [-t TTL_S] NAME PROPOSAL      is a candidate for NAME; when elected, prints its key and
 *                                                        PROPOSAL, and leads until Ctrl-C or until the lease is lost
 *     elect [-e ENDPOINTS] -l NAME                       prints key and proposal of each new leader
 */
#define _POSIX_C_SOURCE 200809L /* for programs that are built as plain C99 */

#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "recipes/queue.h"

struct election {
    struct belfry *b;
    const char *name, *proposal;
    int over, code;
    /* listening */
    char *prefix;      /* NAME/ */
    int64_t seen_rev;  /* the mod revision of the last leader printed */
    int asking, again; /* a request for the leader is in progress; another must follow it */
};

static void end(struct election *e, int code)
{
    e->over = 1;
    e->code = code;
}

/* ---- candidate ---- */

static void on_place(const struct place_event *event, void *user)
{
    struct election *e = user;
    if (event->kind == PLACE_FIRST) {
        printf("%s\n%s\n", event->key, e->proposal);
        fflush(stdout);
    } else {
        fprintf(stderr, "elect: not the leader of %s: %s\n", e->name, event->why);
        end(e, 1);
    }
}

/* ---- listener ---- */

static void ask(struct election *e);

static void on_leader(const struct belfry_reply *reply, void *user)
{
    struct election *e = user;
    const struct belfry_event *kv = belfry_reply_kv(reply, NULL);
    e->asking = 0;
    if (reply->err == BELFRY_ERR_CANCELED)
        return;
    if (reply->err != BELFRY_OK)
        fprintf(stderr, "elect: %s\n", reply->why);
    if (reply->err != BELFRY_OK && reply->err != BELFRY_ERR_UNAVAILABLE && reply->err != BELFRY_ERR_TIMEOUT) {
        end(e, 1); /* a retry would not help */
        return;
    }
    if (kv != NULL && kv->mod_rev != e->seen_rev) {
        e->seen_rev = kv->mod_rev;
        printf("%.*s\n%.*s\n", (int)kv->key.len, kv->key.data, (int)kv->value.len, kv->value.data);
        fflush(stdout);
    }
    if (e->again || reply->err != BELFRY_OK)
        ask(e);
}

/* The leader has the lowest create revision. */
static void ask(struct election *e)
{
    struct belfry_opts *opts = NULL;
    e->again = e->asking;
    if (e->asking)
        return;
    int err = belfry_opts_set_int(&opts, "limit", 1);
    if (err == BELFRY_OK)
        err = belfry_opts_set(&opts, "sort-by", "create");
    if (err == BELFRY_OK)
        err = belfry_opts_set(&opts, "order", "ascend");
    if (err == BELFRY_OK)
        err = belfry_get(e->b, belfry_prefix(e->prefix), opts, on_leader, e, NULL);
    belfry_opts_free(opts);
    e->asking = err == BELFRY_OK;
    if (err != BELFRY_OK) {
        fprintf(stderr, "elect: %s\n", belfry_why(e->b));
        end(e, 1);
    }
}

/* Uses a follow, not a watch, because a follow also reports changes after lost history. */
static enum belfry_next on_batch(struct belfry_watch *watch, const struct belfry_batch *batch, void *user)
{
    struct election *e = user;
    (void)watch;
    if (batch->kind == BELFRY_CHANGES || batch->kind == BELFRY_SYNCED)
        ask(e);
    if (batch->kind == BELFRY_END && batch->err != BELFRY_ERR_CANCELED) {
        fprintf(stderr, "elect: %s\n", batch->why);
        end(e, 1);
    }
    return BELFRY_MORE;
}

static int listen_to(struct election *e)
{
    e->prefix = malloc(strlen(e->name) + 2);
    if (e->prefix == NULL)
        return BELFRY_ERR_NOMEM;
    sprintf(e->prefix, "%s/", e->name);
    return belfry_follow_open(e->b, belfry_prefix(e->prefix), NULL, on_batch, e, NULL);
}

/* ---- main ---- */

static int run(struct election *e)
{
    struct signalfd_siginfo got;
    sigset_t set;
    int err = BELFRY_OK;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_BLOCK, &set, NULL);
    int signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    while (err == BELFRY_OK && !e->over) {
        struct pollfd fds[2] = {{belfry_fd(e->b), POLLIN, 0}, {signals, POLLIN, 0}};
        if (poll(fds, 2, -1) < 0)
            continue;
        if (fds[0].revents != 0)
            err = belfry_dispatch(e->b);
        if (fds[1].revents != 0 && read(signals, &got, sizeof(got)) == (ssize_t)sizeof(got))
            end(e, 0);
    }
    return err;
}

int main(int argc, char **argv)
{
    const char *endpoints = getenv("ETCDCTL_ENDPOINTS");
    struct election e = {.code = 1};
    struct place *place = NULL;
    int64_t ttl_s = 10;
    int option, listening = 0, usage = 0;
    while ((option = getopt(argc, argv, "+e:t:l")) != -1) {
        if (option == 'e')
            endpoints = optarg;
        else if (option == 't')
            ttl_s = strtoll(optarg, NULL, 10);
        else if (option == 'l')
            listening = 1;
        else
            usage = 1;
    }
    if (usage || ttl_s < 1 || argc - optind != 2 - listening) {
        fprintf(stderr, "usage: elect [-e ENDPOINTS] [-t TTL_S] NAME PROPOSAL\n       elect [-e ENDPOINTS] -l NAME\n");
        return 2;
    }
    e.name = argv[optind];
    e.proposal = listening ? "" : argv[optind + 1];
    int err = belfry_open(endpoints != NULL ? endpoints : "http://127.0.0.1:2379", NULL, &e.b);
    if (err == BELFRY_OK)
        err = listening ? listen_to(&e) : place_open(e.b, e.name, e.proposal, ttl_s, on_place, &e, &place);
    if (err == BELFRY_OK)
        err = run(&e);
    place_close(place);
    if (err == BELFRY_OK && !listening)
        err = belfry_run(e.b, 5000); /* until the place is released */
    if (err != BELFRY_OK)
        fprintf(stderr, "elect: %s\n", belfry_why(e.b));
    belfry_close(e.b);
    free(e.prefix);
    return e.code;
}
