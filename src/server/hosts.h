/* src/server/hosts.h
 *
 * hosts: the host names that plain HTTP requests other than gRPC may name.
 *
 * A web page can make its visitor's browser send requests to an address that only the visitor can reach, by giving the
 * page's own name that address (DNS rebinding). Such requests name the page's host. Allowed are addresses, localhost,
 * the advertised name, configured names, and no name at all: a browser always names a host. TLS and unix sockets are
 * not checked: a browser rejects a certificate for another name, and cannot reach a unix socket.
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

/* True: the request was refused with 421, which was the exchange's last word. `hosts` NULL: all are allowed. */
bool hosts_refuse(const struct hosts *hosts, struct exchange *x, const struct exchange_head *head);

#endif
