/* tests/support/txntext.c */
#include "support/txntext.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "client/txn.h"
#include "wire/rpc.pb-c.h"

static void write_bytes(FILE *out, ProtobufCBinaryData bytes)
{
    for (size_t i = 0; i < bytes.len; i++)
        fprintf(out, bytes.data[i] < 0x20 || bytes.data[i] > 0x7E ? "\\x%02x" : "%c", bytes.data[i]);
}

static void write_range(FILE *out, const char *op, ProtobufCBinaryData key, ProtobufCBinaryData end)
{
    fprintf(out, "%s ", op);
    write_bytes(out, key);
    fputs(end.len > 0 ? ".." : "", out);
    write_bytes(out, end);
}

static void write_number(FILE *out, const char *name, int64_t number)
{
    if (number != 0)
        fprintf(out, " %s=%" PRId64, name, number);
}

static void write_compare(FILE *out, const Etcdserverpb__Compare *c)
{
    static const char *const targets[] = {"version", "create", "mod", "value", "lease"};
    int64_t numbers[] = {c->version, c->create_revision, c->mod_revision, 0, c->lease};
    fprintf(out, "%s ", targets[c->target]);
    write_bytes(out, c->key);
    fprintf(out, " %s ", ((const char *const[]){"=", ">", "<", "!="})[c->result]);
    if (c->target == ETCDSERVERPB__COMPARE__COMPARE_TARGET__VALUE)
        write_bytes(out, c->value);
    else
        fprintf(out, "%" PRId64, numbers[c->target]);
}

static void write_op(FILE *out, const Etcdserverpb__RequestOp *op)
{
    if (op->request_case == ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_PUT) {
        write_range(out, "put", op->request_put->key, (ProtobufCBinaryData){0});
        fputc('=', out);
        write_bytes(out, op->request_put->value);
        write_number(out, "lease", op->request_put->lease);
        fputs(op->request_put->prev_kv ? " prev-kv" : "", out);
        fputs(op->request_put->ignore_value ? " ignore-value" : "", out);
    } else if (op->request_case == ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_DELETE_RANGE) {
        write_range(out, "del", op->request_delete_range->key, op->request_delete_range->range_end);
        fputs(op->request_delete_range->prev_kv ? " prev-kv" : "", out);
    } else {
        const Etcdserverpb__RangeRequest *get = op->request_range;
        write_range(out, "get", get->key, get->range_end);
        write_number(out, "limit", get->limit);
        write_number(out, "order", get->sort_order);
        write_number(out, "by", get->sort_target);
        fputs(get->keys_only ? " keys-only" : "", out);
    }
}

const char *txntext(const struct belfry_txn *txn)
{
    static char text[4096];
    struct belfry_bytes bytes;
    assert_int_equal(belfry_txn_request(txn, &bytes), BELFRY_OK);
    Etcdserverpb__TxnRequest *r = etcdserverpb__txn_request__unpack(NULL, bytes.len, (const uint8_t *)bytes.data);
    FILE *out = fmemopen(text, sizeof(text), "w");
    assert_true(r != NULL && out != NULL);
    for (size_t i = 0; i < r->n_compare; i++) {
        fputs(i > 0 ? "; " : "", out);
        write_compare(out, r->compare[i]);
    }
    fputs(" | ", out);
    for (size_t i = 0; i < r->n_success; i++) {
        fputs(i > 0 ? "; " : "", out);
        write_op(out, r->success[i]);
    }
    fputs(" | ", out);
    for (size_t i = 0; i < r->n_failure; i++) {
        fputs(i > 0 ? "; " : "", out);
        write_op(out, r->failure[i]);
    }
    assert_int_equal(fclose(out), 0);
    etcdserverpb__txn_request__free_unpacked(r, NULL);
    return text;
}
