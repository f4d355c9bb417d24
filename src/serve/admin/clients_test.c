/* src/serve/admin/clients_test.c */
#include "serve/admin/clients.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "support/refuse.h"

#define WORKERS 2
#define CONNS   (20 * CLIENTS_KEPT)
#define BOUNDED (3 * CLIENTS_KEPT)

static struct shares shares[WORKERS];
static struct shares_conn conns[WORKERS][CONNS];
static size_t n_conns[WORKERS];

static void on_end(struct shares_conn *conn, enum shares_pool pool, void *user)
{
    (void)conn;
    (void)pool;
    (void)user;
}

static void open_workers(void)
{
    struct shares_limits limits = {0};
    for (size_t i = 0; i < WORKERS; i++) {
        shares_init(&shares[i], &limits, 7 + i, on_end, NULL);
        shares_tick(&shares[i], 1000 * WORK_MS);
        n_conns[i] = 0;
    }
}

static void close_workers(void)
{
    for (size_t i = 0; i < WORKERS; i++) {
        for (size_t c = 0; c < n_conns[i]; c++) {
            for (enum shares_pool pool = 0; pool < SHARES_N; pool++)
                shares_count(&conns[i][c], pool, conns[i][c].held[pool], 0);
            shares_leave(&conns[i][c]);
        }
        shares_fini(&shares[i]);
    }
}

static int set_up(void **state)
{
    (void)state;
    open_workers();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    close_workers();
    return refuse_held() == 0 ? 0 : -1;
}

/* NULL: no memory. */
static struct shares_conn *join(size_t worker, enum shares_class class, const char *name)
{
    struct shares_conn *conn = &conns[worker][n_conns[worker]];
    if (shares_join(&shares[worker], conn, class, name) != BELFRY_OK)
        return NULL;
    n_conns[worker]++;
    shares_count(conn, SHARES_CONNECTIONS, 0, 1);
    return conn;
}

/* Asks all workers in steps of a few visits. The answer is in *out, which the caller ends, with a zero byte. */
static enum belfry_err ask(const char *text, struct belfry_buf *out)
{
    struct clients_query query;
    struct clients_scan *scans[WORKERS] = {NULL};
    char why[64];
    enum belfry_err err = BELFRY_OK;
    assert_int_equal(clients_parse(belfry_bytes_str(text), &query, why, sizeof(why)), BELFRY_OK);
    for (size_t i = 0; i < WORKERS && err == BELFRY_OK; i++) {
        err = clients_scan_create(&query, &shares[i], &scans[i]);
        while (err == BELFRY_OK && !clients_scan_step(scans[i], 2))
            ;
    }
    if (err == BELFRY_OK)
        err = clients_write(scans, WORKERS, out);
    if (err == BELFRY_OK)
        err = belfry_buf_append(out, "", 1);
    for (size_t i = 0; i < WORKERS; i++)
        clients_scan_destroy(scans[i]);
    return err;
}

static void assert_answer(const char *query, const char *wanted)
{
    struct belfry_buf buf = {0};
    assert_int_equal(ask(query, &buf), BELFRY_OK);
    assert_string_equal((const char *)buf.data, wanted);
    belfry_buf_fini(&buf);
}

/* The names of the rows, in their order. */
static void assert_order(const char *query, const char *wanted)
{
    struct belfry_buf buf = {0};
    char names[256] = "";
    assert_int_equal(ask(query, &buf), BELFRY_OK);
    for (const char *at = (const char *)buf.data; (at = strstr(at, "\"client\":\"")) != NULL;) {
        at += strlen("\"client\":\"");
        size_t used = strlen(names);
        snprintf(names + used, sizeof(names) - used, "%s%.*s", used > 0 ? " " : "", (int)strcspn(at, "\""), at);
    }
    assert_string_equal(names, wanted);
    belfry_buf_fini(&buf);
}

static void no_client_is_an_empty_list(void **state)
{
    (void)state;
    assert_answer("", "{\"clients\":0,\"left_out\":0,\"rows\":[]}\n");
}

