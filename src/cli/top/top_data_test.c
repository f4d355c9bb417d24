/* src/cli/top/top_data_test.c: what the daemon writes is read, and shown. */
#include "cli/top/top_data.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cli/top/top_screen.h"
#include "cli/top/top_text.h"
#include "support/numbers_json.h"
#include "support/refuse.h"

static const char rows_json[] =
    "{\"revision\":48120733,\"watchers\":212408,\"matched\":3,\"rows\":["
    "{\"lag\":1220118,\"state\":\"parked\",\"dialect\":\"grpc\",\"peer\":\"10.3.8.17:51442\",\"user\":\"gw-eu-17\","
    "\"identity\":\"token:3f9a1c\",\"client\":\"grpc-go/1.81.1\",\"key\":\"/services/"
    "\",\"prefix\":true,\"watch_id\":0,\"sent_bytes\":1200000000,"
    "\"age_ms\":259200000},"
    "{\"lag\":0,\"state\":\"synced\",\"dialect\":\"grpc\",\"peer\":\"unix\",\"user\":\"\",\"client\":\"evil\\u001b["
    "2J\\u009b\","
    "\"key\":\"a\",\"range_end\":\"b1\",\"watch_id\":1,\"sent_bytes\":0,\"age_ms\":900},"
    "{\"lag\":1,\"state\":\"catching "
    "up\",\"dialect\":\"grpc\",\"peer\":\"[::1]:9\",\"user\":\"of-old\",\"client\":\"\","
    "\"key_b64\":\"//4=\",\"watch_id\":2,\"sent_bytes\":5,\"age_ms\":61000}]}\n";
static const char groups_json[] = "{\"revision\":5,\"watchers\":9,\"matched\":9,\"groups\":["
                                  "{\"group\":\"/flags/*\",\"watchers\":201204,\"parked\":1,\"max_lag\":77}],"
                                  "\"other\":{\"watchers\":3104,\"parked\":0,\"max_lag\":2}}\n";

static const char clients_json[] =
    "{\"clients\":2,\"left_out\":0,\"rows\":["
    "{\"client\":\"10.0.0.9\",\"class\":\"client\",\"cpu_percent\":61.5,\"memory_bytes\":20000000,\"connections\":3000,"
    "\"watchers\":12,\"calls\":4,\"lists\":1,\"requests_per_s\":25.5,\"calls_per_s\":7,\"connections_per_s\":0.5,"
    "\"bytes_in_per_s\":2048,\"bytes_out_per_s\":5000.5},"
    "{\"client_b64\":\"//4=\",\"class\":\"tier\",\"cpu_percent\":0}]}\n";

static struct top_data data;

static enum belfry_err read_with(const char *watchers)
{
    top_data_fini(&data);
    return top_data_read(numbers_json(), strlen(numbers_json()), watchers, strlen(watchers), &data);
}

static int clean(void **state)
{
    (void)state;
    top_data_fini(&data);
    return 0;
}

static void numbers_of_the_daemon_are_found(void **state)
{
    (void)state;
    assert_int_equal(read_with(rows_json), BELFRY_OK);
    const struct top_numbers *n = &data.numbers;
    assert_string_equal(n->name, "edge-7");
    assert_string_equal(n->version, "0.3.0");
    assert_string_equal(n->standing, "ready");
    assert_string_equal(n->endpoint, "https://etcd-2:2379");
    assert_int_equal(n->up_ms, 90061000);
    assert_int_equal(n->upstream.revision, 48120733);
    assert_int_equal(n->upstream.upstream_revision, 48120735);
    assert_true(n->silent_known);
    assert_int_equal(n->upstream.silent_ms, 4);
    assert_int_equal(n->upstream.losses, 2);
    assert_int_equal(n->upstream.backfills_done, 7);
    assert_int_equal(n->follower.events, 101);
    assert_int_equal(n->follower.listings, 103);
    assert_int_equal(n->log.oldest, 47900000);
    assert_int_equal(n->replica.history_oldest, 44000000);
    assert_int_equal(n->replica.history_bytes, 202);
    assert_int_equal(n->workers, 2);
    assert_int_equal(n->workers_answering, 1);
    assert_int_equal(n->core.streams, 1000);
    assert_int_equal(n->synced, 1000);
    assert_int_equal(n->catching_up, 1004 + 1005 + 1007);
    assert_int_equal(n->parked, 1009);
    assert_int_equal(n->core.parked, 1008);
    assert_int_equal(n->inbound.connections, 1200);
    assert_int_equal(n->relay.relayed, 1301);
    assert_int_equal(n->reads.replica_linearizable + n->reads.replica_serializable, 1310 + 1311);
    assert_int_equal(n->reads.upstream_linearizable + n->reads.upstream_serializable, 1312 + 1313);
    assert_int_equal(n->rejected, 301 + 303 + 304 + 1117 + 1119 + 1120 + 1121 + 1113 + 1214 + 1209 + 1302 + 2015);
    assert_int_equal(n->latency[16], 16);
    assert_true(n->core.deliveries > 1000 && n->core.compacted > n->core.deliveries && n->inbound.bytes_out > 1200);
}

