/* src/serve/rights/permit_test.c: questions to a support/fakeupstream that answers as etcd would. */
#include "serve/rights/permit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

#include <cmocka.h>

#include "serve/rights/rights_request.h"
#include "support/uplinkbed.h"
#include "wire/rpc.pb-c.h"

/* ---- upstream ---- */

#define PERIOD 1000
#define FUTURE "etcdserver: mvcc: required revision is a future revision"

static struct etcd {
    bool auth_on;
    int status_code; /* of Authenticate; 0: as auth_on says */
    bool silent, silent_ranges;
    bool first_is_silent;                   /* its member 0 answers no question about rights */
    const char *range_code, *range_message; /* NULL: granted */
    const char *knowing;                    /* the one token that this member knows; NULL: all */
    const char *hanging;                    /* the token that is never answered; NULL: none */
    size_t n_hanging;                       /* questions about it */
    bool read_only;                         /* it is a tier that passes no Txn on */
    const char *age;                        /* of its answers, if it is a tier */
    size_t n_status, n_range;
    size_t last_range;
} etcd;

static void refuse_with(struct upstream *upstream, size_t i, const char *code, const char *message)
{
    upstream_head(upstream, i,
                  (const char *const[]){":status", "200", "content-type", "application/grpc", "grpc-status", code,
                                        "grpc-message", message, NULL},
                  true);
}

/* "Off", as Authenticate says it. */
static void say_off(struct upstream *upstream, size_t i)
{
    refuse_with(upstream, i, "9", "etcdserver: authentication is not enabled");
}

static void serve_authenticate(struct upstream *upstream, size_t i)
{
    etcd.n_status++;
    assert_null(upstream_field(upstream, i, "token"));
    assert_null(upstream_field(upstream, i, "authorization"));
    if (etcd.status_code == 14)
        refuse_with(upstream, i, "14", "etcdserver: no leader");
    else if (etcd.status_code == 7)
        refuse_with(upstream, i, "7", "etcdserver: permission denied");
    else if (etcd.status_code == 12)
        refuse_with(upstream, i, "12", "unknown method Authenticate for service etcdserverpb.Auth");
    else if (etcd.auth_on)
        refuse_with(upstream, i, "3", "etcdserver: authentication failed, invalid user ID or password");
    else
        say_off(upstream, i);
}

static void serve_question(struct upstream *upstream, size_t i)
{
    const char *token = upstream_field(upstream, i, "token");
    etcd.n_range++;
    etcd.last_range = i;
    if (etcd.hanging != NULL && token != NULL && strcmp(token, etcd.hanging) == 0) {
        etcd.n_hanging++;
        return;
    }
    if (etcd.silent_ranges || (etcd.first_is_silent && upstream == bed.members[0]))
        return;
    if (etcd.read_only && strstr(upstream_field(upstream, i, ":path"), "Txn") != NULL)
        refuse_with(upstream, i, "7", "belfry: this listener is read-only");
    else if (etcd.range_code != NULL)
        refuse_with(upstream, i, etcd.range_code, etcd.range_message);
    else if (etcd.knowing != NULL && (token == NULL || strcmp(token, etcd.knowing) != 0))
        refuse_with(upstream, i, "16", "etcdserver: invalid auth token");
    else if (etcd.age != NULL)
        upstream_head(upstream, i,
                      (const char *const[]){":status", "200", "content-type", "application/grpc", RIGHTS_REQUEST_AGE,
                                            etcd.age, "grpc-status", "11", "grpc-message", FUTURE, NULL},
                      true);
    else
        refuse_with(upstream, i, "11", FUTURE);
}

static void serve(struct upstream *upstream, size_t i, void *user)
{
    (void)user;
    const char *path = upstream_field(upstream, i, ":path");
    if (strcmp(path, "/etcdserverpb.KV/Range") == 0 || strcmp(path, "/etcdserverpb.KV/Txn") == 0) {
        serve_question(upstream, i);
    } else {
        assert_string_equal(path, "/etcdserverpb.Auth/Authenticate");
        if (!etcd.silent)
            serve_authenticate(upstream, i);
    }
}

static struct permit *permit;

static void make_logging_permit(struct etcd as, const struct belfry_log *log)
{
    etcd = as;
    make(&(struct upstream_opts){.serve = serve}, 1);
    assert_int_equal(permit_create(
                         &(struct permit_opts){
                             .uplink = bed.uplink, .loop = belfry_loop_uv(bed.loop), .period_ms = PERIOD, .log = log},
                         &permit),
                     BELFRY_OK);
}

static void make_permit(struct etcd as)
{
    make_logging_permit(as, NULL);
}

static int teardown(void **state)
{
    (void)state;
    permit_destroy(permit);
    permit = NULL;
    close_bed();
    return refuse_held() == 0 ? 0 : -1;
}

/* ---- questions ---- */

struct seen {
    struct permit_question *question;
    int n;
    enum permit_verdict verdict;
    char reason[300];
    struct seen *other; /* to be cancelled when this one is answered */
};

static void on_answer(enum permit_verdict verdict, const char *reason, void *user)
{
    struct seen *seen = user;
    seen->n++;
    seen->question = NULL;
    seen->verdict = verdict;
    snprintf(seen->reason, sizeof(seen->reason), "%s", reason);
    if (seen->other != NULL && seen->other->question != NULL) {
        permit_cancel(seen->other->question);
        seen->other->question = NULL;
    }
}

static enum belfry_err ask_range_of(struct seen *seen, const char *token, const char *key, const char *range_end)
{
    struct identity who = {0};
    if (token != NULL)
        who = identity_of_token(IDENTITY_FIELD_TOKEN, belfry_bytes_str(token));
    return permit_ask(permit, &who, belfry_bytes_str(key), belfry_bytes_str(range_end), belfry_clock_ms(), on_answer,
                      seen, &seen->question);
}

