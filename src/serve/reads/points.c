/* src/serve/reads/points.c */
#include "serve/reads/points.h"

#include <assert.h>
#include <stdlib.h>

#include "base/owner.h"
#include "follow/readpoint.h"

struct points {
    struct points_source *source;
    struct belfry_list now, next; /* of point_wait.node: those that the question under way answers, and later ones */
    size_t n_next;                /* that have begun to wait since the last question */
    bool away;
    bool is_busy;
    BELFRY_OWNER;
};

static void points_ask(struct points *points)
{
    if (points->away || belfry_list_empty(&points->next))
        return;
    belfry_list_move_all(&points->now, &points->next);
    points->away = true;
    points->source->ask(points->source, points->n_next + (points->is_busy ? READPOINT_CROWD : 0));
    points->n_next = 0;
}

/* A wait that is told may end others, or begin new ones. */
static void on_point(const struct point *point, void *user)
{
    struct points *points = user;
    BELFRY_OWNER_CHECK(points);
    assert(points->away);
    for (struct belfry_list *node; (node = belfry_list_pop(&points->now)) != NULL;) {
        struct point_wait *wait = belfry_container(node, struct point_wait, node);
        wait->told(wait, point);
    }
    points->away = false; /* not before: what began to wait meanwhile came after this answer */
    points_ask(points);
}

enum belfry_err points_create(struct points_source *source, struct points **out)
{
    struct points *points = calloc(1, sizeof(*points));
    if (points == NULL)
        return BELFRY_ERR_NOMEM;
    points->source = source;
    belfry_list_init(&points->now);
    belfry_list_init(&points->next);
    source->back = on_point;
    source->user = points;
    BELFRY_OWNER_INIT(points);
    *out = points;
    return BELFRY_OK;
}

void points_destroy(struct points *points)
{
    if (points == NULL)
        return;
    BELFRY_OWNER_CHECK(points);
    assert(belfry_list_empty(&points->now) && belfry_list_empty(&points->next));
    points->source->back = NULL;
    free(points);
}

void point_wait_init(struct point_wait *wait, void (*told)(struct point_wait *wait, const struct point *point))
{
    belfry_list_init(&wait->node);
    wait->told = told;
}

void points_wait(struct points *points, struct point_wait *wait)
{
    BELFRY_OWNER_CHECK(points);
    if (points->away && points->source->join(points->source)) {
        belfry_list_append(&points->now, &wait->node);
        return;
    }
    belfry_list_append(&points->next, &wait->node);
    points->n_next++;
    points_ask(points);
}

void point_wait_end(struct point_wait *wait)
{
    belfry_list_remove(&wait->node);
}

void points_set_busy(struct points *points, bool is_busy)
{
    BELFRY_OWNER_CHECK(points);
    points->is_busy = is_busy;
}
