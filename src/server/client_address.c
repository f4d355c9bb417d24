/* src/server/client_address.c */
#include "server/client_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#define NETWORK_MOST (INET6_ADDRSTRLEN + 4) /* "/128" */
#define LOOPBACK     127                    /* the first byte of an IPv4 address of this machine alone */

/* ---- an address ---- */

struct client_address client_address_ipv4(const uint8_t bytes[4], uint16_t port)
{
    struct client_address address = {.family = CLIENT_IPV4, .port = port};
    memcpy(address.bytes, bytes, 4);
    return address;
}

struct client_address client_address_ipv6(const uint8_t bytes[16], uint16_t port)
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff}; /* RFC 4291, 2.5.5.2 */
    if (memcmp(bytes, mapped, sizeof(mapped)) == 0)
        return client_address_ipv4(bytes + sizeof(mapped), port);
    struct client_address address = {.family = CLIENT_IPV6, .port = port};
    memcpy(address.bytes, bytes, 16);
    return address;
}

/* A peer whose user the kernel does not tell has the number that stands for no user: setreuid(2). */
static struct client_address unix_address(int fd)
{
    struct client_address address = {.family = CLIENT_UNIX};
    struct ucred peer = {.uid = UINT32_MAX};
    socklen_t len = sizeof(peer);
    (void)getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len);
    uint32_t uid = htonl(peer.uid);
    memcpy(address.bytes, &uid, sizeof(uid));
    return address;
}

struct client_address client_address_accepted(int fd, const struct sockaddr *from)
{
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    switch (from->sa_family) {
    case AF_INET:
        memcpy(&v4, from, sizeof(v4));
        return client_address_ipv4((const uint8_t *)&v4.sin_addr, ntohs(v4.sin_port));
    case AF_INET6:
        memcpy(&v6, from, sizeof(v6));
        return client_address_ipv6(v6.sin6_addr.s6_addr, ntohs(v6.sin6_port));
    case AF_UNIX:
        return unix_address(fd);
    default:
        return (struct client_address){.family = CLIENT_UNKNOWN};
    }
}

static void write_host(const struct client_address *address, char out[INET6_ADDRSTRLEN])
{
    inet_ntop(address->family == CLIENT_IPV4 ? AF_INET : AF_INET6, address->bytes, out, INET6_ADDRSTRLEN);
}

void client_address_text(const struct client_address *address, char out[CLIENT_ADDRESS_TEXT])
{
    char host[INET6_ADDRSTRLEN];
    switch ((enum client_family)address->family) {
    case CLIENT_UNKNOWN:
        snprintf(out, CLIENT_ADDRESS_TEXT, "unknown");
        return;
    case CLIENT_UNIX:
        snprintf(out, CLIENT_ADDRESS_TEXT, "unix");
        return;
    case CLIENT_IPV4:
    case CLIENT_IPV6:
        write_host(address, host);
        snprintf(out, CLIENT_ADDRESS_TEXT, address->family == CLIENT_IPV4 ? "%s:%u" : "[%s]:%u", host,
                 (unsigned)address->port);
        return;
    }
}

void client_address_name(const struct client_address *address, char out[CLIENT_ADDRESS_TEXT])
{
    char text[INET6_ADDRSTRLEN];
    uint8_t half[16] = {0};
    uint32_t uid;
    switch ((enum client_family)address->family) {
    case CLIENT_UNIX:
        memcpy(&uid, address->bytes, sizeof(uid));
        snprintf(out, CLIENT_ADDRESS_TEXT, "uid %lu", (unsigned long)ntohl(uid));
        return;
    case CLIENT_IPV4:
        inet_ntop(AF_INET, address->bytes, text, sizeof(text));
        snprintf(out, CLIENT_ADDRESS_TEXT, "%s", address->bytes[0] == LOOPBACK ? "127.0.0.0/8" : text);
        return;
    case CLIENT_IPV6:
        memcpy(half, address->bytes, sizeof(half) / 2);
        inet_ntop(AF_INET6, half, text, sizeof(text));
        snprintf(out, CLIENT_ADDRESS_TEXT, "%s/64", text);
        return;
    case CLIENT_UNKNOWN:
        break;
    }
    snprintf(out, CLIENT_ADDRESS_TEXT, "unknown");
}

/* ---- a network ---- */

