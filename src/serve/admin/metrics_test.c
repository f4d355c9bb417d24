/* src/serve/admin/metrics_test.c: what is written is read back by a little reader of Prometheus' text form.
 *
 *     metrics_test --describe     prints docs/metrics.md, for tools/metrics-doc
 */
#include "serve/admin/metrics.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "support/refuse.h"

#define SERIES_MAX 512

struct series {
    char id[256]; /* name and labels, as written */
    double value;
};

struct family {
    char name[128];
    char type[16];
    bool has_help;
};

struct reading {
    struct series series[SERIES_MAX];
    struct family families[SERIES_MAX];
    size_t n, n_families;
};

static bool is_name(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (!islower((unsigned char)text[i]) && text[i] != '_' && (i == 0 || !isdigit((unsigned char)text[i])))
            return false;
    }
    return len > 0;
}

static bool ends_in(const char *name, const char *end)
{
    size_t n = strlen(name), m = strlen(end);
    return n > m && strcmp(name + n - m, end) == 0;
}

static struct family *family_of(struct reading *r, const char *name, size_t len)
{
    struct family *last = r->n_families > 0 ? &r->families[r->n_families - 1] : NULL;
    if (last != NULL && strlen(last->name) == len && memcmp(last->name, name, len) == 0)
        return last;
    for (size_t i = 0; i < r->n_families; i++)
        assert_false(strlen(r->families[i].name) == len && memcmp(r->families[i].name, name, len) == 0); /* split up */
    struct family *family = &r->families[r->n_families++];
    *family = (struct family){{0}, {0}, false};
    assert_true(len < sizeof(family->name));
    memcpy(family->name, name, len);
    return family;
}

static void read_comment(struct reading *r, const char *line)
{
    char name[128], rest[1024];
    assert_int_equal(sscanf(line, "# %*4s %127s %1023[^\n]", name, rest), 2);
    assert_true(is_name(name, strlen(name)));
    struct family *family = family_of(r, name, strlen(name));
    if (strncmp(line, "# HELP ", 7) == 0) {
        assert_false(family->has_help);
        family->has_help = true;
        assert_null(strchr(rest, '\\'));
        assert_int_equal(rest[strlen(rest) - 1], '.');
    } else {
        assert_memory_equal(line, "# TYPE ", 7);
        assert_int_equal(family->type[0], '\0');
        snprintf(family->type, sizeof(family->type), "%.15s", rest);
    }
}

/* {name="value",...}: returns where it ends. */
static const char *read_labels(const char *at)
{
    assert_int_equal(*at, '{');
    do {
        size_t len = strcspn(++at, "=");
        assert_true(is_name(at, len));
        at += len;
        assert_memory_equal(at, "=\"", 2);
        for (at += 2; *at != '"'; at++) {
            assert_true(*at != '\0' && *at != '\n');
            if (*at == '\\')
                assert_non_null(strchr("\\\"n", *++at));
        }
        at++;
    } while (*at == ',');
    assert_int_equal(*at, '}');
    return at + 1;
}

static void read_sample(struct reading *r, const char *line)
{
    size_t len = strcspn(line, "{ ");
    assert_true(is_name(line, len));
    const char *at = line[len] == '{' ? read_labels(line + len) : line + len;
    struct series *series = &r->series[r->n++];
    assert_true(r->n < SERIES_MAX && (size_t)(at - line) < sizeof(series->id));
    memcpy(series->id, line, (size_t)(at - line));
    series->id[at - line] = '\0';
    for (size_t i = 0; i + 1 < r->n; i++)
        assert_string_not_equal(r->series[i].id, series->id);
    char *end;
    assert_int_equal(*at, ' ');
    series->value = strtod(at + 1, &end);
    assert_true(end > at + 1 && *end == '\0');

    assert_true(r->n_families > 0);
    struct family *family = &r->families[r->n_families - 1];
    assert_true(family->has_help && family->type[0] != '\0');
    assert_memory_equal(line, family->name, strlen(family->name));
    assert_true(len == strlen(family->name) || strcmp(family->type, "histogram") == 0);
    assert_int_equal(ends_in(family->name, "_total"), strcmp(family->type, "counter") == 0);
}

static void read_text(struct reading *r, struct belfry_buf *buf)
{
    r->n = r->n_families = 0;
    assert_int_equal(belfry_buf_append(buf, "", 1), BELFRY_OK);
    char *rest = (char *)buf->data + buf->start;
    for (char *line; (line = strsep(&rest, "\n")) != NULL && rest != NULL;) {
        if (line[0] == '#')
            read_comment(r, line);
        else
            read_sample(r, line);
    }
}

static double value(const struct reading *r, const char *id)
{
    for (size_t i = 0; i < r->n; i++) {
        if (strcmp(r->series[i].id, id) == 0)
            return r->series[i].value;
    }
    fail_msg("no series %s", id);
    return 0;
}

