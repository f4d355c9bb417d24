/* bench/belfry-bench/visits.c */
#include "visits.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "die.h"
#include "h1conn.h"
#include "h2conn.h"
#include "object.h"
#include "stopwatch.h"
#include "wire/write.h"

/* Why NULL: it succeeded. */
static void visit_end(struct visit *visit, const char *why)
{
    struct outcome *outcome = &visit->visits->outcomes[visit->kind];
    if (visit->over)
        return;
    visit->over = true;
    if (why == NULL)
        outcome_ok(outcome, stopwatch_ns() - visit->began_ns);
    else
        outcome_fail(outcome, why);
}

/* ---- etcd's API ---- */

static void on_message(void *user, uint32_t call, struct belfry_bytes message)
{
    struct visit *visit = user;
    struct belfry_wire_watch watch;
    (void)call;
    if (visit->kind == VISIT_READ)
        return; /* it is complete with its status */
    bool sound = belfry_scan_watch(message, &watch) == BELFRY_OK && !watch.canceled;
    if (!sound || visit->kind == VISIT_ETCD_WATCH)
        visit_end(visit, sound && watch.created ? NULL : "the watch was not created");
    else if (watch.n_events > 0)
        visit_end(visit, NULL);
}

static void on_call_ended(void *user, uint32_t call, int status, const char *text)
{
    struct visit *visit = user;
    char why[128];
    (void)call;
    snprintf(why, sizeof(why), "grpc-status %d: %.90s", status, text);
    visit_end(visit, status == 0 && visit->kind == VISIT_READ ? NULL : why);
}

static void on_failed(void *user, const char *why)
{
    visit_end(user, why);
}

static void visit_etcd(struct visit *visit)
{
    static const struct h2conn_events events = {on_message, on_call_ended, on_failed};
    struct belfry_bytes key = belfry_bytes_str(visit->visits->key);
    struct belfry_buf request = {0};
    bool watches = visit->kind != VISIT_READ;
    if (visit->kind ==
        VISIT_HISTORY) { /* of `key` and all above it, from a revision that hardly anyone else asks for */
        uint64_t step = visit->visits->n_history++ * 37 % VISITS_OLD;
        const struct belfry_wire_create create = {
            .key = key, .range_end = belfry_bytes_of("\0", 1), .start_revision = (int64_t)(VISITS_OLDEST + step)};
        must(belfry_write_watch_create(&request, &create), "create");
    } else if (watches) {
        must(belfry_write_watch_create(&request, &(struct belfry_wire_create){.key = key}), "create");
    } else {
        uint8_t head[] = {0x0a, (uint8_t)key.len}; /* etcdserverpb.RangeRequest: key = 1 */
        must(belfry_buf_append(&request, head, sizeof(head)), "read");
        must(belfry_buf_append(&request, key.data, key.len), "read");
    }
    visit->h2 = h2conn_create(visit->visits->poll, &visit->visits->target, 1, &events, visit);
    uint32_t call = h2conn_call(visit->h2, watches ? "/etcdserverpb.Watch/Watch" : "/etcdserverpb.KV/Range");
    h2conn_send(visit->h2, call, belfry_buf_bytes(&request), watches ? H2CONN_MORE : H2CONN_LAST);
    belfry_buf_fini(&request);
}

/* ---- Kubernetes' API ---- */

static void on_head(void *user, int status)
{
    struct visit *visit = user;
    visit->status = status;
    if (visit->kind == VISIT_KUBE_WATCH && status == 200)
        visit_end(visit, NULL);
}

static void on_body(void *user, struct belfry_bytes piece)
{
    (void)user, (void)piece;
}

static void on_ended(void *user, const char *why)
{
    struct visit *visit = user;
    char text[128];
    snprintf(text, sizeof(text), "HTTP %d", visit->status);
    visit_end(visit, why != NULL ? why : visit->status != 200 ? text : NULL);
}

static void visit_kube(struct visit *visit)
{
    static const struct h1conn_events events = {on_head, on_body, on_ended};
    char path[H1CONN_PATH_MAX] = OBJECT_PATH;
    if (visit->kind == VISIT_KUBE_WATCH)
        snprintf(path, sizeof(path), OBJECT_PATH "?watch=1&resourceVersion=%lld&timeoutSeconds=60",
                 (long long)visit->visits->revision);
    visit->h1 = h1conn_create(visit->visits->poll, &visit->visits->kube_target, path, &events, visit);
}

/* ---- places ---- */

void visits_open(struct visits *visits, int poll, const struct target *target, const char *key)
{
    memset(visits, 0, sizeof(*visits));
    visits->poll = poll;
    visits->target = visits->kube_target = *target;
    visits->key = key;
    for (size_t i = 0; i < VISIT_KINDS; i++)
        outcome_clear(&visits->outcomes[i]);
}

static void visit_free(struct visit *visit)
{
    h2conn_destroy(visit->h2);
    h1conn_destroy(visit->h1);
    *visit = (struct visit){0};
}

void visits_close(struct visits *visits)
{
    for (size_t i = 0; i < VISITS_MAX; i++)
        visit_free(&visits->places[i]);
}

void visits_begin(struct visits *visits, enum visit_kind kind)
{
    size_t i = 0;
    while (i < VISITS_MAX && visits->places[i].began_ns != 0)
        i++;
    if (i == VISITS_MAX) {
        outcome_fail(&visits->outcomes[kind], "too many are under way");
        return;
    }
    struct visit *visit = &visits->places[i];
    *visit = (struct visit){.visits = visits, .kind = kind, .began_ns = stopwatch_ns()};
    if (kind == VISIT_LIST || kind == VISIT_KUBE_WATCH)
        visit_kube(visit);
    else
        visit_etcd(visit);
}

bool visits_is_idle(const struct visits *visits)
{
    for (size_t i = 0; i < VISITS_MAX; i++)
        if (visits->places[i].began_ns != 0 && !visits->places[i].over)
            return false;
    return true;
}

void visits_tend(struct visits *visits, uint64_t now_ns)
{
    for (size_t i = 0; i < VISITS_MAX; i++) {
        struct visit *visit = &visits->places[i];
        if (visit->began_ns == 0)
            continue;
        if (now_ns > visit->began_ns + (uint64_t)OUTCOME_LATE_MS * NS_PER_MS)
            visit_end(visit, "no answer in time");
        if (visit->over)
            visit_free(visit);
    }
}
