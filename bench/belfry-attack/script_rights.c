/* bench/belfry-attack/script_rights.c: clients that show tokens (--tokens), and want what their users may not have. */
#include <stdio.h>
#include <string.h>

#include "die.h"
#include "hpack.h"
#include "script_parts.h"
#include "scripts.h"
#include "wire/write.h"

#define LEASES  49   /* of others: 1 to that */
#define STREAMS 2000 /* of a connection */
#define PEEKS   60   /* the same */

/* About leases that others have, with their keys. */
static void lease_ttl_turn(struct hostile *hostile)
{
    for (uint8_t i = 1; i <= LEASES; i++) {
        const uint8_t ask[] = {0, 0, 0, 0, 4, 0x08, i, 0x10, 1};
        uint32_t id = script_call(hostile, SCRIPT_TIME_TO_LIVE, 0);
        hostile_frame(hostile, H2FRAME_DATA, H2FRAME_END_STREAM, id, ask, sizeof(ask));
    }
}

static void lease_revoke_turn(struct hostile *hostile)
{
    for (uint8_t i = 1; i <= LEASES; i++) {
        const uint8_t ask[] = {0, 0, 0, 0, 2, 0x08, i};
        uint32_t id = script_call(hostile, SCRIPT_REVOKE, 0);
        hostile_frame(hostile, H2FRAME_DATA, H2FRAME_END_STREAM, id, ask, sizeof(ask));
    }
}

static void watch_prefix(struct hostile *hostile, const char *key, const char *end, int64_t from)
{
    struct belfry_buf message = {0};
    uint8_t head[5] = {0};
    must(belfry_write_watch_create(&message, &(const struct belfry_wire_create){.key = belfry_bytes_str(key),
                                                                                .range_end = belfry_bytes_str(end),
                                                                                .start_revision = from}),
         "create");
    h2frame_write_u32(head + 1, (uint32_t)belfry_buf_len(&message));
    uint32_t id = script_call(hostile, SCRIPT_WATCH, 0);
    hostile_frame(hostile, H2FRAME_DATA, 0, id, head, sizeof(head));
    hostile_frame(hostile, H2FRAME_DATA, 0, id, belfry_buf_bytes(&message).data, belfry_buf_len(&message));
    belfry_buf_fini(&message);
}

/* A watch of a key of its own for each token, so that the tier asks about the rights of all of them. */
static void minted_turn(struct hostile *hostile)
{
    for (int i = 0; i < 50 && hostile->step < STREAMS; i++, hostile->step++) {
        char key[64], end[72];
        snprintf(key, sizeof(key), "/k/%zu/%zu", hostile->index, hostile->step);
        snprintf(end, sizeof(end), "%s~", key);
        watch_prefix(hostile, key, end, 0);
    }
}

/* What the user may not see at all, and what it may see at times; new and old, again and again. */
static void peek_turn(struct hostile *hostile)
{
    static const uint8_t secret[] = {0,   0,   0,    0, 20,  0x0a, 8,   '/', 's', 'e', 'c', 'r', 'e',
                                     't', '/', 0x12, 8, '/', 's',  'e', 'c', 'r', 'e', 't', '0'};
    if (hostile->step++ < PEEKS) {
        if (hostile->index % 3 == 0) {
            watch_prefix(hostile, "/secret/", "/secret0", 1);
        } else if (hostile->index % 3 == 1) {
            watch_prefix(hostile, "/race/", "/race0", 0);
        } else {
            uint32_t id = script_call(hostile, SCRIPT_RANGE, 0);
            hostile_frame(hostile, H2FRAME_DATA, H2FRAME_END_STREAM, id, secret, sizeof(secret));
        }
    }
    script_pause(hostile, 100);
}

const struct script script_rights[] = {
    {"lease-ttl", "questions about leases of others", SCRIPT_HTTP2, 10, 256 << 10, .turn = lease_ttl_turn},
    {"lease-revoke", "revoking leases of others", SCRIPT_HTTP2, 4, 32 << 10, .turn = lease_revoke_turn},
    {"minted", "watches with as many tokens as there are, each of a key of its own", SCRIPT_HTTP2, 4, 1 << 20,
     .turn = minted_turn},
    {"peek", "watches and reads of what the user may not see", SCRIPT_HTTP2, 12, 1 << 20, .turn = peek_turn},
    {0},
};
