/* src/serve/rights/etcd_fence_test.c: questions to a support/fakeupstream that answers as etcd would. */
#include "serve/rights/etcd_fence.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/uplinkbed.h"

#include "support/authbed.h"
#include "wire/rpc.pb-c.h"

/* ---- upstream ---- */

static struct etcd {
    bool silent; /* Ranges are not answered */
    const char *code;
    uint8_t rev; /* below 128 */
    size_t n_range, last_range;
} etcd;

static void answer_range(struct upstream *upstream, size_t i)
{
    uint8_t message[] = {0x0a, 0x02, 0x18, etcd.rev};
    if (etcd.code == NULL)
        upstream_grpc(upstream, i, message, sizeof(message), "0");
    else
        upstream_head(upstream, i,
                      (const char *const[]){":status", "200", "content-type", "application/grpc", "grpc-status",
                                            etcd.code, "grpc-message", "no", NULL},
                      true);
}

static void serve(struct upstream *upstream, size_t i, void *user)
{
    (void)user;
    if (strcmp(upstream_field(upstream, i, ":path"), "/etcdserverpb.Auth/Authenticate") == 0) {
        upstream_head(upstream, i,
                      (const char *const[]){":status", "200", "content-type", "application/grpc", "grpc-status", "9",
                                            "grpc-message", "etcdserver: authentication is not enabled", NULL},
                      true);
        return;
    }
    assert_string_equal(upstream_field(upstream, i, ":path"), "/etcdserverpb.KV/Range");
    etcd.n_range++;
    etcd.last_range = i;
    if (!etcd.silent)
        answer_range(upstream, i);
}

static struct fence *fence;
static struct permit *permit;

static void make_fence(struct etcd as)
{
    etcd = as;
    make(&(struct upstream_opts){.serve = serve}, 1);
    assert_int_equal(
        etcd_fence_create(&(struct etcd_fence_opts){.uplink = bed.uplink, .loop = belfry_loop_uv(bed.loop)}, &fence),
        BELFRY_OK);
}

static int teardown(void **state)
{
    (void)state;
    fence_destroy(fence);
    permit_destroy(permit);
    fence = NULL;
    permit = NULL;
    close_bed();
    return refuse_held() == 0 ? 0 : -1;
}

/* ---- askers ---- */

struct seen {
    struct fence_wait *wait;
    int n;
    enum belfry_err err;
    int64_t rev;
    struct seen *other;  /* to be cancelled when this one is answered */
    struct seen *behind; /* asks when this one is answered */
    bool destroys;
};

static enum belfry_err ask_with(struct seen *seen, const char *token, const char *key);

static void on_answer(enum belfry_err err, int64_t rev, void *user)
{
    struct seen *seen = user;
    seen->n++;
    seen->wait = NULL;
    seen->err = err;
    seen->rev = rev;
    if (seen->other != NULL && seen->other->wait != NULL) {
        fence_cancel(seen->other->wait);
        seen->other->wait = NULL;
    }
    if (seen->behind != NULL)
        assert_int_equal(ask_with(seen->behind, NULL, "k"), BELFRY_OK);
    if (seen->destroys) {
        fence_destroy(fence);
        fence = NULL;
    }
}

static enum belfry_err ask_with(struct seen *seen, const char *token, const char *key)
{
    struct identity who = {0};
    if (token != NULL)
        who = identity_of_token(IDENTITY_FIELD_AUTHORIZATION, belfry_bytes_str(token));
    return fence_ask(fence, &who, belfry_bytes_str(key), on_answer, seen, &seen->wait);
}

static void ask(struct seen *seen)
{
    assert_int_equal(ask_with(seen, NULL, "k"), BELFRY_OK);
    assert_int_equal(seen->n, 0);
}

static struct fence_stats counted(void)
{
    struct fence_stats out;
    fence_stats(fence, &out);
    return out;
}

/* ---- tests ---- */

