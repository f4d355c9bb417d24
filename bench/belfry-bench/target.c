/* bench/belfry-bench/target.c */
#include "target.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "die.h"
#include "net/endpoint.h"

static bool set_v4(const char *host, uint16_t port, struct target *out)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htons(port)};
    if (inet_pton(AF_INET, host, &addr.sin_addr) != 1)
        return false;
    *out = (struct target){.addr_len = sizeof(addr), .loopback = ntohl(addr.sin_addr.s_addr) >> 24 == 127};
    memcpy(&out->addr, &addr, sizeof(addr));
    return true;
}

static bool set_v6(const char *host, uint16_t port, struct target *out)
{
    struct sockaddr_in6 addr = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    if (inet_pton(AF_INET6, host, &addr.sin6_addr) != 1)
        return false;
    *out = (struct target){.addr_len = sizeof(addr), .loopback = IN6_IS_ADDR_LOOPBACK(&addr.sin6_addr)};
    memcpy(&out->addr, &addr, sizeof(addr));
    return true;
}

enum belfry_err target_parse(const char *text, struct target *out)
{
    struct belfry_endpoint endpoint;
    char why[256];
    enum belfry_err err = belfry_endpoint_parse(text, strlen(text), &endpoint, why, sizeof(why));
    if (err != BELFRY_OK || endpoint.is_unix || endpoint.default_port ||
        (!set_v4(endpoint.host, endpoint.port, out) && !set_v6(endpoint.host, endpoint.port, out)))
        return BELFRY_ERR_INVALID;
    out->is_tls = endpoint.tls;
    memcpy(out->host, endpoint.host, strlen(endpoint.host) + 1); /* an address, so it fits */
    return BELFRY_OK;
}

enum belfry_err target_set_source(struct target *target, const char *address)
{
    struct sockaddr_in source = {.sin_family = AF_INET};
    if (inet_pton(AF_INET, address, &source.sin_addr) != 1)
        return BELFRY_ERR_INVALID;
    memcpy(&target->source, &source, sizeof(source));
    target->source_len = sizeof(source);
    return BELFRY_OK;
}

/* Binds to the next of the addresses. */
static bool bind_source(const struct target *target, int fd)
{
    static _Atomic unsigned turn;
    struct sockaddr_in source;
    if (target->source_len == 0)
        return true;
    memcpy(&source, &target->source, sizeof(source));
    if (target->n_sources > 1)
        source.sin_addr.s_addr = htonl(ntohl(source.sin_addr.s_addr) + turn++ % target->n_sources);
    return bind(fd, (const struct sockaddr *)&source, sizeof(source)) == 0;
}

int target_try(const struct target *target)
{
    int fd = socket(target->addr.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof(on));
    if (bind_source(target, fd) && (connect(fd, (const struct sockaddr *)&target->addr, target->addr_len) == 0 ||
                                    errno == EINPROGRESS || errno == ECONNREFUSED)) /* then its first use fails */
        return fd;
    int err = errno;
    close(fd);
    errno = err;
    return -1;
}

int target_connect(const struct target *target)
{
    int fd = target_try(target);
    if (fd < 0)
        die("connect: %s", strerror(errno));
    return fd;
}

void target_block(int fd)
{
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) != 0)
        die("fcntl: %s", strerror(errno));
}
