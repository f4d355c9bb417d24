/* src/serve/admin/admin_test.c: the pages over an exchange that writes down what it is told. */
#include "serve/admin/admin.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "serve/admin/page_data.h"
#include "support/fakeshares.h"
#include "support/refuse.h"

/* ---- an exchange ---- */

struct fake {
    struct exchange x; /* first */
    int status;
    char type[64], allow[32], retry_after[8], length[24], policy[256];
    struct belfry_buf body;
    size_t room, taken;
    bool responded, ended, reset;
    bool no_memory; /* here, not in what is tested */
};

static void note_fields(struct fake *fake, const struct belfry_http_field *fields, size_t n)
{
    const struct {
        const char *name;
        char *to;
        size_t len;
    } wanted[] = {{"content-type", fake->type, sizeof(fake->type)},
                  {"allow", fake->allow, sizeof(fake->allow)},
                  {"retry-after", fake->retry_after, sizeof(fake->retry_after)},
                  {"content-length", fake->length, sizeof(fake->length)},
                  {"content-security-policy", fake->policy, sizeof(fake->policy)}};
    for (size_t i = 0; i < n; i++) {
        for (size_t w = 0; w < sizeof(wanted) / sizeof(wanted[0]); w++) {
            if (belfry_bytes_equal(fields[i].name, belfry_bytes_str(wanted[w].name)))
                snprintf(wanted[w].to, wanted[w].len, "%.*s", (int)fields[i].value.len, fields[i].value.data);
        }
    }
}

static void fake_taken(struct exchange *x, size_t n)
{
    ((struct fake *)x)->taken += n;
}

static void fake_respond(struct exchange *x, int status, const struct belfry_http_field *fields, size_t n)
{
    struct fake *fake = (struct fake *)x;
    assert_false(fake->responded);
    fake->responded = true;
    fake->status = status;
    note_fields(fake, fields, n);
}

static size_t fake_room(struct exchange *x)
{
    return ((struct fake *)x)->room;
}

static void fake_append(struct fake *fake, const void *data, size_t len)
{
    uint8_t *to = realloc(fake->body.data, fake->body.end + len + 1);
    fake->no_memory = fake->no_memory || to == NULL;
    if (to == NULL)
        return;
    memcpy(to + fake->body.end, data, len);
    fake->body.data = to;
    fake->body.end += len;
    to[fake->body.end] = '\0';
}

static void fake_write(struct exchange *x, const void *data, size_t len)
{
    struct fake *fake = (struct fake *)x;
    assert_true(fake->responded && len <= fake->room);
    fake->room -= len;
    fake_append(fake, data, len);
}

static void fake_end(struct exchange *x, const struct belfry_http_field *trailers, size_t n)
{
    (void)trailers;
    assert_int_equal(n, 0);
    ((struct fake *)x)->ended = true;
}

static void fake_answer(struct exchange *x, int status, const struct belfry_http_field *fields, size_t n,
                        struct belfry_bytes body)
{
    struct fake *fake = (struct fake *)x;
    fake_respond(x, status, fields, n);
    if (body.len > 0)
        fake_append(fake, body.data, body.len);
    fake->ended = true;
}

static void fake_reset(struct exchange *x, uint32_t code)
{
    (void)code;
    ((struct fake *)x)->reset = true;
}

static const struct exchange_ops fake_ops = {fake_taken, fake_respond, fake_room, fake_write,
                                             fake_end,   fake_answer,  fake_reset};
static struct exchange_conn conn;

static void fake_fini(struct fake *fake)
{
    free(fake->body.data);
}

static const char *body(const struct fake *fake)
{
    return fake->body.data == NULL ? "" : (const char *)fake->body.data;
}

/* ---- workers ---- */

static struct {
    admin_numbers_fn numbers[64];
    admin_scans_fn scans[64];
    admin_clients_fn clients[64];
    void *users[64];
    size_t n;
    enum belfry_err err;
    struct watchers_query query;
    struct clients_query clients_query;
} asked;

static enum belfry_err collect(admin_numbers_fn fn, void *fn_user, void *user)
{
    assert_ptr_equal(user, &asked);
    if (asked.err == BELFRY_OK) {
        asked.numbers[asked.n] = fn;
        asked.scans[asked.n] = NULL;
        asked.clients[asked.n] = NULL;
        asked.users[asked.n++] = fn_user;
    }
    return asked.err;
}

static enum belfry_err scan(const struct watchers_query *query, admin_scans_fn fn, void *fn_user, void *user)
{
    assert_ptr_equal(user, &asked);
    if (asked.err == BELFRY_OK) {
        asked.query = *query;
        asked.scans[asked.n] = fn;
        asked.clients[asked.n] = NULL;
        asked.users[asked.n++] = fn_user;
    }
    return asked.err;
}

static enum belfry_err scan_clients(const struct clients_query *query, admin_clients_fn fn, void *fn_user, void *user)
{
    assert_ptr_equal(user, &asked);
    if (asked.err == BELFRY_OK) {
        asked.clients_query = *query;
        asked.clients[asked.n] = fn;
        asked.users[asked.n++] = fn_user;
    }
    return asked.err;
}

static struct worker_numbers workers[400];
static struct tier_numbers numbers;

