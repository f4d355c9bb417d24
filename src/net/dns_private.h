/* src/net/dns_private.h: what the unit suite needs of dns.c, so that it asks nobody but itself. Thread: owner. */
#ifndef BELFRY_NET_DNS_PRIVATE_H
#define BELFRY_NET_DNS_PRIVATE_H

#include "net/dns.h"

/* Before the first query: reads `resolv_conf` in place of the system's (lent, outlives dns) and asks at `udp_port`. */
void belfry_dns_redirect(struct belfry_dns *dns, const char *resolv_conf, uint16_t udp_port);

#endif
