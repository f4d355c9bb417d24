/* src/serve/relay/relay_guard_test.c: messages whole and cut, in all the ways in which etcd would read them. */
#include "serve/relay/relay_guard.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "net/gzip.h"
#include "support/gzipped.h"

/* ---- messages ---- */

static struct belfry_buf message(const void *data, size_t len)
{
    struct belfry_buf buf;
    belfry_buf_init(&buf);
    assert_int_equal(belfry_buf_append(&buf, data, len), BELFRY_OK);
    return buf;
}
#define MESSAGE(...) message((const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__}))

/* The same as a field of another message. */
static void put_in(struct belfry_buf *inner, uint8_t number)
{
    struct belfry_bytes bytes = belfry_buf_bytes(inner);
    uint8_t head[8] = {(uint8_t)(number << 3 | 2)};
    size_t n = 1;
    for (size_t len = bytes.len; n == 1 || len > 0; len >>= 7)
        head[n++] = (uint8_t)((len & 0x7f) | (len > 0x7f ? 0x80 : 0));
    struct belfry_buf outer = message(head, n);
    if (bytes.len > 0)
        assert_int_equal(belfry_buf_append(&outer, bytes.data, bytes.len), BELFRY_OK);
    belfry_buf_fini(inner);
    *inner = outer;
}

static void add(struct belfry_buf *to, struct belfry_buf more)
{
    struct belfry_bytes bytes = belfry_buf_bytes(&more);
    assert_int_equal(belfry_buf_append(to, bytes.data, bytes.len), BELFRY_OK);
    belfry_buf_fini(&more);
}

/* An operation of a Txn. */
static struct belfry_buf operation(struct belfry_buf request, uint8_t kind, uint8_t branch)
{
    put_in(&request, kind);
    put_in(&request, branch);
    return request;
}

/* A Range of the key "k", by a sort target. */
static struct belfry_buf range(uint8_t sort_target)
{
    return MESSAGE(0x0a, 1, 'k', 0x30, sort_target, 0x38, 1);
}

/* ---- verdicts ---- */

/* Of a body in pieces of so many bytes, which must be the same for all. */
static enum relay_guard_verdict cut(enum relay_guard_kind kind, struct belfry_bytes body, size_t piece)
{
    struct relay_guard guard;
    enum relay_guard_verdict verdict = RELAY_GUARD_HARMLESS;
    relay_guard_init(&guard, kind, true);
    for (size_t at = 0; at < body.len && verdict == RELAY_GUARD_HARMLESS; at += piece) {
        size_t n = body.len - at < piece ? body.len - at : piece;
        verdict = relay_guard_pass(&guard, belfry_bytes_of(body.data + at, n));
    }
    relay_guard_fini(&guard);
    return verdict;
}

/* Of a message, whole or cut. flag: 1 if it is compressed. */
static enum relay_guard_verdict framed(enum relay_guard_kind kind, uint8_t flag, struct belfry_bytes bytes)
{
    uint8_t prefix[BELFRY_GRPC_PREFIX_BYTES];
    belfry_grpc_frame_prefix(prefix, bytes.len);
    prefix[0] = flag;
    struct belfry_buf body = message(prefix, sizeof(prefix));
    add(&body, message(bytes.data, bytes.len));
    bytes = belfry_buf_bytes(&body);
    enum relay_guard_verdict whole = cut(kind, bytes, bytes.len);
    for (size_t piece = 1; piece <= 7; piece++)
        assert_int_equal(cut(kind, bytes, piece), whole);
    belfry_buf_fini(&body);
    return whole;
}

/* The same if it is compressed. */
static enum relay_guard_verdict verdict_of(enum relay_guard_kind kind, struct belfry_buf request)
{
    static uint8_t packed[200000];
    struct belfry_bytes bytes = belfry_buf_bytes(&request);
    enum relay_guard_verdict verdict = framed(kind, 0, bytes);
    size_t n = gzipped(bytes.data, bytes.len, 0, packed, sizeof(packed));
    assert_int_equal(framed(kind, 1, belfry_bytes_of(packed, n)), verdict);
    belfry_buf_fini(&request);
    return verdict;
}

static void expect_txn(struct belfry_buf request, enum relay_guard_verdict verdict)
{
    assert_int_equal(verdict_of(RELAY_GUARD_TXN, request), verdict);
}

