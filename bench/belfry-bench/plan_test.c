/* bench/belfry-bench/plan_test.c */
#include "modes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const struct mode remote_mode = {"fanout", "puts", "--connections 1000 --puts 200", false, NULL};
static const struct mode local_mode = {"bare", "limit", "", true, NULL};

static char said[512];

/* Reads `words` and keeps what was said about them. */
static enum belfry_err reads(const struct mode *mode, const char *words, struct plan *plan)
{
    static char text[512];
    char *argv[32] = {text, text};
    int argc = 2;
    snprintf(text, sizeof(text), "%s", words);
    char *rest = NULL;
    for (char *word = strtok_r(text, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest))
        argv[argc++] = word;
    memset(said, 0, sizeof(said));
    FILE *err = fmemopen(said, sizeof(said) - 1, "w");
    assert_non_null(err);
    enum plan_do what;
    enum belfry_err result = plan_read(mode, argc, argv, err, plan, &what);
    fclose(err);
    return result;
}

static void the_command_line_wins_over_the_defaults_of_the_mode(void **state)
{
    (void)state;
    struct plan plan;
    assert_int_equal(reads(&remote_mode, "--target 127.0.0.1:1 --puts=7 --paced --value-size 1K", &plan), BELFRY_OK);
    assert_int_equal(plan.conns, 1000);
    assert_int_equal(plan.puts, 7);
    assert_int_equal(plan.pace, PACE_PACED);
    assert_int_equal(plan.value_bytes, 1024);
    assert_memory_equal(&plan.write_target, &plan.target, sizeof(plan.target));
    assert_true(plan.deadline_ns > 0);
}

static void a_rate_is_a_pace(void **state)
{
    (void)state;
    struct plan plan;
    assert_int_equal(reads(&local_mode, "--rate 50", &plan), BELFRY_OK);
    assert_int_equal(plan.pace, PACE_RATE);
    assert_true(plan.rate == 50);
}

static void bounds_of_opening_take_units(void **state)
{
    (void)state;
    struct plan plan;
    assert_int_equal(reads(&local_mode, "", &plan), BELFRY_OK);
    assert_true(plan.memory_floor == 0 && plan.fill_ms == 0 && plan.closing_ms == 0);
    assert_int_equal(reads(&local_mode, "--memory-floor 3GiB --fill 1m --closing 20s", &plan), BELFRY_OK);
    assert_true(plan.memory_floor == (uint64_t)3 << 30);
    assert_int_equal(plan.fill_ms, 60000);
    assert_int_equal(plan.closing_ms, 20000);
}

static void a_storm_has_an_upstream_and_a_time_before_it(void **state)
{
    (void)state;
    struct plan plan;
    assert_int_equal(reads(&local_mode, "--upstream-pid 12 --normal 7s --elsewhere 200", &plan), BELFRY_OK);
    assert_int_equal(plan.upstream_pid, 12);
    assert_int_equal(plan.normal_ms, 7000);
    assert_true(plan.elsewhere_rate == 200);
    assert_int_equal(plan.pace, PACE_BURST); /* it is not the watchers' rate */
}

static void objects_lie_where_a_kube_apiserver_keeps_them(void **state)
{
    (void)state;
    struct plan plan;
    assert_int_equal(reads(&local_mode, "--kube", &plan), BELFRY_OK);
    assert_string_equal(plan.prefix, "/registry/pods/");
    assert_int_equal(plan_load(&plan).form, LOAD_OBJECTS);
    assert_int_equal(plan.keys, LOAD_SHARED);
    assert_int_equal(reads(&local_mode, "--kube --selector-field spec.nodeName", &plan), BELFRY_OK);
    assert_int_equal(plan.keys, LOAD_DISTINCT);
    assert_string_equal(plan_swarm(&plan).selector_field, "spec.nodeName");
    assert_int_equal(reads(&local_mode, "", &plan), BELFRY_OK);
    assert_string_equal(plan.prefix, "/bench/");
}

