/* src/daemon/standing.c */
#include "daemon/standing.h"

#include <string.h>

#include "base/clock.h"

void standing_init(struct standing *standing)
{
    memset(standing, 0, sizeof(*standing));
    pthread_mutex_init(&standing->mu, NULL);
    standing->view.how = DRIVER_NOT_READY;
    strcpy(standing->view.reason, "starting");
    standing->about.self.silent_ms = BELFRY_NEVER;
    atomic_store(&standing->turn, 1);
}

void standing_fini(struct standing *standing)
{
    pthread_mutex_destroy(&standing->mu);
}

static bool standing_same(const struct standing_view *a, const struct standing_view *b)
{
    return a->how == b->how && a->barred == b->barred && a->given_up == b->given_up &&
           a->disk_trouble == b->disk_trouble && a->past == b->past && a->keys_only == b->keys_only &&
           a->identity.cluster_id == b->identity.cluster_id && a->identity.member_id == b->identity.member_id &&
           a->identity.raft_term == b->identity.raft_term && strcmp(a->reason, b->reason) == 0 &&
           strcmp(a->version, b->version) == 0;
}

bool standing_set(struct standing *standing, const struct driver_status *status)
{
    struct standing_view view = {
        .how = status->standing,
        .past = status->past,
        .keys_only = status->keys_only,
        .barred = status->barred,
        .given_up = status->given_up,
        .disk_trouble = status->disk_trouble,
        .identity = {status->identity.cluster_id, status->identity.member_id, status->identity.raft_term}};
    memcpy(view.reason, status->reason, sizeof(view.reason));
    memcpy(view.version, status->version, sizeof(view.version));
    pthread_mutex_lock(&standing->mu); /* only ingest writes, so what is compared is what others see */
    bool moved = !standing_same(&standing->view, &view);
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
    pthread_mutex_lock(&standing->mu);
    stamps_add(&standing->stamps, rev, now_ns);
    pthread_mutex_unlock(&standing->mu);
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

void standing_set_about(struct standing *standing, const struct about *about)
{
    pthread_mutex_lock(&standing->mu);
    standing->about = *about;
    standing->about_ms = belfry_clock_ms();
    pthread_mutex_unlock(&standing->mu);
}

void standing_about(struct standing *standing, struct about *out)
{
    pthread_mutex_lock(&standing->mu);
    *out = standing->about;
    uint64_t age_ms = belfry_clock_ms() - standing->about_ms;
    out->n_stamps = stamps_newest(&standing->stamps, out->stamps, ABOUT_STAMPS);
    pthread_mutex_unlock(&standing->mu);
    if (out->self.silent_ms != BELFRY_NEVER)
        out->self.silent_ms += age_ms;
    for (size_t i = 0; i < out->n_above; i++)
        out->above[i].age_ms += age_ms;
    if (out->n_stamps > 0)
        out->self.revision = out->stamps[out->n_stamps - 1].rev;
    out->clock_ns = belfry_clock_ns();
}
