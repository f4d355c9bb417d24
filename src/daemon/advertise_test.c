/* src/daemon/advertise_test.c */
#include "daemon/advertise.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define LISTENERS 3

static const char *choose(const char *const *urls, const char *advertise, enum advertise_sockets sockets, char why[256])
{
    static struct config_listen listen[LISTENERS];
    char text[256];
    struct config config = {.listen = listen, .advertise = (char *)(uintptr_t)advertise};
    for (; config.n_listen < LISTENERS && urls[config.n_listen] != NULL; config.n_listen++) {
        struct config_listen *one = &listen[config.n_listen];
        const char *url = urls[config.n_listen];
        *one = (struct config_listen){.policy.dialects = url[0] == '*' ? DIALECT_KUBE : DIALECT_GRPC};
        url += url[0] == '*';
        assert_int_equal(belfry_endpoint_parse(url, strlen(url), &one->endpoint, text, sizeof(text)), BELFRY_OK);
        one->cert = one->endpoint.tls ? (char *)(uintptr_t) "/nonexistent" : NULL;
    }
    strcpy(why, "?");
    return advertise_choose(&config, sockets, why, 256);
}

static void only_address_that_others_can_reach_is_advertised(void **state)
{
    (void)state;
    static const struct {
        const char *urls[LISTENERS + 1]; /* a star: it does not serve gRPC */
        const char *wanted;              /* NULL: none, and why: */
        const char *why;
    } rows[] = {
        {{"http://127.0.0.1:23790"}, "http://127.0.0.1:23790", NULL},
        {{"http://10.0.0.7:23790"}, "http://10.0.0.7:23790", NULL},
        {{"http://edge-7.example:23790"}, "http://edge-7.example:23790", NULL},
        {{"http://[fd00::7]:23790"}, "http://[fd00::7]:23790", NULL},
        {{"http://127.0.0.1:1", "http://10.0.0.7:2", "unix:///run/b.sock"}, "http://10.0.0.7:2", NULL},
        {{"http://10.0.0.7:1", "*http://10.0.0.7:2"}, "http://10.0.0.7:1", NULL},
        {{"http://0.0.0.0:23790"}, NULL, "http://0.0.0.0:23790 is every address of this machine"},
        {{"http://[::]:23790"}, NULL, "http://[::]:23790 is every address of this machine"},
        {{"http://127.0.0.1:1", "http://0.0.0.0:2"}, NULL, "http://0.0.0.0:2 is every address of this machine"},
        {{"http://10.0.0.7:1", "http://10.0.0.8:1"}, NULL, "it listens on 2 addresses"},
        {{"http://127.0.0.1:1", "http://127.0.0.2:1"}, NULL, "it listens on 2 addresses"},
        {{"unix:///run/b.sock"}, NULL, "it listens on unix sockets only"},
        {{"https://10.0.0.7:1"}, NULL, "the certificate of https://10.0.0.7:1 is not for that address"},
        {{"*http://10.0.0.7:1"}, NULL, ""},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char why[256];
        const char *url = choose(rows[i].urls, NULL, ADVERTISE_OWN, why);
        if (rows[i].wanted != NULL)
            assert_string_equal(url, rows[i].wanted);
        else
            assert_null(url);
        if (rows[i].wanted == NULL)
            assert_string_equal(why, rows[i].why);
    }
}

static void what_was_configured_is_advertised(void **state)
{
    (void)state;
    char why[256];
    const char *const urls[] = {"http://0.0.0.0:1", NULL};
    assert_string_equal(choose(urls, "http://a:1", ADVERTISE_HANDED_OVER, why), "http://a:1");
}

static void address_of_a_socket_that_was_handed_over_is_not_known(void **state)
{
    (void)state;
    char why[256];
    const char *const urls[] = {"http://10.0.0.7:1", NULL};
    assert_null(choose(urls, NULL, ADVERTISE_HANDED_OVER, why));
    assert_string_equal(why, "a service manager has opened the sockets");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_address_that_others_can_reach_is_advertised),
        cmocka_unit_test(what_was_configured_is_advertised),
        cmocka_unit_test(address_of_a_socket_that_was_handed_over_is_not_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