static void rows_and_groups_are_read(void **state)
{
    (void)state;
    assert_int_equal(read_with(rows_json), BELFRY_OK);
    assert_int_equal(data.n_rows, 3);
    assert_int_equal(data.watchers, 212408);
    assert_int_equal(data.rows[0].lag, 1220118);
    assert_true(data.rows[0].prefix);
    assert_true(data.rows[1].is_span);
    assert_true(data.rows[2].encoded);
    assert_int_equal(read_with(groups_json), BELFRY_OK);
    assert_int_equal(data.table, TOP_GROUPS);
    assert_int_equal(data.n_groups, 2);
    assert_string_equal(data.groups[0].label, "/flags/*");
    assert_null(data.groups[1].label);
    assert_int_equal(data.groups[1].watchers, 3104);
}

static void other_json_is_refused_or_read_as_nothing(void **state)
{
    (void)state;
    assert_int_equal(read_with(""), BELFRY_ERR_PROTOCOL);
    assert_int_equal(read_with("[]"), BELFRY_ERR_PROTOCOL);
    assert_int_equal(read_with("{\"rows\":"), BELFRY_ERR_PROTOCOL);
    assert_int_equal(read_with("{\"rows\":7,\"watchers\":\"x\"}"), BELFRY_OK);
    assert_int_equal(data.n_rows, 0);
    top_data_fini(&data);
    assert_int_equal(top_data_read("{}", 2, "{}", 2, &data), BELFRY_OK);
    assert_string_equal(data.numbers.name, "");
}

/* ---- the screen ---- */

static char text[32768];

static void show(const struct top_view *view)
{
    FILE *out = fmemopen(text, sizeof(text), "w");
    assert_non_null(out);
    top_screen_write(out, &data, view);
    assert_int_equal(fclose(out), 0);
}

static void clients_are_read_and_shown(void **state)
{
    (void)state;
    struct top_view view = {.sort = "", .line_end = "\n"};
    assert_int_equal(read_with(clients_json), BELFRY_OK);
    assert_int_equal(data.table, TOP_CLIENTS);
    assert_int_equal(data.n_clients, 2);
    assert_string_equal(data.clients[0].name, "10.0.0.9");
    assert_string_equal(data.clients[1].name, "//4=");
    assert_string_equal(data.clients[1].class, "tier");
    show(&view);
    assert_non_null(strstr(text, " CPU %    MEMORY    CONNS   WATCHERS    CALLS     REQ/S   CALLS/S      IN/S     "
                                 "OUT/S  CLIENT\n"));
    assert_non_null(strstr(text, "  61.5     20 MB    3,000         12        4      25.5       7.0    2.0 kB    5.0 "
                                 "kB  10.0.0.9\n"));
}

static void pools_in_trouble_are_in_the_head(void **state)
{
    (void)state;
    struct top_view view = {.sort = "", .line_end = "\n"};
    assert_int_equal(read_with(rows_json), BELFRY_OK);
    assert_int_equal(data.numbers.n_troubles, 2);
    show(&view);
    assert_non_null(
        strstr(text, "\npools     connections: clients refused or ended in the last minute at the admin address; "));
    assert_non_null(strstr(text, "\n          calls: clients refused or ended in the last minute in 1 of 2 workers; "));
    assert_non_null(strstr(text, "; 10.0.0.9 holds most, "));
    data.numbers.n_troubles = 0;
    show(&view);
    assert_null(strstr(text, "\npools"));
}

