/* src/thread/mail.c */
#include "thread/mail.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

struct mailbox {
    /* fixed at creation */
    void *owner;
    /* under mu */
    pthread_mutex_t mu;
    struct belfry_list waiting;
    bool closed; /* the async is not to be touched any more */
    /* the owner's; uv_async_send() on it is for any thread while it is not closed */
    uv_async_t *async;
};

static void open_all(struct belfry_list *mails, void *owner)
{
    for (struct belfry_list *node; (node = belfry_list_pop(mails)) != NULL;) {
        struct mail *mail = belfry_container(node, struct mail, node);
        mail->open(mail, owner);
    }
}

static void on_async(uv_async_t *async)
{
    struct mailbox *box = async->data;
    struct belfry_list mails;
    belfry_list_init(&mails);
    pthread_mutex_lock(&box->mu);
    belfry_list_move_all(&mails, &box->waiting);
    pthread_mutex_unlock(&box->mu);
    open_all(&mails, box->owner);
}

enum belfry_err mailbox_create(uv_loop_t *loop, void *owner, struct mailbox **out)
{
    struct mailbox *box = calloc(1, sizeof(*box));
    uv_async_t *async = malloc(sizeof(*async));
    if (box == NULL || async == NULL || uv_async_init(loop, async, on_async) != 0) {
        enum belfry_err err = box == NULL || async == NULL ? BELFRY_ERR_NOMEM : BELFRY_ERR_LIMIT;
        free(async);
        free(box);
        return err;
    }
    async->data = box;
    box->async = async;
    box->owner = owner;
    belfry_list_init(&box->waiting);
    pthread_mutex_init(&box->mu, NULL);
    *out = box;
    return BELFRY_OK;
}

static void free_async(uv_handle_t *handle)
{
    free(handle);
}

void mailbox_close(struct mailbox *box)
{
    if (box == NULL)
        return;
    struct belfry_list mails;
    belfry_list_init(&mails);
    pthread_mutex_lock(&box->mu);
    box->closed = true;
    belfry_list_move_all(&mails, &box->waiting);
    pthread_mutex_unlock(&box->mu);
    uv_close((uv_handle_t *)box->async, free_async);
    open_all(&mails, NULL);
}

void mailbox_destroy(struct mailbox *box)
{
    if (box == NULL)
        return;
    pthread_mutex_destroy(&box->mu);
    free(box);
}

void mailbox_post(struct mailbox *box, struct mail *mail)
{
    pthread_mutex_lock(&box->mu);
    bool closed = box->closed;
    if (!closed) {
        belfry_list_append(&box->waiting, &mail->node);
        uv_async_send(box->async);
    }
    pthread_mutex_unlock(&box->mu);
    if (closed)
        mail->open(mail, NULL);
}

void mailbox_wake(struct mailbox *box)
{
    pthread_mutex_lock(&box->mu);
    if (!box->closed)
        uv_async_send(box->async);
    pthread_mutex_unlock(&box->mu);
}
