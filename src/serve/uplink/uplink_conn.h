/* src/serve/uplink/uplink_conn.h
 *
 * uplink_conn: one connection to one endpoint: a transport, HTTP/2 on it, the calls that run on it, and PINGs.
 *
 *     DIALING --> UP --> DRAINING --> gone        any state may go to gone
 *
 * DRAINING (GOAWAY came, its stream ids are used up, or it was retired): nothing new, and gone with its last call.
 *
 * Thread: owner (the loop's).
 */
#ifndef BELFRY_SERVE_UPLINK_UPLINK_CONN_H
#define BELFRY_SERVE_UPLINK_UPLINK_CONN_H

#include "base/list.h"
#include "net/transport.h"
#include "serve/uplink/uplink_head.h"

#define UPLINK_CONN_WINDOW  (256 * 1024) /* of each stream */
#define UPLINK_CONN_PING_MS 10000        /* between PINGs while calls run, and until one counts as unanswered */

struct uplink_call;
struct uplink_conn;

struct uplink_conn_events {
    void (*up)(struct uplink_conn *conn, void *user);
    /* It takes calls (DIALING and DRAINING ones are not asked): the moment for uplink_conn_start(). */
    void (*feed)(struct uplink_conn *conn, void *user);
    /* The first answer came: it not only connects but serves. */
    void (*serves)(struct uplink_conn *conn, void *user);
    /* UP -> DRAINING. Forget it: no further event but `returned`. */
    void (*draining)(struct uplink_conn *conn, const char *why, void *user);
    /* DIALING or UP -> gone. Forget it. `returned` and the ends of its calls follow. */
    void (*lost)(struct uplink_conn *conn, const char *why, void *user);
    /* A call that never left: it may run elsewhere. */
    void (*returned)(struct uplink_call *call, void *user);
};

/* Starts connecting. It is in `all` until it is gone. Errors: BELFRY_ERR_NOMEM, BELFRY_ERR_INVALID. */
BELFRY_NODISCARD enum belfry_err uplink_conn_open(const struct belfry_transport_opts *transport,
                                                  struct belfry_list *all, const struct uplink_conn_events *events,
                                                  void *user, struct uplink_conn **out);

/* Closes every connection of that list: calls are told `closed`, the owner hears nothing. */
void uplink_conn_close_all(struct belfry_list *all, const char *why);

/* Once it is UP: whether the certificate that we presented on it has a common name. */
bool uplink_conn_has_name(const struct uplink_conn *conn);

/* Runs a call, if the peer allows one more. The call is in no list. Errors: BELFRY_ERR_AGAIN (not now: `feed` will come
 * again, or the connection is on its way out). */
BELFRY_NODISCARD enum belfry_err uplink_conn_start(struct uplink_conn *conn, struct uplink_call *call,
                                                   enum uplink_head_as as);

/* UP -> DRAINING without an event: the owner forgets it. */
void uplink_conn_retire(struct uplink_conn *conn);

/* Takes a running call off the connection, with RST_STREAM(CANCEL) if its HEADERS have left. */
void uplink_conn_cancel(struct uplink_conn *conn, struct uplink_call *call);

void uplink_conn_resume(struct uplink_conn *conn, struct uplink_call *call);
void uplink_conn_taken(struct uplink_conn *conn, struct uplink_call *call, size_t n);

/* There may be something to start. */
void uplink_conn_flush(struct uplink_conn *conn);

#endif
