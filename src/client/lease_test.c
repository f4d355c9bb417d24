/* src/client/lease_test.c: kept leases on a real session, against members made by support/fakeetcd. */
#include <belfry/lease.h>

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "client/calls.h"
#include "support/fakeetcd.h"
#include "support/refuse.h"

#define SOON_MS 8000 /* far more than anything here takes */

static struct bed {
    struct fake_store store;
    struct fake_rule rule;
    struct fake *fakes[2];
    struct belfry *b;
} bed;

/* What the callback of a lease saw, and what it does at the n-th event of a kind. */
struct seen {
    int n[BELFRY_LEASE_END + 1];
    struct belfry_lease_event last;
    int64_t left_ms; /* asked for in the callback of HELD */
    char why[600];
    enum belfry_lease_kind close_at; /* 0: never */
    enum belfry_lease_way way;
    int open_err;
    bool open;
};

static void on_lease(struct belfry_lease *lease, const struct belfry_lease_event *event, void *user);

static void note(struct seen *seen, struct belfry_lease *lease, const struct belfry_lease_event *event)
{
    seen->n[event->kind]++;
    seen->last = *event;
    if (event->kind == BELFRY_LEASE_HELD)
        seen->left_ms = belfry_lease_left_ms(lease);
    if (event->kind == BELFRY_LEASE_LATE || event->kind == BELFRY_LEASE_END) {
        assert_non_null(event->why);
        snprintf(seen->why, sizeof(seen->why), "%s", event->why);
    }
    seen->last.why = seen->why;
}

static void on_lease(struct belfry_lease *lease, const struct belfry_lease_event *event, void *user)
{
    struct seen *seen = user;
    note(seen, lease, event);
    if (seen->open)
        seen->open_err = belfry_lease_open(bed.b, 5, on_lease, seen, NULL);
    if (seen->close_at == event->kind) {
        belfry_lease_close(lease, seen->way);
        belfry_lease_close(lease, seen->way); /* as often as one likes, inside */
    }
}

static void turn(void)
{
    for (int i = 0; i < 2; i++) {
        if (bed.fakes[i] != NULL)
            fake_turn(bed.fakes[i]);
    }
    struct pollfd fd = {.fd = belfry_fd(bed.b), .events = POLLIN};
    if (poll(&fd, 1, 1) == 1)
        assert_int_equal(belfry_dispatch(bed.b), BELFRY_OK);
}

#define drive_until(condition)                                                                                         \
    do {                                                                                                               \
        uint64_t end_ = belfry_clock_ms() + SOON_MS;                                                                   \
        while (!(condition) && belfry_clock_ms() < end_)                                                               \
            turn();                                                                                                    \
        assert_true(condition);                                                                                        \
    } while (0)

static void drive_for(uint64_t ms)
{
    uint64_t end = belfry_clock_ms() + ms;
    while (belfry_clock_ms() < end)
        turn();
}

static void make(int n_members, const char *command_timeout)
{
    struct belfry_opts *opts = NULL;
    char endpoints[200];
    memset(&bed.rule, 0, sizeof(bed.rule));
    fake_store_init(&bed.store);
    for (int i = 0; i < n_members; i++)
        bed.fakes[i] = fake_create(&bed.store, &bed.rule);
    snprintf(endpoints, sizeof(endpoints), "%s%s%s", fake_url(bed.fakes[0]), n_members > 1 ? "," : "",
             n_members > 1 ? fake_url(bed.fakes[1]) : "");
    assert_int_equal(belfry_opts_set(&opts, "command-timeout", command_timeout), BELFRY_OK);
    assert_int_equal(belfry_open(endpoints, opts, &bed.b), BELFRY_OK);
    belfry_opts_free(opts);
}

static int teardown(void **state)
{
    (void)state;
    belfry_close(bed.b);
    bed.b = NULL;
    for (int i = 0; i < 2; i++) {
        fake_destroy(bed.fakes[i]);
        bed.fakes[i] = NULL;
    }
    return refuse_held() == 0 ? 0 : -1;
}

static size_t requests(const char *path)
{
    return fake_count(bed.fakes[0], path) + (bed.fakes[1] != NULL ? fake_count(bed.fakes[1], path) : 0);
}

