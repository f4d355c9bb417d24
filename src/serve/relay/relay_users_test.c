/* src/serve/relay/relay_users_test.c: calls of users of client certificates, between support/fakeexchange and a
 * support/fakeupstream that issues tokens as etcd does. */
#include "serve/relay/relay.h"

#include "serve/rights/rights_request.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

#include <cmocka.h>

#include "net/tls_test_keys.h"
#include "support/fakeexchange.h"
#include "support/uplinkbed.h"

#include "support/authbed.h"

#define RANGE        "/etcdserverpb.KV/Range"
#define STATUS       "/etcdserverpb.Maintenance/Status"
#define AUTHENTICATE "/etcdserverpb.Auth/Authenticate"

static struct test_keys keys;
static struct belfry_tls *tls;
static struct vouch *vouch;
static struct permit *permit;
static struct relay *relay;
static struct fakeexchange fake;
static const char *answer_code, *answer_message; /* of calls; NULL: 0 */
static size_t n_calls, n_questions, last;

static int make_keys(void **state)
{
    (void)state;
    keys_make(&keys);
    return 0;
}

static int remove_keys(void **state)
{
    (void)state;
    keys_remove(&keys);
    return 0;
}

static void serve(struct upstream *upstream, size_t i, void *user)
{
    const struct upstream_request *request = upstream_request(upstream, i);
    (void)user;
    bool is_relayed = request->body_len >= 8 && memcmp(request->body + 5, "abc", 3) == 0;
    if (!is_relayed && strcmp(upstream_field(upstream, i, ":path"), RANGE) == 0) {
        n_questions++;
        last = i;
        auth_refuse(upstream, i, "11", RIGHTS_REQUEST_ALLOWED);
        return;
    }
    if (!is_relayed) {
        auth_serve(upstream, i);
        return;
    }
    n_calls++;
    last = i;
    if (answer_code != NULL)
        auth_refuse(upstream, i, answer_code, answer_message);
    else
        upstream_grpc(upstream, i, "", 0, "0");
}

enum way { BY_KEY, PASSING, NO_WAY };

static void make_relay(enum way way, bool is_named)
{
    char why[256];
    struct upstream_opts upstream = {.serve = serve};
    answer_code = NULL;
    n_calls = n_questions = 0;
    if (is_named) {
        struct belfry_tls_opts opts = {.cacert = keys.ca, .cert = keys.client, .key = keys.client_key};
        assert_int_equal(belfry_tls_create(&opts, &tls, why, sizeof(why)), BELFRY_OK);
        upstream.cert = keys.server;
        upstream.key = keys.server_key;
    }
    bed.tls = tls;
    make(&upstream, 1);
    struct vouch_opts vouch_opts = auth_vouch_opts();
    vouch_opts.mint = way == BY_KEY ? auth.mint : NULL;
    vouch_opts.pass_users = way == PASSING;
    if (way != NO_WAY)
        assert_int_equal(vouch_create(&vouch_opts, &vouch), BELFRY_OK);
    struct permit_opts permit_opts = {.uplink = bed.uplink, .loop = belfry_loop_uv(bed.loop), .vouch = vouch};
    assert_int_equal(permit_create(&permit_opts, &permit), BELFRY_OK);
    struct relay_opts relay_opts = {.uplink = bed.uplink, .permit = permit, .vouch = vouch};
    assert_int_equal(relay_create(&relay_opts, &relay), BELFRY_OK);
    fakeexchange_init(&fake, EXCHANGE_ROOM);
}

static int teardown(void **state)
{
    (void)state;
    relay_destroy(relay);
    permit_destroy(permit);
    vouch_destroy(vouch);
    relay = NULL;
    permit = NULL;
    vouch = NULL;
    close_bed();
    belfry_tls_destroy(tls);
    tls = NULL;
    fakeexchange_fini(&fake);
    auth_fini();
    return refuse_held() == 0 ? 0 : -1;
}

static void begin(const char *user, const char *path, const char *field, const struct listen_policy *policy)
{
    struct fakeexchange_head head;
    const char *const fields[] = {"content-type: application/grpc", field, NULL};
    fakeexchange_fini(&fake);
    fakeexchange_init(&fake, EXCHANGE_ROOM);
    fake.conn.user = user;
    fake.conn.policy = policy;
    fakeexchange_head(&head, "POST", path, fields);
    relay_begin(relay, &fake.x, &head.head, RELAY_ALL);
    fakeexchange_send_message(&fake, "abc", 3);
    fakeexchange_half_close(&fake);
}

static void call(const char *user, const char *path, const char *field, const struct listen_policy *policy)
{
    begin(user, path, field, policy);
    drive_until(fake.state == FAKEEXCHANGE_ENDED);
}

static void ended_with(const char *code, const char *message)
{
    assert_string_equal(fakeexchange_field(&fake, "grpc-status"), code);
    if (message != NULL)
        assert_string_equal(fakeexchange_field(&fake, "grpc-message"), message);
}

