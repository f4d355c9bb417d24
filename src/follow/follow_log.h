/* src/follow/follow_log.h
 *
 * follow_log: one log line per change of how following upstream goes: looking, connected, listing (with progress every
 * 5 s), replaying, live, stale, diverged, denied, trouble with the disk and its end.
 *
 * Thread: owner. Pure: facts in, lines out.
 */
#ifndef BELFRY_FOLLOW_FOLLOW_LOG_H
#define BELFRY_FOLLOW_FOLLOW_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/log.h"
#include "follow/upstream.h"
#include "net/endpoint.h"

/* How it is now. Texts are lent for the call. */
struct follow_facts {
    /* the connection of the live stream */
    const char *endpoint;    /* NULL: no stream is open */
    bool connected;          /* there is a connection, if no stream */
    bool refused;            /* its version is refused: the driver has logged that, and retries */
    const char *lost_why;    /* why the last connection was lost */
    const char *unreachable; /* all endpoints were tried in vain: what is known against them; "": they were not */
    size_t n_endpoints;
    const char *first_endpoint;
    /* the machine */
    enum upstream_state state;
    bool ready, stale;
    int64_t head, committed, upstream_revision;
    uint64_t past;
    uint64_t relists_rewritten; /* upstream_stats */
    uint64_t keys_listed;
    const char *list_why; /* why it lists */
    /* the disk */
    bool disk_trouble, disk_stuck;
    const char *disk_why;
};

/* Upstream has begun another past, with less in it: an empty etcd, another one, or an old backup. */
struct follow_loss {
    uint64_t at_ms;       /* when it was followed again; 0: it never happened since the start */
    int64_t rev_from, to; /* the tier's revision before, and after */
    uint64_t keys;        /* after */
};

/* What was logged. Zeroes, and a log, to begin with. */
struct follow_log {
    const struct belfry_log *log;
    enum { FOLLOW_NEW, FOLLOW_LOOKING, FOLLOW_UNREACHABLE, FOLLOW_CONNECTED } link;
    char endpoint[BELFRY_ENDPOINT_TEXT];
    enum upstream_state state;
    bool stale, disk_trouble, disk_stuck;
    bool denied; /* until it follows live */
    uint64_t relists_rewritten;
    bool is_rewritten; /* the past is being replaced: */
    int64_t rev_from;  /* the revision that the tier had reached in it */
    struct follow_loss loss;
    uint64_t listing_due_ms; /* the next line about a listing under way */
};

void follow_log_changes(struct follow_log *said, const struct follow_facts *facts, uint64_t now_ms);

/* When follow_log_changes() has something to log though nothing changed; BELFRY_NEVER: not. */
uint64_t follow_log_due(const struct follow_log *said);

/* Does the error mean that upstream does not let the tier's own user read its scope, or wants a user? */
bool follow_log_is_denial(enum belfry_err err, const char *why);

/* Logs a denial with the commands that grant the rights, once until it follows live. `user` NULL: the tier has none;
 * `scope`: the key prefix, "" for everything. */
void follow_log_denied(struct follow_log *said, const char *why, const char *user, struct belfry_bytes scope);

#endif
