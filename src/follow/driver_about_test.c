/* src/follow/driver_about_test.c: what the tier above says of itself: circles, hops, staleness. */
#include "follow/driver.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/driverbed.h"

static uint8_t messages[2][ABOUT_BYTES];

/* A member becomes a tier of that name, below those of `above`, nearest first, each as old as `age_ms`; "etcd": an
 * etcd. */
static struct about tier_below(const char *name, const char *const *above, uint64_t age_ms)
{
    struct about about = {.self = {.version = "belfryd/1", .standing = ABOUT_READY}};
    snprintf(about.self.name, sizeof(about.self.name), "%s", name);
    for (; above != NULL && above[about.n_above] != NULL; about.n_above++) {
        struct about_level *level = &about.above[about.n_above];
        const char *who = above[about.n_above];
        *level = (struct about_level){.age_ms = age_ms};
        snprintf(level->name, sizeof(level->name), "%s", who);
        snprintf(level->version, sizeof(level->version), "%s", strcmp(who, "etcd") == 0 ? "3.5.16" : "belfryd/1");
    }
    return about;
}

static void tell(int member, const struct about *about)
{
    fake_tell_about(bed.fakes[member], messages[member], about_write(about, messages[member]));
}

static void tell_above(int member, const char *name, const char *const *above, uint64_t age_ms)
{
    struct about about = tier_below(name, above, age_ms);
    tell(member, &about);
}

static struct about about_us(void)
{
    struct about about;
    driver_about(bed.driver, &about);
    return about;
}

/* ---- circles ---- */

#define BELOW_US                                                                                                       \
    (const char *const[])                                                                                              \
    {                                                                                                                  \
        "mid", "us", "etcd", NULL                                                                                      \
    }

static void tier_that_finds_itself_above_gives_up(void **state)
{
    (void)state;
    bed.name = "us";
    make_members(1);
    tell_above(0, "up", BELOW_US, 0);
    start_all();
    drive_until(bed.status.given_up && bed.status.standing == DRIVER_NOT_READY);
    assert_non_null(
        strstr(bed.log, "0 upstream_circle why=\"belfry: tiers in a circle: us > up > mid > us; give each"));
    assert_non_null(strstr(bed.status.reason, "us > up > mid > us"));
    drive_for(300);
    assert_int_equal(lines("upstream_circle"), 1);
}

static void circle_by_one_of_two_endpoints_bars_that_one(void **state)
{
    const int bad = 0, good = 1;
    (void)state;
    bed.name = "us";
    make_members(2);
    fake_drop(bed.fakes[good], true);
    tell_above(bad, "up", BELOW_US, 0);
    fake_put(&bed.theirs, "a", "1");
    start_all();
    drive_until(bed.status.barred != 0);
    assert_int_equal(bed.status.barred, 1u << bad); /* as they were given, wherever the driver began */
    assert_false(bed.status.given_up);
    fake_listen(bed.fakes[good]);
    drive_until(bed.status.standing == DRIVER_READY && strcmp(bed.status.endpoint, fake_url(bed.fakes[good])) == 0);
    drive_until(fake_n_conns(bed.fakes[bad]) == 0); /* by nobody: watches, backfills, reads */
    size_t asked = fake_count(bed.fakes[bad], "/");
    fake_drop(bed.fakes[good], true);
    fake_put(&bed.theirs, "b", "1");
    drive_for(500);
    assert_int_equal(fake_count(bed.fakes[bad], "/"), asked); /* rather nobody than one that leads back */
    assert_int_equal(fake_n_conns(bed.fakes[bad]), 0);
    fake_listen(bed.fakes[good]);
    drive_live();
    assert_int_equal(lines("upstream_circle"), 1);
    fake_put(&bed.other, "z", "1");
    fake_serve(bed.fakes[good], &bed.other); /* all who are asked are of another cluster: it is a new past */
    fake_drop(bed.fakes[good], false);
    drive_until(bed.status.standing == DRIVER_READY && bed.status.past == 2);
    fake_drop(bed.fakes[good], false);
    tell_above(good, "us", NULL, 0);
    drive_until(bed.status.given_up);
    assert_non_null(strstr(bed.log, "tiers in a circle: us > us; "));
}

