/* bench/belfry-attack/script_parts.h
 *
 * script_parts: what scripts have in common: calls with small heads, and DATA within the windows.
 *
 * Thread: owner, that of the connection.
 */
#ifndef ATTACK_SCRIPT_PARTS_H
#define ATTACK_SCRIPT_PARTS_H

#include "hostile.h"

#define SCRIPT_RANGE        "/etcdserverpb.KV/Range"
#define SCRIPT_PUT          "/etcdserverpb.KV/Put"
#define SCRIPT_WATCH        "/etcdserverpb.Watch/Watch"
#define SCRIPT_KEEP_ALIVE   "/etcdserverpb.Lease/LeaseKeepAlive"
#define SCRIPT_REVOKE       "/etcdserverpb.Lease/LeaseRevoke"
#define SCRIPT_TIME_TO_LIVE "/etcdserverpb.Lease/LeaseTimeToLive"

/* Appends the next of the tokens that the attack has, if it has any. */
void script_token(struct hostile *hostile, struct belfry_buf *block);

/* HEADERS of a call of `path`, which must be the same for all calls of a connection, with a token: 15 bytes and the
 * token from the second on. */
uint32_t script_call(struct hostile *hostile, const char *path, uint8_t flags);

/* One frame of DATA on the stream that was opened last, as large as the windows allow and `len` at most. Returns how
 * many bytes went. */
size_t script_data(struct hostile *hostile, const void *data, size_t len);

/* Its next turn is not before `ms` have passed. */
void script_pause(struct hostile *hostile, uint64_t ms);

#endif
