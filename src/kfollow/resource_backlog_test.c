/* src/kfollow/resource_backlog_test.c */
#include "kfollow/resource_backlog.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/refuse.h"

static struct resource_object object_of(int64_t rv, struct belfry_bytes json)
{
    return (struct resource_object){
        .key = belfry_bytes_str("ns/a"), .uid = belfry_bytes_str("u1"), .json = json, .rv = rv};
}

static void events_leave_in_the_order_they_came(void **state)
{
    (void)state;
    struct resource_backlog backlog;
    char text[] = "{}";
    resource_backlog_init(&backlog);
    for (int64_t rv = 1; rv <= 3; rv++) {
        struct resource_object object = object_of(rv, belfry_bytes_str(text));
        assert_int_equal(resource_backlog_add(&backlog, RESOURCE_MODIFIED, &object), BELFRY_OK);
    }
    memset(text, 'x', 2); /* they are copies */
    for (int64_t rv = 1; rv <= 3; rv++) {
        const struct resource_event *event = resource_backlog_first(&backlog);
        assert_int_equal(event->object.rv, rv);
        assert_int_equal(event->change, RESOURCE_MODIFIED);
        assert_true(belfry_bytes_equal(event->object.json, belfry_bytes_str("{}")));
        resource_backlog_drop_first(&backlog);
    }
    assert_true(resource_backlog_is_empty(&backlog) && backlog.bytes == 0);
}

static void bytes_are_bounded(void **state)
{
    (void)state;
    struct resource_backlog backlog;
    size_t len = RESOURCE_BACKLOG_BYTES / 2;
    char *text = malloc(len);
    assert_non_null(text);
    memset(text, 'x', len);
    struct resource_object object = object_of(1, belfry_bytes_of(text, len)),
                           small = object_of(2, belfry_bytes_of("", 0));
    resource_backlog_init(&backlog);
    assert_int_equal(resource_backlog_add(&backlog, RESOURCE_ADDED, &object), BELFRY_OK);
    assert_int_equal(resource_backlog_add(&backlog, RESOURCE_ADDED, &object), BELFRY_ERR_LIMIT);
    assert_int_equal(resource_backlog_add(&backlog, RESOURCE_ADDED, &small), BELFRY_OK);
    assert_true(backlog.bytes <= RESOURCE_BACKLOG_BYTES);
    resource_backlog_clear(&backlog);
    assert_int_equal(backlog.bytes, 0);
    assert_int_equal(resource_backlog_add(&backlog, RESOURCE_ADDED, &object), BELFRY_OK);
    resource_backlog_clear(&backlog);
    free(text);
}

static enum belfry_err add_two(void)
{
    struct resource_backlog backlog;
    struct resource_object object = object_of(1, belfry_bytes_str("{}"));
    resource_backlog_init(&backlog);
    enum belfry_err err = resource_backlog_add(&backlog, RESOURCE_ADDED, &object);
    if (err == BELFRY_OK)
        err = resource_backlog_add(&backlog, RESOURCE_DELETED, &object);
    resource_backlog_clear(&backlog);
    return err;
}

static void refused_allocation_is_reported(void **state)
{
    (void)state;
    assert_int_equal(refuse_sweep(add_two), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events_leave_in_the_order_they_came),
        cmocka_unit_test(bytes_are_bounded),
        cmocka_unit_test(refused_allocation_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
