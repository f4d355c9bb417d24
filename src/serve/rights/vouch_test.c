/* src/serve/rights/vouch_test.c: tokens for users of certificates, with a support/fakeupstream that issues the tier's
 * own. */
#include "serve/rights/vouch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

#include <cmocka.h>

#include "serve/rights/identity.h"
#include "support/uplinkbed.h"

#include "support/authbed.h"

static struct vouch *vouch, *other; /* of two workers */
static int64_t now_s;

static int64_t read_clock(void)
{
    return now_s;
}

static void serve(struct upstream *upstream, size_t i, void *user)
{
    (void)user;
    auth_serve(upstream, i);
}

static void make_vouch(void)
{
    make(&(struct upstream_opts){.serve = serve}, 1);
    struct vouch_opts opts = auth_vouch_opts();
    now_s = 1700000000;
    opts.now_s = read_clock;
    assert_int_equal(vouch_create(&opts, &vouch), BELFRY_OK);
    assert_int_equal(vouch_create(&opts, &other), BELFRY_OK);
}

static int teardown(void **state)
{
    (void)state;
    vouch_destroy(vouch);
    vouch_destroy(other);
    vouch = other = NULL;
    close_bed();
    auth_fini();
    return refuse_held() == 0 ? 0 : -1;
}

/* ---- asking ---- */

struct caller {
    struct vouch_wait wait;
    struct vouch *vouch;
    const char *user;
    int n_told;
    enum vouch_verdict verdict;
    char token[1024], reason[600];
    uint64_t revision;
};

static void caller_ask(struct caller *caller)
{
    struct voucher voucher;
    caller->verdict = vouch_ask(caller->vouch, belfry_bytes_str(caller->user), &caller->wait, &voucher);
    if (caller->verdict == VOUCH_GIVEN) {
        snprintf(caller->token, sizeof(caller->token), "%.*s", (int)voucher.field.value.len, voucher.field.value.data);
        assert_true(belfry_bytes_equal(voucher.field.name, belfry_bytes_str("token")));
        caller->revision = voucher.revision;
    } else if (caller->verdict != VOUCH_LATER) {
        snprintf(caller->reason, sizeof(caller->reason), "%s", voucher.reason);
    }
}

static void on_told(struct vouch_wait *wait)
{
    struct caller *caller = belfry_container(wait, struct caller, wait);
    caller->n_told++;
    caller_ask(caller);
}

static void ask(struct caller *caller, struct vouch *by, const char *user)
{
    *caller = (struct caller){.vouch = by, .user = user};
    vouch_wait_init(&caller->wait, on_told);
    caller_ask(caller);
}

static void asked(struct caller *caller, const char *user, enum vouch_verdict verdict)
{
    ask(caller, vouch, user);
    drive_until(caller->verdict != VOUCH_LATER);
    assert_int_equal(caller->verdict, verdict);
}

/* Asks, and does not wait. */
static bool is_given(struct caller *caller, struct vouch *by, const char *user)
{
    ask(caller, by, user);
    vouch_wait_end(&caller->wait);
    return caller->verdict == VOUCH_GIVEN;
}

static void assert_token_is(const struct caller *caller, const char *user, uint64_t revision)
{
    char name[64];
    assert_int_equal(auth_read(caller->token, name, sizeof(name)), revision);
    assert_string_equal(name, user);
    assert_int_equal(caller->revision, revision);
}

static struct vouch_stats counted(void)
{
    struct vouch_stats out;
    vouch_stats(vouch, &out);
    return out;
}

/* ---- tests ---- */

static void calls_wait_for_one_log_in_of_the_tier(void **state)
{
    (void)state;
    make_vouch();
    struct caller callers[3], gone;
    for (size_t i = 0; i < 3; i++) {
        ask(&callers[i], i < 2 ? vouch : other, i == 0 ? "alice" : "bob");
        assert_int_equal(callers[i].verdict, VOUCH_LATER);
    }
    ask(&gone, vouch, "carol");
    vouch_wait_end(&gone.wait);
    drive_until(callers[0].verdict == VOUCH_GIVEN && callers[1].verdict == VOUCH_GIVEN &&
                callers[2].verdict == VOUCH_GIVEN);
    assert_int_equal(auth.n_log_ins, 1);
    assert_string_equal(auth.name, "tier");
    assert_string_equal(auth.secret, "pass");
    assert_token_is(&callers[0], "alice", 17);
    assert_token_is(&callers[2], "bob", 17);
    assert_int_equal(gone.n_told, 0);
}

static void token_is_kept_for_half_of_its_life(void **state)
{
    (void)state;
    make_vouch();
    struct caller first, again;
    asked(&first, "alice", VOUCH_GIVEN);
    now_s += VOUCH_LIFE_S / 2 - 1;
    asked(&again, "alice", VOUCH_GIVEN);
    assert_string_equal(first.token, again.token);
    assert_int_equal(counted().signed_tokens, 1);
    now_s++;
    asked(&again, "alice", VOUCH_GIVEN);
    assert_string_not_equal(first.token, again.token);
    now_s -= VOUCH_LIFE_S; /* the clock was set back: a token must not live longer than it should */
    asked(&first, "alice", VOUCH_GIVEN);
    assert_string_not_equal(first.token, again.token);
    assert_int_equal(counted().signed_tokens, 3);
    assert_int_equal(auth.n_log_ins, 1);
}

