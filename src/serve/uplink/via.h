/* src/serve/uplink/via.h
 *
 * via: the tiers that a request has gone through, as its metadata says:
 *
 *     belfry-via: c, b        nearest to the client first; several fields count as one, in their order
 *
 * A tier's own requests begin with its name, and what it relays gets its name behind those that are there. So a request
 * that comes back to a tier that it has been through shows a circle, and the names show which. etcd takes no notice.
 *
 * A name is written in one way only: letters, digits and -._~:@/+ as they are, all else as %XX with capital digits. So
 * words are compared as bytes.
 *
 * Thread: any. Pure.
 */
#ifndef BELFRY_SERVE_UPLINK_VIA_H
#define BELFRY_SERVE_UPLINK_VIA_H

#include "server/exchange.h"

#define VIA_FIELD      "belfry-via"
#define VIA_TIERS      8  /* that a request may go through */
#define VIA_WORD_BYTES 64 /* of a name as it is written; what is longer is cut */
#define VIA_WHY_BYTES  1024

/* Writes a name as a word, ends it with NUL and returns its length. An empty name is written as "-". */
size_t via_word(const char *name, char out[VIA_WORD_BYTES + 1]);

struct via {
    size_t n;
    struct belfry_bytes words[VIA_TIERS]; /* lent, as the head is */
};

enum via_verdict {
    VIA_FINE,
    VIA_CIRCLE,    /* the tier's own name is among them */
    VIA_TOO_MANY,  /* VIA_TIERS names already */
    VIA_UNREADABLE /* not a list of names */
};

/* May a tier whose word is `own` take this request? When not, the sentence for who asked is in why, with the chain. */
enum via_verdict via_judge(const struct exchange_head *head, const char *own, struct via *out, char why[VIA_WHY_BYTES]);

#endif
