/* src/serve/rights/permit_users_test.c: questions about users of client certificates, to a support/fakeupstream that
 * answers as an etcd with JWTs would. */
#include "serve/rights/permit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/uplinkbed.h"

#include "support/authbed.h"

#define PERIOD 1000
#define FUTURE "etcdserver: mvcc: required revision is a future revision"

static struct etcd {
    const char *range_code, *range_message; /* NULL: alice and root may read */
    size_t n_range;
    char user[300]; /* of the last question */
    uint64_t revision;
    bool was_passed; /* as belfry-user */
} etcd;

static struct vouch *vouch;
static struct permit *permit;

static void serve_question(struct upstream *upstream, size_t i)
{
    const char *passed = upstream_field(upstream, i, "belfry-user");
    etcd.n_range++;
    etcd.was_passed = passed != NULL;
    if (passed != NULL)
        snprintf(etcd.user, sizeof(etcd.user), "%s", passed);
    else
        etcd.revision = auth_read(upstream_field(upstream, i, "token"), etcd.user, sizeof(etcd.user));
    if (etcd.range_code != NULL)
        auth_refuse(upstream, i, etcd.range_code, etcd.range_message);
    else if (!etcd.was_passed && etcd.revision < auth.store_revision)
        auth_refuse(upstream, i, "3", VOUCH_OLD);
    else if (strstr(etcd.user, "alice") == NULL && strstr(etcd.user, "root") == NULL)
        auth_refuse(upstream, i, "7", "etcdserver: permission denied");
    else
        auth_refuse(upstream, i, "11", FUTURE);
}

static void serve(struct upstream *upstream, size_t i, void *user)
{
    (void)user;
    if (strstr(upstream_field(upstream, i, ":path"), "/etcdserverpb.KV/") != NULL)
        serve_question(upstream, i);
    else
        auth_serve(upstream, i);
}

static void make_permit(const struct vouch_opts *opts)
{
    etcd = (struct etcd){0};
    make(&(struct upstream_opts){.serve = serve}, 1);
    struct vouch_opts with = auth_vouch_opts();
    if (opts != NULL)
        with.mint = opts->mint, with.pass_users = opts->pass_users, with.allow_root = opts->allow_root;
    assert_int_equal(vouch_create(&with, &vouch), BELFRY_OK);
    struct permit_opts permit_opts = {
        .uplink = bed.uplink, .loop = belfry_loop_uv(bed.loop), .vouch = vouch, .period_ms = PERIOD};
    assert_int_equal(permit_create(&permit_opts, &permit), BELFRY_OK);
}

static int teardown(void **state)
{
    (void)state;
    permit_destroy(permit);
    vouch_destroy(vouch);
    permit = NULL;
    vouch = NULL;
    close_bed();
    auth_fini();
    return refuse_held() == 0 ? 0 : -1;
}

/* ---- questions ---- */

struct seen {
    int n;
    enum permit_verdict verdict;
    char reason[600];
};

static void on_answer(enum permit_verdict verdict, const char *reason, void *user)
{
    struct seen *seen = user;
    seen->n++;
    seen->verdict = verdict;
    snprintf(seen->reason, sizeof(seen->reason), "%s", reason);
}

static struct identity named(const char *name)
{
    return (struct identity){.kind = IDENTITY_CERT, .text = belfry_bytes_str(name)};
}

static void asked(struct seen *seen, const char *name, enum permit_verdict verdict, const char *reason)
{
    struct permit_question *question;
    struct identity who = named(name);
    *seen = (struct seen){0};
    assert_int_equal(permit_ask(permit, &who, belfry_bytes_str("k"), belfry_bytes_str("l"), belfry_clock_ms(),
                                on_answer, seen, &question),
                     BELFRY_OK);
    drive_until(seen->n > 0);
    assert_int_equal(seen->verdict, verdict);
    assert_string_equal(seen->reason, reason);
}

