/* src/follow/term.c */
#include "follow/term.h"

static uint64_t load(const _Atomic uint64_t *number)
{
    return atomic_load_explicit(number, memory_order_acquire);
}

static void store(_Atomic uint64_t *number, uint64_t value)
{
    atomic_store_explicit(number, value, memory_order_release);
}

void term_init(struct term *term)
{
    pthread_mutex_init(&term->mu, NULL);
    term->other = term->other_cluster_id = 0;
    atomic_init(&term->cluster_id, 0);
    atomic_init(&term->highest, 0);
}

void term_fini(struct term *term)
{
    pthread_mutex_destroy(&term->mu);
}

void term_begin(struct term *term, uint64_t cluster_id, uint64_t raft_term)
{
    pthread_mutex_lock(&term->mu);
    uint64_t heard = 0;
    if (cluster_id == load(&term->cluster_id))
        heard = load(&term->highest);
    else if (cluster_id == term->other_cluster_id)
        heard = term->other;
    store(&term->cluster_id, cluster_id);
    store(&term->highest, heard > raft_term ? heard : raft_term);
    pthread_mutex_unlock(&term->mu);
}

/* Under mu. */
static void note_other(struct term *term, uint64_t cluster_id, uint64_t raft_term)
{
    if (cluster_id != term->other_cluster_id || raft_term > term->other)
        term->other = raft_term;
    term->other_cluster_id = cluster_id;
}

void term_hear(struct term *term, const struct belfry_wire_header *header)
{
    if (header->raft_term <= load(&term->highest) &&
        (header->cluster_id == 0 || header->cluster_id == load(&term->cluster_id)))
        return; /* it would raise nothing */
    pthread_mutex_lock(&term->mu);
    if (load(&term->cluster_id) == 0)
        store(&term->cluster_id, header->cluster_id);
    if (header->cluster_id != 0 && header->cluster_id != load(&term->cluster_id))
        note_other(term, header->cluster_id, header->raft_term);
    else if (header->raft_term > load(&term->highest))
        store(&term->highest, header->raft_term);
    pthread_mutex_unlock(&term->mu);
}

uint64_t term_now(const struct term *term)
{
    return load(&term->highest);
}