/* ---- numbers to be written ---- */

static struct worker_numbers workers[3];
static struct reading reading;

static struct tier_numbers make_numbers(void)
{
    memset(workers, 0, sizeof(workers));
    for (size_t i = 0; i < 3; i++) {
        struct worker_numbers *w = &workers[i];
        w->answered = i < 2;
        w->core = (struct worker_stats){
            .riding = 125, .riding_parked = 8, .waiting = 3, .boarded = 2, .solo = 2, .stalled = 4};
        w->core.parked_peak = 7;
        w->core.rest_bytes_peak = 70;
        w->watch.held_peak = 80;
        w->relay.held_peak = 90;
        w->core.lines[LINES_BY_EVENT] = (struct worker_standings){.synced = 15, .catching_up = 1, .parked = 5};
        w->core.lines[LINES_INWARD] = (struct worker_standings){.synced = 2};
        w->core.bytes = 1000 * (i + 1);
        w->core.deliveries = 10;
        w->watch.closed[WATCH_CLOSE_DRAIN] = 4 + i;
        w->relay.relayed = 5;
        w->position = 100 - (int64_t)i * 10;
        w->longest_turn_us = 1500 * (i + 1);
        for (size_t b = 0; b <= LATENCY_BUCKETS; b++)
            w->latency.buckets[b] = b + 1;
        w->latency.sum_s = 0.5;
    }
    struct tier_numbers numbers = {.now_ms = 5000, .started_ms = 1000, .name = "edge", .version = "0.3.0\"\\\n"};
    numbers.upstream_answered = true;
    numbers.upstream = (struct driver_status){.standing = DRIVER_READY, .state = UPSTREAM_LIVE, .silent_ms = 1250};
    numbers.upstream.revision = 120;
    numbers.upstream.upstream_revision = 125;
    numbers.upstream.lag_peak = 33;
    numbers.upstream.backfills_done = 9;
    numbers.upstream.stats.listings = 2;
    numbers.log_bytes = 4096;
    numbers.n_workers = 3;
    numbers.workers = workers;
    return numbers;
}

static void write_and_read(const struct tier_numbers *numbers)
{
    struct belfry_buf buf = {0};
    assert_int_equal(metrics_write(numbers, &buf), BELFRY_OK);
    read_text(&reading, &buf);
    belfry_buf_fini(&buf);
}

/* ---- tests ---- */

static void every_line_is_well_formed_and_no_series_comes_twice(void **state)
{
    (void)state;
    struct tier_numbers numbers = make_numbers();
    write_and_read(&numbers);
    assert_true(reading.n > 100);
    for (size_t i = 0; i < reading.n_families; i++) {
        const char *name = reading.families[i].name;
        assert_true(strncmp(name, "belfry_", 7) == 0 || strncmp(name, "process_", 8) == 0);
    }
}

static void values_are_those_of_the_tier_and_the_sums_of_workers_that_answered(void **state)
{
    (void)state;
    struct tier_numbers numbers = make_numbers();
    write_and_read(&numbers);
    assert_true(value(&reading, "belfry_watchers{dialect=\"grpc\",state=\"synced\"}") == 200);
    assert_true(value(&reading, "belfry_watchers{dialect=\"grpc\",state=\"catching up\"}") == 12);
    assert_true(value(&reading, "belfry_watchers{dialect=\"grpc\",state=\"parked\"}") == 14);
    assert_true(value(&reading, "belfry_watchers{dialect=\"kube\",state=\"synced\"}") == 30);
    assert_true(value(&reading, "belfry_watchers{dialect=\"kube\",state=\"catching up\"}") == 2);
    assert_true(value(&reading, "belfry_watchers{dialect=\"kube\",state=\"parked\"}") == 10);
    assert_true(value(&reading, "belfry_streams_closed_total{dialect=\"grpc\",reason=\"drain\"}") == 9);
    assert_true(value(&reading, "belfry_deliveries_total") == 20);
    assert_true(value(&reading, "belfry_memory_bytes{pool=\"watchers\"}") == 3000);
    assert_true(value(&reading, "belfry_memory_bytes{pool=\"log\"}") == 4096);
    assert_true(value(&reading, "belfry_upstream_fallbacks_total{reason=\"backfill\"}") == 9);
    assert_true(value(&reading, "belfry_upstream_lag_revisions_peak") == 33);
    assert_true(value(&reading, "belfry_streams_parked_peak") == 14); /* of the two workers that answered */
    assert_true(value(&reading, "belfry_memory_peak_bytes{pool=\"pinned\"}") == 140);
    assert_true(value(&reading, "belfry_memory_peak_bytes{pool=\"requests\"}") == 160);
    assert_true(value(&reading, "belfry_memory_peak_bytes{pool=\"relay\"}") == 180);
    assert_true(value(&reading, "belfry_upstream_fallbacks_total{reason=\"relay\"}") == 10);
    assert_true(value(&reading, "belfry_upstream_fallbacks_total{reason=\"list\"}") == 2);
    assert_true(value(&reading, "belfry_upstream_lag_revisions") == 5);
    assert_true(value(&reading, "belfry_upstream_lag_seconds") == 1.25);
    assert_true(value(&reading, "belfry_upstream_state{state=\"live\"}") == 1);
    assert_true(value(&reading, "belfry_upstream_state{state=\"listing\"}") == 0);
    assert_true(value(&reading, "belfry_upstream_up") == 1);
    assert_true(value(&reading, "belfry_ready{check=\"upstream\"}") == 1);
    assert_true(value(&reading, "belfry_ready{check=\"lag\"}") == 0);
    assert_true(value(&reading, "belfry_ready{check=\"workers\"}") == 0);
    assert_true(value(&reading, "belfry_position_revision") == 90);
    assert_true(value(&reading, "belfry_worker_longest_turn_seconds") == 0.003);
    assert_true(value(&reading, "belfry_workers") == 3);
    assert_true(value(&reading, "belfry_workers_answering") == 2);
    assert_true(value(&reading, "belfry_build_info{version=\"0.3.0\\\"\\\\\\n\"}") == 1);
}

