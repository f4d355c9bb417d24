/* src/serve/admin/tail.h
 *
 * tail: changes of keys with a prefix as they are published, as server-sent events, for people who look (/debug/tail).
 *
 * It reads the log (core/evlog.h) on the front's thread, in short turns, several times per second: no worker and no
 * upstream is involved. It is not a watch: of more than TAIL_LINES changes per turn the rest is counted and left out,
 * values are cut at TAIL_VALUE bytes, and a reader that falls behind the log goes on with the newest change. Each of
 * these is told:
 *
 *     event: change     {"revision":N,"type":"put","key":"..","value":"..","bytes":N}, or "type":"delete" and no value;
 *                       bytes: of the whole value; key_b64, value_b64: base64, where it is no UTF-8
 *     event: skipped    {"changes":N}: changes that were left out
 *     event: lost       {}: changes that were not read; how many is not known
 *
 * The tail shows data without a right of its reader. daemon/config_check.c says where it may be turned on.
 *
 * Thread: owner (the front's loop).
 * Memory: at most TAIL_MAX readers, and one message of about TAIL_BYTES at a time.
 */
#ifndef BELFRY_SERVE_ADMIN_TAIL_H
#define BELFRY_SERVE_ADMIN_TAIL_H

#include "core/evlog.h"
#include "server/exchange.h"

#define TAIL_MAX    4
#define TAIL_LINES  100          /* changes per reader and turn */
#define TAIL_EVENTS 20000        /* that are looked at, per reader and turn */
#define TAIL_VALUE  512          /* bytes of a value that are shown */
#define TAIL_PREFIX 256          /* bytes of a prefix, at most */
#define TAIL_BYTES  (32 * 1024u) /* of a message, but for the last change in it */

struct tail;

/* `worker`: the tail's number among the readers of the log. Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err tail_create(struct evlog *log, unsigned worker, struct tail **out);
void tail_destroy(struct tail *tail); /* resets responses that are open; NULL is fine */

/* Answers a request with a stream of changes from now on. False: there are TAIL_MAX already, or there is no memory; the
 * exchange is untouched. The prefix is at most TAIL_PREFIX bytes. */
bool tail_open(struct tail *tail, struct exchange *x, struct belfry_bytes prefix);

/* A turn for each reader whose connection has room. */
void tail_tick(struct tail *tail);

#endif
