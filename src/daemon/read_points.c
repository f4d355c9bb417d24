/* src/daemon/read_points.c */
#include "daemon/read_points.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/sim.h"

struct read_points {
    struct points_source source;
    /* fixed at creation */
    struct ingest_thread *const *ingest;
    struct thread *thread;
    /* of whoever has the mail, but for what is atomic */
    struct mail mail;
    struct readpoint_ask ask;
    /* any: the worker's own, and one while the mail is away */
    _Atomic unsigned refs;
};

static void read_points_unref(struct read_points *points)
{
    if (atomic_fetch_sub_explicit(&points->refs, 1, memory_order_acq_rel) == 1)
        free(points);
}

/* On the worker's thread; owner NULL: it has ended. */
static void open_point(struct mail *mail, void *owner)
{
    struct read_points *points = belfry_container(mail, struct read_points, mail);
    struct points_source *source = &points->source;
    const struct readpoint_ask *ask = &points->ask;
    if (owner != NULL && ask->err != BELFRY_ERR_CANCELED && source->back != NULL)
        source->back(&(struct point){.err = ask->err, .rev = ask->rev, .past = ask->past}, source->user);
    read_points_unref(points);
}

/* On ingest's. */
static void on_told(struct readpoint_ask *ask)
{
    struct read_points *points = belfry_container(ask, struct read_points, ask);
    points->mail.open = open_point;
    thread_post(points->thread, &points->mail);
}

/* On ingest's; owner NULL: it has ended, and no answer will come. */
static void open_ask(struct mail *mail, void *owner)
{
    struct read_points *points = belfry_container(mail, struct read_points, mail);
    if (owner != NULL)
        ingest_thread_read_point(owner, &points->ask);
    else
        read_points_unref(points);
}

static void on_ask(struct points_source *source, size_t n)
{
    struct read_points *points = belfry_container(source, struct read_points, source);
    points->mail.open = open_ask;
    atomic_store(&points->ask.n, n);
    atomic_store(&points->ask.sent, false);
    atomic_fetch_add_explicit(&points->refs, 1, memory_order_relaxed);
    ingest_thread_post(*points->ingest, &points->mail);
}

/* The flag is looked at first: a read that finds it down has begun before the question is sent. */
static bool on_join(struct points_source *source)
{
    struct read_points *points = belfry_container(source, struct read_points, source);
    if (atomic_load(&points->ask.sent) && !BELFRY_MUTANT(reads_joins_sent))
        return false;
    BELFRY_POINT("points.join");
    atomic_fetch_add(&points->ask.n, 1);
    return true;
}

enum belfry_err read_points_create(struct ingest_thread *const *ingest, struct thread *thread,
                                   struct points_source **out)
{
    struct read_points *points = calloc(1, sizeof(*points));
    if (points == NULL)
        return BELFRY_ERR_NOMEM;
    points->source.ask = on_ask;
    points->source.join = on_join;
    points->ingest = ingest;
    points->thread = thread;
    points->ask.told = on_told;
    atomic_init(&points->refs, 1);
    *out = &points->source;
    return BELFRY_OK;
}

void read_points_destroy(struct points_source *source)
{
    if (source != NULL)
        read_points_unref(belfry_container(source, struct read_points, source));
}
