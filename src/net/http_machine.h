/* src/net/http_machine.h: net/http.h as a carrier carries it: belfry_carrier_open(.., &belfry_http_machine, http, ..).
 * belfry_http_start() is the owner's to say, from inside the carrier's `up`. A connection that is dead because a call
 * over HTTP/1.1 was cancelled is told as draining. Thread: owner. */
#ifndef BELFRY_NET_HTTP_MACHINE_H
#define BELFRY_NET_HTTP_MACHINE_H

#include "net/carrier.h"

extern const struct belfry_machine belfry_http_machine; /* of struct belfry_http */

#endif