/* An older tier gives no verdict: what it says of its upstream is all there is. */
static void verdict_is_that_of_the_tier(void **state)
{
    (void)state;
    struct top_view view = {.sort = "", .line_end = "\n"};
    static const struct {
        const char *verdict, *why, *shown;
    } rows[] = {{"ready", "", "  READY  "},
                {"not ready", "replica: disk full: /cache", "  NOT READY: replica: disk full: /cache  "},
                {"", "", "  READY  "}};
    assert_int_equal(read_with(rows_json), BELFRY_OK);
    assert_string_equal(data.numbers.standing, "ready");
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        data.numbers.verdict = rows[i].verdict;
        data.numbers.why = rows[i].why;
        show(&view);
        assert_non_null(strstr(text, rows[i].shown));
    }
}

static void screen_shows_what_was_read(void **state)
{
    (void)state;
    struct top_view view = {.sort = "", .line_end = "\n"};
    assert_int_equal(read_with(rows_json), BELFRY_OK);
    show(&view);
    assert_non_null(strstr(text, "belfryd 0.3.0  edge-7  up 1d01h  NOT READY: lag: 0.004 s behind (limit 0 s)  "
                                 "https://etcd-2:2379 > edge-7  (1 of 2 workers"));
    assert_non_null(strstr(text, "rev 48,120,733  lag 2 rev, 4ms   reconnects 2"));
    assert_non_null(strstr(text, "synced 1,000   catching up 3,016   parked 1,009"));
    assert_non_null(strstr(text, "  1,220,118   1.2 GB   3d00h  parked       10.3.8.17:51442        token:3f9a1c  "
                                 "grpc-go/1.81.1    grpc     /services/*\n"));
    assert_non_null(strstr(text, "of-old"));
    assert_non_null(strstr(text, "[a, b1)"));
    assert_non_null(strstr(text, "base64://4="));
    assert_null(strchr(text, '\033')); /* a client's name moves no cursor */
    assert_null(strstr(text, "\xc2\x9b"));
    assert_non_null(strstr(text, "evil?[2J?"));
    assert_int_equal(read_with(groups_json), BELFRY_OK);
    show(&view);
    assert_non_null(strstr(text, "    201,204            1           77  /flags/*\n"));
    assert_non_null(strstr(text, "(others)\n"));
}

static void selectors_are_shown_as_kubectl_takes_them(void **state)
{
    static const char *const rows[][2] = {
        {"", "pods -A\n"},
        {"labelSelector=app=web", "pods -A -l app=web\n"},
        {"fieldSelector=a.b=c", "pods -A --field-selector a.b=c\n"},
        {"labelSelector=a=b&fieldSelector=c=d", "pods -A -l a=b --field-selector c=d\n"},
    };
    struct top_view view = {.sort = "", .line_end = "\n"};
    char json[512];
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        snprintf(json, sizeof(json),
                 "{\"revision\":5,\"watchers\":1,\"matched\":1,\"rows\":[{\"lag\":0,\"state\":\"synced\",\"dialect\":"
                 "\"kube\",\"range\":\"pods -A\",\"selector\":\"%s\",\"key\":\"/pods/\",\"prefix\":true}]}\n",
                 rows[i][0]);
        assert_int_equal(read_with(json), BELFRY_OK);
        show(&view);
        if (strstr(text, rows[i][1]) == NULL)
            fail_msg("no '%s' in %s", rows[i][1], text);
    }
}

static void screen_stays_within_the_terminal(void **state)
{
    (void)state;
    assert_int_equal(read_with(rows_json), BELFRY_OK);
    for (size_t columns = 1; columns < 200; columns += 13) {
        struct top_view view = {.sort = "sent", .line_end = "\n", .columns = columns, .lines = 9};
        size_t lines = 0;
        show(&view);
        for (const char *at = text; *at != '\0'; lines++) {
            size_t len = strcspn(at, "\n");
            assert_true(len <= columns);
            at += len + 1;
        }
        assert_int_equal(lines, 8);
    }
}

