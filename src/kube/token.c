/* src/kube/token.c */
#include "kube/token.h"

#include "base/base64.h"
#include "base/utf8.h"
#include "json/json.h"
#include "json/json_alc.h"

#define VERSION "meta.k8s.io/v1"

static bool is_dots(const char *part, size_t len)
{
    return (len == 1 && part[0] == '.') || (len == 2 && part[0] == '.' && part[1] == '.');
}

/* A "." or ".." is harmless here, because keys are not paths; but no object's key has such a part, so we did not write
 * this token. */
static bool is_start(struct belfry_bytes start)
{
    if (start.len == 0 || start.len > KUBE_START_MAX || !belfry_utf8_valid(start.data, start.len))
        return false;
    for (size_t from = 0, i = 0; i <= start.len; i++) {
        if (i < start.len && start.data[i] != '/')
            continue;
        if (is_dots(start.data + from, i - from))
            return false;
        from = i + 1;
    }
    return true;
}

static bool is_rev(int64_t rev)
{
    return rev > 0 || rev == -1;
}

static enum belfry_err read_rev(yyjson_val *value, int64_t *out)
{
    bool fits = yyjson_is_sint(value) || (yyjson_is_uint(value) && yyjson_get_uint(value) <= INT64_MAX);
    if (!fits || !is_rev(yyjson_get_sint(value)))
        return BELFRY_ERR_INVALID;
    *out = yyjson_get_sint(value);
    return BELFRY_OK;
}

/* Anything but a number counts as not recorded. */
static struct kube_token_origin read_origin(yyjson_val *root)
{
    return (struct kube_token_origin){yyjson_get_uint(yyjson_obj_get(root, "process")),
                                      yyjson_get_uint(yyjson_obj_get(root, "past"))};
}

static enum belfry_err read_members(yyjson_val *root, struct kube_token *out)
{
    yyjson_val *start = yyjson_obj_get(root, "start");
    if (!yyjson_equals_str(yyjson_obj_get(root, "v"), VERSION) || !yyjson_is_str(start) ||
        !is_start(belfry_bytes_of(yyjson_get_str(start), yyjson_get_len(start))))
        return BELFRY_ERR_INVALID;
    enum belfry_err err = read_rev(yyjson_obj_get(root, "rv"), &out->rev);
    if (err != BELFRY_OK)
        return err;
    out->origin = read_origin(root);
    return belfry_buf_append(&out->start, yyjson_get_str(start), yyjson_get_len(start));
}

static enum belfry_err read_json(struct belfry_buf *json, struct kube_token *out)
{
    yyjson_read_err why;
    yyjson_doc *doc = yyjson_read_opts((char *)json->data + json->start, belfry_buf_len(json), YYJSON_READ_NOFLAG,
                                       &belfry_json_alc, &why);
    if (doc == NULL)
        return why.code == YYJSON_READ_ERROR_MEMORY_ALLOCATION ? BELFRY_ERR_NOMEM : BELFRY_ERR_INVALID;
    enum belfry_err err = read_members(yyjson_doc_get_root(doc), out);
    yyjson_doc_free(doc);
    return err;
}

enum belfry_err kube_token_read(struct belfry_bytes text, struct kube_token *out)
{
    struct belfry_buf json;
    *out = (struct kube_token){0};
    if (text.len < 2 || text.len > KUBE_TOKEN_MAX) /* one digit is less than a byte */
        return BELFRY_ERR_INVALID;
    belfry_buf_init(&json);
    enum belfry_err err = belfry_base64_decode(BELFRY_BASE64_URL, text, &json);
    if (err == BELFRY_OK)
        err = read_json(&json, out);
    belfry_buf_fini(&json);
    return err;
}

void kube_token_fini(struct kube_token *token)
{
    belfry_buf_fini(&token->start);
}

enum belfry_err kube_token_write(int64_t rev, struct kube_token_origin origin, struct belfry_bytes start,
                                 struct belfry_buf *out)
{
    if (!is_rev(rev) || !is_start(start))
        return BELFRY_ERR_INVALID;
    struct belfry_buf text;
    belfry_buf_init(&text);
    struct belfry_json json = belfry_json_begin(&text);
    belfry_json_open(&json, NULL, '{');
    belfry_json_str(&json, "v", VERSION);
    belfry_json_int(&json, "rv", rev);
    belfry_json_text(&json, "start", start);
    if (origin.process != 0) {
        belfry_json_uint(&json, "process", origin.process);
        belfry_json_uint(&json, "past", origin.past);
    }
    belfry_json_close(&json, '}');
    enum belfry_err err = belfry_json_finish(&json);
    if (err == BELFRY_OK)
        err = belfry_base64_encode(BELFRY_BASE64_URL, belfry_buf_bytes(&text), out);
    belfry_buf_fini(&text);
    return err;
}
