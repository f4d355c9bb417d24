/* src/net/http_answer.c */
#include "net/http_answer.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>

#define FIELD_OVERHEAD 32 /* RFC 9113, 6.5.2 */
#define FIRST_FIELDS   16

struct belfry_http_span {
    uint32_t name_at, name_len, value_at, value_len;
};
static_assert(BELFRY_HTTP_HEAD_BYTES < UINT32_MAX, "places in the text fit");

void belfry_http_answer_clear(struct belfry_http_answer *answer)
{
    belfry_buf_fini(&answer->text);
    free(answer->spans);
    free(answer->presented);
    *answer = (struct belfry_http_answer){0};
}

enum belfry_err belfry_http_answer_add(struct belfry_http_answer *answer, const char *bytes, size_t len)
{
    size_t used = belfry_buf_len(&answer->text) + answer->n_fields * FIELD_OVERHEAD;
    if (used > BELFRY_HTTP_HEAD_BYTES || len > BELFRY_HTTP_HEAD_BYTES - used)
        return BELFRY_ERR_TOO_LARGE;
    return belfry_buf_append(&answer->text, bytes, len);
}

static char *text_at(const struct belfry_http_answer *answer, size_t at)
{
    return answer->text.data == NULL ? NULL : (char *)answer->text.data + at;
}

static size_t end_part(struct belfry_http_answer *answer, uint32_t *out_at)
{
    size_t at = answer->open_at;
    answer->open_at = belfry_buf_len(&answer->text);
    *out_at = (uint32_t)at;
    return answer->open_at - at;
}

static enum belfry_err grow(struct belfry_http_answer *answer)
{
    size_t cap = answer->cap_fields == 0 ? FIRST_FIELDS : answer->cap_fields * 2;
    struct belfry_http_span *spans = realloc(answer->spans, cap * sizeof(*spans));
    if (spans == NULL)
        return BELFRY_ERR_NOMEM;
    answer->spans = spans;
    answer->cap_fields = cap;
    return BELFRY_OK;
}

enum belfry_err belfry_http_answer_end_name(struct belfry_http_answer *answer)
{
    if (answer->n_fields == BELFRY_HTTP_FIELDS)
        return BELFRY_ERR_TOO_LARGE;
    if (answer->n_fields == answer->cap_fields) {
        enum belfry_err err = grow(answer);
        if (err != BELFRY_OK)
            return err;
    }
    struct belfry_http_span *span = &answer->spans[answer->n_fields++];
    *span = (struct belfry_http_span){0};
    span->name_len = (uint32_t)end_part(answer, &span->name_at);
    char *name = text_at(answer, span->name_at);
    for (uint32_t i = 0; i < span->name_len; i++) {
        if (name[i] >= 'A' && name[i] <= 'Z')
            name[i] = (char)(name[i] - 'A' + 'a');
    }
    return BELFRY_OK;
}

void belfry_http_answer_end_value(struct belfry_http_answer *answer)
{
    struct belfry_http_span *span = &answer->spans[answer->n_fields - 1];
    span->value_len = (uint32_t)end_part(answer, &span->value_at);
    const char *value = text_at(answer, span->value_at);
    while (span->value_len > 0 && (value[span->value_len - 1] == ' ' || value[span->value_len - 1] == '\t'))
        span->value_len--;
}

enum belfry_err belfry_http_answer_present(struct belfry_http_answer *answer, struct belfry_http_head *out)
{
    free(answer->presented);
    answer->presented = calloc(answer->n_fields + 1, sizeof(*answer->presented));
    if (answer->presented == NULL)
        return BELFRY_ERR_NOMEM;
    for (size_t i = 0; i < answer->n_fields; i++) {
        const struct belfry_http_span *span = &answer->spans[i];
        answer->presented[i] =
            (struct belfry_http_field){.name = belfry_bytes_of(text_at(answer, span->name_at), span->name_len),
                                       .value = belfry_bytes_of(text_at(answer, span->value_at), span->value_len)};
    }
    *out = (struct belfry_http_head){answer->status, answer->presented, answer->n_fields};
    return BELFRY_OK;
}