/* The line of the text that has the words. */
static const char *line_with(const char *words)
{
    static char line[512];
    const char *at = strstr(text, words);
    if (at == NULL)
        fail_msg("no '%s' in %s", words, text);
    while (at > text && at[-1] != '\n')
        at--;
    snprintf(line, sizeof(line), "%.*s", (int)strcspn(at, "\n"), at);
    return line;
}

static void eighty_columns_have_what_matters_and_the_column_that_sorts(void **state)
{
    struct top_view view = {.sort = "lag", .line_end = "\n", .columns = 80};
    (void)state;
    assert_int_equal(read_with(rows_json), BELFRY_OK);
    show(&view);
    assert_string_equal(line_with("RANGE"), "       LAG*  STATE        RANGE                            PEER");
    assert_string_equal(line_with("/services/*"),
                        "  1,220,118  parked       /services/*                      10.3.8.17:51442");
    view.sort = "sent";
    show(&view);
    assert_string_equal(line_with("RANGE"), "        LAG    SENT*  STATE        RANGE                   PEER");
    view.sort = "age";
    show(&view);
    assert_non_null(strstr(line_with("RANGE"), "AGE*"));
    assert_string_equal(line_with("watchers "),
                        "watchers  5,025   synced 1,000   catching up 3,016   parked 1,009   grpc 5,025");
    view.columns = 120;
    view.sort = "lag";
    show(&view);
    assert_string_equal(line_with("RANGE"),
                        "       LAG*     SENT     AGE  STATE        RANGE                             "
                        "        PEER                   WHO");
    assert_int_equal(read_with(clients_json), BELFRY_OK);
    view.columns = 80;
    view.sort = "connections";
    show(&view);
    assert_string_equal(line_with("CLIENT"), " CPU %    MEMORY   CONNS*   WATCHERS    CALLS     REQ/S  CLIENT");
}

static void rows_are_scrolled(void **state)
{
    struct top_view view = {.sort = "lag", .line_end = "\n", .columns = 80, .lines = 12, .first = 1};
    (void)state;
    assert_int_equal(read_with(rows_json), BELFRY_OK);
    assert_int_equal(top_screen_page(&data, &view), 2);
    show(&view);
    assert_null(strstr(text, "/services/*"));
    assert_non_null(strstr(text, "[a, b1)"));
    view.first = 3;
    show(&view);
    assert_null(strstr(text, "[a, b1)"));
}

static void help_fits_a_small_terminal(void **state)
{
    struct top_view view = {.sort = "lag", .line_end = "\n", .columns = 80, .lines = 24};
    size_t lines = 0;
    (void)state;
    FILE *out = fmemopen(text, sizeof(text), "w");
    assert_non_null(out);
    view.columns = 200;
    top_screen_write_help(out, &view);
    assert_int_equal(fclose(out), 0);
    for (const char *at = text; *at != '\0'; lines++) {
        size_t len = strcspn(at, "\n");
        if (len > 80)
            fail_msg("%zu columns: %.*s", len, (int)len, at);
        at += len + 1;
    }
    assert_true(lines > 10 && lines < 24);
}

static void resources_have_a_line_of_their_own(void **state)
{
    static const char resources[] =
        "{\"name\":\"t\",\"resources\":["
        "{\"name\":\"pods\",\"state\":\"live\",\"ready\":1,\"objects\":1200,\"proofs\":3},"
        "{\"name\":\"nodes\",\"state\":\"listing\",\"ready\":0,\"objects\":34,\"proofs\":4},"
        "{\"name\":\"widgets.demo.example.com\",\"state\":\"absent\",\"ready\":0}]}";
    struct top_view view = {.sort = "", .line_end = "\n"};
    (void)state;
    top_data_fini(&data);
    assert_int_equal(top_data_read(resources, strlen(resources), rows_json, strlen(rows_json), &data), BELFRY_OK);
    assert_int_equal(data.numbers.resources.n, 3);
    show(&view);
    assert_non_null(strstr(text, "resources 1 of 3 ready   nodes listing   absent 1   objects 1,234   proofs 7\n"));
}

