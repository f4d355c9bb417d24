/* src/net/dns.h
 *
 * dns: host names to addresses by c-ares on the loop; no thread.
 *
 * Numeric addresses are answered without c-ares. Channels are made on first use, and again when the resolver's files
 * changed, so that a long-lived process follows /etc/resolv.conf.
 *
 * Thread: owner (the loop's).
 */
#ifndef BELFRY_NET_DNS_H
#define BELFRY_NET_DNS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <uv.h>

#include "base/err.h"

#define BELFRY_DNS_MAX 16 /* addresses kept of one answer */

struct belfry_dns;
struct belfry_dns_query;

struct belfry_dns_answer {
    enum belfry_err err; /* BELFRY_OK, BELFRY_ERR_RESOLVE or BELFRY_ERR_NOMEM */
    const char *why;     /* "" when OK */
    size_t n;
    struct sockaddr_storage addresses[BELFRY_DNS_MAX]; /* in the order of RFC 6724 */
};

/* From the loop, never from inside belfry_dns_resolve(). The query is gone when it returns. */
typedef void (*belfry_dns_fn)(const struct belfry_dns_answer *answer, void *user);

BELFRY_NODISCARD enum belfry_err belfry_dns_create(uv_loop_t *loop, struct belfry_dns **out);

/* Drops all queries, without callbacks. Handles finish closing on the loop's next turns. NULL is fine. */
void belfry_dns_destroy(struct belfry_dns *dns);

/* Errors: BELFRY_ERR_NOMEM, BELFRY_ERR_RESOLVE (c-ares cannot be set up). */
BELFRY_NODISCARD enum belfry_err belfry_dns_resolve(struct belfry_dns *dns, const char *host, uint16_t port,
                                                    belfry_dns_fn fn, void *user, struct belfry_dns_query **out);

/* No callback will come. */
void belfry_dns_cancel(struct belfry_dns_query *query);

#endif