static void a_client_of_several_workers_is_one_row(void **state)
{
    (void)state;
    for (size_t i = 0; i < WORKERS; i++) {
        struct shares_conn *conn = join(i, SHARES_CLIENT, "10.0.0.9");
        assert_non_null(conn);
        shares_count(conn, SHARES_MEMORY, 0, 1000);
        shares_count(conn, SHARES_REQUESTS, 0, 100);
        shares_count(conn, SHARES_CALL_BYTES, 0, 10);
        shares_count(conn, SHARES_WATCHERS, 0, 5);
        shares_count(conn, SHARES_LISTS, 0, 2);
        shares_count(conn, SHARES_CALLS, 0, 20);
        shares_count(conn, SHARES_CALLS, 3, 0);
        shares_work(conn, WORK_REQUESTS, 40);
        shares_work(conn, WORK_BYTES_IN, 1000);
        shares_work(conn, WORK_BYTES_OUT, 5005);
    }
    assert_answer("", "{\"clients\":1,\"left_out\":0,\"rows\":[{\"client\":\"10.0.0.9\",\"class\":\"client\","
                      "\"cpu_percent\":100,\"memory_bytes\":2220,\"connections\":2,\"watchers\":10,\"calls\":34,"
                      "\"lists\":4,\"requests_per_s\":8,\"calls_per_s\":4,\"connections_per_s\":0.2,"
                      "\"bytes_in_per_s\":200,\"bytes_out_per_s\":1001}]}\n");
}

static void rows_are_sorted_by_what_is_asked_for(void **state)
{
    (void)state;
    struct shares_conn *busy = join(0, SHARES_CLIENT, "busy"), *large = join(0, SHARES_CLIENT, "large");
    struct shares_conn *calls = join(1, SHARES_CLIENT, "calls");
    shares_work(busy, WORK_IO, 100000);
    shares_count(large, SHARES_MEMORY, 0, 1 << 20);
    shares_count(calls, SHARES_CALLS, 0, 100);
    for (int i = 0; i < 3; i++)
        assert_non_null(join(1, SHARES_CLIENT, "wide"));
    assert_order("", "busy calls wide large");
    assert_order("sort=cpu&limit=2", "busy calls");
    assert_order("sort=memory&limit=1", "large");
    assert_order("sort=calls&limit=1", "calls");
    assert_order("sort=connections&limit=1", "wide");
}

static void a_tier_is_not_the_client_of_its_name(void **state)
{
    (void)state;
    struct belfry_buf buf = {0};
    assert_non_null(join(0, SHARES_CLIENT, "leaf"));
    assert_non_null(join(1, SHARES_BELOW, "leaf"));
    assert_int_equal(ask("", &buf), BELFRY_OK);
    assert_non_null(strstr((char *)buf.data, "{\"clients\":2,"));
    assert_non_null(strstr((char *)buf.data, "{\"client\":\"leaf\",\"class\":\"tier\","));
    assert_non_null(strstr((char *)buf.data, "{\"client\":\"leaf\",\"class\":\"client\","));
    belfry_buf_fini(&buf);
}

