/* src/serve/sse/sse_test.c: requests: what is refused, and with which status; other origins. */
#include "serve/sse/sse_bed_test.h"

#define EVENTS "/v1/events?prefix=/a/"
#define OURS   "https://ours.example"

static void assert_refused(struct fakeexchange *peer, int status)
{
    assert_int_equal(peer->status, status);
    assert_int_equal(peer->state, FAKEEXCHANGE_ENDED);
    assert_string_equal(fakeexchange_field(peer, "content-type"), "text/plain; charset=utf-8");
    struct belfry_bytes body = bed_body(peer);
    assert_true(body.len > 5 && body.data[body.len - 1] == '\n');
}

static void only_its_own_paths_are_taken(void **state)
{
    (void)state;
    static const char *const others[] = {"/", "", "/v1/event", "/v1/events/", "/v1/eventsx", "/v3/watch", "/V1/events"};
    static const char *const ours[] = {"/v1/events", "/v1/ticket", "/belfry.js"};
    for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++)
        assert_true(sse_is(belfry_bytes_str(ours[i])));
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        assert_false(sse_is(belfry_bytes_str(others[i])));
}

static void only_get_is_served(void **state)
{
    (void)state;
    static const char *const methods[] = {"POST", "PUT", "DELETE", "HEAD", "PATCH", "get"};
    BED(bed);
    for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
        struct fakeexchange *peer = bed_ask(&bed, methods[i], EVENTS, NULL);
        assert_refused(peer, 405);
        assert_string_equal(fakeexchange_field(peer, "allow"), "GET, OPTIONS");
    }
    assert_int_equal(bed_stats(&bed).streams, 0);
    bed_close(&bed);
}

static void what_will_never_be_served_is_refused(void **state)
{
    (void)state;
    static const char *const queries[] = {"",
                                          "snapshot=1",
                                          "prefix=/a/&snapshot=2",
                                          "prefix=/a/&value=xml",
                                          "prefix=/a/&perfix=/b/",
                                          "prefix=/a/&last-event-id=x",
                                          "prefix=/a/&last-event-id=",
                                          "prefix=/a/&last-event-id=5-",
                                          "prefix=/a/&last-event-id=-5",
                                          "prefix=/a/&last-event-id=99999999999999999999",
                                          "prefix=%2",
                                          "key=",
                                          "to=x",
                                          "key=a&to=b",
                                          "from=b&to=a"};
    BED(bed);
    for (size_t i = 0; i < sizeof(queries) / sizeof(queries[0]); i++)
        assert_refused(bed_get(&bed, queries[i]), 400);
    char many[128] = "";
    for (size_t i = 0; i <= SSE_RANGES; i++)
        strcat(many, "key=k&");
    assert_refused(bed_get(&bed, many), 400);
    assert_int_equal(bed_stats(&bed).streams, 0);
    bed_close(&bed);
}

static void id_of_the_head_wins(void **state)
{
    (void)state;
    BED(bed);
    bed_put(&bed, "/a/1", "x");
    bed_put(&bed, "/a/2", "y");
    bed_run(&bed);
    const char *const fields[] = {"last-event-id: 11-" TAG, NULL};
    struct fakeexchange *peer = bed_ask(&bed, "GET", EVENTS "&last-event-id=10&snapshot=1", fields);
    bed_run(&bed);
    assert_says(peer, RETRY CHANGES("12", PUT("/a/2", "y")));
    const char *const nothing[] = {"last-event-id: 0", NULL}; /* as a browser that was cut off inside a state */
    peer = bed_ask(&bed, "GET", EVENTS "&last-event-id=11&snapshot=1", nothing);
    assert_says(peer, RETRY RESET("snapshot"));
    const char *const bad[] = {"last-event-id: 11-xyz", NULL};
    assert_refused(bed_ask(&bed, "GET", EVENTS "&last-event-id=11", bad), 400);
    bed_close(&bed);
}