static void rates_are_of_the_time_between(void **state)
{
    (void)state;
    assert_int_equal(read_with(rows_json), BELFRY_OK);
    struct top_numbers before = data.numbers;
    before.follower.events -= 50;
    before.relay.relayed -= 10;
    before.reads.replica_serializable -= 40;
    before.reads.upstream_linearizable -= 2;
    memset(before.latency, 0, sizeof(before.latency));
    struct top_view view = {.before = &before, .elapsed_ms = 2000, .sort = "", .line_end = "\n"};
    show(&view);
    assert_non_null(strstr(text, "in 25 ev/s"));
    assert_non_null(strstr(text, "relayed 5/s"));
    assert_non_null(strstr(text, "reads 20/s, by upstream 1/s"));
    assert_non_null(strstr(text, "p50 <"));
    assert_non_null(strstr(text, "p99 >3s"));
    before = data.numbers;
    show(&view);
    assert_non_null(strstr(text, "p50 - p99 -"));
}

/* ---- the last hour ---- */

static const char two_columns[] =
    "{\"every_s\":5,\"samples\":720,\"bytes\":1,\"columns\":[\"time_s\",\"deliveries\",\"p99_ms\",\"memory_bytes\"],"
    "\"first\":0,\"rows\":[[1,null,null,1000],[6,0,null,2000],[11,700,0.4,3000],[16,100,12.8,20000]]}";

#define UNREADABLE "what this belfryd says of its last hour cannot be read\n"

/* The lines below the head, at most so many. */
static const char *show_hour(const char *json, size_t columns, size_t most)
{
    static char body[16384];
    snprintf(body, sizeof(body), "%s", json);
    const struct http_page page = {.body = body, .len = strlen(body)};
    struct top_view view = {.hour = &page, .columns = columns, .line_end = "\n"};
    if (most < SIZE_MAX)
        for (view.lines = data.numbers.n_troubles + 1; top_screen_page(&data, &view) < most;)
            view.lines++;
    show(&view);
    const char *blank = strstr(text, "\n\n");
    return blank == NULL ? "" : blank + 2;
}

static void each_number_of_the_hour_has_a_line(void **state)
{
    (void)state;
    assert_int_equal(read_with(rows_json), BELFRY_OK);
    assert_string_equal(show_hour(two_columns, 0, SIZE_MAX),
                        "LAST HOUR                 NOW       LARGEST   of 20s; a restart forgets it\n"
                        "deliveries              100/s         700/s   ▁█▂\n"
                        "delivery p99          12.8 ms       12.8 ms    ▁█\n"
                        "memory                  20 kB         20 kB  ▁▂▂█\n");
}

static void of_the_hour_what_does_not_fit_is_left_out(void **state)
{
    (void)state;
    assert_int_equal(read_with(rows_json), BELFRY_OK);
    assert_string_equal(show_hour(two_columns, 44, 2), "LAST HOUR                 NOW       LARGEST\n"
                                                       "deliveries              100/s         700/s\n");
    assert_string_equal(show_hour(two_columns, 0, 0), "");
    assert_string_equal(show_hour("404", 0, 0), "");
}

/* 600 samples, of which one is large: it is in the course though a column stands for ten of them. */
static void a_long_hour_keeps_its_peaks(void **state)
{
    char json[16384];
    size_t at = (size_t)snprintf(json, sizeof(json), "{\"every_s\":5,\"columns\":[\"time_s\",\"events\"],\"rows\":[");
    (void)state;
    assert_int_equal(read_with(rows_json), BELFRY_OK);
    for (int i = 0; i < 600; i++)
        at += (size_t)snprintf(json + at, sizeof(json) - at, "%s[%d,%d]", i > 0 ? "," : "", i, i == 305 ? 9000 : 1);
    snprintf(json + at, sizeof(json) - at, "]}");
    const char *hour = show_hour(json, 0, SIZE_MAX), *peak = strstr(hour, "█");
    assert_non_null(peak);
    assert_null(strstr(peak + 1, "█"));
    assert_non_null(strstr(hour, "9,000/s"));
    assert_non_null(strstr(hour, "of 50m"));
}

