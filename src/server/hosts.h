/* src/server/hosts.h
 *
 * hosts: by which names this tier may be asked over plain HTTP that is not gRPC.
 *
 * A web page can make its visitor's browser ask an address that only the visitor can reach, by giving its own name that
 * address (DNS rebinding). The browser then names the page's host, which is none of ours. Allowed are addresses, localhost,
 * the advertised name and those that were configured; a request that names no host (HTTP/1.0) does not come from a browser.
 * TLS has its own answer to this, and a unix socket is out of a browser's reach.
 *
 * Thread: any. Plain data, lent by the configuration.
 */
#ifndef BELFRY_SERVER_HOSTS_H
#define BELFRY_SERVER_HOSTS_H

#include "server/exchange.h"

struct hosts {
    const char *advertise; /* a URL; NULL: none */
    char *const *names;    /* "*" allows every name */
    size_t n_names;
};

/* `authority` is a name or an address, with a port or without. */
bool hosts_allow(const struct hosts *hosts, struct belfry_bytes authority);

/* True: the request was refused with 421, which was the exchange's last word. `hosts` NULL: nothing is. */
bool hosts_refuse(const struct hosts *hosts, struct exchange *x, const struct exchange_head *head);

#endif