static void user_of_a_certificate_is_asked_for_with_a_token_of_its_own(void **state)
{
    (void)state;
    make_permit(NULL);
    struct seen seen;
    asked(&seen, "alice", PERMIT_GRANTED, "");
    assert_string_equal(etcd.user, "alice");
    assert_int_equal(etcd.revision, 17);
    asked(&seen, "alice", PERMIT_GRANTED, "");
    assert_int_equal(etcd.n_range, 1); /* the answer is used again */
    asked(&seen, "mallory", PERMIT_REFUSED, PERMIT_DENIED);
    assert_string_equal(etcd.user, "mallory");
    assert_int_equal(auth.n_log_ins, 1);
}

static void with_auth_off_no_token_is_made(void **state)
{
    (void)state;
    auth.auth_on = false;
    make_permit(NULL);
    struct seen seen;
    asked(&seen, "alice", PERMIT_GRANTED, "");
    assert_true(auth.n_log_ins == 0 && etcd.n_range == 0 && auth.n_status == 1);
}

static void who_cannot_be_vouched_for_is_refused_with_the_reason(void **state)
{
    (void)state;
    make_permit(NULL);
    struct seen seen;
    asked(&seen, "root", PERMIT_REFUSED, VOUCH_NO_ROOT);
    assert_true(permit_is_about_token(seen.reason) && permit_explains(seen.reason));
    assert_string_equal(permit_unauthorized(seen.reason), vouch_message(VOUCH_NO_ROOT));
    assert_string_equal(permit_unauthorized(PERMIT_BAD_TOKEN), "Unauthorized");
    strcpy(auth.issues, "abcdefghijklmnop.1");
    asked(&seen, "alice", PERMIT_REFUSED, VOUCH_NO_JWT);
    asked(&seen, "alice", PERMIT_REFUSED, VOUCH_NO_JWT);
    assert_true(etcd.n_range == 0 && auth.n_log_ins == 1);
}

static void without_a_vouch_every_user_is_refused(void **state)
{
    (void)state;
    make_permit(&(struct vouch_opts){0});
    struct seen seen;
    asked(&seen, "alice", PERMIT_REFUSED, VOUCH_NO_KEY);
    assert_int_equal(etcd.n_range, 0);
}

static void token_that_etcd_does_not_accept_is_told_as_such(void **state)
{
    (void)state;
    make_permit(NULL);
    etcd.range_code = "16";
    etcd.range_message = "etcdserver: invalid auth token";
    struct seen seen;
    asked(&seen, "alice", PERMIT_REFUSED, VOUCH_NOT_ACCEPTED);
}

static void tier_that_cannot_log_in_is_unavailable(void **state)
{
    (void)state;
    auth.log_in_code = "3";
    auth.log_in_message = "etcdserver: authentication failed";
    make_permit(NULL);
    struct seen seen;
    asked(&seen, "alice", PERMIT_UNAVAILABLE,
          "belfry: this tier cannot log in to upstream: etcdserver: authentication failed");
    asked(&seen, "alice", PERMIT_UNAVAILABLE,
          "belfry: this tier cannot log in to upstream: etcdserver: authentication failed");
    assert_int_equal(auth.n_log_ins, 1);
}

static void silent_log_in_does_not_count_against_the_user(void **state)
{
    (void)state;
    auth.is_silent = true;
    make_permit(NULL);
    struct seen seen = {0};
    struct permit_question *question;
    struct identity who = named("alice");
    assert_int_equal(permit_ask(permit, &who, belfry_bytes_str("k"), belfry_bytes_str(""), belfry_clock_ms(), on_answer,
                                &seen, &question),
                     BELFRY_OK);
    drive_until(seen.n == 1);
    assert_int_equal(seen.verdict, PERMIT_UNAVAILABLE);
}

