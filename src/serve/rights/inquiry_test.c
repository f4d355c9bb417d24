/* src/serve/rights/inquiry_test.c: questions of tiers below to a permit, and its questions to a support/fakeupstream
 * that answers as etcd would. */
#include "serve/rights/inquiry.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

#include <cmocka.h>

#include "net/grpc_frame.h"
#include "serve/rights/rights_request.h"
#include "support/fakeexchange.h"
#include "support/uplinkbed.h"
#include "wire/write.h"

#define PERIOD 1000
#define TXN    "/etcdserverpb.KV/Txn"

/* ---- upstream ---- */

static struct etcd {
    bool auth_off;
    bool silent;
    const char *code, *message; /* of the answer; NULL: 11 */
    const char *age;            /* belfry-rights-age of the answer; NULL: none */
    size_t n_questions;
    size_t last;
} etcd;

static void answer_with(struct upstream *upstream, size_t i, const char *code, const char *message)
{
    const char *fields[] = {":status",      "200",   "content-type",     "application/grpc", "grpc-status", code,
                            "grpc-message", message, RIGHTS_REQUEST_AGE, etcd.age,           NULL};
    if (etcd.age == NULL)
        fields[8] = NULL;
    upstream_head(upstream, i, fields, true);
}

static void serve(struct upstream *upstream, size_t i, void *user)
{
    (void)user;
    if (strstr(upstream_field(upstream, i, ":path"), "Authenticate") != NULL) {
        if (etcd.auth_off)
            answer_with(upstream, i, "9", "etcdserver: authentication is not enabled");
        else
            answer_with(upstream, i, "3", "etcdserver: authentication failed, invalid user ID or password");
        return;
    }
    etcd.n_questions++;
    etcd.last = i;
    if (etcd.silent)
        return;
    if (etcd.code != NULL)
        answer_with(upstream, i, etcd.code, etcd.message);
    else
        answer_with(upstream, i, "11", RIGHTS_REQUEST_ALLOWED);
}

static struct permit *permit;
static struct inquiries all;
static struct belfry_buf body;

static void make_inquiries(struct etcd as)
{
    etcd = as;
    make(&(struct upstream_opts){.serve = serve}, 1);
    assert_int_equal(
        permit_create(
            &(struct permit_opts){.uplink = bed.uplink, .loop = belfry_loop_uv(bed.loop), .period_ms = PERIOD},
            &permit),
        BELFRY_OK);
    all = (struct inquiries){.permit = permit};
}

static int teardown(void **state)
{
    (void)state;
    assert_int_equal(all.n_ranges, 0);
    permit_destroy(permit);
    permit = NULL;
    close_bed();
    belfry_buf_fini(&body);
    return refuse_held() == 0 ? 0 : -1;
}

/* ---- tiers below ---- */

struct seen {
    struct inquiry *inquiry;
    int n, code;
    char message[200];
    uint64_t age_ms;
};

static void on_answer(const struct inquiry_answer *answer, void *user)
{
    struct seen *seen = user;
    seen->inquiry = NULL;
    seen->n++;
    seen->code = answer->code;
    seen->age_ms = answer->age_ms;
    snprintf(seen->message, sizeof(seen->message), "%s", answer->message);
}

/* A Txn of n ranges: prefix0, prefix1... */
static void write_question(const char *prefix, size_t n)
{
    static const uint8_t none[BELFRY_GRPC_PREFIX_BYTES];
    belfry_buf_fini(&body);
    assert_int_equal(belfry_buf_append(&body, none, sizeof(none)), BELFRY_OK);
    for (size_t i = 0; i < n; i++) {
        char key[64];
        snprintf(key, sizeof(key), "%s%zu", prefix, i);
        assert_int_equal(belfry_write_txn_range(&body, belfry_bytes_str(key), belfry_bytes_str(""), INT64_MAX),
                         BELFRY_OK);
    }
    belfry_grpc_frame_prefix((uint8_t *)body.data + body.start, belfry_buf_len(&body) - sizeof(none));
}

static enum belfry_err try(struct seen *seen, const struct identity *who, uint64_t within_ms)
{
    struct inquiry_request request = {
        .who = who, .path = belfry_bytes_str(TXN), .body = belfry_buf_bytes(&body), .within_ms = within_ms};
    *seen = (struct seen){0};
    return inquiry_open(&all, &request, belfry_clock_ms(), on_answer, seen, &seen->inquiry);
}

static void ask(struct seen *seen, const char *prefix, size_t n)
{
    struct identity who = identity_of_token(IDENTITY_FIELD_TOKEN, belfry_bytes_str("t.1"));
    write_question(prefix, n);
    assert_int_equal(try(seen, &who, PERIOD), BELFRY_OK);
    assert_int_equal(seen->n, 0);
}

static void answered(struct seen *seen, int code, const char *message)
{
    drive_until(seen->n > 0);
    assert_int_equal(seen->n, 1);
    assert_int_equal(seen->code, code);
    assert_string_equal(seen->message, message);
}

/* ---- tests ---- */

