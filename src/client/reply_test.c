/* src/client/reply_test.c: answers written by protobuf-c, whole and cut at every byte. */
#include "client/reply.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/refuse.h"
#include "wire/rpc.pb-c.h"

static uint8_t packed[8192];

static char *text(const char *literal)
{
    return (char *)(uintptr_t)literal;
}

static ProtobufCBinaryData bin(const char *literal)
{
    return (ProtobufCBinaryData){strlen(literal), (uint8_t *)(uintptr_t)literal};
}

static Etcdserverpb__ResponseHeader *header(void)
{
    static Etcdserverpb__ResponseHeader h;
    etcdserverpb__response_header__init(&h);
    h.cluster_id = UINT64_MAX;
    h.member_id = 2;
    h.revision = 77;
    h.raft_term = 4;
    return &h;
}

static Mvccpb__KeyValue **kvs(void)
{
    static Mvccpb__KeyValue a, b;
    static Mvccpb__KeyValue *list[] = {&a, &b};
    mvccpb__key_value__init(&a);
    mvccpb__key_value__init(&b);
    a.key = bin("k1");
    a.value = bin("v1");
    a.create_revision = 5;
    a.mod_revision = 6;
    a.version = 2;
    a.lease = 9;
    b.key = bin("k2");
    return list;
}

static struct belfry_bytes pack(const ProtobufCMessage *message)
{
    assert_true(protobuf_c_message_get_packed_size(message) <= sizeof(packed));
    return belfry_bytes_of(packed, protobuf_c_message_pack(message, packed));
}

static struct belfry_bytes range_message(void)
{
    Etcdserverpb__RangeResponse r = ETCDSERVERPB__RANGE_RESPONSE__INIT;
    r.header = header();
    r.n_kvs = 2;
    r.kvs = kvs();
    r.more = true;
    r.count = 500;
    return pack(&r.base);
}

static struct belfry_bytes put_message(void)
{
    Etcdserverpb__PutResponse r = ETCDSERVERPB__PUT_RESPONSE__INIT;
    r.header = header();
    r.prev_kv = kvs()[0];
    return pack(&r.base);
}

static struct belfry_bytes delete_message(void)
{
    Etcdserverpb__DeleteRangeResponse r = ETCDSERVERPB__DELETE_RANGE_RESPONSE__INIT;
    r.header = header();
    r.deleted = 2;
    r.n_prev_kvs = 2;
    r.prev_kvs = kvs();
    return pack(&r.base);
}

/* A transaction with a range, a put, a delete, and a transaction with a range in it, `depth` times. */
static struct belfry_bytes txn_message(int depth)
{
    static Etcdserverpb__TxnResponse txns[16];
    static Etcdserverpb__ResponseOp ops[16][4];
    static Etcdserverpb__ResponseOp *lists[16][4];
    static Etcdserverpb__RangeResponse range;
    static Etcdserverpb__PutResponse put;
    static Etcdserverpb__DeleteRangeResponse del;
    etcdserverpb__range_response__init(&range);
    etcdserverpb__put_response__init(&put);
    etcdserverpb__delete_range_response__init(&del);
    range.n_kvs = 2;
    range.kvs = kvs();
    put.prev_kv = kvs()[1];
    del.deleted = 3;
    for (int i = depth; i >= 0; i--) {
        etcdserverpb__txn_response__init(&txns[i]);
        for (int j = 0; j < 4; j++) {
            etcdserverpb__response_op__init(&ops[i][j]);
            lists[i][j] = &ops[i][j];
        }
        ops[i][0].response_case = ETCDSERVERPB__RESPONSE_OP__RESPONSE_RESPONSE_RANGE;
        ops[i][0].response_range = &range;
        ops[i][1].response_case = ETCDSERVERPB__RESPONSE_OP__RESPONSE_RESPONSE_PUT;
        ops[i][1].response_put = &put;
        ops[i][2].response_case = ETCDSERVERPB__RESPONSE_OP__RESPONSE_RESPONSE_DELETE_RANGE;
        ops[i][2].response_delete_range = &del;
        ops[i][3].response_case = ETCDSERVERPB__RESPONSE_OP__RESPONSE_RESPONSE_TXN;
        ops[i][3].response_txn = i < depth ? &txns[i + 1] : NULL;
        txns[i].responses = lists[i];
        txns[i].n_responses = i < depth ? 4 : 3;
        txns[i].succeeded = i % 2 == 0;
    }
    txns[0].header = header();
    return pack(&txns[0].base);
}

static struct belfry_bytes nested_message(void)
{
    return txn_message(2);
}