static void ask(struct seen *seen, const char *token)
{
    assert_int_equal(ask_range_of(seen, token, "k", "l"), BELFRY_OK);
    assert_int_equal(seen->n, 0);
}

static void asked(struct seen *seen, const char *token, enum permit_verdict verdict, const char *reason)
{
    *seen = (struct seen){0};
    ask(seen, token);
    drive_until(seen->n > 0);
    assert_int_equal(seen->n, 1);
    assert_int_equal(seen->verdict, verdict);
    assert_string_equal(seen->reason, reason);
}

static struct permit_stats counted(void)
{
    struct permit_stats out;
    permit_stats(permit, &out);
    return out;
}

/* ---- tests ---- */

static void with_auth_off_everybody_may_and_one_call_serves_for_a_second(void **state)
{
    (void)state;
    make_permit((struct etcd){0});
    struct seen seen;
    assert_false(permit_is_open(permit, belfry_clock_ms()));
    asked(&seen, NULL, PERMIT_GRANTED, "");
    uint64_t now = belfry_clock_ms();
    assert_true(permit_is_open(permit, now));
    assert_int_equal(permit_auth(permit, now), PERMIT_AUTH_OFF);
    asked(&seen, "x.1", PERMIT_GRANTED, "");
    assert_int_equal(etcd.n_status, 1);
    assert_int_equal(etcd.n_range, 0);
    assert_false(permit_is_open(permit, now + PERMIT_OFF_MS));
}

static void what_is_stale_is_asked_again_in_the_background(void **state)
{
    (void)state;
    make_permit((struct etcd){0});
    struct seen seen;
    asked(&seen, NULL, PERMIT_GRANTED, "");
    uint64_t later = belfry_clock_ms() + PERMIT_OFF_MS;
    assert_int_equal(permit_auth(permit, later), PERMIT_AUTH_UNKNOWN);
    drive_until(etcd.n_status == 2);
}

static void with_auth_on_the_range_is_asked_with_the_clients_token(void **state)
{
    (void)state;
    make_permit((struct etcd){.auth_on = true});
    struct seen seen;
    asked(&seen, "tok.7", PERMIT_GRANTED, "");
    assert_string_equal(upstream_field(bed.members[0], etcd.last_range, "token"), "tok.7");
    assert_null(upstream_field(bed.members[0], etcd.last_range, "authorization"));
    assert_string_equal(upstream_field(bed.members[0], etcd.last_range, "grpc-timeout"), "5000m");
    const struct upstream_request *request = upstream_request(bed.members[0], etcd.last_range);
    Etcdserverpb__RangeRequest *range =
        etcdserverpb__range_request__unpack(NULL, request->body_len - 5, request->body + 5);
    assert_non_null(range);
    assert_true(range->key.len == 1 && range->key.data[0] == 'k' && range->range_end.data[0] == 'l');
    assert_true(range->revision == INT64_MAX && !range->serializable); /* linearizable, and no key is looked at */
    etcdserverpb__range_request__free_unpacked(range, NULL);
    assert_int_equal(permit_auth(permit, belfry_clock_ms()), PERMIT_AUTH_ON);
    asked(&seen, "tok.7", PERMIT_GRANTED, ""); /* an answer is used again */
    assert_int_equal(etcd.n_range, 1);
    drive_for(PERIOD);
    asked(&seen, "tok.7", PERMIT_GRANTED, ""); /* for a period */
    assert_int_equal(etcd.n_range, 2);
    assert_int_equal(etcd.n_status, 1);
}

static void open_listener_grants_everything_to_clients_without_a_token(void **state)
{
    (void)state;
    make_permit((struct etcd){.auth_on = true});
    struct seen seen = {0};
    struct identity nobody = {.rights = LISTEN_RIGHTS_OPEN};
    struct identity cert = {.kind = IDENTITY_CERT, .rights = LISTEN_RIGHTS_OPEN, .text = belfry_bytes_str("alice")};
    struct identity token = identity_of_token(IDENTITY_FIELD_TOKEN, belfry_bytes_str("t.1"));
    token.rights = LISTEN_RIGHTS_OPEN;
    assert_true(permit_is_open_to(permit, &nobody, 0) && permit_is_open_to(permit, &cert, 0));
    assert_false(permit_is_open_to(permit, &token, 0));
    assert_int_equal(permit_ask(permit, &nobody, belfry_bytes_str("k"), belfry_bytes_str(""), belfry_clock_ms(),
                                on_answer, &seen, &seen.question),
                     BELFRY_OK);
    drive_until(seen.n == 1);
    assert_int_equal(seen.verdict, PERMIT_GRANTED);
    assert_true(etcd.n_status == 0 && etcd.n_range == 0);
    seen = (struct seen){0};
    assert_int_equal(permit_ask(permit, &token, belfry_bytes_str("k"), belfry_bytes_str(""), belfry_clock_ms(),
                                on_answer, &seen, &seen.question),
                     BELFRY_OK);
    drive_until(seen.n == 1);
    assert_int_equal(etcd.n_range, 1); /* a token has the rights of its user */
}

static void listener_that_needs_auth_grants_nothing_while_it_is_off(void **state)
{
    (void)state;
    make_permit((struct etcd){0});
    struct identity who = identity_of_token(IDENTITY_FIELD_TOKEN, belfry_bytes_str("t.1"));
    who.rights = LISTEN_RIGHTS_UPSTREAM;
    for (int i = 0; i < 2; i++) { /* when it is not known yet, and when it is */
        struct seen seen = {0};
        assert_int_equal(permit_ask(permit, &who, belfry_bytes_str("k"), belfry_bytes_str(""), belfry_clock_ms(),
                                    on_answer, &seen, &seen.question),
                         BELFRY_OK);
        drive_until(seen.n == 1);
        assert_int_equal(seen.verdict, PERMIT_UNAVAILABLE);
        assert_string_equal(seen.reason, PERMIT_AUTH_IS_OFF);
        assert_true(permit_is_open(permit, belfry_clock_ms()));
        assert_false(permit_is_open_to(permit, &who, belfry_clock_ms()));
    }
}