static void expect_range(struct belfry_buf request, enum relay_guard_verdict verdict)
{
    assert_int_equal(verdict_of(RELAY_GUARD_RANGE, request), verdict);
}

/* ---- tests ---- */

static void six_methods_can_do_harm(void **state)
{
    (void)state;
    enum relay_guard_kind kind;
    assert_true(relay_guard_is(belfry_bytes_str("/etcdserverpb.KV/Txn"), &kind) && kind == RELAY_GUARD_TXN);
    assert_true(relay_guard_is(belfry_bytes_str("/etcdserverpb.KV/Range"), &kind) && kind == RELAY_GUARD_RANGE);
    assert_true(relay_guard_is(belfry_bytes_str("/etcdserverpb.KV/RangeStream"), &kind) && kind == RELAY_GUARD_RANGE);
    assert_true(relay_guard_is(belfry_bytes_str("/etcdserverpb.Maintenance/Alarm"), &kind) &&
                kind == RELAY_GUARD_ALARM);
    assert_true(relay_guard_is(belfry_bytes_str("/etcdserverpb.Auth/UserAdd"), &kind) && kind == RELAY_GUARD_NAME);
    assert_true(relay_guard_is(belfry_bytes_str("/etcdserverpb.Auth/RoleAdd"), &kind) && kind == RELAY_GUARD_NAME);
    assert_false(relay_guard_is(belfry_bytes_str("/etcdserverpb.KV/Put"), &kind));
}

static void a_sort_target_that_does_not_exist_kills(void **state)
{
    (void)state;
    for (uint8_t target = 0; target < 8; target++)
        expect_range(range(target), target > 4 ? RELAY_GUARD_KILLS : RELAY_GUARD_HARMLESS);
    expect_range(MESSAGE(0x30, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1), RELAY_GUARD_KILLS); /* -1 */
    expect_range(MESSAGE(0x30, 5, 0x30, 1), RELAY_GUARD_HARMLESS); /* the last one counts */
    expect_range(MESSAGE(0x30, 1, 0x30, 5), RELAY_GUARD_KILLS);
    expect_range(MESSAGE(0x0a, 2, 0x30, 5), RELAY_GUARD_HARMLESS); /* in a key */
    expect_range(message("", 0), RELAY_GUARD_HARMLESS);
}

static void it_is_found_in_either_branch_and_behind_anything(void **state)
{
    (void)state;
    static uint8_t large[100000];
    for (uint8_t branch = 2; branch <= 3; branch++) {
        expect_txn(operation(range(4), 1, branch), RELAY_GUARD_HARMLESS);
        expect_txn(operation(range(5), 1, branch), RELAY_GUARD_KILLS);
        struct belfry_buf request = MESSAGE(0x0a, 3, 0x1a, 1, 'c'); /* a comparison */
        add(&request, operation(message(large, sizeof(large)), 2, 2));
        add(&request, operation(range(1), 1, 2));
        add(&request, operation(range(5), 1, branch));
        add(&request, operation(range(1), 1, 3));
        expect_txn(request, RELAY_GUARD_KILLS);
    }
    expect_txn(operation(range(5), 2, 2), RELAY_GUARD_HARMLESS); /* a put with the same bytes */
    expect_txn(operation(range(5), 3, 2), RELAY_GUARD_HARMLESS);
    expect_txn(operation(range(5), 1, 1), RELAY_GUARD_HARMLESS); /* a comparison */
    expect_txn(range(5), RELAY_GUARD_HARMLESS);
}

static struct belfry_buf nested(size_t n_txns)
{
    struct belfry_buf request = operation(range(5), 1, 2);
    for (size_t i = 1; i < n_txns; i++)
        request = operation(request, 4, i % 2 == 0 ? 2 : 3);
    return request;
}

/* ---- what a Txn deletes, and needs ---- */

static struct belfry_buf named(uint8_t field, const char *text, size_t len)
{
    struct belfry_buf name = message(text, len);
    put_in(&name, field);
    return name;
}

/* An operation: all keys from this one on are deleted. */
static struct belfry_buf delete_from(const char *key, uint8_t branch)
{
    struct belfry_buf request = named(1, key, strlen(key));
    add(&request, named(2, "", 1));
    return operation(request, 3, branch);
}

