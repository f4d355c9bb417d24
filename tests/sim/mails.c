/* tests/sim/mails.c */
#include "sim/mails.h"

#include <stdlib.h>

struct parcel {
    struct belfry_list node;
    uint64_t at_ms;
    struct mail *mail;
};

void mails_begin(struct thread *thread, struct sched *sched, uint64_t delay_ms, struct actor *actor, void *owner)
{
    *thread = (struct thread){.sched = sched, .delay_ms = delay_ms, .actor = actor, .owner = owner};
    belfry_list_init(&thread->mails);
}

/* The parcel is gone before its mail is opened, which may post it again. */
static void open_parcel(struct thread *thread, struct belfry_list *node)
{
    struct parcel *parcel = belfry_container(node, struct parcel, node);
    struct mail *mail = parcel->mail;
    belfry_list_remove(node);
    free(parcel);
    mail->open(mail, thread->owner);
}

void mails_end(struct thread *thread)
{
    thread->owner = NULL;
    while (!belfry_list_empty(&thread->mails))
        open_parcel(thread, thread->mails.next);
}

void mails_open(struct thread *thread)
{
    while (mails_due(thread) <= sched_now(thread->sched))
        open_parcel(thread, thread->mails.next);
}

uint64_t mails_due(const struct thread *thread)
{
    bool is_empty = belfry_list_empty(&thread->mails);
    return is_empty ? BELFRY_NEVER : belfry_container(thread->mails.next, struct parcel, node)->at_ms;
}

/* ---- the daemon's threads ---- */

void thread_post(struct thread *thread, struct mail *mail)
{
    struct parcel *parcel;
    if (thread->owner == NULL) {
        mail->open(mail, NULL);
        return;
    }
    if ((parcel = calloc(1, sizeof(*parcel))) == NULL)
        abort();
    parcel->mail = mail;
    parcel->at_ms = sched_now(thread->sched) + sched_below(thread->sched, thread->delay_ms + 1);
    if (!belfry_list_empty(&thread->mails)) { /* nothing overtakes */
        uint64_t last_ms = belfry_container(thread->mails.prev, struct parcel, node)->at_ms;
        parcel->at_ms = parcel->at_ms > last_ms ? parcel->at_ms : last_ms;
    }
    belfry_list_append(&thread->mails, &parcel->node);
    sched_wake(thread->sched, thread->actor, parcel->at_ms);
}

void ingest_thread_post(struct ingest_thread *ingest, struct mail *mail)
{
    thread_post(&ingest->thread, mail);
}

void ingest_thread_read_point(struct ingest_thread *ingest, struct readpoint_ask *ask)
{
    readpoint_add(ingest->point, ask);
}
