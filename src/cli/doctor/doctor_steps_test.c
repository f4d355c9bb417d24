/* src/cli/doctor/doctor_steps_test.c */
#include "cli/doctor/doctor_steps.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define DAY ((int64_t)86400)
#define NOW (INT64_C(20000) * DAY)

static struct doctor_facts facts;
static struct doctor_verdict verdict;

#define SET(field, text) snprintf(field, sizeof(field), "%s", text)

/* A tier on TLS, below another, with nothing wrong, and a client that asks for a prefix. */
static int begin_well(void **state)
{
    struct doctor_reach *r = &facts.reach[0];
    struct doctor_admin *a = &facts.admin;
    (void)state;
    memset(&facts, 0, sizeof(facts));
    facts.now_s = NOW;
    facts.n_reach = 1;
    r->endpoint = (struct belfry_endpoint){.tls = true, .port = 23790, .host = "edge-7"};
    SET(r->endpoint.url, "https://edge-7:23790");
    SET(r->endpoint.authority, "edge-7:23790");
    SET(r->address, "10.3.0.7");
    r->has_peer = true;
    r->peer = (struct belfry_tls_peer){.begins_s = NOW - 10 * DAY, .expires_s = NOW + 80 * DAY};
    SET(r->peer.names, "edge-7");
    SET(r->peer.issuer, "our CA");
    a->asked = a->answered = a->has_clock = a->has_settings = true;
    SET(a->name, "edge-7");
    SET(a->version, "0.2.0");
    SET(a->standing, "ready");
    SET(a->endpoint, "http://core-1:23790");
    SET(a->advertise, "https://edge-7:23790");
    a->certificate_left_s = UINT64_MAX;
    a->descriptors = 1048576;
    a->disk_free_bytes = UINT64_C(50000000000);
    a->n_levels = 3;
    SET(a->levels[0].name, "etcd");
    for (size_t i = 1; i < 3; i++) {
        SET(a->levels[i].name, i == 1 ? "core-1" : "edge-7");
        SET(a->levels[i].standing, "ready");
    }
    facts.client.asks_range = facts.client.prefix = true;
    SET(facts.client.range, "/services/");
    facts.n_members = 2;
    for (size_t i = 0; i < 2; i++) {
        struct doctor_member *m = &facts.members[i];
        snprintf(m->url, sizeof(m->url), "http://etcd-%zu:2379", i);
        SET(m->version, "3.5.30");
        m->leader = 7;
    }
    return 0;
}

/* The first line that is not good, as "result step: what | remedy"; "" when all are. */
static const char *first_trouble(void)
{
    static char text[2048];
    enum doctor_result results[N_STEPS];
    text[0] = '\0';
    for (enum doctor_step_id step = 0; step < N_STEPS; step++) {
        doctor_judge(step, &facts, results, &verdict);
        results[step] = verdict.result;
        bool bad = verdict.result == DOCTOR_WARN || verdict.result == DOCTOR_FAIL;
        if (bad && text[0] == '\0')
            snprintf(text, sizeof(text), "%s %s: %s | %s", doctor_result_name(verdict.result), doctor_steps[step].name,
                     verdict.what, verdict.remedy);
        if (bad)
            assert_true(verdict.remedy[0] != '\0');
    }
    return text;
}

static void assert_trouble(const char *begins, const char *has)
{
    const char *text = first_trouble();
    if (strncmp(text, begins, strlen(begins)) != 0 || strstr(text, has) == NULL)
        fail_msg("'%s' does not begin with '%s' and have '%s'", text, begins, has);
}

static enum doctor_result result_of(enum doctor_step_id wanted)
{
    enum doctor_result results[N_STEPS];
    for (enum doctor_step_id step = 0; step <= wanted; step++) {
        doctor_judge(step, &facts, results, &verdict);
        results[step] = verdict.result;
    }
    return verdict.result;
}

static void nothing_is_said_against_a_tier_that_is_well(void **state)
{
    (void)state;
    assert_string_equal(first_trouble(), "");
}

static void a_failed_try(struct doctor_try *try, enum belfry_err err, const char *why)
{
    try->err = err;
    SET(try->why, why);
}

