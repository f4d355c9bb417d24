/* src/cli/http_get.c */
#include "cli/http_get.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "net/carrier.h"
#include "net/fetch.h"
#include "net/loop.h"

#define PATH_MAX_BYTES 2000

/* One page that is being fetched. It is over with its end, with the end of the connection, or when the time is. */
struct getting {
    const char *address;
    char *why;
    struct belfry_loop *loop;
    struct belfry_http *http;
    struct belfry_buf body;
    int status; /* 0: no head has come */
    bool over;
    enum belfry_err err; /* why there is no page */
};

__attribute__((format(printf, 3, 4))) static enum belfry_err wrong(const struct getting *g, enum belfry_err err,
                                                                   const char *format, ...)
{
    va_list args;
    int at = snprintf(g->why, HTTP_GET_WHY, "%.128s: ", g->address);
    va_start(args, format);
    vsnprintf(g->why + at, HTTP_GET_WHY - (size_t)at, format, args);
    va_end(args);
    return err;
}

/* ---- what comes ---- */

static void getting_head(struct belfry_fetch *fetch, const struct belfry_fetch_head *head, void *user)
{
    struct getting *g = user;
    (void)fetch;
    g->status = head->status;
}

static void getting_body(struct belfry_fetch *fetch, struct belfry_bytes bytes, void *user)
{
    struct getting *g = user;
    if (bytes.len > HTTP_GET_MAX - belfry_buf_len(&g->body))
        g->err = wrong(g, BELFRY_ERR_TOO_LARGE, "the answer is over %d MiB", HTTP_GET_MAX >> 20);
    else
        g->err = belfry_buf_append(&g->body, bytes.data, bytes.len);
    if (g->err == BELFRY_OK)
        return;
    g->over = true;
    belfry_fetch_cancel(fetch);
}

static void getting_end(struct belfry_fetch *fetch, void *user)
{
    struct getting *g = user;
    (void)fetch;
    g->err = belfry_buf_append(&g->body, "", 1);
    g->over = true;
}

static void getting_failed(struct belfry_fetch *fetch, enum belfry_err err, const char *why, bool unprocessed,
                           void *user)
{
    struct getting *g = user;
    (void)fetch;
    (void)unprocessed;
    if (!g->over)
        g->err = err == BELFRY_ERR_PROTOCOL ? wrong(g, err, "the server there does not speak HTTP")
                                            : wrong(g, err, "%s", *why == '\0' ? belfry_strerror(err) : why);
    g->over = true;
}

static void getting_up(struct belfry_carrier *carrier, const char *alpn, void *user)
{
    struct getting *g = user;
    (void)carrier;
    (void)alpn;
    g->err = belfry_http_start(g->http, BELFRY_HTTP_1, belfry_clock_ms());
    g->over = g->err != BELFRY_OK;
}

/* Its call was told before; but why there was no connection is known better here. */
static void getting_lost(struct belfry_carrier *carrier, enum belfry_err err, const char *why, void *user)
{
    struct getting *g = user;
    (void)carrier;
    if (g->status == 0 && g->err != BELFRY_ERR_PROTOCOL)
        g->err = wrong(g, err, "%s", why);
    g->over = true;
}

static void getting_draining(struct belfry_carrier *carrier, void *user)
{
    (void)carrier;
    (void)user;
}

/* ---- asking ---- */

static enum belfry_err read_address(const struct getting *g, struct belfry_endpoint *out)
{
    char ignored[HTTP_GET_WHY];
    enum belfry_err err = belfry_endpoint_parse(g->address, strlen(g->address), out, ignored, sizeof(ignored));
    bool relative = err == BELFRY_OK && out->is_unix && out->host[0] != '/'; /* "unix://host:1" is probably not meant */
    if (err != BELFRY_OK || relative || out->default_port)
        return wrong(g, BELFRY_ERR_INVALID, "write http://HOST:PORT or unix:///PATH");
    if (out->tls)
        return wrong(g, BELFRY_ERR_INVALID, "an admin address speaks plain HTTP: write http://HOST:PORT");
    return BELFRY_OK;
}