static void the_field_that_etcd_would_take_is_sent(void **state)
{
    (void)state;
    make_permit((struct etcd){.auth_on = true});
    struct seen seen = {0};
    struct identity who = identity_of_token(IDENTITY_FIELD_AUTHORIZATION, belfry_bytes_str("gw.1"));
    assert_int_equal(permit_ask(permit, &who, belfry_bytes_str(""), belfry_bytes_of("", 1), belfry_clock_ms(),
                                on_answer, &seen, &seen.question),
                     BELFRY_OK);
    drive_until(seen.n == 1);
    assert_string_equal(upstream_field(bed.members[0], etcd.last_range, "authorization"), "gw.1");
    const struct upstream_request *request = upstream_request(bed.members[0], etcd.last_range);
    assert_memory_equal(request->body + 5, "\x0a\x01\x00\x12\x01\x00", 6); /* an empty key is \0 */
    seen = (struct seen){0};
    who = identity_of_token(IDENTITY_FIELD_TOKEN, belfry_bytes_str(""));
    assert_int_equal(permit_ask(permit, &who, belfry_bytes_str("k"), belfry_bytes_str(""), belfry_clock_ms(), on_answer,
                                &seen, &seen.question),
                     BELFRY_OK);
    drive_until(seen.n == 1);
    assert_string_equal(upstream_field(bed.members[0], etcd.last_range, "token"), ""); /* there, if empty */
    assert_null(upstream_field(bed.members[0], etcd.last_range, "authorization"));
}

static void refusals_read_as_etcds_own(void **state)
{
    (void)state;
    static const struct {
        const char *code, *message, *reason;
    } cases[] = {
        {"16", "etcdserver: invalid auth token",
         "rpc error: code = Unauthenticated desc = etcdserver: invalid auth token"},
        {"3", "etcdserver: revision of auth store is old",
         "rpc error: code = InvalidArgument desc = etcdserver: revision of auth store is old"},
        {"3", "etcdserver: user name is empty",
         "rpc error: code = InvalidArgument desc = etcdserver: user name is empty"},
        {"7", "etcdserver: permission denied",
         "rpc error: code = PermissionDenied desc = etcdserver: permission denied"},
        {"13", "something else", "rpc error: code = PermissionDenied desc = etcdserver: permission denied"},
        {"16", "something else", "rpc error: code = PermissionDenied desc = etcdserver: permission denied"},
    };
    make_permit((struct etcd){.auth_on = true});
    struct seen seen;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        etcd.range_code = cases[i].code;
        etcd.range_message = cases[i].message;
        asked(&seen, "t.1", PERMIT_REFUSED, cases[i].reason);
    }
    assert_int_equal(counted().refused, sizeof(cases) / sizeof(cases[0]));
}

static void what_upstream_did_not_judge_is_no_refusal(void **state)
{
    (void)state;
    make_permit((struct etcd){.auth_on = true, .range_code = "14", .range_message = "etcdserver: leader changed"});
    struct seen seen;
    asked(&seen, "t.1", PERMIT_UNAVAILABLE, "etcdserver: leader changed");
    etcd.range_code = "8";
    etcd.range_message = "etcdserver: too many requests";
    asked(&seen, "t.1", PERMIT_UNAVAILABLE, "etcdserver: too many requests");
    etcd.range_code = "4";
    etcd.range_message = "context deadline exceeded";
    asked(&seen, "t.1", PERMIT_UNAVAILABLE, "context deadline exceeded");
    assert_int_equal(counted().unavailable, 3);
}

static void an_answer_that_comes_too_late_says_so(void **state)
{
    (void)state;
    make_permit((struct etcd){.auth_on = true, .age = "3600000"});
    struct seen seen;
    asked(&seen, "t.1", PERMIT_UNAVAILABLE, PERMIT_TOO_LATE);
}

static void without_any_token_the_answer_is_no_and_nobody_is_asked(void **state)
{
    (void)state;
    make_permit((struct etcd){.auth_on = true});
    struct seen seen;
    asked(&seen, NULL, PERMIT_REFUSED, "rpc error: code = InvalidArgument desc = etcdserver: user name is empty");
    assert_int_equal(etcd.n_range, 0);
}

static void a_token_that_cannot_be_sent_is_a_bad_one(void **state)
{
    (void)state;
    make_permit((struct etcd){.auth_on = true});
    struct seen seen;
    asked(&seen, "a\nb", PERMIT_REFUSED, "rpc error: code = Unauthenticated desc = etcdserver: invalid auth token");
    assert_int_equal(etcd.n_range, 0);
}

static void anything_but_a_clear_off_is_on(void **state)
{
    (void)state;
    make_permit((struct etcd){.status_code = 7});
    struct seen seen;
    asked(&seen, NULL, PERMIT_REFUSED, "rpc error: code = InvalidArgument desc = etcdserver: user name is empty");
    etcd.status_code = 12;
    permit_doubt(permit);
    asked(&seen, NULL, PERMIT_REFUSED, "rpc error: code = InvalidArgument desc = etcdserver: user name is empty");
    assert_int_equal(etcd.n_status, 2);
}