static void reset_numbers(void)
{
    memset(workers, 0, sizeof(workers));
    for (size_t i = 0; i < 400; i++)
        workers[i].answered = true;
    numbers = (struct tier_numbers){.name = "edge-7", .version = "0.3.0", .n_workers = 2, .workers = workers};
    numbers.ready_lag_ms = 5000;
    numbers.upstream_answered = true;
    numbers.upstream = (struct driver_status){.standing = DRIVER_READY, .state = UPSTREAM_LIVE, .silent_ms = 400};
    asked.n = 0;
    asked.err = BELFRY_OK;
}

/* A worker without clients. */
static enum belfry_err answer_clients(size_t i)
{
    struct shares shares;
    struct clients_scan *scans[1] = {NULL};
    shares_init(&shares, &(struct shares_limits){0}, 7, NULL, NULL);
    enum belfry_err err = clients_scan_create(&asked.clients_query, &shares, &scans[0]);
    if (err == BELFRY_OK)
        assert_true(clients_scan_step(scans[0], 1));
    shares_fini(&shares);
    asked.clients[i](scans, err == BELFRY_OK, asked.users[i]);
    return err;
}

static enum belfry_err answer_one(size_t i)
{
    if (asked.clients[i] != NULL)
        return answer_clients(i);
    if (asked.scans[i] == NULL) {
        asked.numbers[i](&numbers, asked.users[i]);
        return BELFRY_OK;
    }
    struct watchers_scan *scans[1] = {NULL}; /* never stepped: nobody watches */
    enum belfry_err err = watchers_scan_create(&asked.query, NULL, NULL, 77, 0, &scans[0]);
    asked.scans[i](scans, err == BELFRY_OK, asked.users[i]);
    return err;
}

static void answer_all(void)
{
    for (size_t i = 0; i < asked.n; i++)
        assert_int_equal(answer_one(i), BELFRY_OK);
    asked.n = 0;
}

static struct admin *admin;
static struct log_lines lines;

static int set_up(void **state)
{
    (void)state;
    reset_numbers();
    static char app[] = "https://app.example", *const origins[] = {app};
    struct admin_opts opts = {.collect = collect,
                              .scan = scan,
                              .clients = scan_clients,
                              .user = &asked,
                              .cors = {origins, 1},
                              .lines = &lines};
    return log_lines_init(&lines) != BELFRY_OK || admin_create(&opts, &admin) != BELFRY_OK;
}

static int tear_down(void **state)
{
    (void)state;
    admin_destroy(admin);
    admin = NULL;
    log_lines_fini(&lines);
    return 0;
}

/* With one field; "": none. */
static void begin_with(struct fake *fake, const char *method, const char *path, const char *name, const char *value)
{
    *fake = (struct fake){.x = {.ops = &fake_ops, .conn = &conn}, .room = EXCHANGE_ROOM};
    struct belfry_http_field field = {belfry_bytes_str(name), belfry_bytes_str(value)};
    struct exchange_head head = {.method = belfry_bytes_str(method),
                                 .path = belfry_bytes_str(path),
                                 .fields = &field,
                                 .n_fields = name[0] != '\0'};
    admin_begin(&fake->x, &head, admin);
}

static void begin(struct fake *fake, const char *method, const char *path)
{
    begin_with(fake, method, path, "", "");
}

static struct fake get(const char *path)
{
    static struct fake fake;
    begin(&fake, "GET", path);
    answer_all();
    assert_true(fake.ended);
    return fake;
}

/* ---- tests ---- */

static void every_page_of_the_list_is_there(void **state)
{
    (void)state;
    struct fake fake = get("/");
    assert_int_equal(fake.status, 200);
    static const struct {
        const char *path, *type, *has;
    } rows[] = {{"/livez", "text/plain; charset=utf-8", "ok\n"},
                {"/readyz", "text/plain; charset=utf-8", "ok\n"},
                {"/metrics", "text/plain; version=0.0.4; charset=utf-8", "\nbelfry_workers 2\n"},
                {"/debug/watchers", "application/json", "\"revision\":77"},
                {"/debug/clients", "application/json", "\"left_out\":0"},
                {"/debug/upstream", "application/json", "\"state\":\"live\""},
                {"/debug/tree", "application/json", "\"above\":["},
                {"/debug/numbers", "application/json", "\"name\":\"edge-7\""},
                {"/debug/hour", "application/json", "\"samples\":720"},
                {"/debug/log", "application/json", "\"kept\":64"}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_non_null(strstr(body(&fake), rows[i].path));
        struct fake one = get(rows[i].path);
        assert_int_equal(one.status, 200);
        assert_string_equal(one.type, rows[i].type);
        assert_non_null(strstr(body(&one), rows[i].has));
        fake_fini(&one);
    }
    fake_fini(&fake);
}

static void tree_for_people_is_text(void **state)
{
    (void)state;
    struct fake fake = get("/debug/tree?format=text");
    assert_int_equal(fake.status, 200);
    assert_string_equal(fake.type, "text/plain; charset=utf-8");
    assert_non_null(strstr(body(&fake), "level name "));
    fake_fini(&fake);
}

static void other_methods_and_paths_are_refused_with_a_hint(void **state)
{
    (void)state;
    struct fake fake;
    begin(&fake, "POST", "/livez");
    assert_int_equal(fake.status, 405);
    assert_string_equal(fake.allow, "GET, HEAD");
    fake_fini(&fake);
    static const char *const unknown[] = {"/metric", "/livez/", "", "*", "/debug", "//", "/page"};
    for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++) {
        fake = get(unknown[i]);
        assert_int_equal(fake.status, 404);
        assert_non_null(strstr(body(&fake), "/metrics"));
        fake_fini(&fake);
    }
    fake = get("/debug/watchers?limit=1000000");
    assert_int_equal(fake.status, 400);
    assert_string_equal(body(&fake), "limit: a number from 1 to 10000\n");
    fake_fini(&fake);
}