static void the_answer_is_upstreams_revision_read_linearizably(void **state)
{
    (void)state;
    make_fence((struct etcd){.rev = 42});
    struct seen seen = {0};
    assert_int_equal(ask_with(&seen, "tok.1", "/registry/w/"), BELFRY_OK);
    drive_until(seen.n == 1);
    assert_int_equal(seen.err, BELFRY_OK);
    assert_int_equal(seen.rev, 42);
    const struct upstream_request *request = upstream_request(bed.members[0], etcd.last_range);
    Etcdserverpb__RangeRequest *range =
        etcdserverpb__range_request__unpack(NULL, request->body_len - 5, request->body + 5);
    assert_non_null(range);
    assert_true(range->key.len == 12 && memcmp(range->key.data, "/registry/w/", 12) == 0);
    assert_true(range->count_only && !range->serializable && range->range_end.len == 0);
    etcdserverpb__range_request__free_unpacked(range, NULL);
    assert_string_equal(upstream_field(bed.members[0], etcd.last_range, "authorization"), "tok.1");
    assert_string_equal(upstream_field(bed.members[0], etcd.last_range, "grpc-timeout"), "3000m");
}

static void a_thousand_who_ask_at_once_cost_two_questions(void **state)
{
    (void)state;
    make_fence((struct etcd){.rev = 7});
    static struct seen seen[1000];
    memset(seen, 0, sizeof(seen));
    for (size_t i = 0; i < 1000; i++)
        ask(&seen[i]);
    drive_until(seen[999].n == 1);
    for (size_t i = 0; i < 1000; i++)
        assert_true(seen[i].n == 1 && seen[i].err == BELFRY_OK && seen[i].rev == 7);
    assert_int_equal(etcd.n_range, 2);
    assert_int_equal(counted().asked, 1000);
    assert_int_equal(counted().questions, 2);
    assert_int_equal(counted().failed, 0);
}

static void who_asks_behind_a_question_is_not_given_its_answer(void **state)
{
    (void)state;
    make_fence((struct etcd){.rev = 10, .silent = true});
    struct seen first = {0}, second = {0};
    ask(&first);
    drive_until(etcd.n_range == 1);
    ask(&second);
    answer_range(bed.members[0], etcd.last_range);
    drive_until(first.n == 1 && etcd.n_range == 2);
    assert_int_equal(first.rev, 10);
    assert_int_equal(second.n, 0);
    etcd.rev = 11;
    answer_range(bed.members[0], etcd.last_range);
    drive_until(second.n == 1);
    assert_int_equal(second.rev, 11);
}

static void another_token_or_key_is_another_question(void **state)
{
    (void)state;
    make_fence((struct etcd){.rev = 5});
    struct seen a = {0}, b = {0}, c = {0};
    assert_int_equal(ask_with(&a, "t.1", "k"), BELFRY_OK);
    assert_int_equal(ask_with(&b, "t.2", "k"), BELFRY_OK);
    assert_int_equal(ask_with(&c, "t.1", "l"), BELFRY_OK);
    drive_until(a.n + b.n + c.n == 3);
    assert_int_equal(etcd.n_range, 3);
}

static void on_verdict(enum permit_verdict verdict, const char *reason, void *user)
{
    (void)verdict;
    (void)reason;
    ++*(int *)user;
}

