/* src/server/hosts_test.c */
#include "server/hosts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "support/fakeexchange.h"
#include "support/refuse.h"

static char first[] = "belfry.example", second[] = "edge-7", every[] = "*";
static char *const names[] = {first, second};
static struct hosts two, none;

static int make_hosts(void **state)
{
    (void)state;
    hosts_init(&none, NULL);
    hosts_init(&two, "http://Tier.Example:23790");
    hosts_set(&two, names, 2);
    return 0;
}

static int drop_hosts(void **state)
{
    (void)state;
    hosts_fini(&none);
    hosts_fini(&two);
    return 0;
}

static bool allows(struct hosts *hosts, const char *authority)
{
    return hosts_allow(hosts, belfry_bytes_str(authority));
}

static void addresses_and_names_that_are_ours_are_allowed(void **state)
{
    (void)state;
    static const char *const fine[] = {"127.0.0.1",      "127.0.0.1:23790",
                                       "10.3.8.17:1",    "[::1]:23790",
                                       "[fe80::1]",      "localhost",
                                       "LocalHost:1",    "localhost.:23790",
                                       "tier.example",   "TIER.example:1",
                                       "belfry.example", "Belfry.Example:23790",
                                       "edge-7:65535",   ""};
    for (size_t i = 0; i < sizeof(fine) / sizeof(fine[0]); i++)
        if (!allows(&two, fine[i]))
            fail_msg("%s is refused", fine[i]);
}

static void other_names_and_what_is_no_host_are_not(void **state)
{
    (void)state;
    static const char *const wrong[] = {"evil.example",
                                        "evil.example:23790",
                                        "localhost.evil.example",
                                        "127.0.0.1.evil",
                                        "belfry.example.evil",
                                        "xbelfry.example",
                                        "evil@127.0.0.1",
                                        "127.0.0.1@evil",
                                        "localhost:80:evil",
                                        "[::1]evil",
                                        "[::1",
                                        ":23790",
                                        ".",
                                        "localhost:x",
                                        "*",
                                        "evil.example/localhost"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        if (allows(&two, wrong[i]))
            fail_msg("%s is allowed", wrong[i]);
    char much[400];
    memset(much, 'a', sizeof(much));
    assert_false(hosts_allow(&two, belfry_bytes_of(much, sizeof(much))));
    assert_false(hosts_allow(&two, belfry_bytes_of("localhost\0x", 11)));
}

static void a_star_allows_every_name(void **state)
{
    (void)state;
    char *const star[] = {every};
    struct hosts any;
    hosts_init(&any, NULL);
    hosts_set(&any, star, 1);
    assert_true(allows(&any, "evil.example"));
    assert_true(allows(&any, "[::1")); /* what is no host, too */
    hosts_fini(&any);
    assert_false(allows(&none, "evil.example"));
    assert_true(allows(&none, "127.0.0.1:1"));
}

static void names_are_replaced_while_requests_come(void **state)
{
    (void)state;
    char *const other[] = {every};
    struct hosts changing;
    hosts_init(&changing, NULL);
    hosts_set(&changing, names, 2);
    assert_true(allows(&changing, "edge-7"));
    assert_false(allows(&changing, "evil.example"));
    hosts_set(&changing, other, 1);
    assert_true(allows(&changing, "evil.example"));
    hosts_set(&changing, NULL, 0);
    assert_false(allows(&changing, "edge-7"));
    assert_true(allows(&changing, "localhost"));
    hosts_fini(&changing);
}

static bool refused(struct fakeexchange *fake, struct hosts *hosts, const char *authority)
{
    struct exchange_head head = {
        .method = belfry_bytes_str("GET"), .path = belfry_bytes_str("/"), .authority = belfry_bytes_str(authority)};
    return hosts_refuse(hosts, &fake->x, &head);
}

static void what_is_refused_says_what_to_do(void **state)
{
    (void)state;
    struct fakeexchange fake;
    fakeexchange_init(&fake, EXCHANGE_ROOM);
    assert_false(refused(&fake, NULL, "evil.example"));
    assert_false(refused(&fake, &two, "edge-7"));
    fake.conn.tls = true; /* the certificate's name was checked */
    assert_false(refused(&fake, &two, "evil.example"));
    fake.conn.tls = false;
    snprintf(fake.conn.peer, sizeof(fake.conn.peer), "unix");
    assert_false(refused(&fake, &two, "evil.example"));
    snprintf(fake.conn.peer, sizeof(fake.conn.peer), "127.0.0.1:40000");
    assert_true(refused(&fake, &two, "evil.example"));
    assert_int_equal(fake.status, 421);
    assert_non_null(strstr(belfry_buf_bytes(&fake.body).data, "--allowed-hosts"));
    fakeexchange_fini(&fake);
    assert_int_equal(refuse_held(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_and_names_that_are_ours_are_allowed),
        cmocka_unit_test(other_names_and_what_is_no_host_are_not),
        cmocka_unit_test(a_star_allows_every_name),
        cmocka_unit_test(names_are_replaced_while_requests_come),
        cmocka_unit_test(what_is_refused_says_what_to_do),
    };
    return cmocka_run_group_tests(tests, make_hosts, drop_hosts);
}