static void head_has_no_body(void **state)
{
    (void)state;
    static const char *const paths[] = {"/", "/livez", "/metrics", "/debug/numbers", "/nowhere"};
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        struct fake fake;
        begin(&fake, "HEAD", paths[i]);
        answer_all();
        assert_true(fake.ended);
        assert_int_equal(fake.status, i < 4 ? 200 : 404);
        assert_int_equal(fake.body.end, 0);
        assert_true(fake.type[0] != '\0');
    }
}

static void assert_ready(int status, const char *text)
{
    struct fake fake = get("/readyz?verbose");
    assert_int_equal(fake.status, status);
    assert_string_equal(body(&fake), text);
    fake_fini(&fake);
}

static void readiness_names_each_check(void **state)
{
    (void)state;
    assert_ready(
        200, "[+]upstream ok\n[+]lag ok\n[+]replica ok\n[+]workers ok\n[+]rights ok\n[+]drain ok\n[+]pools ok\nok\n");
    numbers.upstream.silent_ms = 12000;
    assert_ready(503, "[+]upstream ok\n[-]lag: 12 s behind (limit 5 s)\n[+]replica ok\n[+]workers ok\n[+]rights "
                      "ok\n[+]drain ok\n[+]pools ok\nnot ready\n");
    struct fake fake = get("/readyz");
    assert_int_equal(fake.status, 503);
    assert_string_equal(body(&fake), "[-]lag: 12 s behind (limit 5 s)\nnot ready\n");
    fake_fini(&fake);
    reset_numbers();
    numbers.upstream.standing = DRIVER_NOT_READY;
    numbers.upstream.silent_ms = BELFRY_NEVER;
    snprintf(numbers.upstream.reason, sizeof(numbers.upstream.reason),
             "upstream http://a:1 unreachable (connection refused)");
    assert_ready(503, "[-]upstream http://a:1 unreachable (connection refused)\n[-]lag: not known yet (limit 5 s)\n"
                      "[+]replica ok\n[+]workers ok\n[+]rights ok\n[+]drain ok\n[+]pools ok\nnot ready\n");
    reset_numbers();
    numbers.upstream.disk_trouble = true; /* it follows, from memory, and should get no more clients */
    snprintf(numbers.upstream.disk_why, sizeof(numbers.upstream.disk_why), "disk full: /var/cache/belfry");
    assert_ready(503, "[+]upstream ok\n[+]lag ok\n[-]replica: disk full: /var/cache/belfry\n[+]workers ok\n[+]rights "
                      "ok\n[+]drain ok\n[+]pools ok\n"
                      "not ready\n");
    reset_numbers();
    numbers.upstream_answered = false;
    numbers.draining = true;
    workers[1].answered = false;
    assert_ready(503, "[-]upstream: the follower did not answer\n[-]lag: not known yet (limit 5 s)\n"
                      "[+]replica ok\n[-]workers: 1 of 2 did not answer\n[+]rights ok\n[-]drain: the tier "
                      "drains\n[+]pools ok\nnot ready\n");
    reset_numbers();
    numbers.guarded = "http://127.0.0.1:1";
    workers[0].auth = PERMIT_AUTH_ON;
    assert_ready(503,
                 "[+]upstream ok\n[+]lag ok\n[+]replica ok\n[+]workers ok\n[-]rights: it is not known yet whether auth "
                 "is on upstream, and http://127.0.0.1:1 has rights=upstream\n[+]drain ok\n[+]pools ok\nnot ready\n");
    workers[1].auth = PERMIT_AUTH_OFF;
    assert_ready(503, "[+]upstream ok\n[+]lag ok\n[+]replica ok\n[+]workers ok\n[-]rights: auth is off upstream, and "
                      "http://127.0.0.1:1 has rights=upstream\n[+]drain ok\n[+]pools ok\nnot ready\n");
    workers[1].auth = PERMIT_AUTH_ON;
    assert_ready(
        200, "[+]upstream ok\n[+]lag ok\n[+]replica ok\n[+]workers ok\n[+]rights ok\n[+]drain ok\n[+]pools ok\nok\n");
    reset_numbers();
    numbers.upstream.silent_ms = 5000;
    assert_ready(
        200, "[+]upstream ok\n[+]lag ok\n[+]replica ok\n[+]workers ok\n[+]rights ok\n[+]drain ok\n[+]pools ok\nok\n");
}