static void the_way_to_the_endpoint_is_judged_in_its_order(void **state)
{
    struct doctor_reach *r = &facts.reach[0];
    (void)state;
    a_failed_try(&r->tls, BELFRY_ERR_TLS, "certificate verify failed: certificate has expired; renew it");
    assert_trouble("fail tls: ", "it is for edge-7, signed by \"our CA\" | renew it");
    a_failed_try(&r->connect, BELFRY_ERR_UNAVAILABLE, "connection refused");
    assert_trouble("fail connect: https://edge-7:23790: connection refused", "port 23790");
    a_failed_try(&r->name, BELFRY_ERR_RESOLVE, "no such host");
    assert_trouble("fail name: edge-7 does not resolve", "DNS");
    assert_int_equal(result_of(STEP_TLS), DOCTOR_SKIP);
    assert_int_equal(result_of(STEP_IDENTITY), DOCTOR_SKIP);
    assert_int_equal(result_of(STEP_TIER), DOCTOR_OK);
}

static void one_bad_endpoint_among_good_ones_is_a_warning(void **state)
{
    (void)state;
    facts.n_reach = 2;
    facts.reach[1] = facts.reach[0];
    SET(facts.reach[1].endpoint.host, "edge-8");
    a_failed_try(&facts.reach[0].name, BELFRY_ERR_RESOLVE, "no such host");
    assert_trouble("warn name: edge-7 does not resolve", "DNS");
    assert_int_equal(result_of(STEP_IDENTITY), DOCTOR_OK);
    facts.reach[0].name.err = BELFRY_OK;
    a_failed_try(&facts.reach[0].connect, BELFRY_ERR_UNAVAILABLE, "connection refused");
    assert_trouble("warn connect: ", "refused");
    a_failed_try(&facts.reach[1].tls, BELFRY_ERR_TLS, "no");
    assert_trouble("fail connect: ", "refused");
}

static void https_for_http_is_named(void **state)
{
    (void)state;
    a_failed_try(&facts.reach[0].tls, BELFRY_ERR_TLS, "the peer closed the connection");
    facts.reach[0].is_plain = true;
    assert_trouble("fail tls: ", "write http://edge-7:23790");
}

static void http_for_https_is_named(void **state)
{
    (void)state;
    facts.reach[0].endpoint.tls = false;
    facts.reach[0].wants_tls = true;
    assert_trouble("fail tls: ", "write https://edge-7:23790");
}

static void a_certificate_is_soon_over_by_the_measure_of_its_life(void **state)
{
    struct belfry_tls_peer *peer = &facts.reach[0].peer;
    (void)state;
    peer->expires_s = NOW + 6 * DAY;
    peer->begins_s = NOW - 84 * DAY;
    assert_trouble("warn certificate: edge-7:23790: valid for 6 days more", "renew it");
    peer->begins_s = NOW - 1 * DAY;
    assert_string_equal(first_trouble(), "");
    peer->expires_s = NOW + 3600;
    peer->begins_s = NOW - 600;
    assert_string_equal(first_trouble(), "");
    facts.admin.certificate_left_s = 0;
    assert_trouble("fail certificate: the tier's own certificate", "--upstream-cert");
}

static void a_tier_that_is_not_asked_is_skipped_with_all_its_steps(void **state)
{
    (void)state;
    facts.admin.asked = false;
    assert_int_equal(result_of(STEP_TIER), DOCTOR_SKIP);
    assert_int_equal(result_of(STEP_POOLS), DOCTOR_SKIP);
    assert_int_equal(result_of(STEP_RIGHTS), DOCTOR_OK);
    facts.admin.asked = true;
    a_failed_try(&facts.admin.page, BELFRY_ERR_UNAVAILABLE, "connection refused");
    assert_int_equal(result_of(STEP_TIER), DOCTOR_SKIP);
    facts.admin.given = true;
    assert_trouble("fail tier: ", "connection refused");
}

