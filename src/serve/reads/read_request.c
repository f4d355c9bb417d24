/* src/serve/reads/read_request.c */
#include "serve/reads/read_request.h"

#include <assert.h>

#include "base/pack.h"
#include "core/key_range.h"
#include "serve/reads/range_answer.h"

/* ---- reading ---- */

static enum read_request_fit read_range(struct belfry_bytes message, struct read_request *out)
{
    struct belfry_wire_range_request range;
    *out = (struct read_request){.kind = READ_REQUEST_RANGE};
    if (belfry_scan_range_request(message, &range) != BELFRY_OK)
        return READ_REQUEST_ETCDS;
    *out = (struct read_request){.kind = READ_REQUEST_RANGE, .serializable = range.serializable, .range = range};
    return range_answer_knows(&range) ? READ_REQUEST_FITTING : READ_REQUEST_ETCDS;
}

/* etcd takes a negative revision of a Txn for one that is compacted, mostly; that of a Range for none. */
static bool range_fits(const struct belfry_wire_range_request *range)
{
    return range_answer_knows(range) && range->revision >= 0;
}

static bool compare_fits(const struct belfry_wire_compare *compare)
{
    return !compare->is_odd && compare->key.len > 0 && compare->result >= BELFRY_COMPARE_EQUAL &&
           compare->result <= BELFRY_COMPARE_NOT_EQUAL && compare->target >= BELFRY_COMPARE_VERSION &&
           compare->target <= BELFRY_COMPARE_LEASE;
}

static enum read_request_fit read_compares(struct belfry_bytes message)
{
    enum read_request_fit fit = READ_REQUEST_FITTING;
    struct belfry_bytes raw;
    struct belfry_wire_compare compare;
    for (size_t at = 0; belfry_scan_field(message, BELFRY_TXN_COMPARES, &at, &raw) == BELFRY_OK;) {
        if (belfry_scan_compare(raw, &compare) != BELFRY_OK)
            return READ_REQUEST_NONE;
        if (!compare_fits(&compare))
            fit = READ_REQUEST_ETCDS;
    }
    return fit;
}

static enum read_request_fit read_branch(struct belfry_bytes message, uint32_t branch, bool *serializable)
{
    enum read_request_fit fit = READ_REQUEST_FITTING;
    struct belfry_bytes raw;
    struct belfry_wire_op op;
    struct belfry_wire_range_request range;
    for (size_t at = 0; belfry_scan_field(message, branch, &at, &raw) == BELFRY_OK;) {
        if (belfry_scan_op(raw, &op) != BELFRY_OK || op.kind != BELFRY_OP_RANGE ||
            belfry_scan_range_request(op.request, &range) != BELFRY_OK)
            return READ_REQUEST_NONE;
        *serializable = *serializable && range.serializable;
        if (op.is_odd || !range_fits(&range))
            fit = READ_REQUEST_ETCDS;
    }
    return fit;
}

static enum read_request_fit worse(enum read_request_fit a, enum read_request_fit b)
{
    return a < b ? a : b;
}

static enum read_request_fit read_txn(struct belfry_bytes message, struct read_request *out)
{
    struct belfry_wire_txn_request txn;
    *out = (struct read_request){.kind = READ_REQUEST_TXN, .serializable = true, .txn = message};
    if (belfry_scan_txn_request(message, &txn) != BELFRY_OK)
        return READ_REQUEST_NONE;
    bool is_usual = !txn.is_odd && txn.n_compares <= READ_REQUEST_OPS && txn.n_success <= READ_REQUEST_OPS &&
                    txn.n_failure <= READ_REQUEST_OPS;
    enum read_request_fit fit = is_usual ? READ_REQUEST_FITTING : READ_REQUEST_ETCDS;
    fit = worse(fit, read_compares(message));
    fit = worse(fit, read_branch(message, BELFRY_TXN_SUCCESS, &out->serializable));
    return worse(fit, read_branch(message, BELFRY_TXN_FAILURE, &out->serializable));
}

enum read_request_fit read_request_read(enum read_request_kind kind, struct belfry_bytes message,
                                        struct read_request *out)
{
    return kind == READ_REQUEST_RANGE ? read_range(message, out) : read_txn(message, out);
}

/* ---- copying ---- */

size_t read_request_bytes(const struct read_request *request)
{
    return request->range.key.len + request->range.range_end.len + request->txn.len;
}

struct read_request read_request_pack(const struct read_request *request, char **to)
{
    struct read_request copy = *request;
    copy.range.key = belfry_pack(to, request->range.key);
    copy.range.range_end = belfry_pack(to, request->range.range_end);
    copy.txn = belfry_pack(to, request->txn);
    return copy;
}

/* ---- parts ---- */

bool read_request_next_compare(const struct read_request *request, size_t *at, struct belfry_wire_compare *out)
{
    struct belfry_bytes raw;
    if (belfry_scan_field(request->txn, BELFRY_TXN_COMPARES, at, &raw) != BELFRY_OK)
        return false;
    enum belfry_err err = belfry_scan_compare(raw, out);
    assert(err == BELFRY_OK); /* as when it was read */
    return err == BELFRY_OK;
}

bool read_request_next_range(const struct read_request *request, uint32_t branch, size_t *at,
                             struct belfry_wire_range_request *out)
{
    struct belfry_bytes raw;
    struct belfry_wire_op op;
    if (belfry_scan_field(request->txn, branch, at, &raw) != BELFRY_OK)
        return false;
    enum belfry_err err = belfry_scan_op(raw, &op);
    if (err == BELFRY_OK)
        err = belfry_scan_range_request(op.request, out);
    assert(err == BELFRY_OK);
    return err == BELFRY_OK;
}

static bool next_span_of_txn(const struct read_request *request, struct read_request_walk *walk,
                             struct read_request_span *out)
{
    struct belfry_wire_compare compare;
    struct belfry_wire_range_request range;
    if (walk->part == BELFRY_TXN_COMPARES && read_request_next_compare(request, &walk->at, &compare)) {
        *out = (struct read_request_span){compare.key, compare.range_end};
        return true;
    }
    if (walk->part == BELFRY_TXN_COMPARES)
        *walk = (struct read_request_walk){.part = BELFRY_TXN_SUCCESS};
    while (!read_request_next_range(request, walk->part, &walk->at, &range)) {
        if (walk->part == BELFRY_TXN_FAILURE)
            return false;
        *walk = (struct read_request_walk){.part = BELFRY_TXN_FAILURE};
    }
    *out = (struct read_request_span){range.key, range.range_end};
    return true;
}

bool read_request_next_span(const struct read_request *request, struct read_request_walk *walk,
                            struct read_request_span *out)
{
    bool is_first = walk->part == 0;
    if (is_first)
        walk->part = BELFRY_TXN_COMPARES;
    if (request->kind == READ_REQUEST_TXN)
        return next_span_of_txn(request, walk, out);
    *out = (struct read_request_span){request->range.key, request->range.range_end};
    return is_first;
}

bool read_request_is_within(const struct read_request *request, struct belfry_bytes prefix)
{
    struct read_request_walk walk = {0};
    struct read_request_span span;
    struct range range;
    while (read_request_next_span(request, &walk, &span)) {
        if (range_read(span.key, span.range_end, &range) && !range_within(&range, prefix))
            return false;
    }
    return true;
}
