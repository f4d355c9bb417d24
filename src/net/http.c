/* src/net/http.c */
#include "net/http.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "net/http_private.h"

#define GATHER_BYTES (64 * 1024) /* given to the owner in one write */
#define IDLE_BYTES   (16 * 1024) /* an output buffer over this is not kept while nothing is sent */

struct belfry_bytes belfry_http_find(const struct belfry_http_head *head, const char *name)
{
    struct belfry_bytes wanted = belfry_bytes_str(name);
    for (size_t i = 0; i < head->n_fields; i++) {
        if (belfry_bytes_equal(head->fields[i].name, wanted))
            return head->fields[i].value;
    }
    return (struct belfry_bytes){0};
}

/* ---- from beginning to end ---- */

static void enter(struct belfry_http *http, enum belfry_http_state next)
{
    assert(next > http->state);
    http->state = next;
}

static enum belfry_err origin_init(struct belfry_http_origin *origin, const struct belfry_http_opts *opts)
{
    origin->scheme = strdup(opts->scheme);
    origin->authority = strdup(opts->authority);
    origin->user_agent = strdup(opts->user_agent);
    bool whole = origin->scheme != NULL && origin->authority != NULL && origin->user_agent != NULL;
    return whole ? BELFRY_OK : BELFRY_ERR_NOMEM;
}

enum belfry_err belfry_http_create(const struct belfry_http_opts *opts, uint64_t now_ms, struct belfry_http **out)
{
    struct belfry_http *http = calloc(1, sizeof(*http));
    if (http == NULL)
        return BELFRY_ERR_NOMEM;
    http->ping_ms = opts->ping_ms;
    http->ping_timeout_ms = opts->ping_timeout_ms;
    http->heard_ms = now_ms;
    belfry_list_init(&http->waiting);
    belfry_list_init(&http->running);
    belfry_list_init(&http->ended);
    enum belfry_err err = origin_init(&http->origin, opts);
    if (err != BELFRY_OK) {
        belfry_http_destroy(http);
        return err;
    }
    *out = http;
    return BELFRY_OK;
}

static void force_all(struct belfry_list *calls, const char *why)
{
    belfry_list_each_safe (node, calls) {
        belfry_http_call_force(belfry_container(node, struct belfry_http_call, node), why);
    }
}

void belfry_http_destroy(struct belfry_http *http)
{
    if (http == NULL)
        return;
    if (http->h2 != NULL)
        belfry_h2_abandon(http->h2);
    if (http->state != BELFRY_HTTP_DEAD)
        enter(http, BELFRY_HTTP_DEAD);
    force_all(&http->waiting, "the connection was closed");
    force_all(&http->running, "the connection was closed");
    belfry_http_flush(http);
    belfry_http1_destroy(http->h1);
    belfry_h2_destroy(http->h2);
    free(http->origin.scheme);
    free(http->origin.authority);
    free(http->origin.user_agent);
    belfry_buf_fini(&http->out);
    free(http);
}

enum belfry_err belfry_http_start(struct belfry_http *http, enum belfry_http_version version, uint64_t now_ms)
{
    assert(http->state == BELFRY_HTTP_NEW);
    enum belfry_err err = version == BELFRY_HTTP_1
                              ? belfry_http1_create(http, &http->h1)
                              : belfry_h2_create(BELFRY_HTTP_WINDOW, &belfry_http2_events, http, &http->h2);
    if (err != BELFRY_OK)
        return err;
    http->version = version;
    http->heard_ms = now_ms;
    enter(http, BELFRY_HTTP_OPEN);
    return BELFRY_OK;
}

static void fail_all(struct belfry_list *calls, enum belfry_err err, const char *why)
{
    belfry_list_each_safe (node, calls) {
        struct belfry_http_call *call = belfry_container(node, struct belfry_http_call, node);
        bool unsent = belfry_http_call_is_unsent(call);
        belfry_http_call_fail(call, unsent ? BELFRY_ERR_UNAVAILABLE : err, why, unsent);
    }
}

void belfry_http_drain(struct belfry_http *http, const char *why)
{
    snprintf(http->leaving, sizeof(http->leaving), "%s", why);
    if (http->state == BELFRY_HTTP_OPEN)
        enter(http, BELFRY_HTTP_DRAINING);
    fail_all(&http->waiting, BELFRY_ERR_UNAVAILABLE, http->leaving);
}

void belfry_http_die(struct belfry_http *http, enum belfry_err err, const char *why)
{
    if (http->state == BELFRY_HTTP_DEAD)
        return;
    char text[BELFRY_HTTP_WHY_BYTES * 2];
    snprintf(text, sizeof(text), "%s%s%s", why, http->leaving[0] != '\0' ? ", after " : "", http->leaving);
    enter(http, BELFRY_HTTP_DEAD);
    fail_all(&http->waiting, err, text);
    fail_all(&http->running, err, text);
}

/* For receive, pull and tick: what the connection could not survive. Returns `err`. */
static enum belfry_err fail_with(struct belfry_http *http, enum belfry_err err, const char *why)
{
    if (http->h2 != NULL)
        belfry_h2_terminate(http->h2, err == BELFRY_ERR_PROTOCOL ? NGHTTP2_PROTOCOL_ERROR
                                      : err == BELFRY_ERR_NOMEM  ? NGHTTP2_INTERNAL_ERROR
                                                                 : NGHTTP2_NO_ERROR);
    belfry_http_die(http, err, why);
    belfry_http_flush(http);
    return err;
}

