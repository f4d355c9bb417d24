/* src/serve/kube/kube_reader.h
 *
 * kube_reader: pages of lists read on the reader thread, and their way back to the worker that asked.
 *
 *     worker: read() --history_reader_run--> reader: kube_page_read() --mail--> worker: back()
 *
 * When the worker has ended meanwhile (its mailbox is closed), back() is called by whoever finds that out: by then its
 * lists are gone, and all that back() does is to free the page.
 *
 * Thread: owner (the worker's).
 * Memory: all of it at creation: KUBE_LISTS pages may be away at once, so that none fails for want of an envelope.
 */
#ifndef BELFRY_SERVE_KUBE_KUBE_READER_H
#define BELFRY_SERVE_KUBE_KUBE_READER_H

#include "follow/history_reader.h"
#include "serve/kube/kube_list.h"
#include "thread/thread.h"

/* For the lists of the worker that lives on `thread`. *history is there before the first read(); it and the thread
 * outlive the last page. Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err kube_reader_create(struct history_reader *const *history, struct thread *thread,
                                                    struct kube_reader **out);

/* After its lists were destroyed; pages that are away come back all the same. NULL is fine. */
void kube_reader_destroy(struct kube_reader *reader);

#endif