static void full_pools_are_named_and_the_tier_stays_ready(void **state)
{
    (void)state;
    struct pool_numbers *memory = &workers[0].pools[SHARES_MEMORY], *calls = &workers[1].pools[SHARES_CALLS];
    *memory = (struct pool_numbers){.used = 99, .limit = 100, .in_trouble = 1, .largest = 49, .client = "10.0.0.9"};
    *calls = (struct pool_numbers){.used = 5, .limit = 10, .in_trouble = 1, .largest = 5, .client = "10.0.0.8"};
    assert_ready(200, "[+]upstream ok\n[+]lag ok\n[+]replica ok\n[+]workers ok\n[+]rights ok\n[+]drain ok\n"
                      "[!]pools: memory is full in 1 of 2 workers: 99 % of 100 B in use; 10.0.0.9 holds most, 49 %\n"
                      "[!]pools: calls: clients refused or ended in the last minute in 1 of 2 workers; 50 % of 10 in "
                      "use; 10.0.0.8 holds most, 50 %\nok\n");
    *memory = *calls = (struct pool_numbers){0};
    numbers.admin.pools[SHARES_CONNECTIONS] =
        (struct pool_numbers){.used = 64, .limit = 128, .in_trouble = 1, .largest = 64, .client = "10.0.0.7"};
    assert_ready(200,
                 "[+]upstream ok\n[+]lag ok\n[+]replica ok\n[+]workers ok\n[+]rights ok\n[+]drain ok\n"
                 "[!]pools: connections: clients refused or ended in the last minute at the admin address; 50 % of "
                 "128 in use; 10.0.0.7 holds most, 50 %\nok\n");
    struct fake fake = get("/readyz");
    assert_string_equal(body(&fake), "ok\n");
    fake_fini(&fake);
}

static void large_answer_goes_out_within_the_room(void **state)
{
    (void)state;
    struct fake fake;
    numbers.n_workers = 400;
    begin(&fake, "GET", "/debug/numbers");
    fake.room = 1000;
    answer_all();
    size_t rounds = 0;
    while (!fake.ended) {
        assert_int_equal(fake.room, 0);
        fake.room = 1 + rounds * 1000 % 60000;
        fake.x.events->writable(&fake.x, fake.x.user);
        assert_true(rounds++ < 10000);
    }
    assert_true(rounds > 10);
    assert_true(fake.body.end > 4 * EXCHANGE_ROOM);
    assert_int_equal(strtoul(fake.length, NULL, 10), fake.body.end);
    assert_string_equal(body(&fake) + fake.body.end - 4, "}]}\n");
    fake_fini(&fake);
}

static void pages_of_numbers_share_questions(void **state)
{
    (void)state;
    static struct fake fakes[100];
    struct fake more;
    for (size_t i = 0; i < 100; i++) {
        begin(&fakes[i], "GET", i % 2 == 0 ? "/metrics" : "/debug/numbers");
        assert_false(fakes[i].responded);
    }
    assert_int_equal(asked.n, 1);
    fakes[1].x.events->gone(&fakes[1].x, fakes[1].x.user);
    answer_one(0); /* the question of the first; it asks another for those that came after it */
    assert_int_equal(asked.n, 2);
    assert_true(fakes[0].ended);
    assert_false(fakes[2].ended || fakes[3].ended);
    begin(&more, "GET", "/metrics"); /* not told of numbers from before it came */
    answer_one(1);
    assert_int_equal(asked.n, 3);
    assert_false(more.ended);
    answer_one(2);
    assert_int_equal(asked.n, 3);
    asked.n = 0;
    for (size_t i = 0; i < 100; i++) {
        assert_int_equal(fakes[i].ended, i != 1);
        if (i >= 2)
            assert_string_equal(body(&fakes[i]), body(&fakes[2 + i % 2]));
    }
    for (size_t i = 0; i < 100; i++)
        fake_fini(&fakes[i]);
    assert_int_equal(more.status, 200);
    fake_fini(&more);
}

static void readiness_does_not_wait_for_other_pages(void **state)
{
    (void)state;
    static struct fake busy[200], scans[ADMIN_SCANS + 1], probes[50];
    for (size_t i = 0; i < 200; i++)
        begin(&busy[i], "GET", "/metrics");
    for (size_t i = 0; i <= ADMIN_SCANS; i++)
        begin(&scans[i], "GET", "/debug/watchers");
    assert_int_equal(scans[ADMIN_SCANS].status, 503);
    assert_string_equal(scans[ADMIN_SCANS].retry_after, "1");
    scans[0].x.events->gone(&scans[0].x, scans[0].x.user); /* it still counts: the workers are busy with it */
    struct fake more;
    begin(&more, "GET", "/debug/clients");
    assert_int_equal(more.status, 503);
    fake_fini(&more);

    size_t before = asked.n;
    for (size_t i = 0; i < 50; i++)
        begin(&probes[i], "GET", i % 2 == 0 ? "/readyz" : "/readyz?verbose");
    assert_int_equal(asked.n, before + 1);
    answer_one(before);
    assert_true(probes[0].ended && probes[0].status == 200);
    answer_one(before + 1);
    for (size_t i = 0; i < 50; i++) {
        assert_true(probes[i].ended && probes[i].status == 200);
        fake_fini(&probes[i]);
    }
    asked.n = before;
    answer_all();
    for (size_t i = 0; i < 200; i++)
        fake_fini(&busy[i]);
    for (size_t i = 0; i <= ADMIN_SCANS; i++)
        fake_fini(&scans[i]);
    more = get("/debug/clients");
    assert_int_equal(more.status, 200);
    fake_fini(&more);
}

