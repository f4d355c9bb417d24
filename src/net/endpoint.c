/* src/net/endpoint.c */
#include "net/endpoint.h"

#include <arpa/inet.h>
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/un.h>

#define DEFAULT_PORT  2379
#define HOST_MAX      253 /* RFC 1035, section 2.3.4, as text */
#define UNIX_PATH_MAX (sizeof(((struct sockaddr_un *)0)->sun_path) - 1)
#define QUOTE_MAX     80 /* bytes of a wrong text that are shown again */

static_assert(HOST_MAX < sizeof(((struct belfry_endpoint *)0)->host), "a host name fits");
static_assert(UNIX_PATH_MAX < sizeof(((struct belfry_endpoint *)0)->host), "a unix path fits");

struct text {
    const char *at;
    size_t len;
};

struct scheme {
    const char *prefix;
    bool tls, is_unix;
};

static const struct scheme schemes[] = {
    {"http://", false, false},
    {"https://", true, false},
    {"unix://", false, true},
    {"unixs://", true, true},
};
static const struct scheme no_scheme = {"http://", false, false};

/* Tells what is wrong with `text`, which is shown cut and with odd bytes replaced: it may come from anywhere. */
static enum belfry_err reject(struct text text, char *why, size_t why_len, const char *problem)
{
    char shown[QUOTE_MAX + 4];
    size_t n = text.len < QUOTE_MAX ? text.len : QUOTE_MAX;
    for (size_t i = 0; i < n; i++)
        shown[i] = text.at[i] >= 0x20 && text.at[i] < 0x7f ? text.at[i] : '?';
    memcpy(shown + n, n < text.len ? "..." : "", n < text.len ? 4 : 1);
    snprintf(why, why_len, "endpoint \"%s\": %s", shown, problem);
    return BELFRY_ERR_INVALID;
}

static const struct scheme *take_scheme(struct text *rest)
{
    for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++) {
        size_t len = strlen(schemes[i].prefix);
        if (rest->len >= len && strncasecmp(rest->at, schemes[i].prefix, len) == 0) {
            rest->at += len;
            rest->len -= len;
            return &schemes[i];
        }
    }
    return memmem(rest->at, rest->len, "://", 3) == NULL ? &no_scheme : NULL;
}