static const char *sent(const char *field)
{
    return upstream_field(bed.members[0], last, field);
}

static void assert_sent_for(const char *user, uint64_t revision)
{
    char name[64];
    assert_int_equal(auth_read(sent("token"), name, sizeof(name)), revision);
    assert_string_equal(name, user);
    assert_null(sent("grpcgateway-accept"));
    assert_null(sent("belfry-user"));
}

/* ---- tests ---- */

static void call_of_a_certificates_user_has_its_token(void **state)
{
    (void)state;
    make_relay(BY_KEY, true);
    call("alice", RANGE, NULL, NULL);
    ended_with("0", NULL);
    assert_sent_for("alice", 17);
    call("bob", STATUS, NULL, NULL);
    assert_sent_for("bob", 17);
    assert_true(n_calls == 2 && auth.n_log_ins == 1 && auth.n_status == 1);
}

static void token_of_the_request_wins(void **state)
{
    (void)state;
    make_relay(BY_KEY, false);
    call("alice", RANGE, "token: t.1", NULL);
    assert_string_equal(sent("token"), "t.1");
    call("alice", RANGE, "authorization: x", NULL);
    assert_null(sent("token"));
    assert_true(auth.n_log_ins == 0 && auth.n_status == 0);
}

static void with_auth_off_no_token_is_made(void **state)
{
    (void)state;
    auth.auth_on = false;
    make_relay(BY_KEY, false);
    call("alice", RANGE, NULL, NULL);
    ended_with("0", NULL);
    assert_null(sent("token"));
    assert_int_equal(auth.n_log_ins, 0);
}

static void log_in_of_a_client_goes_up_as_it_is(void **state)
{
    (void)state;
    make_relay(BY_KEY, true);
    call("alice", AUTHENTICATE, NULL, NULL);
    assert_null(sent("token"));
    assert_int_equal(auth.n_log_ins, 0);
}

static void on_an_open_listener_a_certificate_counts_as_none(void **state)
{
    (void)state;
    static const struct listen_policy open_to_all = {.rights = LISTEN_RIGHTS_OPEN, .open_writes = true};
    make_relay(BY_KEY, true);
    call("alice", RANGE, NULL, &open_to_all);
    ended_with("3", "etcdserver: user name is empty");
    call("alice", STATUS, NULL, &open_to_all);
    assert_null(sent("token"));
    assert_string_equal(sent("grpcgateway-accept"), "belfry");
}

static void user_that_is_refused_may_call_what_needs_none(void **state)
{
    (void)state;
    make_relay(BY_KEY, true);
    call("root", RANGE, NULL, NULL);
    ended_with("16", vouch_message(VOUCH_NO_ROOT));
    assert_int_equal(n_calls, 0);
    call("root", STATUS, NULL, NULL);
    ended_with("0", NULL);
    assert_null(sent("token"));
    assert_string_equal(sent("grpcgateway-accept"), "belfry"); /* never with the tier's own name */
}

static void without_a_key_the_reason_is_told(void **state)
{
    (void)state;
    make_relay(NO_WAY, false);
    call("alice", RANGE, NULL, NULL);
    ended_with("16", vouch_message(VOUCH_NO_KEY));
    call("alice", STATUS, NULL, NULL);
    ended_with("0", NULL);
    assert_int_equal(n_calls, 1);
    call(NULL, RANGE, NULL, NULL); /* no certificate: for etcd to answer */
    assert_int_equal(n_calls, 2);
}

static void tier_that_cannot_log_in_is_unavailable(void **state)
{
    (void)state;
    auth.log_in_code = "3";
    auth.log_in_message = "wrong";
    make_relay(BY_KEY, false);
    call("alice", RANGE, NULL, NULL);
    ended_with("14", "belfry: this tier cannot log in to upstream: wrong");
    assert_int_equal(n_calls, 0);
}

static void old_token_is_told_once_and_then_made_anew(void **state)
{
    (void)state;
    make_relay(BY_KEY, false);
    call("alice", RANGE, NULL, NULL);
    auth.store_revision = 18;
    answer_code = "3";
    answer_message = VOUCH_OLD;
    call("alice", RANGE, NULL, NULL);
    ended_with("3", VOUCH_OLD);
    assert_int_equal(n_calls, 2); /* a call is never repeated */
    answer_code = NULL;
    call("alice", RANGE, NULL, NULL);
    ended_with("0", NULL);
    assert_sent_for("alice", 18);
    assert_int_equal(auth.n_log_ins, 2);
}

static void clients_own_belfry_user_is_not_passed_on(void **state)
{
    (void)state;
    static const char *const names[] = {"leaf"};
    static const struct listen_policy below = {.users_from = {names, 1}};
    make_relay(BY_KEY, false);
    call("leaf", RANGE, "belfry-user: \"alice\"", &below);
    assert_sent_for("alice", 17);
    call("leaf", RANGE, NULL, &below);
    assert_sent_for("leaf", 17);
    call("alice", STATUS, "belfry-user: \"bob\"", &below); /* route.h refuses it before it comes here */
    assert_null(sent("belfry-user"));
    assert_null(sent("token"));
}