static void old_revision_leads_to_one_log_in_and_new_tokens(void **state)
{
    (void)state;
    make_vouch();
    struct caller alice, bob;
    asked(&alice, "alice", VOUCH_GIVEN);
    asked(&bob, "bob", VOUCH_GIVEN);
    auth.store_revision = 18;
    uint64_t from = belfry_clock_ms();
    vouch_outdate(vouch, alice.revision);
    vouch_outdate(vouch, bob.revision);
    asked(&alice, "alice", VOUCH_GIVEN);
    assert_token_is(&alice, "alice", 18);
    assert_true(belfry_clock_ms() - from > AUTH_REVISION_EVERY_MS / 2); /* not more than once per second */
    vouch_outdate(vouch, 17);                                           /* of a call that was sent before */
    ask(&bob, vouch, "bob");
    assert_int_equal(bob.verdict, VOUCH_GIVEN);
    assert_token_is(&bob, "bob", 18);
    assert_int_equal(auth.n_log_ins, 2);
}

static void only_so_many_tokens_are_kept(void **state)
{
    (void)state;
    make_vouch();
    struct caller caller;
    char name[32];
    asked(&caller, "first", VOUCH_GIVEN);
    for (int i = 0; i < VOUCH_USERS; i++) {
        snprintf(name, sizeof(name), "user-%d", i);
        ask(&caller, vouch, name);
        assert_int_equal(caller.verdict, VOUCH_GIVEN);
        if (i % 100 == 0) {
            ask(&caller, vouch, "second"); /* it is used, so it stays */
            assert_int_equal(caller.verdict, VOUCH_GIVEN);
        }
    }
    assert_int_equal(counted().users, VOUCH_USERS);
    assert_int_equal(counted().signed_tokens, VOUCH_USERS + 2);
    ask(&caller, vouch, "second");
    assert_int_equal(counted().signed_tokens, VOUCH_USERS + 2);
    ask(&caller, vouch, "first");
    assert_int_equal(counted().signed_tokens, VOUCH_USERS + 3);
}

static void root_is_refused_unless_it_is_allowed(void **state)
{
    (void)state;
    make_vouch();
    struct caller caller;
    asked(&caller, "root", VOUCH_REFUSED);
    assert_string_equal(caller.reason, VOUCH_NO_ROOT);
    assert_string_equal(vouch_refuses(vouch, belfry_bytes_str("root")), VOUCH_NO_ROOT);
    assert_null(vouch_refuses(vouch, belfry_bytes_str("root2")));
    assert_int_equal(auth.n_log_ins, 0);
    vouch_destroy(vouch);
    struct vouch_opts opts = auth_vouch_opts();
    opts.allow_root = true;
    assert_int_equal(vouch_create(&opts, &vouch), BELFRY_OK);
    asked(&caller, "root", VOUCH_GIVEN);
    assert_token_is(&caller, "root", 17);
}

static void without_a_key_every_user_is_refused(void **state)
{
    (void)state;
    make_vouch();
    struct caller caller;
    struct vouch_stats stats;
    ask(&caller, NULL, "alice");
    assert_int_equal(caller.verdict, VOUCH_REFUSED);
    assert_string_equal(caller.reason, VOUCH_NO_KEY);
    assert_false(vouch_passes(NULL));
    vouch_stats(NULL, &stats);
    assert_int_equal(stats.log_ins, 0);
    assert_int_equal(strncmp(vouch_message(VOUCH_NO_KEY), "belfry: ", 8), 0);
}

static void tokens_that_are_no_jwts_refuse_every_user(void **state)
{
    (void)state;
    strcpy(auth.issues, "abcdefghijklmnop.17");
    make_vouch();
    struct caller caller;
    asked(&caller, "alice", VOUCH_REFUSED);
    assert_string_equal(caller.reason, VOUCH_NO_JWT);
    ask(&caller, other, "alice"); /* all workers know it */
    assert_int_equal(caller.verdict, VOUCH_REFUSED);
    assert_int_equal(auth.n_log_ins, 1);
    auth.issues[0] = '\0'; /* etcd was started again, with --auth-token jwt */
    drive_until(is_given(&caller, vouch, "alice"));
}

static void failed_log_in_is_unavailable_with_the_reason(void **state)
{
    (void)state;
    auth.log_in_code = "3";
    auth.log_in_message = "etcdserver: authentication failed, invalid user ID or password";
    make_vouch();
    struct caller caller;
    asked(&caller, "alice", VOUCH_UNAVAILABLE);
    assert_string_equal(caller.reason,
                        "belfry: this tier cannot log in to upstream: etcdserver: authentication failed, "
                        "invalid user ID or password");
    ask(&caller, vouch, "bob"); /* it is not asked again immediately */
    assert_int_equal(caller.verdict, VOUCH_UNAVAILABLE);
    assert_int_equal(auth.n_log_ins, 1);
    auth.log_in_code = NULL;
    auth_write(auth.password, "new\n"); /* the file is read for each log-in */
    drive_until(is_given(&caller, vouch, "alice"));
    assert_string_equal(auth.secret, "new");
    assert_int_equal(counted().failed_log_ins, 1);
}

