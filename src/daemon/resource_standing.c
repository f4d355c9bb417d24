/* src/daemon/resource_standing.c */
#include "daemon/resource_standing.h"

#include <string.h>

void resource_standing_init(struct resource_standing *standing)
{
    memset(standing, 0, sizeof(*standing));
    pthread_mutex_init(&standing->mu, NULL);
    strcpy(standing->view.reason, "starting");
    atomic_store(&standing->turn, 1);
}

void resource_standing_fini(struct resource_standing *standing)
{
    pthread_mutex_destroy(&standing->mu);
}

void resource_standing_set(struct resource_standing *standing, const struct resource_standing_view *view)
{
    pthread_mutex_lock(&standing->mu); /* only ingest writes, so what is compared is what others see */
    const struct resource_standing_view *now = &standing->view;
    bool moved = now->is_ready != view->is_ready || now->is_stale != view->is_stale ||
                 now->is_absent != view->is_absent || now->is_gone != view->is_gone ||
                 strcmp(now->reason, view->reason) != 0;
    standing->view = *view;
    pthread_mutex_unlock(&standing->mu);
    if (moved)
        atomic_fetch_add(&standing->turn, 1);
}

void resource_standing_publish(struct resource_standing *standing, int64_t version, uint64_t now_ns)
{
    if (version != atomic_load_explicit(&standing->published, memory_order_relaxed)) {
        atomic_store_explicit(&standing->published_ns, now_ns, memory_order_relaxed);
        atomic_store_explicit(&standing->published, version, memory_order_release);
    }
    atomic_fetch_add_explicit(&standing->news, 1, memory_order_release); /* whoever sees it finds the log so */
}

bool resource_standing_look(struct resource_standing *standing, uint64_t *turn, struct resource_standing_view *out)
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