/* Its value is left as it is. */
static struct belfry_buf touch(const char *key, uint8_t branch)
{
    struct belfry_buf request = named(1, key, strlen(key));
    add(&request, MESSAGE(0x28, 1));
    return operation(request, 2, branch);
}

static struct belfry_buf both(struct belfry_buf first, struct belfry_buf second)
{
    add(&first, second);
    return first;
}

static struct belfry_buf in_a_txn(struct belfry_buf operations, uint8_t branch)
{
    return operation(operations, 4, branch);
}

#define YES 2 /* fields of a Txn */
#define NO  3

static void a_put_that_needs_what_its_txn_deletes_kills(void **state)
{
    (void)state;
    expect_txn(both(delete_from("b", YES), touch("bb", YES)), RELAY_GUARD_DELETED);
    expect_txn(both(delete_from("b", NO), touch("b", NO)), RELAY_GUARD_DELETED);
    expect_txn(both(delete_from("c", YES), touch("bb", YES)), RELAY_GUARD_HARMLESS);
    expect_txn(both(touch("bb", YES), delete_from("b", YES)), RELAY_GUARD_HARMLESS);
    expect_txn(both(delete_from("b", YES), touch("bb", NO)), RELAY_GUARD_HARMLESS); /* one of them is carried out */
    expect_txn(both(both(delete_from("x", YES), delete_from("b", YES)), touch("c", YES)), RELAY_GUARD_DELETED);
    expect_txn(both(both(delete_from("b", YES), delete_from("x", YES)), touch("c", YES)), RELAY_GUARD_DELETED);
}

static void only_deletes_without_an_end_and_puts_without_a_value_or_a_lease_count(void **state)
{
    (void)state;
    static const uint8_t ends[][4] = {{0x12, 1, 0}, {0x12, 0}, {0x12, 1, 'c'}, {0x12, 2, 0, 0}, {0x12, 1, 0}};
    static const size_t lens[] = {3, 2, 3, 4, 3};
    for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
        struct belfry_buf request = named(1, "b", 1);
        add(&request, message(ends[i], lens[i]));
        request = both(operation(request, 3, YES), touch("bb", YES));
        expect_txn(request, lens[i] == 3 && ends[i][2] == 0 ? RELAY_GUARD_DELETED : RELAY_GUARD_HARMLESS);
    }
    for (uint8_t field = 3; field <= 8; field++) {
        for (uint8_t is = 0; is <= 1; is++) {
            struct belfry_buf put = named(1, "bb", 2);
            add(&put, MESSAGE((uint8_t)(field << 3), is));
            bool kills = (field == 5 || field == 6) && is;
            expect_txn(both(delete_from("b", YES), operation(put, 2, YES)),
                       kills ? RELAY_GUARD_DELETED : RELAY_GUARD_HARMLESS);
        }
    }
}

static void what_comes_last_in_an_operation_counts(void **state)
{
    (void)state;
    struct belfry_buf request = named(2, "", 1);
    add(&request, named(1, "z", 1));
    add(&request, named(1, "b", 1)); /* the key is b, and behind the end */
    expect_txn(both(operation(request, 3, YES), touch("c", YES)), RELAY_GUARD_DELETED);
    request = MESSAGE(0x28, 1, 0x28, 0, 0x0a, 1, 'c'); /* not ignored after all */
    expect_txn(both(delete_from("b", YES), operation(request, 2, YES)), RELAY_GUARD_HARMLESS);
    request = MESSAGE(0x30, 0x80, 0x80, 0x80, 0x80, 0x10, 0x0a, 1, 'c'); /* 2^32 is true */
    expect_txn(both(delete_from("b", YES), operation(request, 2, YES)), RELAY_GUARD_DELETED);
    request = MESSAGE(0x7b, 0x28, 1, 0x0a, 1, 'c', 0x7c, 0x0a, 1, 'c'); /* in a group, which is unknown */
    expect_txn(both(delete_from("b", YES), operation(request, 2, YES)), RELAY_GUARD_HARMLESS);
}

