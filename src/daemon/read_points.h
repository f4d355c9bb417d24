/* src/daemon/read_points.h
 *
 * read_points: how a worker asks ingest how far upstream is (serve/reads/points.h, follow/readpoint.h), by mail.
 *
 *     worker: ask() --mail--> ingest: driver_read_point() --told--> mail --> worker: back()
 *
 * Thread: owner (the worker's).
 * Memory: all of it at creation. It lives until the mail that is away has come back, on whatever thread finds the
 *         worker's mailbox closed.
 */
#ifndef BELFRY_DAEMON_READ_POINTS_H
#define BELFRY_DAEMON_READ_POINTS_H

#include "daemon/ingest_thread.h"
#include "serve/reads/points.h"
#include "thread/thread.h"

/* For the worker that lives on `thread`. *ingest is there before the first ask(). Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err read_points_create(struct ingest_thread *const *ingest, struct thread *thread,
                                                    struct points_source **out);

/* After its points were destroyed. NULL is fine. */
void read_points_destroy(struct points_source *source);

#endif
