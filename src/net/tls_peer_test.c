/* src/net/tls_peer_test.c */
#include "net/tls_peer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "net/tls_test_keys.h"

static void names_issuer_and_times_are_read(void **state)
{
    struct issuer ca = keys_issue("test CA", NULL, NULL, 10);
    struct issuer server = keys_issue("ignored", "DNS:edge-7,URI:spiffe://x,IP:10.3.0.7,IP:::1", &ca, 5);
    struct belfry_tls_peer peer;
    int64_t now = time(NULL);
    (void)state;
    belfry_tls_peer_read(server.cert, &peer);
    assert_string_equal(peer.names, "edge-7, 10.3.0.7, ::1");
    assert_string_equal(peer.issuer, "test CA");
    assert_in_range(peer.expires_s, now + 5 * 86400 - 600, now + 5 * 86400);
    assert_in_range(peer.begins_s, now - 2 * 86400 - 600, now - 2 * 86400);
    keys_end(&server);
    keys_end(&ca);
}

static void a_name_that_does_not_fit_is_left_out_and_bad_bytes_are_shown_as_question_marks(void **state)
{
    char names[300] = "DNS:";
    memset(names + 4, 'a', 250);
    strcpy(names + 254, ",DNS:longer");
    struct issuer ca = keys_issue("bell\a", NULL, NULL, 10), server = keys_issue("x", names, &ca, 5);
    struct belfry_tls_peer peer;
    (void)state;
    belfry_tls_peer_read(server.cert, &peer);
    assert_int_equal(strlen(peer.names), 250);
    assert_string_equal(peer.issuer, "bell?");
    keys_end(&server);
    keys_end(&ca);
}

static void an_authority_has_no_names(void **state)
{
    struct issuer ca = keys_issue("test CA", NULL, NULL, 10);
    struct belfry_tls_peer peer;
    (void)state;
    belfry_tls_peer_read(ca.cert, &peer);
    assert_string_equal(peer.names, "");
    keys_end(&ca);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_issuer_and_times_are_read),
        cmocka_unit_test(a_name_that_does_not_fit_is_left_out_and_bad_bytes_are_shown_as_question_marks),
        cmocka_unit_test(an_authority_has_no_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
