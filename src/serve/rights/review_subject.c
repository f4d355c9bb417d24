/* src/serve/rights/review_subject.c */
#include "serve/rights/review_subject.h"

#include <assert.h>

#define LENGTH_BYTES 4
#define N_TEXTS      9

static_assert(sizeof(struct review_subject) == N_TEXTS * sizeof(struct belfry_bytes), "every text is written");

static enum belfry_err write_text(struct belfry_bytes text, struct belfry_buf *out)
{
    assert(text.len <= UINT32_MAX);
    const uint8_t length[LENGTH_BYTES] = {(uint8_t)(text.len >> 24), (uint8_t)(text.len >> 16),
                                          (uint8_t)(text.len >> 8), (uint8_t)text.len};
    enum belfry_err err = belfry_buf_append(out, length, sizeof(length));
    return err == BELFRY_OK && text.len > 0 ? belfry_buf_append(out, text.data, text.len) : err;
}

enum belfry_err review_subject_write(const struct review_subject *subject, struct belfry_buf *out)
{
    const struct belfry_bytes texts[N_TEXTS] = {subject->verb,     subject->group,          subject->version,
                                                subject->resource, subject->subresource,    subject->namespace,
                                                subject->name,     subject->label_selector, subject->field_selector};
    enum belfry_err err = BELFRY_OK;
    for (size_t i = 0; err == BELFRY_OK && i < N_TEXTS; i++)
        err = write_text(texts[i], out);
    return err;
}

/* Takes a text from the front of *rest. False: there is none. */
static bool read_text(struct belfry_bytes *rest, struct belfry_bytes *out)
{
    if (rest->len < LENGTH_BYTES)
        return false;
    const uint8_t *p = (const uint8_t *)rest->data;
    size_t len = (size_t)p[0] << 24 | (size_t)p[1] << 16 | (size_t)p[2] << 8 | p[3];
    if (len > rest->len - LENGTH_BYTES)
        return false;
    *out = belfry_bytes_of(p + LENGTH_BYTES, len);
    *rest = belfry_bytes_of(p + LENGTH_BYTES + len, rest->len - LENGTH_BYTES - len);
    return true;
}

enum belfry_err review_subject_read(struct belfry_bytes bytes, struct review_subject *out)
{
    struct review_subject subject;
    struct belfry_bytes *const texts[N_TEXTS] = {&subject.verb,     &subject.group,          &subject.version,
                                                 &subject.resource, &subject.subresource,    &subject.namespace,
                                                 &subject.name,     &subject.label_selector, &subject.field_selector};
    for (size_t i = 0; i < N_TEXTS; i++) {
        if (!read_text(&bytes, texts[i]))
            return BELFRY_ERR_INVALID;
    }
    if (bytes.len > 0)
        return BELFRY_ERR_INVALID;
    *out = subject;
    return BELFRY_OK;
}
