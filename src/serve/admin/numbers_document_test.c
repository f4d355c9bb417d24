/* src/serve/admin/numbers_document_test.c
 *
 *     numbers_document_test --print     prints what support/numbers_json.h holds
 */
#include "serve/admin/numbers_document.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "support/numbers_json.h"
#include "support/refuse.h"

static struct worker_numbers workers[2];
static const struct belfry_endpoint endpoints[] = {{.url = "https://etcd-1:2379"}, {.url = "https://etcd-2:2379"}};
static char services[] = "/services/", *const scope[] = {services};

/* Every number another. */
static void fill_worker(struct worker_numbers *w)
{
    w->answered = true;
    w->position = 48120730;
    w->turns = 99;
    w->longest_turn_us = 1800;
    w->core = (struct worker_stats){.streams = 1000,
                                    .watchers = 1001,
                                    .nodes = 1002,
                                    .riding = 1003,
                                    .waiting = 1004,
                                    .boarded = 1005,
                                    .stalled = 1006,
                                    .solo = 1007,
                                    .parked = 1008,
                                    .riding_parked = 3,
                                    .bytes = 1009,
                                    .batches = 1010,
                                    .deliveries = 1011,
                                    .written = 1012,
                                    .fetches = 1013,
                                    .rows_swept = 1014,
                                    .handovers = 1015,
                                    .parks = 1016,
                                    .unparks = 1017,
                                    .overslept = 1018,
                                    .cuts = 1019,
                                    .extents = 1020,
                                    .fragments = 1021,
                                    .packed = 1022,
                                    .compacted = 1023,
                                    .progress = 1024};
    w->watch = (struct watch_stats){.streams = 1100,
                                    .asking = 1101,
                                    .opened = 1102,
                                    .requests = 1113,
                                    .creates = 1114,
                                    .cancels = 1115,
                                    .progress = 1116,
                                    .expelled = 1118,
                                    .refused = 1117,
                                    .refused_share = 1119,
                                    .refused_scope = 1120,
                                    .refused_id = 1121};
    for (int why = 0; why < WATCH_CLOSES; why++)
        w->watch.closed[why] = 1103 + (uint64_t)why;
    w->inbound = (struct inbound_stats){.connections = 1200,
                                        .http1 = 1201,
                                        .http2 = 1202,
                                        .tls = 1203,
                                        .bytes = 1204,
                                        .kernel_bytes = 1205,
                                        .accepted = 1206,
                                        .closed = 1207,
                                        .dead = 1208,
                                        .ended_certificates = 1213,
                                        .refused_heads = 1214,
                                        .refused_floods = 1209,
                                        .bytes_in = 1210,
                                        .bytes_out = 1211,
                                        .writes = 1212};
    for (enum shares_pool pool = 0; pool < SHARES_N; pool++) {
        uint64_t n = 1220 + 10 * (uint64_t)pool;
        w->pools[pool] = (struct pool_numbers){n, n + 1000, n + 2, n + 3, .largest = n + 4, .client = "10.0.0.9"};
    }
    w->pools[SHARES_CALLS].in_trouble = 1;
    w->relay = (struct relay_stats){.running = 1300,
                                    .relayed = 1301,
                                    .refused = 1302,
                                    .failed = 1303,
                                    .bytes_up = 1304,
                                    .bytes_down = 1305,
                                    .inquiries = 1306,
                                    .inquiries_relayed = 1307};
    w->reads = (struct reads_stats){
        .replica = {1310, 1311}, .upstream = {1312, 1313}, .stale = 1314, .failed = 1315, .parts = 1316};
    w->permit = (struct permit_stats){.asked = 1400,
                                      .shared = 1409,
                                      .granted = 1401,
                                      .refused = 1402,
                                      .unavailable = 1403,
                                      .status_calls = 1404,
                                      .rights = {.bearers = 1405, .warrants = 1406, .paused = 1407, .pauses = 1408}};
    w->uplink = (struct uplink_stats){
        .calls = 1500, .connections = 1501, .opened = 1502, .connects = 1503, .losses = 1504, .unavailable = 1505};
    w->kube = (struct kube_stats){.watches = 1600,
                                  .held = 1601,
                                  .opened = 1602,
                                  .lines = 1603,
                                  .bookmarks = 1604,
                                  .expired = 1605,
                                  .refused = 1606,
                                  .too_many = 1607,
                                  .undecodable = 1608,
                                  .skipped = 1609,
                                  .forms_made = 1610,
                                  .forms_shared = 1611,
                                  .forms_bytes = 1612,
                                  .bytes = 1613,
                                  .slow = 1614,
                                  .expelled = 1615};
    w->kube_lists = (struct kube_lists_stats){.active = 1700,
                                              .waiting = 1701,
                                              .lists = 1702,
                                              .gets = 1703,
                                              .objects = 1704,
                                              .bytes = 1705,
                                              .expired = 1706,
                                              .timeouts = 1707,
                                              .undecodable = 1708,
                                              .skipped = 1709};
    w->fence = (struct fence_stats){.asked = 1800, .questions = 1801, .failed = 1802};
    w->sse = (struct sse_stats){.streams = 1900,
                                .opened = 1901,
                                .messages = 1902,
                                .snapshots = 1903,
                                .resets = 1904,
                                .later = 1905,
                                .refused = 1906,
                                .expelled = 1907,
                                .slow = 1908,
                                .forms_made = 1909,
                                .forms_shared = 1910,
                                .bytes = 1911};
    w->kfront = (struct kfront_stats){.answered = 2000,
                                      .relay = {.running = 2001,
                                                .passed = {2002, 2003, 2004, 2005, 2006, 2007},
                                                .copies_sent = 2008,
                                                .documents = 2009,
                                                .repeated = 2010,
                                                .failed = 2011,
                                                .cut = 2012,
                                                .bytes_up = 2013,
                                                .bytes_down = 2014},
                                      .refused_upgrades = 2015};
    w->reviews = (struct reviews_stats){.token_reviews = 2100,
                                        .access_reviews = 2101,
                                        .bad_tokens = 2102,
                                        .forbidden = 2103,
                                        .failed = 2104,
                                        .under_way = 2105,
                                        .users = 2106};
    for (size_t i = 0; i <= LATENCY_BUCKETS; i++)
        w->latency.buckets[i] = i;
    w->latency.count = 136;
    w->latency.sum_s = 0.75;
}

