/* src/server/client_address_test.c */
#include "server/client_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

static struct client_address address(const char *host)
{
    uint8_t bytes[16];
    if (inet_pton(AF_INET, host, bytes) == 1)
        return client_address_ipv4(bytes, 7);
    assert_int_equal(inet_pton(AF_INET6, host, bytes), 1);
    return client_address_ipv6(bytes, 7);
}

static struct client_network network(const char *text)
{
    struct client_network made = {0};
    char why[256] = "";
    if (client_network_parse(text, &made, why, sizeof(why)) != BELFRY_OK)
        fail_msg("%s", why);
    return made;
}

static void an_address_has_one_form_and_one_text(void **state)
{
    (void)state;
    static const struct {
        const char *from, *text;
        enum client_family family;
    } rows[] = {
        {"10.3.8.17", "10.3.8.17:7", CLIENT_IPV4},
        {"::ffff:10.3.8.17", "10.3.8.17:7", CLIENT_IPV4},
        {"fd00::7", "[fd00::7]:7", CLIENT_IPV6},
        {"::10.3.8.17", "[::10.3.8.17]:7", CLIENT_IPV6}, /* that form stands for no IPv4 address */
        {"ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255", "[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]:7", CLIENT_IPV6}};
    char text[CLIENT_ADDRESS_TEXT];
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct client_address made = address(rows[i].from);
        client_address_text(&made, text);
        assert_string_equal(text, rows[i].text);
        assert_int_equal(made.family, rows[i].family);
    }
    struct client_address four = address("10.3.8.17"), mapped = address("::ffff:10.3.8.17");
    assert_memory_equal(four.bytes, mapped.bytes, sizeof(four.bytes));
    client_address_text(&(struct client_address){0}, text);
    assert_string_equal(text, "unknown");
}

static void the_peer_of_a_unix_socket_is_its_user(void **state)
{
    (void)state;
    int fds[2];
    char text[CLIENT_ADDRESS_TEXT];
    uint32_t uid;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    struct client_address made = client_address_accepted(fds[0], &(struct sockaddr){.sa_family = AF_UNIX});
    client_address_text(&made, text);
    assert_string_equal(text, "unix");
    memcpy(&uid, made.bytes, sizeof(uid));
    assert_int_equal(ntohl(uid), getuid());
    close(fds[0]);
    close(fds[1]);
}

static void what_accept_says_becomes_an_address(void **state)
{
    (void)state;
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } from = {.v4 = {.sin_family = AF_INET, .sin_port = htons(51442)}};
    char text[CLIENT_ADDRESS_TEXT];
    inet_pton(AF_INET, "192.0.2.1", &from.v4.sin_addr);
    struct client_address made = client_address_accepted(-1, &from.any);
    client_address_text(&made, text);
    assert_string_equal(text, "192.0.2.1:51442");
    from.v6 = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = htons(51442)};
    inet_pton(AF_INET6, "::ffff:192.0.2.1", &from.v6.sin6_addr);
    made = client_address_accepted(-1, &from.any);
    client_address_text(&made, text);
    assert_string_equal(text, "192.0.2.1:51442");
    from.any.sa_family = AF_APPLETALK;
    assert_int_equal(client_address_accepted(-1, &from.any).family, CLIENT_UNKNOWN);
}

static void a_network_has_the_addresses_that_begin_like_it(void **state)
{
    (void)state;
    static const struct {
        const char *network, *address;
        bool in;
    } rows[] = {{"10.0.0.0/8", "10.255.255.255", true},
                {"10.0.0.0/8", "11.0.0.0", false},
                {"10.0.0.0/8", "::ffff:10.1.2.3", true},
                {"10.0.0.0/8", "a00::", false},
                {"10.0.0.0/9", "10.127.255.255", true},
                {"10.0.0.0/9", "10.128.0.0", false},
                {"10.128.0.0/9", "10.128.0.0", true},
                {"192.0.2.6/31", "192.0.2.7", true},
                {"192.0.2.6/31", "192.0.2.8", false},
                {"192.0.2.6", "192.0.2.6", true},
                {"192.0.2.6", "192.0.2.7", false},
                {"0.0.0.0/0", "255.255.255.255", true},
                {"0.0.0.0/0", "::1", false},
                {"fd00::/8", "fdff::1", true},
                {"fd00::/8", "fe00::1", false},
                {"fd00:7::/33", "fd00:7:7fff::1", true},
                {"fd00:7::/33", "fd00:7:8000::1", false},
                {"::/0", "ffff::", true},
                {"::/0", "10.0.0.1", false},
                {"fd00::7", "fd00::7", true},
                {"fd00::7/128", "fd00::6", false},
                {"unix", "10.0.0.1", false}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct client_network n = network(rows[i].network);
        struct client_address a = address(rows[i].address);
        if (client_address_in(&a, &n) != rows[i].in)
            fail_msg("%s in %s: %s", rows[i].address, rows[i].network, rows[i].in ? "no" : "yes");
    }
    struct client_address local = {.family = CLIENT_UNIX, .bytes = {1, 2, 3, 4}}, unknown = {0};
    struct client_network unixes = network("unix"), list[] = {network("10.0.0.0/8"), unixes};
    assert_true(client_address_in(&local, &unixes));
    assert_false(client_address_in(&unknown, &unixes));
    assert_true(client_address_in_any(&local, &(struct client_networks){list, 2}));
    assert_false(client_address_in_any(&local, &(struct client_networks){list, 1}));
    assert_false(client_address_in_any(&local, &(struct client_networks){NULL, 0}));
}

