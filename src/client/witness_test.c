/* src/client/witness_test.c */
#include "client/witness.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "support/refuse.h"
#include "wire/write.h"

static struct belfry_wire_event put(const char *key, const char *value, int64_t rev)
{
    return (struct belfry_wire_event){.kv = {.key = belfry_bytes_str(key),
                                             .value = belfry_bytes_str(value),
                                             .create_rev = 2,
                                             .mod_rev = rev,
                                             .version = rev - 1}};
}

/* A RangeResponse that holds `kv`, or nothing. */
static struct belfry_bytes response(const struct belfry_wire_kv *kv, uint8_t buffer[256])
{
    if (kv == NULL)
        return belfry_bytes_of(buffer, 0);
    size_t len = belfry_write_kv_size(kv);
    assert_true(len < 120);
    buffer[0] = BELFRY_RANGE_KVS << 3 | 2;
    buffer[1] = (uint8_t)len;
    belfry_write_kv(kv, buffer + 2);
    return belfry_bytes_of(buffer, len + 2);
}

static void same_put_does_not_contradict(void **state)
{
    (void)state;
    struct belfry_witness witness;
    uint8_t buffer[256];
    belfry_witness_init(&witness);
    struct belfry_wire_event event = put("/a", "one", 7);
    belfry_witness_note(&witness, &event);
    assert_int_equal(witness.rev, 7);
    assert_true(belfry_bytes_equal(belfry_buf_bytes(&witness.key), belfry_bytes_str("/a")));
    assert_false(belfry_witness_contradicts(&witness, response(&event.kv, buffer)));
    belfry_witness_fini(&witness);
}

static void every_difference_contradicts(void **state)
{
    (void)state;
    struct belfry_witness witness;
    uint8_t buffer[256];
    belfry_witness_init(&witness);
    struct belfry_wire_event event = put("/a", "one", 7);
    belfry_witness_note(&witness, &event);
    assert_true(belfry_witness_contradicts(&witness, response(NULL, buffer)));
    struct belfry_wire_kv others[5];
    for (size_t i = 0; i < 5; i++)
        others[i] = event.kv;
    others[0].mod_rev = 6;
    others[1].create_rev = 3;
    others[2].version = 9;
    others[3].value = belfry_bytes_str("on");
    others[4].value = belfry_bytes_str("two");
    for (size_t i = 0; i < 5; i++)
        assert_true(belfry_witness_contradicts(&witness, response(&others[i], buffer)));
    belfry_witness_fini(&witness);
}

static void a_put_that_its_own_revision_deletes_is_no_evidence(void **state)
{
    (void)state;
    struct belfry_witness witness;
    belfry_witness_init(&witness);
    struct belfry_wire_event put_a = put("/a", "one", 7), put_b = put("/b", "one", 7);
    struct belfry_wire_event gone = {.is_delete = true, .kv = {.key = belfry_bytes_str("/a"), .mod_rev = 7}};
    belfry_witness_note(&witness, &put_a);
    belfry_witness_note(&witness, &gone);
    assert_int_equal(witness.rev, 0);
    belfry_witness_note(&witness, &put_b);
    assert_int_equal(witness.rev, 7);
    belfry_witness_note(&witness, &gone); /* not of that key */
    gone.kv.mod_rev = 8;
    gone.kv.key = belfry_bytes_str("/b"); /* not in that revision: at 7 it was there */
    belfry_witness_note(&witness, &gone);
    assert_int_equal(witness.rev, 7);
    belfry_witness_fini(&witness);
}

static void unreadable_answer_is_no_evidence(void **state)
{
    (void)state;
    struct belfry_witness witness;
    uint8_t buffer[256];
    belfry_witness_init(&witness);
    struct belfry_wire_event event = put("/a", "one", 7);
    belfry_witness_note(&witness, &event);
    struct belfry_bytes bytes = response(&event.kv, buffer);
    bytes.len--;
    assert_false(belfry_witness_contradicts(&witness, bytes));
    belfry_witness_fini(&witness);
}

static void only_newer_puts_are_kept(void **state)
{
    (void)state;
    struct belfry_witness witness;
    belfry_witness_init(&witness);
    struct belfry_wire_event first = put("/a", "one", 7), older = put("/b", "two", 6), gone = put("/c", "", 9);
    gone.is_delete = true;
    belfry_witness_note(&witness, &first);
    belfry_witness_note(&witness, &older);
    belfry_witness_note(&witness, &gone);
    assert_int_equal(witness.rev, 7);
    belfry_witness_forget(&witness);
    belfry_witness_note(&witness, &older);
    assert_int_equal(witness.rev, 6);
    assert_true(belfry_bytes_equal(belfry_buf_bytes(&witness.key), belfry_bytes_str("/b")));
    belfry_witness_fini(&witness);
}

static enum belfry_err scenario(void)
{
    struct belfry_witness witness;
    belfry_witness_init(&witness);
    struct belfry_wire_event event = put("/a", "one", 7);
    belfry_witness_note(&witness, &event);
    enum belfry_err err = witness.rev == 7 ? BELFRY_OK : BELFRY_ERR_NOMEM;
    belfry_witness_fini(&witness);
    return err;
}

static void refused_memory_keeps_nothing(void **state)
{
    (void)state;
    assert_true(refuse_sweep(scenario) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_put_does_not_contradict),
        cmocka_unit_test(every_difference_contradicts),
        cmocka_unit_test(a_put_that_its_own_revision_deletes_is_no_evidence),
        cmocka_unit_test(unreadable_answer_is_no_evidence),
        cmocka_unit_test(only_newer_puts_are_kept),
        cmocka_unit_test(refused_memory_keeps_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
