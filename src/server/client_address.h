/* src/server/client_address.h
 *
 * client_address: where a client connects from, in a form that can be compared, and networks of such addresses.
 *
 * An IPv4 client of an IPv6 socket (::ffff:10.0.0.7) has its IPv4 address, so that a client has one address whichever
 * socket it finds. A client of a Unix socket has its user's number.
 *
 * Thread: any. Pure but for client_address_accepted(), which asks the kernel for the user of a Unix socket's peer.
 * Memory: none.
 */
#ifndef BELFRY_SERVER_CLIENT_ADDRESS_H
#define BELFRY_SERVER_CLIENT_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/err.h"

enum client_family { CLIENT_UNKNOWN, CLIENT_UNIX, CLIENT_IPV4, CLIENT_IPV6 };

struct client_address {
    uint8_t family; /* enum client_family */
    uint16_t port;  /* in the order of this machine; 0: it has none */
    /* IPv4: the first 4 bytes; UNIX: the first 4 bytes are the user's number, the highest byte first; the rest is 0 */
    uint8_t bytes[16];
};

/* From the fields of a packet; an IPv6 address that stands for an IPv4 address becomes that. */
struct client_address client_address_ipv4(const uint8_t bytes[4], uint16_t port);
struct client_address client_address_ipv6(const uint8_t bytes[16], uint16_t port);

/* From what accept(2) says about the peer of `fd`. */
struct client_address client_address_accepted(int fd, const struct sockaddr *from);

/* "10.3.8.17:51442", "[fd00::7]:51442", "unix", "unknown". */
#define CLIENT_ADDRESS_TEXT 64
void client_address_text(const struct client_address *address, char out[CLIENT_ADDRESS_TEXT]);

/* What clients are told apart by: "10.3.8.17", "2001:db8:0:7::/64" (whoever has an IPv6 address has as many as there
 * are with the same first 64 bits), "127.0.0.0/8" (any process of this machine has all of them), "uid 1000",
 * "unknown". */
void client_address_name(const struct client_address *address, char out[CLIENT_ADDRESS_TEXT]);

/* Addresses that begin with the same bits; of family UNIX: all users. */
struct client_network {
    struct client_address first;
    uint8_t bits;
};

/* "10.0.0.0/8", "fd00::/8", one address without bits, or "unix". On failure `why` receives a sentence that says what to
 * write. Errors: BELFRY_ERR_INVALID. */
BELFRY_NODISCARD enum belfry_err client_network_parse(const char *text, struct client_network *out, char *why,
                                                      size_t why_len);
void client_network_text(const struct client_network *network, char out[CLIENT_ADDRESS_TEXT]);

bool client_address_in(const struct client_address *address, const struct client_network *network);

/* Several networks; lent. */
struct client_networks {
    const struct client_network *list;
    size_t n;
};
bool client_address_in_any(const struct client_address *address, const struct client_networks *networks);

#endif
