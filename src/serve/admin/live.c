/* src/serve/admin/live.c */
#include "serve/admin/live.h"

#include <stdlib.h>

#define H2_CANCEL 8
#define RETRY     "retry: 2000\n\n" /* ms until a browser connects again */

/* One open page. */
struct viewer {
    struct belfry_list link;
    struct live *live;
    struct exchange *x;
    unsigned misses; /* in a row */
};

void live_init(struct live *live)
{
    *live = (struct live){0};
    belfry_list_init(&live->viewers);
    BELFRY_OWNER_INIT(live);
}

static void viewer_free(struct viewer *viewer)
{
    viewer->live->n--;
    belfry_list_remove(&viewer->link);
    free(viewer);
}

static void viewer_reset(struct viewer *viewer)
{
    exchange_reset(viewer->x, H2_CANCEL);
    viewer_free(viewer);
}

void live_fini(struct live *live)
{
    BELFRY_OWNER_CHECK(live);
    while (!belfry_list_empty(&live->viewers))
        viewer_reset(belfry_container(live->viewers.next, struct viewer, link));
}

static void on_gone(struct exchange *x, void *user)
{
    (void)x;
    viewer_free(user);
}

static const struct exchange_events viewer_events = {
    .body = exchange_drop_body, .body_end = exchange_ignore, .writable = exchange_ignore, .gone = on_gone};

bool live_open(struct live *live, struct exchange *x)
{
    BELFRY_OWNER_CHECK(live);
    struct viewer *viewer = live->n < LIVE_MAX ? malloc(sizeof(*viewer)) : NULL;
    if (viewer == NULL)
        return false;
    *viewer = (struct viewer){.live = live, .x = x};
    belfry_list_append(&live->viewers, &viewer->link);
    live->n++;
    struct belfry_http_field fields[] = {
        {belfry_bytes_str("content-type"), belfry_bytes_str("text/event-stream")},
        {belfry_bytes_str("cache-control"), belfry_bytes_str("no-store")},
        {belfry_bytes_str("x-content-type-options"), belfry_bytes_str("nosniff")},
    };
    exchange_handle(x, &viewer_events, viewer);
    exchange_respond(x, 200, fields, 3);
    exchange_lasts(x);
    exchange_write(x, RETRY, sizeof(RETRY) - 1);
    return true;
}

void live_send(struct live *live, struct belfry_bytes message)
{
    BELFRY_OWNER_CHECK(live);
    for (struct belfry_list *at = live->viewers.next, *next; at != &live->viewers; at = next) {
        struct viewer *viewer = belfry_container(at, struct viewer, link);
        next = at->next;
        if (exchange_room(viewer->x) >= message.len) {
            exchange_write(viewer->x, message.data, message.len);
            viewer->misses = 0;
            continue;
        }
        live->missed++;
        if (++viewer->misses >= LIVE_MISSES)
            viewer_reset(viewer);
    }
}
