/* bench/belfry-bench/target.c */
#include "target.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "die.h"

#define HOST_MAX 64

static bool parse_port(const char *text, uint16_t *out)
{
    char *end;
    if (*text < '0' || *text > '9')
        return false;
    unsigned long port = strtoul(text, &end, 10);
    if (*end != '\0' || port == 0 || port > 65535)
        return false;
    *out = (uint16_t)port;
    return true;
}

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
    if (strncmp(text, "http://", 7) == 0)
        text += 7;
    bool v6 = *text == '[';
    const char *start = v6 ? text + 1 : text;
    const char *end = v6 ? strstr(start, "]:") : strchr(start, ':');
    char host[HOST_MAX];
    uint16_t port;
    if (end == NULL || (size_t)(end - start) >= sizeof(host) || !parse_port(end + (v6 ? 2 : 1), &port))
        return BELFRY_ERR_INVALID;
    memcpy(host, start, (size_t)(end - start));
    host[end - start] = '\0';
    bool ok = v6 ? set_v6(host, port, out) : set_v4(host, port, out);
    return ok ? BELFRY_OK : BELFRY_ERR_INVALID;
}

int target_connect(const struct target *target)
{
    int fd = socket(target->addr.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        die("socket: %s", strerror(errno));
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    if (connect(fd, (const struct sockaddr *)&target->addr, target->addr_len) != 0 && errno != EINPROGRESS &&
        errno != ECONNREFUSED) /* then its first use fails */
        die("connect: %s", strerror(errno));
    return fd;
}
