/* src/net/loop_test.c */
#include "net/loop.h"

#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "support/refuse.h"

static bool readable(struct belfry_loop *loop, int timeout_ms)
{
    struct pollfd poller = {.fd = belfry_loop_fd(loop), .events = POLLIN};
    return poll(&poller, 1, timeout_ms) == 1;
}

static void dispatch(struct belfry_loop *loop)
{
    assert_int_equal(belfry_loop_dispatch(loop), BELFRY_OK);
}

static struct belfry_loop *make(void)
{
    struct belfry_loop *loop;
    assert_int_equal(belfry_loop_create(&loop), BELFRY_OK);
    return loop;
}

static void count(uv_timer_t *timer)
{
    ++*(int *)timer->data;
}

static void timer_started_outside_makes_the_descriptor_readable_in_time(void **state)
{
    (void)state;
    struct belfry_loop *loop = make();
    int fired = 0;
    uv_timer_t timer = {.data = &fired};
    uv_timer_init(belfry_loop_uv(loop), &timer);
    uv_update_time(belfry_loop_uv(loop));
    uint64_t start = belfry_clock_ms();
    uv_timer_start(&timer, count, 50, 0);
    belfry_loop_rearm(loop);
    while (fired == 0) {
        assert_true(readable(loop, 1000));
        dispatch(loop);
    }
    assert_in_range(belfry_clock_ms() - start, 45, 900);
    assert_false(readable(loop, 0));
    uv_close((uv_handle_t *)&timer, NULL);
    belfry_loop_destroy(loop);
}

static void timeout_of_zero_makes_the_descriptor_readable_at_once(void **state)
{
    (void)state;
    struct belfry_loop *loop = make();
    int fired = 0;
    uv_timer_t timer = {.data = &fired};
    uv_timer_init(belfry_loop_uv(loop), &timer);
    uv_timer_start(&timer, count, 0, 0);
    belfry_loop_rearm(loop);
    assert_true(readable(loop, 1000));
    dispatch(loop);
    assert_int_equal(fired, 1);
    assert_false(readable(loop, 0));
    uv_close((uv_handle_t *)&timer, NULL);
    belfry_loop_destroy(loop);
}

static void idle_loop_with_a_far_timer_is_quiet(void **state)
{
    (void)state;
    struct belfry_loop *loop = make();
    assert_false(readable(loop, 0));
    int fired = 0;
    uv_timer_t timer = {.data = &fired};
    uv_timer_init(belfry_loop_uv(loop), &timer);
    uv_timer_start(&timer, count, 60000, 0);
    belfry_loop_rearm(loop);
    assert_false(readable(loop, 300));
    uv_close((uv_handle_t *)&timer, NULL);
    belfry_loop_destroy(loop);
}

static void timer_moved_nearer_and_farther_is_followed(void **state)
{
    (void)state;
    struct belfry_loop *loop = make();
    int fired = 0;
    uv_timer_t timer = {.data = &fired};
    uv_timer_init(belfry_loop_uv(loop), &timer);
    uv_timer_start(&timer, count, 60000, 0);
    belfry_loop_rearm(loop);
    uv_timer_start(&timer, count, 20, 0);
    belfry_loop_rearm(loop);
    uv_timer_start(&timer, count, 60000, 0);
    belfry_loop_rearm(loop);
    assert_false(readable(loop, 60));
    uv_timer_start(&timer, count, 20, 0);
    belfry_loop_rearm(loop);
    while (fired == 0) {
        assert_true(readable(loop, 1000));
        dispatch(loop);
    }
    uv_timer_start(&timer, count, 20, 0);
    belfry_loop_rearm(loop);
    uv_timer_stop(&timer);
    belfry_loop_rearm(loop);
    assert_false(readable(loop, 60));
    uv_close((uv_handle_t *)&timer, NULL);
    belfry_loop_destroy(loop);
}

/* A repeating timer must cost about one turn a period, not a turn for every clock tick in between. */
static void timers_do_not_make_the_loop_spin(void **state)
{
    (void)state;
    struct belfry_loop *loop = make();
    int fired = 0, turns = 0;
    uv_timer_t timer = {.data = &fired};
    uv_timer_init(belfry_loop_uv(loop), &timer);
    uv_timer_start(&timer, count, 10, 10);
    belfry_loop_rearm(loop);
    while (fired < 20) {
        assert_true(readable(loop, 1000));
        dispatch(loop);
        turns++;
    }
    assert_in_range(turns, 10, 60);
    uv_close((uv_handle_t *)&timer, NULL);
    belfry_loop_destroy(loop);
}

