/* src/serve/kube/kube_reader.c */
#include "serve/kube/kube_reader.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>

/* A page on its way. */
struct envelope {
    struct history_reader_task task; /* on the way there */
    struct mail mail;                /* on the way back */
    struct belfry_list node;         /* in `free` */
    struct pages *pages;
    struct kube_page *page;
    void (*back)(struct kube_page *page, void *user);
    void *user;
};

struct pages {
    struct kube_reader reader;
    /* fixed at creation */
    struct history_reader *const *history;
    struct thread *thread;
    /* the worker's */
    struct belfry_list free;
    /* any: the worker's own, and one for each page that is away. When the worker has ended, pages come back on
     * whatever thread finds its mailbox closed, perhaps on two at once. */
    _Atomic size_t refs;
    struct envelope envelopes[KUBE_LISTS];
};

static struct pages *pages_of(struct kube_reader *reader)
{
    return belfry_container(reader, struct pages, reader);
}

static void pages_unref(struct pages *pages)
{
    if (atomic_fetch_sub_explicit(&pages->refs, 1, memory_order_acq_rel) == 1)
        free(pages);
}

static void open_page(struct mail *mail, void *owner)
{
    struct envelope *envelope = belfry_container(mail, struct envelope, mail);
    struct pages *pages = envelope->pages;
    if (owner != NULL) /* before back(), which may send the next one */
        belfry_list_append(&pages->free, &envelope->node);
    envelope->back(envelope->page, envelope->user);
    pages_unref(pages);
}

static void run_page_read(struct history_reader_task *task, struct store *store)
{
    struct envelope *envelope = belfry_container(task, struct envelope, task);
    if (store == NULL)
        envelope->page->err = BELFRY_ERR_CANCELED;
    else
        kube_page_read(envelope->page, store);
    thread_post(envelope->pages->thread, &envelope->mail);
}

static void begin_read(struct kube_reader *reader, struct kube_page *page,
                       void (*back)(struct kube_page *page, void *user), void *user)
{
    struct pages *pages = pages_of(reader);
    assert(!belfry_list_empty(&pages->free)); /* the caller keeps to KUBE_LISTS */
    struct envelope *envelope = belfry_container(belfry_list_pop(&pages->free), struct envelope, node);
    envelope->page = page;
    envelope->back = back;
    envelope->user = user;
    atomic_fetch_add_explicit(&pages->refs, 1, memory_order_relaxed);
    history_reader_run(*pages->history, &envelope->task);
}

enum belfry_err kube_reader_create(struct history_reader *const *history, struct store *store, struct thread *thread,
                                   struct kube_reader **out)
{
    struct pages *pages = calloc(1, sizeof(*pages));
    if (pages == NULL)
        return BELFRY_ERR_NOMEM;
    pages->reader.read = begin_read;
    pages->history = history;
    pages->thread = thread;
    atomic_init(&pages->refs, 1);
    belfry_list_init(&pages->free);
    for (size_t i = 0; i < KUBE_LISTS; i++) {
        pages->envelopes[i] =
            (struct envelope){.task = {.store = store, .run = run_page_read}, .mail.open = open_page, .pages = pages};
        belfry_list_append(&pages->free, &pages->envelopes[i].node);
    }
    *out = &pages->reader;
    return BELFRY_OK;
}

void kube_reader_destroy(struct kube_reader *reader)
{
    if (reader != NULL)
        pages_unref(pages_of(reader));
}