static void equal_questions_share_an_answer_and_those_of_one_token_a_call(void **state)
{
    (void)state;
    make_permit((struct etcd){.auth_on = true, .silent_ranges = true});
    struct seen first = {0}, same = {0}, other = {0}, third = {0}, fourth = {0};
    ask(&first, "t.1");
    drive_until(etcd.n_range == 1);
    ask(&same, "t.1");
    ask(&other, "t.2");
    assert_int_equal(ask_range_of(&third, "t.1", "k", "m"), BELFRY_OK);
    assert_int_equal(ask_range_of(&fourth, "t.1", "k", "n"), BELFRY_OK);
    drive_until(etcd.n_range == 2);
    etcd.silent_ranges = false;
    refuse_with(bed.members[0], 1, "11", FUTURE);
    refuse_with(bed.members[0], 2, "11", FUTURE);
    drive_until(first.n + same.n + other.n + third.n + fourth.n == 5);
    assert_int_equal(etcd.n_range, 3); /* the ranges that came while the first was under way are one question */
    assert_string_equal(upstream_field(bed.members[0], etcd.last_range, ":path"), "/etcdserverpb.KV/Txn");
    assert_int_equal(counted().asked, 3);
    assert_int_equal(counted().granted, 5);
}

static void a_tier_above_that_passes_no_txn_on_is_asked_with_single_ranges(void **state)
{
    (void)state;
    make_permit((struct etcd){.auth_on = true, .silent_ranges = true, .read_only = true});
    struct seen first = {0}, second = {0}, third = {0};
    ask(&first, "t.1");
    drive_until(etcd.n_range == 1);
    assert_int_equal(ask_range_of(&second, "t.1", "k", "m"), BELFRY_OK);
    assert_int_equal(ask_range_of(&third, "t.1", "k", "n"), BELFRY_OK);
    etcd.silent_ranges = false;
    refuse_with(bed.members[0], 1, "11", FUTURE);
    drive_until(first.n + second.n + third.n == 3);
    assert_int_equal(counted().granted, 3);
    assert_int_equal(etcd.n_range, 4); /* a Txn in vain, and a Range for each */
}

static void an_answer_may_cancel_the_question_beside_it(void **state)
{
    (void)state;
    make_permit((struct etcd){.auth_on = true});
    struct seen first = {0}, second = {0};
    first.other = &second;
    ask(&first, "t.1");
    ask(&second, "t.1");
    drive_until(first.n == 1);
    drive_for(30);
    assert_int_equal(second.n, 0);
}

static void a_range_that_nobody_waits_for_is_cancelled(void **state)
{
    (void)state;
    make_permit((struct etcd){.auth_on = true, .silent_ranges = true});
    struct seen first = {0}, second = {0};
    ask(&first, "t.1");
    ask(&second, "t.1");
    drive_until(etcd.n_range == 1);
    permit_cancel(first.question);
    drive_for(30);
    assert_false(upstream_request(bed.members[0], etcd.last_range)->closed);
    permit_cancel(second.question);
    drive_until(upstream_request(bed.members[0], etcd.last_range)->closed);
    assert_int_equal(upstream_request(bed.members[0], etcd.last_range)->code, 8);
}

static void a_doubt_is_not_lifted_by_an_answer_from_before_it(void **state)
{
    (void)state;
    make_permit((struct etcd){.silent = true});
    struct seen seen = {0};
    ask(&seen, NULL);
    drive_until(upstream_count(bed.members[0]) == 1 && upstream_request(bed.members[0], 0)->ended);
    permit_doubt(permit); /* AuthEnable went through meanwhile */
    etcd.silent = false;
    etcd.auth_on = true;
    say_off(bed.members[0], 0); /* from before */
    drive_until(seen.n == 1);
    assert_int_equal(seen.verdict, PERMIT_REFUSED);
    assert_int_equal(counted().status_calls, 2);
}

/* As a client can make us doubt that sends one request after another to Auth. */
static void doubts_without_end_do_not_hold_up_a_question(void **state)
{
    (void)state;
    make_permit((struct etcd){.silent = true});
    struct seen seen = {0};
    ask(&seen, NULL);
    size_t n = 0;
    for (; n < 5 && seen.n == 0; n++) {
        drive_until(upstream_count(bed.members[0]) == n + 1 && upstream_request(bed.members[0], n)->ended);
        permit_doubt(permit);
        say_off(bed.members[0], n); /* from before */
        drive_until(seen.n == 1 || upstream_count(bed.members[0]) == n + 2);
    }
    assert_int_equal(seen.n, 1);
    assert_int_equal(seen.verdict, PERMIT_GRANTED);
    assert_int_equal(n, 2); /* the second was asked for after the question */
    assert_false(permit_is_open(permit, belfry_clock_ms()));
}

static void count_line(enum belfry_log_level level, const char *event, const char *text, void *user)
{
    (void)level, (void)event, (void)text;
    ++*(int *)user;
}

static void a_doubt_that_changes_nothing_is_not_logged(void **state)
{
    (void)state;
    struct seen seen;
    int lines = 0;
    const struct belfry_log log = {.line = count_line, .user = &lines, .level = BELFRY_LOG_INFO};
    make_logging_permit((struct etcd){0}, &log);
    for (int i = 0; i < 5; i++) {
        asked(&seen, NULL, PERMIT_GRANTED, "");
        permit_doubt(permit);
    }
    assert_int_equal(counted().status_calls, 5);
    assert_int_equal(lines, 1);
    etcd.auth_on = true;
    asked(&seen, "t.1", PERMIT_GRANTED, "");
    assert_int_equal(lines, 2);
}

static void an_upstream_that_cannot_say_is_asked_until_it_can(void **state)
{
    (void)state;
    make_permit((struct etcd){.status_code = 14});
    struct seen seen = {0};
    ask(&seen, NULL);
    drive_until(etcd.n_status >= 3);
    assert_int_equal(seen.n, 0);
    etcd.status_code = 0;
    drive_until(seen.n == 1);
    assert_int_equal(seen.verdict, PERMIT_GRANTED);
}