static void with_auth_off_all_share_and_no_token_is_sent(void **state)
{
    (void)state;
    etcd = (struct etcd){.rev = 5};
    make(&(struct upstream_opts){.serve = serve}, 1);
    assert_int_equal(
        permit_create(&(struct permit_opts){.uplink = bed.uplink, .loop = belfry_loop_uv(bed.loop)}, &permit),
        BELFRY_OK);
    assert_int_equal(
        etcd_fence_create(
            &(struct etcd_fence_opts){.uplink = bed.uplink, .permit = permit, .loop = belfry_loop_uv(bed.loop)},
            &fence),
        BELFRY_OK);
    int verdicts = 0;
    struct permit_question *question;
    assert_int_equal(permit_ask(permit, &(struct identity){0}, belfry_bytes_str("k"), belfry_bytes_str(""),
                                belfry_clock_ms(), on_verdict, &verdicts, &question),
                     BELFRY_OK);
    drive_until(verdicts == 1);
    assert_true(permit_is_open(permit, belfry_clock_ms()));
    struct seen a = {0}, b = {0}, c = {0};
    assert_int_equal(ask_with(&a, "t.1", "k"), BELFRY_OK);
    assert_int_equal(ask_with(&b, "t.2", "k"), BELFRY_OK);
    assert_int_equal(ask_with(&c, "t.3", "l"), BELFRY_OK);
    drive_until(a.n + b.n + c.n == 3);
    assert_int_equal(etcd.n_range, 2);
    assert_null(upstream_field(bed.members[0], etcd.last_range, "authorization"));
}

static void refusals_are_told_apart(void **state)
{
    (void)state;
    static const struct {
        const char *code;
        enum belfry_err err;
    } cases[] = {{"7", BELFRY_ERR_DENIED},  {"16", BELFRY_ERR_AUTH},        {"3", BELFRY_ERR_AUTH},
                 {"4", BELFRY_ERR_TIMEOUT}, {"14", BELFRY_ERR_UNAVAILABLE}, {"13", BELFRY_ERR_UNAVAILABLE}};
    make_fence((struct etcd){.rev = 5});
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct seen seen = {0};
        etcd.code = cases[i].code;
        ask(&seen);
        drive_until(seen.n == 1);
        assert_int_equal(seen.err, cases[i].err);
    }
    assert_int_equal(counted().failed, sizeof(cases) / sizeof(cases[0]));
}

/* ---- users of certificates ---- */

static struct vouch *vouch;

static void serve_users(struct upstream *upstream, size_t i, void *user)
{
    (void)user;
    char name[64];
    if (strstr(upstream_field(upstream, i, ":path"), "Range") == NULL) {
        auth_serve(upstream, i);
        return;
    }
    uint64_t revision = auth_read(upstream_field(upstream, i, "token"), name, sizeof(name));
    assert_string_equal(name, "alice");
    if (revision < auth.store_revision)
        auth_refuse(upstream, i, "3", VOUCH_OLD);
    else
        serve(upstream, i, NULL);
}

static void user_of_a_certificate_asks_with_a_token_that_is_new_enough(void **state)
{
    etcd = (struct etcd){.rev = 5};
    auth_setup(state);
    make(&(struct upstream_opts){.serve = serve_users}, 1);
    struct vouch_opts opts = auth_vouch_opts();
    assert_int_equal(vouch_create(&opts, &vouch), BELFRY_OK);
    struct etcd_fence_opts with = {.uplink = bed.uplink, .vouch = vouch, .loop = belfry_loop_uv(bed.loop)};
    assert_int_equal(etcd_fence_create(&with, &fence), BELFRY_OK);
    struct identity alice = {.kind = IDENTITY_CERT, .text = belfry_bytes_str("alice")};
    struct identity root = {.kind = IDENTITY_CERT, .text = belfry_bytes_str("root")};
    struct fence_wait *wait;
    for (int i = 0; i < 2; i++, auth.store_revision++) { /* the second time its token is old */
        struct seen seen = {0};
        assert_int_equal(fence_ask(fence, &alice, belfry_bytes_str("k"), on_answer, &seen, &wait), BELFRY_OK);
        drive_until(seen.n == 1);
        assert_int_equal(seen.err, BELFRY_OK);
        assert_int_equal(seen.rev, 5);
        assert_int_equal(auth.n_log_ins, i + 1);
    }
    struct seen gone = {0}, refused = {0};
    assert_int_equal(fence_ask(fence, &root, belfry_bytes_str("k"), on_answer, &refused, &wait), BELFRY_ERR_AUTH);
    auth.log_in_code = "3";
    auth.log_in_message = "no";
    assert_int_equal(fence_ask(fence, &alice, belfry_bytes_str("k"), on_answer, &refused, &wait), BELFRY_OK);
    drive_until(refused.n == 1);
    assert_int_equal(refused.err, BELFRY_ERR_UNAVAILABLE);
    auth.log_in_code = NULL;
    auth.is_silent = true;
    drive_for(AUTH_REVISION_EVERY_MS);
    assert_int_equal(fence_ask(fence, &alice, belfry_bytes_str("k"), on_answer, &gone, &wait), BELFRY_OK);
    fence_cancel(wait); /* while it waits to be vouched for */
    drive_for(50);
    assert_int_equal(gone.n, 0);
    fence_destroy(fence);
    fence = NULL;
    vouch_destroy(vouch);
    auth_fini();
}