static void what_a_tier_says_of_upstream_has_its_remedy(void **state)
{
    struct doctor_admin *a = &facts.admin;
    (void)state;
    SET(a->standing, "not ready");
    SET(a->reason, "tiers in a circle: a > b > a");
    SET(a->upstream_hint, "give each tier its own --name");
    assert_trouble("fail upstream: the tier is not ready: tiers in a circle", "give each tier its own --name");
    assert_int_equal(result_of(STEP_IDENTITY), DOCTOR_SKIP);
    SET(a->standing, "stale");
    SET(a->reason, "upstream http://etcd:2379 unreachable (connection refused)");
    a->endpoint[0] = '\0';
    a->upstream_hint[0] = '\0'; /* an older tier */
    assert_trouble("fail upstream: the tier is cut off from upstream, and its replica is stale: upstream "
                   "http://etcd:2379 unreachable (connection refused) |",
                   "is upstream up");
    SET(a->endpoint, "http://etcd:2379");
    assert_trouble("fail replica: the replica is stale: http://etcd:2379", "leader");
    SET(a->standing, "ready");
    a->n_endpoints = 1;
    a->barred[0] = true;
    assert_trouble("warn upstream: ", "circle");
    a->answered = false;
    assert_trouble("fail upstream: the thread", "bug");
}

static void a_tier_that_has_just_lost_upstream_says_so(void **state)
{
    struct doctor_admin *a = &facts.admin;
    (void)state;
    a->endpoint[0] = '\0';
    a->silent_ms = 1300;
    SET(a->reason, "upstream http://etcd:2379: connection refused");
    assert_trouble("warn upstream: no connection to upstream: upstream http://etcd:2379: connection refused; what it "
                   "serves is 1.3 s old",
                   "is upstream up");
    a_failed_try(&facts.members[0].status, BELFRY_ERR_UNAVAILABLE, "connection refused");
    facts.members[1].status = facts.members[0].status;
    assert_int_equal(result_of(STEP_MEMBERS), DOCTOR_FAIL); /* the tier does not reach them either */
    a->reason[0] = '\0';                                    /* an older tier */
    a->silent_ms = UINT64_MAX;
    assert_trouble("warn upstream: no connection to upstream: the tier connects again |", "is upstream up");
}

static void the_level_whose_link_is_broken_is_named(void **state)
{
    struct doctor_admin *a = &facts.admin;
    (void)state;
    SET(a->standing, "stale");
    SET(a->reason, "upstream http://core-1:23790: etcdserver: no leader");
    a->has_broken = true;
    a->broken_level = 1;
    a->broken_ms = 16900;
    SET(a->broken_name, "core-1");
    SET(a->broken_what, "core-1 cannot connect to etcd");
    assert_trouble(
        "fail upstream: core-1 cannot connect to etcd, for 16 s; this tier, 1 level below core-1, is stale |",
        "run belfryctl doctor on core-1");
    SET(a->standing, "ready");
    assert_trouble("warn upstream: core-1 cannot connect to etcd", "doctor on core-1");
    SET(a->standing, "stale");
    a->broken_level = 0; /* our own link has more words */
    assert_trouble("fail replica: the replica is stale: http://core-1:23790", "leader");
}

static void a_full_disk_comes_before_what_it_causes(void **state)
{
    struct doctor_admin *a = &facts.admin;
    (void)state;
    a->disk_free_bytes = 1000;
    assert_trouble("warn disk: ", "free some space");
    SET(a->standing, "not ready");
    a->disk_trouble = true;
    SET(a->disk_why, "disk full: /var/cache/belfry");
    assert_trouble("fail disk: ", "disk full: /var/cache/belfry");
}

static void each_level_is_judged_and_the_first_counts(void **state)
{
    struct doctor_admin *a = &facts.admin;
    (void)state;
    a->levels[2].lag = 5000;
    assert_trouble("warn lag: edge-7 is 5000 revisions behind", "link");
    SET(a->levels[1].standing, "stale");
    assert_trouble("warn lag: core-1, level 1 above this tier, is stale", "doctor on core-1");
    SET(a->levels[1].standing, "ready");
    a->levels[2].lag = 1000;
    assert_string_equal(first_trouble(), "");
    facts.members[0].revision = 9000;
    a->levels[2].revision = 2000;
    assert_trouble("warn lag: edge-7 is 7000 revisions behind http://etcd-0:2379", "link");
    a->levels[2].revision = 8500;
    SET(a->lag_why, "7 s behind (limit 5 s)");
    assert_trouble("fail lag: the tier is 7 s behind", "tree");
}