static void buckets_are_cumulative_and_end_with_all(void **state)
{
    (void)state;
    struct tier_numbers numbers = make_numbers();
    write_and_read(&numbers);
    double before = 0, bound = 0.0001;
    for (size_t b = 0; b < LATENCY_BUCKETS; b++, bound *= 2) {
        char id[128];
        snprintf(id, sizeof(id), "belfry_delivery_latency_seconds_bucket{le=\"%.9g\"}", bound);
        double now = value(&reading, id);
        assert_true(now == before + 2 * (double)(b + 1));
        before = now;
    }
    double all = value(&reading, "belfry_delivery_latency_seconds_bucket{le=\"+Inf\"}");
    assert_true(all == before + 2 * (LATENCY_BUCKETS + 1));
    assert_true(value(&reading, "belfry_delivery_latency_seconds_count") == all);
    assert_true(value(&reading, "belfry_delivery_latency_seconds_sum") == 1.0);
}

static void pools_are_series_with_their_name(void **state)
{
    (void)state;
    struct tier_numbers numbers = make_numbers();
    struct pool_numbers calls = {
        .used = 9, .limit = 10, .refused = 3, .yielded = 2, .in_trouble = 1, .largest = 5, .client = "10.0.0.9"};
    workers[0].pools[SHARES_CALLS] = workers[1].pools[SHARES_CALLS] = calls;
    write_and_read(&numbers);
    assert_true(value(&reading, "belfry_pool_used{pool=\"calls\"}") == 18);
    assert_true(value(&reading, "belfry_pool_limit{pool=\"calls\"}") == 20);
    assert_true(value(&reading, "belfry_pool_refused_total{pool=\"calls\"}") == 6);
    assert_true(value(&reading, "belfry_pool_yielded_total{pool=\"calls\"}") == 4);
    assert_true(value(&reading, "belfry_pool_largest{pool=\"calls\"}") == 10);
    assert_true(value(&reading, "belfry_pool_in_trouble{pool=\"calls\"}") == 2);
    assert_true(value(&reading, "belfry_pool_used{pool=\"memory\"}") == 0);
}

static void selectors_that_are_relayed_are_series_of_resource_and_field(void **state)
{
    (void)state;
    static const struct kfront_field fields[] = {{"services", "spec.clusterIP", 31}, {"other", "other", 2}};
    struct tier_numbers numbers = make_numbers();
    numbers.fields = fields;
    numbers.n_fields = 2;
    write_and_read(&numbers);
    assert_true(value(&reading, "belfry_kube_relayed_fields_total{resource=\"services\",field=\"spec.clusterIP\"}") ==
                31);
    assert_true(value(&reading, "belfry_kube_relayed_fields_total{resource=\"other\",field=\"other\"}") == 2);
}

static void tier_that_never_heard_of_upstream_is_infinitely_late(void **state)
{
    (void)state;
    struct tier_numbers numbers = make_numbers();
    numbers.upstream.silent_ms = BELFRY_NEVER;
    write_and_read(&numbers);
    assert_true(isinf(value(&reading, "belfry_upstream_lag_seconds")));
    numbers.upstream.silent_ms = 0;
    numbers.upstream_answered = false;
    write_and_read(&numbers);
    assert_true(isinf(value(&reading, "belfry_upstream_lag_seconds")));
    assert_true(value(&reading, "belfry_upstream_up") == 0);
}

