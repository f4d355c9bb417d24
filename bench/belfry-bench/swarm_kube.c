/* bench/belfry-bench/swarm_kube.c: watchers of objects, each a GET over a connection of its own. */
#include <stdio.h>
#include <string.h>

#include "die.h"
#include "h1get.h"
#include "object.h"
#include "stopwatch.h"
#include "swarm_private.h"

#define LINE_MAX_BYTES ((size_t)8 << 20)
#define LIST_MAX_BYTES ((size_t)8 << 20)

/* ---- where to start ---- */

static void keep(void *user, struct belfry_bytes piece)
{
    struct belfry_buf *text = user;
    if (belfry_buf_len(text) + piece.len > LIST_MAX_BYTES)
        die("a list of one object is over %zu bytes", LIST_MAX_BYTES);
    must(belfry_buf_append(text, piece.data, piece.len), "list");
}

int64_t swarm_kube_revision(const struct target *target, uint64_t deadline_ns)
{
    struct belfry_buf text = {0};
    const struct h1get_opts opts = {
        .target = target, .path = OBJECT_PATH "?limit=1", .body = keep, .user = &text, .deadline_ns = deadline_ns};
    h1get(&opts);
    int64_t rev = object_read_revision(belfry_buf_bytes(&text));
    if (rev == 0)
        die("GET %s: no resourceVersion is in the list", opts.path);
    belfry_buf_fini(&text);
    return rev;
}

/* ---- one watch ---- */

static void fault_of_line(struct seat *seat, const char *what, struct belfry_bytes line)
{
    char text[200];
    snprintf(text, sizeof(text), "%.*s", (int)(line.len < sizeof(text) ? line.len : sizeof(text)), line.data);
    swarm_fault(seat, what, text);
}

static void on_line(struct seat *seat, struct belfry_bytes line, uint64_t now)
{
    struct object_event event;
    if (object_read_event(line, &event) != BELFRY_OK)
        fault_of_line(seat, "an event cannot be read: ", line);
    else if (event.type == OBJECT_PUT)
        swarm_delivery(seat, seat->index, event.rev, event.put_at, now);
    else if (event.type != OBJECT_BOOKMARK)
        fault_of_line(seat, "an event that no put makes: ", line);
}

static void keep_start(struct seat *seat, struct belfry_bytes piece)
{
    if (belfry_buf_len(&seat->start) + piece.len > LINE_MAX_BYTES)
        swarm_fault(seat, "an event does not end", "");
    else
        must(belfry_buf_append(&seat->start, piece.data, piece.len), "line");
}

static void on_head(void *user, int status)
{
    struct seat *seat = user;
    seat->status = status;
    if (status != 200 || seat->n_created == 1)
        return; /* the body says why; or it is open again */
    seat->n_created = 1;
    seat->swarm->n_created++;
}

static void on_body(void *user, struct belfry_bytes piece)
{
    struct seat *seat = user;
    uint64_t now = stopwatch_ns();
    const char *end;
    while (seat->status == 200 && piece.len > 0 && (end = memchr(piece.data, '\n', piece.len)) != NULL) {
        struct belfry_bytes line = belfry_bytes_of(piece.data, (size_t)(end - piece.data));
        piece = belfry_bytes_of(end + 1, piece.len - line.len - 1);
        if (belfry_buf_len(&seat->start) > 0) {
            keep_start(seat, line);
            line = belfry_buf_bytes(&seat->start);
        }
        on_line(seat, line, now);
        belfry_buf_clear(&seat->start);
    }
    keep_start(seat, piece);
}

/* A kube-apiserver ends the watch of a client that it finds slow. That is no fault: its clients go on from where they
 * were. */
static void on_ended(void *user, const char *why)
{
    struct seat *seat = user;
    if (why == NULL && seat->status == 200) {
        seat->swarm->resumed++;
        swarm_kube_close(seat);
        swarm_kube_open(seat);
        return;
    }
    char text[200];
    struct belfry_bytes said = belfry_buf_bytes(&seat->start);
    snprintf(text, sizeof(text), "%s; HTTP %d %.*s", why != NULL ? why : "complete", seat->status,
             (int)(said.len < 150 ? said.len : 150), said.data == NULL ? "" : said.data);
    swarm_fault(seat, "the watch has ended: ", text);
}

static int64_t start_of(const struct seat *seat)
{
    int64_t last = seat->swarm->tally.rows[seat->index].last_rev;
    return last > seat->swarm->opts.start_revision ? last : seat->swarm->opts.start_revision;
}

void swarm_kube_open(struct seat *seat)
{
    static const struct h1conn_events events = {on_head, on_body, on_ended};
    const struct swarm_opts *opts = &seat->swarm->opts;
    char path[H1CONN_PATH_MAX], name[OBJECT_NAME_MAX];
    int len = snprintf(path, sizeof(path), OBJECT_PATH "?watch=1&resourceVersion=%lld&timeoutSeconds=3600",
                       (long long)start_of(seat));
    if (opts->load.keys == LOAD_DISTINCT) {
        object_name(seat->index, name);
        snprintf(path + len, sizeof(path) - (size_t)len, "&fieldSelector=%s%%3D%s", opts->selector_field, name);
    }
    seat->watch = h1conn_create(seat->swarm->poll, &opts->target, path, &events, seat);
}

void swarm_kube_close(struct seat *seat)
{
    h1conn_destroy(seat->watch);
    seat->watch = NULL;
    seat->status = 0;
    belfry_buf_fini(&seat->start);
}
