/* src/thread/mail.h
 *
 * mail: how threads meet: a message posted to another thread's loop, opened there in the order of posting.
 *
 * A mail is embedded in what it carries, and its open() does the work on the other thread. With owner NULL the receiver
 * has ended: open() frees what the mail carries, or sends it back where that is possible.
 *
 * Thread: mailbox_post any; the rest owner (the loop's).
 */
#ifndef BELFRY_THREAD_MAIL_H
#define BELFRY_THREAD_MAIL_H

#include <uv.h>

#include "base/err.h"
#include "base/list.h"

struct mail {
    struct belfry_list node;
    void (*open)(struct mail *mail, void *owner); /* set by the sender; it owns the mail */
};

struct mailbox;

/* Errors: BELFRY_ERR_NOMEM, BELFRY_ERR_LIMIT (no descriptors). */
BELFRY_NODISCARD enum belfry_err mailbox_create(uv_loop_t *loop, void *owner, struct mailbox **out);

/* Opens mail that waits, and from now on each mail in mailbox_post(), with owner NULL. The memory stays until
 * mailbox_destroy(), which is called when no thread can post any more. NULL is fine for both. */
void mailbox_close(struct mailbox *box);
void mailbox_destroy(struct mailbox *box);

/* Never fails and never blocks for long. The poster may be the owner itself. */
void mailbox_post(struct mailbox *box, struct mail *mail);

/* Wakes the loop with nothing to open. Any thread. */
void mailbox_wake(struct mailbox *box);

#endif