static void txns_in_txns_delete_for_what_follows_them(void **state)
{
    (void)state;
    expect_txn(both(delete_from("b", YES), in_a_txn(touch("bb", NO), YES)), RELAY_GUARD_DELETED);
    expect_txn(both(delete_from("b", YES), in_a_txn(touch("bb", NO), NO)), RELAY_GUARD_HARMLESS);
    expect_txn(both(in_a_txn(delete_from("b", NO), YES), touch("bb", YES)), RELAY_GUARD_DELETED);
    expect_txn(both(in_a_txn(delete_from("b", YES), NO), touch("bb", YES)), RELAY_GUARD_HARMLESS);
    expect_txn(in_a_txn(both(delete_from("b", YES), touch("bb", NO)), YES), RELAY_GUARD_HARMLESS);
    expect_txn(both(in_a_txn(delete_from("b", YES), NO), in_a_txn(in_a_txn(touch("bb", YES), YES), NO)),
               RELAY_GUARD_DELETED);
    struct belfry_buf deep = touch("bb", NO);
    for (int i = 0; i < 40; i++)
        deep = in_a_txn(both(delete_from("c", YES), deep), NO);
    expect_txn(both(delete_from("b", NO), deep), RELAY_GUARD_DELETED);
}

static void long_keys_that_begin_alike_are_the_same(void **state)
{
    (void)state;
    char text[RELAY_GUARD_KEY_BYTES + 2], lower[RELAY_GUARD_KEY_BYTES + 2];
    memset(text, 'k', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    memcpy(lower, text, sizeof(lower));
    lower[RELAY_GUARD_KEY_BYTES] = 'a'; /* lower, but behind what is kept */
    expect_txn(both(delete_from(text, YES), touch(lower, YES)), RELAY_GUARD_DELETED);
    lower[RELAY_GUARD_KEY_BYTES - 1] = 'a';
    expect_txn(both(delete_from(text, YES), touch(lower, YES)), RELAY_GUARD_HARMLESS);
}

static void txns_that_are_complete_have_deleted_the_lowest_key_of_both_branches(void **state)
{
    (void)state;
    /* in the failure: from x on; in its Txn from m on, or from b on */
    static const struct {
        const char *key;
        uint8_t branch;
        bool is_deleted;
    } cases[] = {{"c", NO, true}, {"b", NO, true}, {"a", NO, false}, {"z", YES, false}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct belfry_buf inner = in_a_txn(both(delete_from("m", YES), delete_from("b", NO)), NO);
        struct belfry_buf deleted = both(both(delete_from("x", NO), inner), in_a_txn(delete_from("y", YES), NO));
        expect_txn(both(deleted, touch(cases[i].key, cases[i].branch)),
                   cases[i].is_deleted ? RELAY_GUARD_DELETED : RELAY_GUARD_HARMLESS);
    }
}

/* What a guard holds before the last byte of a Txn, and the most before any. Nothing is held after the last one. */
static size_t held_before_the_end(struct belfry_buf request, size_t *out_most)
{
    struct belfry_bytes bytes = belfry_buf_bytes(&request);
    uint8_t prefix[BELFRY_GRPC_PREFIX_BYTES];
    struct relay_guard guard;
    size_t held = 0, most = 0;
    belfry_grpc_frame_prefix(prefix, bytes.len);
    relay_guard_init(&guard, RELAY_GUARD_TXN, false);
    assert_int_equal(relay_guard_pass(&guard, belfry_bytes_of(prefix, sizeof(prefix))), RELAY_GUARD_HARMLESS);
    assert_int_equal(relay_guard_bytes(&guard), 0);
    for (size_t i = 0; i < bytes.len; i++) {
        held = relay_guard_bytes(&guard);
        most = held > most ? held : most;
        assert_int_equal(relay_guard_pass(&guard, belfry_bytes_of(bytes.data + i, 1)), RELAY_GUARD_HARMLESS);
    }
    assert_int_equal(relay_guard_bytes(&guard), 0);
    relay_guard_fini(&guard);
    belfry_buf_fini(&request);
    *out_most = most;
    return held;
}

/* With so many keys. */
static size_t cost_of(size_t n_keys)
{
    return sizeof(struct relay_guard_writes) + n_keys * sizeof(struct relay_guard_key);
}

/* As deep as deletes may be, with one in either branch of each Txn. */
static void what_deletes_hold_is_bounded(void **state)
{
    (void)state;
    size_t most;
    struct belfry_buf request = both(delete_from("m", YES), delete_from("m", NO));
    for (int i = 1; i < RELAY_GUARD_LEVELS - 1; i++)
        request = both(both(delete_from("m", YES), delete_from("m", NO)), in_a_txn(request, NO));
    held_before_the_end(request, &most);
    assert_in_range(most, (2 * RELAY_GUARD_LEVELS - 2) * sizeof(struct relay_guard_key), 55000);
}

static void deletes_cost_memory_that_is_counted(void **state)
{
    (void)state;
    size_t most;
    struct belfry_buf request = both(delete_from("b", YES), both(delete_from("c", NO), touch("a", YES)));
    assert_int_equal(held_before_the_end(request, &most), cost_of(2));
    assert_int_equal(most, cost_of(2));
}

static void txns_that_are_complete_leave_one_key_however_many_they_are(void **state)
{
    (void)state;
    size_t most;
    struct belfry_buf request = delete_from("x", NO);
    for (int i = 0; i < 5; i++) {
        struct belfry_buf deleted = both(delete_from("m", YES), delete_from("b", NO));
        request = both(request, in_a_txn(both(deleted, touch("a", NO)), NO));
    }
    assert_int_equal(held_before_the_end(both(request, touch("a", NO)), &most), cost_of(1));
    assert_int_equal(most, cost_of(3)); /* with both of a Txn that is open */

    request = in_a_txn(delete_from("b", YES), NO); /* the outer one has deleted nothing itself */
    assert_int_equal(held_before_the_end(both(request, touch("a", NO)), &most), cost_of(1));
}

static void expect_alarm(struct belfry_buf request, enum relay_guard_verdict verdict)
{
    assert_int_equal(verdict_of(RELAY_GUARD_ALARM, request), verdict);
}

static void alarms_and_actions_that_do_not_exist_kill(void **state)
{
    (void)state;
    expect_alarm(message("", 0), RELAY_GUARD_HARMLESS);                     /* get */
    expect_alarm(MESSAGE(0x08, 1, 0x18, 1), RELAY_GUARD_HARMLESS);          /* activate NOSPACE */
    expect_alarm(MESSAGE(0x10, 7, 0x18, 2, 0x08, 1), RELAY_GUARD_HARMLESS); /* CORRUPT, of a member */
    expect_alarm(MESSAGE(0x08, 2, 0x18, 99), RELAY_GUARD_HARMLESS);         /* deactivate */
    expect_alarm(MESSAGE(0x18, 99), RELAY_GUARD_HARMLESS);                  /* get */
    expect_alarm(MESSAGE(0x08, 1), RELAY_GUARD_HARMLESS);                   /* activate none */
    expect_alarm(MESSAGE(0x08, 1, 0x18, 3), RELAY_GUARD_ALARMS);
    expect_alarm(MESSAGE(0x08, 3), RELAY_GUARD_ALARMS);
    expect_alarm(MESSAGE(0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1), RELAY_GUARD_ALARMS); /* -1 */
    expect_alarm(MESSAGE(0x30, 5), RELAY_GUARD_HARMLESS); /* what kills as a Range */
}

static void names_that_bbolt_does_not_take_kill(void **state)
{
    (void)state;
    static char name[32769];
    memset(name, 'n', sizeof(name));
    assert_int_equal(verdict_of(RELAY_GUARD_NAME, named(1, name, 32768)), RELAY_GUARD_HARMLESS);
    assert_int_equal(verdict_of(RELAY_GUARD_NAME, named(1, name, 32769)), RELAY_GUARD_LONG_NAME);
    assert_int_equal(verdict_of(RELAY_GUARD_NAME, named(2, name, 32769)), RELAY_GUARD_HARMLESS); /* a password */
    assert_int_equal(verdict_of(RELAY_GUARD_NAME, both(named(2, "p", 1), named(1, name, 32769))),
                     RELAY_GUARD_LONG_NAME);
}

static void depth_is_bounded(void **state)
{
    (void)state;
    const size_t most = RELAY_GUARD_DEPTH / 2 - 1; /* a Txn and an operation each, and the Range */
    expect_txn(nested(2), RELAY_GUARD_KILLS);
    expect_txn(nested(most), RELAY_GUARD_KILLS);
    expect_txn(nested(most + 2), RELAY_GUARD_TOO_DEEP);
    expect_txn(nested(200), RELAY_GUARD_TOO_DEEP);
}

/* What scan.h rejects and etcd does not. */
static void messages_are_read_as_loosely_as_etcd_reads_them(void **state)
{
    (void)state;
    expect_range(MESSAGE(0x7b, 0x30, 1, 0x7c, 0x30, 5), RELAY_GUARD_KILLS); /* an unknown group before it */
    expect_range(MESSAGE(0x30, 5, 0x7b, 0x30, 1, 0x7c), RELAY_GUARD_KILLS); /* and after: it is not in there */
    expect_range(MESSAGE(0x7b, 0x83, 1, 0x84, 1, 0x0a, 1, 'k', 0x7c, 0x30, 5), RELAY_GUARD_KILLS);
    expect_range(MESSAGE(0x30, 0x85, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x7e), RELAY_GUARD_KILLS);
    expect_range(MESSAGE(0xb0, 0x80, 0x80, 0x80, 0x80, 0x08, 5), RELAY_GUARD_KILLS); /* field 6 and 2^32 */
    expect_range(MESSAGE(0xb0, 0x00, 5), RELAY_GUARD_KILLS);                         /* a tag of two bytes */
    expect_range(MESSAGE(0x79, 0, 0, 0, 0, 0, 0, 0, 0, 0x7d, 0, 0, 0, 0, 0x30, 5), RELAY_GUARD_KILLS); /* fixed */
}

/* etcd refuses these itself. */
static void malformed_messages_are_harmless(void **state)
{
    (void)state;
    expect_range(MESSAGE(0x30), RELAY_GUARD_HARMLESS);
    expect_range(MESSAGE(0x30, 5, 0x0a), RELAY_GUARD_HARMLESS);
    expect_range(MESSAGE(0x30, 5, 0x0a, 2, 'k'), RELAY_GUARD_HARMLESS);
    expect_range(MESSAGE(0x30, 5, 0x7b), RELAY_GUARD_HARMLESS);
    expect_range(MESSAGE(0x7c, 0x30, 5), RELAY_GUARD_HARMLESS);
    expect_range(MESSAGE(0x7e, 0x30, 5), RELAY_GUARD_HARMLESS);
    expect_range(MESSAGE(0x30, 5, 0x79, 0), RELAY_GUARD_HARMLESS);
    expect_range(MESSAGE(0x30, 0x85, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0), RELAY_GUARD_HARMLESS);
    expect_txn(MESSAGE(0x12, 4, 0x0a, 3, 0x30, 5), RELAY_GUARD_HARMLESS); /* a Range that is longer than all */
}

static void only_the_first_message_is_looked_at(void **state)
{
    (void)state;
    static const uint8_t two[] = {0, 0, 0, 0, 2, 0x30, 1, 0, 0, 0, 0, 2, 0x30, 5};
    static const uint8_t flagged[] = {2, 0, 0, 0, 2, 0x30, 5}; /* no server of gRPC takes this flag */
    assert_int_equal(cut(RELAY_GUARD_RANGE, belfry_bytes_of(two, sizeof(two)), 3), RELAY_GUARD_HARMLESS);
    assert_int_equal(cut(RELAY_GUARD_RANGE, belfry_bytes_of(flagged, sizeof(flagged)), 3), RELAY_GUARD_HARMLESS);
}

static void what_cannot_be_unpacked_is_refused(void **state)
{
    (void)state;
    static uint8_t plain[BELFRY_GZIP_ANY + 3], packed[2 * BELFRY_GZIP_ANY];
    const size_t most = BELFRY_GZIP_ANY;
    assert_int_equal(framed(RELAY_GUARD_RANGE, 1, belfry_bytes_str("")), RELAY_GUARD_UNREADABLE);
    assert_int_equal(framed(RELAY_GUARD_RANGE, 1, belfry_bytes_str("no gzip")), RELAY_GUARD_UNREADABLE);
    size_t n = gzipped("\x30\x01", 2, 9, packed, sizeof(packed));
    assert_int_equal(framed(RELAY_GUARD_RANGE, 1, belfry_bytes_of(packed, n)), RELAY_GUARD_HARMLESS);
    assert_int_equal(framed(RELAY_GUARD_RANGE, 1, belfry_bytes_of(packed, n - 1)), RELAY_GUARD_UNREADABLE);
    packed[n - 5] ^= 1; /* the checksum */
    assert_int_equal(framed(RELAY_GUARD_RANGE, 1, belfry_bytes_of(packed, n)), RELAY_GUARD_UNREADABLE);

    plain[0] = 0x0a; /* a key of zeros */
    for (unsigned i = 0; i < 3; i++)
        plain[1 + i] = (uint8_t)(((most - 4) >> (7 * i) & 0x7f) | (i < 2 ? 0x80 : 0));
    n = gzipped(plain, most, 9, packed, sizeof(packed));
    assert_int_equal(framed(RELAY_GUARD_RANGE, 1, belfry_bytes_of(packed, n)), RELAY_GUARD_HARMLESS);
    n = gzipped(plain, most + 1, 9, packed, sizeof(packed));
    assert_int_equal(framed(RELAY_GUARD_RANGE, 1, belfry_bytes_of(packed, n)), RELAY_GUARD_TOO_LARGE);
}

static void what_is_compressed_by_something_else_is_passed_on(void **state)
{
    (void)state;
    static const uint8_t body[] = {1, 0, 0, 0, 2, 0x30, 5};
    struct relay_guard guard;
    relay_guard_init(&guard, RELAY_GUARD_RANGE, false);
    assert_int_equal(relay_guard_pass(&guard, belfry_bytes_of(body, sizeof(body))), RELAY_GUARD_HARMLESS);
    relay_guard_fini(&guard);
}

/* While it comes in, and no longer. */
static void a_compressed_message_costs_memory_that_is_counted(void **state)
{
    (void)state;
    uint8_t body[64] = {1};
    size_t n = gzipped("\x30\x05", 2, 9, body + 5, sizeof(body) - 5);
    struct relay_guard guard;
    body[4] = (uint8_t)n;
    relay_guard_init(&guard, RELAY_GUARD_RANGE, true);
    assert_int_equal(relay_guard_pass(&guard, belfry_bytes_of(body, 5 + n - 1)), RELAY_GUARD_HARMLESS);
    assert_int_equal(relay_guard_bytes(&guard), BELFRY_GUNZIP_BYTES);
    assert_int_equal(relay_guard_pass(&guard, belfry_bytes_of(body + 5 + n - 1, 1)), RELAY_GUARD_KILLS);
    assert_int_equal(relay_guard_bytes(&guard), 0);
    relay_guard_fini(&guard);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(six_methods_can_do_harm),
        cmocka_unit_test(a_sort_target_that_does_not_exist_kills),
        cmocka_unit_test(it_is_found_in_either_branch_and_behind_anything),
        cmocka_unit_test(a_put_that_needs_what_its_txn_deletes_kills),
        cmocka_unit_test(only_deletes_without_an_end_and_puts_without_a_value_or_a_lease_count),
        cmocka_unit_test(what_comes_last_in_an_operation_counts),
        cmocka_unit_test(txns_in_txns_delete_for_what_follows_them),
        cmocka_unit_test(long_keys_that_begin_alike_are_the_same),
        cmocka_unit_test(txns_that_are_complete_have_deleted_the_lowest_key_of_both_branches),
        cmocka_unit_test(what_deletes_hold_is_bounded),
        cmocka_unit_test(deletes_cost_memory_that_is_counted),
        cmocka_unit_test(txns_that_are_complete_leave_one_key_however_many_they_are),
        cmocka_unit_test(alarms_and_actions_that_do_not_exist_kill),
        cmocka_unit_test(names_that_bbolt_does_not_take_kill),
        cmocka_unit_test(depth_is_bounded),
        cmocka_unit_test(messages_are_read_as_loosely_as_etcd_reads_them),
        cmocka_unit_test(malformed_messages_are_harmless),
        cmocka_unit_test(only_the_first_message_is_looked_at),
        cmocka_unit_test(what_cannot_be_unpacked_is_refused),
        cmocka_unit_test(what_is_compressed_by_something_else_is_passed_on),
        cmocka_unit_test(a_compressed_message_costs_memory_that_is_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
