/* src/serve/admin/resources_test.c */
#include "serve/admin/resources.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "serve/admin/metrics.h"

static struct resource_numbers sample(const char *name)
{
    struct resource_numbers resource = {.version = "v1", .state = "live", .ready = 1, .resource_version = 203};
    snprintf(resource.name, sizeof(resource.name), "%s", name);
    resource.objects = 7;
    resource.proofs = 5;
    return resource;
}

static void a_resource_is_a_row(void **state)
{
    struct resource_numbers resources[] = {sample("pods"), sample("widgets.demo.example.com")};
    struct belfry_buf out = {0};
    struct belfry_json json = belfry_json_begin(&out);
    (void)state;
    resources[1].trouble = DRIVER_DENIED;
    belfry_json_open(&json, NULL, '{');
    resources_write(&json, resources, 2);
    belfry_json_close(&json, '}');
    assert_int_equal(belfry_json_finish(&json), BELFRY_OK);
    assert_int_equal(belfry_buf_append(&out, "", 1), BELFRY_OK);
    static const char begin[] =
        "{\"resources\":[{\"name\":\"pods\",\"version\":\"v1\",\"state\":\"live\",\"server\":\"\","
        "\"reason\":\"\",\"hint\":\"\",\"relisted\":\"\",\"ready\":1,\"stale\":0,\"resource_version\":203,"
        "\"objects\":7,";
    assert_memory_equal(belfry_buf_bytes(&out).data, begin, strlen(begin));
    assert_non_null(strstr(belfry_buf_bytes(&out).data, "\"hint\":\"grant the tier's account the right that is named"));
    assert_non_null(strstr(belfry_buf_bytes(&out).data, "\"proofs\":5,\"unproven\":0},{\"name\":\"widgets.demo"));
    belfry_buf_fini(&out);
}

static void without_resources_there_is_no_member(void **state)
{
    struct belfry_buf out = {0};
    struct belfry_json json = belfry_json_begin(&out);
    (void)state;
    belfry_json_open(&json, NULL, '{');
    resources_write(&json, NULL, 0);
    belfry_json_close(&json, '}');
    assert_int_equal(belfry_buf_append(&out, "", 1), BELFRY_OK);
    assert_string_equal(belfry_buf_bytes(&out).data, "{}");
    belfry_buf_fini(&out);
}

static void each_metric_has_a_series_for_each_resource(void **state)
{
    struct resource_numbers resources[] = {sample("pods"), sample("nodes")};
    struct tier_numbers numbers = {.name = "t", .version = "0", .resources = resources, .n_resources = 2};
    const struct resource_number *table;
    struct belfry_buf out = {0};
    (void)state;
    assert_int_equal(metrics_write(&numbers, &out), BELFRY_OK);
    assert_int_equal(belfry_buf_append(&out, "", 1), BELFRY_OK);
    const char *text = belfry_buf_bytes(&out).data;
    for (size_t i = 0, n = resources_table(&table); i < n; i++) {
        char line[256];
        for (size_t r = 0; r < 2; r++) {
            snprintf(line, sizeof(line), "\n%s{resource=\"%.100s\"} ", table[i].metric, resources[r].name);
            assert_non_null(strstr(text, line));
        }
        snprintf(line, sizeof(line), "# TYPE %s %s\n", table[i].metric, table[i].is_counter ? "counter" : "gauge");
        assert_non_null(strstr(text, line));
    }
    assert_non_null(strstr(text, "\nbelfry_resource_objects{resource=\"nodes\"} 7\n"));
    belfry_buf_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_resource_is_a_row),
        cmocka_unit_test(without_resources_there_is_no_member),
        cmocka_unit_test(each_metric_has_a_series_for_each_resource),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