static void without_an_answer_in_time_it_is_unavailable(void **state)
{
    (void)state;
    make_permit((struct etcd){.silent = true});
    struct seen seen = {0};
    uint64_t began = belfry_clock_ms();
    ask(&seen, "t.1");
    drive_until(seen.n == 1);
    assert_in_range(belfry_clock_ms() - began, PERMIT_TIMEOUT_MS - 50, PERMIT_TIMEOUT_MS + 3000);
    assert_int_equal(seen.verdict, PERMIT_UNAVAILABLE);
    assert_true(strlen(seen.reason) > 0);
}

/* ---- streams that run ---- */

static struct stream {
    struct permit_party party;
    struct identity who;
    struct permit_question *held;
    int n_held, n_refused, n_paused, n_resumed, n_ended;
    char reason[300];
} stream;

static void on_hold(enum permit_verdict verdict, const char *reason, void *user)
{
    struct stream *to = user;
    snprintf(to->reason, sizeof(to->reason), "%s", reason);
    to->n_held += verdict == PERMIT_HELD;
    to->n_refused += verdict == PERMIT_REFUSED;
    if (verdict != PERMIT_HELD)
        to->held = NULL;
}

static void on_party(struct permit_party *party, enum permit_event event, const char *reason)
{
    struct stream *to = belfry_container(party, struct stream, party);
    to->n_paused += event == PERMIT_PAUSED;
    to->n_resumed += event == PERMIT_RESUMED;
    to->n_ended += event == PERMIT_ENDED;
    if (event == PERMIT_ENDED)
        snprintf(to->reason, sizeof(to->reason), "%s", reason);
}

static void hold_as(const struct identity *who)
{
    stream = (struct stream){.who = *who};
    permit_join(permit, &stream.party, &stream.who, on_party);
    assert_int_equal(permit_hold(permit, &stream.party, belfry_bytes_str("k"), belfry_bytes_str("l"), belfry_clock_ms(),
                                 on_hold, &stream, &stream.held),
                     BELFRY_OK);
}

static void hold(const char *token)
{
    struct identity who = identity_of_token(IDENTITY_FIELD_TOKEN, belfry_bytes_str(token));
    hold_as(&who);
}

static void let_go(void)
{
    if (stream.held != NULL)
        permit_cancel(stream.held);
    permit_leave(permit, &stream.party);
}

static bool delivers(void)
{
    return permit_may_deliver(permit, &stream.party, belfry_clock_ms());
}

/* ---- what is counted to clients ---- */

static struct shares shares;
static struct shares_conn conns[2]; /* of two clients */

static void on_shares_end(struct shares_conn *conn, enum shares_pool pool, void *user)
{
    (void)conn, (void)pool, (void)user;
    fail_msg("a client that asks for little, and holds little, is not ended");
}

static void open_shares(size_t watch_bytes)
{
    struct shares_limits limits = {.total = {[SHARES_WATCH_BYTES] = watch_bytes}};
    shares_init(&shares, &limits, 7, on_shares_end, NULL);
    assert_int_equal(shares_join(&shares, &conns[0], SHARES_CLIENT, "10.0.0.1"), BELFRY_OK);
    assert_int_equal(shares_join(&shares, &conns[1], SHARES_CLIENT, "10.0.0.2"), BELFRY_OK);
}

static void close_shares(void)
{
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(conns[i].held[SHARES_WATCH_BYTES], 0);
        shares_leave(&conns[i]);
    }
    shares_fini(&shares);
}

static struct identity identity_at(struct shares_conn *conn, const char *token)
{
    struct identity who = {0};
    if (token != NULL)
        who = identity_of_token(IDENTITY_FIELD_TOKEN, belfry_bytes_str(token));
    who.share = conn;
    return who;
}

/* Upstream does not say if auth is on. One client asks, with or without a token, until it may hold no more. */
static void questions_that_wait_count_to_their_client_and_leave_room_to_others(void **state)
{
    (void)state;
    enum { TOTAL = 1 << 20, MOST = 1 << 15 };
    static const size_t keys[] = {1, TOTAL / 16};
    make_permit((struct etcd){.silent = true});
    open_shares(TOTAL);
    struct permit_question **questions = test_calloc(MOST, sizeof(struct permit_question *));
    char *key = test_calloc(1, TOTAL);
    static struct seen seen;
    for (size_t i = 0; i < 4; i++) {
        struct identity who = identity_at(&conns[0], i % 2 == 0 ? "t.1" : NULL);
        size_t n = 0, bytes = keys[i / 2];
        enum belfry_err err;
        while ((err = permit_ask(permit, &who, belfry_bytes_of(key, bytes), (struct belfry_bytes){0}, belfry_clock_ms(),
                                 on_answer, &seen, &seen.question)) == BELFRY_OK) {
            assert_true(n < MOST);
            questions[n++] = seen.question;
        }
        assert_int_equal(err, BELFRY_ERR_REFUSED);
        assert_in_range(n * (bytes + sizeof(void *)), 1, TOTAL / 2);
        assert_in_range(conns[0].held[SHARES_WATCH_BYTES], TOTAL / 2 - TOTAL / 8, TOTAL / 2);
        struct identity other = identity_at(&conns[1], "t.2");
        hold_as(&other);
        assert_in_range(conns[1].held[SHARES_WATCH_BYTES], 1, 1024);
        let_go();
        while (n > 0)
            permit_cancel(questions[--n]);
        assert_int_equal(shares.pools[SHARES_WATCH_BYTES].used, 0);
    }
    test_free(key);
    test_free(questions);
    close_shares();
}