static void equal_questions_share_one_call_upstream(void **state)
{
    (void)state;
    make_inquiries((struct etcd){0});
    struct seen seen[20];
    for (size_t i = 0; i < 20; i++)
        ask(&seen[i], "k", 5);
    assert_int_equal(all.n_ranges, 100);
    for (size_t i = 0; i < 20; i++)
        answered(&seen[i], 11, RIGHTS_REQUEST_ALLOWED);
    assert_int_equal(etcd.n_questions, 1);
    assert_string_equal(upstream_field(bed.members[0], etcd.last, RIGHTS_REQUEST_FIELD), "392");
    assert_string_equal(upstream_field(bed.members[0], etcd.last, "token"), "t.1");
    ask(&seen[0], "k", 5);
    answered(&seen[0], 11, RIGHTS_REQUEST_ALLOWED);
    assert_int_equal(etcd.n_questions, 1);
}

static void an_answer_has_the_age_that_it_had_and_the_time_that_it_was_here(void **state)
{
    (void)state;
    make_inquiries((struct etcd){.age = "200"});
    struct seen seen;
    ask(&seen, "k", 2);
    answered(&seen, 11, RIGHTS_REQUEST_ALLOWED);
    assert_in_range(seen.age_ms, 1, 201); /* upstream was asked after the question came: how long does not count */
    uint64_t age_ms = seen.age_ms;
    drive_for(50);
    ask(&seen, "k", 2);
    answered(&seen, 11, RIGHTS_REQUEST_ALLOWED);
    assert_true(seen.age_ms >= age_ms + 50);
    assert_int_equal(etcd.n_questions, 1);
    drive_for(200); /* over 40 percent of a period */
    etcd.age = NULL;
    ask(&seen, "k", 2);
    answered(&seen, 11, RIGHTS_REQUEST_ALLOWED);
    assert_int_equal(etcd.n_questions, 2);
    assert_int_equal(seen.age_ms, 0);
}

static void an_age_that_cannot_be_read_makes_an_answer_useless(void **state)
{
    (void)state;
    static const char *const nonsense[] = {"x", "-1", "1000000001", "12345678901234567890123456789012345", "", "1 2"};
    make_inquiries((struct etcd){0});
    struct seen seen;
    for (size_t i = 0; i < sizeof(nonsense) / sizeof(nonsense[0]); i++) {
        etcd.age = nonsense[i];
        ask(&seen, "k", 1);
        drive_until(seen.n > 0);
        assert_int_equal(seen.code, 14);
    }
}

static void refusals_are_etcds_own(void **state)
{
    (void)state;
    static const struct {
        const char *code, *message;
    } refusals[] = {{"7", "etcdserver: permission denied"},
                    {"16", "etcdserver: invalid auth token"},
                    {"3", "etcdserver: revision of auth store is old"},
                    {"3", "etcdserver: user name is empty"}};
    make_inquiries((struct etcd){0});
    struct seen seen;
    for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
        etcd.code = refusals[i].code;
        etcd.message = refusals[i].message;
        ask(&seen, "k", 3);
        answered(&seen, atoi(refusals[i].code), refusals[i].message);
    }
    assert_int_equal(etcd.n_questions, 4); /* one each: forbidden ranges are not looked for */
    etcd.code = "14";
    etcd.message = "etcdserver: no leader";
    ask(&seen, "k", 1);
    answered(&seen, 14, "etcdserver: no leader");
}

static void with_auth_off_all_is_allowed_unless_the_listener_needs_it(void **state)
{
    (void)state;
    make_inquiries((struct etcd){.auth_off = true});
    struct seen seen;
    ask(&seen, "k", 2);
    answered(&seen, 11, RIGHTS_REQUEST_ALLOWED);
    assert_true(seen.age_ms < 2000);
    struct identity who = identity_of_token(IDENTITY_FIELD_TOKEN, belfry_bytes_str("t.1"));
    who.rights = LISTEN_RIGHTS_UPSTREAM;
    assert_int_equal(try(&seen, &who, PERIOD), BELFRY_OK);
    answered(&seen, 14, PERMIT_AUTH_IS_OFF);
    assert_int_equal(etcd.n_questions, 0);
}

static void an_open_listener_gives_tiers_below_nothing_more(void **state)
{
    (void)state;
    make_inquiries((struct etcd){.code = "7", .message = "etcdserver: permission denied"});
    struct seen seen;
    struct identity who = identity_of_token(IDENTITY_FIELD_TOKEN, belfry_bytes_str("t.1"));
    who.rights = LISTEN_RIGHTS_OPEN;
    write_question("k", 1);
    assert_int_equal(try(&seen, &who, PERIOD), BELFRY_OK);
    answered(&seen, 7, "etcdserver: permission denied");
}

