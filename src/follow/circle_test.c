/* src/follow/circle_test.c */
#include "follow/circle.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "support/refuse.h"

static struct belfry_endpoint endpoints[3] = {
    {.url = "http://10.0.0.1:2379"}, {.url = "http://10.0.0.1:23790"}, {.url = "http://10.0.0.1:2379"}};
static char logged[1024];
static unsigned n_lines;

static void on_line(enum belfry_log_level level, const char *event, const char *text, void *user)
{
    (void)level;
    (void)user;
    n_lines++;
    snprintf(logged, sizeof(logged), "%s %s", event, text);
}

static const struct belfry_log test_log = {.line = on_line, .level = BELFRY_LOG_DEBUG};
static struct circle circle;

static int setup_named(const char *name)
{
    n_lines = 0;
    logged[0] = '\0';
    return circle_init(&circle, name, endpoints, 3, &test_log) == BELFRY_OK ? 0 : -1;
}

static int setup(void **state)
{
    (void)state;
    return setup_named("us");
}

static int teardown(void **state)
{
    (void)state;
    circle_fini(&circle);
    return 0;
}

static struct about report(const char *name, const char *const *above, uint64_t age_ms)
{
    struct about about = {.self = {.version = "belfryd/1"}};
    snprintf(about.self.name, sizeof(about.self.name), "%s", name);
    for (; above != NULL && above[about.n_above] != NULL; about.n_above++) {
        struct about_level *level = &about.above[about.n_above];
        *level = (struct about_level){.version = "belfryd/1", .age_ms = age_ms};
        snprintf(level->name, sizeof(level->name), "%s", above[about.n_above]);
    }
    return about;
}

static void refusal_bars_the_whole_url_wherever_it_is_listed(void **state)
{
    (void)state;
    assert_true(
        circle_refused(&circle, "http://10.0.0.1:2379: refused", "text " CIRCLE_REFUSAL "us > up > us; mend it"));
    assert_true(circle.barred[0]);
    assert_false(circle.barred[1]); /* its URL is longer */
    assert_true(circle.barred[2]);
    assert_string_equal(circle.given_up, "");
    assert_string_equal(logged, "upstream_circle why=\"" CIRCLE_REFUSAL
                                "us > up > us; mend it\" endpoint=http://10.0.0.1:2379");
}

static void endpoint_is_barred_and_logged_once(void **state)
{
    (void)state;
    assert_true(circle_refused(&circle, "http://10.0.0.1:23790", CIRCLE_TOO_MANY "a > b; mend it"));
    assert_false(circle_refused(&circle, "http://10.0.0.1:23790", CIRCLE_TOO_MANY "a > b; mend it"));
    assert_int_equal(n_lines, 1);
}

static void other_refusals_bar_nothing(void **state)
{
    (void)state;
    assert_false(circle_refused(&circle, "http://10.0.0.1:2379", "etcdserver: permission denied"));
    assert_false(circle_refused(&circle, "http://10.0.0.9:2379", CIRCLE_REFUSAL "us > us"));
    assert_int_equal(n_lines, 0);
}

static void last_endpoint_gives_up(void **state)
{
    (void)state;
    assert_true(circle_refused(&circle, "http://10.0.0.1:2379", CIRCLE_REFUSAL "us > us"));
    struct about about = report("up", (const char *const[]){"mid", "us", NULL}, 0);
    assert_true(circle_reported(&circle, "http://10.0.0.1:23790", &about, 1000));
    assert_string_equal(circle.given_up, CIRCLE_REFUSAL "us > up > mid > us; " CIRCLE_REMEDY);
}

static void report_older_than_the_connection_is_no_circle(void **state)
{
    (void)state;
    struct about about = report("up", (const char *const[]){"mid", "us", NULL}, 1001);
    assert_false(circle_reported(&circle, "http://10.0.0.1:2379", &about, 1000));
    about.above[0].age_ms = about.above[1].age_ms = 1000;
    assert_true(circle_reported(&circle, "http://10.0.0.1:2379", &about, 1000));
}

static void eight_tiers_in_a_row_are_the_most(void **state)
{
    (void)state;
    struct about eight = report("t7", (const char *const[]){"t6", "t5", "t4", "t3", "t2", "t1", NULL}, 0);
    struct about nine = report("t8", (const char *const[]){"t7", "t6", "t5", "t4", "t3", "t2", "t1", NULL}, 0);
    assert_false(circle_reported(&circle, "http://10.0.0.1:2379", &eight, 1000));
    assert_true(circle_reported(&circle, "http://10.0.0.1:2379", &nine, 1000));
    assert_non_null(strstr(logged, CIRCLE_TOO_MANY "us > t8 > t7 > t6 > t5 > t4 > t3 > t2 > t1; "));
}

static void tier_without_a_name_believes_no_report(void **state)
{
    (void)state;
    circle_fini(&circle);
    assert_int_equal(setup_named(""), 0);
    struct about about = report("", NULL, 0);
    assert_false(circle_reported(&circle, "http://10.0.0.1:2379", &about, 1000));
}

static void longest_chain_is_cut_and_keeps_its_remedy(void **state)
{
    char name[ABOUT_NAME];
    const char *names[CIRCLE_TIERS];
    (void)state;
    memset(name, 'x', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    for (size_t i = 0; i + 1 < CIRCLE_TIERS; i++)
        names[i] = name;
    names[CIRCLE_TIERS - 1] = NULL;
    struct about about = report(name, names, 0);
    assert_true(circle_reported(&circle, "http://10.0.0.1:2379", &about, 1000));
    assert_non_null(strstr(logged, "; " CIRCLE_TOO_MANY_REMEDY "\""));
}

static void refused_memory_is_an_error(void **state)
{
    (void)state;
    struct circle refused;
    refuse_begin(0);
    enum belfry_err err = circle_init(&refused, "us", endpoints, 3, &test_log);
    assert_true(refuse_end());
    assert_int_equal(err, BELFRY_ERR_NOMEM);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(refusal_bars_the_whole_url_wherever_it_is_listed),
        T(endpoint_is_barred_and_logged_once),
        T(other_refusals_bar_nothing),
        T(last_endpoint_gives_up),
        T(report_older_than_the_connection_is_no_circle),
        T(eight_tiers_in_a_row_are_the_most),
        T(tier_without_a_name_believes_no_report),
        T(longest_chain_is_cut_and_keeps_its_remedy),
        cmocka_unit_test(refused_memory_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
