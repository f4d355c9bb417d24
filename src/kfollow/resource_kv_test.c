/* src/kfollow/resource_kv_test.c */
#include "kfollow/resource_kv.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/refuse.h"

static void version_is_a_positive_decimal_number(void **state)
{
    (void)state;
    static const char *const bad[] = {"",
                                      "0",
                                      "01",
                                      "-1",
                                      "+1",
                                      " 1",
                                      "1 ",
                                      "1x",
                                      "0x10",
                                      "9223372036854775808",
                                      "1.0",
                                      "１",
                                      "99999999999999999999"};
    int64_t rv = 7;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_false(resource_rv_read(belfry_bytes_str(bad[i]), &rv));
    assert_int_equal(rv, 7);
    assert_true(resource_rv_read(belfry_bytes_str("1"), &rv) && rv == 1);
    assert_true(resource_rv_read(belfry_bytes_str("9223372036854775807"), &rv) && rv == INT64_MAX);
}

static const struct resource_object object = {.key = {"ns/a", 4}, .uid = {"u1", 2}, .json = {"{\"a\":1}", 7}, .rv = 12};

static void new_object_is_version_1_of_itself(void **state)
{
    (void)state;
    struct belfry_wire_kv kv = resource_kv_of(&object, NULL);
    assert_int_equal(kv.create_rev, 12);
    assert_int_equal(kv.version, 1);
    assert_true(kv.lease == resource_uid_mark(belfry_bytes_str("u1")) && kv.lease > 0);
    assert_true(resource_uid_mark(belfry_bytes_str("u1")) != resource_uid_mark(belfry_bytes_str("u2")));
}

static void changed_object_counts_on(void **state)
{
    (void)state;
    struct ingest_found before = {.create_rev = 5, .mod_rev = 9, .version = 3};
    struct belfry_wire_kv kv = resource_kv_of(&object, &before);
    assert_int_equal(kv.create_rev, 5);
    assert_int_equal(kv.version, 4);
    assert_int_equal(kv.mod_rev, 12);
}

static void written_event_is_read_as_it_was(void **state)
{
    (void)state;
    struct belfry_buf room = {0};
    struct belfry_wire_event event;
    struct belfry_wire_kv kv = resource_kv_of(&object, NULL), again;
    assert_int_equal(resource_event_write(&kv, false, &room, &event), BELFRY_OK);
    assert_false(event.is_delete);
    assert_true(belfry_bytes_equal(event.kv.value, object.json) && belfry_bytes_equal(event.kv.key, object.key));
    assert_int_equal(resource_event_write(&kv, true, &room, &event), BELFRY_OK);
    assert_true(event.is_delete);
    assert_int_equal(event.kv.value.len, 0);
    assert_int_equal(event.kv.mod_rev, 12);
    assert_true(event.kv.lease == kv.lease);
    assert_int_equal(resource_kv_write(&kv, &room, &again), BELFRY_OK);
    assert_true(belfry_bytes_equal(again.value, object.json) && again.raw.len > 0);
    belfry_buf_fini(&room);
}

static enum belfry_err write_both(void)
{
    struct belfry_buf room = {0};
    struct belfry_wire_event event;
    struct belfry_wire_kv kv = resource_kv_of(&object, NULL), again;
    enum belfry_err err = resource_event_write(&kv, false, &room, &event);
    if (err == BELFRY_OK)
        err = resource_kv_write(&kv, &room, &again);
    belfry_buf_fini(&room);
    return err;
}

static void refused_allocation_is_reported(void **state)
{
    (void)state;
    assert_true(refuse_sweep(write_both) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(version_is_a_positive_decimal_number),
        cmocka_unit_test(new_object_is_version_1_of_itself),
        cmocka_unit_test(changed_object_counts_on),
        cmocka_unit_test(written_event_is_read_as_it_was),
        cmocka_unit_test(refused_allocation_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