static void a_network_is_written_as_it_is_read(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"10.0.0.0/8", "10.0.0.0/8"}, {"10.0.0.7", "10.0.0.7/32"}, {"FD00:0::/8", "fd00::/8"}, {"unix", "unix"}};
    char text[CLIENT_ADDRESS_TEXT];
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct client_network n = network(rows[i][0]);
        client_network_text(&n, text);
        assert_string_equal(text, rows[i][1]);
    }
}

static void what_is_no_network_is_explained(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"", "'' is no address"},
        {"balancer", "'balancer' is no address: write one such as 10.0.0.0/8"},
        {"10.0.0", "'10.0.0' is no address"},
        {"10.0.0.0/", "the bits of this network are a number from 0 to 32"},
        {"10.0.0.0/33", "the bits of this network are a number from 0 to 32"},
        {"10.0.0.0/-1", "the bits of this network are a number from 0 to 32"},
        {"10.0.0.0/0008", "the bits of this network are a number from 0 to 32"},
        {"10.0.0.0/264", "the bits of this network are a number from 0 to 32"},
        {"fd00::/129", "the bits of this network are a number from 0 to 128"},
        {"10.0.0.7/8", "'10.0.0.7/8' is no network: write 10.0.0.0/8, or the address without bits"},
        {"fd00::7/64", "write fd00::/64"},
        {"::ffff:10.0.0.0/104", "write it as IPv4"},
        {"[fd00::7]", "'[fd00::7]' is no address"},
        {"10.0.0.0/8 ", "the bits of this network"},
        {"1111111111111111111111111111111111111111111111111111111111", "...' is no address"}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct client_network out = {.bits = 77};
        char why[256] = "";
        assert_int_equal(client_network_parse(rows[i][0], &out, why, sizeof(why)), BELFRY_ERR_INVALID);
        if (strstr(why, rows[i][1]) == NULL)
            fail_msg("%s: %s", rows[i][0], why);
        assert_int_equal(out.bits, 77);
    }
}

static void a_client_is_its_address_without_port_and_of_ipv6_the_first_half(void **state)
{
    (void)state;
    char a[CLIENT_ADDRESS_TEXT], b[CLIENT_ADDRESS_TEXT];
    const uint8_t v4[4] = {10, 3, 8, 17};
    uint8_t v6[16] = {0x20, 0x01, 0x0d, 0xb8, [7] = 7, [15] = 1};
    struct client_address address = client_address_ipv4(v4, 51442);
    client_address_name(&address, a);
    assert_string_equal(a, "10.3.8.17");
    address = client_address_ipv6(v6, 1);
    client_address_name(&address, a);
    assert_string_equal(a, "2001:db8:0:7::/64");
    v6[8] = v6[15] = 0xff; /* another address of the same network */
    address = client_address_ipv6(v6, 2);
    client_address_name(&address, b);
    assert_string_equal(a, b);
    v6[7] = 8;
    address = client_address_ipv6(v6, 1);
    client_address_name(&address, b);
    assert_string_equal(b, "2001:db8:0:8::/64");
    address = (struct client_address){.family = CLIENT_UNIX, .bytes = {[2] = 3, [3] = 0xe8}};
    client_address_name(&address, a);
    assert_string_equal(a, "uid 1000");
    address = (struct client_address){0};
    client_address_name(&address, a);
    assert_string_equal(a, "unknown");
}

static void all_of_loopback_is_one_client(void **state)
{
    (void)state;
    static const struct {
        const char *from, *name;
    } rows[] = {{"127.0.0.1", "127.0.0.0/8"},           {"127.0.0.2", "127.0.0.0/8"},
                {"127.255.255.254", "127.0.0.0/8"},     {"::ffff:127.9.9.9", "127.0.0.0/8"},
                {"126.255.255.255", "126.255.255.255"}, {"128.0.0.1", "128.0.0.1"},
                {"10.127.0.1", "10.127.0.1"},           {"::1", "::/64"}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct client_address made = address(rows[i].from);
        char name[CLIENT_ADDRESS_TEXT];
        client_address_name(&made, name);
        assert_string_equal(name, rows[i].name);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_address_has_one_form_and_one_text),
        cmocka_unit_test(the_peer_of_a_unix_socket_is_its_user),
        cmocka_unit_test(what_accept_says_becomes_an_address),
        cmocka_unit_test(a_client_is_its_address_without_port_and_of_ipv6_the_first_half),
        cmocka_unit_test(all_of_loopback_is_one_client),
        cmocka_unit_test(a_network_has_the_addresses_that_begin_like_it),
        cmocka_unit_test(a_network_is_written_as_it_is_read),
        cmocka_unit_test(what_is_no_network_is_explained),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
