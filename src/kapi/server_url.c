/* src/kapi/server_url.c */
#include "kapi/server_url.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#define URL_MAX 2048 /* every request contains its path */

static const struct scheme {
    const char *prefix;
    const char *port;
} schemes[] = {{"https://", ":443"}, {"http://", ":80"}};

static const struct scheme *find_scheme(const char *text)
{
    for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++) {
        if (strncasecmp(text, schemes[i].prefix, strlen(schemes[i].prefix)) == 0)
            return &schemes[i];
    }
    return NULL;
}

/* Blanks, control bytes and non-ASCII bytes are not allowed in the first line of a request. */
static bool is_plain(const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text <= ' ' || *text > '~')
            return false;
    }
    return true;
}

/* The first problem of the URL; NULL: none. */
static const char *find_problem(const char *text, const struct scheme *scheme)
{
    if (scheme == NULL)
        return "it must begin with https:// or http://";
    if (strnlen(text, URL_MAX + 1) > URL_MAX)
        return "it is longer than 2048 bytes";
    if (!is_plain(text))
        return "it may hold printable ASCII without blanks only";
    if (strchr(text, '@') != NULL)
        return "a user is not possible in it: use a token or a client certificate";
    if (strpbrk(text, "?#") != NULL)
        return "a query or a fragment is not possible: write https://HOST:PORT/PATH";
    return NULL;
}

static bool has_port(const char *host, size_t len)
{
    const char *bracket = memrchr(host, ']', len);
    size_t from = bracket == NULL ? 0 : (size_t)(bracket - host);
    return memchr(host + from, ':', len - from) != NULL;
}

static enum belfry_err parse_host(const char *text, size_t len, const struct scheme *scheme,
                                  struct belfry_endpoint *out, char *why, size_t why_len)
{
    size_t prefix = strlen(scheme->prefix);
    char whole[URL_MAX + sizeof(":443")];
    bool complete = len == prefix || has_port(text + prefix, len - prefix);
    int n = snprintf(whole, sizeof(whole), "%.*s%s", (int)len, text, complete ? "" : scheme->port);
    return belfry_endpoint_parse(whole, (size_t)n, out, why, why_len);
}

/* A URL with an '@' may contain a password, so do not show it. */
static enum belfry_err reject(const char *text, const char *problem, char *why, size_t why_len)
{
    bool shown = is_plain(text) && strchr(text, '@') == NULL;
    snprintf(why, why_len, "server \"%.80s\": %s", shown ? text : "...", problem);
    return BELFRY_ERR_INVALID;
}

enum belfry_err belfry_server_url_parse(const char *text, struct belfry_endpoint *out, char **out_base, char *why,
                                        size_t why_len)
{
    const struct scheme *scheme = find_scheme(text);
    const char *problem = find_problem(text, scheme);
    if (problem != NULL)
        return reject(text, problem, why, why_len);
    const char *path = text + strlen(scheme->prefix);
    path += strcspn(path, "/");
    enum belfry_err err = parse_host(text, (size_t)(path - text), scheme, out, why, why_len);
    if (err != BELFRY_OK)
        return err;
    size_t len = strlen(path);
    while (len > 0 && path[len - 1] == '/')
        len--;
    *out_base = strndup(path, len);
    return *out_base == NULL ? BELFRY_ERR_NOMEM : BELFRY_OK;
}
