/* src/serve/sse/sse_text.c */
#include "serve/sse/sse_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/base64.h"
#include "json/document.h"
#include "json/json.h"
#include "json/json_alc.h"

static enum belfry_err append_text(struct belfry_buf *out, const char *text)
{
    return belfry_buf_append(out, text, strlen(text));
}

/* ---- values ---- */

static enum belfry_err append_base64(struct belfry_bytes value, struct belfry_buf *out)
{
    enum belfry_err err = append_text(out, ",\"value_b64\":\"");
    if (err == BELFRY_OK)
        err = belfry_base64_encode(BELFRY_BASE64_STANDARD, value, out);
    return err != BELFRY_OK ? err : append_text(out, "\"");
}

/* Written again, because the value may have line breaks, which data must not have. Numbers keep their text. */
static enum belfry_err append_json(struct belfry_bytes value, struct belfry_buf *out)
{
    struct belfry_kube_document document;
    enum belfry_err err = belfry_kube_document_read(&value, 1, &document);
    if (err == BELFRY_ERR_INVALID)
        return append_base64(value, out);
    if (err != BELFRY_OK)
        return err;
    size_t len;
    char *text = yyjson_val_write_opts(document.root, 0, &belfry_json_alc, &len, NULL);
    belfry_kube_document_fini(&document);
    if (text == NULL)
        return BELFRY_ERR_NOMEM;
    err = append_text(out, ",\"value\":");
    if (err == BELFRY_OK)
        err = belfry_buf_append(out, text, len);
    free(text);
    return err;
}

/* In an array json.h writes U+FFFD for what is not UTF-8. */
static enum belfry_err append_lossy(struct belfry_bytes value, struct belfry_buf *out)
{
    enum belfry_err err = append_text(out, ",\"value\":");
    struct belfry_json json = belfry_json_begin(out);
    if (err != BELFRY_OK)
        return err;
    belfry_json_text(&json, NULL, value);
    return belfry_json_finish(&json);
}

enum belfry_err sse_text_change(const struct sse_change *change, enum sse_value how, struct belfry_buf *out)
{
    struct belfry_json json = belfry_json_begin(out);
    belfry_json_open(&json, NULL, '{');
    belfry_json_str(&json, "op", change->is_delete ? "delete" : "put");
    belfry_json_text(&json, "key", change->key);
    if (!change->is_delete && how == SSE_VALUE_AUTO)
        belfry_json_text(&json, "value", change->value);
    enum belfry_err err = belfry_json_finish(&json);
    if (err == BELFRY_OK && !change->is_delete) {
        if (how == SSE_VALUE_JSON)
            err = append_json(change->value, out);
        else if (how == SSE_VALUE_BASE64)
            err = append_base64(change->value, out);
        else if (how == SSE_VALUE_TEXT)
            err = append_lossy(change->value, out);
    }
    return err != BELFRY_OK ? err : append_text(out, "}");
}

/* ---- messages ---- */

/* "event: NAME\nid: ID\ndata: "; each may be left out (NULL). */
static enum belfry_err begin(struct belfry_buf *out, const char *event, const struct sse_id *id)
{
    char text[64 + SSE_ID_TEXT], id_text[SSE_ID_TEXT] = "";
    if (id != NULL)
        sse_id_write(id, id_text);
    snprintf(text, sizeof(text), "%s%.32s%s%s%s%sdata: ", event == NULL ? "" : "event: ", event == NULL ? "" : event,
             event == NULL ? "" : "\n", id == NULL ? "" : "id: ", id_text, id == NULL ? "" : "\n");
    return append_text(out, text);
}

/* A message without anything foreign in it. */
static enum belfry_err whole(struct belfry_buf *out, const char *event, const struct sse_id *id, const char *data)
{
    enum belfry_err err = begin(out, event, id);
    if (err == BELFRY_OK)
        err = append_text(out, data);
    return err != BELFRY_OK ? err : append_text(out, "\n\n");
}

