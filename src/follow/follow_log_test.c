/* src/follow/follow_log_test.c */
#include "follow/follow_log.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"

static char lines[2048];

static void on_line(enum belfry_log_level level, const char *event, const char *text, void *user)
{
    size_t used = strlen(lines);
    (void)user;
    snprintf(lines + used, sizeof(lines) - used, "%d %s %s\n", (int)level, event, text);
}

static const struct belfry_log test_log = {.line = on_line, .level = BELFRY_LOG_DEBUG};
static struct follow_log said;
static struct follow_facts facts;

static int setup(void **state)
{
    (void)state;
    said = (struct follow_log){.log = &test_log};
    facts = (struct follow_facts){.lost_why = "",
                                  .unreachable = "",
                                  .list_why = "",
                                  .disk_why = "no space",
                                  .n_endpoints = 2,
                                  .first_endpoint = "http://a"};
    return 0;
}

/* The lines that the facts make, as one text. */
static const char *log_at(uint64_t now_ms)
{
    lines[0] = '\0';
    follow_log_changes(&said, &facts, now_ms);
    return lines;
}

static void connection_is_looked_for_found_and_lost(void **state)
{
    (void)state;
    assert_string_equal(log_at(0), "2 upstream_looking endpoints=2 first=http://a why=\"start\"\n");
    assert_string_equal(log_at(1), "");
    facts.unreachable = "http://a: refused";
    assert_string_equal(log_at(2), "1 upstream_looking endpoints=2 why=\"http://a: refused\"\n");
    assert_string_equal(log_at(3), "");
    facts.unreachable = "";
    facts.endpoint = "http://a";
    assert_string_equal(log_at(4), "2 upstream_connected endpoint=http://a\n");
    facts.endpoint = NULL;
    facts.connected = true; /* only the stream is opened again */
    assert_string_equal(log_at(5), "");
    facts.connected = false;
    facts.lost_why = "reset";
    assert_string_equal(log_at(6), "2 upstream_looking endpoints=2 first=http://a why=\"reset\"\n");
    facts.endpoint = "http://b";
    assert_string_equal(log_at(7), "2 upstream_connected endpoint=http://b\n");
    facts.endpoint = "http://a";
    assert_string_equal(log_at(8), "2 upstream_connected endpoint=http://a\n");
    facts.endpoint = NULL;
    facts.refused = true;
    assert_string_equal(log_at(9), "");
}

static void states_are_logged_when_they_change_and_a_listing_every_five_seconds(void **state)
{
    (void)state;
    facts.endpoint = "http://a";
    log_at(0);
    assert_true(follow_log_due(&said) == BELFRY_NEVER);
    facts.state = UPSTREAM_LISTING;
    facts.list_why = "rev=0 why=\"the replica is empty\"";
    assert_string_equal(log_at(1000), "2 upstream_listing rev=0 why=\"the replica is empty\"\n");
    assert_int_equal(follow_log_due(&said), 6000);
    facts.keys_listed = 42;
    assert_string_equal(log_at(5999), "");
    assert_string_equal(log_at(6000), "2 upstream_listing keys=42\n");
    facts.state = UPSTREAM_LIVE;
    facts.ready = true;
    facts.head = 7;
    facts.past = 1;
    assert_string_equal(log_at(7000), "2 upstream_live endpoint=http://a rev=7 past=1\n");
    facts.state = UPSTREAM_REPLAYING;
    facts.upstream_revision = 9000;
    assert_string_equal(log_at(8000), "2 upstream_replaying rev=7 of=9000\n");
    facts.relists_rewritten = 1;
    facts.list_why = "rev=7 why=\"upstream is behind us\"";
    assert_string_equal(log_at(9000), "1 upstream_diverged rev=7 why=\"upstream is behind us\"\n");
}

