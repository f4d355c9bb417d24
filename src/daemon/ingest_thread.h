/* src/daemon/ingest_thread.h
 *
 * ingest_thread: the thread that follows upstream and writes replica and log.
 *
 * Thread: start, stop, destroy: the front's; the rest any.
 */
#ifndef BELFRY_DAEMON_INGEST_THREAD_H
#define BELFRY_DAEMON_INGEST_THREAD_H

#include "daemon/standing.h"
#include "follow/driver.h"
#include "follow/history_reader.h"
#include "serve/admin/resources.h"
#include "thread/thread.h"

struct ingest_thread;

struct ingest_thread_opts {
    struct driver_opts driver; /* without loop */
    struct standing *standing;
    void (*wake)(void *user); /* the log has more, or the standing moved */
    void *user;
};

/* The replica is opened for following when it returns: the reader may begin. Errors: as driver_create(). */
BELFRY_NODISCARD enum belfry_err ingest_thread_start(const struct ingest_thread_opts *opts, struct ingest_thread **out);
void ingest_thread_stop(struct ingest_thread *ingest);
void ingest_thread_destroy(struct ingest_thread *ingest);

/* Backfills a lost job; history_reader_answer() follows. */
void ingest_thread_backfill(struct ingest_thread *ingest, struct history_reader_job *job);

/* Opens `mail` on the thread, with the ingest_thread as owner. */
void ingest_thread_post(struct ingest_thread *ingest, struct mail *mail);

/* On the thread only, as all that follows: as driver_read_point(). */
void ingest_thread_read_point(struct ingest_thread *ingest, struct readpoint_ask *ask);

struct ingest_thread_numbers {
    struct driver_status status;
    struct about about;
    int64_t log_oldest; /* the oldest revision that the log can be read from */
    size_t log_bytes;
    struct resource_numbers *resources; /* in front of Kubernetes; owned by whoever asked; NULL: none, or no memory */
    size_t n_resources;
};
void ingest_thread_numbers(struct ingest_thread *ingest, struct ingest_thread_numbers *out);

#endif
