/* src/server/hosts.c */
#include "server/hosts.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define NAME_BYTES 256 /* names of hosts end at 253 bytes */

void hosts_init(struct hosts *hosts, const char *advertise)
{
    *hosts = (struct hosts){.advertise = advertise};
    pthread_mutex_init(&hosts->mu, NULL);
}

void hosts_fini(struct hosts *hosts)
{
    pthread_mutex_destroy(&hosts->mu);
}

void hosts_set(struct hosts *hosts, char *const *names, size_t n_names)
{
    pthread_mutex_lock(&hosts->mu);
    hosts->names = names;
    hosts->n_names = n_names;
    pthread_mutex_unlock(&hosts->mu);
}

static bool is_digits(const char *text)
{
    return text[strspn(text, "0123456789")] == '\0';
}

/* Copies the host alone, without brackets, port and trailing dot. False: there is no host, or it is too long. */
static bool read_host(struct belfry_bytes authority, char out[NAME_BYTES])
{
    if (authority.len == 0 || authority.len >= NAME_BYTES || memchr(authority.data, '\0', authority.len) != NULL)
        return false;
    memcpy(out, authority.data, authority.len);
    out[authority.len] = '\0';
    char *end = out[0] == '[' ? strchr(out, ']') : strrchr(out, ':');
    if (out[0] == '[') {
        if (end == NULL || (end[1] != '\0' && (end[1] != ':' || !is_digits(end + 2))))
            return false;
        *end = '\0';
        memmove(out, out + 1, strlen(out));
        return true;
    }
    if (end != NULL) {
        if (!is_digits(end + 1))
            return false;
        *end = '\0';
    }
    size_t len = strlen(out);
    if (len > 1 && out[len - 1] == '.')
        out[len - 1] = '\0';
    return out[0] != '\0';
}

static bool is_address(const char *host)
{
    struct in6_addr ignored;
    return inet_pton(AF_INET, host, &ignored) == 1 || inet_pton(AF_INET6, host, &ignored) == 1;
}

static bool is_advertised(const char *url, const char *host)
{
    char advertised[NAME_BYTES];
    if (url == NULL)
        return false;
    const char *at = strstr(url, "://");
    at = at == NULL ? url : at + 3;
    return read_host(belfry_bytes_of(at, strcspn(at, "/")), advertised) && strcasecmp(advertised, host) == 0;
}

/* `host` is "*" for what is no host: only a star allows that. */
static bool is_configured(struct hosts *hosts, const char *host)
{
    bool found = false;
    pthread_mutex_lock(&hosts->mu);
    for (size_t i = 0; i < hosts->n_names && !found; i++)
        found = strcmp(hosts->names[i], "*") == 0 || strcasecmp(hosts->names[i], host) == 0;
    pthread_mutex_unlock(&hosts->mu);
    return found;
}

/* Most requests name an address or our own name, and need no lock. */
bool hosts_allow(struct hosts *hosts, struct belfry_bytes authority)
{
    char host[NAME_BYTES];
    if (authority.len == 0)
        return true;
    if (!read_host(authority, host))
        return is_configured(hosts, "*");
    return is_address(host) || strcasecmp(host, "localhost") == 0 || is_advertised(hosts->advertise, host) ||
           is_configured(hosts, host);
}

bool hosts_refuse(struct hosts *hosts, struct exchange *x, const struct exchange_head *head)
{
    static const struct belfry_http_field type = {{"content-type", 12}, {"text/plain; charset=utf-8", 25}};
    const struct exchange_conn *conn = exchange_conn(x);
    if (hosts == NULL || conn->tls || strcmp(conn->peer, "unix") == 0 || hosts_allow(hosts, head->authority))
        return false;
    exchange_answer(
        x, 421, &type, 1,
        belfry_bytes_str("belfry: this tier does not go by the name in Host; allow it with --allowed-hosts\n"));
    return true;
}
