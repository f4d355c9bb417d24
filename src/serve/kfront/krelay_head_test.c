/* src/serve/kfront/krelay_head_test.c */
#include "serve/kfront/krelay_head.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "support/fakeexchange.h"
#include "support/refuse.h"

static const struct client_address client = {.family = CLIENT_IPV4, .port = 7, .bytes = {10, 0, 0, 9}};
static const struct client_address local = {.family = CLIENT_UNIX};

static enum belfry_err take(const char *const *lines, const struct client_address *from, char *text, size_t len)
{
    struct fakeexchange_head head;
    struct fields fields;
    size_t at = 0;
    fields_init(&fields);
    fakeexchange_head(&head, "GET", "/api", lines);
    enum belfry_err err = krelay_head_take(&head.head, "if-none-match", from, &fields);
    const struct belfry_http_field *list = fields_list(&fields);
    text[0] = '\0';
    for (size_t i = 0; i < fields.n && err == BELFRY_OK; i++)
        at += (size_t)snprintf(text + at, len - at, "%.*s: %.*s\n", (int)list[i].name.len, list[i].name.data,
                               (int)list[i].value.len, list[i].value.data);
    fields_fini(&fields);
    return err;
}

static void expect(const char *const *lines, const struct client_address *from, const char *taken)
{
    char text[1000];
    assert_int_equal(take(lines, from, text, sizeof(text)), BELFRY_OK);
    assert_string_equal(text, taken);
}

static void credentials_go_up_as_they_came_and_fields_of_the_connection_do_not(void **state)
{
    (void)state;
    expect((const char *const[]){"host: tier", "authorization: Basic YTpi", "connection: close, X-Mine ", "x-mine: 1",
                                 "accept: a", "accept: b", "expect: 100-continue", "keep-alive: 1",
                                 "transfer-encoding: chunked", "te: gzip", "impersonate-user: u", "belfry-user: \"x\"",
                                 "x-remote-user: root", "x-remote-group: system:masters", "content-type: c",
                                 "if-none-match: x", NULL},
           &local, "authorization: Basic YTpi\naccept: a\naccept: b\nimpersonate-user: u\ncontent-type: c\n");
}

/* The tier has judged them: a server behind it would judge them again, by another address. */
static void fields_that_browsers_add_stay_here(void **state)
{
    (void)state;
    expect((const char *const[]){"origin: https://app.example", "sec-fetch-site: cross-site", "sec-fetch-mode: cors",
                                 "sec-fetch-dest: empty", "sec-fetch-user: ?1", "accept: a", NULL},
           &local, "accept: a\n");
}

static void no_field_of_the_connection_takes_credentials_away(void **state)
{
    (void)state;
    expect((const char *const[]){"connection: authorization, impersonate-user", "connection: accept",
                                 "authorization: Bearer a", "impersonate-user: u", "accept: b", NULL},
           &local, "authorization: Bearer a\nimpersonate-user: u\n");
}

static void the_clients_address_follows_those_that_are_there(void **state)
{
    (void)state;
    struct client_address v6 = {.family = CLIENT_IPV6, .bytes = {0xfd, [15] = 7}};
    expect((const char *const[]){NULL}, &client, "x-forwarded-for: 10.0.0.9\n");
    expect((const char *const[]){"x-forwarded-for: 1.2.3.4", "a: b", "x-forwarded-for: ::1", NULL}, &v6,
           "a: b\nx-forwarded-for: 1.2.3.4, ::1, fd00::7\n");
    expect((const char *const[]){"x-forwarded-for: 1.2.3.4", NULL}, &local, "x-forwarded-for: 1.2.3.4\n");
}

static void fields_of_upstreams_connection_do_not_come_back(void **state)
{
    (void)state;
    assert_true(krelay_head_returns(belfry_bytes_str(":status"), belfry_bytes_str("200")));
    assert_true(krelay_head_returns(belfry_bytes_str("audit-id"), belfry_bytes_str("1")));
    assert_true(krelay_head_returns(belfry_bytes_str("content-length"), belfry_bytes_str("1")));
    assert_false(krelay_head_returns(belfry_bytes_str("connection"), belfry_bytes_str("close")));
}

static enum belfry_err scenario(void)
{
    char text[200];
    return take((const char *const[]){"a: b", "x-forwarded-for: 1.2.3.4", NULL}, &client, text, sizeof(text));
}

static void without_memory_nothing_leaks(void **state)
{
    (void)state;
    assert_true(refuse_sweep(scenario) >= 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(credentials_go_up_as_they_came_and_fields_of_the_connection_do_not),
        cmocka_unit_test(fields_that_browsers_add_stay_here),
        cmocka_unit_test(no_field_of_the_connection_takes_credentials_away),
        cmocka_unit_test(the_clients_address_follows_those_that_are_there),
        cmocka_unit_test(fields_of_upstreams_connection_do_not_come_back),
        cmocka_unit_test(without_memory_nothing_leaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
