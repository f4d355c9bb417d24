/* src/server/hosts.h
 *
 * hosts: the host names that plain HTTP requests other than gRPC may name.
 *
 * A web page can make its visitor's browser send requests to an address that only the visitor can reach, by giving the
 * page's own name that address (DNS rebinding). Such requests name the page's host. Allowed are addresses, localhost,
 * the advertised name, configured names, and no name at all: a browser always names a host. TLS and unix sockets are
 * not checked: a browser rejects a certificate for another name, and cannot reach a unix socket.
 *
 * Thread: any; init and fini: its owner. The names may be replaced while requests are judged.
 * Memory: everything is lent by the configuration.
 */
#ifndef BELFRY_SERVER_HOSTS_H
#define BELFRY_SERVER_HOSTS_H

#include <pthread.h>

#include "server/exchange.h"

struct hosts {
    /* fixed at creation */
    const char *advertise; /* a URL; NULL: none */
    /* under mu, which is held for a comparison with each name */
    pthread_mutex_t mu;
    char *const *names; /* "*" allows every name */
    size_t n_names;
};

/* Begins without configured names. */
void hosts_init(struct hosts *hosts, const char *advertise);
void hosts_fini(struct hosts *hosts);

/* Replaces the configured names. The ones from before are not used any more when it returns. */
void hosts_set(struct hosts *hosts, char *const *names, size_t n_names);

/* `authority` is a name or an address, with a port or without. */
bool hosts_allow(struct hosts *hosts, struct belfry_bytes authority);

/* True: the request was refused with 421, which was the exchange's last word. `hosts` NULL: all are allowed. */
bool hosts_refuse(struct hosts *hosts, struct exchange *x, const struct exchange_head *head);

#endif