static void range_outside_of_what_is_followed_is_refused(void **state)
{
    (void)state;
    static struct bed bed;
    assert_int_equal(bed_open_as(&bed, &(struct bed_opts){.scope = "/a/"}), BELFRY_OK);
    assert_refused(bed_get(&bed, "prefix=/b/"), 400);
    assert_refused(bed_get(&bed, "prefix=/a/&prefix=/b/"), 400); /* one of them is enough */
    assert_refused(bed_get(&bed, "prefix="), 400);
    assert_refused(bed_get(&bed, "from=/a/x"), 400);
    assert_int_equal(bed_get(&bed, "prefix=/a/x&key=/a/")->status, 200);
    bed_close(&bed);
}

static void tier_that_cannot_serve_says_when_to_come_again(void **state)
{
    (void)state;
    BED(bed);
    sse_stand(bed.sse, false);
    struct fakeexchange *peer = bed_get(&bed, "prefix=/a/");
    assert_int_equal(peer->status, 200);
    assert_string_equal(fakeexchange_field(peer, "content-type"), "text/event-stream");
    assert_string_equal(fakeexchange_field(peer, "cache-control"), "no-store");
    assert_ended(peer);
    assert_refused(bed_get(&bed, "prefix=/a/&value=xml"), 400); /* that will not change */
    sse_stand(bed.sse, true);
    bed.leaving = true;
    peer = bed_get(&bed, "prefix=/a/");
    assert_int_equal(peer->status, 200);
    assert_ended(peer);
    assert_int_equal(bed_stats(&bed).later, 2);
    bed_close(&bed);
}

static void token_is_read_with_and_without_its_scheme(void **state)
{
    (void)state;
    static const char *const heads[][2] = {{"authorization: Bearer secret", NULL},
                                           {"authorization: bearer secret", NULL},
                                           {"authorization: secret", NULL}};
    for (size_t i = 0; i < 3; i++) {
        BED(bed);
        permit_close(&bed.permit);
        bed_ask(&bed, "GET", EVENTS, heads[i]);
        assert_string_equal(bed.permit.questions[0].token, "secret");
        bed_close(&bed);
    }
}

/* ---- other origins ---- */

static size_t count_field(const struct fakeexchange *peer, const char *name)
{
    size_t n = 0;
    for (const char *at = peer->fields; (at = strstr(at, name)) != NULL; at++)
        n++;
    return n;
}

static void page_of_a_named_origin_may_read(void **state)
{
    (void)state;
    static struct bed bed;
    static char other[] = "https://other.example:8443", ours[] = OURS;
    static char *const origins[] = {other, ours, ours, ours, ours};
    const char *const from_ours[] = {"origin: " OURS, NULL};
    const char *const from_theirs[] = {"origin: https://theirs.example", NULL};
    struct bed_opts opts = {.scope = "", .origins = {.list = origins, .n = 5}};
    assert_int_equal(bed_open_as(&bed, &opts), BELFRY_OK);
    static const char *const paths[] = {EVENTS, "/v1/events", EVENTS};
    static const int statuses[] = {200, 400, 200};
    for (size_t i = 0; i < 3; i++) { /* a stream, a refusal, and "later" */
        sse_stand(bed.sse, i != 2);
        struct fakeexchange *peer = bed_ask(&bed, "GET", paths[i], from_ours);
        assert_int_equal(peer->status, statuses[i]);
        assert_string_equal(fakeexchange_field(peer, "access-control-allow-origin"), OURS);
        assert_int_equal(count_field(peer, "access-control-allow-origin"), 1); /* named twice is no second field */
        assert_string_equal(fakeexchange_field(peer, "vary"), "Origin");
        peer = bed_ask(&bed, "GET", paths[i], from_theirs);
        assert_int_equal(peer->status, statuses[i]);
        assert_null(fakeexchange_field(peer, "access-control-allow-origin"));
        assert_string_equal(fakeexchange_field(peer, "vary"), "Origin");
    }
    permit_close(&bed.permit);
    sse_stand(bed.sse, true);
    struct fakeexchange *peer = bed_ask(&bed, "GET", EVENTS, from_ours);
    permit_answer(&bed.permit, 0, PERMIT_REFUSED, PERMIT_DENIED);
    assert_refused(peer, 403);
    assert_string_equal(fakeexchange_field(peer, "access-control-allow-origin"), OURS);
    bed_close(&bed);
}