struct pair {
    int ends[2][2];
    uv_poll_t polls[2];
    int seen[2];
};

static void take_byte(uv_poll_t *poll, int status, int events)
{
    struct pair *pair = poll->data;
    size_t i = poll == &pair->polls[1];
    char byte;
    assert_int_equal(status, 0);
    assert_int_equal(events, UV_READABLE);
    assert_int_equal(read(pair->ends[i][0], &byte, 1), 1);
    pair->seen[i]++;
}

static void take_byte_and_arm_the_other(uv_poll_t *poll, int status, int events)
{
    struct pair *pair = poll->data;
    take_byte(poll, status, events);
    assert_int_equal(uv_poll_start(&pair->polls[1], UV_READABLE, take_byte), 0);
}

static void open_pair(struct belfry_loop *loop, struct pair *pair)
{
    memset(pair, 0, sizeof(*pair));
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair->ends[i]), 0);
        assert_int_equal(uv_poll_init(belfry_loop_uv(loop), &pair->polls[i], pair->ends[i][0]), 0);
        pair->polls[i].data = pair;
    }
}

static void close_pair(struct belfry_loop *loop, struct pair *pair)
{
    for (size_t i = 0; i < 2; i++)
        uv_close((uv_handle_t *)&pair->polls[i], NULL);
    belfry_loop_destroy(loop);
    for (size_t i = 0; i < 4; i++)
        close(pair->ends[i / 2][i % 2]);
}

static void send_byte(struct pair *pair, size_t i)
{
    assert_int_equal(write(pair->ends[i][1], "x", 1), 1);
}

/* Dispatches until the descriptor is quiet; a loop that never is quiet is caught. */
static int drain(struct belfry_loop *loop)
{
    int turns = 0;
    while (readable(loop, 0)) {
        dispatch(loop);
        assert_true(++turns < 10);
    }
    return turns;
}

static void socket_armed_outside_a_turn_wakes(void **state)
{
    (void)state;
    struct belfry_loop *loop = make();
    struct pair pair;
    open_pair(loop, &pair);
    assert_int_equal(uv_poll_start(&pair.polls[0], UV_READABLE, take_byte), 0);
    belfry_loop_rearm(loop);
    drain(loop);
    assert_false(readable(loop, 50));
    send_byte(&pair, 0);
    assert_true(readable(loop, 1000));
    drain(loop);
    assert_int_equal(pair.seen[0], 1);
    close_pair(loop, &pair);
}

static void socket_armed_inside_a_callback_wakes(void **state)
{
    (void)state;
    struct belfry_loop *loop = make();
    struct pair pair;
    open_pair(loop, &pair);
    assert_int_equal(uv_poll_start(&pair.polls[0], UV_READABLE, take_byte_and_arm_the_other), 0);
    belfry_loop_rearm(loop);
    send_byte(&pair, 0);
    assert_true(readable(loop, 1000));
    dispatch(loop);
    assert_int_equal(pair.seen[0], 1);
    /* One turn was enough: what its callbacks armed is in place, and there is nothing more to do. */
    assert_false(readable(loop, 50));
    send_byte(&pair, 1);
    assert_true(readable(loop, 1000));
    drain(loop);
    assert_int_equal(pair.seen[1], 1);
    close_pair(loop, &pair);
}

static void note_close(uv_handle_t *handle)
{
    *(bool *)handle->data = true;
}

static void closing_a_handle_completes_through_the_descriptor(void **state)
{
    (void)state;
    struct belfry_loop *loop = make();
    bool gone = false;
    uv_timer_t timer = {.data = &gone};
    uv_timer_init(belfry_loop_uv(loop), &timer);
    uv_close((uv_handle_t *)&timer, note_close);
    belfry_loop_rearm(loop);
    assert_true(readable(loop, 1000));
    dispatch(loop);
    assert_true(gone);
    assert_false(readable(loop, 50));
    belfry_loop_destroy(loop);
}

static void destroy_finishes_what_is_closing(void **state)
{
    (void)state;
    struct belfry_loop *loop = make();
    bool gone = false;
    uv_idle_t idle = {.data = &gone};
    uv_idle_init(belfry_loop_uv(loop), &idle);
    uv_close((uv_handle_t *)&idle, note_close);
    belfry_loop_destroy(loop);
    assert_true(gone);
    belfry_loop_destroy(NULL);
}

