/* src/serve/reads/txn_answer.c */
#include "serve/reads/txn_answer.h"

#include <string.h>

#include "net/grpc_frame.h"
#include "serve/reads/txn_compare.h"
#include "wire/write.h"

/* ---- which branch ---- */

static enum belfry_err choose_branch(struct range_source *source, const struct read_request *request, uint32_t *out)
{
    struct belfry_wire_compare compare;
    bool holds = true;
    size_t at = 0;
    while (holds && read_request_next_compare(request, &at, &compare)) {
        enum belfry_err err = txn_compare(source, &compare, &holds);
        if (err != BELFRY_OK)
            return err;
    }
    *out = holds ? BELFRY_TXN_SUCCESS : BELFRY_TXN_FAILURE;
    return BELFRY_OK;
}

/* Are the revisions of all its Ranges there? Those that are older share what may be walked of history. */
static enum belfry_err check_branch(struct range_source *source, const struct read_request *request, uint32_t branch,
                                    const struct store_meta *meta)
{
    struct belfry_wire_range_request range;
    size_t n_older = 0;
    for (size_t at = 0; read_request_next_range(request, branch, &at, &range);) {
        if (range.revision > meta->revision)
            return BELFRY_ERR_AGAIN;
        if (range.revision != 0 && range.revision < meta->oldest - 1)
            return BELFRY_ERR_COMPACTED;
        n_older += range.revision != 0 && range.revision != meta->revision;
    }
    if (n_older > 1)
        source->older_walk /= n_older;
    return n_older > TXN_ANSWER_OLDER ? BELFRY_ERR_TOO_LARGE : BELFRY_OK;
}

/* ---- the response ---- */

static enum belfry_err write_head(struct belfry_buf *out, const struct response_identity *identity, int64_t rev,
                                  bool succeeded)
{
    struct response_header header;
    uint8_t *begin, *to;
    enum belfry_err err = belfry_buf_reserve(
        out, BELFRY_GRPC_PREFIX_BYTES + RESPONSE_HEADER_MAX + BELFRY_WRITE_TXN_SUCCEEDED_MAX, &begin);
    if (err != BELFRY_OK)
        return err;
    memset(begin, 0, BELFRY_GRPC_PREFIX_BYTES); /* written when the length is known */
    response_header_make(identity, rev, &header);
    to = begin + BELFRY_GRPC_PREFIX_BYTES;
    to = (uint8_t *)memcpy(to, header.bytes, header.len) + header.len;
    to = belfry_write_txn_succeeded(succeeded, to);
    belfry_buf_grown(out, (size_t)(to - begin));
    return BELFRY_OK;
}

/* Appends one response. `rest`: what follows its header. */
static enum belfry_err write_response(struct belfry_buf *out, struct belfry_bytes rest, int64_t rev)
{
    struct response_header header;
    uint8_t *begin, *to;
    response_header_make(&(struct response_identity){0}, rev, &header);
    size_t len = header.len + rest.len;
    enum belfry_err err = belfry_buf_reserve(out, BELFRY_WRITE_TXN_FIELD_MAX + len, &begin);
    if (err != BELFRY_OK)
        return err;
    to = belfry_write_txn_field(len, begin);
    to = (uint8_t *)memcpy(to, header.bytes, header.len) + header.len;
    if (rest.len > 0)
        to = (uint8_t *)memcpy(to, rest.data, rest.len) + rest.len;
    belfry_buf_grown(out, (size_t)(to - begin));
    return BELFRY_OK;
}

static enum belfry_err write_branch(struct range_source *source, const struct read_request *request, uint32_t branch,
                                    int64_t rev, struct belfry_buf *out)
{
    struct belfry_wire_range_request range;
    struct store_page page;
    struct belfry_buf rest;
    enum belfry_err err = BELFRY_OK;
    belfry_buf_init(&rest);
    for (size_t at = 0; err == BELFRY_OK && read_request_next_range(request, branch, &at, &range);) {
        belfry_buf_clear(&rest);
        err = range_answer_rest(source, &range, &rest, &page);
        if (err == BELFRY_OK)
            err = write_response(out, belfry_buf_bytes(&rest), rev);
    }
    belfry_buf_fini(&rest);
    return err;
}

/* ---- the whole ---- */

static enum belfry_err answer_in_view(struct range_source *source, const struct read_request *request,
                                      const struct response_identity *identity, const struct store_meta *meta,
                                      struct belfry_buf *out)
{
    uint32_t branch;
    enum belfry_err err = choose_branch(source, request, &branch);
    if (err == BELFRY_OK)
        err = check_branch(source, request, branch, meta);
    if (err == BELFRY_OK)
        err = write_head(out, identity, meta->revision, branch == BELFRY_TXN_SUCCESS);
    if (err == BELFRY_OK)
        err = write_branch(source, request, branch, meta->revision, out);
    if (err == BELFRY_OK)
        belfry_grpc_frame_prefix(out->data + out->start, belfry_buf_len(out) - BELFRY_GRPC_PREFIX_BYTES);
    else
        belfry_buf_clear(out);
    return err;
}

enum belfry_err txn_answer(struct store *store, const struct read_request *request,
                           const struct range_upstream *upstream, struct belfry_buf *out, struct range_answer *answer)
{
    struct range_source source = RANGE_SOURCE(store, upstream->keys_only);
    struct store_meta meta;
    enum belfry_err err = store->api->view_begin(store, &source.view, &meta);
    if (err != BELFRY_OK)
        return err;
    err = answer_in_view(&source, request, &upstream->identity, &meta, out);
    store->api->view_end(store, source.view);
    *answer = (struct range_answer){.revision = meta.revision, .past = meta.past};
    return err;
}