static void an_answer_without_a_revision_is_none(void **state)
{
    (void)state;
    make_fence((struct etcd){.rev = 0});
    struct seen seen = {0};
    ask(&seen);
    drive_until(seen.n == 1);
    assert_int_equal(seen.err, BELFRY_ERR_UNAVAILABLE);
}

static void a_token_that_cannot_be_sent_is_refused_at_once(void **state)
{
    (void)state;
    make_fence((struct etcd){.rev = 5});
    struct seen seen = {0};
    assert_int_equal(ask_with(&seen, "a\nb", "k"), BELFRY_ERR_AUTH);
    assert_int_equal(counted().asked, 0);
}

static void an_answer_may_cancel_who_waits_for_the_same(void **state)
{
    (void)state;
    make_fence((struct etcd){.rev = 5, .silent = true});
    struct seen zeroth = {0}, first = {0}, second = {0};
    ask(&zeroth);
    drive_until(etcd.n_range == 1);
    first.other = &second;
    ask(&first);
    ask(&second);
    etcd.silent = false;
    answer_range(bed.members[0], etcd.last_range);
    drive_until(first.n == 1);
    drive_for(20);
    assert_int_equal(second.n, 0);
}

static void an_answer_may_ask_again_or_destroy_the_fence(void **state)
{
    (void)state;
    make_fence((struct etcd){.rev = 5});
    struct seen first = {0}, again = {0}, beside = {0};
    first.behind = &again;
    again.destroys = true;
    ask(&first);
    ask(&beside);
    drive_until(again.n == 1);
    assert_int_equal(first.rev, 5);
    assert_null(fence);
}

static void a_question_that_nobody_waits_for_is_cancelled(void **state)
{
    (void)state;
    make_fence((struct etcd){.rev = 5, .silent = true});
    struct seen first = {0}, second = {0};
    ask(&first);
    ask(&second);
    drive_until(etcd.n_range == 1);
    fence_cancel(first.wait);
    drive_for(20);
    assert_false(upstream_request(bed.members[0], 0)->closed);
    fence_cancel(second.wait);
    drive_until(upstream_request(bed.members[0], 0)->closed);
    assert_int_equal(first.n + second.n, 0);
}

/* Upstream hangs: the first who asked gives up; who came later is asked for anew, and gets an answer. */
static void without_an_answer_it_is_a_timeout_and_those_behind_are_asked_for(void **state)
{
    (void)state;
    make_fence((struct etcd){.rev = 5, .silent = true});
    struct seen first = {0}, second = {0};
    uint64_t began = belfry_clock_ms();
    ask(&first);
    drive_for(500);
    ask(&second);
    drive_until(etcd.n_range == 1);
    etcd.silent = false;
    drive_until(first.n == 1);
    assert_in_range(belfry_clock_ms() - began, FENCE_TIMEOUT_MS - 50, FENCE_TIMEOUT_MS + 3000);
    assert_int_equal(first.err, BELFRY_ERR_TIMEOUT);
    drive_until(second.n == 1);
    assert_int_equal(second.err, BELFRY_OK);
    assert_int_equal(etcd.n_range, 2);
}

