/* src/cli/doctor/doctor_write.c */
#include "cli/doctor/doctor_write.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "cli/doctor/doctor_calls.h"

#define GRACE_MS 500 /* calls have the same limit of time, and say more when they end by themselves */

/* A watcher of the key, on a session of its own. */
struct watcher {
    struct belfry *b;
    bool created, seen;
    uint64_t seen_ns;
};

/* The write, and where its reply goes. */
struct writing {
    struct watcher here, above;
    struct doctor_write *out;
    struct doctor_try *try; /* of the call that is out */
    bool replied;
    bool succeeded; /* the condition held */
    int64_t revision;
    uint64_t began_ns;
    int timeout_ms;
};

static enum belfry_next on_batch(struct belfry_watch *watch, const struct belfry_batch *batch, void *user)
{
    struct watcher *w = user;
    (void)watch;
    if (batch->kind == BELFRY_CREATED)
        w->created = true;
    if (batch->kind == BELFRY_CHANGES && !w->seen) {
        w->seen = true;
        w->seen_ns = belfry_clock_ns();
    }
    return BELFRY_MORE;
}

static void on_reply(const struct belfry_reply *reply, void *user)
{
    struct writing *w = user;
    w->replied = true;
    w->succeeded = reply->err == BELFRY_OK && reply->succeeded;
    w->revision = reply->header.revision;
    w->try->err = (enum belfry_err)reply->err;
    w->try->took_us = (belfry_clock_ns() - w->began_ns) / 1000;
    if (reply->err != BELFRY_OK)
        snprintf(w->try->why, sizeof(w->try->why), "%s", reply->why);
}

/* Runs both sessions until `done`, or the time is over. */
static void run_until(struct writing *w, bool (*done)(const struct writing *w))
{
    uint64_t deadline_ms = belfry_clock_ms() + (uint64_t)w->timeout_ms + GRACE_MS;
    while (!done(w)) {
        uint64_t now = belfry_clock_ms();
        struct pollfd fds[2] = {{.fd = belfry_fd(w->here.b), .events = POLLIN},
                                {.fd = w->above.b != NULL ? belfry_fd(w->above.b) : -1, .events = POLLIN}};
        if (now >= deadline_ms || poll(fds, 2, (int)(deadline_ms - now)) <= 0)
            return;
        if (fds[0].revents != 0 && belfry_dispatch(w->here.b) != BELFRY_OK)
            return;
        if (fds[1].revents != 0 && belfry_dispatch(w->above.b) != BELFRY_OK)
            return;
    }
}

static bool both_created(const struct writing *w)
{
    return w->here.created && (w->above.b == NULL || w->above.created);
}

static bool reply_came(const struct writing *w)
{
    return w->replied;
}

static bool both_seen(const struct writing *w)
{
    return w->here.seen && (!w->above.created || w->above.seen);
}

static int watch_key(struct watcher *w, const char *key)
{
    struct belfry_opts *opts = NULL;
    int err = belfry_opts_set(&opts, "created-notify", "true");
    if (err == BELFRY_OK)
        err = belfry_watch_open(w->b, belfry_key(key), opts, on_batch, w, NULL);
    belfry_opts_free(opts);
    return err;
}

/* Commits `txn`, consuming it, and waits for its reply. */
static void commit(struct writing *w, struct belfry_txn *txn, struct doctor_try *try)
{
    *try = (struct doctor_try){.err = BELFRY_ERR_TIMEOUT, .why = "no answer in time"};
    w->try = try;
    w->replied = false;
    w->began_ns = belfry_clock_ns();
    int err = belfry_txn_commit(w->here.b, txn, NULL, on_reply, w, NULL);
    belfry_txn_free(txn);
    if (err == BELFRY_OK) {
        run_until(w, reply_came);
        return;
    }
    try->err = (enum belfry_err)err;
    snprintf(try->why, sizeof(try->why), "%s", belfry_strerror(err));
}

static void write_and_wait(struct writing *w, struct belfry_bytes key)
{
    struct doctor_write *out = w->out;
    struct belfry_txn *txn = belfry_txn_create();
    belfry_txn_if_mod_rev(txn, key, '=', 0);
    belfry_txn_put(txn, BELFRY_THEN, key, (struct belfry_bytes){"belfryctl doctor", 16}, 0);
    commit(w, txn, &out->put);
    uint64_t began_ns = w->began_ns;
    out->exists = out->put.err == BELFRY_OK && !w->succeeded;
    if (out->put.err != BELFRY_OK || out->exists)
        return;
    out->revision = w->revision;
    run_until(w, both_seen);
    out->seen_here = w->here.seen;
    out->seen_upstream = w->above.seen;
    out->here_us = (w->here.seen_ns - began_ns) / 1000;
    out->upstream_us = (w->above.seen_ns - began_ns) / 1000;
}

/* Only what we wrote: another writer's value stays. */
static void remove_again(struct writing *w, struct belfry_bytes key)
{
    struct belfry_txn *txn = belfry_txn_create();
    belfry_txn_if_mod_rev(txn, key, '=', w->out->revision);
    belfry_txn_del(txn, BELFRY_THEN, belfry_key_bytes(key.data, key.len));
    commit(w, txn, &w->out->removed);
}

void doctor_write(const struct flags *flags, const char *endpoints, const char *upstream, struct doctor_write *out)
{
    struct writing w = {.out = out, .timeout_ms = (int)flags_ms(flags, FLAG_COMMAND_TIMEOUT)};
    struct belfry_bytes key = {out->key, strlen(out->key)};
    struct doctor_try ignored;
    doctor_open(flags, endpoints, &w.here.b, &out->put);
    if (upstream != NULL)
        doctor_open(flags, upstream, &w.above.b, &ignored);
    if (w.here.b != NULL && watch_key(&w.here, out->key) == BELFRY_OK &&
        (w.above.b == NULL || watch_key(&w.above, out->key) == BELFRY_OK)) {
        run_until(&w, both_created);
        write_and_wait(&w, key);
        if (out->revision > 0)
            remove_again(&w, key);
    }
    if (w.above.b != NULL)
        belfry_close(w.above.b);
    if (w.here.b != NULL)
        belfry_close(w.here.b);
}