static bool is_alnum(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

static bool is_name(struct text host)
{
    for (size_t i = 0; i < host.len; i++)
        if (!is_alnum(host.at[i]) && host.at[i] != '-' && host.at[i] != '.' && host.at[i] != '_')
            return false;
    return host.len > 0 && host.at[0] != '.' && host.at[0] != '-';
}

/* An IPv6 address, perhaps with a zone: fe80::1%eth0. */
static bool is_ipv6(struct text host)
{
    char address[INET6_ADDRSTRLEN];
    const char *zone = memchr(host.at, '%', host.len);
    size_t len = zone == NULL ? host.len : (size_t)(zone - host.at);
    if (len >= sizeof(address))
        return false;
    if (zone != NULL && !is_name((struct text){zone + 1, host.len - len - 1}))
        return false;
    memcpy(address, host.at, len);
    address[len] = '\0';
    struct in6_addr ignored;
    return strlen(address) == len && inet_pton(AF_INET6, address, &ignored) == 1;
}

static bool parse_port(struct text digits, uint16_t *out)
{
    unsigned value = 0;
    if (digits.len == 0 || digits.len > 5)
        return false;
    for (size_t i = 0; i < digits.len; i++) {
        if (digits.at[i] < '0' || digits.at[i] > '9')
            return false;
        value = value * 10 + (unsigned)(digits.at[i] - '0');
    }
    if (value == 0 || value > UINT16_MAX)
        return false;
    *out = (uint16_t)value;
    return true;
}

/* Splits host[:port] or [v6][:port]; what is wrong is returned, NULL when nothing is. */
static const char *split(struct text rest, struct text *host, struct text *port, bool *bracketed)
{
    *bracketed = rest.len > 0 && rest.at[0] == '[';
    const char *end = memchr(rest.at, *bracketed ? ']' : ':', rest.len);
    if (*bracketed && end == NULL)
        return "the \"]\" of the IPv6 address is missing";
    *host = (struct text){rest.at, end == NULL ? rest.len : (size_t)(end - rest.at)};
    if (*bracketed) {
        *host = (struct text){rest.at + 1, (size_t)(end - rest.at) - 1};
        end++;
    }
    size_t used = end == NULL ? rest.len : (size_t)(end - rest.at);
    *port = (struct text){NULL, 0};
    if (used == rest.len)
        return NULL;
    if (*end != ':')
        return "only \":PORT\" may follow the \"]\"";
    *port = (struct text){end + 1, rest.len - used - 1};
    if (!*bracketed && memchr(port->at, ':', port->len) != NULL)
        return "write an IPv6 address in brackets, as in [::1]:2379";
    return NULL;
}

static const char *parse_tcp(struct text rest, struct belfry_endpoint *out)
{
    struct text host, port;
    bool bracketed;
    if (rest.len > 0 && rest.at[rest.len - 1] == '/')
        rest.len--; /* URLs are often copied with it */
    if (memchr(rest.at, '/', rest.len) != NULL)
        return "a path is not possible here; write HOST:PORT alone";
    const char *problem = split(rest, &host, &port, &bracketed);
    if (problem != NULL)
        return problem;
    if (host.len == 0)
        return "the host is missing; write HOST:PORT";
    if (host.len > HOST_MAX)
        return "the host is longer than 253 bytes";
    if (bracketed && !is_ipv6(host))
        return "what stands in brackets is not an IPv6 address";
    if (!bracketed && !is_name(host))
        return "the host may hold letters, digits, \"-\", \"_\" and \".\" only";
    out->port = DEFAULT_PORT;
    out->default_port = port.at == NULL;
    if (port.at != NULL && !parse_port(port, &out->port))
        return "the port is not a number from 1 to 65535";
    memcpy(out->host, host.at, host.len);
    snprintf(out->authority, sizeof(out->authority), bracketed ? "[%s]:%u" : "%s:%u", out->host, (unsigned)out->port);
    return NULL;
}

static const char *parse_unix(struct text rest, struct belfry_endpoint *out)
{
    if (rest.len == 0)
        return "the path is missing; write unix:///PATH";
    if (rest.len > UNIX_PATH_MAX)
        return "the path of a unix socket ends at 107 bytes";
    if (memchr(rest.at, '\0', rest.len) != NULL)
        return "the path holds a zero byte";
    memcpy(out->host, rest.at, rest.len);
    strcpy(out->authority, "localhost");
    return NULL;
}

enum belfry_err belfry_endpoint_parse(const char *text, size_t len, struct belfry_endpoint *out, char *why,
                                      size_t why_len)
{
    const struct text whole = {text, len};
    if (len == 0)
        return reject(whole, why, why_len, "it is empty; write HOST:PORT or a URL such as https://HOST:PORT");
    struct text rest = whole;
    const struct scheme *scheme = take_scheme(&rest);
    if (scheme == NULL)
        return reject(whole, why, why_len, "the scheme is unknown; use http, https, unix or unixs");

    struct belfry_endpoint endpoint = {.tls = scheme->tls, .is_unix = scheme->is_unix};
    const char *problem = scheme->is_unix ? parse_unix(rest, &endpoint) : parse_tcp(rest, &endpoint);
    if (problem != NULL)
        return reject(whole, why, why_len, problem);
    snprintf(endpoint.url, sizeof(endpoint.url), "%s%s", scheme->prefix,
             endpoint.is_unix ? endpoint.host : endpoint.authority);
    *out = endpoint;
    return BELFRY_OK;
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* The next item of a list, without the spaces around it; *rest moves behind its comma, to NULL after the last. */
static struct text next_item(const char **rest)
{
    const char *start = *rest, *end = start + strcspn(start, ",");
    *rest = *end == ',' ? end + 1 : NULL;
    while (start < end && is_space(*start))
        start++;
    while (end > start && is_space(end[-1]))
        end--;
    return (struct text){start, (size_t)(end - start)};
}

enum belfry_err belfry_endpoint_parse_list(const char *text, struct belfry_endpoint **out, size_t *out_n, char *why,
                                           size_t why_len)
{
    size_t n_items = 1, n = 0;
    for (const char *at = text; (at = strchr(at, ',')) != NULL; at++)
        n_items++;
    struct belfry_endpoint *list = calloc(n_items, sizeof(*list));
    if (list == NULL) {
        snprintf(why, why_len, "%s", belfry_strerror(BELFRY_ERR_NOMEM));
        return BELFRY_ERR_NOMEM;
    }
    for (const char *rest = text; rest != NULL; n++) {
        struct text item = next_item(&rest);
        enum belfry_err err = belfry_endpoint_parse(item.at, item.len, &list[n], why, why_len);
        if (err != BELFRY_OK) {
            free(list);
            return err;
        }
    }
    *out = list;
    *out_n = n;
    return BELFRY_OK;
}

bool belfry_endpoint_is_loopback(const struct belfry_endpoint *endpoint)
{
    struct in_addr v4;
    struct in6_addr v6;
    if (endpoint->is_unix || strcasecmp(endpoint->host, "localhost") == 0)
        return true;
    if (inet_pton(AF_INET, endpoint->host, &v4) == 1)
        return ntohl(v4.s_addr) >> 24 == 127;
    if (inet_pton(AF_INET6, endpoint->host, &v6) != 1)
        return false;
    return IN6_IS_ADDR_LOOPBACK(&v6) || (IN6_IS_ADDR_V4MAPPED(&v6) && v6.s6_addr[12] == 127);
}
