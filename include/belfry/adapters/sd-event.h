/* belfry/adapters/sd-event.h: a session on systemd's event loop. Header only: link libsystemd yourself.
 *
 *     struct belfry_sd_event on_loop;
 *     err = belfry_sd_event_attach(&on_loop, event, b, on_failed, NULL);
 *     sd_event_loop(event);
 *     belfry_sd_event_detach(&on_loop); // before belfry_close(b)
 *
 * The loop dispatches the session whenever it has work; an idle session does not wake the loop. If belfry_dispatch()
 * fails, the adapter stops watching the descriptor, which would stay readable, and calls `failed` once. `failed` may
 * detach and close the session.
 *
 * Detach before closing the session: closing it closes the descriptor, and the loop would watch whatever file gets that
 * number next. Detaching is allowed inside a callback of the session, but the storage must stay valid until the
 * loop's own event is over.
 *
 * Thread: the one that runs the loop.
 */
#ifndef BELFRY_ADAPTERS_SD_EVENT_H
#define BELFRY_ADAPTERS_SD_EVENT_H

#include <belfry/belfry.h>
#include <errno.h>
#include <sys/epoll.h>
#include <systemd/sd-event.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef void (*belfry_sd_event_failed_fn)(struct belfry *b, int err, void *user);

struct belfry_sd_event { /* allocated by the caller; only the adapter uses the fields */
    struct belfry *session;
    sd_event_source *source; /* NULL: detached */
    belfry_sd_event_failed_fn failed;
    void *user;
};

static inline int belfry_sd_event_ready_(sd_event_source *source, int fd, uint32_t what, void *user)
{
    struct belfry_sd_event *a = (struct belfry_sd_event *)user;
    (void)fd, (void)what;
    int err = belfry_dispatch(a->session);
    if (err == BELFRY_OK || a->source == NULL)
        return 0;
    sd_event_source_set_enabled(source, SD_EVENT_OFF);
    if (a->failed != NULL)
        a->failed(a->session, err, a->user);
    return 0;
}

/* `failed` may be NULL. Errors: BELFRY_ERR_NOMEM, BELFRY_ERR_IO (the loop does not accept the descriptor). */
static inline int belfry_sd_event_attach(struct belfry_sd_event *a, sd_event *event, struct belfry *b,
                                         belfry_sd_event_failed_fn failed, void *user)
{
    a->session = b;
    a->failed = failed;
    a->user = user;
    a->source = NULL;
    int r = sd_event_add_io(event, &a->source, belfry_fd(b), EPOLLIN, belfry_sd_event_ready_, a);
    return r >= 0 ? BELFRY_OK : r == -ENOMEM ? BELFRY_ERR_NOMEM : BELFRY_ERR_IO;
}

/* A second call does nothing. */
static inline void belfry_sd_event_detach(struct belfry_sd_event *a)
{
    if (a->source == NULL)
        return;
    sd_event_source_set_enabled(a->source, SD_EVENT_OFF);
    sd_event_source_unref(a->source);
    a->source = NULL;
}

#ifdef __cplusplus
}
#endif
#endif