static void answers_that_are_not_read_count_to_their_client(void **state)
{
    (void)state;
    struct fakeshares shares;
    static struct fake fakes[40];
    struct fake one = get("/metrics");
    size_t len = one.body.end, n = 0, held = 0; /* times are in it: a page may be some bytes longer than another */
    fake_fini(&one);
    fakeshares_init(&shares, SHARES_MEMORY, 21 * len, 50);
    assert_int_equal(shares_join(&shares.shares, &conn.share, SHARES_CLIENT, "10.0.0.9"), BELFRY_OK);
    for (size_t i = 0; i < 40; i++) {
        begin(&fakes[i], "GET", "/metrics");
        fakes[i].room = 0;
        answer_all();
        n += fakes[i].status == 200;
        held += fakes[i].status == 200 ? strtoul(fakes[i].length, NULL, 10) : 0;
    }
    assert_int_equal(n, 10); /* half of the pool */
    assert_int_equal(conn.share.held[SHARES_MEMORY], held);
    assert_int_equal(fakes[39].status, 503);
    for (size_t i = 0; i < 40; i++) {
        if (fakes[i].status == 200)
            fakes[i].x.events->gone(&fakes[i].x, fakes[i].x.user);
        fake_fini(&fakes[i]);
    }
    assert_int_equal(conn.share.held[SHARES_MEMORY], 0);
    shares_leave(&conn.share);
    shares_fini(&shares.shares);
    conn = (struct exchange_conn){0};
}

static void files_are_sent_without_a_copy(void **state)
{
    (void)state;
    struct fakeshares shares;
    struct fake fake;
    fakeshares_init(&shares, SHARES_MEMORY, 10, 50); /* a copy would not fit */
    assert_int_equal(shares_join(&shares.shares, &conn.share, SHARES_CLIENT, "10.0.0.9"), BELFRY_OK);
    begin(&fake, "GET", "/page.css"); /* all of it */
    assert_true(fake.ended && fake.status == 200);
    fake_fini(&fake);
    for (size_t room = 0; room <= 5000; room += 5000) {
        fake = (struct fake){.x = {.ops = &fake_ops, .conn = &conn}, .room = room};
        struct exchange_head head = {.method = belfry_bytes_str("GET"), .path = belfry_bytes_str("/page.js")};
        admin_begin(&fake.x, &head, admin);
        assert_int_equal(fake.status, 200);
        assert_int_equal(fake.body.end, room);
        assert_int_equal(conn.share.held[SHARES_MEMORY], 0);
        while (!fake.ended) {
            fake.room = 7000;
            fake.x.events->writable(&fake.x, fake.x.user);
        }
        assert_int_equal(strtoul(fake.length, NULL, 10), sizeof(page_page_js));
        assert_int_equal(fake.body.end, sizeof(page_page_js));
        assert_memory_equal(fake.body.data, page_page_js, sizeof(page_page_js));
        fake_fini(&fake);
    }
    shares_leave(&conn.share);
    shares_fini(&shares.shares);
    conn = (struct exchange_conn){0};
}

static void workers_that_cannot_be_asked_make_it_503(void **state)
{
    (void)state;
    static const enum belfry_err errs[] = {BELFRY_ERR_NOMEM, BELFRY_ERR_LIMIT};
    for (size_t i = 0; i < 4; i++) {
        asked.err = errs[i % 2];
        struct fake fake = get(i < 2 ? "/metrics" : "/debug/watchers");
        assert_int_equal(fake.status, 503);
        assert_string_equal(fake.retry_after, "1");
        fake_fini(&fake);
    }
}

static void body_of_a_request_is_taken_and_forgotten(void **state)
{
    (void)state;
    struct fake fake;
    begin(&fake, "GET", "/metrics");
    fake.x.events->body(&fake.x, belfry_bytes_str("hello"), fake.x.user);
    fake.x.events->body_end(&fake.x, fake.x.user);
    fake.x.events->writable(&fake.x, fake.x.user);
    assert_int_equal(fake.taken, 5);
    assert_false(fake.responded);
    answer_all();
    assert_int_equal(fake.status, 200);
    fake_fini(&fake);
}

static void answers_that_come_after_the_end_are_dropped(void **state)
{
    (void)state;
    struct fake waiting, left, sending, scanning;
    begin(&sending, "GET", "/metrics");
    sending.room = 10;
    answer_all();
    begin(&waiting, "GET", "/metrics");
    begin(&left, "GET", "/debug/numbers");
    begin(&scanning, "GET", "/debug/watchers?group=range");
    left.x.events->gone(&left.x, left.x.user);
    admin_destroy(admin);
    admin = NULL;
    assert_true(waiting.reset && sending.reset && scanning.reset);
    assert_false(left.reset);
    answer_all();
    assert_false(waiting.responded || left.responded || scanning.responded);
    fake_fini(&sending);
}

/* ---- the page ---- */

static uint64_t now_ms = 1000000;

static void a_browser_gets_the_page_and_other_clients_the_list(void **state)
{
    (void)state;
    static const char *const browsers[] = {"text/html", "text/html,application/xhtml+xml,*/*;q=0.8"};
    static const char *const others[] = {"*/*", "text/plain", "", "application/json"};
    struct fake fake;
    for (size_t i = 0; i < 2; i++) {
        begin_with(&fake, "GET", "/", "accept", browsers[i]);
        assert_true(fake.ended);
        assert_string_equal(fake.type, "text/html; charset=utf-8");
        assert_non_null(strstr(body(&fake), "<!doctype html>"));
        fake_fini(&fake);
    }
    for (size_t i = 0; i < 4; i++) {
        begin_with(&fake, "GET", "/", "accept", others[i]);
        assert_string_equal(fake.type, "text/plain; charset=utf-8");
        assert_non_null(strstr(body(&fake), "\n/metrics "));
        fake_fini(&fake);
    }
}