static void a_clock_is_judged_by_what_is_sure(void **state)
{
    struct doctor_admin *a = &facts.admin;
    (void)state;
    a->clock_ahead_ms = 60000;
    assert_trouble("fail clock: the tier's clock is 60 s ahead of", "timedatectl");
    a->clock_ahead_ms = -5000;
    assert_trouble("warn clock: the tier's clock is 5 s behind", "timedatectl");
    a->clock_error_ms = 4000;
    assert_string_equal(first_trouble(), "");
}

static void descriptors_and_pools_are_judged(void **state)
{
    struct doctor_admin *a = &facts.admin;
    (void)state;
    a->n_troubles = 1;
    SET(a->troubles[0], "watchers is full: 98 % of 100 in use; 10.0.0.9 holds most, 49 %");
    assert_trouble("warn pools: watchers is full", "top --clients");
    a->descriptors = 1024;
    assert_trouble("warn descriptors: 1024 allowed", "LimitNOFILE");
    a->refused = 3;
    assert_trouble("fail descriptors: 3 connections were refused", "LimitNOFILE");
}

static void the_client_is_judged(void **state)
{
    struct doctor_client *c = &facts.client;
    (void)state;
    a_failed_try(&c->watch, BELFRY_ERR_REFUSED, "no");
    assert_int_equal(result_of(STEP_RIGHTS), DOCTOR_FAIL);
    a_failed_try(&c->read, BELFRY_ERR_DENIED, "etcdserver: permission denied");
    c->answer = c->read;
    assert_trouble("fail rights: /services/* may not be read: ", "role grant-permission ROLE read /services/ --prefix");
    SET(facts.admin.scope, "/flags/");
    assert_trouble("fail scope: /services/ is outside of what the tier follows, /flags/", "--scope");
    SET(facts.admin.scope, "/serv");
    assert_int_equal(result_of(STEP_SCOPE), DOCTOR_OK);
    a_failed_try(&c->answer, BELFRY_ERR_AUTH, "etcdserver: user name is empty");
    assert_trouble("fail identity: ", "--user");
    a_failed_try(&facts.members[1].status, BELFRY_ERR_TIMEOUT, "http://etcd-1:2379: no answer");
    assert_int_equal(result_of(STEP_MEMBERS), DOCTOR_WARN);
    assert_string_equal(verdict.what, "http://etcd-1:2379 does not answer: no answer");
    SET(facts.admin.rights_why, "auth is off upstream, and https://edge-7:23790 has rights=upstream");
    SET(facts.admin.rights_hint, "turn auth on upstream");
    assert_trouble("fail auth: auth is off", "turn auth on");
    c->asks_range = false;
    assert_int_equal(result_of(STEP_RIGHTS), DOCTOR_NONE);
}

/* The tier's own verdict, in its words: a tier that /readyz takes out of service is never fine for doctor. */
static void a_tier_that_is_not_ready_is_a_failure(void **state)
{
    struct doctor_admin *a = &facts.admin;
    (void)state;
    SET(a->verdict, "ready");
    assert_string_equal(first_trouble(), "");
    SET(a->verdict, "not ready");
    SET(a->ready_why, "workers: 1 of 2 did not answer");
    SET(a->ready_hint, "is the machine out of processor time?");
    assert_trouble("fail ready: not ready: workers: 1 of 2 did not answer", "out of processor time");
    SET(a->verdict, "draining");
    SET(a->ready_why, "drain: the tier drains");
    a->ready_hint[0] = '\0'; /* an older tier */
    assert_trouble("fail ready: draining: drain: the tier drains", "log");
    SET(a->standing, "stale"); /* judged even when upstream has failed */
    a->endpoint[0] = '\0';
    assert_int_equal(result_of(STEP_READY), DOCTOR_FAIL);
    SET(a->standing, "ready");
    SET(a->endpoint, "http://etcd:2379");
    SET(a->verdict, "ready");
    SET(a->lost_why, "upstream lost data 60 s ago");
    SET(a->lost_hint, "was etcd replaced?");
    assert_trouble("warn ready: upstream lost data", "replaced");
}

