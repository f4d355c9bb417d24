/* src/serve/kfront/kfront_fields_test.c */
#include "serve/kfront/kfront_fields.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "support/refuse.h"

static char core[] = "", group[] = "demo.io", services_name[] = "services", widgets_name[] = "widgets";
static const struct kube_resource services = {.group = core, .plural = services_name};
static const struct kube_resource widgets = {.group = group, .plural = widgets_name};

static struct kfront_fields *fields;
static struct kfront_field rows[KFRONT_FIELDS_MAX + 1];
static unsigned n_lines;
static char line[BELFRY_LOG_TEXT];

static void on_line(enum belfry_log_level level, const char *event, const char *text, void *user)
{
    (void)user;
    assert_int_equal(level, BELFRY_LOG_WARN);
    assert_string_equal(event, "selector_relayed");
    snprintf(line, sizeof(line), "%s", text);
    n_lines++;
}

static struct belfry_log test_log = {.line = on_line, .level = BELFRY_LOG_DEBUG};

static int setup(void **state)
{
    (void)state;
    n_lines = 0;
    return kfront_fields_create(&test_log, &fields) == BELFRY_OK ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    kfront_fields_destroy(fields);
    kfront_fields_destroy(NULL);
    return refuse_held() == 0 ? 0 : -1;
}

static void requests_are_counted_by_resource_and_field(void **state)
{
    (void)state;
    assert_int_equal(kfront_fields_look(fields, rows), 0);
    kfront_fields_note(fields, &services, "spec.a");
    kfront_fields_note(fields, &widgets, "spec.a");
    kfront_fields_note(fields, &services, "spec.a");
    kfront_fields_note(fields, &services, "spec.b");
    assert_int_equal(kfront_fields_look(fields, rows), 3);
    assert_string_equal(rows[0].resource, "services");
    assert_string_equal(rows[0].name, "spec.a");
    assert_int_equal(rows[0].requests, 2);
    assert_string_equal(rows[1].resource, "widgets.demo.io");
    assert_int_equal(rows[1].requests, 1);
    assert_string_equal(rows[2].name, "spec.b");
}

static void the_first_of_each_is_logged_with_what_it_costs(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++)
        kfront_fields_note(fields, &services, "spec.a");
    assert_int_equal(n_lines, 1);
    assert_memory_equal(line, "resource=services field=spec.a why=\"", 36);
    assert_non_null(strstr(line, "each such watch is one at the API server"));
    kfront_fields_note(fields, &widgets, "spec.a");
    assert_int_equal(n_lines, 2);
}

static void what_comes_after_the_bound_is_counted_together(void **state)
{
    (void)state;
    char name[32];
    for (int i = 0; i < KFRONT_FIELDS_MAX + 10; i++) {
        snprintf(name, sizeof(name), "spec.f%d", i);
        kfront_fields_note(fields, &services, name);
    }
    kfront_fields_note(fields, &services, "spec.f0");
    assert_int_equal(kfront_fields_look(fields, rows), KFRONT_FIELDS_MAX + 1);
    assert_int_equal(rows[0].requests, 2);
    assert_string_equal(rows[KFRONT_FIELDS_MAX].resource, "other");
    assert_string_equal(rows[KFRONT_FIELDS_MAX].name, "other");
    assert_int_equal(rows[KFRONT_FIELDS_MAX].requests, 10);
    assert_int_equal(n_lines, KFRONT_FIELDS_MAX + 1);
}

static void names_are_text_of_a_bounded_length(void **state)
{
    (void)state;
    char name[4 * KFRONT_FIELD_BYTES];
    kfront_fields_note(fields, &services, "a b\"\\\n\xff");
    memset(name, 'x', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    kfront_fields_note(fields, &services, name);
    assert_int_equal(kfront_fields_look(fields, rows), 2);
    assert_string_equal(rows[0].name, "a?b????");
    assert_int_equal(strlen(rows[1].name), KFRONT_FIELD_BYTES - 1);
}

static enum belfry_err create_one(void)
{
    struct kfront_fields *one = NULL;
    enum belfry_err err = kfront_fields_create(NULL, &one);
    if (err == BELFRY_OK)
        kfront_fields_note(one, &services, "spec.a");
    kfront_fields_destroy(one);
    return err;
}

static void no_memory_is_an_error(void **state)
{
    (void)state;
    assert_int_equal(refuse_sweep(create_one), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(requests_are_counted_by_resource_and_field, setup, teardown),
        cmocka_unit_test_setup_teardown(the_first_of_each_is_logged_with_what_it_costs, setup, teardown),
        cmocka_unit_test_setup_teardown(what_comes_after_the_bound_is_counted_together, setup, teardown),
        cmocka_unit_test_setup_teardown(names_are_text_of_a_bounded_length, setup, teardown),
        cmocka_unit_test(no_memory_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