static const struct {
    const char *path, *type;
    const uint8_t *bytes;
    size_t len;
} files[] = {
    {"/", "text/html; charset=utf-8", page_index_html, sizeof(page_index_html)},
    {"/page.css", "text/css; charset=utf-8", page_page_css, sizeof(page_page_css)},
    {"/page.js", "text/javascript; charset=utf-8", page_page_js, sizeof(page_page_js)},
};
#define N_FILES (sizeof(files) / sizeof(files[0]))

static bool file_has(size_t i, const char *text)
{
    return memmem(files[i].bytes, files[i].len, text, strlen(text)) != NULL;
}

static void files_of_the_page_are_whole_and_forbid_all_else(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_FILES; i++) {
        struct fake fake;
        begin_with(&fake, "GET", files[i].path, "accept", "text/html,*/*");
        assert_int_equal(fake.status, 200);
        assert_string_equal(fake.type, files[i].type);
        assert_string_equal(fake.policy, "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
                                         "img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; "
                                         "form-action 'none'");
        assert_true(files[i].len > 1000);
        assert_int_equal(fake.body.end, files[i].len);
        assert_memory_equal(fake.body.data, files[i].bytes, files[i].len);
        fake_fini(&fake);
    }
    assert_true(file_has(0, "<!doctype html>") && file_has(0, "</html>\n"));
}

/* The policy would stop what these words begin; without them the page works under it. */
static void the_page_names_nothing_outside_and_makes_no_text_html(void **state)
{
    (void)state;
    static const char *const forbidden[] = {"//cdn",          "src=\"http", "href=\"http", "url(http",
                                            "@import",        "innerHTML",  "outerHTML",   "insertAdjacentHTML",
                                            "document.write", "eval(",      "onclick=",    "style=\""};
    for (size_t i = 0; i < N_FILES; i++)
        for (size_t k = 0; k < sizeof(forbidden) / sizeof(forbidden[0]); k++)
            if (file_has(i, forbidden[k]))
                fail_msg("%s has %s", files[i].path, forbidden[k]);
}

static void a_tail_that_is_off_is_refused_and_not_listed(void **state)
{
    (void)state;
    struct fake fake = get("/debug/tail?prefix=/a");
    assert_int_equal(fake.status, 403);
    assert_string_equal(body(&fake), "it is off: --admin-tail turns it on\n");
    fake_fini(&fake);
    fake = get("/");
    assert_null(strstr(body(&fake), "/debug/tail"));
    fake_fini(&fake);
}

static void a_tail_takes_a_prefix(void **state)
{
    (void)state;
    struct evlog_opts log = {.capacity_log2 = 4, .max_bytes = 1 << 20, .n_workers = 1};
    struct evlog *evlog;
    struct admin_opts opts = {.collect = collect, .user = &asked};
    struct fake fake, foreign;
    char path[400] = "/debug/tail?prefix=";
    assert_int_equal(evlog_create(&log, &evlog), BELFRY_OK);
    assert_int_equal(tail_create(evlog, 0, &opts.tail), BELFRY_OK);
    admin_destroy(admin);
    assert_int_equal(admin_create(&opts, &admin), BELFRY_OK);
    begin(&fake, "GET", "/debug/tail?prefix=%2Fa%20b");
    assert_int_equal(fake.status, 200);
    assert_string_equal(fake.type, "text/event-stream");
    admin_tick(admin, now_ms += 1000);
    answer_all();
    begin_with(&foreign, "GET", "/debug/tail", "sec-fetch-site", "cross-site");
    assert_int_equal(foreign.status, 403);
    assert_int_equal(admin_refused_pages(admin), 1);
    fake_fini(&foreign);
    foreign = get("/debug/tail?range=/a");
    assert_int_equal(foreign.status, 400);
    assert_string_equal(body(&foreign), "no parameter is called range: there is prefix\n");
    fake_fini(&foreign);
    memset(path + strlen(path), 'x', TAIL_PREFIX + 1);
    foreign = get(path);
    assert_int_equal(foreign.status, 400);
    assert_string_equal(body(&foreign), "prefix: at most 256 bytes\n");
    fake_fini(&foreign);
    foreign = get("/");
    assert_non_null(strstr(body(&foreign), "\n/debug/tail "));
    fake_fini(&foreign);
    tail_destroy(opts.tail);
    assert_true(fake.reset);
    fake_fini(&fake);
    admin_destroy(admin);
    admin = NULL;
    evlog_destroy(evlog);
}

/* ---- /events ---- */

/* A second later; what is asked for is answered. Returns how many questions there were. */
static size_t tick(void)
{
    numbers.now_ms = now_ms += 1000;
    admin_tick(admin, now_ms);
    size_t n = asked.n;
    answer_all();
    return n;
}

static void no_open_page_means_a_question_only_for_the_hour(void **state)
{
    (void)state;
    size_t n = 0;
    for (size_t i = 0; i < 20; i++)
        n += tick();
    assert_int_equal(n, 4);
    admin_tick(admin, now_ms + 10000);
    assert_int_equal(asked.n, 1);
    admin_tick(admin, now_ms + 20000); /* one at a time, however long it takes */
    assert_int_equal(asked.n, 1);
    answer_all();
    struct fake fake = get("/debug/hour");
    assert_non_null(strstr(body(&fake), "\"first\":0,\"rows\":[["));
    fake_fini(&fake);
}