static void refused_request_bars_who_refused_it(void **state)
{
    (void)state;
    bed.name = "us";
    make_members(2);
    bed.rule = (struct fake_rule){.path = "/Range",
                                  .times = 1,
                                  .how = FAKE_STATUS,
                                  .code = 9,
                                  .message = "belfry: tiers in a circle: us > up > us; do something"};
    start_all();
    drive_live();
    assert_true(bed.status.barred == 1 || bed.status.barred == 2);
    assert_string_equal(bed.status.endpoint, fake_url(bed.fakes[bed.status.barred == 1 ? 1 : 0]));
    assert_non_null(strstr(bed.log, "us > up > us; do something\" endpoint=http://127.0.0.1:"));
}

static void refused_watch_bars_who_refused_it(void **state)
{
    (void)state;
    bed.name = "us";
    make_members(1);
    bed.rule =
        (struct fake_rule){.path = "/Watch",
                           .times = 1,
                           .how = FAKE_STATUS,
                           .code = 9,
                           .message = "belfry: more than 8 tiers: us > b > c > d > e > f > g > h > i; do something"};
    start_all();
    drive_until(bed.status.given_up);
    assert_non_null(strstr(bed.status.reason, "more than 8 tiers: us > b > c > d > e > f > g > h > i; do something"));
}

