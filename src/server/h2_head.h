/* src/server/h2_head.h
 *
 * h2_head: the head of a request while it is received. Header blocks do not interleave, so a connection has one.
 *
 * Thread: owner. Pure; `now` is given.
 * Memory: at most H2_HEAD_BYTES of fields, as SETTINGS_MAX_HEADER_LIST_SIZE counts them; of a larger head nothing is
 *         kept.
 */
#ifndef BELFRY_SERVER_H2_HEAD_H
#define BELFRY_SERVER_H2_HEAD_H

#include "server/fields.h"

#define H2_HEAD_BYTES    (64 * 1024)
#define H2_HEAD_OVERHEAD 32 /* that each field counts for, besides its bytes: RFC 9113, 6.5.2 */

struct h2_head { /* all zero: none */
    struct fields fields;
    size_t bytes;      /* as SETTINGS counts them */
    bool is_open;      /* it was begun and is not complete; those refused do not count */
    uint64_t since_ms; /* when it was begun */
};

/* Drops what was received. */
void h2_head_clear(struct h2_head *head);

/* Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err h2_head_add(struct h2_head *head, struct belfry_bytes name, struct belfry_bytes value);

static inline bool h2_head_is_too_large(const struct h2_head *head)
{
    return head->bytes > H2_HEAD_BYTES;
}

#endif
