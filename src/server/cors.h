/* src/server/cors.h
 *
 * cors: the origins whose web pages may ask this tier and read its answers.
 *
 * A browser sends the origin of a page with each request that the page makes to another host, and shows the answer to
 * the page only if the answer names that origin. But the request was made: a page of any site could write, with the
 * address or the client certificate of its visitor as its credential. So requests of pages of other sites are refused
 * before they have an effect (cors_refuse()):
 *
 *     Origin is configured                                            served
 *     Origin has the host and port of Host (:authority), by any
 *     scheme, or Sec-Fetch-Site is same-origin                        served
 *     any other Origin, "null" too                                    refused
 *     no Origin, and Sec-Fetch-Site is cross-site or same-site        refused
 *     neither                                                         served: it is no page, or a page of this tier
 *
 * A page whose name leads to this tier (DNS rebinding) has the tier's own origin: hosts.h is for that.
 *
 * Origins are compared byte by byte, so a configured one must look as a
 * browser writes it (RFC 6454, section 6.2): in lower case, without a path, and without the default port. There is no
 * "*": a page of any origin could then read what its visitor may.
 *
 * Thread: any. Pure but for cors_refuse().
 */
#ifndef BELFRY_SERVER_CORS_H
#define BELFRY_SERVER_CORS_H

#include "server/exchange.h"

struct cors_origins { /* lent */
    char *const *list;
    size_t n;
};

/* Why a browser never sends this as an origin, or why it may not be configured: the end of a sentence that begins with
 * the text. NULL: it is fine. */
const char *cors_origin_wrong(struct belfry_bytes text);

/* Does a page of another site ask? The rules above. */
bool cors_is_foreign(const struct cors_origins *origins, const struct exchange_head *head);

/* True: it does, and was refused with 403, which was the exchange's last word. */
bool cors_refuse(const struct cors_origins *origins, struct exchange *x, const struct exchange_head *head);

/* May a page of this origin read answers? `origin` is the value of the request's field. */
bool cors_origins_have(const struct cors_origins *origins, struct belfry_bytes origin);

#endif
