/* src/net/grpc_head.c */
#include "net/grpc_head.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

#define N_FIXED         10 /* the fields that every call may have, belfry-via and grpc-timeout among them */
#define FIELD_OVERHEAD  32
#define TIMEOUT_MAX     99999999u
#define RESERVED_PREFIX "grpc-" /* names that gRPC keeps for itself */

struct belfry_grpc_head {
    char timeout[BELFRY_GRPC_TIMEOUT_BYTES];
    size_t n;        /* fields in use, from nv[0]; nv[n] is kept free for grpc-timeout */
    nghttp2_nv nv[]; /* the text they point at follows, or is static */
};

/* Written for one pass over a block that was measured before: `text` is where the next copy goes. */
struct writer {
    struct belfry_grpc_head *head;
    char *text;
};

static void add_static(struct belfry_grpc_head *head, const char *name, const char *value)
{
    /* nghttp2's field pointers are not const although it only reads them. */
    head->nv[head->n++] = (nghttp2_nv){(uint8_t *)(uintptr_t)name, (uint8_t *)(uintptr_t)value, strlen(name),
                                       strlen(value), NGHTTP2_NV_FLAG_NONE};
}

static const char *copy_text(struct writer *w, const char *text)
{
    size_t len = strlen(text) + 1;
    char *to = memcpy(w->text, text, len);
    w->text += len;
    return to;
}

/* Credentials stay out of the compression state (RFC 7541, 7.1.3). */
static bool is_secret(const char *name)
{
    return strcmp(name, "token") == 0 || strcmp(name, "authorization") == 0;
}

static void add_metadata(struct writer *w, const struct belfry_grpc_metadata *m)
{
    const char *name = copy_text(w, m->name);
    add_static(w->head, name, copy_text(w, m->value));
    if (is_secret(name))
        w->head->nv[w->head->n - 1].flags = NGHTTP2_NV_FLAG_NO_INDEX;
}

static bool is_text(const char *value)
{
    return nghttp2_check_header_value_rfc9113((const uint8_t *)value, strlen(value)) != 0;
}

static bool is_allowed(const struct belfry_grpc_metadata *m)
{
    size_t len = strlen(m->name);
    if (len == 0 || m->name[0] == ':' || nghttp2_check_header_name((const uint8_t *)m->name, len) == 0)
        return false;
    if (strncmp(m->name, RESERVED_PREFIX, sizeof(RESERVED_PREFIX) - 1) == 0)
        return false;
    return is_text(m->value);
}

/* Stores the bytes of text to copy. */
static enum belfry_err measure(const struct belfry_grpc_origin *origin, const struct belfry_grpc_call_opts *opts,
                               size_t *out_text)
{
    if (opts->path[0] != '/' || !is_text(opts->path))
        return BELFRY_ERR_INVALID;
    size_t text = strlen(opts->path) + 1;
    for (size_t i = 0; i < opts->n_metadata; i++) {
        if (!is_allowed(&opts->metadata[i]))
            return BELFRY_ERR_INVALID;
        text += strlen(opts->metadata[i].name) + strlen(opts->metadata[i].value) + 2;
    }
    size_t shared = strlen(origin->scheme) + strlen(origin->authority) + strlen(origin->user_agent);
    if (origin->via != NULL && !is_text(origin->via))
        return BELFRY_ERR_INVALID;
    shared += origin->via != NULL ? strlen(origin->via) : 0;
    if (text + shared + (opts->n_metadata + N_FIXED) * FIELD_OVERHEAD > BELFRY_GRPC_HEAD_BYTES)
        return BELFRY_ERR_INVALID;
    *out_text = text;
    return BELFRY_OK;
}

enum belfry_err belfry_grpc_head_create(const struct belfry_grpc_origin *origin,
                                        const struct belfry_grpc_call_opts *opts, struct belfry_grpc_head **out)
{
    size_t text;
    enum belfry_err err = measure(origin, opts, &text);
    if (err != BELFRY_OK)
        return err;
    size_t n_fields = N_FIXED + opts->n_metadata;
    struct belfry_grpc_head *head = malloc(sizeof(*head) + n_fields * sizeof(nghttp2_nv) + text);
    if (head == NULL)
        return BELFRY_ERR_NOMEM;
    head->n = 0;
    struct writer w = {head, (char *)&head->nv[n_fields]};
    add_static(head, ":method", "POST");
    add_static(head, ":scheme", origin->scheme);
    add_static(head, ":path", copy_text(&w, opts->path));
    add_static(head, ":authority", origin->authority);
    add_static(head, "content-type", "application/grpc");
    add_static(head, "te", "trailers");
    add_static(head, "grpc-accept-encoding", "gzip,identity");
    add_static(head, "user-agent", origin->user_agent);
    if (origin->via != NULL)
        add_static(head, "belfry-via", origin->via);
    for (size_t i = 0; i < opts->n_metadata; i++)
        add_metadata(&w, &opts->metadata[i]);
    *out = head;
    return BELFRY_OK;
}

const nghttp2_nv *belfry_grpc_head_fields(struct belfry_grpc_head *head, uint64_t deadline_ms, uint64_t now_ms,
                                          size_t *out_n)
{
    *out_n = head->n;
    if (deadline_ms != BELFRY_NEVER) {
        belfry_grpc_timeout(deadline_ms > now_ms ? deadline_ms - now_ms : 1, head->timeout);
        add_static(head, "grpc-timeout", head->timeout);
        *out_n = head->n--;
        /* A value of its own every time: indexing it would only push useful fields out of the table. */
        head->nv[head->n].flags = NGHTTP2_NV_FLAG_NO_INDEX;
    }
    return head->nv;
}

void belfry_grpc_timeout(uint64_t ms, char to[BELFRY_GRPC_TIMEOUT_BYTES])
{
    static const struct {
        char unit;
        uint64_t ms;
    } units[] = {{'m', 1}, {'S', 1000}, {'M', 60 * 1000}, {'H', 60 * 60 * 1000}};
    size_t i = 0;
    uint64_t n = ms;
    while (n > TIMEOUT_MAX && i + 1 < sizeof(units) / sizeof(units[0])) {
        i++;
        n = ms / units[i].ms + (ms % units[i].ms != 0);
    }
    /* 11,000 years in hours: nobody waits longer than that. */
    snprintf(to, BELFRY_GRPC_TIMEOUT_BYTES, "%" PRIu32 "%c", (uint32_t)(n > TIMEOUT_MAX ? TIMEOUT_MAX : n),
             units[i].unit);
}