/* What a question copied while it waited is freed when the answer is there: it costs no more than a later one. */
static void a_held_question_costs_the_same_whether_it_waited_or_not(void **state)
{
    (void)state;
    make_permit((struct etcd){.auth_on = true});
    open_shares(1 << 20);
    struct identity who = identity_at(&conns[0], "t.1");
    size_t freed[2];
    for (int i = 0; i < 2; i++) { /* when it is not known if auth is on, and when it is */
        hold_as(&who);
        drive_until(stream.n_held == 1);
        assert_int_equal(conns[0].held[SHARES_WATCH_BYTES], counted().rights.bytes);
        freed[i] = refuse_held();
        let_go();
        freed[i] -= refuse_held();
    }
    assert_int_equal(freed[0], freed[1]);
    close_shares();
}

static void a_hold_that_waits_counts_until_it_is_answered(void **state)
{
    (void)state;
    make_permit((struct etcd){0});
    open_shares(1 << 20);
    struct identity who = identity_at(&conns[0], "t.1");
    hold_as(&who);
    assert_true(conns[0].held[SHARES_WATCH_BYTES] > 0);
    drive_until(stream.held == NULL); /* auth is off */
    assert_int_equal(conns[0].held[SHARES_WATCH_BYTES], 0);
    let_go();
    close_shares();
}

static void a_range_that_is_held_is_asked_for_again_each_period_until_it_is_denied(void **state)
{
    (void)state;
    make_permit((struct etcd){.auth_on = true});
    hold("t.1");
    drive_until(stream.n_held == 1);
    assert_true(delivers());
    drive_until(etcd.n_range >= 5);
    assert_true(delivers() && stream.n_paused == 0);
    etcd.range_code = "7";
    etcd.range_message = "etcdserver: permission denied";
    drive_until(stream.n_refused == 1);
    assert_string_equal(stream.reason, PERMIT_DENIED);
    assert_int_equal(stream.n_ended, 0);
    let_go();
}

static void a_token_that_is_unknown_ends_the_stream(void **state)
{
    (void)state;
    make_permit((struct etcd){.auth_on = true});
    hold("t.1");
    drive_until(stream.n_held == 1);
    etcd.knowing = "t.2";
    drive_until(stream.n_ended == 1);
    assert_string_equal(stream.reason, PERMIT_BAD_TOKEN);
    let_go();
}

static void an_upstream_that_does_not_answer_pauses_the_stream_and_ends_nothing(void **state)
{
    (void)state;
    make_permit((struct etcd){.auth_on = true});
    hold("t.1");
    drive_until(stream.n_held == 1);
    uint64_t began = belfry_clock_ms();
    etcd.silent_ranges = true;
    drive_until(stream.n_paused == 1);
    assert_in_range(belfry_clock_ms() - began, PERIOD / 10, PERIOD + 500);
    assert_false(delivers());
    drive_for(2 * PERIOD);
    etcd.silent_ranges = false;
    drive_until(stream.n_resumed == 1);
    assert_true(delivers());
    assert_int_equal(stream.n_refused + stream.n_ended, 0);
    let_go();
}

/* The timer is armed for the question that hangs. When that is dropped, the next renewal is due later. */
static void a_question_that_is_dropped_does_not_take_the_timer_with_it(void **state)
{
    (void)state;
    make_permit((struct etcd){.auth_on = true});
    hold("t.1");
    drive_until(stream.n_held == 1);
    for (int i = 0; i < 4; i++) {
        struct stream other = {.who = identity_of_token(IDENTITY_FIELD_TOKEN, belfry_bytes_str("t.2"))};
        permit_join(permit, &other.party, &other.who, on_party);
        assert_int_equal(permit_hold(permit, &other.party, belfry_bytes_str("k"), belfry_bytes_str("l"),
                                     belfry_clock_ms(), on_hold, &other, &other.held),
                         BELFRY_OK);
        drive_until(other.n_held == 1);
        etcd.hanging = "t.2";
        etcd.n_hanging = 0;
        drive_until(etcd.n_hanging == 1);
        permit_cancel(other.held);
        permit_leave(permit, &other.party);
        etcd.hanging = NULL;
        size_t n = etcd.n_range;
        drive_until(etcd.n_range >= n + 2);
    }
    assert_int_equal(stream.n_refused + stream.n_ended, 0);
    let_go();
}

static int n_regimes;

static void on_regime(void *user)
{
    (void)user;
    n_regimes++;
}

static void with_auth_off_nothing_is_kept_and_auth_is_asked_about_while_streams_run(void **state)
{
    (void)state;
    make_permit((struct etcd){0});
    n_regimes = 0;
    permit_listen(permit, on_regime, NULL);
    assert_int_equal(permit_regime(permit, &stream.party), PERMIT_UNSURE);
    hold("t.1");
    drive_until(stream.held == NULL);
    assert_int_equal(stream.n_held + stream.n_refused, 0); /* granted, and gone */
    assert_int_equal(permit_regime(permit, &stream.party), PERMIT_OPEN);
    drive_until(etcd.n_status >= 4);
    assert_true(delivers());
    assert_int_equal(n_regimes, 1);
    etcd.silent = true; /* upstream is away */
    drive_until(permit_regime(permit, &stream.party) == PERMIT_UNSURE);
    assert_false(delivers());
    drive_for(100);
    etcd.silent = false;
    drive_until(permit_regime(permit, &stream.party) == PERMIT_OPEN);
    assert_true(delivers());
    etcd.auth_on = true;
    uint64_t began = belfry_clock_ms();
    drive_until(permit_regime(permit, &stream.party) == PERMIT_ASKS);
    assert_true(belfry_clock_ms() - began < PERIOD);
    assert_int_equal(n_regimes, 4);
    let_go();
    size_t n = etcd.n_status;
    drive_for(2 * PERIOD);
    assert_int_equal(etcd.n_status, n);
}