static void endpoint_that_is_listed_twice_is_barred_twice(void **state)
{
    struct belfry_endpoint endpoints[2];
    char why[100];
    (void)state;
    make_members(1);
    tell_above(0, "us", NULL, 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(belfry_endpoint_parse(fake_url(bed.fakes[0]), strlen(fake_url(bed.fakes[0])), &endpoints[i],
                                               why, sizeof(why)),
                         BELFRY_OK);
    term_init(&bed.term);
    struct driver_opts opts = {.loop = &bed.loop,
                               .endpoints = endpoints,
                               .n_endpoints = 2,
                               .user_agent = "test",
                               .name = "us",
                               .key = belfry_bytes_of("", 1),
                               .range_end = belfry_bytes_of("", 1),
                               .store = bed.store,
                               .evlog = bed.evlog,
                               .term = &bed.term,
                               .seed = 2,
                               .log = &test_log};
    assert_int_equal(driver_create(&opts, &events, NULL, &bed.driver), BELFRY_OK);
    drive_until(bed.status.given_up);
    assert_int_equal(bed.status.barred, 3);
    assert_int_equal(lines("upstream_circle"), 1);
}

static void tier_may_be_called_etcd(void **state)
{
    (void)state;
    bed.name = "etcd";
    make_members(1);
    tell_above(0, "up", (const char *const[]){"mid", "etcd", NULL}, 0);
    start_all();
    drive_until(about_us().n_above == 3);
    drive_live();
    assert_int_equal(bed.status.barred, 0);
    assert_string_equal(about_us().above[2].name, "etcd");
}

/* It was above us before it was put below, and the one in between has not noticed yet. */
static void what_was_so_before_we_connected_is_no_circle(void **state)
{
    (void)state;
    bed.name = "us";
    make_members(1);
    tell_above(0, "up", BELOW_US, 3600 * 1000);
    start_all();
    drive_until(about_us().n_above == 4);
    drive_live();
    drive_for(100);
    assert_int_equal(bed.status.barred, 0);
    tell_above(0, "up", BELOW_US, 0); /* but now it is */
    drive_until(bed.status.given_up);
}

/* How many tiers may be above: the version that counts is that of the etcd at the top. */
static void keys_only_follows_the_version_of_the_etcd_at_the_top(void **state)
{
    (void)state;
    make_members(1);
    bed.theirs.version = "3.6.14";
    start_all();
    drive_live();
    drive_until(bed.status.keys_only == ETCD_KEYS_ONLY_LEASED);
    fake_drop(bed.fakes[0], true);
    drive_until(bed.status.endpoint[0] == '\0' && bed.status.version[0] == '\0');
    assert_int_equal(bed.status.keys_only, ETCD_KEYS_ONLY_LEASED); /* what was true a moment ago */
    bed.theirs.version = "3.7.1";
    fake_listen(bed.fakes[0]);
    drive_until(bed.status.keys_only == ETCD_KEYS_ONLY_BARE);
    fake_drop(bed.fakes[0], false);
    tell_above(0, "up", (const char *const[]){"mid", "etcd", NULL}, 0);
    drive_until(bed.status.keys_only == ETCD_KEYS_ONLY_LEASED); /* that one is 3.5.16 */
    assert_string_equal(bed.status.version, "3.7.1");           /* of whatever member it asked for its status */
    struct about about = tier_below("up", (const char *const[]){"mid", "etcd", NULL}, 0);
    about.above[1].version[0] = '\0';
    tell(0, &about);
    drive_until(bed.status.keys_only == ETCD_KEYS_ONLY_UNKNOWN); /* it does not tell everybody */
    tell_above(0, "up", (const char *const[]){"mid", NULL}, 0);
    drive_until(bed.status.keys_only == ETCD_KEYS_ONLY_BARE); /* "mid" does not know it yet */
}

static void ninth_in_a_row_gives_up_without_a_request_going_all_the_way(void **state)
{
    (void)state;
    bed.name = "us";
    make_members(1);
    tell_above(0, "t7", (const char *const[]){"t6", "t5", "t4", "t3", "t2", "t1", "etcd", NULL}, 0);
    start_all();
    drive_until(about_us().n_above == 8);
    drive_live();
    assert_int_equal(bed.status.barred, 0); /* the eighth */
    tell_above(0, "t7", (const char *const[]){"t6", "t5", "t4", "t3", "t2", "t1", "t0", "etcd", NULL}, 0);
    drive_until(bed.status.given_up);
    assert_non_null(
        strstr(bed.log, "more than 8 tiers: us > t7 > t6 > t5 > t4 > t3 > t2 > t1 > t0; point --upstream at"));
}

/* ---- reasons ---- */

static void reason_is_one_line_whatever_upstream_says(void **state)
{
    (void)state;
    make_members(1);
    bed.rule = (struct fake_rule){
        .path = "/Watch", .times = 1000, .how = FAKE_STATUS, .code = 14, .message = "no%0AMAINPID=1%0A%1B[1m"};
    start_all();
    drive_until(strstr(bed.status.reason, "MAINPID=1") != NULL);
    assert_non_null(strstr(bed.status.reason, "no?MAINPID=1??[1m"));
}

/* ---- hops ---- */

static void put_and_stamp(struct about *about, const char *key, uint64_t ago_ns)
{
    fake_put(&bed.theirs, key, "1");
    about->stamps[about->n_stamps++] = (struct stamp){bed.theirs.revision, belfry_clock_ns() - ago_ns};
}

/* With its clock running. */
static bool drive_while_its_clock_runs(struct about *about, enum about_hop until, uint64_t ms)
{
    for (uint64_t end = belfry_clock_ms() + ms; belfry_clock_ms() < end && about_us().self.hop != until;) {
        about->clock_ns = belfry_clock_ns();
        tell(0, about);
        turn();
    }
    return about_us().self.hop == until;
}

static void what_was_missed_is_no_measure_of_the_hop(void **state)
{
    (void)state;
    make_members(1);
    struct about about = tier_below("up", NULL, 0);
    fake_put(&bed.theirs, "a", "1");
    start_all();
    drive_live();
    stop();
    for (const char *key = "bcdefghi"; *key != '\0'; key++) /* while we were not there */
        put_and_stamp(&about, (char[]){*key, '\0'}, UINT64_C(9000000000));
    restart();
    assert_false(drive_while_its_clock_runs(&about, ABOUT_HOP_MEASURED, 2500));
    assert_int_equal(bed.status.revision, bed.theirs.revision);
    assert_int_equal(about_us().n_above, 1); /* it was asked */
    put_and_stamp(&about, "z", 0);
    assert_true(drive_while_its_clock_runs(&about, ABOUT_HOP_MEASURED, SOON_MS));
    assert_true(about_us().self.hop_us < 1000000);
}

/* ---- staleness ---- */

static void be_told_that_there_is_no_leader(void)
{
    bed.rule = (struct fake_rule){
        .path = "/Watch", .times = 1000, .how = FAKE_STATUS, .code = 14, .message = "etcdserver: no leader"};
    fake_drop_watches(bed.fakes[0]);
}

static void below_a_tier_without_a_leader_we_are_stale_at_once_and_not_for_ever(void **state)
{
    (void)state;
    make_members(1);
    tell_above(0, "up", NULL, 0);
    start_all();
    drive_live();
    drive_until(about_us().n_above == 1);
    uint64_t began = belfry_clock_ms();
    be_told_that_there_is_no_leader();
    drive_until(bed.status.standing == DRIVER_STALE);
    assert_true(belfry_clock_ms() - began < UPSTREAM_STALE_MS - 1000);
    assert_non_null(strstr(bed.status.reason, "etcdserver: no leader"));
    drive_for(300);
    assert_int_equal(bed.status.standing, DRIVER_STALE); /* however often it is tried */
    bed.rule.times = 0;
    drive_live();
}

/* The tier above refuses every stream, and says why: its own link is broken. */
static void a_tier_that_refuses_streams_is_asked_all_the_same(void **state)
{
    (void)state;
    make_members(1);
    struct about up = tier_below("up", (const char *const[]){"etcd", NULL}, 0);
    tell(0, &up);
    start_all();
    drive_live();
    drive_until(about_us().n_above == 2);
    assert_int_equal(about_us().self.trouble, ABOUT_NO_TROUBLE);
    up.self.standing = ABOUT_STALE;
    up.self.trouble = ABOUT_UNREACHABLE;
    tell(0, &up);
    be_told_that_there_is_no_leader();
    drive_until(about_us().above[0].trouble == ABOUT_UNREACHABLE && bed.status.standing == DRIVER_STALE);
    drive_until(about_us().self.trouble == ABOUT_ABOVE_NOT_READY);
    size_t asked = fake_count(bed.fakes[0], ABOUT_PATH);
    uint64_t began = belfry_clock_ms();
    drive_for(1500);
    uint64_t most = (belfry_clock_ms() - began) / 1000 + 1;
    assert_true(fake_count(bed.fakes[0], ABOUT_PATH) - asked <= most); /* however often it is dialled */
    assert_int_equal(about_us().self.hop, ABOUT_HOP_UNKNOWN);
    bed.rule.times = 0;
    up.self.standing = ABOUT_READY;
    up.self.trouble = ABOUT_NO_TROUBLE;
    tell(0, &up);
    drive_live();
    drive_until(about_us().self.trouble == ABOUT_NO_TROUBLE && about_us().above[0].trouble == ABOUT_NO_TROUBLE);
    fake_drop(bed.fakes[0], true);
    drive_until(about_us().self.trouble == ABOUT_UNREACHABLE);
    assert_true(about_us().self.standing == ABOUT_READY); /* it was only just lost, and the reason is there */
    driver_status(bed.driver, &bed.status);
    assert_string_equal(bed.status.endpoint, "");
    assert_true(bed.status.reason[0] != '\0');
}

static void below_an_etcd_without_a_leader_we_wait(void **state)
{
    (void)state;
    make_members(1);
    start_all();
    drive_live();
    drive_until(about_us().n_above == 1);
    be_told_that_there_is_no_leader();
    drive_for(1500);
    assert_int_equal(bed.status.standing, DRIVER_READY);
    bed.rule.times = 0;
    drive_live();
}

/* ---- memory ---- */

static bool run_refused(size_t n)
{
    setup(NULL);
    bed.name = "us";
    make_members(2);
    tell_above(0, "up", BELOW_US, 0);
    tell_above(1, "up", (const char *const[]){"etcd", NULL}, 0);
    refuse_begin(n);
    enum belfry_err err = start("", "", 1);
    for (int i = 0; i < 60 && err == BELFRY_OK; i++)
        turn();
    stop();
    bool reached = refuse_end();
    assert_true(err == BELFRY_OK || (reached && err == BELFRY_ERR_NOMEM));
    assert_int_equal(teardown(NULL), 0);
    return reached;
}

static void refused_memory_never_leaks(void **state)
{
    (void)state;
    size_t n = 0;
    while (run_refused(n))
        n++;
    assert_true(n > 100);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(tier_that_finds_itself_above_gives_up),
        T(circle_by_one_of_two_endpoints_bars_that_one),
        T(refused_request_bars_who_refused_it),
        T(refused_watch_bars_who_refused_it),
        T(endpoint_that_is_listed_twice_is_barred_twice),
        T(tier_may_be_called_etcd),
        T(what_was_so_before_we_connected_is_no_circle),
        T(keys_only_follows_the_version_of_the_etcd_at_the_top),
        T(ninth_in_a_row_gives_up_without_a_request_going_all_the_way),
        T(reason_is_one_line_whatever_upstream_says),
        T(what_was_missed_is_no_measure_of_the_hop),
        T(below_a_tier_without_a_leader_we_are_stale_at_once_and_not_for_ever),
        T(a_tier_that_refuses_streams_is_asked_all_the_same),
        T(below_an_etcd_without_a_leader_we_wait),
        cmocka_unit_test(refused_memory_never_leaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
