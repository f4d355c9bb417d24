/* src/cli/doctor/doctor_reach.c */
#include "cli/doctor/doctor_reach.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "cli/http_get.h"
#include "net/dns.h"
#include "net/loop.h"
#include "net/transport.h"

/* What one try waits for. */
struct waiting {
    struct belfry_loop *loop;
    struct belfry_dns *dns;
    uint32_t timeout_ms;
    struct doctor_reach *reach;
    struct doctor_try *try;
    uint64_t began_ns;
    bool over;
};

static void try_begin(struct waiting *w, struct doctor_try *try)
{
    *try = (struct doctor_try){.err = BELFRY_ERR_TIMEOUT, .why = "no answer in time"};
    w->try = try;
    w->over = false;
    w->began_ns = belfry_clock_ns();
}

static void try_end(struct waiting *w, enum belfry_err err, const char *why)
{
    w->try->err = err;
    w->try->took_us = (belfry_clock_ns() - w->began_ns) / 1000;
    snprintf(w->try->why, sizeof(w->try->why), "%s", err == BELFRY_OK ? "" : *why == '\0' ? belfry_strerror(err) : why);
    w->over = true;
}

static void wait_for_end(struct waiting *w)
{
    uint64_t deadline_ms = belfry_clock_ms() + w->timeout_ms;
    belfry_loop_rearm(w->loop);
    while (!w->over) {
        uint64_t now = belfry_clock_ms();
        enum belfry_err err =
            now < deadline_ms ? belfry_loop_wait(w->loop, (int)(deadline_ms - now)) : BELFRY_ERR_TIMEOUT;
        if (err == BELFRY_OK)
            err = belfry_loop_dispatch(w->loop);
        if (err != BELFRY_OK)
            return; /* as try_begin() has put it */
    }
}

/* ---- the name ---- */

static void on_resolved(const struct belfry_dns_answer *answer, void *user)
{
    struct waiting *w = user;
    const struct sockaddr_storage *first = &answer->addresses[0];
    if (answer->err == BELFRY_OK && answer->n > 0)
        inet_ntop(first->ss_family,
                  first->ss_family == AF_INET ? (const void *)&((const struct sockaddr_in *)first)->sin_addr
                                              : (const void *)&((const struct sockaddr_in6 *)first)->sin6_addr,
                  w->reach->address, sizeof(w->reach->address));
    try_end(w, answer->err, answer->why);
}

static void try_name(struct waiting *w)
{
    struct belfry_dns_query *query;
    const struct belfry_endpoint *endpoint = &w->reach->endpoint;
    try_begin(w, &w->reach->name);
    enum belfry_err err = belfry_dns_resolve(w->dns, endpoint->host, endpoint->port, on_resolved, w, &query);
    if (err != BELFRY_OK) {
        try_end(w, err, "");
        return;
    }
    wait_for_end(w);
    if (!w->over)
        belfry_dns_cancel(query);
}

/* ---- a connection ---- */

static void on_up(struct belfry_transport *t, void *user)
{
    struct waiting *w = user;
    w->reach->has_peer = belfry_transport_peer(t, &w->reach->peer) || w->reach->has_peer;
    try_end(w, BELFRY_OK, "");
}

static void on_bytes(struct belfry_transport *t, struct belfry_bytes bytes, void *user)
{
    (void)t;
    (void)bytes;
    (void)user;
}

static struct belfry_bytes on_pull(struct belfry_transport *t, void *user)
{
    (void)t;
    (void)user;
    return (struct belfry_bytes){NULL, 0};
}

static void on_lost(struct belfry_transport *t, enum belfry_err err, const char *why, void *user)
{
    struct waiting *w = user;
    (void)t;
    if (!w->over)
        try_end(w, err, why);
}