static struct belfry_lease *open_lease(int64_t ttl_s, struct seen *seen)
{
    struct belfry_lease *lease;
    assert_int_equal(belfry_lease_open(bed.b, ttl_s, on_lease, seen, &lease), BELFRY_OK);
    assert_int_equal(belfry_lease_id(lease), 0);
    assert_int_equal(belfry_lease_left_ms(lease), 0);
    return lease;
}

static bool server_has(int64_t id)
{
    for (size_t i = 0; i < FAKE_LEASES; i++) {
        if (bed.store.leases[i].id == id)
            return true;
    }
    return false;
}

static void forget(int64_t id)
{
    for (size_t i = 0; i < FAKE_LEASES; i++) {
        if (bed.store.leases[i].id == id)
            bed.store.leases[i] = (struct fake_lease){0};
    }
}

static void a_lease_is_held_and_renewed(void **state)
{
    struct seen seen = {0};
    (void)state;
    make(1, "5s");
    struct belfry_lease *lease = open_lease(1, &seen);
    drive_until(seen.n[BELFRY_LEASE_HELD] == 1);
    int64_t id = seen.last.id;
    assert_true(id > 0 && belfry_lease_id(lease) == id && server_has(id));
    assert_in_range(seen.left_ms, 1, 999);
    drive_until(seen.n[BELFRY_LEASE_RENEWED] == 3);
    assert_true(belfry_lease_left_ms(lease) > 0);
    assert_int_equal(seen.last.id, id);
    assert_int_equal(seen.last.ttl_s, 1);
    assert_int_equal(seen.n[BELFRY_LEASE_HELD] + seen.n[BELFRY_LEASE_RENEWED], 4);
    assert_int_equal(requests("/LeaseGrant"), 1);
    assert_int_equal(requests("/LeaseKeepAlive"), 3);
    belfry_lease_close(lease, BELFRY_LEASE_LEAVE);
    assert_int_equal(belfry_run(bed.b, 1000), BELFRY_OK); /* nothing is left on the session */
    assert_true(server_has(id));
}

static void arguments_that_make_no_sense_are_refused(void **state)
{
    struct belfry *without;
    struct belfry_lease *lease = NULL;
    (void)state;
    make(1, "5s");
    assert_int_equal(belfry_lease_open(bed.b, 0, on_lease, NULL, &lease), BELFRY_ERR_INVALID);
    assert_int_equal(belfry_lease_open(bed.b, -1, on_lease, NULL, &lease), BELFRY_ERR_INVALID);
    assert_int_equal(belfry_lease_open(bed.b, 5, NULL, NULL, &lease), BELFRY_ERR_INVALID);
    assert_int_equal(belfry_open(NULL, NULL, &without), BELFRY_OK);
    assert_int_equal(belfry_lease_open(without, 5, on_lease, NULL, &lease), BELFRY_ERR_INVALID);
    belfry_close(without);
    assert_null(lease);
    belfry_lease_close(NULL, BELFRY_LEASE_REVOKE);
}

static void an_answer_that_was_lost_leaves_no_second_lease(void **state)
{
    struct seen seen = {0};
    (void)state;
    make(2, "5s");
    bed.rule = (struct fake_rule){.path = "/LeaseGrant", .times = 1, .how = FAKE_LATE};
    struct belfry_lease *lease = open_lease(30, &seen);
    drive_until(requests("/LeaseGrant") == 1);
    assert_true(bed.store.leases[1].id != 0); /* granted, and nobody knows */
    fake_drop(bed.fakes[0], false);
    fake_drop(bed.fakes[1], false);
    drive_until(seen.n[BELFRY_LEASE_HELD] == 1);
    assert_int_equal(seen.last.id, bed.store.leases[1].id);
    assert_int_equal(seen.last.ttl_s, 30);
    assert_int_equal(bed.store.leases[2].id, 0);
    assert_int_equal(requests("/LeaseGrant"), 2);
    assert_int_equal(requests("/LeaseKeepAlive"), 1);
    belfry_lease_close(lease, BELFRY_LEASE_LEAVE);
}

