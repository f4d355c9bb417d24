/* bench/belfry-bench/h1get.c */
#include "h1get.h"

#include <stdbool.h>
#include <unistd.h>

#include "die.h"
#include "h1conn.h"
#include "stopwatch.h"

struct get {
    const struct h1get_opts *opts;
    int status; /* 0: no answer yet */
    bool ended;
};

static void on_head(void *user, int status)
{
    ((struct get *)user)->status = status;
}

static void on_body(void *user, struct belfry_bytes piece)
{
    struct get *get = user;
    if (get->status != 200)
        die("GET %s: HTTP %d: %.*s", get->opts->path, get->status, (int)(piece.len < 300 ? piece.len : 300),
            piece.data);
    get->opts->body(get->opts->user, piece);
}

static void on_ended(void *user, const char *why)
{
    struct get *get = user;
    if (why != NULL)
        die("GET %s: %s", get->opts->path, why);
    get->ended = true;
}

uint64_t h1get(const struct h1get_opts *opts)
{
    static const struct h1conn_events events = {on_head, on_body, on_ended};
    struct get get = {.opts = opts};
    int poll = poller_create();
    struct h1conn *conn = h1conn_create(poll, opts->target, opts->path, &events, &get);
    while (!get.ended) {
        if (stopwatch_ns() > opts->deadline_ns)
            die("GET %s: no end of it in time", opts->path);
        poller_turn(poll, opts->tick != NULL ? 1 : stopwatch_ms_until(opts->deadline_ns));
        if (opts->tick != NULL)
            opts->tick(opts->user);
    }
    if (get.status != 200)
        die("GET %s: HTTP %d", opts->path, get.status);
    uint64_t bytes = h1conn_bytes_read(conn);
    h1conn_destroy(conn);
    close(poll);
    return bytes;
}