static void nothing(int signal_number)
{
    (void)signal_number;
}

static void wait_tells_readable_timeout_and_signal_apart(void **state)
{
    (void)state;
    struct belfry_loop *loop = make();
    assert_int_equal(belfry_loop_wait(loop, 20), BELFRY_ERR_TIMEOUT);
    struct sigaction old, action = {.sa_handler = nothing};
    sigaction(SIGALRM, &action, &old);
    struct itimerval soon = {.it_value.tv_usec = 20000};
    setitimer(ITIMER_REAL, &soon, NULL);
    assert_int_equal(belfry_loop_wait(loop, 5000), BELFRY_OK);
    sigaction(SIGALRM, &old, NULL);

    int fired = 0;
    uv_timer_t timer = {.data = &fired};
    uv_timer_init(belfry_loop_uv(loop), &timer);
    uv_timer_start(&timer, count, 1, 0);
    belfry_loop_rearm(loop);
    assert_int_equal(belfry_loop_wait(loop, -1), BELFRY_OK);
    uv_close((uv_handle_t *)&timer, NULL);
    belfry_loop_destroy(loop);
}

static enum belfry_err create_scenario(void)
{
    struct belfry_loop *loop;
    enum belfry_err err = belfry_loop_create(&loop);
    if (err == BELFRY_OK)
        belfry_loop_destroy(loop);
    return err;
}

static void refused_memory_is_reported(void **state)
{
    (void)state;
    assert_int_equal(refuse_sweep(create_scenario), 1);
}

static int lowest_free_descriptor(void)
{
    int fd = dup(0);
    close(fd);
    return fd;
}

static enum belfry_err create_with_descriptors_below(rlim_t limit)
{
    struct rlimit old;
    getrlimit(RLIMIT_NOFILE, &old);
    struct rlimit low = {limit, old.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    enum belfry_err err = create_scenario();
    setrlimit(RLIMIT_NOFILE, &old);
    return err;
}

/* Takes descriptors away one by one until our last two, the epoll and the timerfd, fail. Not further: libuv 1.44 leaks
 * what it had opened when its own fail. */
static void too_few_descriptors_are_reported_and_none_leaks(void **state)
{
    (void)state;
    assert_int_equal(create_scenario(), BELFRY_OK); /* libuv keeps a pipe of its own from the first loop on */
    int first = lowest_free_descriptor();
    rlim_t limit = (rlim_t)first + 64;
    while (create_with_descriptors_below(limit) == BELFRY_OK)
        assert_true(--limit > (rlim_t)first);
    assert_int_equal(create_with_descriptors_below(limit), BELFRY_ERR_LIMIT);
    assert_int_equal(create_with_descriptors_below(limit - 1), BELFRY_ERR_LIMIT);
    assert_int_equal(lowest_free_descriptor(), first);
}

static void a_wake_makes_the_descriptor_readable_until_a_dispatch(void **state)
{
    (void)state;
    struct belfry_loop *loop = make();
    errno = EDOM;
    belfry_loop_wake(loop);
    belfry_loop_wake(loop);
    assert_int_equal(errno, EDOM);
    assert_true(readable(loop, 0));
    assert_true(readable(loop, 0));
    dispatch(loop);
    assert_false(readable(loop, 0));
    belfry_loop_wake(loop);
    assert_true(readable(loop, 0));
    dispatch(loop);
    assert_false(readable(loop, 0));
    belfry_loop_destroy(loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(timer_started_outside_makes_the_descriptor_readable_in_time),
        cmocka_unit_test(timeout_of_zero_makes_the_descriptor_readable_at_once),
        cmocka_unit_test(idle_loop_with_a_far_timer_is_quiet),
        cmocka_unit_test(timer_moved_nearer_and_farther_is_followed),
        cmocka_unit_test(timers_do_not_make_the_loop_spin),
        cmocka_unit_test(socket_armed_outside_a_turn_wakes),
        cmocka_unit_test(socket_armed_inside_a_callback_wakes),
        cmocka_unit_test(closing_a_handle_completes_through_the_descriptor),
        cmocka_unit_test(destroy_finishes_what_is_closing),
        cmocka_unit_test(wait_tells_readable_timeout_and_signal_apart),
        cmocka_unit_test(a_wake_makes_the_descriptor_readable_until_a_dispatch),
        cmocka_unit_test(refused_memory_is_reported),
        cmocka_unit_test(too_few_descriptors_are_reported_and_none_leaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
