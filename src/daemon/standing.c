/* src/daemon/standing.c */
#include "daemon/standing.h"

#include <string.h>

void standing_init(struct standing *standing)
{
    memset(standing, 0, sizeof(*standing));
    pthread_mutex_init(&standing->mu, NULL);
    standing->view.how = DRIVER_NOT_READY;
    strcpy(standing->view.reason, "starting");
    atomic_store(&standing->turn, 1);
}

void standing_fini(struct standing *standing)
{
    pthread_mutex_destroy(&standing->mu);
}

static bool same(const struct standing_view *a, const struct standing_view *b)
{
    return a->how == b->how && a->past == b->past && a->identity.cluster_id == b->identity.cluster_id &&
           a->identity.member_id == b->identity.member_id && a->identity.raft_term == b->identity.raft_term &&
           strcmp(a->reason, b->reason) == 0 && strcmp(a->version, b->version) == 0;
}

bool standing_set(struct standing *standing, const struct driver_status *status)
{
    struct standing_view view = {
        .how = status->standing,
        .past = status->past,
        .identity = {status->identity.cluster_id, status->identity.member_id, status->identity.raft_term}};
    memcpy(view.reason, status->reason, sizeof(view.reason));
    memcpy(view.version, status->version, sizeof(view.version));
    pthread_mutex_lock(&standing->mu); /* nobody else writes, so what is compared is what others see */
    bool moved = !same(&standing->view, &view);
    standing->view = view;
    pthread_mutex_unlock(&standing->mu);
    if (moved)
        atomic_fetch_add(&standing->turn, 1);
    return moved;
}

void standing_publish(struct standing *standing, int64_t rev, uint64_t now_ns)
{
    if (rev == atomic_load_explicit(&standing->published_rev, memory_order_relaxed))
        return;
    atomic_store_explicit(&standing->published_ns, now_ns, memory_order_relaxed);
    atomic_store_explicit(&standing->published_rev, rev, memory_order_release);
}

bool standing_look(struct standing *standing, uint64_t *turn, struct standing_view *out)
{
    uint64_t now = atomic_load(&standing->turn);
    if (now == *turn)
        return false;
    *turn = now;
    pthread_mutex_lock(&standing->mu);
    *out = standing->view;
    pthread_mutex_unlock(&standing->mu);
    return true;
}