/* What a tier below asks for its own clients. */
static void ask_about(const char *user, const char *field, const struct listen_policy *policy)
{
    struct fakeexchange_head head;
    const char *const fields[] = {"content-type: application/grpc", RIGHTS_REQUEST_FIELD ": 1000",
                                  "grpcgateway-accept: belfry", field, NULL};
    Etcdserverpb__RangeRequest range = ETCDSERVERPB__RANGE_REQUEST__INIT;
    uint8_t key[] = "k", packed[64];
    range.key = (ProtobufCBinaryData){1, key};
    range.revision = INT64_MAX;
    fakeexchange_fini(&fake);
    fakeexchange_init(&fake, EXCHANGE_ROOM);
    fake.conn.user = user;
    fake.conn.policy = policy;
    fakeexchange_head(&head, "POST", RANGE, fields);
    relay_begin(relay, &fake.x, &head.head, RELAY_ALL);
    fakeexchange_send_message(&fake, packed, etcdserverpb__range_request__pack(&range, packed));
    fakeexchange_half_close(&fake);
    drive_until(fake.state == FAKEEXCHANGE_ENDED);
}

static void question_of_a_tier_below_is_about_the_user_that_it_names(void **state)
{
    (void)state;
    static const char *const names[] = {"leaf"};
    static const struct listen_policy below = {.users_from = {names, 1}};
    make_relay(BY_KEY, false);
    for (int i = 0; i < 2; i++) {
        ask_about("leaf", "belfry-user: \"alice\"", &below);
        ended_with("11", RIGHTS_REQUEST_ALLOWED);
        assert_sent_for("alice", 17);
        assert_int_equal(n_questions, 1); /* the second time it is known */
    }
    ask_about("leaf", "belfry-user: \"bob\"", &below);
    assert_sent_for("bob", 17);
    ask_about("leaf", "belfry-user: \"root\"", &below);
    ended_with("16", vouch_message(VOUCH_NO_ROOT));
    assert_int_equal(n_questions, 2);
}

static void tier_without_a_key_passes_the_user_on(void **state)
{
    (void)state;
    static const char *const names[] = {"leaf"};
    static const struct listen_policy below = {.users_from = {names, 1}};
    make_relay(PASSING, true);
    call("alice", RANGE, NULL, NULL);
    assert_string_equal(sent("belfry-user"), "\"alice\"");
    call("leaf", STATUS, "belfry-user: \" \xc3\xa4 \"", &below); /* and again what was passed on to it */
    assert_string_equal(sent("belfry-user"), "\" \xc3\xa4 \"");
    call("root", RANGE, NULL, NULL); /* the tier with the key decides */
    assert_string_equal(sent("belfry-user"), "\"root\"");
    call("alice", RANGE, "token: t.1", NULL);
    assert_null(sent("belfry-user"));
    auth.auth_on = false;
    drive_for(50);
    permit_doubt(permit);
    call("alice", RANGE, NULL, NULL); /* whatever is believed of auth: the name on the connection is the tier's */
    assert_string_equal(sent("belfry-user"), "\"alice\"");
    assert_int_equal(auth.n_log_ins, 0);
}

static void client_may_go_while_it_waits(void **state)
{
    (void)state;
    auth.is_silent = true;
    make_relay(BY_KEY, false);
    begin("alice", RANGE, NULL, NULL);
    drive_until(auth.n_log_ins == 1);
    fakeexchange_gone(&fake);
    struct relay_stats stats;
    relay_stats(relay, &stats);
    assert_int_equal(stats.running, 0);
    drive_for(50);
    assert_int_equal(n_calls, 0);
}

#define WITH_BED(test) cmocka_unit_test_setup_teardown(test, auth_setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_BED(call_of_a_certificates_user_has_its_token),
        WITH_BED(token_of_the_request_wins),
        WITH_BED(with_auth_off_no_token_is_made),
        WITH_BED(log_in_of_a_client_goes_up_as_it_is),
        WITH_BED(on_an_open_listener_a_certificate_counts_as_none),
        WITH_BED(user_that_is_refused_may_call_what_needs_none),
        WITH_BED(without_a_key_the_reason_is_told),
        WITH_BED(tier_that_cannot_log_in_is_unavailable),
        WITH_BED(old_token_is_told_once_and_then_made_anew),
        WITH_BED(clients_own_belfry_user_is_not_passed_on),
        WITH_BED(question_of_a_tier_below_is_about_the_user_that_it_names),
        WITH_BED(tier_without_a_key_passes_the_user_on),
        WITH_BED(client_may_go_while_it_waits),
    };
    return cmocka_run_group_tests(tests, make_keys, remove_keys);
}
