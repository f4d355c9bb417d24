/* src/server/cors.c */
#include "server/cors.h"

#include <ctype.h>

#define SCHEME_BYTES 32
#define HOST_BYTES   253
#define HOW          "is not an origin: write scheme://host or scheme://host:port, as https://app.example"

static size_t span(struct belfry_bytes text, const char *legal)
{
    size_t n = 0;
    while (n < text.len && text.data[n] != '\0' && strchr(legal, text.data[n]) != NULL)
        n++;
    return n;
}

static struct belfry_bytes after(struct belfry_bytes text, size_t n)
{
    return belfry_bytes_of(text.data + n, text.len - n);
}

/* Of a name, an IPv4 address, or an IPv6 address in brackets; 0: it is neither. */
static size_t host_len(struct belfry_bytes text)
{
    if (text.len > 0 && text.data[0] == '[') {
        size_t n = 1 + span(after(text, 1), "0123456789abcdef:.");
        return n > 2 && n < text.len && text.data[n] == ']' ? n + 1 : 0;
    }
    return span(text, "abcdefghijklmnopqrstuvwxyz0123456789.-_");
}

/* 0: it is none. */
static unsigned port_of(struct belfry_bytes text)
{
    unsigned port = 0;
    if (text.len == 0 || text.len > 5 || text.data[0] == '0' || span(text, "0123456789") < text.len)
        return 0;
    for (size_t i = 0; i < text.len; i++)
        port = port * 10 + (unsigned)(text.data[i] - '0');
    return port <= 65535 ? port : 0;
}

static bool has_upper_case(struct belfry_bytes text)
{
    for (size_t i = 0; i < text.len; i++)
        if (text.data[i] >= 'A' && text.data[i] <= 'Z')
            return true;
    return false;
}

static const char *rest_wrong(struct belfry_bytes scheme, struct belfry_bytes rest)
{
    size_t len = host_len(rest);
    if (len == 0 || len > HOST_BYTES)
        return HOW;
    rest = after(rest, len);
    if (rest.len == 0)
        return NULL;
    if (rest.data[0] == '/')
        return "has a path, and an origin has none: write it without the / after the host";
    unsigned port = rest.data[0] == ':' ? port_of(after(rest, 1)) : 0;
    if (port == 0)
        return HOW;
    if ((belfry_bytes_equal(scheme, belfry_bytes_str("http")) && port == 80) ||
        (belfry_bytes_equal(scheme, belfry_bytes_str("https")) && port == 443))
        return "has the default port, which browsers leave out: write it without the port";
    return NULL;
}

const char *cors_origin_wrong(struct belfry_bytes text)
{
    if (belfry_bytes_equal(text, belfry_bytes_str("*")))
        return "would let every web page read what its visitor may: name the origins";
    if (belfry_bytes_equal(text, belfry_bytes_str("null")))
        return "is sent by pages of files and of sandboxes, which anyone can make: name an origin";
    if (has_upper_case(text))
        return "has upper case letters, and browsers send origins in lower case";
    size_t len = span(text, "abcdefghijklmnopqrstuvwxyz0123456789+.-");
    struct belfry_bytes scheme = belfry_bytes_of(text.data, len), rest = after(text, len);
    if (len == 0 || len > SCHEME_BYTES || span(scheme, "0123456789+.-") > 0 ||
        !belfry_bytes_begins(rest, belfry_bytes_str("://")))
        return HOW;
    return rest_wrong(scheme, after(rest, 3));
}

bool cors_origins_have(const struct cors_origins *origins, struct belfry_bytes origin)
{
    for (size_t i = 0; i < origins->n; i++)
        if (belfry_bytes_equal(origin, belfry_bytes_str(origins->list[i])))
            return true;
    return false;
}

/* ---- requests of pages ---- */

/* Takes the port off the end of "host:port", "[::1]:port" or a host alone; empty: it has none. */
static struct belfry_bytes take_port(struct belfry_bytes *host)
{
    size_t n = host->len;
    while (n > 0 && host->data[n - 1] >= '0' && host->data[n - 1] <= '9')
        n--;
    if (n == 0 || host->data[n - 1] != ':' || (host->data[0] == '[' && (n < 2 || host->data[n - 2] != ']')))
        return (struct belfry_bytes){0};
    struct belfry_bytes port = after(*host, n);
    host->len = n - 1;
    return port;
}

/* Does the origin name the host and port that the request was sent to? Browsers leave a default port out of both, and
 * behind a proxy that ends TLS the scheme is another one. */
static bool is_own(struct belfry_bytes origin, struct belfry_bytes authority)
{
    static const struct belfry_bytes http = {"80", 2}, https = {"443", 3};
    size_t len = span(origin, "abcdefghijklmnopqrstuvwxyz0123456789+.-");
    struct belfry_bytes scheme = belfry_bytes_of(origin.data, len), host = after(origin, len);
    if (!belfry_bytes_begins(host, belfry_bytes_str("://")))
        return false;
    host = after(host, 3);

    struct belfry_bytes port = take_port(&host), asked = take_port(&authority);
    struct belfry_bytes usual = belfry_bytes_equal(scheme, belfry_bytes_str("https"))  ? https
                                : belfry_bytes_equal(scheme, belfry_bytes_str("http")) ? http
                                                                                       : (struct belfry_bytes){0};
    port = port.len > 0 ? port : usual;
    asked = asked.len > 0 ? asked : usual;
    if (host.len == 0 || host.len != authority.len || !belfry_bytes_equal(port, asked))
        return false;
    for (size_t i = 0; i < host.len; i++) /* all of it: strncasecmp() ends at a zero byte */
        if (tolower((unsigned char)host.data[i]) != tolower((unsigned char)authority.data[i]))
            return false;
    return true;
}

bool cors_is_foreign(const struct cors_origins *origins, const struct exchange_head *head)
{
    struct belfry_bytes site = exchange_field(head, "sec-fetch-site");
    bool has_origin = false;
    for (size_t i = 0; i < head->n_fields; i++) {
        struct belfry_bytes origin = head->fields[i].value;
        if (!belfry_bytes_equal(head->fields[i].name, belfry_bytes_str("origin")))
            continue;
        has_origin = true;
        if (!cors_origins_have(origins, origin) && !belfry_bytes_equal(site, belfry_bytes_str("same-origin")) &&
            !is_own(origin, head->authority))
            return true;
    }
    return !has_origin && (belfry_bytes_equal(site, belfry_bytes_str("cross-site")) ||
                           belfry_bytes_equal(site, belfry_bytes_str("same-site")));
}

bool cors_refuse(const struct cors_origins *origins, struct exchange *x, const struct exchange_head *head)
{
    static const struct belfry_http_field type = {{"content-type", 12}, {"text/plain; charset=utf-8", 25}};
    if (!cors_is_foreign(origins, head))
        return false;
    exchange_answer(
        x, 403, &type, 1,
        belfry_bytes_str("belfry: a web page of another site asks; allow its origin with --cors-origins\n"));
    return true;
}