/* A worker keeps the largest; the largest of all is found wherever the walk meets it. */
static void what_a_scan_keeps_is_bounded(void **state)
{
    (void)state;
    struct belfry_buf buf = {0};
    for (size_t i = 0; i < BOUNDED; i++) {
        char name[32];
        snprintf(name, sizeof(name), "10.0.%zu.%zu", i / 256, i % 256);
        struct shares_conn *conn = join(0, SHARES_CLIENT, name);
        assert_non_null(conn);
        shares_count(conn, SHARES_MEMORY, 0, i == BOUNDED / 2 ? 99999 : i + 1);
    }
    assert_order("sort=memory&limit=3", "10.0.5.220 10.0.11.183 10.0.11.182");
    assert_int_equal(ask("sort=memory&limit=1000", &buf), BELFRY_OK);
    assert_non_null(strstr((char *)buf.data, "{\"clients\":1000,\"left_out\":2000,"));
    belfry_buf_fini(&buf);
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* The bounds are loose, for sanitizers and a busy machine: they find a step that is not bounded, nothing finer. */
static void a_step_among_many_clients_is_short(void **state)
{
    (void)state;
    struct clients_query query = {.sort = CLIENTS_BY_MEMORY, .limit = 1};
    struct clients_scan *scan = NULL;
    double all = 0, longest = 0;
    for (size_t i = 0; i < CONNS; i++) {
        char name[32];
        snprintf(name, sizeof(name), "%zu", i * 7919 % CONNS);
        struct shares_conn *conn = join(0, SHARES_CLIENT, name);
        assert_non_null(conn);
        shares_count(conn, SHARES_MEMORY, 0, i * 7919 % CONNS + 1);
    }
    assert_int_equal(clients_scan_create(&query, &shares[0], &scan), BELFRY_OK);
    for (bool done = false; !done;) {
        double before = seconds();
        done = clients_scan_step(scan, 256);
        double took = seconds() - before;
        all += took;
        longest = took > longest ? took : longest;
    }
    clients_scan_destroy(scan);
    print_message("figure: %.0f ns a visit, the longest step %.0f us\n", all / CONNS * 1e9, longest * 1e6);
    assert_true(all / CONNS < 50e-6 && longest < 0.05);
}

static void wrong_parameters_are_named(void **state)
{
    (void)state;
    struct clients_query query = {.limit = 7};
    char why[160];
    static const char *const wrong[][2] = {
        {"sort=lag", "sort: one of cpu, memory, calls, connections"},
        {"limit=0", "limit: a number from 1 to 1000"},
        {"limit=1001", "limit: a number from 1 to 1000"},
        {"group=x", "no parameter is called group: there are sort, limit and filter"},
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_int_equal(clients_parse(belfry_bytes_str(wrong[i][0]), &query, why, sizeof(why)), BELFRY_ERR_INVALID);
        assert_string_equal(why, wrong[i][1]);
    }
    char filter[300] = "filter=";
    memset(filter + strlen(filter), 'x', 256);
    assert_int_equal(clients_parse(belfry_bytes_str(filter), &query, why, sizeof(why)), BELFRY_ERR_INVALID);
    assert_string_equal(why, "filter: at most 255 bytes");
    assert_int_equal(query.limit, 7);
}

static void a_filter_leaves_names_with_its_text(void **state)
{
    (void)state;
    for (size_t i = 0; i < WORKERS; i++) {
        assert_non_null(join(i, SHARES_CLIENT, "10.0.0.9"));
        assert_non_null(join(i, SHARES_CLIENT, "10.0.1.7"));
    }
    assert_order("filter=0.0.9", "10.0.0.9");
    assert_order("filter=10.", "10.0.0.9 10.0.1.7");
    assert_order("filter=none", "");
}

static enum belfry_err scenario(void)
{
    struct belfry_buf buf = {0};
    open_workers();
    bool joined = join(0, SHARES_CLIENT, "a") != NULL && join(0, SHARES_CLIENT, "b") != NULL &&
                  join(1, SHARES_CLIENT, "a") != NULL;
    enum belfry_err err = joined ? ask("", &buf) : BELFRY_ERR_NOMEM;
    belfry_buf_fini(&buf);
    close_workers();
    return err;
}

static void every_refused_allocation_is_told(void **state)
{
    (void)state;
    assert_true(refuse_sweep(scenario) > 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(no_client_is_an_empty_list, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_client_of_several_workers_is_one_row, set_up, tear_down),
        cmocka_unit_test_setup_teardown(rows_are_sorted_by_what_is_asked_for, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_filter_leaves_names_with_its_text, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_tier_is_not_the_client_of_its_name, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_a_scan_keeps_is_bounded, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_step_among_many_clients_is_short, set_up, tear_down),
        cmocka_unit_test(wrong_parameters_are_named),
        cmocka_unit_test(every_refused_allocation_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