static void every_listener_hears_of_the_regime(void **state)
{
    (void)state;
    static char users[PERMIT_LISTENERS];
    make_permit((struct etcd){0});
    n_regimes = 0;
    for (size_t i = 0; i < PERMIT_LISTENERS; i++)
        permit_listen(permit, on_regime, &users[i]);
    permit_unlisten(permit, &users[7]);
    drive_until(permit_auth(permit, belfry_clock_ms()) == PERMIT_AUTH_OFF);
    assert_int_equal(n_regimes, PERMIT_LISTENERS - 1);
}

/* Between the timers of a turn and its sockets, as a request that comes by the sockets. */
static void on_join_before_sockets(uv_prepare_t *prepare)
{
    if (etcd.n_status < 2)
        return;
    upstream_turn(bed.members[0]); /* its answer is there */
    permit_join(permit, &stream.party, &stream.who, on_party);
    assert_false(delivers());
    uv_close((uv_handle_t *)prepare, NULL);
}

/* Nothing looks at the time while no stream runs. Then one begins, and in the same turn the same answer comes again. */
static void a_stream_that_begins_when_an_answer_has_ended_learns_of_the_next(void **state)
{
    (void)state;
    uv_prepare_t prepare;
    make_permit((struct etcd){0});
    n_regimes = 0;
    permit_listen(permit, on_regime, NULL);
    drive_until(permit_auth(permit, belfry_clock_ms()) == PERMIT_AUTH_OFF);
    assert_int_equal(n_regimes, 1);
    drive_for(PERIOD + 100);
    stream = (struct stream){0};
    uv_prepare_init(belfry_loop_uv(bed.loop), &prepare);
    uv_prepare_start(&prepare, on_join_before_sockets);
    assert_int_equal(permit_auth(permit, belfry_clock_ms()), PERMIT_AUTH_UNKNOWN); /* asked for again */
    drive_until(stream.party.fn != NULL && delivers());
    assert_int_equal(n_regimes, 3); /* it had ended, and holds again */
    let_go();
}

static void a_listener_says_which_streams_run_without_a_question_and_which_need_auth(void **state)
{
    (void)state;
    make_permit((struct etcd){.auth_on = true});
    struct identity who = {.rights = LISTEN_RIGHTS_OPEN};
    hold_as(&who);
    drive_until(stream.held == NULL); /* granted, whatever upstream says */
    assert_true(delivers() && permit_regime(permit, &stream.party) == PERMIT_OPEN);
    let_go();
    who = identity_of_token(IDENTITY_FIELD_TOKEN, belfry_bytes_str("t.1"));
    who.rights = LISTEN_RIGHTS_UPSTREAM;
    hold_as(&who);
    drive_until(stream.n_held == 1);
    assert_true(delivers());
    etcd.auth_on = false;
    permit_doubt(permit);
    assert_int_equal(permit_auth(permit, belfry_clock_ms()), PERMIT_AUTH_UNKNOWN);
    drive_until(permit_auth(permit, belfry_clock_ms()) == PERMIT_AUTH_OFF);
    assert_false(delivers());
    let_go();
}

static void a_doubt_while_streams_run_is_looked_into_immediately(void **state)
{
    (void)state;
    make_permit((struct etcd){0});
    hold("t.1");
    drive_until(stream.held == NULL);
    etcd.auth_on = true;
    permit_doubt(permit);
    drive_for(100);
    assert_int_equal(permit_regime(permit, &stream.party), PERMIT_ASKS);
    let_go();
}

static void a_token_that_hangs_is_a_bad_one_while_upstream_answers_others(void **state)
{
    (void)state;
    make_permit((struct etcd){.auth_on = true, .silent_ranges = true});
    struct seen seen = {0};
    ask(&seen, "x.999999999");
    drive_until(seen.n == 1);
    assert_int_equal(seen.verdict, PERMIT_REFUSED);
    assert_string_equal(seen.reason, PERMIT_BAD_TOKEN);
}

/* A renewal has a fifth of a period, and new questions about its range wait for it. */
static void a_renewal_without_an_answer_does_not_count_against_the_token(void **state)
{
    (void)state;
    make_permit((struct etcd){.auth_on = true});
    hold("t.1");
    drive_until(stream.n_held == 1);
    etcd.hanging = "t.1";
    drive_until(stream.n_paused == 1);
    size_t n = etcd.n_hanging;
    drive_until(etcd.n_hanging > n);
    struct seen seen = {0};
    assert_int_equal(ask_range_of(&seen, "t.1", "k", "l"), BELFRY_OK);
    assert_int_equal(permit_auth(permit, belfry_clock_ms() + REGIME_ON_MS),
                     PERMIT_AUTH_UNKNOWN); /* it is asked about */
    drive_until(seen.n == 1);
    assert_int_equal(seen.verdict, PERMIT_UNAVAILABLE);
    assert_int_equal(stream.n_refused + stream.n_ended, 0);
    let_go();
}

/* Most of its time passed before the question could be asked. */
static void a_question_that_was_sent_late_does_not_count_against_the_token(void **state)
{
    (void)state;
    make_permit((struct etcd){.auth_on = true, .status_code = 14, .silent_ranges = true});
    struct seen seen = {0};
    ask(&seen, "t.1");
    drive_for(PERMIT_TIMEOUT_MS - 1000);
    assert_int_equal(etcd.n_range, 0);
    etcd.status_code = 0;
    drive_until(seen.n == 1);
    assert_int_equal(etcd.n_range, 1);
    assert_int_equal(seen.verdict, PERMIT_UNAVAILABLE);
}