static void a_head_shows_whether_it_may_be_one(void **state)
{
    (void)state;
    make_inquiries((struct etcd){0});
    struct identity token = identity_of_token(IDENTITY_FIELD_TOKEN, belfry_bytes_str("t.1")), nobody = {0};
    struct fakeexchange_head head;
    uint64_t within_ms = 0;
    fakeexchange_head(&head, "POST", TXN, (const char *const[]){RIGHTS_REQUEST_FIELD ": 392", NULL});
    assert_true(inquiry_is(&head.head, &token, &within_ms));
    assert_int_equal(within_ms, 392);
    assert_false(inquiry_is(&head.head, &nobody, &within_ms)); /* etcd, or the relay, refuses it */
    fakeexchange_head(&head, "POST", TXN, (const char *const[]){RIGHTS_REQUEST_FIELD ": ask", NULL});
    assert_false(inquiry_is(&head.head, &token, &within_ms));
    fakeexchange_head(&head, "POST", TXN, (const char *const[]){"x: y", NULL});
    assert_false(inquiry_is(&head.head, &token, &within_ms));
    fakeexchange_head(&head, "POST", "/etcdserverpb.KV/Put", (const char *const[]){RIGHTS_REQUEST_FIELD ": 1", NULL});
    assert_false(inquiry_is(&head.head, &token, &within_ms));
}

static void what_is_no_question_is_refused(void **state)
{
    (void)state;
    make_inquiries((struct etcd){0});
    struct seen seen;
    struct identity who = identity_of_token(IDENTITY_FIELD_TOKEN, belfry_bytes_str("t.1"));
    assert_int_equal(try(&seen, &who, PERIOD), BELFRY_ERR_PROTOCOL); /* no body */
    write_question("k", 2);
    body.end--; /* cut */
    assert_int_equal(try(&seen, &who, PERIOD), BELFRY_ERR_PROTOCOL);
    write_question("k", 2);
    body.data[body.start] = 1; /* compressed */
    assert_int_equal(try(&seen, &who, PERIOD), BELFRY_ERR_PROTOCOL);
    write_question("k", RIGHTS_BATCH + 1);
    assert_int_equal(try(&seen, &who, PERIOD), BELFRY_ERR_PROTOCOL);
    assert_int_equal(all.n_ranges, 0);
}

static void ranges_that_wait_are_bounded(void **state)
{
    (void)state;
    make_inquiries((struct etcd){.silent = true});
    enum { N = INQUIRY_RANGES / RIGHTS_BATCH };
    static struct seen seen[N + 1];
    struct identity who = identity_of_token(IDENTITY_FIELD_TOKEN, belfry_bytes_str("t.1"));
    for (size_t i = 0; i < N; i++)
        ask(&seen[i], "k", RIGHTS_BATCH);
    write_question("k", 1);
    assert_int_equal(try(&seen[N], &who, PERIOD), BELFRY_ERR_LIMIT);
    inquiry_cancel(seen[0].inquiry);
    assert_int_equal(try(&seen[N], &who, PERIOD), BELFRY_OK);
    drive_until(etcd.n_questions > 0);
    for (size_t i = 1; i <= N; i++)
        inquiry_cancel(seen[i].inquiry);
    struct permit_stats stats;
    permit_stats(permit, &stats);
    assert_int_equal(stats.rights.waiting, 0);
    assert_int_equal(stats.rights.asking, 0); /* nobody waits for the answer any more */
}

static void without_memory_nothing_is_left(void **state)
{
    (void)state;
    make_inquiries((struct etcd){0});
    struct seen seen;
    ask(&seen, "warm", 1); /* the permit knows then that auth is on */
    answered(&seen, 11, RIGHTS_REQUEST_ALLOWED);
    struct identity who = identity_of_token(IDENTITY_FIELD_TOKEN, belfry_bytes_str("t.2"));
    write_question("k", 3);
    bool refused = true;
    for (size_t n = 0; refused; n++) {
        size_t held = refuse_held();
        refuse_begin(n);
        enum belfry_err err = try(&seen, &who, PERIOD);
        refused = refuse_end();
        assert_int_equal(err, refused ? BELFRY_ERR_NOMEM : BELFRY_OK);
        if (err == BELFRY_OK)
            inquiry_cancel(seen.inquiry);
        assert_int_equal(all.n_ranges, 0);
        assert_int_equal(refuse_held(), held);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(equal_questions_share_one_call_upstream, teardown),
        cmocka_unit_test_teardown(an_answer_has_the_age_that_it_had_and_the_time_that_it_was_here, teardown),
        cmocka_unit_test_teardown(an_age_that_cannot_be_read_makes_an_answer_useless, teardown),
        cmocka_unit_test_teardown(refusals_are_etcds_own, teardown),
        cmocka_unit_test_teardown(with_auth_off_all_is_allowed_unless_the_listener_needs_it, teardown),
        cmocka_unit_test_teardown(an_open_listener_gives_tiers_below_nothing_more, teardown),
        cmocka_unit_test_teardown(a_head_shows_whether_it_may_be_one, teardown),
        cmocka_unit_test_teardown(what_is_no_question_is_refused, teardown),
        cmocka_unit_test_teardown(ranges_that_wait_are_bounded, teardown),
        cmocka_unit_test_teardown(without_memory_nothing_is_left, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