static void user_is_passed_on_to_a_tier(void **state)
{
    (void)state;
    make_permit(&(struct vouch_opts){.pass_users = true});
    struct seen seen;
    asked(&seen, "alice b", PERMIT_GRANTED, "");
    assert_true(etcd.was_passed);
    assert_string_equal(etcd.user, "\"alice b\"");
    etcd.range_code = "16";
    etcd.range_message = "belfry: belfry-user is taken only from tiers";
    asked(&seen, "bob", PERMIT_REFUSED, VOUCH_PREFIX "belfry: belfry-user is taken only from tiers");
    etcd.range_code = "3";
    etcd.range_message = VOUCH_OLD; /* the tier above has relayed it with an old token: it is asked again */
    struct permit_question *question;
    struct identity who = named("alice");
    seen = (struct seen){0};
    size_t before = etcd.n_range;
    assert_int_equal(permit_ask(permit, &who, belfry_bytes_str("k"), belfry_bytes_str(""), belfry_clock_ms(), on_answer,
                                &seen, &question),
                     BELFRY_OK);
    drive_until(etcd.n_range == before + 2);
    assert_int_equal(seen.n, 0);
    etcd.range_code = NULL;
    drive_until(seen.n == 1);
    assert_int_equal(seen.verdict, PERMIT_GRANTED);
    assert_in_range(etcd.n_range, before + 3, before + 4);
}

static void on_an_open_listener_a_certificate_counts_as_none(void **state)
{
    (void)state;
    make_permit(NULL);
    struct seen seen = {0};
    struct permit_question *question;
    struct identity who = named("alice");
    who.rights = LISTEN_RIGHTS_OPEN;
    assert_int_equal(permit_ask(permit, &who, belfry_bytes_str("k"), belfry_bytes_str(""), belfry_clock_ms(), on_answer,
                                &seen, &question),
                     BELFRY_OK);
    drive_until(seen.n == 1);
    assert_int_equal(seen.verdict, PERMIT_GRANTED);
    assert_int_equal(auth.n_log_ins, 0);
}

/* ---- streams that run ---- */

struct stream {
    struct permit_party party;
    struct identity who;
    struct permit_question *question;
    int n_held, n_denied, n_ended, n_paused, n_resumed;
};

static void on_stream(struct permit_party *party, enum permit_event event, const char *reason)
{
    struct stream *stream = belfry_container(party, struct stream, party);
    (void)reason;
    stream->n_ended += event == PERMIT_ENDED;
    stream->n_paused += event == PERMIT_PAUSED;
    stream->n_resumed += event == PERMIT_RESUMED;
}

static void on_watch(enum permit_verdict verdict, const char *reason, void *user)
{
    struct stream *stream = user;
    stream->n_held += verdict == PERMIT_HELD;
    stream->n_denied += verdict == PERMIT_REFUSED && strcmp(reason, PERMIT_DENIED) == 0;
    if (verdict != PERMIT_HELD)
        stream->question = NULL;
}

static void open_stream(struct stream *stream, const char *name)
{
    *stream = (struct stream){.who = named(name)};
    permit_join(permit, &stream->party, &stream->who, on_stream);
    assert_int_equal(permit_hold(permit, &stream->party, belfry_bytes_str("k"), belfry_bytes_str("l"),
                                 belfry_clock_ms(), on_watch, stream, &stream->question),
                     BELFRY_OK);
    drive_until(stream->n_held == 1);
}

static void close_stream(struct stream *stream)
{
    if (stream->question != NULL)
        permit_cancel(stream->question);
    permit_leave(permit, &stream->party);
}

static void change_of_other_roles_neither_ends_nor_pauses_a_watch(void **state)
{
    (void)state;
    make_permit(NULL);
    struct stream stream;
    open_stream(&stream, "alice");
    for (int i = 0; i < 3; i++) {
        auth.store_revision++;
        size_t before = etcd.n_range;
        drive_until(etcd.n_range >= before + 2 && etcd.revision == auth.store_revision);
    }
    drive_for(PERIOD / 2);
    assert_true(stream.n_denied == 0 && stream.n_ended == 0);
    assert_int_equal(stream.n_paused, stream.n_resumed);
    assert_true(permit_may_deliver(permit, &stream.party, belfry_clock_ms()));
    assert_in_range(auth.n_log_ins, 4, 5);
    close_stream(&stream);
}

static void revoked_role_ends_a_watch_within_a_period(void **state)
{
    (void)state;
    make_permit(NULL);
    struct stream stream;
    open_stream(&stream, "alice");
    auth.store_revision++;
    uint64_t from = belfry_clock_ms();
    drive_until(etcd.n_range >= 2); /* that the token is old is known */
    etcd.range_code = "7";
    etcd.range_message = "etcdserver: permission denied";
    drive_until(stream.n_denied == 1 || !permit_may_deliver(permit, &stream.party, belfry_clock_ms()));
    assert_in_range(belfry_clock_ms() - from, 0, PERIOD);
    drive_until(stream.n_denied == 1);
    close_stream(&stream);
}