static void a_member_that_does_not_answer_is_not_taken_for_a_bad_token(void **state)
{
    (void)state;
    etcd = (struct etcd){.auth_on = true, .first_is_silent = true};
    make(&(struct upstream_opts){.serve = serve}, 2);
    struct permit_opts opts = {.uplink = bed.uplink, .loop = belfry_loop_uv(bed.loop), .n_members = 2};
    assert_int_equal(permit_create(&opts, &permit), BELFRY_OK);
    struct seen a = {0}, b = {0};
    ask(&a, "t.1");
    ask(&b, "t.2"); /* their first questions go to different members */
    drive_until(a.n + b.n == 2);
    assert_true(a.verdict == PERMIT_GRANTED && b.verdict == PERMIT_GRANTED);
    assert_int_equal(etcd.n_range, 3);
}

/* ---- memory ---- */

static enum belfry_err scenario(void)
{
    static struct seen seen;
    seen = (struct seen){0};
    etcd = (struct etcd){.auth_on = true};
    bed.members[0] = upstream_create(&(struct upstream_opts){.serve = serve});
    enum belfry_err err = open_bed();
    if (err == BELFRY_OK)
        err = permit_create(&(struct permit_opts){.uplink = bed.uplink, .loop = belfry_loop_uv(bed.loop)}, &permit);
    if (err == BELFRY_OK)
        err = ask_range_of(&seen, "t.1", "k", "l");
    if (err == BELFRY_OK) {
        drive_until(seen.n == 1);
        err = seen.verdict == PERMIT_UNAVAILABLE ? BELFRY_ERR_NOMEM : BELFRY_OK;
    }
    permit_destroy(permit);
    permit = NULL;
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
        cmocka_unit_test_teardown(with_auth_off_everybody_may_and_one_call_serves_for_a_second, teardown),
        cmocka_unit_test_teardown(what_is_stale_is_asked_again_in_the_background, teardown),
        cmocka_unit_test_teardown(with_auth_on_the_range_is_asked_with_the_clients_token, teardown),
        cmocka_unit_test_teardown(open_listener_grants_everything_to_clients_without_a_token, teardown),
        cmocka_unit_test_teardown(listener_that_needs_auth_grants_nothing_while_it_is_off, teardown),
        cmocka_unit_test_teardown(the_field_that_etcd_would_take_is_sent, teardown),
        cmocka_unit_test_teardown(refusals_read_as_etcds_own, teardown),
        cmocka_unit_test_teardown(what_upstream_did_not_judge_is_no_refusal, teardown),
        cmocka_unit_test_teardown(an_answer_that_comes_too_late_says_so, teardown),
        cmocka_unit_test_teardown(without_any_token_the_answer_is_no_and_nobody_is_asked, teardown),
        cmocka_unit_test_teardown(a_token_that_cannot_be_sent_is_a_bad_one, teardown),
        cmocka_unit_test_teardown(anything_but_a_clear_off_is_on, teardown),
        cmocka_unit_test_teardown(equal_questions_share_an_answer_and_those_of_one_token_a_call, teardown),
        cmocka_unit_test_teardown(a_tier_above_that_passes_no_txn_on_is_asked_with_single_ranges, teardown),
        cmocka_unit_test_teardown(an_answer_may_cancel_the_question_beside_it, teardown),
        cmocka_unit_test_teardown(a_range_that_nobody_waits_for_is_cancelled, teardown),
        cmocka_unit_test_teardown(a_doubt_is_not_lifted_by_an_answer_from_before_it, teardown),
        cmocka_unit_test_teardown(doubts_without_end_do_not_hold_up_a_question, teardown),
        cmocka_unit_test_teardown(a_doubt_that_changes_nothing_is_not_logged, teardown),
        cmocka_unit_test_teardown(an_upstream_that_cannot_say_is_asked_until_it_can, teardown),
        cmocka_unit_test_teardown(without_an_answer_in_time_it_is_unavailable, teardown),
        cmocka_unit_test_teardown(questions_that_wait_count_to_their_client_and_leave_room_to_others, teardown),
        cmocka_unit_test_teardown(a_held_question_costs_the_same_whether_it_waited_or_not, teardown),
        cmocka_unit_test_teardown(a_hold_that_waits_counts_until_it_is_answered, teardown),
        cmocka_unit_test_teardown(a_range_that_is_held_is_asked_for_again_each_period_until_it_is_denied, teardown),
        cmocka_unit_test_teardown(a_token_that_is_unknown_ends_the_stream, teardown),
        cmocka_unit_test_teardown(an_upstream_that_does_not_answer_pauses_the_stream_and_ends_nothing, teardown),
        cmocka_unit_test_teardown(a_question_that_is_dropped_does_not_take_the_timer_with_it, teardown),
        cmocka_unit_test_teardown(with_auth_off_nothing_is_kept_and_auth_is_asked_about_while_streams_run, teardown),
        cmocka_unit_test_teardown(every_listener_hears_of_the_regime, teardown),
        cmocka_unit_test_teardown(a_stream_that_begins_when_an_answer_has_ended_learns_of_the_next, teardown),
        cmocka_unit_test_teardown(a_listener_says_which_streams_run_without_a_question_and_which_need_auth, teardown),
        cmocka_unit_test_teardown(a_doubt_while_streams_run_is_looked_into_immediately, teardown),
        cmocka_unit_test_teardown(a_token_that_hangs_is_a_bad_one_while_upstream_answers_others, teardown),
        cmocka_unit_test_teardown(a_question_that_was_sent_late_does_not_count_against_the_token, teardown),
        cmocka_unit_test_teardown(a_renewal_without_an_answer_does_not_count_against_the_token, teardown),
        cmocka_unit_test_teardown(a_member_that_does_not_answer_is_not_taken_for_a_bad_token, teardown),
        cmocka_unit_test_teardown(without_memory_a_question_fails_and_nothing_leaks, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
