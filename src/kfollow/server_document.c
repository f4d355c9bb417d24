/* src/kfollow/server_document.c */
#include "kfollow/server_document.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/owner.h"
#include "kapi/kube_client.h"

struct server_document {
    struct belfry_kube *server;
    size_t max_bytes;
    server_document_fn fn;
    void *user;
    struct belfry_buf path;
    struct belfry_api_call *call; /* NULL: it is over */
    struct belfry_timer timer;
    int status;
    struct belfry_buf body;
    BELFRY_OWNER;
};

void server_document_cancel(struct server_document *document)
{
    if (document == NULL)
        return;
    BELFRY_OWNER_CHECK(document);
    if (document->call != NULL)
        belfry_api_call_cancel(document->call);
    belfry_session_set_timer(document->server->b, &document->timer, BELFRY_NEVER);
    belfry_buf_fini(&document->path);
    belfry_buf_fini(&document->body);
    free(document);
}

/* The last: the answer may begin the next one. */
static void document_tell(struct server_document *document, int status, const char *why)
{
    struct server_document_answer answer = {.status = status, .body = belfry_buf_bytes(&document->body), .why = why};
    server_document_fn fn = document->fn;
    void *user = document->user;
    belfry_session_set_timer(document->server->b, &document->timer, BELFRY_NEVER);
    fn(&answer, user);
}

static size_t on_document_fields(struct belfry_http_field out[BELFRY_API_FIELDS], void *user)
{
    struct server_document *document = user;
    struct belfry_kube *k = document->server;
    out[0] = (struct belfry_http_field){belfry_bytes_str("accept"), belfry_bytes_str("application/json")};
    const char *token = belfry_bearer_field(&k->bearer, belfry_clock_ms(), &k->b->log);
    if (token == NULL)
        return 1;
    out[1] = (struct belfry_http_field){belfry_bytes_str("authorization"), belfry_bytes_str(token)};
    return 2;
}

static void on_document_head(const struct belfry_fetch_head *head, void *user)
{
    struct server_document *document = user;
    document->status = head->status;
}

static void document_fail(struct server_document *document, const char *why)
{
    document_tell(document, 0, why);
    server_document_cancel(document);
}

static void on_document_body(struct belfry_bytes bytes, void *user)
{
    struct server_document *document = user;
    if (bytes.len > document->max_bytes - belfry_buf_len(&document->body))
        document_fail(document, "the answer is too large");
    else if (belfry_buf_append(&document->body, bytes.data, bytes.len) != BELFRY_OK)
        document_fail(document, "out of memory");
}

static void on_document_end(void *user)
{
    struct server_document *document = user;
    document->call = NULL;
    if (document->status == 401) /* the next one goes with a fresh token */
        belfry_bearer_refused(&document->server->bearer);
    document_tell(document, document->status, "");
    server_document_cancel(document);
}

static void on_document_failed(enum belfry_err err, const char *why, enum belfry_broke broke, void *user)
{
    struct server_document *document = user;
    (void)err;
    (void)broke;
    document->call = NULL;
    document_fail(document, why);
}

static void on_document_timer(struct belfry_timer *timer)
{
    document_fail(belfry_container(timer, struct server_document, timer), "no answer in time");
}

enum belfry_err server_document_get(const struct server_document_ask *ask, server_document_fn fn, void *user,
                                    struct server_document **out)
{
    static const struct belfry_api_events events = {.fields = on_document_fields,
                                                    .head = on_document_head,
                                                    .body = on_document_body,
                                                    .end = on_document_end,
                                                    .failed = on_document_failed};
    struct server_document *document = calloc(1, sizeof(*document));
    if (document == NULL)
        return BELFRY_ERR_NOMEM;
    *document = (struct server_document){.server = ask->server, .max_bytes = ask->max_bytes, .fn = fn, .user = user};
    belfry_timer_init(&document->timer, on_document_timer);
    BELFRY_OWNER_INIT(document);
    const char *base = ask->server->settings.base;
    enum belfry_err err = belfry_buf_append(&document->path, base, strlen(base));
    if (err == BELFRY_OK)
        err = belfry_buf_append(&document->path, ask->path, strlen(ask->path) + 1);
    if (err == BELFRY_OK)
        err = belfry_api_call_open(ask->server->calls,
                                   &(struct belfry_api_ask){.target = belfry_buf_bytes(&document->path).data}, &events,
                                   document, &document->call);
    if (err != BELFRY_OK) {
        server_document_cancel(document);
        return err;
    }
    belfry_session_set_timer(ask->server->b, &document->timer, belfry_clock_ms() + ask->timeout_ms);
    *out = document;
    return BELFRY_OK;
}