/* Sends the request and waits for the end. */
static enum belfry_err fetch_page(struct getting *g, struct belfry_carrier *carrier, const char *path, int timeout_ms)
{
    static const struct belfry_http_field fields[] = {{{"accept", 6}, {"application/json", 16}}};
    static const struct belfry_fetch_events events = {getting_head, getting_body, getting_end, getting_failed};
    struct belfry_fetch *fetch;
    struct belfry_fetch_request request = {"GET", path, fields, 1};
    uint64_t deadline_ms = belfry_clock_ms() + (uint64_t)timeout_ms;
    enum belfry_err err = belfry_fetch_open(g->http, &request, &events, g, &fetch);
    if (err == BELFRY_ERR_INVALID)
        return wrong(g, err, "no page is called so");
    if (err != BELFRY_OK)
        return err;
    belfry_carrier_flush(carrier);
    belfry_loop_rearm(g->loop);
    while (!g->over) {
        uint64_t now = belfry_clock_ms();
        err = now < deadline_ms ? belfry_loop_wait(g->loop, (int)(deadline_ms - now)) : BELFRY_ERR_TIMEOUT;
        if (err == BELFRY_OK)
            err = belfry_loop_dispatch(g->loop);
        if (err == BELFRY_OK)
            continue;
        g->over = true;
        g->err = err == BELFRY_ERR_TIMEOUT ? wrong(g, err, "no answer in time") : err;
    }
    return g->err;
}

static enum belfry_err get_from(struct getting *g, struct belfry_dns *dns, const struct belfry_endpoint *endpoint,
                                const char *path, int timeout_ms)
{
    static const struct belfry_carrier_events events = {
        .up = getting_up, .lost = getting_lost, .draining = getting_draining};
    struct belfry_carrier *carrier;
    struct belfry_http_opts http = {.scheme = "http",
                                    .authority = endpoint->authority,
                                    .common = {.user_agent = "belfryctl/" BELFRY_VERSION},
                                    .window = BELFRY_FETCH_WINDOW};
    struct belfry_carrier_opts opts = {.transport = {.loop = belfry_loop_uv(g->loop),
                                                     .dns = dns,
                                                     .endpoint = endpoint,
                                                     .dial_timeout_ms = (uint32_t)timeout_ms},
                                       .nonsense = "the server there does not speak HTTP",
                                       .events = &events,
                                       .user = g};
    enum belfry_err err = belfry_http_create(&http, belfry_clock_ms(), &g->http);
    opts.http = g->http;
    if (err == BELFRY_OK)
        err = belfry_carrier_open(&opts, &carrier);
    if (err != BELFRY_OK)
        return err;
    err = fetch_page(g, carrier, path, timeout_ms);
    g->over = true; /* what the end of the connection tells is no news */
    belfry_carrier_close(carrier);
    return err;
}

enum belfry_err http_get(const char *address, const char *path, int timeout_ms, struct http_page *out,
                         char why[HTTP_GET_WHY])
{
    struct getting g = {.address = address, .why = why};
    struct belfry_endpoint endpoint;
    struct belfry_dns *dns = NULL;
    snprintf(why, HTTP_GET_WHY, "out of memory");
    enum belfry_err err = read_address(&g, &endpoint);
    if (err == BELFRY_OK && strlen(path) > PATH_MAX_BYTES)
        err = wrong(&g, BELFRY_ERR_INVALID, "no page is called so");
    if (err == BELFRY_OK)
        err = belfry_loop_create(&g.loop);
    if (err == BELFRY_OK)
        err = belfry_dns_create(belfry_loop_uv(g.loop), &dns);
    if (err == BELFRY_OK)
        err = get_from(&g, dns, &endpoint, path, timeout_ms);
    belfry_dns_destroy(dns);
    belfry_loop_destroy(g.loop);
    if (err != BELFRY_OK) {
        belfry_buf_fini(&g.body);
        return err;
    }
    size_t len = belfry_buf_len(&g.body) - 1; /* without the zero byte */
    *out = (struct http_page){.status = g.status, .body = (char *)g.body.data, .len = len};
    return BELFRY_OK;
}

void http_page_fini(struct http_page *page)
{
    free(page->body);
    *page = (struct http_page){0};
}