/* Until it is up; tls NULL: plain. */
static void try_connection(struct waiting *w, struct doctor_try *try, struct belfry_tls *tls)
{
    static const struct belfry_transport_events events = {on_up, on_bytes, on_pull, on_lost};
    struct belfry_transport *transport;
    struct belfry_endpoint endpoint = w->reach->endpoint;
    endpoint.tls = tls != NULL;
    struct belfry_transport_opts opts = {.loop = belfry_loop_uv(w->loop),
                                         .dns = w->dns,
                                         .endpoint = &endpoint,
                                         .tls = tls,
                                         .dial_timeout_ms = w->timeout_ms};
    try_begin(w, try);
    enum belfry_err err = belfry_transport_open(&opts, &events, w, &transport);
    if (err != BELFRY_OK) {
        try_end(w, err, "");
        return;
    }
    wait_for_end(w);
    w->over = true; /* what the end of the connection tells is no news */
    belfry_transport_close(transport);
}

/* Any answer will do. Most endpoints give one, and are spared a handshake that they must refuse. */
static bool answers_plainly(const struct waiting *w)
{
    struct http_page page;
    char why[HTTP_GET_WHY];
    char url[BELFRY_ENDPOINT_TEXT + 8];
    const struct belfry_endpoint *endpoint = &w->reach->endpoint;
    snprintf(url, sizeof(url), "%s%s", endpoint->is_unix ? "unix://" : "http://",
             endpoint->is_unix ? endpoint->host : endpoint->authority);
    if (http_get(url, "/version", (int)w->timeout_ms, &page, why) != BELFRY_OK)
        return false;
    http_page_fini(&page);
    return true;
}

/* A handshake that takes any certificate: it shows whether the server speaks TLS, and what it presents. */
static bool try_any_certificate(struct waiting *w, const struct belfry_tls_opts *like)
{
    struct belfry_tls_opts opts = {.server_name = like->server_name, .skip_verify = true, .http1 = true};
    struct belfry_tls *tls;
    struct doctor_try ignored;
    char why[DOCTOR_TEXT];
    if (belfry_tls_create(&opts, &tls, why, sizeof(why)) != BELFRY_OK)
        return false;
    try_connection(w, &ignored, tls);
    belfry_tls_destroy(tls);
    return ignored.err == BELFRY_OK;
}

static void try_tls(struct waiting *w, const struct belfry_tls_opts *opts)
{
    struct belfry_tls *tls;
    try_begin(w, &w->reach->tls);
    enum belfry_err err = belfry_tls_create(opts, &tls, w->reach->tls.why, sizeof(w->reach->tls.why));
    if (err != BELFRY_OK) {
        w->reach->tls.err = err;
        return;
    }
    try_connection(w, &w->reach->tls, tls);
    belfry_tls_destroy(tls);
    if (w->reach->tls.err != BELFRY_OK)
        w->reach->is_plain = !try_any_certificate(w, opts) && answers_plainly(w);
}

/* ---- all ---- */

static void try_all(struct waiting *w, const struct belfry_tls_opts *tls)
{
    struct doctor_reach *reach = w->reach;
    if (!reach->endpoint.is_unix)
        try_name(w);
    if (reach->name.err == BELFRY_OK)
        try_connection(w, &reach->connect, NULL);
    if (reach->name.err != BELFRY_OK || reach->connect.err != BELFRY_OK)
        return;
    if (reach->endpoint.tls)
        try_tls(w, tls);
    else
        reach->wants_tls = !answers_plainly(w) && try_any_certificate(w, tls);
}

enum belfry_err doctor_reach(const struct belfry_tls_opts *tls, uint32_t timeout_ms, struct doctor_reach *out)
{
    struct waiting w = {.timeout_ms = timeout_ms, .reach = out};
    enum belfry_err err = belfry_loop_create(&w.loop);
    if (err == BELFRY_OK)
        err = belfry_dns_create(belfry_loop_uv(w.loop), &w.dns);
    if (err == BELFRY_OK)
        try_all(&w, tls);
    belfry_dns_destroy(w.dns);
    belfry_loop_destroy(w.loop);
    return err;
}
