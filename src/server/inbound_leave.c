/* src/server/inbound_leave.c: what is left of an HTTP/2 connection with many exchanges when it has ended.
 *
 * To tell and to free a hundred thousand of them takes a tenth of a second, in which the loop would serve nobody. So
 * they are told in steps, as the loop turns, and what nghttp2 keeps of them is freed by another thread.
 */
#include <stdlib.h>

#include "server/inbound_private.h"

#define AT_ONCE        16   /* told from where the connection ends, as nearly all are that end */
#define FREED_HERE     1024 /* exchanges whose streams are freed by the loop itself: about half a millisecond */
#define LEFT_PER_FLUSH 256  /* exchanges told: about half a millisecond */

struct freeing {
    uv_work_t work;
    struct inbound_group *group;
    struct h2_server *h2;
};

static void on_freeing(uv_work_t *work)
{
    struct freeing *freeing = work->data;
    h2_server_destroy(freeing->h2);
}

static void on_freed(uv_work_t *work, int status)
{
    (void)status;
    struct freeing *freeing = work->data;
    inbound_release(freeing->group);
    free(freeing);
}

/* All of its exchanges are gone. */
static void free_elsewhere(struct inbound_group *group, struct h2_server *h2)
{
    struct freeing *freeing = calloc(1, sizeof(*freeing));
    if (freeing == NULL) {
        h2_server_destroy(h2);
        return;
    }
    *freeing = (struct freeing){.group = group, .h2 = h2};
    freeing->work.data = freeing;
    group->n_handles++;
    uv_queue_work(group->opts.loop, &freeing->work, on_freeing, on_freed);
}

void inbound_leave(struct inbound_conn *c, struct h2_server *h2)
{
    struct inbound_group *group = c->group;
    c->n_left = h2_server_open(h2);
    if (h2_server_let_go(h2, group->destroyed ? SIZE_MAX : AT_ONCE)) {
        h2_server_destroy(h2);
        return;
    }
    c->left = h2;
    c->holds++;
    belfry_list_append(&group->leaving, &c->in_leaving);
}

/* At most `most` more; returns how many there were. */
static size_t go_on(struct inbound_conn *c, size_t most)
{
    struct inbound_group *group = c->group;
    struct h2_server *h2 = c->left;
    size_t n = h2_server_open(h2);
    if (!h2_server_let_go(h2, most))
        return most;
    if (c->n_left > FREED_HERE && !group->destroyed)
        free_elsewhere(group, h2);
    else
        h2_server_destroy(h2);
    c->left = NULL;
    belfry_list_remove(&c->in_leaving);
    inbound_conn_release(c);
    return n;
}

bool inbound_leave_some(struct inbound_group *group)
{
    size_t budget = group->destroyed ? SIZE_MAX : LEFT_PER_FLUSH;
    while (budget > 0 && !belfry_list_empty(&group->leaving))
        budget -= go_on(belfry_container(group->leaving.next, struct inbound_conn, in_leaving), budget);
    return !belfry_list_empty(&group->leaving);
}