static struct tier_numbers make_numbers(void)
{
    memset(workers, 0, sizeof(workers));
    fill_worker(&workers[0]);
    struct tier_numbers n = {.now_ms = 90061000, .name = "edge-7", .version = "0.3.0", .upstream_answered = true};
    n.upstream = (struct driver_status){.standing = DRIVER_READY, .state = UPSTREAM_LIVE, .silent_ms = 4};
    n.upstream.revision = 48120733;
    n.upstream.committed = 48120732;
    n.upstream.upstream_revision = 48120735;
    snprintf(n.upstream.endpoint, sizeof(n.upstream.endpoint), "https://etcd-2:2379");
    snprintf(n.upstream.version, sizeof(n.upstream.version), "3.5.16");
    n.upstream.identity = (struct belfry_wire_header){.cluster_id = UINT64_MAX, .member_id = 8, .raft_term = 2};
    n.upstream.connects = 5;
    n.upstream.losses = 2;
    n.upstream.backfills = 1;
    n.upstream.backfills_done = 7;
    n.upstream.stats = (struct upstream_stats){.revisions = 100,
                                               .events = 101,
                                               .overlaps = 102,
                                               .listings = 103,
                                               .relists_compacted = 104,
                                               .relists_rewritten = 105,
                                               .relists_unproven = 115,
                                               .relists_damaged = 116,
                                               .breaches = 106,
                                               .judgements = 107,
                                               .replays = 108,
                                               .windows = 109,
                                               .pages = 110,
                                               .pages_repeated = 111,
                                               .gaps = 112,
                                               .stale = 113};
    n.replica = (struct replica_stats){.state_rows = 200,
                                       .history_rows = 201,
                                       .history_bytes = 202,
                                       .used_bytes = 203,
                                       .map_bytes = 204,
                                       .commits = 205,
                                       .trimmed = 206,
                                       .io_errors = 207,
                                       .damages = 208};
    n.history_oldest = 44000000;
    n.history_newest = 48120732;
    n.log_oldest = 47900000;
    n.log_newest = 48120733;
    n.log_bytes = 268435456;
    n.listeners = (struct listener_stats){.accepted = 300, .refused = 301};
    n.admin.pools[SHARES_CONNECTIONS] =
        (struct pool_numbers){.used = 50, .limit = 100, .in_trouble = 1, .largest = 40, .client = "10.0.0.8"};
    n.admin.connections = 302;
    n.admin.refused = 303;
    n.admin.refused_pages = 304;
    n.listeners_left_s = 7689600;
    n.upstream_left_s = BELFRY_NEVER;
    n.clock_ms = 1763373600000;
    n.descriptors = 1048576;
    n.disk_free_bytes = 50000000000;
    n.advertise = "https://edge-7:23790";
    n.endpoints = endpoints;
    n.n_endpoints = 2;
    n.scope = scope;
    n.n_scope = 1;
    n.upstream.barred = 1;
    n.memory_max = 1 << 30;
    n.n_workers = 2;
    n.workers = workers;
    return n;
}