static void all_pages_share_one_question_and_one_message(void **state)
{
    (void)state;
    static struct fake pages[10];
    tick();
    for (size_t i = 0; i < 10; i++) {
        begin(&pages[i], "GET", "/events");
        assert_string_equal(pages[i].type, "text/event-stream");
        assert_string_equal(body(&pages[i]), "retry: 2000\n\n");
    }
    log_lines_add(&lines, 1, BELFRY_LOG_WARN, "event", "text");
    assert_int_equal(tick(), 1);
    assert_non_null(strstr(body(&pages[0]), "\nevent: numbers\ndata: {\"name\":\"edge-7\""));
    assert_non_null(strstr(body(&pages[0]), "}\n\nevent: tree\ndata: {\"above\":["));
    assert_non_null(strstr(body(&pages[0]), "}\n\nevent: log\ndata: 1\n\n"));
    assert_null(strstr(body(&pages[0]), "\"workers\":["));
    for (size_t i = 1; i < 10; i++)
        assert_string_equal(body(&pages[i]), body(&pages[0]));
    for (size_t i = 0; i < 10; i++) {
        assert_false(pages[i].ended);
        pages[i].x.events->gone(&pages[i].x, pages[i].x.user);
        fake_fini(&pages[i]);
    }
}

static void pages_of_other_sites_may_only_lead_to_the_page(void **state)
{
    (void)state;
    static const struct {
        const char *method, *path, *name, *value, *mode;
        int status;
    } rows[] = {{"GET", "/", "sec-fetch-site", "cross-site", "navigate", 200},
                {"GET", "/?x", "sec-fetch-site", "same-site", "navigate", 200},
                {"GET", "/", "sec-fetch-site", "cross-site", "no-cors", 403},
                {"GET", "/", "sec-fetch-site", "cross-site", "cors", 403},
                {"HEAD", "/", "sec-fetch-site", "cross-site", "navigate", 403},
                {"POST", "/", "sec-fetch-site", "cross-site", "navigate", 403},
                {"GET", "/debug/numbers", "sec-fetch-site", "cross-site", "navigate", 403},
                {"GET", "/page.js", "sec-fetch-site", "cross-site", "no-cors", 403},
                {"GET", "/livez", "origin", "http://evil.example", "cors", 403},
                {"GET", "/livez", "origin", "null", "cors", 403},
                {"GET", "/livez", "origin", "https://app.example", "cors", 200},
                {"GET", "/livez", "sec-fetch-site", "none", "navigate", 200},
                {"GET", "/livez", "sec-fetch-site", "same-origin", "cors", 200}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct fake fake = {.x = {.ops = &fake_ops, .conn = &conn}, .room = EXCHANGE_ROOM};
        struct belfry_http_field fields[] = {{belfry_bytes_str("accept"), belfry_bytes_str("text/html")},
                                             {belfry_bytes_str(rows[i].name), belfry_bytes_str(rows[i].value)},
                                             {belfry_bytes_str("sec-fetch-mode"), belfry_bytes_str(rows[i].mode)}};
        struct exchange_head head = {.method = belfry_bytes_str(rows[i].method),
                                     .path = belfry_bytes_str(rows[i].path),
                                     .fields = fields,
                                     .n_fields = 3};
        admin_begin(&fake.x, &head, admin);
        if (fake.status != rows[i].status)
            fail_msg("row %zu: %d", i, fake.status);
        fake_fini(&fake);
    }
}

static void open_pages_are_bounded_and_other_sites_have_none(void **state)
{
    (void)state;
    static struct fake pages[ADMIN_VIEWERS];
    struct fake more;
    static const char *const foreign[] = {"cross-site", "same-site"};
    for (size_t i = 0; i < 2; i++) {
        begin_with(&more, "GET", "/events", "sec-fetch-site", foreign[i]);
        assert_int_equal(more.status, 403);
        fake_fini(&more);
    }
    for (size_t i = 0; i < ADMIN_VIEWERS; i++) {
        begin_with(&pages[i], "GET", "/events", "sec-fetch-site", i % 2 == 0 ? "same-origin" : "none");
        assert_int_equal(pages[i].status, 200);
    }
    begin(&more, "GET", "/events");
    assert_int_equal(more.status, 503);
    assert_string_equal(more.retry_after, "1");
    fake_fini(&more);
    pages[0].x.events->gone(&pages[0].x, pages[0].x.user);
    fake_fini(&pages[0]);
    begin(&pages[0], "GET", "/events");
    assert_int_equal(pages[0].status, 200);
    admin_destroy(admin);
    admin = NULL;
    for (size_t i = 0; i < ADMIN_VIEWERS; i++) {
        assert_true(pages[i].reset);
        fake_fini(&pages[i]);
    }
}

static void a_page_that_is_not_read_misses_messages_and_is_dropped(void **state)
{
    (void)state;
    static struct fake slow, good;
    begin(&slow, "GET", "/events");
    begin(&good, "GET", "/events");
    tick();
    size_t had = slow.body.end;
    slow.room = 100;
    for (int i = 1; i < ADMIN_VIEWER_MISSES; i++) {
        good.room = EXCHANGE_ROOM;
        tick();
    }
    assert_int_equal(slow.body.end, had); /* not a part of a message either */
    assert_false(slow.reset);
    slow.room = good.room = EXCHANGE_ROOM;
    tick(); /* it reads again, and is forgiven */
    assert_true(slow.body.end > had);
    slow.room = 0;
    for (int i = 0; i < ADMIN_VIEWER_MISSES; i++) {
        assert_false(slow.reset);
        good.room = EXCHANGE_ROOM;
        tick();
    }
    assert_true(slow.reset);
    assert_false(good.reset);
    good.x.events->gone(&good.x, good.x.user);
    fake_fini(&slow);
    fake_fini(&good);
}