static void other_documents_of_an_hour_cannot_be_read_or_have_no_lines(void **state)
{
    (void)state;
    static const char *const others[] = {"404", "{", "{\"columns\":[],\"rows\":{}}"};
    assert_int_equal(read_with(rows_json), BELFRY_OK);
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        assert_string_equal(show_hour(others[i], 0, SIZE_MAX), UNREADABLE);
    assert_non_null(strstr(show_hour("{\"columns\":[\"events\",7],\"rows\":[]}", 0, SIZE_MAX), "events in"));
    assert_non_null(strstr(show_hour("{\"columns\":[\"events\"],\"rows\":[[\"x\"],7,[-3e300],[1e300]]}", 0, SIZE_MAX),
                           "events in"));
}

static enum belfry_err hour_scenario(void)
{
    return strcmp(show_hour(two_columns, 0, SIZE_MAX), UNREADABLE) == 0 ? BELFRY_ERR_NOMEM : BELFRY_OK;
}

static void an_hour_without_memory_cannot_be_read(void **state)
{
    (void)state;
    assert_int_equal(read_with(rows_json), BELFRY_OK);
    assert_true(refuse_sweep(hour_scenario) >= 1);
}

/* ---- ages and numbers ---- */

static void ages_and_numbers_are_for_people(void **state)
{
    (void)state;
    static const struct {
        uint64_t ms;
        const char *age;
    } rows[] = {{0, "0ms"}, {999, "999ms"}, {59999, "59s"}, {61000, "1m01s"}, {3600000, "1h00m"}, {90000000, "1d01h"}};
    char out[TOP_TEXT];
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        top_text_age(rows[i].ms, out);
        assert_string_equal(out, rows[i].age);
    }
    top_text_number(UINT64_MAX, out);
    assert_string_equal(out, "18,446,744,073,709,551,615");
    top_text_number(999, out);
    assert_string_equal(out, "999");
}

static enum belfry_err scenario(void)
{
    enum belfry_err err = read_with(rows_json);
    if (err == BELFRY_OK)
        err = read_with(groups_json);
    if (err == BELFRY_OK)
        err = read_with(clients_json);
    top_data_fini(&data);
    return err;
}

static void every_refused_allocation_is_told(void **state)
{
    (void)state;
    assert_true(refuse_sweep(scenario) >= 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(numbers_of_the_daemon_are_found, clean),
        cmocka_unit_test_teardown(rows_and_groups_are_read, clean),
        cmocka_unit_test_teardown(clients_are_read_and_shown, clean),
        cmocka_unit_test_teardown(pools_in_trouble_are_in_the_head, clean),
        cmocka_unit_test_teardown(verdict_is_that_of_the_tier, clean),
        cmocka_unit_test_teardown(other_json_is_refused_or_read_as_nothing, clean),
        cmocka_unit_test_teardown(screen_shows_what_was_read, clean),
        cmocka_unit_test_teardown(selectors_are_shown_as_kubectl_takes_them, clean),
        cmocka_unit_test_teardown(screen_stays_within_the_terminal, clean),
        cmocka_unit_test_teardown(eighty_columns_have_what_matters_and_the_column_that_sorts, clean),
        cmocka_unit_test_teardown(rows_are_scrolled, clean),
        cmocka_unit_test_teardown(help_fits_a_small_terminal, clean),
        cmocka_unit_test_teardown(resources_have_a_line_of_their_own, clean),
        cmocka_unit_test_teardown(rates_are_of_the_time_between, clean),
        cmocka_unit_test_teardown(each_number_of_the_hour_has_a_line, clean),
        cmocka_unit_test_teardown(of_the_hour_what_does_not_fit_is_left_out, clean),
        cmocka_unit_test_teardown(a_long_hour_keeps_its_peaks, clean),
        cmocka_unit_test_teardown(other_documents_of_an_hour_cannot_be_read_or_have_no_lines, clean),
        cmocka_unit_test_teardown(an_hour_without_memory_cannot_be_read, clean),
        cmocka_unit_test(ages_and_numbers_are_for_people),
        cmocka_unit_test_teardown(every_refused_allocation_is_told, clean),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