static void process_is_read_from_proc(void **state)
{
    (void)state;
    struct tier_numbers numbers = make_numbers();
    numbers.process_start_s = metrics_process_start();
    write_and_read(&numbers);
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    double started = value(&reading, "process_start_time_seconds");
    assert_true(started <= (double)now.tv_sec + 1 && started > (double)now.tv_sec - 3600);
    assert_true(value(&reading, "process_resident_memory_bytes") > 1 << 20);
    assert_true(value(&reading, "process_virtual_memory_bytes") >= value(&reading, "process_resident_memory_bytes"));
    assert_true(value(&reading, "process_threads") >= 1);
    assert_true(value(&reading, "process_fd_table_size") >= 3);
    assert_true(value(&reading, "process_max_fds") >= 3);
}

static void promtool_has_nothing_to_say(void **state)
{
    (void)state;
    if (system("command -v promtool >/dev/null 2>&1") != 0) {
        const char *gate = getenv("CI");
        print_message("promtool is not installed (Debian package prometheus): not asked\n");
        assert_true(gate == NULL || strcmp(gate, "true") != 0); /* there it must be: tools/bootstrap installs it */
        skip();
    }
    struct belfry_buf buf = {0};
    struct tier_numbers numbers = make_numbers();
    assert_int_equal(metrics_write(&numbers, &buf), BELFRY_OK);
    FILE *promtool = popen("promtool check metrics >&2", "w");
    assert_non_null(promtool);
    assert_int_equal(fwrite(buf.data + buf.start, 1, belfry_buf_len(&buf), promtool), belfry_buf_len(&buf));
    assert_int_equal(pclose(promtool), 0);
    belfry_buf_fini(&buf);
}

static void description_names_every_metric_and_is_what_the_docs_have(void **state)
{
    (void)state;
    struct belfry_buf buf = {0};
    struct tier_numbers numbers = make_numbers();
    write_and_read(&numbers);
    assert_int_equal(metrics_describe(&buf), BELFRY_OK);
    size_t len = belfry_buf_len(&buf);
    assert_int_equal(belfry_buf_append(&buf, "", 1), BELFRY_OK);
    const char *text = (const char *)buf.data + buf.start;
    for (size_t i = 0; i < reading.n_families; i++) {
        char cell[256];
        snprintf(cell, sizeof(cell), "\n| `%s` | %s |", reading.families[i].name, reading.families[i].type);
        assert_non_null(strstr(text, cell));
    }
    char path[4096], docs[65536];
    snprintf(path, sizeof(path), "%.*s../../docs/metrics.md", (int)(strrchr(__FILE__, '/') + 1 - __FILE__), __FILE__);
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        print_message("docs/metrics.md is not where this suite was built from: not compared\n");
    } else {
        assert_int_equal(fread(docs, 1, sizeof(docs), file), len); /* else: run tools/metrics-doc */
        assert_memory_equal(docs, text, len);
        fclose(file);
    }
    belfry_buf_fini(&buf);
}

static enum belfry_err scenario(void)
{
    struct belfry_buf buf = {0};
    struct tier_numbers numbers = make_numbers();
    enum belfry_err err = metrics_write(&numbers, &buf);
    if (err == BELFRY_OK)
        err = metrics_describe(&buf);
    belfry_buf_fini(&buf);
    return err;
}

static void every_refused_allocation_is_told(void **state)
{
    (void)state;
    assert_true(refuse_sweep(scenario) > 3);
}

static int describe(void)
{
    struct belfry_buf buf = {0};
    enum belfry_err err = metrics_describe(&buf);
    if (err == BELFRY_OK)
        fwrite(buf.data + buf.start, 1, belfry_buf_len(&buf), stdout);
    belfry_buf_fini(&buf);
    return err != BELFRY_OK || fflush(stdout) != 0;
}

int main(int argc, char *argv[])
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_line_is_well_formed_and_no_series_comes_twice),
        cmocka_unit_test(values_are_those_of_the_tier_and_the_sums_of_workers_that_answered),
        cmocka_unit_test(buckets_are_cumulative_and_end_with_all),
        cmocka_unit_test(pools_are_series_with_their_name),
        cmocka_unit_test(selectors_that_are_relayed_are_series_of_resource_and_field),
        cmocka_unit_test(tier_that_never_heard_of_upstream_is_infinitely_late),
        cmocka_unit_test(process_is_read_from_proc),
        cmocka_unit_test(promtool_has_nothing_to_say),
        cmocka_unit_test(description_names_every_metric_and_is_what_the_docs_have),
        cmocka_unit_test(every_refused_allocation_is_told),
    };
    if (argc == 2 && strcmp(argv[1], "--describe") == 0)
        return describe();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