static void a_lost_connection_costs_no_lease(void **state)
{
    struct seen seen = {0};
    (void)state;
    make(2, "5s");
    struct belfry_lease *lease = open_lease(2, &seen);
    drive_until(seen.n[BELFRY_LEASE_RENEWED] == 1);
    for (int i = 0; i < 4; i++) {
        int before = seen.n[BELFRY_LEASE_RENEWED];
        fake_drop(bed.fakes[i % 2], true);
        drive_until(seen.n[BELFRY_LEASE_RENEWED] >= before + 1);
        fake_listen(bed.fakes[i % 2]);
    }
    assert_int_equal(seen.n[BELFRY_LEASE_END], 0);
    belfry_lease_close(lease, BELFRY_LEASE_LEAVE);
}

static void a_renewal_that_fails_is_told_and_tried_again(void **state)
{
    struct seen seen = {0};
    (void)state;
    make(1, "5s");
    struct belfry_lease *lease = open_lease(3, &seen);
    drive_until(seen.n[BELFRY_LEASE_HELD] == 1);
    bed.rule =
        (struct fake_rule){.path = "/LeaseKeepAlive", .times = 1, .how = FAKE_STATUS, .code = 2, .message = "no"};
    drive_until(seen.n[BELFRY_LEASE_LATE] == 1);
    assert_non_null(strstr(seen.why, "no"));
    assert_in_range(seen.last.left_ms, 1, 2500);
    drive_until(seen.n[BELFRY_LEASE_RENEWED] == 1);
    assert_int_equal(seen.n[BELFRY_LEASE_LATE], 1);
    belfry_lease_close(lease, BELFRY_LEASE_LEAVE);
}

static void a_lease_that_cannot_be_renewed_is_given_up_in_time(void **state)
{
    struct seen seen = {0};
    (void)state;
    make(1, "5s");
    uint64_t asked = belfry_clock_ms();
    open_lease(2, &seen);
    drive_until(seen.n[BELFRY_LEASE_HELD] == 1);
    uint64_t held = belfry_clock_ms();
    fake_drop(bed.fakes[0], true);
    drive_until(seen.n[BELFRY_LEASE_END] == 1);
    assert_in_range(belfry_clock_ms(), asked + 1990, held + 2100);
    assert_int_equal(seen.last.err, BELFRY_ERR_TIMEOUT);
    assert_true(seen.n[BELFRY_LEASE_LATE] >= 1);
    assert_true(seen.n[BELFRY_LEASE_LATE] <= 6);
    assert_non_null(strstr(seen.why, "no endpoint answers"));
    assert_int_equal(belfry_run(bed.b, 1000), BELFRY_OK);
}

static void a_member_that_hangs_is_left_for_another(void **state)
{
    struct seen seen = {0};
    (void)state;
    make(2, "5s");
    struct belfry_lease *lease = open_lease(3, &seen);
    drive_until(seen.n[BELFRY_LEASE_HELD] == 1);
    bed.rule = (struct fake_rule){.path = "/LeaseKeepAlive", .times = 1, .how = FAKE_STALL};
    drive_until(seen.n[BELFRY_LEASE_RENEWED] == 1);
    assert_true(fake_count(bed.fakes[0], "/Lease") > 0 && fake_count(bed.fakes[1], "/Lease") > 0);
    belfry_lease_close(lease, BELFRY_LEASE_LEAVE);
}

static void a_lease_that_was_revoked_elsewhere_ends(void **state)
{
    struct seen seen = {0};
    (void)state;
    make(1, "5s");
    open_lease(1, &seen);
    drive_until(seen.n[BELFRY_LEASE_HELD] == 1);
    int64_t id = seen.last.id;
    forget(id);
    seen.close_at = BELFRY_LEASE_END; /* there is nothing to revoke */
    drive_until(seen.n[BELFRY_LEASE_END] == 1);
    assert_int_equal(seen.last.err, BELFRY_ERR_NOT_FOUND);
    assert_int_equal(seen.last.id, id);
    drive_for(50);
    assert_int_equal(requests("/LeaseRevoke"), 0);
}

static void a_grant_that_is_refused_ends_it(void **state)
{
    struct seen seen = {0};
    (void)state;
    make(1, "5s");
    bed.rule = (struct fake_rule){.path = "/LeaseGrant",
                                  .times = 1,
                                  .how = FAKE_STATUS,
                                  .code = 11,
                                  .message = "etcdserver: too large lease TTL"};
    open_lease(INT64_MAX, &seen);
    drive_until(seen.n[BELFRY_LEASE_END] == 1);
    assert_int_equal(seen.last.err, BELFRY_ERR_REFUSED);
    assert_int_equal(seen.last.id, 0);
    assert_non_null(strstr(seen.why, "too large lease TTL"));
}

