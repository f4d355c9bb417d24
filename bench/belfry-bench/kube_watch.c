/* bench/belfry-bench/kube_watch.c */
#include "kube_watch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "die.h"
#include "h1conn.h"
#include "h1get.h"
#include "object.h"
#include "stopwatch.h"

#define LINE_MAX_BYTES ((size_t)8 << 20)
#define LIST_MAX_BYTES ((size_t)8 << 20)

struct kube_watch {
    struct kube_watch_opts opts;
    const struct kube_watch_events *events;
    void *user;
    int64_t rev;            /* of the last put, or where it started */
    struct h1conn *conn;    /* owned */
    int status;             /* of the answer; 0: none yet */
    struct belfry_buf line; /* the start of a line whose end has not come; or of what came with another status */
};

/* ---- where to start ---- */

static void keep_list(void *user, struct belfry_bytes piece)
{
    struct belfry_buf *text = user;
    if (belfry_buf_len(text) + piece.len > LIST_MAX_BYTES)
        die("a list of one object is over %zu bytes", LIST_MAX_BYTES);
    must(belfry_buf_append(text, piece.data, piece.len), "list");
}

int64_t kube_watch_revision(const struct target *target, uint64_t deadline_ns)
{
    struct belfry_buf text = {0};
    const struct h1get_opts opts = {
        .target = target, .path = OBJECT_PATH "?limit=1", .body = keep_list, .user = &text, .deadline_ns = deadline_ns};
    h1get(&opts);
    int64_t rev = object_read_revision(belfry_buf_bytes(&text));
    if (rev == 0)
        die("GET %s: no resourceVersion is in the list", opts.path);
    belfry_buf_fini(&text);
    return rev;
}

/* ---- one watch ---- */

static void fault_of_line(struct kube_watch *watch, const char *what, struct belfry_bytes line)
{
    char text[200];
    snprintf(text, sizeof(text), "%.*s", (int)(line.len < sizeof(text) ? line.len : sizeof(text)), line.data);
    watch->events->fault(watch->user, what, text);
}

static void on_line(struct kube_watch *watch, struct belfry_bytes line, uint64_t now_ns)
{
    struct object_event event;
    if (object_read_event(line, &event) != BELFRY_OK) {
        fault_of_line(watch, "an event cannot be read: ", line);
    } else if (event.type == OBJECT_PUT) {
        watch->rev = event.rev > watch->rev ? event.rev : watch->rev;
        watch->events->put(watch->user, event.rev, event.put_at, now_ns);
    } else if (event.type != OBJECT_BOOKMARK) {
        fault_of_line(watch, "an event that no put makes: ", line);
    }
}

static void keep_start(struct kube_watch *watch, struct belfry_bytes piece)
{
    if (belfry_buf_len(&watch->line) + piece.len > LINE_MAX_BYTES)
        watch->events->fault(watch->user, "an event does not end", "");
    else
        must(belfry_buf_append(&watch->line, piece.data, piece.len), "line");
}

static void on_head(void *user, int status)
{
    struct kube_watch *watch = user;
    watch->status = status;
    if (status == 200) /* otherwise the body says why */
        watch->events->created(watch->user);
}

static void on_body(void *user, struct belfry_bytes piece)
{
    struct kube_watch *watch = user;
    uint64_t now_ns = stopwatch_ns();
    const char *end;
    while (watch->status == 200 && piece.len > 0 && (end = memchr(piece.data, '\n', piece.len)) != NULL) {
        struct belfry_bytes line = belfry_bytes_of(piece.data, (size_t)(end - piece.data));
        piece = belfry_bytes_of(end + 1, piece.len - line.len - 1);
        if (belfry_buf_len(&watch->line) > 0) {
            keep_start(watch, line);
            line = belfry_buf_bytes(&watch->line);
        }
        on_line(watch, line, now_ns);
        belfry_buf_clear(&watch->line);
    }
    keep_start(watch, piece);
}

static void connect_again(struct kube_watch *watch);

/* A kube-apiserver ends the watch of a client that it finds slow. That is no fault: its clients continue from where
 * they were. */
static void on_ended(void *user, const char *why)
{
    struct kube_watch *watch = user;
    if (why == NULL && watch->status == 200) {
        connect_again(watch);
        watch->events->resumed(watch->user);
        return;
    }
    char text[200];
    struct belfry_bytes said = belfry_buf_bytes(&watch->line);
    snprintf(text, sizeof(text), "%s; HTTP %d %.*s", why != NULL ? why : "complete", watch->status,
             (int)(said.len < 150 ? said.len : 150), said.data == NULL ? "" : said.data);
    watch->events->fault(watch->user, "the watch has ended: ", text);
}

/* Replaces the connection, if there is one. */
static void connect_again(struct kube_watch *watch)
{
    static const struct h1conn_events events = {on_head, on_body, on_ended};
    char path[H1CONN_PATH_MAX], name[OBJECT_NAME_MAX];
    int len = snprintf(path, sizeof(path), OBJECT_PATH "?watch=1&resourceVersion=%lld&timeoutSeconds=3600",
                       (long long)watch->rev);
    if (watch->opts.selector_field != NULL) {
        object_name(watch->opts.object, name);
        snprintf(path + len, sizeof(path) - (size_t)len, "&fieldSelector=%s%%3D%s", watch->opts.selector_field, name);
    }
    h1conn_destroy(watch->conn);
    watch->status = 0;
    belfry_buf_fini(&watch->line);
    watch->conn = h1conn_create(watch->opts.poll, watch->opts.target, path, &events, watch);
}

struct kube_watch *kube_watch_create(const struct kube_watch_opts *opts, const struct kube_watch_events *events,
                                     void *user)
{
    struct kube_watch *watch = must_have(calloc(1, sizeof(*watch)));
    watch->opts = *opts;
    watch->events = events;
    watch->user = user;
    watch->rev = opts->rev;
    connect_again(watch);
    return watch;
}

void kube_watch_destroy(struct kube_watch *watch)
{
    if (watch == NULL)
        return;
    h1conn_destroy(watch->conn);
    belfry_buf_fini(&watch->line);
    free(watch);
}

uint64_t kube_watch_bytes_read(const struct kube_watch *watch)
{
    return h1conn_bytes_read(watch->conn);
}

void kube_watch_pause(struct kube_watch *watch)
{
    h1conn_pause(watch->conn);
}

void kube_watch_resume(struct kube_watch *watch)
{
    h1conn_resume(watch->conn);
}