static void password_that_cannot_be_read_is_unavailable(void **state)
{
    (void)state;
    make_vouch();
    unlink(auth.password);
    struct caller caller;
    ask(&caller, vouch, "alice");
    assert_int_equal(caller.verdict, VOUCH_UNAVAILABLE);
    assert_non_null(strstr(caller.reason, "cannot be read"));
    assert_int_equal(auth.n_log_ins, 0);
}

static void other_worker_logs_in_when_the_first_is_gone(void **state)
{
    (void)state;
    auth.is_silent = true;
    make_vouch();
    struct caller first, second;
    ask(&first, vouch, "alice");
    ask(&second, other, "bob");
    drive_until(auth.n_log_ins == 1);
    vouch_wait_end(&first.wait);
    vouch_destroy(vouch);
    vouch = NULL;
    auth.is_silent = false;
    drive_until(second.verdict == VOUCH_UNAVAILABLE);
    drive_until(is_given(&second, other, "bob"));
}

static void name_is_passed_on_in_quotes(void **state)
{
    (void)state;
    make(&(struct upstream_opts){.serve = serve}, 1);
    struct vouch_opts opts = auth_vouch_opts();
    opts.mint = NULL;
    opts.pass_users = true;
    assert_int_equal(vouch_create(&opts, &vouch), BELFRY_OK);
    struct caller caller = {.vouch = vouch};
    struct voucher voucher;
    vouch_wait_init(&caller.wait, on_told);
    assert_true(vouch_passes(vouch));
    static const char *const names[] = {"alice", " x ", "root", "\xc3\xa4%20", "spiffe://a/b"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char expected[64];
        snprintf(expected, sizeof(expected), "\"%s\"", names[i]);
        assert_int_equal(vouch_ask(vouch, belfry_bytes_str(names[i]), &caller.wait, &voucher), VOUCH_GIVEN);
        assert_true(belfry_bytes_equal(voucher.field.name, belfry_bytes_str("belfry-user")));
        assert_true(belfry_bytes_equal(voucher.field.value, belfry_bytes_str(expected)));
    }
    uint64_t from = belfry_clock_ms();
    vouch_outdate(vouch, voucher.revision); /* the tier above makes a new token meanwhile */
    assert_int_equal(vouch_ask(vouch, belfry_bytes_str("alice"), &caller.wait, &voucher), VOUCH_LATER);
    vouch_wait_end(&caller.wait);
    while (vouch_ask(vouch, belfry_bytes_str("alice"), &caller.wait, &voucher) != VOUCH_GIVEN) {
        vouch_wait_end(&caller.wait);
        turn();
    }
    assert_true(belfry_clock_ms() - from >= VOUCH_PASS_MS);
    assert_int_equal(auth.n_log_ins, 0);
}

static enum belfry_err scenario(void)
{
    static struct caller caller;
    strcpy(auth.issues, AUTH_TOKEN);
    auth_revision_init(&auth.revision);
    bed.members[0] = upstream_create(&(struct upstream_opts){.serve = serve});
    enum belfry_err err = open_bed();
    struct vouch_opts opts = {0};
    if (err == BELFRY_OK) {
        opts = auth_vouch_opts();
        err = vouch_create(&opts, &vouch);
    }
    if (err == BELFRY_OK) {
        ask(&caller, vouch, "alice");
        drive_until(caller.verdict != VOUCH_LATER);
        err = caller.verdict == VOUCH_GIVEN ? BELFRY_OK : BELFRY_ERR_NOMEM;
    }
    vouch_destroy(vouch);
    vouch = NULL;
    close_bed();
    auth_revision_fini(&auth.revision);
    return err;
}

static void without_memory_a_call_fails_and_nothing_leaks(void **state)
{
    (void)state;
    assert_true(refuse_sweep(scenario) > 10);
}

#define WITH_BED(test) cmocka_unit_test_setup_teardown(test, auth_setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_BED(calls_wait_for_one_log_in_of_the_tier),
        WITH_BED(token_is_kept_for_half_of_its_life),
        WITH_BED(old_revision_leads_to_one_log_in_and_new_tokens),
        WITH_BED(only_so_many_tokens_are_kept),
        WITH_BED(root_is_refused_unless_it_is_allowed),
        WITH_BED(without_a_key_every_user_is_refused),
        WITH_BED(tokens_that_are_no_jwts_refuse_every_user),
        WITH_BED(failed_log_in_is_unavailable_with_the_reason),
        WITH_BED(password_that_cannot_be_read_is_unavailable),
        WITH_BED(other_worker_logs_in_when_the_first_is_gone),
        WITH_BED(name_is_passed_on_in_quotes),
        WITH_BED(without_memory_a_call_fails_and_nothing_leaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