static void without_a_server_it_is_said_in_time(void **state)
{
    struct seen seen = {0};
    (void)state;
    make(1, "300ms");
    fake_drop(bed.fakes[0], true);
    open_lease(60, &seen);
    drive_until(seen.n[BELFRY_LEASE_END] == 1);
    assert_int_equal(seen.last.err, BELFRY_ERR_UNAVAILABLE);
}

static void an_answer_that_is_no_answer_ends_it(void **state)
{
    struct seen seen = {0};
    (void)state;
    make(1, "300ms");
    bed.rule = (struct fake_rule){.path = "/LeaseGrant", .times = 100, .how = FAKE_EMPTY};
    open_lease(60, &seen);
    drive_until(seen.n[BELFRY_LEASE_END] == 1);
    assert_true(seen.last.err != BELFRY_OK);
}

static void closing_with_revoke_asks_the_server_once(void **state)
{
    struct seen seen = {0};
    (void)state;
    make(1, "5s");
    struct belfry_lease *lease = open_lease(30, &seen);
    drive_until(seen.n[BELFRY_LEASE_HELD] == 1);
    int64_t id = seen.last.id;
    belfry_lease_close(lease, BELFRY_LEASE_REVOKE);
    drive_until(!server_has(id));
    drive_for(50);
    assert_int_equal(requests("/LeaseRevoke"), 1);
    assert_int_equal(belfry_run(bed.b, 1000), BELFRY_OK);
    assert_int_equal(seen.n[BELFRY_LEASE_END], 0);
}

static void a_lease_may_be_closed_inside_every_callback(void **state)
{
    static const enum belfry_lease_kind kinds[] = {BELFRY_LEASE_HELD, BELFRY_LEASE_RENEWED, BELFRY_LEASE_LATE,
                                                   BELFRY_LEASE_END};
    (void)state;
    make(1, "5s");
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        struct seen seen = {.close_at = kinds[i], .way = BELFRY_LEASE_REVOKE};
        size_t before = requests("/LeaseRevoke");
        open_lease(1, &seen);
        if (kinds[i] == BELFRY_LEASE_LATE ||
            kinds[i] == BELFRY_LEASE_END) /* END: by time, so there is what to revoke */
            bed.rule = (struct fake_rule){
                .path = "/LeaseKeepAlive", .times = 100, .how = FAKE_STATUS, .code = 2, .message = "no"};
        drive_until(seen.n[kinds[i]] == 1);
        drive_until(requests("/LeaseRevoke") == before + 1);
        bed.rule.times = 0;
        drive_for(20);
        assert_int_equal(seen.last.kind, kinds[i]);
        assert_false(server_has(seen.last.id));
    }
}

static void a_lease_may_be_closed_before_it_is_had(void **state)
{
    struct seen seen = {0};
    (void)state;
    make(1, "5s");
    belfry_lease_close(open_lease(30, &seen), BELFRY_LEASE_REVOKE); /* nothing was sent */
    drive_until(requests("/LeaseRevoke") == 1);
    bed.rule = (struct fake_rule){.path = "/LeaseGrant", .times = 1, .how = FAKE_LATE};
    struct belfry_lease *lease = open_lease(30, &seen);
    drive_until(requests("/LeaseGrant") == 1);
    belfry_lease_close(lease, BELFRY_LEASE_REVOKE);
    drive_until(requests("/LeaseRevoke") == 2);
    drive_for(50);
    assert_int_equal(bed.store.leases[1].id, 0); /* whose answer never came */
    for (int i = 1; i <= BELFRY_LEASE_END; i++)
        assert_int_equal(seen.n[i], 0);
}

static void closing_the_session_ends_it_once_and_leaves_the_lease(void **state)
{
    struct seen held = {.close_at = BELFRY_LEASE_END, .way = BELFRY_LEASE_REVOKE, .open = true}, asking = {0};
    (void)state;
    make(1, "5s");
    open_lease(30, &held);
    held.open = false;
    drive_until(held.n[BELFRY_LEASE_HELD] == 1);
    int64_t id = held.last.id;
    held.open = true;
    open_lease(30, &asking);
    belfry_close(bed.b);
    assert_int_equal(held.n[BELFRY_LEASE_END] + asking.n[BELFRY_LEASE_END], 2);
    assert_int_equal(held.last.err, BELFRY_ERR_CANCELED);
    assert_int_equal(held.last.id, id);
    assert_int_equal(asking.last.err, BELFRY_ERR_CANCELED);
    assert_int_equal(asking.last.id, 0);
    assert_int_equal(held.open_err, BELFRY_ERR_CANCELED);
    assert_true(server_has(id));
    bed.b = NULL;
}

