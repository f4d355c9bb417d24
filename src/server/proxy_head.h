/* src/server/proxy_head.h
 *
 * proxy_head: the head of the PROXY protocol, version 2, by which a balancer names the client that it connects for.
 *
 *      12 bytes          1           1              2                 length bytes
 *     +-----------------+-----------+--------------+-----------------+------------------------+-----------------+
 *     | 0D 0A 0D 0A 00  | version 2 | family, kind | length, highest | addresses and ports    | fields that are |
 *     | 0D 51 55 49 54  | command   | of the       | byte first      | of client and balancer | skipped (TLVs)  |
 *     | 0A              |           | connection   |                 |                        |                 |
 *     +-----------------+-----------+--------------+-----------------+------------------------+-----------------+
 *
 * The command PROXY names a client. LOCAL is the balancer's own connection (a health check): the head names no client.
 * Neither does a head of family UNIX or UNSPEC: the path of a socket on another machine says nothing about a client. A
 * head for datagrams is refused, and so is version 1, which is a line of text.
 *
 * Whoever sends the head is believed, so its owner decides first whether the sender may send one.
 *
 * Thread: owner. Pure.
 * Memory: fixed. A head of more than PROXY_HEAD_MOST bytes is refused.
 */
#ifndef BELFRY_SERVER_PROXY_HEAD_H
#define BELFRY_SERVER_PROXY_HEAD_H

#include "base/bytes.h"
#include "server/client_address.h"

#define PROXY_HEAD_FIXED 16   /* up to the length */
#define PROXY_HEAD_KEPT  52   /* with the addresses of IPv6; what follows is skipped */
#define PROXY_HEAD_MOST  4096 /* with all fields; balancers send a few hundred bytes */

struct proxy_head {
    size_t n;                      /* bytes received */
    size_t length;                 /* of the whole head, once n >= PROXY_HEAD_FIXED */
    uint8_t kept[PROXY_HEAD_KEPT]; /* the first of them */
    struct client_address client;  /* when it is whole; family UNKNOWN: it names no client */
    const char *why;               /* what is wrong with it, when it is refused; static */
};

/* All zero is a head of which nothing was received. */

/* Takes bytes up to the end of the head, and leaves the others in *bytes.
 * Errors: BELFRY_ERR_AGAIN (there is more to come), BELFRY_ERR_PROTOCOL (see `why`; the first wrong byte is enough). */
BELFRY_NODISCARD enum belfry_err proxy_head_read(struct proxy_head *head, struct belfry_bytes *bytes);

#endif