/* Does `address` agree with `network` in its first `bits` bits? */
static bool same_bits(const uint8_t *address, const uint8_t *network, unsigned bits)
{
    unsigned whole = bits / 8, rest = bits % 8;
    uint8_t mask = (uint8_t)(0xff00u >> rest);
    return memcmp(address, network, whole) == 0 && (rest == 0 || (address[whole] & mask) == (network[whole] & mask));
}

bool client_address_in(const struct client_address *address, const struct client_network *network)
{
    return address->family == network->first.family && same_bits(address->bytes, network->first.bytes, network->bits);
}

bool client_address_in_any(const struct client_address *address, const struct client_networks *networks)
{
    for (size_t i = 0; i < networks->n; i++) {
        if (client_address_in(address, &networks->list[i]))
            return true;
    }
    return false;
}

void client_network_text(const struct client_network *network, char out[CLIENT_ADDRESS_TEXT])
{
    char host[INET6_ADDRSTRLEN];
    if (network->first.family == CLIENT_UNIX) {
        snprintf(out, CLIENT_ADDRESS_TEXT, "unix");
        return;
    }
    write_host(&network->first, host);
    snprintf(out, CLIENT_ADDRESS_TEXT, "%s/%u", host, (unsigned)network->bits);
}

/* ---- reading a network ---- */

static bool read_bits(const char *text, unsigned most, uint8_t *out)
{
    unsigned bits = 0;
    size_t len = strlen(text);
    if (len == 0 || len > 3 || strspn(text, "0123456789") != len)
        return false;
    for (; *text != '\0'; text++)
        bits = bits * 10 + (unsigned)(*text - '0');
    *out = (uint8_t)bits;
    return bits <= most;
}

/* The network that `address` is in, all bits after the first `bits` being 0. */
static struct client_network network_of(const struct client_address *address, uint8_t bits)
{
    struct client_network network = {.first = *address, .bits = bits};
    for (unsigned i = bits; i < 8 * sizeof(address->bytes); i++)
        network.first.bytes[i / 8] &= (uint8_t) ~(0x80u >> i % 8);
    return network;
}

static enum belfry_err read_network(char *host, struct client_network *out, char *why, size_t why_len)
{
    uint8_t bytes[16];
    char *slash = strchr(host, '/'), right[CLIENT_ADDRESS_TEXT];
    if (slash != NULL)
        *slash = '\0';
    bool is_v4 = inet_pton(AF_INET, host, bytes) == 1;
    if (!is_v4 && inet_pton(AF_INET6, host, bytes) != 1) {
        snprintf(why, why_len, "'%s' is no address: write one such as 10.0.0.0/8, fd00::/8 or unix", host);
        return BELFRY_ERR_INVALID;
    }
    struct client_address first = is_v4 ? client_address_ipv4(bytes, 0) : client_address_ipv6(bytes, 0);
    if (!is_v4 && first.family == CLIENT_IPV4) {
        snprintf(why, why_len, "'%s' stands for an IPv4 address: write it as IPv4, such as 10.0.0.0/8", host);
        return BELFRY_ERR_INVALID;
    }
    uint8_t bits = is_v4 ? 32 : 128;
    if (slash != NULL && !read_bits(slash + 1, bits, &bits)) {
        snprintf(why, why_len, "'%s/%s': the bits of this network are a number from 0 to %u", host, slash + 1,
                 is_v4 ? 32u : 128u);
        return BELFRY_ERR_INVALID;
    }
    *out = network_of(&first, bits);
    if (memcmp(out->first.bytes, first.bytes, sizeof(first.bytes)) != 0) {
        client_network_text(out, right);
        snprintf(why, why_len, "'%s/%s' is no network: write %s, or the address without bits", host, slash + 1, right);
        return BELFRY_ERR_INVALID;
    }
    return BELFRY_OK;
}

enum belfry_err client_network_parse(const char *text, struct client_network *out, char *why, size_t why_len)
{
    char copy[NETWORK_MOST];
    struct client_network network = {.first.family = CLIENT_UNIX};
    if (strcmp(text, "unix") == 0) {
        *out = network;
        return BELFRY_OK;
    }
    if ((size_t)snprintf(copy, sizeof(copy), "%s", text) >= sizeof(copy)) {
        snprintf(why, why_len, "'%.*s...' is no address: write one such as 10.0.0.0/8, fd00::/8 or unix", NETWORK_MOST,
                 text);
        return BELFRY_ERR_INVALID;
    }
    enum belfry_err err = read_network(copy, &network, why, why_len);
    if (err == BELFRY_OK)
        *out = network;
    return err;
}
