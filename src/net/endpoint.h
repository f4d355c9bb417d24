/* src/net/endpoint.h
 *
 * endpoint: one place to connect to, as users write it: host:port, http://host:port, https://host:port,
 * unix:///path (plain) and unixs:///path (TLS). IPv6 in brackets. The default port is 2379.
 *
 * Thread: any. Plain data.
 */
#ifndef BELFRY_NET_ENDPOINT_H
#define BELFRY_NET_ENDPOINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define BELFRY_ENDPOINT_TEXT 320 /* holds any URL below: host names end at 253 bytes, unix paths at 107 */

struct belfry_endpoint {
    bool tls;
    bool is_unix;
    bool default_port;                    /* TCP: none was written */
    uint16_t port;                        /* TCP only */
    char host[256];                       /* name or address without brackets; unix: the path */
    char url[BELFRY_ENDPOINT_TEXT];       /* normal form, for people: "http://127.0.0.1:2379" */
    char authority[BELFRY_ENDPOINT_TEXT]; /* for :authority: "127.0.0.1:2379"; unix: "localhost" */
};

/* Parses one endpoint. On failure a sentence that names the text and the remedy is stored in why[0, why_len).
 * Errors: BELFRY_ERR_INVALID. */
BELFRY_NODISCARD enum belfry_err belfry_endpoint_parse(const char *text, size_t len, struct belfry_endpoint *out,
                                                       char *why, size_t why_len);

/* Parses a list separated by commas (spaces around them are fine). The caller frees *out with free().
 * Errors: BELFRY_ERR_INVALID (one is wrong, or there is none), BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err belfry_endpoint_parse_list(const char *text, struct belfry_endpoint **out,
                                                            size_t *out_n, char *why, size_t why_len);

/* Does what is sent there stay on this machine? Unix sockets, 127.0.0.0/8, ::1 and "localhost". */
bool belfry_endpoint_is_loopback(const struct belfry_endpoint *endpoint);

#endif
