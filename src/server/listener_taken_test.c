/* src/server/listener_taken_test.c: the table by hand; real sockets are in listener_test.c. */
#include "server/listener_taken.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define HEAD "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
#define REST " 00000000:00000000 00:00000000 00000000     0        0 3612 1 0000000000000000 100 0 0 10 0\n"

static enum port_use use(const char *table, uint16_t port)
{
    FILE *file = fmemopen((char *)(uintptr_t)table, strlen(table), "r");
    assert_non_null(file);
    enum port_use use = listener_port_use(file, port);
    fclose(file);
    return use;
}

static void listener_counts_more_than_connections_at_its_port(void **state)
{
    (void)state;
    static const char table[] =
        HEAD "   0: 0100007F:5CEE 0100007F:A0E2 01" REST "   1: 0100007F:5CEE 00000000:0000 0A" REST
             "   2: 0100007F:5CEE 0100007F:A0E4 01" REST;
    assert_int_equal(use(table, 23790), PORT_LISTENING);
    assert_int_equal(use(table, 0xA0E2), PORT_UNUSED); /* the far end of one */
    assert_int_equal(use(table, 23791), PORT_UNUSED);
}

static void connections_count_and_those_in_time_wait_do_not(void **state)
{
    (void)state;
    assert_int_equal(use(HEAD "   0: 0100007F:9C40 0100007F:5CEE 01" REST, 40000), PORT_CONNECTED);
    assert_int_equal(use(HEAD "   0: 0100007F:9C40 0100007F:5CEE 08" REST, 40000), PORT_CONNECTED);
    assert_int_equal(use(HEAD "   0: 0100007F:9C40 0100007F:5CEE 06" REST, 40000), PORT_UNUSED);
    assert_int_equal(use(HEAD "   0: 0100007F:9C40 00000000:0000 07" REST, 40000), PORT_HELD);
}

static void addresses_of_ipv6_are_read_too(void **state)
{
    (void)state;
    static const char table[] =
        HEAD "  12: 00000000000000000000000001000000:5CEE 00000000000000000000000000000000:0000 0A" REST;
    assert_int_equal(use(table, 23790), PORT_LISTENING);
}

static void lines_that_make_no_sense_are_passed_over(void **state)
{
    (void)state;
    assert_int_equal(
        use("\n:::\n   0: xyz:5CEE\n   1: 0100007F:5CEE\n" HEAD "   1: 0100007F:5CEE 00000000:0000 0A" REST, 23790),
        PORT_LISTENING);
    assert_int_equal(use(HEAD, 0), PORT_UNUSED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(listener_counts_more_than_connections_at_its_port),
        cmocka_unit_test(connections_count_and_those_in_time_wait_do_not),
        cmocka_unit_test(addresses_of_ipv6_are_read_too),
        cmocka_unit_test(lines_that_make_no_sense_are_passed_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