static void members_and_versions_are_judged(void **state)
{
    struct doctor_member *m = &facts.members[1];
    (void)state;
    SET(m->version, "3.5.16");
    assert_trouble("warn versions: etcd 3.5.16 on http://etcd-1:2379", "3.5.22");
    SET(m->version, "3.4.23");
    SET(facts.admin.scope, "/services/");
    assert_trouble("fail versions: etcd 3.4.23", "3.4.38");
    facts.n_members = 0;
    SET(facts.admin.levels[0].version, "3.4.23");
    assert_trouble("fail versions: etcd 3.4.23 on etcd", "3.4.38");
    facts.n_members = 2;
    m->status.took_us = 900000;
    assert_trouble("warn members: http://etcd-1:2379 is slow: 900 ms", "disk");
    SET(m->errors, "memberID:8 alarm:NOSPACE");
    assert_trouble("fail members: ", "NOSPACE");
    m->leader = 0;
    assert_trouble("fail members: http://etcd-1:2379 has no leader", "most members");
    a_failed_try(&m->status, BELFRY_ERR_UNAVAILABLE, "connection refused");
    assert_trouble("warn members: http://etcd-1:2379 does not answer: connection refused", "start that member");
    m->reached = true;
    a_failed_try(&m->status, BELFRY_ERR_TIMEOUT, "http://etcd-1:2379: deadline exceeded");
    assert_trouble("warn members: http://etcd-1:2379 is up, and cannot answer: deadline exceeded", "leader");
    a_failed_try(&m->status, BELFRY_ERR_AUTH, "etcdserver: invalid auth token");
    assert_trouble("warn members: http://etcd-1:2379 rejects the credentials that doctor has", "--user");
    a_failed_try(&m->status, BELFRY_ERR_TLS, "certificate required");
    assert_trouble("warn members: http://etcd-1:2379 and doctor agree on no TLS connection", "--cert");
    facts.members[0].status = m->status;
    assert_int_equal(result_of(STEP_MEMBERS), DOCTOR_SKIP); /* the tier is ready, so some member is up */
    facts.admin.asked = false;
    assert_trouble("fail members: ", "etcd-0");
    facts.admin.asked = true;
    facts.admin.advertise[0] = '\0';
    assert_trouble("warn advertise: ", "--advertise URL");
}

static void a_write_is_told_with_the_time_of_each_hop(void **state)
{
    struct doctor_write *w = &facts.write;
    (void)state;
    assert_int_equal(result_of(STEP_WRITE), DOCTOR_NONE);
    w->wanted = w->seen_here = w->seen_upstream = true;
    SET(w->key, "/tmp/x");
    w->revision = 7;
    w->put.took_us = 2000;
    w->upstream_us = 2100;
    w->here_us = 2600;
    for (size_t i = 1; i < 3; i++)
        facts.admin.levels[i].has_hop = true, facts.admin.levels[i].hop_us = 100 * i;
    facts.admin.levels[1].is_guess = true;
    assert_int_equal(result_of(STEP_WRITE), DOCTOR_OK);
    assert_string_equal(verdict.what, "revision 7: written in 2.0 ms, upstream sent it after 2.1 ms, this tier after "
                                      "2.6 ms; hops: etcd > core-1 0.10 ms (rtt/2) > edge-7 0.20 ms");
    w->seen_here = false;
    assert_trouble("fail write: revision 7", "tree");
    a_failed_try(&w->put, BELFRY_ERR_DENIED, "permission denied");
    assert_trouble("fail write: /tmp/x cannot be written", "right");
    w->exists = true;
    assert_trouble("fail write: /tmp/x exists", "--write-key");
}

/* In front of API servers there are no keys, no members of etcd and no gRPC. */
static void resources_of_an_api_server_are_judged_instead_of_etcd(void **state)
{
    struct doctor_admin *a = &facts.admin;
    (void)state;
    a->is_kube = true;
    a->n_resources = a->n_ready = 3;
    facts.client.answer.err = BELFRY_ERR_REFUSED;
    facts.members[0].status.err = BELFRY_ERR_TLS;
    assert_string_equal(first_trouble(), "");
    assert_int_equal(result_of(STEP_RESOURCES), DOCTOR_OK);
    assert_int_equal(result_of(STEP_IDENTITY), DOCTOR_NONE);
    a->n_ready = 2;
    SET(a->resource_why, "widgets.demo is not followed yet: upstream does not have the resource");
    SET(a->resource_hint, "check --follow of the tier");
    assert_trouble("fail resources: 1 of 3 are not ready: widgets.demo is not followed yet", "check --follow");
    SET(a->standing, "not ready"); /* the tier has no other resource */
    a->n_ready = 0;
    SET(a->reason, "pods: 403 Forbidden: pods is forbidden: User \"tier\" cannot list");
    SET(a->upstream_hint, "grant the tier's account the right that is named");
    assert_trouble("fail upstream: the tier is not ready: pods: 403", "grant the tier's account");
    SET(a->standing, "ready");
    a->is_kube = false;
    facts.client.answer.err = BELFRY_OK;
    facts.members[0].status.err = BELFRY_OK;
    assert_string_equal(first_trouble(), "");
}