enum belfry_err sse_text_revision(const struct sse_id *id, bool more, struct belfry_bytes changes,
                                  struct belfry_buf *out)
{
    char head[64];
    snprintf(head, sizeof(head), "{\"rev\":%" PRId64 "%s,\"events\":[", id->rev, more ? ",\"more\":true" : "");
    enum belfry_err err = begin(out, NULL, more ? NULL : id);
    if (err == BELFRY_OK)
        err = append_text(out, head);
    if (err == BELFRY_OK)
        err = belfry_buf_append(out, changes.data, changes.len);
    return err != BELFRY_OK ? err : append_text(out, "]}\n\n");
}

enum belfry_err sse_text_state(struct belfry_bytes changes, struct belfry_buf *out)
{
    enum belfry_err err = begin(out, "state", NULL);
    if (err == BELFRY_OK)
        err = append_text(out, "{\"events\":[");
    if (err == BELFRY_OK)
        err = belfry_buf_append(out, changes.data, changes.len);
    return err != BELFRY_OK ? err : append_text(out, "]}\n\n");
}

enum belfry_err sse_text_synced(const struct sse_id *id, uint64_t n, struct belfry_buf *out)
{
    char data[64];
    snprintf(data, sizeof(data), "{\"rev\":%" PRId64 ",\"n\":%" PRIu64 "}", id->rev, n);
    return whole(out, "synced", id, data);
}

enum belfry_err sse_text_progress(const struct sse_id *id, struct belfry_buf *out)
{
    char data[64];
    snprintf(data, sizeof(data), "{\"rev\":%" PRId64 "}", id->rev);
    return whole(out, "progress", id, data);
}

enum belfry_err sse_text_reset(const struct sse_id *id, const char *reason, struct belfry_buf *out)
{
    char data[96];
    if (id->rev == 0)
        snprintf(data, sizeof(data), "{\"reason\":\"%.32s\"}", reason);
    else
        snprintf(data, sizeof(data), "{\"rev\":%" PRId64 ",\"reason\":\"%.32s\"}", id->rev, reason);
    return whole(out, "reset", id->rev == 0 ? &(struct sse_id){0} : id, data);
}

enum belfry_err sse_text_denied(const char *why, struct belfry_buf *out)
{
    enum belfry_err err = begin(out, "denied", NULL);
    struct belfry_json json = belfry_json_begin(out);
    if (err != BELFRY_OK)
        return err;
    belfry_json_open(&json, NULL, '{');
    belfry_json_str(&json, "error", why);
    belfry_json_close(&json, '}');
    err = belfry_json_finish(&json);
    return err != BELFRY_OK ? err : append_text(out, "\n\n");
}

enum belfry_err sse_text_ticket_data(struct belfry_bytes ticket, uint64_t expires_in_s, struct belfry_buf *out)
{
    struct belfry_json json = belfry_json_begin(out);
    belfry_json_open(&json, NULL, '{');
    belfry_json_text(&json, "ticket", ticket);
    belfry_json_uint(&json, "expires_in", expires_in_s);
    belfry_json_close(&json, '}');
    return belfry_json_finish(&json);
}

enum belfry_err sse_text_ticket(struct belfry_bytes ticket, uint64_t expires_in_s, struct belfry_buf *out)
{
    enum belfry_err err = begin(out, "ticket", NULL);
    if (err == BELFRY_OK)
        err = sse_text_ticket_data(ticket, expires_in_s, out);
    return err != BELFRY_OK ? err : append_text(out, "\n\n");
}

enum belfry_err sse_text_comment(const char *text, struct belfry_buf *out)
{
    enum belfry_err err = append_text(out, ": ");
    if (err == BELFRY_OK)
        err = append_text(out, text);
    return err == BELFRY_OK ? append_text(out, "\n\n") : err;
}

enum belfry_err sse_text_retry(uint64_t after_ms, struct belfry_buf *out)
{
    char text[48];
    snprintf(text, sizeof(text), "retry: %" PRIu64 "\n\n", after_ms);
    return append_text(out, text);
}
