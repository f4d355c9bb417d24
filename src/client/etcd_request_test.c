/* src/client/etcd_request_test.c: every request, read back by protobuf-c. */
#include "client/etcd_request.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/refuse.h"
#include "wire/rpc.pb-c.h"

static struct belfry_buf buf;

static struct belfry_opts *options(const char *const *pairs)
{
    struct belfry_opts *opts = NULL;
    for (; *pairs != NULL; pairs += 2)
        assert_int_equal(belfry_opts_set(&opts, pairs[0], pairs[1]), BELFRY_OK);
    return opts;
}

/* What was written, as a message of protobuf-c; the buffer is emptied. */
static void *read_back(const ProtobufCMessageDescriptor *descriptor)
{
    void *message = protobuf_c_message_unpack(descriptor, NULL, belfry_buf_len(&buf), buf.data + buf.start);
    assert_non_null(message);
    belfry_buf_fini(&buf);
    belfry_buf_init(&buf);
    return message;
}

static void done(void *message)
{
    protobuf_c_message_free_unpacked(message, NULL);
}

static void same(ProtobufCBinaryData data, const char *text)
{
    assert_int_equal(data.len, strlen(text));
    if (data.len > 0)
        assert_memory_equal(data.data, text, data.len);
}

static void a_range_carries_every_option(void **state)
{
    static const char *const pairs[] = {
        "rev",          "11",   "limit",          "12",  "keys-only",      "true",    "count-only",  "true",
        "serializable", "true", "sort-by",        "mod", "order",          "descend", "min-mod-rev", "1",
        "max-mod-rev",  "2",    "min-create-rev", "3",   "max-create-rev", "4",       NULL};
    struct belfry_wire_range range = {belfry_bytes_str("k"), belfry_bytes_str("l")};
    struct belfry_opts *opts = options(pairs);
    (void)state;
    assert_int_equal(belfry_request_range(&buf, &range, opts), BELFRY_OK);
    Etcdserverpb__RangeRequest *r = read_back(&etcdserverpb__range_request__descriptor);
    same(r->key, "k");
    same(r->range_end, "l");
    assert_true(r->revision == 11 && r->limit == 12 && r->keys_only && r->count_only && r->serializable);
    assert_int_equal(r->sort_target, ETCDSERVERPB__RANGE_REQUEST__SORT_TARGET__MOD);
    assert_int_equal(r->sort_order, ETCDSERVERPB__RANGE_REQUEST__SORT_ORDER__DESCEND);
    assert_true(r->min_mod_revision == 1 && r->max_mod_revision == 2 && r->min_create_revision == 3 &&
                r->max_create_revision == 4);
    done(r);
    assert_int_equal(belfry_request_range(&buf, &range, NULL), BELFRY_OK);
    assert_int_equal(belfry_buf_len(&buf), 6); /* two keys and nothing else */
    belfry_buf_fini(&buf);
    belfry_opts_free(opts);
}

static void pages_and_counts_are_ranges(void **state)
{
    (void)state;
    assert_int_equal(belfry_request_count(&buf, belfry_bytes_str("k")), BELFRY_OK);
    Etcdserverpb__RangeRequest *r = read_back(&etcdserverpb__range_request__descriptor);
    same(r->key, "k");
    assert_true(r->count_only && !r->serializable && r->range_end.len == 0);
    done(r);
    assert_int_equal(belfry_request_page(&buf, belfry_bytes_str("k"), belfry_bytes_str("l"), 7, 100), BELFRY_OK);
    r = read_back(&etcdserverpb__range_request__descriptor);
    same(r->range_end, "l");
    assert_true(r->revision == 7 && r->limit == 100 && !r->serializable && r->sort_order == 0);
    done(r);
    assert_int_equal(belfry_request_pinned_page(&buf, belfry_bytes_str("k"), belfry_bytes_str("l"), 7, 100), BELFRY_OK);
    r = read_back(&etcdserverpb__range_request__descriptor);
    same(r->key, "k");
    same(r->range_end, "l");
    assert_true(r->revision == 7 && r->limit == 100 && r->serializable && r->sort_order == 0);
    done(r);
}

static void writes_carry_their_options(void **state)
{
    static const char *const pairs[] = {"lease", "77",           "prev-kv", "true", "ignore-value",
                                        "true",  "ignore-lease", "true",    NULL};
    static const char *const prev[] = {"prev-kv", "true", NULL};
    struct belfry_wire_range range = {belfry_bytes_str("k"), belfry_bytes_str("l")};
    struct belfry_opts *opts = options(pairs), *del = options(prev);
    (void)state;
    assert_int_equal(belfry_request_put(&buf, belfry_bytes_str("k"), belfry_bytes_str("v"), opts), BELFRY_OK);
    Etcdserverpb__PutRequest *p = read_back(&etcdserverpb__put_request__descriptor);
    same(p->key, "k");
    same(p->value, "v");
    assert_true(p->lease == 77 && p->prev_kv && p->ignore_value && p->ignore_lease);
    done(p);
    assert_int_equal(belfry_request_delete(&buf, &range, del), BELFRY_OK);
    Etcdserverpb__DeleteRangeRequest *d = read_back(&etcdserverpb__delete_range_request__descriptor);
    same(d->key, "k");
    same(d->range_end, "l");
    assert_true(d->prev_kv);
    done(d);
    assert_int_equal(belfry_request_compact(&buf, 99, true), BELFRY_OK);
    Etcdserverpb__CompactionRequest *c = read_back(&etcdserverpb__compaction_request__descriptor);
    assert_true(c->revision == 99 && c->physical);
    done(c);
    belfry_opts_free(opts);
    belfry_opts_free(del);
}

static void leases_and_members(void **state)
{
    (void)state;
    assert_int_equal(belfry_request_lease_grant(&buf, 60, -5), BELFRY_OK);
    Etcdserverpb__LeaseGrantRequest *g = read_back(&etcdserverpb__lease_grant_request__descriptor);
    assert_true(g->ttl == 60 && g->id == -5);
    done(g);
    assert_int_equal(belfry_request_lease_id(&buf, INT64_MAX), BELFRY_OK);
    Etcdserverpb__LeaseKeepAliveRequest *k = read_back(&etcdserverpb__lease_keep_alive_request__descriptor);
    assert_true(k->id == INT64_MAX);
    done(k);
    assert_int_equal(belfry_request_lease_ttl(&buf, 5, true), BELFRY_OK);
    Etcdserverpb__LeaseTimeToLiveRequest *t = read_back(&etcdserverpb__lease_time_to_live_request__descriptor);
    assert_true(t->id == 5 && t->keys);
    done(t);
    assert_int_equal(belfry_request_member_list(&buf), BELFRY_OK);
    Etcdserverpb__MemberListRequest *m = read_back(&etcdserverpb__member_list_request__descriptor);
    assert_true(m->linearizable);
    done(m);
}

static enum belfry_err scenario(void)
{
    struct belfry_buf out;
    belfry_buf_init(&out);
    enum belfry_err err = belfry_request_put(&out, belfry_bytes_str("k"), belfry_bytes_str("v"), NULL);
    if (err != BELFRY_OK)
        assert_int_equal(belfry_buf_len(&out), 0);
    belfry_buf_fini(&out);
    return err;
}

static void refused_memory_leaks_nothing(void **state)
{
    (void)state;
    assert_int_equal(refuse_sweep(scenario), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_range_carries_every_option), cmocka_unit_test(pages_and_counts_are_ranges),
        cmocka_unit_test(writes_carry_their_options),   cmocka_unit_test(leases_and_members),
        cmocka_unit_test(refused_memory_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