static void a_sample_that_comes_after_the_end_is_dropped(void **state)
{
    (void)state;
    admin_tick(admin, now_ms += 100000);
    assert_int_equal(asked.n, 1);
    admin_destroy(admin);
    admin = NULL;
    answer_all();
}

/* Without memory a page misses a message. */
static enum belfry_err page_scenario(void)
{
    struct admin_opts opts = {.collect = collect, .user = &asked};
    struct fake fake = {0};
    asked.n = 0;
    enum belfry_err err = admin_create(&opts, &admin);
    if (err != BELFRY_OK)
        return err;
    begin(&fake, "GET", "/events");
    if (fake.status == 200) {
        now_ms += 1000;
        admin_tick(admin, now_ms);
        if (asked.n > 0)
            err = answer_one(0);
        bool is_there = strstr(body(&fake), "event: numbers") != NULL && strstr(body(&fake), "event: tree") != NULL;
        err = is_there ? err : BELFRY_ERR_NOMEM;
        fake.x.events->gone(&fake.x, fake.x.user);
    } else {
        assert_int_equal(fake.status, 503);
        err = BELFRY_ERR_NOMEM;
    }
    fake_fini(&fake);
    admin_destroy(admin);
    admin = NULL;
    return err;
}

static void a_page_without_memory_misses_a_message(void **state)
{
    (void)state;
    reset_numbers();
    assert_true(refuse_sweep(page_scenario) > 5);
}

static enum belfry_err scenario(void)
{
    static const char *const paths[] = {"/metrics",       "/readyz?verbose", "/debug/watchers", "/debug/hour",
                                        "/debug/clients", "/debug/numbers",  "/debug/log",      "/"};
    struct admin_opts opts = {.collect = collect, .scan = scan, .clients = scan_clients, .user = &asked};
    enum belfry_err err = admin_create(&opts, &admin);
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]) && err == BELFRY_OK; i++) {
        struct fake fake;
        asked.n = 0;
        begin(&fake, "GET", paths[i]);
        if (asked.n > 0)
            err = answer_one(0);
        assert_true(fake.ended);
        assert_true(fake.status == 200 || fake.status == 503);
        err = fake.status == 503 || fake.no_memory ? BELFRY_ERR_NOMEM : err;
        fake_fini(&fake);
    }
    admin_destroy(admin);
    admin = NULL;
    return err;
}

static void every_refused_allocation_is_answered(void **state)
{
    (void)state;
    reset_numbers();
    assert_true(refuse_sweep(scenario) > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_page_of_the_list_is_there, set_up, tear_down),
        cmocka_unit_test_setup_teardown(tree_for_people_is_text, set_up, tear_down),
        cmocka_unit_test_setup_teardown(other_methods_and_paths_are_refused_with_a_hint, set_up, tear_down),
        cmocka_unit_test_setup_teardown(head_has_no_body, set_up, tear_down),
        cmocka_unit_test_setup_teardown(readiness_names_each_check, set_up, tear_down),
        cmocka_unit_test_setup_teardown(full_pools_are_named_and_the_tier_stays_ready, set_up, tear_down),
        cmocka_unit_test_setup_teardown(large_answer_goes_out_within_the_room, set_up, tear_down),
        cmocka_unit_test_setup_teardown(pages_of_numbers_share_questions, set_up, tear_down),
        cmocka_unit_test_setup_teardown(readiness_does_not_wait_for_other_pages, set_up, tear_down),
        cmocka_unit_test_setup_teardown(answers_that_are_not_read_count_to_their_client, set_up, tear_down),
        cmocka_unit_test_setup_teardown(files_are_sent_without_a_copy, set_up, tear_down),
        cmocka_unit_test_setup_teardown(workers_that_cannot_be_asked_make_it_503, set_up, tear_down),
        cmocka_unit_test_setup_teardown(body_of_a_request_is_taken_and_forgotten, set_up, tear_down),
        cmocka_unit_test_setup_teardown(answers_that_come_after_the_end_are_dropped, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_browser_gets_the_page_and_other_clients_the_list, set_up, tear_down),
        cmocka_unit_test_setup_teardown(files_of_the_page_are_whole_and_forbid_all_else, set_up, tear_down),
        cmocka_unit_test(the_page_names_nothing_outside_and_makes_no_text_html),
        cmocka_unit_test_setup_teardown(a_tail_that_is_off_is_refused_and_not_listed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_tail_takes_a_prefix, set_up, tear_down),
        cmocka_unit_test_setup_teardown(no_open_page_means_a_question_only_for_the_hour, set_up, tear_down),
        cmocka_unit_test_setup_teardown(all_pages_share_one_question_and_one_message, set_up, tear_down),
        cmocka_unit_test_setup_teardown(pages_of_other_sites_may_only_lead_to_the_page, set_up, tear_down),
        cmocka_unit_test_setup_teardown(open_pages_are_bounded_and_other_sites_have_none, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_page_that_is_not_read_misses_messages_and_is_dropped, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_sample_that_comes_after_the_end_is_dropped, set_up, tear_down),
        cmocka_unit_test(a_page_without_memory_misses_a_message),
        cmocka_unit_test(every_refused_allocation_is_answered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