void belfry_http_lost(struct belfry_http *http, const char *why)
{
    belfry_buf_fini(&http->out);
    http->lent = 0;
    if (http->h2 != NULL)
        belfry_h2_abandon(http->h2);
    if (http->h1 != NULL && http->state != BELFRY_HTTP_DEAD)
        belfry_http1_finish(http->h1);
    belfry_http_die(http, BELFRY_ERR_UNAVAILABLE, why);
    belfry_http_flush(http);
}

/* ---- bytes ---- */

enum belfry_err belfry_http_receive(struct belfry_http *http, struct belfry_bytes bytes, uint64_t now_ms)
{
    assert(http->state != BELFRY_HTTP_NEW);
    if (http->state == BELFRY_HTTP_DEAD)
        return BELFRY_ERR_UNAVAILABLE;
    if (bytes.len > 0) {
        http->ping_unanswered = false;
        http->heard_ms = now_ms;
    }
    const char *why;
    enum belfry_err err;
    if (http->h1 != NULL) {
        err = belfry_http1_receive(http->h1, bytes, &why);
    } else {
        err = belfry_h2_receive(http->h2, bytes);
        why = belfry_h2_why(http->h2);
    }
    if (err != BELFRY_OK)
        return fail_with(http, err, why);
    belfry_http_flush(http);
    return BELFRY_OK;
}

static enum belfry_err gather(struct belfry_http *http)
{
    if (http->h1 != NULL)
        return belfry_http1_pull(http->h1);
    enum belfry_err err = belfry_http2_submit(http);
    return err == BELFRY_OK ? belfry_h2_pull(http->h2, GATHER_BYTES, &http->out) : err;
}

enum belfry_err belfry_http_pull(struct belfry_http *http, uint64_t now_ms, struct belfry_bytes *out)
{
    (void)now_ms;
    belfry_buf_take(&http->out, http->lent);
    http->lent = 0;
    if (http->state == BELFRY_HTTP_OPEN || http->state == BELFRY_HTTP_DRAINING) {
        enum belfry_err err = gather(http);
        if (err != BELFRY_OK) /* what was gathered is given next time */
            return fail_with(http, err, http->h2 != NULL ? belfry_h2_why(http->h2) : belfry_strerror((int)err));
    } else if (http->h2 != NULL) {
        belfry_ignore(belfry_h2_pull(http->h2, GATHER_BYTES, &http->out)); /* a last GOAWAY, if there is one */
    }
    http->lent = belfry_buf_len(&http->out);
    if (http->lent == 0 && http->out.cap > IDLE_BYTES)
        belfry_buf_fini(&http->out);
    *out = belfry_buf_bytes(&http->out);
    return BELFRY_OK;
}

bool belfry_http_wants_write(struct belfry_http *http)
{
    if (belfry_buf_len(&http->out) > http->lent || (http->h2 != NULL && belfry_h2_wants_write(http->h2)))
        return true;
    if (http->state != BELFRY_HTTP_OPEN || belfry_list_empty(&http->waiting))
        return false;
    return http->h1 != NULL ? !belfry_http1_is_busy(http->h1) : belfry_h2_room(http->h2) > 0;
}

bool belfry_http_wants_read(const struct belfry_http *http)
{
    return http->h1 == NULL || belfry_http1_wants_read(http->h1);
}

/* ---- time ---- */

static uint64_t ping_due(const struct belfry_http *http)
{
    if (http->h2 == NULL || http->ping_ms == 0)
        return BELFRY_NEVER;
    if (http->ping_unanswered)
        return http->pinged_ms + http->ping_timeout_ms;
    return http->n_calls > 0 ? http->heard_ms + http->ping_ms : BELFRY_NEVER;
}

/* Any byte counts as an answer: a peer that is busy sending is alive, whatever it does with PINGs. */
static enum belfry_err keep_alive(struct belfry_http *http, uint64_t now_ms)
{
    if (now_ms < ping_due(http))
        return BELFRY_OK;
    if (http->ping_unanswered)
        return BELFRY_ERR_TIMEOUT;
    http->pinged_ms = now_ms;
    http->ping_unanswered = true;
    return belfry_h2_ping(http->h2);
}

enum belfry_err belfry_http_tick(struct belfry_http *http, uint64_t now_ms)
{
    belfry_http_flush(http);
    if (http->state == BELFRY_HTTP_DEAD)
        return BELFRY_OK;
    enum belfry_err err = keep_alive(http, now_ms);
    if (err == BELFRY_ERR_TIMEOUT)
        return fail_with(http, err, "the peer did not answer a PING in time");
    return err == BELFRY_OK ? BELFRY_OK : fail_with(http, err, belfry_h2_why(http->h2));
}

uint64_t belfry_http_due(const struct belfry_http *http)
{
    if (!belfry_list_empty(&http->ended))
        return 0;
    return http->state == BELFRY_HTTP_DEAD ? BELFRY_NEVER : ping_due(http);
}

/* ---- looking ---- */

enum belfry_http_state belfry_http_state(const struct belfry_http *http)
{
    return http->state;
}

enum belfry_http_version belfry_http_version(const struct belfry_http *http)
{
    return http->version;
}

size_t belfry_http_n_calls(const struct belfry_http *http)
{
    return http->n_calls;
}

size_t belfry_http_room(const struct belfry_http *http)
{
    if (http->state != BELFRY_HTTP_OPEN)
        return 0;
    size_t room = http->h2 != NULL ? belfry_h2_room(http->h2) : !belfry_http1_is_busy(http->h1);
    return room > http->n_waiting ? room - http->n_waiting : 0;
}