/* Whatever a tier, a certificate or a server leaves out, no line has a hole where it would be. */
static void no_line_has_a_blank_value(void **state)
{
    struct doctor_admin *a = &facts.admin;
    struct doctor_reach *r = &facts.reach[0];
    char *const texts[] = {a->name,
                           a->version,
                           a->endpoint,
                           a->standing,
                           a->levels[1].name,
                           r->peer.names,
                           r->peer.issuer,
                           r->address,
                           a->client,
                           a->levels[1].standing,
                           facts.members[0].version,
                           facts.members[1].errors,
                           a->resource_why,
                           a->reason};
    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        for (int how = 0; how < 4; how++) {
            enum doctor_result results[N_STEPS];
            begin_well(NULL);
            if ((how & 1) != 0)
                SET(a->standing, "stale");
            if ((how & 2) != 0)
                a->n_levels = 0;
            texts[i][0] = '\0';
            for (enum doctor_step_id step = 0; step < N_STEPS; step++) {
                doctor_judge(step, &facts, results, &verdict);
                results[step] = verdict.result;
                size_t len = strlen(verdict.what);
                if (verdict.result == DOCTOR_SKIP || verdict.result == DOCTOR_NONE)
                    continue;
                if (len == 0 || verdict.what[len - 1] == ' ' || strstr(verdict.what, "  ") != NULL ||
                    strstr(verdict.what, "\"\"") != NULL || strstr(verdict.what, "()") != NULL)
                    fail_msg("text %zu, %d: %s: '%s'", i, how, doctor_steps[step].name, verdict.what);
            }
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(no_line_has_a_blank_value, begin_well),
        cmocka_unit_test_setup(nothing_is_said_against_a_tier_that_is_well, begin_well),
        cmocka_unit_test_setup(the_way_to_the_endpoint_is_judged_in_its_order, begin_well),
        cmocka_unit_test_setup(one_bad_endpoint_among_good_ones_is_a_warning, begin_well),
        cmocka_unit_test_setup(https_for_http_is_named, begin_well),
        cmocka_unit_test_setup(http_for_https_is_named, begin_well),
        cmocka_unit_test_setup(a_certificate_is_soon_over_by_the_measure_of_its_life, begin_well),
        cmocka_unit_test_setup(a_tier_that_is_not_asked_is_skipped_with_all_its_steps, begin_well),
        cmocka_unit_test_setup(what_a_tier_says_of_upstream_has_its_remedy, begin_well),
        cmocka_unit_test_setup(a_tier_that_has_just_lost_upstream_says_so, begin_well),
        cmocka_unit_test_setup(the_level_whose_link_is_broken_is_named, begin_well),
        cmocka_unit_test_setup(a_full_disk_comes_before_what_it_causes, begin_well),
        cmocka_unit_test_setup(each_level_is_judged_and_the_first_counts, begin_well),
        cmocka_unit_test_setup(a_clock_is_judged_by_what_is_sure, begin_well),
        cmocka_unit_test_setup(descriptors_and_pools_are_judged, begin_well),
        cmocka_unit_test_setup(the_client_is_judged, begin_well),
        cmocka_unit_test_setup(a_tier_that_is_not_ready_is_a_failure, begin_well),
        cmocka_unit_test_setup(members_and_versions_are_judged, begin_well),
        cmocka_unit_test_setup(a_write_is_told_with_the_time_of_each_hop, begin_well),
        cmocka_unit_test_setup(resources_of_an_api_server_are_judged_instead_of_etcd, begin_well),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