static struct belfry_bytes ttl_message(void)
{
    Etcdserverpb__LeaseTimeToLiveResponse r = ETCDSERVERPB__LEASE_TIME_TO_LIVE_RESPONSE__INIT;
    ProtobufCBinaryData keys[] = {bin("a"), bin(""), bin("ccc")};
    r.header = header();
    r.id = 12;
    r.ttl = -1;
    r.grantedttl = 60;
    r.n_keys = 3;
    r.keys = keys;
    return pack(&r.base);
}

static struct belfry_bytes leases_message(void)
{
    Etcdserverpb__LeaseLeasesResponse r = ETCDSERVERPB__LEASE_LEASES_RESPONSE__INIT;
    Etcdserverpb__LeaseStatus a = ETCDSERVERPB__LEASE_STATUS__INIT, b = ETCDSERVERPB__LEASE_STATUS__INIT;
    Etcdserverpb__LeaseStatus *list[] = {&a, &b};
    r.header = header();
    a.id = INT64_MAX;
    b.id = 7;
    r.n_leases = 2;
    r.leases = list;
    return pack(&r.base);
}

static struct belfry_bytes status_message(void)
{
    Etcdserverpb__StatusResponse r;
    etcdserverpb__status_response__init(&r);
    char *errors[] = {text("NOSPACE"), text("CORRUPT")};
    r.header = header();
    r.version = text("3.5.30");
    r.dbsize = 4096;
    r.dbsizeinuse = 1024;
    r.leader = 8;
    r.raftindex = 9;
    r.raftterm = 10;
    r.raftappliedindex = 11;
    r.islearner = true;
    r.n_errors = 2;
    r.errors = errors;
    return pack(&r.base);
}

static struct belfry_bytes members_message(void)
{
    Etcdserverpb__MemberListResponse r = ETCDSERVERPB__MEMBER_LIST_RESPONSE__INIT;
    Etcdserverpb__Member a, b;
    etcdserverpb__member__init(&a);
    etcdserverpb__member__init(&b);
    Etcdserverpb__Member *list[] = {&a, &b};
    char *urls[] = {text("http://a:1"), text("http://b:2")};
    r.header = header();
    a.id = 1;
    a.name = text("one");
    a.n_peerurls = 2;
    a.peerurls = urls;
    a.n_clienturls = 1;
    a.clienturls = urls;
    b.id = 2;
    b.islearner = true;
    r.n_members = 2;
    r.members = list;
    return pack(&r.base);
}

static struct belfry_bytes grant_message(void)
{
    Etcdserverpb__LeaseGrantResponse r;
    etcdserverpb__lease_grant_response__init(&r);
    r.header = header();
    r.id = 12;
    r.ttl = 60;
    return pack(&r.base);
}

static struct belfry_bytes compact_message(void)
{
    Etcdserverpb__CompactionResponse r = ETCDSERVERPB__COMPACTION_RESPONSE__INIT;
    r.header = header();
    return pack(&r.base);
}

static const struct kind {
    enum belfry_reply_kind kind;
    struct belfry_bytes (*message)(void);
} kinds[] = {
    {BELFRY_REPLY_RANGE, range_message},    {BELFRY_REPLY_PUT, put_message},
    {BELFRY_REPLY_DELETE, delete_message},  {BELFRY_REPLY_TXN, nested_message},
    {BELFRY_REPLY_TTL, ttl_message},        {BELFRY_REPLY_LEASES, leases_message},
    {BELFRY_REPLY_STATUS, status_message},  {BELFRY_REPLY_MEMBERS, members_message},
    {BELFRY_REPLY_GRANT, grant_message},    {BELFRY_REPLY_KEEPALIVE, grant_message},
    {BELFRY_REPLY_HEADER, compact_message},
};
#define N_KINDS (sizeof(kinds) / sizeof(kinds[0]))

static void same(struct belfry_bytes bytes, const char *expected)
{
    assert_true(belfry_bytes_equal(bytes, belfry_bytes_str(expected)));
}

/* Goes over all that a reply holds, down into transactions; returns how many things there were. */
static size_t walk(const struct belfry_reply *reply)
{
    size_t n = 0, n_kvs = 0;
    const struct belfry_event *kv = NULL;
    const struct belfry_member *member = NULL;
    const struct belfry_bytes *key = NULL;
    const struct belfry_reply *op = NULL;
    const int64_t *lease = NULL;
    while ((kv = belfry_reply_kv(reply, kv)) != NULL)
        n_kvs++;
    assert_int_equal(n_kvs, reply->n_kvs);
    while ((member = belfry_reply_member(reply, member)) != NULL)
        n += 1 + strlen(member->name);
    while ((key = belfry_reply_key(reply, key)) != NULL)
        n++;
    while ((lease = belfry_reply_lease(reply, lease)) != NULL)
        n++;
    while ((op = belfry_reply_op(reply, op)) != NULL)
        n += 1 + walk(op);
    return n + n_kvs;
}