static void those_who_wait_are_bounded_in_number_and_bytes(void **state)
{
    (void)state;
    make_fence((struct etcd){.silent = true});
    static struct seen seen;
    for (size_t i = 0; i < FENCE_WAITING; i++)
        assert_int_equal(ask_with(&seen, "t.1", "k"), BELFRY_OK);
    assert_int_equal(ask_with(&seen, "t.1", "k"), BELFRY_ERR_LIMIT);
    fence_cancel(seen.wait);
    assert_int_equal(ask_with(&seen, "t.1", "k"), BELFRY_OK);
    fence_destroy(fence);
    assert_int_equal(
        etcd_fence_create(&(struct etcd_fence_opts){.uplink = bed.uplink, .loop = belfry_loop_uv(bed.loop)}, &fence),
        BELFRY_OK);
    char *big = test_calloc(1, FENCE_BYTES);
    struct belfry_bytes key = belfry_bytes_of(big, FENCE_BYTES);
    assert_int_equal(fence_ask(fence, &(struct identity){0}, key, on_answer, &seen, &seen.wait), BELFRY_ERR_LIMIT);
    test_free(big);
}

/* ---- memory ---- */

static enum belfry_err scenario(void)
{
    static struct seen seen[3];
    memset(seen, 0, sizeof(seen));
    etcd = (struct etcd){.rev = 5};
    bed.members[0] = upstream_create(&(struct upstream_opts){.serve = serve});
    enum belfry_err err = open_bed();
    if (err == BELFRY_OK)
        err = etcd_fence_create(&(struct etcd_fence_opts){.uplink = bed.uplink, .loop = belfry_loop_uv(bed.loop)},
                                &fence);
    int asked = 0;
    for (; asked < 3 && err == BELFRY_OK; asked += err == BELFRY_OK)
        err = ask_with(&seen[asked], asked == 2 ? "t.1" : NULL, "k");
    drive_until(seen[0].n + seen[1].n + seen[2].n == asked);
    for (int i = 0; i < asked; i++)
        err = seen[i].err != BELFRY_OK ? BELFRY_ERR_NOMEM : err;
    fence_destroy(fence);
    fence = NULL;
    close_bed();
    return err;
}

static void without_memory_a_question_fails_and_nothing_leaks(void **state)
{
    (void)state;
    assert_true(refuse_sweep(scenario) > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(the_answer_is_upstreams_revision_read_linearizably, teardown),
        cmocka_unit_test_teardown(a_thousand_who_ask_at_once_cost_two_questions, teardown),
        cmocka_unit_test_teardown(who_asks_behind_a_question_is_not_given_its_answer, teardown),
        cmocka_unit_test_teardown(another_token_or_key_is_another_question, teardown),
        cmocka_unit_test_teardown(with_auth_off_all_share_and_no_token_is_sent, teardown),
        cmocka_unit_test_teardown(refusals_are_told_apart, teardown),
        cmocka_unit_test_teardown(user_of_a_certificate_asks_with_a_token_that_is_new_enough, teardown),
        cmocka_unit_test_teardown(an_answer_without_a_revision_is_none, teardown),
        cmocka_unit_test_teardown(a_token_that_cannot_be_sent_is_refused_at_once, teardown),
        cmocka_unit_test_teardown(an_answer_may_cancel_who_waits_for_the_same, teardown),
        cmocka_unit_test_teardown(an_answer_may_ask_again_or_destroy_the_fence, teardown),
        cmocka_unit_test_teardown(a_question_that_nobody_waits_for_is_cancelled, teardown),
        cmocka_unit_test_teardown(without_an_answer_it_is_a_timeout_and_those_behind_are_asked_for, teardown),
        cmocka_unit_test_teardown(those_who_wait_are_bounded_in_number_and_bytes, teardown),
        cmocka_unit_test_teardown(without_memory_a_question_fails_and_nothing_leaks, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