static void run_waits_for_a_lease_until_it_ends(void **state)
{
    struct seen seen = {0};
    (void)state;
    make(1, "200ms");
    fake_drop(bed.fakes[0], true);
    open_lease(30, &seen);
    assert_int_equal(belfry_run(bed.b, 20), BELFRY_ERR_TIMEOUT);
    assert_int_equal(belfry_run(bed.b, 5000), BELFRY_OK);
    assert_int_equal(seen.n[BELFRY_LEASE_END], 1);
}

static void on_any_reply(const struct belfry_reply *reply, void *user)
{
    (void)reply;
    (void)user;
}

static void a_session_full_of_calls_says_so(void **state)
{
    struct seen seen = {0};
    struct belfry_lease *lease = NULL;
    (void)state;
    make(1, "60s");
    fake_drop(bed.fakes[0], true);
    for (int i = 0; i < BELFRY_CALLS_MAX; i++)
        assert_int_equal(belfry_get(bed.b, belfry_key("a"), NULL, on_any_reply, NULL, NULL), BELFRY_OK);
    assert_int_equal(belfry_lease_open(bed.b, 5, on_lease, &seen, &lease), BELFRY_ERR_LIMIT);
    assert_null(lease);
}

/* ---- memory ---- */

static enum belfry_err scenario(void)
{
    static struct seen seen;
    struct belfry *b = NULL;
    struct belfry_lease *lease = NULL;
    memset(&seen, 0, sizeof(seen));
    memset(bed.store.leases, 0, sizeof(bed.store.leases));
    int err = belfry_open(fake_url(bed.fakes[0]), NULL, &b);
    if (err == BELFRY_OK)
        err = belfry_lease_open(b, 60, on_lease, &seen, &lease);
    for (int i = 0; i < 40 && err == BELFRY_OK && seen.n[BELFRY_LEASE_END] == 0; i++) {
        struct pollfd fd = {.fd = belfry_fd(b), .events = POLLIN};
        fake_turn(bed.fakes[0]);
        if (poll(&fd, 1, 0) == 1)
            err = belfry_dispatch(b);
        if (i == 30 && seen.n[BELFRY_LEASE_END] == 0) {
            belfry_lease_close(lease, BELFRY_LEASE_REVOKE);
            lease = NULL;
        }
    }
    belfry_close(b);
    return err;
}

static void refused_memory_leaks_nothing(void **state)
{
    (void)state;
    make(1, "5s");
    size_t n = refuse_sweep(scenario);
    print_message("%zu allocations\n", n);
    assert_true(n > 30);
    assert_true(fake_count(bed.fakes[0], "/LeaseRevoke") > 5); /* this far it came */
}

#define TEST(name) cmocka_unit_test_teardown(name, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_lease_is_held_and_renewed),
        TEST(arguments_that_make_no_sense_are_refused),
        TEST(an_answer_that_was_lost_leaves_no_second_lease),
        TEST(a_lost_connection_costs_no_lease),
        TEST(a_renewal_that_fails_is_told_and_tried_again),
        TEST(a_lease_that_cannot_be_renewed_is_given_up_in_time),
        TEST(a_member_that_hangs_is_left_for_another),
        TEST(a_lease_that_was_revoked_elsewhere_ends),
        TEST(a_grant_that_is_refused_ends_it),
        TEST(without_a_server_it_is_said_in_time),
        TEST(an_answer_that_is_no_answer_ends_it),
        TEST(closing_with_revoke_asks_the_server_once),
        TEST(a_lease_may_be_closed_inside_every_callback),
        TEST(a_lease_may_be_closed_before_it_is_had),
        TEST(closing_the_session_ends_it_once_and_leaves_the_lease),
        TEST(run_waits_for_a_lease_until_it_ends),
        TEST(a_session_full_of_calls_says_so),
        TEST(refused_memory_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