static void while_the_tier_cannot_log_in_watches_pause_and_do_not_end(void **state)
{
    (void)state;
    make_permit(NULL);
    struct stream stream;
    open_stream(&stream, "alice");
    auth.log_in_code = "3";
    auth.log_in_message = "etcdserver: authentication failed";
    auth.store_revision++;
    drive_until(stream.n_paused == 1);
    assert_false(permit_may_deliver(permit, &stream.party, belfry_clock_ms()));
    assert_true(stream.n_ended == 0 && stream.n_denied == 0);
    auth.log_in_code = NULL;
    drive_until(stream.n_resumed == 1);
    assert_true(permit_may_deliver(permit, &stream.party, belfry_clock_ms()));
    close_stream(&stream);
}

/* Without reading tokens, which takes memory. */
static void serve_plainly(struct upstream *upstream, size_t i, void *user)
{
    (void)user;
    if (strstr(upstream_field(upstream, i, ":path"), "/etcdserverpb.KV/") != NULL)
        auth_refuse(upstream, i, "11", FUTURE);
    else
        auth_serve(upstream, i);
}

static enum belfry_err scenario(void)
{
    static struct seen seen;
    struct permit_question *question;
    struct identity who = named("alice");
    seen = (struct seen){0};
    etcd = (struct etcd){0};
    strcpy(auth.issues, AUTH_TOKEN);
    auth_revision_init(&auth.revision);
    bed.members[0] = upstream_create(&(struct upstream_opts){.serve = serve_plainly});
    enum belfry_err err = open_bed();
    struct vouch_opts opts = {0};
    if (err == BELFRY_OK) {
        opts = auth_vouch_opts();
        err = vouch_create(&opts, &vouch);
    }
    struct permit_opts permit_opts = {.uplink = bed.uplink, .vouch = vouch};
    if (err == BELFRY_OK) {
        permit_opts.loop = belfry_loop_uv(bed.loop);
        err = permit_create(&permit_opts, &permit);
    }
    if (err == BELFRY_OK)
        err = permit_ask(permit, &who, belfry_bytes_str("k"), belfry_bytes_str("l"), belfry_clock_ms(), on_answer,
                         &seen, &question);
    if (err == BELFRY_OK) {
        drive_until(seen.n == 1);
        err = seen.verdict == PERMIT_UNAVAILABLE ? BELFRY_ERR_NOMEM : BELFRY_OK;
    }
    permit_destroy(permit);
    vouch_destroy(vouch);
    permit = NULL;
    vouch = NULL;
    close_bed();
    auth_revision_fini(&auth.revision);
    return err;
}

static void without_memory_a_question_fails_and_nothing_leaks(void **state)
{
    (void)state;
    assert_true(refuse_sweep(scenario) > 10);
}

#define WITH_BED(test) cmocka_unit_test_setup_teardown(test, auth_setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_BED(user_of_a_certificate_is_asked_for_with_a_token_of_its_own),
        WITH_BED(with_auth_off_no_token_is_made),
        WITH_BED(who_cannot_be_vouched_for_is_refused_with_the_reason),
        WITH_BED(without_a_vouch_every_user_is_refused),
        WITH_BED(token_that_etcd_does_not_accept_is_told_as_such),
        WITH_BED(tier_that_cannot_log_in_is_unavailable),
        WITH_BED(silent_log_in_does_not_count_against_the_user),
        WITH_BED(user_is_passed_on_to_a_tier),
        WITH_BED(on_an_open_listener_a_certificate_counts_as_none),
        WITH_BED(change_of_other_roles_neither_ends_nor_pauses_a_watch),
        WITH_BED(revoked_role_ends_a_watch_within_a_period),
        WITH_BED(while_the_tier_cannot_log_in_watches_pause_and_do_not_end),
        WITH_BED(without_memory_a_question_fails_and_nothing_leaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
