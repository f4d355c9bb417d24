/* src/serve/kube/kube_reader.h
 *
 * kube_reader: pages of lists read on the reader thread, and their way back to the worker that asked.
 *
 *     worker: read() --history_reader_run--> reader: kube_page_read() --mail--> worker: back()
 *
 * When the worker has ended meanwhile (its mailbox is closed), the thread that notices it calls back(). By then the
 * lists are gone, and back() only frees the page.
 *
 * Thread: owner (the worker's).
 * Memory: all of it at creation: KUBE_LISTS pages may be away at once, so none fails for lack of memory.
 */
#ifndef BELFRY_SERVE_KUBE_KUBE_READER_H
#define BELFRY_SERVE_KUBE_KUBE_READER_H

#include "follow/history_reader.h"
#include "serve/kube/kube_list.h"
#include "thread/thread.h"

/* For the lists of the worker that lives on `thread`. *history is there before the first read(); it and the thread
 * outlive the last page. `store`: that is read; NULL: the reader's own. Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err kube_reader_create(struct history_reader *const *history, struct store *store,
                                                    struct thread *thread, struct kube_reader **out);

/* After its lists were destroyed; pages that are away still come back. NULL is fine. */
void kube_reader_destroy(struct kube_reader *reader);

#endif