static char *text_of(const struct tier_numbers *numbers)
{
    struct belfry_buf buf = {0};
    assert_int_equal(numbers_write(numbers, NUMBERS_WHOLE, &buf), BELFRY_OK);
    assert_int_equal(belfry_buf_append(&buf, "", 1), BELFRY_OK);
    return (char *)buf.data;
}

/* The same text is what belfryctl's reader is tested with (cli/top_data_test.c). */
static void everything_is_written_under_the_names_that_readers_know(void **state)
{
    (void)state;
    struct tier_numbers numbers = make_numbers();
    char *text = text_of(&numbers);
    assert_string_equal(text, numbers_json()); /* another form: change the reader too, then --print */
    free(text);
}

static void what_did_not_answer_is_left_out(void **state)
{
    (void)state;
    struct tier_numbers numbers = make_numbers();
    numbers.upstream_answered = false;
    char *text = text_of(&numbers);
    assert_non_null(strstr(text, "\"upstream\":{\"answered\":false},"));
    assert_non_null(strstr(text, ",{\"answered\":false}]}\n"));
    free(text);
    numbers.upstream_answered = true;
    numbers.upstream.silent_ms = BELFRY_NEVER;
    text = text_of(&numbers);
    assert_null(strstr(text, "silent_ms"));
    free(text);
}

static void upstream_alone_is_the_same_object(void **state)
{
    (void)state;
    struct tier_numbers numbers = make_numbers();
    struct belfry_buf buf = {0};
    assert_int_equal(numbers_write_upstream(&numbers, &buf), BELFRY_OK);
    size_t len = belfry_buf_len(&buf) - 1; /* without its newline */
    const char *whole = strstr(numbers_json(), "\"upstream\":");
    assert_non_null(whole);
    assert_memory_equal(buf.data, whole + strlen("\"upstream\":"), len);
    belfry_buf_fini(&buf);
}

static enum belfry_err scenario(void)
{
    struct belfry_buf buf = {0};
    struct tier_numbers numbers = make_numbers();
    enum belfry_err err = numbers_write(&numbers, NUMBERS_WHOLE, &buf);
    if (err == BELFRY_OK)
        err = numbers_write_upstream(&numbers, &buf);
    belfry_buf_fini(&buf);
    return err;
}

static void every_refused_allocation_is_told(void **state)
{
    (void)state;
    assert_true(refuse_sweep(scenario) > 3);
}

int main(int argc, char *argv[])
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_is_written_under_the_names_that_readers_know),
        cmocka_unit_test(what_did_not_answer_is_left_out),
        cmocka_unit_test(upstream_alone_is_the_same_object),
        cmocka_unit_test(every_refused_allocation_is_told),
    };
    if (argc == 2 && strcmp(argv[1], "--print") == 0) {
        struct tier_numbers numbers = make_numbers();
        char *text = text_of(&numbers);
        fputs(text, stdout);
        free(text);
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