static void other_origins_are_refused_unless_they_are_named(void **state)
{
    (void)state;
    BED(bed);
    static const char *const origins[] = {"origin: https://ours.example", "origin: null", "origin: *", "origin: "};
    for (size_t i = 0; i < 4; i++) {
        const char *const fields[] = {origins[i], NULL};
        struct fakeexchange *peer = bed_ask(&bed, "GET", EVENTS, fields);
        assert_null(fakeexchange_field(peer, "access-control-allow-origin"));
        assert_null(fakeexchange_field(peer, "access-control-allow-credentials"));
        peer = bed_ask(&bed, "OPTIONS", EVENTS, fields);
        assert_int_equal(peer->status, 204);
        assert_null(fakeexchange_field(peer, "access-control-allow-origin"));
    }
    bed_close(&bed);
}

static void preflight_says_what_a_page_may_ask_for(void **state)
{
    (void)state;
    static struct bed bed;
    static char ours[] = OURS;
    static char *const origins[] = {ours};
    const char *const fields[] = {"origin: " OURS, "access-control-request-method: GET",
                                  "access-control-request-headers: authorization", NULL};
    struct bed_opts opts = {.scope = "", .origins = {.list = origins, .n = 1}};
    assert_int_equal(bed_open_as(&bed, &opts), BELFRY_OK);
    sse_stand(bed.sse, false); /* whether it can serve or not */
    struct fakeexchange *peer = bed_ask(&bed, "OPTIONS", "/v1/events", fields);
    assert_int_equal(peer->status, 204);
    assert_int_equal(bed_body(peer).len, 0);
    assert_string_equal(fakeexchange_field(peer, "access-control-allow-origin"), OURS);
    assert_non_null(strstr(fakeexchange_field(peer, "access-control-allow-headers"), "authorization"));
    assert_non_null(strstr(fakeexchange_field(peer, "access-control-allow-methods"), "GET"));
    assert_string_equal(fakeexchange_field(peer, "vary"), "Origin");
    bed_close(&bed);
}

/* ---- refused allocations ---- */

static enum belfry_err scenario(void)
{
    static struct bed bed;
    enum belfry_err err = bed_open(&bed);
    if (err == BELFRY_OK) {
        struct fakeexchange *peer = bed_get(&bed, "prefix=/a/&prefix=/b/");
        assert_int_equal(peer->status, 200); /* any other would end an EventSource for good */
        err = peer->state != FAKEEXCHANGE_OPEN ? BELFRY_ERR_NOMEM : BELFRY_OK;
    }
    bed_close(&bed);
    return err;
}

static void every_refused_allocation_is_survived(void **state)
{
    (void)state;
    assert_true(refuse_sweep(scenario) > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_its_own_paths_are_taken),
        cmocka_unit_test(only_get_is_served),
        cmocka_unit_test(what_will_never_be_served_is_refused),
        cmocka_unit_test(id_of_the_head_wins),
        cmocka_unit_test(range_outside_of_what_is_followed_is_refused),
        cmocka_unit_test(tier_that_cannot_serve_says_when_to_come_again),
        cmocka_unit_test(token_is_read_with_and_without_its_scheme),
        cmocka_unit_test(page_of_a_named_origin_may_read),
        cmocka_unit_test(other_origins_are_refused_unless_they_are_named),
        cmocka_unit_test(preflight_says_what_a_page_may_ask_for),
        cmocka_unit_test(every_refused_allocation_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