/* An etcd that was replaced by an empty one must not pass as a warning. */
static void lost_data_is_an_error_that_says_what_was_lost(void **state)
{
    (void)state;
    facts.endpoint = "http://a";
    facts.state = UPSTREAM_LIVE;
    facts.ready = true;
    facts.head = 812;
    log_at(0);
    facts.relists_rewritten = 1;
    facts.list_why = "rev=812 why=\"upstream is behind us\"";
    facts.state = UPSTREAM_LISTING;
    assert_non_null(strstr(log_at(1000), "1 upstream_diverged rev=812"));
    facts.head = 1;
    facts.keys_listed = 3;
    facts.state = UPSTREAM_LIVE;
    const char *text = log_at(2000);
    assert_non_null(strstr(text, "0 upstream_lost rev_before=812 rev=1 keys=3 why=\"upstream is another store"));
    assert_true(said.loss.at_ms == 2000 && said.loss.rev_from == 812 && said.loss.to == 1 && said.loss.keys == 3);
    facts.state = UPSTREAM_JOINING; /* once */
    log_at(3000);
    facts.state = UPSTREAM_LIVE;
    assert_null(strstr(log_at(4000), "upstream_lost"));
    facts.relists_rewritten = 2; /* another past with more in it is no loss */
    facts.state = UPSTREAM_LISTING;
    log_at(5000);
    facts.head = 9;
    facts.state = UPSTREAM_LIVE;
    assert_null(strstr(log_at(6000), "upstream_lost"));
    assert_true(said.loss.at_ms == 2000);
}

static void staleness_is_logged_with_its_end(void **state)
{
    (void)state;
    facts.endpoint = "http://a";
    facts.state = UPSTREAM_LIVE;
    facts.ready = true;
    log_at(0);
    facts.ready = false;
    facts.stale = true;
    assert_string_equal(log_at(1), "1 upstream_stale rev=0 upstream_rev=0\n");
    assert_string_equal(log_at(2), "");
    facts.stale = false;
    facts.ready = true;
    assert_string_equal(log_at(3), "2 upstream_live endpoint=http://a rev=0 past=0\n");
}

static void trouble_with_the_disk_is_logged_once_for_each_degree(void **state)
{
    (void)state;
    log_at(0);
    facts.disk_trouble = true;
    assert_string_equal(log_at(1), "0 disk_trouble rev=0 committed=0 why=\"no space\" meanwhile=\"changes are served "
                                   "from memory\"\n");
    facts.disk_stuck = true;
    assert_non_null(strstr(log_at(2), "memory for changes is used up, too: watchers wait"));
    facts.disk_stuck = false;
    assert_string_equal(log_at(3), "");
    facts.disk_stuck = true;
    assert_string_equal(log_at(4), "");
    facts.disk_stuck = facts.disk_trouble = false;
    facts.committed = 5;
    assert_string_equal(log_at(5), "2 disk_recovered rev=5\n");
}

static void denial_is_logged_with_its_commands_once_until_it_follows(void **state)
{
    (void)state;
    assert_true(follow_log_is_denial(BELFRY_ERR_DENIED, ""));
    assert_true(follow_log_is_denial(BELFRY_ERR_REFUSED, "etcdserver: user name is empty"));
    assert_false(follow_log_is_denial(BELFRY_ERR_REFUSED, "etcdserver: too many requests"));
    lines[0] = '\0';
    follow_log_denied(&said, "permission denied", "tier", belfry_bytes_str("/registry/"));
    follow_log_denied(&said, "permission denied", "tier", belfry_bytes_str("/registry/"));
    assert_string_equal(lines, "0 upstream_denied why=\"permission denied\" hint=\"grant the tier its rights, as root: "
                               "etcdctl role add belfry; etcdctl role grant-permission belfry read '/registry/' "
                               "--prefix; etcdctl user grant-role 'tier' belfry\"\n");
    facts.state = UPSTREAM_LIVE;
    log_at(0);
    lines[0] = '\0';
    follow_log_denied(&said, "permission denied", NULL, belfry_bytes_str("it's"));
    assert_non_null(strstr(lines, "USER is the CN of --upstream-cert; grant"));
    assert_non_null(strstr(lines, "read SCOPE --prefix; etcdctl user grant-role USER belfry"));
    said.denied = false;
    lines[0] = '\0';
    follow_log_denied(&said, "user name is empty", NULL, belfry_bytes_str(""));
    assert_non_null(strstr(lines, "set --upstream-user and --upstream-password-file"));
    assert_non_null(strstr(lines, "read '' --prefix"));
}

int main(void)
{
#define T(name) cmocka_unit_test_setup(name, setup)
    const struct CMUnitTest tests[] = {
        T(connection_is_looked_for_found_and_lost),
        T(states_are_logged_when_they_change_and_a_listing_every_five_seconds),
        T(lost_data_is_an_error_that_says_what_was_lost),
        T(staleness_is_logged_with_its_end),
        T(trouble_with_the_disk_is_logged_once_for_each_degree),
        T(denial_is_logged_with_its_commands_once_until_it_follows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