static void key_values_are_read(void **state)
{
    struct belfry_reply_view view;
    (void)state;
    assert_int_equal(belfry_reply_init(&view, BELFRY_REPLY_RANGE, range_message()), BELFRY_OK);
    const struct belfry_reply *r = &view.reply;
    assert_true(r->n_kvs == 2 && r->count == 500 && r->more == 1);
    assert_true(r->header.cluster_id == UINT64_MAX && r->header.revision == 77 && r->header.raft_term == 4);
    for (int i = 0; i < 2; i++) { /* the walk can begin again */
        const struct belfry_event *kv = belfry_reply_kv(r, NULL);
        same(kv->key, "k1");
        same(kv->value, "v1");
        assert_true(kv->op == BELFRY_PUT && kv->create_rev == 5 && kv->mod_rev == 6 && kv->version == 2);
        assert_true(kv->lease == 9 && kv->prev.data == NULL && kv->raw.len > 0);
        kv = belfry_reply_kv(r, kv);
        same(kv->key, "k2");
        assert_null(belfry_reply_kv(r, kv));
    }
    belfry_reply_fini(&view);
    assert_int_equal(belfry_reply_init(&view, BELFRY_REPLY_PUT, put_message()), BELFRY_OK);
    assert_int_equal(walk(&view.reply), 1);
    belfry_reply_fini(&view);
    assert_int_equal(belfry_reply_init(&view, BELFRY_REPLY_DELETE, delete_message()), BELFRY_OK);
    assert_true(view.reply.deleted == 2 && walk(&view.reply) == 2);
    belfry_reply_fini(&view);
}

static void answers_inside_a_transaction_are_read(void **state)
{
    struct belfry_reply_view view;
    (void)state;
    assert_int_equal(belfry_reply_init(&view, BELFRY_REPLY_TXN, nested_message()), BELFRY_OK);
    assert_int_equal(view.reply.succeeded, 1);
    const struct belfry_reply *op = belfry_reply_op(&view.reply, NULL);
    assert_int_equal(op->n_kvs, 2);
    op = belfry_reply_op(&view.reply, op);
    assert_int_equal(op->n_kvs, 1);
    op = belfry_reply_op(&view.reply, op);
    assert_int_equal(op->deleted, 3);
    op = belfry_reply_op(&view.reply, op);
    assert_int_equal(op->succeeded, 0);
    assert_int_equal(belfry_reply_op(op, NULL)->n_kvs, 2);
    assert_null(belfry_reply_op(&view.reply, op));
    belfry_reply_fini(&view);
    assert_int_equal(belfry_reply_init(&view, BELFRY_REPLY_TXN, txn_message(7)), BELFRY_OK);
    belfry_reply_fini(&view);
    assert_int_equal(belfry_reply_init(&view, BELFRY_REPLY_TXN, txn_message(8)), BELFRY_ERR_PROTOCOL);
}

/* An answer of two bytes costs a structure of some hundred: their number is bounded. */
static void answers_inside_a_transaction_are_bounded(void **state)
{
    enum { MANY = 65537 };
    struct belfry_reply_view view;
    (void)state;
    char *message = malloc((size_t)MANY * 4);
    assert_non_null(message);
    for (size_t i = 0; i < MANY; i++)
        memcpy(message + i * 4, "\x1a\x02\x12\x00", 4);
    struct belfry_bytes bytes = belfry_bytes_of(message, (size_t)MANY * 4);
    assert_int_equal(belfry_reply_init(&view, BELFRY_REPLY_TXN, bytes), BELFRY_ERR_PROTOCOL);
    bytes.len -= 4;
    assert_int_equal(belfry_reply_init(&view, BELFRY_REPLY_TXN, bytes), BELFRY_OK);
    assert_int_equal(walk(&view.reply), MANY - 1);
    belfry_reply_fini(&view);
    free(message);
}