static void a_mistake_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *words, *says;
    } rows[] = {
        {"", "--target: is needed"},
        {"--target 127.0.0.1", "--target: an address and a port"},
        {"--target 10.0.0.1:2379", "--remote"},
        {"--target 127.0.0.1:1 --write-target 10.0.0.1:1", "--remote"},
        {"--target 127.0.0.1:1 --pust 3", "unknown flag --pust: did you mean --puts?"},
        {"--target 127.0.0.1:1 word", "unexpected 'word'"},
        {"--target 127.0.0.1:1 --puts", "--puts needs a value: --puts N"},
        {"--target 127.0.0.1:1 --puts x", "--puts: 'x' is not a whole number"},
        {"--target 127.0.0.1:1 --in-flight 129", "--in-flight: 129 is out of range: it goes from 1 to 128"},
        {"--target 127.0.0.1:1 --value-size 19", "--value-size: 19 is out of range: it goes from 20B to 1MiB"},
        {"--target 127.0.0.1:1 --paced=1", "--paced takes no value"},
        {"--target 127.0.0.1:1 --kube --watches 2", "--watches: a connection with HTTP/1.1 has one"},
        {"--target 127.0.0.1:1 --kube --distinct", "--selector-field: goes with --kube"},
        {"--target 127.0.0.1:1 --selector-field metadata.name", "--selector-field: goes with --kube"},
        {"--target 127.0.0.1:1 --kube --selector-field spec.size",
         "'spec.size' is not one of spec.nodeName|metadata.name"},
        {"--target https://127.0.0.1:1", "--cacert: is needed"},
        {"--target 127.0.0.1:1 --cacert ca.pem", "no target is https"},
        {"--target https://127.0.0.1:1 --cacert /nowhere/ca.pem", "/nowhere/ca.pem: No such file"},
        {"--target https://127.0.0.1:1 --cacert ca.pem --kube", "without TLS only"},
        {"--target 127.0.0.1:1 --fill 3", "--fill: '3' is not a time"},
        {"--target 127.0.0.1:1 --memory-floor much", "--memory-floor: 'much' is not a size"},
        {"--target 127.0.0.1:1 --output xml", "--output: 'xml' is not one of table|json"},
        {"--target 127.0.0.1:1 --connections 100000 --watches 1000", "50 million"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct plan plan;
        assert_int_equal(reads(&remote_mode, rows[i].words, &plan), BELFRY_ERR_INVALID);
        assert_non_null(strstr(said, rows[i].says));
    }
}

static void every_mode_is_in_the_table_and_its_defaults_are_options(void **state)
{
    (void)state;
    const struct belfry_opt_table *table = modes_table();
    assert_int_equal(table->n_commands, N_MODES + 1);
    for (size_t i = 0; i < N_MODES; i++) {
        struct plan plan;
        assert_string_equal(table->commands[i + 1].name, modes[i].name);
        if (reads(&modes[i], "--target 127.0.0.1:1", &plan) != BELFRY_OK)
            fail_msg("%s: %s", modes[i].name, said);
        assert_string_equal(plan.mode, modes[i].name);
    }
}

static void another_machine_is_taken_when_it_is_meant(void **state)
{
    (void)state;
    struct plan plan;
    assert_int_equal(reads(&remote_mode, "--remote --target 10.0.0.1:2379", &plan), BELFRY_OK);
    assert_false(plan.target.loopback);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_mode_is_in_the_table_and_its_defaults_are_options),
        cmocka_unit_test(the_command_line_wins_over_the_defaults_of_the_mode),
        cmocka_unit_test(a_rate_is_a_pace),
        cmocka_unit_test(bounds_of_opening_take_units),
        cmocka_unit_test(a_storm_has_an_upstream_and_a_time_before_it),
        cmocka_unit_test(objects_lie_where_a_kube_apiserver_keeps_them),
        cmocka_unit_test(a_mistake_is_named),
        cmocka_unit_test(another_machine_is_taken_when_it_is_meant),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
