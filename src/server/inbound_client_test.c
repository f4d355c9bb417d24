/* src/server/inbound_client_test.c */
#include "server/inbound_client.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/fakeshares.h"
#include "support/refuse.h"

static struct fakeshares fake;
static struct inbound_client client;

static struct client_address address_of(uint8_t last, uint16_t port)
{
    return client_address_ipv4((const uint8_t[4]){10, 0, 0, last}, port);
}

static enum belfry_err begin(void)
{
    struct client_address address = address_of(1, 5000);
    fakeshares_init(&fake, SHARES_CONNECTIONS, 2, 100);
    return inbound_client_init(&client, &fake.shares, &address);
}

static void finish(void)
{
    inbound_client_fini(&client);
    shares_fini(&fake.shares);
}

static void it_counts_to_its_address(void **state)
{
    (void)state;
    assert_int_equal(begin(), BELFRY_OK);
    assert_string_equal(client.info.peer, "10.0.0.1:5000");
    assert_string_equal(shares_name(&client.info.share), "10.0.0.1");
    assert_null(client.info.user);
    uint64_t id = client.info.id;
    finish();
    assert_int_equal(begin(), BELFRY_OK);
    assert_int_not_equal(client.info.id, id);
    finish();
}

static void a_balancer_names_another_address(void **state)
{
    (void)state;
    assert_int_equal(begin(), BELFRY_OK);
    struct client_address other = address_of(2, 6000);
    assert_int_equal(inbound_client_set_address(&client, &other), BELFRY_OK);
    assert_string_equal(client.info.peer, "10.0.0.2:6000");
    assert_string_equal(shares_name(&client.info.share), "10.0.0.2");
    finish();
}

static void a_certificate_names_a_user_or_a_tier(void **state)
{
    (void)state;
    assert_int_equal(begin(), BELFRY_OK);
    char user[] = "alice";
    assert_int_equal(inbound_client_set_user(&client, SHARES_CLIENT, user), BELFRY_OK);
    user[0] = '?'; /* it was copied */
    assert_string_equal(client.info.user, "alice");
    assert_string_equal(shares_name(&client.info.share), "user \"alice\"");
    assert_string_equal(client.info.peer, "10.0.0.1:5000");
    finish();
    assert_int_equal(begin(), BELFRY_OK);
    assert_int_equal(inbound_client_set_user(&client, SHARES_BELOW, "below"), BELFRY_OK);
    assert_string_equal(shares_name(&client.info.share), "tier \"below\"");
    finish();
}

static enum belfry_err name_all(void)
{
    struct client_address other = address_of(2, 6000);
    enum belfry_err err = begin();
    if (err == BELFRY_OK)
        err = inbound_client_set_address(&client, &other);
    if (err == BELFRY_OK)
        err = inbound_client_set_user(&client, SHARES_CLIENT, "alice");
    finish();
    return err;
}

static void without_memory_it_keeps_nothing(void **state)
{
    (void)state;
    assert_true(refuse_sweep(name_all) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_counts_to_its_address),
        cmocka_unit_test(a_balancer_names_another_address),
        cmocka_unit_test(a_certificate_names_a_user_or_a_tier),
        cmocka_unit_test(without_memory_it_keeps_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