static void leases_status_and_members_are_read(void **state)
{
    struct belfry_reply_view view;
    (void)state;
    assert_int_equal(belfry_reply_init(&view, BELFRY_REPLY_TTL, ttl_message()), BELFRY_OK);
    assert_true(view.reply.lease == 12 && view.reply.ttl_s == -1 && view.reply.granted_ttl_s == 60);
    const struct belfry_bytes *key = belfry_reply_key(&view.reply, NULL);
    same(*key, "a");
    key = belfry_reply_key(&view.reply, key);
    assert_int_equal(key->len, 0);
    key = belfry_reply_key(&view.reply, key);
    same(*key, "ccc");
    assert_null(belfry_reply_key(&view.reply, key));
    belfry_reply_fini(&view);

    assert_int_equal(belfry_reply_init(&view, BELFRY_REPLY_LEASES, leases_message()), BELFRY_OK);
    const int64_t *lease = belfry_reply_lease(&view.reply, NULL);
    assert_true(*lease == INT64_MAX);
    lease = belfry_reply_lease(&view.reply, lease);
    assert_true(*lease == 7 && belfry_reply_lease(&view.reply, lease) == NULL);
    belfry_reply_fini(&view);

    assert_int_equal(belfry_reply_init(&view, BELFRY_REPLY_STATUS, status_message()), BELFRY_OK);
    const struct belfry_status *s = view.reply.status;
    assert_string_equal(s->version, "3.5.30");
    assert_true(s->db_size == 4096 && s->db_size_in_use == 1024 && s->leader == 8 && s->raft_index == 9);
    assert_true(s->raft_term == 10 && s->raft_applied_index == 11 && s->is_learner == 1);
    assert_string_equal(s->errors[1], "CORRUPT");
    assert_null(s->errors[2]);
    belfry_reply_fini(&view);

    assert_int_equal(belfry_reply_init(&view, BELFRY_REPLY_MEMBERS, members_message()), BELFRY_OK);
    const struct belfry_member *m = belfry_reply_member(&view.reply, NULL);
    assert_string_equal(m->name, "one");
    assert_string_equal(m->peer_urls[1], "http://b:2");
    assert_null(m->peer_urls[2]);
    assert_string_equal(m->client_urls[0], "http://a:1");
    assert_null(m->client_urls[1]);
    m = belfry_reply_member(&view.reply, m);
    assert_true(m->id == 2 && m->is_learner == 1 && m->peer_urls[0] == NULL && m->client_urls[0] == NULL);
    assert_null(belfry_reply_member(&view.reply, m));
    belfry_reply_fini(&view);
}

static void an_empty_answer_holds_nothing(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_KINDS; i++) {
        struct belfry_reply_view view;
        assert_int_equal(belfry_reply_init(&view, kinds[i].kind, belfry_bytes_of(NULL, 0)), BELFRY_OK);
        assert_int_equal(walk(&view.reply), 0);
        belfry_reply_fini(&view);
        belfry_reply_fini(&view); /* harmless */
    }
}

/* Copies the message to a block of exactly its size, so that a read beyond it fails. A rejected reply owns nothing. */
static void cut_answers_are_refused_or_hold_less(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_KINDS; i++) {
        struct belfry_reply_view view;
        struct belfry_bytes whole = kinds[i].message();
        size_t refused = 0;
        assert_int_equal(belfry_reply_init(&view, kinds[i].kind, whole), BELFRY_OK);
        size_t all = walk(&view.reply);
        belfry_reply_fini(&view);
        for (size_t len = 1; len < whole.len; len++) {
            char *copy = malloc(len);
            assert_non_null(copy);
            memcpy(copy, whole.data, len);
            enum belfry_err err = belfry_reply_init(&view, kinds[i].kind, belfry_bytes_of(copy, len));
            assert_true(err == BELFRY_OK || err == BELFRY_ERR_PROTOCOL);
            size_t held = walk(&view.reply);
            assert_true(err == BELFRY_OK ? held <= all : held == 0);
            refused += err != BELFRY_OK;
            belfry_reply_fini(&view);
            free(copy);
        }
        assert_true(refused > whole.len / 2);
    }
}

static const struct kind *swept;

static enum belfry_err scenario(void)
{
    struct belfry_reply_view view;
    enum belfry_err err = belfry_reply_init(&view, swept->kind, swept->message());
    if (err == BELFRY_OK)
        walk(&view.reply);
    if (err == BELFRY_OK)
        belfry_reply_fini(&view);
    return err;
}

static void refused_memory_leaks_nothing(void **state)
{
    size_t n = 0;
    (void)state;
    for (size_t i = 0; i < N_KINDS; i++) {
        swept = &kinds[i];
        n += refuse_sweep(scenario);
    }
    assert_true(n >= 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(key_values_are_read),
        cmocka_unit_test(answers_inside_a_transaction_are_read),
        cmocka_unit_test(answers_inside_a_transaction_are_bounded),
        cmocka_unit_test(leases_status_and_members_are_read),
        cmocka_unit_test(an_empty_answer_holds_nothing),
        cmocka_unit_test(cut_answers_are_refused_or_hold_less),
        cmocka_unit_test(refused_memory_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
